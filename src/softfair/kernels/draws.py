"""Exact draws of k of n arms: the k best, the two designs, and rounding of given probabilities.

Every function fills chosen [n] (0 or 1) with exactly k ones. Random numbers are a pure function of
(key, counter), see `elementary`; or, in the functions whose name ends in ``_by_luck``, a number
that each arm brings along, so that an arm's luck does not depend on its place among the others.
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

__all__ = [
    "count_law",
    "draw_joint",
    "draw_joint_by_luck",
    "draw_rounded",
    "draw_successive",
    "draw_top",
    "key_of",
    "lots",
    "ring_times",
    "rings_by_luck",
    "select",
    "share_out",
]


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
def lots(key, arms):
    """A number in (0, 1) for each of the arms [m]: what breaks ties between them."""
    out = np.empty(len(arms))
    for i in range(len(arms)):
        out[i] = uniform(key, arms[i])
    return out


@njit(**COMPILE)
def key_of(key, shard):
    """A key for the luck of one shard."""
    return mix(key, shard)


@njit(**COMPILE)
def draw_top(scores, k, key, scratch, chosen):
    """Choose the k highest scores, ties at random."""
    n = len(scores)
    for i in range(n):
        scratch[n + i] = -scores[i]
    _select_smallest(scratch[n:], k, key, scratch[:n], chosen)


@njit(**COMPILE)
def ring_times(log_weights, key, counter, rings):
    """Fill rings with the logarithms of the times at which exponential clocks of rate w ring.

    log(-log U) - log w: no spread of weights over- or underflows. Arm i has the luck of
    (key, counter + i).
    """
    n = len(log_weights)
    for i in range(n):
        rings[i] = uniform(key, counter + i)
    for i in range(n):
        rings[i] = log_(-log_(rings[i])) - log_weights[i]


@njit(**COMPILE)
def draw_successive(log_weights, k, key, scratch, chosen):
    """Choose one arm after another with probability w / (sum of the w left).

    Equivalently, the first k of independent exponential clocks of rate w.
    """
    n = len(log_weights)
    rings = scratch[n:]
    ring_times(log_weights, key, n, rings)
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
def _coins(log_weights, top, u, q):
    """Fill q = sigmoid(z + u) [n], z the log-weights less their maximum ``top``."""
    for i in range(len(log_weights)):
        x = (log_weights[i] - top) + u
        e = exp_(-abs(x))
        q[i] = (1.0 if x >= 0.0 else e) / (1.0 + e)


@njit(**COMPILE)
def _fill_chances(log_weights, k, q):
    """Fill q [n] with chances of independent arms, of odds w times a common factor, of sum about k.

    A rough solution is enough: any factor leaves the law of the arms given their number as it is.
    """
    top = log_weights[0]
    for i in range(len(log_weights)):
        top = max(top, log_weights[i])
    guess = guess_shift(log_weights, top, float(k))
    u = shift(log_weights, top, float(k), np.int64(RuleCode.JOINT), guess, 0.1)
    _coins(log_weights, top, u, q)


@njit(**COMPILE)
def _laws_of_leaves(q):
    """(laws, starts, lows, highs) of the leaves of independent arms q [n], see `_grow`."""
    leaves = (len(q) + LEAF - 1) // LEAF
    starts = np.zeros(leaves, np.int64)
    lows, highs = np.zeros(leaves, np.int64), np.zeros(leaves, np.int64)
    laws = np.empty(leaves * (LEAF + 1) * 2)
    used, rows = 0, 0
    law = np.empty((LEAF + 2, SIDE))
    for b in range(leaves):
        if b % SIDE == 0:
            rows = _leaf_laws(q, b * LEAF, law)
        low, high = _trim(law[:, b % SIDE], 0, rows)
        starts[b], lows[b], highs[b] = used, low, high
        for j in range(low, high):
            laws[used + j - low] = law[j, b % SIDE]
        used += high - low
    return laws[:used], starts, lows, highs


@njit(**COMPILE)
def _grow(leaf_laws, leaf_starts, leaf_lows, leaf_highs, levels):
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
            low, high = _trim(both, 0, len(both))
            starts[h, b] = used + low
            lows[h, b], highs[h, b] = low_a + low_b + low, low_a + low_b + high
            used += high  # the rows dropped at the low end stay unused
        branches = parents
    return laws, starts, lows, highs


@njit(**COMPILE)
def _levels(leaves):
    """Levels of a tree over leaves without its root."""
    levels = 0
    while (1 << levels) < leaves:
        levels += 1
    return levels


@njit(**COMPILE)
def _share_out(laws, starts, lows, highs, k, sizes, key, counter):
    """How many of k arms fall to each leaf, from the top of the tree down: [leaves].

    sizes [leaves] is how many arms each leaf has; luck is (key, counter), (key, counter + 1), ...
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
            middle = right << h
            arms_left = before[middle] - before[left << h]
            arms_right = before[min((right + 1) << h, leaves)] - before[middle]
            split = max(0, wanted - arms_right, min(split, arms_left, wanted))
            next_counts[left] = split
            next_counts[right] = wanted - split
        counts, next_counts = next_counts, counts
        branches = size
    return counts


@njit(**COMPILE)
def count_law(log_weights, top, u):
    """(low, law): the law of how many independent arms of chance sigmoid(z + u) are in.

    law[j] = Pr(low + j are in); what is below DUST at either end is dropped.
    """
    q = np.empty(len(log_weights))
    _coins(log_weights, top, u, q)
    leaf_laws, leaf_starts, leaf_lows, leaf_highs = _laws_of_leaves(q)
    levels = _levels(len(leaf_starts)) + 1  # with the root
    laws, starts, lows, highs = _grow(leaf_laws, leaf_starts, leaf_lows, leaf_highs, levels)
    low, high, start = lows[levels - 1, 0], highs[levels - 1, 0], starts[levels - 1, 0]
    return low, laws[start : start + high - low].copy()


@njit(**COMPILE)
def share_out(laws, starts, lows, highs, k, sizes, key):
    """How many of k arms fall to each shard, given the laws of the shards' counts: [shards].

    laws[starts[b] + j - lows[b]] = Pr(count of shard b is j) for j in [lows[b], highs[b]).
    """
    if len(starts) == 1:
        return np.full(1, k)
    grown = _grow(laws, starts, lows, highs, _levels(len(starts)))
    return _share_out(grown[0], grown[1], grown[2], grown[3], k, sizes, key, np.int64(0))


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
    _fill_chances(log_weights, k, q)
    if n <= LEAF or n * (k + 9) <= ONE_TABLE:
        _draw_leaf(q, k, key, np.int64(0), np.empty((n + 1, k + 10)), chosen)
        return
    table = np.empty((LEAF + 1, LEAF + 10))
    leaf_laws, leaf_starts, leaf_lows, leaf_highs = _laws_of_leaves(q)
    leaves = len(leaf_starts)
    laws, starts, lows, highs = _grow(
        leaf_laws, leaf_starts, leaf_lows, leaf_highs, _levels(leaves)
    )
    sizes = np.full(leaves, LEAF)
    sizes[leaves - 1] = n - (leaves - 1) * LEAF
    counts = _share_out(laws, starts, lows, highs, k, sizes, key, n)
    for b in range(leaves):
        low, high = b * LEAF, min((b + 1) * LEAF, n)
        _draw_leaf(q[low:high], counts[b], key, low, table, chosen[low:high])


@njit(**COMPILE)
def rings_by_luck(log_weights, luck, rings):
    """Fill rings [n] with the logarithm of the time at which each arm's clock of rate w rings.

    luck [n] is a number in (0, 1) of each arm.
    """
    for i in range(len(log_weights)):
        rings[i] = log_(-log_(luck[i])) - log_weights[i]


SLACK = 9  # zeros behind a law, so that loops may run in steps of eight


@njit(**COMPILE)
def _one_more(p, before, low, high, limit, after):
    """Fill after with the law of a count that has one more arm, of chance p, than before.

    Entries [low, high) of a law, none of them from ``limit`` on, hold all of it but DUST; one zero
    stands in front of them and SLACK zeros behind. Returns the ends of the new law.
    """
    top = min(high + 1, limit)
    new, same, one_less = after[low:], before[low:], before[low - 1 :]
    for block in range(0, top - low, 8):  # loops of a fixed length of eight are vectorised
        for j in range(8):
            new[block + j] = (1.0 - p) * same[block + j] + p * one_less[block + j]
    low, high = _trim(after, low, top)
    after[low - 1] = 0.0
    for j in range(SLACK):
        after[high + j] = 0.0
    return low, high


@njit(**COMPILE)
def _every_stride(q, k, stride):
    """(laws, starts, lows, highs) of the counts of the arms after each block of ``stride`` arms.

    laws[starts[b] + j - lows[b]] = Pr(j - 1 of the arms from (b + 1) stride on) for j from lows[b]
    to highs[b], as far as it is above DUST and at most k arms are counted.
    """
    n = len(q)
    blocks = (n + stride - 1) // stride
    starts = np.zeros(blocks, np.int64)
    lows = np.zeros(blocks, np.int64)
    highs = np.zeros(blocks, np.int64)
    laws, used = np.empty(1024), 0
    here, there = np.zeros(k + 2 + SLACK), np.zeros(k + 2 + SLACK)
    here[1], low, high = 1.0, 1, 2
    for b in range(blocks - 1, -1, -1):
        if used + high - low > len(laws):
            larger = np.empty(2 * (used + high - low))
            for j in range(used):
                larger[j] = laws[j]
            laws = larger
        starts[b], lows[b], highs[b] = used, low, high
        for j in range(low, high):
            laws[used + j - low] = here[j]
        used += high - low
        for i in range(min((b + 1) * stride, n) - 1, b * stride - 1, -1):
            low, high = _one_more(q[i], here, low, high, k + 2, there)
            here, there = there, here
    return laws, starts, lows, highs


@njit(**COMPILE)
def draw_joint_by_luck(log_weights, k, luck, q, chosen):
    """Choose as `draw_joint` does, arm after arm, each by its own number luck [n] in (0, 1).

    With m places left, arm i is in if its number is below w_i e_{m-1}(later arms) / e_m(i and
    later arms), e_m the elementary symmetric polynomial. The law is the same in any order of the
    arms, as long as the order says nothing of the weights. q [n] is scratch.

    The polynomials are laws of the counts of the later arms. What is below DUST at either end is
    dropped; the draw then has the law given that no count ever falls there, which differs from the
    law asked for by less than n times DUST / Pr(count of all = k) in total. Every stride-th law
    is kept on the way from the last arm to the first; those between are made again block by block,
    so that the memory is O(sqrt(n) V^(1/2)) and the work O(n V^(1/2)), V the variance of the count.
    """
    n = len(log_weights)
    chosen[:] = 0
    if k == 0:
        return
    if k == n:
        chosen[:] = 1
        return
    _fill_chances(log_weights, k, q)
    stride = max(16, int(math.sqrt(n)))
    laws, starts, lows, highs = _every_stride(q, k, stride)
    width = 0
    for b in range(len(starts)):
        width = max(width, highs[b] + stride - lows[b])
    # Row i holds the law of the arms from first + i on, of j arms in place j + 1 - base.
    table = np.zeros((stride + 1, width + 2 + SLACK))
    ends = np.zeros((stride + 1, 2), np.int64)
    left = k
    for b in range(len(starts)):
        first, last = b * stride, min((b + 1) * stride, n)
        m, base, count = last - first, lows[b] - 1, highs[b] - lows[b]
        table[m] = 0.0
        for j in range(count):
            table[m, 1 + j] = laws[starts[b] + j]
        ends[m, 0], ends[m, 1] = 1, 1 + count
        for i in range(m - 1, -1, -1):
            ends[i, 0], ends[i, 1] = _one_more(
                q[first + i], table[i + 1], ends[i + 1, 0], ends[i + 1, 1], k + 2 - base, table[i]
            )
        for i in range(m):
            take = 0
            j = left + 1 - base
            if left == n - first - i or (left > 0 and j >= ends[i, 1]):
                take = 1
            elif left > 0 and j >= ends[i, 0]:
                # One place beyond either end of a law there is a zero.
                later = q[first + i] * table[i + 1, j - 1]
                take = 1 if luck[first + i] * table[i, j] < later else 0
            chosen[first + i] = take
            left -= take


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
