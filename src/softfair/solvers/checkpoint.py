"""Finished passes over a cohort in files, kept on disk so that an interrupted fit can go on.

A search is a pure function of the results of its passes. The results of finished passes are kept in
one small file, each under its theta. If a search needs a pass at a theta that is in the file, it
reads the result from there; so it comes to the same result as a search that was never interrupted.
The file is written whole after every pass, and removed when the search is over. It lies in
``$XDG_CACHE_HOME/softfair`` (by default ``~/.cache/softfair``); its name depends on the files of
the cohort, the setting and the software.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cluster import software
from ..cohort import Cohort
from ..errors import InvalidInput
from ..files import write_own
from ..progress import say
from ..shards import ShardedCohort

__all__ = ["Passes"]

Floats = NDArray[np.float64]


class Passes:
    """The results of finished passes, by theta.

    Parameters
    ----------
    path : Path, optional
        The file; with None, results are kept in memory only.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.solvers.checkpoint import Passes
    >>> Passes(None)(np.zeros(3), lambda: np.ones((2, 4))).sum()
    np.float64(8.0)
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._done: dict[str, str] = {}  # theta -> result of its pass, both as hexadecimal bytes
        if path is None:
            return
        try:
            self._done = dict(json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return  # absent or damaged: every pass is made
        say(f"softfair: going on after {len(self._done)} finished passes, see {path}")

    @classmethod
    def of(cls, cohort: Cohort, setting: tuple[Any, ...]) -> Passes:
        """The finished passes of a search; with a file only if the cohort is in files.

        Passes over a cohort in memory take seconds, so that a file would be of no use.
        """
        if not isinstance(cohort, ShardedCohort):
            return cls(None)
        about = repr((cohort.shards[0].key[0], cohort.n, setting, software())).encode()
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softfair"
        return cls(folder / f"fit-{hashlib.sha256(about).hexdigest()[:16]}.json")

    def __call__(self, theta: Floats, make: Callable[[], Floats]) -> Floats:
        """The result [2, T + 1] of the pass at theta, from the file or from ``make``."""
        key = theta.tobytes().hex()
        if key not in self._done:
            result = np.ascontiguousarray(make())
            self._done[key] = result.tobytes().hex()
            self._write()
        return np.frombuffer(bytes.fromhex(self._done[key])).reshape(2, -1)

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            write_own(self._path, json.dumps(self._done).encode())
        except InvalidInput as error:
            say(f"softfair: an interrupted fit would begin anew: {error}")
            self._path = None

    def forget(self) -> None:
        """Remove the file: the search is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
