"""When Algorithm 1 has settled: the promise of `converged`, and worlds that could deceive it.

test_solvers tests that the episodes are Algorithm 1. Order here: closed form, worlds made to
deceive, statistics with a derived tolerance.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import softfair as sf
from softfair import Cohort, datasets
from softfair.errors import InvalidInput, NotConverged
from softfair.solvers import solve_meanfield, solve_paper
from softfair.solvers.paper import GAP_TOLERANCE, MOST_EPISODES

CPAP = {
    "mix": {"adherent": 0.5, "non-adherent": 0.5},
    "effect": (0.05, 0.5),
    "effect_kind": "relative",
    "noise": 0.02,
}
UNVISITED = "chance of a selected arm to reach a state never visited"


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        yield


def mixing_cohort(n, seed):
    """Every state of every arm is visited again and again: all chances are between .2 and .8."""
    chances = np.sort(np.random.default_rng(seed).uniform(0.2, 0.8, (n, 4)), axis=1)
    return Cohort.two_state(chances.reshape(n, 2, 2))


def with_hidden_state(kept=0.999):
    """18 mixing arms and 2 that seldom leave the good state, and with 1 - kept when helped."""
    p = np.concatenate([mixing_cohort(18, 3).p, np.tile([[0.9, 0.9], [0.95, kept]], (2, 1, 1))])
    return Cohort.two_state(p, start=np.ones(20, int))


def late_reward(n=6, length=10):
    """A chain of states with a reward at its end alone; a setback leads one state back."""
    P = np.zeros((n, 2, length, length))
    for action, forward in ((0, 0.5), (1, 0.9)):
        for s in range(length):
            P[:, action, s, min(s + 1, length - 1)] += forward
            P[:, action, s, max(s - 1, 0)] += 1 - forward
    return Cohort(P, reward=np.eye(length)[-1], start=np.zeros(n, int))


# ---- closed form ----


@pytest.mark.parametrize("design", ["joint", "successive"])
def test_a_lottery_settles_at_its_exact_gains(design):
    """c = 0: everybody is helped with probability k / n, so that V is a plain recursion."""
    cohort, k, T, gamma = mixing_cohort(8, 0), 2, 6, 0.9
    V, gains = np.zeros((8, 2)), []
    for _ in range(T):
        Q = np.einsum("iast,it->ais", cohort.P, cohort.reward + gamma * V)
        gains.append(Q[1] - Q[0])
        V = Q[0] + k / 8 * gains[-1]
    values = solve_paper(cohort, k, T, gamma, 0.0, design, 300, 0)
    np.testing.assert_allclose(values.rows(0, T), gains[::-1], atol=1e-9)
    assert values.info.converged
    assert values.info.residual < 1e-9
    assert values.info.details["noise of the gains"] < 1e-9
    mean = np.mean(gains)  # all arms and states are selected alike, but not visited alike
    assert values.info.details["mean gain of a selection"] == pytest.approx(mean, rel=0.1)


def test_gains_without_a_future_are_settled_from_the_start():
    """gamma = 0: no value enters a gain, whatever the multiplier."""
    cohort = datasets.synthetic(n=5, seed=0)
    for c in (0.0, 5.0, np.inf):
        info = solve_paper(cohort, 1, 10, 0.0, c, "joint", 10, 0).info
        assert info.residual == pytest.approx(0, abs=1e-12)
        assert info.converged


def test_nobody_to_help_and_everybody_to_help():
    cohort = mixing_cohort(6, 1)
    assert solve_paper(cohort, 0, 5, 1.0, 5.0, "joint", None, 0).info.residual == 0
    everybody = solve_paper(cohort, 6, 5, 1.0, 5.0, "joint", 200, 0)
    V = np.zeros((6, 2))
    for _ in range(5):
        V = np.einsum("ist,it->is", cohort.P[:, 1], cohort.reward + V)
    np.testing.assert_allclose(everybody.V[0], V, atol=1e-12)
    assert everybody.info.residual < 1e-9


def test_how_many_episodes():
    """As many as were asked for; at least one a decision; by default until settled or the cap."""
    cohort = mixing_cohort(20, 2)
    policy = sf.SoftFair(5.0, solver="paper", episodes=30)
    assert policy.fit(cohort, k=2, horizon=8).info.passes == 30
    with pytest.raises(
        InvalidInput,
        match=r"^episodes is 30, the horizon 31: .*; give a whole number of at least 31$",
    ):
        policy.fit(cohort, k=2, horizon=31)
    settled = solve_paper(cohort, 2, 8, 1.0, 5.0, "successive", None, 0).info
    assert settled.converged
    assert settled.passes < MOST_EPISODES * 8
    again = solve_paper(cohort, 2, 8, 1.0, 5.0, "successive", settled.passes, 0)
    one = solve_paper(cohort, 2, 8, 1.0, 5.0, "successive", None, 0)
    np.testing.assert_array_equal(again.V, one.V)  # looking does not change the values


def test_the_warning_says_how_far_and_what_helps():
    cohort = with_hidden_state()
    with pytest.warns(NotConverged, match=r"not settled after 20 episodes: the gap is") as caught:
        info = solve_paper(cohort, 2, 20, 1.0, 5.0, "successive", 20, 0).info
    (warning,) = [entry.message for entry in caught if isinstance(entry.message, NotConverged)]
    assert warning.gap == info.residual > warning.tolerance == GAP_TOLERANCE
    assert str(warning).endswith("give more episodes (such as 80)")
    few = datasets.synthetic(n=6, seed=1)
    with pytest.warns(NotConverged, match=r"choose a smaller c_value or solver='priced'$"):
        solve_paper(few, 1, 20, 1.0, np.inf, "successive", 1000, 0)


# ---- worlds made to deceive ----


@pytest.mark.slow
def test_the_sum_of_values_looks_settled_long_before_the_gains_do():
    """CPAP, T = 80: over the last T of 480 episodes the sum at t = 0 moves by less than .2 %."""
    cohort = datasets.cpap(100, seed=0, **CPAP)
    tables = [solve_paper(cohort, 10, 80, 1.0, 9.0, "successive", K, 0) for K in (400, 480)]
    before, after = (float(np.sum(cohort.start * values.V[0])) for values in tables)
    assert abs(after / before - 1) < 2e-3
    info = tables[1].info
    assert not info.converged
    assert info.residual > 1  # off by more than the mean gain itself
    assert info.details[UNVISITED] > 0
    fixed = solve_meanfield(cohort, 10, 80, 1.0, 9.0, "successive")
    assert np.abs(tables[1].rows(0, 80) - fixed.rows(0, 80)).max() > 2


def test_a_state_hardly_ever_visited_counts():
    """While the hidden state holds 0, its arms are helped at every decision; no visit tells."""
    cohort = with_hidden_state()
    k, T, c = 2, 20, 5.0
    rough = solve_paper(cohort, k, T, 1.0, c, "successive", 60, 0)
    assert rough.rows(0, 10)[:, -2:, 1].max() > 1
    assert not rough.info.converged
    assert rough.info.details[UNVISITED] > 1e-4
    fine = solve_paper(cohort, k, T, 1.0, c, "successive", 3000, 0)
    assert fine.info.converged
    assert fine.rows(0, 10)[:, -2:, 1].max() < 0.2  # .099 for the next step, little beyond it
    assert rough.info.residual > 10 * fine.info.residual


def test_a_trap_that_nothing_disturbs_counts():
    """The two arms are helped at every decision, so that nothing changes any more: neither values
    nor gains. That they are wrong shows in the transition probabilities alone."""
    cohort = with_hidden_state(kept=1 - 1e-7)
    tables = [solve_paper(cohort, 2, 20, 1.0, 9.0, "successive", K, 0) for K in (400, 600)]
    first, second = (values.rows(0, 8)[:, -2:, 1] for values in tables)  # [8, 2]
    trapped = second > 1
    assert trapped.any()
    np.testing.assert_allclose(first[trapped], second[trapped], rtol=0.05)
    assert tables[1].info.residual > 5 * GAP_TOLERANCE
    assert tables[1].info.details[UNVISITED] > 0


def test_a_reward_still_under_way_counts():
    """The reward is nine steps away, so that values at t = 0 are 0 and do not change, though the
    states of the start have been visited in every episode."""
    cohort, T = late_reward(), 30
    tables = [solve_paper(cohort, 2, T, 1.0, 1.0, "joint", K, 0) for K in (7, 8)]
    assert np.all(tables[0].V[0] == 0)
    assert np.all(tables[1].V[0] == 0)
    assert not tables[1].info.converged
    settled = solve_paper(cohort, 2, T, 1.0, 1.0, "joint", 4000, 0)
    assert settled.info.converged
    assert settled.V[0, :, 0].min() > 1


# ---- statistics ----


def test_settled_gains_are_those_of_the_mean_field():
    """n = 200, c = 4: the mean field is computed without episodes. Gains differ by the noise of
    finite n, of which the policy's own record is the measure, and by the tolerance."""
    cohort, k, T, c = mixing_cohort(200, 1), 20, 10, 4.0
    fixed = solve_meanfield(cohort, k, T, 1.0, c, "successive").rows(0, T)
    learnt = solve_paper(cohort, k, T, 1.0, c, "successive", None, 0)
    assert learnt.info.converged
    limit = (learnt.info.tolerance + learnt.info.details["noise of the gains"]) * fixed.mean()
    assert np.mean(np.abs(learnt.rows(0, T) - fixed)) < limit
    early = solve_paper(cohort, k, T, 1.0, c, "successive", 10, 0)
    assert not early.info.converged
    assert np.mean(np.abs(early.rows(0, T) - fixed)) > limit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "T", "c"),
    [
        ("synthetic", 40, 15, 5.0),
        ("synthetic", 20, 30, 5.0),
        ("synthetic", 20, 30, 1.0),
        ("cpap", 40, 20, 9.0),
    ],
)
def test_four_times_the_episodes_change_little_once_settled(name, n, T, c):
    """The promise of the tolerance: benefit within 2 points, mean gain within tolerance and noise.

    100 runs with common luck; 4 standard errors of the paired difference are added for chance in
    the runs. A cohort that has not settled at the cap is given more, until it has.
    """
    cohort = datasets.synthetic(n, seed=7) if name == "synthetic" else datasets.cpap(n, 7, **CPAP)
    setting = {"k": n // 10, "horizon": T}
    episodes, fitted = None, None
    while fitted is None or not fitted.info.converged:
        fitted = sf.SoftFair(c, solver="paper", design="successive", episodes=episodes).fit(
            cohort, **setting
        )
        episodes = 2 * fitted.info.passes
        assert episodes < 100_000
    more = sf.SoftFair(c, solver="paper", design="successive", episodes=4 * fitted.info.passes)
    after = more.fit(cohort, **setting)
    none, oracle, now, then = (
        sf.simulate(policy, runs=100, seed=1).totals
        for policy in (
            sf.NoIntervention().fit(cohort, **setting),
            sf.Oracle().fit(cohort, **setting),
            fitted,
            after,
        )
    )
    change = 100 * (then - now) / (oracle.mean() - none.mean())
    assert abs(change.mean()) < 2 + 4 * change.std(ddof=1) / 10
    means = [one.info.details["mean gain of a selection"] for one in (fitted, after)]
    assert abs(means[1] / means[0] - 1) < GAP_TOLERANCE + after.info.details["noise of the gains"]
