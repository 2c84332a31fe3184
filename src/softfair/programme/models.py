"""The model: transition probabilities estimated from the history, stored under a number."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from .. import estimate
from ..errors import InvalidInput
from ..progress import say
from . import store
from .snapshot import Snapshot, take_snapshot
from .store import MANY, Connection, Store, names_of
from .tracks import PEOPLE_AT_ONCE, History

__all__ = ["Model", "Summary", "fit", "fit_in", "is_intact", "latest_model", "load_model"]

ARRAYS = ("P", "low", "high", "seen", "bound", "draws")  # of a model, as they are stored

UNIT = 65_535  # of a chance that is stored as a whole number of 16 bits

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Summary:
    """What a model was learnt from, and what it says of everybody together.

    An interval is [value, low, high].
    """

    people: int
    transitions: int
    without_history: int  # people without a transition of their own
    monotone_bound: int  # people whose estimate monotonicity moved
    columns: list[str]  # what is known of people that estimates go by
    left_out: list[str]  # why a column is not used
    told: list[Any]  # [column, value, interval of the chance, interval of the effect], in logits
    classes: list[float]  # probability of 1, 2, ... classes of people
    no_effect: float  # probability that a contact changes nothing
    effect: list[list[float]]  # by state: interval of what a contact adds to the chance
    seen_chance: list[list[float]]  # by state: interval of the chance that it is seen
    hides: list[float]  # interval of the difference, best to worst; empty if nothing is missing
    rounds: list[int]  # the first and the last of the history; empty if there is none

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """As it was stored, perhaps by a version that knew less."""
        stored, empty = json.loads(text), {"no_effect": 0.0}
        return cls(
            **{one.name: stored.get(one.name, empty.get(one.name, [])) for one in fields(cls)}
        )


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
    # [L, n, 2, S, S - 1] joint draws of P[..., 1:], in units of 1 / UNIT; early versions drew none.
    draws: NDArray[np.uint16] = field(default_factory=lambda: np.empty((0, 0, 2, 2, 1), np.uint16))

    def drawn(self, number: int, who: Ints) -> Floats:
        """One of the joint draws of P [m, 2, S, S] of some people."""
        rest = self.draws[number, who] / UNIT
        return np.concatenate([1 - rest.sum(axis=-1, keepdims=True), rest], axis=-1)

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

    Raises
    ------
    InvalidInput
        If nothing can be learnt from the history.
    """
    with database.writing() as connection:
        now = take_snapshot(connection)
        if (reason := now.nothing_learnt()) is not None:
            raise InvalidInput(
                f"nothing can be learnt: {reason}; import a history with: "
                "softfair import history FILE"
            )
        return fit_in(connection, now, software)


def fit_in(connection: Connection, now: Snapshot, software: str) -> tuple[Model, bool]:
    """As `fit`, of a snapshot and within a writing transaction."""
    columns = _columns(now)
    asked = json.dumps(
        {
            "columns": list(columns),
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
    summary, arrays = _estimate(now, columns)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content, created = buffer.getbuffer(), store.now()  # not copied: hundreds of bytes a person
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
    store.sign(connection, m, int(key[0]))
    return Model(int(key[0]), created, now.batch, summary, **arrays), True


def _columns(now: Snapshot) -> dict[str, NDArray[Any]]:
    """What is known of people that estimates go by: numbers or texts [n], by name."""
    people, shrink = now.people, now.settings.shrink
    columns: dict[str, NDArray[Any]] = {}
    open_ = sorted(set(people.columns()) - set(now.settings.protected))
    for name in open_ if shrink is None else [shrink]:
        values, code = people.group(name)
        numbers = people.numbers(name)
        columns[name] = np.array(values, dtype=object)[code] if numbers is None else numbers
    return columns


def _estimate(now: Snapshot, columns: dict[str, NDArray[Any]]) -> tuple[Summary, dict[str, Any]]:
    """The estimates, as a summary and as the arrays that are stored."""
    settings, people, history = now.settings, now.people, now.history
    if history.entries > MANY:
        say(f"estimating for {people.n:,} people ...")
    # People in the order of their names: the order of a file has no effect on any digit.
    order = np.array(sorted(range(people.n), key=people.names.__getitem__), dtype=np.int64)
    rank = np.empty_like(order)
    rank[order] = np.arange(people.n)
    parts = [order[i : i + PEOPLE_AT_ONCE] for i in range(0, people.n, PEOPLE_AT_ONCE)]
    read = estimate.Histories.joined(
        [estimate.read_histories(*history.rows(who), len(who), settings.S) for who in parts]
    )
    made = estimate.estimate(
        read,
        columns={name: values[order] for name, values in columns.items()},
        level=settings.level,
        monotone=settings.monotone,
    )
    used = {one.column for one in made.columns}
    summary = Summary(
        people=people.n,
        transitions=int(made.seen.sum()),
        without_history=int(np.count_nonzero(made.no_history)),
        monotone_bound=int(np.count_nonzero(made.bound)),
        columns=[name for name in columns if name in used],
        left_out=list(made.left_out),
        told=[
            [one.column, one.value, [*astuple(one.without)], [*astuple(one.effect)]]
            for one in made.columns
        ],
        classes=made.classes.tolist(),
        no_effect=made.no_effect,
        effect=[[*astuple(one)] for one in made.effect],
        seen_chance=[[*astuple(one)] for one in made.seen_chance],
        hides=[] if made.hides is None else [*astuple(made.hides)],
        rounds=_span(history),
    )
    draws = np.empty(made.draws.shape, np.uint16)  # one at a time: they are by far the largest
    for stored, drawn in zip(draws, made.draws, strict=True):
        stored[:] = np.rint(drawn * UNIT).astype(np.uint16)[rank]
    # Nothing is computed from the ends of intervals, so single precision will do for them.
    return summary, {
        "P": made.P[rank],
        "low": made.low.astype(np.float32)[rank],
        "high": made.high.astype(np.float32)[rank],
        "seen": made.seen.astype(np.int32)[rank],
        "bound": np.asarray(made.bound, dtype=bool)[rank],
        "draws": draws,
    }


def _span(history: History) -> list[int]:
    rounds = history.rounds
    return [int(rounds[0]), int(rounds[-1])] if len(rounds) else []


def _digest(content: bytes | memoryview, asked: str) -> str:
    digest = hashlib.sha256(content)
    digest.update(asked.encode())
    return digest.hexdigest()


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
        arrays = {name: stored[name] for name in ARRAYS if name in stored}
    return Model(row.id, row.created, row.batch, Summary.from_json(row.summary), **arrays)
