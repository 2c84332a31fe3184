"""Reserves: an order, exact chances, and nobody who is on the list."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import softfair as sf
from softfair.errors import InvalidInput

Z = np.array([0.5, -1.0, 2.0, 0.0, 1.0])
LISTED = [2]
REST = [0, 1, 3, 4]


def law_of(count):
    """{order: probability} of the race, by its definition."""
    w = np.exp(Z)
    law = {}
    for order in itertools.permutations(REST, count):
        chance, left = 1.0, sum(w[i] for i in REST)
        for i in order:
            chance *= w[i] / left
            left -= w[i]
        law[order] = chance
    return law


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_chances_are_those_of_the_enumerated_law(count):
    law = law_of(count)
    expected = [sum(p for order, p in law.items() if i in order) for i in range(5)]
    np.testing.assert_allclose(sf.reserves.chances(Z, LISTED, count), expected, atol=1e-10)


def test_orders_come_as_often_as_the_law_says():
    """Chi-square over the 12 orders of two: 99.99 % quantile with 11 degrees of freedom is 37.4."""
    law, rng, N = law_of(2), np.random.default_rng(0), 4000
    seen = dict.fromkeys(law, 0)
    for _ in range(N):
        seen[tuple(sf.reserves.draw(Z, LISTED, 2, rng).tolist())] += 1
    assert sum((seen[o] - N * p) ** 2 / (N * p) for o, p in law.items()) < 37.4


def test_the_first_reserves_do_not_depend_on_how_many_are_drawn():
    few = sf.reserves.draw(Z, LISTED, 2, np.random.default_rng(4))
    many = sf.reserves.draw(Z, LISTED, 4, np.random.default_rng(4))
    assert many[:2].tolist() == few.tolist()
    assert sorted(many.tolist()) == REST


@pytest.mark.parametrize(
    ("listed", "count", "says"),
    [
        ([2], 5, "count is 5, 4 arms are not on the list"),
        ([9], 1, "listed[0] is 9"),
        ([1, 1], 1, "an arm is listed twice"),
    ],
)
def test_what_cannot_be_used_is_refused(listed, count, says):
    with pytest.raises(InvalidInput) as caught:
        sf.reserves.draw(Z, listed, count, np.random.default_rng(0))
    assert says in str(caught.value)
