"""Groups below the cohort: kappa, the mean m of the cohort, and the means m_g of the groups.

All is about one class, action and state. The data are the effective moves of each group by next
state, ``effective`` [G, S] (see :mod:`.rows`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .border import Floats
from .laws import Law, dirichlet, log_rising, mix
from .strengths import Strength, learn_strength

__all__ = ["GroupPrior", "learn_group_prior", "log_groups"]


@dataclass(frozen=True, eq=False)
class GroupPrior:
    """What the cohort says of the mean m_g of any of its groups, for each point of kappa.

    With a single group the cohort is the group, and m_g has the flat prior Dirichlet(1, ..., 1):
    that is kappa = S and m = 1/S, known exactly.
    """

    kappa: Strength  # L points
    m: Law  # [L, S]
    cohort_mean: Floats  # [S], posterior mean of m

    def given(self, effective: Floats) -> GroupPrior:
        """The same kappa, with the mean m that these effective moves [G, S] give."""
        m, cohort_mean = _locate(self.kappa, effective)
        return replace(self, m=m, cohort_mean=cohort_mean)

    def centre(self, effective: Floats) -> Floats:
        """Mean of each m_g [J, G, S] at the central kappa: accurate enough for a likelihood."""
        kappa = self.kappa.centre
        pseudo = kappa * (self.kappa.weight @ self.m.mean) + effective
        return np.asarray(pseudo / (kappa + effective.sum(axis=2, keepdims=True)))

    def group_means(self, effective: Floats) -> Law:
        """The law of each m_g [J, G, S] over the posterior of kappa, given moves [J, G, S]."""
        total = effective.sum(axis=2, keepdims=True)  # [J, G, 1]
        points = zip(
            self.kappa.points, self.kappa.weight, self.m.mean, self.m.variance, strict=True
        )
        return mix(
            (weight, dirichlet(kappa * mean + effective, kappa + total, kappa**2 * variance))
            for kappa, weight, mean, variance in points
        )

    def laplace_term(self, effective: Floats) -> Floats:
        """What the uncertainty of the group means takes off the log likelihood [J].

        ``effective`` is [J, G, S].
        """
        S = effective.shape[2]
        ratio = effective.sum(axis=2) / self.kappa.centre  # [J, G]
        return np.asarray((S - 1) / 2 * np.log1p(ratio).sum(axis=1))


def learn_group_prior(effective: Floats, expected: float = 1.0) -> GroupPrior:
    """kappa and m from the effective moves [G, S], if kappa is expected to be ``expected``."""
    G, S = effective.shape
    kappa = (
        Strength(np.array([float(S)]), np.ones(1))
        if G == 1
        else learn_strength(lambda points: log_groups(points, effective), expected)
    )
    return GroupPrior(kappa, *_locate(kappa, effective))


def log_groups(kappa: Floats, effective: Floats) -> Floats:
    """log p(moves of the groups | kappa) [L], up to a constant, at kappa [L].

    The Dirichlet-multinomial likelihood of each group at the mean m of the cohort, less Laplace's
    term for m, whose flat prior is worth S moves.
    """
    S = effective.shape[1]
    m, moves = _cohort(kappa, effective)
    total = -log_rising(kappa[:, None], effective.sum(axis=1)).sum(axis=1)
    for s2 in range(S):
        total += log_rising((kappa * m.mean[:, s2])[:, None], effective[:, s2]).sum(axis=1)
    return np.asarray(total - (S - 1) / 2 * np.log1p(moves / S))


def _locate(kappa: Strength, effective: Floats) -> tuple[Law, Floats]:
    """The law of m at each point of kappa, and its mean over them."""
    G, S = effective.shape
    if G == 1:
        flat = Law(np.full((1, S), 1 / S), np.zeros((1, S)))
        return flat, (1 + effective[0]) / (S + effective.sum())
    m, _ = _cohort(kappa.points, effective)
    return m, kappa.weight @ m.mean


def _cohort(kappa: Floats, effective: Floats) -> tuple[Law, Floats]:
    """The law of m [L, S], and the moves that it rests on [L], at kappa [L].

    The moves of a group are discounted by (kappa + 1) / (kappa + their number), as the moves of a
    person are; then m is Dirichlet(1 + moves).
    """
    S = effective.shape[1]
    discount = (kappa[:, None] + 1) / (kappa[:, None] + effective.sum(axis=1))  # [L, G]
    moves = discount @ effective  # [L, S]
    total = S + moves.sum(axis=1, keepdims=True)  # [L, 1]
    mean = (1 + moves) / total
    return Law(mean, mean * (1 - mean) / (total + 1)), total[:, 0] - S
