"""Tests whether the state before, or a contact the round before, counts beside the state now.

Unless a plan has a memory (`estimate.Memory`), it takes each person for a Markov chain, in which
only the state now counts. This is tested person by person, so that differences between people
cannot be mistaken for memory.

**Exits.** Take a stretch: rounds of one person, one after the other, all seen, none with a contact.
Write down the exits from each state in their order: stayed or left. If only the state now counts,
every path with the same first state and the same number of moves of each kind is equally likely,
whatever the person's chances are. These paths differ in the order of the exits from each state;
only the last exit keeps its place, for every state but the one in which the stretch ends (otherwise
the path would end elsewhere). So the other exits, L of them with n stays, are in purely random
order. If the chances of a contact or of being seen depend on the state now, these paths are still
equally likely: the chances are functions of the same counts.

**The state before.** A person in a state was in it the round before if and only if the exit before
this one was a stay. The number of stays that follow a stay, T = sum_k y_k y_{k-1}, has under random
order

    E T   = (L - 1) p_2,      p_r = n (n - 1) ... (n - r + 1) / (L (L - 1) ... (L - r + 1)),
    Var T = (L - 1) p_2 + 2 (L - 2) p_3 + (L - 2)(L - 3) p_4 - (E T)^2.

**A contact the round before.** In a stretch that begins right after a round with a contact, the
first exit of all comes one round after it. Under random order it is a stay with chance n / L. In
programmes with rounds of rest after a contact, the chance of a contact depends on the time since
the last one, so this is not tested there.

Means and variances add up over stretches. Chances that change with time look like memory, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tracks import History, Observations
from .statistics import count_p, z_score

__all__ = ["AFTER_CONTACT", "STATE_BEFORE", "MemoryRow", "memory_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STATE_BEFORE = "state before"
AFTER_CONTACT = "contact before"
LEAST_VARIANCE = 5.0  # of a sum that is tested: its law is then near the normal
ROWS_AT_ONCE = 2**15  # rounds of people, at some 200 bytes each


@dataclass(frozen=True)
class MemoryRow:
    """Stays in a state after something that does not count if only the state now counts."""

    after: str  # STATE_BEFORE: after a round in the same state; AFTER_CONTACT: after a contact
    state: str
    moves: int  # exits from the state whose order is left to chance
    expected: float  # stays, if only the state now counts
    observed: int
    z: float
    p: float
    flagged: bool = False


def memory_of(history: History, states: Sequence[str], cooldown: int) -> tuple[MemoryRow, ...]:
    """Tests whether the state before, or a contact the round before, counts beside the state now.

    Parameters
    ----------
    history : History
        All that was recorded.
    states : sequence of str
        Their names, from worst to best.
    cooldown : int
        Rounds of rest after a contact.

    Returns
    -------
    tuple of MemoryRow
        A row for each state and question with enough variance for a test.
    """
    totals: Floats = np.zeros((len(states), 2, 4))
    people = max(ROWS_AT_ONCE // max(len(history.rounds), 1), 1)
    for first in range(0, history.n, people):  # people are independent, so sums add up
        exits = _Exits.of(history.rows(slice(first, first + people)))
        for s in range(len(states)):
            here = exits.state == s
            totals[s, 0] += exits.repeats(here)
            totals[s, 1] += exits.firsts(here & exits.after_contact)
    rows = []
    for state, (repeats, firsts) in zip(states, totals, strict=True):
        rows.append(_row(STATE_BEFORE, state, *repeats))
        if not cooldown:
            rows.append(_row(AFTER_CONTACT, state, *firsts))
    return tuple(row for row in rows if not math.isnan(row.p))


def _row(
    after: str, state: str, moves: float, observed: float, expected: float, variance: float
) -> MemoryRow:
    enough = variance >= LEAST_VARIANCE
    return MemoryRow(
        after=after,
        state=state,
        moves=round(moves),
        expected=expected,
        observed=round(observed),
        z=z_score(observed - expected, variance) if enough else math.nan,
        p=count_p(observed - expected, variance) if enough else math.nan,
    )


@dataclass(frozen=True, eq=False)
class _Exits:
    """The exits whose order is left to chance; arrays [q], an entry a stretch and state."""

    state: Ints
    L: Floats  # number of exits
    n: Floats  # number of stays among them
    T: Floats  # number of stays that follow a stay
    first: Floats  # 1: the first exit is a stay
    after_contact: NDArray[np.bool_]  # whether the first exit is in the round after a contact

    @classmethod
    def of(cls, rows: Observations) -> _Exits:
        """All exits, from rows that are sorted by person and round."""
        state, contacted = rows.state, rows.contacted
        follows = (np.diff(rows.person) == 0) & (np.diff(rows.round) == 1)
        move = follows & (state[:-1] >= 0) & (state[1:] >= 0) & (contacted[:-1] == 0)
        row = np.flatnonzero(move)
        if not len(row):
            none, nobody = np.empty(0), np.empty(0, np.int64)
            return cls(nobody, none, none, none, none, nobody.astype(bool))
        begins = np.diff(row, prepend=-2) != 1  # of a stretch
        stretch = np.cumsum(begins) - 1
        s, stays = state[row], (state[row] == state[row + 1]).astype(np.float64)
        ends = np.flatnonzero(np.append(begins[1:], True))
        last_state = state[row[ends] + 1][stretch]  # where the stretch ends
        after = begins & (row > 0)
        after[after] = follows[row[after] - 1] & (contacted[row[after] - 1] == 1)
        order = np.lexsort((row, s, stretch))
        group = np.cumsum(_changes(stretch[order], s[order])) - 1
        final = np.append(np.diff(group) != 0, True)
        free = ~(final & (s != last_state)[order])
        order, group = order[free], group[free]
        return cls._summed(s[order], stays[order], after[order], begins[order], group)

    @classmethod
    def _summed(
        cls,
        s: Ints,
        stays: Floats,
        after: NDArray[np.bool_],
        begins: NDArray[np.bool_],
        group: Ints,
    ) -> _Exits:
        """Sums by ``group``, the number of the stretch and state of each exit."""
        first = np.diff(group, prepend=-1) != 0
        number = np.cumsum(first) - 1
        q = int(first.sum())

        def total(values: Floats) -> Floats:
            return np.bincount(number, values, q).astype(np.float64)

        again = np.zeros(len(stays))
        again[1:] = stays[1:] * stays[:-1] * ~first[1:]
        return cls(
            s[first],
            total(np.ones(len(s))),
            total(stays),
            total(again),
            stays[first],
            (after & begins)[first],
        )

    def repeats(self, which: NDArray[np.bool_]) -> tuple[int, float, float, float]:
        """Number of exits; number of stays after a stay, its mean and its variance."""
        L, n = self.L[which], self.n[which]
        p2, p3, p4 = (_falling(n, r) / np.maximum(_falling(L, r), 1) for r in (2, 3, 4))
        mean = (L - 1) * p2
        variance = mean + 2 * (L - 2) * p3 + (L - 2) * (L - 3) * p4 - mean**2
        return (
            int(L.sum()),
            float(self.T[which].sum()),
            float(mean.sum()),
            float(np.maximum(variance, 0).sum()),
        )

    def firsts(self, which: NDArray[np.bool_]) -> tuple[int, float, float, float]:
        """Number of exits; number of first exits that are stays, its mean and its variance."""
        L, n = self.L[which], self.n[which]
        share = n / np.maximum(L, 1)
        variance = float(np.sum(share * (1 - share)))
        return int(L.sum()), float(self.first[which].sum()), float(share.sum()), variance


def _changes(*columns: Ints) -> NDArray[np.bool_]:
    """Where any of the columns differs from the row before."""
    changed = np.zeros(len(columns[0]), bool)
    changed[:1] = True
    for column in columns:
        changed[1:] |= np.diff(column) != 0
    return changed


def _falling(x: Floats, r: int) -> Floats:
    """x (x - 1) ... (x - r + 1), 0 if x < r."""
    product = np.ones(len(x))
    for j in range(r):
        product = product * np.maximum(x - j, 0)
    return product
