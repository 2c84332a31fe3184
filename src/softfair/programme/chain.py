"""The log of a database: one entry for each transaction, and a head that stands for all of them.

Tables only grow, each by one column (`grows_by`): its number, or that of the batch, plan or trial
that a row came with. When a transaction ends, `seal` adds an entry: for each table that grew, how
far it grew, how many rows came and the SHA-256 of their content. The entries are the leaves of a
Merkle tree as in RFC 6962. Its head, a checkpoint in the format of C2SP (tlog-checkpoint, and
signed-note if it is signed), is a few lines of text:

    softfair/<hash of the programme's seed>
    <number of entries>
    <root of the tree, base64>
    tables <name>:<first digits of the digest of all that the log says of it> ...

Whoever keeps such a text can tell later that what stood in the database then still stands there
(`compare`), even if somebody has written all entries anew. Each entry has a salt, so that nobody
can try what might have been in a table until the head agrees.

A new table joins by itself, if `grows_by` can tell its column.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..progress import track
from .bulk import appended, fetch_columns, is_large, is_null, large_rows

__all__ = [
    "Checkpoint",
    "Columns",
    "Entry",
    "Watch",
    "checkpoint_of",
    "compare",
    "entries_of",
    "faults_of",
    "grows_by",
    "link_table",
    "seal",
]

Connection = sa.Connection

LINK = "link"
# The version of the schema changes with the software; tracks are derived, see `tracks`; the log
# itself.
OUTSIDE = ("meta", "track", LINK)
PARENTS = ("batch", "model", "plan", "trial")  # tables whose numbers order the rows of others
MANY = 10_000  # rows from which on they are not read back to be digested
BUNDLE = 4096  # persons whose rows PostgreSQL sends as one value
PERSONS = 2**13  # whose rows are read at a time
MOST = 2**31  # a person's number in an honest database
CHUNK = 2**16  # numbers that are digested at a time
WIDTH = 60  # of a checkpoint's lines, which stand on printed pages
SHORT = 8  # digits of a table's digest in a checkpoint; the root stands for all of them

Marks = dict[str, int]
Columns = Mapping[str, Mapping[str, Any]]  # by table and column
Glance = Callable[[sa.Table, Sequence[Any]], None]
UNREADABLE = (ValueError, TypeError, OverflowError)  # a value is not of the type of its column


def link_table(tables: sa.MetaData) -> sa.Table:
    """The table of the log's entries."""
    return sa.Table(
        LINK,
        tables,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),  # 0, 1, 2, ...
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),  # JSON: salt, who, marks, added
        sa.Column("leaf", sa.Text, nullable=False),  # SHA-256 of all of these, hexadecimal
    )


def grows_by(table: sa.Table) -> sa.Column[Any]:
    """The column by which a table grows: rows that come later have a higher number in it.

    It is the only column of the primary key, or the one named after a batch, model, plan or trial,
    or what the table itself says by ``info={"grows_by": name}``.

    Raises
    ------
    TypeError
        If there is no such column; the table needs one to be part of the log.
    """
    named = table.info.get("grows_by")
    if named is not None:
        return table.c[named]
    key = list(table.primary_key.columns)
    if len(key) == 1:
        return key[0]
    for name in PARENTS:
        if name in table.primary_key.columns:
            return table.c[name]
    raise TypeError(
        f"table {table.name}: say by which column it grows, with info={{'grows_by': …}}"
    )


def _logged(tables: sa.MetaData) -> list[sa.Table]:
    """The tables that are part of the log, in the order of their names."""
    return [tables.tables[name] for name in sorted(tables.tables) if name not in OUTSIDE]


@dataclass(frozen=True)
class Entry:
    """One entry of the log."""

    number: int
    created: str
    content: str
    stored_leaf: str  # what stands in the table

    @property
    def leaf(self) -> bytes:
        """Its hash in the tree."""
        text = f"{self.number}\n{self.created}\n{self.content}"
        return hashlib.sha256(b"\0" + text.encode("utf-8", "surrogatepass")).digest()

    def parts(self) -> tuple[str, Marks, dict[str, tuple[int, str]]]:
        """Salt, how far each table goes, and the rows added: their number and their digest.

        Raises
        ------
        ValueError
            If the content cannot be read.
        """
        try:
            parts = json.loads(self.content)
            marks = {str(name): int(mark) for name, mark in parts["marks"].items()}
            added = {
                str(name): (int(n), str(digest)) for name, (n, digest) in parts["added"].items()
            }
            return str(parts["salt"]), marks, added
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError("garbled") from None

    def who(self) -> str:
        """Who ran the command, as the system knew them."""
        self.parts()  # garbled content is refused there
        return str(json.loads(self.content).get("who", "unknown"))


def seal(connection: Connection, tables: sa.MetaData, moment: str) -> None:
    """Add an entry for what a transaction has added, if it has added anything."""
    link = tables.tables[LINK]
    last = connection.execute(sa.select(link).order_by(link.c.id.desc()).limit(1)).first()
    try:
        before = {} if last is None else Entry(*last).parts()[1]
    except ValueError:
        raise InvalidInput(
            f"entry {last.id if last else 0} of the log is garbled, somebody has altered it; "
            "nothing was changed; see: softfair check"
        ) from None
    marks, added = _marks(connection, tables), {}
    for table in _logged(tables):
        low, high = before.get(table.name, -1), marks[table.name]
        if high > low:
            count, digest = _digest(_new_rows(connection, table, low, high))
            if count:
                added[table.name] = (count, digest)
    if not added:
        return
    content = {
        "salt": secrets.token_hex(16),
        "who": connection.get_execution_options().get("who", ""),
        "marks": marks,
        "added": added,
    }
    number = 0 if last is None else last.id + 1
    entry = Entry(number, moment, json.dumps(content, sort_keys=True), "")
    row = {"id": number, "created": moment, "content": entry.content, "leaf": entry.leaf.hex()}
    connection.execute(link.insert().values(row))


def _marks(connection: Connection, tables: sa.MetaData) -> Marks:
    """How far each table goes now: its highest number, or that of its parent; -1: nowhere."""
    logged, highest = _logged(tables), []
    for table in logged:
        column = grows_by(table)
        own = len(table.primary_key.columns) == 1
        parent = table if own else tables.tables.get(column.name, table)
        highest.append(sa.select(sa.func.max(grows_by(parent))).scalar_subquery())
    marks = connection.execute(sa.select(*highest)).one()  # one statement: every commit waits
    return {
        table.name: -1 if mark is None else int(mark)
        for table, mark in zip(logged, marks, strict=True)
    }


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows of a table, in the order of its key."""

    names: list[str]  # of the columns
    columns: list[Any]  # arrays of numbers, or lists

    @property
    def count(self) -> int:
        return len(self.columns[0])

    def cut(self, low: int, high: int) -> _Part:
        return _Part(self.names, [column[low:high] for column in self.columns])


Make = Callable[[], _Part]  # the rest of reading, for which no connection is needed


def _is_numeric(table: sa.Table) -> bool:
    return all(isinstance(column.type, (sa.Integer, sa.Float)) for column in table.c)


def _read(connection: Connection, table: sa.Table, low: int, high: int) -> _Part:
    """Rows whose number is above ``low`` and at most ``high``.

    Raises
    ------
    ValueError
        If a value of a table of numbers is not of the type of its column.
    """
    rows_of = _between(table, low, high)
    if not _is_numeric(table):
        return _read_texts(connection, table, rows_of)
    asked = [_ask(connection, table, some) for some in _pieces(connection, table, rows_of)]
    return _joined_parts([one() for one in asked], table)


def _between(table: sa.Table, low: int, high: int) -> sa.ColumnElement[bool]:
    return sa.and_(grows_by(table) > low, grows_by(table) <= high)


def _read_texts(
    connection: Connection,
    table: sa.Table,
    rows_of: sa.ColumnElement[bool],
    glance: Glance | None = None,
) -> _Part:
    """Rows of a table that has more than numbers."""
    raw: list[Any] = [sa.column(other.name) for other in table.c]  # as it is stored
    query = sa.select(*raw).select_from(table).where(rows_of)
    query = query.order_by(*_key(table))
    look = None if glance is None else partial(glance, table)
    rows: Iterable[Any] = (
        _rows(connection, query, look) if is_large(table) else connection.execute(query)
    )
    return _Part(
        [other.name for other in table.c],
        [list(values) for values in zip(*rows, strict=True)] or [[] for _ in table.c],
    )


def _ask(
    connection: Connection, table: sa.Table, rows_of: sa.ColumnElement[bool]
) -> Callable[[], _Part]:
    """What makes a part of a table of numbers, in any order, of what the database has sent."""
    _, names = _layout(table)
    sent = fetch_columns(connection, table, names[:-1], rows_of, BUNDLE)

    def made() -> _Part:
        columns, absent = sent()
        return _Part(names, [_small(values) for values in (*columns, absent)])

    return made


def _joined_parts(parts: list[_Part], table: sa.Table) -> _Part:
    """One part of a table of numbers, in the order of its key."""
    key, names = _layout(table)
    pieces = zip(*(part.columns for part in parts), strict=True)
    return _sorted(_Part(names, [_joined(list(some)) for some in pieces]), key)


def _rows(
    connection: Connection, query: sa.Select[Any], glance: Callable[[Any], None] | None
) -> Iterator[list[Any]]:
    """The rows of a query, with the SHA-256 of its content in place of whatever is binary.

    ``glance`` is called with each row as it is.
    """
    for row in large_rows(connection, query):
        if glance is not None:
            glance(row)
        yield [
            {"sha256": hashlib.sha256(value).hexdigest()}
            if isinstance(value, (bytes, memoryview))
            else value
            for value in row
        ]


def _pieces(
    connection: Connection, table: sa.Table, rows_of: sa.ColumnElement[bool]
) -> list[sa.ColumnElement[bool]]:
    """Which rows of a table are read, in pieces of bounded size.

    A table whose key begins with the number of a person has some rows for each.
    """
    first = next(iter(table.primary_key.columns))
    if first is grows_by(table):
        return [rows_of]
    last = connection.execute(sa.select(sa.func.max(first))).scalar() or 0
    ends = [*range(PERSONS, min(int(last), MOST) + 1, PERSONS)]
    above = [None, *ends]
    return [
        sa.and_(
            rows_of,
            sa.true() if low is None else first >= low,
            sa.true() if high is None else first < high,
        )
        for low, high in zip(above, [*ends, None], strict=True)
    ]


def _small(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in as few bytes as hold them exactly: there may be many millions."""
    low, high = values.min(initial=0), values.max(initial=0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:  # not so if any is nan
            few = values.astype(kind)
            whole = values.dtype.kind == "i" or np.array_equal(values, few)
            return few if whole else values
    return values


def _new_rows(connection: Connection, table: sa.Table, low: int, high: int) -> _Part:
    """As `_read`, of rows that this transaction has added.

    To read millions of rows back would take half as long as to write them. Where all of them were
    appended in bulk they are at hand.
    """
    calls = appended(connection, table)
    rows = sum(len(next(iter(call.values()))) for call in calls)
    if rows < MANY or not _is_numeric(table):
        return _read(connection, table, low, high)
    column = grows_by(table)
    query = sa.select(sa.func.count()).select_from(table).where(column > low, column <= high)
    if connection.execute(query).scalar_one() != rows:
        return _read(connection, table, low, high)
    key, names = _layout(table)
    columns: dict[str, NDArray[Any]] = {"absent": np.zeros(rows, np.int8)}
    bit_of = {one.name: 2**bit for bit, one in enumerate(_nullable(table))}
    for one in table.c:
        parts = [_as_appended(call, one) for call in calls]
        columns[one.name] = _joined([values for values, _ in parts])
        if one.name in bit_of:
            unknown = _joined([unknown for _, unknown in parts])
            columns["absent"] += unknown * np.int8(bit_of[one.name])
    return _sorted(_Part(names, [columns[name] for name in names]), key)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """One array of some; the usual one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _as_appended(
    call: Mapping[str, Any], column: sa.Column[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The values of a column in a call of `append`, 0 where NULL was written, and where it was."""
    values, count = call.get(column.name), len(next(iter(call.values())))
    if values is None:
        return np.zeros(count, np.int8), np.ones(count, bool)
    if not column.nullable:
        return np.asarray(values), np.zeros(0, bool)
    if not isinstance(values, np.ndarray):
        values = np.array(values, np.float64)  # None becomes NaN
    unknown = is_null(values)
    return np.where(unknown, 0, values), unknown


def _layout(table: sa.Table) -> tuple[list[str], list[str]]:
    """The key of a table of numbers, the column it grows by first, and its columns as digested."""
    key = _key(table)
    first = key[-1]  # PostgreSQL sends rows in bundles by it
    names = [first.name, *(other.name for other in table.c if other is not first), "absent"]
    return [one.name for one in key], names


def _key(table: sa.Table) -> list[sa.Column[Any]]:
    """The key, the column that the table grows by first.

    Each column once: SQLite sorts rows that an index has in order if one is named twice.
    """
    column = grows_by(table)
    return [column, *(other for other in table.primary_key.columns if other is not column)]


def _nullable(table: sa.Table) -> list[sa.Column[Any]]:
    return [column for column in table.c if column.nullable]


def _sorted(part: _Part, key: list[str]) -> _Part:
    """The same rows in the order of their key."""
    columns = [part.columns[part.names.index(name)] for name in key]
    if _ascend(columns):
        return part
    # Many millions are read in the order of the rest of the key: then one sort will do.
    if _ascend(columns[1:]):
        order = np.argsort(columns[0], kind="stable")
    else:
        order = np.lexsort(columns[::-1])
    return _Part(part.names, [values[order] for values in part.columns])


def _ascend(columns: list[NDArray[Any]]) -> bool:
    """Whether no row is above the next one, by the first column in which they differ."""
    equal = np.ones(max(len(columns[0]) - 1, 0), bool) if columns else np.ones(0, bool)
    for values in columns:
        if (equal & (values[1:] < values[:-1])).any():
            return False
        equal &= values[1:] == values[:-1]
    return True


def _digest(part: _Part) -> tuple[int, str]:
    """How many rows there are, and the SHA-256 of their content."""
    digest = hashlib.sha256(json.dumps([part.names, part.count]).encode())
    for values in part.columns:
        if isinstance(values, np.ndarray):
            for first in range(0, len(values), CHUNK):
                some = values[first : first + CHUNK].astype("<f8")
                if values.dtype.kind == "f":
                    some += 0.0  # turns -0 into 0, as SQLite does
                digest.update(some.data)
        else:
            digest.update(json.dumps(values).encode())
    return part.count, digest.hexdigest()


def entries_of(connection: Connection, tables: sa.MetaData) -> list[Entry]:
    """All entries of the log, in their order."""
    link = tables.tables[LINK]
    rows = connection.execute(sa.select(link).order_by(link.c.id)).all()
    return [Entry(*row) for row in rows]


class _Growth(NamedTuple):
    """The rows of one table that came with an entry: numbers above low and up to high."""

    entry: Entry
    low: int
    high: int
    rows: int
    digest: str


class Watch(Protocol):
    """Who looks at all rows while they are compared with the log."""

    def glance(self, table: sa.Table, row: Sequence[Any]) -> None:
        """Look at a row with large values, which are not kept."""

    def follow(self, texts: Columns) -> Callable[[Columns], None]:
        """Look at the rows that came with an entry, by table and column.

        Parameters
        ----------
        texts
            Every table with rows among them, and the rows of those that have more than numbers.

        Returns
        -------
        callable
            Is called with the rows of all tables, after that of the entry before. It must not use
            the connection: the next rows are read meanwhile.
        """


def faults_of(
    connection: Connection,
    tables: sa.MetaData,
    entries: Sequence[Entry],
    watch: Watch | None = None,
) -> list[str]:
    """What stands in the tables and is not what the entries say, in sentences.

    One entry's rows are read while those of the entry before are compared. Of a table that is not
    read by the column it grows by (observations) all rows are held, in as few bytes as will do.
    """
    from ..kernels.threads import overlapped  # loads a compiler

    grown, broken = _growth(entries)
    if broken is not None:
        return [broken]
    logged, found = _logged(tables), _Comparison(connection, watch)
    for _ in overlapped(found.jobs(logged, grown)):
        pass
    sentences = []
    for table in logged:
        sentences += found.said.get(table.name, [])
        if table.name not in found.unreadable:
            total = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            more = total - found.told.get(table.name, 0)
            if more > 0:
                sentences.append(f"{table.name}: {more:,} rows that no entry of the log tells of")
    return sentences + [
        f"{name}: the log tells of such a table, there is none"
        for name in sorted(set(grown) - set(tables.tables))
    ]


def _growth(entries: Sequence[Entry]) -> tuple[dict[str, list[_Growth]], str | None]:
    """How each table grew, and what is wrong with the entries, if anything."""
    grown: dict[str, list[_Growth]] = {}
    before: Marks = {}
    for place, entry in enumerate(entries):
        if entry.number != place:
            said = f"the log: entry {place} is missing, {entry.number} stands in its place"
            return grown, said
        try:
            _, now, added = entry.parts()
            if entry.leaf.hex() != entry.stored_leaf:
                raise ValueError("altered")
        except ValueError as error:
            return grown, f"the log: entry {place}, of {entry.created}, is {error}"
        for name, (count, digest) in added.items():
            one = _Growth(entry, before.get(name, -1), now.get(name, -1), count, digest)
            grown.setdefault(name, []).append(one)
        before = now
    return grown, None


Asked = tuple[sa.Table, _Growth, Make]  # rows of a table that came with an entry


class _Comparison:
    """Compares the rows of a database with its log, entry by entry.

    Parameters
    ----------
    connection
        Of the transaction.
    watch
        Who looks on, if anybody.
    """

    def __init__(self, connection: Connection, watch: Watch | None) -> None:
        self._connection, self._watch = connection, watch
        self.said: dict[str, list[str]] = {}  # what was found of each table
        self.told: dict[str, int] = {}  # rows of each table that some entry tells of
        self.unreadable: set[str] = set()

    def jobs(
        self, logged: Sequence[sa.Table], grown: Mapping[str, Sequence[_Growth]]
    ) -> Iterator[Callable[[], None]]:
        """What is to be done with the rows of each entry, as they are read."""
        by_entry: dict[int, list[tuple[sa.Table, _Growth]]] = {}
        for table in logged:
            some = grown.get(table.name, [])
            if next(iter(table.primary_key.columns)) is grows_by(table):  # found by the key
                for one in some:
                    by_entry.setdefault(one.entry.number, []).append((table, one))
            elif some:
                yield from (self._numbers if _is_numeric(table) else self._texts)(table, some)
        for number in track(sorted(by_entry), "checking"):
            asked: list[Asked] = []
            texts: dict[str, dict[str, Any]] = {table.name: {} for table, _ in by_entry[number]}
            for table, one in by_entry[number]:
                rows_of = _between(table, one.low, one.high)
                if _is_numeric(table):
                    make = self._later(table, rows_of)
                    asked.append((table, one, partial(_joined_later, make, table)))
                else:
                    part = self._read(table, rows_of)
                    texts[table.name] = dict(zip(part.names, part.columns, strict=True))
                    asked.append((table, one, partial(part.cut, 0, part.count)))
            yield self._entry_job(asked, texts)

    def _texts(self, table: sa.Table, grown: Sequence[_Growth]) -> Iterator[Callable[[], None]]:
        """As `jobs`, of a table of texts that is read as a whole."""
        whole = self._read(table, sa.true())

        def make(one: _Growth) -> _Part:
            number = np.asarray(whole.columns[whole.names.index(grows_by(table).name)])
            low, high = np.searchsorted(number, [one.low, one.high], "right")
            return whole.cut(int(low), int(high))

        for one in grown:
            yield self._entry_job([(table, one, partial(make, one))], {table.name: {}})

    def _numbers(self, table: sa.Table, grown: Sequence[_Growth]) -> Iterator[Callable[[], None]]:
        """As `jobs`, of a table of numbers that is read as a whole, the rows of some at a time."""
        kept: list[list[_Part]] = [[] for _ in grown]  # pieces of each entry

        def share_out(make: Make) -> None:
            part = self._made(table, make)
            if part is None:
                return
            number = part.columns[part.names.index(grows_by(table).name)]
            order = np.argsort(number, kind="stable")  # by radix: whole numbers of few bytes
            number = number[order]
            for one, pieces in zip(grown, kept, strict=True):
                low, high = np.searchsorted(number, [one.low, one.high], "right")
                rows = order[low:high]
                pieces.append(_Part(part.names, [_small(values[rows]) for values in part.columns]))

        def joined(pieces: list[_Part]) -> _Part:
            part = _joined_parts(pieces, table)
            pieces.clear()  # once it is compared it is not needed
            return part

        try:
            which = _pieces(self._connection, table, sa.true())
        except UNREADABLE as error:
            self._made(table, partial(_fail, error))
            return
        for some in which:
            yield partial(share_out, self._later(table, some))
        for one, pieces in zip(grown, kept, strict=True):
            yield self._entry_job([(table, one, partial(joined, pieces))], {table.name: {}})

    def _read(self, table: sa.Table, rows_of: sa.ColumnElement[bool]) -> _Part:
        glance = None if self._watch is None else self._watch.glance
        return _read_texts(self._connection, table, rows_of, glance)

    def _later(self, table: sa.Table, rows_of: sa.ColumnElement[bool]) -> Make:
        """What makes a part; if the rows cannot be read, it says so when it is called."""
        try:
            return _ask(self._connection, table, rows_of)
        except UNREADABLE as error:
            return partial(_fail, error)

    def _entry_job(self, asked: Sequence[Asked], texts: Columns) -> Callable[[], None]:
        then = None if self._watch is None else self._watch.follow(texts)
        return partial(self._entry, asked, then)

    def _made(self, table: sa.Table, make: Callable[[], Any]) -> Any:
        """What ``make`` returns; None if the table cannot be read, of which this tells once."""
        if table.name in self.unreadable:
            return None
        try:
            return make()
        except UNREADABLE:
            self.unreadable.add(table.name)
            said = f"{table.name}: a value is not of the type of its column"
            self.said.setdefault(table.name, []).append(said)
            return None

    def _entry(self, asked: Sequence[Asked], then: Callable[[Columns], None] | None) -> None:
        """Compare the rows of an entry, and look at them if all can be read."""
        columns = {}
        for table, one, make in asked:
            part = self._made(table, make)
            if part is not None and self._made(table, partial(self._compare, table, one, part)):
                columns[table.name] = dict(zip(part.names, part.columns, strict=True))
        if then is not None and len(columns) == len(asked):
            then(columns)

    def _compare(self, table: sa.Table, one: _Growth, part: _Part) -> bool:
        now, digest = _digest(part)
        self.told[table.name] = self.told.get(table.name, 0) + now
        if digest != one.digest:
            said = f"{table.name}: entry {one.entry.number}, of {one.entry.created}: " + (
                f"{one.rows - now:,} of its {one.rows:,} rows are gone"
                if now < one.rows
                else f"{now - one.rows:,} rows were put among its {one.rows:,}"
                if now > one.rows
                else f"of its {one.rows:,} rows some were altered"
            )
            self.said.setdefault(table.name, []).append(said)
        return True


def _joined_later(make: Make, table: sa.Table) -> _Part:
    return _joined_parts([make()], table)


def _fail(error: Exception) -> _Part:
    raise error


@dataclass(frozen=True)
class Checkpoint:
    """The head of a log: what stands for all of its entries.

    Parameters
    ----------
    origin
        Whose log it is.
    size
        The number of entries.
    root
        Of their tree, base64.
    tables
        For each table the first digits of the digest of all that the entries say of it.
    """

    origin: str
    size: int
    root: str
    tables: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        named = " ".join(["tables", *(f"{name}:{digits}" for name, digits in self.tables)])
        lines = [self.origin, str(self.size), self.root]
        if self.tables:
            lines += textwrap.wrap(named, WIDTH)
        return "\n".join(lines) + "\n"

    @classmethod
    def find(cls, text: str) -> Checkpoint:
        """The last checkpoint in a text: a file of its own, or an export that it stands in.

        Raises
        ------
        InvalidInput
            If there is none.
        """
        texts = list(CHECKPOINT.finditer(text))
        if not texts:
            raise InvalidInput(
                "there is no checkpoint in what --against names; give a text with its lines: "
                "softfair/..., a number, and 44 characters that end in ="
            )
        origin, size, root, named = texts[-1].groups()
        each = (one.partition(":") for one in (named or "").replace("\\n", " ").split())
        tables = tuple((name, digits) for name, _, digits in each)
        return cls(origin, int(size), root, tables)


# Lines may be told apart by line ends, by spaces (in a cell of a table), or by \n (in JSON).
_GAP = r"(?:\s|\\n)+"
CHECKPOINT = re.compile(
    rf"(softfair/[\w.-]+){_GAP}([0-9]{{1,12}}){_GAP}([A-Za-z0-9+/]{{43}}=)"
    rf"(?:{_GAP}tables((?:{_GAP}[a-z_]+:[0-9a-f]{{{SHORT}}})+))?"
)


def checkpoint_of(entries: Sequence[Entry], origin: str) -> Checkpoint:
    """The checkpoint after some entries."""
    tables: dict[str, bytes] = {}
    for entry in entries:
        try:
            salt, _, added = entry.parts()
        except ValueError:
            continue  # the root tells
        for name, (rows, digest) in added.items():
            text = f"{salt} {rows} {digest}".encode()
            tables[name] = hashlib.sha256(tables.get(name, b"") + text).digest()
    named = tuple((name, tables[name].hex()[:SHORT]) for name in sorted(tables))
    root = base64.b64encode(_root([entry.leaf for entry in entries])).decode()
    return Checkpoint(origin, len(entries), root, named)


def _root(leaves: Sequence[bytes]) -> bytes:
    """The Merkle tree hash of RFC 6962, section 2.1."""
    stack: list[bytes] = []  # roots of complete trees, the largest first
    for place, leaf in enumerate(leaves):
        stack.append(leaf)
        while place & 1:
            right, left = stack.pop(), stack.pop()
            stack.append(hashlib.sha256(b"\1" + left + right).digest())
            place >>= 1
    if not stack:
        return hashlib.sha256().digest()
    root = stack.pop()
    while stack:
        root = hashlib.sha256(b"\1" + stack.pop() + root).digest()
    return root


def compare(entries: Sequence[Entry], earlier: Checkpoint, origin: str) -> Iterator[str]:
    """How a log differs from what it was at a checkpoint, in sentences; none: it only grew."""
    if earlier.origin != origin:
        yield f"the checkpoint is of another programme ({earlier.origin}, this one is {origin})"
        return
    if len(entries) < earlier.size:
        yield (
            f"the log has {len(entries)} entries, at the checkpoint it had {earlier.size}: "
            f"the last {earlier.size - len(entries)} are gone"
        )
    then = checkpoint_of(entries[: earlier.size], origin)
    if len(entries) < earlier.size or then.root == earlier.root:
        return
    now = dict(then.tables)
    differ = [name for name, digits in earlier.tables if now.get(name) != digits]
    where = f": {', '.join(differ)}" if differ else ""
    yield (
        f"the log was written anew: its first {earlier.size} entries are not those "
        f"of the checkpoint{where}"
    )
