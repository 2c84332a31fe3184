"""The results of solvers: gains lambda_t(s) on request, and how accurate they are."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..cluster import Crew, Spread
from ..cohort import Cohort
from ..kernels import recursion
from ..kernels.rules import RuleCode
from ..kernels.threads import map_parts
from ..shards import Arms, shards_of

__all__ = ["Gains", "Info", "PriceValues", "TableValues", "Values"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Info:
    """How a solver ended: its accuracy and its work.

    Parameters
    ----------
    solver : str
        "priced", "evenhanded", "meanfield" or "paper".
    c_value : float
        Multiplier with which the values were learnt.
    residual : float
        For `priced` and `meanfield`, the largest relative gap between expected and allowed active
        arms over the steps. For `evenhanded`, the larger of that gap and the largest relative gap
        between a rate of help and the rate at which its bonus is optimal. For `paper`, the distance
        of the gains in the last third of the episodes from settled gains, beyond their noise, as a
        part of the mean gain of a selection (`softfair.solvers.paper`).
    tolerance : float
        Residual up to which the solver counts as converged.
    passes : int
        Passes over all arms; for `paper`, episodes.
    details : mapping, optional
        Further figures by name.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.SoftFair(c=5).fit(sf.datasets.synthetic(n=20, seed=0), k=2, horizon=10)
    >>> fitted.info.solver, fitted.info.converged
    ('priced', True)
    """

    solver: str
    c_value: float
    residual: float
    tolerance: float
    passes: int
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def converged(self) -> bool:
        """Whether the residual is within the tolerance."""
        return self.residual <= self.tolerance


class Values(Protocol):
    """Gains lambda, a few steps at a time."""

    @property
    def info(self) -> Info:
        """How the solver ended."""
        ...

    def rows(self, first: int, count: int) -> Floats:
        """lambda_t(s) [count, n, S] for t = first, ..., first + count - 1."""
        ...


@dataclass(frozen=True, eq=False)
class PriceValues:
    """Gains that follow from one number theta_t a step.

    Nothing is stored for each arm: rows are computed on request.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    gamma : float
        Discount.
    theta : ndarray [T]
        One number a step, see :mod:`softfair.kernels.recursion`.
    c : float
        Multiplier of the gains.
    rule : RuleCode
        PRICED, JOINT or SUCCESSIVE.
    info : Info
        How the solver ended.
    crew : Crew, optional
        The workers that compute on the shards of the cohort; None means this process.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import solve_priced
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> solve_priced(cohort, k=2, horizon=10, gamma=1.0, c=5.0).rows(3, 2).shape
    (2, 20, 2)
    """

    cohort: Cohort
    gamma: float
    theta: Floats
    c: float
    rule: RuleCode
    info: Info
    crew: Crew | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "crew": None}  # a crew works for one process only

    def saved_fields(self) -> dict[str, Any]:
        """The fields that a file keeps: all but the crew."""
        return {name: value for name, value in self.__dict__.items() if name != "crew"}

    def rows(self, first: int, count: int) -> Floats:
        """lambda_t(s) [count, n, S] for t = first, ..., first + count - 1."""
        cohort = self.cohort
        out = np.empty((count, cohort.n, cohort.S))
        kernel = recursion.score_rows_two if cohort.S == 2 else recursion.score_rows
        arms = (cohort.arms, cohort.reward_rows)
        rule = (self.theta, self.c, self.gamma, int(self.rule))
        map_parts(kernel, cohort.n, recursion.PART, *arms, *rule, first, out)
        return out

    def spread(self, t: int, states: NDArray[Any], multiplier: float = 1.0) -> Spread:
        """multiplier times lambda_t(states[i]) of every arm, computed by the workers of shards."""
        shards = shards_of(self.cohort)
        extras = [states[shard.first : shard.first + shard.count] for shard in shards]
        recipe = Gains(
            secrets.token_hex(8),
            self.theta,
            self.c,
            self.gamma,
            int(self.rule),
            t,
            float(multiplier),
        )
        return Spread(shards, self.crew).derive(recipe, extras)


@dataclass(frozen=True, eq=False)
class Gains:
    """A recipe for the gains of one decision, see :class:`softfair.cluster.Recipe`.

    Parameters
    ----------
    token : str
        Name of this computation.
    theta, c, gamma, rule
        See :class:`PriceValues`.
    t : int
        The decision.
    multiplier : float
        The factor of the gains.
    """

    token: str
    theta: Floats
    c: float
    gamma: float
    rule: int
    t: int
    multiplier: float

    def make(self, arms: Arms, extra: NDArray[Any]) -> Floats:
        """multiplier lambda_t(s) [m] of arms in the states ``extra`` [m]."""
        out = np.empty(len(arms))
        kernel = recursion.scores_two if arms.P.shape[2] == 2 else recursion.scores
        rule = (self.theta, self.c, self.gamma, self.rule, self.t)
        map_parts(kernel, len(arms), recursion.PART, arms.P, arms.reward, *rule, extra, out)
        out *= self.multiplier
        return out


@dataclass(frozen=True, eq=False)
class TableValues:
    """Gains from a table of values.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    gamma : float
        Discount.
    V : ndarray [T + 1, n, S]
        Value of each state at each step; V[T] = 0.
    info : Info
        How the solver ended.

    Examples
    --------
    If all values are 0, the gain is that of the next step.

    >>> import numpy as np
    >>> import softfair as sf
    >>> from softfair.solvers.values import Info, TableValues
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> values = TableValues(cohort, 1.0, np.zeros((4, 20, 2)), Info("paper", 1.0, 0.0, 0.02, 0))
    >>> bool(np.allclose(values.rows(2, 1)[0], cohort.immediate_gain))
    True
    """

    cohort: Cohort
    gamma: float
    V: Floats
    info: Info

    def rows(self, first: int, count: int) -> Floats:
        """lambda_t(s) [count, n, S] for t = first, ..., first + count - 1."""
        later = self.V[first + 1 : first + count + 1]
        worth = self.cohort.reward + self.gamma * later  # [count, n, S], of the state reached
        active: Floats = np.einsum("ist,cit->cis", self.cohort.P[:, 1], worth)
        passive: Floats = np.einsum("ist,cit->cis", self.cohort.P[:, 0], worth)
        return active - passive + self.cohort.at_once
