"""The laws by which an audit tells chance from cause.

p is the stated probability of the list, L is 1 for who is on it, both over the draw of one site in
one round.

**Lists.** A list has a fixed number of places, so two people are on it together less often than
independent draws would put them there. With b the solution of b_i - b_i^2 / sum(b) = p_i (1 - p_i)
over the draw (Deville and Tillé, 2005),

    Cov(L_i, L_j) = -b_i b_j / sum(b),   and for any set B of people, with b_B = sum_B b:

    E sum_B L = sum_B p,                 Var sum_B L = b_B - b_B^2 / sum(b).

This is exact for a lottery, for a list of one place and, always, for each person alone; for other
sets it is within 5 % from ten people in the draw on. Given everything before it, the deviation of a
draw has mean zero, so the variances of rounds add up, whatever earlier lists led to.

**Rates of a group** are ratios sum x / sum m over its people. The rounds of one person depend on
each other and people do not, so each person's rounds are summed first:
Var = sum_i (x_i - rate m_i)^2 / (sum m)^2. Intervals are Wilson's, at the number of independent
rounds that have this variance.

**Tables.** A row is flagged if its p is below 5 % over the number of comparisons in its table
(Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtrc

__all__ = [
    "Draw",
    "JointTest",
    "Rates",
    "Tally",
    "design_variance",
    "flag",
    "joint_test",
    "quantile",
    "two_sided",
    "wilson",
    "z_score",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SIGNIFICANT = 0.05  # shared among the comparisons of a table
NO_VARIANCE = 1e-12  # at most so much is rounding: the number was fixed
SINGULAR = 1e-9  # an eigenvalue below this share of the largest is a zero with rounding


def quantile(level: float) -> float:
    """How many standard deviations an interval reaches to either side.

    Parameters
    ----------
    level : float
        Of the interval, such as 0.9.

    Returns
    -------
    float
        The quantile of the normal law.
    """
    return NormalDist().inv_cdf((1 + level) / 2)


def two_sided(z: float) -> float:
    """Probability of a normal deviation of at least that size.

    Parameters
    ----------
    z : float
        The deviation, in standard deviations; nan: not known.

    Returns
    -------
    float
        p; nan for nan.
    """
    return math.erfc(abs(z) / math.sqrt(2))


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


def flag(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Flag what chance does not explain, the rows of a table taken together.

    Parameters
    ----------
    rows : sequence
        Rows with p (nan: not tested) and flagged.

    Returns
    -------
    tuple
        The same rows, flagged where p is below 5 % over the number of tests.
    """
    comparisons = sum(not math.isnan(row.p) for row in rows)
    level = SIGNIFICANT / max(comparisons, 1)
    return tuple(replace(row, flagged=bool(row.p < level)) for row in rows)


@dataclass(frozen=True)
class JointTest:
    """Whether several deviations, taken together, are chance."""

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
    # Even the least C exceeds the sum of the lower roots: the largest takes its upper root,
    # C - lower, so that the lower roots of all others sum to its own.

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
    def of(cls, x: Floats, m: Floats, label: Ints, J: int, z: float) -> Rates:
        """From x, m and label [n], a person each."""

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
            # How many rounds of people all different would say as much.
            worth = np.minimum(rate * (1 - rate) / variance, rounds)
        # Where all rounds are alike the variance says nothing: count people, not their rounds.
        worth = np.where(np.isfinite(worth) & (rate > 0) & (rate < 1), worth, persons)
        ends = np.array([wilson(r, w, z) for r, w in zip(rate, worth, strict=True)]).reshape(J, 2)
        return cls(rate, ends[:, 0], ends[:, 1])


@dataclass(frozen=True, eq=False)
class Draw:
    """The people in the draw of one site in one round; arrays [m]."""

    probability: Floats
    listed: Ints
    b: Floats  # the variance of the draw, split among its people
    label: Ints  # the set that each person is counted in; below 0: none


@dataclass(frozen=True, eq=False)
class Tally:
    """Listed and expected by label [J], summed over draws."""

    rounds: Floats  # people in the draw, round by round
    expected: Floats
    listed: Floats
    covariance: Floats  # [J, J] of listed - expected

    @classmethod
    def of(cls, draws: Iterable[Draw], J: int) -> Tally:
        """Sum over draws."""
        rounds, expected, listed = np.zeros(J), np.zeros(J), np.zeros(J)
        covariance = np.zeros((J, J))
        for draw in draws:
            counted = np.flatnonzero(draw.label >= 0)
            label = draw.label[counted]
            rounds += np.bincount(label, minlength=J)
            expected += np.bincount(label, draw.probability[counted], J)
            listed += np.bincount(label, draw.listed[counted], J)
            part, total = np.bincount(label, draw.b[counted], J), draw.b.sum()
            if total > 0:
                covariance += np.diag(part) - np.outer(part, part) / total
        return cls(rounds, expected, listed, covariance)

    def z(self, j: int) -> float:
        """How far the number listed is from the expected, in standard deviations."""
        return z_score(float(self.listed[j] - self.expected[j]), float(self.covariance[j, j]))

    def ends(self, j: int, z: float) -> tuple[float, float]:
        """Between which the number listed should be."""
        half = z * math.sqrt(max(float(self.covariance[j, j]), 0.0))
        return max(float(self.expected[j]) - half, 0.0), float(self.expected[j]) + half
