"""How evenly lists and contacts are spread, who never had one, and who waits longest.

**Never listed.** The product of 1 - p over rounds would be wrong where a probability depends on
earlier lists (a cooldown). First listings are counted instead: with D = 1 for people in the draw
who were not listed before, sum D p first listings are expected, with the variance of the set
B = {D = 1} in each draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import metrics
from ...for_json import ONLY_IF_GIVEN
from ..snapshot import People
from ..tracks import FOREVER, History
from .design import Tally
from .planned import Planned, by_person

__all__ = ["Histograms", "Shares", "Span", "Spread", "Waiting", "Waits", "spread_of"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """The first and the last of some rounds; None if there are none."""

    first: int | None
    last: int | None


@dataclass(frozen=True, eq=False)
class Waits:
    """Runs of rounds without a contact, of each person [n]."""

    longest: Ints
    now: Ints  # the run that still goes on
    present: Bools  # whether each is in the programme in the last recorded round
    span: Span  # the rounds with a recorded contact

    @classmethod
    def of(cls, people: People, history: History) -> Waits:
        """Count all recorded rounds, also those before the first plan.

        A contact that is not known counts as none.
        """
        known = history.rounds[(history.contacted >= 0).any(axis=1)]
        n = people.n
        if not len(known):
            nothing = np.zeros(n, np.int64)
            return cls(nothing, nothing, np.zeros(n, bool), Span(None, None))
        first, last = int(known[0]), int(known[-1])
        start = np.maximum(people.enrolled, first)
        end = np.where(people.departed < 0, last, np.minimum(people.departed - 1, last))
        longest, latest = np.zeros(n, np.int64), start - 1
        for when, row in zip(history.rounds.tolist(), history.contacted, strict=True):
            person = np.flatnonzero(row == 1)
            longest[person] = np.maximum(longest[person], when - latest[person] - 1)
            latest[person] = when
        now = np.maximum(end - latest, 0)
        present = (people.opted_out != 1) & (end == last) & (start <= last)
        return cls(np.maximum(longest, now), now, present, Span(first, last))


@dataclass(frozen=True)
class Waiting:
    """A person who waits."""

    id: str
    rounds: int


@dataclass(frozen=True)
class Spread:
    """How evenly lists and contacts fell on people."""

    people: int
    in_draw: int  # people who were ever in the draw
    never_listed: int  # of these
    never_listed_expected: float
    never_listed_low: float
    never_listed_high: float
    z: float
    p: float
    in_recorded_draw: int  # people in the draw of a round with recorded contacts
    never_contacted: int  # of these, in planned rounds
    never_contacted_ever: int  # of the people here now, in all recorded rounds
    here_now: int
    lists: int
    contacts: int
    entropy_listed: float
    entropy_contacted: float
    entropy_most: float  # largest entropy that so many lists can have
    gini_listed: float
    gini_contacted: float
    longest_wait: int | None
    waiting_median: float
    waiting_longest: int | None
    first_round: int | None
    last_round: int | None
    waiting_people: tuple[Waiting, ...] | None = field(default=None, metadata=ONLY_IF_GIVEN)


@dataclass(frozen=True)
class Histograms:
    """Numbers of people by a whole number 0, 1, 2, ..."""

    listed: tuple[int, ...] = ()  # times listed
    contacted: tuple[int, ...] = ()  # times contacted in planned rounds
    waiting: tuple[int, ...] = ()  # rounds without a contact by now, of people here now


class Shares:
    """Lists and contacts of each of n people in planned rounds, and first listings."""

    def __init__(self, n: int) -> None:
        # Whether each was ever in the draw, and ever in the draw of a round with recorded contacts.
        self.drawn, self.could = np.zeros((2, n), bool)
        self.lists, self.contacts = np.zeros((2, n))
        self.firsts = Tally(1)  # lists of people who were not listed before
        self._before = np.zeros(n, bool)

    def add(self, one: Planned) -> None:
        """Count a round; rounds are added in their order."""
        n, drawn = len(self.drawn), one.person[one.in_draw]
        self.drawn[drawn] = True
        self.lists += by_person(n, one, one.in_draw, one.listed)
        if (one.contacted >= 0).any():
            self.could[drawn] = True
            self.contacts += by_person(n, one, one.contacted >= 0, one.contacted)
        for draw in one.draws(np.where(one.in_draw & ~self._before[one.person], 0, -1)):
            self.firsts.add(draw)
        self._before[one.person[one.listed == 1]] = True


def spread_of(
    shares: Shares, people: People, history: History, z: float, names: int
) -> tuple[Spread, Histograms]:
    """How evenly lists and contacts fell, who never had one, and who waits.

    Parameters
    ----------
    shares : Shares
        Of all planned rounds.
    people : People
        Everybody.
    history : History
        All that was recorded, also before the first plan.
    z : float
        Standard deviations that an interval reaches to either side.
    names : int
        How many of the people who wait longest to name; 0: nobody.

    Returns
    -------
    Spread
        The figures.
    Histograms
        The counts behind them.
    """
    n, first = people.n, shares.firsts
    drawn, could, lists, contacts = shares.drawn, shares.could, shares.lists, shares.contacts
    low, high = first.ends(0, z)
    size = int(drawn.sum())
    waits = Waits.of(people, history)
    waiting = waits.now[waits.present]
    ever = history.last_contact(FOREVER, n) >= 0
    spread = Spread(
        people=n,
        in_draw=size,
        never_listed=int((drawn & (lists == 0)).sum()),
        never_listed_expected=size - float(first.expected[0]),
        never_listed_low=max(size - high, 0.0),
        never_listed_high=min(size - low, float(size)),
        z=-first.z(0),
        p=first.p(0),
        in_recorded_draw=int(could.sum()),
        never_contacted=int((could & (contacts == 0)).sum()),
        never_contacted_ever=int((waits.present & ~ever).sum()),
        here_now=int(waits.present.sum()),
        lists=int(lists.sum()),
        contacts=int(contacts.sum()),
        entropy_listed=_figure(metrics.action_entropy, lists[drawn]),
        entropy_contacted=_figure(metrics.action_entropy, contacts[could]),
        entropy_most=math.log(max(min(size, lists.sum()), 1)),
        gini_listed=_figure(metrics.gini, lists[drawn]),
        gini_contacted=_figure(metrics.gini, contacts[could]),
        longest_wait=None if waits.span.last is None else int(waits.longest.max(initial=0)),
        waiting_median=_figure(np.median, waiting),
        waiting_longest=int(waiting.max()) if len(waiting) else None,
        first_round=waits.span.first,
        last_round=waits.span.last,
        waiting_people=_longest_waiting(people, waits, names) if names else None,
    )
    return spread, Histograms(_counts(lists[drawn]), _counts(contacts[could]), _counts(waiting))


def _longest_waiting(people: People, waits: Waits, names: int) -> tuple[Waiting, ...]:
    """The people here now who have waited longest, by name."""
    present = np.flatnonzero(waits.present)
    order = present[np.argsort(-waits.now[present], kind="stable")[:names]]
    return tuple(Waiting(people.names[i], int(waits.now[i])) for i in order)


def _figure(of: Callable[[Any], Any], numbers: NDArray[Any]) -> float:
    """A figure ``of`` numbers of people; nan without people."""
    return float(of(numbers)) if len(numbers) else math.nan


def _counts(numbers: NDArray[Any]) -> tuple[int, ...]:
    """How many people have 0, 1, 2, ..."""
    return tuple(np.bincount(numbers.astype(np.int64)).tolist())
