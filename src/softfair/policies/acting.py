"""SoftFair ready to act, on all arms at once or in shards."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..cluster import Spread
from ..cohort import Floats, Ints
from ..sampling import draw_spread, inclusion_spread, new_key
from ..shards import ShardedCohort, shards_of
from ..solvers import upper_bound
from ..solvers.values import PriceValues
from .base import SINGLE, Fitted, defined_at

__all__ = ["FittedSoftFair"]

SMALL_TABLE = 2**24  # bytes up to which a table of all decisions is always used


class FittedSoftFair(Fitted):
    """SoftFair ready to act; ``scores`` are the gains lambda_t(s).

    The gains of a decision are computed shard by shard, by the workers that hold the shards, if the
    cohort is in files, has more than one shard, or was fitted ``on`` workers.
    """

    _last_decision = -2  # the decision whose gains were computed last; -2: none yet

    @property
    def one_by_one(self) -> bool:
        """Whether a subclass defines calls for a single run.

        The calls for a single run that this class defines do not count: they agree with its calls
        for many runs.
        """
        in_subclass = defined_at(type(self), SINGLE) < type(self).__mro__.index(FittedSoftFair)
        return in_subclass and super().one_by_one

    def defines(self, name: str) -> bool:
        """Whether a subclass defines this call for a single run."""
        return self.one_by_one and getattr(type(self), name) is not getattr(FittedSoftFair, name)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_last_decision"}

    def scores(self, t: int, states: ArrayLike, memory: Any = None) -> Floats:
        spread = self._spread(t, states, 1.0)
        return super().scores(t, states, memory) if spread is None else spread.gather()

    def inclusion(self, t: int, states: ArrayLike, memory: Any = None) -> Floats:
        spread = self._spread(t, states, self._weight)
        if spread is None:
            return super().inclusion(t, states, memory)
        return inclusion_spread(spread, self.places(t), self.rule.code)

    def draw(self, t: int, states: ArrayLike, rng: np.random.Generator, memory: Any = None) -> Ints:
        spread = self._spread(t, states, self._weight)
        if spread is None:
            return super().draw(t, states, rng, memory)
        return draw_spread(spread, self.places(t), self.rule.code, new_key(rng))

    def allocate(
        self, t: int, states: ArrayLike, rng: np.random.Generator
    ) -> tuple[Floats, Floats, Ints]:
        """Scores, chances and a list of one decision.

        Parameters are those of :meth:`draw`.

        Returns
        -------
        (ndarray [n], ndarray [n], ndarray [k])
            What :meth:`scores`, :meth:`inclusion` and :meth:`draw` give.
        """
        spread = self._spread(t, states, self._weight)
        if spread is None:
            checked = self._states(states)
            return self.scores(t, checked), self.inclusion(t, checked), self.draw(t, checked, rng)
        chances = inclusion_spread(spread, self.places(t), self.rule.code)
        arms = draw_spread(spread, self.places(t), self.rule.code, new_key(rng))
        del spread
        return self.scores(t, states), chances, arms

    @property
    def _weight(self) -> float:
        """The factor of the gains when arms are chosen: c, or 1 where the k highest are chosen."""
        return self.rule.c if math.isfinite(self.rule.c) else 1.0

    def _spread(self, t: int, states: ArrayLike, multiplier: float) -> Spread | None:
        """The gains by shard, or None if the table of :class:`Fitted` is to be used instead."""
        values = self._scorer
        if not isinstance(values, PriceValues) or self.one_by_one or self.cohort.with_costs:
            return None
        in_process = values.crew is None and not isinstance(self.cohort, ShardedCohort)
        if in_process and len(shards_of(self.cohort)) == 1 and self._table_serves(self._step(t)):
            return None
        checked = self._known_states(states)
        # States are sent to workers, so each takes one byte if S allows it.
        compact = checked.astype(np.int8 if self.cohort.S <= 127 else np.int64, copy=False)
        return values.spread(self._step(t), compact, multiplier)

    def _table_serves(self, t: int) -> bool:
        """Whether to use a table: it exists, or is small, or t follows the last decision."""
        last, self._last_decision = self._last_decision, t
        start, count, rows = self._window
        exists = rows is not None and start <= t < start + count
        small = 8 * self.cohort.n * self.cohort.S * self.horizon <= SMALL_TABLE
        return exists or small or t == last + 1

    @cached_property
    def upper_bound(self) -> float:
        """The total reward that no policy which spends at most k a step can exceed."""
        crew = self._scorer.crew if isinstance(self._scorer, PriceValues) else None
        return upper_bound(self.cohort, self.k, self.horizon, self.gamma, crew)
