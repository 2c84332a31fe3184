"""The entries of the log, and the column by which each table grows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ...for_json import read_json

__all__ = [
    "LINK",
    "Entry",
    "Marks",
    "entries_of",
    "grows_by",
    "link_table",
    "logged_tables",
]

LINK = "link"
# Not in the log: the version of the schema, which changes with the software; tracks, which are
# derived (see `tracks`); and the log itself.
OUTSIDE = ("meta", "track", LINK)
PARENTS = ("batch", "model", "plan", "trial")  # tables whose numbers order rows of other tables
Marks = dict[str, int]  # by table: the highest number in the column that it grows by


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

    It is the column that the table names by ``info={"grows_by": name}``; else the only column of
    the primary key; else the column of the key that is named after a batch, model, plan or trial.

    Raises
    ------
    TypeError
        If there is no such column; the table needs one to be part of the log.
    """
    declared = table.info.get("grows_by")
    if declared is not None:
        return table.c[declared]
    key = list(table.primary_key.columns)
    if len(key) == 1:
        return key[0]
    for name in PARENTS:
        if name in table.primary_key.columns:
            return table.c[name]
    raise TypeError(
        f"table {table.name}: say by which column it grows, with info={{'grows_by': …}}"
    )


def logged_tables(tables: sa.MetaData) -> list[sa.Table]:
    """The tables that are part of the log, in the order of their names."""
    return [tables.tables[name] for name in sorted(tables.tables) if name not in OUTSIDE]


@dataclass(frozen=True)
class Entry:
    """One entry of the log."""

    number: int
    created: str
    content: str
    stored_leaf: str  # the hash as the table has it

    @property
    def leaf(self) -> bytes:
        """The hash of the entry in the tree."""
        text = f"{self.number}\n{self.created}\n{self.content}"
        return hashlib.sha256(b"\0" + text.encode("utf-8", "surrogatepass")).digest()

    def parts(self) -> tuple[str, Marks, dict[str, tuple[int, str]]]:
        """Salt, how far each table goes, and the number and digest of the rows added to each.

        Raises
        ------
        ValueError
            If the content cannot be read.
        """
        try:
            parts = read_json(self.content)
            marks = {str(name): int(mark) for name, mark in parts["marks"].items()}
            added = {
                str(name): (int(n), str(digest)) for name, (n, digest) in parts["added"].items()
            }
            return str(parts["salt"]), marks, added
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError("garbled") from None

    def who(self) -> str:
        """The user who ran the command, as the system names them."""
        self.parts()  # garbled content is refused there
        return str(read_json(self.content).get("who", "unknown"))


def entries_of(connection: sa.Connection, tables: sa.MetaData) -> list[Entry]:
    """All entries of the log, in their order."""
    link = tables.tables[LINK]
    rows = connection.execute(sa.select(link).order_by(link.c.id)).all()
    return [Entry(*row) for row in rows]
