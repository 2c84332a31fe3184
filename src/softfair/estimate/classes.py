"""Classes of persons: how many there are, and who probably belongs to which.

What a person's data say of their class is added up in :func:`_members`: the share of the class in
the person's group, and the likelihood of each row. Further evidence, such as the first state,
would be one more term there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .border import Floats, Groups, Ints
from .groups import learn_group_prior
from .persons import row_law
from .rows import RowCounts, RowFit, fit_classes, rows_of, step_classes

__all__ = ["Classes", "find_classes"]

# The number of classes is learnt from at most this many persons, drawn at random; then the classes
# are fitted to all persons. More persons would not change the choice, only take longer.
MOST_SEARCHED = 3000
MOST_CLASSES = 4
LEAST_PERSONS = 30  # expected members of a class; a smaller one would hardly be learnt
# Expectation-maximisation ends after this many steps, or when a step raises the log likelihood of
# all persons by less than this.
MOST_STEPS, LEAST_RISE = 60, 0.1


@dataclass(frozen=True, eq=False)
class Classes:
    """K classes: their rows, their shares, and who belongs to them."""

    fits: list[list[RowFit]]  # [K][2 S]
    share: Floats  # [G, K]
    membership: Floats  # [n, K]
    log_likelihood: float = math.nan  # of all persons

    @property
    def score(self) -> float:
        """The log marginal likelihood by Schwarz's criterion: log n / 2 for each parameter.

        A row of a class has S parameters (alpha, and S - 1 of the cohort's mean), and K classes
        have K - 1 shares. The uncertainty of the group means is taken off by Laplace's term.
        """
        n, K = self.membership.shape
        rows, S = len(self.fits[0]), self.fits[0][0].group_mean.mean.shape[2]
        laplace_term = sum(fit.laplace_term for fits in self.fits for fit in fits)
        parameters = K * rows * S + K - 1
        return float(self.log_likelihood - laplace_term - parameters / 2 * math.log(n))


def find_classes(y: Ints, groups: Groups, wanted: int | None) -> Classes:
    """The classes of all persons, as many as ``wanted``, or as many as the history supports."""
    n, rows = len(y), rows_of(y, groups)
    searched = np.flatnonzero(y.any(axis=(1, 2, 3)))  # persons with a history
    if wanted == 1 or (wanted is None and len(searched) < 2 * LEAST_PERSONS):
        everybody = np.ones((n, 1))
        return Classes(fit_classes(rows, everybody), np.ones((groups.G, 1)), everybody)
    if len(searched) > MOST_SEARCHED:
        rng = np.random.default_rng(0)  # the same persons each time
        searched = np.sort(rng.choice(searched, MOST_SEARCHED, replace=False))
    classes = _search(y[searched], groups.of(searched), wanted)
    # From those searched to all persons: one cheap step, then a whole fit.
    membership, _ = _members(rows, groups, classes)
    classes = Classes(
        step_classes(rows, membership, classes.fits), _shares(membership, groups), membership
    )
    membership, _ = _members(rows, groups, classes)
    classes = Classes(fit_classes(rows, membership), _shares(membership, groups), membership)
    membership, log_likelihood = _members(rows, groups, classes)
    return Classes(classes.fits, classes.share, membership, log_likelihood)


def _search(y: Ints, groups: Groups, wanted: int | None) -> Classes:
    """Classes of these persons; without ``wanted``, one more while that raises the score."""
    n, rows = len(y), rows_of(y, groups)
    single = _maximise(rows, groups, np.ones((n, 1)))
    if wanted is not None:
        return _maximise(rows, groups, _split(y, groups, single.fits[0], wanted))
    best = single
    for K in range(2, 1 + min(MOST_CLASSES, n // LEAST_PERSONS)):
        more = _maximise(rows, groups, _split(y, groups, single.fits[0], K))
        if more.score <= best.score or more.membership.sum(axis=0).min() < LEAST_PERSONS:
            break
        best = more
    return best


def _maximise(rows: list[RowCounts], groups: Groups, membership: Floats) -> Classes:
    """Expectation-maximisation from the given membership [n, K]."""
    fits = fit_classes(rows, membership)
    before = -math.inf
    for _ in range(MOST_STEPS):
        share = _shares(membership, groups)
        membership, log_likelihood = _members(rows, groups, Classes(fits, share, membership))
        classes = Classes(fits, share, membership, log_likelihood)
        if membership.shape[1] == 1 or log_likelihood - before < LEAST_RISE:
            break
        before = log_likelihood
        fits = step_classes(rows, membership, fits)
    return classes


def _members(rows: list[RowCounts], groups: Groups, classes: Classes) -> tuple[Floats, float]:
    """Probability of each class for each person [n, K], and the log likelihood of all persons."""
    log_joint = np.log(classes.share)[groups.code]  # [n, K]
    for k, fits in enumerate(classes.fits):
        for counts, fit in zip(rows, fits, strict=True):
            log_joint[:, k] += counts.log_likelihood(fit)
    largest = log_joint.max(axis=1, keepdims=True)
    weight = np.exp(log_joint - largest)
    total = weight.sum(axis=1, keepdims=True)
    return weight / total, float((largest + np.log(total)).sum())


def _shares(membership: Floats, groups: Groups) -> Floats:
    """Share of each class in each group [G, K]; groups are shrunk towards the cohort."""
    if membership.shape[1] == 1:
        return np.ones((groups.G, 1))
    by_class = [np.bincount(groups.code, column, groups.G) for column in membership.T]
    members = np.stack(by_class, axis=1).astype(np.float64)  # [G, K]
    share = learn_group_prior(members).group_means(members[None]).mean[0]
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def _split(y: Ints, groups: Groups, fits: list[RowFit], K: int) -> Floats:
    """A first membership [n, K], from the fits of a single class.

    Persons are ordered along the direction in which their estimates differ most from the group's,
    and cut into K equal parts. The membership is soft, so that nobody is bound to their part.
    """
    n, _, S, _ = y.shape
    apart = [
        row_law(y[:, row // S, row % S], groups.code, fit).mean - fit.overall[groups.code]
        for row, fit in enumerate(fits)
    ]
    by_person = np.concatenate(apart, axis=1)  # [n, 2 S S]
    direction = np.linalg.eigh(by_person.T @ by_person)[1][:, -1]
    place = np.argsort(np.argsort(by_person @ direction, kind="stable"), kind="stable")
    membership = np.full((n, K), 0.2 / K)
    membership[np.arange(n), place * K // n] += 0.8
    return membership
