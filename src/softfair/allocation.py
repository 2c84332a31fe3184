"""The list of this round from a cohort file, with the score and the probability of everybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .cluster import Crew, Spread
from .cohort import Cohort, Floats, Ints
from .errors import InvalidInput
from .files import whole_file
from .policies import FittedSoftFair
from .progress import track
from .shards import Arms, ShardedCohort, shards_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["allocate", "states_now"]


def states_now(cohort: Cohort, crew: Crew | None = None) -> NDArray[np.int8]:
    """The state of each arm now, from a cohort whose start gives it.

    Parameters
    ----------
    cohort : Cohort
        A cohort in memory or in files.
    crew : Crew, optional
        The workers that read the files; None means this process.

    Returns
    -------
    ndarray [n]

    Raises
    ------
    InvalidInput
        The start of some arm is not a single state.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.allocation import states_now
    >>> p = sf.datasets.synthetic(n=3, seed=0).p
    >>> states_now(sf.Cohort.two_state(p, start=[0, 1, 1]))
    array([0, 1, 1], dtype=int8)
    """
    parts = list(Spread(shards_of(cohort.per_cost), crew).map(_states, what="reading states"))
    unknown = sum(int(np.count_nonzero(states < 0)) for states in parts)
    if unknown:
        raise InvalidInput(
            f"the state now of {unknown:,} of {cohort.n:,} people is not known; "
            "give the cohort a column start with the state of each"
        )
    return np.concatenate(parts)


def _states(arms: Arms) -> NDArray[np.int8]:
    """The states of the arms of a shard; -1 if the start is not a single state."""
    start = np.broadcast_to(arms.start, (len(arms), arms.start.shape[1]))
    return np.where(start.max(axis=1) == 1.0, start.argmax(axis=1), -1).astype(np.int8)


def allocate(fitted: FittedSoftFair, states: NDArray[Any], seed: int, out: Path) -> Ints:
    """Draw the list of this round, and write the score and the probability of everybody.

    Parameters
    ----------
    fitted : FittedSoftFair
        The policy, fitted to the cohort.
    states : ndarray [n]
        The state of each arm now.
    seed : int
        The same seed gives the same list.
    out : Path
        The file: Parquet if the name ends in ``.parquet``, otherwise CSV. It is written completely
        or not at all. The columns are ``id``, ``group`` if there are groups, ``state``, ``score``
        (the gain), ``probability`` of being listed, and ``listed``.

    Returns
    -------
    ndarray [k]
        Indices of the arms that are listed.

    Raises
    ------
    InvalidInput
        The file cannot be written.
    """
    import pyarrow.csv
    import pyarrow.parquet as pq

    with whole_file(out) as unfinished:
        scores, chances, arms = fitted.allocate(0, states, np.random.default_rng(seed))
        rows = _tables(fitted.cohort, states, scores, chances, arms)
        make = pq.ParquetWriter if out.suffix == ".parquet" else pyarrow.csv.CSVWriter
        first = next(rows)
        with make(str(unfinished), first.schema) as writer:
            writer.write_table(first)
            for table in track(rows, f"writing {out.name}"):
                writer.write_table(table)
    return arms


def _tables(
    cohort: Cohort, states: NDArray[Any], scores: Floats, chances: Floats, arms: Ints
) -> Iterator[pa.Table]:
    """The rows of the list, a shard at a time."""
    import pyarrow as pa

    for shard in shards_of(cohort.per_cost):
        rows = slice(shard.first, shard.first + shard.count)
        listed = np.zeros(shard.count, bool)
        low, high = np.searchsorted(arms, [rows.start, rows.stop])
        listed[arms[low:high] - rows.start] = True
        columns: dict[str, Any] = {}
        if isinstance(cohort, ShardedCohort):
            for label in ("id", "group"):
                if label == "id" or any(known.startswith("group") for known in cohort.labels):
                    columns[label] = cohort.labels_of(shard, label)  # type: ignore[arg-type]
        else:
            columns["id"] = cohort.ids[rows]
            if cohort.groups is not None:
                columns["group"] = cohort.groups[rows]
        columns["state"] = states[rows]
        columns |= {"score": scores[rows], "probability": chances[rows], "listed": listed}
        yield pa.table({name: pa.array(values) for name, values in columns.items()})
