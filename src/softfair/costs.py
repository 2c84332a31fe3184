"""Lists of arms whose help costs more or less, within a budget: everybody's chance, and the draw.

A list is complete if it costs at most the budget and no arm that is left out would still fit. With
log-weights y_i,

    Pr(list) is proportional to the product of exp(y_i - theta) over its members,

over all complete lists, where theta is such that independent arms with these odds would be expected
to cost the budget: sum of cost_i sigmoid(y_i - theta) = budget, over those who fit at all. Here the
budget is a multiple of the costs' greatest common divisor; what is beyond buys nothing. If all cost
the same, the complete lists are the sets of k arms and theta cancels: this is the joint design of
:mod:`softfair.sampling`.

Chances are exact for this law, and near sigmoid(y_i - theta). Of two arms that cost the same, the
one with the larger y has the larger chance, for certain. Arms of different cost have chances in the
order of y up to what it takes to fill a budget with whole lists, which matters where a budget pays
for few: tests hold the largest difference from the sigmoid to .03 at n = 100 and a budget of 40
with costs of 1, 2 and 4. At equal y all have nearly the same chance, whatever they cost.

With infinite weights (:func:`inclusion_of_top`) the list goes from the highest score down, and
takes everybody who still fits; of equal scores who costs less comes first.

A list takes time proportional to n times the budget in units of the costs' greatest common divisor:
take a unit no finer than is needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, real_numbers, refuse, whole
from .kernels import knapsack
from .kernels.threads import map_parts
from .sampling import new_key

__all__ = ["choose_runs", "draw", "draw_top", "inclusion", "inclusion_of_top"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TASK = 50_000  # entries of rows a task: long enough to hide the hand-over to a thread


def inclusion(log_weights: ArrayLike, cost: ArrayLike, budget: int) -> Floats:
    """Everybody's chance to be on a complete list.

    Parameters
    ----------
    log_weights : array_like [n]
        y_i, finite.
    cost : array_like [n]
        What each arm costs, whole numbers of at least 1.
    budget : int
        The most that a list may cost, at least 0.

    Returns
    -------
    ndarray [n]

    Raises
    ------
    InvalidInput
        An entry is none of these.

    Examples
    --------
    The complete lists are {0, 1} and {2}; a budget of half of all costs makes odds of 1.

    >>> import softfair as sf
    >>> sf.costs.inclusion([0.0, 0.0, 0.0], cost=[1, 1, 2], budget=2).round(12).tolist()
    [0.5, 0.5, 0.5]
    """
    y, units, room = _checked(log_weights, cost, budget)
    out = np.empty(len(y))
    knapsack.chances(y, units, room, out)
    return out


def draw(log_weights: ArrayLike, cost: ArrayLike, budget: int, rng: np.random.Generator) -> Ints:
    """A complete list, drawn.

    Parameters
    ----------
    log_weights, cost, budget
        See :func:`inclusion`.
    rng : numpy.random.Generator
        Luck.

    Returns
    -------
    ndarray
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput
        As for :func:`inclusion`.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> arms = sf.costs.draw([0.0, 0.0, 0.0], [1, 1, 2], 2, np.random.default_rng(0))
    >>> arms.tolist() in ([0, 1], [2])
    True
    """
    y, units, room = _checked(log_weights, cost, budget)
    chosen = np.empty(len(y), np.uint8)
    knapsack.choose_within(y, units, room, new_key(rng), chosen)
    return np.flatnonzero(chosen)


def inclusion_of_top(scores: ArrayLike, cost: ArrayLike, budget: int) -> Floats:
    """Everybody's chance to be on the list that goes from the highest score down.

    Parameters
    ----------
    scores : array_like [n]
        Finite.
    cost, budget
        See :func:`inclusion`.

    Returns
    -------
    ndarray [n]
        0 or 1, except that those of equal score and cost share the places that are left for them.

    Raises
    ------
    InvalidInput
        As for :func:`inclusion`.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.costs.inclusion_of_top([3.0, 2.0, 1.0, 1.0], cost=[3, 2, 1, 1], budget=4).tolist()
    [1.0, 0.0, 0.5, 0.5]
    """
    y, units, room = _checked(scores, cost, budget)
    order = np.lexsort((units, -y))
    alike = (np.diff(y[order]) == 0) & (np.diff(units[order]) == 0)
    out = np.zeros(len(y))
    for group in np.split(order, np.flatnonzero(~alike) + 1):
        places = min(len(group), room // int(units[group[0]]))
        out[group] = places / len(group)
        room -= places * int(units[group[0]])
    return out


def draw_top(scores: ArrayLike, cost: ArrayLike, budget: int, rng: np.random.Generator) -> Ints:
    """The list that goes from the highest score down, chance deciding between equals.

    Parameters
    ----------
    scores, cost, budget
        See :func:`inclusion_of_top`.
    rng : numpy.random.Generator
        Luck.

    Returns
    -------
    ndarray
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput
        As for :func:`inclusion`.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> sf.costs.draw_top([3.0, 2.0, 1.0], [3, 2, 1], 4, np.random.default_rng(0)).tolist()
    [0, 2]
    """
    y, units, room = _checked(scores, cost, budget)
    chosen = np.empty(len(y), np.uint8)
    knapsack.choose_best(y, units, room, new_key(rng), chosen)
    return np.flatnonzero(chosen)


def choose_runs(
    scores: Floats, c: float, cost: Ints, budget: int, t: int, keys: NDArray[np.uint64]
) -> NDArray[np.uint8]:
    """Lists of many runs at one decision.

    Parameters
    ----------
    scores : ndarray [runs, n]
        In each run's states.
    c : float
        Multiplier of the scores; ``math.inf`` goes from the highest score down.
    cost, budget
        See :func:`inclusion`.
    t : int
        The decision.
    keys : ndarray [runs]
        The key of each run's random numbers.

    Returns
    -------
    ndarray [runs, n]
        1 for those on the list, otherwise 0.
    """
    chosen = np.empty(scores.shape, np.uint8)
    unit = int(np.gcd.reduce(cost))
    best = bool(np.isinf(c))
    rule = (1.0 if best else c, best, cost // unit, budget // unit, t)
    part = max(1, TASK // (scores.shape[1] * (budget // unit + 1)))
    map_parts(knapsack.choose_runs, len(scores), part, scores, *rule, keys, chosen)
    return chosen


def _checked(values: ArrayLike, cost: ArrayLike, budget: int) -> tuple[Floats, Ints, int]:
    """Numbers [n], costs [n] and the budget in units of their greatest common divisor."""
    try:
        y, given = real_numbers(values), real_numbers(cost)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"weights or costs are no numbers ({error}); give floats") from None
    if y.ndim != 1 or not len(y) or given.shape != y.shape:
        raise InvalidInput(
            f"weights have shape {y.shape} and costs {given.shape}; give one of each an arm"
        )
    refuse(~np.isfinite(y), y, "weights", "give finite numbers")
    fine = (given >= 1) & (given < 2**31) & (given == np.floor(given))
    refuse(~fine, given, "cost", "give whole numbers of at least 1")
    costs = given.astype(np.int64)
    unit = int(np.gcd.reduce(costs))
    room = min(whole("budget", budget, 0), int(costs.sum()))
    return np.ascontiguousarray(y), costs // unit, room // unit
