"""The persons whom the identifiers of a file name, also where they are spelt otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import schema
from .bulk import UNKNOWN, append, taken
from .entries import appearance
from .reading import Table
from .snapshot import People
from .store import Connection

__all__ = ["Matches", "match_people", "reading_notes", "spelling"]

Ints = NDArray[Any]  # whole numbers


@dataclass(frozen=True, eq=False)
class Matches:
    """The persons whom the rows of a file name."""

    person: Ints  # [rows] number; UNKNOWN where there is a fault
    added: Mapping[str, int]  # identifier -> number of each person who is new
    again: Ints  # numbers of people whom only retracted files named
    respelt: int  # how many identifiers were matched though they are spelt otherwise

    def add(self, connection: Connection, batch: int) -> None:
        """Add the people who are new, of whom nothing is known but their identifier."""
        if self.added:
            append(
                connection,
                schema.person,
                {
                    "id": list(self.added.values()),
                    "name": list(self.added),
                    "batch": [batch] * len(self.added),
                },
            )

    def name_again(self, connection: Connection, batch: int) -> None:
        """Bring people back whom only retracted files named, without the facts in those files."""
        if len(self.again):
            many = len(self.again)
            columns = {"batch": [batch] * many, "groups": ["{}"] * many, "opted_out": [0] * many}
            append(connection, schema.person_fact, {"person": self.again, **columns})


def spelling(name: str) -> str:
    """An identifier as a spreadsheet may leave it: without leading zeros and case."""
    plain = appearance(name).casefold().removesuffix(".0")
    plain = re.sub(r"\s+", " ", plain)
    return (plain.lstrip("0") or "0") if plain.isdecimal() else plain


class _Finder:
    """Finds people by identifiers, one after another; who is new gets the next number."""

    def __init__(self, people: People, add: bool) -> None:
        self._add, self._names = add, people.names
        self._number = {name: i for i, name in enumerate(people.names)}
        self._unnamed = set(people.unnamed.tolist())
        self._new: dict[str, str] = {}  # appearance -> identifier of a person who is new
        self.added: dict[str, int] = {}
        self.again: set[int] = set()
        self.respelt = 0

    @cached_property
    def _by_spelling(self) -> dict[str, list[str]]:
        """Known identifiers by their spelling; the index is made when it is first needed."""
        alike: dict[str, list[str]] = {}
        for i, name in enumerate(self._names):
            if i not in self._unnamed:
                alike.setdefault(spelling(name), []).append(name)
        return alike

    def find(self, entry: str) -> int:
        """The number of the person whom an entry names; UNKNOWN if the entry is empty.

        Raises
        ------
        ValueError
            If it names nobody, or may name several; the message says what to do.
        """
        # An exported file has an apostrophe before what a spreadsheet would run as a formula.
        name = entry[1:] if entry not in self._number and entry[:1] == "'" else entry
        person = self._number.get(name, UNKNOWN)
        if person != UNKNOWN and person not in self._unnamed:
            return person
        others = self._by_spelling.get(spelling(name), [])
        if len(others) > 1:
            raise ValueError(
                f"may be any of {len(others)} persons; write it in full, with its zeros"
            )
        if others:
            self.respelt += 1
            return self._number[others[0]]
        if person != UNKNOWN and self._add:
            self.again.add(person)
            return person
        return self._find_new(entry) if entry else UNKNOWN

    def _find_new(self, entry: str) -> int:
        """The number of a person who is not known; each new person gets the next one."""
        if not self._add:
            raise ValueError(
                "is not a person of this programme; "
                "import people first, or add --add-people to history"
            )
        if self._new.setdefault(appearance(entry), entry) != entry:
            raise ValueError(
                "looks the same as another identifier of this file and is not (invisible or wide "
                "letters); write both alike, or so that one can tell them apart"
            )
        self.added[entry] = self._number[entry] = len(self._number)
        return self.added[entry]


def match_people(people: People, table: Table, add: bool) -> Matches:
    """Find the persons whom the rows of a file name.

    An unknown identifier may differ from known ones only in leading zeros, case, spaces or
    invisible characters. If there is one such person, it is matched; if there are several, it is a
    fault. Two new identifiers that look the same are a fault.

    Parameters
    ----------
    people
        Everybody who is known.
    table
        With a column ``id``. An identifier that is not known becomes a fault of the table, unless
        people may be added.
    add
        Whether people who are not known get the next numbers.
    """
    names, codes = table.columns["id"]
    finder, numbers = _Finder(people, add), np.full(len(names), UNKNOWN, np.int32)
    problems: dict[int, str] = {}
    for i, entry in enumerate(names):
        try:
            numbers[i] = finder.find(entry)
        except ValueError as problem:
            problems[i] = str(problem)
    for row in np.flatnonzero(np.isin(codes, list(problems))):
        table.fault(int(row), "id", problems[int(codes[row])])
    again = np.array(sorted(finder.again), dtype=np.int64)
    return Matches(taken(numbers, codes), finder.added, again, finder.respelt)


def reading_notes(table: Table, matches: Matches) -> tuple[str, ...]:
    """What the user should know about how a file was read."""
    notes = [*table.notes]
    if table.ignored:
        notes.append(f"Not read: {', '.join(table.ignored)}.")
    if matches.respelt:
        notes.append(
            f"{matches.respelt:,} identifiers were spelt otherwise (leading zeros, case or "
            "spaces) and matched, each to the only person that it can be."
        )
    return tuple(notes)
