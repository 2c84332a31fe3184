"""Exact draws of k of n arms: the k best, the two designs, and rounding of given probabilities.

Every function fills chosen [n] (0 or 1) with exactly k ones. Random numbers are a pure function of
(key, counter), see `elementary`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .elementary import COMPILE, exp_, log_, mix, uniform
from .lanes import lanes
from .order import clip_decided, kth_smallest
from .rules import RuleCode
from .shift import guess_shift, shift

__all__ = ["draw_joint", "draw_rounded", "draw_successive", "draw_top", "select"]


SAMPLED = 512  # number of values from which on a sample brackets the k-th smallest


@njit(**COMPILE)
def _kth(values, k, scratch):
    """The k-th smallest of values, which are left as they are.

    From SAMPLED values on, a sample gives two bounds between which it lies in all likelihood, and
    only the values between them are searched (Floyd and Rivest's idea). If the bounds turn out to
    be wrong, all values are searched. The loop over all values has no branch to mispredict.
    """
    n = len(values)
    if n >= SAMPLED:
        stride = n // 128 if n < 65536 else n // 1024
        size = 0
        for i in range(0, n, stride):
            scratch[size] = values[i]
            size += 1
        share = k / n
        margin = 3.0 * math.sqrt(size * share * (1.0 - share)) + 2.0
        upper, lower = math.ceil(size * share + margin), math.floor(size * share - margin)
        high = kth_smallest(scratch[:size], upper) if upper <= size else np.inf
        # After the call above the smallest ``upper`` stand in front.
        low = kth_smallest(scratch[: min(upper, size)], lower) if lower >= 1 else -np.inf
        below, between = 0, 0
        for i in range(n):
            scratch[between] = values[i]
            below += values[i] < low
            between += (values[i] >= low) & (values[i] <= high)
        if below < k <= below + between:
            return kth_smallest(scratch[:between], k - below)
    for i in range(n):
        scratch[i] = values[i]
    return kth_smallest(scratch[:n], k)


@njit(**COMPILE)
def _select_smallest(values, k, key, scratch, chosen):
    """Choose the k smallest values; those equal to the k-th are equally likely to be chosen."""
    n = len(values)
    if k == 0:
        chosen[:] = 0
        return
    cut = _kth(values, k, scratch)
    reached = 0  # how many values are at most cut
    for i in range(n):
        chosen[i] = values[i] <= cut
        reached += chosen[i]
    if reached == k:
        return
    equal = 0
    for i in range(n):
        equal += values[i] == cut
    places = k - (reached - equal)
    for i in range(n):
        if values[i] == cut:  # selection sampling: the chance is places left / candidates left
            chosen[i] = uniform(key, i) * equal < places
            places -= chosen[i]
            equal -= 1


@njit(**COMPILE)
def draw_top(scores, k, key, scratch, chosen):
    """Choose the k highest scores, ties at random."""
    n = len(scores)
    for i in range(n):
        scratch[n + i] = -scores[i]
    _select_smallest(scratch[n:], k, key, scratch[:n], chosen)


@njit(**COMPILE)
def draw_successive(log_weights, k, key, scratch, chosen):
    """Choose one arm after another with probability w / (sum of the w left).

    Equivalently, the first k of independent exponential clocks of rate w. The times are compared by
    their logarithms, log(-log U) - log w, so that no spread of weights over- or underflows.
    """
    n = len(log_weights)
    rings = scratch[n:]
    for i in range(n):
        rings[i] = uniform(key, n + i)
    for i in range(n):
        rings[i] = log_(-log_(rings[i])) - log_weights[i]
    _select_smallest(rings, k, key, scratch[:n], chosen)


LEAF = 64  # arms of a leaf, which are drawn one by one; above the leaves counts are split in two
SIDE = 8  # leaves whose laws are computed side by side
ONE_TABLE = 16384  # entries of a table that stays in the second cache; up to there, one leaf
DUST = 1e-20  # rows of a law that hold less at either end are dropped: no draw could show it


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
def _trim(law, low, high):
    """(low, high) of the part of law[low:high] that is above DUST."""
    while high - low > 1 and law[low] < DUST:
        low += 1
    while high - low > 1 and law[high - 1] < DUST:
        high -= 1
    return low, high


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
def draw_joint(log_weights, k, key, scratch, chosen):
    """Choose a set of k arms with probability proportional to the product of its weights.

    All weights are multiplied by a common factor so that independent arms of chance q would sum to
    about k, which leaves the conditional law as it is. A tree over leaves of LEAF arms holds the
    law of the count of each branch. From the root down, the count of a branch is split between its
    halves; at a leaf arms are drawn one by one. The work is O(n) at the leaves, O(V log n) above.
    """
    n = len(log_weights)
    chosen[:] = 0
    if k == 0:
        return
    if k == n:
        chosen[:] = 1
        return
    q = scratch[:n]
    top = log_weights[0]
    for i in range(n):
        top = max(top, log_weights[i])
    guess = guess_shift(log_weights, top, float(k))
    # A rough solution is enough: any u leaves the law as it is.
    u = shift(log_weights, top, float(k), np.int64(RuleCode.JOINT), guess, 0.1)
    for i in range(n):
        x = (log_weights[i] - top) + u
        e = exp_(-abs(x))
        q[i] = (1.0 if x >= 0.0 else e) / (1.0 + e)
    if n <= LEAF or n * (k + 9) <= ONE_TABLE:
        _draw_leaf(q, k, key, np.int64(0), np.empty((n + 1, k + 10)), chosen)
        return
    table = np.empty((LEAF + 1, LEAF + 10))
    leaves = (n + LEAF - 1) // LEAF
    levels = 0
    while (1 << levels) < leaves:
        levels += 1
    # Law of the count of branch b of level h (2^h leaves):
    # laws[starts[h, b] + j - lows[h, b]] = Pr(count = j) for j in [lows[h, b], highs[h, b])
    starts = np.zeros((levels, leaves), np.int64)
    lows = np.zeros((levels, leaves), np.int64)
    highs = np.zeros((levels, leaves), np.int64)
    laws = np.empty(leaves * (LEAF + 1) * 2)
    used, rows = 0, 0
    law = np.empty((LEAF + 2, SIDE))
    for b in range(leaves):
        if b % SIDE == 0:
            rows = _leaf_laws(q, b * LEAF, law)
        low, high = _trim(law[:, b % SIDE], 0, rows)
        starts[0, b], lows[0, b], highs[0, b] = used, low, high
        for j in range(low, high):
            laws[used + j - low] = law[j, b % SIDE]
        used += high - low
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
            low, high = _trim(both, 0, len(both))
            starts[h, b] = used + low
            lows[h, b], highs[h, b] = low_a + low_b + low, low_a + low_b + high
            used += high  # the rows dropped at the low end stay unused
        branches = parents
    counts, next_counts = np.zeros(leaves, np.int64), np.zeros(leaves, np.int64)
    counts[0] = k
    counter = n
    branches = 1
    for h in range(levels - 1, -1, -1):
        size = (leaves + (1 << h) - 1) >> h  # branches of level h
        arms = LEAF << h  # of each branch except the last
        for b in range(branches):
            if 2 * b + 1 == size:
                next_counts[2 * b] = counts[b]
                continue
            left, right, wanted = 2 * b, 2 * b + 1, counts[b]
            first = max(lows[h, left], wanted - highs[h, right] + 1)
            last = min(highs[h, left], wanted - lows[h, right] + 1)
            total = 0.0
            for j in range(first, last):
                total += (
                    laws[starts[h, left] + j - lows[h, left]]
                    * laws[starts[h, right] + wanted - j - lows[h, right]]
                )
            goal = uniform(key, counter) * total
            counter += 1
            split = first
            for j in range(first, last):
                goal -= (
                    laws[starts[h, left] + j - lows[h, left]]
                    * laws[starts[h, right] + wanted - j - lows[h, right]]
                )
                split = j
                if goal < 0.0:
                    break
            # Rounding of the laws must not ask either half for more arms than it has.
            split = max(0, wanted - min(arms, n - right * arms), min(split, arms, wanted))
            next_counts[left] = split
            next_counts[right] = wanted - split
        counts, next_counts = next_counts, counts
        branches = size
    for b in range(leaves):
        low, high = b * LEAF, min((b + 1) * LEAF, n)
        _draw_leaf(q[low:high], counts[b], key, low, table, chosen[low:high])


@njit(**COMPILE)
def draw_rounded(probabilities, key, scratch, chosen):
    """Choose exactly k arms, arm i with probability probabilities[i]; these sum to k.

    This is the pivotal method (dependent rounding): two arms at a time, in random order, exchange
    probability until one of them has 0 or 1, which leaves every arm's expectation as it is.
    """
    n = len(probabilities)
    p = scratch[:n]
    for i in range(n):
        p[i] = probabilities[i]
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = int(mix(key, 2 * n + i) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
    holder = order[0]
    for step in range(1, n):
        other = order[step]
        a, b = p[holder], p[other]
        total = a + b
        coin = uniform(key, step)
        if total < 1.0:
            winner = total > 0.0 and coin * total < a
            p[holder], p[other] = (total, 0.0) if winner else (0.0, total)
        else:
            spare = 2.0 - total
            winner = spare <= 0.0 or coin * spare < 1.0 - b
            p[holder], p[other] = (1.0, total - 1.0) if winner else (total - 1.0, 1.0)
        if p[holder] == 0.0 or p[holder] == 1.0:
            holder = other
    # All are 0 or 1 except perhaps the last holder, which differs from 0 or 1 by rounding alone.
    for i in range(n):
        chosen[i] = 1 if p[i] > 0.5 else 0


@njit(**COMPILE)
def select(scores, c, rule, k, key, scratch, chosen):
    """Choose k arms by the rule.

    c scores are the log-weights of a design; TOP ranks by the scores themselves, and with ROUNDED
    they are chances. scratch [3 n] is overwritten.
    """
    n = len(scores)
    if rule == RuleCode.TOP:
        draw_top(scores, k, key, scratch[: 2 * n], chosen)
    elif rule == RuleCode.ROUNDED:
        draw_rounded(scores, key, scratch[:n], chosen)
    else:
        log_weights = scratch[2 * n :]
        for i in range(n):
            log_weights[i] = c * scores[i]
        clip_decided(log_weights, k, scratch[:n])
        if rule == RuleCode.SUCCESSIVE:
            draw_successive(log_weights, k, key, scratch[: 2 * n], chosen)
        else:
            draw_joint(log_weights, k, key, scratch[: 2 * n], chosen)
