"""A snapshot of the database: people, history and settings as they are at one moment.

The tables keep every entry that was ever made. What is loaded here is what is in force: for each
person the facts of the latest batch, for each person and round the latest state and the latest
contact that are known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..progress import say
from . import store
from .entries import STRIDE
from .settings import Settings, current_settings
from .store import MANY, UNKNOWN, Connection, Store, fetch, names_of

__all__ = [
    "History",
    "People",
    "Snapshot",
    "how_many",
    "load_history",
    "load_people",
    "take_snapshot",
]

Ints = NDArray[np.int64]

BATCH = 2**18  # batch * BATCH + state and contact is one number; S is below 2**15


@dataclass(frozen=True, eq=False)
class People:
    """Everybody, in the order of their number, with the facts in force."""

    names: list[str]
    groups: list[str]  # JSON, such as {"region": "north"}
    enrolled: Ints  # [n] first round in the programme; UNKNOWN: not set
    departed: Ints  # [n] first round no longer in it; UNKNOWN: not set
    opted_out: Ints  # [n] 1, 0 or UNKNOWN
    reserved: Ints  # [n] round in which a contact is arranged already; UNKNOWN: none

    @property
    def n(self) -> int:
        """How many people there are."""
        return len(self.names)

    def columns(self) -> list[str]:
        """Names of the group columns, in the order they came."""
        return list(
            dict.fromkeys(name for text in dict.fromkeys(self.groups) for name in json.loads(text))
        )

    def group(self, column: str) -> tuple[list[str], Ints]:
        """The values of a group column, sorted, and which of them each person has.

        Parameters
        ----------
        column
            Its name.

        Returns
        -------
        tuple of list and numpy.ndarray
            The values, and for each person [n] the place of theirs; ``""`` for who has none.

        Raises
        ------
        InvalidInput
            If there is no such column.
        """
        if column not in (columns := self.columns()):
            known = ", ".join(columns) if columns else "none: import people with such a column"
            raise InvalidInput(f"there is no group column {column!r}; known: {known}")
        distinct = {text: json.loads(text).get(column, "") for text in dict.fromkeys(self.groups)}
        values = sorted(set(distinct.values()))
        place = {text: values.index(value) for text, value in distinct.items()}
        return values, np.array([place[text] for text in self.groups], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class History:
    """Observations [m], sorted by person and round; UNKNOWN where one of the two was not made."""

    person: Ints
    round: Ints
    state: Ints  # at the start of the round
    contacted: Ints  # during the round

    @property
    def key(self) -> Ints:
        """One number for person and round [m], ascending."""
        return self.person * STRIDE + self.round

    def of(self, round: int, n: int) -> tuple[Ints, Ints]:
        """State and contact of each of n people in a round [n]; UNKNOWN where there is none."""
        rows = np.flatnonzero(self.round == round)
        state, contacted = np.full(n, UNKNOWN, np.int64), np.full(n, UNKNOWN, np.int64)
        state[self.person[rows]] = self.state[rows]
        contacted[self.person[rows]] = self.contacted[rows]
        return state, contacted


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What the database holds at one moment."""

    setting: int  # the number of the settings
    settings: Settings
    batch: int  # the number of the last import or record, 0 if there was none
    people: People
    history: History

    def next_round(self) -> int:
        """The first round whose contacts are not known yet."""
        history = self.history
        if (known := history.round[history.contacted >= 0]).size:
            return int(known.max()) + 1
        return int(history.round.max()) if len(history.round) else 1


def take_snapshot(connection: Connection) -> Snapshot:
    """Load what is in force.

    Raises
    ------
    InvalidInput
        If the programme has no people yet.
    """
    number, settings = current_settings(connection)
    batch = connection.execute(
        sa.select(sa.func.coalesce(sa.func.max(store.batch.c.id), 0))
    ).scalar_one()
    people = load_people(connection)
    if not people.n:
        raise InvalidInput(
            "the programme has no people yet; import them with: softfair import people FILE"
        )
    return Snapshot(number, settings, batch, people, load_history(connection))


def how_many(database: Store) -> int:
    """How many people are in the programme."""
    with database.reading() as connection:
        return int(
            connection.execute(sa.select(sa.func.count()).select_from(store.person)).scalar_one()
        )


def load_people(connection: Connection) -> People:
    """Everybody, with the facts of the latest batch that has any about them."""
    names = names_of(connection)
    f = store.person_fact
    groups = ["{}"] * len(names)
    facts = [[UNKNOWN] * 4 for _ in names]
    rounds_and_flags = (f.c.enrolled, f.c.departed, f.c.opted_out, f.c.reserved)
    query = sa.select(
        f.c.person, f.c.groups, *(sa.func.coalesce(column, UNKNOWN) for column in rounds_and_flags)
    ).order_by(f.c.batch)  # so that a later batch overwrites an earlier one
    for person, group, *fact in connection.execute(query):
        groups[person], facts[person] = group, fact
    return People(names, groups, *np.array(facts, dtype=np.int64).reshape(-1, 4).T.copy())


def load_history(connection: Connection, first: int = 0, last: int = STRIDE - 1) -> History:
    """Observations, each as the latest batch that knew it has it.

    Parameters
    ----------
    connection
        Of any transaction.
    first, last
        The rounds to load, both included.
    """
    o = store.observation
    if (many := connection.execute(sa.select(sa.func.count()).select_from(o)).scalar_one()) > MANY:
        say(f"reading {many:,} entries of history ...")
    # Two numbers a row, not five: most of the time goes into making Python's numbers.
    key = sa.cast(o.c.person, sa.BigInteger) * STRIDE + o.c.round
    state_and_contact = (
        (sa.func.coalesce(o.c.state, UNKNOWN) + 1) * 4
        + sa.func.coalesce(o.c.contacted, UNKNOWN)
        + 1
    )
    packed = sa.cast(o.c.batch, sa.BigInteger) * BATCH + state_and_contact
    rows = fetch(connection, sa.select(key, packed).where(o.c.round.between(first, last)), np.int64)
    if not len(rows):
        return History(*np.empty((4, 0), np.int64))
    # By person and round, then by batch. Sorted here: PostgreSQL would sort on disk.
    ascending = np.diff(rows[:, 0])
    if not ((ascending > 0) | ((ascending == 0) & (np.diff(rows[:, 1]) > 0))).all():
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    keys, states, contacts = rows[:, 0], rows[:, 1] % BATCH // 4 - 1, rows[:, 1] % 4 - 1
    starts = np.flatnonzero(np.diff(keys, prepend=-1))  # first row of each person and round

    def latest_known(column: Ints) -> Ints:
        place = np.maximum.reduceat(np.where(column >= 0, np.arange(len(column)), -1), starts)
        return np.where(place >= 0, column[place], UNKNOWN)

    return History(
        keys[starts] // STRIDE, keys[starts] % STRIDE, latest_known(states), latest_known(contacts)
    )
