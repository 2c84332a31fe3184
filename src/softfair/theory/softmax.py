"""Lemma 2: the loss by softness at one decision; and steps of the appendix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ..cohort import Floats
from . import plain
from .bounded import LEMMA_2_GAPS
from .claim import NOT_SO, Claim, Search, Sides, Witness
from .loss_bounds import (
    CS,
    LARGE_C,
    Bound,
    PerStep,
    eta_entropy,
    eta_lambert,
    eta_paper,
    eta_sharp,
    softmax_loss,
)

__all__ = ["CLAIMS"]


def gaps_below_best(others: int, largest: float, count: int, seed: int) -> Floats:
    """Gaps [B, others] up to ``largest``: equal gaps from a grid, then random gaps."""
    rng = np.random.default_rng([seed, others])
    equal = np.repeat(np.linspace(0, largest, 200)[:, None], others, axis=1)
    return np.concatenate([equal, largest * rng.random((count, others)) * rng.random((count, 1))])


ONE, SOME = ((2, 1), (3, 1), (5, 1), (20, 1)), ((3, 2), (4, 2), (5, 2), (5, 3), (6, 3))


def search_softmax(
    tightest: Search,
    form: Bound,
    eta: PerStep | None = None,
    largest_gap: float | None = None,
    count: int = 200,
    seed: int = 0,
) -> None:
    """Lemma 2: max Q - softmax Q <= (n - 1) / (2 + c), for every Q (k = 1).

    The lemma fails for small c and gaps above 1: at c = .1 and a gap of 5 the loss is 1.89, and the
    bound is .476. The proof assumes gaps of at most 1 (:func:`search_gap`). These forms hold:
    ``small-gaps`` (delta / (1 + exp(c delta)) <= delta / (2 + c delta), which rises to 1 / (2 + c)
    at delta = 1); ``large-c`` (from c = .772 on, W(1/e) / c <= 1 / (2 + c)); and ``corrected``,
    ``joint`` and ``sharp`` for every Q and c: see :func:`eta_lambert`, :func:`eta_entropy` and
    :func:`eta_sharp`, which is the smallest possible bound.
    """
    largest = largest_gap or (1.0 if form.small else 30.0)
    for n, k in form.sizes:
        gaps = gaps_below_best(math.comb(n, k) - 1, largest, count, seed)
        for c in form.cs(n, k):
            tightest.add(
                softmax_loss(gaps, c),
                (eta or form.eta)(n, k, c),
                len(gaps),
                lambda b, g=gaps, n=n, k=k, c=c: dict(n=n, k=k, c=c, gaps=g[b]),
            )


def softmax_sides(w: Witness, eta: PerStep) -> Sides:
    """The loss of these gaps, and the bound."""
    if len(w["gaps"]) != math.comb(w["n"], w["k"]) - 1:
        return NOT_SO
    return plain.softmax_loss(w["gaps"], w["c"]), eta(w["n"], w["k"], w["c"])


def search_lower(
    tightest: Search,
    own_gap: bool,
    n: int = 2,
    gamma: float = 0.9,
    count: int = 200,
    seed: int = 0,
) -> None:
    """The lower bound in Lemma 2: delta / (n exp(c delta)) <= max Q - softmax Q.

    It holds if delta is the largest gap of the same Q. In the paper delta(s) is the supremum over
    all Q, which is n / (1 - gamma). Then it fails: if Q is the same for all actions, the loss is 0,
    but the bound is positive.
    """
    gaps = gaps_below_best(n - 1, n / (1 - gamma), count, seed)
    delta = gaps.max(axis=1) if own_gap else np.full(len(gaps), n / (1 - gamma))
    for c in CS:
        tightest.add(
            delta / (n * np.exp(c * delta)),
            softmax_loss(gaps, c),
            len(gaps),
            lambda b, c=c: dict(c=c, n=n, gamma=gamma, gaps=gaps[b], delta=delta[b]),
        )


def lower_sides(w: Witness, own_gap: bool) -> Sides:
    """The lower bound, and the loss."""
    n, c, delta = w["n"], w["c"], w["delta"]
    stated = max(w["gaps"]) if own_gap else n / (1 - w["gamma"])
    if len(w["gaps"]) != n - 1 or not plain.close(delta, stated):
        return NOT_SO
    return delta / (n * math.exp(c * delta)), plain.softmax_loss(w["gaps"], c)


def search_fraction(tightest: Search, count: int = 200, seed: int = 0, least: float = 0.0) -> None:
    """A fact in the appendix: sum x / (1 + sum y) <= sum x_i / (1 + y_i) for x, y >= 0. It holds.

    Each x_i / (1 + sum y) is at most x_i / (1 + y_i).
    """
    rng = np.random.default_rng([seed, 11])
    for size in (1, 2, 5):
        x, y = (least + rng.exponential(size=(count, size)) for _ in range(2))
        tightest.add(
            x.sum(axis=1) / (1 + y.sum(axis=1)),
            (x / (1 + y)).sum(axis=1),
            count,
            lambda b, x=x, y=y: dict(xs=x[b], ys=y[b]),
        )


def fraction_sides(w: Witness) -> Sides:
    """Both sides of the fact."""
    if min(*w["xs"], *w["ys"], 0) < 0:
        return NOT_SO
    return sum(w["xs"]) / (1 + sum(w["ys"])), sum(
        x / (1 + y) for x, y in zip(w["xs"], w["ys"], strict=True)
    )


def search_weights(
    tightest: Search,
    corrected: bool,
    cs: Sequence[float] = (0.5, 2.0),
    count: int = 50,
    seed: int = 0,
) -> None:
    """A step in the appendix: K exp(c lambda_i) = exp(Q(s, a_i)), K = exp(sum_j Q_j(s_j, 0)).

    A factor c is missing: exp(c Q(s, a_i)) = K^c exp(c lambda_i) (``corrected``). The printed
    equation holds only at c = 1. The later steps use the correct one. The sides are logarithms.
    """
    rng = np.random.default_rng([seed, 12])
    for c in cs:
        passive, active = rng.random((2, count, 3))
        scale = c if corrected else 1.0  # the factor of log K and of Q
        log_left = scale * passive.sum(axis=1) + c * (active - passive)[:, 0]
        log_right = scale * (passive.sum(axis=1) + (active - passive)[:, 0])
        tightest.add(
            np.abs(log_left - log_right),
            0.0,
            count,
            lambda b, c=c, x=passive, y=active: dict(c=c, passive=x[b], active=y[b]),
        )


def weights_sides(w: Witness, corrected: bool) -> Sides:
    """The distance of the logarithms of the two sides for the first arm, and 0."""
    c, gain = w["c"], w["active"][0] - w["passive"][0]
    Q = sum(w["passive"][1:]) + w["active"][0]
    scale = c if corrected else 1.0
    return abs(scale * sum(w["passive"]) + c * gain - scale * Q), 0.0


_PAPER = "(n - 1) / (2 + c)"
CORRECTED = Bound("corrected", "(n - 1) W(1/e) / c", eta_lambert, sizes=ONE)
LEMMA_2 = (
    Bound("", _PAPER, eta_paper, sizes=((2, 1),)),
    Bound(
        "small-gaps", _PAPER, eta_paper, "no action is more than 1 below the best", ONE, small=True
    ),
    Bound("large-c", _PAPER, eta_paper, LARGE_C, ONE, hard=True),
    CORRECTED,
    Bound(
        "joint", "log C(n, k) / c for sets of k arms by the joint design", eta_entropy, sizes=SOME
    ),
    Bound("sharp", "W((C(n, k) - 1) / e) / c", eta_sharp, sizes=(*ONE, *SOME)),
)


def _lemma_2(form: Bound, instead: Claim | None = None) -> Claim:
    return Claim(
        form.id("lemma-2"),
        f"max Q - softmax Q is at most {form.text}.",
        "reward a decision",
        partial(search_softmax, form=form),
        partial(softmax_sides, eta=form.eta),
        200,
        condition=form.condition,
        instead=instead,
    )


LEMMA_2_CORRECTED = _lemma_2(CORRECTED)
LOWER_OWN = Claim(
    "lemma-2-lower-own",
    "max Q - softmax Q is at least delta / (n exp(c delta)), delta the largest gap of this Q.",
    "reward a decision",
    partial(search_lower, own_gap=True),
    partial(lower_sides, own_gap=True),
    200,
    condition="delta is the largest gap of the same Q",
)
WEIGHTS_CORRECTED = Claim(
    "appendix-weights-corrected",
    "exp(c Q(s, a_i)) is K^c exp(c lambda_i), K = exp(sum of Q_j(s_j, 0)).",
    "in the logarithm",
    partial(search_weights, corrected=True),
    partial(weights_sides, corrected=True),
    50,
)

CLAIMS = (
    _lemma_2(LEMMA_2[0], LEMMA_2_CORRECTED),
    *(_lemma_2(form) for form in LEMMA_2[1:3]),
    LEMMA_2_CORRECTED,
    *(_lemma_2(form) for form in LEMMA_2[4:]),
    Claim(
        "lemma-2-lower",
        "max Q - softmax Q is at least delta / (n exp(c delta)), delta the largest gap of any Q.",
        "reward a decision",
        partial(search_lower, own_gap=False),
        partial(lower_sides, own_gap=False),
        200,
        instead=LOWER_OWN,
    ),
    LOWER_OWN,
    LEMMA_2_GAPS,
    Claim(
        "appendix-fraction",
        "sum x / (1 + sum y) is at most the sum of x_i / (1 + y_i), for x and y of at least 0.",
        "of the left side's unit",
        search_fraction,
        fraction_sides,
        200,
    ),
    Claim(
        "appendix-weights",
        "exp(Q(s, a_i)) is K exp(c lambda_i), K = exp(sum of Q_j(s_j, 0)), for every c.",
        "in the logarithm",
        partial(search_weights, corrected=False),
        partial(weights_sides, corrected=False),
        50,
        instead=WEIGHTS_CORRECTED,
    ),
    WEIGHTS_CORRECTED,
)
