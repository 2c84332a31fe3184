"""What is learnt of one strength (alpha or kappa): its prior, and its posterior on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .border import Floats

__all__ = [
    "COARSE_GRID",
    "LEAST_STRENGTH",
    "MOST_STRENGTH",
    "Strength",
    "expected_from_others",
    "learn_strength",
    "log_prior",
]

# Strengths are sought between these two. Below the least, people are nearly deterministic. Beyond
# the most, years of a person's own history would not change the estimate from the group's mean, so
# that identical persons are reported with this many pseudo-counts.
LEAST_STRENGTH, MOST_STRENGTH = 0.05, 1e4
GRID = 17  # points on the log scale: more than two a standard deviation after the last zoom
# Each zoom narrows the grid up to 8 times, from 12.2 to 4e-4. A posterior is that narrow at about a
# hundred million moves.
ZOOMS = 5
NEGLIGIBLE = 1e-4  # a point with less than this share of the largest weight is dropped
#: Points [2 GRID] at which the rows of a class are compared, without a zoom.
COARSE_GRID = np.geomspace(LEAST_STRENGTH, MOST_STRENGTH, 2 * GRID)


@dataclass(frozen=True, eq=False)
class Strength:
    """The posterior of a strength: J points and their weights, which sum to 1."""

    points: Floats  # [J], rising
    weight: Floats  # [J]

    @property
    def centre(self) -> float:
        """The geometric mean."""
        return float(np.exp(self.weight @ np.log(self.points)))

    @property
    def top(self) -> int:
        """Which point has the largest weight."""
        return int(np.argmax(self.weight))


def log_prior(strength: Floats, expected: float) -> Floats:
    """Log density of log strength under Lomax's law with shape 2 and mean ``expected``.

    Up to a constant. The density of the strength itself is proportional to
    (expected + strength)^-3; the first term changes variables to the log.
    """
    return np.asarray(np.log(strength) - 3 * np.log(expected + strength))


def learn_strength(log_likelihood: Callable[[Floats], Floats], expected: float) -> Strength:
    """The posterior of a strength, on a grid that is narrowed to where the weight is."""
    low, high = math.log(LEAST_STRENGTH), math.log(MOST_STRENGTH)
    for zoom in range(ZOOMS):
        log_points = np.linspace(low, high, GRID)
        points = np.clip(np.exp(log_points), LEAST_STRENGTH, MOST_STRENGTH)
        log_weight = log_likelihood(points) + log_prior(points, expected)
        weight = np.exp(log_weight - log_weight.max())
        heavy = np.flatnonzero(weight > NEGLIGIBLE)
        if len(heavy) > GRID // 2 or zoom == ZOOMS - 1:
            break
        low, high = log_points[max(heavy[0] - 1, 0)], log_points[min(heavy[-1] + 1, GRID - 1)]
    return Strength(points[heavy], weight[heavy] / weight[heavy].sum())


def expected_from_others(log_likelihood: Floats) -> Floats:
    """For each row the posterior mean [2 S] of one strength common to all other rows.

    ``log_likelihood`` [2 S, J] is that of each row on COARSE_GRID. A row's own likelihood is left
    out, because it enters when the posterior of that row is formed, and must not count twice.
    """
    others = log_likelihood.sum(axis=0) - log_likelihood
    log_weight = others + log_prior(COARSE_GRID, 1.0)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.asarray(weight @ COARSE_GRID / weight.sum(axis=1))
