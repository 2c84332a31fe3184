"""Whether states were seen before the contacts of their round, as they should be.

In a history, ``state`` is at the start of a round and ``contacted`` during it: a contact shows in
the state of the next round. Where files hold states from the end of a round, a contact shows in the
state of the same round. Both effects are estimated from the rounds that no plan was made for, in
which contacts do not follow from states by design:

    before = E[good at r + 1 | contacted at r] - E[good at r + 1 | not], given the state at r
    after  = E[good at r | contacted at r] - E[good at r | not], given the state at r - 1

each a mean over the state before, weighted by n1 n0 / (n1 + n0) (Mantel and Haenszel).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .snapshot import take_snapshot
from .store import Store
from .tracks import History

__all__ = ["Effect", "Ordering", "ordering", "ordering_of"]

Ints = NDArray[np.int64]

CLEAR, ABSENT = 4.0, 2.0  # standard errors: an effect above the first is there, below the other not


@dataclass(frozen=True)
class Effect:
    """A difference of two shares."""

    difference: float
    error: float  # standard error; nan: it cannot be told

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return self.difference / self.error if self.error > 0 else 0.0


@dataclass(frozen=True)
class Ordering:
    """The effect that a contact seems to have, under either reading of the states."""

    before: Effect  # states are at the start of their round
    after: Effect  # states are at its end

    @property
    def doubtful(self) -> bool:
        """Whether the data look as if states were at the end of their round."""
        return self.after.z > CLEAR and self.before.z < ABSENT


def ordering(database: Store) -> Ordering:
    """What a contact seems to do, under either reading of the states, in rounds without a plan."""
    with database.reading() as connection:
        now = take_snapshot(connection)
    return ordering_of(now.history, now.settings.S, now.rounds.planned)


def ordering_of(history: History, S: int, planned: list[int]) -> Ordering:
    """As `ordering`, of a history."""
    counts = np.zeros((2, S * 4), np.int64)  # by the state before, the contact, and good or not
    for now, then in history.follows():
        seen = (history.state[now] >= 0) & (history.state[then] >= 0)
        good = history.state[then] == S - 1
        for reading, place in enumerate((now, then)):
            if history.rounds[place] in planned:
                continue
            contacted = history.contacted[place]
            i = np.flatnonzero(seen & (contacted >= 0))
            cell = history.state[now][i].astype(np.int64) * 4 + contacted[i] * 2 + good[i]
            counts[reading] += np.bincount(cell, minlength=4 * S)
    before, after = counts.reshape(2, S, 2, 2)
    return Ordering(before=_effect(before), after=_effect(after))


def _effect(counts: Ints) -> Effect:
    """From counts of not good and good, by the state before and the contact [S, 2, 2]."""
    weights, differences, variances = [], [], []
    for (bad0, good0), (bad1, good1) in counts.tolist():
        none, one = bad0 + good0, bad1 + good1
        if min(one, none) < 2:
            continue
        p, q = good1 / one, good0 / none
        weights.append(one * none / (one + none))
        differences.append(p - q)
        variances.append(p * (1 - p) / one + q * (1 - q) / none)
    if not weights:
        return Effect(0.0, math.nan)
    share = np.array(weights) / sum(weights)
    error = math.sqrt(float(share**2 @ np.array(variances)))
    return Effect(float(share @ np.array(differences)), error)
