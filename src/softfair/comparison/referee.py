"""The runs and bounds against which the policies of a comparison are measured."""

from __future__ import annotations

import dataclasses
import math
import secrets
import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .. import metrics
from ..cluster import Crew, refuse_other_software, software
from ..cohort import Cohort
from ..errors import InvalidInput, NotConverged, SoftFairError, warn
from ..policies import NoIntervention, Oracle, Policy, SoftFair
from ..policies.labels import identity
from ..policies.setting import Budget, check_setting
from ..simulation import Look, Result, simulate, simulate_and_look
from ..solvers import tradeoff_bound, upper_bound
from .figures import Figures, Yardsticks, figures_of, mean_interval

__all__ = ["Problem", "Referee", "Row", "problem_row", "rows_of"]

Floats = NDArray[np.float64]

# Decisions at which unfair pairs of arms are counted: fewer if there are many arms.
FEWEST_LOOKS, MOST_LOOKS, ARMS_LOOKED_AT = 8, 32, 100_000
# Size of the runs of the Oracle that turn a bound into a benefit; the error left is about .2 %.
BOUND_ARM_STEPS, MOST_BOUND_RUNS = 5_000_000, 10_000
Row = dict[str, float | str | bool]


@dataclass(frozen=True, eq=False)
class Problem:
    """The setting of a comparison. Its referee is made on first use."""

    cohort: Cohort
    k: Budget
    horizon: int
    gamma: float
    runs: int
    seed: int
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        check_setting(self.cohort, self.k, self.horizon, self.gamma)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_referee"}

    @property
    def referee(self) -> Referee:
        """The referee of this problem, made once in each process.

        This is no cached_property, because a warning would then point into functools instead of the
        caller's line.
        """
        kept = self.__dict__
        if "_referee" not in kept:
            kept["_referee"] = Referee(
                self.cohort, self.k, self.horizon, self.gamma, self.runs, self.seed
            )
        referee: Referee = kept["_referee"]
        return referee


_problems: dict[str, Problem] = {}  # in a worker process: the last problem and its referee


def rows_of(
    problem: Problem, policies: Sequence[Policy], reference: Policy | None, crew: Crew | None
) -> Iterator[Row | Exception]:
    """The rows of all policies, in order; if a policy fails, its error in place of the row."""
    if crew is None:
        return (problem.referee.row_or_error(policy, reference) for policy in policies)
    stamp = software()
    return crew.run([(_row_on_worker, stamp, problem, policy, reference) for policy in policies])


def _row_on_worker(
    stamp: str, problem: Problem, policy: Policy, reference: Policy | None
) -> Row | Exception:
    """One row, computed by a worker, which keeps the referee for later rows."""
    refuse_other_software(stamp)
    if problem.token not in _problems:
        _problems.clear()
        _problems[problem.token] = problem
    return _problems[problem.token].referee.row_or_error(policy, reference)


def problem_row(policy: Policy, error: Exception) -> Row:
    """The row of a policy that cannot act on the cohort: the reason, which is also warned of."""
    kind = "" if isinstance(error, SoftFairError) else f"{type(error).__name__}: "
    problem = " ".join(f"{kind}{error}".split())
    warn(f"{policy.label} cannot be compared: {problem}")
    return {"policy": policy.label, "converged": False, "problem": problem}


class Referee:
    """The runs and bounds against which all policies of a comparison are measured."""

    def __init__(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float, runs: int, seed: int
    ) -> None:
        self.setting = {"cohort": cohort, "k": k, "horizon": horizon, "gamma": gamma, "seed": seed}
        self.runs, self.seed = runs, seed
        # Decisions are chosen at random, because a fixed stride could match a period of a policy.
        most = max(FEWEST_LOOKS, min(MOST_LOOKS, ARMS_LOOKED_AT // cohort.n))
        self.decisions = sorted(np.random.default_rng(seed).permutation(horizon)[:most].tolist())
        self.results: dict[Hashable, tuple[Result, list[Look]]] = {}
        none = self.run(NoIntervention())[0].totals
        self.yardsticks = Yardsticks(
            none,
            self._oracle(none),
            upper_bound(cohort, k, horizon, gamma) - upper_bound(cohort, 0, horizon, gamma),
        )
        with warnings.catch_warnings():
            # Rough prices are good enough here, and the caller did not call for this fit.
            warnings.simplefilter("ignore", NotConverged)
            self.judge = SoftFair(c=math.inf).fit(**self.setting)  # type: ignore[arg-type]

    def _oracle(self, none: Floats) -> Floats:
        """The Oracle's total rewards [runs]; nan, with a warning, where arms have no index."""
        try:
            return self.run(Oracle())[0].totals
        except InvalidInput as error:
            warn(
                f"benefit is nan, because the Oracle cannot be fitted: {error}; "
                "of_bound does without it",
            )
            return np.full_like(none, np.nan)

    def run(self, policy: Policy) -> tuple[Result, list[Look]]:
        """The simulated runs of a policy, and its chances at ``decisions``; simulated once."""
        key = identity(policy)
        if key not in self.results:
            fitted = policy.fit(**self.setting)  # type: ignore[arg-type]
            self.results[key] = simulate_and_look(fitted, self.runs, self.seed, self.decisions)
        return self.results[key]

    def row(self, policy: Policy, reference: Policy | None) -> Row:
        """The columns of one policy, with differences from the reference if there is one."""
        result, looks = self.run(policy)
        figures = figures_of(result, self.yardsticks)
        row: Row = {"policy": policy.label}
        for name, values, denominator in self._columns(figures):
            interval = mean_interval(values, denominator)
            row[name] = interval.mean
            row[f"{name}_sd"] = float(np.std(values, ddof=1)) if self.runs > 1 else math.nan
            row[f"{name}_low"], row[f"{name}_high"] = interval.low, interval.high
        unfair = [
            math.nan  # the policy draws by a method of its own and states no chances
            if np.isnan(look.inclusion).any()
            else metrics.unfair_share(look.inclusion, self.judge.scores(look.t, look.states))
            for look in looks
        ]
        row["unfair"] = 100 * float(np.mean(unfair))
        info = result.fitted.info
        row["converged"] = info is None or info.converged
        row["problem"] = ""
        if reference is not None:
            of_reference = figures_of(self.run(reference)[0], self.yardsticks)
            for name, values, denominator in self._columns(figures):
                interval = mean_interval(values - getattr(of_reference, name), denominator)
                row[f"{name}_diff"] = interval.mean
                row[f"{name}_diff_low"], row[f"{name}_diff_high"] = interval.low, interval.high
        return row

    def row_or_error(self, policy: Policy, reference: Policy | None) -> Row | Exception:
        """The columns of one policy, or the exception that it raised."""
        try:
            return self.row(policy, reference)
        except Exception as error:  # a user's own policy may raise anything
            return error

    def most_benefit(self, entropies: Floats) -> Floats:
        """An upper bound on the benefit of every policy at each expected entropy."""
        fitted = self.judge
        cohort, horizon, gamma = fitted.cohort, fitted.horizon, fitted.gamma
        limit = tradeoff_bound(cohort, fitted.k, horizon, gamma)
        none = upper_bound(cohort, 0, horizon, gamma)  # exact: there is nothing to choose
        gain = self._expected_oracle_gain()
        benefit: Floats = metrics.intervention_benefit(limit(entropies), none, none + gain)
        return benefit

    def _expected_oracle_gain(self) -> float:
        """The expected gain of the Oracle, estimated from more runs than a table has.

        In a table, benefit 100 is the Oracle's gain in the same runs, and most of the chance in
        these runs is common to numerator and denominator. A bound is computed, without chance; with
        the gain of a few lucky runs as its denominator, it could lie below the Oracle.
        """
        gain, cohort = self.yardsticks.oracle_gain, self.judge.cohort
        runs = min(BOUND_ARM_STEPS // (cohort.n * self.judge.horizon), MOST_BOUND_RUNS)
        if runs > self.runs and not np.isnan(gain).any():
            oracle, none = (
                simulate(self.run(policy)[0].fitted, runs, self.seed).totals
                for policy in (Oracle(), NoIntervention())
            )
            gain = oracle - none
        return float(gain.mean())

    def _columns(self, figures: Figures) -> list[tuple[str, Floats, Floats | None]]:
        """The name, the values [runs] and any estimated denominator [runs] of each figure."""
        return [
            (
                field.name,
                getattr(figures, field.name),
                self.yardsticks.oracle_gain if field.name == "benefit" else None,
            )
            for field in dataclasses.fields(figures)
        ]
