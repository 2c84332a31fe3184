"""The `priced` solver: one price m_t a step, soft Bellman values, and a certificate.

    V_t(s) = (1/c) log(exp(c (Q_t(s, 1) - m_t)) + exp(c Q_t(s, 0))),     pi_t(s) = sigmoid(c (lambda_t(s) - m_t))

The prices minimise the convex dual D_c(m) = sum_i E V_{i,0}(s_0) + k sum_t gamma^t m_t, whose gradient is gamma^t (k - expected active
arms): they are right when k arms are expected to be active at every step. theta_t = c m_t is what is solved for.

With max in place of the soft maximum, D(m) bounds from above what any policy that spends at most k a step can expect, for every m >= 0:
each arm alone, free to buy help at the price m_t, does at least as well as it does under any policy of the whole.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..cohort import Cohort
from ..errors import NotConverged
from ..kernels import recursion
from .budget import balance, sample_of, sweep
from .values import Info, PriceValues

__all__ = ["HARD_C", "hard_multiplier", "learning_multiplier", "solve_priced", "upper_bound"]

HARD_C = 200.0  # times the range of rewards: the multiplier that stands for infinity where values are learnt
INFINITE_C = 2000.0  # times that range: from here on c counts as infinite; twice the c takes twice the passes and brings nothing
NEVER, ALWAYS = 1e3, -1e3  # theta at which nobody, everybody, is active


def hard_multiplier(cohort: Cohort) -> float:
    """A multiplier so large that softness is worth next to nothing, in units of the cohort's rewards."""
    spread = float(np.ptp(cohort.reward_rows, axis=1).max())
    return HARD_C / spread if spread > 0 else HARD_C


def learning_multiplier(cohort: Cohort, c: float) -> float:
    """The multiplier with which values are learnt for c."""
    hard = hard_multiplier(cohort)
    return hard if c > INFINITE_C / HARD_C * hard else float(c)


def solve_priced(
    cohort: Cohort, k: int, horizon: int, gamma: float, c: float, tolerance: float = 1e-8
) -> PriceValues:
    """Prices at which k arms are expected to be active at every step; values are learnt at `learning_multiplier`."""
    multiplier = learning_multiplier(cohort, c)
    # At c = 0 price and softness are infinite, but what they leave behind is finite: pi = k/n, and the value of that policy.
    rule = recursion.PRICED if multiplier > 0 else recursion.JOINT
    return settled(cohort, k, horizon, gamma, multiplier, rule, tolerance, "priced")


def settled(
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float,
    c: float,
    rule: int,
    tolerance: float,
    solver: str,
) -> PriceValues:
    """Values at the balanced theta, with a warning where balance was not reached."""
    if k in (0, cohort.n):  # nothing to balance: the value of helping nobody, or everybody
        theta = np.full(horizon, ALWAYS if k else NEVER)
        return PriceValues(
            cohort, gamma, theta, 0.0, recursion.JOINT, Info(solver, c, 0.0, tolerance, 0)
        )
    solution = balance(cohort, k, horizon, gamma, c, rule, tolerance)
    info = Info(solver, c, solution.residual, tolerance, solution.passes)
    if not info.converged:
        warnings.warn(
            NotConverged(
                f"{solver} values at c = {c:g}: expected active arms differ from k = {k} at some step",
                info.residual,
                tolerance,
                "lists still have k arms, but their values are rough; choose a smaller c_value (such as 1)"
                + ("" if solver == "priced" else ", or solver='priced'"),
            ),
            stacklevel=4,
        )
    return PriceValues(cohort, gamma, solution.theta, c, rule, info)


def upper_bound(cohort: Cohort, k: int, horizon: int, gamma: float) -> float:
    """What no policy that helps at most k arms a step can expect to exceed, from this start.

    True for any prices m >= 0; those of a sample of the arms at a hard multiplier make it tight.
    """
    sample, c = sample_of(cohort), hard_multiplier(cohort)
    price = np.zeros(horizon)
    if k == 0:
        price += 2 * float(np.abs(cohort.reward_rows).max()) * horizon  # dearer than any gain
    elif k < cohort.n:
        rough = balance(sample, k * sample.n / cohort.n, horizon, gamma, c, recursion.PRICED, 1e-3)
        price = np.maximum(rough.theta / c, 0.0)
    value = sweep(cohort, price, 1.0, gamma, recursion.HARD)[0, -1]
    return float(value + k * np.sum(gamma ** np.arange(horizon) * price))
