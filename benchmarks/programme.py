"""The time that each command takes with 100,000 people and 52 rounds of history."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from softfair.datasets import cpap
from softfair.programme.audit import audit
from softfair.programme.imports import import_history, import_people
from softfair.programme.models import fit
from softfair.programme.plans import make_plan
from softfair.programme.records import record
from softfair.programme.sample import RESPONSES
from softfair.programme.settings import initialise
from softfair.programme.store import Store

PEOPLE, ROUNDS = 100_000, 52
SOFTWARE = "softfair benchmark"

Row = tuple[str, float, str, float | None]


def files(folder: Path, people: int = PEOPLE, rounds: int = ROUNDS) -> tuple[Path, Path, Path]:
    """People, history, and what happened in the round after it."""
    rng = np.random.default_rng(0)
    p = cpap(n=people, seed=0, **RESPONSES).p
    names = np.array([f"person-{i:07d}" for i in range(people)])
    state = (rng.random(people) < 0.5).astype(np.int64)
    columns: dict[str, list[Any]] = {"id": [], "round": [], "state": [], "contacted": []}
    for r in range(1, rounds + 1):
        contacted = (rng.random(people) < 0.1).astype(np.int64)
        for name, values in zip(
            columns, (names, np.full(people, r), state, contacted), strict=True
        ):
            columns[name].append(values)
        state = (rng.random(people) < p[np.arange(people), contacted, state]).astype(np.int64)
    region = rng.choice(["north", "east", "south", "west"], people)
    tables = {
        "people.csv": {"id": names, "region": region},
        "history.csv": {name: np.concatenate(values) for name, values in columns.items()},
        "record.csv": {
            "id": names,
            "contacted": (rng.random(people) < 0.1).astype(np.int64),
            "state": state,
        },
    }
    for name, table in tables.items():
        pyarrow.csv.write_csv(pa.table(table), folder / name)
    return folder / "people.csv", folder / "history.csv", folder / "record.csv"


def programme() -> list[Row]:
    """In a SQLite file, or in the empty PostgreSQL database whose address SOFTFAIR_BENCH_DB has."""
    url = os.environ.get("SOFTFAIR_BENCH_DB")
    with tempfile.TemporaryDirectory() as folder:
        people, history, outcome = files(Path(folder))
        return timed(Store(url or f"{folder}/programme.db"), people, history, outcome)


def timed(database: Store, people: Path, history: Path, outcome: Path) -> list[Row]:
    initialise(database, SOFTWARE, seed=0)
    kind = "SQLite" if database.embedded else "PostgreSQL"
    rows: list[Row] = []

    def time(what: str, work: Callable[[], Any], goal: float | None = None) -> float:
        begun = perf_counter()
        work()
        seconds = perf_counter() - begun
        rows.append((f"{kind}: {what}", seconds, "s", goal))
        return seconds

    def named(what: str, work: Callable[[], Any], goal: float | None, whole: float) -> None:
        seconds = time(what, work, goal)
        rows.append((f"{kind}: {what}, of the import", 100 * seconds / whole, "%", None))

    time(f"import of {PEOPLE:,} people", lambda: import_people(database, people, SOFTWARE))
    whole = time(
        f"import of {PEOPLE * ROUNDS:,} rows of history",
        lambda: import_history(database, history, SOFTWARE),
    )
    rows.append(
        (
            f"{kind}: import of a million rows",
            whole * 1e6 / (PEOPLE * ROUNDS),
            "s",
            15 if database.embedded else 20,
        )
    )
    named("fit", lambda: fit(database, SOFTWARE), 10, whole)
    named("plan", lambda: make_plan(database, SOFTWARE), 10, whole)
    named("record", lambda: record(database, outcome, SOFTWARE), None, whole)
    named("audit", lambda: audit(database), 10, whole)
    memory = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024)
        / 2**30
    )
    rows.append((f"{kind}: highest memory of all of it", memory, "GiB", 2))
    return rows
