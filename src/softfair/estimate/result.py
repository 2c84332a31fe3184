"""What the estimate gives back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .border import Floats, Ints

__all__ = ["COHORT", "GROUP", "OWN", "PRIOR", "Estimate"]

#: Where a row comes from, in `Estimate.source`: the person's own moves (shrunk towards the
#: group's), the moves of the group, the moves of the cohort, or nobody's. In the last case every
#: next state is equally likely until somebody has been seen there.
OWN, GROUP, COHORT, PRIOR = 0, 1, 2, 3


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """Transition probabilities of n persons with S states in G groups and K classes.

    ``Cohort(estimate.P)`` is the cohort to plan with.

    Parameters
    ----------
    P : ndarray, [n, 2, S, S]
        Posterior means. Each row sums to one.
    low, high : ndarray, [n, 2, S, S]
        Ends of the central credible interval of each probability. Where the posterior is so skew
        that P would lie outside, the interval is widened to contain it.
    level : float
        Posterior probability that an interval contains the true value.
    seen : ndarray of int64, [n, 2, S]
        Moves observed out of that state under that action.
    source : ndarray of int8, [n, 2, S]
        Where the row comes from: OWN, GROUP, COHORT or PRIOR.
    no_history : ndarray of bool, [n]
        True for a person without a single observed move.
    binding : ndarray of bool, [n, 4]
        Which of CONSTRAINTS hold with equality and moved the estimate. All False unless the
        estimate was monotone.
    membership : ndarray, [n, K]
        Probability that the person belongs to each class.
    class_share : ndarray, [G, K]
        Share of each class in each group.
    class_mean : ndarray, [K, 2, S, S]
        Mean of each class in the cohort.
    strength : ndarray, [K, 2, S]
        alpha: pseudo-counts of the group in a person's estimate.
    alike : ndarray of bool, [K, 2, S]
        True where the history does not show that persons of the class differ, so that an infinite
        strength would fit as well.
    group_strength : ndarray, [K, 2, S]
        kappa: pseudo-counts of the cohort in a group's estimate. nan where there is one group.
    group_mean : ndarray, [G, 2, S, S]
        Mean of each group over its classes.
    cohort_mean : ndarray, [2, S, S]
        Mean of the cohort over its classes.
    """

    P: Floats  # [n, 2, S, S]
    low: Floats  # [n, 2, S, S]
    high: Floats  # [n, 2, S, S]
    level: float
    seen: Ints  # [n, 2, S]
    source: NDArray[np.int8]  # [n, 2, S]
    no_history: NDArray[np.bool_]  # [n]
    binding: NDArray[np.bool_]  # [n, 4]
    membership: Floats  # [n, K]
    class_share: Floats  # [G, K]
    class_mean: Floats  # [K, 2, S, S]
    strength: Floats  # [K, 2, S]
    alike: NDArray[np.bool_]  # [K, 2, S]
    group_strength: Floats  # [K, 2, S]
    group_mean: Floats  # [G, 2, S, S]
    cohort_mean: Floats  # [2, S, S]

    @property
    def bound(self) -> NDArray[np.bool_]:
        """True [n] for persons whose estimate was moved by a constraint."""
        return np.asarray(self.binding.any(axis=1))

    def __repr__(self) -> str:
        n, _, S, _ = self.P.shape
        G, K = self.class_share.shape
        return (
            f"<Estimate: n={n}, S={S}, groups={G}, classes={K}, "
            f"without history {int(self.no_history.sum())}, bound {int(self.bound.sum())}>"
        )
