"""Columns about people, besides their history, as numbers that a regression can use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from .border import Floats

__all__ = ["LEAST_WITH_VALUE", "MISSING_VALUE", "MOST_NUMBERS", "Design", "design_of"]

#: The name of a missing value where columns are named.
MISSING_VALUE = "(missing)"
LIKE_NAMES = 20  # if so many people all have different whole numbers, these are like names
MOST_NUMBERS = 500  # the time of a fit grows with the square of this
UNKNOWN = 1e-9  # a smaller number is 0 up to rounding
LEAST_WITH_VALUE = 5  # people who must have a value for it to get a number


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of n people as c numbers of mean 0 and standard deviation 1 each."""

    X: Floats  # [n, c]
    column: tuple[str, ...]  # [c] the column from which each number comes
    value: tuple[str, ...]  # [c] the value that the number stands for; "" if the column is a number
    left_out: tuple[str, ...]  # a sentence for each column that is not used

    def of(self, who: NDArray[np.int64]) -> Design:
        """The design for these people only."""
        X = np.ascontiguousarray(self.X[who])
        return Design(X, self.column, self.value, self.left_out)

    def keep(self, which: NDArray[np.int64]) -> Design:
        """The design with these numbers only."""
        return Design(
            np.ascontiguousarray(self.X[:, which]),
            tuple(self.column[j] for j in which),
            tuple(self.value[j] for j in which),
            self.left_out,
        )

    @property
    def groups(self) -> NDArray[np.int64]:
        """The group [c] of each number: all values of a column are one group."""
        keys = [(name, value != "") for name, value in zip(self.column, self.value, strict=True)]
        order = list(dict.fromkeys(keys))
        return np.array([order.index(key) for key in keys], dtype=np.int64)

    def contrasts(self, people: Floats) -> Floats:
        """Weights of slopes [c, c] from which the effect of each number or value follows.

        For a column that is a number, the effect is the slope itself. For a value of a column, the
        effect compares people who have the value with people who do not. The two differ in the
        numbers of all values of the column; the row holds the differences of the means. ``people``
        [n] is the number of people in each row of X.
        """
        weights = np.eye(len(self.column))
        for j, (column, value) in enumerate(zip(self.column, self.value, strict=True)):
            if not value:
                continue
            # The number of a value is positive for people who have it, and 0 if nothing is known.
            has, has_not = (people * (sign * self.X[:, j] > UNKNOWN) for sign in (1, -1))
            block = np.array([other == column for other in self.column])
            difference = has @ self.X / has.sum() - has_not @ self.X / has_not.sum()
            weights[j] = np.where(block, difference, 0.0)
        return weights


def design_of(columns: Mapping[str, ArrayLike], n: int) -> Design:
    """Numbers from columns. A missing value gets the mean, and another number marks it as missing.

    Raises
    ------
    InvalidInput
        A column does not have one entry for each person.
    """
    numbers: list[tuple[Floats, str, str]] = []
    left_out = []
    for name, column in columns.items():
        values = np.asarray(column)
        if values.shape != (n,):
            raise InvalidInput(
                f"the column {name!r} has shape {values.shape}, the history is about {n} people; "
                "give one entry a person"
            )
        parts = _numbers(values) if values.dtype.kind in "fiub" else _categories(values)
        if isinstance(parts, str):
            left_out.append(f"{name} is not used: {parts}")
            continue
        numbers += [(part, name, value) for value, part in parts.items()]
    if len(numbers) > MOST_NUMBERS:
        left_out = [
            f"no column is used: they make {len(numbers):,} numbers a person, and at most "
            f"{MOST_NUMBERS} can be weighed against each other; leave columns out at import"
        ]
        numbers = []
    X = np.empty((n, len(numbers)))
    for j, (part, _, _) in enumerate(numbers):
        X[:, j] = (part - part.mean()) / part.std()
    return Design(
        X, tuple(name for _, name, _ in numbers), tuple(v for *_, v in numbers), tuple(left_out)
    )


def _numbers(values: NDArray[np.generic]) -> dict[str, Floats] | str:
    """A column of numbers, and a mark of missing entries; or why the column cannot be used."""
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    distinct = len(np.unique(numbers[known]))
    if distinct < 2:
        return "it is the same for everybody"
    if LIKE_NAMES <= distinct == known.sum() and (numbers[known] % 1 == 0).all():
        return "everybody has a whole number of their own, like a name"
    filled = np.where(known, numbers, numbers[known].mean())
    # A value far from the others would dominate the slope; cut at four standard deviations.
    standard = (filled - filled.mean()) / filled.std()
    parts = {"": np.clip(standard, -4, 4)}
    if min(known.sum(), (~known).sum()) >= LEAST_WITH_VALUE:
        parts[MISSING_VALUE] = (~known).astype(np.float64)
    return parts


def _categories(values: NDArray[np.generic]) -> dict[str, Floats] | str:
    """A number for each value that enough people have; or why the column cannot be used.

    People who have none of these values get the mean of each number, as if nothing were known.
    """
    texts = np.array([MISSING_VALUE if v is None or v == "" else str(v) for v in values])
    names, code, count = np.unique(texts, return_inverse=True, return_counts=True)
    if len(names) < 2:
        return "it is the same for everybody"
    if len(names) > len(texts) / 2:
        return "nearly everybody has a value of their own"
    often = np.flatnonzero((count >= LEAST_WITH_VALUE) & (count <= len(texts) - 1))
    if not len(often):
        return "no value is shared by enough people"
    parts = {str(names[j]): (code == j).astype(np.float64) for j in often}
    if len(often) > 1:  # a single value is compared with all others together
        known = np.isin(code, often)
        for part in parts.values():
            part[~known] = part[known].mean()
    return parts
