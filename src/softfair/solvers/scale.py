"""The scale of a cohort: the range of its rewards, the largest gain, the arms that k pays for."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cohort import Cohort

__all__ = ["in_arms", "most_gain", "reward_range"]

Floats = NDArray[np.float64]


def most_gain(cohort: Cohort, horizon: int) -> float:
    """A bound on the size of every arm's gain, positive or negative, at any prices.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    horizon : int
        Number of steps T.

    Returns
    -------
    float
        T times the range of the rewards, plus the largest worth of help at once: an arm in a bad
        state can be helped as if it were in a good state, at the same prices. If arms have costs,
        the bound is for the cost of an average arm, here and in :func:`reward_range`.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.scale import most_gain
    >>> most_gain(sf.datasets.synthetic(n=5, seed=0), 10)
    10.0
    """
    rows = cohort.per_cost.reward_rows
    at_once = rows[:, -1] - rows[:, 0]  # [1 or n, S]
    return horizon * reward_range(cohort) + float(np.abs(at_once).max())


def in_arms(cohort: Cohort, k: ArrayLike) -> ArrayLike:
    """The budget as a number of arms.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int or array_like [T]
        Arms helped at every decision, or one number for each decision; with costs, the most that
        help may cost.

    Returns
    -------
    float or ndarray [T]
        k; with costs, the number of arms of average cost that k pays for. First, k is rounded down
        to a multiple of the greatest common divisor of the costs, because no arm can use the rest.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.scale import in_arms
    >>> cohort = sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]] * 2, cost=[2, 4])
    >>> in_arms(cohort, [3, 6]).round(3).tolist()
    [0.667, 2.0]
    """
    if not cohort.with_costs:
        return k
    unit = np.gcd.reduce(cohort.cost)
    usable: Floats = np.asarray(k) // unit * unit / cohort.cost.mean()
    return usable


def reward_range(cohort: Cohort) -> float:
    """The range of the rewards.

    Parameters
    ----------
    cohort : Cohort
        The arms.

    Returns
    -------
    float
        The largest range of the worth of one arm's states, plus the range of what help is worth at
        once. The first range is by arm, because adding a constant to an arm's rewards changes no
        gain.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.scale import reward_range
    >>> reward_range(sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]], reward=[[[0, 0], [1, 0.8]]]))
    1.2
    """
    rows = cohort.per_cost.reward_rows
    return float(np.ptp(rows[:, 0], axis=1).max() + np.ptp(rows[:, -1] - rows[:, 0]))
