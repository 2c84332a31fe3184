"""Deadlines: who must be helped now so that everybody can be helped in time.

Without groups the earliest deadline comes first, see :mod:`softfair.policies.promised`. If at most
one arm of a household may be helped at a decision, :func:`moved_forward` makes some deadlines of
the household earlier. If sets of arms have bounds, arms in the same sets form a cell, and each cell
meets its deadlines with places that are reserved for it (:mod:`softfair.quotas.dividing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..quotas import Quota
from .base import Ints
from .setting import Budget

__all__ = [
    "STANDING_BACK",
    "Cell",
    "deadline_quotas",
    "moved_forward",
    "places_for_deadlines",
    "quotas_by_cell",
    "shortest_wait",
]

STANDING_BACK = "standing back"  # the set of arms that are left out for another of their household


def places_for_deadlines(n: int, k: Budget, floor: float) -> Budget:
    """Places that deadlines may take so that every other arm can still have the least chance.

    Parameters
    ----------
    n : int
        Arms.
    k : int or ndarray
        Arms helped at every decision, or at each.
    floor : float
        The least chance; 0 if none is promised.

    Returns
    -------
    int or ndarray
        The largest m with k - m >= floor (n - m); k without a floor.

    Examples
    --------
    Ten of 100 with a floor of 5 %: if 5 are due, the 95 others share 5 places, which is enough.

    >>> from softfair.policies.deadlines import places_for_deadlines
    >>> places_for_deadlines(100, 10, 0.05)
    5
    """
    if floor == 1:
        return k
    free = np.floor((np.asarray(k) - floor * n) / (1 - floor) + 1e-9).astype(np.int64)
    free = np.clip(free, 0, k)
    return int(free) if free.ndim == 0 else free


def moved_forward(left: Ints, house: Ints, lists: int) -> tuple[Ints, Ints]:
    """Deadlines when at most one arm of each household is helped at a decision.

    Parameters
    ----------
    left : ndarray [n]
        Decisions that each arm has left, this one included.
    house : ndarray of int [n]
        The household of each arm; -1: none.
    lists : int
        Decisions to come. Deadlines after the last decision bind nobody.

    Returns
    -------
    due : ndarray [n]
        e_j = min(d_j, e_{j+1} - 1) in each household, in order of d: of two arms with the same
        deadline one gets a deadline a decision earlier. It is below 1 if an arm must be late.
    freed : ndarray [n]
        The deadline of the household that is met if the arm is helped now. It can be earlier than
        that of the arm: the arms whose deadlines were moved forward for this arm move back again.

    Examples
    --------
    Two of a household have 5 decisions left, a third has 2.

    >>> import numpy as np
    >>> from softfair.policies.deadlines import moved_forward
    >>> moved_forward(np.array([5, 2, 5, 5]), np.array([0, 0, 0, -1]), 9)
    (array([4, 2, 5, 5]), array([4, 2, 4, 5]))
    """
    n = len(left)
    d = np.where(left > lists, lists + n + 1, left)
    home = np.where(house < 0, n + np.arange(n) + house.max(initial=0), house)
    order = np.lexsort((d, home))
    first = np.r_[True, np.diff(home[order]) > 0][:n]
    place = np.arange(n)
    # e_j - j is the smallest d_i - i of the household from j on; households are kept apart by steps
    # larger than any difference.
    step = int(np.ptp(d - place)) + 2 * n + 2 if n else 0
    number = np.cumsum(first)
    slack = (d[order] - place + step * number)[::-1]
    e = np.minimum.accumulate(slack)[::-1] + place - step * number
    # Deadlines that were moved forward one because of the next form a chain. Helping any arm of a
    # chain frees the chain's earliest deadline.
    begins = first | np.r_[True, (e == d[order])[:-1]][:n]
    start = np.maximum.accumulate(np.where(begins, place, 0))
    due, freed = np.empty(n, np.int64), np.empty(n, np.int64)
    due[order], freed[order] = e, e[start]
    return due, freed


def deadline_quotas(
    left: Ints, k: Budget, away: Ints | None = None, house: Ints | None = None
) -> tuple[NDArray[np.bool_], list[Quota]]:
    """The arms that must be helped now, and the quotas that keep the promise possible.

    Parameters
    ----------
    left : ndarray [n]
        Decisions that each arm has left, this one included; below 1 counts as 1.
    k : int or ndarray
        Arms helped at every decision; or an array with the number for this decision, the next, and
        so on to the last.
    away : ndarray, optional
        Decisions left for arms that are away: they cannot be helped now, and their time stands
        still until they are back. They may come back at any decision, so places are kept for them.
    house : ndarray of int, optional
        The household of each arm, with the arms that are away last; -1: none. At most one arm of a
        household is helped at a decision.

    Returns
    -------
    now : ndarray [n] of bool
        Arms that are helped whatever the others do, at most k.
    quotas : list of Quota
        Bounds on how many of the other arms are helped. Their ``arms`` number the other arms only,
        from 0, in order.

    Notes
    -----
    If the promise is already broken, by a memory that this policy did not write, as many late arms
    are helped as there are places.

    With households, deadlines are those of :func:`moved_forward`, and a decision is counted with no
    more places than any later decision has. A list then keeps the promise possible if and only if,
    for every d, at least need(d) of its arms free a deadline of at most d. A household may have
    arms that free deadlines on both sides of a d that binds; the draw would then have to follow a
    count for every such d. To avoid this, only those arms of the household take part that free its
    most pressing binding deadline; its other arms are left out of the draw. The list with the
    earliest deadlines is still allowed.

    Examples
    --------
    Arms 0 and 1 have one and two decisions left. With one place, arm 0 must be helped now.

    >>> import numpy as np
    >>> from softfair.policies.deadlines import deadline_quotas
    >>> now, quotas = deadline_quotas(np.array([1, 2, 9]), 1)
    >>> now.tolist(), quotas
    ([True, False, False], [])

    If both have two decisions left, one of them must be helped now, because the next decision has
    one place:

    >>> deadline_quotas(np.array([2, 2, 9]), 1)[1][0].arms.tolist()
    [0, 1]

    Two arms of one household have two decisions left: one of them must be helped now.

    >>> _, quotas = deadline_quotas(np.array([2, 2, 9]), 2, house=np.array([0, 0, -1]))
    >>> [(quota.name, quota.least, quota.most) for quota in quotas]
    [('due within 1', 1, None), ('', 0, 1)]
    """
    absent = np.empty(0, np.int64) if away is None else away
    m, n = len(left), len(left) + len(absent)
    if isinstance(k, int):
        places, coming = k, np.full(-(-n // k) if k else 1, k)
    else:
        places, coming = int(k[0]), np.asarray(k)
        if house is not None:
            coming = np.minimum.accumulate(coming[::-1])[::-1]
    # An arm that is away with d decisions left will have d left at the next decision too.
    due = freed = np.concatenate([np.maximum(left, 1), np.maximum(absent, 1) + 1])
    if house is not None:
        last = int(due.max(initial=0)) if isinstance(k, int) else len(coming)
        due, freed = moved_forward(due, house, last)
    later = np.cumsum(coming) - coming[0]  # places after this decision
    reach = max(1, int(np.searchsorted(later, n)))  # for any larger d, later decisions serve all
    later = later[:reach]
    due = np.clip(due, 1, reach + 1)
    freed = np.clip(freed[:m], 1, reach + 1)
    size = _within(_earliest(freed, house), reach)
    need = np.minimum(_within(due, reach) - later, np.minimum(places, size))
    return _quotas_for(need, freed, house, int(size[0]) if size[0] <= places else 0)


def _within(deadlines: Ints, reach: int) -> Ints:
    """How many deadlines are within 1, 2, ..., reach."""
    counts = np.bincount(deadlines, minlength=reach + 2)
    return np.asarray(np.cumsum(counts)[1 : reach + 1], np.int64)


def _earliest(freed: Ints, house: Ints | None) -> Ints:
    """The deadlines of arms without household, and the earliest deadline of each household."""
    if house is None:
        return freed
    home = house[: len(freed)]
    order = np.lexsort((freed, home))
    repeated = (np.diff(home[order], prepend=-2) == 0) & (home[order] >= 0)
    earliest: Ints = freed[order][~repeated]
    return earliest


def _quotas_for(
    need: Ints, freed: Ints, house: Ints | None, sure: int
) -> tuple[NDArray[np.bool_], list[Quota]]:
    """The arms to help now and the quotas by which need[d - 1] arms free a deadline of at most d.

    ``sure`` is the number of arms without household, plus the number of households, with a deadline
    of this decision, if there are places for all of them; otherwise 0.
    """
    m = len(freed)
    home = np.full(m, -1) if house is None else house[:m]
    due_now, binds = freed == 1, need > sure
    binds[0] = sure > 0 or binds[0]
    # The rank of an arm is the number of binding deadlines before the one that it frees. Only the
    # arms of lowest rank in a household take part.
    rank = np.searchsorted(np.flatnonzero(binds) + 1, freed)
    lowest = np.full(int(home.max(initial=-1)) + 2, m)
    np.minimum.at(lowest, home, rank)
    out = (home >= 0) & (rank > lowest[home])
    taking_part = np.bincount(home[~out] + 1, minlength=len(lowest))  # arms of each household
    now = due_now & bool(sure) & ((home < 0) | (taking_part[home + 1] == 1))
    others, helped = np.flatnonzero(~now), int(now.sum())
    quotas = [
        Quota(
            np.flatnonzero((freed <= d + 1)[others] & ~out[others]),
            least,
            name=f"due within {d + 1}",
        )
        for d in np.flatnonzero(binds)
        if (least := max(int(need[d]), sure if d == 0 else 0) - helped) > 0
    ]
    if out.any():
        quotas.append(Quota(np.flatnonzero(out[others]), most=0, name=STANDING_BACK))
    shared = np.flatnonzero(
        (taking_part[home + 1] > 1)[others] & (home >= 0)[others] & ~out[others]
    )
    shared = shared[np.argsort(home[others][shared], kind="stable")]
    parts = np.split(shared, np.flatnonzero(np.diff(home[others][shared])) + 1)
    return now, quotas + [Quota(part, most=1) for part in parts if len(part)]


def shortest_wait(W: int, kept: Callable[[int], bool], longest: int = 10_000) -> int | None:
    """The shortest wait of at least W that can be kept; None if there is none.

    Parameters
    ----------
    W : int
        The first wait to try.
    kept : callable
        Whether a wait can be kept. If a wait can be kept, every longer one can.
    longest : int
        The longest wait to try.

    Returns
    -------
    int or None
        The wait.

    Examples
    --------
    >>> from softfair.policies.deadlines import shortest_wait
    >>> shortest_wait(3, lambda W: W >= 17)
    17
    """
    low, high = W, W
    while not kept(high):
        if high >= longest:
            return None
        low, high = high + 1, min(2 * high, longest)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) else (middle + 1, high)
    return high


class Cell(NamedTuple):
    """Arms in the same sets, and the places that are reserved for their deadlines."""

    who: Ints  # numbers of the arms
    away: Ints  # decisions left for the arms of the cell that cannot be helped now
    coming: Ints  # places that deadlines may take at this decision, the next, and so on
    house: Ints | None = None  # households of who and away, at most one arm of each; -1: none


def quotas_by_cell(
    left: Ints, cells: Sequence[Cell], sets: Sequence[Quota]
) -> tuple[NDArray[np.bool_], list[Quota]]:
    """As `deadline_quotas`, for cells with places of their own and for sets with bounds.

    Parameters
    ----------
    left : ndarray [n]
        Decisions that each arm has left, this one included.
    cells : sequence of Cell
        Which arms share which places.
    sets : sequence of Quota
        Bounds on sets of arms.

    Returns
    -------
    now, quotas
        See :func:`deadline_quotas`.

    Examples
    --------
    Two cells with a place each at every decision; one of the first two arms must be helped now.

    >>> import numpy as np
    >>> from softfair.policies.deadlines import Cell, quotas_by_cell
    >>> nobody, one = np.empty(0, np.int64), np.ones(4, np.int64)
    >>> cells = [Cell(np.array([0, 1]), nobody, one), Cell(np.array([2, 3]), nobody, one)]
    >>> quotas_by_cell(np.array([2, 2, 3, 3]), cells, [])[1][0].arms.tolist()
    [0, 1]
    """
    now, kept = np.zeros(len(left), bool), []
    for who, away, coming, house in cells:
        sure, quotas = deadline_quotas(left[who], coming, away, house)
        now[who[sure]] = True
        rest = who[~sure]
        kept += [replace(quota, arms=rest[np.asarray(quota.arms, np.int64)]) for quota in quotas]
    number = np.cumsum(~now) - 1  # numbers of the arms that are not helped for certain
    for quota in sets:
        arms = np.asarray(quota.arms, np.int64)
        helped = int(now[arms].sum())
        most = None if quota.most is None else quota.most - helped
        kept.append(Quota(arms[~now[arms]], max(0, quota.least - helped), most, quota.name))
    return now, [replace(quota, arms=number[np.asarray(quota.arms, np.int64)]) for quota in kept]
