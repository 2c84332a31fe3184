"""The paper's two data sets: inequalities, published figures, laws, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, ks_2samp, kstest, uniform

from softfair.datasets import CPAP_MARGIN, CPAP_MATRICES, CPAP_MIX, cpap, synthetic
from softfair.errors import InvalidInput

SEEDS = st.integers(0, 2**32 - 1)
FORMER = {  # the reading that was the default before
    "mix": {"adherent": 0.5, "non-adherent": 0.5},
    "effect_kind": "relative",
    "effect_by": "patient",
    "noise": 0.02,
    "noise_on": "passive",
}


def obeys(p):
    """Which arms [n] of p [n, 2, 2] meet the paper's inequalities and lie inside (0, 1)."""
    p00, p01, p10, p11 = p[:, 0, 0], p[:, 0, 1], p[:, 1, 0], p[:, 1, 1]
    return (p00 < p01) & (p10 < p11) & (p00 < p10) & (p01 < p11) & (p00 > 0) & (p11 < 1)


# Closed form


def test_published_matrices():
    # Kang et al. 2013: chance to adhere tomorrow from (not adhering, adhering) tonight.
    assert {name: (rows[0][1], rows[1][1]) for name, rows in CPAP_MATRICES.items()} == {
        "adherent": (0.98, 0.95),
        "non-adherent": (0.234, 0.666),
        "all": (0.269, 0.828),
        "male": (0.351, 0.853),
        "female": (0.214, 0.791),
    }
    for rows in CPAP_MATRICES.values():
        np.testing.assert_allclose(np.sum(rows, axis=1), 1, atol=1e-15)
    for constant in (CPAP_MATRICES, CPAP_MIX):
        with pytest.raises(TypeError):
            constant["adherent"] = 0


@pytest.mark.parametrize("name", CPAP_MATRICES)
def test_cpap_without_noise_is_the_published_chain(name):
    cohort = cpap(n=5, mix={name: 1.0}, noise=0.0, effect=(0.0, 0.0))
    for action in (0, 1):
        np.testing.assert_allclose(
            cohort.P[:, action], np.broadcast_to(CPAP_MATRICES[name], (5, 2, 2)), atol=1e-15
        )


@pytest.mark.parametrize(
    ("kind", "active"),
    [
        ("relative", [0.234 * 1.25, 0.666 * 1.25]),
        ("added", [0.234 + 0.25, 0.666 + 0.25]),
        ("share", [1 - 0.75 * 0.766, 1 - 0.75 * 0.334]),
    ],
)
@pytest.mark.parametrize("by", ["group", "patient", "state"])
@pytest.mark.parametrize("noise_on", ["both", "passive"])
def test_cpap_effect(kind, active, by, noise_on):
    reading = {"effect_kind": kind, "effect_by": by, "noise_on": noise_on}
    cohort = cpap(n=3, mix={"non-adherent": 1.0}, noise=0.0, effect=(0.25, 0.25), **reading)
    np.testing.assert_allclose(cohort.p[:, 0], [[0.234, 0.666]] * 3)
    np.testing.assert_allclose(cohort.p[:, 1], [active] * 3)


def test_cpap_former_default_is_still_there():
    # Made by the code before the reading changed: cpap(n=3, seed=0).
    expected = [
        [[0.215639, 0.646661], [0.279173, 0.837188]],
        [[0.992531, 0.966510], [0.999000, 0.999000]],
        [[0.984265, 0.959180], [0.999000, 0.999000]],
    ]
    np.testing.assert_allclose(cpap(n=3, seed=0, **FORMER).p, expected, atol=1e-6)


def test_cpap_default_is_one_added_effect_a_group_and_noise_on_both_matrices():
    cohort = cpap(n=400, seed=2)
    assert np.count_nonzero(cohort.groups == "adherent") == 68  # 17 %
    frail = cohort.p[cohort.groups == "non-adherent"]  # [332, 2, 2]
    base = np.array([0.234, 0.666])
    assert (np.abs(frail[:, 0] - base) <= 0.01 + 1e-12).all()
    # In state 0 no effect reaches the clip: .234 + .5 + .01 < .999.
    lift = frail[:, 1, 0] - 0.234  # one effect for all, plus noise of at most .01
    assert kstest(lift - lift.mean(), uniform(-0.01, 0.02).cdf).pvalue > 1e-6
    assert np.ptp(lift) <= 0.02 + 1e-12
    assert 0.05 - 0.01 <= lift.min() <= lift.max() <= 0.5 + 0.01
    # The noise of the active matrix is its own: sd of the correlation of independent numbers.
    correlation = np.corrcoef(frail[:, 0, 0], frail[:, 1, 0])[0, 1]
    assert abs(correlation) < 5 / math.sqrt(len(frail))


def test_cpap_effect_by_state_is_drawn_twice_a_patient():
    cohort = cpap(
        n=DRAWS, seed=5, mix={"female": 1.0}, effect_by="state", noise_on="passive", effect=(0, 0.2)
    )
    lift = cohort.p[:, 1] - cohort.p[:, 0]  # [n, 2]; .791 + .01 + .2 may reach the clip, .214 never
    assert kstest(lift[:, 0], uniform(0, 0.2).cdf).pvalue > 1e-6
    assert abs(np.corrcoef(lift.T)[0, 1]) < 5 / math.sqrt(DRAWS)


@pytest.mark.parametrize(
    ("kind", "effect"), [("relative", (3.0, 4.0)), ("added", (0.9, 0.95)), ("share", (0.9999, 1.0))]
)
def test_cpap_clips_at_the_margin(kind, effect):
    certain = {"never": [[1, 0], [1, 0]], "always": [[0, 1], [0, 1]]}
    cohort = cpap(
        n=40,
        mix={"never": 0.5, "always": 0.5},
        matrices=certain,
        effect=effect,
        effect_kind=kind,
    )
    assert cohort.p.min() == CPAP_MARGIN
    assert cohort.p.max() == 1 - CPAP_MARGIN
    assert (cohort.P > 0).all()


@pytest.mark.parametrize(
    ("n", "mix", "counts"),
    [
        (100, {"adherent": 0.5, "non-adherent": 0.5}, {"adherent": 50, "non-adherent": 50}),
        (
            100,
            {"male": 0.29, "female": 0.71},
            {"male": 29, "female": 71},
        ),  # .29 * 100 is below 29 in floating point
        (
            10,
            {"all": 0.26, "male": 0.37, "female": 0.37},
            {"all": 2, "male": 4, "female": 4},
        ),  # largest remainders
        (
            1,
            {"adherent": 0.5, "non-adherent": 0.5},
            {"adherent": 1},
        ),  # a tie goes to the one named first
        (7, {"adherent": 0.0, "non-adherent": 1.0}, {"non-adherent": 7}),
        (3, {"male": 1 / 3, "female": 1 / 3, "all": 1 / 3}, {"male": 1, "female": 1, "all": 1}),
    ],
)
def test_cpap_mix(n, mix, counts):
    names, found = np.unique(cpap(n=n, mix=mix).groups, return_counts=True)
    assert dict(zip(names.tolist(), found.tolist(), strict=True)) == counts


def test_cpap_groups_tell_the_cluster():
    cohort = cpap(n=200, seed=3)
    for name in ("adherent", "non-adherent"):
        expected = np.array(CPAP_MATRICES[name])[:, 1]
        assert (np.abs(cohort.p[cohort.groups == name, 0] - expected) <= 0.01 + 1e-12).all()
    assert cohort.groups.tolist() != sorted(
        cohort.groups.tolist()
    )  # shuffled: an arm's number tells nothing


def test_cpap_takes_other_matrices():
    cohort = cpap(
        n=4, mix={"mine": 1.0}, matrices={"mine": np.array([[0.5, 0.5], [0.25, 0.75]])}, noise=0
    )
    np.testing.assert_array_equal(cohort.p[:, 0], [[0.5, 0.75]] * 4)
    assert set(cohort.groups) == {"mine"}


@pytest.mark.parametrize("make", [synthetic, cpap])
def test_the_seed_decides(make):
    again = make(n=50, seed=7)
    np.testing.assert_array_equal(make(n=50, seed=7).P, again.P)
    assert (make(n=50, seed=8).P != again.P).any()
    np.testing.assert_array_equal(make().P, make(n=100, seed=0).P)
    np.testing.assert_array_equal(
        again.start, np.full((50, 2), 0.5)
    )  # the state at decision 0 is random
    np.testing.assert_array_equal(again.reward, [[0, 1]] * 50)


def test_numpy_integers_are_integers():
    np.testing.assert_array_equal(
        synthetic(np.int32(5), seed=np.uint64(3)).P, synthetic(5, seed=3).P
    )


def test_synthetic_redraws_zeros_and_ties(monkeypatch):
    class Grid:
        """A generator whose numbers come from so coarse a grid that zeros and ties are common."""

        def __init__(self, seed):
            self.fine = np.random.default_rng(seed)

        def random(self, shape):
            return np.floor(self.fine.random(shape) * 8) / 8

    drawn = Grid(0).random((200, 4))
    assert (np.diff(np.sort(drawn), axis=1) == 0).any(axis=1).mean() > 0.3
    monkeypatch.setattr("softfair.datasets._generator", Grid)
    assert obeys(synthetic(n=200).p).all()


REFUSED = {
    "n zero": (lambda: synthetic(n=0), "n is 0; give a whole number of at least 1"),
    "n negative": (lambda: cpap(n=-5), "n is -5; give a whole number of at least 1"),
    "n fractional": (lambda: synthetic(n=2.5), "n is 2.5; give a whole number of at least 1"),
    "n a word": (lambda: cpap(n="ten"), "n is 'ten'; give a whole number of at least 1"),
    "seed negative": (lambda: synthetic(seed=-1), "seed is -1; give a whole number of at least 0"),
    "seed none": (lambda: cpap(seed=None), "seed is None; give a whole number of at least 0"),
    "mix empty": (
        lambda: cpap(mix={}),
        "mix is {}; give a mapping of cluster to share, such as "
        '{"adherent": 0.5, "non-adherent": 0.5}',
    ),
    "mix a list": (
        lambda: cpap(mix=["male"]),
        "mix is ['male']; give a mapping of cluster to share, such as "
        '{"adherent": 0.5, "non-adherent": 0.5}',
    ),
    "mix unknown": (
        lambda: cpap(mix={"male": 0.5, "adherrent": 0.5}),
        "mix names 'adherrent' (1 of 2 clusters are unknown); choose from 'adherent', "
        "'non-adherent', 'all', 'male', 'female'",
    ),
    "mix negative": (
        lambda: cpap(mix={"male": 1.5, "female": -0.5}),
        "mix['female'] is -0.5 (1 of 2 shares are wrong); give shares >= 0",
    ),
    "mix NaN": (
        lambda: cpap(mix={"male": math.nan, "female": math.nan}),
        "mix['male'] is nan (2 of 2 shares are wrong); give shares >= 0",
    ),
    "mix sum": (
        lambda: cpap(mix={"male": 0.5, "female": 0.4}),
        "the 2 shares of mix sum to 0.9, not 1; divide each by their sum",
    ),
    "effect reversed": (
        lambda: cpap(effect=(0.5, 0.05)),
        "effect is (0.5, 0.05); give (low, high) with 0 <= low <= high, such as (0.05, 0.5)",
    ),
    "effect negative": (
        lambda: cpap(effect=(-0.1, 0.5)),
        "effect is (-0.1, 0.5); give (low, high) with 0 <= low <= high, such as (0.05, 0.5)",
    ),
    "effect a number": (
        lambda: cpap(effect=0.5),
        "effect is 0.5; give (low, high) with 0 <= low <= high, such as (0.05, 0.5)",
    ),
    "effect infinite": (
        lambda: cpap(effect=(0.1, math.inf)),
        "effect is (0.1, inf); give (low, high) with 0 <= low <= high, such as (0.05, 0.5)",
    ),
    "effect kind": (
        lambda: cpap(effect_kind="times"),
        "effect_kind is 'times'; choose one of 'added', 'relative', 'share'",
    ),
    "effect by": (
        lambda: cpap(effect_by="day"),
        "effect_by is 'day'; choose one of 'group', 'patient', 'state'",
    ),
    "noise on": (
        lambda: cpap(noise_on="active"),
        "noise_on is 'active'; choose one of 'both', 'passive'",
    ),
    "added effect above the clip": (
        lambda: cpap(effect=(0.5, 1.2)),
        "effect is (0.5, 1.2) and effect_kind is 'added'; above 0.999 no chance stays valid, "
        "give a smaller effect or effect_kind='relative'",
    ),
    "share of more than all failures": (
        lambda: cpap(effect=(0.5, 1.2), effect_kind="share"),
        "effect is (0.5, 1.2) and effect_kind is 'share'; above 1 no chance stays valid, "
        "give a smaller effect or effect_kind='relative'",
    ),
    "noise negative": (
        lambda: cpap(noise=-0.1),
        "noise is -0.1; give the half-width of the noise on a chance, at least 0 and below 1",
    ),
    "noise NaN": (
        lambda: cpap(noise=math.nan),
        "noise is nan; give the half-width of the noise on a chance, at least 0 and below 1",
    ),
    "noise a word": (
        lambda: cpap(noise="small"),
        "noise is 'small'; give the half-width of the noise on a chance, at least 0 and below 1",
    ),
    "matrices a list": (
        lambda: cpap(matrices=[[0.5, 0.5], [0.5, 0.5]]),
        "matrices is a list; give a mapping of cluster to 2 x 2 matrix",
    ),
    "matrix of words": (
        lambda: cpap(mix={"x": 1.0}, matrices={"x": "good"}),
        "matrices['x'] is not an array of numbers; give a 2 x 2 matrix, rows the current state",
    ),
    "matrix shape": (
        lambda: cpap(mix={"x": 1.0}, matrices={"x": [0.5, 0.5]}),
        "matrices['x'] has shape (2,); give a 2 x 2 matrix, rows the current state",
    ),
    "matrix range": (
        lambda: cpap(mix={"x": 1.0}, matrices={"x": [[0.5, 0.5], [1.5, -0.5]]}),
        "matrices['x'][1, 0] is 1.5 (2 of 4 entries are wrong); give probabilities between 0 and 1",
    ),
    "matrix NaN": (
        lambda: cpap(mix={"x": 1.0}, matrices={"x": [[0.5, math.nan], [0.5, 0.5]]}),
        "matrices['x'][0, 1] is nan (1 of 4 entries are wrong); give probabilities between 0 and 1",
    ),
    "matrix sums": (
        lambda: cpap(mix={"x": 1.0}, matrices={"x": [[0.5, 0.5], [0.5, 0.25]]}),
        "the sum of matrices['x'][1] is 0.75 (1 of 2 entries are wrong); each row must sum to 1",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(make, message):
    with pytest.raises(InvalidInput) as error:
        make()
    assert str(error.value) == message


# Property


@settings(deadline=None)
@given(n=st.integers(1, 200), seed=SEEDS)
def test_synthetic_obeys_the_paper(n, seed):
    cohort = synthetic(n=n, seed=seed)
    assert (cohort.n, cohort.S) == (n, 2)
    assert obeys(cohort.p).all()


@settings(deadline=None)
@given(
    n=st.integers(1, 60),
    seed=SEEDS,
    kind=st.sampled_from(["relative", "added", "share"]),
    by=st.sampled_from(["group", "patient", "state"]),
    noise_on=st.sampled_from(["both", "passive"]),
    effect=st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)).map(sorted).map(tuple),
    noise=st.floats(0, 0.99),
    shares=st.lists(st.integers(0, 10), min_size=5, max_size=5).filter(any),
)
def test_cpap_stays_inside_and_hardly_harms(n, seed, kind, by, noise_on, effect, noise, shares):
    mix = {name: share / sum(shares) for name, share in zip(CPAP_MATRICES, shares, strict=True)}
    reading = {"effect_kind": kind, "effect_by": by, "noise": noise, "noise_on": noise_on}
    cohort = cpap(n=n, seed=seed, mix=mix, effect=effect, **reading)
    assert (cohort.p >= CPAP_MARGIN).all()
    assert (cohort.p <= 1 - CPAP_MARGIN).all()
    harm = 2 * noise + 1e-12 if noise_on == "both" else 0.0
    assert (cohort.p[:, 1] >= cohort.p[:, 0] - harm).all()
    for name, share in mix.items():
        assert abs(np.count_nonzero(cohort.groups == name) - share * n) < 1


# Statistics. Laws are tested at p = 1e-6 with fixed seeds.

DRAWS = 20_000


def test_synthetic_is_uniform_on_its_set():
    p = synthetic(n=DRAWS, seed=1).p
    # Smallest and largest of four uniforms are Beta(1, 4) and Beta(4, 1). Either middle number is
    # second or third of four with chance 1/2 each: density 6 x (1 - x)^2 + 6 x^2 (1 - x)
    # = 6 x (1 - x), Beta(2, 2).
    for values, law in (
        (p[:, 0, 0], beta(1, 4)),
        (p[:, 1, 1], beta(4, 1)),
        (p[:, 0, 1], beta(2, 2)),
        (p[:, 1, 0], beta(2, 2)),
    ):
        assert kstest(values, law.cdf).pvalue > 1e-6
    # Which of the two is larger is a fair coin: sd of the share 1 / (2 sqrt(n)).
    assert abs((p[:, 0, 1] > p[:, 1, 0]).mean() - 0.5) < 5 * 0.5 / math.sqrt(DRAWS)


def test_synthetic_against_rejection():
    # Brute force: uniform points of the cube that break no inequality; 2 in 24 orders stay.
    cube = np.random.default_rng(2).random((12 * DRAWS, 2, 2))
    kept = cube[obeys(cube)]
    assert len(kept) > DRAWS * 0.9
    made = synthetic(n=DRAWS, seed=3).p
    for weights in (
        [1, -1, -1, 1],
        [1, 1, -1, -1],
        [1, -1, 1, -1],
        [1, 2, 3, 4],
    ):  # joint law, through linear combinations
        assert ks_2samp(made.reshape(-1, 4) @ weights, kept.reshape(-1, 4) @ weights).pvalue > 1e-6


def test_cpap_noise_and_effect_have_the_stated_laws():
    cohort = cpap(n=DRAWS, seed=4, **(FORMER | {"mix": {"female": 1.0}}))
    passive, active = cohort.p[:, 0], cohort.p[:, 1]  # [n, 2]
    for state, chance in ((0, 0.214), (1, 0.791)):
        assert kstest(passive[:, state], uniform(chance - 0.02, 0.04).cdf).pvalue > 1e-6
    assert abs(np.corrcoef(passive.T)[0, 1]) < 5 / math.sqrt(
        DRAWS
    )  # sd of the correlation of independent numbers
    lift = active[:, 0] / passive[:, 0] - 1  # state 0 never reaches the ceiling: .234 * 1.5 < 1
    assert kstest(lift, uniform(0.05, 0.45).cdf).pvalue > 1e-6
    below = active[:, 1] < 1 - CPAP_MARGIN
    np.testing.assert_allclose(
        (active[:, 1] / passive[:, 1] - 1)[below], lift[below], atol=1e-12
    )  # one effect a patient


def rewards(p, k, T, runs, rng, *, myopic):
    """Total reward [runs] when each decision takes the k largest gains, or any k."""
    n = len(p)
    arm = np.arange(n)
    gain = p[:, 1] - p[:, 0]  # [n, 2]
    states = rng.integers(0, 2, (runs, n))
    total = np.zeros(runs)
    for _ in range(T):
        key = rng.random((runs, n))
        if myopic:
            key = (
                gain[arm, states] + 1e-9 * key
            )  # ties, as among arms at the ceiling, are broken at random
        chosen = np.argpartition(-key, k, axis=1)[:, :k]
        action = np.zeros((runs, n), dtype=int)
        action[np.arange(runs)[:, None], chosen] = 1
        states = (rng.random((runs, n)) < p[arm, action, states]).astype(int)
        total += states.sum(axis=1)
    return total


@pytest.mark.parametrize(("reading", "factor"), [({}, 1.0), (FORMER, 2.0)])
def test_cpap_leaves_room_for_a_choice(reading, factor):
    # The order of the paper's Table 2: Myopic's benefit is above Random's; more than twice as large
    # where effects differ by patient. Doing nothing is exact: the passive chain from a fair coin.
    # The rest is held against its own standard error.
    p = cpap(n=100, seed=0, **reading).p
    T, runs, rng = 80, 40, np.random.default_rng(5)
    good, nothing = np.full(100, 0.5), 0.0
    for _ in range(T):
        good = (1 - good) * p[:, 0, 0] + good * p[:, 0, 1]
        nothing += good.sum()
    random, myopic = (
        rewards(p, 10, T, runs, rng, myopic=choice) - nothing for choice in (False, True)
    )
    random_error, myopic_error = (gains.std() / math.sqrt(runs) for gains in (random, myopic))
    assert random.mean() > 4 * random_error
    lead = myopic.mean() - factor * random.mean()
    assert lead > 4 * math.hypot(myopic_error, factor * random_error)
