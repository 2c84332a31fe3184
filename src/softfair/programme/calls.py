"""Changes of a list after its draw: calls from the reserve, and people taken off.

A list is drawn once. What happens to it afterwards is written down, and never changes anybody's
stated chance: each row of the table ``call`` says that one person is to be called, or not any more.
If there are several rows about a person, the latest is in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from . import schema, store
from .store import Connection

__all__ = ["Call", "Why", "calls_of", "write_calls"]


class Why(StrEnum):
    """Why somebody was called from the reserve, or taken off a list."""

    PLACE = "place"  # a place became free, or was lost
    NOT_REACHED = "not reached"  # called because somebody on the list was not reached
    OVERRIDE = "override"  # an officer said so, with a reason


@dataclass(frozen=True)
class Call:
    """One call in force."""

    person: int
    calls: bool  # False: not to be called any more
    why: Why
    reason: str | None = None  # the officer's reason


def calls_of(connection: Connection, plan: int) -> dict[int, Call]:
    """The calls of a plan that are in force, by person."""
    t = schema.call
    query = sa.select(t.c.person, t.c.calls, t.c.why, t.c.reason).where(t.c.plan == plan)
    return {
        row.person: Call(row.person, bool(row.calls), _why(row.why), row.reason)
        for row in connection.execute(query.order_by(t.c.id))
    }


def _why(text: str) -> Why:
    """The stored reason; one that cannot be read counts as an officer's decision."""
    return Why(text) if text in list(Why) else Why.OVERRIDE


def write_calls(connection: Connection, plan: int, calls: Sequence[Call], software: str) -> None:
    """Add calls to a plan."""
    t = schema.call
    for one in calls:
        row = t.insert().values(
            created=store.now(),
            software=software,
            plan=plan,
            person=one.person,
            calls=int(one.calls),
            why=str(one.why),
            reason=one.reason,
        )
        key = connection.execute(row).inserted_primary_key
        assert key is not None
        store.sign(connection, t, int(key[0]))
