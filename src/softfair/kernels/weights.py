"""From log-weights to the chances q of independent arms, one arm or a block of arms at a time.

At shift u an arm of log-weight z has q = 1 - exp(-exp(z + u)) in the successive design, where u is
log time, and q = sigmoid(z + u) in the joint design. Kernels walk over arms in blocks of LANES.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from .cache import CACHED
from .elementary import INSIDE, exp_, exp_upto_
from .lanes import LANES

__all__ = [
    "LATEST",
    "SUM",
    "clock",
    "coin",
    "lane_sum",
    "load_clocks",
    "load_coins",
    "on_grid",
    "store",
]

LATEST = 812.0  # e^6.7: from s = 800 on exp(-s) and s exp(-s) are 0

# With these options a compiler may add the terms of a sum in any order, and so lane by lane.
SUM: dict[str, Any] = {
    "nogil": True,
    "cache": CACHED,
    "fastmath": {"contract", "reassoc", "nsz"},
    "error_model": "numpy",
}


@njit(**INSIDE)
def on_grid(log_weight, top):
    """The log-weight minus the largest one, ``top``, rounded to a grid of 2^-38 (3.6e-12).

    Two distinct weights then differ by more than the rounding errors of later steps, so that
    inclusion keeps the order of the weights exactly. Each weight gets a relative error of up to
    2e-12. Adding 1.5 * 2^14 leaves exactly 38 bits behind the binary point.
    """
    return ((log_weight - top) + 24576.0) - 24576.0


@njit(**INSIDE)
def clock(z):
    """s = e^z, the rate of a clock times the time, at most `LATEST`."""
    return exp_(z if z < 6.7 else 6.7)


@njit(**INSIDE)
def coin(x):
    """(q, 1 - q) of q = sigmoid(x), both to relative precision."""
    e = exp_(-abs(x))
    large = 1.0 / (1.0 + e)
    small = e * large
    return large if x >= 0.0 else small, small if x >= 0.0 else large


@njit(**SUM)
def lane_sum(values):
    """The sum of a block [LANES]."""
    total = 0.0
    for j in range(LANES):
        total += values[j]
    return total


@njit(inline="always")
def load_clocks(first, high, z, top, u, s, e, weight):
    """Fill s = w x and e = exp(-s) of arms [first, first + LANES).

    Lanes from ``high`` on repeat the first arm with weight 0; the other weights are 1.
    """
    if first + LANES <= high:
        block = z[first : first + LANES]
        for j in range(LANES):
            s[j] = on_grid(block[j], top) + u
            weight[j] = 1.0
    else:
        for j in range(LANES):
            s[j] = on_grid(z[first + j if first + j < high else first], top) + u
            weight[j] = 1.0 if first + j < high else 0.0
    for j in range(LANES):
        # From s = 800 on e is 0, and powers of s must stay finite.
        s[j] = exp_upto_(6.7 if s[j] > 6.7 else s[j])
        e[j] = exp_upto_(-s[j])


@njit(inline="always")
def load_coins(first, high, z, top, u, q, r, weight):
    """Fill q = sigmoid(z + u) and r = 1 - q of arms [first, first + LANES).

    Lanes from ``high`` on repeat the first arm with weight 0; the other weights are 1.
    """
    if first + LANES <= high:
        block = z[first : first + LANES]
        for j in range(LANES):
            q[j], r[j] = coin(on_grid(block[j], top) + u)
            weight[j] = 1.0
    else:
        for j in range(LANES):
            q[j], r[j] = coin(on_grid(z[first + j if first + j < high else first], top) + u)
            weight[j] = 1.0 if first + j < high else 0.0


@njit(inline="always")
def store(first, high, values, out):
    """Copy a block [LANES] to out[first:high], as far as it reaches."""
    if first + LANES <= high:
        block = out[first : first + LANES]
        for j in range(LANES):
            block[j] = values[j]
    else:
        for j in range(high - first):
            out[first + j] = values[j]
