"""A promised wait beside shares of groups: whether both can be kept at a site, and how.

A cell is the people in the same promised groups. The places of the coming lists are divided among
the cells, see :mod:`softfair.quotas.dividing`; with at most one of each household on a list, see
:mod:`softfair.quotas.housing`.

Households with people in several cells are refused: how many places there are does not tell then
whether all can be on lists in time. Example: every list has one place for each of three cells x, y
and z. A and B live together, and C and D. A is in x, B and C are in y, D is in z. A and D must be
on this list, B and C on the next at the latest. Each cell and each household by itself has places
in time. But B and C cannot be on this list beside A and D, and the next has one place for y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import Infeasible
from ...policies.deadlines import moved_forward, shortest_wait
from ...quotas.dividing import Cells, divided
from ...quotas.housing import Housed, divided_among_households
from ..promises import LONGEST, Promise

__all__ = ["Sharing"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sharing:
    """The people and the lists of one site, where groups have shares."""

    name: str  # of the site
    promise: Promise
    inside: NDArray[np.bool_]  # [cells, shares] in which groups each cell is
    cell: Ints  # [n] of everybody at the site
    off: Ints  # [n] lists that each was left off
    drawn: NDArray[np.bool_]  # [n] whether each is in the draw
    lists: Callable[[int], Ints]  # places on all known lists and on a number of later ones
    now: bool  # whether the first of these is the list that is drawn
    house: Ints | None = None  # [n] the household of each, at most one on a list; -1: none

    def places(self, W: int) -> tuple[Ints, Ints, Ints]:
        """Places on the coming lists [T], and the least and most of each group [T, G]."""
        k = np.minimum(self.lists(W), self._different(np.ones(len(self.cell), bool)).sum())
        if self.now and len(k):
            k[0] = min(k[0], self._different(self.drawn).sum())
        bounds = [[share.bounds(int(one)) for share in self.promise.shares] for one in k]
        both = np.array(bounds, np.int64).reshape(len(k), -1, 2)
        return k, both[:, :, 0], both[:, :, 1]

    def division(self, W: int) -> Ints | None:
        """Places of each cell on the coming lists [cells, T]; None: a wait of W cannot be kept."""
        k, least, most = self.places(W)
        if not len(k) or not len(self.cell):
            return np.zeros((len(self.inside), len(k)), np.int64)
        if self.house is not None:
            return self._division_among_households(W)
        size = np.bincount(self.cell, minlength=len(self.inside))
        due, back = self._due(W, self.drawn), self._due(W, ~self.drawn)
        cells = Cells(self.inside, size, due[:, -1] if self.now else size, due, back)
        return divided(k, least, most, cells, self.promise.chance)

    def _different(self, who: NDArray[np.bool_]) -> Ints:
        """Of some people, how many of each cell can be on one list [cells]."""
        single = who
        if self.house is not None:
            home = np.where(self.house < 0, -1 - np.arange(len(self.house)), self.house)
            single = np.zeros(len(who), bool)
            single[np.flatnonzero(who)[np.unique(home[who], return_index=True)[1]]] = True
        return np.bincount(self.cell[single], minlength=len(self.inside))

    def _largest(self) -> Ints:
        """The people of the largest household of each cell [cells]; 1 if nobody lives together."""
        largest = np.ones(len(self.inside), np.int64)
        if self.house is not None:
            housed = self.house >= 0
            many = np.bincount(self.house[housed], minlength=1)
            np.maximum.at(largest, self.cell[housed], many[self.house[housed]])
        return largest

    def _division_among_households(self, W: int) -> Ints | None:
        """As `division`, with at most one of each household on a list."""
        k, least, most = self.places(W)
        due, kept = self._moved(W, len(k), back=0), self._moved(W, len(k), back=1)
        if due is None or kept is None or (self.off >= W).any():
            return None
        everybody = np.ones(len(self.cell), bool)
        cells = Housed(
            self.inside,
            np.bincount(self.cell, minlength=len(self.inside)),
            self._different(everybody),
            self._different(self.drawn),
            due,
            kept,
            W + 1 - self._largest(),
        )
        return divided_among_households(k, least, most, cells, self.now, int(self.lists(W)[0]))

    def _moved(self, W: int, lists: int, back: int) -> Ints | None:
        """How many of each cell have a moved deadline of at most 1, 2, ..., W lists [cells, W].

        People who are not in the draw come back after so many lists. None: somebody is too late.
        """
        assert self.house is not None
        left = W - self.off + np.where(self.drawn, 0, back)
        many = np.zeros((len(self.inside), W), np.int64)
        due, _ = moved_forward(left, self.house, lists)
        if (due < 1).any():
            return None
        soon = due <= W
        np.add.at(many, (self.cell[soon], due[soon] - 1), 1)
        return np.cumsum(many, axis=1)

    def _due(self, W: int, who: NDArray[np.bool_]) -> Ints:
        """Of some people, how many of each cell have at most 1, 2, ..., W lists left [cells, W]."""
        left = np.maximum(W - self.off[who], 1)
        many = np.zeros((len(self.inside), W), np.int64)
        np.add.at(many, (self.cell[who], left - 1), 1)
        return np.cumsum(many, axis=1)

    def kept(self) -> Ints:
        """The division for the promise.

        Raises
        ------
        Infeasible
            If there is no division; the message has the shortest wait that can be kept. Or if
            people of one household are in several cells.
        """
        W = self.promise.wait
        at_site = f" at {self.name}" if self.name else ""
        if apart := self._apart():
            one = self.promise.one
            raise Infeasible(
                f"the promise cannot be kept for certain{at_site}: {self.promise}; people of one "
                f"{one} are in different promised groups (in {apart} cases), so that counting "
                "places does not tell whether all can be on lists in time; promise shares of "
                f"columns that people of one {one} have in common, or two of the three"
            )
        if (division := self.division(W)) is not None:
            return division
        refused = f"the promise cannot be kept{at_site}: {self.promise}; {self._fault(W)}"
        shortest = shortest_wait(W, lambda wait: self.division(wait) is not None, LONGEST)
        if shortest is None:
            raise Infeasible(
                f"{refused}; no wait can be promised beside these shares; promise others, or none"
            )
        since = f",from={self.promise.since}" * bool(self.promise.since)
        raise Infeasible(
            f"{refused}; the shortest that can be kept is wait={shortest}{since}; promise that, "
            "other shares, or raise the capacity"
        )

    def _apart(self) -> int:
        """How many households have people in several cells."""
        if self.house is None:
            return 0
        housed = self.house >= 0
        pairs = np.unique(np.stack([self.house[housed], self.cell[housed]]), axis=1)
        return int((np.bincount(pairs[0], minlength=1) > 1).sum())

    def _fault(self, W: int) -> str:
        """The inequality that fails for a group or for the people outside it, if one does."""
        if self.house is not None and (fault := self._fault_of_households(W)) is not None:
            return fault
        k, least, most = self.places(W)
        for g, share in enumerate(self.promise.shares):
            called = f"{share.column} {share.value or '(none given)'}"
            inside = self.inside[self.cell, g]
            for who, name, top in (
                (inside, called, most[:, g]),
                (~inside, f"other than {called}", k - least[:, g]),
            ):
                for people, there, when in self._short(who, np.minimum(top, k), W):
                    return (
                        f"{people} people of {name} must be on {when}, with at most {there} places "
                        f"for them: {people} > {there}"
                    )
        apart = f", no two of one {self.promise.one} on the same" if self.promise.one else ""
        fewer = int(self._largest().max(initial=1)) - 1
        spared = f" and {fewer} fewer" if fewer else ""
        return (
            f"no division of the places of {W} lists{spared} among the groups has enough for "
            f"everybody in time{apart}"
        )

    def _fault_of_households(self, W: int) -> str | None:
        """What cannot be kept for a household whatever the places, if anything."""
        one, largest = self.promise.one, int(self._largest().max(initial=1))
        if largest > W:
            return (
                f"{largest} people of one {one} cannot be on {W} lists one by one: {largest} > {W}"
            )
        if (most := int(self.off.max(initial=0))) >= W:
            many = int((self.off >= W).sum())
            return f"{many} people were left off {most} lists in a row already"
        due, _ = moved_forward(W - self.off, np.asarray(self.house), len(self.lists(W)))
        if late := int((due < 1).sum()):
            return f"{late} people must be on this list beside another of their {one}"
        return None

    def _short(self, who: NDArray[np.bool_], top: Ints, W: int) -> Iterator[tuple[int, int, str]]:
        """Where some people have too few places in time: how many people, places, which lists."""
        sums, people = np.concatenate([[0], np.cumsum(top)]), int(who.sum())
        if len(top) >= W and (fewest := int((sums[W:] - sums[:-W]).min())) < people:
            yield people, fewest, f"any {W} lists in a row"
        due = self._due(W, self.drawn & who).sum(axis=0)
        for d in range(min(W, len(top))):
            if due[d] > sums[d + 1]:
                when = "this list" if d == 0 else f"the next {d + 1} lists"
                yield int(due[d]), int(sums[d + 1]), when
