"""Arms on which claims are tested: drawn by the paper's law, drawn near 0 and 1, or chosen by hand.

An arm is ``p[a][s]``, the chance of the good state next, as in :meth:`softfair.Cohort.two_state`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .. import datasets
from ..cohort import Floats

__all__ = [
    "FLEETING",
    "FRAGILE",
    "INDIFFERENT",
    "LASTING",
    "MOMENTARY",
    "NO_DECAY",
    "STEADY",
    "extreme",
    "natural",
    "problems",
    "single_arms",
]

#: At gamma = .9 in state 1 with m = .65, acting is best with 2 decisions left, resting with 3.
NO_DECAY = ((0.05, 0.35), (0.99, 0.995))
#: An arm that stays good only while it is helped, and an arm that hardly responds to help.
FRAGILE, STEADY = ((0.001, 0.01), (0.02, 0.99)), ((0.3, 0.4), (0.31, 0.41))
#: An arm whose help gains just under 1 for one step, and an arm that does not respond to help.
MOMENTARY, INDIFFERENT = ((0.001, 0.002), (0.996, 0.997)), ((0.3, 0.301), (0.302, 0.303))
#: An arm that gains a little more by the next step but does not stay good, and an arm that does.
FLEETING, LASTING = ((0.01, 0.02), (0.5, 0.51)), ((0.01, 0.99), (0.45, 0.995))


def natural(count: int, n: int, seed: int) -> Floats:
    """Draw problems by the paper's law, :func:`softfair.datasets.synthetic`.

    Parameters
    ----------
    count, n : int
        The number of problems, and of arms in each.
    seed : int
        The same seed makes the same problems.

    Returns
    -------
    array [count, n, 2, 2]
        p[b, i, a, s].
    """
    return datasets.synthetic(count * n, seed=seed).p.reshape(count, n, 2, 2)


def extreme(count: int, n: int, seed: int) -> Floats:
    """Draw problems within the paper's four constraints with chances near 0 and 1.

    Claims tend to fail on such problems first. Chances are drawn from Beta(.3, .3).

    Parameters
    ----------
    count, n : int
        The number of problems, and of arms in each.
    seed : int
        The same seed makes the same problems.

    Returns
    -------
    array [count, n, 2, 2]
        p[b, i, a, s].
    """
    rng = np.random.default_rng([seed, n])
    p = 0.001 + 0.998 * np.sort(rng.beta(0.3, 0.3, (count, n, 4)), axis=-1)
    swap = rng.random((count, n)) < 0.5
    p[swap, 1:3] = p[swap, 2:0:-1]
    return p.reshape(count, n, 2, 2)


def problems(count: int, n: int, seed: int) -> Floats:
    """``count`` natural problems and then ``count`` extreme ones [2 count, n, 2, 2]."""
    return np.concatenate([natural(count, n, seed), extreme(count, n, seed)])


def single_arms(p: ArrayLike | None, count: int, seed: int) -> Floats:
    """The arms p, or if p is None ``count`` natural and ``count`` extreme arms [n, 2, 2]."""
    if p is None:
        return problems(1, count, seed).reshape(-1, 2, 2)
    return np.asarray(p, dtype=np.float64).reshape(-1, 2, 2)
