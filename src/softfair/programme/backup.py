"""A copy of a whole programme, while others go on writing.

The copy is a SQLite file, whichever database the programme is in: it holds the same rows under the
same numbers, and can be opened with ``--db`` as it is. It is taken within one reading transaction,
so it is of one moment. Restoring copies it into an empty database of either kind.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from ..errors import InvalidInput
from ..files import refuse_address
from ..progress import track
from . import schema
from .bulk import CHUNK, insert, is_large
from .store import Connection, Store

__all__ = ["backup", "restore"]

PLAIN = (sa.Integer, sa.Float, sa.Text)  # types whose values are stored as they are


def backup(database: Store, path: Path) -> int:
    """Copy a programme to a file.

    Parameters
    ----------
    database
        The programme; it is not changed.
    path
        The file, which must not be there yet.

    Returns
    -------
    int
        How many rows were copied.

    Raises
    ------
    InvalidInput
        If the file is there already, or cannot be written.
    """
    refuse_address(path)
    if os.path.lexists(path):
        raise InvalidInput(f"{path} is there already; choose another name, or move it away")
    unfinished = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        rows = _copy(database, Store(str(unfinished)))
        _settle(unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}; choose another place") from None
    finally:
        for left in (unfinished, Path(f"{unfinished}-wal"), Path(f"{unfinished}-shm")):
            with suppress(OSError):  # there is no such file, or the name is not valid
                left.unlink()
    return rows


def restore(path: Path, database: Store) -> int:
    """Copy a programme from a file into a database without one.

    Parameters
    ----------
    path
        A file that `backup` made, or any SQLite file of a programme.
    database
        Where the programme will be.

    Returns
    -------
    int
        How many rows were copied.

    Raises
    ------
    InvalidInput
        If there is no such file, or a programme is in the database already.
    """
    refuse_address(path)
    if not path.exists():
        raise InvalidInput(f"there is no file {path}; give one that softfair backup made")
    if database.exists():
        raise InvalidInput(
            f"there is a programme in {database.name} already; restore into another --db"
        )
    return _copy(Store(str(path)), database)


def _copy(source: Store, target: Store) -> int:
    """Copy every row, in one transaction of each database; return how many there were."""
    total = 0
    with source.reading() as reading, target.creating() as writing:
        for table in track(schema.whole_tables(), "copying"):
            if table is schema.meta:  # the target has its own
                continue
            names = [column.name for column in table.c]
            at_once = 1 if is_large(table) else CHUNK
            rows = reading.execution_options(yield_per=at_once).execute(sa.select(table))
            for chunk in rows.partitions(at_once):
                if all(isinstance(column.type, PLAIN) for column in table.c):
                    columns = zip(*chunk, strict=True)
                    insert(writing, table, dict(zip(names, columns, strict=True)))
                else:
                    writing.execute(table.insert(), [row._asdict() for row in chunk])
                total += len(chunk)
            _advance(writing, table)
    return total


def _advance(connection: Connection, table: sa.Table) -> None:
    """In PostgreSQL, make the next number of a table follow the numbers that were copied."""
    keys = list(table.primary_key.columns)
    if connection.dialect.name != "postgresql" or len(keys) != 1 or keys[0].autoincrement is False:
        return
    last = connection.execute(sa.select(sa.func.max(keys[0]))).scalar()
    if last is not None:
        sequence = sa.func.pg_get_serial_sequence(table.name, keys[0].name)
        connection.execute(sa.select(sa.func.setval(sequence, last)))


def _settle(path: Path) -> None:
    """Put all of a SQLite database into one file, without a log beside it."""
    import sqlite3

    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
    finally:
        connection.close()
