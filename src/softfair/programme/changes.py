"""Changes since a plan was made: who is struck off its list, and who is called instead.

The order in which people are called was drawn with the list (`plans.making.reserve_of`). People who
have opted out or left since are struck off, and the next in order are called. If capacity fell, the
last in order are taken off. A promise about groups is still kept (`replacing`). Calls are stored
when the list is handed out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from .calls import Call, Why, calls_of, write_calls
from .eligibility import Eligibility, Status, eligibility_of
from .plans import Plan, place_in_reserve
from .plans.kept import NOBODY
from .promises import NO_PROMISE
from .replacing import Replacing
from .snapshot import Snapshot, take_snapshot
from .store import Connection, Store

__all__ = ["Since", "call_reserves", "hand_out", "override", "since_plan"]

Ints = NDArray[np.int64]

WHY = {
    Status.OPTED_OUT: "opted out",
    Status.LEFT: "left",
    Status.UNNAMED: "no longer in any file",
    Status.NOT_YET: "not enrolled yet",
    Status.NO_SITE: "without a site",
    Status.ABSENT: "absent",
    Status.COOLING: "contacted shortly before",
    Status.USUAL: "in the trial's usual arm",
}
TAKEN_OFF = {
    Why.PLACE: "without a place",
    Why.NOT_REACHED: "taken off",
    Why.OVERRIDE: "taken off by an officer",
}


@dataclass(frozen=True)
class Since:
    """What has changed since a plan was made."""

    struck: dict[int, str]  # number of a listed person who is not to be called any more -> why
    places_before: int
    places_now: int
    called: Mapping[int, str] = field(default_factory=dict)  # number of one called -> why
    unfilled: int = 0  # free places that nobody in reserve can fill without breaking the promise

    def __bool__(self) -> bool:
        return bool(self.struck or self.called) or self.places_before != self.places_now

    def __str__(self) -> str:
        """The changes that call for another list, as part of a sentence; empty: none."""
        parts = [f"{many} {why}" for why, many in Counter(self.struck.values()).items()]
        if self.places_before != self.places_now:
            parts.append(f"capacity went from {self.places_before} to {self.places_now}")
        if self.unfilled:
            parts.append(
                f"{self.unfilled} without a replacement, because whoever is left in reserve would "
                "break what is promised of groups"
            )
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class _Handed:
    """A plan as it is handed out now."""

    plan: Plan
    now: Snapshot
    eligibility: Eligibility
    calls: dict[int, Call]  # in force
    contacted: Ints  # [n] in the round; UNKNOWN: not recorded

    @classmethod
    def of(cls, connection: Connection, plan: Plan) -> _Handed | None:
        """A plan as it is handed out now; None: its round is over, and its list changes no more."""
        now = take_snapshot(connection)
        if plan.round in now.over():
            return None
        _, contacted = now.history.of(plan.round, now.people.n)
        eligibility = eligibility_of(now, plan.round)
        return cls(plan, now, eligibility, calls_of(connection, plan.id), contacted)

    def __contains__(self, person: int) -> bool:
        """Whether somebody is on the list, with later calls and without people taken off."""
        call = self.calls.get(person)
        return person in self.drawn if call is None else call.calls

    @cached_property
    def drawn(self) -> set[int]:
        """The people who were drawn."""
        return set(self.plan.person[self.plan.listed == 1].tolist())

    def why_not(self, person: int) -> str | None:
        """Why somebody cannot be called any more; None if they can, or were contacted already."""
        if self.contacted[person] == 1:
            return None
        return WHY.get(Status(int(self.eligibility.status[person])))

    def in_order(self, site: str) -> list[int]:
        """People of a site in the order of calling, without those who cannot be called any more."""
        plan, order = self.plan, self.plan.reserve
        names = [one.name for one in plan.sites]
        at = dict(zip(plan.person.tolist(), plan.site.tolist(), strict=True))
        place = np.argsort(order.place, kind="stable")
        return [
            i
            for i in order.person[place].tolist()
            if names[at[i]] == site and self.why_not(i) is None
        ]

    def waiting(self, site: str) -> list[int]:
        """Reserves of a site, in order: in the draw, not listed, and nothing recorded of them."""
        off = {i for i, one in self.calls.items() if one.why is Why.OVERRIDE}
        free = (self.eligibility.status == Status.IN_DRAW) & (self.contacted < 0)
        return [i for i in self.in_order(site) if i not in self and i not in off and free[i]]

    def due(self) -> list[Call]:
        """Calls that fill every free place, and take people off for places that were lost."""
        calls: list[Call] = []
        for name, (holding, free) in self.places().items():
            called = self.replacing.called(holding, self.waiting(name), free)
            calls += [Call(i, True, Why.PLACE) for i in called]
            untold = [i for i in holding if self.contacted[i] < 0]
            taken = self.replacing.taken_off(holding, untold, -free)
            calls += [Call(i, False, Why.PLACE) for i in taken]
        return calls

    def places(self) -> dict[str, tuple[list[int], int]]:
        """The holders of places at each site, in order, and how many are free (below 0: lost)."""
        now = {site.name: site.capacity for site in self.eligibility.sites}
        if set(now) != {site.name for site in self.plan.sites}:
            return {}  # capacity goes by something else now: the list must be made anew
        # People whom an officer called, or who were called because others were not reached, do not
        # take one of these places.
        extra = {i for i, one in self.calls.items() if one.calls and one.why is not Why.PLACE}
        holding = {
            name: [i for i in self.in_order(name) if i in self and i not in extra] for name in now
        }
        return {name: (some, now[name] - len(some)) for name, some in holding.items()}

    @property
    def replacing(self) -> Replacing:
        """What the list keeps of a promise."""
        kept = self.plan.kept
        if kept is None:
            return Replacing(NO_PROMISE, NOBODY)
        return Replacing(kept.promise, kept.belonging)

    def unfilled(self) -> int:
        """Free places that no reserve can fill without breaking the promise."""
        free = {name: places for name, (_, places) in self.places().items() if places > 0}
        return sum(min(places, len(self.waiting(name))) for name, places in free.items())

    def counted(self, site: str) -> list[int]:
        """The people on the list of a site who are not recorded as not reached."""
        return [i for i in self.in_order(site) if i in self and self.contacted[i] != 0]

    def since(self) -> Since:
        """What has changed."""
        struck = {}
        for i in sorted(self.drawn | {one.person for one in self.calls.values() if one.calls}):
            reason = self.why_not(i) if i in self else TAKEN_OFF[self.calls[i].why]
            if reason is not None:
                struck[i] = reason
        called = {
            i: _sentence(self.plan, one)
            for i, one in self.calls.items()
            if one.calls and i not in self.drawn and i not in struck
        }
        before = sum(site.capacity for site in self.plan.sites)
        places = sum(site.capacity for site in self.eligibility.sites)
        unfilled = self.unfilled() if not self.due() else 0
        return Since(struck, before, places, called, unfilled)


def _sentence(plan: Plan, call: Call) -> str:
    """Why somebody was called from the reserve."""
    place = place_in_reserve(plan, call.person)
    where = f", {place}" if place else ""
    why = {
        Why.PLACE: "a place was free",
        Why.NOT_REACHED: "somebody on the list was not reached",
        Why.OVERRIDE: f"an officer's decision: {call.reason}",
    }[call.why]
    return f"Called from the reserve{where}: {why}."


def since_plan(database: Store, plan: Plan) -> Since:
    """What has changed since a plan was made; nothing is written.

    Parameters
    ----------
    database
        The programme.
    plan
        The plan; once its round is over, nothing changes it.
    """
    with database.reading() as connection:
        return _since(connection, plan)


def _since(connection: Connection, plan: Plan) -> Since:
    handed = _Handed.of(connection, plan)
    if handed is None:  # the round is over: later changes do not matter
        before = sum(site.capacity for site in plan.sites)
        return Since({}, before, before)
    return handed.since()


def hand_out(database: Store, plan: Plan, software: str) -> Since:
    """Give every free place to the next in order, and say what changed since a plan was made.

    Parameters
    ----------
    database
        The programme.
    plan
        The plan.
    software
        Name and version that calls from the reserve are stamped with.
    """
    with database.reading() as connection:
        handed = _Handed.of(connection, plan)
        if handed is None or not handed.due():
            return _since(connection, plan)
    with database.writing() as connection:
        handed = _Handed.of(connection, plan)
        if handed is not None:
            write_calls(connection, plan.id, handed.due(), software)
        return _since(connection, plan)


def call_reserves(
    database: Store, plan: Plan, software: str, count: int | None = None, reason: str = ""
) -> Since:
    """Call the next in order in place of people on the list who were not reached.

    Parameters
    ----------
    database
        The programme.
    plan
        The plan of a round that is not over.
    software
        Name and version that calls are stamped with.
    count
        How many. Default: as many as are recorded as not reached and have nobody called for them.
    reason
        Why more people than that are called.

    Raises
    ------
    InvalidInput
        If the round is over, if more are to be called than were not reached and no reason is given,
        or if fewer people in the reserve can be called.
    """
    with database.writing() as connection:
        handed = _open(connection, plan)
        by_site = {site.name: handed.waiting(site.name) for site in plan.sites}
        missed = _missed(handed)
        many, why = sum(missed.values()), Why.NOT_REACHED
        wanted = missed if count is None else _shared(count, by_site)
        if count is not None and count > many:
            why = Why.OVERRIDE
            if not reason.strip():
                raise InvalidInput(
                    f"{many} on the list were told as not reached and have nobody called for them, "
                    f"and {count} are to be called; say why, such as --reason 'a day more'"
                )
        calls = [
            Call(i, True, why, reason.strip() or None)
            for name, many in wanted.items()
            for i in handed.replacing.called(handed.counted(name), by_site[name], many)
        ]
        if count is not None and count > len(calls):
            kept = ", the promise about groups kept" * handed.replacing.promise.grouped
            raise InvalidInput(
                f"{count} are to be called, the reserve of round {plan.round} has {len(calls)} "
                f"who can be{kept}; call fewer, or draw anew with: softfair plan --replan REASON"
            )
        write_calls(connection, plan.id, calls, software)
        return _since(connection, plan)


def override(
    database: Store, plan: Plan, software: str, name: str, calls: bool, reason: str
) -> Since:
    """Call somebody out of order, or take them off; nobody's stated chance changes.

    Parameters
    ----------
    database
        The programme.
    plan
        The plan of a round that is not over.
    software
        Name and version that the call is stamped with.
    name
        The person's identifier.
    calls
        Whether they are to be called.
    reason
        Why; it is kept.

    Raises
    ------
    InvalidInput
        If there is no reason, if nobody has that name, or if they cannot be called.
    """
    if not reason.strip():
        raise InvalidInput("the order is left for a reason; say it, such as --reason 'in hospital'")
    with database.writing() as connection:
        handed = _open(connection, plan)
        if name not in plan.names:
            raise InvalidInput(f"nobody is called {name!r}; see: softfair plan --all")
        person = plan.names.index(name)
        if calls and (why := handed.why_not(person)) is not None:
            raise InvalidInput(f"{name} cannot be called in round {plan.round}: {why}")
        if calls == (person in handed):
            said = "on the list already" if calls else "not on the list"
            raise InvalidInput(f"{name} is {said}; nothing was changed")
        write_calls(
            connection, plan.id, [Call(person, calls, Why.OVERRIDE, reason.strip())], software
        )
        return _since(connection, plan)


def _open(connection: Connection, plan: Plan) -> _Handed:
    handed = _Handed.of(connection, plan)
    if handed is None:
        raise InvalidInput(f"round {plan.round} is over; nobody can be called for it any more")
    return handed


def _missed(handed: _Handed) -> dict[str, int]:
    """How many at each site are recorded as not reached and have nobody called for them."""
    plan = handed.plan
    site = dict(zip(plan.person.tolist(), plan.site.tolist(), strict=True))
    missed: Counter[str] = Counter({one.name: 0 for one in plan.sites})
    for i in handed.drawn | set(handed.calls):
        name = plan.sites[site[i]].name if site[i] >= 0 else ""
        missed[name] += i in handed and handed.contacted[i] == 0
        call = handed.calls.get(i)
        missed[name] -= call is not None and call.calls and call.why is Why.NOT_REACHED
    return {name: max(many, 0) for name, many in missed.items()}


def _shared(count: int, by_site: dict[str, list[int]]) -> dict[str, int]:
    """Share ``count`` calls among the sites, one site after another."""
    wanted = {}
    for name, waiting in by_site.items():
        wanted[name] = min(count, len(waiting))
        count -= wanted[name]
    return wanted
