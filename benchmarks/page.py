"""The page under load: 50 people at once on the list and the fairness page, 10,000 beneficiaries.

A real server process is asked by threads; every time is compared with that of one person alone, in
the same run. A move of a slider is timed in a real Chromium, from the move until all four pictures
are drawn anew.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np

from softfair.programme.imports import import_history, import_people
from softfair.programme.plans import make_plan
from softfair.programme.settings import initialise
from softfair.programme.store import Store
from softfair.web.access import COOKIE
from softfair.web.accounts import begin_visit, new_account

from .programme import SOFTWARE, Row, files

PEOPLE, ROUNDS, VISITORS, SECONDS = 10_000, 20, 50, 60.0
SLIDER = 1000  # people for whom a move of the slider is timed


def _programme(folder: Path, people: int) -> Store:
    named, history, _ = files(folder, people, ROUNDS)
    database = Store(str(folder / "page.db"))
    initialise(database, SOFTWARE, capacity=people // 10, seed=0)
    import_people(database, named, SOFTWARE)
    import_history(database, history, SOFTWARE)
    make_plan(database, SOFTWARE, sure=True)
    return database


@contextlib.contextmanager
def _served(database: Store) -> Iterator[str]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [sys.executable, "-c", "from softfair.cli import main; main()", "serve"]
    command += ["--db", database.name, "--port", str(port)]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL) as running:
        address = f"http://127.0.0.1:{port}"
        while running.poll() is None:
            with contextlib.suppress(httpx2.HTTPError):
                httpx2.get(address)
                break
            time.sleep(0.2)
        try:
            yield address
        finally:
            os.killpg(running.pid, signal.SIGTERM)


def _visit(address: str, key: str, until: float, times: list[float], errors: list[int]) -> None:
    rng = np.random.default_rng(threading.get_ident() % 2**32)
    with httpx2.Client(base_url=address, cookies={COOKIE: key}, timeout=120) as client:
        while time.monotonic() < until:
            place = rng.choice(["/round/20", f"/fairness/part?position={rng.integers(0, 101)}"])
            begun = time.monotonic()
            answer = client.get(str(place))
            times.append(time.monotonic() - begun)
            if answer.status_code != 200:
                errors.append(answer.status_code)


def _together(address: str, key: str, visitors: int, seconds: float) -> tuple[list[float], int]:
    """Times of all requests, and how many failed."""
    times: list[float] = []
    errors: list[int] = []
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_visit, args=(address, key, until, times, errors))
        for _ in range(visitors)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, len(errors)


# Moves a slider to each of some places in turn; the milliseconds until the last picture is drawn.
MOVES = """async ([name, places]) => {
  const slider = document.querySelector(`input[name=${name}]`);
  const last = document.querySelector("[data-chart=rates]");
  const times = [];
  for (const place of places) {
    const drawn = last.dataset.drawn, begun = performance.now();
    slider.value = place;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    while (last.dataset.drawn === drawn) await new Promise((done) => setTimeout(done, 1));
    times.push(performance.now() - begun);
  }
  return times;
}"""


def slider(small: bool) -> list[Row]:
    """Moves of the sliders in a browser, each to a place where nobody was before.

    Parameters
    ----------
    small : bool
        Fewer moves.

    Returns
    -------
    list of Row
        None if there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    path = os.environ.get("SOFTFAIR_CHROMIUM") or shutil.which("chromium")
    if path is None:
        print("no Chromium, so no move of a slider is timed; see: make browser", file=sys.stderr)
        return []
    places = {"position": [*range(3, 98, 20 if small else 3)], "even": [*range(1, 24, 3)]}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        database = _programme(Path(folder), SLIDER)
        key = begin_visit(database, new_account(database, "viewer", "viewer", None))
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with _served(database) as address:
            context = browser.new_context(base_url=address)
            context.add_cookies([{"name": COOKIE, "value": key, "url": address}])
            tab = context.new_page()
            tab.set_default_timeout(300_000)
            tab.goto("/fairness")
            tab.locator("[data-chart=rates][data-drawn]").wait_for()
            times = {name: tab.evaluate(MOVES, [name, some]) for name, some in places.items()}
        browser.close()
    what = {"position": "c", "even": "evenness"}
    return [
        (
            f"slider over {what[name]} to pictures, {SLIDER:,} people, {len(some)} moves, "
            f"95th percentile (median {np.median(some):.0f})",
            float(np.quantile(some, 0.95)),
            "ms",
            300,
        )
        for name, some in times.items()
    ]


def page(small: bool) -> list[Row]:
    """The page alone and under load.

    Parameters
    ----------
    small : bool
        A tenth of everything.

    Returns
    -------
    list of Row
    """
    people, seconds = (SLIDER, 6.0) if small else (PEOPLE, SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        database = _programme(Path(folder), people)
        account = new_account(database, "viewer", "viewer", None)
        key = begin_visit(database, account)
        with _served(database) as address:
            with httpx2.Client(base_url=address, cookies={COOKIE: key}, timeout=300) as client:
                for place in ("/round/20", "/fairness", "/fairness/part?position=9"):
                    assert client.get(place).status_code == 200, place
            alone, _ = _together(address, key, 1, seconds / 6)
            crowd, errors = _together(address, key, VISITORS, seconds)
    single, p95 = float(np.quantile(alone, 0.95)), float(np.quantile(crowd, 0.95))
    of = f"{people:,} people"
    return [
        (f"page, one visitor, 95th percentile, {of}", 1000 * single, "ms", None),
        (f"page, {VISITORS} visitors, {len(crowd)} requests, errors", errors, "", 0),
        (f"page, {VISITORS} visitors, 95th percentile", p95 / single, "times that of one", 10),
    ]
