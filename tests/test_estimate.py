"""Estimates from a history: closed forms, brute force, properties, and coverage of intervals.

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
from softfair.estimate.classes import (
    LEAST_PERSONS,
    LEAST_RISE,
    Classes,
    _members,
    _search,
    _shares,
    find_classes,
)
from softfair.estimate.constraint import project
from softfair.estimate.groups import GroupPrior, learn_group_prior, log_groups
from softfair.estimate.intervals import central_intervals
from softfair.estimate.laws import Law, dirichlet, log_rising, mix
from softfair.estimate.persons import distinct_persons, person_laws
from softfair.estimate.rows import (
    RowCounts,
    RowFit,
    Tally,
    _fit_class,
    _step,
    rows_of,
    step_classes,
)
from softfair.estimate.strengths import (
    COARSE_GRID,
    LEAST_STRENGTH,
    MOST_STRENGTH,
    Strength,
    expected_from_others,
    learn_strength,
)
from softfair.kernels.beta import beta_below, mixture_quantile
from softfair.kernels.threads import get_threads, set_threads

# Histories of known persons


def moves(p, rounds, contact_rate, rng):
    """counts [n, 2, 2, 2] of ``rounds`` rounds of persons p [n, 2, 2], contacted at random."""
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
    # Everybody has the same probabilities. The estimate says so, the strength is large but finite,
    # and all estimates are the pooled frequency.
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
                assert found == pytest.approx(expected, rel=1e-8), (a, b)


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
        ([0.997, 0.003], [500.0, 2.0], [500.0, 90.0]),  # a rare law that has most of a small tail
    ]
    for weight, a, b in (tuple(map(np.array, law)) for law in laws):
        x = mixture_quantile(weight, a, b, tail)
        assert weight @ special.betainc(a, b, x) == pytest.approx(tail, rel=1e-10)


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


def known(strength):
    """A strength that is known exactly."""
    return Strength(np.array([float(strength)]), np.ones(1))


def tally_of(y, group=None):
    """One class that everybody belongs to, with counts y [n, S]."""
    code = np.zeros(len(y), np.int64) if group is None else np.asarray(group)
    counts = RowCounts(np.asarray(y), Groups(code, int(code.max()) + 1))
    return Tally(counts, np.ones(len(y)))


def test_the_log_of_a_rising_factorial():
    # x (x + 1) (x + 2) for y = 3, and 1 for y = 0
    x, y = np.array([0.5, 2.0, 7.0]), np.array([3.0, 3.0, 0.0])
    np.testing.assert_allclose(log_rising(x, y), np.log([0.5 * 1.5 * 2.5, 24.0, 1.0]), atol=1e-13)


def test_a_mixture_of_laws():
    # Equal parts of laws with means 0 and 4 and variances 1 and 3: mean 2, variance 2 + 4.
    parts = [
        (0.5, Law(np.array([0.0]), np.array([1.0]))),
        (0.5, Law(np.array([4.0]), np.array([3.0]))),
    ]
    law = mix(parts)
    assert (law.mean[0], law.variance[0]) == (2.0, 6.0)


def test_a_dirichlet_law_with_uncertain_pseudo_counts():
    # The pseudo-counts are (2, 4) or (3, 3), each with probability 1/2: both sum to 6, the mean is
    # (2.5, 3.5) and the variance 1/4.
    law = dirichlet(np.array([2.5, 3.5]), 6.0, np.array([0.25, 0.25]))
    first, second = stats.beta(2, 4), stats.beta(3, 3)
    variance = (first.var() + second.var()) / 2 + (first.mean() - second.mean()) ** 2 / 4
    np.testing.assert_allclose(law.mean, [2.5 / 6, 3.5 / 6], rtol=1e-15)
    np.testing.assert_allclose(law.variance, variance, rtol=1e-13)


def test_effective_moves():
    # N moves of a person are worth N (alpha + 1) / (alpha + N). At alpha = 2 four moves are worth
    # two, and one is worth one.
    tally = tally_of([[3, 1], [1, 0], [0, 4]], group=[0, 0, 1])
    np.testing.assert_allclose(
        tally.effective(np.array([2.0]))[0], [[1.5 + 1.0, 0.5], [0.0, 2.0]], rtol=1e-15
    )


def test_groups_are_discounted_as_persons_are():
    # At kappa = 2 four moves of a group are worth two, so m is Dirichlet(1 + 1.5 + 1, 1 + 0.5 + 1).
    prior = GroupPrior(known(2), Law(np.zeros((1, 2)), np.zeros((1, 2))), np.zeros(2))
    prior = prior.given(np.array([[3.0, 1.0], [2.0, 2.0]]))
    law = stats.dirichlet([3.5, 2.5])
    np.testing.assert_allclose(prior.m.mean[0], law.mean(), rtol=1e-14)
    np.testing.assert_allclose(prior.m.variance[0], law.var(), rtol=1e-14)
    np.testing.assert_allclose(prior.cohort_mean, law.mean(), rtol=1e-14)


def test_a_single_group_has_a_flat_prior():
    # Three states: with moves (4, 1, 0) the mean of the group is that of Dirichlet(5, 2, 1).
    moves = np.array([[4.0, 1.0, 0.0]])
    prior = learn_group_prior(moves)
    law = stats.dirichlet([5.0, 2.0, 1.0])
    means = prior.group_means(moves[None])
    np.testing.assert_allclose(means.mean[0, 0], law.mean(), rtol=1e-14)
    np.testing.assert_allclose(means.variance[0, 0], law.var(), rtol=1e-14)
    np.testing.assert_allclose(prior.cohort_mean, law.mean(), rtol=1e-14)


def test_one_move_a_person_is_an_independent_draw():
    # Then N (alpha + 1) / (alpha + N) is 1 at every alpha: the cohort's mean has the flat prior and
    # n independent draws, and nothing else enters.
    counts = np.zeros((20, 2, 2, 2), int)
    counts[:14, 0, 0, 1] = 1
    counts[14:, 0, 0, 0] = 1
    fitted = estimate(counts)
    assert fitted.cohort_mean[0, 0, 1] == pytest.approx(15 / 22, rel=1e-12)
    assert fitted.group_mean[0, 0, 0, 1] == pytest.approx(15 / 22, rel=1e-12)
    assert fitted.class_mean[0, 0, 0, 1] == pytest.approx(15 / 22, rel=1e-12)


def test_the_centre_of_a_strength_is_its_geometric_mean():
    assert Strength(np.array([1.0, 100.0]), np.array([0.5, 0.5])).centre == pytest.approx(10.0)


@pytest.mark.parametrize("S", [2, 3])
def test_the_score_is_schwarz_criterion(S, rng):
    # Per class and row one strength and S - 1 of the mean, and K - 1 shares: log n / 2 for each.
    counts = rng.integers(0, 5, (90, 2, S, S))
    for K in (1, 2, 3):
        classes = _search(counts, Groups(np.arange(90) % 2, 2), K)
        parameters = K * 2 * S * (1 + S - 1) + K - 1
        group_means = sum(fit.laplace_term for fits in classes.fits for fit in fits)
        expected = classes.log_likelihood - group_means - parameters * np.log(90) / 2
        assert group_means > 0
        assert classes.score == pytest.approx(expected, rel=1e-13)


def test_whether_persons_are_shown_to_differ(rng):
    # By a likelihood ratio of 2 on the log scale, on histories on both sides of that limit.
    ratios = []
    for alpha in (3.0, 30.0, 60.0, 120.0, 250.0, 1000.0):
        p = rng.beta(alpha * 0.4, alpha * 0.6, 300)
        good = rng.binomial(12, p)
        tallies = [tally_of(np.stack([12 - good, good], axis=1))] * 4
        for fit in _fit_class(tallies):
            at = np.array([MOST_STRENGTH, fit.alpha.points[fit.alpha.top]])
            identical, best = tallies[0].log_fit(at, fit.prior)
            assert fit.alike == (best - identical < 2)
            ratios.append(best - identical)
    assert min(ratios) < 1
    assert any(2 < ratio < 12 for ratio in ratios)


def test_persons_of_one_kind_share_group_counts_and_membership():
    y = np.array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1]])
    group = np.array([0, 0, 0, 1, 0])
    first = np.array([0.5, 0.5 + 3e-5, 0.5 + 3e-3, 0.5, 0.5])
    example, kind = distinct_persons(y, group, np.stack([first, 1 - first], axis=1))
    assert len(example) == 4
    assert kind[0] == kind[1]
    assert len(set(kind[[0, 2, 3, 4]].tolist())) == 4
    np.testing.assert_array_equal(kind[example], np.arange(4))


def test_an_interval_is_widened_to_contain_the_estimate():
    # Beta(.02, 1) has mean .0196, and less than .0196 with probability .0196^.02 = .92: above 90 %.
    a, b = 0.02, 1.0
    law = stats.beta(a, b)
    mean, variance = np.array([[1 - law.mean(), law.mean()]]), np.full((1, 2), law.var())
    low, high = central_intervals(mean, [(np.ones((1, 1)), Law(mean, variance))], 0.8)
    assert law.ppf(0.9) < law.mean()
    assert high[0, 1] == law.mean()
    assert low[0, 0] == 1 - law.mean()


# Brute force: the parts


def test_group_means_against_quadrature():
    """kappa known, m a Beta law: m_g given its moves, with m integrated out on a grid."""
    kappa, moves = 6.0, np.array([2.0, 5.0])
    law = stats.beta(8, 3)
    x = (np.arange(4000) + 0.5) / 4000
    weight = law.pdf(x) / law.pdf(x).sum()
    a, b = kappa * x + moves[1], kappa * (1 - x) + moves[0]
    mean = weight @ (a / (a + b))
    variance = weight @ stats.beta.var(a, b) + weight @ (a / (a + b) - mean) ** 2
    m = Law(np.array([[1 - law.mean(), law.mean()]]), np.full((1, 2), law.var()))
    found = GroupPrior(known(kappa), m, m.mean[0]).group_means(moves[None, None])
    assert found.mean[0, 0, 1] == pytest.approx(mean, rel=1e-6)
    assert found.variance[0, 0, 1] == pytest.approx(variance, rel=1e-6)


def test_persons_against_quadrature():
    """Two values of alpha and a Beta law for m_g: a person's row, with both integrated out."""
    alphas, weights, y = np.array([3.0, 3.5]), np.array([0.4, 0.6]), np.array([[4, 1]])
    law = stats.beta(5, 2)
    x = (np.arange(4000) + 0.5) / 4000
    a, b = np.outer(alphas, x) + y[0, 1], np.outer(alphas, 1 - x) + y[0, 0]
    weight = np.outer(weights, law.pdf(x) / law.pdf(x).sum())
    mean = (weight * a / (a + b)).sum()
    variance = (weight * (stats.beta.var(a, b) + (a / (a + b) - mean) ** 2)).sum()
    m = Law(
        np.tile([1 - law.mean(), law.mean()], (2, 1, 1)),
        np.full((2, 1, 2), law.var()),
    )
    prior = GroupPrior(known(2), Law(m.mean[:, 0], m.variance[:, 0]), m.mean[0, 0])
    fit = RowFit(Strength(alphas, weights), m, prior, 1.0, 0.0, False)
    ((part, found),) = person_laws(y, np.zeros(1, int), [fit], np.ones((1, 1)))
    assert part[0, 0] == 1
    assert found.mean[0, 1] == pytest.approx(mean, rel=1e-6)
    assert found.variance[0, 1] == pytest.approx(variance, rel=1e-6)


def test_far_apart_strengths_are_laws_of_their_own():
    # log alpha from 0 to 2.4: ranges [0, 1) and [1, 2.4], the last of which takes the rest.
    points = np.exp([0.0, 0.9, 1.1, 1.9, 2.4])
    m = Law(np.full((5, 1, 2), 0.5), np.full((5, 1, 2), 0.01))
    prior = GroupPrior(known(2), Law(m.mean[:1, 0], m.variance[:1, 0]), m.mean[0, 0])
    weight = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    fit = RowFit(Strength(points, weight), m, prior, 1.0, 0.0, False)
    laws = person_laws(np.array([[1, 2]]), np.zeros(1, int), [fit], np.full((1, 1), 0.5))
    np.testing.assert_allclose([part[0, 0] for part, _ in laws], [0.15, 0.35], rtol=1e-14)


def integrated(y, strengths):
    """log p(y | strength) of Beta-binomial counts y [n, 2], the flat mean integrated out."""
    m = (np.arange(2000) + 0.5) / 2000
    a, b = np.outer(strengths, m), np.outer(strengths, 1 - m)
    total = sum(special.betaln(a + good, b + bad) - special.betaln(a, b) for bad, good in y)
    return special.logsumexp(total, axis=1)


def test_the_likelihood_of_alpha_against_quadrature():
    """Up to a constant. Laplace's term varies by .5 over these alpha, and its error by .03."""
    rng = np.random.default_rng(0)
    N = rng.integers(5, 25, 40)
    good = rng.binomial(N, rng.beta(3, 5, 40))
    y = np.stack([N - good, good], axis=1)
    tally = tally_of(y)
    alpha = np.array([4.0, 8.0, 16.0, 64.0])
    prior = learn_group_prior(tally.effective(np.array([8.0]))[0])
    difference = tally.log_fit(alpha, prior) - integrated(y, alpha)
    assert np.ptp(difference) < 0.05
    assert np.ptp(difference + prior.laplace_term(tally.effective(alpha))) > 0.4


def test_the_likelihood_of_kappa_against_quadrature():
    """As for alpha, with groups in place of persons."""
    rng = np.random.default_rng(0)
    N = rng.integers(30, 80, 12)
    good = rng.binomial(N, rng.beta(6, 4, 12))
    moves = np.stack([N - good, good], axis=1).astype(float)
    kappa = np.array([5.0, 10.0, 50.0, 200.0])
    difference = log_groups(kappa, moves) - integrated(moves, kappa)
    assert np.ptp(difference) < 0.05


def test_shares_of_classes_against_the_exact_posterior():
    """Six groups with known members and a seventh without, kappa and m integrated out on a grid."""
    members = np.array([[2, 18], [9, 11], [30, 10], [12, 28], [1, 4], [20, 20], [0, 0]])
    code = np.repeat(np.arange(7), members.sum(axis=1))
    of = np.concatenate([np.repeat([0, 1], row) for row in members])
    share = _shares(np.eye(2)[of], Groups(code, 7))
    m = (np.arange(1000) + 0.5) / 1000
    log_kappa = np.linspace(np.log(LEAST_STRENGTH), np.log(MOST_STRENGTH), 300)
    a, b = np.outer(np.exp(log_kappa), m), np.outer(np.exp(log_kappa), 1 - m)
    log_weight = (log_kappa - 3 * np.log1p(np.exp(log_kappa)))[:, None] + np.zeros_like(a)
    for first, second in members:
        log_weight += special.betaln(a + second, b + first) - special.betaln(a, b)
    weight = special.softmax(log_weight)
    expected = [(weight * (a + y[1]) / (a + b + y.sum())).sum() for y in members]
    np.testing.assert_allclose(share[:, 1], expected, atol=0.016)
    np.testing.assert_allclose(share.sum(axis=1), 1, rtol=1e-14)
    own = members[[0, 4], 1] / members[[0, 4]].sum(axis=1)
    assert (np.abs(share[[0, 4], 1] - own) > 0.03).all()  # shrunk by more than is tolerated above


@pytest.mark.parametrize("sd", [1.0, 0.1, 0.002])
def test_the_posterior_of_a_strength_against_quadrature(sd):
    """A likelihood that is normal in log strength, on a grid of 200,001 points.

    Points with less than 1e-4 of the largest weight are left out: 4.3 standard deviations and more
    from the mean, where the variance has less than .1 % of its mass.
    """
    found = learn_strength(lambda x: -0.5 * ((np.log(x) - 2.0) / sd) ** 2, expected=5.0)
    u = np.linspace(max(2 - 12 * sd, np.log(LEAST_STRENGTH)), 2 + 12 * sd, 200_001)
    weight = special.softmax(-0.5 * ((u - 2.0) / sd) ** 2 + u - 3 * np.log(5 + np.exp(u)))
    mean = weight @ u
    variance = weight @ (u - mean) ** 2
    log_points = np.log(found.points)
    assert found.weight @ log_points == pytest.approx(mean, abs=0.01 * sd)
    assert found.weight @ (log_points - mean) ** 2 == pytest.approx(variance, rel=0.01)


def test_the_strength_expected_from_other_rows(rng):
    """By the definition: the mean under the prior times the likelihood of all rows but this."""
    log_likelihood = rng.normal(size=(4, len(COARSE_GRID)))
    prior = COARSE_GRID / (1 + COARSE_GRID) ** 3  # of log strength
    for row, found in enumerate(expected_from_others(log_likelihood)):
        others = np.exp(np.delete(log_likelihood, row, axis=0).sum(axis=0))
        weight = prior * others
        assert found == pytest.approx(weight @ COARSE_GRID / weight.sum(), rel=1e-12)


def test_a_step_takes_the_best_strength_in_reach(rng):
    """From a far smaller alpha the step goes to the end of its range, from the optimum it stays."""
    good = rng.binomial(30, rng.beta(8, 12, 400))
    tally = tally_of(np.stack([30 - good, good], axis=1))
    fit = _fit_class([tally] * 4)[0]

    def stepped(alpha):
        start = RowFit(known(alpha), fit.group_mean, fit.prior, fit.expected, 0.0, False)
        return _step(tally, start).alpha.points[0]

    assert stepped(2.0) == pytest.approx(2.0 * np.exp(0.6))
    assert stepped(200.0) == pytest.approx(200.0 * np.exp(-0.6))
    best = fit.alpha.points[fit.alpha.top]
    assert stepped(best) == pytest.approx(best)


def test_strengths_expected_of_a_row_are_those_of_the_others(rng):
    """Three rows with much data say that persons and groups are alike; the fourth has one person.

    Alone, with strengths expected to be 1, the fourth row would be learnt to differ much more.
    """
    group = np.arange(400) % 8
    good = rng.binomial(20, 0.4, 400)
    full = tally_of(np.stack([20 - good, good], axis=1), group)
    scarce = np.zeros((400, 2), int)
    scarce[:8] = [[1, 0], [0, 1]] * 4
    tallies = [full, full, full, tally_of(scarce, group)]
    fit = _fit_class(tallies)[3]
    alone = learn_group_prior(tallies[3].effective(np.ones(1))[0])
    assert fit.expected > 100
    assert fit.alpha.centre > 20
    assert fit.prior.kappa.centre > 5 * alone.kappa.centre


def test_expected_strengths_are_consistent(rng):
    """What is expected of a row depends on effective moves, and these on what is expected.

    Two passes must be closer to the fixed point than one.
    """
    N = rng.integers(20, 60, 200)
    tallies = []
    for mean in (0.2, 0.5, 0.6, 0.9):
        m = rng.beta(12 * mean, 12 * (1 - mean), 6)[np.arange(200) % 6]
        good = rng.binomial(N, rng.beta(40 * m, 40 * (1 - m)))
        tallies.append(tally_of(np.stack([N - good, good], axis=1), np.arange(200) % 6))

    def once(expected):
        pairs = zip(tallies, expected, strict=True)
        effective = [tally.effective(np.array([alpha]))[0] for tally, alpha in pairs]
        kappa = expected_from_others(np.stack([log_groups(COARSE_GRID, e) for e in effective]))
        priors = [learn_group_prior(*pair) for pair in zip(effective, kappa, strict=True)]
        pairs = zip(tallies, priors, strict=True)
        return expected_from_others(np.stack([t.log_fit(COARSE_GRID, p) for t, p in pairs]))

    first = fixed = once(np.ones(4))
    for _ in range(20):
        fixed = once(fixed)
    found = np.array([fit.expected for fit in _fit_class(tallies)])
    assert (np.abs(found - fixed) < 0.1 * np.abs(first - fixed)).all()


def test_maximisation_goes_on_until_the_likelihood_stands_still(rng):
    """A step more raises the log likelihood of all persons by less than a tenth."""
    kind = np.arange(400) % 2
    p = np.array([0.35, 0.6])[kind][:, None, None] * np.ones((1, 2, 2))
    counts, groups = moves(p, 25, 0.5, rng), Groups(np.arange(400) % 2, 2)
    rows = rows_of(counts, groups)
    classes = _search(counts, groups, 2)
    fits = step_classes(rows, classes.membership, classes.fits)
    share = _shares(classes.membership, groups)
    _, further = _members(rows, groups, Classes(fits, share, classes.membership))
    assert further - classes.log_likelihood < LEAST_RISE


def test_a_constraint_moves_what_is_known_least():
    """300 moves with frequency .6 when left alone, 5 moves with frequency .2 when contacted."""
    counts = np.zeros((30, 2, 2, 2), int)
    counts[:, 0, 0] = 120, 180
    counts[:, 1, 0] = 4, 1
    counts[:, :, 1, 1] = 50
    free, held = estimate(counts), estimate(counts, monotone=True)
    tied = held.P[:, 0, 0, 1]
    np.testing.assert_array_equal(tied, held.P[:, 1, 0, 1])
    assert held.binding[:, 0].all()
    assert (free.P[:, 0, 0, 1] - tied < 0.2 * (tied - free.P[:, 1, 0, 1])).all()


def test_a_class_of_a_few_persons_is_not_made(rng):
    """Twelve persons who do the opposite of all others are fewer than a class may have."""
    assert LEAST_PERSONS > 12
    p = np.full((300, 2, 2), 0.1)
    p[:12] = 0.95
    counts = moves(p, 60, 0.5, rng)
    assert estimate(counts).membership.shape == (300, 1)
    p[:100] = 0.95
    assert estimate(moves(p, 60, 0.5, rng)).membership.shape == (300, 2)


def test_three_kinds_are_three_classes(rng):
    centre = np.array([0.1, 0.5, 0.9])[np.arange(600) % 3]
    p = np.repeat(centre, 4).reshape(600, 2, 2)
    fitted = estimate(moves(p, 40, 0.5, rng))
    assert fitted.membership.shape == (600, 3)
    assert (fitted.membership.max(axis=1) > 0.99).mean() > 0.95


def test_the_cohort_is_its_classes_by_their_shares(rng):
    """With one kind in five, the cohort's mean is the mean of persons, not of classes."""
    kind = (np.arange(1000) % 5 == 0).astype(int)
    p = np.array([0.2, 0.9])[kind][:, None, None] * np.ones((1, 2, 2))
    fitted = estimate(moves(p, 40, 0.5, rng), np.arange(1000) % 2)
    assert fitted.membership.shape == (1000, 2)
    # Each class has 200 persons or more and 10 moves a row: the standard error is below .01.
    np.testing.assert_allclose(fitted.cohort_mean[..., 1], 0.34, atol=0.03)


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
    # The projection brings each person nearer to a truth that meets the constraints in its own
    # metric, and all persons together in the plain one.
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

    If persons were independent its standard error would be sqrt(.09 / (4 * 12,000)) = .0014. But
    all persons share one strength a row and its error, so the spread over histories counts. It is
    estimated from the 12. Allowed are 4 standard errors, plus a point for the approximation (a Beta
    law for a mixture of them).
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
    """The mean log strength of 12 histories is within 4 standard errors of the truth.

    A tenth is allowed for the prior.
    """
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

    Within a kind persons are much alike (strength 30). Ten rounds hardly show that, and the prior
    expects persons to differ, so that intervals are too wide by up to 5 points.
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
    """Half of the persons were never contacted.

    What they do alone says which kind they are, and so what a contact would do.
    """
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
