"""Figures from the rows of an experiment: means with intervals, and answers by intervals.

Runs on one cohort are correlated, so that an interval is made from the means of cohorts, by
Student's t. All policies of an experiment ran on the same cohorts with the same random numbers, and
so did experiments of the same data set and size. So differences are paired by cohort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ..comparison import CONFIDENCE, mean_interval

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FEWEST_COHORTS",
    "Answer",
    "Difference",
    "Summary",
    "all_above",
    "cohort_means",
    "difference",
    "difference_of",
    "summarise",
]

Floats = NDArray[np.float64]
#: The answer by intervals: yes, no, undecided, too few cohorts, or too few episodes of Algorithm 1.
Answer = Literal["yes", "no", "open", "few", "early"]

FEWEST_COHORTS = 5  # with fewer, the interval depends too much on whether means are normal
RANGE = {  # the possible values of figures that cannot be any number
    "entropy": (0.0, math.inf),
    "never_selected": (0.0, 1.0),
    "longest_wait": (0.0, math.inf),
}


@dataclass(frozen=True)
class Summary:
    """A figure of one policy: its mean over cohorts with the 95 % interval.

    Parameters
    ----------
    mean : float
        Mean over cohorts of the mean over runs.
    sd : float
        Standard deviation over all simulations, which the paper prints; nan for a single one.
    low, high : float
        The interval of the mean, cut to possible values of the figure; nan with fewer than
        `FEWEST_COHORTS` cohorts.
    cohorts : int
        The number of cohorts on which the policy ran.
    settled : bool
        Whether the values that the policy follows had settled on every cohort.
    """

    mean: float
    sd: float
    low: float
    high: float
    cohorts: int
    settled: bool

    def text(self, digits: int = 0, unit: str = "") -> str:
        """The mean and the interval as text, with an asterisk if values had not settled."""
        mark = "" if self.settled else "*"
        mean = f"{self.mean:.{digits}f}{unit}{mark}"
        if math.isnan(self.low):
            return mean
        return f"{mean} ({self.low:.{digits}f} to {self.high:.{digits}f})"

    @property
    def whiskers(self) -> tuple[float, float]:
        """Lengths below and above the mean for an error bar; 0 if there is no interval."""
        if math.isnan(self.low):
            return 0.0, 0.0
        return self.mean - self.low, self.high - self.mean


@dataclass(frozen=True)
class Difference:
    """The mean difference between two policies or settings over cohorts, and its interval.

    Parameters
    ----------
    mean, low, high : float
        The mean and its 95 % interval; the ends are nan with fewer than `FEWEST_COHORTS` cohorts.
    cohorts : int
        The number of cohorts.
    """

    mean: float
    low: float
    high: float
    cohorts: int

    def text(self, digits: int = 0) -> str:
        """The difference with its sign, and the interval."""
        if math.isnan(self.low):
            return f"{self.mean:+.{digits}f}"
        return f"{self.mean:+.{digits}f} ({self.low:+.{digits}f} to {self.high:+.{digits}f})"

    def high_of(self, comparisons: int) -> float:
        """The upper end at the level of one of several comparisons, any of which may decide."""
        from scipy.special import stdtrit  # scipy.stats.t.ppf, without the time stats takes to load

        if math.isnan(self.high):
            return math.nan
        tail = (1 - CONFIDENCE) / 2
        usual, wider = stdtrit(self.cohorts - 1, [1 - tail, 1 - tail / comparisons])
        return self.mean + (self.high - self.mean) * float(wider / usual)


def cohort_means(rows: pd.DataFrame, policy: str, column: str) -> Floats:
    """Mean over runs of a figure of one policy, for each cohort.

    Parameters
    ----------
    rows : DataFrame
        The rows of one experiment, with columns ``policy`` and ``instance``.
    policy, column : str
        The policy and the figure.

    Returns
    -------
    array [cohorts]
        The means, in the order of the cohorts' numbers.
    """
    chosen = rows["policy"].to_numpy() == policy
    values = rows[column].to_numpy(np.float64)[chosen]
    _, cohort = np.unique(rows["instance"].to_numpy()[chosen], return_inverse=True)
    means: Floats = np.bincount(cohort, values) / np.bincount(cohort)
    return means


def summarise(rows: pd.DataFrame, policy: str, column: str) -> Summary:
    """Give a figure of one policy with its interval over cohorts.

    Parameters
    ----------
    rows : DataFrame
        The rows of one experiment.
    policy, column : str
        The policy and the figure.

    Returns
    -------
    Summary
    """
    means = cohort_means(rows, policy, column)
    chosen = rows["policy"].to_numpy() == policy
    values = rows[column].to_numpy(np.float64)[chosen]
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    settled = bool(rows["converged"].to_numpy(bool)[chosen].all())
    low, high = _interval(means)
    least, most = RANGE.get(column, (-math.inf, math.inf))
    return Summary(
        float(means.mean()), spread, max(low, least), min(high, most), len(means), settled
    )


def _interval(values: Floats) -> tuple[float, float]:
    """The 95 % interval of the mean of independent values; nan if there are too few values."""
    if len(values) < FEWEST_COHORTS:
        return math.nan, math.nan
    interval = mean_interval(values)
    return interval.low, interval.high


def difference_of(values: Floats) -> Difference:
    """Give the mean of differences, one for each cohort, with its interval.

    Parameters
    ----------
    values : array [cohorts]
        One difference for each cohort.

    Returns
    -------
    Difference
    """
    return Difference(float(np.mean(values)), *_interval(values), len(values))


def difference(
    rows: pd.DataFrame,
    policy: str,
    other: str,
    column: str,
    other_rows: pd.DataFrame | None = None,
) -> Difference:
    """Give the difference of a figure between two policies, paired by cohort.

    Parameters
    ----------
    rows : DataFrame
        The rows of the experiment in which ``policy`` ran.
    policy, other : str
        Two policies, or one policy in two experiments.
    column : str
        The figure.
    other_rows : DataFrame, optional
        The rows of the experiment in which ``other`` ran, if that is another experiment. It must
        have the same cohorts, that is, the same data set, number of arms and seed.

    Returns
    -------
    Difference
        The figure of ``policy`` minus that of ``other``.
    """
    if other_rows is None:
        other_rows = rows
    means, other_means = cohort_means(rows, policy, column), cohort_means(other_rows, other, column)
    return difference_of(means - other_means)


def all_above(differences: Sequence[Difference], margin: float = 0.0) -> Answer:
    """Decide whether all of several differences are above a margin.

    Parameters
    ----------
    differences : sequence of Difference
        The differences that are claimed to be above the margin.
    margin : float
        The margin; -1 means "less by no more than one point".

    Returns
    -------
    {"yes", "no", "open", "few"}
        "yes" if every interval lies above the margin, "no" if one lies below it, "open" otherwise;
        "few" if there are too few cohorts.

    Notes
    -----
    A "yes" needs all intervals, so that each may have the level 95 %. A "no" needs only one of
    them, so that its level is higher: 5 % is divided by the number of comparisons (Bonferroni).
    """
    if not differences or any(math.isnan(d.low) for d in differences):
        return "few"
    if all(d.low > margin for d in differences):
        return "yes"
    if any(d.high_of(len(differences)) < margin for d in differences):
        return "no"
    return "open"
