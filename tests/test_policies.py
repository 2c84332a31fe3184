"""Every policy behind one contract, then what each of them promises.

Order: the contract, closed form, brute force, properties, statistics with a derived tolerance.
"""

from __future__ import annotations

import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import softfair as sf
from softfair import policies
from softfair.errors import Infeasible, InvalidInput, NotConverged
from softfair.kernels.rules import RuleCode
from softfair.policies.base import Remembering
from softfair.policies.rules import Rule
from softfair.registry import POLICIES as REGISTRY
from softfair.sampling import multiplier
from softfair.solvers import solve_priced

n, k, T = 12, 3, 8
INF = float("inf")

POLICIES = {
    "SoftFair": lambda: sf.SoftFair(c=5.0),
    "SoftFair successive": lambda: sf.SoftFair(c=5.0, design="successive"),
    "SoftFair paper": lambda: sf.SoftFair(c=5.0, solver="paper", design="successive", episodes=30),
    "SoftFair meanfield": lambda: sf.SoftFair(c=5.0, solver="meanfield", design="successive"),
    "SoftFair c_value": lambda: sf.SoftFair(c=5.0, solver="meanfield", c_value=1.0),
    "SoftFair c=inf": lambda: sf.SoftFair(c=INF, c_value=1.0, solver="meanfield"),
    "SoftFair lottery": lambda: sf.SoftFair(c=0.0),
    "SoftFair max_wait": lambda: sf.SoftFair(c=5.0, max_wait=6),
    "SoftFair max_wait c=inf": lambda: sf.SoftFair(c=INF, max_wait=5, c_value=5.0),
    "SoftFair max_wait lottery": lambda: sf.SoftFair(c=0.0, max_wait=4),
    "SoftFair floor": lambda: sf.SoftFair(c=20.0, floor=0.05),
    "Random": lambda: sf.Random(),
    "RoundRobin": lambda: sf.RoundRobin(),
    "Myopic": lambda: sf.Myopic(),
    "FairMyopic": lambda: sf.FairMyopic(c=1.0),
    "Oracle": lambda: sf.Oracle(),
    "Whittle infinite": lambda: sf.Whittle(horizon="infinite"),
    "Whittle finite": lambda: sf.Whittle(horizon="finite"),
    "ThresholdWhittle": lambda: sf.ThresholdWhittle(),
    "FaWT": lambda: sf.FaWT(window=6, least=1),
    "ProbFair": lambda: sf.ProbFair(low=0.1, high=0.9),
    "EvenHanded": lambda: sf.EvenHanded(mu=10.0),
    "EvenHanded log": lambda: sf.EvenHanded(mu=10.0, welfare="log", c=20.0),
    "EvenHanded min": lambda: sf.EvenHanded(mu=10.0, welfare="min", c=20.0),
    "EvenHanded lottery": lambda: sf.EvenHanded(mu=10.0, c=0.0),
    "NoIntervention": lambda: sf.NoIntervention(),
}
DETERMINISTIC = {
    "SoftFair c=inf", "SoftFair max_wait c=inf", "RoundRobin", "Myopic", "Oracle",
    "Whittle infinite", "Whittle finite", "ThresholdWhittle", "FaWT", "NoIntervention",
}  # fmt: skip
REMEMBERING = {
    "RoundRobin", "ThresholdWhittle", "FaWT",
    "SoftFair max_wait", "SoftFair max_wait c=inf", "SoftFair max_wait lottery",
}  # fmt: skip
TWO_STATES_ONLY = {"ThresholdWhittle", "ProbFair"}


def many_state_arms(S=3, seed=1):
    """Tie-free arms with starts and rewards of their own; this seed's have Whittle indices."""
    rng = np.random.default_rng(seed)
    return sf.Cohort(
        rng.dirichlet(np.ones(S), size=(n, 2, S)),
        reward=np.sort(rng.random((n, S)), axis=1),
        start=rng.integers(0, S, n),
    )


COHORTS = {
    "synthetic": lambda: sf.datasets.synthetic(n=n, seed=0),
    "cpap": lambda: sf.datasets.cpap(n=n, seed=0),
    "three states": many_state_arms,
}


@pytest.fixture(autouse=True)
def rough_values_will_do():
    """Thirty episodes of Algorithm 1 do not converge, and need not here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        yield


def fitted_to(cohort, name, **setting):
    return POLICIES[name]().fit(
        cohort, **{"k": k, "horizon": T, "gamma": 0.9, "seed": 0, **setting}
    )


def refusal(call):
    """The message of the InvalidInput that call raises; it must be one line."""
    with pytest.raises(InvalidInput) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- the contract ----


@pytest.mark.parametrize("cohort_name", COHORTS)
@pytest.mark.parametrize("name", POLICIES)
def test_contract(name, cohort_name):
    cohort = COHORTS[cohort_name]()
    if cohort.S > 2 and name in TWO_STATES_ONLY:
        assert "two states, the cohort has 3" in refusal(lambda: fitted_to(cohort, name))
        return
    policy, fitted = POLICIES[name](), fitted_to(cohort, name)
    budget = 0 if name == "NoIntervention" else k
    rng = np.random.default_rng(2)
    memory, size = fitted.memory(), len(pickle.dumps(fitted))
    assert (memory is None) == (name not in REMEMBERING)
    at_start = {}  # (t, states) -> scores without a memory, before anything was remembered

    for t in range(T):
        states = rng.integers(0, cohort.S, n)
        given, held = states.copy(), pickle.dumps(memory)

        scores, inclusion = fitted.scores(t, states, memory), fitted.inclusion(t, states, memory)
        assert scores.shape == inclusion.shape == (n,)
        assert np.isfinite(scores).all()
        assert inclusion.sum() == pytest.approx(budget, abs=1e-9)
        assert inclusion.min() >= 0
        assert inclusion.max() <= 1
        if name in DETERMINISTIC:
            assert set(inclusion) <= {0.0, 1.0}

        arms = fitted.draw(t, states, np.random.default_rng(t), memory)
        np.testing.assert_array_equal(
            arms, fitted.draw(t, states, np.random.default_rng(t), memory)
        )
        assert arms.shape == (budget,)
        assert (np.diff(arms) > 0).all()  # sorted and distinct
        assert set(arms.tolist()) <= set(range(n))
        assert (inclusion[arms] > 0).all()

        # A memory is a value: using or extending it leaves it as it is, and a call without one
        # answers as at the start.
        at_start[t] = states, fitted.scores(t, states)
        later = fitted.remember(memory, t, states, arms)
        np.testing.assert_array_equal(fitted.scores(t, states), at_start[t][1])
        np.testing.assert_array_equal(fitted.scores(t, states, fitted.memory()), at_start[t][1])
        assert pickle.dumps(memory) == held
        np.testing.assert_array_equal(states, given)
        memory = later

    assert len(pickle.dumps(fitted)) == size  # rows kept for the next call do not travel
    # The same policy from a pickle acts the same, also in the middle of things; so does one that is
    # fitted again.
    for other in (pickle.loads(pickle.dumps(fitted)), fitted_to(cohort, name)):
        for t in (T - 1, 0, 3):  # out of order: what is kept between calls must not show
            states, scores = at_start[t]
            np.testing.assert_array_equal(other.scores(t, states), scores)
            np.testing.assert_array_equal(
                other.scores(t, states, memory), fitted.scores(t, states, memory)
            )
            np.testing.assert_array_equal(
                other.draw(t, states, np.random.default_rng(5), memory),
                fitted.draw(t, states, np.random.default_rng(5), memory),
            )
    assert repr(fitted) == f"<{policy.label}: n={n}, k={budget}, horizon={T}>"
    assert (fitted.policy, fitted.k, fitted.horizon, fitted.gamma) == (policy, budget, T, 0.9)


@pytest.mark.parametrize(
    "name",
    [  # a promise takes milliseconds a draw, and the contract thousands of draws
        pytest.param(name, marks=pytest.mark.slow)
        if {"floor", "max_wait"} & {*name.split()}
        else name
        for name in POLICIES
    ],
)
def test_the_public_contract(name):
    """What a policy of a user's own is put to."""
    sf.testing.check_policy(POLICIES[name](), [COHORTS[world]() for world in COHORTS], k, T)


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_a_saved_policy_comes_back(name, tmp_path):
    """To the last digit, with and without a memory, from a file that is the same again."""
    for world in ("synthetic", "three states"):
        cohort = COHORTS[world]()
        if cohort.S > 2 and name in TWO_STATES_ONLY:
            continue
        fitted = fitted_to(cohort, name)
        fitted.scores(1, [0] * n)
        fitted.save(tmp_path / "model")
        back = sf.load(tmp_path / "model")
        assert type(back) is type(fitted)
        assert repr(back) == repr(fitted)
        assert (back.policy, back.rule, back.info) == (fitted.policy, fitted.rule, fitted.info)
        memory, states = fitted.memory(), np.arange(n) % cohort.S
        for t in range(T):
            np.testing.assert_array_equal(
                back.scores(t, states, memory), fitted.scores(t, states, memory)
            )
            arms = fitted.draw(t, states, np.random.default_rng(t), memory)
            np.testing.assert_array_equal(
                back.draw(t, states, np.random.default_rng(t), memory), arms
            )
            memory = fitted.remember(memory, t, states, arms)
        np.testing.assert_array_equal(
            sf.simulate(back, runs=2).rewards, sf.simulate(fitted, runs=2).rewards
        )
        back.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("name", POLICIES)
def test_a_window_has_a_row_for_each_decision_that_it_covers(name):
    fitted = fitted_to(COHORTS["synthetic"](), name)
    for t in (2, 3, T - 1):  # the second follows the first, so that several decisions are covered
        scores, decisions = fitted.window(t, np.zeros((4, n), np.int64), fitted.memory(4))
        assert 1 <= decisions <= T - t
        assert scores.shape[0] in (1, 4)
        assert scores.shape[1] in (1, decisions)  # one row may serve all
        assert scores.shape[2] == n


@pytest.mark.parametrize("name", POLICIES)
def test_wrong_questions_are_refused(name):
    cohort = COHORTS["synthetic"]()
    fitted, rng = fitted_to(cohort, name), np.random.default_rng(0)
    states = np.zeros(n, int)
    for ask in (
        fitted.scores,
        fitted.inclusion,
        lambda t, s: fitted.draw(t, s, rng),
        lambda t, s: fitted.remember(None, t, s, [0]),
    ):
        for t in (-1, T, 0.5, "a", None):
            assert f"t is {t!r}, the decisions are 0 to {T - 1}" in refusal(
                lambda ask=ask, t=t: ask(t, states)
            )
        for size in (5, 13):
            assert f"shape ({size},), the cohort has 12 arms" in refusal(
                lambda ask=ask, size=size: ask(0, np.zeros(size, int))
            )
        for wrong in (2, -1, 0.5, np.nan):
            bad = np.where(np.arange(n) == 4, wrong, 0)
            complaint = refusal(lambda ask=ask, bad=bad: ask(0, bad))
            assert f"states[4] is {bad[4]} (1 of 12 entries are wrong)" in complaint
            assert complaint.endswith("give states between 0 and 1")
    for arms in ([0, -1], [3, n]):
        complaint = refusal(lambda arms=arms: fitted.remember(None, 0, states, arms))
        assert f"arms[1] is {arms[1]} (1 of 2 entries are wrong)" in complaint
        assert complaint.endswith("give indices between 0 and 11")


@pytest.mark.parametrize("name", POLICIES)
def test_wrong_settings_are_refused(name):
    cohort = COHORTS["synthetic"]()
    for wrong in (-1, n + 1, 2.5, np.nan):
        if name != "NoIntervention":  # which ignores k
            assert f"k is {wrong}" in refusal(lambda wrong=wrong: fitted_to(cohort, name, k=wrong))
    for wrong in (0, -3, 2.5):
        assert f"horizon is {wrong}" in refusal(
            lambda wrong=wrong: fitted_to(cohort, name, horizon=wrong)
        )
    for wrong in (-0.1, 1.1, np.nan):
        assert f"gamma is {wrong}" in refusal(
            lambda wrong=wrong: fitted_to(cohort, name, gamma=wrong)
        )


@pytest.mark.parametrize("name", POLICIES)
def test_nobody_and_everybody(name):
    """k = 0 and k = n, where the policy's own promise allows it."""
    cohort, states = COHORTS["synthetic"](), np.arange(n) % 2
    for places in (0, n):
        try:
            fitted = fitted_to(cohort, name, k=places)
        except Infeasible:
            assert (name, places) in {("FaWT", 0), ("ProbFair", 0), ("ProbFair", n)} or (
                name.startswith(("SoftFair max_wait", "SoftFair floor")) and places == 0
            )
            continue
        helped = 0 if name == "NoIntervention" else places
        np.testing.assert_array_equal(fitted.inclusion(0, states), np.full(n, float(helped > 0)))
        np.testing.assert_array_equal(
            fitted.draw(0, states, np.random.default_rng(0)), np.arange(helped)
        )


def test_policies_are_values():
    """Equal if they say the same, and told apart by their labels.

    A comparison keeps results by policy.
    """
    made = [(make(), make()) for make in POLICIES.values()]
    assert all(one == other and hash(one) == hash(other) for one, other in made)
    assert len({one for one, _ in made}) == len({one.label for one, _ in made}) == len(POLICIES)


@pytest.mark.parametrize(
    ("policy", "label"),
    [
        (sf.Random(), "Random"),
        (sf.FairMyopic(), "FairMyopic"),
        (sf.FairMyopic(c=2.5), "FairMyopic(c=2.5)"),
        (sf.Whittle("finite"), "Whittle(finite)"),
        (sf.FaWT(window=8), "FaWT(window=8)"),
        (sf.FaWT(window=8, least=2), "FaWT(window=8, least=2)"),
        (sf.ProbFair(low=0.05), "ProbFair(low=0.05)"),
        (sf.ProbFair(low=0.05, high=0.5), "ProbFair(low=0.05, high=0.5)"),
        (sf.SoftFair(c=5), "SoftFair(c=5)"),
        (sf.SoftFair(c=5, c_value=1, design="successive"), "SoftFair(c=5, c_value=1, successive)"),
        (sf.SoftFair(c=math.inf, solver="meanfield"), "SoftFair(c=inf, meanfield)"),
        (sf.EvenHanded(mu=2), "EvenHanded(mu=2, c=50)"),
        (sf.EvenHanded(entropy=3.5, c=9), "EvenHanded(entropy=3.5, c=9)"),
        (sf.EvenHanded(mu=2, welfare="min", by="group"), "EvenHanded(mu=2, c=50, min, by=group)"),
    ],
)
def test_labels_say_what_was_set(policy, label):
    assert policy.label == label


# ---- the simple ones, in closed form ----


def test_no_intervention_ignores_k():
    fitted = sf.NoIntervention().fit(COHORTS["synthetic"](), k=10**6, horizon=T)
    assert fitted.k == 0
    assert not fitted.inclusion(0, np.zeros(n, int)).any()


@pytest.mark.parametrize("cohort_name", COHORTS)
def test_random_is_uniform(cohort_name):
    fitted = fitted_to(COHORTS[cohort_name](), "Random")
    np.testing.assert_allclose(fitted.inclusion(3, np.arange(n) % 2), k / n, rtol=1e-12)


@pytest.mark.parametrize("cohort_name", COHORTS)
def test_myopic_and_fair_myopic_look_at_the_next_step(cohort_name):
    cohort = COHORTS[cohort_name]()
    states = np.random.default_rng(3).integers(0, cohort.S, n)
    gain = np.array(
        [(cohort.P[i, 1, s] - cohort.P[i, 0, s]) @ cohort.reward[i] for i, s in enumerate(states)]
    )
    myopic, fair, steep = (
        policy.fit(cohort, k, T) for policy in (sf.Myopic(), sf.FairMyopic(), sf.FairMyopic(c=30.0))
    )
    for t in (0, T - 1):
        for fitted in (myopic, fair, steep):
            np.testing.assert_allclose(fitted.scores(t, states), gain, atol=1e-15)
        np.testing.assert_array_equal(
            myopic.draw(t, states, np.random.default_rng(0)), np.sort(np.argsort(-gain)[:k])
        )
        np.testing.assert_allclose(
            fair.inclusion(t, states), sf.sampling.inclusion(gain, k, "successive"), rtol=1e-12
        )
        np.testing.assert_allclose(
            steep.inclusion(t, states),
            sf.sampling.inclusion(30 * gain, k, "successive"),
            rtol=1e-12,
        )


def test_round_robin_helps_everybody_in_turn():
    cohort = sf.datasets.synthetic(n=7, seed=0)
    fitted = sf.RoundRobin().fit(cohort, k=3, horizon=7)
    memory, turns = fitted.memory(), []
    for t in range(7):
        states = np.random.default_rng(t).integers(0, 2, 7)
        arms = fitted.draw(t, states, np.random.default_rng(0), memory)
        assert set(arms) == {(3 * t + turn) % 7 for turn in range(3)}
        memory = fitted.remember(memory, t, states, arms)
        turns.extend(arms)
    np.testing.assert_array_equal(
        np.bincount(turns), 3
    )  # 7 decisions of 3 places: three turns each
    np.testing.assert_array_equal(fitted.draw(0, states, np.random.default_rng(0)), [0, 1, 2])


# ---- policies by index ----


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_oracle_is_the_sigmoid_of_mate_et_al_at_the_decisions_left(gamma):
    """W(h) = C1 / (1 + exp(-C2 h)) + C3, C1 = 2 Wbar, C3 = -Wbar, C2 = -log(1 / (Delta / C1 + 1/2)
    - 1), if 0 < Delta < Wbar.
    """
    cohort = sf.datasets.synthetic(n=n, seed=1)
    fitted = sf.Oracle().fit(cohort, k, T, gamma=gamma)
    p = cohort.p
    lasting = [p[:, a, 1] - p[:, a, 0] for a in (0, 1)]
    for t in range(T):
        h = T - t
        for states in (np.zeros(n, int), np.ones(n, int), np.arange(n) % 2):
            expected = []
            for i, s in enumerate(states):
                delta = p[i, 1] - p[i, 0]
                leads = delta[s] >= delta[1 - s]
                limit = delta[s] / (1 - gamma * lasting[0 if leads else 1][i])
                if 0 < delta[s] < limit:
                    C1, C2, C3 = 2 * limit, -np.log(1 / (delta[s] / (2 * limit) + 0.5) - 1), -limit
                    expected.append(C1 / (1 + np.exp(-C2 * h)) + C3)
                else:
                    expected.append(delta[s])
            np.testing.assert_allclose(fitted.scores(t, states), expected, rtol=1e-9)
            best = np.sort(np.argsort(-np.array(expected))[:k])
            np.testing.assert_array_equal(fitted.draw(t, states, np.random.default_rng(0)), best)


@pytest.mark.parametrize("cohort_name", COHORTS)
def test_index_policies_score_by_the_index_at_the_decisions_left(cohort_name):
    cohort, gamma = COHORTS[cohort_name](), 0.9
    states = np.random.default_rng(4).integers(0, cohort.S, n)
    here = np.arange(n), states
    forever, exact = sf.indices.whittle(cohort, gamma), sf.indices.whittle(cohort, gamma, T)
    sigmoid = sf.indices.sigmoid(cohort, gamma, T)
    infinite, finite, oracle = (
        fitted_to(cohort, name) for name in ("Whittle infinite", "Whittle finite", "Oracle")
    )
    for t in (5, 0, 1, 2, T - 1):  # jumps and walks: rows are kept between calls
        np.testing.assert_array_equal(infinite.scores(t, states), forever[here])
        np.testing.assert_array_equal(finite.scores(t, states), exact[T - t][here])
        np.testing.assert_allclose(oracle.scores(t, states), sigmoid[T - t][here], rtol=1e-14)


def test_whittle_that_does_not_exist_is_refused():
    """An arm that is not indexable.

    NotIndexable, a kind of InvalidInput, from every policy that needs the index.
    """
    rng = np.random.default_rng(0)
    for _ in range(2000):  # among arms with few and large chances some are not
        P = rng.dirichlet(np.full(3, 0.15), size=(1, 2, 3))
        cohort = sf.Cohort(P, reward=rng.random(3))
        try:
            sf.indices.whittle(cohort, 0.9)
        except sf.NotIndexable:
            break
    else:
        pytest.fail("no arm without an index was found")
    for policy in (sf.Whittle(), sf.Oracle()):
        with pytest.raises(sf.NotIndexable, match="no Whittle index"):
            policy.fit(cohort, k=1, horizon=3, gamma=0.9)


def test_threshold_whittle_sees_a_state_only_when_it_helps():
    """Beliefs tracked by hand.

    After a pull that saw w the chance of state 1 is p[1, w], and b p[0,1] + (1 - b) p[0,0] unseen.
    """
    chances = np.random.default_rng(5).dirichlet(np.ones(2), n)
    cohort = sf.Cohort(sf.datasets.synthetic(n=n, seed=2).P, start=chances)
    table = sf.indices.threshold(cohort, T)
    fitted = sf.ThresholdWhittle().fit(cohort, k, T)
    p, rng = cohort.p, np.random.default_rng(6)
    belief, seen, ago = (
        chances[:, 1].copy(),
        np.full(n, -1),
        np.zeros(n, int),
    )  # seen: the state last seen, -1 for none
    memory = fitted.memory()
    for t in range(T):
        truth, lies = rng.integers(0, 2, n), rng.integers(0, 2, n)
        scores = fitted.scores(t, truth, memory)
        np.testing.assert_array_equal(scores, fitted.scores(t, lies, memory))  # states do not show
        unseen = sf.indices.threshold_at(belief, table)
        for i in range(n):
            if seen[i] >= 0:
                assert table.belief[seen[i], ago[i] - 1, i] == pytest.approx(belief[i], abs=1e-12)
                assert scores[i] == table.index[seen[i], ago[i] - 1, i]
            else:
                assert scores[i] == pytest.approx(unseen[i], abs=1e-12)
        helped = rng.choice(n, k, replace=False)  # anybody, so that long waits and short ones occur
        is_helped = np.isin(np.arange(n), helped)
        memory, same = (
            fitted.remember(memory, t, states, helped)
            for states in (truth, np.where(is_helped, truth, lies))
        )  # lies about those not helped change nothing
        np.testing.assert_array_equal(memory, same)
        passive = belief * p[:, 0, 1] + (1 - belief) * p[:, 0, 0]
        belief = np.where(is_helped, p[np.arange(n), 1, truth], passive)
        seen, ago = np.where(is_helped, truth, seen), np.where(is_helped, 1, ago + 1)
    assert (seen >= 0).any()
    assert (seen < 0).any()


# ---- SoftFair ----


def threshold_path(p, horizon):
    """Index {(seen, steps since): m} of Threshold Whittle for one arm p [2, 2], in fractions.

    The policy (X0, X1) pulls X_w steps after a pull that saw w. Its pulls see state 1 with share
    f = b_0(X0) / (b_0(X0) + 1 - b_1(X1)); a cycle brings R good steps and lasts D steps on average.
    Two policies A, B are indifferent at the subsidy (R_A D_B - R_B D_A) / (D_B - D_A). From (1, 1)
    on, the cheaper of one step more for X0 or for X1 gives the index of the belief that it passes.
    """
    belief = {}
    for seen in (0, 1):
        b = p[1][seen]
        for steps in range(1, horizon + 3):
            belief[seen, steps] = b
            b = b * p[0][1] + (1 - b) * p[0][0]

    def cycle(waits):
        to_good, to_bad = belief[0, waits[0]], 1 - belief[1, waits[1]]
        share = (to_bad / (to_good + to_bad), to_good / (to_good + to_bad))
        R = sum(share[w] * sum(belief[w, u] for u in range(1, waits[w] + 1)) for w in (0, 1))
        return R, sum(share[w] * waits[w] for w in (0, 1))

    waits, index = [1, 1], {}
    while max(waits) <= horizon:
        (R, D), offers = cycle(waits), []
        for w in (0, 1):
            R_more, D_more = cycle([waits[0] + (w == 0), waits[1] + (w == 1)])
            offers.append((R * D_more - R_more * D) / (D_more - D) if D_more > D else math.inf)
        w = int(offers[1] < offers[0])
        index[w, waits[w]] = offers[w]
        waits[w] += 1
    return index


@pytest.mark.parametrize("rare", [Fraction(1, 2000), Fraction(1, 10**5), Fraction(1, 10**7)])
@pytest.mark.parametrize("seen", [0, 1])
def test_threshold_index_of_arms_that_seldom_show_the_other_state(seen, rare):
    """An arm that help leaves in the state seen, but for one time in 1 / rare."""
    half, fifth = Fraction(1, 2), Fraction(1, 5)
    p = [[fifth, half], [rare, 3 * fifth]] if seen == 0 else [[fifth, half], [fifth * 2, 1 - rare]]
    expected = threshold_path(p, 3)
    assert {(0, 1), (1, 1)} & set(expected)
    arm = sf.Cohort.two_state(np.array([[[float(x) for x in row] for row in p]]))
    fitted = sf.ThresholdWhittle().fit(arm, k=1, horizon=3)
    for (last, ago), m in expected.items():
        memory = fitted.remember(None, 0, [last], [0])  # seen now
        for _ in range(ago - 1):
            memory = fitted.remember(memory, 0, [0], [])
        assert fitted.scores(0, [0], memory)[0] == pytest.approx(float(m), rel=1e-7), (last, ago)


@pytest.mark.parametrize("design", ["joint", "successive"])
@pytest.mark.parametrize("solver", ["priced", "meanfield", "paper"])
def test_chances_have_the_order_of_gains(solver, design):
    """Theorem 3, arm by arm.

    Who would gain more never has the worse chance, by the policy's own gains; ties share alike.
    """
    cohort = sf.datasets.synthetic(n=60, seed=3)
    for c in (0.5, 5.0, 40.0):
        fitted = sf.SoftFair(c=c, solver=solver, design=design, c_value=2.0).fit(
            cohort, k=7, horizon=T
        )
        for t in (0, 4, T - 1):
            states = np.random.default_rng(t).integers(0, 2, 60)
            gains, chances = fitted.scores(t, states), fitted.inclusion(t, states)
            order = np.argsort(gains)
            assert (np.diff(chances[order]) >= 0).all()
            assert sf.metrics.unfair_pairs(chances, gains, tolerance=0.0) == 0
            assert chances.max() > chances.min()
            np.testing.assert_allclose(
                chances, sf.sampling.inclusion(c * gains, 7, design), rtol=1e-12
            )


@pytest.mark.parametrize("design", ["joint", "successive"])
@pytest.mark.parametrize("cohort_name", COHORTS)
def test_softfair_goes_from_a_lottery_to_the_best_k(cohort_name, design):
    cohort, states = COHORTS[cohort_name](), np.arange(n) % 2

    def at(c):
        return sf.SoftFair(c=c, design=design, c_value=1.0).fit(cohort, k, T)

    gains = at(1.0).scores(0, states)
    best = np.sort(np.argsort(-gains)[:k])
    margin = np.diff(np.sort(gains)[-k - 1 :][:2])[
        0
    ]  # between the last one in and the first one out
    np.testing.assert_allclose(at(0.0).inclusion(0, states), k / n, rtol=1e-12)
    np.testing.assert_array_equal(np.flatnonzero(at(INF).inclusion(0, states)), best)
    np.testing.assert_array_equal(at(INF).draw(0, states, np.random.default_rng(0)), best)
    steep = at(60 / margin)  # odds of e^60 for the last one in
    np.testing.assert_array_equal(steep.draw(0, states, np.random.default_rng(0)), best)
    np.testing.assert_allclose(steep.inclusion(0, states), at(INF).inclusion(0, states), atol=1e-12)


@pytest.mark.parametrize("solver", ["priced", "meanfield", "paper"])
def test_c_value_learns_and_c_draws(solver):
    cohort, states = COHORTS["synthetic"](), np.arange(n) % 2
    both = sf.SoftFair(c=9.0, c_value=1.0, solver=solver).fit(cohort, k, T)
    learnt = sf.SoftFair(c=1.0, solver=solver).fit(cohort, k, T)
    drawn = sf.SoftFair(c=9.0, solver=solver).fit(cohort, k, T)
    for t in range(T):
        np.testing.assert_array_equal(both.scores(t, states), learnt.scores(t, states))
        np.testing.assert_allclose(
            both.inclusion(t, states),
            sf.sampling.inclusion(9 * learnt.scores(t, states), k, "joint"),
        )
    assert (
        np.abs(drawn.scores(0, states) - both.scores(0, states)).max() > 1e-3
    )  # not all the same anyway
    assert both.info.c_value == 1.0
    assert drawn.info.c_value == 9.0


def test_softfair_hands_the_solver_its_setting():
    cohort = COHORTS["three states"]()
    fitted = sf.SoftFair(c=4.0).fit(cohort, k=2, horizon=5, gamma=0.7)
    values = solve_priced(cohort, 2, 5, 0.7, 4.0)
    for t in (0, 4):
        states = np.full(n, t % 3)
        np.testing.assert_array_equal(
            fitted.scores(t, states), values.rows(t, 1)[0, np.arange(n), states]
        )
    assert fitted.info == values.info
    assert fitted.upper_bound == sf.solvers.upper_bound(cohort, 2, 5, 0.7)
    assert pickle.loads(pickle.dumps(fitted)).upper_bound == fitted.upper_bound


def test_seed_matters_to_the_solver_that_samples():
    cohort, states = COHORTS["synthetic"](), np.arange(n) % 2
    tables = [
        sf.SoftFair(c=5.0, solver="paper", episodes=30)
        .fit(cohort, k, T, seed=seed)
        .scores(0, states)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(tables[0], tables[1])
    assert (tables[0] != tables[2]).any()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sf.SoftFair(c=-1.0), "c is -1.0; give a number >= 0"),
        (lambda: sf.SoftFair(c=float("nan")), "c is nan"),
        (lambda: sf.SoftFair(c="a"), "c is 'a'; give a number >= 0"),
        (lambda: sf.SoftFair(c=None), "c is None; give a number >= 0"),
        (lambda: sf.SoftFair(c_value="a"), "c_value is 'a'; give a number >= 0"),
        (
            lambda: sf.SoftFair(solver="paper", episodes="x"),
            "episodes is 'x'; give a whole number of at least 1",
        ),
        (lambda: sf.ProbFair(low="a"), "low is a and high 1.0, but 0 <= low <= high <= 1"),
        (lambda: sf.FaWT(window="a"), "window is 'a'; give a whole number"),
        (lambda: sf.FaWT(window=-1), "window is -1; give a whole number of at least 0"),
        (lambda: sf.FaWT(window=2, least=-1), "least is -1; give a whole number of at least 0"),
        (
            lambda: sf.SoftFair(solver="exact"),
            "solver is 'exact'; choose 'priced', 'meanfield' or 'paper'",
        ),
        (
            lambda: sf.SoftFair(design="pairs"),
            "design is 'pairs'; choose one of 'successive', 'joint'",
        ),
        (lambda: sf.SoftFair(c_value=-0.5), "c_value is -0.5; give a number >= 0, or None"),
        (lambda: sf.SoftFair(c_value=float("nan")), "c_value is nan"),
        (lambda: sf.SoftFair(episodes=10), "episodes is 10 but solver is 'priced'"),
        (
            lambda: sf.SoftFair(solver="paper", episodes=0),
            "episodes is 0; give a whole number of at least 1",
        ),
        (lambda: sf.SoftFair(solver="paper", episodes=2.5), "episodes is 2.5"),
        (lambda: sf.FairMyopic(c=-2.0), "c is -2.0; give a number >= 0"),
        (lambda: sf.Whittle(horizon="long"), "horizon is 'long'; choose 'infinite' or 'finite'"),
    ],
)
def test_wrong_policies_are_refused(make, said):
    assert said in refusal(make)


@pytest.mark.parametrize("rng", [3, None])
def test_draws_need_a_generator(rng):
    fitted = sf.SoftFair().fit(COHORTS["synthetic"](), k, T)
    for draw in (
        lambda: fitted.draw(0, np.zeros(n, int), rng),
        lambda: sf.sampling.draw([0.0, 1.0], 1, rng),
    ):
        assert f"rng is {rng}; give a generator, such as np.random.default_rng(seed)" in refusal(
            draw
        )


@pytest.mark.parametrize("c", [1e17, 1e100, 1e300, 1.7e308])
@pytest.mark.parametrize("solver", ["priced", "meanfield", "paper"])
def test_the_largest_multipliers_are_as_good_as_infinite(c, solver):
    """Gains that differ at all are then out of each other's reach.

    Learning stops at the multiplier that stands for infinity.
    """
    cohort, states = COHORTS["synthetic"](), np.arange(n) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        fitted = sf.SoftFair(c=c, solver=solver).fit(cohort, k, T)
        best = sf.SoftFair(c=float("inf"), solver=solver).fit(cohort, k, T)
    np.testing.assert_allclose(fitted.inclusion(0, states), best.inclusion(0, states), atol=1e-11)
    np.testing.assert_array_equal(
        fitted.draw(0, states, np.random.default_rng(0)),
        best.draw(0, states, np.random.default_rng(0)),
    )
    assert (sf.simulate(fitted, runs=3).counts.sum(axis=1) == k * T).all()
    if solver != "paper":
        assert fitted.info == best.info  # the same passes, not a long way down from c


@settings(max_examples=60, deadline=None)
@example(
    c=412.0, seed=167, places=7, design="successive"
)  # log-weights 700 apart: beyond what a float64 exp can hold
@given(
    c=st.floats(0, 1e4),
    seed=st.integers(0, 10**6),
    places=st.integers(1, 8),
    design=st.sampled_from(["joint", "successive"]),
)
def test_softfair_is_fair_on_any_cohort(c, seed, places, design):
    """Arms that help harms, rewards of either sign.

    Inclusion sums to k, keeps the order of gains, and equal arms share alike.
    """
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(2), size=(9, 2, 2))
    P[8] = P[0]  # twins, in the same state
    cohort = sf.Cohort(P, reward=np.tile(rng.normal(size=2), (9, 1)))
    fitted = sf.SoftFair(c=c, c_value=1.0, design=design).fit(cohort, places, horizon=4)
    states = np.append(rng.integers(0, 2, 8), 0)
    states[8] = states[0]
    gains, chances = fitted.scores(1, states), fitted.inclusion(1, states)
    assert chances.sum() == pytest.approx(places, abs=1e-9)
    assert gains[0] == gains[8]
    assert chances[0] == chances[8]
    assert sf.metrics.unfair_pairs(chances, gains) == 0


def test_every_policy_is_registered_under_its_name():
    classes = {
        name
        for name, what in vars(policies).items()
        if isinstance(what, type) and issubclass(what, sf.Policy) and what is not sf.Policy
    }
    assert set(REGISTRY) == classes
    for name, entry in REGISTRY.items():
        made = getattr(sf, name)(**({entry.parameter: entry.usual} if entry.parameter else {}))
        assert made.name == entry.name == name
        assert type(made) is getattr(policies, name)
    assert set(REGISTRY) <= set(sf.__all__)
    assert {name.split()[0] for name in POLICIES} == set(REGISTRY)  # the contract covers them all


def test_only_infinity_counts_as_infinite_once_checked():
    for c in (0, 0.5, 7, 1e100):
        assert multiplier(c) == c
        assert Rule.softmax(c, "joint") == Rule(RuleCode.JOINT, float(c))
    for c in (1.0001e100, 1e300, INF):
        assert multiplier(c) == INF
        for design in ("joint", "successive"):
            assert Rule.softmax(c, design) == Rule.top() == Rule(RuleCode.TOP, INF)
    assert isinstance(multiplier(np.float32(3)), float)


def test_a_policy_that_remembers_must_say_how():
    class Forgetful(Remembering):
        def memory(self, runs=1):
            return np.zeros((runs, 1))

    with pytest.raises(TypeError, match="abstract"):
        Forgetful(sf.Random(), COHORTS["synthetic"](), k, T, 1.0, Rule.top())


@pytest.mark.parametrize("name", POLICIES)
def test_what_simulation_calls_agrees_with_what_a_caller_sees(name):
    """`window`, `scores_by_run` and `remember_by_run` on three runs: each run as if alone."""
    cohort = COHORTS["three states" if name == "Myopic" else "synthetic"]()
    fitted, rng = fitted_to(cohort, name), np.random.default_rng(4)
    memory = fitted.memory(3)
    alone = [fitted.memory() for _ in range(3)]
    for t in range(T):
        states = rng.integers(0, fitted.cohort.S, (3, n))
        window, covered = fitted.window(t, states, memory)
        assert 1 <= covered <= T - t
        scores = fitted.scores_by_run(t, states, memory)
        helped = np.zeros((3, n), np.uint8)
        for run in range(3):
            one = fitted.scores(t, states[run], alone[run])
            np.testing.assert_array_equal(scores[run], one)
            row = window[run if len(window) > 1 else 0, 0]  # [n, S or 1]
            places = states[run] if row.shape[1] > 1 else np.zeros(n, int)
            np.testing.assert_array_equal(row[np.arange(n), places], one)
            arms = fitted.draw(t, states[run], rng, alone[run])
            helped[run, arms] = 1
            alone[run] = fitted.remember(alone[run], t, states[run], arms)
        memory = fitted.remember_by_run(memory, t, states, helped)
        if memory is not None:
            np.testing.assert_array_equal(memory, np.concatenate(alone))


# ---- statistics ----


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_draws_come_as_often_as_inclusion_says(name):
    """N = 4000 draws: a frequency of mean p has sd sqrt(p (1 - p) / N).

    5 of them for each of 12 arms (two-sided 6e-7 apiece).
    """
    N, t = 4000, 2
    fitted = fitted_to(COHORTS["synthetic"](), name)
    states, rng = np.arange(n) % 2, np.random.default_rng(7)
    memory = fitted.memory()
    if memory is not None:
        memory = fitted.remember(memory, 0, states, [0, 1, 2])
    chances = fitted.inclusion(t, states, memory)
    draws = np.array([np.isin(np.arange(n), fitted.draw(t, states, rng, memory)) for _ in range(N)])
    spread = np.sqrt(chances * (1 - chances) / N)
    assert (np.abs(draws.mean(axis=0) - chances) <= 5 * spread + 1e-12).all()


@pytest.mark.slow
def test_ties_are_settled_by_chance():
    """Twelve arms alike: the best k are any k. 4000 draws as above."""
    cohort = sf.Cohort.two_state(np.tile([[0.2, 0.5], [0.4, 0.8]], (n, 1, 1)))
    for policy in (sf.Myopic(), sf.Oracle(), sf.Whittle(), sf.SoftFair(c=INF)):
        fitted, rng = policy.fit(cohort, k, T), np.random.default_rng(8)
        np.testing.assert_allclose(fitted.inclusion(0, np.zeros(n, int)), k / n, rtol=1e-12)
        draws = np.array(
            [np.isin(np.arange(n), fitted.draw(0, np.zeros(n, int), rng)) for _ in range(4000)]
        )
        assert (np.abs(draws.mean(axis=0) - k / n) <= 5 * np.sqrt(k / n * (1 - k / n) / 4000)).all()
