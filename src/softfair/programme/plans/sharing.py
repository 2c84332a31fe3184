"""A promised wait beside shares of groups: whether both can be kept at a site, and how.

A cell is the people in the same promised groups. The places of the coming lists are divided among
the cells, see :mod:`softfair.quotas.dividing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import Infeasible
from ...policies.deadlines import shortest_wait
from ...quotas.dividing import Cells, divided
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

    def places(self, W: int) -> tuple[Ints, Ints, Ints]:
        """Places on the coming lists [T], and the least and most of each group [T, G]."""
        k = np.minimum(self.lists(W), len(self.cell))
        if self.now and len(k):
            k[0] = min(k[0], np.count_nonzero(self.drawn))
        bounds = [[share.bounds(int(one)) for share in self.promise.shares] for one in k]
        both = np.array(bounds, np.int64).reshape(len(k), -1, 2)
        return k, both[:, :, 0], both[:, :, 1]

    def division(self, W: int) -> Ints | None:
        """Places of each cell on the coming lists [cells, T]; None: a wait of W cannot be kept."""
        k, least, most = self.places(W)
        if not len(k) or not len(self.cell):
            return np.zeros((len(self.inside), len(k)), np.int64)
        size = np.bincount(self.cell, minlength=len(self.inside))
        due, back = self._due(W, self.drawn), self._due(W, ~self.drawn)
        cells = Cells(self.inside, size, due[:, -1] if self.now else size, due, back)
        return divided(k, least, most, cells, self.promise.chance)

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
            If there is no division; the message has the shortest wait that can be kept.
        """
        W = self.promise.wait
        if (division := self.division(W)) is not None:
            return division
        at_site = f" at {self.name}" if self.name else ""
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

    def _fault(self, W: int) -> str:
        """The inequality that fails for a group or for the people outside it, if one does."""
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
        return (
            f"no division of the places of {W} lists among the groups has enough for everybody "
            "in time"
        )

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
