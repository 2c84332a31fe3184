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

from .cluster import Spread
from .errors import InvalidInput, real_numbers, refuse, whole
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
    "draw_by_luck",
    "draw_spread",
    "inclusion",
    "inclusion_of_top",
    "inclusion_spread",
    "multiplier",
    "new_key",
    "race_by_luck",
    "top_by_luck",
]

Design = Literal["successive", "joint"]
DESIGNS = {"successive": RuleCode.SUCCESSIVE, "joint": RuleCode.JOINT}

EXACT_BELOW = 1000  # arms
# Relative error of the O(n) evaluation that is accepted below, and from, EXACT_BELOW arms on.
FINE, COARSE = 1e-10, 5e-7
LARGE = 32768  # arms from which on the work is shared among threads
PART = 500_000  # arms a task; fewer take less than a millisecond
SAMPLE = 16384  # arms of the sample that gives the first guess of the shift
# From this multiplier on, any two scores that differ are decided by rank; a weight of evenness (mu)
# counts for no more.
BEYOND_REACH = 1e100

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
    return inclusion_spread(Spread.of(z), k, code)


def inclusion_spread(weights: Spread, k: int, code: RuleCode) -> Floats:
    """:func:`inclusion` of log-weights in shards.

    Parameters
    ----------
    weights : Spread
        Log-weights in shards; with TOP, scores.
    k : int
        Number of arms drawn, 0 <= k <= n.
    code : RuleCode
        SUCCESSIVE, JOINT or TOP.

    Returns
    -------
    ndarray [n]
        Pr(a_i = 1).

    Raises
    ------
    InvalidInput
        A log-weight is not a number.

    Notes
    -----
    Only where the O(n) evaluation does not serve (see :mod:`softfair.sampling`) and with TOP are
    the log-weights of all arms brought together.
    """
    n = weights.n
    if k in (0, n):
        return np.full(n, 1.0 if k else 0.0)
    if code is RuleCode.TOP:
        return inclusion_of_top(weights.gather(), k)
    out = np.empty(n)
    if n >= LARGE and _inclusion_in_parts(weights, k, code, out):
        return out
    z = weights.gather()
    _refuse_nan(z)
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
    return draw_spread(Spread.of(z), k, code, new_key(rng))


def draw_by_luck(
    log_weights: ArrayLike,
    k: int,
    luck: NDArray[np.uint64],
    design: Design = "successive",
) -> NDArray[np.int64]:
    """Draw k arms by the design, where each arm brings its own random numbers.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights; infinite entries are allowed.
    k : int
        Number of arms to draw, 0 <= k <= n.
    luck : ndarray of uint64 [n, 2]
        128 random bits of each arm, independent of the weights.
    design : {"successive", "joint"}
        Sampling design, see :mod:`softfair.sampling`.

    Returns
    -------
    ndarray [k]
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput
        A log-weight is not a number, k is not between 0 and n, the design is unknown, or ``luck``
        is not of that shape and type.

    Notes
    -----
    The law is that of :func:`draw`. Who is drawn does not depend on the order of the arms, and an
    arm that leaves or joins hardly changes the luck of the others. ``successive`` is the race of
    exponential clocks, each with its arm's own number. ``joint`` decides the arms one after
    another, in the order of their first numbers, by their second numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> luck = np.random.default_rng(0).integers(0, 2**64, (4, 2), dtype=np.uint64)
    >>> sf.sampling.draw_by_luck([0.0, 0.0, np.inf, -np.inf], 2, luck, "joint")
    array([1, 2])
    """
    z, code = _vector(log_weights).copy(), design_code(design)
    _refuse_nan(z)
    n = len(z)
    k = whole("k", k, 0, n, f", the arms are {n}")
    order = _order_of(luck, n)
    clip_decided(z, k, np.empty(n))
    z, own = z[order], _unit(luck[order, 1])
    if code is RuleCode.SUCCESSIVE:
        rings = np.empty(n)
        draws.rings_by_luck(z, own, rings)
        chosen = np.argsort(rings, kind="stable")[:k]  # ties by the first number
    else:
        in_set = np.empty(n, np.uint8)
        draws.draw_joint_by_luck(z, k, own, np.empty(n), in_set)
        chosen = np.flatnonzero(in_set)
    return np.sort(order[chosen])


def top_by_luck(scores: ArrayLike, k: int, luck: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The k highest scores, ties broken by the random numbers that each arm brings.

    Parameters
    ----------
    scores : array_like [n]
        What ranks the arms.
    k : int
        Number of arms chosen, 0 <= k <= n.
    luck : ndarray of uint64 [n, 2]
        128 random bits of each arm.

    Returns
    -------
    ndarray [k]
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput
        A score is not a number, k is not between 0 and n, or ``luck`` is not of that shape and
        type.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> luck = np.array([[5, 0], [2, 0], [3, 0]], dtype=np.uint64)
    >>> sf.sampling.top_by_luck([1.0, 1.0, 1.0], 2, luck)
    array([1, 2])
    """
    values = _vector(scores)
    _refuse_nan(values)
    k = whole("k", k, 0, len(values), f", the arms are {len(values)}")
    order = _order_of(luck, len(values))
    return np.sort(order[np.argsort(-values[order], kind="stable")[:k]])


def race_by_luck(log_weights: ArrayLike, luck: NDArray[np.uint64]) -> NDArray[np.int64]:
    """All arms in the order in which their clocks ring, where each brings its own random numbers.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights, finite.
    luck : ndarray of uint64 [n, 2]
        128 random bits of each arm, independent of the weights.

    Returns
    -------
    ndarray [n]
        Indices of the arms, the first to ring first. The first k of them have the law of the
        design ``successive``.

    Raises
    ------
    InvalidInput
        A log-weight is not a number, or ``luck`` is not of that shape and type.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> luck = np.random.default_rng(0).integers(0, 2**64, (3, 2), dtype=np.uint64)
    >>> sf.sampling.race_by_luck([0.0, 1000.0, 500.0], luck)
    array([1, 2, 0])
    """
    z = _vector(log_weights)
    _refuse_nan(z)
    order = _order_of(luck, len(z))
    rings = np.empty(len(z))
    draws.rings_by_luck(z[order], _unit(luck[order, 1]), rings)
    return order[np.argsort(rings, kind="stable")]


def _order_of(luck: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """The arms in the order of their first numbers, ties by the second [n]."""
    if not isinstance(luck, np.ndarray) or luck.dtype != np.uint64 or luck.shape != (n, 2):
        shape = getattr(luck, "shape", None)
        raise InvalidInput(
            f"luck is {getattr(luck, 'dtype', type(luck).__name__)} of shape {shape}; "
            f"give uint64 of shape ({n}, 2), 128 random bits for each arm"
        )
    return np.lexsort((luck[:, 1], luck[:, 0]))


def _unit(bits: NDArray[np.uint64]) -> Floats:
    """Numbers in (0, 1), never 0 nor 1, from 64 random bits each: centres of 2^52 cells."""
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


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

    This is the only place that decides whether a finite multiplier counts as infinite, or a
    positive one as 0.

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
        c; ``math.inf`` for c > 1e100: scores that differ are then ordered by rank alone, and
        products with scores could overflow; 0 for c < 1e-100, which makes no weights differ.

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
    try:
        value = float(c)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf
    if value < 1 / BEYOND_REACH:
        return 0.0
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
        given = np.ascontiguousarray(real_numbers(values))
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


def _inclusion_in_parts(weights: Spread, k: int, code: RuleCode, out: Floats) -> bool:
    """`inclusion` by the O(n) evaluation, shard by shard; False where it does not serve.

    The first guess of the shift u comes from a sample of the arms. Infinite log-weights, NaN and
    weights that are too far apart are left to the evaluation on one thread.
    """
    n = weights.n
    sample = _sample(weights, n // SAMPLE)
    top = sample.max()  # approximately the maximum, which is enough
    if not np.isfinite(top):
        return False
    k_sample = k * len(sample) / n
    guess = guess_shift(sample, top, k_sample)
    u = shift(sample, top, k_sample, int(code), guess, 1e-3 * k_sample)
    if code is RuleCode.SUCCESSIVE:
        sums = _successive_in_parts(weights, top, k, u, out)
    else:
        variance = expected_count(0, len(sample), sample, top, u, int(code))[1] * n / len(sample)
        sums = _joint_in_parts(weights, top, k, u, fourier.joint_powers(0.9 * variance, n), out)
    if sums is None:
        return False
    map_parts(restore_sum, n, PART, out, float(k), *sums)
    return True


def _sample(weights: Spread, stride: int) -> Floats:
    """The numbers of arms 0, stride, 2 stride, ... of the whole."""
    each = [(-shard.first % stride,) for shard in weights.shards]
    return np.concatenate(list(weights.map(_every, stride, each=each)))


def _every(z: Floats, stride: int, first: int) -> Floats:
    return np.ascontiguousarray(z[first::stride])


def _extent(z: Floats) -> tuple[float, float]:
    return float(z.min()), float(z.max())


def _successive_in_parts(
    weights: Spread, top: float, k: int, u: float, out: Floats
) -> tuple[float, float] | None:
    """Fill out by the expansion; (sum p, sum p (1 - p)), or None if its error is too large.

    The pass that gathers the moments also gives three derivatives of the count in u, which correct
    u to fourth order. A second pass is needed only if the sample's u was off by more than a
    fiftieth, or if the first order is not accurate enough.
    """
    order = 1
    bracket = np.array([-np.inf, np.inf, u])
    while True:
        moments = weights.sum(_clock_moments, top, u, order)
        derivatives = expansion.successive_derivatives(moments)
        if _out_of_reach(derivatives[0], u):
            return None
        step, near = polish(u, *derivatives, float(k), reach_for(COARSE), bracket)
        u += step
        if not near:
            order = 1
            continue
        expansion.move_moments(moments, step)
        if _error_of_expansion(moments, weights, top, u) <= COARSE:
            break
        if order > 1:
            return None
        order = expansion.MOST_ORDER
    coefficients = np.zeros_like(moments)
    expansion.successive_coefficients(moments, expansion.SERIES, 1, order, coefficients)
    sums = weights.fill(out, _chances, int(RuleCode.SUCCESSIVE), top, u, coefficients)
    total, spread = np.sum(sums, axis=0)
    return total, spread


def _clock_moments(z: Floats, top: float, u: float, order: int) -> Floats:
    """Moments of one shard."""
    if order == 1:
        parts = map_parts(expansion.first_moments, len(z), PART, z, top, u, np.empty(len(z)))
    else:
        parts = map_parts(expansion.successive_moments, len(z), PART, z, top, u, order)
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


def _chances(
    z: Floats, code: int, top: float, u: float, coefficients: Floats
) -> tuple[Floats, float, float]:
    """(p [m], sum p, sum p (1 - p)) of one shard."""
    out = np.empty(len(z))
    kernel = fourier.joint_map if code == RuleCode.JOINT else expansion.successive_map
    sums = map_parts(kernel, len(z), PART, z, top, u, coefficients, out)
    total, spread = np.sum(sums, axis=0)
    return out, float(total), float(spread)


def _error_of_expansion(moments: Floats, weights: Spread, top: float, u: float) -> float:
    """The estimated error: for weights of any range, and for the range of these if that fails."""
    error: float = expansion.estimated_error(moments, expansion.SERIES, -np.inf, np.inf)
    if error > COARSE:
        lows, highs = zip(*weights.map(_extent), strict=True)
        low, high = min(lows) - top + u, max(highs) - top + u
        error = expansion.estimated_error(moments, expansion.SERIES, low, high)
    return error


def _joint_in_parts(
    weights: Spread, top: float, k: int, u: float, powers: int, out: Floats
) -> tuple[float, float] | None:
    """Fill out by the Fourier integral; (sum p, sum p (1 - p)), or None if V is too small.

    Any u serves whose expected count is within a standard deviation of k.
    """
    n = weights.n
    bracket = np.array([-np.inf, np.inf, u])
    while powers <= fourier.MOST_POWERS:
        moments = weights.sum(_coin_moments, top, u, powers)
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
            sums = weights.fill(out, _chances, int(RuleCode.JOINT), top, u, coefficients)
            total, spread = np.sum(sums, axis=0)
            return total, spread
        powers = needed  # the count varies less than the sample's did
    return None


def _coin_moments(z: Floats, top: float, u: float, powers: int) -> Floats:
    """Power sums of one shard."""
    parts = map_parts(fourier.joint_moments, len(z), PART, z, top, u, powers)
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


def draw_spread(weights: Spread, k: int, code: RuleCode, key: np.uint64) -> NDArray[np.int64]:
    """:func:`draw` from log-weights in shards, exactly.

    Parameters
    ----------
    weights : Spread
        Log-weights in shards; with TOP, scores.
    k : int
        Number of arms to draw, 0 <= k <= n.
    code : RuleCode
        SUCCESSIVE, JOINT or TOP.
    key : numpy.uint64
        Luck, see :func:`new_key`.

    Returns
    -------
    ndarray [k]
        Indices of the arms, sorted.

    Raises
    ------
    InvalidInput
        A log-weight is not a number.

    Notes
    -----
    One shard is drawn from where it is. Of several, `successive` and TOP take the k smallest keys:
    a sample brackets the k-th, and shards give the keys inside the bracket. `joint` draws how many
    of the k fall to each shard from the laws of the shards' counts, and each shard draws its own.
    Where weights are more than WIDE apart they are brought together first.
    """
    lows, highs = zip(*weights.map(_extent), strict=True)
    if math.isnan(sum(lows) - sum(highs)) and (np.isnan(lows).any() or np.isnan(highs).any()):
        _refuse_nan(weights.gather())
    if len(weights.shards) == 1:
        (drawn,) = weights.map(_draw_shard, int(code), each=[(0, k, key)])
        return np.asarray(drawn)
    n = weights.n
    if code is not RuleCode.TOP and not max(highs) - min(lows) <= WIDE and 0 < k < n:
        z = weights.gather()
        clip_decided(z, k, np.empty(n))
        weights = Spread.of(z)
        lows, highs = zip(*weights.map(_extent), strict=True)
    if code is not RuleCode.JOINT:
        return _smallest(weights, k, code, key)
    counts = _counts_of_shards(weights, k, max(highs), key)
    each = [
        (shard.first, int(count), np.uint64(draws.key_of(key, 1 + i)))
        for i, (shard, count) in enumerate(zip(weights.shards, counts, strict=True))
    ]
    return np.concatenate(list(weights.map(_draw_shard, int(code), each=each)))


def _draw_shard(z: Floats, code: int, first: int, k: int, key: np.uint64) -> NDArray[np.int64]:
    """k of the arms of one shard, as indices of the whole."""
    chosen = np.empty(len(z), np.uint8)
    draws.select(z, 1.0, code, k, key, np.empty(3 * len(z)), chosen)
    return first + np.flatnonzero(chosen)


def _counts_of_shards(weights: Spread, k: int, top: float, key: np.uint64) -> NDArray[np.int64]:
    """How many of the k fall to each shard, from the laws of independent arms of the same odds."""
    n = weights.n
    if k in (0, n):
        return np.array([shard.count if k else 0 for shard in weights.shards])
    sample = _sample(weights, max(1, n // SAMPLE))
    k_sample = k * len(sample) / n
    u = shift(sample, top, k_sample, int(RuleCode.JOINT), guess_shift(sample, top, k_sample), 1e-3)
    # Any u leaves the law as it is. But k has to be where the laws are not yet dust: move u from
    # where the sample expects k to where all arms do.
    for _ in range(40):
        count, slope = weights.sum(_expected, top, u)
        if (count - k) ** 2 <= slope or not slope > 0:
            break
        u += max(-1.0, min(1.0, (k - count) / slope))
    shares = list(weights.map(_law, top, u))
    laws = np.concatenate([law for _, law in shares])
    lengths = np.array([len(law) for _, law in shares])
    lows = np.array([low for low, _ in shares])
    sizes = np.array([shard.count for shard in weights.shards])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    shared: NDArray[np.int64] = draws.share_out(
        laws, starts, lows, lows + lengths, k, sizes, np.uint64(draws.key_of(key, 0))
    )
    return shared


def _expected(z: Floats, top: float, u: float) -> Floats:
    """(expected count, its slope in u) of one shard."""
    code = int(RuleCode.JOINT)
    parts = map_parts(expected_count, len(z), PART, z, top, u, code)
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


def _law(z: Floats, top: float, u: float) -> tuple[int, Floats]:
    low, law = draws.count_law(z, top, u)
    return int(low), law


def _smallest(weights: Spread, k: int, code: RuleCode, key: np.uint64) -> NDArray[np.int64]:
    """The k arms whose keys are smallest, ties at random: [k], sorted."""
    if k == 0:
        return np.empty(0, np.int64)
    n, size = weights.n, 0
    args = (int(code), key, n)
    firsts = [(shard.first,) for shard in weights.shards]
    stride = max(1, n // SAMPLE)
    each = [(shard.first, stride, -shard.first % stride) for shard in weights.shards]
    sample = np.sort(np.concatenate(list(weights.map(_some_keys, *args, each=each))))
    size = len(sample)
    margin = 5.0 * math.sqrt(size * (k / n) * (1 - k / n)) + 5.0
    low, high = math.floor(size * k / n - margin), math.ceil(size * k / n + margin)
    least = sample[low] if low >= 0 else -math.inf
    most = sample[high] if high < size else math.inf
    while True:
        candidates = list(weights.map(_keys_up_to, *args, least, most, each=firsts))
        below = sum(len(sure) for sure, _, _ in candidates)
        between = np.concatenate([keys for _, _, keys in candidates])
        if below < k <= below + len(between):
            break
        least, most = -math.inf, math.inf  # the sample was unlucky
    cut = np.partition(between, k - below - 1)[k - below - 1]
    arms = np.concatenate([arms for _, arms, _ in candidates])
    chosen = [sure for sure, _, _ in candidates] + [arms[between < cut]]
    tied = arms[between == cut]
    places = k - sum(len(part) for part in chosen)
    if places < len(tied):  # of arms with equal keys, those with the smallest lots
        tied = tied[np.argpartition(draws.lots(key, tied), places)[:places]]
    return np.sort(np.concatenate([*chosen, tied]))


def _keys(z: Floats, code: int, key: np.uint64, n: int, first: int) -> Floats:
    """What the smallest k are chosen by: times at which clocks ring, or minus the scores."""
    if code == RuleCode.TOP:
        return -z
    out = np.empty(len(z))
    draws.ring_times(z, key, n + first, out)
    return out


def _some_keys(
    z: Floats, code: int, key: np.uint64, n: int, first: int, stride: int, offset: int
) -> Floats:
    return _keys(z, code, key, n, first)[offset::stride].copy()


def _keys_up_to(
    z: Floats, code: int, key: np.uint64, n: int, least: float, most: float, first: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Arms below ``least``, and arms and keys in [least, most], of one shard."""
    keys = _keys(z, code, key, n, first)
    inside = np.flatnonzero((keys >= least) & (keys <= most))
    return first + np.flatnonzero(keys < least), first + inside, keys[inside]


def _out_of_reach(count: float, u: float) -> bool:
    """Whether the arms hold a NaN that the sample missed, or weights that are too far apart."""
    return not math.isfinite(count) or abs(u) > WIDE
