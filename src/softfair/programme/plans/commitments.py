"""What a commitment freezes of a plan, and which commitments wait for their luck.

A commitment freezes who is in the draw, their names, their states, the model, c, the capacities,
the scores and so everybody's chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from ...for_json import for_json
from .. import schema
from ..commitments import (
    IS_OF_TRIAL,
    WHAT_COUNTS,
    Commitment,
    last_trial_committed,
    load_commitment,
    names_digest,
    store_commitment,
)
from ..luck import Chain, Luck
from ..snapshot import Snapshot
from ..store import Connection, Store, names_of
from .stored import Rows

__all__ = [
    "OPEN_HEADER",
    "OPEN_ROWS",
    "are_frozen_names",
    "fixed_header",
    "frozen_rows",
    "last_committed",
    "open_commitment",
    "open_commitment_in",
    "store_prepared",
    "waiting_trial_in",
]

# What a commitment leaves open.
OPEN_HEADER = ("version", "created", "seed", "luck")
OPEN_ROWS = ("listed",)
PEOPLE = "people"  # in the header of a commitment: the hash of people's identifiers


def fixed_header(commitment: Commitment) -> dict[str, Any]:
    """The fields of a `Header` that are frozen."""
    fixed = commitment.parts()
    for name in (PEOPLE, WHAT_COUNTS):
        fixed.pop(name, None)
    return {**fixed, "c": float(fixed["c"])}


def are_frozen_names(commitment: Commitment, names: Sequence[str]) -> bool:
    """Whether people had these identifiers when a plan was committed; True if it does not say."""
    return commitment.parts().get(PEOPLE) in (None, names_digest(names))


def frozen_rows(commitment: Commitment) -> Rows:
    """The rows that are frozen, with nobody on the list."""
    arrays = commitment.arrays()
    return Rows(**arrays, listed=np.zeros(len(arrays["person"]), np.int64))


def store_prepared(
    connection: Connection, header: dict[str, Any], rows: Rows, chain: Chain
) -> Commitment:
    """Commit a plan without its luck."""
    fixed = {name: value for name, value in header.items() if name not in OPEN_HEADER}
    columns = {name: value for name, value in vars(rows).items() if name not in OPEN_ROWS}
    names = names_of(connection)
    people = names_digest(names[i] for i in rows.person.tolist())
    parts = {**fixed, "c": for_json(fixed["c"]), PEOPLE: people}
    return store_commitment(connection, header["round"], parts, columns, chain)


def open_commitment(database: Store, round: int | None = None) -> Commitment | None:
    """The commitment of a round (default: the last one) that waits for its luck, if any."""
    with database.reading() as connection:
        at = last_committed(connection) if round is None else round
        return open_commitment_in(connection, at)


def open_commitment_in(connection: Connection, at: int | None) -> Commitment | None:
    """As `open_commitment`, of a round and within a transaction."""
    t = schema.commitment
    of_round = sa.select(sa.func.max(t.c.id)).where(t.c.round == at, ~IS_OF_TRIAL)
    number = connection.execute(of_round).scalar()
    if number is None:
        return None
    p = schema.plan
    plans = sa.select(p.c.luck).where(p.c.round == at, p.c.luck.is_not(None))
    drawn = {Luck.from_json(text).commitment for text in connection.execute(plans).scalars()}
    return None if number in drawn else load_commitment(connection, number)


def last_committed(connection: Connection) -> int | None:
    """The round of the last commitment of a plan; None if there is none."""
    t = schema.commitment
    last = sa.select(t.c.round).where(~IS_OF_TRIAL).order_by(t.c.id.desc()).limit(1)
    at: int | None = connection.execute(last).scalar()
    return at


def waiting_trial_in(connection: Connection, now: Snapshot) -> Commitment | None:
    """The commitment of a trial that waits for its luck; None also if it can no longer begin.

    It can no longer begin if its first round is over, planned or committed, or a later round is
    planned.
    """
    if now.trial is not None:
        return None
    last = last_trial_committed(connection)
    if last is None or last.round in now.over():
        return None
    p = schema.plan
    planned = connection.execute(sa.select(p.c.id).where(p.c.round >= last.round).limit(1)).scalar()
    begun = planned is not None or open_commitment_in(connection, last.round) is not None
    return None if begun else last
