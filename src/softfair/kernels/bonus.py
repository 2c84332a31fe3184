"""Values, state distributions and helps of every arm if each help of arm i also earns a bonus b_i.

Let V_T = 0 and Q_t(s, a) = a rho_t e(s) + sum_s2 P[a, s, s2] (rho_t r(s2) + gamma V_{t+1}(s2)),
with r and e as in :mod:`softfair.kernels.recursion`. The gain is
lambda_t(s) = Q_t(s, 1) - Q_t(s, 0). With x = c (lambda_t(s) + b_i) - theta_t, arm i is active with
chance pi_t(s), and the value of its state is V_t(s) = Q_t(s, 0) + extra:

    soft    pi = sigmoid(x)        extra = softplus(x) / c     theta = c m, soft Bellman equation
    hard    pi = [x > 0], c = 1    extra = max(x, 0)           theta = m, the dual bound

rho_t is a weight of the reward at step t. It is 1; or it is gamma^t, and gamma in these equations
is 1, so that a help counts the same at every step. The first two derivatives of V_t(s) by b_i
follow from the same recursion backward. The first, h_t(s), is the expected (discounted) number of
helps from step t on; the second is the response of that number to the bonus:

    h_t = gamma P0 h_{t+1} + pi l,                        l = 1 + gamma (P1 - P0) h_{t+1}
    h'_t = gamma (P0 + pi (P1 - P0)) h'_{t+1} + c pi (1 - pi) l^2

Given theta and b, arms are independent, as in :mod:`softfair.kernels.recursion`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE
from .lanes import LANES, lanes
from .recursion import at_once, respond_hard, respond_priced

__all__ = [
    "count_figures",
    "helps",
    "helps_two",
    "score_rows",
    "score_rows_two",
    "sweep",
    "sweep_two",
]


@njit(inline="always")
def _load(first, high, arms, P, reward, bonus, p00, p01, d0, d1, r0, dr, e0, e1, b):
    """Load the two-state arms at positions [first, first + LANES) of ``arms`` into lanes.

    Lanes of positions from ``high`` on repeat the arm at ``first``.
    """
    for j in range(LANES):
        i = arms[first + j if first + j < high else first]
        row = i if len(reward) > 1 else 0
        p00[j] = P[i, 0, 0, 1]
        p01[j] = P[i, 0, 1, 1]
        d0[j] = P[i, 1, 0, 1] - P[i, 0, 0, 1]
        d1[j] = P[i, 1, 1, 1] - P[i, 0, 1, 1]
        r0[j] = reward[row, 0, 0]
        dr[j] = reward[row, 0, 1] - reward[row, 0, 0]
        e0[j] = at_once(reward, row, 0)
        e1[j] = at_once(reward, row, 1)
        b[j] = bonus[i]


@njit(inline="always")
def _values_back(
    respond, c, theta, rho, gamma, p00, p01, d0, d1, r0, dr, e0, e1, b, V0, V1, pi0, pi1
):
    """One decision earlier: V0, V1 [LANES] are overwritten, and pi0, pi1 [LANES] are filled."""
    for j in range(LANES):
        reach = rho * dr[j] + gamma * (V1[j] - V0[j])  # worth of reaching state 1 rather than 0
        rest = rho * r0[j] + gamma * V0[j]
        pi0[j], extra0 = respond(c, d0[j] * reach + (rho * e0[j] + b[j]), theta)
        pi1[j], extra1 = respond(c, d1[j] * reach + (rho * e1[j] + b[j]), theta)
        V0[j] = rest + p00[j] * reach + extra0
        V1[j] = rest + p01[j] * reach + extra1


@njit(inline="always")
def _helps_back(c, gamma, p00, p01, d0, d1, h0, h1, z0, z1, pi0, pi1):
    """One decision earlier: helps h0, h1 and their responses z0, z1 [LANES] are overwritten."""
    for j in range(LANES):
        h_reach, z_reach = gamma * (h1[j] - h0[j]), gamma * (z1[j] - z0[j])
        h_rest, z_rest = gamma * h0[j], gamma * z0[j]
        l0, l1 = 1.0 + d0[j] * h_reach, 1.0 + d1[j] * h_reach
        h0[j] = h_rest + p00[j] * h_reach + pi0[j] * l0
        h1[j] = h_rest + p01[j] * h_reach + pi1[j] * l1
        z0[j] = (
            z_rest + p00[j] * z_reach + pi0[j] * (d0[j] * z_reach + c * (1.0 - pi0[j]) * l0 * l0)
        )
        z1[j] = (
            z_rest + p01[j] * z_reach + pi1[j] * (d1[j] * z_reach + c * (1.0 - pi1[j]) * l1 * l1)
        )


@njit(**COMPILE)
def helps_two(low, high, arms, P, reward, start, rho, theta, bonus, c, gamma, x, dx):
    """Expected helps and their response to the bonus, for two-state arms ``arms[low:high]``.

    ``x`` and ``dx`` [n] are filled at those arms.
    """
    p00, p01, d0, d1, r0, dr, b = lanes(), lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    e0, e1 = lanes(), lanes()
    V0, V1, h0, h1, z0, z1 = lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    pi0, pi1 = lanes(), lanes()
    for first in range(low, high, LANES):
        _load(first, high, arms, P, reward, bonus, p00, p01, d0, d1, r0, dr, e0, e1, b)
        V0[:], V1[:], h0[:], h1[:], z0[:], z1[:] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for t in range(len(theta) - 1, -1, -1):
            _values_back(
                respond_priced, c, theta[t], rho[t], gamma,
                p00, p01, d0, d1, r0, dr, e0, e1, b, V0, V1, pi0, pi1,
            )  # fmt: skip
            _helps_back(c, gamma, p00, p01, d0, d1, h0, h1, z0, z1, pi0, pi1)
        for j in range(min(LANES, high - first)):
            i = arms[first + j]
            mu = start[i if len(start) > 1 else 0, 1]
            x[i] = h0[j] + mu * (h1[j] - h0[j])
            dx[i] = z0[j] + mu * (z1[j] - z0[j])


@njit(**COMPILE)
def sweep_two(low, high, arms, P, reward, start, rho, theta, bonus, c, gamma, hard, x, dx):
    """One pass over two-state arms ``arms[low:high]``: [2, T + 1].

    Row 0 holds the expected active arms at each step and, at T, the expected value from the start,
    bonuses included. Row 1 holds the sum of mu pi (1 - pi), the response of row 0 to -theta_t.
    ``x`` and ``dx`` [n] are filled as by `helps_two`.
    """
    T = len(theta)
    pi = np.empty((T, 2, LANES))
    active, steepness = np.zeros((T, LANES)), np.zeros((T, LANES))
    p00, p01, d0, d1, r0, dr, b = lanes(), lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    e0, e1 = lanes(), lanes()
    V0, V1, h0, h1, z0, z1 = lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    mu, weight, value = lanes(), lanes(), lanes()
    value[:] = 0.0
    for first in range(low, high, LANES):
        _load(first, high, arms, P, reward, bonus, p00, p01, d0, d1, r0, dr, e0, e1, b)
        V0[:], V1[:], h0[:], h1[:], z0[:], z1[:] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(LANES):
            i = arms[first + j if first + j < high else first]
            weight[j] = 1.0 if first + j < high else 0.0
            mu[j] = start[i if len(start) > 1 else 0, 1]
        for t in range(T - 1, -1, -1):
            if hard:
                _values_back(
                    respond_hard, c, theta[t], rho[t], gamma,
                    p00, p01, d0, d1, r0, dr, e0, e1, b, V0, V1, pi[t, 0], pi[t, 1],
                )  # fmt: skip
            else:
                _values_back(
                    respond_priced, c, theta[t], rho[t], gamma,
                    p00, p01, d0, d1, r0, dr, e0, e1, b, V0, V1, pi[t, 0], pi[t, 1],
                )  # fmt: skip
            _helps_back(c, gamma, p00, p01, d0, d1, h0, h1, z0, z1, pi[t, 0], pi[t, 1])
        for j in range(LANES):
            value[j] += weight[j] * (V0[j] + mu[j] * (V1[j] - V0[j]))
        for j in range(min(LANES, high - first)):
            x[arms[first + j]] = h0[j] + mu[j] * (h1[j] - h0[j])
            dx[arms[first + j]] = z0[j] + mu[j] * (z1[j] - z0[j])
        for t in range(T):
            pi0, pi1, active_t, steepness_t = pi[t, 0], pi[t, 1], active[t], steepness[t]
            for j in range(LANES):
                mu0, mu1 = 1.0 - mu[j], mu[j]
                a0, a1 = mu0 * pi0[j], mu1 * pi1[j]
                active_t[j] += weight[j] * (a0 + a1)
                steepness_t[j] += weight[j] * (a0 * (1.0 - pi0[j]) + a1 * (1.0 - pi1[j]))
                mu[j] = mu0 * p00[j] + a0 * d0[j] + mu1 * p01[j] + a1 * d1[j]
    out = np.zeros((2, T + 1))
    for t in range(T):
        out[0, t] = active[t].sum()
        out[1, t] = steepness[t].sum()
    out[0, T] = value.sum()
    return out


@njit(**COMPILE)
def score_rows_two(low, high, arms, P, reward, theta, bonus, c, gamma, first_step, rows):
    """Fill rows [steps, n, 2] with lambda_t(s) + b_i of ``arms[low:high]`` from first_step on."""
    p00, p01, d0, d1, r0, dr, b = lanes(), lanes(), lanes(), lanes(), lanes(), lanes(), lanes()
    e0, e1 = lanes(), lanes()
    V0, V1, pi0, pi1 = lanes(), lanes(), lanes(), lanes()
    for first in range(low, high, LANES):
        _load(first, high, arms, P, reward, bonus, p00, p01, d0, d1, r0, dr, e0, e1, b)
        V0[:], V1[:] = 0.0, 0.0
        for t in range(len(theta) - 1, first_step - 1, -1):
            if t < first_step + len(rows):
                for j in range(min(LANES, high - first)):
                    reach = dr[j] + gamma * (V1[j] - V0[j])
                    rows[t - first_step, arms[first + j], 0] = d0[j] * reach + (e0[j] + b[j])
                    rows[t - first_step, arms[first + j], 1] = d1[j] * reach + (e1[j] + b[j])
            _values_back(
                respond_priced, c, theta[t], 1.0, gamma,
                p00, p01, d0, d1, r0, dr, e0, e1, b, V0, V1, pi0, pi1,
            )  # fmt: skip


@njit(inline="always")
def _back(P, i, reward, rho, theta, b, c, gamma, hard, V, h, z, new, pi):
    """One decision earlier for arm i of any number of states.

    V, h and z [S] are overwritten, and pi [S] is filled with the chances; new [3, S] is scratch.
    """
    S, row = len(V), i if len(reward) > 1 else 0
    for s in range(S):
        q0, q1, h0, h1, z0, z1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for s2 in range(S):
            worth = rho * reward[row, 0, s2] + gamma * V[s2]
            q0 += P[i, 0, s, s2] * worth
            q1 += P[i, 1, s, s2] * worth
            h0 += P[i, 0, s, s2] * h[s2]
            h1 += P[i, 1, s, s2] * h[s2]
            z0 += P[i, 0, s, s2] * z[s2]
            z1 += P[i, 1, s, s2] * z[s2]
        gain = q1 - q0 + (rho * at_once(reward, row, s) + b)
        pi[s], extra = respond_hard(c, gain, theta) if hard else respond_priced(c, gain, theta)
        level = 1.0 + gamma * (h1 - h0)
        new[0, s] = q0 + extra
        new[1, s] = gamma * h0 + pi[s] * level
        new[2, s] = gamma * (z0 + pi[s] * (z1 - z0)) + c * pi[s] * (1.0 - pi[s]) * level * level
    for s in range(S):
        V[s], h[s], z[s] = new[0, s], new[1, s], new[2, s]


@njit(inline="always")
def _forward(P, i, pi, mu, moved):
    """Move the state distribution mu [S] of arm i one decision on, with chances pi [S] of help."""
    S = len(mu)
    moved[:] = 0.0
    for s in range(S):
        active = mu[s] * pi[s]
        for s2 in range(S):
            moved[s2] += (mu[s] - active) * P[i, 0, s, s2] + active * P[i, 1, s, s2]
    mu[:] = moved


@njit(**COMPILE)
def helps(low, high, arms, P, reward, start, rho, theta, bonus, c, gamma, x, dx):
    """`helps_two` for any number of states."""
    S = P.shape[2]
    V, h, z, pi, new = np.empty(S), np.empty(S), np.empty(S), np.empty(S), np.empty((3, S))
    for i in arms[low:high]:
        mu = start[i if len(start) > 1 else 0]
        V[:], h[:], z[:] = 0.0, 0.0, 0.0
        for t in range(len(theta) - 1, -1, -1):
            _back(P, i, reward, rho[t], theta[t], bonus[i], c, gamma, False, V, h, z, new, pi)
        x[i] = (mu * h).sum()
        dx[i] = (mu * z).sum()


@njit(**COMPILE)
def sweep(low, high, arms, P, reward, start, rho, theta, bonus, c, gamma, hard, x, dx):
    """`sweep_two` for any number of states."""
    T, S = len(theta), P.shape[2]
    pi, new = np.empty((T, S)), np.empty((3, S))
    V, h, z, mu, moved = np.empty(S), np.empty(S), np.empty(S), np.empty(S), np.empty(S)
    out = np.zeros((2, T + 1))
    for i in arms[low:high]:
        V[:], h[:], z[:] = 0.0, 0.0, 0.0
        mu[:] = start[i if len(start) > 1 else 0]
        for t in range(T - 1, -1, -1):
            _back(P, i, reward, rho[t], theta[t], bonus[i], c, gamma, hard, V, h, z, new, pi[t])
        out[0, T] += (mu * V).sum()
        x[i] = (mu * h).sum()
        dx[i] = (mu * z).sum()
        for t in range(T):
            out[0, t] += (mu * pi[t]).sum()
            out[1, t] += (mu * pi[t] * (1.0 - pi[t])).sum()
            _forward(P, i, pi[t], mu, moved)
    return out


@njit(**COMPILE)
def score_rows(low, high, arms, P, reward, theta, bonus, c, gamma, first_step, rows):
    """`score_rows_two` for any number of states: rows [steps, n, S]."""
    S = P.shape[2]
    V, h, z, pi, new = np.empty(S), np.zeros(S), np.zeros(S), np.empty(S), np.empty((3, S))
    for i in arms[low:high]:
        row = i if len(reward) > 1 else 0
        V[:] = 0.0
        for t in range(len(theta) - 1, first_step - 1, -1):
            if t < first_step + len(rows):
                for s in range(S):
                    gain = 0.0
                    for s2 in range(S):
                        worth = reward[row, 0, s2] + gamma * V[s2]
                        gain += (P[i, 1, s, s2] - P[i, 0, s, s2]) * worth
                    rows[t - first_step, i, s] = gain + (at_once(reward, row, s) + bonus[i])
            _back(P, i, reward, 1.0, theta[t], bonus[i], c, gamma, False, V, h, z, new, pi)


@njit(**COMPILE)
def count_figures(low, high, arms, P, reward, start, theta, bonus, c, gamma, total):
    """The contributions of the counts N_i of ``arms[low:high]`` to two figures of a run: [2].

    They are the expected sum of -(N_i / total) log(N_i / total), and the expected number of arms
    with N_i = 0. The joint law of state and N_i is carried forward, [S, T + 1]. It is exact for
    arms that are active independently of each other with chances pi_t(s).
    """
    T, S = len(theta), P.shape[2]
    pi, new = np.empty((T, S)), np.empty((3, S))
    V, h, z = np.empty(S), np.zeros(S), np.zeros(S)
    law, moved = np.empty((S, T + 1)), np.empty((S, T + 1))
    surprise = np.zeros(T + 1)
    for count in range(1, T + 1):
        surprise[count] = -(count / total) * np.log(count / total)
    out = np.zeros(2)
    for i in arms[low:high]:
        V[:] = 0.0
        for t in range(T - 1, -1, -1):
            _back(P, i, reward, 1.0, theta[t], bonus[i], c, gamma, False, V, h, z, new, pi[t])
        law[:] = 0.0
        law[:, 0] = start[i if len(start) > 1 else 0]
        for t in range(T):
            moved[:, : t + 2] = 0.0
            for s in range(S):
                for s2 in range(S):
                    stay = (1.0 - pi[t, s]) * P[i, 0, s, s2]
                    rise = pi[t, s] * P[i, 1, s, s2]
                    for count in range(t + 1):
                        moved[s2, count] += stay * law[s, count]
                        moved[s2, count + 1] += rise * law[s, count]
            law[:, : t + 2] = moved[:, : t + 2]
        for s in range(S):
            out[0] += (law[s] * surprise).sum()
            out[1] += law[s, 0]
    return out
