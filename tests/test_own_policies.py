"""Policies that a user writes: each way to say how arms are chosen, used everywhere.

The classes below are what the documentation tells a user to write.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest

import softfair as sf
from softfair.errors import InvalidInput, NotConverged
from softfair.policies.base import Remembering
from softfair.testing import check_policy

n, k, T = 12, 3, 8


class Acting(sf.Policy):
    """A policy whose class says what acts."""

    acts: type[sf.Fitted]

    def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
        return self.acts(self, cohort, k, horizon, gamma)


class ByScores(sf.Fitted):
    """Those in the worst state first, a list of whole numbers as scores."""

    def scores(self, t, states, memory=None):
        return [-int(state) for state in states]


class ByChances(sf.Fitted):
    """Those in state 0 have twice the chance of the others."""

    def inclusion(self, t, states, memory=None):
        weight = np.where(np.asarray(states) == 0, 2.0, 1.0)
        return self.k * weight / weight.sum()


class ByDraw(sf.Fitted):
    """Consecutive arms from a place at random."""

    def draw(self, t, states, rng, memory=None):
        first = rng.integers(self.cohort.n)
        return np.sort((first + np.arange(self.k)) % self.cohort.n)


class ByDrawWithChances(ByDraw):
    """The same, with the chances that follow: all alike."""

    def inclusion(self, t, states, memory=None):
        return np.full(self.cohort.n, self.k / self.cohort.n)


class ByMemory(sf.Fitted):
    """Who was helped least so far; the memory is a plain tuple."""

    def memory(self, runs=1):
        return (0,) * self.cohort.n

    def scores(self, t, states, memory=None):
        return [-helps for helps in memory or self.memory()]

    def remember(self, memory, t, states, arms):
        helps = list(memory or self.memory())
        for arm in arms:
            helps[arm] += 1
        return tuple(helps)


class Mixed(sf.Fitted):
    """Half a lottery, half the rule on scores that it was given."""

    def __init__(self, policy, cohort, k, horizon, gamma):
        rows = sf.Myopic().fit(cohort, k, horizon)._scorer
        super().__init__(policy, cohort, k, horizon, gamma, sf.Rule.softmax(5.0, "joint"), rows)

    def inclusion(self, t, states, memory=None):
        return 0.5 * super().inclusion(t, states, memory) + 0.5 * self.k / self.cohort.n


KINDS = [ByScores, ByChances, ByDraw, ByDrawWithChances, ByMemory, Mixed]
OWN = {kind.__name__: type(f"Own{kind.__name__}", (Acting,), {"acts": kind})() for kind in KINDS}


@dataclass(frozen=True)
class Mild(sf.Policy):
    """A frozen dataclass with a multiplier."""

    c: float = 1.0
    power: float = 2.0

    def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
        return FittedMild(self, cohort, k, horizon, gamma, sf.Rule.softmax(self.c, "joint"))


class FittedMild(sf.Fitted):
    def scores(self, t, states, memory=None):
        return (1.0 - np.asarray(states)) ** self.policy.power


@dataclass
class Loose(Acting):
    """A dataclass that is not frozen cannot be hashed."""

    bias: float = 0.0
    acts = ByScores


@pytest.fixture(scope="module")
def cohort():
    return sf.datasets.synthetic(n=n, seed=0)


@pytest.mark.parametrize("name", OWN)
def test_own_policies_pass_the_contract(name):
    check_policy(OWN[name])


def test_dataclasses_pass_the_contract():
    check_policy(Mild(c=3.0))
    check_policy(Loose())


@pytest.mark.parametrize("name", OWN)
def test_simulate_acts_as_the_class_says(name, cohort):
    """Every selection of simulated runs is one that the class could have made."""
    fitted = OWN[name].fit(cohort, k, T)
    result = sf.simulate(fitted, runs=20, seed=3, trajectories=True)
    paths = result.trajectories
    if name in ("ByDraw", "ByDrawWithChances"):  # consecutive, around the end
        gaps = (np.roll(paths.actions, -1, axis=2) != paths.actions).sum(axis=2)
        assert (gaps == 2).all()
        first = (paths.actions > np.roll(paths.actions, 1, axis=2)).argmax(axis=2)
        assert len(np.unique(first)) == n  # all places come up in 160 draws: (11/12)^160 n < 1e-4
    if name == "ByScores":
        for states, actions in zip(
            paths.states[:, :-1].reshape(-1, n), paths.actions.reshape(-1, n), strict=True
        ):
            needed = np.sort(states)[:k].sum()
            assert states[actions == 1].sum() == needed
    if name == "ByMemory":  # everybody in turn: 8 decisions of 3 places for 12 arms
        assert (result.counts == 2).all()
    if name == "ByChances":
        # Arms in state 0 at decision 0 are helped twice as often as the others. Over 240 arm-runs
        # a share has a standard error below 0.04.
        at = paths.states[:, 0] == 0
        expected = np.array([fitted.inclusion(0, s) for s in paths.states[:, 0]])
        assert abs(paths.actions[:, 0][at].mean() - expected[at].mean()) < 0.16


def test_simulate_of_a_draw_follows_its_chances(cohort):
    """Helps of each arm over 3000 runs at decision 0: a binomial with k/n, by Hoeffding at 1e-9."""
    runs = 3000
    fitted = OWN["ByDraw"].fit(cohort, k, 1)
    shares = sf.simulate(fitted, runs=runs, seed=1).counts.mean(axis=0)
    assert np.abs(shares - k / n).max() < math.sqrt(math.log(2 * n / 1e-9) / (2 * runs))


def test_luck_does_not_depend_on_company(cohort):
    fitted = OWN["ByDraw"].fit(cohort, k, T)
    few, many = sf.simulate(fitted, runs=2, seed=5), sf.simulate(fitted, runs=6, seed=5)
    np.testing.assert_array_equal(few.counts, many.counts[:2])
    assert len({tuple(row) for row in many.counts.tolist()}) > 1


def test_own_policies_meet_the_same_luck_as_the_packages(cohort):
    """A copy of Myopic, written by a user, is simulated to the last digit as Myopic."""

    class Copy(sf.Fitted):
        def scores(self, t, states, memory=None):
            return self.cohort.immediate_gain[np.arange(self.cohort.n), states]

    mine = type("Mine", (Acting,), {"acts": Copy})().fit(cohort, k, T)
    ours = sf.Myopic().fit(cohort, k, T)
    np.testing.assert_array_equal(sf.simulate(mine).rewards, sf.simulate(ours).rewards)


def test_compare_takes_them_all(cohort):
    table = sf.compare(
        [*OWN.values(), Mild(), Loose(), sf.Random()], cohort, k=k, horizon=T, runs=4
    )
    assert (table.problem == "").all()
    assert table.reward.notna().all()
    assert table.policy.tolist() == [
        *(f"Own{name}" for name in OWN), "Mild", "Loose", "Random",
    ]  # fmt: skip
    unstated = table.policy == "OwnByDraw"  # draws without chances: there are no pairs to judge
    assert table.unfair[unstated].isna().all()
    assert table.unfair[~unstated].notna().all()


def test_one_unsuitable_policy_does_not_end_a_comparison():
    P = np.random.default_rng(1).dirichlet(np.ones(3), size=(n, 2, 3))
    cohort = sf.Cohort(P)

    class Faulty(sf.Fitted):
        def scores(self, t, states, memory=None):
            return 1 / 0

    broken = type("Broken", (Acting,), {"acts": Faulty})()
    policies = [sf.ProbFair(low=0.1), broken, sf.Random()]
    with pytest.warns(UserWarning, match="cannot be compared"):
        table = sf.compare(policies, cohort, k=k, horizon=4, runs=3).set_index("policy")
    assert table.loc["Random", "problem"] == ""
    assert "two states, the cohort has 3" in table.problem["ProbFair(low=0.1)"]
    assert table.problem["Broken"] == "ZeroDivisionError: division by zero"
    assert table.loc[["ProbFair(low=0.1)", "Broken"], "reward"].isna().all()
    assert table.columns[0] == "benefit"
    assert list(table.columns[-3:]) == ["unfair", "converged", "problem"]
    with (
        pytest.raises(InvalidInput, match="two states"),
        pytest.warns(UserWarning, match="compared"),
    ):
        sf.compare(policies[:1], cohort, k=k, horizon=4, runs=3)
    with pytest.raises(InvalidInput, match="two states"):
        sf.compare(policies, cohort, k=k, horizon=4, runs=3, against="ProbFair(low=0.1)")


def test_frontier_varies_the_c_of_any_policy(cohort):
    cs = [0.0, 4.0]
    curve = sf.frontier(cohort, k=k, horizon=T, cs=cs, runs=4, policy=Mild(power=1.0))
    assert curve.policy.tolist() == ["Mild(c=0, power=1)", "Mild(c=4, power=1)"]
    same = sf.frontier(
        cohort, k=k, horizon=T, cs=cs, runs=4, policy=lambda c: replace(Mild(power=1.0), c=c)
    )
    assert same.equals(curve)
    for wrong in (OWN["ByScores"], Mild, "Mild"):
        with pytest.raises(InvalidInput, match="policy is"):
            sf.frontier(cohort, k=k, horizon=T, cs=cs, runs=4, policy=wrong)


def test_reproduce_takes_them(tmp_path):
    from softfair.experiments import find, run, write_report

    experiments = [one.small().beside([Loose(), Mild()]) for one in find(["fig2a/10"])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        results = run(experiments, tmp_path, runs=5)
    assert {"Loose", "Mild"} <= set(results["fig2a/10"].rows.policy)
    page = write_report(results, tmp_path, 0, True, []).read_text(encoding="utf-8")
    assert "Loose" in page
    assert "Mild" in page
    with pytest.raises(InvalidInput, match="not a policy"):
        experiments[0].beside([Mild])


def test_results_of_an_edited_policy_are_not_used_again(tmp_path):
    """The digest of a result covers the file in which a user's policy is defined."""
    from softfair.experiments import find

    def settings_of(source):
        from softfair.experiments import catalogue

        catalogue._code_of.cache_clear()
        (tmp_path / "mine.py").write_text(source)
        space = {"__name__": "mine", "__file__": str(tmp_path / "mine.py")}
        code = compile(source, str(tmp_path / "mine.py"), "exec")
        import sys
        import types

        module = types.ModuleType("mine")
        module.__file__ = str(tmp_path / "mine.py")
        sys.modules["mine"] = module
        try:
            exec(code, module.__dict__ | space)
            kind = type("Mine", (Acting,), {"acts": ByScores, "__module__": "mine"})
            return find(["fig2a/10"])[0].beside([kind()]).settings()
        finally:
            del sys.modules["mine"]

    assert settings_of("x = 1") != settings_of("x = 2")
    assert settings_of("x = 1") == settings_of("x = 1")


# ---- what is refused, by name ----


def refused(call, said):
    with pytest.raises(InvalidInput, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


def acting(**methods):
    kind = type("Odd", (sf.Fitted,), methods)
    return type("OwnOdd", (Acting,), {"acts": kind})()


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ({"scores": lambda self, t, states, memory=None: [1.0, 2.0]}, "OwnOdd: scores gave"),
        (
            {"scores": lambda self, t, states, memory=None: np.full(n, np.nan)},
            "return 12 finite numbers, one an arm",
        ),
        ({"scores": lambda self, t, states, memory=None: "high"}, "scores gave 'high'"),
        (
            {"inclusion": lambda self, t, states, memory=None: np.full(n, 0.5)},
            "sum to 6; return chances between 0 and 1 that sum to 3",
        ),
        (  # the sum is right, and one chance is below 0
            {
                "inclusion": lambda self, t, states, memory=None: np.r_[
                    -0.5, np.full(n - 1, 3.5 / 11)
                ]
            },
            "chances from -0.5 to",
        ),
        (  # the same above 1
            {
                "inclusion": lambda self, t, states, memory=None: np.r_[
                    1.5, np.full(n - 1, 1.5 / 11)
                ]
            },
            "chances from 0.136364 to 1.5 that",
        ),
        ({"draw": lambda self, t, states, rng, memory=None: [0, 1]}, "draw gave .*; return 3"),
        ({"draw": lambda self, t, states, rng, memory=None: [0, 1, 1]}, "3 different arms"),
        ({"draw": lambda self, t, states, rng, memory=None: [0, 1, n]}, "between 0 and 11"),
        ({"draw": lambda self, t, states, rng, memory=None: [0, 1, 2.5]}, "draw gave"),
    ],
)
def test_what_a_method_returns_is_checked(methods, said, cohort):
    refused(lambda: sf.simulate(acting(**methods).fit(cohort, k, T), runs=2), said)


def test_a_class_that_says_nothing_is_refused(cohort):
    refused(lambda: acting().fit(cohort, k, T), "Odd does not say how it acts; define scores")
    forgets = acting(
        memory=lambda self, runs=1: 0, scores=lambda self, t, states, memory=None: np.zeros(n)
    )
    refused(lambda: forgets.fit(cohort, k, T), "define remember")
    silent = OWN["ByDraw"].fit(cohort, k, T)
    for ask in (silent.scores, silent.inclusion):
        refused(lambda ask=ask: ask(0, [0] * n), "states no .*; define")


def test_a_class_for_all_runs_at_once_is_not_taken_apart(cohort):
    """A subclass that also defines the calls for all runs keeps them."""

    class Quick(Remembering):
        def memory(self, runs=1):
            return np.zeros((runs, 1))

        def scores_by_run(self, t, states, memory):
            return -states.astype(float)

        def remember_by_run(self, memory, t, states, helped):
            return memory

        def inclusion(self, t, states, memory=None):
            return super().inclusion(t, states, memory)

    fitted = type("OwnQuick", (Acting,), {"acts": Quick})().fit(cohort, k, T)
    assert not fitted.one_by_one
    check_policy(fitted.policy)


# ---- the contract test can fail ----


def faulty(**methods):
    return acting(**{"scores": lambda self, t, states, memory=None: np.arange(float(n)), **methods})


def _forgetful_draw(self, t, states, rng, memory=None):
    return np.sort(np.random.default_rng().permutation(self.cohort.n)[: self.k])


def _lying(self, t, states, memory=None):
    return np.full(self.cohort.n, self.k / self.cohort.n)


def _always_the_first(self, t, states, rng, memory=None):
    return np.arange(self.k)


class _Counting(sf.Fitted):
    """Its answers change as it is asked."""

    asked = 0

    def scores(self, t, states, memory=None):
        self.asked += 1
        return (np.arange(float(n)) + self.asked) % n


class _Hoarding(ByMemory):
    """It writes into the memory that it is given."""

    def memory(self, runs=1):
        return [0] * self.cohort.n

    def remember(self, memory, t, states, arms):
        memory = memory or self.memory()
        for arm in arms:
            memory[arm] += 1
        return memory


class _Meddling(sf.Fitted):
    def scores(self, t, states, memory=None):
        states[:] = 0
        return np.arange(float(n))


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (acting(draw=_forgetful_draw), "the same generator gave"),
        (acting(draw=_always_the_first, inclusion=_lying), "it was drawn"),
        (type("C", (Acting,), {"acts": _Counting})(), "generator gave|changed since|otherwise"),
        (type("H", (Acting,), {"acts": _Hoarding})(), "changed the memory"),
        (type("M", (Acting,), {"acts": _Meddling})(), "changed the states"),
        (acting(draw=lambda self, t, states, rng, memory=None: [2, 1, 0]), "sorted"),
        (acting(draw=lambda self, t, states, rng, memory=None: [0, 1, 2.0]), "not arms"),
        (acting(inclusion=lambda self, t, states, memory=None: np.full(n, 0.5)), "chances"),
        (sf.ProbFair(low=0.9), "can be fitted to no cohort"),
        (sf.Random, "not an instance of sf.Policy"),
    ],
)
def test_the_contract_test_notices(policy, said):
    with pytest.raises((AssertionError, InvalidInput), match=said):
        check_policy(policy)


def test_a_policy_that_takes_more_than_k_is_noticed():
    class Greedy(Acting):
        acts = ByScores

        def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
            return ByScores(self, cohort, k + 1, horizon, gamma)

    with pytest.raises(AssertionError, match=r"fitted\.k is 4, at most 3"):
        check_policy(Greedy())
