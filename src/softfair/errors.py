"""What can be wrong with an input or a result, said with place, count and remedy.

Every message is one line: what is wrong, where, how many, what to do. Doubt is typed and carries its number.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BadRows",
    "Fault",
    "Infeasible",
    "InvalidInput",
    "NotConverged",
    "NotIndexable",
    "SoftFairError",
    "StoreError",
    "refuse",
    "whole",
]


class SoftFairError(Exception):
    """The root of every error and warning that softfair raises on purpose."""


class InvalidInput(SoftFairError, ValueError):
    """An input that cannot be used; the message names the place, counts the offenders and says what to do."""


class Infeasible(InvalidInput):
    """A request that no plan can meet; the message carries the inequality that fails."""


class NotIndexable(InvalidInput):
    """Arms without a Whittle index: their passive set does not grow with the subsidy."""


class StoreError(SoftFairError):
    """A database that cannot be opened, read or written."""


@dataclass(frozen=True)
class Fault:
    """One bad entry of a file."""

    line: int  # as an editor counts them, the heading being line 1; for Parquet, the row
    column: str
    value: str
    problem: str  # and what to do

    def __str__(self) -> str:
        return (
            f"line {self.line}"
            + (f", column {self.column}" if self.column else "")
            + f": {self.value!r} {self.problem}"
        )


class BadRows(InvalidInput):
    """A file with bad entries, all of them in ``faults``; nothing of it was imported."""

    def __init__(self, where: str, faults: list[Fault]) -> None:
        lines = len({fault.line for fault in faults})
        place = f"line {faults[0].line}" + (
            f", column {faults[0].column}" if faults[0].column else ""
        )
        super().__init__(  # without the entry itself, which may be a person's identifier
            f"{where}: {len(faults)} bad entries in {lines} rows, the first in {place}; mend them and import again, nothing was imported"
        )
        self.where, self.faults = where, faults

    def __reduce__(self) -> tuple[type[BadRows], tuple[str, list[Fault]]]:
        return type(self), (self.where, self.faults)


class NotConverged(SoftFairError, UserWarning):
    """A solver stopped short of its tolerance. It is issued as a warning; turn it into an error with
    ``warnings.simplefilter("error", softfair.NotConverged)``."""

    def __init__(self, what: str, gap: float, tolerance: float, remedy: str) -> None:
        super().__init__(f"{what}: the gap is {gap:.3g}, the tolerance {tolerance:.3g}; {remedy}")
        self.gap = gap
        self.tolerance = tolerance
        self._args = (what, gap, tolerance, remedy)

    def __reduce__(self) -> tuple[type[NotConverged], tuple[str, float, float, str]]:
        return type(
            self
        ), self._args  # a warning raised in a worker process must survive the trip home


def refuse(bad: NDArray[np.bool_], values: NDArray[Any], name: str, remedy: str) -> None:
    """Raise if any entry is bad: the first place, how many there are, what to do."""
    if not bad.any():
        return
    place = tuple(int(axis[0]) for axis in bad.nonzero())
    where = ", ".join(map(str, place))
    raise InvalidInput(
        f"{name}[{where}] is {values[place]} ({bad.sum()} of {bad.size} entries are wrong); {remedy}"
    )


def whole(name: str, value: Any, least: int, most: int | None = None, beside: str = "") -> int:
    """The value as an int, if it is a whole number of any type within the bounds; ``beside`` is what else the message should say."""
    number = isinstance(value, numbers.Real)
    if (
        not number or not least <= value <= (math.inf if most is None else most) or value % 1 != 0
    ):  # inf % 1 is no number
        bounds = f"of at least {least}" if most is None else f"between {least} and {most}"
        raise InvalidInput(f"{name} is {value!r}{beside}; give a whole number {bounds}")
    return int(value)
