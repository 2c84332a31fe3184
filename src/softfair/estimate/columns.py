"""What is known of people besides their history, as numbers that a regression can use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from .border import Floats

__all__ = ["LEAST_WITH_VALUE", "MISSING_VALUE", "MOST_NUMBERS", "Design", "design_of"]

#: What a missing value is called where columns are named.
MISSING_VALUE = "(missing)"
LIKE_NAMES = 20  # people with different whole numbers: a telephone number, not an age
MOST_NUMBERS = 500  # the time of a fit grows with the square of this
UNKNOWN = 1e-9  # a number of mean 0 up to rounding
LEAST_WITH_VALUE = 5  # people whom a value must have to be told apart from the rest


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of n people as numbers of mean 0 and standard deviation 1."""

    X: Floats  # [n, c]
    column: tuple[str, ...]  # [c] the column that each came from
    value: tuple[str, ...]  # [c] the value that it stands for; "": it is the number itself
    left_out: tuple[str, ...]  # why a column is not used, a sentence for each

    def of(self, who: NDArray[np.int64]) -> Design:
        """The numbers of these people."""
        X = np.ascontiguousarray(self.X[who])
        return Design(X, self.column, self.value, self.left_out)

    def keep(self, which: NDArray[np.int64]) -> Design:
        """Some of the numbers only."""
        return Design(
            np.ascontiguousarray(self.X[:, which]),
            tuple(self.column[j] for j in which),
            tuple(self.value[j] for j in which),
            self.left_out,
        )

    @property
    def groups(self) -> NDArray[np.int64]:
        """The group [c] of each number: the values of a column are one, a number is by itself."""
        named = [(name, value != "") for name, value in zip(self.column, self.value, strict=True)]
        order = list(dict.fromkeys(named))
        return np.array([order.index(one) for one in named], dtype=np.int64)

    def contrasts(self, people: Floats) -> Floats:
        """How each number, or value of a column, differs from the rest: weights of slopes [c, c].

        For a number that is its own slope. Who has a value differs from who has not in the number
        of every value of the column; the row has these differences, ``people`` [n] being how many
        people are in each row of X.
        """
        weights = np.eye(len(self.column))
        for j, (column, value) in enumerate(zip(self.column, self.value, strict=True)):
            if not value:
                continue
            # A value's number is positive for who has it, and 0 where nothing is known.
            has, has_not = (people * (sign * self.X[:, j] > UNKNOWN) for sign in (1, -1))
            block = np.array([other == column for other in self.column])
            apart = has @ self.X / has.sum() - has_not @ self.X / has_not.sum()
            weights[j] = np.where(block, apart, 0.0)
        return weights


def design_of(columns: Mapping[str, ArrayLike], n: int) -> Design:
    """Numbers from columns; a missing value gets the mean, and a column of its own says so.

    Raises
    ------
    InvalidInput
        If a column does not have one entry a person.
    """
    made: list[tuple[Floats, str, str]] = []
    left_out = []
    for name, given in columns.items():
        values = np.asarray(given)
        if values.shape != (n,):
            raise InvalidInput(
                f"the column {name!r} has shape {values.shape}, the history is about {n} people; "
                "give one entry a person"
            )
        parts = _numbers(values) if values.dtype.kind in "fiub" else _categories(values)
        if isinstance(parts, str):
            left_out.append(f"{name} is not used: {parts}")
            continue
        made += [(part, name, value) for value, part in parts.items()]
    if len(made) > MOST_NUMBERS:
        left_out = [
            f"no column is used: they make {len(made):,} numbers a person, and at most "
            f"{MOST_NUMBERS} can be weighed against each other; leave columns out at import"
        ]
        made = []
    X = np.empty((n, len(made)))
    for j, (part, _, _) in enumerate(made):
        X[:, j] = (part - part.mean()) / part.std()
    return Design(
        X, tuple(name for _, name, _ in made), tuple(v for *_, v in made), tuple(left_out)
    )


def _numbers(values: NDArray[np.generic]) -> dict[str, Floats] | str:
    """A column of numbers, and where it is missing; or why it cannot be used."""
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    distinct = len(np.unique(numbers[known]))
    if distinct < 2:
        return "it is the same for everybody"
    if LIKE_NAMES <= distinct == known.sum() and (numbers[known] % 1 == 0).all():
        return "everybody has a whole number of their own, like a name"
    filled = np.where(known, numbers, numbers[known].mean())
    # Far-away values would move everything; beyond four standard deviations they are cut.
    apart = (filled - filled.mean()) / filled.std()
    parts = {"": np.clip(apart, -4, 4)}
    if min(known.sum(), (~known).sum()) >= LEAST_WITH_VALUE:
        parts[MISSING_VALUE] = (~known).astype(np.float64)
    return parts


def _categories(values: NDArray[np.generic]) -> dict[str, Floats] | str:
    """A column a value that enough people have; or why it cannot be used.

    Who has none of these values has the mean of each column, as if nothing were known.
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
    if len(often) > 1:  # a single one is told apart from all others together
        known = np.isin(code, often)
        for part in parts.values():
            part[~known] = part[known].mean()
    return parts
