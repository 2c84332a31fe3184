"""Which mutants of a room do its tests notice? `make mutate ROOM=metrics SAMPLE=100`

Cosmic Ray makes the mutants: one small change of an operator, a number, a condition or a branch. A
sample of places is drawn with a fixed seed, one mutant at each, and the room's tests are run on a
copy of the repository. The rate of mutants killed is printed with its 95 % interval (Clopper and
Pearson), then every survivor as a diff: a survivor is a missing test, or a change without effect.
Annotations are left out, because no test can notice them.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from scipy.stats import beta

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src") / "softfair"
#: Room -> the test files that are to notice its mutants.
ROOMS = {
    "metrics": ["test_metrics"],
    "sampling": ["test_sampling"],
    "policies": ["test_policies", "test_fair", "test_solvers", "test_simulation"],
    "estimate": ["test_estimate"],
    "programme": ["test_ingest", "test_programme", "test_commands", "test_audit", "test_store"],
}
PATIENCE = 5  # a mutant that takes so many times as long as the sound code loops for ever


@dataclass(frozen=True)
class Mutant:
    file: Path  # from the root
    line: int
    operator: str
    code: str  # of the whole file


def annotated(source: str) -> set[tuple[int, int]]:
    """Line and column of everything inside an annotation."""
    places: set[tuple[int, int]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.AnnAssign, ast.arg)):
            span = node.annotation
        elif isinstance(node, ast.FunctionDef):
            span = node.returns
        else:
            continue
        if span is not None:
            places |= {
                (line, column)
                for line in range(span.lineno, span.end_lineno + 1)
                for column in range(span.col_offset, span.end_col_offset + 1)
            }
    return places


def mutants(file: Path, luck: random.Random) -> Iterator[Mutant]:
    """One mutant at each place of a file, in random order."""
    source = (ROOT / file).read_text(encoding="utf-8")
    silent = annotated(source)
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
    places = sorted(by_place)
    luck.shuffle(places)
    for place in places:
        name, occurrence = luck.choice(by_place[place])
        code = mutate_code(source.encode(), get_operator(name)(), occurrence)
        if code is not None:
            yield Mutant(file, place[0], name, code)


def files_of(room: str) -> list[Path]:
    """The room's files: a module, or every module of a folder."""
    folder = ROOT / PACKAGE / room
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return [file.relative_to(ROOT) for file in files if file.name != "__init__.py"]


def test(copy: Path, room: str, seconds: float | None) -> str:
    """Run the room's tests on a copy of the repository: "killed", "survived" or "for ever"."""
    names = [
        str(file) for stem in ROOMS[room] for file in sorted((copy / "tests").glob(f"{stem}*.py"))
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "NUMBA_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*command, *names],
            cwd=copy,
            env=environment,
            timeout=seconds,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "for ever"
    return "killed" if done.returncode else "survived"


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
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()

    luck = random.Random(given.seed)
    every = [mutant for file in files_of(given.room) for mutant in mutants(file, luck)]
    chosen = luck.sample(every, min(given.sample, len(every)))
    with tempfile.TemporaryDirectory() as folder:
        copies: queue.Queue[Path] = queue.Queue()
        for worker in range(given.workers):
            copy = Path(folder) / str(worker)
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "out"))
            copies.put(copy)
        begun = time.monotonic()
        first = copies.get()
        if test(first, given.room, None) != "survived":
            sys.exit(f"the tests of {given.room} fail without any mutation: mend them first")
        seconds = PATIENCE * given.workers * (time.monotonic() - begun)
        copies.put(first)

        def judge(mutant: Mutant) -> tuple[Mutant, str]:
            copy = copies.get()
            target = copy / mutant.file
            sound = target.read_bytes()
            try:
                target.write_text(mutant.code, encoding="utf-8")
                return mutant, test(copy, given.room, seconds)
            finally:
                target.write_bytes(sound)
                copies.put(copy)

        survivors, killed = [], 0
        with ThreadPoolExecutor(given.workers) as pool:
            for mutant, outcome in pool.map(judge, chosen):
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
