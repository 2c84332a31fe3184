"""What a promise asks of the draws of a plan, and whether it can be kept.

A promised wait counts lists. A list counts for who was in its draw: being absent, resting after a
contact or having a contact arranged makes the count stand still, and so does a list without any
place. Being on a list begins it anew, whether or not the person is then reached: a draw cannot
promise more, and who cannot be reached would otherwise hold a place of every list. It begins anew
as well for who returns after having opted out or left, and with enrolment.

With W promised, who was left off w lists has d = W - w left, this one included. The promise can be
kept if at every site, for every d, no more people in the draw have at most d left than the next d
lists have places, and if all people of the site are no more than the places of any W lists in a row
(:mod:`softfair.policies.promised`). The draw leaves it so for the next list. Who is away counts
with their d, since they may be back any time.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...errors import Infeasible, InvalidInput
from .. import store
from ..eligibility import WAITING, Eligibility, Site, Status, sites_of
from ..promises import LONGEST, Promise, rounded_down
from ..snapshot import Snapshot
from ..store import Connection, fetch
from .drawing import FREE, Terms

__all__ = ["Kept", "clock_of", "kept_by", "left_off", "left_off_lists", "terms_of"]

Ints = NDArray[np.int64]

ANEW, STILL, ON = -1, 0, 1  # what a list does to the count of a person
GONE = (Status.NOT_YET, Status.LEFT, Status.OPTED_OUT, Status.UNNAMED)


@dataclass(frozen=True, eq=False)
class Kept:
    """What a plan keeps of a promise."""

    promise: Promise
    due: Ints  # [n] lists within which each must be on one, this one included; 0: not promised
    coming: tuple[tuple[int, ...], ...]  # places of each site: this list, the next, ...

    def terms(self, site: Site, j: int, in_draw: Ints, waiting: Ints) -> Terms:
        """What the draw of site j keeps.

        Parameters
        ----------
        site, j
            The site and its place.
        in_draw, waiting
            Numbers of those in its draw, and of all who are in the programme there.
        """
        if not self.promise.W:
            return Terms(floor=self.promise.floor, site=site.name)
        away = np.setdiff1d(waiting, in_draw)
        left = self.due[in_draw], self.due[away], np.array(self.coming[j], np.int64)
        return Terms(0.0, *left, site=site.name)

    def to_json(self) -> dict[str, Any]:
        """As it is stored beside the outlook; the promise itself is part of that."""
        if not self.promise.W:
            return {}
        content = zlib.compress(self.due.astype("<i4").tobytes())
        return {"due": base64.b64encode(content).decode(), "coming": self.coming}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Kept | None:
        """From the outlook of a plan as it is stored; None: nothing was promised."""
        if "promise" not in fields:
            return None
        due = np.empty(0, np.int64)
        if "due" in fields:
            try:
                content = zlib.decompress(base64.b64decode(fields["due"]))
            except zlib.error as error:
                raise ValueError(f"the lists left cannot be read: {error}") from None
            due = np.frombuffer(content, "<i4").astype(np.int64)
        coming = tuple(tuple(places) for places in fields.get("coming", ()))
        return cls(Promise(**fields["promise"]), due, coming)


def terms_of(kept: Kept | None, site: Site, j: int, status: Ints, sites: Ints) -> Terms:
    """What the draw of site j keeps, from everybody's status and site in the plan [n]."""
    if kept is None:
        return FREE
    here = sites == j
    in_draw = np.flatnonzero(here & (status == Status.IN_DRAW))
    return kept.terms(site, j, in_draw, np.flatnonzero(here & np.isin(status, WAITING)))


# ---- how often each was left off ----


def clock_of(status: Ints, site: Ints, listed: Ints, sites: Sequence[Site]) -> NDArray[np.int8]:
    """What a list did to everybody's count: ON, STILL or ANEW [n]."""
    places = np.array([one.capacity for one in sites] + [0])  # the last for who has no site
    drawn = (status == Status.IN_DRAW) & (places[site] > 0)
    anew = (listed == 1) | np.isin(status, GONE)
    return np.where(anew, ANEW, np.where(drawn, ON, STILL)).astype(np.int8)


def left_off_lists(clocks: Iterable[NDArray[np.int8]], n: int) -> Ints:
    """Lists in a row, up to the last one, that each of n people was left off.

    Parameters
    ----------
    clocks
        Of each list what it did to the counts of those who were in the programme then, see
        `clock_of`; the last list first.
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
    """Lists in a row before a round's that each of n people was left off, as lists are in force."""
    p, r = store.plan, store.plan_row
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


# ---- whether it can be kept ----


def kept_by(
    connection: Connection, now: Snapshot, at: int, eligibility: Eligibility
) -> Kept | None:
    """What the plan of a round keeps of the programme's promise; None: there is none.

    Parameters
    ----------
    connection
        Of the transaction in which the plan is made.
    now
        What is known.
    at
        The round.
    eligibility
        Who takes part in its draws.

    Raises
    ------
    Infeasible
        If the promise cannot be kept; the message has the nearest that can.
    InvalidInput
        In a trial, or if a later round is planned already.
    """
    promise = now.settings.promise
    if promise.is_none:
        return None
    if any(one.arm for one in eligibility.sites):
        raise InvalidInput(
            "a promise cannot be kept in a trial: its arms must differ in the rule of the draw "
            "alone, and the usual arm has no list; plan with --promise none, or end the trial"
        )
    if not promise.W:
        _refuse_chance(promise, eligibility)
        return Kept(promise, np.empty(0, np.int64), ())
    if later := [one for one in now.rounds.planned if one > at]:
        raise InvalidInput(
            f"round {later[0]} is planned already and counts on the list of round {at}, so that a "
            "promised wait may not be kept; plan with --promise none"
        )
    off = left_off(connection, promise, at, now.people.n)
    waiting = np.isin(eligibility.status, WAITING) & (eligibility.site >= 0)
    cases = [_Case.of(now, at, eligibility, j, off) for j in range(len(eligibility.sites))]
    _refuse_wait(promise, cases, eligibility.sites, at)
    coming = tuple(tuple(case.lists(promise.W + 1).tolist()) for case in cases)
    return Kept(promise, np.where(waiting, np.maximum(promise.W - off, 1), 0), coming)


@dataclass(frozen=True, eq=False)
class _Case:
    """The people and the lists of one site."""

    off: Ints  # [m] lists that those in the draw were left off
    n: int  # all its people, in the draw or not
    places: Ints  # on this list, the next, ...; lists without any are left out
    usual: int  # places on all lists after these
    ends: bool  # there are no lists after these

    @classmethod
    def of(cls, now: Snapshot, at: int, eligibility: Eligibility, j: int, off: Ints) -> _Case:
        settings, usual = now.settings, eligibility.usual[j]
        farthest = at + LONGEST
        ends = settings.ends is not None and settings.ends < farthest
        last = settings.ends if ends else max([at, *settings.exceptions])
        rounds = range(at, min(last or at, farthest) + 1)
        places = np.array([settings.capacity_in(one, usual) for one in rounds], np.int64)
        people = len(eligibility.waiting(j))
        return cls(off[eligibility.in_draw(j)], people, places[places > 0], usual, ends)

    def lists(self, more: int) -> Ints:
        """Places on each list: those that are known one by one, then so many usual ones."""
        later = 0 if self.ends else more
        return np.concatenate([self.places, np.full(later, self.usual, np.int64)])

    def fault(self, W: int) -> str | None:
        """The inequality that fails if a wait of W is promised; None: it can be kept."""
        most = int(self.off.max(initial=0))
        if most >= W:
            many = int((self.off >= W).sum())
            return f"{many} people in the draw were left off {most} lists in a row already"
        sums = np.concatenate([[0], np.cumsum(self.lists(W))])
        if len(sums) > W:  # else all lists end before anybody's time does
            fewest = int((sums[W:] - sums[:-W]).min())
            if self.n > fewest:
                return f"{self.n} people, and {fewest} places on {W} lists: {self.n} > {fewest}"
        due = np.cumsum(np.bincount(W - self.off, minlength=W + 1))[1:]  # by lists left
        reach = min(W, len(sums) - 1)
        short = np.flatnonzero(due[:reach] > sums[1 : reach + 1])
        if len(short):
            d = int(short[0])
            many, there = int(due[d]), int(sums[d + 1])
            lists = "this list" if d == 0 else f"the next {d + 1} lists"
            return f"{many} people must be on {lists}, with {there} places: {many} > {there}"
        return None

    def shortest(self, W: int) -> int | None:
        """The shortest wait from W on that can be promised; None: none can."""
        # With this one all lists that are unlike the usual ones, and then one list after another
        # until everybody had a place, come before anybody's time ends.
        enough = len(self.places) + -(-self.n // max(self.usual, 1))
        low, high = W, max(W, int(self.off.max(initial=0)) + enough + 1)
        if self.fault(high) is not None:
            return None
        while low < high:
            middle = (low + high) // 2
            if self.fault(middle) is None:
                high = middle
            else:
                low = middle + 1
        return high


def _refuse_wait(promise: Promise, cases: Sequence[_Case], sites: Sequence[Site], at: int) -> None:
    """Raise if a promised wait cannot be kept at some site, with the shortest that can at all."""
    faults = [case.fault(promise.W) if case.n else None for case in cases]
    faulty = [j for j, fault in enumerate(faults) if fault is not None]
    if not faulty:
        return
    fault, name = faults[faulty[0]], sites[faulty[0]].name
    at_site = f" at {name}" if name else ""
    waits = [cases[j].shortest(promise.W) for j in faulty]
    known = [wait for wait in waits if wait is not None]
    if len(known) < len(waits):
        remedy = "no wait can be promised without places on lists; raise the capacity"
    else:
        remedy = f"the shortest that can be kept is wait={max(known)}"
        remedy += f",from={promise.since}" * bool(promise.since)
        remedy += "; promise that, raise the capacity"
        if all(replace(one, off=0 * one.off).fault(promise.W) is None for one in cases if one.n):
            remedy += f", or let lists count from this one on: wait={promise.W},from={at}"
    raise Infeasible(f"the promise cannot be kept{at_site}: {promise}; {fault}; {remedy}")


def _refuse_chance(promise: Promise, eligibility: Eligibility) -> None:
    """Raise if a promised chance cannot be kept, with the largest that can."""
    largest, name, k, m = 1.0, "", 0, 0
    for j, one in enumerate(eligibility.sites):
        size = len(eligibility.in_draw(j))
        share = min(1.0, one.capacity / size) if size else 1.0
        if share < largest:
            largest, name, k, m = share, one.name, one.capacity, size
    if promise.floor > largest * (1 + 1e-12):
        at_site = f" at {name}" if name else ""
        raise Infeasible(
            f"the promise cannot be kept{at_site}: {promise}; chances sum to the places, and "
            f"{m} people share {k}: {m} * {promise.floor:g} > {k}; the largest that can be kept is "
            f"chance={rounded_down(largest)}; promise that, or raise the capacity"
        )
