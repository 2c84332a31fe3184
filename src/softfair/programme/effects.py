"""The effect of one arm of a trial against another, adjusted for what was known before it.

A unit g (a person, or a site with w_g people) has the outcome y_g, the mean over its people, and
numbers x_g that were known before the assignment. In each arm a separately, least squares fits

    y_g = m_a + (x_g - x)' b_a + error,    weights w_g,    x the weighted mean of all units

(Lin, Annals of Applied Statistics 2013): m_a is the mean outcome had all units been in arm a, and
the effect of a against b is m_a - m_b. The arms are a random choice, so neither the line nor equal
variances need be true. The part of y that x explains no longer adds to the variance, and
asymptotically the effect is never less precise than the difference of means (b_a = 0). The choice
of the most balanced assignment does not matter either, as long as x has the numbers that were
balanced (Li and Ding, Journal of the Royal Statistical Society B 2020).

With e the residuals, h the leverages and m_a = sum_g c_g y_g, Var(m_a) is estimated by

    sum_g c_g^2 e_g^2 / (1 - h_g)

(HC2; y_g is the mean of a site's people, so how alike they are does not matter). That is a
quadratic form in the errors; if these have the variances 1 / w_g, it has the mean and variance of a
multiple of a chi-square with

    f_a = (sum_g v_g)^2 / sum_gh V_gh^2

degrees of freedom, V its matrix and v its diagonal (Bell and McCaffrey 2002). Variances of two arms
add up, with Satterthwaite's degrees of freedom; for arms without x that is Welch's test.

The outcomes of people in one arm are not quite independent: a list has a fixed number of places.
Because of that, the mean of an arm varies less than these formulas say, not more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVEL", "Contrast", "Means", "usable"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95  # of intervals of an effect
A_NUMBER = 5  # units that the smallest arm must have for each number x that is adjusted for
DEPENDENT = 1e-6  # share of a number's variance in an arm that the others must leave unexplained
EXACT_FREEDOM = 1000  # units of an arm up to which f is computed; beyond, t is nearly normal


@dataclass(frozen=True)
class Contrast:
    """The mean of one arm less that of another."""

    value: float
    se: float  # standard error
    freedom: float

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return self.se * _t(LEVEL, self.freedom)

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.value + self.half

    @property
    def p(self) -> float:
        """Probability of a difference at least so far from 0 without an effect; nan: not known."""
        from scipy.special import stdtr

        if not self.se > 0:
            return math.nan
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.se))

    def detectable(self, power: float, level: float = LEVEL) -> float:
        """The least effect for which the interval excludes 0 with a probability of ``power``."""
        return self.se * (_t(level, self.freedom) + _t(2 * power - 1, self.freedom))


def _t(level: float, freedom: float) -> float:
    """How many standard errors an interval reaches to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2)) if freedom > 0 else math.nan


@dataclass(frozen=True, eq=False)
class Means:
    """The mean outcome of every arm [A], had everybody been in it."""

    mean: Floats
    variance: Floats
    freedom: Floats
    numbers: int  # how many numbers known before they are adjusted for

    @classmethod
    def of(cls, y: Floats, X: Floats, arm: Ints, A: int, weight: Floats | None = None) -> Means:
        """The fit of every arm; nan where an arm has too few units.

        Parameters
        ----------
        y
            Outcomes [m] of the units.
        X
            What was known of them before [m, q], the most important first.
        arm
            The arm of each unit [m], below A.
        A
            The number of arms.
        weight
            How many people of each unit have a known outcome [m], at least 1. Default: 1.
        """
        w = np.ones(len(y)) if weight is None else weight
        columns = usable(X, arm, A, w)
        x = X[:, columns]
        x = x - np.average(x, axis=0, weights=w) if len(y) else x
        fits = [_fit(y[arm == a], x[arm == a], w[arm == a]) for a in range(A)]
        mean, variance, freedom = np.array(fits).T
        return cls(mean, variance, freedom, len(columns))

    def contrast(self, a: int, b: int) -> Contrast:
        """Arm a against arm b."""
        V, f = self.variance[[a, b]], self.freedom[[a, b]]
        known = bool((f > 0).all() and V.sum() > 0)
        freedom = float(V.sum() ** 2 / np.sum(V**2 / f)) if known else math.nan
        return Contrast(float(self.mean[a] - self.mean[b]), math.sqrt(V.sum()), freedom)


def usable(X: Floats, arm: Ints, A: int, w: Floats) -> list[int]:
    """The columns of X, from the first on, that can be adjusted for in every arm.

    There is at most one for every A_NUMBER units of the smallest arm. In no arm is a chosen
    column (almost) a linear function of those before it.
    """
    sizes = np.bincount(arm, minlength=A)
    most = int(sizes.min()) // A_NUMBER if len(sizes) else 0
    within = [arm == a for a in range(A)]
    bases = [np.sqrt(w[here])[:, None] for here in within]  # orthogonal columns, 1 first
    chosen: list[int] = []
    for j in range(X.shape[1]):
        if len(chosen) >= most:
            break
        rests = []
        for here, basis in zip(within, bases, strict=True):
            x = np.sqrt(w[here]) * (X[here, j] - np.average(X[:, j], weights=w))
            parts = np.sum(basis * x[:, None], axis=0) / np.sum(basis**2, axis=0)
            rests.append(x - basis @ parts)
        own = np.average((X[:, j] - np.average(X[:, j], weights=w)) ** 2, weights=w)
        if all(
            np.sum(rest**2) > DEPENDENT * own * w[here].sum()
            for rest, here in zip(rests, within, strict=True)
        ):
            chosen.append(j)
            bases = [np.column_stack(pair) for pair in zip(bases, rests, strict=True)]
    return chosen


def _fit(y: Floats, x: Floats, w: Floats) -> tuple[float, float, float]:
    """Mean at x = 0, its variance and degrees of freedom; y [m], x [m, q], w [m]."""
    root = np.sqrt(w)
    D = np.column_stack([np.ones(len(y)), x]) * root[:, None]  # [m, 1 + q]
    if len(y) <= D.shape[1]:
        return float(y.mean()) if len(y) else math.nan, math.nan, math.nan
    Q, R = np.linalg.qr(D)
    c = Q @ np.linalg.solve(R.T, np.eye(D.shape[1])[0])  # [m] of root * y
    e = root * y - Q @ (Q.T @ (root * y))
    left = 1 - np.sum(Q**2, axis=1)
    if left.min() < DEPENDENT:  # the fit passes through such a unit, so its error is not known
        return float(c @ (root * y)), math.nan, math.nan
    return float(c @ (root * y)), float(np.sum(c**2 * e**2 / left)), _freedom(Q, c, left)


def _freedom(Q: Floats, c: Floats, left: Floats) -> float:
    """f_a, from V = G (1 - QQ') G: the form is |Ge|^2, e = (1 - QQ') error, G diagonal with g."""
    m, q = Q.shape
    if m > EXACT_FREEDOM:
        return float(m - q)
    g = np.abs(c) / np.sqrt(left)
    V = np.outer(g, g) * (np.eye(m) - Q @ Q.T)
    return float(np.trace(V) ** 2 / np.sum(V**2))
