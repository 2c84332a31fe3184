"""From logits to transition matrices and the law of the first context; from moves to derivatives.

Arrays are laid out as in `chains`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE, exp_, log_

__all__ = ["MIXED", "add", "add_by_logits", "add_by_start", "fill_rows", "fill_starts"]

MIXED = 2  # the matrix of a round in which it is not known whether there was a contact


@njit(**COMPILE)
def _invert(A):
    """The inverse of a small matrix, by elimination with pivots."""
    S = A.shape[0]
    B = np.eye(S)
    for j in range(S):
        p = j
        for i in range(j + 1, S):
            if abs(A[i, j]) > abs(A[p, j]):
                p = i
        if p != j:
            for m in range(S):
                A[j, m], A[p, m] = A[p, m], A[j, m]
                B[j, m], B[p, m] = B[p, m], B[j, m]
        d = 1.0 / A[j, j]
        for m in range(S):
            A[j, m] *= d
            B[j, m] *= d
        for i in range(S):
            if i != j:
                f = A[i, j]
                for m in range(S):
                    A[i, m] -= f * A[j, m]
                    B[i, m] -= f * B[j, m]
    return B


@njit(**COMPILE)
def fill_rows(atoms, shift, share, P, logP):
    """Fill P [3, C, S, Q] and logP [2, C, S, Q] from the atoms [D, Q] plus a shift [D].

    The third matrix is for a round in which there was a contact with probability ``share``.
    """
    _, C, S, Q = P.shape
    R = S - 1
    top, total = np.empty(Q), np.empty(Q)
    for a in range(2):
        for c in range(C):
            top[:] = 0.0
            for j in range(R):
                d = c * R + j
                passive, effect, row = atoms[d], atoms[C * R + d], logP[a, c, j + 1]
                by = shift[d] + a * shift[C * R + d]
                for q in range(Q):
                    row[q] = passive[q] + a * effect[q] + by
                    top[q] = max(top[q], row[q])
            lowest, lowest_log = P[a, c, 0], logP[a, c, 0]
            for q in range(Q):
                lowest[q] = exp_(-top[q])
                total[q] = lowest[q]
            for j in range(R):
                row, chance = logP[a, c, j + 1], P[a, c, j + 1]
                for q in range(Q):
                    chance[q] = exp_(row[q] - top[q])
                    total[q] += chance[q]
            for q in range(Q):
                lowest_log[q] = -(top[q] + log_(total[q]))
                total[q] = 1.0 / total[q]
                lowest[q] *= total[q]
            for j in range(R):
                row, chance = logP[a, c, j + 1], P[a, c, j + 1]
                for q in range(Q):
                    row[q] += lowest_log[q]
                    chance[q] *= total[q]
    for c in range(C):
        for s2 in range(S):
            without, by_contact, mixed = P[0, c, s2], P[1, c, s2], P[MIXED, c, s2]
            for q in range(Q):
                mixed[q] = without[q] + share * (by_contact[q] - without[q])


@njit(**COMPILE)
def fill_starts(P, after, settled, coin, Z, start, log_start):
    """Fill the law [C, Q] of the first context, its log, and Z [C, C, Q] for its derivatives.

    With probability ``settled`` the first context is drawn from pi, the stationary law without
    contacts; otherwise from ``coin`` [C]. Z is the inverse of I - P + 1 1', with P without
    contacts: its column sums are pi, and d pi = pi dP Z.
    """
    _, C, S, Q = P.shape
    if C == 2:
        P00, P01, P10, P11 = P[0, 0, 0], P[0, 0, 1], P[0, 1, 0], P[0, 1, 1]
        Z00, Z01, Z10, Z11 = Z[0, 0], Z[0, 1], Z[1, 0], Z[1, 1]
        for q in range(Q):
            inverse = 1.0 / ((2.0 - P00[q]) * (2.0 - P11[q]) - (1.0 - P01[q]) * (1.0 - P10[q]))
            Z00[q], Z11[q] = (2.0 - P11[q]) * inverse, (2.0 - P00[q]) * inverse
            Z01[q], Z10[q] = (P01[q] - 1.0) * inverse, (P10[q] - 1.0) * inverse
    else:
        for q in range(Q):
            A = np.eye(C)
            for c in range(C):
                for s2 in range(S):
                    A[c, after[0, c, s2]] -= P[0, c, s2, q]
            Z[:, :, q] = _invert(A + 1.0)
    for c0 in range(C):
        law, log_law = start[c0], log_start[c0]
        law[:] = 0.0
        for c in range(C):
            column = Z[c, c0]
            for q in range(Q):
                law[q] += column[q]
        for q in range(Q):
            law[q] = max(settled * law[q] + (1.0 - settled) * coin[c0], 1e-300)
            log_law[q] = log_(law[q])


@njit(**COMPILE)
def add(y, row, out):
    """Add y times ``row`` to ``out``."""
    for q in range(len(out)):
        out[q] += y * row[q]


@njit(**COMPILE)
def add_by_start(settled, coin, P, after, Z, start, begun, Y, by_start):
    """Add the terms of the first contexts ``begun`` [C, Q] to the moves Y and to ``by_start``."""
    _, C, S, Q = P.shape
    for c0 in range(C):
        pulled = begun[c0] / start[c0]
        for q in range(Q):
            chance = coin[c0] * (1.0 - settled) * pulled[q]
            by_start[0] += begun[c0, q] - chance
            by_start[1 + c0] += chance
        for c in range(C):
            pi = np.zeros(Q)
            for c2 in range(C):
                add(1.0, Z[c2, c], pi)
            for s2 in range(S):
                moves, inverse, move = Y[0, c, s2], Z[after[0, c, s2], c0], P[0, c, s2]
                for q in range(Q):
                    moves[q] += pulled[q] * settled * pi[q] * inverse[q] * move[q]


@njit(**COMPILE)
def add_by_logits(Y, P, by_atom, by_shift):
    """Add the derivatives by the logits of atoms, from moves Y [2, C, S, Q]; fill ``by_shift``."""
    _, C, S, Q = P.shape
    R = S - 1
    n0, n1 = np.empty(Q), np.empty(Q)
    for c in range(C):
        n0[:] = 0.0
        n1[:] = 0.0
        for s2 in range(S):
            add(1.0, Y[0, c, s2], n0)
            add(1.0, Y[1, c, s2], n1)
        for j in range(R):
            d = c * R + j
            passive_sum, active_sum = 0.0, 0.0
            for q in range(Q):
                active = Y[1, c, j + 1, q] - n1[q] * P[1, c, j + 1, q]
                both = Y[0, c, j + 1, q] - n0[q] * P[0, c, j + 1, q] + active
                by_atom[d, q] += both
                by_atom[C * R + d, q] += active
                passive_sum += both
                active_sum += active
            by_shift[d] = passive_sum
            by_shift[C * R + d] = active_sum
