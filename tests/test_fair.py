"""FaWT keeps its promise in every window, at the least cost in indices.

ProbFair finds the best chances, up to its gap.
"""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from softfair.cohort import Cohort
from softfair.datasets import cpap, synthetic
from softfair.errors import Infeasible, InvalidInput
from softfair.indices import whittle
from softfair.policies import probfair
from softfair.policies.fawt import FaWT, _must_help
from softfair.policies.probfair import ProbFair, _correct_sum, _neighbours
from softfair.policies.rules import Rule
from softfair.simulation import simulate

# Standard errors that a statistic may be off: a chance of 7e-6 each, and the seeds are fixed.
SD = 4.5


# FaWT


def constant_gain(gain):
    """Arms whose index is their gain in either state.

    Help adds it to a chance of 0.1, and the state makes no difference.
    """
    passive = np.full((len(gain), 2), 0.1)
    return Cohort.two_state(np.stack([passive, passive + np.asarray(gain)[:, None]], axis=1))


def walk(fitted, decisions, rng, states_of=None, runs=1):
    """Who was helped [decisions, runs, n].

    ``states_of(memory)`` gives the states [runs, n], by default at random.
    """
    n, S = fitted.cohort.n, fitted.cohort.S
    memory = fitted.memory(runs)
    helped = np.zeros((decisions, runs, n), np.uint8)
    for t in range(decisions):
        states = rng.integers(0, S, (runs, n)) if states_of is None else states_of(memory)
        for run, scores in enumerate(fitted.scores_by_run(0, states, memory)):
            helped[t, run, fitted.rule.draw(scores, fitted.k, rng)] = 1
        memory = fitted.remember_by_run(memory, 0, states, helped[t])
    return helped


def fewest(helped, window):
    """The least number of times that any arm was helped in any window of decisions."""
    total = np.concatenate(
        [np.zeros_like(helped[:1], np.int64), np.cumsum(helped, axis=0, dtype=np.int64)]
    )
    return (total[window:] - total[:-window]).min()


def test_everybody_in_turn_where_there_is_just_room():
    gain = [0.3, 0.7, 0.1, 0.5]
    fitted = FaWT(window=4).fit(constant_gain(gain), k=1, horizon=1)
    helped = walk(fitted, 12, np.random.default_rng(0))[:, 0]
    assert_array_equal(
        helped.argmax(axis=1), [1, 3, 0, 2] * 3
    )  # by index, and then for ever in that order


@pytest.mark.parametrize(
    ("window", "least", "turns_of_the_poorer"),
    [
        (5, 1, [4, 9, 14, 19]),  # once in 0..4, as late as can be, and then every fifth
        (5, 2, [3, 4, 8, 9, 13, 14, 18, 19]),
        (4, 2, [2, 3, 6, 7, 10, 11, 14, 15, 18, 19]),  # eta n = k L
    ],
)
def test_promise_overrules_index_as_late_as_it_can(window, least, turns_of_the_poorer):
    fitted = FaWT(window, least).fit(constant_gain([0.6, 0.2]), k=1, horizon=1)
    helped = walk(fitted, 20, np.random.default_rng(0))[:, 0]
    assert_array_equal(np.flatnonzero(helped[:, 1]), turns_of_the_poorer)


def test_without_need_it_is_the_index_policy():
    cohort = synthetic(n=30, seed=3)
    fitted = FaWT(window=1000).fit(cohort, k=4, horizon=1, gamma=0.9)
    states = np.random.default_rng(0).integers(0, 2, 30)
    assert_array_equal(fitted.scores(0, states), whittle(cohort, 0.9)[np.arange(30), states])


def after(ages, chosen):
    """Memory of one run, as tuples an arm, latest first, after helping the chosen."""
    return tuple(
        tuple(x + 1 for x in ((0, *ages_of[:-1]) if i in chosen else ages_of))
        for i, ages_of in enumerate(ages)
    )


def safe_memories(n, k, window, least):
    """Every memory from which the promise can be kept for ever.

    The greatest set in which each member has a successor in the set.

    No reasoning about deadlines: a memory is in if no arm waited past its window, and stays if some
    set of k leads to one in.
    """
    of_an_arm = list(combinations(range(1, window + 1), least))
    safe = set(product(of_an_arm, repeat=n))
    sets = list(combinations(range(n), k))
    while True:
        lost = {ages for ages in safe if not any(after(ages, chosen) in safe for chosen in sets)}
        if not lost:
            return safe
        safe -= lost


@pytest.mark.parametrize(
    ("n", "k", "window", "least"),
    [
        (3, 1, 3, 1),
        (3, 1, 5, 1),
        (4, 2, 3, 1),
        (5, 2, 3, 1),
        (2, 1, 5, 2),
        (3, 2, 3, 2),
        (3, 2, 4, 2),
        (3, 2, 5, 3),
        (4, 3, 4, 3),
        (3, 3, 2, 2),
    ],
)
def test_greatest_sum_of_indices_that_leaves_the_promise_keepable(n, k, window, least):
    safe = sorted(safe_memories(n, k, window, least))
    assert tuple((tuple(range(1, least + 1)),) * n) in safe  # the start
    rng = np.random.default_rng(n * window)
    index = rng.permutation(np.arange(len(safe) * n, dtype=float)).reshape(len(safe), n)  # no ties
    forced = _must_help(index, np.array(safe), k, window)
    scores = np.where(forced, 1e9, index)
    sets, members = list(combinations(range(n), k)), set(safe)
    for row, ages in enumerate(safe):
        kept = [chosen for chosen in sets if after(ages, chosen) in members]
        best = max(kept, key=lambda chosen: index[row, list(chosen)].sum())
        assert sorted(np.argsort(-scores[row])[:k]) == list(best), (ages, index[row])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    window=st.integers(1, 14),
    part=st.floats(0, 1),
    k=st.integers(1, 6),
    spare=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_promise_is_kept_at_and_near_equality(window, part, k, spare, seed):
    least = 1 + int(part * (window - 1))
    n = max(k, k * window // least - spare)
    rng = np.random.default_rng(seed)
    cohort = synthetic(n, seed=seed)
    fitted = FaWT(window, least).fit(cohort, k, horizon=1, gamma=0.95)
    index = whittle(cohort, 0.95)

    def spiteful(
        memory,
    ):  # who was helped last is in the state with the higher index, all others in the other
        lately = memory[:, :, 0] <= 2
        return np.where(lately, index.argmax(axis=1), index.argmin(axis=1))

    for states_of in (None, spiteful):
        helped = walk(fitted, 150, rng, states_of, runs=2)
        assert (helped.sum(axis=2) == k).all()
        assert fewest(helped, window) >= least


@pytest.mark.slow
def test_promise_is_kept_for_hundreds_of_decisions():
    rng = np.random.default_rng(7)
    tight = 0
    for _ in range(60):
        window, k = int(rng.integers(2, 40)), int(rng.integers(1, 12))
        least = int(rng.choice([x for x in range(1, window + 1) if k * window % x == 0]))
        most = k * window // least
        n = most if rng.random() < 0.5 else int(rng.integers(max(k, most - 3), most + 1))
        tight += least * n == k * window and 1 < least < window
        ages = np.tile(np.arange(1, least + 1), (4, n, 1))
        taste = rng.normal(size=(4, n))
        helped = np.zeros((400, 4, n), np.uint8)
        for t in range(400):
            index = [taste, rng.normal(size=(4, n)), np.round(taste), -1.0 * ages[:, :, 0]][
                t // 100
            ]  # last: whom you just helped
            scores = np.where(_must_help(index, ages, k, window), 1e9, index)
            np.put_along_axis(helped[t], np.argsort(-scores, axis=1)[:, :k], 1, axis=1)
            shifted = np.concatenate([np.zeros((4, n, 1), np.int64), ages[:, :, :-1]], axis=2)
            ages = np.where(helped[t][:, :, None] == 1, shifted, ages) + 1
        assert fewest(helped, window) >= least, (n, k, window, least)
    assert tight >= 15  # the hard case was there: no place to spare, and more than one job an arm


@pytest.mark.parametrize("unit", [2.0**-20, 1.0, 2.0**20])
def test_the_unit_of_rewards_is_immaterial_to_the_promise(unit):
    """Whoever must be helped is raised above all others, from an index of -inf above one of inf."""
    p = synthetic(n=30, seed=1).p.copy()
    p[:10] = [[0.0, 1.0], [0.5, 1.0]]  # who is not helped stays as he is: index inf in state 0
    p[10:20] = [[0.5, 1.0], [0.0, 1.0]]  # who is helped stays as he is: index -inf
    cohort = Cohort.two_state(p, reward=[0.0, unit])
    index = whittle(cohort)[:, 0]
    assert (index[:10] == np.inf).all()
    assert (index[10:20] == -np.inf).all()
    fitted = FaWT(window=6).fit(cohort, k=5, horizon=60)
    helped = walk(fitted, 60, np.random.default_rng(0), lambda memory: np.zeros((1, 30), int))
    assert fewest(helped, 6) == 1


def test_simulation_keeps_the_promise():
    fitted = FaWT(window=13).fit(synthetic(n=60, seed=1), k=5, horizon=200)
    result = simulate(fitted, runs=10, seed=0)
    assert result.waits.max() == 12  # the poorest arm waits as long as it may, and no longer
    assert (result.counts >= 200 // 13).all()
    assert (result.counts.sum(axis=1) == 5 * 200).all()


def test_scores_inclusion_and_draws_agree():
    rng = np.random.default_rng(2)
    cohort = cpap(n=12, seed=1)
    fitted = FaWT(window=7, least=2).fit(cohort, k=4, horizon=60, gamma=0.9)
    index = whittle(cohort, 0.9)
    memory, lifted = None, 0
    for t in range(60):
        states = rng.integers(0, 2, 12)
        plain = index[np.arange(12), states]
        scores, inclusion = fitted.scores(t, states, memory), fitted.inclusion(t, states, memory)
        forced = scores != plain
        lifted += forced.sum()
        assert_array_equal(inclusion[forced], 1.0)
        assert scores[forced].min(initial=np.inf) > plain.max()
        assert inclusion.sum() == pytest.approx(4, abs=1e-12)
        arms = fitted.draw(t, states, rng, memory)
        assert len(arms) == 4
        assert (inclusion[arms] > 0).all()
        assert np.isin(np.flatnonzero(inclusion == 1), arms).all()
        memory = fitted.remember(memory, t, states, arms)
    assert (
        60 < lifted < 240
    )  # some places were forced and some were free, so that both were checked


def test_infinite_indices():
    # Passive keeps an arm where it is for ever (l_0 = 1), so at gamma = 1 helping in state 0 is
    # beyond price.
    frozen = [[0.0, 1.0], [0.5, 1.0]]
    harmful = [
        [0.3, 0.8],
        [0.0, 1.0],
    ]  # active does (l_1 = 1): no subsidy is too small to leave it alone in state 0
    usual = [[0.2, 0.6], [0.4, 0.7]]
    cohort = Cohort.two_state([frozen, harmful, usual, usual, frozen, usual])
    index = whittle(cohort, 1.0)
    assert np.isposinf(index[0, 0])
    assert np.isneginf(index).any()
    fitted = FaWT(window=4).fit(cohort, k=2, horizon=1)
    states = np.zeros(6, np.int64)
    assert np.isfinite(fitted.scores(0, states)).all()
    assert_array_equal(fitted.draw(0, states, np.random.default_rng(0)), [0, 4])
    helped = walk(fitted, 200, np.random.default_rng(1), runs=3)
    assert fewest(helped, 4) == 1


def test_equal_arms_in_need_go_by_deadline():
    # Deadlines 3, 2, 3, 6 and k = 1: three jobs within 3 decisions are as many as there is room
    # for, so one of them is done now. If the indices tie it is the one due within 2, else the best
    # of the three, but not the best of all.
    fitted = FaWT(window=6).fit(constant_gain([0.4] * 4), k=1, horizon=1)
    ages = np.array([[[4], [5], [4], [1]]])
    assert_array_equal(_must_help(np.full((1, 4), 0.4), ages, 1, 6), [[False, True, False, False]])
    assert_array_equal(
        _must_help(np.array([[0.4, 0.4, 0.5, 0.9]]), ages, 1, 6), [[False, False, True, False]]
    )
    assert fitted.inclusion(0, [0, 0, 0, 0], ages)[1] == 1


def test_a_promise_broken_by_others_is_mended_within_k():
    fitted = FaWT(window=3, least=2).fit(constant_gain([0.1, 0.2, 0.3, 0.4]), k=3, horizon=1)
    states = np.zeros((1, 4), np.int64)
    ages = np.array(
        [[[7, 9], [5, 6], [1, 2], [1, 2]]]
    )  # the first two should have been helped long ago
    scores = fitted.scores_by_run(0, states, ages)[0]
    assert set(np.argsort(-scores)[:2]) == {0, 1}
    everybody_overdue = np.full((1, 4, 2), 50)
    assert (
        len(
            fitted.rule.draw(
                fitted.scores_by_run(0, states, everybody_overdue)[0], 3, np.random.default_rng(0)
            )
        )
        == 3
    )


def test_ties_are_broken_by_chance_where_nobody_is_in_need():
    fitted = FaWT(window=4).fit(
        constant_gain([0.4] * 4), k=1, horizon=1
    )  # eta n = k L, yet anybody may go first
    assert_allclose(fitted.inclusion(0, [0, 1, 0, 1]), 0.25, rtol=1e-12)


def test_everybody_at_once():
    fitted = FaWT(window=3, least=1).fit(synthetic(n=4, seed=0), k=4, horizon=1)
    assert_array_equal(fitted.draw(0, [0, 1, 0, 1], np.random.default_rng(0)), [0, 1, 2, 3])
    fitted = FaWT(window=3, least=3).fit(synthetic(n=4, seed=0), k=4, horizon=1)
    assert_array_equal(fitted.draw(0, [0, 1, 0, 1], np.random.default_rng(0)), [0, 1, 2, 3])


def test_memory_is_not_changed_in_place():
    fitted = FaWT(window=5, least=2).fit(synthetic(n=4, seed=0), k=2, horizon=5)
    memory = fitted.memory()
    kept = memory.copy()
    later = fitted.remember(memory, 0, [0, 1, 0, 1], [1, 3])
    assert_array_equal(memory, kept)
    assert_array_equal(later, [[[2, 3], [1, 2], [2, 3], [1, 2]]])


def test_no_room_for_the_promise():
    cohort = synthetic(n=100, seed=0)
    with pytest.raises(
        Infeasible,
        match=r"least n <= k window, but 200 > 190; take k=11 or more, or window=20 or more$",
    ):
        FaWT(window=19, least=2).fit(cohort, k=10, horizon=5)
    with pytest.raises(Infeasible, match=r"but 100 > 99;"):  # one too many
        FaWT(window=9).fit(cohort, k=11, horizon=5)
    FaWT(window=19, least=2).fit(cohort, k=11, horizon=5)
    FaWT(window=20, least=2).fit(cohort, k=10, horizon=5)
    with pytest.raises(Infeasible, match=r"100 > 0; take k=6 or more$"):
        FaWT(window=19).fit(cohort, k=0, horizon=5)


@pytest.mark.parametrize(
    ("window", "least", "kind", "message"),
    [
        (5, 6, Infeasible, "least <= window, but 6 > 5"),
        (5, 0, Infeasible, "1 <= least"),
        (0, 1, Infeasible, "least <= window, but 1 > 0"),
        (5.5, 1, InvalidInput, "window is 5.5"),
        (5, "x", InvalidInput, "least is 'x'"),
    ],
)
def test_windows_that_mean_nothing(window, least, kind, message):
    with pytest.raises(kind, match=message) as caught:
        FaWT(window, least)
    assert "\n" not in str(caught.value)


def test_labels():
    assert FaWT(window=20).label == "FaWT(window=20)"
    assert FaWT(window=20, least=2).label == "FaWT(window=20, least=2)"
    assert ProbFair(low=0.05).label == "ProbFair(low=0.05)"
    assert ProbFair(low=0.05, high=0.5).label == "ProbFair(low=0.05, high=0.5)"


# ProbFair


def any_arms(n, rng, rewards=True):
    """Any arms: help may harm, and the bad state may be worth more."""
    return Cohort.two_state(
        rng.random((n, 2, 2)), reward=rng.normal(size=(n, 2)) if rewards else None
    )


def arms_that_bend(n, rng, concave):
    """Helpful arms, all concave (b1 > 0: help does more in state 0), or all convex."""
    p = np.sort(rng.random((n, 4)), axis=1)
    passive, active = p[:, [0, 1]], p[:, [2, 3]]
    gain = active - passive  # [n, 2]; Delta_0 > Delta_1 wanted
    wrong = (gain[:, 0] > gain[:, 1]) != concave
    active[wrong] = passive[wrong] + gain[wrong][:, ::-1]
    return Cohort.two_state(np.clip(np.stack([passive, active], axis=1), 0, 1))


def long_run(cohort, i, p):
    """Long-run reward of arm i helped with chances p [m]: the formula of the docstring."""
    good = cohort.p[i]
    gain = good[1] - good[0]
    share = (good[0, 0] + gain[0] * p) / (1 - good[0, 1] + good[0, 0] + (gain[0] - gain[1]) * p)
    return cohort.reward[i, 0] * (1 - share) + cohort.reward[i, 1] * share


def test_share_is_the_stationary_law_of_the_mixed_chain():
    rng = np.random.default_rng(0)
    cohort = any_arms(20, rng)
    fitted = ProbFair(low=0.1, high=0.9).fit(cohort, k=8, horizon=1)
    total = 0.0
    for i, p in enumerate(fitted.chances):
        chain = (1 - p) * cohort.P[i, 0] + p * cohort.P[i, 1]
        law = np.linalg.solve(
            np.vstack([(chain.T - np.eye(2))[:1], np.ones(2)]), [0, 1]
        )  # law chain = law, sum 1
        assert_allclose(law @ chain, law, atol=1e-12)
        assert_allclose(long_run(cohort, i, p), law @ cohort.reward[i], rtol=1e-10)
        total += law @ cohort.reward[i]
    assert fitted.value == pytest.approx(total, rel=1e-12)


def test_forced_chances():
    cohort = any_arms(10, np.random.default_rng(0))
    assert_allclose(ProbFair(low=0.0).fit(cohort, k=10, horizon=1).chances, 1.0, rtol=1e-15)
    assert_array_equal(ProbFair(low=0.0).fit(cohort, k=0, horizon=1).chances, 0.0)
    for policy in (ProbFair(low=0.3, high=0.3), ProbFair(low=0.3), ProbFair(low=0.1, high=0.3)):
        assert_allclose(policy.fit(cohort, k=3, horizon=1).chances, 0.3, rtol=1e-12)


def test_equal_concave_arms_share_evenly_and_equal_convex_ones_do_not():
    concave = Cohort.two_state([[[0.1, 0.6], [0.6, 0.7]]] * 5)  # Delta_0 > Delta_1
    fitted = ProbFair(low=0.05).fit(concave, k=2, horizon=1)
    assert_allclose(fitted.chances, 0.4, rtol=1e-12)
    assert fitted.gap < 1e-12
    convex = Cohort.two_state([[[0.1, 0.4], [0.2, 0.9]]] * 5)
    fitted = ProbFair(low=0.1, high=0.9).fit(convex, k=2, horizon=1)
    assert_allclose(
        np.sort(fitted.chances), [0.1, 0.1, 0.1, 0.8, 0.9], rtol=1e-12
    )  # 2 - 5 * 0.1 = 0.8 + 0.7
    chord = long_run(convex, 0, 0.1) + 0.7 / 0.8 * (
        long_run(convex, 0, 0.9) - long_run(convex, 0, 0.1)
    )
    assert fitted.gap == pytest.approx(chord - long_run(convex, 0, 0.8), rel=1e-9)


def test_leftover_goes_to_straight_arms(monkeypatch):
    monkeypatch.setattr(
        probfair, "WORTH_CLOSING", math.inf
    )  # right at once, not only after mending
    # Chances that are sums of powers of two, so that the slopes over [0, .375] are equal to the
    # bit: 4/13 for both kinds of arm.
    convex = [[0.25, 0.25], [0.375, 0.875]]
    straight = [[0.25, 0.4375], [0.5, 0.6875]]
    fitted = ProbFair(low=0.0, high=0.375).fit(
        Cohort.two_state([convex] * 3 + [straight]), k=1, horizon=1
    )
    assert_allclose(fitted.chances, [0.375, 0.375, 0, 0.25], atol=1e-15)
    assert fitted.gap < 1e-15
    fitted = ProbFair(low=0.0, high=0.375).fit(
        Cohort.two_state([convex] * 2 + [straight] * 2), k=1, horizon=1
    )
    assert_allclose(fitted.chances, [0.375, 0.375, 0.125, 0.125], atol=1e-15)
    fitted = ProbFair(low=0.1, high=0.9).fit(Cohort.two_state([straight] * 4), k=1, horizon=1)
    assert_allclose(fitted.chances, 0.25, rtol=1e-12)


def test_concave_arms_meet_the_price():
    cohort = arms_that_bend(200, np.random.default_rng(1), concave=True)
    low, high = 0.02, 0.6
    fitted = ProbFair(low, high).fit(cohort, k=30, horizon=1)
    p, h = fitted.chances, 1e-5
    slope = np.array(
        [
            (long_run(cohort, i, p[i] + h) - long_run(cohort, i, p[i] - h)) / (2 * h)
            for i in range(200)
        ]
    )
    inside = (p > low + 1e-9) & (p < high - 1e-9)
    assert inside.sum() > 20
    assert_allclose(slope[inside], fitted.price, rtol=1e-6)
    assert (slope[p <= low + 1e-9] <= fitted.price * (1 + 1e-6)).all()
    assert (slope[p >= high - 1e-9] >= fitted.price * (1 - 1e-6)).all()
    assert fitted.gap < 1e-12


def feasible_grid(n, k, low, high, points):
    """Every grid point for the first n - 1 chances, the last what is left [m, n]."""
    free = np.stack(
        np.meshgrid(*[np.linspace(low, high, points)] * (n - 1), indexing="ij"), axis=-1
    ).reshape(-1, n - 1)
    last = k - free.sum(axis=1)
    fits = (last >= low) & (last <= high)
    return np.column_stack([free[fits], last[fits]])


@pytest.mark.parametrize("kind", ["any", "concave", "convex"])
@pytest.mark.parametrize(("n", "points"), [(2, 20001), (3, 401)])
def test_no_grid_point_is_better_by_more_than_the_gap(kind, n, points):
    rng = np.random.default_rng(n)
    exact = 0
    for _ in range(25):
        cohort = any_arms(n, rng) if kind == "any" else arms_that_bend(n, rng, kind == "concave")
        k = int(rng.integers(1, n))
        low, high = rng.uniform(0, k / n), rng.uniform(k / n, 1)
        fitted = ProbFair(low, high).fit(cohort, k, horizon=1)
        grid = feasible_grid(n, k, low, high, points)
        values = sum(long_run(cohort, i, grid[:, i]) for i in range(n))
        assert fitted.value == pytest.approx(
            sum(long_run(cohort, i, fitted.chances[i]) for i in range(n)), abs=1e-12
        )
        assert values.max() <= fitted.value + fitted.gap + 1e-11
        bump = 0.0  # what a convex arm can fall short of its chord at most
        p = np.linspace(low, high, 1001)
        for i in range(n):
            g = long_run(cohort, i, p)
            bump = max(bump, (g[0] + (g[-1] - g[0]) * (p - low) / (high - low) - g).max())
        assert fitted.gap <= bump + 1e-9
        exact += fitted.gap < 1e-11
        if kind == "concave":
            assert fitted.gap < 1e-11
    assert exact >= {"any": 5, "concave": 25, "convex": 0}[kind]


def test_convex_arms_against_every_vertex():
    # The maximum of a convex function over low <= p <= high, sum p = k is where all arms but one
    # are at a bound.
    rng = np.random.default_rng(5)
    n, k, low, high = 6, 2, 0.1, 0.8
    reached = 0
    for _ in range(40):
        cohort = arms_that_bend(n, rng, concave=False)
        fitted = ProbFair(low, high).fit(cohort, k, horizon=1)
        best = -np.inf
        for others in product((low, high), repeat=n - 1):
            rest = k - sum(others)
            if low - 1e-12 <= rest <= high + 1e-12:
                for i in range(n):
                    p = [*others[:i], rest, *others[i:]]
                    best = max(best, sum(long_run(cohort, j, p[j]) for j in range(n)))
        assert fitted.value <= best + 1e-12
        assert best <= fitted.value + fitted.gap + 1e-12
        reached += best - fitted.value < 1e-9
    assert reached >= 20  # and often it is the optimum itself


def test_no_local_search_is_better_by_more_than_the_gap():
    rng = np.random.default_rng(11)
    for _ in range(12):
        cohort, low, high = any_arms(4, rng), 0.1, 0.9
        fitted = ProbFair(low, high).fit(cohort, k=2, horizon=1)
        for _ in range(3):
            start = rng.dirichlet(np.ones(4)) * (2 - 4 * low) + low
            found = minimize(
                lambda p, cohort=cohort: -sum(long_run(cohort, i, p[i]) for i in range(4)),
                start,
                method="SLSQP",
                bounds=[(low, high)] * 4,
                constraints={"type": "eq", "fun": lambda p: p.sum() - 2},
                options={"ftol": 1e-12, "maxiter": 200},
            )
            assert -found.fun <= fitted.value + fitted.gap + 1e-8


def test_a_second_search_closes_most_of_the_gap():
    # With one price for all, a convex arm takes what is left over: .196 here. Moved to a bound, it
    # leaves the rest to concave arms.
    fitted = ProbFair(low=0.05).fit(synthetic(n=100, seed=1), k=10, horizon=1)
    assert fitted.value == pytest.approx(34.91360, abs=1e-5)
    assert fitted.gap == pytest.approx(0.0351, abs=1e-4)


chance = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 5e-324, 1e-300, 1e-11, 1e-5, 1 - 1e-11, 1 - 2**-53]),
    st.floats(0, 1),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_chances_keep_their_bounds_and_sum(data):
    n = data.draw(st.integers(1, 8))
    p = np.array(data.draw(st.lists(chance, min_size=4 * n, max_size=4 * n))).reshape(n, 2, 2)
    worth = data.draw(st.lists(st.floats(-1e3, 1e3), min_size=2 * n, max_size=2 * n))
    k = data.draw(st.integers(0, n))
    low = data.draw(st.floats(0, 1)) * k / n
    high = max(k / n + data.draw(st.floats(0, 1)) * (1 - k / n), low)
    cohort = Cohort.two_state(p, reward=np.array(worth).reshape(n, 2))
    fitted = ProbFair(low, min(high, 1.0)).fit(cohort, k, horizon=1)
    assert abs(math.fsum(fitted.chances) - k) <= 1e-15 * k
    assert fitted.chances.min() >= low - 1e-12
    assert fitted.chances.max() <= min(1.0, high + 1e-12)
    assert np.isfinite([fitted.value, fitted.price, fitted.gap]).all()
    assert fitted.gap >= 0
    even = ProbFair(k / n, k / n).fit(cohort, k, horizon=1)
    # All alike is within the bounds, so it is below the bound too.
    assert fitted.value + fitted.gap >= even.value - 1e-9 * max(1.0, np.abs(worth).max())


def test_a_hundred_thousand_arms():
    cohort = synthetic(n=100_000, seed=0)
    fitted = ProbFair(low=0.02, high=0.7).fit(cohort, k=7_001, horizon=1)
    p = fitted.chances
    assert math.fsum(p) == 7_001
    assert p.min() >= 0.02
    assert p.max() <= 0.7
    assert fitted.gap < 0.3  # an arm's worth at most, of 1e5
    rng = np.random.default_rng(0)
    low, high = np.minimum(p, 0.7 - 1e-6), np.maximum(p, 0.02 + 1e-6)
    good, gain = cohort.p, cohort.p[:, 1] - cohort.p[:, 0]
    for _ in range(20):  # move a little between pairs of arms: never better than the bound
        pair = rng.permutation(100_000)
        step = rng.uniform(0, np.minimum(0.7 - low[pair[:50_000]], high[pair[50_000:]] - 0.02))
        q = p.copy()
        q[pair[:50_000]] = low[pair[:50_000]] + step
        q[pair[50_000:]] = high[pair[50_000:]] - step
        q *= 7_001 / q.sum()
        share = (good[:, 0, 0] + gain[:, 0] * q) / (
            1 - good[:, 0, 1] + good[:, 0, 0] + (gain[:, 0] - gain[:, 1]) * q
        )
        assert share.sum() <= fitted.value + fitted.gap


def test_rounding_of_the_sum_goes_where_there_is_room():
    low, high = np.full(4, 0.1), np.full(4, 0.9)
    p = np.array([0.1, 0.9, 0.5 - 1e-13, 0.5])
    _correct_sum(p, 2, low, high)
    assert_allclose(p, [0.1, 0.9, 0.5 - 1e-13, 0.5 + 1e-13], rtol=0, atol=2e-16)
    p = np.array([0.9 - 5e-14, 0.1, 0.1, 0.9 - 5e-14])
    _correct_sum(p, 2, low, high)
    assert_allclose(p, [0.9 - 5e-14, 0.1 + 1e-13, 0.1, 0.9 - 5e-14], rtol=0, atol=2e-16)
    p = np.array([0.1, 0.1, 0.9, 0.9 + 1e-13])
    _correct_sum(p, 2, low, high)
    assert_allclose(p, [0.1, 0.1, 0.9, 0.9], rtol=0, atol=2e-16)


def test_an_arm_that_certain_help_all_but_traps():
    # The first arm is worth 1 in state 0 and 0 in state 1, where certain help would keep it, and
    # any lapse frees it: help it nearly always. The second is worth -1 in state 1, where help takes
    # it: they earn 1 - e / (x + e) and -x if the lapses are x.
    for e, x in ((1e-6, 1e-3), (1e-10, 1e-5)):
        cohort = Cohort.two_state(
            [[[0.0, 0.0], [e, 1.0]], [[0.0, 0.0], [1.0, 1.0]]], reward=[[1.0, 0.0], [0.0, -1.0]]
        )
        fitted = ProbFair(low=0.0).fit(cohort, k=1, horizon=1)
        assert 1 - fitted.chances[0] == pytest.approx(x, rel=3e-3)  # e / x^2 = 1 but for e / x
        assert fitted.gap < 1e-8
    never = Cohort.two_state(
        [[[0.0, 0.0], [1e-13, 1.0]], [[0.0, 0.0], [1.0, 1.0]]], reward=[[1.0, 0.0], [0.0, -1.0]]
    )
    fitted = ProbFair(low=0.0).fit(never, k=1, horizon=1)
    assert_allclose(fitted.chances, [1, 0], atol=1e-12)
    assert fitted.value == pytest.approx(1.0)  # the limit


def test_arms_that_an_action_keeps_where_they_are():
    passive_keeps = [
        [0.0, 1.0],
        [0.3, 0.8],
    ]  # any help at all and it is good .3 / (.3 + .2) of the time
    active_keeps = [[0.3, 0.8], [0.0, 1.0]]  # any lapse at all, the same
    both_keep = [[0.0, 1.0], [0.0, 1.0]]  # as it started
    usual = [[0.1, 0.6], [0.6, 0.7]]
    cohort = Cohort.two_state(
        [passive_keeps, active_keeps, both_keep, usual, usual], start=[0, 0, 1, 0, 0]
    )
    fitted = ProbFair(low=0.0).fit(cohort, k=2, horizon=1)
    assert_allclose(fitted.chances, [0, 0, 0, 1, 1], atol=1e-12)  # the others gain nothing by help
    assert fitted.value == pytest.approx(0.6 + 0.6 + 1 + 2 * long_run(cohort, 3, 1.0), rel=1e-12)
    harmed = Cohort.two_state(
        [[[0.5, 0.9], [0.2, 0.4]], [[0.5, 0.8], [0.1, 0.6]], passive_keeps], start=[0, 0, 0]
    )
    fitted = ProbFair(low=0.0).fit(harmed, k=1, horizon=1)
    assert_allclose(
        fitted.chances, [0, 0, 1], atol=1e-12
    )  # k must be spent; where it does no harm, at a price of zero
    assert abs(fitted.price) < 1e-300


def test_long_run_reward_is_the_value():
    rng = np.random.default_rng(4)
    policy = ProbFair(low=0.1, high=0.8)
    good = rng.uniform(0.05, 0.95, (8, 2, 2))
    chances = policy.fit(Cohort.two_state(good), k=3, horizon=1).chances
    moves = (1 - chances)[:, None] * good[:, 0] + chances[:, None] * good[
        :, 1
    ]  # [n, 2]: to state 1, from 0 and from 1
    share = moves[:, 0] / (1 - moves[:, 1] + moves[:, 0])
    cohort = Cohort.two_state(
        good, start=np.column_stack([1 - share, share])
    )  # in its long run from the start: no bias
    fitted = policy.fit(cohort, k=3, horizon=40)
    result = simulate(fitted, runs=2000, seed=0)
    mean = result.rewards.mean(axis=1)  # [runs], independent
    assert abs(mean.mean() - fitted.value) < SD * mean.std(ddof=1) / math.sqrt(2000)
    # A helped arm counts as Bernoulli(p) at each of 80 000 decisions, independent of one another.
    often = result.counts.sum(axis=0) / (2000 * 40)
    assert (np.abs(often - chances) < SD * np.sqrt(chances * (1 - chances) / (2000 * 40))).all()


def test_bounds_may_miss_k_by_rounding_and_by_nothing_more():
    cohort, even = synthetic(n=10, seed=0), 0.3
    for off in (0, 1e-14, 5e-13):
        for policy in (ProbFair(low=even * (1 + off)), ProbFair(low=0, high=even * (1 - off))):
            assert_allclose(policy.fit(cohort, k=3, horizon=1).chances.sum(), 3, rtol=1e-14)
    for off in (2e-12, 1e-9, 1e-4):
        for policy in (ProbFair(low=even * (1 + off)), ProbFair(low=0, high=even * (1 - off))):
            with pytest.raises(Infeasible):
                policy.fit(cohort, k=3, horizon=1)


@pytest.mark.parametrize(
    ("low", "high", "k", "message"),
    [
        (0.2, 1.0, 1, r"n low <= k, but 10 \* 0.2 > 1; take low=0.1 or less, or k=2 or more$"),
        (0.0, 0.25, 3, r"k <= n high, but 3 > 10 \* 0.25; take high=0.3 or more, or k=2 or less$"),
    ],
)
def test_bounds_that_k_does_not_fit(low, high, k, message):
    with pytest.raises(Infeasible, match=message):
        ProbFair(low, high).fit(synthetic(n=10, seed=0), k, horizon=1)


@pytest.mark.parametrize(
    ("low", "high"), [(-0.1, 1.0), (0.5, 0.4), (0.0, 1.1), (float("nan"), 1.0), (0.0, float("nan"))]
)
def test_bounds_that_are_no_chances(low, high):
    with pytest.raises(Infeasible, match="0 <= low <= high <= 1"):
        ProbFair(low, high)


def test_two_states_only():
    with pytest.raises(InvalidInput, match="two states"):
        ProbFair(0.1).fit(Cohort(np.full((4, 2, 3, 3), 1 / 3)), k=1, horizon=1)


# Dependent rounding, by which ProbFair draws


def test_rounding_has_the_given_marginals():
    p = np.array([0.0, 1.0, 0.5, 0.5, 0.003, 0.997, 1.0, 0.0, 0.9, 0.1, 0.25, 0.35, 0.4])
    k, draws = round(p.sum()), 60_000
    assert p.sum() == pytest.approx(k, abs=1e-12)
    rule, rng = Rule.rounding(), np.random.default_rng(0)
    count = np.zeros(len(p))
    for _ in range(draws):
        arms = rule.draw(p, k, rng)
        assert len(arms) == k
        count[arms] += 1
    assert_array_equal(count[p == 0], 0)
    assert_array_equal(count[p == 1], draws)
    inside = (p > 0) & (p < 1)
    error = (count / draws - p)[inside] / np.sqrt(p * (1 - p) / draws)[inside]
    assert np.abs(error).max() < SD


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(
        st.one_of(st.sampled_from([0.0, 1.0, 1e-12, 1 - 1e-12]), st.floats(0, 1)),
        min_size=1,
        max_size=40,
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_rounding_draws_exactly_k(parts, seed):
    p = np.array(
        [*parts, math.ceil(math.fsum(parts)) - math.fsum(parts)]
    )  # one arm more makes the sum whole
    k = round(math.fsum(p))
    rng = np.random.default_rng(seed)
    for _ in range(5):
        arms = Rule.rounding().draw(p, k, rng)
        assert len(arms) == k
        assert (p[arms] > 0).all()
        assert np.isin(np.flatnonzero(p == 1), arms).all()


def test_rounding_of_many():
    fitted = ProbFair(low=0.001).fit(synthetic(n=300_000, seed=0), k=12_345, horizon=1)
    states, rng = np.zeros(300_000, np.int64), np.random.default_rng(0)
    assert_array_equal(fitted.inclusion(0, states), fitted.chances)
    for _ in range(5):
        assert len(fitted.draw(0, states, rng)) == 12_345


@pytest.mark.parametrize("last", [-3.5, -3.25, -0.0, 1e-300, 2.0, 2.5])
def test_neighbouring_floats_about_a_price(last):
    """The last price at which there is enough, also at either end of the search, and the next."""
    assert _neighbours(lambda price: price <= last, -3.5, 2.5) == (last, np.nextafter(last, 9))
    below = np.nextafter(-3.5, -9)
    assert _neighbours(lambda price: price < -3.5, -3.5, 2.5) == (below, -3.5)
