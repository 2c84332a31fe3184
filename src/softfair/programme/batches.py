"""A batch: the entries of one file, which are written all or not at all, and once.

The same content is taken once, whatever the file's name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from . import schema, store
from .columns import ReadAs
from .reading import Table
from .store import Connection, sign
from .tracks import retracted_batches

__all__ = ["Content", "Earlier", "Imported", "Recorded"]


@dataclass(frozen=True)
class Recorded:
    """The contacts of a recorded round beside its plan, each a number of people."""

    round: int
    contacted: int  # in this file
    listed: int
    not_reached: int  # listed, and recorded as not contacted
    off_list: int  # contacted and not listed
    untold: int  # listed, without a recorded contact so far
    absent: int = 0  # without one when the round was closed, so taken as not contacted
    closed: bool = False  # whether the round is over now
    states: int = 0  # states reached, in this file
    told: bool = True  # whether any contact is recorded, in the file or by closing the round


@dataclass(frozen=True)
class Imported:
    """What an import or a record did."""

    batch: int
    rows: int  # in the file
    added: int
    corrected: int
    before: bool  # the same content was taken already, so that nothing changed
    recorded: Recorded | None = None  # of a record
    superseded: int = 0  # of a file that was taken before: entries that have been corrected since
    groups: tuple[str, ...] = ()  # columns of people that were taken as groups
    kept: tuple[str, ...] = ()  # columns of people that are kept for worksheets
    read_as: ReadAs = field(default_factory=ReadAs)  # how the file was read
    notes: tuple[str, ...] = ()  # what the user should know about how it was read
    round: int | None = None  # of a record that was taken before

    @property
    def unchanged(self) -> int:
        """Rows of the file that repeat what was known."""
        return self.rows - self.added - self.corrected


@dataclass(frozen=True)
class Earlier:
    """The last batch in force that has the same content."""

    imported: Imported
    round: int | None  # of a record
    later: bool  # whether other batches came after it


@dataclass(frozen=True)
class Content:
    """The content of a batch: a file, the kind of import, and its options."""

    table: Table
    kind: str  # people, history or record
    options: Mapping[str, str | int | None]

    @property
    def digest(self) -> str:
        """SHA-256 of the whole content, and of what its columns are taken for."""
        columns = {f"column {ours}": as_ for ours, as_ in self.table.read_as.columns.items()}
        options = json.dumps({**self.options, **columns}, sort_keys=True)
        return hashlib.sha256(f"{self.kind} {self.table.digest} {options}".encode()).hexdigest()

    def earlier(self, connection: Connection) -> Earlier | None:
        """The last batch in force of the same content, if any."""
        b = schema.batch
        same = sa.select(b).where(b.c.digest.startswith(self.digest)).order_by(b.c.id.desc())
        gone = retracted_batches(connection)
        row = next((row for row in connection.execute(same) if row.id not in gone), None)
        if row is None:
            return None
        latest = connection.execute(sa.select(sa.func.max(b.c.id))).scalar_one()
        imported = Imported(row.id, row.rows, 0, 0, before=True, round=row.round)
        return Earlier(imported, row.round, latest > row.id)

    def new_batch(
        self,
        connection: Connection,
        stored: int,
        software: str,
        round: int | None = None,
        closes: bool = False,
        read_as: ReadAs | None = None,
    ) -> int:
        """Begin a batch that will store a number of entries, and return the batch's number."""
        digest = self.digest
        times = connection.execute(
            sa.select(sa.func.count())
            .select_from(schema.batch)
            .where(schema.batch.c.digest.startswith(digest))
        ).scalar_one()
        if times:  # the same content is taken again, on purpose; stored digests are unique
            digest += f"+{times}"
        result = connection.execute(
            schema.batch.insert().values(
                created=store.now(),
                software=software,
                kind=self.kind,
                digest=digest,
                rows=len(self.table),
                stored=stored,
                round=round,
                closes=int(closes),
                file=self.table.where,
                reason=self.table.reason,
                read_as=(read_as or self.table.read_as).to_json(),
            )
        )
        number = int(result.inserted_primary_key[0])  # type: ignore[index]
        sign(connection, schema.batch, number)
        return number
