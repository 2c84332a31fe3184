"""Exact values for small n: dynamic programming over all joint states and all sets of k arms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cohort import Floats
from ..errors import InvalidInput
from ..sampling import Design
from .witness import LARGEST

__all__ = ["Joint", "arms_of", "highest", "set_law", "sets_of", "softmax_value"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Joint:
    """B small problems at once: every joint state (N = 2^n) and every set of k arms (A = C(n, k)).

    Arms are those of the paper: they have two states, and the good state is worth 1.

    Parameters
    ----------
    members : array [A, n]
        1 for the arms in each set; sets are in the order of itertools.combinations.
    states : array [N, n]
        The joint states.
    move : array [B, A, N, N]
        Chances of the next joint state.

    Examples
    --------
    >>> from softfair import theory
    >>> joint = theory.Joint.of([[[[0.1, 0.6], [0.5, 0.9]], [[0.2, 0.7], [0.3, 0.8]]]], k=1)
    >>> Q, V = joint.backward(horizon=1, gamma=1.0, value=theory.highest)
    >>> Q[0, 0, :, 0].round(3).tolist()  # both arms are bad: help for the first, for the second
    [0.7, 0.4]
    """

    members: Ints
    states: Ints
    move: Floats

    @classmethod
    def of(cls, p: ArrayLike, k: int) -> Joint:
        """Make the dynamic programme of problems p.

        Parameters
        ----------
        p : array [B, n, 2, 2]
            p[b, i, a, s], the chance of the good state next.
        k : int
            Arms helped at each decision.

        Returns
        -------
        Joint

        Raises
        ------
        InvalidInput
            There are too many arms to enumerate.
        """
        good = np.asarray(p, dtype=np.float64)
        count, n = good.shape[:2]
        if n > LARGEST:
            raise InvalidInput(
                f"the joint programme has {n} arms; give at most {LARGEST}, "
                "it grows as 4^n times the sets"
            )
        members = sets_of(n, k)
        P = np.stack([1 - good, good], axis=-1)  # [B, n, 2, S, S]
        move = np.ones((count, len(members), 1, 1))
        for i in range(n):
            size = 2 * move.shape[-1]
            move = np.einsum("baxy,bauv->baxuyv", move, P[:, i, members[:, i]]).reshape(
                count, len(members), size, size
            )
        return cls(members, np.array(list(product((0, 1), repeat=n)), dtype=np.int64), move)

    def backward(
        self,
        horizon: int,
        gamma: float,
        value: Callable[[Floats, int], Floats],
        reward: float = 1.0,
    ) -> tuple[Floats, Floats]:
        """Backward recursion from V_T = 0.

        Parameters
        ----------
        horizon : int
            Decisions T.
        gamma : float
            Discount.
        value : callable
            value(Q_t [B, A, N], t) -> V_t [B, N].
        reward : float
            Reward of an arm in the good state.

        Returns
        -------
        Q : array [T, B, A, N]
        V : array [T + 1, B, N]
        """
        count, sets, size = self.move.shape[:3]
        move = self.move.reshape(count, sets * size, size)
        worth = reward * self.states.sum(axis=1)  # [N]: reward of each state reached
        Q, V = np.empty((horizon, count, sets, size)), np.zeros((horizon + 1, count, size))
        for t in reversed(range(horizon)):
            Q[t] = (move @ (worth + gamma * V[t + 1])[:, :, None]).reshape(count, sets, size)
            V[t] = value(Q[t], t)
        return Q, V

    def value_of(self, law: Floats, gamma: float) -> Floats:
        """The reward [B, N] of the policy that helps sets by law [T, B, A, N]."""
        _, V = self.backward(len(law), gamma, lambda Q, t: (law[t] * Q).sum(axis=1))
        value: Floats = V[0]
        return value

    def in_states(self, gains: Floats) -> Floats:
        """lambda of every arm in each joint state [..., N, n], from lambda [..., n, 2]."""
        by_state: Floats = gains[..., np.arange(gains.shape[-2]), self.states]
        return by_state

    def scores(self, gains: Floats) -> Floats:
        """Sum of lambda over each set in each joint state [..., A, N], from lambda [..., n, 2]."""
        sums: Floats = np.swapaxes(self.in_states(gains) @ self.members.T, -1, -2)
        return sums

    def draws(self, gains: Floats, c: float, design: Design) -> Floats:
        """Pr(set) in each joint state [..., A, N] when k arms are drawn by exp(c lambda)."""
        z = c * self.in_states(gains)  # [..., N, n]
        law = set_law(z.reshape(-1, z.shape[-1]), int(self.members[0].sum()), design)
        by_set: Floats = np.swapaxes(law.reshape(*z.shape[:-1], -1), -1, -2)
        return by_set


@cache
def sets_of(n: int, k: int) -> Ints:
    """1 for the arms in each set of k arms, else 0 [A, n]."""
    return np.array(
        [[int(i in chosen) for i in range(n)] for chosen in combinations(range(n), k)],
        dtype=np.int64,
    )


def arms_of(members: Ints) -> list[int]:
    """The arms of one set, from its row of :func:`sets_of`."""
    return [int(i) for i in np.flatnonzero(members)]


def highest(Q: Floats, t: int) -> Floats:
    """The Bellman optimality operator Psi (Eq. 10).

    Parameters
    ----------
    Q : array [B, A, N]
    t : int
        Not used: the operator is the same at every step.

    Returns
    -------
    array [B, N]
        The value of the best set.
    """
    best: Floats = Q.max(axis=1)
    return best


def softmax_value(Q: Floats, c: float) -> Floats:
    """The paper's Psi_soft (Eq. 9): the mean of Q under the softmax of c Q over joint actions.

    Parameters
    ----------
    Q : array [B, A, N]
    c : float

    Returns
    -------
    array [B, N]
    """
    weight = np.exp(c * (Q - Q.max(axis=1, keepdims=True)))
    mean: Floats = (weight * Q).sum(axis=1) / weight.sum(axis=1)
    return mean


def set_law(log_weights: ArrayLike, k: int, design: Design) -> Floats:
    """Pr(set) of a sampling design by enumeration.

    Parameters
    ----------
    log_weights : array [B, n]
    k : int
    design : {"successive", "joint"}

    Returns
    -------
    array [B, A]
        Sets in the order of itertools.combinations.
    """
    z = np.asarray(log_weights, dtype=np.float64)
    n, members = z.shape[1], sets_of(z.shape[1], k)
    if design == "joint":
        sums = z @ members.T
        law: Floats = np.exp(sums - sums.max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        return law
    w, law = np.exp(z - z.max(axis=1, keepdims=True)), np.zeros((len(z), len(members)))
    for a, chosen in enumerate(combinations(range(n), k)):
        for order in permutations(chosen):
            chance = np.ones(len(z))
            for place, i in enumerate(order):
                chance *= w[:, i] / np.delete(w, order[:place], axis=1).sum(axis=1)
            law[:, a] += chance
    return law
