"""Lemma 1 and its corollary: values are bounded, and so are the gaps between actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..cohort import Floats
from . import plain
from .claim import NOT_SO, Claim, Describe, Search, Sides, Witness
from .instances import FRAGILE, INDIFFERENT, problems
from .joint import Joint, arms_of, highest, softmax_value
from .loss_bounds import discounted, long_enough

__all__ = ["CLAIMS", "LEMMA_2_GAPS"]


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

    Over T decisions it holds with n (1 + ... + gamma^(T-1)), which is n T at gamma = 1, because
    each reward is between 0 and n for every policy. The search uses the optimal Q and the Q of the
    softmax at c = 1; the first problem has arms that are almost certain to be good.
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
    """Q and its upper bound, or 0 and Q, whichever are nearer to each other."""
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
    """The corollary, |Q(s, a) - Q(s, a')| <= n / (1 - gamma), and the largest possible gap.

    Both Q are between 0 and n / (1 - gamma), so the corollary holds if Lemma 1 does, and over T
    decisions with n (1 + ... + gamma^(T-1)). The bound is far from tight. To see this, couple the
    processes after a and after a', and let the process after a' copy the optimal choices of the
    process after a. Only arms in exactly one of the two sets can differ: an arm only in a is ahead,
    an arm only in a' is behind (a good state and help raise the chance of the good state next). So
    the gap is at most min(k, n - k) (1 + ... + gamma^(T-1)). The proof of Lemma 2 assumes
    "intuitively" that a gap is at most 1; this fails, because good states last.
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
    """The bound of the corollary, n / (1 - gamma), where ``steps`` is 1 / (1 - gamma)."""
    return n * steps


def gap_exchange(n: int, k: int, steps: float) -> float:
    """The sharp bound: min(k, n - k) arms are ahead by at most 1 at every step."""
    return min(k, n - k) * steps


def gap_one(n: int, k: int, steps: float) -> float:
    """The bound that the proof of Lemma 2 assumes."""
    return 1.0


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


GAP_EXCHANGE = _gap_claim(
    "corollary-1-sharp",
    "Two actions in the same state differ in Q* by at most min(k, n - k) (1 + ... + gamma^(T-1)).",
    gap_exchange,
    8,
    1.0,
    condition="a good state and help both raise the chance of the good state next",
)
LEMMA_2_GAPS = _gap_claim(
    "lemma-2-gaps",
    "Two actions in the same state differ in Q* by at most 1.",
    gap_one,
    8,
    1.0,
    instead=GAP_EXCHANGE,
    sizes=((3, 1),),  # Lemma 2 is for k = 1
    count=100,
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
)
