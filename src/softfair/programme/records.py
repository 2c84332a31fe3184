"""Recording what happened in a round: who was contacted, and the states that were reached."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from . import store
from .batches import (
    Content,
    Imported,
    News,
    Recorded,
    contact_column,
    news_of,
    numbers_of,
    refuse_repeats,
    state_column,
)
from .entries import identifier, optional_round
from .reading import Source, Table, read_table
from .settings import current_settings
from .snapshot import People, load_people
from .store import UNKNOWN, Connection, Store, plan_in_force

__all__ = ["record"]

Ints = NDArray[np.int64]

# Columns of an exported plan. Only ``round`` is read.
WORKSHEET = ("round", "listed", "probability", "score", "state_now", "status", "site", "reason")


def record(
    database: Store,
    source: Source,
    software: str,
    round: int | None = None,
    threshold: str | None = None,
    again: bool = False,
) -> Imported:
    """Record who was contacted in a round, and the states reached after it.

    The first record of a round is taken to name all who were contacted: who is not in it was not.
    A later one corrects only whom it names.

    Parameters
    ----------
    database
        The programme.
    source
        A file with ``id`` and optionally ``contacted``, and ``state`` or ``value`` reached; one of
        identifiers alone names those who were contacted. An exported plan that was filled in will
        do.
    software
        Name and version that the batch is stamped with.
    round
        Which round. Default: what a column ``round`` says, else the first round that was planned
        and not recorded.
    threshold
        From where on a value is good: ``4``, or ``<=3`` for up to where.
    again
        Take a file that was taken before, though it has been corrected since.

    Returns
    -------
    Imported
        With the contacts beside the plan of the round in ``recorded``.

    Raises
    ------
    BadRows
        If entries are wrong; nothing is recorded then.
    InvalidInput
        If the file cannot be used at all, or it is not clear which round it is of.
    """
    table = read_table(source, ("id",), ("contacted", "state", "value", *WORKSHEET))
    ids = table.parse("id", identifier)
    in_rounds = (
        table.parse("round", optional_round) if "round" in table.columns else np.empty(0, np.int64)
    )
    # A file without states names those who were contacted.
    has_states = "state" in table.columns or "value" in table.columns
    contacted = contact_column(table, otherwise=UNKNOWN if has_states else 1)
    with database.writing() as connection:
        _, settings = current_settings(connection)
        state = state_column(table, settings, threshold)
        refuse_repeats(table, ids)
        at = _round_of(connection, table, in_rounds[in_rounds >= 0], round)
        content = Content(table, "record", {"threshold": threshold, "round": at})
        return _store(connection, content, at, contacted, state, software, again)


def _store(
    connection: Connection,
    content: Content,
    at: int,
    contacted: Ints,
    state: Ints,
    software: str,
    again: bool,
) -> Imported:
    """Write contacts and states [rows] of a round, unless the same file was taken before."""
    earlier, later = content.earlier(connection)
    if earlier is not None and not later:
        return earlier
    table = content.table
    person, _ = numbers_of(connection, table, add_people=False)
    table.refuse()
    absent = np.empty(0, np.int64)
    if first := not _is_recorded(connection, at):
        absent = _absent(load_people(connection), person, at)
        contacted = np.maximum(contacted, 0)
    news = _news(connection, at, person, contacted, state, absent)
    if earlier is not None and not again:
        return replace(earlier, superseded=news.stored)
    batch = content.new_batch(connection, news.stored, software, at)
    news.append(connection, batch)
    recorded = _beside_plan(connection, at, person, contacted, first, len(absent))
    return Imported(batch, len(table), news.added, news.corrected, False, recorded)


def _round_of(connection: Connection, table: Table, in_rounds: Ints, asked: int | None) -> int:
    """The round that a record is of, given the rounds in the file and the one asked for."""
    if len(in_rounds) and in_rounds.min() != in_rounds.max():
        raise InvalidInput(
            f"{table.where} is of rounds {in_rounds.min()} to {in_rounds.max()}; "
            "record one round at a time"
        )
    if len(in_rounds) and asked is not None and in_rounds[0] != asked:
        raise InvalidInput(
            f"{table.where} is of round {in_rounds[0]}, not of round {asked}; "
            "leave --round out, or mend the file"
        )
    if len(in_rounds):
        return int(in_rounds[0])
    if asked is not None:
        return asked
    p, o = store.plan, store.observation
    planned = (
        connection.execute(sa.select(p.c.round).distinct().order_by(p.c.round)).scalars().all()
    )
    if not planned:
        raise InvalidInput(
            "no round has been planned; say which round this was, such as --round 21"
        )
    recorded = set(
        connection.execute(
            sa.select(o.c.round)
            .where(o.c.round >= planned[0], o.c.contacted.is_not(None))
            .distinct()
        ).scalars()
    )
    return int(next((r for r in planned if r not in recorded), planned[-1]))


def _is_recorded(connection: Connection, at: int) -> bool:
    """Whether any contact of a round is known."""
    o = store.observation
    query = sa.select(o.c.person).where(o.c.round == at, o.c.contacted.is_not(None)).limit(1)
    return connection.execute(query).first() is not None


def _absent(people: People, person: Ints, at: int) -> Ints:
    """Who is in the programme in a round and not among the given persons."""
    in_programme = (people.enrolled <= at) & ((people.departed == UNKNOWN) | (people.departed > at))
    return np.setdiff1d(np.flatnonzero(in_programme), person)


def _news(
    connection: Connection, at: int, person: Ints, contacted: Ints, state: Ints, absent: Ints
) -> News:
    """Contacts during the round and states at the start of the next, as far as they are new."""
    unknown = np.full(len(person), UNKNOWN)
    nothing = np.full(len(absent), UNKNOWN)
    who = np.concatenate([person, absent, person])
    when = np.repeat([at, at, at + 1], [len(person), len(absent), len(person)])
    contacts = np.concatenate([contacted, np.zeros(len(absent), np.int64), unknown])
    states = np.concatenate([unknown, nothing, state])
    known = (states >= 0) | (contacts >= 0)
    return news_of(connection, who[known], when[known], states[known], contacts[known])


def _beside_plan(
    connection: Connection, at: int, person: Ints, contacted: Ints, first: bool, absent: int
) -> Recorded:
    """The contacts of a file beside the plan of the round.

    In the first record of a round who is not named was not reached; in a later one only those count
    of whom it says so.
    """
    r = store.plan_row
    on_list = sa.select(r.c.person).where(
        r.c.plan == plan_in_force(connection, at), r.c.listed == 1
    )
    listed = set(connection.execute(on_list).scalars())
    reached = set(person[contacted == 1].tolist())
    missed = listed - reached if first else listed & set(person[contacted == 0].tolist())
    return Recorded(
        round=at,
        contacted=len(reached),
        listed=len(listed),
        not_reached=len(missed),
        off_list=len(reached - listed),
        absent=absent,
    )
