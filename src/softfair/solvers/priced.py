"""The `priced` solver: one price m_t a step, soft Bellman values, and an upper bound.

    V_t(s) = (1/c) log(exp(c (Q_t(s, 1) - m_t)) + exp(c Q_t(s, 0)))
    pi_t(s) = sigmoid(c (lambda_t(s) - m_t))

The prices minimise the convex dual D_c(m) = sum_i E V_{i,0}(s_0) + sum_t gamma^t k_t m_t, whose
gradient is gamma^t (k_t - expected active arms): they are optimal when k_t arms are expected to be
active at every step t. The unknowns are theta_t = c m_t.

With max in place of the soft maximum, D(m) is an upper bound on what any policy that helps at most
k_t arms a step can expect, for every m >= 0: each arm alone, free to buy help at the price m_t,
does at least as well as under any policy for all arms together.

Where help for arm i costs b_i, and b is their mean, it buys b_i / b arms' worth of help:

    V_t(s) = Q_t(s, 0) + (b_i / (b c)) log(1 + exp(c (lambda_t(s) b / b_i - m_t)))
    pi_t(s) = sigmoid(c (lambda_t(s) b / b_i - m_t))

These maximise reward plus 1/c times the entropy of each arm's choices, weighted by its cost, given
that what help is expected to cost is the budget. The chance follows the gain for its cost, and at
c = 0 all chances are the same. Unweighted entropy would give sigmoid(c (lambda - m b_i)), under
which a lottery (c = 0) all but leaves out those who cost much. Divided by b_i / b, the equations
are those without costs of an arm whose rewards are b / b_i times as large (`Cohort.per_cost`).
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
# c = inf, and the c from which on that is done. A larger one would take more passes, and at 200 a
# soft maximum already exceeds the maximum by at most log(2) / 200 of the range.
HARD_C, INFINITE_C = 200.0, 2000.0
# Below this the gains of the lottery are learnt, which differ by some 1e-7 or less: values at c
# have entropies over c in them, whose rounding would be larger than that.
LOTTERY_C = 1e-8


def hard_multiplier(cohort: Cohort) -> float:
    """The multiplier that stands for infinity where values are learnt.

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
        c, or :func:`hard_multiplier` for c above ten times that; 0 for c below 1e-8 over the range
        of the rewards.

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
        Arms helped at every decision, or at each.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount.
    c : float
        Multiplier; values are learnt at :func:`learning_multiplier`.
    tolerance : float
        Relative gap between expected and allowed active arms that is accepted at every step.
    crew : Crew, optional
        Who works on the shards of the cohort; None means this process.

    Returns
    -------
    PriceValues
        The gains, for the cost of an average arm if there are costs; where the tolerance was not
        reached, with a NotConverged warning.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import solve_priced
    >>> values = solve_priced(sf.datasets.synthetic(n=20, seed=0), 2, 10, 1.0, 5.0)
    >>> values.info.converged, values.theta.shape
    (True, (10,))
    """
    multiplier = learning_multiplier(cohort, c)
    # As c -> 0 the price and the softness grow without bound, but pi = k/n and the value of that
    # policy are finite.
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
        With a NotConverged warning where the tolerance was not reached.
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
    """A total reward that no policy that spends at most k a step can expect to exceed.

    Parameters
    ----------
    cohort : Cohort
        The arms, with their start.
    k : int or array_like [T]
        Arms helped at every decision, or at each; or what their help may cost.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount.
    crew : Crew, optional
        Who works on the shards of the cohort; None means this process.

    Returns
    -------
    float
        The hard dual at the prices of a sample of the arms, at :func:`hard_multiplier`. It is an
        upper bound at any prices m >= 0; these make it tight.

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
    # Where nobody may be helped, a price above every gain; where everybody may, none.
    price = np.where(steps.k > 0, 0.0, 1 + steps.farthest)
    if steps.open.any():
        k_sample = steps.k * sample.n / cohort.n
        rough = balance(sample, k_sample, horizon, gamma, c, RuleCode.PRICED, 1e-3)
        price[steps.open] = np.maximum(rough.theta[steps.open] / c, 0.0)
    value = sweep(cohort, price, 1.0, gamma, RuleCode.HARD, crew)[0, -1]
    return float(value + np.sum(steps.k * gamma ** np.arange(horizon) * price))
