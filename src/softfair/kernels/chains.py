"""The likelihood of people's histories at each of Q atoms, for :mod:`softfair.estimate`.

An atom is a vector of D = 2 S (S - 1) logits: first, for each state s, the log of
P[0, s, s2] / P[0, s, 0] for s2 = 1 ... S - 1; then what a contact adds to each of them. A person's
own atoms are the common ones plus the person's ``shift``. Whatever depends on atom and shift alone
(matrices, their logs, the law of the first state) is computed once for as long as the shift stays
the same, so persons should come sorted by it. Inner loops run over atoms.

A history is what is left of it for the likelihood: how often each move was seen in two rounds that
follow each other, the first state, and the gaps. A gap is a run of rounds without a state; it is
bridged by the forward-backward recursion. Every gradient is an expected number of moves (Fisher's
identity), so that one formula serves direct moves, gaps and the first state.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .elementary import COMPILE, exp_, log_

__all__ = ["person_likelihoods", "posterior_sums"]

NOTHING = -2  # no history at all
OPEN = -1  # of a gap: no state was seen before it, or none after it


@njit(**COMPILE)
def _invert(A):
    """The inverse of a small matrix that needs no pivots but gets them."""
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
def _fill_rows(atoms, shift, P, logP):
    """The matrices [2, S, S, Q] of the atoms [D, Q] after a shift [D], and their logs."""
    S, Q = P.shape[1], P.shape[3]
    R = S - 1
    for a in range(2):
        for s in range(S):
            for q in range(Q):
                top = 0.0
                for j in range(R):
                    d = s * R + j
                    v = atoms[d, q] + shift[d]
                    if a == 1:
                        v += atoms[S * R + d, q] + shift[S * R + d]
                    logP[a, s, j + 1, q] = v
                    top = max(top, v)
                total = exp_(max(-top, -700.0))
                for j in range(R):
                    total += exp_(max(logP[a, s, j + 1, q] - top, -700.0))
                log_total = top + log_(total)
                logP[a, s, 0, q] = -log_total
                P[a, s, 0, q] = exp_(max(-log_total, -700.0))
                for j in range(R):
                    logP[a, s, j + 1, q] -= log_total
                    P[a, s, j + 1, q] = exp_(max(logP[a, s, j + 1, q], -700.0))


@njit(**COMPILE)
def _fill_starts(P, settled, coin, start, pull):
    """The law [S, Q] of the first state, and what it says of the moves [S, S, S, Q].

    The first state is settled (the law that people reach whom nobody contacts) with probability
    ``settled``, else drawn from ``coin`` [S]. pull[s0, s, s2] is P[0, s, s2] times the derivative
    of log start[s0] by P[0, s, s2].
    """
    S, Q = P.shape[1], P.shape[3]
    A, Z = np.empty((S, S)), np.empty((S, S))
    for q in range(Q):
        for s in range(S):
            for s2 in range(S):
                A[s, s2] = (1.0 if s == s2 else 0.0) - P[0, s, s2, q] + 1.0
        # Z is the inverse of I - P + 1 1': its column sums are the stationary law pi.
        if S == 2:
            one = 1.0 / (A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0])
            Z[0, 0], Z[1, 1] = A[1, 1] * one, A[0, 0] * one
            Z[0, 1], Z[1, 0] = -A[0, 1] * one, -A[1, 0] * one
        else:
            Z[:] = _invert(A)
        for s0 in range(S):
            pi = 0.0
            for s in range(S):
                pi += Z[s, s0]
            start[s0, q] = max(settled * pi + (1.0 - settled) * coin[s0], 1e-300)
        for s0 in range(S):
            for s in range(S):
                pi = 0.0
                for s2 in range(S):
                    pi += Z[s2, s]
                for s2 in range(S):  # d pi = pi dP Z
                    pull[s0, s, s2, q] = settled * pi * Z[s2, s0] * P[0, s, s2, q] / start[s0, q]


@njit(**COMPILE)
def _forward(first, last, acts, P, start, unseen, share, f, factor):
    """Forward through a gap: f[t, s] over its rounds, and its likelihood in ``factor`` [Q].

    ``first`` and ``last`` are the states seen at its ends, or OPEN. ``acts`` are the actions of all
    rounds from the first end to the round before the last; -1 where it is not known, and then a
    contact has probability ``share``.
    """
    S, Q = P.shape[1], P.shape[3]
    g = len(acts)
    for s in range(S):
        for q in range(Q):
            if first == OPEN:
                f[0, s, q] = start[s, q] * unseen[s]
            else:
                f[0, s, q] = 1.0 if s == first else 0.0
    for t in range(g):
        x = share if acts[t] < 0 else float(acts[t])
        only = first if t == 0 else OPEN  # the state before, if it is known
        for s2 in range(S):
            emitted = _emitted(t == g - 1, last, s2, unseen)
            for q in range(Q):
                f[t + 1, s2, q] = 0.0
            if emitted == 0.0:
                continue
            for s in range(S):
                if only in (OPEN, s):
                    for q in range(Q):
                        move = P[0, s, s2, q] + x * (P[1, s, s2, q] - P[0, s, s2, q])
                        f[t + 1, s2, q] += f[t, s, q] * move * emitted
    for q in range(Q):
        factor[q] = 0.0
    for s in range(S):
        for q in range(Q):
            factor[q] += f[g, s, q]
    for q in range(Q):
        factor[q] = max(factor[q], 1e-300)


@njit(**COMPILE)
def _emitted(at_end, last, s2, unseen):
    """Chance of what was recorded of a round of a gap if its state was s2."""
    if at_end and last != OPEN:
        return 1.0 if s2 == last else 0.0
    return unseen[s2]


@njit(**COMPILE)
def _backward(last, acts, P, unseen, share, b):
    """Backward through a gap: b[t, s], the chance of all that follows round t in state s."""
    S, Q = P.shape[1], P.shape[3]
    g = len(acts)
    b[g] = 1.0
    for t in range(g - 1, -1, -1):
        x = share if acts[t] < 0 else float(acts[t])
        for s in range(S):
            for q in range(Q):
                b[t, s, q] = 0.0
            for s2 in range(S):
                emitted = _emitted(t == g - 1, last, s2, unseen)
                if emitted == 0.0:
                    continue
                for q in range(Q):
                    move = P[0, s, s2, q] + x * (P[1, s, s2, q] - P[0, s, s2, q])
                    b[t, s, q] += move * emitted * b[t + 1, s2, q]


@njit(**COMPILE)
def _expect(first, last, acts, P, unseen, share, pull, f, b, factor, r, Y, hidden, begun):
    """Add r times the expected moves of a bridged gap to Y [2, S, S, Q].

    ``hidden`` [S] gets the expected rounds without a state by what it was, and ``begun`` [S] the
    law of the first state of a history that begins with the gap.
    """
    S, Q = P.shape[1], P.shape[3]
    g = len(acts)
    for t in range(g):
        x = share if acts[t] < 0 else float(acts[t])
        for s2 in range(S):
            emitted = _emitted(t == g - 1, last, s2, unseen)
            if emitted == 0.0:
                continue
            for s in range(S):
                if t == 0 and first != OPEN and first != s:
                    continue
                total = 0.0
                for q in range(Q):
                    both = r[q] * f[t, s, q] * emitted * b[t + 1, s2, q] / factor[q]
                    passive = (1.0 - x) * P[0, s, s2, q] * both
                    active = x * P[1, s, s2, q] * both
                    Y[0, s, s2, q] += passive
                    Y[1, s, s2, q] += active
                    total += passive + active
                if t < g - 1 or last == OPEN:
                    hidden[s2] += total
    if first == OPEN:
        for s0 in range(S):
            for q in range(Q):
                chance = r[q] * f[0, s0, q] * b[0, s0, q] / factor[q]
                hidden[s0] += chance
                begun[s0, q] += chance
                for s in range(S):
                    for s2 in range(S):
                        Y[0, s, s2, q] += chance * pull[s0, s, s2, q]


@njit(**COMPILE)
def _log_joint(i, data, P, logP, start, unseen, share, f, factor, log_weight, out):
    """log(weight) + log likelihood of person i at each atom, into out [Q]."""
    moves, first, gap_of, gap_first, gap_last, act_of, acts = data
    S, Q = P.shape[1], P.shape[3]
    for q in range(Q):
        out[q] = log_weight[q]
    for a in range(2):
        for s in range(S):
            for s2 in range(S):
                y = moves[i, a, s, s2]
                if y != 0.0:
                    for q in range(Q):
                        out[q] += y * logP[a, s, s2, q]
    if first[i] >= 0:
        for q in range(Q):
            out[q] += log_(start[first[i], q])
    for j in range(gap_of[i], gap_of[i + 1]):
        within = acts[act_of[j] : act_of[j + 1]]
        _forward(gap_first[j], gap_last[j], within, P, start, unseen, share, f, factor)
        for q in range(Q):
            out[q] += log_(factor[q])


@njit(**COMPILE)
def _normalise(out):
    """Turn logs [Q] into weights that sum to 1; give back the log of their sum."""
    top = out[0]
    for q in range(len(out)):
        top = max(top, out[q])
    total = 0.0
    for q in range(len(out)):
        out[q] = exp_(max(out[q] - top, -700.0))
        total += out[q]
    for q in range(len(out)):
        out[q] /= total
    return top + math.log(total)


@njit(**COMPILE)
def person_likelihoods(
    low,
    high,
    data,
    longest,
    atoms,
    log_weight,
    shift,
    settled,
    coin,
    unseen,
    share,
    people,
    logs,
    by_shift,
):
    """Log likelihoods of persons low..high - 1, and the sums that its gradient is made of.

    Fills ``logs`` [n] and ``by_shift`` [n, D], the derivative by the person's shift, and gives back
    derivatives by atoms [D, Q], by log weights [Q], by the start (first the number of people whose
    first state was settled, then coins by state) [1 + S] and the hidden rounds by state [S].
    ``people`` [n] is how many people have this history.
    """
    D, Q = atoms.shape
    S = len(coin)
    R = S - 1
    P, logP = np.empty((2, S, S, Q)), np.empty((2, S, S, Q))
    start, pull = np.empty((S, Q)), np.empty((S, S, S, Q))
    f, b, factor = np.empty((longest + 1, S, Q)), np.empty((longest + 1, S, Q)), np.empty(Q)
    r, Y, begun = np.empty(Q), np.empty((2, S, S, Q)), np.empty((S, Q))
    by_atom, by_weight = np.zeros((D, Q)), np.zeros(Q)
    by_start, hidden, mine = np.zeros(1 + S), np.zeros(S), np.empty(S)
    moves, first, gap_of, gap_first, gap_last, act_of, acts = data
    for i in range(low, high):
        if i == low or (shift[i] != shift[i - 1]).any():
            _fill_rows(atoms, shift[i], P, logP)
            _fill_starts(P, settled, coin, start, pull)
        _log_joint(i, data, P, logP, start, unseen, share, f, factor, log_weight, r)
        logs[i] = _normalise(r)
        Y[:] = 0.0
        begun[:] = 0.0
        mine[:] = 0.0
        for a in range(2):
            for s in range(S):
                for s2 in range(S):
                    y = moves[i, a, s, s2]
                    if y != 0.0:
                        for q in range(Q):
                            Y[a, s, s2, q] += y * r[q]
        if first[i] >= 0:
            s0 = first[i]
            for q in range(Q):
                begun[s0, q] += r[q]
            for s in range(S):
                for s2 in range(S):
                    for q in range(Q):
                        Y[0, s, s2, q] += r[q] * pull[s0, s, s2, q]
        for j in range(gap_of[i], gap_of[i + 1]):
            within = acts[act_of[j] : act_of[j + 1]]
            _forward(gap_first[j], gap_last[j], within, P, start, unseen, share, f, factor)
            _backward(gap_last[j], within, P, unseen, share, b)
            _expect(
                gap_first[j],
                gap_last[j],
                within,
                P,
                unseen,
                share,
                pull,
                f,
                b,
                factor,
                r,
                Y,
                mine,
                begun,
            )
        w = people[i]
        for s in range(S):
            hidden[s] += w * mine[s]
            for q in range(Q):
                if begun[s, q] != 0.0:
                    chance = coin[s] * (1.0 - settled) / start[s, q]
                    by_start[0] += w * begun[s, q] * (1.0 - chance)
                    by_start[1 + s] += w * begun[s, q] * chance
        for q in range(Q):
            by_weight[q] += w * r[q]
        for s in range(S):
            for j in range(R):
                d = s * R + j
                passive_sum, active_sum = 0.0, 0.0
                for q in range(Q):
                    passive = Y[0, s, j + 1, q]
                    active = Y[1, s, j + 1, q]
                    n0, n1 = 0.0, 0.0
                    for s2 in range(S):
                        n0 += Y[0, s, s2, q]
                        n1 += Y[1, s, s2, q]
                    passive -= n0 * P[0, s, j + 1, q]
                    active -= n1 * P[1, s, j + 1, q]
                    by_atom[d, q] += w * (passive + active)
                    by_atom[S * R + d, q] += w * active
                    passive_sum += passive + active
                    active_sum += active
                by_shift[i, d] = passive_sum
                by_shift[i, S * R + d] = active_sum
    return by_atom, by_weight, by_start, hidden


@njit(**COMPILE)
def posterior_sums(
    low,
    high,
    data,
    longest,
    atoms,
    log_weight,
    shift,
    settled,
    coin,
    unseen,
    share,
    uniform,
    mean,
    histogram,
    drawn,
):
    """Add what one draw of the population says of persons low..high - 1.

    ``uniform`` [n] is indexed by person, the arrays that are filled by i - low. With the weights r
    of the atoms: ``mean`` [m, 2, S, S] gets sum r P, ``histogram`` [m, 2, S, H, B] gets r at the
    place of the last H entries of each row, on the scale u / (u + v) with u^2 = P, v^2 = 1 - P, and
    ``drawn`` [m, 2, S, S - 1] one atom's P, taken by the uniform number of the person.
    """
    Q, S = atoms.shape[1], len(coin)
    P, logP = np.empty((2, S, S, Q)), np.empty((2, S, S, Q))
    start, pull = np.empty((S, Q)), np.empty((S, S, S, Q))
    f, factor, r = np.empty((longest + 1, S, Q)), np.empty(Q), np.empty(Q)
    B = histogram.shape[-1]
    H = histogram.shape[3]
    place = np.empty((2, S, H, Q), np.int64)
    for i in range(low, high):
        if i == low or (shift[i] != shift[i - 1]).any():
            _fill_rows(atoms, shift[i], P, logP)
            _fill_starts(P, settled, coin, start, pull)
            for a in range(2):
                for s in range(S):
                    for j in range(H):
                        for q in range(Q):
                            up = math.sqrt(P[a, s, S - H + j, q])
                            down = math.sqrt(1.0 - P[a, s, S - H + j, q])
                            place[a, s, j, q] = min(int(up / (up + down) * B), B - 1)
        _log_joint(i, data, P, logP, start, unseen, share, f, factor, log_weight, r)
        _normalise(r)
        left, chosen = uniform[i], Q - 1
        for q in range(Q):
            left -= r[q]
            if left < 0.0:
                chosen = q
                break
        for a in range(2):
            for s in range(S):
                for s2 in range(S):
                    total = 0.0
                    for q in range(Q):
                        total += r[q] * P[a, s, s2, q]
                    mean[i - low, a, s, s2] += total
                for j in range(S - 1):
                    drawn[i - low, a, s, j] = P[a, s, j + 1, chosen]
                for j in range(H):
                    for q in range(Q):
                        histogram[i - low, a, s, j, place[a, s, j, q]] += r[q]
