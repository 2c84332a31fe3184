"""exp_, log1p_ and log_ against 120 bits of mpmath.

`mix` against SplitMix64 in plain Python; uniform against its law.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numba import njit
from scipy.stats import kstest

from softfair.kernels.elementary import exp_, log1p_, log_, mix, uniform

# The kernels allow fused multiply-add; the stated errors must hold with and without it.
COMPILE = {
    "exact": {"error_model": "numpy"},
    "contract": {"error_model": "numpy", "fastmath": {"contract"}},
}


def over_arrays(function, flags):
    """The function over an array, in a loop that the compiler may vectorise as in the kernels."""

    @njit(**flags)
    def loop(x):
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = function(x[i])
        return y

    return loop


@pytest.fixture(scope="module", params=COMPILE)
def compiled(request):
    """{name: function over an array}."""
    flags = COMPILE[request.param]
    return {function.__name__: over_arrays(function, flags) for function in (exp_, log1p_, log_)}


@njit
def mixed(keys, counters):
    out = np.empty(len(keys), dtype=np.uint64)
    for i in range(len(keys)):
        out[i] = mix(keys[i], counters[i])
    return out


@njit
def uniforms(keys, counters):
    out = np.empty(len(keys))
    for i in range(len(keys)):
        out[i] = uniform(keys[i], counters[i])
    return out


def errors(got, truth, unit):
    """|got - truth| / unit(truth) [n], truth in mpmath numbers."""
    return np.array(
        [float(abs(mpmath.mpf(float(g)) - t) / unit(t)) for g, t in zip(got, truth, strict=True)]
    )


def ulp(truth):
    return mpmath.mpf(math.ulp(float(truth)))


def correct(function, x):
    with mpmath.workprec(120):
        return [function(mpmath.mpf(float(value))) for value in x]


def near(centres, steps=3):
    """The centres and their next floats on either side."""
    around = [np.asarray(centres, dtype=float)]
    for direction in (-np.inf, np.inf):
        x = around[0]
        for _ in range(steps):
            x = np.nextafter(x, direction)
            around.append(x)
    return np.concatenate(around)


# Closed form


def test_exact_values(compiled):
    assert compiled["exp_"](np.array([0.0, -0.0])).tolist() == [1.0, 1.0]
    assert compiled["log1p_"](np.array([0.0])).tolist() == [0.0]
    assert compiled["log_"](np.array([1.0])).tolist() == [0.0]


def test_exp_clamps(compiled):
    ends = compiled["exp_"](np.array([-708.0, 709.0]))
    beyond = compiled["exp_"](np.array([-np.inf, -1e300, -708.1, 709.1, 1e300, np.inf]))
    np.testing.assert_array_equal(beyond, np.repeat(ends, 3))
    assert (ends >= np.finfo(float).tiny).all()
    assert np.isfinite(ends).all()


# The first outputs of SplitMix64 from seed 1234567: the test vector that ports of it are commonly
# checked against.
PUBLISHED = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def test_mix_gives_the_published_outputs():
    counters = np.arange(
        1, 6, dtype=np.uint64
    )  # SplitMix64 steps before it answers: its first output is number 1
    assert mixed(np.full(5, 1234567, dtype=np.uint64), counters).tolist() == PUBLISHED


def invert_mix(output):
    """The key that gives this output at counter 0: each step of the finaliser undone."""
    mask = 2**64 - 1

    def unshift(z, by):  # solves y = x ^ (x >> by) for x
        x = z
        for _ in range(64 // by):
            x = z ^ (x >> by)
        return x

    z = unshift(output, 31)
    z = unshift(z * pow(0x94D049BB133111EB, -1, 2**64) & mask, 27)
    return unshift(z * pow(0xBF58476D1CE4E5B9, -1, 2**64) & mask, 30)


@pytest.mark.parametrize("bits", [0, 2**12 - 1, 2**12, 2**63, 2**64 - 2**12 - 1, 2**64 - 1])
def test_uniform_is_the_centre_of_its_cell(bits):
    # Extremes that no random test meets: keys made backwards from the bits they shall give.
    key, counter = np.array([invert_mix(bits)], dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    assert mixed(key, counter).tolist() == [bits]
    (drawn,) = uniforms(key, counter)
    assert 0 < drawn < 1
    assert Fraction(float(drawn)) == Fraction(2 * (bits >> 12) + 1, 2**53)


# Brute force: many arguments, each against the correct value


def test_exp_is_within_two_ulp(compiled):
    rng = np.random.default_rng(0)
    half_steps = (np.arange(-1021, 1023) + 0.5) * math.log(
        2
    )  # where the reduction changes from one multiple of ln 2 to the next
    x = np.concatenate(
        [
            rng.uniform(-708, 709, 4000),
            rng.uniform(-1, 1, 2000),
            rng.choice([-1, 1], 1000) * 10.0 ** rng.uniform(-320, 0, 1000),
            half_steps[(half_steps > -708) & (half_steps < 709)],
            near([-1.0, 1.0, -0.5 * math.log(2), 0.5 * math.log(2)]),
            [-708.0, 709.0],
        ]
    )
    assert errors(compiled["exp_"](x), correct(mpmath.exp, x), ulp).max() <= 2


def test_log1p_is_within_its_stated_error(compiled):
    rng = np.random.default_rng(1)
    u = np.concatenate(
        [rng.random(6000), 10.0 ** rng.uniform(-307, 0, 2000), near([2.0**-53, 0.5]), [1.0]]
    )
    assert errors(compiled["log1p_"](u), correct(mpmath.log1p, u), abs).max() <= 3e-16


def test_log_is_within_5e_16(compiled):
    rng = np.random.default_rng(2)
    around_one = 1 + rng.choice([-1, 1], 2000) * 10.0 ** rng.uniform(-15, -0.3, 2000)
    finfo = np.finfo(float)
    x = np.concatenate(
        [
            np.exp(rng.uniform(-708, 709, 3000)),
            rng.uniform(0.5, 2, 3000),
            around_one[around_one != 1],
            near([2 / 3, 4 / 3, 0.5, 2.0]),  # where the exponent changes
            [np.nextafter(1, 0), np.nextafter(1, 2), finfo.tiny, finfo.max],
        ]
    )
    assert errors(compiled["log_"](x), correct(mpmath.log, x), abs).max() <= 5e-16


def test_an_error_would_be_seen():
    x = np.array([0.3, 1.0, 500.0])
    truth = correct(mpmath.exp, x)
    assert errors(np.exp(x), truth, ulp).max() <= 1
    wrong = np.exp(x)
    for _ in range(3):
        wrong = np.nextafter(wrong, np.inf)
    assert errors(wrong, truth, ulp).min() > 2


def splitmix64(seed):
    """Outputs of SplitMix64 (Steele, Lea and Flood 2014) with a state that moves on, in Python
    integers.
    """
    mask = 2**64 - 1
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15])
def test_mix_is_splitmix64_in_any_order(seed):
    outputs = [output for output, _ in zip(splitmix64(seed), range(200), strict=False)]
    counters = np.random.default_rng(0).permutation(200)
    got = mixed(np.full(200, seed, dtype=np.uint64), counters.astype(np.uint64) + np.uint64(1))
    assert got.tolist() == [outputs[j] for j in counters]


def test_signed_arguments_mean_the_same_bits():
    # Kernels count in int64; a key or counter of that type must not turn into a float on the way.
    unsigned = mixed(
        np.array([2**64 - 1, 5], dtype=np.uint64), np.array([2**64 - 3, 2**62], dtype=np.uint64)
    )
    signed = mixed(np.array([-1, 5]), np.array([-3, 2**62]))
    assert signed.tolist() == unsigned.tolist()


# Property


def test_exp_and_log_are_inverse(compiled):
    # log(exp x (1 + e)) = x + e with e <= 2 ulp <= 4.5e-16, and the logarithm adds 5e-16 relative
    # of its own.
    x = np.random.default_rng(3).uniform(-700, 700, 2000)
    back = compiled["log_"](compiled["exp_"](x))
    assert (np.abs(back - x) <= 4.5e-16 + 5e-16 * np.abs(x)).all()


# Statistics

DRAWS = 200_000
# A fair generator passes each bound with probability 1 - 1e-5 or better; the seeds are fixed, so a
# pass stays a pass.
SIGMAS = 5.0  # a normal exceeds 5 standard deviations with probability 6e-7


def departures(u):
    """In which ways the numbers [n] differ from independent uniforms on (0, 1)."""
    n = len(u)
    x = u - 0.5
    # Var x = 1/12, so sd(mean) = sqrt(1/12n); Var x^2 = E x^4 - (E x^2)^2 = 1/80 - 1/144 = 1/180;
    # and a serial correlation of independent numbers has sd 1/sqrt(n).
    found = {
        "mean": abs(x.mean()) > SIGMAS * math.sqrt(1 / 12 / n),
        "variance": abs((x * x).mean() - 1 / 12) > SIGMAS * math.sqrt(1 / 180 / n),
        "law": kstest(u, "uniform").pvalue < 1e-6,
        "range": not ((u > 0) & (u < 1)).all(),
        "repeats": len(np.unique(u)) < n,  # n^2 / 2^53 = 4e-6 pairs are expected to meet
    }
    for lag in (1, 2, 7):
        correlation = (x[:-lag] * x[lag:]).mean() * 12
        found[f"lag {lag}"] = abs(correlation) > SIGMAS / math.sqrt(n - lag)
    return {name for name, bad in found.items() if bad}


def test_uniforms_along_the_counter():
    for key in (1, 2, 12345, 2**63):
        keys = np.full(DRAWS, key, dtype=np.uint64)
        assert departures(uniforms(keys, np.arange(DRAWS, dtype=np.uint64))) == set()


def test_uniforms_along_the_key():
    # Keys that follow each other (seeds 0, 1, 2, ...) must not give related numbers.
    for counter in (0, 1, 77):
        keys = np.arange(1, DRAWS + 1, dtype=np.uint64)
        assert departures(uniforms(keys, np.full(DRAWS, counter, dtype=np.uint64))) == set()


def test_streams_of_two_keys_are_unrelated():
    # The correlation of two independent streams has sd 1/sqrt(n).
    counters = np.arange(DRAWS, dtype=np.uint64)
    one, other = (uniforms(np.full(DRAWS, key, dtype=np.uint64), counters) - 0.5 for key in (7, 8))
    assert abs((one * other).mean() * 12) < SIGMAS / math.sqrt(DRAWS)


def test_departures_are_seen():
    rng = np.random.default_rng(4)
    u = rng.random(DRAWS)
    assert departures(u) == set()
    assert {"mean", "law"} <= departures(u * 0.98)
    assert {"variance", "law"} <= departures(0.5 + (u - 0.5) * 0.98)
    assert "lag 1" in departures((np.arange(DRAWS) + 0.5) / DRAWS)
    assert "lag 7" in departures(
        np.concatenate(
            [np.repeat(u[i : i + 7][None], 2, axis=0).ravel() for i in range(0, DRAWS // 2, 7)]
        )
    )
    assert "repeats" in departures(np.round(u, 4))
    assert "range" in departures(np.append(u, 1.0))
