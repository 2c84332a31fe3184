"""Whether the promise of a programme can be kept by the plan of a round, and what it keeps then.

With a wait of W promised, a person who was left off w lists in a row (`counting`) has d = W - w
lists left, this one included. The promise can be kept if two conditions hold at every site: for
every d, the next d lists have places for all people in the draw who have at most d lists left; and
any W lists in a row have places for all people of the site (:mod:`softfair.policies.promised`).
After the draw both hold for the next list. A person who is away counts with their d, since they may
be back any time. If a least chance is promised as well, deadlines may take fewer places.

With shares beside a wait, the people in the same promised groups are a cell. The places of the
coming lists are divided among the cells so that every list has its shares
(:mod:`softfair.quotas.dividing`), and each cell keeps its deadlines with its own places, as a site
does. If there is such a division now, there is one for the next list: the same one, without its
first column. So the promise can be kept as long as people and capacities stay as they are, or
change so that a division remains. The division is stored with the plan.

With a wait and at most one of each household, deadlines are moved forward so that no two people of
a household must be on one list (:func:`softfair.policies.deadlines.moved_forward`), see `together`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...errors import Infeasible, InvalidInput
from ...policies.deadlines import places_for_deadlines
from ...quotas import relaxed
from ..eligibility import WAITING, Eligibility, Site, Status
from ..promises import LONGEST, Promise, rounded_down
from ..snapshot import Snapshot
from ..store import Connection
from .counting import left_off
from .kept import Belonging, Kept, belonging_of
from .sharing import Sharing
from .together import Together

__all__ = ["kept_by"]

Ints = NDArray[np.int64]


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
        If the promise cannot be kept; the message has the nearest promise that can be kept.
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
    if promise.chance:
        _refuse_chance(promise, eligibility)
    belonging = belonging_of(promise, now.people)
    _refuse_groups(promise, now, eligibility, belonging)
    if not promise.wait:
        return Kept(promise, np.empty(0, np.int64), (), belonging)
    if later := [one for one in now.rounds.planned if one > at]:
        raise InvalidInput(
            f"round {later[0]} is planned already and counts on the list of round {at}, so that a "
            "promised wait may not be kept; plan with --promise none"
        )
    off = left_off(connection, promise, at, now.people.n)
    waiting = np.isin(eligibility.status, WAITING) & (eligibility.site >= 0)
    sites = eligibility.sites
    cases = [_Case.of(now, at, eligibility, j, off) for j in range(len(sites))]
    if promise.one:
        for j, (site, case) in enumerate(zip(sites, cases, strict=True)):
            _together(site, j, case, promise, belonging, off, eligibility).check()
    else:
        _refuse_wait(promise, cases, sites, at)
    coming = tuple(
        tuple(replace(case, floor=0.0).lists(promise.wait + 1).tolist()) for case in cases
    )
    due = np.where(waiting, np.maximum(promise.wait - off, 1), 0)
    kept = Kept(promise, due, coming, belonging)
    if not promise.shares:
        return kept
    sharing = [_sharing(one, j, cases[j], kept, off, eligibility) for j, one in enumerate(sites)]
    divisions = [one.kept().tolist() for one in sharing]
    return replace(kept, divided=tuple(tuple(map(tuple, cells)) for cells in divisions))


def _together(
    site: Site,
    j: int,
    case: _Case,
    promise: Promise,
    belonging: Belonging,
    off: Ints,
    eligibility: Eligibility,
) -> Together:
    """The people and the lists of site j, where at most one of each household is on a list."""
    who = eligibility.waiting(j)
    return Together(site.name, promise, belonging.house[who], off[who], case.lists)


def _sharing(
    site: Site, j: int, case: _Case, kept: Kept, off: Ints, eligibility: Eligibility
) -> Sharing:
    """The people and the lists of site j, where groups have shares."""
    who, places = eligibility.waiting(j), replace(case, floor=0.0)
    kinds, cell = kept.belonging.kinds
    drawn = eligibility.status[who] == Status.IN_DRAW
    given = (kinds, cell[who], off[who], drawn, places.lists)
    return Sharing(site.name, kept.promise, *given, site.capacity > 0)


@dataclass(frozen=True, eq=False)
class _Case:
    """The people and the lists of one site."""

    off: Ints  # [m] lists that each person in the draw was left off
    n: int  # people of the site, in the draw or not
    places: Ints  # on this list, the next, ...; lists without any are left out
    usual: int  # places on all lists after these
    ends: bool  # there are no lists after these
    floor: float = 0.0  # the least chance that is promised too

    @classmethod
    def of(cls, now: Snapshot, at: int, eligibility: Eligibility, j: int, off: Ints) -> _Case:
        settings, usual = now.settings, eligibility.usual[j]
        farthest = at + LONGEST
        ends = settings.ends is not None and settings.ends < farthest
        last = settings.ends if ends else max([at, *settings.exceptions])
        rounds = range(at, min(last or at, farthest) + 1)
        places = np.array([settings.capacity_in(one, usual) for one in rounds], np.int64)
        people = len(eligibility.waiting(j))
        floor = settings.promise.chance
        return cls(off[eligibility.in_draw(j)], people, places[places > 0], usual, ends, floor)

    def lists(self, more: int) -> Ints:
        """Places that deadlines may take on each list: the known lists, then usual ones."""
        later = 0 if self.ends else more
        places = np.concatenate([self.places, np.full(later, self.usual, np.int64)])
        return np.asarray(places_for_deadlines(self.n, places, self.floor), np.int64)

    def fault(self, W: int) -> str | None:
        """The inequality that fails if a wait of W is promised; None: it can be kept."""
        most = int(self.off.max(initial=0))
        if most >= W:
            many = int((self.off >= W).sum())
            return f"{many} people in the draw were left off {most} lists in a row already"
        sums = np.concatenate([[0], np.cumsum(self.lists(W))])
        if len(sums) > W:  # else the last list comes before a deadline of W lists
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
        # The longest wait to try: before its first deadline come all lists that are unlike the
        # usual ones, and then as many lists as everybody needs to have a place.
        usual = int(np.min(replace(self, ends=False).lists(1)[-1:]))
        enough = len(self.places) + -(-self.n // max(usual, 1))
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
    """Raise if a promised wait cannot be kept at some site, with the shortest that all can keep."""
    faults = [case.fault(promise.wait) if case.n else None for case in cases]
    faulty = [j for j, fault in enumerate(faults) if fault is not None]
    if not faulty:
        return
    fault, name = faults[faulty[0]], sites[faulty[0]].name
    at_site = f" at {name}" if name else ""
    waits = [cases[j].shortest(promise.wait) for j in faulty]
    known = [wait for wait in waits if wait is not None]
    if len(known) < len(waits):
        remedy = "no wait can be promised without places on lists; raise the capacity"
    else:
        remedy = f"the shortest that can be kept is wait={max(known)}"
        remedy += f",from={promise.since}" * bool(promise.since)
        fresh = (replace(one, off=0 * one.off).fault(promise.wait) for one in cases if one.n)
        if any(fault is not None for fault in fresh):
            remedy += "; promise that, or raise the capacity"
        else:
            remedy += "; promise that, raise the capacity, or let lists count from this one on: "
            remedy += f"wait={promise.wait},from={at}"
    raise Infeasible(f"the promise cannot be kept{at_site}: {promise}; {fault}; {remedy}")


def _refuse_groups(
    promise: Promise, now: Snapshot, eligibility: Eligibility, belonging: Belonging
) -> None:
    """Raise if shares of groups cannot be kept, with the smallest relaxation."""
    if not promise.grouped:
        return
    if now.settings.by in promise.columns:
        raise InvalidInput(
            f"the promise is about {now.settings.by}, and capacities go by it already; "
            "set its capacities instead"
        )
    for j, one in enumerate(eligibility.sites):
        who = eligibility.in_draw(j)
        k = min(one.capacity, len(who))
        at_site = f" at {one.name}" if one.name else ""
        refused = f"the promise cannot be kept{at_site}: {promise}; {k} places on the list"
        quotas = belonging.quotas(promise, who, k) if k else ()
        house = belonging.house[who] if promise.one else np.empty(0, np.int64)
        different = len(np.unique(house[house >= 0])) + int((house < 0).sum())
        if promise.one and k > different:
            raise Infeasible(
                f"{refused}, and {different} in the draw who are not of the same {promise.one}; "
                f"lower the capacity to {different}, or promise less"
            )
        if nearest := relaxed(len(who), k, quotas):
            of = [promise.shares[each.quota] for each in nearest]
            there = np.size(quotas[nearest[0].quota].arms)
            less = "; ".join(
                share.with_places(each.possible).said
                for share, each in zip(of, nearest, strict=True)
            )
            raise Infeasible(
                f"{refused}, and {there} people of {of[0].column} {of[0].value or '(none given)'} "
                f"in the draw; the smallest relaxation that can be kept is: {less}; promise that, "
                "or change the capacity"
            )


def _refuse_chance(promise: Promise, eligibility: Eligibility) -> None:
    """Raise if a promised chance cannot be kept, with the largest that can."""
    largest, name, k, m = 1.0, "", 0, 0
    for j, one in enumerate(eligibility.sites):
        size = len(eligibility.in_draw(j))
        share = min(1.0, one.capacity / size) if size else 1.0
        if share < largest:
            largest, name, k, m = share, one.name, one.capacity, size
    if promise.chance > largest * (1 + 1e-12):
        at_site = f" at {name}" if name else ""
        raise Infeasible(
            f"the promise cannot be kept{at_site}: {promise}; chances sum to the places, and "
            f"{m} people share {k}: {m} * {promise.chance:g} > {k}; the largest that can be kept "
            f"is chance={rounded_down(largest)}; promise that, or raise the capacity"
        )
