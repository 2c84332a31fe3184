"""A cohort that is read shard by shard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import InvalidInput
from .arrays import Arms, ArrayShard, array_shards, usual_reward
from .memory import available_memory
from .parquet import FileShard, batches, group_of

__all__ = ["ShardedCohort", "shards_of"]


class ShardedCohort(Cohort):
    """A cohort in Parquet files. Make one with :func:`open_cohort`.

    ``SoftFair`` with the solvers "priced" and "meanfield" reads the arms shard by shard. Whatever
    needs all arms at once (P, ids, other policies, :func:`softfair.simulate`) uses :attr:`loaded`,
    which refuses a cohort that would not fit in memory.

    Parameters
    ----------
    path : Path
        The file or folder.
    shards : sequence of FileShard
        All arms, in order.
    labels : tuple of str
        The columns of labels: ``id`` and ``group``; ``group=`` if folders name the group.
    """

    def __init__(
        self, path: Path, shards: Sequence[FileShard], labels: tuple[str, ...] = ()
    ) -> None:
        reward, cost = usual_reward(shards[0].S), np.ones(1, np.int64)
        self._set(
            path=path, shards=tuple(shards), labels=labels, reward_rows=reward, cost_rows=cost
        )

    path: Path
    shards: tuple[FileShard, ...]
    labels: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return ShardedCohort, (self.path, self.shards, self.labels)

    def saved_fields(self) -> dict[str, Any]:
        """The files of the arms, which are not copied."""
        return {"path": str(self.path), "shards": self.shards, "labels": self.labels}

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> Cohort:
        """Build a cohort from its :meth:`saved_fields`."""
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
            The arms would not fit in memory.
        """
        entries = 4 if self.S == 2 else 2 * self.S * self.S
        # For two-state arms P is built in addition to p; starts take S entries, labels about 40
        # bytes each.
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
            The kind of label. Without a column ``id``, ids are the numbers of the arms.

        Returns
        -------
        ndarray [m]

        Raises
        ------
        InvalidInput
            A label is missing.
        """
        if column not in self.labels and column == "id":
            return np.arange(shard.first, shard.first + shard.count)
        labels: list[NDArray[Any]] = []
        for stretch in shard.stretches:
            if column not in self.labels:  # the folder names it
                labels.append(np.full(stretch.count, group_of(stretch.path)))
                continue
            for batch in batches(stretch, [column]):
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

    # These attributes need all arms at once.
    arms = property(lambda self: self.loaded.arms)
    P = property(lambda self: self.loaded.P)
    reward = property(lambda self: self.loaded.reward)
    ids = property(lambda self: self.loaded.ids)
    groups = property(lambda self: self.loaded.groups)
    start = property(lambda self: self.loaded.start)
    start_rows = property(lambda self: self.loaded.start_rows)
    extra = property(lambda self: self.loaded.extra)

    cost = property(lambda self: np.broadcast_to(self.cost_rows, (self.n,)))


def shards_of(cohort: Cohort) -> Sequence[ArrayShard | FileShard]:
    """The shards of a cohort: views of its arrays, or shards that are read from files.

    Parameters
    ----------
    cohort : Cohort
        A cohort in memory or in files.

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
    refuse_costs(cohort, "a pass over shards")  # a pass would count every arm once
    whole = Arms(cohort.arms, cohort.reward_rows, cohort.start_rows)
    return array_shards(whole)
