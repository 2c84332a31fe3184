"""Workers outside this process: an executor, processes of this machine, a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from ..errors import ClusterError, InvalidInput
from ..kernels.threads import get_threads, set_threads
from .spread import Crew
from .versions import software

__all__ = ["crew_of"]

AT_ONCE = 256  # results that are fetched from a Dask cluster together
PATIENCE = 20.0  # seconds to wait for a worker if a cluster has none
LOOK = 1.0  # seconds between two checks of whether workers are left
EACH_CORE = 4  # most processes that are started for each core
REACH = 10.0  # seconds in which a scheduler must answer


def crew_of(on: Any) -> Crew | None:
    """The workers that ``on`` names.

    Parameters
    ----------
    on : None, Executor, dask.distributed.Client or str
        None means this process. A string is the address of a Dask scheduler, or a number of
        processes to start on this machine.

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
        _refuse_crowd(on)
        # Processes are spawned and not forked, because a forked process has locks of its parent,
        # but not the threads that hold them.
        spawn = multiprocessing.get_context("spawn")
        threads = max(1, get_threads() // int(on))
        pool = ProcessPoolExecutor(int(on), spawn, _begin_work, (threads,))
        for _ in range(int(on)):  # starts all processes now, while the caller prepares its tasks
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


def _refuse_crowd(workers: str) -> None:
    """Raise if there were far more processes than cores: each takes memory, and all would wait."""
    most = EACH_CORE * (os.cpu_count() or 1)
    if len(workers.lstrip("0")) > len(str(most)) or int(workers) > most:
        raise InvalidInput(
            f"on is {workers[:20]} processes, on a machine with {most // EACH_CORE} cores; "
            f"give at most {most}"
        )


def _begin_work(threads: int) -> None:
    """Prepare a worker process that this process started; it ends when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent ends this process
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
    except AssertionError:  # Dask's error if its thread does not start within ten seconds
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
        """Wait until all futures are done; raise if there is no worker for PATIENCE seconds."""
        import distributed

        wait: Any = distributed.wait  # not annotated
        no_worker_since = None
        while True:
            try:
                with self._client.as_current():  # otherwise `wait` looks for another client
                    wait(futures, timeout=LOOK)
                return
            except distributed.TimeoutError:
                if self._client.status != "running":
                    raise OSError("the scheduler is gone") from None
                if self._workers():
                    no_worker_since = None
                    continue
                no_worker_since = no_worker_since or time.monotonic()
                if time.monotonic() - no_worker_since > PATIENCE:
                    raise ClusterError(
                        "the Dask cluster has no worker left; start workers and call again"
                    ) from None
