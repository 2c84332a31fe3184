"""Every figure is a ratio of times taken in this one run, the best of several, so that a shared machine tells the truth."""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table

import softfair as sf
from softfair.experiments import find, run
from softfair.kernels import recursion
from softfair.kernels.elementary import COMPILE, exp_
from softfair.kernels.lanes import LANES, lanes
from softfair.kernels.threads import map_parts
from softfair.solvers.budget import sweep
from softfair.solvers.priced import solve_priced

from . import loops
from .estimation import estimation
from .programme import programme

SMALL = bool(os.environ.get("BENCH_SMALL"))  # a tenth of the sizes, to see that everything runs


def best(work: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of the fastest of several goes, the first (compilation, page faults) not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


@njit(**COMPILE)
def exponentials(low, high, rounds):
    """``rounds`` exponentials for each of the arms [low, high), in blocks of lanes as the recursions run."""
    x, total = lanes(), lanes()
    for j in range(LANES):
        x[j] = -0.01 * j
        total[j] = 0.0
    for _ in range(low, high, LANES):
        for r in range(rounds):
            for j in range(LANES):
                total[j] += exp_(x[j] - 1e-3 * r)
    return total.sum()


def priced_pass() -> list[tuple[str, float, str, float | None]]:
    n, T = (100_000 if SMALL else 1_000_000), 52
    cohort = sf.datasets.synthetic(n, seed=0)
    theta = solve_priced(cohort, n // 10, T, 1.0, 10.0, 1e-6).theta
    floor = best(lambda: map_parts(exponentials, n, recursion.PART, 4 * T))
    one = best(lambda: sweep(cohort, theta, 10.0, 1.0, recursion.PRICED))
    whole = best(lambda: solve_priced(cohort, n // 10, T, 1.0, 10.0, 1e-6), 3)
    return [
        (f"priced pass, n = {n:,}, T = {T}", one / floor, "times 4 n T exponentials in the same kernels", 3),
        (f"whole priced solve to 1e-6, c = 10, n = {n:,}", whole / one, "full passes' worth of time", 8),
    ]


def priced_memory() -> list[tuple[str, float, str, float | None]]:
    """In a child of its own: the highest memory ever held, with and without the solve."""
    n = 100_000 if SMALL else 1_000_000
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
        done = subprocess.run([sys.executable, "-c", code, str(n)], capture_output=True, text=True, check=True)
    except (subprocess.CalledProcessError, OSError):  # no such files on this system
        return []
    return [(f"memory of the priced solve beyond P, n = {n:,}", float(done.stdout), "bytes an arm", 40)]


def plan() -> list[tuple[str, float, str, float | None]]:
    n, k, T, c, episodes = (200 if SMALL else 1000), (20 if SMALL else 100), 50, 5.0, 300
    cohort = sf.datasets.synthetic(n, seed=0)
    tried = 1
    begun = time.perf_counter()
    loops.algorithm_1(cohort.P, k, T, c, tried, seed=0)
    loop = (time.perf_counter() - begun) / tried  # an episode; episodes cost the same
    paper = sf.SoftFair(c=c, solver="paper", design="successive", episodes=episodes)
    priced = sf.SoftFair(c=10.0)
    compiled = best(lambda: paper.fit(cohort, k, T), 1)
    fast = best(lambda: priced.fit(cohort, k, T))
    table = sf.compare([paper, priced], cohort, k, T, runs=20)
    worth = ", ".join(f"{row.policy} {row.benefit:.0f} %" for row in table.itertuples())
    return [
        (f"plan by prices against {episodes} episodes of loops, n = {n}", episodes * loop / fast, f"times faster ({worth})", -1000),
        ("`paper` solver against the loops, an arm-step", episodes * loop / compiled, "times faster", -100),
    ]


def simulation() -> list[tuple[str, float, str, float | None]]:
    return [against_numpy(n, design, goal) for n, goal in ((100, -10.0), (1000, -5.0)) for design in ("joint", "successive")]


def against_numpy(n: int, design: Any, goal: float) -> tuple[str, float, str, float | None]:
    k, T, runs, few, c = n // 10, 100, 50, 5, 10.0
    cohort = sf.datasets.synthetic(n, seed=0)
    fitted = sf.SoftFair(c=c, design=design).fit(cohort, k, T)
    gains = solve_priced(cohort, k, T, 1.0, c).rows(0, T)
    ours = best(lambda: sf.simulate(fitted, runs=runs))
    theirs = best(lambda: loops.simulate_by_numpy(cohort.P, gains, c, k, few, 0, design), 3) * runs / few
    return f"simulate, {runs} runs, T = {T}, n = {n}, {design}", theirs / ours, "times faster than NumPy steps", goal


def indices() -> list[tuple[str, float, str, float | None]]:
    with np.errstate():  # importing it makes NumPy raise on every overflow
        import markovianbandit
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    n, few, T = (10_000 if SMALL else 100_000), 200, 52
    cohort = sf.datasets.synthetic(n, seed=0)
    R = np.zeros(2)

    def theirs() -> None:
        for i in range(few):
            P = cohort.P[i]
            R0, R1 = P[0] @ [0.0, 1.0], P[1] @ [0.0, 1.0]
            markovianbandit.restless_bandit_from_P0P1_R0R1(P[0], P[1], R0 + R, R1 + R).whittle_indices(discount=0.99)

    their = best(theirs, 2) / few
    ours = best(lambda: sf.indices.whittle(cohort, gamma=0.99)) / n
    finite = best(lambda: sf.indices.whittle(cohort, horizon=T), 2)
    one = best(lambda: sweep(cohort, np.full(T, 5.0), 10.0, 1.0, recursion.PRICED))
    return [
        ("Whittle index for ever, two states, an arm", their / ours, "times faster than markovianbandit", -100),
        (f"exact finite-horizon indices, n = {n:,}, T = {T}", finite / one, "priced passes", 50),
    ]


def inclusion() -> list[tuple[str, float, str, float | None]]:
    n = 100_000 if SMALL else 1_000_000
    z = np.random.default_rng(0).normal(size=n)
    floor = best(lambda: np.exp(z), 20)
    rows: list[tuple[str, float, str, float | None]] = []
    for design, target in (("successive", 5), ("joint", 20)):
        ours = best(lambda d=design: sf.sampling.inclusion(z, n // 10, d), 20)  # type: ignore[misc]
        rows.append((f"inclusion, {design}, n = {n:,}, k = n/10", ours / floor, "times n NumPy exponentials", target))
    return rows


def start() -> list[tuple[str, float, str, float | None]]:
    def seconds(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], check=True), 3)

    bare = seconds("pass")
    compiles = (
        "import numba.core.event as e\n"
        "class L(e.Listener):\n    n = 0\n    def on_start(self, x): L.n += 1\n    def on_end(self, x): pass\n"
        "e.register('numba:compile', L())\nimport softfair as sf\n"
        "f = sf.SoftFair().fit(sf.datasets.synthetic(100), 10, 20); sf.simulate(f); f.inclusion(0, [0] * 100)\nprint(L.n)\n"
    )
    subprocess.run([sys.executable, "-c", compiles], check=True, capture_output=True)  # fills the cache
    second = subprocess.run([sys.executable, "-c", compiles], check=True, capture_output=True, text=True)
    return [
        ("import softfair", seconds("import softfair") - bare, "seconds beyond Python's own start", 0.5),
        ("kernels compiled by a second process", float(second.stdout), "", 0),
    ]


def reproduction() -> list[tuple[str, float, str, float | None]]:
    """The whole evaluation of the paper, 50 simulations of everything; each part's share of the work."""
    experiments = find(["fig2a/10"] if SMALL else [])
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        run(experiments, Path(folder), runs=5 if SMALL else 50)
        whole = time.perf_counter() - begun
        records = [json.loads(path.read_text()) for path in sorted(Path(folder, "results").glob("*.json"))]
    spent: Counter[str] = Counter()
    rows: list[tuple[str, float, str, float | None]] = [("softfair reproduce, everything", whole, "seconds", 300)]
    total = sum(sum(record["seconds"].values()) for record in records)
    for record in records:
        spent.update(record["seconds"])
        share = 100 * sum(record["seconds"].values()) / total
        rows.append((f"   {record['settings']['id']}", share, "% of the work", None))
    return rows + [(f"   by {policy}", 100 * seconds / total, "% of the work", None) for policy, seconds in spent.most_common(8)]


PARTS = {
    "pass": priced_pass,
    "memory": priced_memory,
    "plan": plan,
    "simulate": simulation,
    "indices": indices,
    "inclusion": inclusion,
    "start": start,
    "estimate": estimation,
    "programme": programme,
    "reproduce": reproduction,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="which parts; all if none is named")
    chosen = parser.parse_args().part or list(PARTS)
    warnings.simplefilter("ignore", sf.NotConverged)
    console = Console(width=max(120, Console().width))
    table = Table(title=f"softfair on {sf.get_threads()} threads")
    for heading, side in (("what", "left"), ("ratio", "right"), ("of what", "left"), ("goal", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for name in chosen:
        console.print(f"{name} ...", style="dim")
        for what, ratio, unit, goal in PARTS[name]():
            reached = goal is None or (ratio >= -goal if goal < 0 else ratio <= goal)
            wish = "" if goal is None else f"{'>=' if goal < 0 else '<='} {abs(goal):g}"
            table.add_row(
                what, f"{ratio:,.3g}" if ratio < 1000 else f"{ratio:,.0f}", unit, wish, style=None if reached else "bold red"
            )
        gc.collect()
    console.print(table)
    console.print(f"highest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB", style="dim")


if __name__ == "__main__":
    main()
