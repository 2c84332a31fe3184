"""Exact draws of k of n arms by the joint design: Pr(set) goes with the product of its weights.

`draw_joint` splits k down a tree over leaves of arms (`counts`); its random numbers are a pure
function of (key, counter), see `elementary`. `draw_joint_by_luck` decides one arm after another,
each by the number that the arm brings, so that this number does not depend on the arm's place.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .counts import (
    LEAF,
    coins,
    laws_of_branches,
    laws_of_leaves,
    levels_below_root,
    split_counts,
    trim,
)
from .elementary import COMPILE, uniform
from .rules import RuleCode
from .shift import guess_shift, shift

__all__ = ["draw_joint", "draw_joint_by_luck"]

ONE_TABLE = 16384  # entries of a table that fits the second cache; up to that size, one leaf serves


@njit(**COMPILE)
def _draw_leaf(q, k, key, counter, table, chosen):
    """Choose k of the m arms of a leaf, Pr(set) proportional to the product of q / (1 - q).

    Arms are decided one after another, by the law of the count of the arms after them. table
    [m + 1, k + 10 at least] is scratch: one column of zeros in front, eight of slack behind.
    """
    m = len(q)
    table[m] = 0.0
    table[m, 1] = 1.0
    for i in range(m - 1, -1, -1):  # table[i, 1 + j] = Pr(j of arms i, ..., m - 1), as far as k
        table[i, 0] = 0.0
        p, row, after = q[i], table[i], table[i + 1]
        for block in range(1, k + 2, 8):  # loops of a fixed length of eight are vectorised
            for j in range(8):
                row[block + j] = (1.0 - p) * after[block + j] + p * after[block + j - 1]
    left = k
    for i in range(m):
        take = 0
        if left == m - i:
            take = 1
        elif left > 0:
            goal = uniform(key, counter + i) * table[i, 1 + left]
            take = 1 if goal < q[i] * table[i + 1, left] else 0
        chosen[i] = take
        left -= take


@njit(**COMPILE)
def _fill_chances(log_weights, k, q):
    """Fill q [n] with chances of independent arms that sum to about k.

    The odds q / (1 - q) are the weights times a common factor. A rough factor is enough: the law of
    the arms, given their number, is the same for any factor.
    """
    top = log_weights[0]
    for i in range(len(log_weights)):
        top = max(top, log_weights[i])
    guess = guess_shift(log_weights, top, float(k))
    u = shift(log_weights, top, float(k), np.int64(RuleCode.JOINT), guess, 0.1)
    coins(log_weights, top, u, q)


@njit(**COMPILE)
def draw_joint(log_weights, k, key, scratch, chosen):
    """Choose a set of k arms with probability proportional to the product of its weights.

    The draw is from the law of independent arms (`_fill_chances`), given that k are in. A tree over
    leaves of LEAF arms holds the law of the count of each branch. From the root down, the count of
    a branch is split between its halves; within a leaf, arms are drawn one by one. The work is O(n)
    at the leaves and O(V log n) above.
    """
    n = len(log_weights)
    chosen[:] = 0
    if k == 0:
        return
    if k == n:
        chosen[:] = 1
        return
    q = scratch[:n]
    _fill_chances(log_weights, k, q)
    if n <= LEAF or n * (k + 9) <= ONE_TABLE:
        _draw_leaf(q, k, key, np.int64(0), np.empty((n + 1, k + 10)), chosen)
        return
    table = np.empty((LEAF + 1, LEAF + 10))
    leaf_laws, leaf_starts, leaf_lows, leaf_highs = laws_of_leaves(q)
    leaves = len(leaf_starts)
    laws, starts, lows, highs = laws_of_branches(
        leaf_laws, leaf_starts, leaf_lows, leaf_highs, levels_below_root(leaves)
    )
    sizes = np.full(leaves, LEAF)
    sizes[leaves - 1] = n - (leaves - 1) * LEAF
    counts = split_counts(laws, starts, lows, highs, k, sizes, key, n)
    for b in range(leaves):
        low, high = b * LEAF, min((b + 1) * LEAF, n)
        _draw_leaf(q[low:high], counts[b], key, low, table, chosen[low:high])


SLACK = 9  # zeros after a law, so that loops may run in steps of eight


@njit(**COMPILE)
def _one_more(p, before, low, high, limit, after):
    """Fill ``after`` with the law of the count of ``before`` plus one more arm of chance p.

    Entries [low, high) of a law hold all of it but DUST, with high <= limit; one zero stands in
    front of these entries and SLACK zeros behind. Returns the ends of the new law.
    """
    top = min(high + 1, limit)
    new, same, one_less = after[low:], before[low:], before[low - 1 :]
    for block in range(0, top - low, 8):  # loops of a fixed length of eight are vectorised
        for j in range(8):
            new[block + j] = (1.0 - p) * same[block + j] + p * one_less[block + j]
    low, high = trim(after, low, top)
    after[low - 1] = 0.0
    for j in range(SLACK):
        after[high + j] = 0.0
    return low, high


@njit(**COMPILE)
def _sum_of(one, one_low, one_high, before, low, high, limit, after):
    """Fill ``after`` with the law of the sum of two counts, with laws ``one`` and ``before``.

    The ends and the zeros around them are those of `_one_more`. Returns the ends of the new law.
    """
    first, top = low + one_low - 1, min(high + one_high - 2, limit)
    after[first - 1 : top + SLACK] = 0.0
    for a in range(one_low, one_high):
        p, sums, same = one[a], after[low + a - 1 :], before[low:]
        for block in range(0, min(high - low, top - (low + a - 1)), 8):
            for j in range(8):
                sums[block + j] += p * same[block + j]
    low, high = trim(after, first, top)
    after[low - 1] = 0.0
    for j in range(SLACK):
        after[high + j] = 0.0
    return low, high


@njit(**COMPILE)
def _every_stride(q, k, stride):
    """(laws, starts, lows, highs) of the counts of the arms after each block of ``stride`` arms.

    laws[starts[b] + j - lows[b]] = Pr(j - 1 of the arms from (b + 1) stride on are in), for j in
    [lows[b], highs[b]): entries above DUST, of counts of at most k.
    """
    n = len(q)
    blocks = (n + stride - 1) // stride
    starts = np.zeros(blocks, np.int64)
    lows = np.zeros(blocks, np.int64)
    highs = np.zeros(blocks, np.int64)
    laws, used = np.empty(1024), 0
    law, next_law = np.zeros(k + 2 + SLACK), np.zeros(k + 2 + SLACK)
    most = min(k, stride) + 2
    own, next_own = np.zeros(most + SLACK), np.zeros(most + SLACK)  # of the arms of one block
    law[1], low, high = 1.0, 1, 2
    for b in range(blocks - 1, -1, -1):
        if used + high - low > len(laws):
            larger = np.empty(2 * (used + high - low))
            for j in range(used):
                larger[j] = laws[j]
            laws = larger
        starts[b], lows[b], highs[b] = used, low, high
        for j in range(low, high):
            laws[used + j - low] = law[j]
        used += high - low
        own[:] = 0.0
        own[1], own_low, own_high = 1.0, 1, 2
        for i in range(min((b + 1) * stride, n) - 1, b * stride - 1, -1):
            own_low, own_high = _one_more(q[i], own, own_low, own_high, most, next_own)
            own, next_own = next_own, own
        low, high = _sum_of(own, own_low, own_high, law, low, high, k + 2, next_law)
        law, next_law = next_law, law
    return laws, starts, lows, highs


@njit(**COMPILE)
def draw_joint_by_luck(log_weights, k, luck, q, chosen):
    """Choose as `draw_joint` does, one arm after another, by the numbers luck [n] in (0, 1).

    With m places left, arm i is in if its number is below w_i e_{m-1}(later arms) / e_m(i and
    later arms), where e_m is the elementary symmetric polynomial. The law is the same for any order
    of the arms that does not depend on ``luck``. q [n] is scratch.

    Up to factors, the polynomials are laws of the counts of the later arms. Entries below DUST at
    either end are dropped. The draw then has the law given that no count falls there; the total
    difference from the exact law is less than 2 n DUST / Pr(count of all = k). On the way from the
    last arm to the first, a law is kept after every block of arms, each made from the law after the
    next block and that of the block's own count. The laws within a block are computed when its
    arms are decided, and only for counts that its arms can leave. So the memory is
    O(sqrt(n) V^(1/2)), where V is the variance of the count, and the work O(n sqrt(s) + n V^(1/2) /
    sqrt(s)) for blocks of s arms, of the order of sqrt(n).
    """
    n = len(log_weights)
    chosen[:] = 0
    if k == 0:
        return
    if k == n:
        chosen[:] = 1
        return
    _fill_chances(log_weights, k, q)
    stride = max(16, int(math.sqrt(n) / 2))
    laws, starts, lows, highs = _every_stride(q, k, stride)
    # Row i holds the law of the arms from first + i on; Pr(j arms) stands at j + 1 - base.
    table = np.zeros((stride + 1, stride + 3 + SLACK))
    ends = np.zeros((stride + 1, 2), np.int64)
    left = k
    for b in range(len(starts)):
        first, last = b * stride, min((b + 1) * stride, n)
        m = last - first
        # The m arms of the block leave between left - m and left places.
        low, high = max(lows[b], left - m + 1), min(highs[b], left + 2)
        base, count = low - 1, max(high - low, 0)
        limit = max(left + 2 - base, 1)
        table[m] = 0.0
        for j in range(count):
            table[m, 1 + j] = laws[starts[b] + low - lows[b] + j]
        ends[m, 0], ends[m, 1] = 1, 1 + count
        for i in range(m - 1, -1, -1):
            # The i arms before it leave at least left - i places: lower counts are not needed.
            lowest = max(ends[i + 1, 0], left - i + 1 - base)
            ends[i, 0], ends[i, 1] = _one_more(
                q[first + i], table[i + 1], lowest, ends[i + 1, 1], limit, table[i]
            )
        for i in range(m):
            take = 0
            j = left + 1 - base
            if left == n - first - i or (left > 0 and j >= ends[i, 1]):
                take = 1
            elif left > 0 and j >= ends[i, 0]:
                # The entry beyond either end of a law is zero.
                later = q[first + i] * table[i + 1, j - 1]
                take = 1 if luck[first + i] * table[i, j] < later else 0
            chosen[first + i] = take
            left -= take
