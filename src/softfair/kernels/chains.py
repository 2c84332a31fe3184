"""The likelihood of people's histories at each of Q atoms, for :mod:`softfair.estimate`.

Chances go by a context c, which is the state c % S and perhaps something about the round before it;
without memory it is the state. From context c under action a a person moves to state s2, and so to
the context ``after[a, c, s2]``. An atom is a vector of D = 2 C (S - 1) logits: first, for each
context c, the log of P[0, c, s2] / P[0, c, 0] for s2 = 1 ... S - 1; then what a contact adds to
each of them. A person's own atoms are the common ones plus the person's ``shift``.

The likelihood of a history depends on three things: how often each move was seen in two rounds that
follow each other, the first context, and how often each kind of gap occurs. A gap is a run of
rounds whose contexts are not known, though a state may be; it is bridged by the forward-backward
recursion. Every gradient is an expected number of moves (Fisher's identity), so that one formula
serves direct moves, gaps and the first context.

People who follow each other with the same columns are a block. Whatever depends on atom and shift
alone (matrices, their logs, the law of the first context, the likelihood of a kind of gap) is
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

OPEN = -1  # of a gap: the context before it is not known
# The compiler may choose the order of a sum; it is then the same on all threads.
SUMS: dict[str, Any] = {**COMPILE, "fastmath": {"contract", "reassoc"}}
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
def _fill_rows(atoms, shift, share, P, logP):
    """The matrices [3, C, S, Q] of the atoms [D, Q] after a shift [D], and logs [2, C, S, Q].

    The third is that of a contact with probability ``share``.
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
def _fill_starts(P, after, settled, coin, Z, start, log_start):
    """The law [C, Q] of the first context, its log, and Z [C, C, Q] that says how it varies.

    The first context is settled (the law pi that people reach whom nobody contacts) with
    probability ``settled``, else drawn from ``coin`` [C]. Z is the inverse of I - P + 1 1' without
    contacts: its column sums are pi, and d pi = pi dP Z.
    """
    _, C, S, Q = P.shape
    if C == 2:
        P00, P01, P10, P11 = P[0, 0, 0], P[0, 0, 1], P[0, 1, 0], P[0, 1, 1]
        Z00, Z01, Z10, Z11 = Z[0, 0], Z[0, 1], Z[1, 0], Z[1, 1]
        for q in range(Q):
            one = 1.0 / ((2.0 - P00[q]) * (2.0 - P11[q]) - (1.0 - P01[q]) * (1.0 - P10[q]))
            Z00[q], Z11[q] = (2.0 - P11[q]) * one, (2.0 - P00[q]) * one
            Z01[q], Z10[q] = (P01[q] - 1.0) * one, (P10[q] - 1.0) * one
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
def _emitted(saw, s2, unseen):
    """Chance of what was recorded of a round if its state was s2; ``saw`` below 0: no state."""
    if saw >= 0:
        return 1.0 if s2 == saw else 0.0
    return unseen[s2]


@njit(**COMPILE)
def _steps(act, after):
    """The matrices low..high - 1 that a round has: one, or two if nobody knows which and where."""
    if act >= 0:
        return act, act + 1
    for c in range(after.shape[1]):
        if after[0, c, 0] != after[1, c, 0]:
            return 0, MIXED
    return MIXED, MIXED + 1


@njit(**COMPILE)
def _weight(act, a, share):
    """Chance of matrix a in a round with this action, where it is one of its steps."""
    if act >= 0 or a == MIXED:
        return 1.0
    return share if a == 1 else 1.0 - share


@njit(**COMPILE)
def _forward(first, acts, sees, P, after, share, start, unseen, f, factor):
    """Forward through a gap: f[t, c] over its rounds, and its likelihood in ``factor`` [Q].

    ``first`` is the context before it, or OPEN. ``sees`` are the states seen in its rounds, both
    ends included, and ``acts`` the actions of all but the last; -1 where it is not known. f is
    filled where the context is possible.
    """
    _, C, S, Q = P.shape
    g = len(acts)
    for c in range(C):
        if first == OPEN:
            emitted = _emitted(sees[0], c % S, unseen)
            for q in range(Q):
                f[0, c, q] = start[c, q] * emitted
        elif c == first:
            f[0, c] = 1.0
    for t in range(g):
        f[t + 1] = 0.0
        low, high = _steps(acts[t], after)
        for a in range(low, high):
            for s2 in range(S):
                emitted = _emitted(sees[t + 1], s2, unseen) * _weight(acts[t], a, share)
                if emitted == 0.0:
                    continue
                for c in range(C):
                    if t > 0 or first in (OPEN, c):
                        before, move = f[t, c], P[a, c, s2]
                        then = f[t + 1, after[min(a, 1), c, s2]]
                        for q in range(Q):
                            then[q] += before[q] * move[q] * emitted
    factor[:] = 0.0
    for c in range(C):
        end = f[g, c]
        for q in range(Q):
            factor[q] += end[q]
    for q in range(Q):
        factor[q] = max(factor[q], 1e-300)


@njit(**COMPILE)
def _backward(acts, sees, P, after, share, unseen, b):
    """Backward through a gap: b[t, c], the chance of all that follows round t in context c."""
    _, C, S, Q = P.shape
    g = len(acts)
    b[g] = 1.0
    for t in range(g - 1, -1, -1):
        b[t] = 0.0
        low, high = _steps(acts[t], after)
        for c in range(C):
            here = b[t, c]
            for a in range(low, high):
                for s2 in range(S):
                    emitted = _emitted(sees[t + 1], s2, unseen) * _weight(acts[t], a, share)
                    if emitted == 0.0:
                        continue
                    move, then = P[a, c, s2], b[t + 1, after[min(a, 1), c, s2]]
                    for q in range(Q):
                        here[q] += move[q] * emitted * then[q]


@njit(**COMPILE)
def _expect(first, acts, sees, P, after, unseen, share, f, b, r, Y, hidden, begun):
    """Add the expected moves of a bridged gap to Y [2, C, S, Q].

    ``r`` [Q] is how many people have the gap, by atom, over its likelihood. ``hidden`` [S, Q] gets
    the expected rounds without a state by what it was, and ``begun`` [C, Q] the first contexts of
    histories that begin with the gap.
    """
    _, C, S, Q = P.shape
    g = len(acts)
    for t in range(g):
        for s2 in range(S):
            emitted = _emitted(sees[t + 1], s2, unseen)
            if emitted == 0.0:
                continue
            is_hidden = 1.0 if sees[t + 1] < 0 else 0.0
            for c in range(C):
                if t == 0 and first != OPEN and first != c:
                    continue
                before, unknown = f[t, c], hidden[s2]
                for a in range(2):
                    weight = 1.0 if a == acts[t] else 0.0
                    if acts[t] < 0:
                        weight = share if a == 1 else 1.0 - share
                    if weight == 0.0:
                        continue
                    weight *= emitted
                    move, moves, then = P[a, c, s2], Y[a, c, s2], b[t + 1, after[a, c, s2]]
                    for q in range(Q):
                        expected = weight * r[q] * before[q] * move[q] * then[q]
                        moves[q] += expected
                        unknown[q] += is_hidden * expected
    if first == OPEN:
        is_hidden = 1.0 if sees[0] < 0 else 0.0
        for c in range(C):
            for q in range(Q):
                chance = r[q] * f[0, c, q] * b[0, c, q]
                hidden[c % S, q] += is_hidden * chance
                begun[c, q] += chance


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
    _, _, kind_of, kind, _, gap_first, act_of, acts, sees, after = data
    P, start, unseen, share, f, factor, log_gap = tables
    for e in range(kind_of[i], kind_of[i + 1]):
        k = kind[e]
        at = place[k]
        if made[at] != block:
            made[at] = block
            within = acts[act_of[k] : act_of[k + 1]]
            saw = sees[act_of[k] + k : act_of[k + 1] + k + 1]
            _forward(gap_first[k], within, saw, P, after, share, start, unseen, f, factor)
            row = log_gap[at]
            for q in range(len(factor)):
                row[q] = log_(factor[q])


@njit(**COMPILE)
def _log_joint(i, data, place, logP, log_start, log_gap, log_weight, out):
    """log(weight) + log likelihood of person i at each atom, into out [Q]."""
    moves, first, kind_of, kind, count = data[:5]
    _, C, S, _ = logP.shape
    out[:] = log_weight
    for a in range(2):
        for c in range(C):
            for s2 in range(S):
                if moves[i, a, c, s2] != 0.0:
                    _add(moves[i, a, c, s2], logP[a, c, s2], out)
    if first[i] >= 0:
        _add(1.0, log_start[first[i]], out)
    for e in range(kind_of[i], kind_of[i + 1]):
        _add(count[e], log_gap[place[kind[e]]], out)


@njit(**COMPILE)
def _by_start(settled, coin, P, after, Z, start, begun, Y, by_start):
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
                _add(1.0, Z[c2, c], pi)
            for s2 in range(S):
                moves, inverse, move = Y[0, c, s2], Z[after[0, c, s2], c0], P[0, c, s2]
                for q in range(Q):
                    moves[q] += pulled[q] * settled * pi[q] * inverse[q] * move[q]


@njit(**COMPILE)
def _by_logits(Y, P, by_atom, by_shift):
    """Add the derivatives by logits that moves Y [2, C, S, Q] give: at each atom, and in all."""
    _, C, S, Q = P.shape
    R = S - 1
    n0, n1 = np.empty(Q), np.empty(Q)
    for c in range(C):
        n0[:] = 0.0
        n1[:] = 0.0
        for s2 in range(S):
            _add(1.0, Y[0, c, s2], n0)
            _add(1.0, Y[1, c, s2], n1)
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
    the start (first the number of people whose first context was settled, then coins by context)
    [1 + C] and the hidden rounds by state [S].
    """
    D, Q = atoms.shape
    C, S = len(coin), len(unseen)
    P, logP, Y = np.empty((3, C, S, Q)), np.empty((2, C, S, Q)), np.empty((2, C, S, Q))
    Z, start, log_start = np.empty((C, C, Q)), np.empty((C, Q)), np.empty((C, Q))
    f, b, factor = np.empty((longest + 1, C, Q)), np.empty((longest + 1, C, Q)), np.empty(Q)
    r, begun = np.empty(Q), np.empty((C, Q))
    by_atom, by_weight = np.zeros((D, Q)), np.zeros(Q)
    by_start, hidden = np.zeros(1 + C), np.zeros((S, Q))
    moves, first, kind_of, kind, count, gap_first, act_of, acts, sees, after = data
    place, whose = _places(low, high, kind_of, kind, len(gap_first))
    log_gap, bridged = np.empty((len(whose), Q)), np.zeros((len(whose), Q))
    made = np.full(len(whose), -1)
    tables = P, start, unseen, share, f, factor, log_gap
    i = low
    while i < high:
        block = i
        _fill_rows(atoms, shift[i], share, P, logP)
        _fill_starts(P, after, settled, coin, Z, start, log_start)
        Y[:] = 0.0
        begun[:] = 0.0
        while i < high and block_of[i] == block_of[block]:
            _bridge(i, data, place, tables, block, made)
            _log_joint(i, data, place, logP, log_start, log_gap, log_weight, r)
            logs[i] = _normalise(r)
            w = people[i]
            _add(w, r, by_weight)
            for a in range(2):
                for c in range(C):
                    for s2 in range(S):
                        if moves[i, a, c, s2] != 0.0:
                            _add(w * moves[i, a, c, s2], r, Y[a, c, s2])
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
                saw = sees[act_of[k] + k : act_of[k + 1] + k + 1]
                _forward(gap_first[k], within, saw, P, after, share, start, unseen, f, factor)
                _backward(within, saw, P, after, share, unseen, b)
                for q in range(Q):
                    factor[q] = bridged[at, q] / factor[q]
                tables_of = P, after, unseen, share, f, b, factor
                _expect(gap_first[k], within, saw, *tables_of, Y, hidden, begun)
                bridged[at] = 0.0
        _by_start(settled, coin, P, after, Z, start, begun, Y, by_start)
        _by_logits(Y, P, by_atom, by_shift[block])
    return by_atom, by_weight, by_start, hidden.sum(axis=1)


@njit(**COMPILE)
def _fill_bins(P, B, bins):
    """The bin [2, C, H, Q] of the last H entries of each row, of B on the scale u / (u + v)."""
    _, C, S, _ = P.shape
    H = bins.shape[2]
    for a in range(2):
        for c in range(C):
            for j in range(H):
                chance, row = P[a, c, S - H + j], bins[a, c, j]
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
    i - low. With the weights r of the atoms: ``mean`` [m, 2, C, S] gets sum r P, ``histogram``
    [m, 2, C, H, B] gets r at the place of the last H entries of each row, on the scale u / (u + v)
    with u^2 = P, v^2 = 1 - P, and ``drawn`` [m, 2, C, S - 1] one atom's P, taken by the uniform
    number of the person.
    """
    Q, C, S = atoms.shape[1], len(coin), len(unseen)
    P, logP = np.empty((3, C, S, Q)), np.empty((2, C, S, Q))
    Z, start, log_start = np.empty((C, C, Q)), np.empty((C, Q)), np.empty((C, Q))
    f, factor, r = np.empty((longest + 1, C, Q)), np.empty(Q), np.empty(Q)
    B, H = histogram.shape[-1], histogram.shape[3]
    bins = np.empty((2, C, H, Q), np.int32)
    place, whose = _places(low, high, data[2], data[3], len(data[5]))
    log_gap, made = np.empty((len(whose), Q)), np.full(len(whose), -1)
    tables = P, start, unseen, share, f, factor, log_gap
    block = low
    for i in range(low, high):
        if i == low or (shift[i - low] != shift[block - low]).any():
            block = i
            _fill_rows(atoms, shift[i - low], share, P, logP)
            _fill_starts(P, data[9], settled, coin, Z, start, log_start)
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
            for c in range(C):
                for s2 in range(S):
                    mean[i - low, a, c, s2] += _dot(r, P[a, c, s2])
                for j in range(S - 1):
                    drawn[i - low, a, c, j] = P[a, c, j + 1, chosen]
                for j in range(H):
                    bin_of, weights = bins[a, c, j], histogram[i - low, a, c, j]
                    for q in range(Q):
                        weights[bin_of[q]] += r[q]
