"""Policies side by side: benefit, fairness and what fairness costs, as data frames.

Benefit is 100 (R - R_none) / (R_oracle - R_none), run by run against the same luck without intervention, over the mean gap of the Oracle.
``of_bound`` is the same over the certificate less the exact value of helping nobody: no policy can expect more than 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import metrics
from .cohort import Cohort
from .errors import InvalidInput
from .policies import NoIntervention, Oracle, Policy, SoftFair
from .policies.base import Fitted
from .progress import track
from .simulation import Result, simulate
from .solvers import upper_bound

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CURVE", "compare", "frontier"]

Floats = NDArray[np.float64]

CURVE = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, math.inf)  # from a lottery to the k who gain most
LOOKS = 8  # (decision, states) pairs at which fairness between arms is counted


def compare(
    policies: Iterable[Policy], cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, runs: int = 50, seed: int = 0
) -> pd.DataFrame:
    """One row a policy: mean and standard deviation over runs of

    ``benefit`` (% of the Oracle's), ``of_bound`` (% of what no policy can exceed), ``reward``, ``entropy`` of who was helped,
    ``never_selected`` (share of arms), ``longest_wait`` (of any arm), ``gini`` of selections, ``unfair`` (% of pairs of arms where the
    one that would gain less has the better chance, over some decisions and states).
    """
    import pandas as pd

    chosen = list(policies)
    if not chosen:
        raise InvalidInput("there are no policies to compare; give at least one")
    referee = _Referee(cohort, k, horizon, gamma, runs, seed)
    rows = [referee.row(policy) for policy in track(chosen, "comparing policies")]
    return pd.DataFrame(rows)


def frontier(
    cohort: Cohort,
    k: int,
    horizon: int,
    cs: Sequence[float] | None = None,
    gamma: float = 1.0,
    runs: int = 50,
    seed: int = 0,
    policy: SoftFair | None = None,
) -> pd.DataFrame:
    """The benefit-fairness curve: the columns of :func:`compare`, a row for each multiplier c (default: from 0 to inf).

    ``policy`` says what else SoftFair should be (solver, design, c_value); default the priced solver and the joint design.
    """
    import pandas as pd

    base, multipliers = policy or SoftFair(), CURVE if cs is None else list(cs)
    if not multipliers:
        raise InvalidInput("there is no multiplier c to trace; give at least one, or None for the usual ones")
    referee = _Referee(cohort, k, horizon, gamma, runs, seed)
    rows = []
    for c in track(multipliers, "frontier"):
        at = SoftFair(c=c, solver=base.solver, design=base.design, c_value=base.c_value, episodes=base.episodes)
        rows.append({"c": float(c), **referee.row(at)})
    return pd.DataFrame(rows)


class _Referee:
    """What all policies of a comparison are measured against, computed once."""

    def __init__(self, cohort: Cohort, k: int, horizon: int, gamma: float, runs: int, seed: int) -> None:
        self.setting = {"cohort": cohort, "k": k, "horizon": horizon, "gamma": gamma, "seed": seed}
        self.runs, self.seed = runs, seed
        self.results: dict[Policy, tuple[Fitted, Result]] = {}
        self.none = self.run(NoIntervention())[1].totals  # [runs]
        self.oracle = float(self.run(Oracle())[1].totals.mean())
        self.headroom = upper_bound(cohort, k, horizon, gamma) - upper_bound(cohort, 0, horizon, gamma)  # with k = 0 it is exact
        # Gains of the best values at hand, at random states of decisions spread over the horizon.
        gains = SoftFair(c=math.inf).fit(**self.setting)  # type: ignore[arg-type]
        rng = np.random.default_rng(seed)
        self.looks = []
        for t in np.unique(np.linspace(0, horizon - 1, LOOKS).round().astype(int)):
            states = rng.integers(0, cohort.S, cohort.n)
            self.looks.append((int(t), states, gains.scores(int(t), states)))

    def run(self, policy: Policy) -> tuple[Fitted, Result]:
        if policy not in self.results:
            fitted = policy.fit(**self.setting)  # type: ignore[arg-type]
            self.results[policy] = fitted, simulate(fitted, self.runs, self.seed)
        return self.results[policy]

    def row(self, policy: Policy) -> dict[str, float | str]:
        fitted, result = self.run(policy)
        none = float(self.none.mean())
        gained = result.totals - self.none
        unfair = [100 * float(metrics.unfair_share(fitted.inclusion(t, states), gains)) for t, states, gains in self.looks]
        figures = {
            "benefit": metrics.intervention_benefit(gained, 0.0, self.oracle - none),
            "of_bound": metrics.intervention_benefit(gained, 0.0, self.headroom),
            "reward": result.totals,
            "entropy": metrics.action_entropy(result.counts),
            "never_selected": metrics.never_selected(result.counts),
            "longest_wait": metrics.longest_wait(result.waits),
            "gini": metrics.gini(result.counts),
        }
        row: dict[str, float | str] = {"policy": policy.label}
        for name, values in figures.items():
            row[name] = float(np.mean(values))
            row[f"{name}_sd"] = float(np.std(values, ddof=1)) if self.runs > 1 else math.nan
        row["unfair"] = float(np.mean(unfair))
        return row
