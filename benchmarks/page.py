"""The page under load: 50 people at once on the list and the fairness page, 10,000 beneficiaries.

A real server process is asked by threads; every time is compared with that of one person alone, in
the same run.
"""

from __future__ import annotations

import contextlib
import os
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
