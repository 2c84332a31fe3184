"""Figures from counts and rewards: closed forms, brute force over all pairs, properties."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from softfair import metrics
from softfair.errors import InvalidInput

COUNTS = arrays(
    np.int64, array_shapes(min_dims=1, max_dims=2, max_side=12), elements=st.integers(0, 1000)
)


@pytest.fixture(autouse=True)
def _no_noise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a division by zero is answered, not grumbled about
        yield


# Closed form


@pytest.mark.parametrize(
    ("counts", "entropy"),
    [
        ([1, 1, 1, 1], math.log(4)),
        ([7] * 100, math.log(100)),
        ([0, 0, 5], 0),
        ([2, 2, 0, 0], math.log(2)),
        ([0.2, 0.2], math.log(2)),  # chances in place of counts, in all less than 1
        ([1, 3], math.log(4) - 0.75 * math.log(3)),
        ([0, 0, 0], 0),
        ([9], 0),
    ],
)
def test_action_entropy(counts, entropy):
    assert metrics.action_entropy(counts) == pytest.approx(entropy, abs=1e-14)
    assert not np.signbit(metrics.action_entropy(counts))


def test_entropy_divides_by_selections_not_by_k_n():
    # n = 100, k = 10, T = 80, everybody equally often: k T = 800 selections. The paper's k n = 1000
    # would give shares that sum to .8 and an "entropy" of -.8 log(.008) = 3.86, while its Table 2
    # says 4.56 for Random.
    counts = np.full(100, 8)
    assert metrics.action_entropy(counts) == pytest.approx(4.605170, abs=1e-6)
    assert -100 * 0.008 * math.log(0.008) == pytest.approx(3.8627, abs=1e-4)


@pytest.mark.parametrize(
    ("reward", "none", "oracle", "benefit"),
    [
        (50, 50, 100, 0),
        (100, 50, 100, 100),
        (75, 50, 100, 50),
        (40, 50, 100, -20),
        (110, 50, 100, 120),
        (3, 5, 1, 50),
    ],
)
def test_intervention_benefit(reward, none, oracle, benefit):
    assert metrics.intervention_benefit(reward, none, oracle) == pytest.approx(benefit, abs=1e-12)


def test_benefit_without_room_is_nan():
    assert np.isnan(metrics.intervention_benefit(5, 3, 3))
    assert np.isnan(metrics.intervention_benefit(3, 3, 3))
    np.testing.assert_array_equal(metrics.intervention_benefit([1, 2], 0, [0, 4]), [np.nan, 50])


def test_benefit_broadcasts():
    reward = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])  # [policies, runs]
    none, oracle = np.array([0.0, 1.0, 2.0]), np.array([10.0, 11.0, 12.0])  # [runs]
    np.testing.assert_allclose(
        metrics.intervention_benefit(reward, none, oracle), [[10, 10, 10], [40, 40, 40]]
    )
    np.testing.assert_allclose(metrics.intervention_benefit(reward, 0, 10), reward * 10)


@pytest.mark.parametrize(
    ("counts", "share"),
    [([0, 1, 2, 0], 0.5), ([0, 0], 1), ([3, 1], 0), ([[0, 1], [1, 1]], [0.5, 0])],
)
def test_never_selected(counts, share):
    np.testing.assert_array_equal(metrics.never_selected(counts), share)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([5, 5, 5], 0),
        ([0, 0, 0], 0),
        ([4], 0),
        ([0, 0, 0, 8], 3 / 4),  # one takes all: (n - 1) / n
        ([0, 0, 1, 1], 1 / 2),
        ([1, 2, 3], 2 / 9),  # sum |x_i - x_j| = 8 over ordered pairs, 2 n sum x = 36
        ([[1, 2, 3], [6, 6, 6]], [2 / 9, 0]),
    ],
)
def test_gini(counts, expected):
    np.testing.assert_allclose(metrics.gini(counts), expected, rtol=0, atol=1e-15)


def test_longest_wait():
    assert metrics.longest_wait([3, 9, 1]) == 9
    np.testing.assert_array_equal(metrics.longest_wait([[3, 9, 1], [0, 0, 2]]), [9, 2])


def test_a_run_is_a_row_of_many():
    counts = np.random.default_rng(0).integers(0, 9, (3, 4, 10))
    for figure in (
        metrics.action_entropy,
        metrics.never_selected,
        metrics.gini,
        metrics.longest_wait,
    ):
        many = figure(counts)
        assert many.shape == (3, 4)
        assert many[1, 2] == figure(counts[1, 2])
        assert isinstance(figure(counts[1, 2]), float)


def test_group_rates():
    # 5 arms, 10 rounds. Group "a" is arms 0, 3; run 0 has 20 selections, run 1 has 10.
    counts = [[6, 1, 0, 4, 9], [5, 0, 0, 0, 5]]
    table = metrics.group_rates(counts, groups=["a", "b", "b", "a", "b"], rounds=10)
    half = math.sqrt(1 / 2)  # the sample sd of two numbers is their difference times this
    expected = {
        "arms": [2, 3],
        "rate": [(0.5 + 0.25) / 2, (1 / 3 + 1 / 6) / 2],
        "rate_sd": [0.25 * half, 1 / 6 * half],
        "share": [0.5, 0.5],
        "share_sd": [0, 0],
        "never_selected": [0.25, 0.5],
        "never_selected_sd": [0.5 * half, 1 / 3 * half],
        "relative_rate": [0.5 / 0.4, (1 / 3) / 0.4],
        "relative_rate_sd": [0, 0],
    }
    assert list(table.index) == ["a", "b"]
    assert table.index.name == "group"
    assert list(table.columns) == list(expected)
    for name, column in expected.items():
        np.testing.assert_allclose(table[name], column, atol=1e-15, err_msg=name)


def test_group_rates_of_a_single_run():
    table = metrics.group_rates([2, 0, 4], groups=np.array([2, 1, 2]), rounds=2)
    assert list(table.index) == [1, 2]
    np.testing.assert_array_equal(table["rate"], [0, 1.5])
    np.testing.assert_array_equal(table["share"], [0, 1])
    assert table.filter(like="_sd").isna().all(axis=None)


def test_group_rates_when_nobody_is_selected():
    table = metrics.group_rates(np.zeros((4, 3)), groups=["x", "x", "y"], rounds=5)
    np.testing.assert_array_equal(table["rate"], [0, 0])
    np.testing.assert_array_equal(table["never_selected"], [1, 1])
    assert table[["share", "relative_rate"]].isna().all(axis=None)


def test_arms_without_a_label_are_a_group():
    table = metrics.group_rates([1, 2, 3], groups=["north", None, "north"], rounds=1)
    assert table["arms"].tolist() == [2, 1]
    assert table["rate"].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("inclusion", "gains", "pairs"),
    [
        ([0.1, 0.5, 0.9], [1, 2, 3], 0),
        ([0.9, 0.5, 0.1], [1, 2, 3], 3),
        ([0.9, 0.1, 0.5], [1, 2, 3], 2),
        ([0.5, 0.5, 0.5], [1, 2, 3], 0),  # equal chances are fair
        ([0.9, 0.5, 0.1], [2, 2, 2], 0),  # so is any order among equals
        ([0.9, 0.9, 0.1, 0.1], [1, 1, 2, 2], 4),
        ([1.0], [5], 0),
    ],
)
def test_unfair_pairs(inclusion, gains, pairs):
    assert metrics.unfair_pairs(inclusion, gains) == pairs
    n = len(gains)
    assert metrics.unfair_share(inclusion, gains) == (pairs / (n * (n - 1) / 2) if n > 1 else 0)


@pytest.mark.parametrize(("step", "pairs"), [(0.9e-12, 0), (1.1e-12, 1)])
def test_unfair_means_by_more_than_rounding(step, pairs):
    # The scale is the largest magnitude: 4 for gains, 1/2 for inclusion.
    assert metrics.unfair_pairs([0.5, 0.25], [4 - 4 * step, 4]) == pairs
    assert metrics.unfair_pairs([0.5, 0.5 - 0.5 * step], [2, 4]) == pairs
    assert metrics.unfair_pairs([0.5, 0.5 - 0.5 * step], [2, 4], tolerance=0) == 1


def test_the_share_has_the_tolerance_of_the_pairs():
    assert metrics.unfair_share([0.5, 0.5 - 1e-9], [2, 4]) == 1
    assert metrics.unfair_share([0.9, 0.1], [1, 2]) == 1
    assert metrics.unfair_share([0.9, 0.1], [1, 2], tolerance=0.6) == 0  # 2 - 1 < .6 * 2
    assert metrics.unfair_share([0.9, 0.1], [1, 2], tolerance=0.4) == 1


def test_unfair_pairs_of_many_runs():
    inclusion = [[0.1, 0.9], [0.9, 0.1]]
    np.testing.assert_array_equal(metrics.unfair_pairs(inclusion, [1, 2]), [0, 1])
    np.testing.assert_array_equal(
        metrics.unfair_pairs([0.9, 0.1], [[1, 2], [2, 1], [1, 1]]), [1, 0, 0]
    )
    np.testing.assert_array_equal(metrics.unfair_share(inclusion, [[1, 2], [1, 2]]), [0, 1])
    # Two runs of four arms: of their six pairs 2 and 0 are unfair.
    inclusion = [[0.9, 0.1, 0.5, 1.0], [0.1, 0.2, 0.3, 0.4]]
    np.testing.assert_allclose(metrics.unfair_share(inclusion, [1, 2, 3, 4]), [1 / 3, 0])


def test_metrics_need_no_pandas():
    code = "import sys, softfair.metrics as m; m.gini([1, 2]); print('pandas' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout == "False\n"


REFUSED = {
    "words": (
        lambda: metrics.gini("many"),
        "counts is not an array of numbers; give numbers in one rectangular shape",
    ),
    "a number": (
        lambda: metrics.gini(3),
        "counts has shape (), expected (..., n) with n >= 1: one number an arm",
    ),
    "no arms": (
        lambda: metrics.action_entropy(np.zeros((3, 0))),
        "counts has shape (3, 0), expected (..., n) with n >= 1: one number an arm",
    ),
    "negative": (
        lambda: metrics.action_entropy([[1, 2], [-3, -4]]),
        "counts[1, 0] is -3.0 (2 of 4 entries are wrong); give numbers of at least 0",
    ),
    "NaN": (
        lambda: metrics.never_selected([1, np.nan]),
        "counts[1] is nan (1 of 2 entries are wrong); give finite numbers",
    ),
    "waits": (
        lambda: metrics.longest_wait([1, -1]),
        "waits[1] is -1.0 (1 of 2 entries are wrong); give numbers of at least 0",
    ),
    "reward": (
        lambda: metrics.intervention_benefit("much", 0, 1),
        "reward is not an array of numbers; give numbers in one rectangular shape",
    ),
    "gains NaN": (
        lambda: metrics.unfair_pairs([0.5, 0.5], [np.nan, 1]),
        "gains[0] is nan (1 of 2 entries are wrong); give finite numbers",
    ),
    "other arms": (
        lambda: metrics.unfair_pairs([0.5, 0.5], [1, 2, 3]),
        "inclusion is about 2 arms, gains about 3; give the same arms",
    ),
    "fewer arms": (
        lambda: metrics.unfair_pairs([0.5, 0.5, 0.5], [1, 2]),
        "inclusion is about 3 arms, gains about 2; give the same arms",
    ),
    "other runs": (
        lambda: metrics.unfair_pairs(np.zeros((2, 3)), np.zeros((4, 3))),
        "inclusion has shape (2, 3), gains (4, 3); give as many runs of each",
    ),
    "tolerance": (
        lambda: metrics.unfair_pairs([0.5], [1], tolerance=-1),
        "tolerance is -1; give a number of at least 0",
    ),
    "no groups": (
        lambda: metrics.group_rates([1, 2], None, 3),
        "groups is None; give one label an arm, to the cohort or here",
    ),
    "groups length": (
        lambda: metrics.group_rates([1, 2], ["a"], 3),
        "groups has shape (1,), counts is about 2 arms; give one label an arm",
    ),
    "rounds": (
        lambda: metrics.group_rates([1, 2], ["a", "b"], 0),
        "rounds is 0; give the number of decisions, at least 1",
    ),
    "too deep": (
        lambda: metrics.group_rates(np.ones((2, 2, 2)), ["a", "b"], 1),
        "counts has shape (2, 2, 2), expected (n,) or (runs, n)",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(call, message):
    with pytest.raises(InvalidInput) as error:
        call()
    assert str(error.value) == message


# Brute force


@settings(deadline=None)
@given(counts=COUNTS)
def test_entropy_and_gini_by_their_definitions(counts):
    for row, entropy, gini in zip(
        np.atleast_2d(counts),
        np.atleast_1d(metrics.action_entropy(counts)),
        np.atleast_1d(metrics.gini(counts)),
        strict=True,
    ):
        total = int(row.sum())
        shares = [int(x) / total for x in row if x]
        assert entropy == pytest.approx(-math.fsum(p * math.log(p) for p in shares), abs=1e-12)
        differences = int(np.abs(row[:, None] - row).sum())
        assert gini == pytest.approx(
            differences / (2 * len(row) * total) if total else 0, abs=1e-12
        )


def unfair_by_brute_force(inclusion, gains, tolerance):
    """Every ordered pair, O(n^2)."""
    inclusion, gains = np.asarray(inclusion), np.asarray(gains)
    gains_less = gains[:, None] < gains - tolerance * np.abs(gains).max()
    favoured = inclusion[:, None] > inclusion + tolerance * np.abs(inclusion).max()
    return int((gains_less & favoured).sum())


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(data=st.data(), n=st.integers(1, 40), tolerance=st.sampled_from([0.0, 1e-12, 0.05, 0.5]))
def test_unfair_pairs_by_brute_force(data, n, tolerance):
    few = st.integers(-4, 4).map(lambda j: j / 3)  # few values: many ties
    any_number = st.floats(-10, 10)
    inclusion, gains = (
        data.draw(arrays(np.float64, n, elements=data.draw(st.sampled_from([few, any_number]))))
        for _ in range(2)
    )
    assert metrics.unfair_pairs(inclusion, gains, tolerance) == unfair_by_brute_force(
        inclusion, gains, tolerance
    )


@pytest.mark.parametrize(
    "n", [63, 64, 65, 1000, 1024]
)  # also around powers of two, where the number of bits changes
def test_unfair_pairs_of_larger_cohorts(n):
    rng = np.random.default_rng(n)
    for inclusion, gains in (
        (rng.random(n), rng.normal(size=n)),
        (rng.integers(0, 5, n) / 5, rng.integers(0, 7, n).astype(float)),
        (np.arange(n)[::-1] / n, np.arange(n) * 1.0),
    ):
        for tolerance in (1e-12, 0.1):
            found = metrics.unfair_pairs(inclusion, gains, tolerance)
            assert found == unfair_by_brute_force(inclusion, gains, tolerance)
    assert metrics.unfair_pairs(np.arange(n)[::-1], np.arange(n)) == n * (n - 1) // 2


def test_group_rates_by_brute_force():
    rng = np.random.default_rng(0)
    counts, groups = rng.integers(0, 4, (6, 30)), rng.choice(["x", "y", "z"], 30)
    table = metrics.group_rates(counts, groups, rounds=7)
    for name in "xyz":
        mine = counts[:, groups == name]  # [runs, arms of the group]
        rate = mine.sum(axis=1) / mine.shape[1] / 7
        share = mine.sum(axis=1) / counts.sum(axis=1)
        assert table.loc[name, "arms"] == mine.shape[1]
        assert table.loc[name, "rate"] == pytest.approx(rate.mean())
        assert table.loc[name, "rate_sd"] == pytest.approx(rate.std(ddof=1))
        assert table.loc[name, "share"] == pytest.approx(share.mean())
        assert table.loc[name, "never_selected"] == pytest.approx((mine == 0).mean())
        assert table.loc[name, "relative_rate"] == pytest.approx(
            (rate / (counts.mean(axis=1) / 7)).mean()
        )
    assert table["share"].sum() == pytest.approx(1)
    assert (table["arms"] * table["rate"]).sum() == pytest.approx(counts.sum(axis=1).mean() / 7)


# Property


@settings(deadline=None)
@given(counts=COUNTS, seed=st.integers(0, 2**32 - 1), factor=st.integers(1, 50))
def test_evenness_ignores_who_and_how_often(counts, seed, factor):
    n = counts.shape[-1]
    order = np.random.default_rng(seed).permutation(n)
    for figure in (metrics.action_entropy, metrics.gini):
        value = figure(counts)
        np.testing.assert_allclose(figure(counts[..., order]), value, rtol=0, atol=1e-12)
        np.testing.assert_allclose(figure(counts * factor), value, rtol=0, atol=1e-12)
    assert (metrics.action_entropy(counts) <= math.log(n) + 1e-12).all()
    assert (metrics.action_entropy(counts) >= 0).all()
    assert (metrics.gini(counts) >= 0).all()
    assert (metrics.gini(counts) < 1).all()


@settings(deadline=None)
@given(counts=arrays(np.int64, st.integers(2, 12), elements=st.integers(0, 100)))
def test_a_selection_moved_to_someone_worse_off_is_fairer(counts):
    rich, poor = int(np.argmax(counts)), int(np.argmin(counts))
    assume(counts[rich] - counts[poor] >= 2)
    moved = counts.copy()
    moved[rich] -= 1
    moved[poor] += 1
    assert metrics.gini(moved) < metrics.gini(counts)
    assert metrics.action_entropy(moved) > metrics.action_entropy(counts)


@settings(deadline=None)
@given(
    reward=st.floats(-100, 100),
    none=st.floats(-100, 100),
    room=st.floats(0.1, 100),
    scale=st.floats(0.1, 10),
    shift=st.floats(-100, 100),
)
def test_benefit_is_affine(reward, none, room, scale, shift):
    # It does not see the unit or the zero of rewards, and is linear in the policy's reward.
    benefit = metrics.intervention_benefit(reward, none, none + room)
    moved = [scale * x + shift for x in (reward, none, none + room)]
    # Rounding of 1e-13 in numbers below 2100 over a room of at least .01: 1e-9 after the factor
    # of 100.
    assert metrics.intervention_benefit(*moved) == pytest.approx(benefit, rel=1e-9, abs=1e-6)
    halfway = metrics.intervention_benefit((reward + none) / 2, none, none + room)
    assert halfway == pytest.approx(benefit / 2, rel=1e-9, abs=1e-6)


@settings(deadline=None)
@given(
    gains=arrays(np.float64, st.integers(1, 30), elements=st.floats(-5, 5)), power=st.floats(0, 20)
)
def test_a_chance_that_grows_with_the_gain_is_fair(gains, power):
    weight = np.exp(power * (gains - gains.max()))
    assert metrics.unfair_pairs(weight / weight.sum(), gains) == 0


# Statistics


def test_random_policy_has_nearly_the_largest_entropy():
    # Table 2 of the paper: n = 100, k = 10, T = 80, Random 4.56 +- .0056. Each count x is
    # binomial(T, q = k/n) with mean m = 8 and variance v = T q (1 - q) = 7.2, and the counts sum to
    # n m, so with d = (x - m)/m
    #   log n - H = mean of (1 + d) log(1 + d) = mean of d^2/2 - d^3/6 + d^4/12 - ...
    # The first term is v / (2 m^2) = .0563; the next two, with mu3 = .8 v and
    # mu4 = 3 v^2 + v (1 - 6 q (1 - q)), add .0014, and those left out are below .002. So
    # H = 4.6052 - .0577 = 4.5475, with standard deviation (v / 2 m^2) sqrt(2/n) = .0080 a run.
    rng = np.random.default_rng(0)
    n, k, T, runs = 100, 10, 80, 400
    counts = np.zeros((runs, n), dtype=int)
    for _ in range(T):
        chosen = np.argsort(rng.random((runs, n)), axis=1)[:, :k]
        counts[np.arange(runs)[:, None], chosen] += 1
    entropy = metrics.action_entropy(counts)
    assert abs(entropy.mean() - 4.5475) < 0.002 + 5 * 0.008 / math.sqrt(runs)
    assert entropy.std() == pytest.approx(0.008, rel=0.3)  # sd of an sd over 400 runs: 3.5 %
    assert abs(entropy.mean() - 4.56) < 0.02  # the paper's figure, from 50 runs
