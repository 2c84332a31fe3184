"""The database of a programme, SQLite or PostgreSQL: transactions, and who signs them."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from ..errors import StoreError
from . import chain, schema
from .addresses import DEFAULT, public_name, readable, url_of
from .connecting import engine_of, make_private, plain_errors

__all__ = ["Connection", "Store", "names_of", "now", "plan_in_force", "sign"]

Connection = sa.Connection


def now() -> str:
    """The time that a row is stamped with."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Store:
    """One database.

    Parameters
    ----------
    url
        Path of a SQLite file, or an address such as ``postgresql+psycopg://user@host/name``.
    who
        Who signs what is written. Default: the name that the user is logged in with.

    Raises
    ------
    StoreError
        If the address cannot be read, or would keep nothing.
    """

    def __init__(self, url: str = DEFAULT, who: str | None = None) -> None:
        self.who = _login() if who is None else who
        self.rehearses = False
        with readable(url):
            self.url = url_of(url)
            self.engine = engine_of(self.url)

    @property
    def embedded(self) -> bool:
        """Whether it is a file on this machine."""
        return self.url.get_backend_name() == "sqlite"

    def signed(self, who: str) -> Store:
        """The same database, where what is written is signed by somebody else."""
        other = copy(self)
        other.who = who
        return other

    def rehearsal(self) -> Store:
        """The same database, where what is written is taken back at the end of its transaction.

        So a command can be tried: it raises what it would raise and returns what it would return.
        """
        other = copy(self)
        other.rehearses = True
        return other

    @property
    def name(self) -> str:
        """The address without a password."""
        return public_name(self.url)

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one moment of the database."""
        return self._checked("read")

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that no other writer overlaps.

        It is committed if the block ends without an exception, and rolled back otherwise.
        """
        return self._checked("write")

    @contextmanager
    def _checked(self, kind: str) -> Iterator[Connection]:
        with plain_errors(self.url), self._of_this_version(kind) as connection:
            yield connection
            if kind == "write" and connection.in_transaction():  # else it was rolled back
                if self.rehearses:
                    connection.rollback()
                else:
                    chain.seal(connection, schema.tables, now())

    def exists(self) -> bool:
        """Whether there is a programme at this address."""
        return self.version() is not None

    def version(self) -> int | None:
        """The version of the programme's schema; None if there is no programme."""
        if self._is_missing_file():
            return None
        with plain_errors(self.url), self._transaction("read") as connection:
            return self._version(connection)

    def _is_missing_file(self) -> bool:
        """Whether it is a file that does not exist; opening it would make it."""
        return self.embedded and not Path(self.name).exists()

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """A writing transaction in which the tables exist: they are made where there are none."""
        if self.exists():
            with self.writing() as connection:
                yield connection
            return
        if self.embedded:
            make_private(Path(self.name))
        with plain_errors(self.url), self._transaction("write") as connection:
            if self._version(connection) is None:  # else another process was first
                schema.tables.create_all(connection)
                connection.execute(schema.meta.insert().values(version=schema.VERSION))
            yield connection
            chain.seal(connection, schema.tables, now())

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[Connection]:
        with (
            self._connected().execution_options(softfair=kind, who=self.who) as connection,
            connection.begin(),
        ):
            yield connection

    def _connected(self) -> Connection:
        """A connection; if the server asks for a password, the person at the terminal is asked."""
        try:
            return self.engine.connect()
        except sa.exc.OperationalError as error:
            asked = "no password supplied" in str(error.orig)
            if not asked or self.embedded or not sys.stdin.isatty():
                raise
        self.url = self.url.set(password=getpass.getpass(f"Password for {self.name}: "))
        self.engine = engine_of(self.url)
        return self.engine.connect()

    def _version(self, connection: Connection) -> int | None:
        names = sa.inspect(connection).get_table_names()
        if not names:
            return None
        if "meta" not in names or "plan_row" not in names:
            raise StoreError(
                f"{self.name} is a database of something else (it has a table {names[0]!r}); "
                "choose another --db"
            )
        versions = connection.execute(sa.select(schema.meta.c.version)).scalars().all()
        if len(versions) != 1 or type(versions[0]) is not int or versions[0] < 1:
            raise StoreError(
                f"{self.name} does not say its version, somebody has altered it; "
                "restore it from a copy"
            )
        return int(versions[0])

    @contextmanager
    def _of_this_version(self, kind: str) -> Iterator[Connection]:
        """A transaction of a programme, which is brought up to date first if it is an older one."""
        with ExitStack() as stack:
            version = None
            if not self._is_missing_file():
                connection = stack.enter_context(self._transaction(kind))
                version = self._version(connection)
            if version is None:
                raise StoreError(
                    f"there is no programme at {self.name}; "
                    f"make one with: softfair init --db {self.name}"
                )
            if version != schema.VERSION:
                stack.close()
                self._migrate()
                connection = stack.enter_context(self._transaction(kind))
            yield connection

    def _migrate(self) -> None:
        """Bring an older programme up to date."""
        with self._transaction("write") as connection:
            version = self._version(connection)  # again: another process may have been first
            if version is None or version > schema.VERSION:
                raise StoreError(
                    f"{self.name} has schema version {version}, this software knows versions "
                    f"up to {schema.VERSION}; install a newer softfair"
                )
            for step in range(version, schema.VERSION):
                for statement in schema.MIGRATIONS[step]:
                    if isinstance(statement, str):
                        connection.execute(sa.text(statement))
                    else:
                        statement.create(connection)
            connection.execute(schema.meta.update().values(version=schema.VERSION))
            chain.seal(connection, schema.tables, now())


def _login() -> str:
    """The name by which the system knows who runs the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # in a container the user may have no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def sign(connection: Connection, table: sa.Table, number: int) -> None:
    """Note who made the row of a table that has this number."""
    who = connection.get_execution_options().get("who", "")
    connection.execute(schema.signature.insert().values(kind=table.name, number=number, who=who))


def names_of(connection: Connection) -> list[str]:
    """Everybody's identifier, in the order of their number."""
    p = schema.person
    names = connection.execute(sa.select(p.c.name).order_by(p.c.id)).scalars().all()
    return list(names)


def plan_in_force(connection: Connection, round: int | None) -> int | None:
    """The number of a round's latest plan; None if it has none."""
    if round is not None and not 0 <= round < schema.BEYOND:
        return None
    p = schema.plan
    query = sa.select(p.c.id).where(p.c.round == round).order_by(p.c.version.desc()).limit(1)
    number: int | None = connection.execute(query).scalar()
    return number
