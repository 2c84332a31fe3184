"""Broyden's method for F(theta) = 0, where F_t falls as theta_t rises and depends on all of theta.

The method starts from the diagonal of the Jacobian, which is computed with F, and updates it after
each step. If it stalls, the whole Jacobian is computed.

Passes to 1e-8 (synthetic, T = 50, k = n/10, c = .1, 1, 10, 50, 200; "-" not reached in 600) at
n = 100: Broyden here 6, 11, 18, 27, 100; scipy hybr 60, 67, 74, 80, 195; krylov 16, 23, 47, 129, -;
anderson 15, 11, 33, 116, -; broyden1 32, 147, -, -, -; L-BFGS on the dual 5, 9, -, 36, -.
n = 1e5, c = 1, 10, 200: 13, 15, 24 here; hybr 67, 77, 85; L-BFGS 8, -, - (stalls at 6e-8, 3e-8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Residual", "Responses", "Root", "broyden", "inverse_jacobian"]

Floats = NDArray[np.float64]
# theta [T] -> (F [T], response of F to -theta at the same step [T])
Residual = Callable[[Floats], tuple[Floats, Floats]]
# theta [T] -> -dF/dtheta [T, T]
Responses = Callable[[Floats], Floats]
LONGEST_STEP = 4.0  # of any theta: further on sigmoids saturate, and the Jacobian no longer holds
DIFFERENCE = 1e-5  # of theta, to measure the Jacobian; the residual is accurate to 1e-14
CLOSED_FORM = 8  # passes that a Jacobian in closed form takes, measured: 5 to 10 at T = 50 and 80
MOST_PASSES = 400  # of one search
SHORTER = 0.3  # factor of a step that did not reduce the residual


@dataclass(frozen=True)
class Root:
    """Where a search by Broyden's method ended."""

    theta: Floats  # [T]
    F: Floats  # [T]
    inverse: Floats  # [T, T]: approximate inverse of -dF/dtheta
    passes: int

    @property
    def residual(self) -> float:
        """The largest |F_t|."""
        return float(np.abs(self.F).max())


def broyden(
    f: Residual,
    responses: Responses | None,
    theta: Floats,
    inverse: Floats | None,
    tolerance: float,
) -> Root:
    """Broyden's good method with backtracking, from theta.

    Without an inverse Jacobian, the search starts from the diagonal that f returns. Starting from
    the whole Jacobian took as many passes, because the Jacobian changes too much on the way.
    """
    F, response = f(theta)
    passes = 1
    if inverse is None:
        inverse = np.diag(1 / np.maximum(response, 1e-3))
    measured = False  # whether ``inverse`` is that of the Jacobian at this theta
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
        if measured:  # the step of the true Jacobian did not reduce the residual either
            break
        true_inverse, its_passes = inverse_jacobian(f, responses, theta, F)
        passes += its_passes
        if true_inverse is None:
            break
        inverse, measured = true_inverse, True
    return Root(theta, F, inverse, passes)


def inverse_jacobian(
    f: Residual, responses: Responses | None, theta: Floats, F: Floats
) -> tuple[Floats | None, int]:
    """Inverse of -dF/dtheta, or None if that is singular, and the passes that were needed.

    Without ``responses``, the Jacobian is measured by differences from F = f(theta).
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
