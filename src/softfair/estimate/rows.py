"""Shrinkage of one row: what is learnt of one class, action and state from all persons.

A row is the pair (action a, state s), numbered a S + s. Persons enter weighted by the probability
that they belong to the class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..kernels.threads import map_parts
from .border import Floats, Groups, Ints
from .groups import GroupPrior, learn_group_prior, log_groups
from .laws import Law, log_rising
from .strengths import (
    COARSE_GRID,
    LEAST_STRENGTH,
    MOST_STRENGTH,
    Strength,
    expected_from_others,
    learn_strength,
    log_prior,
)

__all__ = ["RowCounts", "RowFit", "fit_classes", "rows_of", "step_classes"]

# Log likelihood by which persons who differ must beat identical persons before the history is said
# to show that they differ: half of 4, the usual 95 % limit of a likelihood ratio.
SHOWN_TO_DIFFER = 2.0
# A step of expectation-maximisation tries alpha at these factors of its last value.
STEP_FACTORS = np.exp(np.linspace(-0.6, 0.6, 5))


@dataclass(frozen=True, eq=False)
class RowFit:
    """What was learnt for one class and row: J points of alpha, and the group means at each."""

    alpha: Strength  # J points
    group_mean: Law  # [J, G, S], of m_g
    prior: GroupPrior
    expected: float  # mean of the prior of alpha, from the other rows of the class
    laplace_term: float  # what the group means take off the log likelihood, at the top alpha
    alike: bool  # the history does not show that persons differ

    @property
    def overall(self) -> Floats:
        """Mean of m_g over the posterior of alpha [G, S]."""
        return np.asarray(np.tensordot(self.alpha.weight, self.group_mean.mean, axes=1))


@dataclass(frozen=True, eq=False)
class Pairs:
    """The distinct pairs (group, count), sorted, and which of them each person has."""

    group: Ints  # [c]
    count: Floats  # [c]
    pair: Ints  # [n]

    def total(self, values: Floats) -> Floats:
        """The sum of the values [n] of the persons with each pair [c]."""
        return np.asarray(np.bincount(self.pair, values, len(self.group)), dtype=np.float64)


class RowCounts:
    """The counts of one row, and which persons share a count.

    The likelihood needs one evaluation for each distinct pair (group, count). Where histories have
    similar lengths there are far fewer pairs than persons.
    """

    def __init__(self, y: Ints, groups: Groups) -> None:
        self.y, self.G, self.S = y, groups.G, y.shape[1]
        self.of_N = _distinct(groups.code, y.sum(axis=1))  # pairs (group, N)
        # For each next state s2 the pairs (group, y_s2).
        self.of_next = [_distinct(groups.code, y[:, s2]) for s2 in range(self.S)]
        # The distinct N of all groups together [l], and which of them each person has [n].
        self.lengths, length = np.unique(self.of_N.count, return_inverse=True)
        self.length = length[self.of_N.pair]

    def log_likelihood(self, fit: RowFit) -> Floats:
        """log p(y_i | alpha, m_g) [n] of each person, at the alpha of the largest weight."""
        top = fit.alpha.top
        alpha, mean = fit.alpha.points[top], fit.group_mean.mean[top]
        total: Floats = -log_rising(alpha, self.lengths)[self.length]
        for s2, pairs in enumerate(self.of_next):
            total += log_rising(alpha * mean[pairs.group, s2], pairs.count)[pairs.pair]
        return total


class Tally:
    """The counts of one row as one class has them: persons weighted by membership."""

    def __init__(self, counts: RowCounts, membership: Floats) -> None:
        self.counts = counts
        self.persons = np.bincount(counts.length, membership, len(counts.lengths))  # [l]
        self.persons_by_next = [pairs.total(membership) for pairs in counts.of_next]
        self.moves = np.stack(  # [c, S]
            [counts.of_N.total(membership * counts.y[:, s2]) for s2 in range(counts.S)], axis=1
        )

    def effective(self, alpha: Floats) -> Floats:
        """Moves of each group by next state, as many as they are worth for its mean [J, G, S].

        N moves of one person are worth N (alpha + 1) / (alpha + N) independent ones.
        """
        group, N = self.counts.of_N.group, self.counts.of_N.count
        discount = (alpha[:, None] + 1) / (alpha[:, None] + N)  # [J, c]
        first = np.flatnonzero(np.diff(group, prepend=-1))  # the first pair of each group
        effective = np.zeros((len(alpha), self.counts.G, self.counts.S))
        for s2 in range(self.counts.S):
            effective[:, group[first], s2] = np.add.reduceat(
                discount * self.moves[:, s2], first, axis=1
            )
        return effective

    def log_likelihood(self, alpha: Floats, mean: Floats) -> Floats:
        """log p(y | alpha, m_g) [J] of all persons, at alpha [J] and mean [J, G, S]."""
        counts = self.counts
        total: Floats = -(log_rising(alpha[:, None], counts.lengths) @ self.persons)
        for s2, pairs in enumerate(counts.of_next):
            rising = log_rising(alpha[:, None] * mean[:, pairs.group, s2], pairs.count)
            total += rising @ self.persons_by_next[s2]
        return total

    def log_fit(self, alpha: Floats, prior: GroupPrior) -> Floats:
        """log p(y | alpha) [J] of all persons, up to a constant."""
        effective = self.effective(alpha)
        likelihood = self.log_likelihood(alpha, prior.centre(effective))
        return likelihood - prior.laplace_term(effective)


def rows_of(y: Ints, groups: Groups) -> list[RowCounts]:
    """The counts of each of the 2 S rows of y [n, 2, S, S]."""
    S = y.shape[2]
    return [RowCounts(y[:, row // S, row % S], groups) for row in range(2 * S)]


def fit_classes(rows: list[RowCounts], membership: Floats) -> list[list[RowFit]]:
    """Every row of every class [K][2 S], given who belongs to which class [n, K]."""
    return _each_class(
        lambda k: _fit_class([Tally(counts, membership[:, k]) for counts in rows]),
        membership.shape[1],
    )


def step_classes(
    rows: list[RowCounts], membership: Floats, previous: list[list[RowFit]]
) -> list[list[RowFit]]:
    """Every row of every class [K][2 S], one cheap step from the previous fits."""
    return _each_class(
        lambda k: [
            _step(Tally(counts, membership[:, k]), fit)
            for counts, fit in zip(rows, previous[k], strict=True)
        ],
        membership.shape[1],
    )


def _each_class(fit: Callable[[int], list[RowFit]], K: int) -> list[list[RowFit]]:
    """The fits of each class, on as many threads as there are."""
    return [
        fits for (fits,) in map_parts(lambda low, high: [fit(k) for k in range(low, high)], K, 1)
    ]


def _fit_class(tallies: list[Tally]) -> list[RowFit]:
    """All rows of one class; each row's strengths are expected to be those of the other rows.

    The first pass starts from an expectation of 1, the second from what the first found.
    """
    expected, expected_kappa = np.ones(len(tallies)), np.ones(len(tallies))  # [2 S]
    for _ in range(2):
        effective = [
            tally.effective(np.array([alpha]))[0]
            for tally, alpha in zip(tallies, expected, strict=True)
        ]
        if tallies[0].counts.G > 1:
            by_row = [log_groups(COARSE_GRID, moves) for moves in effective]
            expected_kappa = expected_from_others(np.stack(by_row))
        priors = list(map(learn_group_prior, effective, expected_kappa))
        by_row = [
            tally.log_fit(COARSE_GRID, prior) for tally, prior in zip(tallies, priors, strict=True)
        ]
        expected = expected_from_others(np.stack(by_row))
    return list(map(_fit_row, tallies, priors, expected, expected_kappa))


def _fit_row(tally: Tally, prior: GroupPrior, expected: float, expected_kappa: float) -> RowFit:
    """alpha, then kappa, then the group means. Each strength hardly depends on the other."""
    alpha = learn_strength(lambda points: tally.log_fit(points, prior), expected)
    prior = learn_group_prior(tally.effective(np.array([alpha.centre]))[0], expected_kappa)
    top = alpha.points[[alpha.top]]
    identical, best = tally.log_fit(np.array([MOST_STRENGTH, top[0]]), prior)
    return RowFit(
        alpha=alpha,
        group_mean=prior.group_means(tally.effective(alpha.points)),
        prior=prior,
        expected=expected,
        laplace_term=float(prior.laplace_term(tally.effective(top))[0]),
        alike=bool(identical > best - SHOWN_TO_DIFFER),
    )


def _step(tally: Tally, previous: RowFit) -> RowFit:
    """Keep kappa, and move alpha to the best of a few points around its previous top."""
    top = previous.alpha.points[[previous.alpha.top]]
    prior = previous.prior.given(tally.effective(top)[0])
    tried = np.clip(top * STEP_FACTORS, LEAST_STRENGTH, MOST_STRENGTH)
    log_posterior = tally.log_fit(tried, prior) + log_prior(tried, previous.expected)
    alpha = tried[[np.argmax(log_posterior)]]
    effective = tally.effective(alpha)
    return RowFit(
        alpha=Strength(alpha, np.ones(1)),
        group_mean=prior.group_means(effective),
        prior=prior,
        expected=previous.expected,
        laplace_term=float(prior.laplace_term(effective)[0]),
        alike=previous.alike,
    )


def _distinct(group: Ints, count: Ints) -> Pairs:
    """The distinct pairs of the group [n] and a count [n] of each person."""
    base = int(count.max(initial=0)) + 1
    codes, pair = np.unique(group * base + count, return_inverse=True)
    return Pairs(codes // base, (codes % base).astype(np.float64), pair)
