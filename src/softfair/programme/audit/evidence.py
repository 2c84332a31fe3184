"""What an audit reads: people, their history, every plan in force, and what its model predicted.

Planned rounds are read one at a time, each twice: the first reading collects what some measures
must know of all rounds before the second. Only the sums of the measures are kept of a round. The
measures take what they need from here and read no database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zipfile import BadZipFile

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...for_json import read_json
from ...progress import track
from .. import chain, schema
from ..assignment import Trial, load_trial
from ..calls import Why, calls_of
from ..checks import Check
from ..commitments import trials_undrawn
from ..eligibility import sites_of
from ..models import Model, load_model, memory_in
from ..plans import plan_rows
from ..plans.kept import Kept
from ..settings import Settings
from ..snapshot import People, load_people
from ..store import Connection
from ..tracks import History, load_history
from .deeds import DeedRow, deeds_of
from .planned import Planned

__all__ = ["Evidence", "PlansInForce", "read"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that an audit is computed from, as of one moment.

    Attributes
    ----------
    settings, people, history, check, deeds, trial
        As stored at that moment; the check is of the same moment.
    planned : iterable of Planned
        In the order of rounds. It is iterated more than once.
    model_of : callable
        From the number of a model to the model; None: it cannot be read.
    undrawn : int
        Commitments of a trial that were never drawn.
    goes_by : str
        What the last plan's chances depend on beside the state now, see `estimate.Memory`.
    """

    settings: Settings
    people: People
    history: History
    planned: Iterable[Planned]
    model_of: Callable[[int], Model | None]
    check: Check
    deeds: tuple[DeedRow, ...]
    trial: Trial | None = None
    undrawn: int = 0
    goes_by: str = "none"


def read(connection: Connection, check: Check, round: int | None = None) -> Evidence:
    """Read everything but the planned rounds, which are read as they are iterated.

    Parameters
    ----------
    connection : Connection
        A reading transaction, which must stay open for as long as the evidence is used.
    check : Check
        Of the same moment.
    round : int, optional
        Read this round alone. The trial, whose effects are those of all its rounds together, is
        then left out; the check is of all that is stored.

    Returns
    -------
    Evidence
        As of one moment.

    Raises
    ------
    InvalidInput
        If that round has no plan.
    """
    settings = _readable_settings(connection)
    people, history = load_people(connection), load_history(connection)
    planned = PlansInForce.of(connection, people, history)
    loaded: dict[int, Model | None] = {}

    def model_of(number: int) -> Model | None:
        if number not in loaded:
            loaded.clear()  # most plans have a model of their own: hold one at a time
            loaded[number] = _readable_model(connection, number, settings.S)
        return loaded[number]

    trial = load_trial(connection)
    evidence = Evidence(
        settings,
        people,
        history,
        planned,
        model_of,
        check,
        deeds_of(connection, chain.entries_of(connection, schema.tables)),
        trial,
        0 if trial is None else trials_undrawn(connection, trial.luck),
        _goes_by(connection, planned),
    )
    if round is None:
        return evidence
    return replace(
        evidence,
        planned=planned.only(round),
        history=history.between(round, round + 1),
        deeds=tuple(row for row in evidence.deeds if row.round == round),
        trial=None,
    )


def _goes_by(connection: Connection, planned: PlansInForce) -> str:
    """What the last plan's chances depend on beside the state; "none" if it cannot be read."""
    m = schema.model
    last = planned.headers[-1].model if planned.headers else None
    text = connection.execute(sa.select(m.c.settings).where(m.c.id == last)).scalar()
    try:
        return "none" if text is None else str(memory_in(text))
    except (ValueError, TypeError, AttributeError):
        return "none"


def _readable_settings(connection: Connection) -> Settings:
    """The latest settings that can be read; the check reports those that cannot."""
    s = schema.setting
    for content in connection.execute(sa.select(s.c.content).order_by(s.c.id.desc())).scalars():
        try:
            return Settings.from_json(content)
        except (ValueError, KeyError, TypeError):
            continue
    return Settings()


def _readable_model(connection: Connection, number: int, S: int) -> Model | None:
    """A model; None if it is missing or garbled, which the check reports."""
    try:
        model = load_model(connection, number)
        return model if model.P.shape[1:] == (2, model.contexts.C, S) else None
    except (sa.exc.NoResultFound, ValueError, KeyError, TypeError, OSError, EOFError, BadZipFile):
        return None


def _kept(outlook: str, n: int) -> Kept | None:
    """What a plan of n people keeps of a promise; None: there was none, or it cannot be read."""
    try:
        kept = Kept.from_json(read_json(outlook))
    except (ValueError, TypeError, KeyError):
        return None
    fits = kept is None or not kept.promise.grouped or len(kept.belonging.house) == n
    return kept if fits else None


def _called(connection: Connection, plan: int, person: Ints) -> Ints:
    """Who was called from a plan's reserve [m]: 1 in order, 2 by an officer's decision, 0 not."""
    calls = [(i, one.why) for i, one in calls_of(connection, plan).items() if one.calls]
    called = np.zeros(len(person), np.int64)
    for number, why in calls:
        called[person == number] = 2 if why is Why.OVERRIDE else 1
    return called


@dataclass(frozen=True, eq=False)
class PlansInForce:
    """The latest version of each round's plan; each is read as it is iterated.

    Attributes
    ----------
    headers : sequence
        Number, round, version, model, c and sites of each, in the order of rounds.
    """

    connection: Connection
    people: People
    history: History
    headers: Sequence[Any]

    @classmethod
    def of(cls, connection: Connection, people: People, history: History) -> PlansInForce:
        """The plans in force of a programme, with its people and its history."""
        p = schema.plan
        latest = (
            sa.select(p.c.round, sa.func.max(p.c.version).label("version"))
            .group_by(p.c.round)
            .subquery()
        )
        query = (
            sa.select(p.c.id, p.c.round, p.c.version, p.c.model, p.c.c, p.c.sites)
            .join(latest, (p.c.round == latest.c.round) & (p.c.version == latest.c.version))
            .order_by(p.c.round)
        )
        return cls(connection, people, history, connection.execute(query).all())

    def only(self, round: int) -> PlansInForce:
        """The plan of one round alone.

        Raises
        ------
        InvalidInput
            If the round has no plan.
        """
        headers = [row for row in self.headers if row.round == round]
        if not headers:
            planned = ", ".join(str(row.round) for row in self.headers) or "none"
            raise InvalidInput(f"round {round} has no plan; rounds with one: {planned}")
        return replace(self, headers=headers)

    def __iter__(self) -> Iterator[Planned]:
        """Read the plans in the order of rounds."""
        for row in track(self.headers, "reading plans"):
            yield self._read(row)

    def _read(self, row: Any) -> Planned:
        columns, n = plan_rows(self.connection, row.id), self.people.n
        outlook = sa.select(schema.plan.c.outlook).where(schema.plan.c.id == row.id)
        person = columns.person
        state, contacted = self.history.of(row.round, n)
        after, _ = self.history.of(row.round + 1, n)
        state_before, contacted_before = self.history.of(row.round - 1, n)
        return Planned(
            round=row.round,
            version=row.version,
            model=row.model,
            c=row.c,
            sites=sites_of(row.sites),
            person=person,
            status=columns.status,
            site=columns.site,
            score=columns.score,
            bonus=columns.bonus,
            probability=columns.probability,
            listed=columns.listed,
            state=state[person],
            contacted=contacted[person],
            after=after[person],
            called=_called(self.connection, row.id, person),
            kept=_kept(self.connection.execute(outlook).scalar_one(), len(person)),
            state_before=state_before[person],
            contacted_before=contacted_before[person],
        )
