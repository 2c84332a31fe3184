"""Exact inclusion by the law of the count of chosen arms, for any n, k and spread of weights.

The law of a Poisson-binomial count N is built by adding one arm after another; only the window of
rows above a threshold is kept. The law without arm i follows by dividing arm i out again:

    successive    Pr(i in) = int Pr(N_{-i}(x) <= k - 1) dq_i(x),    q_i(x) = 1 - exp(-w_i x)
    joint         Pr(i in) = q_i Pr(N_{-i} = k - 1) / Pr(N = k),    q_i = sigmoid(z_i + u)

The cost is n times the width of the window, at each node of the integral.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .elementary import COMPILE, INSIDE, SMALL_RISE, exp_, exp_upto_, small_rise_
from .lanes import LANES, lanes
from .rules import RuleCode
from .shift import shift
from .weights import LATEST, coin, lane_sum, on_grid, store

__all__ = ["count_law", "joint_exact", "successive_exact", "sums"]

DUST = 1e-20  # rows of the law at either end with a smaller probability are dropped
STRIP = 1.08  # distance from the real line up to which the bound exp(growth y^2 / 2) was measured
CERTAIN = 1e-26  # a chance this close to 0 or 1 is taken as 0 or 1: ten million do not matter


@njit(**COMPILE)
def count_law(q, r, dust, law):
    """Fill law with the law of the count N of a Poisson-binomial q [n], where r = 1 - q.

    Returns (low, high, likely): law[1 + j] = Pr(N = j) for rows low .. high, and likely is the
    number of arms with q > 1/2.

    The recursion starts from N = likely. An arm with q <= 1/2 moves the count up with chance q;
    an arm with q > 1/2 moves the count down with chance r. The chance of a move is then at most
    1/2, and the law is never much wider than at the end. Rows at either end are dropped when their
    probability falls below ``dust``. law has length n + 4.
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
            for j in range(high, low, -1):
                law[j] = (1.0 - p) * law[j] + p * law[j - 1]
            law[low] *= 1.0 - p
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
    """Fill out with Pr(N_{-i} < k) (`successive`) or Pr(N_{-i} = k - 1) (`joint`).

    N is the Poisson-binomial count of q [n]; r = 1 - q is given to relative precision. Each arm is
    divided out of the law of the count by a recursion to the row N = k - 1: upwards from the bottom
    row if q <= 1/2, downwards from the top row otherwise. The divisor is at least 1/2 in both
    cases, so that errors fade from row to row. LANES arms run side by side. law [n + 4] and order
    [n] are scratch.
    """
    low, high, likely = count_law(q, r, dust, law)
    n, beyond = len(q), 0.0  # beyond: the value of every row above the highest
    if design == RuleCode.SUCCESSIVE:
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
        # The row at which N_{-i} = k - 1. The count starts from ``likely``, which contains arm i if
        # q_i > 1/2; so for such an arm the row is one higher.
        goal = k + kind
        for first in range(first_arm, last_arm, LANES):
            size = min(LANES, last_arm - first)
            if goal < low or goal > high:  # all rows lie on one side of the goal
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
    """-log of the relative error of a sum over nodes ``step`` apart.

    It is the maximum of 2 pi y / step - growth y^2 / 2 over 0 <= y <= STRIP.
    """
    y = min(STRIP, 2.0 * math.pi / (growth * step))
    return 2.0 * math.pi * y / step - 0.5 * growth * y * y


@njit(**COMPILE)
def _chances_at(clocks, factor, q, r, density):
    """Fill q = 1 - e^-s, r = e^-s and density = s e^-s, with s = factor clocks.

    Returns the growth, the sum of s^2 r / q; see `successive_exact`.
    """
    n = len(clocks)
    s, e, risen, terms = lanes(), lanes(), lanes(), lanes()
    terms[:] = 0.0
    for first in range(0, n, LANES):
        size = min(LANES, n - first)
        for j in range(LANES):
            s[j] = clocks[first + j if j < size else first] * factor
        for j in range(LANES):
            s[j] = s[j] if s[j] < LATEST else LATEST
            e[j] = exp_upto_(-s[j])
            risen[j] = small_rise_(s[j]) if s[j] < SMALL_RISE else 1.0 - e[j]
        if size == LANES:
            for j in range(LANES):
                terms[j] += s[j] * s[j] * e[j] / risen[j]
        else:
            for j in range(size):
                terms[j] += s[j] * s[j] * e[j] / risen[j]
        for j in range(LANES):
            s[j] *= e[j]
        store(first, n, risen, q)
        store(first, n, e, r)
        store(first, n, s, density)
    return lane_sum(terms) + 1e-300


@njit(**COMPILE)
def _add_node(step, G, g, density, below, q, r, q_mid, r_mid, out):
    """Add the terms of one node to out; return the largest ratio of a term to q_mid."""
    n = len(out)
    rise, term, largest = lanes(), lanes(), lanes()
    largest[:] = 0.0
    for first in range(0, n, LANES):
        size = min(LANES, n - first)
        for j in range(size):
            i = first + j
            # q_i - q_i(u) to relative precision
            rise[j] = q[i] - q_mid[i] if q[i] < 0.5 else r_mid[i] - r[i]
        for j in range(size):
            term[j] = density[first + j] * (below[first + j] - G)
        for j in range(size):
            out[first + j] += step * (term[j] + rise[j] * g)
        for j in range(size):
            part = (abs(term[j]) + abs(rise[j]) * g) / q_mid[first + j]
            largest[j] = part if part > largest[j] else largest[j]
    worst = 0.0
    for j in range(LANES):
        worst = max(worst, largest[j])
    return worst


@njit(**COMPILE)
def successive_exact(z, top, k, u, tolerance, out):
    """Inclusion of the successive design to a relative ``tolerance`` (1e-12 at best) into out [n].

    Let G be a normal step from 1 to 0 at u, which is about where the k-th clock rings, and g its
    density. With u = log time,

    Pr(i in) = int q_i' Pr(N_{-i} < k) du
             = q_i(u) + int [q_i' (Pr(N_{-i} < k) - G) + (q_i - q_i(u)) g] du.

    The last integrand vanishes at both ends and is analytic for |Im u| < pi/2, so that a sum over
    equidistant nodes converges exponentially. At a distance y from the real line the integrand is
    exp(growth y^2 / 2) times larger, which decides how far apart the nodes may be. Nodes are added
    to the right and then to the left until their terms are negligible. If a node shows a larger
    growth than assumed, the sum starts again with closer nodes. u is a first guess.
    """
    n = len(z)
    # k - 0.5, because around k the expected count may be constant over a wide range of u.
    u = shift(z, top, k - 0.5, np.int64(RuleCode.SUCCESSIVE), u, 0.1)
    clocks, density, below = np.empty(n), np.empty(n), np.empty(n)
    q, r, q_mid, r_mid = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    law, order = np.empty(n + 4), np.empty(n, np.int64)
    for i in range(n):
        clocks[i] = exp_(on_grid(z[i], top) + u)
    growth = _chances_at(clocks, 1.0, q_mid, r_mid, density)
    variance, slope = 0.0, 0.0
    for i in range(n):
        variance += q_mid[i] * r_mid[i]
        slope += density[i]
    sigma = min(1.0, math.sqrt(variance) / slope) if slope > 0.0 else 1.0
    # Finer than the tolerance, because the sum of the chances, which is corrected at the end,
    # contains the errors of all arms.
    aim = max(1e-15, 5.0 * tolerance**1.5)
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
                growth = _chances_at(clocks, math.exp(x), q, r, density)
                dust = max(DUST, aim * tolerance)
                _without_each(q, r, k, np.int64(RuleCode.SUCCESSIVE), dust, law, order, below)
                largest = _add_node(step, G, g, density, below, q, r, q_mid, r_mid, out)
                coarse |= largest * math.exp(-_digits(growth, step)) > 100.0 * aim
                if largest * step < aim or coarse:
                    break
                x += step if side == 0 else -step
            if coarse:
                step *= 0.7
                break
    for i in range(n):
        out[i] += q_mid[i]


@njit(**COMPILE)
def sums(p):
    """(sum p, sum p (1 - p)); the first by Kahan's summation.

    Without it a million equal terms would all round in the same direction.
    """
    total, missed, spread = 0.0, 0.0, 0.0
    for i in range(len(p)):
        term = p[i] - missed
        larger = total + term
        missed = (larger - total) - term
        total = larger
        spread += p[i] * (1.0 - p[i])
    return total, spread


@njit(**COMPILE)
def joint_exact(z, top, k, u, out):
    """Inclusion of the joint design into out [n], from the count's law at q = sigmoid(z + u)."""
    n = len(z)
    q, r = np.empty(n), np.empty(n)
    for i in range(n):
        q[i], r[i] = coin(on_grid(z[i], top) + u)
    law, order = np.empty(n + 4), np.empty(n, np.int64)
    _without_each(q, r, k, np.int64(RuleCode.JOINT), DUST, law, order, out)
    for i in range(n):
        out[i] *= q[i]
    total, _ = sums(out)
    for i in range(n):  # divide by Pr(N = k) = total / k, because inclusions sum to k
        out[i] *= k / total
