"""The two designs against closed forms, enumeration, independent evaluations, the laws they must
obey, and the frequencies of draws.

The references are written from the definitions, without a line shared with the package. Every sum
in them has positive terms only, so float64 serves: relative errors stay near (number of operations)
* 1e-16, far below what is asked for.

Tolerances. The package rounds log-weights to a grid of 2^-38, half of which is 1.8e-12 on each
weight. An inclusion probability moves by at most that relative to itself for its own weight and as
much again for all others together: 4e-12, whatever else is exact. What rounding takes from arms
that are all but certain, 1e-16 each, goes to the others, so that the sum is k: NOISE for a few
arms. Statistical tests use fixed seeds and a false-alarm rate of 1e-6 each, by `allowance`
(Bernstein) or the chi-square law.
"""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.optimize import brentq
from scipy.stats import chi2

from softfair.cluster import Spread
from softfair.errors import InvalidInput
from softfair.kernels.convolution import successive_exact
from softfair.kernels.draws import select
from softfair.kernels.elementary import mix
from softfair.kernels.expansion import (
    SERIES,
    estimated_error,
    successive_coefficients,
    successive_map,
    successive_moments,
)
from softfair.kernels.inclusion import joint_inclusion, successive_inclusion
from softfair.kernels.joint import draw_joint
from softfair.kernels.rules import RuleCode
from softfair.kernels.shift import guess_shift
from softfair.kernels.threads import get_threads, set_threads
from softfair.sampling import draw, in_parts, inclusion, inclusion_of_top

DESIGNS = ["successive", "joint"]
GRID = 2.0**-38
NOISE = 1e-15
FALSE_ALARM = 1e-6


# References


def softmax(z):
    w = np.exp(z - np.max(z))
    return w / w.sum()


def by_permutations(z):
    """Inclusion of `successive` [n + 1, n], row k.

    The sum over all orders in which n arms can be drawn, as the paper has it.
    """
    orders = np.array(list(permutations(range(len(z)))))
    w = np.exp(z - np.max(z))[orders]  # [n!, n]
    rest = np.cumsum(w[:, ::-1], axis=1)[
        :, ::-1
    ]  # what is left before each draw, summed from the last: nothing is subtracted
    chance = (w / rest).prod(axis=1)
    at = [
        [chance[orders[:, place] == arm].sum() for arm in range(len(z))] for place in range(len(z))
    ]
    return np.vstack([np.zeros(len(z)), np.cumsum(at, axis=0)])


def law_of_sets(z, k, design):
    """{set: probability} over all sets of k arms, from the definition of the design."""
    if design == "joint":
        total = {
            chosen: math.fsum(z[i] for i in chosen) for chosen in combinations(range(len(z)), k)
        }
        most = max(total.values())
        weight = {chosen: math.exp(value - most) for chosen, value in total.items()}
        whole = math.fsum(weight.values())
        return {chosen: value / whole for chosen, value in weight.items()}
    law = {(): 1.0}
    for _ in range(k):  # draw one more from those left
        longer: dict[tuple[int, ...], float] = {}
        for chosen, chance in law.items():
            left = [i for i in range(len(z)) if i not in chosen]
            for i, share in zip(left, softmax(np.array([z[i] for i in left])), strict=True):
                key = tuple(sorted((*chosen, i)))
                longer[key] = longer.get(key, 0.0) + chance * share
        law = longer
    return law


def by_sets(z, k, design):
    """Inclusion [n] from the law of sets."""
    law = law_of_sets(z, k, design)
    return np.array(
        [math.fsum(chance for chosen, chance in law.items() if i in chosen) for i in range(len(z))]
    )


def count_law(q, most):
    """Pr(N = 0 .. most) [..., most + 1] of the Poisson-binomial count N of q [..., n], by adding
    arms one by one.
    """
    law = np.zeros((*q.shape[:-1], most + 1))
    law[..., 0] = 1.0
    for i in range(q.shape[-1]):
        p = q[..., i, None]
        law[..., 1:], law[..., 0] = (
            (1 - p) * law[..., 1:] + p * law[..., :-1],
            (1 - p[..., 0]) * law[..., 0],
        )
    return law


def by_clock(z, k, arms, step=0.1):
    """Inclusion of `successive` for some arms.

    Int w e^(-w x) Pr(N_{-i}(x) <= k - 1) dx, trapezoid in u = log x.

    In u the integrand is analytic in a strip of half-width pi/2 and falls off exponentially on the
    left, doubly so on the right: the trapezoid's error is about exp(-2 pi (pi/2) / 0.1) < 1e-40,
    and what is cut off on the left is below e^-40.
    """
    u = np.arange(-np.max(z) - 40.0, -np.min(z) + 5.0, step)
    s = np.exp(z + u[:, None])  # [nodes, n]
    found = []
    for i in arms:
        below = count_law(-np.expm1(-np.delete(s, i, axis=1)), k - 1).sum(axis=1)
        found.append(step * math.fsum(s[:, i] * np.exp(-s[:, i]) * below))
    return np.array(found)


def wallenius(gap, first, second, k):
    """Inclusion of `successive` with ``first`` arms of log-weight ``gap`` and ``second`` arms of 0.

    (one of the first, one of the second).

    From the definition: after t draws, j of them from the first kind, the next is of the first kind
    with probability (first - j) w / ((first - j) w + second - (t - j)).
    """
    j = np.arange(min(first, k) + 1)
    law = np.zeros(len(j))
    law[0] = 1.0
    for t in range(k):
        odds = np.clip(first - j, 0, None) * math.exp(gap)
        other = np.clip(second - (t - j), 0, None)
        total = np.maximum(odds + other, 1e-300)  # states that cannot be reached have neither
        up = law * (odds / total)
        law = law * (other / total)
        law[1:] += up[:-1]
    return math.fsum(law * j) / first, math.fsum(law * (k - j)) / second


def fisher(gap, first, second, k):
    """The same for `joint`.

    Pr(j of the first kind) is in proportion to C(first, j) C(second, k - j) w^j.
    """
    low, high = max(0, k - second), min(k, first)
    j = np.arange(low, high)
    ratio = np.log((first - j) / (j + 1.0) * ((k - j) / (second - k + j + 1.0))) + gap
    log_law = np.concatenate([[0.0], np.cumsum(ratio)])
    law = np.exp(log_law - log_law.max())
    law /= math.fsum(law)
    j = np.arange(low, high + 1)
    return math.fsum(law * j) / first, math.fsum(law * (k - j)) / second


def solved(z, k, rise):
    """u at which sum rise(z + u) = k."""
    return brentq(lambda u: rise(z + u).sum() - k, -60 - np.max(z), 60 - np.min(z), xtol=1e-13)


def by_exact_kernel(z, k):
    """The package's exact evaluation of `successive`, which is held to the references above."""
    out = np.empty(len(z))
    u = solved(z - z.max(), k, lambda x: -np.expm1(-np.exp(np.minimum(x, 700))))
    successive_exact(z, z.max(), k, u, 1e-12, out)
    return out


def on_one_thread(z, k, design, tolerance):
    """The kernel that uses the O(n) evaluation where it holds its own error to be within the
    tolerance.
    """
    out = np.empty(len(z))
    guess = guess_shift(z, z.max(), float(k))
    if design == "successive":
        successive_inclusion(z, z.max(), k, tolerance, guess, SERIES, out)
    else:
        joint_inclusion(z, z.max(), k, guess, out)
    return out


def relative_error(got, truth):
    """The largest |got / truth - 1|, over probabilities that float64 holds to full precision."""
    there = truth > 1e-290
    return np.abs(got[there] / truth[there] - 1).max()


def weights_of(kind, n, spread, rng):
    """Log-weights of a shape that is met in practice, or that is hard."""
    if kind == "normal":
        return spread * rng.normal(size=n)
    if kind == "uniform":
        return spread * rng.uniform(-1, 1, n) * math.sqrt(3)
    if kind == "bimodal":
        return spread * (rng.choice([-1.0, 1.0], n) + 0.1 * rng.normal(size=n))
    if kind == "heavy tails":
        return spread * rng.standard_t(1.5, n)
    if kind == "few values":
        return spread * rng.integers(0, 4, n)
    if kind == "one dominates":
        return np.append(0.2 * rng.normal(size=n - 1), spread)
    assert kind == "few at the bottom"
    return np.append(0.2 * rng.normal(size=n - 5), np.full(5, -spread))


def ordered(z, p):
    """Whether p keeps the order of z exactly, equal for equal."""
    by_weight = np.lexsort((p, z))
    z, p = z[by_weight], p[by_weight]
    return (np.diff(p) >= 0).all() and (np.diff(p)[np.diff(z) == 0] == 0).all()


def sums_to(p, k):
    return abs(math.fsum(p) - k) <= 1e-12 * k


# Closed form


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("spread", [0.1, 1, 3, 30])
@pytest.mark.parametrize("n", [2, 3, 10, 100, 999, 1000, 33000])
def test_one_draw_is_the_softmax(design, spread, n):
    z = spread * np.random.default_rng(n).normal(size=n)
    np.testing.assert_allclose(
        inclusion(z, 1, design), softmax(z), rtol=1e-9 if n < 1000 else 1e-6, atol=NOISE
    )


@pytest.mark.parametrize("spread", [0.1, 1, 3, 10])
@pytest.mark.parametrize("n", [2, 3, 10, 100, 999, 1000])
def test_two_draws(spread, n):
    # First, or second after any other: s_i + sum_{j != i} s_j s_i / (1 - s_j). 1 - s_j is summed
    # from the others.
    z = spread * np.random.default_rng(n).normal(size=n)
    s = softmax(z)
    after = s / np.array([np.delete(s, j).sum() for j in range(n)])
    expected = [s[i] * (1 + np.delete(after, i).sum()) for i in range(n)]
    np.testing.assert_allclose(
        inclusion(z, 2), expected, rtol=1e-9 if n < 1000 else 1e-6, atol=NOISE
    )


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    ("n", "k"),
    [(2, 1), (5, 3), (100, 99), (1000, 10), (1000, 999), (40000, 3), (40000, 39990), (40000, 700)],
)
def test_equal_weights_share_evenly(design, n, k):
    p = inclusion(np.full(n, 3.7), k, design)
    assert (p == p[0]).all()
    assert p[0] == pytest.approx(k / n, rel=1e-12)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("z", [[3.0], [1.0, -2.0], [1e6, 0, -1e6], [0.0] * 50])
def test_none_and_all(design, z):
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(inclusion(z, 0, design), np.zeros(len(z)))
    np.testing.assert_array_equal(inclusion(z, len(z), design), np.ones(len(z)))
    assert draw(z, 0, rng, design).tolist() == []
    assert draw(z, len(z), rng, design).tolist() == list(range(len(z)))


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("gap", [-30, -1, 0, 1e-9, 0.5, 30])
def test_two_arms(design, gap):
    np.testing.assert_allclose(
        inclusion([gap, 0.0], 1, design),
        [1 / (1 + math.exp(-gap)), 1 / (1 + math.exp(gap))],
        1e-11,
        NOISE,
    )


@pytest.mark.parametrize(
    ("n", "k"),
    [(5, 2), (12, 11), (100, 30), (999, 998), (1000, 100), (4000, 5), (40000, 4000), (40000, 6)],
)
@pytest.mark.parametrize("spread", [0.1, 1, 3])
def test_joint_of_the_inverse_weights_is_the_complement(n, k, spread):
    # Leaving out n - k is choosing n - k by 1/w: the weight of a set is the weight of all over that
    # of its complement.
    z = spread * np.random.default_rng(n).normal(size=n)
    p, out = inclusion(z, k, "joint"), inclusion(-z, n - k, "joint")
    np.testing.assert_allclose(p, 1 - out, rtol=0, atol=1e-11)
    np.testing.assert_allclose(p[p < 0.1], (1 - out)[p < 0.1], rtol=1e-9, atol=1e-14)


TWO_KINDS = [
    (first, second, gap, k)
    for first, second in [
        (1, 9),
        (3, 7),
        (1, 99),
        (3, 97),
        (50, 50),
        (97, 3),
        (199, 1),
        (500, 499),
        (998, 1),
    ]
    for gap in (0.1, 1.0, 3.0, 10.0)
    for k in sorted({1, 2, 5, (first + second) // 2, first, first + second - 2, first + second - 1})
    if 0 < k < first + second
]


def assert_two_kinds(p, first, expected, rtol, atol):
    np.testing.assert_allclose(p[[0, -1]], expected, rtol=rtol, atol=atol)
    assert (p[:first] == p[0]).all()
    assert (p[first:] == p[-1]).all()


def two_kinds(first, second, gap):
    return np.repeat([gap, 0.0], [first, second])


def test_joint_of_two_kinds_is_fishers_hypergeometric():
    for first, second, gap, k in TWO_KINDS:
        assert_two_kinds(
            inclusion(two_kinds(first, second, gap), k, "joint"),
            first,
            fisher(gap, first, second, k),
            1e-10,
            1e-18,
        )


@pytest.mark.parametrize(
    ("first", "second", "gap", "k"),
    [
        (500, 500, 1, 300),
        (400, 600, 4, 30),
        (999, 1, 5, 990),
        (3000, 7000, 2, 9990),
        (10000, 30000, 3, 20),
        (10000, 30000, 1, 15000),
        (99999, 1, 10, 99990),
        (50000, 150000, 0.1, 199990),
        (100000, 200000, 3, 30000),
    ],
)
def test_joint_of_two_kinds_at_scale(first, second, gap, k):
    # The reference sums up to k logarithms of relative error 1e-16: 1e-12 at the most. The rest is
    # the grid.
    assert_two_kinds(
        inclusion(two_kinds(first, second, gap), k, "joint"),
        first,
        fisher(gap, first, second, k),
        2e-11,
        0,
    )


def test_successive_breaks_the_order_of_sets_and_joint_keeps_it():
    # MATH.md section 2. Of three arms, two are drawn: Pr(pair) = 1 - Pr(third is in). Draw
    # probabilities .5 and .1 give .05/.5 + .05/.9 = .156, while .23 and .23, of the larger product
    # .0529 > .05, give 2 * .0529/.77 = .137.
    assert 1 - inclusion(np.log([0.5, 0.1, 0.4]), 2)[2] == pytest.approx(
        0.05 / 0.5 + 0.05 / 0.9, abs=1e-11
    )
    assert 1 - inclusion(np.log([0.23, 0.23, 0.54]), 2)[2] == pytest.approx(
        2 * 0.0529 / 0.77, abs=1e-11
    )
    # The same within one population (the four above sum to 1.06): .5 * .08 < .21 * .21.
    z = np.log([0.5, 0.08, 0.21, 0.21])
    successive, joint = (law_of_sets(z, 2, design) for design in DESIGNS)
    assert successive[0, 1] == pytest.approx(0.04 / 0.5 + 0.04 / 0.92)
    assert successive[2, 3] == pytest.approx(2 * 0.0441 / 0.79)
    assert successive[0, 1] > successive[2, 3]
    assert joint[0, 1] / joint[2, 3] == pytest.approx(0.04 / 0.0441)
    for design in DESIGNS:
        np.testing.assert_allclose(inclusion(z, 2, design), by_sets(z, 2, design), atol=1e-11)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("scale", [600.0, 700.0, 750.0, 1e4, 1e6, 1e16, 1e18, 1e300])
def test_wide_spreads(design, scale):
    # Arms a scale apart are decided by rank; those within a few units of the cut by what is left of
    # k among themselves alone.
    def check(z, k, expected):
        p = inclusion(z, k, design)
        np.testing.assert_allclose(p, expected, rtol=1e-9, atol=1e-150)
        assert sums_to(p, k)

    near = np.array([0.0, 1.0, -0.5])  # between those that are certain and those that are not drawn
    for j in (1, 2):
        check(
            np.concatenate([[scale, scale + 3], near, [-scale]]),
            2 + j,
            [1, 1, *by_sets(near, j, design), 0],
        )
    check([scale, -scale, 0, scale], 1, [0.5, 0, 0, 0.5])
    check([scale, -scale, 0, scale, 0], 3, [1, 0, 0.5, 1, 0.5])
    check([-scale, -scale, -scale, scale], 3, [2 / 3, 2 / 3, 2 / 3, 1])
    many = np.repeat([scale, 0.0, -scale], [10, 1000, 500])
    check(many, 110, np.repeat([1, 0.1, 0], [10, 1000, 500]))
    check([scale, *near], 2, [1, *by_sets(near, 1, design)])


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("far", [1e6, 1e12, 1e18, 1e300])
@pytest.mark.parametrize("n", [1000, 40000])
def test_a_few_arms_far_off_leave_the_others_as_they_are(n, far, design):
    # Places 5 and 6: at n = 40000 the sample that comes first holds every second arm.
    z = np.random.default_rng(0).normal(size=n)
    for above, below in (([5], [6]), ([6], [5]), ([5, 6], []), ([], [5, 6])):
        changed = z.copy()
        changed[above], changed[below] = far, -far
        moved = above + below
        p = inclusion(changed, 77, design)
        assert (p[above] > 1 - 1e-13).all()
        assert (p[below] < 1e-13).all()
        np.testing.assert_allclose(
            np.delete(p, moved), inclusion(np.delete(z, moved), 77 - len(above), design), rtol=2e-6
        )
        for seed in range(20):
            chosen = draw(changed, 77, np.random.default_rng(seed), design)
            assert len(chosen) == len(set(chosen)) == 77
            assert set(above) <= set(chosen)
            assert not set(below) & set(chosen)


@pytest.mark.slow
def test_the_count_of_no_branch_exceeds_its_arms():
    # Draws whose laws are empty where the count must fall: without care a leaf would be asked for
    # more arms than it has.
    scratch, chosen = np.empty(8000), np.empty(4000, np.uint8)
    for k in (1, 777, 3999):
        for z in (
            np.arange(4000) * 1e15,
            np.r_[np.full(64, 1e17), np.zeros(3936)],
            np.r_[np.zeros(3999), -1e300],
        ):
            draw_joint(
                z, k, mix(0, k), scratch, chosen
            )  # beneath `select`, which would take the spread off
            assert chosen.sum() == k


@pytest.mark.parametrize("design", DESIGNS)
def test_infinite_weights_are_certain_or_never(design):
    inf = math.inf
    cases = [
        ([inf, 0, 1, -inf], 2, [1, *softmax(np.array([0.0, 1.0])), 0]),
        ([inf, inf, 1, -inf], 1, [0.5, 0.5, 0, 0]),
        ([inf, 0, -inf, -inf], 3, [1, 1, 0.5, 0.5]),
        ([inf, -inf], 1, [1, 0]),
        ([-inf] * 3, 2, [2 / 3] * 3),
        ([inf] * 4, 1, [0.25] * 4),
    ]
    rng = np.random.default_rng(0)
    for z, k, expected in cases:
        np.testing.assert_allclose(inclusion(z, k, design), expected, rtol=1e-11, atol=1e-150)
        chosen = [draw(z, k, rng, design).tolist() for _ in range(50)]
        assert {i for one in chosen for i in one} == {i for i, p in enumerate(expected) if p > 0}
        assert all(i in one for one in chosen for i, p in enumerate(expected) if p == 1)


@pytest.mark.parametrize(
    ("scores", "k", "expected"),
    [
        ([3, 1, 2], 0, [0, 0, 0]),
        ([3, 1, 2], 1, [1, 0, 0]),
        ([3, 1, 2], 3, [1, 1, 1]),
        ([3, 1, 1, 1, 0], 2, [1, 1 / 3, 1 / 3, 1 / 3, 0]),
        ([3, 1, 1, 1, 0], 3, [1, 2 / 3, 2 / 3, 2 / 3, 0]),
        ([3, 1, 1, 1, 0], 4, [1, 1, 1, 1, 0]),
        ([0.0, -0.0, 1e-320, -1.0], 2, [0.5, 0.5, 1, 0]),
        ([math.inf, 1, 1, -math.inf], 2, [1, 0.5, 0.5, 0]),
        ([1e6, 1e6 + 1e-9, 0], 1, [0, 1, 0]),
        ([7], 1, [1]),
    ],
)
def test_inclusion_of_top(scores, k, expected):
    np.testing.assert_array_equal(inclusion_of_top(scores, k), expected)


@pytest.mark.parametrize("design", DESIGNS)
def test_growing_c_tends_to_the_top(design):
    scores = np.array([3.0, 1.0, 1.0, 1.0, 0.0])
    for k in range(6):
        np.testing.assert_allclose(
            inclusion(1e4 * scores, k, design), inclusion_of_top(scores, k), rtol=1e-11, atol=1e-150
        )


def refused(call, *parts):
    """The message of the refusal: one line that has the parts."""
    with pytest.raises(InvalidInput) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in parts), message


CALLS = [
    lambda z, k: inclusion(z, k),
    lambda z, k: inclusion(z, k, "joint"),
    lambda z, k: draw(z, k, np.random.default_rng(0)),
    lambda z, k: draw(z, k, np.random.default_rng(0), "joint"),
    inclusion_of_top,
]


@pytest.mark.parametrize("call", CALLS)
def test_refusals(call):
    nan = math.nan
    refused(lambda: call([0, 1, nan, 2, nan], 2), "[2] is nan", "2 of 5", "give")
    refused(lambda: call([math.inf, nan], 1), "[1] is nan", "1 of 2", "give")
    for k in (0, 2):  # also where nothing is left to chance
        refused(lambda k=k: call([0.0, nan], k), "[1] is nan", "1 of 2", "give")
    refused(lambda: call([1.7e308, 1.7e308, nan], 1), "[2] is nan", "1 of 3", "give")
    refused(lambda: call([], 0), "(0,)", "give")
    refused(lambda: call([[1, 2], [3, 4]], 1), "(2, 2)", "give")
    for k in (-1, 4, 1.5, nan, math.inf, "2", None):
        refused(lambda k=k: call([0, 1, 2], k), "k is", str(k), "arms are 3", "between 0 and 3")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("n", [1000, 40000])
def test_one_bad_weight_among_many(call, n):
    # At n = 40000 a sample of every second arm is looked at first: arm 0 is in it, arm 12345 is
    # not.
    for place in (0, 12345 % n):
        z = np.random.default_rng(n).normal(size=n)
        z[place] = math.nan
        refused(lambda z=z: call(z, 100), f"[{place}] is nan", f"1 of {n}", "give")


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("k", [3, 4000])
def test_infinite_weights_among_many(design, k):
    z = np.random.default_rng(0).normal(size=40000)
    for places in ([0], [12345], [0, 12345]):
        changed = z.copy()
        changed[places] = math.inf
        p = inclusion(changed, k, design)
        assert (p[places] > 1 - 1e-13).all()
        np.testing.assert_allclose(
            np.delete(p, places),
            inclusion(np.delete(z, places), k - len(places), design),
            rtol=2e-6,
        )
        changed[places] = -math.inf
        p = inclusion(changed, k, design)
        assert (p[places] < 1e-150).all()
        np.testing.assert_allclose(
            np.delete(p, places), inclusion(np.delete(z, places), k, design), rtol=2e-6
        )
        assert not set(places) & set(draw(changed, k, np.random.default_rng(0), design))


def test_unknown_design_is_refused():
    for design in ("succesive", "", None):
        refused(
            lambda design=design: inclusion([0, 1], 1, design),
            repr(design),
            "'successive', 'joint'",
        )
        refused(
            lambda design=design: draw([0, 1], 1, np.random.default_rng(0), design),
            repr(design),
            "'successive', 'joint'",
        )


@pytest.mark.parametrize("call", CALLS)
def test_whole_numbers_of_every_type_serve(call):
    for k in (np.int32(2), np.int64(2), np.uint8(2), 2.0, np.float64(2)):
        np.testing.assert_array_equal(call([0, 3, 1, 2], k), call([0, 3, 1, 2], 2))
    for z in (
        (0, 3, 1, 2),
        np.array([0, 3, 1, 2], np.float32),
        np.array([9, 0, 9, 3, 9, 1, 9, 2.0])[1::2],
    ):
        np.testing.assert_array_equal(call(z, 2), call([0, 3, 1, 2], 2))


# Brute force


@pytest.mark.parametrize("spread", [0.01, 0.3, 1, 3, 10, 40])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8])
def test_successive_is_the_sum_over_permutations(n, spread):
    for seed, kind in enumerate(["normal", "uniform", "bimodal", "few values"]):
        z = weights_of(kind, n, spread, np.random.default_rng([seed, n]))
        for k, expected in enumerate(by_permutations(z)):
            p = inclusion(z, k)
            np.testing.assert_allclose(p, expected, rtol=0, atol=1e-10)
            np.testing.assert_allclose(p, expected, rtol=1e-9, atol=NOISE)


@pytest.mark.parametrize("spread", [0.01, 0.3, 1, 3, 10, 100])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 12])
def test_joint_is_the_sum_over_sets(n, spread):
    for seed, kind in enumerate(["normal", "bimodal", "few values"]):
        z = weights_of(kind, n, spread, np.random.default_rng([seed, n]))
        for k in range(1, n):
            expected = by_sets(z, k, "joint")
            p = inclusion(z, k, "joint")
            np.testing.assert_allclose(p, expected, rtol=0, atol=1e-10)
            np.testing.assert_allclose(p, expected, rtol=1e-9, atol=NOISE)


@pytest.mark.slow
def test_successive_of_two_kinds():
    # Where one kind is all but certain and the other small, an expansion in 1/V sees nothing of the
    # first and is wrong about it.
    for first, second, gap, k in TWO_KINDS:
        p = inclusion(two_kinds(first, second, gap), k)
        assert_two_kinds(
            p, first, wallenius(gap, first, second, k), 1e-9, 2e-12
        )  # up to 999 terms, each of a few roundings
        np.testing.assert_allclose(p[[0, -1]], wallenius(gap, first, second, k), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("first", "second", "gap", "k"),
    [
        (500, 500, 10, 500),
        (500, 500, 1, 300),
        (3, 997, 10, 5),
        (1, 1999, 10, 5),
        (997, 3, 0.1, 999),
        (997, 3, 10, 990),
        (1, 3999, 20, 4),
        (2000, 2000, 3, 2000),
        (300, 3700, 2, 3990),
        (4000, 36000, 3, 4000),
        (1000, 39000, 10, 1050),
    ],
)
def test_successive_of_two_kinds_at_scale(first, second, gap, k):
    # The chain loses 1e-16 a draw: nothing beside 1e-6, which is what the O(n) evaluation promises.
    assert_two_kinds(
        inclusion(two_kinds(first, second, gap), k),
        first,
        wallenius(gap, first, second, k),
        1e-6,
        0,
    )


@pytest.mark.parametrize(
    ("first", "second", "gap"), [(100, 39900, 50), (1912, 54020, 80), (300, 700, 60)]
)
def test_k_near_the_size_of_a_group_far_above_the_rest(first, second, gap):
    # Between the groups the count stands still while the clock runs on, so there is nothing to
    # expand in.
    shuffled = np.random.default_rng(first).permutation(first + second)
    z = np.empty(first + second)
    z[shuffled] = two_kinds(first, second, gap)
    for k in (first - 30, first - 1, first, first + 1, first + 2):
        p = inclusion(z, k)
        assert sums_to(p, k)
        assert_two_kinds(p[shuffled], first, wallenius(gap, first, second, k), 1e-6, 1e-13)


def test_k_heavy_arms_among_uneven_others():
    z = np.random.default_rng(0).normal(size=40000)
    z[::400] += 50
    p = inclusion(z, 100)
    assert sums_to(p, 100)
    assert p[::400].min() > 1 - 1e-13


@pytest.mark.parametrize(
    ("k", "spread"),
    [(1, 1), (20, 0.1), (20, 1), (20, 3), (100, 1), (100, 3), (190, 0.3), (199, 1), (50, 10)],
)
def test_successive_against_the_clock_integral(k, spread):
    z = spread * np.random.default_rng(k).normal(size=200)
    arms = np.argsort(z)[[0, 60, 140, 199]]
    expected = by_clock(z, k, arms)
    for p in (inclusion(z, k)[arms], by_exact_kernel(z, k)[arms]):
        np.testing.assert_allclose(p, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    ("n", "k"),
    [(200, 3), (200, 50), (999, 500), (1000, 10), (1000, 100), (1500, 750), (1500, 1490)],
)
def test_joint_against_the_count_law(n, k):
    # Pr(i in) = q_i Pr(N_{-i} = k - 1) / Pr(N = k), whatever the tilt of the coins q; two n-step
    # sums of positive terms: 1e-12.
    for spread in (0.1, 1, 5):
        z = spread * np.random.default_rng(n).normal(size=n)
        q = 1 / (1 + np.exp(-z - solved(z, k, lambda x: 1 / (1 + np.exp(-x)))))
        arms = np.argsort(z)[[0, n // 3, n - k, -1]]
        whole = count_law(q, k)[k]
        expected = [q[i] * count_law(np.delete(q, i), k - 1)[k - 1] / whole for i in arms]
        np.testing.assert_allclose(inclusion(z, k, "joint")[arms], expected, rtol=2e-11)


@pytest.mark.parametrize("n", [1000, 40000])
def test_where_one_arm_outweighs_all_others(n):
    # A millionth of each chance, and 1e-12 beside: as the module says.
    for above in (5, 20, 35, 100):
        z = np.append(np.random.default_rng(n).normal(size=n - 1), above)
        np.testing.assert_allclose(inclusion(z, 1), softmax(z), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", ["normal", "uniform", "bimodal"])
@pytest.mark.parametrize("n", [1000, 2000, 4000])
def test_the_fast_way_is_within_a_millionth(n, kind):
    rng = np.random.default_rng(n)
    worst = 0.0
    for spread, k in product([0.1, 1, 3], [10, 30, n // 10, n // 2, n - 30, n - 10]):
        z = weights_of(kind, n, spread, rng)
        p = inclusion(z, k)
        error = relative_error(p, by_exact_kernel(z, k))
        assert error <= 1e-6, (spread, k)
        worst = max(worst, error)
        assert ordered(z, p)
        assert sums_to(p, k)
    assert worst > 1e-12  # else the fast way was never taken and nothing was tested


LADDER = [1e-3, 1e-4, 1e-6, 1e-8, 1e-10]
KINDS = [
    "normal",
    "uniform",
    "bimodal",
    "heavy tails",
    "few values",
    "one dominates",
    "few at the bottom",
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_estimated_error_is_an_upper_bound(kind):
    # The kernel takes the O(n) way where it holds its relative error to be below the tolerance,
    # else the exact way with dust of a millionth of the tolerance. So its error is below the
    # tolerance, relative to p + 1e-4 (a hundred times the dust), for every tolerance, weights and
    # k; 6e-12 beside it for the grid (twice: both sides have it) and rounding.
    rng = np.random.default_rng(KINDS.index(kind))
    taken = 0
    for _ in range(60):
        n = int(10 ** rng.uniform(1, 3.2))
        z = weights_of(kind, n, 10 ** rng.uniform(-1.5, 1.2), rng)
        k = int(
            rng.choice(
                [
                    rng.integers(1, n),
                    min(n - 1, rng.integers(1, 30)),
                    max(1, n - rng.integers(1, 30)),
                ]
            )
        )
        truth = by_exact_kernel(z, k)
        for tolerance in LADDER:
            error = (
                np.abs(on_one_thread(z, k, "successive", tolerance) - truth) / (truth + 1e-4)
            ).max()
            assert error <= tolerance + 6e-12, (n, k, tolerance, z[:5])
            taken += error > 1e-11  # what is computed the exact way differs less
    assert taken > 30


def by_order(z, k, order):
    """(inclusion by the expansion to this order without more ado, its estimated error)."""
    n, top, out = len(z), z.max(), np.empty(len(z))
    u = solved(z - top, k, lambda x: -np.expm1(-np.exp(np.minimum(x, 700))))
    moments = successive_moments(0, n, z, top, u, order)
    coefficients = np.zeros_like(moments)
    successive_coefficients(moments, SERIES, 1, order, coefficients)
    successive_map(0, n, z, top, u, coefficients, out)
    return out, estimated_error(moments, SERIES, z.min() - top + u, u)


@pytest.mark.parametrize(("n", "k"), [(400, 100), (900, 90), (2000, 30)])
def test_the_expansion_is_taken_where_its_estimate_is_within_the_tolerance_and_nowhere_else(n, k):
    # From just below the estimate of each order to just above it another evaluation is taken: the
    # exact one, order 3, order 1. Order 3 is tried where the square of the estimate of order 1 is
    # at most ten tolerances.
    z = np.random.default_rng(0).normal(size=n)
    (first, rough), (third, fine) = by_order(z, k, 1), by_order(z, k, 3)
    assert rough**2 < 10 * fine < rough
    apart = np.abs(first - third).max()
    out, guess = np.empty(n), guess_shift(z, z.max(), float(k))
    for tolerance, evaluation in [
        (fine / 1.001, None),
        (fine * 1.001, third),
        (rough / 1.001, third),
        (rough * 1.001, first),
    ]:
        _, exact = successive_inclusion(z, z.max(), k, tolerance, guess, SERIES, out)
        assert exact == (evaluation is None), tolerance
        if evaluation is not None:  # u is within the tolerance too, so the two are not equal
            assert np.abs(out - evaluation).max() < 0.2 * apart


def test_order_three_is_not_tried_where_order_one_is_far_off():
    z = 0.5 * np.random.default_rng(0).normal(size=300)
    rough, fine = by_order(z, 100, 1)[1], by_order(z, 100, 3)[1]
    assert 10 * fine < rough**2  # so a tolerance between the two is met by order 3 alone
    guess, out = guess_shift(z, z.max(), 100.0), np.empty(300)
    for tolerance, expected in [(rough**2 / 10.1, True), (rough**2 / 9.9, False)]:
        _, exact = successive_inclusion(z, z.max(), 100, tolerance, guess, SERIES, out)
        assert exact == expected


@pytest.mark.parametrize(("n", "k", "stated"), [(999, 60, 1e-10), (2000, 8, 5e-7)])
def test_the_stated_accuracy_is_the_tolerance(n, k, stated):
    # The module's text states 1e-10 below 1000 arms and 5e-7 from there on. In these cases a
    # tolerance a hundred times larger would lead to another evaluation.
    z = np.random.default_rng(0).normal(size=n)
    wanted, rougher = (on_one_thread(z, k, "successive", stated * by) for by in (1, 100))
    assert (wanted != rougher).any()
    order = np.argsort(z)
    wanted[order] = np.maximum.accumulate(wanted[order])
    np.testing.assert_array_equal(inclusion(z, k), wanted)


@pytest.mark.parametrize(
    ("estimates", "orders"),
    [([0.99], [1]), ([1.01, 0.99], [1, 3]), ([1.01, 1.01], None)],
)
def test_on_threads_too_the_estimate_decides(estimates, orders, monkeypatch):
    # estimates: of order 1 and 3, in units of the tolerance; orders: of the terms that are used.
    n, k = 40000, 4000
    z, out = np.random.default_rng(0).normal(size=n), np.empty(n)
    seen, ranges, tried = [], [], {1: estimates[0], 3: estimates[-1]}

    def estimate(moments, series, low, high):
        seen.append(moments.shape[1] - 2)
        ranges.append(high - low)
        return tried[seen[-1]] * 5e-7

    monkeypatch.setattr(in_parts.expansion, "estimated_error", estimate)
    done = in_parts.inclusion_in_parts(Spread.of(z), k, RuleCode.SUCCESSIVE, out)
    assert done == (orders is not None)
    # First for weights of any range, and where that is too much for the range of these.
    assert set(ranges[::2]) == {math.inf}
    np.testing.assert_allclose([one for one in ranges if one < math.inf], np.ptp(z), rtol=1e-12)
    if done:
        assert sorted(set(seen)) == orders
        first, third = by_order(z, k, 1)[0], by_order(z, k, 3)[0]
        used = first if orders == [1] else third
        assert np.abs(out - used).max() < 0.2 * np.abs(first - third).max()


@pytest.mark.parametrize(
    "weights", [([3.0] + 9 * [0.0], 9), ([3.0] * 3 + 7 * [0.0], 9), ([10.0] * 3 + 97 * [0.0], 5)]
)
def test_small_groups_are_exact(weights):
    # Found by search: cases in which a group far above the others hid the error of the expansion
    # (1e-7 to 1e-6).
    z, k = np.array(weights[0]), weights[1]
    first = int((z > 0).sum())
    np.testing.assert_allclose(
        inclusion(z, k)[[0, -1]], wallenius(z[0], first, len(z) - first, k), rtol=1e-10
    )


def patterns(n, rng):
    """Log-weights that try a solver which looks at a sample of every (n // 16384)-th arm first."""
    z = rng.normal(size=n)
    stride = n // 16384
    sampled = np.arange(n) % stride == 0
    yield "plain", z
    yield "sorted", np.sort(z)
    yield "falling", np.sort(z)[::-1].copy()
    yield "clustered", np.where(np.arange(n) < n // 3, 4.0, 0.0) + 0.05 * z
    yield "sampled arms low", np.where(sampled, z - 20, z)
    yield "sampled arms high", np.where(sampled, z + 5, z)
    yield "sampled arms alike", np.where(sampled, 0.0, 3 * z)
    yield "one dominates", np.append(z[:-1], 50.0)
    yield "one dominates, sampled", np.append(50.0, z[1:])
    yield "half negligible", np.where(np.arange(n) % 2 == 0, z, z - 60)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n", [32768, 50001, 300000])
def test_on_threads_as_on_one(n, design):
    for (name, z), share in product(patterns(n, np.random.default_rng(n)), [0.002, 0.3]):
        k = int(share * n)
        p = inclusion(z, k, design)
        truth = on_one_thread(z, k, design, 1e-10)
        there = truth > 1e-18  # `joint` counts no probability below dust
        assert relative_error(p[there], truth[there]) <= (
            1e-6 if design == "successive" else 1e-11
        ), (name, k)
        assert np.abs(p - truth).max() <= 1e-6
        assert sums_to(p, k), (name, k)
        assert ordered(z, p), (name, k)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_sample_that_promises_too_much(design):
    # Every sampled arm looks undecided; the cut lies among the others, five units apart, where next
    # to nothing is left to chance.
    n, k = 40000, 10000
    assert n // 16384 == 2
    z, others = np.zeros(n), 10 + 5.0 * np.arange(n // 2)
    z[1::2] = others
    p = inclusion(z, k, design)
    near = slice(n // 2 - k - 20, n // 2 - k + 20)  # e^-100 beyond
    np.testing.assert_allclose(
        p[1::2][near], inclusion(others[near], 20, design), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(p[1::2][near.stop :], 1, rtol=1e-12)
    np.testing.assert_allclose(p[1::2][: near.start], 0, atol=1e-12)
    np.testing.assert_allclose(p[::2], 0, atol=1e-12)


@pytest.mark.parametrize("k", [12, 400, 30000])
def test_successive_beyond_the_threads_against_the_definition(k):
    # Independent of both evaluations above: 3,000 of 60,000 arms are e^2 times as likely at each
    # draw.
    p = inclusion(two_kinds(3000, 57000, 2.0)[np.random.default_rng(0).permutation(60000)], k)
    np.testing.assert_allclose([p.max(), p.min()], wallenius(2.0, 3000, 57000, k), rtol=1e-6)


# Properties

values = st.one_of(st.floats(-40, 40), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 20.0]))
neighbours = st.integers(0, 3)  # ulps above


@st.composite
def problems(draw):
    """Log-weights [n] with ties and weights that differ by ulps or steps of the grid, k, and a
    design.
    """
    base = draw(st.lists(values, min_size=1, max_size=25))
    z = np.array(
        base
        + [
            _moved(draw(st.sampled_from(base)), draw(neighbours), draw(st.booleans()))
            for _ in range(draw(st.integers(0, 5)))
        ]
    )
    return z, draw(st.integers(0, len(z))), draw(st.sampled_from(DESIGNS))


def _moved(value, ulps, on_grid):
    if on_grid:
        return value + ulps * GRID
    for _ in range(ulps):
        value = np.nextafter(value, np.inf)
    return value


@settings(max_examples=300, deadline=None)
@given(problems())
@example((np.array([1e6, -1e6, 0.0, 1e6, 0.0]), 3, "successive"))
@example((np.append(np.zeros(299), 5 * GRID), 13, "joint"))
def test_inclusion_obeys_its_laws(problem):
    z, k, design = problem
    before = z.copy()
    z.flags.writeable = False
    p = inclusion(z, k, design)
    np.testing.assert_array_equal(z, before)
    assert p.shape == z.shape
    assert p.dtype == np.float64
    assert ((p >= 0) & (p <= 1)).all()
    assert sums_to(p, k)
    assert ordered(z, p)


@settings(max_examples=100, deadline=None)
@given(problems(), st.floats(-1e4, 1e4), st.randoms(use_true_random=False))
def test_inclusion_does_not_care_for_level_or_place(problem, level, random):
    # z + level rounds z by up to ulp(1e4)/2 = 9e-13 and puts it elsewhere on the grid: 1e-11 in
    # all. NOISE times ten for 30 arms.
    z, k, design = problem
    p = inclusion(z, k, design)
    np.testing.assert_allclose(inclusion(z + level, k, design), p, rtol=1e-9, atol=10 * NOISE)
    places = random.sample(range(len(z)), len(z))
    np.testing.assert_allclose(
        inclusion(z[places], k, design), p[places], rtol=1e-9, atol=10 * NOISE
    )


@settings(max_examples=100, deadline=None)
@given(problems())
def test_inclusion_grows_with_k(problem):
    z, k, design = problem
    if k < len(z):
        assert (inclusion(z, k + 1, design) >= inclusion(z, k, design) - 1e-11).all()


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n", [3, 30, 300, 3000, 40000])
def test_order_is_kept_between_neighbours(n, design):
    # Dozens of weights a few ulps, or one step of the grid, apart: wherever they stand, rounding
    # must not change their order.
    rng = np.random.default_rng(n)
    for _ in range(60 if n < 1000 else 12):
        k = int(rng.choice([rng.integers(1, n), max(1, n - rng.integers(1, 30))]))
        z = 10 ** rng.uniform(-1, 1) * rng.normal(size=n)
        size = int(rng.integers(2, n + 1))
        centre = rng.choice([z[0], z.max() + rng.integers(0, 15)])
        step = rng.choice([GRID, 2 * GRID, np.spacing(abs(centre))])
        z[:size] = centre + step * rng.integers(0, 50, size)
        rng.shuffle(z)
        p = inclusion(z, k, design)
        assert ordered(z, p), (k, size, centre, step)
        assert sums_to(p, k)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n", [3000, 40000])
def test_order_is_kept_between_ulps(n, design):
    # With this k the clocks, or coins, of weights near 1 are evaluated near e^0, where floats stand
    # closest.
    k = n // 2 if design == "joint" else int((1 - math.exp(-1)) * n)
    rng = np.random.default_rng(n)
    for scale in (1e-15, 1e-13, 1e-11, 1e-9, 1e-3):
        z = scale * rng.uniform(-1, 1, n)
        assert ordered(z, inclusion(z, k, design)), scale


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n", [40000, 200000])
def test_many_equal_terms_still_sum_to_k(n, design):
    # Equal terms round the same way each time, so a plain sum of n of them is off by up to n *
    # 1e-16.
    for z, k in product(
        [np.zeros(n), np.where(np.arange(n) < n // 3, 0.0, 2.0)], [20, n // 10, n - 20]
    ):
        assert sums_to(inclusion(z, k, design), k), k


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(problems(), st.integers(0, 2**32 - 1))
def test_draws_obey_their_laws(problem, seed):
    z, k, design = problem
    z.flags.writeable = False
    chosen = draw(z, k, np.random.default_rng(seed), design)
    assert len(chosen) == k
    assert chosen.dtype == np.int64
    assert (np.diff(chosen) > 0).all()
    assert k == 0 or (chosen[0] >= 0 and chosen[-1] < len(z))
    np.testing.assert_array_equal(chosen, draw(z, k, np.random.default_rng(seed), design))


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n", [65, 511, 512, 700, 5000, 70000])
def test_large_draws_obey_their_laws(n, design):
    rng = np.random.default_rng(n)
    for k, spread in product([1, 63, 64, 65, n // 3, n - 2], [0.0, 1.0, 30.0, 1e6]):
        if k > n:
            continue
        z = spread * rng.normal(size=n)
        z.flags.writeable = False
        chosen = draw(z, k, np.random.default_rng(k), design)
        assert len(chosen) == k
        assert (np.diff(chosen) > 0).all()
        assert chosen[0] >= 0
        assert chosen[-1] < n
        np.testing.assert_array_equal(chosen, draw(z, k, np.random.default_rng(k), design))
        if (
            spread == 1e6
        ):  # gaps near the cut are of 1e6/n and more: chance decides between a few at most
            best = np.sort(np.argsort(z)[n - k :])
            assert len(np.setdiff1d(chosen, best)) <= 3


@pytest.mark.parametrize("design", DESIGNS)
def test_a_generator_goes_on(design):
    rng = np.random.default_rng(0)
    assert len({tuple(draw(np.zeros(30), 15, rng, design)) for _ in range(20)}) == 20


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n", [40000, 300000])
def test_threads_do_not_change_the_answer(n, design):
    z = np.random.default_rng(n).normal(size=n)
    before = get_threads()
    try:
        answers = []
        for threads in (1, 2):
            set_threads(threads)
            answers.append(
                (inclusion(z, n // 10, design), draw(z, n // 10, np.random.default_rng(0), design))
            )
    finally:
        set_threads(before)
    np.testing.assert_array_equal(*[p for p, _ in answers])
    np.testing.assert_array_equal(*[chosen for _, chosen in answers])


def by_rule(scores, rule, k, key=0):
    """chosen [n] as the kernels have it."""
    chosen = np.full(len(scores), 7, np.uint8)
    select(
        np.asarray(scores, dtype=np.float64),
        1.0,
        rule,
        k,
        np.uint64(key),
        np.empty(3 * len(scores)),
        chosen,
    )
    return chosen


@pytest.mark.parametrize("n", [1, 2, 10, 511, 512, 513, 5000, 65536, 70001])
def test_top_is_the_top(n):
    # Distinct scores in orders that mislead a selection by samples or by pivots.
    rng = np.random.default_rng(n)
    up = np.arange(n, dtype=float)
    shapes = [
        up,
        up[::-1],
        rng.permutation(up),
        np.where(up % 2 == 0, up, -up),
        np.abs(up - n // 2) + up / (3 * n),
        np.exp(rng.permutation(up) % 700),
    ]
    stride = max(n // 1024, 1) if n >= 65536 else max(n // 128, 1)
    shapes += [np.where(up % stride == 0, n + up, up), np.where(up % stride == 0, -up - 1, up)]
    for scores in shapes:
        scores = np.argsort(np.argsort(scores, kind="stable"), kind="stable").astype(
            float
        )  # ranks: no ties
        for k in {0, 1, n // 100, n // 2, n - 1, n}:
            np.testing.assert_array_equal(by_rule(scores, int(RuleCode.TOP), k), scores >= n - k)


@pytest.mark.parametrize("n", [5, 600, 70000])
def test_top_with_ties_takes_all_above_and_exactly_k(n):
    rng = np.random.default_rng(n)
    for levels, k in product([1, 3, 20], [1, n // 2, n - 1]):
        scores = rng.integers(0, levels, n).astype(float)
        chosen = by_rule(scores, int(RuleCode.TOP), k)
        share = inclusion_of_top(scores, k)
        assert chosen.sum() == k
        assert (chosen[share == 1] == 1).all()
        assert (chosen[share == 0] == 0).all()


@pytest.mark.parametrize("n", [2, 7, 1000, 100000])
def test_rounding_selects_exactly_k(n):
    rng = np.random.default_rng(n)
    for k in {1, n // 3, n // 2, n - 1}:
        for p in (
            inclusion(rng.normal(size=n), k),
            np.full(n, k / n),
            np.sort(inclusion(5 * rng.normal(size=n), k, "joint")),
        ):
            for key in range(3):
                chosen = by_rule(p, int(RuleCode.ROUNDED), k, key)
                assert chosen.sum() == k
                assert (chosen[p == 1] == 1).all()
                assert (chosen[p == 0] == 0).all()


# Statistics


def allowance(variance, comparisons):
    """How far a count may be from its mean.

    Bernstein's inequality, Pr(|X - EX| > t) <= 2 exp(-t^2 / (2 variance + 2 t / 3)), at a
    false-alarm rate shared by all comparisons. It holds for sums of independent and of negatively
    associated zeros and ones.
    """
    L = np.log(2 * comparisons / FALSE_ALARM)
    return L / 3 + np.sqrt(L * L / 9 + 2 * variance * L)


@njit
def selections(scores, rule, k, seed, draws, first):
    """Draws with keys mix(seed, r).

    How often each arm is chosen [n], how often j are among arms < first [k + 1], sets as bits
    [draws].
    """
    n = len(scores)
    scratch, chosen = np.empty(3 * n), np.empty(n, np.uint8)
    times, members, sets = np.zeros(n), np.zeros(k + 1), np.zeros(draws, np.int64)
    for r in range(draws):
        select(scores, 1.0, rule, k, mix(seed, r), scratch, chosen)
        inside = 0
        for i in range(n):
            times[i] += chosen[i]
            if i < first:
                inside += chosen[i]
            if n < 60:
                sets[r] |= np.int64(chosen[i]) << i
        members[inside] += 1.0
    return times, members, sets


def assert_frequencies(times, p, draws):
    off = np.abs(times - draws * p) - allowance(draws * p * (1 - p), len(p))
    assert off.max() <= 0, (int(off.argmax()), times[off.argmax()] / draws, p[off.argmax()])


def assert_law(seen, chances):
    """Chi-square: counts against their law, cells of fewer than 10 expected taken together."""
    expected = chances * seen.sum()
    assert seen[expected == 0].sum() == 0
    small = expected < 10
    cells = np.append(expected[~small], expected[small].sum())
    counts = np.append(seen[~small], seen[small].sum())
    cells, counts = cells[cells > 0], counts[cells > 0]
    assert len(cells) > 1
    statistic = ((counts - cells) ** 2 / cells).sum()
    assert chi2.sf(statistic, len(cells) - 1) > FALSE_ALARM, statistic


RULE = {"successive": int(RuleCode.SUCCESSIVE), "joint": int(RuleCode.JOINT)}


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    ("z", "k"),
    [
        ([1.0, -0.5, 0.0, 2.0, -2.0, 0.3], 3),
        (
            list(np.log([0.5, 0.08, 0.21, 0.21])),
            2,
        ),  # the witness that `successive` breaks the order of sets
        ([4.0, 0.0, 0.0, -3.0, -3.0], 4),
        ([0.0] * 6, 2),
    ],
)
def test_sets_are_drawn_by_their_law(design, z, k):
    z = np.array(z)
    law = law_of_sets(z, k, design)
    _, _, sets = selections(z, RULE[design], k, 1, 200_000, 0)
    codes = {sum(1 << i for i in chosen): chance for chosen, chance in law.items()}
    assert set(np.unique(sets)) <= set(codes)
    assert_law(np.array([(sets == code).sum() for code in codes]), np.array(list(codes.values())))


# `joint` draws arm by arm up to 64 arms, and as long as n (k + 9) <= 16384; beyond that a tree of
# 64-arm leaves splits the count.
SIZES = [
    (5, 2, 100_000),
    (64, 20, 20_000),
    (65, 30, 20_000),
    (500, 7, 20_000),
    (1000, 7, 20_000),  # 16,000: still one table
    (1000, 8, 20_000),  # 17,000: 16 leaves
    (130, 118, 20_000),  # three leaves, two arms in the last
    (300, 100, 20_000),  # five leaves: one goes up a level without a partner, twice
    (577, 290, 10_000),  # ten leaves, one arm in the last
    (1000, 300, 10_000),
    (1000, 960, 10_000),
]


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("n", "k", "draws"), SIZES)
def test_frequencies_are_the_inclusion(design, n, k, draws):
    for seed, spread in enumerate([1.0, 4.0]):
        z = spread * np.random.default_rng([n, k]).normal(size=n)
        times, _, _ = selections(z, RULE[design], k, seed, draws // 2, 0)
        assert times.sum() == k * (draws // 2)
        assert_frequencies(times, inclusion(z, k, design), draws // 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "first"),
    [
        (60, 20, 30),
        (300, 100, 64),
        (300, 100, 128),
        (300, 100, 256),
        (1000, 300, 512),
        (130, 118, 128),
    ],
)
def test_joint_splits_the_count_by_its_law(n, k, first):
    # Members among the first arms: Pr(j) in proportion to Pr(N_first = j) Pr(N_rest = k - j), the
    # coins' tilt cancelling. The mean alone would not notice a split that is too wide or too
    # narrow.
    z = np.random.default_rng([n, k]).normal(size=n)
    q = 1 / (1 + np.exp(-z - solved(z, k, lambda x: 1 / (1 + np.exp(-x)))))
    law = count_law(q[:first], k) * count_law(q[first:], k)[::-1]
    _, members, _ = selections(z, int(RuleCode.JOINT), k, 3, 20_000, first)
    assert_law(members, law / law.sum())


@njit
def meetings(scores, rule, k, seed, draws, lag):
    """How many arms i and i + lag are chosen together [draws]."""
    n = len(scores)
    scratch, chosen = np.empty(3 * n), np.empty(n, np.uint8)
    together = np.zeros(draws)
    for r in range(draws):
        select(scores, 1.0, rule, k, mix(seed, r), scratch, chosen)
        for i in range(n - lag):
            together[r] += chosen[i] * chosen[i + lag]
    return together


@pytest.mark.slow
@pytest.mark.parametrize("lag", [1, 64])
@pytest.mark.parametrize(("n", "k"), [(300, 100), (1000, 300)])
def test_joint_draws_pairs_by_their_law(n, k, lag):
    # Pr(i and j in) = (w_i p_j - w_j p_i) / (w_i - w_j): arms of two leaves (64 apart) are no more
    # alike than any others. The mean of 4000 draws is normal enough (a bounded sum of some hundred
    # terms each) for a z-score at the false-alarm rate: 4.9.
    draws = 4000
    z = np.random.default_rng([n, k]).normal(size=n)
    p, w = inclusion(z, k, "joint"), np.exp(z)
    expected = math.fsum((w[:-lag] * p[lag:] - w[lag:] * p[:-lag]) / (w[:-lag] - w[lag:]))
    together = meetings(z, int(RuleCode.JOINT), k, 8, draws, lag)
    assert abs(together.mean() - expected) <= 4.9 * together.std() / math.sqrt(draws)


@pytest.mark.parametrize("design", DESIGNS)
def test_draw_is_the_kernels_draw(design):
    # The public function adds no more than a key: frequencies over one generator.
    z, k, draws = np.array([1.0, 0.0, -1.0, 2.0, 0.5, 0.5]), 3, 4000
    rng = np.random.default_rng(5)
    times = np.bincount(
        np.concatenate([draw(z, k, rng, design) for _ in range(draws)]), minlength=6
    )
    assert_frequencies(times, inclusion(z, k, design), draws)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_deciles_at_scale(design):
    # Members of a decile are negatively associated in both designs (conditioned coins, and a race),
    # so `allowance` holds for their number: about 2 in a thousand of it here.
    n, k, draws = 200_000, 20_000, 40
    z = np.random.default_rng(9).normal(size=n)
    p = inclusion(z, k, design)
    times, _, _ = selections(z, RULE[design], k, 11, draws, 0)
    assert times.sum() == k * draws
    deciles = np.argsort(z).reshape(10, -1)
    expected, variance = draws * p[deciles].sum(axis=1), draws * (p * (1 - p))[deciles].sum(axis=1)
    assert (np.abs(times[deciles].sum(axis=1) - expected) <= allowance(variance, 10)).all()
    assert (times <= draws * p + allowance(draws * p * (1 - p), n)).all()


@pytest.mark.parametrize("design", [pytest.param("successive", marks=pytest.mark.slow), "joint"])
def test_draws_at_wide_spreads(design):
    # Two are certain, one of three that are near each other is drawn, the rest never: by the
    # weights of the three alone.
    z, k, draws = np.array([1e6, 0.0, 1.0, -0.5, -1e6, 1e6 + 3, -1e6]), 3, 20_000
    times, _, _ = selections(z, RULE[design], k, 2, draws, 0)
    np.testing.assert_array_equal(times[[0, 4, 5, 6]], [draws, 0, draws, 0])
    assert_frequencies(times[1:4], softmax(z[1:4]), draws)
    many = np.repeat([1e6, 0.0, -1e6], [100, 600, 300])  # through the tree
    times, _, _ = selections(many, RULE[design], 400, 2, 2000, 0)
    assert (times[:100] == 2000).all()
    assert (times[700:] == 0).all()
    assert_frequencies(times[100:700], np.full(600, 0.5), 2000)


@pytest.mark.parametrize(
    ("n", "above", "tied", "k"),
    [(6, 1, 3, 3), (8, 0, 8, 3), (600, 100, 300, 250), (1000, 0, 1000, 10)],
)
def test_ties_at_the_top_are_broken_evenly(n, above, tied, k):
    scores = np.random.default_rng(n).permutation(
        np.repeat([2.0, 1.0, 0.0], [above, tied, n - above - tied])
    )
    draws = 40_000 if n < 100 else 10_000
    times, _, sets = selections(scores, int(RuleCode.TOP), k, 4, draws, 0)
    assert_frequencies(times, inclusion_of_top(scores, k), draws)
    if n < 60:  # and every set of those tied is as likely as another
        cells = math.comb(tied, k - above)
        codes, seen = np.unique(sets, return_counts=True)
        assert len(codes) == cells
        assert_law(seen, np.full(cells, 1 / cells))


@pytest.mark.parametrize(
    "p",
    [
        [0.5, 0.5],
        [0.9, 0.8, 0.2, 0.1],
        [1.0, 0.0, 0.3, 0.3, 0.4, 1.0, 0.0],
        [0.25] * 8,
        list(inclusion(np.random.default_rng(0).normal(size=1000), 150)),
        list(inclusion(4 * np.random.default_rng(0).normal(size=300), 150, "joint")),
    ],
)
def test_rounding_keeps_the_probabilities(p):
    p = np.array(p)
    k = round(p.sum())
    draws = 40_000 if len(p) < 100 else 10_000
    times, members, _ = selections(p, int(RuleCode.ROUNDED), k, 6, draws, len(p))
    assert members[k] == draws
    assert_frequencies(times, p, draws)


def test_rounding_leaves_no_pair_out():
    # Arms meet in random order, so any two can be chosen together unless their probabilities forbid
    # it.
    _, _, sets = selections(np.full(6, 1 / 3), int(RuleCode.ROUNDED), 2, 7, 20_000, 0)
    assert len(np.unique(sets)) == math.comb(6, 2)
