"""A promised wait beside at most one of each household: whether both can be kept at a site.

Let e be the deadlines moved forward within each household
(:func:`softfair.policies.deadlines.moved_forward`), and let the number of places not fall from list
to list. Then both can be kept on the coming lists if and only if all e >= 1 and, for every t, the
next t lists have places for all people with e <= t. After a draw this still holds for the next
list, if there is room for the people whose count begins anew: with m people in the largest
household, somebody with W lists left moves deadlines to W - m + 1 at the earliest, so any W - m + 1
lists in a row must have places for everybody. Less would do if nobody rests, is away or joins a
household.

If the number of places falls, a list counts with no more places than any list after it. People who
are away count with the lists they have left, since they may be back any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import Infeasible
from ...policies.deadlines import moved_forward, shortest_wait
from ..promises import LONGEST, Promise

__all__ = ["Together"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Together:
    """The people and the lists of one site, where at most one of each household is on a list."""

    name: str  # of the site
    promise: Promise
    house: Ints  # [n] the household of everybody at the site; -1: none
    off: Ints  # [n] lists that each was left off
    lists: Callable[[int], Ints]  # places on all known lists and on a number of later ones

    def check(self) -> None:
        """Refuse a wait that is not kept for certain.

        Raises
        ------
        Infeasible
            The message has the inequality that fails and the shortest wait that is kept.
        """
        W, one = self.promise.wait, self.promise.one
        if (fault := self.fault(W)) is None:
            return
        at_site = f" at {self.name}" if self.name else ""
        refused = f"the promise cannot be kept for certain{at_site}: {self.promise}; {fault}"
        shortest = shortest_wait(W, lambda wait: self.fault(wait) is None, LONGEST)
        if shortest is None:
            raise Infeasible(
                f"{refused}; no wait can be promised beside at most one of each {one}; raise the "
                "capacity, or promise one of the two"
            )
        since = f",from={self.promise.since}" * bool(self.promise.since)
        raise Infeasible(
            f"{refused}; the shortest that is kept is wait={shortest}{since}; promise that, raise "
            f"the capacity, or promise one of the two"
        )

    def fault(self, W: int) -> str | None:
        """The inequality that fails if a wait of W is promised; None: it is kept."""
        n, one = len(self.house), self.promise.one
        if not n:
            return None
        if (most := int(self.off.max())) >= W:
            many = int((self.off >= W).sum())
            return f"{many} people were left off {most} lists in a row already"
        largest = int(np.bincount(self.house[self.house >= 0], minlength=1).max())
        k = np.minimum.accumulate(self.lists(W)[::-1])[::-1]
        sums = np.concatenate([[0], np.cumsum(k)])
        window = W - max(largest, 1) + 1
        if window < 1:
            return (
                f"{largest} people of one {one} cannot be on {W} lists one by one: {largest} > {W}"
            )
        if len(k) >= window and (fewest := int((sums[window:] - sums[:-window]).min())) < n:
            spared = f", {largest - 1} fewer than {W} for {largest} of one {one}" * (largest > 1)
            return (
                f"{n} people, and {fewest} places that can be counted on {window} lists{spared}: "
                f"{n} > {fewest}"
            )
        due, _ = moved_forward(W - self.off, self.house, len(k))
        if (late := int((due < 1).sum())) > 0:
            return f"{late} people must be on this list beside another of their {one}"
        reach = min(W, len(k))
        people = np.cumsum(np.bincount(np.minimum(due, reach + 1), minlength=reach + 2))
        if len(short := np.flatnonzero(people[1 : reach + 1] > sums[1 : reach + 1])):
            d = int(short[0]) + 1
            when = "this list" if d == 1 else f"the next {d} lists"
            return (
                f"{people[d]} people must be on {when}, no two of one {one} on the same, with "
                f"{sums[d]} places that can be counted on: {people[d]} > {sums[d]}"
            )
        return None
