"""The two sampling designs: how k of n arms are drawn from log-weights, and each arm's chance.

``successive`` (the paper)
    Draw one arm with probability w_i / sum w, remove it, repeat k times. Equivalently the first k
    of independent exponential clocks of rate w_i.
``joint`` (beyond the paper)
    Pr(set) proportional to the product of the weights of its members, over all sets of size k
    (conditional Poisson sampling). With w = exp(c lambda) this is the softmax over joint actions,
    so that Definition 1 of the paper holds for sets and not only for arms.

Accuracy of :func:`inclusion`. Below 1000 arms it is exact to 1e-10. From 1000 arms on an O(n)
evaluation is used where its own estimate of its relative error is below 5e-7 (`successive`; `joint`
is exact to 5e-12 throughout). The estimate exceeds that only where little is left to chance,
V = sum q (1 - q) of about 5 or less, because k or n - k is tiny or because a few arms outweigh all
others. There the exact evaluation is used, which costs n times the width of the distribution of the
count at each of some fifty nodes (seconds at a million arms). It drops what is below 1e-12 in all,
so that chances of that size keep few digits. Weights are rounded to a relative grid of 3.6e-12,
which makes the order of the inclusion probabilities equal to the order of the weights to the bit.
"""

from __future__ import annotations

import math
import numbers
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, refuse, whole
from .kernels import draws, expansion, fourier
from .kernels.inclusion import joint_inclusion, restore_sum, successive_inclusion
from .kernels.order import WIDE, clip_decided
from .kernels.rules import RuleCode
from .kernels.shift import expected_count, guess_shift, polish, reach_for, shift
from .kernels.threads import map_parts

__all__ = [
    "DESIGNS",
    "Design",
    "design_code",
    "draw",
    "inclusion",
    "inclusion_of_top",
    "multiplier",
    "new_key",
]

Design = Literal["successive", "joint"]
DESIGNS = {"successive": RuleCode.SUCCESSIVE, "joint": RuleCode.JOINT}

EXACT_BELOW = 1000  # arms
# Relative error of the O(n) evaluation that is accepted below, and from, EXACT_BELOW arms on.
FINE, COARSE = 1e-10, 5e-7
LARGE = 32768  # arms from which on the work is shared among threads
PART = 500_000  # arms a task; fewer take less than a millisecond
SAMPLE = 16384  # arms of the sample that gives the first guess of the shift
BEYOND_REACH = 1e100  # from this multiplier on, any two scores that differ are decided by rank

Floats = NDArray[np.float64]


def inclusion(log_weights: ArrayLike, k: int, design: Design = "successive") -> Floats:
    """Probability that each arm is among the k drawn.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights; infinite entries are allowed.
    k : int
        Number of arms drawn, 0 <= k <= n.
    design : {"successive", "joint"}
        Sampling design, see :mod:`softfair.sampling`.

    Returns
    -------
    ndarray [n]
        Pr(a_i = 1); it sums to k and has the order of the weights.

    Raises
    ------
    InvalidInput
        A log-weight is not a number, k is not between 0 and n, or the design is unknown.

    Examples
    --------
    One draw is the softmax; two draws favour the heavy arm less.

    >>> import numpy as np
    >>> import softfair as sf
    >>> sf.sampling.inclusion(np.log([0.5, 0.3, 0.2]), 1).round(6)
    array([0.5, 0.3, 0.2])
    >>> sf.sampling.inclusion(np.log([0.5, 0.3, 0.2]), 2, "joint").round(6)
    array([0.806452, 0.677419, 0.516129])
    """
    z, code = _vector(log_weights), design_code(design)
    n = len(z)
    k = whole("k", k, 0, n, f", the arms are {n}")
    if k in (0, n):
        _refuse_nan(z)
        return np.full(n, 1.0 if k else 0.0)
    out = np.empty(n)
    if n >= LARGE and _inclusion_in_parts(z, k, code, out):
        return out
    _refuse_nan(z)
    z = z.copy()
    clip_decided(z, k, out)
    top, tolerance = z.max(), FINE if n < EXACT_BELOW else COARSE
    guess = guess_shift(z, top, float(k))
    if code is RuleCode.SUCCESSIVE:
        _, exact = successive_inclusion(z, top, k, tolerance, guess, expansion.SERIES, out)
    else:
        _, exact = joint_inclusion(z, top, k, guess, out)
    if exact:
        # Rounding may have put chances of nearly equal weights out of order: raise each to the
        # largest chance of the arms that weigh no more.
        order = np.argsort(z)
        out[order] = np.maximum.accumulate(out[order])
    return out


def draw(
    log_weights: ArrayLike, k: int, rng: np.random.Generator, design: Design = "successive"
) -> NDArray[np.int64]:
    """Draw k arms by the design, exactly at any n and any spread of weights.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights; infinite entries are allowed.
    k : int
        Number of arms to draw, 0 <= k <= n.
    rng : numpy.random.Generator
        Source of randomness; one 64-bit integer is taken from it.
    design : {"successive", "joint"}
        Sampling design, see :mod:`softfair.sampling`.

    Returns
    -------
    ndarray [k]
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput
        A log-weight is not a number, k is not between 0 and n, the design is unknown, or ``rng``
        is not a generator.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> sf.sampling.draw([0.0, 0.0, np.inf, -np.inf], 3, np.random.default_rng(0))
    array([0, 1, 2])
    """
    z, code = _vector(log_weights), design_code(design)
    _refuse_nan(z)
    n = len(z)
    k = whole("k", k, 0, n, f", the arms are {n}")
    chosen = np.empty(n, np.uint8)
    draws.select(z, 1.0, int(code), k, new_key(rng), np.empty(3 * n), chosen)
    return np.flatnonzero(chosen)


def inclusion_of_top(scores: ArrayLike, k: int) -> Floats:
    """Inclusion of the rule "the k highest scores", ties broken at random.

    Parameters
    ----------
    scores : array_like [n]
        What ranks the arms.
    k : int
        Number of arms chosen, 0 <= k <= n.

    Returns
    -------
    ndarray [n]
        1 above the k-th highest score, 0 below it; arms tied with it share the places left.

    Raises
    ------
    InvalidInput
        A score is not a number, or k is not between 0 and n.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.sampling.inclusion_of_top([3, 1, 1, 0], 2)
    array([1. , 0.5, 0.5, 0. ])
    """
    values = _vector(scores)
    _refuse_nan(values)
    k = whole("k", k, 0, len(values), f", the arms are {len(values)}")
    if k == 0:
        return np.zeros(len(values))
    cut = np.partition(values, -k)[-k]
    above, tied = values > cut, values == cut
    share: Floats = above + tied * ((k - above.sum()) / tied.sum())
    return share


def multiplier(
    c: float, name: str = "c", hint: str = " (0: everybody alike, inf: the k who gain most)"
) -> float:
    """Check a multiplier, and return ``math.inf`` if it counts as infinite.

    This is the only place that decides whether a finite multiplier counts as infinite.

    Parameters
    ----------
    c : float
        The multiplier as the caller gave it.
    name : str
        What the error message calls it.
    hint : str
        What the error message adds after "give a number >= 0".

    Returns
    -------
    float
        c, or ``math.inf`` for c > 1e100: scores that differ are then ordered by rank alone, and
        products with scores could overflow.

    Raises
    ------
    InvalidInput
        c is not a number >= 0.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.sampling.multiplier(10), sf.sampling.multiplier(1e200)
    (10.0, inf)
    """
    if not isinstance(c, numbers.Real) or not c >= 0:
        raise InvalidInput(f"{name} is {c!r}; give a number >= 0{hint}")
    value = float(c)
    return math.inf if value > BEYOND_REACH else value


def design_code(design: str) -> RuleCode:
    """The code of a design by its name.

    Parameters
    ----------
    design : str
        "successive" or "joint".

    Returns
    -------
    RuleCode
        SUCCESSIVE or JOINT.

    Raises
    ------
    InvalidInput
        There is no such design.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.sampling.design_code("joint").name
    'JOINT'
    """
    if design not in DESIGNS:
        raise InvalidInput(f"design is {design!r}; choose one of {', '.join(map(repr, DESIGNS))}")
    return DESIGNS[design]


def new_key(rng: np.random.Generator) -> np.uint64:
    """A key for the counter-based random numbers of the kernels.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the key is drawn from.

    Returns
    -------
    numpy.uint64
        64 random bits.

    Raises
    ------
    InvalidInput
        ``rng`` has no method ``integers``.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> sf.sampling.new_key(np.random.default_rng(0)).dtype
    dtype('uint64')
    """
    if not hasattr(rng, "integers"):  # anything that draws like a generator will do
        raise InvalidInput(f"rng is {rng!r}; give a generator, such as np.random.default_rng(seed)")
    return rng.integers(0, 2**64, dtype=np.uint64)


def _vector(values: ArrayLike) -> Floats:
    """The values as a contiguous array [n], n >= 1."""
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
    """Raise if a value is not a number; infinities are allowed."""
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(given.sum()):  # one cheap pass in the usual case
            return
    refuse(np.isnan(given), given, "log_weights", "give a number for each arm")


def _inclusion_in_parts(z: Floats, k: int, code: RuleCode, out: Floats) -> bool:
    """`inclusion` by the O(n) evaluation, shared among threads; False where it does not serve.

    The first guess of the shift u comes from a sample of the arms. Infinite log-weights, NaN and
    weights that are too far apart are left to the evaluation on one thread.
    """
    n = len(z)
    sample = np.ascontiguousarray(z[:: n // SAMPLE])
    top = sample.max()  # approximately the maximum, which is enough
    if not np.isfinite(top):
        return False
    k_sample = k * len(sample) / n
    guess = guess_shift(sample, top, k_sample)
    u = shift(sample, top, k_sample, int(code), guess, 1e-3 * k_sample)
    if code is RuleCode.SUCCESSIVE:
        sums = _successive_in_parts(z, top, k, u, out)
    else:
        variance = expected_count(0, len(sample), sample, top, u, int(code))[1] * n / len(sample)
        sums = _joint_in_parts(z, top, k, u, fourier.joint_powers(0.9 * variance, n), out)
    if sums is None:
        return False
    map_parts(restore_sum, n, PART, out, float(k), *sums)
    return True


def _successive_in_parts(
    z: Floats, top: float, k: int, u: float, out: Floats
) -> tuple[float, float] | None:
    """Fill out by the expansion; (sum p, sum p (1 - p)), or None if its error is too large.

    The pass that gathers the moments also gives three derivatives of the count in u, which correct
    u to fourth order. A second pass is needed only if the sample's u was off by more than a
    fiftieth, or if the first order is not accurate enough.
    """
    n, order = len(z), 1
    bracket = np.array([-np.inf, np.inf, u])
    while True:
        if order == 1:
            parts = map_parts(expansion.first_moments, n, PART, z, top, u, out)
        else:
            parts = map_parts(expansion.successive_moments, n, PART, z, top, u, order)
        moments = np.sum(parts, axis=0)
        derivatives = expansion.successive_derivatives(moments)
        if _out_of_reach(derivatives[0], u):
            return None
        step, near = polish(u, *derivatives, float(k), reach_for(COARSE), bracket)
        u += step
        if not near:
            order = 1
            continue
        expansion.move_moments(moments, step)
        if _error_of_expansion(moments, z, top, u) <= COARSE:
            break
        if order > 1:
            return None
        order = expansion.MOST_ORDER
    coefficients = np.zeros_like(moments)
    expansion.successive_coefficients(moments, expansion.SERIES, 1, order, coefficients)
    if order == 1:
        sums = map_parts(expansion.first_map, n, PART, math.exp(step), coefficients, out)
    else:
        sums = map_parts(expansion.successive_map, n, PART, z, top, u, coefficients, out)
    total, spread = np.sum(sums, axis=0)
    return total, spread


def _error_of_expansion(moments: Floats, z: Floats, top: float, u: float) -> float:
    """The estimated error: for weights of any range, and for the range of these if that fails."""
    error: float = expansion.estimated_error(moments, expansion.SERIES, -np.inf, np.inf)
    if error > COARSE:
        low, high = z.min() - top + u, z.max() - top + u
        error = expansion.estimated_error(moments, expansion.SERIES, low, high)
    return error


def _joint_in_parts(
    z: Floats, top: float, k: int, u: float, powers: int, out: Floats
) -> tuple[float, float] | None:
    """Fill out by the Fourier integral; (sum p, sum p (1 - p)), or None if V is too small.

    Any u serves whose expected count is within a standard deviation of k.
    """
    n = len(z)
    bracket = np.array([-np.inf, np.inf, u])
    while powers <= fourier.MOST_POWERS:
        parts = map_parts(fourier.joint_moments, n, PART, z, top, u, powers)
        moments = np.sum(parts, axis=0)
        _, y1, y2, y3, y4 = moments[:5]
        count, slope = (n + y1) / 2, (n - y2) / 4
        bend, twist = (y3 - y1) / 4, (-0.5 * n + 2 * y2 - 1.5 * y4) / 4
        if _out_of_reach(count, u):
            return None
        step, _ = polish(u, count, slope, bend, twist, float(k), reach_for(COARSE), bracket)
        if step * step * slope >= 1:
            u += step
            continue
        needed = fourier.joint_powers(slope, n)
        if powers >= needed:
            coefficients = np.empty(powers)
            fourier.joint_coefficients(moments, float(k), slope, coefficients)
            sums = map_parts(fourier.joint_map, n, PART, z, top, u, coefficients, out)
            total, spread = np.sum(sums, axis=0)
            return total, spread
        powers = needed  # the count varies less than the sample's did
    return None


def _out_of_reach(count: float, u: float) -> bool:
    """Whether the arms hold a NaN that the sample missed, or weights that are too far apart."""
    return not math.isfinite(count) or abs(u) > WIDE
