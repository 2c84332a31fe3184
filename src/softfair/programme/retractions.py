"""Second thoughts: an import or a record that is no longer in force.

Nothing is removed. A retraction is a batch that names another one; whatever the other one said is
left out from then on, as if it had never come. A retraction can be retracted as well.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from ..errors import InvalidInput
from . import store
from .store import Connection, Store

__all__ = ["Retracted", "retract", "retracted_batches"]


@dataclass(frozen=True)
class Retracted:
    """What a retraction did."""

    batch: int  # its own number
    retracts: int
    kind: str  # of the batch that is no longer in force
    file: str | None
    rows: int
    round: int | None


def retracted_batches(connection: Connection, upto: int | None = None) -> frozenset[int]:
    """Numbers of the batches that are not in force, or were not when ``upto`` was the last one."""
    b = store.batch
    query = sa.select(b.c.id, b.c.retracts).where(b.c.retracts.is_not(None))
    if upto is not None:
        query = query.where(b.c.id <= upto)
    gone: set[int] = set()
    # From the last one on: a retraction that was itself retracted does nothing.
    for number, retracts in connection.execute(query.order_by(b.c.id.desc())):
        if number not in gone:
            gone.add(retracts)
    return frozenset(gone)


def retract(database: Store, software: str, number: int, reason: str) -> Retracted:
    """Put an import, a record or a retraction out of force; it stays in the database.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the retraction is stamped with.
    number
        Of the batch.
    reason
        Why.

    Returns
    -------
    Retracted
        What is no longer in force.

    Raises
    ------
    InvalidInput
        If there is no such batch, it is retracted already, or no reason is given.
    """
    if not reason.strip():
        raise InvalidInput(
            "a batch is retracted for a reason; say it, such as --reason 'wrong week'"
        )
    b = store.batch
    with database.writing() as connection:
        row = connection.execute(sa.select(b).where(b.c.id == number)).first()
        if row is None:
            raise InvalidInput(f"there is no batch {number}; see all of them with: softfair log")
        if number in retracted_batches(connection):
            raise InvalidInput(f"batch {number} is retracted already; see: softfair log")
        times = connection.execute(sa.select(sa.func.count()).select_from(b)).scalar_one()
        made = connection.execute(
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
        assert made.inserted_primary_key is not None
        own = int(made.inserted_primary_key[0])
        store.sign(connection, b, own)
        return Retracted(own, number, row.kind, row.file, row.rows, row.round)
