"""Gains of arms if groups have shares of the places, and the prices at which the shares are kept.

A lower and an upper bound on the number of active arms of a group add two prices a step to the dual
of `priced`, one for each end; the price of an end that does not bind is zero:

    D(m, a, b) = sum_i V_i(m + sum over its groups g of (a_g - b_g))
                 + sum_t gamma^t (k m_t + sum_g (most_g a_gt - least_g b_gt)),    a, b >= 0.

The dual is convex; its gradient is the allowed number of active arms less the expected one. With a
longest wait the arms are those of `promised`. Arms in the same groups form a cell and pay the same
prices, so that a pass goes over one cell after another. There are T prices for k and T for each end
of a bound. L-BFGS-B finds them, under the bounds a, b >= 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, refuse_costs
from ..kernels.rules import RuleCode
from .priced import learning_multiplier
from .promised import Pass, PromisedValues, lottery
from .values import Info

__all__ = ["SharedValues", "solve_shared"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 1e-3  # accepted gap of the expected active arms (all, and of each group) as part of k
PASSES = 400  # most passes of a search


@dataclass(frozen=True, eq=False)
class SharedValues:
    """Gains lambda_t(s) that follow from one number a step for each cell of arms.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    gamma : float
        Discount.
    cell : ndarray [n]
        The cell of each arm. Arms in the same groups form a cell.
    prices : ndarray [cells, T]
        theta of each cell and step, see :mod:`softfair.kernels.waiting`.
    c : float
        Multiplier of the gains.
    rule : RuleCode
        PRICED or JOINT.
    floor : float
        The least chance.
    info : Info
        How the solver ended.
    W : int
        The longest wait; 0 if none is promised.
    """

    cohort: Cohort
    gamma: float
    cell: Ints
    prices: Floats
    c: float
    rule: RuleCode
    floor: float
    info: Info
    W: int = 0

    @property
    def theta(self) -> Floats:
        """theta of every step and arm [T, n, 1]."""
        return self.prices.T[:, self.cell, None]

    def rows(self, first: int, count: int) -> Floats:
        """lambda_t(s) [count, n, S] for t = first, ..., first + count - 1.

        With a longest wait, lambda_t(d, s) [count, n, W S] as in `PromisedValues`.
        """
        out = np.empty((count, self.cohort.n, max(self.W, 1) * self.cohort.S))
        for j, theta in enumerate(self.prices):
            arms = np.flatnonzero(self.cell == j)
            if len(arms):
                cohort, rule = self.cohort.subset(arms), (theta, self.c, self.rule)
                values = PromisedValues(cohort, self.gamma, *rule, self.W, self.floor, self.info)
                out[:, arms] = values.rows(first, count)
        return out


def solve_shared(
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float,
    c: float,
    inside: NDArray[np.bool_],
    least: Floats,
    most: Floats,
    floor: float = 0.0,
    W: int = 0,
    left: Ints | None = None,
) -> SharedValues:
    """Gains at the prices at which the expected active arms, all and of each group, are as allowed.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int
        Arms helped at every decision, 0 < k < n.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount.
    c : float
        Multiplier; values are learnt at :func:`softfair.solvers.priced.learning_multiplier`.
    inside : ndarray [groups, n] of bool
        Whether each arm is in each group.
    least, most : ndarray [groups]
        The least and the largest expected number of active arms of each group.
    floor : float
        The least chance, 0 if none is promised.
    W : int
        The longest wait, 0 if none is promised.
    left : ndarray of int [n], optional
        Decisions within which each arm must be helped, between 1 and W. Default: W.

    Returns
    -------
    SharedValues
        ``info.residual`` is the largest gap, as a part of k.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> from softfair.solvers import solve_shared
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> north = np.arange(20)[None] < 10
    >>> solved = solve_shared(cohort, 4, 6, 1.0, 5.0, north, np.array([3.0]), np.array([4.0]))
    >>> solved.info.converged, solved.prices.shape
    (True, (2, 6))
    """
    refuse_costs(cohort, "shares of groups")
    multiplier = learning_multiplier(cohort, c)
    kinds, cell = np.unique(inside.T, axis=0, return_inverse=True)
    cell = np.asarray(cell, np.int64).ravel()
    begin = np.full(cohort.n, max(W, 1)) if left is None or not W else np.asarray(left, np.int64)
    arms = [np.flatnonzero(cell == j) for j in range(len(kinds))]
    problem = _Problem(
        [cohort.subset(of_cell) for of_cell in arms],
        [begin[of_cell] for of_cell in arms],
        kinds.astype(np.float64),
        float(k),
        np.asarray(least, np.float64),
        np.asarray(most, np.float64),
        gamma,
        floor,
        W,
    )
    flat = problem.solved(np.zeros((1, problem.unknowns)), 0.0)
    start = np.repeat(flat, horizon, axis=0)
    if multiplier > 0:
        rule, theta = RuleCode.PRICED, problem.theta(problem.solved(start, multiplier))
    else:
        rule, theta = RuleCode.JOINT, problem.lottery(start)
    residual, passes = problem.residual(theta, multiplier, rule), problem.passes
    info = Info("priced", multiplier, residual, TOLERANCE, passes)
    return SharedValues(cohort, gamma, cell, theta, multiplier, rule, floor, info, W)


def _entropy(chance: float) -> float:
    """The entropy of a coin that shows heads with this chance."""
    if chance in (0, 1):
        return 0.0
    return -chance * math.log(chance) - (1 - chance) * math.log1p(-chance)


@dataclass(eq=False)
class _Problem:
    """The dual. Its unknowns [T, 1 + 2 groups] are c m, then c a and c b of each group."""

    cells: list[Cohort]
    left: list[Ints]  # of each cell, decisions within which each arm must be helped
    kinds: Floats  # [cells, groups]
    k: float
    least: Floats
    most: Floats
    gamma: float
    floor: float
    W: int
    passes: int = 0

    @property
    def unknowns(self) -> int:
        """The number of unknowns for each step."""
        return 1 + 2 * len(self.least)

    def theta(self, x: Floats) -> Floats:
        """theta of each cell and step [cells, T], from the unknowns."""
        G = len(self.least)
        return x[:, 0] + self.kinds @ (x[:, 1 : 1 + G] - x[:, 1 + G :]).T

    def expected(self, x: Floats, c: float) -> tuple[Floats, float]:
        """Active arms of each cell at each step [cells, T], and c times the sum of values."""
        if c > 0:
            active, value = self.followed(self.theta(x), c, RuleCode.PRICED)
            return active, c * value
        # A lottery without deadlines: chances depend on theta alone.
        self.passes += 1
        theta, sizes = self.theta(x), np.array([cohort.n for cohort in self.cells])
        chance = np.maximum(1 / (1 + np.exp(theta)), self.floor)
        spread = _entropy(self.floor) - self.floor * theta
        worth = np.where(chance > self.floor, np.logaddexp(0, -theta), spread)
        return sizes[:, None] * chance, float(sizes @ worth.sum(axis=1))

    def followed(self, theta: Floats, c: float, rule: RuleCode) -> tuple[Floats, float]:
        """Active arms of each cell at each step [cells, T], and the sum of values."""
        self.passes += 1
        active, value = np.empty(theta.shape), 0.0
        for j, (cohort, left) in enumerate(zip(self.cells, self.left, strict=True)):
            out = Pass(self.W, self.floor, left)(cohort, theta[j], c, self.gamma, rule)
            active[j], value = out[0, :-1], value + float(out[0, -1])
        return active, value

    def lottery(self, x: Floats) -> Floats:
        """theta [cells, T] of a lottery; with a wait, each cell has the places it has without."""
        if not self.W:
            return self.theta(x)
        active, _ = self.expected(x, 0.0)
        cells = zip(self.left, active, strict=True)
        return np.array([lottery(left, places, self.W) for left, places in cells])

    def slack(self, active: Floats) -> Floats:
        """Gradient [T, unknowns]: by how much expected active arms keep k and each bound."""
        of_groups = active.T @ self.kinds  # [T, groups]
        return np.hstack(
            [self.k - active.sum(axis=0)[:, None], self.most - of_groups, of_groups - self.least]
        )

    def residual(self, theta: Floats, c: float, rule: RuleCode) -> float:
        """The largest gap, as a part of k."""
        gaps = self.slack(self.followed(theta, c, rule)[0])
        return float(max(np.abs(gaps[:, 0]).max(), -gaps[:, 1:].min(initial=0.0)) / self.k)

    def solved(self, start: Floats, c: float) -> Floats:
        """The unknowns that minimise the dual; the search begins at ``start``."""
        from scipy.optimize import minimize

        T, unknowns = start.shape
        later = (self.gamma if c else 1.0) ** np.arange(T)[:, None]
        linear = np.hstack([[self.k], self.most, -self.least])

        def dual(flat: Floats) -> tuple[float, Floats]:
            x = flat.reshape(T, unknowns)
            active, value = self.expected(x, c)
            slope = later * self.slack(active) / self.k
            return (value + float((later * (x @ linear)[:, None]).sum())) / self.k, slope.ravel()

        bounds = ([(None, None)] + [(0.0, None)] * (unknowns - 1)) * T
        settings = {"maxiter": PASSES, "maxfun": PASSES, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-5}
        optimum = minimize(dual, start.ravel(), jac=True, bounds=bounds, options=settings)
        return np.asarray(optimum.x).reshape(T, unknowns)
