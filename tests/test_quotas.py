"""Draws in which sets of arms have bounds: closed form, brute force, properties, statistics."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import softfair as sf
from softfair.errors import Infeasible, InvalidInput
from softfair.quotas import Quota


def keeps(chosen, quotas):
    """Whether a set of arms is within all bounds."""
    return all(
        quota.least
        <= len(set(chosen) & set(np.asarray(quota.arms).tolist()))
        <= (math.inf if quota.most is None else quota.most)
        for quota in quotas
    )


def law_of(z, k, quotas):
    """{set: probability} by enumeration; empty if no set is within the bounds."""
    sets = [H for H in itertools.combinations(range(len(z)), k) if keeps(H, quotas)]
    logs = np.array([z[list(H)].sum() for H in sets])
    weights = np.exp(logs - logs.max()) if sets else logs
    return dict(zip(sets, weights / weights.sum(), strict=True))


def chances_of(law, n):
    return np.array([sum(p for H, p in law.items() if i in H) for i in range(n)])


@st.composite
def problems(draw, most_arms=8):
    """Log-weights, k, and bounds on the branches of a random tree of sets."""
    n = draw(st.integers(2, most_arms))
    k = draw(st.integers(0, n))
    z = np.array(draw(st.lists(st.floats(-30, 30), min_size=n, max_size=n)))
    order = draw(st.permutations(range(n)))
    quotas = []
    stretches = [(0, n)]
    while stretches:
        low, high = stretches.pop()
        size = high - low
        if size > 0 and draw(st.booleans()):
            # Mostly bounds that can be met: half a size or less from below, half or more above.
            least = draw(st.integers(0, (size + 1) // 2))
            most = draw(st.one_of(st.none(), st.integers(max(least, size // 2), size)))
            quotas.append(Quota(order[low:high], least, most))
        if size > 1:
            middle = draw(st.integers(low + 1, high - 1))
            stretches += [(low, middle), (middle, high)]
    return z, k, quotas


def test_one_of_two_pairs():
    """Two of four arms of weights 1, 2, 3, 4, at most one of the last two.

    The pairs weigh 12: 2, 13: 3, 14: 4, 23: 6, 24: 8, in all 23.
    """
    chances = sf.quotas.inclusion(np.log([1.0, 2, 3, 4]), 2, [Quota([2, 3], most=1)])
    np.testing.assert_allclose(chances, np.array([9, 16, 9, 12]) / 23, rtol=1e-12)


def test_households_of_two_are_one_arm_each():
    """At most one of each of three equal households, two places: each household 2/3."""
    houses = [Quota([2 * h, 2 * h + 1], most=1) for h in range(3)]
    np.testing.assert_allclose(sf.quotas.inclusion(np.zeros(6), 2, houses), 1 / 3, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 60, 270, 300])
def test_many_households_are_drawn_as_if_each_were_one_arm(k):
    """At most one of each of 300 households: they are k of 300 arms of the summed weights.

    Independent arms that keep "at most one" on average are far from keeping it each.
    """
    z = np.random.default_rng(2).normal(size=(300, 4)) * 2
    houses = [Quota(range(4 * h, 4 * h + 4), most=1) for h in range(300)]
    chances = sf.quotas.inclusion(z.ravel(), k, houses).reshape(300, 4)
    weights = np.exp(z)
    together = sf.sampling.inclusion(np.log(weights.sum(axis=1)), k, "joint")
    np.testing.assert_allclose(chances.sum(axis=1), together, rtol=1e-9)
    shares = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chances, together[:, None] * shares, rtol=1e-8)
    arms = sf.quotas.draw(z.ravel(), k, houses, np.random.default_rng(0))
    assert len(arms) == k == len(set((arms // 4).tolist()))


@pytest.mark.parametrize(
    ("m", "k", "share", "weight"),
    [
        (600, 400, 0.7, 3.0),
        (1000, 400, 0.7, 1.6),
        pytest.param(5000, 500, 0.6, 1.0, marks=pytest.mark.slow),
    ],
)
def test_many_mixed_households(m, k, share, weight):
    """Households of one of the north, weight 1, and one of the south: chances to 1e-11.

    All households are alike. So b of the k places go to the north with probability proportional to
    C(k, b) weight^(k - b), b at least a share of k, and everybody of the north has E b / m.
    Independent arms that keep the bounds on average are far from such households.
    """
    b = np.arange(math.ceil(share * k), k + 1)
    north = Quota(np.arange(0, 2 * m, 2), int(b[0]), name="north")
    houses = [Quota([2 * h, 2 * h + 1], most=1) for h in range(m)]
    chances = sf.quotas.inclusion(np.tile([0.0, np.log(weight)], m), k, [north, *houses])
    logs = (k - b) * np.log(weight) - [math.lgamma(a + 1) + math.lgamma(k - a + 1) for a in b]
    law = np.exp(logs - np.max(logs))
    expected = float(law @ b / law.sum()) / m
    np.testing.assert_allclose(chances[::2], expected, rtol=1e-11)
    np.testing.assert_allclose(chances[1::2], k / m - expected, rtol=1e-11)


def test_without_bounds_it_is_the_joint_design():
    z = np.random.default_rng(0).normal(size=30)
    for quotas in ([], [Quota([1, 2], least=0)], [Quota(range(30), least=7, most=7)]):
        np.testing.assert_array_equal(
            sf.quotas.inclusion(z, 7, quotas), sf.sampling.inclusion(z, 7, "joint")
        )


@settings(max_examples=150, deadline=None)
@given(problems())
def test_chances_are_those_of_the_enumerated_law(problem):
    z, k, quotas = problem
    law = law_of(z, k, quotas)
    if not law:
        with pytest.raises(Infeasible):
            sf.quotas.inclusion(z, k, quotas)
        with pytest.raises(Infeasible):
            sf.quotas.draw(z, k, quotas, np.random.default_rng(0))
        return
    chances = sf.quotas.inclusion(z, k, quotas)
    np.testing.assert_allclose(chances, chances_of(law, len(z)), atol=1e-10)
    assert chances.sum() == pytest.approx(k, abs=1e-9)
    for seed in range(3):
        arms = sf.quotas.draw(z, k, quotas, np.random.default_rng(seed))
        assert tuple(arms.tolist()) in law


@pytest.mark.slow
def test_draws_have_the_law():
    """Chi-square over all 15 sets: the 99.99 % quantile with 14 degrees of freedom is 42.6."""
    z = np.array([0.0, 1.0, -0.5, 0.3, 2.0, 0.2])
    quotas = [Quota([0, 1, 2], least=1, most=2), Quota([0, 1], most=1), Quota([4], most=1)]
    law = law_of(z, 3, quotas)
    rng = np.random.default_rng(3)
    N, seen = 1000, dict.fromkeys(law, 0)
    for _ in range(N):
        seen[tuple(sf.quotas.draw(z, 3, quotas, rng).tolist())] += 1
    statistic = sum((seen[H] - N * p) ** 2 / (N * p) for H, p in law.items())
    assert len(law) == 15
    assert statistic < 42.6


def test_weights_far_apart_choose_the_best_that_is_allowed():
    """A spread of 1e6 leaves nothing to chance: the best of arms 0-4, then the best of all."""
    z = np.array([1.0, 3, 2, 0, -4, 9, 8, 7, 6, 5]) * 1e5
    quotas = [Quota(range(5), least=2)]
    chances = sf.quotas.inclusion(z, 4, quotas)
    np.testing.assert_allclose(chances, [0, 1, 1, 0, 0, 1, 1, 0, 0, 0], atol=1e-12)
    arms = sf.quotas.draw(z, 4, quotas, np.random.default_rng(0))
    assert arms.tolist() == [1, 2, 5, 6]


@settings(max_examples=60, deadline=None)
@given(problems(), st.floats(1, 1e5), st.integers(0, 2**32))
@example((np.array([0.0, 0, 0, 2, 2, 2]), 4, [Quota([0], 1), Quota([1], 1)]), 125.0, 0)
def test_draws_keep_the_bounds_at_any_spread(problem, spread, seed):
    z, k, quotas = problem
    try:
        arms = sf.quotas.draw(z * spread, k, quotas, np.random.default_rng(seed))
    except Infeasible:
        return
    assert len(arms) == k
    assert keeps(arms.tolist(), quotas)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_of_two_arms_in_the_same_sets_the_heavier_has_the_better_chance(problem):
    z, k, quotas = problem
    z = np.round(z, 1)  # ties
    try:
        chances = sf.quotas.inclusion(z, k, quotas)
    except Infeasible:
        return
    for i, j in itertools.permutations(range(len(z)), 2):
        alike = all((i in q.arms) == (j in q.arms) for q in quotas)
        if alike and z[i] >= z[j]:
            assert chances[i] >= chances[j] - 1e-12


def test_a_chain_of_a_thousand_sets():
    """Nested sets as deep as they come: every second arm of the first 2000 is due."""
    n = 2000
    quotas = [Quota(range(2 * j), least=j) for j in range(1, n // 2 + 1)]
    z = np.random.default_rng(1).normal(size=n)
    arms = sf.quotas.draw(z, n // 2, quotas, np.random.default_rng(0))
    taken = np.cumsum(np.isin(np.arange(n), arms))
    assert (taken[1::2] >= np.arange(1, n // 2 + 1)).all()


def test_large_draws_agree_with_their_chances():
    """Strata of 20,000 arms: the count of each is within its bounds, chances sum to k."""
    rng = np.random.default_rng(4)
    n, k = 20_000, 1000
    z = rng.normal(size=n) * 3
    strata = np.sort(rng.integers(0, 10, n))
    quotas = [Quota(np.flatnonzero(strata == g), least=90, most=110) for g in range(10)]
    chances = sf.quotas.inclusion(z, k, quotas)
    assert chances.sum() == pytest.approx(k, abs=1e-8)
    arms = sf.quotas.draw(z, k, quotas, rng)
    counts = np.bincount(strata[arms], minlength=10)
    assert counts.sum() == k
    assert counts.min() >= 90
    assert counts.max() <= 110
    by_stratum = np.bincount(strata, weights=chances, minlength=10)
    assert by_stratum.min() >= 90
    assert by_stratum.max() <= 110


@pytest.mark.parametrize(
    ("quotas", "says"),
    [
        ([Quota([0, 0], 1)], "set 0 names an arm twice"),
        ([Quota([0, 9], 1)], "set 0[1] is 9 (1 of 2 entries are wrong)"),
        ([Quota([0, 1], -1)], "least of set 0 is -1"),
    ],
)
def test_what_cannot_be_used_is_refused(quotas, says):
    with pytest.raises(InvalidInput) as caught:
        sf.quotas.inclusion(np.zeros(4), 2, quotas)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("quotas", "says"),
    [
        ([Quota([0, 1], 3, name="north")], "north at least 2 instead of 3"),
        ([Quota([0, 1], 2, name="a"), Quota([2, 3], 1, name="b")], "at least"),
        ([Quota([0, 1, 2], 0, 0, name="a")], "a at most 1 instead of 0"),
        ([Quota([0, 1], 2, name="a"), Quota([1, 2], 0, 0, name="b")], "no 2 of 4 arms keep all"),
        ([Quota([0, 1, 2, 3], most=1)], "2 arms cannot be drawn with at most one of each of 1"),
    ],
)
def test_what_no_draw_can_keep_is_refused(quotas, says):
    with pytest.raises(Infeasible) as caught:
        sf.quotas.draw(np.zeros(4), 2, quotas, np.random.default_rng(0))
    assert says in str(caught.value)


# ---- sets that cross ----


@st.composite
def crossing_problems(draw, most_arms=8):
    """Log-weights, k, and bounds on any sets: columns that cross, and households."""
    n = draw(st.integers(2, most_arms))
    k = draw(st.integers(0, n))
    z = np.array(draw(st.lists(st.floats(-30, 30), min_size=n, max_size=n)))
    quotas = []
    for _ in range(draw(st.integers(1, 3))):  # a column of up to three values
        codes = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
        for value in range(draw(st.integers(1, 3))):
            arms = np.flatnonzero(codes == value)
            least = draw(st.integers(0, (len(arms) + 1) // 2))
            most = draw(st.one_of(st.none(), st.integers(max(least, len(arms) // 2), n)))
            quotas.append(Quota(arms, least, most, name=f"set {len(quotas)}"))
    houses = np.array(draw(st.lists(st.integers(0, n), min_size=n, max_size=n)))
    if draw(st.booleans()):
        quotas += [Quota(np.flatnonzero(houses == h), most=1) for h in np.unique(houses)]
    return z, k, quotas


def test_two_columns_of_two():
    """Four arms, one of each kind; two are drawn, one woman and one of the north: 2 of 6 pairs.

    Arms are north/south times woman/man; pairs with one woman and one of the north are
    {north woman, south man} and {north man, south woman}, of weights 1 * 4 and 2 * 3.
    """
    north, women = Quota([0, 1], 1, 1), Quota([0, 2], 1, 1)
    chances = sf.quotas.inclusion(np.log([1.0, 2, 3, 4]), 2, [north, women])
    np.testing.assert_allclose(chances, [0.4, 0.6, 0.6, 0.4], rtol=1e-12)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(crossing_problems())
def test_sets_may_cross(problem):
    """Chances against enumeration; impossible bounds are refused with a possible relaxation."""
    z, k, quotas = problem
    law = law_of(z, k, quotas)
    if not law:
        with pytest.raises(Infeasible):
            sf.quotas.inclusion(z, k, quotas)
        return
    chances = sf.quotas.inclusion(z, k, quotas)
    np.testing.assert_allclose(chances, chances_of(law, len(z)), atol=1e-9)
    assert chances.sum() == pytest.approx(k, abs=1e-9)
    for seed in range(3):
        arms = sf.quotas.draw(z, k, quotas, np.random.default_rng(seed))
        assert tuple(arms.tolist()) in law


def with_least(quota, least):
    return Quota(quota.arms, least, quota.most, quota.name)


def with_most(quota, most):
    return Quota(quota.arms, quota.least, most, quota.name)


@settings(max_examples=100, deadline=None)
@given(crossing_problems(6))
def test_the_smallest_relaxation_is_the_smallest(problem):
    """Compared with all relaxations by as many places or fewer, over all sets of k arms."""
    z, k, quotas = problem
    n = len(z)

    def gives_way(chosen):
        """The places by which bounds must be relaxed for a set; None if a household has two."""
        total = 0
        for quota in quotas:
            held = len(set(chosen) & set(np.asarray(quota.arms).tolist()))
            most = n if quota.most is None else quota.most
            if quota.most == 1 and quota.least == 0 and held > 1:
                return math.inf
            total += max(0, quota.least - held) + max(0, held - most)
        return total

    fewest = min(gives_way(one) for one in itertools.combinations(range(n), k))
    if math.isinf(fewest):
        return
    found = sf.quotas.relaxed(n, k, quotas)
    assert sum(abs(one.asked - one.possible) for one in found) == fewest
    loosened = list(quotas)
    for one in found:
        change = with_least if one.least else with_most
        loosened[one.quota] = change(loosened[one.quota], one.possible)
    assert law_of(z, k, loosened)


@pytest.mark.slow
def test_draws_by_luck_have_the_law_where_sets_cross():
    """Two columns and a household of two kinds: chi-square over all sets that are allowed."""
    from scipy.stats import chi2

    z = np.array([0.0, 1.0, -0.5, 0.3, 0.7, 0.2, -0.2])
    quotas = [
        Quota([0, 1, 2], 1, 2),
        Quota([0, 3, 4], 1),
        Quota([2, 3], most=1),
        Quota([5, 6], most=1),
    ]
    law = law_of(z, 3, quotas)
    rng, N, seen = np.random.default_rng(5), 1500, dict.fromkeys(law, 0)
    for _ in range(N):
        luck = rng.integers(0, 2**64, (7, 2), dtype=np.uint64)
        coins = iter(lambda: float(rng.random()), None)
        seen[tuple(sf.quotas.draw_by_luck(z, 3, quotas, luck, coins).tolist())] += 1
    expected = N * np.array(list(law.values()))
    statistic = sum((seen[H] - e) ** 2 / e for H, e in zip(law, expected, strict=True))
    assert expected.min() > 5
    assert statistic < chi2.isf(1e-5, len(law) - 1)


def test_the_order_of_arms_does_not_matter_where_sets_cross():
    rng = np.random.default_rng(6)
    n, k = 60, 12
    z, houses = rng.normal(size=n), rng.integers(0, 25, n)
    north, women = rng.random(n) < 0.4, rng.random(n) < 0.5
    luck, order = rng.integers(0, 2**64, (n, 2), dtype=np.uint64), rng.permutation(n)

    def drawn(some):
        quotas = [Quota(np.flatnonzero(north[some]), 6), Quota(np.flatnonzero(women[some]), 5, 7)]
        sets = [np.flatnonzero(houses[some] == h) for h in range(25)]
        quotas += [Quota(arms, most=1) for arms in sets if len(arms)]
        coins = iter(np.random.default_rng(1).random(1000).tolist())
        return set(some[sf.quotas.draw_by_luck(z[some], k, quotas, luck[some], coins)].tolist())

    assert drawn(np.arange(n)) == drawn(order)


@pytest.mark.parametrize(("n", "k"), [(3000, 60), (20_000, 1000)])
def test_large_draws_with_crossing_sets(n, k):
    """Two columns at once: counts within their bounds, chances that sum to k and to each bound."""
    rng = np.random.default_rng(7)
    z, region, women = rng.normal(size=n) * 2, rng.integers(0, 3, n), rng.random(n) < 0.3
    quotas = [
        Quota(np.flatnonzero(region == 0), 2 * k // 5, name="north"),
        Quota(np.flatnonzero(region == 1), most=k // 5, name="south"),
        Quota(np.flatnonzero(women), k // 2, k // 2, name="women"),
    ]
    chances = sf.quotas.inclusion(z, k, quotas)
    assert chances.sum() == pytest.approx(k, abs=1e-7)
    assert chances[women].sum() == pytest.approx(k // 2, abs=1e-7)
    arms = sf.quotas.draw(z, k, quotas, rng)
    assert keeps(arms.tolist(), quotas)
    for code in range(3):  # of two arms in the same sets the heavier has the better chance
        for sex in (True, False):
            some = (region == code) & (women == sex)
            assert (np.diff(chances[some][np.argsort(z[some])]) >= 0).all()
