"""Exact draws of k of n arms: the k best, the two designs, and rounding of given probabilities.

Every function that draws fills chosen [n] (0 or 1) with exactly k ones. Random numbers are a pure
function of (key, counter), see `elementary`. The joint design is drawn in `joint`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE, log_, mix, uniform
from .joint import draw_joint
from .order import clip_decided, select_smallest
from .rules import RuleCode

__all__ = [
    "draw_rounded",
    "draw_successive",
    "draw_top",
    "key_of",
    "lots",
    "ring_times",
    "rings_by_luck",
    "select",
]


@njit(**COMPILE)
def lots(key, arms):
    """A number in (0, 1) for each of the arms [m], to break ties between them."""
    out = np.empty(len(arms))
    for i in range(len(arms)):
        out[i] = uniform(key, arms[i])
    return out


@njit(**COMPILE)
def key_of(key, shard):
    """The key of the random numbers of one shard."""
    return mix(key, shard)


@njit(**COMPILE)
def draw_top(scores, k, key, scratch, chosen):
    """Choose the k highest scores, ties at random."""
    n = len(scores)
    for i in range(n):
        scratch[n + i] = -scores[i]
    select_smallest(scratch[n:], k, key, scratch[:n], chosen)


@njit(**COMPILE)
def ring_times(log_weights, key, counter, rings):
    """Fill rings with the logarithms of the times at which exponential clocks of rate w ring.

    They are log(-log U) - log w, which neither over- nor underflows for any spread of weights. U of
    arm i is the uniform number of (key, counter + i).
    """
    n = len(log_weights)
    for i in range(n):
        rings[i] = uniform(key, counter + i)
    for i in range(n):
        rings[i] = log_(-log_(rings[i])) - log_weights[i]


@njit(**COMPILE)
def rings_by_luck(log_weights, luck, rings):
    """Fill rings [n] with the logarithm of the time at which each arm's clock of rate w rings.

    luck [n] holds a number in (0, 1) for each arm.
    """
    for i in range(len(log_weights)):
        rings[i] = log_(-log_(luck[i])) - log_weights[i]


@njit(**COMPILE)
def draw_successive(log_weights, k, key, scratch, chosen):
    """Choose one arm after another, with probability proportional to w among the arms left.

    This is done by choosing the arms whose clocks ring first, of independent exponential clocks of
    rate w; the law is the same.
    """
    n = len(log_weights)
    rings = scratch[n:]
    ring_times(log_weights, key, n, rings)
    select_smallest(rings, k, key, scratch[:n], chosen)


@njit(**COMPILE)
def draw_rounded(probabilities, key, scratch, chosen):
    """Choose exactly k arms, arm i with probability probabilities[i]. The probabilities sum to k.

    This is the pivotal method (dependent rounding). In random order, two arms at a time have their
    probabilities changed so that one of the two becomes 0 or 1. Each change keeps the expectation
    of both.
    """
    n = len(probabilities)
    p = scratch[:n]
    for i in range(n):
        p[i] = probabilities[i]
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = int(mix(key, 2 * n + i) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
    holder = order[0]
    for step in range(1, n):
        other = order[step]
        a, b = p[holder], p[other]
        total = a + b
        coin = uniform(key, step)
        if total < 1.0:
            winner = total > 0.0 and coin * total < a
            p[holder], p[other] = (total, 0.0) if winner else (0.0, total)
        else:
            spare = 2.0 - total
            winner = spare <= 0.0 or coin * spare < 1.0 - b
            p[holder], p[other] = (1.0, total - 1.0) if winner else (total - 1.0, 1.0)
        if p[holder] == 0.0 or p[holder] == 1.0:
            holder = other
    # All p are 0 or 1, except perhaps the last holder's, which differs from 0 or 1 by rounding.
    for i in range(n):
        chosen[i] = 1 if p[i] > 0.5 else 0


@njit(**COMPILE)
def select(scores, c, rule, k, key, scratch, chosen):
    """Choose k arms by the rule.

    For the two designs, c times the scores are the log-weights. TOP ranks by the scores. For
    ROUNDED the scores are chances. scratch [3 n] is overwritten.
    """
    n = len(scores)
    if rule == RuleCode.TOP:
        draw_top(scores, k, key, scratch[: 2 * n], chosen)
    elif rule == RuleCode.ROUNDED:
        draw_rounded(scores, key, scratch[:n], chosen)
    else:
        log_weights = scratch[2 * n :]
        for i in range(n):
            log_weights[i] = c * scores[i]
        clip_decided(log_weights, k, scratch[:n])
        if rule == RuleCode.SUCCESSIVE:
            draw_successive(log_weights, k, key, scratch[: 2 * n], chosen)
        else:
            draw_joint(log_weights, k, key, scratch[: 2 * n], chosen)
