"""Costs of arms, throughout: laws of lists by enumeration, bounds by joint programmes, refusals.

The law of lists is computed here by enumeration of all subsets. `joint` has the dynamic programmes.
Neither uses code of the package.
"""

from __future__ import annotations

import ast
import math
import pickle
import re
from itertools import chain, combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint import Q_of, any_cohort, rewards_of, start_of
from scipy.optimize import brentq
from scipy.special import expit

import softfair as sf
from softfair.allocation import allocate, states_now
from softfair.comparison import limit
from softfair.errors import InvalidInput
from softfair.files import read_cohort, write_cohort
from softfair.registry import POLICIES
from softfair.shards import shards_of
from softfair.solvers import solve_meanfield, solve_priced, upper_bound

pytestmark = pytest.mark.filterwarnings("error::softfair.errors.NotConverged")

TAKES = {  # of every registered policy that takes costs
    "NoIntervention": sf.NoIntervention(),
    "Random": sf.Random(),
    "Myopic": sf.Myopic(),
    "Oracle": sf.Oracle(),
    "Whittle": sf.Whittle(),
    "Whittle(finite)": sf.Whittle("finite"),
    "SoftFair": sf.SoftFair(c=5.0),
    "SoftFair(lottery)": sf.SoftFair(c=0.0),
    "SoftFair(inf)": sf.SoftFair(c=math.inf),
    "SoftFair(meanfield)": sf.SoftFair(c=3.0, solver="meanfield"),
}
REFUSES = {
    "RoundRobin": sf.RoundRobin(),
    "FairMyopic": sf.FairMyopic(),
    "ThresholdWhittle": sf.ThresholdWhittle(),
    "FaWT": sf.FaWT(window=8),
    "ProbFair": sf.ProbFair(low=0.0),
    "EvenHanded": sf.EvenHanded(mu=5.0),
    "SoftFair(successive)": sf.SoftFair(c=3.0, design="successive"),
    "SoftFair(paper)": sf.SoftFair(c=3.0, solver="paper"),
    "SoftFair(max_wait)": sf.SoftFair(c=5.0, max_wait=6),
    "SoftFair(floor)": sf.SoftFair(c=5.0, floor=0.01),
}


def with_costs(cohort, cost):
    return sf.Cohort(
        cohort.P,
        reward=np.stack([cohort.reward, cohort.reward + cohort.at_once], axis=2),
        start=cohort.start,
        cost=cost,
    )


def mixed(n, seed=0, costs=(1, 2, 4)):
    """The paper's arms, with costs in turn."""
    return sf.Cohort.two_state(sf.datasets.synthetic(n=n, seed=seed).p, cost=np.resize(costs, n))


def subsets(n):
    return [frozenset(some) for size in range(n + 1) for some in combinations(range(n), size)]


def affordable(cost, budget):
    return [some for some in subsets(len(cost)) if sum(cost[i] for i in some) <= budget]


def complete(cost, budget):
    """Lists within the budget to which nobody can be added."""
    return [
        some
        for some in affordable(cost, budget)
        if all(sum(cost[j] for j in some) + cost[i] > budget for i in {*range(len(cost))} - some)
    ]


def law(y, cost, budget):
    """The complete lists, and the chance of each."""
    fit = [i for i in range(len(cost)) if cost[i] <= budget]
    lists = complete(cost, budget)
    budget -= budget % math.gcd(*cost)
    theta = 0.0
    if 0 < budget < sum(cost[i] for i in fit):

        def excess(theta):
            return sum(cost[i] * expit(y[i] - theta) for i in fit) - budget

        theta = brentq(excess, min(y) - 60, max(y) + 60, xtol=1e-14, rtol=1e-15)
    logs = np.array([sum(y[i] - theta for i in some) for some in lists])
    chances = np.exp(logs - logs.max())
    return lists, chances / chances.sum()


def chances_of(y, cost, budget):
    lists, chances = law(y, cost, budget)
    return [
        sum(p for some, p in zip(lists, chances, strict=True) if i in some) for i in range(len(y))
    ]


# ---- the law of lists: closed form, enumeration, properties, statistics ----


def test_two_complete_lists():
    """Costs 1, 1, 2 and a budget of 2: {0, 1} or {2}, with odds e^{y0 + y1 - y2 - theta}."""
    # 2 sigmoid(1 - theta) + 2 sigmoid(-theta) = 2 is solved by theta = 1/2.
    odds = math.exp(1.0 + 1.0 - 0.0 - 0.5)
    np.testing.assert_allclose(
        sf.costs.inclusion([1.0, 1.0, 0.0], [1, 1, 2], 2),
        [odds / (1 + odds)] * 2 + [1 / (1 + odds)],
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-15, 15), st.sampled_from([1, 2, 3, 4, 6, 9])), min_size=1, max_size=8
    ),
    st.integers(0, 30),
)
def test_chances_are_those_of_the_enumerated_law(arms, budget):
    y, cost = [w for w, _ in arms], [b for _, b in arms]
    np.testing.assert_allclose(
        sf.costs.inclusion(y, cost, budget), chances_of(y, cost, budget), atol=1e-9
    )


def test_draws_follow_the_law():
    """Every list comes as often as its chance says, by Hoeffding: 2 exp(-2 N e^2) = 1e-9 each."""
    y, cost, budget, N = [0.3, -1.0, 0.8, 0.0, 1.1, -0.4], [1, 2, 1, 3, 4, 2], 5, 20_000
    lists, chances = law(y, cost, budget)
    rng = np.random.default_rng(5)
    seen = {some: 0 for some in lists}
    for _ in range(N):
        seen[frozenset(sf.costs.draw(y, cost, budget, rng).tolist())] += 1  # no other list at all
    room = math.sqrt(math.log(2e9) / (2 * N))
    for some, chance in zip(lists, chances, strict=True):
        assert abs(seen[some] / N - chance) < room, some


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_lists_are_complete_at_any_spread(data):
    n = data.draw(st.integers(1, 40))
    spread = data.draw(st.sampled_from([0.0, 1.0, 100.0, 1e4, 1e6]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    y, cost = spread * rng.normal(size=n), rng.choice([2, 4, 5, 10], n)
    budget = data.draw(st.integers(0, int(cost.sum())))
    chances = sf.costs.inclusion(y, cost, budget)
    assert ((chances >= 0) & (chances <= 1)).all()
    assert cost @ chances <= budget + 1e-6
    draws = (sf.costs.draw(y, cost, budget, rng), sf.costs.draw_top(y, cost, budget, rng))
    for arms in draws:
        left = budget - cost[arms].sum()
        assert left >= 0
        assert (np.delete(cost, arms) > left).all()
    assert (chances[draws[0]] > 0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(0, 99), st.sampled_from([1, 2, 7]))
def test_equal_costs_are_the_joint_design(n, seed, cost):
    rng = np.random.default_rng(seed)
    y, k = 3 * rng.normal(size=n), int(rng.integers(0, n + 1))
    found = sf.costs.inclusion(y, np.full(n, cost), cost * k + int(rng.integers(0, cost)) * (k < n))
    np.testing.assert_allclose(found, sf.sampling.inclusion(y, k, "joint"), atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(0, 99))
def test_of_two_arms_of_equal_cost_the_one_of_larger_weight_has_the_better_chance(n, seed):
    rng = np.random.default_rng(seed)
    y, cost = 4 * rng.normal(size=n), rng.integers(1, 4, n)
    chances = sf.costs.inclusion(y, cost, int(rng.integers(1, cost.sum() + 1)))
    for b in set(cost.tolist()):
        ranked = chances[cost == b][np.argsort(y[cost == b])]
        assert (np.diff(ranked) >= -1e-12).all()


def test_order_across_costs_has_exceptions_where_a_budget_pays_for_few():
    """Equal weights, costs 2, 3, 1, 1, a budget of 4: lists {3, 1}, {3, 1'} and {2, 1, 1'}.

    7 sigmoid(-theta) = 4 gives odds of 4/3: the arm of cost 3 has a better chance than that of 2.
    """
    chances = sf.costs.inclusion([0.0] * 4, [2, 3, 1, 1], 4)
    np.testing.assert_allclose(chances, [0.4, 0.6, 0.7, 0.7])


@pytest.mark.parametrize(
    ("n", "budget", "stated"), [(12, 6, 0.36), (100, 40, 0.03), (1000, 400, 0.003)]
)
def test_chances_are_near_the_sigmoid_whatever_arms_cost(n, budget, stated):
    """The figure that the module states for n = 100, and all three of the decision record."""
    cost, worst = np.resize([1, 2, 4], n), 0.0
    for c in (0.0, 0.5, 1.0, 2.0, 4.0):
        y = c * np.random.default_rng(int(10 * c)).normal(size=n)
        theta = brentq(lambda theta, y=y: cost @ expit(y - theta) - budget, -60, 60)
        worst = max(worst, np.abs(sf.costs.inclusion(y, cost, budget) - expit(y - theta)).max())
    assert 0.5 * stated < worst < stated  # no smaller either, or the record would be out of date


def test_a_lottery_of_unweighted_entropy_would_leave_out_the_dear():
    """Costs 1, 2, 4 and 40 to spend: sigmoid(-a cost) is .36, .24, .09; here .17 for all."""
    cost, budget = np.resize([1, 2, 4], 100), 40
    a = brentq(lambda a: cost @ expit(-a * cost) - budget, 0, 10)
    np.testing.assert_allclose(expit([-a, -2 * a, -4 * a]), [0.36, 0.24, 0.09], atol=0.005)
    lottery = sf.costs.inclusion(np.zeros(100), cost, budget)
    for b, chance in ((1, 0.174), (2, 0.174), (4, 0.171)):
        np.testing.assert_allclose(lottery[cost == b], chance, atol=0.0005)


def test_from_the_highest_score_down():
    """A walk down the scores takes every arm that still fits; equal arms share what is left."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        n = int(rng.integers(1, 12))
        scores, cost = rng.normal(size=n), rng.integers(1, 6, n)
        budget = int(rng.integers(0, cost.sum() + 1))
        left, chosen = budget, np.zeros(n)
        for i in sorted(range(n), key=lambda i: -scores[i]):
            if cost[i] <= left:
                chosen[i], left = 1.0, left - cost[i]
        np.testing.assert_array_equal(sf.costs.inclusion_of_top(scores, cost, budget), chosen)
        drawn = sf.costs.draw_top(scores, cost, budget, rng)
        assert drawn.tolist() == np.flatnonzero(chosen).tolist()


def test_equals_share_what_is_left_as_often_as_stated():
    scores, cost = np.array([2.0, 1.0, 1.0, 1.0, 1.0, 0.0]), np.array([3, 2, 2, 2, 5, 1])
    chances = sf.costs.inclusion_of_top(scores, cost, 8)  # 5 after the first: two of three, then 1
    np.testing.assert_allclose(chances, [1, 2 / 3, 2 / 3, 2 / 3, 0, 1])
    rng, N = np.random.default_rng(0), 4000
    seen = np.zeros(6)
    for _ in range(N):
        seen[sf.costs.draw_top(scores, cost, 8, rng)] += 1
    assert np.abs(seen / N - chances).max() < math.sqrt(math.log(2e9) / (2 * N))


@pytest.mark.parametrize(
    ("y", "cost", "budget", "says"),
    [
        ([0.0, 1.0], [1, 0], 1, "cost"),
        ([0.0, 1.0], [1, 1.5], 1, "cost"),
        ([0.0, 1.0], [1], 1, "shape"),
        ([0.0, np.nan], [1, 1], 1, "weights"),
        ([0.0, 1.0], [1, 1], -1, "budget"),
        ([0.0, 1.0], ["a", 1], 1, "numbers"),
    ],
)
def test_meaningless_lists_are_refused(y, cost, budget, says):
    with pytest.raises(InvalidInput, match=says):
        sf.costs.inclusion(y, cost, budget)


# ---- cohorts ----


def test_a_cohort_keeps_its_costs(tmp_path):
    cohort = mixed(6)
    assert cohort.cost.tolist() == [1, 2, 4, 1, 2, 4]
    assert repr(cohort) == "Cohort(n=6, S=2, costs=1 to 4)"
    assert cohort.subset([2, 1]).cost.tolist() == [4, 2]
    for again in (
        pickle.loads(pickle.dumps(cohort)),
        *(sf.Cohort.from_frame(cohort.to_frame(b)) for b in ("pandas", "polars", "pyarrow")),
    ):
        assert again.cost.tolist() == cohort.cost.tolist()
        assert not again.extra
    for name in ("people.csv", "people.parquet"):
        write_cohort(cohort, tmp_path / name)
        assert read_cohort(tmp_path / name).cost.tolist() == cohort.cost.tolist()
    assert "cost" not in with_costs(cohort, np.ones(6)).to_frame()
    assert "costs" in cohort._repr_html_()
    with pytest.raises(ValueError, match="read-only"):
        cohort.cost[0] = 3


@pytest.mark.parametrize(
    ("cost", "says"),
    [
        ([1, 2], r"shape \(2,\)"),
        ([1, 2, 0], r"cost\[2\] is 0"),
        ([1, 2.5, 1], r"cost\[1\] is 2.5"),
        ([1, np.nan, 1], r"cost\[1\] is nan"),
        (["a", "b", "c"], "cost is not"),
    ],
)
def test_meaningless_costs_are_refused(cost, says):
    with pytest.raises(InvalidInput, match=says):
        with_costs(sf.datasets.synthetic(n=3, seed=0), cost)


def test_costs_are_no_extra_column():
    with pytest.raises(InvalidInput, match="give cost="):
        sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]], extra={"cost": [2]})


def test_columns_of_costs_are_checked():
    frame = sf.datasets.synthetic(n=3, seed=0).to_frame()
    with pytest.raises(InvalidInput, match="row 1, column cost is '0'"):
        sf.Cohort.from_frame(frame.assign(cost=[1, 0, 2]))
    with pytest.raises(InvalidInput, match="'Cost'"):
        sf.Cohort.from_frame(frame.assign(Cost=[1, 1, 2]))


def test_gains_for_their_cost():
    """Costs 1 and 3: rewards count 2 and 2/3 times."""
    plain = any_cohort(2, 3, 4, by_action=True)
    cohort = with_costs(plain, [1, 3])
    ratio = np.array([2.0, 2 / 3])[:, None]
    arms = cohort.per_cost
    assert not arms.with_costs
    np.testing.assert_allclose(arms.immediate_gain, ratio * plain.immediate_gain)
    np.testing.assert_allclose(rewards_of(arms), ratio[:, None] * rewards_of(plain))
    assert plain.per_cost is plain


# ---- solvers and bounds ----


def in_costs(cohort, theta, c, gamma, respond):
    """Gains [T, n, S] and what is expected to be spent [T], from the equations with costs."""
    share = (cohort.cost / cohort.cost.mean())[:, None]
    R, V, gains, chances = rewards_of(cohort), np.zeros((cohort.n, cohort.S)), [], []
    for theta_t in theta[::-1]:
        Q = np.einsum("iast,it->ais", cohort.P, R[:, :, 0] + gamma * V)
        gains.append(Q[1] + R[:, :, 1] - R[:, :, 0] - Q[0])
        x = c * gains[-1] / share - theta_t
        chances.append(expit(x))
        V = Q[0] + respond(gains[-1], x, share)
    mu, spent = cohort.start, []
    for pi in chances[::-1]:
        spent.append(cohort.cost @ (mu * pi).sum(axis=1))
        stay, go = mu * (1 - pi), mu * pi
        mu = np.einsum("is,ist->it", stay, cohort.P[:, 0]) + np.einsum(
            "is,ist->it", go, cohort.P[:, 1]
        )
    return np.array(gains[::-1]), np.array(spent)


@pytest.mark.parametrize("S", [2, 3])
def test_prices_meet_the_budget_and_gains_the_equations(S):
    cohort = with_costs(any_cohort(12, S, 1, by_action=True), np.resize([1, 2, 5], 12))
    share, c = (cohort.cost / cohort.cost.mean())[:, None], 4.0
    solvers = {
        "priced": (
            solve_priced(cohort, [6, 9, 0, 32, 12], 5, 0.9, c),
            lambda gain, x, share: share / c * np.logaddexp(0, x),
        ),
        "meanfield": (
            solve_meanfield(cohort, [6, 9, 0, 32, 12], 5, 0.9, c, "joint"),
            lambda gain, x, share: expit(x) * gain,
        ),
    }
    for values, respond in solvers.values():
        gains, spent = in_costs(cohort, values.theta, c, 0.9, respond)
        np.testing.assert_allclose(spent, [6, 9, 0, 32, 12], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(values.rows(0, 5), gains / share, rtol=1e-7, atol=1e-7)


def test_a_sample_leads_to_the_same_prices(monkeypatch):
    """Beyond SAMPLED arms prices are first found on a sample, which has its own mean cost."""
    cohort = mixed(600, seed=2)
    whole = solve_priced(cohort, 100, 6, 1.0, 5.0)
    monkeypatch.setattr("softfair.solvers.budget.SAMPLED", 100)
    np.testing.assert_allclose(solve_priced(cohort, 100, 6, 1.0, 5.0).theta, whole.theta, atol=1e-5)


def best_value(cohort, budgets, gamma):
    """The best that any policy can expect that spends at most budgets[t] at decision t."""
    V = np.zeros(cohort.S**cohort.n)
    for most in reversed(budgets):
        V = Q_of(cohort, V, gamma, affordable(cohort.cost.tolist(), most)).max(axis=0)
    return float(start_of(cohort) @ V)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_holds_against_the_joint_optimum(seed):
    rng = np.random.default_rng(seed)
    cohort = with_costs(any_cohort(4, 2, seed, by_action=seed % 2 == 0), rng.integers(1, 5, 4))
    budgets = rng.integers(0, cohort.cost.sum() + 1, 4).tolist()
    gamma = float(rng.choice([0.7, 1.0]))
    best = best_value(cohort, budgets, gamma)
    bound = upper_bound(cohort, budgets, 4, gamma)
    assert best <= bound + 1e-9
    # Prices buy fractions: at most what the dearest arm adds at each decision lies between.
    assert bound - best < 4 * np.ptp(rewards_of(cohort)) * 4
    # It is no trivial bound: less than what all could have if everybody were helped.
    if min(budgets) < cohort.cost.max() / 2:
        assert bound < upper_bound(cohort, int(cohort.cost.sum()), 4, gamma)


def test_the_bound_of_everybody_and_of_nobody():
    plain = any_cohort(4, 2, 3)
    cohort = with_costs(plain, [1, 2, 3, 4])
    for k, count in ((0, 0), (10, 4)):
        assert upper_bound(cohort, k, 5, 0.9) == pytest.approx(upper_bound(plain, count, 5, 0.9))


def test_an_arm_too_dear_for_the_budget_makes_the_bound_no_less_valid():
    cohort = with_costs(any_cohort(3, 2, 8), [1, 9, 9])
    assert best_value(cohort, [4] * 3, 1.0) <= upper_bound(cohort, 4, 3, 1.0)
    assert sf.SoftFair(c=3).fit(cohort, 4, 3).inclusion(0, [0, 0, 0]).tolist() == [1.0, 0.0, 0.0]


# ---- costs of 1 are no costs, and the unit plays no part ----


@pytest.mark.parametrize("name", TAKES)
def test_costs_of_1_are_no_costs_to_the_last_bit(name):
    plain = sf.datasets.synthetic(n=12, seed=3)
    ones = sf.Cohort.two_state(plain.p, cost=np.ones(12))
    one, other = (TAKES[name].fit(cohort, 3, 6) for cohort in (plain, ones))
    a, b = (sf.simulate(fitted, runs=5, trajectories=True) for fitted in (one, other))
    np.testing.assert_array_equal(a.trajectories.actions, b.trajectories.actions)
    np.testing.assert_array_equal(a.rewards, b.rewards)
    states = np.arange(12) % 2
    np.testing.assert_array_equal(one.scores(1, states), other.scores(1, states))
    np.testing.assert_array_equal(one.inclusion(1, states), other.inclusion(1, states))


@pytest.mark.parametrize("name", TAKES)
def test_costs_of_2_and_twice_the_budget_are_no_costs(name):
    plain = sf.datasets.synthetic(n=12, seed=3)
    twos = sf.Cohort.two_state(plain.p, cost=np.full(12, 2))
    states = np.arange(12) % 2
    for budget in (6, 7):  # the odd unit buys nothing
        one, other = TAKES[name].fit(plain, 3, 6), TAKES[name].fit(twos, budget, 6)
        np.testing.assert_allclose(one.scores(1, states), other.scores(1, states), rtol=1e-9)
        np.testing.assert_allclose(one.inclusion(1, states), other.inclusion(1, states), rtol=1e-8)
        assert upper_bound(plain, 3, 6, 1.0) == pytest.approx(upper_bound(twos, budget, 6, 1.0))


def test_minutes_or_hours_make_no_difference():
    states = np.arange(20) % 2
    hours, minutes = mixed(20), mixed(20, costs=(60, 120, 240))
    one, other = (sf.SoftFair(c=5).fit(of, k, 6) for of, k in ((hours, 9), (minutes, 540)))
    np.testing.assert_allclose(one.inclusion(2, states), other.inclusion(2, states), rtol=1e-9)


# ---- policies and simulations ----


def test_every_policy_takes_costs_or_refuses():
    assert {name.partition("(")[0] for name in chain(TAKES, REFUSES)} == set(POLICIES)


@pytest.mark.parametrize("name", REFUSES)
def test_what_has_no_law_is_refused_by_name(name):
    with pytest.raises(InvalidInput, match=rf"costs \(1 to 4\), which {name.partition('(')[0]}"):
        REFUSES[name].fit(mixed(12), 6, 6)


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize("budget", [7, [5, 0, 28, 3]])
def test_runs_never_spend_more_and_leave_out_nobody_who_fits(name, budget):
    cohort = mixed(12, seed=1)
    fitted = TAKES[name].fit(cohort, budget, 4)
    runs = sf.simulate(fitted, runs=30, trajectories=True)
    actions = runs.trajectories.actions
    left = np.broadcast_to(budget, 4) - actions @ cohort.cost  # [runs, T]
    if name == "NoIntervention":
        assert not actions.any()
        return
    assert (left >= 0).all()
    left_out = np.where(actions, 99, cohort.cost)
    assert (left_out.min(axis=2) > left).all()
    np.testing.assert_array_equal(runs.counts, actions.sum(axis=1))
    again = sf.simulate(fitted, runs=30)
    np.testing.assert_array_equal(runs.rewards, again.rewards)
    rng = np.random.default_rng(0)
    for t in range(4):
        arms = fitted.draw(t, runs.trajectories.states[0, t], rng)
        assert cohort.cost[arms].sum() <= np.broadcast_to(budget, 4)[t]


def test_simulations_earn_what_the_law_of_lists_says():
    """The exact value by enumeration; runs are within 6 standard errors of it."""
    cohort, budget, T = with_costs(any_cohort(4, 2, 11, by_action=True), [1, 2, 2, 3]), 4, 3
    for policy in (sf.SoftFair(c=2.0), sf.Random()):
        fitted = policy.fit(cohort, budget, T)
        V = np.zeros(2**4)
        for t in reversed(range(T)):
            lists = complete(cohort.cost.tolist(), budget)
            Q, V = Q_of(cohort, V, 1.0, lists), np.empty(2**4)
            for j, states in enumerate(product(range(2), repeat=4)):
                y = fitted.rule.c * fitted.scores(t, np.array(states))
                V[j] = law(y.tolist(), cohort.cost.tolist(), budget)[1] @ Q[:, j]
        value = float(start_of(cohort) @ V)
        totals = sf.simulate(fitted, runs=20_000).totals
        assert abs(totals.mean() - value) < 6 * totals.std() / math.sqrt(len(totals))
        assert value <= sf.SoftFair().fit(cohort, budget, T).upper_bound


def test_scores_are_for_the_cost_of_an_average_arm():
    cohort, states = mixed(12), np.arange(12) % 2
    plain, share = sf.datasets.synthetic(n=12, seed=0), cohort.cost / cohort.cost.mean()
    for policy in (sf.Whittle(), sf.Whittle("finite"), sf.Myopic()):
        one, other = policy.fit(plain, 3, 6), policy.fit(cohort, 7, 6)
        np.testing.assert_allclose(other.scores(1, states), one.scores(1, states) / share)


def test_a_lottery_gives_all_nearly_the_same_chance():
    fitted = sf.SoftFair(c=0).fit(mixed(60), 30, 5)
    chances = fitted.inclusion(0, np.zeros(60, int))
    assert np.ptp(chances) < 0.03
    assert chances @ fitted.cohort.cost == pytest.approx(30, abs=1.5)


def test_costs_make_a_difference():
    """Without its cost the expensive arm would be helped; with its cost it is not."""
    p = [[[0.1, 0.1], [0.5, 0.5]], [[0.1, 0.1], [0.4, 0.4]], [[0.1, 0.1], [0.4, 0.4]]]
    assert sf.Myopic().fit(sf.Cohort.two_state(p), 1, 1).inclusion(0, [0] * 3)[0] == 1
    dear = sf.Cohort.two_state(p, cost=[2, 1, 1])
    assert sf.Myopic().fit(dear, 2, 1).inclusion(0, [0] * 3).tolist() == [0, 1, 1]


def test_saved_policies_keep_their_costs(tmp_path):
    cohort, states = mixed(12), np.arange(12) % 2
    for name, policy in TAKES.items():
        fitted = policy.fit(cohort, 7, 5)
        fitted.save(tmp_path / "model")
        again = sf.load(tmp_path / "model")
        assert again.cohort.cost.tolist() == cohort.cost.tolist(), name
        np.testing.assert_array_equal(again.inclusion(1, states), fitted.inclusion(1, states))
    assert "cost of help at most" in fitted._repr_html_()


def test_a_cluster_is_named_where_it_alone_refuses_costs():
    """What takes costs in one process says that the cluster does not, what takes none does not."""
    setting = {"cohort": mixed(6), "k": 4, "horizon": 3}
    with pytest.raises(InvalidInput, match=r"which SoftFair\(c=5\) on a cluster has no equation"):
        sf.SoftFair(c=5).fit(**setting, on="1")
    with pytest.raises(InvalidInput, match=r"which SoftFair\(c=3, successive\) has no"):
        sf.SoftFair(c=3, design="successive").fit(**setting)


def test_budgets_beyond_all_costs_are_refused():
    with pytest.raises(InvalidInput, match="k is 29, all arms of the cohort cost 28 together"):
        sf.Random().fit(mixed(12), 29, 3)
    chances = sf.Random().fit(mixed(12), 28, 3).inclusion(0, np.zeros(12, int))
    assert chances.tolist() == [1.0] * 12


def test_comparisons_with_costs():
    policies = [sf.Random(), sf.SoftFair(c=5), sf.Oracle(), sf.RoundRobin()]
    with pytest.warns(UserWarning, match="RoundRobin cannot be compared: the arms have costs"):
        table = sf.compare(policies, mixed(40), k=16, horizon=10, runs=30)
    assert table.problem.tolist()[:3] == ["", "", ""]
    assert "costs" in table.problem[3]
    assert (table.of_bound[:3] < 101).all()
    assert table.benefit[2] == pytest.approx(100)
    assert table.benefit[0] < table.benefit[1]
    curve = sf.frontier(mixed(40), k=16, horizon=10, runs=20, cs=[0, 5, math.inf])
    assert curve.benefit.is_monotonic_increasing
    assert curve.entropy.is_monotonic_decreasing


# ---- every door ----


class Own(sf.Fitted):
    def scores(self, t, states, memory=None):
        return np.zeros(self.cohort.n)


class OwnPolicy(sf.Policy):
    def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
        return Own(self, cohort, k, horizon, gamma)


class OwnThatClaims(OwnPolicy):
    takes_costs = True


class Claimed(sf.Fitted):
    """Side by side, with a scorer."""


class Zeros:
    def rows(self, first, count):
        return np.zeros((1, 12, 2))


def _refusing_calls(cohort):
    """What must refuse costs, by the name of the function or class."""
    from softfair import env, indices, solvers, testing
    from softfair.solvers import realised
    from softfair.theory import gains

    one = (cohort, 6, 5, 1.0)
    return {
        "Fitted": lambda: OwnPolicy().fit(cohort, 6, 5),
        "limit": lambda: limit(cohort, 6, 5),
        "shards_of": lambda: shards_of(cohort),
        "RMAB": lambda: env.RMAB(cohort, 6, 5),
        "VectorRMAB": lambda: env.VectorRMAB(2, cohort, 6, 5),
        "whittle": lambda: indices.whittle(cohort),
        "sigmoid": lambda: indices.sigmoid(cohort, 1.0, 5),
        "threshold": lambda: indices.threshold(cohort, 5),
        "solve_evenhanded": lambda: solvers.solve_evenhanded(*one, 5.0, 1.0),
        "solve_meanfield": lambda: solvers.solve_meanfield(*one, 5.0, "successive"),
        "solve_paper": lambda: solvers.solve_paper(*one, 5.0, "joint", 10, 0),
        "solve_promised": lambda: solvers.solve_promised(*one, 5.0, 6, 0.0),
        "solve_shared": lambda: solvers.solve_shared(
            *one, 5.0, np.ones((1, cohort.n), bool), np.zeros(1), np.full(1, 6.0)
        ),
        "promised_bound": lambda: solvers.promised_bound(*one, 6, 0.0),
        "tradeoff_bound": lambda: solvers.tradeoff_bound(*one),
        "solve_for": lambda: realised.solve_for(*one, 5.0, None, None, 0.5),
        "check_policy": lambda: testing.check_policy(sf.Random(), cohorts=[cohort]),
        "algorithm_1_gains": lambda: gains.algorithm_1_gains(*one, 5.0, 5),
        "algorithm_1_values": lambda: gains.algorithm_1_values(*one, 5.0, 5),
        "FaWT.fit": lambda: sf.FaWT(window=8).fit(cohort, 6, 5),
        "ProbFair.fit": lambda: sf.ProbFair(low=0.0).fit(cohort, 6, 5),
        "EvenHanded.fit": lambda: sf.EvenHanded(mu=5.0).fit(cohort, 6, 5),
        "FairMyopic.fit": lambda: sf.FairMyopic().fit(cohort, 6, 5),
        "RoundRobin.fit": lambda: sf.RoundRobin().fit(cohort, 6, 5),
        "ThresholdWhittle.fit": lambda: sf.ThresholdWhittle().fit(cohort, 6, 5),
        "FittedPromise": lambda: sf.SoftFair(max_wait=9).fit(cohort, 6, 5),
        "Groups.of": lambda: sf.SoftFair(shares={"north": (0, 1)}).fit(cohort, 6, 5),
        "SoftFair._fit_shares": lambda: sf.SoftFair(shares={"north": (0, 1)}, max_wait=9).fit(
            cohort, 6, 5
        ),
        "FittedEvenHanded": lambda: sf.EvenHanded(entropy=1.0).fit(cohort, 6, 5),
        "FittedProbFair": lambda: sf.ProbFair(low=0.0).fit(cohort, 6, 5),
        "frontier": lambda: sf.frontier(cohort, 6, 5, cs=[1], bound=True),
        "SoftFair.fit": lambda: sf.SoftFair().fit(cohort, 6, 5, on="tcp://nobody:1"),
    }


# What takes costs; each is used above, or by what is.
HANDLES = {
    "allocate", "states_now", "refuse_costs", "compare", "frontier", "tradeoff", "Agent",
    "write_cohort", "Fitted", "Policy.fit", "check_setting", "refuse_by_action",
    "Oracle.fit", "Whittle.fit", "Myopic.fit", "NoIntervention.fit", "Random.fit", "SoftFair.fit",
    "OneByOne", "Result", "Trajectories", "simulate", "simulate_and_look", "balance", "in_arms",
    "most_gain", "reward_range", "responses", "sample_of", "sweep", "balanced_values",
    "hard_multiplier", "learning_multiplier", "solve_priced", "upper_bound", "solve_meanfield",
    "priced_gains", "Passes.of",
}  # fmt: skip
# What only those above make, from cohorts that they have looked at, or that have no costs: those of
# a programme (SiteCohort), which are built from estimates.
INSIDE = {
    "Problem", "Referee", "BonusValues", "PromisedValues", "PriceValues", "SharedValues",
    "TableValues", "Pass.__call__", "SiteCohort", "SiteCohort._inverse_chances",
}  # fmt: skip


COHORT = re.compile(r"\b((Sharded)?Cohort|Fitted\w*)\b")  # in an annotation; not a SiteCohort
SOURCE = Path(sf.__file__).parent


def takes_cohort(function):
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return any(a.annotation and COHORT.search(ast.unparse(a.annotation)) for a in every)


def doors():
    """Public functions, classes and methods whose arguments are cohorts or fitted policies."""
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        public = [
            name
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            for name in ast.literal_eval(node.value)
        ]
        for node in tree.body:
            if getattr(node, "name", None) not in public:
                continue
            if isinstance(node, ast.FunctionDef) and takes_cohort(node):
                yield node.name
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(part, ast.AnnAssign) and COHORT.search(ast.unparse(part.annotation)):
                    yield node.name
                if isinstance(part, ast.FunctionDef) and takes_cohort(part):
                    yield node.name if part.name == "__init__" else f"{node.name}.{part.name}"


def test_every_door_takes_costs_or_refuses_them():
    assert set(doors()) == HANDLES | INSIDE | set(_refusing_calls(None))


@pytest.mark.parametrize("name", _refusing_calls(None))
def test_doors_that_refuse_say_so_in_a_line(name):
    with pytest.raises(InvalidInput, match=r"the arms have costs \(1 to 4\), which ") as caught:
        _refusing_calls(mixed(12))[name]()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rule", [sf.Rule.softmax(3.0, "successive"), sf.Rule.rounding()])
def test_rules_without_a_law_of_lists_refuse(rule):
    scores, cost = np.zeros(3), np.array([1, 2, 4])
    for call in (
        lambda: rule.inclusion(scores, 4, cost),
        lambda: rule.draw(scores, 4, np.random.default_rng(0), cost),
        lambda: sf.simulate(Claimed(OwnThatClaims(), mixed(12), 6, 3, 1.0, rule, Zeros())),
    ):
        with pytest.raises(InvalidInput, match="has no law of lists"):
            call()


def test_a_user_policy_without_calls_for_all_runs_cannot_claim_costs():
    with pytest.raises(InvalidInput, match="costs"):
        OwnThatClaims().fit(mixed(12), 6, 5)


def test_shards_refuse_a_column_of_costs(tmp_path):
    mixed(6).to_frame().to_parquet(tmp_path / "people.parquet")
    with pytest.raises(InvalidInput, match="'cost' that is not known in shards"):
        sf.open_cohort(tmp_path / "people.parquet")


def test_a_list_with_costs_from_a_file(tmp_path):
    cohort = mixed(9)
    fitted = sf.SoftFair(c=5).fit(cohort, 6, 10)
    states = states_now(sf.Cohort.two_state(cohort.p, start=[0] * 9, cost=cohort.cost))
    arms = allocate(fitted, states, 0, tmp_path / "list.csv")
    table = pd.read_csv(tmp_path / "list.csv")
    assert cohort.cost[table.listed].sum() <= 6
    assert np.flatnonzero(table.listed).tolist() == arms.tolist()
    np.testing.assert_allclose(table.probability, fitted.inclusion(0, np.zeros(9, int)))
