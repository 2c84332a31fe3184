"""The paper's constraints on two-state persons, and the nearest probabilities that meet them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .border import Floats

__all__ = ["CONSTRAINTS", "Projection", "project"]

#: The paper's constraints on p[a, s], the probability of the good state, as pairs
#: ((a, s), (a2, s2)) with p[a, s] <= p[a2, s2]. In either state a contact does no harm. Under
#: either action the good state is at least as likely after the good state as after the bad.
CONSTRAINTS = (((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 0), (0, 1)), ((1, 0), (1, 1)))


@dataclass(frozen=True, eq=False)
class Projection:
    """The nearest p that meets CONSTRAINTS, and the constraints that bind."""

    p: Floats  # [n, 2, 2]
    binding: NDArray[np.bool_]  # [n, 4], all False for a person whose p met all constraints before


def project(p: Floats, weight: Floats) -> Projection:
    """Project p [n, 2, 2] on CONSTRAINTS by least squares with these weights [n, 2, 2].

    The result is exact. At the optimum some constraints hold with equality, and the entries that
    these constraints connect have a common value, their weighted mean. Every way to connect entries
    is tried; of the results that meet all constraints, the nearest is the optimum.
    """
    nearest, binding = p.copy(), np.zeros((len(p), len(CONSTRAINTS)), np.bool_)
    broken = np.flatnonzero(~_meets(p))
    flat, w = p[broken].reshape(-1, 4), weight[broken].reshape(-1, 4)  # [m, 4], entry 2 a + s
    best, least = np.empty(flat.shape), np.full(len(flat), np.inf)
    for blocks in PARTITIONS:
        tied = flat.copy()
        for block in blocks:
            tied[:, block] = np.average(flat[:, block], axis=1, weights=w[:, block])[:, None]
        distance = (w * (tied - flat) ** 2).sum(axis=1)
        better = (distance < least) & _meets(tied.reshape(-1, 2, 2))
        best[better], least[better] = tied[better], distance[better]
    nearest[broken] = best.reshape(-1, 2, 2)
    for c, ((a, s), (a2, s2)) in enumerate(CONSTRAINTS):
        binding[broken, c] = nearest[broken, a, s] == nearest[broken, a2, s2]
    return Projection(nearest, binding)


def _meets(p: Floats) -> NDArray[np.bool_]:
    """Whether each p [n, 2, 2] meets CONSTRAINTS [n]."""
    met: NDArray[np.bool_] = np.logical_and.reduce(
        [p[:, a, s] <= p[:, a2, s2] for (a, s), (a2, s2) in CONSTRAINTS]
    )
    return met


def _partitions() -> list[list[list[int]]]:
    """The partitions of the entries 2 a + s into blocks that constraints connect.

    Blocks of a single entry are left out, and so is the partition into single entries.
    """
    edges = [(2 * a + s, 2 * a2 + s2) for (a, s), (a2, s2) in CONSTRAINTS]
    partitions = set()
    for chosen in product((False, True), repeat=len(edges)):
        block_of = list(range(4))
        for (i, j), tied in zip(edges, chosen, strict=True):
            if tied:
                block_of = [block_of[i] if b == block_of[j] else b for b in block_of]
        blocks = (tuple(e for e in range(4) if block_of[e] == b) for b in set(block_of))
        partitions.add(tuple(sorted(block for block in blocks if len(block) > 1)))
    return [[list(block) for block in partition] for partition in sorted(partitions) if partition]


PARTITIONS = _partitions()  # 11 partitions
