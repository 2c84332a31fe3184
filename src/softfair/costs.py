"""Lists of arms with costs, within a budget: the chance of every arm, and the draw.

A list is complete if it costs at most the budget and no other arm would still fit. With log-weights
y_i,

    Pr(list) is proportional to the product of exp(y_i - theta) over its members,

over all complete lists. theta is such that the expected cost of independent arms with these odds is
the budget: sum of cost_i sigmoid(y_i - theta) = budget, over the arms that fit at all. The budget
is first rounded down to a multiple of the greatest common divisor of the costs, because the rest
pays for nothing. If all arms cost the same, the complete lists are the sets of k arms and theta
cancels: this is the joint design of :mod:`softfair.sampling`.

Chances are exact for this law, and close to sigmoid(y_i - theta). Of two arms that cost the same,
the arm with the larger y always has the larger chance. Arms of different costs have chances nearly
in the order of y. There are deviations, because whole arms must fill the budget; they matter if the
budget pays for few arms. Tests bound the largest difference from the sigmoid by .03 at n = 100 and
a budget of 40 with costs of 1, 2 and 4. At equal y all arms have nearly the same chance, whatever
they cost.

With infinite weights (:func:`inclusion_of_top`) the list goes from the highest score down and takes
each arm that still fits; of equal scores, the arm that costs less comes first.

A list takes time proportional to n times the budget in units of the greatest common divisor of the
costs: choose a unit of cost no finer than needed.
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

TASK = 50_000  # entries of rows a task: enough to make the hand-over to a thread negligible


def inclusion(log_weights: ArrayLike, cost: ArrayLike, budget: int) -> Floats:
    """The chance of every arm to be on the list.

    Parameters
    ----------
    log_weights : array_like [n]
        y_i, finite.
    cost : array_like [n]
        The cost of each arm, whole numbers of at least 1.
    budget : int
        The most that a list may cost, at least 0.

    Returns
    -------
    ndarray [n]

    Raises
    ------
    InvalidInput
        A weight is not finite, a cost is not such a number, or the budget is not a whole number of
        at least 0.

    Examples
    --------
    The complete lists are {0, 1} and {2}. The budget is half of all costs, so that theta = 0.

    >>> import softfair as sf
    >>> sf.costs.inclusion([0.0, 0.0, 0.0], cost=[1, 1, 2], budget=2).round(12).tolist()
    [0.5, 0.5, 0.5]
    """
    y, units, room = _checked(log_weights, cost, budget)
    out = np.empty(len(y))
    knapsack.chances(y, units, room, out)
    return out


def draw(log_weights: ArrayLike, cost: ArrayLike, budget: int, rng: np.random.Generator) -> Ints:
    """Draw a complete list.

    Parameters
    ----------
    log_weights, cost, budget
        See :func:`inclusion`.
    rng : numpy.random.Generator
        Source of randomness.

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
    """The chance of every arm to be on the list that goes from the highest score down.

    Parameters
    ----------
    scores : array_like [n]
        Finite scores.
    cost, budget
        See :func:`inclusion`.

    Returns
    -------
    ndarray [n]
        0 or 1, except that arms of equal score and cost share the places that are left for them.

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
    """The list that goes from the highest score down; ties in score and cost are broken at random.

    Parameters
    ----------
    scores, cost, budget
        See :func:`inclusion_of_top`.
    rng : numpy.random.Generator
        Source of randomness.

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
        The scores of each run in its states.
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
        1 for arms on the list, otherwise 0.
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
        y, real_costs = real_numbers(values), real_numbers(cost)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"weights or costs are no numbers ({error}); give floats") from None
    if y.ndim != 1 or not len(y) or real_costs.shape != y.shape:
        raise InvalidInput(
            f"weights have shape {y.shape} and costs {real_costs.shape}; give one of each an arm"
        )
    refuse(~np.isfinite(y), y, "weights", "give finite numbers")
    fine = (real_costs >= 1) & (real_costs < 2**31) & (real_costs == np.floor(real_costs))
    refuse(~fine, real_costs, "cost", "give whole numbers of at least 1")
    costs = real_costs.astype(np.int64)
    unit = int(np.gcd.reduce(costs))
    room = min(whole("budget", budget, 0), int(costs.sum()))
    return np.ascontiguousarray(y), costs // unit, room // unit
