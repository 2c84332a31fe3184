"""The history in force, round by round: all that is read of past rounds to fit, plan and audit.

The table ``observation`` keeps every entry that was ever made, a row each. In force are, for each
person and round, the latest known state and the latest known contact, without those of retracted
batches. The table ``track`` keeps them: for each round everybody's state and contact, a byte each,
in the order of people's numbers. So a round of a million people is two megabytes that are read at
once, and not a million rows.

A track is derived from observations. It is written in the same transaction as they are (`follow`
with an import, a record or a correction, `recount` after a retraction), it is not part of the log,
and it can be counted anew at any time (`counted_anew`). ``softfair check`` counts it anew and
compares; without that, somebody who can write to the database could change an estimate through a
track. A database that was made before there were tracks has none until it is written to; until then
every reading counts the observations anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..progress import say
from . import schema
from .bulk import MANY, UNKNOWN, fetch
from .entries import STRIDE
from .store import Connection

__all__ = [
    "ABSENT",
    "FOREVER",
    "PEOPLE_AT_ONCE",
    "ROWS_AT_ONCE",
    "AsOf",
    "History",
    "Observations",
    "Recount",
    "Tracks",
    "counted_anew",
    "different",
    "follow",
    "load_history",
    "recount",
    "retracted_batches",
]

Ints = NDArray[np.int64]
Small = NDArray[Any]  # whole numbers of one or two bytes

ABSENT = -2  # in place of a state: there is no entry for this person and round
FOREVER = STRIDE - 1  # the last round that there can be
PEOPLE_AT_ONCE = 2**15  # whose rows are held in memory at a time
ROWS_AT_ONCE = 2**21
MOST = 2**15 - 1  # the highest state that there can be
REMEDY = "remove all rows of this table, and they are counted anew"
BATCH = 2**18  # batch * BATCH + state and contact is one number; S is below 2**15


class AsOf(NamedTuple):
    """An earlier moment, seen without the changes made shortly before it.

    A fact or an observation of a batch after ``before`` counts only if nothing was known of its
    person (and round) up to ``before``. So additions count, and changes do not.
    """

    before: int  # the last batch whose changes count
    upto: int  # the last batch at that moment


class Observations(NamedTuple):
    """Entries [m], sorted by person and round; UNKNOWN where the state or contact is not known."""

    person: Ints
    round: Ints
    state: Ints  # at the start of the round
    contacted: Ints  # during the round


@dataclass(frozen=True, eq=False)
class History:
    """The entries in force of R rounds and n people.

    Parameters
    ----------
    rounds
        [R] ascending; only rounds with an entry.
    state
        [R, n] at the start of the round; UNKNOWN: not seen, ABSENT: there is no entry at all.
    contacted
        [R, n] during the round; UNKNOWN: not recorded.
    """

    rounds: Ints  # [R]
    state: Small  # [R, n]
    contacted: Small  # [R, n]

    @classmethod
    def of_rows(
        cls, person: Any, rounds: Any, state: Any, contacted: Any, n: int | None = None
    ) -> History:
        """From columns of entries [m]; a later entry about the same person and round counts."""
        who, when, seen, told = (np.asarray(one) for one in (person, rounds, state, contacted))
        tracks = Tracks(int(who.max(initial=-1)) + 1 if n is None else n)
        tracks.lay(who, when, seen, told)
        return tracks.history()

    @property
    def n(self) -> int:
        """How many people there are."""
        return int(self.state.shape[1])

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return int(np.count_nonzero(self.state > ABSENT))

    def row(self, round: int, n: int) -> tuple[Small, Small]:
        """State and contact of each of n people in a round [n]; ABSENT: there is no entry."""
        place = int(np.searchsorted(self.rounds, round))
        if place == len(self.rounds) or self.rounds[place] != round:
            return np.full(n, ABSENT, np.int8), np.full(n, UNKNOWN, np.int8)
        return (
            _padded(self.state[place], n, ABSENT),
            _padded(self.contacted[place], n, UNKNOWN),
        )

    def of(self, round: int, n: int) -> tuple[Ints, Ints]:
        """State and contact of each of n people in a round [n]; UNKNOWN where there is none."""
        state, contacted = self.row(round, n)
        return np.maximum(state, UNKNOWN).astype(np.int64), contacted.astype(np.int64)

    def between(self, first: int, last: int) -> History:
        """The rounds from first to last, both included."""
        low, high = np.searchsorted(self.rounds, [first, last + 1])
        return History(self.rounds[low:high], self.state[low:high], self.contacted[low:high])

    def follows(self) -> Iterator[tuple[int, int]]:
        """The places of each pair of consecutive rounds."""
        for place in np.flatnonzero(np.diff(self.rounds) == 1).tolist():
            yield place, place + 1

    def rows(self, who: Ints | slice = slice(None)) -> Observations:
        """The entries of some people, who are numbered from 0 in the order given."""
        state, contacted = self.state[:, who].T, self.contacted[:, who].T
        person, place = np.nonzero(state > ABSENT)
        return Observations(
            person,
            self.rounds[place],
            state[person, place].astype(np.int64),
            contacted[person, place].astype(np.int64),
        )

    def blocks(self) -> Iterator[Observations]:
        """The entries of everybody, PEOPLE_AT_ONCE at a time."""
        for first in range(0, self.n, PEOPLE_AT_ONCE):
            yield self.rows(slice(first, first + PEOPLE_AT_ONCE))

    def latest_state(self, at: int, n: int) -> tuple[Ints, Ints]:
        """The last round up to ``at`` in which each of n people was seen, and the state then.

        UNKNOWN where there is none.
        """
        when, state = np.full(n, UNKNOWN, np.int64), np.full(n, UNKNOWN, np.int64)
        for r, row in zip(self.rounds.tolist(), self.state, strict=True):
            if r <= at:
                seen = np.flatnonzero(row >= 0)
                when[seen], state[seen] = r, row[seen]
        return when, state

    def just_before(self, rounds: Ints) -> tuple[Ints, Ints]:
        """State and contact of each of n people in the round before that in ``rounds`` [n]."""
        state, contacted = np.full((2, len(rounds)), UNKNOWN, np.int64)
        for r in np.unique(rounds).tolist():
            here = rounds == r
            then = self.of(r - 1, len(rounds))
            state[here], contacted[here] = then[0][here], then[1][here]
        return state, contacted

    def last_contact(self, at: int, n: int) -> Ints:
        """The last round up to ``at`` in which each of n people was contacted; UNKNOWN: none."""
        when = np.full(n, UNKNOWN, np.int64)
        for r, row in zip(self.rounds.tolist(), self.contacted, strict=True):
            if r <= at:
                when[np.flatnonzero(row == 1)] = r
        return when

    def moves(self, n: int, S: int) -> Ints:
        """How often each of n people moved from state to state, by action [n, 2, S, S]."""
        counts = np.zeros(n * 2 * S * S, np.int64)
        for now, then in self.follows():
            state, action, after = self.state[now], self.contacted[now], self.state[then]
            i = np.flatnonzero((state >= 0) & (action >= 0) & (after >= 0))
            counts[((i * 2 + action[i]) * S + state[i]) * S + after[i]] += 1
        return counts.reshape(n, 2, S, S)


class Tracks:
    """The state and contact of n people in each round, over which new entries can be laid."""

    def __init__(self, n: int, history: History | None = None) -> None:
        self.n = n
        self.state: dict[int, Small] = {}  # round -> [n]
        self.contacted: dict[int, Small] = {}
        if history is not None:
            for r, state, contacted in zip(
                history.rounds.tolist(), history.state, history.contacted, strict=True
            ):
                self.state[r], self.contacted[r] = state.copy(), contacted.copy()

    def lay(self, person: Any, rounds: Any, state: Any, contacted: Any) -> None:
        """Lay entries [m] over what was known, in their order: a later one replaces an earlier."""
        for first in range(0, len(person), ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            when = np.asarray(rounds[some])
            order = np.argsort(when, kind="stable")
            when = when[order]
            starts = np.flatnonzero(np.diff(when, prepend=-1))
            columns = [np.asarray(column[some])[order] for column in (person, state, contacted)]
            for low, high in zip(starts, [*starts[1:], len(when)], strict=True):
                self._lay_round(int(when[low]), *(column[low:high] for column in columns))

    def _lay_round(self, at: int, person: Ints, state: Ints, contacted: Ints) -> None:
        if at not in self.state:
            self.state[at] = np.full(self.n, ABSENT, np.int8)
            self.contacted[at] = np.full(self.n, UNKNOWN, np.int8)
        row = self.state[at]
        if state.max(initial=0) > np.iinfo(row.dtype).max:
            row = self.state[at] = row.astype(np.int16)
        row[person[row[person] == ABSENT]] = UNKNOWN
        seen, told = state >= 0, contacted >= 0
        row[person[seen]] = state[seen]
        self.contacted[at][person[told]] = contacted[told]

    def history(self) -> History:
        """The history as it is now."""
        rounds = sorted(self.state)
        if not rounds:
            nobody = np.empty((0, self.n), np.int8)
            return History(np.empty(0, np.int64), nobody, nobody)
        return History(
            np.array(rounds, dtype=np.int64),
            np.stack([self.state[r] for r in rounds]),
            np.stack([self.contacted[r] for r in rounds]),
        )


def retracted_batches(connection: Connection, upto: int | None = None) -> frozenset[int]:
    """Numbers of the batches that are not in force, or were not when ``upto`` was the last one."""
    b = schema.batch
    query = sa.select(b.c.id, b.c.retracts).where(b.c.retracts.is_not(None))
    if upto is not None:
        query = query.where(b.c.id <= upto)
    gone: set[int] = set()
    # From the last batch to the first: a retraction that was itself retracted does nothing.
    for number, retracts in connection.execute(query.order_by(b.c.id.desc())):
        # SQLite holds values of any type. A value that is no number names no batch.
        if number not in gone and isinstance(retracts, int):
            gone.add(retracts)
    return frozenset(gone)


def load_history(connection: Connection, first: int = 0, last: int = FOREVER) -> History:
    """The entries in force.

    Parameters
    ----------
    connection
        Of any transaction.
    first, last
        The rounds to load, both included.
    """
    if not _are_kept(connection):
        return counted_anew(connection, first, last)
    t, tracks = schema.track, Tracks(_people(connection))
    query = sa.select(t).where(t.c.round.between(first, last))
    for at, state, contacted in connection.execute(query):
        told = np.frombuffer(contacted, "<i1")
        seen = np.frombuffer(state, "<i1" if len(state) == len(told) else "<i2")
        tracks.state[at] = _padded(seen, tracks.n, ABSENT)
        tracks.contacted[at] = _padded(told, tracks.n, UNKNOWN)
    return tracks.history()


def _padded(values: Small, n: int, nothing: int) -> Small:
    """Values of n people [n]; people who came after the values have ``nothing``."""
    if len(values) >= n:
        return values[:n]
    return np.pad(values, (0, n - len(values)), constant_values=nothing)


def counted_anew(
    connection: Connection, first: int = 0, last: int = FOREVER, at: AsOf | None = None
) -> History:
    """As `load_history`, from the entries themselves and not from tracks; also of an earlier time.

    Parameters
    ----------
    connection, first, last
        As for `load_history`.
    at
        An earlier moment. Default: now.
    """
    o = schema.observation
    if (many := connection.execute(sa.select(sa.func.count()).select_from(o)).scalar_one()) > MANY:
        say(f"reading {many:,} entries of history ...")
    # Two numbers a row rather than five: most of the time is spent on making Python's numbers.
    key = sa.cast(o.c.person, sa.BigInteger) * STRIDE + o.c.round
    state_and_contact = (
        (sa.func.coalesce(o.c.state, UNKNOWN) + 1) * 4
        + sa.func.coalesce(o.c.contacted, UNKNOWN)
        + 1
    )
    packed = sa.cast(o.c.batch, sa.BigInteger) * BATCH + state_and_contact
    query = sa.select(key, packed).where(o.c.round.between(first, last))
    if gone := retracted_batches(connection, at and at.upto):
        query = query.where(o.c.batch.not_in(list(gone)))
    if at is not None:
        query = query.where(o.c.batch <= at.upto)
    tracks = Tracks(_people(connection))
    for low in range(0, tracks.n, PEOPLE_AT_ONCE):
        some = query.where(o.c.person >= low, o.c.person < low + PEOPLE_AT_ONCE)
        rows = fetch(connection, some, np.int64)
        if at is not None:
            rows = _without_changes(rows, at.before)
        rows = rows[np.argsort(rows[:, 1], kind="stable")]  # by batch
        keys, packs = rows[:, 0], rows[:, 1] % BATCH
        tracks.lay(keys // STRIDE, keys % STRIDE, packs // 4 - 1, packs % 4 - 1)
    return tracks.history()


def _without_changes(rows: Ints, before: int) -> Ints:
    """Rows [m, 2] of key and batch, without changes (see `AsOf`) by batches after ``before``."""
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    newer = rows[:, 1] // BATCH > before
    begins = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))
    known = np.repeat(~newer[begins], np.diff([*begins, len(rows)]))
    return np.asarray(rows[~(newer & known)])


def follow(connection: Connection, rows: Observations) -> None:
    """Bring tracks up to date just before the entries of a new batch are written.

    Parameters
    ----------
    connection
        Of the transaction that writes them.
    rows
        The entries, each new or a correction.
    """
    if not len(rows.person):
        return
    touched, kept = different(rows.round), _are_kept(connection)
    # All rounds, if the database was made before there were tracks.
    which = (int(touched[0]), int(touched[-1])) if kept else (0, FOREVER)
    before = load_history(connection, *which)
    tracks = Tracks(before.n, before)
    tracks.lay(*rows)
    _write(connection, tracks.history(), touched if kept else None)


def recount(connection: Connection, batches: Sequence[int]) -> None:
    """Bring tracks up to date after batches came into force or out of it."""
    o = schema.observation
    query = sa.select(o.c.round).where(o.c.batch.in_(list(batches))).distinct()
    touched = np.array(sorted(connection.execute(query).scalars()), dtype=np.int64)
    if not len(touched) or not _are_kept(connection):
        return
    _write(connection, counted_anew(connection, int(touched[0]), int(touched[-1])), touched)


class Recount:
    """Tracks counted anew from the entries that a check reads, to compare with the kept ones."""

    def __init__(self, connection: Connection) -> None:
        self._tracks = Tracks(_people(connection))
        self._gone = np.array(sorted(retracted_batches(connection)), dtype=np.int64)

    def lay(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Lay some entries, in the order of batches, as `chain.faults_of` reads them."""
        for first in range(0, len(columns["person"]), ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            self._lay({name: column[some] for name, column in columns.items()})

    def _lay(self, columns: Mapping[str, NDArray[Any]]) -> None:
        o, absent = schema.observation, columns["absent"].astype(np.int64)
        person, rounds = columns["person"].astype(np.int64), columns["round"].astype(np.int64)
        known = (person >= 0) & (person < self._tracks.n) & (rounds >= 0)
        known &= ~np.isin(columns["batch"], self._gone)
        values = []
        for bit, column in enumerate(one for one in o.c if one.nullable):
            if column in (o.c.state, o.c.contacted):
                there = np.where(absent & 2**bit, UNKNOWN, columns[column.name])
                values.append(np.clip(there, UNKNOWN, MOST).astype(np.int16)[known])
        self._tracks.lay(person[known], rounds[known], *values)

    def faults(self, connection: Connection) -> Iterator[str]:
        """A sentence where the kept tracks differ; none if no tracks are kept yet."""
        if not _are_kept(connection):
            return
        t = schema.track
        in_time = sa.func.count().filter(t.c.round.between(0, FOREVER))
        every, within = connection.execute(sa.select(sa.func.count(), in_time).select_from(t)).one()
        if every > within:
            yield f"track: {every - within:,} rows of rounds that cannot be; {REMEDY}"
        try:
            kept, anew = load_history(connection), self._tracks.history()
        except (ValueError, TypeError):
            yield f"track: a value is not of the type of its column; {REMEDY}"
            return
        n, rounds = kept.n, np.union1d(kept.rounds, anew.rounds).tolist()
        odd = [
            at for at in rounds if not all(map(np.array_equal, kept.row(at, n), anew.row(at, n)))
        ]
        if odd:
            which = ", ".join(map(str, odd[:5])) + ", ..." * (len(odd) > 5)
            yield (
                f"track: what is kept of {len(odd):,} rounds ({which}) is not what the entries of "
                f"these rounds say; {REMEDY}"
            )


def different(rounds: Ints) -> Ints:
    """The distinct rounds, ascending."""
    if not len(rounds):
        return np.empty(0, np.int64)
    first, last = int(rounds.min()), int(rounds.max())
    if last - first > len(rounds):
        return np.unique(rounds).astype(np.int64)
    seen = np.zeros(last - first + 1, bool)  # faster than sorting
    for begin in range(0, len(rounds), ROWS_AT_ONCE):
        seen[rounds[begin : begin + ROWS_AT_ONCE] - first] = True
    return np.flatnonzero(seen) + first


def _people(connection: Connection) -> int:
    p = schema.person
    return int(connection.execute(sa.select(sa.func.count()).select_from(p)).scalar_one())


def _are_kept(connection: Connection) -> bool:
    """Whether there are tracks, or no observations that they could be made of."""
    t, o = schema.track, schema.observation
    if connection.execute(sa.select(t.c.round).limit(1)).first() is not None:
        return True
    return connection.execute(sa.select(o.c.round).limit(1)).first() is None


def _write(connection: Connection, history: History, touched: Ints | None = None) -> None:
    """Replace the tracks of some rounds; default: of all rounds of the history."""
    t = schema.track
    rounds = history.rounds if touched is None else touched
    connection.execute(
        t.delete().where(t.c.round == sa.bindparam("at")), [{"at": int(r)} for r in rounds]
    )
    for place in np.flatnonzero(np.isin(history.rounds, rounds)):
        state, contacted = history.state[place], history.contacted[place]
        if state.dtype.itemsize > 1 and state.max(initial=0) <= np.iinfo(np.int8).max:
            state = state.astype(np.int8)
        connection.execute(
            t.insert().values(
                round=int(history.rounds[place]),
                state=np.ascontiguousarray(state, f"<i{state.dtype.itemsize}").tobytes(),
                contacted=np.ascontiguousarray(contacted, "<i1").tobytes(),
            )
        )
