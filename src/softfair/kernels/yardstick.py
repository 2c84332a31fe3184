"""Work of a known size, to which benchmarks compare the time of a kernel."""

from __future__ import annotations

from numba import njit

from .elementary import COMPILE, exp_
from .lanes import LANES, lanes

__all__ = ["exponentials"]


@njit(**COMPILE)
def exponentials(low, high, rounds):
    """The sum of ``rounds`` exponentials for each of the arms low..high - 1.

    The exponentials are computed in blocks of lanes, as in the recursions.
    """
    x, total = lanes(), lanes()
    for j in range(LANES):
        x[j] = -0.01 * j
        total[j] = 0.0
    for _ in range(low, high, LANES):
        for r in range(rounds):
            for j in range(LANES):
                total[j] += exp_(x[j] - 1e-3 * r)
    return total.sum()
