"""Values and gains by Algorithm 1 and by the priced solver, without warnings.

Algorithm 1 is run with successive draws, as in the paper. The number of episodes is always given,
so that a verdict does not change with the default of the solver.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from .. import solvers
from ..cohort import Cohort, Floats
from ..errors import NotConverged
from ..solvers.values import TableValues

__all__ = ["algorithm_1_gains", "algorithm_1_values", "priced_gains"]

EPISODES = 300  # 50 T at the horizon of 6 that most checks use


def algorithm_1_values(
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float,
    c: float = math.inf,
    episodes: int = EPISODES,
    seed: int = 0,
) -> Floats:
    """V [T + 1, n, S] of Algorithm 1 after some episodes.

    Parameters
    ----------
    cohort : Cohort
    k, horizon : int
    gamma, c : float
    episodes, seed : int

    Returns
    -------
    array [horizon + 1, n, S]
    """
    return _algorithm_1(cohort, k, horizon, gamma, c, episodes, seed).V


def algorithm_1_gains(
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float,
    c: float = math.inf,
    episodes: int = EPISODES,
    seed: int = 0,
) -> Floats:
    """lambda [T, n, S] of Algorithm 1 after some episodes.

    Parameters
    ----------
    cohort : Cohort
    k, horizon : int
    gamma, c : float
    episodes, seed : int

    Returns
    -------
    array [horizon, n, S]
    """
    return _algorithm_1(cohort, k, horizon, gamma, c, episodes, seed).rows(0, horizon)


def _algorithm_1(
    cohort: Cohort, k: int, horizon: int, gamma: float, c: float, episodes: int, seed: int
) -> TableValues:
    with warnings.catch_warnings():
        # At large c values never settle. The claims are about what the algorithm returns.
        warnings.simplefilter("ignore", NotConverged)
        return solvers.solve_paper(
            cohort, k, horizon, gamma, c, design="successive", episodes=episodes, seed=seed
        )


def priced_gains(cohort: Cohort, k: int, horizon: int, gamma: float, c: float = math.inf) -> Floats:
    """lambda [T, n, S] of the priced solver.

    Parameters
    ----------
    cohort : Cohort
    k, horizon : int
    gamma, c : float

    Returns
    -------
    array [horizon, n, S]
    """
    with warnings.catch_warnings():
        # At c = inf a few arms cannot spend k in expectation to eight digits.
        warnings.simplefilter("ignore", NotConverged)
        return solvers.solve_priced(cohort, k, horizon, gamma, c).rows(0, horizon)


def stacked(tables: list[Floats]) -> Floats:
    """Tables [T, n, S] of B problems as [T, B, n, S]."""
    return np.stack(tables, axis=1)
