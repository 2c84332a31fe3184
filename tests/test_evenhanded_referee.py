"""The concave problem of EvenHanded solved by a linear programme, from its definition alone.

Variables are the chances z[i, t, s, a] that arm i is in state s at step t and has action a. Reward
is linear in them, and so are the rates of help; a concave welfare is the least of its tangents,
which are added until the optimum lies below none of them (Kelley's cutting planes). Nothing of this
uses prices, bonuses or a kernel.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import softfair as sf
from softfair.solvers import solve_evenhanded, tradeoff_bound

N, S, T, K = 4, 2, 4, 1
WELFARE = {  # value, gradient
    "entropy": (lambda y: -np.mean(y * np.log(y)), lambda y: -(np.log(y) + 1) / N),
    "log": (lambda y: np.mean(np.log(y)), lambda y: 1 / (N * y)),
    "min": (np.min, lambda y: np.eye(N)[np.argmin(y)]),
}


def flows(P, start):
    """A z = b: chances move as P says, and K arms are helped at every step."""
    index = np.arange(N * T * S * 2).reshape(N, T, S, 2)
    rows, right = [], []
    for i, t, s in np.ndindex(N, T, S):
        row = np.zeros(index.size)
        row[index[i, t, s]] = 1
        if t:
            row[index[i, t - 1, :, 0]] -= P[i, 0, :, s]
            row[index[i, t - 1, :, 1]] -= P[i, 1, :, s]
        rows.append(row)
        right.append(0.0 if t else start[i, s])
    for t in range(T):
        row = np.zeros(index.size)
        row[index[:, t, :, 1]] = 1
        rows.append(row)
        right.append(K)
    return np.array(rows), np.array(right), index


def best(P, reward, start, mu, welfare):
    """The largest E reward + mu W(y), to 1e-6."""
    value, gradient = WELFARE[welfare]
    A, b, index = flows(P, start)
    worth = np.zeros(index.size)
    rate = np.zeros((N, index.size))
    for i, t, s, a in np.ndindex(N, T, S, 2):
        worth[index[i, t, s, a]] = P[i, a, s] @ reward[i]
        rate[i, index[i, t, s, a]] = a * N / (K * T)
    tangents, offsets, found, y = [], [], -math.inf, np.ones(N)
    for _ in range(200):
        tangents.append(np.append(-gradient(y) @ rate, 1.0))
        offsets.append(value(y) - gradient(y) @ y)
        answer = linprog(
            -np.append(worth, mu),
            A_ub=np.array(tangents),
            b_ub=offsets,
            A_eq=np.column_stack([A, np.zeros(len(A))]),
            b_eq=b,
            bounds=[(0, None)] * index.size + [(None, None)],
        )
        z = answer.x[:-1]
        y = np.maximum(rate @ z, 1e-9)
        found = max(found, worth @ z + mu * value(y))
        if -answer.fun - found < 1e-6:
            return found
    raise AssertionError("the cutting planes did not close")


@pytest.mark.slow
@pytest.mark.parametrize("welfare", WELFARE)
@pytest.mark.parametrize("mu", [0.3, 2.0, 10.0])
def test_solution_and_bound_enclose_the_optimum(welfare, mu):
    """The relaxed policy reaches the optimum as c grows, and the bound's support is no lower."""
    rng = np.random.default_rng(5)
    P, reward = rng.dirichlet(np.ones(S), (N, 2, S)), rng.random((N, S))
    start = rng.dirichlet(np.ones(S), N)
    optimum = best(P, reward, start, mu, welfare)
    cohort = sf.Cohort(P, reward=reward, start=start)
    value = WELFARE[welfare][0]
    for c in (20.0, 200.0, 1000.0):
        found = solve_evenhanded(cohort, K, T, 1.0, c, mu, welfare)
        x = c * found.values.rows(0, T) - found.values.theta[:, None, None]
        V = np.zeros((N, S))
        for pi in (1 / (1 + np.exp(-x)))[::-1]:
            Q = np.einsum("iast,it->ais", P, reward + V)
            V = (1 - pi) * Q[0] + pi * Q[1]
        reached = float(np.sum(start * V)) + mu * value(found.rates)
        # A soft maximum exceeds the maximum by at most log(2) / c, at N T decisions.
        assert -N * T * math.log(2) / c <= reached - optimum <= 1e-6
    bound = tradeoff_bound(cohort, K, T, 1.0, welfare)
    most = math.log(N) if welfare == "entropy" else 0.0  # its evenness counts from log n
    evenness = np.linspace(bound.even - 4, bound.even, 4001)
    support = np.max(bound(evenness) + mu * (evenness - most))
    assert -1e-6 <= support - optimum <= 0.01
