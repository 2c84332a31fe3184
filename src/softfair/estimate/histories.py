"""Histories in the form that the likelihood needs: moves, first contexts and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .border import Floats, Ints
from .contexts import Contexts

__all__ = ["LONGEST_GAP", "Histories", "moves_at", "moves_of"]

#: Of a longer gap, only the last so many rounds count. The state before the gap hardly matters
#: then, for anybody who leaves each state about once in twelve rounds. With memory, a gap may
#: contain states; those in the part that is cut off are not used.
LONGEST_GAP = 60
NOTHING = -2  # in place of a first context: there is none, or the history begins with a gap
EXACT = 2**47  # whole numbers below are exact as floats, and so are sums of such numbers


@dataclass(frozen=True, eq=False)
class Kinds:
    """The gaps of n people by kind: a kind has the same first context, states and contacts."""

    kind_of: Ints  # [n + 1] entries kind_of[i] .. kind_of[i + 1] - 1 are those of person i
    kind: Ints  # [e] kinds from 0 on, each at most once for a person
    count: Floats  # [e] the number of gaps of that kind that the person has
    example: Ints  # the number of one gap of each kind


@dataclass(frozen=True, eq=False)
class Histories:
    """The histories of n people as the counts on which the likelihood depends.

    :func:`read_histories` makes them from rows.

    Parameters
    ----------
    moves : ndarray of int64, [n, 2, C, S]
        Moves between two successive rounds, from a known context to a known state, by action.
        Without memory a context is a state, and C = S.
    first : ndarray of int64, [n]
        The first context; NOTHING if there is none or the history begins with a gap.
    gap_of : ndarray of int64, [n + 1]
        Gaps ``gap_of[i]`` to ``gap_of[i + 1] - 1`` are those of person i.
    gap_first : ndarray of int64, [g]
        The context before each gap; -1 if it is not known.
    act_of : ndarray of int64, [g + 1]
        Entries ``act_of[j]`` to ``act_of[j + 1] - 1`` of ``acts`` are those of gap j.
    acts : ndarray of int64
        Contacts in each round of a gap but the last; -1 if not known.
    sees : ndarray of int64
        States in each round of a gap, both ends included, so one more than ``acts``; -1 if not
        seen.
    seen : ndarray of int64, [n, S]
        Rounds in which each state was seen.
    missed : ndarray of int64, [n]
        Rounds between a person's first and last entry without a state.
    contacts : ndarray of int64, [n, 2]
        Rounds without and with a contact.
    contexts : Contexts
        The contexts on which transition probabilities depend.
    """

    moves: Ints  # [n, 2, C, S]
    first: Ints  # [n]
    gap_of: Ints  # [n + 1]
    gap_first: Ints  # [g]
    act_of: Ints  # [g + 1]
    acts: Ints
    sees: Ints
    seen: Ints  # [n, S]
    missed: Ints  # [n]
    contacts: Ints  # [n, 2]
    contexts: Contexts

    @property
    def n(self) -> int:
        """The number of people."""
        return len(self.moves)

    @property
    def S(self) -> int:
        """The number of states."""
        return self.contexts.S

    @property
    def gap_last(self) -> Ints:
        """The state at the end of each gap [g]; -1 if none was seen."""
        return np.asarray(self.sees[self.act_of[1:] + np.arange(len(self.gap_first))])

    @classmethod
    def of_moves(cls, moves: Ints) -> Histories:
        """Histories of which only the moves are known."""
        n, _, S, _ = moves.shape
        none = np.zeros(0, np.int64)
        return cls(
            moves=moves,
            first=np.full(n, NOTHING),
            gap_of=np.zeros(n + 1, np.int64),
            gap_first=none,
            act_of=np.zeros(1, np.int64),
            acts=none,
            sees=none,
            seen=np.zeros((n, S), np.int64),
            missed=np.zeros(n, np.int64),
            contacts=moves.sum(axis=(2, 3)),
            contexts=Contexts(S),
        )

    @classmethod
    def of_rounds(cls, i: Ints, r: Ints, s: Ints, a: Ints, n: int, contexts: Contexts) -> Histories:
        """Histories of sorted columns person, round, state and contact; -1: not known."""
        S = contexts.S
        seen = np.bincount(i[s >= 0] * S + s[s >= 0], minlength=n * S).reshape(n, S)
        # People without any recorded state carry no information.
        informative = seen.sum(axis=1)[i] > 0
        i, r, s, a = i[informative], r[informative], s[informative], a[informative]
        c = contexts.of_rows(i, r, s, a)
        begins = np.flatnonzero(np.diff(i, prepend=-1))  # the first entry of each person
        ends = np.append(begins[1:], len(i)) - 1 if len(i) else begins
        first = np.full(n, NOTHING)
        first[i[begins]] = np.where(c[begins] >= 0, c[begins], NOTHING)
        low, high = _gaps(i, r, c, a, begins, ends)
        length = np.minimum(r[high] - r[low], LONGEST_GAP)  # moves within the gap
        act_of = np.concatenate([[0], np.cumsum(length)])
        begin = np.maximum(r[low], r[high] - LONGEST_GAP)  # the first round of the part that counts
        rounds = _ranges(begin, length + 1)  # both ends included
        base = int(r.max(initial=0)) + 1
        key, gap_key = i * base + r, np.repeat(i[low], length + 1) * base + rounds
        place = np.minimum(np.searchsorted(key, gap_key), max(len(key) - 1, 0))
        has_entry = key[place] == gap_key
        is_last = np.zeros(len(rounds), bool)
        is_last[act_of[1:] + np.arange(len(low))] = True
        span = np.zeros(n, np.int64)
        span[i[begins]] = r[ends] - r[begins] + 1
        known = a >= 0
        return cls(
            moves=moves_of(i, r, s, a, c, n, contexts),
            first=first,
            gap_of=np.searchsorted(i[low], np.arange(n + 1)),
            gap_first=c[low],
            act_of=act_of,
            acts=np.where(has_entry, a[place], -1)[~is_last],
            sees=np.where(has_entry, s[place], -1),
            seen=seen,
            missed=span - seen.sum(axis=1),
            contacts=np.bincount(i[known] * 2 + a[known], minlength=2 * n).reshape(n, 2),
            contexts=contexts,
        )

    @classmethod
    def joined(cls, parts: Sequence[Histories]) -> Histories:
        """The histories of several sets of people, one set after the other."""

        def ends(name: str) -> Ints:
            sizes = (np.diff(getattr(part, name)) for part in parts)
            return np.concatenate([[0], np.cumsum(np.concatenate([*sizes]))])

        arrays = {
            field.name: ends(field.name)
            if field.name.endswith("_of")
            else np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)
            if field.name != "contexts"
        }
        return cls(**arrays, contexts=parts[0].contexts)

    @cached_property
    def kinds(self) -> Kinds:
        """The gaps of each person, counted by kind."""
        owner = np.repeat(np.arange(self.n), np.diff(self.gap_of))
        length = np.diff(self.act_of)
        code = self.gap_first * (self.S + 1) + self.gap_last
        code = _together(code, length)
        code = _with_digits(code, self.acts + 1, length, 3)
        code = _with_digits(code, self.sees + 1, length + 1, self.S + 1)
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
        """The arrays that kernels call ``data``."""
        kinds, length = self.kinds, np.diff(self.act_of)[self.kinds.example]
        begin = self.act_of[kinds.example]
        return (
            self.moves.astype(np.float64),
            self.first,
            kinds.kind_of,
            kinds.kind,
            kinds.count,
            self.gap_first[kinds.example],
            np.concatenate([[0], np.cumsum(length)]),
            self.acts[_ranges(begin, length)],
            self.sees[_ranges(begin + kinds.example, length + 1)],
            self.contexts.after,
        )

    @property
    def longest(self) -> int:
        """The largest number of moves within a gap."""
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
            act_of=np.concatenate([[0], np.cumsum(length)]),
            acts=self.acts[_ranges(self.act_of[gaps], length)],
            sees=self.sees[_ranges(self.act_of[gaps] + gaps, length + 1)],
            seen=self.seen[who],
            missed=self.missed[who],
            contacts=self.contacts[who],
            contexts=self.contexts,
        )

    def distinct(self, X: Floats) -> tuple[Ints, Ints]:
        """One person of each kind, sorted by X [n, c], and the kind of each person [n].

        People of a kind have the same numbers X and histories of the same likelihood.
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


def _gaps(i: Ints, r: Ints, c: Ints, a: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The first and last entry of every gap, sorted.

    A gap lies between a known context and the next known context if more than one round, or a
    round of unknown action, separates them. There is also a gap before the first known context of a
    person, and after the last, if the person has entries there.
    """
    known = np.flatnonzero(c >= 0)
    before, after = known[:-1], known[1:]
    apart = (i[before] == i[after]) & ((r[after] > r[before] + 1) | (a[before] < 0))
    never = ~np.isin(i[begins], i[known])  # a gap from the first entry to the last
    heads, tails = begins[(c[begins] < 0) & ~never], ends[(c[ends] < 0) & ~never]
    low = [heads, before[apart], known[np.searchsorted(known, tails) - 1], begins[never]]
    high = [known[np.searchsorted(known, heads)], after[apart], tails, ends[never]]
    pairs = np.concatenate(low), np.concatenate(high)
    order = np.lexsort(pairs[::-1])
    return pairs[0][order], pairs[1][order]


def moves_at(i: Ints, r: Ints, s: Ints, a: Ints, c: Ints) -> Ints:
    """The entries with known context and contact whose next round has an entry with known state."""
    next_round = (i[1:] == i[:-1]) & (r[1:] == r[:-1] + 1)
    return np.flatnonzero(next_round & (c[:-1] >= 0) & (s[1:] >= 0) & (a[:-1] >= 0))


def moves_of(i: Ints, r: Ints, s: Ints, a: Ints, c: Ints, n: int, contexts: Contexts) -> Ints:
    """The number of moves of each person [n, 2, C, S], see `moves_at`."""
    C, S = contexts.C, contexts.S
    first = moves_at(i, r, s, a, c)
    cell = ((i[first] * 2 + a[first]) * C + c[first]) * S + s[first + 1]
    return np.bincount(cell, minlength=n * 2 * C * S).reshape(n, 2, C, S)


def _with_digits(code: Ints, digits: Ints, length: Ints, base: int) -> Ints:
    """A code for each pair of a code and a word of ``length`` digits, below LONGEST_GAP + 2.

    The words stand one after the other in ``digits``; a digit is between 0 and base - 1.
    """
    g, at_once = len(code), int(np.log(EXACT) / np.log(base))
    word = np.repeat(np.arange(g), length)
    t = _ranges(np.zeros(g, np.int64), length)
    for low in range(0, LONGEST_GAP + 1, at_once):
        inside = (t >= low) & (t < low + at_once)
        values = digits[inside] * float(base) ** (t[inside] - low)
        code = _together(code, np.bincount(word[inside], values, minlength=g).astype(np.int64))
    return code


def _together(code: Ints, other: Ints) -> Ints:
    """A code from 0 on for each pair of codes."""
    _, rank = np.unique(code, return_inverse=True)
    values, other_rank = np.unique(other, return_inverse=True)
    return rank * max(len(values), 1) + other_rank


def _ranges(start: Ints, length: Ints) -> Ints:
    """The ranges start[j] ... start[j] + length[j] - 1 for all j, one after another."""
    ends = np.cumsum(length)
    return np.repeat(start - np.concatenate([[0], ends[:-1]]), length) + np.arange(
        ends[-1] if len(ends) else 0
    )
