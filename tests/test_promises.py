"""SoftFair with a promise: values of an arm with a deadline, draws that keep it, and its cost.

Order: closed form, brute force, properties, statistics. Every promise has a test in which it breaks
once the guard is taken away.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softfair as sf
from softfair.errors import InvalidInput
from softfair.kernels import waiting
from softfair.kernels.rules import RuleCode
from softfair.policies import promised
from softfair.policies.deadlines import deadline_quotas, places_for_deadlines, shortest_wait
from softfair.policies.promised import check_promise, kept_chances, raised
from softfair.solvers import promised_bound, solve_priced, solve_promised, upper_bound


def arms_of(S, n=3, seed=0):
    rng = np.random.default_rng(seed)
    return sf.Cohort(
        rng.dirichlet(np.ones(S), size=(n, 2, S)),
        reward=np.sort(rng.random((n, S)), axis=1),
        start=rng.dirichlet(np.ones(S), size=n),
    )


def chance_and_extra(rule, c, gain, theta, floor):
    """The chance of an arm at a price and its value, by a search over chances."""
    x = c * gain - theta
    if rule is RuleCode.HARD:
        return max((p, p * x) for p in (floor, 1.0)) if x > 0 else (floor, floor * x)
    pi = max(floor, 1 / (1 + math.exp(-x)))
    if rule is RuleCode.JOINT:
        return pi, pi * gain
    entropy = -pi * math.log(pi) - (1 - pi) * math.log(1 - pi)
    return pi, (pi * x + entropy) / c


def plain_pass(cohort, i, theta, c, gamma, rule, W, floor, left=None):
    """(active by step, value from the start) of one arm, state by state."""
    P, r, T = cohort.P[i], cohort.reward[i], len(theta)

    @functools.cache
    def act(t, d, s):
        """(chance, value) with d decisions left; d is None without a deadline."""
        if t == T:
            return 0.0, 0.0
        fresh, older = (W, d - 1) if W else (None, None)
        q1 = sum(P[1, s, z] * (r[z] + gamma * act(t + 1, fresh, z)[1]) for z in range(cohort.S))
        if d == 1:
            return 1.0, q1 - theta[t] / c
        q0 = sum(P[0, s, z] * (r[z] + gamma * act(t + 1, older, z)[1]) for z in range(cohort.S))
        pi, extra = chance_and_extra(rule, c, q1 - q0, theta[t], floor)
        return pi, q0 + extra

    first = W or None
    mu = {(left or first, s): cohort.start_rows[i, s] for s in range(cohort.S)}
    value = sum(m * act(0, *place)[1] for place, m in mu.items())
    active = []
    for t in range(T):
        later: dict = {}
        active.append(0.0)
        for (d, s), m in mu.items():
            pi = act(t, d, s)[0]
            active[-1] += m * pi
            for z in range(cohort.S):
                for chance, a, left in ((pi, 1, first), (1 - pi, 0, d and d - 1)):
                    if chance:
                        key = left, z
                        later[key] = later.get(key, 0.0) + m * chance * P[a, s, z]
        mu = later
    return active, value


@pytest.mark.parametrize("rule", [RuleCode.PRICED, RuleCode.HARD])
@pytest.mark.parametrize(("W", "floor"), [(0, 0.0), (3, 0.0), (20, 0.0), (0, 0.2), (4, 0.1)])
@pytest.mark.parametrize("S", [2, 3])
def test_a_pass_is_the_recursion_state_by_state(rule, W, floor, S):
    cohort, T, gamma = arms_of(S), 7, 0.9
    theta = np.random.default_rng(1).normal(size=T) * 0.3
    c = 1.0 if rule is RuleCode.HARD else 4.0
    out = waiting.sweep(
        0, cohort.n, cohort.P, cohort.reward_rows, cohort.start_rows,
        np.array([max(W, 1)]), theta, c, gamma, int(rule), W, floor,
    )  # fmt: skip
    by_arm = [plain_pass(cohort, i, theta, c, gamma, rule, W, floor) for i in range(cohort.n)]
    np.testing.assert_allclose(out[0, :T], np.sum([a for a, _ in by_arm], axis=0), rtol=1e-12)
    assert out[0, T] == pytest.approx(sum(v for _, v in by_arm), rel=1e-12)


@pytest.mark.parametrize("rule", [RuleCode.PRICED, RuleCode.HARD])
def test_arms_may_start_with_different_deadlines(rule):
    cohort, T, W = arms_of(2, n=6), 7, 4
    left = np.array([4, 1, 2, 3, 1, 4])
    theta = np.random.default_rng(2).normal(size=T) * 0.3
    c = 1.0 if rule is RuleCode.HARD else 4.0
    out = waiting.sweep(
        0, 6, cohort.P, cohort.reward_rows, cohort.start_rows, left, theta, c, 0.9, int(rule), W,
        0.05,
    )  # fmt: skip
    by_arm = [plain_pass(cohort, i, theta, c, 0.9, rule, W, 0.05, left[i]) for i in range(6)]
    np.testing.assert_allclose(out[0, :T], np.sum([a for a, _ in by_arm], axis=0), rtol=1e-12)
    assert out[0, T] == pytest.approx(sum(v for _, v in by_arm), rel=1e-12)


def test_prices_balance_a_large_cohort_whose_deadlines_differ():
    """From 2000 arms on, prices start from a sample, which has the deadlines of its arms."""
    cohort, W = sf.datasets.synthetic(n=4000, seed=3), 6
    left = np.random.default_rng(0).integers(1, W + 1, 4000)
    values = solve_promised(cohort, 1000, 5, 1.0, 5.0, W, 0.0, left)
    assert values.info.converged


def test_deadlines_may_not_take_every_place_beside_a_floor():
    """Without a floor the others can have no chance; with one, so many places are left to them.

    n = 12, k = 4, floor 1/6: if m are due, 4 - m >= (12 - m) / 6 for m <= 2, so W >= 6 serves.
    """
    cohort = sf.datasets.synthetic(n=4, seed=0)
    fitted = sf.SoftFair(c=1.0, max_wait=2).fit(cohort, k=2, horizon=4)
    left = np.array([[1, 1, 2, 2]])
    assert fitted.inclusion(1, [0] * 4, left).tolist() == [1, 1, 0, 0]
    assert places_for_deadlines(12, 4, 1 / 6) == 2
    check_promise(12, 4, 6, 1 / 6)
    with pytest.raises(
        sf.Infeasible, match="leaves 2 places a decision for deadlines, but 12 > 10"
    ):
        check_promise(12, 4, 5, 1 / 6)


def test_the_best_law_with_deadlines_and_a_floor():
    """Greatest expected gain plus entropy / c over laws on the sets that keep both, by enumeration.

    Six arms, two places; one of {0, 1} is due within two, so at least one of them now. The law of
    the 9 allowed pairs is found by a general solver, and its chances are those of the draw.
    """
    from scipy.optimize import minimize

    gain, c, floor = np.array([0.1, 0.0, 0.9, 0.4, -0.2, -0.8]), 3.0, 0.15
    sets = [H for H in itertools.combinations(range(6), 2) if set(H) & {0, 1}]
    inside = np.array([[i in H for H in sets] for i in range(6)], float)
    worth = gain @ inside

    def loss(p):
        return -(worth @ p) + (p * np.log(p)).sum() / c

    found = minimize(
        loss, np.full(len(sets), 1 / len(sets)), bounds=[(1e-12, 1)] * len(sets), method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p: inside @ p - floor},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    must = np.zeros(6, bool), [sf.quotas.Quota([0, 1], 1)]
    chance = kept_chances(gain, c, 2, floor, *must)
    np.testing.assert_allclose(chance, inside @ found.x, atol=1e-5)
    assert chance.min() >= floor
    assert (chance < floor * 1.0001).any()  # it binds


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_a_wait_and_a_floor_are_kept_together(seed):
    """With any gains at every decision, arms that are due are helped, and no chance is below f."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(3, 9)), int(rng.integers(2, 4))
    k = min(k, n - 1)
    floor = float(rng.uniform(0, 0.9)) * (k - 1) / n
    W = -(-n // places_for_deadlines(n, k, floor))
    left = np.full(n, W)
    for _ in range(3 * W):
        now, more = deadline_quotas(left, places_for_deadlines(n, k, floor))
        chance = kept_chances(rng.normal(size=n), 4.0, k, floor, now, more)
        assert chance.min() >= floor
        assert (chance[left == 1] == 1).all()
        assert left.min() >= 1
        others = np.flatnonzero(~now)
        z = rng.normal(size=len(others)) * 5  # any set that keeps the quotas may be drawn
        drawn = others[sf.quotas.draw(z, k - int(now.sum()), more, rng)]
        left -= 1
        left[now] = W
        left[drawn] = W


def test_of_more_late_arms_than_places_as_many_are_helped_as_there_are_places():
    now, more = deadline_quotas(np.array([1, 1, 1, 9]), 2)
    assert not now.any()
    assert (more[0].arms.tolist(), more[0].least) == ([0, 1, 2], 2)


def test_the_shortest_wait_is_found_wherever_it_is():
    for shortest in range(3, 70):
        assert shortest_wait(3, lambda W, least=shortest: least <= W) == shortest
    assert shortest_wait(3, lambda W: W >= 70, longest=69) is None


def test_a_deadline_after_the_end_changes_nothing():
    """W > T: the gains of every layer beyond the horizon are those without a promise."""
    cohort, T = sf.datasets.synthetic(n=20, seed=1), 6
    plain = solve_priced(cohort, 4, T, 1.0, 8.0, tolerance=1e-8)
    held = solve_promised(cohort, 4, T, 1.0, 8.0, W=T + 1, floor=0.0)
    np.testing.assert_allclose(held.theta, plain.theta, atol=1e-3)
    rows = held.rows(0, T).reshape(T, 20, T + 1, 2)
    for t in range(T):  # at t an arm that was never helped has W - t left
        np.testing.assert_allclose(rows[t, :, T - t], plain.rows(t, 1)[0], atol=1e-3)


def test_the_forward_and_the_backward_pass_agree():
    """The dual's slope in each price is minus the expected active arms, by differences."""
    cohort, T, c = arms_of(2, n=5), 6, 3.0
    theta = np.linspace(0, 1, T)

    def run(at):
        return waiting.sweep(
            0, 5, cohort.P, cohort.reward_rows, cohort.start_rows, np.array([4]),
            at, c, 1.0, int(RuleCode.PRICED), 4, 0.05,
        )  # fmt: skip

    for t in range(T):
        step = np.eye(T)[t] * 1e-5
        slope = (run(theta + step)[0, T] - run(theta - step)[0, T]) / 2e-5
        assert -c * slope == pytest.approx(run(theta)[0, t], rel=1e-7)


# ---- deadlines: who must be helped ----


def safe_positions(n, k, W):
    """All vectors of deadlines from which all can be met for ever, by search on the whole graph."""
    positions = set(itertools.product(range(1, W + 1), repeat=n))
    sets = list(itertools.combinations(range(n), k))

    def after(left, H):
        return tuple(W if i in H else d - 1 for i, d in enumerate(left))

    while True:
        kept = {left for left in positions if any(after(left, H) in positions for H in sets)}
        if kept == positions:
            return positions, after, sets
        positions = kept


@pytest.mark.parametrize(("n", "k", "W"), [(3, 1, 3), (3, 1, 4), (4, 2, 2), (4, 2, 3), (5, 2, 3)])
def test_the_quotas_are_exactly_what_the_promise_needs(n, k, W):
    """A set may be drawn if and only if the promise can be kept for ever after it."""
    safe, after, sets = safe_positions(n, k, W)
    assert (W,) * n in safe
    for left in safe:
        now, more = deadline_quotas(np.array(left), k)
        others = np.flatnonzero(~now)
        for H in sets:
            allowed = set(np.flatnonzero(now)) <= set(H) and all(
                len(set(others[quota.arms]) & set(H)) >= quota.least for quota in more
            )
            assert allowed == (after(left, H) in safe), (left, H)


def fit(c=5.0, W=4, n=8, k=2, T=12, seed=0, **more):
    cohort = sf.datasets.synthetic(n=n, seed=seed)
    return sf.SoftFair(c=c, max_wait=W, **more).fit(cohort, k=k, horizon=T)


def test_chances_are_the_softmax_over_the_sets_that_keep_the_promise():
    """In positions that any draws may lead to, whatever the gains."""
    n, k, W = 6, 2, 4
    safe, after, sets = safe_positions(n, k, W)
    fitted, rng = fit(W=W, n=n, k=k), np.random.default_rng(0)
    positions = sorted(safe)
    some = [positions[j] for j in rng.integers(0, len(positions), 60)]
    open_cases = 0
    for left in some:
        states, memory = rng.integers(0, 2, n), np.array([left])
        gains = fitted.scores(5, states, memory)
        allowed = [H for H in sets if after(left, H) in safe]
        open_cases += 1 < len(allowed) < len(sets)
        logs = np.array([5.0 * gains[list(H)].sum() for H in allowed])
        weights = np.exp(logs - logs.max())
        chances = [sum(weights[j] for j, H in enumerate(allowed) if i in H) for i in range(n)]
        np.testing.assert_allclose(
            fitted.inclusion(5, states, memory), np.array(chances) / weights.sum(), atol=1e-9
        )
    assert open_cases > 20


def test_an_infinite_c_takes_the_best_set_that_keeps_the_promise():
    fitted = sf.SoftFair(c=math.inf, max_wait=3, c_value=20.0).fit(
        sf.datasets.synthetic(n=5, seed=3), k=2, horizon=10
    )
    safe, after, sets = safe_positions(5, 2, 3)
    memory, rng = None, np.random.default_rng(2)
    for t in range(10):
        states = rng.integers(0, 2, 5)
        left = (fitted.memory() if memory is None else memory)[0]
        gains = fitted.scores(t, states, memory)
        allowed = [H for H in sets if after(tuple(left.tolist()), H) in safe]
        best = max(allowed, key=lambda H: gains[list(H)].sum())
        arms = fitted.draw(t, states, rng, memory)
        assert gains[arms].sum() == pytest.approx(gains[list(best)].sum())
        assert set(fitted.inclusion(t, states, memory)) <= {0.0, 1.0}
        memory = fitted.remember(memory, t, states, arms)


# ---- nobody waits longer ----


@st.composite
def promises(draw):
    n, W = draw(st.integers(2, 12)), draw(st.integers(1, 6))
    k = draw(st.integers(-(-n // W), n))
    return n, k, W, draw(st.sampled_from([0.0, 1.0, 30.0, 1e6, math.inf]))


def longest_wait(fitted, W, decisions, rng):
    """The longest time between two helps, with random gains that do not depend on deadlines."""
    n = fitted.cohort.n
    left, last, longest = np.full(n, W), np.full(n, -1), 0
    for t in range(decisions):
        arms = fitted._draw(t, rng.normal(size=n), left, rng)
        assert len(set(arms.tolist())) == fitted.k
        last[arms] = t
        longest = max(longest, int((t + 1 - last).max()))
        left = np.where(np.isin(np.arange(n), arms), W, left - 1)
    return longest


@settings(max_examples=60, deadline=None)
@given(promises(), st.integers(0, 2**31))
def test_nobody_ever_waits_longer_than_promised(promise, seed):
    n, k, W, c = promise
    fitted = fit(c=c, W=W, n=n, k=k, T=3, c_value=1.0)
    assert longest_wait(fitted, W, 4 * W, np.random.default_rng(seed)) <= W


@pytest.mark.parametrize("guard", ["the quotas", "help at the deadline"])
def test_the_wait_breaks_without_its_guard(monkeypatch, guard):
    fitted = fit(c=5.0, W=6, n=12, k=2)
    assert longest_wait(fitted, 6, 30, np.random.default_rng(0)) == 6

    def without(left, k):
        now, more = deadline_quotas(left, k)
        return (now, []) if guard == "the quotas" else (now & False, more)

    monkeypatch.setattr(promised, "deadline_quotas", without)
    assert longest_wait(fitted, 6, 30, np.random.default_rng(0)) > 6


def test_a_simulated_promise_is_kept():
    fitted = fit(c=5.0, W=10, n=20, k=2, T=40)
    assert sf.simulate(fitted, runs=5).waits.max() == 9  # ten decisions from help to help


def test_a_broken_memory_is_mended_as_far_as_places_go():
    """Five arms late for two places: two of them are helped, and nobody else."""
    fitted = fit(W=4, n=8, k=2)
    memory = np.array([[0, -3, 1, 1, 1, 4, 4, 4]])
    chances = fitted.inclusion(3, np.zeros(8, int), memory)
    assert chances[:5].sum() == pytest.approx(2)
    assert chances[5:].max() < 1e-12
    assert set(fitted.draw(3, np.zeros(8, int), np.random.default_rng(0), memory)) <= set(range(5))


def test_more_gain_and_less_time_never_lower_a_chance():
    fitted, rng = fit(W=6, n=8, k=2, T=20), np.random.default_rng(5)
    memory = None
    for t in range(20):
        states = rng.integers(0, 2, 8)
        left = (fitted.memory() if memory is None else memory)[0]
        gains, chances = fitted.scores(t, states, memory), fitted.inclusion(t, states, memory)
        for i, j in itertools.permutations(np.flatnonzero(left > 1), 2):
            if gains[i] >= gains[j] and left[i] <= left[j]:
                assert chances[i] >= chances[j] - 1e-12
        memory = fitted.remember(memory, t, states, fitted.draw(t, states, rng, memory))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fit(W=3, n=8, k=2), "needs n <= k max_wait, but 8 > 6; take k=3 or more, or max"),
        (lambda: fit(W=3, n=8, k=0), "but 8 > 0; take k=3 or more"),
        (lambda: sf.SoftFair(max_wait=0), "max_wait is 0"),
        (lambda: sf.SoftFair(max_wait=2.5), "max_wait is 2.5"),
        (lambda: sf.SoftFair(max_wait=5, design="successive"), "need solver='priced'"),
        (lambda: sf.SoftFair(floor=0.1, solver="paper"), "need solver='priced'"),
        (lambda: sf.SoftFair(floor=1.5), "floor is 1.5; give a chance between 0 and 1"),
        (
            lambda: sf.SoftFair(floor=0.3).fit(sf.datasets.synthetic(n=10, seed=0), 2, 5),
            "n floor <= k, but 10 * 0.3 > 2; take floor=0.2 or less, or k=3 or more",
        ),
    ],
)
def test_what_cannot_be_promised_is_refused(make, says):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- a floor under everybody's chance ----


def test_one_place_in_closed_form():
    """k = 1: arms below the floor get the floor, the others share the rest by their weights."""
    weights = np.array([1e-6, 1e-3, 1.0, 3.0])
    chances = sf.sampling.inclusion(raised(np.log(weights), 1, 0.05), 1, "joint")
    np.testing.assert_allclose(chances, [0.05, 0.05, 0.225, 0.675], rtol=1e-8)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-300, 300), min_size=2, max_size=30),
    st.integers(1, 29),
    st.floats(0.001, 1),
)
def test_nobody_is_below_the_floor_and_the_order_stays(z, k, part):
    z, k = np.array(z), min(k, len(z) - 1)
    floor = part * k / len(z)
    chances = sf.sampling.inclusion(raised(z, k, floor), k, "joint")
    assert chances.min() >= floor * (1 - 1e-12)
    assert (np.diff(chances[np.argsort(z, kind="stable")]) >= 0).all()
    # Whoever is above the floor was not raised: what the optimum demands (see the module).
    lifted = raised(z, k, floor) > z
    assert (chances[lifted] <= floor * (1 + 1e-6)).all()


def test_the_floor_is_the_best_law_that_keeps_it():
    """Expected gain plus entropy over c, over all laws on the sets of 2 of 4 arms with the floor.

    Maximised by a general solver, from the definition.
    """
    from scipy.optimize import minimize

    z, k, floor = np.array([0.0, 0.3, 2.0, 3.5]), 2, 0.2
    sets = list(itertools.combinations(range(4), k))
    member = np.array([[i in H for H in sets] for i in range(4)], float)
    worth = np.array([z[list(H)].sum() for H in sets])

    def loss(p):
        return float(p @ np.log(np.maximum(p, 1e-300)) - p @ worth)

    best = minimize(
        loss, np.full(len(sets), 1 / len(sets)), method="SLSQP", bounds=[(1e-9, 1)] * len(sets),
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p: member @ p - floor},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    chances = sf.sampling.inclusion(raised(z, k, floor), k, "joint")
    np.testing.assert_allclose(member @ best.x, chances, atol=2e-5)


def test_the_policy_keeps_the_floor_and_breaks_it_without_the_guard():
    cohort, states = sf.datasets.synthetic(n=30, seed=0), np.arange(30) % 2
    fitted = sf.SoftFair(c=30.0, floor=0.02).fit(cohort, k=3, horizon=10)
    free = sf.SoftFair(c=30.0).fit(cohort, k=3, horizon=10)
    for t in range(10):
        chances = fitted.inclusion(t, states)
        assert chances.min() >= 0.02
        assert chances.sum() == pytest.approx(3)
        assert (np.diff(chances[np.argsort(fitted.scores(t, states))]) >= 0).all()
        assert fitted.rule.inclusion(fitted.scores(t, states), 3).min() < 0.02
        assert free.inclusion(t, states).min() < 0.02
    result = sf.simulate(fitted, runs=40)
    assert (result.counts.sum(axis=1) == 30).all()
    # 400 draws of at least .02 for each of 30 arms: fewer than one help has chance 3e-4 an arm.
    assert result.counts.sum(axis=0).min() > 0


# ---- what no plan that keeps the promise can exceed ----


def best_kept(cohort, k, T, W):
    """The best expected reward of a plan that keeps the wait, over all joint states."""
    n = cohort.n
    _, after, sets = safe_positions(n, k, W)

    @functools.cache
    def value(t, states, left):
        if t == T:
            return 0.0
        best = -math.inf
        for H in sets:
            # Beyond the end nothing is due.
            if any(d == 1 and i not in H for i, d in enumerate(left)):
                continue
            total = 0.0
            for reached in itertools.product(range(2), repeat=n):
                chance = math.prod(
                    cohort.P[i, int(i in H), s, z]
                    for i, (s, z) in enumerate(zip(states, reached, strict=True))
                )
                total += chance * (sum(reached) + value(t + 1, reached, after(left, H)))
            best = max(best, total)
        return best

    return sum(
        value(0, states, (W,) * n) / 2**n for states in itertools.product(range(2), repeat=n)
    )


@pytest.mark.parametrize("W", [2, 3])
def test_no_plan_that_keeps_the_wait_beats_its_bound(W):
    for seed in range(3):
        cohort = sf.datasets.synthetic(n=2, seed=seed)
        exact, bound = best_kept(cohort, 1, 5, W), promised_bound(cohort, 1, 5, 1.0, W, 0.0)
        assert exact <= bound + 1e-9
        assert bound <= upper_bound(cohort, 1, 5, 1.0) + 0.02  # prices are rough to 1e-3
        fitted = sf.SoftFair(c=50.0, max_wait=W).fit(cohort, k=1, horizon=5)
        assert fitted.promised_bound == bound


def test_a_longer_wait_and_a_lower_floor_promise_less():
    cohort = sf.datasets.synthetic(n=20, seed=0)
    waits = [promised_bound(cohort, 2, 20, 1.0, W, 0.0) for W in (11, 14, 20, 30)]
    floors = [promised_bound(cohort, 2, 20, 1.0, 0, f) for f in (0.08, 0.04, 0.01)]
    free = upper_bound(cohort, 2, 20, 1.0)
    assert waits == sorted(waits)
    assert floors == sorted(floors)
    assert waits[0] < waits[-1] < free * 1.001
    assert floors[0] < floors[-1] < free


# ---- statistics ----


def test_against_fawt_on_the_synthetic_cohort():
    """SoftFair has more benefit and more entropy than FaWT with the same promise.

    Differences of 20 paired runs, each by more than 4 standard errors.
    """
    cohort, setting = sf.datasets.synthetic(n=100, seed=0), {"k": 10, "horizon": 50}
    ours = sf.simulate(sf.SoftFair(c=50.0, max_wait=20).fit(cohort, **setting), runs=20)
    theirs = sf.simulate(sf.FaWT(window=20).fit(cohort, **setting), runs=20)
    assert ours.waits.max() <= 19
    assert ours.counts.min() >= 1
    entropies = [
        np.array([sf.metrics.action_entropy(row) for row in result.counts])
        for result in (ours, theirs)
    ]
    for gain in (ours.totals - theirs.totals, entropies[0] - entropies[1]):
        assert gain.mean() > 4 * gain.std(ddof=1) / math.sqrt(20)
