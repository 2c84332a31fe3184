"""Inclusion probabilities Pr(a_i = 1) of the two designs from log-weights z_i, on one thread.

`successive`: each arm has an exponential clock of rate w_i = exp(z_i), and the first k to ring are
chosen. At time x = e^u arm i has rung with probability q_i = 1 - exp(-w_i x).

`joint`: conditional Poisson sampling, Pr(set) proportional to the product of its weights, with
q_i = sigmoid(z_i + u), sum q = k.

Each design has an O(n) evaluation (`expansion` and `fourier`), which needs a large
V = sum q (1 - q), and an exact evaluation (`convolution`) for all other cases.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .convolution import joint_exact, successive_exact, sums
from .elementary import COMPILE
from .expansion import (
    MOST_ORDER,
    estimated_error,
    first_map,
    first_moments,
    move_moments,
    successive_coefficients,
    successive_derivatives,
    successive_map,
    successive_moments,
)
from .fourier import MOST_POWERS, joint_coefficients, joint_map, joint_moments, joint_powers
from .rules import RuleCode
from .shift import ROUNDING, expected_count, polish, reach_for, shift

__all__ = ["joint_inclusion", "restore_sum", "successive_inclusion"]


@njit(**COMPILE)
def restore_sum(low, high, p, k, total, spread):
    """Correct p [low, high) so that all p sum to k up to rounding; their order is kept.

    total and spread are sum p and sum p (1 - p) over all arms. The difference k - total is
    shared out in proportion to p (1 - p), so that chances of 0 and 1 are not changed.
    """
    nudge = (k - total) / spread if spread > 0.0 else 0.0
    part = p[low:high]
    for i in range(len(part)):
        moved = part[i] + nudge * (part[i] * (1.0 - part[i]))
        moved = moved if moved > 0.0 else 0.0
        part[i] = moved if moved < 1.0 else 1.0


@njit(**COMPILE)
def _expanded(z, top, k, u, tolerance, series, out):
    """`successive` by its expansion: (done, u, sum p, sum p (1 - p)).

    The first order is used if its estimated error is within the tolerance; otherwise the highest.
    """
    # Typed numbers, because functions that are called with a literal are compiled for each literal.
    n, zero, one = len(z), np.int64(0), np.int64(1)
    bracket = np.array([-np.inf, np.inf, u])
    lowest = top
    for i in range(n):
        lowest = min(lowest, z[i])
    total, spread = 0.0, 0.0
    for order in (1, MOST_ORDER):
        near = False
        for _ in range(400):
            first = order == 1
            moments = (
                first_moments(zero, n, z, top, u, out)
                if first
                else successive_moments(zero, n, z, top, u, order)
            )
            count, slope, bend, twist = successive_derivatives(moments)
            step, near = polish(u, count, slope, bend, twist, k, reach_for(tolerance), bracket)
            u += step
            if near:
                break
        if not near:
            break
        move_moments(moments, step)
        error = estimated_error(moments, series, lowest - top + u, u)
        # The error of the highest order is about the square of the error of the first.
        if error * error > 10.0 * tolerance:
            break
        if error <= tolerance:
            coefficients = np.zeros(moments.shape)
            successive_coefficients(moments, series, one, order, coefficients)
            if first:
                total, spread = first_map(zero, n, math.exp(step), coefficients, out)
            else:
                total, spread = successive_map(zero, n, z, top, u, coefficients, out)
            return True, u, total, spread
    return False, u, total, spread


@njit(**COMPILE)
def successive_inclusion(z, top, k, tolerance, guess, series, out):
    """Inclusion [n] of the successive design for 0 < k < n into out, on one thread.

    The expansion is used if its estimated relative error is within ``tolerance``; otherwise the
    exact evaluation. The rounding of the exact evaluation may disturb the order of arms whose
    weights are nearly equal. Returns (u, exact): the shift, which is a good guess for similar
    weights, and whether the exact evaluation was used. top is the maximum of z.
    """
    n, budget = len(z), float(k)
    fast, u, total, spread = _expanded(z, top, budget, guess, tolerance, series, out)
    if not fast:
        successive_exact(z, top, k, u, tolerance, out)
        total, spread = sums(out)
    # If nearly all chances are 0 or 1, the sum of p (1 - p) is too small to share the difference.
    movable = fast or abs(budget - total) <= 0.5 * tolerance * spread
    restore_sum(np.int64(0), n, out, budget if movable else total, total, spread)
    return u, not fast


@njit(**COMPILE)
def joint_inclusion(z, top, k, guess, out):
    """`successive_inclusion` for the joint design, to full precision in both evaluations."""
    n, zero, budget = len(z), np.int64(0), float(k)
    u = shift(z, top, budget, np.int64(RuleCode.JOINT), guess, ROUNDING * budget)
    _, variance = expected_count(zero, n, z, top, u, np.int64(RuleCode.JOINT))
    powers = joint_powers(variance, n)
    fast = powers <= MOST_POWERS
    if fast:
        coefficients = np.empty(powers)
        joint_coefficients(
            joint_moments(zero, n, z, top, u, powers), budget, variance, coefficients
        )
        total, spread = joint_map(zero, n, z, top, u, coefficients, out)
    else:
        joint_exact(z, top, k, u, out)
        total, spread = sums(out)
    restore_sum(zero, n, out, budget, total, spread)
    return u, not fast
