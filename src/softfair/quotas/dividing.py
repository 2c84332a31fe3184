"""Divide the places of coming draws among cells of arms, to keep both bounds and deadlines.

Arms in the same sets form a cell. Let cell x get y_x(t) of the k_t places of draw t. If these
numbers keep the bounds of every set, so does every draw. Let the cell have n_x arms. If it has at
least n_x places in any W draws in a row, and in the next d draws as many places as it has arms with
at most d draws left, every arm of the cell can be drawn in time, the earliest deadline first. So
each cell meets its deadlines with its places, and both promises can be kept for ever.

With a least chance f, m of the y places may go by deadlines if y - m >= f (n - m). Only these
places, S, count for deadlines.

The numbers are whole; an integer programme finds them. Of all divisions it chooses one in which as
few arms as possible must be drawn now because of deadlines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cells", "divided"]

Ints = NDArray[np.int64]

Rule = tuple[list[Any], NDArray[Any], NDArray[Any]]

MARGIN = 1e-5  # relative excess over the least chance, so that rounding cannot break it


class Cells(NamedTuple):
    """Cells of arms in the same sets, and the deadlines of the arms."""

    inside: NDArray[np.bool_]  # [cells, sets]
    size: Ints  # [cells] all arms, including arms that cannot be drawn now
    drawn: Ints  # [cells] arms that can be drawn now
    due: Ints  # [cells, W] arms that can be drawn now, with at most 1, 2, ..., W draws left
    back: Ints  # [cells, W] the same for arms that cannot be drawn now, and whose time stands still


def divided(k: Ints, least: Ints, most: Ints, cells: Cells, floor: float = 0.0) -> Ints | None:
    """Places of each cell in each draw that may go by deadlines.

    Parameters
    ----------
    k : ndarray [T]
        Places in this draw, the next, and so on. If draws continue after that, every later draw has
        as many places as each of the last W.
    least, most : ndarray [T, sets]
        Bounds on the places of each set.
    cells : Cells
        The arms; W is the number of columns of ``due``.
    floor : float
        The least chance that every arm has in every draw.

    Returns
    -------
    ndarray [cells, T], or None
        The places; None if there is no such division.

    Examples
    --------
    Two cells have two arms each, and everybody waits at most three draws. One place a draw is not
    enough for four arms; two are.

    >>> import numpy as np
    >>> from softfair.quotas.dividing import Cells, divided
    >>> two, none = np.array([2, 2]), np.zeros((2, 3), np.int64)
    >>> due = np.array([[0, 0, 2], [0, 0, 2]])
    >>> cells = Cells(np.eye(2, dtype=bool), two, two, due, none)
    >>> free = np.zeros((4, 2), np.int64), np.ones((4, 2), np.int64)
    >>> divided(np.ones(4, np.int64), *free, cells) is None
    True
    >>> bool((divided(np.full(4, 2), *free, cells).sum(axis=1) >= 2).all())
    True
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import block_array

    (C, W), T = cells.due.shape, len(k)
    entries = C * T
    parts, low, high = zip(*_rules(k, least, most, cells, floor), strict=True)
    # Variables: the places S of each cell that may go by deadlines, summed up to each draw; all
    # places y of each cell in each draw; the number of arms of each cell that must be drawn now;
    # and the number of arms of each cell that would be late if they came back at a bad time, which
    # cannot always be 0.
    reach = min(W, T)
    fewest = np.zeros((C, T))
    fewest[:, :reach] = cells.due[:, :reach]
    places = np.repeat(cells.size[:, None], T, axis=1).astype(np.float64)
    places[:, 0] = cells.drawn
    free = np.full(entries, np.inf), np.full(2 * C, np.inf)
    optimum = milp(
        np.concatenate([np.zeros(2 * entries), np.ones(C), np.full(C, 1.0 + cells.size.sum())]),
        integrality=np.ones(2 * entries + 2 * C),
        bounds=Bounds(
            np.concatenate([fewest.ravel(), np.zeros(entries + 2 * C)]),
            np.concatenate([free[0], places.ravel(), free[1]]),
        ),
        constraints=LinearConstraint(
            block_array(parts, format="csr"), np.concatenate(low), np.concatenate(high)
        ),
    )
    if optimum.x is None:
        return None
    until: Ints = np.rint(optimum.x[:entries]).astype(np.int64).reshape(C, T)
    return np.diff(until, prepend=0, axis=1)


def _rules(k: Ints, least: Ints, most: Ints, cells: Cells, floor: float) -> Iterator[Rule]:
    """The constraints: blocks of a matrix for the four kinds of variables, and the bounds."""
    from scipy.sparse import csr_array, diags_array, eye_array, kron

    (C, W), T = cells.due.shape, len(k)
    each, draws = eye_array(C), eye_array(T)
    size = np.repeat(cells.size.astype(np.float64), T)
    step = kron(each, diags_array([np.ones(T), -np.ones(T - 1)], offsets=[0, -1]))
    none, open_ = csr_array((C * T, C)), np.full(C * T, np.inf)
    # All places are given away, and the places of each set are within its bounds.
    yield [None, kron(np.ones((1, C)), draws), None, None], k, k
    sets = kron(cells.inside.T.astype(np.float64), draws)
    yield [None, sets, None, None], least.T.ravel(), most.T.ravel()
    # Of y places, m may go by deadlines if y - m >= f (n - m).
    f = min(floor * (1 + MARGIN), 1 - MARGIN)
    yield [(1 - f) * step, -kron(each, draws), none, none], -open_, -f * size
    yield [step, None, None, None], np.zeros(C * T), open_
    # Any W draws in a row have places for all arms of the cell.
    if T >= W:
        starts = T - W + 1
        window = csr_array(diags_array([np.ones(starts)], offsets=[W - 1], shape=(starts, T)))
        window = window - diags_array([np.ones(starts - 1)], offsets=[-1], shape=(starts, T))
        yield (
            [kron(each, window), None, None, None],
            np.repeat(cells.size, starts),
            np.full(C * starts, np.inf),
        )
    # The arms due within d draws, now or if they come back at the next draw. Later draws up to d,
    # and the arms that must be drawn now, serve all of them; or all draws up to d, and the arms
    # that would be late.
    reach = min(W, T)
    back = np.hstack([np.zeros((C, 1), np.int64), cells.back[:, : reach - 1]])
    due = (cells.due[:, :reach] + back).ravel()
    now = csr_array((np.ones(reach), (np.arange(reach), np.zeros(reach, np.int64))), (reach, T))
    until = eye_array(reach, T)
    by_cell = kron(each, np.ones((reach, 1)))
    yield [kron(each, until - now), None, by_cell, None], due, np.full(C * reach, np.inf)
    yield [kron(each, until), None, None, by_cell], due, np.full(C * reach, np.inf)
