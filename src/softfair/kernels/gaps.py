"""Gaps in a history: runs of rounds whose contexts are not known, though a state may be.

A gap is bridged by the forward-backward recursion. Arrays are laid out as in `chains`.
"""

from __future__ import annotations

from numba import njit

from .elementary import COMPILE
from .logits import MIXED

__all__ = ["OPEN", "backward", "expect", "forward"]

OPEN = -1  # of a gap: the context before it is not known


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
def forward(first, acts, sees, P, after, share, start, unseen, f, factor):
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
def backward(acts, sees, P, after, share, unseen, b):
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
def expect(first, acts, sees, P, after, unseen, share, f, b, r, Y, hidden, begun):
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
