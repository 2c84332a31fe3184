"""Observations of a file that are new, or differ from what is known.

Entries that repeat what is known are not stored again. An entry that differs from what is known
supersedes the earlier entry, which is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import schema
from .bulk import UNKNOWN, append, taken
from .store import Connection
from .tracks import (
    ABSENT,
    PEOPLE_AT_ONCE,
    ROWS_AT_ONCE,
    History,
    Observations,
    follow,
    load_history,
)

__all__ = ["News", "news_of"]

Floats = NDArray[np.float64]
Ints = NDArray[Any]  # whole numbers


@dataclass(frozen=True, eq=False)
class News:
    """Observations that are new or differ from what is known."""

    who: Ints  # [m] numbers of the people in a file, ascending
    entries: History  # of these people, in this order
    corrected: int  # of these entries, how many contradict what was known
    value: Floats | None = None  # values that states were made of [R, m]; nan: none

    @cached_property
    def stored(self) -> int:
        """How many observations there are."""
        return self.entries.entries

    @property
    def added(self) -> int:
        """How many observations do not contradict what was known."""
        return self.stored - self.corrected

    def append(self, connection: Connection, batch: int) -> None:
        """Write the observations as part of a batch."""
        rows, values = self._rows()
        columns: dict[str, Any] = {
            "person": rows.person,
            "round": rows.round,
            "batch": np.broadcast_to(np.int32(batch), self.stored),
            "state": rows.state,
            "contacted": rows.contacted,
        }
        if values is not None:
            columns["value"] = values
        follow(connection, rows)
        append(connection, schema.observation, columns, "history")

    def _rows(self) -> tuple[Observations, Floats | None]:
        """All entries, in small numbers as there may be millions, and their values [stored]."""
        kinds = (np.int32, np.int32, self.entries.state.dtype, np.int8)
        rows = Observations(*(np.empty(self.stored, kind) for kind in kinds))
        values = None if self.value is None else np.empty(self.stored)
        end = 0
        for number, some in enumerate(self.entries.blocks()):
            begin, end = end, end + len(some.person)
            person = some.person + number * PEOPLE_AT_ONCE
            for column, part in zip(rows, (self.who[person], *some[1:]), strict=True):
                column[begin:end] = part
            if values is not None and self.value is not None:
                place = np.searchsorted(self.entries.rounds, some.round)
                values[begin:end] = self.value[place, person]
        return rows, values


def news_of(
    connection: Connection,
    person: Ints,
    rounds: Ints,
    state: Ints,
    contacted: Ints,
    value: Floats | None = None,
) -> News:
    """Which of these observations [m], at most one a person and round, are not known already.

    An observation is not news if its value makes the state that is already known.
    """
    n = int(person.max(initial=-1)) + 1
    named = np.zeros(n, bool)
    for first in range(0, len(person), ROWS_AT_ONCE):
        named[person[first : first + ROWS_AT_ONCE]] = True
    who, place = np.flatnonzero(named), (np.cumsum(named) - 1).astype(np.int32)
    entries = History.of_rows(taken(place, person), rounds, state, contacted, len(who))
    if not len(who):
        return News(who, entries, 0)
    before = load_history(connection, int(entries.rounds[0]), int(entries.rounds[-1]))
    corrected = 0
    for at, *reported in zip(
        entries.rounds.tolist(), entries.state, entries.contacted, strict=True
    ):
        there = reported[0] > ABSENT
        known = [row[who] for row in before.row(at, max(n, before.n))]
        other = [
            (entry >= 0) & (entry != known_entry)
            for entry, known_entry in zip(reported, known, strict=True)
        ]
        new = (known[0] == ABSENT) | other[0] | other[1]
        against = (other[0] & (known[0] >= 0)) | (other[1] & (known[1] >= 0))
        corrected += int(np.count_nonzero(against & there))
        reported[0][~new], reported[1][~new] = ABSENT, UNKNOWN  # this changes `entries` itself
    values = None
    if value is not None:
        values = np.full(entries.state.shape, np.nan)
        values[np.searchsorted(entries.rounds, rounds), place[person]] = value
    return News(who, entries, corrected, values)
