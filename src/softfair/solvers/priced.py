"""The `priced` solver: one price m_t a step, soft Bellman values, and an upper bound.

    V_t(s) = (1/c) log(exp(c (Q_t(s, 1) - m_t)) + exp(c Q_t(s, 0)))
    pi_t(s) = sigmoid(c (lambda_t(s) - m_t))

The prices minimise the convex dual D_c(m) = sum_i E V_{i,0}(s_0) + sum_t gamma^t k_t m_t, whose
gradient is gamma^t (k_t - expected active arms): they are optimal when k_t arms are expected to be
active at every step t. The unknowns are theta_t = c m_t.

With max in place of the soft maximum, D(m) is for every m >= 0 an upper bound on the expected
reward of any policy that helps at most k_t arms a step: an arm that may buy help at the price m_t
on its own does at least as well as under any policy for all arms together.

If help for arm i costs b_i, and b is the mean cost, help counts as b_i / b arms:

    V_t(s) = Q_t(s, 0) + (b_i / (b c)) log(1 + exp(c (lambda_t(s) b / b_i - m_t)))
    pi_t(s) = sigmoid(c (lambda_t(s) b / b_i - m_t))

These maximise reward plus 1/c times the entropy of each arm's choices, weighted by its cost, under
the condition that the expected cost of help is the budget. The chance follows the gain for cost,
and at c = 0 all chances are the same. Unweighted entropy would give sigmoid(c (lambda - m b_i));
a lottery (c = 0) would then nearly leave out expensive arms. Divided by b_i / b, the equations are
those, without costs, of an arm whose rewards are b / b_i times as large (`Cohort.per_cost`).
"""

from __future__ import annotations

import numpy as np

from ..cluster import Crew
from ..cohort import Cohort
from ..errors import NotConverged, warn
from ..kernels.rules import RuleCode
from .budget import Budget, Steps, balance
from .scale import in_arms, most_gain, reward_range
from .sweeps import sample_of, sweep
from .values import Info, PriceValues

__all__ = [
    "HARD_C",
    "balanced_values",
    "hard_multiplier",
    "learning_multiplier",
    "solve_priced",
    "upper_bound",
]

# In units of one over the range of rewards: the multiplier with which values are learnt for
# c = inf, and the c above which c counts as infinite. A larger multiplier would take more passes,
# and at 200 a soft maximum exceeds the maximum by at most log(2) / 200 of the range.
HARD_C, INFINITE_C = 200.0, 2000.0
# For a smaller c, the gains of the lottery (c = 0) are learnt. They differ by about 1e-7 or less
# from those at c, whose values contain entropies over c with larger rounding errors.
LOTTERY_C = 1e-8


def hard_multiplier(cohort: Cohort) -> float:
    """The multiplier with which values are learnt if c is infinite.

    Parameters
    ----------
    cohort : Cohort
        The arms.

    Returns
    -------
    float
        200 over the range of the rewards; 200 if all rewards are equal.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.priced import hard_multiplier
    >>> hard_multiplier(sf.datasets.synthetic(n=5, seed=0))
    200.0
    """
    spread = reward_range(cohort)
    return HARD_C / spread if spread > 0 else HARD_C


def learning_multiplier(cohort: Cohort, c: float) -> float:
    """The multiplier with which values are learnt for c.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    c : float
        Multiplier >= 0, possibly ``math.inf``.

    Returns
    -------
    float
        c; :func:`hard_multiplier` if c is above ten times that multiplier; 0 if c is below 1e-8
        over the range of the rewards.

    Examples
    --------
    >>> import math
    >>> import softfair as sf
    >>> from softfair.solvers.priced import learning_multiplier
    >>> cohort = sf.datasets.synthetic(n=5, seed=0)
    >>> learning_multiplier(cohort, 10), learning_multiplier(cohort, math.inf)
    (10.0, 200.0)
    """
    hard = hard_multiplier(cohort)
    if c < LOTTERY_C / HARD_C * hard:
        return 0.0
    return hard if c > INFINITE_C / HARD_C * hard else float(c)


def solve_priced(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float,
    c: float,
    tolerance: float = 1e-8,
    crew: Crew | None = None,
) -> PriceValues:
    """Gains at the prices for which k arms are expected to be active at every step.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int or array_like [T]
        Arms helped at every decision, or one number for each decision.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount.
    c : float
        Multiplier; values are learnt at :func:`learning_multiplier`.
    tolerance : float
        Relative gap between expected and allowed active arms that is accepted at every step.
    crew : Crew, optional
        The workers that compute on the shards of the cohort; None means this process.

    Returns
    -------
    PriceValues
        The gains; if there are costs, gains for the cost of an average arm. If the tolerance was
        not reached, there is a NotConverged warning.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import solve_priced
    >>> values = solve_priced(sf.datasets.synthetic(n=20, seed=0), 2, 10, 1.0, 5.0)
    >>> values.info.converged, values.theta.shape
    (True, (10,))
    """
    multiplier = learning_multiplier(cohort, c)
    # As c -> 0 the price and the entropy over c grow without bound. The rule JOINT at c = 0 has
    # pi = k/n and the values of that lottery, which are finite.
    rule = RuleCode.PRICED if multiplier > 0 else RuleCode.JOINT
    return balanced_values(cohort, k, horizon, gamma, multiplier, rule, tolerance, "priced", crew)


def balanced_values(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float,
    c: float,
    rule: RuleCode,
    tolerance: float,
    solver: str,
    crew: Crew | None = None,
) -> PriceValues:
    """Values at the theta for which k arms are expected to be active at every step.

    Parameters
    ----------
    cohort, k, horizon, gamma, tolerance, crew
        See :func:`solve_priced`.
    c : float
        Multiplier with which values are learnt.
    rule : RuleCode
        PRICED, JOINT or SUCCESSIVE.
    solver : str
        The name of the solver, for messages.

    Returns
    -------
    PriceValues
        The gains. If the tolerance was not reached, there is a NotConverged warning.
    """
    arms, allowed = cohort.per_cost, in_arms(cohort, k)
    steps = Steps.of(allowed, horizon, cohort.n, 0.0)
    if not steps.open.any():  # the value of helping nobody, or everybody
        info = Info(solver, c, 0.0, tolerance, 0)
        return PriceValues(arms, gamma, steps.every([], 0.0), 0.0, RuleCode.JOINT, info, crew)
    solution = balance(cohort, allowed, horizon, gamma, c, rule, tolerance, crew=crew)
    info = Info(solver, c, solution.residual, tolerance, solution.passes)
    if not info.converged:
        what = f"{solver} values at c = {c:g}: expected active arms differ from k at some step"
        remedy = (
            "lists still have k arms, but their values are rough; "
            "choose a smaller c_value (such as 1)"
        )
        if solver != "priced":
            remedy += ", or solver='priced'"
        warn(NotConverged(what, info.residual, tolerance, remedy))
    return PriceValues(arms, gamma, solution.theta, c, rule, info, crew)


def upper_bound(
    cohort: Cohort, k: Budget, horizon: int, gamma: float, crew: Crew | None = None
) -> float:
    """An upper bound on the expected total reward of every policy that spends at most k a step.

    Parameters
    ----------
    cohort : Cohort
        The arms, with their start.
    k : int or array_like [T]
        Arms helped at every decision, or one number for each decision; with costs, what may be
        spent.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount.
    crew : Crew, optional
        The workers that compute on the shards of the cohort; None means this process.

    Returns
    -------
    float
        The hard dual, which is an upper bound at any prices m >= 0. The prices are found on a
        sample of the arms, at :func:`hard_multiplier`, so that the bound is nearly tight.

    Examples
    --------
    With k = n the bound is what every arm can reach on its own.

    >>> import softfair as sf
    >>> from softfair.solvers import upper_bound
    >>> cohort = sf.Cohort.two_state([[[0.2, 0.2], [0.6, 0.6]]])
    >>> round(upper_bound(cohort, k=1, horizon=10, gamma=1.0), 9)
    6.0
    """
    sample, c = sample_of(cohort, crew), hard_multiplier(cohort)
    steps = Steps.of(in_arms(cohort, k), horizon, cohort.n, most_gain(cohort, horizon))
    # If nobody may be helped, the price is above every gain; if everybody may, the price is 0.
    price = np.where(steps.k > 0, 0.0, 1 + steps.farthest)
    if steps.open.any():
        k_sample = steps.k * sample.n / cohort.n
        rough = balance(sample, k_sample, horizon, gamma, c, RuleCode.PRICED, 1e-3)
        price[steps.open] = np.maximum(rough.theta[steps.open] / c, 0.0)
    value = sweep(cohort, price, 1.0, gamma, RuleCode.HARD, crew)[0, -1]
    return float(value + np.sum(steps.k * gamma ** np.arange(horizon) * price))
