"""Values backward and state distributions forward for every arm, given one number theta_t a step.

Let Q_t(s, a) = a e(s) + sum_s2 P[a, s, s2] (r(s2) + gamma V_{t+1}(s2)). The gain is
lambda_t(s) = Q_t(s, 1) - Q_t(s, 0) (Eq. 4). With x = c lambda_t(s) - theta_t, a rule gives the
chance pi that the arm is active, and the value V_t(s) = Q_t(s, 0) + extra of its state:

    PRICED      pi = sigmoid(x)         extra = softplus(x) / c   theta = c m, soft Bellman equation
    JOINT       pi = sigmoid(x)         extra = pi lambda_t(s)    mean field of the joint design
    SUCCESSIVE  pi = 1 - exp(-exp(x))   extra = pi lambda_t(s)    mean field of `successive`
    HARD        pi = [x > 0], c = 1     extra = max(x, 0)         theta = m, the dual bound

``reward`` [1 or n, 1 or 2, S] holds R(s, 0) and, unless it is the same, R(s, 1): r(s) = R(s, 0) and
e(s) = R(s, 1) - R(s, 0), what help is worth at once (:mod:`softfair.cohort`).

Given theta, arms are independent: memory is O(n), and a pass reads P once. Two-state arms run
through SIMD lanes; arms with more states run one at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE, INSIDE, exp_, exp_upto_, log1p_and_inverse_, rise_
from .lanes import LANES, lanes
from .rules import RuleCode

__all__ = [
    "PART",
    "at_once",
    "respond_hard",
    "respond_priced",
    "responses_two",
    "score_rows",
    "score_rows_two",
    "scores",
    "scores_two",
    "sweep",
    "sweep_two",
]

PART = 8192  # arms a task: long enough to hide the hand-over to a thread, short enough to balance


@njit(**INSIDE)
def _sigmoid(x):
    """1 / (1 + e^-x), to relative precision."""
    u = exp_upto_(-abs(x))
    w = 1.0 / (1.0 + u)
    return w if x >= 0.0 else u * w


@njit(**INSIDE)
def respond_priced(c, gain, theta):
    """(pi, extra) of PRICED."""
    x = c * gain - theta
    u = exp_upto_(-abs(x))
    log, w = log1p_and_inverse_(u)
    # Times 1 / c instead of over c: LLVM moves the division 1 / c out of the loop over lanes.
    return (w if x >= 0.0 else u * w), (log + (x if x > 0.0 else 0.0)) * (1.0 / c)


@njit(**INSIDE)
def respond_joint(c, gain, theta):
    """(pi, extra) of JOINT."""
    pi = _sigmoid(c * gain - theta)
    return pi, pi * gain


@njit(**INSIDE)
def respond_successive(c, gain, theta):
    """(pi, extra) of SUCCESSIVE."""
    pi = rise_(exp_(c * gain - theta))
    return pi, pi * gain


@njit(**INSIDE)
def respond_hard(c, gain, theta):
    """(pi, extra) of HARD."""
    x = c * gain - theta
    return (1.0 if x > 0.0 else 0.0), (x if x > 0.0 else 0.0)


@njit(**INSIDE)
def _respond(rule, c, gain, theta):
    """(pi, extra) of one state."""
    if rule == RuleCode.PRICED:
        return respond_priced(c, gain, theta)
    if rule == RuleCode.JOINT:
        return respond_joint(c, gain, theta)
    if rule == RuleCode.SUCCESSIVE:
        return respond_successive(c, gain, theta)
    return respond_hard(c, gain, theta)


@njit(**INSIDE)
def at_once(reward, row, s):
    """e(s), what help is worth at once in state s."""
    return reward[row, 1, s] - reward[row, 0, s] if reward.shape[1] > 1 else 0.0


@njit(inline="always")
def _step_back_two(respond, c, theta, gamma, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi0, pi1):
    """One decision earlier for a block of two-state arms.

    V0, V1 [LANES] are overwritten, and pi0, pi1 [LANES] are filled. ``p10`` is p[action 1, state 0]
    and so on. ``respond`` is the function of one rule: a choice inside the loop would prevent SIMD.
    """
    for j in range(LANES):
        reach = dr[j] + gamma * (V1[j] - V0[j])  # worth of reaching state 1 rather than 0
        rest = r0[j] + gamma * V0[j]
        pi0[j], extra0 = respond(c, (p10[j] - p00[j]) * reach + e0[j], theta)
        pi1[j], extra1 = respond(c, (p11[j] - p01[j]) * reach + e1[j], theta)
        V0[j] = rest + p00[j] * reach + extra0
        V1[j] = rest + p01[j] * reach + extra1


@njit(inline="always")
def _step_back_by_rule(rule, c, theta, gamma, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi0, pi1):
    """`_step_back_two` with the function of the rule."""
    if rule == RuleCode.PRICED:
        _step_back_two(
            respond_priced, c, theta, gamma, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi0, pi1
        )
    elif rule == RuleCode.JOINT:
        _step_back_two(
            respond_joint, c, theta, gamma, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi0, pi1
        )
    elif rule == RuleCode.SUCCESSIVE:
        _step_back_two(
            respond_successive,
            c,
            theta,
            gamma,
            p00,
            p01,
            p10,
            p11,
            r0,
            dr,
            e0,
            e1,
            V0,
            V1,
            pi0,
            pi1,
        )
    else:
        _step_back_two(
            respond_hard, c, theta, gamma, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi0, pi1
        )


@njit(inline="always")
def _load_two(first, high, P, reward, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1):
    """Load arms [first, first + LANES) into lanes; lanes from ``high`` on repeat the first arm.

    P is [n, 2, 2, 1 or 2]. The last entry is the chance of state 1; the chance of state 0 may
    stand before it.
    """
    good = P.shape[3] - 1
    for j in range(LANES):
        i = first + j if first + j < high else first
        row = i if len(reward) > 1 else 0
        p00[j] = P[i, 0, 0, good]
        p01[j] = P[i, 0, 1, good]
        p10[j] = P[i, 1, 0, good]
        p11[j] = P[i, 1, 1, good]
        r0[j] = reward[row, 0, 0]
        dr[j] = reward[row, 0, 1] - reward[row, 0, 0]
        e0[j] = at_once(reward, row, 0)
        e1[j] = at_once(reward, row, 1)
        V0[j] = 0.0
        V1[j] = 0.0


@njit(**COMPILE)
def sweep_two(low, high, P, reward, start, theta, c, gamma, rule):
    """One pass over two-state arms [low, high): [2, T + 1].

    Row 0 holds the expected active arms at each step and, at T, the expected value from the start.
    Row 1 holds the sum of mu pi (1 - pi), the response of row 0 to -theta_t.
    """
    T = len(theta)
    pi = np.empty((T, 2, LANES))
    active, response = np.zeros((T, LANES)), np.zeros((T, LANES))
    p00, p01, p10, p11, r0, dr = lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    e0, e1, V0, V1 = lanes(), lanes(), lanes(), lanes()
    mu, weight, value = lanes(), lanes(), lanes()
    value[:] = 0.0
    for first in range(low, high, LANES):
        _load_two(first, high, P, reward, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1)
        for j in range(LANES):
            i = first + j if first + j < high else first
            weight[j] = 1.0 if first + j < high else 0.0
            mu[j] = start[i if len(start) > 1 else 0, 1]
        for t in range(T - 1, -1, -1):
            _step_back_by_rule(
                rule, c, theta[t], gamma,
                p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi[t, 0], pi[t, 1],
            )  # fmt: skip
        for j in range(LANES):
            value[j] += weight[j] * (V0[j] + mu[j] * (V1[j] - V0[j]))
        for t in range(T):
            pi0, pi1, active_t, response_t = pi[t, 0], pi[t, 1], active[t], response[t]
            for j in range(LANES):
                mu0, mu1 = 1.0 - mu[j], mu[j]
                a0, a1 = mu0 * pi0[j], mu1 * pi1[j]
                active_t[j] += weight[j] * (a0 + a1)
                response_t[j] += weight[j] * (a0 * (1.0 - pi0[j]) + a1 * (1.0 - pi1[j]))
                mu[j] = (
                    mu0 * p00[j] + a0 * (p10[j] - p00[j]) + mu1 * p01[j] + a1 * (p11[j] - p01[j])
                )
    out = np.zeros((2, T + 1))
    for t in range(T):
        out[0, t] = active[t].sum()
        out[1, t] = response[t].sum()
    out[0, T] = value.sum()
    return out


@njit(**INSIDE)
def _slopes(rule, c, gain, theta, pi):
    """(d pi / dx, d extra / d gain, d extra / d theta) of one state, with x = c gain - theta."""
    if rule == RuleCode.PRICED:
        return pi * (1.0 - pi), pi, -pi / c
    slope = (1.0 - pi) * (exp_(c * gain - theta) if rule == RuleCode.SUCCESSIVE else pi)
    return slope, pi + c * gain * slope, -gain * slope


@njit(**COMPILE)
def responses_two(low, high, P, reward, start, theta, c, gamma, rule):
    """The responses of the expected active two-state arms at each step to every theta: [T, T].

    Entry (t, u) is minus the derivative of row 0 of `sweep_two` at t by theta_u. The rule is
    PRICED, JOINT or SUCCESSIVE. A later theta acts on step t only through h_t = V_t(1) - V_t(0):

        dh_t = pull_t dh_{t+1} + push_t dtheta_t

    An earlier theta acts only through mu_t, the chance of state 1.
    """
    T = len(theta)
    pi, slope = np.empty((T, 2, LANES)), np.empty((T, 2, LANES))
    pull, push = np.empty((T, LANES)), np.empty((T, LANES))
    ahead = np.zeros((T + 1, T))  # dh_t / dtheta_u, zero for u < t
    shift = np.empty(T)  # dmu_t / dtheta_u
    total = np.zeros((T, T))
    p00, p01, p10, p11, r0, dr = lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    e0, e1, V0, V1, reach = lanes(), lanes(), lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        _load_two(first, high, P, reward, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1)
        for t in range(T - 1, -1, -1):
            for j in range(LANES):
                reach[j] = dr[j] + gamma * (V1[j] - V0[j])
            _step_back_by_rule(
                rule, c, theta[t], gamma,
                p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi[t, 0], pi[t, 1],
            )  # fmt: skip
            for j in range(LANES):
                d0, d1 = p10[j] - p00[j], p11[j] - p01[j]
                slope0, by_gain0, by_theta0 = _slopes(
                    rule, c, d0 * reach[j] + e0[j], theta[t], pi[t, 0, j]
                )
                slope1, by_gain1, by_theta1 = _slopes(
                    rule, c, d1 * reach[j] + e1[j], theta[t], pi[t, 1, j]
                )
                slope[t, 0, j], slope[t, 1, j] = slope0, slope1
                pull[t, j] = gamma * (p01[j] - p00[j] + by_gain1 * d1 - by_gain0 * d0)
                push[t, j] = by_theta1 - by_theta0
        for j in range(min(LANES, high - first)):
            i = first + j
            for t in range(T - 1, -1, -1):
                ahead[t, t] = push[t, j]
                for u in range(t + 1, T):
                    ahead[t, u] = pull[t, j] * ahead[t + 1, u]
            d0, d1 = p10[j] - p00[j], p11[j] - p01[j]
            mu = start[i if len(start) > 1 else 0, 1]
            shift[:] = 0.0
            for t in range(T):
                pi0, pi1 = pi[t, 0, j], pi[t, 1, j]
                now0, now1 = (1.0 - mu) * slope[t, 0, j], mu * slope[t, 1, j]
                # Derivatives by h_{t+1}, which changes both gains, and by mu_t.
                by_h = c * gamma * (now0 * d0 + now1 * d1)
                mu_by_h = c * gamma * (now0 * d0 * d0 + now1 * d1 * d1)
                by_mu = pi1 - pi0
                stays = p01[j] + pi1 * d1 - p00[j] - pi0 * d0
                after, row = ahead[t + 1], total[t]
                for u in range(T):
                    row[u] -= by_mu * shift[u] + by_h * after[u]
                    shift[u] = stays * shift[u] + mu_by_h * after[u]
                row[t] += now0 + now1
                shift[t] -= now0 * d0 + now1 * d1
                mu = (1.0 - mu) * (p00[j] + pi0 * d0) + mu * (p01[j] + pi1 * d1)
    return total


@njit(**COMPILE)
def score_rows_two(low, high, P, reward, theta, c, gamma, rule, first_step, rows):
    """Fill rows [steps, n, 2] with lambda_t(s) of two-state arms [low, high) from first_step on."""
    pi0, pi1 = lanes(), lanes()
    p00, p01, p10, p11, r0, dr = lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    e0, e1, V0, V1 = lanes(), lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        _load_two(first, high, P, reward, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1)
        for t in range(len(theta) - 1, first_step - 1, -1):
            if t < first_step + len(rows):
                for j in range(min(LANES, high - first)):
                    reach = dr[j] + gamma * (V1[j] - V0[j])
                    rows[t - first_step, first + j, 0] = (p10[j] - p00[j]) * reach + e0[j]
                    rows[t - first_step, first + j, 1] = (p11[j] - p01[j]) * reach + e1[j]
            _step_back_by_rule(
                rule, c, theta[t], gamma, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi0, pi1
            )


@njit(**COMPILE)
def scores_two(low, high, P, reward, theta, c, gamma, rule, step, states, scores):
    """Fill scores [n] with lambda_t(s) of two-state arms [low, high) at t = step, s = states[i]."""
    pi0, pi1 = lanes(), lanes()
    p00, p01, p10, p11, r0, dr = lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    e0, e1, V0, V1 = lanes(), lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        _load_two(first, high, P, reward, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1)
        for t in range(len(theta) - 1, step, -1):
            _step_back_by_rule(
                rule, c, theta[t], gamma, p00, p01, p10, p11, r0, dr, e0, e1, V0, V1, pi0, pi1
            )
        for j in range(min(LANES, high - first)):
            good = states[first + j] > 0
            difference = p11[j] - p01[j] if good else p10[j] - p00[j]
            now = e1[j] if good else e0[j]
            scores[first + j] = difference * (dr[j] + gamma * (V1[j] - V0[j])) + now


@njit(inline="always")
def _rewards(reward, i, now):
    """r [S] of arm i; ``now`` [S] is filled with e."""
    row = i if len(reward) > 1 else 0
    for s in range(len(now)):
        now[s] = at_once(reward, row, s)
    return reward[row, 0]


@njit(inline="always")
def _gains(P, i, reward_row, now, gamma, V, passive, gain):
    """Q(s, 0) and lambda(s) [S] of arm i, from the next step's V [S], r [S] and e = now [S]."""
    S = len(V)
    for s in range(S):
        q0 = 0.0
        q1 = 0.0
        for s2 in range(S):
            worth = reward_row[s2] + gamma * V[s2]
            q0 += P[i, 0, s, s2] * worth
            q1 += P[i, 1, s, s2] * worth
        passive[s] = q0
        gain[s] = q1 - q0 + now[s]


@njit(**COMPILE)
def sweep(low, high, P, reward, start, theta, c, gamma, rule):
    """`sweep_two` for any number of states."""
    T, S = len(theta), P.shape[2]
    pi = np.empty((T, S))
    V, mu, moved, passive, gain = np.empty(S), np.empty(S), np.empty(S), np.empty(S), np.empty(S)
    now = np.empty(S)
    out = np.zeros((2, T + 1))
    for i in range(low, high):
        reward_row = _rewards(reward, i, now)
        V[:] = 0.0
        mu[:] = start[i if len(start) > 1 else 0]
        for t in range(T - 1, -1, -1):
            _gains(P, i, reward_row, now, gamma, V, passive, gain)
            for s in range(S):
                pi[t, s], extra = _respond(rule, c, gain[s], theta[t])
                V[s] = passive[s] + extra
        for s in range(S):
            out[0, T] += mu[s] * V[s]
        for t in range(T):
            moved[:] = 0.0
            for s in range(S):
                active = mu[s] * pi[t, s]
                out[0, t] += active
                out[1, t] += active * (1.0 - pi[t, s])
                for s2 in range(S):
                    moved[s2] += (mu[s] - active) * P[i, 0, s, s2] + active * P[i, 1, s, s2]
            mu[:] = moved
    return out


@njit(**COMPILE)
def score_rows(low, high, P, reward, theta, c, gamma, rule, first_step, rows):
    """`score_rows_two` for any number of states: rows [steps, n, S]."""
    S = P.shape[2]
    V, passive, gain, now = np.empty(S), np.empty(S), np.empty(S), np.empty(S)
    for i in range(low, high):
        reward_row = _rewards(reward, i, now)
        V[:] = 0.0
        for t in range(len(theta) - 1, first_step - 1, -1):
            _gains(P, i, reward_row, now, gamma, V, passive, gain)
            if t < first_step + len(rows):
                rows[t - first_step, i] = gain
            for s in range(S):
                V[s] = passive[s] + _respond(rule, c, gain[s], theta[t])[1]


@njit(**COMPILE)
def scores(low, high, P, reward, theta, c, gamma, rule, step, states, scores):
    """`scores_two` for any number of states."""
    S = P.shape[2]
    V, passive, gain, now = np.empty(S), np.empty(S), np.empty(S), np.empty(S)
    for i in range(low, high):
        reward_row = _rewards(reward, i, now)
        V[:] = 0.0
        for t in range(len(theta) - 1, step, -1):
            _gains(P, i, reward_row, now, gamma, V, passive, gain)
            for s in range(S):
                V[s] = passive[s] + _respond(rule, c, gain[s], theta[t])[1]
        _gains(P, i, reward_row, now, gamma, V, passive, gain)
        scores[i] = gain[states[i]]
