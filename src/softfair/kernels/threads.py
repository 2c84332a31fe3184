"""Parallel map of a compiled kernel over fixed parts of an index range.

Kernels are compiled with ``nogil=True`` and run on plain Python threads. The pool may be used from
several threads at once, and a forked process makes a new pool. The parts depend on the size of the
work only, and their results come back in order, so that sums over parts are the same on any number
of threads.

`overlapped` runs jobs that wait for a database, a file or a server while this thread computes.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..errors import InvalidInput

__all__ = ["get_threads", "map_parts", "overlapped", "set_threads"]

Result = TypeVar("Result")

_pool: ThreadPoolExecutor | None = None
_threads: int | None = None


def get_threads() -> int:
    """Number of threads that kernels may use.

    It is the number given to :func:`set_threads`; without that, the environment variable
    ``SOFTFAIR_THREADS``; without that, the number of cores that the process may use.

    Returns
    -------
    int

    Raises
    ------
    InvalidInput
        ``SOFTFAIR_THREADS`` is not a whole number of at least 1.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.get_threads() >= 1
    True
    """
    global _threads
    if _threads is None:
        setting = os.environ.get("SOFTFAIR_THREADS", "")
        if setting and (not setting.isdecimal() or int(setting) < 1):
            raise InvalidInput(
                f"SOFTFAIR_THREADS is {setting!r}; give a whole number of at least 1, or unset it"
            )
        if setting:
            _threads = int(setting)
        elif hasattr(os, "sched_getaffinity"):  # not on every system
            _threads = len(os.sched_getaffinity(0))
        else:
            _threads = os.cpu_count() or 1
    return _threads


def set_threads(threads: int) -> None:
    """Set the number of threads that kernels may use from now on.

    Results do not depend on the number of threads.

    Parameters
    ----------
    threads : int
        At least 1.

    Raises
    ------
    InvalidInput
        ``threads`` is not a whole number of at least 1.

    Examples
    --------
    >>> import softfair as sf
    >>> before = sf.get_threads()
    >>> sf.set_threads(2)
    >>> sf.get_threads()
    2
    >>> sf.set_threads(before)
    """
    global _threads
    if not isinstance(threads, numbers.Integral) or threads < 1:
        raise InvalidInput(f"threads is {threads!r}; give a whole number of at least 1")
    _threads = int(threads)
    _forget_pool()


def _forget_pool() -> None:
    """Let the next call make a new pool."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_forget_pool)


def map_parts(kernel: Callable[..., Result], size: int, part: int, *args: Any) -> list[Result]:
    """``[kernel(low, high, *args), ...]`` over the parts [low, high) of [0, size), in order.

    Every part has ``part`` indices, except perhaps the last.
    """
    global _pool
    bounds = [(low, min(low + part, size)) for low in range(0, size, part)]
    if len(bounds) < 2 or get_threads() < 2:
        return [kernel(low, high, *args) for low, high in bounds]
    pool = _pool
    if pool is None:
        pool = _pool = ThreadPoolExecutor(get_threads(), thread_name_prefix="softfair")
    return list(pool.map(lambda bound: kernel(*bound, *args), bounds))


def overlapped(jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """``(job() for job in jobs)``, where each job runs while the iterator prepares the next one.

    Jobs run one after another on a second thread; this thread iterates over ``jobs``, at most one
    job ahead. With one thread nothing overlaps. After an exception, the running job is finished and
    no other is started.
    """
    if get_threads() < 2:
        for job in jobs:
            yield job()
        return
    with ThreadPoolExecutor(1, thread_name_prefix="softfair") as worker:
        running = None
        for job in jobs:
            if running is not None:
                yield running.result()
            running = worker.submit(job)
        if running is not None:
            yield running.result()
