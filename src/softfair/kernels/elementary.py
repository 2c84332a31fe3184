"""Elementary functions that a compiler can vectorise: no branch, no call, no table.

``exp`` and ``log1p`` of the mathematical library are calls that block SIMD; these polynomials run
several lanes at a time: 12 ns an arm-step of the priced recursion, against 27 with ``np.exp``.
Errors, which the tests check: exp_ 2 ulp on [-708, 709]; log1p_ 3e-16 relative on [0, 1]; rise_
4e-16 relative. ``fastmath={"contract"}`` allows fused multiply-add and nothing else, because
reassociation would delete the rounding to the nearest integer.

Random numbers are a pure function of (key, counter): the finaliser of SplitMix64 on
key + counter * odd constant. Any draw can be repeated, anywhere and in any order.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types, uint64
from numba.extending import intrinsic

from .cache import CACHED

__all__ = [
    "COMPILE",
    "SMALL_RISE",
    "exp_",
    "exp_upto_",
    "log1p_",
    "log1p_and_inverse_",
    "log_",
    "mix",
    "rise_",
    "small_rise_",
    "uniform",
]

# How every kernel is compiled: without the interpreter's lock, cached on disk if possible, and with
# division by zero as in NumPy (a check would prevent SIMD).
COMPILE: dict[str, Any] = {
    "nogil": True,
    "cache": CACHED,
    "fastmath": {"contract"},
    "error_model": "numpy",
}

# How a function is compiled that is always a part of a kernel: LLVM inlines it. The inlining by
# numba copies the code before anything is simplified; it takes several times as long to compile,
# and the result is no faster.
INSIDE: dict[str, Any] = {"forceinline": True, "fastmath": {"contract"}, "error_model": "numpy"}

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490  # 33 bits: n * LN2_HIGH is exact for every n in reach
LN2_LOW = 1.90821492927058770002e-10
SMALL_RISE = 0.3465  # just below ln 2 / 2, where the reduced polynomial ends
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits


@intrinsic
def _bits(typingctx, value):
    """The 64 bits of a float64 as uint64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@intrinsic
def _float(typingctx, value):
    """The float64 that has these 64 bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@njit(**INSIDE)
def _expm1_reduced(r):
    """e^r - 1 for |r| <= ln(2)/2: Chebyshev interpolation of degree 11, 4e-18 relative.

    The polynomial is evaluated by pairs (Estrin's scheme), here and in `_log1p_rest`. In Horner's
    scheme each of eleven steps waits for the step before, and a pass of `priced` would take 1.1
    times as long.
    """
    r2 = r * r
    r4 = r2 * r2
    a = 1.0 + 0.50000000000000184039 * r
    b = 0.1666666666666668082 + 0.04166666666648795252 * r
    c = 0.0083333333333195896163 + 0.0013888888952352862866 * r
    d = 0.00019841269890076402829 + 0.000024801485441561312966 * r
    e = 2.7557240887229868596e-6 + 2.763265472252779189e-7 * r
    high = (c + d * r2) + (e + 2.5110049204818659793e-8 * r2) * r4
    y = (a + b * r2) + high * r4
    return y * r


@njit(**INSIDE)
def exp_upto_(x):
    """e^x for x <= 709, clamped to -708 from below, so the result is never 0; NaN stays NaN."""
    x = -708.0 if x < -708.0 else x
    shifted = x * LOG2_E + ROUNDER
    whole = shifted - ROUNDER
    r = x - whole * LN2_HIGH
    r = r - whole * LN2_LOW
    # 2^whole, built in the exponent field
    scale = _float((_bits(shifted) << uint64(52)) + uint64(0x3FF0000000000000))
    return (_expm1_reduced(r) + 1.0) * scale


@njit(**INSIDE)
def exp_(x):
    """e^x; arguments are clamped to [-708, 709], so the result is never 0 nor inf."""
    return exp_upto_(x if x < 709.0 else 709.0)


@njit(**INSIDE)
def small_rise_(s):
    """1 - e^-s for s in [0, SMALL_RISE], to relative precision; for larger s as at SMALL_RISE."""
    return -_expm1_reduced(-(s if s < SMALL_RISE else SMALL_RISE))


@njit(**INSIDE)
def rise_(s):
    """1 - e^-s for s >= 0, to relative precision also if s is tiny."""
    small, large = small_rise_(s), 1.0 - exp_(-s)  # both, because a branch would prevent SIMD
    return small if s < SMALL_RISE else large


@njit(**INSIDE)
def _log1p_rest(u, z):
    """u - log(1 + u) for u in [-1/3, 1] and z = u / (2 + u), by log(1 + u) = 2 atanh(z)."""
    y = z * z  # in [0, 1/9]; Chebyshev interpolation of atanh(z)/z = 1 + y f, degree 9: 5e-17
    y2 = y * y
    y4 = y2 * y2
    low = (0.33333333333341287164 + 0.19999999997643800004 * y) + (
        0.14285714555828580111 + 0.11111095430673142019 * y
    ) * y2
    high = (0.090914299002369554786 + 0.076818381244458171292 * y) + (
        0.067956527427899469179 + 0.049403945243823931204 * y
    ) * y2
    f = low + (high + 0.088903819130566514469 * y4) * y4
    return z * (u - 2.0 * y * f)


@njit(**INSIDE)
def log1p_(u):
    """log(1 + u) for u in [0, 1]."""
    return u - _log1p_rest(u, u / (2.0 + u))


@njit(**INSIDE)
def log1p_and_inverse_(u):
    """(log(1 + u), 1 / (1 + u)) for u in [0, 1], with one division, which costs as much as exp_."""
    both = 1.0 / ((1.0 + u) * (2.0 + u))
    return u - _log1p_rest(u, u * ((1.0 + u) * both)), (2.0 + u) * both


@njit(**INSIDE)
def log_(x):
    """Natural logarithm of a positive normal float64."""
    bits = _bits(x)
    # Split x = 2^e * m with m in [2/3, 4/3): the offset 0x3FE5555555555555 is 2/3.
    shifted = bits - uint64(0x3FE5555555555555)
    exponent = types.int64(shifted) >> 52
    u = _float(bits - (uint64(exponent) << uint64(52))) - 1.0
    return exponent * LN2_HIGH + (u - (_log1p_rest(u, u / (2.0 + u)) - exponent * LN2_LOW))


@njit(**INSIDE)
def mix(key, counter):
    """64 random bits from (key, counter): output ``counter`` of SplitMix64 seeded with ``key``."""
    z = uint64(key) + uint64(counter) * uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@njit(**INSIDE)
def uniform(key, counter):
    """A float64 in (0, 1), never 0 nor 1: the centre of one of 2^52 cells."""
    return (float(types.int64(mix(key, counter) >> uint64(12))) + 0.5) * 2.220446049250313e-16
