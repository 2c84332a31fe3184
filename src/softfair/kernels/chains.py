"""The likelihood of people's histories at each of Q atoms, for :mod:`softfair.estimate`.

An atom is a vector of D = 2 S (S - 1) logits: first, for each state s, the log of
P[0, s, s2] / P[0, s, 0] for s2 = 1 ... S - 1; then what a contact adds to each of them. A person's
own atoms are the common ones plus the person's ``shift``.

A history is what is left of it for the likelihood: how often each move was seen in two rounds that
follow each other, the first state, and how often it has each kind of gap. A gap is a run of rounds
without a state; it is bridged by the forward-backward recursion. Every gradient is an expected
number of moves (Fisher's identity), so that one formula serves direct moves, gaps and the first
state.

People who follow each other with the same columns are a block. Whatever depends on atom and shift
alone (matrices, their logs, the law of the first state, the likelihood of a kind of gap) is
computed once a block, and so is the gradient, from sums over the people of the block. Inner loops
run over atoms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from .elementary import COMPILE, exp_, log_

__all__ = ["person_likelihoods", "posterior_sums"]

OPEN = -1  # of a gap: no state was seen before it, or none after it
# Sums may be taken in any order, which the compiler fixes once and for all threads.
SUMS: dict[str, Any] = {**COMPILE, "fastmath": {"contract", "reassoc"}}
MIXED = 2  # the matrix of a round in which it is not known whether there was a contact


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
def _fill_rows(atoms, shift, share, P, logP):
    """The matrices [3, S, S, Q] of the atoms [D, Q] after a shift [D], and logs [2, S, S, Q].

    The third is that of a contact with probability ``share``.
    """
    S, Q = P.shape[1], P.shape[3]
    R = S - 1
    top, total = np.empty(Q), np.empty(Q)
    for a in range(2):
        for s in range(S):
            top[:] = 0.0
            for j in range(R):
                d = s * R + j
                passive, effect, row = atoms[d], atoms[S * R + d], logP[a, s, j + 1]
                by = shift[d] + a * shift[S * R + d]
                for q in range(Q):
                    row[q] = passive[q] + a * effect[q] + by
                    top[q] = max(top[q], row[q])
            lowest, lowest_log = P[a, s, 0], logP[a, s, 0]
            for q in range(Q):
                lowest[q] = exp_(-top[q])
                total[q] = lowest[q]
            for j in range(R):
                row, chance = logP[a, s, j + 1], P[a, s, j + 1]
                for q in range(Q):
                    chance[q] = exp_(row[q] - top[q])
                    total[q] += chance[q]
            for q in range(Q):
                lowest_log[q] = -(top[q] + log_(total[q]))
                total[q] = 1.0 / total[q]
                lowest[q] *= total[q]
            for j in range(R):
                row, chance = logP[a, s, j + 1], P[a, s, j + 1]
                for q in range(Q):
                    row[q] += lowest_log[q]
                    chance[q] *= total[q]
    for s in range(S):
        for s2 in range(S):
            without, by_contact, mixed = P[0, s, s2], P[1, s, s2], P[MIXED, s, s2]
            for q in range(Q):
                mixed[q] = without[q] + share * (by_contact[q] - without[q])


@njit(**COMPILE)
def _fill_starts(P, settled, coin, Z, start, log_start):
    """The law [S, Q] of the first state, its log, and Z [S, S, Q] that says how it varies.

    The first state is settled (the law pi that people reach whom nobody contacts) with probability
    ``settled``, else drawn from ``coin`` [S]. Z is the inverse of I - P + 1 1' without contacts:
    its column sums are pi, and d pi = pi dP Z.
    """
    S, Q = P.shape[1], P.shape[3]
    if S == 2:
        P00, P01, P10, P11 = P[0, 0, 0], P[0, 0, 1], P[0, 1, 0], P[0, 1, 1]
        Z00, Z01, Z10, Z11 = Z[0, 0], Z[0, 1], Z[1, 0], Z[1, 1]
        for q in range(Q):
            one = 1.0 / ((2.0 - P00[q]) * (2.0 - P11[q]) - (1.0 - P01[q]) * (1.0 - P10[q]))
            Z00[q], Z11[q] = (2.0 - P11[q]) * one, (2.0 - P00[q]) * one
            Z01[q], Z10[q] = (P01[q] - 1.0) * one, (P10[q] - 1.0) * one
    else:
        A = np.empty((S, S))
        for q in range(Q):
            for s in range(S):
                for s2 in range(S):
                    A[s, s2] = (1.0 if s == s2 else 0.0) - P[0, s, s2, q] + 1.0
            Z[:, :, q] = _invert(A)
    for s0 in range(S):
        law, log_law = start[s0], log_start[s0]
        law[:] = 0.0
        for s in range(S):
            column = Z[s, s0]
            for q in range(Q):
                law[q] += column[q]
        for q in range(Q):
            law[q] = max(settled * law[q] + (1.0 - settled) * coin[s0], 1e-300)
            log_law[q] = log_(law[q])


@njit(**COMPILE)
def _emitted(at_end, last, s2, unseen):
    """Chance of what was recorded of a round of a gap if its state was s2."""
    if at_end and last != OPEN:
        return 1.0 if s2 == last else 0.0
    return unseen[s2]


@njit(**COMPILE)
def _forward(first, last, acts, P, start, unseen, f, factor):
    """Forward through a gap: f[t, s] over its rounds, and its likelihood in ``factor`` [Q].

    ``first`` and ``last`` are the states seen at its ends, or OPEN. ``acts`` are the actions of all
    rounds from the first end to the round before the last; -1 where it is not known. f is filled
    where the state is possible.
    """
    S, Q = P.shape[1], P.shape[3]
    g = len(acts)
    for s in range(S):
        if first == OPEN:
            for q in range(Q):
                f[0, s, q] = start[s, q] * unseen[s]
        elif s == first:
            f[0, s] = 1.0
    for t in range(g):
        M = P[MIXED] if acts[t] < 0 else P[acts[t]]
        for s2 in range(S):
            emitted = _emitted(t == g - 1, last, s2, unseen)
            after = f[t + 1, s2]
            after[:] = 0.0
            if emitted == 0.0:
                continue
            for s in range(S):
                if t > 0 or first in (OPEN, s):
                    before, move = f[t, s], M[s, s2]
                    for q in range(Q):
                        after[q] += before[q] * move[q] * emitted
    factor[:] = 0.0
    for s in range(S):
        end = f[g, s]
        for q in range(Q):
            factor[q] += end[q]
    for q in range(Q):
        factor[q] = max(factor[q], 1e-300)


@njit(**COMPILE)
def _backward(last, acts, P, unseen, b):
    """Backward through a gap: b[t, s], the chance of all that follows round t in state s."""
    S, Q = P.shape[1], P.shape[3]
    g = len(acts)
    b[g] = 1.0
    for t in range(g - 1, -1, -1):
        M = P[MIXED] if acts[t] < 0 else P[acts[t]]
        for s in range(S):
            here = b[t, s]
            here[:] = 0.0
            for s2 in range(S):
                emitted = _emitted(t == g - 1, last, s2, unseen)
                if emitted == 0.0:
                    continue
                move, after = M[s, s2], b[t + 1, s2]
                for q in range(Q):
                    here[q] += move[q] * emitted * after[q]


@njit(**COMPILE)
def _expect(first, last, acts, P, unseen, share, f, b, r, Y, hidden, begun):
    """Add the expected moves of a bridged gap to Y [2, S, S, Q].

    ``r`` [Q] is how many people have the gap, by atom, over its likelihood. ``hidden`` [S, Q] gets
    the expected rounds without a state by what it was, and ``begun`` [S, Q] the first states of
    histories that begin with the gap.
    """
    S, Q = P.shape[1], P.shape[3]
    g = len(acts)
    for t in range(g):
        for s2 in range(S):
            emitted = _emitted(t == g - 1, last, s2, unseen)
            if emitted == 0.0:
                continue
            for s in range(S):
                if t == 0 and first != OPEN and first != s:
                    continue
                before, after, unknown = f[t, s], b[t + 1, s2], hidden[s2]
                is_hidden = 1.0 if t < g - 1 or last == OPEN else 0.0
                for a in range(2):
                    weight = 1.0 if a == acts[t] else 0.0
                    if acts[t] < 0:
                        weight = share if a == 1 else 1.0 - share
                    if weight == 0.0:
                        continue
                    weight *= emitted
                    move, moves = P[a, s, s2], Y[a, s, s2]
                    for q in range(Q):
                        expected = weight * r[q] * before[q] * move[q] * after[q]
                        moves[q] += expected
                        unknown[q] += is_hidden * expected
    if first == OPEN:
        for s in range(S):
            for q in range(Q):
                chance = r[q] * f[0, s, q] * b[0, s, q]
                hidden[s, q] += chance
                begun[s, q] += chance


@njit(**SUMS)
def _dot(r, row):
    """sum r row."""
    total = 0.0
    for q in range(len(r)):
        total += r[q] * row[q]
    return total


@njit(**SUMS)
def _total(row):
    """sum row."""
    total = 0.0
    for q in range(len(row)):
        total += row[q]
    return total


@njit(**COMPILE)
def _normalise(out):
    """Turn logs [Q] into weights that sum to 1; give back the log of their sum."""
    top = out[0]
    for q in range(len(out)):
        top = max(top, out[q])
    for q in range(len(out)):
        out[q] = exp_(out[q] - top)
    total = _total(out)
    one = 1.0 / total
    for q in range(len(out)):
        out[q] *= one
    return top + math.log(total)


@njit(**COMPILE)
def _add(y, row, out):
    """Add y times a row to another."""
    for q in range(len(out)):
        out[q] += y * row[q]


@njit(**COMPILE)
def _places(low, high, kind_of, kind, kinds):
    """A place for every kind of gap of persons low..high - 1: by kind, and the kind of each."""
    place = np.full(kinds, -1)
    whose = np.empty(min(kinds, kind_of[high] - kind_of[low]), np.int64)
    used = 0
    for e in range(kind_of[low], kind_of[high]):
        if place[kind[e]] < 0:
            place[kind[e]] = used
            whose[used] = kind[e]
            used += 1
    return place, whose[:used]


@njit(**COMPILE)
def _bridge(i, data, place, tables, block, made):
    """Fill the log likelihoods [places, Q] of the gaps of person i where this block has none yet.

    ``made`` [places] is the block for which each was filled last. Gives back nothing.
    """
    _, _, kind_of, kind, _, gap_first, gap_last, act_of, acts = data
    P, start, unseen, f, factor, log_gap = tables
    for e in range(kind_of[i], kind_of[i + 1]):
        k = kind[e]
        at = place[k]
        if made[at] != block:
            made[at] = block
            within = acts[act_of[k] : act_of[k + 1]]
            _forward(gap_first[k], gap_last[k], within, P, start, unseen, f, factor)
            row = log_gap[at]
            for q in range(len(factor)):
                row[q] = log_(factor[q])


@njit(**COMPILE)
def _log_joint(i, data, place, logP, log_start, log_gap, log_weight, out):
    """log(weight) + log likelihood of person i at each atom, into out [Q]."""
    moves, first, kind_of, kind, count = data[:5]
    S = logP.shape[1]
    out[:] = log_weight
    for a in range(2):
        for s in range(S):
            for s2 in range(S):
                if moves[i, a, s, s2] != 0.0:
                    _add(moves[i, a, s, s2], logP[a, s, s2], out)
    if first[i] >= 0:
        _add(1.0, log_start[first[i]], out)
    for e in range(kind_of[i], kind_of[i + 1]):
        _add(count[e], log_gap[place[kind[e]]], out)


@njit(**COMPILE)
def _by_start(settled, coin, P, Z, start, begun, Y, by_start):
    """What people's first states ``begun`` [S, Q] say of moves, and of how people start."""
    S, Q = start.shape
    for s0 in range(S):
        pulled = begun[s0] / start[s0]
        for q in range(Q):
            chance = coin[s0] * (1.0 - settled) * pulled[q]
            by_start[0] += begun[s0, q] - chance
            by_start[1 + s0] += chance
        for s in range(S):
            pi = np.zeros(Q)
            for s2 in range(S):
                _add(1.0, Z[s2, s], pi)
            for s2 in range(S):
                moves, inverse, move = Y[0, s, s2], Z[s2, s0], P[0, s, s2]
                for q in range(Q):
                    moves[q] += pulled[q] * settled * pi[q] * inverse[q] * move[q]


@njit(**COMPILE)
def _by_logits(Y, P, by_atom, by_shift):
    """Add the derivatives by logits that moves Y [2, S, S, Q] give: at each atom, and in all."""
    S, Q = P.shape[1], P.shape[3]
    R = S - 1
    n0, n1 = np.empty(Q), np.empty(Q)
    for s in range(S):
        n0[:] = 0.0
        n1[:] = 0.0
        for s2 in range(S):
            _add(1.0, Y[0, s, s2], n0)
            _add(1.0, Y[1, s, s2], n1)
        for j in range(R):
            d = s * R + j
            passive_sum, active_sum = 0.0, 0.0
            for q in range(Q):
                active = Y[1, s, j + 1, q] - n1[q] * P[1, s, j + 1, q]
                both = Y[0, s, j + 1, q] - n0[q] * P[0, s, j + 1, q] + active
                by_atom[d, q] += both
                by_atom[S * R + d, q] += active
                passive_sum += both
                active_sum += active
            by_shift[d] = passive_sum
            by_shift[S * R + d] = active_sum


@njit(**COMPILE)
def person_likelihoods(
    low,
    high,
    data,
    longest,
    atoms,
    log_weight,
    shift,
    block_of,
    settled,
    coin,
    unseen,
    share,
    people,
    logs,
    by_shift,
):
    """Log likelihoods of persons low..high - 1, and the sums that its gradient is made of.

    ``block_of`` [n] numbers the blocks: the shifts of a block are equal, and move together when
    parameters change. Equal shifts alone do not make a block: where columns do nothing yet, all are
    0, and each responds to its own columns.
    ``people`` [n] is how many people have this history. Fills ``logs`` [n], and ``by_shift``
    [n, D] with the derivative of the log likelihood of a block by its shift, at the first person
    of the block (0 at the others). Gives back derivatives by atoms [D, Q], by log weights [Q], by
    the start (first the number of people whose first state was settled, then coins by state)
    [1 + S] and the hidden rounds by state [S].
    """
    D, Q = atoms.shape
    S = len(coin)
    P, logP, Y = np.empty((3, S, S, Q)), np.empty((2, S, S, Q)), np.empty((2, S, S, Q))
    Z, start, log_start = np.empty((S, S, Q)), np.empty((S, Q)), np.empty((S, Q))
    f, b, factor = np.empty((longest + 1, S, Q)), np.empty((longest + 1, S, Q)), np.empty(Q)
    r, begun = np.empty(Q), np.empty((S, Q))
    by_atom, by_weight = np.zeros((D, Q)), np.zeros(Q)
    by_start, hidden = np.zeros(1 + S), np.zeros((S, Q))
    moves, first, kind_of, kind, count, gap_first, gap_last, act_of, acts = data
    place, whose = _places(low, high, kind_of, kind, len(gap_first))
    log_gap, bridged = np.empty((len(whose), Q)), np.zeros((len(whose), Q))
    made = np.full(len(whose), -1)
    tables = P, start, unseen, f, factor, log_gap
    i = low
    while i < high:
        block = i
        _fill_rows(atoms, shift[i], share, P, logP)
        _fill_starts(P, settled, coin, Z, start, log_start)
        Y[:] = 0.0
        begun[:] = 0.0
        while i < high and block_of[i] == block_of[block]:
            _bridge(i, data, place, tables, block, made)
            _log_joint(i, data, place, logP, log_start, log_gap, log_weight, r)
            logs[i] = _normalise(r)
            w = people[i]
            _add(w, r, by_weight)
            for a in range(2):
                for s in range(S):
                    for s2 in range(S):
                        if moves[i, a, s, s2] != 0.0:
                            _add(w * moves[i, a, s, s2], r, Y[a, s, s2])
            if first[i] >= 0:
                _add(w, r, begun[first[i]])
            for e in range(kind_of[i], kind_of[i + 1]):
                _add(w * count[e], r, bridged[place[kind[e]]])
            by_shift[i] = 0.0
            i += 1
        for j in range(block, i):
            for e in range(kind_of[j], kind_of[j + 1]):
                at, k = place[kind[e]], kind[e]
                if made[at] != block:
                    continue
                made[at] = -1  # once a block
                within = acts[act_of[k] : act_of[k + 1]]
                _forward(gap_first[k], gap_last[k], within, P, start, unseen, f, factor)
                _backward(gap_last[k], within, P, unseen, b)
                for q in range(Q):
                    factor[q] = bridged[at, q] / factor[q]
                ends = gap_first[k], gap_last[k]
                _expect(*ends, within, P, unseen, share, f, b, factor, Y, hidden, begun)
                bridged[at] = 0.0
        _by_start(settled, coin, P, Z, start, begun, Y, by_start)
        _by_logits(Y, P, by_atom, by_shift[block])
    return by_atom, by_weight, by_start, hidden.sum(axis=1)


@njit(**COMPILE)
def _fill_bins(P, B, bins):
    """The bin [2, S, H, Q] of the last H entries of each row, of B on the scale u / (u + v)."""
    S, H = P.shape[1], bins.shape[2]
    for a in range(2):
        for s in range(S):
            for j in range(H):
                chance, row = P[a, s, S - H + j], bins[a, s, j]
                for q in range(len(chance)):
                    up, down = math.sqrt(chance[q]), math.sqrt(1.0 - chance[q])
                    row[q] = np.int32(min(up / (up + down) * B, B - 1.0))


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

    ``uniform`` [n] is indexed by person; ``shift`` [m, D] and the arrays that are filled by
    i - low. With the weights r of the atoms: ``mean`` [m, 2, S, S] gets sum r P, ``histogram``
    [m, 2, S, H, B] gets r at the place of the last H entries of each row, on the scale u / (u + v)
    with u^2 = P, v^2 = 1 - P, and ``drawn`` [m, 2, S, S - 1] one atom's P, taken by the uniform
    number of the person.
    """
    Q, S = atoms.shape[1], len(coin)
    P, logP = np.empty((3, S, S, Q)), np.empty((2, S, S, Q))
    Z, start, log_start = np.empty((S, S, Q)), np.empty((S, Q)), np.empty((S, Q))
    f, factor, r = np.empty((longest + 1, S, Q)), np.empty(Q), np.empty(Q)
    B, H = histogram.shape[-1], histogram.shape[3]
    bins = np.empty((2, S, H, Q), np.int32)
    place, whose = _places(low, high, data[2], data[3], len(data[5]))
    log_gap, made = np.empty((len(whose), Q)), np.full(len(whose), -1)
    tables = P, start, unseen, f, factor, log_gap
    block = low
    for i in range(low, high):
        if i == low or (shift[i - low] != shift[block - low]).any():
            block = i
            _fill_rows(atoms, shift[i - low], share, P, logP)
            _fill_starts(P, settled, coin, Z, start, log_start)
            _fill_bins(P, B, bins)
        _bridge(i, data, place, tables, block, made)
        _log_joint(i, data, place, logP, log_start, log_gap, log_weight, r)
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
                    mean[i - low, a, s, s2] += _dot(r, P[a, s, s2])
                for j in range(S - 1):
                    drawn[i - low, a, s, j] = P[a, s, j + 1, chosen]
                for j in range(H):
                    bin_of, weights = bins[a, s, j], histogram[i - low, a, s, j]
                    for q in range(Q):
                        weights[bin_of[q]] += r[q]
