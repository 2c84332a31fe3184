"""How long a fit of 1e9 arms on 100 workers would take, by a simulation with measured times.

    python -m benchmarks.reduction
    python -m benchmarks.reduction --arms 1e8 --workers 10

Measured on this machine: the work of a pass over one shard (on one thread, several times, for its
variation), reading a shard from Parquet, a task without work on a real Dask worker (its hand-over,
its result and the scheduler's part), and adding one result. A pass is then simulated event by
event. Each worker has its shards and computes one task after another. A task starts when its worker
is free and the scheduler, which hands over one task at a time, has handed it over. Results are
added in the order of the shards. The output compares the simulation with the formula of
docs/scale.md.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import softfair as sf
from softfair.kernels.rules import RuleCode
from softfair.shards import SHARD, shards_of
from softfair.solvers.sweeps import sweep_shard

from .scale import T, write_people

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Measured times, in seconds."""

    shard: Floats  # a pass over one shard, several measurements
    read: float  # reading a shard, once
    task: float  # a task without work, if many are submitted at once
    delay: float  # from submitting one task without work to its result
    add: float  # adding one result


def measure(repeats: int) -> Measured:
    sf.set_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_people(Path(folder), SHARD)
        (shard,) = shards_of(sf.open_cohort(folder))
        arms = shard.load()
        begun = time.process_time()
        shard.load()
        read = time.process_time() - begun
    theta, seconds = np.full(T, 30.0), []
    for _ in range(repeats + 1):
        begun = time.process_time()
        result = sweep_shard(arms, theta, 10.0, 1.0, int(RuleCode.PRICED))
        seconds.append(time.process_time() - begun)
    total = np.zeros_like(result)
    begun = time.process_time()
    for _ in range(1000):
        total = total + result
    add = (time.process_time() - begun) / 1000
    return Measured(np.array(seconds[1:]), read, *tasks(), add)


def tasks() -> tuple[float, float]:
    """(seconds of a task among many, seconds of one alone), both without work."""
    from distributed import Client, LocalCluster

    many = 500
    with (
        LocalCluster(1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.submit(os.getpid, pure=False).result()
        alone = []
        for _ in range(20):
            begun = time.perf_counter()
            client.submit(os.getpid, pure=False).result()
            alone.append(time.perf_counter() - begun)
        best = math.inf
        for _ in range(3):
            begun = time.perf_counter()
            client.gather([client.submit(os.getpid, pure=False) for _ in range(many)])
            best = min(best, (time.perf_counter() - begun) / many)
    return best, min(alone)


def simulate(arms: float, workers: int, of: Measured, rng: np.random.Generator) -> float:
    """Seconds of one pass."""
    shards = math.ceil(arms / SHARD)
    work = rng.choice(of.shard, shards)
    work[-1] *= (arms - (shards - 1) * SHARD) / SHARD
    free = np.zeros(workers)
    done = np.empty(shards)
    for i in range(shards):
        home = i * workers // shards
        given = (i + 1) * of.task  # the scheduler hands over one after another
        free[home] = max(free[home], given) + work[i]
        done[i] = free[home] + of.delay
    added = 0.0
    for i in range(shards):
        added = max(added, done[i]) + of.add
    return float(added)


def formula(arms: float, workers: int, of: Measured) -> float:
    """The cost model of docs/scale.md."""
    shards = math.ceil(arms / SHARD)
    on_one = math.ceil(shards / workers)
    return on_one * float(of.shard.mean()) + shards * of.task + of.delay


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reduction", description=__doc__)
    parser.add_argument("--arms", type=float, default=1e9)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--passes", type=int, default=7, help="of a fit, over all arms")
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    of = measure(given.repeats)
    print(
        f"measured: a shard of {SHARD:,} arms {of.shard.mean():.2f} s a pass (from "
        f"{of.shard.min():.2f} to {of.shard.max():.2f}), reading it {of.read:.2f} s, a task "
        f"{1e3 * of.task:.2f} ms among many and {1e3 * of.delay:.1f} ms alone, adding one result "
        f"{1e6 * of.add:.0f} us"
    )
    rng = np.random.default_rng(0)
    simulated = np.array([simulate(given.arms, given.workers, of, rng) for _ in range(20)])
    model = formula(given.arms, given.workers, of)
    shards = math.ceil(given.arms / SHARD)
    print(
        f"{given.arms:,.0f} arms on {given.workers} workers of one thread, {shards} shards: a pass "
        f"{simulated.mean():.2f} s simulated ({simulated.min():.2f} to {simulated.max():.2f}), "
        f"{model:.2f} s by the formula ({100 * (model / simulated.mean() - 1):+.0f} %)"
    )
    reading = math.ceil(shards / given.workers) * of.read
    print(
        f"a fit of {given.passes} passes: {given.passes * simulated.mean() + reading:.0f} s, of "
        f"which {reading:.1f} s of reading once; {shards * 16 * (T + 1) / 2**20:.1f} MiB of "
        f"results a pass, {32 * given.arms / given.workers / 2**20:.0f} MiB of arms a worker"
    )


if __name__ == "__main__":
    main()
