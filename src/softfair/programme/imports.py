"""Importing people and history into the database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput, Unsure
from ..for_json import read_json
from . import schema
from .batches import (
    Content,
    Imported,
    Matches,
    contact_column,
    match_people,
    news_of,
    refuse_repeats,
    round_column,
    state_column,
)
from .bulk import UNKNOWN, append
from .columns import ReadAs, folded, remembered
from .dates import Calendar
from .entries import CLEARED, flag, group, identifier, numbers_of
from .groups import settle_twins
from .reading import FACTS, Source, Table, read_table
from .settings import Settings, change_settings, current_settings
from .snapshot import People, load_details, load_people, take_snapshot
from .store import Connection, Store
from .tracks import different

__all__ = ["import_history", "import_people"]

Ints = NDArray[np.int64]

FAR = 1000  # a round after so many without any observation is taken for a mistake or a date
NEAR = 8  # the user is asked about a round after so many without any observation
PERSONAL = 0.5  # a column with a larger share of different entries is no group: names, telephones
FEW = 20  # rows below which no column is taken for personal
NO_GROUP = ("", "n/a", "#n/a")  # entries that name no group; NA may be Namibia
HISTORY = ("state", "value", "contacted")
LIKE_TELEPHONE = re.compile(r"\s*(\+|0\d|[\d\s()./-]*(\d[\s()./-]*){7}$)")  # or a day as a number


def import_people(
    database: Store,
    source: Source,
    software: str,
    again: bool = False,
    how: ReadAs | None = None,
) -> Imported:
    """Import people and facts about them.

    Parameters
    ----------
    database
        The programme.
    source
        A file with ``id``, group columns of any name, and optionally ``enrolled``, ``left``,
        ``reserved`` (rounds or dates), ``absent`` (two of these, such as ``12 to 14``) and
        ``opted_out`` (yes or no). An empty entry leaves what was known as it was; ``none`` clears
        a round.
    software
        Name and version that the batch is stamped with.
    again
        Take a file again, although what it says was corrected after it was taken.
    how
        How the file is read, where that differs from the default.

    Returns
    -------
    Imported
        How many entries are new or corrected.

    Raises
    ------
    BadRows
        If entries are wrong; nothing is imported then.
    InvalidInput
        If the file cannot be used at all, or a group is spelt in several ways.
    """
    table = read_table(
        source, ("id",), None, (*FACTS, "absent"), how, remembered(database, "people")
    )
    if odd := [name for name in table.columns if folded(name) in ("round", "contacted")]:
        raise InvalidInput(
            f"{table.where} has a column {odd[0]!r}, which is of history; "
            "import it as history, or rename the column"
        )
    table = _split_absences(table)
    table.parse("id", identifier, np.int8)
    content = Content(table, "people", {})
    with database.writing() as connection:
        _, settings = current_settings(connection)
        facts, read_as = _facts(table, settings)
        people = load_people(connection)
        matches = match_people(people, table, add=True)
        refuse_repeats(table, matches.person)
        grouping, kept = _sorts_of_columns(table, read_as)
        for name in grouping:
            table.parse(name, group)
        table.refuse()
        spelt = [name for name in grouping if numbers_of(table.columns[name][0]) is None]
        table, read_as, notes = settle_twins(table, spelt, people, read_as)
        earlier = content.earlier(connection)
        if earlier is not None and not earlier.later:
            return earlier.imported
        merged = _merge(connection, table, facts, (grouping, kept), matches, people)
        changed = int(np.count_nonzero(merged.changed))
        if earlier is not None and not again:
            return replace(earlier.imported, superseded=changed)
        batch = content.new_batch(connection, changed, software, read_as=read_as)
        merged.append(connection, batch, matches)
        added = int(np.count_nonzero(merged.new))
        return Imported(
            batch,
            len(table),
            added,
            changed - added,
            before=False,
            groups=tuple(grouping),
            kept=tuple(kept),
            read_as=read_as,
            notes=(*_notes(table, matches), *notes),
        )


def _notes(table: Table, matches: Matches) -> tuple[str, ...]:
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


def _split_absences(table: Table) -> Table:
    """Make ``absent_from`` and ``absent_to`` from ``absent``: 12, 12-14, or two dates."""
    if "absent" not in table.columns:
        return table
    distinct, codes = table.columns["absent"]
    ends = []
    for text in distinct:
        for mark in (" to ", " until ", "..", "\u2013", " - "):
            first, mark_there, last = text.partition(mark)
            if mark_there:
                break
        else:
            first, last = (text, text) if not _is_span(text) else text.split("-")
        ends.append((first.strip(), last.strip() or "none"))
    columns = {name: column for name, column in table.columns.items() if name != "absent"}
    for j, name in enumerate(("absent_from", "absent_to")):
        columns[name] = ([end[j] for end in ends], codes)
    return replace(table, columns=columns)


def _is_span(text: str) -> bool:
    """Whether a text is two numbers of rounds, such as 12-14."""
    first, _, last = text.partition("-")
    return first.strip().isdecimal() and last.strip().isdecimal()


def _facts(table: Table, settings: Settings) -> tuple[dict[str, Ints], ReadAs]:
    """The FACTS that a file has, by name [rows]; and how dates were read."""
    facts, read_as = {}, table.read_as
    for name in FACTS:
        if name not in table.columns:
            continue
        if name == "opted_out":
            facts[name] = table.parse(name, flag)
            continue
        rounds, calendar, order = round_column(table, name, settings, read_as.dates, optional=True)
        facts[name] = rounds
        if calendar is not None:
            read_as = replace(read_as, dates=order)
        for row in np.flatnonzero(rounds > FAR * 10):
            table.fault(int(row), name, "is no round of this programme; give a round or a date")
    return facts, read_as


def _is_measure(distinct: list[str], codes: Ints) -> bool:
    """Whether a column measures something about people, such as age; not a name or telephone."""
    numbers = numbers_of(distinct)
    if numbers is None or any(LIKE_TELEPHONE.match(text) for text in distinct):
        return False
    is_number = np.isfinite(numbers)
    whole = bool((numbers[is_number] % 1 == 0).all())
    # Whole numbers of which everybody has a different one are more like identifiers.
    return not whole or int(is_number[codes].sum()) > int(is_number.sum())


def _sorts_of_columns(table: Table, read_as: ReadAs) -> tuple[list[str], list[str]]:
    """Which columns of a file of people are groups, and which are kept for worksheets."""
    told = {folded(name) for name in read_as.keep}
    grouping: list[str] = []
    kept: list[str] = []
    for name, (distinct, codes) in table.columns.items():
        if name in ("id", *FACTS):
            continue
        filled = int(np.count_nonzero([bool(text) for text in distinct]))
        personal = (
            len(codes) >= FEW
            and filled > PERSONAL * len(codes)
            and not _is_measure(distinct, codes)
        )
        (kept if folded(name) in told or personal else grouping).append(name)
    return grouping, kept


@dataclass(frozen=True, eq=False)
class _Merged:
    """The people of a file with what the file and the database say of them together; [rows]."""

    person: Ints
    new: NDArray[np.bool_]  # not known before
    changed: NDArray[np.bool_]  # new, or with another fact or group than before
    groups: list[str]  # JSON
    details: list[str]  # JSON
    facts: Mapping[str, Ints]

    def append(self, connection: Connection, batch: int, matches: Matches) -> None:
        """Write the new people, and the facts that changed, as part of a batch."""
        _add_people(connection, matches.added, batch)
        rows = np.flatnonzero(self.changed)
        append(
            connection,
            schema.person_fact,
            {
                "person": self.person[rows],
                "batch": [batch] * len(rows),
                "groups": [self.groups[i] for i in rows],
                "enrolled": self.facts["enrolled"][rows],
                "departed": self.facts["left"][rows],
                "opted_out": self.facts["opted_out"][rows],
                "reserved": self.facts["reserved"][rows],
                "absent_from": self.facts["absent_from"][rows],
                "absent_to": self.facts["absent_to"][rows],
                "details": [self.details[i] for i in rows],
            },
            "people",
        )


def _merge(
    connection: Connection,
    table: Table,
    entries: Mapping[str, Ints],
    sorts: tuple[list[str], list[str]],
    matches: Matches,
    people: People,
) -> _Merged:
    person = matches.person
    new = np.isin(person, list(matches.added.values()))
    # New people refer to one place beyond the end, where nothing is known.
    place = np.where(new, people.n, person)
    known = {
        "enrolled": people.enrolled,
        "left": people.departed,
        "opted_out": np.maximum(people.opted_out, 0),  # unknown: no
        "reserved": people.reserved,
        "absent_from": people.absent_from,
        "absent_to": people.absent_to,
    }
    facts, changed = {}, new | np.isin(person, matches.again)
    for name, values in known.items():
        before = np.append(values, 0 if name == "opted_out" else UNKNOWN)[place]
        entry = entries.get(name, before)
        facts[name] = np.where(entry == CLEARED, UNKNOWN, np.where(entry == UNKNOWN, before, entry))
        changed |= facts[name] != before
    details = load_details(connection)
    details_of = [json.dumps(details.get(i, {}), ensure_ascii=False) for i in range(people.n)]
    texts = []
    for columns, texts_before in zip(
        sorts, ([*people.groups, "{}"], [*details_of, "{}"]), strict=True
    ):
        before_ = [texts_before[i] for i in place]
        texts.append(_merged_texts(table, columns, before_))
        differ = (now != then for now, then in zip(texts[-1], before_, strict=True))
        changed |= np.fromiter(differ, bool, len(before_))
    return _Merged(person, new, changed, texts[0], texts[1], facts)


def _merged_texts(table: Table, names: list[str], before: list[str]) -> list[str]:
    """Columns of each row as JSON: what was known before, overwritten by the entries of the file.

    Each combination of the two is put together once.
    """
    columns = [table.columns[name] for name in names]
    made: dict[tuple[Any, ...], str] = {}
    merged = []
    for combination in zip(before, *(codes.tolist() for _, codes in columns), strict=True):
        if combination not in made:
            old, *picked = combination
            entries = {
                name: distinct[i]
                for name, (distinct, _), i in zip(names, columns, picked, strict=True)
            }
            # An empty entry leaves what was known.
            known = {
                name: value for name, value in entries.items() if value.lower() not in NO_GROUP
            }
            made[combination] = json.dumps({**read_json(old), **known}, ensure_ascii=False)
        merged.append(made[combination])
    return merged


def import_history(
    database: Store,
    source: Source,
    software: str,
    threshold: str | None = None,
    add_people: bool = False,
    again: bool = False,
    how: ReadAs | None = None,
    sure: bool = False,
    after: bool = False,
) -> Imported:
    """Import states and contacts of earlier rounds.

    Parameters
    ----------
    database
        The programme.
    source
        A file with ``id``, ``round`` (a number or a date), ``state`` at its start (or ``value``,
        with a threshold) and ``contacted`` during it. An empty entry is unknown.
    software
        Name and version that the batch is stamped with.
    threshold
        Values are good from it up (``4``), or up to it (``<=3``). It becomes the programme's
        threshold.
    add_people
        Whether people who are not known are added; otherwise they are faults.
    again
        Take a file again, although what it says was corrected after it was taken.
    how
        How the file is read, where that differs from the default.
    sure
        Whether to take rounds that are far from all others, and contacts of rounds that are still
        to be planned, without asking.
    after
        Whether states are those after the contacts of the round, that is, at the start of the next.

    Returns
    -------
    Imported
        How many entries are new or corrected.

    Raises
    ------
    BadRows
        If entries are wrong; nothing is imported then.
    Unsure
        If rounds look like a mistake.
    InvalidInput
        If the file cannot be used at all.
    """
    before = remembered(database, "history")
    table = read_table(source, ("id", "round"), HISTORY, (), how, before)
    table.parse("id", identifier, np.int8)
    contacted = contact_column(table, otherwise=UNKNOWN)
    content = Content(table, "history", {"threshold": threshold, **({"after": 1} if after else {})})
    with database.writing() as connection:
        _, settings = current_settings(connection)
        rounds, calendar, order = round_column(table, "round", settings, table.read_as.dates)
        changed = _with_calendar(connection, settings, calendar, table)
        state, value, used = state_column(table, settings, threshold)
        people = load_people(connection)
        matches = match_people(people, table, add_people)
        refuse_repeats(table, matches.person, rounds)
        _refuse_far(connection, table, rounds)
        earlier = content.earlier(connection)
        if earlier is not None and not earlier.later:
            return earlier.imported
        table.refuse()
        if not sure:
            _ask_about_rounds(connection, table, rounds, contacted, changed)
        rows = (matches.person, rounds, state, contacted, value)
        news = news_of(connection, *(_shifted(*rows) if after else rows))
        if earlier is not None and not again:
            return replace(earlier.imported, superseded=news.stored)
        if value is not None:
            changed = replace(changed, threshold=used)
        if changed != settings:
            change_settings(connection, changed, software)
        read_as = replace(table.read_as, dates=order)
        batch = content.new_batch(connection, news.stored, software, read_as=read_as)
        _add_people(connection, matches.added, batch)
        _name_again(connection, matches, batch)
        news.append(connection, batch)
        return Imported(
            batch,
            len(table),
            news.added,
            news.corrected,
            before=False,
            read_as=read_as,
            notes=(*_notes(table, matches), *_history_notes(table, settings, changed, rounds)),
        )


def _history_notes(
    table: Table, before: Settings, settings: Settings, rounds: Ints
) -> Iterator[str]:
    """What else the user should know about a history."""
    if not {"state", "value"} & set(table.columns):
        yield (
            "Look: it has no states; if a column has them, say which: --map state=... or "
            "--map value=..."
        )
    if before.first_day is None and settings.first_day is not None:
        yield (
            f"Rounds are {settings.round}s from {settings.first_day} on: the last one here is "
            f"{settings.called(int(rounds.max()))}."
        )


def _shifted(
    person: Ints, rounds: Ints, state: Ints, contacted: Ints, value: NDArray[np.float64] | None
) -> tuple[Any, ...]:
    """Observations whose states are moved to the start of the round after."""
    n, key = len(person), np.concatenate([person, person])
    unknown, nothing = np.full(n, UNKNOWN), np.full(n, np.nan)
    when = np.concatenate([rounds, rounds + 1])
    states = np.concatenate([unknown, state])
    contacts = np.concatenate([contacted, unknown])
    values = None if value is None else np.concatenate([nothing, value])
    # A round may be there twice now: with its contact, and with the state from the one before.
    order = np.lexsort((when, key))
    place = np.flatnonzero(
        np.concatenate([[True], (np.diff(key[order]) != 0) | (np.diff(when[order]) != 0)])
    )
    both = [np.maximum.reduceat(column[order], place) for column in (states, contacts)]
    if values is not None:
        values = np.fmax.reduceat(values[order], place)
    return key[order][place], when[order][place], *both, values


def _with_calendar(
    connection: Connection, settings: Settings, calendar: Calendar | None, table: Table
) -> Settings:
    """The settings with the calendar that the days of a file give to a programme without one."""
    if calendar is None or settings.calendar is not None:
        return settings
    seen = connection.execute(sa.select(schema.observation.c.round).limit(1)).first()
    if seen is not None:
        raise InvalidInput(
            f"{table.where} has dates, and the rounds of this programme are numbers so far; "
            "say on which day round 1 began: softfair init --first-day DATE"
        )
    return replace(settings, first_day=calendar.first.isoformat())


def _refuse_far(connection: Connection, table: Table, rounds: Ints) -> None:
    """Make a fault of each round far beyond all others: rounds are consecutive numbers."""
    distinct = _distinct_rounds(connection, rounds)
    gaps = np.flatnonzero(np.diff(distinct) > FAR)
    if not len(gaps):
        return
    last = int(distinct[gaps[0]])
    problem = (
        f"is more than {FAR} rounds after round {last}; "
        "number the rounds one after another, or give dates"
    )
    for row in np.flatnonzero(rounds > last + FAR):
        table.fault(int(row), "round", problem)


def _distinct_rounds(connection: Connection, rounds: Ints) -> Ints:
    """The last round that is known (or round 0), and the rounds of a file after it."""
    last = connection.execute(sa.select(sa.func.max(schema.observation.c.round))).scalar() or 0
    return different(np.append(rounds[rounds > last], np.int32(last)))


def _ask_about_rounds(
    connection: Connection, table: Table, rounds: Ints, contacted: Ints, settings: Settings
) -> None:
    """Ask about rounds that are far from others, and about contacts in rounds to come."""
    distinct = _distinct_rounds(connection, rounds)
    for i in np.flatnonzero(np.diff(distinct) > NEAR):
        last, far = int(distinct[i]), int(distinct[i + 1])
        rows = np.flatnonzero(rounds >= far)
        # A history may begin with any round; what is odd is a gap within it.
        if len(rows) and not (last == 0 and len(rows) == np.count_nonzero(rounds >= 0)):
            raise Unsure(
                f"{table.where}: {len(rows)} of {len(table)} rows are of {settings.called(far)} "
                f"or later, {far - last} rounds after round {last}, the one before them "
                f"(the first is line {table.lines[rows[0]]}); mend them"
            )
    planned = connection.execute(sa.select(sa.func.max(schema.plan.c.round))).scalar()
    if planned is not None and (early := (contacted >= 0) & (rounds > planned)).any():
        now = take_snapshot(connection)
        at = now.next_round()
        if (early := early & (rounds >= at)).any():
            last = int(rounds[early].max())
            raise Unsure(
                f"{table.where} tells of {np.count_nonzero(early)} contacts up to "
                f"{settings.called(last)}, and the next round to plan is {at}: these rounds could "
                "no longer be planned; mend them"
            )


def _add_people(connection: Connection, added: Mapping[str, int], batch: int) -> None:
    """Add people of whom nothing is known but their identifier."""
    if added:
        append(
            connection,
            schema.person,
            {"id": list(added.values()), "name": list(added), "batch": [batch] * len(added)},
        )


def _name_again(connection: Connection, matches: Matches, batch: int) -> None:
    """Bring people back whom only retracted files named, without the facts in those files."""
    if len(matches.again):
        many = len(matches.again)
        columns = {"batch": [batch] * many, "groups": ["{}"] * many, "opted_out": [0] * many}
        append(connection, schema.person_fact, {"person": matches.again, **columns})
