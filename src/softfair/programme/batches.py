"""What imports and records have in common: a batch of entries from one file, all or none written.

The same content is imported once. Entries that repeat what is known are not stored again. An entry
that differs from what is known supersedes the earlier entry, which is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from . import schema, store
from .bulk import UNKNOWN, append, taken
from .columns import ReadAs
from .dates import Calendar, calendar_from, days_of
from .entries import (
    CLEARED,
    STRIDE,
    appearance,
    flag,
    optional_round,
    round_number,
    says_nothing,
    state_reader,
    threshold_rule,
)
from .reading import Table
from .settings import Settings
from .snapshot import People
from .store import Connection, sign
from .tracks import (
    ABSENT,
    PEOPLE_AT_ONCE,
    ROWS_AT_ONCE,
    History,
    Observations,
    follow,
    load_history,
    retracted_batches,
)

__all__ = [
    "Content",
    "Earlier",
    "Imported",
    "Matches",
    "News",
    "Recorded",
    "contact_column",
    "match_people",
    "news_of",
    "refuse_repeats",
    "round_column",
    "state_column",
]

Floats = NDArray[np.float64]
Ints = NDArray[Any]  # whole numbers

MARKS = 64  # bytes a row that `_once_each` may take


@dataclass(frozen=True)
class Recorded:
    """The contacts of a recorded round beside its plan, each a number of people."""

    round: int
    contacted: int  # in this file
    listed: int
    not_reached: int  # listed, and recorded as not contacted
    off_list: int  # contacted and not listed
    untold: int  # listed, without a recorded contact so far
    absent: int = 0  # without one when the round was closed, so taken as not contacted
    closed: bool = False  # whether the round is over now
    states: int = 0  # states reached, in this file
    told: bool = True  # whether any contact is recorded, in the file or by closing the round


@dataclass(frozen=True)
class Imported:
    """What an import or a record did."""

    batch: int
    rows: int  # in the file
    added: int
    corrected: int
    before: bool  # the same content was taken already, so that nothing changed
    recorded: Recorded | None = None  # of a record
    superseded: int = 0  # of a file that was taken before: entries that have been corrected since
    groups: tuple[str, ...] = ()  # columns of people that were taken as groups
    kept: tuple[str, ...] = ()  # columns of people that are kept for worksheets
    read_as: ReadAs = field(default_factory=ReadAs)  # how the file was read
    notes: tuple[str, ...] = ()  # what the user should know about how it was read
    round: int | None = None  # of a record that was taken before

    @property
    def unchanged(self) -> int:
        """Rows of the file that repeat what was known."""
        return self.rows - self.added - self.corrected


@dataclass(frozen=True)
class Earlier:
    """The last batch in force that has the same content."""

    imported: Imported
    round: int | None  # of a record
    later: bool  # whether other batches came after it


@dataclass(frozen=True)
class Content:
    """The content of a batch: a file, the kind of import, and its options."""

    table: Table
    kind: str  # people, history or record
    options: Mapping[str, str | int | None]

    @property
    def digest(self) -> str:
        """SHA-256 of the whole content, and of what its columns are taken for."""
        columns = {f"column {ours}": as_ for ours, as_ in self.table.read_as.columns.items()}
        options = json.dumps({**self.options, **columns}, sort_keys=True)
        return hashlib.sha256(f"{self.kind} {self.table.digest} {options}".encode()).hexdigest()

    def earlier(self, connection: Connection) -> Earlier | None:
        """The last batch in force of the same content, if any."""
        b = schema.batch
        same = sa.select(b).where(b.c.digest.startswith(self.digest)).order_by(b.c.id.desc())
        gone = retracted_batches(connection)
        row = next((row for row in connection.execute(same) if row.id not in gone), None)
        if row is None:
            return None
        latest = connection.execute(sa.select(sa.func.max(b.c.id))).scalar_one()
        imported = Imported(row.id, row.rows, 0, 0, before=True, round=row.round)
        return Earlier(imported, row.round, latest > row.id)

    def new_batch(
        self,
        connection: Connection,
        stored: int,
        software: str,
        round: int | None = None,
        closes: bool = False,
        read_as: ReadAs | None = None,
    ) -> int:
        """Begin a batch that will store a number of entries, and return the batch's number."""
        digest = self.digest
        times = connection.execute(
            sa.select(sa.func.count())
            .select_from(schema.batch)
            .where(schema.batch.c.digest.startswith(digest))
        ).scalar_one()
        if times:  # the same content is taken again, on purpose; stored digests are unique
            digest += f"+{times}"
        result = connection.execute(
            schema.batch.insert().values(
                created=store.now(),
                software=software,
                kind=self.kind,
                digest=digest,
                rows=len(self.table),
                stored=stored,
                round=round,
                closes=int(closes),
                file=self.table.where,
                reason=self.table.reason,
                read_as=(read_as or self.table.read_as).to_json(),
            )
        )
        number = int(result.inserted_primary_key[0])  # type: ignore[index]
        sign(connection, schema.batch, number)
        return number


def state_column(
    table: Table, settings: Settings, threshold: str | None
) -> tuple[Ints, Floats | None, str | None]:
    """The states of a file.

    Parameters
    ----------
    table
        With a column ``state``, or ``value``, or neither.
    settings
        With the names of the states, and a threshold for values if there is one.
    threshold
        The threshold for values, if the programme has none yet.

    Returns
    -------
    tuple
        States [rows], UNKNOWN where there is none; the values that they were made of [rows], None
        if the file has states; and the threshold that was used.

    Raises
    ------
    InvalidInput
        If both columns are filled, if there is a threshold without ``value`` or ``value`` without a
        threshold, or if the threshold is not the programme's.
    """
    if "value" in table.columns and "state" in table.columns:
        states = {text for text in table.columns["state"][0] if not says_nothing(text)}
        if states:
            raise InvalidInput(f"{table.where} has both a state and a value; leave one out")
    if "value" in table.columns:
        if threshold is not None and settings.threshold not in (None, threshold):
            raise InvalidInput(
                f"the programme's threshold is {settings.threshold}, not {threshold}; leave "
                f"--threshold out, or change it for all with: softfair init --threshold {threshold}"
            )
        used = threshold or settings.threshold
        if used is None:
            raise InvalidInput(
                f"{table.where} has a column value; "
                "say from where on it is good, such as --threshold 4 or '<=3'"
            )
        values = table.parse_numbers("value")
        return threshold_rule(used, settings.states)(values), values, used
    if threshold is not None:
        raise InvalidInput(
            f"a threshold was given, but {table.where} has no column value; "
            "say which column has the numbers, such as --map value=Minutes"
        )
    if "state" in table.columns:
        return table.parse("state", state_reader(settings.states), np.int16), None, None
    return np.full(len(table), UNKNOWN, np.int16), None, None


def round_column(
    table: Table, column: str, settings: Settings, order: str | None, optional: bool = False
) -> tuple[Ints, Calendar | None, str | None]:
    """The rounds in a column, which may hold numbers or dates.

    Parameters
    ----------
    table
        With the column.
    column
        Its name.
    settings
        With the calendar, if there is one.
    order
        Whether the day or the month stands first, if the user said so.
    optional
        Whether an entry may be empty (UNKNOWN) or ``none`` (CLEARED). A day before round 0 counts
        as round 0 then: people may have come before the programme.

    Returns
    -------
    tuple
        Rounds [rows]; the calendar, made from the days if the programme has none (not if the
        column is optional); and the order in which day and month stand, None if rounds are numbers.

    Raises
    ------
    InvalidInput
        If day and month cannot be told apart, or if an optional column has dates and the programme
        does not know its first day.
    """
    distinct = table.columns[column][0]
    reading = days_of(
        [text for text in distinct if not says_nothing(text) and text.lower() != "none"],
        order,
        column,
        table.where,
    )
    if reading is None:
        return (
            table.parse(column, optional_round if optional else round_number, np.int32),
            None,
            None,
        )
    day_of, order = reading
    days = [day for text in distinct if (day := day_of(text)) is not None]
    calendar = settings.calendar
    if calendar is None and optional:
        raise InvalidInput(
            f"{table.where} has dates in column {column}, and the programme does not know its "
            f"first day; say it, such as: softfair init --first-day {min(days)}"
        )
    made = calendar or calendar_from(days, settings.length)

    def read(text: str) -> int:
        if optional and text.lower() == "none":
            return CLEARED
        if optional and says_nothing(text):
            return UNKNOWN
        return _round_of_day(made, day_of(text), optional)

    return table.parse(column, read, np.int32), made, order


def _round_of_day(calendar: Calendar, day: date | None, early: bool) -> int:
    if day is None:
        raise ValueError("is no date, as most of this column are; give a date such as 2027-01-04")
    at = calendar.round_of(day)
    if at < 0 and not early:
        raise ValueError(
            f"is before the programme's first day, {calendar.first}; "
            "begin earlier with: softfair init --first-day DATE"
        )
    return max(at, 0)


def contact_column(table: Table, otherwise: int) -> Ints:
    """The contacts in the column ``contacted`` [rows]; without it, ``otherwise`` for all."""
    if "contacted" in table.columns:
        return table.parse("contacted", flag, np.int8)
    return np.full(len(table), otherwise, np.int8)


def refuse_repeats(table: Table, person: Ints, rounds: Ints | None = None) -> None:
    """Make a fault of each row that names a person (and round) that an earlier row names.

    Parameters
    ----------
    table
        With a column ``id``, and ``round`` if rounds are given.
    person, rounds
        Numbers [rows]; rows with a number below 0, which have a fault, are left out.
    """
    column = "id" if rounds is None else "round"
    when = np.broadcast_to(np.int32(0), len(person)) if rounds is None else rounds
    if _once_each(person, when):  # the usual case
        return
    rows = np.flatnonzero((person >= 0) & (when >= 0))
    key = person[rows].astype(np.int64) * STRIDE + when[rows]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    for i in np.flatnonzero(first[inverse] != np.arange(len(key))):
        line = table.lines[rows[first[inverse[i]]]]
        problem = f"is there already, for the same person, on line {line}; keep one"
        table.fault(int(rows[i]), column, problem)


def _once_each(person: Ints, rounds: Ints) -> bool:
    """Whether no person and round occurs twice; False also if that takes too much memory to tell.

    Rows below 0 in either are left out.
    """
    n, last = int(person.max(initial=-1)) + 1, int(rounds.max(initial=-1))
    first = max(int(rounds.min(initial=0 if last < 0 else last)), 0)
    width = last - first + 1
    if n * width > MARKS * len(person):
        return False
    marked, rows_known = np.zeros(n * width, bool), 0
    for begin in range(0, len(person), ROWS_AT_ONCE):
        some = slice(begin, begin + ROWS_AT_ONCE)
        known = (person[some] >= 0) & (rounds[some] >= 0)
        marked[person[some][known].astype(np.int64) * width + (rounds[some][known] - first)] = True
        rows_known += int(np.count_nonzero(known))
    return rows_known == int(np.count_nonzero(marked))


@dataclass(frozen=True, eq=False)
class Matches:
    """The persons whom the rows of a file name."""

    person: Ints  # [rows] number; UNKNOWN where there is a fault
    added: Mapping[str, int]  # identifier -> number of each person who is new
    again: Ints  # numbers of people whom only retracted files named
    respelt: int  # how many identifiers were matched though they are spelt otherwise


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
