"""Whittle indices: closed forms, value iteration, another package, properties, witnesses.

The brute force is written from the definition, and shares no code with the package.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softfair import indices
from softfair.cohort import Cohort
from softfair.errors import InvalidInput, NotIndexable
from softfair.indices import sigmoid, sigmoid_row, threshold, threshold_at, whittle
from softfair.kernels.threads import get_threads, set_threads


def any_arms(n, seed, rewards=True):
    """Two-state arms that action helps or harms: p uniform on (0, 1), rewards of either order."""
    rng = np.random.default_rng(seed)
    return Cohort.two_state(
        rng.random((n, 2, 2)), reward=rng.normal(size=(n, 2)) if rewards else None
    )


def many_state_arms(n, S, seed):
    rng = np.random.default_rng(seed)
    return Cohort(rng.dirichlet(np.ones(S), size=(n, 2, S)), reward=rng.random((n, S)))


def paper_arms(n, seed):
    """The paper's four constraints: action helps, the good state is better."""
    rng = np.random.default_rng(seed)
    low, *middle, high = np.sort(rng.random((n, 4)), axis=1).T
    middle = rng.permuted(np.stack(middle), axis=0)
    return Cohort.two_state(np.stack([[low, middle[0]], [middle[1], high]]).transpose(2, 0, 1))


def values(P, r, gamma, m, h):
    """Q_h [..., a, s] by plain backward recursion, for subsidies m [...]."""
    m = np.asarray(m, dtype=np.float64)
    V = np.zeros((*m.shape, len(r)))
    for _ in range(h):
        Q = np.einsum("ast,...t->...as", P, r + gamma * V)
        Q[..., 0, :] += m[..., None]
        V = Q.max(axis=-2)
    return Q


def bisected(passive_best, bound):
    """The infimum of the subsidies m [S] at which passive is best, entry by entry."""
    low, high = -bound, bound
    for _ in range(60):
        m = (low + high) / 2
        best = passive_best(m)
        low, high = np.where(best, low, m), np.where(best, m, high)
    return (low + high) / 2


def finite_by_definition(P, r, gamma, h):
    every = np.arange(len(r))

    def passive_best(m):  # m [S]: a subsidy of its own for each state asked
        Q = values(P, r, gamma, m, h)
        return Q[every, 0, every] >= Q[every, 1, every]

    return bisected(passive_best, np.full(len(r), np.ptp(r) * h))


def average_by_definition(P, r):
    """By all 2^S policies, each of gain g + m q: a state is passive if a best policy has it so."""
    S = len(r)
    actions = np.array(list(product([0, 1], repeat=S)))  # [2^S, S]
    gains, shares = [], []
    for policy in actions:
        chain = P[policy, np.arange(S)]
        law = np.linalg.lstsq(
            np.vstack([chain.T - np.eye(S), np.ones(S)]), np.eye(S + 1)[S], rcond=None
        )[0]
        gains.append(law @ chain @ r)
        shares.append(law @ (policy == 0))

    def passive_best(m):
        worth = (
            np.array(gains)[:, None] + np.array(shares)[:, None] * m
        )  # [2^S, S], column s at m[s]
        passive = np.where(actions == 0, worth, -np.inf).max(axis=0)
        return passive >= worth.max(axis=0) - 1e-13

    return bisected(passive_best, np.full(S, 1e3))


# Closed form


def test_paper_arm_for_ever():
    # p[0] = (.2, .6), p[1] = (.5, .8): Delta = (.3, .2), so s* = 0; l_0 = .4, l_1 = .3.
    arm = Cohort.two_state([[[0.2, 0.6], [0.5, 0.8]]])
    np.testing.assert_allclose(
        whittle(arm, gamma=0.9)[0], [0.3 / (1 - 0.9 * 0.4), 0.2 / (1 - 0.9 * 0.3)], rtol=1e-14
    )
    np.testing.assert_allclose(whittle(arm)[0], [0.3 / 0.6, 0.2 / 0.7], rtol=1e-14)


def test_finite_rows_are_geometric_sums_where_one_action_rules():
    # The same arm has s* = 0. At a subsidy of the index passive is best at every later step, so
    # W_h = Delta (1 + gamma l_0 + ... ).
    arm = Cohort.two_state([[[0.2, 0.6], [0.5, 0.8]]])
    h = np.arange(7)
    expected = 0.3 * (1 - (0.9 * 0.4) ** h) / (1 - 0.9 * 0.4)
    np.testing.assert_allclose(whittle(arm, gamma=0.9, horizon=6)[:, 0, 0], expected, rtol=1e-14)
    # Exchange the actions: every index changes sign.
    swapped = Cohort.two_state([[[0.5, 0.8], [0.2, 0.6]]])
    np.testing.assert_allclose(
        whittle(swapped, gamma=0.9, horizon=6),
        -whittle(arm, gamma=0.9, horizon=6),
        rtol=0,
        atol=1e-13,
    )


def test_geometric_sum_needs_a_gain():
    # s* = 0 with l_0 = .3 >= 0 but Delta = -.1. At m = W_2 the last step acts in 0 and rests in 1,
    # so x_1 = 1 + (.8 + m) - .4, and m = -.1 x_1 gives -.14 / 1.1. The geometric sum would give
    # -.1 (1 + .3) = -.13.
    arm = Cohort.two_state([[[0.5, 0.8], [0.4, 0.6]]])
    assert whittle(arm, horizon=2)[2, 0, 0] == pytest.approx(-0.14 / 1.1, abs=1e-13)
    assert finite_by_definition(arm.P[0], arm.reward[0], 1.0, 2)[0] == pytest.approx(
        -0.14 / 1.1, abs=1e-13
    )


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (
            [[0, 1], [0.4, 0.9]],
            [np.inf, -0.1 / 0.5],
        ),  # left alone it stays where it is: one call is worth any subsidy
        (
            [[0.4, 0.9], [0, 1]],
            [-np.inf, 0.1 / 0.5],
        ),  # helped it stays where it is: never in the bad state
        ([[0, 1], [0, 1]], [0, 0]),  # helping changes nothing
    ],
)
def test_an_action_that_keeps_the_arm_for_ever(p, expected):
    arm = Cohort.two_state([p])
    np.testing.assert_allclose(whittle(arm)[0], expected, rtol=1e-12)
    nearly = whittle(arm, gamma=1 - 1e-9)[0]
    np.testing.assert_array_equal(np.sign(nearly), np.sign(expected))
    assert np.all(np.isfinite(expected) | (np.abs(nearly) > 1e8))


def test_sigmoid_is_the_formula_of_its_constants():
    cohort, horizon = paper_arms(200, seed=1), 12
    gain, limit = cohort.immediate_gain, whittle(cohort, 0.95)
    fits = (gain > 0) & (gain < limit)
    with np.errstate(divide="ignore", invalid="ignore"):
        C1, C3, C2 = 2 * limit, -limit, -np.log(1 / (gain / (2 * limit) + 0.5) - 1)
    for h, row in enumerate(sigmoid(cohort, 0.95, horizon)):
        expected = (
            np.where(fits, C1 / (1 + np.exp(-C2 * h)) + C3, gain) if h else np.zeros_like(gain)
        )
        np.testing.assert_allclose(row, expected, rtol=1e-9)
        np.testing.assert_array_equal(row, sigmoid_row(gain, limit, h))
    assert fits.mean() > 0.9


def test_sigmoid_outside_its_domain_is_the_gain():
    gain = np.array([[-0.2, 0.3, 0.0, 0.3, 0.3, -0.2]])
    limit = np.array([[0.5, 0.2, 0.5, 0.3, np.inf, np.inf]])
    # With an infinite limit it is h gain, if the gain is positive.
    np.testing.assert_array_equal(sigmoid_row(gain, limit, 4), [[-0.2, 0.3, 0.0, 0.3, 1.2, -0.2]])


# Brute force


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gamma", "steps"), [(0.0, 1), (0.6, 60), (0.9, 270)]
)  # gamma^steps is below 1e-12
def test_for_ever_against_value_iteration(gamma, steps):
    for cohort in (any_arms(20, seed=2), many_state_arms(8, 3, seed=3)):
        for P, r, found in zip(cohort.P, cohort.reward, whittle(cohort, gamma), strict=True):
            np.testing.assert_allclose(
                found, finite_by_definition(P, r, gamma, steps), rtol=0, atol=1e-10
            )


def test_average_reward_against_all_policies():
    for cohort in (any_arms(60, seed=4), many_state_arms(20, 3, seed=5)):
        for P, r, found in zip(cohort.P, cohort.reward, whittle(cohort), strict=True):
            np.testing.assert_allclose(found, average_by_definition(P, r), rtol=1e-7, atol=1e-7)


def test_closed_form_against_parametric_search():
    cohort = any_arms(20_000, seed=6)
    for gamma in (0.3, 0.99, 1.0):
        np.testing.assert_allclose(
            whittle(cohort, gamma), indices._forever(cohort, gamma), rtol=1e-11, atol=1e-12
        )


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, 0.95, 1.0])
def test_finite_against_plain_recursion(gamma):
    horizon = 12
    for cohort in (any_arms(60, seed=7), paper_arms(40, seed=8), many_state_arms(12, 3, seed=9)):
        table = whittle(cohort, gamma, horizon)
        for i, (P, r) in enumerate(zip(cohort.P, cohort.reward, strict=True)):
            for h in (1, 2, 3, 7, 12):
                np.testing.assert_allclose(
                    table[h, i], finite_by_definition(P, r, gamma, h), rtol=0, atol=2e-12
                )


def test_finite_on_certain_arms_takes_the_lower_end_of_an_interval():
    # All 16 deterministic arms, in exact arithmetic. At gamma = 1 some are indifferent over an
    # interval of subsidies.
    p = np.array(list(product([0.0, 1.0], repeat=4))).reshape(-1, 2, 2)
    for reward in ([0.0, 1.0], [1.0, 0.0]):
        cohort = Cohort.two_state(p, reward=reward)
        table = whittle(cohort, 1.0, 8)
        for i in range(cohort.n):
            for h in (2, 3, 8):
                expected = finite_by_definition(cohort.P[i], cohort.reward[i], 1.0, h)
                np.testing.assert_allclose(table[h, i], expected, rtol=0, atol=1e-12)


def test_two_state_advantage_crosses_zero_once():
    # The theorem that heads softfair.indices, on arms near the corners where it is tight: scan m
    # for a second crossing.
    rng = np.random.default_rng(10)
    p = rng.beta(0.2, 0.2, size=(300, 2, 2))
    m = np.sinh(np.linspace(-6, 6, 801)) / np.sinh(6) * 12  # dense near 0
    for P in Cohort.two_state(p).P:
        for h in (3, 6, 11):
            Q = values(P, np.array([0.0, 1.0]), 1.0, m, h)
            gain = Q[:, 1] - Q[:, 0]  # [m, s]
            seen_passive = np.minimum.accumulate(gain, axis=0) < -1e-10
            assert not np.any(seen_passive & (gain > 1e-10))


def test_many_state_kernel_agrees_on_two_states():
    cohort = any_arms(100, seed=11)
    table = np.zeros((21, 100, 2))
    indices._fill(cohort, 1.0, table)
    np.testing.assert_allclose(table, whittle(cohort, 1.0, 20), rtol=1e-12, atol=1e-12)


def belief_chain(p, length):
    """The belief chain of a partly observed arm, cut at length.

    States are (state seen, steps since), and their rewards are the beliefs.
    """
    belief = np.empty((2, length))
    belief[:, 0] = p[1]
    for u in range(1, length):
        belief[:, u] = belief[:, u - 1] * p[0, 1] + (1 - belief[:, u - 1]) * p[0, 0]
    P = np.zeros((2, 2 * length, 2 * length))
    for seen, u in product(range(2), range(length)):
        state = seen * length + u
        P[0, state, state + 1 if u < length - 1 else length - 1] = (
            1  # the end, where both beliefs meet, stays
        )
        P[1, state, [0, length]] = 1 - belief[seen, u], belief[seen, u]
    return P, belief


def test_threshold_against_value_iteration_on_the_belief_chain():
    # At a subsidy just below its index a belief is worth a pull, just above it is not: average
    # reward, by relative value iteration.
    cohort, length, asked, step = paper_arms(60, seed=12), 40, 4, 2e-3
    table = threshold(cohort, 12)
    p = cohort.p
    fading = np.abs(p[:, 0, 1] - p[:, 0, 0]) < 0.7  # 0.7^40 is 6e-7: the cut chain is the chain
    arms = np.flatnonzero(table.forward & fading)[:6]
    assert len(arms) == 6
    for i in arms:
        P, belief = belief_chain(p[i], length)
        np.testing.assert_allclose(table.belief[:, :, i], belief[:, :12], atol=1e-14)
        index = table.index[:, :asked, i]  # [2, asked]
        m = np.stack([index - step, index + step]).reshape(-1, 1)  # [2 * 2 * asked, 1]
        V = np.zeros((len(m), 2 * length))
        for _ in range(3000):
            acts, rests = (belief.ravel() + V) @ P[1].T, (belief.ravel() + V) @ P[0].T + m
            new = 0.5 * (
                np.maximum(acts, rests) + V
            )  # a lazy chain has the same best policy and no period
            V = new - new[:, :1]
        gain = (acts - rests).reshape(2, 2, asked, 2, length)
        own = np.einsum("kwuwu->kwu", gain[..., :asked])  # each belief at its own subsidy
        assert np.all(own[0] > 0)
        assert np.all(own[1] < 0)


@pytest.mark.parametrize(
    ("p", "steps"),
    [
        ([[0.3, 0.5], [0.85, 0.9]], 7),
        # A pull that saw the good state seldom sees the bad one. The wait after the good state
        # exceeds the horizon first.
        ([[0.001, 0.9], [0.5, 0.9945]], 4),
        # A pull that saw the good state hardly ever sees the bad one: one time in ten thousand.
        ([[0.3, 0.5], [0.85, 0.9999]], 7),
    ],
)
def test_threshold_table_is_the_renewal_formula(p, steps):
    # The path of one arm, from J_m alone: at each subsidy the two policies earn the same.
    p = np.array(p)
    arm = Cohort.two_state([p], reward=[1.0, 3.0])
    table = threshold(arm, 4)
    assert table.forward[0]
    belief = belief_chain(p, 6)[1]

    def J(wait, m):
        seen = np.array([1 - belief[1, wait[1] - 1], belief[0, wait[0] - 1]])
        reward = [sum(1 + 2 * belief[w, :X]) + m * (X - 1) for w, X in enumerate(wait)]
        return seen @ reward / (seen @ wait)

    wait = [1, 1]
    for _ in range(steps):
        seen = min(
            (w for w in (0, 1) if wait[w] <= 4), key=lambda w: table.index[w, wait[w] - 1, 0]
        )
        m = table.index[seen, wait[seen] - 1, 0]
        longer = [X + (w == seen) for w, X in enumerate(wait)]
        assert J(longer, m) == pytest.approx(J(wait, m), abs=1e-12)
        wait = longer


# Another package


@pytest.fixture(scope="module")
def independent():
    kept = np.geterr()
    package = pytest.importorskip("markovianbandit")
    np.seterr(**kept)  # it sets NumPy to raise, for everyone

    def index(P, r, gamma):
        arm = package.restless_bandit_from_P0P1_R0R1(P[0], P[1], P[0] @ r, P[1] @ r)
        return arm.whittle_indices(discount=gamma), bool(arm.indexable)

    return index


@pytest.mark.parametrize("gamma", [0.9, 1.0])
@pytest.mark.parametrize("S", [2, 3, 5])
def test_for_ever_against_markovianbandit(independent, S, gamma):
    cohort = many_state_arms(60, S, seed=20 + S)
    for P, r, found in zip(cohort.P, cohort.reward, whittle(cohort, gamma), strict=True):
        expected, indexable = independent(P, r, gamma)
        assert indexable
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


# Properties

chances = st.floats(0.01, 0.99)
two_state = st.lists(st.tuples(chances, chances, chances, chances), min_size=1, max_size=6).map(
    lambda arms: np.array(arms).reshape(-1, 2, 2)
)
discounts = st.floats(0.0, 1.0)
few = settings(max_examples=60, deadline=None)


@few
@given(two_state, discounts, st.floats(0.01, 50), st.floats(-5, 5))
def test_scaled_rewards_scale_indices_and_shifts_do_not_matter(p, gamma, scale, shift):
    plain, scaled = Cohort.two_state(p), Cohort.two_state(p, reward=[shift, shift + scale])
    for horizon in (None, 6):
        np.testing.assert_allclose(
            whittle(scaled, gamma, horizon),
            scale * whittle(plain, gamma, horizon),
            rtol=1e-9,
            atol=1e-9 * scale,
        )


@few
@given(two_state, discounts)
def test_swapped_names_of_the_states_swap_the_indices(p, gamma):
    renamed = Cohort.two_state(1 - p[:, :, ::-1], reward=[1.0, 0.0])
    for horizon in (None, 6):
        np.testing.assert_allclose(
            whittle(renamed, gamma, horizon)[..., ::-1],
            whittle(Cohort.two_state(p), gamma, horizon),
            rtol=1e-9,
            atol=1e-9,
        )


@few
@given(two_state, discounts, st.integers(1, 8))
def test_first_rows_are_nothing_and_the_immediate_gain(p, gamma, horizon):
    cohort = Cohort.two_state(p)
    table = whittle(cohort, gamma, horizon)
    assert table.shape == (horizon + 1, cohort.n, 2)
    assert np.all(table[0] == 0)
    np.testing.assert_allclose(table[1], cohort.immediate_gain, rtol=0, atol=1e-15)


@few
@given(two_state, st.floats(0.0, 0.8))
def test_long_horizons_tend_to_for_ever(p, gamma):
    cohort = Cohort.two_state(p)
    # Stopping after h steps moves x by at most gamma^h / (1 - gamma), and dz/dw >= 1 - gamma bounds
    # how far that moves the root.
    np.testing.assert_allclose(
        whittle(cohort, gamma, 120)[-1], whittle(cohort, gamma), rtol=0, atol=1e-9
    )


@few
@given(two_state, discounts, st.randoms(use_true_random=False))
def test_permuted_arms_permute_indices_to_the_last_bit(p, gamma, random):
    order = list(range(len(p)))
    random.shuffle(order)
    cohort, permuted = Cohort.two_state(p), Cohort.two_state(p[order])
    np.testing.assert_array_equal(whittle(permuted, gamma, 5), whittle(cohort, gamma, 5)[:, order])
    np.testing.assert_array_equal(whittle(permuted, gamma), whittle(cohort, gamma)[order])
    np.testing.assert_array_equal(
        threshold(permuted, 5).index, threshold(cohort, 5).index[:, :, order]
    )


def test_many_state_long_horizon_tends_to_for_ever():
    cohort = many_state_arms(70, 3, seed=13)
    np.testing.assert_allclose(
        whittle(cohort, 0.7, 80)[-1], whittle(cohort, 0.7), rtol=0, atol=1e-9
    )


def test_same_answer_on_one_thread_and_two():
    before = get_threads()
    two, three, partly = (
        any_arms(5000, seed=14),
        many_state_arms(150, 3, seed=15),
        paper_arms(5000, seed=16),
    )

    def everything():
        table = threshold(partly, 7)
        at = threshold_at(np.linspace(0, 1, 5000), table)
        return [
            whittle(two, 1.0, 9),
            whittle(three, 0.9, 5),
            whittle(three),
            table.index,
            table.belief,
            table.forward,
            at,
        ]

    try:
        set_threads(1)
        alone = everything()
        set_threads(2)
        for first, second in zip(alone, everything(), strict=True):
            np.testing.assert_array_equal(first, second)
    finally:
        set_threads(before)


def test_index_of_any_belief_is_interpolated_and_clamped():
    cohort = paper_arms(50, seed=17)
    table = threshold(cohort, 5)
    np.testing.assert_array_equal(threshold_at(table.belief[1, 2], table), table.index[1, 2])
    rng = np.random.default_rng(18)
    for beliefs in (rng.random(50), np.zeros(50), np.ones(50)):
        found = threshold_at(beliefs, table)
        for i in range(50):
            order = np.argsort(table.belief[:, :, i].ravel())
            known, index = table.belief[:, :, i].ravel()[order], table.index[:, :, i].ravel()[order]
            assert found[i] == pytest.approx(np.interp(beliefs[i], known, index), abs=1e-9)


# Witnesses


def test_theorem_1_fails_for_the_smaller_gain():
    # MATH section 7: with three decisions left the index is below that with two.
    arm = Cohort.two_state([[[0.05, 0.35], [0.99, 0.995]]])
    table = whittle(arm, gamma=0.9, horizon=3)[:, 0, 1]
    assert table[3] < 0.65 < table[2]
    Q2, Q3 = (values(arm.P[0], arm.reward[0], 0.9, 0.65, h) for h in (2, 3))
    assert Q2[1, 1] > Q2[0, 1]
    assert Q3[1, 1] < Q3[0, 1]


# Found among 200 000 three-state arms: the one whose passive state turns active by the widest
# margin. To find it again:
#   P = np.random.default_rng(0).dirichlet(np.full(3, 0.3), size=(200_000, 2, 3)).round(2)
#   P[..., 2] = 1 - P[..., 0] - P[..., 1]
# At gamma = 0.9 indices._raise_subsidy(...) marks 258 of them in `fault`.
NOT_INDEXABLE = np.array(
    [
        [[0.99, 0.01, 0.00], [0.74, 0.26, 0.00], [0.00, 0.92, 0.08]],
        [[0.97, 0.01, 0.02], [0.00, 1.00, 0.00], [0.18, 0.02, 0.80]],
    ]
)


def test_an_arm_without_an_index_is_refused(independent):
    Q = values(NOT_INDEXABLE, np.array([0, 0.5, 1]), 0.9, [0.0, 0.5], 400)
    gain = Q[:, 1, 2] - Q[:, 0, 2]  # acting in state 2
    assert gain[0] < -0.3  # passive at subsidy 0,
    assert gain[1] > 0.3  # active at subsidy .5
    assert not independent(NOT_INDEXABLE, np.array([0, 0.5, 1]), 0.9)[1]

    fine = many_state_arms(3, 3, seed=19).P
    cohort = Cohort(np.concatenate([fine, NOT_INDEXABLE[None], fine]))
    for horizon in (None, 12):
        with pytest.raises(
            NotIndexable, match=r"1 of 7 arms \(3\) has no Whittle index .*cohort\.subset"
        ):
            whittle(cohort, 0.9, horizon)
    assert whittle(cohort.subset([0, 1, 2, 4, 5, 6]), 0.9).shape == (6, 3)


def test_an_arm_that_breaks_the_rule_narrowly_is_refused():
    # State 2 is passive by .36 at m = -2.045 and active again, by less than .001, at m = -.225.
    P = np.array(
        [
            [[0.09, 0.05, 0.86], [0.01, 0.05, 0.94], [0.11, 0.85, 0.04]],
            [[0.98, 0.01, 0.01], [0.00, 0.97, 0.03], [0.61, 0.11, 0.28]],
        ]
    )
    Q = values(P, np.array([0, 0.5, 1]), 0.9, [-2.045, -0.225], 300)
    gain = Q[:, 1, 2] - Q[:, 0, 2]
    assert gain[0] < -0.3
    assert 5e-4 < gain[1] < 1e-3
    with pytest.raises(NotIndexable, match=r"1 of 1 arms \(0\) has no Whittle index"):
        whittle(Cohort(P[None]), 0.9)


def test_several_recurrent_classes_need_a_discount():
    P = np.broadcast_to(np.eye(3), (1, 2, 3, 3))
    with pytest.raises(
        InvalidInput, match=r"1 of 1 arms \(0\) has more than one recurrent class.*gamma < 1"
    ):
        whittle(Cohort(P))
    np.testing.assert_array_equal(
        whittle(Cohort(P), 0.99), np.zeros((1, 3))
    )  # acting changes nothing


def test_rare_transitions_connect_states():
    # Each state is left with probability .001 only, yet there is one recurrent class.
    stay = 0.998 * np.eye(3) + 0.001 * (1 - np.eye(3))
    act = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]])
    P = np.stack([stay, 0.5 * stay + 0.5 * act])
    found = whittle(Cohort(P[None]))[0]
    np.testing.assert_allclose(
        found, average_by_definition(P, np.array([0, 0.5, 1])), rtol=1e-6, atol=1e-6
    )


def test_a_chain_of_four_states_is_connected():
    # State 0, where the arm ends, is reached from state 3 in no fewer than three steps. With a
    # subsidy m the gain is m, and while lower states are passive v(s) = r(s - 1) + v(s - 1) with
    # v(1) = 0. Acting in s gains (r(s) + v(s) - r(s - 1) - v(s - 1)) / 2 = r(s) / 2.
    down = np.eye(4, k=-1)
    down[0, 0] = 1
    slow = 0.5 * down + 0.5 * np.eye(4)
    np.testing.assert_allclose(
        whittle(Cohort(np.stack([down, slow])[None]))[0], [0, 1 / 6, 1 / 3, 1 / 2], atol=1e-12
    )


def test_scaled_rewards_scale_threshold_indices():
    cohort = paper_arms(200, seed=21)
    plain = threshold(cohort, 6)
    for scale in (1e-6, 1e10):
        scaled = threshold(Cohort(cohort.P, reward=[0.0, scale]), 6)
        np.testing.assert_allclose(scaled.index, scale * plain.index, rtol=1e-9)
        np.testing.assert_array_equal(scaled.forward, plain.forward)


def test_forward_marks_the_arms_the_assumption_fits():
    # The first arm gets worse while it waits. The second recovers by itself after it was seen bad,
    # so that a longer wait makes a pull less useful.
    cohort = Cohort.two_state([[[0.3, 0.5], [0.85, 0.9]], [[0.0165, 0.2698], [0.041, 0.637]]])
    table = threshold(cohort, 10)
    assert table.forward.tolist() == [True, False]
    assert np.all(np.diff(table.index[:, :, 0], axis=1) > -1e-9)
    assert np.all(np.isfinite(table.index))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: whittle(c, gamma=1.5), "gamma is 1.5; give a discount between 0 and 1"),
        (lambda c: whittle(c, gamma=float("nan")), "gamma is nan"),
        (lambda c: whittle(c, horizon=0), "horizon is 0; give a whole number of at least 1"),
        (lambda c: whittle(c, horizon=2.5), "horizon is 2.5; give a whole number"),
        (lambda c: threshold(c, -1), "horizon is -1"),
        (
            lambda c: threshold(many_state_arms(2, 3, 0), 3),
            "threshold needs arms with two states, the cohort has 3",
        ),
        (lambda c: threshold_at([0.5], threshold(c, 3)), "beliefs has shape"),
        (
            lambda c: threshold_at([0.5, np.nan], threshold(c, 3)),
            r"beliefs\[1\] is nan \(1 of 2 entries are wrong\)",
        ),
    ],
)
def test_wrong_input_is_refused_in_one_line(call, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        call(any_arms(2, seed=0))
    assert "\n" not in str(caught.value)
