"""Simulation against a plain loop over the public calls, exact expectations, and its promises about
luck.

Order: by hand, brute force (the same luck, step by step), properties, exact expectations with a
derived tolerance.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softfair as sf
from softfair import simulation
from softfair.errors import InvalidInput, NotConverged
from softfair.kernels.elementary import mix, uniform
from softfair.kernels.threads import get_threads, set_threads
from softfair.policies import base

POLICIES = [
    sf.SoftFair(c=5.0),
    sf.SoftFair(c=5.0, design="successive", solver="meanfield"),
    sf.SoftFair(c=5.0, solver="paper", episodes=20),
    sf.SoftFair(c=float("inf")),
    sf.NoIntervention(),
    sf.Random(),
    sf.RoundRobin(),
    sf.Myopic(),
    sf.FairMyopic(c=3.0),
    sf.Oracle(),
    sf.Whittle("infinite"),
    sf.Whittle("finite"),
    sf.ThresholdWhittle(),
    sf.FaWT(window=6),
    sf.ProbFair(low=0.1, high=0.9),
]
EVERY = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
ANY_STATES = [policy for policy in POLICIES if policy.name not in ("ThresholdWhittle", "ProbFair")]


@pytest.fixture(autouse=True)
def rough_values_will_do():
    """Twenty episodes of Algorithm 1 do not converge, and need not here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        yield


@pytest.fixture
def threads_restored():
    before = get_threads()
    yield
    set_threads(before)


def three_state_arms(n=12, seed=1):
    """Each arm has its own rewards and start distribution; this seed's arms have indices."""
    rng = np.random.default_rng(seed)
    P, reward = rng.dirichlet(np.ones(3), size=(n, 2, 3)), np.sort(rng.random((n, 3)), axis=1)
    return sf.Cohort(P, reward=reward, start=rng.dirichlet(np.ones(3), n))


class Luck:
    """Stands in for a Generator where a draw asks for its key, so that a public draw meets the luck
    of a simulated run.
    """

    def __init__(self, key):
        self.key = np.uint64(key)

    def integers(self, low, high, dtype):
        assert (low, high, dtype) == (0, 2**64, np.uint64)
        return self.key


def by_public_calls(fitted, runs, seed):
    """(rewards, counts, waits) from `draw`, `memory` and `remember` alone, arm by arm.

    The states [runs, T + 1, n] are returned as well.
    """
    cohort, T, n = fitted.cohort, fitted.horizon, fitted.cohort.n
    keys = np.random.SeedSequence(seed).generate_state(runs, np.uint64)

    def lottery(chances, coin):
        return min(int(np.searchsorted(np.cumsum(chances), coin, side="right")), cohort.S - 1)

    rewards, counts = np.zeros((runs, T)), np.zeros((runs, n), int)
    waits, states = np.zeros((runs, n), int), np.zeros((runs, T + 1, n), int)
    for run, key in enumerate(keys):
        luck = np.uint64(mix(key, 0))
        states[run, 0] = [lottery(cohort.start[i], uniform(luck, i)) for i in range(n)]
        memory, waiting = fitted.memory(), np.zeros(n, int)
        for t in range(T):
            now = states[run, t]
            arms = fitted.draw(t, now, Luck(mix(key, 2 * t + 1)), memory)
            memory = fitted.remember(memory, t, now, arms)
            luck = np.uint64(mix(key, 2 * t + 2))
            for i in range(n):
                reached = lottery(cohort.P[i, int(i in arms), now[i]], uniform(luck, i))
                states[run, t + 1, i] = reached
                rewards[run, t] += cohort.reward[i, reached]
                waiting[i] = 0 if i in arms else waiting[i] + 1
            counts[run, arms] += 1
            waits[run] = np.maximum(waits[run], waiting)
    return rewards, counts, waits, states


def same(one, other):
    np.testing.assert_array_equal(one.rewards, other.rewards)
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_array_equal(one.waits, other.waits)


# ---- by hand ----


def test_three_arms_taken_in_turn():
    """Arms reach state 1 if helped, else state 0; k = 1 of 3 in turn over 5 decisions."""
    obedient = sf.Cohort.two_state(
        np.tile([[0.0, 0.0], [1.0, 1.0]], (3, 1, 1)), reward=[[0, 1], [0, 10], [0, 100]]
    )
    result = sf.simulate(sf.RoundRobin().fit(obedient, k=1, horizon=5, gamma=0.5), runs=2, seed=0)
    np.testing.assert_array_equal(result.rewards, [[1, 10, 100, 1, 10]] * 2)
    np.testing.assert_array_equal(result.counts, [[2, 2, 1]] * 2)
    np.testing.assert_array_equal(
        result.waits, [[2, 2, 2]] * 2
    )  # arm 2: decisions 0 and 1 before its turn, 3 and 4 after
    np.testing.assert_array_equal(result.totals, [1 + 5 + 25 + 1 / 8 + 10 / 16] * 2)
    assert repr(result) == "<2 runs of RoundRobin: reward 31.75 +- 0>"
    # Totals 1, 2, 3: the sample standard deviation is 1 (of the population it would be 0.82).
    three = simulation.Result(
        result.fitted, np.array([[1.0], [2.0], [3.0]]), *2 * [np.zeros((3, 1))]
    )
    assert repr(three) == "<3 runs of RoundRobin: reward 2 +- 1>"


def test_waits_of_the_first_and_the_last_in_the_row():
    """k = 2 of 7, 3 decisions.

    Arms 0, 1 then wait 2; arms 2, 3 wait 1; arms 4, 5 wait 2; arm 6 waits throughout.
    """
    cohort = sf.datasets.synthetic(n=7, seed=0)
    result = sf.simulate(sf.RoundRobin().fit(cohort, k=2, horizon=3), runs=1, seed=0)
    np.testing.assert_array_equal(result.waits[0], [2, 2, 1, 1, 2, 2, 3])
    np.testing.assert_array_equal(result.counts[0], [1, 1, 1, 1, 1, 1, 0])


def test_waits_when_nobody_or_everybody_is_helped():
    cohort = sf.datasets.synthetic(n=7, seed=0)
    assert (sf.simulate(sf.NoIntervention().fit(cohort, k=2, horizon=9), runs=3).waits == 9).all()
    assert (sf.simulate(sf.Random().fit(cohort, k=7, horizon=9), runs=3).waits == 0).all()


def test_where_nothing_is_left_to_chance():
    """Certain moves and certain starts: states cycle 0 -> 1 -> 2 -> 0 for any random numbers."""
    cycle = np.roll(np.eye(3), 1, axis=1)
    cohort = sf.Cohort(np.tile(cycle, (4, 2, 1, 1)), reward=[0.0, 1.0, 10.0], start=[0, 1, 2, 0])
    result = sf.simulate(sf.Random().fit(cohort, k=1, horizon=4), runs=5, seed=3)
    np.testing.assert_array_equal(
        result.rewards, [[1 + 10 + 0 + 1, 10 + 0 + 1 + 10, 0 + 1 + 10 + 0, 1 + 10 + 0 + 1]] * 5
    )


# ---- brute force ----


@EVERY
def test_equals_a_plain_loop_over_public_calls(policy):
    """Rewards, counts and waits to the last bit, luck being the same."""
    fitted = policy.fit(sf.datasets.synthetic(n=12, seed=2), k=3, horizon=8, gamma=0.9)
    result = sf.simulate(fitted, runs=4, seed=5)
    rewards, counts, waits, _ = by_public_calls(fitted, 4, 5)
    np.testing.assert_array_equal(result.counts, counts)
    np.testing.assert_array_equal(result.waits, waits)
    np.testing.assert_array_equal(result.rewards, rewards)
    assert result.fitted is fitted


@pytest.mark.parametrize("policy", ANY_STATES, ids=lambda policy: policy.label)
def test_equals_a_plain_loop_with_three_states(policy):
    fitted = policy.fit(three_state_arms(), k=3, horizon=8, gamma=0.9)
    result = sf.simulate(fitted, runs=4, seed=6)
    rewards, counts, waits, states = by_public_calls(fitted, 4, 6)
    np.testing.assert_array_equal(result.counts, counts)
    np.testing.assert_array_equal(result.waits, waits)
    np.testing.assert_allclose(result.rewards, rewards, rtol=1e-14)
    assert set(states.ravel()) == {0, 1, 2}


@pytest.mark.parametrize(
    "policy",
    [sf.ThresholdWhittle(), sf.FaWT(window=5), sf.RoundRobin()],
    ids=lambda policy: policy.label,
)
def test_what_was_seen_is_remembered(policy):
    """Twelve arms nearly alike, good for long once good.

    Who is next depends on what was seen, so runs differ in whom they help.
    """
    noise = np.random.default_rng(0).uniform(-0.04, 0.04, (12, 2, 2))
    chances = np.array([[0.1, 0.8], [0.8, 0.9]]) + noise  # [12, 2, 2]
    fitted = policy.fit(sf.Cohort.two_state(chances), k=3, horizon=12)
    result = sf.simulate(fitted, runs=6, seed=5)
    rewards, counts, waits, _ = by_public_calls(fitted, 6, 5)
    np.testing.assert_array_equal(result.counts, counts)
    np.testing.assert_array_equal(result.waits, waits)
    np.testing.assert_array_equal(result.rewards, rewards)
    assert (len(np.unique(counts, axis=0)) > 1) == (policy.name != "RoundRobin")


# ---- what is promised about any run ----


@EVERY
def test_budget_and_bounds(policy):
    cohort = sf.datasets.synthetic(n=30, seed=3)
    fitted = policy.fit(cohort, k=6, horizon=20)
    result = sf.simulate(fitted, runs=7, seed=0)
    assert result.rewards.shape == (7, 20)
    assert result.counts.shape == result.waits.shape == (7, 30)
    np.testing.assert_array_equal(result.counts.sum(axis=1), fitted.k * 20)
    assert (result.counts >= 0).all()
    assert (result.counts <= 20).all()
    assert (result.rewards >= 0).all()
    assert (result.rewards <= 30).all()  # 30 arms, worth 1 each in the good state
    assert (result.waits <= 20).all()
    np.testing.assert_array_equal(result.waits == 20, result.counts == 0)
    # m + 1 waits, between and around m helps, share 20 - m decisions: the longest is at least their
    # mean
    assert (result.waits >= (20 - result.counts) / (result.counts + 1)).all()
    np.testing.assert_allclose(result.totals, result.rewards.sum(axis=1), rtol=1e-14)


@EVERY
def test_a_run_does_not_depend_on_its_company(policy):
    """Run r is the same among 1, 3 or 8 runs: more runs can be added later."""
    fitted = policy.fit(sf.datasets.synthetic(n=12, seed=4), k=3, horizon=8)
    many = sf.simulate(fitted, runs=8, seed=1)
    for runs in (1, 3):
        few = sf.simulate(fitted, runs=runs, seed=1)
        np.testing.assert_array_equal(few.rewards, many.rewards[:runs])
        np.testing.assert_array_equal(few.counts, many.counts[:runs])
        np.testing.assert_array_equal(few.waits, many.waits[:runs])
    assert (sf.simulate(fitted, runs=8, seed=2).rewards != many.rewards).any()
    assert len(np.unique(many.rewards, axis=0)) > 1  # and runs differ from each other


@EVERY
def test_the_same_on_any_number_of_threads(policy, threads_restored, monkeypatch):
    monkeypatch.setattr(simulation, "TASK", 50)  # so that these few arm-steps make many tasks
    fitted = policy.fit(sf.datasets.synthetic(n=12, seed=5), k=3, horizon=8)
    results = []
    for threads in (1, 2, 3):
        set_threads(threads)
        results.append(sf.simulate(fitted, runs=9, seed=0))
    same(results[0], results[1])
    same(results[0], results[2])


@EVERY
def test_windows_of_rows_do_not_show(policy, monkeypatch):
    """Scores are computed for a window of decisions; windows of one and of three agree."""
    cohort = sf.datasets.synthetic(n=12, seed=6)
    at_once = sf.simulate(policy.fit(cohort, k=3, horizon=8), runs=3, seed=0)
    for decisions in (1, 3):
        monkeypatch.setattr(base, "WINDOW_BYTES", decisions * 12 * 2 * 8)
        fitted = policy.fit(cohort, k=3, horizon=8)
        same(at_once, sf.simulate(fitted, runs=3, seed=0))
        same(
            at_once, sf.simulate(fitted, runs=3, seed=0)
        )  # once more from where the window was left
        fitted.scores(5, np.zeros(12, int))  # and after somebody looked elsewhere
        same(at_once, sf.simulate(fitted, runs=3, seed=0))


def test_a_bar_moves_while_a_long_window_is_simulated(monkeypatch):
    """Scores for all 30 decisions come at once.

    The work is cut all the same, and nobody can tell from the result.
    """
    fitted = sf.SoftFair(c=5.0).fit(sf.datasets.synthetic(n=20, seed=0), k=3, horizon=30)
    whole = sf.simulate(fitted, runs=5)
    decided, seen, window = [0], [], simulation.run_window

    def counting(low, high, *rest):
        decided[0] += rest[4] if low == 0 else 0
        return window(low, high, *rest)

    def watched(items, description):
        for item in items:
            yield item
            seen.append(decided[0] - item)

    monkeypatch.setattr(simulation, "run_window", counting)
    monkeypatch.setattr(simulation, "track", watched)
    monkeypatch.setattr(simulation, "STRETCH", 20 * 5 * 4)
    cut = sf.simulate(fitted, runs=5)
    assert len(seen) == decided[0] == 30  # the bar is at its end when the work is
    assert set(seen) == {1, 2, 3, 4}  # and never further behind than a stretch of four
    np.testing.assert_array_equal(cut.rewards, whole.rewards)
    np.testing.assert_array_equal(cut.counts, whole.counts)
    np.testing.assert_array_equal(cut.waits, whole.waits)


@pytest.mark.parametrize(
    "policy", [sf.SoftFair(c=5.0), sf.FaWT(window=8)], ids=lambda policy: policy.label
)
def test_looks_change_nothing_and_see_what_was_met(policy):
    fitted = policy.fit(sf.datasets.synthetic(n=20, seed=0), k=3, horizon=10)
    result, looks = simulation.simulate_and_look(fitted, 2, 0, [0, 4, 9])
    np.testing.assert_array_equal(result.rewards, sf.simulate(fitted, 2, 0).rewards)
    assert [look.t for look in looks] == [0, 4, 9]
    for run, look in enumerate(
        looks[1:], start=1
    ):  # the reward of the decision before is the worth of the states met
        assert look.states.sum() == result.rewards[run % 2, look.t - 1]
        assert look.inclusion.sum() == pytest.approx(3)


def test_every_policy_meets_the_same_luck():
    """Where help has no effect all policies earn the same, to the bit.

    Starts and moves do not depend on who was chosen.
    """
    passive = sf.datasets.synthetic(n=20, seed=7).p[:, :1]
    cohort = sf.Cohort.two_state(
        np.repeat(passive, 2, axis=1), start=np.random.default_rng(0).dirichlet(np.ones(2), 20)
    )
    rewards = [
        sf.simulate(policy.fit(cohort, k=4, horizon=10), runs=5, seed=8).rewards
        for policy in POLICIES
    ]
    for other in rewards[1:]:
        np.testing.assert_array_equal(rewards[0], other)
    assert rewards[0].std() > 0


def test_help_that_cannot_harm_never_costs_a_run():
    """Runs with common random numbers are coupled.

    Helping raises the chance of state 1, so no run is worse off than without help, state by state.

    States are ordered by the same uniform number, high numbers lead to state 1, and being in state
    1 helps (the paper's order of chances), so by induction every arm is at least where it would be
    unhelped.
    """
    cohort = sf.datasets.synthetic(n=20, seed=9)
    none = sf.simulate(sf.NoIntervention().fit(cohort, k=4, horizon=15), runs=10, seed=0).rewards
    for policy in POLICIES:
        assert (
            sf.simulate(policy.fit(cohort, k=4, horizon=15), runs=10, seed=0).rewards >= none
        ).all(), policy.label


@pytest.mark.parametrize("runs", [0, -1, 1.5])
def test_wrong_runs_are_refused(runs):
    fitted = sf.Random().fit(sf.datasets.synthetic(n=5, seed=0), k=1, horizon=3)
    with pytest.raises(InvalidInput, match=rf"runs is {runs}; give a whole number of at least 1"):
        sf.simulate(fitted, runs=runs)


def test_wrong_seeds_and_unfitted_policies_are_refused():
    fitted = sf.Random().fit(sf.datasets.synthetic(n=5, seed=0), k=1, horizon=2)
    for seed in (-1, None, 1.5, "a"):
        with pytest.raises(
            InvalidInput, match=f"seed is {seed!r}; give a whole number of at least 0"
        ):
            sf.simulate(fitted, seed=seed)
    for unfitted in (sf.Random(), sf.Random, 3):
        with pytest.raises(
            InvalidInput,
            match=r"is not fitted; give policy\.fit\(cohort, k=\.\.\., horizon=\.\.\.\)",
        ):
            sf.simulate(unfitted)


def test_one_run():
    fitted = sf.Random().fit(sf.datasets.synthetic(n=5, seed=0), k=1, horizon=3)
    result = sf.simulate(fitted, runs=1, seed=0)
    assert result.totals.shape == (1,)
    assert "1 runs of Random" in repr(result)
    assert "nan" not in repr(result)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 9),
    horizon=st.integers(1, 6),
    share=st.floats(0, 1),
    S=st.sampled_from([2, 3]),
    seed=st.integers(0, 2**32 - 1),
    remembers=st.booleans(),
)
def test_any_small_instance_equals_the_plain_loop(n, horizon, share, S, seed, remembers):
    """One arm, one decision, nobody, everybody.

    The corners where an axis of length 1 could be taken for a shared one.
    """
    rng = np.random.default_rng(seed)
    cohort = sf.Cohort(rng.dirichlet(np.ones(S), size=(n, 2, S)), reward=rng.normal(size=(n, S)))
    policy = sf.RoundRobin() if remembers else sf.FairMyopic(c=2.0)
    fitted = policy.fit(cohort, k=round(share * n), horizon=horizon, gamma=0.5)
    result = sf.simulate(fitted, runs=2, seed=seed)
    rewards, counts, waits, _ = by_public_calls(fitted, 2, seed)
    np.testing.assert_array_equal(result.counts, counts)
    np.testing.assert_array_equal(result.waits, waits)
    np.testing.assert_allclose(result.rewards, rewards, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        result.totals, rewards @ 0.5 ** np.arange(horizon), rtol=1e-12, atol=1e-12
    )


# ---- exact expectations ----


def test_without_help_the_mean_is_that_of_the_markov_chains():
    """Arms are independent, so mean and variance of a run's total are sums over arms, each by
    enumeration of its 2^9 paths.

    With R runs the mean has sd sqrt(variance / R); 4.5 of them leave a false alarm of 7e-6. The
    mean at each step has sd at most sqrt(n / 4 / R), since a sum of n independent coins has
    variance at most n / 4.
    """
    n, T, runs = 10, 8, 20_000
    cohort = sf.Cohort(
        sf.datasets.synthetic(n=n, seed=10).P,
        start=np.random.default_rng(1).dirichlet(np.ones(2), n),
    )
    paths = np.array(list(product([0, 1], repeat=T + 1)))  # [2^(T + 1), T + 1]
    total = paths[:, 1:].sum(axis=1)
    mean, variance = 0.0, 0.0
    for i in range(n):
        chance = cohort.start[i, paths[:, 0]] * np.prod(
            cohort.P[i, 0, paths[:, :-1], paths[:, 1:]], axis=1
        )
        assert chance.sum() == pytest.approx(1)
        mean += chance @ total
        variance += chance @ total**2 - (chance @ total) ** 2
    result = sf.simulate(sf.NoIntervention().fit(cohort, k=3, horizon=T), runs=runs, seed=11)
    assert abs(result.totals.mean() - mean) < 4.5 * np.sqrt(variance / runs)
    law = cohort.start
    for t in range(T):
        law = np.einsum("is,ist->it", law, cohort.P[:, 0])
        assert abs(result.rewards[:, t].mean() - law[:, 1].sum()) < 4.5 * np.sqrt(n / 4 / runs)
    # The spread must be right too: a sample variance of a nearly normal total has relative sd
    # sqrt(2 / R).
    assert result.totals.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / runs))


@pytest.mark.parametrize(
    "policy",
    [
        sf.SoftFair(c=3.0),
        sf.SoftFair(c=3.0, design="successive", c_value=1.0),
        sf.Random(),
        sf.FairMyopic(),
        sf.Oracle(),
    ],
    ids=lambda policy: policy.label,
)
def test_two_arms_three_decisions_all_enumerated(policy):
    """k = 1 of 2 arms: the set drawn is the arm helped, with its inclusion as chance.

    All 4 (2 * 4)^3 = 2048 histories by weight.

    Mean of the total within 4.5 sd, sd from the exact variance over 20,000 runs; counts of arm 0
    likewise.
    """
    T, runs, gamma = 3, 20_000, 0.8
    cohort = sf.Cohort(
        sf.datasets.synthetic(n=2, seed=12).P,
        reward=[[0.0, 1.0], [0.2, 2.0]],
        start=[[0.3, 0.7], [0.6, 0.4]],
    )
    fitted = policy.fit(cohort, k=1, horizon=T, gamma=gamma)
    pairs = list(product([0, 1], repeat=2))
    weights = {}  # (total, times arm 0 was helped) -> chance

    def follow(t, states, chance, total, helped):
        if t == T:
            weights[total, helped] = weights.get((total, helped), 0.0) + chance
            return
        inclusion = fitted.inclusion(t, np.array(states))
        for arm in (0, 1):
            for reached in pairs:
                move = np.prod([cohort.P[i, int(i == arm), states[i], reached[i]] for i in (0, 1)])
                earned = sum(cohort.reward[i, reached[i]] for i in (0, 1))
                follow(
                    t + 1,
                    reached,
                    chance * inclusion[arm] * move,
                    total + gamma**t * earned,
                    helped + (arm == 0),
                )

    for states in pairs:
        follow(0, states, cohort.start[0, states[0]] * cohort.start[1, states[1]], 0.0, 0)
    outcomes, chances = np.array(list(weights)), np.array(list(weights.values()))
    assert chances.sum() == pytest.approx(1)
    mean = chances @ outcomes
    variance = chances @ outcomes**2 - mean**2
    result = sf.simulate(fitted, runs=runs, seed=13)
    found = np.array([result.totals.mean(), result.counts[:, 0].mean()])
    assert (np.abs(found - mean) <= 4.5 * np.sqrt(variance / runs) + 1e-12).all()
