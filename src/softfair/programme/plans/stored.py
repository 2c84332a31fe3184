"""A plan as it is stored: its columns, its digest, and how it is read back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...for_json import read_json
from .. import schema, store
from ..bulk import append, fetch
from ..eligibility import Site, Status, sites_of
from ..luck import Identifiers, Luck
from ..models import Model, load_model
from ..outlook import Outlook
from ..schema import Multiplier
from ..store import Connection, Store, names_of, plan_in_force
from .kept import Kept
from .weighing import unpacked

__all__ = [
    "Header",
    "Plan",
    "Reserve",
    "Rows",
    "digest_of",
    "load_header",
    "load_plan",
    "plan_of",
    "plan_reserve",
    "plan_rows",
    "reserve_among",
    "rows_among",
    "store_plan",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Header:
    """What is stored of a plan as a whole, besides its number and digest."""

    round: int
    version: int
    created: str
    software: str
    model: int
    batch: int  # the last batch when it was made
    setting: int
    c: float
    horizon: int  # rounds that are left, this one included
    seed: str  # hexadecimal: the key of the draw
    sites: str  # JSON: see `eligibility.sites_to_json`
    outlook: str  # JSON: see `Outlook.to_json`
    reason: str | None  # why it replaces the version before
    luck: str | None  # JSON: see `Luck`; None: by position in the draw, as older versions drew


@dataclass(frozen=True, eq=False)
class Rows:
    """What is stored of each person in a plan, in the order of their number; arrays [m]."""

    person: Ints
    status: Ints  # see `Status`
    site: Ints  # place in the sites; -1: none
    state: Ints  # observed now; -1: not seen
    score: Floats  # lambda, in good rounds
    bonus: Floats  # what evenness adds to it
    probability: Floats  # of being on the list
    listed: Ints  # 1: on the list

    def in_draw(self, j: int) -> Ints:
        """Rows of the people in the draw of site j."""
        return np.flatnonzero((self.status == Status.IN_DRAW) & (self.site == j))

    @property
    def drawn_by(self) -> Floats:
        """What everybody's chance follows: the score and what evenness adds to it."""
        return self.score + self.bonus


@dataclass(frozen=True, eq=False)
class Reserve:
    """The order in which a plan's people are called; arrays [q], sorted by person.

    Plans from before there were reserves have none.
    """

    person: Ints
    place: Ints  # at their site, from 1 on: first people on the list, then people in reserve
    chance: Floats  # of being in reserve, given the list; 0 for people on the list


LARGEST = 2.0**53  # whole numbers up to this are exact as floats
NO_RESERVE = Reserve(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True, eq=False)
class Plan(Rows):
    """A plan with the names of its people."""

    id: int
    round: int
    version: int
    created: str
    software: str
    model: int
    batch: int
    setting: int
    c: float
    horizon: int
    seed: str
    sites: list[Site]
    outlook: Outlook
    reason: str | None
    luck: Luck | None
    digest: str
    names: list[str]  # of everybody in the programme, by number
    unseen: NDArray[np.bool_]  # [m] no transition of their own: they have their group's estimate
    # [3, m] mean, low and high worth of a contact now; None: the plan was stored without.
    worth: Floats | None = None
    level: float = 0.0  # the level of the intervals of worth
    kept: Kept | None = None  # what its draws keep of a promise; None: nothing was promised
    memory: str = "none"  # what its chances of states go by beside the state
    reserve: Reserve = field(default_factory=lambda: NO_RESERVE)

    @property
    def due(self) -> Ints:
        """Lists within which each must be on one, this one included [m]; 0: not promised."""
        if self.kept is None or not self.kept.promise.wait:
            return np.zeros(len(self.person), np.int64)
        return self.kept.due

    @property
    def list(self) -> list[str]:
        """Identifiers of the people on the list, in the order of their number."""
        return [self.names[i] for i in self.person[self.listed == 1]]


def store_plan(
    connection: Connection,
    header: Header,
    rows: Rows,
    reserve: Reserve,
    names: list[str],
    model: Model,
) -> Plan:
    """Write a plan and return it as a later command would read it."""
    p = schema.plan
    before = connection.execute(sa.select(p.c.digest).order_by(p.c.id.desc()).limit(1)).scalar()
    digest = digest_of(before or "", header, rows, names)
    key = connection.execute(p.insert().values(**asdict(header), digest=digest))
    assert key.inserted_primary_key is not None
    number = int(key.inserted_primary_key[0])
    columns = {"plan": np.full(len(rows.person), number), **vars(rows)}
    append(connection, schema.plan_row, columns, "plan")
    order = {"plan": np.full(len(reserve.person), number), **vars(reserve)}
    append(connection, schema.reserve, order, "plan")
    store.sign(connection, schema.plan, number)
    return _assembled(number, digest, header, rows, reserve, names, model)


def digest_of(before: str, header: Header, rows: Rows, names: Sequence[str] | Identifiers) -> str:
    """SHA-256 of a plan, of the names of its people and of the digest of the plan before.

    It covers every column, so that none can be altered, and no earlier plan removed, without
    notice.
    """
    content = {**asdict(header), "c": Multiplier.encode(header.c)}
    if header.luck is None:
        del content["luck"]  # the digest is from before there was such a column
    digest = hashlib.sha256(f"{before} {json.dumps(content, sort_keys=True)}".encode())
    for column in fields(Rows):
        values = getattr(rows, column.name)
        if column.name == "bonus" and not values.any():
            continue  # plans from before there were bonuses have none
        kind = "<f8" if values.dtype.kind == "f" else "<i8"
        digest.update(np.ascontiguousarray(values, dtype=kind).data)
    identifiers = names if isinstance(names, Identifiers) else Identifiers(names)
    digest.update(identifiers.lines(rows.person))
    return digest.hexdigest()


def _assembled(
    number: int,
    digest: str,
    header: Header,
    rows: Rows,
    reserve: Reserve,
    names: list[str],
    model: Model,
) -> Plan:
    outlook = read_json(header.outlook)
    parts = {
        **vars(header),
        "sites": sites_of(header.sites),
        "luck": None if header.luck is None else Luck.from_json(header.luck),
        "outlook": Outlook.from_json(outlook),
        "worth": unpacked(outlook.get("worth")),
        "level": outlook.get("level", 0.0),
        "kept": Kept.from_json(outlook),
        "memory": str(model.memory),
        "reserve": reserve,
        **vars(rows),
    }
    return Plan(id=number, digest=digest, names=names, unseen=model.unseen[rows.person], **parts)


def plan_of(database: Store, round: int | None = None) -> Plan:
    """The plan in force of a round.

    Parameters
    ----------
    database
        The programme.
    round
        Which round. Default: the last one that has a plan.

    Raises
    ------
    InvalidInput
        If there is no such plan.
    """
    with database.reading() as connection:
        last = sa.select(sa.func.max(schema.plan.c.round))
        at = connection.execute(last).scalar() if round is None else round
        number = plan_in_force(connection, at)
        if number is None:
            raise InvalidInput(
                "there is no plan yet; make one with: softfair plan"
                if round is None
                else f"round {at} has no plan"
            )
        return load_plan(connection, number)


def load_plan(connection: Connection, number: int) -> Plan:
    """The plan with a number."""
    header, digest = load_header(connection, number)
    rows, names = plan_rows(connection, number), names_of(connection)
    model = load_model(connection, header.model)
    reserve = plan_reserve(connection, number)
    return _assembled(number, digest, header, rows, reserve, names, model)


def plan_reserve(connection: Connection, number: int) -> Reserve:
    """The order in which the people of the plan with a number are called."""
    t = schema.reserve
    query = sa.select(t.c.person, t.c.place, t.c.chance).where(t.c.plan == number)
    table = fetch(connection, query, np.float64)
    table = table[np.argsort(table[:, 0])]
    return _reserve(*table.T)


def load_header(connection: Connection, number: int) -> tuple[Header, str]:
    """The header of a plan, and its digest."""
    row = connection.execute(sa.select(schema.plan).where(schema.plan.c.id == number)).one()
    schema.refuse_types(schema.plan, row)
    columns = {column.name: getattr(row, column.name) for column in fields(Header)}
    return Header(**columns), row.digest


def plan_rows(connection: Connection, number: int) -> Rows:
    """The rows of the plan with a number."""
    r = schema.plan_row
    columns = [r.c[column.name] for column in fields(Rows)]
    table = fetch(connection, sa.select(*columns).where(r.c.plan == number), np.float64)
    table = table[np.argsort(table[:, 0])]  # by person, the first column
    return _typed({column.name: table[:, j] for j, column in enumerate(columns)})


def rows_among(columns: Mapping[str, NDArray[Any]], number: int) -> Rows:
    """The rows of a plan, among columns of the table that are sorted by plan and person."""
    part = _of_plan(columns, number)
    return _typed({column.name: part[column.name] for column in fields(Rows)})


def reserve_among(columns: Mapping[str, NDArray[Any]], number: int) -> Reserve:
    """As `rows_among`, of the order in which people are called."""
    part = _of_plan(columns, number)
    return _reserve(part["person"], part["place"], part["chance"])


def _of_plan(columns: Mapping[str, NDArray[Any]], number: int) -> dict[str, NDArray[Any]]:
    low, high = np.searchsorted(columns["plan"], [number, number + 1])
    return {name: values[low:high] for name, values in columns.items()}


def _reserve(person: NDArray[Any], place: NDArray[Any], chance: NDArray[Any]) -> Reserve:
    """A reserve from columns of any numbers."""
    return Reserve(person.astype(np.int64), place.astype(np.int64), chance.astype(np.float64))


def _typed(columns: Mapping[str, Floats]) -> Rows:
    """Rows from columns of float64; a ValueError if a number is missing, or is none that fits."""
    typed: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():
        whole = schema.plan_row.c[name].type.python_type is int
        if np.isnan(values).any() or (whole and np.abs(values).max(initial=0.0) > LARGEST):
            raise ValueError(f"{name} of a plan's rows is garbled")
        typed[name] = values.astype(np.int64 if whole else np.float64)
    return Rows(**typed)
