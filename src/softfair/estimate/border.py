"""Checks of the arguments of the estimate; code that these functions call does not check again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput, refuse

__all__ = [
    "Floats",
    "Groups",
    "Ints",
    "check_classes",
    "check_counts",
    "check_groups",
    "check_level",
    "whole_column",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each person, and the number of groups (some groups may have no person)."""

    code: Ints  # [n], from 0 to G - 1
    G: int


def whole_column(name: str, values: ArrayLike) -> Ints:
    """A column [m] of whole numbers; an empty column may have any type."""
    column = np.asarray(values)
    if column.ndim != 1 or (column.dtype.kind not in "biu" and column.size):
        raise InvalidInput(
            f"{name} has shape {column.shape} and type {column.dtype}; "
            "give a column of whole numbers, -1 where missing"
        )
    return column.astype(np.int64, copy=False)


def check_counts(counts: ArrayLike) -> Ints:
    """The counts [n, 2, S, S] as whole numbers of at least 0."""
    moves = np.asarray(counts)
    shape = moves.shape
    if moves.ndim != 4 or shape[1] != 2 or shape[2] != shape[3] or shape[2] < 2 or not shape[0]:
        raise InvalidInput(
            f"counts has shape {shape}, expected (n, 2, S, S) with n >= 1 and S >= 2: "
            "what count_transitions gives"
        )
    if moves.dtype.kind not in "iu":
        raise InvalidInput(
            f"counts has type {moves.dtype}; "
            "give whole numbers of moves: what count_transitions gives"
        )
    refuse(moves < 0, moves, "counts", "give numbers of moves, at least 0")
    return moves.astype(np.int64, copy=False)


def check_groups(groups: ArrayLike | None, n: int) -> Groups:
    """The groups of n persons; None means that all are one group."""
    if groups is None:
        return Groups(np.zeros(n, np.int64), 1)
    code = whole_column("groups", groups)
    if code.shape != (n,):
        raise InvalidInput(
            f"groups has shape {code.shape}, counts is about {n} persons; give one code a person"
        )
    refuse(
        code < 0,
        code,
        "groups",
        "give codes 0, 1, ...; let those without a group be a group of their own",
    )
    return Groups(code, int(code.max()) + 1)


def check_level(level: float) -> float:
    """The level of the intervals, strictly between 0 and 1."""
    if not (isinstance(level, (int, float, np.floating)) and 0 < level < 1):
        raise InvalidInput(
            f"level is {level!r}; "
            "give the share that intervals should cover, between 0 and 1, such as 0.9"
        )
    return float(level)


def check_classes(classes: int | None, n: int) -> int | None:
    """The number of classes, from 1 to n, or None."""
    if classes is not None and (
        not isinstance(classes, (int, np.integer)) or not 1 <= classes <= n
    ):
        raise InvalidInput(
            f"classes is {classes!r}; give a whole number from 1 to {n} (the number of persons), "
            "or None to have it learnt"
        )
    return classes
