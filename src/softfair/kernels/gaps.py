"""Gaps in a history: runs of rounds whose contexts are not known, though states in them may be.

The forward-backward recursion bridges a gap. Arrays are laid out as in `chains`.
"""

from __future__ import annotations

from numba import njit

from .elementary import COMPILE
from .logits import MIXED

__all__ = ["OPEN", "backward", "expect", "forward"]

OPEN = -1  # in place of the context before a gap, if that is not known


@njit(**COMPILE)
def _emitted(recorded, s2, unseen):
    """Chance of the record of a round if its state was s2; below 0 no state was recorded."""
    if recorded >= 0:
        return 1.0 if s2 == recorded else 0.0
    return unseen[s2]


@njit(**COMPILE)
def _steps(act, after):
    """The matrices low..high - 1 that a round may have moved by.

    If the action is known, it has one matrix. If not, the round has the mixed matrix, or both
    matrices if the context after the round depends on the action.
    """
    if act >= 0:
        return act, act + 1
    for c in range(after.shape[1]):
        if after[0, c, 0] != after[1, c, 0]:
            return 0, MIXED
    return MIXED, MIXED + 1


@njit(**COMPILE)
def _weight(act, a, share):
    """Chance of matrix a in a round with this action, for a matrix from `_steps`."""
    if act >= 0 or a == MIXED:
        return 1.0
    return share if a == 1 else 1.0 - share


@njit(**COMPILE)
def forward(first, acts, sees, P, after, share, start, unseen, f, factor):
    """Forward through a gap: fill f[t, c] over its rounds, and ``factor`` [Q] with its likelihood.

    ``first`` is the context before the gap, or OPEN. ``sees`` are the states of its rounds, both
    ends included, and ``acts`` the actions of all rounds but the last; -1 if not known. f is filled
    only for possible contexts.
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
def backward(acts, sees, P, after, share, unseen, b):
    """Backward through a gap: b[t, c], the chance of the records after round t from context c."""
    _, C, S, Q = P.shape
    g = len(acts)
    b[g] = 1.0
    for t in range(g - 1, -1, -1):
        b[t] = 0.0
        low, high = _steps(acts[t], after)
        for c in range(C):
            chance = b[t, c]
            for a in range(low, high):
                for s2 in range(S):
                    emitted = _emitted(sees[t + 1], s2, unseen) * _weight(acts[t], a, share)
                    if emitted == 0.0:
                        continue
                    move, then = P[a, c, s2], b[t + 1, after[min(a, 1), c, s2]]
                    for q in range(Q):
                        chance[q] += move[q] * emitted * then[q]


@njit(**COMPILE)
def expect(first, acts, sees, P, after, unseen, share, f, b, r, Y, hidden, begun):
    """Add the expected moves of a bridged gap to Y [2, C, S, Q].

    ``r`` [Q] is the number of people who have the gap, by atom, over its likelihood. ``hidden``
    [S, Q] gets the expected number of rounds without a recorded state, by state, and ``begun``
    [C, Q] the expected first contexts of histories that begin with the gap.
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
