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
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import metrics
from .cohort import Cohort
from .errors import InvalidInput, NotConverged, warn
from .policies import NoIntervention, Oracle, Policy, SoftFair
from .policies.base import check_setting
from .progress import track
from .simulation import Look, Result, simulate_and_look
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
    "mean_interval",
]

Floats = NDArray[np.float64]

CURVE = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, math.inf)
CONFIDENCE = 0.95  # of every interval
# Decisions at which pairs of arms are counted: fewer where arms are many.
FEWEST_LOOKS, MOST_LOOKS, ARMS_LOOKED_AT = 8, 32, 100_000


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
    k: int,
    horizon: int,
    gamma: float = 1.0,
    runs: int = 50,
    seed: int = 0,
    against: Policy | str | None = None,
) -> pd.DataFrame:
    """Simulate policies with the same luck and put their figures side by side.

    Parameters
    ----------
    policies : iterable of Policy
        Made but not fitted; one row each.
    cohort, k, horizon, gamma
        The problem: k arms are helped at each of ``horizon`` decisions.
    runs : int
        Simulated runs of each policy.
    seed : int
        The same seed gives the same table.
    against : Policy or str, optional
        A reference, or the label of one of the policies. Each figure then has the paired
        difference "this policy minus the reference" as well.

    Returns
    -------
    pandas.DataFrame
        ``policy`` and, for each figure, its mean over runs, ``..._sd`` its standard deviation over
        runs, and ``..._low`` and ``..._high``, the 95 % interval of the mean
        (:func:`mean_interval`). The figures are ``benefit`` (% of the Oracle's), ``of_bound`` (% of
        the most that help can add), ``reward``, ``entropy`` of who was helped, ``never_selected``
        (share of arms), ``longest_wait`` (of any arm) and ``gini`` of selections. ``unfair`` is the
        mean alone: % of pairs of arms where the one that would gain less has the better chance,
        over some decisions of the runs. ``converged`` tells whether the values that the policy
        follows have settled. With ``against``, also ``..._diff``, ``..._diff_low`` and
        ``..._diff_high`` of each figure. With a single run, standard deviations and intervals are
        nan.

    Raises
    ------
    InvalidInput
        If there is nothing to compare, an entry is not a policy, the problem is ill posed or
        ``against`` is the label of none of the policies.

    Warns
    -----
    UserWarning
        Where the Oracle cannot be fitted (arms of three or more states without an index):
        ``benefit`` is then nan.

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
    referee = _Referee(cohort, k, horizon, gamma, runs, seed)
    rows = [referee.row(policy, reference) for policy in track(chosen, "comparing policies")]
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
    against: Policy | str | None = None,
    bound: bool = False,
) -> pd.DataFrame:
    """Trace the benefit-fairness curve of SoftFair over its multiplier c.

    Parameters
    ----------
    cohort, k, horizon
        As in :func:`compare`.
    cs : sequence of float, optional
        Multipliers; default from 0 (a lottery) to inf (the k who gain most).
    gamma, runs, seed
        As in :func:`compare`.
    policy : SoftFair, optional
        What else SoftFair should be (solver, design, c_value); default the priced solver and the
        joint design.
    against : Policy or str, optional
        As in :func:`compare`.
    bound : bool
        Whether to compute the column ``bound``, which takes about a dozen solves.

    Returns
    -------
    pandas.DataFrame
        ``c`` and the columns of :func:`compare`; one row for each multiplier. ``bound`` is the most
        benefit that any policy can expect whose expected entropy is that of the row
        (:func:`softfair.solvers.tradeoff_bound`), in % of the Oracle's mean gain.

    Raises
    ------
    InvalidInput
        If ``cs`` is empty or not a list of multipliers, or ``policy`` is not a SoftFair; and as in
        :func:`compare`.

    Examples
    --------
    >>> import softfair as sf
    >>> curve = sf.frontier(sf.datasets.synthetic(n=50, seed=0), k=5, horizon=20, cs=[0, 10])
    >>> bool(curve.benefit[1] > curve.benefit[0] and curve.entropy[1] < curve.entropy[0])
    True
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
    curve = [dataclasses.replace(base, c=c) for c in multipliers]
    reference = _reference(against, curve)
    referee = _Referee(cohort, k, horizon, gamma, runs, seed)
    rows = [{"c": float(at.c), **referee.row(at, reference)} for at in track(curve, "frontier")]
    table = pd.DataFrame(rows)
    return table.assign(bound=referee.most_benefit(table.entropy.to_numpy())) if bound else table


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
        if policy not in self.results:
            fitted = policy.fit(**self.setting)  # type: ignore[arg-type]
            self.results[policy] = simulate_and_look(fitted, self.runs, self.seed, self.decisions)
        return self.results[policy]

    def row(self, policy: Policy, reference: Policy | None) -> dict[str, float | str | bool]:
        """The columns of one policy, with differences from the reference if there is one."""
        result, looks = self.run(policy)
        figures = figures_of(result, self.yardsticks)
        row: dict[str, float | str | bool] = {"policy": policy.label}
        for name, values, denominator in self._columns(figures):
            interval = mean_interval(values, denominator)
            row[name] = interval.mean
            row[f"{name}_sd"] = float(np.std(values, ddof=1)) if self.runs > 1 else math.nan
            row[f"{name}_low"], row[f"{name}_high"] = interval.low, interval.high
        unfair = [
            metrics.unfair_share(look.inclusion, self.judge.scores(look.t, look.states))
            for look in looks
        ]
        row["unfair"] = 100 * float(np.mean(unfair))
        info = result.fitted.info
        row["converged"] = info is None or info.converged
        if reference is not None:
            others = figures_of(self.run(reference)[0], self.yardsticks)
            for name, values, denominator in self._columns(figures):
                interval = mean_interval(values - getattr(others, name), denominator)
                row[f"{name}_diff"] = interval.mean
                row[f"{name}_diff_low"], row[f"{name}_diff_high"] = interval.low, interval.high
        return row

    def most_benefit(self, entropies: Floats) -> Floats:
        """The most benefit that any policy can expect at each expected entropy."""
        fitted = self.judge
        cohort, horizon, gamma = fitted.cohort, fitted.horizon, fitted.gamma
        limit = tradeoff_bound(cohort, fitted.k, horizon, gamma)
        none = upper_bound(cohort, 0, horizon, gamma)  # exact: there is nothing to choose
        gain = float(self.yardsticks.oracle_gain.mean())
        benefit: Floats = metrics.intervention_benefit(limit(entropies), none, none + gain)
        return benefit

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
