"""Chances of the arms of a block whose count has a law and a weight: see `softfair.quotas`."""

from __future__ import annotations

import numpy as np
from numba import njit

from .convolution import count_law
from .elementary import COMPILE
from .weights import coin

__all__ = ["block_chances", "block_law"]

DUST = 1e-25  # a row of the law of a count that holds less is dropped


@njit(**COMPILE)
def block_law(x):
    """(low, law, q, r): law[j] = Pr(low + j of the arms are in), each in with q = sigmoid(x).

    r = 1 - q to its own relative precision.
    """
    n = len(x)
    q, r, law = np.empty(n), np.empty(n), np.empty(n + 4)
    for i in range(n):
        q[i], r[i] = coin(x[i])
    low, high, _ = count_law(q, r, DUST, law)
    return low - 1, law[low : high + 1].copy(), q, r


@njit(**COMPILE)
def block_chances(q, r, law, outside, out):
    """Fill out with Pr(arm is in), if a count of law's row j has the further weight outside[j].

    outside has one row more than law, for the arm itself. An arm is divided out of the law from the
    side on which the divisor is at least 1/2, so that errors fade from row to row. With rest the
    law of the others, the arm is in with weight q sum_j rest[j] outside[j + 1], and out with weight
    (1 - q) sum_j rest[j] outside[j].
    """
    rows = len(law)
    for i in range(len(q)):
        inside, left, rest = 0.0, 0.0, 0.0
        if q[i] <= 0.5:  # law[j] = r rest[j] + q rest[j - 1]
            for j in range(rows):
                rest = max(0.0, (law[j] - q[i] * rest) / r[i])
                inside += rest * outside[j + 1]
                left += rest * outside[j]
        else:  # law[j + 1] = r rest[j + 1] + q rest[j]
            for j in range(rows - 1, -1, -1):
                rest = max(0.0, (law[j] - r[i] * rest) / q[i])
                # This is rest[j - 1].
                inside += rest * outside[j]
                left += rest * (outside[j - 1] if j > 0 else 0.0)
        inside, left = q[i] * inside, r[i] * left
        out[i] = inside / (inside + left)
