"""The statistics by which an audit decides what chance explains; those of lists are in `design`.

**Counts.** The number of people listed in a set is distributed as a sum of independent noughts and
ones (the draw is strongly Rayleigh), and so is the number of good outcomes among independent ones.
The tails of such a sum, on both sides of its mean, are below those of a Poisson number of the same
variance around its own mean. p is taken from the Poisson number, so that small counts are not
flagged only because they are far from normal.

**Rates of a group** are ratios sum x / sum m over its people. The rounds of one person depend on
each other, different people do not, so each person's rounds are summed first:
Var = sum_i (x_i - rate m_i)^2 / (sum m)^2. Intervals are Wilson's, at the number of independent
rounds that have this variance.

**The page.** All comparisons of a page together raise an alarm in at most 5 % of honest
programmes: 1 % is for the test of all lists, the rest is shared by the rows of all tables (Holm).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import Field, dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, gammainc

__all__ = [
    "JointTest",
    "Rates",
    "alarm_level",
    "count_p",
    "flag",
    "joint_test",
    "quantile",
    "wilson",
    "z_score",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SIGNIFICANT = 0.05  # shared among the comparisons of a page
LISTS_SIGNIFICANT = SIGNIFICANT / 5  # the part of it for the test of all lists
NO_VARIANCE = 1e-12  # a variance up to this is rounding: the number was fixed
SINGULAR = 1e-9  # an eigenvalue below this share of the largest is a zero with rounding


def quantile(level: float) -> float:
    """How many standard deviations an interval reaches to either side.

    Parameters
    ----------
    level : float
        Probability of the interval, such as 0.9.

    Returns
    -------
    float
        The quantile of the normal law.
    """
    return NormalDist().inv_cdf((1 + level) / 2)


def z_score(deviation: float, variance: float) -> float:
    """A deviation in standard deviations.

    Parameters
    ----------
    deviation, variance : float
        What was found beyond what was expected, and its variance.

    Returns
    -------
    float
        z; nan where nothing could vary.
    """
    return deviation / math.sqrt(variance) if variance > NO_VARIANCE else math.nan


def count_p(deviation: float, variance: float) -> float:
    """Probability that a sum of noughts and ones is so far from its mean, to either side.

    Parameters
    ----------
    deviation, variance : float
        Of the sum from its mean, and its variance.

    Returns
    -------
    float
        At least that probability, see the top of this file; nan where nothing could vary.
    """
    if not variance > NO_VARIANCE:
        return math.nan
    return min(1.0, 2 * float(gammainc(variance + abs(deviation), variance)))


def wilson(rate: float, rounds: float, z: float) -> tuple[float, float]:
    """Ends of Wilson's interval of a share.

    Parameters
    ----------
    rate : float
        The share.
    rounds : float
        How many independent rounds it rests on.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    low, high : float
        The ends; nan without rounds.
    """
    if not rounds > 0:
        return math.nan, math.nan
    shrink = 1 + z * z / rounds
    centre = (rate + z * z / (2 * rounds)) / shrink
    half = z / shrink * math.sqrt(max(rate * (1 - rate), 0.0) / rounds + (z / (2 * rounds)) ** 2)
    return max(centre - half, 0.0), min(centre + half, 1.0)


class Flaggable(Protocol):
    """A row of a table that compares something with what was expected."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def p(self) -> float: ...

    @property
    def flagged(self) -> bool: ...


Row = TypeVar("Row", bound=Flaggable)


def alarm_level(p: Iterable[float], level: float = SIGNIFICANT - LISTS_SIGNIFICANT) -> float:
    """The largest p that raises an alarm, all comparisons of a page taken together (Holm).

    Parameters
    ----------
    p : iterable of float
        Of all comparisons of the page but the test of all lists; nan: not tested.
    level : float
        Largest probability of any alarm in an honest programme.

    Returns
    -------
    float
        The largest p that is an alarm; below 0 if none is.
    """
    tested, largest = sorted(value for value in p if not math.isnan(value)), -1.0
    for place, value in enumerate(tested):
        if value >= level / (len(tested) - place):
            break
        largest = value
    return largest


def flag(rows: Sequence[Row], level: float) -> tuple[Row, ...]:
    """Flag what chance does not explain.

    Parameters
    ----------
    rows : sequence
        Rows with p (nan: not tested) and flagged.
    level : float
        See `alarm_level`.

    Returns
    -------
    tuple
        The same rows, flagged where p is at most the level.
    """
    return tuple(replace(row, flagged=bool(row.p <= level)) for row in rows)


@dataclass(frozen=True)
class JointTest:
    """Whether chance explains several deviations, taken together."""

    chi_square: float
    freedom: int  # degrees of freedom; 0: nothing could vary
    p: float


def joint_test(deviation: Floats, covariance: Floats) -> JointTest:
    """Chi-square test of several deviations together.

    Parameters
    ----------
    deviation : ndarray, shape (J,)
        What was found beyond what was expected.
    covariance : ndarray, shape (J, J)
        It may be singular: a fixed total takes a degree of freedom.

    Returns
    -------
    JointTest
        With nan where nothing could vary.
    """
    if not len(deviation):
        return JointTest(math.nan, 0, math.nan)
    size, direction = np.linalg.eigh(covariance)
    free = size > SINGULAR * size.max(initial=NO_VARIANCE)
    freedom = int(free.sum())
    if not freedom:
        return JointTest(math.nan, 0, math.nan)
    chi_square = float(np.sum((deviation @ direction[:, free]) ** 2 / size[free]))
    return JointTest(chi_square, freedom, float(chdtrc(freedom, chi_square)))


@dataclass(frozen=True, eq=False)
class Rates:
    """Ratios sum x / sum m by label, [J], with intervals that take a person's rounds together."""

    rate: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, x: Floats, m: Floats, label: NDArray[Any], J: int, z: float) -> Rates:
        """From x, m and label of each of n people."""

        def total(values: Floats) -> Floats:
            return np.bincount(label, values, J).astype(np.float64)

        rounds, persons = total(m), total((m > 0).astype(np.float64))
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = total(x) / rounds
            # sum_i (x_i - rate m_i)^2, multiplied out
            squares = np.maximum(
                total(x * x) - 2 * rate * total(x * m) + rate**2 * total(m * m), 0.0
            )
            variance = squares / rounds**2 * persons / (persons - 1)
            # The number of independent rounds that would have the same variance.
            worth = np.minimum(rate * (1 - rate) / variance, rounds)
        # If all rounds have the same value the variance is 0: count people instead of rounds.
        worth = np.where(np.isfinite(worth) & (rate > 0) & (rate < 1), worth, persons)
        ends = np.array([wilson(r, w, z) for r, w in zip(rate, worth, strict=True)]).reshape(J, 2)
        return cls(rate, ends[:, 0], ends[:, 1])
