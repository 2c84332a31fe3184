"""Reading a history of rounds: the moves of each person, and all that the estimate needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidInput, refuse, whole
from .border import Ints, whole_column
from .contexts import Contexts, Memory
from .histories import Histories, moves_of

__all__ = ["checked_columns", "count_transitions", "read_histories"]

MISSING = -1  # a state or contact that was not recorded


def count_transitions(
    person: ArrayLike, rounds: ArrayLike, state: ArrayLike, contacted: ArrayLike, n: int, S: int
) -> Ints:
    """Count the moves of each person from state to state, by action.

    Parameters
    ----------
    person : array_like of int, [m]
        Index of the person, 0 to n - 1. The four columns have one entry a person and round, and
        are sorted by (person, round).
    rounds : array_like of int, [m]
        Number of the round.
    state : array_like of int, [m]
        State in that round, 0 to S - 1, or -1 where it is missing.
    contacted : array_like of int, [m]
        1 if the person was contacted in that round, 0 if not, -1 where it is missing.
    n : int
        Number of persons.
    S : int
        Number of states, at least 2.

    Returns
    -------
    ndarray of int64, [n, 2, S, S]
        ``counts[i, a, s, s2]`` is how often person i moved from s to s2 in the round after
        action a.

    Raises
    ------
    InvalidInput
        If the columns differ in length, are not sorted, or have an entry out of range.

    Notes
    -----
    A move counts if rounds r and r + 1 are both there, both states are known and the contact at r
    is known. Whatever is missing is left out. It is not taken for the bad state.

    Examples
    --------
    >>> import softfair.estimate
    >>> softfair.estimate.count_transitions(
    ...     person=[0, 0, 0, 0],
    ...     rounds=[1, 2, 3, 5],
    ...     state=[0, 1, 1, 0],
    ...     contacted=[1, 0, 0, 0],
    ...     n=1,
    ...     S=2,
    ... )[0].tolist()
    [[[0, 0], [0, 1]], [[0, 1], [0, 0]]]
    """
    i, r, s, a = checked_columns(person, rounds, state, contacted, n, S)
    return moves_of(i, r, s, a, s, n, Contexts(S))


def read_histories(
    person: ArrayLike,
    rounds: ArrayLike,
    state: ArrayLike,
    contacted: ArrayLike,
    n: int,
    S: int,
    memory: str = Memory.NONE,
) -> Histories:
    """Read what the history of each person says: moves, first states, and gaps to be bridged.

    Parameters
    ----------
    person, rounds, state, contacted, n, S
        As for :func:`count_transitions`.
    memory : {"none", "2", "contact"}
        What chances go by beside the state: nothing, the state before it, or whether there was a
        contact in the round before.

    Returns
    -------
    Histories
        What :func:`estimate` learns from.

    Raises
    ------
    InvalidInput
        As for :func:`count_transitions`.

    Notes
    -----
    A round between two entries of a person that has no entry is a round without a state, in which
    it is not known whether there was a contact.

    Examples
    --------
    >>> import softfair.estimate
    >>> columns = [0, 0, 0], [1, 2, 4], [0, 1, 1], [1, 0, 0]
    >>> read = softfair.estimate.read_histories(*columns, n=1, S=2)
    >>> int(read.moves.sum()), int(read.first[0]), read.acts.tolist()
    (1, 0, [0, -1])
    """
    columns = checked_columns(person, rounds, state, contacted, n, S)
    return Histories.of_rounds(*columns, n, Contexts(S, Memory.given(memory)))


def checked_columns(
    person: ArrayLike, rounds: ArrayLike, state: ArrayLike, contacted: ArrayLike, n: int, S: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """The four columns of whole numbers, sorted and in range."""
    n, S = whole("n", n, 1), whole("S", S, 2)
    i, r = whole_column("person", person), whole_column("rounds", rounds)
    s, a = whole_column("state", state), whole_column("contacted", contacted)
    for name, column in (("rounds", r), ("state", s), ("contacted", a)):
        if column.shape != i.shape:
            raise InvalidInput(
                f"{name} has shape {column.shape}, person has {i.shape}; "
                "give one entry a person and round"
            )
    persons = f"there are {n} persons: give indices from 0 to {n - 1}"
    refuse((i < 0) | (i >= n), i, "person", persons)
    states = f"give states from 0 to {S - 1}, or -1 where it is missing"
    refuse((s < MISSING) | (s >= S), s, "state", states)
    refuse((a < MISSING) | (a > 1), a, "contacted", "give 0 or 1, or -1 where it is missing")
    unsorted = np.zeros(len(i), np.bool_)
    unsorted[1:] = (i[1:] < i[:-1]) | ((i[1:] == i[:-1]) & (r[1:] <= r[:-1]))
    refuse(unsorted, r, "rounds", "sort rows by (person, round) and keep one row a pair")
    return i, r, s, a
