"""The time of each part of a fit, from ten thousand to a hundred million arms.

    python -m benchmarks.scale                  # 1e4 to 1e7 arms in memory, 1e7 from Parquet
    python -m benchmarks.scale --most 1e8       # and 1e8 from Parquet, 4 GB in a scratch folder
    python -m benchmarks.scale --json FILE      # the figures, for benchmarks.reduction

Every size runs in a process of its own, and the output has the highest memory of this process. The
floor is the time of 4 n T exponentials in the same kernels. The memory bandwidth is that of a sum
over an array larger than the caches. Both are measured in the same process just before the fit. Two
states, k = 1 %, c = 10, T = 52.

Two times are measured: by the clock, and the processor time of all threads of the process together,
which depends less on other processes that share the machine. Costs, ratios and growth are of the
processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import softfair as sf
from softfair.kernels import recursion
from softfair.kernels.threads import map_parts
from softfair.kernels.yardstick import exponentials
from softfair.solvers import budget

T, C, SHARE = 52, 10.0, 0.01
FILE_ROWS = 10_000_000  # of one Parquet file
Figures = dict[str, Any]


def luck() -> np.random.Generator:
    return np.random.default_rng(0)


def write_people(folder: Path, n: int) -> None:
    """n synthetic arms as Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for low in range(0, n, FILE_ROWS):
        p = sf.datasets.synthetic(min(FILE_ROWS, n - low), seed=low).p.reshape(-1, 4)
        columns = dict(zip(("p00", "p01", "p10", "p11"), p.T, strict=True))
        ids = pa.array(np.arange(low, low + len(p)))
        table = pa.table({"id": ids, **{name: pa.array(col) for name, col in columns.items()}})
        pq.write_table(
            table, folder / f"part-{low:012d}.parquet", compression="none", use_dictionary=False
        )


def bandwidth() -> float:
    """Bytes of an array that one thread adds up in a second."""
    values = np.ones(2**25)

    def add(low: int, high: int) -> float:
        return float(values[low:high].sum())

    seconds = []
    for _ in range(8):
        begun = time.process_time()
        map_parts(add, len(values), 2**20)
        seconds.append(time.process_time() - begun)
    return values.nbytes / min(seconds)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(n: int, folder: str | None) -> Figures:
    """The time of each part at n arms, in memory or from the files of a folder."""
    wall: dict[str, float] = {}
    cost: dict[str, float] = {}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        """Do the work, and keep the least times of all calls for this part."""
        begun, spent = time.perf_counter(), time.process_time()
        found = work()
        spent, begun = time.process_time() - spent, time.perf_counter() - begun
        cost[part], wall[part] = (
            min(spent, cost.get(part, spent)),
            min(begun, wall.get(part, begun)),
        )
        return found

    for size in (20_000, 40_000):  # compiles
        warm = sf.SoftFair(c=C).fit(sf.datasets.synthetic(size, seed=1), k=400, horizon=T)
        zeros = np.zeros(size, np.int8)
        for act in (warm.scores, warm.inclusion):
            act(0, zeros)
        warm.draw(0, zeros, luck())
    floor_arms = min(n, 2**20)
    for _ in range(3):
        timed("floor", lambda: map_parts(exponentials, floor_arms, recursion.PART, 4 * T))
    for clock in (wall, cost):
        clock["floor"] *= n / floor_arms
    stream = bandwidth()
    cohort = timed(
        "cohort", lambda: sf.open_cohort(folder) if folder else sf.datasets.synthetic(n, seed=0)
    )
    k, states = round(n * SHARE), np.zeros(n, np.int8)
    states[::2] = 1
    passes = 0
    sweep = budget.sweep

    def counted(of: Any, *args: Any) -> Any:
        nonlocal passes
        passes += of.n == n
        return timed("pass" if of.n == n else "a pass of the sample", lambda: sweep(of, *args))

    budget.sweep = counted
    fitted = timed("fit", lambda: sf.SoftFair(c=C).fit(cohort, k=k, horizon=T))
    budget.sweep = sweep
    held = peak()
    timed("scores", lambda: fitted.scores(0, states))
    timed("inclusion", lambda: fitted.inclusion(0, states))
    timed("draw", lambda: fitted.draw(0, states, luck()))
    info = fitted.info
    assert info is not None
    return {
        "n": n,
        "where": "Parquet" if folder else "memory",
        "wall": wall,
        "cost": cost,
        "passes": passes,
        "worth": cost["fit"] / cost["pass"],
        "residual": info.residual,
        "bandwidth": stream,
        "peak of the fit": held,
        "peak": peak(),
    }


def show(figures: Figures) -> None:
    """Print the figures of one size, in ns an arm-step and as ratios."""
    n, cost = figures["n"], figures["cost"]
    print(
        f"\n{n:,} arms in {figures['where']}: fit {figures['wall']['fit']:.1f} s by the wall, "
        f"{figures['passes']} full passes, {figures['worth']:.1f} passes' worth of work, residual "
        f"{figures['residual']:.0e}, highest memory {figures['peak of the fit']:.2f} GiB of the "
        f"fit, {figures['peak']:.2f} GiB of all"
    )
    for part, taken in cost.items():
        print(
            f"   {part:20} {figures['wall'][part]:9.3f} s {taken:9.3f} s of work "
            f"{taken / n / T * 1e9:8.2f} ns an arm-step {taken / cost['pass']:7.2f} passes "
            f"{taken / cost['floor']:7.2f} of the floor"
        )
    read = 32 * n / figures["bandwidth"]
    print(
        f"   a pass costs {cost['pass'] / read:.0f} times reading 32 bytes an arm at "
        f"{figures['bandwidth'] / 2**30:.1f} GiB/s a thread",
        flush=True,
    )


def growth(rows: list[Figures]) -> None:
    """Print the exponents of n in the time of a pass and of a fit, between neighbouring sizes."""
    for small, large in pairwise(rows):
        if small["n"] == large["n"]:
            continue
        step = math.log(large["n"] / small["n"])
        of_pass, of_fit = (
            math.log(large["cost"][part] / small["cost"][part]) / step for part in ("pass", "fit")
        )
        print(
            f"growth from {small['n']:,} to {large['n']:,} arms: n^{of_pass:.2f} a pass, "
            f"n^{of_fit:.2f} a fit (n^1 is linear)"
        )
    small, large = rows[0], rows[-1]
    fixed = small["cost"]["fit"] - large["cost"]["fit"] * small["n"] / large["n"]
    print(
        f"of the fit of {small['n']:,} arms, {fixed:.2f} of {small['cost']['fit']:.2f} s of work "
        "do not grow with n: passes over the sample, its Jacobian, linear algebra of T numbers"
    )


def in_a_process(n: int, folder: str | None) -> Figures:
    code = "import json, sys; from benchmarks.scale import measure\n"
    code += f"print(json.dumps(measure({n}, {folder!r})))"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    show(found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--most", type=float, default=1e7, help="the largest number of arms")
    parser.add_argument("--least", type=float, default=1e4, help="the smallest")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, help="where to write Parquet files")
    given = parser.parse_args()
    sizes = [10**e for e in range(2, 10) if given.least <= 10**e <= given.most]
    rows = [in_a_process(n, None) for n in sizes if n <= 10**7]
    for n in sizes:
        if n >= 10**7:
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                write_people(Path(folder), n)
                rows.append(in_a_process(n, folder))
    growth(rows)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
