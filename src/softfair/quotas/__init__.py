"""Draw k of n arms under bounds on the numbers of arms from given sets.

The law is the joint design of :mod:`softfair.sampling`, given that every bound is kept: Pr(set) is
proportional to the product of the weights of its members, over all sets of k arms that keep all
bounds. So it is the softmax over the allowed joint actions: of two such sets, none is favoured over
one with a larger sum of log-weights.

Sets any two of which are nested or disjoint form a tree. The law of the number of arms drawn from a
branch follows from the laws of the branches below by convolution. Sets that cross others are kept
beside the tree, and laws also count the arms in these sets. The law is exact, and so are the
chances (1e-10). If d is the standard deviation of the count of a branch, the work is of the order
of n d and the memory O(n); each crossing set multiplies both by about d.

A set of which at most one arm may be drawn, such as a household, is replaced by one arm if its arms
are in the same other sets. The weight of that arm is the sum of the weights, and the arms of the
set share its chance.

To keep numbers in range, the log-weights of the arms of each set are shifted by one number a set,
so that independent arms would keep all bounds in expectation, and the law of the set's count is
divided by the corresponding factor. This does not change the law of the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import Infeasible
from ..kernels.inclusion import restore_sum
from ..kernels.quotas import block_chances, block_law
from ..sampling import draw as draw_freely
from ..sampling import draw_by_luck as draw_freely_by_luck
from ..sampling import inclusion as free_inclusion
from ..sampling import race_by_luck
from .households import Households
from .laws import Law, along, empty
from .relaxing import Relaxed, relaxed
from .tree import Node, Quota, Tree, checked, planted

__all__ = ["Quota", "Relaxed", "draw", "draw_by_luck", "inclusion", "relaxed"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def inclusion(log_weights: ArrayLike, k: int, quotas: Sequence[Quota]) -> Floats:
    """Probability that each arm is among the k drawn.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights, finite.
    k : int
        Number of arms drawn, 0 <= k <= n.
    quotas : sequence of Quota
        Bounds on sets of arms. Each set that crosses others takes time and memory; a few are cheap.

    Returns
    -------
    ndarray [n]
        Pr(a_i = 1); the chances sum to k. Of two arms in the same sets, the arm of larger weight
        has the larger chance.

    Raises
    ------
    InvalidInput
        A log-weight is not a finite number, k is not between 0 and n, or an arm does not exist.
    Infeasible
        No k arms keep all bounds; the message has the smallest relaxation.

    Examples
    --------
    Two of four arms are drawn, at least one of the last two: five of the six pairs are allowed.

    >>> import softfair as sf
    >>> from softfair.quotas import Quota
    >>> sf.quotas.inclusion([0.0, 0.0, 0.0, 0.0], 2, [Quota([2, 3], least=1)]).round(6)
    array([0.4, 0.4, 0.6, 0.6])
    """
    houses, tree = _problem(log_weights, k, quotas)
    return houses.shared(_chances(tree))


def _chances(tree: Tree) -> Floats:
    """The chance of every arm of a tree."""
    k = tree.root.least
    if tree.free:
        return free_inclusion(tree.z, k, "joint")
    out = np.empty(len(tree.z))
    outside = [tree.crossing.outside(k)]
    for node in reversed(tree.nodes):
        outside += _fill(tree, node, outside.pop(), out)
    total = float(out.sum())
    restore_sum(0, len(out), out, float(k), total, float((out * (1 - out)).sum()))
    return out


def draw(log_weights: ArrayLike, k: int, quotas: Sequence[Quota], rng: np.random.Generator) -> Ints:
    """Draw k arms by the joint design given that all bounds are kept.

    Parameters
    ----------
    log_weights, k, quotas
        See :func:`inclusion`.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray [k]
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput, Infeasible
        See :func:`inclusion`.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> from softfair.quotas import Quota
    >>> household = [Quota([0, 1, 2], most=1)]
    >>> arms = sf.quotas.draw([9.0, 9.0, 9.0, 0.0], 2, household, np.random.default_rng(0))
    >>> len(arms), 3 in arms
    (2, True)
    """
    houses, tree = _problem(log_weights, k, quotas)
    arms = _drawn(tree, rng.random, lambda z, count, _: draw_freely(z, count, rng, "joint"))
    return houses.opened(arms, lambda z, _: int(draw_freely(z, 1, rng, "joint")[0]))


def draw_by_luck(
    log_weights: ArrayLike,
    k: int,
    quotas: Sequence[Quota],
    luck: NDArray[np.uint64],
    coins: Iterator[float],
) -> Ints:
    """As :func:`draw`, where each arm brings its own random numbers.

    Parameters
    ----------
    log_weights, k, quotas
        See :func:`inclusion`.
    luck : ndarray of uint64 [n, 2]
        128 random bits of each arm, see :func:`softfair.sampling.draw_by_luck`.
    coins : iterator of float
        Random numbers between 0 and 1 that decide how many arms come from each set. Two for each
        quota and two more are enough, unless sets cross.

    Returns
    -------
    ndarray [k]
        Indices of the arms, sorted. They do not depend on the order of the arms.

    Raises
    ------
    InvalidInput, Infeasible
        See :func:`inclusion`.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.quotas import Quota, draw_by_luck
    >>> luck = np.random.default_rng(0).integers(0, 2**64, (4, 2), dtype=np.uint64)
    >>> quotas = [Quota([0, 1], least=1, most=1)]
    >>> arms = draw_by_luck([9.0, 9.0, 0.0, 0.0], 2, quotas, luck, iter([0.5, 0.5, 0.5, 0.5]))
    >>> int((arms < 2).sum())
    1
    """
    houses, tree = _problem(log_weights, k, quotas)
    tree_luck = houses.luck(luck)
    arms = _drawn(
        tree,
        lambda: next(coins),
        lambda z, count, cell: draw_freely_by_luck(z, count, tree_luck[cell], "joint"),
    )
    return houses.opened(arms, lambda z, members: int(race_by_luck(z, luck[members])[0]))


def _drawn(
    tree: Tree, coin: Callable[[], float], take: Callable[[Floats, int, Ints], Ints]
) -> Ints:
    """Draw from the tree: ``coin`` decides how many arms come from each set, ``take`` which."""
    root = tree.root
    if tree.free:
        return take(tree.z, root.least, root.arms)
    counts = [_totals(tree, coin)]
    arms: list[Ints] = []
    for node in reversed(tree.nodes):
        counts += _split(node, counts.pop(), coin)
        for cell in reversed(node.cells):
            count = int(counts.pop()[0])
            arms.append(cell.arms[take(tree.z[cell.arms], count, cell.arms)])
    return np.sort(np.concatenate(arms))


def _problem(log_weights: ArrayLike, k: int, quotas: Sequence[Quota]) -> tuple[Households, Tree]:
    """The households, and the tree of the problem in which each household is one arm."""
    z, nodes = checked(log_weights, k, quotas)
    houses = Households.of(z, nodes)
    try:
        tree = planted(houses.z, houses.nodes)
        if not tree.free:
            _grow(tree)
            if not _weights_of_totals(tree).any():
                raise Infeasible("no vector of counts keeps the bounds of all sets that cross")
    except Infeasible as error:
        nearest = ", ".join(str(change) for change in relaxed(len(z), k, quotas))
        raise Infeasible(
            f"no {k} of {len(z)} arms keep all bounds; the smallest relaxation: {nearest}"
        ) from error
    return houses, tree


# ---- laws ----


def _grow(tree: Tree) -> None:
    """Fill in the laws of the parts of every node, the smallest nodes first."""
    no_arms, x = empty(tree.axes), tree.z + tree.crossing.of_arms
    for node in tree.nodes:
        node.parts = [
            sum(child.parts, no_arms).bounded(*child.reach, child.shift + child.tilt)
            for child in node.children
        ]
        for cell in node.cells:
            low, law, _, _ = block_law(x[cell.arms] + (node.above + node.shift))
            node.parts.append(along(low, law, cell.direction))
        node.tilt = _tilt(node)
        node.parts = [part.tilted(node.tilt) for part in node.parts]


def _tilt(node: Node) -> float:
    """The tilt at which the expected counts of the parts sum to within the bounds of the node.

    Bounds make counts smaller or larger than those of independent arms, for which `find_shifts`
    found the shifts. If a node has many children, these differences add up.
    """
    low, high = node.reach
    tilt, down, up = 0.0, -np.inf, np.inf
    for _ in range(100):
        means, variances = zip(*(part.mean(tilt) for part in node.parts), strict=True)
        total, variance = sum(means), sum(variances)
        goal = min(max(total, low), high)
        if abs(total - goal) <= 0.5:
            break
        if total < goal:
            down = tilt
        else:
            up = tilt
        newton = tilt + (goal - total) / max(variance, 1e-3)
        middle = 0.5 * (down + up) if np.isfinite(up - down) else tilt + np.sign(goal - total)
        tilt = float(newton if down < newton < up and abs(newton - tilt) <= 2 else middle)
    return tilt


def _before(parts: list[Law]) -> list[Law]:
    """For each part, the law of the sum of the parts before it."""
    return list(accumulate(parts[:-1], initial=empty(parts[0].weight.ndim)))


def _fill(tree: Tree, node: Node, outside: Law, out: Floats) -> list[Law]:
    """Fill in the chances of the arms of the node itself, given the weight of each of its counts.

    Returns the weight of each count of each child.
    """
    weights = []
    outside = outside.bounded(*node.reach, node.shift + node.tilt)
    for part, before in zip(node.parts[::-1], _before(node.parts)[::-1], strict=True):
        # One row more on either side, for an arm that is divided out. All other rows, which may be
        # many, are cut off before the law is tilted.
        low, rows = part.low - 1, tuple(size + 2 for size in part.weight.shape)
        weights.append(Law(low, outside.minus(before).rows(low, rows)).tilted(node.tilt))
        outside = outside.minus(part)
    weights.reverse()
    for cell in node.cells:
        log_weights = tree.z[cell.arms]
        shifted = (tree.z + tree.crossing.of_arms)[cell.arms] + (node.above + node.shift)
        low, law, q, r = block_law(shifted)
        chance, further = np.empty(len(q)), weights[len(node.children)]
        del weights[len(node.children)]
        counts = np.arange(low, low + len(law) + 1)
        beside = np.array(
            [further.rows(m * cell.direction, (1,) * tree.axes).item() for m in counts]
        )
        block_chances(q, r, law, beside, chance)
        # Rounding may have put chances of nearly equal weights out of order.
        order = np.argsort(log_weights)
        chance[order] = np.maximum.accumulate(chance[order])
        out[cell.arms] = chance
    return weights


def _weights_of_totals(tree: Tree) -> Floats:
    """The weight of each vector of counts that `Crossing.outside` allows."""
    outside = tree.crossing.outside(tree.root.least)
    all_counts = sum(tree.root.parts, empty(tree.axes))
    return all_counts.rows(outside.low, outside.weight.shape) * outside.weight


def _totals(tree: Tree, coin: Callable[[], float]) -> Ints:
    """How many arms are drawn, and how many of them from each crossing set [axes]."""
    if tree.axes == 1:
        return np.array([tree.root.least])
    low = tree.crossing.outside(tree.root.least).low
    return low + _chosen(_weights_of_totals(tree), coin)


def _chosen(weight: Floats, coin: Callable[[], float]) -> Ints:
    """A place in an array, drawn with chances proportional to the weights."""
    sums = np.cumsum(weight)
    assert sums[-1] > 0, "no split of the count keeps all bounds"
    place = int(np.searchsorted(sums, coin() * sums[-1], "right"))
    return np.array(np.unravel_index(place, weight.shape))


def _split(node: Node, count: Ints, coin: Callable[[], float]) -> list[Ints]:
    """Draw how many of the ``count`` arms of a node come from each of its parts."""
    counts = []
    for part, before in zip(node.parts[::-1], _before(node.parts)[::-1], strict=True):
        shape = part.weight.shape
        rest = np.flip(before.rows(count - part.low - shape + 1, shape))  # weights of parts before
        counts.append(part.low + _chosen(part.weight * rest, coin))
        count = count - counts[-1]
    return counts[::-1]
