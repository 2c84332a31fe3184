"""The database of a programme, SQLite or PostgreSQL: its tables, and how they are read and written.

Every table but the last only grows. What is corrected or replaced stays in the database: of several
rows about the same thing, the one with the highest batch (or version) is in force.

    meta          the version of this schema
    setting       what the programme is: round, capacity, horizon, states, policy
                  (the latest row is in force)
    batch         one import, record or retraction, with the digest of its content
    person        an identifier and the whole number that stands for it elsewhere
    person_fact   groups, enrolled, departed, opted out, reserved, absent, details such as a
                  telephone number (latest batch in force)
    observation   state at the start of a round, the value that it was made of, contact during it;
                  NULL is unknown (latest batch in force, column by column)
    model         estimated transition probabilities, with what they were made from
    plan          one draw: seed, c, capacity, model, software, digest of its whole content
                  (latest version in force)
    plan_row      each person's part in it: state, score, probability, on the list or why not
    reserve       the order in which a plan's people are called: the list first, then who is next
    call          who was called from the reserve, or taken off a list (the latest row in force)
    signature     who made a batch, setting, model, plan, call, commitment or trial
    commitment    a plan whose luck is still open (see `plans.making`)
    trial         what was asked of a trial, what was known of its people, and its key
    assignment    the arm of each person of a trial (see `assignment`)
    account       who may use the pages and the API, and how far (latest row of a name in force)
    visit         who signed in and out (see `softfair.web.accounts`)
    attempt       that somebody failed to sign in, without their name or address
    link          one entry of the log for each transaction: what it added to the tables above
                  (see `chain`)
    track         what is in force of each round, derived from observations (see `tracks`): the only
                  table whose rows are replaced, and outside of the log

A batch that a later one retracts is not in force: see `retractions`.

There is one writer at a time: a writing transaction takes a lock before it reads, so nobody else
can change what it has read before it commits. A process that is killed leaves nothing of its
transaction.

The multiplier c may be infinite, which neither JSON nor every database can store. In memory it is
``math.inf``. In the column ``plan.c`` it is -1 (`Multiplier`), in stored and printed JSON the text
"inf" (`c_to_json`, `c_from_json`).
"""

from __future__ import annotations

import getpass
import math
import os
import random
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from ..errors import StoreError
from ..progress import say
from . import chain
from .bulk import UNKNOWN, append, fetch

__all__ = [
    "DEFAULT",
    "IS_LISTED",
    "MANY",
    "UNKNOWN",
    "VERSION",
    "Connection",
    "Multiplier",
    "Store",
    "account",
    "append",
    "assignment",
    "attempt",
    "batch",
    "c_from_json",
    "c_to_json",
    "call",
    "commitment",
    "fetch",
    "link",
    "meta",
    "model",
    "model_part",
    "names_of",
    "now",
    "observation",
    "person",
    "person_fact",
    "plan",
    "plan_in_force",
    "plan_row",
    "reserve",
    "setting",
    "sign",
    "signature",
    "track",
    "trial",
    "visit",
    "whole_tables",
]

Connection = sa.Connection

VERSION = 9  # of the schema below
DEFAULT = "softfair.db"
MANY = 1_000_000  # from this many rows on, work takes seconds and is announced
PATIENCE = 600_000  # milliseconds that a writer waits for the one before
BUSY = 100  # milliseconds of these that a driver waits at a time, during which Ctrl-C does nothing
SHORT_WAIT = 10  # seconds that a driver waits for anything else, such as the end of a recovery
LOCK = 0x50F7FA12  # the advisory lock that a writer holds in PostgreSQL


class Multiplier(sa.types.TypeDecorator[float]):
    """A column of multipliers c, in which infinity is stored as -1."""

    impl = sa.Float(53)
    cache_ok = True

    @staticmethod
    def encode(c: float) -> float:
        """What is stored for c; digests of plans cover this value."""
        return -1.0 if math.isinf(c) else c

    def process_bind_param(self, value: float | None, dialect: sa.Dialect) -> float | None:
        return None if value is None else self.encode(value)

    def process_result_value(self, value: float | None, dialect: sa.Dialect) -> float | None:
        return math.inf if value is not None and value < 0 else value


def c_to_json(c: float) -> float | str:
    """A multiplier c as JSON has it: a number, or "inf"."""
    return "inf" if math.isinf(c) else c


def c_from_json(c: float | str) -> float:
    """The inverse of `c_to_json`."""
    return float(c)


tables = sa.MetaData()
small, whole = sa.SmallInteger, sa.Integer

meta = sa.Table("meta", tables, sa.Column("version", whole, nullable=False))
setting = sa.Table(
    "setting",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("software", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),  # JSON
)
batch = sa.Table(
    "batch",
    tables,
    sa.Column("id", whole, primary_key=True),
    # people, history, record, threshold (states made anew from values), retraction
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
    sa.Column("rows", whole, nullable=False),  # in the file
    sa.Column("stored", whole, nullable=False),  # of these, new or changed
    sa.Column("round", whole),  # for a record
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("software", sa.Text, nullable=False),
    sa.Column("file", sa.Text),  # its name
    sa.Column("closes", small),  # 1: with it all is told about the round
    sa.Column("retracts", whole),  # the batch that is no longer in force
    sa.Column("reason", sa.Text),  # why it retracts, or what was said with the entries
    sa.Column("read_as", sa.Text),  # JSON: see `columns.ReadAs`
)
person = sa.Table(
    "person",
    tables,
    sa.Column("id", whole, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("batch", whole, sa.ForeignKey("batch.id"), nullable=False),
)
person_fact = sa.Table(
    "person_fact",
    tables,
    sa.Column("person", whole, sa.ForeignKey("person.id"), primary_key=True, autoincrement=False),
    sa.Column("batch", whole, sa.ForeignKey("batch.id"), primary_key=True, autoincrement=False),
    sa.Column("groups", sa.Text, nullable=False),  # JSON, such as {"region": "north"}
    sa.Column("enrolled", whole),  # first round in the programme; NULL: from the start
    sa.Column("departed", whole),  # first round no longer in it; NULL: still here
    sa.Column("opted_out", small, nullable=False),
    sa.Column("reserved", whole),  # round in which a contact is arranged already
    sa.Column("absent_from", whole),  # first and last round of an absence; NULL: none, open
    sa.Column("absent_to", whole),
    sa.Column("details", sa.Text),  # JSON: what worksheets may show, such as {"phone": "123"}
    sqlite_with_rowid=False,
)
# The two long tables refer to persons, batches and plans without foreign keys: checking each of
# millions of rows would take most of the time, and the numbers come from the same transaction.
observation = sa.Table(
    "observation",
    tables,
    sa.Column("person", whole, primary_key=True, autoincrement=False),
    sa.Column("round", whole, primary_key=True, autoincrement=False),
    sa.Column("batch", whole, primary_key=True, autoincrement=False),
    sa.Column("state", small),
    sa.Column("contacted", small),
    sa.Column("value", sa.Float(53)),  # that the state was made of; NULL: it came as a state
    sqlite_with_rowid=False,
)
track = sa.Table(
    "track",
    tables,
    sa.Column("round", whole, primary_key=True, autoincrement=False),
    # Of everybody, in the order of their number: one byte each, or two if there are many states.
    sa.Column("state", sa.LargeBinary, nullable=False),  # -1: not seen, -2: no entry
    sa.Column("contacted", sa.LargeBinary, nullable=False),  # one byte each; -1: not told of
)
signature = sa.Table(
    "signature",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # the table, such as batch or plan
    sa.Column("number", whole, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.UniqueConstraint("kind", "number"),
)
model = sa.Table(
    "model",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("software", sa.Text, nullable=False),
    sa.Column("batch", whole, nullable=False),  # the last one that it has seen
    sa.Column("settings", sa.Text, nullable=False),  # JSON: what it was asked for
    sa.Column("summary", sa.Text, nullable=False),  # JSON: what was learnt
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),  # arrays, NumPy's npz: the first part
)
# The other parts of a model's content: neither database takes a value of a gigabyte, and a driver
# copies a value several times on its way.
model_part = sa.Table(
    "model_part",
    tables,
    sa.Column("model", whole, primary_key=True, autoincrement=False),
    sa.Column("number", whole, primary_key=True, autoincrement=False),  # 1, 2, ...
    sa.Column("content", sa.LargeBinary, nullable=False),
)
plan = sa.Table(
    "plan",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("round", whole, nullable=False),
    sa.Column("version", whole, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("software", sa.Text, nullable=False),
    sa.Column("model", whole, sa.ForeignKey("model.id"), nullable=False),
    sa.Column("batch", whole, nullable=False),  # the last one that it has seen
    sa.Column("setting", whole, sa.ForeignKey("setting.id"), nullable=False),
    sa.Column("c", Multiplier, nullable=False),
    sa.Column("horizon", whole, nullable=False),  # rounds looked ahead, this one included
    sa.Column("seed", sa.Text, nullable=False),  # hexadecimal: the key of the draw
    sa.Column("sites", sa.Text, nullable=False),  # JSON: [[name, capacity], ...]
    sa.Column("outlook", sa.Text, nullable=False),  # JSON: see outlook.Outlook
    sa.Column("reason", sa.Text),  # why it replaces the version before
    # Of all of these, of the rows, of the people's identifiers and of the digest before.
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("luck", sa.Text),  # JSON: see luck.Luck; NULL: by position, as older versions drew
    sa.UniqueConstraint("round", "version"),
)
plan_row = sa.Table(
    "plan_row",
    tables,
    sa.Column("plan", whole, primary_key=True, autoincrement=False),
    sa.Column("person", whole, primary_key=True, autoincrement=False),
    sa.Column("status", small, nullable=False),  # see eligibility.Status
    sa.Column("site", small, nullable=False),  # index into plan.sites; -1: none
    sa.Column("state", small, nullable=False),  # observed now; -1: not seen
    sa.Column("score", sa.Float(53), nullable=False),  # lambda
    sa.Column("bonus", sa.Float(53), nullable=False),  # what evenness adds to it
    sa.Column("probability", sa.Float(53), nullable=False),
    sa.Column("listed", small, nullable=False),
    sqlite_with_rowid=False,
)
# Every command reads the lists of all rounds, and of a plan's people few are on the list.
IS_LISTED = plan_row.c.listed == sa.literal_column("1")  # in the words of the index
listed_rows = sa.Index(
    "plan_row_listed",
    plan_row.c.plan,
    plan_row.c.person,
    sqlite_where=IS_LISTED,
    postgresql_where=IS_LISTED,
)
reserve = sa.Table(
    "reserve",
    tables,
    sa.Column("plan", whole, primary_key=True, autoincrement=False),
    sa.Column("person", whole, primary_key=True, autoincrement=False),
    sa.Column("place", whole, nullable=False),  # at their site: 1 is called first
    # Of being among those in reserve, given the list; 0 for who is on it.
    sa.Column("chance", sa.Float(53), nullable=False),
    sqlite_with_rowid=False,
)
call = sa.Table(
    "call",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("software", sa.Text, nullable=False),
    sa.Column("plan", whole, sa.ForeignKey("plan.id"), nullable=False),
    sa.Column("person", whole, sa.ForeignKey("person.id"), nullable=False),
    sa.Column("calls", small, nullable=False),  # 1: is to be called; 0: not any more
    sa.Column("why", sa.Text, nullable=False),  # see calls.Why
    sa.Column("reason", sa.Text),  # an officer's, where the order was not followed
)
commitment = sa.Table(
    "commitment",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("round", whole, nullable=False),
    sa.Column("beacon", sa.BigInteger, nullable=False),  # the round of the chain of beacons
    sa.Column("header", sa.Text, nullable=False),  # JSON
    sa.Column("content", sa.LargeBinary, nullable=False),  # arrays, NumPy's npz
    sa.Column("digest", sa.Text, nullable=False),
)
trial = sa.Table(
    "trial",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("software", sa.Text, nullable=False),
    sa.Column("setting", whole, sa.ForeignKey("setting.id"), nullable=False),
    sa.Column("first", whole, nullable=False),  # its first and last round
    sa.Column("last", whole, nullable=False),
    sa.Column("seed", sa.Text, nullable=False),  # hexadecimal: the key of its luck
    sa.Column("design", sa.Text, nullable=False),  # JSON: see assignment.Design
    sa.Column("power", sa.Text, nullable=False),  # JSON: what was told beforehand
    sa.Column("content", sa.LargeBinary, nullable=False),  # what was known of units, NumPy's npz
)
assignment = sa.Table(
    "assignment",
    tables,
    sa.Column("trial", whole, primary_key=True, autoincrement=False),
    sa.Column("person", whole, primary_key=True, autoincrement=False),
    sa.Column("unit", whole, nullable=False),  # row of the trial's content
    sa.Column("arm", small, nullable=False),  # place in the design's arms
    sqlite_with_rowid=False,
)
account = sa.Table(
    "account",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("made_by", sa.Text, nullable=False),  # who made the row
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),  # viewer, worker, officer, admin; none: closed
    sa.Column("scope", sa.Text),  # JSON: [column, value] of the people whom a worker sees
    sa.Column("secret", sa.Text, nullable=False),  # Argon2 of a password, or a token's SHA-256
)
visit = sa.Table(
    "visit",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("account", whole, sa.ForeignKey("account.id"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # link (that signs in once), begin, end
    sa.Column("digest", sa.Text, nullable=False),  # SHA-256 of the key that the browser holds
)
attempt = sa.Table(
    "attempt",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("place", sa.Text, nullable=False),  # HMAC of the address that it came from
    sa.Column("whose", sa.Text, nullable=False),  # ... of that and the name that was given
)
link = chain.link_table(tables)

# The statements that turn a database of one version into the next; a table or an index stands for
# its making.
# Version 1 had no reservations; version 2 had no bonuses, files' names, retractions, absences,
# details, values, signatures, luck of persons, commitments and log; version 3 had neither reserves
# nor accounts; version 4 had no trials; version 5 had no attempts to sign in; version 6 had no
# tracks; version 7 had no index of those who are on a list; version 8 had models of one part.
MIGRATIONS: dict[int, Sequence[str | sa.Table | sa.Index]] = {
    1: ("ALTER TABLE person_fact ADD COLUMN reserved INTEGER",),
    2: (
        "ALTER TABLE plan_row ADD COLUMN bonus DOUBLE PRECISION NOT NULL DEFAULT 0",
        "ALTER TABLE batch ADD COLUMN file TEXT",
        "ALTER TABLE batch ADD COLUMN closes SMALLINT",
        "ALTER TABLE batch ADD COLUMN retracts INTEGER",
        "ALTER TABLE batch ADD COLUMN reason TEXT",
        "ALTER TABLE batch ADD COLUMN read_as TEXT",
        "ALTER TABLE person_fact ADD COLUMN absent_from INTEGER",
        "ALTER TABLE person_fact ADD COLUMN absent_to INTEGER",
        "ALTER TABLE person_fact ADD COLUMN details TEXT",
        "ALTER TABLE observation ADD COLUMN value DOUBLE PRECISION",
        # Until version 2 any record told all about its round.
        "UPDATE batch SET closes = 1 WHERE kind = 'record'",
        "ALTER TABLE plan ADD COLUMN luck TEXT",
        signature,
        commitment,
        link,
    ),
    3: (reserve, call, account, visit),
    4: (trial, assignment),
    5: (attempt,),
    6: (track,),
    7: (listed_rows,),
    8: (model_part,),
}


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
        _refuse_odd_address(url)
        try:
            self.url = sa.make_url(url) if "://" in url else sa.URL.create("sqlite", database=url)
            self.embedded = self.url.get_backend_name() == "sqlite"
            if self.url.get_backend_name() == "postgresql":
                self.url = self.url.set(drivername="postgresql+psycopg")
            elif self.embedded and self.url.database in (None, "", ":memory:"):
                raise sa.exc.ArgumentError("nothing would be kept")
            elif not self.embedded:
                raise sa.exc.ArgumentError(f"{self.url.get_backend_name()} is not known here")
            self.engine = self._engine()
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ValueError) as error:
            raise StoreError(
                f"--db {_hidden(url)} cannot be read ({_first_line(error)}); "
                "give a file or postgresql+psycopg://user@host/name"
            ) from None
        except ModuleNotFoundError:
            raise StoreError(
                "PostgreSQL needs the package psycopg; install softfair[postgresql]"
            ) from None

    def _engine(self) -> sa.Engine:
        arguments = {"timeout": SHORT_WAIT} if self.embedded else {"connect_timeout": 10}
        engine = sa.create_engine(self.url, poolclass=sa.pool.NullPool, connect_args=arguments)
        if self.embedded:
            sa.event.listen(engine, "do_connect", _connect_sqlite)
            sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin)
        return engine

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
        if self.embedded:
            return str(self.url.database)
        public = {key: value for key, value in self.url.query.items() if "pass" not in key.lower()}
        return self.url.set(query=public).render_as_string(hide_password=True)

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
        with self._plain_errors(), self._of_this_version(kind) as connection:
            yield connection
            if kind == "write" and connection.in_transaction():  # else it was rolled back
                if self.rehearses:
                    connection.rollback()
                else:
                    chain.seal(connection, tables, now())

    def exists(self) -> bool:
        """Whether there is a programme at this address."""
        return self.version() is not None

    def version(self) -> int | None:
        """The version of the programme's schema; None if there is no programme."""
        if self._is_missing_file():
            return None
        with self._plain_errors(), self._transaction("read") as connection:
            return self._version(connection)

    def _is_missing_file(self) -> bool:
        """Whether it is a file that is not there: to open it would make it."""
        return self.embedded and not Path(self.name).exists()

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """A writing transaction in which the tables exist: they are made where there are none."""
        if self.exists():
            with self.writing() as connection:
                yield connection
            return
        if self.embedded:
            _make_private(Path(self.name))
        with self._plain_errors(), self._transaction("write") as connection:
            if self._version(connection) is None:  # else another process was first
                tables.create_all(connection)
                connection.execute(meta.insert().values(version=VERSION))
            yield connection
            chain.seal(connection, tables, now())

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[Connection]:
        with (
            self._connected().execution_options(softfair=kind, who=self.who) as connection,
            connection.begin(),
        ):
            yield connection

    def _connected(self) -> Connection:
        """A connection; a password that the server asks for is asked of who sits at a terminal."""
        try:
            return self.engine.connect()
        except sa.exc.OperationalError as error:
            asked = "no password supplied" in str(error.orig)
            if not asked or self.embedded or not sys.stdin.isatty():
                raise
        self.url = self.url.set(password=getpass.getpass(f"Password for {self.name}: "))
        self.engine = self._engine()
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
        return int(connection.execute(sa.select(meta.c.version)).scalar_one())

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
            if version != VERSION:
                stack.close()
                self._migrate()
                connection = stack.enter_context(self._transaction(kind))
            yield connection

    def _migrate(self) -> None:
        """Bring an older programme up to date."""
        with self._transaction("write") as connection:
            version = self._version(connection)  # again: another process may have been first
            if version is None or version > VERSION:
                raise StoreError(
                    f"{self.name} has schema version {version}, this software knows versions "
                    f"up to {VERSION}; install a newer softfair"
                )
            for step in range(version, VERSION):
                for statement in MIGRATIONS[step]:
                    if isinstance(statement, str):
                        connection.execute(sa.text(statement))
                    else:
                        statement.create(connection)
            connection.execute(meta.update().values(version=VERSION))
            chain.seal(connection, tables, now())

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Errors of the database as a StoreError of one line, without a password."""
        try:
            yield
        except Exception as error:
            # `append` and `fetch` call the drivers without SQLAlchemy, whose errors are then not
            # wrapped; psycopg need not be installed, so its errors are recognised by name.
            if isinstance(error, sa.exc.DBAPIError):
                text = _first_line(error.orig)
            elif isinstance(error, (sqlite3.Error, OverflowError)) or type(
                error
            ).__module__.startswith("psycopg"):
                text = _first_line(error)
            else:
                raise
            remedy = next(
                (remedy for sign, remedy in REMEDIES.items() if sign in text.lower()),
                "nothing was changed",
            )
            raise StoreError(self._without_password(f"{self.name}: {text}; {remedy}")) from None

    def _without_password(self, text: str) -> str:
        for secret in (self.url.password, self.url.query.get("password")):
            if isinstance(secret, str) and secret:
                text = text.replace(secret, "***")
        return text


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
    "unable to open": "see whether the folder exists and may be written to",
    "password": "check user and password in --db",
    "does not exist": "check the name in --db",
    "refused": "see whether the server runs at that address",
    "locked": "another command has been writing for minutes; repeat this one",
}


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _hidden(url: str) -> str:
    """An address that could not be read, without what may be a password."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.rpartition("@")[2].partition("?")[0] if separator else url


ADDRESS = "give a file, or postgresql+psycopg://user@host/name (the password from PGPASSWORD)"


def _refuse_odd_address(url: str) -> None:
    """Raise for what looks like the address of a server and is none, without repeating it."""
    url = url.removeprefix("sqlite:///")  # of a file, whose name is looked at as any other
    if "://" in url:
        if url.partition("://")[2].partition("?")[0].count("@") > 1:
            raise StoreError(
                f"--db has more than one @; write %40 for an @ in a password, or {ADDRESS}"
            )
        return
    path = Path(url)
    try:
        if path.exists() or (path.suffix in SUFFIXES and not re.match("[^/]*:[^/]*@", url)):
            return
    except (OSError, ValueError):  # too long, or with a zero byte
        pass
    if re.search(r"@|\w\s*=|^[a-z+]+:", url) or not url.isprintable():
        raise StoreError(f"--db is neither a file nor an address that can be read; {ADDRESS}")


SUFFIXES = (".db", ".sqlite", ".sqlite3")


def _make_private(path: Path) -> None:
    """Make an empty file that nobody but its owner reads; SQLite gives its other files the same
    permissions. What cannot be made, SQLite will complain about."""
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _connect_sqlite(dialect: Any, record: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """A connection that only reads, if the file or its folder cannot be written to.

    SQLite needs to write beside a database even to read it, unless it is told that nobody else
    changes it; that is so if no log of changes stands beside it.
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


def _begin(connection: Connection) -> None:
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


def _login() -> str:
    """The name by which the system knows who runs the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # in a container the user may have no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def sign(connection: Connection, table: sa.Table, number: int) -> None:
    """Note who made the row of a table that has this number."""
    who = connection.get_execution_options().get("who", "")
    connection.execute(signature.insert().values(kind=table.name, number=number, who=who))


def whole_tables() -> list[sa.Table]:
    """All tables of a programme, those that others refer to first."""
    return tables.sorted_tables


def _waiting() -> Iterator[bool]:
    """Attempts to get the lock of a writer; whether each is the last.

    Between them Python can be interrupted, which it cannot while a driver waits.
    """
    begun, told = time.monotonic(), False
    while (passed := time.monotonic() - begun) < PATIENCE / 1000:
        if passed > 2 and not told:
            told = True
            say("waiting for another command that is writing ...")
        yield False
        time.sleep(random.uniform(0.005, 0.05))
    yield True


def names_of(connection: Connection) -> list[str]:
    """Everybody's identifier, in the order of their number."""
    names = connection.execute(sa.select(person.c.name).order_by(person.c.id)).scalars().all()
    return list(names)


def plan_in_force(connection: Connection, round: int | None) -> int | None:
    """The number of a round's latest plan; None if it has none."""
    query = (
        sa.select(plan.c.id).where(plan.c.round == round).order_by(plan.c.version.desc()).limit(1)
    )
    number: int | None = connection.execute(query).scalar()
    return number
