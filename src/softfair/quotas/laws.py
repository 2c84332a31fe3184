"""Laws of vectors of counts: of all arms that are drawn, and of those in each crossing set.

Axis 0 counts all arms of a branch of the tree; every further axis counts the arms in one of the
sets that cross the tree (:mod:`softfair.quotas.tree`). Without such sets a law has one axis.
Weights are never negative, so that sums lose no digits, and every weight has full relative
precision, however small it is. Fourier transforms do not have that precision: their error is
proportional to the largest weight, but small weights may matter once a law is tilted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..kernels.quotas import convolve

__all__ = ["Law", "along", "empty", "trimmed"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DUST = 1e-25  # smaller weights at either end of an axis are dropped


@dataclass(frozen=True, eq=False)
class Law:
    """Weights of the vectors of counts from ``low`` on, up to a factor."""

    low: Ints  # [axes]
    weight: Floats

    def __add__(self, other: Law) -> Law:
        """The law of the sum of two independent vectors."""
        return trimmed(self.low + other.low, _product(self.weight, other.weight))

    def minus(self, other: Law) -> Law:
        """The function of a with values sum over m of other(m) self(a + m)."""
        low = self.low - other.low - other.weight.shape + 1
        return trimmed(low, _product(self.weight, np.flip(other.weight)))

    def tilted(self, tilt: float) -> Law:
        """The weights times exp(tilt count), where count is that of all arms."""
        if tilt == 0:
            return self
        logs = tilt * np.arange(len(self.weight))
        return trimmed(self.low, self.weight * _upright(np.exp(logs - logs.max()), self.weight))

    def mean(self, tilt: float) -> tuple[float, float]:
        """Mean and variance of the count of all arms after the weights are `tilted`."""
        rows = np.arange(len(self.weight))
        logs = tilt * rows
        weight = self.weight.reshape(len(rows), -1).sum(axis=1) * np.exp(logs - logs.max())
        weight /= weight.sum()
        mean = float(weight @ rows)
        return int(self.low[0]) + mean, float(weight @ (rows - mean) ** 2)

    def rows(self, low: Ints, shape: tuple[int, ...]) -> Floats:
        """The weights of the vectors from ``low`` on; 0 for vectors that are not stored."""
        out = np.zeros(shape)
        first = np.maximum(low, self.low)
        last = np.minimum(low + shape, self.low + self.weight.shape)
        if (last > first).all():
            to = tuple(slice(a, b) for a, b in zip(first - low, last - low, strict=True))
            ends = zip(first - self.low, last - self.low, strict=True)
            out[to] = self.weight[tuple(slice(a, b) for a, b in ends)]
        return out

    def bounded(self, low: int, high: int, shift: float) -> Law:
        """The part with ``low`` to ``high`` arms in all, divided by exp(shift count)."""
        counts = np.arange(low, high + 1)
        begin = np.concatenate([[low], self.low[1:]])
        rows = self.rows(begin, (len(counts), *self.weight.shape[1:]))
        with np.errstate(divide="ignore"):
            logs = np.log(rows) - _upright(shift * counts.astype(np.float64), rows)
        top = logs.max()
        return trimmed(begin, np.exp(logs - top) if np.isfinite(top) else np.zeros_like(logs))


def empty(axes: int) -> Law:
    """The law of the count of no arms."""
    return Law(np.zeros(axes, np.int64), np.ones((1,) * axes))


def along(low: int, law: Floats, direction: Ints) -> Law:
    """The law of the vector m direction, where ``law`` is the law of m from ``low`` on.

    direction [axes] consists of zeros and ones.
    """
    shape = tuple(len(law) if step else 1 for step in direction)
    weight = np.zeros(shape)
    weight[tuple(np.arange(len(law)) * step for step in direction)] = law
    return Law(low * direction, weight)


def trimmed(low: Ints, weight: Floats) -> Law:
    """The law scaled to a largest weight of 1, without weights below DUST at the ends of axes."""
    top = float(weight.max())
    if not top > 0:
        return Law(low, np.zeros((1,) * weight.ndim))
    first, last = [], []
    for axis in range(weight.ndim):
        others = tuple(other for other in range(weight.ndim) if other != axis)
        kept = np.flatnonzero(weight.max(axis=others) > DUST * top)
        first.append(int(kept[0]))
        last.append(int(kept[-1]) + 1)
    inside = weight[tuple(slice(a, b) for a, b in zip(first, last, strict=True))]
    return Law(low + np.array(first), inside / top)


def _upright(row: Floats, like: Floats) -> Floats:
    """The numbers along axis 0, for broadcasting with the array ``like``."""
    return row.reshape(-1, *(1,) * (like.ndim - 1))


def _product(a: Floats, b: Floats) -> Floats:
    """The convolution of two arrays with the same number of axes."""
    if a.ndim == 1:
        return np.convolve(a, b)
    out = np.zeros(np.array(a.shape) + b.shape - 1)
    convolve(*_by_rows(a, out), *_by_rows(b, out), out.reshape(-1))
    return out


def _by_rows(a: Floats, out: Floats) -> tuple[Floats, Ints]:
    """The rows of an array along its last axis, and the place of each in ``out`` when flat."""
    places = np.indices(a.shape[:-1]).reshape(a.ndim - 1, -1)
    strides = np.array(out.strides[:-1]) // out.itemsize
    return np.ascontiguousarray(a).reshape(-1, a.shape[-1]), strides @ places
