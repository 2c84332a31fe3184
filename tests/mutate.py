"""Which mutants of a room do its tests notice? `make mutate ROOM=metrics SAMPLE=100`

Cosmic Ray makes the mutants. A mutant is one small change of an operator, a number, a condition or
a branch. A sample of places is drawn with a fixed seed, with one mutant at each place. The tests
that execute the changed statement run on a copy of the repository, the quickest first, until one
fails: then the mutant is killed. The output has the diff of every survivor, and the rate of killed
mutants with its 95 % interval (Clopper and Pearson). A survivor is a missing test, or a change
without effect. Annotations and arguments that only guard against misuse (`strict`, `frozen`, `eq`)
are not mutated, because no test can notice such a change.

The tests for one mutant take at most `--seconds` of CPU together on the unchanged code; otherwise a
survivor in a statement that hundreds of tests execute would cost as much as the whole suite. A
mutant that only later or slow tests would notice counts as a survivor, so the printed rate is never
too high. `--seen FILE` keeps in a file which test executes which lines. The file can be used for
other samples as long as neither sources nor tests change.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import itertools
import multiprocessing
import os
import pickle
import queue
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import HealthCheck, Phase, settings
from scipy.stats import beta

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src") / "softfair"
#: Room -> the test files that should notice its mutants.
ROOMS = {
    "metrics": ["test_metrics"],
    "sampling": ["test_sampling"],
    "policies": [
        "test_budgets",
        "test_cli",
        "test_costs",
        "test_evenhanded",
        "test_fair",
        "test_frames",
        "test_own_policies",
        "test_policies",
        "test_promises",
        "test_rewards",
        "test_saving",
        "test_shares",
        "test_simulation",
        "test_solvers",
        "test_wait_and_households",
        "test_wait_and_shares",
    ],
    "estimate": ["test_contexts", "test_estimate", "test_outlook"],
    "programme": [
        "test_audit",
        "test_chain",
        "test_commands",
        "test_commitments",
        "test_doors",
        "test_evenhanded_programme",
        "test_ingest",
        "test_luck",
        "test_memory",
        "test_messy_programme",
        "test_officer",
        "test_outlook",
        "test_plans",
        "test_programme",
        "test_promise_programme",
        "test_records",
        "test_reserve_programme",
        "test_several",
        "test_share_programme",
        "test_store",
        "test_tracks",
        "test_tradeoff",
        "test_trial",
        "test_wait_and_households",
        "test_wait_and_shares",
    ],
}
GUARDS = {"strict", "frozen", "eq"}  # arguments that change nothing in correct code
PATIENCE = 5  # a test that takes this many times as long as on the unchanged code is ended
HOPELESS = 1800  # seconds after which a test is ended that waits without using a processor
#: Every run of the tests is a fork of one process that has loaded the libraries.
WARM = multiprocessing.get_context("forkserver")
LIBRARIES = ["numba", "pandas", "scipy.optimize", "scipy.stats", "matplotlib.pyplot", "sqlalchemy"]


@dataclass(frozen=True)
class Mutant:
    file: Path  # from the root
    line: int
    operator: str
    code: str  # of the whole file


@dataclass(frozen=True)
class Seen:
    """The time and the executed lines of a test on the unchanged code."""

    seconds: float  # of CPU
    lines: dict[Path, set[int]]  # executed, of each file of the room
    shares: str  # its module, if it uses a fixture that the module's tests share


def silent_places(source: str) -> set[tuple[int, int]]:
    """Line and column of everything inside an annotation or an argument that is a guard."""
    places: set[tuple[int, int]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.AnnAssign, ast.arg)):
            span = node.annotation
        elif isinstance(node, ast.FunctionDef):
            span = node.returns
        elif isinstance(node, ast.keyword) and node.arg in GUARDS:
            span = node.value
        else:
            continue
        if span is not None:
            places |= {
                (line, column)
                for line in range(span.lineno, span.end_lineno + 1)
                for column in range(span.col_offset, span.end_col_offset + 1)
            }
    return places


def places(file: Path, luck: random.Random) -> Iterator[tuple[Path, int, str, int]]:
    """For each place of a file: file, line, an operator, and the number of its occurrence."""
    source = (ROOT / file).read_text(encoding="utf-8")
    silent = silent_places(source)
    by_place: dict[tuple[int, int], list[tuple[str, int]]] = {}
    nodes = list(ast_nodes(get_ast(source)))
    for name in operator_names():
        if get_operator(name).arguments():
            continue  # needs a configuration of its own
        operator = get_operator(name)()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, place in enumerate(starts):
            if place not in silent:
                by_place.setdefault(place, []).append((name, occurrence))
    for (line, _), operators in sorted(by_place.items()):
        yield file, line, *luck.choice(operators)


def mutant_at(file: Path, line: int, name: str, occurrence: int) -> Mutant | None:
    """The mutant; None where the operator cannot make one."""
    source = (ROOT / file).read_text(encoding="utf-8")
    try:
        code = mutate_code(source.encode(), get_operator(name)(), occurrence)
    except AttributeError:  # Cosmic Ray knows no exceptions of another module: except a.b
        return None
    return None if code is None else Mutant(file, line, name, code)


def files_of(room: str) -> list[Path]:
    """The room's files: a module, or every module of a folder."""
    folder = ROOT / PACKAGE / room
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return [file.relative_to(ROOT) for file in files if file.name != "__init__.py"]


class Watch:
    """A pytest plugin: which lines of the room each test executes, and the CPU time it takes."""

    def __init__(self, copy: Path, room: str, notes: Path) -> None:
        self.files = {str((copy / file).resolve()): file for file in files_of(room)}
        self.notes = notes
        self.seconds: dict[str, float] = {}
        self.modules: dict[str, str] = {}

    def pytest_sessionstart(self) -> None:
        # Its tracer is compiled: one in Python takes several times as long as the tests.
        self.tracer = coverage.Coverage(data_file=None, include=list(self.files), config_file=False)
        self.tracer.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun = time.process_time()
        self.tracer.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            shares = item.get_closest_marker("xdist_group")  # see conftest.py
            self.modules[item.nodeid] = str(shares.args[0]) if shares else ""
            self.seconds[item.nodeid] = time.process_time() - begun

    def pytest_sessionfinish(self) -> None:
        self.tracer.stop()
        data = self.tracer.get_data()
        lines: dict[str, dict[Path, set[int]]] = {test: {} for test in self.seconds}
        for name, file in self.files.items():
            for line, executing in data.contexts_by_lineno(name).items():
                for test in filter(None, executing):  # no name: while tests were collected
                    lines[test].setdefault(file, set()).add(line)
        seen = {
            test: Seen(seconds, lines[test], self.modules[test])
            for test, seconds in self.seconds.items()
        }
        self.notes.write_bytes(pickle.dumps(seen))


class Haste:
    """A pytest plugin: runs only these tests, in this order, and ends a test that loops."""

    def __init__(self, chosen: dict[str, Seen]) -> None:
        self.chosen = chosen

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        place = {name: number for number, name in enumerate(self.chosen)}
        items[:] = [item for item in items if item.nodeid in place]
        items.sort(key=lambda item: place[item.nodeid])

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        # A limit of CPU time, which a busy machine does not use up. Its signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, PATIENCE * (1 + self.chosen[item.nodeid].seconds))


def statement_at(source: str, line: int) -> range:
    """The lines of the statement at a line, without its body; none if it is executed at import.

    The head of a function, such as a decorator or a default, counts as its body: tests that call
    the function can notice a change.
    """
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
        and min([node.lineno, *(x.lineno for x in getattr(node, "decorator_list", ()))]) <= line
        and line <= node.end_lineno
    ]
    if not any(isinstance(node, ast.FunctionDef) for node in around):
        return range(0)
    innermost = max(around, key=lambda node: (node.lineno, -node.end_lineno))
    body = getattr(innermost, "body", None)
    if isinstance(innermost, ast.FunctionDef):
        return range(innermost.body[0].lineno, innermost.end_lineno + 1)
    return range(innermost.lineno, body[0].lineno if body else innermost.end_lineno + 1)


def likely(mutant: Mutant, tests: dict[str, Seen], seconds: float) -> dict[str, Seen]:
    """The tests that can notice a mutant, in the order in which they run.

    Tests that execute the changed statement come first, the quickest first. Then come tests that
    share a fixture of their module with one of these, because only the first test is seen to
    execute the lines of a fixture. If no test executes the statement, it may be executed at import:
    then the tests that execute anything of the file are taken, or all tests. Together the tests
    take at most ``seconds``, except that the first is always taken.
    """
    lines = set(statement_at((ROOT / mutant.file).read_text(encoding="utf-8"), mutant.line))
    of_file = {
        name: test.lines[mutant.file] for name, test in tests.items() if mutant.file in test.lines
    }
    direct = {name for name, seen in of_file.items() if seen & lines} or set(of_file) or set(tests)
    modules = {tests[name].shares for name in direct} - {""}
    able = [name for name, test in tests.items() if name in direct or test.shares in modules]
    able.sort(key=lambda name: (name not in direct, tests[name].seconds))
    ends = itertools.accumulate(tests[name].seconds for name in able)
    return {
        name: tests[name]
        for number, (name, end) in enumerate(zip(able, ends, strict=True))
        if number == 0 or end <= seconds
    }


def run(copy: Path, room: str, plugin: Watch | Haste) -> None:
    """Run the room's tests on a copy of the repository; end the process with pytest's code."""
    os.setsid()  # its children are ended with it
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy / "src")
    sys.path.insert(0, str(copy / "src"))
    # Bytecode of unchanged files is kept for later runs; bytecode of a mutant is not.
    sys.dont_write_bytecode = isinstance(plugin, Haste)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1" if sys.dont_write_bytecode else ""
    # One failure is enough: Hypothesis does not shrink it. There are no deadlines by the clock.
    settings.register_profile(
        "mutate",
        database=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    if isinstance(plugin, Haste):
        names = sorted({name.split("::")[0] for name in plugin.chosen})
    else:
        names = [
            str(file) for stem in ROOMS[room] for file in sorted(Path("tests").glob(f"{stem}*.py"))
        ]
    options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    options += ["--hypothesis-profile", "mutate"]
    os._exit(pytest.main([*options, *names], plugins=[plugin]))  # libraries take long to end


def test(copy: Path, room: str, plugin: Watch | Haste, seconds: float | None) -> str:
    """Run the room's tests in a warm process; returns "killed", "survived" or "for ever"."""
    process = WARM.Process(target=run, args=(copy, room, plugin))
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return "for ever"
    return "killed" if process.exitcode else "survived"


def diff(mutant: Mutant) -> str:
    before = (ROOT / mutant.file).read_text(encoding="utf-8").splitlines()
    after = mutant.code.splitlines()
    lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[3:]
    return f"{mutant.file}:{mutant.line} {mutant.operator}\n" + "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seen", type=Path)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()

    os.environ["NUMBA_NUM_THREADS"] = "1"
    WARM.set_forkserver_preload(["__main__", *LIBRARIES])
    luck = random.Random(given.seed)
    every = [place for file in files_of(given.room) for place in places(file, luck)]
    luck.shuffle(every)
    made = (mutant for place in every if (mutant := mutant_at(*place)) is not None)
    chosen = list(itertools.islice(made, given.sample))
    with tempfile.TemporaryDirectory() as folder:
        copies: queue.Queue[Path] = queue.Queue()
        for worker in range(given.workers):
            copy = Path(folder) / str(worker)
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "out"))
            copies.put(copy)
        notes = given.seen or Path(folder) / "seen"
        if not notes.exists():
            first = copies.get()
            watch = Watch(first, given.room, notes.resolve())
            if test(first, given.room, watch, None) != "survived":
                sys.exit(f"the tests of {given.room} fail without any mutation: mend them first")
            copies.put(first)
        tests: dict[str, Seen] = pickle.loads(notes.read_bytes())

        def judge(mutant: Mutant) -> tuple[Mutant, str]:
            able = likely(mutant, tests, given.seconds)
            if not able:
                return mutant, "survived"
            copy = copies.get()
            target = copy / mutant.file
            sound = target.read_bytes()
            try:
                target.write_text(mutant.code, encoding="utf-8")
                return mutant, test(copy, given.room, Haste(able), HOPELESS)
            finally:
                target.write_bytes(sound)
                copies.put(copy)

        survivors, killed = [], 0
        with ThreadPoolExecutor(given.workers) as pool:
            for number, (mutant, outcome) in enumerate(pool.map(judge, chosen), 1):
                print(f"{number} of {len(chosen)}: {outcome}", file=sys.stderr, flush=True)
                killed += outcome != "survived"
                if outcome == "survived":
                    survivors.append(mutant)
                    print(diff(mutant), flush=True)
    total = len(chosen)
    low = beta.ppf(0.025, killed, total - killed + 1) if killed else 0.0
    high = beta.ppf(0.975, killed + 1, total - killed) if killed < total else 1.0
    print(
        f"{given.room}: {killed} of {total} mutants killed, {killed / total:.0%} "
        f"(95 %: {low:.0%} to {high:.0%}), of {len(every)} places"
    )


if __name__ == "__main__":
    main()
