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
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import ClusterError, InvalidInput
from .kernels.threads import get_threads, set_threads
from .progress import track
from .shards import Arms, ArrayShard, FileShard, array_shards

__all__ = ["Crew", "Recipe", "Spread", "crew_of"]

Shard = ArrayShard | FileShard
Floats = NDArray[np.float64]

KEEP = 2**30  # bytes of arms that a process keeps between passes
AT_ONCE = 256  # results that are fetched from a Dask cluster together
PATIENCE = 20.0  # seconds that a cluster without any worker is given to find one
LOOK = 1.0  # seconds between two looks at whether workers are left
EACH_CORE = 4  # most processes that are started for each core
REACH = 10.0  # seconds in which a scheduler has to answer


class Recipe(Protocol):
    """How to make something of each arm out of a shard's arms.

    Parameters
    ----------
    token : str
        Name of this computation: workers keep its results under this name.
    """

    @property
    def token(self) -> str:
        """Name of this computation."""
        ...

    def make(self, arms: Arms, extra: Any) -> Floats:
        """One number an arm [m]."""
        ...


class Crew(Protocol):
    """Workers that run tasks outside this process."""

    @property
    def here(self) -> int:
        """How many workers are on this machine, and use the same compiled kernels."""
        ...

    def run(self, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of ``function(*args)`` for tasks (function, *args), in order."""
        ...


class Spread:
    """Data in shards, and the workers that compute on them.

    Parameters
    ----------
    shards : sequence of ArrayShard or FileShard
        The data, in order.
    crew : Crew, optional
        The workers that compute on them; None means this process.
    recipe : Recipe, optional
        What to make of a shard before a function sees it.
    extras : sequence, optional
        What the recipe needs for each shard.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.cluster import Spread
    >>> float(Spread.of(np.arange(5.0)).sum(np.sum))
    10.0
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        crew: Crew | None = None,
        recipe: Recipe | None = None,
        extras: Sequence[Any] | None = None,
    ) -> None:
        self.shards, self.crew, self.recipe = shards, crew, recipe
        self.extras = [None] * len(shards) if extras is None else extras
        if recipe is not None:
            weakref.finalize(self, _store.forget, recipe.token)

    @classmethod
    def of(cls, data: Arms | Floats) -> Spread:
        """Views of arms or an array that lie in this process."""
        return cls(array_shards(data))

    @property
    def n(self) -> int:
        """Number of arms."""
        return self.shards[-1].first + self.shards[-1].count

    def derive(self, recipe: Recipe, extras: Sequence[Any]) -> Spread:
        """What the recipe makes of each shard, made where the shard is."""
        return Spread(self.shards, self.crew, recipe, extras)

    def map(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Iterable[tuple[Any, ...]] | None = None,
        what: str = "working on shards",
    ) -> Iterator[Any]:
        """``function(data, *args, *own)`` of every shard, in order.

        Parameters
        ----------
        function : callable
            A function of a module, which workers can import.
        *args : Any
            The same for every shard.
        each : iterable of tuple, optional
            Further arguments of each shard.
        what : str
            What a progress bar says.

        Returns
        -------
        iterator
        """
        own = [()] * len(self.shards) if each is None else list(each)
        answers = (
            self._here(function, args, own)
            if self.crew is None
            else self._away(self.crew, function, args, own)
        )
        return track(answers, what, total=len(self.shards))

    def sum(self, function: Callable[..., Any], *args: Any, what: str = "adding up shards") -> Any:
        """The sum over shards of ``function(data, *args)``, in order."""
        total: Any = None
        for part in self.map(function, *args, what=what):
            total = part if total is None else total + part
        return total

    def fill(self, out: NDArray[Any], function: Callable[..., Any], *args: Any) -> list[Any]:
        """Put the array [m] that ``function`` gives first of each shard into out [n].

        The rest of what it gives comes back, a tuple for each shard.
        """
        rest = []
        for shard, (values, *others) in zip(self.shards, self.map(function, *args), strict=True):
            out[shard.first : shard.first + shard.count] = values
            rest.append(tuple(others))
        return rest

    def gather(self) -> Floats:
        """The numbers of all arms [n]."""
        out = np.empty(self.n)
        self.fill(out, _itself)
        return out

    def _tasks(self) -> list[tuple[Shard, Recipe | None, Any]]:
        return [
            (shard, self.recipe, extra)
            for shard, extra in zip(self.shards, self.extras, strict=True)
        ]

    def _here(
        self, function: Callable[..., Any], args: tuple[Any, ...], own: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """Compute in this process; the next shard is read from its file meanwhile."""
        tasks = self._tasks()
        if not isinstance(self.shards[0], FileShard):
            for task, more in zip(tasks, own, strict=True):
                yield function(_data(*task), *args, *more)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="softfair-read") as reader:
            ahead = reader.submit(_fetch, *tasks[0])
            for i, (task, more) in enumerate(zip(tasks, own, strict=True)):
                arms = ahead.result()
                if i + 1 < len(tasks):
                    ahead = reader.submit(_fetch, *tasks[i + 1])
                yield function(_data(*task, arms=arms), *args, *more)

    def _away(
        self,
        crew: Crew,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        own: Sequence[tuple[Any, ...]],
    ) -> Iterator[Any]:
        """Compute on the crew: send names of shards first, then arrays to workers without them."""
        stamp, tasks = software(), self._tasks()

        def task(i: int, shard: Shard) -> tuple[Any, ...]:
            _, recipe, extra = tasks[i]
            return (_work, stamp, shard, recipe, extra, function, (*args, *own[i]))

        named = [task(i, shard.name_only()) for i, (shard, _, _) in enumerate(tasks)]
        missing: list[int] = []
        answers: dict[int, Any] = {}
        for i, result in enumerate(crew.run(named)):
            if isinstance(result, _Missing):
                missing.append(i)
            elif not missing:
                yield result
            else:
                answers[i] = result
        if missing:
            sent = crew.run([task(i, tasks[i][0]) for i in missing])
            answers |= dict(zip(missing, sent, strict=True))
            for i in range(missing[0], len(tasks)):
                yield answers.pop(i)


@dataclass(frozen=True)
class _Missing:
    """The answer of a worker that does not have the arrays of a shard."""


class _Store:
    """Arms of shards that this process keeps between passes, and what recipes last made of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arms: dict[tuple[str, int], Any] = {}
        self._made: dict[tuple[str, int], Floats] = {}
        self._token = ""

    def arms(self, key: tuple[str, int]) -> Any:
        return self._arms.get(key)

    def keep(self, key: tuple[str, int], arms: Any) -> None:
        """Keep the arms if there is room; arms of other cohorts are dropped to make room."""
        with self._lock:
            if arms.nbytes + sum(kept.nbytes for kept in self._arms.values()) > KEEP:
                for other in [other for other in self._arms if other[0] != key[0]]:
                    del self._arms[other]
            if arms.nbytes + sum(kept.nbytes for kept in self._arms.values()) <= KEEP:
                self._arms[key] = arms

    def made(self, token: str, key: tuple[str, int]) -> Floats | None:
        return self._made.get(key) if token == self._token else None

    def keep_made(self, token: str, key: tuple[str, int], made: Floats) -> None:
        """Keep what a recipe made; results under another token are dropped."""
        with self._lock:
            if token != self._token:
                self._token, self._made = token, {}
            self._made[key] = made

    def forget(self, token: str) -> None:
        """Forget what was made under the token."""
        with self._lock:
            if token == self._token:
                self._token, self._made = "", {}


_store = _Store()


def _fetch(shard: Shard, recipe: Recipe | None, extra: Any) -> Any:
    """The shard's arms, unless what is made of them is there already."""
    if recipe is not None and _store.made(recipe.token, shard.key) is not None:
        return None
    kept = _store.arms(shard.key)
    if kept is not None:
        return kept
    arms = shard.load()
    if isinstance(shard, FileShard):
        _store.keep(shard.key, arms)
    return arms


def _data(shard: Shard, recipe: Recipe | None, extra: Any, arms: Any = None) -> Any:
    """The argument that a function gets for a shard: its arms, or what the recipe makes of them."""
    if recipe is None:
        return _fetch(shard, recipe, extra) if arms is None else arms
    numbers = _store.made(recipe.token, shard.key)
    if numbers is None:
        numbers = recipe.make(_fetch(shard, recipe, extra) if arms is None else arms, extra)
        _store.keep_made(recipe.token, shard.key, numbers)
    return numbers


def _work(
    stamp: str,
    shard: Shard,
    recipe: Recipe | None,
    extra: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> Any:
    """Apply the function to one shard, in a worker."""
    refuse_other_software(stamp)
    arms = _store.arms(shard.key)
    if arms is None and isinstance(shard, ArrayShard):
        if shard.data is None:
            return _Missing()
        arms = shard.data
        _store.keep(shard.key, arms)
    return function(_data(shard, recipe, extra, arms), *args)


def _itself(data: Floats) -> tuple[Floats]:
    return (data,)


@cache
def software() -> str:
    """Versions of this package and of those that it computes with: they decide the last bits."""
    return ", ".join(f"{name} {version(name)}" for name in ("softfair", "numba", "numpy"))


def refuse_other_software(stamp: str) -> None:
    """Raise an error unless this process and the session have the same software.

    Parameters
    ----------
    stamp : str
        What :func:`software` gives in the session.

    Raises
    ------
    ClusterError
        If it has other versions.
    """
    if stamp != software():
        raise ClusterError(
            f"a worker has {software()}, this session {stamp}; install the same on both"
        )


def _refuse_crowd(workers: str) -> None:
    """Raise if there were far more processes than cores: each takes memory, and all would wait."""
    most = EACH_CORE * (os.cpu_count() or 1)
    if len(workers.lstrip("0")) > len(str(most)) or int(workers) > most:
        raise InvalidInput(
            f"on is {workers[:20]} processes, on a machine with {most // EACH_CORE} cores; "
            f"give at most {most}"
        )


def crew_of(on: Any) -> Crew | None:
    """The workers that ``on`` names.

    Parameters
    ----------
    on : None, Executor, dask.distributed.Client or str
        None is this process. A string is the address of a Dask scheduler, or a number of processes
        to start on this machine.

    Returns
    -------
    Crew or None

    Raises
    ------
    InvalidInput
        ``on`` is none of these, or Dask is not installed.
    ClusterError
        The scheduler does not answer.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from softfair.cluster import crew_of
    >>> with ThreadPoolExecutor(2) as pool:
    ...     list(crew_of(pool).run([(max, 1, 2), (min, 1, 2)]))
    [2, 1]
    """
    if on is None or isinstance(on, _Pool | _Dask):
        return on
    if isinstance(on, Executor):
        return _Pool(on)
    if isinstance(on, str) and on.isdecimal() and on.strip("0"):
        # Spawned, not forked: a forked process would have the locks but not the threads that hold
        # them.
        _refuse_crowd(on)
        spawn = multiprocessing.get_context("spawn")
        threads = max(1, get_threads() // int(on))
        pool = ProcessPoolExecutor(int(on), spawn, _begin_work, (threads,))
        for _ in range(int(on)):  # they start now, while the caller prepares its tasks
            pool.submit(software)
        return _Pool(pool)
    if isinstance(on, str):
        return _Dask(_client(on), ours=True)
    if type(on).__module__.partition(".")[0] == "distributed" and hasattr(on, "scheduler_info"):
        return _Dask(on)
    raise InvalidInput(
        f"on is {on!r}; give a concurrent.futures.Executor, a dask.distributed.Client, the address "
        "of a Dask scheduler (tcp://host:8786), or a number of processes as a string"
    )


def _begin_work(threads: int) -> None:
    """Prepare a worker process that this process started; it ends when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this one
    set_threads(threads)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _client(address: str) -> Any:
    """A client of the scheduler at this address."""
    try:
        from distributed import Client
    except ImportError:
        raise InvalidInput(
            f"on is {address!r}, which needs Dask; install softfair[cluster]"
        ) from None
    try:
        client: Any = Client  # not annotated
        return client(address, timeout=REACH, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ClusterError(
            f"no Dask scheduler answers at {address} ({reason}); "
            "start one, or give the address that it prints"
        ) from None
    except AssertionError:  # how Dask says that its thread did not start within ten seconds
        raise ClusterError(
            "this machine was too busy to start a Dask client within 10 s; call again"
        ) from None


class _Pool:
    """A concurrent.futures.Executor of any kind."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    @property
    def here(self) -> int:
        if isinstance(self._executor, ProcessPoolExecutor | ThreadPoolExecutor):
            workers: int = self._executor._max_workers  # type: ignore[union-attr]
            return workers
        return 0

    def run(self, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        futures = []
        try:
            futures = [self._executor.submit(*task) for task in tasks]
            for future in futures:
                yield future.result()
        except BrokenExecutor as error:
            raise ClusterError(
                f"the workers of the executor are gone ({type(error).__name__}: one of them was "
                "killed or could not start); make a new executor and call again"
            ) from None
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise
            raise ClusterError(f"the executor does not take tasks ({error}); make a new one") from (
                None
            )
        finally:
            for future in futures:
                future.cancel()


class _Dask:
    """A Dask cluster."""

    here = 0

    def __init__(self, client: Any, ours: bool = False) -> None:
        self._client = client
        if ours:
            weakref.finalize(self, client.close)

    def run(self, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        futures: list[Any] = []
        try:
            workers = self._workers()
            for i, (function, *args) in enumerate(tasks):
                home = workers[i * len(workers) // len(tasks)] if workers else None
                futures.append(
                    self._client.submit(
                        function, *args, pure=False, workers=home, allow_other_workers=bool(home)
                    )
                )
            for low in range(0, len(futures), AT_ONCE):
                block = futures[low : low + AT_ONCE]
                self._await(block)
                yield from self._client.gather(block)
        except (CancelledError, KilledWorker, CommClosedError, OSError) as error:
            raise ClusterError(
                f"the Dask cluster has lost its scheduler or its workers ({type(error).__name__}); "
                "start workers and call again"
            ) from None
        finally:
            if self._client.status == "running":
                self._client.cancel(futures)

    def _workers(self) -> list[str]:
        return sorted(self._client.scheduler_info(n_workers=-1)["workers"])

    def _await(self, futures: Sequence[Any]) -> None:
        """Wait until all are done, as long as there is a worker."""
        import distributed

        wait: Any = distributed.wait  # not annotated
        alone_since = None
        while True:
            try:
                with self._client.as_current():  # otherwise `wait` looks for a client of its own
                    wait(futures, timeout=LOOK)
                return
            except distributed.TimeoutError:
                if self._client.status != "running":
                    raise OSError("the scheduler is gone") from None
                if self._workers():
                    alone_since = None
                    continue
                alone_since = alone_since or time.monotonic()
                if time.monotonic() - alone_since > PATIENCE:
                    raise ClusterError(
                        "the Dask cluster has no worker left; start workers and call again"
                    ) from None
