"""The law of how many of n independent arms are in, by a tree over leaves of LEAF arms.

The law of a leaf is built arm by arm. The law of the sum of two branches is the convolution of
their laws. `split_counts` draws from the root down how many arms each half of a branch gets.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE, exp_, uniform
from .lanes import lanes

__all__ = [
    "LEAF",
    "coins",
    "count_law",
    "laws_of_branches",
    "laws_of_leaves",
    "levels_below_root",
    "share_out",
    "split_counts",
    "trim",
]

LEAF = 64  # arms of a leaf; within a leaf arms are drawn one by one
SIDE = 8  # leaves whose laws are computed side by side
DUST = 1e-20  # smaller probabilities at either end of a law are dropped: no draw could show them


@njit(**COMPILE)
def _leaf_laws(q, first, law):
    """Fill law[j, leaf] = Pr(j of the leaf's arms are in) for SIDE leaves from arm ``first`` on.

    Returns the number of rows above DUST. The leaves run side by side, because each step of one
    leaf depends on the step before.
    """
    law[:] = 0.0
    law[0] = 1.0
    p = lanes()
    high = 1
    for i in range(LEAF):
        for leaf in range(SIDE):
            arm = first + leaf * LEAF + i
            p[leaf] = q[arm] if arm < len(q) else 0.0
        for j in range(high, 0, -1):
            above, below = law[j], law[j - 1]
            for leaf in range(SIDE):
                above[leaf] += p[leaf] * (below[leaf] - above[leaf])
        dust = True
        for leaf in range(SIDE):
            law[0, leaf] -= p[leaf] * law[0, leaf]
            dust = dust and law[high, leaf] < DUST
        if not dust:
            high += 1
    return high


@njit(**COMPILE)
def trim(law, low, high):
    """(low, high) of the part of law[low:high] that is above DUST."""
    while high - low > 1 and law[low] < DUST:
        low += 1
    while high - low > 1 and law[high - 1] < DUST:
        high -= 1
    return low, high


@njit(**COMPILE)
def coins(log_weights, top, u, q):
    """Fill q = sigmoid(z + u) [n], z the log-weights less their maximum ``top``."""
    for i in range(len(log_weights)):
        x = (log_weights[i] - top) + u
        e = exp_(-abs(x))
        q[i] = (1.0 if x >= 0.0 else e) / (1.0 + e)


@njit(**COMPILE)
def laws_of_leaves(q):
    """(laws, starts, lows, highs) of the leaves of independent arms q [n].

    The laws are laid out as in `laws_of_branches`.
    """
    leaves = (len(q) + LEAF - 1) // LEAF
    starts = np.zeros(leaves, np.int64)
    lows, highs = np.zeros(leaves, np.int64), np.zeros(leaves, np.int64)
    laws = np.empty(leaves * (LEAF + 1) * 2)
    used, rows = 0, 0
    law = np.empty((LEAF + 2, SIDE))
    for b in range(leaves):
        if b % SIDE == 0:
            rows = _leaf_laws(q, b * LEAF, law)
        low, high = trim(law[:, b % SIDE], 0, rows)
        starts[b], lows[b], highs[b] = used, low, high
        for j in range(low, high):
            laws[used + j - low] = law[j, b % SIDE]
        used += high - low
    return laws[:used], starts, lows, highs


@njit(**COMPILE)
def laws_of_branches(leaf_laws, leaf_starts, leaf_lows, leaf_highs, levels):
    """The laws of the counts of all branches of a tree of ``levels`` levels over leaves.

    Branch b of level h has 2^h leaves; laws[starts[h, b] + j - lows[h, b]] = Pr(count = j) for
    j in [lows[h, b], highs[h, b]).
    """
    leaves = len(leaf_starts)
    starts = np.zeros((levels, leaves), np.int64)
    lows = np.zeros((levels, leaves), np.int64)
    highs = np.zeros((levels, leaves), np.int64)
    used = len(leaf_laws)
    laws = np.empty(2 * used)
    for j in range(used):
        laws[j] = leaf_laws[j]
    for b in range(leaves):
        starts[0, b], lows[0, b], highs[0, b] = leaf_starts[b], leaf_lows[b], leaf_highs[b]
    branches = leaves
    for h in range(1, levels):
        parents = (branches + 1) // 2
        need = used
        for b in range(branches):
            need += highs[h - 1, b] - lows[h - 1, b]
        if need > len(laws):
            larger = np.empty(2 * need)
            for j in range(used):
                larger[j] = laws[j]
            laws = larger
        for b in range(parents):
            low_a, high_a, start_a = lows[h - 1, 2 * b], highs[h - 1, 2 * b], starts[h - 1, 2 * b]
            if 2 * b + 1 == branches:
                starts[h, b], lows[h, b], highs[h, b] = start_a, low_a, high_a
                continue
            low_b, high_b = lows[h - 1, 2 * b + 1], highs[h - 1, 2 * b + 1]
            start_b = starts[h - 1, 2 * b + 1]
            left = laws[start_a : start_a + high_a - low_a]
            right = laws[start_b : start_b + high_b - low_b]
            both = laws[used : used + len(left) + len(right) - 1]
            both[:] = 0.0
            for i in range(len(left)):
                for j in range(len(right)):
                    both[i + j] += left[i] * right[j]
            low, high = trim(both, 0, len(both))
            starts[h, b] = used + low
            lows[h, b], highs[h, b] = low_a + low_b + low, low_a + low_b + high
            used += high  # the rows dropped at the low end stay unused
        branches = parents
    return laws, starts, lows, highs


@njit(**COMPILE)
def levels_below_root(leaves):
    """Levels of a tree over leaves without its root."""
    levels = 0
    while (1 << levels) < leaves:
        levels += 1
    return levels


@njit(**COMPILE)
def split_counts(laws, starts, lows, highs, k, sizes, key, counter):
    """Draw how many of k arms each leaf gets, from the top of the tree down: [leaves].

    sizes [leaves] is the number of arms of each leaf. The random numbers are those of
    (key, counter), (key, counter + 1), ...
    """
    levels, leaves = starts.shape
    before = np.zeros(leaves + 1, np.int64)
    for b in range(leaves):
        before[b + 1] = before[b] + sizes[b]
    counts, next_counts = np.zeros(leaves, np.int64), np.zeros(leaves, np.int64)
    counts[0] = k
    branches = 1
    for h in range(levels - 1, -1, -1):
        size = (leaves + (1 << h) - 1) >> h  # branches of level h
        for b in range(branches):
            if 2 * b + 1 == size:
                next_counts[2 * b] = counts[b]
                continue
            left, right, count = 2 * b, 2 * b + 1, counts[b]
            first = max(lows[h, left], count - highs[h, right] + 1)
            last = min(highs[h, left], count - lows[h, right] + 1)
            total = 0.0
            for j in range(first, last):
                total += (
                    laws[starts[h, left] + j - lows[h, left]]
                    * laws[starts[h, right] + count - j - lows[h, right]]
                )
            goal = uniform(key, counter) * total
            counter += 1
            split = first
            for j in range(first, last):
                goal -= (
                    laws[starts[h, left] + j - lows[h, left]]
                    * laws[starts[h, right] + count - j - lows[h, right]]
                )
                split = j
                if goal < 0.0:
                    break
            # The laws are rounded; make sure that neither half gets more arms than it has.
            middle = right << h
            arms_left = before[middle] - before[left << h]
            arms_right = before[min((right + 1) << h, leaves)] - before[middle]
            split = max(0, count - arms_right, min(split, arms_left, count))
            next_counts[left] = split
            next_counts[right] = count - split
        counts, next_counts = next_counts, counts
        branches = size
    return counts


@njit(**COMPILE)
def count_law(log_weights, top, u):
    """(low, law): the law of how many independent arms of chance sigmoid(z + u) are in.

    law[j] = Pr(low + j are in); probabilities below DUST at either end are dropped.
    """
    q = np.empty(len(log_weights))
    coins(log_weights, top, u, q)
    leaf_laws, leaf_starts, leaf_lows, leaf_highs = laws_of_leaves(q)
    levels = levels_below_root(len(leaf_starts)) + 1  # with the root
    laws, starts, lows, highs = laws_of_branches(
        leaf_laws, leaf_starts, leaf_lows, leaf_highs, levels
    )
    low, high, start = lows[levels - 1, 0], highs[levels - 1, 0], starts[levels - 1, 0]
    return low, laws[start : start + high - low].copy()


@njit(**COMPILE)
def share_out(laws, starts, lows, highs, k, sizes, key):
    """Draw how many of k arms each shard gets, from the laws of the shards' counts: [shards].

    laws[starts[b] + j - lows[b]] = Pr(count of shard b is j) for j in [lows[b], highs[b]).
    """
    if len(starts) == 1:
        return np.full(1, k)
    tree = laws_of_branches(laws, starts, lows, highs, levels_below_root(len(starts)))
    return split_counts(tree[0], tree[1], tree[2], tree[3], k, sizes, key, np.int64(0))
