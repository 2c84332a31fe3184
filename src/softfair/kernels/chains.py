"""The likelihood of people's histories at each of Q atoms, for :mod:`softfair.estimate`.

Transition probabilities depend on a context c. The context is the state c % S and, in a model with
memory, something about the round before; without memory it is the state. From context c under
action a, a person moves to state s2, and so to the context ``after[a, c, s2]``. An atom is a vector
of D = 2 C (S - 1) logits: first, for each context c, the log of P[0, c, s2] / P[0, c, 0] for
s2 = 1 ... S - 1; then what a contact adds to each of them. The atoms of a person are the common
atoms plus the person's ``shift``.

The likelihood of a history depends on three things: the number of times that each move was seen in
two successive rounds, the first context, and the number of gaps of each kind. A gap is a run of
rounds whose contexts are not known, though states within it may be; the forward-backward recursion
bridges it. Every gradient is an expected number of moves (Fisher's identity), so that one formula
serves direct moves, gaps and the first context.

People with the same columns who stand next to each other in the arrays form a block. What depends
on atom and shift alone (matrices, their logs, the law of the first context, the likelihood of a
kind of gap) is computed once for each block. So is the gradient, from sums over the people of the
block. Inner loops run over atoms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from .elementary import COMPILE, exp_, log_
from .gaps import backward, expect, forward
from .logits import add, add_by_logits, add_by_start, fill_rows, fill_starts

__all__ = ["SUMS", "bridge", "log_joint", "normalise", "person_likelihoods", "places_of_gaps"]

# The compiler may choose the order of a sum; it is then the same on all threads.
SUMS: dict[str, Any] = {**COMPILE, "fastmath": {"contract", "reassoc"}}


@njit(**SUMS)
def _total(row):
    """sum row."""
    total = 0.0
    for q in range(len(row)):
        total += row[q]
    return total


@njit(**COMPILE)
def normalise(out):
    """Turn logs [Q] into weights that sum to 1; return the log of the sum before."""
    top = out[0]
    for q in range(len(out)):
        top = max(top, out[q])
    for q in range(len(out)):
        out[q] = exp_(out[q] - top)
    total = _total(out)
    inverse = 1.0 / total
    for q in range(len(out)):
        out[q] *= inverse
    return top + math.log(total)


@njit(**COMPILE)
def places_of_gaps(low, high, kind_of, kind, kinds):
    """Places 0, 1, ... of the kinds of gaps of persons low..high - 1.

    Returns the place of each kind (-1 if these persons have no such gap), and the kind of each
    place.
    """
    place = np.full(kinds, -1)
    kind_at = np.empty(min(kinds, kind_of[high] - kind_of[low]), np.int64)
    used = 0
    for e in range(kind_of[low], kind_of[high]):
        if place[kind[e]] < 0:
            place[kind[e]] = used
            kind_at[used] = kind[e]
            used += 1
    return place, kind_at[:used]


@njit(**COMPILE)
def bridge(i, data, place, tables, block, filled_for):
    """Fill the log likelihoods [places, Q] of those gaps of person i that this block has not yet.

    ``filled_for`` [places] is the block for which each row was filled last.
    """
    _, _, kind_of, kind, _, gap_first, act_of, acts, sees, after = data
    P, start, unseen, share, f, factor, log_gap = tables
    for e in range(kind_of[i], kind_of[i + 1]):
        k = kind[e]
        at = place[k]
        if filled_for[at] != block:
            filled_for[at] = block
            gap_acts = acts[act_of[k] : act_of[k + 1]]
            gap_states = sees[act_of[k] + k : act_of[k + 1] + k + 1]
            forward(gap_first[k], gap_acts, gap_states, P, after, share, start, unseen, f, factor)
            row = log_gap[at]
            for q in range(len(factor)):
                row[q] = log_(factor[q])


@njit(**COMPILE)
def log_joint(i, data, place, logP, log_start, log_gap, log_weight, out):
    """log(weight) + log likelihood of person i at each atom, into out [Q]."""
    moves, first, kind_of, kind, count = data[:5]
    _, C, S, _ = logP.shape
    out[:] = log_weight
    for a in range(2):
        for c in range(C):
            for s2 in range(S):
                if moves[i, a, c, s2] != 0.0:
                    add(moves[i, a, c, s2], logP[a, c, s2], out)
    if first[i] >= 0:
        add(1.0, log_start[first[i]], out)
    for e in range(kind_of[i], kind_of[i + 1]):
        add(count[e], log_gap[place[kind[e]]], out)


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
    """Log likelihoods of persons low..high - 1, and the sums from which gradients follow.

    ``block_of`` [n] numbers the blocks. The shifts in a block are equal, and stay equal when
    parameters change. Equal shifts alone do not make a block: if columns have no effect yet, all
    shifts are 0, but each responds to the columns of its person.
    ``people`` [n] is the number of people with this history. The kernel fills ``logs`` [n], and
    ``by_shift`` [n, D] with the derivative of the log likelihood of a block by its shift, at the
    first person of the block (0 at the others). It returns the derivatives by atoms [D, Q] and by
    log weights [Q]; for the start [1 + C], the expected number of people whose first context was
    settled, then of first contexts drawn from ``coin``; and the expected hidden rounds by state
    [S].
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
    place, kind_at = places_of_gaps(low, high, kind_of, kind, len(gap_first))
    log_gap, bridged = np.empty((len(kind_at), Q)), np.zeros((len(kind_at), Q))
    filled_for = np.full(len(kind_at), -1)
    tables = P, start, unseen, share, f, factor, log_gap
    i = low
    while i < high:
        block = i
        fill_rows(atoms, shift[i], share, P, logP)
        fill_starts(P, after, settled, coin, Z, start, log_start)
        Y[:] = 0.0
        begun[:] = 0.0
        while i < high and block_of[i] == block_of[block]:
            bridge(i, data, place, tables, block, filled_for)
            log_joint(i, data, place, logP, log_start, log_gap, log_weight, r)
            logs[i] = normalise(r)
            w = people[i]
            add(w, r, by_weight)
            for a in range(2):
                for c in range(C):
                    for s2 in range(S):
                        if moves[i, a, c, s2] != 0.0:
                            add(w * moves[i, a, c, s2], r, Y[a, c, s2])
            if first[i] >= 0:
                add(w, r, begun[first[i]])
            for e in range(kind_of[i], kind_of[i + 1]):
                add(w * count[e], r, bridged[place[kind[e]]])
            by_shift[i] = 0.0
            i += 1
        for j in range(block, i):
            for e in range(kind_of[j], kind_of[j + 1]):
                at, k = place[kind[e]], kind[e]
                if filled_for[at] != block:
                    continue
                filled_for[at] = -1  # so that the gap is taken once for each block
                gap_acts = acts[act_of[k] : act_of[k + 1]]
                gap_states = sees[act_of[k] + k : act_of[k + 1] + k + 1]
                forward(
                    gap_first[k], gap_acts, gap_states, P, after, share, start, unseen, f, factor
                )
                backward(gap_acts, gap_states, P, after, share, unseen, b)
                for q in range(Q):
                    factor[q] = bridged[at, q] / factor[q]
                tables_of = P, after, unseen, share, f, b, factor
                expect(gap_first[k], gap_acts, gap_states, *tables_of, Y, hidden, begun)
                bridged[at] = 0.0
        add_by_start(settled, coin, P, after, Z, start, begun, Y, by_start)
        add_by_logits(Y, P, by_atom, by_shift[block])
    return by_atom, by_weight, by_start, hidden.sum(axis=1)
