"""Importing people and history into the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from . import store
from .batches import (
    Content,
    Imported,
    contact_column,
    news_of,
    numbers_of,
    refuse_repeats,
    state_column,
)
from .entries import CLEARED, flag, group, identifier, optional_round, round_number
from .reading import COLUMNS, FACTS, Source, Table, read_table
from .settings import current_settings
from .snapshot import People, load_people
from .store import UNKNOWN, Connection, Store, append

__all__ = ["import_history", "import_people"]

Ints = NDArray[np.int64]

FAR = 1000  # rounds without any observation, beyond which a round is taken for a slip or a date


def import_people(database: Store, source: Source, software: str, again: bool = False) -> Imported:
    """Import people and facts about them.

    Parameters
    ----------
    database
        The programme.
    source
        A file with ``id``, group columns of any name, and optionally ``enrolled``, ``left``,
        ``reserved`` (rounds) and ``opted_out`` (yes or no). An empty entry leaves what was known as
        it was; ``none`` clears a round.
    software
        Name and version that the batch is stamped with.
    again
        Take a file that was taken before, though it has been corrected since.

    Returns
    -------
    Imported
        How many entries are new or corrected.

    Raises
    ------
    BadRows
        If entries are wrong; nothing is imported then.
    InvalidInput
        If the file cannot be used at all.
    """
    table = read_table(source, ("id",))
    file = _read_people(table)
    content = Content(table, "people", {})
    with database.writing() as connection:
        earlier, later = content.earlier(connection)
        if earlier is not None and not later:
            return earlier
        merged = _merge(table, file, load_people(connection))
        changed = int(np.count_nonzero(merged.changed))
        if earlier is not None and not again:
            return replace(earlier, superseded=changed)
        batch = content.new_batch(connection, changed, software)
        merged.append(connection, batch)
        added = int(np.count_nonzero(merged.new))
        return Imported(
            batch, len(table), added, changed - added, before=False, groups=tuple(file.grouping)
        )


@dataclass(frozen=True, eq=False)
class _PeopleFile:
    """A file of people, checked."""

    ids: list[str]  # [rows]
    grouping: list[str]  # names of the group columns
    facts: Mapping[str, Ints]  # those of FACTS that it has -> [rows]


def _read_people(table: Table) -> _PeopleFile:
    checked = table.parse("id", identifier)
    if odd := [name for name in table.columns if name in COLUMNS and name not in ("id", *FACTS)]:
        raise InvalidInput(
            f"{table.where} has a column {odd[0]!r}, which is of history; "
            "import it as history, or rename the column"
        )
    facts = {
        name: table.parse(name, flag if name == "opted_out" else optional_round)
        for name in FACTS
        if name in table.columns
    }
    grouping = [name for name in table.columns if name not in COLUMNS]
    for name in grouping:
        table.parse(name, group)
    refuse_repeats(table, checked)
    table.refuse()
    names, codes = table.columns["id"]
    return _PeopleFile([names[code] for code in codes], grouping, facts)


@dataclass(frozen=True, eq=False)
class _Merged:
    """The people of a file with what the file and the database say of them together; [rows]."""

    ids: list[str]
    person: Ints
    new: NDArray[np.bool_]  # not known before
    changed: NDArray[np.bool_]  # new, or with another fact or group than before
    groups: list[str]  # JSON
    facts: Mapping[str, Ints]

    def append(self, connection: Connection, batch: int) -> None:
        """Write those who are new, and the facts that changed, as part of a batch."""
        new = np.flatnonzero(self.new)
        append(
            connection,
            store.person,
            {
                "id": self.person[new],
                "name": [self.ids[i] for i in new],
                "batch": [batch] * len(new),
            },
        )
        rows = np.flatnonzero(self.changed)
        append(
            connection,
            store.person_fact,
            {
                "person": self.person[rows],
                "batch": [batch] * len(rows),
                "groups": [self.groups[i] for i in rows],
                "enrolled": self.facts["enrolled"][rows],
                "departed": self.facts["left"][rows],
                "opted_out": self.facts["opted_out"][rows],
                "reserved": self.facts["reserved"][rows],
            },
            "people",
        )


def _merge(table: Table, file: _PeopleFile, people: People) -> _Merged:
    number = {name: i for i, name in enumerate(people.names)}
    person = np.array([number.get(name, UNKNOWN) for name in file.ids], dtype=np.int64)
    new = person == UNKNOWN
    # Who is new refers to one place beyond the end, where nothing is known.
    place = np.where(new, people.n, person)
    person[new] = people.n + np.arange(np.count_nonzero(new))
    known = {
        "enrolled": people.enrolled,
        "left": people.departed,
        "opted_out": np.maximum(people.opted_out, 0),  # who has not said so has not opted out
        "reserved": people.reserved,
    }
    facts, changed = {}, new.copy()
    for name, values in known.items():
        before = np.append(values, 0 if name == "opted_out" else UNKNOWN)[place]
        entry = file.facts.get(name, before)
        facts[name] = np.where(entry == CLEARED, UNKNOWN, np.where(entry == UNKNOWN, before, entry))
        changed |= facts[name] != before
    groups_of = [*people.groups, "{}"]
    groups_before = [groups_of[i] for i in place]
    groups = _merged_groups(table, file.grouping, groups_before)
    differ = (now != then for now, then in zip(groups, groups_before, strict=True))
    changed |= np.fromiter(differ, bool, len(groups))
    return _Merged(file.ids, person, new, changed, groups, facts)


def _merged_groups(table: Table, grouping: list[str], before: list[str]) -> list[str]:
    """Groups of each row as JSON: those known before, overwritten by the entries of the file.

    Each combination of the two is put together once.
    """
    columns = [table.columns[name] for name in grouping]
    made: dict[tuple[Any, ...], str] = {}
    merged = []
    for combination in zip(before, *(codes.tolist() for _, codes in columns), strict=True):
        if combination not in made:
            old, *picked = combination
            entries = {
                name: distinct[i]
                for name, (distinct, _), i in zip(grouping, columns, picked, strict=True)
            }
            # An empty entry leaves what was known.
            known = {name: value for name, value in entries.items() if value}
            made[combination] = json.dumps({**json.loads(old), **known}, ensure_ascii=False)
        merged.append(made[combination])
    return merged


def import_history(
    database: Store,
    source: Source,
    software: str,
    threshold: str | None = None,
    add_people: bool = False,
    again: bool = False,
) -> Imported:
    """Import states and contacts of earlier rounds.

    Parameters
    ----------
    database
        The programme.
    source
        A file with ``id``, ``round``, ``state`` at its start (or ``value``, with a threshold) and
        ``contacted`` during it. An empty entry is unknown.
    software
        Name and version that the batch is stamped with.
    threshold
        From where on a value is good: ``4``, or ``<=3`` for up to where.
    add_people
        Whether people who are not known are added; otherwise they are faults.
    again
        Take a file that was taken before, though it has been corrected since.

    Returns
    -------
    Imported
        How many entries are new or corrected.

    Raises
    ------
    BadRows
        If entries are wrong; nothing is imported then.
    InvalidInput
        If the file cannot be used at all.
    """
    table = read_table(source, ("id", "round"), ("state", "value", "contacted"))
    checked = table.parse("id", identifier)
    rounds = table.parse("round", round_number)
    contacted = contact_column(table, otherwise=UNKNOWN)
    content = Content(table, "history", {"threshold": threshold})
    with database.writing() as connection:
        _, settings = current_settings(connection)
        state = state_column(table, settings, threshold)
        refuse_repeats(table, checked, rounds)
        _refuse_far(connection, table, rounds)
        earlier, later = content.earlier(connection)
        if earlier is not None and not later:
            return earlier
        person, added = numbers_of(connection, table, add_people)
        table.refuse()
        news = news_of(connection, person, rounds, state, contacted)
        if earlier is not None and not again:
            return replace(earlier, superseded=news.stored)
        batch = content.new_batch(connection, news.stored, software)
        _add_people(connection, added, batch)
        news.append(connection, batch)
        return Imported(batch, len(table), news.added, news.corrected, before=False)


def _refuse_far(connection: Connection, table: Table, rounds: Ints) -> None:
    """Make a fault of each round far beyond all others: rounds are consecutive numbers."""
    last_known = connection.execute(sa.select(sa.func.max(store.observation.c.round))).scalar()
    known = [] if last_known is None else [last_known]
    distinct = np.unique(np.append(rounds[rounds >= 0], known)).astype(np.int64)
    gaps = np.flatnonzero(np.diff(distinct) > FAR)
    if not len(gaps):
        return
    last = int(distinct[gaps[0]])
    problem = f"is more than {FAR} rounds after round {last}; number the rounds one after another"
    for row in np.flatnonzero(rounds > last + FAR):
        table.fault(int(row), "round", problem)


def _add_people(connection: Connection, added: Mapping[str, int], batch: int) -> None:
    """Add people of whom nothing is known but their identifier."""
    if added:
        append(
            connection,
            store.person,
            {"id": list(added.values()), "name": list(added), "batch": [batch] * len(added)},
        )
