"""A commitment: a plan whose luck is still open, as it is stored.

A commitment freezes who is in the draw, their states, the model, c, the capacities, the scores and
so everybody's chance. Its code is given away before the luck of the draw is known to anyone:
whoever has the code can tell that nothing was changed afterwards to suit the luck.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from ...for_json import for_json
from .. import schema
from ..luck import Luck
from ..store import Connection, Store, sign
from .stored import Rows

__all__ = [
    "OPEN_HEADER",
    "OPEN_ROWS",
    "Commitment",
    "frozen_rows",
    "last_committed",
    "load_commitment",
    "open_commitment",
    "open_commitment_in",
    "store_commitment",
]

# What a commitment leaves open.
OPEN_HEADER = ("version", "created", "seed", "luck")
OPEN_ROWS = ("listed",)


@dataclass(frozen=True, eq=False)
class Commitment:
    """A plan whose luck is still open."""

    id: int
    created: str
    round: int
    beacon: int  # the round of the beacon that may be its luck
    header: str  # JSON: what `Header` has, except what is open
    content: bytes  # the columns of `Rows`, except what is open, NumPy's npz
    digest: str

    @property
    def code(self) -> str:
        """What is given away: the first half of the digest, in groups of four."""
        return "-".join(self.digest[i : i + 4] for i in range(0, 32, 4))

    def fresh_digest(self) -> str:
        """The digest of what is stored."""
        digest = hashlib.sha256(
            json.dumps([self.created, self.round, self.beacon, self.header]).encode()
        )
        digest.update(self.content)
        return digest.hexdigest()

    def parts(self) -> dict[str, Any]:
        """The fields of a `Header` that are fixed."""
        fixed: dict[str, Any] = json.loads(self.header)
        return {**fixed, "c": float(fixed["c"])}


def frozen_rows(commitment: Commitment) -> Rows:
    """The rows that are fixed, with nobody on the list."""
    with np.load(io.BytesIO(commitment.content)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return Rows(**arrays, listed=np.zeros(len(arrays["person"]), np.int64))


def store_commitment(
    connection: Connection, header: dict[str, Any], rows: Rows, beacon: int
) -> Commitment:
    """Write a plan without its luck, which one round of the chain of beacons may be."""
    fixed = {name: value for name, value in header.items() if name not in OPEN_HEADER}
    content = io.BytesIO()
    columns = {name: value for name, value in vars(rows).items() if name not in OPEN_ROWS}
    np.savez_compressed(content, **columns)
    commitment = Commitment(
        id=0,
        created=header["created"],
        round=header["round"],
        beacon=beacon,
        header=json.dumps({**fixed, "c": for_json(fixed["c"])}, sort_keys=True),
        content=content.getvalue(),
        digest="",
    )
    commitment = replace(commitment, digest=commitment.fresh_digest())
    values = {name: value for name, value in vars(commitment).items() if name != "id"}
    key = connection.execute(schema.commitment.insert().values(**values)).inserted_primary_key
    assert key is not None
    sign(connection, schema.commitment, int(key[0]))
    return replace(commitment, id=int(key[0]))


def open_commitment(database: Store, round: int | None = None) -> Commitment | None:
    """The commitment of a round (default: the last one) that waits for its luck, if any."""
    with database.reading() as connection:
        at = last_committed(connection) if round is None else round
        return open_commitment_in(connection, at)


def open_commitment_in(connection: Connection, at: int | None) -> Commitment | None:
    """As `open_commitment`, of a round and within a transaction."""
    t = schema.commitment
    latest = sa.select(t.c.id).where(t.c.round == at).order_by(t.c.id.desc()).limit(1)
    number = connection.execute(latest).scalar()
    if number is None:
        return None
    p = schema.plan
    plans = sa.select(p.c.luck).where(p.c.round == at, p.c.luck.is_not(None))
    drawn = {Luck.from_json(text).commitment for text in connection.execute(plans).scalars()}
    return None if number in drawn else load_commitment(connection, number)


def load_commitment(connection: Connection, number: int) -> Commitment:
    """The commitment with a number."""
    t = schema.commitment
    row = connection.execute(sa.select(t).where(t.c.id == number)).one()
    return Commitment(**{column.name: getattr(row, column.name) for column in fields(Commitment)})


def last_committed(connection: Connection) -> int | None:
    """The round of the last commitment; None if there is none."""
    t = schema.commitment
    last = sa.select(t.c.round).order_by(t.c.id.desc()).limit(1)
    at: int | None = connection.execute(last).scalar()
    return at
