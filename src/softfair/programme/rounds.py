"""Which rounds are over.

A planned round is over when a record closed it, or when the contact of everybody on its list is
recorded (except of people who have opted out or left since). A round that nobody planned is over
when any contact in it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from . import schema
from .bulk import fetch
from .calls import calls_of
from .schema import IS_LISTED
from .store import Connection
from .tracks import History, retracted_batches

__all__ = ["Rounds", "load_rounds"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds that were planned, and what closes them."""

    closed: frozenset[int] = frozenset()  # by a record that said so
    # Planned round -> persons on its list: as drawn, with calls, and without people taken off.
    lists: Mapping[int, Ints] = field(default_factory=dict)

    @property
    def planned(self) -> list[int]:
        """The planned rounds, ascending."""
        return sorted(self.lists)

    def untold(self, round: int, contacted: Ints, gone: Ints) -> Ints:
        """People on the list of a planned round of whom nothing is recorded.

        Parameters
        ----------
        round
            The round.
        contacted
            The contact of everybody in the round [n]; below 0: not recorded.
        gone
            Persons who have opted out or left, so that nothing need be recorded of them.
        """
        listed = np.setdiff1d(self.lists[round], gone)
        return listed[contacted[listed] < 0]

    def over(self, history: History, gone: Mapping[int, Ints]) -> list[int]:
        """All rounds that are over, ascending.

        Parameters
        ----------
        history
            The history with all known contacts.
        gone
            For each planned round, the people who have opted out or left by then.
        """
        told = history.rounds[(history.contacted >= 0).any(axis=1)]
        done = set(told.tolist()) - set(self.lists)
        for at, listed in self.lists.items():
            _, contacted = history.of(at, history.n)
            if at in self.closed or (len(listed) and not len(self.untold(at, contacted, gone[at]))):
                done.add(at)
        return sorted(done | self.closed)


def load_rounds(connection: Connection) -> Rounds:
    """The planned rounds with the lists in force, and those that a record closed."""
    b, p, r = schema.batch, schema.plan, schema.plan_row
    closing = sa.select(b.c.id, b.c.round).where(b.c.closes == 1, b.c.round.is_not(None))
    gone = retracted_batches(connection)
    closed = frozenset(int(at) for number, at in connection.execute(closing) if number not in gone)
    newest = (
        sa.select(p.c.round, sa.func.max(p.c.version).label("version"))
        .group_by(p.c.round)
        .subquery()
    )
    in_force = sa.select(p.c.id, p.c.round).join(
        newest, (p.c.round == newest.c.round) & (p.c.version == newest.c.version)
    )
    round_of = {row.id: row.round for row in connection.execute(in_force)}
    lists: dict[int, Ints] = {at: np.empty(0, np.int64) for at in round_of.values()}
    if round_of:
        # Plans that are not in force are few: with them, the database reads the index alone.
        rows = fetch(connection, sa.select(r.c.person, r.c.plan).where(IS_LISTED), np.int64)
        for number, at in round_of.items():
            calls = calls_of(connection, number)
            off = [one.person for one in calls.values() if not one.calls]
            more = [one.person for one in calls.values() if one.calls]
            drawn = np.setdiff1d(rows[rows[:, 1] == number, 0], off)
            lists[at] = np.union1d(drawn, more).astype(np.int64)
    return Rounds(closed, lists)
