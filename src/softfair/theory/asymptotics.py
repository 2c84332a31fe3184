"""The abstract's "asymptotically optimal", as n grows with k/n fixed.

Take many copies of each of a few arms. As the number of copies grows, the share of the copies in
each state follows a deterministic recursion (the fluid), and so does the reward of a policy per
arm. No policy can earn more than the dual bound at any prices, and the best prices make that bound
tight. Both the recursion and the bound are exact, so that no simulation is needed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import solvers
from ..cohort import Cohort, Floats
from ..errors import NotConverged
from . import plain
from .claim import NOT_SO, Claim, Search, Sides, Witness
from .gains import algorithm_1_gains
from .instances import problems

__all__ = ["CLAIMS"]

COPIES = 30  # of each arm, when Algorithm 1 learns its gains

Gains = Callable[..., Floats]  # (cohort, k, T, gamma, c, episodes, seed) -> [T, n, S]


def fluid_top(p: Floats, k: int, gains: Floats, gamma: float) -> float:
    """The reward in the fluid if k of n arms are helped, those with the highest gains [T, n, 2]."""
    share = np.full((len(p), 2), 0.5)  # [n, 2]: share of the copies of an arm in each state
    earned = 0.0
    for t, gain in enumerate(gains):
        order = np.argsort(-gain, axis=None, kind="stable")
        before = np.cumsum(share.ravel()[order]) - share.ravel()[order]
        helped = np.zeros(share.size)
        helped[order] = np.clip(k - before, 0.0, share.ravel()[order])
        active = helped.reshape(share.shape)
        good = (active * p[:, 1] + (share - active) * p[:, 0]).sum(axis=1)
        share = np.stack([1 - good, good], axis=1)
        earned += gamma**t * float(good.sum())
    return earned


def fluid_priced(
    p: Floats, c: float, prices: Floats, gamma: float
) -> tuple[float, Floats, Floats, float]:
    """Value of the soft policy at these prices, its spending [T], pi [T, n, 2], and the hard dual.

    Soft Bellman equations go backward for each arm; shares go forward. The hard dual is the reward,
    less payments, of arms that buy help at these prices.
    """
    T, n = len(prices), len(p)
    soft, hard, pi = np.zeros((n, 2)), np.zeros((n, 2)), np.empty((T, n, 2))
    for t in reversed(range(T)):
        lead, lead_hard = (1 + gamma * (V[:, 1:] - V[:, :1]) for V in (soft, hard))  # [n, 1]
        rest, gain = gamma * soft[:, :1] + p[:, 0] * lead, (p[:, 1] - p[:, 0]) * lead
        x = c * (gain - prices[t])
        pi[t] = 1 / (1 + np.exp(-x))
        soft = rest + np.logaddexp(0.0, x) / c
        rest = gamma * hard[:, :1] + p[:, 0] * lead_hard
        hard = rest + np.maximum((p[:, 1] - p[:, 0]) * lead_hard - prices[t], 0.0)
    share, value, spent = np.full((n, 2), 0.5), 0.0, np.empty(T)
    for t in range(T):
        active = share * pi[t]
        spent[t] = active.sum()
        good = (active * p[:, 1] + (share - active) * p[:, 0]).sum(axis=1)
        share = np.stack([1 - good, good], axis=1)
        value += gamma**t * float(good.sum())
    return value, spent, pi, float(hard.mean(axis=1).sum())


def _prices(cohort: Cohort, k: int, horizon: int, gamma: float, c: float) -> Floats:
    """The balanced prices of the priced solver [T]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # callers check the spending
        values = solvers.solve_priced(cohort, k, horizon, gamma, c)
    prices: Floats = values.theta / c
    return prices


def search_optimal(
    tightest: Search,
    gains: Gains = algorithm_1_gains,
    n: int = 3,
    k: int = 1,
    horizon: int = 6,
    c: float = 50.0,
    count: int = 6,
    seed: int = 0,
) -> None:
    """Abstract: SoftFair "is asymptotically optimal". The top k by Algorithm 1 are not optimal.

    Algorithm 1 learns at c = inf from 30 copies of each of n arms. Its gains are averaged over the
    copies, and in the fluid the k of n arms with the highest gains are helped. This is compared
    with the soft policy at the prices of the priced solver, which spends no more than k on average
    and earns more.
    """
    for p in problems(count, n, seed):
        cohort = Cohort.two_state(np.repeat(p, COPIES, axis=0))
        learnt = gains(cohort, k * COPIES, horizon, 1.0, math.inf, 300, seed)
        table = learnt.reshape(horizon, n, COPIES, 2).mean(axis=2)
        prices = _prices(Cohort.two_state(p), k, horizon, 1.0, c)
        value, spent, _, _ = fluid_priced(p, c, prices, 1.0)

        def describe(
            _: int, p: Floats = p, table: Floats = table, prices: Floats = prices
        ) -> dict[str, Any]:
            return dict(p=p, k=k, T=horizon, gamma=1.0, c=c, gains=table, prices=prices)

        feasible = bool((spent <= k * (1 + 1e-6)).all())
        top = fluid_top(p, k, table, 1.0)
        tightest.add(1.0, top / value, int(feasible), describe, feasible)


def optimal_sides(w: Witness) -> Sides:
    """1, and the reward of the top k as a share of that of the soft policy at the prices."""
    value, spent, _ = _plain_priced(w)
    if max(spent) > w["k"] * (1 + 1e-6) or not plain.next_gains(w["p"], w["gains"][-1]):
        return NOT_SO
    share, earned = [[0.5, 0.5] for _ in w["p"]], 0.0
    for t in range(w["T"]):
        left, active = float(w["k"]), [[0.0, 0.0] for _ in w["p"]]
        places = [(i, s) for i in range(len(share)) for s in (0, 1)]
        for i, s in sorted(places, key=lambda at: -w["gains"][t][at[0]][at[1]]):
            active[i][s] = min(left, share[i][s])
            left -= active[i][s]
        share = _moved(w["p"], share, active)
        earned += w["gamma"] ** t * sum(good for _, good in share)
    return 1.0, earned / value


def _moved(
    p: Sequence[plain.Arm], share: list[list[float]], active: list[list[float]]
) -> list[list[float]]:
    """Shares of the copies of each arm in the two states after one step."""
    moved = []
    for arm, in_state, helped in zip(p, share, active, strict=True):
        good = sum(helped[s] * arm[1][s] + (in_state[s] - helped[s]) * arm[0][s] for s in (0, 1))
        moved.append([1 - good, good])
    return moved


def _plain_priced(w: Witness) -> tuple[float, list[float], float]:
    """Value of the soft policy at the witness's prices, its spending, and the hard dual."""
    c, gamma, prices = float(w["c"]), w["gamma"], w["prices"]
    pi, bound = [[[0.0, 0.0] for _ in w["p"]] for _ in prices], 0.0
    for i, arm in enumerate(w["p"]):
        soft, hard = [0.0, 0.0], [0.0, 0.0]
        for t in reversed(range(w["T"])):
            next_soft, next_hard = [], []
            for s in (0, 1):
                Q, Q_hard = (
                    [
                        gamma * V[0] + arm[a][s] * (1 + gamma * (V[1] - V[0])) - a * prices[t]
                        for a in (0, 1)
                    ]
                    for V in (soft, hard)
                )
                pi[t][i][s] = 1 / (1 + math.exp(-c * (Q[1] - Q[0])))
                top = max(Q)
                next_soft.append(top + math.log(sum(math.exp(c * (q - top)) for q in Q)) / c)
                next_hard.append(max(Q_hard))
            soft, hard = next_soft, next_hard
        bound += (hard[0] + hard[1]) / 2
    share, value, spent = [[0.5, 0.5] for _ in w["p"]], 0.0, []
    for t in range(w["T"]):
        active = [
            [x * y for x, y in zip(*both, strict=True)] for both in zip(share, pi[t], strict=True)
        ]
        spent.append(sum(map(sum, active)))
        share = _moved(w["p"], share, active)
        value += gamma**t * sum(good for _, good in share)
    return value, spent, bound


def search_priced_optimal(
    tightest: Search,
    most: Callable[[int, float, float], float] = lambda n, c, steps: n * steps * math.log(2) / c,
    k: int = 1,
    horizon: int = 6,
    cs: Sequence[float] = (2.0, 10.0, 50.0),
    count: int = 10,
    seed: int = 0,
) -> None:
    """Beyond the paper: the priced policy is within n (1 + ... + gamma^(T-1)) log 2 / c of a bound.

    The bound is the dual bound, which no policy can exceed. At balanced prices the soft dual is the
    reward of the policy plus its entropy over c; the entropy is at most log 2 for each arm and
    step, and the soft dual is no lower than the hard dual. In the fluid, spending k on average is
    spending k, so that the priced policy is asymptotically optimal as n and then c grow. As
    c -> inf the gap vanishes.
    """
    for n in (2, 3):
        for p in problems(count, n, seed):
            for c in cs:
                prices = _prices(Cohort.two_state(p), k, horizon, 1.0, c)
                value, spent, _, hard = fluid_priced(p, c, prices, 1.0)
                balanced = bool((np.abs(spent - k) <= 1e-6 * k).all())

                def describe(
                    _: int, p: Floats = p, prices: Floats = prices, c: float = c
                ) -> dict[str, Any]:
                    return dict(p=p, k=k, T=horizon, gamma=1.0, c=c, prices=prices)

                tightest.add(
                    hard + k * prices.sum() - value,
                    most(n, c, float(horizon)),
                    int(balanced),
                    describe,
                    balanced,
                )


def priced_optimal_sides(w: Witness) -> Sides:
    """The dual bound less the reward of the policy, and the part that its entropy explains."""
    value, spent, hard = _plain_priced(w)
    weights = [w["gamma"] ** t for t in range(w["T"])]
    if any(abs(x - w["k"]) > 1e-6 * w["k"] for x in spent):
        return NOT_SO
    bound = hard + w["k"] * sum(map(math.prod, zip(weights, w["prices"], strict=True)))
    return bound - value, len(w["p"]) * sum(weights) * math.log(2) / w["c"]


PRICED_OPTIMAL = Claim(
    "asymptotically-optimal-priced",
    "As n grows with k/n fixed, the priced policy at c earns no less than the bound on every "
    "policy less (1 + ... + gamma^(T-1)) log 2 / c an arm.",
    "reward of one copy of each arm",
    search_priced_optimal,
    priced_optimal_sides,
    10,
)
CLAIMS = (
    Claim(
        "asymptotically-optimal",
        "As n grows with k/n fixed, the k arms of highest lambda by Algorithm 1 earn as much as "
        "any other policy.",
        "of what a priced policy earns",
        search_optimal,
        optimal_sides,
        6,
        instead=PRICED_OPTIMAL,
    ),
    PRICED_OPTIMAL,
)
