"""Shards of Parquet files, whose rows are read when they are needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cohort import Floats
from ..errors import InvalidInput
from ..frames import ROW_SUM_TOLERANCE
from .arrays import Arms, usual_reward

__all__ = ["FileShard", "Stretch", "batches", "floats", "group_of", "open_file"]

BATCH = 2**17  # rows that are decoded at a time


@dataclass(frozen=True)
class Stretch:
    """Consecutive rows of one Parquet file.

    Parameters
    ----------
    path : str
        The file.
    stamp : tuple of int
        The size and the time of change of the file when the cohort was opened.
    first, count : int
        The rows.
    """

    path: str
    stamp: tuple[int, int]
    first: int
    count: int


@dataclass(frozen=True)
class FileShard:
    """A shard that is read from Parquet files whenever it is needed.

    Parameters
    ----------
    key : tuple
        The key under which a worker keeps the shard.
    first, count : int
        The shard has arms first, ..., first + count - 1 of the cohort.
    stretches : tuple of Stretch
        The rows of the shard.
    S : int
        Number of states.
    columns : tuple of str
        The columns of probabilities, and ``start`` if there is one.
    """

    key: tuple[str, int]
    first: int
    count: int
    stretches: tuple[Stretch, ...]
    S: int
    columns: tuple[str, ...]

    def name_only(self) -> FileShard:
        """The shard itself, which has no data to leave out."""
        return self

    def load(self) -> Arms:
        """Read the arms and check their entries."""
        probabilities = [column for column in self.columns if column != "start"]
        values = np.empty((self.count, len(probabilities)))
        states = np.empty(self.count) if "start" in self.columns else None
        done = 0
        for stretch in self.stretches:
            for batch in batches(stretch, list(self.columns)):
                rows = slice(done, done + len(batch))
                for j, column in enumerate(probabilities):
                    values[rows, j] = floats(batch, column)
                if states is not None:
                    states[rows] = floats(batch, "start")
                done += len(batch)
        self._refuse(~((values >= 0) & (values <= 1)), values, probabilities, "a probability")
        if len(probabilities) == 4:
            P = values.reshape(self.count, 2, 2, 1)
        else:
            P = values.reshape(self.count, 2, self.S, self.S)
            self._refuse_sums(P)
        return Arms(P, usual_reward(self.S), self._start(states))

    def _start(self, states: Floats | None) -> Floats:
        """Start distributions [1 or m, S]."""
        if states is None:
            return np.full((1, self.S), 1 / self.S)
        bad = ~np.isin(states, np.arange(self.S))
        self._refuse(bad[:, None], states[:, None], ["start"], f"a state from 0 to {self.S - 1}")
        start: Floats = np.eye(self.S)[states.astype(np.int64)]
        return start

    def _refuse(
        self, bad: NDArray[np.bool_], values: Floats, columns: Sequence[str], wanted: str
    ) -> None:
        """Refuse bad entries; the message names the first and says what is wanted."""
        if not bad.any():
            return
        i, j = (int(place) for place in np.argwhere(bad)[0])
        raise InvalidInput(
            f"{self._place(i)}, column {columns[j]} is {values[i, j]:g} "
            f"({np.count_nonzero(bad)} of {bad.size} entries read with it are wrong); give {wanted}"
        )

    def _refuse_sums(self, P: Floats) -> None:
        """Refuse rows of probabilities that do not sum to 1."""
        sums = P.sum(axis=-1)
        bad = np.abs(sums - 1) > ROW_SUM_TOLERANCE
        if bad.any():
            i, a, s = (int(place) for place in np.argwhere(bad)[0])
            raise InvalidInput(
                f"{self._place(i)}, columns p_{a}_{s}_0 to p_{a}_{s}_{self.S - 1} sum to "
                f"{sums[i, a, s]:.9g}, not 1; give probabilities of all next states"
            )

    def _place(self, row: int) -> str:
        """File and row, counted from 1, of a row of the shard."""
        for stretch in self.stretches:
            if row < stretch.count:
                return f"{stretch.path}: row {stretch.first + row + 1}"
            row -= stretch.count
        raise AssertionError("no such row")


def open_file(path: str | Path) -> tuple[Any, tuple[int, int]]:
    """The file, opened by pyarrow, and its size and time of change."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        about = os.stat(path)
        return pq.ParquetFile(path), (about.st_size, about.st_mtime_ns)
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no file {path}; on a cluster, put it where every worker can read it"
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise _broken(path, error) from None


def _broken(path: str | Path, error: Exception) -> InvalidInput:
    reason = " ".join(str(error).split())[:120]
    return InvalidInput(f"{path} is broken or no Parquet file ({reason}); write it again")


def batches(stretch: Stretch, columns: list[str]) -> Iterator[Any]:
    """The rows of a stretch as record batches."""
    import pyarrow as pa

    opened, stamp = open_file(stretch.path)
    if stamp != stretch.stamp:
        raise InvalidInput(f"{stretch.path} was changed since the cohort was opened; open it again")
    try:
        groups, skip, before = [], stretch.first, 0
        for g in range(opened.metadata.num_row_groups):
            rows = opened.metadata.row_group(g).num_rows
            if before + rows <= stretch.first:
                skip -= rows
            elif before < stretch.first + stretch.count:
                groups.append(g)
            before += rows
        left = stretch.count
        for batch in opened.iter_batches(BATCH, groups, columns, use_threads=False):
            inside = batch.slice(skip, left)
            skip = max(0, skip - len(batch))
            left -= len(inside)
            if len(inside):
                yield inside
            if not left:
                return
    except (OSError, pa.ArrowException) as error:
        raise _broken(stretch.path, error) from None


def floats(batch: Any, column: str) -> Floats:
    """A column as floats; missing entries are NaN."""
    values: Floats = np.asarray(batch.column(column).to_numpy(zero_copy_only=False), np.float64)
    return values


def group_of(path: str) -> str:
    """The group that a folder named group=... gives to its rows; "" if there is no such folder."""
    for part in reversed(Path(path).parts):
        if part.startswith("group="):
            return part.removeprefix("group=")
    return ""
