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


class _Spelt:
    """People by the spelling of their identifiers; the index is made when it is first needed."""

    def __init__(self, names: list[str], unnamed: set[int]) -> None:
        self._names, self._unnamed = names, unnamed

    @cached_property
    def _by_spelling(self) -> dict[str, list[str]]:
        alike: dict[str, list[str]] = {}
        for i, name in enumerate(self._names):
            if i not in self._unnamed:
                alike.setdefault(spelling(name), []).append(name)
        return alike

    def alike(self, name: str) -> list[str]:
        """The known identifiers that an identifier may mean."""
        return self._by_spelling.get(spelling(name), [])


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
    number = {name: i for i, name in enumerate(people.names)}
    unnamed = set(people.unnamed.tolist())
    spelt = _Spelt(people.names, unnamed)
    names, codes = table.columns["id"]
    added: dict[str, int] = {}
    again: set[int] = set()
    problems: dict[int, str] = {}
    numbers = np.full(len(names), UNKNOWN, np.int32)
    seen: dict[str, str] = {}  # appearance -> identifier of a person who is new
    respelt = 0
    for i, entry in enumerate(names):
        # An exported file has an apostrophe before what a spreadsheet would run as a formula.
        name = entry[1:] if entry not in number and entry[:1] == "'" else entry
        person = number.get(name, UNKNOWN)
        others = spelt.alike(name) if person == UNKNOWN or person in unnamed else []
        if person in unnamed and add and not others:
            again.add(person)
        elif person in unnamed:
            person = UNKNOWN
        if person == UNKNOWN and len(others) == 1:
            person, respelt = number[others[0]], respelt + 1
        elif person == UNKNOWN and others:
            problems[i] = f"may be any of {len(others)} persons; write it in full, with its zeros"
        elif person == UNKNOWN and add and seen.setdefault(appearance(entry), entry) != entry:
            problems[i] = (
                "looks the same as another identifier of this file and is not (invisible or wide "
                "letters); write both alike, or so that one can tell them apart"
            )
        elif person == UNKNOWN and add and entry:
            name = entry
            person = added[name] = number[name] = len(number)
        elif person == UNKNOWN and entry:
            problems[i] = (
                "is not a person of this programme; "
                "import people first, or add --add-people to history"
            )
        numbers[i] = person
    for row in np.flatnonzero(np.isin(codes, list(problems))):
        table.fault(int(row), "id", problems[int(codes[row])])
    return Matches(taken(numbers, codes), added, np.array(sorted(again), dtype=np.int64), respelt)


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
