"""What can be measured wherever the package is installed: ratios of times taken in one run, the best of several, so that a shared machine
tells the truth. `make bench` in the repository adds what needs packages for tests alone.
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
from .kernels.threads import get_threads, map_parts
from .kernels.yardstick import exponentials
from .solvers.budget import sweep
from .solvers.priced import solve_priced

__all__ = ["PARTS", "Part", "Row", "best", "measure", "reached", "show"]

Row = tuple[
    str, float, str, float | None
]  # what, measured, its unit, the goal: at most that, or at least minus that if negative
Part = Callable[
    [bool], list[Row]
]  # told whether to be small: a tenth of the sizes, to see that everything runs


def best(work: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of the fastest of several goes, the first (compilation, page faults) not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def priced_pass(small: bool) -> list[Row]:
    n, T = (100_000 if small else 1_000_000), 52
    cohort = datasets.synthetic(n, seed=0)
    theta = solve_priced(cohort, n // 10, T, 1.0, 10.0, 1e-6).theta
    floor = best(lambda: map_parts(exponentials, n, recursion.PART, 4 * T))
    one = best(lambda: sweep(cohort, theta, 10.0, 1.0, recursion.PRICED))
    whole = best(lambda: solve_priced(cohort, n // 10, T, 1.0, 10.0, 1e-6), 3)
    return [
        (
            f"priced pass, n = {n:,}, T = {T}",
            one / floor,
            "times 4 n T exponentials in the same kernels",
            3,
        ),
        (
            f"whole priced solve to 1e-6, c = 10, n = {n:,}",
            whole / one,
            "full passes' worth of time",
            8,
        ),
    ]


def priced_memory(small: bool) -> list[Row]:
    """In a child of its own: the highest memory ever held, with and without the solve."""
    n = 100_000 if small else 1_000_000
    code = (
        "import resource, sys, softfair as sf\n"
        "from softfair.solvers.priced import solve_priced\n"
        "solve_priced(sf.datasets.synthetic(40_000, seed=1), 4_000, 52, 1.0, 10.0, 1e-6)\n"  # compiled code and samples are not per arm
        "n = int(sys.argv[1]); cohort = sf.datasets.synthetic(n, seed=0)\n"
        "import gc; gc.collect(); page = resource.getpagesize()\n"
        "held = int(open('/proc/self/statm').read().split()[1]) * page\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"  # the high-water mark starts anew
        "solve_priced(cohort, n // 10, 52, 1.0, 10.0, 1e-6)\n"
        "peak = [int(l.split()[1]) * 1024 for l in open('/proc/self/status') if l.startswith('VmHWM')][0]\n"
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
    n = 100_000 if small else 1_000_000
    z = np.random.default_rng(0).normal(size=n)
    floor = best(lambda: np.exp(z), 20)
    rows: list[Row] = []
    for design, target in (("successive", 5), ("joint", 20)):
        ours = best(lambda d=design: sampling.inclusion(z, n // 10, d), 20)  # type: ignore[misc]
        rows.append(
            (
                f"inclusion, {design}, n = {n:,}, k = n/10",
                ours / floor,
                "times n NumPy exponentials",
                target,
            )
        )
    return rows


def start(small: bool) -> list[Row]:
    def seconds(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], check=True), 3)

    bare = seconds("pass")
    compiles = (
        "import numba.core.event as e\n"
        "class L(e.Listener):\n    n = 0\n    def on_start(self, x): L.n += 1\n    def on_end(self, x): pass\n"
        "e.register('numba:compile', L())\nimport softfair as sf\n"
        "f = sf.SoftFair().fit(sf.datasets.synthetic(100), 10, 20); sf.simulate(f); f.inclusion(0, [0] * 100)\nprint(L.n)\n"
    )
    subprocess.run(
        [sys.executable, "-c", compiles], check=True, capture_output=True
    )  # fills the cache
    second = subprocess.run(
        [sys.executable, "-c", compiles], check=True, capture_output=True, text=True
    )
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
    """The whole evaluation of the paper, 50 simulations of everything; each part's share of the work."""
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
    "memory": priced_memory,
    "inclusion": inclusion,
    "start": start,
    "reproduce": reproduction,
}


def measure(
    parts: Mapping[str, Part], names: Iterable[str], small: bool = False
) -> Iterable[tuple[str, list[Row]]]:
    """(name, rows) of the parts named, or of all, one after another."""
    chosen = list(names) or list(parts)
    for name in chosen:
        if name not in parts:
            raise InvalidInput(
                f"there is no benchmark {name!r}; the known ones are {', '.join(parts)}"
            )
    for name in chosen:
        rows = parts[name](small)
        yield (
            name,
            [(what, value, unit, None) for what, value, unit, _ in rows] if small else rows,
        )  # goals are for the whole sizes
        gc.collect()


def reached(row: Row) -> bool:
    _, measured, _, goal = row
    return goal is None or (measured >= -goal if goal < 0 else measured <= goal)


def show(measured: Iterable[tuple[str, list[Row]]]) -> None:
    """A table on screen; what misses its goal in red."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=max(120, Console().width))
    table = Table(title=f"softfair on {get_threads()} threads")
    table.add_column("what")
    table.add_column("measured", justify="right")
    table.add_column("unit")
    table.add_column("goal", justify="right")
    for name, rows in measured:
        console.print(f"{name}: done", style="dim")
        for row in rows:
            what, value, unit, goal = row
            wish = "" if goal is None else f"{'>=' if goal < 0 else '<='} {abs(goal):g}"
            figure = f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
            table.add_row(what, figure, unit, wish, style=None if reached(row) else "bold red")
    console.print(table)
