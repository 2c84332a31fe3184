"""Importing a history: states and contacts of earlier rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...errors import InvalidInput, Unsure
from .. import schema
from ..batches import Content, Imported
from ..bulk import UNKNOWN
from ..columns import ReadAs, remembered
from ..dates import Calendar
from ..entries import identifier
from ..matching import match_people, reading_notes
from ..meanings import FAR, contact_column, refuse_repeats, round_column, state_column
from ..news import news_of
from ..reading import Source, Table, read_table
from ..settings import Settings, change_settings, current_settings
from ..snapshot import load_people, take_snapshot
from ..store import Connection, Store
from ..tracks import different

__all__ = ["HISTORY", "import_history"]

Ints = NDArray[np.int64]

NEAR = 8  # the user is asked about a round after so many without any observation
HISTORY = ("state", "value", "contacted")  # columns of a history, besides id and round


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
        matches.add(connection, batch)
        matches.name_again(connection, batch)
        news.append(connection, batch)
        return Imported(
            batch,
            len(table),
            news.added,
            news.corrected,
            before=False,
            read_as=read_as,
            notes=(
                *reading_notes(table, matches),
                *_history_notes(table, settings, changed, rounds),
            ),
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
