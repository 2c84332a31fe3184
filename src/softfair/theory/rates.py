"""Footnote 2: whether the loss by softness falls exponentially in c."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from . import plain
from .claim import NOT_SO, Claim, Search, Sides, Witness
from .loss_bounds import CS, PerStep, eta_sharp, softmax_loss
from .softmax import ONE, gaps_below_best

__all__ = ["CLAIMS"]


def search_rate_uniform(
    tightest: Search,
    worst: PerStep = eta_sharp,
    sizes: Sequence[tuple[int, int]] = ONE,
    cs: Sequence[float] = (0.5, 1.0, 5.0, 20.0),
) -> None:
    """Footnote 2: SoftFair converges to the Bellman operator "with an exponential rate in c".

    For a loss L = A e^(-r c) the rate log(L(c) / L(2 c)) / c is r at every c. But the largest loss
    of one decision over all Q is W((n-1)/e) / c, whose rate is log 2 / c: the rate halves whenever
    c doubles. For each c there is a Q (with all gaps 1/c + L) that has this loss.
    """
    for n, k in sizes:
        for c in cs:
            first, second, third = (worst(n, k, x * c) for x in (1, 2, 4))
            tightest.add(
                math.log(first / second) / c,
                math.log(second / third) / (2 * c),
                1,
                lambda _, n=n, k=k, c=c: dict(n=n, k=k, c=c),
            )


def rate_uniform_sides(w: Witness) -> Sides:
    """The rates of the largest loss from c to 2 c and from 2 c to 4 c, by a search over gaps."""
    n, c = math.comb(w["n"], w["k"]), w["c"]

    def largest(c: float) -> float:
        low, high = 0.0, (2 + math.log(n)) / c  # the loss of equal gaps has one peak in between
        for _ in range(200):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            losses = [plain.softmax_loss([gap] * (n - 1), c) for gap in (left, right)]
            low, high = (left, high) if losses[0] < losses[1] else (low, right)
        return plain.softmax_loss([low] * (n - 1), c)

    first, second, third = (largest(x * c) for x in (1, 2, 4))
    return math.log(first / second) / c, math.log(second / third) / (2 * c)


def search_rate_fixed(
    tightest: Search,
    bound: Callable[[int, float, float], float] = lambda others, gap, c: (
        others * gap * math.exp(-c * gap)
    ),
    count: int = 200,
    seed: int = 0,
) -> None:
    """Footnote 2 for a fixed Q: the loss is at most (number of others) d e^(-c d) once c d >= 1.

    d is the smallest gap. The loss is at most the sum of gap e^(-c gap), and x e^(-c x) falls from
    x = 1/c on. So the rate is exponential in c for each Q, but d can be arbitrarily small. The
    sides are logarithms.
    """
    for others in (1, 2, 4):
        gaps = gaps_below_best(others, 5.0, count, seed)[1:]  # the first is all ties
        d = gaps.min(axis=1)
        for c in CS:
            meets = c * d >= 1
            if not meets.any():
                continue
            most = np.array([bound(others, float(gap), c) for gap in d])
            tightest.add(
                np.log(softmax_loss(gaps, c)),
                np.log(most),
                int(meets.sum()),
                lambda b, g=gaps, c=c: dict(c=c, gaps=g[b]),
                meets,
            )


def rate_fixed_sides(w: Witness) -> Sides:
    """The logarithms of the loss and of the exponential bound."""
    d, c = min(w["gaps"]), w["c"]
    if not c * d >= 1:
        return NOT_SO
    return math.log(plain.softmax_loss(w["gaps"], c)), math.log(len(w["gaps"]) * d) - c * d


RATE_FIXED = Claim(
    "rate-fixed-Q",
    "What softness costs one decision is at most (actions - 1) d e^(-c d) for a Q whose best "
    "action is d above the next: exponential in c.",
    "in the logarithm",
    search_rate_fixed,
    rate_fixed_sides,
    200,
    condition="c d >= 1",
)

CLAIMS = (
    Claim(
        "rate-uniform",
        "What softness costs one decision falls exponentially in c, at one rate for every Q.",
        "a unit of c (the rate at c and at 2 c apart)",
        search_rate_uniform,
        rate_uniform_sides,
        instead=RATE_FIXED,
    ),
    RATE_FIXED,
)
