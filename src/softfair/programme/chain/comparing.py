"""The rows of all tables against the entries of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import sqlalchemy as sa

from ...progress import track
from .entries import Entry, Marks, grows_by, logged_tables
from .rows import (
    Make,
    Part,
    compact,
    digest_of,
    in_pieces,
    is_numeric,
    joined_parts,
    read_texts,
    request_part,
    rows_between,
)

__all__ = ["Columns", "Watch", "faults_of"]

Columns = Mapping[str, Mapping[str, Any]]  # by table and column
UNREADABLE = (ValueError, TypeError, OverflowError)  # a value is not of the type of its column


class _Growth(NamedTuple):
    """The rows of one table that came with an entry: numbers above low and up to high."""

    entry: Entry
    low: int
    high: int
    rows: int
    digest: str


Source = tuple[sa.Table, _Growth, Make]  # makes the rows of a table that came with an entry


class Watch(Protocol):
    """An observer of all rows while they are compared with the log."""

    def glance(self, table: sa.Table, row: Sequence[Any]) -> None:
        """Look at a row with large values, which are not kept."""

    def follow(self, texts: Columns) -> Callable[[Columns], None]:
        """Prepare to look at the rows that came with an entry, by table and column.

        Parameters
        ----------
        texts
            A key for every table with rows of the entry; its value has the columns if the table is
            not of numbers alone and is read by its key, and is empty otherwise.

        Returns
        -------
        callable
            It is called with the rows of all these tables, after the function for the entry before.
            It must not use the connection: the next rows are read meanwhile.
        """


def faults_of(
    connection: sa.Connection,
    tables: sa.MetaData,
    entries: Sequence[Entry],
    watch: Watch | None = None,
) -> list[str]:
    """Where the tables differ from what the entries say, in sentences.

    The rows of one entry are read while those of the entry before are compared. A table whose key
    does not begin with the column it grows by (observations) is held as a whole, in small types.
    """
    from ...kernels.threads import overlapped  # loads a compiler

    grown, broken = _growth(entries)
    if broken is not None:
        return [broken]
    logged, comparison = logged_tables(tables), _Comparison(connection, watch)
    for _ in overlapped(comparison.jobs(logged, grown)):
        pass
    faults = []
    for table in logged:
        faults += comparison.faults.get(table.name, [])
        if table.name not in comparison.unreadable:
            total = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            more = total - comparison.compared.get(table.name, 0)
            if more > 0:
                faults.append(f"{table.name}: {more:,} rows that no entry of the log tells of")
    return faults + [
        f"{name}: the log tells of such a table, there is none"
        for name in sorted(set(grown) - set(tables.tables))
    ]


def _growth(entries: Sequence[Entry]) -> tuple[dict[str, list[_Growth]], str | None]:
    """How each table grew, and what is wrong with the entries, if anything."""
    grown: dict[str, list[_Growth]] = {}
    before: Marks = {}
    for place, entry in enumerate(entries):
        if entry.number != place:
            fault = f"the log: entry {place} is missing, {entry.number} stands in its place"
            return grown, fault
        try:
            _, now, added = entry.parts()
            if entry.leaf.hex() != entry.stored_leaf:
                raise ValueError("altered")
        except ValueError as error:
            return grown, f"the log: entry {place}, of {entry.created}, is {error}"
        for name, (count, digest) in added.items():
            growth = _Growth(entry, before.get(name, -1), now.get(name, -1), count, digest)
            grown.setdefault(name, []).append(growth)
        before = now
    return grown, None


class _Comparison:
    """Compares the rows of a database with its log, entry by entry.

    Parameters
    ----------
    connection
        Of the transaction.
    watch
        An observer of the rows; None: there is none.
    """

    def __init__(self, connection: sa.Connection, watch: Watch | None) -> None:
        self._connection, self._watch = connection, watch
        self.faults: dict[str, list[str]] = {}  # by table
        self.compared: dict[str, int] = {}  # rows of each table that belong to some entry
        self.unreadable: set[str] = set()

    def jobs(
        self, logged: Sequence[sa.Table], grown: Mapping[str, Sequence[_Growth]]
    ) -> Iterator[Callable[[], None]]:
        """Read the rows of each entry; each job compares rows that were read."""
        by_entry: dict[int, list[tuple[sa.Table, _Growth]]] = {}
        for table in logged:
            growths = grown.get(table.name, [])
            if next(iter(table.primary_key.columns)) is grows_by(table):  # read by the key
                for growth in growths:
                    by_entry.setdefault(growth.entry.number, []).append((table, growth))
            elif growths:
                yield from (self._numbers if is_numeric(table) else self._texts)(table, growths)
        for number in track(sorted(by_entry), "checking"):
            sources: list[Source] = []
            texts: dict[str, dict[str, Any]] = {table.name: {} for table, _ in by_entry[number]}
            for table, growth in by_entry[number]:
                condition = rows_between(table, growth.low, growth.high)
                if is_numeric(table):
                    make = self._request(table, condition)
                    sources.append((table, growth, partial(_sorted_rows, make, table)))
                else:
                    part = self._read(table, condition)
                    texts[table.name] = dict(zip(part.names, part.columns, strict=True))
                    sources.append((table, growth, partial(part.cut, 0, part.count)))
            yield self._entry_job(sources, texts)

    def _texts(self, table: sa.Table, growths: Sequence[_Growth]) -> Iterator[Callable[[], None]]:
        """As `jobs`, of a table of texts that is read as a whole."""
        whole = self._read(table, sa.true())

        def make(growth: _Growth) -> Part:
            number = np.asarray(whole.columns[whole.names.index(grows_by(table).name)])
            low, high = np.searchsorted(number, [growth.low, growth.high], "right")
            return whole.cut(int(low), int(high))

        for growth in growths:
            yield self._entry_job([(table, growth, partial(make, growth))], {table.name: {}})

    def _numbers(self, table: sa.Table, growths: Sequence[_Growth]) -> Iterator[Callable[[], None]]:
        """As `jobs`, of a table of numbers that is read piece by piece, each of some persons."""
        rows_of_entry: list[list[Part]] = [[] for _ in growths]

        def share_out(make: Make) -> None:
            part = self._attempt(table, make)
            if part is None:
                return
            number = part.columns[part.names.index(grows_by(table).name)]
            order = np.argsort(number, kind="stable")  # by radix: whole numbers of few bytes
            number = number[order]
            for growth, parts in zip(growths, rows_of_entry, strict=True):
                low, high = np.searchsorted(number, [growth.low, growth.high], "right")
                rows = order[low:high]
                parts.append(Part(part.names, [compact(values[rows]) for values in part.columns]))

        def join(parts: list[Part]) -> Part:
            part = joined_parts(parts, table)
            parts.clear()  # not needed once the whole is compared
            return part

        try:
            conditions = in_pieces(self._connection, table, sa.true())
        except UNREADABLE as error:
            self._attempt(table, partial(_fail, error))
            return
        for condition in conditions:
            yield partial(share_out, self._request(table, condition))
        for growth, parts in zip(growths, rows_of_entry, strict=True):
            yield self._entry_job([(table, growth, partial(join, parts))], {table.name: {}})

    def _read(self, table: sa.Table, condition: sa.ColumnElement[bool]) -> Part:
        glance = None if self._watch is None else self._watch.glance
        return read_texts(self._connection, table, condition, glance)

    def _request(self, table: sa.Table, condition: sa.ColumnElement[bool]) -> Make:
        """As `request_part`; if the rows cannot be read, the function returned raises that."""
        try:
            return request_part(self._connection, table, condition)
        except UNREADABLE as error:
            return partial(_fail, error)

    def _entry_job(self, sources: Sequence[Source], texts: Columns) -> Callable[[], None]:
        look = None if self._watch is None else self._watch.follow(texts)
        return partial(self._entry, sources, look)

    def _attempt(self, table: sa.Table, make: Callable[[], Any]) -> Any:
        """What ``make`` returns; None if the table cannot be read, which is noted as a fault."""
        if table.name in self.unreadable:
            return None
        try:
            return make()
        except UNREADABLE:
            self.unreadable.add(table.name)
            fault = f"{table.name}: a value is not of the type of its column"
            self.faults.setdefault(table.name, []).append(fault)
            return None

    def _entry(self, sources: Sequence[Source], look: Callable[[Columns], None] | None) -> None:
        """Compare the rows of an entry, and let the watch look at them if all can be read."""
        columns = {}
        for table, growth, make in sources:
            part = self._attempt(table, make)
            if part is not None and self._attempt(
                table, partial(self._compare, table, growth, part)
            ):
                columns[table.name] = dict(zip(part.names, part.columns, strict=True))
        if look is not None and len(columns) == len(sources):
            look(columns)

    def _compare(self, table: sa.Table, growth: _Growth, part: Part) -> bool:
        now, digest = digest_of(part)
        self.compared[table.name] = self.compared.get(table.name, 0) + now
        if digest != growth.digest:
            before, entry = growth.rows, growth.entry
            fault = f"{table.name}: entry {entry.number}, of {entry.created}: " + (
                f"{before - now:,} of its {before:,} rows are gone"
                if now < before
                else f"{now - before:,} rows were put among its {before:,}"
                if now > before
                else f"of its {before:,} rows some were altered"
            )
            self.faults.setdefault(table.name, []).append(fault)
        return True


def _sorted_rows(make: Make, table: sa.Table) -> Part:
    return joined_parts([make()], table)


def _fail(error: Exception) -> Part:
    raise error
