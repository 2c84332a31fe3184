"""One map over shards: in this process, on an executor, or on a Dask cluster.

A `Spread` is data in shards (:mod:`softfair.shards`) and the crew that works on them. Everything
that is done with many arms is a function of one shard's data, mapped over all shards; results come
back in the order of the shards, and sums are taken in that order. Shards do not depend on who works
on them, so that a result is the same to the last bit in this process and on any workers.

    a pass of `priced`         each shard gives one array [2, T + 1]; they are added
    gains of one decision      each shard makes its own log-weights, and keeps them for what follows
    inclusion                  each shard gives a few dozen moments, then its chances
    draw                       each shard gives the keys near the cut, or the law of its count

Without a crew the functions are called here, one shard after another, while the next shard is
read. A worker is sent a shard's name (paths and rows of a file, or a key), reads it, and keeps it
as long as there is room; arrays are sent to a worker that does not have them. A shard has the same
worker in every pass where the crew allows it (Dask). A task can be run again anywhere: a worker
that dies costs time and nothing else, as long as another is there.

    versions    versions that decide the last bits, the same for all workers
    work        what a process does with a shard, and what it keeps
    spread      data in shards, and the map over them
    crews       workers: an executor, processes, a Dask cluster
"""

from .crews import crew_of
from .spread import Crew, Spread
from .versions import refuse_other_software, software
from .work import Recipe

__all__ = ["Crew", "Recipe", "Spread", "crew_of", "refuse_other_software", "software"]
