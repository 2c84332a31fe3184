"""Lemma 1 and its corollary (values are bounded), Lemma 2 (what softness costs one decision)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..cohort import Floats
from . import plain
from .claim import NOT_SO, Claim, Describe, Search, Sides, Witness
from .instances import FRAGILE, INDIFFERENT, problems
from .joint import Joint, arms_of, highest, softmax_value
from .loss_bounds import (
    CS,
    LARGE_C,
    Bound,
    PerStep,
    discounted,
    eta_entropy,
    eta_lambert,
    eta_paper,
    eta_sharp,
    long_enough,
    softmax_loss,
)

__all__ = ["CLAIMS"]


# ------------------------------------------------------------ Lemma 1 and the corollary: bounded Q


def _sure_and_others(count: int, n: int, seed: int) -> Floats:
    """Problems [2 count + 1, n, 2, 2]; the arms of the first are almost certain to be good."""
    return np.concatenate([np.full((1, n, 2, 2), 0.9999), problems(count, n, seed)])


def search_bounded(
    tightest: Search,
    horizon: int | None = None,
    gamma: float = 0.9,
    bound: Callable[[int, float], float] = lambda n, steps: n * steps,
    n: int = 3,
    k: int = 1,
    reward: float = 1.0,
    count: int = 20,
    seed: int = 0,
) -> None:
    """Lemma 1: 0 <= Q <= n / (1 - gamma). It holds for gamma < 1.

    Over T decisions it holds with n (1 + ... + gamma^(T-1)), n T at gamma = 1: each reward is
    between 0 and n, whatever the policy. Tried on the optimal Q and on that of the softmax at
    c = 1, with arms that are all but certain to be good among them.
    """
    p = _sure_and_others(count, n, seed)
    joint, T = Joint.of(p, k), horizon or long_enough(gamma, n)
    most = bound(n, discounted(gamma, horizon))
    for soft in (False, True):
        value = (lambda Q, t: softmax_value(Q, 1.0)) if soft else highest
        Q = joint.backward(T, gamma, value, reward)[0][0]  # [B, A, N]
        setting: Describe = partial(
            dict, k=k, T=T, endless=horizon is None, gamma=gamma, reward=reward, soft=soft
        )

        def describe(b: int, a: int, s: int, setting: Describe = setting) -> dict[str, Any]:
            return setting(p=p[b], s=joint.states[s], a=arms_of(joint.members[a]))

        tightest.add(0.0, Q, len(p), describe)
        tightest.add(Q, most, 0, describe)


def bounded_sides(w: Witness) -> Sides:
    """Q and its upper bound, or 0 and Q, whichever is nearer."""
    Q = plain.tables(w, plain.soft(1.0) if w["soft"] else plain.best)[0][tuple(w["s"])]
    value, most = Q[tuple(w["a"])], len(w["p"]) * plain.steps_of(w)
    return (value, most) if most < 2 * value else (0.0, value)


def search_gap(
    tightest: Search,
    bound: Callable[[int, int, float], float],
    horizon: int | None,
    gamma: float,
    sizes: Sequence[tuple[int, int]] = ((3, 1), (4, 2)),
    count: int = 20,
    seed: int = 0,
) -> None:
    """The corollary, |Q(s, a) - Q(s, a')| <= n / (1 - gamma), and the largest gap there is.

    Both Q are between 0 and n / (1 - gamma), so the corollary holds wherever Lemma 1 does, and over
    T decisions with n (1 + ... + gamma^(T-1)). It is never near: couple the two ways to go on, the
    one from a' making the same choices as the optimal one from a. Only arms in one of the two sets
    can differ; an arm in a alone is ahead, one in a' alone behind (a good state and help raise the
    chance of the next). So the gap is at most min(k, n - k) (1 + ... + gamma^(T-1)). That a gap is
    at most 1, "intuitively", as the proof of Lemma 2 has it, fails: good states last.
    """
    for n, k in sizes:
        nearly_tight = [[*[FRAGILE] * k, *[INDIFFERENT] * (n - k)]]  # the bound is nearly attained
        p = np.concatenate([nearly_tight, problems(count, n, seed)])
        joint, T = Joint.of(p, k), horizon or long_enough(gamma, n)
        Q = joint.backward(T, gamma, highest)[0][0]  # [B, A, N]
        setting: Describe = partial(dict, n=n, k=k, T=T, endless=horizon is None, gamma=gamma)

        def describe(
            b: int, s: int, setting: Describe = setting, p: Floats = p, joint: Joint = joint
        ) -> dict[str, Any]:
            return setting(p=p[b], s=joint.states[s])

        most = bound(n, k, discounted(gamma, horizon))
        gap = np.ptp(Q, axis=1)
        tightest.add(gap, most, len(p), describe)
        tightest.count(share_of_natural_problems=np.mean(gap[1 : 1 + count].max(axis=1) > most))


def gap_sides(w: Witness, bound: Callable[[int, int, float], float]) -> Sides:
    """The largest gap between two actions, and its bound."""
    if len(w["p"]) != w["n"]:
        return NOT_SO
    Q = plain.tables(w, plain.best)[0][tuple(w["s"])].values()
    return max(Q) - min(Q), bound(w["n"], w["k"], plain.steps_of(w))


def gap_corollary(n: int, k: int, steps: float) -> float:
    """The corollary's bound: n / (1 - gamma), with ``steps`` for 1 / (1 - gamma)."""
    return n * steps


def gap_exchange(n: int, k: int, steps: float) -> float:
    """min(k, n - k) arms are ahead, by 1 at every step."""
    return min(k, n - k) * steps


def gap_one(n: int, k: int, steps: float) -> float:
    """The premise of Lemma 2's proof."""
    return 1.0


# --------------------------------------------------------- Lemma 2: what softness costs a decision


def _gaps(others: int, largest: float, count: int, seed: int) -> Floats:
    """[B, others] up to ``largest``: all alike on a grid, and at random."""
    rng = np.random.default_rng([seed, others])
    alike = np.repeat(np.linspace(0, largest, 200)[:, None], others, axis=1)
    return np.concatenate([alike, largest * rng.random((count, others)) * rng.random((count, 1))])


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

    It fails for small c and gaps above 1: at c = .1 and a gap of 5 the loss is 1.89, the bound
    .476. The proof takes gaps for at most 1 (:func:`search_gap`). What holds, by the form's name:
    ``small-gaps`` (delta / (1 + exp(c delta)) <= delta / (2 + c delta), which rises to 1 / (2 + c)
    at delta = 1); ``large-c`` (from c = .772 on W(1/e) / c <= 1 / (2 + c)); ``corrected``,
    ``joint`` and ``sharp``, for every Q and c: see :func:`eta_lambert`, :func:`eta_entropy` and
    :func:`eta_sharp`, which no smaller bound replaces.
    """
    largest = largest_gap or (1.0 if form.small else 30.0)
    for n, k in form.sizes:
        gaps = _gaps(math.comb(n, k) - 1, largest, count, seed)
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
    """Lemma 2's lower bound: delta / (n exp(c delta)) <= max Q - softmax Q.

    It holds if delta is the largest gap of the same Q. The paper has delta(s) as the supremum over
    all Q, which is n / (1 - gamma). Then it fails: a Q that is the same for all actions loses
    nothing, and the bound is positive.
    """
    gaps = _gaps(n - 1, n / (1 - gamma), count, seed)
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
    """The appendix's fact: sum x / (1 + sum y) <= sum x_i / (1 + y_i) for x, y >= 0. It holds.

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
    """The appendix's step K exp(c lambda_i) = exp(Q(s, a_i)), K = exp(sum_j Q_j(s_j, 0)).

    A factor c is missing: exp(c Q(s, a_i)) = K^c exp(c lambda_i) (``corrected``). As printed it
    holds at c = 1 alone. The steps after it use the right one. Sides are logarithms.
    """
    rng = np.random.default_rng([seed, 12])
    for c in cs:
        passive, active = rng.random((2, count, 3))
        scale = c if corrected else 1.0  # of log K and of Q
        log_left = scale * passive.sum(axis=1) + c * (active - passive)[:, 0]
        log_right = scale * (passive.sum(axis=1) + (active - passive)[:, 0])
        tightest.add(
            np.abs(log_left - log_right),
            0.0,
            count,
            lambda b, c=c, x=passive, y=active: dict(c=c, passive=x[b], active=y[b]),
        )


def weights_sides(w: Witness, corrected: bool) -> Sides:
    """How far the logarithms of the two sides are apart, for the first arm."""
    c, gain = w["c"], w["active"][0] - w["passive"][0]
    Q = sum(w["passive"][1:]) + w["active"][0]
    scale = c if corrected else 1.0
    return abs(scale * sum(w["passive"]) + c * gain - scale * Q), 0.0


# ------------------------------------------------------------ footnote 2: an exponential rate in c


def search_rate_uniform(
    tightest: Search,
    worst: PerStep = eta_sharp,
    sizes: Sequence[tuple[int, int]] = ONE,
    cs: Sequence[float] = (0.5, 1.0, 5.0, 20.0),
) -> None:
    """Footnote 2: SoftFair converges to the Bellman operator "with an exponential rate in c".

    Of a loss A e^(-r c) the rate log(L(c) / L(2 c)) / c is r at every c. The largest loss of one
    decision over all Q is W((n-1)/e) / c, whose rate is log 2 / c: it halves whenever c doubles.
    For each c there is a Q (all gaps 1/c + L) whose loss is that large.
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
    """The rates from c to 2 c and 2 c to 4 c of the largest loss, found by search over gaps."""
    n, c = math.comb(w["n"], w["k"]), w["c"]

    def largest(c: float) -> float:
        low, high = 0.0, (2 + math.log(n)) / c  # the loss of equal gaps has one peak in between
        for _ in range(200):
            one, two = low + (high - low) / 3, high - (high - low) / 3
            losses = [plain.softmax_loss([gap] * (n - 1), c) for gap in (one, two)]
            low, high = (one, high) if losses[0] < losses[1] else (low, two)
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
    x = 1/c on. So the rate is exponential in c for each Q, but d can be as small as one likes.
    Sides are logarithms.
    """
    for others in (1, 2, 4):
        gaps = _gaps(others, 5.0, count, seed)[1:]  # the first is all ties
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


# --------------------------------------------------------------------------------------- the claims

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


def _gap_claim(
    name: str,
    statement: str,
    bound: Callable[[int, int, float], float],
    horizon: int | None,
    gamma: float,
    condition: str = "",
    instead: Claim | None = None,
    sizes: tuple[tuple[int, int], ...] = ((3, 1), (4, 2)),
    count: int = 20,
) -> Claim:
    return Claim(
        name,
        statement,
        "reward",
        partial(search_gap, bound=bound, horizon=horizon, gamma=gamma, sizes=sizes),
        partial(gap_sides, bound=bound),
        count,
        condition=condition,
        instead=instead,
    )


LEMMA_2_CORRECTED = _lemma_2(CORRECTED)
GAP_EXCHANGE = _gap_claim(
    "corollary-1-sharp",
    "Two actions in the same state differ in Q* by at most min(k, n - k) (1 + ... + gamma^(T-1)).",
    gap_exchange,
    8,
    1.0,
    condition="a good state and help both raise the chance of the good state next",
)
LOWER_OWN = Claim(
    "lemma-2-lower-own",
    "max Q - softmax Q is at least delta / (n exp(c delta)), delta the largest gap of this Q.",
    "reward a decision",
    partial(search_lower, own_gap=True),
    partial(lower_sides, own_gap=True),
    200,
    condition="delta is the largest gap of the same Q",
)
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
WEIGHTS_CORRECTED = Claim(
    "appendix-weights-corrected",
    "exp(c Q(s, a_i)) is K^c exp(c lambda_i), K = exp(sum of Q_j(s_j, 0)).",
    "in the logarithm",
    partial(search_weights, corrected=True),
    partial(weights_sides, corrected=True),
    50,
)

CLAIMS = (
    Claim(
        "lemma-1",
        "Q is at least 0 and at most n / (1 - gamma).",
        "reward",
        search_bounded,
        bounded_sides,
        20,
        condition="gamma < 1",
    ),
    Claim(
        "lemma-1-finite",
        "Q is at least 0 and at most n (1 + gamma + ... + gamma^(T-1)), which is n T at gamma = 1.",
        "reward",
        partial(search_bounded, horizon=8, gamma=1.0),
        bounded_sides,
        20,
    ),
    _gap_claim(
        "corollary-1",
        "Two actions in the same state differ in Q by at most n / (1 - gamma).",
        gap_corollary,
        None,
        0.9,
        condition="gamma < 1",
    ),
    _gap_claim(
        "corollary-1-finite",
        "Two actions in the same state differ in Q by at most n (1 + gamma + ... + gamma^(T-1)).",
        gap_corollary,
        8,
        1.0,
    ),
    GAP_EXCHANGE,
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
    _gap_claim(
        "lemma-2-gaps",
        "Two actions in the same state differ in Q* by at most 1.",
        gap_one,
        8,
        1.0,
        instead=GAP_EXCHANGE,
        sizes=((3, 1),),  # Lemma 2 is for k = 1
        count=100,
    ),
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
