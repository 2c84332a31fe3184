"""A snapshot of the database: people, history and settings as they are at one moment.

The tables keep every entry that was ever made. Only what is in force is loaded here: for each
person the facts of the latest batch that was not retracted, and the history as `tracks` keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..for_json import read_json
from . import schema
from .assignment import Trial, load_trial
from .bulk import CHUNK, UNKNOWN
from .entries import STRIDE, numbers_of
from .rounds import Rounds, load_rounds
from .settings import Settings, current_settings
from .store import Connection, Store, names_of
from .tracks import ABSENT, AsOf, History, load_history, retracted_batches

__all__ = [
    "History",
    "People",
    "Snapshot",
    "how_many",
    "load_details",
    "load_history",
    "load_people",
    "several_open",
    "take_snapshot",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class People:
    """Everybody, in the order of their number, with the facts in force."""

    names: list[str]
    groups: list[str]  # JSON, such as {"region": "north"}
    enrolled: Ints  # [n] first round in the programme; UNKNOWN: not set
    departed: Ints  # [n] first round no longer in it; UNKNOWN: not set
    opted_out: Ints  # [n] 1, 0 or UNKNOWN
    reserved: Ints  # [n] round in which a contact is arranged already; UNKNOWN: none
    # [n] first round of an absence (UNKNOWN: none) and its last (UNKNOWN: no end); or empty: none
    absent_from: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    absent_to: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    # Numbers of people whom only retracted files name: they are not in the programme.
    unnamed: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        for name in ("absent_from", "absent_to"):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.full(self.n, UNKNOWN))

    @property
    def n(self) -> int:
        """How many people there are."""
        return len(self.names)

    def absent(self, round: int) -> NDArray[np.bool_]:
        """[n] whether each is away in a round."""
        last = np.where(self.absent_to == UNKNOWN, STRIDE, self.absent_to)
        away: NDArray[np.bool_] = self.absent_from != UNKNOWN
        return away & (self.absent_from <= round) & (round <= last)

    def gone(self, round: int) -> Ints:
        """Numbers of people who have opted out, left by a round, or are not named any more."""
        left = (self.departed != UNKNOWN) & (self.departed <= round)
        return np.union1d(np.flatnonzero((self.opted_out == 1) | left), self.unnamed)

    @cached_property
    def _texts(self) -> dict[str, int]:
        """The distinct texts of groups, with their number."""
        return {text: i for i, text in enumerate(dict.fromkeys(self.groups))}

    @cached_property
    def _kind(self) -> Ints:
        """Which of the distinct texts of groups each person has [n]."""
        return np.array([self._texts[text] for text in self.groups], dtype=np.int64)

    @cached_property
    def _coded(self) -> dict[str, tuple[list[str], Ints]]:
        """For each group column its values, "" first, and which of them each distinct text has.

        There may be many thousands of columns, so nothing is kept by both column and person.
        """
        values: dict[str, dict[str, int]] = {}
        codes: dict[str, Ints] = {}
        for text, i in self._texts.items():
            for name, value in read_json(text).items():
                if name not in codes:
                    values[name], codes[name] = {"": 0}, np.zeros(len(self._texts), np.int64)
                codes[name][i] = values[name].setdefault(value, len(values[name]))
        return {name: (list(values[name]), codes[name]) for name in codes}

    def known_by(self) -> dict[str, int]:
        """How many people have a value in each group column."""
        people = np.bincount(self._kind)
        return {name: int(people[code != 0].sum()) for name, (_, code) in self._coded.items()}

    def columns(self) -> list[str]:
        """Names of the group columns, in the order they came."""
        return list(self._coded)

    def group(self, column: str) -> tuple[list[str], Ints]:
        """The values of a group column, sorted, and which of them each person has.

        Parameters
        ----------
        column
            Its name.

        Returns
        -------
        tuple of list and numpy.ndarray
            The values, and for each person [n] the place of their value; ``""`` stands for none.

        Raises
        ------
        InvalidInput
            If there is no such column.
        """
        if column not in self._coded:
            columns = self.columns()
            known = ", ".join(columns) if columns else "none: import people with such a column"
            raise InvalidInput(f"there is no group column {column!r}; known: {known}")
        known_values, code = self._coded[column]
        used = np.unique(code)
        order = sorted(used, key=lambda i: known_values[i])
        place = np.empty(len(known_values), np.int64)
        place[order] = np.arange(len(order))
        return [known_values[i] for i in order], place[code][self._kind]

    def numbers(self, column: str) -> Floats | None:
        """A column as numbers [n], nan where it is not known; None: it is a group column.

        Parameters
        ----------
        column
            Its name.
        """
        values, code = self.group(column)
        numbers = numbers_of(values)
        return None if numbers is None else numbers[code]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What the database holds at one moment."""

    setting: int  # the number of the settings
    settings: Settings
    batch: int  # the number of the last import or record, 0 if there was none
    people: People
    history: History
    rounds: Rounds = field(default_factory=Rounds)
    trial: Trial | None = None

    def over(self) -> list[int]:
        """The rounds that are over, ascending."""
        gone = {at: self.people.gone(at) for at in self.rounds.lists}
        return self.rounds.over(self.history, gone)

    def open_rounds(self) -> list[int]:
        """The planned rounds that are not over."""
        over = set(self.over())
        return [at for at in self.rounds.planned if at not in over]

    def next_round(self) -> int:
        """The first round after those that are over, without holidays."""
        over, rounds = self.over(), self.history.rounds
        if over:
            at = over[-1] + 1
        elif self.rounds.lists:
            at = self.rounds.planned[0]
        else:
            at = int(rounds[-1]) if len(rounds) else 1
        while self.settings.no_capacity(at) and at not in self.rounds.lists:
            at += 1
        return at

    def arms(self) -> Ints:
        """The place of everybody's arm [n] among those of the trial; -1: there is none."""
        if self.trial is None:
            return np.full(self.people.n, -1)
        column, sites = self.trial.design.sites, [""] * self.people.n
        if column is not None and column in self.people.columns():
            values, code = self.people.group(column)
            sites = [values[place] for place in code]
        return self.trial.arms_of(self.people.names, sites)

    def nothing_learnt(self) -> str | None:
        """Why nothing can be learnt from the history; None: something can."""
        history = self.history
        if not len(history.rounds):
            return "there is no history yet"
        if not (history.state >= 0).any():
            return f"none of the {history.entries:,} entries of history has a state"
        if not (history.contacted >= 0).any():
            return f"none of the {history.entries:,} entries of history tells of a contact"
        there, pairs = history.state > ABSENT, list(history.follows())
        if not any((there[now] & there[then]).any() for now, then in pairs):
            apart = np.gcd.reduce(np.diff(history.rounds))
            days = f"; all its rounds are {apart} apart: are rounds longer?" if apart > 1 else ""
            return f"nobody's history has two rounds one after the other{days}"
        seen, told = history.state >= 0, history.contacted >= 0
        if not any((seen[now] & told[now] & seen[then]).any() for now, then in pairs):
            return "nobody's state is known before and after a round whose contact is known"
        return None


def take_snapshot(connection: Connection) -> Snapshot:
    """Load all that is in force.

    Raises
    ------
    InvalidInput
        If the programme has no people yet.
    """
    number, settings = current_settings(connection)
    batch = connection.execute(
        sa.select(sa.func.coalesce(sa.func.max(schema.batch.c.id), 0))
    ).scalar_one()
    people = load_people(connection)
    if not people.n:
        raise InvalidInput(
            "the programme has no people yet; import them with: softfair import people FILE"
        )
    history, rounds = load_history(connection), load_rounds(connection)
    return Snapshot(number, settings, batch, people, history, rounds, load_trial(connection))


def several_open(connection: Connection) -> list[int]:
    """The planned rounds that are not over, if there are several; with little reading."""
    rounds = load_rounds(connection)
    perhaps = [at for at in rounds.planned if at not in rounds.closed]
    if len(perhaps) < 2:
        return []
    people = load_people(connection)
    gone = {at: people.gone(at) for at in rounds.lists}
    history = load_history(connection, perhaps[0], perhaps[-1])
    over = set(rounds.over(history, gone))
    still = [at for at in perhaps if at not in over]
    return still if len(still) > 1 else []


def how_many(database: Store) -> int:
    """How many people are in the programme."""
    with database.reading() as connection:
        people = load_people(connection)
        return people.n - len(people.unnamed)


def load_people(connection: Connection, at: AsOf | None = None) -> People:
    """Everybody, with the facts of the latest batch in force that has any about them.

    Parameters
    ----------
    connection
        Of any transaction.
    at
        An earlier moment. Default: now.
    """
    names, gone = names_of(connection), retracted_batches(connection, at and at.upto)
    f, p = schema.person_fact, schema.person
    groups, texts = ["{}"] * len(names), dict[str, str]()  # many people have the same groups
    facts_of = ("enrolled", "departed", "opted_out", "reserved", "absent_from", "absent_to")
    numbers = [f.c[name] for name in facts_of]
    facts = np.full((len(numbers), len(names)), UNKNOWN, np.int64)
    query = sa.select(
        f.c.person, f.c.groups, *(sa.func.coalesce(column, UNKNOWN) for column in numbers)
    ).order_by(f.c.batch)  # so that a later batch overwrites an earlier one
    added = sa.select(p.c.id)
    if at is not None:
        earlier = f.alias()
        known = sa.exists().where(
            earlier.c.person == f.c.person,
            earlier.c.batch <= at.before,
            earlier.c.batch.not_in(list(gone)),
        )
        query = query.where(f.c.batch <= at.upto, (f.c.batch <= at.before) | ~known)
        added = added.where(p.c.batch <= at.upto)
    if gone:
        query = query.where(f.c.batch.not_in(list(gone)))
        added = added.where(p.c.batch.not_in(list(gone)))
    named = np.zeros(len(names), bool)
    named[connection.execute(added).scalars().all()] = True
    for some in connection.execute(query).partitions(CHUNK):
        person, of_person, *fact = zip(*some, strict=True)
        # A later batch overwrites an earlier one also within the same piece.
        for i, text in zip(person, of_person, strict=True):
            groups[i] = texts.setdefault(text, text)
        which = np.array(person, dtype=np.int64)
        facts[:, which] = fact
        named[which] = True
    unnamed = np.flatnonzero(~named)
    return People(names, groups, unnamed=unnamed, **dict(zip(facts_of, facts, strict=True)))


def load_details(connection: Connection) -> dict[int, dict[str, str]]:
    """What worksheets may show of each person, such as a telephone number."""
    f, gone = schema.person_fact, retracted_batches(connection)
    query = sa.select(f.c.person, f.c.details).order_by(f.c.batch)
    if gone:
        query = query.where(f.c.batch.not_in(list(gone)))
    return {person: read_json(text) for person, text in connection.execute(query).all() if text}
