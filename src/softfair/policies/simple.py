"""Policies that need no planning: nobody, anybody, everybody in turn, and who gains most by the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from .base import Fitted, Floats, Policy, Remembering, Rule, SameRow

__all__ = ["FairMyopic", "Myopic", "NoIntervention", "Random", "RoundRobin"]


@dataclass(frozen=True)
class NoIntervention(Policy):
    """Helps nobody, whatever k: the zero of the intervention benefit."""

    name: ClassVar[str] = "NoIntervention"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        return Fitted(
            self, cohort, 0, horizon, gamma, Rule.top(), SameRow(np.zeros((cohort.n, cohort.S)))
        )


@dataclass(frozen=True)
class Random(Policy):
    """k arms at random, each as likely as the others."""

    name: ClassVar[str] = "Random"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        return Fitted(
            self,
            cohort,
            k,
            horizon,
            gamma,
            Rule.softmax(0.0, "successive"),
            SameRow(np.zeros((cohort.n, cohort.S))),
        )


@dataclass(frozen=True)
class Myopic(Policy):
    """The k arms that gain most by the next step."""

    name: ClassVar[str] = "Myopic"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        return Fitted(self, cohort, k, horizon, gamma, Rule.top(), SameRow(cohort.immediate_gain))


@dataclass(frozen=True)
class FairMyopic(Policy):
    """k successive draws by softmax over the gain by the next step; the paper has c = 1."""

    name: ClassVar[str] = "FairMyopic"

    c: float = 1.0

    def __post_init__(self) -> None:
        Rule.softmax(self.c, "successive")

    @property
    def label(self) -> str:
        return self.name if self.c == 1 else f"FairMyopic(c={self.c:g})"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        return Fitted(
            self,
            cohort,
            k,
            horizon,
            gamma,
            Rule.softmax(self.c, "successive"),
            SameRow(cohort.immediate_gain),
        )


@dataclass(frozen=True)
class RoundRobin(Policy):
    """Everybody in turn."""

    name: ClassVar[str] = "RoundRobin"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        return _FittedRoundRobin(self, cohort, k, horizon, gamma, Rule.top())


class _FittedRoundRobin(Remembering):
    """Memory [runs, 1]: whose turn it is."""

    def memory(self, runs: int = 1) -> NDArray[np.int64]:
        return np.zeros((runs, 1), np.int64)

    def _scores(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        n = self.cohort.n
        turns: Floats = -((np.arange(n) - memory) % n).astype(np.float64)
        return turns

    def _remember(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any:
        return (memory + self.k) % self.cohort.n
