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
    """The rewards and the bound against which the rewards of a policy are measured.

    Parameters
    ----------
    none : array [runs]
        Total reward of each run without intervention, with the random numbers of the policy's runs.
    oracle : array [runs]
        Total reward of each run of the Oracle, with the same random numbers; nan if the Oracle
        cannot be fitted.
    headroom : float
        The most that help can add to the expected total reward: `softfair.solvers.upper_bound`
        with k, less the same with 0, which is exact.
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
    """The figures of one policy for each run, each an array [runs]."""

    benefit: Floats  # % of what the Oracle adds on average
    of_bound: Floats  # % of the most that help can add
    reward: Floats  # discounted total
    entropy: Floats  # action entropy
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
        The result of :func:`softfair.simulate`.
    yardsticks : Yardsticks
        Yardsticks of the same cohort with the same number of runs and the same seed.

    Returns
    -------
    Figures
        Each figure as an array [runs]. ``benefit`` divides by the mean gain of the Oracle over all
        runs, because the Oracle may gain nothing in a single run.
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
        A figure of each run, or the difference of a figure between two policies.
    denominator : array [runs], optional
        The denominator of each run, if ``values`` were divided by its mean. The interval then
        includes the error of that mean.

    Returns
    -------
    Interval
        Symmetric about the mean, and not cut off at the range of the figure; nan with a single run
        or without a mean.

    Notes
    -----
    The interval is Student's t with runs - 1 degrees of freedom, on the sample standard deviation
    of the values. For a ratio of means b = mean(x) / mean(y), the values are x / mean(y), and the
    delta method gives the standard deviation of x - b y over mean(y). This includes the covariance
    of x and y, which share the random numbers of a run. The interval of the benefit of the Oracle
    itself is the point 100.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.comparison import mean_interval
    >>> interval = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> round(interval.mean, 3), round(interval.low, 3), round(interval.high, 3)
    (2.0, -0.484, 4.484)
    """
    runs, mean = len(values), float(np.mean(values))
    if runs < 2 or math.isnan(mean):
        return Interval(mean, math.nan, math.nan)
    from scipy.special import stdtrit  # scipy.stats.t.ppf, without the seconds that stats needs

    residuals = values - mean
    if denominator is not None:
        residuals = values - mean * denominator / denominator.mean()  # these sum to 0, too
    error = math.sqrt(float(residuals @ residuals) / (runs - 1) / runs)
    half = float(stdtrit(runs - 1, (1 + CONFIDENCE) / 2)) * error
    return Interval(mean, mean - half, mean + half)
