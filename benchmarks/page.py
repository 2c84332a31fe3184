"""The page under load: 50 people at once on the list and the fairness page, 10,000 beneficiaries.

Threads send requests to a real server process. Times are compared with those of one visitor alone
in the same run: times of visitors who look at a page before they ask for the next, and times of
programs that do not, so that 50 requests are under way all the time. If an answer only says how far
its work is, the thread asks again, as the page does, and the time goes on.

A move of a slider is timed in a real Chromium, from the move until all four pictures are drawn.
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
from softfair.programme.plans import PlanWish, make_plan
from softfair.programme.settings import initialise
from softfair.programme.store import Store
from softfair.web.access import COOKIE
from softfair.web.accounts import begin_visit, new_account

from .programme import SOFTWARE, Row, files

PEOPLE, ROUNDS, VISITORS, SECONDS = 10_000, 20, 50, 60.0
LOOKS = 5.0  # seconds that a visitor looks at a page, on average
AGAIN = 1.0  # seconds after which a page asks whether its work is done
SLIDER = 1000  # people for whom a move of the slider is timed


def _programme(folder: Path, people: int) -> tuple[Store, int]:
    """A programme with a list, and its round."""
    files(folder, people, ROUNDS)
    database = Store(str(folder / "page.db"))
    initialise(database, SOFTWARE, capacity=people // 10, seed=0)
    import_people(database, folder / "people.csv", SOFTWARE)
    import_history(database, folder / "history.csv", SOFTWARE)
    plan, _ = make_plan(database, SOFTWARE, PlanWish(sure=True))
    return database, plan.round


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


class _Crowd:
    """People who ask a server for the list and the fairness page."""

    def __init__(self, address: str, key: str, round: int) -> None:
        self.address, self.key, self.round = address, key, round

    def together(self, visitors: int, seconds: float, looks: float) -> tuple[list[float], int]:
        """Times of all requests of some visitors at once, and the number of failed requests."""
        times: list[float] = []
        errors: list[int] = []
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._visit, args=(seed, until, looks, times, errors))
            for seed in range(visitors)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return times, len(errors)

    def _visit(
        self, seed: int, until: float, looks: float, times: list[float], errors: list[int]
    ) -> None:
        rng = np.random.default_rng(seed)
        with self.client() as client:
            time.sleep(looks * rng.random())
            while time.monotonic() < until:
                part = f"/fairness/part?position={rng.integers(0, 101)}"
                begun = time.monotonic()
                code = self.ask(client, str(rng.choice([f"/round/{self.round}", part])))
                times.append(time.monotonic() - begun)
                if code != 200:
                    errors.append(code)
                time.sleep(looks * 2 * rng.random())

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.address, cookies={COOKIE: self.key}, timeout=300)

    def ask(self, client: httpx2.Client, place: str) -> int:
        """The status code of the answer, when the work for it is done."""
        while "x-working" in (answer := client.get(place)).headers:
            time.sleep(AGAIN)
        return answer.status_code


# Moves a slider to each of some places in turn, and returns the milliseconds from each move until
# the last picture is drawn. The slider has a name, or belongs to a target or promise (a wish).
MOVES = """async ([name, wish, places]) => {
  const form = document.getElementById("goal");
  if (wish) {
    form.elements.goal.value = wish;
    form.elements.goal.dispatchEvent(new Event("change"));
  }
  const own = `input[type=range][name=${name}]`;
  const slider = wish ? form.querySelector("input[type=range]") : document.querySelector(own);
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
SLIDERS = {  # description of the slider: its name, the wish that it belongs to, and places
    "c": ("position", "", range(3, 98, 3)),
    "evenness at the last of these": ("even", "", range(1, 24, 3)),
    "the benefit as a target": ("", "benefit", range(50, 99, 7)),
    "the wait as a target": ("", "wait", range(12, 40, 4)),
    "who is never contacted, guaranteed": ("", "never", range(12, 40, 4)),
    "a promised chance": ("", "promised-chance", range(1, 9)),
    "a promised wait": ("", "promised-wait", range(12, 26, 2)),
}


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
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        database, _ = _programme(Path(folder), SLIDER)
        key = begin_visit(database, new_account(database, "viewer", "viewer", None))
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with _served(database) as address:
            context = browser.new_context(base_url=address)
            context.add_cookies([{"name": COOKIE, "value": key, "url": address}])
            tab = context.new_page()
            tab.set_default_timeout(300_000)
            tab.goto("/fairness")
            tab.locator("[data-chart=rates][data-drawn]").wait_for()
            for what, (name, wish, places) in SLIDERS.items():
                some = [*places][:: 3 if small else 1]
                times[what] = tab.evaluate(MOVES, [name, wish, some])
        browser.close()
    return [
        (
            f"slider over {what} to pictures, {SLIDER:,} people, {len(some)} moves, "
            f"95th percentile (median {np.median(some):.0f})",
            float(np.quantile(some, 0.95)),
            "ms",
            300,
        )
        for what, some in times.items()
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
        database, round = _programme(Path(folder), people)
        account = new_account(database, "viewer", "viewer", None)
        with _served(database) as address:
            crowd = _Crowd(address, begin_visit(database, account), round)
            with crowd.client() as client:
                for place in (f"/round/{round}", "/fairness"):
                    assert crowd.ask(client, place) == 200, place
            alone, _ = crowd.together(1, seconds / 3, 0.0)
            looking, failed = crowd.together(VISITORS, seconds, LOOKS)
            rushing, failed_too = crowd.together(VISITORS, seconds, 0.0)
    single, p95, rush = (float(np.quantile(some, 0.95)) for some in (alone, looking, rushing))
    many, errors = len(looking) + len(rushing), failed + failed_too
    return [
        (f"page, one visitor, 95th percentile, {people:,} people", 1000 * single, "ms", None),
        (f"page, {VISITORS} visitors, {many} requests, errors", errors, "", 0),
        (f"page, {VISITORS} visitors, 95th percentile", p95 / single, "times that of one", 10),
        (f"page, {VISITORS} programs without a pause", rush / single, "times that of one", 10),
    ]
