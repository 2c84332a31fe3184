"""Find the shift u at which k arms are expected: sum q_i(u) = k.

In the successive design u is the logarithm of the time at which the k-th clock is expected to ring;
in the joint design exp(u) multiplies every weight, which does not change the law of the set.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .elementary import COMPILE
from .lanes import LANES, lanes
from .rules import RuleCode
from .weights import lane_sum, load_clocks, load_coins

__all__ = ["ROUNDING", "expected_count", "guess_shift", "polish", "reach_for", "shift"]

ROUNDING = 4e-15  # relative rounding error of a sum over arms


@njit(**COMPILE)
def expected_count(low, high, z, top, u, design):
    """(sum q, sum dq/du) of arms [low, high) at shift u; for `successive` u is log time."""
    s, q, weight, count, slope = lanes(), lanes(), lanes(), lanes(), lanes()
    count[:] = 0.0
    slope[:] = 0.0
    for first in range(low, high, LANES):
        if design == RuleCode.SUCCESSIVE:
            load_clocks(first, high, z, top, u, s, q, weight)
            for j in range(LANES):
                count[j] += weight[j] * (1.0 - q[j])
                slope[j] += weight[j] * (s[j] * q[j])
        else:
            load_coins(first, high, z, top, u, q, s, weight)
            for j in range(LANES):
                count[j] += weight[j] * q[j]
                slope[j] += weight[j] * (q[j] * s[j])
    return lane_sum(count), lane_sum(slope)


@njit(**COMPILE)
def next_shift(u, count, slope, k, slack, bracket):
    """One safeguarded Newton step towards an expected count within ``slack`` of k.

    Returns the new u, or u itself when the search is over. bracket = [too low, too high, first
    guess] is updated. If the count is nearly constant around u (weights many orders of magnitude
    apart), Newton's step is useless: steps then triple until k is bracketed, and after that the
    bracket is halved.
    """
    if count < k:
        bracket[0] = u
    else:
        bracket[1] = u
    if abs(k - count) <= slack:
        return u
    low, high = bracket[0], bracket[1]
    guess = u + (k - count) / slope if slope > 0.0 else np.inf
    negligible = 1e-15 * (1.0 + abs(u))
    if abs(guess - u) <= negligible:  # before the bracket is looked at, because u is an end of it
        return u
    if abs(guess - u) > 30.0 or not low < guess < high:
        if np.isinf(high):
            guess = low + max(1.0, 2.0 * (low - bracket[2]))
        elif np.isinf(low):
            guess = high - max(1.0, 2.0 * (bracket[2] - high))
        else:
            guess = 0.5 * (low + high)
    return u if abs(guess - u) <= negligible else guess


@njit(**COMPILE)
def guess_shift(z, top, k):
    """A first guess of u: the solution if all arms had the mean log-weight."""
    n = len(z)
    typical = 0.0
    for i in range(n):
        typical += (z[i] - top) / n
    return math.log(k / (n - k)) - (typical if typical > -30.0 else 0.0)


@njit(**COMPILE)
def shift(z, top, k, design, guess, slack):
    """u at which the expected count is within ``slack`` of k."""
    bracket = np.array([-np.inf, np.inf, guess])
    u = guess
    for _ in range(400):
        count, slope = expected_count(np.int64(0), len(z), z, top, u, design)
        moved = next_shift(u, count, slope, k, slack, bracket)
        if moved == u:
            break
        u = moved
    return u


@njit(**COMPILE)
def polish(u, count, slope, bend, twist, k, reach, bracket):
    """(step, near) from u towards expected count k, given three derivatives of the count.

    near is true if the step is shorter than ``reach``. Newton's method on the cubic model of the
    count then improves the step, to an error of the order of its fourth power. If the slope is at
    most 1, rounding would decide that iteration, and the step is not changed.
    """
    step = next_shift(u, count, slope, k, ROUNDING * k, bracket) - u
    near = abs(step) < reach
    if near and slope > 1.0:
        for _ in range(4):
            step += (k - count - step * (slope + step * (bend / 2.0 + step * twist / 6.0))) / (
                slope + step * (bend + step * twist / 2.0)
            )
    return step, near


@njit(**COMPILE)
def reach_for(tolerance):
    """The longest step over which `polish` and `move_moments` stay within the tolerance."""
    return min(0.05, (0.3 * tolerance) ** 0.25)
