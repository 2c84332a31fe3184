"""The figures of runs, each a mean with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import metrics
from ..simulation import Result

__all__ = ["CONFIDENCE", "Figures", "Interval", "Yardsticks", "figures_of", "mean_interval"]

Floats = NDArray[np.float64]

CONFIDENCE = 0.95  # of every interval


@dataclass(frozen=True, eq=False)
class Yardsticks:
    """What a policy's rewards are measured against.

    Parameters
    ----------
    none : array [runs]
        Total reward of each run without intervention, with the luck of the policy's runs.
    oracle : array [runs]
        Total reward of each run of the Oracle, with the same luck; nan where it cannot be fitted.
    headroom : float
        The most that help can add to the expected total reward: `softfair.solvers.upper_bound`
        with k less the same with 0, which is exact.
    """

    none: Floats  # [runs]
    oracle: Floats  # [runs]
    headroom: float

    @property
    def oracle_gain(self) -> Floats:
        """What the Oracle adds in each run [runs]."""
        return self.oracle - self.none


@dataclass(frozen=True, eq=False)
class Figures:
    """One policy's figures, run by run, each an array [runs]."""

    benefit: Floats  # % of what the Oracle adds on average
    of_bound: Floats  # % of the most that help can add
    reward: Floats  # discounted total
    entropy: Floats  # of who was helped
    never_selected: Floats  # share of arms
    longest_wait: Floats  # of any arm, in decisions
    gini: Floats  # of selections


@dataclass(frozen=True)
class Interval:
    """A mean over runs and its interval at CONFIDENCE."""

    mean: float
    low: float
    high: float


def figures_of(result: Result, yardsticks: Yardsticks) -> Figures:
    """Compute all figures of a policy from its simulated runs.

    Parameters
    ----------
    result : Result
        What :func:`softfair.simulate` returned.
    yardsticks : Yardsticks
        Measured on the same cohort with the same number of runs and the same seed.

    Returns
    -------
    Figures
        Each figure as an array [runs]. ``benefit`` divides by the mean gain of the Oracle over all
        runs, because a run in which the Oracle happens to gain nothing has no ratio of its own.
    """
    gained = result.totals - yardsticks.none
    oracle_gain = float(yardsticks.oracle_gain.mean())
    return Figures(
        benefit=metrics.intervention_benefit(gained, 0.0, oracle_gain),
        of_bound=metrics.intervention_benefit(gained, 0.0, yardsticks.headroom),
        reward=result.totals,
        entropy=metrics.action_entropy(result.counts),
        never_selected=metrics.never_selected(result.counts),
        longest_wait=metrics.longest_wait(result.waits),
        gini=metrics.gini(result.counts),
    )


def mean_interval(values: Floats, denominator: Floats | None = None) -> Interval:
    r"""Give the mean over independent runs with its 95 % interval.

    Parameters
    ----------
    values : array [runs]
        A figure, run by run, or the difference of a figure between two policies.
    denominator : array [runs], optional
        Where ``values`` were divided by the mean of an estimated denominator: that denominator, run
        by run. The interval then includes its error.

    Returns
    -------
    Interval
        Symmetric about the mean, and not cut off at the range of the figure; nan with a single run
        or without a mean.

    Notes
    -----
    Student's t with runs - 1 degrees of freedom, on the sample standard deviation of the values. A
    ratio of means b = mean(x) / mean(y), with values x / mean(y), has by the delta method the
    standard deviation of x - b y over mean(y): x and y of one run share their luck, and their
    covariance is thereby included. The interval of the Oracle's own benefit is a point, 100.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.comparison import mean_interval
    >>> found = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (2.0, -0.484, 4.484)
    """
    runs, mean = len(values), float(np.mean(values))
    if runs < 2 or math.isnan(mean):
        return Interval(mean, math.nan, math.nan)
    from scipy.special import stdtrit  # scipy.stats.t.ppf, without the seconds that stats needs

    residuals = values - mean
    if denominator is not None:
        residuals = values - mean * denominator / denominator.mean()  # sums to 0 as well
    error = math.sqrt(float(residuals @ residuals) / (runs - 1) / runs)
    half = float(stdtrit(runs - 1, (1 + CONFIDENCE) / 2)) * error
    return Interval(mean, mean - half, mean + half)
