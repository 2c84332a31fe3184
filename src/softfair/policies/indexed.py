"""Policies that rank arms by a Whittle index, for observed and for partially observed arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import InvalidInput
from ..indices import sigmoid_row, threshold, threshold_at, whittle
from .base import Fitted, Floats, Policy, Remembering
from .rules import Rows, Rule, SameRow
from .setting import Budget, check_setting, refuse_by_action

__all__ = ["Oracle", "ThresholdWhittle", "Whittle"]


@dataclass(frozen=True, eq=False)
class _SigmoidRows:
    """Rows of a sigmoid in the decisions left, from the one-step gain to the infinite horizon."""

    gain: Floats  # [n, S], with one decision left
    limit: Floats  # [n, S], with infinitely many decisions left
    horizon: int

    def rows(self, first: int, count: int) -> Floats:
        decisions = range(first, first + count)
        return np.stack([sigmoid_row(self.gain, self.limit, self.horizon - t) for t in decisions])


@dataclass(frozen=True, eq=False)
class _CountdownRows:
    """Rows of a table by the number of decisions left."""

    table: Floats  # [horizon + 1, n, S]

    def rows(self, first: int, count: int) -> Floats:
        left = len(self.table) - 1 - first  # decisions left at decision ``first``
        return np.ascontiguousarray(self.table[left - count + 1 : left + 1][::-1])


@dataclass(frozen=True)
class Oracle(Policy):
    """The k highest approximate finite-horizon Whittle indices: the paper's yardstick.

    Notes
    -----
    The index with h decisions left is a sigmoid in h. It is 0 at h = 0, the gain by the next step
    at h = 1 and the infinite-horizon index at h = inf (:func:`softfair.indices.sigmoid_row`). If
    arms have costs, arms are ranked by index for cost, and each arm that still fits is helped.

    References
    ----------
    Mate, Perrault and Tambe (2021), Risk-aware interventions in public health: planning with
    restless multi-armed bandits, AAMAS.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.Oracle().fit(sf.datasets.synthetic(n=4, seed=0), k=1, horizon=5)
    >>> fitted.inclusion(0, [0, 0, 0, 0])
    array([0., 0., 1., 0.])
    """

    name: ClassVar[str] = "Oracle"
    takes_costs = True

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`. Raises NotIndexable if arms of three states have no index."""
        check_setting(cohort, k, horizon, gamma)
        arms = cohort.per_cost  # an index is linear in the rewards
        rows = _SigmoidRows(arms.immediate_gain, whittle(arms, gamma), horizon)
        return Fitted(self, cohort, k, horizon, gamma, Rule.top(), rows)


@dataclass(frozen=True)
class Whittle(Policy):
    """The k highest Whittle indices; if arms have costs, indices for cost.

    Parameters
    ----------
    horizon : {"infinite", "finite"}
        The index of the infinite horizon, or the exact index for the number of decisions left.

    Raises
    ------
    InvalidInput
        ``horizon`` is neither "infinite" nor "finite".

    Examples
    --------
    >>> import softfair as sf
    >>> cohort = sf.datasets.synthetic(n=4, seed=0)
    >>> fitted = sf.Whittle("finite").fit(cohort, k=1, horizon=5)
    >>> bool((fitted.scores(4, [0] * 4) == cohort.immediate_gain[:, 0]).all())
    True
    """

    name: ClassVar[str] = "Whittle"
    takes_costs = True

    horizon: Literal["infinite", "finite"] = "infinite"

    def __post_init__(self) -> None:
        if self.horizon not in ("infinite", "finite"):
            raise InvalidInput(f"horizon is {self.horizon!r}; choose 'infinite' or 'finite'")

    @property
    def label(self) -> str:
        """The name with its horizon."""
        return f"Whittle({self.horizon})"

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`. Raises NotIndexable if arms of three states have no index."""
        check_setting(cohort, k, horizon, gamma)
        infinite = self.horizon == "infinite"
        index = whittle(cohort.per_cost, gamma, None if infinite else horizon)
        rows: Rows = SameRow(index) if infinite else _CountdownRows(index)
        return Fitted(self, cohort, k, horizon, gamma, Rule.top(), rows)


@dataclass(frozen=True)
class ThresholdWhittle(Policy):
    """Threshold Whittle for two-state arms whose state is seen only when they are helped.

    Notes
    -----
    ``scores``, ``inclusion`` and ``draw`` ignore the states that they are given. ``remember`` makes
    the states known of the arms that were helped. The index is that of the average reward over an
    infinite horizon, whatever gamma is. Arms that were never seen are ranked by the index at their
    belief, which starts from the cohort's start distribution.

    References
    ----------
    Mate, Killian, Xu, Perrault and Tambe (2020), Collapsing bandits and their application to public
    health interventions, NeurIPS.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.ThresholdWhittle().fit(sf.datasets.synthetic(n=4, seed=0), k=1, horizon=5)
    >>> bool((fitted.scores(0, [0, 0, 0, 0]) == fitted.scores(0, [1, 1, 1, 1])).all())
    True
    """

    name: ClassVar[str] = "ThresholdWhittle"

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`.

        Raises InvalidInput if the arms have more than two states, or rewards by action.
        """
        check_setting(cohort, k, horizon, gamma)
        refuse_costs(cohort, "ThresholdWhittle")
        refuse_by_action(cohort, "ThresholdWhittle")
        return _FittedThreshold(self, cohort, k, horizon, gamma, Rule.top())


NEVER_SEEN = 2  # stands in the memory for the state of an arm that was never seen


class _FittedThreshold(Remembering):
    """ThresholdWhittle ready to act.

    Its memory [runs, n, 2] holds the state last seen (or NEVER_SEEN), and how many decisions ago.
    """

    def __init__(
        self, policy: Policy, cohort: Cohort, k: Budget, horizon: int, gamma: float, rule: Rule
    ) -> None:
        super().__init__(policy, cohort, k, horizon, gamma, rule)
        table = threshold(cohort, horizon)
        p = cohort.p  # [n, 2, 2]
        belief = cohort.start[:, 1].copy()  # [n]: Pr(state 1) of an arm not yet seen
        unseen = []
        for _ in range(horizon):
            unseen.append(threshold_at(belief, table))
            belief = np.clip(belief * p[:, 0, 1] + (1 - belief) * p[:, 0, 0], 0, 1)
        self.index = np.concatenate([table.index, np.array(unseen)[None]])  # [3, horizon, n]

    def memory(self, runs: int = 1) -> NDArray[np.int32]:
        return np.broadcast_to(np.array([NEVER_SEEN, 1], np.int32), (runs, self.cohort.n, 2)).copy()

    def scores_by_run(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        steps = np.minimum(memory[..., 1], self.horizon) - 1
        out: Floats = self.index[memory[..., 0], steps, np.arange(self.cohort.n)]
        return out

    def remember_by_run(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any:
        seen = helped.astype(bool)
        state = np.where(seen, states, memory[..., 0])
        ago = np.where(seen, 1, memory[..., 1] + 1)
        return np.stack([state, ago], axis=-1).astype(np.int32)
