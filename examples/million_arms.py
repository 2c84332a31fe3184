"""A million arms on one machine, by the same calls; memory is proportional to the number of arms.

Another number of arms: python million_arms.py 100000
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import softfair as sf

n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
cohort = sf.datasets.synthetic(n=n, seed=0)
begun = time.perf_counter()
fitted = sf.SoftFair(c=10).fit(cohort, k=n // 10, horizon=10)
print(f"solved for {n:,} people in {time.perf_counter() - begun:.1f} s: {fitted.info}")
states = np.random.default_rng(0).integers(0, 2, n)
arms = fitted.draw(0, states, np.random.default_rng(1))
print(f"{len(arms):,} are helped first, number {arms[0]}, {arms[1]}, {arms[2]} ...")
bound = fitted.upper_bound
reward = sf.simulate(fitted, runs=1).totals[0]
print(f"one run brings {reward:,.0f}; no policy can expect more than {bound:,.0f}")
with tempfile.TemporaryDirectory() as folder:
    fitted.save(Path(folder, "model"))
    again = sf.load(Path(folder, "model"))
    assert np.array_equal(again.draw(0, states, np.random.default_rng(1)), arms)
    print(f"saved in {Path(folder, 'model').stat().st_size / 2**20:,.0f} MB, and loaded")
