"""Many rows at a time, by the fastest way that each driver has."""

from __future__ import annotations

import array
import io
import itertools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import StoreError
from ..progress import track

__all__ = [
    "MANY",
    "UNKNOWN",
    "append",
    "appended",
    "as_list",
    "fetch",
    "fetch_columns",
    "insert",
    "is_large",
    "is_null",
    "large_rows",
    "taken",
]

Connection = sa.Connection
Number = TypeVar("Number", np.int64, np.float64)

MANY = 1_000_000  # from this many rows on, work takes seconds and is announced
UNKNOWN = -1  # NULL in an array: a state or contact that was not observed, a round that is not set
# Rows whose first number has the same quotient by this are fetched from PostgreSQL as one value:
# with keys of person * 2**31 + round, those of 1024 people.
BUNDLE = 2**41
APPENDED = "softfair_appended"  # where a connection keeps what was appended to each table
CHUNK = 100_000  # rows that are written at a time, after each of which the progress bar moves
PARAMETERS = 999  # how many every SQLite takes in a statement
NULL = str(-(2**63))  # stands for NULL in a list of whole numbers, which may not hold this number


def append(
    connection: Connection,
    table: sa.Table,
    columns: Mapping[str, Any],
    description: str = "writing",
) -> None:
    """Add rows to a table by the fastest way that the driver has.

    Parameters
    ----------
    connection
        Of a writing transaction.
    table
        One of the tables of `schema`.
    columns
        Name of a column -> its values, arrays or lists of one length. In an array for a column that
        may be NULL, UNKNOWN (of whole numbers) or nan becomes NULL.
    description
        What the progress bar says.
    """
    if len(next(iter(columns.values()))):
        connection.info.setdefault(APPENDED, {}).setdefault(table.name, []).append(columns)
        insert(connection, table, columns, description)


def insert(
    connection: Connection,
    table: sa.Table,
    columns: Mapping[str, Any],
    description: str | None = None,
) -> None:
    """As `append`, without keeping the rows at hand for the log until the transaction ends.

    Parameters
    ----------
    connection, table, columns
        As for `append`; at least one row.
    description
        What the progress bar says. Default: there is none.
    """
    pieces = range(0, len(next(iter(columns.values()))), CHUNK)
    chunks = (
        {
            name: as_list(values[first : first + CHUNK], table.c[name])
            for name, values in columns.items()
        }
        for first in (pieces if description is None else track(pieces, description))
    )
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        quote = connection.dialect.identifier_preparer.quote
        into = f"INSERT INTO {quote(table.name)} ({', '.join(map(quote, columns))}) VALUES "
        for chunk in chunks:
            _insert(driver, into, list(chunk.values()))
        return
    import pyarrow as pa
    import pyarrow.csv

    quoted = ", ".join(connection.dialect.identifier_preparer.quote(name) for name in columns)
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY {table.name} ({quoted}) FROM STDIN (FORMAT csv)") as copy,
    ):
        for chunk in chunks:
            buffer = io.BytesIO()
            try:
                rows = pa.table(chunk)
            except pa.ArrowException:
                raise StoreError(
                    f"{table.name}: a value is not of the type of its column; see: softfair check"
                ) from None
            pyarrow.csv.write_csv(rows, buffer, pyarrow.csv.WriteOptions(include_header=False))
            copy.write(buffer.getvalue())


def _insert(driver: Any, into: str, columns: list[list[Any]]) -> None:
    """Insert rows into SQLite, many in a statement, which takes less than half of the time."""
    width, count = len(columns), len(columns[0])
    several = PARAMETERS // width
    row = f"({', '.join('?' * width)})"
    numbers = itertools.chain.from_iterable(zip(*columns, strict=True))
    for rows, times in ((several, count // several), (count % several, 1)):
        if rows:
            each = (tuple(itertools.islice(numbers, rows * width)) for _ in range(times))
            driver.executemany(into + ", ".join([row] * rows), each)


def appended(connection: Connection, table: sa.Table) -> list[Mapping[str, Any]]:
    """The columns of each call of `append` for a table, in this transaction."""
    calls: list[Mapping[str, Any]] = connection.info.get(APPENDED, {}).get(table.name, [])
    return calls


def as_list(values: Any, column: sa.Column[Any]) -> list[Any]:
    """The values of a column as a driver takes them: None for NULL."""
    if not isinstance(values, np.ndarray):
        return list(values)
    if column.nullable and (unknown := is_null(values)).any():
        values = values.astype(object)
        values[unknown] = None
    plain: list[Any] = values.tolist()
    return plain


def taken(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """values[places], in pieces: meanwhile NumPy holds each place as a number of eight bytes."""
    chosen = np.empty(len(places), values.dtype)
    for first in range(0, len(places), CHUNK):
        chosen[first : first + CHUNK] = values[places[first : first + CHUNK]]
    return chosen


def is_large(table: sa.Table) -> bool:
    """Whether one row of a table may have many megabytes."""
    return any(isinstance(column.type, sa.LargeBinary) for column in table.c)


def large_rows(connection: Connection, query: sa.Select[Any]) -> sa.CursorResult[Any]:
    """The rows of a query, of which only one is held in memory at a time."""
    one_by_one = {"stream_results": True, "max_row_buffer": 1}
    return connection.execute(query, execution_options=one_by_one)


def is_null(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value in an array for a nullable column stands for NULL: UNKNOWN, or nan."""
    unknown: NDArray[np.bool_]
    unknown = np.isnan(values) if values.dtype.kind == "f" else np.equal(values, UNKNOWN)
    return unknown


def fetch(
    connection: Connection, query: sa.SelectBase, kind: type[Number], bundle: int = BUNDLE
) -> NDArray[Number]:
    """All rows of a query of numbers, by the fastest way that the driver has.

    Parameters
    ----------
    connection
        Of any transaction.
    query
        Columns of numbers without NULL; its parameters are whole numbers.
    kind
        numpy.int64 or numpy.float64.
    bundle
        Rows whose first number has the same quotient by this are fetched from PostgreSQL as one
        value, which must stay below a gigabyte.

    Returns
    -------
    numpy.ndarray
        [rows, columns], rows in any order.
    """
    width = len(query.selected_columns)
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        rows = driver.execute(_literal(connection, query))
        return np.fromiter(itertools.chain.from_iterable(rows), kind).reshape(-1, width)
    return _unbundled(_bundles(connection, query, kind, bundle), kind, width)


def _bundles(
    connection: Connection, query: sa.SelectBase, kind: type[Number], bundle: int
) -> Sequence[bytes]:
    """The rows of a query as PostgreSQL sends them fastest.

    A row at a time would take ten times as long. The server concatenates thousands of rows, eight
    bytes a number, and sends them as one value, whose bytes are not written as text. It is told not
    to sort: it expects a bundle for every few rows, and would sort millions of them on disk.
    """
    named = query.subquery()
    integers = kind is np.int64
    send, cast = (sa.func.int8send, sa.BigInteger) if integers else (sa.func.float8send, sa.Double)
    row: sa.ColumnElement[Any] = send(sa.cast(named.c[0], cast))
    for column in list(named.c)[1:]:
        row = row.op("||")(send(sa.cast(column, cast)))
    group = sa.cast(named.c[0], sa.BigInteger).op("/")(bundle)
    nothing: sa.ColumnElement[Any] = sa.literal_column("''::bytea")
    bundles = sa.select(sa.func.string_agg(row, nothing)).group_by(group)
    driver: Any = connection.connection.driver_connection
    with driver.cursor(binary=True) as cursor:
        cursor.execute("SET LOCAL enable_sort = off")
        sent = [value for (value,) in cursor.execute(_literal(connection, bundles))]
        cursor.execute("SET LOCAL enable_sort = on")
    return sent


def _literal(connection: Connection, query: sa.SelectBase) -> str:
    """A query as a text; safe, because its parameters are whole numbers of the package."""
    literal = {"literal_binds": True}
    return str(query.compile(dialect=connection.dialect, compile_kwargs=literal))


def _unbundled(bundles: Sequence[bytes], kind: type[Number], width: int) -> NDArray[Number]:
    content = np.frombuffer(b"".join(bundles), ">i8" if kind is np.int64 else ">f8")
    return content.astype(kind).reshape(-1, width)


def fetch_columns(
    connection: Connection,
    table: sa.Table,
    names: list[str],
    where: sa.ColumnElement[bool],
    bundle: int = BUNDLE,
) -> Callable[[], tuple[list[NDArray[Any]], NDArray[Any]]]:
    """Columns of a table of numbers, by the fastest way that the driver has.

    Parameters
    ----------
    connection
        Of any transaction.
    table
        One with numbers alone.
    names
        Names of the columns.
    where
        The condition of the rows; its parameters are whole numbers.
    bundle
        As for `fetch`; it divides the numbers of the first column.

    Returns
    -------
    callable
        Makes arrays of what the database has sent; it needs no connection, and raises ValueError as
        this function does. It returns the values of each column [rows], 0 for NULL, rows in any
        order; and which columns are NULL [rows]: the sum of 2**j over them, where j counts the
        nullable columns of the table.

    Raises
    ------
    ValueError
        If SQLite, which holds any type in any column, has something else than a number in one, or
        NULL in a column that cannot be NULL.
    """
    nullable = [column for column in table.c if column.nullable]
    if connection.dialect.name == "sqlite":
        sent = _sqlite_columns(connection, [table.c[name] for name in names], where)

        def of_sqlite() -> tuple[list[NDArray[Any]], NDArray[Any]]:
            columns, unknown = zip(*(one() for one in sent), strict=True)
            for name, of_column in zip(names, unknown, strict=True):
                if not table.c[name].nullable and of_column.any():
                    raise ValueError(f"{name} is NULL in some row")  # without its constraint
            absent = np.zeros(len(columns[0]), np.int8)
            for bit, column in enumerate(nullable):
                absent += np.int8(2**bit) * unknown[names.index(column.name)]
            return list(columns), absent

        return of_sqlite
    bits: sa.ColumnElement[Any] = sa.literal_column("0")
    for bit, column in enumerate(nullable):
        bits = bits + sa.case((column.is_(None), sa.literal_column(str(2**bit))), else_=0)
    picked = [
        sa.func.coalesce(table.c[name], 0) if table.c[name].nullable else table.c[name]
        for name in names
    ]
    labelled = (one.label(f"column_{j}") for j, one in enumerate([*picked, bits]))
    bundles = _bundles(connection, sa.select(*labelled).where(where), np.float64, bundle)

    def of_bundles() -> tuple[list[NDArray[Any]], NDArray[Any]]:
        numbers = _unbundled(bundles, np.float64, len(names) + 1)
        return list(numbers[:, :-1].T), numbers[:, -1]

    return of_bundles


class _Numbers:
    """Gathers the numbers of a column in SQLite."""

    def __init__(self) -> None:
        self._gathered = array.array("d")
        self.step = self._gathered.append  # refuses what is no number

    def finalize(self) -> bytes:
        return self._gathered.tobytes()


def _sqlite_columns(
    connection: Connection, columns: list[sa.Column[Any]], where: sa.ColumnElement[bool]
) -> list[Callable[[], tuple[NDArray[Any], NDArray[np.bool_]]]]:
    """For each column, a function that makes its values, 0 for NULL, and tells where it is NULL.

    The driver takes some 0.15 microseconds for each value of each row. So SQLite itself writes the
    whole numbers of a column as one text, which NumPy reads in a sixth of that time. SQLite's text
    of other numbers is not exact, so those that are not 0 are gathered one by one (`_Numbers`).
    """
    driver: Any = connection.connection.driver_connection
    driver.create_aggregate("softfair_numbers", 1, _Numbers)
    picked: list[sa.ColumnElement[Any]] = []
    for column in columns:
        if isinstance(column.type, sa.Float):
            some = column != sa.literal_column("0")
            picked.append(sa.func.json_group_array(some))
            picked.append(sa.func.softfair_numbers(column).filter(some))
        else:
            picked.append(sa.func.json_group_array(column))
    query = sa.select(*picked).where(where)
    try:
        answers = iter(driver.execute(_literal(connection, query)).fetchone())
    except sqlite3.OperationalError as error:
        if "user-defined aggregate" in str(error) or "JSON cannot hold" in str(error):
            raise ValueError("something is no number") from None
        raise
    return [
        partial(_numbers, next(answers), next(answers) or b"")
        if isinstance(column.type, sa.Float)
        else partial(_whole_numbers, next(answers))
        for column in columns
    ]


def _numbers(which: str, content: bytes) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers from a JSON list that has 1 for those that are not 0; and where the list has null."""
    some, absent = _whole_numbers(which)
    numbers = np.zeros(len(some))
    numbers[some == 1] = np.frombuffer(content, np.float64)
    return numbers, absent


def _whole_numbers(text: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The numbers of a JSON list, 0 for null; and where the list has null."""
    if text.encode().translate(None, b"0123456789,-[]nul") or NULL in text:
        raise ValueError("something is no whole number")
    many = text.count("null")
    if many and len(text) == 5 * many + 1:  # nulls alone
        return np.zeros(many, np.int64), np.ones(many, bool)
    inside = text[1:-1].replace("null", NULL)
    numbers = np.fromstring(inside, np.int64, sep=",") if inside else np.empty(0, np.int64)
    if len(inside) == len(text) - 2:  # nothing was replaced
        return numbers, np.zeros(len(numbers), bool)
    unknown = numbers == int(NULL)
    numbers[unknown] = 0
    return numbers, unknown
