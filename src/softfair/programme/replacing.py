"""Whom to call or take off so that a list that changes after its draw keeps its promise.

The order in which people are called was drawn with the list. Without a promise about groups nothing
else counts. With one, a person is not called if the call would give a group more places than it may
have, or if somebody of their household is on the list already. Of all others, the person is called
first who belongs to most of the groups that lack places; among several such people, the first in
order. So a person who was struck off is replaced by the next of the same groups, if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .plans.kept import Belonging
from .promises import Promise

__all__ = ["Replacing"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Replacing:
    """What a list keeps; numbers of people are those of the programme."""

    promise: Promise
    belonging: Belonging

    def called(self, on: list[int], waiting: list[int], many: int) -> list[int]:
        """Whom to call beside the people ``on`` the list: at most ``many`` of ``waiting``."""
        if not self.promise.grouped or many <= 0:
            return waiting[: max(many, 0)]
        list_, left = _List.of(self, on, len(on) + many), np.array(waiting, int)
        people: list[int] = []
        while len(people) < many and (free := list_.allows(left)).any():
            left = left[free]  # a person who is not allowed now is not allowed later either
            place = int(np.argmax(list_.mends(left)))  # the first of several
            people.append(int(left[place]))
            list_.add(people[-1], 1)
            left = np.delete(left, place)
        return people

    def taken_off(self, on: list[int], can: list[int], many: int) -> list[int]:
        """Whom to take off: ``many`` of ``can``, the last in order first."""
        if not self.promise.grouped or many <= 0:
            return can[::-1][: max(many, 0)]
        list_, left = _List.of(self, on, len(on) - many), np.array(can[::-1], int)
        people: list[int] = []
        while len(people) < many and len(left):
            place = int(np.argmax(list_.relieves(left)))
            people.append(int(left[place]))
            list_.add(people[-1], -1)
            left = np.delete(left, place)
        return people


@dataclass(eq=False)
class _List:
    """The places that groups have, and those that they may have."""

    belonging: Belonging
    least: Ints  # [shares]
    most: Ints
    count: Ints
    houses: set[int]  # of people on the list

    @classmethod
    def of(cls, kept: Replacing, on: list[int], places: int) -> _List:
        """For a list with the people ``on`` that is to have a number of places."""
        bounds = [share.bounds(places) for share in kept.promise.shares]
        least, most = np.array(bounds, np.int64).reshape(-1, 2).T
        belonging, who = kept.belonging, np.array(on, int)
        count = belonging.inside[:, who].sum(axis=1, dtype=np.int64)
        return cls(belonging, least, most, count, set(belonging.house[who].tolist()) - {-1})

    def allows(self, who: Ints) -> NDArray[np.bool_]:
        """For each, whether all groups and households stay in their bounds if they are called."""
        full = self.belonging.inside[:, who] & (self.count >= self.most)[:, None]
        housed = np.isin(self.belonging.house[who], list(self.houses))
        allowed: NDArray[np.bool_] = ~full.any(axis=0) & ~housed
        return allowed

    def mends(self, who: Ints) -> Ints:
        """For each, how many groups with too few places have one more if they are called."""
        short = (self.count < self.least)[:, None]
        mended: Ints = np.sum(self.belonging.inside[:, who] & short, axis=0, dtype=np.int64)
        return mended

    def relieves(self, who: Ints) -> Ints:
        """For each, how many groups have too many places, less how many would have too few."""
        inside = self.belonging.inside[:, who]
        over, scarce = (self.count > self.most)[:, None], (self.count <= self.least)[:, None]
        relieved: Ints = np.sum(inside & over, axis=0, dtype=np.int64)
        return relieved - np.sum(inside & scarce, axis=0, dtype=np.int64)

    def add(self, i: int, places: int) -> None:
        """Call somebody (1), or take them off (-1)."""
        self.count = self.count + places * self.belonging.inside[:, i]
        if places > 0:
            self.houses |= {int(self.belonging.house[i])} - {-1}
