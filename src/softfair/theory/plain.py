"""Recomputation of witnesses: recursion, enumeration and Algorithm 1 in plain Python.

This module shares no code with the searches: it uses no NumPy, no kernel and no solver, and another
random generator. A witness ``w`` is a mapping as in :class:`softfair.theory.Verdict`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise, permutations, product
from typing import Any

Witness = Mapping[str, Any]
State = tuple[int, ...]
Set = tuple[int, ...]
Pick = Callable[[int, State, Mapping[Set, float]], float]
Arm = Sequence[Sequence[float]]  # p[a][s]


def close(x: float, y: float) -> bool:
    """Whether two numbers agree up to rounding."""
    return math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9)


def tables(w: Witness, pick: Pick) -> list[dict[State, dict[Set, float]]]:
    """Q[t][s][a] by recursion; pick(t, s, Q[t][s]) is the value of state s at t."""
    p, gamma, reward = w["p"], w["gamma"], w.get("reward", 1.0)
    arms = range(len(p))
    states: list[State] = list(product((0, 1), repeat=len(p)))
    sets: list[Set] = list(combinations(arms, w["k"]))
    chances = {}
    for s, a in product(states, sets):
        good = [p[i][int(i in a)][s[i]] for i in arms]
        chances[s, a] = [
            math.prod(good[i] if s2[i] else 1 - good[i] for i in arms) for s2 in states
        ]
    values = dict.fromkeys(states, 0.0)
    backward: list[dict[State, dict[Set, float]]] = []  # Q at T - 1, T - 2, ...
    for t in reversed(range(w["T"])):
        worth = [reward * sum(s2) + gamma * values[s2] for s2 in states]
        backward.append(
            {
                s: {a: sum(map(math.prod, zip(chances[s, a], worth, strict=True))) for a in sets}
                for s in states
            }
        )
        values = {s: pick(t, s, backward[-1][s]) for s in states}
    return backward[::-1]


def best(t: int, s: State, Q: Mapping[Set, float]) -> float:
    """The value of the best set."""
    return max(Q.values())


def soft(c: float) -> Pick:
    """The mean of Q under the softmax of c Q."""

    def pick(t: int, s: State, Q: Mapping[Set, float]) -> float:
        weight = [math.exp(c * (q - max(Q.values()))) for q in Q.values()]
        return sum(map(math.prod, zip(weight, Q.values(), strict=True))) / sum(weight)

    return pick


def drawn(law: Callable[[int, State], Mapping[Set, float]]) -> Pick:
    """The mean of Q under law(t, s)."""

    def pick(t: int, s: State, Q: Mapping[Set, float]) -> float:
        return sum(chance * Q[a] for a, chance in law(t, s).items())

    return pick


def mean_value(w: Witness, pick: Pick) -> float:
    """The value at t = 0 from a uniform start."""
    start = tables(w, pick)[0]
    return sum(pick(0, s, Q) for s, Q in start.items()) / len(start)


def values_under_subsidy(
    w: Witness, m: float, h: int
) -> tuple[list[list[float]], list[list[float]]]:
    """V[.][s] with 0, ..., h decisions left, and Q[a][s] with h decisions left, of one arm."""
    p, gamma, V, Q = w["p"], w["gamma"], [[0.0, 0.0]], [[0.0, 0.0]] * 2
    for _ in range(h):
        bad, good = gamma * V[-1][0], w.get("reward", 1.0) + gamma * V[-1][1]
        Q = [[m * (1 - a) + p[a][s] * good + (1 - p[a][s]) * bad for s in (0, 1)] for a in (0, 1)]
        V.append([max(Q[0][s], Q[1][s]) for s in (0, 1)])
    return V, Q


def index_of(w: Witness, h: int) -> float:
    """The Whittle index with h decisions left, by bisection from its definition."""
    low, high = -2.0 * h - 2, 2.0 * h + 2
    for _ in range(60):
        m = (low + high) / 2
        rest, act = (row[w["s"]] for row in values_under_subsidy(w, m, h)[1])
        low, high = (low, m) if rest >= act else (m, high)
    return high


def law_of(z: Sequence[float], k: int, design: str) -> dict[Set, float]:
    """Pr(set) from log-weights z by enumeration."""
    w, arms = [math.exp(x - max(z)) for x in z], range(len(z))
    sets: list[Set] = list(combinations(arms, k))
    if design == "joint":
        total = sum(math.prod(w[i] for i in a) for a in sets)
        return {a: math.prod(w[i] for i in a) / total for a in sets}
    law = dict.fromkeys(sets, 0.0)
    for order in permutations(arms, k):
        law[tuple(sorted(order))] += math.prod(
            w[i] / sum(w[j] for j in arms if j not in order[:x]) for x, i in enumerate(order)
        )
    return law


def inclusion_of(law: Mapping[Set, float], i: int) -> float:
    """Pr(arm i is in the set)."""
    return sum(chance for a, chance in law.items() if i in a)


def total(values: Sequence[float], arms: Sequence[int]) -> float:
    """The sum of the values of some arms."""
    return sum(values[i] for i in arms)


def next_gains(p: Sequence[Arm], gains: Sequence[Sequence[float]]) -> bool:
    """Whether gains[i][s] are those of the next step, as they must be at the last decision."""
    return all(
        close(arm[1][s] - arm[0][s], row[s])
        for arm, row in zip(p, gains, strict=True)
        for s in (0, 1)
    )


def steps_of(w: Witness) -> float:
    """1 + gamma + ... + gamma^(T-1), or 1 / (1 - gamma) if the witness is "endless"."""
    if w["endless"]:
        return float(1 / (1 - w["gamma"]))
    return float(sum(w["gamma"] ** t for t in range(w["T"])))


def elementary(values: Sequence[float], k: int) -> float:
    """The sum over all sets of k values of the product of the set."""
    sums = [1.0] + [0.0] * k
    for x in values:
        sums = [1.0] + [before * x + now for before, now in pairwise(sums)]
    return sums[-1]


def softmax_loss(gaps: Sequence[float], c: float) -> float:
    """max Q - softmax Q, from the gaps between the best and every other action."""
    weight = [math.exp(-c * gap) for gap in gaps]
    return sum(map(math.prod, zip(weight, gaps, strict=True))) / (1 + sum(weight))


def algorithm_1(w: Witness, T: int, episodes: Sequence[int], seed: int) -> list[list[list[float]]]:
    """V_0[i][s] of Algorithm 1 (successive draws) after each number of episodes, in rising order.

    This follows the paper line by line, with the random generator of Python. Inclusion
    probabilities are computed by enumeration of orders; for k = 1 they are the softmax.
    """
    p: Sequence[Arm] = w["p"]
    gamma, c, k, arms = w["gamma"], float(w["c"]), w["k"], range(len(w["p"]))
    rng, V = random.Random(seed), [[[0.0, 0.0] for _ in arms] for _ in range(T + 1)]
    kept = []
    for episode in range(1, max(episodes) + 1):
        s = [int(rng.random() < 0.5) for _ in arms]
        for t in range(T):
            V_next = V[t + 1]
            good = [1 + gamma * (V_next[i][1] - V_next[i][0]) for i in arms]
            rest = [gamma * V_next[i][0] + p[i][0][s[i]] * good[i] for i in arms]
            gain = [(p[i][1][s[i]] - p[i][0][s[i]]) * good[i] for i in arms]  # lambda, Eq. 4
            if k == 1:  # the softmax (Eq. 5), without enumeration
                top = max(gain)
                weight = [math.exp(c * (x - top)) if x < top else 1.0 for x in gain]
                chance = [x / sum(weight) for x in weight]
                chosen = tuple(rng.choices(arms, weights=weight))
            else:
                law = _draw_law(gain, k, c)
                chance = [inclusion_of(law, i) for i in arms]
                (chosen,) = rng.choices(list(law), weights=list(law.values()))
            for i in arms:
                V[t][i][s[i]] = rest[i] + chance[i] * gain[i]  # Eq. 6
            s = [int(rng.random() < p[i][int(i in chosen)][s[i]]) for i in arms]
        if episode in episodes:
            kept.append([row[:] for row in V[0]])
    return kept


def _draw_law(gain: Sequence[float], k: int, c: float) -> dict[Set, float]:
    """Pr(set) at multiplier c; at c = inf the best sets have equal chances, all others 0."""
    if c < math.inf:
        return law_of([c * x for x in gain], k, "successive")
    sums = {a: total(gain, a) for a in combinations(range(len(gain)), k)}
    top = [a for a, x in sums.items() if x == max(sums.values())]
    return {a: 1 / len(top) for a in top}


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    mean = sum(values) / len(values)
    squares = sum((x - mean) ** 2 for x in values)
    return mean, math.sqrt(squares / (len(values) - 1) / len(values))
