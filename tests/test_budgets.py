"""Budgets that change with time, throughout: against the joint optimum, the equations, enumeration.

`joint` has the dynamic programmes, apart from the package.
"""

from __future__ import annotations

import math
import warnings
from functools import reduce
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint import (
    active,
    any_cohort,
    backward,
    joint,
    joint_optimum,
    joint_value,
    moves_of,
    priced,
    sets_of,
    start_of,
    successive,
)

import softfair as sf
from softfair.comparison import limit
from softfair.errors import Infeasible, InvalidInput, NotConverged
from softfair.policies.deadlines import deadline_quotas
from softfair.policies.promised import check_promise
from softfair.solvers import (
    solve_evenhanded,
    solve_meanfield,
    solve_priced,
    tradeoff_bound,
    upper_bound,
)

pytestmark = pytest.mark.filterwarnings("error::softfair.errors.NotConverged")

ANY = {  # of every registered policy that takes a budget over time
    "NoIntervention": sf.NoIntervention(),
    "Random": sf.Random(),
    "RoundRobin": sf.RoundRobin(),
    "Myopic": sf.Myopic(),
    "FairMyopic": sf.FairMyopic(),
    "Oracle": sf.Oracle(),
    "Whittle": sf.Whittle(),
    "Whittle(finite)": sf.Whittle("finite"),
    "ThresholdWhittle": sf.ThresholdWhittle(),
    "SoftFair": sf.SoftFair(c=5.0),
    "SoftFair(inf)": sf.SoftFair(c=math.inf),
    "SoftFair(lottery)": sf.SoftFair(c=0.0),
    "SoftFair(meanfield)": sf.SoftFair(c=3.0, solver="meanfield", design="successive"),
    "SoftFair(paper)": sf.SoftFair(c=3.0, solver="paper", episodes=20),
    "EvenHanded": sf.EvenHanded(mu=5.0),
    "EvenHanded(log)": sf.EvenHanded(mu=5.0, c=10.0, welfare="log"),
    "EvenHanded(min)": sf.EvenHanded(mu=5.0, c=10.0, welfare="min"),
}
REFUSED = {"FaWT": sf.FaWT(window=8), "ProbFair": sf.ProbFair(low=0.0)}


def expected_active(cohort, theta, c, gamma, rule=priced, bonus=0.0):
    """Expected active arms at each step [T], each arm alone at its prices."""
    return active(cohort, backward(cohort, theta, c, gamma, rule, bonus)[1])


# ---- closed form ----


def test_a_budget_of_all_or_nobody_is_a_plain_chain():
    """With k_t = 0 or n there is no choice: values, gains and the bound are matrix products."""
    for S in (2, 3):
        cohort, k, gamma = any_cohort(4, S, 3), [0, 4, 4, 0, 4], 0.9
        V, gains = np.zeros((4, S)), []
        for helped in reversed(k):
            Q = np.einsum("iast,it->ais", cohort.P, cohort.reward + gamma * V)
            gains.append(Q[1] - Q[0])
            V = Q[1] if helped else Q[0]
        exact = np.sum(cohort.start * V)
        values = solve_priced(cohort, k, 5, gamma, 7.0)
        np.testing.assert_allclose(values.rows(0, 5), gains[::-1], atol=1e-12)
        fitted = sf.SoftFair(c=7.0).fit(cohort, k, 5, gamma)
        assert joint_value(fitted) == pytest.approx(exact, rel=1e-12)
        assert joint_optimum(cohort, k, gamma, at_most=False) == pytest.approx(exact, rel=1e-12)


def test_a_lottery_is_even_at_every_decision():
    cohort, k = any_cohort(6, 2, 4), [2, 0, 5, 6, 1]
    fitted = sf.SoftFair(c=0.0).fit(cohort, k, 5)
    for t, helped in enumerate(k):
        np.testing.assert_allclose(fitted.inclusion(t, [0] * 6), helped / 6, atol=1e-15)
    assert expected_active(cohort, fitted._scorer.theta, 0.0, 1.0, joint) == pytest.approx(
        k, abs=1e-6
    )


def test_one_decision_with_help_among_holidays():
    """If one decision has help and states have no later effect, the k largest gains are best."""
    p = np.array([[[0.2, 0.2], [g, g]] for g in (0.9, 0.5, 0.3, 0.25)])
    cohort = sf.Cohort.two_state(p, start=[0, 0, 0, 0])
    for t in range(4):
        k = np.where(np.arange(4) == t, 2, 0)
        # Helped or not, the next state does not depend on this one: help pays once.
        best = 4 * 4 * 0.2 + 0.7 + 0.3
        assert joint_optimum(cohort, k.tolist(), 1.0, at_most=True) == pytest.approx(best)
        assert upper_bound(cohort, k, 4, 1.0) == pytest.approx(best, rel=1e-3)
        assert upper_bound(cohort, k, 4, 1.0) >= best - 1e-12
        result = sf.simulate(sf.SoftFair(c=math.inf).fit(cohort, k, 4), runs=3)
        assert result.counts.tolist() == [[1, 1, 0, 0]] * 3


@pytest.mark.parametrize("name", ANY)
def test_the_same_k_at_every_decision_is_that_k(name):
    """To the last bit."""
    warnings.simplefilter("ignore", NotConverged)
    cohort = sf.datasets.synthetic(n=12, seed=5)
    one, other = (ANY[name].fit(cohort, k, 6, 0.95) for k in (3, [3, 3, 3.0, 3, 3, 3]))
    assert other.k == one.k
    assert isinstance(other.k, int)
    a, b = sf.simulate(one, runs=3), sf.simulate(other, runs=3)
    assert np.array_equal(a.rewards, b.rewards)
    assert np.array_equal(a.counts, b.counts)
    for t in range(6):
        assert np.array_equal(one.scores(t, [0] * 12), other.scores(t, [0] * 12))


def test_solvers_take_the_same_k_as_a_number_or_a_list():
    cohort, setting = any_cohort(20, 2, 6), (5, 0.9)
    assert np.array_equal(
        solve_priced(cohort, [4] * 5, *setting, 5.0).theta,
        solve_priced(cohort, 4, *setting, 5.0).theta,
    )
    one, other = (solve_evenhanded(cohort, k, *setting, 5.0, 3.0) for k in (4, [4] * 5))
    assert np.array_equal(one.bonus, other.bonus)
    assert upper_bound(cohort, [4] * 5, *setting) == upper_bound(cohort, 4, *setting)
    bounds = [tradeoff_bound(cohort, k, *setting) for k in (4, [4] * 5)]
    assert np.array_equal(bounds[0].intercept, bounds[1].intercept)


# ---- brute force ----


@pytest.mark.parametrize(("n", "S"), [(2, 2), (3, 2), (4, 2), (2, 3), (3, 3)])
def test_the_bound_is_above_the_joint_optimum(n, S):
    rng = np.random.default_rng(n + 10 * S)
    for seed in range(8):
        T, gamma = 2 + seed % 4, (1.0, 0.9, 0.3)[seed % 3]
        cohort, k = any_cohort(n, S, seed), rng.integers(0, n + 1, T).tolist()
        bound = upper_bound(cohort, k, T, gamma)
        best = joint_optimum(cohort, k, gamma, at_most=True)
        assert joint_optimum(cohort, k, gamma, at_most=False) <= best + 1e-12
        assert best <= bound + 1e-11 * (1 + abs(bound)), f"seed {seed}, k {k}"


def test_the_bound_knows_when_help_comes():
    """The bound is within a tenth of what help can bring (measured: 4 %), not that of the mean k.

    Arms without memory whose help comes only at the end cannot be helped earlier.
    """
    for seed in range(6):
        cohort, k = sf.datasets.synthetic(n=5, seed=seed), [0, 4, 0, 3, 0, 2]
        best = joint_optimum(cohort, k, 1.0, at_most=True)
        bound, nobody = upper_bound(cohort, k, 6, 1.0), upper_bound(cohort, 0, 6, 1.0)
        assert best - nobody <= bound - nobody + 1e-11
        assert bound - nobody <= 1.1 * (best - nobody)


@pytest.mark.parametrize("S", [2, 3])
def test_simulated_rewards_are_those_of_the_joint_law(S):
    """Mean over runs against enumeration, within 4.5 standard errors (1 in 100,000 by chance)."""
    cohort, k = any_cohort(3, S, 7), [1, 0, 2, 3, 1]
    fitted = sf.SoftFair(c=2.0).fit(cohort, k, 5, 0.9)
    totals = sf.simulate(fitted, runs=20_000, seed=1).totals
    error = totals.std(ddof=1) / math.sqrt(len(totals))
    assert abs(totals.mean() - joint_value(fitted)) < 4.5 * error
    assert joint_value(fitted) <= joint_optimum(cohort, k, 0.9, at_most=False) + 1e-12


def test_no_policy_of_few_arms_is_above_the_trade_off():
    """Every fixed order of help, by enumeration: its reward and the entropy of its counts."""
    cohort, k, T = any_cohort(3, 2, 8), [1, 0, 2, 1], 4
    bound = tradeoff_bound(cohort, k, T, 0.9)
    for choice in product(*(sets_of(3, helped) for helped in k)):
        mu, total = start_of(cohort), 0.0
        reward = reduce(np.add.outer, cohort.reward).ravel()
        for t, chosen in enumerate(choice):
            mu = mu @ moves_of(cohort, chosen)
            total += 0.9**t * float(mu @ reward)
        counts = [sum(i in chosen for chosen in choice) for i in range(3)]
        assert total <= bound(float(sf.metrics.action_entropy(counts))) + 1e-9


# ---- the equations ----


@pytest.mark.parametrize("gamma", [0.9, 1.0])
@pytest.mark.parametrize("c", [0.5, 10.0, 200.0])
@pytest.mark.parametrize("S", [2, 3])
def test_prices_spend_what_each_decision_has(S, c, gamma):
    rng = np.random.default_rng(S)
    cohort, k = any_cohort(60, S, 2), np.array([6, 0, 12, 60, 3, 3, 0, 59])
    reward = rng.uniform(size=(60, S))
    cohort = sf.Cohort(cohort.P, reward=reward, start=cohort.start)
    values = solve_priced(cohort, k, 8, gamma, c)
    assert values.info.converged
    np.testing.assert_allclose(
        expected_active(cohort, values.theta, c, gamma), k, rtol=2e-8, atol=1e-8
    )


@pytest.mark.parametrize("design", ["joint", "successive"])
def test_the_mean_field_spends_what_each_decision_has(design):
    cohort, k = sf.datasets.synthetic(n=50, seed=3), np.array([5, 0, 10, 50, 1])
    values = solve_meanfield(cohort, k, 5, 1.0, 4.0, design)
    assert values.info.converged
    rule = joint if design == "joint" else successive
    spent = expected_active(cohort, values.theta, 4.0, 1.0, rule)
    np.testing.assert_allclose(spent, k, rtol=2e-8, atol=1e-8)


@pytest.mark.parametrize("welfare", ["entropy", "log", "min"])
def test_bonuses_spend_what_each_decision_has(welfare):
    cohort, k = sf.datasets.synthetic(n=40, seed=3), np.array([4, 0, 8, 40, 2, 4])
    solution = solve_evenhanded(cohort, k, 6, 0.9, 20.0, 8.0, welfare)
    theta, bonus = solution.values.theta, solution.bonus
    np.testing.assert_allclose(
        expected_active(cohort, theta, 20.0, 0.9, bonus=bonus), k, rtol=1e-7, atol=1e-7
    )
    assert solution.rates.mean() == pytest.approx(1, abs=1e-8)
    if welfare == "entropy":  # u = -log y, b = mu u / K, up to a constant that the prices take
        u = bonus * np.sum(k * 0.9 ** np.arange(6)) / 8.0
        assert np.ptp(u + np.log(solution.rates)) < 1e-6


def test_beyond_the_sample():
    """Above 4096 arms prices are first found on a sample; holidays stay holidays."""
    cohort, k = sf.datasets.synthetic(n=6000, seed=0), np.array([600, 0, 1200, 300, 6000, 0, 600])
    values = solve_priced(cohort, k, 7, 1.0, 10.0)
    spent = expected_active(cohort, values.theta, 10.0, 1.0)
    np.testing.assert_allclose(spent, k, rtol=2e-8, atol=1e-8)


def test_the_entropy_of_a_lottery_is_that_of_its_counts():
    """n = 4, helped by [1, 0, 2] of 4: all outcomes of one arm, each alone."""
    fitted = sf.EvenHanded(mu=1.0, c=0.0).fit(sf.datasets.synthetic(n=4, seed=0), [1, 0, 2], 3)
    law = {0: 0.75 * 0.5, 1: 0.25 * 0.5 + 0.75 * 0.5, 2: 0.25 * 0.5}
    each = sum(p * -(N / 3) * math.log(N / 3) for N, p in law.items() if N)
    assert fitted.expected_entropy == pytest.approx(4 * each, rel=1e-12)


# ---- every policy ----


def test_every_registered_policy_is_here():
    from softfair.registry import POLICIES

    assert {name.partition("(")[0] for name in ANY} | set(REFUSED) == set(POLICIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANY)
def test_the_contract_holds_with_a_budget_over_time(name):
    sf.testing.check_policy(ANY[name], k=[3, 0, 5, 1, 12, 3, 0, 2])


@pytest.mark.parametrize("name", ANY)
def test_each_decision_helps_its_k(name):
    warnings.simplefilter("ignore", NotConverged)
    k = [3, 0, 5, 1, 12, 3]
    fitted = ANY[name].fit(sf.datasets.synthetic(n=12, seed=2), k, 6)
    paths = sf.simulate(fitted, runs=4, trajectories=True).trajectories
    wanted = [0] * 6 if name == "NoIntervention" else k
    assert (paths.actions.sum(axis=2) == wanted).all()
    at_once = sf.simulate(fitted, runs=4)
    assert np.array_equal(at_once.counts, paths.actions.sum(axis=1))
    assert fitted.budget.tolist() == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused_by_name(name):
    cohort = sf.datasets.synthetic(n=12, seed=2)
    with pytest.raises(InvalidInput, match=f"k is 3 to 4, but {name} needs the same k at every"):
        REFUSED[name].fit(cohort, [3, 4, 3], 3)
    REFUSED[name].fit(cohort, [3, 3, 3], 3)


def test_one_of_them_does_not_end_a_comparison():
    cohort = sf.datasets.synthetic(n=12, seed=2)
    with pytest.warns(UserWarning, match="cannot be compared"):
        table = sf.compare([sf.Random(), sf.FaWT(window=8)], cohort, [3, 0, 5], 3, runs=5)
    assert "needs the same k at every decision" in table.problem[1]
    assert table.benefit.notna()[0]


@pytest.mark.parametrize("policy", [sf.SoftFair(c=5.0), sf.EvenHanded(mu=3.0), sf.Oracle()])
def test_comparisons_and_frontiers(policy):
    cohort, k = sf.datasets.synthetic(n=20, seed=2), [4, 0, 2, 20, 1, 3]
    table = sf.compare([policy], cohort, k, 6, runs=200)
    assert 0 < table.of_bound[0] < 100 + (table.of_bound_high - table.of_bound)[0]
    assert table.entropy[0] <= math.log(20)
    assert table.unfair[0] < 50


def test_a_frontier_is_below_its_bound():
    cohort, k = sf.datasets.synthetic(n=20, seed=2), [4, 0, 2, 10, 1, 3]
    curve = sf.frontier(cohort, k, 6, cs=[0.0, 10.0, math.inf], runs=200, bound=True)
    assert (curve.benefit <= curve.bound + (curve.benefit_high - curve.benefit)).all()
    assert limit(cohort, k, 6, runs=10).bound.is_monotonic_decreasing


@given(
    k=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    c=st.sampled_from([0.0, 0.3, 5.0, 60.0, math.inf]),
    S=st.sampled_from([2, 3]),
    gamma=st.sampled_from([0.0, 0.7, 1.0]),
    seed=st.integers(0, 999),
)
@settings(max_examples=40, deadline=None)
def test_any_budget_at_all(k, c, S, gamma, seed):
    """Chances sum to the k of each decision, the same seed draws the same set, bounds hold."""
    warnings.simplefilter("ignore", NotConverged)  # inside: Hypothesis runs this many times
    cohort, T = any_cohort(6, S, seed), len(k)
    fitted = sf.SoftFair(c=c).fit(cohort, k, T, gamma)
    states = np.random.default_rng(seed).integers(0, S, 6)
    for t in range(T):
        chances = fitted.inclusion(t, states)
        assert chances.sum() == pytest.approx(k[t], abs=1e-9)
        assert len(fitted.draw(t, states, np.random.default_rng(seed))) == k[t]
    bound = upper_bound(cohort, k, T, gamma)
    with_more = upper_bound(cohort, [min(6, helped + 1) for helped in k], T, gamma)
    slack = 1e-2 * (abs(with_more) + T * np.ptp(cohort.reward))  # rewards may be below 0
    assert bound <= with_more + slack


# ---- promises ----


@pytest.mark.slow
def test_a_wait_is_kept_while_budgets_change():
    cohort, k = sf.datasets.synthetic(n=12, seed=2), [2, 4, 1, 6, 2, 5, 1, 3, 4, 2, 6, 1]
    fitted = sf.SoftFair(c=50.0, max_wait=5, c_value=2.0).fit(cohort, k, 12)
    result = sf.simulate(fitted, runs=50, trajectories=True)
    assert (result.trajectories.actions.sum(axis=2) == k).all()
    assert result.waits.max() <= 4  # helped within 5 decisions: at most 4 between two helps
    free = sf.simulate(sf.SoftFair(c=50.0, c_value=2.0).fit(cohort, k, 12), runs=50)
    assert free.waits.max() > 4  # without the promise it is broken
    sf.testing.check_policy(sf.SoftFair(c=5.0, max_wait=5), k=[2, 4, 3, 6, 2, 5, 1, 3])


def test_nobody_can_change_the_budgets_of_a_fitted_policy():
    fitted = sf.Myopic().fit(sf.datasets.synthetic(n=4, seed=0), [1, 2, 1], 3)
    with pytest.raises(ValueError, match="read-only"):
        fitted.k[0] = 3


def test_quotas_look_at_the_helps_to_come():
    """Four arms are due within two decisions: 1 must be helped now if the next k is 3; 3 if 1."""
    left = np.array([2, 2, 2, 2, 9, 9, 9, 9])
    assert [quota.least for quota in deadline_quotas(left, np.array([3, 3]))[1]] == [1]
    assert [quota.least for quota in deadline_quotas(left, np.array([3, 1, 9]))[1]] == [3]
    assert deadline_quotas(left, np.array([3]))[1] == []  # nobody is due after the last decision
    # As a number, or as the same number for as many decisions as matter.
    for one, other in ((1, [1] * 9), (2, [2] * 9), (5, [5] * 9)):
        a, b = deadline_quotas(left, one), deadline_quotas(left, np.array(other))
        assert a[0].tolist() == b[0].tolist()
        assert [q.least for q in a[1]] == [q.least for q in b[1]]


def test_promises_that_cannot_be_kept():
    with pytest.raises(Infeasible, match=r"needs 12 helps in any 3 .* there are 11 from decision"):
        check_promise(12, np.array([5, 5, 2, 4, 6]), 3, 0.0)
    check_promise(12, np.array([5, 5, 2, 5, 6]), 3, 0.0)
    check_promise(12, np.array([1, 2]), 3, 0.0)  # no three decisions
    with pytest.raises(InvalidInput, match=r"nobody is helped at 1 of 3 decisions, .* decision 1"):
        check_promise(12, np.array([12, 0, 12]), 2, 0.0)
    with pytest.raises(Infeasible, match="n floor <= k"):
        check_promise(12, np.array([5, 1, 5]), 0, 0.1)


def test_a_floor_holds_at_every_decision():
    cohort, k = sf.datasets.synthetic(n=12, seed=2), [2, 4, 12, 6]
    fitted = sf.SoftFair(c=50.0, floor=0.1).fit(cohort, k, 4)
    for t in range(4):
        chances = fitted.inclusion(t, [0] * 12)
        assert chances.min() >= 0.1
        assert chances.sum() == pytest.approx(k[t], abs=1e-9)
    assert fitted.promised_bound <= fitted.upper_bound + 1e-9


def test_realised_targets_are_met_with_budgets_over_time():
    cohort, k = sf.datasets.synthetic(n=20, seed=2), [4, 0, 2, 8] * 4
    fitted = sf.EvenHanded(never=0.1).fit(cohort, k, 16)
    counts = sf.simulate(fitted, runs=400, seed=3).counts
    missed = (counts == 0).mean(axis=1)
    # 200 runs found mu, 400 check it: five standard errors of their difference.
    assert missed.mean() <= 0.1 + 5 * missed.std() * math.sqrt(1 / 200 + 1 / 400)
    with pytest.raises(Infeasible, match="with 0 to 8 of 20 arms at a time somebody waits 6"):
        sf.EvenHanded(wait=2.0).fit(cohort, k, 16)


# ---- files, workers, the command line, what is refused ----


def test_files_and_workers_give_the_same(tmp_path, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    from softfair.files import write_cohort

    cohort, k = sf.datasets.synthetic(n=300, seed=1), [30, 0, 60, 300, 10]
    write_cohort(cohort, tmp_path / "people.parquet")
    states = np.arange(300) % 2
    monkeypatch.setattr("softfair.shards.arrays.SHARD", 128)
    opened = sf.open_cohort(tmp_path / "people.parquet")
    fits = [sf.SoftFair(c=5.0).fit(opened, k, 5)]
    with ThreadPoolExecutor(2) as pool:
        fits.append(sf.SoftFair(c=5.0).fit(opened, k, 5, on=pool))
        for t in range(5):
            answers = [fitted.inclusion(t, states) for fitted in fits]
            assert answers[0].sum() == pytest.approx(k[t], abs=1e-8)
            assert np.array_equal(*answers)
            drawn = [fitted.draw(t, states, np.random.default_rng(t)) for fitted in fits]
            assert len(drawn[0]) == k[t]
            assert np.array_equal(*drawn)
        assert fits[0].upper_bound == fits[1].upper_bound
        table = sf.compare([sf.SoftFair(c=5.0)], opened, k, 5, runs=5, on=pool)
        assert table.equals(sf.compare([sf.SoftFair(c=5.0)], opened, k, 5, runs=5))


@pytest.mark.parametrize("name", ["SoftFair", "EvenHanded", "RoundRobin"])
def test_it_is_saved(tmp_path, name):
    fitted = ANY[name].fit(sf.datasets.synthetic(n=12, seed=2), [3, 0, 5], 3)
    fitted.save(tmp_path / "model")
    again = sf.load(tmp_path / "model")
    assert again.budget.tolist() == [3, 0, 5]
    assert repr(again) == repr(fitted)
    assert "k=0 to 5" in repr(fitted)
    assert np.array_equal(sf.simulate(again, runs=2).counts, sf.simulate(fitted, runs=2).counts)


def test_the_environment_keeps_to_each_decisions_k():
    import gymnasium

    import softfair.env  # noqa: F401 (registers)

    k = [2, 0, 5]
    env = gymnasium.make("softfair/RMAB-v0", k=k, horizon=3)
    env.reset(seed=0)
    assert [int(env.step([1] * 20)[4]["helped"].sum()) for _ in k] == k
    envs = gymnasium.make_vec("softfair/RMAB-v0", num_envs=2, k=k, horizon=3)
    envs.reset(seed=0)
    for wanted in (2, 0, 5, 0, 2):  # the fourth step begins the next run
        helped = envs.step(np.ones((2, 20), np.int8))[4]["helped"]
        assert helped.sum(axis=1).tolist() == [wanted] * 2


def test_the_command_line(tmp_path):
    from typer.testing import CliRunner

    from softfair.cli import app
    from softfair.files import write_cohort

    people = tmp_path / "people.csv"
    write_cohort(sf.datasets.synthetic(n=10, seed=0), people)
    words = ["--horizon", "3", "--runs", "2", "--csv"]
    for command in (["simulate", "--policy", "Random"], ["frontier", "--c", "1"]):
        found = CliRunner().invoke(app, [*command, str(people), "--k", "3,0,2", *words])
        assert found.exit_code == 0, found.output
        assert "benefit" in found.stdout
    for k, reason in [
        ("3,0", "k has 2 entries and the horizon is 3"),
        ("3,x,1", "give a whole number, or one for each decision"),
        ("3,11,1", "k[1] is 11, the cohort has 10 arms"),
        ("-1", "k is -1"),
    ]:
        found = CliRunner().invoke(app, ["simulate", str(people), "--k", k, *words])
        assert found.exit_code != 0
        assert reason in " ".join(f"{found.output} {found.exception}".split())


@pytest.mark.parametrize(
    ("k", "reason"),
    [
        ([1, 2], "k has 2 entries and the horizon is 3; give one number, or one for each decision"),
        ([1, 2, 1, 1], "k has 4 entries and the horizon is 3; give one number, or one for each"),
        ([1, 2, 13], r"k\[2\] is 13, the cohort has 12 arms; give a whole number between 0 and 12"),
        ([1, -1, 1], r"k\[1\] is -1"),
        ([1, 1.5, 1], r"k\[1\] is 1.5"),
        ([[1, 1, 1]], "k has 1 entries"),
        ("3", "k is '3'"),
        (None, "k is None"),
    ],
)
def test_invalid_budgets_are_refused(k, reason):
    with pytest.raises(InvalidInput, match=reason):
        sf.Random().fit(sf.datasets.synthetic(n=12, seed=0), k, 3)
