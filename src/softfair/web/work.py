"""Long work: a request begins it, a thread does it, and a page reports on it until it is done.

A request waits some moments for its work (`PATIENCE`). If the work takes longer, the answer is a
page that says how far it is and asks again, with scripts or without. Other pages are answered
meanwhile.

Results that are only shown stay in the process that made them (`memory.Memory`). Work that writes
is a job. A file in the folder that all processes of a server share reports on the job, so that any
process can answer. The file is rewritten every second; if it is older than `SILENCE`, the process
that did the work counts as gone. Its transaction is then in the database whole or not at all, as
with a command that was killed.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ..errors import InvalidInput, SoftFairError
from ..for_json import read_json
from ..progress import heard_by

__all__ = ["PATIENCE", "Finished", "Job", "Jobs", "StillWorking", "Task"]

Result = TypeVar("Result")

PATIENCE = 2.0  # seconds that a request waits for its work
BEAT = 1.0  # seconds between two signs of life of a job
SILENCE = 30.0  # seconds without a sign of life, after which the worker counts as gone

log = logging.getLogger("uvicorn.error")


class StillWorking(Exception):
    """The work that a request waits for is not finished.

    Parameters
    ----------
    said
        How far it is.
    seconds
        Seconds since the work was begun.
    """

    def __init__(self, said: str, seconds: float) -> None:
        super().__init__(said)
        self.said, self.seconds = said, int(seconds)

    @property
    def share(self) -> float | None:
        """The share of the loop under way that is done; None: it is not known."""
        counted = re.search(r": (\d+) of (\d+)$", self.said)
        return None if counted is None else int(counted[1]) / max(int(counted[2]), 1)


class Task(Generic[Result]):
    """A function that is called in a thread of its own.

    Parameters
    ----------
    make
        The function.
    said
        A line on what the function does, until it reports how far it is.
    """

    def __init__(self, make: Callable[[], Result], said: str = "working ...") -> None:
        self.said = said
        self.begun = time.monotonic()
        self._ended = threading.Event()
        self._results: list[Result] = []
        self._error: BaseException | None = None
        # A server that ends does not wait for this thread: what it writes is whole or not there.
        threading.Thread(target=self._run, args=(make,), daemon=True).start()

    def _run(self, make: Callable[[], Result]) -> None:
        with heard_by(self._hear):
            try:
                self._results.append(make())
            except BaseException as error:  # raised again in the thread that waits
                self._error = error
            finally:
                self._ended.set()

    def _hear(self, line: str) -> None:
        self.said = line

    @property
    def ended(self) -> bool:
        """Whether the function has returned or raised."""
        return self._ended.is_set()

    def result(self, patience: float | None = None) -> Result:
        """The result of the function; an exception of the function is raised here.

        Parameters
        ----------
        patience
            Seconds to wait; None: as long as it takes.

        Raises
        ------
        StillWorking
            If the function takes longer.
        """
        if not self._ended.wait(patience):
            raise StillWorking(self.said, time.monotonic() - self.begun)
        if self._error is not None:
            raise self._error
        return self._results[0]


@dataclass(frozen=True)
class Finished:
    """The result of a job, for the person who began it."""

    title: str
    lines: tuple[str, ...] = ()
    address: str = ""  # the page to show next; empty: the result has a page of its own
    wrong: bool = False


@dataclass(frozen=True)
class Job:
    """How far a job is."""

    said: str
    seconds: int
    finished: Finished | None  # the result; None: not finished


class Jobs:
    """The jobs of a server.

    Parameters
    ----------
    folder
        The folder in which all processes of the server report on jobs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(
        self, who: str, back: str, make: Callable[[], Finished], patience: float
    ) -> tuple[str, Finished | None]:
        """Begin a job; returns its key, and its result if it ends within ``patience``.

        Parameters
        ----------
        who
            The account that begins it; no other account may look at it.
        back
            The address of the page to show next if it fails.
        make
            The work.
        patience
            Seconds to wait for it.

        Raises
        ------
        SoftFairError
            If it fails within that time.
        """
        task, key = Task(make), secrets.token_hex(16)
        with suppress(StillWorking):
            return key, task.result(patience)
        self._tell(key, who, task.said, 0, None)
        threading.Thread(target=self._watch, args=(key, who, back, task), daemon=True).start()
        return key, None

    def _watch(self, key: str, who: str, back: str, task: Task[Finished]) -> None:
        while True:
            seconds, finished = int(time.monotonic() - task.begun), None
            try:
                finished = task.result(BEAT)
            except StillWorking:
                pass
            except SoftFairError as error:
                finished = Finished("That did not work", (str(error),), back, wrong=True)
            except Exception:
                log.exception("a job failed")
                said = "Something went wrong that should not have; nothing was written."
                finished = Finished("That did not work", (said,), back, wrong=True)
            self._tell(key, who, task.said, seconds, finished)
            if finished is not None:
                return

    def _tell(self, key: str, who: str, said: str, seconds: int, finished: Finished | None) -> None:
        told = {"who": who, "said": said, "seconds": seconds}
        told["finished"] = None if finished is None else asdict(finished)
        new = self.folder / f"{key}.new"
        handle = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump(told, file)
        os.replace(new, self.folder / f"{key}.job")

    def look(self, who: str, key: str) -> Job:
        """How far a job is.

        Parameters
        ----------
        who
            The account that asks.
        key
            Of the job.

        Raises
        ------
        InvalidInput
            If the job is not known, is somebody else's, or its process is gone.
        """
        gone = InvalidInput(
            "the server that did this work has ended; the work is done whole or not at all, and "
            "the log tells which: if it is not there, begin again"
        )
        if not re.fullmatch("[0-9a-f]{32}", key):
            raise gone
        try:
            path = self.folder / f"{key}.job"
            told, silent = read_json(path.read_text()), time.time() - path.stat().st_mtime
        except FileNotFoundError:
            raise gone from None
        if told["who"] != who or (told["finished"] is None and silent > SILENCE):
            raise gone
        finished = told["finished"]
        if finished is not None:
            finished = Finished(**{**finished, "lines": tuple(finished["lines"])})
        return Job(told["said"], told["seconds"], finished)
