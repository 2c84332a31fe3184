"""The model: transition probabilities estimated from the history, stored under a number."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from .. import estimate
from ..errors import InvalidInput
from ..progress import say
from . import store
from .snapshot import History, Snapshot, take_snapshot
from .store import MANY, Connection, Store, names_of

__all__ = ["Model", "Summary", "fit", "fit_in", "is_intact", "latest_model", "load_model"]

# People that a value of a group column must have on average for estimates to be drawn towards the
# column's means without being told so: a column of telephone numbers has one.
CROWD = 20
ARRAYS = ("P", "low", "high", "seen", "bound")  # of a model, as they are stored

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Summary:
    """What a model was learnt from, and what it says of everybody together."""

    people: int
    transitions: int
    without_history: int  # people without a transition of their own
    monotone_bound: int  # people whose estimate monotonicity moved
    group_column: str | None  # towards whose means estimates are drawn
    groups: list[str]  # its values
    strength: list[Any]  # [K, 2, S] pseudo-counts of the group in a person's estimate
    cohort_mean: list[Any]  # [2, S, S]
    rounds: list[int]  # the first and the last of the history; empty if there is none


@dataclass(frozen=True, eq=False)
class Model:
    """Estimates for everybody known when it was made; person i is row i."""

    id: int
    created: str
    batch: int  # the last one that it has seen
    summary: Summary
    P: Floats  # [n, 2, S, S]
    low: NDArray[np.float32]  # [n, 2, S, S]
    high: NDArray[np.float32]  # [n, 2, S, S]
    seen: NDArray[np.int32]  # [n, 2, S] transitions of their own
    bound: NDArray[np.bool_]  # [n] where monotonicity moved the estimate

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """[n] who has no transition of their own, and so the group's estimate."""
        unseen: NDArray[np.bool_] = self.seen.sum(axis=(1, 2)) == 0
        return unseen


def fit(database: Store, software: str) -> tuple[Model, bool]:
    """Estimate everybody's transition probabilities from all that has been imported and recorded.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the model is stamped with.

    Returns
    -------
    tuple of Model and bool
        The model, and whether it is new: if nothing has changed since the last one, it is that one.
    """
    with database.writing() as connection:
        return fit_in(connection, take_snapshot(connection), software)


def fit_in(connection: Connection, now: Snapshot, software: str) -> tuple[Model, bool]:
    """As `fit`, of a snapshot and within a writing transaction."""
    column = _group_column(now)
    asked = json.dumps(
        {
            "shrink": column,
            "monotone": now.settings.monotone,
            "level": now.settings.level,
            "software": software,
        },
        sort_keys=True,
    )
    m = store.model
    same = sa.select(m.c.id).where(m.c.batch == now.batch, m.c.settings == asked)
    number = connection.execute(same.order_by(m.c.id.desc()).limit(1)).scalar()
    if number is not None:
        return load_model(connection, number), False
    summary, arrays = _estimate(now, column)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content, created = buffer.getvalue(), store.now()
    row = m.insert().values(
        created=created,
        software=software,
        batch=now.batch,
        settings=asked,
        summary=json.dumps(asdict(summary)),
        digest=_digest(content, asked),
        content=content,
    )
    key = connection.execute(row).inserted_primary_key
    assert key is not None
    return Model(int(key[0]), created, now.batch, summary, **arrays), True


def _group_column(now: Snapshot) -> str | None:
    """The group column towards whose means estimates are drawn; None: there is none."""
    if now.settings.shrink is not None:
        return now.settings.shrink
    people = now.people
    crowded = (
        column for column in people.columns() if len(people.group(column)[0]) * CROWD <= people.n
    )
    return next(crowded, None)


def _estimate(now: Snapshot, column: str | None) -> tuple[Summary, dict[str, Any]]:
    """The estimates, as a summary and as the arrays that are stored."""
    settings, people, history = now.settings, now.people, now.history
    names, groups = people.group(column) if column is not None else ([], None)
    if len(history.person) > MANY:
        say(f"estimating for {people.n:,} people ...")
    counts = estimate.count_transitions(
        history.person, history.round, history.state, history.contacted, people.n, settings.S
    )
    made = estimate.estimate(counts, groups, level=settings.level, monotone=settings.monotone)
    bound = np.asarray(made.bound, dtype=bool)
    summary = Summary(
        people=people.n,
        transitions=int(counts.sum()),
        without_history=int(np.count_nonzero(made.seen.sum(axis=(1, 2)) == 0)),
        monotone_bound=int(np.count_nonzero(bound)),
        group_column=column,
        groups=names,
        strength=np.asarray(made.strength).tolist(),
        cohort_mean=np.asarray(made.cohort_mean).tolist(),
        rounds=_span(history),
    )
    # Nothing is computed from the ends of intervals, so single precision will do for them.
    low, high = made.low.astype(np.float32), made.high.astype(np.float32)
    seen = made.seen.astype(np.int32)
    return summary, {"P": made.P, "low": low, "high": high, "seen": seen, "bound": bound}


def _span(history: History) -> list[int]:
    rounds = history.round
    return [int(rounds.min()), int(rounds.max())] if len(rounds) else []


def _digest(content: bytes, asked: str) -> str:
    return hashlib.sha256(content + asked.encode()).hexdigest()


def is_intact(connection: Connection, number: int) -> bool:
    """Whether a model is there, with the content and settings that its digest was made of."""
    m = store.model
    query = sa.select(m.c.content, m.c.settings, m.c.digest).where(m.c.id == number)
    row = connection.execute(query).first()
    return row is not None and _digest(row.content, row.settings) == row.digest


def latest_model(database: Store) -> tuple[Model, list[str]]:
    """The model made last, and the names of its people.

    Raises
    ------
    InvalidInput
        If there is no model yet.
    """
    with database.reading() as connection:
        number = connection.execute(sa.select(sa.func.max(store.model.c.id))).scalar()
        if number is None:
            raise InvalidInput("there is no model yet; make one with: softfair fit")
        return load_model(connection, number), names_of(connection)


def load_model(connection: Connection, number: int) -> Model:
    """The model with a number."""
    row = connection.execute(sa.select(store.model).where(store.model.c.id == number)).one()
    with np.load(io.BytesIO(row.content)) as stored:
        arrays = {name: stored[name] for name in ARRAYS}
    return Model(row.id, row.created, row.batch, Summary(**json.loads(row.summary)), **arrays)
