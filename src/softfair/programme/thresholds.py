"""The threshold that turns values into states, and the states after it changes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import Unsure
from . import schema, store
from .bulk import UNKNOWN, fetch
from .entries import threshold_rule
from .news import News, news_of
from .settings import Settings, change_settings, current_settings
from .store import Connection, Store, sign
from .tracks import retracted_batches

__all__ = ["Rethreshold", "change_threshold"]

Ints = NDArray[np.int64]
NO_VALUE = -1.7e308  # stands for NULL in a query that cannot return it


@dataclass(frozen=True)
class Rethreshold:
    """What a change of the threshold did."""

    before: str | None
    after: str
    values: int  # how many stored values made a state
    changed: int  # states that are not as before
    batch: int | None  # the batch of the changed states; None: none changed


def change_threshold(
    database: Store, software: str, threshold: str, sure: bool = False
) -> Rethreshold:
    """Change the threshold, and make all states that come from values anew.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the change is stamped with.
    threshold
        Values are good from it up (``4``), or up to it (``<=3``).
    sure
        Whether to change states that are known, without asking.

    Raises
    ------
    Unsure
        If states would change; the message says how many.
    InvalidInput
        If the threshold cannot be read, or there are more than two states.
    """
    with database.writing() as connection:
        _, settings = current_settings(connection)
        rule = threshold_rule(threshold, settings.states)
        person, rounds, values = _values(connection)
        unknown = np.full(len(person), UNKNOWN)
        news = news_of(connection, person, rounds, rule(values), unknown, values)
        if news.stored and not sure:
            raise Unsure(
                f"with the threshold {threshold} instead of {settings.threshold}, "
                f"{news.stored:,} of {len(person):,} states would be others"
            )
        if settings.threshold != threshold:
            change_settings(connection, replace(settings, threshold=threshold), software)
        batch = _store(connection, news, settings, threshold, software) if news.stored else None
        return Rethreshold(settings.threshold, threshold, len(person), news.stored, batch)


def _store(
    connection: Connection, news: News, settings: Settings, threshold: str, software: str
) -> int:
    b = schema.batch
    last = connection.execute(sa.select(sa.func.max(b.c.id))).scalar()
    key = connection.execute(
        b.insert().values(
            kind="threshold",
            digest=hashlib.sha256(f"threshold {threshold} {last}".encode()).hexdigest(),
            rows=news.stored,
            stored=news.stored,
            created=store.now(),
            software=software,
            reason=f"from {settings.threshold} to {threshold}",
        )
    ).inserted_primary_key
    assert key is not None
    number = int(key[0])
    sign(connection, b, number)
    news.append(connection, number)
    return number


def _values(connection: Connection) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Person, round and value [m] of the states in force that were made of a value."""
    o, gone = schema.observation, retracted_batches(connection)
    value = sa.func.coalesce(o.c.value, NO_VALUE)
    query = sa.select(o.c.person, o.c.round, o.c.batch, value).where(o.c.state.is_not(None))
    if gone:
        query = query.where(o.c.batch.not_in(list(gone)))
    rows = fetch(connection, query, np.float64)
    rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
    # The last row of a person and round is in force; without a value, it was given as a state.
    latest = np.append((np.diff(rows[:, 0]) != 0) | (np.diff(rows[:, 1]) != 0), True)[: len(rows)]
    rows = rows[latest]
    rows = rows[rows[:, 3] != NO_VALUE]
    return rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64), rows[:, 3]
