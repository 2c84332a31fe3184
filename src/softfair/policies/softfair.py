"""SoftFair: k arms are drawn at random, with odds that follow their long-term gains lambda_t(s).

No arm has a lower chance than an arm with a smaller gain, as the policy itself computes gains. The
multiplier c says how strongly gain counts: 0 is a lottery, inf takes the k arms that gain most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from ..cohort import Cohort
from ..errors import InvalidInput, whole
from ..sampling import Design, design_code, multiplier
from ..solvers import Values, solve_meanfield, solve_paper, solve_priced, upper_bound
from .base import Fitted, Policy, Rule, check_setting

__all__ = ["FittedSoftFair", "SoftFair", "Solver"]

Solver = Literal["priced", "meanfield", "paper"]


@dataclass(frozen=True)
class SoftFair(Policy):
    """The policy of the paper, by three solvers and two sampling designs.

    Parameters
    ----------
    c : float
        How strongly gain counts when arms are drawn.
    solver : {"priced", "meanfield", "paper"}
        How gains are learnt: by one price a step (the default), by the paper's fixed point without
        sampling, or by Algorithm 1.
    design : {"joint", "successive"}
        Softmax over sets of k arms, or the paper's: one arm after another.
    c_value : float, optional
        Multiplier with which the gains are learnt; None means c, as in the paper's algorithm.
        Figure 3a of the paper learns with 1 and draws with more. From 2000 over the range of
        rewards on, "priced" and "meanfield" take c for infinite and learn with 200 over that range,
        where softness costs next to nothing; ``info.c_value`` tells which was used.
    episodes : int, optional
        Episodes of Algorithm 1, for solver "paper" alone. At least one for each decision, because a
        reward travels back one decision an episode. Default: as many as the gains need to settle,
        up to the cap in `softfair.solvers.paper`, where the criterion is explained.
        ``info.converged`` tells whether they have settled, ``info.passes`` after how many.

    Notes
    -----
    The gain of arm i in state s at decision t is lambda_t(s) = Q_t(s, 1) - Q_t(s, 0) (Eq. 4 of the
    paper). Soft fairness is meant with respect to these gains: if lambda_i >= lambda_j then arm i's
    chance is at least arm j's. They depend on c, because later draws are soft as well. Against the
    gains of the most effective plan some pairs of arms are in the other order; the column
    ``unfair`` of :func:`softfair.compare` counts them.

    References
    ----------
    Li and Varakantham (2022), "Towards Soft Fairness in Restless Multi-Armed Bandits".

    Examples
    --------
    >>> import softfair as sf
    >>> cohort = sf.datasets.synthetic(n=100, seed=0)
    >>> fitted = sf.SoftFair(c=10).fit(cohort, k=10, horizon=50)
    >>> round(float(fitted.inclusion(0, [0] * 100).sum()), 9)
    10.0
    """

    name: ClassVar[str] = "SoftFair"

    c: float = 10.0
    solver: Solver = "priced"
    design: Design = "joint"
    c_value: float | None = None
    episodes: int | None = None

    def __post_init__(self) -> None:
        design_code(self.design)
        multiplier(self.c)
        self._learning_multiplier()
        if self.solver not in ("priced", "meanfield", "paper"):
            raise InvalidInput(
                f"solver is {self.solver!r}; choose 'priced', 'meanfield' or 'paper'"
            )
        if self.episodes is not None and self.solver != "paper":
            raise InvalidInput(
                f"episodes is {self.episodes} but solver is {self.solver!r}; episodes are of "
                "solver='paper' alone"
            )
        if self.episodes is not None:
            whole("episodes", self.episodes, 1)

    @property
    def label(self) -> str:
        learnt = "" if self.c_value is None else f", c_value={self.c_value:g}"
        solver = "" if self.solver == "priced" else f", {self.solver}"
        design = "" if self.design == "joint" else f", {self.design}"
        return f"SoftFair(c={self.c:g}{learnt}{solver}{design})"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> FittedSoftFair:
        """Learn the gains. The seed matters to solver "paper" alone, which samples."""
        check_setting(cohort, k, horizon, gamma)
        c_value = self._learning_multiplier()
        values: Values
        if self.solver == "priced":
            values = solve_priced(cohort, k, horizon, gamma, c_value)
        elif self.solver == "meanfield":
            values = solve_meanfield(cohort, k, horizon, gamma, c_value, self.design)
        else:
            if self.episodes is not None:
                beside = f", the horizon {horizon}: a reward travels back one decision an episode"
                whole("episodes", self.episodes, horizon, beside=beside)
            values = solve_paper(
                cohort, k, horizon, gamma, c_value, self.design, self.episodes, seed
            )
        return FittedSoftFair(
            self, cohort, k, horizon, gamma, Rule.softmax(self.c, self.design), values, values.info
        )

    def _learning_multiplier(self) -> float:
        """The multiplier with which the gains are learnt: c_value, or c if that is None."""
        if self.c_value is None:
            return multiplier(self.c)
        return multiplier(self.c_value, "c_value", ", or None for c itself")


class FittedSoftFair(Fitted):
    """SoftFair ready to act; ``scores`` are the gains lambda_t(s)."""

    @cached_property
    def upper_bound(self) -> float:
        """The total reward that no policy which helps at most k arms a step can exceed."""
        return upper_bound(self.cohort, self.k, self.horizon, self.gamma)
