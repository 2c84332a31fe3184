"""Recording what happened in a round: who was contacted, and the states that were reached.

A record is about the people whom it names. The round stays open until the contact of everybody on
its list is recorded, or until it is closed. People without a recorded contact by then count as not
contacted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, Unsure, whole
from .batches import Content, Imported, Recorded
from .bulk import UNKNOWN
from .columns import ReadAs, remembered
from .entries import identifier
from .matching import match_people
from .meanings import FAR, contact_column, refuse_repeats, round_column, state_column
from .news import News, news_of
from .reading import Source, Table, read_table
from .settings import change_settings
from .snapshot import Snapshot, take_snapshot
from .store import Connection, Store

__all__ = ["WORKSHEET", "close_round", "record"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Columns of an exported plan or worksheet. Only ``round`` is read.
WORKSHEET = (
    "round",
    "date",
    "listed",
    "probability",
    "score",
    "state_now",
    "status",
    "site",
    "reason",
    "checkpoint",
    "comment",
)
READ = ("contacted", "state", "value", "round")


def record(
    database: Store,
    source: Source,
    software: str,
    round: int | None = None,
    threshold: str | None = None,
    again: bool = False,
    how: ReadAs | None = None,
    sure: bool = False,
    close: bool = False,
) -> Imported:
    """Record who was contacted in a round, and the states reached after it.

    Parameters
    ----------
    database
        The programme.
    source
        A file with ``id`` and optionally ``contacted``, and the ``state`` or ``value`` that was
        reached. A file of identifiers alone names the people who were contacted. An exported plan
        that was filled in is such a file.
    software
        Name and version that the batch is stamped with.
    round
        Which round. Default: the one in the column ``round``, else the first planned round that is
        open, else the last planned round.
    threshold
        From where on a value is good, if the programme has no threshold yet.
    again
        Take a file again, although what it says was corrected after it was taken.
    how
        How the file is read, where that differs from the default.
    sure
        Whether to go on where `Unsure` would be raised.
    close
        Whether to close the round: people without a recorded contact count as not contacted.

    Returns
    -------
    Imported
        Its ``recorded`` compares the contacts with the plan of the round.

    Raises
    ------
    BadRows
        If entries are wrong; nothing is recorded then.
    Unsure
        If nobody planned the round, if the same file was recorded as another round, if more people
        were contacted off the list than are on it, or if the file has other columns but neither
        contacts nor states.
    InvalidInput
        If the file cannot be used at all, or its round is not clear.
    """
    table = read_table(
        source, ("id",), (*READ, *WORKSHEET), (), how, remembered(database, "record")
    )
    table.parse("id", identifier, np.int8)
    # A file without states names the people who were contacted.
    has_states = "state" in table.columns or "value" in table.columns
    contacted = contact_column(table, otherwise=UNKNOWN if has_states else 1)
    content = Content(table, "record", {"threshold": threshold})
    with database.writing() as connection:
        now = take_snapshot(connection)
        rounds_in_file, order = _rounds_told(table, now)
        state, value, used = state_column(table, now.settings, threshold)
        earlier = content.earlier(connection)
        if earlier is not None and round is not None and earlier.round != round:
            if not sure:
                raise Unsure(
                    f"the same file was recorded as {now.settings.called(earlier.round or 0)} "
                    f"(batch {earlier.imported.batch}), and is now said to be of round {round}"
                )
            earlier = None
        at = earlier.round if earlier is not None else None
        if at is None:
            at = _round_of(now, table, rounds_in_file, round)
        if earlier is not None and not earlier.later:
            return earlier.imported
        if earlier is None:
            _ask_about(now, at, sure)
        if not sure:
            _ask_about_contacts(table)
        matches = match_people(now.people, table, add=False)
        refuse_repeats(table, matches.person)
        table.refuse()
        new_record = _Record(now, at, matches.person, contacted, state, value)
        if not sure:
            new_record.ask_about_others(table.where)
        if earlier is not None and not again:
            return replace(
                earlier.imported, superseded=new_record.news(connection, close)[0].stored
            )
        done = new_record.store(connection, content, software, close, order)
        if used is not None and used != now.settings.threshold:
            change_settings(connection, replace(now.settings, threshold=used), software)
        if table.ignored:
            done = replace(done, notes=(*table.notes, f"Not read: {', '.join(table.ignored)}."))
        return done


def close_round(database: Store, software: str, round: int | None = None) -> Imported:
    """Close a round: people without a recorded contact count as not contacted.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the batch is stamped with.
    round
        Which round. Default: the first that was planned and is open.

    Raises
    ------
    InvalidInput
        If there is no such round, or it is over.
    """
    with database.writing() as connection:
        now = take_snapshot(connection)
        opened = now.open_rounds()
        if not opened or (round is not None and round not in opened):
            which = "no planned round is open" if round is None else f"round {round} is not open"
            raise InvalidInput(f"{which}; see where things stand with: softfair status")
        at = opened[0] if round is None else round
        nobody = np.empty(0, np.int64)
        digest = hashlib.sha256(f"close {at} {now.batch}".encode()).hexdigest()
        table = Table("", digest, {"id": ([], nobody)}, nobody, [], ReadAs())
        content = Content(table, "record", {})
        closing = _Record(now, at, nobody, nobody, nobody, None)
        return closing.store(connection, content, software, close=True, order=None)


@dataclass(frozen=True, eq=False)
class _Record:
    """The content of a record of one round."""

    now: Snapshot  # what was known before
    at: int
    person: Ints  # [rows]
    contacted: Ints  # [rows]
    state: Ints  # [rows] reached
    value: Floats | None  # [rows] from which the state was made

    def ask_about_others(self, where: str) -> None:
        """Ask about a file with more contacts off the list than the list has people."""
        listed = self.now.rounds.lists.get(self.at, np.empty(0, np.int64))
        others = np.setdiff1d(self.person[self.contacted == 1], listed)
        if len(listed) and len(others) > len(listed):
            raise Unsure(
                f"{where} tells of {len(others)} people contacted who were not on the list of "
                f"{len(listed)}"
            )

    def store(
        self,
        connection: Connection,
        content: Content,
        software: str,
        close: bool,
        order: str | None,
    ) -> Imported:
        """Write it as a batch."""
        news, absent, untold, closed = self.news(connection, close)
        read_as = replace(content.table.read_as, dates=order)
        batch = content.new_batch(connection, news.stored, software, self.at, close, read_as)
        news.append(connection, batch)
        return Imported(
            batch,
            len(content.table),
            news.added,
            news.corrected,
            before=False,
            recorded=self._beside_plan(untold, len(absent), closed),
            read_as=read_as,
            notes=content.table.notes,
        )

    def news(self, connection: Connection, close: bool) -> tuple[News, Ints, int, bool]:
        """News; who counts as not contacted; how many are unrecorded; whether the round is over."""
        now, at = self.now, self.at
        _, known = now.history.of(at, now.people.n)
        contact_known = self.contacted >= 0
        known[self.person[contact_known]] = self.contacted[contact_known]
        listed = now.rounds.lists.get(at, np.empty(0, np.int64))
        waiting = np.setdiff1d(listed, now.people.gone(at))
        untold = int(np.count_nonzero(known[waiting] < 0))
        complete = close or at in now.rounds.closed or (len(listed) > 0 and not untold)
        absent = self._in_programme(known < 0) if complete else np.empty(0, np.int64)
        if absent.size:
            untold = 0
        # Contacts during the round and states at the start of the next.
        rows, unknown = len(self.person), np.full(len(self.person), UNKNOWN)
        nothing = np.full(len(absent), UNKNOWN)
        who = np.concatenate([self.person, absent, self.person])
        when = np.repeat([at, at, at + 1], [rows, len(absent), rows])
        contacts = np.concatenate([self.contacted, np.zeros(len(absent), np.int64), unknown])
        states = np.concatenate([unknown, nothing, self.state])
        values = None
        if self.value is not None:
            values = np.concatenate([np.full(rows + len(absent), np.nan), self.value])
        says = (states >= 0) | (contacts >= 0)
        news = news_of(
            connection,
            who[says],
            when[says],
            states[says],
            contacts[says],
            None if values is None else values[says],
        )
        return news, absent, untold, bool(complete)

    def _in_programme(self, of: NDArray[np.bool_]) -> Ints:
        """The people in the programme in the round for whom a condition [n] holds."""
        people, at = self.now.people, self.at
        here = (people.enrolled <= at) & ((people.departed == UNKNOWN) | (people.departed > at))
        here[people.unnamed] = False
        return np.flatnonzero(here & of)

    def _beside_plan(self, untold: int, absent: int, closed: bool) -> Recorded:
        listed = self.now.rounds.lists.get(self.at, np.empty(0, np.int64))
        reached = self.person[self.contacted == 1]
        return Recorded(
            round=self.at,
            contacted=len(reached),
            listed=len(listed),
            not_reached=int(np.isin(self.person[self.contacted == 0], listed).sum()),
            off_list=int((~np.isin(reached, listed)).sum()),
            untold=untold,
            absent=absent,
            closed=closed,
            states=int(np.count_nonzero(self.state >= 0)),
            told=bool((self.contacted >= 0).any()) or absent > 0,
        )


def _ask_about_contacts(table: Table) -> None:
    """Ask about a file that is not of identifiers alone, and has neither contacts nor states."""
    if table.ignored and not {"contacted", "state", "value"} & set(table.columns):
        raise Unsure(
            f"{table.where} has no column contacted, state or value (but "
            f"{', '.join(map(repr, table.ignored[:5]))}), so that all {len(table)} in it would be "
            "taken as contacted; say what a column is with --map, such as "
            f"--map value='{table.ignored[0]}'"
        )


def _rounds_told(table: Table, now: Snapshot) -> tuple[Ints, str | None]:
    """The different rounds in the column ``round``, and how its dates were read."""
    if "round" not in table.columns:
        return np.empty(0, np.int64), None
    rounds, _, order = round_column(
        table, "round", now.settings, table.read_as.dates, optional=True
    )
    return np.unique(rounds[rounds >= 0]), order


def _round_of(now: Snapshot, table: Table, told: Ints, asked: int | None) -> int:
    """The round that a record is of, given the rounds in the file and the one asked for."""
    if len(told) > 1:
        raise InvalidInput(
            f"{table.where} is of rounds {told[0]} to {told[-1]}; record one round at a time"
        )
    if len(told) and asked is not None and told[0] != asked:
        raise InvalidInput(
            f"{table.where} is of round {told[0]}, not of round {asked}; "
            "leave --round out, or mend the file"
        )
    if len(told):
        return int(told[0])
    if asked is not None:
        return whole("round", asked, 0)
    if not now.rounds.planned:
        raise InvalidInput(
            "no round has been planned; say which round this was, such as --round 21"
        )
    return int(next(iter(now.open_rounds()), now.rounds.planned[-1]))


def _ask_about(now: Snapshot, at: int, sure: bool) -> None:
    """Ask about a round that nobody planned."""
    if at in now.rounds.lists:
        return
    following = now.next_round()
    if at > following + FAR:
        raise InvalidInput(
            f"round {at} is {at - following} rounds after round {following}, the next one; "
            "mend the round"
        )
    if not sure:
        opened = now.open_rounds() or [following]
        raise Unsure(
            f"nobody planned {now.settings.called(at)}; "
            f"the one that waits for a record is {now.settings.called(opened[0])}"
            if now.rounds.planned
            else f"no round has been planned, and this is said to be of {now.settings.called(at)}"
        )
