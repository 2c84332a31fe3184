"""Draws of k arms where each arm brings its own random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput, whole
from ..kernels import draws
from ..kernels.joint import draw_joint_by_luck
from ..kernels.order import clip_decided
from ..kernels.rules import RuleCode
from .asked import Design, design_code, refuse_nan, vector

__all__ = ["draw_by_luck", "race_by_luck", "top_by_luck"]

Floats = NDArray[np.float64]


def draw_by_luck(
    log_weights: ArrayLike,
    k: int,
    luck: NDArray[np.uint64],
    design: Design = "successive",
) -> NDArray[np.int64]:
    """Draw k arms by the design, where each arm brings its own random numbers.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights; infinite entries are allowed.
    k : int
        Number of arms to draw, 0 <= k <= n.
    luck : ndarray of uint64 [n, 2]
        128 random bits of each arm, independent of the weights.
    design : {"successive", "joint"}
        Sampling design, see :mod:`softfair.sampling`.

    Returns
    -------
    ndarray [k]
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput
        A log-weight is not a number, k is not between 0 and n, the design is unknown, or ``luck``
        is not of that shape and type.

    Notes
    -----
    The law is that of :func:`draw`. The arms that are drawn do not depend on the order of the arms
    in the arrays, and an arm that leaves or joins hardly changes which others are drawn.
    ``successive`` is a race of exponential clocks: the second number of an arm sets its clock.
    ``joint`` decides the arms one after another, in the order of their first numbers, by their
    second numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> luck = np.random.default_rng(0).integers(0, 2**64, (4, 2), dtype=np.uint64)
    >>> sf.sampling.draw_by_luck([0.0, 0.0, np.inf, -np.inf], 2, luck, "joint")
    array([1, 2])
    """
    z, code = vector(log_weights).copy(), design_code(design)
    refuse_nan(z)
    n = len(z)
    k = whole("k", k, 0, n, f", the arms are {n}")
    order = _order_of(luck, n)
    clip_decided(z, k, np.empty(n))
    z, uniform = z[order], _unit(luck[order, 1])
    if code is RuleCode.SUCCESSIVE:
        rings = np.empty(n)
        draws.rings_by_luck(z, uniform, rings)
        chosen = _in_order(rings)[:k]  # ties by the first number
    else:
        in_set = np.empty(n, np.uint8)
        draw_joint_by_luck(z, k, uniform, np.empty(n), in_set)
        chosen = np.flatnonzero(in_set)
    return np.sort(order[chosen])


def top_by_luck(scores: ArrayLike, k: int, luck: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The k highest scores, ties broken by the random numbers that each arm brings.

    Parameters
    ----------
    scores : array_like [n]
        The numbers that rank the arms.
    k : int
        Number of arms chosen, 0 <= k <= n.
    luck : ndarray of uint64 [n, 2]
        128 random bits of each arm.

    Returns
    -------
    ndarray [k]
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput
        A score is not a number, k is not between 0 and n, or ``luck`` is not of that shape and
        type.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> luck = np.array([[5, 0], [2, 0], [3, 0]], dtype=np.uint64)
    >>> sf.sampling.top_by_luck([1.0, 1.0, 1.0], 2, luck)
    array([1, 2])
    """
    values = vector(scores)
    refuse_nan(values)
    k = whole("k", k, 0, len(values), f", the arms are {len(values)}")
    order = _order_of(luck, len(values))
    return np.sort(order[np.argsort(-values[order], kind="stable")[:k]])


def race_by_luck(log_weights: ArrayLike, luck: NDArray[np.uint64]) -> NDArray[np.int64]:
    """All arms in the order in which their clocks ring, where each arm brings its random numbers.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights, finite.
    luck : ndarray of uint64 [n, 2]
        128 random bits of each arm, independent of the weights.

    Returns
    -------
    ndarray [n]
        Indices of the arms, beginning with the arm whose clock rings first. The first k of them
        have the law of the design ``successive``.

    Raises
    ------
    InvalidInput
        A log-weight is not a number, or ``luck`` is not of that shape and type.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> luck = np.random.default_rng(0).integers(0, 2**64, (3, 2), dtype=np.uint64)
    >>> sf.sampling.race_by_luck([0.0, 1000.0, 500.0], luck)
    array([1, 2, 0])
    """
    z = vector(log_weights)
    refuse_nan(z)
    order = _order_of(luck, len(z))
    rings = np.empty(len(z))
    draws.rings_by_luck(z[order], _unit(luck[order, 1]), rings)
    return order[_in_order(rings)]


def _order_of(luck: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """The arms in the order of their first numbers, ties by the second [n]."""
    if not isinstance(luck, np.ndarray) or luck.dtype != np.uint64 or luck.shape != (n, 2):
        shape = getattr(luck, "shape", None)
        raise InvalidInput(
            f"luck is {getattr(luck, 'dtype', type(luck).__name__)} of shape {shape}; "
            f"give uint64 of shape ({n}, 2), 128 random bits for each arm"
        )
    order = np.argsort(luck[:, 0])
    if _some_equal(luck[order, 0]):
        return np.lexsort((luck[:, 1], luck[:, 0]))
    return order


def _in_order(values: Floats) -> NDArray[np.int64]:
    """A stable argsort; NumPy's, which takes six times as long, is used only for equal values."""
    order = np.argsort(values)
    return np.argsort(values, kind="stable") if _some_equal(values[order]) else order


def _some_equal(ascending: NDArray[Any]) -> bool:
    return bool((ascending[1:] == ascending[:-1]).any())


def _unit(bits: NDArray[np.uint64]) -> Floats:
    """Numbers in (0, 1), never 0 nor 1, from 64 random bits each: centres of 2^52 cells."""
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
