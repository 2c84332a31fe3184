"""The law of a list: how many of a set of people are on it, and the covariance of two such numbers.

p is the stated probability of the list, L is 1 for those on it, both over the draw of one site in
one round.

A list has a fixed number of places, so two people are on it together less often than
independent draws would put them there. The draw is an exponential family with a parameter z_i for
each person, so that Cov(L_i, L_j) is the derivative of p_i by z_j. The covariance of two sums over
people is therefore exact, and takes one derivative in the direction of one of the sums
(`DesignLaw`). From sum p (1 - p) = EXACT_BELOW on, Deville and Tillé's formula (2005) is used
instead: with b the solution of b_i - b_i^2 / sum(b) = p_i (1 - p_i) over the draw,

    Cov(L_i, L_j) = -b_i b_j / sum(b),   and for any set B of people, with b_B = sum_B b:

    E sum_B L = sum_B p,                 Var sum_B L = b_B - b_B^2 / sum(b).

Its relative error there is below WITHIN. Given everything before it, the deviation of a draw has
mean zero, so the variances of rounds add up, whatever earlier lists led to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ...sampling import inclusion
from .statistics import NO_VARIANCE, count_p, z_score

__all__ = ["DesignLaw", "Draw", "Tally", "design_variance"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_BELOW = 10.0  # sum of p (1 - p) of a draw
WITHIN = 0.005  # relative error of a variance by Deville and Tillé's formula beyond that
STEP = 1e-3  # of the parameters, for a derivative to 1e-6
SETTLED = 1e-9  # largest error of log odds at which parameters are taken as found
MOST_STEPS = 200  # to find them
DAMPED = 0.7  # share of a whole step: 14 to 23 such steps were enough, against up to 214 whole


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
