"""The two sampling designs: how k of n arms are drawn from log-weights, and how likely each arm is to be among them.

``successive`` (the paper)
    Draw one arm with probability w_i / sum w, remove it, repeat k times. Equivalently the first k of independent exponential clocks
    of rate w_i.
``joint`` (beyond the paper)
    Pr(set) proportional to the product of the weights of its members, over all sets of size k (conditional Poisson sampling). With
    w = exp(c lambda) this is the softmax over joint actions, so that Definition 1 of the paper holds for sets, not for arms alone.

Accuracy of ``inclusion``. Below n = 1000 it is exact to 1e-10. From n = 1000 on an O(n) evaluation is used wherever its own estimate
of its relative error is below 5e-7 (`successive`; `joint` is exact to 5e-12 throughout). The estimate fails only where chance has
little to decide: V = sum q (1 - q) of about 5 or less, because k or n - k is tiny or because a few arms outweigh all others. There
the exact evaluation takes over, which costs n times the width of the count's distribution at each of some fifty nodes (seconds at a
million arms); it leaves out what is below 1e-12 in all, so that chances of that size keep few digits. Weights are rounded to a grid of
3.6e-12 relative, which makes the order of inclusion the order of weights to the bit.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, refuse, whole
from .kernels import draws
from .kernels import inclusion as kernels
from .kernels.order import WIDE, clip_decided
from .kernels.threads import map_parts

__all__ = ["Design", "draw", "inclusion", "inclusion_of_top"]

Design = Literal["successive", "joint"]
DESIGNS = {"successive": kernels.SUCCESSIVE, "joint": kernels.JOINT}

EXACT_BELOW = 1000  # arms
FINE, COARSE = (
    1e-10,
    5e-7,
)  # relative error of the O(n) evaluation that is accepted below, and from, EXACT_BELOW arms on
LARGE = 32768  # arms from which the work is shared among threads
BEYOND_REACH = (
    1e100  # a multiplier that puts any two scores that differ further apart than chance can reach
)
PART = 500_000  # arms a task: fewer take a millisecond, which is not worth sharing

Floats = NDArray[np.float64]


def inclusion(log_weights: ArrayLike, k: int, design: Design = "successive") -> Floats:
    """Pr(arm i is among the k drawn) [n]; sums to k and has the order of the weights.

    >>> import numpy as np
    >>> inclusion(np.log([0.5, 0.3, 0.2]), 1).round(6)
    array([0.5, 0.3, 0.2])
    """
    given, code = _vector(log_weights), _code(design)
    n = len(given)
    k = whole("k", k, 0, n, f", the arms are {n}")
    if k in (0, n):
        _refuse_nan(given)
        return np.full(n, 1.0 if k else 0.0)
    out = np.empty(n)
    if n >= LARGE and _inclusion_in_parts(given, k, code, out):
        return out
    _refuse_nan(given)
    given = given.copy()
    clip_decided(given, k, out)
    top, tolerance = given.max(), FINE if n < EXACT_BELOW else COARSE
    guess = kernels.guess_shift(given, top, float(k))
    if code == kernels.SUCCESSIVE:
        _, exact = kernels.successive_inclusion(
            given, top, k, tolerance, guess, kernels.SERIES, out
        )
    else:
        _, exact = kernels.joint_inclusion(given, top, k, guess, out)
    if exact:  # where rounding has put chances out of the order of the weights, lift them to the largest of those that weigh less
        order = np.argsort(given)
        out[order] = np.maximum.accumulate(out[order])
    return out


def draw(
    log_weights: ArrayLike, k: int, rng: np.random.Generator, design: Design = "successive"
) -> NDArray[np.int64]:
    """k arms drawn by the design: indices, sorted. Exact at any n and any spread of weights."""
    given, code = _vector(log_weights), _code(design)
    _refuse_nan(given)
    n = len(given)
    k = whole("k", k, 0, n, f", the arms are {n}")
    chosen = np.empty(n, np.uint8)
    draws.select(given, 1.0, code, k, new_key(rng), np.empty(3 * n), chosen)
    return np.flatnonzero(chosen)


def inclusion_of_top(scores: ArrayLike, k: int) -> Floats:
    """Inclusion of the deterministic rule "the k highest scores", those tied for the last places sharing them evenly [n]."""
    values = _vector(scores)
    _refuse_nan(values)
    k = whole("k", k, 0, len(values), f", the arms are {len(values)}")
    if k == 0:
        return np.zeros(len(values))
    cut = np.partition(values, -k)[-k]
    above, tied = values > cut, values == cut
    share: Floats = above + tied * ((k - above.sum()) / tied.sum())
    return share


def new_key(rng: np.random.Generator) -> np.uint64:
    """A key for the counter-based randomness of the kernels."""
    if not hasattr(rng, "integers"):  # whatever draws like a generator will do
        raise InvalidInput(f"rng is {rng!r}; give a generator, such as np.random.default_rng(seed)")
    return rng.integers(0, 2**64, dtype=np.uint64)


def _vector(values: ArrayLike) -> Floats:
    try:
        given = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            "log-weights are not an array of numbers; give one number an arm"
        ) from None
    if given.ndim != 1 or not len(given):
        raise InvalidInput(f"log-weights have shape {given.shape}; give one number an arm, n >= 1")
    return given


def _refuse_nan(given: Floats) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(given.sum()):  # one cheap pass in the usual case
            return
    refuse(np.isnan(given), given, "log_weights", "give a number for each arm")


def _code(design: str) -> int:
    if design not in DESIGNS:
        raise InvalidInput(f"design is {design!r}; choose one of {', '.join(map(repr, DESIGNS))}")
    return DESIGNS[design]


def _inclusion_in_parts(z: Floats, k: int, design: int, out: Floats) -> bool:
    """`inclusion` by its O(n) way alone, shared among threads; False if its estimate of the error is too large.

    The shift u comes from a sample of the arms. The pass that gathers the moments also tells how the count bends with u, which
    corrects u to fourth order; it is made again only if the sample misled by more than a fiftieth.
    """
    n = len(z)
    sample = np.ascontiguousarray(z[:: n // 16384])
    top = sample.max()  # near the top is near enough
    if not np.isfinite(
        top
    ):  # a NaN or an infinity among the weights, which the careful way deals with
        return False
    share = k * len(sample) / n
    u = kernels.shift(
        sample, top, share, design, kernels.guess_shift(sample, top, share), 1e-3 * share
    )
    bracket = np.array([-np.inf, np.inf, u])
    order, powers = 1, 0
    if design == kernels.JOINT:
        variance = (
            kernels.expected_count(0, len(sample), sample, top, u, design)[1] * n / len(sample)
        )
        powers = kernels.joint_powers(0.9 * variance, n)
    while True:
        if design == kernels.SUCCESSIVE:
            gather, more = (
                (kernels.first_moments, out) if order == 1 else (kernels.successive_moments, order)
            )
            moments = np.sum(map_parts(gather, n, PART, z, top, u, more), axis=0)
            count, slope, bend, twist = kernels.successive_derivatives(moments)
        else:
            if powers > kernels.MOST_POWERS:
                return False
            moments = np.sum(map_parts(kernels.joint_moments, n, PART, z, top, u, powers), axis=0)
            _, y1, y2, y3, y4 = moments[:5]
            count, slope, bend, twist = (
                (n + y1) / 2,
                (n - y2) / 4,
                (y3 - y1) / 4,
                (-0.5 * n + 2 * y2 - 1.5 * y4) / 4,
            )
        if (
            not np.isfinite(count) or abs(u) > WIDE
        ):  # a NaN that the sample missed, or weights too far apart
            return False
        step, near = kernels.polish(
            u, count, slope, bend, twist, float(k), kernels.reach_for(COARSE), bracket
        )
        if (
            design == kernels.JOINT and abs(step) * slope**0.5 < 1
        ):  # any u serves whose expected count is within a sd of k
            if powers >= kernels.joint_powers(slope, n):
                break
            powers = kernels.joint_powers(slope, n)  # the sample promised a wider count than it is
            continue
        u += step
        if design == kernels.SUCCESSIVE and near:
            kernels.move_moments(moments, step)
            error = kernels.estimated_error(moments, kernels.SERIES, -np.inf, np.inf)
            if error > COARSE:  # for any weights, that is; these may have a narrower range
                error = kernels.estimated_error(
                    moments, kernels.SERIES, z.min() - top + u, z.max() - top + u
                )
            if order > 1 or error <= COARSE:
                break
        order = kernels.MOST_ORDER if near else 1
    if design == kernels.SUCCESSIVE:
        if not error <= COARSE:
            return False
        coefficients = np.zeros_like(moments)
        kernels.successive_coefficients(moments, kernels.SERIES, 1, order, coefficients)
        if order == 1:
            parts = np.array(
                map_parts(kernels.first_map, n, PART, float(np.exp(step)), coefficients, out)
            )
        else:
            parts = np.array(
                map_parts(kernels.successive_map, n, PART, z, top, u, coefficients, out)
            )
    else:
        coefficients = np.empty(powers)
        kernels.joint_coefficients(moments, float(k), slope, coefficients)
        parts = np.array(map_parts(kernels.joint_map, n, PART, z, top, u, coefficients, out))
    map_parts(kernels.settle, n, PART, out, float(k), parts[:, 0].sum(), parts[:, 1].sum())
    return True
