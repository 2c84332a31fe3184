"""What a contact is worth to each person, and a plan to everybody, by the posterior.

The worth of a plan, and of a contact with a person, is computed from the joint draws of the model's
posterior: the plan made from the means is followed through each draw as if the draw were the truth.
What is not known of the population is the same for everybody within a draw, so it does not average
out. The figures are not biased by the choice of the plan that looked best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...estimate import Interval
from ...kernels.threads import map_parts
from ...kernels.worth import plan_worth
from ...progress import track
from ..aims import SOFTFAIR, Evenness
from ..models import Model
from .site import SiteCohort

__all__ = ["Reach", "Worth", "weigh"]

Floats = NDArray[np.float64]

PEOPLE_A_THREAD = 4096


class Reach(NamedTuple):
    """How many of the people who were listed in past rounds were reached."""

    reached: int
    missed: int

    @property
    def share(self) -> float | None:
        """The share of listed people expected to be reached; None: none has been recorded yet."""
        total = self.reached + self.missed
        return (self.reached + 0.5) / (total + 1) if total else None

    def draws(self, L: int) -> Floats:
        """Quantiles [L] of the share's posterior (Jeffreys' prior), in mixed order."""
        if self.share is None:
            return np.ones(L)
        from scipy.stats import beta

        points = beta.ppf((np.arange(L) + 0.5) / L, self.reached + 0.5, self.missed + 0.5)
        return np.asarray(np.random.default_rng(0).permutation(points))


class Worth(NamedTuple):
    """What a contact now is worth to each person, in good rounds: mean and ends [n]."""

    mean: Floats
    low: Floats
    high: Floats


def weigh(
    cohorts: Sequence[SiteCohort],
    c: float,
    model: Model,
    level: float,
    reach: Reach,
    evenness: Evenness = SOFTFAIR,
) -> tuple[Interval | None, Worth | None]:
    """What a plan brings, and a contact now brings to each person, by the posterior.

    Parameters
    ----------
    cohorts
        One for each site with people.
    c
        The plan's multiplier.
    model
        With the draws of the posterior; without draws, nothing is stated.
    level
        The level of the intervals.
    reach
        How many listed people were reached.
    evenness
        The plan's policy.

    Returns
    -------
    tuple of Interval and Worth
        Good rounds more than without contacts, and the worth of a contact now by the person's
        number in the programme; nan for people who are in no cohort.
    """
    L, n = model.draws.shape[:2]
    if not L:
        return None, None
    reached, totals = reach.draws(L), np.zeros(L)
    worth = Worth(*np.full((3, n), np.nan))
    tail = (1 - level) / 2
    for cohort in cohorts:
        for part, by_layer in cohort.chances(c, evenness):
            who = cohort.who[part]
            some, left = cohort.cohort.subset(part), cohort.left[part]
            chance = by_layer.reshape(len(by_layer), len(part), cohort.layers, -1)
            gained, now = np.empty(len(who)), np.empty((L, len(who)))
            for number in track(range(L), "weighing the plan by what may be true"):
                P = model.drawn(number, who)
                map_parts(
                    plan_worth,
                    len(who),
                    PEOPLE_A_THREAD,
                    P,
                    chance,
                    left,
                    reached[number],
                    some.start,
                    some.reward,
                    gained,
                    now[number],
                )
                totals[number] += gained.sum()
            worth.mean[who] = now.mean(axis=0)
            worth.low[who], worth.high[who] = np.quantile(
                now, [tail, 1 - tail], axis=0, method="weibull"
            )
    return Interval.of(totals, level), worth
