"""A test on held-out rounds of whether a longer memory predicts better.

The history without its last rounds is fitted twice, with and without the memory. Each fit gives a
chance to every move in the held-out rounds. The gain of the memory is the mean over these moves of

    log(chance with memory) - log(chance without).

Given the two fits, people are independent, so that the differences between people give the standard
error of the mean. With D_i the sum over the m_i moves of person i, and g = sum D / sum m,

    Var g = n / (n - 1) sum_i (D_i - g m_i)^2 / (sum_i m_i)^2,

and the interval is Student's with n - 1 degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidInput
from .border import Floats, Ints
from .contexts import Contexts, Memory
from .estimation import estimate
from .histories import Histories, moves_at
from .result import Interval
from .transitions import checked_columns

__all__ = ["Foresight", "foresight_of"]

HELD_OUT = 0.2  # share of the rounds that are held out; at least one round
MOST_COMPARED = 3000  # people for whom the two fits are compared; a random sample if there are more
LEVEL = 0.95  # of the interval


@dataclass(frozen=True)
class Foresight:
    """How much better held-out rounds are predicted with a memory than without.

    Parameters
    ----------
    memory : Memory
        The memory that was tested.
    gain : Interval
        Mean over the held-out moves of log(chance with memory) - log(chance without), and its 95 %
        interval.
    moves, people : int
        Number of held-out moves, and of people who made them.
    first : int
        The round from which the first held-out moves are made.
    """

    memory: Memory
    gain: Interval
    moves: int
    people: int
    first: int

    @property
    def better(self) -> bool:
        """Whether the whole interval of the gain is above 0."""
        return self.gain.low > 0


def foresight_of(
    person: ArrayLike,
    rounds: ArrayLike,
    state: ArrayLike,
    contacted: ArrayLike,
    n: int,
    S: int,
    memory: str,
    columns: Mapping[str, ArrayLike] | None = None,
) -> Foresight:
    """Test a memory on the last rounds of a history, which are held out.

    Parameters
    ----------
    person, rounds, state, contacted, n, S
        As for :func:`count_transitions`.
    memory : {"2", "contact"}
        The memory, see :func:`read_histories`.
    columns : mapping of str to array_like, [n], optional
        As for :func:`estimate`.

    Returns
    -------
    Foresight
        The gain, with its interval.

    Raises
    ------
    InvalidInput
        As for :func:`count_transitions`, or if the history is too short.
    """
    i, r, s, a = checked_columns(person, rounds, state, contacted, n, S)
    contexts = Contexts(S, Memory.given(memory))
    distinct = np.unique(r)
    held_out = max(1, int(HELD_OUT * len(distinct)))
    if len(distinct) <= held_out + 1:
        raise _too_short(contexts.memory)
    first = int(distinct[-held_out - 1])
    context = contexts.of_rows(i, r, s, a)
    at = moves_at(i, r, s, a, context)
    at = at[r[at] >= first]  # the entries from which held-out moves are made
    who = np.unique(i[at])
    if len(who) > MOST_COMPARED:
        who = np.sort(np.random.default_rng(0).choice(who, MOST_COMPARED, replace=False))
        at = at[np.isin(i[at], who)]
    earlier = np.flatnonzero((r <= first) & np.isin(i, who))
    before = np.searchsorted(who, i[earlier]), r[earlier], s[earlier], a[earlier]
    histories = [Histories.of_rounds(*before, len(who), kept) for kept in (contexts, Contexts(S))]
    if len(who) < 2 or not histories[0].moves.any():
        raise _too_short(contexts.memory)
    known = {name: np.asarray(values)[who] for name, values in (columns or {}).items()}
    longer, plain = (estimate(history, columns=known).P for history in histories)
    j, later = np.searchsorted(who, i[at]), s[at + 1]
    log_ratio = np.log(longer[j, a[at], context[at], later]) - np.log(plain[j, a[at], s[at], later])
    total: Floats = np.bincount(j, log_ratio, len(who)).astype(np.float64)
    gain = _mean(total, np.bincount(j, minlength=len(who)))
    return Foresight(contexts.memory, gain, len(at), len(who), first)


def _too_short(memory: Memory) -> InvalidInput:
    """The error for a history in which nothing can be held out."""
    return InvalidInput(
        f"the history is too short for the memory {memory}: it takes at least two people whose "
        "states and contacts are known in four rounds one after the other; leave it out"
    )


def _mean(total: Floats, moves: Ints) -> Interval:
    """The mean over moves and its interval, from totals and numbers of moves of people [n]."""
    from scipy.special import stdtrit

    n, m = len(total), float(moves.sum())
    mean = float(total.sum()) / m
    error = math.sqrt(n / (n - 1) * float(((total - mean * moves) ** 2).sum())) / m
    half = error * float(stdtrit(n - 1, (1 + LEVEL) / 2))
    return Interval(mean, mean - half, mean + half)
