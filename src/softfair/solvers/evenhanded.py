"""The `evenhanded` solver: reward plus mu times a concave welfare of the expected shares of help.

Let x_i be the expected (discounted) helps of arm i, K = sum_t gamma^t k_t their sum over all arms,
and y_i = n x_i / K the arm's rate of help relative to the mean, so that y = 1 is even. The problem

    max  E reward + mu W(y)    over all policies that help k arms a step in expectation

is concave in the occupation measures of the arms. Its dual has a price m_t for each step and a
bonus b_i for each help of arm i. Let u_i = K b_i / mu be the bonus in units of the welfare, and let
D_c(m, b) = sum_i E V_{i,0}(s_0) + sum_t gamma^t k_t m_t with the soft Bellman values of
:mod:`softfair.kernels.bonus`. The dual is to minimise D_c(m, b) + mu W*(u) over m and b, where
W*(u) is the largest W(y) - mean(u y) over y >= 0 with mean 1 (`welfare` has W* for each welfare).
With groups, y_i is the mean rate of the arm's group. The gradient of the dual by m_t is
gamma^t (k_t - expected active arms); the gradient by b_i is zero if u_i is optimal for y_i
(`bonuses`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import NotConverged, warn
from ..kernels import bonus as kernels
from ..kernels.recursion import PART
from ..kernels.threads import map_parts
from ..sampling.asked import BEYOND_REACH
from .bonuses import Bonuses, Problem, over, solve
from .budget import Budget, Steps
from .priced import learning_multiplier, solve_priced
from .values import Info, Values
from .welfare import WELFARES

__all__ = ["BonusValues", "EvenHandedValues", "Near", "solve_evenhanded"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BonusValues:
    """Gains plus bonuses, computed on request from one price a step and one bonus an arm.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    gamma : float
        Discount.
    theta : ndarray [T]
        c times the price of help at each step.
    bonus : ndarray [n]
        b_i, what a help of arm i is worth for evenness.
    c : float
        Multiplier with which values are learnt.
    info : Info
        How the solver ended.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import solve_evenhanded
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> solve_evenhanded(cohort, k=2, horizon=10, gamma=1.0, c=5.0, mu=3.0).values.rows(3, 2).shape
    (2, 20, 2)
    """

    cohort: Cohort
    gamma: float
    theta: Floats
    bonus: Floats
    c: float
    info: Info

    def rows(self, first: int, count: int) -> Floats:
        """lambda_t(s) + b_i [count, n, S] for t = first, ..., first + count - 1."""
        cohort = self.cohort
        out = np.empty((count, cohort.n, cohort.S))
        kernel = kernels.score_rows_two if cohort.S == 2 else kernels.score_rows
        run = partial(over, kernel, np.arange(cohort.n))
        arms = (cohort.P, cohort.reward_rows, self.theta, self.bonus)
        map_parts(run, cohort.n, PART, *arms, self.c, self.gamma, first, out)
        return out

    def count_figures(self, k: Budget) -> tuple[float, float]:
        """Expected entropy of the counts of one run, and expected share of arms never helped.

        Both are exact for arms that are active independently with chances
        sigmoid(c (lambda_t(s) + b_i) - theta_t). With draws of exactly k arms the figures differ
        by O(1/V), where V is the variance of the number of active arms.
        """
        cohort = self.cohort
        run = partial(over, kernels.count_figures, np.arange(cohort.n))
        arms = (cohort.P, cohort.reward_rows, cohort.start_rows, self.theta, self.bonus)
        total = float(np.broadcast_to(k, len(self.theta)).sum())
        parts = map_parts(run, cohort.n, PART, *arms, self.c, self.gamma, total)
        entropy, never = np.sum(parts, axis=0)
        return float(entropy), float(never / cohort.n)


@dataclass(frozen=True, eq=False)
class EvenHandedValues:
    """The solution of `solve_evenhanded`.

    Parameters
    ----------
    values : Values
        Gains plus bonuses: ``rows`` gives lambda_t(s) + b_i.
    bonus : ndarray [n]
        b_i.
    rates : ndarray [n]
        y_i, the expected (discounted) helps of each arm over their mean.
    """

    values: Values
    bonus: Floats
    rates: Floats

    def run_entropy(self, k: Budget, horizon: int) -> float:
        """Expected action entropy of one run, see `BonusValues.count_figures`."""
        if isinstance(self.values, BonusValues):
            return self.values.count_figures(k)[0]
        from scipy.special import xlogy

        n, helped = len(self.bonus), np.broadcast_to(k, horizon)  # [T]
        law = np.ones(1)  # of the number of helps of one arm
        for chance in helped / n:
            law = np.convolve(law, [1 - chance, chance])
        share = np.arange(horizon + 1) / max(int(helped.sum()), 1)
        return -n * float(law @ xlogy(share, share))


class Near(NamedTuple):
    """Prices and bonuses of a similar problem, from which a search begins."""

    price: Floats  # [T] m_t, of help at each step
    u: Floats | None = None  # [n] bonuses in units of the welfare; None: the bonuses of even rates


def solve_evenhanded(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float,
    c: float,
    mu: float,
    welfare: str = "entropy",
    group: Ints | None = None,
    tolerance: float = 1e-8,
    near: Near | None = None,
) -> EvenHandedValues:
    """Gains and bonuses that maximise reward plus mu times welfare.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int or array_like [T]
        Arms helped at every decision, or one number for each decision.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount of rewards and of helps.
    c : float
        Multiplier; values are learnt at `softfair.solvers.priced.learning_multiplier`.
    mu : float
        Weight of the welfare, at least 0.
    welfare : {"entropy", "log", "min"}
        See :mod:`softfair.solvers.welfare`.
    group : ndarray [n], optional
        Number of each arm's group, from 0 on without gaps; without it each arm counts for itself.
    tolerance : float
        Relative gap that is accepted between expected and allowed active arms, and between the
        rates of help and those at which the bonuses are optimal.
    near : Near, optional
        Where the search begins. Up to the tolerance, the solution does not depend on it.

    Returns
    -------
    EvenHandedValues
        If the tolerance was not reached, there is a NotConverged warning.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import solve_evenhanded
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> solution = solve_evenhanded(cohort, k=2, horizon=10, gamma=1.0, c=20.0, mu=1000.0)
    >>> bool(0.9 < solution.rates.min() and solution.rates.max() < 1.1)  # almost even
    True
    """
    refuse_costs(cohort, "EvenHanded")
    steps = Steps.of(k, horizon, cohort.n, 0.0)
    multiplier, mu = learning_multiplier(cohort, c), min(mu, BEYOND_REACH)
    if not steps.open.any() or multiplier == 0:  # chances are even, whatever the bonuses are
        return EvenHandedValues(
            solve_priced(cohort, k, horizon, gamma, c), np.zeros(cohort.n), np.ones(cohort.n)
        )
    rule = WELFARES[welfare]
    problem = Problem(cohort, steps.k, np.ones(horizon), gamma, multiplier, mu, rule, group)
    if mu == 0:
        prices = solve_priced(cohort, k, horizon, gamma, c, tolerance)
        bonuses = Bonuses(replace(problem, welfare=WELFARES["entropy"]))
        bonuses.sweep(prices.theta)
        return _evenhanded(problem, bonuses, prices.theta, prices.info)
    theta = None if near is None else near.price * multiplier
    solution = solve(problem, tolerance, theta, None if near is None else near.u)
    info = Info("evenhanded", multiplier, solution.residual, tolerance, math.ceil(solution.passes))
    if not info.converged:
        warn(
            NotConverged(
                f"even-handed values at c = {multiplier:g}, mu = {mu:g}: expected active arms "
                "differ from k at some step, or rates of help from what is best",
                info.residual,
                tolerance,
                "lists still have k arms, but their values are rough; choose a smaller c or mu",
            )
        )
    return _evenhanded(problem, solution.bonuses, solution.theta, info)


def _evenhanded(problem: Problem, bonuses: Bonuses, theta: Floats, info: Info) -> EvenHandedValues:
    b = bonuses.b
    values = BonusValues(problem.cohort, problem.gamma, theta, b, problem.c, info)
    return EvenHandedValues(values, b, bonuses.rates)
