"""Connections to a database: how each driver is set up, waits for its turn, and says what is wrong.

There is one writer at a time: a writing transaction takes a lock before it reads, so nobody else
can change what it has read before it commits. A process that is killed leaves nothing of its
transaction.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from ..errors import StoreError
from ..progress import say
from .addresses import first_line, public_name, without_password

__all__ = ["engine_of", "make_private", "plain_errors"]

PATIENCE = 600_000  # milliseconds that a writer waits for the writer before it
BUSY = 100  # milliseconds that a driver waits at a time, during which Ctrl-C does nothing
SHORT_WAIT = 10  # seconds that a driver waits for anything else, such as the end of a recovery
LOCK = 0x50F7FA12  # the advisory lock that a writer holds in PostgreSQL

# What is added to the driver's own message, by a word that occurs in it.
REMEDIES = {
    "not a database": "choose another --db, this file is something else",
    "malformed": "the file is damaged; restore it from a copy",
    "readonly": "nothing was changed; make the file and its folder writable",
    "read-only": "nothing was changed; make the database writable",
    "disk is full": "nothing was changed; free some space and repeat the command",
    "no space": "nothing was changed; free some space and repeat the command",
    "disk i/o": "nothing was changed; see whether the disk is full or failing "
    "and repeat the command",
    "unable to open": "see whether the folder exists, and whether you may read and write there",
    "password": "check user and password in --db",
    "does not exist": "check the name in --db",
    "refused": "see whether the server runs at that address",
    "locked": "another command has been writing for minutes; repeat this one",
}


def engine_of(url: sa.URL) -> sa.Engine:
    """The engine that makes the connections to a database."""
    embedded = url.get_backend_name() == "sqlite"
    arguments = {"timeout": SHORT_WAIT} if embedded else {"connect_timeout": 10}
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool, connect_args=arguments)
    if embedded:
        sa.event.listen(engine, "do_connect", _connect_sqlite)
        sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin)
    return engine


@contextmanager
def plain_errors(url: sa.URL) -> Iterator[None]:
    """Raise errors of a database as a StoreError of one line, without a password."""
    try:
        yield
    except Exception as error:
        # `append` and `fetch` call the drivers without SQLAlchemy, whose errors are then not
        # wrapped; psycopg need not be installed, so its errors are recognised by name.
        if isinstance(error, sa.exc.DBAPIError):
            text = first_line(error.orig)
        elif isinstance(error, (sqlite3.Error, OverflowError)) or type(error).__module__.startswith(
            "psycopg"
        ):
            text = first_line(error)
        else:
            raise
        remedy = next(
            (remedy for sign, remedy in REMEDIES.items() if sign in text.lower()),
            "nothing was changed",
        )
        raise StoreError(without_password(url, f"{public_name(url)}: {text}; {remedy}")) from None


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is a file.

    SQLite gives its other files the same permissions. If the file cannot be made, SQLite will say
    so.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _connect_sqlite(dialect: Any, record: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """Ask for a connection that only reads, if the file or its folder cannot be written to.

    SQLite needs to write files beside a database even to read it, unless it is told that nobody
    else changes the database. It is told so if there is no log of changes beside the database.
    """
    path = Path(arguments[0])
    if path.exists() and not (_may_write(path) and _may_write(path.parent)):
        log = path.with_name(path.name + "-wal")
        alone = not log.exists() or not log.stat().st_size
        how = "immutable=1" if alone else "mode=ro"
        arguments[0] = f"file:{quote(str(path.absolute()))}?{how}"
        options["uri"] = True
    return None


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # the driver opens no transaction: `_begin` does
    for pragma in ("foreign_keys=ON", "journal_mode=WAL", "synchronous=FULL", "cache_size=-65536"):
        with suppress(sqlite3.OperationalError):  # of a database that cannot be written to
            connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("softfair") == "write"
    if connection.dialect.name == "sqlite":
        if not writes:
            connection.exec_driver_sql("BEGIN")
            return
        connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY}")
        for last in _waiting():
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                break
            except sa.exc.OperationalError as error:
                if last or "locked" not in str(error.orig):
                    raise
        connection.exec_driver_sql(f"PRAGMA busy_timeout={1000 * SHORT_WAIT}")
    elif writes:  # READ COMMITTED: statements after the lock see all that was committed before it
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        for last in _waiting():
            if connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(LOCK))).scalar():
                return
            if last:
                raise StoreError("the database is locked; " + REMEDIES["locked"])
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _waiting() -> Iterator[bool]:
    """For each attempt to get the lock of a writer: whether it is the last.

    Between attempts Python can be interrupted; while a driver waits it cannot.
    """
    begun, told = time.monotonic(), False
    while (passed := time.monotonic() - begun) < PATIENCE / 1000:
        if passed > 2 and not told:
            told = True
            say("waiting for another command that is writing ...")
        yield False
        time.sleep(random.uniform(0.005, 0.05))
    yield True
