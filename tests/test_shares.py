"""Shares of groups in the library: closed form, enumeration, simulated worlds, refusals."""

import itertools

import numpy as np
import pytest

import softfair as sf
from softfair.errors import Infeasible, InvalidInput


def arms(n=12, seed=0, north=4):
    """Arms of which the first are of the north."""
    cohort = sf.datasets.synthetic(n=n, seed=seed)
    return sf.Cohort(cohort.P, groups=["north"] * north + ["south"] * (n - north))


def test_a_lottery_with_a_share_by_hand():
    """Three of six places for four of the north, three for eight of the south."""
    fitted = sf.SoftFair(c=0, shares={"north": (0.5, 0.5)}).fit(arms(), k=6, horizon=3)
    chances = fitted.inclusion(0, np.zeros(12, int))
    np.testing.assert_allclose(chances, [3 / 4] * 4 + [3 / 8] * 8, atol=1e-10)


@pytest.mark.parametrize(
    ("part", "k", "bounds"),
    [((0.5, 0.5), 5, (2, 3)), ((0.3, 1), 5, (2, 5)), ((0, 0.39), 5, (0, 1)), ((0.6, 1), 5, (3, 5))],
)
def test_parts_are_rounded_so_that_they_are_kept(part, k, bounds):
    from softfair.policies.shared import Groups, parts_of

    groups = Groups.of(parts_of({"south": part}), arms(), k)
    assert (groups.least[0], groups.most[0]) == bounds


def test_chances_are_the_softmax_over_what_is_allowed():
    """By enumeration of the sets of four of eight arms with two or three of the north."""
    cohort, c = arms(8), 4.0
    fitted = sf.SoftFair(c=c, shares={"north": (0.5, 0.75)}).fit(cohort, k=4, horizon=5)
    states = np.arange(8) % 2
    score = fitted.scores(1, states)
    sets = [H for H in itertools.combinations(range(8), 4) if 2 <= sum(i < 4 for i in H) <= 3]
    weight = np.array([np.exp(c * score[list(H)].sum()) for H in sets])
    wanted = [weight[[i in H for H in sets]].sum() / weight.sum() for i in range(8)]
    np.testing.assert_allclose(fitted.inclusion(1, states), wanted, atol=1e-10)
    assert tuple(fitted.draw(1, states, np.random.default_rng(0)).tolist()) in sets


@pytest.mark.slow
@pytest.mark.parametrize("promise", [{"max_wait": 7}, {"max_wait": 12, "floor": 0.02}])
def test_a_wait_and_shares_hold_in_every_run(promise):
    """Everybody is helped in any W decisions in a row, and every decision has the share."""
    cohort, W = arms(20, north=8), promise["max_wait"]
    fitted = sf.SoftFair(c=30, shares={"north": (0, 0.4)}, **promise).fit(cohort, k=5, horizon=30)
    assert fitted.info.converged
    rng, memory = np.random.default_rng(0), fitted.memory()
    states, off, longest = rng.integers(0, 2, 20), np.zeros(20, int), 0
    for t in range(30):
        chances = fitted.inclusion(t, states, memory)
        assert chances.sum() == pytest.approx(5)
        assert chances.min() >= promise.get("floor", 0)
        helped = np.zeros(20, np.uint8)
        helped[fitted.draw(t, states, rng, memory)] = 1
        assert helped.sum() == 5
        assert helped[:8].sum() <= 2
        memory = fitted.remember_by_run(memory, t, states[None], helped[None])
        off = np.where(helped, 0, off + 1)
        longest = max(longest, off.max())
        states = (rng.random(20) < cohort.P[np.arange(20), helped, states, 1]).astype(int)
    assert longest < W
    assert longest >= W - 2  # it binds
    result = sf.simulate(fitted, runs=2, seed=0)
    assert (result.counts.sum(axis=1) == 5 * 30).all()
    assert (result.counts[:, :8].sum(axis=1) <= 2 * 30).all()


def test_without_a_share_the_group_has_another_number():
    """The plan without the promise gives the north another part, so the tests above can fail."""
    free = sf.SoftFair(c=30).fit(arms(20, north=8), k=5, horizon=30)
    chances = free.inclusion(0, np.zeros(20, int))
    held = sf.SoftFair(c=30, shares={"north": (0.8, 1)}).fit(arms(20, north=8), k=5, horizon=30)
    assert chances[:8].sum() < 3.9
    assert held.inclusion(0, np.zeros(20, int))[:8].sum() >= 4 - 1e-9


def test_a_saved_policy_answers_as_it_did(tmp_path):
    fitted = sf.SoftFair(c=5, max_wait=9, shares={"north": (0.5, 1)}).fit(arms(), k=4, horizon=4)
    fitted.save(tmp_path / "model")
    again, states = sf.load(tmp_path / "model"), np.ones(12, int)
    np.testing.assert_array_equal(again.inclusion(2, states), fitted.inclusion(2, states))
    assert again.policy == fitted.policy


@pytest.mark.parametrize(
    "shares", [{}, {"north": 0.3}, {"north": (0.6, 0.5)}, {"north": (0, 2)}, 7]
)
def test_what_is_no_share_is_refused(shares):
    with pytest.raises(InvalidInput, match="give the least and the largest part of k"):
        sf.SoftFair(shares=shares)


@pytest.mark.parametrize(
    ("given", "k", "says"),
    [
        ({"shares": {"east": (0.1, 1)}}, 4, "groups of the cohort are: north, south"),
        ({"shares": {"north": (0.1, 1)}}, [4, 3] * 3, "shares need the same k at every decision"),
        ({"shares": {"north": (0.9, 1)}}, 6, "north at least 4 instead of 6"),
        ({"shares": {"south": (0, 0.25)}, "max_wait": 5}, 4, "take max_wait=8 or more"),
        ({"shares": {"south": (0, 0.25)}, "floor": 0.2}, 4, "beside the other promises"),
        # All places are the north's: however many there are, nobody of the south has any.
        ({"shares": {"north": (1, 1)}, "max_wait": 4}, 4, "leaves some group without places"),
    ],
)
def test_what_cannot_be_kept_is_refused(given, k, says):
    with pytest.raises((InvalidInput, Infeasible)) as caught:
        sf.SoftFair(**given).fit(arms(), k=k, horizon=6)
    assert says in str(caught.value)


def test_it_is_named_with_its_shares():
    policy = sf.SoftFair(c=2, max_wait=9, shares={"north": (0.25, 0.5)})
    assert policy.label == "SoftFair(c=2, max_wait=9, shares=north: 25-50 %)"
    with pytest.raises(InvalidInput, match="shares need solver"):
        sf.SoftFair(shares={"north": (0, 0.5)}, design="successive")
