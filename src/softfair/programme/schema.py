"""The tables of a programme's database, and how an older one becomes one of this version.

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
    commitment    a plan or a trial whose luck is still open (see `commitments`)
    trial         what was asked of a trial, what was known of its people, and its key
    assignment    the arm of each person of a trial (see `assignment`)
    account       who may use the pages and the API, and how far (latest row of a name in force)
    visit         who signed in and out (see `softfair.web.accounts`)
    attempt       one failure to sign in, without the person's name or address
    link          one entry of the log for each transaction: what it added to the tables above
                  (see `chain`)
    track         the states and contacts in force, derived from observations (see `tracks`): the
                  only table whose rows are replaced, and not part of the log

A batch that a later one retracts is not in force: see `retractions`.

The multiplier c may be infinite. In the column ``plan.c`` infinity is -1 (`Multiplier`): digests of
plans and the log cover that number. Everywhere else it is ``math.inf``, in JSON the text "inf"
(`softfair.for_json`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from . import chain

__all__ = [
    "BEYOND",
    "IS_LISTED",
    "MIGRATIONS",
    "VERSION",
    "Multiplier",
    "account",
    "assignment",
    "attempt",
    "batch",
    "call",
    "commitment",
    "link",
    "listed_rows",
    "meta",
    "model",
    "model_part",
    "observation",
    "person",
    "person_fact",
    "plan",
    "plan_row",
    "refuse_types",
    "reserve",
    "setting",
    "signature",
    "tables",
    "track",
    "trial",
    "visit",
    "whole_tables",
]

BEYOND = 2**31  # whole numbers in the database are smaller than this
VERSION = 9  # of these tables


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
    sa.Column("closes", small),  # 1: it closes its round
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
    sa.Column("value", sa.Float(53)),  # the state was made of it; NULL: it was given as a state
    sqlite_with_rowid=False,
)
track = sa.Table(
    "track",
    tables,
    sa.Column("round", whole, primary_key=True, autoincrement=False),
    # Of everybody, in the order of their number: one byte each, or two if there are many states.
    sa.Column("state", sa.LargeBinary, nullable=False),  # -1: not seen, -2: no entry
    sa.Column("contacted", sa.LargeBinary, nullable=False),  # one byte each; -1: not recorded
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
    sa.Column("batch", whole, nullable=False),  # the last batch when it was estimated
    sa.Column("settings", sa.Text, nullable=False),  # JSON: what was asked for
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
    sa.Column("batch", whole, nullable=False),  # the last batch when it was made
    sa.Column("setting", whole, sa.ForeignKey("setting.id"), nullable=False),
    sa.Column("c", Multiplier, nullable=False),
    sa.Column("horizon", whole, nullable=False),  # rounds looked ahead, this one included
    sa.Column("seed", sa.Text, nullable=False),  # hexadecimal: the key of the draw
    sa.Column("sites", sa.Text, nullable=False),  # JSON: [[name, capacity], ...]
    sa.Column("outlook", sa.Text, nullable=False),  # JSON: see outlook.Outlook
    sa.Column("reason", sa.Text),  # why it replaces the version before
    # Of all other columns (not the id), the rows, the people's identifiers, and the digest of the
    # plan before.
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
    # The chance to be in reserve, given the list; 0 for people on the list.
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
    sa.Column("reason", sa.Text),  # an officer's, if the order was not followed
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
    sa.Column("kind", sa.Text, nullable=False),  # link (it signs in once), begin, end
    sa.Column("digest", sa.Text, nullable=False),  # SHA-256 of the key that the browser holds
)
attempt = sa.Table(
    "attempt",
    tables,
    sa.Column("id", whole, primary_key=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("place", sa.Text, nullable=False),  # HMAC of the address that it came from
    sa.Column("whose", sa.Text, nullable=False),  # HMAC of that address and the name given
)
link = chain.link_table(tables)

# The statements that turn a database of one version into the next; a table or an index is created.
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
        # Up to version 2 every record closed its round.
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


TYPES: tuple[tuple[type[sa.types.TypeEngine[Any]], tuple[type, ...]], ...] = (
    (sa.Integer, (int,)),
    (sa.Float, (int, float)),
    (Multiplier, (int, float)),
    (sa.Text, (str,)),
    (sa.LargeBinary, (bytes,)),
)


def refuse_types(table: sa.Table, row: sa.Row[Any]) -> None:
    """Raise if a value is not of the type of its column: SQLite holds any type in any column.

    Raises
    ------
    TypeError
        If there is such a value; somebody has altered the database.
    """
    for column in table.c:
        value = getattr(row, column.name)
        kinds = next(kinds for of, kinds in TYPES if isinstance(column.type, of))
        if not isinstance(value, kinds) and not (value is None and column.nullable):
            raise TypeError(f"{table.name}.{column.name} is a {type(value).__name__}")


def whole_tables() -> list[sa.Table]:
    """All tables of a programme, those that others refer to first."""
    return tables.sorted_tables
