"""One protocol for every policy.

    fitted = policy.fit(cohort, k=..., horizon=..., gamma=..., seed=...)
    fitted.scores(t, states)       what ranks or weighs the arms at decision t [n]
    fitted.inclusion(t, states)    Pr(arm i is helped) [n], sums to k
    fitted.draw(t, states, rng)    k arms, sorted

A policy scores each arm in each state, and a `Rule` turns scores into a selection. Policies that remember (who was helped lately, what
was last seen) carry it in an explicit memory: ``memory()`` is what is known at the start, ``remember`` returns what is known after a
decision, and every call above takes it as its last argument; without one it answers as at the start. A memory is an array with a leading
axis of runs, so that many runs go side by side.
"""

from __future__ import annotations

import abc
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cohort import Cohort
from ..errors import InvalidInput, refuse, whole
from ..kernels import draws
from ..kernels.draws import ROUNDED, TOP
from ..sampling import BEYOND_REACH, DESIGNS, Design, inclusion, inclusion_of_top, new_key
from ..solvers.values import Info

__all__ = ["Fitted", "Policy", "Remembering", "Rows", "Rule", "SameRow"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WINDOW_BYTES = 2**29  # of score rows that are kept while a caller walks through the steps


@dataclass(frozen=True)
class Rule:
    """How scores become a selection: the best k, one of the sampling designs at multiplier c, or rounding of given chances."""

    code: int
    c: float = 0.0

    @classmethod
    def top(cls) -> Rule:
        return cls(TOP)

    @classmethod
    def rounding(cls) -> Rule:
        return cls(ROUNDED)

    @classmethod
    def softmax(cls, c: float, design: Design) -> Rule:
        """c = inf is the best k, and so is any c that leaves no two scores within reach of each other."""
        if design not in DESIGNS:
            raise InvalidInput(
                f"design is {design!r}; choose one of {', '.join(map(repr, DESIGNS))}"
            )
        if not isinstance(c, numbers.Real) or not c >= 0:
            raise InvalidInput(
                f"c is {c!r}; give a number >= 0 (0: everybody alike, inf: the k who gain most)"
            )
        return cls.top() if c > BEYOND_REACH else cls(DESIGNS[design], float(c))

    def inclusion(self, scores: Floats, k: int) -> Floats:
        if self.code == TOP:
            return inclusion_of_top(scores, k)
        if self.code == ROUNDED:
            return scores.copy()
        design: Design = "successive" if self.code == DESIGNS["successive"] else "joint"
        return inclusion(self.c * scores, k, design)

    def draw(self, scores: Floats, k: int, rng: np.random.Generator) -> Ints:
        chosen = np.empty(len(scores), np.uint8)
        draws.select(
            np.ascontiguousarray(scores),
            self.c,
            self.code,
            k,
            new_key(rng),
            np.empty(3 * len(scores)),
            chosen,
        )
        return np.flatnonzero(chosen)


class Rows(Protocol):
    """Scores of every arm in every state, a few steps at a time."""

    def rows(self, first: int, count: int) -> Floats:
        """For decisions first, ..., first + count - 1: [count, n, S], or [1, n, S] if one row serves them all."""
        ...


@dataclass(frozen=True, eq=False)
class SameRow:
    """Scores that do not change with time: row [n, S]."""

    row: Floats

    def rows(self, first: int, count: int) -> Floats:
        return self.row[None]


class Policy(abc.ABC):
    """Something that can be fitted to a cohort. Policies are small frozen descriptions; what is computed lives in `Fitted`."""

    name: ClassVar[str]

    @abc.abstractmethod
    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """Prepare for k helped arms at each of ``horizon`` decisions."""

    @property
    def label(self) -> str:
        """Name with the parameters that were set: what a table or a legend shows."""
        return self.name


class Fitted:
    """A policy ready to act on one cohort."""

    def __init__(
        self,
        policy: Policy,
        cohort: Cohort,
        k: int,
        horizon: int,
        gamma: float,
        rule: Rule,
        scorer: Rows | None = None,
        info: Info | None = None,
    ) -> None:
        check_setting(cohort, k, horizon, gamma)
        self.policy, self.cohort, self.k, self.horizon, self.gamma = (
            policy,
            cohort,
            int(k),
            int(horizon),
            float(gamma),
        )
        self.rule, self.info = rule, info
        self._scorer = scorer
        self._window: tuple[int, int, Floats | None] = (
            0,
            0,
            None,
        )  # first decision, how many, their rows

    def __repr__(self) -> str:
        return f"<{self.policy.label}: n={self.cohort.n}, k={self.k}, horizon={self.horizon}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_window": (0, 0, None)}  # rows are cheap to make again

    # What a caller sees.

    def scores(self, t: int, states: ArrayLike, memory: Any = None) -> Floats:
        """What ranks or weighs the arms at decision t in these states [n]."""
        one: Floats = self._scores(self._step(t), self._states(states)[None], self._memory(memory))[
            0
        ]
        return one

    def inclusion(self, t: int, states: ArrayLike, memory: Any = None) -> Floats:
        """Pr(arm i is helped | states) [n]; sums to k."""
        return self.rule.inclusion(self.scores(t, states, memory), self.k)

    def draw(self, t: int, states: ArrayLike, rng: np.random.Generator, memory: Any = None) -> Ints:
        """k arms, sorted."""
        return self.rule.draw(self.scores(t, states, memory), self.k, rng)

    def memory(self, runs: int = 1) -> Any:
        """What is remembered at the start; None for a policy that remembers nothing."""
        return None

    def remember(self, memory: Any, t: int, states: ArrayLike, arms: ArrayLike) -> Any:
        """What is remembered after helping ``arms`` at decision t in these states."""
        helped = np.zeros((1, self.cohort.n), np.uint8)
        helped[0, self._arms(arms)] = 1
        return self._remember(
            self._memory(memory), self._step(t), self._states(states)[None], helped
        )

    # What simulation calls: many runs at once.

    def table(self, first: int) -> tuple[Floats, int]:
        """Scores from decision ``first`` on, for as many as fit a window: [decisions, n, S] (or [1, n, S] if they are all alike), and
        how many decisions that is. Only for policies without memory."""
        assert self._scorer is not None
        start, count, rows = self._window
        if rows is None or not start <= first < start + count:
            walking = (
                first == start + count
            )  # who asks for the next decision will ask for the one after
            fit = max(1, WINDOW_BYTES // (8 * self.cohort.n * self.cohort.S))
            count = min(fit, self.horizon - first) if walking else 1
            start, rows = first, self._scorer.rows(first, count)
            self._window = start, count, rows
        return rows[first - start if len(rows) > 1 else 0 :], start + count - first

    def _scores(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        """Scores [runs, n] in states [runs, n]."""
        row = self.table(t)[0][0]
        out: Floats = np.take_along_axis(row, states.T.astype(np.int64), axis=1).T
        return np.ascontiguousarray(out)

    def _remember(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any:
        """Memory after ``helped`` [runs, n] in states [runs, n]; the memory given is left as it is."""
        return None

    def _memory(self, memory: Any) -> Any:
        return self.memory() if memory is None else memory

    def _step(self, t: int) -> int:
        if not isinstance(t, numbers.Real) or not 0 <= t < self.horizon or t != int(t):
            raise InvalidInput(
                f"t is {t!r}, the decisions are 0 to {self.horizon - 1}; fit with a longer horizon to look further"
            )
        return int(t)

    def _arms(self, arms: ArrayLike) -> Ints:
        given, n = np.asarray(arms, dtype=np.int64), self.cohort.n
        refuse((given < 0) | (given >= n), given, "arms", f"give indices between 0 and {n - 1}")
        return given

    def _states(self, states: ArrayLike) -> Ints:
        given = np.asarray(states)
        n, S = self.cohort.n, self.cohort.S
        if given.shape != (n,):
            raise InvalidInput(
                f"states have shape {given.shape}, the cohort has {n} arms; give one state an arm"
            )
        refuse(~np.isin(given, np.arange(S)), given, "states", f"give states between 0 and {S - 1}")
        return given.astype(np.int64)


class Remembering(Fitted):
    """A fitted policy whose scores depend on what happened before: `memory`, `_scores` and `_remember` are its own."""

    @abc.abstractmethod
    def memory(self, runs: int = 1) -> Any: ...

    @abc.abstractmethod
    def _scores(self, t: int, states: NDArray[Any], memory: Any) -> Floats: ...

    @abc.abstractmethod
    def _remember(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any: ...


def check_setting(cohort: Cohort, k: int, horizon: int, gamma: float) -> None:
    """Refuse a budget, horizon or discount that means nothing for this cohort."""
    if not isinstance(cohort, Cohort):
        raise InvalidInput(
            f"cohort is a {type(cohort).__name__}; give a Cohort, such as sf.Cohort(P) or sf.datasets.synthetic()"
        )
    whole("k", k, 0, cohort.n, f", the cohort has {cohort.n} arms")
    whole("horizon", horizon, 1)
    if not isinstance(gamma, numbers.Real) or not 0 <= gamma <= 1:
        raise InvalidInput(
            f"gamma is {gamma!r}; give a discount between 0 and 1 (1: later rewards count in full)"
        )
