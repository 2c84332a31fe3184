"""What callers ask for, checked: the design, the multiplier, weights, a source of luck."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput, is_real, real_numbers, refuse
from ..kernels.rules import RuleCode

__all__ = [
    "BEYOND_REACH",
    "DESIGNS",
    "Design",
    "design_code",
    "multiplier",
    "new_key",
    "refuse_nan",
    "vector",
]

Design = Literal["successive", "joint"]
DESIGNS = {"successive": RuleCode.SUCCESSIVE, "joint": RuleCode.JOINT}
# From this multiplier on, any two scores that differ are decided by rank; a weight of evenness (mu)
# counts for no more.
BEYOND_REACH = 1e100

Floats = NDArray[np.float64]


def multiplier(
    c: float, name: str = "c", hint: str = " (0: everybody alike, inf: the k who gain most)"
) -> float:
    """Check a multiplier, and return ``math.inf`` if it counts as infinite.

    This is the only place that decides whether a finite multiplier counts as infinite, or a
    positive one as 0.

    Parameters
    ----------
    c : float
        The multiplier as the caller gave it.
    name : str
        What the error message calls it.
    hint : str
        What the error message adds after "give a number >= 0".

    Returns
    -------
    float
        c; ``math.inf`` for c > 1e100: scores that differ are then ordered by rank alone, and
        products with scores could overflow; 0 for c < 1e-100, which makes no weights differ.

    Raises
    ------
    InvalidInput
        c is not a number >= 0.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.sampling.multiplier(10), sf.sampling.multiplier(1e200)
    (10.0, inf)
    """
    if not is_real(c) or not c >= 0:
        raise InvalidInput(f"{name} is {c!r}; give a number >= 0{hint}")
    try:
        value = float(c)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf
    if value < 1 / BEYOND_REACH:
        return 0.0
    return math.inf if value > BEYOND_REACH else value


def design_code(design: str) -> RuleCode:
    """The code of a design by its name.

    Parameters
    ----------
    design : str
        "successive" or "joint".

    Returns
    -------
    RuleCode
        SUCCESSIVE or JOINT.

    Raises
    ------
    InvalidInput
        There is no such design.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.sampling.design_code("joint").name
    'JOINT'
    """
    if design not in DESIGNS:
        raise InvalidInput(f"design is {design!r}; choose one of {', '.join(map(repr, DESIGNS))}")
    return DESIGNS[design]


def new_key(rng: np.random.Generator) -> np.uint64:
    """A key for the counter-based random numbers of the kernels.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the key is drawn from.

    Returns
    -------
    numpy.uint64
        64 random bits.

    Raises
    ------
    InvalidInput
        ``rng`` has no method ``integers``.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> sf.sampling.new_key(np.random.default_rng(0)).dtype
    dtype('uint64')
    """
    if not hasattr(rng, "integers"):  # anything that draws like a generator will do
        raise InvalidInput(f"rng is {rng!r}; give a generator, such as np.random.default_rng(seed)")
    return rng.integers(0, 2**64, dtype=np.uint64)


def vector(values: ArrayLike) -> Floats:
    """The values as a contiguous array [n], n >= 1."""
    try:
        given = np.ascontiguousarray(real_numbers(values))
    except (TypeError, ValueError):
        raise InvalidInput(
            "log-weights are not an array of numbers; give one number an arm"
        ) from None
    if given.ndim != 1 or not len(given):
        raise InvalidInput(f"log-weights have shape {given.shape}; give one number an arm, n >= 1")
    return given


def refuse_nan(given: Floats) -> None:
    """Raise if a value is not a number; infinities are allowed."""
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(given.sum()):  # one cheap pass in the usual case
            return
    refuse(np.isnan(given), given, "log_weights", "give a number for each arm")
