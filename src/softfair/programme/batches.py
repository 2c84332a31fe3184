"""What imports and records have in common: a batch of entries from one file, written whole or not.

The same content is taken once. Entries that repeat what is known are not stored again; an entry
that differs from what is known supersedes it, and the earlier one is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from . import store
from .entries import STRIDE, flag, state_reader, threshold_reader
from .reading import WRONG, Table
from .settings import Settings
from .snapshot import History, load_history
from .store import UNKNOWN, Connection, append

__all__ = [
    "Content",
    "Imported",
    "News",
    "Recorded",
    "contact_column",
    "news_of",
    "numbers_of",
    "refuse_repeats",
    "state_column",
]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Recorded:
    """The contacts of a recorded round beside its plan, each a number of people."""

    round: int
    contacted: int
    listed: int
    not_reached: int  # listed and not contacted
    off_list: int  # contacted and not listed
    absent: int  # not in the file, taken as not contacted


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

    @property
    def unchanged(self) -> int:
        """Rows of the file that repeat what was known."""
        return self.rows - self.added - self.corrected


@dataclass(frozen=True)
class Content:
    """The content of a batch: a file, the kind of import, and its options."""

    table: Table
    kind: str  # people, history or record
    options: Mapping[str, str | int | None]

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        options = json.dumps(self.options, sort_keys=True)
        return hashlib.sha256(f"{self.kind} {self.table.digest} {options}".encode()).hexdigest()

    def earlier(self, connection: Connection) -> tuple[Imported | None, bool]:
        """The last batch of the same content, if any, and whether other batches came after it."""
        same = store.batch.c.digest.startswith(self.digest)
        row = connection.execute(
            sa.select(store.batch).where(same).order_by(store.batch.c.id.desc()).limit(1)
        ).first()
        if row is None:
            return None, False
        latest = connection.execute(sa.select(sa.func.max(store.batch.c.id))).scalar_one()
        return Imported(row.id, row.rows, 0, 0, before=True), latest > row.id

    def new_batch(
        self, connection: Connection, stored: int, software: str, round: int | None = None
    ) -> int:
        """Begin a batch that will have so many rows; its number."""
        digest = self.digest
        times = connection.execute(
            sa.select(sa.func.count())
            .select_from(store.batch)
            .where(store.batch.c.digest.startswith(digest))
        ).scalar_one()
        if times:  # the same content is taken again, on purpose; stored digests are unique
            digest += f"+{times}"
        result = connection.execute(
            store.batch.insert().values(
                created=store.now(),
                software=software,
                kind=self.kind,
                digest=digest,
                rows=len(self.table),
                stored=stored,
                round=round,
            )
        )
        return int(result.inserted_primary_key[0])  # type: ignore[index]


def state_column(table: Table, settings: Settings, threshold: str | None) -> Ints:
    """The states in the column ``state``, or in ``value`` by a threshold [rows]; else UNKNOWN.

    Raises
    ------
    InvalidInput
        If both columns are there, or a threshold without ``value``, or ``value`` without one.
    """
    if "value" in table.columns and "state" in table.columns:
        raise InvalidInput(f"{table.where} has both a state and a value; leave one out")
    if "value" in table.columns:
        if threshold is None:
            raise InvalidInput(
                f"{table.where} has a column value; "
                "say from where on it is good, such as --threshold 4 or '<=3'"
            )
        return table.parse("value", threshold_reader(threshold, settings.states))
    if threshold is not None:
        raise InvalidInput(
            f"a threshold was given, but {table.where} has no column value; "
            "rename the column of numbers to value"
        )
    if "state" in table.columns:
        return table.parse("state", state_reader(settings.states))
    return np.full(len(table), UNKNOWN, np.int64)


def contact_column(table: Table, otherwise: int) -> Ints:
    """The contacts in the column ``contacted`` [rows]; without one, the same for all."""
    if "contacted" in table.columns:
        return table.parse("contacted", flag)
    return np.full(len(table), otherwise, np.int64)


def refuse_repeats(table: Table, ids: Ints, rounds: Ints | None = None) -> None:
    """Make a fault of each row that names a person (and round) that an earlier row names.

    Parameters
    ----------
    table
        With a column ``id``, and ``round`` if rounds are given.
    ids, rounds
        The parsed columns [rows]; rows that are WRONG in them have a fault already and are left
        out.
    """
    column = "id" if rounds is None else "round"
    rows = np.flatnonzero((ids != WRONG) & (True if rounds is None else rounds != WRONG))
    key = table.columns["id"][1][rows] * STRIDE + (0 if rounds is None else rounds[rows])
    if np.diff(np.sort(key)).all():  # the usual case, in a tenth of the time
        return
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    for i in np.flatnonzero(first[inverse] != np.arange(len(key))):
        line = table.lines[rows[first[inverse[i]]]]
        problem = f"is there already, for the same person, on line {line}; keep one"
        table.fault(int(rows[i]), column, problem)


def numbers_of(
    connection: Connection, table: Table, add_people: bool
) -> tuple[Ints, dict[str, int]]:
    """The number of the person of each row.

    Parameters
    ----------
    connection
        Of any transaction.
    table
        With a column ``id``. Who is not known becomes a fault of it, unless they may be added.
    add_people
        Whether those who are not known get the next numbers.

    Returns
    -------
    tuple of numpy.ndarray and dict
        Numbers [rows], UNKNOWN where there is a fault; and identifier -> number of those added.
    """
    number: dict[str, int] = {
        row.name: row.id
        for row in connection.execute(sa.select(store.person.c.name, store.person.c.id))
    }
    names, codes = table.columns["id"]
    added: dict[str, int] = {}
    numbers = np.empty(len(names), np.int64)
    for i, entry in enumerate(names):
        # An exported file has an apostrophe before what a spreadsheet would run as a formula.
        guarded = entry not in number and entry[:1] == "'" and entry[1:] in number
        name = entry[1:] if guarded else entry
        if name not in number and add_people:
            added[name] = number[name] = len(number)
        numbers[i] = number.get(name, UNKNOWN)
    twice = [
        i
        for i, entry in enumerate(names)
        if entry[:1] == "'" and numbers[i] >= 0 and np.count_nonzero(numbers == numbers[i]) > 1
    ]
    for row in np.flatnonzero(np.isin(codes, twice)):
        table.fault(int(row), "id", "is there already without the apostrophe; keep one")
    person: Ints = numbers[codes]
    for row in np.flatnonzero(person == UNKNOWN):
        if names[codes[row]]:  # an empty one is a fault already
            table.fault(
                int(row),
                "id",
                "is not a person of this programme; "
                "import people first, or add --add-people to history",
            )
    return person, added


@dataclass(frozen=True, eq=False)
class News:
    """Observations that are new or differ from what is known."""

    entries: History
    corrected: int  # of these, how many contradict what was known

    @property
    def stored(self) -> int:
        """How many there are."""
        return len(self.entries.person)

    @property
    def added(self) -> int:
        """How many do not contradict anything."""
        return self.stored - self.corrected

    def append(self, connection: Connection, batch: int) -> None:
        """Write them as part of a batch."""
        columns = {
            "person": self.entries.person,
            "round": self.entries.round,
            "batch": np.full(self.stored, batch),
            "state": self.entries.state,
            "contacted": self.entries.contacted,
        }
        append(connection, store.observation, columns, "history")


def news_of(
    connection: Connection, person: Ints, rounds: Ints, state: Ints, contacted: Ints
) -> News:
    """Which of these observations [m], at most one a person and round, are not known already."""
    if not len(person):
        return News(History(person, rounds, state, contacted), 0)
    order = np.argsort(person * STRIDE + rounds, kind="stable")
    entries = History(*(column[order] for column in (person, rounds, state, contacted)))
    before = load_history(connection, int(rounds.min()), int(rounds.max()))
    # An entry without a match refers to one place beyond the end, where nothing is known.
    nobody = len(before.person)
    place = np.searchsorted(before.key, entries.key)
    place[np.append(before.key, -1)[place] != entries.key] = nobody
    new, corrected = place == nobody, np.zeros(len(place), bool)
    for now, then in ((entries.state, before.state), (entries.contacted, before.contacted)):
        was = np.append(then, UNKNOWN)[place]
        new |= (now >= 0) & (now != was)
        corrected |= (now >= 0) & (was >= 0) & (now != was)
    stored = History(
        entries.person[new], entries.round[new], entries.state[new], entries.contacted[new]
    )
    return News(stored, int(np.count_nonzero(corrected)))
