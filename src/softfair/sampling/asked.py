"""Checks of what callers pass: the design, the multiplier, weights, a generator."""

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
# A larger multiplier counts as infinite: only the order of the scores matters. A weight of evenness
# (mu) is cut to this value.
BEYOND_REACH = 1e100

Floats = NDArray[np.float64]


def multiplier(
    c: float, name: str = "c", hint: str = " (0: everybody alike, inf: the k who gain most)"
) -> float:
    """Check a multiplier, and replace one that is very large by inf, or very small by 0.

    No other function decides whether a finite multiplier counts as infinite, or a positive one as
    0.

    Parameters
    ----------
    c : float
        The multiplier as the caller gave it.
    name : str
        The name of the argument, for the error message.
    hint : str
        Text that the error message adds after "give a number >= 0".

    Returns
    -------
    float
        c; ``math.inf`` for c > 1e100, where only the order of the scores matters and products with
        scores could overflow; 0 for c < 1e-100, where all weights are equal.

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
        The generator from which the key is drawn.

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
    if not hasattr(rng, "integers"):  # any object with this method is accepted
        raise InvalidInput(f"rng is {rng!r}; give a generator, such as np.random.default_rng(seed)")
    return rng.integers(0, 2**64, dtype=np.uint64)


def vector(values: ArrayLike) -> Floats:
    """The values as a contiguous array [n], n >= 1."""
    try:
        floats = np.ascontiguousarray(real_numbers(values))
    except (TypeError, ValueError):
        raise InvalidInput(
            "log-weights are not an array of numbers; give one number an arm"
        ) from None
    if floats.ndim != 1 or not len(floats):
        raise InvalidInput(f"log-weights have shape {floats.shape}; give one number an arm, n >= 1")
    return floats


def refuse_nan(log_weights: Floats) -> None:
    """Raise if a log-weight is not a number; infinities are allowed."""
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(log_weights.sum()):  # one cheap pass in the usual case
            return
    refuse(np.isnan(log_weights), log_weights, "log_weights", "give a number for each arm")
