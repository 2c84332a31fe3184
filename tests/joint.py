"""Exact values for a few arms, by dynamic programming over all joint states and sets of arms.

Budgets may change with time and rewards may depend on the action. A run's reward is
sum_t gamma^t (R(s_{t+1}, 0) + a_t (R(s_t, 1) - R(s_t, 0))), summed over arms. This file uses NumPy,
and no code of the package.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations, product

import numpy as np
from scipy.special import expit

import softfair as sf


def any_cohort(n, S, seed, *, by_action=False, own=True):
    """Arms of every kind, helped or harmed by action; rewards of either sign.

    Rewards are each arm's own, or the same for all.
    """
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(n, 2, S))
    R = rng.normal(size=(n if own else 1, S, 2))
    reward = R if by_action else R[:, :, 0] if own else R[0, :, 0]
    return sf.Cohort(P, reward=reward, start=rng.dirichlet(np.ones(S), n))


def rewards_of(cohort):
    """R [n, S, 2]."""
    R = np.broadcast_to(cohort.reward_rows, (cohort.n, *cohort.reward_rows.shape[1:]))
    return np.stack([R[:, 0], R[:, -1]], axis=2)


def sets_of(n, size):
    return [frozenset(chosen) for chosen in combinations(range(n), size)]


def moves_of(cohort, chosen):
    """Chances of the next joint state [S^n, S^n]; the joint state is a number in base S."""
    return reduce(np.kron, [cohort.P[i, int(i in chosen)] for i in range(cohort.n)])


def start_of(cohort):
    """Chances of each joint state at decision 0 [S^n]."""
    return reduce(np.kron, cohort.start)


def joint_Q(cohort, V, gamma, k):
    """All sets of k arms, and their Q in every joint state [sets, S^n]; V [S^n] are next values."""
    sets = sets_of(cohort.n, k)
    return sets, Q_of(cohort, V, gamma, sets)


def Q_of(cohort, V, gamma, sets):
    """Q of each set in every joint state [sets, S^n]; V [S^n] is the next value."""
    R, Q = rewards_of(cohort), []
    reached = reduce(np.add.outer, R[:, :, 0]).ravel()
    for chosen in sets:
        helped = [(R[i, :, 1] - R[i, :, 0]) * (i in chosen) for i in range(cohort.n)]
        now = reduce(np.add.outer, helped).ravel()
        Q.append(now + moves_of(cohort, chosen) @ (reached + gamma * V))
    return np.array(Q)


def joint_optimum(cohort, k, gamma, *, at_most):
    """The best expected reward of policies that help k[t] (or at most k[t]) arms at decision t."""
    V = np.zeros(cohort.S**cohort.n)
    for most in reversed(k):
        sizes = range(most + 1) if at_most else [most]
        V = np.max([joint_Q(cohort, V, gamma, size)[1].max(axis=0) for size in sizes], axis=0)
    return float(start_of(cohort) @ V)


def joint_value(fitted):
    """The expected reward of a fitted policy, by enumeration of the joint design over sets."""
    cohort, n, S = fitted.cohort, fitted.cohort.n, fitted.cohort.S
    V = np.zeros(S**n)
    for t in reversed(range(fitted.horizon)):
        sets, Q = joint_Q(cohort, V, fitted.gamma, int(fitted.budget[t]))
        V = np.empty(S**n)
        for j, states in enumerate(product(range(S), repeat=n)):
            scores = fitted.rule.c * fitted.scores(t, np.array(states))
            weights = np.array([sum(scores[list(chosen)]) for chosen in sets])
            law = np.exp(weights - weights.max())
            V[j] = law @ Q[:, j] / law.sum()
    return float(start_of(cohort) @ V)


# The chance of an arm to be active, and what the choice adds to Q(s, 0); x = c gain - theta.
def priced(c, gain, x):
    return expit(x), np.logaddexp(0, x) / c


def joint(c, gain, x):
    return expit(x), expit(x) * gain


def successive(c, gain, x):
    pi = -np.expm1(-np.exp(np.minimum(x, 700)))
    return pi, pi * gain


def backward(cohort, theta, c, gamma, respond, bonus=0.0):
    """Gains, without the bonus, and chances [T, n, S] of each arm alone at its prices."""
    R, V, gains, chances = rewards_of(cohort), np.zeros((cohort.n, cohort.S)), [], []
    for theta_t in theta[::-1]:
        Q = np.einsum("iast,it->ais", cohort.P, R[:, :, 0] + gamma * V)
        gains.append(Q[1] + (R[:, :, 1] - R[:, :, 0]) - Q[0])
        gain = gains[-1] + np.reshape(bonus, (-1, 1))
        pi, extra = respond(c, gain, c * gain - theta_t)
        chances.append(pi)
        V = Q[0] + extra
    return np.array(gains[::-1]), np.array(chances[::-1])


def active(cohort, chances):
    """Expected active arms at each step [T], each arm alone with chances [T, n, S]."""
    mu, expected = cohort.start, []
    for pi in chances:
        expected.append((mu * pi).sum())
        mu = np.einsum("is,ist->it", mu * (1 - pi), cohort.P[:, 0]) + np.einsum(
            "is,ist->it", mu * pi, cohort.P[:, 1]
        )
    return np.array(expected)
