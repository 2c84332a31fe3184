"""Policies side by side: benefit, fairness and what fairness costs, as data frames.

Let R be a policy's total reward in a run, and R_none and R_oracle those of the same luck without
intervention and with the Oracle. Benefit is 100 mean(R - R_none) / mean(R_oracle - R_none).
``of_bound`` has the certificate less the exact value of helping nobody as its denominator: no
policy can expect more than 100.

Every figure is a mean over runs, with the 95 % interval of that mean by Student's t. Runs of
different policies meet the same luck, so that differences between policies are paired by run.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import metrics
from .cluster import Crew, crew_of, refuse_other_software, software
from .cohort import Cohort, refuse_costs
from .errors import InvalidInput, NotConverged, SoftFairError, warn
from .policies import NoIntervention, Oracle, Policy, SoftFair
from .policies.base import identity
from .policies.setting import Budget, check_setting
from .progress import track
from .shards import ShardedCohort
from .simulation import Look, Result, simulate, simulate_and_look
from .solvers import tradeoff_bound, upper_bound

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CONFIDENCE",
    "CURVE",
    "Figures",
    "Interval",
    "Yardsticks",
    "compare",
    "figures_of",
    "frontier",
    "limit",
    "mean_interval",
]

Floats = NDArray[np.float64]

CURVE = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, math.inf)
CONFIDENCE = 0.95  # of every interval
# Decisions at which pairs of arms are counted: fewer where arms are many.
FEWEST_LOOKS, MOST_LOOKS, ARMS_LOOKED_AT = 8, 32, 100_000
# Size of the Oracle's runs that turn a bound into a benefit; they leave an error of some .2 %.
BOUND_ARM_STEPS, MOST_BOUND_RUNS = 5_000_000, 10_000


@dataclass(frozen=True, eq=False)
class Yardsticks:
    """What a policy's rewards are measured against.

    Parameters
    ----------
    none : array [runs]
        Total reward of each run without intervention, with the luck of the policy's runs.
    oracle : array [runs]
        Total reward of each run of the Oracle, with the same luck; nan where it cannot be fitted.
    headroom : float
        The most that help can add to the expected total reward: `softfair.solvers.upper_bound`
        with k less the same with 0, which is exact.
    """

    none: Floats  # [runs]
    oracle: Floats  # [runs]
    headroom: float

    @property
    def oracle_gain(self) -> Floats:
        """What the Oracle adds in each run [runs]."""
        return self.oracle - self.none


@dataclass(frozen=True, eq=False)
class Figures:
    """One policy's figures, run by run, each an array [runs]."""

    benefit: Floats  # % of what the Oracle adds on average
    of_bound: Floats  # % of the most that help can add
    reward: Floats  # discounted total
    entropy: Floats  # of who was helped
    never_selected: Floats  # share of arms
    longest_wait: Floats  # of any arm, in decisions
    gini: Floats  # of selections


@dataclass(frozen=True)
class Interval:
    """A mean over runs and its interval at CONFIDENCE."""

    mean: float
    low: float
    high: float


def figures_of(result: Result, yardsticks: Yardsticks) -> Figures:
    """Compute all figures of a policy from its simulated runs.

    Parameters
    ----------
    result : Result
        What :func:`softfair.simulate` returned.
    yardsticks : Yardsticks
        Measured on the same cohort with the same number of runs and the same seed.

    Returns
    -------
    Figures
        Each figure as an array [runs]. ``benefit`` divides by the mean gain of the Oracle over all
        runs, because a run in which the Oracle happens to gain nothing has no ratio of its own.
    """
    gained = result.totals - yardsticks.none
    oracle_gain = float(yardsticks.oracle_gain.mean())
    return Figures(
        benefit=metrics.intervention_benefit(gained, 0.0, oracle_gain),
        of_bound=metrics.intervention_benefit(gained, 0.0, yardsticks.headroom),
        reward=result.totals,
        entropy=metrics.action_entropy(result.counts),
        never_selected=metrics.never_selected(result.counts),
        longest_wait=metrics.longest_wait(result.waits),
        gini=metrics.gini(result.counts),
    )


def mean_interval(values: Floats, denominator: Floats | None = None) -> Interval:
    r"""Give the mean over independent runs with its 95 % interval.

    Parameters
    ----------
    values : array [runs]
        A figure, run by run, or the difference of a figure between two policies.
    denominator : array [runs], optional
        Where ``values`` were divided by the mean of an estimated denominator: that denominator, run
        by run. The interval then includes its error.

    Returns
    -------
    Interval
        Symmetric about the mean, and not cut off at the range of the figure; nan with a single run
        or without a mean.

    Notes
    -----
    Student's t with runs - 1 degrees of freedom, on the sample standard deviation of the values. A
    ratio of means b = mean(x) / mean(y), with values x / mean(y), has by the delta method the
    standard deviation of x - b y over mean(y): x and y of one run share their luck, and their
    covariance is thereby included. The interval of the Oracle's own benefit is a point, 100.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.comparison import mean_interval
    >>> found = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (2.0, -0.484, 4.484)
    """
    runs, mean = len(values), float(np.mean(values))
    if runs < 2 or math.isnan(mean):
        return Interval(mean, math.nan, math.nan)
    from scipy.special import stdtrit  # scipy.stats.t.ppf, without the seconds that stats needs

    residuals = values - mean
    if denominator is not None:
        residuals = values - mean * denominator / denominator.mean()  # sums to 0 as well
    error = math.sqrt(float(residuals @ residuals) / (runs - 1) / runs)
    half = float(stdtrit(runs - 1, (1 + CONFIDENCE) / 2)) * error
    return Interval(mean, mean - half, mean + half)


def compare(
    policies: Iterable[Policy],
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float = 1.0,
    runs: int = 50,
    seed: int = 0,
    against: Policy | str | None = None,
    on: Any = None,
) -> pd.DataFrame:
    """Simulate policies with the same luck and put their figures side by side.

    Parameters
    ----------
    policies : iterable of Policy
        Made but not fitted; one row each.
    cohort, k, horizon, gamma
        The problem: k arms are helped, or k is spent on arms that have costs, at each of
        ``horizon`` decisions. k may be a number for each decision.
    runs : int
        Simulated runs of each policy.
    seed : int
        The same seed gives the same table.
    against : Policy or str, optional
        A reference, or the label of one of the policies. Each figure then has the paired
        difference "this policy minus the reference" as well.
    on : Executor, dask.distributed.Client or str, optional
        The workers that simulate the policies, see :meth:`softfair.SoftFair.fit`; the table is the
        same.

    Returns
    -------
    pandas.DataFrame
        ``policy`` and, for each figure, its mean over runs, ``..._sd`` its standard deviation over
        runs, and ``..._low`` and ``..._high``, the 95 % interval of the mean
        (:func:`mean_interval`). The figures are ``benefit`` (% of the Oracle's), ``of_bound`` (% of
        the most that help can add), ``reward``, ``entropy`` of who was helped, ``never_selected``
        (share of arms), ``longest_wait`` (of any arm) and ``gini`` of selections. ``unfair`` is the
        mean alone: % of pairs of arms where the one that would gain less (for its cost, if there
        are costs) has the better chance, over some decisions of the runs. ``converged`` tells
        whether the values that the policy follows have settled. ``problem`` is empty, or says why a
        policy cannot act on this cohort; its figures are then nan. With ``against``, also
        ``..._diff``, ``..._diff_low`` and ``..._diff_high`` of each figure. With a single run,
        standard deviations and intervals are nan.

    Raises
    ------
    InvalidInput
        If there is nothing to compare, an entry is not a policy, the problem is ill posed or
        ``against`` is the label of none of the policies.
    Exception
        What the first policy raised, if none of them can act on this cohort.

    Warns
    -----
    UserWarning
        Where the Oracle cannot be fitted (arms of three or more states without an index):
        ``benefit`` is then nan. Where a policy cannot act on this cohort.

    Notes
    -----
    Intervals are about chance in the runs, on this cohort, with the policies as they were fitted;
    they say nothing about other cohorts. The interval of ``benefit`` includes the error of the
    Oracle's mean gain, which is its denominator; the denominator of ``of_bound`` is computed, not
    estimated. An ``of_bound`` above 100 is chance: its interval reaches down to 100 (in 97.5 % of
    cases at least).

    Two policies whose intervals overlap may still differ clearly, because luck is common to both:
    judge by the interval of the difference.

    Examples
    --------
    >>> import softfair as sf
    >>> policies = [sf.Random(), sf.SoftFair(c=10)]
    >>> cohort = sf.datasets.synthetic(n=50, seed=0)
    >>> table = sf.compare(policies, cohort, k=5, horizon=20, against="Random")
    >>> bool(table.benefit_diff_low[1] > 0)  # SoftFair does more good than a lottery
    True
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
                f"policies[{i}] is {policy!r}; "
                "give policies, made but not fitted, such as sf.Random()"
            )
    reference = _reference(against, chosen)
    problem = _Problem(_in_memory(cohort), k, horizon, gamma, runs, seed)
    crew = crew_of(on)
    if reference is not None and crew is None:
        problem.referee.run(reference)  # without it there is nothing to compare with
    failures: list[Exception] = []
    rows: list[Row] = []
    outcomes = _rows(problem, chosen, reference, crew)
    for policy, row in track(
        zip(chosen, outcomes, strict=True), "comparing policies", total=len(chosen)
    ):
        if isinstance(row, Exception):
            failures.append(row)
            row = _problem_row(policy, row)
        rows.append(row)
    if len(failures) == len(chosen):
        raise failures[0]
    columns = max((list(row) for row in rows), key=len)  # a problem is a short row
    return pd.DataFrame(rows, columns=columns)


def frontier(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    cs: Sequence[float] | None = None,
    gamma: float = 1.0,
    runs: int = 50,
    seed: int = 0,
    policy: Policy | Callable[[float], Policy] | None = None,
    against: Policy | str | None = None,
    bound: bool = False,
    on: Any = None,
) -> pd.DataFrame:
    """Trace the benefit-fairness curve of SoftFair, or of a policy like it, over a multiplier c.

    Parameters
    ----------
    cohort, k, horizon
        As in :func:`compare`.
    cs : sequence of float, optional
        Multipliers; default from 0 (a lottery) to inf (the k who gain most).
    gamma, runs, seed
        As in :func:`compare`.
    policy : Policy or callable, optional
        A policy with a parameter c, which is varied, such as a SoftFair of another solver or
        design; or a function from the multiplier to a policy. Default a SoftFair.
    against : Policy or str, optional
        As in :func:`compare`.
    bound : bool
        Whether to compute the column ``bound``, which takes about a dozen solves.
    on : Executor, dask.distributed.Client or str, optional
        As in :func:`compare`.

    Returns
    -------
    pandas.DataFrame
        ``c`` and the columns of :func:`compare`; one row for each multiplier. ``bound`` is the most
        benefit that any policy can expect whose expected entropy is that of the row
        (:func:`softfair.solvers.tradeoff_bound`), in % of the Oracle's expected gain, which is
        estimated from up to 10,000 runs (5 million decisions about an arm).

    Raises
    ------
    InvalidInput
        If ``cs`` is empty or not a list of multipliers, or ``policy`` has no c; and as in
        :func:`compare`.

    Examples
    --------
    >>> import softfair as sf
    >>> curve = sf.frontier(sf.datasets.synthetic(n=50, seed=0), k=5, horizon=20, cs=[0, 10])
    >>> bool(curve.benefit[1] > curve.benefit[0] and curve.entropy[1] < curve.entropy[0])
    True
    """
    import pandas as pd

    if cs is not None and not np.iterable(cs):
        raise InvalidInput(f"cs is {cs!r}; give a list of multipliers, such as [{cs!r}]")
    multipliers = CURVE if cs is None else list(cs)
    if not multipliers:
        raise InvalidInput(
            "there is no multiplier c to trace; give at least one, or None for the usual ones"
        )
    if bound:
        refuse_costs(cohort, "the limit of benefit by evenness (bound=True)")
    at = _at_multiplier(SoftFair() if policy is None else policy)
    curve = [at(c) for c in multipliers]
    reference = _reference(against, curve)
    problem = _Problem(_in_memory(cohort), k, horizon, gamma, runs, seed)
    outcomes = track(_rows(problem, curve, reference, crew_of(on)), "frontier", total=len(curve))
    rows: list[Row] = []
    for c, row in zip(multipliers, outcomes, strict=True):
        if isinstance(row, Exception):
            raise row
        rows.append({"c": float(c), **row})
    table = pd.DataFrame(rows)
    if not bound:
        return table
    return table.assign(bound=problem.referee.most_benefit(table.entropy.to_numpy()))


def _in_memory(cohort: Cohort) -> Cohort:
    """The cohort with all its arms: simulations need them together."""
    return cohort.loaded if isinstance(cohort, ShardedCohort) else cohort


def limit(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float = 1.0,
    runs: int = 50,
    seed: int = 0,
    entropies: Sequence[float] | None = None,
) -> pd.DataFrame:
    """The most benefit that any policy can have, by how evenly it helps.

    Parameters
    ----------
    cohort, k, horizon, gamma, runs, seed
        As in :func:`compare`; the Oracle's gain, of which benefit is a share, is that of these
        runs.
    entropies : sequence of float, optional
        Where; default 200 values from 0 to log n.

    Returns
    -------
    pandas.DataFrame
        ``entropy`` and ``bound``: no policy whose expected entropy of who is helped is at least
        that can expect more benefit (:func:`softfair.solvers.tradeoff_bound`).

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.comparison import limit
    >>> curve = limit(sf.datasets.synthetic(n=20, seed=0), k=2, horizon=10, runs=10)
    >>> bool(curve.bound.is_monotonic_decreasing)
    True
    """
    refuse_costs(cohort, "the limit of benefit by evenness")
    import pandas as pd

    referee = _Referee(_in_memory(cohort), k, horizon, gamma, runs, seed)
    at = np.linspace(0, math.log(cohort.n), 200) if entropies is None else np.asarray(entropies)
    return pd.DataFrame({"entropy": at, "bound": referee.most_benefit(at)})


def _at_multiplier(policy: Policy | Callable[[float], Policy]) -> Callable[[float], Policy]:
    """The function from a multiplier to a policy that ``policy`` of a frontier means."""
    if isinstance(policy, Policy):
        if not dataclasses.is_dataclass(policy) or "c" not in {
            field.name for field in dataclasses.fields(policy)
        }:
            raise InvalidInput(
                f"policy is {policy!r}; give a SoftFair or another dataclass with a c, which is "
                "then varied, or a function from a multiplier to a policy"
            )
        return lambda c: dataclasses.replace(policy, c=c)
    if isinstance(policy, type) or not callable(policy):
        raise InvalidInput(
            f"policy is {policy!r}; give a policy, made but not fitted, or a function from a "
            "multiplier to a policy"
        )
    return policy


def _reference(against: Policy | str | None, policies: Sequence[Policy]) -> Policy | None:
    """The policy that ``against`` means."""
    if against is None or isinstance(against, Policy):
        return against
    for policy in policies:
        if policy.label == against:
            return policy
    labels = ", ".join(repr(policy.label) for policy in policies)
    raise InvalidInput(
        f"against is {against!r}, which is none of the policies; "
        f"give a policy, or one of the labels {labels}"
    )


@dataclass(frozen=True, eq=False)
class _Problem:
    """The setting of a comparison; its referee is made when it is first needed."""

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
    def referee(self) -> _Referee:
        """Made once in each process.

        Not a cached_property: a warning would point into functools, not at the caller's line.
        """
        kept = self.__dict__
        if "_referee" not in kept:
            kept["_referee"] = _Referee(
                self.cohort, self.k, self.horizon, self.gamma, self.runs, self.seed
            )
        referee: _Referee = kept["_referee"]
        return referee


Row = dict[str, float | str | bool]
_problems: dict[str, _Problem] = {}  # in a worker process: the last problem and its referee


def _rows(
    problem: _Problem, policies: Sequence[Policy], reference: Policy | None, crew: Crew | None
) -> Iterator[Row | Exception]:
    """The rows of all policies, in order; where a policy fails, its error."""
    if crew is None:
        return (problem.referee.row_or_error(policy, reference) for policy in policies)
    stamp = software()
    return crew.run([(_row_on_worker, stamp, problem, policy, reference) for policy in policies])


def _row_on_worker(
    stamp: str, problem: _Problem, policy: Policy, reference: Policy | None
) -> Row | Exception:
    """One row, by a worker that keeps the referee for the rows to come."""
    refuse_other_software(stamp)
    if problem.token not in _problems:
        _problems.clear()
        _problems[problem.token] = problem
    return _problems[problem.token].referee.row_or_error(policy, reference)


def _problem_row(policy: Policy, error: Exception) -> Row:
    """The row of a policy that cannot act here: the reason alone, which is warned of."""
    kind = "" if isinstance(error, SoftFairError) else f"{type(error).__name__}: "
    problem = " ".join(f"{kind}{error}".split())
    warn(f"{policy.label} cannot be compared: {problem}")
    return {"policy": policy.label, "converged": False, "problem": problem}


class _Referee:
    """What all policies of a comparison are measured against, computed once."""

    def __init__(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float, runs: int, seed: int
    ) -> None:
        self.setting = {"cohort": cohort, "k": k, "horizon": horizon, "gamma": gamma, "seed": seed}
        self.runs, self.seed = runs, seed
        # Decisions are chosen at random, because a fixed stride could match a policy's own period.
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
            # Rough prices are good enough to judge by, and the caller has not asked for this fit.
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
            others = figures_of(self.run(reference)[0], self.yardsticks)
            for name, values, denominator in self._columns(figures):
                interval = mean_interval(values - getattr(others, name), denominator)
                row[f"{name}_diff"] = interval.mean
                row[f"{name}_diff_low"], row[f"{name}_diff_high"] = interval.low, interval.high
        return row

    def row_or_error(self, policy: Policy, reference: Policy | None) -> Row | Exception:
        """The columns of one policy, or what it raised."""
        try:
            return self.row(policy, reference)
        except Exception as error:  # a user's own policy may raise anything
            return error

    def most_benefit(self, entropies: Floats) -> Floats:
        """The most benefit that any policy can expect at each expected entropy."""
        fitted = self.judge
        cohort, horizon, gamma = fitted.cohort, fitted.horizon, fitted.gamma
        limit = tradeoff_bound(cohort, fitted.k, horizon, gamma)
        none = upper_bound(cohort, 0, horizon, gamma)  # exact: there is nothing to choose
        gain = self._expected_oracle_gain()
        benefit: Floats = metrics.intervention_benefit(limit(entropies), none, none + gain)
        return benefit

    def _expected_oracle_gain(self) -> float:
        """What the Oracle adds, from more runs than a table has.

        A benefit of 100 is the Oracle's in the runs of the table, and most of their luck is in both
        rewards. A bound is computed, without luck: with the gain of a few lucky runs as its
        denominator it would lie below the Oracle.
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
        """Each figure's name, values [runs] and estimated denominator [runs], if it has one."""
        return [
            (
                field.name,
                getattr(figures, field.name),
                self.yardsticks.oracle_gain if field.name == "benefit" else None,
            )
            for field in dataclasses.fields(figures)
        ]
