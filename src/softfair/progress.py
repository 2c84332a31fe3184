"""Progress bars and notes for a person at a terminal; nothing is shown in a pipe, log or worker.

Code that shows progress in another way, such as a web page, registers a listener (`heard_by`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import length_hint
from time import monotonic
from typing import TextIO, TypeVar

__all__ = ["heard_by", "say", "track"]

Item = TypeVar("Item")
Listener = Callable[[str], None]

PATIENCE = 2.0  # seconds of work that need no bar

_screen = threading.Lock()  # so that there is one bar at a time, also for nested loops
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Within the block, send lines and progress of this thread to a listener.

    Parameters
    ----------
    listener : callable
        Called with each line; for a loop, with its description and the number of items done.

    Examples
    --------
    >>> from softfair.progress import heard_by, say, track
    >>> with heard_by(print):
    ...     say("reading ...")
    ...     total = sum(track([1, 2], "adding"))
    reading ...
    adding: 1 of 2
    adding: 2 of 2
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def track(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items, and show a progress bar on a terminal.

    The bar appears after two seconds, with the time left, and disappears when the work is done.

    Parameters
    ----------
    items : iterable
        The items.
    description : str
        The text of the bar.
    total : int, optional
        The number of items, if ``len(items)`` does not give it.

    Yields
    ------
    The items.

    Examples
    --------
    >>> from softfair.progress import track
    >>> list(track(range(3), "counting"))
    [0, 1, 2]
    """
    rest = iter(items)
    listener = _listener.get()
    if listener is None and not _watched(sys.stderr):
        yield from rest
        return
    if total is None:
        total = length_hint(items) or None  # 0 where the length is not known
    if listener is not None:
        for done, item in enumerate(rest, 1):
            yield item
            if total != 1:  # with one item there is no progress to report
                listener(f"{description}: {done}" + (f" of {total}" if total else ""))
        return
    begun = monotonic()
    done = 0
    for item in rest:
        yield item
        done += 1
        if monotonic() - begun > PATIENCE:
            break
    else:
        return
    if done == total or not _screen.acquire(blocking=False):
        yield from rest
        return
    try:
        # Imported here, because most loops end before this point, and rich is slow to load.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        # Output of the loop is printed above the bar. If stdout is a file, it is not redirected,
        # because rich would send it to the terminal, too.
        console, redirect = Console(stderr=True), _watched(sys.stdout)
        with Progress(*columns, console=console, transient=True, redirect_stdout=redirect) as bar:
            task = bar.add_task(description, total=total, completed=done)
            for item in rest:
                yield item
                bar.advance(task)
    finally:
        _screen.release()


def say(message: str) -> None:
    """Print one line on stderr if it is a terminal, or pass it to the listener.

    Parameters
    ----------
    message : str
        The line, such as "compiling kernels, first use only ...".

    Examples
    --------
    >>> from softfair.progress import say
    >>> say("compiling kernels, first use only ...")
    """
    listener = _listener.get()
    if listener is not None:
        listener(message)
    elif _watched(sys.stderr):
        print(message, file=sys.stderr, flush=True)


def _watched(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal; it is None in a program without a console."""
    return stream is not None and stream.isatty()
