"""Concave welfares of the rates of help, and the bonuses at which given rates are optimal.

y_i is the rate of help of arm i over the mean rate, so that mean(y) = 1 and y = 1 is even. u_i is
the bonus of arm i, in units in which the optimal rates maximise W(y) - mean(u y):

    welfare   W(y)                u at the optimum      W*(u) = max W(y) - mean(u y)
    entropy   -mean(y log y)      -log y                log mean exp(-u)
    log       mean(log y)         1/y - 1               nu - 1 - mean log(u + nu), see `Log`
    min       min(y)              0 where y > min(y)    0, for u >= 0 with mean 1

The entropy of the shares y / n is log n + W(y).
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["TINY", "WELFARES", "Entropy", "Log", "Min", "SmoothWelfare", "Welfare"]

Floats = NDArray[np.float64]

TINY = 1e-300  # below every rate of help that occurs, so that logarithms are finite


class Welfare(abc.ABC):
    """A concave function of the relative rates of help y [n], whose mean is 1."""

    name: ClassVar[str]
    above: ClassVar[float] = -math.inf  # every bonus u is greater than this
    least: ClassVar[float] = -math.inf  # every bonus u is at least this
    even: ClassVar[float] = 0.0  # the bonus of every arm if all rates are 1

    @abc.abstractmethod
    def value(self, y: Floats) -> float:
        """W(y)."""

    @abc.abstractmethod
    def conjugate(self, u: Floats) -> float:
        """An upper bound on W(y) - mean(u y) over all y >= 0 with mean 1."""


class SmoothWelfare(Welfare):
    """A welfare whose optimal rate of an arm depends on the arm's bonus alone."""

    @abc.abstractmethod
    def log_rate(self, u: Floats) -> tuple[Floats, Floats]:
        """log y of the optimal rate at bonus u, and its derivative by -u."""


class Entropy(SmoothWelfare):
    """W(y) = -mean(y log y), the entropy of the shares y / n less log n."""

    name = "entropy"

    def value(self, y: Floats) -> float:
        return -float(np.mean(y * np.log(np.maximum(y, TINY))))

    def conjugate(self, u: Floats) -> float:
        low = float(u.min())
        return math.log(float(np.mean(np.exp(low - u)))) - low

    def log_rate(self, u: Floats) -> tuple[Floats, Floats]:
        return -u, np.ones_like(u)


class Log(SmoothWelfare):
    """W(y) = mean(log y), proportional fairness."""

    name, above = "log", -1.0

    def value(self, y: Floats) -> float:
        return float(np.mean(np.log(np.maximum(y, TINY))))

    def conjugate(self, u: Floats) -> float:
        # y = 1 / (u + nu), with nu such that mean(y) = 1; nu = 1 at the optimum of the problem.
        from scipy.optimize import brentq

        low = -float(u.min())
        nu = brentq(lambda nu: float(np.mean(1 / (u + nu))) - 1, low + 0.5 / len(u), low + 2)
        return float(nu) - 1 - float(np.mean(np.log(u + nu)))

    def log_rate(self, u: Floats) -> tuple[Floats, Floats]:
        return -np.log1p(u), 1 / (1 + u)


class Min(Welfare):
    """W(y) = min(y): all arms with a bonus are helped at the same rate, all others at least so."""

    name, least, even = "min", 0.0, 1.0

    def value(self, y: Floats) -> float:
        return float(y.min())

    def conjugate(self, u: Floats) -> float:
        # mean(u y) >= mean(u) min(y), and 0 <= min(y) <= 1.
        return max(0.0, 1 - float(np.mean(u)))


WELFARES: dict[str, Welfare] = {"entropy": Entropy(), "log": Log(), "min": Min()}
