"""One person: what is known of them, what is estimated, and why they were listed or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from ..errors import InvalidInput
from ..for_json import read_json
from . import schema, store
from .bulk import UNKNOWN
from .calls import calls_of
from .journal import Act, journal
from .matching import spelling
from .models import load_model
from .plans import Plan, explain, load_plan, place_in_reserve
from .settings import Settings
from .snapshot import load_details, take_snapshot
from .store import Connection, Store, plan_in_force

__all__ = ["Biography", "Estimate", "InPlan", "Seen", "biography", "sources"]


@dataclass(frozen=True)
class Seen:
    """One round of a person's history; None: not known."""

    round: int
    state: str | None
    contacted: bool | None


@dataclass(frozen=True)
class Estimate:
    """The chance of the best state next, and how many of the person's own moves it rests on."""

    contacted: bool
    state: str  # with what was before it, if chances go by that
    chance: float
    low: float
    high: float
    moves: int


@dataclass(frozen=True)
class InPlan:
    """A person's part in a plan."""

    round: int
    version: int
    listed: bool
    probability: float
    reason: str


@dataclass(frozen=True)
class Biography:
    """Everything that a programme has about one person."""

    name: str
    settings: Settings
    facts: dict[str, str | int]  # groups, details, enrolled, left, ...
    history: tuple[Seen, ...]
    estimates: tuple[Estimate, ...]  # of the last model; empty: there is none
    plans: tuple[InPlan, ...]


def biography(database: Store, name: str) -> Biography:
    """What a programme has about one person; nothing is written.

    Parameters
    ----------
    database
        The programme.
    name
        Their identifier; leading zeros may be missing, and case may differ, if only one person
        matches.

    Raises
    ------
    InvalidInput
        If there is no such person, or more than one.
    """
    with database.reading() as connection:
        now = take_snapshot(connection)
        people, settings, history = now.people, now.settings, now.history
        i = _find(people.names, name)
        facts: dict[str, str | int] = {
            **read_json(people.groups[i]),
            **load_details(connection).get(i, {}),
        }
        for label, column in (
            ("enrolled", people.enrolled),
            ("left", people.departed),
            ("reserved", people.reserved),
            ("absent from", people.absent_from),
            ("absent to", people.absent_to),
        ):
            if column[i] != UNKNOWN:
                facts[label] = settings.called(int(column[i]))
        if people.opted_out[i] == 1:
            facts["opted out"] = "yes"
        if i in people.unnamed:
            facts["retracted"] = "the file that named them was retracted"
        if now.trial is not None and i in now.trial.person:
            arm = now.trial.arm[np.searchsorted(now.trial.person, i)]
            facts["arm of the trial"] = now.trial.name_of(arm).value
        _, *own = history.rows(slice(i, i + 1))
        seen = tuple(
            Seen(
                at,
                None if state < 0 else settings.states[state],
                None if contacted < 0 else bool(contacted),
            )
            for at, state, contacted in zip(*(one.tolist() for one in own), strict=True)
        )
        return Biography(
            people.names[i],
            settings,
            facts,
            seen,
            _estimates(connection, settings, i),
            _plans(connection, i, now.rounds.planned),
        )


def sources(database: Store, name: str) -> list[Act]:
    """The imports, records and corrections with entries about a person, from first to last.

    Parameters
    ----------
    database
        The programme.
    name
        Their identifier, as in `biography`.

    Raises
    ------
    InvalidInput
        If there is no such person, or more than one.
    """
    with database.reading() as connection:
        i = _find(store.names_of(connection), name)
        o, f, p = schema.observation, schema.person_fact, schema.person
        queries = (
            sa.select(o.c.batch).where(o.c.person == i),
            sa.select(f.c.batch).where(f.c.person == i),
            sa.select(p.c.batch).where(p.c.id == i),
        )
        spoke = {number for query in queries for number in connection.execute(query).scalars()}
    of_batches = ("people", "history", "record", "threshold")
    return [act for act in journal(database) if act.what in of_batches and act.number in spoke]


def _find(names: list[str], name: str) -> int:
    if name in names:
        return names.index(name)
    alike = [i for i, other in enumerate(names) if spelling(other) == spelling(name)]
    if len(alike) != 1:
        what = f"{len(alike)} people may be meant by" if alike else "there is no person"
        raise InvalidInput(f"{what} {name!r}; give an identifier as it stands in the people's file")
    return alike[0]


def _estimates(connection: Connection, settings: Settings, i: int) -> tuple[Estimate, ...]:
    number = connection.execute(sa.select(sa.func.max(schema.model.c.id))).scalar()
    if number is None:
        return ()
    model = load_model(connection, number)
    if i >= len(model.P):
        return ()
    return tuple(
        Estimate(
            bool(a),
            state,
            float(model.P[i, a, s, -1]),
            float(model.low[i, a, s, -1]),
            float(model.high[i, a, s, -1]),
            int(model.seen[i, a, s]),
        )
        for a in (0, 1)
        for s, state in enumerate(model.contexts.names(settings.states))
    )


def _plans(connection: Connection, i: int, rounds: list[int]) -> tuple[InPlan, ...]:
    plans = []
    for at in rounds:
        plan = load_plan(connection, plan_in_force(connection, at) or 0)
        for row in np.flatnonzero(plan.person == i):
            plans.append(
                InPlan(
                    at,
                    plan.version,
                    bool(plan.listed[row]),
                    float(plan.probability[row]),
                    explain(plan)[int(row)] + _reserve(connection, plan, i),
                )
            )
    return tuple(plans)


def _reserve(connection: Connection, plan: Plan, i: int) -> str:
    """Where a person is in the reserve of a plan, and whether they were called from it."""
    place, call = place_in_reserve(plan, i), calls_of(connection, plan.id).get(i)
    said = f" In reserve: {place}." if place else ""
    if call is not None:
        said += " Called from the reserve." if call.calls else " Taken off the list."
    return said
