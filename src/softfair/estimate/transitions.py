"""From rows of a history to the moves of each person, and to the histories of the estimate."""

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
        Index of the person, 0 to n - 1. The four columns have one entry for each person and round,
        and are sorted by (person, round).
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
        ``counts[i, a, s, s2]`` is the number of moves of person i from s to s2 in the round after
        action a.

    Raises
    ------
    InvalidInput
        If the columns differ in length, are not sorted, or have an entry out of range.

    Notes
    -----
    A move counts if rounds r and r + 1 both have entries, both states are known and the contact at
    r is known. A missing state is left out; it does not count as the bad state.

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
    """Read the history of each person: moves, first states, and gaps.

    Parameters
    ----------
    person, rounds, state, contacted, n, S
        As for :func:`count_transitions`.
    memory : {"none", "2", "contact"}
        What transition probabilities depend on besides the state: nothing, the state before, or
        whether there was a contact in the round before.

    Returns
    -------
    Histories
        The input of :func:`estimate`.

    Raises
    ------
    InvalidInput
        As for :func:`count_transitions`.

    Notes
    -----
    If a person has no entry for a round between two entries, the state and the contact in that
    round count as unknown.

    Examples
    --------
    >>> import softfair.estimate
    >>> columns = [0, 0, 0], [1, 2, 4], [0, 1, 1], [1, 0, 0]
    >>> histories = softfair.estimate.read_histories(*columns, n=1, S=2)
    >>> int(histories.moves.sum()), int(histories.first[0]), histories.acts.tolist()
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
