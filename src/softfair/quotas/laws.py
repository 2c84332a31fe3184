"""Laws of vectors of counts: how many arms are taken, and how many of them from each of some sets.

Axis 0 counts all arms of a branch of the tree; every further axis counts those in one of the sets
that cross the tree (:mod:`softfair.quotas.tree`). Without such sets a law is a row of numbers.
Weights are never negative, so that sums lose no digits, and every weight keeps its own, however
small a part of the largest it is. Fourier transforms would not do: their error is a part of the
largest weight, and what is small may matter once a law is tilted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..kernels.quotas import convolve

__all__ = ["Law", "along", "empty", "trimmed"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DUST = 1e-25  # what holds less, at either end of an axis, is dropped


@dataclass(frozen=True, eq=False)
class Law:
    """Weights of the vectors of counts from ``low`` on, up to a factor."""

    low: Ints  # [axes]
    weight: Floats

    def __add__(self, other: Law) -> Law:
        """The law of the sum of two independent vectors."""
        return trimmed(self.low + other.low, _product(self.weight, other.weight))

    def minus(self, other: Law) -> Law:
        """sum over m of other(m) self(a + m), as a function of a."""
        low = self.low - other.low - other.weight.shape + 1
        return trimmed(low, _product(self.weight, np.flip(other.weight)))

    def tilted(self, tilt: float) -> Law:
        """The weights times exp(tilt count), the count of all arms."""
        if tilt == 0:
            return self
        logs = tilt * np.arange(len(self.weight))
        return trimmed(self.low, self.weight * _upright(np.exp(logs - logs.max()), self.weight))

    def mean(self, tilt: float) -> tuple[float, float]:
        """Mean and variance of the count of all arms, weights multiplied by exp(tilt count)."""
        rows = np.arange(len(self.weight))
        logs = tilt * rows
        weight = self.weight.reshape(len(rows), -1).sum(axis=1) * np.exp(logs - logs.max())
        weight /= weight.sum()
        mean = float(weight @ rows)
        return int(self.low[0]) + mean, float(weight @ (rows - mean) ** 2)

    def rows(self, low: Ints, shape: tuple[int, ...]) -> Floats:
        """The weights of the vectors from ``low`` on; 0 beyond those kept."""
        out = np.zeros(shape)
        first = np.maximum(low, self.low)
        last = np.minimum(low + shape, self.low + self.weight.shape)
        if (last > first).all():
            there = tuple(slice(a, b) for a, b in zip(first - low, last - low, strict=True))
            here = zip(first - self.low, last - self.low, strict=True)
            out[there] = self.weight[tuple(slice(a, b) for a, b in here)]
        return out

    def bounded(self, low: int, high: int, shift: float) -> Law:
        """The part with ``low`` to ``high`` arms in all, without the factor exp(shift count)."""
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
    """The law of m times a direction [axes] of zeros and ones; m has a law from ``low`` on."""
    shape = tuple(len(law) if step else 1 for step in direction)
    weight = np.zeros(shape)
    weight[tuple(np.arange(len(law)) * step for step in direction)] = law
    return Law(low * direction, weight)


def trimmed(low: Ints, weight: Floats) -> Law:
    """The law scaled to a largest weight of 1, without what is dust at the ends of its axes."""
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
    """A row of numbers along axis 0 of an array."""
    return row.reshape(-1, *(1,) * (like.ndim - 1))


def _product(a: Floats, b: Floats) -> Floats:
    """The convolution of two arrays of as many axes."""
    if a.ndim == 1:
        return np.convolve(a, b)
    out = np.zeros(np.array(a.shape) + b.shape - 1)
    convolve(*_by_rows(a, out), *_by_rows(b, out), out.reshape(-1))
    return out


def _by_rows(a: Floats, out: Floats) -> tuple[Floats, Ints]:
    """The rows of an array along its last axis, and where each begins in a flat ``out``."""
    places = np.indices(a.shape[:-1]).reshape(a.ndim - 1, -1)
    strides = np.array(out.strides[:-1]) // out.itemsize
    return np.ascontiguousarray(a).reshape(-1, a.shape[-1]), strides @ places
