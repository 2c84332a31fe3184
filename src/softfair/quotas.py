"""Draw k of n arms when the numbers taken from some sets of arms have bounds.

The law is the joint design of :mod:`softfair.sampling` given that every bound is kept: Pr(set) is
proportional to the product of the weights of its members, over all sets of k arms that keep all
bounds. So it is the softmax over the joint actions that are allowed, and of two such sets none is
favoured over one with a larger sum of log-weights.

The sets must be laminar: of any two, one holds the other or they have no arm in common. They form a
tree then, and the number of arms taken from a branch has a law that follows from the laws of its
twigs by convolution. The law is exact, and so are the chances (1e-10). With d arms the standard
deviation of the count of a branch, the work is of the order of n d and the memory O(n).

How numbers stay in range: the log-weights of the arms of each set are shifted by a number of its
own, so that independent arms would keep all bounds in expectation, and the law of the set's count
is multiplied by the inverse. That leaves the law of the draw as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import Infeasible, InvalidInput, refuse, whole
from .kernels.inclusion import restore_sum
from .kernels.quotas import block_chances, block_law, find_shifts
from .sampling import draw as draw_freely
from .sampling import draw_by_luck as draw_freely_by_luck
from .sampling import inclusion as free_inclusion

__all__ = ["Quota", "draw", "draw_by_luck", "inclusion"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DUST = 1e-25  # a row of the law of a count that holds less is dropped


@dataclass(frozen=True, eq=False)
class Quota:
    """Bounds on how many of a set of arms are drawn.

    Parameters
    ----------
    arms : array_like of int
        Indices of the arms, each once.
    least, most : int
        At least and at most so many of them; None means that there is no upper bound.
    name : str
        What messages call the set.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.quotas.Quota([0, 3], most=1, name="household 7").most
    1
    """

    arms: ArrayLike
    least: int = 0
    most: int | None = None
    name: str = ""


@dataclass(eq=False)
class _Node:
    """A set of the tree; the root holds all arms."""

    name: str
    arms: Ints
    least: int
    most: int
    own: Ints  # arms that are in no smaller set
    children: list[_Node] = field(default_factory=list)
    shift: float = 0.0  # of the log-weights of all its arms
    above: float = 0.0  # the sum of the shifts of the sets that hold it
    tilt: float = 0.0  # a further shift, of the laws of the parts alone
    parts: list[_Law] = field(default_factory=list)  # of its children, then of its own arms
    reach: tuple[int, int] = (0, 0)  # fewest and most arms that can be taken, its bounds kept


@dataclass(frozen=True, eq=False)
class _Law:
    """Weights of the counts low, low + 1, ..., up to a factor."""

    low: int
    weight: Floats

    def __add__(self, other: _Law) -> _Law:
        """The law of the sum of two independent counts."""
        return _trimmed(self.low + other.low, np.convolve(self.weight, other.weight))

    def minus(self, other: _Law) -> _Law:
        """sum over m of other(m) self(a + m), as a function of a."""
        low = self.low - other.low - len(other.weight) + 1
        return _trimmed(low, np.convolve(self.weight, other.weight[::-1]))

    def tilted(self, tilt: float) -> _Law:
        """The weights times exp(tilt count)."""
        if tilt == 0:
            return self
        logs = tilt * np.arange(len(self.weight))
        return _trimmed(self.low, self.weight * np.exp(logs - logs.max()))

    def mean(self, tilt: float) -> tuple[float, float]:
        """Mean and variance of the count, if weights are multiplied by exp(tilt count)."""
        rows = np.arange(len(self.weight))
        logs = tilt * rows
        weight = self.weight * np.exp(logs - logs.max())
        weight /= weight.sum()
        mean = float(weight @ rows)
        return self.low + mean, float(weight @ (rows - mean) ** 2)

    def rows(self, low: int, count: int) -> Floats:
        """The weights of counts low, ..., low + count - 1; 0 beyond those kept."""
        out = np.zeros(count)
        first, last = max(low, self.low), min(low + count, self.low + len(self.weight))
        if last > first:
            out[first - low : last - low] = self.weight[first - self.low : last - self.low]
        return out


EMPTY = _Law(0, np.ones(1))  # the count of no arms


def inclusion(log_weights: ArrayLike, k: int, quotas: Sequence[Quota]) -> Floats:
    """Probability that each arm is among the k drawn.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights, finite.
    k : int
        Number of arms drawn, 0 <= k <= n.
    quotas : sequence of Quota
        Bounds on sets of arms, any two of which are nested or apart.

    Returns
    -------
    ndarray [n]
        Pr(a_i = 1); it sums to k. Of two arms in the same sets, the one of larger weight has the
        larger chance.

    Raises
    ------
    InvalidInput
        A log-weight is not a finite number, k is not between 0 and n, an arm does not exist, or
        two sets cross.
    Infeasible
        No k arms keep all bounds.

    Examples
    --------
    Two of four arms, at least one of the last two: of the six pairs, one is not allowed.

    >>> import softfair as sf
    >>> from softfair.quotas import Quota
    >>> sf.quotas.inclusion([0.0, 0.0, 0.0, 0.0], 2, [Quota([2, 3], least=1)]).round(6)
    array([0.4, 0.4, 0.6, 0.6])
    """
    z, root = _tree(log_weights, k, quotas)
    if not root.children:
        return free_inclusion(z, root.least, "joint")
    nodes = _branches(root)
    _find_shifts(z, nodes)
    _grow(z, nodes)
    out = np.empty(len(z))
    outside = [_Law(root.least, np.ones(1))]
    for node in reversed(nodes):
        outside += _fill(z, node, outside.pop(), out)
    total = float(out.sum())
    restore_sum(0, len(z), out, float(root.least), total, float((out * (1 - out)).sum()))
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
    return _drawn(
        *_tree(log_weights, k, quotas),
        rng.random,
        lambda z, count, _: draw_freely(z, count, rng, "joint"),
    )


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
        Random numbers between 0 and 1 that decide how many arms come from each set, at most two
        for each quota and two more.

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
    >>> one = [Quota([0, 1], least=1, most=1)]
    >>> arms = draw_by_luck([9.0, 9.0, 0.0, 0.0], 2, one, luck, iter([0.5, 0.5, 0.5, 0.5]))
    >>> int((arms < 2).sum())
    1
    """
    return _drawn(
        *_tree(log_weights, k, quotas),
        lambda: next(coins),
        lambda z, count, arms: draw_freely_by_luck(z, count, luck[arms], "joint"),
    )


def _drawn(
    z: Floats,
    root: _Node,
    coin: Callable[[], float],
    take: Callable[[Floats, int, Ints], Ints],
) -> Ints:
    """Draw from the tree: a coin says how many come from each set, ``take`` says which."""
    if not root.children:
        return take(z, root.least, root.arms)
    nodes = _branches(root)
    _find_shifts(z, nodes)
    _grow(z, nodes)
    arms: list[Ints] = []
    counts = [root.least]
    for node in reversed(nodes):
        counts += _split(node, counts.pop(), coin)
        if len(node.own):
            arms.append(node.own[take(z[node.own], counts.pop(), node.own)])
    return np.sort(np.concatenate(arms))


# ---- the tree ----


def _tree(log_weights: ArrayLike, k: int, quotas: Sequence[Quota]) -> tuple[Floats, _Node]:
    """The log-weights, and the sets whose bounds matter as a tree."""
    z = np.asarray(log_weights, dtype=np.float64)
    if z.ndim != 1 or not len(z):
        raise InvalidInput(f"log-weights have shape {z.shape}; give one number an arm, n >= 1")
    refuse(~np.isfinite(z), z, "log_weights", "give a finite number for each arm")
    n = len(z)
    k = whole("k", k, 0, n, f", the arms are {n}")
    nodes = [_checked(quota, j, n) for j, quota in enumerate(quotas)]
    # Bounds that any k arms keep do not need a branch.
    nodes = [
        node
        for node in nodes
        if node.least > max(0, k - (n - len(node.arms))) or node.most < min(k, len(node.arms))
    ]
    root = _Node("all arms", np.arange(n), k, k, np.arange(n))
    _plant(sorted(nodes, key=lambda node: len(node.arms)), root)
    for node in _branches(root):
        _reach(node)
    return z, root


def _checked(quota: Quota, place: int, n: int) -> _Node:
    """The quota as a node without children."""
    name = quota.name or f"set {place}"
    arms = np.unique(np.asarray(quota.arms, dtype=np.int64))
    if len(arms) != np.size(quota.arms):
        raise InvalidInput(f"{name} names an arm twice; name each once")
    refuse((arms < 0) | (arms >= n), arms, name, f"give indices between 0 and {n - 1}")
    size = len(arms)
    least = whole(f"least of {name}", quota.least, 0)
    most = size if quota.most is None else whole(f"most of {name}", quota.most, 0)
    return _Node(name, arms, least, min(most, size), arms)


def _plant(nodes: list[_Node], root: _Node) -> None:
    """Hang every node, smaller ones first, below the smallest that holds it."""
    owner = np.full(len(root.arms), -1)  # the largest set so far that holds the arm
    for number, node in enumerate([*nodes, root]):
        below, shared = np.unique(owner[node.arms], return_counts=True)
        shared, below = shared[below >= 0], below[below >= 0]
        for b, count in zip(below, shared, strict=True):
            if count < len(nodes[b].arms):
                raise InvalidInput(
                    f"{nodes[b].name} and {node.name} cross: each holds arms that the other does "
                    "not; exact draws need sets that are nested or apart"
                )
        node.children = [nodes[b] for b in below]
        node.own = node.arms[owner[node.arms] < 0]
        owner[node.arms] = number


def _branches(root: _Node) -> list[_Node]:
    """All nodes, each after those below it; the last child's branch stands last."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += node.children
    return found[::-1]


def _reach(node: _Node) -> None:
    """Fill in how many arms can be taken from a branch, and refuse what cannot be."""
    fewest = sum(child.reach[0] for child in node.children)
    most = sum(child.reach[1] for child in node.children) + len(node.own)
    node.reach = max(fewest, node.least), min(most, node.most)
    if node.reach[0] > node.reach[1]:
        if fewest > node.most:
            raise Infeasible(
                f"{node.name}: its parts need at least {fewest}, but it may have {node.most}; "
                f"allow {fewest}, or ask for {fewest - node.most} fewer"
            )
        raise Infeasible(
            f"{node.name}: it should have at least {node.least}, but no more than {most} can be "
            f"taken from it; ask for {most} or fewer"
        )


# ---- laws ----


def _trimmed(low: int, weight: Floats) -> _Law:
    """The law scaled to a largest weight of 1, without the rows at either end that are dust."""
    top = float(weight.max())
    if not top > 0:
        return _Law(low, np.zeros(1))
    kept = np.flatnonzero(weight > DUST * top)
    return _Law(low + int(kept[0]), weight[kept[0] : kept[-1] + 1] / top)


def _find_shifts(z: Floats, nodes: list[_Node]) -> None:
    """Shift the log-weights of every set so that independent arms keep its bounds, roughly.

    Any shifts leave the law as it is; these keep its numbers in range.
    """
    number = {id(node): j for j, node in enumerate(nodes)}
    parent = np.zeros(len(nodes), np.int64)
    first = np.arange(len(nodes))  # of the nodes of each branch
    for j, node in enumerate(nodes):
        for child in node.children:
            below = number[id(child)]
            parent[below] = j
            first[j] = min(first[j], first[below])
    begin = np.cumsum([0, *(len(node.own) for node in nodes)])
    x = z[np.concatenate([node.own for node in nodes])]
    least, most = (np.array([node.reach[end] for node in nodes], float) for end in (0, 1))
    shifts = np.zeros(len(nodes))
    find_shifts(x, begin, first, parent, least, most, shifts)
    for j, node in enumerate(nodes):
        above = shifts[parent[j]] if node is not nodes[-1] else 0.0
        node.above, node.shift = float(above), float(shifts[j] - above)


def _grow(z: Floats, nodes: list[_Node]) -> None:
    """Fill in the laws of every node's parts, the smallest nodes first."""
    for node in nodes:
        node.parts = [_bounded(sum(child.parts, EMPTY), child) for child in node.children]
        if len(node.own):
            low, law, _, _ = block_law(z[node.own] + (node.above + node.shift))
            node.parts.append(_Law(low, law))
        node.tilt = _tilt(node)
        node.parts = [part.tilted(node.tilt) for part in node.parts]


def _tilt(node: _Node) -> float:
    """The tilt at which the counts of the parts sum to within the node's bounds.

    Bounds make counts smaller or larger than those of independent arms, for which `find_shifts`
    found its shifts. That adds up where a node has many children.
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


def _bounded(law: _Law, node: _Node) -> _Law:
    """The law within the bounds of the node, without the factor exp(shift count)."""
    low, high = node.reach
    counts = np.arange(low, high + 1)
    with np.errstate(divide="ignore"):
        logs = np.log(law.rows(low, len(counts))) - (node.shift + node.tilt) * counts
    return _trimmed(low, np.exp(logs - logs.max()))


def _before(parts: list[_Law]) -> list[_Law]:
    """The law of the sum of the parts before each of them."""
    return list(accumulate(parts[:-1], initial=EMPTY))


def _fill(z: Floats, node: _Node, outside: _Law, out: Floats) -> list[_Law]:
    """Fill in the chances of the node's own arms, given the weight of each count of the node.

    Returns the weight of each count of each child.
    """
    weights = []
    outside = _bounded(outside, node)
    for part, before in zip(node.parts[::-1], _before(node.parts)[::-1], strict=True):
        # One row to either side, for an arm that is divided out. What is beyond must not be there
        # when the law is tilted: it is far wider than the part's own.
        low, rows = part.low - 1, len(part.weight) + 2
        weights.append(_Law(low, outside.minus(before).rows(low, rows)).tilted(node.tilt))
        outside = outside.minus(part)
    weights.reverse()
    if len(node.own):
        own = z[node.own]
        low, law, q, r = block_law(own + (node.above + node.shift))
        chance = np.empty(len(q))
        block_chances(q, r, law, weights.pop().rows(low, len(law) + 1), chance)
        # Rounding may have put chances of nearly equal weights out of order.
        order = np.argsort(own)
        chance[order] = np.maximum.accumulate(chance[order])
        out[node.own] = chance
    return weights


def _split(node: _Node, count: int, coin: Callable[[], float]) -> list[int]:
    """How many of the ``count`` arms drawn from a node come from each of its parts."""
    taken = []
    for part, before in zip(node.parts[::-1], _before(node.parts)[::-1], strict=True):
        low, size = part.low, len(part.weight)
        rest = before.rows(count - low - size + 1, size)[::-1]  # of the count of those before
        sums = np.cumsum(part.weight * rest)
        assert sums[-1] > 0, "no split of the count keeps all bounds"
        taken.append(low + int(np.searchsorted(sums, coin() * sums[-1], "right")))
        count -= taken[-1]
    return taken[::-1]
