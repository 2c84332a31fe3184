"""The posterior of each person's own row, as a mixture over classes and ranges of alpha."""

from __future__ import annotations

import numpy as np

from .border import Floats, Ints
from .laws import Law, dirichlet, mix
from .rows import RowFit

__all__ = ["Mixture", "distinct_persons", "person_laws", "row_law"]

#: Weight [n, 1] and law [n, S] of each part of a mixture.
Mixture = list[tuple[Floats, Law]]

# One Beta law of the mixture stands for a range of log alpha of this length; within it alpha varies
# by a factor of e^+-.5 about the middle.
RANGE = 1.0
SAME_MEMBERSHIP = 1e-4  # persons whose memberships agree to this are given one estimate


def distinct_persons(y: Ints, group: Ints, membership: Floats) -> tuple[Ints, Ints]:
    """One person of each kind, and the kind of each person [n].

    Persons of a kind have the same group and the same counts y [n, S] of the row, and memberships
    [n, K] that agree when rounded; so they have the same estimate of it.
    """
    kind = np.zeros(len(y), np.int64)
    rounded = np.rint(membership[:, 1:] / SAME_MEMBERSHIP).astype(np.int64)
    for column in (group, *y.T, *rounded.T):
        _, example, kind = np.unique(
            kind * (int(column.max()) + 1) + column, return_index=True, return_inverse=True
        )
    return example, kind


def person_laws(y: Ints, group: Ints, fits: list[RowFit], membership: Floats) -> Mixture:
    """The laws of each person's row: one for each class and range of log alpha.

    ``fits`` [K] are those of the row in each class.
    """
    N = y.sum(axis=1, keepdims=True)
    laws: Mixture = []
    for fit, member in zip(fits, membership.T, strict=True):
        points, weight, m = fit.alpha.points, fit.alpha.weight, fit.group_mean
        for within in _ranges(points):
            share = weight[within].sum()
            law = mix(
                (
                    weight[j] / share,
                    dirichlet(
                        points[j] * m.mean[j][group] + y,
                        points[j] + N,
                        points[j] ** 2 * m.variance[j][group],
                    ),
                )
                for j in within
            )
            laws.append(((share * member)[:, None], law))
    return laws


def row_law(y: Ints, group: Ints, fit: RowFit) -> Law:
    """The law of each person's row if there is a single class."""
    return mix(person_laws(y, group, [fit], np.ones((len(y), 1))))


def _ranges(points: Floats) -> list[Ints]:
    """The points of alpha [J] that belong to each range; the last range takes what is left over."""
    span = np.log(points / points[0])
    number = np.minimum(span // RANGE, max(span[-1] // RANGE - 1, 0))
    return [np.flatnonzero(number == one) for one in np.unique(number)]
