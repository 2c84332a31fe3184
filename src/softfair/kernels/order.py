"""The k-th of many numbers, and what it decides."""

from __future__ import annotations

from numba import njit

from .elementary import COMPILE

__all__ = ["WIDE", "clip_decided", "kth_smallest"]

WIDE = 1e4  # a spread of log-weights up to which kernels lose no digit that matters
DECIDED = 1e3  # e^-1000 shows in no probability, however many arms there are


@njit(**COMPILE)
def kth_smallest(values, k):
    """The k-th smallest (1-based) of values, which are reordered. Hoare's selection, pivot the median of three."""
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
    """Where the log-weights [n] spread over more than WIDE, replace them by their distance from the k-th largest, at most DECIDED.

    An arm that far above is among the k, one that far below is not, by either design; infinities are just that. Without this a spread
    of 1e16 leaves no digits for the arms that chance decides about. scratch [n] is overwritten; k = 0 or n leaves nothing to decide.
    """
    n = len(log_weights)
    far = 0  # a count runs through SIMD lanes, a minimum does not
    for i in range(n):
        far += 1 - (abs(log_weights[i] - log_weights[0]) <= 0.5 * WIDE)
    if far == 0 or log_weights.max() - log_weights.min() <= WIDE or k == 0 or k == n:
        return
    for i in range(
        n
    ):  # a whole-array assignment brings code for its error message, which takes seconds to compile
        scratch[i] = log_weights[i]
    cut = kth_smallest(scratch, n - k + 1)
    for i in range(n):
        distance = 0.0 if log_weights[i] == cut else log_weights[i] - cut  # inf - inf is no number
        log_weights[i] = min(max(distance, -DECIDED), DECIDED)
