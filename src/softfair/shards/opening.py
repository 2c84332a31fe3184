"""Opening Parquet files as one cohort: their footers are read, and ids compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..frames import LABELS, columns_needed
from . import arrays
from .cohort import ShardedCohort
from .parquet import FileShard, Stretch, batches, group_of, open_file

__all__ = ["open_cohort"]


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
        There is no such file, a file is broken or has other columns than the first file, or an id
        is in two rows. The message names the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import softfair as sf
    >>> from softfair.files import write_cohort
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in range(3):
    ...         people = sf.datasets.synthetic(n=10, seed=part).subset(range(5))
    ...         ids = [f"{part}-{i}" for i in range(5)]
    ...         cohort = sf.Cohort.two_state(people.p, ids=ids)
    ...         write_cohort(cohort, pathlib.Path(folder, f"part-{part}.parquet"))
    ...     sf.open_cohort(folder)
    ShardedCohort(n=15, S=2, shards=1)
    """
    import pyarrow as pa

    place = Path(path)
    files = _files_in(place)
    stretches: list[Stretch] = []
    names: list[str] = []
    for file in files:
        opened, stamp = open_file(file)
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
    if "group" not in labels and all(group_of(stretch.path) for stretch in stretches):
        labels.append("group=")
    return ShardedCohort(place, list(_cut(stretches, S, columns)), tuple(labels))


def _refuse_others(names: Sequence[str], needed: Sequence[str], file: Path) -> None:
    """Refuse columns that shards cannot have."""
    if odd := [name for name in names if name not in {*needed, *LABELS}]:
        raise InvalidInput(
            f"{file} has a column {odd[0]!r} that is not known in shards ({len(odd)} such); leave "
            "it out: rewards and costs are the default, and start is a state"
        )


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


def _cut(stretches: Sequence[Stretch], S: int, columns: tuple[str, ...]) -> Iterator[FileShard]:
    """Cut the rows of all files, one file after another, into shards of SHARD arms."""
    about = repr([(stretch.path, stretch.stamp) for stretch in stretches]).encode()
    token = hashlib.sha256(about).hexdigest()[:16]
    first, taken, room = 0, list[Stretch](), arrays.SHARD
    for stretch in stretches:
        begun = 0
        while begun < stretch.count:
            count = min(room, stretch.count - begun)
            taken.append(Stretch(stretch.path, stretch.stamp, begun, count))
            begun, room = begun + count, room - count
            if not room:
                yield FileShard((token, first), first, arrays.SHARD, tuple(taken), S, columns)
                first, taken, room = first + arrays.SHARD, [], arrays.SHARD
    if taken:
        yield FileShard((token, first), first, arrays.SHARD - room, tuple(taken), S, columns)


def _refuse_shared_ids(stretches: Sequence[Stretch]) -> None:
    """Raise if an id is in two rows.

    Only a hash of 64 bits is kept of each id. Ids with equal hashes are then compared in full.
    """
    from pandas.util import hash_array

    total = sum(stretch.count for stretch in stretches)
    hashes, done = np.empty(total, np.uint64), 0
    for stretch in stretches:
        for batch in batches(stretch, ["id"]):
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
        for batch in batches(stretch, ["id"]):
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
