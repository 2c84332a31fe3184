"""The recursions of one arm against the formulas of their module, written here as plain loops.

Order: closed form, brute force, one kernel against the other, properties of the dual. Nothing is
shared with the package but the numbers that name the rules.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softfair import datasets
from softfair.cohort import Cohort
from softfair.kernels.recursion import (
    PART,
    responses_two,
    score_rows,
    score_rows_two,
    sweep,
    sweep_two,
)
from softfair.kernels.rules import RuleCode
from softfair.kernels.threads import get_threads, set_threads
from softfair.solvers import sweeps
from softfair.solvers.values import Info, PriceValues

PRICED, JOINT = int(RuleCode.PRICED), int(RuleCode.JOINT)
SUCCESSIVE, HARD = int(RuleCode.SUCCESSIVE), int(RuleCode.HARD)
RULES = {"priced": PRICED, "joint": JOINT, "successive": SUCCESSIVE, "hard": HARD}
STARTS = ("uniform", "states", "distributions")
EXACT = {
    "rtol": 1e-12,
    "atol": 1e-12,
}  # a few dozen roundings of numbers of order one, and exp_ within 2 ulp


def any_cohort(n, S, seed, *, reward_per_arm=True, start="distributions"):
    """Arms of every kind, helped or harmed by action, with three ways to say where they start."""
    rng = np.random.default_rng(seed)
    starts = {
        "uniform": None,
        "states": rng.integers(0, S, n),
        "distributions": rng.dirichlet(np.ones(S), n),
    }
    return Cohort(
        rng.dirichlet(np.ones(S), size=(n, 2, S)),
        reward=rng.normal(size=(n, S) if reward_per_arm else S),
        start=starts[start],
    )


def respond(rule, c, gain, theta):
    """(pi, what the choice adds to Q(s, 0)).

    The table at the head of the module, in NumPy's functions.
    """
    x = c * gain - theta
    if rule == PRICED:
        return 1 / (1 + np.exp(-x)), np.logaddexp(0, x) / c
    if rule == JOINT:
        pi = 1 / (1 + np.exp(-x))
        return pi, pi * gain
    if rule == SUCCESSIVE:
        pi = 1 - np.exp(-np.exp(x))
        return pi, pi * gain
    return float(x > 0), max(x, 0.0)


def by_loops(cohort, theta, c, gamma, rule):
    """(gains [T, n, S], what `sweep` returns [2, T + 1]), arm by arm and state by state."""
    T, n, S = len(theta), cohort.n, cohort.S
    gains, out = np.zeros((T, n, S)), np.zeros((2, T + 1))
    for i in range(n):
        V, pi = np.zeros(S), np.zeros((T, S))
        for t in reversed(range(T)):
            V_now = np.zeros(S)
            for s in range(S):
                Q = [
                    sum(
                        cohort.P[i, a, s, s2] * (cohort.reward[i, s2] + gamma * V[s2])
                        for s2 in range(S)
                    )
                    for a in (0, 1)
                ]
                gains[t, i, s] = Q[1] - Q[0]
                pi[t, s], extra = respond(rule, c, Q[1] - Q[0], theta[t])
                V_now[s] = Q[0] + extra
            V = V_now
        mu = cohort.start[i].copy()
        out[0, T] += mu @ V
        for t in range(T):
            out[0, t] += mu @ pi[t]
            out[1, t] += mu @ (pi[t] * (1 - pi[t]))
            chain = (1 - pi[t])[:, None] * cohort.P[i, 0] + pi[t][:, None] * cohort.P[i, 1]
            mu = mu @ chain
    return gains, out


def swept(cohort, theta, c, gamma, rule, kernel=sweep, low=0, high=None):
    high = cohort.n if high is None else high
    return kernel(
        low,
        high,
        cohort.P,
        cohort.reward_rows,
        cohort.start_rows,
        np.asarray(theta, float),
        float(c),
        float(gamma),
        rule,
    )


def scored(cohort, theta, c, gamma, rule, kernel=score_rows, first=0, count=None):
    rows = np.full((len(theta) - first if count is None else count, cohort.n, cohort.S), np.nan)
    kernel(
        0,
        cohort.n,
        cohort.P,
        cohort.reward_rows,
        np.asarray(theta, float),
        float(c),
        float(gamma),
        rule,
        first,
        rows,
    )
    return rows


def kernels_for(S):
    """Every (sweep, score_rows) that serves arms of S states."""
    return [(sweep, score_rows)] + [(sweep_two, score_rows_two)] * (S == 2)


@pytest.fixture
def threads_restored():
    before = get_threads()
    yield
    set_threads(before)


# ---- closed form ----


def test_arms_that_help_does_not_move_respond_to_their_own_step_alone():
    """lambda = 0: d pi_t / dtheta_t is that of a coin or a clock; other derivatives are 0."""
    passive = np.random.default_rng(1).dirichlet(np.ones(2), size=(3, 1, 2))
    cohort = Cohort(np.repeat(passive, 2, axis=1))
    theta = np.array([-1.5, 0.3, 2.0, 0.0])
    coin, late = 1 / (1 + np.exp(theta)), np.exp(-np.exp(-theta))
    for rule, slope in ((PRICED, coin * (1 - coin)), (JOINT, coin * (1 - coin))):
        responses = swept(cohort, theta, 4.0, 0.9, rule, responses_two)
        np.testing.assert_allclose(responses, np.diag(3 * slope), **EXACT)
    responses = swept(cohort, theta, 4.0, 0.9, SUCCESSIVE, responses_two)
    np.testing.assert_allclose(responses, np.diag(3 * late * np.exp(-theta)), **EXACT)


@pytest.mark.parametrize("rule", [PRICED, JOINT, SUCCESSIVE])
@pytest.mark.parametrize("start", STARTS)
def test_responses_are_the_derivatives_of_the_active_arms(rule, start):
    """Against central differences of the plain loops.

    A step of 1e-4 errs by 1e-8 / 6 times the third derivative (each of the 9 theta enters through
    bounded functions of c lambda - theta, here below 1e3 for all arms together), and by the
    rounding of about 1e-14 divided by 2e-4.
    """
    rng = np.random.default_rng(4)
    cohort = any_cohort(7, 2, 3, start=start)
    theta, step = rng.normal(size=9), 1e-4
    expected = np.zeros((9, 9))
    for u in range(9):
        up, down = theta + step * (np.arange(9) == u), theta - step * (np.arange(9) == u)
        rise = [by_loops(cohort, at, 3.0, 0.9, rule)[1][0, :9] for at in (up, down)]
        expected[:, u] = (rise[1] - rise[0]) / (2 * step)
    found = swept(cohort, theta, 3.0, 0.9, rule, responses_two)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    assert np.abs(np.triu(expected, 1)).max() > 1e-2 < np.abs(np.tril(expected, -1)).max()


def test_responses_of_parts_add_up_to_those_of_all():
    cohort, theta = any_cohort(200, 2, 3), np.linspace(-1.0, 2.0, 12)
    given = (theta, 3.0, 0.9, JOINT, responses_two)
    whole = swept(cohort, *given)
    parts = [swept(cohort, *given, low, high) for low, high in ((0, 61), (61, 130), (130, 200))]
    np.testing.assert_allclose(sum(parts), whole, **EXACT)


@pytest.mark.parametrize("S", [2, 3])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_where_help_changes_nothing_values_are_a_sum_over_steps(S, gamma):
    """lambda = 0, so pi_t depends on theta_t alone, and V = sum gamma^t (E r(s_{t+1}) + what the
    rule adds at lambda = 0).
    """
    rng = np.random.default_rng(1)
    passive = rng.dirichlet(np.ones(S), size=(3, 1, S))
    cohort = Cohort(
        np.repeat(passive, 2, axis=1),
        reward=rng.normal(size=(3, S)),
        start=rng.dirichlet(np.ones(S), 3),
    )
    theta, c = np.array([-1.5, 0.3, 2.0, 0.0]), 4.0
    reward, law = 0.0, cohort.start
    for t in range(4):
        law = np.einsum("is,ist->it", law, passive[:, 0])
        reward += gamma**t * np.sum(law * cohort.reward)
    softplus = sum(gamma**t * np.log1p(np.exp(-theta[t])) for t in range(4))
    coin, clock = 1 / (1 + np.exp(theta)), 1 - np.exp(-np.exp(-theta))
    sell = sum(
        gamma**t * max(-theta[t], 0.0) for t in range(4)
    )  # a negative price pays an arm for being active
    expected = {  # rule: (pi_t, value)
        PRICED: (coin, reward + 3 * softplus / c),
        JOINT: (coin, reward),
        SUCCESSIVE: (clock, reward),
        HARD: ((theta < 0).astype(float), reward + 3 * sell),
    }
    for rule, (pi, value) in expected.items():
        for kernel, rows_kernel in kernels_for(S):
            out = swept(cohort, theta, 1.0 if rule == HARD else c, gamma, rule, kernel)
            np.testing.assert_allclose(out[0], [*(3 * pi), value], **EXACT)
            np.testing.assert_allclose(out[1], [*(3 * pi * (1 - pi)), 0], **EXACT)
            np.testing.assert_allclose(
                scored(cohort, theta, c, gamma, rule, rows_kernel), 0, atol=1e-15
            )


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("S", [2, 3])
def test_far_away_prices_mean_nobody_or_everybody(name, S):
    """theta = +-1000 is beyond the range of exp.

    The value is that of the passive, of the active chain (V gives the price back).
    """
    cohort, T, gamma, rule = any_cohort(5, S, 2), 6, 0.9, RULES[name]
    for action, theta in ((0, 1000.0), (1, -1000.0)):
        law, reward = cohort.start, 0.0
        for t in range(T):
            law = np.einsum("is,ist->it", law, cohort.P[:, action])
            reward += gamma**t * np.sum(law * cohort.reward)
        paid = (
            -theta * cohort.n * sum(gamma**t for t in range(T))
            if action and rule in (PRICED, HARD)
            else 0.0
        )
        for kernel, _ in kernels_for(S):
            out = swept(cohort, np.full(T, theta), 1.0, gamma, rule, kernel)
            np.testing.assert_allclose(out[0, :T], action * cohort.n, atol=1e-12)
            np.testing.assert_allclose(out[1], 0, atol=1e-12)
            np.testing.assert_allclose(out[0, T], reward + paid, rtol=1e-12)


# ---- brute force ----


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("S", [2, 3, 5])
@pytest.mark.parametrize("name", RULES)
def test_sweep_and_scores_equal_plain_loops(name, S, gamma):
    rule = RULES[name]
    theta = np.random.default_rng(3).normal(size=7)
    for c in (1.0,) if rule == HARD else (0.3, 6.0):
        for reward_per_arm, start in (
            (False, "uniform"),
            (True, "states"),
            (True, "distributions"),
            (False, "distributions"),
        ):
            cohort = any_cohort(4, S, 4, reward_per_arm=reward_per_arm, start=start)
            gains, out = by_loops(cohort, theta, c, gamma, rule)
            for kernel, rows_kernel in kernels_for(S):
                np.testing.assert_allclose(
                    swept(cohort, theta, c, gamma, rule, kernel), out, **EXACT
                )
                np.testing.assert_allclose(
                    scored(cohort, theta, c, gamma, rule, rows_kernel), gains, **EXACT
                )


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("n", [1, 63, 64, 65, 130])
def test_blocks_of_lanes_and_what_is_left_over(n, start):
    """Two-state arms run 64 at a time: padding adds nothing, and any ranges of arms add up."""
    cohort = any_cohort(n, 2, 5, start=start)
    theta = np.random.default_rng(6).normal(size=9)
    for rule in RULES.values():
        c = 1.0 if rule == HARD else 3.0
        whole = swept(cohort, theta, c, 0.9, rule)
        np.testing.assert_allclose(
            swept(cohort, theta, c, 0.9, rule, sweep_two), whole, rtol=1e-12, atol=1e-11
        )
        cut = n // 3
        for kernel in (sweep, sweep_two):
            parts = [
                swept(cohort, theta, c, 0.9, rule, kernel, low, high)
                for low, high in ((0, cut), (cut, n))
                if low < high
            ]
            np.testing.assert_allclose(sum(parts), whole, rtol=1e-12, atol=1e-11)
        rows = scored(cohort, theta, c, 0.9, rule)
        np.testing.assert_allclose(
            scored(cohort, theta, c, 0.9, rule, score_rows_two), rows, **EXACT
        )


@pytest.mark.parametrize("S", [2, 3])
def test_a_window_of_rows_is_a_slice_of_all_rows(S):
    cohort = any_cohort(70, S, 7)
    theta = np.random.default_rng(8).normal(size=9)
    for _, rows_kernel in kernels_for(S):
        everything = scored(cohort, theta, 2.0, 0.9, PRICED, rows_kernel)
        for first in range(9):
            for count in range(1, 10 - first):
                window = scored(cohort, theta, 2.0, 0.9, PRICED, rows_kernel, first, count)
                np.testing.assert_array_equal(window, everything[first : first + count])


@pytest.mark.parametrize("S", [2, 3])
def test_arms_that_were_not_asked_for_are_left_alone(S):
    cohort = any_cohort(100, S, 9)
    theta = np.zeros(3)
    for _, rows_kernel in kernels_for(S):
        rows = np.full((3, 100, S), np.nan)
        rows_kernel(10, 75, cohort.P, cohort.reward_rows, theta, 1.0, 1.0, JOINT, 0, rows)
        np.testing.assert_array_equal(
            rows[:, 10:75], scored(cohort, theta, 1.0, 1.0, JOINT, rows_kernel)[:, 10:75]
        )
        assert np.isnan(rows[:, :10]).all()
        assert np.isnan(rows[:, 75:]).all()


@pytest.mark.parametrize("S", [2, 3])
def test_the_same_bits_on_any_number_of_threads(S, threads_restored):
    """Parts are cut by the number of arms alone.

    Three parts; sums in another order would show in the last bits.
    """
    cohort = any_cohort(2 * PART + 77, S, 10)
    theta = np.random.default_rng(11).normal(size=5)
    info = Info("priced", 3.0, 0.0, 1e-8, 1)
    sums, rows = [], []
    for threads in (1, 2, 3):
        set_threads(threads)
        sums.append(sweeps.sweep(cohort, theta, 3.0, 0.9, PRICED))
        rows.append(PriceValues(cohort, 0.9, theta, 3.0, PRICED, info).rows(1, 3))
    for other in (1, 2):
        np.testing.assert_array_equal(sums[0], sums[other])
        np.testing.assert_array_equal(rows[0], rows[other])
    np.testing.assert_allclose(sums[0], swept(cohort, theta, 3.0, 0.9, PRICED), rtol=1e-10)
    np.testing.assert_allclose(rows[0], scored(cohort, theta, 3.0, 0.9, PRICED)[1:4], **EXACT)


def test_theta_is_left_as_it_is():
    """The cohort's arrays are read-only: a kernel that wrote to them would not compile."""
    cohort, theta = any_cohort(70, 2, 12), np.linspace(-1, 1, 5)
    for kernel, rows_kernel in kernels_for(2):
        swept(cohort, theta, 2.0, 0.9, PRICED, kernel)
        scored(cohort, theta, 2.0, 0.9, PRICED, rows_kernel)
    np.testing.assert_array_equal(theta, np.linspace(-1, 1, 5))


# ---- the dual: D_c(m) = total value + k sum gamma^t m_t ----


def soft_dual(cohort, m, k, c, gamma, kernel=sweep):
    return swept(cohort, c * m, c, gamma, PRICED, kernel)[0, -1] + k * np.sum(
        gamma ** np.arange(len(m)) * m
    )


def hard_dual(cohort, m, k, gamma, kernel=sweep):
    return swept(cohort, m, 1.0, gamma, HARD, kernel)[0, -1] + k * np.sum(
        gamma ** np.arange(len(m)) * m
    )


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("c", [0.5, 5.0, 40.0])
@pytest.mark.parametrize("S", [2, 3])
def test_gradient_of_the_soft_dual(S, c, gamma):
    """dD/dm_t = gamma^t (k - expected active arms).

    Central differences err by h^2/6 times the third derivative, plus eps D / h. The former is of
    order n c^2 / 10 = 5e3 at c = 40, so h = 1e-5 leaves 1e-7 of it and 1e-16 * 1e2 / 1e-5 = 1e-9 of
    rounding (measured: 6e-9 in all).
    """
    cohort, k, T, h = any_cohort(30, S, 13), 7, 6, 1e-5
    m = np.random.default_rng(14).uniform(-0.2, 0.6, T)
    for kernel, _ in kernels_for(S):
        active = swept(cohort, c * m, c, gamma, PRICED, kernel)[0, :T]
        slope = [
            (
                soft_dual(cohort, m + h * e, k, c, gamma, kernel)
                - soft_dual(cohort, m - h * e, k, c, gamma, kernel)
            )
            / (2 * h)
            for e in np.eye(T)
        ]
        np.testing.assert_allclose(slope, gamma ** np.arange(T) * (k - active), atol=1e-7)


@pytest.mark.parametrize("S", [2, 3])
def test_gradient_of_the_hard_dual(S):
    """Piecewise linear: between kinks a difference is the derivative up to rounding."""
    cohort, k, T, gamma, h = any_cohort(30, S, 15), 7, 6, 0.9, 1e-7
    m = np.random.default_rng(16).uniform(0, 0.5, T)
    for kernel, _ in kernels_for(S):
        active = swept(cohort, m, 1.0, gamma, HARD, kernel)[0, :T]
        slope = [
            (
                hard_dual(cohort, m + h * e, k, gamma, kernel)
                - hard_dual(cohort, m - h * e, k, gamma, kernel)
            )
            / (2 * h)
            for e in np.eye(T)
        ]
        np.testing.assert_allclose(slope, gamma ** np.arange(T) * (k - active), atol=1e-6)


@pytest.mark.parametrize("S", [2, 3])
@pytest.mark.parametrize("name", ["priced", "joint"])
def test_response_is_minus_the_slope_of_the_count(name, S):
    """With one decision theta moves nothing else, so d active / d theta = -sum mu pi (1 - pi), the
    slope of a sigmoid.
    """
    rule, cohort, theta, h = RULES[name], any_cohort(30, S, 17), np.array([0.4]), 1e-5
    for kernel, _ in kernels_for(S):
        above, below = (
            swept(cohort, theta + step, 3.0, 0.9, rule, kernel)[0, 0] for step in (h, -h)
        )
        np.testing.assert_allclose(
            swept(cohort, theta, 3.0, 0.9, rule, kernel)[1, 0], (below - above) / (2 * h), rtol=1e-7
        )


prices = st.lists(st.floats(-1, 2), min_size=1, max_size=6).map(np.array)
multipliers = st.floats(0.05, 500)
discounts = st.sampled_from([0.0, 0.5, 0.9, 1.0])
states = st.sampled_from([2, 3])
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=150, deadline=None)
@given(m=prices, c=multipliers, gamma=discounts, S=states, seed=seeds)
def test_soft_dual_lies_between_the_hard_dual_and_log_two_a_choice_more(m, c, gamma, S, seed):
    """max(a, b) <= (1/c) log(e^ca + e^cb) <= max(a, b) + log 2 / c, at each of the T choices of
    each of the n arms.
    """
    cohort = any_cohort(5, S, seed)
    soft, hard = soft_dual(cohort, m, 2, c, gamma), hard_dual(cohort, m, 2, gamma)
    room = 5 * np.sum(gamma ** np.arange(len(m))) * np.log(2) / c
    rounding = 1e-12 * (1 + abs(hard))
    assert hard - rounding <= soft <= hard + room + rounding


@settings(max_examples=150, deadline=None)
@given(m=prices, c=multipliers, gamma=discounts, S=states, seed=seeds)
def test_both_duals_are_convex(m, c, gamma, S, seed):
    cohort = any_cohort(5, S, seed)
    other = m + np.random.default_rng(seed).normal(size=len(m))
    for dual in (
        lambda at: soft_dual(cohort, at, 2, c, gamma),
        lambda at: hard_dual(cohort, at, 2, gamma),
    ):
        ends = dual(m) / 2 + dual(other) / 2
        assert dual((m + other) / 2) <= ends + 1e-12 * (1 + abs(ends))


@settings(max_examples=100, deadline=None)
@given(
    theta=prices,
    c=multipliers,
    gamma=discounts,
    seed=seeds,
    rule=st.sampled_from([PRICED, JOINT, SUCCESSIVE]),
)
def test_two_state_kernels_equal_the_general_ones(theta, c, gamma, seed, rule):
    """`successive` forms 1 - exp(-exp(x)), whose rounding is absolute.

    A steep c multiplies that of the gains.
    """
    cohort = datasets.synthetic(n=7, seed=seed % 1000)
    np.testing.assert_allclose(
        swept(cohort, theta, c, gamma, rule, sweep_two),
        swept(cohort, theta, c, gamma, rule),
        rtol=1e-10,
        atol=1e-11,
    )
    np.testing.assert_allclose(
        scored(cohort, theta, c, gamma, rule, score_rows_two),
        scored(cohort, theta, c, gamma, rule),
        rtol=1e-10,
        atol=1e-11,
    )
