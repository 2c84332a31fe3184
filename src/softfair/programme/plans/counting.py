"""How many lists in a row each person was left off, which is what a promised wait counts.

A list counts for the people who were in its draw. The count of a person stands still while they are
absent, rest after a contact or have a contact arranged, and at a list without any place. The count
begins anew when a person is on a list, whether or not they are then reached: a draw cannot promise
more, and a person who cannot be reached would otherwise take a place on every list. It also begins
anew with enrolment, and when a person returns who had opted out or left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from .. import schema
from ..bulk import fetch
from ..eligibility import Site, Status, sites_of
from ..promises import Promise
from ..store import Connection

__all__ = ["clock_of", "left_off", "left_off_lists"]

Ints = NDArray[np.int64]

ANEW, STILL, ON = -1, 0, 1  # what a list does to the count of a person
GONE = (Status.NOT_YET, Status.LEFT, Status.OPTED_OUT, Status.UNNAMED)


def clock_of(status: Ints, site: Ints, listed: Ints, sites: Sequence[Site]) -> NDArray[np.int8]:
    """What a list did to everybody's count: ON, STILL or ANEW [n]."""
    places = np.array([one.capacity for one in sites] + [0])  # the last: no site
    drawn = (status == Status.IN_DRAW) & (places[site] > 0)
    anew = (listed == 1) | np.isin(status, GONE)
    return np.where(anew, ANEW, np.where(drawn, ON, STILL)).astype(np.int8)


def left_off_lists(clocks: Iterable[NDArray[np.int8]], n: int) -> Ints:
    """Lists in a row, up to the last one, that each of n people was left off.

    Parameters
    ----------
    clocks
        For each list, the last list first: what it did to the counts of the people who were in the
        programme then, see `clock_of`.
    n
        People in the programme.
    """
    many, open_ = np.zeros(n, np.int64), np.ones(n, bool)
    for clock in clocks:
        open_[len(clock) :] = False  # not in the programme yet
        open_[: len(clock)] &= clock != ANEW
        many[: len(clock)] += open_[: len(clock)] & (clock == ON)
        if not open_.any():
            break
    return many


def left_off(connection: Connection, promise: Promise, at: int, n: int) -> Ints:
    """How many lists in force in a row, up to a round, each of n people was left off."""
    p, r = schema.plan, schema.plan_row
    newest = sa.select(p.c.round, sa.func.max(p.c.version)).group_by(p.c.round)
    plans = connection.execute(
        sa.select(p.c.id, p.c.sites)
        .where(p.c.round < at, p.c.round >= promise.since)
        .where(sa.tuple_(p.c.round, p.c.version).in_(newest))
        .order_by(p.c.round.desc())
    ).all()

    def clocks() -> Iterable[NDArray[np.int8]]:
        for number, sites in plans:
            columns = (r.c.person, r.c.status, r.c.site, r.c.listed)
            table = fetch(connection, sa.select(*columns).where(r.c.plan == number), np.int64)
            _, status, site, listed = table[np.argsort(table[:, 0])].T
            yield clock_of(status, site, listed, sites_of(sites))

    return left_off_lists(clocks(), n)
