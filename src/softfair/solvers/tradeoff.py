"""An upper bound on the reward of every policy as a function of how evenly the policy helps.

The bound is the minimum of many lines; each line follows from the dual of `evenhanded` with hard
maxima.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import InvalidInput
from .bonuses import Problem, solve
from .budget import Budget, Steps
from .priced import hard_multiplier, upper_bound
from .scale import reward_range
from .welfare import WELFARES

__all__ = ["TradeoffBound", "tradeoff_bound"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUGH = 1e-3  # residual of the prices of a bound: all prices are valid, and these are nearly best
ROUNDING = 1e-9  # largest excess of a computed entropy over log n
# The weights mu at which prices and bonuses are solved for, divided by what help can add to the
# reward; and the factors of each mu for which its prices and bonuses are used.
MUS = 2.0 ** np.arange(-8, 4)
FACTORS = 2.0 ** np.linspace(-0.5, 0.5, 9)
LAST_FACTORS = 2.0 ** np.linspace(-0.5, 20, 83)


@dataclass(frozen=True, eq=False)
class TradeoffBound:
    """An upper bound on the expected reward of every policy at each degree of evenness.

    Call the bound with an action entropy (or the value of another welfare); see
    :func:`tradeoff_bound`.

    Parameters
    ----------
    slope : ndarray [lines]
        By how much each line falls if the welfare rises by one unit.
    intercept : ndarray [lines]
        The value of each line at perfect evenness.
    even : float
        The welfare of perfect evenness: log n for the entropy.
    """

    slope: Floats
    intercept: Floats
    even: float

    def __call__(self, evenness: ArrayLike) -> Any:
        """The least of all lines at each ``evenness``.

        Parameters
        ----------
        evenness : array_like
            Expected entropy of the shares of help, or the welfare.

        Returns
        -------
        float or ndarray
            No policy that helps exactly k arms a step and is at least as even can expect more.

        Raises
        ------
        InvalidInput
            ``evenness`` is above perfect evenness.
        """
        welfare = np.asarray(evenness, dtype=np.float64)
        if not np.all(welfare <= self.even + ROUNDING):
            raise InvalidInput(
                f"evenness is {np.max(welfare):g}; no shares of help are more even than "
                f"{self.even:g}, give at most that"
            )
        lack = self.even - welfare
        return np.min(self.intercept + self.slope * lack[..., None], axis=-1)


def tradeoff_bound(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float = 1.0,
    welfare: str = "entropy",
    group: Ints | None = None,
) -> TradeoffBound:
    """Bound the reward of every policy by how evenly it helps.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int or array_like [T]
        Arms helped at every decision, or one number for each decision.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount of the rewards; helps are not discounted.
    welfare : {"entropy", "log", "min"}
        The measure of evenness.
    group : ndarray [n], optional
        Number of each arm's group, from 0 on without gaps.

    Returns
    -------
    TradeoffBound
        A concave function of the evenness, for policies that help exactly k arms at each decision.

    Notes
    -----
    Let N_i count the helps of arm i under some policy, K = sum_t k_t, y_i = n E N_i / K. For any
    prices m and bonuses b = mu u / K, with D the dual of hard maxima,

        E reward <= D(m, b) - sum_i b_i E N_i                    an arm on its own does no worse
                 = D(m, b) - mu mean(u y)
                 <= D(m, b) + mu W*(u) - mu W(y)                 by the definition of W*
                 <= D(m, b) + mu W*(u) - mu E W(n N / K)         W is concave (Jensen)

    So a policy whose counts have an expected welfare of at least w cannot expect more than
    D(m, b) + mu W*(u) - mu w, a line in w. Any prices and bonuses give a valid line. The prices and
    bonuses of the soft problem at several mu, used with weights around mu, give nearly tight lines.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import tradeoff_bound
    >>> bound = tradeoff_bound(sf.datasets.synthetic(n=20, seed=0), k=2, horizon=10)
    >>> bool(bound(2.0) > bound(2.5) > bound(2.9))
    True
    """
    refuse_costs(cohort, "the limit of benefit by evenness")
    T, best = horizon, upper_bound(cohort, k, horizon, gamma)
    slopes, intercepts = [0.0], [best]
    rule = WELFARES[welfare]
    most = rule.value(np.ones(cohort.n))  # the welfare of even rates
    steps = Steps.of(k, horizon, cohort.n, 0.0)
    if steps.open.any():
        headroom = best - upper_bound(cohort, 0, horizon, gamma)
        scale = headroom if headroom > 0 else max(reward_range(cohort), 1.0) * float(steps.k.sum())
        rho: Floats = np.power(gamma, np.arange(T, dtype=np.float64))
        theta: Floats | None = None
        u: Floats | None = None
        c = hard_multiplier(cohort)
        for mu in scale * MUS:
            problem = Problem(cohort, steps.k, rho, 1.0, c, mu, rule, group)
            solution = solve(problem, ROUGH, theta, u)
            theta, u = solution.theta, solution.bonuses.u
            value = solution.bonuses.hard_value(theta / c) + float(np.sum(steps.k * theta / c))
            b = solution.bonuses.b
            for factor in FACTORS if mu < scale * MUS[-1] else LAST_FACTORS:
                weight = mu * factor
                slopes.append(weight)
                conjugate = rule.conjugate(b * (problem.total / weight))
                intercepts.append(value + weight * (conjugate - most))
    even = math.log(cohort.n) if welfare == "entropy" else most
    return TradeoffBound(np.array(slopes), np.array(intercepts), even)
