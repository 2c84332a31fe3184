"""Rows of a table: read from the database, put in the order of the key, and digested.

A digest covers rows in the order of the key and columns as they are stored. In a table of numbers
NULL counts as 0, and a bit in one more column, ``absent``, tells it from a number 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..bulk import fetch_columns, is_large, large_rows
from .entries import grows_by

__all__ = [
    "Glance",
    "Make",
    "Part",
    "compact",
    "digest_of",
    "in_pieces",
    "is_numeric",
    "joined",
    "joined_parts",
    "key_of",
    "layout",
    "nullable",
    "read_part",
    "read_texts",
    "request_part",
    "rows_between",
    "sorted_part",
]

BUNDLE = 4096  # persons whose rows PostgreSQL sends as one value
PERSONS = 2**13  # persons whose rows are read at a time
MOST = 2**31  # numbers of persons are smaller, unless the database was altered
CHUNK = 2**16  # numbers that are digested at a time
Glance = Callable[[sa.Table, Sequence[Any]], None]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a table, in the order of its key."""

    names: list[str]  # of the columns
    columns: list[Any]  # arrays of numbers, or lists

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.columns[0])

    def cut(self, low: int, high: int) -> Part:
        """The rows from place ``low`` up to but not including place ``high``."""
        return Part(self.names, [column[low:high] for column in self.columns])


Make = Callable[[], Part]  # makes a part of what was fetched; needs no connection


def is_numeric(table: sa.Table) -> bool:
    """Whether all columns of a table are numbers."""
    return all(isinstance(column.type, (sa.Integer, sa.Float)) for column in table.c)


def read_part(connection: sa.Connection, table: sa.Table, low: int, high: int) -> Part:
    """The rows whose number is above ``low`` and at most ``high``.

    Raises
    ------
    ValueError
        If a value of a table of numbers is not of the type of its column.
    """
    condition = rows_between(table, low, high)
    if not is_numeric(table):
        return read_texts(connection, table, condition)
    pieces = in_pieces(connection, table, condition)
    requested = [request_part(connection, table, piece) for piece in pieces]
    return joined_parts([make() for make in requested], table)


def rows_between(table: sa.Table, low: int, high: int) -> sa.ColumnElement[bool]:
    """The condition that a row's number is above ``low`` and at most ``high``."""
    return sa.and_(grows_by(table) > low, grows_by(table) <= high)


def read_texts(
    connection: sa.Connection,
    table: sa.Table,
    condition: sa.ColumnElement[bool],
    glance: Glance | None = None,
) -> Part:
    """Rows of a table that has other columns than numbers, as they are stored.

    ``glance`` is called with each row of a table with large values.
    """
    raw: list[Any] = [sa.column(column.name) for column in table.c]  # without conversion
    query = sa.select(*raw).select_from(table).where(condition)
    query = query.order_by(*key_of(table))
    look = None if glance is None else partial(glance, table)
    rows: Iterable[Any] = (
        _rows(connection, query, look) if is_large(table) else _plain_rows(connection, query)
    )
    return Part(
        [column.name for column in table.c],
        [list(values) for values in zip(*rows, strict=True)] or [[] for _ in table.c],
    )


def request_part(
    connection: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool]
) -> Make:
    """Fetch rows of a table of numbers; the function returned makes a part of them, unsorted."""
    _, names = layout(table)
    decode = fetch_columns(connection, table, names[:-1], condition, BUNDLE)

    def make() -> Part:
        columns, absent = decode()
        return Part(names, [compact(values) for values in (*columns, absent)])

    return make


def joined_parts(parts: list[Part], table: sa.Table) -> Part:
    """All rows of several parts of a table of numbers as one part, in the order of the key."""
    key, names = layout(table)
    by_column = zip(*(part.columns for part in parts), strict=True)
    return sorted_part(Part(names, [joined(list(pieces)) for pieces in by_column]), key)


def _plain_rows(connection: sa.Connection, query: sa.Select[Any]) -> list[Any]:
    """All rows of a query as the driver has them.

    SQLAlchemy's rows of two texts, one after the other, take three times as long.
    """
    cursor: Any = connection.execute(query).cursor
    rows: list[Any] = cursor.fetchall()
    return rows


def _rows(
    connection: sa.Connection, query: sa.Select[Any], glance: Callable[[Any], None] | None
) -> Iterator[list[Any]]:
    """The rows of a query, with the SHA-256 of each binary value in its place.

    ``glance`` is called with each row as it is stored.
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


def in_pieces(
    connection: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool]
) -> list[sa.ColumnElement[bool]]:
    """Conditions that split the rows of one condition into pieces of bounded size.

    A table whose key begins with the number of a person is split by persons. Each piece but the
    first begins with a person who has rows: one row of a person far beyond all others, which only
    an altered database has, does not make thousands of pieces without rows.
    """
    first = next(iter(table.primary_key.columns))
    if first is grows_by(table):
        return [condition]
    ends: list[int] = []
    while True:
        beyond = ends[-1] + PERSONS if ends else PERSONS
        person = connection.execute(sa.select(sa.func.min(first)).where(first >= beyond)).scalar()
        # SQLite has texts after all numbers; they are met, and refused, in the last piece.
        if not isinstance(person, int) or person >= MOST:
            break
        ends.append(person)
    begins = [None, *ends]
    return [
        sa.and_(
            condition,
            sa.true() if low is None else first >= low,
            sa.true() if high is None else first < high,
        )
        for low, high in zip(begins, [*ends, None], strict=True)
    ]


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the smallest type that holds them: there may be many millions."""
    low, high = values.min(initial=0), values.max(initial=0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:  # false with nan
            small = values.astype(kind)
            exact = values.dtype.kind == "i" or np.array_equal(values, small)
            return small if exact else values
    return values


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Several arrays as one; a single array is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def layout(table: sa.Table) -> tuple[list[str], list[str]]:
    """Names of a table of numbers: the columns that rows are sorted by, and those digested."""
    key = key_of(table)
    first = key[-1]  # PostgreSQL sends rows in bundles by it
    others = [column.name for column in table.c if column is not first]
    return [column.name for column in key], [first.name, *others, "absent"]


def key_of(table: sa.Table) -> list[sa.Column[Any]]:
    """The columns of the key; first the column that the table grows by.

    Each column is named once: if one were named twice, SQLite would sort rows that an index already
    has in order.
    """
    growth = grows_by(table)
    return [growth, *(column for column in table.primary_key.columns if column is not growth)]


def nullable(table: sa.Table) -> list[sa.Column[Any]]:
    """The columns of a table that may be NULL."""
    return [column for column in table.c if column.nullable]


def sorted_part(part: Part, key: list[str]) -> Part:
    """The same rows in the order of the key."""
    columns = [np.asarray(part.columns[part.names.index(name)]) for name in key]
    if _ascend(columns):
        return part
    # Millions of rows usually come in the order of the rest of the key: a stable sort is enough.
    if _ascend(columns[1:]):
        order = np.argsort(columns[0], kind="stable")
    else:
        order = np.lexsort(columns[::-1])
    return Part(part.names, [_in_order(values, order) for values in part.columns])


def _in_order(values: Any, order: NDArray[np.intp]) -> Any:
    """The values of a column, an array or a list, in another order."""
    if isinstance(values, np.ndarray):
        return values[order]
    return [values[place] for place in order.tolist()]


def _ascend(columns: list[NDArray[Any]]) -> bool:
    """Whether rows ascend, compared by the first column in which they differ."""
    equal = np.ones(max(len(columns[0]) - 1, 0), bool) if columns else np.ones(0, bool)
    for values in columns:
        if (equal & (values[1:] < values[:-1])).any():
            return False
        equal &= values[1:] == values[:-1]
    return True


def digest_of(part: Part) -> tuple[int, str]:
    """The number of rows of a part, and the SHA-256 of their content."""
    digest = hashlib.sha256(json.dumps([part.names, part.count]).encode())
    for values in part.columns:
        if isinstance(values, np.ndarray):
            for first in range(0, len(values), CHUNK):
                chunk = values[first : first + CHUNK].astype("<f8")
                if values.dtype.kind == "f":
                    chunk += 0.0  # turns -0 into 0, as SQLite does
                digest.update(chunk.data)
        else:
            digest.update(json.dumps(values).encode())
    return part.count, digest.hexdigest()
