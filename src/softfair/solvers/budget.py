"""Find theta_0, ..., theta_{T-1} such that k arms are expected to be active at every step.

The residual F_t = (expected active arms at t) / k - 1 falls as theta_t rises, and every theta moves every F a little. Broyden's method
starts from the diagonal of the Jacobian, which a pass over the arms yields for free, and learns the rest from the steps it takes; where
it stalls, the Jacobian is measured by differences. Beyond SAMPLE arms both are done on a sample, which costs next to nothing, and the
full cohort needs three to six passes (more where k is tiny). No objective is evaluated: near the solution a dual value of 1e5 cannot
show a residual of 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from ..kernels import recursion
from ..kernels.threads import map_parts

__all__ = ["SAMPLE", "Balance", "balance", "sample_of", "sweep"]

Floats = NDArray[np.float64]

SAMPLE = 16384  # arms that stand for the rest while prices are still rough
LONGEST_STEP = 4.0  # of any theta at once: beyond that sigmoids have saturated and the model of the step is void
DIFFERENCE = 1e-5  # for measuring the Jacobian: half the digits of a residual accurate to 1e-14
GENTLER = 1.6  # factor between multipliers when a hard problem is reached through easier ones


@dataclass(frozen=True)
class Balance:
    theta: Floats  # [T]
    residual: float
    passes: int


def sweep(cohort: Cohort, theta: Floats, c: float, gamma: float, rule: int) -> Floats:
    """[2, T + 1]: expected active arms at each step and the total value; response of the former to -theta."""
    kernel = recursion.sweep_two if cohort.S == 2 else recursion.sweep
    args = (cohort.P, cohort.reward_rows, cohort.start_rows, theta, c, gamma, rule)
    total: Floats = np.sum(map_parts(kernel, cohort.n, recursion.PART, *args), axis=0)
    return total


def sample_of(cohort: Cohort) -> Cohort:
    """At most SAMPLE arms spread evenly over the cohort."""
    return cohort if cohort.n <= SAMPLE else cohort.subset(np.arange(SAMPLE) * cohort.n // SAMPLE)


def balance(
    cohort: Cohort,
    k: float,
    horizon: int,
    gamma: float,
    c: float,
    rule: int,
    tolerance: float,
    theta: Floats | None = None,
) -> Balance:
    """theta with every residual within ``tolerance``, or the best that was found. A start may be given."""
    n = cohort.n
    if theta is None:
        theta = np.full(horizon, -math.log(k / (n - k)))
    sample = sample_of(cohort)
    share = sample.n / n

    def residual(of: Cohort, at: Floats, multiplier: float = c) -> tuple[Floats, Floats]:
        budget = k * of.n / n
        active, response = sweep(of, at, multiplier, gamma, rule)[:, :-1] / budget
        return active - 1, response

    passes = 0.0
    rough = tolerance if sample is cohort else max(tolerance, 1e-6)
    theta, F, inverse, used = _broyden(lambda at: residual(sample, at), theta, None, rough)
    passes += used * share
    if np.abs(F).max() > rough:  # too steep from here: come through gentler multipliers
        easier = balance(sample, k * share, horizon, gamma, c / GENTLER, rule, 1e-4)
        passes += easier.passes * share
        theta_2, F_2, inverse_2, used = _broyden(
            lambda at: residual(sample, at), easier.theta * GENTLER, None, rough
        )
        passes += used * share
        if np.abs(F_2).max() < np.abs(F).max():
            theta, F, inverse = theta_2, F_2, inverse_2
    if sample is not cohort:
        measured = _inverse_jacobian(lambda at: residual(sample, at), theta, F)
        passes += horizon * share
        theta, F, _, used = _broyden(
            lambda at: residual(cohort, at),
            theta,
            inverse if measured is None else measured,
            tolerance,
        )
        passes += used
    return Balance(theta, float(np.abs(F).max()), math.ceil(passes))


def _broyden(
    f: Callable[[Floats], tuple[Floats, Floats]],
    theta: Floats,
    inverse: Floats | None,
    tolerance: float,
    most: int = 400,
) -> tuple[Floats, Floats, Floats, int]:
    """Broyden's good method with backtracking: (theta, F, inverse of -dF/dtheta, evaluations)."""
    F, response = f(theta)
    passes = 1
    if inverse is None:
        inverse = np.diag(1 / np.maximum(response, 1e-3))
    measured = False
    while np.abs(F).max() > tolerance and passes < most:
        step: Floats = inverse @ F
        step = step * min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
        for _ in range(5):
            F_new, _ = f(theta + step)
            passes += 1
            fall = F - F_new
            learnt = inverse @ fall
            weight = step @ learnt
            if abs(weight) > 1e-14 * (step @ step):
                inverse = inverse + np.outer(step - learnt, step @ inverse) / weight
            better = np.linalg.norm(F_new) < (1 - 1e-4) * np.linalg.norm(F)
            if better:
                break
            step = np.multiply(0.3, step)
        if better:
            theta, F, measured = theta + step, F_new, False
            continue
        if measured:  # not even the true Jacobian shows a way down
            break
        fresh = _inverse_jacobian(f, theta, F)
        passes += len(theta)
        if fresh is None:
            break
        inverse, measured = fresh, True
    return theta, F, inverse, passes


def _inverse_jacobian(
    f: Callable[[Floats], tuple[Floats, Floats]], theta: Floats, F: Floats
) -> Floats | None:
    """Inverse of -dF/dtheta by differences; None if it is singular."""
    columns = []
    for t in range(len(theta)):
        moved = theta.copy()
        moved[t] += DIFFERENCE
        columns.append((F - f(moved)[0]) / DIFFERENCE)
    try:
        return np.asarray(np.linalg.inv(np.array(columns).T), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
