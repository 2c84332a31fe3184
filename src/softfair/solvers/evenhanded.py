"""The `evenhanded` solver: reward plus mu times a concave welfare of the expected shares of help.

Let x_i be the expected (discounted) helps of arm i, K = k sum_t gamma^t their sum over all arms,
and y_i = n x_i / K the arm's rate of help relative to the mean, so that y = 1 is even. The problem

    max  E reward + mu W(y)    over all policies that help k arms a step in expectation

is concave in the occupation measures of the arms. Its dual has a price m_t for each step and a
bonus b_i for each help of arm i. Let u_i = K b_i / mu be the bonus in units of the welfare, and let
D_c(m, b) = sum_i E V_{i,0}(s_0) + k sum_t gamma^t m_t with the soft Bellman values of
:mod:`softfair.kernels.bonus`. The dual is to minimise D_c(m, b) + mu W*(u) over m and b, where
W*(u) is the largest W(y) - mean(u y) over y >= 0 with mean 1:

    welfare   W(y)                u at the optimum      W*(u)
    entropy   -mean(y log y)      -log y                log mean exp(-u)
    log       mean(log y)         1/y - 1               nu - 1 - mean log(u + nu), see `Log`
    min       min(y)              0 where y > min(y)    0, for u >= 0 with mean 1

The entropy of the shares y / n is log n + W(y). By groups, y_i is the mean rate of the arm's group.

The gradient of the dual by m_t is gamma^t (k - expected active arms). At given prices, the best
bonus of an arm (or group) is the root of an equation in one unknown: the rate y_i(u_i) rises with
u_i, and the rate that belongs to u_i by the table falls. So a safeguarded Newton method removes the
bonuses, and Broyden's method finds the prices, as for `priced`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cohort import Cohort
from ..errors import Infeasible, InvalidInput, NotConverged, warn
from ..kernels import bonus as kernels
from ..kernels.recursion import PART
from ..kernels.rules import RuleCode
from ..kernels.threads import map_parts
from .budget import GENTLER, SAMPLE, _broyden, _inverse_jacobian, balance, sample_of
from .priced import hard_multiplier, learning_multiplier, solve_priced, upper_bound
from .values import Info, Values

__all__ = [
    "WELFARES",
    "BonusValues",
    "EvenHandedValues",
    "TradeoffBound",
    "Welfare",
    "solve_evenhanded",
    "solve_for_entropy",
    "tradeoff_bound",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TINY = 1e-300  # below every rate of help that occurs, so that logarithms are finite
NEARLY = 1e-5  # a Newton step from a gap of this size leaves one of about its square
ENTROPY_GAP = 1e-3  # of an entropy that is asked for, well below the error of one run
ROUGH = 1e-3  # residual of the prices of a bound: any prices are valid, and these nearly the best
ROUNDING = 1e-9  # by which an entropy that was computed may exceed log n
# Weights mu at which a bound is solved, times what help can add to the reward, and the weights
# about each at which its prices and bonuses are used.
MUS = 2.0 ** np.arange(-8, 4)
FACTORS = 2.0 ** np.linspace(-0.5, 0.5, 9)
LAST_FACTORS = 2.0 ** np.linspace(-0.5, 20, 83)
GENTLEST = 1.0  # multiplier, times the range of rewards, below which no search has stalled
FIRST_STEPS, FIRST_EXCESS = 6, 0.02  # of the search for the common level of all prices
MOST_STEPS = 100  # of the search for one bonus; halving alone takes about 60


class Welfare(abc.ABC):
    """A concave function of the relative rates of help y [n], whose mean is 1."""

    name: ClassVar[str]
    above: ClassVar[float] = -math.inf  # every bonus u is greater than this
    least: ClassVar[float] = -math.inf  # and at least this
    even: ClassVar[float] = 0.0  # the bonus of every arm where all rates are 1

    @abc.abstractmethod
    def value(self, y: Floats) -> float:
        """W(y)."""

    @abc.abstractmethod
    def conjugate(self, u: Floats) -> float:
        """A number that W(y) - mean(u y) does not exceed for any y >= 0 with mean 1."""


class SmoothWelfare(Welfare):
    """A welfare that gives each bonus a rate, whatever the other arms receive."""

    @abc.abstractmethod
    def log_rate(self, u: Floats) -> tuple[Floats, Floats]:
        """log y that belongs to u at the optimum, and its derivative by -u."""


class Entropy(SmoothWelfare):
    """W(y) = -mean(y log y), the entropy of the shares y / n less log n."""

    name = "entropy"

    def value(self, y: Floats) -> float:
        return -float(np.mean(y * np.log(np.maximum(y, TINY))))

    def conjugate(self, u: Floats) -> float:
        low = float(u.min())
        return math.log(float(np.mean(np.exp(low - u)))) - low

    def log_rate(self, u: Floats) -> tuple[Floats, Floats]:
        return -u, np.ones_like(u)


class Log(SmoothWelfare):
    """W(y) = mean(log y), proportional fairness."""

    name, above = "log", -1.0

    def value(self, y: Floats) -> float:
        return float(np.mean(np.log(np.maximum(y, TINY))))

    def conjugate(self, u: Floats) -> float:
        # y = 1 / (u + nu), with nu such that its mean is 1; nu = 1 at the optimum of the problem.
        from scipy.optimize import brentq

        low = -float(u.min())
        nu = brentq(lambda nu: float(np.mean(1 / (u + nu))) - 1, low + 0.5 / len(u), low + 2)
        return float(nu) - 1 - float(np.mean(np.log(u + nu)))

    def log_rate(self, u: Floats) -> tuple[Floats, Floats]:
        return -np.log1p(u), 1 / (1 + u)


class Min(Welfare):
    """W(y) = min(y): all arms with a bonus are helped at the same rate, and no arm below it."""

    name, least, even = "min", 0.0, 1.0

    def value(self, y: Floats) -> float:
        return float(y.min())

    def conjugate(self, u: Floats) -> float:
        # mean(u y) >= mean(u) min(y), and 0 <= min(y) <= 1.
        return max(0.0, 1 - float(np.mean(u)))


WELFARES: dict[str, Welfare] = {"entropy": Entropy(), "log": Log(), "min": Min()}


@dataclass(frozen=True, eq=False)
class Problem:
    """Reward plus mu times welfare, with multiplier c."""

    cohort: Cohort
    k: float  # arms active at each step, 0 < k < n; a fraction on a sample
    rho: Floats  # [T]: weight of the reward at each step
    gamma: float
    c: float
    mu: float
    welfare: Welfare
    group: Ints | None = None  # [n]: number of each arm's group; None if each arm is its own

    @property
    def discounts(self) -> Floats:
        """gamma^t [T], what a help at each step counts."""
        return np.power(self.gamma, np.arange(len(self.rho), dtype=np.float64))

    @property
    def total(self) -> float:
        """K, the (discounted) helps of all arms together."""
        return self.k * float(np.sum(self.discounts))

    def sample(self) -> Problem:
        """The same problem for the arms of `sample_of`; itself if those are all."""
        cohort = sample_of(self.cohort)
        if cohort is self.cohort:
            return self
        n = self.cohort.n
        group = self.group
        if group is not None:
            group = np.unique(group[np.arange(SAMPLE) * n // SAMPLE], return_inverse=True)[1]
        return replace(self, cohort=cohort, k=self.k * cohort.n / n, group=group)


class Bonuses:
    """The bonuses that are best at given prices, and what follows from both.

    ``u`` [units] holds one bonus for each arm or group, those of the last prices that were asked
    for; the search at the next prices starts from them.
    """

    def __init__(self, problem: Problem, u: Floats | None = None) -> None:
        self.problem = problem
        n, group = problem.cohort.n, problem.group
        self._everyone = np.arange(n)
        self._size = np.ones(n) if group is None else np.bincount(group).astype(np.float64)
        self.u = np.full(len(self._size), problem.welfare.even) if u is None else u.copy()
        self.x, self._dx = np.zeros(n), np.zeros(n)  # expected helps and their derivatives by b
        self.theta: Floats | None = None
        self.gap = math.inf  # the largest |log y_i(u_i) - log y that belongs to u_i|
        self.passes = 0.0

    @property
    def b(self) -> Floats:
        """The bonus of each arm [n], in units of reward."""
        u = self.u if self.problem.group is None else self.u[self.problem.group]
        return u * (self.problem.mu / self.problem.total)

    @property
    def rates(self) -> Floats:
        """y_i = n x_i / K, by arm [n]."""
        return self.x * (self.problem.cohort.n / self.problem.total)

    def sweep(self, theta: Floats) -> Floats:
        """One pass over all arms: [2, T + 1], see `kernels.bonus.sweep_two`; ``x`` is filled."""
        return self._sweep(theta, self.problem.c, False, self.x, self._dx)

    def hard_value(self, price: Floats) -> float:
        """Expected value of all arms alone, each free to buy help at prices [T] less its bonus."""
        unused = np.empty_like(self.x)
        return float(self._sweep(price, 1.0, True, unused, unused)[0, -1])

    def _sweep(self, theta: Floats, c: float, hard: bool, x: Floats, dx: Floats) -> Floats:
        two = self.problem.cohort.S == 2
        run = partial(_over, kernels.sweep_two if two else kernels.sweep, self._everyone)
        parts = map_parts(run, len(x), PART, *self._arguments(theta, c), hard, x, dx)
        self.passes += 1
        total: Floats = np.sum(parts, axis=0)
        return total

    def residual(self, theta: Floats) -> tuple[Floats, Floats]:
        """F_t = (expected active arms at t) / k - 1 at the best bonuses; its response to -theta_t.

        The response is that at fixed bonuses.
        """
        if self.theta is None or not np.array_equal(self.theta, theta):
            self._settle(theta)
            self._budgets = self.sweep(theta)[:, :-1] / self.problem.k
            self.theta = theta
            log_y, _ = self._log_rates()
            self.gap = float(np.max(np.abs(self._misfit(log_y))))
        return self._budgets[0] - 1, self._budgets[1]

    def start(self, theta: Floats) -> Floats:
        """These prices, all raised or lowered so far that the budgets hold on average.

        The logarithm of the average is nearly linear in that shift, which may be larger than the
        steps that Broyden's method is allowed.
        """
        best, least = theta, math.inf
        discounts = self.problem.discounts / self.problem.discounts.sum()
        for _ in range(FIRST_STEPS):
            F, response = self.residual(theta)
            total = 1 + float(discounts @ F)  # expected helps over those allowed
            excess = math.log(max(total, TINY))
            slope = self._kept() * float(discounts @ response) / max(total, TINY)
            if abs(excess) >= least or slope <= 0:  # too far: steeper or flatter than it seemed
                break
            best, least = theta, abs(excess)
            if least < FIRST_EXCESS:
                break
            theta = theta + excess / slope
        return best

    def inverse_jacobian(self, theta: Floats) -> Floats:
        """Rough inverse of -dF/dtheta [T, T].

        The bonuses answer a rise of every theta at once and take back a share of what it does to
        the budgets. The diagonal alone does not contain that.
        """
        response = np.maximum(self.residual(theta)[1], 1e-3)
        kept = self._kept()
        discounts = self.problem.discounts
        inverse: Floats = np.diag(1 / response)
        return inverse + (1 - kept) / kept * discounts / (discounts @ response)

    def _kept(self) -> float:
        """The share of a common rise of all theta that remains after the bonuses' answer."""
        log_y, slope = self._log_rates()
        weight, rise = self._size * np.exp(log_y) * slope, self._steepness(slope)
        total = float(np.sum(weight))
        if total == 0:  # no rate responds to anything
            return 1.0
        return max(float(np.sum(weight * (rise - slope) / rise)) / total, NEARLY)

    def _arguments(self, theta: Floats, c: float) -> tuple[Any, ...]:
        cohort, problem = self.problem.cohort, self.problem
        arms = (cohort.P, cohort.reward_rows, cohort.start_rows)
        return *arms, problem.rho, theta, self.b, c, problem.gamma

    def _helps(self, theta: Floats, units: Bools) -> None:
        """Fill ``x`` and its derivative for the arms of these units."""
        group = self.problem.group
        arms = np.flatnonzero(units if group is None else units[group])
        two = self.problem.cohort.S == 2
        run = partial(_over, kernels.helps_two if two else kernels.helps, arms)
        args = self._arguments(theta, self.problem.c)
        map_parts(run, len(arms), PART, *args, self.x, self._dx)
        self.passes += len(arms) / len(self.x)

    def _log_rates(self) -> tuple[Floats, Floats]:
        """log y and its derivative by u, for each unit."""
        problem = self.problem
        x, dx = self.x, self._dx
        if problem.group is not None:
            x, dx = (np.bincount(problem.group, values) / self._size for values in (x, dx))
        x = np.maximum(x, TINY)
        return np.log(x * (problem.cohort.n / problem.total)), dx / x * (problem.mu / problem.total)

    def _misfit(self, log_y: Floats) -> Floats:
        """log y less what belongs to u, for each unit; it rises with u."""
        assert isinstance(self.problem.welfare, SmoothWelfare)
        return log_y - self.problem.welfare.log_rate(self.u)[0]

    def _steepness(self, slope: Floats) -> Floats:
        """The derivative of `_misfit` by u, from that of log y."""
        assert isinstance(self.problem.welfare, SmoothWelfare)
        return slope + self.problem.welfare.log_rate(self.u)[1]

    def _settle(self, theta: Floats) -> None:
        """Find the root of `_misfit` of every unit by Newton's method inside a bracket.

        A step that leaves the bracket, or that follows one which did not halve the misfit, is
        replaced by the middle of the bracket.
        """
        welfare = self.problem.welfare
        low, high = np.full_like(self.u, welfare.above), np.full_like(self.u, np.inf)
        before, unsettled = np.full_like(self.u, np.inf), np.ones(len(self.u), np.bool_)
        for _ in range(MOST_STEPS):
            self._helps(theta, unsettled)
            log_y, slope = self._log_rates()
            misfit = self._misfit(log_y)
            low = np.where(misfit < 0, np.maximum(low, self.u), low)
            high = np.where(misfit > 0, np.minimum(high, self.u), high)
            u = np.maximum(self.u - misfit / self._steepness(slope), welfare.least)
            with np.errstate(invalid="ignore"):
                middle = 0.5 * (low + high)  # not finite while one end is unknown
            halve = (u <= low) | (u >= high) | (np.abs(misfit) > 0.5 * before)
            before = np.abs(misfit)
            u = np.where(halve & np.isfinite(middle) & (before > NEARLY), middle, u)
            self.u = np.where(unsettled, u, self.u)
            unsettled &= before > NEARLY
            if not unsettled.any():
                break


class LevelBonuses(Bonuses):
    """The bonuses of the welfare min: at least 0, with mean 1, and 0 for arms above the level.

    The level, log of the least rate, is one unknown more: the last entry of ``theta`` [T + 1]. The
    last entry of F is 1 - mean(u), which falls as the level rises; where mu is so small that a unit
    of u moves no rate by much, it is scaled down accordingly.
    """

    level = 0.0

    @property
    def _scale(self) -> float:
        """How much a unit of u moves the logarithm of a small rate, at most 1."""
        return min(1.0, self.problem.c * self.problem.mu / self.problem.total)

    def start(self, theta: Floats) -> Floats:
        """theta and a level at which the mean of u would be 1, were log y linear in u."""
        self._helps(theta, np.ones(len(self.u), np.bool_))
        log_y, slope = self._log_rates()
        slope, share = np.maximum(slope, TINY), self._size / self._size.sum()
        low, high = float(np.min(log_y - self.u * slope)), float(np.max(log_y))
        for _ in range(MOST_STEPS):
            level = 0.5 * (low + high)
            u = np.maximum(self.u + (level - log_y) / slope, 0.0)
            low, high = (level, high) if share @ u < 1 else (low, level)
        return np.append(theta, level)

    def residual(self, theta: Floats) -> tuple[Floats, Floats]:
        if self.theta is None or not np.array_equal(self.theta, theta):
            self.level = float(theta[-1])
            self._settle(theta[:-1])
            self._budgets = self.sweep(theta[:-1])[:, :-1] / self.problem.k
            self.theta = theta
            self.gap = float(np.max(np.abs(self._misfit(self._log_rates()[0]))))
        mean = float(self._size @ self.u / self._size.sum())
        gap = self._scale * (1 - mean)
        return np.append(self._budgets[0] - 1, gap), np.append(self._budgets[1], 1.0)

    def inverse_jacobian(self, theta: Floats) -> Floats:
        """Rough inverse of -dF/dtheta [T + 1, T + 1].

        Arms with a bonus stay at the level when prices move; their bonuses move instead.
        """
        response = np.maximum(self.residual(theta)[1][:-1], 1e-3)
        log_y, slope = self._log_rates()
        slope, with_bonus = np.maximum(slope, TINY), self.u > 0
        share = self._size / self._size.sum()
        weight = share * np.exp(log_y) * slope
        kappa = float(np.sum(weight[with_bonus]) / max(np.sum(weight), TINY))
        u_by_theta = self.problem.total / (self.problem.mu * self.problem.c)
        by_theta = self.problem.discounts * response
        by_theta /= by_theta.sum()
        T = len(response)
        jacobian = np.empty((T + 1, T + 1))
        jacobian[:T, :T] = np.diag(response) - kappa * np.outer(response, by_theta)
        jacobian[:T, T] = -float(np.sum((share * np.exp(log_y))[with_bonus]))
        jacobian[T, :T] = float(np.sum(share[with_bonus])) * u_by_theta * by_theta
        jacobian[T, T] = max(float(np.sum((share / slope)[with_bonus])), NEARLY)
        jacobian[T] *= self._scale
        return np.asarray(np.linalg.pinv(jacobian), dtype=np.float64)

    def _misfit(self, log_y: Floats) -> Floats:
        misfit = log_y - self.level
        return np.where((self.u <= 0) & (misfit > 0), 0.0, misfit)

    def _steepness(self, slope: Floats) -> Floats:
        # It is near 0 for an arm that is always helped; steps must not grow without limit.
        return np.maximum(slope, NEARLY * self._scale)


def _over(kernel: Callable[..., Any], arms: Ints, low: int, high: int, *args: Any) -> Any:
    """The kernel on arms[low:high]."""
    return kernel(low, high, arms, *args)


@dataclass(frozen=True, eq=False)
class Solution:
    """Prices and bonuses of one problem."""

    bonuses: Bonuses
    unknowns: Floats  # theta [T], and what else `Bonuses.start` adds
    residual: float  # the largest relative gap of a budget or of a rate
    passes: float  # over all arms

    @property
    def theta(self) -> Floats:
        """c times the price of help at each step [T]."""
        return self.unknowns[: len(self.bonuses.problem.rho)]


def solve(
    problem: Problem, tolerance: float, theta: Floats | None = None, u: Floats | None = None
) -> Solution:
    """Find prices at which k arms are expected to be active at every step, with best bonuses.

    ``theta`` [T] and ``u`` [units] are a start.
    """
    sample = problem.sample()
    if sample is problem:
        return _solve_directly(problem, tolerance, theta, u)
    rough = _solve_directly(sample, max(tolerance, 1e-6), theta, None)
    share = sample.cohort.n / problem.cohort.n
    F, _ = rough.bonuses.residual(rough.unknowns)
    inverse = _inverse_jacobian(rough.bonuses.residual, rough.unknowns, F)
    if inverse is None:
        inverse = rough.bonuses.inverse_jacobian(rough.unknowns)
    found = _search(_bonuses(problem, u), rough.unknowns, inverse, tolerance)
    return replace(found, passes=found.passes + rough.bonuses.passes * share)


def _solve_directly(
    problem: Problem, tolerance: float, theta: Floats | None, u: Floats | None
) -> Solution:
    """Without a sample; where the search stalls, through a gentler multiplier."""
    if theta is None:
        odds = problem.k / (problem.cohort.n - problem.k)
        # Everybody's bonus where all is even is charged to everybody.
        charge = problem.c * problem.mu / problem.total * problem.welfare.even
        theta = np.full(len(problem.rho), charge - math.log(odds))
    found = _search(_bonuses(problem, u), theta, None, tolerance)
    if found.residual <= tolerance or problem.c * np.ptp(problem.cohort.reward_rows) < GENTLEST:
        return found
    easier = _solve_directly(replace(problem, c=problem.c / GENTLER), 1e-4, None, None)
    again = _search(_bonuses(problem, easier.bonuses.u), easier.theta * GENTLER, None, tolerance)
    best = again if again.residual < found.residual else found
    return replace(best, passes=found.passes + easier.passes + again.passes)


def _bonuses(problem: Problem, u: Floats | None) -> Bonuses:
    return (LevelBonuses if isinstance(problem.welfare, Min) else Bonuses)(problem, u)


def _search(bonuses: Bonuses, theta: Floats, inverse: Floats | None, tolerance: float) -> Solution:
    """Broyden's method on the prices."""
    if inverse is None:
        theta = bonuses.start(theta)
        inverse = bonuses.inverse_jacobian(theta)
    found = _broyden(bonuses.residual, theta, inverse, tolerance)
    bonuses.residual(found.theta)  # the last step that was tried may have been refused
    return Solution(bonuses, found.theta, max(found.residual, bonuses.gap), bonuses.passes)


@dataclass(frozen=True, eq=False)
class BonusValues:
    """Gains plus bonuses, computed when asked for from one price a step and one bonus an arm.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    gamma : float
        Discount.
    theta : ndarray [T]
        c times the price of help at each step.
    bonus : ndarray [n]
        b_i, what a help of arm i is worth for its evenness.
    c : float
        Multiplier with which values are learnt.
    info : Info
        How the solver fared.

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
        run = partial(_over, kernel, np.arange(cohort.n))
        arms = (cohort.P, cohort.reward_rows, self.theta, self.bonus)
        map_parts(run, cohort.n, PART, *arms, self.c, self.gamma, first, out)
        return out

    def count_figures(self, k: int) -> tuple[float, float]:
        """Expected entropy of the counts of one run, and expected share of arms never helped.

        Both are exact for arms that are active independently with chances
        sigmoid(c (lambda_t(s) + b_i) - theta_t). Draws of exactly k arms differ from that by
        O(1/V), V the variance of the number of active arms.
        """
        cohort = self.cohort
        run = partial(_over, kernels.count_figures, np.arange(cohort.n))
        arms = (cohort.P, cohort.reward_rows, cohort.start_rows, self.theta, self.bonus)
        total = float(k * len(self.theta))
        parts = map_parts(run, cohort.n, PART, *arms, self.c, self.gamma, total)
        entropy, never = np.sum(parts, axis=0)
        return float(entropy), float(never / cohort.n)


@dataclass(frozen=True, eq=False)
class EvenHandedValues:
    """What `solve_evenhanded` found.

    Parameters
    ----------
    values : Values
        Gains plus bonuses: ``rows`` gives lambda_t(s) + b_i.
    bonus : ndarray [n]
        b_i.
    rates : ndarray [n]
        y_i, the expected (discounted) helps of each arm over those of the mean arm.
    """

    values: Values
    bonus: Floats
    rates: Floats

    def run_entropy(self, k: int, horizon: int) -> float:
        """Expected entropy of who is helped in one run, see `BonusValues.count_figures`."""
        if isinstance(self.values, BonusValues):
            return self.values.count_figures(k)[0]
        from scipy.special import gammaln, xlogy

        if k == 0:
            return 0.0
        n, N = len(self.bonus), np.arange(horizon + 1)
        ways = gammaln(horizon + 1) - gammaln(N + 1) - gammaln(horizon - N + 1)
        law = np.exp(ways + xlogy(N, k / n) + xlogy(horizon - N, 1 - k / n))  # binomial
        share = N / (k * horizon)
        return -n * float(law @ xlogy(share, share))


def solve_evenhanded(
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float,
    c: float,
    mu: float,
    welfare: str = "entropy",
    group: Ints | None = None,
    tolerance: float = 1e-8,
) -> EvenHandedValues:
    """Gains and bonuses that maximise reward plus mu times welfare.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int
        Arms helped at each decision.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount, of rewards and of helps alike.
    c : float
        Multiplier; values are learnt at `softfair.solvers.priced.learning_multiplier`.
    mu : float
        Weight of the welfare, at least 0.
    welfare : {"entropy", "log", "min"}
        See the table at the top of this module.
    group : ndarray [n], optional
        Number of each arm's group, from 0 on without gaps; without it each arm counts for itself.
    tolerance : float
        Relative gap between expected and allowed active arms, and between the rates of help and
        those that belong to the bonuses, that is accepted.

    Returns
    -------
    EvenHandedValues
        Where the tolerance was not reached, with a NotConverged warning.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import solve_evenhanded
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> found = solve_evenhanded(cohort, k=2, horizon=10, gamma=1.0, c=20.0, mu=1000.0)
    >>> bool(0.9 < found.rates.min() and found.rates.max() < 1.1)  # almost even
    True
    """
    if k in (0, cohort.n) or c == 0:  # chances are even whatever the bonuses
        return EvenHandedValues(
            solve_priced(cohort, k, horizon, gamma, c), np.zeros(cohort.n), np.ones(cohort.n)
        )
    multiplier = learning_multiplier(cohort, c)
    rule = WELFARES[welfare]
    problem = Problem(cohort, k, np.ones(horizon), gamma, multiplier, mu, rule, group)
    if mu == 0:
        prices = solve_priced(cohort, k, horizon, gamma, c, tolerance)
        bonuses = Bonuses(replace(problem, welfare=WELFARES["entropy"]))
        bonuses.sweep(prices.theta)
        return _evenhanded(problem, bonuses, prices.theta, prices.info)
    found = solve(problem, tolerance)
    info = Info("evenhanded", multiplier, found.residual, tolerance, math.ceil(found.passes))
    if not info.converged:
        warn(
            NotConverged(
                f"even-handed values at c = {multiplier:g}, mu = {mu:g}: expected active arms "
                f"differ from k = {k} at some step, or rates of help from what is best",
                info.residual,
                tolerance,
                "lists still have k arms, but their values are rough; choose a smaller c or mu",
            )
        )
    return _evenhanded(problem, found.bonuses, found.theta, info)


def _evenhanded(problem: Problem, bonuses: Bonuses, theta: Floats, info: Info) -> EvenHandedValues:
    b = bonuses.b
    values = BonusValues(problem.cohort, problem.gamma, theta, b, problem.c, info)
    return EvenHandedValues(values, b, bonuses.rates)


def solve_for_entropy(
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float,
    c: float,
    entropy: float,
    welfare: str = "entropy",
) -> tuple[float, EvenHandedValues]:
    """Find the weight mu at which the counts of one run have a wanted expected entropy.

    Parameters
    ----------
    cohort, k, horizon, gamma, c, welfare
        See :func:`solve_evenhanded`.
    entropy : float
        Wanted expected entropy of who is helped in one run, see `BonusValues.count_figures`.

    Returns
    -------
    mu : float
        The weight.
    found : EvenHandedValues
        The solution for it.

    Raises
    ------
    Infeasible
        No weight leads there; the message has the nearest value that can be reached.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.evenhanded import solve_for_entropy
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> mu, found = solve_for_entropy(cohort, 2, 20, 1.0, 50.0, entropy=2.6)
    >>> round(found.values.count_figures(2)[0], 3)
    2.6
    """
    from scipy.optimize import brentq

    if k in (0, cohort.n) or c == 0:
        raise Infeasible(
            f"entropy is {entropy:g}, but with k = {k} of {cohort.n} arms and c = {c:g} everybody "
            "has the same chance whatever mu is; give mu=0, or 0 < k < n and c > 0"
        )
    multiplier = learning_multiplier(cohort, c)
    rule = WELFARES[welfare]
    full = Problem(cohort, k, np.ones(horizon), gamma, multiplier, 0.0, rule)
    search = _EntropySearch(full.sample(), k, cohort.n)
    lowest = search.entropy(0.0)
    if entropy <= lowest + ENTROPY_GAP:
        if entropy < lowest - ENTROPY_GAP:
            raise Infeasible(
                f"entropy is {entropy:g}, but c = {c:g} alone spreads help that far; the nearest "
                f"value that can be reached is {math.ceil(1e4 * lowest) / 1e4:g} (mu = 0), or less "
                "with a larger c"
            )
        return 0.0, solve_evenhanded(cohort, k, horizon, gamma, c, 0.0, welfare)
    unit = 2.0**-6 * k * horizon * float(np.ptp(cohort.reward_rows, axis=1).max() or 1.0)
    low, high = 0.0, unit
    while (reached := search.entropy(high)) < entropy:
        if high >= 4.0**6 * unit:
            raise Infeasible(_too_even(entropy, cohort.n, k * horizon, reached, high))
        low, high = high, 4 * high
    mu = brentq(lambda mu: search.entropy(mu) - entropy, low, high, rtol=1e-4, xtol=1e-4 * unit)
    return mu, solve_evenhanded(cohort, k, horizon, gamma, c, mu, welfare)


class _EntropySearch:
    """The entropy of one run's counts as a function of mu, each solved from the one before."""

    def __init__(self, problem: Problem, k: int, n: int) -> None:
        self._problem, self._k, self._n = problem, k, n
        self._theta: Floats | None = None
        self._u: Floats | None = None

    def entropy(self, mu: float) -> float:
        """For the whole cohort, of which the problem may be a sample."""
        problem = self._problem
        b = np.zeros(problem.cohort.n)
        if mu > 0:
            found = solve(replace(problem, mu=mu), ENTROPY_GAP**2, self._theta, self._u)
            theta, b = found.theta, found.bonuses.b
            self._theta, self._u = theta, found.bonuses.u
        else:
            rule, T = RuleCode.PRICED, len(problem.rho)
            theta = balance(
                problem.cohort, problem.k, T, problem.gamma, problem.c, rule, ENTROPY_GAP**2
            ).theta
        info = Info("evenhanded", problem.c, 0.0, 0.0, 0)
        values = BonusValues(problem.cohort, problem.gamma, theta, b, problem.c, info)
        return values.count_figures(self._k)[0] * self._n / problem.cohort.n


def _too_even(entropy: float, n: int, draws: int, reached: float, mu: float) -> str:
    """Why an entropy cannot be reached, and which can."""
    whole, rest = divmod(draws, n)  # `rest` arms are helped once more than the others
    counts = np.array([whole, whole + 1]) / draws
    most = -float(np.array([n - rest, rest]) @ (counts * np.log(np.maximum(counts, TINY))))
    if entropy > math.log(n):
        limit = f"shares of {n} arms have at most log n = {math.log(n):.4f}"
    elif entropy > most:
        limit = f"{draws} helps among {n} arms can show at most {most:.4f}"
    else:
        limit = "counts of draws by chance are not that even"
    nearest = math.floor(1e4 * (reached - ENTROPY_GAP)) / 1e4
    return (
        f"entropy is {entropy:g}, but {limit}; the nearest value that can be reached is "
        f"{nearest:g} (mu = {mu:g})"
    )


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
    k: int,
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
    k : int
        Arms helped at each decision, 0 < k.
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
    Let N_i count the helps of arm i under some policy, K = k T, y_i = n E N_i / K. For any prices m
    and bonuses b = mu u / K, with D the dual of hard maxima,

        E reward <= D(m, b) - sum_i b_i E N_i                    arms alone do at least as well
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
    T, best = horizon, upper_bound(cohort, k, horizon, gamma)
    slopes, intercepts = [0.0], [best]
    rule = WELFARES[welfare]
    most = rule.value(np.ones(cohort.n))  # the welfare of even rates
    if 0 < k < cohort.n:
        headroom = best - upper_bound(cohort, 0, horizon, gamma)
        spread = float(np.ptp(cohort.reward_rows, axis=1).max())
        scale = headroom if headroom > 0 else max(spread, 1.0) * k * T
        rho: Floats = np.power(gamma, np.arange(T, dtype=np.float64))
        theta: Floats | None = None
        u: Floats | None = None
        c = hard_multiplier(cohort)
        for mu in scale * MUS:
            problem = Problem(cohort, k, rho, 1.0, c, mu, rule, group)
            found = solve(problem, ROUGH, theta, u)
            theta, u = found.theta, found.bonuses.u
            value = found.bonuses.hard_value(theta / c) + k * float(np.sum(theta / c))
            b = found.bonuses.b
            for factor in FACTORS if mu < scale * MUS[-1] else LAST_FACTORS:
                weight = mu * factor
                slopes.append(weight)
                conjugate = rule.conjugate(b * (problem.total / weight))
                intercepts.append(value + weight * (conjugate - most))
    even = math.log(cohort.n) if welfare == "entropy" else most
    return TradeoffBound(np.array(slopes), np.array(intercepts), even)
