"""The k-th smallest of many numbers, and the log-weights that it makes certain."""

from __future__ import annotations

from numba import njit

from .elementary import COMPILE

__all__ = ["WIDE", "clip_decided", "kth_smallest"]

WIDE = 1e4  # a spread of log-weights up to which kernels lose no digit that matters
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

    Distances are cut off at DECIDED: by either design an arm so far above is among the k, and one
    so far below is not. Infinite log-weights are covered too. Without this, a spread of 1e16
    would leave no digits for the arms near the k-th. scratch [n] is overwritten. k = 0 and k = n
    leave everything as it is.
    """
    n = len(log_weights)
    far = 0  # counted, because a count is vectorised and a minimum is not
    for i in range(n):
        far += 1 - (abs(log_weights[i] - log_weights[0]) <= 0.5 * WIDE)
    if far == 0 or log_weights.max() - log_weights.min() <= WIDE or k == 0 or k == n:
        return
    # A loop: the error message of a whole-array assignment takes seconds to compile.
    for i in range(n):
        scratch[i] = log_weights[i]
    cut = kth_smallest(scratch, n - k + 1)
    for i in range(n):
        distance = 0.0 if log_weights[i] == cut else log_weights[i] - cut  # inf - inf is no number
        log_weights[i] = min(max(distance, -DECIDED), DECIDED)
