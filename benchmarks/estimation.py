"""How good a plan made from a history is.

Two things are measured: how many true probabilities the intervals contain, and how much benefit is
lost against a plan made from the true probabilities.

The history: n patients of the CPAP cohort, a tenth of them contacted each week, drawn at random,
in four regions that say nothing about adherence. The plan: SoftFair(c=10) by `priced`, with gains
from the estimates, simulated on the true patients with the same random numbers as the plan made
from the truth.

The loss is given in good rounds, and in the gain over contacting nobody, which is a small part of
them. Two parts of the loss are not due to the estimator:

- At the same c a plan from estimates is the more even one, since shrunk gains differ less. So the
  loss is also given at the c for which this plan is as even as the plan from the truth (equal
  entropy of who was contacted).
- The truth includes how well each patient responds to a contact (5-50 %, drawn for each), of which
  a few contacts a person say little. So the loss is also given, equally even, of the exact
  posterior mean, computed from the law that the cohort is drawn from, which no programme knows.
  Nobody who has seen only this history can do better on average, apart from what planning with
  means costs.
"""

from __future__ import annotations

import os
import time
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

import softfair as sf
from softfair.estimate import count_transitions, estimate
from softfair.policies.base import Fitted
from softfair.programme.sample import RESPONSES

SMALL = bool(os.environ.get("BENCH_SMALL"))
WEEKS = (10, 30, 100)
LEVEL = 0.9  # of the intervals
# The c at which the plan from estimates is tried, from more even to less.
STEEPER = (10.0, 14.0, 20.0, 30.0, 50.0, 80.0)
Row = tuple[str, float, str, float | None]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Loss:
    """What one cohort's history of some weeks gave, each as a share."""

    covered: float  # probabilities inside their intervals
    rounds: float  # good rounds lost at the same c
    benefit: float  # benefit beyond no contact lost at the same c
    as_even: float  # the same at the c of equal entropy
    unavoidable: float  # the same by the exact posterior mean


def estimation() -> list[Row]:
    """Coverage and losses after each number of weeks, and the time of an estimate."""
    n, cohorts, runs = (200, 1, 20) if SMALL else (1000, 4, 100)
    rows: list[Row] = []
    for weeks in WEEKS:
        losses = [astuple(loss(n, weeks, runs, seed)) for seed in range(cohorts)]
        percent = Loss(*(100 * np.mean(losses, axis=0)).tolist())
        rows += [
            (
                f"coverage of {LEVEL:.0%} intervals, CPAP, {weeks} weeks",
                percent.covered,
                "% of probabilities",
                None,
            ),
            (
                f"good rounds lost to not knowing, same c, {weeks} weeks",
                percent.rounds,
                "% of the plan from the truth",
                5,
            ),
            (
                f"   benefit beyond no contact, same c, {weeks} weeks",
                percent.benefit,
                "% of the plan from the truth",
                None,
            ),
            ("   the same, equally even", percent.as_even, "%", None),
            ("   by the exact posterior, equally even", percent.unavoidable, "%", None),
            (
                "   by this estimator beyond that",
                percent.as_even - percent.unavoidable,
                "points",
                None,
            ),
        ]
    return [*rows, speed()]


def loss(n: int, weeks: int, runs: int, seed: int) -> Loss:
    """The losses on one cohort, with a plan for T = 20 decisions and k = n / 10."""
    k, T = n // 10, 20
    truth = sf.datasets.cpap(n, seed=seed, **RESPONSES)
    counts = count_transitions(*history(truth, weeks, k, seed), n=n, S=2)
    fitted = estimate(counts, np.arange(n) % 4, level=LEVEL)
    none = float(sf.simulate(sf.NoIntervention().fit(truth, k, T), runs, seed).totals.mean())
    best, evenness = outcome(truth, truth, k, T, STEEPER[0], runs, seed)

    def tried(P: Floats) -> list[tuple[float, float]]:  # (reward, entropy) at each c
        return [outcome(truth, sf.Cohort(P), k, T, c, runs, seed) for c in STEEPER]

    def lost_as_even(outcomes: list[tuple[float, float]]) -> float:
        reward, entropy = np.array(outcomes[::-1]).T
        return float(1 - (np.interp(evenness, entropy, reward) - none) / (best - none))

    by_estimate = tried(fitted.P)
    by_posterior = tried(posterior_mean(counts, 2_000 if SMALL else 20_000))
    return Loss(
        covered=float(((fitted.low <= truth.P) & (fitted.high >= truth.P)).mean()),
        rounds=1 - by_estimate[0][0] / best,
        benefit=1 - (by_estimate[0][0] - none) / (best - none),
        as_even=lost_as_even(by_estimate),
        unavoidable=lost_as_even(by_posterior),
    )


def speed() -> Row:
    """Seconds to count the moves of a history and to estimate from them."""
    n, weeks = (10_000 if SMALL else 100_000), 52
    recorded = history(sf.datasets.cpap(n, seed=0, **RESPONSES), weeks, n // 10, 0)
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
    """Mean total reward and mean entropy of who was contacted.

    The plan is made for the cohort believed in and simulated on the true one.
    """
    plan = sf.SoftFair(c=c).fit(believed, k, T)
    acting = Fitted(plan.policy, truth, k, T, 1.0, plan.rule, plan._scorer)
    result = sf.simulate(acting, runs, seed)
    return float(result.totals.mean()), float(np.mean(sf.metrics.action_entropy(result.counts)))


def posterior_mean(counts: Ints, draws: int) -> Floats:
    """Posterior mean of P [n, 2, 2, 2] under the law that the CPAP cohort is drawn from.

    Many patients drawn from that law are weighted by their likelihood.
    """
    p = sf.datasets.cpap(draws, seed=10_000, **RESPONSES).p.reshape(draws, 4)
    bad, good = counts[..., 0].reshape(-1, 4), counts[..., 1].reshape(-1, 4)  # [n, 4]
    log_weight = good @ np.log(p).T + bad @ np.log1p(-p).T  # [n, draws]
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    mean = (weight @ p / weight.sum(axis=1, keepdims=True)).reshape(-1, 2, 2)
    return np.stack([1 - mean, mean], axis=-1)
