"""Shards of arrays in memory, which are views."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cohort import Floats

__all__ = ["SHARD", "Arms", "ArrayShard", "array_shards", "usual_reward"]

SHARD = 2**20  # arms: the row group that Parquet writers make, and 32 MB of two-state arms


@dataclass(frozen=True, eq=False)
class Arms:
    """The arrays of m arms that kernels read.

    Parameters
    ----------
    P : ndarray [m, 2, S, S] or [m, 2, 2, 1]
        Transition probabilities; for two-state arms possibly only the chance of state 1.
    reward : ndarray [1 or m, 1 or 2, S]
        Rewards, as a Cohort holds them.
    start : ndarray [1 or m, S]
        Start distributions.
    """

    P: Floats
    reward: Floats
    start: Floats

    def __len__(self) -> int:
        return len(self.P)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the arrays."""
        return self.P.nbytes + self.reward.nbytes + self.start.nbytes

    def part(self, low: int, high: int) -> Arms:
        """Views of arms low, ..., high - 1."""
        return Arms(
            self.P[low:high],
            self.reward if len(self.reward) == 1 else self.reward[low:high],
            self.start if len(self.start) == 1 else self.start[low:high],
        )


@dataclass(frozen=True, eq=False)
class ArrayShard:
    """A shard in memory.

    Parameters
    ----------
    key : tuple
        The key under which a worker keeps the shard.
    first, count : int
        The shard has arms first, ..., first + count - 1 of the cohort.
    data : Any
        Arms or an array; None if only the key was sent.
    """

    key: tuple[str, int]
    first: int
    count: int
    data: Any

    def load(self) -> Any:
        """The data."""
        return self.data

    def name_only(self) -> ArrayShard:
        """The shard without its data, for a worker that may already have the data."""
        return ArrayShard(self.key, self.first, self.count, None)


def array_shards(data: Any) -> list[ArrayShard]:
    """Cut arms, or an array, into shards, which are views."""
    token, n = os.urandom(8).hex(), len(data)
    return [
        ArrayShard(
            (token, low),
            low,
            min(SHARD, n - low),
            data.part(low, low + SHARD) if isinstance(data, Arms) else data[low : low + SHARD],
        )
        for low in range(0, n, SHARD)
    ]


def usual_reward(S: int) -> Floats:
    """The default rewards [1, 1, S]: from 0 to 1 at equal distances."""
    row = (np.arange(S) / (S - 1))[None, None]
    row.flags.writeable = False
    return row
