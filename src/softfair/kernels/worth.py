"""The worth of a plan to each person if their true chances differ from the plan's estimates."""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE

__all__ = ["plan_worth"]


@njit(**COMPILE)
def plan_worth(low, high, P, chance, left, reached, start, reward, gained, now):
    """Fill the worth of the plan, and of a contact now, for persons low..high - 1.

    ``P`` [n, 2, S, S] are the transition probabilities of each person, and ``chance`` [T, n, D, S]
    the person's chances of being on the list by the plan. A contact from the list reaches the
    person with probability ``reached``. If a longest wait is promised, layer d of D is for people
    who have d + 1 lists left: a person has D lists left after being on a list, and one fewer after
    any other list. Without a promise D is 1, and people stay in the one layer. ``left`` [n] is the
    number of lists left now. With V_T = 0, Q_a(d, s) = sum_s2 P[a](s, s2) (reward(s2) +
    V_{t+1}(d, s2)) and pi the chance of layer d and state s,

        V_t(d, s) = (1 - pi) Q_0(d - 1, s) + pi L(s)
        L(s) = (1 - reached) Q_0(D - 1, s) + reached Q_1(D - 1, s)

    and U is V without contacts. ``gained`` [n] is filled with start (V_0 - U_0), and ``now`` [n]
    with start (Q_1 - Q_0)(D - 1) at t = 0, the worth of a contact for a person on the list.
    """
    T, D, S = chance.shape[0], chance.shape[2], chance.shape[3]
    V, V2, U, U2 = np.empty((D, S)), np.empty((D, S)), np.empty(S), np.empty(S)
    for i in range(low, high):
        V[:] = 0.0
        U[:] = 0.0
        for t in range(T - 1, -1, -1):
            if t == 0:
                now[i] = 0.0
            for s in range(S):
                passive, active, without = 0.0, 0.0, 0.0
                for s2 in range(S):
                    passive += P[i, 0, s, s2] * (reward[i, s2] + V[D - 1, s2])
                    active += P[i, 1, s, s2] * (reward[i, s2] + V[D - 1, s2])
                    without += P[i, 0, s, s2] * (reward[i, s2] + U[s2])
                listed = passive + reached * (active - passive)
                for d in range(D):
                    unlisted = passive
                    if D > 1:
                        unlisted = 0.0
                        for s2 in range(S):
                            unlisted += P[i, 0, s, s2] * (reward[i, s2] + V[max(d - 1, 0), s2])
                    V2[d, s] = unlisted + chance[t, i, d, s] * (listed - unlisted)
                U2[s] = without
                if t == 0:
                    now[i] += start[i, s] * (active - passive)
            V[:] = V2
            U[:] = U2
        gained[i] = 0.0
        for s in range(S):
            gained[i] += start[i, s] * (V[left[i] - 1, s] - U[s])
