"""Sets of arms with bounds as a tree, and beside it the sets that cross it.

Of two sets in the tree one holds the other, or they have no arm in common. The number of arms taken
from a branch then has a law that follows from the laws of its twigs. Sets that cross others are
kept beside the tree, as few as may be, and laws count their arms along with the branch's. A set and
all other arms are counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import Infeasible, InvalidInput, refuse, whole
from ..kernels.quotas import find_shifts
from .laws import Law

__all__ = ["Cell", "Crossing", "Node", "Quota", "Tree", "branches", "checked", "planted"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEW = 8  # children that a node may have: more are bundled, so that no law is built link by link
ROUGHLY = 0.5  # standard deviations by which a crossing set may be off its bounds in expectation
SWEEPS, HALVINGS = 10, 80  # of the search for shifts of crossing sets


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


@dataclass(frozen=True, eq=False)
class Cell:
    """Arms of a node that are in the same crossing sets."""

    arms: Ints
    direction: Ints  # [axes] 1, and then 1 for each crossing set that they are in


@dataclass(eq=False)
class Node:
    """A set of the tree; the root holds all arms."""

    name: str
    arms: Ints
    least: int
    most: int
    own: Ints  # arms that are in no smaller set
    children: list[Node] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)  # of its own arms
    shift: float = 0.0  # of the log-weights of all its arms
    above: float = 0.0  # the sum of the shifts of the sets that hold it
    tilt: float = 0.0  # a further shift, of the laws of the parts alone
    parts: list[Law] = field(default_factory=list)  # of its children, then of its cells
    reach: tuple[int, int] = (0, 0)  # fewest and most arms that can be taken, its bounds kept


@dataclass(frozen=True, eq=False)
class Crossing:
    """The sets beside the tree."""

    member: NDArray[np.bool_]  # [sets, n]
    least: Ints  # [sets]
    most: Ints
    shift: Floats  # of the log-weights of the arms of each

    @property
    def of_arms(self) -> Floats:
        """What the log-weight of each arm is shifted by [n]."""
        return self.shift @ self.member

    def outside(self, k: int) -> Law:
        """The weight of each vector of counts of k arms: within the bounds, the shifts undone."""
        counts = [np.arange(a, b + 1) for a, b in zip(self.least, self.most, strict=True)]
        logs = np.zeros((1,) * (1 + len(counts)))
        for axis, (count, shift) in enumerate(zip(counts, self.shift, strict=True)):
            shape = [1] * (1 + len(counts))
            shape[axis + 1] = len(count)
            logs = logs - (shift * count).reshape(shape)
        low = np.array([k, *(count[0] for count in counts)], np.int64)
        return Law(low, np.exp(logs - logs.max()))


@dataclass(frozen=True, eq=False)
class Tree:
    """A problem of drawing: log-weights, and bounds."""

    z: Floats  # [n]
    nodes: list[Node]  # each after those below it; the last is the root
    crossing: Crossing

    @property
    def root(self) -> Node:
        """All arms."""
        return self.nodes[-1]

    @property
    def free(self) -> bool:
        """Whether there are no bounds but k."""
        return not self.root.children and not len(self.crossing.least)

    @property
    def axes(self) -> int:
        """Of every law."""
        return 1 + len(self.crossing.least)


def checked(log_weights: ArrayLike, k: int, quotas: Sequence[Quota]) -> tuple[Floats, list[Node]]:
    """The log-weights, and the sets whose bounds matter as nodes without children; first the root.

    Raises
    ------
    InvalidInput
        A log-weight is not a finite number, k is not between 0 and n, or an arm does not exist.
    """
    z = np.asarray(log_weights, dtype=np.float64)
    if z.ndim != 1 or not len(z):
        raise InvalidInput(f"log-weights have shape {z.shape}; give one number an arm, n >= 1")
    refuse(~np.isfinite(z), z, "log_weights", "give a finite number for each arm")
    n = len(z)
    k = whole("k", k, 0, n, f", the arms are {n}")
    nodes = [_checked(quota, j, n) for j, quota in enumerate(quotas)]
    # Bounds that any k arms keep do not need a branch.
    return z, [
        Node("all arms", np.arange(n), k, k, np.arange(n)),
        *(
            node
            for node in nodes
            if node.least > max(0, k - (n - len(node.arms))) or node.most < min(k, len(node.arms))
        ),
    ]


def _checked(quota: Quota, place: int, n: int) -> Node:
    """The quota as a node without children."""
    name = quota.name or f"set {place}"
    arms = np.unique(np.asarray(quota.arms, dtype=np.int64))
    if len(arms) != np.size(quota.arms):
        raise InvalidInput(f"{name} names an arm twice; name each once")
    refuse((arms < 0) | (arms >= n), arms, name, f"give indices between 0 and {n - 1}")
    size = len(arms)
    least = whole(f"least of {name}", quota.least, 0)
    most = size if quota.most is None else whole(f"most of {name}", quota.most, 0)
    return Node(name, arms, least, min(most, size), arms)


def planted(z: Floats, nodes: Sequence[Node]) -> Tree:
    """The nodes, of which the first is the root, as a tree with what crosses it.

    Raises
    ------
    Infeasible
        A branch cannot have as many arms as it should.
    """
    root, *others = nodes
    beside = _beside(others, len(z))
    apart = {id(node) for node in beside}
    _plant(sorted((node for node in others if id(node) not in apart), key=_size), root)
    crossing = _crossing(beside, len(z), root.least)
    for node in branches(root):
        _reach(node)
        if len(node.children) > FEW:
            node.children = _bundled(node.children)
        patterns, which = np.unique(crossing.member[:, node.own].T, axis=0, return_inverse=True)
        node.cells = [
            Cell(node.own[which.ravel() == j], np.concatenate([[1], pattern.astype(np.int64)]))
            for j, pattern in enumerate(patterns)
        ]
    nodes = branches(root)
    return Tree(z, nodes, _shifted(z, nodes, crossing))


def _size(node: Node) -> int:
    return len(node.arms)


def _beside(nodes: Sequence[Node], n: int) -> list[Node]:
    """Those of the nodes that are not in the tree: one after another who crosses most others."""
    # Of sets that nobody may be taken twice from there can be very many; they have no arm in common
    # and stay in the tree.
    single = [node for node in nodes if node.most == 1 and node.least == 0]
    house = np.full(n, -1)
    for j, node in enumerate(single):
        house[node.arms] = j
    apart = sum(len(node.arms) for node in single) == np.count_nonzero(house >= 0)
    large = [node for node in nodes if not apart or node.most != 1 or node.least]
    member = np.zeros((len(large), n))
    for row, node in zip(member, large, strict=True):
        row[node.arms] = 1
    shared, size = member @ member.T, member.sum(axis=1)
    crosses = (shared > 0) & (shared < size) & (shared < size[:, None])
    divided = np.zeros(len(large))
    if apart and single:
        sizes = np.array([len(node.arms) for node in single])
        for j, node in enumerate(large):
            inside = np.bincount(house[node.arms][house[node.arms] >= 0], minlength=len(single))
            divided[j] = np.count_nonzero((inside > 0) & (inside < sizes) & (inside < size[j]))
    beside = []
    while (many := crosses.sum(axis=1) + divided).any():
        worst = int(np.argmax(many))
        beside.append(large[worst])
        crosses[worst] = crosses[:, worst] = False
        divided[worst] = 0
    return beside


def _crossing(beside: Sequence[Node], n: int, k: int) -> Crossing:
    """The sets beside the tree, a set and all other arms as one."""
    bounds: dict[bytes, tuple[NDArray[np.bool_], int, int]] = {}
    for node in beside:
        member = np.isin(np.arange(n), node.arms)
        least, most = node.least, min(node.most, k)
        if (~member).tobytes() in bounds:
            member, least, most = ~member, max(0, k - most), k - least
        if (key := member.tobytes()) in bounds:
            _, low, high = bounds[key]
            least, most = max(least, low), min(most, high)
        if least > most:
            raise Infeasible(f"{node.name}: it should have at least {least} and at most {most}")
        bounds[key] = member, least, most
    distinct = list(bounds.values())
    return Crossing(
        np.array([member for member, _, _ in distinct], bool).reshape(len(distinct), n),
        np.array([low for _, low, _ in distinct], np.int64),
        np.array([high for _, _, high in distinct], np.int64),
        np.zeros(len(distinct)),
    )


def _plant(nodes: list[Node], root: Node) -> None:
    """Hang every node, smaller ones first, below the smallest that holds it."""
    owner = np.full(len(root.arms), -1)  # the largest set so far that holds the arm
    for number, node in enumerate([*nodes, root]):
        below = np.unique(owner[node.arms])
        node.children = [nodes[b] for b in below[below >= 0]]
        node.own = node.arms[owner[node.arms] < 0]
        owner[node.arms] = number


def _bundled(children: list[Node]) -> list[Node]:
    """At most FEW nodes in place of many: bundles of bundles, without bounds of their own."""
    while len(children) > FEW:
        bundles = [children[first : first + FEW] for first in range(0, len(children), FEW)]
        children = [_bundle(some) if len(some) > 1 else some[0] for some in bundles]
    return children


def _bundle(children: list[Node]) -> Node:
    arms = np.concatenate([child.arms for child in children])
    low, high = (sum(child.reach[end] for child in children) for end in (0, 1))
    none = np.empty(0, np.int64)
    return Node("", arms, low, high, none, children, reach=(low, high))


def branches(root: Node) -> list[Node]:
    """All nodes, each after those below it; the last child's branch stands last."""
    nodes, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting += node.children
    return nodes[::-1]


def _reach(node: Node) -> None:
    """Fill in how many arms can be taken from a branch, and refuse what cannot be."""
    fewest = sum(child.reach[0] for child in node.children)
    most = sum(child.reach[1] for child in node.children) + len(node.own)
    node.reach = max(fewest, node.least), min(most, node.most)
    if node.reach[0] > node.reach[1]:
        raise Infeasible(f"{node.name}: between {node.least} and {node.most} cannot be taken")


@dataclass(frozen=True, eq=False)
class _Flat:
    """The nodes of a tree as arrays, each after those below it, for `find_shifts`."""

    arms: Ints  # [n] of all nodes, one node's own after the other's
    begin: Ints  # [nodes + 1] where those of each begin
    first: Ints  # [nodes] the first of each branch
    parent: Ints  # [nodes]
    least: Floats  # [nodes] fewest and most arms that can be taken from each branch
    most: Floats

    @classmethod
    def of(cls, nodes: list[Node]) -> _Flat:
        number = {id(node): j for j, node in enumerate(nodes)}
        parent = np.zeros(len(nodes), np.int64)
        first = np.arange(len(nodes))
        for j, node in enumerate(nodes):
            for child in node.children:
                below = number[id(child)]
                parent[below] = j
                first[j] = min(first[j], first[below])
        begin = np.cumsum([0, *(len(node.own) for node in nodes)])
        least, most = (np.array([node.reach[end] for node in nodes], float) for end in (0, 1))
        return cls(np.concatenate([one.own for one in nodes]), begin, first, parent, least, most)

    def shifts(self, z: Floats) -> tuple[Floats, Floats]:
        """Of each node the sum of the shifts of those that hold it, and its own [nodes]."""
        both = np.zeros(len(self.parent))
        find_shifts(z[self.arms], self.begin, self.first, self.parent, self.least, self.most, both)
        above = both[self.parent]
        above[-1] = 0.0
        return above, both - above

    def chances(self, z: Floats) -> Floats:
        """Chances [n] of arms that keep the bounds of the tree in expectation, roughly.

        At most one of some arms is kept exactly.
        """
        above, shift = self.shifts(z)
        single = (self.least == 0) & (self.most == 1) & (self.first == np.arange(len(shift)))
        size = np.diff(self.begin)
        x = z[self.arms] + np.repeat(above + np.where(single, 0.0, shift), size)
        q = 1 / (1 + np.exp(-np.clip(x, -700.0, 700.0)))
        if (inside := np.repeat(single, size)).any():
            begin, house = np.cumsum(size[single]) - size[single], size[single]
            top = np.maximum(np.maximum.reduceat(x[inside], begin), 0.0)
            odds = np.exp(x[inside] - np.repeat(top, house))
            q[inside] = odds / np.repeat(np.exp(-top) + np.add.reduceat(odds, begin), house)
        out = np.empty(len(z))
        out[self.arms] = q
        return out


def _shifted(z: Floats, nodes: list[Node], crossing: Crossing) -> Crossing:
    """Shift the log-weights of every set so that arms keep its bounds in expectation, roughly.

    Any shifts leave the law as it is; these keep its numbers in range.
    """
    if len(nodes) == 1 and not len(crossing.least):
        return crossing
    flat = _Flat.of(nodes)
    for _ in range(SWEEPS):
        before = crossing.shift
        for j in range(len(before)):
            crossing = _shift_one(z, flat, crossing, j)
        if np.array_equal(before, crossing.shift):
            break
    for node, above, shift in zip(nodes, *flat.shifts(z + crossing.of_arms), strict=True):
        node.above, node.shift = float(above), float(shift)
    return crossing


def _shift_one(z: Floats, flat: _Flat, crossing: Crossing, j: int) -> Crossing:
    """The crossing sets, j shifted so that it is roughly within its bounds.

    A set that is within them unshifted is not shifted, any other to the bound that it was beyond:
    shifted further, its numbers would be far from those that a draw takes. The expected count rises
    with the shift: steps that grow until it is known from both sides, then halves.
    """
    bounds = float(crossing.least[j]), float(crossing.most[j])
    if _short(z, flat, crossing, j, *bounds)[1]:
        return crossing
    low, high, step = -np.inf, np.inf, 1.0
    crossing = _with_shift(crossing, j, 0.0)
    short, near = _short(z, flat, crossing, j, *bounds)
    goal = bounds[0] if short > 0 else bounds[1]
    for _ in range(HALVINGS):
        if near:
            break
        shift = float(crossing.shift[j])
        low, high = (shift, high) if short > 0 else (low, shift)
        known = np.isfinite(high - low)
        shift = 0.5 * (low + high) if known else shift + float(np.copysign(step, short))
        step *= 2.0
        crossing = _with_shift(crossing, j, shift)
        short, near = _short(z, flat, crossing, j, goal, goal)
    return crossing


def _with_shift(crossing: Crossing, j: int, shift: float) -> Crossing:
    shifts = crossing.shift.copy()
    shifts[j] = shift
    return replace(crossing, shift=shifts)


def _short(
    z: Floats, flat: _Flat, crossing: Crossing, j: int, least: float, most: float
) -> tuple[float, bool]:
    """What crossing set j lacks of its bounds in expectation, and whether that is next to nothing.

    A set that is shifted should be at the bound that it was shifted to.
    """
    q = flat.chances(z + crossing.of_arms)[crossing.member[j]]
    count, shift = float(q.sum()), crossing.shift[j]
    if shift:
        least = most = least if shift > 0 else most
    short = min(max(count, least), most) - count
    return short, abs(short) <= ROUGHLY * max(1.0, float(np.sqrt((q * (1 - q)).sum())))
