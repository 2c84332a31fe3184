"""Find theta_0, ..., theta_{T-1} such that k arms are expected to be active at every step.

The residual F_t = (expected active arms at t) / k_t - 1 falls as theta_t rises, and every theta
moves every F a little. Steps at which nobody or everybody is active have no unknown: their theta is
beyond every gain. Broyden's method starts from the diagonal of the Jacobian, which a pass over the
arms gives at no extra cost, and updates it by the steps taken; where it stalls, the Jacobian is
computed: in closed form for two-state arms, by differences for others. Beyond SAMPLE arms both are
done on a sample, and the full cohort needs three to six passes (more where k is tiny).
`meanfield` has no objective to minimise, and near the solution of `priced` a dual value of 1e5
cannot resolve a residual of 1e-8. Where arms have costs, an arm counts as cost_i / mean(cost) arms,
and k is in arms of average cost.

Passes to 1e-8 (synthetic, T = 50, k = n/10, c = .1, 1, 10, 50, 200; "-" not reached in 600) at
n = 100: Broyden here 6, 11, 18, 27, 100; scipy hybr 60, 67, 74, 80, 195; krylov 16, 23, 47, 129, -;
anderson 15, 11, 33, 116, -; broyden1 32, 147, -, -, -; L-BFGS on the dual 5, 9, -, 36, -.
n = 1e5, c = 1, 10, 200: 13, 15, 24 here; hybr 67, 77, 85; L-BFGS 8, -, - (stalls at 6e-8, 3e-8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cluster import Crew, Spread
from ..cohort import Cohort, as_given
from ..kernels import recursion
from ..kernels.rules import RuleCode
from ..kernels.threads import map_parts
from ..shards import Arms, ShardedCohort, shards_of
from .checkpoint import Passes

__all__ = [
    "ALWAYS",
    "GENTLER",
    "NEVER",
    "SAMPLE",
    "Balance",
    "Budget",
    "Steps",
    "Sweep",
    "balance",
    "broyden",
    "in_arms",
    "inverse_jacobian",
    "most_gain",
    "reward_range",
    "sample_of",
    "sweep",
]

Floats = NDArray[np.float64]
# k, the arms helped at a decision: one number, or one for each decision [T].
Budget = int | Sequence[int] | NDArray[np.int64]
# theta [T] -> (F [T], response of F to -theta at the same step [T])
Residual = Callable[[Floats], tuple[Floats, Floats]]
# theta [T] -> -dF/dtheta [T, T]
Responses = Callable[[Floats], Floats]
# (arms, theta [T], c, gamma, rule) -> [2, T + 1], see `sweep`
Sweep = Callable[[Cohort, Floats, float, float, RuleCode], Floats]

SAMPLE = 16384  # arms of the sample on which rough prices are found
SAMPLED = 4096  # arms from which on there is a sample, at most an eighth of them
LONGEST_STEP = 4.0  # of any theta at once: beyond it sigmoids saturate and the Jacobian is useless
DIFFERENCE = 1e-5  # for measuring the Jacobian: half the digits of a residual accurate to 1e-14
CLOSED_FORM = 8  # passes that a Jacobian in closed form takes, measured: 5 to 10 at T = 50 and 80
GENTLER = 1.6  # factor between multipliers when a hard problem is approached through easier ones
MOST_PASSES = 400  # of one search
SHORTER = 0.3  # factor by which a step is shortened that did not reduce the residual
NEVER, ALWAYS = 1e3, -1e3  # c lambda - theta beyond which nobody, and everybody, is active


@dataclass(frozen=True)
class Balance:
    """A solution of F(theta) = 0, or the best that was found.

    Parameters
    ----------
    theta : ndarray [T]
        One number a step.
    residual : float
        The largest |F_t|.
    passes : int
        Passes over all arms; a pass over a sample counts as its share of the arms.
    """

    theta: Floats
    residual: float
    passes: int


@dataclass(frozen=True, eq=False)
class Steps:
    """Which steps leave a choice of who is active; the others have no unknown.

    Parameters
    ----------
    k : ndarray [T]
        Arms to be active at each step, a fraction on a sample.
    n : int
        Number of arms.
    farthest : float
        No gain is larger than this, up or down.

    Examples
    --------
    >>> from softfair.solvers.budget import Steps
    >>> steps = Steps.of([0, 3, 10], 3, 10, farthest=2.0)
    >>> steps.open.tolist(), steps.every([0.5], c=1.0).tolist()
    ([False, True, False], [1002.0, 0.5, -1002.0])
    """

    k: Floats
    n: int
    farthest: float

    @classmethod
    def of(cls, k: ArrayLike, horizon: int, n: int, farthest: float) -> Steps:
        """From k as it was given: one number, or one for each step."""
        return cls(np.broadcast_to(np.asarray(k, np.float64), (horizon,)), n, farthest)

    @property
    def open(self) -> NDArray[np.bool_]:
        """Whether some arms are active at a step, and others are not [T]."""
        return (self.k > 0) & (self.k < self.n)

    def every(self, theta: ArrayLike, c: float, low: float = 0.0, high: float = 0.0) -> Floats:
        """theta of all steps [T] from that of the open ones.

        The gain of an arm may have a bonus between ``low`` and ``high`` beside it.
        """
        prices = np.where(
            self.k > 0,
            ALWAYS + c * (low - self.farthest),
            NEVER + c * (high + self.farthest),
        )
        prices[self.open] = theta
        return prices


@dataclass(frozen=True)
class _Search:
    """Where a search by Broyden's method ended."""

    theta: Floats  # [T]
    F: Floats  # [T]
    inverse: Floats  # [T, T]: approximate inverse of -dF/dtheta
    passes: int

    @property
    def residual(self) -> float:
        """The largest |F_t|."""
        return float(np.abs(self.F).max())


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
        response of row 0 to -theta_t. Where arms have costs, gains are those for the cost of an
        average arm, and an active arm counts as cost_i / mean(cost).

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> from softfair.kernels.rules import RuleCode
    >>> from softfair.solvers.budget import sweep
    >>> cohort = sf.datasets.synthetic(n=10, seed=0)
    >>> sweep(cohort, np.zeros(3), 0.0, 1.0, RuleCode.JOINT)[0, :3]
    array([5., 5., 5.])
    """
    return _over_arms(_sweep_shard, cohort, (theta, c, gamma, int(rule)), crew)


def _over_arms(
    of_shard: Callable[..., Floats], cohort: Cohort, given: tuple[Any, ...], crew: Crew | None
) -> Floats:
    """The sum over all arms of what ``of_shard`` gives of a shard."""
    if cohort.with_costs:
        # In units of its cost a class of arms is one without costs: worth, activity and response
        # count cost_i / mean(cost) times.
        mean = cohort.cost.mean()
        passes = [
            (cost / mean) * _over_arms(of_shard, arms, given, crew)
            for cost, arms in cohort.cost_classes
        ]
        return np.asarray(np.sum(passes, axis=0), np.float64)
    total: Floats = Spread(shards_of(cohort), crew).sum(
        of_shard, *given, what=f"a pass over {cohort.n:,} arms"
    )
    return total


def _sweep_shard(arms: Arms, theta: Floats, c: float, gamma: float, rule: int) -> Floats:
    """One pass over the arms of a shard, in parts of a fixed size."""
    kernel = recursion.sweep_two if arms.P.shape[2] == 2 else recursion.sweep
    args = (arms.P, arms.reward, arms.start, theta, c, gamma, rule)
    total: Floats = np.sum(map_parts(kernel, len(arms), recursion.PART, *args), axis=0)
    return total


def _responses_shard(arms: Arms, theta: Floats, c: float, gamma: float, rule: int) -> Floats:
    """How the active two-state arms of a shard respond to every theta [T, T]."""
    args = (arms.P, arms.reward, arms.start, theta, c, gamma, rule)
    parts = map_parts(recursion.responses_two, len(arms), recursion.PART, *args)
    total: Floats = np.sum(parts, axis=0)
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
        How many arms to take.

    Returns
    -------
    Cohort
        The cohort itself if it has no more arms. Ids and groups of others are left out.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.budget import sample_of
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
    every = np.zeros(len(rows), np.int64)
    return (
        arms.P[rows],
        arms.reward[rows if len(arms.reward) > 1 else every],
        arms.start[rows if len(arms.start) > 1 else every],
    )


def most_gain(cohort: Cohort, horizon: int) -> float:
    """A bound on the size of every arm's gain, positive or negative, at any prices.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    horizon : int
        Number of steps T.

    Returns
    -------
    float
        T times the range of the rewards, and what help is worth at once: an arm in a bad state can
        be helped as if it were in a good one, at the same prices. Where arms have costs, it is
        meant for the cost of an average arm, here and in :func:`reward_range`.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.budget import most_gain
    >>> most_gain(sf.datasets.synthetic(n=5, seed=0), 10)
    10.0
    """
    rows = cohort.per_cost.reward_rows
    at_once = rows[:, -1] - rows[:, 0]  # [1 or n, S]
    return horizon * reward_range(cohort) + float(np.abs(at_once).max())


def in_arms(cohort: Cohort, k: ArrayLike) -> ArrayLike:
    """The budget as a number of arms.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int or array_like [T]
        Arms helped at every decision, or at each; or the most that help may cost.

    Returns
    -------
    float or ndarray [T]
        k; with costs, the number of arms of average cost. What no sum of costs can use up, because
        it is less than their greatest common divisor, is left out.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.budget import in_arms
    >>> cohort = sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]] * 2, cost=[2, 4])
    >>> in_arms(cohort, [3, 6]).round(3).tolist()
    [0.667, 2.0]
    """
    if not cohort.with_costs:
        return k
    unit = np.gcd.reduce(cohort.cost)
    usable: Floats = np.asarray(k) // unit * unit / cohort.cost.mean()
    return usable


def reward_range(cohort: Cohort) -> float:
    """By how much rewards differ.

    Parameters
    ----------
    cohort : Cohort
        The arms.

    Returns
    -------
    float
        The largest range of the worth of an arm's states, plus the range of what help is worth at
        once. The former is by arm, because a constant of an arm changes nobody's gain.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers.budget import reward_range
    >>> reward_range(sf.Cohort.two_state([[[0.1, 0.6], [0.5, 0.9]]], reward=[[[0, 0], [1, 0.8]]]))
    1.2
    """
    rows = cohort.per_cost.reward_rows
    return float(np.ptp(rows[:, 0], axis=1).max() + np.ptp(rows[:, -1] - rows[:, 0]))


def balance(
    cohort: Cohort,
    k: ArrayLike,
    horizon: int,
    gamma: float,
    c: float,
    rule: RuleCode,
    tolerance: float,
    one_pass: Sweep | None = None,
    gentler: int = 20,
    crew: Crew | None = None,
    size: int = SAMPLE,
) -> Balance:
    """Find theta such that k arms are expected to be active at every step.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : float or array_like [T]
        Arms to be active at every step, or at each, 0 <= k <= n.
    horizon : int
        Number of steps T.
    gamma, c : float
        Discount and multiplier.
    rule : RuleCode
        PRICED, JOINT or SUCCESSIVE.
    tolerance : float
        Residual |F_t| that is accepted at every step.
    one_pass : callable
        One pass over all arms, if they do more than `sweep` follows; None means `sweep`.
    gentler : int
        How many smaller multipliers may be tried on the way to a hard problem.
    crew : Crew, optional
        The workers that compute on the shards of the cohort; None means this process, in which the
        sample is always computed.
    size : int
        Arms of the sample at most.

    Returns
    -------
    Balance
        With the smallest residual that was found, which may exceed the tolerance.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.kernels.rules import RuleCode
    >>> from softfair.solvers.budget import balance
    >>> cohort = sf.datasets.synthetic(n=100, seed=0)
    >>> balance(cohort, 10, 20, 1.0, 5.0, RuleCode.PRICED, 1e-8).residual <= 1e-8
    True
    """
    n = cohort.n
    steps = Steps.of(k, horizon, n, most_gain(cohort, horizon))
    open_, allowed = steps.open, steps.k[steps.open]
    if not len(allowed):
        return Balance(steps.every([], c), 0.0, 0)
    sample = sample_of(cohort, crew, n if n < SAMPLED else min(size, n // 8))
    share, whole = sample.n / n, sample.n == n
    on_sample = sweep if one_pass is None else one_pass

    def over_sample(theta: Floats) -> Floats:
        return on_sample(sample, steps.every(theta, c), c, gamma, rule)

    def over_all(theta: Floats) -> Floats:
        given = (cohort, steps.every(theta, c), c, gamma, rule)
        return sweep(*given, crew) if one_pass is None else one_pass(*given)

    def responses(of: Cohort, crew: Crew | None = None) -> Responses | None:
        if one_pass is not None or of.S > 2:
            return None
        return _closed_form(of, steps, of.n / n, (c, gamma, int(rule)), crew)

    flat = np.array([-math.log(some / (n - some)) for some in allowed])
    rough = tolerance if whole else max(tolerance, 1e-6)
    search = (_residual(over_sample, steps, share), responses(sample))
    best = broyden(*search, flat, None, rough)
    passes = best.passes * share
    if best.residual > rough and c > 0 and gentler:  # approach it through gentler multipliers
        softer = (gamma, c / GENTLER, rule, 1e-4, one_pass, gentler - 1)
        easier = balance(sample, steps.k * share, horizon, *softer)
        again = broyden(*search, easier.theta[open_] * GENTLER, None, rough)
        passes += (easier.passes + again.passes) * share
        if again.residual < best.residual:
            best = again
    if not whole:
        inverse, worth = inverse_jacobian(*search, best.theta, best.F)
        # A pass that does more than `sweep` has the arms in memory, and keeps nothing on disk.
        setting = (steps.k.tolist(), horizon, gamma, c, int(rule), tolerance)
        passes_done = Passes.of(cohort, setting) if one_pass is None else Passes(None)
        start = best.inverse if inverse is None else inverse
        F = _residual(lambda theta: passes_done(theta, lambda: over_all(theta)), steps, 1.0)
        best = broyden(F, responses(cohort, crew), best.theta, start, tolerance)
        passes_done.forget()
        passes += worth * share + best.passes
    return Balance(steps.every(best.theta, c), best.residual, math.ceil(passes))


def _residual(over: Callable[[Floats], Floats], steps: Steps, share: float) -> Residual:
    """F at the open steps, from a pass over this share of the arms."""
    open_, allowed = steps.open, steps.k[steps.open] * share

    def F(theta: Floats) -> tuple[Floats, Floats]:
        active, response = over(theta)[:, :-1][:, open_] / allowed
        return active - 1, response

    return F


def _closed_form(
    of: Cohort, steps: Steps, share: float, given: tuple[float, float, int], crew: Crew | None
) -> Responses:
    """-dF/dtheta at the open steps of two-state arms, which are this share of all arms."""
    open_, allowed = steps.open, steps.k[steps.open] * share

    def by_theta(theta: Floats) -> Floats:
        every = steps.every(theta, given[0])
        total = _over_arms(_responses_shard, of, (every, *given), crew)
        response: Floats = total[np.ix_(open_, open_)] / allowed[:, None]
        return response

    return by_theta


def broyden(
    f: Residual,
    responses: Responses | None,
    theta: Floats,
    inverse: Floats | None,
    tolerance: float,
) -> _Search:
    """Broyden's good method with backtracking, from theta.

    Without an inverse Jacobian it starts from the diagonal that f gives. A search that began with
    the Jacobian itself took as many passes: it changes too much on the way.
    """
    F, response = f(theta)
    passes = 1
    if inverse is None:
        inverse = np.diag(1 / np.maximum(response, 1e-3))
    measured = False  # whether inverse was measured at this theta
    while np.abs(F).max() > tolerance and passes < MOST_PASSES:
        step: Floats = inverse @ F
        step = step * min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
        for _ in range(5):
            F_new, _ = f(theta + step)
            passes += 1
            change = inverse @ (F - F_new)
            weight = step @ change
            if abs(weight) > 1e-14 * (step @ step):
                inverse = inverse + np.outer(step - change, step @ inverse) / weight
            better = np.linalg.norm(F_new) < (1 - 1e-4) * np.linalg.norm(F)
            if better:
                break
            step = np.multiply(SHORTER, step)
        if better:
            theta, F, measured = theta + step, F_new, False
            continue
        if measured:  # no descent even along the step of the true Jacobian
            break
        fresh, worth = inverse_jacobian(f, responses, theta, F)
        passes += worth
        if fresh is None:
            break
        inverse, measured = fresh, True
    return _Search(theta, F, inverse, passes)


def inverse_jacobian(
    f: Residual, responses: Responses | None, theta: Floats, F: Floats
) -> tuple[Floats | None, int]:
    """Inverse of -dF/dtheta, or None if it is singular, and the passes that it took.

    Without ``responses`` it is measured by differences from F = f(theta).
    """
    if responses is None:
        columns = []
        for t in range(len(theta)):
            moved = theta.copy()
            moved[t] += DIFFERENCE
            columns.append((F - f(moved)[0]) / DIFFERENCE)
        slopes, passes = np.array(columns).T, len(theta)
    else:
        slopes, passes = responses(theta), CLOSED_FORM
    try:
        return np.asarray(np.linalg.inv(slopes), dtype=np.float64), passes
    except np.linalg.LinAlgError:
        return None, passes
