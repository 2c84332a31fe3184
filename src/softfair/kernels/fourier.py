"""The O(n) evaluation of the joint design: a Fourier integral assembled from power sums.

With y = 2q - 1 and tan = tan(t/2), the characteristic function of the count is

  log phi(t) - i k t = -(n/2) log(1 + tan^2) + i t (n/2 - k)
                       + sum_m (-1)^(m+1) (i tan)^m S_m / m,       S_m = sum y^m,

because 1 - q + q e^it = e^(it/2) cos(t/2) (1 + i y tan). Removing an arm divides by that factor,
and 1 / (1 + i y tan) is a power series in y. So p = q g(y), where g is a polynomial whose
coefficients are Fourier sums. Only the S_m are sums over arms. Since g(1) = 1 (q = 1 implies
p = 1), g(y) = 1 - (1 - y) d(y) with d_m = sum_{j > m} g_j, and p = q - 2 q (1 - q) d(y), which
keeps the relative precision of 1 - p as well.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .elementary import COMPILE
from .lanes import LANES, lanes
from .weights import lane_sum, load_coins, store

__all__ = ["MOST_POWERS", "joint_coefficients", "joint_map", "joint_moments", "joint_powers"]

MOST_POWERS = 64


@njit(**COMPILE)
def joint_powers(variance, n):
    """The number of power sums that the integral needs.

    n tan^m must be negligible where the integrand is not, which is for |t| <= 8.7 / sd. If V is too
    small for that, the result is more than MOST_POWERS.
    """
    reach = math.tan(4.35 / math.sqrt(variance)) if variance > 25.0 else 1.0
    return math.ceil(math.log(1e-17 / n) / math.log(reach)) if reach < 1.0 else MOST_POWERS + 1


@njit(**COMPILE)
def joint_moments(low, high, z, top, u, powers):
    """S_m = sum (2 q - 1)^m over arms [low, high), for m = 0 .. powers - 1."""
    sums = np.zeros((powers, LANES))
    y, r, power = lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        load_coins(first, high, z, top, u, y, r, power)
        for j in range(LANES):
            y[j] -= r[j]
            sums[0, j] += power[j]
        for m in range(1, powers):
            total = sums[m]
            for j in range(LANES):
                power[j] *= y[j]
                total[j] += power[j]
    out = np.empty(powers)
    for m in range(powers):
        out[m] = lane_sum(sums[m])
    return out


@njit(**COMPILE)
def joint_coefficients(moments, k, variance, out):
    """Fill out [powers] with the coefficients of d in powers of y; the last is 0."""
    n, powers = moments[0], len(moments)
    sd = math.sqrt(variance)
    # The count varies by less than one period, 20 sd + 60, so that the trapezoid sum is exact.
    step = 2.0 * math.pi / (20.0 * sd + 60.0)
    out[:] = 0.0
    norm = 0.0
    for node in range(int(8.7 / sd / step) + 1):
        t = node * step
        tangent = math.tan(t / 2.0)
        real = -0.5 * n * math.log1p(tangent * tangent)
        imaginary = t * (0.5 * n - k)
        power = 1.0
        for m in range(1, powers):  # (-1)^(m+1) i^m = i, 1, -i, -1, ...
            power *= tangent
            term = power * moments[m] / m
            if m % 4 == 1:
                imaginary += term
            elif m % 4 == 2:
                real += term
            elif m % 4 == 3:
                imaginary -= term
            else:
                real -= term
        weight = math.exp(real) * (1.0 if node == 0 else 2.0)  # nodes -t are the conjugates
        norm += weight * math.cos(imaginary)
        scale = weight / math.cos(t / 2.0)
        cosine, sine = math.cos(imaginary + t / 2.0), math.sin(imaginary + t / 2.0)
        power = 1.0
        for m in range(powers):  # real part of e^(i angle) (-i)^m
            if m % 4 == 0:
                out[m] += scale * power * cosine
            elif m % 4 == 1:
                out[m] += scale * power * sine
            elif m % 4 == 2:
                out[m] -= scale * power * cosine
            else:
                out[m] -= scale * power * sine
            power *= tangent
    above = 0.0
    for m in range(powers - 1, -1, -1):
        above, out[m] = above + out[m] / norm, above


@njit(**COMPILE)
def joint_map(low, high, z, top, u, coefficients, out):
    """Fill out with p_i of arms [low, high); returns (sum p, sum p (1 - p))."""
    q, r, y, d, weight = lanes(), lanes(), lanes(), lanes(), lanes()
    total, spread = lanes(), lanes()
    total[:] = 0.0
    spread[:] = 0.0
    for first in range(low, high, LANES):
        load_coins(first, high, z, top, u, q, r, weight)
        for j in range(LANES):
            y[j] = q[j] - r[j]
            d[j] = 0.0
        for m in range(len(coefficients) - 1, -1, -1):
            for j in range(LANES):
                d[j] = d[j] * y[j] + coefficients[m]
        for j in range(LANES):
            d[j] *= 2.0
            q[j] = q[j] * (1.0 - r[j] * d[j]) if q[j] < 0.5 else 1.0 - r[j] * (1.0 + q[j] * d[j])
            total[j] += weight[j] * q[j]
            spread[j] += weight[j] * (q[j] * (1.0 - q[j]))
        store(first, high, q, out)
    return lane_sum(total), lane_sum(spread)
