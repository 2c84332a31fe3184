"""The model: transition probabilities estimated from the history, stored under a number."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from .. import estimate
from ..errors import InvalidInput
from ..estimate.columns import LEAST_WITH_VALUE, MOST_NUMBERS
from ..for_json import read_json
from ..progress import say
from . import schema, store
from .bulk import MANY, large_rows
from .settings import NOT_TRIED, Tried, change_settings
from .snapshot import Snapshot, take_snapshot
from .store import Connection, Store, names_of
from .tracks import PEOPLE_AT_ONCE, History

__all__ = [
    "Contents",
    "Model",
    "Summary",
    "averaged",
    "fit",
    "fit_in",
    "is_intact",
    "latest_model",
    "load_model",
    "memory_in",
]

ARRAYS = ("P", "low", "high", "seen", "bound", "draws")  # of a model, as they are stored

# Bytes of a model's content in one value of the database: with values a hundred times as large
# PostgreSQL's driver took twenty times as long.
PART = 2**21
TRIED = 20_000  # people on whose histories a memory is tried; drawn at random if there are more
UNIT = 65_535  # stands for a chance of 1, where chances are stored as whole numbers of 16 bits

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
        """The summary as it was stored, perhaps by a version with fewer fields."""
        stored, empty = read_json(text), {"no_effect": 0.0}
        return cls(
            **{one.name: stored.get(one.name, empty.get(one.name, [])) for one in fields(cls)}
        )


@dataclass(frozen=True, eq=False)
class Model:
    """Estimates for everybody known when it was made; person i is row i."""

    id: int
    created: str
    batch: int  # the last batch when it was made
    summary: Summary
    P: Floats  # [n, 2, C, S] by context; without memory that is the state, C = S
    low: NDArray[np.float32]  # [n, 2, C, S]
    high: NDArray[np.float32]  # [n, 2, C, S]
    seen: NDArray[np.int32]  # [n, 2, C] transitions of their own
    bound: NDArray[np.bool_]  # [n] where monotonicity moved the estimate
    # [L, n, 2, C, S - 1] joint draws of P[..., 1:], in units of 1 / UNIT; early versions drew none.
    draws: NDArray[np.uint16] = field(default_factory=lambda: np.empty((0, 0, 2, 2, 1), np.uint16))
    memory: estimate.Memory = estimate.Memory.NONE  # what chances go by beside the state

    @property
    def contexts(self) -> estimate.Contexts:
        """The contexts that chances go by."""
        return estimate.Contexts(self.P.shape[-1], self.memory)

    def chain(self, who: Ints) -> Floats:
        """Chances [m, 2, C, C] of some people from context to context."""
        return self.contexts.chain(self.P[who])

    def drawn(self, number: int, who: Ints) -> Floats:
        """One of the joint draws of `chain` [m, 2, C, C] of some people."""
        rest = self.draws[number, who] / UNIT
        rows = np.concatenate([1 - rest.sum(axis=-1, keepdims=True), rest], axis=-1)
        return self.contexts.chain(rows)

    def before(self, who: Ints, state: Ints, earlier: tuple[Ints, Ints]) -> Floats:
        """The distribution [m, B] of what came before the states in which some people were seen.

        If the state before was not seen, it has the distribution of somebody who was left alone for
        long; a contact that is not known counts as none.

        Parameters
        ----------
        who, state
            [m] the number of each, and the state.
        earlier
            Their state and contact in the round before [m]; below 0: not known.
        """
        contexts = self.contexts
        if contexts.B == 1:
            return np.ones((len(who), 1))
        law = contexts.weights(self.P[who])[np.arange(len(who)), state]
        left = contexts.before(*earlier)
        law[left >= 0] = np.eye(contexts.B)[left[left >= 0]]
        return law

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """[n] whether a person has no transition of their own, and so the group's estimate."""
        unseen: NDArray[np.bool_] = self.seen.sum(axis=(1, 2)) == 0
        return unseen


def averaged(before: Floats, state: Ints, S: int, value_of: Callable[[Ints], Any]) -> Any:
    """The mean [m, ...] over contexts of a value, for people seen in a state.

    Parameters
    ----------
    before
        [m, B] the distribution of what came before the state.
    state
        [m] the state.
    S
        Number of states.
    value_of
        From the contexts of people [m] to their values [m, ...].
    """
    if before.shape[1] == 1:
        return value_of(state)
    parts = [value_of(b * S + state) for b in range(before.shape[1])]
    return sum(
        part * weight.astype(part.dtype).reshape(-1, *[1] * (part.ndim - 1))
        for part, weight in zip(parts, before.T, strict=True)
    )


def fit(database: Store, software: str, memory: str | None = None) -> tuple[Model, bool]:
    """Estimate everybody's transition probabilities from all that has been imported and recorded.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the model is stamped with.
    memory
        What chances go by beside the state from now on, if that foretells held-out rounds better.
        Default: as it was decided before.

    Returns
    -------
    tuple of Model and bool
        The model, and whether it is new: if nothing has changed, it is the last model.

    Raises
    ------
    InvalidInput
        If nothing can be learnt from the history, or it is too short for the memory.
    """
    with database.writing() as connection:
        now = take_snapshot(connection)
        if (reason := now.nothing_learnt()) is not None:
            raise InvalidInput(
                f"nothing can be learnt: {reason}; import a history with: "
                "softfair import history FILE"
            )
        if memory is not None:
            tried = _tried(now, estimate.Memory.given(memory))
            settings = replace(now.settings, memory=tried)
            if settings != now.settings:
                change_settings(connection, settings, software)
            now = replace(now, settings=settings)
        return fit_in(connection, now, software)


def fit_in(connection: Connection, now: Snapshot, software: str) -> tuple[Model, bool]:
    """As `fit`, of a snapshot and within a writing transaction."""
    names, left_out = _column_names(now)
    memory = now.settings.memory.goes_by
    asked = json.dumps(
        {
            "columns": names,
            "monotone": now.settings.monotone,
            "level": now.settings.level,
            "software": software,
            **({} if memory == "none" else {"memory": memory}),
        },
        sort_keys=True,
    )
    m = schema.model
    same = sa.select(m.c.id).where(m.c.batch == now.batch, m.c.settings == asked)
    number = connection.execute(same.order_by(m.c.id.desc()).limit(1)).scalar()
    if number is not None:
        return load_model(connection, number), False
    summary, arrays = _estimate(now, _columns(now, names))
    summary = replace(summary, left_out=[*left_out, *summary.left_out])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content, created = buffer.getbuffer(), store.now()  # not copied: hundreds of bytes a person
    parts = [content[first : first + PART] for first in range(0, len(content), PART)]
    row = m.insert().values(
        created=created,
        software=software,
        batch=now.batch,
        settings=asked,
        summary=json.dumps(asdict(summary)),
        digest=_digest(parts, asked),
        content=parts[0],
    )
    key = connection.execute(row).inserted_primary_key
    assert key is not None
    number = int(key[0])
    for place, part in enumerate(parts[1:], 1):
        rest = schema.model_part.insert().values(model=number, number=place, content=part)
        connection.execute(rest)
    store.sign(connection, m, number)
    return Model(
        number, created, now.batch, summary, **arrays, memory=estimate.Memory(memory)
    ), True


def _column_names(now: Snapshot) -> tuple[list[str], list[str]]:
    """The columns that estimates go by, and why others are not used.

    If more columns are left than can be weighed against each other, none of them is read: a file
    may have thousands.
    """
    people, shrink = now.people, now.settings.shrink
    if shrink is not None:
        return [shrink], []
    names = sorted(set(people.columns()) - set(now.settings.protected))
    if len(names) <= MOST_NUMBERS:
        return names, []
    known = people.known_by()
    usual = [name for name in names if known[name] >= LEAST_WITH_VALUE]
    few = len(names) - len(usual)
    left_out = [f"{few:,} columns are not used: fewer than {LEAST_WITH_VALUE} people have a value"]
    if len(usual) <= MOST_NUMBERS:
        return usual, left_out
    return [], [
        f"no column is used: there are {len(usual):,}, and at most {MOST_NUMBERS} can be weighed "
        "against each other; leave columns out at import"
    ]


def _columns(now: Snapshot, names: list[str]) -> dict[str, NDArray[Any]]:
    """Some of what is known of people: numbers or texts [n], by name."""
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        values, code = now.people.group(name)
        numbers = now.people.numbers(name)
        columns[name] = np.array(values, dtype=object)[code] if numbers is None else numbers
    return columns


def _estimate(now: Snapshot, columns: dict[str, NDArray[Any]]) -> tuple[Summary, dict[str, Any]]:
    """The estimates, as a summary and as the arrays that are stored."""
    settings, people, history = now.settings, now.people, now.history
    if history.entries > MANY:
        say(f"estimating for {people.n:,} people ...")
    order = _in_order(now)
    rank = np.empty_like(order)
    rank[order] = np.arange(people.n)
    people_at_once = [order[i : i + PEOPLE_AT_ONCE] for i in range(0, people.n, PEOPLE_AT_ONCE)]
    read = estimate.Histories.joined(
        [
            estimate.read_histories(
                *history.rows(who), len(who), settings.S, settings.memory.goes_by
            )
            for who in people_at_once
        ]
    )
    estimated = estimate.estimate(
        read,
        columns={name: values[order] for name, values in columns.items()},
        level=settings.level,
        monotone=settings.monotone,
    )
    columns_used = {one.column for one in estimated.columns}
    summary = Summary(
        people=people.n,
        transitions=int(estimated.seen.sum()),
        without_history=int(np.count_nonzero(estimated.no_history)),
        monotone_bound=int(np.count_nonzero(estimated.bound)),
        columns=[name for name in columns if name in columns_used],
        left_out=list(estimated.left_out),
        told=[
            [one.column, one.value, [*astuple(one.without)], [*astuple(one.effect)]]
            for one in estimated.columns
        ],
        classes=estimated.classes.tolist(),
        no_effect=estimated.no_effect,
        effect=[[*astuple(one)] for one in estimated.effect],
        seen_chance=[[*astuple(one)] for one in estimated.seen_chance],
        hides=[] if estimated.hides is None else [*astuple(estimated.hides)],
        rounds=_span(history),
    )
    draws = np.empty(estimated.draws.shape, np.uint16)  # one at a time: they are by far the largest
    for stored, drawn in zip(draws, estimated.draws, strict=True):
        stored[:] = np.rint(drawn * UNIT).astype(np.uint16)[rank]
    # Nothing is computed from the ends of intervals, so single precision is enough for them.
    return summary, {
        "P": estimated.P[rank],
        "low": estimated.low.astype(np.float32)[rank],
        "high": estimated.high.astype(np.float32)[rank],
        "seen": estimated.seen.astype(np.int32)[rank],
        "bound": np.asarray(estimated.bound, dtype=bool)[rank],
        "draws": draws,
    }


def _tried(now: Snapshot, memory: estimate.Memory) -> Tried:
    """A memory, tried on the last rounds of the history, which are held out."""
    if memory is estimate.Memory.NONE:
        return NOT_TRIED
    order, columns = _in_order(now), _columns(now, _column_names(now)[0])
    if len(order) > TRIED:
        order = order[np.sort(np.random.default_rng(0).choice(len(order), TRIED, replace=False))]
    known = {name: values[order] for name, values in columns.items()}
    rows = now.history.rows(order)
    gain = estimate.foresight_of(*rows, len(order), now.settings.S, memory, known)
    span = gain.first, int(now.history.rounds[-1])
    return Tried(str(memory), gain.better, astuple(gain.gain), gain.moves, span)


def _in_order(now: Snapshot) -> Ints:
    """Everybody in the order of their names, so that the order of a file changes no digit."""
    people = now.people
    return np.array(sorted(range(people.n), key=people.names.__getitem__), dtype=np.int64)


def _span(history: History) -> list[int]:
    rounds = history.rounds
    return [int(rounds[0]), int(rounds[-1])] if len(rounds) else []


def _digest(content: Iterable[bytes | memoryview], asked: str) -> str:
    digest = hashlib.sha256()
    for part in content:
        digest.update(part)
    digest.update(asked.encode())
    return digest.hexdigest()


def _parts(connection: Connection, number: int) -> Iterator[bytes]:
    """The content of a model, part by part."""
    m, p = schema.model, schema.model_part
    first = sa.select(m.c.content).where(m.c.id == number)
    rest = sa.select(p.c.content).where(p.c.model == number).order_by(p.c.number)
    for query in (first, rest):
        yield from large_rows(connection, query).scalars()


def is_intact(connection: Connection, number: int) -> bool:
    """Whether a model is there, with the content and settings that its digest was made of."""
    m = schema.model
    row = connection.execute(sa.select(m.c.settings, m.c.digest).where(m.c.id == number)).first()
    try:
        return row is not None and _digest(_parts(connection, number), row.settings) == row.digest
    except (TypeError, AttributeError):  # SQLite holds values of any type in any column
        return False


class Contents:
    """The digests of models, gathered while their rows are read for another purpose."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[Any, Any]] = {}  # settings and digest of each model
        self._running: dict[int, Any] = {}  # the SHA-256 of what was read of each

    def glance(self, table: sa.Table, row: Sequence[Any]) -> None:
        """Look at a row of any table; a model's parts come in order, after the model."""
        if table not in (schema.model, schema.model_part):
            return
        one = dict(zip(table.c.keys(), row, strict=True))
        number = one["id"] if table is schema.model else one["model"]
        if table is schema.model:
            self._told[number] = one["settings"], one["digest"]
            self._running[number] = hashlib.sha256()
        if number in self._running and isinstance(one["content"], (bytes, memoryview)):
            self._running[number].update(one["content"])

    def is_intact(self, connection: Connection, number: int) -> bool:
        """As the function of this name; a model that does not seem intact is read once more."""
        if number in self._running:
            settings, digest = self._told[number]
            whole = self._running[number].copy()
            whole.update(str(settings).encode())
            if whole.hexdigest() == digest:
                return True
        return is_intact(connection, number)


def latest_model(database: Store) -> tuple[Model, list[str]]:
    """The model made last, and the names of its people.

    Raises
    ------
    InvalidInput
        If there is no model yet.
    """
    with database.reading() as connection:
        number = connection.execute(sa.select(sa.func.max(schema.model.c.id))).scalar()
        if number is None:
            raise InvalidInput("there is no model yet; make one with: softfair fit")
        return load_model(connection, number), names_of(connection)


def load_model(connection: Connection, number: int) -> Model:
    """The model with a number."""
    m = schema.model
    columns = (m.c.id, m.c.created, m.c.batch, m.c.summary, m.c.settings)
    row = connection.execute(sa.select(*columns).where(m.c.id == number)).one()
    content = io.BytesIO()
    content.writelines(_parts(connection, number))
    content.seek(0)
    with np.load(content) as stored:
        arrays = {name: stored[name] for name in ARRAYS if name in stored}
    summary, memory = Summary.from_json(row.summary), memory_in(row.settings)
    return Model(row.id, row.created, row.batch, summary, **arrays, memory=memory)


def memory_in(settings: str) -> estimate.Memory:
    """What chances go by beside the state, from what a model was asked for."""
    return estimate.Memory(read_json(settings).get("memory", "none"))
