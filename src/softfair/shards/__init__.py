"""Cohorts in Parquet files, read in shards: a cohort need not fit in memory.

A shard is SHARD consecutive arms of a cohort, wherever its files and their row groups begin and
end. A cohort in memory is cut in the same way, into views of its arrays. So sums over shards, taken
in order, do not depend on how a cohort is cut into files, nor on whether it is in memory.
:mod:`softfair.cluster` maps functions over shards.

The files are those of :mod:`softfair.files`: one row for each person, columns ``p00, p01, p10,
p11`` or ``p_A_S_T``, and optionally ``id``, ``group`` and ``start``. A folder is read with all its
subfolders, in the order of the names; rows in a folder named ``group=north`` have the group
``north``. When a cohort is opened, all footers are read and ids are compared; entries are checked
when a shard is read.

    arrays    shards of arrays in memory
    parquet   shards of Parquet files
    memory    how much memory is free
    cohort    a cohort that is read shard by shard
    opening   Parquet files as one cohort
"""

from .arrays import SHARD, Arms, ArrayShard, array_shards
from .cohort import ShardedCohort, shards_of
from .memory import available_memory
from .opening import open_cohort
from .parquet import FileShard

__all__ = [
    "SHARD",
    "Arms",
    "ArrayShard",
    "FileShard",
    "ShardedCohort",
    "array_shards",
    "available_memory",
    "open_cohort",
    "shards_of",
]
