"""What a solver hands on: gains lambda_t(s) by request, and what is known of their quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from ..kernels import recursion
from ..kernels.threads import map_parts

__all__ = ["Info", "PriceValues", "TableValues", "Values"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Info:
    """How a solver fared.

    ``residual`` is, for `priced` and `meanfield`, the largest relative gap between expected and allowed active arms over the steps;
    for `paper`, how far the gains acted on in the last third of the episodes are from settled, beyond their noise, as a part of the
    mean gain of a selection (`softfair.solvers.paper`).
    """

    solver: str
    c_value: float  # multiplier with which the values were learnt
    residual: float
    tolerance: float
    passes: int  # passes over all arms; for `paper`, episodes
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def converged(self) -> bool:
        return self.residual <= self.tolerance


class Values(Protocol):
    """Gains lambda, a few steps at a time."""

    @property
    def info(self) -> Info: ...

    def rows(self, first: int, count: int) -> Floats:
        """lambda_t(s) [count, n, S] for t = first, ..., first + count - 1."""
        ...


@dataclass(frozen=True, eq=False)
class PriceValues:
    """Gains that follow from one number theta_t a step: nothing is stored per arm, rows are computed when asked for."""

    cohort: Cohort
    gamma: float
    theta: Floats  # [T]
    c: float
    rule: int  # one of kernels.recursion
    info: Info

    def rows(self, first: int, count: int) -> Floats:
        out = np.empty((count, self.cohort.n, self.cohort.S))
        kernel = recursion.score_rows_two if self.cohort.S == 2 else recursion.score_rows
        cohort = self.cohort
        map_parts(
            kernel,
            cohort.n,
            recursion.PART,
            cohort.P,
            cohort.reward_rows,
            self.theta,
            self.c,
            self.gamma,
            self.rule,
            first,
            out,
        )
        return out


@dataclass(frozen=True, eq=False)
class TableValues:
    """Gains from a table of values V [T + 1, n, S]."""

    cohort: Cohort
    gamma: float
    V: Floats  # [T + 1, n, S]
    info: Info

    def rows(self, first: int, count: int) -> Floats:
        worth = (
            self.cohort.reward + self.gamma * self.V[first + 1 : first + count + 1]
        )  # [count, n, S], of the state reached
        active: Floats = np.einsum("ist,cit->cis", self.cohort.P[:, 1], worth)
        passive: Floats = np.einsum("ist,cit->cis", self.cohort.P[:, 0], worth)
        return active - passive
