"""How good a plan made from a history is: coverage of the intervals, and the benefit lost against a plan made from the truth.

The history: n patients of the CPAP cohort, a tenth of them contacted each week, drawn at random; four regions that say nothing about
adherence, as a programme would have them. The plan: SoftFair(c=10) by `priced`, its gains learnt from the estimates, let loose on the
true patients with the same luck as the plan made from the truth.

The loss is told in good rounds, and in the gain over contacting nobody, which is a small part of them. Two things are in it beside the
estimator. At the same c a plan from estimates is the more even one, since shrunk gains differ less: another figure is the loss at the c
for which it is as even as the plan from the truth (equal entropy of who was contacted). And the truth knows how well each patient responds
to a contact (5-50 %, drawn for each), of which a few contacts a person say little: the last figure, equally even, is the loss of the exact
posterior mean, computed from the very law that the cohort is drawn from, which no programme knows. Nobody who has seen only this history
can do better on average, up to what planning with means costs.
"""

from __future__ import annotations

import os
import time

import numpy as np
from numpy.typing import NDArray

import softfair as sf
from softfair.estimate import count_transitions, estimate
from softfair.policies.base import Fitted

SMALL = bool(os.environ.get("BENCH_SMALL"))
WEEKS = (10, 30, 100)
STEEPER = (
    10.0,
    14.0,
    20.0,
    30.0,
    50.0,
    80.0,
)  # c at which the plan from estimates is tried, from more even to less
Row = tuple[str, float, str, float | None]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def estimation() -> list[Row]:
    n, cohorts, runs = (200, 1, 20) if SMALL else (1000, 4, 100)
    k, T, level = n // 10, 20, 0.9
    rows: list[Row] = []
    for weeks in WEEKS:
        covered, worse, lost, as_even, unavoidable = [], [], [], [], []
        for seed in range(cohorts):
            truth = sf.datasets.cpap(n, seed=seed)
            counts = count_transitions(*history(truth, weeks, k, seed), n=n, S=2)
            fitted = estimate(counts, np.arange(n) % 4, level=level)
            covered.append(((fitted.low <= truth.P) & (fitted.high >= truth.P)).mean())
            none = float(
                sf.simulate(sf.NoIntervention().fit(truth, k, T), runs, seed).totals.mean()
            )
            best, evenness = outcome(truth, truth, k, T, STEEPER[0], runs, seed)
            for believed, losses in (
                (fitted.P, as_even),
                (posterior_mean(counts, 2_000 if SMALL else 20_000), unavoidable),
            ):
                tried = [outcome(truth, sf.Cohort(believed), k, T, c, runs, seed) for c in STEEPER]
                losses.append(
                    1 - (np.interp(evenness, *np.array(tried[::-1]).T[::-1]) - none) / (best - none)
                )
                if losses is as_even:
                    worse.append(1 - tried[0][0] / best)
                    lost.append(1 - (tried[0][0] - none) / (best - none))
        rows += [
            (
                f"coverage of {level:.0%} intervals, CPAP, {weeks} weeks",
                100 * float(np.mean(covered)),
                "% of probabilities",
                None,
            ),
            (
                f"good rounds lost to not knowing, same c, {weeks} weeks",
                100 * float(np.mean(worse)),
                "% of the plan from the truth",
                5,
            ),
            (
                f"   benefit beyond no contact, same c, {weeks} weeks",
                100 * float(np.mean(lost)),
                "% of the plan from the truth",
                None,
            ),
            ("   the same, equally even", 100 * float(np.mean(as_even)), "%", None),
            (
                "   by the exact posterior, equally even",
                100 * float(np.mean(unavoidable)),
                "%",
                None,
            ),
            (
                "   by this estimator beyond that",
                100 * float(np.mean(as_even) - np.mean(unavoidable)),
                "points",
                None,
            ),
        ]
    return [*rows, speed()]


def speed() -> Row:
    n, weeks = (10_000 if SMALL else 100_000), 52
    recorded = history(sf.datasets.cpap(n, seed=0), weeks, n // 10, 0)
    estimate(count_transitions(*recorded, n=n, S=2), np.arange(n) % 4)  # compiles
    begun = time.perf_counter()
    estimate(count_transitions(*recorded, n=n, S=2), np.arange(n) % 4)
    return (
        f"count and estimate, n = {n:,}, {weeks} weeks",
        time.perf_counter() - begun,
        "seconds",
        5,
    )


def history(truth: sf.Cohort, weeks: int, k: int, seed: int) -> tuple[Ints, Ints, Ints, Ints]:
    """person, round, state, contacted [n weeks], sorted: k contacts a week at random."""
    rng = np.random.default_rng([seed, weeks])
    n = truth.n
    state, contacted = np.empty((n, weeks), np.int64), np.zeros((n, weeks), np.int64)
    state[:, 0] = rng.integers(0, 2, n)
    for week in range(weeks):
        contacted[rng.choice(n, k, replace=False), week] = 1
        if week + 1 < weeks:
            state[:, week + 1] = (
                rng.random(n) < truth.p[np.arange(n), contacted[:, week], state[:, week]]
            )
    return (
        np.repeat(np.arange(n), weeks),
        np.tile(np.arange(weeks), n),
        state.ravel(),
        contacted.ravel(),
    )


def outcome(
    truth: sf.Cohort, believed: sf.Cohort, k: int, T: int, c: float, runs: int, seed: int
) -> tuple[float, float]:
    """On the true cohort, of the plan made for the cohort believed in: mean total reward, and mean entropy of who was contacted."""
    plan = sf.SoftFair(c=c).fit(believed, k, T)
    acting = Fitted(plan.policy, truth, k, T, 1.0, plan.rule, plan._scorer)
    result = sf.simulate(acting, runs, seed)
    return float(result.totals.mean()), float(np.mean(sf.metrics.action_entropy(result.counts)))


def posterior_mean(counts: Ints, draws: int) -> Floats:
    """P [n, 2, 2, 2] under the law that the CPAP cohort is drawn from, by weighing many patients drawn from it."""
    p = sf.datasets.cpap(draws, seed=10_000).p.reshape(draws, 4)
    bad, good = counts[..., 0].reshape(-1, 4), counts[..., 1].reshape(-1, 4)  # [n, 4]
    log_weight = good @ np.log(p).T + bad @ np.log1p(-p).T  # [n, draws]
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    mean = (weight @ p / weight.sum(axis=1, keepdims=True)).reshape(-1, 2, 2)
    return np.stack([1 - mean, mean], axis=-1)
