"""References that benchmarks compare with the estimate, against closed forms and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import beta

from benchmarks.columns import Learner, People, history
from benchmarks.exact import NARROW, WIDE, _walk, exact_posterior, inside
from benchmarks.worlds import LAWS, Record, World

PLAIN = World("beta", 1, 6, False, 0.0, 0.5, 1.0)


def even_bank(B: int) -> np.ndarray:
    """p [B, 2, 2] of four independent uniforms."""
    return np.random.default_rng(1).random((B, 2, 2))


def test_the_exact_posterior_of_uniform_chances_is_a_beta():
    """Six moves from both states; a first state by a fair coin carries no information."""
    state = np.array([[0, 1, 1, 1, 0, 1]])
    contacted = np.array([[0, 0, 0, 1, 0, 0]])
    B = 400_000
    mean, low, high = exact_posterior(PLAIN, even_bank(B), Record(state, contacted, state[:, -1]))
    # From 0 without contact: up twice. From 1 without: up twice. From 1 with: down once.
    for at, (up, down) in {(0, 0): (2, 0), (0, 1): (2, 0), (1, 1): (0, 1), (1, 0): (0, 0)}.items():
        law = beta(1 + up, 1 + down)
        error = law.std() / np.sqrt(B / 20)  # of a weighted mean: some twentieth of the bank counts
        assert mean[0][at] == pytest.approx(law.mean(), abs=5 * error)
        assert law.cdf(high[0][at]) - law.cdf(low[0][at]) == pytest.approx(0.9, abs=0.01)

    def width(t):
        return beta(3, 1).ppf(0.9 + t) - beta(3, 1).ppf(t)

    shortest = minimize_scalar(width, bounds=(0, 0.1), method="bounded").fun
    assert high[0, 0, 0] - low[0, 0, 0] == pytest.approx(shortest, abs=0.005)


def chance_of(path, contacted, p, settled):
    """The chance of a path of states; settled people had thirty weeks without a contact before."""
    matrix = np.stack([1 - p[0], p[0]], axis=1)
    start = [0.5, 0.5] @ np.linalg.matrix_power(matrix, 30 if settled else 0)
    chance = start[path[0]]
    for week in range(len(path) - 1):
        up = p[contacted[week], path[week]]
        chance *= up if path[week + 1] else 1 - up
    return chance


@pytest.mark.parametrize("settled", [True, False])
def test_the_exact_posterior_sums_over_what_was_not_recorded(settled):
    bank = even_bank(50)
    world = World("beta", 1, 5, settled, 0.4, 0.5, 1.0)
    state, contacted = np.array([-1, 0, -1, -1, 1]), np.array([1, 0, 1, 0, 1])
    mean, _, _ = exact_posterior(world, bank, Record(state[None], contacted[None], state[-1:]))
    ways = list(itertools.product(*((0, 1) if s < 0 else (s,) for s in state)))
    weight = np.array([sum(chance_of(w, contacted, p, settled) for w in ways) for p in bank])
    np.testing.assert_allclose(mean[0], np.einsum("b,bas->as", weight, bank) / weight.sum())


@pytest.mark.parametrize("kind", sorted(LAWS))
def test_the_exact_posterior_has_its_nominal_coverage_under_any_law(kind):
    """Coverage of 400 people, who are independent given the law: binomial, four standard errors."""
    for law in range(3):
        world = World(kind, 400, 6, True, 0.3, 0.2, 1.0, law)
        rng = np.random.default_rng(law)
        p = world.people(rng)
        _, low, high = exact_posterior(world, world.drawn(8000, 99), world.record(p, rng))
        shares = inside(low, high, p).mean(axis=0)
        assert (np.abs(shares - 0.9) < 4 * np.sqrt(0.09 / 400) + 0.01).all()


def test_a_law_is_the_same_for_all_of_its_people_and_another_for_another_seed():
    one, other = (World("beta", 10, 4, True, 0.0, 0.1, 1.0, law) for law in (1, 2))
    means = [world.drawn(4000, seed).mean(axis=0) for world in (one, other) for seed in (1, 2)]
    assert np.abs(means[0] - means[1]).max() < 0.03  # 4000 people: errors of .005
    assert np.abs(means[0] - means[2]).max() > 0.03


def test_the_walk_draws_from_its_density():
    """Normal in four numbers, flat in the fifth."""
    centre, sd = np.array([0.3, 0.6, 0.5, 0.4]), 0.05

    def density(theta):
        if not NARROW < theta[4] < WIDE:
            return -np.inf
        return -float((((theta[:4] - centre) / sd) ** 2).sum()) / 2

    walk = np.array(_walk(density, np.random.default_rng(3)))
    # Sixty draws of a walk: about fifteen that are independent.
    assert (np.abs(walk[:, :4].mean(axis=0) - centre) < 4 * sd / np.sqrt(15)).all()
    assert (walk[:, :4].std(axis=0) > sd / 2).all()
    assert (walk[:, :4].std(axis=0) < sd * 2).all()
    assert walk[:, 4].std() > (WIDE - NARROW) / np.sqrt(12) / 2


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_slopes_of_the_learner_against_differences(share):
    people = People(share, 0)
    learner = Learner(people, *history(people.p, 4, 0))
    w = 0.3 * np.random.default_rng(0).normal(size=28)
    _, gradient, means = learner.slopes(w)
    for j in (0, 3, 7, 10, 14, 16, 21, 27):  # of each chance the constant and a slope
        step = 1e-5 * np.eye(28)[j]
        slope = (learner.slopes(w + step)[0] - learner.slopes(w - step)[0]) / 2e-5
        assert gradient[j] == pytest.approx(slope, rel=1e-5, abs=1e-4)
    assert ((means > 0) & (means < 1)).all()
