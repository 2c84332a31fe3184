"""Inclusion probabilities Pr(a_i = 1) of the two sampling designs, from log-weights z_i.

`successive`: each arm rings an exponential clock of rate w_i = exp(z_i); the first k to ring are chosen. At time x = e^u arm i has
rung with probability q_i = 1 - exp(-w_i x), and the others' count N_{-i} is Poisson-binomial, so

    Pr(i in) = int Pr(N_{-i}(x) <= k - 1) dq_i(x).

`joint`: conditional Poisson, Pr(set) proportional to the product of its weights; with q_i = sigmoid(z_i + u), sum q = k,

    Pr(i in) = q_i Pr(N_{-i} = k - 1) / Pr(N = k).

Both have an exact evaluation, by a windowed Poisson-binomial recursion, for any n, k and spread (cost n times the width of the window),
and an O(n) one that serves where V = sum q (1 - q) is large: for `successive` an expansion in 1/V, whose last term tells its error,
for `joint` a Fourier integral of the characteristic function, assembled from power sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from .elementary import COMPILE, INSIDE, SMALL_RISE, exp_, exp_upto_, rise_, small_rise_
from .lanes import LANES, lanes

__all__ = [
    "JOINT",
    "MOST_ORDER",
    "MOST_POWERS",
    "SERIES",
    "SUCCESSIVE",
    "estimated_error",
    "expected_count",
    "first_map",
    "first_moments",
    "guess_shift",
    "joint_coefficients",
    "joint_exact",
    "joint_inclusion",
    "joint_map",
    "joint_moments",
    "joint_powers",
    "move_moments",
    "polish",
    "reach_for",
    "settle",
    "shift",
    "successive_coefficients",
    "successive_derivatives",
    "successive_exact",
    "successive_inclusion",
    "successive_map",
    "successive_moments",
]

# Sums may be taken lane by lane.
SUM: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "fastmath": {"contract", "reassoc", "nsz"},
    "error_model": "numpy",
}

SUCCESSIVE, JOINT = 0, 1

DUST = 1e-20  # a probability that nothing can show
STRIP = 1.08  # how far from the real line the integrand is tame (measured)
ROUNDING = 4e-15  # relative, of a sum over arms
CERTAIN = 1e-26  # an arm whose chance is this close to 0 or 1 does not move a count, not even with ten million like it


@njit(**INSIDE)
def _place(log_weight, top):
    """A log-weight less their maximum, on a grid of 2^-38 (3.6e-12).

    Distinct weights are then apart by more than the rounding of what follows, so inclusion keeps their order exactly; the price
    is a relative error of 2e-12 in each weight. Adding 1.5 * 2^14 leaves just that many bits behind the point.
    """
    return ((log_weight - top) + 24576.0) - 24576.0


@njit(**INSIDE)
def _clock(z):
    """Rate times time, s = e^z; from s = 800 on exp(-s) is 0 to every digit, and so must s exp(-s) be."""
    return exp_(z if z < 6.7 else 6.7)


# ---------------------------------------------------------------------------------------------------------------------------------
# Exact: the Poisson-binomial law of the count without arm i.


@njit(**INSIDE)
def _coin(x):
    """(q, 1 - q) of q = sigmoid(x), both to relative precision."""
    e = exp_(-abs(x))
    large = 1.0 / (1.0 + e)
    small = e * large
    return large if x >= 0.0 else small, small if x >= 0.0 else large


@njit(**COMPILE)
def _count_law(q, r, dust, law):
    """The law of the count N of a Poisson-binomial q [n], r = 1 - q: law[1 + j] = Pr(N = j) for rows low .. high; returns them and how many
    arms are likely (q > 1/2).

    A likely arm is taken to be in, and lets the count fall if it is not: every chance that moves the count is at most 1/2, and the law
    is never much wider than at the end. Rows at either end are dropped once they hold less than ``dust``. law [n + 4].
    """
    n, likely = len(q), 0
    for i in range(n):
        likely += q[i] > 0.5
    low = high = 1 + likely
    law[low] = 1.0
    for i in range(n):
        p = min(q[i], r[i])
        if p < CERTAIN:
            continue
        if q[i] <= 0.5:
            high += 1
            law[high] = 0.0
            before = 0.0
            for j in range(low, high + 1):
                here = law[j]
                law[j] = (1.0 - p) * here + p * before
                before = here
        else:
            low -= 1
            law[low] = 0.0
            for j in range(low, high):
                law[j] = (1.0 - p) * law[j] + p * law[j + 1]
            law[high] *= 1.0 - p
        while law[low] < dust:
            low += 1
        while law[high] < dust:
            high -= 1
    return low, high, likely


@njit(**COMPILE)
def _without_each(q, r, k, design, dust, law, order, out):
    """out_i = Pr(N_{-i} < k) (`successive`) or Pr(N_{-i} = k - 1) (`joint`), N a Poisson-binomial of q [n]; r = 1 - q, as exact as q.

    Each arm's coin is taken out of the law of the count: from the bottom row up to N = k - 1 if it is unlikely, from the top row down
    to there if it is likely. What is divided by is at least 1/2 either way, so that errors fade from row to row. LANES arms run side
    by side. law [n + 4] and order [n] are scratch.
    """
    low, high, likely = _count_law(q, r, dust, law)
    n, beyond = len(q), 0.0  # what stands above the highest row
    if design == SUCCESSIVE:
        beyond = 1.0
        for j in range(low + 1, high + 1):
            law[j] += law[j - 1]
    a, b = 0, n - likely
    for i in range(n):
        if q[i] > 0.5:
            order[b] = i
            b += 1
        else:
            order[a] = i
            a += 1
    ratio, scale, rest = lanes(), lanes(), lanes()
    for kind in range(2):
        first_arm, last_arm = (0, n - likely) if kind == 0 else (n - likely, n)
        goal = k + kind  # the row at which N_{-i} = k - 1: a likely arm is in, and counted
        for first in range(first_arm, last_arm, LANES):
            size = min(LANES, last_arm - first)
            if goal < low or goal > high:  # all of the mass is on one side
                for j in range(size):
                    out[order[first + j]] = beyond if goal > high else 0.0
                continue
            for j in range(LANES):
                arm = order[first + j if j < size else first]
                p = q[arm] if kind == 0 else r[arm]
                scale[j] = 1.0 / (1.0 - p)
                ratio[j] = p * scale[j]
                rest[j] = 0.0 if kind == 0 else beyond
            if kind == 0:
                for m in range(low, goal + 1):
                    for j in range(LANES):
                        rest[j] = law[m] * scale[j] - ratio[j] * rest[j]
            else:
                for m in range(high, goal - 1, -1):
                    for j in range(LANES):
                        rest[j] = law[m] * scale[j] - ratio[j] * rest[j]
            for j in range(size):
                out[order[first + j]] = rest[j]


@njit(**INSIDE)
def _digits(growth, step):
    """-log of the relative error of a sum over nodes ``step`` apart: the best of 2 pi y / step - growth y^2 / 2 over 0 <= y <= STRIP."""
    y = min(STRIP, 2.0 * math.pi / (growth * step))
    return 2.0 * math.pi * y / step - 0.5 * growth * y * y


@njit(**COMPILE)
def successive_exact(z, top, k, u, tolerance, out):
    """Inclusion of the successive design to a relative ``tolerance`` (1e-12 at best), by integration over u = log time.

    With G a normal step from 1 to 0 at u, about where the k-th clock rings, and g its density,

        Pr(i in) = int q_i' Pr(N_{-i} < k) du = q_i(u) + int [q_i' (Pr(N_{-i} < k) - G) + (q_i - q_i(u)) g] du,

    whose integrand vanishes at both ends and is analytic for |Im u| < pi/2: a sum over equidistant nodes converges exponentially. How
    fast is told by ``growth``: at a distance y from the real line the integrand is exp(growth y^2 / 2) times larger. Nodes are added to
    the right, then to the left, until they are not felt; should a node find that they are too far apart, it is done again with more.
    u is a guess.
    """
    n = len(z)
    u = shift(
        z, top, k - 0.5, np.int64(SUCCESSIVE), u, 0.1
    )  # between k - 1 and k: at k the count may stand still for long
    q, r, q_mid, r_mid = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    below, law, order = np.empty(n), np.empty(n + 4), np.empty(n, np.int64)
    variance, slope, growth = 0.0, 0.0, 1e-300
    for i in range(n):
        s = _clock(_place(z[i], top) + u)
        q_mid[i], r_mid[i] = rise_(s), exp_(-s)
        variance += q_mid[i] * r_mid[i]
        slope += s * r_mid[i]
        growth += s * s * r_mid[i] / q_mid[i]
    sigma = min(1.0, math.sqrt(variance) / slope) if slope > 0.0 else 1.0
    aim = max(
        1e-15, 5.0 * tolerance**1.5
    )  # because the sum over arms, which is set right in the end, gathers errors
    step = sigma
    while _digits(max(growth, 1.0 / (sigma * sigma)), step) < -math.log(aim):
        step *= 0.9
    coarse = True
    while coarse:
        coarse = False
        for i in range(n):
            out[i] = 0.0
        for side in range(2):
            x = (0.5 if side == 0 else -0.5) * step
            for _ in range(10000):
                G = 0.5 * math.erfc(x / (math.sqrt(2.0) * sigma))
                g = math.exp(-0.5 * (x / sigma) ** 2) / (math.sqrt(2.0 * math.pi) * sigma)
                growth = 1e-300
                for i in range(n):
                    s = _clock(_place(z[i], top) + (u + x))
                    q[i], r[i] = rise_(s), exp_(-s)
                    growth += s * s * r[i] / q[i]
                _without_each(
                    q, r, k, np.int64(SUCCESSIVE), max(DUST, aim * tolerance), law, order, below
                )
                felt = 0.0
                for i in range(n):
                    density = _clock(_place(z[i], top) + (u + x)) * r[i]
                    risen = (
                        q[i] - q_mid[i] if q[i] < 0.5 else r_mid[i] - r[i]
                    )  # to relative precision
                    out[i] += step * (density * (below[i] - G) + risen * g)
                    felt = max(felt, (density * abs(below[i] - G) + abs(risen) * g) / q_mid[i])
                coarse |= felt * math.exp(-_digits(growth, step)) > 100.0 * aim
                if felt * step < aim or coarse:
                    break
                x += step if side == 0 else -step
            if coarse:
                step *= 0.7
                break
    for i in range(n):
        out[i] += q_mid[i]


@njit(**COMPILE)
def joint_exact(z, top, k, u, out):
    """Inclusion of the joint design by the Poisson-binomial law at q = sigmoid(z + u)."""
    n = len(z)
    q, r = np.empty(n), np.empty(n)
    for i in range(n):
        q[i], r[i] = _coin(_place(z[i], top) + u)
    _without_each(q, r, k, np.int64(JOINT), DUST, np.empty(n + 4), np.empty(n, np.int64), out)
    for i in range(n):
        out[i] *= q[i]
    total, _ = _sums(out)
    for i in range(n):  # the inclusions sum to k: dividing by the sum is dividing by k Pr(N = k)
        out[i] *= k / total


@njit(**COMPILE)
def _sums(p):
    """(sum p, sum p (1 - p)), the first with Kahan's correction: a million equal terms round the same way a million times."""
    total, missed, spread = 0.0, 0.0, 0.0
    for i in range(len(p)):
        term = p[i] - missed
        larger = total + term
        missed = (larger - total) - term
        total = larger
        spread += p[i] * (1.0 - p[i])
    return total, spread


# ---------------------------------------------------------------------------------------------------------------------------------
# O(n): sums over parts of the arms, then a function of each arm's own weight.


@njit(**SUM)
def _lane_sum(values):
    total = 0.0
    for j in range(LANES):
        total += values[j]
    return total


@njit(inline="always")
def _load_clocks(first, high, z, top, u, s, e, weight):
    """s = w x and e = exp(-s) of arms [first, first + LANES); lanes beyond ``high`` repeat an arm and weigh 0."""
    if first + LANES <= high:
        for j in range(LANES):
            s[j] = _place(z[first + j], top) + u
            weight[j] = 1.0
    else:
        for j in range(LANES):
            s[j] = _place(z[first + j if first + j < high else first], top) + u
            weight[j] = 1.0 if first + j < high else 0.0
    for j in range(LANES):
        s[j] = exp_upto_(
            6.7 if s[j] > 6.7 else s[j]
        )  # from s = 800 on e is 0 to every digit, and powers of s must stay finite
        e[j] = exp_upto_(-s[j])


@njit(inline="always")
def _load_coins(first, high, z, top, u, q, r, weight):
    """q = sigmoid(z + u) and r = 1 - q of arms [first, first + LANES); lanes beyond ``high`` repeat an arm and weigh 0."""
    if first + LANES <= high:
        for j in range(LANES):
            q[j], r[j] = _coin(_place(z[first + j], top) + u)
            weight[j] = 1.0
    else:
        for j in range(LANES):
            q[j], r[j] = _coin(_place(z[first + j if first + j < high else first], top) + u)
            weight[j] = 1.0 if first + j < high else 0.0


@njit(inline="always")
def _store(first, high, values, out):
    """LANES values to out[first:], not beyond ``high``."""
    if first + LANES <= high:
        for j in range(LANES):
            out[first + j] = values[j]
    else:
        for j in range(high - first):
            out[first + j] = values[j]


@njit(**COMPILE)
def expected_count(low, high, z, top, u, design):
    """(sum q, sum dq/du) of arms [low, high) at log time, or shift, u."""
    s, q, weight, count, slope = lanes(), lanes(), lanes(), lanes(), lanes()
    count[:] = 0.0
    slope[:] = 0.0
    for first in range(low, high, LANES):
        if design == SUCCESSIVE:
            _load_clocks(first, high, z, top, u, s, q, weight)
            for j in range(LANES):
                count[j] += weight[j] * (1.0 - q[j])
                slope[j] += weight[j] * (s[j] * q[j])
        else:
            _load_coins(first, high, z, top, u, q, s, weight)
            for j in range(LANES):
                count[j] += weight[j] * q[j]
                slope[j] += weight[j] * (q[j] * s[j])
    return _lane_sum(count), _lane_sum(slope)


# The expansion of `successive` in 1/V. With D = d/dmu, mu = sum q as the clock, kappa_j the cumulants of the count and everything
# taken at mu = k,
#
#   p = q + sum over orders 1, 2, ... of  D^-1 { q' [D / (e^D - 1)] exp(sum_{j>=2} kappa_j (-D)^j / j!) / (1 - q (1 - e^-D)) }
#
# with D ~ 1/V and kappa ~ V, every D acting on all that stands in the braces. In s = w x and e = exp(-s) each term is a polynomial
# s^a e^b whose coefficients depend on the arms through the moments sum s^a e^b alone. Functions of log time are carried as Taylor
# coefficients ("jets") about the solution.

# To order j: s^0 .. s^(2j) (and one more for the solution in u), e^1 .. e^(j + 1), jets of 2j coefficients (at most 2j - 1
# derivatives are taken).

MOST_ORDER = 3


def _constants():
    """[D/(e^D - 1)] (1 - e^-D)^b as power series in D: [MOST_ORDER + 1, 2 MOST_ORDER + 1], row b."""
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
    """sum s^a e^b over arms [low, high): [2 order + 2, order + 2]; row 0, column 0 holds sum q."""
    powers_s, powers_e = 2 * order + 2, order + 2
    sums = np.zeros((powers_s, powers_e, LANES))
    s, e, term, power = lanes(), lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        _load_clocks(first, high, z, top, u, s, e, power)
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
            out[a, b] = _lane_sum(sums[a, b])
    return out


@njit(**COMPILE)
def first_moments(low, high, z, top, u, clocks):
    """`successive_moments` to order 1, which is all that a million arms need: one loop, its sums on the stack; s into clocks."""
    s, e, weight = lanes(), lanes(), lanes()
    e1, s1e1, s2e1, s3e1, e2, s1e2, s2e2 = (
        lanes(),
        lanes(),
        lanes(),
        lanes(),
        lanes(),
        lanes(),
        lanes(),
    )
    for j in range(LANES):
        e1[j], s1e1[j], s2e1[j], s3e1[j] = 0.0, 0.0, 0.0, 0.0
        e2[j], s1e2[j], s2e2[j] = 0.0, 0.0, 0.0
    for first in range(low, high, LANES):
        _load_clocks(first, high, z, top, u, s, e, weight)
        _store(first, high, s, clocks)
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
    out = np.zeros((4, 3))  # s^3 e^2 is needed by nothing
    out[0, 1], out[1, 1], out[2, 1], out[3, 1] = (
        _lane_sum(e1),
        _lane_sum(s1e1),
        _lane_sum(s2e1),
        _lane_sum(s3e1),
    )
    out[0, 2], out[1, 2], out[2, 2] = _lane_sum(e2), _lane_sum(s1e2), _lane_sum(s2e2)
    out[0, 0] = (high - low) - out[0, 1]
    return out


@njit(**COMPILE)
def _jet_of_moment(moments, a, b, jet):
    """Taylor coefficients in log time of sum s^a e^b."""
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
    """Product of two jets."""
    for r in range(len(out)):
        total = 0.0
        for j in range(r + 1):
            total += x[j] * y[r - j]
        out[r] = total


@njit(**COMPILE)
def successive_coefficients(moments, series, order_low, order_high, out):
    """Coefficients of s^a e^b, shape of moments, of the terms of order order_low .. order_high (at most what moments allow)."""
    powers_s, powers_e = moments.shape
    order, none = powers_e - 2, np.int64(0)
    size = 2 * order  # of a jet
    # Cumulants of the count as jets: sums of polynomials in e, kappa_2 = e - e^2, kappa_3 = -e + 3e^2 - 2e^3, ...
    power_jets = np.zeros((powers_e, size))
    for b in range(1, powers_e):
        _jet_of_moment(moments, none, b, power_jets[b])
    cumulant_poly = np.zeros((order + 2, powers_e + 1))  # kappa_j as a polynomial in e
    cumulant_poly[1, 0] = 1.0
    cumulant_poly[1, 1] = -1.0  # kappa_1 = q = 1 - e
    for j in range(
        1, order + 1
    ):  # kappa_{j+1} = q (1 - q) d kappa_j / dq = -(e - e^2) d kappa_j / de
        for b in range(1, powers_e):
            term = b * cumulant_poly[j, b]
            cumulant_poly[j + 1, b] -= term
            cumulant_poly[j + 1, b + 1] += term
    # K[m, r] = the part of exp(sum_j kappa_j (-D)^j / j!) with m cumulants and D^r, as jets.
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
    _jet_of_moment(moments, none + 1, none + 1, slope)
    for r in range(size):
        total = 1.0 if r == 0 else 0.0
        for j in range(1, r + 1):
            total -= slope[j] * inverse[r - j]
        inverse[r] = total / slope[0]
    # Horner in D: acc <- X_r + D acc, from r = 2 order down to 1; X_r = q' times the coefficient of D^r.
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
    """sum over a, b >= 1 of coefficients[a, b] s^a e^b, for LANES arms."""
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
    """p_i of arms [low, high) into out; returns (sum p, sum p (1 - p))."""
    s, e, weight, inner, correction = lanes(), lanes(), lanes(), lanes(), lanes()
    total, spread = lanes(), lanes()
    total[:] = 0.0
    spread[:] = 0.0
    for first in range(low, high, LANES):
        _load_clocks(first, high, z, top, u, s, e, weight)
        _polynomial(coefficients, s, e, inner, correction)
        for j in range(
            LANES
        ):  # p or 1 - p to relative precision, whichever is smaller: the order of s survives rounding
            p = (
                small_rise_(s[j]) + correction[j]
                if s[j] < SMALL_RISE
                else 1.0 - (e[j] - correction[j])
            )
            correction[j] = p
            total[j] += weight[j] * p
            spread[j] += weight[j] * (p * (1.0 - p))
        _store(first, high, correction, out)
    return _lane_sum(total), _lane_sum(spread)


@njit(**COMPILE)
def first_map(low, high, factor, coefficients, out):
    """`successive_map` to order 1, of arms [low, high) whose clocks s / factor are in out and give way to p."""
    c11, c21, c12 = (
        coefficients[1, 1],
        coefficients[2, 1],
        coefficients[1, 2],
    )  # the terms s e, s^2 e and s e^2, and no other
    s, p, weight, total, spread = lanes(), lanes(), lanes(), lanes(), lanes()
    total[:] = 0.0
    spread[:] = 0.0
    weight[:] = 1.0
    for first in range(low, high, LANES):
        if first + LANES <= high:
            for j in range(LANES):
                s[j] = out[first + j] * factor
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
        _store(first, high, p, out)
    return _lane_sum(total), _lane_sum(spread)


@njit(**COMPILE)
def estimated_error(moments, series, low, high):
    """A bound on the relative error of the expansion to the order that moments allow, clocks of log s in [low, high].

    Successive orders fall off like 1/V, so what is left out is within 10/V of the last. That is looked at over all of [low, high], not
    only where there are arms: it vanishes on an arm far above the others, where the truth does not. The rest is the grid of `_place`.
    There is nothing to expand in, and no bound, where the count hardly varies or hardly moves with the clock.
    """
    variance, slope = moments[0, 1] - moments[0, 2], moments[1, 1]
    if not (variance > 1.0 and slope > 1.0):
        return np.inf
    order = moments.shape[1] - 2
    last = np.zeros(moments.shape)
    successive_coefficients(moments, series, order, order, last)
    s, e, inner, term = lanes(), lanes(), lanes(), lanes()
    low, high = (
        max(low, -7.0),
        min(high, 6.7),
    )  # below s = 0.001 the term is in proportion to s, above 800 there is none
    for j in range(LANES):
        s[j] = exp_(low + max(high - low, 0.0) * j / (LANES - 1.0))
        e[j] = exp_(-s[j])
    _polynomial(last, s, e, inner, term)
    worst = 0.0
    for j in range(LANES):
        worst = max(worst, abs(term[j]) / rise_(s[j]))
    return 10.0 / variance * worst + 4e-12


# The Fourier integral of `joint`. With y = 2q - 1 and tan = tan(t/2), the characteristic function of the count is
#
#   log phi(t) - i k t = -(n/2) log(1 + tan^2) + i t (n/2 - k) + sum_m (-1)^(m+1) (i tan)^m S_m / m,     S_m = sum y^m,
#
# because 1 - q + q e^it = e^(it/2) cos(t/2) (1 + i y tan). Removing an arm divides by that factor, which is a power series in y too:
# p = q g(y), g a polynomial whose coefficients are Fourier sums. Nothing but the S_m is ever summed over arms. Since g(1) = 1 (an arm
# that is certain stays so), g(y) = 1 - (1 - y) d(y), d_m = sum_{j > m} g_j, and p = q - 2 q (1 - q) d(y): exact also in 1 - p.

MOST_POWERS = 64


@njit(**COMPILE)
def joint_powers(variance, n):
    """How many power sums the integral needs: tan^m n must vanish where the integrand is still felt, |t| <= 8.7 / sd."""
    reach = math.tan(4.35 / math.sqrt(variance)) if variance > 25.0 else 1.0
    return math.ceil(math.log(1e-17 / n) / math.log(reach)) if reach < 1.0 else MOST_POWERS + 1


@njit(**COMPILE)
def joint_moments(low, high, z, top, u, powers):
    """S_m = sum (2 q - 1)^m over arms [low, high), m = 0 .. powers - 1."""
    sums = np.zeros((powers, LANES))
    y, r, power = lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        _load_coins(first, high, z, top, u, y, r, power)
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
        out[m] = _lane_sum(sums[m])
    return out


@njit(**COMPILE)
def joint_coefficients(moments, k, variance, out):
    """Coefficients of d in powers of y [powers, the last is 0], from the power sums."""
    n, powers = moments[0], len(moments)
    sd = math.sqrt(variance)
    step = (
        2.0 * math.pi / (20.0 * sd + 60.0)
    )  # the count never strays as far as the period, so the trapezoid sum is exact
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
    """p_i of arms [low, high) into out; returns (sum p, sum p (1 - p))."""
    q, r, y, d, weight, total, spread = (
        lanes(),
        lanes(),
        lanes(),
        lanes(),
        lanes(),
        lanes(),
        lanes(),
    )
    total[:] = 0.0
    spread[:] = 0.0
    for first in range(low, high, LANES):
        _load_coins(first, high, z, top, u, q, r, weight)
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
        _store(first, high, q, out)
    return _lane_sum(total), _lane_sum(spread)


# ---------------------------------------------------------------------------------------------------------------------------------
# The whole of it on one thread.


@njit(**COMPILE)
def next_shift(u, count, slope, k, slack, bracket):
    """One safeguarded Newton step towards an expected count within ``slack`` of k; returns the new u (u itself: done).

    bracket = [too low, too high, first guess] is kept up to date. Where the count is flat (weights many orders of magnitude apart)
    Newton's step says nothing: strides then grow threefold until k is bracketed, and halve from there.
    """
    if count < k:
        bracket[0] = u
    else:
        bracket[1] = u
    if abs(k - count) <= slack:
        return u
    low, high = bracket[0], bracket[1]
    guess = u + (k - count) / slope if slope > 0.0 else np.inf
    nowhere = 1e-15 * (1.0 + abs(u))
    if abs(guess - u) <= nowhere:  # before the bracket is asked, of which u has just become an end
        return u
    if abs(guess - u) > 30.0 or not low < guess < high:
        if np.isinf(high):
            guess = low + max(1.0, 2.0 * (low - bracket[2]))
        elif np.isinf(low):
            guess = high - max(1.0, 2.0 * (bracket[2] - high))
        else:
            guess = 0.5 * (low + high)
    return u if abs(guess - u) <= nowhere else guess


@njit(**COMPILE)
def guess_shift(z, top, k):
    """Where to look for u first: as if the arms were all alike, at a typical weight."""
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
def settle(low, high, p, k, total, spread):
    """Take the last rounding off the sum, from those who can move; the order of p [low, high) is kept."""
    nudge = (k - total) / spread if spread > 0.0 else 0.0
    part = p[low:high]
    for i in range(len(part)):
        moved = part[i] + nudge * (part[i] * (1.0 - part[i]))
        moved = moved if moved > 0.0 else 0.0
        part[i] = moved if moved < 1.0 else 1.0


@njit(**COMPILE)
def polish(u, count, slope, bend, twist, k, reach, bracket):
    """(step, near) from u towards expected count k, given the first three derivatives of the count.

    A step shorter than ``reach`` is near: it is taken to fourth order, by Newton on the cubic, and leaves an error of its fourth power
    (where the count hardly moves, rounding would send Newton anywhere, and the step stays as it is).
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
def successive_derivatives(moments):
    """(count, its first three derivatives in u) from the moments."""
    a1, a2, a3 = moments[1, 1], moments[2, 1], moments[3, 1]
    return moments[0, 0], a1, a1 - a2, a1 - 3.0 * a2 + a3


@njit(**COMPILE)
def move_moments(moments, step):
    """Moments a small step of u further on: d/du s^a e^b = a s^a e^b - b s^(a+1) e^b."""
    for a in range(len(moments) - 1):
        for b in range(1, moments.shape[1]):
            moments[a, b] += step * (a * moments[a, b] - b * moments[a + 1, b])


@njit(**COMPILE)
def reach_for(tolerance):
    """How far from the solution moments may be taken, so that the error of `polish` stays below the tolerance."""
    return min(0.05, (0.3 * tolerance) ** 0.25)


@njit(**COMPILE)
def _expanded(z, top, k, u, tolerance, series, out):
    """`successive` by its expansion, to first order if that is within the tolerance, else to the highest: (done, u, total, spread)."""
    n, none, one = (
        len(z),
        np.int64(0),
        np.int64(1),
    )  # not literals, for each of which callees would be compiled anew
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
                first_moments(none, n, z, top, u, out)
                if first
                else successive_moments(none, n, z, top, u, order)
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
        if (
            error * error > 10.0 * tolerance
        ):  # the highest order comes to about the square of the first: not near enough
            break
        if error <= tolerance:
            coefficients = np.zeros(moments.shape)
            successive_coefficients(moments, series, one, order, coefficients)
            if first:
                total, spread = first_map(none, n, math.exp(step), coefficients, out)
            else:
                total, spread = successive_map(none, n, z, top, u, coefficients, out)
            return True, u, total, spread
    return False, u, total, spread


@njit(**COMPILE)
def successive_inclusion(z, top, k, tolerance, guess, series, out):
    """Inclusion [n] of the successive design for 0 < k < n into out, on one thread; the O(n) way where its own estimate of the relative
    error is within ``tolerance``, else the exact way, whose rounding may disturb the order of arms that are all but equal.

    Returns the shift u, a good guess for weights that are not much different, and whether it was the exact way. top is the maximum of z.
    """
    n, budget = len(z), float(k)
    fast, u, total, spread = _expanded(z, top, budget, guess, tolerance, series, out)
    if not fast:
        successive_exact(z, top, k, u, tolerance, out)
        total, spread = _sums(out)
    movable = (
        fast or abs(budget - total) <= 0.5 * tolerance * spread
    )  # else nobody is unsure enough to bear the difference
    settle(np.int64(0), n, out, budget if movable else total, total, spread)
    return u, not fast


@njit(**COMPILE)
def joint_inclusion(z, top, k, guess, out):
    """`successive_inclusion` for the joint design, to all digits either way."""
    n, none, budget = len(z), np.int64(0), float(k)
    u = shift(z, top, budget, np.int64(JOINT), guess, ROUNDING * budget)
    _, variance = expected_count(none, n, z, top, u, np.int64(JOINT))
    powers = joint_powers(variance, n)
    fast = powers <= MOST_POWERS
    if fast:
        coefficients = np.empty(powers)
        joint_coefficients(
            joint_moments(none, n, z, top, u, powers), budget, variance, coefficients
        )
        total, spread = joint_map(none, n, z, top, u, coefficients, out)
    else:
        joint_exact(z, top, k, u, out)
        total, spread = _sums(out)
    settle(none, n, out, budget, total, spread)
    return u, not fast
