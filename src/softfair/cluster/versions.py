"""Versions that decide the last bits of a result: a session and its workers have the same."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from ..errors import ClusterError

__all__ = ["refuse_other_software", "software"]


@cache
def software() -> str:
    """Versions of this package and of those it computes with, on which the last bits depend."""
    return ", ".join(f"{name} {version(name)}" for name in ("softfair", "numba", "numpy"))


def refuse_other_software(stamp: str) -> None:
    """Raise an error unless this process and the session have the same software.

    Parameters
    ----------
    stamp : str
        The result of :func:`software` in the session.

    Raises
    ------
    ClusterError
        This process has other versions.
    """
    if stamp != software():
        raise ClusterError(
            f"a worker has {software()}, this session {stamp}; install the same on both"
        )
