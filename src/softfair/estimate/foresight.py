"""Whether a longer memory foretells better: tried on rounds that were held out.

The history without its last rounds is fitted twice, with and without the memory. Each fit gives
every move of the rounds that were left out a chance. The memory gains by the mean over moves of

    log(chance with memory) - log(chance without),

summed person by person. Given the two fits people are independent, so that the differences between
people tell how sure the mean is: with D_i the sum of person i's m_i moves and g = sum D / sum m,

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

HELD_OUT = 0.2  # share of the rounds that are left out, at least one
MOST_COMPARED = 3000  # people of whom the two fits are compared, drawn at random from more
LEVEL = 0.95  # of the interval


@dataclass(frozen=True)
class Foresight:
    """How much better the rounds that were held out are foretold with a memory.

    Parameters
    ----------
    memory : Memory
        Which was tried.
    gain : Interval
        Mean over moves of the log of the chance given to what came, more than without memory; with
        its 95 % interval.
    moves, people : int
        Moves held out, and people who made them.
    first : int
        The first round that was held out.
    """

    memory: Memory
    gain: Interval
    moves: int
    people: int
    first: int

    @property
    def better(self) -> bool:
        """Whether the interval says that the memory gains."""
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
    """Try a memory on the last rounds of a history, which are held out.

    Parameters
    ----------
    person, rounds, state, contacted, n, S
        As for :func:`count_transitions`.
    memory : {"2", "contact"}
        Which memory, see :func:`read_histories`.
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
    different = np.unique(r)
    held_out = max(1, int(HELD_OUT * len(different)))
    if len(different) <= held_out + 1:
        raise _too_short(contexts.memory)
    first = int(different[-held_out - 1])
    context = contexts.of_rows(i, r, s, a)
    at = moves_at(i, r, s, a, context)
    at = at[r[at] >= first]  # the entries from which held-out moves are made
    who = np.unique(i[at])
    if len(who) > MOST_COMPARED:
        who = np.sort(np.random.default_rng(0).choice(who, MOST_COMPARED, replace=False))
        at = at[np.isin(i[at], who)]
    earlier = np.flatnonzero((r <= first) & np.isin(i, who))
    before = np.searchsorted(who, i[earlier]), r[earlier], s[earlier], a[earlier]
    read = [Histories.of_rounds(*before, len(who), one) for one in (contexts, Contexts(S))]
    if len(who) < 2 or not read[0].moves.any():
        raise _too_short(contexts.memory)
    known = {name: np.asarray(values)[who] for name, values in (columns or {}).items()}
    longer, plain = (estimate(one, columns=known).P for one in read)
    j, then = np.searchsorted(who, i[at]), s[at + 1]
    told = np.log(longer[j, a[at], context[at], then]) - np.log(plain[j, a[at], s[at], then])
    total: Floats = np.bincount(j, told, len(who)).astype(np.float64)
    gain = _mean(total, np.bincount(j, minlength=len(who)))
    return Foresight(contexts.memory, gain, len(at), len(who), first)


def _too_short(memory: Memory) -> InvalidInput:
    """What is said of a history in which nothing can be held out."""
    return InvalidInput(
        f"the history is too short for the memory {memory}: it takes at least two people whose "
        "states and contacts are known in four rounds one after the other; leave it out"
    )


def _mean(total: Floats, moves: Ints) -> Interval:
    """Mean of a move and its interval, from totals and numbers of moves of people [n]."""
    from scipy.special import stdtrit

    n, m = len(total), float(moves.sum())
    mean = float(total.sum()) / m
    error = math.sqrt(n / (n - 1) * float(((total - mean * moves) ** 2).sum())) / m
    half = error * float(stdtrit(n - 1, (1 + LEVEL) / 2))
    return Interval(mean, mean - half, mean + half)
