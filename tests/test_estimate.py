"""Estimates from a history: closed forms, brute force, properties, and worlds written down apart.

The worlds of the statistical tests (`tests/worlds.py`) differ from the model: two clusters with
uniform noise, sorted uniforms, starts after a long time alone, and a chance of being recorded that
depends on the state. Seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from worlds import cpap_people, recorded

import softfair as sf
from softfair.errors import InvalidInput
from softfair.estimate import (
    COHORT,
    CONSTRAINTS,
    GROUP,
    OWN,
    PRIOR,
    Interval,
    count_transitions,
    estimate,
    fitting,
    population,
    read_histories,
)
from softfair.estimate.columns import design_of
from softfair.estimate.constraint import project
from softfair.estimate.histories import LONGEST_GAP, Histories, _with_digits
from softfair.estimate.population import Fit, Form, law_at, normal_points
from softfair.kernels.intervals import shortest_intervals
from softfair.kernels.threads import get_threads, set_threads

# Closed forms


def test_moves_of_a_known_history():
    # Person 0: rounds 1 2 3 . 5 6, states 0 1 1 . 0 0. Person 1 follows in the next round; its
    # first state is no move of person 0.
    person = [0, 0, 0, 0, 0, 1, 1]
    rounds = [1, 2, 3, 5, 6, 7, 8]
    state = [0, 1, 1, 0, 0, 1, 0]
    contacted = [1, 0, 0, 0, 1, 1, 1]
    counts = count_transitions(person, rounds, state, contacted, n=3, S=2)
    expected = np.zeros((3, 2, 2, 2), int)
    expected[0, 1, 0, 1] = 1  # 1 -> 2, contacted
    expected[0, 0, 1, 1] = 1  # 2 -> 3
    expected[0, 0, 0, 0] = 1  # 5 -> 6; 3 -> 5 is two rounds
    expected[1, 1, 1, 0] = 1
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize(
    ("state", "contacted", "left"),
    [([0, -1, 1], [0, 0, 0], 0), ([0, 1, 1], [-1, 0, 0], 1), ([0, 1, 1], [0, 0, -1], 2)],
)
def test_missing_is_missing_not_bad(state, contacted, left):
    assert count_transitions([0, 0, 0], [1, 2, 3], state, contacted, n=1, S=2).sum() == left


def test_gaps_of_a_known_history():
    # Person 0: rounds 1 to 6, states . 0 . . 1 ., contacts 0 1 0 - 1 0 (round 4 has no entry).
    # Person 1: two rounds that follow each other with an unknown contact. Person 2: nothing seen.
    person = [0, 0, 0, 0, 0, 1, 1, 2]
    rounds = [1, 2, 3, 5, 6, 1, 2, 1]
    state = [-1, 0, -1, 1, -1, 1, 0, -1]
    contacted = [0, 1, 0, 1, 0, -1, 0, 1]
    read = read_histories(person, rounds, state, contacted, n=4, S=2)
    assert read.moves.sum() == 0
    assert read.first.tolist() == [-2, 1, -2, -2]
    assert read.gap_of.tolist() == [0, 3, 4, 4, 4]
    assert list(zip(read.gap_first, read.gap_last, strict=True)) == [
        (-1, 0), (0, 1), (1, -1), (1, 0)
    ]  # fmt: skip
    assert read.act_of.tolist() == [0, 1, 4, 5, 6]
    assert read.acts.tolist() == [0, 1, 0, -1, 1, -1]
    assert read.missed.tolist() == [4, 0, 0, 0]
    assert read.contacts.tolist() == [[3, 2], [1, 0], [0, 0], [0, 0]]
    again = read.take(np.array([1, 0]))
    assert again.acts.tolist() == [-1, 0, 1, 0, -1, 1]
    assert again.gap_of.tolist() == [0, 1, 4]


def test_a_long_gap_is_cut():
    read = read_histories([0, 0], [1, 500], [0, 1], [1, 0], n=1, S=2)
    assert len(read.acts) == LONGEST_GAP
    assert (read.acts == -1).all()


def test_an_interval_of_draws():
    """The 2nd of 39 draws has 2 / 40 = 5 % below it on average."""
    one = Interval.of(np.arange(1, 40.0), 0.9)
    assert (one.value, one.low, one.high) == (20, pytest.approx(2), pytest.approx(38))
    assert one.told
    assert not Interval(0.1, -0.1, 0.3).told


def shortest(rows, level):
    low, high = np.empty((2, len(rows)))
    shortest_intervals(np.asarray(rows, float), level, low, high)
    return low, high


def chance(u):
    return u**2 / (u**2 + (1 - u) ** 2)


def test_the_shortest_interval_in_closed_form():
    """All weight in one bin; weights that rise towards 1, or towards 0; and two bins far apart."""
    B = 128
    low, high = shortest(np.eye(B)[[64]], 0.9)  # the 65th begins at a chance of 1/2
    assert chance(64 / B) <= low <= high <= chance(65 / B)
    growing = np.arange(1.0, B + 1) ** 8
    (low, _), (high, top) = shortest([growing, growing[::-1]], 0.9)
    assert high == 1.0  # a central interval would end below it
    assert top == pytest.approx(1 - low)  # the same from the other side
    apart = np.zeros(B)
    apart[[10, 100]] = 0.5
    low, high = shortest([apart], 0.9)
    assert low < chance(11 / B)
    assert high > chance(100 / B)


@given(
    st.lists(st.floats(0, 1), min_size=128, max_size=128).filter(lambda row: sum(row) > 0.1),
    st.floats(0.5, 0.99),
)
def test_no_interval_of_a_scan_is_shorter(row, level):
    """No interval that holds as much is shorter, up to the width of a bin."""
    (low,), (high,) = shortest([row], level)
    edges = np.linspace(0, 1, 129)
    below = np.r_[0, np.cumsum(row)] / np.sum(row)
    tails = np.linspace(0, 1 - level, 200)
    starts, ends = np.interp([tails, tails + level], below, edges)  # within bins, which are even
    assert high - low <= (chance(ends) - chance(starts)).min() + np.diff(chance(edges)).max()
    u = np.sqrt([low, high]) / (np.sqrt([low, high]) + np.sqrt([1 - low, 1 - high]))
    inside = np.diff(np.interp(u, edges, below))
    assert inside >= level - 1e-7


# Brute force


def fit_of(read, form, X=None, M=8):
    X = np.zeros((read.n, 0)) if X is None else X
    return Fit(form, read, np.ones(read.n), X, 0.3, normal_points(form.D, M, 3))


@pytest.mark.parametrize("S", [2, 3])
def test_the_likelihood_is_the_sum_over_all_that_was_not_recorded(S):
    rng = np.random.default_rng(S)
    state = [rng.integers(-1, S, 6) for _ in range(3)]
    contacted = [rng.integers(-1, 2, 6) for _ in range(3)]
    columns = np.repeat(np.arange(3), 6), np.tile(np.arange(6), 3)
    read = read_histories(*columns, np.concatenate(state), np.concatenate(contacted), n=3, S=S)
    form = Form(S, 2, effect=True, gaps=True)
    z = 0.5 * rng.normal(size=form.size)
    fit = fit_of(read, form)
    law = law_at(form, form.prior[0] + form.prior[1] * z, fit.points)
    total = -(z @ z + form.size * math.log(2 * math.pi)) / 2
    for s, a in zip(state, contacted, strict=True):
        total += math.log(
            sum(
                math.exp(weight) * chance_of(s, a, law.atoms[:, q], law, 0.3)
                for q, weight in enumerate(law.log_weight)
            )
        )
    assert fit(z)[0] == pytest.approx(total, rel=1e-10)


def chance_of(state, contacted, atom, law, share):
    """Of a record, over every path of states and contacts that agrees with it."""
    S, T = len(law.coin), len(state)
    logits = np.zeros((2, S, S))
    half = atom.reshape(2, S, S - 1)
    logits[0, :, 1:], logits[1, :, 1:] = half[0], half[0] + half[1]
    P = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    long_left_alone = np.linalg.matrix_power(P[0], 400)[0]
    start = law.settled * long_left_alone + (1 - law.settled) * law.coin
    mixed = (1 - share) * P[0] + share * P[1]
    total = 0.0
    for path in itertools.product(*(range(S) if s < 0 else [s] for s in state)):
        chance = start[path[0]]
        for t in range(T):
            chance *= law.unseen[path[t]] if state[t] < 0 else 1 - law.unseen[path[t]]
        for t in range(T - 1):
            matrix = mixed if contacted[t] < 0 else P[contacted[t]]
            chance *= matrix[path[t], path[t + 1]]
        total += chance
    return total


@pytest.mark.parametrize("columns_do", [True, False])
@pytest.mark.parametrize(("S", "effect"), [(2, True), (2, False), (3, True)])
def test_the_gradient_against_differences(S, effect, columns_do):
    """Also at the point where the slopes of all columns are 0, so that nobody is shifted."""
    rng = np.random.default_rng(5)
    n, T = 5, 7
    columns = np.repeat(np.arange(n), T), np.tile(np.arange(T), n)
    read = read_histories(*columns, *rng.integers(-1, [[S], [2]], (2, n * T)), n=n, S=S)
    form = Form(S, 2, effect, gaps=True, scales=((0.4, 0.2), (0.3, 0.5)))
    fit = fit_of(read, form, rng.normal(size=(n, 2)))
    z = 0.3 * rng.normal(size=form.size)
    if not columns_do:
        form.of(z, "by_column")[:] = 0.0
    _, gradient = fit(z)
    step = 1e-5 * np.eye(form.size)
    found = [(fit(z + e)[0] - fit(z - e)[0]) / 2e-5 for e in step]
    np.testing.assert_allclose(gradient, found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns_do", [True, False])
@pytest.mark.parametrize("S", [2, 3])
def test_the_curvature_against_differences(S, columns_do, monkeypatch):
    """The code takes differences by people's shifts; the test takes them parameter by parameter.

    Two people are alike and have one row: their terms are summed before differences are taken.
    """
    rng = np.random.default_rng(6)
    n, T = 6, 7
    columns = np.repeat(np.arange(n), T), np.tile(np.arange(T), n)
    read = read_histories(*columns, *rng.integers(-1, [[S], [2]], (2, n * T)), n=n, S=S)
    form = Form(S, 2, True, gaps=True, scales=((0.4, 0.2), (0.3, 0.5)))
    X = rng.normal(size=(n, 2))
    X[3] = X[2]
    fit = fit_of(read, form, X)
    z = 0.3 * rng.normal(size=form.size)
    if not columns_do:
        form.of(z, "by_column")[:] = 0.0
    found = np.array([(fit(z - e)[1] - fit(z + e)[1]) / 2e-4 for e in 1e-4 * np.eye(form.size)])
    # A difference over h on one side is off by h / 2 times a third derivative.
    monkeypatch.setattr(population, "STEP", 1e-5)
    np.testing.assert_allclose(fit.curvature(z), found, atol=1e-3)


def test_gaps_of_a_kind_are_bridged_once():
    """Person 0 has 0 . 1 twice, 1 . 0 once, not contacted; person 1 has 0 . 1 once, contacted."""
    state = [0, -1, 1, -1, 0, -1, 1, 0, -1, 1]
    rounds, contacted = [1, 2, 3, 4, 5, 6, 7, 1, 2, 3], [0] * 7 + [1, 0, 0]
    read = read_histories([0] * 7 + [1] * 3, rounds, state, contacted, n=2, S=2)
    kinds = read.kinds
    assert kinds.kind_of.tolist() == [0, 2, 3]
    ends = [(read.gap_first[j], read.gap_last[j]) for j in kinds.example[kinds.kind]]
    assert dict(zip(ends[:2], kinds.count[:2], strict=True)) == {(0, 1): 2, (1, 0): 1}
    assert ends[2] == (0, 1)
    assert kinds.kind[2] not in kinds.kind[:2]
    assert len(kinds.example) == 3


def nearest_by_search(p, w):
    """The projection of one p [4] by Dykstra's alternating projections on four half-spaces."""
    edges = [(2 * a + s, 2 * a2 + s2) for (a, s), (a2, s2) in CONSTRAINTS]
    x, added = p.copy(), np.zeros((4, 4))
    for _ in range(500):  # the error falls geometrically; here it is below 1e-9 long before
        for e, (i, j) in enumerate(edges):
            z = x + added[e]
            x = z.copy()
            if z[i] > z[j]:
                x[[i, j]] = np.average(z[[i, j]], weights=w[[i, j]])
            added[e] = z - x
    return x


def test_projection_against_alternating_projections(rng):
    p, w = rng.random((40, 2, 2)), rng.exponential(size=(40, 2, 2)) + 0.05
    found = project(p, w).p
    for i in range(40):
        np.testing.assert_allclose(
            found[i].ravel(), nearest_by_search(p[i].ravel(), w[i].ravel()), atol=1e-8
        )


# Properties


CHANCES = hnp.arrays(np.float64, (5, 2, 2), elements=st.floats(0, 1))
WEIGHTS = hnp.arrays(np.float64, (5, 2, 2), elements=st.floats(1e-3, 1e3))


@given(CHANCES, CHANCES, WEIGHTS)
def test_projection_keeps_order_and_meets_the_constraints(p, q, w):
    low, high = np.minimum(p, q), np.maximum(p, q)
    below, binding = project(low, w).p, project(low, w).binding
    above = project(high, w).p
    assert (below <= above + 1e-12).all()
    for (a, s), (a2, s2) in CONSTRAINTS:
        assert (below[:, a, s] <= below[:, a2, s2]).all()
    np.testing.assert_array_equal(project(below, w).p, below)  # what meets them stays
    untouched = ~binding.any(axis=1)
    np.testing.assert_array_equal(below[untouched], low[untouched])
    assert (below[~untouched] != low[~untouched]).any(axis=(1, 2)).all()


COUNTS = st.integers(2, 3).flatmap(
    lambda S: st.integers(1, 6).flatmap(
        lambda n: hnp.arrays(np.int64, (n, 2, S, S), elements=st.integers(0, 9))
    )
)


@settings(max_examples=5, deadline=None)
@given(COUNTS, st.data(), st.sampled_from([0.5, 0.9, 0.99]))
def test_estimates_are_chances_inside_their_intervals(counts, data, level):
    n, S = counts.shape[0], counts.shape[2]
    group = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, 3)))
    fitted = estimate(counts, group, level=level)
    sf.Cohort(fitted.P)
    assert ((fitted.low >= 0) & (fitted.low <= fitted.P)).all()
    assert ((fitted.high <= 1) & (fitted.high >= fitted.P)).all()
    assert ((fitted.draws >= 0) & (fitted.draws.sum(axis=-1, keepdims=True) <= 1 + 1e-6)).all()
    if S == 2:
        np.testing.assert_allclose(fitted.low[..., 0], 1 - fitted.high[..., 1], atol=1e-12)


def test_names_do_not_matter_and_equal_people_have_equal_estimates(rng):
    counts = rng.integers(0, 4, (8, 2, 2, 2))
    counts[5] = counts[2]
    order = rng.permutation(8)
    fitted, shuffled = estimate(counts), estimate(counts[order])
    np.testing.assert_array_equal(fitted.P[5], fitted.P[2])
    np.testing.assert_array_equal(fitted.low[5], fitted.low[2])
    np.testing.assert_allclose(shuffled.P, fitted.P[order], rtol=1e-9)


def test_threads_do_not_matter():
    p = cpap_people(150, True, 0)
    read = read_histories(*recorded(p, 5, 0), n=150, S=2)
    before = get_threads()
    try:
        set_threads(1)
        one = estimate(read, classes=1)
        set_threads(2)
        two = estimate(read, classes=1)
    finally:
        set_threads(before)
    np.testing.assert_array_equal(one.P, two.P)
    np.testing.assert_array_equal(one.low, two.low)


def test_an_empty_history():
    none = np.array([], np.int64)
    fitted = estimate(read_histories(none, none, none, none, n=4, S=2), [0, 0, 1, 1])
    np.testing.assert_allclose(fitted.P, 1 / 2, atol=0.1)
    assert fitted.no_history.all()
    assert (fitted.source == PRIOR).all()
    assert (fitted.high - fitted.low > 0.85).all()  # nothing is known, and the interval says so


def test_where_a_row_comes_from():
    counts = np.zeros((4, 2, 2, 2), int)
    counts[0, 0, 0] = 3, 1
    counts[2, 0, 1] = 1, 2
    fitted = estimate(counts, [0, 0, 1, 2])
    assert fitted.source[:, 0, 0].tolist() == [OWN, GROUP, COHORT, COHORT]
    assert fitted.source[:, 0, 1].tolist() == [COHORT, COHORT, OWN, COHORT]
    assert (fitted.source[:, 1] == PRIOR).all()
    assert fitted.no_history.tolist() == [False, True, False, True]
    np.testing.assert_array_equal(fitted.seen[:, 0], [[4, 0], [0, 0], [0, 3], [0, 0]])


# Worlds


@pytest.fixture(scope="module")
def settled():
    """CPAP, 300 people, ten weeks, after thirty weeks in which nobody was contacted."""
    p = cpap_people(300, True, 1)
    return p, estimate(read_histories(*recorded(p, 10, 1), n=300, S=2))


def error(fitted, p):
    """Mean error [2, 2] of a chance of the good state."""
    return np.abs(fitted.P[..., 1] - p).mean(axis=0)


def test_where_people_had_settled_before(settled):
    """The first state tells of which kind somebody is. By the moves alone the error of p00 is .34:
    people who adhere are hardly ever seen to lapse."""
    p, fitted = settled
    by_moves = estimate(count_transitions(*recorded(p, 10, 1), n=300, S=2))
    assert error(fitted, p)[0, 0] < 0.15
    assert error(fitted, p)[0, 0] < error(by_moves, p)[0, 0] / 2
    # Coverage is a matter of many cohorts (benchmarks); of one, most are inside.
    inside = (fitted.low[..., 1] <= p) & (p <= fitted.high[..., 1])
    assert (inside.mean(axis=0)[0] > 0.75).all()
    assert fitted.classes[1] > 0.5
    assert fitted.classes.sum() == pytest.approx(1)


def test_an_effect_is_found_where_there_is_one(settled):
    p, fitted = settled
    assert fitted.no_effect < 0.05
    truth = (p[:, 1] - p[:, 0]).mean(axis=0)
    assert all(
        one.low - 0.02 <= value <= one.high + 0.02
        for one, value in zip(fitted.effect, truth, strict=True)
    )


def test_the_population_is_learnt_from_some_of_the_people(monkeypatch):
    """From 150 of 600 people. The error of a mean over m of n people has the standard deviation
    sqrt(1 / m - 1 / n) = .07 of one person's. A 90 % interval is 3.3 standard deviations wide; a
    quarter of it is .8, so ten such errors. Measured: 3 to 8 % of the width for 1500 of 3000."""
    p = cpap_people(600, True, 7)
    read = read_histories(*recorded(p, 20, 7), n=600, S=2)
    everybody = estimate(read, classes=2)
    monkeypatch.setattr(fitting, "MOST_FITTED", 150)
    some = estimate(read, classes=2)
    apart = np.sqrt(((some.P - everybody.P)[..., 1] ** 2).mean(axis=0))
    width = np.sqrt(((everybody.high - everybody.low)[..., 1] ** 2).mean(axis=0))
    assert (apart > 0).all()
    assert (apart < width / 4).all()


def test_spreads_go_together_in_the_prior():
    """Half of the variance of a log spread is common to all, over 4000 draws from the prior."""
    form = Form(2, 2, effect=True, gaps=False)
    mean, sd = form.prior
    z = np.random.default_rng(9).normal(size=(4000, form.size))
    logs = np.log([form.scale(mean + sd * one) for one in z]).reshape(4000, -1)  # [4000, 2 x 4]
    share = population.COMMON_SPREAD**2 / (population.COMMON_SPREAD**2 + population.OWN_SPREAD**2)
    assert share == pytest.approx(0.5)
    correlation = np.corrcoef(logs.T)
    others = correlation[~np.eye(8, dtype=bool)]
    np.testing.assert_allclose(others, share, atol=4 / math.sqrt(4000))
    np.testing.assert_allclose(np.exp(logs.mean(axis=0)), [0.5, 0.5, 0.3, 0.3] * 2, rtol=0.08)
    np.testing.assert_allclose(logs.std(axis=0), 1.0, atol=0.05)


@pytest.mark.slow
def test_where_people_differ_little_effects_are_taken_to_differ_little():
    """In both worlds ten people had three contacts, which by themselves tell little of effects."""

    def effect_spread(spread):
        """Median over draws with an effect, of one class."""
        rng = np.random.default_rng(11)
        logit = np.array([-0.5, 1.0]) + spread * rng.normal(size=(400, 2))
        p = np.stack([1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(-logit - 0.8))], axis=1)
        read = read_histories(*recorded(p, 30, 3, contacted=0.01), n=400, S=2)
        design, people = design_of({}, 400), np.ones(400)
        draws = fitting.fit_population(read, people, design, 1).draws
        scales = [form.scale(phi)[0, 2:] for form, phi in draws if form.effect]
        assert len(scales) >= len(draws) // 2
        return np.median(scales)

    assert effect_spread(0.05) < 0.9 * 0.3  # the median of the prior
    assert effect_spread(1.5) > 1.1 * 0.3


def test_where_contacts_do_nothing():
    """Most of the posterior has no effect, and no effect is stated for anybody."""
    p = cpap_people(300, False, 2)
    fitted = estimate(read_histories(*recorded(p, 10, 2), n=300, S=2))
    assert fitted.no_effect > 0.5
    assert not any(one.told for one in fitted.effect)
    effect = fitted.P[:, 1, :, 1] - fitted.P[:, 0, :, 1]
    assert np.abs(effect).max() < 0.1
    assert np.abs(effect.mean()) < 0.02


def test_a_small_effect_is_not_taken_for_none():
    """A tenth of the effects of CPAP patients cannot be detected, but the interval includes it.

    By the evidence alone there would be no effect, with an interval of no width.
    """
    p = cpap_people(300, True, 2)
    p = np.stack([p[:, 0], p[:, 0] + 0.1 * (p[:, 1] - p[:, 0])], axis=1)
    fitted = estimate(read_histories(*recorded(p, 10, 2), n=300, S=2))
    assert fitted.no_effect > 0.9
    for state, true in enumerate((p[:, 1] - p[:, 0]).mean(axis=0)):
        stated = fitted.effect[state]
        assert not stated.told
        assert stated.low <= true <= stated.high
        assert stated.high - stated.low > 0.01


@pytest.mark.slow
def test_states_that_hide_are_noticed_and_allowed_for():
    """Seen 40 % of the time in the bad state and 95 % in the good.

    By the moves alone the errors are .37 and .12.
    """
    p = cpap_people(300, True, 3)
    fitted = estimate(read_histories(*recorded(p, 10, 3, seen=(0.4, 0.95)), n=300, S=2))
    assert fitted.hides.low < 0.55 < fitted.hides.high
    assert fitted.hides.low > 0.3
    assert (error(fitted, p)[0] < [0.2, 0.06]).all()


def test_the_figure_of_a_value_is_a_difference_from_people_without_it(rng):
    """The figure is the mean shift of people with the value, less that of people without it."""
    n = 60
    kind = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    age = np.where(rng.random(n) < 0.2, np.nan, rng.normal(40, 9, n))
    design = design_of({"kind": kind, "age": age}, n)
    slopes, people = rng.normal(size=len(design.column)), rng.integers(1, 5, n).astype(float)
    contrasts = design.contrasts(people) @ slopes
    told = dict(zip(zip(design.column, design.value, strict=True), contrasts, strict=True))
    of_kind = design.X[:, :3] @ slopes[:3]
    for value in "abc":
        with_it, without = (
            np.average(of_kind, weights=people * mine) for mine in (kind == value, kind != value)
        )
        assert told["kind", value] == pytest.approx(with_it - without, rel=1e-12)
    assert told["age", ""] == slopes[3]


@pytest.mark.slow
def test_each_of_several_values_has_its_own_figure():
    """People of "b" have one logit more than the others, whatever their state; age tells too."""
    rng, n = np.random.default_rng(5), 300
    kind, age = np.array(["a", "b", "c"])[rng.integers(0, 3, n)], rng.normal(size=n)
    logit = -0.8 + 1.0 * (kind == "b") + 0.5 * age
    p = 1 / (1 + np.exp(-(logit[:, None, None] + np.array([[0.0, 1.0], [0.3, 1.3]]))))
    read = read_histories(*recorded(p, 20, 5), n=n, S=2)
    told = {
        (one.column, one.value): one.without
        for one in estimate(read, columns={"kind": kind, "age": age}).columns
    }
    b, by_age = told["kind", "b"], told["age", ""]
    assert 0 < b.low < 1.0 < b.high < 2.0
    assert 0 < by_age.low < 0.5 < by_age.high
    # The others are below the mean of people without them, in which b is.
    assert told["kind", "a"].high < 0 > told["kind", "c"].high


@pytest.mark.slow
def test_a_column_without_any_meaning_makes_no_differences():
    """Six workers, whose people all follow the same law: estimates by worker hardly differ.

    By the contacts of a worker alone the sd of an effect is about .08: noise, not a difference.
    """
    rng, n = np.random.default_rng(6), 400
    p = np.clip(rng.normal([[0.3, 0.7], [0.45, 0.8]], 0.08, (n, 2, 2)), 0.02, 0.98)
    worker = np.array([f"w{i % 6}" for i in range(n)])
    read = read_histories(*recorded(p, 20, 6, contacted=0.05), n=n, S=2)
    fitted = estimate(read, columns={"worker": worker})
    effect = fitted.P[:, 1, :, 1] - fitted.P[:, 0, :, 1]  # [n, 2]
    means = np.array([effect[worker == name].mean(axis=0) for name in np.unique(worker)])
    assert means.std(axis=0).max() < 0.01
    assert not any(one.effect.told for one in fitted.columns)


@pytest.mark.slow
def test_columns_that_tell_and_columns_that_do_not():
    """People like themselves by a column; a new person gets the estimate of people like them."""
    rng = np.random.default_rng(4)
    n = 160
    x = np.r_[-1.5, 1.5, rng.normal(size=n - 2)]
    kind = np.array(["a", "b"])[rng.integers(0, 2, n)]
    logit = -0.5 + 1.5 * x[:, None, None] + np.array([[0.0, 1.0], [0.3, 1.3]])
    p = 1 / (1 + np.exp(-logit))
    person, rounds, state, contacted = recorded(p, 6, 4)
    known = person >= 2  # the first two are new
    read = read_histories(person[known], rounds[known], state[known], contacted[known], n=n, S=2)
    columns = {"x": x, "kind": kind, "all": np.ones(n), "id": np.arange(n).astype(str)}
    fitted, without = estimate(read, columns=columns), estimate(read)
    told = {(one.column, one.value): one for one in fitted.columns}
    assert told["x", ""].without.low > 0.5
    assert not told["kind", "a"].without.told
    assert fitted.P[1, 0, 0, 1] > fitted.P[0, 0, 0, 1] + 0.3
    assert sorted(fitted.left_out) == [
        "all is not used: it is the same for everybody",
        "id is not used: nearly everybody has a value of their own",
    ]
    assert error(fitted, p)[0].mean() < 0.8 * error(without, p)[0].mean()


def test_monotone_is_refused_where_the_history_contradicts_it():
    counts = np.zeros((30, 2, 2, 2), int)
    counts[:, 0, 0] = 1, 30
    counts[:, 0, 1] = 30, 1
    with pytest.raises(InvalidInput, match=r"contradicts monotone: for 30 of 30 people .*better"):
        estimate(counts, monotone=True)


def test_monotone_estimates(rng):
    p = np.sort(rng.random((60, 4)), axis=1).reshape(60, 2, 2)
    read = read_histories(*recorded(p, 12, 6, contacted=0.4), n=60, S=2)
    free, held = estimate(read), estimate(read, monotone=True)
    assert not free.bound.any()
    kept = ~held.bound
    np.testing.assert_allclose(held.P[kept], free.P[kept], rtol=1e-14)
    good = held.P[..., 1]
    assert (good[:, 1] >= good[:, 0]).all()
    assert (good[:, :, 1] >= good[:, :, 0]).all()


def test_moves_alone_are_a_history_without_gaps():
    """The same estimate, except for the parts of first states and of rounds not seen."""
    person, rounds, state, contacted = [0, 0, 0, 1, 1], [1, 2, 3, 1, 2], [0, 1, 1, 1, 0], [1, 0] * 2
    read = read_histories(person, rounds, state, [*contacted, 1], n=3, S=2)
    alone = Histories.of_moves(read.moves)
    for name in ("moves", "gap_of", "gap_first", "act_of", "acts", "sees", "missed"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(read, name), err_msg=name)
    assert len(alone.act_of) == len(alone.gap_first) + 1
    assert len(alone.gap_last) == 0


@pytest.mark.parametrize("classes", [None, 1, 2])
def test_every_population_that_is_tried_is_a_step_of_the_bar(classes, rng, monkeypatch):
    """With few people only one class is tried, unless more classes are asked for."""
    steps, tried, mode = [], [], fitting._mode
    monkeypatch.setattr(fitting, "track", lambda some, _: iter(steps.append(len(some)) or some))
    monkeypatch.setattr(fitting, "_mode", lambda *given: tried.append(1) or mode(*given))
    estimate(rng.integers(0, 4, (10, 2, 2, 2)), classes=classes)
    assert steps == [len(tried)] == [4 if classes == 2 else 2]


@pytest.mark.parametrize("base", [3, 4, 11])
def test_words_have_the_same_code_if_and_only_if_they_are_the_same(base):
    """Words of the longest length that differ in a single digit, each of them twice."""
    length = LONGEST_GAP + 1
    words = np.full((2 * length + 1, length), base - 1)
    words[np.arange(length), np.arange(length)] = 0
    words[length + np.arange(length), np.arange(length)] = base - 2
    every = np.vstack([words, words])
    lengths = np.full(len(every), length)
    code = _with_digits(np.zeros(len(every), np.int64), every.ravel(), lengths, base)
    assert len(np.unique(code)) == len(words)
    np.testing.assert_array_equal(code[: len(words)], code[len(words) :])


@pytest.mark.parametrize("effect", [True, False])
def test_which_logits_may_go_together(effect):
    """With two states all pairs of free logits; with three each effect and its logit."""
    two, three = Form(2, 1, effect, False), Form(3, 1, effect, False)
    free = 4 if effect else 2
    assert set(two.couples) == {(j, other) for j in range(free) for other in range(j)}
    assert three.couples == ([(6 + j, j) for j in range(6)] if effect else [])


# Columns


def test_the_numbers_of_columns():
    columns = {
        "age": [20.0, 30.0, np.nan, 50.0] * 5,
        "site": ["n", "s", "", "s"] * 5,
        "far": [0.0] * 19 + [1e9],
    }
    design = design_of(columns, 20)
    assert list(zip(design.column, design.value, strict=True)) == [
        ("age", ""),
        ("age", "(missing)"),
        ("site", "(missing)"),
        ("site", "n"),
        ("site", "s"),
        ("far", ""),
    ]
    np.testing.assert_allclose(design.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(design.X.std(axis=0), 1)
    assert np.unique(design.X[[2, 6], 0]).size == 1  # missing: the mean
    with pytest.raises(InvalidInput, match=r"the column 'age' has shape \(2,\)"):
        design_of({"age": [1.0, 2.0]}, 20)


@pytest.mark.parametrize(
    ("numbers", "used"),
    [
        (np.arange(20.0), False),  # a telephone number each
        (np.r_[np.nan, np.arange(20.0)], False),  # ... that one person has not got
        (np.arange(20.0) + 0.5, True),  # twenty measurements
        (np.r_[0.0, np.arange(20.0)], True),  # two people share one: an age
        (np.arange(19.0), True),  # a few ages that happen to differ
    ],
)
def test_whole_numbers_of_their_own_are_like_names(numbers, used):
    design = design_of({"number": numbers}, len(numbers))
    assert (design.X.shape[1] > 0) == used
    said = "number is not used: everybody has a whole number of their own, like a name"
    assert design.left_out == (() if used else (said,))


def test_groups_tell_as_a_column_of_the_same_name_does():
    """The last two have no history: each is like the people of their group."""
    counts = np.zeros((42, 2, 2, 2), int)
    counts[:20, 0, 0] = 1, 9
    counts[20:40, 0, 0] = 9, 1
    group = np.r_[np.repeat([0, 1], 20), 0, 1]
    fitted = estimate(counts, group)
    by_column = estimate(counts, columns={"group": group.astype(str)})
    np.testing.assert_array_equal(fitted.P, by_column.P)
    assert fitted.P[40, 0, 0, 1] > 0.7
    assert fitted.P[41, 0, 0, 1] < 0.3
    alone = estimate(counts, np.zeros(42, int))  # one group tells nothing
    np.testing.assert_array_equal(alone.P, estimate(counts).P)


def test_far_numbers_are_cut_at_four_standard_deviations_on_either_side():
    given = np.r_[-np.ones(300), np.ones(300), -40.0, 90.0]
    apart = (given - given.mean()) / given.std()
    assert apart[-2] < -4
    assert apart[-1] > 4
    apart[-2:] = -4, 4
    design = design_of({"far": given}, len(given))
    np.testing.assert_allclose(design.X[:, 0], (apart - apart.mean()) / apart.std(), rtol=1e-12)


def test_people_with_a_rare_value_are_as_if_it_were_not_known():
    """Two values that enough people have: people with other values get the mean of each, so 0.

    With a single such value, all other values together are told apart from it.
    """
    site = design_of({"site": ["n"] * 12 + ["s"] * 6 + ["x", "y"]}, 20)
    assert site.value == ("n", "s")
    np.testing.assert_allclose(site.X[18:], 0, atol=1e-12)
    assert (site.X[:12, 0] > 0).all()
    assert (site.X[12:18, 0] < 0).all()
    alone = design_of({"site": ["n"] * 12 + ["s", "s", "t", "t", "u", "v", "w", "x"]}, 20)
    assert alone.value == ("n",)
    np.testing.assert_allclose(alone.X[12:, 0], -math.sqrt(12 / 8))  # sd sqrt(.6 * .4)


def test_contrasts_of_numbers_and_of_values_in_any_order():
    """A number has its slope; a value has the mean of people with it, less that of the others."""
    columns = {"age": np.sqrt(np.arange(20.0)), "site": ["n"] * 8 + ["s"] * 12}
    weights = np.linspace(1, 3, 20)
    for order in (["age", "site"], ["site", "age"]):
        design = design_of({name: columns[name] for name in order}, 20)
        found = design.contrasts(weights)
        assert found.shape == (3, 3)
        for j, (column, value) in enumerate(zip(design.column, design.value, strict=True)):
            expected = np.eye(3)[j]
            if column == "site":
                has = np.array(columns["site"]) == value
                apart = np.average(design.X[has], axis=0, weights=weights[has])
                apart -= np.average(design.X[~has], axis=0, weights=weights[~has])
                expected = np.where(np.array(design.column) == "site", apart, 0.0)
            np.testing.assert_allclose(found[j], expected, rtol=1e-12, atol=1e-12)


def test_more_columns_than_people(rng):
    counts = rng.integers(0, 4, (10, 2, 2, 2))
    fitted = estimate(counts, columns={f"x{j}": rng.normal(size=10) for j in range(30)})
    assert np.isfinite(fitted.P).all()
    assert len(fitted.columns) <= 24


# Bad input


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"person": [0, 0, 5]}, r"person\[2\] is 5 \(1 of 3.*from 0 to 1"),
        ({"person": [0, 0, -1]}, r"person\[2\] is -1"),
        ({"person": [1, 0, 0]}, r"sort rows by \(person, round\)"),
        ({"rounds": [1, 1, 2]}, r"rounds\[1\] is 1 .*one row a pair"),
        ({"rounds": [3, 2, 1]}, r"rounds\[1\] is 2 \(1 of 3"),
        ({"state": [0, 2, 0]}, r"state\[1\] is 2 .*0 to 1"),
        ({"state": [0.0, 1.0, 0.0]}, "whole numbers"),
        ({"contacted": [0, 2, 0]}, r"contacted\[1\] is 2"),
        ({"contacted": [0, 1]}, r"contacted has shape \(2,\)"),
        ({"n": 0}, "n is 0"),
        ({"S": 1}, "S is 1"),
    ],
)
def test_bad_histories_are_refused(change, said):
    sound = {
        "person": [0, 0, 1],
        "rounds": [1, 2, 1],
        "state": [0, 1, 0],
        "contacted": [0, 1, 0],
        "n": 2,
        "S": 2,
    }
    count_transitions(**sound)
    with pytest.raises(InvalidInput, match=said):
        count_transitions(**{**sound, **change})


@pytest.mark.parametrize(
    ("counts", "options", "said"),
    [
        (np.zeros((2, 2, 2), int), {}, r"shape \(2, 2, 2\)"),
        (np.zeros((0, 2, 2, 2), int), {}, "n >= 1"),
        (np.zeros((2, 2, 2, 2)), {}, "float64; give whole numbers"),
        (np.full((1, 2, 2, 2), -1), {}, r"counts\[0, 0, 0, 0\] is -1 \(8 of 8"),
        (np.zeros((2, 2, 2, 2), int), {"groups": [0]}, r"groups has shape \(1,\)"),
        (np.zeros((2, 2, 2, 2), int), {"groups": [0, -1]}, r"groups\[1\] is -1"),
        (np.zeros((2, 2, 2, 2), int), {"groups": ["a", "b"]}, "whole numbers"),
        (np.zeros((2, 2, 2, 2), int), {"level": 90}, "level is 90"),
        (np.zeros((2, 2, 3, 3), int), {"monotone": True}, "the history has 3 states"),
        (np.zeros((2, 2, 2, 2), int), {"classes": 0}, "classes is 0"),
        (np.zeros((2, 2, 2, 2), int), {"classes": 1.5}, "classes is 1.5"),
    ],
)
def test_bad_counts_are_refused(counts, options, said):
    with pytest.raises(InvalidInput, match=said):
        estimate(counts, **options)


@pytest.fixture
def rng():
    return np.random.default_rng(20)


# What the parts of the estimate do


@pytest.mark.parametrize("memory", ["none", "2", "contact"])
def test_histories_of_some_then_of_others_are_those_of_all(memory):
    rng = np.random.default_rng(11)
    n, weeks = 12, 9
    person, rounds = np.divmod(np.arange(n * weeks), weeks)
    state, contacted = rng.integers(-1, 2, n * weeks), rng.integers(-1, 2, n * weeks)
    whole = read_histories(person, rounds, state, contacted, n=n, S=2, memory=memory)
    parts = []
    for low, high in ((0, 5), (5, 6), (6, 12)):
        here = (person >= low) & (person < high)
        rows = (person[here] - low, rounds[here], state[here], contacted[here])
        parts.append(read_histories(*rows, n=high - low, S=2, memory=memory))
    joined = Histories.joined(parts)
    for part in fields(Histories):
        np.testing.assert_array_equal(getattr(joined, part.name), getattr(whole, part.name))


def test_scales_are_the_likeliest_of_a_quadratic_likelihood():
    """Against a search over the evidence written down with explicit determinants."""
    rng = np.random.default_rng(12)
    half, free, group = 2, 4, np.array([0, 1, 1])
    others, size = 3, 3 + free * len(group)
    where = np.arange(others, size)
    root = rng.normal(size=(size, 2 * size))
    z = rng.normal(size=size)
    z[where[: half * 3]] *= 4  # of chances more than of effects
    old = np.full(size, 0.3)
    form = SimpleNamespace(
        parts={"by_column": (where, (free, 3))},
        plain=half,
        common=np.arange(free),
        prior=(0.0, old),
    )
    second = np.eye(size) + root @ root.T / size
    mode = fitting._Mode(SimpleNamespace(form=form), z, second, None, None, 0.0)
    found = np.array(mode.scales(group))  # [3, 2]

    L = second - np.eye(size)
    b = z + L @ z

    def minus_evidence(log_sd):  # [4]: of chances by group, then of effects by group
        s = np.ones(size)
        for j in range(free):
            for column, of_group in enumerate(group):
                sd = math.exp(log_sd[2 * (j >= half) + of_group])
                s[others + 3 * j + column] = sd / 0.3
        A = L + np.diag(s**-2)
        _, log_det = np.linalg.slogdet(A)
        return -(b @ np.linalg.solve(A, b) - log_det) / 2 + np.log(s).sum()

    low, high = math.log(fitting.LEAST_SCALE), math.log(fitting.MOST_SCALE)
    best = minimize(
        minus_evidence, np.full(4, -1.0), method="Nelder-Mead", bounds=[(low, high)] * 4,
        options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 20_000},
    )  # fmt: skip
    wanted = np.exp(best.x).reshape(2, 2)
    assert len(set(np.round(wanted.ravel(), 6))) == 4  # a mix-up of two would show
    np.testing.assert_allclose(found, wanted[:, group].T, rtol=1e-3)


@pytest.mark.parametrize("sign", [-1, 1])
def test_of_many_columns_those_that_tell_are_used(monkeypatch, sign):
    """Whether they raise chances or lower them."""
    monkeypatch.setattr(fitting, "MOST_NUMBERS", 1)
    rng = np.random.default_rng(13)
    n, weeks = 150, 6
    x = rng.normal(size=n)
    chance = 1 / (1 + np.exp(-sign * 2 * x))
    state = (rng.random((n, weeks)) < chance[:, None]).astype(np.int64)
    person, rounds = np.divmod(np.arange(n * weeks), weeks)
    read = read_histories(person, rounds, state.ravel(), np.zeros(n * weeks, int), n=n, S=2)
    columns = {"a": rng.normal(size=n), "x": x, "b": rng.normal(size=n)}
    (told,) = estimate(read, columns=columns, classes=1).columns
    assert told.column == "x"
    assert sign * told.without.value > 0
    assert told.without.told


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_an_interval_holds_its_share_of_the_draws(level):
    """Of the joint draws: 39 of 200 people with four chances, within a fifth of the rest."""
    p = np.random.default_rng(14).beta(2, 2, size=(200, 2, 2))
    read = read_histories(*recorded(p, 10, 0, contacted=0.5), n=200, S=2)
    fitted = estimate(read, level=level, classes=1)
    drawn, low, high = fitted.draws[..., 0], fitted.low[..., 1], fitted.high[..., 1]
    assert np.mean((drawn < low) | (drawn > high)) == pytest.approx(1 - level, rel=0.2)


def test_a_chance_that_may_be_1_has_an_interval_that_ends_there():
    """A contact makes some people sure to be well: a central interval would leave out the truth.

    Half of the people are nearly always well and recover at once, and contacts are few.
    """
    n, weeks, rng = 300, 10, np.random.default_rng(3)
    p = np.empty((n, 2, 2))
    p[: n // 2, 0], p[n // 2 :, 0] = (0.98, 0.95), (0.24, 0.67)
    p[: n // 2, 1], p[n // 2 :, 1] = (0.999, 0.999), (0.3, 0.85)
    s = (rng.random(n) < p[:, 0, 0] / (1 - p[:, 0, 1] + p[:, 0, 0])).astype(int)  # settled
    state, contacted = np.empty((2, n, weeks), int)
    for week in range(weeks):
        state[:, week], contacted[:, week] = s, rng.random(n) < 0.02
        s = (rng.random(n) < p[np.arange(n), contacted[:, week], s]).astype(int)
    rows = (np.repeat(np.arange(n), weeks), np.tile(np.arange(weeks), n))
    read = read_histories(*rows, state.ravel(), contacted.ravel(), n=n, S=2)
    fitted = estimate(read, level=0.9)
    low, high = fitted.low[..., 1] - 0.001, fitted.high[..., 1] + 0.001
    covered = ((low <= p) & (p <= high)).mean(axis=0)
    assert (covered > 0.85).all(), covered
