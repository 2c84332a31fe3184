"""Cohorts in Parquet files, read in shards: a cohort need not fit in memory.

A cohort is arrays or shards. A shard is SHARD consecutive arms of the whole, wherever files and
their row groups begin and end, so that sums over shards, taken in order, do not depend on how a
cohort is cut into files, nor on whether it lies in memory: a cohort in memory is a list of shards
that are views of its arrays. :mod:`softfair.cluster` maps functions over shards.

The files are those of :mod:`softfair.files`: a row a person, columns ``p00, p01, p10, p11`` or
``p_A_S_T``, and optionally ``id``, ``group`` and ``start``. A folder is read with all its folders,
in the order of the names; a folder named ``group=north`` gives its rows that group. All footers are
read, and ids compared, when a cohort is opened; entries are checked when a shard is read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .cohort import Cohort, Floats, refuse_costs
from .errors import InvalidInput
from .frames import LABELS, ROW_SUM_TOLERANCE, columns_needed

__all__ = ["SHARD", "Arms", "ArrayShard", "FileShard", "ShardedCohort", "open_cohort", "shards_of"]

SHARD = 2**20  # arms: the row group that Parquet writers make, and 32 MB of two-state arms
BATCH = 2**17  # rows that are decoded at a time


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


@dataclass(frozen=True)
class Stretch:
    """Consecutive rows of one Parquet file.

    Parameters
    ----------
    path : str
        The file.
    stamp : tuple of int
        Its size and time of change when the cohort was opened.
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
        What a worker keeps it under.
    first, count : int
        Its arms are first, ..., first + count - 1 of the whole.
    stretches : tuple of Stretch
        Where its rows are.
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
        """Itself: it is a name already."""
        return self

    def load(self) -> Arms:
        """Read the arms and check their entries."""
        probabilities = [column for column in self.columns if column != "start"]
        values = np.empty((self.count, len(probabilities)))
        states = np.empty(self.count) if "start" in self.columns else None
        done = 0
        for stretch in self.stretches:
            for batch in _batches(stretch, list(self.columns)):
                rows = slice(done, done + len(batch))
                for j, column in enumerate(probabilities):
                    values[rows, j] = _floats(batch, column)
                if states is not None:
                    states[rows] = _floats(batch, "start")
                done += len(batch)
        self._refuse(~((values >= 0) & (values <= 1)), values, probabilities, "a probability")
        if len(probabilities) == 4:
            P = values.reshape(self.count, 2, 2, 1)
        else:
            P = values.reshape(self.count, 2, self.S, self.S)
            self._refuse_sums(P)
        return Arms(P, _usual_reward(self.S), self._start(states))

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
        if not bad.any():
            return
        i, j = (int(place) for place in np.argwhere(bad)[0])
        raise InvalidInput(
            f"{self._place(i)}, column {columns[j]} is {values[i, j]:g} "
            f"({np.count_nonzero(bad)} of {bad.size} entries read with it are wrong); give {wanted}"
        )

    def _refuse_sums(self, P: Floats) -> None:
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


class ShardedCohort(Cohort):
    """A cohort in Parquet files. Make one with :func:`open_cohort`.

    ``SoftFair`` with the solvers "priced" and "meanfield" reads it shard by shard. Everything that
    needs all arms at once (P, ids, other policies, :func:`softfair.simulate`) takes it from
    :attr:`loaded`, which refuses a cohort that would not fit in memory.

    Parameters
    ----------
    path : Path
        The file or folder.
    shards : sequence of FileShard
        All arms, in order.
    labels : tuple of str
        Which of ``id`` and ``group`` there are; ``group=`` stands for folders that name it.
    """

    def __init__(
        self, path: Path, shards: Sequence[FileShard], labels: tuple[str, ...] = ()
    ) -> None:
        row = _usual_reward(shards[0].S)
        one = np.ones(1, np.int64)
        self._set(path=path, shards=tuple(shards), labels=labels, reward_rows=row, cost_rows=one)

    path: Path
    shards: tuple[FileShard, ...]
    labels: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return ShardedCohort, (self.path, self.shards, self.labels)

    def saved_fields(self) -> dict[str, Any]:
        """Where the arms are; they stay in their files."""
        return {"path": str(self.path), "shards": self.shards, "labels": self.labels}

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> Cohort:
        """The cohort of :meth:`saved_fields`."""
        return cls(Path(fields["path"]), fields["shards"], fields["labels"])

    def __repr__(self) -> str:
        return f"ShardedCohort(n={self.n}, S={self.S}, shards={len(self.shards)})"

    @property
    def n(self) -> int:
        """Number of arms."""
        return self.shards[-1].first + self.shards[-1].count

    @property
    def S(self) -> int:
        """Number of states an arm can be in."""
        return self.shards[0].S

    @cached_property
    def loaded(self) -> Cohort:
        """All arms in memory.

        Raises
        ------
        InvalidInput
            If they would not fit.
        """
        entries = 4 if self.S == 2 else 2 * self.S * self.S
        # P of two-state arms is built beside p, starts take S entries, labels some 40 bytes each.
        need = self.n * (8 * (3 * entries + self.S) + 40 * len(self.labels) + 8)
        free = available_memory()
        if free is not None and need > free:
            raise InvalidInput(
                f"{self.path} has {self.n:,} arms, which need about {need / 2**30:.1f} GiB in "
                f"memory at once, and {free / 2**30:.1f} GiB are free; SoftFair's fit, inclusion "
                "and draw and `softfair allocate` read it in shards; for this, take fewer arms"
            )
        parts = [shard.load() for shard in self.shards]
        P = np.concatenate([part.P for part in parts])
        P.flags.writeable = False
        start = None
        if "start" in self.shards[0].columns:
            start = np.concatenate([part.start for part in parts])
        del parts
        ids = self._column("id") if "id" in self.labels else None
        groups = None
        if any(label.startswith("group") for label in self.labels):
            groups = self._column("group")
        if P.shape[3] == 1:
            return Cohort.two_state(P[..., 0], ids=ids, groups=groups, start=start)
        return Cohort(P, ids=ids, groups=groups, start=start)

    def _column(self, column: str) -> NDArray[Any]:
        return np.concatenate([self.labels_of(shard, column) for shard in self.shards])

    def labels_of(self, shard: FileShard, column: str) -> NDArray[Any]:
        """One column of labels of the arms of a shard [m].

        Parameters
        ----------
        shard : FileShard
            One of :attr:`shards`.
        column : {"id", "group"}
            Which labels. Without such a column ids are the arms' numbers.

        Returns
        -------
        ndarray [m]

        Raises
        ------
        InvalidInput
            If a label is missing.
        """
        if column not in self.labels and column == "id":
            return np.arange(shard.first, shard.first + shard.count)
        labels: list[NDArray[Any]] = []
        for stretch in shard.stretches:
            if column not in self.labels:  # the folder names it
                labels.append(np.full(stretch.count, _group_of(stretch.path)))
                continue
            for batch in _batches(stretch, [column]):
                values = batch.column(column)
                if values.null_count:
                    raise InvalidInput(
                        f"{stretch.path}: column {column} is empty in {values.null_count} of "
                        f"{len(values)} rows that were read together; fill it in"
                    )
                labels.append(values.to_numpy(zero_copy_only=False))
        return np.concatenate(labels)

    def subset(self, arms: ArrayLike) -> Cohort:
        """The cohort of some of the arms, see :meth:`softfair.Cohort.subset`."""
        return self.loaded.subset(arms)

    # What needs all arms at once.
    arms = property(lambda self: self.loaded.arms)
    P = property(lambda self: self.loaded.P)
    reward = property(lambda self: self.loaded.reward)
    ids = property(lambda self: self.loaded.ids)
    groups = property(lambda self: self.loaded.groups)
    start = property(lambda self: self.loaded.start)
    start_rows = property(lambda self: self.loaded.start_rows)
    extra = property(lambda self: self.loaded.extra)

    cost = property(lambda self: np.broadcast_to(self.cost_rows, (self.n,)))


def open_cohort(path: str | Path) -> ShardedCohort:
    """Open a cohort in Parquet without reading its arms.

    Parameters
    ----------
    path : str or Path
        A Parquet file, or a folder of them; the columns are those of :mod:`softfair.files`.

    Returns
    -------
    ShardedCohort
        With default rewards.

    Raises
    ------
    InvalidInput
        If there is no such file, a file is broken or has other columns than the first, or an id
        stands in two rows. The message names the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import softfair as sf
    >>> from softfair.files import write_cohort
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in range(3):
    ...         people = sf.datasets.synthetic(n=10, seed=part).subset(range(5))
    ...         ids = [f"{part}-{i}" for i in range(5)]
    ...         made = sf.Cohort.two_state(people.p, ids=ids)
    ...         write_cohort(made, pathlib.Path(folder, f"part-{part}.parquet"))
    ...     sf.open_cohort(folder)
    ShardedCohort(n=15, S=2, shards=1)
    """
    import pyarrow as pa

    place = Path(path)
    files = _files_in(place)
    stretches: list[Stretch] = []
    names: list[str] = []
    for file in files:
        opened, stamp = _open(file)
        schema = opened.schema_arrow
        if not names:
            names = list(schema.names)
            S, needed = columns_needed(names, str(file))
            _refuse_others(names, needed, file)
        elif set(schema.names) != set(names):
            odd = sorted(set(schema.names) ^ set(names))[0]
            has = "has a" if odd in schema.names else "has no"
            raise InvalidInput(
                f"{file} {has} column {odd!r}, unlike {files[0]}; "
                f"give all files the columns {', '.join(sorted(names))}"
            )
        for column in [*needed, *(["start"] if "start" in names else [])]:
            kind = schema.field(column).type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
                raise InvalidInput(f"{file}: column {column} holds {kind}; give numbers")
        if opened.metadata.num_rows:
            stretches.append(Stretch(str(file), stamp, 0, opened.metadata.num_rows))
    if not stretches:
        raise InvalidInput(f"{place} has no rows; give one person a row")
    if "id" in names:
        _refuse_shared_ids(stretches)
    columns = (*needed, *(["start"] if "start" in names else []))
    labels = [name for name in names if name in ("id", "group")]
    if "group" not in labels and all(_group_of(stretch.path) for stretch in stretches):
        labels.append("group=")
    return ShardedCohort(place, list(_cut(stretches, S, columns)), tuple(labels))


def _refuse_others(names: Sequence[str], needed: Sequence[str], file: Path) -> None:
    if odd := [name for name in names if name not in {*needed, *LABELS}]:
        raise InvalidInput(
            f"{file} has a column {odd[0]!r} that is not known in shards ({len(odd)} such); leave "
            "it out: rewards and costs are the default, and start is a state"
        )


def shards_of(cohort: Cohort) -> Sequence[ArrayShard | FileShard]:
    """The shards of a cohort: views of its arrays, or what is to be read from files.

    Parameters
    ----------
    cohort : Cohort
        In memory or in files.

    Returns
    -------
    sequence of ArrayShard or FileShard

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.shards import shards_of
    >>> [shard.count for shard in shards_of(sf.datasets.synthetic(n=10, seed=0))]
    [10]
    """
    if isinstance(cohort, ShardedCohort):
        return cohort.shards
    refuse_costs(cohort, "a pass over shards")  # which would count every arm once
    whole = Arms(cohort.arms, cohort.reward_rows, cohort.start_rows)
    return array_shards(whole)


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


def available_memory() -> int | None:
    """Bytes that are free for use; None where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _usual_reward(S: int) -> Floats:
    row = (np.arange(S) / (S - 1))[None, None]
    row.flags.writeable = False
    return row


def _files_in(place: Path) -> list[Path]:
    """The Parquet files, in the order of their names."""
    if place.is_dir():
        files = sorted(
            file
            for file in place.rglob("*")
            if file.suffix.lower() in (".parquet", ".pq")
            and not any(part.startswith((".", "_")) for part in file.relative_to(place).parts)
        )
        if not files:
            raise InvalidInput(f"there is no Parquet file in the folder {place}; give another")
        return files
    if not place.exists():
        raise InvalidInput(f"there is no file {place}; give a Parquet file or a folder of them")
    return [place]


def _open(path: str | Path) -> tuple[Any, tuple[int, int]]:
    """The file by pyarrow, and its size and time of change."""
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


def _batches(stretch: Stretch, columns: list[str]) -> Iterator[Any]:
    """The rows of a stretch as record batches."""
    import pyarrow as pa

    opened, stamp = _open(stretch.path)
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
            wanted = batch.slice(skip, left)
            skip = max(0, skip - len(batch))
            left -= len(wanted)
            if len(wanted):
                yield wanted
            if not left:
                return
    except (OSError, pa.ArrowException) as error:
        raise _broken(stretch.path, error) from None


def _floats(batch: Any, column: str) -> Floats:
    """A column as floats; missing entries are NaN."""
    values: Floats = np.asarray(batch.column(column).to_numpy(zero_copy_only=False), np.float64)
    return values


def _cut(stretches: Sequence[Stretch], S: int, columns: tuple[str, ...]) -> Iterator[FileShard]:
    """Shards of SHARD arms, whatever the files are."""
    about = repr([(stretch.path, stretch.stamp) for stretch in stretches]).encode()
    token = hashlib.sha256(about).hexdigest()[:16]
    first, taken, room = 0, list[Stretch](), SHARD
    for stretch in stretches:
        begun = 0
        while begun < stretch.count:
            count = min(room, stretch.count - begun)
            taken.append(Stretch(stretch.path, stretch.stamp, begun, count))
            begun, room = begun + count, room - count
            if not room:
                yield FileShard((token, first), first, SHARD, tuple(taken), S, columns)
                first, taken, room = first + SHARD, [], SHARD
    if taken:
        yield FileShard((token, first), first, SHARD - room, tuple(taken), S, columns)


def _group_of(path: str) -> str:
    """The group that a folder named group=... gives to its rows, or ""."""
    for part in reversed(Path(path).parts):
        if part.startswith("group="):
            return part.removeprefix("group=")
    return ""


def _refuse_shared_ids(stretches: Sequence[Stretch]) -> None:
    """Raise if an id stands in two rows.

    Only 64 bits of each id are kept. Rows that agree in them are compared in full.
    """
    from pandas.util import hash_array

    total = sum(stretch.count for stretch in stretches)
    hashes, done = np.empty(total, np.uint64), 0
    for stretch in stretches:
        for batch in _batches(stretch, ["id"]):
            values = batch.column("id")
            if values.null_count:
                raise InvalidInput(
                    f"{stretch.path}: column id is empty in {values.null_count} rows; fill it in"
                )
            ids = values.to_numpy(zero_copy_only=False)
            hashes[done : done + len(ids)] = hash_array(ids, categorize=False)
            done += len(ids)
    hashes.sort()
    twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    del hashes
    if not len(twice):
        return
    seen: dict[Any, tuple[str, int]] = {}
    for stretch in stretches:
        row = 0
        for batch in _batches(stretch, ["id"]):
            ids = batch.column("id").to_numpy(zero_copy_only=False)
            for i in np.flatnonzero(np.isin(hash_array(ids, categorize=False), twice)):
                place = (stretch.path, row + int(i) + 1)
                if ids[i] in seen:
                    before = seen[ids[i]]
                    raise InvalidInput(
                        f"{place[0]}: row {place[1]} has the id of {before[0]}: row {before[1]} "
                        f"({len(twice)} ids stand in two rows or more); give each person one row"
                    )
                seen[ids[i]] = place
            row += len(ids)
