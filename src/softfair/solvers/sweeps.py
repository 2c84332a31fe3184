"""Passes over all arms at one number theta_t a step, and the sample for a rough theta.

If arms have costs, arm i counts as cost_i / mean(cost) arms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_given
from ..cluster import Crew, Spread
from ..cohort import Cohort
from ..kernels import recursion
from ..kernels.rules import RuleCode
from ..kernels.threads import map_parts
from ..shards import Arms, ShardedCohort, shards_of

__all__ = ["SAMPLE", "Sweep", "responses", "sample_of", "sweep", "sweep_shard"]

Floats = NDArray[np.float64]
# (arms, theta [T], c, gamma, rule) -> [2, T + 1], see `sweep`
Sweep = Callable[[Cohort, Floats, float, float, RuleCode], Floats]
SAMPLE = 16384  # arms of the sample on which rough prices are found


def sweep(
    cohort: Cohort,
    theta: Floats,
    c: float,
    gamma: float,
    rule: RuleCode,
    crew: Crew | None = None,
) -> Floats:
    """One pass over all arms.

    Parameters
    ----------
    cohort : Cohort
        The arms, in memory or in files.
    theta : ndarray [T]
        One number a step.
    c, gamma : float
        Multiplier and discount.
    rule : RuleCode
        PRICED, JOINT, SUCCESSIVE or HARD, see :mod:`softfair.kernels.recursion`.
    crew : Crew, optional
        The workers that compute on the shards; None means this process.

    Returns
    -------
    ndarray [2, T + 1]
        Row 0: expected active arms at each step, and the expected value from the start. Row 1: the
        response of row 0 to -theta_t. If arms have costs, gains are those for the cost of an
        average arm, and active arm i counts as cost_i / mean(cost).

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> from softfair.kernels.rules import RuleCode
    >>> from softfair.solvers.sweeps import sweep
    >>> cohort = sf.datasets.synthetic(n=10, seed=0)
    >>> sweep(cohort, np.zeros(3), 0.0, 1.0, RuleCode.JOINT)[0, :3]
    array([5., 5., 5.])
    """
    return _over_arms(sweep_shard, cohort, (theta, c, gamma, int(rule)), crew)


def responses(
    cohort: Cohort,
    theta: Floats,
    c: float,
    gamma: float,
    rule: RuleCode,
    crew: Crew | None = None,
) -> Floats:
    """The responses of the expected active arms at each step to every -theta_t, in closed form.

    Parameters
    ----------
    cohort : Cohort
        Arms with two states.
    theta, c, gamma, rule, crew
        See :func:`sweep`.

    Returns
    -------
    ndarray [T, T]
        Entry (t, t2) is the response of the expected active arms at t to -theta_t2.
    """
    return _over_arms(_responses_shard, cohort, (theta, c, gamma, int(rule)), crew)


def _over_arms(
    of_shard: Callable[..., Floats], cohort: Cohort, arguments: tuple[Any, ...], crew: Crew | None
) -> Floats:
    """The sum of ``of_shard`` over all shards of the cohort."""
    if cohort.with_costs:
        # Arms of the same cost are arms without costs whose worth, activity and response count
        # cost / mean(cost) times.
        mean = cohort.cost.mean()
        passes = [
            (cost / mean) * _over_arms(of_shard, arms, arguments, crew)
            for cost, arms in cohort.cost_classes
        ]
        return np.asarray(np.sum(passes, axis=0), np.float64)
    total: Floats = Spread(shards_of(cohort), crew).sum(
        of_shard, *arguments, what=f"a pass over {cohort.n:,} arms"
    )
    return total


def sweep_shard(arms: Arms, theta: Floats, c: float, gamma: float, rule: int) -> Floats:
    """One pass over the arms of a shard."""
    kernel = recursion.sweep_two if arms.P.shape[2] == 2 else recursion.sweep
    return _sum_of_parts(kernel, arms, theta, c, gamma, rule)


def _responses_shard(arms: Arms, theta: Floats, c: float, gamma: float, rule: int) -> Floats:
    """`responses` of the arms of a shard."""
    return _sum_of_parts(recursion.responses_two, arms, theta, c, gamma, rule)


def _sum_of_parts(kernel: Callable[..., Any], arms: Arms, *arguments: Any) -> Floats:
    """The sum of a kernel's results over parts of fixed size of a shard."""
    args = (arms.P, arms.reward, arms.start, *arguments)
    total: Floats = np.sum(map_parts(kernel, len(arms), recursion.PART, *args), axis=0)
    return total


def sample_of(cohort: Cohort, crew: Crew | None = None, size: int = SAMPLE) -> Cohort:
    """At most ``size`` arms, spread evenly over the cohort, in memory.

    Parameters
    ----------
    cohort : Cohort
        The arms, in memory or in files.
    crew : Crew, optional
        The workers that read files; None means this process.
    size : int
        The most arms that the sample may have.

    Returns
    -------
    Cohort
        The cohort itself if it has at most ``size`` arms. Otherwise the sample has no ids and
        groups, unless arms have costs.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.sweeps import sample_of
    >>> cohort = sf.datasets.synthetic(n=10, seed=0)
    >>> sample_of(cohort) is cohort
    True
    """
    if cohort.n <= size:
        return cohort.loaded if isinstance(cohort, ShardedCohort) else cohort
    rows = np.arange(size) * cohort.n // size
    if cohort.with_costs:
        return cohort.subset(rows)
    shards = shards_of(cohort)
    ends = np.searchsorted(rows, [shard.first for shard in shards] + [cohort.n])
    each = [(rows[ends[i] : ends[i + 1]] - shard.first,) for i, shard in enumerate(shards)]
    picked = list(Spread(shards, crew).map(_pick, each=each, what="reading a sample"))
    arms, reward, start = (np.concatenate(column) for column in zip(*picked, strict=True))
    make = Cohort.two_state if arms.shape[3] == 1 else Cohort
    return make(arms[..., 0] if arms.shape[3] == 1 else arms, reward=as_given(reward), start=start)


def _pick(arms: Arms, rows: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """P, reward and start of some arms."""
    zeros = np.zeros(len(rows), np.int64)  # if one row serves all arms
    return (
        arms.P[rows],
        arms.reward[rows if len(arms.reward) > 1 else zeros],
        arms.start[rows if len(arms.start) > 1 else zeros],
    )
