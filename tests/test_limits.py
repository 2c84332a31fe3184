"""The limit of means over cohorts: valid by construction, and no tighter than it may be."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from worlds import World, outcome

from softfair.experiments import limits
from softfair.experiments.catalogue import EXPERIMENTS
from softfair.experiments.outcomes import Limit
from softfair.solvers import TradeoffBound

NAME = "limit/synthetic"
LABELS = list(EXPERIMENTS[NAME].policies)


EVEN = math.log(EXPERIMENTS[NAME].n)
# Cohorts with limits by hand, [slope, reward at log n]; help can add 1 to a reward of 0.
LIMITS = (
    Limit(TradeoffBound(np.array([0.0, 0.5]), np.array([1.0, 0.6]), EVEN), 0.0, 1.0),
    Limit(TradeoffBound(np.array([0.0, 0.1]), np.array([1.0, 0.9]), EVEN), 0.0, 1.0),
)


def results(of_bound, entropy):
    figures = {
        label: {"benefit": 50.0, "of_bound": of_bound, "entropy": entropy} for label in LABELS
    }
    made = outcome(NAME, figures, World(own=0.01))
    return replace(made, limits=LIMITS * (made.cohorts // 2))


def test_the_limit_of_means_is_not_the_mean_of_limits():
    """For any entropies of two cohorts, their mean reward is below the limit at their mean entropy.

    Some pair reaches this limit, and would exceed the mean of both limits.
    """
    made = results(50.0, 4.0)
    assert made.cohorts == 8
    h = np.linspace(EVEN - 3, EVEN, 61)
    pairs = np.array([(a, b) for a in h for b in h])
    each = limits.limits(made, np.tile(pairs.T, (4, 1)))  # [8, pairs]
    reached, at = each.mean(axis=0), pairs.mean(axis=1)
    limit = limits.mean_limit(made, at)
    assert (reached <= limit + 1e-9).all()
    assert np.min((limit - reached)[reached < 95]) < 1
    same = limits.limits(made, np.tile(at, (8, 1))).mean(axis=0)
    assert np.max(reached - same) > 3  # so the mean of the limits is no limit


@pytest.mark.parametrize(
    ("of_bound", "said"),
    [(60.0, "No policy is above the limit beyond chance."), (99.0, "Above it: Random, Oracle")],
)
def test_the_verdict_can_fail(of_bound, said):
    """At log n - 0.1 the limits are 65 and 91, on average 78."""
    results_ = {NAME: results(of_bound, EVEN - 0.1)}
    [judgement] = limits.judge_limits(results_)
    assert judgement.verdict.startswith(said)
    assert "Random" in judgement.ours
    caption = limits.caption(results_)
    assert "n = 100; k = 10; T = 50; c = 1, 2, 5, 9, 10, 20, 50; 8 cohorts, 2 runs" in caption
    figure = limits.draw_limits(results_)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[:5] == ["Random", "Oracle", "FaWT", "ProbFair", "EvenHanded"]
    assert "no policy can be here" in [text.get_text() for text in figure.axes[0].texts]
