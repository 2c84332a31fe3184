"""A bound on the whole trade-off between reward and evenness, which no policy can exceed.

It is the least of many lines; each follows from the dual of `evenhanded` with hard maxima.
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

ROUGH = 1e-3  # residual of the prices of a bound: any prices are valid, and these nearly the best
ROUNDING = 1e-9  # by which an entropy that was computed may exceed log n
# Weights mu at which a bound is solved, times what help can add to the reward, and the weights
# about each at which its prices and bonuses are used.
MUS = 2.0 ** np.arange(-8, 4)
FACTORS = 2.0 ** np.linspace(-0.5, 0.5, 9)
LAST_FACTORS = 2.0 ** np.linspace(-0.5, 20, 83)


@dataclass(frozen=True, eq=False)
class TradeoffBound:
    """The most reward that any policy can expect at each degree of evenness.

    Call it with the entropy of who was helped (or the value of another welfare); see
    :func:`tradeoff_bound`.

    Parameters
    ----------
    slope : ndarray [lines]
        What one unit of welfare costs at most, along each line.
    intercept : ndarray [lines]
        The reward at which each line meets perfect evenness.
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
            No policy that helps exactly k arms a step can expect more reward and be as even.

        Raises
        ------
        InvalidInput
            Nothing is as even as that.
        """
        given = np.asarray(evenness, dtype=np.float64)
        if not np.all(given <= self.even + ROUNDING):
            raise InvalidInput(
                f"evenness is {np.max(given):g}; no shares of help are more even than "
                f"{self.even:g}, give at most that"
            )
        lack = self.even - given
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
        Arms helped at every decision, or at each.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount of the rewards; helps count in full whenever they come.
    welfare : {"entropy", "log", "min"}
        In what evenness is measured.
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

        E reward <= D(m, b) - sum_i b_i E N_i                    each arm alone does no worse
                 = D(m, b) - mu mean(u y)
                 <= D(m, b) + mu W*(u) - mu W(y)                 by the definition of W*
                 <= D(m, b) + mu W*(u) - mu E W(n N / K)         W is concave (Jensen)

    So a policy whose counts have an expected welfare of at least w cannot expect more than
    D(m, b) + mu W*(u) - mu w, a line in w. The lines here are those of soft prices and bonuses at
    several mu, each used with weights around its own: any numbers are valid, good ones are tight.

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
