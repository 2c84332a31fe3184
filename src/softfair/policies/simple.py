"""Policies without planning: help for nobody, a lottery, turns, and the gain by the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from ..sampling import multiplier
from .base import Fitted, Floats, Ints, Policy, Remembering
from .labels import plain_number
from .rules import Rule, SameRow
from .setting import Budget, check_setting

__all__ = ["FairMyopic", "Myopic", "NoIntervention", "Random", "RoundRobin"]


@dataclass(frozen=True)
class NoIntervention(Policy):
    """Helps nobody, whatever k is: the zero of the intervention benefit.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.NoIntervention().fit(sf.datasets.synthetic(n=3, seed=0), k=2, horizon=5)
    >>> fitted.inclusion(0, [0, 0, 0])
    array([0., 0., 0.])
    """

    name: ClassVar[str] = "NoIntervention"
    takes_costs = True

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`; k is ignored."""
        return Fitted(self, cohort, 0, horizon, gamma, Rule.top(), _all_alike(cohort))


@dataclass(frozen=True)
class Random(Policy):
    """k arms at random, all equally likely.

    Notes
    -----
    If arms have costs, all arms have nearly the same chance, whatever they cost
    (:mod:`softfair.costs`).

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.Random().fit(sf.datasets.synthetic(n=4, seed=0), k=1, horizon=5)
    >>> fitted.inclusion(0, [0, 0, 1, 1])
    array([0.25, 0.25, 0.25, 0.25])
    """

    name: ClassVar[str] = "Random"
    takes_costs = True

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`."""
        check_setting(cohort, k, horizon, gamma)
        # With c = 0 both designs have the same law; only "joint" takes costs.
        rule = Rule.softmax(0.0, "joint" if cohort.with_costs else "successive")
        return Fitted(self, cohort, k, horizon, gamma, rule, _all_alike(cohort))


@dataclass(frozen=True)
class Myopic(Policy):
    """The k arms with the largest gain by the next step.

    Notes
    -----
    The gain of a two-state arm in state s is p[1, s] - p[0, s], times r(1) - r(0). If arms have
    costs, arms are ranked by gain for cost, and each arm that still fits is helped.

    Examples
    --------
    >>> import softfair as sf
    >>> cohort = sf.Cohort.two_state([[[0.1, 0.5], [0.9, 0.6]], [[0.2, 0.5], [0.3, 0.9]]])
    >>> sf.Myopic().fit(cohort, k=1, horizon=5).inclusion(0, [0, 0])
    array([1., 0.])
    """

    name: ClassVar[str] = "Myopic"
    takes_costs = True

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`."""
        check_setting(cohort, k, horizon, gamma)
        gain = SameRow(cohort.per_cost.immediate_gain)
        return Fitted(self, cohort, k, horizon, gamma, Rule.top(), gain)


@dataclass(frozen=True)
class FairMyopic(Policy):
    """k successive draws by softmax over the gain by the next step.

    Parameters
    ----------
    c : float
        Multiplier of the gain; 1 in the paper.

    Raises
    ------
    InvalidInput
        c is not a number >= 0.

    Examples
    --------
    >>> import softfair as sf
    >>> cohort = sf.Cohort.two_state([[[0.1, 0.5], [0.9, 0.6]], [[0.2, 0.5], [0.3, 0.9]]])
    >>> sf.FairMyopic(c=10).fit(cohort, k=1, horizon=5).inclusion(0, [0, 0]).round(4)
    array([9.991e-01, 9.000e-04])
    """

    name: ClassVar[str] = "FairMyopic"

    c: float = 1.0

    def __post_init__(self) -> None:
        multiplier(self.c)

    @property
    def label(self) -> str:
        """The name, and c unless it is 1."""
        return self.name if self.c == 1 else f"FairMyopic(c={plain_number(self.c)})"

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`."""
        rule = Rule.softmax(self.c, "successive")
        return Fitted(self, cohort, k, horizon, gamma, rule, SameRow(cohort.immediate_gain))


@dataclass(frozen=True)
class RoundRobin(Policy):
    """Every arm in turn, in the order of the arms' numbers.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.RoundRobin().fit(sf.datasets.synthetic(n=5, seed=0), k=2, horizon=5)
    >>> memory = fitted.remember(None, 0, [0] * 5, [0, 1])
    >>> fitted.inclusion(1, [0] * 5, memory)
    array([0., 0., 1., 1., 0.])
    """

    name: ClassVar[str] = "RoundRobin"

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`."""
        return _FittedRoundRobin(self, cohort, k, horizon, gamma, Rule.top())


class _FittedRoundRobin(Remembering):
    """RoundRobin ready to act; its memory [runs, 1] is the number of the arm whose turn is next."""

    def memory(self, runs: int = 1) -> Ints:
        return np.zeros((runs, 1), np.int64)

    def scores_by_run(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        n = self.cohort.n
        turns: Floats = -((np.arange(n) - memory) % n).astype(np.float64)
        return turns

    def remember_by_run(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any:
        return (memory + self.places(t)) % self.cohort.n


def _all_alike(cohort: Cohort) -> SameRow:
    """A score of 0 for every arm in every state."""
    return SameRow(np.zeros((cohort.n, cohort.S)))
