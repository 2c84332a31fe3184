"""EvenHanded: arms are drawn by what they would gain plus a bonus that makes help more even.

An arm that would be helped less than others by gain alone has a larger bonus b_i. The bonus is the
same in every state and at every decision. The bonuses maximise reward plus mu times a concave
welfare of the expected shares of help; :mod:`softfair.solvers.evenhanded` has the equations.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import InvalidInput
from ..sampling import multiplier
from ..solvers import (
    EvenHandedValues,
    TradeoffBound,
    solve_evenhanded,
    solve_for,
    tradeoff_bound,
    upper_bound,
)
from ..solvers.realised import GOALS, Goal
from ..solvers.welfare import WELFARES
from .base import Fitted, Policy
from .labels import plain_number
from .rules import Rule
from .setting import Budget, check_setting

__all__ = ["EvenHanded", "FittedEvenHanded", "check_aim"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WelfareName = Literal["entropy", "log", "min"]

RANGES = {  # the largest value, and words for the range, for its lower end and for its upper end
    "mu": (math.inf, "a finite number >= 0", "0 (SoftFair)", "a large one"),
    "entropy": (math.inf, "a number between 0 and log n", "0", "log n"),
    "never": (1.0, "a share between 0 and 1", "0", "1"),
    "wait": (math.inf, "a number of decisions, at least 0", "0", "the horizon"),
}


@dataclass(frozen=True)
class EvenHanded(Policy):
    """Reward plus mu times a concave welfare of the expected shares of help.

    Parameters
    ----------
    mu : float, optional
        What one unit of the welfare is worth, in units of reward; 0 is SoftFair.
    c : float
        Multiplier of gain plus bonus when arms are drawn, as in SoftFair.
    welfare : {"entropy", "log", "min"}
        With y_i the rate of help of arm i over the mean rate: the entropy of the shares,
        log n - mean(y log y); "log", mean(log y), proportional fairness; "min", min(y), the rate of
        the least helped.
    by : {"arm", "group"}
        Whose rate counts: that of each arm, or the mean rate of each group in ``cohort.groups``.
    entropy : float, optional
        Instead of mu: the action entropy of one run, on average over runs. ``fit`` finds mu.
    never : float, optional
        Instead of mu: the share of arms that are never helped in one run, on average over runs.
    wait : float, optional
        Instead of mu: the longest wait of any arm in one run, in decisions, on average over runs.

    Notes
    -----
    In which sense EvenHanded is fair: the chance of an arm follows lambda_t(s) + b_i, its gain plus
    what helping it is worth for evenness. Definition 1 of the paper holds for that sum: no set of
    arms is favoured over one with a larger sum. ``scores`` gives the sum, and ``bonus`` its second
    term.

    In which sense EvenHanded is not fair: Definition 1 does not hold for the gain alone. An arm
    with a smaller gain than another, but with less help on the whole, can have the better chance.
    The column ``unfair`` of :func:`softfair.compare` counts such pairs. For fairness in the sense
    of the paper use SoftFair.

    With gamma < 1 helps are discounted as rewards are, so that bonuses do not change with time.

    The counts of one run are less even than the expected shares, because draws vary. ``entropy``,
    ``never`` and ``wait`` are about the counts of one run: ``fit`` simulates runs that draw exactly
    k arms, and finds the mu at which their mean is the given value
    (:func:`softfair.solvers.solve_for`), up to the standard error of 200 runs.

    Examples
    --------
    >>> import softfair as sf
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> fitted = sf.EvenHanded(mu=30.0).fit(cohort, k=2, horizon=20)
    >>> bool(fitted.rates.min() > sf.EvenHanded(mu=0.0).fit(cohort, k=2, horizon=20).rates.min())
    True
    """

    name: ClassVar[str] = "EvenHanded"

    mu: float | None = None
    c: float = 50.0
    welfare: WelfareName = "entropy"
    by: Literal["arm", "group"] = "arm"
    entropy: float | None = None
    never: float | None = None
    wait: float | None = None

    def __post_init__(self) -> None:
        multiplier(self.c)
        aims = {name: getattr(self, name) for name in ("mu", *GOALS)}
        set_aims = [f"{name} = {value!r}" for name, value in aims.items() if value is not None]
        if len(set_aims) != 1:
            raise InvalidInput(
                f"given are {', '.join(set_aims) or 'none of mu, entropy, never and wait'}; "
                "give one of mu, entropy, never and wait"
            )
        if self.mu is not None:
            check_aim("mu", self.mu)
        if self.welfare not in tuple(WELFARES):  # a tuple, because a value of any type may be given
            names = ", ".join(map(repr, WELFARES))
            raise InvalidInput(f"welfare is {self.welfare!r}; choose one of {names}")
        if self.by not in ("arm", "group"):
            raise InvalidInput(f"by is {self.by!r}; choose 'arm' or 'group'")
        goal = self.goal
        if goal is None:
            return
        check_aim(goal.name, goal.value)
        if self.by == "group":
            raise InvalidInput(
                f"{goal.name} is {goal.value:g} with by='group', but it is that of the arms; "
                "give mu, or by='arm'"
            )

    @property
    def goal(self) -> Goal | None:
        """The figure that one run should have on average, and its value; None if mu is given."""
        goals = {name: getattr(self, name) for name in GOALS}
        return next((Goal(name, value) for name, value in goals.items() if value is not None), None)

    @property
    def label(self) -> str:
        """Name with the parameters that were set, for tables and legends."""
        goal = self.goal
        which, aim = ("mu", self.mu) if goal is None else (goal.name, goal.value)
        welfare = "" if self.welfare == "entropy" else f", {self.welfare}"
        by = "" if self.by == "arm" else f", by={self.by}"
        return f"EvenHanded({which}={plain_number(aim)}, c={plain_number(self.c)}{welfare}{by})"

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> FittedEvenHanded:
        """Find prices and bonuses; see :meth:`softfair.Policy.fit`.

        The seed is that of the runs from which mu is found; it has no effect if mu is given.

        Returns
        -------
        FittedEvenHanded
            The policy ready to act.

        Raises
        ------
        InvalidInput
            The setting does not fit the cohort, or ``by`` is "group" and the cohort has no groups.
        Infeasible
            The goal cannot be reached; the message says which values can.
        """
        k = check_setting(cohort, k, horizon, gamma)
        refuse_costs(cohort, "EvenHanded")
        group = _group_numbers(cohort) if self.by == "group" else None
        if self.mu is not None:
            mu = float(self.mu)
            solution = solve_evenhanded(cohort, k, horizon, gamma, self.c, mu, self.welfare, group)
        else:
            goal = self.goal
            assert goal is not None  # __post_init__ refuses a policy without mu or goal
            mu, solution = solve_for(cohort, k, horizon, gamma, self.c, goal, self.welfare, seed)
        return FittedEvenHanded(self, cohort, k, horizon, gamma, solution, mu)


class FittedEvenHanded(Fitted):
    """EvenHanded ready to act; ``scores`` are gains plus bonuses, lambda_t(s) + b_i.

    Parameters
    ----------
    policy : EvenHanded
        The policy that was fitted.
    cohort, k, horizon, gamma
        The setting, see :meth:`softfair.Policy.fit`.
    solution : EvenHandedValues
        Gains, bonuses and expected rates.
    mu : float
        The weight of the welfare, given or found.
    """

    def __init__(
        self,
        policy: EvenHanded,
        cohort: Cohort,
        k: Budget,
        horizon: int,
        gamma: float,
        solution: EvenHandedValues,
        mu: float,
    ) -> None:
        rule = Rule.softmax(policy.c, "joint")
        super().__init__(
            policy, cohort, k, horizon, gamma, rule, solution.values, solution.values.info
        )
        self.mu = mu
        self.bonus: Floats = solution.bonus  # [n]: b_i
        self.rates: Floats = solution.rates  # [n]: expected helps over their mean
        self.values = solution.values  # gains plus bonuses
        self._solution = solution

    @cached_property
    def expected_entropy(self) -> float:
        """Expected action entropy of one run, computed as if arms were independent."""
        return self._solution.run_entropy(self.k, self.horizon)

    @cached_property
    def upper_bound(self) -> float:
        """No policy that helps at most k arms a step can expect more reward from this start."""
        return upper_bound(self.cohort, self.k, self.horizon, self.gamma)

    @cached_property
    def tradeoff_bound(self) -> TradeoffBound:
        """The most reward that can be expected, as a function of the action entropy."""
        return tradeoff_bound(self.cohort, self.k, self.horizon, self.gamma)


def check_aim(name: str, value: object) -> None:
    """Refuse a weight mu, or a goal that :class:`EvenHanded` takes instead, outside its range.

    Parameters
    ----------
    name : {"mu", "entropy", "never", "wait"}
        The parameter.
    value : Any
        The value as the caller gave it.

    Raises
    ------
    InvalidInput
        The value is not a number within the range; the message names the nearest end.

    Examples
    --------
    >>> from softfair.policies.evenhanded import check_aim
    >>> check_aim("never", 1.5)
    Traceback (most recent call last):
    ...
    softfair.errors.InvalidInput: never is 1.5; give a share between 0 and 1, the nearest is 1
    """
    most, kind, lower, upper = RANGES[name]
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    if not (0 <= number <= most and number < math.inf):
        nearest = upper if number > 0 else lower
        raise InvalidInput(f"{name} is {value!r}; give {kind}, the nearest is {nearest}")


def _group_numbers(cohort: Cohort) -> Ints:
    """The number of each arm's group [n], in the order in which groups appear."""
    if cohort.groups is None:
        raise InvalidInput(
            "by is 'group', but the cohort has no groups; "
            "give one label an arm, sf.Cohort(..., groups=labels), or by='arm'"
        )
    numbers_of: dict[object, int] = {}
    group = np.array([numbers_of.setdefault(g, len(numbers_of)) for g in cohort.groups.tolist()])
    if len(numbers_of) == 1:
        raise InvalidInput(
            f"by is 'group', but all {cohort.n} arms are in one group; "
            "give at least two groups, or by='arm'"
        )
    if len(numbers_of) == cohort.n:
        raise InvalidInput(
            f"by is 'group', but each of the {cohort.n} groups is one arm; by='arm' is the same"
        )
    return group
