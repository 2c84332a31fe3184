"""The statistics by which an audit decides what chance explains.

p is the stated probability of the list, L is 1 for those on it, both over the draw of one site in
one round.

**Lists.** A list has a fixed number of places, so two people are on it together less often than
independent draws would put them there. The draw is an exponential family with a parameter z_i for
each person, so that Cov(L_i, L_j) is the derivative of p_i by z_j. The covariance of two sums over
people is therefore exact, and takes one derivative in the direction of one of the sums
(`DesignLaw`). From sum p (1 - p) = EXACT_BELOW on, Deville and Tillé's formula (2005) is used
instead: with b the solution of b_i - b_i^2 / sum(b) = p_i (1 - p_i) over the draw,

    Cov(L_i, L_j) = -b_i b_j / sum(b),   and for any set B of people, with b_B = sum_B b:

    E sum_B L = sum_B p,                 Var sum_B L = b_B - b_B^2 / sum(b).

Its relative error there is below WITHIN. Given everything before it, the deviation of a draw has
mean zero, so the variances of rounds add up, whatever earlier lists led to.

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtrc, gammainc

from ...sampling import inclusion

__all__ = [
    "DesignLaw",
    "Draw",
    "JointTest",
    "Rates",
    "Tally",
    "alarm_level",
    "count_p",
    "design_variance",
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
EXACT_BELOW = 10.0  # sum of p (1 - p) of a draw
WITHIN = 0.005  # relative error of a variance by Deville and Tillé's formula beyond that
STEP = 1e-3  # of the parameters, for a derivative to 1e-6
SETTLED = 1e-9  # largest error of log odds at which parameters are taken as found
MOST_STEPS = 200  # to find them
DAMPED = 0.7  # share of a whole step: 14 to 23 such steps were enough, against up to 214 whole
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


def design_variance(p: Floats) -> Floats:
    """The variance of one draw, split among its people.

    Parameters
    ----------
    p : ndarray, shape (m,)
        Probabilities of the list in one draw with a fixed number of places.

    Returns
    -------
    ndarray, shape (m,)
        b with b - b^2 / sum(b) = p (1 - p), so that Cov(L_i, L_j) = -b_i b_j / sum(b).

    Notes
    -----
    Given C = sum(b), each b is a root of a quadratic: the lower root, except perhaps for the person
    with the largest variance. C is then the root of one function that changes sign once.

    References
    ----------
    J.-C. Deville and Y. Tillé (2005), Variance approximation under balanced sampling, Journal of
    Statistical Planning and Inference 128.

    Examples
    --------
    A list of one place has the variances p (1 - p) and the covariances -p p':

    >>> import numpy as np
    >>> design_variance(np.array([0.5, 0.3, 0.2])).round(6)
    array([0.5, 0.3, 0.2])
    """
    own = np.clip(p * (1 - p), 0.0, None)
    top = int(own.argmax())
    if own[top] <= 0:
        return own

    def lower(C: float) -> Floats:
        root: Floats = 2 * own / (1 + np.sqrt(np.maximum(1 - 4 * own / C, 0.0)))
        return root

    least = 4 * float(own[top])  # below this the quadratic of the largest has no root
    if lower(least).sum() >= least * (1 - 1e-12):
        # Every lower root is at most 2 p (1 - p), which bounds their sum.
        C = _root(lambda C: float(lower(C).sum()) - C, least, max(2 * float(own.sum()), least))
        return lower(C)
    # If even the least C exceeds the sum of the lower roots, the person with the largest variance
    # has the upper root, C - lower; the lower roots of all others then sum to that person's own
    # lower root.

    def excess(C: float) -> float:
        b = lower(C)
        return 2 * float(b[top]) - float(b.sum())

    high = 2 * least
    while excess(high) > 0 and high < 1e6 * least:
        high *= 2
    C = _root(excess, least, high)
    b = lower(C)
    b[top] = C - b[top]
    return b


class DesignLaw:
    """The law of one draw with a fixed number of places.

    Parameters
    ----------
    p : ndarray, shape (m,)
        Everybody's chance of the list. Of all laws with these chances, the programme draws by the
        one of greatest entropy.
    """

    def __init__(self, p: Floats) -> None:
        self.p = p
        self.variance = float(np.sum(p * (1 - p)))

    def covariance(self, X: Floats) -> Floats:
        """Covariances of the sums of X over those listed.

        Parameters
        ----------
        X : ndarray, shape (m, J)
            J numbers of each person.

        Returns
        -------
        ndarray, shape (J, J)
            Exact up to 1e-6 of the largest where little is left to chance, see the top of this
            file.
        """
        z = self._parameters
        if z is None:
            columns, total = np.ascontiguousarray(X.T), float(self._b.sum())
            weighted = self._b * columns
            part = weighted.sum(axis=1)
            # Not by BLAS: its sums depend on its threads.
            own = np.array([[np.sum(x * y) for x in columns] for y in weighted])
            return own - (np.outer(part, part) / total if total > 0 else 0.0)
        free = self._free
        columns = X[free]
        k = round(float(self.p[free].sum()))
        out = np.zeros((X.shape[1], X.shape[1]))
        for j, x in enumerate(columns.T):
            size = float(np.abs(x).max(initial=0.0))
            if size == 0:
                continue
            step = STEP / size * x
            slope = inclusion(z + step, k, "joint") - inclusion(z - step, k, "joint")
            out[j] = columns.T @ (slope * size / (2 * STEP))
        return (out + out.T) / 2

    def of_sets(self, label: Ints, J: int) -> Floats:
        """Covariances of the numbers of people listed in several disjoint sets.

        Parameters
        ----------
        label : ndarray, shape (m,)
            The set that each person is in; below 0: none.
        J : int
            Number of sets.

        Returns
        -------
        ndarray, shape (J, J)
            As `covariance` of a column of noughts and ones for each set, in O(m).
        """
        inside = label >= 0
        if self._parameters is None:
            part = np.bincount(np.where(inside, label, J), self._b, J + 1)
            sets, total = part[:J], float(part.sum())
            if total <= 0:
                return np.zeros((J, J))
            covariance = -np.outer(sets, sets) / total
            # Written so that the variance of a set of everybody is 0 without rounding.
            np.fill_diagonal(covariance, sets * ((total - sets) / total))
            return np.asarray(covariance)
        X = np.zeros((len(label), J))
        X[inside, label[inside]] = 1.0
        return self.covariance(X)

    @cached_property
    def _b(self) -> Floats:
        return design_variance(self.p)

    @cached_property
    def _free(self) -> Ints:
        """Places in the draw of the people whose listing is left to chance."""
        return np.flatnonzero((self.p > NO_VARIANCE) & (self.p < 1 - NO_VARIANCE))

    @cached_property
    def _parameters(self) -> Floats | None:
        """z of the people whose listing is left to chance; None: the formula is used instead.

        z is changed step by step until it gives their chances (Chen, Dempster and Liu, Biometrika
        1994).
        """
        p = self.p[self._free]
        k = round(float(p.sum()))
        fixed = abs(float(p.sum()) - k) < 1e-6 and 0 < k < len(p)
        if self.variance >= EXACT_BELOW or not fixed:
            return None
        z = np.log(p / (1 - p))
        for _ in range(MOST_STEPS):
            chances = inclusion(z, k, "joint")
            off = np.log(p / (1 - p)) - np.log(chances / (1 - chances))
            if np.abs(off).max() < SETTLED:
                return z
            z = z + DAMPED * off
        return None


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that is positive at ``low`` and negative at ``high`` is zero.

    Rounding may hide the change of sign at an end; that end is then the root.
    """
    if excess(low) <= 0:
        return low
    if excess(high) >= 0:
        return high
    return float(brentq(excess, low, high, xtol=1e-300, rtol=1e-13))


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


@dataclass(frozen=True, eq=False)
class Draw:
    """The people in the draw of one site in one round; arrays [m]."""

    law: DesignLaw
    listed: Ints
    label: Ints  # the set that each person is counted in; below 0: none


class Tally:
    """Listed and expected by label [J], summed over draws.

    Parameters
    ----------
    J : int
        Number of labels.

    Attributes
    ----------
    rounds : ndarray, shape (J,)
        People in the draw, summed over rounds.
    expected, listed : ndarray, shape (J,)
        How many of these are expected to be listed, and how many are.
    covariance : ndarray, shape (J, J)
        Of listed - expected.
    """

    def __init__(self, J: int) -> None:
        self.rounds, self.expected, self.listed = np.zeros((3, J))
        self.covariance = np.zeros((J, J))

    def add(self, draw: Draw) -> None:
        """Count a draw."""
        J = len(self.rounds)
        counted = np.flatnonzero(draw.label >= 0)
        label = draw.label[counted]
        size = np.bincount(label, minlength=J)
        self.rounds += size
        self.expected += np.bincount(label, draw.law.p[counted], J)
        self.listed += np.bincount(label, draw.listed[counted], J)
        there = np.flatnonzero(size)
        if len(there):
            place = np.full(J + 1, -1)  # the last is for people without a label
            place[there] = np.arange(len(there))
            self.covariance[np.ix_(there, there)] += draw.law.of_sets(place[draw.label], len(there))

    def z(self, j: int) -> float:
        """How far the number listed is from the expected, in standard deviations."""
        return z_score(float(self.listed[j] - self.expected[j]), float(self.covariance[j, j]))

    def p(self, j: int) -> float:
        """Probability of a number listed at least so far from the expected, on either side."""
        return count_p(float(self.listed[j] - self.expected[j]), float(self.covariance[j, j]))

    def ends(self, j: int, z: float) -> tuple[float, float]:
        """Ends of the interval in which the number listed should be."""
        half = z * math.sqrt(max(float(self.covariance[j, j]), 0.0))
        return max(float(self.expected[j]) - half, 0.0), float(self.expected[j]) + half
