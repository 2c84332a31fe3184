"""The errors and warnings of the package, and the checks that raise them.

Every message is one line: what is wrong, where, how many, what to do.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "BadRows",
    "ClusterError",
    "Fault",
    "Infeasible",
    "InvalidInput",
    "NotConverged",
    "NotIndexable",
    "SoftFairError",
    "StoreError",
    "Unsure",
    "is_real",
    "real_numbers",
    "refuse",
    "warn",
    "whole",
]

PACKAGE = str(Path(__file__).parent) + os.sep


class SoftFairError(Exception):
    """The base class of every error and warning that softfair raises on purpose.

    Examples
    --------
    >>> import softfair as sf
    >>> try:
    ...     sf.SoftFair(c=-1)
    ... except sf.SoftFairError as error:
    ...     print(error)
    c is -1; give a number >= 0 (0: everybody alike, inf: the k who gain most)
    """

    def __str__(self) -> str:
        # What a caller gave, and a message shows, may have line breaks: an array does.
        return " ".join(line.strip() for line in super().__str__().splitlines())


class InvalidInput(SoftFairError, ValueError):
    """An input that cannot be used.

    The message names the place, counts the bad entries and says what to do.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.sampling.inclusion([0.0, 1.0], k=3)
    Traceback (most recent call last):
        ...
    softfair.errors.InvalidInput: k is 3, the arms are 2; give a whole number between 0 and 2
    """


class Infeasible(InvalidInput):
    """A request that no plan can meet; the message carries the inequality that fails.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.ProbFair(low=0.5).fit(sf.datasets.synthetic(n=10, seed=0), k=2, horizon=5)
    Traceback (most recent call last):
        ...
    softfair.errors.Infeasible: n low <= k, but 10 * 0.5 > 2; take low=0.2 or less, or k=5 or more
    """


class Unsure(InvalidInput):
    """A request that may be a slip; nothing was done.

    To confirm the request, repeat it with ``sure=True``, or with ``--yes`` on the command line.

    Parameters
    ----------
    doubt : str
        What is odd about the request, and what to do if it is a slip.

    Examples
    --------
    >>> from softfair.errors import Unsure
    >>> str(Unsure("round 35 was not planned, the next is 25"))
    'round 35 was not planned, the next is 25; if it is meant so, add --yes; nothing was changed'
    """

    def __init__(self, doubt: str) -> None:
        super().__init__(f"{doubt}; if it is meant so, add --yes; nothing was changed")
        self.doubt = doubt

    def __reduce__(self) -> tuple[type[Unsure], tuple[str]]:
        return type(self), (self.doubt,)


class NotIndexable(InvalidInput):
    """Arms without a Whittle index: their passive set does not grow with the subsidy."""


class StoreError(SoftFairError):
    """A database that cannot be opened, read or written."""


class ClusterError(SoftFairError):
    """Workers that cannot be reached, are gone, or run other software."""


@dataclass(frozen=True)
class Fault:
    """One bad entry of a file.

    Parameters
    ----------
    line : int
        Line of the file, the heading being line 1; for Parquet, the row.
    column : str
        Name of the column, or "".
    value : str
        The entry as it stands in the file.
    problem : str
        What is wrong with the entry, and what to do.

    Examples
    --------
    >>> from softfair.errors import Fault
    >>> print(Fault(3, "p01", "1.2", "is not a probability; give one between 0 and 1"))
    line 3, column p01: '1.2' is not a probability; give one between 0 and 1
    """

    line: int
    column: str
    value: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.value!r} {self.problem}"

    @property
    def place(self) -> str:
        """Line and column, in the words of a message."""
        return f"line {self.line}" + (f", column {self.column}" if self.column else "")


class BadRows(InvalidInput):
    """A file with bad entries, from which nothing was imported.

    Parameters
    ----------
    where : str
        Name of the file.
    faults : list of Fault
        All bad entries, at least one.
    more : bool
        Whether there may be further bad entries.

    Examples
    --------
    >>> from softfair.errors import BadRows, Fault
    >>> error = BadRows("people.csv", [Fault(2, "id", "", "is missing")])
    >>> str(error).split(";")[0]
    'people.csv: 1 bad entry in 1 row, the first in line 2, column id'
    """

    def __init__(self, where: str, faults: list[Fault], more: bool = False) -> None:
        rows = len({fault.line for fault in faults})
        number = "1 bad entry" if len(faults) == 1 else f"{len(faults)} bad entries"
        # The message does not repeat the entry, which may identify a person.
        super().__init__(
            f"{where}: {'at least ' * more}{number} in {rows} row{'s' * (rows > 1)}, "
            f"the first in {faults[0].place}; mend them and import again, nothing was imported"
        )
        self.where, self.faults, self.more = where, faults, more

    def __reduce__(self) -> tuple[type[BadRows], tuple[str, list[Fault], bool]]:
        return type(self), (self.where, self.faults, self.more)


class NotConverged(SoftFairError, UserWarning):
    """A solver stopped short of its tolerance.

    This is a warning; ``warnings.simplefilter("error", softfair.NotConverged)`` turns it into an
    error.

    Parameters
    ----------
    what : str
        What did not converge.
    gap : float
        The residual.
    tolerance : float
        The largest residual that counts as converged.
    remedy : str
        What to do.

    Examples
    --------
    >>> import softfair as sf
    >>> str(sf.NotConverged("values", 0.1, 0.01, "give more episodes"))
    'values: the gap is 0.1, the tolerance 0.01; give more episodes'
    """

    def __init__(self, what: str, gap: float, tolerance: float, remedy: str) -> None:
        super().__init__(f"{what}: the gap is {gap:.3g}, the tolerance {tolerance:.3g}; {remedy}")
        self.gap = gap
        self.tolerance = tolerance
        self._args = (what, gap, tolerance, remedy)

    def __reduce__(self) -> tuple[type[NotConverged], tuple[str, float, float, str]]:
        # On unpickling, Exception.__reduce__ would call __init__ with the message only.
        return type(self), self._args


def warn(message: Warning | str) -> None:
    """Issue a warning that points at the nearest caller outside the package.

    Parameters
    ----------
    message : Warning or str
        The warning; a str becomes a UserWarning.

    Examples
    --------
    >>> import warnings
    >>> from softfair.errors import warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("values are rough")
    >>> caught[0].message
    UserWarning('values are rough')
    """
    # `skip_file_prefixes` of warnings.warn does this from Python 3.12 on.
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def real_numbers(values: ArrayLike) -> NDArray[np.float64]:
    """The values as float64, if they are real numbers.

    Parameters
    ----------
    values : array_like
        The values as the caller gave them.

    Returns
    -------
    ndarray of float64
        ``values`` itself if it is such an array.

    Raises
    ------
    TypeError, ValueError
        The values are not real numbers: conversion would fail, drop a mask or an imaginary part, or
        turn dates, bytes or records into numbers.

    Examples
    --------
    >>> from softfair.errors import real_numbers
    >>> real_numbers([1, 2])
    array([1., 2.])
    """
    import numpy as np

    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise TypeError("some values are masked")
    array = np.asarray(values)
    if array.dtype.kind in "cmMSV":
        raise TypeError(f"values are {array.dtype}")
    try:
        return array.astype(np.float64, copy=False)
    except OverflowError:
        raise ValueError("a number has more than 308 digits") from None


def is_real(value: object) -> bool:
    """Whether a value is a real number; NumPy's durations claim to be, but are not.

    Parameters
    ----------
    value : object
        What the caller gave.

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.errors import is_real
    >>> is_real(np.float32(2)), is_real(np.timedelta64(2, "s"))
    (True, False)
    """
    return isinstance(value, numbers.Real) and type(value).__name__ != "timedelta64"


def refuse(bad: NDArray[np.bool_], values: NDArray[Any], name: str, remedy: str) -> None:
    """Raise if an entry is bad; the message has the first place, the number and the remedy.

    Parameters
    ----------
    bad : ndarray of bool
        Whether each entry is bad.
    values : ndarray, shape of bad
        The entries.
    name : str
        The name of the array for the caller.
    remedy : str
        What to do.

    Raises
    ------
    InvalidInput
        An entry is bad.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.errors import refuse
    >>> p = np.array([0.5, 1.5])
    >>> refuse(p > 1, p, "p", "give p <= 1")
    Traceback (most recent call last):
        ...
    softfair.errors.InvalidInput: p[1] is 1.5 (1 of 2 entries are wrong); give p <= 1
    """
    if not bad.any():
        return
    place = tuple(int(axis[0]) for axis in bad.nonzero())
    where = ", ".join(map(str, place))
    raise InvalidInput(
        f"{name}[{where}] is {values[place]} "
        f"({bad.sum()} of {bad.size} entries are wrong); {remedy}"
    )


def whole(name: str, value: Any, least: int, most: int | None = None, beside: str = "") -> int:
    """The value as an int, if it is a whole number of any type within the bounds.

    Parameters
    ----------
    name : str
        The name of the value for the caller.
    value : Any
        The value as the caller gave it.
    least, most : int
        The bounds; None means that there is no upper bound.
    beside : str
        Further text for the message.

    Returns
    -------
    int

    Raises
    ------
    InvalidInput
        The value is not a whole number, or is outside the bounds.

    Examples
    --------
    >>> from softfair.errors import whole
    >>> whole("k", 3.0, 0)
    3
    >>> whole("k", 11, 0, 10, ", the arms are 10")
    Traceback (most recent call last):
        ...
    softfair.errors.InvalidInput: k is 11, the arms are 10; give a whole number between 0 and 10
    """
    upper = math.inf if most is None else most
    if not is_real(value) or not least <= value <= upper or value % 1 != 0:  # inf % 1 is nan
        bounds = f"of at least {least}" if most is None else f"between {least} and {most}"
        raise InvalidInput(f"{name} is {value!r}{beside}; give a whole number {bounds}")
    return int(value)
