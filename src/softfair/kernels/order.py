"""The k-th smallest of many numbers, the k smallest, and log-weights far from the k-th."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .elementary import COMPILE, uniform

__all__ = ["WIDE", "clip_decided", "kth_smallest", "select_smallest"]

WIDE = 1e4  # a spread of log-weights up to which kernels are accurate
SAMPLED = 512  # number of values from which on a sample brackets the k-th smallest
DECIDED = 1e3  # e^-1000 changes no probability, however many arms there are


@njit(**COMPILE)
def kth_smallest(values, k):
    """The k-th smallest (1-based) of values, which are reordered.

    Hoare's selection; the pivot is the median of three.
    """
    low, high, place = 0, len(values) - 1, k - 1
    while high > low:
        middle = (low + high) // 2
        a, b, c = values[low], values[middle], values[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return values[place]


@njit(**COMPILE)
def clip_decided(log_weights, k, scratch):
    """Replace log-weights [n] that spread over more than WIDE by distances from the k-th largest.

    Distances are cut off at DECIDED: in both designs an arm so far above the k-th is among the k,
    and an arm so far below is not. Log-weights may be infinite. Without this, a spread of 1e16
    would leave no digits for the arms near the k-th. scratch [n] is overwritten. If k = 0 or k = n,
    nothing is changed.
    """
    n = len(log_weights)
    far = 0  # a count, because counting is vectorised and a minimum is not
    for i in range(n):
        far += 1 - (abs(log_weights[i] - log_weights[0]) <= 0.5 * WIDE)
    if far == 0 or log_weights.max() - log_weights.min() <= WIDE or k == 0 or k == n:
        return
    # A loop, because the error message of a whole-array assignment takes seconds to compile.
    for i in range(n):
        scratch[i] = log_weights[i]
    cut = kth_smallest(scratch, n - k + 1)
    for i in range(n):
        distance = 0.0 if log_weights[i] == cut else log_weights[i] - cut  # inf - inf would be NaN
        log_weights[i] = min(max(distance, -DECIDED), DECIDED)


@njit(**COMPILE)
def _kth(values, k, scratch):
    """The k-th smallest of values, which are not changed.

    From SAMPLED values on, a sample gives two bounds between which the k-th smallest very probably
    lies, and only the values between the bounds are searched (Floyd and Rivest's idea). If the
    bounds are wrong, all values are searched. The loop over all values has no branch, which the
    processor might mispredict.
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
        # The call above has moved the ``upper`` smallest to the front.
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
def select_smallest(values, k, key, scratch, chosen):
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
