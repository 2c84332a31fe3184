"""A promised wait against FaWT: benefit and entropy at every W, and the cost of the promised solve.

    python -m benchmarks.promises [RUNS]

Of the sets of k arms that keep the promise, FaWT takes the set with the greatest sum of Whittle
indices. SoftFair with ``max_wait`` keeps the same promise by a draw. Both are simulated with the
same random numbers, SoftFair with each multiplier c at each W. The difference of benefit is printed
with its 95 % interval. The multipliers were chosen by runs with other random numbers.
"""

from __future__ import annotations

import sys
import time
import warnings

import softfair as sf
from softfair.solvers import solve_priced, solve_promised

WAITS = (15, 20, 25, 30, 40)
MULTIPLIERS = (20.0, 50.0, 300.0)
SEED = 1


def against_fawt(cohort: sf.Cohort, k: int, T: int, runs: int) -> list[str]:
    """Rows: W, then benefit / entropy of FaWT and of SoftFair at each c, and what c adds."""
    lines = []
    for W in WAITS:
        fawt = sf.FaWT(window=W)
        policies: list[sf.Policy] = [sf.SoftFair(c=c, max_wait=W) for c in MULTIPLIERS]
        table = sf.compare(
            [fawt, *policies], cohort, k=k, horizon=T, runs=runs, seed=SEED, against=fawt
        )
        cells = [
            f"{row.benefit:5.1f} / {row.entropy:.3f}"
            + f" ({row.benefit_diff:+.1f}: {row.benefit_diff_low:+.1f} to"
            f" {row.benefit_diff_high:+.1f})" * (j > 0)
            for j, row in enumerate(table.itertuples())
        ]
        lines.append(f"W={W:2}  " + "  ".join(cells))
    return lines


def passes(n: int, W: int) -> str:
    """Processor seconds of a solve without a promise and with one, and their ratio."""
    cohort, T = sf.datasets.synthetic(n, seed=0), 26
    spent = []
    for solve in (
        lambda: solve_priced(cohort, n // 10, T, 1.0, 10.0),
        lambda: solve_promised(cohort, n // 10, T, 1.0, 10.0, W, 0.0),
    ):
        begun = time.process_time()
        solve()
        spent.append(time.process_time() - begun)
    return (
        f"n={n:,}, W={W}: {spent[0]:.2f} s without a promise, {spent[1]:.2f} s with one, "
        f"{spent[1] / spent[0]:.1f} times as much"
    )


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore", sf.NotConverged)
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    cs = "  ".join(f"c={c:g}" for c in MULTIPLIERS)
    for name, cohort, T in (
        ("synthetic(100, seed=0), k=10, T=50", sf.datasets.synthetic(100, seed=0), 50),
        ("cpap(100, seed=0), k=10, T=80", sf.datasets.cpap(100, seed=0), 80),
    ):
        print(f"{name}: benefit % / entropy of FaWT(W), then SoftFair(max_wait=W) at {cs}")
        print("\n".join(against_fawt(cohort, 10, T, runs)), flush=True)
    for W in (12, 20):
        print(passes(100_000, W), flush=True)


if __name__ == "__main__":
    main()
