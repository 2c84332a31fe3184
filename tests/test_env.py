"""The Gymnasium environment: Gymnasium's own checks, and the law of the arms."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import softfair as sf
from softfair.errors import InvalidInput

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

from softfair.env import ID, Agent, VectorRMAB  # noqa: E402


def three_states(n=6):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(n, 2, 3))
    return sf.Cohort(P, reward=rng.random((n, 3)), start=rng.dirichlet(np.ones(3), n))


@pytest.mark.parametrize("cohort", [None, three_states()], ids=["two states", "three states"])
def test_gymnasium_finds_nothing_wrong(cohort):
    env = gymnasium.make(ID, cohort=cohort, k=2, horizon=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


def test_an_episode_has_its_decisions_and_its_budget():
    env = gymnasium.make(ID, k=3, horizon=4)
    env.reset(seed=1)
    for t in range(4):
        action = env.action_space.sample()
        observation, reward, ended, cut, info = env.step(action)
        assert observation["decision"] == t + 1
        assert info["helped"].sum() == min(3, action.sum())
        assert info["over_budget"] == (action.sum() > 3)
        assert not (info["helped"] & (action == 0)).any()
        assert reward == observation["states"].sum()  # two states: the reward is the state
        assert (ended, cut) == (t == 3, False)
    with pytest.raises(InvalidInput, match="the 4 decisions of the episode are over"):
        env.unwrapped.step(action)


def test_seeds_are_kept():
    def walk(seed):
        env = gymnasium.make(ID, cohort=three_states(), k=2, horizon=3)
        seen = [env.reset(seed=seed)[0]["states"]]
        seen += [env.step([1, 1, 1, 0, 0, 0])[0]["states"] for _ in range(3)]
        return np.array(seen)

    np.testing.assert_array_equal(walk(3), walk(3))
    assert (walk(3) != walk(4)).any()


def test_many_runs_follow_the_chains():
    """Shares of each arm's states after one decision against the exact law, over 20,000 runs.

    A share has a standard error of at most 0.0036: five of them are 0.018.
    """
    cohort, runs = three_states(), 20_000
    envs = gymnasium.make_vec(ID, num_envs=runs, cohort=cohort, k=3, horizon=2)
    assert isinstance(envs.unwrapped, VectorRMAB)
    start = envs.reset(seed=0)[0]["states"]
    action = np.tile([1, 1, 1, 0, 0, 0], (runs, 1))
    seen = envs.step(action)[0]["states"]
    for i in range(cohort.n):
        law = cohort.start[i] @ cohort.P[i, int(i < 3)]
        assert np.abs(np.bincount(start[:, i], minlength=3) / runs - cohort.start[i]).max() < 0.018
        assert np.abs(np.bincount(seen[:, i], minlength=3) / runs - law).max() < 0.018


def test_runs_that_end_begin_anew():
    envs = gymnasium.make_vec(ID, num_envs=4, k=2, horizon=2)
    envs.reset(seed=0)
    decisions, ends = [], []
    for _ in range(7):
        observation, reward, ended, _, info = envs.step(envs.action_space.sample())
        decisions.append(observation["decision"].tolist())
        ends.append(bool(ended.all()))
        assert observation["states"].shape == (4, 20)
        assert envs.observation_space.contains(observation)
        if decisions[-1] == [0] * 4:  # a step that only begins anew
            assert not reward.any()
            assert not info["helped"].any()
    assert [row[0] for row in decisions] == [1, 2, 0, 1, 2, 0, 1]
    assert ends == [False, True, False, False, True, False, False]
    with pytest.raises(InvalidInput, match="give one whole number"):
        envs.unwrapped.reset(seed=[1, 2])


def test_an_over_budget_action_is_cut_at_random():
    """An action asks for four arms with two places: each arm gets a place half of the time.

    Over 4000 runs a share has a standard error of 0.008.
    """
    envs = gymnasium.make_vec(ID, num_envs=4000, cohort=three_states(), k=2, horizon=1)
    envs.reset(seed=0)
    info = envs.step(np.tile([1, 1, 1, 1, 0, 0], (4000, 1)))[4]
    assert info["over_budget"].all()
    assert (info["helped"].sum(axis=1) == 2).all()
    np.testing.assert_allclose(info["helped"].mean(axis=0), [0.5] * 4 + [0, 0], atol=0.04)


def test_an_agent_earns_what_simulate_says():
    """Means over 400 episodes and 400 simulated runs agree within four standard errors."""
    cohort = sf.datasets.synthetic(n=10, seed=0)
    fitted = sf.RoundRobin().fit(cohort, k=2, horizon=6)
    env = gymnasium.make(ID, cohort=cohort, k=2, horizon=6)
    agent, totals = Agent(fitted), []
    for episode in range(400):
        observation, _ = env.reset(seed=episode)
        total, ended, helps = 0.0, False, np.zeros(10)
        while not ended:
            observation, reward, ended, _, info = env.step(agent.act(observation))
            total += reward
            helps += info["helped"]
        assert sorted(helps) == [1] * 8 + [2] * 2  # in turn, from the first arm, in every episode
        totals.append(total)
    simulated = sf.simulate(fitted, runs=400).totals
    error = np.hypot(np.std(totals), np.std(simulated)) / np.sqrt(400)
    assert abs(np.mean(totals) - simulated.mean()) < 4 * error


def test_without_gymnasium_the_extra_is_named():
    code = "import sys; sys.modules['gymnasium'] = None; import softfair.env"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "softfair[gym]"' in done.stderr.splitlines()[-1]
