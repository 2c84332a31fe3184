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

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import Infeasible, InvalidInput, refuse, whole
from .kernels.inclusion import restore_sum
from .kernels.quotas import block_chances, block_law
from .kernels.rules import RuleCode
from .kernels.shift import shift
from .sampling import draw as draw_freely
from .sampling import inclusion as free_inclusion

__all__ = ["Quota", "draw", "inclusion"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEAR = 0.25  # how far outside its bounds the expected count of independent arms is put
FAR = 1.0  # and how far outside it may end up when other sets have been shifted
DUST = 1e-25  # a row of the law of a count that holds less is dropped
SWEEPS = 60  # over all sets, of the search for their shifts


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
    z, root = _tree(log_weights, k, quotas)
    if not root.children:
        return draw_freely(z, root.least, rng, "joint")
    nodes = _branches(root)
    _find_shifts(z, nodes)
    _grow(z, nodes)
    arms: list[Ints] = []
    counts = [root.least]
    for node in reversed(nodes):
        counts += _split(node, counts.pop(), rng)
        if len(node.own):
            arms.append(node.own[draw_freely(z[node.own], counts.pop(), rng, "joint")])
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
    n = len(root.arms)
    owner = np.full(n, -1)  # the largest set so far that holds the arm
    for number, node in enumerate([*nodes, root]):
        below = np.unique(owner[node.arms])
        below = below[below >= 0]
        held = np.isin(owner, below)
        if held.sum() > np.isin(node.arms, np.flatnonzero(held)).sum():
            inside = np.bincount(owner[node.arms] + 1, minlength=number + 1)[1:]
            other = nodes[next(b for b in below if inside[b] < np.count_nonzero(owner == b))]
            raise InvalidInput(
                f"{other.name} and {node.name} cross: each holds arms that the other does not; "
                "exact draws need sets that are nested or apart, softfair.crossing draws the rest"
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

    One set after another gets the shift that its own bounds need, given those of all others, until
    nothing is far outside its bounds. Any shifts leave the law as it is.
    """
    x = z.copy()
    for _ in range(SWEEPS):
        excess = 0.0  # how far a count was outside its bounds when its turn came
        for node in nodes:
            low, high = node.reach
            here = x[node.arms]
            expected = float(np.sum(0.5 + 0.5 * np.tanh(0.5 * here)))
            excess = max(excess, low - expected, expected - high)
            bare = here - node.shift
            if node.shift != 0:
                expected = float(np.sum(0.5 + 0.5 * np.tanh(0.5 * bare)))
            new = 0.0
            if expected < low - NEAR:
                new = _shift_to(bare, low - NEAR)
            elif expected > high + NEAR:
                new = _shift_to(bare, high + NEAR)
            x[node.arms] += new - node.shift
            node.shift = new
        if excess <= FAR:
            break


def _shift_to(x: Floats, count: float) -> float:
    """What must be added to all x for independent arms of chance sigmoid(x) to sum to count."""
    top = float(x.max())
    guess = float(np.log(count / (len(x) - count)))
    u: float = shift(x, top, count, int(RuleCode.JOINT), guess, 0.1)
    return u - top


def _grow(z: Floats, nodes: list[_Node]) -> None:
    """Fill in the laws of every node's parts, the smallest nodes first."""
    for node in reversed(nodes):
        for child in node.children:
            child.above = node.above + node.shift
    for node in nodes:
        node.parts = [_bounded(sum(child.parts, EMPTY), child) for child in node.children]
        if len(node.own):
            low, law, _, _ = block_law(z[node.own] + (node.above + node.shift))
            node.parts.append(_Law(low, law))


def _bounded(law: _Law, node: _Node) -> _Law:
    """The law within the bounds of the node, without the factor exp(shift count)."""
    low, high = node.reach
    counts = np.arange(low, high + 1)
    with np.errstate(divide="ignore"):
        logs = np.log(law.rows(low, len(counts))) - node.shift * counts
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
        weights.append(outside.minus(before))
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


def _split(node: _Node, count: int, rng: np.random.Generator) -> list[int]:
    """How many of the ``count`` arms drawn from a node come from each of its parts."""
    taken = []
    for part, before in zip(node.parts[::-1], _before(node.parts)[::-1], strict=True):
        low, size = part.low, len(part.weight)
        rest = before.rows(count - low - size + 1, size)[::-1]  # of the count of those before
        sums = np.cumsum(part.weight * rest)
        taken.append(low + int(np.searchsorted(sums, rng.random() * sums[-1], "right")))
        count -= taken[-1]
    return taken[::-1]
