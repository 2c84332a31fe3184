"""Draws of k arms, from arrays and from shards."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cluster import Spread
from ..errors import whole
from ..kernels import draws
from ..kernels.counts import count_law, share_out
from ..kernels.order import WIDE, clip_decided
from ..kernels.rules import RuleCode
from ..kernels.shift import expected_count, guess_shift, shift
from ..kernels.threads import map_parts
from .asked import Design, design_code, new_key, refuse_nan, vector
from .in_parts import PART, SAMPLE, extent, sample_of

__all__ = ["draw", "draw_spread"]

Floats = NDArray[np.float64]


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
    z, code = vector(log_weights), design_code(design)
    refuse_nan(z)
    n = len(z)
    k = whole("k", k, 0, n, f", the arms are {n}")
    return draw_spread(Spread.of(z), k, code, new_key(rng))


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
        The key of the random numbers, see :func:`new_key`.

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
    A single shard is drawn from by its worker. From several shards, `successive` and TOP take the k
    smallest keys: a sample gives a bracket around the k-th smallest key, and each shard returns its
    keys inside the bracket. `joint` first draws how many of the k arms each shard gets, from the
    laws of the shards' counts; then each shard draws that many of its arms. If weights are more
    than WIDE apart, they are gathered in one array first.
    """
    lows, highs = zip(*weights.map(extent), strict=True)
    if math.isnan(sum(lows) - sum(highs)) and (np.isnan(lows).any() or np.isnan(highs).any()):
        refuse_nan(weights.gather())
    if len(weights.shards) == 1:
        (drawn,) = weights.map(_draw_shard, int(code), each=[(0, k, key)])
        return np.asarray(drawn)
    n = weights.n
    if code is not RuleCode.TOP and not max(highs) - min(lows) <= WIDE and 0 < k < n:
        z = weights.gather()
        clip_decided(z, k, np.empty(n))
        weights = Spread.of(z)
        lows, highs = zip(*weights.map(extent), strict=True)
    if code is not RuleCode.JOINT:
        return _smallest(weights, k, code, key)
    counts = _counts_of_shards(weights, k, max(highs), key)
    each = [
        (shard.first, int(count), np.uint64(draws.key_of(key, 1 + i)))
        for i, (shard, count) in enumerate(zip(weights.shards, counts, strict=True))
    ]
    return np.concatenate(list(weights.map(_draw_shard, int(code), each=each)))


def _draw_shard(z: Floats, code: int, first: int, k: int, key: np.uint64) -> NDArray[np.int64]:
    """k of the arms of one shard, as indices among all arms."""
    chosen = np.empty(len(z), np.uint8)
    draws.select(z, 1.0, code, k, key, np.empty(3 * len(z)), chosen)
    return first + np.flatnonzero(chosen)


def _counts_of_shards(weights: Spread, k: int, top: float, key: np.uint64) -> NDArray[np.int64]:
    """How many of the k arms each shard gets, drawn from the laws of independent arms."""
    n = weights.n
    if k in (0, n):
        return np.array([shard.count if k else 0 for shard in weights.shards])
    sample = sample_of(weights, max(1, n // SAMPLE))
    k_sample = k * len(sample) / n
    u = shift(sample, top, k_sample, int(RuleCode.JOINT), guess_shift(sample, top, k_sample), 1e-3)
    # The law is the same for any u. But the laws of counts are cut off far from their means, so u
    # must make k a likely count. The sample gives a first u; all arms correct it.
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
    shared: NDArray[np.int64] = share_out(
        laws, starts, lows, lows + lengths, k, sizes, np.uint64(draws.key_of(key, 0))
    )
    return shared


def _expected(z: Floats, top: float, u: float) -> Floats:
    """(expected count, its slope in u) of one shard."""
    code = int(RuleCode.JOINT)
    parts = map_parts(expected_count, len(z), PART, z, top, u, code)
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


def _law(z: Floats, top: float, u: float) -> tuple[int, Floats]:
    low, law = count_law(z, top, u)
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
        least, most = -math.inf, math.inf  # the bracket missed the k-th key: take all keys
    cut = np.partition(between, k - below - 1)[k - below - 1]
    arms = np.concatenate([arms for _, arms, _ in candidates])
    chosen = [sure for sure, _, _ in candidates] + [arms[between < cut]]
    tied = arms[between == cut]
    places = k - sum(len(part) for part in chosen)
    if places < len(tied):  # of arms with equal keys, take those with the smallest lots
        tied = tied[np.argpartition(draws.lots(key, tied), places)[:places]]
    return np.sort(np.concatenate([*chosen, tied]))


def _keys(z: Floats, code: int, key: np.uint64, n: int, first: int) -> Floats:
    """The numbers whose k smallest are chosen: times at which clocks ring, or minus the scores."""
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
