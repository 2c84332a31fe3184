"""Theorem 3 and the two definitions of fairness: arm by arm, set by set, and by the true Q*."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from .. import sampling
from ..cohort import Cohort, Floats
from . import plain
from .claim import NOT_SO, Claim, Existence, Search, Sides, Witness
from .gains import algorithm_1_gains, priced_gains, stacked
from .instances import natural
from .joint import Joint, arms_of, highest, set_law, sets_of

__all__ = ["CLAIMS"]

Inclusion = Callable[[Floats, int, sampling.Design], Floats]
Law = Callable[[Floats, int], Floats]  # (log-weights [B, n], k) -> Pr(set) [B, A]
Gains = Callable[[Cohort, int, int, float, float], Floats]  # (..., gamma, c) -> [T, n, S]


def search_arms(
    tightest: Search,
    design: sampling.Design,
    inclusion: Inclusion = sampling.inclusion,
    n: int = 6,
    count: int = 60,
    seed: int = 0,
) -> None:
    """Theorem 3, arm by arm: an arm that gains more is at least as likely to be helped.

    Both designs do so.

    `joint`: exchange the two arms in a set, and its probability changes by the quotient of their
    weights. `successive`: couple the two exponential clocks; the faster one rings earlier. The
    chances are those that :mod:`softfair.sampling` hands to every policy.
    """
    rng = np.random.default_rng([seed, 3])
    for spread, k in product((0.1, 1.0, 3.0), range(1, n)):
        z = spread * rng.normal(size=(-(-count // (3 * (n - 1))), n))
        chance = np.array([inclusion(row, k, design) for row in z])
        tightest.add_pairs(
            z,
            chance,
            len(z),
            lambda b, i, j, z=z, k=k: dict(log_weights=z[b], k=k, design=design, i=i, j=j),
        )


def arms_sides(w: Witness, design: sampling.Design) -> Sides:
    """The chances of the arm of lower and of higher weight, by enumeration."""
    z, i, j = w["log_weights"], w["i"], w["j"]
    if w["design"] != design or not z[i] > z[j]:
        return NOT_SO
    law = plain.law_of(z, w["k"], design)
    return plain.inclusion_of(law, j), plain.inclusion_of(law, i)


def search_sets(
    tightest: Search,
    design: sampling.Design,
    law: Law | None = None,
    n: int = 5,
    k: int = 2,
    count: int = 200,
    seed: int = 0,
) -> None:
    """Theorem 3, set by set: the set of higher sum of lambda is at least as likely.

    `joint` yes, `successive` no. Drawn one after another, an arm that is nearly certain helps its
    companion: with draw probabilities (.5, .1, .23, .23) / 1.06 the first two are a likelier pair
    (.133) than the last two (.120), though their product is smaller. The proof takes Pr(set) for
    the product of inclusion probabilities (see :func:`search_product`). `joint` draws sets by
    exp(c sum lambda): the claim is its definition. k = 1 and k = n - 1 leave no room for the fault.
    """
    rng = np.random.default_rng([seed, 4])
    z = rng.normal(size=(count, n)) * rng.choice([0.3, 1.0, 3.0], (count, 1))
    z[0, :4] = np.log([0.5, 0.1, 0.23, 0.23])[:n]
    z[0, 4:] = -20.0
    members = sets_of(n, k)
    chance = set_law(z, k, design) if law is None else law(z, k)

    def describe(b: int, x: int, y: int) -> dict[str, Any]:
        return dict(
            log_weights=z[b], design=design, high=arms_of(members[x]), low=arms_of(members[y])
        )

    broken = tightest.add_pairs(z @ members.T, chance, count, describe)
    tightest.count(share_of_pairs_broken=broken)


def sets_sides(w: Witness, design: sampling.Design) -> Sides:
    """The chances of the set of lower and of higher sum, by enumeration."""
    z, high, low = w["log_weights"], tuple(w["high"]), tuple(w["low"])
    if w["design"] != design or not plain.total(z, high) > plain.total(z, low):
        return NOT_SO
    law = plain.law_of(z, len(high), design)
    return law[low], law[high]


def immediate_gains(cohort: Cohort, k: int, horizon: int, gamma: float, c: float) -> Floats:
    """What FairMyopic draws by: the gain of the next step, at every t [T, n, S]."""
    return np.repeat(cohort.immediate_gain[None], horizon, axis=0)


def search_true_values(
    tightest: Search,
    gains: Gains,
    design: sampling.Design,
    n: int = 5,
    k: int = 2,
    horizon: int = 6,
    gamma: float = 1.0,
    c: float = 3.0,
    count: int = 30,
    seed: int = 0,
) -> None:
    """Theorem 3 by the true Q*, as Definition 1 has it: no set is favoured over one of higher Q*.

    It fails for 2.4 % of the pairs by priced gains and joint draws, and for some 3.4 % by Algorithm
    1 and successive draws; pairs are counted over all states and times, on the paper's own arms.
    Even where Pr follows the sum of lambda exactly, lambda is not Q* (see
    :func:`softfair.theory.optimality.search_decomposition`). At the last decision it is, and the
    joint design is fair.
    """
    p = natural(count, n, seed)
    joint = Joint.of(p, k)
    Q, _ = joint.backward(horizon, gamma, highest)
    tables = stacked([gains(Cohort.two_state(one), k, horizon, gamma, c) for one in p])
    # The joint design orders sets by the sum of lambda; the sum has no rounding of exponentials.
    order = joint.scores(tables) if design == "joint" else joint.draws(tables, c, design)
    likely, worth = (np.swapaxes(x, -1, -2).reshape(-1, len(joint.members)) for x in (order, Q))

    def describe(row: int, x: int, y: int) -> dict[str, Any]:
        t, b, s = (int(at) for at in np.unravel_index(row, (horizon, count, len(joint.states))))
        return dict(
            p=p[b],
            k=k,
            T=horizon,
            gamma=gamma,
            c=c,
            t=t,
            s=joint.states[s],
            gains=tables[t, b],
            design=design,
            high=arms_of(joint.members[x]),
            low=arms_of(joint.members[y]),
        )

    broken = tightest.add_pairs(likely, worth, count, describe, ties=True)
    tightest.count(share_of_pairs_broken=broken)


def true_values_sides(w: Witness, design: sampling.Design) -> Sides:
    """Q* of the set that is no less likely and of the other; nothing if it is less likely.

    At t = T - 1 lambda is the gain of the next step; elsewhere it is taken from the witness.
    """
    last = w["t"] == w["T"] - 1
    if w["design"] != design or (last and not plain.next_gains(w["p"], w["gains"])):
        return NOT_SO
    s, high, low = tuple(w["s"]), tuple(w["high"]), tuple(w["low"])
    law = plain.law_of(
        [w["c"] * row[state] for row, state in zip(w["gains"], s, strict=True)],
        w["k"],
        design,
    )
    if law[high] < law[low] * (1 - 1e-12):
        return NOT_SO
    Q = plain.tables(w, plain.best)[w["t"]][s]
    return Q[low], Q[high]


def search_fair_myopic(
    tightest: Search, horizon: int = 6, k: int = 2, count: int = 10, seed: int = 0
) -> None:
    """Section 5: FairMyopic "is indeed unfair under our proposed fairness constraints". It is.

    The instance looked for has a set that FairMyopic makes no less likely though its Q* is lower:
    the same search as for SoftFair, with the sides exchanged.
    """
    inner = Search()
    search_true_values(
        inner,
        immediate_gains,
        "successive",
        k=k,
        horizon=horizon,
        c=1.0,
        count=count,
        seed=seed,
    )
    w = inner.witness
    tightest.add(w.pop("right"), w.pop("left"), inner.tried, lambda _: w)
    tightest.count(**inner.counted)


def fair_myopic_sides(w: Witness) -> Sides:
    """Q* of the set that is no less likely, and of the other; lambda is the next step's gain."""
    if not plain.next_gains(w["p"], w["gains"]):
        return NOT_SO
    low, high = true_values_sides(w, "successive")
    return high, low


def search_definition_1(
    tightest: Search,
    cs: Sequence[float] = (0.0, math.inf),
    n: int = 4,
    k: int = 2,
    count: int = 50,
    seed: int = 0,
) -> None:
    """Theorem 3's trade-off: SoftFair is fair by Definition 1 at both ends, c = 0 and c = inf.

    By the letter it is fair at neither. Definition 1 allows pi(a) >= pi(a') only if
    Q(a) >= Q(a'), so equal chances demand equal values. A lottery (c = 0) gives equal chances to
    sets of unequal Q, and the top k (c = inf) chance 0 to all the others. With Q the sum of lambda
    and 0 < c < inf the `joint` design is fair to the letter.
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
    """The values of the set that is less likely or tied, and of the other."""
    c, gain = float(w["c"]), w["gains"]
    high, low = plain.total(gain, w["high"]), plain.total(gain, w["low"])
    top = sum(sorted(gain)[-len(w["high"]) :])
    tied_at_infinity = c == math.inf and not math.isclose(low, top)
    return (low, high) if c == 0 or high >= low or tied_at_infinity else NOT_SO


def rising_law(sums: Floats, rng: np.random.Generator) -> Floats:
    """A random law [B, A] in the order of the sums [B, A]: any policy that is fair to sets."""
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
    """Definition 2, first statement to second: whoever orders sets by Q orders arms by lambda.

    It holds where Q is a sum of lambda. Exchange j for i in every set that has j alone: each
    becomes likelier, and their sum too. (k < n: with k = n all arms are equally certain.)
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
    """The law of the witness by set; empty if it is not one, or one over other sets."""
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
    """Definition 2, second statement to first: whoever orders arms by lambda orders sets by Q.

    It fails for 1 < k < n - 1. Take any law over sets, and as lambda any numbers in the order of
    its inclusion probabilities: the second statement holds, the first as a rule does not. So the
    two statements are not equivalent. For k = 1 and k = n - 1 a set is an arm, or all but one:
    there they are.
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


def search_product(
    tightest: Search,
    most: Callable[[int, int], float] = lambda n, k: 1.0,
    sizes: Sequence[tuple[int, int]] = ((4, 2), (6, 3), (10, 3), (100, 10)),
    count: int = 10,
    seed: int = 0,
) -> None:
    """Appendix: Pr(set) is the product of the inclusion probabilities of its arms.

    These products do not sum to 1 unless k = 1. The sum is the k-th elementary symmetric
    polynomial at a point whose coordinates sum to k, and it is Schur-concave: 1 if the choice is
    certain, more otherwise, at most C(n, k) (k/n)^k, a lottery's (``most``). That is 1731 at the
    paper's n = 100, k = 10.
    """
    rng = np.random.default_rng([seed, 8])
    for (n, k), spread in product(sizes, (0.0, *np.geomspace(0.1, 10, count - 1))):
        chance = sampling.inclusion(spread * rng.normal(size=n), k, "successive")
        e = np.eye(1, k + 1)[0]  # elementary symmetric polynomials of the arms so far
        for x in chance:
            e[1:] += x * e[:-1]

        def describe(
            _: int, n: int = n, k: int = k, chance: Floats = chance, e: Floats = e
        ) -> dict[str, Any]:
            return dict(n=n, k=k, inclusion=chance, sum=e[k])

        tightest.add(1.0, e[k] + 1e-9, 0, describe)  # 1e-9: inclusion is exact to 1e-10 an arm
        tightest.add(e[k], most(n, k) + 1e-9, 1, describe)


def product_sides(w: Witness, most: Callable[[int, int], float]) -> Sides:
    """The sum of the products and its bound, or 1 and the sum, whichever is nearer."""
    n, k = len(w["inclusion"]), w["k"]
    products = plain.elementary(w["inclusion"], k)
    if n != w["n"] or not plain.close(products, w["sum"]):
        return NOT_SO
    if most(n, k) - products < products - 1:
        return products, most(n, k) + 1e-9
    return 1.0, products + 1e-9


def most_of_products(n: int, k: int) -> float:
    """C(n, k) (k/n)^k: the sum of the products when all arms are equally likely."""
    return math.comb(n, k) * (k / n) ** k


def floor_joint(n: int, k: int, D: float) -> float:
    """k e^-D / (n - k + k e^-D): the least joint inclusion when c lambda has a range of D."""
    return k * math.exp(-D) / (n - k + k * math.exp(-D))


def floor_successive(n: int, k: int, D: float) -> float:
    """1 - prod_{j < k} (1 - e^-D / (e^-D + n - 1 - j)): the least successive inclusion."""
    missed = 1.0
    for j in range(k):
        missed *= 1 - math.exp(-D) / (math.exp(-D) + n - 1 - j)
    return 1 - missed


FLOORS: dict[sampling.Design, Callable[[int, int, float], float]] = {
    "joint": floor_joint,
    "successive": floor_successive,
}


def search_floor(
    tightest: Search,
    design: sampling.Design,
    floor: Callable[[int, int, float], float] | None = None,
    sizes: Sequence[tuple[int, int]] = ((2, 1), (4, 1), (5, 2), (6, 3), (6, 5)),
    count: int = 40,
    seed: int = 0,
) -> None:
    """Beyond the paper: with D the range of c lambda, no arm's chance is below a floor.

    The chance of the arm of lowest weight falls as any other weight grows, so it is least when all
    others are at the top, D above it. Then it is the floor: the bound is attained, and D -> 0 gives
    a lottery's k/n. Tried with all others at the top, and at random.
    """
    rng = np.random.default_rng([seed, 10])
    for (n, k), D in product(sizes, (0.0, 0.5, 2.0, 6.0)):
        z = D * rng.random((max(1, count // 20), n))
        z[:, 0], z[:, 1] = 0.0, D
        z[0, 1:] = D
        chance = np.array([sampling.inclusion(row, k, design) for row in z])
        tightest.add(
            (floor or FLOORS[design])(n, k, D),
            chance.min(axis=1),
            len(z),
            lambda b, z=z, k=k: dict(log_weights=z[b], k=k, design=design),
        )


def floor_sides(w: Witness, design: sampling.Design) -> Sides:
    """The floor, in the words of its formula, and the least chance by enumeration."""
    z, k = w["log_weights"], w["k"]
    if w["design"] != design:
        return NOT_SO
    law = plain.law_of(z, k, design)
    least = min(plain.inclusion_of(law, i) for i in range(len(z)))
    weight = math.exp(min(z) - max(z))
    if design == "joint":
        return k * weight / (len(z) - k + k * weight), least
    rest = [1 - weight / (weight + len(z) - 1 - j) for j in range(k)]
    return 1 - math.prod(rest), least


def _arms_claim(design: sampling.Design) -> Claim:
    return Claim(
        f"theorem-3-arms-{design}",
        f"By the {design} design, of two arms the one of higher lambda is at least as likely to be "
        "helped.",
        "probability",
        partial(search_arms, design=design),
        partial(arms_sides, design=design),
        60,
    )


def _sets_claim(design: sampling.Design, instead: Claim | None = None) -> Claim:
    return Claim(
        f"theorem-3-sets-{design}",
        f"By the {design} design, of two sets the one of the higher sum of lambda is at least as "
        "likely to be helped.",
        "probability",
        partial(search_sets, design=design),
        partial(sets_sides, design=design),
        200,
        instead=instead,
    )


def _floor_claim(design: sampling.Design, formula: str) -> Claim:
    return Claim(
        f"floor-{design}",
        f"By the {design} design no arm's chance is below {formula}, D the range of c lambda.",
        "probability",
        partial(search_floor, design=design),
        partial(floor_sides, design=design),
        40,
    )


SETS_JOINT = _sets_claim("joint")
TRUE_VALUES_LAST = Claim(
    "theorem-3-last",
    "With one decision left, the joint design makes no set of arms likelier than one whose true Q* "
    "is higher.",
    "reward (Q* of two sets, the likelier one lower)",
    partial(search_true_values, gains=priced_gains, design="joint", horizon=1),
    partial(true_values_sides, design="joint"),
    30,
)
TRUE_VALUES = Claim(
    "theorem-3-true-values",
    "SoftFair by priced gains and joint draws never makes a set of arms likelier than one whose "
    "true Q* is higher.",
    "reward (Q* of two sets, the likelier one lower)",
    partial(search_true_values, gains=priced_gains, design="joint"),
    partial(true_values_sides, design="joint"),
    30,
    instead=TRUE_VALUES_LAST,
)
TRUE_VALUES_ALGORITHM_1 = Claim(
    "theorem-3-true-values-algorithm-1",
    "SoftFair by Algorithm 1 and successive draws never makes a set of arms likelier than one "
    "whose true Q* is higher.",
    "reward (Q* of two sets, the likelier one lower)",
    partial(search_true_values, gains=algorithm_1_gains, design="successive"),
    partial(true_values_sides, design="successive"),
    30,
    instead=TRUE_VALUES_LAST,
)
FAIR_MYOPIC = Claim(
    "fair-myopic-unfair",
    "FairMyopic makes some set of arms no less likely than another whose true Q* is higher.",
    "reward (Q* of two sets, the likelier one lower)",
    search_fair_myopic,
    fair_myopic_sides,
    10,
    kind=Existence,
)
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
PRODUCT_RANGE = Claim(
    "appendix-product-range",
    "The products of the arms' inclusion probabilities sum to at least 1 and at most "
    "C(n, k) (k/n)^k over all sets of k arms.",
    "sum over all sets, within its range",
    partial(search_product, most=most_of_products),
    partial(product_sides, most=most_of_products),
    20,
)
PRODUCT = Claim(
    "appendix-product",
    "The products of the arms' inclusion probabilities are a probability law over sets of k arms.",
    "sum over all sets, away from 1",
    search_product,
    partial(product_sides, most=lambda n, k: 1.0),
    20,
    instead=PRODUCT_RANGE,
)

CLAIMS = (
    _arms_claim("successive"),
    _arms_claim("joint"),
    _sets_claim("successive", instead=SETS_JOINT),
    SETS_JOINT,
    TRUE_VALUES,
    TRUE_VALUES_ALGORITHM_1,
    TRUE_VALUES_LAST,
    FAIR_MYOPIC,
    DEFINITION_1_ENDS,
    DEFINITION_1_BETWEEN,
    SETS_TO_ARMS,
    ARMS_TO_SETS,
    PRODUCT,
    PRODUCT_RANGE,
    _floor_claim("joint", "k e^-D / (n - k + k e^-D)"),
    _floor_claim("successive", "1 - prod_{j<k} (1 - e^-D / (e^-D + n - 1 - j))"),
)
