"""Comparison tables and the frontier: columns recomputed, yardsticks, the shape of the curve.

Order: closed form, recomputation from the parts, properties, statistics with a derived tolerance.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import softfair as sf
from softfair.comparison import CURVE, mean_interval
from softfair.errors import InvalidInput, NotConverged
from softfair.policies.rules import Rule
from softfair.programme.sample import RESPONSES
from softfair.solvers import solve_priced, upper_bound

SETTING = {"k": 5, "horizon": 12, "gamma": 0.95}
FIGURES = ["benefit", "of_bound", "reward", "entropy", "never_selected", "longest_wait", "gini"]
COLUMNS = [
    "policy",
    *(f"{figure}{kind}" for figure in FIGURES for kind in ("", "_sd", "_low", "_high")),
    "unfair",
    "converged",
    "problem",
]
EVERYBODY = [
    sf.NoIntervention(),
    sf.Oracle(),
    sf.Random(),
    sf.RoundRobin(),
    sf.Myopic(),
    sf.FairMyopic(),
    sf.Whittle("finite"),
    sf.ThresholdWhittle(),
    sf.FaWT(window=10),
    sf.ProbFair(low=0.05),
    sf.SoftFair(c=5.0),
    sf.SoftFair(c=5.0, solver="meanfield", design="successive", c_value=1.0),
    sf.SoftFair(c=math.inf),
]


@pytest.fixture(autouse=True)
def converge_or_fail():
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConverged)
        yield


@pytest.fixture(scope="module")
def cohort():
    return sf.datasets.synthetic(n=40, seed=0)


@pytest.fixture(scope="module")
def table(cohort):
    return sf.compare(EVERYBODY, cohort, **SETTING, runs=10, seed=3).set_index("policy")


@dataclass(frozen=True)
class Perverse(sf.Policy):
    """Helps the k who gain least, by the gains that `compare` judges with.

    A policy made by a user of the package.
    """

    name: ClassVar[str] = "Perverse"

    def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
        gains = solve_priced(cohort, k, horizon, gamma, math.inf)

        class Reversed:
            def rows(self, first, count):
                return -gains.rows(first, count)

        return sf.Fitted(self, cohort, k, horizon, gamma, Rule.top(), Reversed())


# ---- closed form ----


def test_the_yardsticks_are_0_and_100(table):
    assert table.benefit["NoIntervention"] == 0
    assert table.benefit_sd["NoIntervention"] == 0
    assert table.of_bound["NoIntervention"] == 0
    assert table.benefit["Oracle"] == pytest.approx(100, abs=1e-9)
    assert (
        table.benefit_sd["Oracle"] > 0
    )  # each run against the mean gap, so runs scatter about 100


def test_figures_that_need_no_chance(table):
    """Nobody is helped: entropy 0, everybody waits throughout.

    Round robin, 60 places for 40 arms: 20 arms are helped twice, 20 once.
    """
    nobody, turns = table.loc["NoIntervention"], table.loc["RoundRobin"]
    assert (nobody.entropy, nobody.never_selected, nobody.longest_wait, nobody.gini) == (
        0,
        1,
        SETTING["horizon"],
        0,
    )
    assert turns.entropy == pytest.approx(
        -20 * (2 / 60 * math.log(2 / 60) + 1 / 60 * math.log(1 / 60))
    )
    assert turns.never_selected == 0
    assert turns.longest_wait == 7  # 40 arms, 5 a decision: 7 decisions between two turns
    assert turns.gini == pytest.approx(
        20 * 20 / (40 * 60)
    )  # 400 pairs differ by 1: 2 * 400 / (2 * 40 * 60)
    assert turns.entropy_sd == pytest.approx(0, abs=1e-12)


def test_unfair_pairs_from_none_to_all_there_can_be(cohort):
    """The best k by the judge's own gains have no unfair pair, and a lottery has none.

    The worst k have one for each of the k and each of the n - k others.
    """
    table = sf.compare(
        [sf.Random(), sf.SoftFair(c=math.inf), sf.NoIntervention(), Perverse()],
        cohort,
        **SETTING,
        runs=2,
    )
    unfair = table.set_index("policy").unfair
    assert unfair["Random"] == 0
    assert unfair["SoftFair(c=inf)"] == 0
    assert unfair["NoIntervention"] == 0
    n, k = cohort.n, SETTING["k"]
    assert unfair["Perverse"] == pytest.approx(100 * k * (n - k) / (n * (n - 1) / 2))


def test_where_help_is_worthless_there_is_no_benefit_to_speak_of():
    """If Oracle and NoIntervention earn the same, benefit is NaN, and other columns are there."""
    passive = sf.datasets.synthetic(n=10, seed=0).p[:, :1]
    idle = sf.Cohort.two_state(np.repeat(passive, 2, axis=1))
    table = sf.compare([sf.Random(), sf.Oracle()], idle, k=2, horizon=5, runs=4)
    assert table.benefit.isna().all()
    assert table.reward[0] == table.reward[1]
    assert (table.entropy > 0).all()
    nobody = sf.compare([sf.Random()], sf.datasets.synthetic(n=10, seed=0), k=0, horizon=5, runs=4)
    assert nobody.benefit.isna().all()
    assert nobody.never_selected[0] == 1


# ---- recomputed from the parts ----


def test_columns_and_order(table):
    assert list(table.reset_index().columns) == COLUMNS
    assert list(table.index) == [policy.label for policy in EVERYBODY]
    assert (table.problem == "").all()
    numbers = table.drop(columns="problem").to_numpy(dtype=float)
    assert np.isfinite(numbers).all()
    assert table.unfair.between(0, 100).all()


@pytest.mark.parametrize("policy", EVERYBODY, ids=lambda policy: policy.label)
def test_every_figure_is_that_of_the_simulated_runs(policy, table, cohort):
    def run(of):
        return sf.simulate(of.fit(cohort, **SETTING, seed=3), runs=10, seed=3)

    result, none, oracle = run(policy), run(sf.NoIntervention()), run(sf.Oracle())
    setting = (SETTING["horizon"], SETTING["gamma"])
    headroom = upper_bound(cohort, SETTING["k"], *setting) - upper_bound(cohort, 0, *setting)
    gap = oracle.totals.mean() - none.totals.mean()
    discounted = result.rewards @ 0.95 ** np.arange(12)
    expected = {
        "benefit": 100 * (discounted - none.totals) / gap,
        "of_bound": 100 * (discounted - none.totals) / headroom,
        "reward": discounted,
        "entropy": sf.metrics.action_entropy(result.counts),
        "never_selected": (result.counts == 0).mean(axis=1),
        "longest_wait": result.waits.max(axis=1),
        "gini": sf.metrics.gini(result.counts),
    }
    for figure, values in expected.items():
        assert table[figure][policy.label] == pytest.approx(
            np.mean(values), rel=1e-12, abs=1e-12
        ), figure
        assert table[f"{figure}_sd"][policy.label] == pytest.approx(
            np.std(values, ddof=1), rel=1e-9, abs=1e-12
        ), figure


def test_one_run_has_no_spread(cohort):
    table = sf.compare([sf.Random(), sf.Oracle()], cohort, **SETTING, runs=1)
    assert table[[f"{figure}_sd" for figure in FIGURES]].isna().all(axis=None)
    assert table[FIGURES].notna().all(axis=None)
    assert table.benefit[1] == pytest.approx(100, abs=1e-9)


def test_a_row_depends_on_its_policy_and_the_seed_alone(table, cohort):
    """A policy has the same row alone, twice, or with others; another seed gives another row."""
    twice = sf.compare(
        [sf.SoftFair(c=5.0), sf.SoftFair(c=5.0), sf.Oracle()], cohort, **SETTING, runs=10, seed=3
    )
    pd.testing.assert_series_equal(twice.iloc[0], twice.iloc[1], check_names=False)
    pd.testing.assert_series_equal(
        twice.set_index("policy").iloc[0], table.loc["SoftFair(c=5)"], check_exact=True
    )
    other = sf.compare([sf.SoftFair(c=5.0)], cohort, **SETTING, runs=10, seed=4)
    assert other.reward[0] != table.reward["SoftFair(c=5)"]


def test_policies_may_come_from_any_iterable(cohort):
    lazy = sf.compare((policy for policy in [sf.Random()]), cohort, **SETTING, runs=2)
    assert list(lazy.policy) == ["Random"]


def test_wrong_comparisons_are_refused(cohort):
    with pytest.raises(InvalidInput, match="there are no policies to compare; give at least one"):
        sf.compare([], cohort, **SETTING)
    with pytest.raises(InvalidInput, match=r"policies is Random\(\); give a list: \[Random\(\)\]"):
        sf.compare(sf.Random(), cohort, **SETTING)
    for wrong in (sf.Random, "Random", sf.Random().fit(cohort, **SETTING)):
        with pytest.raises(
            InvalidInput,
            match=r"policies\[1\] is .*; give policies, made but not fitted, such as sf\.Random",
        ):
            sf.compare([sf.Random(), wrong], cohort, **SETTING)
    with pytest.raises(
        InvalidInput, match=r"cs is 5\.0; give a list of multipliers, such as \[5\.0\]"
    ):
        sf.frontier(cohort, **SETTING, cs=5.0)
    with pytest.raises(InvalidInput, match=r"policy is Random\(\); give a SoftFair or another"):
        sf.frontier(cohort, **SETTING, policy=sf.Random())
    with pytest.raises(InvalidInput, match="k is '2', the cohort has 40 arms"):
        sf.compare([sf.Random()], cohort, k="2", horizon=5)
    with pytest.raises(InvalidInput, match="cohort is a ndarray; give a Cohort"):
        sf.compare([sf.Random()], cohort.P, **SETTING)
    with pytest.raises(InvalidInput, match="runs is 0"):
        sf.compare([sf.Random()], cohort, **SETTING, runs=0)
    with pytest.raises(InvalidInput, match="k is 41, the cohort has 40 arms"):
        sf.compare([sf.Random()], cohort, k=41, horizon=5)
    with pytest.raises(InvalidInput, match=r"c is -1\.0"):
        sf.frontier(cohort, k=5, horizon=5, cs=[1.0, -1.0], runs=2)


def test_arms_without_an_index_leave_the_benefit_open():
    """With two absorbing states and gamma = 1 there is no index, hence no Oracle.

    Nobody has asked for an index policy, so the rest of the table is still made.
    """
    rng, P = np.random.default_rng(0), np.zeros((20, 2, 3, 3))
    P[:, :, 0, 0] = P[:, :, 2, 2] = 1
    P[:, 0, 1], P[:, 1, 1] = rng.dirichlet([1, 5, 1], size=20), rng.dirichlet([1, 5, 3], size=20)
    cohort = sf.Cohort(P, start=np.ones(20, int))
    calls = [
        lambda: sf.compare([sf.Random(), sf.SoftFair(c=5.0)], cohort, k=3, horizon=10, runs=4),
        lambda: sf.frontier(cohort, k=3, horizon=10, cs=[1.0, 5.0], runs=4),
    ]
    for call in calls:
        with pytest.warns(
            UserWarning, match="benefit is nan, because the Oracle cannot be fitted: 20 of 20 arms"
        ) as said:
            table = call()
        assert len(said) == 1
        assert said[0].filename == __file__
        assert table.benefit.isna().all()
        of_benefit = ["benefit", "benefit_sd", "benefit_low", "benefit_high"]
        assert table[of_benefit].isna().all(axis=None)
        assert table.drop(columns=of_benefit).notna().all(axis=None)
        assert (table.of_bound > 0).all()
    with (
        pytest.warns(match="benefit is nan"),
        pytest.raises(InvalidInput, match="recurrent class"),
    ):  # asked for, it is missed
        sf.compare([sf.Oracle()], cohort, k=3, horizon=10, runs=4)


@pytest.mark.parametrize(
    "policy",
    [sf.FaWT(window=10), sf.RoundRobin(), sf.ThresholdWhittle()],
    ids=lambda policy: policy.label,
)
def test_unfair_pairs_of_policies_that_remember(policy):
    """Against runs walked by the public calls, memory and all.

    The share at a decision has a standard deviation of at most 5 points over the decisions: a mean
    over 32 of them and one over 150 then differ by less than 4, which is four standard errors.
    """
    cohort, k, horizon = sf.datasets.synthetic(n=100, seed=0), 10, 50
    said = sf.compare([policy], cohort, k=k, horizon=horizon, runs=3).unfair[0]
    fitted = policy.fit(cohort, k=k, horizon=horizon)
    judge = sf.SoftFair(c=math.inf).fit(cohort, k=k, horizon=horizon)
    rng = np.random.default_rng(1)
    found = []
    for _ in range(3):
        states, memory = rng.integers(0, 2, 100), fitted.memory()
        for t in range(horizon):
            chance, gain = fitted.inclusion(t, states, memory), judge.scores(t, states)
            found.append(
                sum(
                    np.sum((gain < gain[j] - 1e-9) & (chance > chance[j] + 1e-9))
                    for j in range(100)
                )
                / 4950
            )
            arms = fitted.draw(t, states, rng, memory)
            memory = fitted.remember(memory, t, states, arms)
            helped = np.isin(np.arange(100), arms).astype(int)
            states = (rng.random(100) < cohort.p[np.arange(100), helped, states]).astype(int)
    assert np.std(found) < 0.05
    assert np.mean(found) > 0.02
    assert said == pytest.approx(100 * np.mean(found), abs=4)


def test_the_judging_policy_does_not_warn(monkeypatch):
    """Prices of a short search are inexact at the largest c; only SoftFair(c=inf) warns of it."""
    monkeypatch.setattr("softfair.solvers.broyden.MOST_PASSES", 2)
    cohort = sf.datasets.synthetic(n=5, seed=37)
    with pytest.warns(NotConverged):
        sf.SoftFair(c=math.inf).fit(cohort, k=1, horizon=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.compare([sf.Random()], cohort, k=1, horizon=10, runs=2)
    with pytest.warns(NotConverged):
        sf.compare([sf.SoftFair(c=math.inf)], cohort, k=1, horizon=10, runs=2)


# ---- the frontier ----


def test_frontier_is_a_comparison_of_multipliers(cohort):
    curve = sf.frontier(cohort, **SETTING, cs=[0.0, 5.0, math.inf], runs=10, seed=3)
    assert list(curve.columns) == ["c", *COLUMNS]
    assert list(curve.c) == [0.0, 5.0, math.inf]
    policies = [sf.SoftFair(c=0.0), sf.SoftFair(c=5.0), sf.SoftFair(c=math.inf)]
    pd.testing.assert_frame_equal(
        curve.drop(columns="c"), sf.compare(policies, cohort, **SETTING, runs=10, seed=3)
    )


def test_frontier_of_another_softfair(cohort):
    """`policy` says everything but c."""
    base = sf.SoftFair(c=123.0, solver="paper", design="successive", c_value=1.0, episodes=300)
    curve = sf.frontier(cohort, **SETTING, cs=[2.0, 8.0], runs=3, seed=1, policy=base)
    policies = [
        sf.SoftFair(c=c, solver="paper", design="successive", c_value=1.0, episodes=300)
        for c in (2.0, 8.0)
    ]
    pd.testing.assert_frame_equal(
        curve.drop(columns="c"), sf.compare(policies, cohort, **SETTING, runs=3, seed=1)
    )


def test_frontier_goes_from_a_lottery_to_the_best_k_by_itself(cohort):
    curve = sf.frontier(cohort, k=4, horizon=5, runs=2)
    assert tuple(curve.c) == CURVE
    assert CURVE[0] == 0
    assert CURVE[-1] == math.inf
    assert sorted(set(CURVE)) == list(CURVE)


# ---- statistics ----


@pytest.mark.parametrize(
    "dataset",
    [sf.datasets.synthetic, partial(sf.datasets.cpap, **RESPONSES)],
    ids=["synthetic", "cpap"],
)
def test_benefit_rises_and_entropy_falls_with_c(dataset):
    """n = 100, k = 10, T = 50, 40 runs.

    A mean over R runs has standard error sd / sqrt(R); two means differ by chance by at most
    sqrt(se1^2 + se2^2) (less, because luck is common), so a step down of more than 4 of those would
    be no chance. Over the whole curve the change is many times that.
    """
    runs, cs = 40, [0.0, 1.0, 3.0, 10.0, 30.0, 200.0, math.inf]
    curve = sf.frontier(dataset(n=100, seed=5), k=10, horizon=50, cs=cs, runs=runs, seed=6)
    for figure, sign in (
        ("benefit", 1),
        ("reward", 1),
        ("entropy", -1),
        ("never_selected", 1),
        ("gini", 1),
    ):
        step = sign * np.diff(curve[figure])
        error = np.sqrt(
            curve[f"{figure}_sd"].to_numpy()[1:] ** 2 + curve[f"{figure}_sd"].to_numpy()[:-1] ** 2
        ) / np.sqrt(runs)
        assert (step >= -4 * error - 1e-9).all(), figure
        assert step.sum() > 8 * error.max(), figure
    assert (curve.of_bound <= 100 + 4 * curve.of_bound_sd / math.sqrt(runs)).all()
    assert curve.of_bound.iloc[-1] > 90
    assert curve.unfair.iloc[0] == 0  # a lottery favours nobody
    assert curve.unfair.iloc[-1] == 0  # the best k by the judge's own gains
    assert (curve.unfair < 5).all()


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(6, 30),
    share=st.floats(0.05, 0.8),
    horizon=st.integers(1, 12),
    gamma=st.sampled_from([0.5, 0.9, 1.0]),
    seed=st.integers(0, 10**6),
)
def test_nobody_expects_more_than_the_bound(n, share, horizon, gamma, seed):
    """With 60 runs a policy, the mean of `of_bound` is at most 100 but for chance.

    6 standard errors over 15 examples of 4 policies.

    A sample sd can come out small by accident where runs are few and coarse, so one arm's whole
    reward a run is added to it.
    """
    cohort, k, runs = sf.datasets.synthetic(n=n, seed=seed), max(1, round(share * n)), 60
    policies = [sf.Oracle(), sf.SoftFair(c=math.inf), sf.SoftFair(c=20.0), sf.Myopic()]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", NotConverged
        )  # at six arms the steepest prices may stay rough; the bound holds for any
        table = sf.compare(
            policies, cohort, k=k, horizon=horizon, gamma=gamma, runs=runs, seed=seed
        )
    headroom = upper_bound(cohort, k, horizon, gamma) - upper_bound(cohort, 0, horizon, gamma)
    error = (table.of_bound_sd + 100 / headroom) / math.sqrt(runs)
    assert (table.of_bound <= 100 + 6 * error).all()
    assert (table.of_bound >= -1e-9).all()  # help cannot harm here, run by run


# ---- intervals and paired differences ----


def test_intervals_by_hand():
    """Three runs: t with 2 degrees of freedom at .975 is 4.302653 (any table of Student's t)."""
    t = 4.302652729911275
    plain = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert (plain.low, plain.high) == pytest.approx((2 - t / math.sqrt(3), 2 + t / math.sqrt(3)))
    # A ratio: x = (1, 2, 6), y = (1, 3, 5); b = 1, x - b y = (0, -1, 1), sd 1, mean y = 3.
    x, y = np.array([1.0, 2.0, 6.0]), np.array([1.0, 3.0, 5.0])
    ratio = mean_interval(x / y.mean(), y)
    assert ratio.mean == pytest.approx(1)
    assert ratio.high - ratio.mean == pytest.approx(t / math.sqrt(3) / 3)
    assert ratio.mean - ratio.low == pytest.approx(t / math.sqrt(3) / 3)
    same = mean_interval(y / y.mean(), y)  # the Oracle's own benefit: no doubt about it
    assert (same.low, same.high) == pytest.approx((1, 1))
    alone = mean_interval(np.array([5.0]))
    assert alone.mean == 5
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)


@pytest.mark.parametrize("runs", [5, 10, 50])
def test_intervals_cover_as_often_as_they_say(runs):
    """Normal values, where Student's t is exact: 4000 intervals miss 5 %, sd sqrt(.05 .95 / 4000).

    Benefit: a ratio of correlated means, where the delta method is not exact. With the denominator
    varying by 20 % between runs it varies by 9 % in a mean of 5; the neglected terms are of the
    order of its square, 1 % of the width: the share that misses may differ by another .01.
    Not counting the denominator's error would miss much more often, which is tested too.
    """
    rng, repeats = np.random.default_rng(runs), 4000
    missed = {"mean": 0, "ratio": 0, "denominator taken as exact": 0}
    for _ in range(repeats):
        y = rng.normal(10, 2, runs)
        x = 0.1 * y + rng.normal(6, 1, runs)  # truth: mean x / mean y = .7
        for name, interval, truth in (
            ("mean", mean_interval(x), 7.0),
            ("ratio", mean_interval(x / y.mean(), y), 0.7),
            ("denominator taken as exact", mean_interval(x / y.mean()), 0.7),
        ):
            missed[name] += not interval.low <= truth <= interval.high
    error = 4 * math.sqrt(0.05 * 0.95 / repeats)
    assert missed["mean"] / repeats == pytest.approx(0.05, abs=error)
    assert missed["ratio"] / repeats == pytest.approx(0.05, abs=error + 0.01)
    assert missed["denominator taken as exact"] / repeats > 0.05 + error + 0.01


def test_intervals_of_a_table_are_those_of_its_runs(table, cohort):
    def run(of):
        return sf.simulate(of.fit(cohort, **SETTING, seed=3), runs=10, seed=3)

    result, none, oracle = run(sf.SoftFair(c=5.0)), run(sf.NoIntervention()), run(sf.Oracle())
    row = table.loc["SoftFair(c=5)"]
    half = stats.t.ppf(0.975, 9) * np.std(result.totals, ddof=1) / math.sqrt(10)
    assert (row.reward - row.reward_low, row.reward_high - row.reward) == pytest.approx((half,) * 2)
    x, y = result.totals - none.totals, oracle.totals - none.totals
    residuals = x - x.mean() / y.mean() * y
    half = 100 * stats.t.ppf(0.975, 9) * np.std(residuals, ddof=1) / math.sqrt(10) / y.mean()
    assert row.benefit_high - row.benefit == pytest.approx(half)
    assert row.benefit - row.benefit_low == pytest.approx(half)
    assert table.benefit_low["Oracle"] == pytest.approx(100)
    assert table.benefit_high["Oracle"] == pytest.approx(100)


def test_differences_are_paired(cohort):
    """Against the recomputation from runs; narrower than intervals of independent runs would be."""
    policies = [sf.Random(), sf.SoftFair(c=5.0), sf.SoftFair(c=8.0)]
    table = sf.compare(policies, cohort, **SETTING, runs=30, seed=3, against="SoftFair(c=5)")
    kinds = ("_diff", "_diff_low", "_diff_high")
    assert list(table.columns) == COLUMNS + [f"{name}{kind}" for name in FIGURES for kind in kinds]
    rewards = [
        sf.simulate(policy.fit(cohort, **SETTING, seed=3), runs=30, seed=3).totals
        for policy in policies
    ]
    difference = rewards[2] - rewards[1]
    half = stats.t.ppf(0.975, 29) * np.std(difference, ddof=1) / math.sqrt(30)
    assert table.reward_diff[2] == pytest.approx(difference.mean())
    assert table.reward_diff_high[2] - table.reward_diff[2] == pytest.approx(half)
    itself = table.loc[1, [f"{name}{kind}" for name in FIGURES for kind in kinds]]
    assert (itself == 0).all()
    for name in FIGURES:
        np.testing.assert_allclose(table[f"{name}_diff"], table[name] - table[name][1], atol=1e-9)
    apart = math.hypot(*(np.std(totals, ddof=1) for totals in rewards[1:])) / math.sqrt(30)
    assert half < stats.t.ppf(0.975, 29) * apart
    by_policy = sf.compare(policies, cohort, **SETTING, runs=30, seed=3, against=policies[1])
    pd.testing.assert_frame_equal(by_policy, table)
    curve = sf.frontier(
        cohort, **SETTING, cs=[5.0, 8.0], runs=30, seed=3, against=sf.SoftFair(c=5.0)
    )
    assert curve.benefit_diff[1] == table.benefit_diff[2]


def test_a_reference_must_be_known(cohort):
    with pytest.raises(
        InvalidInput,
        match=r"^against is 'Orakel', which is none of the policies; give .* labels 'Random'$",
    ):
        sf.compare([sf.Random()], cohort, **SETTING, runs=2, against="Orakel")


@pytest.mark.slow
def test_the_bound_is_exceeded_within_the_interval_only():
    """The best policies on 60 cohorts of 20 arms: an interval misses below with probability .025 at
    most, 1.5 of 60 expected; 7 or more have probability 1e-3 (binomial)."""
    above = 0
    for seed in range(60):
        cohort = sf.datasets.synthetic(n=20, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            table = sf.compare([sf.SoftFair(c=math.inf)], cohort, k=4, horizon=8, runs=20)
        above += table.of_bound_low[0] > 100
    assert stats.binom.sf(6, 60, 0.025) < 1e-3 < stats.binom.sf(5, 60, 0.025)
    assert above <= 6


def test_values_that_have_not_settled_are_marked():
    short = sf.SoftFair(9.0, solver="paper", design="successive", episodes=10)
    cohort = sf.datasets.synthetic(n=20, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        table = sf.compare([sf.Random(), sf.SoftFair(5.0), short], cohort, 2, 10, runs=2)
    assert table["converged"].tolist() == [True, True, False]
