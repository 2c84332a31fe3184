"""The definitions of fairness: Definition 1 at its ends, Definition 2 between sets and arms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from ..cohort import Floats
from . import plain
from .claim import NOT_SO, Claim, Search, Sides, Witness
from .joint import arms_of, set_law, sets_of

__all__ = ["CLAIMS"]


def search_definition_1(
    tightest: Search,
    cs: Sequence[float] = (0.0, math.inf),
    n: int = 4,
    k: int = 2,
    count: int = 50,
    seed: int = 0,
) -> None:
    """The trade-off in Theorem 3: SoftFair is fair by Definition 1 at both c = 0 and c = inf.

    By the letter of Definition 1 it is fair at neither end. The definition allows pi(a) >= pi(a')
    only if Q(a) >= Q(a'), so equal chances require equal values. A lottery (c = 0) gives equal
    chances to sets of unequal Q, and the top k (c = inf) gives the chance 0 to all other sets. If Q
    is the sum of lambda and 0 < c < inf, the `joint` design is fair to the letter.
    """
    gain = np.random.default_rng([seed, 5]).random((count, n))
    members = sets_of(n, k)
    Q = gain @ members.T  # [B, A]
    for c in cs:
        chance = (
            np.where(Q.max(axis=1, keepdims=True) > Q, 0.0, 1.0)
            if math.isinf(c)
            else set_law(c * gain, k, "joint")
        )

        def describe(b: int, x: int, y: int, c: float = c) -> dict[str, Any]:
            return dict(gains=gain[b], c=c, high=arms_of(members[x]), low=arms_of(members[y]))

        tightest.add_pairs(chance, Q, count, describe, ties=True)


def definition_1_sides(w: Witness) -> Sides:
    """The value of the set that is less likely or tied, and the value of the other set."""
    c, gain = float(w["c"]), w["gains"]
    high, low = plain.total(gain, w["high"]), plain.total(gain, w["low"])
    top = sum(sorted(gain)[-len(w["high"]) :])
    tied_at_infinity = c == math.inf and not math.isclose(low, top)
    return (low, high) if c == 0 or high >= low or tied_at_infinity else NOT_SO


def rising_law(sums: Floats, rng: np.random.Generator) -> Floats:
    """A random law [B, A] whose chances have the order of the sums [B, A]: it is fair to sets."""
    steps = np.cumsum(rng.exponential(size=sums.shape), axis=1)  # positive and rising
    law: Floats = np.take_along_axis(steps, np.argsort(np.argsort(sums, axis=1), axis=1), axis=1)
    law /= law.sum(axis=1, keepdims=True)
    return law


def search_sets_to_arms(
    tightest: Search,
    law: Callable[[Floats, np.random.Generator], Floats] = rising_law,
    n: int = 5,
    k: int = 2,
    count: int = 200,
    seed: int = 0,
) -> None:
    """Definition 2, first statement implies second: order of sets by Q, of arms by lambda.

    This holds if Q is a sum of lambda and lambda_i > lambda_j. In every set with j but without i,
    replace j by i: the new set is likelier, and so is the sum over these sets. (k < n is needed:
    with k = n all arms are certain.)
    """
    rng = np.random.default_rng([seed, 6])
    gain, members = rng.normal(size=(count, n)), sets_of(n, k)
    chance = law(gain @ members.T, rng)
    tightest.add_pairs(
        gain,
        chance @ members,
        count,
        lambda b, i, j: dict(gains=gain[b], k=k, law=chance[b], i=i, j=j),
    )


def _law_given(w: Witness) -> dict[plain.Set, float]:
    """The law of the witness by set; empty if its entries are no law over sets of k arms."""
    sets: list[plain.Set] = list(combinations(range(len(w["gains"])), w["k"]))
    if len(sets) != len(w["law"]) or not plain.close(sum(w["law"]), 1.0):
        return {}
    return dict(zip(sets, w["law"], strict=True))


def sets_to_arms_sides(w: Witness) -> Sides:
    """The chances of the arms of lower and of higher lambda, if the law is fair to sets."""
    law, gain, i, j = _law_given(w), w["gains"], w["i"], w["j"]
    by_chance = sorted(law, key=lambda a: law[a])
    if not law or by_chance != sorted(law, key=lambda a: plain.total(gain, a)):
        return NOT_SO
    if not gain[i] > gain[j]:
        return NOT_SO
    return plain.inclusion_of(law, j), plain.inclusion_of(law, i)


def search_arms_to_sets(
    tightest: Search, n: int = 4, k: int = 2, count: int = 200, seed: int = 0
) -> None:
    """Definition 2, second statement implies first: a law that orders arms orders sets by Q.

    This fails for 1 < k < n - 1. Take any law over sets, and for lambda any numbers in the order of
    its inclusion probabilities. Then the second statement holds, but the first usually does not. So
    the two statements are not equivalent. For k = 1 and k = n - 1 they are equivalent, because a
    set is a single arm, or all arms but one.
    """
    rng = np.random.default_rng([seed, 7])
    members = sets_of(n, k)
    chance = rng.dirichlet(np.ones(len(members)), count)  # [B, A]
    rank = np.argsort(np.argsort(chance @ members, axis=1), axis=1)
    gain = np.take_along_axis(np.sort(rng.normal(size=(count, n)), axis=1), rank, axis=1)

    def describe(b: int, x: int, y: int) -> dict[str, Any]:
        return dict(
            gains=gain[b], k=k, law=chance[b], high=arms_of(members[x]), low=arms_of(members[y])
        )

    broken = tightest.add_pairs(gain @ members.T, chance, count, describe)
    tightest.count(share_of_pairs_broken=broken)


def arms_to_sets_sides(w: Witness) -> Sides:
    """The chances of the sets of lower and of higher sum, if the law is fair to arms."""
    law, gain, high, low = _law_given(w), w["gains"], tuple(w["high"]), tuple(w["low"])
    by_chance = sorted(range(len(gain)), key=lambda i: plain.inclusion_of(law, i))
    fair_to_arms = law and by_chance == sorted(range(len(gain)), key=lambda i: float(gain[i]))
    if not fair_to_arms or not plain.total(gain, high) > plain.total(gain, low):
        return NOT_SO
    return law[low], law[high]


DEFINITION_1_BETWEEN = Claim(
    "definition-1-between",
    "By the joint design a set is at least as likely as another only if its sum of lambda is at "
    "least as high.",
    "reward (Q of two sets, the one no less likely lower)",
    partial(search_definition_1, cs=(0.1, 1.0, 10.0)),
    definition_1_sides,
    50,
    condition="0 < c < inf",
)


DEFINITION_1_ENDS = Claim(
    "definition-1-ends",
    "A set is at least as likely as another only if its value is at least as high, also at c = 0 "
    "and at c = inf.",
    "reward (Q of two sets, the one no less likely lower)",
    search_definition_1,
    definition_1_sides,
    50,
    instead=DEFINITION_1_BETWEEN,
)


SETS_TO_ARMS = Claim(
    "definition-2-sets-to-arms",
    "A policy whose chances of sets follow the sum of lambda gives the arm of higher lambda the "
    "higher chance.",
    "probability",
    search_sets_to_arms,
    sets_to_arms_sides,
    200,
    condition="Q(s, a) = constant + sum of lambda over a, k < n",
)


ARMS_TO_SETS = Claim(
    "definition-2-arms-to-sets",
    "A policy that gives the arm of higher lambda the higher chance also orders the chances of "
    "sets by the sum of lambda.",
    "probability",
    search_arms_to_sets,
    arms_to_sets_sides,
    200,
    instead=SETS_TO_ARMS,
)

CLAIMS = (DEFINITION_1_ENDS, DEFINITION_1_BETWEEN, SETS_TO_ARMS, ARMS_TO_SETS)
