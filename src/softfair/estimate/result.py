"""The result of the estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .border import Floats, Ints
from .contexts import Contexts

__all__ = ["COHORT", "GROUP", "OWN", "PRIOR", "ColumnEffect", "Estimate", "Interval"]

#: The source of a row, in `Estimate.source`: the moves of the person (shrunk towards those of
#: similar people), the moves of the group, the moves of the cohort, or the prior alone.
OWN, GROUP, COHORT, PRIOR = 0, 1, 2, 3


@dataclass(frozen=True)
class Interval:
    """A figure with the ends of its credible interval.

    Parameters
    ----------
    value : float
        The figure.
    low, high : float
        The ends.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: Floats, level: float) -> Interval:
        """The mean of draws [L], and the ends that leave out (1 - level) / 2 of the law each.

        The r-th smallest of L draws is taken as the quantile r / (L + 1). So the interval has the
        stated coverage for any number of draws.
        """
        tail = (1 - level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail], method="weibull")
        return cls(float(np.mean(draws)), float(low), float(high))

    @property
    def told(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ColumnEffect:
    """The effect that goes with a column, or with a value of a column.

    Effects are in logits of the best state against the worst, averaged over states. For a column of
    numbers, the effect is that of one standard deviation; for a value, it compares people who have
    the value with people who do not.

    Parameters
    ----------
    column : str
        Name of the column.
    value : str
        The value; empty if the column is a number.
    without : Interval
        The difference in the logit of people who are not contacted.
    effect : Interval
        The difference in the effect of a contact.
    """

    column: str
    value: str
    without: Interval
    effect: Interval


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """Transition probabilities of n persons with S states.

    Without memory a context is a state, C = S, and ``Cohort(estimate.P)`` is the cohort to plan
    with. With memory, probabilities depend on C contexts, and the cohort to plan with is
    ``Cohort(estimate.contexts.chain(estimate.P), reward=estimate.contexts.reward)``.

    Parameters
    ----------
    P : ndarray, [n, 2, C, S]
        Posterior means. Each row sums to one.
    low, high : ndarray, [n, 2, C, S]
        Ends of the shortest credible interval of each probability, widened if necessary to contain
        P.
    level : float
        Posterior probability that an interval contains the true value.
    draws : ndarray of float32, [L, n, 2, C, S - 1]
        Joint draws of P[..., 1:] from the posterior of all people: within a draw, the parameters
        of the population are the same for everybody.
    seen : ndarray of int64, [n, 2, C]
        Number of moves observed from each context under each action.
    source : ndarray of int8, [n, 2, C]
        The source of each row: OWN, GROUP, COHORT or PRIOR.
    no_history : ndarray of bool, [n]
        True for a person without a single observed move out of a known context.
    binding : ndarray of bool, [n, 4]
        Whether each of CONSTRAINTS holds with equality, for persons whose estimate broke a
        constraint before the projection. All False unless the estimate was monotone.
    classes : ndarray, [4]
        Probability that people are of 1, 2, 3 or 4 classes.
    no_effect : float
        Probability that a contact changes nothing for anybody.
    effect : tuple of Interval, [C]
        What a contact in each context adds to the chance that the best state is next, on average
        over people.
    seen_chance : tuple of Interval, [S]
        The chance that each state is recorded; empty if no round is without a state.
    hides : Interval, optional
        The chance that the best state is recorded less the chance that the worst is. None if no
        round is without a state.
    columns : tuple of ColumnEffect
        The effect that goes with each column.
    left_out : tuple of str
        A sentence for each column that is not used, with the reason.
    contexts : Contexts
        The contexts on which transition probabilities depend.
    """

    P: Floats  # [n, 2, C, S]
    low: Floats  # [n, 2, C, S]
    high: Floats  # [n, 2, C, S]
    level: float
    draws: NDArray[np.float32]  # [L, n, 2, C, S - 1]
    seen: Ints  # [n, 2, C]
    source: NDArray[np.int8]  # [n, 2, C]
    no_history: NDArray[np.bool_]  # [n]
    binding: NDArray[np.bool_]  # [n, 4]
    classes: Floats  # [4]
    no_effect: float
    effect: tuple[Interval, ...]  # [C]
    seen_chance: tuple[Interval, ...]  # [S]
    hides: Interval | None
    columns: tuple[ColumnEffect, ...]
    left_out: tuple[str, ...]
    contexts: Contexts

    @property
    def bound(self) -> NDArray[np.bool_]:
        """True [n] for persons whose estimate was moved by a constraint."""
        return np.asarray(self.binding.any(axis=1))

    def __repr__(self) -> str:
        n, S = len(self.P), self.contexts.S
        return (
            f"<Estimate: n={n}, S={S}, classes={1 + int(np.argmax(self.classes))} "
            f"({self.classes.max():.0%}), without history {int(self.no_history.sum())}, "
            f"bound {int(self.bound.sum())}>"
        )
