"""Reserves: the people who are called next, in order, if somebody on the list is not reached.

After the list is drawn, reserves are drawn from the people who are not on it, one after another,
with probability proportional to w among those left. This is the paper's design. So the reserves
have an order, and given the list, the chance to be among the first j reserves is the inclusion
probability of that design, which is exact. Reserves change neither the list nor the chances to be
on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, refuse, whole
from .sampling import inclusion

__all__ = ["chances", "draw"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def draw(log_weights: ArrayLike, listed: ArrayLike, count: int, rng: np.random.Generator) -> Ints:
    """Draw reserves, in the order in which they are to be called.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights of all arms, finite.
    listed : array_like of int
        Indices of the arms on the list.
    count : int
        Number of reserves to draw, at most the number of arms that are not on the list.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray [count]
        Indices of the reserves, in the order in which they are to be called.

    Raises
    ------
    InvalidInput
        A log-weight is not finite, an arm does not exist or is listed twice, or fewer than
        ``count`` arms are left.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> sf.reserves.draw([0.0, 500.0, 1000.0, 0.0], [0], 2, np.random.default_rng(0))
    array([2, 1])
    """
    z, rest, count = _checked(log_weights, listed, count)
    rings = z[rest] + rng.gumbel(size=len(rest))
    return rest[np.argsort(-rings)[:count]]


def chances(log_weights: ArrayLike, listed: ArrayLike, count: int) -> Floats:
    """Probability that each arm is among the first ``count`` reserves, given the list.

    Parameters
    ----------
    log_weights, listed, count
        See :func:`draw`.

    Returns
    -------
    ndarray [n]
        The chances, which sum to ``count``; 0 for arms on the list.

    Raises
    ------
    InvalidInput
        See :func:`draw`.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.reserves.chances([0.0, 0.0, 0.0], [1], 1)
    array([0.5, 0. , 0.5])
    """
    z, rest, count = _checked(log_weights, listed, count)
    out = np.zeros(len(z))
    if len(rest):
        out[rest] = inclusion(z[rest], count, "successive")
    return out


def _checked(log_weights: ArrayLike, listed: ArrayLike, count: int) -> tuple[Floats, Ints, int]:
    """The log-weights, the arms that are not on the list, and the number of reserves, checked."""
    z = np.asarray(log_weights, dtype=np.float64)
    if z.ndim != 1 or not len(z):
        raise InvalidInput(f"log-weights have shape {z.shape}; give one number an arm, n >= 1")
    refuse(~np.isfinite(z), z, "log_weights", "give a finite number for each arm")
    arms, n = np.asarray(listed, dtype=np.int64), len(z)
    refuse((arms < 0) | (arms >= n), arms, "listed", f"give indices between 0 and {n - 1}")
    if len(np.unique(arms)) != arms.size:
        raise InvalidInput("an arm is listed twice; name each once")
    rest = np.setdiff1d(np.arange(n), arms)
    left = f", {len(rest)} arms are not on the list"
    return z, rest, whole("count", count, 0, len(rest), left)
