"""Find theta_0, ..., theta_{T-1} such that k arms are expected to be active at every step.

The residual is F_t = (expected active arms at t) / k_t - 1. Steps at which nobody or everybody is
active have no unknown: their theta is beyond every gain. The theta of all other steps is found by
Broyden's method (`broyden`). A pass over the arms gives the diagonal of the Jacobian at no extra
cost; the whole Jacobian has a closed form for two-state arms, and is measured by differences for
others. From SAMPLED arms on, the search begins on a sample, and the full cohort then needs three to
six passes (more if k is tiny).

Equations are solved instead of minimising the dual, because `meanfield` has no objective, and
because near the solution of `priced` a dual value of 1e5 cannot resolve a residual of 1e-8. If arms
have costs, k counts arms of average cost (`scale`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cluster import Crew
from ..cohort import Cohort
from ..kernels.rules import RuleCode
from .broyden import Residual, Responses, broyden, inverse_jacobian
from .checkpoint import Passes
from .scale import most_gain
from .sweeps import SAMPLE, Sweep, responses, sample_of, sweep

__all__ = ["ALWAYS", "GENTLER", "NEVER", "Balance", "Budget", "Steps", "balance"]

Floats = NDArray[np.float64]
# k, the arms helped at a decision: one number, or one for each decision [T].
Budget = int | Sequence[int] | NDArray[np.int64]

SAMPLED = 4096  # arms from which on the search begins on a sample, of at most an eighth of them
GENTLER = 1.6  # factor between multipliers when a hard problem is approached through easier ones
NEVER, ALWAYS = 1e3, -1e3  # theta - c lambda at which no arm, and every arm, is active


@dataclass(frozen=True)
class Balance:
    """A solution of F(theta) = 0, or the theta with the smallest residual that was found.

    Parameters
    ----------
    theta : ndarray [T]
        One number a step.
    residual : float
        The largest |F_t|.
    passes : int
        Passes over all arms; a pass over a sample counts as the sample's share of the arms.
    """

    theta: Floats
    residual: float
    passes: int


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps. A step is open, and has an unknown, if it leaves a choice of active arms.

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
        """Steps for k, which is one number or one number for each step."""
        return cls(np.broadcast_to(np.asarray(k, np.float64), (horizon,)), n, farthest)

    @property
    def open(self) -> NDArray[np.bool_]:
        """Whether some but not all arms are active at each step [T]."""
        return (self.k > 0) & (self.k < self.n)

    def every(self, theta: ArrayLike, c: float, low: float = 0.0, high: float = 0.0) -> Floats:
        """theta of all steps [T] from theta of the open steps.

        ``low`` and ``high`` bound a bonus that may be added to the gain of an arm.
        """
        prices = np.where(
            self.k > 0,
            ALWAYS + c * (low - self.farthest),
            NEVER + c * (high + self.farthest),
        )
        prices[self.open] = theta
        return prices


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
        Arms to be active at every step, or one number for each step, 0 <= k <= n.
    horizon : int
        Number of steps T.
    gamma, c : float
        Discount and multiplier.
    rule : RuleCode
        PRICED, JOINT or SUCCESSIVE.
    tolerance : float
        Residual |F_t| that is accepted at every step.
    one_pass : callable
        One pass over all arms, for arms that `sweep` does not model; None means `sweep`.
    gentler : int
        How many smaller multipliers may be tried first if the search fails.
    crew : Crew, optional
        The workers that compute on the shards of the cohort; None means this process. The sample is
        always computed in this process.
    size : int
        The largest number of arms in the sample.

    Returns
    -------
    Balance
        The theta with the smallest residual that was found; it may exceed the tolerance.

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
        arguments = (cohort, steps.every(theta, c), c, gamma, rule)
        return sweep(*arguments, crew) if one_pass is None else one_pass(*arguments)

    def jacobian(of: Cohort, crew: Crew | None = None) -> Responses | None:
        if one_pass is not None or of.S > 2:
            return None
        return _closed_form(of, steps, of.n / n, (c, gamma, rule), crew)

    flat = np.array([-math.log(active / (n - active)) for active in allowed])
    rough = tolerance if whole else max(tolerance, 1e-6)
    search = (_residual(over_sample, steps, share), jacobian(sample))
    best = broyden(*search, flat, None, rough)
    passes = best.passes * share
    if best.residual > rough and c > 0 and gentler:  # begin from the solution at a smaller c
        softer = (gamma, c / GENTLER, rule, 1e-4, one_pass, gentler - 1)
        easier = balance(sample, steps.k * share, horizon, *softer)
        from_easier = broyden(*search, easier.theta[open_] * GENTLER, None, rough)
        passes += (easier.passes + from_easier.passes) * share
        if from_easier.residual < best.residual:
            best = from_easier
    if not whole:
        inverse, its_passes = inverse_jacobian(*search, best.theta, best.F)
        # A pass other than `sweep` has the arms in memory, so that nothing is kept on disk.
        setting = (steps.k.tolist(), horizon, gamma, c, int(rule), tolerance)
        passes_done = Passes.of(cohort, setting) if one_pass is None else Passes(None)
        start = best.inverse if inverse is None else inverse
        F = _residual(lambda theta: passes_done(theta, lambda: over_all(theta)), steps, 1.0)
        best = broyden(F, jacobian(cohort, crew), best.theta, start, tolerance)
        passes_done.forget()
        passes += its_passes * share + best.passes
    return Balance(steps.every(best.theta, c), best.residual, math.ceil(passes))


def _residual(over: Callable[[Floats], Floats], steps: Steps, share: float) -> Residual:
    """F at the open steps, from a pass over this share of the arms."""
    open_, allowed = steps.open, steps.k[steps.open] * share

    def F(theta: Floats) -> tuple[Floats, Floats]:
        active, response = over(theta)[:, :-1][:, open_] / allowed
        return active - 1, response

    return F


def _closed_form(
    of: Cohort,
    steps: Steps,
    share: float,
    setting: tuple[float, float, RuleCode],
    crew: Crew | None,
) -> Responses:
    """-dF/dtheta at the open steps, from two-state arms that are this share of all arms.

    ``setting`` is (c, gamma, rule).
    """
    open_, allowed = steps.open, steps.k[steps.open] * share

    def by_theta(theta: Floats) -> Floats:
        every = steps.every(theta, setting[0])
        total = responses(of, every, *setting, crew)
        response: Floats = total[np.ix_(open_, open_)] / allowed[:, None]
        return response

    return by_theta
