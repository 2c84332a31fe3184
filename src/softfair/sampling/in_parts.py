"""Chances by sums over all arms, shard by shard, in time O(n)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..cluster import Spread
from ..kernels import expansion, fourier
from ..kernels.inclusion import restore_sum
from ..kernels.order import WIDE
from ..kernels.rules import RuleCode
from ..kernels.shift import expected_count, guess_shift, polish, reach_for, shift
from ..kernels.threads import map_parts

__all__ = ["COARSE", "LARGE", "PART", "SAMPLE", "extent", "inclusion_in_parts", "sample_of"]

COARSE = 5e-7  # largest relative error of these chances that is accepted
LARGE = 32768  # arms from which on the work is shared among threads
PART = 500_000  # arms a task; fewer take less than a millisecond
SAMPLE = 16384  # arms of the sample that gives the first guess of the shift

Floats = NDArray[np.float64]


def inclusion_in_parts(weights: Spread, k: int, code: RuleCode, out: Floats) -> bool:
    """`inclusion` by the O(n) evaluation, shard by shard; False if that is not accurate enough.

    The first guess of the shift u comes from a sample of the arms. The result is also False for
    infinite log-weights, NaN and weights that are too far apart; `inclusion_spread` then uses the
    evaluation on one thread.
    """
    n = weights.n
    sample = sample_of(weights, n // SAMPLE)
    top = sample.max()  # approximately the maximum of all arms, which is enough
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


def sample_of(weights: Spread, stride: int) -> Floats:
    """The values of arms 0, stride, 2 stride, ... among all arms."""
    each = [(-shard.first % stride,) for shard in weights.shards]
    return np.concatenate(list(weights.map(_every, stride, each=each)))


def _every(z: Floats, stride: int, first: int) -> Floats:
    return np.ascontiguousarray(z[first::stride])


def extent(z: Floats) -> tuple[float, float]:
    """The smallest and the largest value."""
    return float(z.min()), float(z.max())


def _successive_in_parts(
    weights: Spread, top: float, k: int, u: float, out: Floats
) -> tuple[float, float] | None:
    """Fill out by the expansion; (sum p, sum p (1 - p)), or None if its error is too large.

    The pass that gathers the moments also gives three derivatives of the count by u, which correct
    u to fourth order. A second pass is needed only if the u of the sample was wrong by more than
    1/50, or if the first order is not accurate enough.
    """
    order = 1
    bracket = np.array([-np.inf, np.inf, u])
    while True:
        moments = _moments_at(weights, top, u, order, out)
        derivatives = expansion.successive_derivatives(moments)
        if _out_of_reach(derivatives[0], u):
            return None
        step, near = polish(u, *derivatives, float(k), reach_for(COARSE), bracket)
        before, u = u, u + step
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
    if order > 1:
        sums = weights.fill(out, _chances, int(RuleCode.SUCCESSIVE), top, u, coefficients)
    elif weights.crew is None:
        sums = [
            _from_clocks(clocks, math.exp(step), coefficients) for clocks in _parts(weights, out)
        ]
    else:
        given = (top, before, math.exp(step), coefficients)
        sums = weights.fill(out, _from_clocks_anew, *given)
    total, spread = np.sum(sums, axis=0)
    return total, spread


def _parts(weights: Spread, out: Floats) -> list[Floats]:
    """The part of out [n] that belongs to each shard."""
    return [out[shard.first : shard.first + shard.count] for shard in weights.shards]


def _moments_at(weights: Spread, top: float, u: float, order: int, out: Floats) -> Floats:
    """Moments of all arms. To order 1, and in this process, out holds every arm's clock then."""
    if order > 1:
        moments: Floats = weights.sum(_higher_moments, top, u, order)
    else:
        places = [(part,) for part in _parts(weights, out)] if weights.crew is None else None
        moments = weights.sum(_first_moments, top, u, each=places)
    return moments


def _first_moments(z: Floats, top: float, u: float, clocks: Floats | None = None) -> Floats:
    """Moments to order 1 of one shard; its clocks are stored if there is a place for them."""
    place = np.empty(len(z)) if clocks is None else clocks
    parts = map_parts(expansion.first_moments, len(z), PART, z, top, u, place)
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


def _higher_moments(z: Floats, top: float, u: float, order: int) -> Floats:
    """Moments of one shard."""
    parts = map_parts(expansion.successive_moments, len(z), PART, z, top, u, order)
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


def _from_clocks(clocks: Floats, factor: float, coefficients: Floats) -> tuple[float, float]:
    """Turn the clocks of one shard, times factor, into p; (sum p, sum p (1 - p))."""
    sums = map_parts(expansion.first_map, len(clocks), PART, factor, coefficients, clocks)
    total, spread = np.sum(sums, axis=0)
    return float(total), float(spread)


def _from_clocks_anew(
    z: Floats, top: float, u: float, factor: float, coefficients: Floats
) -> tuple[Floats, float, float]:
    """(p [m], sum p, sum p (1 - p)) of one shard on a worker, which has not kept the clocks.

    The clocks are those of the moments, then moved by the same factor as in one process: the
    chances must be the same to the last bit.
    """
    out = np.empty(len(z))
    map_parts(expansion.clocks, len(z), PART, z, top, u, out)
    return out, *_from_clocks(out, factor, coefficients)


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
    """The estimated error for weights of any range; if too large, that for the actual range."""
    error: float = expansion.estimated_error(moments, expansion.SERIES, -np.inf, np.inf)
    if error > COARSE:
        lows, highs = zip(*weights.map(extent), strict=True)
        low, high = min(lows) - top + u, max(highs) - top + u
        error = expansion.estimated_error(moments, expansion.SERIES, low, high)
    return error


def _joint_in_parts(
    weights: Spread, top: float, k: int, u: float, powers: int, out: Floats
) -> tuple[float, float] | None:
    """Fill out by the Fourier integral; (sum p, sum p (1 - p)), or None if V is too small.

    Any u will do if the expected count is within a standard deviation of k.
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
        powers = needed  # the count of all arms varies less than the sample suggested
    return None


def _coin_moments(z: Floats, top: float, u: float, powers: int) -> Floats:
    """Power sums of one shard."""
    parts = map_parts(fourier.joint_moments, len(z), PART, z, top, u, powers)
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


def _out_of_reach(count: float, u: float) -> bool:
    """Whether the arms hold a NaN that the sample missed, or weights that are too far apart."""
    return not math.isfinite(count) or abs(u) > WIDE
