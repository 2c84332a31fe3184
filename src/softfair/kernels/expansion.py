"""The O(n) evaluation of the successive design: an expansion in 1/V, V = sum q (1 - q).

With mu = sum q in place of time, D = d/dmu, kappa_j the cumulants of the count, and everything
evaluated at mu = k,

  p = q + sum over orders 1, 2, ... of
          D^-1 { q' [D / (e^D - 1)] exp(sum_{j>=2} kappa_j (-D)^j / j!) / (1 - q (1 - e^-D)) }

with D ~ 1/V and kappa ~ V, where every D acts on the whole expression in braces. In s = w x and
e = exp(-s) each term is a polynomial in s^a e^b. Its coefficients depend on the arms only through
the moments sum s^a e^b. Functions of log time are represented by their Taylor coefficients ("jets")
about the solution. Order j needs s^0 .. s^(2j) (and one power more to solve for u), e^1 ..
e^(j + 1), and jets of 2j coefficients, because at most 2j - 1 derivatives are taken.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .elementary import COMPILE, SMALL_RISE, exp_, exp_upto_, rise_, small_rise_
from .lanes import LANES, lanes
from .weights import lane_sum, load_clocks, store

__all__ = [
    "MOST_ORDER",
    "SERIES",
    "clocks",
    "estimated_error",
    "first_map",
    "first_moments",
    "move_moments",
    "successive_coefficients",
    "successive_derivatives",
    "successive_map",
    "successive_moments",
]

MOST_ORDER = 3


def _constants():
    """[MOST_ORDER + 1, 2 MOST_ORDER + 1]: row b is the series of [D/(e^D - 1)] (1 - e^-D)^b."""
    size = 2 * MOST_ORDER + 1
    factorial = [math.factorial(j) for j in range(size + 2)]
    bernoulli = np.zeros(size)  # D / (e^D - 1), from (e^D - 1)/D times it = 1
    for r in range(size):
        bernoulli[r] = (r == 0) - sum(bernoulli[r - j] / factorial[j + 1] for j in range(1, r + 1))
    step = np.array([0.0] + [(-1.0) ** (j + 1) / factorial[j] for j in range(1, size)])  # 1 - e^-D
    rows = [bernoulli]
    for _ in range(MOST_ORDER):
        rows.append(np.convolve(rows[-1], step)[:size])
    return np.array(rows)


SERIES = _constants()


@njit(**COMPILE)
def successive_moments(low, high, z, top, u, order):
    """sum s^a e^b over arms [low, high): [2 order + 2, order + 2]; entry (0, 0) is sum q."""
    powers_s, powers_e = 2 * order + 2, order + 2
    sums = np.zeros((powers_s, powers_e, LANES))
    s, e, term, power = lanes(), lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        load_clocks(first, high, z, top, u, s, e, power)
        total = sums[0, 0]
        for j in range(LANES):
            total[j] += power[j] * (1.0 - e[j])
        for b in range(1, powers_e):
            total = sums[0, b]
            for j in range(LANES):
                power[j] *= e[j]
                term[j] = power[j]
                total[j] += power[j]
            for a in range(1, powers_s):
                total = sums[a, b]
                for j in range(LANES):
                    term[j] *= s[j]
                    total[j] += term[j]
    out = np.empty((powers_s, powers_e))
    for a in range(powers_s):
        for b in range(powers_e):
            out[a, b] = lane_sum(sums[a, b])
    return out


@njit(**COMPILE)
def first_moments(low, high, z, top, u, clocks):
    """`successive_moments` to order 1 in one loop, with s of each arm stored in clocks.

    Order 1 is enough for a million arms. The sums are kept on the stack.
    """
    s, e, weight = lanes(), lanes(), lanes()
    e1, s1e1, s2e1, s3e1 = lanes(), lanes(), lanes(), lanes()
    e2, s1e2, s2e2 = lanes(), lanes(), lanes()
    for j in range(LANES):
        e1[j], s1e1[j], s2e1[j], s3e1[j] = 0.0, 0.0, 0.0, 0.0
        e2[j], s1e2[j], s2e2[j] = 0.0, 0.0, 0.0
    for first in range(low, high, LANES):
        load_clocks(first, high, z, top, u, s, e, weight)
        store(first, high, s, clocks)
        for j in range(LANES):
            term = weight[j] * e[j]
            square = term * e[j]
            e1[j] += term
            e2[j] += square
            term *= s[j]
            square *= s[j]
            s1e1[j] += term
            s1e2[j] += square
            term *= s[j]
            s2e1[j] += term
            s2e2[j] += square * s[j]
            s3e1[j] += term * s[j]
    out = np.zeros((4, 3))  # the sum of s^3 e^2 is not needed and stays 0
    out[0, 1], out[1, 1] = lane_sum(e1), lane_sum(s1e1)
    out[2, 1], out[3, 1] = lane_sum(s2e1), lane_sum(s3e1)
    out[0, 2], out[1, 2], out[2, 2] = lane_sum(e2), lane_sum(s1e2), lane_sum(s2e2)
    out[0, 0] = (high - low) - out[0, 1]
    return out


@njit(**COMPILE)
def clocks(low, high, z, top, u, out):
    """Fill out with s of arms [low, high), to the last bit as `first_moments` stores it."""
    s, e, weight = lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        load_clocks(first, high, z, top, u, s, e, weight)
        store(first, high, s, out)


@njit(**COMPILE)
def successive_derivatives(moments):
    """(count, its first three derivatives in u) from the moments."""
    a1, a2, a3 = moments[1, 1], moments[2, 1], moments[3, 1]
    return moments[0, 0], a1, a1 - a2, a1 - 3.0 * a2 + a3


@njit(**COMPILE)
def move_moments(moments, step):
    """Move the moments by a small step of u: d/du s^a e^b = a s^a e^b - b s^(a+1) e^b."""
    for a in range(len(moments) - 1):
        for b in range(1, moments.shape[1]):
            moments[a, b] += step * (a * moments[a, b] - b * moments[a + 1, b])


@njit(**COMPILE)
def _jet_of_moment(moments, a, b, jet):
    """Fill jet with the Taylor coefficients in log time of sum s^a e^b."""
    size = len(moments)
    poly = np.zeros(size)  # coefficients of s^j e^b
    poly[a] = 1.0
    factorial = 1.0
    for r in range(len(jet)):
        total = 0.0
        for j in range(size):
            total += poly[j] * moments[j, b]
        jet[r] = total / factorial
        factorial *= r + 1.0
        for j in range(size - 1, -1, -1):  # d/du s^j e^b = j s^j e^b - b s^(j+1) e^b
            if j + 1 < size:
                poly[j + 1] -= b * poly[j]
            poly[j] *= j


@njit(**COMPILE)
def _times(x, y, out):
    """Fill out with the product of the jets x and y."""
    for r in range(len(out)):
        total = 0.0
        for j in range(r + 1):
            total += x[j] * y[r - j]
        out[r] = total


@njit(**COMPILE)
def successive_coefficients(moments, series, order_low, order_high, out):
    """Fill out (shape of moments) with the coefficients of s^a e^b of the expansion.

    The terms of orders order_low .. order_high are included, up to the order of the moments.
    """
    powers_s, powers_e = moments.shape
    order, zero = powers_e - 2, np.int64(0)
    size = 2 * order  # of a jet
    # Cumulants of the count as jets: sums of polynomials in e,
    # kappa_2 = e - e^2, kappa_3 = -e + 3e^2 - 2e^3, ...
    power_jets = np.zeros((powers_e, size))
    for b in range(1, powers_e):
        _jet_of_moment(moments, zero, b, power_jets[b])
    cumulant_poly = np.zeros((order + 2, powers_e + 1))  # kappa_j as a polynomial in e
    cumulant_poly[1, 0] = 1.0
    cumulant_poly[1, 1] = -1.0  # kappa_1 = q = 1 - e
    # kappa_{j+1} = q (1 - q) d kappa_j / dq = -(e - e^2) d kappa_j / de
    for j in range(1, order + 1):
        for b in range(1, powers_e):
            term = b * cumulant_poly[j, b]
            cumulant_poly[j + 1, b] -= term
            cumulant_poly[j + 1, b + 1] += term
    # K[m, r] is the part of exp(sum_j kappa_j (-D)^j / j!) with m cumulants and D^r, as jets.
    K = np.zeros((order + 1, 2 * order + 1, size))
    K[0, 0, 0] = 1.0
    single = np.zeros((2 * order + 1, size))
    factorial, sign = 1.0, -1.0
    for j in range(2, order + 2):
        factorial *= j
        sign = -sign
        for b in range(1, powers_e):
            for r in range(size):
                single[j, r] += sign / factorial * cumulant_poly[j, b] * power_jets[b, r]
    product = np.empty(size)
    for m in range(1, order + 1):
        for r in range(2 * order + 1):
            for j in range(2, min(r, order + 1) + 1):
                _times(K[m - 1, r - j], single[j], product)
                for d in range(size):
                    K[m, r, d] += product[d] / m
    # 1 / mu' as a jet.
    slope, inverse = np.empty(size), np.empty(size)
    _jet_of_moment(moments, zero + 1, zero + 1, slope)
    for r in range(size):
        total = 1.0 if r == 0 else 0.0
        for j in range(1, r + 1):
            total -= slope[j] * inverse[r - j]
        inverse[r] = total / slope[0]
    # Horner in D: acc <- X_r + D acc, from r = 2 order down to 1, where X_r is q' times the
    # coefficient of D^r.
    acc = np.zeros((powers_s + 1, powers_e, size))
    moved = np.zeros((powers_s + 1, powers_e, size))
    scalar, jet = np.empty(size), np.empty(size)
    for r in range(2 * order, 0, -1):
        moved[:] = 0.0
        for a in range(powers_s):
            for b in range(1, powers_e):
                for d in range(size - 1):
                    derivative = (d + 1) * acc[a, b, d + 1] + a * acc[a, b, d]
                    moved[a, b, d] += derivative
                    moved[a + 1, b, d] -= b * acc[a, b, d]
        for a in range(powers_s):
            for b in range(1, powers_e):
                _times(moved[a, b], inverse, acc[a, b])
        for b in range(order + 1):  # q^b = (1 - e)^b
            scalar[:] = 0.0
            for m in range(order + 1):
                if order_low <= r - m <= order_high:
                    for r2 in range(r + 1):
                        for d in range(size):
                            scalar[d] += K[m, r2, d] * series[b, r - r2]
            _times(scalar, inverse, jet)
            binomial = 1.0
            for j in range(b + 1):
                if j + 1 < powers_e:
                    for d in range(size):
                        acc[1, 1 + j, d] += binomial * jet[d]
                binomial *= -(b - j) / (j + 1.0)
    for a in range(powers_s):
        for b in range(powers_e):
            out[a, b] = acc[a, b, 0]


@njit(inline="always")
def _polynomial(coefficients, s, e, inner, out):
    """Fill out with sum over a, b >= 1 of coefficients[a, b] s^a e^b, for LANES arms."""
    powers_s, powers_e = coefficients.shape
    out[:] = 0.0
    for b in range(powers_e - 1, 0, -1):
        inner[:] = 0.0
        for a in range(powers_s - 1, 0, -1):
            for j in range(LANES):
                inner[j] = (inner[j] + coefficients[a, b]) * s[j]
        for j in range(LANES):
            out[j] = (out[j] + inner[j]) * e[j]


@njit(**COMPILE)
def successive_map(low, high, z, top, u, coefficients, out):
    """Fill out with p_i of arms [low, high); returns (sum p, sum p (1 - p))."""
    s, e, weight, inner, correction = lanes(), lanes(), lanes(), lanes(), lanes()
    total, spread = lanes(), lanes()
    total[:] = 0.0
    spread[:] = 0.0
    for first in range(low, high, LANES):
        load_clocks(first, high, z, top, u, s, e, weight)
        _polynomial(coefficients, s, e, inner, correction)
        # The smaller of p and 1 - p has relative precision, so that rounding keeps the order of s.
        for j in range(LANES):
            small = small_rise_(s[j]) + correction[j]
            p = small if s[j] < SMALL_RISE else 1.0 - (e[j] - correction[j])
            correction[j] = p
            total[j] += weight[j] * p
            spread[j] += weight[j] * (p * (1.0 - p))
        store(first, high, correction, out)
    return lane_sum(total), lane_sum(spread)


@njit(**COMPILE)
def first_map(low, high, factor, coefficients, out):
    """`successive_map` to order 1; out holds the clocks s / factor and is overwritten by p."""
    # To order 1 the terms are s e, s^2 e and s e^2.
    c11, c21, c12 = coefficients[1, 1], coefficients[2, 1], coefficients[1, 2]
    s, p, weight, total, spread = lanes(), lanes(), lanes(), lanes(), lanes()
    total[:] = 0.0
    spread[:] = 0.0
    weight[:] = 1.0
    for first in range(low, high, LANES):
        if first + LANES <= high:
            block = out[first : first + LANES]
            for j in range(LANES):
                s[j] = block[j] * factor
        else:
            for j in range(LANES):
                s[j] = out[first + j if first + j < high else first] * factor
                weight[j] = 1.0 if first + j < high else 0.0
        for j in range(LANES):
            e = exp_upto_(-s[j])
            correction = s[j] * e * (c11 + c21 * s[j] + c12 * e)
            p[j] = small_rise_(s[j]) + correction if s[j] < SMALL_RISE else 1.0 - (e - correction)
            total[j] += weight[j] * p[j]
            spread[j] += weight[j] * (p[j] * (1.0 - p[j]))
        store(first, high, p, out)
    return lane_sum(total), lane_sum(spread)


@njit(**COMPILE)
def estimated_error(moments, series, low, high):
    """An estimate of the relative error of the expansion to the order of the moments.

    Terms fall by a factor of about 1/V from order to order, so the remainder is estimated as 10/V
    times the last term. The last term is evaluated over the whole range [low, high] of log s and
    not only at the arms, because at an arm far above the others the term vanishes but the true
    error does not. 4e-12 is added for the grid of `on_grid`. The estimate is infinite if V or the
    slope of the count is at most 1: then the expansion does not converge.
    """
    variance, slope = moments[0, 1] - moments[0, 2], moments[1, 1]
    if not (variance > 1.0 and slope > 1.0):
        return np.inf
    order = moments.shape[1] - 2
    last = np.zeros(moments.shape)
    successive_coefficients(moments, series, order, order, last)
    s, e, inner, term = lanes(), lanes(), lanes(), lanes()
    # Below s = 0.001 the term is proportional to s, above 800 it is 0.
    low, high = max(low, -7.0), min(high, 6.7)
    for j in range(LANES):
        s[j] = exp_(low + max(high - low, 0.0) * j / (LANES - 1.0))
        e[j] = exp_(-s[j])
    _polynomial(last, s, e, inner, term)
    worst = 0.0
    for j in range(LANES):
        worst = max(worst, abs(term[j]) / rise_(s[j]))
    return 10.0 / variance * worst + 4e-12
