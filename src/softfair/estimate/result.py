"""What the estimate gives back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .border import Floats, Ints
from .contexts import Contexts

__all__ = ["COHORT", "GROUP", "OWN", "PRIOR", "ColumnEffect", "Estimate", "Interval"]

#: Where a row comes from, in `Estimate.source`: the person's own moves (shrunk towards those of
#: people like them), the moves of the group, the moves of the cohort, or nobody's.
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
        """Mean and ends of draws [L]; each end leaves out the share (1 - level) / 2 of the law.

        The r-th of L draws is the quantile r / (L + 1), which makes the interval cover as it says
        however few draws there are.
        """
        tail = (1 - level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail], method="weibull")
        return cls(float(np.mean(draws)), float(low), float(high))

    @property
    def told(self) -> bool:
        """Whether the interval tells the figure from 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ColumnEffect:
    """What a number about people, or a value of a column, goes together with.

    In logits of the best state against the worst, averaged over states: for a number as one
    standard deviation of it, for a value against people without it.

    Parameters
    ----------
    column : str
        Name of the column.
    value : str
        The value that it is about; empty if the column is a number.
    without : Interval
        What it adds to the logit of people who are not contacted.
    effect : Interval
        What it adds to the effect of a contact.
    """

    column: str
    value: str
    without: Interval
    effect: Interval


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """Transition probabilities of n persons with S states.

    ``Cohort(estimate.P)`` is the cohort to plan with. With memory, chances go by C contexts, and
    it is ``Cohort(estimate.contexts.chain(estimate.P), reward=estimate.contexts.reward)``. Without,
    a context is a state, and C = S.

    Parameters
    ----------
    P : ndarray, [n, 2, C, S]
        Posterior means. Each row sums to one.
    low, high : ndarray, [n, 2, C, S]
        Ends of the central credible interval of each probability. Where the posterior is so skew
        that P would lie outside, the interval is widened to contain it.
    level : float
        Posterior probability that an interval contains the true value.
    draws : ndarray of float32, [L, n, 2, C, S - 1]
        Joint draws of P[..., 1:] from the posterior of everybody together: what is not known of
        the population is the same for everybody within a draw.
    seen : ndarray of int64, [n, 2, C]
        Moves observed out of that context under that action.
    source : ndarray of int8, [n, 2, C]
        Where the row comes from: OWN, GROUP, COHORT or PRIOR.
    no_history : ndarray of bool, [n]
        True for a person without a single observed move out of a known context.
    binding : ndarray of bool, [n, 4]
        Which of CONSTRAINTS hold with equality and moved the estimate. All False unless the
        estimate was monotone.
    classes : ndarray, [4]
        Probability that people are of 1, 2, 3 or 4 classes.
    no_effect : float
        Probability that a contact changes nothing for anybody.
    effect : tuple of Interval, [C]
        What a contact adds to the chance of the best state next, on average over people, from each
        context.
    seen_chance : tuple of Interval, [S]
        Chance that a state is seen when it is that; empty if no round is without a state.
    hides : Interval, optional
        How much more likely the best state is seen than the worst. None if no round is without a
        state.
    columns : tuple of ColumnEffect
        What each column goes together with.
    left_out : tuple of str
        Why a column is not used, a sentence for each.
    contexts : Contexts
        What chances go by.
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
