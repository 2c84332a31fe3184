"""The `paper` solver: Algorithm 1 to the letter.

Episodes ep = 1..K run forward, t = 0..T-1 (the paper prints 0..T, one decision more than its horizon holds), from a random start; only
values of the states visited are overwritten, by pi Q(s, 1) + (1 - pi) Q(s, 0), with V_{t+1} as the previous episode left it. A reward
needs an episode for each step it travels back, and a state not yet visited still holds 0, so some 6 T episodes are needed.
"""

from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numpy as np

from ..cohort import Cohort
from ..errors import NotConverged, whole
from ..kernels import episodes as kernels
from ..kernels.expansion import SERIES
from ..kernels.rules import RuleCode
from ..progress import track
from ..sampling import DESIGNS, Design
from .values import Info, TableValues

__all__ = ["solve_paper"]

INCLUSION_TOLERANCE = 1e-3  # relative, per step: far below the noise of one visit
CHANGE_TOLERANCE = 0.02  # of the mean value at t = 0 over the last T episodes


def solve_paper(
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float,
    c: float,
    design: Design,
    episodes: int | None,
    seed: int,
) -> TableValues:
    """Values after ``episodes`` episodes (default 6 T, at least 300)."""
    episodes = max(300, 6 * horizon) if episodes is None else episodes
    rule = int(RuleCode.TOP if math.isinf(c) else DESIGNS[design])
    key = np.random.SeedSequence(whole("seed", seed, 0)).generate_state(1, np.uint64)[0]
    V = np.zeros((horizon + 1, cohort.n, cohort.S))
    visits = np.zeros((horizon, cohort.n, cohort.S), np.int32)
    arms = (cohort.P, cohort.reward_rows, cohort.start_rows)
    multiplier = 0.0 if rule == RuleCode.TOP else float(c)
    earlier, look_back = np.nan, max(0, episodes - min(horizon, max(1, episodes // 2)))
    part = max(1, int(2e6 // (horizon * cohort.n)))
    bounds = sorted({*range(0, episodes, part), look_back, episodes})
    for first, last in track(list(pairwise(bounds)), "episodes of Algorithm 1"):
        if first == look_back:
            earlier = float(np.sum(cohort.start * V[0]))
        kernels.episodes(
            first,
            last,
            *arms,
            k,
            multiplier,
            gamma,
            rule,
            INCLUSION_TOLERANCE,
            key,
            SERIES,
            V,
            visits,
        )
    value = float(np.sum(cohort.start * V[0]))
    change = abs(value - earlier) / max(abs(value), 1e-300)
    info = Info(
        "paper",
        c,
        change,
        CHANGE_TOLERANCE,
        episodes,
        {"never visited (t, arm, state)": float(np.mean(visits == 0))},
    )
    if not info.converged:
        remedy = f"give more episodes (some {6 * horizon} for a horizon of {horizon})"
        if episodes >= 6 * horizon:
            remedy = "a value is what the last visit left, and hangs on who else was there; choose a smaller c_value or solver='priced'"
        what = f"paper: values at t = 0 still move after {episodes} episodes"
        warnings.warn(NotConverged(what, change, CHANGE_TOLERANCE, remedy), stacklevel=3)
    return TableValues(cohort, gamma, V, info)
