"""Fitted policies from a file."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
from functools import cache
from pathlib import Path

import numpy as np

from .. import cohort, shards, solvers
from ..errors import InvalidInput
from ..kernels import rules
from ..saving import read
from .base import Fitted, Policy

__all__ = ["load"]


def load(path: str | Path) -> Fitted:
    """Read a fitted policy that ``fitted.save`` wrote.

    Parameters
    ----------
    path : str or Path
        The file. It may come from anybody: reading it runs no code from it.

    Returns
    -------
    Fitted
        A policy whose answers equal those of the saved policy to the last digit.

    Raises
    ------
    InvalidInput
        There is no such file, or the file is of another kind, newer than this software, or damaged.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.load("model")
    Traceback (most recent call last):
        ...
    softfair.errors.InvalidInput: cannot read model: No such file or directory; give a saved policy
    """
    fitted = read(path, _classes())
    try:
        if not isinstance(fitted, Fitted):
            raise ValueError(f"it holds a {type(fitted).__name__}")
        fitted.scores(0, np.zeros(fitted.cohort.n, np.int64))
    except Exception as error:  # a damaged file can fail in any way
        reason = " ".join(str(error).split())[:80]
        raise InvalidInput(
            f"{Path(path).name} is damaged ({reason}); "
            "copy it again from where it came, or fit and save anew"
        ) from None
    return fitted


@cache
def _classes() -> dict[str, type]:
    """The classes that a saved policy is made of, by name."""
    rooms = (__package__, solvers.__name__, cohort.__name__, shards.__name__, rules.__name__)
    classes: dict[str, type] = {}
    for name, module in list(sys.modules.items()):
        if module is None or not any(name == room or name.startswith(f"{room}.") for room in rooms):
            continue
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == name and _is_plain(kind):
                assert classes.setdefault(kind.__name__, kind) is kind  # no two share a name
    return classes


def _is_plain(kind: type) -> bool:
    """Whether a class only holds data, so that making an instance has no other effect."""
    return dataclasses.is_dataclass(kind) or issubclass(kind, (Fitted, Policy, enum.IntEnum))
