"""How many listed people are reached, and how the worth of contacts is stored with a plan."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from .. import schema
from ..bulk import fetch
from ..outlook import Reach, Worth
from ..snapshot import Snapshot
from ..store import Connection

__all__ = ["packed", "reach_of", "unpacked"]


def reach_of(connection: Connection, now: Snapshot, at: int) -> Reach:
    """How many people listed by plans of earlier rounds are recorded as contacted, and as not."""
    p, r = schema.plan, schema.plan_row
    versions = sa.select(p.c.round, sa.func.max(p.c.version)).group_by(p.c.round)
    query = (
        sa.select(p.c.round, r.c.person)
        .join(r, r.c.plan == p.c.id)
        .where(r.c.listed == 1, p.c.round < at)
        .where(sa.tuple_(p.c.round, p.c.version).in_(versions))
    )
    listed = fetch(connection, query, np.int64)
    reached = missed = 0
    for then in np.unique(listed[:, 0]).tolist():
        contacted = now.history.row(then, now.people.n)[1][listed[listed[:, 0] == then, 1]]
        reached += int((contacted == 1).sum())
        missed += int((contacted == 0).sum())
    return Reach(reached, missed)


def packed(worth: Worth | None, level: float) -> dict[str, Any]:
    """What a contact is worth to everybody, as it is stored with the outlook: half precision."""
    if worth is None:
        return {}
    content = zlib.compress(np.stack(worth).astype("<f2").tobytes())
    return {"worth": base64.b64encode(content).decode(), "level": level}


def unpacked(text: str | None) -> NDArray[np.float64] | None:
    """The inverse of `packed`: mean, low and high [3, n]."""
    if text is None:
        return None
    content = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(content, "<f2").astype(np.float64).reshape(3, -1)
