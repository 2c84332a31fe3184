"""Means and variances of Dirichlet laws and of mixtures of laws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from .border import Floats

__all__ = ["Law", "dirichlet", "log_rising", "mix"]


@dataclass(frozen=True, eq=False)
class Law:
    """What is known of the law of a random row: mean and variance of each entry."""

    mean: Floats  # [..., S]
    variance: Floats  # [..., S]


def dirichlet(pseudo: Floats, total: Floats | float, doubt: Floats) -> Law:
    """The law of Dirichlet(pseudo) with sum ``total``, if ``pseudo`` is itself random.

    ``pseudo`` [..., S] is then its mean and ``doubt`` [..., S] its variance. By the law of total
    variance, with m = pseudo / total and v = doubt / total^2, the variance of an entry is
    E[x (1 - x)] / (total + 1) + v for a random x of mean m and variance v.
    """
    mean = pseudo / total
    variance = doubt / total**2
    return Law(mean, (mean * (1 - mean) - variance) / (total + 1) + variance)


def mix(laws: Iterable[tuple[Floats | float, Law]]) -> Law:
    """The law of a mixture, from pairs (weight, law) whose weights sum to 1.

    Squares are taken about the first mean: about 0 they would cancel to fewer digits.
    """
    pairs = iter(laws)
    weight, law = next(pairs)
    centre, within = law.mean, weight * law.variance
    shift = square = np.zeros(())  # first and second moment of the other means about the centre
    for weight, law in pairs:
        apart = law.mean - centre
        shift = shift + weight * apart
        square = square + weight * apart**2
        within = within + weight * law.variance
    return Law(centre + shift, within + np.maximum(square - shift**2, 0.0))


def log_rising(x: Floats, y: Floats) -> Floats:
    """R(x, y) = log Gamma(x + y) - log Gamma(x), the log of x (x + 1) ... (x + y - 1)."""
    return np.asarray(gammaln(x + y) - gammaln(x))
