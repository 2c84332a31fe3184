"""Credible intervals: quantiles of mixtures of Beta laws."""

from __future__ import annotations

import numpy as np

from ..kernels.beta import fill_quantiles
from ..kernels.threads import map_parts
from .border import Floats
from .persons import Mixture

__all__ = ["central_intervals"]

PART = 20_000  # persons that a thread takes at a time


def central_intervals(P: Floats, laws: Mixture, level: float) -> tuple[Floats, Floats]:
    """Ends [n, S] of the central intervals, widened to contain P [n, S] where they do not.

    Each law of the mixture is replaced by the Beta law of the same mean and variance.
    """
    n, S = P.shape
    low, high = np.empty(P.shape), np.empty(P.shape)
    weight = np.concatenate([weight for weight, _ in laws], axis=1)  # [n, C]
    for s2 in range(1 if S == 2 else 0, S):
        mean = np.stack([law.mean[:, s2] for _, law in laws], axis=1)  # [n, C]
        variance = np.stack([law.variance[:, s2] for _, law in laws], axis=1)
        # Positive: the variance is below mean (1 - mean), which only a law on {0, 1} has.
        pseudo = mean * (1 - mean) / variance - 1
        a, b, tail = mean * pseudo, (1 - mean) * pseudo, (1 - level) / 2
        ends = np.empty((2, n))
        map_parts(fill_quantiles, n, PART, weight, a, b, tail, ends)
        low[:, s2], high[:, s2] = ends
    if S == 2:
        low[:, 0], high[:, 0] = 1 - high[:, 1], 1 - low[:, 1]
    return np.minimum(low, P), np.maximum(high, P)
