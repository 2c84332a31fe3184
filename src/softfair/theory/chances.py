"""Chances of arms: the products in the appendix, and the least possible chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from .. import sampling
from ..cohort import Floats
from . import plain
from .claim import NOT_SO, Claim, Search, Sides, Witness

__all__ = ["CLAIMS"]


def search_product(
    tightest: Search,
    most: Callable[[int, int], float] = lambda n, k: 1.0,
    sizes: Sequence[tuple[int, int]] = ((4, 2), (6, 3), (10, 3), (100, 10)),
    count: int = 10,
    seed: int = 0,
) -> None:
    """Appendix: Pr(set) is the product of the inclusion probabilities of its arms.

    These products do not sum to 1 unless k = 1. Their sum is the k-th elementary symmetric
    polynomial at a point whose coordinates sum to k. This polynomial is Schur-concave, so the sum
    is 1 if the choice is certain, larger otherwise, and at most the value C(n, k) (k/n)^k of a
    lottery (``most``), which is 1731 at n = 100 and k = 10, the values of the paper.
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
    """The sum of the products and its bound, or 1 and the sum, whichever are nearer."""
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
    """k e^-D / (n - k + k e^-D): the least joint inclusion if c lambda has the range D."""
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

    The chance of the arm of lowest weight falls if any other weight grows, so it is least if all
    other log-weights are D above. Then it equals the floor, so that the bound is attained; as
    D -> 0 it becomes the k/n of a lottery. The search tries all others at the top, and random
    log-weights.
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
    """The floor by its formula, and the least chance by enumeration."""
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


def _floor_claim(design: sampling.Design, formula: str) -> Claim:
    return Claim(
        f"floor-{design}",
        f"By the {design} design no arm's chance is below {formula}, D the range of c lambda.",
        "probability",
        partial(search_floor, design=design),
        partial(floor_sides, design=design),
        40,
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
    PRODUCT,
    PRODUCT_RANGE,
    _floor_claim("joint", "k e^-D / (n - k + k e^-D)"),
    _floor_claim("successive", "1 - prod_{j<k} (1 - e^-D / (e^-D + n - 1 - j))"),
)
