"""Estimates from a history against closed forms, brute force, the laws they must obey, and the coverage they promise.

Tolerances of the statistical tests are derived where they stand; seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special, stats

import softfair as sf
from softfair.errors import InvalidInput
from softfair.estimate import COHORT, CONSTRAINTS, GROUP, OWN, PRIOR, count_transitions, estimate
from softfair.estimate.border import Groups
from softfair.estimate.classes import find_classes
from softfair.estimate.constraint import project
from softfair.estimate.strengths import LEAST_STRENGTH, MOST_STRENGTH
from softfair.kernels.beta import beta_below, mixture_quantile
from softfair.kernels.threads import get_threads, set_threads

# Histories of known persons


def moves(p, rounds, contact_rate, rng):
    """counts [n, 2, 2, 2] of ``rounds`` rounds of persons with chances p [n, 2, 2], contacted at random."""
    n = len(p)
    counts = np.zeros((n, 2, 2, 2), np.int64)
    person, state = np.arange(n), rng.integers(0, 2, n)
    for _ in range(rounds - 1):
        action = (rng.random(n) < contact_rate).astype(int)
        after = (rng.random(n) < p[person, action, state]).astype(int)
        counts[person, action, state, after] += 1
        state = after
    return counts


def hierarchy(n, G, rng, strength=((4.0, 8.0), (6.0, 10.0)), group_strength=10.0):
    """Persons from the model itself: p [n, 2, 2] and group [n]."""
    centre = np.array([[0.3, 0.7], [0.5, 0.85]])
    alpha, group = np.array(strength), rng.integers(0, G, n)
    m = rng.beta(group_strength * centre, group_strength * (1 - centre), (G, 2, 2))[group]
    return rng.beta(alpha * m, alpha * (1 - m)), group


def two_kinds(n, rng):
    """Persons of two kinds that no group tells apart: p [n, 2, 2] and kind [n]."""
    kind = rng.integers(0, 2, n)
    centre = np.array([[[0.25, 0.6], [0.5, 0.7]], [[0.9, 0.92], [0.95, 0.97]]])[kind]
    return rng.beta(30 * centre, 30 * (1 - centre)), kind


def covered(fitted, p):
    return (fitted.low[..., 1] <= p) & (p <= fitted.high[..., 1])  # [n, 2, 2]


# Closed forms


def test_moves_of_a_known_history():
    # person 0: rounds 1 2 3 . 5 6, states 0 1 1 . 0 0; person 1 comes right after, its first round is no move of person 0
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


def test_an_empty_history():
    none = np.array([], np.int64)
    counts = count_transitions(none, none, none, none, n=4, S=3)
    assert counts.shape == (4, 2, 3, 3)
    fitted = estimate(counts, [0, 0, 1, 1])
    np.testing.assert_allclose(fitted.P, 1 / 3)
    assert fitted.no_history.all()
    assert (fitted.source == PRIOR).all()
    assert (fitted.low < 0.05).all()
    assert (fitted.high > 0.8).all()  # nothing is known, and the interval says so
    sf.Cohort(fitted.P)


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


def test_without_history_one_gets_the_groups_estimate(rng):
    p, group = hierarchy(400, 4, rng)
    counts = moves(p, 30, 0.3, rng)
    counts[:40] = 0
    fitted = estimate(counts, group)
    np.testing.assert_allclose(fitted.P[:40], fitted.group_mean[group[:40]], atol=1e-12)
    assert fitted.no_history[:40].all()
    assert (fitted.source[:40] == GROUP).all()


def test_equal_persons_are_pooled(rng):
    # Everybody has the same chances: that is said, the strength is huge (yet finite), and all estimates are the pooled frequency.
    counts = moves(np.full((20_000, 2, 2), 0.3), 50, 0.5, rng)
    fitted = estimate(counts)
    assert fitted.alike.all()
    assert ((fitted.strength > 500) & (fitted.strength <= MOST_STRENGTH)).all()
    pooled = counts.sum(axis=0)[..., 1] / counts.sum(axis=(0, 3))
    np.testing.assert_allclose(fitted.P[..., 1].mean(axis=0), pooled, atol=1e-3)
    assert np.abs(fitted.P[..., 1] - pooled).max() < 25 / 500  # at most N / (strength + N) away
    unlike = estimate(moves(hierarchy(2000, 1, rng)[0], 50, 0.5, rng))
    assert not unlike.alike.any()


def test_a_long_history_speaks_for_itself(rng):
    p = np.array([[[0.2, 0.9], [0.6, 0.95]], [[0.5, 0.6], [0.7, 0.8]]])
    counts = moves(p, 200_000, 0.5, rng)
    np.testing.assert_allclose(
        estimate(counts).P[..., 1], counts[..., 1] / counts.sum(axis=3), atol=1e-4
    )


@pytest.mark.parametrize("tail", [0.0005, 0.05, 0.25, 0.5])
def test_beta_quantiles(tail):
    sizes = np.array([0.01, 0.3, 1.0, 2.5, 40.0, 3e3, 1e4])
    for a in sizes:
        for b in sizes:
            expected = stats.beta.ppf(tail, a, b)
            if expected > 1e-250:  # closer to 0 the interval's end is 0 for all purposes
                found = mixture_quantile(np.ones(1), np.array([a]), np.array([b]), tail)
                assert found == pytest.approx(expected, rel=1e-7), (a, b)


@pytest.mark.parametrize("tail", [0.001, 0.05, 0.4])
def test_quantiles_of_mixtures(tail):
    laws = [
        ([0.5, 0.5], [2.0, 90.0], [80.0, 2.0]),  # two far apart
        (
            [0.96, 0.04],
            [500.0, 0.2],
            [500.0, 0.2],
        ),  # one inside the other, so that the tail belongs to the second
        ([0.3, 0.3, 0.4], [1.0, 5.0, 1e4], [3.0, 5.0, 10.0]),
    ]
    for weight, a, b in (tuple(map(np.array, law)) for law in laws):
        x = mixture_quantile(weight, a, b, tail)
        assert weight @ special.betainc(a, b, x) == pytest.approx(tail, rel=1e-7)


@pytest.mark.parametrize("u", [-30.0, -2.0, 0.0, 0.5, 8.0])
def test_beta_distribution(u):
    for a in (0.05, 1.0, 7.5, 2e3):
        for b in (0.05, 1.0, 7.5, 2e3):
            x = special.expit(u)
            below, slope = beta_below(a, b, special.betaln(a, b), u)
            assert below == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-14)
            assert slope == pytest.approx(
                stats.beta.pdf(x, a, b) * x * special.expit(-u), rel=1e-9, abs=1e-300
            )


# Brute force


def test_one_group_against_the_exact_posterior():
    """alpha and m integrated out on a fine grid, nothing approximated; 12 persons, one row."""
    y = np.array(
        [
            [3, 0],
            [1, 4],
            [0, 2],
            [5, 5],
            [2, 0],
            [0, 0],
            [1, 1],
            [0, 6],
            [4, 1],
            [3, 3],
            [1, 0],
            [2, 7],
        ]
    )
    counts = np.zeros((12, 2, 2, 2), int)
    counts[:, 0, 0] = y
    fitted = estimate(counts)
    m = (np.arange(400) + 0.5) / 400
    log_alpha = np.linspace(np.log(LEAST_STRENGTH), np.log(MOST_STRENGTH), 300)
    alpha = np.exp(log_alpha)
    A, B = np.outer(alpha, m), np.outer(alpha, 1 - m)  # [alpha, m]; the prior of m is flat
    log_weight = (log_alpha - 3 * np.log1p(alpha))[:, None] + np.zeros_like(A)
    for bad, good in y:
        log_weight += special.betaln(A + good, B + bad) - special.betaln(A, B)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    for i, (bad, good) in enumerate(y):
        a, b = A + good, B + bad
        mean = (weight * a / (a + b)).sum()
        assert fitted.P[i, 0, 0, 1] == pytest.approx(mean, abs=0.01)
        inside = special.betainc(a, b, fitted.high[i, 0, 0, 1]) - special.betainc(
            a, b, fitted.low[i, 0, 0, 1]
        )
        assert (weight * inside).sum() == pytest.approx(0.9, abs=0.015)


def test_membership_against_bayes_rule(rng):
    """Share times Dirichlet-multinomial likelihood, one person after another."""
    p, _ = two_kinds(400, rng)
    counts = moves(p, 12, 0.3, rng)
    group = np.arange(400) % 3
    fitted = estimate(counts, group, classes=2)
    found = find_classes(counts, Groups(group, 3), 2)
    for i in (0, 7, 100, 399):
        log_joint = np.log(found.share[group[i]])
        for k in range(2):
            for row in range(4):
                fit = found.fits[k][row]
                top = np.argmax(fit.alpha.weight)
                alpha = fit.alpha.points[top]
                bad, good = alpha * fit.group_mean.mean[top, group[i]]
                y = counts[i, row // 2, row % 2]
                log_joint[k] += stats.dirichlet_multinomial.logpmf(
                    y, [bad, good], y.sum()
                ) - np.log(special.binom(y.sum(), y[1]))
                assert bad + good == pytest.approx(alpha)
        np.testing.assert_allclose(fitted.membership[i], special.softmax(log_joint), atol=1e-9)


def nearest_by_search(p, w):
    """The projection of one p [4] by Dykstra's alternating projections on the four half-spaces, to convergence."""
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


COUNTS = st.integers(2, 4).flatmap(
    lambda S: st.integers(1, 6).flatmap(
        lambda n: hnp.arrays(np.int64, (n, 2, S, S), elements=st.integers(0, 30))
    )
)


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.data(), st.sampled_from([0.5, 0.9, 0.99]))
def test_estimates_are_chances_inside_their_intervals(counts, data, level):
    n, S = counts.shape[0], counts.shape[2]
    group = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, 3)))
    fitted = estimate(counts, group, level=level, monotone=S == 2 and data.draw(st.booleans()))
    sf.Cohort(fitted.P)
    assert (
        (fitted.low >= 0)
        & (fitted.low <= fitted.P)
        & (fitted.high >= fitted.P)
        & (fitted.high <= 1)
    ).all()
    assert np.isfinite(fitted.strength).all()
    np.testing.assert_allclose(fitted.group_mean.sum(axis=-1), 1)
    np.testing.assert_allclose(fitted.cohort_mean.sum(axis=-1), 1)
    if S == 2:
        np.testing.assert_allclose(fitted.low[..., 0], 1 - fitted.high[..., 1], atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    hnp.arrays(np.int64, (6, 2, 3, 3), elements=st.integers(0, 9)),
    st.permutations(range(6)),
    st.permutations(range(3)),
)
def test_names_do_not_matter(counts, persons, states):
    group = np.array([0, 0, 0, 1, 1, 1])
    fitted = estimate(counts, group)
    shuffled = estimate(counts[persons], 1 - group[persons])
    np.testing.assert_allclose(shuffled.P, fitted.P[persons], rtol=1e-9)
    renamed = estimate(counts[:, :, states][:, :, :, states], group)
    np.testing.assert_allclose(renamed.P, fitted.P[:, :, states][:, :, :, states], rtol=1e-9)
    np.testing.assert_allclose(
        renamed.low, fitted.low[:, :, states][:, :, :, states], rtol=1e-6, atol=1e-12
    )


def test_estimates_lie_between_own_and_group(rng):
    p, group = hierarchy(300, 3, rng)
    counts = moves(p, 20, 0.3, rng)
    fitted = estimate(counts, group)
    seen = fitted.source == OWN
    own = (counts[..., 1] / np.maximum(fitted.seen, 1))[seen]
    theirs = fitted.group_mean[group][..., 1][seen]
    found = fitted.P[..., 1][seen]
    slack = 0.02  # the group's mean varies a little with alpha, over which the estimate is averaged
    assert (found >= np.minimum(own, theirs) - slack).all()
    assert (found <= np.maximum(own, theirs) + slack).all()


def test_monotone_estimates(rng):
    p = np.sort(rng.random((500, 4)), axis=1).reshape(500, 2, 2)
    counts = moves(p, 25, 0.4, rng)
    free, held = estimate(counts), estimate(counts, monotone=True)
    assert not free.bound.any()
    assert 0 < held.bound.sum() < 500
    kept = ~held.bound
    np.testing.assert_allclose(held.P[kept], free.P[kept], rtol=1e-14)
    good = held.P[..., 1]
    assert (good[:, 1] >= good[:, 0]).all()
    assert (good[:, :, 1] >= good[:, :, 0]).all()
    # Nearer to a truth that meets the constraints, person by person, in the metric of the projection; on the whole in any.
    assert ((good - p) ** 2).sum() < ((free.P[..., 1] - p) ** 2).sum()


def test_threads_do_not_matter(rng):
    p, group = hierarchy(21_000, 3, rng)
    counts = moves(p, 6, 0.3, rng)
    before = get_threads()
    try:
        set_threads(1)
        one = estimate(counts, group)
        set_threads(2)
        two = estimate(counts, group)
    finally:
        set_threads(before)
    np.testing.assert_array_equal(one.P, two.P)
    np.testing.assert_array_equal(one.low, two.low)


def test_input_is_unchanged(rng):
    counts = moves(hierarchy(30, 2, rng)[0], 10, 0.3, rng)
    counts.flags.writeable = False
    estimate(counts, np.arange(30) % 2, monotone=True)


# Statistics


@pytest.mark.parametrize("rounds", [10, 30, 100])
def test_intervals_cover_where_the_model_is_right(rounds):
    """Coverage over 12 histories of 1000 persons in 5 groups.

    Person by person its standard error would be sqrt(.09 / (4 * 12,000)) = .0014. But persons share one strength a row: what is wrong
    with it is wrong for all, so the spread over histories is what counts. It is estimated from the 12, and 4 standard errors plus a
    point for what is approximated (a Beta law for a mixture of them) are allowed.
    """
    shares = []
    for seed in range(12):
        rng = np.random.default_rng([rounds, seed])
        p, group = hierarchy(1000, 5, rng)
        shares.append(covered(estimate(moves(p, rounds, 0.3, rng), group), p).mean())
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert error < 0.01
    assert abs(np.mean(shares) - 0.9) < 4 * error + 0.01


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_other_levels(level):
    shares = []
    for seed in range(8):
        rng = np.random.default_rng([7, seed])
        p, group = hierarchy(1000, 5, rng)
        shares.append(covered(estimate(moves(p, 30, 0.3, rng), group, level=level), p).mean())
    assert abs(np.mean(shares) - level) < 4 * np.std(shares, ddof=1) / np.sqrt(len(shares)) + 0.01


def test_strengths_are_learnt():
    """The truth lies within 4 standard errors of the mean log strength of 12 histories, a tenth allowed for the prior's pull."""
    logs = []
    for seed in range(12):
        rng = np.random.default_rng([3, seed])
        p, group = hierarchy(1000, 5, rng)
        fitted = estimate(moves(p, 30, 0.3, rng), group)
        assert fitted.strength.shape == (1, 2, 2)  # no class is seen where there is none
        logs.append(np.log(fitted.strength[0]))
    error = np.std(logs, axis=0, ddof=1) / np.sqrt(len(logs))
    assert (np.abs(np.mean(logs, axis=0) - np.log([[4, 8], [6, 10]])) < 4 * error + 0.1).all()


@pytest.mark.parametrize("rounds", [10, 30, 100])
def test_classes_are_found_and_intervals_cover(rounds):
    """As above, with two kinds of persons spread over groups that say nothing.

    Within a kind persons are much alike (strength 30). Ten rounds hardly show that, and the prior expects persons to differ: intervals
    are then too wide rather than too narrow, by up to 5 points.
    """
    shares = []
    for seed in range(8):
        rng = np.random.default_rng([11, rounds, seed])
        p, kind = two_kinds(1000, rng)
        fitted = estimate(moves(p, rounds, 0.3, rng), rng.integers(0, 4, 1000))
        assert fitted.membership.shape == (1000, 2)
        right = (np.argmax(fitted.membership, axis=1) == kind).mean()
        assert max(right, 1 - right) > 0.9
        shares.append(covered(fitted, p).mean())
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert error < 0.01
    assert -4 * error - 0.01 < np.mean(shares) - 0.9 < 4 * error + (0.05 if rounds == 10 else 0.01)


def test_a_class_tells_of_what_was_not_seen(rng):
    """Half of the persons were never contacted; how they do alone says which kind they are, and so what a contact would do."""
    p, _ = two_kinds(1000, rng)
    counts = moves(p, 30, 0.3, rng)
    counts[:500, 1] = 0
    with_classes, without = estimate(counts), estimate(counts, classes=1)
    assert (with_classes.source[:500, 1] != OWN).all()
    error, plain = (
        (((fitted.P[:500, 1, :, 1] - p[:500, 1]) ** 2).mean()) for fitted in (with_classes, without)
    )
    assert error < plain / 2


def test_shrinkage_beats_frequencies_and_pooling(rng):
    p, group = hierarchy(2000, 5, rng)
    counts = moves(p, 20, 0.3, rng)
    fitted = estimate(counts, group)
    own = (counts[..., 1] + 1) / (fitted.seen + 2)
    error = ((fitted.P[..., 1] - p) ** 2).mean()
    assert error < ((own - p) ** 2).mean()
    assert error < ((fitted.group_mean[group][..., 1] - p) ** 2).mean()


# Bad input


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"person": [0, 0, 5]}, r"person\[2\] is 5 \(1 of 3"),
        ({"person": [0, 0, -1]}, r"person\[2\] is -1"),
        ({"person": [1, 0, 0]}, r"sort rows by \(person, round\)"),
        ({"rounds": [1, 1, 2]}, r"rounds\[1\] is 1 .*one row a pair"),
        ({"rounds": [3, 2, 1]}, r"rounds\[1\] is 2 \(1 of 3"),
        ({"state": [0, 2, 0]}, r"state\[1\] is 2 .*0 to 1"),
        ({"state": [0.0, 1.0, 0.0]}, "whole numbers"),
        ({"contacted": [0, 3, 0]}, r"contacted\[1\] is 3"),
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
