"""The weight mu at which the counts of one run are as even as a goal demands.

Counts of one run are less even than their expectations: an arm that is expected to be helped once
is often not helped at all. Therefore the figures are measured on simulated runs, which draw exactly
k arms as the policy does, and mu is chosen by these figures. All weights use the same random
numbers, so that a figure changes smoothly with mu.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import Infeasible
from ..kernels.episodes import run_window, start_runs
from ..kernels.rules import RuleCode
from ..kernels.threads import map_parts
from ..progress import track
from ..sampling import multiplier
from .bonuses import Problem, solve
from .budget import Budget, Steps, balance
from .evenhanded import BonusValues, EvenHandedValues, solve_evenhanded
from .priced import learning_multiplier
from .scale import reward_range
from .sweeps import SAMPLE
from .values import Info, PriceValues
from .welfare import TINY, WELFARES

__all__ = ["GOALS", "Goal", "run_figures", "solve_for"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]

RUNS, FEWEST_RUNS = 200, 8  # simulated for each weight
ARM_STEPS = 2_000_000  # most arm-steps of all runs, if there are more than FEWEST_RUNS
CLOSE = 1e-3  # tolerance of a figure, well below the error of one run
HIGHEST = 4.0**6  # largest weight that is tried, over the smallest

GOALS = {  # names of the figures, and whether a larger figure is more even
    "entropy": True,
    "never": False,
    "wait": False,
}


@dataclass(frozen=True)
class Goal:
    """A figure of one run, and the value that it should have on average.

    Parameters
    ----------
    name : {"entropy", "never", "wait"}
        The action entropy; the share of arms never helped; the longest wait of any arm, in
        decisions.
    value : float
        The value that the expected figure should have.

    Examples
    --------
    >>> from softfair.solvers.realised import Goal
    >>> Goal("never", 0.1)
    Goal(name='never', value=0.1)
    """

    name: str
    value: float

    def excess(self, figure: float) -> float:
        """By how much a figure is more even than the goal."""
        return figure - self.value if GOALS[self.name] else self.value - figure

    def figure(self, counts: Counts, waits: Counts, n: int, draws: int) -> float:
        """Mean over runs of the figure, from counts and longest waits [runs, m] of m of n arms."""
        m = int(counts.shape[1])
        if self.name == "never":
            return float(np.mean(counts == 0))
        if self.name == "entropy":
            share = counts / draws
            surprise = -share * np.log(np.maximum(share, TINY))
            return float(np.sum(surprise) / len(counts)) * n / m
        if m == n:
            return float(np.mean(waits.max(axis=1)))
        # longer[w] is how many of the m arms wait more than w. With about the chance
        # exp(-longer n / m) none of n arms waits more than w, so the sum below is the mean of the
        # longest wait.
        waited = np.bincount(waits.ravel(), minlength=waits.max() + 1)
        longer = (waits.size - np.cumsum(waited)) / len(waits)
        return -float(np.sum(np.expm1(-longer * n / m)))


def solve_for(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float,
    c: float,
    goal: Goal,
    welfare: str = "entropy",
    seed: int = 0,
) -> tuple[float, EvenHandedValues]:
    """Find the weight mu at which runs are on average as even as the goal.

    Parameters
    ----------
    cohort, k, horizon, gamma, c, welfare
        See :func:`solve_evenhanded`.
    goal : Goal
        An entropy is met exactly; a share of arms never helped or a wait is not exceeded.
    seed : int
        Seed of the simulated runs.

    Returns
    -------
    mu : float
        The weight; 0 if the goal is met without a bonus.
    solution : EvenHandedValues
        The solution at mu.

    Raises
    ------
    Infeasible
        No weight reaches the goal; the message has the nearest value that can be reached.

    Notes
    -----
    The figure is the mean of 200 simulated runs (fewer, but at least 8, if n T is above 10,000), so
    that the goal is met up to the standard error of that mean. Beyond 16,384 arms, the runs are
    those of a sample of that many arms.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.realised import Goal, solve_for
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> mu, solution = solve_for(cohort, 2, 20, 1.0, 50.0, Goal("never", 0.3))
    >>> bool(mu > 0)
    True
    """
    refuse_costs(cohort, "EvenHanded")
    from scipy.optimize import brentq

    steps = Steps.of(k, horizon, cohort.n, 0.0)
    if not steps.open.any() or learning_multiplier(cohort, c) == 0:
        alike = _lottery(cohort, steps.k, goal, seed)
        if goal.excess(alike) < -CLOSE or (GOALS[goal.name] and goal.excess(alike) > CLOSE):
            raise Infeasible(
                f"{goal.name} is {goal.value:g}, but with k = {steps.k[0]:g} of {cohort.n} arms "
                f"and c = {c:g} everybody has the same chance whatever mu is; the nearest value "
                f"that can be reached is {_rounded(goal, alike):g}"
            )
        return 0.0, solve_evenhanded(cohort, k, horizon, gamma, c, 0.0, welfare)
    search = _Search(cohort, steps.k, gamma, c, goal, welfare, seed)
    without = search.figure(0.0)  # without a bonus
    if goal.excess(without) >= -CLOSE:
        if goal.name == "entropy" and goal.excess(without) > CLOSE:
            raise Infeasible(
                f"entropy is {goal.value:g}, but c = {c:g} alone spreads help that far; the "
                f"nearest value that can be reached is {math.ceil(1e4 * without) / 1e4:g} "
                "(mu = 0), or less with a larger c"
            )
        return 0.0, solve_evenhanded(cohort, k, horizon, gamma, c, 0.0, welfare)
    unit = 2.0**-6 * float(steps.k.sum()) * (reward_range(cohort) or 1.0)
    low, high = 0.0, unit
    for _ in track(range(math.ceil(math.log(HIGHEST, 4)) + 1), f"looking for {goal.name}"):
        figure = search.figure(high)
        if goal.excess(figure) >= 0:
            break
        low, high = high, 4 * high
    else:
        alike = _lottery(cohort, steps.k, goal, seed)
        raise Infeasible(_out_of_reach(goal, cohort.n, steps.k, c, figure, low, alike))
    mu = brentq(lambda mu: goal.excess(search.figure(mu)), low, high, rtol=1e-3, xtol=1e-3 * unit)
    return mu, solve_evenhanded(cohort, k, horizon, gamma, c, mu, welfare)


class _Search:
    """A figure of simulated runs as a function of mu; each solution starts from the one before."""

    def __init__(
        self,
        cohort: Cohort,
        k: Floats,
        gamma: float,
        c: float,
        goal: Goal,
        welfare: str,
        seed: int,
    ) -> None:
        at = learning_multiplier(cohort, c)
        whole = Problem(cohort, k, np.ones(len(k)), gamma, at, 0.0, WELFARES[welfare])
        self._problem, self._goal, self._n, self._draws = (
            whole.sample(),
            goal,
            cohort.n,
            int(k.sum()),
        )
        self._c = multiplier(c)
        self._keys = _keys(self._problem.cohort.n, len(k), seed)
        self._theta: Floats | None = None
        self._u: Floats | None = None
        self._known: dict[float, float] = {}

    def figure(self, mu: float) -> float:
        """The figure of the whole cohort at mu, estimated from a sample if there is one."""
        if mu not in self._known:
            counts, waits = _runs(self._values(mu), self._problem.k, self._c, self._keys)
            self._known[mu] = self._goal.figure(counts, waits, self._n, self._draws)
        return self._known[mu]

    def _values(self, mu: float) -> BonusValues:
        problem = self._problem
        if mu > 0:
            solution = solve(replace(problem, mu=mu), CLOSE**2, self._theta, self._u)
            self._theta, self._u = solution.theta, solution.bonuses.u
            theta, b = solution.theta, solution.bonuses.b
        else:
            T, rule = len(problem.rho), RuleCode.PRICED
            setting = (problem.cohort, problem.k, T, problem.gamma, problem.c, rule)
            theta, b = balance(*setting, CLOSE**2).theta, np.zeros(problem.cohort.n)
        info = Info("evenhanded", problem.c, 0.0, 0.0, 0)
        return BonusValues(problem.cohort, problem.gamma, theta, b, problem.c, info)


def run_figures(
    values: BonusValues | PriceValues, k: int, c: float, arm_steps: int = ARM_STEPS
) -> dict[str, float]:
    """The mean of each figure in `GOALS` over simulated runs that draw exactly k arms.

    Parameters
    ----------
    values : BonusValues or PriceValues
        The values of a solution.
    k : int
        Arms helped at every decision.
    c : float
        Multiplier of the draws.
    arm_steps : int
        The most arm-steps of all runs together, unless that is fewer than 8 runs.

    Returns
    -------
    dict
        The figures by name. Beyond 16,384 arms, the runs are those of a sample of that many arms.
    """
    n, T = values.cohort.n, len(values.theta)
    if n > SAMPLE:
        sample = np.arange(SAMPLE) * n // SAMPLE
        arms = values.cohort.subset(sample)
        if isinstance(values, BonusValues):
            values = replace(values, cohort=arms, bonus=values.bonus[sample])
        else:
            values = replace(values, cohort=arms)
    m = values.cohort.n
    keys = _keys(m, T, 0, arm_steps)
    counts, waits = _runs(values, np.full(T, k * m / n), multiplier(c), keys)
    return {name: Goal(name, 0.0).figure(counts, waits, n, k * T) for name in GOALS}


def _keys(n: int, horizon: int, seed: int, arm_steps: int = ARM_STEPS) -> NDArray[Any]:
    """The key of each simulated run of n arms."""
    seeds = np.random.SeedSequence([seed, RUNS])  # differ from the seeds of `simulate`
    runs = max(FEWEST_RUNS, min(RUNS, arm_steps // (n * horizon)))
    return seeds.generate_state(runs, np.uint64)


def _lottery(cohort: Cohort, k: Floats, goal: Goal, seed: int) -> float:
    """The figure if every arm has the same chance, with k [T] arms helped."""
    rng, n = np.random.default_rng([seed, RUNS]), min(cohort.n, SAMPLE)
    runs = len(_keys(n, len(k), seed))
    counts, waiting, longest = np.zeros((3, runs, n), np.int32)
    for places in np.ceil(k * n / cohort.n):
        chosen = rng.random((runs, n)).argsort(axis=1).argsort(axis=1) < places
        counts += chosen
        waiting = np.where(chosen, 0, waiting + 1)
        longest = np.maximum(longest, waiting)
    return goal.figure(counts, longest, cohort.n, max(int(k.sum()), 1))


def _rounded(goal: Goal, figure: float) -> float:
    """Round to four digits, towards a value that can be reached."""
    if GOALS[goal.name]:
        return math.floor(1e4 * figure) / 1e4
    return math.ceil(1e4 * figure) / 1e4


def _runs(
    values: BonusValues | PriceValues, k: Floats, c: float, keys: NDArray[Any]
) -> tuple[Counts, Counts]:
    """Counts and longest waits [runs, n], one run for each key, with k [T] arms helped."""
    cohort, T, runs = values.cohort, len(values.theta), len(keys)
    states, chosen = np.empty((runs, cohort.n), np.int32), np.empty((runs, cohort.n), np.uint8)
    counts, waiting, longest = np.zeros((3, runs, cohort.n), np.int32)
    map_parts(start_runs, runs, 1, cohort.start_rows, keys, states)
    code = RuleCode.TOP if math.isinf(c) else RuleCode.JOINT
    # On a sample k is rounded to a whole number, and to at least 1 unless nobody is helped.
    budget = np.where(k > 0, np.maximum(1, np.rint(k)), 0).astype(np.int64)
    steps = max(1, min(T, ARM_STEPS // cohort.n))
    for first in range(0, T, steps):
        scores = values.rows(first, min(steps, T - first))[None]
        arms = (cohort.P, cohort.reward_rows, scores, first, scores.shape[1], c, int(code))
        kept = (keys, states, chosen, np.empty((runs, T)), counts, waiting, longest)
        map_parts(run_window, runs, 1, *arms, budget, *kept)
    return counts, longest


def _out_of_reach(
    goal: Goal, n: int, k: Floats, c: float, reached: float, mu: float, alike: float
) -> str:
    """Explain why a figure cannot be reached with k [T] arms helped, and name one that can.

    ``reached`` is the nearest figure at this c; ``alike`` is the figure if all chances are equal.
    """
    draws = int(k.sum())
    whole, rest = divmod(draws, n)  # `rest` arms are helped once more than the others
    counts = np.array([whole, whole + 1]) / draws
    most = -float(np.array([n - rest, rest]) @ (counts * np.log(np.maximum(counts, TINY))))
    # Decisions before everybody can have been helped once; all of them if that never happens.
    everybody = int(np.searchsorted(np.cumsum(k), n))
    limit = f"draws with c = {c:g} are not that even"
    if goal.name == "entropy" and goal.value > math.log(n):
        limit = f"shares of {n} arms have at most log n = {math.log(n):.4f}"
    elif goal.name == "entropy" and goal.value > most:
        limit = f"{draws} helps among {n} arms can show at most {most:.4f}"
    elif goal.name == "never" and draws < n and goal.value < 1 - draws / n:
        limit = f"{draws} helps leave at least {1 - draws / n:.4f} of {n} arms without any"
    elif goal.name == "wait" and goal.value < everybody:
        times = f"{k.min():g}" + ("" if k.min() == k.max() else f" to {k.max():g}")
        limit = f"with {times} of {n} arms at a time somebody waits {everybody} decisions"
    nearest = _rounded(goal, reached - CLOSE if GOALS[goal.name] else reached)
    better = goal.excess(alike) > goal.excess(nearest) + CLOSE
    smaller = f", or as far as {_rounded(goal, alike):g} with a smaller c" if better else ""
    return (
        f"{goal.name} is {goal.value:g}, but {limit}; the nearest value that can be reached is "
        f"{nearest:g} (mu = {mu:g}){smaller}"
    )
