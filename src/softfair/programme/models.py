"""From the history in the database to transition probabilities, kept as a numbered model."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from .. import estimate
from ..errors import InvalidInput
from ..progress import say
from . import store
from .ingest import MANY, History, People, load_history, load_people
from .settings import Settings, current_settings
from .store import Connection, Store, names_of

__all__ = ["Model", "Round", "fit", "fit_in", "latest_model", "load_model", "look"]

CROWD = 20  # people a value that a group column has on average, if it is to be shrunk towards unasked: a telephone number is no group

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Model:
    """Estimates for everybody known when it was made; person i is row i."""

    id: int
    created: str
    batch: int  # the last one that it has seen
    summary: dict[str, Any]
    P: Floats  # [n, 2, S, S]
    low: Floats  # [n, 2, S, S]
    high: Floats  # [n, 2, S, S]
    seen: Ints  # [n, 2, S] transitions of their own
    bound: NDArray[np.bool_]  # [n] where monotonicity moved the estimate

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """[n] who has no transition of their own, and so the group's estimate."""
        unseen: NDArray[np.bool_] = self.seen.sum(axis=(1, 2)) == 0
        return unseen


@dataclass(frozen=True, eq=False)
class Round:
    """What the database says at one moment."""

    setting: int
    settings: Settings
    batch: int  # the last one
    people: People
    history: History


def look(connection: Connection) -> Round:
    number, settings = current_settings(connection)
    batch = connection.execute(
        sa.select(sa.func.coalesce(sa.func.max(store.batch.c.id), 0))
    ).scalar_one()
    people = load_people(connection)
    if not people.n:
        raise InvalidInput(
            "the programme has no people yet; import them with: softfair import people FILE"
        )
    return Round(number, settings, batch, people, load_history(connection))


def fit(database: Store, software: str) -> tuple[Model, bool]:
    """A model of all that has been imported and recorded; the same one again if nothing has changed since. Second: whether it is new."""
    with database.writing() as connection:
        return fit_in(connection, look(connection), software)


def fit_in(connection: Connection, now: Round, software: str) -> tuple[Model, bool]:
    settings, people, history = now.settings, now.people, now.history
    telling = (
        column for column in people.columns() if len(people.group(column)[0]) * CROWD <= people.n
    )
    shrink = settings.shrink if settings.shrink is not None else next(telling, None)
    asked = json.dumps(
        {
            "shrink": shrink,
            "monotone": settings.monotone,
            "level": settings.level,
            "software": software,
        },
        sort_keys=True,
    )
    latest = connection.execute(
        sa.select(store.model.c.id)
        .where(store.model.c.batch == now.batch, store.model.c.settings == asked)
        .order_by(store.model.c.id.desc())
        .limit(1)
    ).scalar()
    if latest is not None:
        return load_model(connection, latest), False
    names, groups = people.group(shrink) if shrink is not None else ([], None)
    if len(history.person) > MANY:
        say(f"estimating for {people.n:,} people ...")
    counts = estimate.count_transitions(
        history.person, history.round, history.state, history.contacted, people.n, settings.S
    )
    found = estimate.estimate(counts, groups, level=settings.level, monotone=settings.monotone)
    own = found.seen.sum(axis=(1, 2)) > 0
    summary = {
        "people": people.n,
        "transitions": int(counts.sum()),
        "without_history": int((~own).sum()),
        "monotone_bound": int(np.count_nonzero(found.bound)),
        "group_column": shrink,
        "groups": names,
        "strength": np.asarray(found.strength).tolist(),
        "cohort_mean": np.asarray(found.cohort_mean).tolist(),
        "rounds": [int(history.round.min()), int(history.round.max())]
        if len(history.round)
        else [],
    }
    buffer = io.BytesIO()
    np.savez(
        buffer,
        P=found.P,
        low=found.low.astype(np.float32),  # ends of intervals are for reading, not for computing
        high=found.high.astype(np.float32),
        seen=found.seen.astype(np.int32),
        bound=np.asarray(found.bound, dtype=bool),
    )
    content = buffer.getvalue()
    values = {
        "batch": now.batch,
        "settings": asked,
        "summary": json.dumps(summary),
        "content": content,
    }
    digest = hashlib.sha256(content + asked.encode()).hexdigest()
    row = store.model.insert().values(
        created=store.now(), software=software, digest=digest, **values
    )
    number = connection.execute(row).inserted_primary_key
    assert number is not None
    return load_model(connection, int(number[0])), True


def latest_model(database: Store) -> tuple[Model, list[str]]:
    """The model made last, and the names of its people."""
    with database.reading() as connection:
        number = connection.execute(sa.select(sa.func.max(store.model.c.id))).scalar()
        if number is None:
            raise InvalidInput("there is no model yet; make one with: softfair fit")
        return load_model(connection, number), names_of(connection)


def load_model(connection: Connection, number: int) -> Model:
    row = connection.execute(sa.select(store.model).where(store.model.c.id == number)).one()
    with np.load(io.BytesIO(row.content)) as arrays:
        named = {name: arrays[name] for name in ("P", "low", "high", "seen", "bound")}
    return Model(row.id, row.created, row.batch, json.loads(row.summary), **named)
