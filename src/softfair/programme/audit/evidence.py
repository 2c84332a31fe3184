"""What an audit reads: people, their history, every plan in force, and what its model predicted.

The other rooms of the audit take what they need from here and read no database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from zipfile import BadZipFile

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...errors import StoreError
from ...progress import track
from .. import chain, schema
from ..assignment import Trial, load_trial
from ..calls import Why, calls_of
from ..checks import Check, check_in
from ..commitments import trials_undrawn
from ..eligibility import WAITING, Site, Status, sites_of
from ..models import UNIT, Model, averaged, load_model, memory_in
from ..plans import plan_rows
from ..plans.keeping import Kept
from ..settings import Settings
from ..snapshot import People, load_people
from ..store import Connection, Store
from ..tracks import History, load_history
from .deeds import DeedRow, deeds_of
from .statistics import DesignLaw, Draw

__all__ = [
    "CELLS",
    "Doubt",
    "Evidence",
    "History",
    "People",
    "Planned",
    "Predictions",
    "Store",
    "cell_of",
    "draws",
    "per_person",
    "predictions",
    "read",
    "windows_of",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CELLS = 200  # of predicted chance, in which moves are put together


@dataclass(frozen=True, eq=False)
class Planned:
    """One planned round: its plan in force and what was recorded of it.

    Arrays [m], a row a person of the plan; below 0: not known.
    """

    round: int
    version: int
    model: int
    c: float
    sites: list[Site]
    person: Ints
    status: Ints
    site: Ints
    score: Floats  # gain
    bonus: Floats  # what evenness adds to it
    probability: Floats
    listed: Ints
    state: Ints  # at the start of the round
    contacted: Ints  # during it
    after: Ints  # state at the start of the next
    # 1: called from the reserve, 2: by an officer's decision; empty: nobody was
    called: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    kept: Kept | None = None  # of a promise; None: there was none, or it cannot be read
    # [m] in the round before; empty: not known of anybody
    state_before: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    contacted_before: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        for name, nothing in (("called", 0), ("state_before", -1), ("contacted_before", -1)):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.full(len(self.person), nothing, np.int64))

    @cached_property
    def drawn_by(self) -> Floats:
        """What the chances follow: gain, and what evenness adds to it."""
        return self.score + self.bonus

    @property
    def due(self) -> Ints:
        """Lists within which each had to be on one, this one included; 0: not promised."""
        promised = self.kept is not None and len(self.kept.due) == len(self.person)
        return self.kept.due if self.kept and promised else np.zeros(len(self.person), np.int64)

    @cached_property
    def in_draw(self) -> Bools:
        """Who took part in the draw."""
        return np.equal(self.status, int(Status.IN_DRAW))

    @cached_property
    def in_programme(self) -> Bools:
        """Who was in the programme, in the draw or not."""
        return np.isin(self.status, WAITING)

    @property
    def reserved(self) -> Bools:
        """Whose contact was arranged beforehand."""
        return np.equal(self.status, int(Status.RESERVED))

    @property
    def opted_out(self) -> Bools:
        """Who had asked not to be contacted."""
        return np.equal(self.status, int(Status.OPTED_OUT))

    @property
    def capacity(self) -> int:
        """Places on the lists of all sites."""
        return sum(one.capacity for one in self.sites)

    def site_draws(self) -> Iterator[tuple[Ints, int, float]]:
        """Rows of each site's draw, how many of them are listed, and c there."""
        for j, one in enumerate(self.sites):
            rows = np.flatnonzero(self.in_draw & (self.site == j))
            if len(rows):
                yield rows, min(one.capacity, len(rows)), one.c(self.c)

    @cached_property
    def laws(self) -> list[DesignLaw]:
        """The law of each site's draw, in the order of `site_draws`."""
        return [DesignLaw(self.probability[rows]) for rows, *_ in self.site_draws()]

    @cached_property
    def complete(self) -> Ints:
        """Rows whose state before, contact and state after are all known."""
        return np.flatnonzero((self.state >= 0) & (self.contacted >= 0) & (self.after >= 0))


def draws(planned: Sequence[Planned], labels: Sequence[Ints]) -> Iterator[Draw]:
    """The draws of all rounds and sites.

    Parameters
    ----------
    planned : sequence of Planned
        The rounds, with what was recorded of them.
    labels : sequence of ndarray, shape (m,)
        For each round the set that each person is counted in; below 0: none.

    Yields
    ------
    Draw
        One site in one round.
    """
    for one, label in zip(planned, labels, strict=True):
        for (rows, *_), law in zip(one.site_draws(), one.laws, strict=True):
            yield Draw(law, one.listed[rows], label[rows])


def windows_of(planned: Sequence[Planned], horizon: int) -> list[Sequence[Planned]]:
    """Windows of several planned rounds, one after the other, that do not overlap.

    Parameters
    ----------
    planned : sequence of Planned
        In the order of rounds.
    horizon : int
        Rounds of a window. Of each some outcome must be known.

    Returns
    -------
    list of sequence of Planned
        From the first one on.
    """
    windows, first = [], 0
    while first + horizon <= len(planned):
        some = planned[first : first + horizon]
        in_a_row = some[-1].round - some[0].round == horizon - 1
        if in_a_row and all((one.after >= 0).any() for one in some):
            windows.append(some)
            first += horizon
        else:
            first += 1
    return windows


def per_person(
    n: int, planned: Sequence[Planned], value_of: Callable[[Planned], tuple[Bools, Any]]
) -> Floats:
    """Each person's sum over rounds of a value, where a condition holds.

    Parameters
    ----------
    n : int
        Number of people.
    planned : sequence of Planned
        The rounds, with what was recorded of them.
    value_of : callable
        From a round to the condition and the value, each of shape (m,).

    Returns
    -------
    ndarray, shape (n,)
        The sums.
    """
    total = np.zeros(n)
    for one in planned:
        counted, value = value_of(one)
        total += np.bincount(one.person[counted], value[counted], n)
    return total


@dataclass(frozen=True, eq=False)
class Doubt:
    """What a round's model did not know, by joint draws of its posterior.

    Moves are put together by action, state and predicted chance of the best state, in CELLS cells
    of equal width; what is not known of the population is the same for all of them within a draw.
    """

    best: Floats  # [L, 2, S, CELLS] sum of the drawn chances of the best state
    own: Floats  # [2, S, CELLS] sum of their variances, each for itself
    reward: float  # variance of the sum of mean rewards, beyond what each has for itself

    @classmethod
    def of(cls, drawn: Floats, moves: tuple[Ints, Ints, Ints]) -> Doubt:
        """From draws [L, q, S] of the law of each move; its action, state and cell [q]."""
        L, _, S = drawn.shape
        action, state, cell = moves
        place = (action * S + state) * CELLS + cell
        size = 2 * S * CELLS
        best: Floats = np.stack(
            [np.bincount(place, one[:, -1], size).astype(np.float64) for one in drawn]
        )
        each = drawn[..., -1].var(axis=0, ddof=1)
        own: Floats = np.bincount(place, each, size).astype(np.float64)
        mean = drawn @ (np.arange(S) / (S - 1))  # [L, q]
        reward = mean.sum(axis=1).var(ddof=1) - mean.var(axis=0, ddof=1).sum()
        shape = (2, S, CELLS)
        return cls(best.reshape(L, *shape), own.reshape(shape), max(float(reward), 0.0))

    def variance(self, counted: Bools) -> float:
        """Of the sum of chances of the moves in some cells [2, S, CELLS], beyond each one's own.

        One outcome has the variance P (1 - P) whatever is not known of P. Several have in addition
        the covariances of their P.
        """
        sums = self.best[:, counted].sum(axis=1)
        return max(float(sums.var(ddof=1) - self.own[counted].sum()), 0.0)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What models said and what came, in every planned round of everybody that is fully known.

    Arrays [q] over people and rounds.
    """

    person: Ints
    round: Ints
    action: Ints
    state: Ints
    after: Ints
    law: Floats  # [q, S] probability of each next state
    doubt: dict[int, Doubt] = field(default_factory=dict)  # by round; none: not stored with a model
    # For each planned round [m, 2]: mean reward next, left alone and contacted; nan: not known.
    means: tuple[Floats, ...] = ()

    @cached_property
    def cell(self) -> Ints:
        """Where each move is among the CELLS of predicted chance [q]."""
        return cell_of(self.best)

    def doubted(self, counted: Bools, rounds: Ints | None = None) -> float:
        """The variance that doubt about the models adds to a sum of outcomes.

        Each round is predicted from all before it, so the errors of rounds have no covariance.

        Parameters
        ----------
        counted : ndarray of bool, shape (2, S, CELLS)
            Which moves count, by action, state and cell.
        rounds : ndarray, optional
            Which rounds; default all.
        """
        which = self.doubt if rounds is None else {int(at) for at in rounds} & set(self.doubt)
        return sum(self.doubt[at].variance(counted) for at in which)

    @property
    def best(self) -> Floats:
        """Predicted probability of the best state, [q]."""
        best: Floats = self.law[:, -1]
        return best


def cell_of(best: Floats) -> Ints:
    """In which of CELLS cells of equal width chances are."""
    return np.minimum((best * CELLS).astype(np.int64), CELLS - 1)


def predictions(
    planned: Sequence[Planned], model_of: Callable[[int], Model | None], S: int
) -> Predictions:
    """The law of everybody's next state by the model of each plan.

    Parameters
    ----------
    planned : sequence of Planned
        The rounds, with what was recorded of them.
    model_of : callable
        From the number of a model to the model; None: it cannot be read.
    S : int
        Number of states.

    Returns
    -------
    Predictions
        People who joined after their round's model was made have none.
    """
    columns: list[tuple[Ints, ...]] = [(np.empty(0, np.int64),) * 5]
    laws, doubt, means = [np.empty((0, S))], {}, []
    for one in planned:
        means.append(np.full((len(one.person), 2), np.nan))
        model = model_of(one.model) if (one.after >= 0).any() else None
        if model is None:
            continue
        known, before = _standing(one, model)
        there = _rows_of(model, one.person[known], one.state[known], before)  # [known, 2, S]
        means[-1][known] = there @ (np.arange(S) / (S - 1))
        whole = np.flatnonzero(np.isin(known, one.complete))
        rows, before = known[whole], before[whole]
        person, action, state = one.person[rows], one.contacted[rows], one.state[rows]
        columns.append((person, np.full(len(rows), one.round), action, state, one.after[rows]))
        laws.append(there[whole, action])
        if len(model.draws) > 1 and len(rows):
            doubt[one.round] = _doubt(model, laws[-1], person, action, state, before)
    person, when, action, state, after = (
        np.concatenate(parts) for parts in zip(*columns, strict=True)
    )
    return Predictions(
        person, when, action, state, after, np.concatenate(laws), doubt, tuple(means)
    )


def _standing(one: Planned, model: Model) -> tuple[Ints, Floats]:
    """Rows [m] of a plan whose state is known, and what was before it [m, B]."""
    known = np.flatnonzero((one.state >= 0) & (one.person < len(model.P)))
    earlier = one.state_before[known], one.contacted_before[known]
    return known, model.before(one.person[known], one.state[known], earlier)


def _rows_of(model: Model, person: Ints, state: Ints, before: Floats) -> Floats:
    """The law [m, 2, S] of the next state of people seen in a state, by action."""
    rows: Floats = averaged(before, state, model.P.shape[-1], lambda c: model.P[person, :, c])
    return rows


def _doubt(
    model: Model, law: Floats, person: Ints, action: Ints, state: Ints, before: Floats
) -> Doubt:
    """What a model does not know of some moves, after the states with the law ``before``."""
    moves = (action, state, cell_of(law[:, -1]))

    def drawn_of(context: Ints) -> Any:  # [q, L, S - 1]
        rest = model.draws[:, person, action, context].astype(np.float32) / UNIT
        return rest.swapaxes(0, 1)

    rest = averaged(before, state, law.shape[1], drawn_of).swapaxes(0, 1)  # [L, q, S - 1]
    drawn = np.concatenate([1 - rest.sum(axis=-1, keepdims=True), rest], axis=-1)
    return Doubt.of(drawn, moves)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that an audit is made from, as of one moment."""

    settings: Settings
    people: People
    history: History
    planned: list[Planned]  # in the order of rounds
    predictions: Predictions
    check: Check  # of the same moment
    deeds: tuple[DeedRow, ...]
    trial: Trial | None = None
    undrawn: int = 0  # commitments of a trial that were never drawn
    horizon: int = 1
    # By the round that begins a window of so many: P [n, 2, S, S] of its plan's model, by state.
    models: dict[int, Floats] = field(default_factory=dict)
    goes_by: str = "none"  # what the last plan's chances go by beside the state


def read(database: Store, horizon: int = 1) -> Evidence:
    """Read everything in one transaction.

    Parameters
    ----------
    database : Store
        The programme.
    horizon : int
        Rounds over which other policies are to be estimated; the models that this takes are read.

    Returns
    -------
    Evidence
        As of one moment.
    """
    with database.reading() as connection:
        check = check_in(connection)
        try:
            return _evidence(connection, check, horizon)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError):
            if not check.wrong:
                raise
            raise StoreError(
                f"the database was altered so that it cannot be read: {check.wrong[0]}; "
                "see: softfair check"
            ) from None


def _evidence(connection: Connection, check: Check, horizon: int) -> Evidence:
    """Everything, within a transaction."""
    settings = _readable_settings(connection)
    people, history = load_people(connection), load_history(connection)
    planned = list(plans_in_force(connection, people, history))
    loaded: dict[int, Model | None] = {}

    def model_of(number: int) -> Model | None:
        if number not in loaded:
            loaded.clear()  # most plans have a model of their own: hold one at a time
            loaded[number] = _readable_model(connection, number, settings.S)
        return loaded[number]

    begun = [some[0] for some in windows_of(planned, horizon)] if horizon > 1 else []
    models = {
        one.round: model.contexts.by_state(model.P)
        for one in begun
        if (model := model_of(one.model)) is not None
    }
    trial = load_trial(connection)
    return Evidence(
        settings,
        people,
        history,
        planned,
        predictions(planned, model_of, settings.S),
        check,
        deeds_of(connection, chain.entries_of(connection, schema.tables)),
        trial,
        0 if trial is None else trials_undrawn(connection, trial.luck),
        horizon,
        models,
        _goes_by(connection, planned),
    )


def _goes_by(connection: Connection, planned: Sequence[Planned]) -> str:
    """What the last plan's chances go by beside the state, as far as it can be read."""
    m = schema.model
    query = sa.select(m.c.settings).where(m.c.id == planned[-1].model) if planned else None
    text = None if query is None else connection.execute(query).scalar()
    try:
        return "none" if text is None else str(memory_in(text))
    except (ValueError, TypeError, AttributeError):
        return "none"


def _readable_settings(connection: Connection) -> Settings:
    """The latest settings that can be read; the check tells of those that cannot."""
    s = schema.setting
    for content in connection.execute(sa.select(s.c.content).order_by(s.c.id.desc())).scalars():
        try:
            return Settings.from_json(content)
        except (ValueError, KeyError, TypeError):
            continue
    return Settings()


def _readable_model(connection: Connection, number: int, S: int) -> Model | None:
    """A model; None if it is gone or garbled, of which the check tells."""
    try:
        model = load_model(connection, number)
        return model if model.P.shape[1:] == (2, model.contexts.C, S) else None
    except (sa.exc.NoResultFound, ValueError, KeyError, TypeError, OSError, EOFError, BadZipFile):
        return None


def _kept(outlook: str, n: int) -> Kept | None:
    """What a plan of n people kept of a promise, as far as it can be read: the check tells."""
    try:
        kept = Kept.from_json(json.loads(outlook))
    except (ValueError, TypeError, KeyError):
        return None
    fits = kept is None or not kept.promise.grouped or len(kept.belonging.house) == n
    return kept if fits else None


def _called(connection: Connection, plan: int, person: Ints) -> Ints:
    """Who was called from the reserve of a plan: 1 in order, 2 by an officer's decision [m]."""
    calls = {i: one for i, one in calls_of(connection, plan).items() if one.calls}
    code = {i: 2 if one.why is Why.OVERRIDE else 1 for i, one in calls.items()}
    return np.array([code.get(i, 0) for i in person.tolist()], dtype=np.int64)


def plans_in_force(connection: Connection, people: People, history: History) -> Iterator[Planned]:
    """The latest version of each round's plan.

    Parameters
    ----------
    connection, people, history
        The programme, everybody in it, and all that was observed.

    Yields
    ------
    Planned
        In the order of rounds; each is read when it is asked for.
    """
    p = schema.plan
    latest = (
        sa.select(p.c.round, sa.func.max(p.c.version).label("version"))
        .group_by(p.c.round)
        .subquery()
    )
    query = (
        sa.select(p)
        .join(latest, (p.c.round == latest.c.round) & (p.c.version == latest.c.version))
        .order_by(p.c.round)
    )
    for row in track(connection.execute(query).all(), "reading plans"):
        columns = plan_rows(connection, row.id)
        person = columns.person
        state, contacted = history.of(row.round, people.n)
        after, _ = history.of(row.round + 1, people.n)
        state_before, contacted_before = history.of(row.round - 1, people.n)
        yield Planned(
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
            called=_called(connection, row.id, person),
            kept=_kept(row.outlook, len(person)),
            state_before=state_before[person],
            contacted_before=contacted_before[person],
        )
