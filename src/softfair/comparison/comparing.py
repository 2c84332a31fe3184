"""Policies side by side, as data frames."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cluster import crew_of
from ..cohort import Cohort, refuse_costs
from ..errors import InvalidInput
from ..policies import Policy, SoftFair
from ..policies.setting import Budget
from ..progress import track
from ..shards import ShardedCohort
from .referee import Problem, Referee, Row, problem_row, rows_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CURVE", "compare", "frontier", "limit"]

HUGE = 1e300  # a multiplier from here on is infinite
CURVE = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, math.inf)


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
    """Simulate policies with the same random numbers and put their figures side by side.

    Parameters
    ----------
    policies : iterable of Policy
        The policies, not yet fitted; one row for each.
    cohort, k, horizon, gamma
        The problem: k arms are helped, or k is spent on arms that have costs, at each of
        ``horizon`` decisions. k may be a number for each decision.
    runs : int
        Simulated runs of each policy.
    seed : int
        The same seed gives the same table.
    against : Policy or str, optional
        A reference policy, or the label of one of the policies. Each figure then also has the
        paired difference "this policy minus the reference".
    on : Executor, dask.distributed.Client or str, optional
        The workers that simulate the policies, see :meth:`softfair.SoftFair.fit`. The table does
        not depend on the workers.

    Returns
    -------
    pandas.DataFrame
        ``policy`` and, for each figure, its mean over runs, its standard deviation over runs
        ``..._sd``, and the 95 % interval of the mean ``..._low`` and ``..._high``
        (:func:`mean_interval`). The figures are ``benefit`` (% of the Oracle's), ``of_bound`` (% of
        the most that help can add), ``reward``, action ``entropy``, ``never_selected`` (share of
        arms), ``longest_wait`` (of any arm) and ``gini`` of selections. ``unfair`` has a mean only:
        the % of pairs of arms in which the arm that would gain less (for its cost, if there are
        costs) has the better chance, over some decisions of the runs. ``converged`` says whether
        the values that the policy follows have converged. ``problem`` is empty, or says why a
        policy cannot act on this cohort; its figures are then nan. With ``against``, each figure
        also has ``..._diff``, ``..._diff_low`` and ``..._diff_high``. With a single run, standard
        deviations and intervals are nan.

    Raises
    ------
    InvalidInput
        There is no policy to compare, an entry is not a policy, the problem is ill posed, or
        ``against`` is the label of none of the policies.
    Exception
        The exception of the first policy, if no policy can act on this cohort.

    Warns
    -----
    UserWarning
        The Oracle cannot be fitted (arms of three or more states without an index), so that
        ``benefit`` is nan; or a policy cannot act on this cohort.

    Notes
    -----
    Intervals are about the randomness of the runs, on this cohort, with the policies as they were
    fitted; they say nothing about other cohorts. The interval of ``benefit`` includes the error of
    its denominator, the Oracle's mean gain; the denominator of ``of_bound`` is computed, not
    estimated. An ``of_bound`` above 100 is chance: its interval reaches down to 100 (in 97.5 % of
    cases at least).

    Two policies whose intervals overlap may still differ clearly, because both meet the same random
    numbers: judge by the interval of the difference.

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
    problem = Problem(_in_memory(cohort), k, horizon, gamma, runs, seed)
    crew = crew_of(on)
    if reference is not None and crew is None:
        problem.referee.run(reference)  # raises now if the reference cannot act
    failures: list[Exception] = []
    rows: list[Row] = []
    outcomes = rows_of(problem, chosen, reference, crew)
    for policy, row in track(
        zip(chosen, outcomes, strict=True), "comparing policies", total=len(chosen)
    ):
        if isinstance(row, Exception):
            failures.append(row)
            row = problem_row(policy, row)
        rows.append(row)
    if len(failures) == len(chosen):
        raise failures[0]
    columns = max((list(row) for row in rows), key=len)  # the row of a problem is shorter
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
    """Trace the benefit-fairness curve of SoftFair, or of another policy, over a multiplier c.

    Parameters
    ----------
    cohort, k, horizon
        As in :func:`compare`.
    cs : sequence of float, optional
        Multipliers; by default from 0 (a lottery) to inf (the k arms that gain most).
    gamma, runs, seed
        As in :func:`compare`.
    policy : Policy or callable, optional
        A policy with a parameter c, which is varied, such as a SoftFair with another solver or
        design; or a function from the multiplier to a policy. By default SoftFair().
    against : Policy or str, optional
        As in :func:`compare`.
    bound : bool
        Whether to compute the column ``bound``, which takes about a dozen solves.
    on : Executor, dask.distributed.Client or str, optional
        As in :func:`compare`.

    Returns
    -------
    pandas.DataFrame
        ``c`` and the columns of :func:`compare`; one row for each multiplier. ``bound`` is an upper
        bound on the benefit of every policy with the expected entropy of the row
        (:func:`softfair.solvers.tradeoff_bound`), in % of the Oracle's expected gain. That gain is
        estimated from up to 10,000 runs (5 million decisions about an arm).

    Raises
    ------
    InvalidInput
        ``cs`` is empty or not a list of multipliers, or ``policy`` has no c; or as in
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
    problem = Problem(_in_memory(cohort), k, horizon, gamma, runs, seed)
    outcomes = track(rows_of(problem, curve, reference, crew_of(on)), "frontier", total=len(curve))
    rows: list[Row] = []
    for c, row in zip(multipliers, outcomes, strict=True):
        if isinstance(row, Exception):
            raise row
        rows.append({"c": float(c) if c < HUGE else math.inf, **row})
    table = pd.DataFrame(rows)
    if not bound:
        return table
    return table.assign(bound=problem.referee.most_benefit(table.entropy.to_numpy()))


def _in_memory(cohort: Cohort) -> Cohort:
    """The cohort with all arms in memory, as simulations need it."""
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
    """An upper bound on the benefit of every policy, by how evenly the policy helps.

    Parameters
    ----------
    cohort, k, horizon, gamma, runs, seed
        As in :func:`compare`. The Oracle's gain, of which benefit is a share, is estimated from
        these runs.
    entropies : sequence of float, optional
        Values of the entropy; by default 200 values from 0 to log n.

    Returns
    -------
    pandas.DataFrame
        ``entropy`` and ``bound``: no policy with at least that expected action entropy can expect
        more benefit (:func:`softfair.solvers.tradeoff_bound`).

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

    referee = Referee(_in_memory(cohort), k, horizon, gamma, runs, seed)
    at = np.linspace(0, math.log(cohort.n), 200) if entropies is None else np.asarray(entropies)
    return pd.DataFrame({"entropy": at, "bound": referee.most_benefit(at)})


def _at_multiplier(policy: Policy | Callable[[float], Policy]) -> Callable[[float], Policy]:
    """The function from a multiplier to a policy, for the argument ``policy`` of a frontier."""
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
    """The reference policy, for the argument ``against``."""
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
