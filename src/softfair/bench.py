"""Benchmarks that run wherever the package is installed.

Times are ratios to the time of other work in the same run, each the best of several tries, because
seconds alone say little on a shared machine. `make bench` in the repository adds benchmarks that
need the packages of the tests.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, sampling
from .errors import InvalidInput
from .experiments import find, run
from .kernels import recursion
from .kernels.rules import RuleCode
from .kernels.threads import get_threads, map_parts
from .kernels.yardstick import exponentials
from .solvers import solve_evenhanded
from .solvers.priced import solve_priced
from .solvers.sweeps import sweep
from .solvers.welfare import WELFARES
from .terminal import Table, say
from .terminal import show as show_table

__all__ = ["PARTS", "Part", "Row", "best", "measure", "reached", "show"]

#: What was measured, the figure, its unit, and the goal. The figure should be at most the goal; if
#: the goal is negative, at least minus the goal.
Row = tuple[str, float, str, float | None]
#: A benchmark. If its argument is true, it uses a tenth of the sizes, to show that everything runs.
Part = Callable[[bool], list[Row]]


def best(work: Callable[[], Any], repeats: int = 5) -> float:
    """Time some work.

    Parameters
    ----------
    work : callable
        The work, called without arguments.
    repeats : int
        How often the work is timed.

    Returns
    -------
    float
        Seconds of the fastest run, without a first run (compilation, page faults).
    """
    work()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def priced_pass(small: bool) -> list[Row]:
    """One pass of the priced solver, relative to its exponentials, and a whole solve."""
    n, T = (100_000 if small else 1_000_000), 52
    cohort = datasets.synthetic(n, seed=0)
    theta = solve_priced(cohort, n // 10, T, 1.0, 10.0, 1e-6).theta
    floor = best(lambda: map_parts(exponentials, n, recursion.PART, 4 * T))
    one_pass = best(lambda: sweep(cohort, theta, 10.0, 1.0, RuleCode.PRICED))
    whole = best(lambda: solve_priced(cohort, n // 10, T, 1.0, 10.0, 1e-6), 3)
    return [
        (
            f"priced pass, n = {n:,}, T = {T}",
            one_pass / floor,
            "times 4 n T exponentials in the same kernels",
            3,
        ),
        (
            f"whole priced solve to 1e-6, c = 10, n = {n:,}",
            whole / one_pass,
            "full passes' worth of time",
            8,
        ),
    ]


def evenhanded(small: bool) -> list[Row]:
    """Solves with a weight on evenness, relative to solves without, and their growth with n."""
    n, T = (200 if small else 1000), 50
    cohort = datasets.synthetic(n, seed=0)
    rows: list[Row] = []
    for c in (10.0, 50.0):
        plain = best(lambda c=c: solve_priced(cohort, n // 10, T, 1.0, c), 3)  # type: ignore[misc]
        for welfare in WELFARES:
            setting = (cohort, n // 10, T, 1.0, c, float(n), welfare)
            even = best(lambda setting=setting: solve_evenhanded(*setting), 3)  # type: ignore[misc]
            rows.append(
                (f"EvenHanded, {welfare}, n = {n:,}, c = {c:g}", even / plain, "priced solves", 6)
            )
    least = None
    for size in (10_000, 100_000) if small else (10_000, 100_000, 1_000_000):
        many = datasets.synthetic(size, seed=0)
        large = (many, size // 10, T, 1.0, 10.0, float(size), "entropy", None, 1e-6)
        seconds = best(lambda large=large: solve_evenhanded(*large), 1) / size  # type: ignore[misc]
        least = seconds if least is None else least
        rows.append(
            (f"EvenHanded, entropy, n = {size:,}", seconds / least, "times an arm at 10,000", 1.5)
        )
    return rows


def priced_memory(small: bool) -> list[Row]:
    """Memory that the priced solver takes beyond P, measured in a separate process."""
    n = 100_000 if small else 1_000_000
    code = (
        "import resource, sys, softfair as sf\n"
        "from softfair.solvers.priced import solve_priced\n"
        # A first solve, so that the memory of compiled code and samples is not counted.
        "solve_priced(sf.datasets.synthetic(40_000, seed=1), 4_000, 52, 1.0, 10.0, 1e-6)\n"
        "n = int(sys.argv[1]); cohort = sf.datasets.synthetic(n, seed=0)\n"
        "import gc; gc.collect(); page = resource.getpagesize()\n"
        "held = int(open('/proc/self/statm').read().split()[1]) * page\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"  # sets the highest memory to the present
        "solve_priced(cohort, n // 10, 52, 1.0, 10.0, 1e-6)\n"
        "lines = [l for l in open('/proc/self/status') if l.startswith('VmHWM')]\n"
        "peak = int(lines[0].split()[1]) * 1024\n"
        "print((peak - held) / n)\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(n)], capture_output=True, text=True, check=True
        )
    except (subprocess.CalledProcessError, OSError):  # no such files on this system
        return []
    return [
        (f"memory of the priced solve beyond P, n = {n:,}", float(done.stdout), "bytes an arm", 40)
    ]


def inclusion(small: bool) -> list[Row]:
    """Inclusion probabilities of both designs, relative to the same number of exponentials."""
    n = 100_000 if small else 1_000_000
    z = np.random.default_rng(0).normal(size=n)
    floor = best(lambda: np.exp(z), 20)
    rows: list[Row] = []
    for design, target in (("successive", 5), ("joint", 20)):
        time_taken = best(
            lambda d=design: sampling.inclusion(z, n // 10, d),  # type: ignore[misc]
            20,
        )
        rows.append(
            (
                f"inclusion, {design}, n = {n:,}, k = n/10",
                time_taken / floor,
                "times n NumPy exponentials",
                target,
            )
        )
    return rows


def start(small: bool) -> list[Row]:
    """The time of the import, and the number of kernels that a second process compiles."""

    def seconds(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], check=True), 3)

    bare = seconds("pass")
    compiles = (
        "import numba.core.event as e\n"
        "class L(e.Listener):\n    n = 0\n"
        "    def on_start(self, x): L.n += 1\n    def on_end(self, x): pass\n"
        "e.register('numba:compile', L())\nimport softfair as sf\n"
        "f = sf.SoftFair().fit(sf.datasets.synthetic(100), 10, 20)\n"
        "sf.simulate(f); f.inclusion(0, [0] * 100)\nprint(L.n)\n"
    )
    command = [sys.executable, "-c", compiles]
    subprocess.run(command, check=True, capture_output=True)  # fills the cache
    second = subprocess.run(command, check=True, capture_output=True, text=True)
    return [
        (
            "import softfair",
            seconds("import softfair") - bare,
            "seconds beyond Python's own start",
            0.5,
        ),
        ("kernels compiled by a second process", float(second.stdout), "", 0),
    ]


def reproduction(small: bool) -> list[Row]:
    """The time of the whole evaluation of the paper, and the shares of experiments and policies."""
    experiments = [experiment.small() for experiment in find([])] if small else find([])
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        run(experiments, Path(folder), runs=10 if small else 50)
        whole = time.perf_counter() - begun
        records = [
            json.loads(path.read_text()) for path in sorted(Path(folder, "results").glob("*.json"))
        ]
    spent: Counter[str] = Counter()
    rows: list[Row] = [(f"softfair reproduce{' --quick' if small else ''}", whole, "seconds", 300)]
    total = sum(sum(record["seconds"].values()) for record in records)
    for record in records:
        spent.update(record["seconds"])
        share = 100 * sum(record["seconds"].values()) / total
        rows.append((f"   {record['settings']['id']}", share, "% of the work", None))
    return rows + [
        (f"   by {policy}", 100 * seconds / total, "% of the work", None)
        for policy, seconds in spent.most_common(8)
    ]


PARTS: dict[str, Part] = {
    "pass": priced_pass,
    "even": evenhanded,
    "memory": priced_memory,
    "inclusion": inclusion,
    "start": start,
    "reproduce": reproduction,
}


def measure(
    parts: Mapping[str, Part], names: Iterable[str], small: bool = False
) -> Iterable[tuple[str, list[Row]]]:
    """Run benchmarks one after another.

    Parameters
    ----------
    parts : mapping of str to Part
        The benchmarks.
    names : iterable of str
        The names of the benchmarks to run; an empty list means all.
    small : bool
        Whether to use small sizes and leave goals out.

    Yields
    ------
    (str, list of Row)
        Name and figures of each benchmark.

    Raises
    ------
    InvalidInput
        A name is not known.
    """
    chosen = list(names) or list(parts)
    for name in chosen:
        if name not in parts:
            raise InvalidInput(
                f"there is no benchmark {name!r}; the known ones are {', '.join(parts)}"
            )
    for name in chosen:
        rows = parts[name](small)
        if small:  # goals are for the full sizes
            rows = [(what, value, unit, None) for what, value, unit, _ in rows]
        yield name, rows
        gc.collect()


def reached(row: Row) -> bool:
    """Whether the figure meets its goal, or has no goal."""
    _, measured, _, goal = row
    return goal is None or (measured >= -goal if goal < 0 else measured <= goal)


def show(measured: Iterable[tuple[str, list[Row]]]) -> None:
    """Print the figures as a table; figures that miss their goal are red."""
    rows, styles = [], []
    for name, rows_of_part in measured:
        say(f"{name}: done", "dim")
        for row in rows_of_part:
            what, value, unit, goal = row
            bound = "" if goal is None else f"{'>=' if goal < 0 else '<='} {abs(goal):g}"
            figure = f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
            rows.append([what, figure, unit, bound])
            styles.append("" if reached(row) else "bold red")
    title = f"softfair on {get_threads()} threads"
    headings = ["what", "measured", "unit", "goal"]
    show_table(Table(headings, rows, title, words={"what", "unit"}, styles=styles))
