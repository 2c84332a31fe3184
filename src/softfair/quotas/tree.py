"""Sets of arms with bounds as a tree, and the sets that cross the tree.

Of two sets in the tree, one contains the other, or they have no arm in common. The law of the
number of arms drawn from a branch then follows from the laws of the branches below. Sets that cross
others are kept beside the tree, as few as possible, and laws count the arms of these sets as well.
A set and its complement need only one count.
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

FEW = 8  # most children of a node; more are bundled, because adding laws one by one takes longer
ROUGHLY = 0.5  # standard deviations by which a crossing set may miss its bounds in expectation
SWEEPS, HALVINGS = 10, 80  # most steps of the search for shifts of crossing sets


@dataclass(frozen=True, eq=False)
class Quota:
    """Bounds on the number of arms that are drawn from a set.

    Parameters
    ----------
    arms : array_like of int
        Indices of the arms, each once.
    least, most : int
        The lower and the upper bound; None means that there is no upper bound.
    name : str
        The name of the set in messages.

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
    direction: Ints  # [axes] 1, and then 1 for each crossing set that contains them, else 0


@dataclass(eq=False)
class Node:
    """A set of the tree; the root contains all arms."""

    name: str
    arms: Ints
    least: int
    most: int
    own: Ints  # arms that are in no smaller set
    children: list[Node] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)  # the cells of ``own``
    shift: float = 0.0  # added to the log-weights of all arms of the set
    above: float = 0.0  # the sum of the shifts of the sets that contain this one
    tilt: float = 0.0  # a further shift, which only the laws of the parts have
    parts: list[Law] = field(default_factory=list)  # laws of the children, then of the cells
    reach: tuple[int, int] = (0, 0)  # fewest and most arms that can be drawn within all bounds


@dataclass(frozen=True, eq=False)
class Crossing:
    """The sets beside the tree."""

    member: NDArray[np.bool_]  # [sets, n]
    least: Ints  # [sets]
    most: Ints
    shift: Floats  # [sets] added to the log-weights of the arms of each set

    @property
    def of_arms(self) -> Floats:
        """The sum of the shifts of each arm [n]."""
        return self.shift @ self.member

    def outside(self, k: int) -> Law:
        """The weight of each vector of counts of k arms within the bounds, which undoes shifts."""
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
    """The log-weights and the bounds of a draw."""

    z: Floats  # [n] log-weights
    nodes: list[Node]  # each node after the nodes below it; the last is the root
    crossing: Crossing

    @property
    def root(self) -> Node:
        """The node of all arms."""
        return self.nodes[-1]

    @property
    def free(self) -> bool:
        """Whether k is the only bound."""
        return not self.root.children and not len(self.crossing.least)

    @property
    def axes(self) -> int:
        """The number of axes of every law."""
        return 1 + len(self.crossing.least)


def checked(log_weights: ArrayLike, k: int, quotas: Sequence[Quota]) -> tuple[Floats, list[Node]]:
    """The log-weights, and nodes without children: the root, then each set whose bounds matter.

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
    # Bounds that any k arms keep need no node.
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
    """The tree of the nodes, of which the first is the root, and the sets that cross it.

    Raises
    ------
    Infeasible
        The bounds of a branch exclude each other.
    """
    root, *others = nodes
    beside = _beside(others, len(z))
    crossing_ids = {id(node) for node in beside}
    _plant(sorted((node for node in others if id(node) not in crossing_ids), key=_size), root)
    crossing = _crossing(beside, len(z), root.least)
    for node in branches(root):
        _reach(node)
        if len(node.children) > FEW:
            node.children = _bundled(node.children)
        patterns, number = np.unique(crossing.member[:, node.own].T, axis=0, return_inverse=True)
        node.cells = [
            Cell(node.own[number.ravel() == j], np.concatenate([[1], pattern.astype(np.int64)]))
            for j, pattern in enumerate(patterns)
        ]
    nodes = branches(root)
    return Tree(z, nodes, _shifted(z, nodes, crossing))


def _size(node: Node) -> int:
    return len(node.arms)


def _beside(nodes: Sequence[Node], n: int) -> list[Node]:
    """The nodes that are kept beside the tree.

    One after another, the node is taken out that crosses most of the others.
    """
    # There can be very many sets of at most one arm. If they have no arm in common, they stay in
    # the tree.
    single = [node for node in nodes if node.most == 1 and node.least == 0]
    house = np.full(n, -1)
    for j, node in enumerate(single):
        house[node.arms] = j
    disjoint = sum(len(node.arms) for node in single) == np.count_nonzero(house >= 0)
    large = [node for node in nodes if not disjoint or node.most != 1 or node.least]
    member = np.zeros((len(large), n))
    for row, node in zip(member, large, strict=True):
        row[node.arms] = 1
    shared, size = member @ member.T, member.sum(axis=1)
    crosses = (shared > 0) & (shared < size) & (shared < size[:, None])
    divided = np.zeros(len(large))
    if disjoint and single:
        sizes = np.array([len(node.arms) for node in single])
        for j, node in enumerate(large):
            inside = np.bincount(house[node.arms][house[node.arms] >= 0], minlength=len(single))
            divided[j] = np.count_nonzero((inside > 0) & (inside < sizes) & (inside < size[j]))
    beside = []
    while (crossed := crosses.sum(axis=1) + divided).any():
        worst = int(np.argmax(crossed))
        beside.append(large[worst])
        crosses[worst] = crosses[:, worst] = False
        divided[worst] = 0
    return beside


def _crossing(beside: Sequence[Node], n: int, k: int) -> Crossing:
    """The sets beside the tree; bounds on a complement are turned into bounds on the set."""
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
    """Put every node below the smallest node that contains it; ``nodes`` are sorted by size."""
    owner = np.full(len(root.arms), -1)  # the largest set so far that contains the arm
    for number, node in enumerate([*nodes, root]):
        below = np.unique(owner[node.arms])
        node.children = [nodes[b] for b in below[below >= 0]]
        node.own = node.arms[owner[node.arms] < 0]
        owner[node.arms] = number


def _bundled(children: list[Node]) -> list[Node]:
    """At most FEW nodes that contain all children, in layers of nodes without bounds."""
    while len(children) > FEW:
        bundles = [children[first : first + FEW] for first in range(0, len(children), FEW)]
        children = [_bundle(nodes) if len(nodes) > 1 else nodes[0] for nodes in bundles]
    return children


def _bundle(children: list[Node]) -> Node:
    """A node without bounds that contains the children."""
    arms = np.concatenate([child.arms for child in children])
    low, high = (sum(child.reach[end] for child in children) for end in (0, 1))
    none = np.empty(0, np.int64)
    return Node("", arms, low, high, none, children, reach=(low, high))


def branches(root: Node) -> list[Node]:
    """All nodes, each after the nodes below it; the branch of the last child comes last."""
    nodes, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting += node.children
    return nodes[::-1]


def _reach(node: Node) -> None:
    """Fill in the fewest and most arms that can be drawn from a branch; refuse if none can be."""
    fewest = sum(child.reach[0] for child in node.children)
    most = sum(child.reach[1] for child in node.children) + len(node.own)
    node.reach = max(fewest, node.least), min(most, node.most)
    if node.reach[0] > node.reach[1]:
        raise Infeasible(f"{node.name}: between {node.least} and {node.most} cannot be taken")


@dataclass(frozen=True, eq=False)
class _Flat:
    """The nodes of a tree as arrays, each node after the nodes below it, for `find_shifts`."""

    arms: Ints  # [n] the arms of all nodes: ``own`` of each node, one node after another
    begin: Ints  # [nodes + 1] where the arms of each node begin
    first: Ints  # [nodes] the first node of each branch
    parent: Ints  # [nodes]
    least: Floats  # [nodes] fewest and most arms that can be drawn from each branch
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
        arms = np.concatenate([node.own for node in nodes])
        return cls(arms, begin, first, parent, least, most)

    def shifts(self, z: Floats) -> tuple[Floats, Floats]:
        """For each node, the sum of the shifts of the nodes above, and its shift [nodes]."""
        sums = np.zeros(len(self.parent))
        find_shifts(z[self.arms], self.begin, self.first, self.parent, self.least, self.most, sums)
        above = sums[self.parent]
        above[-1] = 0.0
        return above, sums - above

    def chances(self, z: Floats) -> Floats:
        """Chances [n] of arms that roughly keep the bounds of the tree in expectation.

        For sets of at most one arm the chances are exact.
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
    """Find shifts of the log-weights of every set that roughly keep its bounds in expectation.

    The law is the same for any shifts; these shifts keep numbers in range.
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
    """The crossing sets, with set j shifted so that it is roughly within its bounds.

    If the set is within its bounds without a shift, it is not shifted. Otherwise it is shifted to
    the bound that it misses, but no further, because its numbers would then be far from those of a
    draw. The expected count rises with the shift. The search takes growing steps until it has the
    goal between two shifts, and then halves.
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
        between = np.isfinite(high - low)
        shift = 0.5 * (low + high) if between else shift + float(np.copysign(step, short))
        step *= 2.0
        crossing = _with_shift(crossing, j, shift)
        short, near = _short(z, flat, crossing, j, goal, goal)
    return crossing


def _with_shift(crossing: Crossing, j: int, shift: float) -> Crossing:
    """The crossing sets, with this shift of set j."""
    shifts = crossing.shift.copy()
    shifts[j] = shift
    return replace(crossing, shift=shifts)


def _short(
    z: Floats, flat: _Flat, crossing: Crossing, j: int, least: float, most: float
) -> tuple[float, bool]:
    """The distance of the expected count of crossing set j from its bounds; whether it is small.

    A set that is shifted should be at the bound to which it was shifted.
    """
    q = flat.chances(z + crossing.of_arms)[crossing.member[j]]
    count, shift = float(q.sum()), crossing.shift[j]
    if shift:
        least = most = least if shift > 0 else most
    short = min(max(count, least), most) - count
    return short, abs(short) <= ROUGHLY * max(1.0, float(np.sqrt((q * (1 - q)).sum())))
