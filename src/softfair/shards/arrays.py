"""Shards of what lies in memory: views of arrays."""

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
    """What kernels read of some arms.

    Parameters
    ----------
    P : ndarray [m, 2, S, S] or [m, 2, 2, 1]
        Transition probabilities; of two-state arms perhaps the chance of state 1 alone.
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
        """Memory that they take."""
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
    """A shard that lies in memory.

    Parameters
    ----------
    key : tuple
        What a worker keeps it under.
    first, count : int
        Its arms are first, ..., first + count - 1 of the whole.
    data : Any
        Arms or an array; None where only the key was sent.
    """

    key: tuple[str, int]
    first: int
    count: int
    data: Any

    def load(self) -> Any:
        """The data."""
        return self.data

    def name_only(self) -> ArrayShard:
        """The shard without its data, for a worker that may have them already."""
        return ArrayShard(self.key, self.first, self.count, None)


def array_shards(data: Any) -> list[ArrayShard]:
    """Cut arms or an array into shards that are views of it."""
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
    """Rewards of states that are worth 0, ..., 1 at equal distances [1, 1, S]."""
    row = (np.arange(S) / (S - 1))[None, None]
    row.flags.writeable = False
    return row
