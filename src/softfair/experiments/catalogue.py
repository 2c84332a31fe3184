"""Every figure and table of the paper as data: which cohorts, which policies, which sizes.

What the paper does not state is stated here and recorded in every result: c (but for Figure 1's c = 2), the number of episodes, the CPAP
cohort. c = 9 is about where the paper's coupled c stops paying on the synthetic cohort; all solvers get the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .. import datasets
from ..cohort import Cohort
from ..errors import InvalidInput
from ..policies import (
    FairMyopic,
    Myopic,
    Oracle,
    Policy,
    Random,
    SoftFair,
    ThresholdWhittle,
    Whittle,
)
from . import readings

__all__ = ["EXPERIMENTS", "Experiment", "find"]

C = 9.0
READING_COHORTS = 5  # of each reading: enough to rank them, and the grid stays within a minute


def softfair(c: float, c_value: float | None = None) -> dict[str, Policy]:
    """SoftFair by all three solvers: the paper's two with its own sampling design, prices with the joint one."""
    return {
        "SoftFair (paper)": SoftFair(c=c, solver="paper", design="successive", c_value=c_value),
        "SoftFair (mean field)": SoftFair(
            c=c, solver="meanfield", design="successive", c_value=c_value
        ),
        "SoftFair (priced)": SoftFair(c=c, solver="priced", design="joint", c_value=c_value),
    }


BASELINES: dict[str, Policy] = {
    "Random": Random(),
    "Myopic": Myopic(),
    "FairMyopic": FairMyopic(),
    "Oracle": Oracle(),
}


@dataclass(frozen=True)
class Experiment:
    """One point of a figure, or one table."""

    id: str
    figure: str  # what it is a part of
    dataset: Literal["synthetic", "cpap"]
    n: int
    k: int
    horizon: int
    policies: Mapping[str, Policy]
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the data set
    x: float | str = ""  # where it stands on the figure's axis
    keep_counts: bool = False  # whether each arm's count is kept, for a histogram
    cohorts: int | None = None  # at most so many cohorts, where many experiments are compared

    def cohort(self, seed: int) -> Cohort:
        make = datasets.synthetic if self.dataset == "synthetic" else datasets.cpap
        return make(n=self.n, seed=seed, **self.parameters)

    def small(self) -> Experiment:
        """The same in little: fewer arms and decisions, in proportion, and as few episodes of Algorithm 1 as its values need."""
        n, horizon = min(self.n, 40 if self.n <= 100 else 80), max(5, round(0.3 * self.horizon))
        policies = {
            label: replace(policy, episodes=6 * horizon)
            if isinstance(policy, SoftFair) and policy.solver == "paper"
            else policy
            for label, policy in self.policies.items()
        }
        return replace(
            self, n=n, k=max(1, round(self.k * n / self.n)), horizon=horizon, policies=policies
        )

    def settings(self) -> dict[str, Any]:
        """Every choice, as plain data: what is recorded, and what decides whether an earlier result still stands."""
        return {
            "id": self.id,
            "dataset": self.dataset,
            "parameters": dict(self.parameters),
            "n": self.n,
            "k": self.k,
            "horizon": self.horizon,
            "gamma": 1.0,
            "policies": {label: repr(policy) for label, policy in self.policies.items()},
        }


def _figure_1() -> list[Experiment]:
    indexed: dict[str, Policy] = {
        "Threshold Whittle": ThresholdWhittle(),
        "Whittle": Whittle("infinite"),
        "Oracle": Oracle(),
    }
    policies = indexed | softfair(2.0)
    return [Experiment("fig1", "fig1", "synthetic", 100, 10, 100, policies, keep_counts=True)]


def _figure_2() -> list[Experiment]:
    usual = BASELINES | softfair(C)
    return [
        *(
            Experiment(f"fig2a/{n}", "fig2a", "synthetic", n, n // 10, 50, usual, x=n)
            for n in (10, 100, 1000)
        ),
        *(
            Experiment(f"fig2b/{k}", "fig2b", "synthetic", 100, k, 50, usual, x=k)
            for k in (5, 10, 20)
        ),
        *(
            Experiment(f"fig2c/{T}", "fig2c", "synthetic", 100, 10, T, usual, x=T)
            for T in (20, 50, 100)
        ),
    ]


def _figure_3() -> list[Experiment]:
    experiments = []
    for c in (1.0, 2.0, 5.0, 9.0, 20.0, math.inf):
        # c = inf picks the top k of values learnt with c = 1 (caption of Figure 3). Values learnt
        # with c = 1 stand beside the coupled ones at every c.
        coupled = softfair(c) if math.isfinite(c) else softfair(c, c_value=1.0)
        decoupled: dict[str, Policy] = {
            "SoftFair (c_value = 1)": SoftFair(
                c=c, solver="meanfield", design="successive", c_value=1.0
            ),
        }
        policies = BASELINES | coupled | decoupled
        experiments.append(
            Experiment(f"fig3a/{c:g}", "fig3a", "synthetic", 100, 10, 50, policies, x=c)
        )
    usual = BASELINES | softfair(C)
    for chance in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        recovery = {"recovery": chance}
        experiments.append(
            Experiment(
                f"fig3b/{chance:g}", "fig3b", "synthetic", 100, 10, 50, usual, recovery, x=chance
            )
        )
    return experiments


def _table_2() -> list[Experiment]:
    return [Experiment("table2", "table2", "cpap", 100, 10, 80, BASELINES | softfair(C))]


def _readings() -> list[Experiment]:
    """Table 2 under every reading of the grid, and Figure 1 on each of the paper's cohorts."""
    fast = {label: (BASELINES | softfair(C))[label] for label in readings.STANDS_FOR.values()}
    indexed: dict[str, Policy] = {
        "Threshold Whittle": ThresholdWhittle(),
        "Whittle": Whittle("infinite"),
        "Whittle (finite horizon)": Whittle("finite"),
        "Oracle": Oracle(),
    }
    return [
        Experiment(
            f"table2/{reading.id}",
            "table2-readings",
            "cpap",
            100,
            10,
            80,
            fast,
            parameters=reading.parameters(),
            x=reading.id,
            cohorts=READING_COHORTS,
        )
        for reading in readings.grid()
    ] + [
        Experiment(
            f"fig1/{name}",
            "fig1-readings",
            dataset,
            100,
            10,
            100,
            indexed,
            parameters=parameters,
            x=name,
            cohorts=READING_COHORTS,
        )
        for name, (dataset, parameters) in readings.FIGURE_1_COHORTS.items()
    ]


EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment
    for part in (_figure_1, _figure_2, _figure_3, _table_2, _readings)
    for experiment in part()
}


def find(names: list[str]) -> list[Experiment]:
    """The experiments of these ids; ``fig2a`` stands for all its parts, nothing for everything."""
    chosen: dict[str, Experiment] = {}
    for name in names or list(EXPERIMENTS):
        parts = [e for e in EXPERIMENTS.values() if name in (e.id, e.figure)]
        if not parts:
            raise InvalidInput(
                f"there is no experiment {name!r}; the known ones are {', '.join(EXPERIMENTS)}"
            )
        chosen |= {e.id: e for e in parts}
    return list(chosen.values())
