"""Laws of counts, chances of arms and shifts of log-weights for draws with bounds on sets of arms.

See `softfair.quotas`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .convolution import count_law
from .elementary import COMPILE
from .weights import coin

__all__ = ["block_chances", "block_law", "convolve", "find_shifts"]

DUST = 1e-25  # smaller probabilities at either end of the law of a count are dropped
CLOSE = 0.05  # how far the expected count of independent arms may be from its goal


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
    """Fill out with Pr(arm is in), if the count of row j of ``law`` has the weight outside[j], too.

    ``outside`` has one row more than ``law``, for a count that includes one more arm. An arm is
    divided out of the law from the side on which the divisor is at least 1/2, so that errors fade
    from row to row. With ``rest`` the law of the other arms, the arm is in with weight
    q sum_j rest[j] outside[j + 1], and out with weight (1 - q) sum_j rest[j] outside[j].
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


@njit(**COMPILE)
def convolve(a, a_begin, b, b_begin, out):
    """Add to ``out``, which is flat, the convolutions of all rows of a with all rows of b.

    The convolution of a[i] and b[j] begins at a_begin[i] + b_begin[j]. Rows of b are shorter. Four
    numbers of a row of b are combined with a row of a at once, so that out is read and written a
    quarter as often.
    """
    length, width = a.shape[1], b.shape[1]
    row = np.zeros(length + 6)  # three zeros on either side
    for i in range(len(a)):
        row[3 : length + 3] = a[i]
        for j in range(len(b)):
            begin = a_begin[i] + b_begin[j]
            c = 0
            while c + 4 <= width:
                w0, w1, w2, w3 = b[j, c], b[j, c + 1], b[j, c + 2], b[j, c + 3]
                if w0 != 0.0 or w1 != 0.0 or w2 != 0.0 or w3 != 0.0:
                    to = out[begin + c : begin + c + length + 3]
                    for x in range(length + 3):
                        to[x] += (w0 * row[x + 3] + w1 * row[x + 2]) + (
                            w2 * row[x + 1] + w3 * row[x]
                        )
                c += 4
            for last in range(c, width):
                to = out[begin + last : begin + last + length]
                for x in range(length):
                    to[x] += b[j, last] * row[x + 3]


@njit(**COMPILE)
def _expected(x, begin, firsts, node, parent, least, most, shift, counted):
    """Expected count of a node of independent arms, each in with chance sigmoid(x + shift).

    The expected counts of the nodes below are clipped to their bounds. For a node of at most one
    arm the exact expectation is used: there can be thousands of such nodes, whose errors would add
    up. Nodes firsts[node] .. node are the branch, in which each node comes after those below it.
    Arms begin[j] .. begin[j + 1] - 1 belong to node j itself. ``counted`` is scratch.
    """
    first = firsts[node]
    for j in range(first, node + 1):
        counted[j] = 0.0
    for j in range(first, node + 1):
        odds = 0.0  # of one arm against none
        for i in range(begin[j], begin[j + 1]):
            q, r = coin(x[i] + shift)
            counted[j] += q
            odds += q / r
        if j < node:
            if least[j] == 0.0 and most[j] == 1.0 and firsts[j] == j:
                counted[parent[j]] += 1.0 - 1.0 / (1.0 + odds)
            else:
                counted[parent[j]] += min(max(counted[j], least[j]), most[j])
    return counted[node]


@njit(**COMPILE)
def find_shifts(x, begin, first, parent, least, most, shifts):
    """Fill shifts [nodes] with what is to be added to the log-weights x of the arms of each node.

    Independent arms of chance sigmoid(x + shift) then keep all bounds roughly in expectation. The
    shifts solve a convex problem: if the count of a node is within its bounds at the shift of its
    parent, the node has that shift; otherwise its shift puts its count at a bound. So one search
    along a line for each node, from the root down, finds all shifts.
    """
    nodes = len(first)
    counted = np.empty(nodes)
    for j in range(nodes - 1, -1, -1):
        shift = shifts[parent[j]] if j < nodes - 1 else 0.0
        count = _expected(x, begin, first, j, parent, least, most, shift, counted)
        goal = min(max(count, least[j]), most[j])
        if abs(count - goal) > CLOSE:
            up = count < goal
            step, near, far = 1.0, shift, np.nan  # far: beyond the goal, once it is known
            for _ in range(300):
                if np.isnan(far):
                    shift = near + step if up else near - step
                    step *= 2.0
                else:
                    shift = 0.5 * (near + far)
                count = _expected(x, begin, first, j, parent, least, most, shift, counted)
                if abs(count - goal) <= CLOSE:
                    break
                if (count < goal) == up:
                    near = shift
                else:
                    far = shift
        shifts[j] = shift
