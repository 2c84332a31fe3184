"""Retractions: an import or a record that is no longer in force.

Nothing is removed. A retraction is a batch that names another batch; what that batch said is left
out from then on, as if it had never come. A retraction can be retracted as well.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from ..errors import InvalidInput
from . import schema, store
from .store import Store
from .tracks import recount, retracted_batches

__all__ = ["Retracted", "retract"]


@dataclass(frozen=True)
class Retracted:
    """What a retraction did."""

    batch: int  # its own number
    retracts: int
    kind: str  # of the batch that is no longer in force
    file: str | None
    rows: int
    round: int | None


def retract(database: Store, software: str, number: int, reason: str) -> Retracted:
    """Put an import, a record or a retraction out of force; it stays in the database.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the retraction is stamped with.
    number
        The number of the batch.
    reason
        Why it is retracted.

    Returns
    -------
    Retracted
        What is no longer in force.

    Raises
    ------
    InvalidInput
        If there is no such batch, if it is retracted already, or if no reason is given.
    """
    if not reason.strip():
        raise InvalidInput(
            "a batch is retracted for a reason; say it, such as --reason 'wrong week'"
        )
    b = schema.batch
    with database.writing() as connection:
        last = connection.execute(sa.select(sa.func.max(b.c.id))).scalar_one() or 0
        row = None  # a number beyond the last batch may be too large for the database
        if number <= last:
            row = connection.execute(sa.select(b).where(b.c.id == number)).first()
        if row is None:
            raise InvalidInput(f"there is no batch {number}; see all of them with: softfair log")
        before = retracted_batches(connection)
        if number in before:
            raise InvalidInput(f"batch {number} is retracted already; see: softfair log")
        times = connection.execute(sa.select(sa.func.count()).select_from(b)).scalar_one()
        inserted = connection.execute(
            b.insert().values(
                kind="retraction",
                digest=hashlib.sha256(f"retraction {number} {times}".encode()).hexdigest(),
                rows=0,
                stored=0,
                round=row.round,
                created=store.now(),
                software=software,
                retracts=number,
                reason=reason.strip(),
            )
        )
        assert inserted.inserted_primary_key is not None
        batch = int(inserted.inserted_primary_key[0])
        store.sign(connection, b, batch)
        recount(connection, sorted(before ^ retracted_batches(connection)))
        return Retracted(batch, number, row.kind, row.file, row.rows, row.round)
