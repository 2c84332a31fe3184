"""Theorem 2, "the top k by lambda are optimal", the decomposition that it assumes, and bounds.

Values are exact, by :class:`softfair.theory.Joint`, from a uniform start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from .. import solvers
from ..cohort import Cohort, Floats
from . import plain
from .claim import NOT_SO, ROUNDING, Claim, Describe, Existence, Search, Sides, Witness
from .gains import algorithm_1_gains, priced_gains, stacked
from .instances import FLEETING, LASTING, problems
from .joint import Joint, arms_of, highest

__all__ = ["CLAIMS"]

Gains = Callable[[Cohort, int, int, float], Floats]  # (cohort, k, horizon, gamma) -> [T, n, S]


def search_top_k(
    tightest: Search,
    gains: Gains = algorithm_1_gains,
    n: int = 4,
    k: int = 1,
    horizon: int = 6,
    gamma: float = 1.0,
    count: int = 40,
    seed: int = 0,
) -> None:
    """Theorem 2: the top k by lambda, c -> inf, maximise the long-term reward. They do not.

    The search compares the true value of the top-k rule with the joint optimum. The proof adds up
    Q_i as if the joint Q* were a sum over arms (see :func:`search_decomposition`). lambda is that
    of Algorithm 1, or that of the priced solver, which loses far less. At the last decision lambda
    is the gain of the next step and rewards are sums over arms, so that the top k are optimal.
    """
    p = problems(count, n, seed)
    joint = Joint.of(p, k)
    best = joint.backward(horizon, gamma, highest)[1][0].mean(axis=-1)  # [B]
    tables = stacked([gains(Cohort.two_state(arms), k, horizon, gamma) for arms in p])
    top = _top_k_value(joint, tables, gamma)
    tightest.add(
        1.0,
        top / best,
        len(p),
        lambda b: dict(p=p[b], k=k, T=horizon, gamma=gamma, gains=tables[:, b], optimum=best[b]),
    )
    gap = 1 - top / best
    tightest.count(
        mean_gap=gap.mean(),
        mean_gap_natural=gap[:count].mean(),
        share_suboptimal=np.mean(gap > ROUNDING),
    )


def _top_k_value(joint: Joint, tables: Floats, gamma: float) -> Floats:
    """The reward [B] of helping the k arms of highest lambda [T, B, n, 2], from a uniform start."""
    chosen = joint.scores(tables).argmax(axis=2)  # [T, B, N]
    _, V = joint.backward(
        len(tables),
        gamma,
        lambda Q, t: np.take_along_axis(Q, chosen[t][:, None], axis=1)[:, 0],
    )
    value: Floats = V[0].mean(axis=-1)
    return value


def _top(gains: Any) -> plain.Pick:
    """The value of the set of highest sum of lambda."""

    def pick(t: int, s: plain.State, Q: Mapping[plain.Set, float]) -> float:
        return Q[max(Q, key=lambda a: sum(gains[t][i][s[i]] for i in a))]

    return pick


def top_k_sides(w: Witness) -> Sides:
    """1, and the share of the optimum that the top-k rule earns.

    lambda is taken from the witness, because Algorithm 1 is random. At the last decision lambda is
    known, and is checked.
    """
    best = plain.mean_value(w, plain.best)
    if not plain.close(best, w["optimum"]) or not plain.next_gains(w["p"], w["gains"][-1]):
        return NOT_SO
    return 1.0, plain.mean_value(w, _top(w["gains"])) / best


def search_any_index(
    tightest: Search,
    n: int = 4,
    k: int = 2,
    horizon: int = 6,
    gamma: float = 1.0,
    count: int = 200,
    seed: int = 0,
) -> None:
    """Theorem 2 with any lambda: in some problems no ranking of arms by lambda_t(s) is optimal.

    The search is for two joint states at the same t in which arms i and j are in the same states.
    In the first, every best set contains i and not j; in the second, j and not i. For any numbers
    lambda, one of the two choices is then wrong, and loses at least the margin. At the last
    decision the gain of the next step is an optimal ranking.
    """
    p = problems(count, n, seed)
    joint = Joint.of(p, k)
    Q, _ = joint.backward(horizon, gamma, highest)
    without = np.zeros(len(p), dtype=np.bool_)
    for i, j in combinations(range(n), 2):
        leads = []  # [T, B, N]: Q of the best set with x and not y, less that of the best other set
        for x, y in ((i, j), (j, i)):
            only_x = (joint.members[:, x] == 1) & (joint.members[:, y] == 0)
            leads.append(Q[:, :, only_x].max(axis=2) - Q[:, :, ~only_x].max(axis=2))
        for pair in product((0, 1), repeat=2):
            alike = np.flatnonzero((joint.states[:, [i, j]] == pair).all(axis=1))
            lost = np.minimum(*(lead[..., alike].max(axis=-1) for lead in leads))  # [T, B]
            without |= (lost > ROUNDING).any(axis=0)

            def describe(
                t: int,
                b: int,
                i: int = i,
                j: int = j,
                leads: list[Floats] = leads,
                alike: Any = alike,
            ) -> dict[str, Any]:
                states = [joint.states[alike[np.argmax(lead[t, b, alike])]] for lead in leads]
                return dict(p=p[b], k=k, T=horizon, gamma=gamma, t=t, i=i, j=j, states=states)

            tightest.add(np.maximum(lost, 0.0), 0.0, 0, describe)
    tightest.tried = len(p)
    tightest.count(share_of_problems=without.mean())


def any_index_sides(w: Witness) -> Sides:
    """The smaller of the two leads if that is positive, else 0; and 0."""
    i, j, (first, second) = w["i"], w["j"], w["states"]
    if i == j or (first[i], first[j]) != (second[i], second[j]):
        return NOT_SO
    table = plain.tables(w, plain.best)[w["t"]]

    def lead(s: list[int], x: int, y: int) -> float:
        with_x_alone, others = (
            [q for a, q in table[tuple(s)].items() if (x in a and y not in a) == only_x]
            for only_x in (True, False)
        )
        return max(with_x_alone) - max(others)

    return max(0.0, min(lead(first, i, j), lead(second, j, i))), 0.0


def search_decomposition(
    tightest: Search, horizon: int = 6, gamma: float = 1.0, count: int = 60, seed: int = 0
) -> None:
    """The step that Theorems 2 and 3 rest on: Q*(s, a) = sum_i Q_i(s_i, a_i). It does not hold.

    If it held, the difference of i and j, Q*(i, x) - Q*(j, x), would not depend on the companion x
    (n = 4, k = 2). The margin is the largest change of that difference with x. The step holds at
    the last decision, where Q* is a sum of next rewards.
    """
    p = problems(count, 4, seed)
    joint = Joint.of(p, 2)
    Q, _ = joint.backward(horizon, gamma, highest)
    Q_of = {tuple(arms_of(row)): Q[:, :, a] for a, row in enumerate(joint.members)}  # [T, B, N]
    for i, j, x, y in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)):
        ix, jx, iy, jy = (Q_of[min(pair), max(pair)] for pair in ((i, x), (j, x), (i, y), (j, y)))
        setting: Describe = partial(dict, k=2, T=horizon, gamma=gamma, i=i, j=j, x=x, y=y)
        tightest.add(
            np.abs(ix - jx - iy + jy),
            0.0,
            0,
            lambda t, b, s, setting=setting: setting(p=p[b], t=t, s=joint.states[s]),
        )
    tightest.tried = len(p)


def decomposition_sides(w: Witness) -> Sides:
    """The change of the difference of i and j with the companion, and 0."""
    Q = plain.tables(w, plain.best)[w["t"]][tuple(w["s"])]
    ix, jx, iy, jy = (
        Q[tuple(sorted((w[arm], w[companion])))] for arm, companion in ("ix", "jx", "iy", "jy")
    )
    return abs((ix - jx) - (iy - jy)), 0.0


def search_myopic_below_random(
    tightest: Search,
    horizon: int = 6,
    gamma: float = 1.0,
    n: int = 3,
    k: int = 1,
    count: int = 100,
    seed: int = 0,
) -> None:
    """Section 5: "Myopic might fail, and is even worse than Random". There are such problems.

    Myopic gives all help to an arm that gains a little more by the next step but does not stay good
    (:data:`FLEETING`). A lottery also helps arms that stay good (:data:`LASTING`).
    """
    by_hand = [[FLEETING, *[LASTING] * (n - 1)]]
    p = np.concatenate([by_hand, problems(count, n, seed)])
    joint = Joint.of(p, k)
    gain = p[:, :, 1] - p[:, :, 0]  # [B, n, 2]
    myopic = _top_k_value(joint, np.repeat(gain[None], horizon, axis=0), gamma)
    lottery = joint.backward(horizon, gamma, lambda Q, t: Q.mean(axis=1))[1][0].mean(axis=-1)
    tightest.add(myopic, lottery, len(p), lambda b: dict(p=p[b], k=k, T=horizon, gamma=gamma))
    tightest.count(share_of_natural_problems=np.mean((lottery > myopic)[1 : 1 + count]))


def myopic_sides(w: Witness) -> Sides:
    """The rewards of Myopic and of Random."""
    gain = [[arm[1][s] - arm[0][s] for s in (0, 1)] for arm in w["p"]]
    lottery = plain.mean_value(w, lambda t, s, Q: sum(Q.values()) / len(Q))
    return plain.mean_value(w, _top([gain] * w["T"])), lottery


def search_certificate(
    tightest: Search,
    bound: Callable[[Cohort, int, int, float], float] = solvers.upper_bound,
    count: int = 8,
    seed: int = 0,
) -> None:
    """The certificate (beyond the paper): solvers.upper_bound is never below the joint optimum.

    An arm that may buy help at the price m_t >= 0 on its own does at least as well as under any
    policy for all arms. Tried on arms by the paper's law, on extreme arms, and on arms that help
    may harm.
    """
    tightness = []
    for n, k, T, gamma in (
        (3, 1, 6, 1.0),
        (4, 2, 6, 1.0),
        (5, 2, 6, 0.9),
        (4, 1, 8, 1.0),
        (5, 3, 5, 1.0),
    ):
        harmful = np.random.default_rng([seed, 9, n]).random((count, n, 2, 2))
        p = np.concatenate([problems(count, n, seed), harmful])
        best = Joint.of(p, k).backward(T, gamma, highest)[1][0].mean(axis=-1)  # [B]
        certified = np.array([bound(Cohort.two_state(arms), k, T, gamma) for arms in p])
        setting: Describe = partial(dict, k=k, T=T, gamma=gamma)
        tightest.add(best, certified, len(p), lambda b, p=p, setting=setting: setting(p=p[b]))
        tightness += list(best / certified)
    tightest.count(
        mean_optimum_over_bound=np.mean(tightness), least_optimum_over_bound=np.min(tightness)
    )


def certificate_sides(w: Witness) -> Sides:
    """The joint optimum, and the certificate of the solver, which the claim is about."""
    bound = solvers.upper_bound(Cohort.two_state(w["p"]), w["k"], w["T"], w["gamma"])
    return plain.mean_value(w, plain.best), bound


TOP_K_LAST = Claim(
    "theorem-2-last",
    "With one decision left, helping the k arms of highest lambda earns as much as the best policy "
    "can.",
    "of the optimal total reward",
    partial(search_top_k, horizon=1, k=2),
    top_k_sides,
    40,
)
TOP_K = Claim(
    "theorem-2",
    "Helping the k arms of highest lambda, as Algorithm 1 learns it, earns as much as the best "
    "policy can.",
    "of the optimal total reward",
    search_top_k,
    top_k_sides,
    40,
    instead=TOP_K_LAST,
)
TOP_K_PRICED = Claim(
    "theorem-2-priced",
    "Helping the k arms of highest lambda, as the priced solver learns it, earns as much as the "
    "best policy can.",
    "of the optimal total reward",
    partial(search_top_k, gains=priced_gains),
    top_k_sides,
    40,
    instead=TOP_K_LAST,
)
ANY_INDEX = Claim(
    "theorem-2-any-index",
    "Some number for each arm, state and time ranks the arms so that the top k are a best choice.",
    "reward, lost in one of two states whatever the ranking",
    search_any_index,
    any_index_sides,
    200,
    instead=TOP_K_LAST,
)
DECOMPOSITION_LAST = Claim(
    "decomposition-last",
    "With one decision left the joint Q* is a sum over arms of what each does in its own state.",
    "reward, by which the worth of one arm over another depends on a third",
    partial(search_decomposition, horizon=1),
    decomposition_sides,
    60,
)
DECOMPOSITION = Claim(
    "decomposition",
    "The joint Q* is a sum over arms of what each does in its own state.",
    "reward, by which the worth of one arm over another depends on a third",
    search_decomposition,
    decomposition_sides,
    60,
    instead=DECOMPOSITION_LAST,
)
MYOPIC = Claim(
    "myopic-below-random",
    "There are problems in which Myopic earns less than Random.",
    "reward (Random above Myopic)",
    search_myopic_below_random,
    myopic_sides,
    100,
    kind=Existence,
)
CERTIFICATE = Claim(
    "certificate",
    "No policy earns more than the certificate.",
    "reward",
    search_certificate,
    certificate_sides,
    8,
)

CLAIMS = (
    TOP_K,
    TOP_K_PRICED,
    ANY_INDEX,
    TOP_K_LAST,
    DECOMPOSITION,
    DECOMPOSITION_LAST,
    MYOPIC,
    CERTIFICATE,
)
