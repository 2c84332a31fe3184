"""Fit and simulate policies on one cohort, each policy once for all experiments that have it."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..cluster import refuse_other_software
from ..comparison import Figures, Yardsticks, figures_of
from ..errors import NotConverged
from ..policies import NoIntervention, Oracle
from ..policies.labels import identity
from ..simulation import Result, simulate
from ..solvers import tradeoff_bound, upper_bound
from .catalogue import Experiment
from .outcomes import Part, keep_limit

if TYPE_CHECKING:
    from ..solvers.values import Info

__all__ = ["simulate_cohort", "simulate_on_worker"]


@dataclass(frozen=True, eq=False)
class _Measured:
    """The figures, runs and solver info of one policy on one cohort."""

    figures: Figures
    result: Result
    info: Info | None


def simulate_cohort(
    experiments: Sequence[Experiment], runs: int, cohort: int, seed: int
) -> dict[str, Part]:
    """The parts of one cohort, by id of the experiment; all experiments share the cohort.

    The seconds of a policy that several experiments have are counted in the first of them.
    """
    first = experiments[0]
    cohort_seed = 1000 * seed + cohort
    people = first.cohort(cohort_seed)
    setting: dict[str, Any] = {"k": first.k, "horizon": first.horizon, "gamma": 1.0}
    none = simulate(NoIntervention().fit(people, **setting), runs, cohort_seed).totals
    oracle = simulate(Oracle().fit(people, **setting), runs, cohort_seed).totals
    least = upper_bound(people, 0, first.horizon, 1.0)
    headroom = upper_bound(people, **setting) - least
    yardsticks = Yardsticks(none, oracle, headroom)
    measured: dict[Hashable, _Measured] = {}
    parts: dict[str, Part] = {}
    for experiment in experiments:
        rows, seconds = [], {}
        for label, policy in experiment.policies.items():
            seconds[label] = 0.0
            if (key := identity(policy)) not in measured:
                begun = time.thread_time()
                fitted = policy.fit(people, **setting, seed=cohort_seed)
                result = simulate(fitted, runs, cohort_seed)
                figures = figures_of(result, yardsticks)
                seconds[label] = time.thread_time() - begun
                measured[key] = _Measured(figures, result, fitted.info)
            rows += _rows(label, cohort, measured[key], experiment.keep_counts)
        limit = (
            keep_limit(tradeoff_bound(people, **setting), least, headroom)
            if experiment.keep_limits
            else None
        )
        parts[experiment.id] = {"rows": rows, "seconds": seconds, "limit": limit}
    return parts


def simulate_on_worker(
    stamp: str, experiments: Sequence[Experiment], runs: int, cohort: int, seed: int
) -> dict[str, Part]:
    """`simulate_cohort` in a process that has the same software."""
    refuse_other_software(stamp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the report marks such figures
        return simulate_cohort(experiments, runs, cohort, seed)


def _rows(label: str, cohort: int, measured: _Measured, keep_counts: bool) -> list[dict[str, Any]]:
    """A row for each run of one policy on one cohort."""
    info = measured.info
    of_runs = {
        field.name: getattr(measured.figures, field.name) for field in dataclasses.fields(Figures)
    }
    rows = []
    for r in range(len(measured.figures.reward)):
        row: dict[str, Any] = {"policy": label, "instance": cohort, "run": r}
        row |= {name: float(values[r]) for name, values in of_runs.items()}
        row["residual"] = float("nan") if info is None else info.residual
        row["passes"] = 0 if info is None else info.passes
        row["converged"] = info is None or bool(info.converged)
        if keep_counts:
            row["counts"] = " ".join(map(str, measured.result.counts[r]))
        rows.append(row)
    return rows
