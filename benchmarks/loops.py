"""Code that a user would write without softfair, as a reference for times.

Algorithm 1 as plain Python loops over arms, and a simulation as a NumPy loop over steps.
"""

from __future__ import annotations

import math
import random

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def inclusion_by_loops(log_weights: list[float], k: int) -> list[float]:
    """Inclusion of the successive design by mean field and its first correction, arm by arm."""
    top = max(log_weights)
    weights = [math.exp(x - top) for x in log_weights]
    tau = k / sum(weights)
    for _ in range(50):
        count = slope = 0.0
        for w in weights:
            e = math.exp(-w * tau)
            count += 1 - e
            slope += w * e
        step = (k - count) / slope
        tau += step
        if abs(step) < 1e-10 * tau:
            break
    A1 = A2 = B1 = V = 0.0
    for w in weights:
        s = w * tau
        e = math.exp(-s)
        A1 += s * e
        A2 += s * s * e
        B1 += s * e * e
        V += e * (1 - e)
    out = []
    for w in weights:
        s = w * tau
        e = math.exp(-s)
        out.append(1 - e + s * e / A1 * (B1 / A1 - e + V / (2 * A1) * (A2 / A1 - s)))
    return out


def successive_draws(log_weights: list[float], k: int, rng: random.Random) -> set[int]:
    """The paper's draw: draw one arm by softmax and remove it, k times."""
    top = max(log_weights)
    weights = [math.exp(x - top) for x in log_weights]
    total = sum(weights)
    active: set[int] = set()
    for _ in range(k):
        goal = rng.random() * total
        drawn = -1
        for i, w in enumerate(weights):
            if w > 0:
                drawn = i  # if rounding leaves goal >= 0 to the end, the last arm is drawn
                goal -= w
                if goal < 0:
                    break
        active.add(drawn)
        total -= weights[drawn]
        weights[drawn] = 0.0
    return active


def algorithm_1(
    P: Floats, k: int, T: int, c: float, episodes: int, seed: int
) -> list[list[list[float]]]:
    """Algorithm 1 of the paper, two states, gamma = 1: V[t][i][s]."""
    n = len(P)
    p = [[[float(P[i, a, s, 1]) for s in (0, 1)] for a in (0, 1)] for i in range(n)]
    rng = random.Random(seed)
    V = [[[0.0, 0.0] for _ in range(n)] for _ in range(T + 1)]
    for _ in range(episodes):
        state = [rng.randrange(2) for _ in range(n)]
        for t in range(T):
            later, now = V[t + 1], V[t]
            passive, gain = [0.0] * n, [0.0] * n
            for i in range(n):
                s, (v0, v1) = state[i], later[i]
                p0, p1 = p[i][0][s], p[i][1][s]
                passive[i] = p0 * (1 + v1) + (1 - p0) * v0
                gain[i] = p1 * (1 + v1) + (1 - p1) * v0 - passive[i]
            log_weights = [c * g for g in gain]
            chance = inclusion_by_loops(log_weights, k)
            active = successive_draws(log_weights, k, rng)
            for i in range(n):
                s = state[i]
                now[i][s] = passive[i] + chance[i] * gain[i]
                state[i] = int(rng.random() < p[i][1 if i in active else 0][s])
    return V


def draw_joint_by_numpy(log_weights: Floats, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw by rejection: toss a coin for each arm, with k heads expected, until k come up."""
    u = math.log(k / (len(log_weights) - k)) - log_weights.mean()
    for _ in range(50):
        q = 1 / (1 + np.exp(-(log_weights + u)))
        step = (k - q.sum()) / (q * (1 - q)).sum()
        u += min(max(step, -2.0), 2.0)
        if abs(step) < 1e-6:
            break
    while True:
        chosen = rng.random(len(q)) < q
        if chosen.sum() == k:
            return chosen


def draw_successive_by_numpy(
    log_weights: Floats, k: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    chosen = np.zeros(len(log_weights), bool)
    chosen[np.argpartition(-(log_weights + rng.gumbel(size=len(log_weights))), k)[:k]] = True
    return chosen


def simulate_by_numpy(
    P: Floats, gains: Floats, c: float, k: int, runs: int, seed: int, design: str
) -> tuple[Floats, NDArray[np.int64]]:
    """Return rewards [runs, T] and counts [runs, n] of SoftFair with gains [T, n, 2]."""
    T, n, _ = gains.shape
    rng = np.random.default_rng(seed)
    p = np.ascontiguousarray(P[..., 1])
    draw = draw_joint_by_numpy if design == "joint" else draw_successive_by_numpy
    rewards, counts, arms = np.empty((runs, T)), np.zeros((runs, n), np.int64), np.arange(n)
    for run in range(runs):
        state = rng.integers(0, 2, n)
        for t in range(T):
            chosen = draw(c * gains[t, arms, state], k, rng)
            state = (rng.random(n) < p[arms, chosen.astype(np.int64), state]).astype(np.int64)
            counts[run] += chosen
            rewards[run, t] = state.sum()
    return rewards, counts
