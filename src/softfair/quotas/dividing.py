"""Places of coming draws divided among cells of arms, so that bounds and deadlines go together.

Arms in the same sets are a cell. If cell x has y_x(t) of the k_t places of draw t, and these
numbers keep the bounds of every set, then every draw can keep them. If a cell of n_x arms has at
least n_x places in any W draws in a row, and in the next d as many as it has arms with at most d
draws left, every arm of the cell can be drawn in time, the earliest deadline first. So each cell
keeps its deadlines with its own places, and both promises can be kept for ever.

With a least chance f, m of the y places may go by deadlines if y - m >= f (n - m). Only these, S,
count for deadlines.

The numbers are whole: an integer programme finds them. Of all divisions it takes one with which as
few arms as can be must be drawn now because of deadlines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cells", "divided"]

Ints = NDArray[np.int64]

Rule = tuple[list[Any], NDArray[Any], NDArray[Any]]

MARGIN = 1e-5  # of a least chance: draws that meet it do so up to rounding alone


class Cells(NamedTuple):
    """Arms in the same sets, and when they are due."""

    inside: NDArray[np.bool_]  # [cells, sets]
    size: Ints  # [cells] all arms, those included that cannot be drawn now
    drawn: Ints  # [cells] arms that can be drawn now
    due: Ints  # [cells, W] of these, arms with at most 1, 2, ..., W draws left, this one included
    back: Ints  # [cells, W] the same of arms that cannot be drawn now, whose time stands still


def divided(k: Ints, least: Ints, most: Ints, cells: Cells, floor: float = 0.0) -> Ints | None:
    """Places of each cell in each draw that may go by deadlines.

    Parameters
    ----------
    k : ndarray [T]
        Places in this draw, the next and so on. If draws go on, the last W have as many places as
        all that follow.
    least, most : ndarray [T, sets]
        Bounds on the places of each set.
    cells : Cells
        The arms; W is the number of columns of ``due``.
    floor : float
        The least chance that every arm has in every draw.

    Returns
    -------
    ndarray [cells, T], or None
        None: there is no such division.

    Examples
    --------
    Two cells of two arms, one place a draw, three draws to wait: there are four arms.

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
    many = C * T
    parts, low, high = zip(*_rules(k, least, most, cells, floor), strict=True)
    # Places S of each cell up to each draw that may go by deadlines, all its places y in each draw;
    # of each cell, how many must be drawn now, and by how many those who come back are too many.
    # The last cannot be ruled out, because nobody knows when they come.
    reach = min(W, T)
    fewest = np.zeros((C, T))
    fewest[:, :reach] = cells.due[:, :reach]
    places = np.repeat(cells.size[:, None], T, axis=1).astype(np.float64)
    places[:, 0] = cells.drawn
    free = np.full(many, np.inf), np.full(2 * C, np.inf)
    optimum = milp(
        np.concatenate([np.zeros(2 * many), np.ones(C), np.full(C, 1.0 + cells.size.sum())]),
        integrality=np.ones(2 * many + 2 * C),
        bounds=Bounds(
            np.concatenate([fewest.ravel(), np.zeros(many + 2 * C)]),
            np.concatenate([free[0], places.ravel(), free[1]]),
        ),
        constraints=LinearConstraint(
            block_array(parts, format="csr"), np.concatenate(low), np.concatenate(high)
        ),
    )
    if optimum.x is None:
        return None
    until: Ints = np.rint(optimum.x[:many]).astype(np.int64).reshape(C, T)
    return np.diff(until, prepend=0, axis=1)


def _rules(k: Ints, least: Ints, most: Ints, cells: Cells, floor: float) -> Iterator[Rule]:
    """What a division keeps: blocks of a matrix for S, y and the two others, and its bounds."""
    from scipy.sparse import csr_array, diags_array, eye_array, kron

    (C, W), T = cells.due.shape, len(k)
    each, draws = eye_array(C), eye_array(T)
    size = np.repeat(cells.size.astype(np.float64), T)
    step = kron(each, diags_array([np.ones(T), -np.ones(T - 1)], offsets=[0, -1]))
    none, open_ = csr_array((C * T, C)), np.full(C * T, np.inf)
    # All places are given, and sets have their shares of them.
    yield [None, kron(np.ones((1, C)), draws), None, None], k, k
    sets = kron(cells.inside.T.astype(np.float64), draws)
    yield [None, sets, None, None], least.T.ravel(), most.T.ravel()
    # Of y places m may go by deadlines if y - m >= f (n - m).
    f = min(floor * (1 + MARGIN), 1 - MARGIN)
    yield [(1 - f) * step, -kron(each, draws), none, none], -open_, -f * size
    yield [step, None, None, None], np.zeros(C * T), open_
    # In any W draws in a row there are places for everybody.
    if T >= W:
        starts = T - W + 1
        window = csr_array(diags_array([np.ones(starts)], offsets=[W - 1], shape=(starts, T)))
        window = window - diags_array([np.ones(starts - 1)], offsets=[-1], shape=(starts, T))
        yield (
            [kron(each, window), None, None, None],
            np.repeat(cells.size, starts),
            np.full(C * starts, np.inf),
        )
    # Who is due within d draws, or may be when they come back, and has no place after this draw.
    reach = min(W, T)
    back = np.hstack([np.zeros((C, 1), np.int64), cells.back[:, : reach - 1]])
    wanted = (cells.due[:, :reach] + back).ravel()
    now = csr_array((np.ones(reach), (np.arange(reach), np.zeros(reach, np.int64))), (reach, T))
    until = eye_array(reach, T)
    alone = kron(each, np.ones((reach, 1)))
    yield [kron(each, until - now), None, alone, None], wanted, np.full(C * reach, np.inf)
    yield [kron(each, until), None, None, alone], wanted, np.full(C * reach, np.inf)
