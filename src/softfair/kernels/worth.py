"""What a plan brings to each person if their chances are others than it was made from."""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE

__all__ = ["plan_worth"]


@njit(**COMPILE)
def plan_worth(low, high, P, chance, reached, start, reward, gained, now):
    """Fill, for persons low..high - 1, what the plan and what a contact now bring.

    ``P`` [n, 2, S, S] are the person's chances and ``chance`` [T, n, S] the plan's chances of a
    contact, which reaches the person with probability ``reached``. With V_T = 0 and e = chance
    times reached, V_t(s) = sum_s2 ((1 - e) P[0] + e P[1])(s, s2) (reward(s2) + V_{t+1}(s2)), and U
    the same without contacts. ``gained`` [n] gets start (V_0 - U_0), and ``now`` [n] gets
    start (P[1] - P[0]) (reward + V_1), the worth of a contact in this round.
    """
    T, S = chance.shape[0], chance.shape[2]
    V, U, V2, U2 = np.empty(S), np.empty(S), np.empty(S), np.empty(S)
    for i in range(low, high):
        V[:] = 0.0
        U[:] = 0.0
        for t in range(T - 1, -1, -1):
            if t == 0:
                now[i] = 0.0
            for s in range(S):
                passive, active, alone = 0.0, 0.0, 0.0
                for s2 in range(S):
                    passive += P[i, 0, s, s2] * (reward[i, s2] + V[s2])
                    active += P[i, 1, s, s2] * (reward[i, s2] + V[s2])
                    alone += P[i, 0, s, s2] * (reward[i, s2] + U[s2])
                V2[s] = passive + chance[t, i, s] * reached * (active - passive)
                U2[s] = alone
                if t == 0:
                    now[i] += start[i, s] * (active - passive)
            V[:] = V2
            U[:] = U2
        gained[i] = 0.0
        for s in range(S):
            gained[i] += start[i, s] * (V[s] - U[s])
