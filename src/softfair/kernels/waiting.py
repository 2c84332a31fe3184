"""`recursion` for an arm with a promise: a deadline for its next help, a floor under its chance.

The state of the arm is (d, s), where the arm must be helped within d decisions, 1 <= d <= W. Help
sets d to W, and each decision without help reduces d by 1. With r and e as in `recursion`,
Q_t(s, 1) = e(s) + E(r + gamma V_{t+1}(W, .)) and
Q_t(d, s, 0) = E(r + gamma V_{t+1}(d - 1, .)), the gain is lambda_t(d, s) = Q_t(s, 1) - Q_t(d, s, 0)
and x = c lambda - theta. An arm with d = 1 is helped at any price. Any other arm is active with the
chance of its rule, or with the floor f if that is larger. The objective is concave in the chance;
so if its maximum lies below f, the best allowed chance is f:

    PRICED  pi = max(sigmoid(x), f)   extra = softplus(x) / c, or (f x + entropy of f) / c at f
    JOINT   pi = max(sigmoid(x), f)   extra = pi lambda                  (c = 0, the lottery)
    HARD    pi = [x > 0], or f        extra = max(x, f x), c = 1         theta = m, the dual bound

W = 0 means no deadline: there is one layer, help is never forced, and an arm stays in the layer.
Blocks of LANES arms run through SIMD lanes. The work is W times that of a pass without deadlines,
and the memory is O(n).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .elementary import COMPILE, INSIDE, exp_, log1p_
from .lanes import LANES, lanes
from .recursion import at_once
from .rules import RuleCode

__all__ = ["PART", "gain_rows", "sweep"]

PART = 1024  # arms a task: W times as much work an arm as in `recursion`


@njit(**INSIDE)
def _priced(c, gain, theta, floor, spread):
    """(pi, extra) of PRICED; spread is the entropy of the floor."""
    x = c * gain - theta
    u = exp_(-abs(x))
    w = 1.0 / (1.0 + u)
    pi = w if x >= 0.0 else u * w
    soft = log1p_(u) + (x if x > 0.0 else 0.0)
    held = floor * x + spread
    return (pi if pi >= floor else floor), (soft if pi >= floor else held) / c


@njit(**INSIDE)
def _joint(c, gain, theta, floor, spread):
    """(pi, extra) of JOINT."""
    x = c * gain - theta
    u = exp_(-abs(x))
    w = 1.0 / (1.0 + u)
    pi = w if x >= 0.0 else u * w
    pi = pi if pi >= floor else floor
    return pi, pi * gain


@njit(**INSIDE)
def _hard(c, gain, theta, floor, spread):
    """(pi, extra) of HARD."""
    x = c * gain - theta
    return (1.0 if x > 0.0 else floor), (x if x > 0.0 else floor * x)


@njit(inline="always")
def _respond_all(respond, c, theta, floor, spread, active, passive, V, pi):
    """V and pi of one layer and state for a block, from its two Q; ``active`` is Q(s, 1)."""
    for j in range(LANES):
        pi[j], extra = respond(c, active[j] - passive[j], theta, floor, spread)
        V[j] = passive[j] + extra


@njit(inline="always")
def _respond_by_rule(rule, c, theta, floor, spread, active, passive, V, pi):
    """`_respond_all` with the function of the rule."""
    if rule == RuleCode.PRICED:
        _respond_all(_priced, c, theta, floor, spread, active, passive, V, pi)
    elif rule == RuleCode.JOINT:
        _respond_all(_joint, c, theta, floor, spread, active, passive, V, pi)
    else:
        _respond_all(_hard, c, theta, floor, spread, active, passive, V, pi)


@njit(**COMPILE)
def _load(first, high, P, reward, chance, pay):
    """Load arms [first, first + LANES): P into chance [2, S, S, LANES], r and e into pay.

    pay is [1 or 2, S, LANES]. Lanes from ``high`` on repeat the first arm.
    """
    S = P.shape[2]
    for j in range(LANES):
        i = first + j if first + j < high else first
        for s2 in range(S):
            row = i if len(reward) > 1 else 0
            pay[0, s2, j] = reward[row, 0, s2]
            if len(pay) > 1:
                pay[1, s2, j] = at_once(reward, row, s2)
            for s in range(S):
                chance[0, s, s2, j] = P[i, 0, s, s2]
                chance[1, s, s2, j] = P[i, 1, s, s2]


@njit(inline="always")
def _mix(chance, worth, out):
    """out = sum over s of chance[s] worth[s], for a block."""
    p, w = chance[0], worth[0]
    for j in range(LANES):
        out[j] = p[j] * w[j]
    for s in range(1, len(worth)):
        p, w = chance[s], worth[s]
        for j in range(LANES):
            out[j] += p[j] * w[j]


@njit(**COMPILE)
def _step_back(
    rule, c, theta, gamma, floor, forced, lowest, chance, pay, V, active, new, pi, gains
):
    """One decision earlier: V [D, S, LANES] is overwritten, pi [D, S, LANES] is filled.

    D is the number of layers; layer d has deadline d + 1 if ``forced``. Layers below ``lowest``
    cannot be reached and are left out. gains [D, S, LANES] are filled too, unless they are empty.
    active and new [S, LANES] are scratch.
    """
    D, S, _ = V.shape
    passive, value, share = lanes(), lanes(), lanes()
    spread = 0.0
    if floor > 0.0:
        spread = -floor * math.log(floor) - (1.0 - floor) * math.log(1.0 - floor)
    price = 0.0 if rule == RuleCode.JOINT else theta / c  # a lottery has no price
    for d in range(max(0, lowest - 1), D):  # V becomes the worth of reaching the state
        for s in range(S):
            worth, r = V[d, s], pay[0, s]
            for j in range(LANES):
                worth[j] = r[j] + gamma * worth[j]
    for s in range(S):
        _mix(chance[1, s], V[D - 1], active[s])
        if len(pay) > 1:
            for j in range(LANES):
                active[s, j] += pay[1, s, j]
    for d in range(D - 1, lowest - 1, -1):  # downwards, because layer d reads the old layer d - 1
        if forced and d == 0:
            for s in range(S):
                V[0, s] = active[s] - price
                pi[0, s] = 1.0
            continue
        later = V[d - 1 if forced else d]
        for s in range(S):
            _mix(chance[0, s], later, passive)
            if len(gains):
                for j in range(LANES):
                    gains[d, s, j] = active[s, j] - passive[j]
            _respond_by_rule(rule, c, theta, floor, spread, active[s], passive, value, share)
            pi[d, s] = share
            new[s] = value
        V[d] = new  # after all states, because without deadlines the layer reads itself


@njit(**COMPILE)
def sweep(low, high, P, reward, start, left, theta, c, gamma, rule, W, floor):
    """One pass over arms [low, high): [2, T + 1], as in `recursion.sweep`.

    left [n or 1] holds the deadlines at the start, between 1 and W; without deadlines it is [1].
    """
    T, S, D = len(theta), P.shape[2], max(W, 1)
    forced = W > 0
    pi, none = np.empty((T, D, S, LANES)), np.empty((0, S, LANES))
    chance, pay = np.empty((2, S, S, LANES)), np.empty((reward.shape[1], S, LANES))
    flow = np.empty((2, S, S, LANES))  # chance transposed: the first state axis is the next state
    V, mu, moved = np.empty((D, S, LANES)), np.empty((D, S, LANES)), np.empty((D, S, LANES))
    active, helped, waiting = np.empty((S, LANES)), np.empty((S, LANES)), np.empty((S, LANES))
    total, response, weight, still = lanes(), lanes(), lanes(), lanes()
    out = np.zeros((2, T + 1))
    for first in range(low, high, LANES):
        _load(first, high, P, reward, chance, pay)
        V[:] = 0.0
        soonest = D - 1  # the lowest layer in which an arm of the block starts
        for i in range(first, min(first + LANES, high)):
            soonest = min(soonest, left[i if len(left) > 1 else 0] - 1)
        for t in range(T - 1, -1, -1):
            lowest = max(0, soonest - t)
            _step_back(
                rule, c, theta[t], gamma, floor, forced, lowest,
                chance, pay, V, active, waiting, pi[t], none,
            )  # fmt: skip
        for s in range(S):
            for s2 in range(S):
                flow[0, s2, s] = chance[0, s, s2]
                flow[1, s2, s] = chance[1, s, s2]
        mu[:] = 0.0
        moved[:] = 0.0
        for j in range(LANES):
            i = first + j if first + j < high else first
            weight[j] = 1.0 if first + j < high else 0.0
            d = left[i if len(left) > 1 else 0] - 1
            for s in range(S):
                mu[d, s, j] = weight[j] * start[i if len(start) > 1 else 0, s]
                out[0, T] += mu[d, s, j] * V[d, s, j]
        for t in range(T):
            helped[:] = 0.0
            total[:] = 0.0
            response[:] = 0.0
            for d in range(max(0, soonest - t), D):
                for s in range(S):
                    at, share, reset, rest = mu[d, s], pi[t, d, s], helped[s], waiting[s]
                    for j in range(LANES):
                        helped_now = at[j] * share[j]
                        total[j] += helped_now
                        response[j] += helped_now * (1.0 - share[j]) if share[j] > floor else 0.0
                        reset[j] += helped_now
                        rest[j] = at[j] - helped_now
                if d > 0:
                    for s2 in range(S):
                        _mix(flow[0, s2], waiting, moved[d - 1, s2])
            for s2 in range(S):
                _mix(flow[1, s2], helped, moved[D - 1, s2])
                if not forced:  # an arm that was not helped stays in the only layer
                    _mix(flow[0, s2], waiting, still)
                    for j in range(LANES):
                        moved[D - 1, s2, j] += still[j]
            mu, moved = moved, mu
            out[0, t] += total.sum()
            out[1, t] += response.sum()
    return out


@njit(**COMPILE)
def gain_rows(low, high, P, reward, theta, c, gamma, rule, W, floor, first_step, rows):
    """Fill rows [steps, n, D, S] with lambda_t(d, s) of arms [low, high) from first_step on.

    The gain of an arm that must be helped now is set to 0; it has no effect.
    """
    T, S, D = len(theta), P.shape[2], max(W, 1)
    pi, gains = np.empty((D, S, LANES)), np.empty((D, S, LANES))
    chance, pay = np.empty((2, S, S, LANES)), np.empty((reward.shape[1], S, LANES))
    V, active, new = np.empty((D, S, LANES)), np.empty((S, LANES)), np.empty((S, LANES))
    gains[:] = 0.0
    for first in range(low, high, LANES):
        _load(first, high, P, reward, chance, pay)
        V[:] = 0.0
        for t in range(T - 1, first_step - 1, -1):
            _step_back(
                rule, c, theta[t], gamma, floor, W > 0, 0,
                chance, pay, V, active, new, pi, gains,
            )  # fmt: skip
            if t < first_step + len(rows):
                for j in range(min(LANES, high - first)):
                    for d in range(D):
                        for s in range(S):
                            rows[t - first_step, first + j, d, s] = gains[d, s, j]
