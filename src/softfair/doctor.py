"""The findings of ``softfair doctor``: versions, threads, compiled code, the database."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from .errors import SoftFairError

__all__ = ["Finding", "examine"]

NEEDED = ("numpy", "numba", "scipy", "pandas", "pyarrow", "sqlalchemy", "matplotlib", "narwhals")
# Module -> extra that installs it.
EXTRAS = {"gymnasium": "gym", "psycopg": "postgresql", "fastapi": "web"}


class Finding(NamedTuple):
    """A fact about the installation, and whether it is as it should be."""

    what: str
    found: str
    well: bool


def examine(db: str | None) -> list[Finding]:
    """Examine everything that softfair needs.

    Parameters
    ----------
    db : str, optional
        A database to examine as well.

    Returns
    -------
    list of Finding
    """
    facts = [*_versions(), *_extras(), _threads(), _cache(), _output()]
    return facts if db is None else [*facts, _database(db)]


def _versions() -> Iterator[Finding]:
    yield Finding("softfair", version("softfair"), True)
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("Python", python, sys.version_info >= (3, 11))
    for name in NEEDED:
        try:
            yield Finding(name, version(name), True)
        except PackageNotFoundError:
            yield Finding(name, f"missing; pip install {name}", False)


def _extras() -> Iterator[Finding]:
    for name, extra in EXTRAS.items():
        try:
            yield Finding(name, version(name), True)
        except PackageNotFoundError:
            remedy = f'not installed; if you need it, pip install "softfair[{extra}]"'
            yield Finding(name, remedy, True)


def _threads() -> Finding:
    from .kernels.threads import get_threads

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding("threads", f"{get_threads()} of {cores} cores", True)


def _cache() -> Finding:
    """The folder of compiled kernels, which must be writable to avoid compiling at every start."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "kernels")
    kept = sum(1 for _ in folder.rglob("*.nbc")) if folder.is_dir() else 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = f"{folder} cannot be written ({error.strerror}); set NUMBA_CACHE_DIR"
        return Finding("compiled code", remedy, False)
    return Finding("compiled code", f"{kept} kernels kept in {folder}", True)


def _output() -> Finding:
    encoding = sys.stdout.encoding or "ascii"
    place = "a terminal" if sys.stdout.isatty() else "not a terminal"
    return Finding("output", f"{encoding}, {place}", True)


def _database(db: str) -> Finding:
    from .programme.schema import VERSION
    from .programme.store import Store

    try:
        store = Store(db)
        schema = store.version()
    except SoftFairError as error:
        return Finding("database", str(error), False)
    if schema is None:
        return Finding("database", f"{store.name}: no programme yet; softfair init makes one", True)
    if schema > VERSION:
        problem = f"has schema {schema}, this softfair knows up to {VERSION}; upgrade it"
        return Finding("database", f"{store.name}: {problem}", False)
    return Finding("database", f"{store.name}: reachable, holds a programme", True)
