"""The estimate: first the population, then the rows of each person, then optional constraints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from .border import Floats, Groups, Ints, check_classes, check_counts, check_groups, check_level
from .columns import design_of
from .constraint import CONSTRAINTS, project
from .fitting import Population, fit_population
from .histories import Histories
from .persons import Persons, persons_of
from .result import COHORT, GROUP, OWN, PRIOR, ColumnEffect, Estimate, Interval

__all__ = ["estimate"]

# A person contradicts a constraint if it is broken with more than this probability, and a history
# contradicts a constraint if more than this share of the people do.
SURELY, MANY = 0.95, 0.05
BROKEN = (
    "a contact from the worse state harms",
    "a contact from the better state harms",
    "people not contacted do better after the worse state than after the better",
    "people contacted do better after the worse state than after the better",
)


def estimate(
    history: Histories | ArrayLike,
    groups: ArrayLike | None = None,
    *,
    columns: Mapping[str, ArrayLike] | None = None,
    level: float = 0.9,
    monotone: bool = False,
    classes: int | None = None,
) -> Estimate:
    """Estimate each person's transition probabilities, with credible intervals.

    Parameters
    ----------
    history : Histories or array_like of int, [n, 2, S, S]
        The result of :func:`read_histories`; or the moves of each person, as
        :func:`count_transitions` returns them, which have no first states and no gaps. With memory
        (see :func:`read_histories`), probabilities depend on contexts.
    groups : array_like of int, [n], optional
        Group of each person as codes 0, 1, ..., used as one more column. By default all people are
        in one group.
    columns : mapping of str to array_like, [n], optional
        Numbers (nan where missing) or categories (None or "" where missing) known of each person.
    level : float
        Level of the credible intervals, between 0 and 1.
    monotone : bool
        Whether to make every person meet :data:`CONSTRAINTS` (two states only).
    classes : int, optional
        Number of classes of persons. By default it is averaged over.

    Returns
    -------
    Estimate
        Probabilities, intervals, joint draws, and what was learnt of the population.

    Raises
    ------
    InvalidInput
        An argument has the wrong shape, type or range; or ``monotone`` is true with more than two
        states or with memory, or the history contradicts the constraints.

    Notes
    -----
    The docstring of :mod:`softfair.estimate` describes the model.

    With ``monotone``, posterior means and both ends of the intervals are projected on the
    constraints by least squares, weighted by the posterior precisions. The projection keeps the
    order of its arguments. Hence the estimate stays between the ends. A true value that meets the
    constraints and lies between the ends before the projection also lies between them after it.

    Examples
    --------
    >>> import softfair.estimate
    >>> fitted = softfair.estimate.estimate([[[[3, 1], [0, 0]], [[0, 0], [0, 0]]]])
    >>> fitted.P.shape, fitted.source[0].tolist()
    ((1, 2, 2, 2), [[0, 3], [3, 3]])
    """
    if not isinstance(history, Histories):
        history = Histories.of_moves(check_counts(history))
    n, S = history.n, history.S
    of_groups, share_covered = check_groups(groups, n), check_level(level)
    number_of_classes = check_classes(classes, n)
    if monotone and S != 2:
        raise InvalidInput(
            f"monotone is about a bad and a good state, the history has {S} states; "
            "leave it out, or reduce the history to two states"
        )
    if monotone and history.contexts.C != S:
        raise InvalidInput(
            "monotone is about chances that go by the state alone; leave it or the memory out"
        )
    all_columns = dict(columns or {})
    if of_groups.G > 1:
        all_columns["group"] = of_groups.code.astype(str)
    design = design_of(all_columns, n)
    example, kind = history.distinct(design.X)
    kinds, people = history.take(example), np.bincount(kind).astype(np.float64)
    population = fit_population(kinds, people, design.of(example), number_of_classes)
    X = population.design.X if design.X.shape[1] else design.X[example]
    persons = persons_of(kinds, kind, X, population, share_covered)
    binding = np.zeros((n, len(CONSTRAINTS)), np.bool_)
    if monotone:
        _refuse_contradicted(persons.draws)
        persons, binding = _constrained(persons)
    by_column: Floats = population.by_column() @ population.design.contrasts(people).T  # [L, 2, c]
    return _result(history, of_groups, population, persons, binding, share_covered, by_column)


def _refuse_contradicted(draws: NDArray[np.float32]) -> None:
    """Refuse constraints that many people surely break."""
    p = draws[..., 0]  # [L, n, 2, 2]
    for ((a, s), (a2, s2)), broken in zip(CONSTRAINTS, BROKEN, strict=True):
        surely = (p[:, :, a, s] > p[:, :, a2, s2]).mean(axis=0) > SURELY  # [n]
        if surely.mean() > MANY:
            raise InvalidInput(
                f"the history contradicts monotone: for {int(surely.sum())} of {len(surely)} "
                f"people {broken} (with more than {SURELY:.0%} probability each); leave it out"
            )


def _constrained(persons: Persons) -> tuple[Persons, NDArray[np.bool_]]:
    """The persons projected on CONSTRAINTS, and whether each constraint binds [n, 4]."""
    variance = persons.draws[..., 0].var(axis=0, dtype=np.float64)
    precision = 1 / np.maximum(variance, 1e-12)
    good = project(persons.P[..., 1], precision)
    # The projection keeps the order of its arguments; minimum and maximum only undo its rounding.
    low = np.minimum(project(persons.low[..., 1], precision).p, good.p)
    high = np.maximum(project(persons.high[..., 1], precision).p, good.p)
    draws = np.empty_like(persons.draws)
    for number, draw in enumerate(persons.draws):
        draws[number, ..., 0] = project(draw[..., 0].astype(np.float64), precision).p
    projected = Persons(
        P=np.stack([1 - good.p, good.p], axis=-1),
        low=np.stack([1 - high, low], axis=-1),
        high=np.stack([1 - low, high], axis=-1),
        draws=draws,
    )
    return projected, good.binding


def _sources(seen: Ints, groups: Groups) -> NDArray[np.int8]:
    """The source of each row [n, 2, C], given the number of moves seen [n, 2, C]."""
    by_group = np.zeros((groups.G, *seen.shape[1:]), np.int64)
    np.add.at(by_group, groups.code, seen)
    otherwise = np.where(seen.any(axis=0), COHORT, PRIOR)  # [2, C]
    not_own = np.where(by_group[groups.code] > 0, GROUP, otherwise)
    return np.where(seen > 0, OWN, not_own).astype(np.int8)


def _result(
    history: Histories,
    groups: Groups,
    population: Population,
    persons: Persons,
    binding: NDArray[np.bool_],
    level: float,
    by_column: Floats,
) -> Estimate:
    """The estimate; ``by_column`` [L, 2, c] are draws of the effects of columns."""
    seen = history.moves.sum(axis=3)
    best = persons.draws[..., -1].mean(axis=1, dtype=np.float64)  # [L, 2, C]
    effect = best[:, 1] - best[:, 0]  # [L, C]
    chances = population.seen()  # [L, S]
    gaps = not np.isnan(chances).any()
    design = population.design
    return Estimate(
        P=persons.P,
        low=persons.low,
        high=persons.high,
        level=level,
        draws=persons.draws,
        seen=seen,
        source=_sources(seen, groups),
        no_history=np.asarray(~seen.any(axis=(1, 2))),
        binding=binding,
        classes=population.classes,
        no_effect=population.no_effect,
        effect=tuple(Interval.of(values, level) for values in effect.T),
        seen_chance=tuple(Interval.of(values, level) for values in chances.T) if gaps else (),
        hides=Interval.of(chances[:, -1] - chances[:, 0], level) if gaps else None,
        columns=tuple(
            ColumnEffect(
                column,
                value,
                Interval.of(by_column[:, 0, j], level),
                Interval.of(by_column[:, 1, j], level),
            )
            for j, (column, value) in enumerate(zip(design.column, design.value, strict=True))
        ),
        left_out=design.left_out,
        contexts=history.contexts,
    )
