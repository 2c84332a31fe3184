"""Sets of which at most one arm may be taken as one arm each.

If the arms of such a set are in the same other sets, at most one of them is as good as one arm of
the summed weight: whichever of them is taken, all bounds see the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .tree import Node

__all__ = ["Households"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Households:
    """A problem in which households are arms."""

    z: Floats  # [m] log-weights of the arms that remain
    nodes: list[Node]  # the root, and sets of these arms
    members: list[Ints]  # of each household, as arms are numbered outside
    place: Ints  # [households] of each, among the arms that remain
    kept: Ints  # [m] numbers outside; for a household, of its first arm
    weights: Floats  # [n] log-weights as given

    @classmethod
    def of(cls, z: Floats, nodes: Sequence[Node]) -> Households:
        """From log-weights and nodes of which the first is the root."""
        root, *others = nodes
        small = [node for node in others if node.most == 1 and node.least == 0]
        times = np.zeros(len(z), np.int64)
        for node in small:
            times[node.arms] += 1
        large = [node for node in others if node.most != 1 or node.least]
        pattern = np.zeros(len(z), np.int64)
        for node in large:
            inside = np.isin(np.arange(len(z)), node.arms, assume_unique=True)
            pattern = np.unique(2 * pattern + inside, return_inverse=True)[1]
        merged = [
            node.arms
            for node in small
            if (times[node.arms] == 1).all() and len(np.unique(pattern[node.arms])) == 1
        ]
        if not merged:
            return cls(z, list(nodes), [], np.empty(0, np.int64), np.arange(len(z)), z)
        whole, stays = z.copy(), np.ones(len(z), bool)
        for arms in merged:
            whole[arms[0]] = np.logaddexp.reduce(z[arms])
            stays[arms[1:]] = False
        kept = np.flatnonzero(stays)
        number = np.cumsum(stays) - 1
        gone = {int(arms[0]) for arms in merged}
        left = [node for node in small if int(node.arms[0]) not in gone]
        within = [_within(node, stays, number) for node in (root, *large, *left)]
        place = number[[arms[0] for arms in merged]]
        return cls(whole[kept], within, merged, place, kept, z)

    def shared(self, chance: Floats) -> Floats:
        """Everybody's chance [n], from that of the arms that remain."""
        out = np.zeros(len(self.weights))
        out[self.kept] = chance
        for arms, place in zip(self.members, self.place, strict=True):
            own = self.weights[arms]
            share = np.exp(own - own.max())
            out[arms] = chance[place] * share / share.sum()
        return out

    def luck(self, luck: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The luck of the arms that remain [m, 2]: that of a household is a digest of its arms'."""
        own = luck[self.kept]
        for arms, place in zip(self.members, self.place, strict=True):
            ordered = sorted(row.tobytes() for row in luck[arms])
            digest = hashlib.blake2b(
                b"".join(ordered), digest_size=16, person=b"household"
            ).digest()
            own[place] = np.frombuffer(digest, "<u8")
        return own

    def opened(self, drawn: Ints, take: Callable[[Floats, Ints], int]) -> Ints:
        """The arms drawn, as they are numbered outside; ``take`` chooses one of a household."""
        arms = self.kept[drawn]
        house = dict(zip(self.place.tolist(), self.members, strict=True))
        for j, place in enumerate(drawn.tolist()):
            if place in house:
                some = house[place]
                arms[j] = some[take(self.weights[some], some)]
        return np.sort(arms)


def _within(node: Node, stays: NDArray[np.bool_], number: Ints) -> Node:
    """A node with the arms that remain."""
    arms = number[node.arms[stays[node.arms]]]
    return replace(node, arms=arms, own=arms, most=min(node.most, max(node.least, len(arms))))
