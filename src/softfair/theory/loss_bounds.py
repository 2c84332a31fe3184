"""Bounds on the loss of reward by a softmax in place of a maximum, as functions of n, k and c."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import lambertw

from ..cohort import Floats
from .claim import ROUNDING

__all__ = [
    "CS",
    "LARGE_C",
    "Bound",
    "PerStep",
    "discounted",
    "eta_entropy",
    "eta_lambert",
    "eta_paper",
    "eta_sharp",
    "least_c",
    "long_enough",
    "softmax_loss",
]

PerStep = Callable[[int, int, float], float]  # (n, k, c) -> bound on the loss at one decision

CS = (0.1, 0.3, 1.0, 3.0, 10.0)  # multipliers tried
LARGE_C = "c >= 2 W(1/e) / (1 - W(1/e)) = 0.772"


def discounted(gamma: float, horizon: int | None) -> float:
    """1 + gamma + ... + gamma^(T - 1); the infinite sum if the horizon is None.

    Parameters
    ----------
    gamma : float
    horizon : int or None

    Returns
    -------
    float
    """
    return 1 / (1 - gamma) if horizon is None else float(np.sum(gamma ** np.arange(horizon)))


def long_enough(gamma: float, n: int) -> int:
    """A horizon T after which the rest, n gamma^T / (1 - gamma), is below rounding."""
    return math.ceil(math.log(0.1 * ROUNDING * (1 - gamma) / n) / math.log(gamma))


def eta_paper(n: int, k: int, c: float) -> float:
    """The paper's bound (n - k) / (2 + c): Lemma 2 for k = 1, the conjecture for k > 1.

    Parameters
    ----------
    n, k : int
    c : float

    Returns
    -------
    float
    """
    return (n - k) / (2 + c)


def eta_lambert(n: int, k: int, c: float) -> float:
    """(C(n, k) - 1) W(1/e) / c, with Lambert's W: W(1/e) = 0.2785.

    Each action but the best adds at most delta / (1 + exp(c delta)), whose maximum is W(1/e) / c.

    Parameters
    ----------
    n, k : int
    c : float

    Returns
    -------
    float
    """
    return (math.comb(n, k) - 1) * _lambert(1 / math.e) / c


def eta_entropy(n: int, k: int, c: float) -> float:
    """log C(n, k) / c.

    (1/c) log sum exp(c Q) is at least max Q, and equals the softmax's mean Q plus its entropy / c.

    Parameters
    ----------
    n, k : int
    c : float

    Returns
    -------
    float
    """
    return math.log(math.comb(n, k)) / c


def eta_sharp(n: int, k: int, c: float) -> float:
    """W((C(n, k) - 1) / e) / c, the least bound that holds for all Q.

    Where the loss L is stationary, each gap is 1/c + L. So all gaps are equal, and x = c gap solves
    (x - 1) e^(x - 1) = (C(n, k) - 1) / e.

    Parameters
    ----------
    n, k : int
    c : float

    Returns
    -------
    float
    """
    return _lambert((math.comb(n, k) - 1) / math.e) / c


def _lambert(x: float) -> float:
    """Lambert's W of x >= 0: w e^w = x."""
    return float(lambertw(x).real)


def least_c(n: int, k: int = 1) -> float:
    """The multiplier from which on the paper's (n - k) / (2 + c) is a bound for every Q.

    `eta_paper` crosses `eta_sharp` there; it is inf if they never cross. For k = 1 it is at most
    2 W(1/e) / (1 - W(1/e)) = .772, its value at n = 2.

    Parameters
    ----------
    n, k : int

    Returns
    -------
    float
    """
    ratio = eta_sharp(n, k, 1.0) / (n - k)
    return 2 * ratio / (1 - ratio) if ratio < 1 else math.inf


def softmax_loss(gaps: Floats, c: float) -> Floats:
    """max Q - softmax Q [B], from the gaps between the best and every other action [B, A - 1]."""
    weight = np.exp(-c * gaps)
    loss: Floats = (weight * gaps).sum(axis=1) / (1 + weight.sum(axis=1))
    return loss


@dataclass(frozen=True)
class Bound:
    """One form of a bound on the loss by softness.

    Parameters
    ----------
    name : str
        The ending of the claim's name; "" for the form in the paper.
    text : str
        The formula of the bound.
    eta : callable
        (n, k, c) -> the bound for one decision.
    condition : str
        The condition under which the bound is tested.
    sizes : tuple of (n, k)
        The sizes for which the bound is tested.
    hard : bool
        Whether to test only multipliers from :func:`least_c` on.
    small : bool
        Whether to test only gaps of at most 1.
    horizon : int or None
        The number of decisions, at gamma = 1; None for an infinite horizon at gamma = .9.
    """

    name: str
    text: str
    eta: PerStep
    condition: str = ""
    sizes: tuple[tuple[int, int], ...] = ((2, 1), (3, 1))
    hard: bool = False
    small: bool = False
    horizon: int | None = None

    def cs(self, n: int, k: int) -> tuple[float, ...]:
        """The multipliers to test."""
        least = least_c(2 if k == 1 else n, k)  # for k = 1 the value at n = 2 is enough for every n
        return (least, 2 * least, 10 * least) if self.hard else CS

    def id(self, claim: str) -> str:
        """The name of the claim in this form."""
        return f"{claim}-{self.name}" if self.name else claim
