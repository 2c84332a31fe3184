"""The entry that is added to the log at the end of a transaction."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...errors import InvalidInput
from ..bulk import appended, as_list, is_null
from .entries import LINK, Entry, Marks, grows_by, logged_tables
from .rows import (
    Part,
    digest_of,
    is_numeric,
    joined,
    key_of,
    layout,
    nullable,
    read_part,
    sorted_part,
)

__all__ = [
    "MANY",
    "seal",
]

MANY = 10_000  # from this many rows on, they are not read back to be digested


def seal(connection: sa.Connection, tables: sa.MetaData, moment: str) -> None:
    """Add an entry for the rows that a transaction has added, if there are any."""
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
    for table in logged_tables(tables):
        low, high = before.get(table.name, -1), marks[table.name]
        if high > low:
            count, digest = digest_of(_new_rows(connection, table, low, high))
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


def _marks(connection: sa.Connection, tables: sa.MetaData) -> Marks:
    """How far each table goes now: its highest number, or that of its parent; -1: no rows."""
    logged, highest = logged_tables(tables), []
    for table in logged:
        column = grows_by(table)
        own = len(table.primary_key.columns) == 1
        parent = table if own else tables.tables.get(column.name, table)
        highest.append(sa.select(sa.func.max(grows_by(parent))).scalar_subquery())
    marks = connection.execute(
        sa.select(*highest)
    ).one()  # one statement, because it delays every commit
    return {
        table.name: -1 if mark is None else int(mark)
        for table, mark in zip(logged, marks, strict=True)
    }


def _new_rows(connection: sa.Connection, table: sa.Table, low: int, high: int) -> Part:
    """As `read_part`, of rows that this transaction has added.

    Reading millions of rows back would take half as long as writing them. So they are taken from
    memory if all of them were appended in bulk.
    """
    calls = appended(connection, table)
    rows = sum(len(next(iter(call.values()))) for call in calls)
    if rows < MANY or not _are_all(connection, table, calls, low, high):
        return read_part(connection, table, low, high)
    if not is_numeric(table):
        return _texts_as_appended(calls, table)
    return _numbers_as_appended(calls, table, rows)


def _are_all(
    connection: sa.Connection,
    table: sa.Table,
    calls: Sequence[Mapping[str, Any]],
    low: int,
    high: int,
) -> bool:
    """Whether calls of `append` wrote all rows whose number is above ``low`` and at most ``high``.

    If they all have one number, and it is the only new one, this transaction made the batch, plan
    or trial of that number, and nothing is counted: in a table that is sorted by persons that takes
    longer than to digest the rows of a round. Had somebody put rows of that number into the table
    before, a check would name them.
    """
    column = grows_by(table)
    if high == low + 1 and all((np.asarray(call[column.name]) == high).all() for call in calls):
        return True
    query = sa.select(sa.func.count()).select_from(table).where(column > low, column <= high)
    rows = sum(len(call[column.name]) for call in calls)
    return bool(connection.execute(query).scalar_one() == rows)


def _numbers_as_appended(calls: Sequence[Mapping[str, Any]], table: sa.Table, rows: int) -> Part:
    """As `read_part`, from the calls of `append`."""
    key, names = layout(table)
    columns: dict[str, NDArray[Any]] = {"absent": np.zeros(rows, np.int8)}
    bit_of = {each.name: 2**bit for bit, each in enumerate(nullable(table))}
    for each in table.c:
        parts = [_as_appended(call, each) for call in calls]
        columns[each.name] = joined([values for values, _ in parts])
        if each.name in bit_of:
            unknown = joined([unknown for _, unknown in parts])
            columns["absent"] += unknown * np.int8(bit_of[each.name])
    return sorted_part(Part(names, [columns[name] for name in names]), key)


def _texts_as_appended(calls: Sequence[Mapping[str, Any]], table: sa.Table) -> Part:
    """As `read_texts`, from the calls of `append`."""
    columns: list[list[Any]] = [[] for _ in table.c]
    for call in calls:
        count = len(next(iter(call.values())))
        for values, each in zip(columns, table.c, strict=True):
            given = each.name in call
            values += as_list(call[each.name], each) if given else [None] * count
    key = [column.name for column in key_of(table)]
    return sorted_part(Part([each.name for each in table.c], columns), key)


def _as_appended(
    call: Mapping[str, Any], column: sa.Column[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A column in a call of `append`: its values, 0 for NULL; and whether each was NULL."""
    values, count = call.get(column.name), len(next(iter(call.values())))
    if values is None:
        return np.zeros(count, np.int8), np.ones(count, bool)
    if not column.nullable:
        return np.asarray(values), np.zeros(0, bool)
    if not isinstance(values, np.ndarray):
        values = np.array(values, np.float64)  # None becomes NaN
    unknown = is_null(values)
    return np.where(unknown, 0, values), unknown
