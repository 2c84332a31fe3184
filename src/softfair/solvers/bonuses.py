"""Prices and bonuses that solve the dual of reward plus mu times welfare; see `evenhanded`.

At given prices, the best bonus of an arm (or group) is the root of an equation in one unknown: the
rate y_i(u_i) rises with u_i, and the rate at which u_i is optimal (`welfare`) falls. A safeguarded
Newton method solves these equations for the bonuses, and Broyden's method finds the prices, as for
`priced`. The search is only over the open steps, at which some arms are active and others are not.
Below, theta [open] has an entry for each open step, theta [T] for all steps. A unit is an arm or,
with groups, a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from ..kernels import bonus as kernels
from ..kernels.recursion import PART
from ..kernels.threads import map_parts
from .broyden import broyden, inverse_jacobian
from .budget import GENTLER, Steps
from .scale import most_gain
from .sweeps import SAMPLE, sample_of
from .welfare import TINY, Min, SmoothWelfare, Welfare

__all__ = ["Bonuses", "LevelBonuses", "Problem", "Solution", "over", "solve"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NEARLY = 1e-5  # a gap: a Newton step reduces it to about its square, so the search may end there
FORCED = 0.1  # gap of the bonuses that is accepted, as a share of the gap of the budgets
GENTLEST = 1.0  # multiplier times the range of rewards below which no search has stalled
FIRST_STEPS, FIRST_EXCESS = 6, 0.02  # steps, and accepted excess, of `Bonuses.start`
FLAT_STEPS, FLAT_EXCESS = 12, 0.3  # steps, and accepted excess, of `Bonuses.flat`
MOST_STEPS = 100  # of the search for the bonuses; halving alone takes about 60
FEW_STEPS = 10  # of that search while budgets do not hold, at the first attempt
# For the welfare min: the least slope of log y by u (an arm that is always helped has none), and
# the share of the worst misfit below which log y is treated as linear.
FLATTEST, LINEAR = 1e-3, 0.03


@dataclass(frozen=True, eq=False)
class Problem:
    """Reward plus mu times welfare, with multiplier c."""

    cohort: Cohort
    k: Floats  # [T]: arms active at each step, 0 <= k <= n; fractions on a sample
    rho: Floats  # [T]: weight of the reward at each step
    gamma: float
    c: float
    mu: float
    welfare: Welfare
    group: Ints | None = None  # [n]: number of each arm's group; None if each arm is its own

    @property
    def discounts(self) -> Floats:
        """gamma^t [T], the weight of a help at each step."""
        return np.power(self.gamma, np.arange(len(self.rho), dtype=np.float64))

    @property
    def total(self) -> float:
        """K, the (discounted) helps of all arms together."""
        return float(np.sum(self.k * self.discounts))

    @cached_property
    def steps(self) -> Steps:
        """The steps, with those that leave a choice marked as open."""
        cohort, T = self.cohort, len(self.rho)
        most = most_gain(cohort, T) * float(np.abs(self.rho).max())
        return Steps.of(self.k, T, cohort.n, most)

    def sample(self) -> Problem:
        """The same problem for the arms of `sample_of`; this one if the sample is the cohort."""
        cohort = sample_of(self.cohort)
        if cohort is self.cohort:
            return self
        n = self.cohort.n
        group = self.group
        if group is not None:
            group = np.unique(group[np.arange(SAMPLE) * n // SAMPLE], return_inverse=True)[1]
        return replace(self, cohort=cohort, k=self.k * cohort.n / n, group=group)


class Bonuses:
    """The best bonuses at given prices, and the rates and budgets that follow from both.

    ``u`` [units] holds the bonus of each unit at the last prices. The search at the next prices
    starts from there.
    """

    def __init__(self, problem: Problem, u: Floats | None = None, patient: bool = False) -> None:
        self.problem = problem
        self._patient = patient  # whether to allow MOST_STEPS also while budgets do not hold
        n, group = problem.cohort.n, problem.group
        self._everyone = np.arange(n)
        self._size = np.ones(n) if group is None else np.bincount(group).astype(np.float64)
        self.u = np.full(len(self._size), problem.welfare.even) if u is None else u.copy()
        self.x, self._dx = np.zeros(n), np.zeros(n)  # expected helps and their derivatives by b
        self.theta: Floats | None = None
        self.gap = math.inf  # the largest |`_misfit`|
        self._near = NEARLY  # gap at which the search for bonuses ends
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

    def every(self, theta: Floats) -> Floats:
        """theta [T] from theta [open]; at other steps it is beyond every gain plus bonus."""
        b = self.b
        return self.problem.steps.every(theta, self.problem.c, float(b.min()), float(b.max()))

    def sweep(self, theta: Floats) -> Floats:
        """One pass over all arms at theta [T]: [2, T + 1], see `kernels.bonus.sweep_two`.

        ``x`` is filled.
        """
        return self._sweep(theta, self.problem.c, False, self.x, self._dx)

    def _budgets_at(self, theta: Floats) -> Floats:
        """Expected active arms over k, and the response of this ratio to -theta [2, open]."""
        steps = self.problem.steps
        budgets: Floats = self.sweep(self.every(theta))[:, :-1][:, steps.open] / steps.k[steps.open]
        return budgets

    def hard_value(self, price: Floats) -> float:
        """Expected value of all arms if each alone may buy help at prices [T] less its bonus."""
        unused = np.empty_like(self.x)
        return float(self._sweep(price, 1.0, True, unused, unused)[0, -1])

    def _sweep(self, theta: Floats, c: float, hard: bool, x: Floats, dx: Floats) -> Floats:
        two = self.problem.cohort.S == 2
        run = partial(over, kernels.sweep_two if two else kernels.sweep, self._everyone)
        parts = map_parts(run, len(x), PART, *self._arguments(theta, c), hard, x, dx)
        self.passes += 1
        total: Floats = np.sum(parts, axis=0)
        return total

    def residual(self, theta: Floats) -> tuple[Floats, Floats]:
        """F_t = (expected active arms at t) / k_t - 1 at the best bonuses, [open].

        The second result is the response of F_t to -theta_t, at fixed bonuses [open].
        """
        if self.theta is None or not np.array_equal(self.theta, theta):
            self._settle(theta)
            self._budgets = self._budgets_at(theta)
            self.theta = theta
            excess = float(np.max(np.abs(self._budgets[0] - 1)))
            self._near = max(NEARLY, min(FORCED * excess, FORCED))
            log_y, _ = self._log_rates()
            self.gap = float(np.max(np.abs(self._misfit(log_y))))
        return self._budgets[0] - 1, self._budgets[1]

    def flat(self) -> Floats:
        """One theta for all open steps [open] at which budgets hold roughly, on average.

        Bonuses are not changed, so that a step of this search is one pass. The other searches do
        not converge from prices at which everybody is helped, or nobody.
        """
        problem, steps = self.problem, self.problem.steps
        shares, mean_k = self._shares, float(np.mean(steps.k[steps.open]))
        odds = mean_k / (problem.cohort.n - mean_k)
        level = problem.c * float(np.mean(self.b)) - math.log(odds)
        low, high = -math.inf, math.inf
        for _ in range(FLAT_STEPS):
            active, response = self._budgets_at(np.full(len(shares), level))
            total = float(shares @ active)
            if abs(math.log(max(total, TINY))) < FLAT_EXCESS:
                break
            low, high = (level, high) if total > 1 else (low, level)
            slope = float(shares @ response) / max(total, TINY)
            width = min(high - low, 4 * problem.c + 1)
            step = math.log(max(total, TINY)) / max(slope, TINY)
            level += min(max(step, -0.5 * width), 0.5 * width)
        return np.full(len(shares), level)

    @property
    def _shares(self) -> Floats:
        """The share of each open step in the discounted helps of all open steps [open]."""
        helps = (self.problem.k * self.problem.discounts)[self.problem.steps.open]
        shares: Floats = helps / helps.sum()
        return shares

    def start(self, theta: Floats) -> Floats:
        """theta [open], shifted by one number so that the budgets hold on average.

        The logarithm of the average is nearly linear in the shift. The shift may be larger than a
        step of Broyden's method may be.
        """
        best, least = theta, math.inf
        shares = self._shares
        low, high, shift = (-math.inf, 1.0), (math.inf, -1.0), 0.0  # ends: (shift, its excess)
        for _ in range(FIRST_STEPS):
            F, response = self.residual(theta + shift)
            total = 1 + float(shares @ F)  # expected helps over those allowed
            excess = math.log(max(total, TINY))
            if abs(excess) < least:
                best, least = theta + shift, abs(excess)
            slope = self._kept() * float(shares @ response) / max(total, TINY)
            if least < FIRST_EXCESS or slope <= 0:
                break
            low, high = ((shift, excess), high) if excess > 0 else (low, (shift, excess))
            shift += excess / slope
            if math.isfinite(high[0] - low[0]):  # both ends were tried, and the root is between
                shift = low[0] + (high[0] - low[0]) * low[1] / (low[1] - high[1])
        return best

    def inverse_jacobian(self, theta: Floats) -> Floats:
        """Rough inverse of -dF/dtheta [open, open].

        If every theta rises at once, the best bonuses change, too, which undoes a share of the
        effect on the budgets. The second term accounts for that; the diagonal does not.
        """
        response = np.maximum(self.residual(theta)[1], 1e-3)
        kept = self._kept()
        shares = self._shares
        inverse: Floats = np.diag(1 / response)
        return inverse + (1 - kept) / kept * shares / (shares @ response)

    def _kept(self) -> float:
        """The share of the effect of a common rise of all theta that changed bonuses leave."""
        log_y, slope = self._log_rates()
        weight, rise = self._size * np.exp(log_y) * slope, self._steepness(slope)
        total = float(np.sum(weight))
        if total == 0:  # no rate responds to its bonus
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
        run = partial(over, kernels.helps_two if two else kernels.helps, arms)
        args = self._arguments(self.every(theta), self.problem.c)
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
        """log y less the log y at which u is optimal, for each unit; it rises with u."""
        assert isinstance(self.problem.welfare, SmoothWelfare)
        return log_y - self.problem.welfare.log_rate(self.u)[0]

    def _steepness(self, slope: Floats) -> Floats:
        """The derivative of `_misfit` by u, from that of log y."""
        assert isinstance(self.problem.welfare, SmoothWelfare)
        return slope + self.problem.welfare.log_rate(self.u)[1]

    def _steps(self) -> int:
        """How many steps the search for the bonuses may take."""
        return MOST_STEPS if self._patient or self._near <= NEARLY else FEW_STEPS

    def _settle(self, theta: Floats) -> None:
        """Find the root of `_misfit` of every unit by Newton's method inside a bracket.

        A step is replaced by the middle of the bracket if it leaves the bracket, or if the step
        before did not halve the misfit.
        """
        welfare = self.problem.welfare
        low, high = np.full_like(self.u, welfare.above), np.full_like(self.u, np.inf)
        before, unsettled = np.full_like(self.u, np.inf), np.ones(len(self.u), np.bool_)
        for _ in range(self._steps()):
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
            u = np.where(halve & np.isfinite(middle) & (before > self._near), middle, u)
            self.u = np.where(unsettled, u, self.u)
            unsettled &= before > self._near
            if not unsettled.any():
                break


class LevelBonuses(Bonuses):
    """The bonuses of the welfare min: at least 0, with mean 1, and 0 for units above the level.

    The level is the logarithm of the least rate; it is such that the mean of u is 1.
    """

    level = 0.0

    @property
    def _scale(self) -> float:
        """The change of the logarithm of a small rate if u rises by 1."""
        return self.problem.c * self.problem.mu / self.problem.total

    def _kept(self) -> float:
        # Units with a bonus stay at the common level, and the mean of the bonuses is fixed. So if
        # all theta rise, the level falls by the harmonic mean of the slopes of these units.
        log_y, slope = self._log_rates()
        slope, weight = np.maximum(slope, TINY), self._size * np.exp(log_y)
        with_bonus = self.u > 0
        size = self._size[with_bonus]
        fall = float(np.sum(size) / np.sum(size / slope[with_bonus]))
        kept = np.sum((weight * slope)[~with_bonus]) + fall * np.sum(weight[with_bonus])
        return min(max(float(kept / np.sum(weight * slope)), NEARLY), 1.0)

    def _misfit(self, log_y: Floats) -> Floats:
        misfit = log_y - self.level
        return np.where((self.u <= 0) & (misfit > 0), 0.0, misfit)

    def _settle(self, theta: Floats) -> None:
        """Newton's method on log y: each step solves for all bonuses as if log y were linear.

        A step of a unit is replaced by the middle of its bracket if it leaves the bracket, or if
        the step before did not halve the misfit. Units whose bonus would hardly move are left out
        of a step.
        """
        u, moved, before = self.u, np.ones(len(self.u), np.bool_), np.full_like(self.u, np.inf)
        low, high = (np.full((2, len(u)), end) for end in (-np.inf, np.inf))  # u and log y
        for _ in range(self._steps()):
            self._helps(theta, moved)
            at, (log_y, slope) = self.u, self._log_rates()  # log y is that of the bonuses ``at``
            self.level, u = _shared(at, log_y, slope, self._size)
            below = log_y < self.level
            low, high = np.where(below, (at, log_y), low), np.where(below, high, (at, log_y))
            low[:, low[1] >= self.level], high[:, high[1] < self.level] = -np.inf, np.inf
            misfit = np.abs(self._misfit(log_y))
            if (worst := float(misfit.max())) <= self._near:
                break
            halve = (u <= low[0]) | (u >= high[0]) | (moved & (misfit > 0.5 * before))
            halve &= np.isfinite(high[0] - low[0]) & (misfit > NEARLY)
            u[halve] = 0.5 * (low[0] + high[0])[halve]
            moved = (np.abs(u - at) * self._scale > LINEAR * worst) | ((u <= 0) & (at > 0))
            before, self.u = misfit, np.where(moved, u, at)
        self.u = u


def _shared(u: Floats, log_y: Floats, slope: Floats, size: Floats) -> tuple[float, Floats]:
    """The level L and bonuses max(0, u + (L - log y) / slope) whose mean by size is 1."""
    per_level = 1 / np.maximum(slope, FLATTEST)  # derivative of a bonus by L
    lowest = log_y - u / per_level  # the unit has no bonus at an L below this
    order = np.argsort(lowest, kind="stable")
    weight = (size * per_level)[order]
    # With the first j units of this order at the level, size @ u = sum weight (L - lowest).
    total, offset = np.cumsum(weight), np.cumsum(weight * lowest[order])
    levels = (size.sum() + offset) / total
    j = np.flatnonzero(levels <= np.append(lowest[order][1:], np.inf))[0]
    level = float(levels[j])
    return level, np.maximum((level - lowest) * per_level, 0.0)


def over(kernel: Callable[..., Any], arms: Ints, low: int, high: int, *args: Any) -> Any:
    """The kernel on arms[low:high]."""
    return kernel(low, high, arms, *args)


@dataclass(frozen=True, eq=False)
class Solution:
    """Prices and bonuses of one problem."""

    bonuses: Bonuses
    theta: Floats  # [T]: c times the price of help at each step
    residual: float  # the largest relative gap of a budget or of a rate
    passes: float  # over all arms


def solve(
    problem: Problem, tolerance: float, theta: Floats | None = None, u: Floats | None = None
) -> Solution:
    """Find prices at which k arms are expected to be active at every step, with best bonuses.

    ``theta`` [T] and ``u`` [units] are a start.
    """
    sample = problem.sample()
    begin = None if theta is None else theta[problem.steps.open]
    if sample is problem:
        return _solve_directly(problem, tolerance, begin, u)
    rough = _solve_directly(sample, max(tolerance, 1e-6), begin, None)
    share, at = sample.cohort.n / problem.cohort.n, rough.theta[problem.steps.open]
    F, _ = rough.bonuses.residual(at)
    inverse, _ = inverse_jacobian(rough.bonuses.residual, None, at, F)
    if inverse is None:
        inverse = rough.bonuses.inverse_jacobian(at)
    # Over all arms there is one attempt only, so it is the patient one.
    patient = _bonuses(problem, u, patient=True)
    solution = _search(patient, at, inverse, tolerance)
    return replace(solution, passes=solution.passes + rough.bonuses.passes * share)


def _solve_directly(
    problem: Problem, tolerance: float, theta: Floats | None, u: Floats | None
) -> Solution:
    """Solve without a sample; if the search stalls, be patient, then begin at a smaller multiplier.

    ``theta`` [open] is a start.
    """
    bonuses = _bonuses(problem, u)
    if theta is None:
        theta = bonuses.flat()
    hasty = _search(bonuses, theta, None, tolerance)
    if hasty.residual <= tolerance:
        return hasty
    solution = _search(_bonuses(problem, u, patient=True), theta, None, tolerance)
    passes = hasty.passes + solution.passes
    if solution.residual > tolerance and problem.c * np.ptp(problem.cohort.reward_rows) > GENTLEST:
        easier = _solve_directly(replace(problem, c=problem.c / GENTLER), 1e-4, None, None)
        patient = _bonuses(problem, easier.bonuses.u, patient=True)
        at = easier.theta[problem.steps.open] * GENTLER
        from_easier = _search(patient, at, None, tolerance)
        solution = from_easier if from_easier.residual < solution.residual else solution
        passes += easier.passes + from_easier.passes
    return replace(solution, passes=passes)


def _bonuses(problem: Problem, u: Floats | None, patient: bool = False) -> Bonuses:
    return (LevelBonuses if isinstance(problem.welfare, Min) else Bonuses)(problem, u, patient)


def _search(bonuses: Bonuses, theta: Floats, inverse: Floats | None, tolerance: float) -> Solution:
    """Broyden's method on the prices, from theta [open]."""
    if inverse is None:
        theta = bonuses.start(theta)
        inverse = bonuses.inverse_jacobian(theta)
    solution = broyden(bonuses.residual, None, theta, inverse, tolerance)
    bonuses.residual(solution.theta)  # sets the bonuses: the last step tried may not be the best
    theta, residual = bonuses.every(solution.theta), max(solution.residual, bonuses.gap)
    return Solution(bonuses, theta, residual, bonuses.passes)
