"""One map over shards: in this process, on an executor, or on a Dask cluster.

A `Spread` is data in shards (:mod:`softfair.shards`) with the workers, called the crew, that
compute on them. A computation on many arms is a function of the data of one shard, mapped over all
shards. Results come back in the order of the shards, and sums are taken in that order. Shards do
not depend on the workers, so that a result is the same to the last bit in this process and on any
crew.

    a pass of `priced`         each shard returns one array [2, T + 1]; the arrays are added
    gains of one decision      each shard computes its log-weights, and keeps them for later steps
    inclusion                  each shard returns a few dozen moments, then its chances
    draw                       each shard returns the keys near the cut, or the law of its count

Without a crew, the functions are called in this process, one shard after another, while the next
shard is read. A worker of a crew is sent the name of a shard (paths and rows of a file, or a key);
it reads the shard, and keeps the arms as long as there is room. Arrays are sent only to a worker
that does not have them. If the crew allows it (Dask), a shard has the same worker in every pass. A
task can be run again on any worker: a worker that dies costs only time, as long as another is left.

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
