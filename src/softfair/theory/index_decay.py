"""Theorem 1, "the Whittle index decays", and the lemma of its proof, Lemma 3.

m_t is the constant subsidy at which both actions of a single arm have the same value with h = T - t
decisions left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import indices
from ..cohort import Cohort, Floats
from . import plain
from .claim import NOT_SO, ROUNDING, Claim, Search, Sides, Witness
from .instances import NO_DECAY, natural, single_arms

__all__ = ["CLAIMS"]

Index = Callable[[Cohort, float, int], Floats]  # as indices.whittle -> [horizon + 1, n, S]

DECISIONS = 6  # the largest number of decisions left


def search_decay(
    tightest: Search,
    p: ArrayLike | None = None,
    gamma: float = 0.9,
    index: Index = indices.whittle,
    count: int = 4000,
    seed: int = 0,
) -> None:
    """Theorem 1: m_t > m_{t+1}. It fails for a quarter of the arms drawn by the paper's law.

    The proof writes m_t with terms (P[1] - P[0]) V_{t+1}, one for each next state, and lets each
    term fall with t; but the factor of state 0 is negative. What matters is whether V(1) - V(0)
    falls, and at the index of the state with the smaller Delta it need not fall. (In the literal
    reading of the proof each V has the subsidy of its time; then the claim fails for a third of the
    arms.) :data:`NO_DECAY` is among the arms that are tried.
    """
    arms = (
        np.concatenate([[NO_DECAY], natural(1, count, seed)[0]])
        if p is None
        else single_arms(p, 0, 0)
    )
    W = index(Cohort.two_state(arms), gamma, DECISIONS)[1:]  # [T, n, 2], row h - 1
    tightest.add(
        W[:-1],
        W[1:],
        len(arms),
        lambda h, i, s: dict(p=arms[i], gamma=gamma, s=s, decisions_left=[h + 1, h + 2]),
    )
    broken = (np.diff(W, axis=0) < -ROUNDING).any(axis=(0, 2))
    tightest.count(share_of_arms_broken=broken.mean())


def search_decay_best_state(
    tightest: Search,
    p: ArrayLike | None = None,
    gamma: float = 0.9,
    index: Index = indices.whittle,
    count: int = 2000,
    seed: int = 0,
) -> None:
    """Theorem 1 for s*, the state with the larger Delta: it holds if Delta, l_0 and gamma are > 0.

    l_0 = p[0, 1] - p[0, 0]. If the subsidy is the index, resting is best in both states from then
    on, so V(1) - V(0) follows the passive chain and
    m = Delta (1 + gamma l_0 + ... + (gamma l_0)^(h - 1)). With l_0 = 0 the index stays at Delta;
    with l_0 < 0 it alternates. Arms have Delta and l_0 of at least .05, so that a rise of
    Delta (gamma l_0)^h is well above rounding.
    """
    arms = single_arms(p, count, seed)
    gain = arms[:, 1] - arms[:, 0]  # [n, 2]
    meets = (
        (gain >= gain[:, ::-1])
        & (gain >= 0.05)
        & (arms[:, 0, 1] - arms[:, 0, 0] >= 0.05)[:, None]
        & (gamma > 0)
    )
    W = index(Cohort.two_state(arms), gamma, DECISIONS)[1:]
    tightest.add(
        W[:-1],
        W[1:],
        int(meets.sum()),
        lambda h, i, s: dict(p=arms[i], gamma=gamma, s=s, decisions_left=[h + 1, h + 2]),
        meets,
    )


def index_sides(w: Witness) -> Sides:
    """The two indices, each by bisection."""
    first, second = w["decisions_left"]
    return plain.index_of(w, first), plain.index_of(w, second)


def search_index_end(
    tightest: Search,
    p: ArrayLike | None = None,
    gamma: float = 0.9,
    index: Index = indices.whittle,
    count: int = 2000,
    seed: int = 0,
) -> None:
    """The lower end in Theorem 1: m_T = Delta, and no m_t is lower. It holds for the paper's arms.

    If under both actions the good state is likelier after the good state, V(1) >= V(0) at every
    step, and m = Delta (1 + gamma (V(1) - V(0))) >= Delta.
    """
    arms = single_arms(p, count, seed)
    gain = arms[:, 1] - arms[:, 0]
    W = index(Cohort.two_state(arms), gamma, DECISIONS)[1:]
    tightest.add(
        gain,
        W[1:],
        len(arms),
        lambda h, i, s: dict(p=arms[i], gamma=gamma, s=s, decisions_left=h + 2),
    )
    error = np.abs(W[0] - gain)
    tightest.add(
        error,
        0.0,
        0,
        lambda i, s: dict(p=arms[i], gamma=gamma, s=s, decisions_left=1, m_T=W[0, i, s]),
        error > ROUNDING,
    )


def index_end_sides(w: Witness) -> Sides:
    """Delta and the index; or, if the witness states m_T, its distance from Delta and 0."""
    gain = w["p"][1][w["s"]] - w["p"][0][w["s"]]
    if "m_T" in w:
        return abs(w["m_T"] - gain), 0.0
    return gain, plain.index_of(w, w["decisions_left"])


def search_values_rise(
    tightest: Search,
    letter: bool,
    gammas: Sequence[float] = (0.0, 0.5, 1.0),
    p: ArrayLike | None = None,
    reward: float = 1.0,
    count: int = 200,
    seed: int = 0,
) -> None:
    """Lemma 3 (appendix): V_{m,t}(s) > V_{m,t+1}(s) >= 0 for gamma in [0, 1].

    By the letter this fails: at gamma = 0 V is the same for every number of decisions from 1 on. V
    never falls as decisions are added, whatever the sign of the subsidy m: acting costs nothing, so
    one decision is worth at least 0, and the Bellman operator is monotone. V rises strictly if
    gamma > 0 and p[1, s] > 0. The proof gives only the weak inequality; the value of an arm that is
    never good (p = 0) stays at 0 if m <= 0. With ``letter`` the search counts the steps with a
    strict rise; without it, the search measures the rises.
    """
    arms = single_arms(p, count, seed)
    for gamma, m in product(gammas, (-2.0, -0.5, 0.0, 0.5, 2.0)):
        V = np.zeros((DECISIONS + 1, len(arms), 2))  # row h: h decisions left
        for h in range(DECISIONS):
            bad, good = gamma * V[h, :, :1], reward + gamma * V[h, :, 1:]  # [n, 1]
            rest, act = (bad + arms[:, a] * (good - bad) for a in (0, 1))  # [n, 2]
            V[h + 1] = np.maximum(rest + m, act)

        def describe(
            *place: int, V: Floats = V, gamma: float = gamma, m: float = m
        ) -> dict[str, Any]:
            i, s = place[-2:]
            return dict(p=arms[i], gamma=gamma, m=m, s=s, T=DECISIONS, reward=reward, V=V[:, i, s])

        if letter:
            rises = (np.diff(V, axis=0) > 1e-3 * ROUNDING).sum(axis=0)
            tightest.add(DECISIONS, rises, len(arms), describe)
        else:
            tightest.add(V[:-1], V[1:], len(arms), describe)


def rise_sides(w: Witness, letter: bool) -> Sides:
    """The numbers of steps and of rises, or the two values of the smallest rise.

    V is computed from the arm of the witness, and must be the V that the witness states. The number
    of rises would not be enough, because it is the same for every arm at gamma = 0.
    """
    V = [row[w["s"]] for row in plain.values_under_subsidy(w, w["m"], w["T"])[0]]
    if len(V) != len(w["V"]) or not all(map(plain.close, V, w["V"])):
        return NOT_SO
    if letter:
        rises = sum(after - before > 1e-3 * ROUNDING for before, after in pairwise(V))
        return float(w["T"]), float(rises)
    return min(pairwise(V), key=lambda pair: pair[1] - pair[0])


DECAY_BEST_STATE = Claim(
    "theorem-1-best-state",
    "The Whittle index of the state in which help gains most at once falls as the end comes "
    "nearer.",
    "reward (m_t and m_{t+1} apart)",
    search_decay_best_state,
    index_sides,
    2000,
    condition="s = s*, Delta > 0, l_0 > 0, gamma > 0",
)
DECAY = Claim(
    "theorem-1",
    "The Whittle index of a state falls as the end comes nearer.",
    "reward (m_t and m_{t+1} apart)",
    search_decay,
    index_sides,
    4000,
    instead=DECAY_BEST_STATE,
)
INDEX_END = Claim(
    "theorem-1-end",
    "At the last decision the Whittle index is the gain of the next step, and before that it is "
    "never lower.",
    "reward (m_t above m_T)",
    search_index_end,
    index_end_sides,
    2000,
)
VALUES_RISE_POSITIVE = Claim(
    "lemma-3-positive",
    "With each decision more the value under a subsidy is larger, and it is never below 0.",
    "reward (least rise)",
    partial(search_values_rise, letter=False, gammas=(0.1, 0.5, 0.9, 1.0)),
    partial(rise_sides, letter=False),
    200,
    condition="gamma > 0 and p[1, s] > 0; m of either sign",
)
VALUES_RISE = Claim(
    "lemma-3",
    "With each decision more the value under a subsidy is larger, also at gamma = 0.",
    f"steps of {DECISIONS} on which V stays though it should rise",
    partial(search_values_rise, letter=True),
    partial(rise_sides, letter=True),
    200,
    instead=VALUES_RISE_POSITIVE,
)

CLAIMS = (DECAY, DECAY_BEST_STATE, INDEX_END, VALUES_RISE, VALUES_RISE_POSITIVE)
