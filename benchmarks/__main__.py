"""Run the benchmarks and print each figure beside its goal.

Most figures are ratios of times, and both times are measured in this run as the best of several,
because the machine may be shared.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from typing import Any

import numpy as np

import softfair as sf
from softfair import bench
from softfair.bench import Part, Row, best
from softfair.kernels.rules import RuleCode
from softfair.solvers.priced import solve_priced
from softfair.solvers.sweeps import sweep

from . import loops
from .estimation import estimation
from .page import page, slider
from .programme import programme


def plan(small: bool) -> list[Row]:
    n, k, T, c, episodes = (200 if small else 1000), (20 if small else 100), 50, 5.0, 300
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
        (
            f"plan by prices against {episodes} episodes of loops, n = {n}",
            episodes * loop / fast,
            f"times faster ({worth})",
            -1000,
        ),
        (
            "`paper` solver against the loops, an arm-step",
            episodes * loop / compiled,
            "times faster",
            -100,
        ),
    ]


def simulation(small: bool) -> list[Row]:
    return [
        against_numpy(n, design, goal)
        for n, goal in ((100, -10.0), (1000, -5.0))
        for design in ("joint", "successive")
    ]


def against_numpy(n: int, design: Any, goal: float) -> Row:
    k, T, runs, few, c = n // 10, 100, 50, 5, 10.0
    cohort = sf.datasets.synthetic(n, seed=0)
    fitted = sf.SoftFair(c=c, design=design).fit(cohort, k, T)
    gains = solve_priced(cohort, k, T, 1.0, c).rows(0, T)
    compiled = best(lambda: sf.simulate(fitted, runs=runs))
    by_numpy = (
        best(lambda: loops.simulate_by_numpy(cohort.P, gains, c, k, few, 0, design), 3) * runs / few
    )
    return (
        f"simulate, {runs} runs, T = {T}, n = {n}, {design}",
        by_numpy / compiled,
        "times faster than NumPy steps",
        goal,
    )


def indices(small: bool) -> list[Row]:
    with np.errstate():  # importing it makes NumPy raise on every overflow
        import markovianbandit
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    n, few, T = (10_000 if small else 100_000), 200, 52
    cohort = sf.datasets.synthetic(n, seed=0)
    R = np.zeros(2)

    def theirs() -> None:
        for i in range(few):
            P = cohort.P[i]
            R0, R1 = P[0] @ [0.0, 1.0], P[1] @ [0.0, 1.0]
            markovianbandit.restless_bandit_from_P0P1_R0R1(
                P[0], P[1], R0 + R, R1 + R
            ).whittle_indices(discount=0.99)

    their = best(theirs, 2) / few
    ours = best(lambda: sf.indices.whittle(cohort, gamma=0.99)) / n
    finite = best(lambda: sf.indices.whittle(cohort, horizon=T), 2)
    one = best(lambda: sweep(cohort, np.full(T, 5.0), 10.0, 1.0, RuleCode.PRICED))
    return [
        (
            "Whittle index for ever, two states, an arm",
            their / ours,
            "times faster than markovianbandit",
            -100,
        ),
        (f"exact finite-horizon indices, n = {n:,}, T = {T}", finite / one, "priced passes", 50),
    ]


PARTS: dict[str, Part] = {
    **{name: bench.PARTS[name] for name in ("pass", "even", "memory")},
    "plan": plan,
    "simulate": simulation,
    "indices": indices,
    **{name: bench.PARTS[name] for name in ("inclusion", "start")},
    "estimate": lambda small: estimation(),
    "programme": lambda small: programme(),
    "page": page,
    "slider": slider,
    "reproduce": bench.PARTS["reproduce"],
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "part", nargs="*", choices=[*PARTS, []], help="which parts; all if none is named"
    )
    warnings.simplefilter("ignore", sf.NotConverged)
    bench.show(
        bench.measure(PARTS, parser.parse_args().part, small=bool(os.environ.get("BENCH_SMALL")))
    )
    print(f"highest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


if __name__ == "__main__":
    main()
