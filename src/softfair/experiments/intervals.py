"""Figures from the rows of an experiment: means with intervals, and the answers these give.

Runs on one cohort are alike, so an interval is made from the means of cohorts, by Student's t. All
policies of an experiment ran on the same cohorts with the same luck, and so did experiments of the
same data set and size: their differences are paired, cohort by cohort.
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
#: The answer that intervals give: yes, no, undecided, or too few cohorts for an interval.
Answer = Literal["yes", "no", "open", "few", "early"]

FEWEST_COHORTS = 5  # with fewer, the interval hangs on how normal their means are
RANGE = {  # what a figure can be, where that is less than every number
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
        Standard deviation over all simulations, which the paper prints; nan of a single one.
    low, high : float
        The interval of the mean, within what the figure can be; nan with fewer cohorts than
        `FEWEST_COHORTS`.
    cohorts : int
        How many cohorts the policy ran on.
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
        """The mean and the interval as words, with an asterisk if values had not settled."""
        mark = "" if self.settled else "*"
        mean = f"{self.mean:.{digits}f}{unit}{mark}"
        if math.isnan(self.low):
            return mean
        return f"{mean} ({self.low:.{digits}f} to {self.high:.{digits}f})"

    @property
    def whiskers(self) -> tuple[float, float]:
        """Lengths below and above the mean for an error bar; 0 where there is no interval."""
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
        How many cohorts the difference was taken on.
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
        """The upper end if this is one of several comparisons of which any may decide."""
        from scipy.special import stdtrit  # scipy.stats.t.ppf, without the time stats takes to load

        if math.isnan(self.high):
            return math.nan
        tail = (1 - CONFIDENCE) / 2
        usual, wider = stdtrit(self.cohorts - 1, [1 - tail, 1 - tail / comparisons])
        return self.mean + (self.high - self.mean) * float(wider / usual)


def cohort_means(rows: pd.DataFrame, policy: str, column: str) -> Floats:
    """Mean over runs of one policy's figure on each cohort.

    Parameters
    ----------
    rows : DataFrame
        Of one experiment, with columns policy and instance.
    policy, column : str
        Whose figure, and which.

    Returns
    -------
    array [cohorts]
        In the order of the cohorts' numbers.
    """
    chosen = rows["policy"].to_numpy() == policy
    values = rows[column].to_numpy(np.float64)[chosen]
    _, cohort = np.unique(rows["instance"].to_numpy()[chosen], return_inverse=True)
    means: Floats = np.bincount(cohort, values) / np.bincount(cohort)
    return means


def summarise(rows: pd.DataFrame, policy: str, column: str) -> Summary:
    """Give a policy's figure with its interval over cohorts.

    Parameters
    ----------
    rows : DataFrame
        Of one experiment.
    policy, column : str
        Whose figure, and which.

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
    """The 95 % interval of the mean of independent values; nan if they are too few."""
    if len(values) < FEWEST_COHORTS:
        return math.nan, math.nan
    interval = mean_interval(values)
    return interval.low, interval.high


def difference_of(values: Floats) -> Difference:
    """Give the mean of differences, one for each cohort, with its interval.

    Parameters
    ----------
    values : array [cohorts]
        One difference a cohort.

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
    """Give how much more a policy has of a figure than another, paired by cohort.

    Parameters
    ----------
    rows : DataFrame
        Of the experiment in which ``policy`` ran.
    policy, other : str
        Two policies, or the same in two experiments.
    column : str
        The figure.
    other_rows : DataFrame, optional
        Of the experiment in which ``other`` ran, if that is another one; it must have the same
        cohorts, that is, the same data set, number of arms and seed.

    Returns
    -------
    Difference
        Of ``policy`` minus ``other``.
    """
    second = rows if other_rows is None else other_rows
    return difference_of(cohort_means(rows, policy, column) - cohort_means(second, other, column))


def all_above(differences: Sequence[Difference], margin: float = 0.0) -> Answer:
    """Decide whether every one of several differences is above a margin.

    Parameters
    ----------
    differences : sequence of Difference
        What is claimed to be above the margin.
    margin : float
        Above what; -1 asks for "less by no more than one point".

    Returns
    -------
    {"yes", "no", "open", "few"}
        "yes" if every interval lies above the margin, "no" if one lies below it, "open" if neither,
        "few" if there are too few cohorts.

    Notes
    -----
    All intervals must speak for a "yes", so that each at 95 % is enough. A single one is enough for
    a "no", and so its level is raised: 5 % is divided by the number of comparisons (Bonferroni).
    """
    if not differences or any(math.isnan(d.low) for d in differences):
        return "few"
    if all(d.low > margin for d in differences):
        return "yes"
    if any(d.high_of(len(differences)) < margin for d in differences):
        return "no"
    return "open"
