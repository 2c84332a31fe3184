"""What a plan is expected to bring, and the c that meets a target."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from softfair import Cohort
from softfair.errors import Infeasible
from softfair.estimate import Interval
from softfair.programme.aims import Target
from softfair.programme.models import UNIT, Model
from softfair.programme.outlook import (
    LowestGroup,
    Outlook,
    Prospects,
    Reach,
    SiteCohort,
    choose_c,
    weigh,
)
from softfair.programme.outlook.choosing import _found, _nearest
from softfair.programme.settings import Settings
from softfair.programme.snapshot import People


def cohort_of(n, S, seed, start=None):
    """People with any transition probabilities; rewards s / (S - 1)."""
    rng = np.random.default_rng(seed)
    return Cohort(rng.dirichlet(np.ones(S), (n, 2, S)), start=start)


def site(cohort, k, horizon, first=0):
    return SiteCohort(cohort, k, horizon, np.arange(first, first + cohort.n))


def people_of(*groups):
    nobody = np.full(len(groups), -1)
    texts = [json.dumps({"region": group}) for group in groups]
    return People([f"p{i}" for i in range(len(groups))], texts, nobody, nobody, nobody, nobody)


@pytest.mark.parametrize(
    ("k", "arm", "choice"),
    [(0, "", False), (1, "", True), (2, "", True), (3, "", False), (1, "lottery", False)],
)
def test_a_choice_is_left_where_some_are_contacted_and_others_are_not(k, arm, choice):
    one = SiteCohort(cohort_of(3, 2, 0), k, 5, np.arange(3), arm)
    assert one.leaves_a_choice == choice


# Following people through the horizon.


def test_the_reward_is_that_of_the_state_reached():
    """From bad to good at once and for ever: T good rounds, not T - 1."""
    always_good = Cohort([[[[0, 1], [0, 1]]] * 2], start=[0])
    assert site(always_good, 1, 3).follow(None).reward == 3
    always_bad = Cohort([[[[1, 0], [1, 0]]] * 2], start=[1])
    assert site(always_bad, 1, 3).follow(None).reward == 0


def test_nobody_contacted_is_a_power_of_the_matrix():
    cohort = cohort_of(3, 3, 0)
    followed = site(cohort, 1, 4).follow(None)
    wanted = sum(
        cohort.start[i] @ np.linalg.matrix_power(cohort.P[i, 0], t) @ [0, 0.5, 1]
        for i in range(3)
        for t in (1, 2, 3, 4)
    )
    assert followed.reward == pytest.approx(wanted, rel=1e-12)
    assert (followed.contacts == 0).all()


def test_a_lottery_contacts_everybody_alike():
    """c = 0: each is contacted with probability k / n in each round, whatever their state."""
    n, k, T = 5, 2, 6
    cohort = cohort_of(n, 2, 1)
    followed = site(cohort, k, T).follow(0.0)
    np.testing.assert_allclose(followed.contacts, k * T / n, rtol=1e-7)
    mixed = (1 - k / n) * cohort.P[:, 0] + k / n * cohort.P[:, 1]
    wanted = sum(
        (cohort.start[i] @ np.linalg.matrix_power(mixed[i], t))[1]
        for i in range(n)
        for t in range(1, T + 1)
    )
    assert followed.reward == pytest.approx(wanted, rel=1e-7)


@pytest.mark.slow
def test_following_is_the_sum_over_all_paths():
    """Every sequence of contacts and states of each person, with its probability."""
    n, S, T, c = 3, 3, 3, 4.0
    cohort = cohort_of(n, S, 2)
    people = site(cohort, 1, T)
    followed, values = people.follow(c), people.values(c)
    gain = values.rows(0, T)
    pi = 1 / (1 + np.exp(values.theta[:, None, None] - values.c * gain))  # [T, n, S]
    reward, contacts = 0.0, np.zeros(n)
    for i in range(n):
        for s0 in range(S):
            for moves in itertools.product(range(2), range(S), repeat=T):
                chance, s, total = cohort.start[i, s0], s0, 0.0
                for t in range(T):
                    a, s2 = moves[2 * t], moves[2 * t + 1]
                    chance *= (pi[t, i, s] if a else 1 - pi[t, i, s]) * cohort.P[i, a, s, s2]
                    s, total = s2, total + s2 / (S - 1)
                reward += chance * total
                contacts[i] += chance * sum(moves[::2])
    assert followed.reward == pytest.approx(reward, rel=1e-12)
    np.testing.assert_allclose(followed.contacts, contacts, rtol=1e-12)
    assert contacts.sum() == pytest.approx(T, rel=1e-7)  # one contact is expected in each round


def test_people_followed_in_slices_are_the_same(monkeypatch):
    people = site(cohort_of(5, 2, 3), 2, 4)
    whole = people.follow(3.0)
    monkeypatch.setattr("softfair.programme.outlook.site.SLICE", 2)
    parts = people.follow(3.0)
    assert parts.reward == pytest.approx(whole.reward, rel=1e-13)
    np.testing.assert_allclose(parts.contacts, whole.contacts, rtol=1e-13)


def test_the_score_in_the_last_round():
    """With one round left lambda(s) = sum_s2 (P[1] - P[0])(s, s2) r(s2), over the states now."""
    start = np.array([[0.25, 0.75], [1.0, 0.0]])
    cohort = cohort_of(2, 2, 4, start)
    gain = cohort.P[:, 1, :, 1] - cohort.P[:, 0, :, 1]
    scores = site(cohort, 1, 1).scores(10.0)
    np.testing.assert_allclose(scores, (gain * start).sum(axis=1), rtol=1e-12)


def test_the_score_with_two_rounds_left():
    """Under a lottery V_1(s) is the reward expected of the last round at chances of k / n."""
    n, k = 4, 1
    cohort = cohort_of(n, 3, 12)
    r = np.array([0, 0.5, 1])
    V = ((1 - k / n) * cohort.P[:, 0] + k / n * cohort.P[:, 1]) @ r  # [n, S]
    gain = np.einsum("ist,it->is", cohort.P[:, 1] - cohort.P[:, 0], r + V)
    wanted = (gain * cohort.start).sum(axis=1)
    np.testing.assert_allclose(site(cohort, k, 2).scores(0.0), wanted, rtol=1e-7)


def test_values_follow_the_multiplier():
    """The solution that is remembered is that of the c that was asked for last."""
    people = site(cohort_of(4, 2, 5), 1, 3)
    first = people.scores(1.0).copy()
    assert not np.allclose(people.scores(50.0), first)
    np.testing.assert_array_equal(people.scores(1.0), first)


# Prospects.


def test_two_sites_under_a_lottery():
    """One of 2 and one of 4 a round: rates 1/2 and 1/4, on average 1/3."""
    sites = [site(cohort_of(2, 2, 6), 1, 8), site(cohort_of(4, 2, 7), 1, 8, first=2)]
    prospects = Prospects(sites, people_of(*"NNSSSS"), "region")
    lottery = prospects.at(0.0)
    assert lottery.wait == pytest.approx(4, rel=1e-7)
    assert (lottery.lowest.column, lottery.lowest.value) == ("region", "S")
    assert lottery.lowest.share == pytest.approx(0.25 / (1 / 3), rel=1e-7)
    gained = sum(one.follow(0.0).reward - one.follow(None).reward for one in sites)
    most = sum(one.follow(math.inf).reward - one.follow(None).reward for one in sites)
    assert lottery.gained == pytest.approx(gained, rel=1e-12)
    assert lottery.benefit == pytest.approx(gained / most, rel=1e-12)
    assert lottery.residual == max(one.values(0.0).info.residual for one in sites)
    assert prospects.most_effective_gained == pytest.approx(most, rel=1e-12)
    assert prospects.at(math.inf).benefit == 1


def test_the_residual_is_the_largest_of_the_sites():
    sites = [site(cohort_of(3, 2, 6), 1, 8), site(cohort_of(9, 2, 7), 2, 8, first=3)]
    residuals = [one.values(5.0).info.residual for one in sites]
    assert residuals[0] != residuals[1]
    for order in (sites, sites[::-1]):
        assert Prospects(order, people_of(*"NNNSSSSSSSSS")).at(5.0).residual == max(residuals)


def test_a_group_without_anybody_in_the_draw_does_not_count():
    """Nobody of the region Z is in the cohort."""
    sites = [site(cohort_of(2, 2, 6), 1, 8), site(cohort_of(4, 2, 7), 1, 8, first=2)]
    lowest = Prospects(sites, people_of(*"NNSSSSZ"), "region").at(0.0).lowest
    assert (lowest.value, lowest.share) == ("S", pytest.approx(0.75, rel=1e-7))
    assert Prospects(sites, people_of(*"NNSSSS")).at(0.0).lowest is None


def test_without_capacity_nobody_is_ever_contacted():
    prospects = Prospects([site(cohort_of(3, 2, 8), 0, 4)], people_of("N", "N", "S"), "region")
    outlook = prospects.at(2.0)
    assert outlook.wait == math.inf
    assert outlook.gained == pytest.approx(0, abs=1e-9)
    assert outlook.to_json()["wait"] is None


def test_contacts_that_bring_nothing_cost_nothing():
    """Where contact changes nothing, every plan is the most effective one."""
    same = Cohort(np.broadcast_to([[0.5, 0.5], [0.2, 0.8]], (3, 2, 2, 2)))
    assert Prospects([site(same, 1, 4)], people_of(*"NNS")).at(1.0).benefit == 1.0


@pytest.mark.parametrize("lowest", [None, LowestGroup("region", "north", 0.5)])
@pytest.mark.parametrize("target", [None, Target("wait", 8.0), Target("group", 0.5, "region")])
@pytest.mark.parametrize(("c", "wait"), [(math.inf, math.inf), (2.5, 7.25), (0.0, 1.0)])
def test_an_outlook_survives_json(lowest, target, c, wait):
    most = None if target is None else 12.5
    gain, reached = (None, None) if target is None else (Interval(1.0, -0.5, 2.0), 0.85)
    outlook = Outlook(c, 10.0, 0.8, wait, 1e-9, lowest, target, most, gain, reached)
    text = json.dumps(outlook.to_json(), allow_nan=False)
    assert Outlook.from_json(json.loads(text)) == outlook


def test_the_json_of_an_outlook():
    target = Target("group", 0.5, "region")
    outlook = Outlook(math.inf, 1.0, 0.5, math.inf, 0.0, LowestGroup("region", "a", 0.6), target, 2)
    assert outlook.to_json() == {
        "c": "inf",
        "gained": 1.0,
        "benefit": 0.5,
        "wait": None,
        "residual": 0.0,
        "group": 0.6,
        "group_column": "region",
        "lowest_group": "a",
        "target": {"goal": "group", "value": 0.5, "column": "region"},
        "target_said": "no region below 50 % of the average rate",
        "most_effective_gained": 2,
        "binds": True,
    }


# Targets.


def outlook_with(benefit=0.5, wait=8.0, share=0.5):
    return Outlook(1.0, 1.0, benefit, wait, 0.0, LowestGroup("region", "a", share))


@pytest.mark.parametrize(
    ("target", "name", "sign"),
    [
        (Target("benefit", 0.5), "benefit", 1),
        (Target("wait", 8.0), "wait", -1),
        (Target("group", 0.5, "region"), "share", 1),
    ],
)
def test_a_target_is_met_up_to_rounding(target, name, sign):
    for error, met in ((1e-3, True), (0.0, True), (-5e-10, True), (-2e-9, False), (-0.1, False)):
        value = target.value * (1 + sign * error)
        assert outlook_with(**{name: value}).meets(target) == met
        assert outlook_with(**{name: value}).figure(target) == value


@pytest.mark.parametrize(
    ("target", "figures", "words"),
    [
        (Target("wait", 2.0), {"wait": 4.001}, str(Target("wait", 4.01))),
        (Target("wait", 2.0), {"wait": math.inf}, "none: somebody would never be contacted"),
        (
            Target("group", 0.9, "region"),
            {"share": 0.7509},
            "no region below 75 % of the average rate",
        ),
        (
            Target("group", 0.9, "region"),
            {"share": 0.0004},
            "none: some region would hardly ever be contacted",
        ),
    ],
)
def test_the_nearest_target_is_rounded_to_the_safe_side(target, figures, words):
    assert _nearest(target, outlook_with(**figures)) == words


def test_targets_in_words():
    assert str(Target("benefit", 0.95)) == (
        "keep at least 95 % of the benefit of the most effective plan"
    )
    assert str(Target("wait", 8.0)) == (
        "everybody's wait at most 8 rounds on average over what may come "
        "(now and then somebody will wait longer)"
    )


@pytest.fixture
def ten():
    """Ten people at one site, two contacts a round."""
    return [site(cohort_of(10, 2, 9), 2, 6)], people_of(*"NNNNNNNSSS")


def chosen(ten, target):
    return choose_c(ten[0], Settings(target=target), ten[1])


@pytest.mark.parametrize("share", [0.85, 0.95])
def test_a_benefit_gets_the_least_c_that_gives_it(ten, share):
    """c meets the target and c / 1.02 does not; 1.02 is the precision that is promised."""
    target = Target("benefit", share)
    outlook = chosen(ten, target)
    prospects = Prospects(*ten)
    assert 0 < outlook.c < math.inf
    assert prospects.at(outlook.c).meets(target)
    assert not prospects.at(outlook.c / 1.02).meets(target)
    assert outlook.target == target
    assert outlook.most_effective_gained == prospects.most_effective_gained


@pytest.mark.parametrize(
    "target", [Target("wait", 8.0), Target("wait", 20.0), Target("group", 0.8, "region")]
)
def test_the_others_get_the_largest_c_that_keeps_them(ten, target):
    outlook = chosen(ten, target)
    prospects = Prospects(*ten, "region")
    assert 0 < outlook.c < math.inf
    assert prospects.at(outlook.c).meets(target)
    assert not prospects.at(outlook.c * 1.02).meets(target)


def test_a_target_that_the_bolder_end_meets_gets_that_end(ten):
    p = np.array([[[0.2, 0.5], [0.6, 0.9]], [[0.1, 0.7], [0.3, 0.8]]])  # contact helps both
    helped = [site(Cohort.two_state(p), 1, 4)], people_of(*"NS")
    assert chosen(helped, Target("benefit", 0.1)).c == 0
    # A target of evenness that binds nobody leaves the programme's own c.
    assert chosen(ten, Target("group", 1e-6, "region")).c == Settings().c


def test_the_limits_of_targets(ten):
    """The lottery lets everybody wait n / k = 5 rounds; the hardest plan has the whole benefit."""
    assert chosen(ten, Target("wait", 5.0 * (1 + 1e-7))).wait == pytest.approx(5, rel=1e-6)
    with pytest.raises(Infeasible, match=r"nearest that can is .* 5(\.01)? rounds .*, at c = 0;"):
        chosen(ten, Target("wait", 4.9))
    assert chosen(ten, Target("benefit", 1.0)).benefit == pytest.approx(1, abs=1e-9)


def test_c_of_the_settings_without_a_target(ten):
    outlook = choose_c(ten[0], Settings(c=3.5), ten[1])
    assert (outlook.c, outlook.target, outlook.most_effective_gained) == (3.5, None, None)
    assert outlook.lowest.column == "region"  # the first group column


class Hill:
    """Prospects whose groups are even for c between 1 and 10 alone."""

    hardest = 200.0

    def at(self, c):
        share = 0.9 if 1 <= c <= 10 else 0.5 if c else 0.6
        return Outlook(c, 1.0, 1.0, 1.0, 0.0, LowestGroup("region", "a", share))


def test_a_group_target_between_the_ends_gets_the_largest_c_that_was_tried():
    """Thirteen multipliers from 0.02 to 200, each 10 ** (1 / 3) times the one before."""
    found = _found(Hill(), Target("group", 0.8, "region"), 10.0)
    assert found.c == pytest.approx(0.02 * 10 ** (8 / 3), rel=1e-12)
    with pytest.raises(Infeasible, match=r"no region below 90 % .* at c = 2;"):
        _found(Hill(), Target("group", 0.95, "region"), 10.0)


def test_a_group_that_no_plan_reaches():
    """A site without capacity: no c gives its people any contact, and that is said."""
    sites = [site(cohort_of(4, 2, 10), 2, 4), site(cohort_of(4, 2, 11), 0, 4, first=4)]
    target = Target("group", 0.05, "region")
    with pytest.raises(Infeasible, match="nearest that can is none: some region would hardly ever"):
        choose_c(sites, Settings(target=target), people_of(*"NNNNSSSS"))


# What is stated, by the draws of a posterior.


def model_with(draws):
    """A model of the mean of these draws of P [L, n, 2, S, S]."""
    draws = np.asarray(draws, float)
    P = draws.mean(axis=0)
    whole = np.rint(draws[..., 1:] * UNIT).astype(np.uint16)
    return Model(1, "", 0, None, P, P, P, np.ones(P.shape[:3], int), np.zeros(len(P), bool), whole)


def test_without_doubt_the_gain_is_that_of_the_plan():
    cohort = cohort_of(6, 2, 1)
    people = site(cohort, 2, 5)
    gain, worth = weigh([people], 3.0, model_with([cohort.P] * 9), 0.9, Reach(0, 0))
    wanted = people.follow(3.0).reward - people.follow(None).reward
    # Draws are stored in steps of 1 / 65,535; a gain sums five rounds of six people.
    assert gain.value == pytest.approx(wanted, abs=1e-3)
    assert gain.high - gain.low < 1e-9
    np.testing.assert_allclose(worth.low, worth.high)


def test_the_worth_of_a_contact_in_the_last_round():
    cohort = cohort_of(4, 3, 2)
    gain, worth = weigh([site(cohort, 1, 1)], 3.0, model_with([cohort.P] * 9), 0.9, Reach(0, 0))
    wanted = ((cohort.P[:, 1] - cohort.P[:, 0]) @ [0, 0.5, 1] * cohort.start).sum(axis=1)
    np.testing.assert_allclose(worth.mean, wanted, atol=1e-4)
    half, _ = weigh([site(cohort, 1, 1)], 3.0, model_with([cohort.P] * 9), 0.9, Reach(10**9, 10**9))
    assert half.value == pytest.approx(gain.value / 2, abs=1e-4)


def test_an_error_common_to_everybody_does_not_average_out():
    """An effect of -.1 or +.3 for all 200 alike: of the total as little is known as of one."""
    p = np.tile([[0.4, 0.6], [0.4, 0.6]], (200, 1, 1))
    draws = [p + np.array([[[0], [effect]]]) for effect in (-0.1, 0.3)] * 10
    both = np.stack([1 - np.array(draws), np.array(draws)], axis=-1)
    model = model_with(both)
    gain, worth = weigh([site(Cohort(model.P), 20, 1)], 0.0, model, 0.9, Reach(0, 0))
    assert (gain.low, gain.high) == (pytest.approx(-2, abs=0.01), pytest.approx(6, abs=0.01))
    assert gain.value == pytest.approx(2, abs=0.01)
    assert not gain.told
    np.testing.assert_allclose(worth.mean, 0.1, atol=1e-4)


def test_the_share_that_is_reached():
    assert Reach(0, 0).share is None
    assert (Reach(0, 0).draws(3) == 1).all()
    assert Reach(17, 3).share == 17.5 / 21
    assert Reach(17, 3).draws(400).mean() == pytest.approx(17.5 / 21, abs=0.002)


def test_a_model_without_draws_states_nothing():
    cohort = cohort_of(3, 2, 1)
    model = dataclasses.replace(model_with([cohort.P]), draws=np.empty((0, 3, 2, 2, 1), np.uint16))
    assert weigh([site(cohort, 1, 2)], 1.0, model, 0.9, Reach(0, 0)) == (None, None)
