"""Replace each set of which at most one arm may be drawn by a single arm.

If the arms of such a set are in the same other sets, the set can be replaced by one arm of the
summed weight, because every bound is affected in the same way by whichever of the arms is drawn.
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
    """A problem of n arms with each household replaced by one arm; m arms remain."""

    z: Floats  # [m] log-weights of the arms that remain
    nodes: list[Node]  # the root, and the sets of the arms that remain
    members: list[Ints]  # the arms of each household, as numbered among all n
    place: Ints  # [households] the number of each household among the arms that remain
    kept: Ints  # [m] the number among all n of each arm that remains; for a household, of its first
    weights: Floats  # [n] log-weights of all arms

    @classmethod
    def of(cls, z: Floats, nodes: Sequence[Node]) -> Households:
        """The problem of these log-weights and nodes, of which the first is the root."""
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
        """The chances of all arms [n], from those of the arms that remain."""
        out = np.zeros(len(self.weights))
        out[self.kept] = chance
        for arms, place in zip(self.members, self.place, strict=True):
            log_weights = self.weights[arms]
            share = np.exp(log_weights - log_weights.max())
            out[arms] = chance[place] * share / share.sum()
        return out

    def luck(self, luck: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The luck of the arms that remain [m, 2]; for a household, a digest of its arms' luck."""
        remaining = luck[self.kept]
        for arms, place in zip(self.members, self.place, strict=True):
            ordered = sorted(row.tobytes() for row in luck[arms])
            digest = hashlib.blake2b(
                b"".join(ordered), digest_size=16, person=b"household"
            ).digest()
            remaining[place] = np.frombuffer(digest, "<u8")
        return remaining

    def opened(self, drawn: Ints, take: Callable[[Floats, Ints], int]) -> Ints:
        """The numbers among all n of the arms drawn; ``take`` chooses one arm of a household."""
        arms = self.kept[drawn]
        house = dict(zip(self.place.tolist(), self.members, strict=True))
        for j, place in enumerate(drawn.tolist()):
            if place in house:
                members = house[place]
                arms[j] = members[take(self.weights[members], members)]
        return np.sort(arms)


def _within(node: Node, stays: NDArray[np.bool_], number: Ints) -> Node:
    """The node, with only the arms that remain."""
    arms = number[node.arms[stays[node.arms]]]
    return replace(node, arms=arms, own=arms, most=min(node.most, max(node.least, len(arms))))
