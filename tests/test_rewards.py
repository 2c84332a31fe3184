"""Rewards R(s, a) that depend on the action, throughout: against enumeration and plain recursions.

`joint` has the dynamic programmes, apart from the package.
"""

from __future__ import annotations

import math
import warnings
from itertools import product

import joint
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint import active, backward, joint_optimum, joint_value, priced, rewards_of, successive

import softfair as sf
from softfair.errors import InvalidInput, NotConverged
from softfair.solvers import (
    promised_bound,
    solve_evenhanded,
    solve_meanfield,
    solve_paper,
    solve_priced,
    solve_promised,
    tradeoff_bound,
    upper_bound,
)
from softfair.solvers.priced import hard_multiplier

pytestmark = pytest.mark.filterwarnings("error::softfair.errors.NotConverged")

TAKES = {  # of every registered policy that takes rewards by action
    "NoIntervention": sf.NoIntervention(),
    "Random": sf.Random(),
    "RoundRobin": sf.RoundRobin(),
    "Myopic": sf.Myopic(),
    "FairMyopic": sf.FairMyopic(),
    "Oracle": sf.Oracle(),
    "Whittle": sf.Whittle(),
    "Whittle(finite)": sf.Whittle("finite"),
    "FaWT": sf.FaWT(window=8),
    "SoftFair": sf.SoftFair(c=5.0),
    "SoftFair(meanfield)": sf.SoftFair(c=3.0, solver="meanfield", design="successive"),
    "SoftFair(paper)": sf.SoftFair(c=3.0, solver="paper", episodes=20),
    "SoftFair(max_wait)": sf.SoftFair(c=5.0, max_wait=6),
    "EvenHanded": sf.EvenHanded(mu=5.0),
}
REFUSED = {"ThresholdWhittle": sf.ThresholdWhittle(), "ProbFair": sf.ProbFair(low=0.0)}


def any_cohort(n, S, seed, *, own=True):
    return joint.any_cohort(n, S, seed, by_action=True, own=own)


def mild_cohort(n, seed):
    """The paper's arms; help costs up to .1 in the good state, and brings up to .1 in the bad."""
    rng = np.random.default_rng(seed)
    cohort = sf.datasets.synthetic(n=n, seed=seed)
    R = np.zeros((n, 2, 2))
    R[:, 1] = 1.0
    R[:, 0, 1] += rng.uniform(0, 0.1, n)
    R[:, 1, 1] -= rng.uniform(0, 0.1, n)
    return sf.Cohort.two_state(cohort.p, reward=R)


# ---- closed form ----


def test_the_gain_of_one_decision():
    """p = .1 and .6 alone, .5 and .9 helped; help costs .2 of the 1 of a good day."""
    R = [[[0.0, 0.0], [1.0, 0.8]]]
    cohort = sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]] * 2, reward=R)
    np.testing.assert_allclose(cohort.immediate_gain, [[0.4, 0.1]] * 2)
    for policy in (sf.Myopic(), sf.Whittle("finite"), sf.SoftFair(c=5.0), sf.Oracle()):
        np.testing.assert_allclose(policy.fit(cohort, 1, 1).scores(0, [0, 1]), [0.4, 0.1])
    assert upper_bound(cohort, 2, 1, 1.0) == pytest.approx(0.5 + 0.9 - 0.2, rel=1e-12)
    assert upper_bound(cohort, 0, 1, 1.0) == pytest.approx(0.1 + 0.6, rel=1e-12)


def test_help_that_is_worth_something_at_once_alone():
    """Help does not move these arms: the arms with most at once are helped, the total is known."""
    p = np.full((4, 2, 2), 0.5)
    R = np.array([[[0.0, g], [0.0, g]] for g in (0.4, 0.3, 0.2, -0.1)])
    cohort = sf.Cohort.two_state(p, reward=R)
    for policy in (sf.Myopic(), sf.Whittle(), sf.Whittle("finite"), sf.SoftFair(c=math.inf)):
        result = sf.simulate(policy.fit(cohort, 2, 5), runs=3)
        assert result.counts.tolist() == [[5, 5, 0, 0]] * 3
        np.testing.assert_allclose(result.totals, 5 * 0.7)
    assert upper_bound(cohort, 2, 5, 1.0) == pytest.approx(5 * 0.7, rel=1e-3)
    assert upper_bound(cohort, 4, 5, 1.0) == pytest.approx(5 * 0.9)  # nobody must be helped
    np.testing.assert_allclose(sf.indices.whittle(cohort, 0.9), R[:, :, 1])


def test_the_total_is_that_of_the_usual_sum():
    """With gamma = 1: sum_t R(s_t, a_t) + R(s_T, 0) - R(s_0, 0)."""
    cohort = any_cohort(5, 3, 3)
    result = sf.simulate(sf.Random().fit(cohort, 2, 6), runs=4, trajectories=True)
    paths, arm = result.trajectories, np.arange(5)
    R = rewards_of(cohort)
    for run in range(4):
        s, a = paths.states[run], paths.actions[run].astype(int)
        usual = sum(R[arm, s[t], a[t]].sum() for t in range(6))
        ends = R[arm, s[6], 0].sum() - R[arm, s[0], 0].sum()
        assert result.totals[run] == pytest.approx(usual + ends, rel=1e-12)
    frame = paths.to_frame()
    by_step = frame.groupby(["run", "t"]).reward.sum().to_numpy().reshape(4, 6)
    np.testing.assert_allclose(by_step, result.rewards, rtol=1e-12)


@pytest.mark.parametrize("name", TAKES)
def test_equal_columns_are_rewards_of_states(name):
    """To the last bit."""
    warnings.simplefilter("ignore", NotConverged)
    rng = np.random.default_rng(0)
    plain, r = sf.datasets.synthetic(n=12, seed=5), np.sort(rng.random((12, 2)), axis=1)
    cohorts = [
        sf.Cohort.two_state(plain.p, reward=reward)
        for reward in (r, np.repeat(r[:, :, None], 2, axis=2))
    ]
    one, other = (TAKES[name].fit(cohort, 3, 6, 0.95) for cohort in cohorts)
    a, b = sf.simulate(one, runs=3), sf.simulate(other, runs=3)
    assert np.array_equal(a.rewards, b.rewards)
    assert np.array_equal(a.counts, b.counts)
    assert upper_bound(cohorts[0], 3, 6, 0.95) == upper_bound(cohorts[1], 3, 6, 0.95)
    assert not cohorts[1].by_action


@pytest.mark.parametrize("S", [2, 3])
def test_a_constant_for_help_changes_no_choice(S):
    """R(s, 1) + 1 for all states and arms: everybody's gain rises by 1, and k is fixed.

    The prices rise by 1. The mean field has no prices: it values an arm by its own chances of help,
    of which each is then worth 1 more, so that its gains change by more than that.
    """
    cohort = any_cohort(12, S, 5)
    raised = np.moveaxis(cohort.reward_rows, 1, 2) + np.array([0.0, 1.0])
    other = sf.Cohort(cohort.P, reward=raised, start=cohort.start)
    for k in (3, [3, 0, 5, 12, 1]):
        a, b = (sf.SoftFair(c=2.0).fit(some, k, 5, 0.9) for some in (cohort, other))
        for t in range(5):
            for states in (np.zeros(12, int), np.arange(12) % S):
                difference = b.scores(t, states) - a.scores(t, states)
                np.testing.assert_allclose(difference, 1.0, atol=1e-7)
                np.testing.assert_allclose(
                    b.inclusion(t, states), a.inclusion(t, states), atol=1e-7
                )
        gained = sum(np.broadcast_to(k, 5) * 0.9 ** np.arange(5))
        bounds = [tradeoff_bound(some, k, 5, 0.9)(2.0) for some in (cohort, other)]
        assert bounds[1] - bounds[0] == pytest.approx(gained, rel=0.02)
    assert hard_multiplier(cohort) == pytest.approx(hard_multiplier(other))


# ---- brute force ----


@pytest.mark.parametrize(("n", "S"), [(2, 2), (3, 2), (4, 2), (2, 3), (3, 3)])
def test_the_bound_is_above_the_joint_optimum(n, S):
    rng = np.random.default_rng(n + 10 * S)
    for seed in range(8):
        T, gamma = 2 + seed % 4, (1.0, 0.9, 0.3)[seed % 3]
        cohort, k = any_cohort(n, S, seed, own=seed % 2 == 0), rng.integers(0, n + 1, T).tolist()
        bound = upper_bound(cohort, k, T, gamma)
        best = joint_optimum(cohort, k, gamma, at_most=True)
        assert joint_optimum(cohort, k, gamma, at_most=False) <= best + 1e-12
        assert best <= bound + 1e-11 * (1 + abs(bound)), f"seed {seed}, k {k}"


def test_the_bound_says_something():
    """The bound is within a tenth of what help can bring (measured: 4 %)."""
    for seed in range(4):
        cohort, k = mild_cohort(5, seed), [2, 0, 3, 2, 1, 2]
        best = joint_optimum(cohort, k, 1.0, at_most=True)
        bound, nobody = upper_bound(cohort, k, 6, 1.0), upper_bound(cohort, 0, 6, 1.0)
        assert best - nobody <= bound - nobody + 1e-11
        assert bound - nobody <= 1.1 * (best - nobody)


@pytest.mark.parametrize("S", [2, 3])
def test_simulated_rewards_are_those_of_the_joint_law(S):
    """Mean over runs against enumeration, within 4.5 standard errors (1 in 100,000 by chance)."""
    cohort, k = any_cohort(3, S, 7), [1, 0, 2, 3, 1]
    fitted = sf.SoftFair(c=2.0).fit(cohort, k, 5, 0.9)
    exact = joint_value(fitted)
    totals = sf.simulate(fitted, runs=20_000, seed=1).totals
    error = totals.std(ddof=1) / math.sqrt(len(totals))
    assert abs(totals.mean() - exact) < 4.5 * error
    assert exact <= joint_optimum(cohort, k, 0.9, at_most=False) + 1e-12


def test_a_single_arm_is_solved_exactly():
    """With k = n = 1 or 0 at each decision, gains are those of the only plan there is."""
    for S in (2, 3):
        cohort, k = any_cohort(1, S, 3), [1, 0, 0, 1, 1]
        V, gains = np.zeros(S), []
        R = cohort.reward_rows[0]
        for helped in reversed(k):
            Q = cohort.P[0] @ (R[0] + 0.9 * V) + np.array([[0.0] * S, R[1] - R[0]])
            gains.append(Q[1] - Q[0])
            V = Q[helped]
        for values in (
            solve_priced(cohort, k, 5, 0.9, 4.0),
            solve_meanfield(cohort, k, 5, 0.9, 4.0, "joint"),
        ):
            np.testing.assert_allclose(values.rows(0, 5)[:, 0], gains[::-1], atol=1e-12)
        exact = float(cohort.start[0] @ V)
        assert joint_optimum(cohort, k, 0.9, at_most=False) == pytest.approx(exact, rel=1e-12)


# ---- the equations ----


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.9, 1.0])
@pytest.mark.parametrize("S", [2, 3])
@pytest.mark.parametrize("own", [True, False])
def test_values_obey_their_equations(S, gamma, own):
    cohort, k, c = any_cohort(60, S, 2, own=own), np.array([6, 0, 12, 60, 3, 3]), 2.0
    states = np.arange(60) % S
    for values, rule in (
        (solve_priced(cohort, k, 6, gamma, c), priced),
        (solve_meanfield(cohort, k, 6, gamma, c, "joint"), joint.joint),
        (solve_meanfield(cohort, k, 6, gamma, c, "successive"), successive),
    ):
        gains, chances = backward(cohort, values.theta, c, gamma, rule)
        np.testing.assert_allclose(values.rows(0, 6), gains, atol=1e-9)
        np.testing.assert_allclose(active(cohort, chances), k, rtol=1e-7, atol=1e-7)
        for t in (0, 3, 5):
            spread = values.spread(t, states).gather()
            np.testing.assert_allclose(spread, gains[t, np.arange(60), states], atol=1e-9)


@pytest.mark.parametrize("S", [2, 3])
@pytest.mark.parametrize("welfare", ["entropy", "log", "min"])
def test_bonuses_obey_their_equations(S, welfare):
    cohort = mild_cohort(40, 3) if S == 2 else any_cohort(40, 3, 3)
    k, c, mu = np.array([4, 0, 8, 40, 2]), 5.0, 8.0
    solution = solve_evenhanded(cohort, k, 5, 0.9, c, mu, welfare)
    gains, chances = backward(cohort, solution.values.theta, c, 0.9, priced, solution.bonus)
    np.testing.assert_allclose(
        solution.values.rows(0, 5), gains + solution.bonus[None, :, None], atol=1e-9
    )
    np.testing.assert_allclose(active(cohort, chances), k, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("S", [2, 3])
def test_promises_obey_their_equations(S):
    """Without deadline and floor the prices are the plain ones; with one the bound is lower."""
    cohort = any_cohort(30, S, 4)
    plain = solve_priced(cohort, 6, 5, 0.9, 2.0)
    free = solve_promised(cohort, 6, 5, 0.9, 2.0, 0, 0.0)
    np.testing.assert_allclose(free.rows(0, 5), plain.rows(0, 5), atol=1e-3)
    gains, _ = backward(cohort, free.theta, 2.0, 0.9, priced)
    np.testing.assert_allclose(free.rows(0, 5), gains, atol=1e-9)
    bound = upper_bound(cohort, 6, 5, 0.9)
    assert promised_bound(cohort, 6, 5, 0.9, 5, 0.0) <= bound + 1e-3 * abs(bound)


def test_the_paper_counts_what_help_is_worth_at_once():
    """One decision, everybody visited: V_0 = Q(s, 0) + pi lambda, with lambda from the table."""
    warnings.simplefilter("ignore", NotConverged)
    for S in (2, 3):
        cohort = any_cohort(6, S, 1)
        values = solve_paper(cohort, 6, 1, 1.0, 2.0, "joint", 50, 0)
        Q = np.einsum("iast,it->ais", cohort.P, cohort.reward)
        np.testing.assert_allclose(values.rows(0, 1)[0], Q[1] + cohort.at_once - Q[0], atol=1e-12)
        visited = values.V[0] != 0
        np.testing.assert_allclose(
            values.V[0][visited], (Q[1] + cohort.at_once)[visited], atol=1e-9
        )
        assert visited.any()


# ---- indices ----


def indices_by_bisection(cohort, i, gamma, h, s):
    """The subsidy at which acting in s with h decisions left gains nothing."""
    low, high = -50.0, 50.0
    for _ in range(60):
        m = (low + high) / 2
        V = np.zeros(cohort.S)
        for _ in range(h):
            Q = cohort.P[i] @ (cohort.reward[i] + gamma * V)
            Q[1] += cohort.at_once[i]
            Q[0] += m
            V = Q.max(axis=0)
        low, high = (m, high) if Q[1, s] > Q[0, s] else (low, m)
    return (low + high) / 2


@pytest.mark.parametrize("S", [2, 3])
def test_indices_are_those_of_bisection(S):
    """.7^60 is 5e-10: what lies beyond 60 decisions plays no part."""
    cohort = mild_cohort(3, 1) if S == 2 else any_cohort(3, S, 1)
    table, forever = sf.indices.whittle(cohort, 0.7, 5), sf.indices.whittle(cohort, 0.7)
    for i, s in product(range(3), range(S)):
        for h in (1, 2, 5):
            expected = indices_by_bisection(cohort, i, 0.7, h, s)
            assert table[h, i, s] == pytest.approx(expected, abs=1e-8)
        limit = indices_by_bisection(cohort, i, 0.7, 60, s)
        assert forever[i, s] == pytest.approx(limit, abs=1e-7)


# ---- every policy ----


def test_every_registered_policy_is_here():
    from softfair.registry import POLICIES

    assert {name.partition("(")[0] for name in TAKES} | set(REFUSED) == set(POLICIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKES)
def test_the_contract_holds(name):
    sf.testing.check_policy(TAKES[name], [mild_cohort(12, 1)])


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_equation_is_refused_by_name(name):
    with pytest.raises(InvalidInput, match=f"depend on the action, which {name} has no equation"):
        REFUSED[name].fit(mild_cohort(6, 0), 2, 3)
    with pytest.raises(InvalidInput, match=r"not R\(s, a\)"):
        sf.indices.threshold(mild_cohort(6, 0), 3)


def test_comparisons_take_them():
    cohort = mild_cohort(20, 2)
    policies = [sf.Random(), sf.SoftFair(c=10.0), sf.Whittle("finite")]
    table = sf.compare(policies, cohort, 4, 6, runs=200)
    assert (table.of_bound <= 100 + (table.of_bound_high - table.of_bound)).all()
    assert table.benefit[1] > table.benefit[0]
    curve = sf.frontier(cohort, 4, 6, cs=[0.0, math.inf], runs=200, bound=True)
    assert (curve.benefit <= curve.bound + (curve.benefit_high - curve.benefit)).all()


@given(
    n=st.integers(1, 5),
    S=st.sampled_from([2, 3]),
    c=st.sampled_from([0.0, 0.5, 5.0, math.inf]),
    seed=st.integers(0, 999),
    T=st.integers(1, 4),
)
@settings(max_examples=25, deadline=None)
def test_no_policy_is_above_the_optimum_nor_the_optimum_above_the_bound(n, S, c, seed, T):
    warnings.simplefilter("ignore", NotConverged)  # inside: Hypothesis runs this many times
    n = min(n, 3) if S == 3 else n
    cohort = any_cohort(n, S, seed)
    k = np.random.default_rng(seed).integers(0, n + 1, T).tolist()
    best = joint_optimum(cohort, k, 0.9, at_most=False)
    if math.isfinite(c):
        assert joint_value(sf.SoftFair(c=c).fit(cohort, k, T, 0.9)) <= best + 1e-9
    bound = upper_bound(cohort, k, T, 0.9)
    assert best <= bound + 1e-9 * (1 + abs(bound))


# ---- frames, files, workers, the environment ----


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_lose_nothing(backend, own):
    cohort = any_cohort(4, 3, 1, own=own)
    frame = cohort.to_frame(backend)
    again = sf.Cohort.from_frame(frame)
    assert np.array_equal(again.reward, cohort.reward)
    assert np.array_equal(again.at_once, cohort.at_once)
    assert repr(again) == "Cohort(n=4, S=3, rewards by action)"
    assert "by action" in again._repr_html_()


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_files_lose_nothing(tmp_path, name):
    from softfair.files import read_cohort, write_cohort

    cohort = mild_cohort(4, 1)
    write_cohort(cohort, tmp_path / name)
    again = read_cohort(tmp_path / name)
    assert np.array_equal(again.reward_rows, cohort.reward_rows)
    if name.endswith("parquet"):
        with pytest.raises(InvalidInput, match="reward_0_0' that is not known in shards"):
            sf.open_cohort(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"reward_1_1": None}, "column reward_1_1 is missing; the arms have 2 states"),
        ({"reward_0_2": 1.0}, "column reward_0_2 is not known"),
        ({"reward_0": 1.0, "reward_1": 1.0}, "give rewards of states, or of actions and states"),
        ({"reward_1_0": np.inf}, "column reward_1_0 is 'inf'"),
        ({"reward_2_0": 1.0}, "looks like one that is"),
    ],
)
def test_columns_that_are_wrong(change, reason):
    frame = (
        mild_cohort(3, 1).to_frame().assign(**{n: v for n, v in change.items() if v is not None})
    )
    frame = frame.drop(columns=[name for name, value in change.items() if value is None])
    with pytest.raises(InvalidInput, match=reason):
        sf.Cohort.from_frame(pd.DataFrame(frame))


@pytest.mark.parametrize("reward", [np.zeros((2, 2)), np.zeros((3, 2, 3)), np.zeros((2, 2, 2))])
def test_shapes_that_are_wrong(reward):
    with pytest.raises(InvalidInput, match=r"or \(1, 2, 2\) or \(3, 2, 2\): R\(s, a\)"):
        sf.Cohort.two_state(np.full((3, 2, 2), 0.5), reward=reward)


def test_parts_of_a_cohort_keep_them():
    cohort = any_cohort(5, 3, 1)
    some = cohort.subset([3, 1])
    assert np.array_equal(some.at_once, cohort.at_once[[3, 1]])
    one = any_cohort(5, 3, 1, own=False).subset([2, 0])
    assert one.reward_rows.shape == (1, 2, 3)


def test_saved_and_on_workers(tmp_path, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    cohort = mild_cohort(300, 1)
    fitted = sf.SoftFair(c=5.0).fit(cohort, 30, 5)
    fitted.save(tmp_path / "model")
    again, states = sf.load(tmp_path / "model"), np.arange(300) % 2
    assert np.array_equal(again.scores(1, states), fitted.scores(1, states))
    monkeypatch.setattr("softfair.shards.arrays.SHARD", 128)
    here = sf.SoftFair(c=5.0).fit(cohort, 30, 5)
    with ThreadPoolExecutor(2) as pool:
        there = sf.SoftFair(c=5.0).fit(cohort, 30, 5, on=pool)
        assert np.array_equal(there.inclusion(2, states), here.inclusion(2, states))
        assert there.upper_bound == here.upper_bound
    assert np.allclose(here.scores(1, states), fitted.scores(1, states), atol=1e-9)


def test_a_sample_of_many_arms_keeps_them():
    """Above 4096 arms prices are first found on a sample; the budget holds for all."""
    cohort = mild_cohort(5000, 0)
    values = solve_priced(cohort, 500, 6, 1.0, 10.0)
    _, chances = backward(cohort, values.theta, 10.0, 1.0, priced)
    np.testing.assert_allclose(active(cohort, chances), 500, rtol=2e-8)


def test_the_environment_pays_them():
    import gymnasium

    from softfair.env import Agent

    cohort = any_cohort(6, 2, 2)
    fitted = sf.SoftFair(c=3.0).fit(cohort, 2, 5)
    envs = gymnasium.make_vec("softfair/RMAB-v0", num_envs=1, cohort=cohort, k=2, horizon=5)
    assert envs.num_envs == 1
    env, agent = gymnasium.make("softfair/RMAB-v0", cohort=cohort, k=2, horizon=5), Agent(fitted)
    totals = []
    for episode in range(600):
        seen, _ = env.reset(seed=episode)
        total, ended = 0.0, False
        while not ended:
            seen, reward, ended, _, _ = env.step(agent.act(seen))
            total += reward
        totals.append(total)
    result = sf.simulate(fitted, runs=2000).totals
    error = math.hypot(np.std(totals) / math.sqrt(600), result.std() / math.sqrt(2000))
    assert abs(np.mean(totals) - result.mean()) < 4.5 * error
