"""What a person at a terminal sees of long work; everybody else (a pipe, a log, a worker process) sees nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from operator import length_hint
from time import monotonic
from typing import TextIO, TypeVar

__all__ = ["say", "track"]

Item = TypeVar("Item")

PATIENCE = 2.0  # seconds of work that need no bar

_screen = threading.Lock()  # one bar at a time: of nested loops, the one that shows first


def track(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items; once that has taken over two seconds, show a bar with the time left, gone when the work is done.

    ``total`` is how many there will be, where ``len(items)`` cannot tell.
    """
    rest = iter(items)
    if not _watched(sys.stderr):
        yield from rest
        return
    if total is None:
        total = length_hint(items) or None  # 0 is what an iterable says that does not know
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
        # Here and not above: most work is over before this, and rich takes its time to load.
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
        # What the loop prints goes above the bar, unless it goes to a file: rich would divert that to the terminal too.
        console, redirect = Console(stderr=True), _watched(sys.stdout)
        with Progress(*columns, console=console, transient=True, redirect_stdout=redirect) as bar:
            task = bar.add_task(description, total=total, completed=done)
            for item in rest:
                yield item
                bar.advance(task)
    finally:
        _screen.release()


def say(message: str) -> None:
    """One line on stderr, such as "compiling kernels, first use only ..."."""
    if _watched(sys.stderr):
        print(message, file=sys.stderr, flush=True)


def _watched(stream: TextIO | None) -> bool:
    """Whether a person looks at it; in a program without a console it is None."""
    return stream is not None and stream.isatty()
