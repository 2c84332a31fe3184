"""Histories as the likelihood needs them: moves, first states and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .border import Floats, Ints

__all__ = ["LONGEST_GAP", "Histories"]

#: A gap of more rounds counts as one of this many (its last): whatever was seen before it is
#: forgotten by then, for everybody who leaves each state once in a dozen rounds.
LONGEST_GAP = 60
DIGITS = 30  # contacts of a gap that one code holds
NOTHING = -2


@dataclass(frozen=True, eq=False)
class Kinds:
    """The gaps of n people by kind. Gaps with the same ends and contacts are of a kind."""

    kind_of: Ints  # [n + 1] entries kind_of[i] .. kind_of[i + 1] - 1 are those of person i
    kind: Ints  # [e] from 0 on, each at most once a person
    count: Floats  # [e] how often the person has it
    example: Ints  # a gap of each kind


@dataclass(frozen=True, eq=False)
class Histories:
    """What n people's histories say, as counts: all that the likelihood depends on.

    :func:`read_histories` makes one from rows.

    Parameters
    ----------
    moves : ndarray of int64, [n, 2, S, S]
        Moves between two rounds that follow each other, both states known, by action.
    first : ndarray of int64, [n]
        The first state; NOTHING if there is none or the history begins with a gap.
    gap_of : ndarray of int64, [n + 1]
        Gaps ``gap_of[i]`` to ``gap_of[i + 1] - 1`` are those of person i.
    gap_first, gap_last : ndarray of int64, [g]
        The states before and after each gap; -1 if none was seen.
    act_of : ndarray of int64, [g + 1]
        Entries ``act_of[j]`` to ``act_of[j + 1] - 1`` of ``acts`` are those of gap j.
    acts : ndarray of int64
        Contacts from the round of a gap's first state to that before its last; -1 if not known.
    seen : ndarray of int64, [n, S]
        Rounds in which that state was seen.
    missed : ndarray of int64, [n]
        Rounds between a person's first and last entry without a state.
    contacts : ndarray of int64, [n, 2]
        Rounds without and with a contact.
    """

    moves: Ints  # [n, 2, S, S]
    first: Ints  # [n]
    gap_of: Ints  # [n + 1]
    gap_first: Ints  # [g]
    gap_last: Ints  # [g]
    act_of: Ints  # [g + 1]
    acts: Ints
    seen: Ints  # [n, S]
    missed: Ints  # [n]
    contacts: Ints  # [n, 2]

    @property
    def n(self) -> int:
        """How many people there are."""
        return len(self.moves)

    @property
    def S(self) -> int:
        """How many states there are."""
        return int(self.moves.shape[2])

    @classmethod
    def of_moves(cls, moves: Ints) -> Histories:
        """Histories of which nothing but the moves is known."""
        n, _, S, _ = moves.shape
        none = np.zeros(0, np.int64)
        return cls(
            moves=moves,
            first=np.full(n, NOTHING),
            gap_of=np.zeros(n + 1, np.int64),
            gap_first=none,
            gap_last=none,
            act_of=np.zeros(1, np.int64),
            acts=none,
            seen=np.zeros((n, S), np.int64),
            missed=np.zeros(n, np.int64),
            contacts=moves.sum(axis=(2, 3)),
        )

    @classmethod
    def of_rounds(cls, i: Ints, r: Ints, s: Ints, a: Ints, moves: Ints) -> Histories:
        """Histories of sorted columns person, round, state and contact; -1: not known."""
        n, S = moves.shape[0], moves.shape[2]
        seen = np.bincount(i[s >= 0] * S + s[s >= 0], minlength=n * S).reshape(n, S)
        # Somebody of whom no state was ever seen says nothing.
        told = seen.sum(axis=1)[i] > 0
        i, r, s, a = i[told], r[told], s[told], a[told]
        begins = np.flatnonzero(np.diff(i, prepend=-1))  # the first entry of each person
        ends = np.append(begins[1:], len(i)) - 1 if len(i) else begins
        first = np.full(n, NOTHING)
        first[i[begins]] = np.where(s[begins] >= 0, s[begins], NOTHING)
        low, high = _gaps(i, r, s, a, begins, ends)
        length = np.minimum(r[high] - r[low], LONGEST_GAP)  # moves within the gap
        act_of = np.concatenate([[0], np.cumsum(length)])
        gap = np.repeat(np.arange(len(low)), length)
        round_of = (r[high] - length)[gap] + np.arange(len(gap)) - act_of[gap]
        base = int(r.max(initial=0)) + 1
        key, wanted = i * base + r, i[low][gap] * base + round_of
        place = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
        span = np.zeros(n, np.int64)
        span[i[begins]] = r[ends] - r[begins] + 1
        known = a >= 0
        return cls(
            moves=moves,
            first=first,
            gap_of=np.searchsorted(i[low], np.arange(n + 1)),
            gap_first=s[low],
            gap_last=s[high],
            act_of=act_of,
            acts=np.where(key[place] == wanted, a[place], -1),
            seen=seen,
            missed=span - seen.sum(axis=1),
            contacts=np.bincount(i[known] * 2 + a[known], minlength=2 * n).reshape(n, 2),
        )

    @classmethod
    def joined(cls, parts: Sequence[Histories]) -> Histories:
        """The histories of some people, then of others."""

        def ends(name: str) -> Ints:
            sizes = (np.diff(getattr(part, name)) for part in parts)
            return np.concatenate([[0], np.cumsum(np.concatenate([*sizes]))])

        counted = {
            one.name: ends(one.name)
            if one.name.endswith("_of")
            else np.concatenate([getattr(part, one.name) for part in parts])
            for one in fields(cls)
        }
        return cls(**counted)

    @cached_property
    def kinds(self) -> Kinds:
        """The gaps of each person, counted by their kind."""
        g, owner = len(self.gap_first), np.repeat(np.arange(self.n), np.diff(self.gap_of))
        length = np.diff(self.act_of)
        gap = np.repeat(np.arange(g), length)
        t = np.arange(len(gap)) - self.act_of[gap]
        code = self.gap_first * (self.S + 1) + self.gap_last
        code = _together(code, length)
        for low in range(0, LONGEST_GAP, DIGITS):  # sums below 3^30 are exact
            inside = (t >= low) & (t < low + DIGITS)
            digits = (self.acts[inside] + 1) * 3.0 ** (t[inside] - low)
            code = _together(code, np.bincount(gap[inside], digits, minlength=g).astype(np.int64))
        _, example, kind = np.unique(code, return_index=True, return_inverse=True)
        entry, count = np.unique(owner * max(len(example), 1) + kind, return_counts=True)
        person, of_person = np.divmod(entry, max(len(example), 1))
        return Kinds(
            kind_of=np.searchsorted(person, np.arange(self.n + 1)),
            kind=of_person,
            count=count.astype(np.float64),
            example=example,
        )

    def kernel_data(self) -> tuple[Any, ...]:
        """What the kernels take."""
        kinds, length = self.kinds, np.diff(self.act_of)[self.kinds.example]
        return (
            self.moves.astype(np.float64),
            self.first,
            kinds.kind_of,
            kinds.kind,
            kinds.count,
            self.gap_first[kinds.example],
            self.gap_last[kinds.example],
            np.concatenate([[0], np.cumsum(length)]),
            self.acts[_ranges(self.act_of[kinds.example], length)],
        )

    @property
    def longest(self) -> int:
        """The most moves within a gap."""
        return int(np.diff(self.act_of).max(initial=0))

    def take(self, who: Ints) -> Histories:
        """The histories of these people, in this order."""
        number = np.diff(self.gap_of)[who]
        gap_of = np.concatenate([[0], np.cumsum(number)])
        gaps = _ranges(self.gap_of[who], number)
        length = np.diff(self.act_of)[gaps]
        return Histories(
            moves=self.moves[who],
            first=self.first[who],
            gap_of=gap_of,
            gap_first=self.gap_first[gaps],
            gap_last=self.gap_last[gaps],
            act_of=np.concatenate([[0], np.cumsum(length)]),
            acts=self.acts[_ranges(self.act_of[gaps], length)],
            seen=self.seen[who],
            missed=self.missed[who],
            contacts=self.contacts[who],
        )

    def distinct(self, X: Floats) -> tuple[Ints, Ints]:
        """One person of each kind, sorted by X [n, c], and the kind of each person [n].

        People of a kind have the same numbers X and the same history as far as it matters.
        """
        n, kinds = self.n, self.kinds
        of_gaps = np.full(n, b"", dtype=object)
        pairs = np.stack([kinds.kind, kinds.count.astype(np.int64)], axis=1)
        for i in np.flatnonzero(np.diff(kinds.kind_of)):
            of_gaps[i] = pairs[kinds.kind_of[i] : kinds.kind_of[i + 1]].tobytes()
        _, gaps = np.unique(of_gaps, return_inverse=True)
        rest = (X, self.moves.reshape(n, -1), self.first[:, None], self.seen, gaps[:, None])
        table = np.concatenate(rest, axis=1, dtype=np.float64)
        _, example, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return example, kind.reshape(-1)


def _gaps(i: Ints, r: Ints, s: Ints, a: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The first and last entry of every gap, sorted.

    A gap lies between a known state and the next one that is not reached by a single known action,
    before the first known state of a person, or after the last.
    """
    known = np.flatnonzero(s >= 0)
    before, after = known[:-1], known[1:]
    apart = (i[before] == i[after]) & ((r[after] > r[before] + 1) | (a[before] < 0))
    heads, tails = begins[s[begins] < 0], ends[s[ends] < 0]
    low = np.concatenate([heads, before[apart], known[np.searchsorted(known, tails) - 1]])
    high = np.concatenate([known[np.searchsorted(known, heads)], after[apart], tails])
    order = np.lexsort((high, low))
    return low[order], high[order]


def _together(code: Ints, other: Ints) -> Ints:
    """A code from 0 on for each pair of codes."""
    _, one = np.unique(code, return_inverse=True)
    values, two = np.unique(other, return_inverse=True)
    return one * max(len(values), 1) + two


def _ranges(start: Ints, length: Ints) -> Ints:
    """start[0] ... start[0] + length[0] - 1, then those of the next, in one array."""
    ends = np.cumsum(length)
    return np.repeat(start - np.concatenate([[0], ends[:-1]]), length) + np.arange(
        ends[-1] if len(ends) else 0
    )
