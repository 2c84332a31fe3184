"""Cohorts in Parquet files, read in shards: a cohort need not fit in memory.

A cohort is arrays or shards. A shard is SHARD consecutive arms of the whole, wherever files and
their row groups begin and end, so that sums over shards, taken in order, do not depend on how a
cohort is cut into files, nor on whether it lies in memory: a cohort in memory is a list of shards
that are views of its arrays. :mod:`softfair.cluster` maps functions over shards.

The files are those of :mod:`softfair.files`: a row a person, columns ``p00, p01, p10, p11`` or
``p_A_S_T``, and optionally ``id``, ``group`` and ``start``. A folder is read with all its folders,
in the order of the names; a folder named ``group=north`` gives its rows that group. All footers are
read, and ids compared, when a cohort is opened; entries are checked when a shard is read.

    arrays    shards of what lies in memory
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
