"""The estimate itself: classes, then each person's rows, then the constraints if asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from .border import Floats, Groups, Ints, check_classes, check_counts, check_groups, check_level
from .classes import Classes, find_classes
from .constraint import CONSTRAINTS, project
from .intervals import central_intervals
from .laws import mix
from .persons import distinct_persons, person_laws
from .result import COHORT, GROUP, OWN, PRIOR, Estimate
from .rows import RowFit

__all__ = ["estimate"]


def estimate(
    counts: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.9,
    monotone: bool = False,
    classes: int | None = None,
) -> Estimate:
    """Estimate each person's transition probabilities, with credible intervals.

    Persons are shrunk towards their class and group, and groups towards the cohort.

    Parameters
    ----------
    counts : array_like of int, [n, 2, S, S]
        Moves of each person, as :func:`count_transitions` gives them.
    groups : array_like of int, [n], optional
        Group of each person as codes 0, 1, ... By default all persons are one group.
    level : float
        Level of the credible intervals, between 0 and 1.
    monotone : bool
        Hold every person to :data:`CONSTRAINTS` (two states only).
    classes : int, optional
        Number K of classes of persons. By default as many as the history supports.

    Returns
    -------
    Estimate
        Probabilities, intervals, and what was learnt of classes, groups and the cohort.

    Raises
    ------
    InvalidInput
        If an argument has the wrong shape, type or range, or if ``monotone`` is asked for with
        more than two states.

    Notes
    -----
    The model heads :mod:`softfair.estimate`.

    With ``monotone``, posterior means are projected on the constraints by weighted least squares,
    the weights being the posterior precisions, and so are both ends of the intervals. The
    projection keeps the order of its arguments. Hence the estimate stays between the ends, and a
    true value that meets the constraints and lies between the ends before lies between them after.

    Examples
    --------
    >>> import softfair.estimate
    >>> fitted = softfair.estimate.estimate([[[[3, 1], [0, 0]], [[0, 0], [0, 0]]]])
    >>> fitted.P.shape, fitted.source[0].tolist()
    ((1, 2, 2, 2), [[0, 3], [3, 3]])
    """
    y = check_counts(counts)
    n, _, S, _ = y.shape
    of_groups, share_covered = check_groups(groups, n), check_level(level)
    if monotone and S != 2:
        raise InvalidInput(
            f"monotone is about a bad and a good state, the history has {S} states; "
            "leave it out, or reduce the history to two states"
        )
    found_classes = find_classes(y, of_groups, check_classes(classes, n))
    rows = _posteriors(y, of_groups, found_classes, share_covered)
    binding = np.zeros((n, len(CONSTRAINTS)), np.bool_)
    if monotone:
        rows, binding = _constrained(rows)
    return _result(y.sum(axis=3), of_groups, found_classes, rows, binding, share_covered)


@dataclass(frozen=True, eq=False)
class _Posteriors:
    """The posterior of every person's rows, each field [n, 2, S, S]."""

    mean: Floats
    variance: Floats
    low: Floats
    high: Floats


def _posteriors(y: Ints, groups: Groups, classes: Classes, level: float) -> _Posteriors:
    """Every row of every person; persons of one kind are computed once."""
    S = y.shape[2]
    rows = _Posteriors(*(np.empty(y.shape) for _ in range(4)))
    for a in range(2):
        for s in range(S):
            example, kind = distinct_persons(y[:, a, s], groups.code, classes.membership)
            laws = person_laws(
                y[example, a, s],
                groups.code[example],
                [fits[a * S + s] for fits in classes.fits],
                classes.membership[example],
            )
            law = mix(laws)
            mean = law.mean / law.mean.sum(axis=1, keepdims=True)  # the sum is 1 but for rounding
            low, high = central_intervals(mean, laws, level)
            rows.mean[:, a, s], rows.variance[:, a, s] = mean[kind], law.variance[kind]
            rows.low[:, a, s], rows.high[:, a, s] = low[kind], high[kind]
    return rows


def _constrained(rows: _Posteriors) -> tuple[_Posteriors, NDArray[np.bool_]]:
    """The rows projected on CONSTRAINTS, and which of these bind [n, 4]."""
    precision = 1 / rows.variance[..., 1]
    good = project(rows.mean[..., 1], precision)
    # The projection keeps order; minimum and maximum only undo its rounding.
    low = np.minimum(project(rows.low[..., 1], precision).p, good.p)
    high = np.maximum(project(rows.high[..., 1], precision).p, good.p)
    projected = _Posteriors(
        mean=np.stack([1 - good.p, good.p], axis=-1),
        variance=rows.variance,
        low=np.stack([1 - high, low], axis=-1),
        high=np.stack([1 - low, high], axis=-1),
    )
    return projected, good.binding


def _sources(seen: Ints, groups: Groups) -> NDArray[np.int8]:
    """Where each row [n, 2, S] comes from, given the moves seen [n, 2, S]."""
    by_group = np.zeros((groups.G, *seen.shape[1:]), np.int64)
    np.add.at(by_group, groups.code, seen)
    otherwise = np.where(seen.any(axis=0), COHORT, PRIOR)  # [2, S]
    not_own = np.where(by_group[groups.code] > 0, GROUP, otherwise)
    return np.where(seen > 0, OWN, not_own).astype(np.int8)


def _result(
    seen: Ints,
    groups: Groups,
    classes: Classes,
    rows: _Posteriors,
    binding: NDArray[np.bool_],
    level: float,
) -> Estimate:
    """All that was learnt, in one object."""
    S = seen.shape[2]
    G, K = classes.share.shape

    def each(value: Callable[[RowFit], Any], *shape: int) -> NDArray[Any]:  # [K, 2, S, *shape]
        values = [[value(fit) for fit in fits] for fits in classes.fits]
        return np.array(values).reshape(K, 2, S, *shape)

    class_mean = each(lambda fit: fit.prior.cohort_mean, S)
    group_mean = each(lambda fit: fit.overall, G, S)
    share = classes.membership.mean(axis=0) if G > 1 else classes.share[0]  # [K], of the cohort
    return Estimate(
        P=rows.mean,
        low=rows.low,
        high=rows.high,
        level=level,
        seen=seen,
        source=_sources(seen, groups),
        no_history=np.asarray(~seen.any(axis=(1, 2))),
        binding=binding,
        membership=classes.membership,
        class_share=classes.share,
        class_mean=class_mean,
        strength=each(lambda fit: fit.alpha.centre),
        alike=each(lambda fit: fit.alike),
        group_strength=each(lambda fit: fit.prior.kappa.centre if G > 1 else math.nan),
        group_mean=np.einsum("gk,kasgt->gast", classes.share, group_mean),
        cohort_mean=np.einsum("k,kast->ast", share, class_mean),
    )
