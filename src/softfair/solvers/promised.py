"""Gains of arms with a promise, and an upper bound on every policy that keeps the promise.

The promise is about each arm separately: the arm is helped within W decisions of its last help (or
of the start), and its chance at any decision is at least a floor. So the dual of `priced` applies,
with the arm of :mod:`softfair.kernels.waiting` in place of the plain arm: there is one price a
step, the waiting time is part of the state, and help is forced at the deadline. Gains take coming
deadlines into account: an arm that is not helped now may have to be helped later at a higher price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import NotConverged, warn
from ..kernels import waiting
from ..kernels.rules import RuleCode
from ..kernels.threads import map_parts
from .budget import Budget, Steps, balance
from .priced import hard_multiplier, learning_multiplier
from .sweeps import sample_of
from .values import Info

__all__ = ["Pass", "PromisedValues", "lottery", "promised_bound", "solve_promised"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 1e-4  # relative gap between expected and allowed active arms; see `solve_promised`
# Arms of the sample on which prices are found first. The Jacobian takes a pass over the sample for
# each step. At n = 1e5, T = 26 and W = 12 a solution took 5.0 s of processor time with 16384 arms,
# 2.5 s with 4096, 1.7 s with 2048 and 1.8 s with 1024.
SAMPLE = 2048
SURE, TINY = 700.0, 1e-300  # log-odds of a chance of 1; the least chance that has log-odds


@dataclass(frozen=True)
class Pass:
    """One pass over arms with the promise, see :func:`softfair.solvers.sweeps.sweep`."""

    W: int  # 0: no deadline
    floor: float
    left: Ints  # [n] or [1] decisions that each arm has left at the start

    def __call__(
        self, cohort: Cohort, theta: Floats, c: float, gamma: float, rule: RuleCode
    ) -> Floats:
        # The arms of a sample are spread evenly over the cohort (`sweeps.sample_of`).
        many = len(self.left)
        left = self.left if many == 1 else self.left[np.arange(cohort.n) * many // cohort.n]
        arms = (cohort.P, cohort.reward_rows, cohort.start_rows, left)
        args = (*arms, theta, c, gamma, int(rule), self.W, self.floor)
        total: Floats = np.sum(map_parts(waiting.sweep, cohort.n, waiting.PART, *args), axis=0)
        return total


@dataclass(frozen=True, eq=False)
class PromisedValues:
    """Gains lambda_t(d, s) that follow from one number theta_t a step.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    gamma : float
        Discount.
    theta : ndarray [T]
        One number a step, see :mod:`softfair.kernels.waiting`.
    c : float
        Multiplier of the gains.
    rule : RuleCode
        PRICED or JOINT.
    W : int
        The longest wait; 0 if none is promised.
    floor : float
        The least chance.
    info : Info
        How the solver ended.
    """

    cohort: Cohort
    gamma: float
    theta: Floats
    c: float
    rule: RuleCode
    W: int
    floor: float
    info: Info

    def rows(self, first: int, count: int) -> Floats:
        """lambda_t(d, s) [count, n, W S] for t = first, ..., first + count - 1.

        Column (d - 1) S + s is for state s with d decisions left, this one included.
        """
        cohort = self.cohort
        out = np.empty((count, cohort.n, max(self.W, 1), cohort.S))
        rule = (self.theta, self.c, self.gamma, int(self.rule), self.W, self.floor)
        arms = (cohort.P, cohort.reward_rows)
        map_parts(waiting.gain_rows, cohort.n, waiting.PART, *arms, *rule, first, out)
        return out.reshape(count, cohort.n, -1)


def solve_promised(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float,
    c: float,
    W: int,
    floor: float,
    left: Ints | None = None,
) -> PromisedValues:
    """Gains at the prices for which k arms are expected to be active at every step.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int or array_like [T]
        Arms helped at every decision, or one number for each decision; n <= k W if W > 0, and
        n floor <= k.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount.
    c : float
        Multiplier; values are learnt at :func:`softfair.solvers.priced.learning_multiplier`.
    W : int
        The longest wait, 0 if none is promised.
    floor : float
        The least chance, 0 if none is promised.
    left : ndarray of int [n], optional
        Decisions within which each arm must be helped, between 1 and W. Default: W.

    Returns
    -------
    PromisedValues
        The gains. There is a NotConverged warning if expected and allowed active arms differ by
        more than one part in 10,000. A smaller tolerance would need ever larger prices if n = k W:
        then nobody may be helped twice before everybody has been helped once.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import solve_promised
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> values = solve_promised(cohort, 2, 10, 1.0, 5.0, W=12, floor=0.0)
    >>> values.info.converged, values.rows(0, 1).shape
    (True, (1, 20, 24))
    """
    refuse_costs(cohort, "a promise")
    multiplier = learning_multiplier(cohort, c)
    rule = RuleCode.PRICED if multiplier > 0 else RuleCode.JOINT
    steps = Steps.of(k, horizon, cohort.n, 0.0)
    if not steps.open.any():
        info = Info("priced", multiplier, 0.0, TOLERANCE, 0)
        theta = steps.every([], 0.0)
        return PromisedValues(cohort, gamma, theta, 0.0, RuleCode.JOINT, W, 0.0, info)
    begin = np.array([max(W, 1)]) if left is None or not W else np.asarray(left, np.int64)
    if multiplier == 0:  # a lottery has no price: all arms that are not due have the same chance
        theta = lottery(np.broadcast_to(begin, cohort.n), steps.k, W)
        info = Info("priced", multiplier, 0.0, TOLERANCE, 0)
        return PromisedValues(cohort, gamma, theta, 0.0, rule, W, floor, info)
    one_pass = Pass(W, floor, begin)
    setting = (gamma, multiplier, rule, TOLERANCE, one_pass)
    solution = balance(cohort, k, horizon, *setting, size=SAMPLE)
    info = Info("priced", multiplier, solution.residual, TOLERANCE, solution.passes)
    if not info.converged:
        what = f"prices at c = {multiplier:g}: expected active arms differ from k at some step"
        remedy = "the promise is kept all the same; choose a smaller c_value, or promise less"
        warn(NotConverged(what, info.residual, TOLERANCE, remedy))
    return PromisedValues(cohort, gamma, solution.theta, multiplier, rule, W, floor, info)


def lottery(left: Ints, k: Floats, W: int) -> Floats:
    """theta_t [T] at which k_t arms are active: the arms that are due, and others by lottery.

    Which arms are due does not depend on states, so the number of arms with each deadline is
    computed directly.
    """
    waiting = np.bincount(left, minlength=W + 2).astype(np.float64)  # [W + 2] by decisions left
    n, theta = len(left), np.empty(len(k))
    for t, places in enumerate(k):
        due = waiting[1] if W else 0.0
        chance = min(max(0.0, (places - due) / (n - due)), 1.0) if n > due else 0.0
        theta[t] = -SURE if chance == 1 else math.log1p(-chance) - math.log(max(chance, TINY))
        if W:
            waiting[:-1] = (1 - chance) * waiting[1:]
            waiting[0], waiting[W] = 0.0, due + chance * (n - due)
    return theta


def promised_bound(
    cohort: Cohort, k: Budget, horizon: int, gamma: float, W: int, floor: float
) -> float:
    """An upper bound on the expected reward of every policy that helps k arms and keeps a promise.

    Parameters
    ----------
    cohort, k, horizon, gamma, W, floor
        See :func:`solve_promised`.

    Returns
    -------
    float
        The hard dual of arms with the promise, see :func:`softfair.solvers.upper_bound`.

    Examples
    --------
    A promise never raises the bound. In this example it lowers the bound.

    >>> import softfair as sf
    >>> from softfair.solvers import promised_bound, upper_bound
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> promised_bound(cohort, 2, 10, 1.0, W=10, floor=0.0) < upper_bound(cohort, 2, 10, 1.0)
    True
    """
    refuse_costs(cohort, "a promise")
    one_pass = Pass(W, floor, np.array([max(W, 1)]))
    sample, c = sample_of(cohort), hard_multiplier(cohort)
    steps, price = Steps.of(k, horizon, cohort.n, 0.0), np.zeros(horizon)
    if steps.open.any():
        k_sample = steps.k * sample.n / cohort.n
        rough = balance(sample, k_sample, horizon, gamma, c, RuleCode.PRICED, 1e-3, one_pass)
        price[steps.open] = rough.theta[steps.open] / c
    value = one_pass(cohort, price, 1.0, gamma, RuleCode.HARD)[0, -1]
    return float(value + np.sum(steps.k * gamma ** np.arange(horizon) * price))
