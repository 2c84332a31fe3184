"""Policies that rank arms by a Whittle index: fully observed for ever or to a horizon, the paper's Oracle, and partly observed arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from ..errors import InvalidInput
from ..indices import sigmoid_row, threshold, threshold_at, whittle
from .base import Fitted, Floats, Policy, Remembering, Rows, Rule, SameRow, check_setting

__all__ = ["Oracle", "ThresholdWhittle", "Whittle"]


@dataclass(frozen=True, eq=False)
class _SigmoidRows:
    """Sigmoid between the gain by the next step and the index for ever, by the decisions left."""

    gain: Floats  # [n, S]
    limit: Floats  # [n, S]
    horizon: int

    def rows(self, first: int, count: int) -> Floats:
        return np.stack(
            [
                sigmoid_row(self.gain, self.limit, self.horizon - t)
                for t in range(first, first + count)
            ]
        )


@dataclass(frozen=True, eq=False)
class _CountdownRows:
    """A table by the decisions left: [horizon + 1, n, S]."""

    table: Floats

    def rows(self, first: int, count: int) -> Floats:
        horizon = len(self.table) - 1
        return np.ascontiguousarray(
            self.table[horizon - first - count + 1 : horizon - first + 1][::-1]
        )


@dataclass(frozen=True)
class Oracle(Policy):
    """The paper's yardstick (Mate et al. 2021): the k highest approximate finite-horizon Whittle indices."""

    name: ClassVar[str] = "Oracle"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        check_setting(cohort, k, horizon, gamma)
        rows = _SigmoidRows(cohort.immediate_gain, whittle(cohort, gamma), horizon)
        return Fitted(self, cohort, k, horizon, gamma, Rule.top(), rows)


@dataclass(frozen=True)
class Whittle(Policy):
    """The k highest Whittle indices: of the infinite horizon, or exact for the decisions left."""

    name: ClassVar[str] = "Whittle"

    horizon: Literal["infinite", "finite"] = "infinite"

    def __post_init__(self) -> None:
        if self.horizon not in ("infinite", "finite"):
            raise InvalidInput(f"horizon is {self.horizon!r}; choose 'infinite' or 'finite'")

    @property
    def label(self) -> str:
        return f"Whittle({self.horizon})"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        check_setting(cohort, k, horizon, gamma)
        forever = self.horizon == "infinite"
        rows: Rows = (
            SameRow(whittle(cohort, gamma))
            if forever
            else _CountdownRows(whittle(cohort, gamma, horizon))
        )
        return Fitted(self, cohort, k, horizon, gamma, Rule.top(), rows)


@dataclass(frozen=True)
class ThresholdWhittle(Policy):
    """Threshold Whittle (Mate et al. 2020) for two-state arms whose state is seen only when they are helped.

    The states given to ``scores`` and the rest are looked at only where an arm was helped, through ``remember``. The index is of the
    average reward over an infinite horizon, whatever gamma. Arms not yet seen are ranked by the index at their belief.
    """

    name: ClassVar[str] = "ThresholdWhittle"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        check_setting(cohort, k, horizon, gamma)
        return _FittedThreshold(self, cohort, k, horizon, gamma, Rule.top())


NEVER_SEEN = 2


class _FittedThreshold(Remembering):
    """Memory [runs, n, 2]: the state last seen (or NEVER_SEEN), and how many decisions ago."""

    def __init__(
        self, policy: Policy, cohort: Cohort, k: int, horizon: int, gamma: float, rule: Rule
    ) -> None:
        super().__init__(policy, cohort, k, horizon, gamma, rule)
        table = threshold(cohort, horizon)
        p, belief = (
            cohort.p,
            cohort.start[:, 1].copy(),
        )  # [n]: chance of state 1 while an arm goes unseen from the start
        unseen = []
        for _ in range(horizon):
            unseen.append(threshold_at(belief, table))
            belief = np.clip(belief * p[:, 0, 1] + (1 - belief) * p[:, 0, 0], 0, 1)
        self.index = np.concatenate([table.index, np.array(unseen)[None]])  # [3, horizon, n]

    def memory(self, runs: int = 1) -> NDArray[np.int32]:
        return np.broadcast_to(np.array([NEVER_SEEN, 1], np.int32), (runs, self.cohort.n, 2)).copy()

    def _scores(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        steps = np.minimum(memory[..., 1], self.horizon) - 1
        out: Floats = self.index[memory[..., 0], steps, np.arange(self.cohort.n)]
        return out

    def _remember(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any:
        seen = helped.astype(bool)
        return np.stack(
            [np.where(seen, states, memory[..., 0]), np.where(seen, 1, memory[..., 1] + 1)], axis=-1
        ).astype(np.int32)
