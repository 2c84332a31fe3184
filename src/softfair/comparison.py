"""Policies side by side: benefit, fairness and what fairness costs, as data frames.

Benefit is 100 (R - R_none) / (R_oracle - R_none), run by run against the same luck without intervention, over the mean gap of the Oracle.
``of_bound`` is the same over the certificate less the exact value of helping nobody: no policy can expect more than 100.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import metrics
from .cohort import Cohort
from .errors import InvalidInput, NotConverged
from .policies import NoIntervention, Oracle, Policy, SoftFair
from .policies.base import check_setting
from .progress import track
from .simulation import Look, Result, simulate_and_look
from .solvers import upper_bound

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CURVE", "compare", "frontier"]

Floats = NDArray[np.float64]

CURVE = (
    0.0,
    0.5,
    1.0,
    2.0,
    3.0,
    5.0,
    7.0,
    10.0,
    15.0,
    20.0,
    30.0,
    50.0,
    100.0,
    math.inf,
)  # from a lottery to the k who gain most
FEWEST_LOOKS, MOST_LOOKS, ARMS_LOOKED_AT = (
    8,
    32,
    100_000,
)  # decisions at which pairs of arms are counted: fewer where arms are many


def compare(
    policies: Iterable[Policy],
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float = 1.0,
    runs: int = 50,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a policy: mean and standard deviation over runs of

    ``benefit`` (% of the Oracle's), ``of_bound`` (% of the most that help can add), ``reward``, ``entropy`` of who was helped,
    ``never_selected`` (share of arms), ``longest_wait`` (of any arm), ``gini`` of selections, ``unfair`` (% of pairs of arms where the
    one that would gain less has the better chance, over some decisions of the runs; the mean alone).

    Where the Oracle cannot be fitted (arms of three or more states without an index), ``benefit`` is nan, with a warning.
    """
    import pandas as pd

    if isinstance(policies, Policy):
        raise InvalidInput(f"policies is {policies!r}; give a list: [{policies!r}]")
    chosen = list(policies)
    if not chosen:
        raise InvalidInput("there are no policies to compare; give at least one")
    for i, policy in enumerate(chosen):
        if not isinstance(policy, Policy):
            raise InvalidInput(
                f"policies[{i}] is {policy!r}; give policies, made but not fitted, such as sf.Random()"
            )
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

    base = SoftFair() if policy is None else policy
    if not isinstance(base, SoftFair):
        raise InvalidInput(f"policy is {base!r}; give a SoftFair, whose c is then varied")
    if cs is not None and not np.iterable(cs):
        raise InvalidInput(f"cs is {cs!r}; give a list of multipliers, such as [{cs!r}]")
    multipliers = CURVE if cs is None else list(cs)
    if not multipliers:
        raise InvalidInput(
            "there is no multiplier c to trace; give at least one, or None for the usual ones"
        )
    referee = _Referee(cohort, k, horizon, gamma, runs, seed)
    rows = []
    for c in track(multipliers, "frontier"):
        at = SoftFair(
            c=c,
            solver=base.solver,
            design=base.design,
            c_value=base.c_value,
            episodes=base.episodes,
        )
        rows.append({"c": float(c), **referee.row(at)})
    return pd.DataFrame(rows)


class _Referee:
    """What all policies of a comparison are measured against, computed once."""

    def __init__(
        self, cohort: Cohort, k: int, horizon: int, gamma: float, runs: int, seed: int
    ) -> None:
        check_setting(cohort, k, horizon, gamma)
        self.setting = {"cohort": cohort, "k": k, "horizon": horizon, "gamma": gamma, "seed": seed}
        self.runs, self.seed = runs, seed
        # Decisions at random: a fixed stride could fall in step with a policy that has a period.
        most = max(FEWEST_LOOKS, min(MOST_LOOKS, ARMS_LOOKED_AT // cohort.n))
        self.decisions = sorted(np.random.default_rng(seed).permutation(horizon)[:most].tolist())
        self.results: dict[Policy, tuple[Result, list[Look]]] = {}
        self.none = self.run(NoIntervention())[0].totals  # [runs]
        self.oracle = self._oracle()
        self.headroom = upper_bound(cohort, k, horizon, gamma) - upper_bound(
            cohort, 0, horizon, gamma
        )  # with k = 0 it is exact
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", NotConverged
            )  # rough prices are good enough a judge, and nobody asked for this policy
            self.judge = SoftFair(c=math.inf).fit(**self.setting)  # type: ignore[arg-type]

    def _oracle(self) -> float:
        """The Oracle's mean total reward; nan, with a warning, where arms have no index."""
        try:
            return float(self.run(Oracle())[0].totals.mean())
        except InvalidInput as error:
            warnings.warn(
                f"benefit is nan, because the Oracle cannot be fitted: {error}; of_bound does without it",
                stacklevel=4,
            )
            return math.nan

    def run(self, policy: Policy) -> tuple[Result, list[Look]]:
        if policy not in self.results:
            fitted = policy.fit(**self.setting)  # type: ignore[arg-type]
            self.results[policy] = simulate_and_look(fitted, self.runs, self.seed, self.decisions)
        return self.results[policy]

    def row(self, policy: Policy) -> dict[str, float | str]:
        result, looks = self.run(policy)
        none = float(self.none.mean())
        gained = result.totals - self.none
        unfair = [
            metrics.unfair_share(look.inclusion, self.judge.scores(look.t, look.states))
            for look in looks
        ]
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
        row["unfair"] = 100 * float(np.mean(unfair))
        return row
