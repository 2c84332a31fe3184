"""Places of coming draws divided among cells of arms of which households are drawn one by one.

As in :mod:`softfair.quotas.dividing`, arms in the same sets are a cell, and the cells of draw t get
y_x(t) places that keep the bounds of every set. At most one arm of each household is drawn, and the
arms of a household are in one cell. Of the y_x(t) places u_x(t) count for deadlines, and u_x does
not fall from draw to draw. Deadlines are those moved forward within each household,
:func:`softfair.policies.deadlines.moved_forward`. A cell keeps them for ever with its own places if
three conditions hold:

- its next t draws have u-places for all its arms due within t;
- as many of it are drawn now as are due within d and have no u-place after this draw, for every d;
- any W - m + 1 draws after this one have u-places for all its arms, where m is its largest
  household: an arm that was drawn has W draws left, and W - m + 1 when moved forward.

Why u_x must not fall: if H households of a cell can be drawn now, at most one of each moves from
later than d - 1 draws to within d, so at most H more arms are due within d than within d - 1. These
had places in the d - 1 draws before, so they have places in the d - 1 draws that follow, which are
no fewer. At most H then remain for this draw, and H households can be drawn.

Who cannot be drawn now counts as due now in the first condition and as due after this draw in the
second. So the conditions hold whoever comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Housed", "divided_among_households"]

Ints = NDArray[np.int64]

Rule = tuple[list[Any], NDArray[Any], NDArray[Any]]


class Housed(NamedTuple):
    """Cells of arms with households, and when their arms are due."""

    inside: NDArray[np.bool_]  # [cells, sets]
    size: Ints  # [cells] all arms, those included that cannot be drawn now
    houses: Ints  # [cells] their households; an arm without one counts as one
    drawn: Ints  # [cells] households with an arm that can be drawn now
    due: Ints  # [cells, W] arms due within 1, 2, ..., W draws, this one included
    kept: Ints  # [cells, W] the same, if nobody comes back before the next draw
    within: Ints  # [cells] draws within which an arm that was drawn may have to be drawn again


def divided_among_households(
    k: Ints, least: Ints, most: Ints, cells: Housed, now: bool, first: int
) -> Ints | None:
    """Places of each cell in each draw that may go by deadlines.

    Parameters
    ----------
    k : ndarray [T]
        Places in this draw, the next and so on. If draws go on, the last W have as many places as
        all that follow.
    least, most : ndarray [T, sets]
        Bounds on the places of each set.
    cells : Housed
        The arms; W is the number of columns of ``due``.
    now : bool
        Whether the first of these draws is drawn now, from those who can be drawn.
    first : int
        Places in the first draw if everybody could be drawn.

    Returns
    -------
    ndarray [cells, T], or None
        Places u_x(t); None: there is no such division.

    Examples
    --------
    Two cells, each a household of two, of whom one is drawn at a time. Within two draws both can
    be drawn once, but whoever is drawn first may have to be drawn again at the next draw: a wait of
    two cannot be kept, a wait of three can.

    >>> import numpy as np
    >>> from softfair.quotas.housing import Housed, divided_among_households
    >>> two, one = np.array([2, 2]), np.array([1, 1])
    >>> def places(W):
    ...     due = np.tile(np.arange(W) + 3 - W, (2, 1)).clip(0)  # within W - 1 draws, and W
    ...     cells = Housed(np.eye(2, dtype=bool), two, one, one, due, due, np.full(2, W - 1))
    ...     k, bounds = np.full(W + 1, 2), np.ones((W + 1, 2), np.int64)
    ...     return divided_among_households(k, 0 * bounds, bounds, cells, True, 2)
    >>> places(2) is None, places(3).tolist()
    (True, [[0, 1, 1, 1], [0, 1, 1, 1]])
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import block_array

    (C, T), many = (len(cells.size), len(k)), len(cells.size) * len(k)
    if (cells.within < 1).any():
        return None
    parts, low, high = zip(*_rules(k, least, most, cells, now, first), strict=True)
    top = np.repeat(cells.houses[:, None], T, axis=1).astype(np.float64)
    if now:
        top[:, 0] = cells.drawn
    size = np.repeat(cells.size, T)
    optimum = milp(
        np.concatenate([np.zeros(2 * many), np.ones(C)]),
        integrality=np.ones(2 * many + C),
        bounds=Bounds(0, np.concatenate([size, top.ravel(), np.full(C, np.inf)])),
        constraints=LinearConstraint(
            block_array(parts, format="csr"), np.concatenate(low), np.concatenate(high)
        ),
    )
    if optimum.x is None:
        return None
    places: Ints = np.rint(optimum.x[:many]).astype(np.int64).reshape(C, T)
    return places


def _rules(
    k: Ints, least: Ints, most: Ints, cells: Housed, now: bool, first: int
) -> Iterator[Rule]:
    """What a division keeps: blocks of a matrix for u, y and who is drawn now, and its bounds."""
    from scipy.sparse import csr_array, eye_array, kron

    (C, W), T = cells.due.shape, len(k)
    each, draws, reach = eye_array(C), eye_array(T, format="csr"), min(W, T)

    def at_least(blocks: list[Any], floor: NDArray[Any]) -> Rule:
        return blocks, floor, np.full(len(floor), np.inf)

    # All places are given, and sets have their shares of them. (The last block has all columns.)
    nobody = csr_array((T, C))
    yield [None, kron(np.ones((1, C)), draws), nobody], k, k
    sets = kron(cells.inside.T.astype(np.float64), draws)
    if cells.inside.shape[1]:
        yield [None, sets, None], least.T.ravel(), most.T.ravel()
    # Of its places a cell has enough for deadlines; in this draw, for those who must be drawn.
    coming = draws[1 if now else 0 :]
    yield at_least([-kron(each, coming), kron(each, coming), None], np.zeros(C * coming.shape[0]))
    if now:
        yield at_least([None, kron(each, draws[:1]), -each], np.zeros(C))
    yield [kron(np.ones((1, C)), draws[:1]), None, None], np.zeros(1), np.array([first])
    # They do not fall.
    if T > 1:
        yield at_least([kron(each, draws[1:] - draws[:-1]), None, None], np.zeros(C * (T - 1)))
    # Who is due has a place, and whoever has none after this draw is drawn now.
    until = csr_array(np.tril(np.ones((reach, T))))
    yield at_least([kron(each, until), None, None], cells.due[:, :reach].ravel())
    if now:
        after = until - csr_array(np.eye(1, T)[np.zeros(reach, np.int64)])
        alone = kron(each, np.ones((reach, 1)))
        yield at_least([kron(each, after), None, alone], cells.kept[:, :reach].ravel())
    # Whoever is drawn has a place again in time.
    window = np.zeros((C, C * T))
    for x, many in enumerate(cells.within.tolist()):
        if many < T:
            window[x, x * T + 1 : x * T + 1 + many] = 1
    asked = np.where(cells.within < T, cells.size, 0)
    yield at_least([csr_array(window), None, None], asked)
