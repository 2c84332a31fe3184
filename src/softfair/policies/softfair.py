"""SoftFair: k arms are drawn at random, with odds that follow their long-term gains lambda_t(s).

No arm has a lower chance than an arm with a smaller gain, where gains are those that the policy
computes. The multiplier c says how strongly gain counts: 0 is a lottery, inf helps the k arms that
gain most. If arms have costs, gain means gain for cost.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..cluster import crew_of
from ..cohort import Cohort, refuse_costs
from ..errors import InvalidInput, whole
from ..sampling import Design, design_code, multiplier
from ..solvers import (
    Values,
    solve_meanfield,
    solve_paper,
    solve_priced,
    solve_promised,
    solve_shared,
)
from .acting import FittedSoftFair
from .base import Policy
from .labels import plain_number
from .promised import FittedPromise, check_promise
from .rules import Rule
from .setting import Budget, check_setting
from .shared import FittedShares, Groups, parts_of

__all__ = ["SoftFair", "Solver"]


Solver = Literal["priced", "meanfield", "paper"]


@dataclass(frozen=True)
class SoftFair(Policy):
    """The policy of the paper, by three solvers and two sampling designs.

    Parameters
    ----------
    c : float
        Multiplier of the gains when arms are drawn.
    solver : {"priced", "meanfield", "paper"}
        How gains are learnt: by one price a step (the default), by the paper's fixed point without
        sampling, or by Algorithm 1.
    design : {"joint", "successive"}
        How arms are drawn: by softmax over sets of k arms, or one arm after another as in the
        paper.
    c_value : float, optional
        Multiplier with which the gains are learnt; None means c, as in the paper's algorithm.
        Figure 3a of the paper learns with 1 and draws with more. Above 2000 over the range of
        rewards, "priced" and "meanfield" treat the multiplier as infinite and learn with 200 over
        that range, where softness costs next to nothing; ``info.c_value`` is the multiplier used.
    episodes : int, optional
        Episodes of Algorithm 1, only for solver "paper". At least one for each decision, because a
        reward travels back one decision an episode. Default: as many as the gains need to settle,
        up to the cap in `softfair.solvers.paper`, where the criterion is explained.
        ``info.converged`` says whether the gains have settled, ``info.passes`` how many episodes
        were run.
    max_wait : int, optional
        W, a promise: every arm is helped within W decisions of the start, and of each of its helps,
        for certain. The promise can be kept if and only if n <= k W.
    floor : float, optional
        A promise: at every decision every arm has at least this chance, for certain. The promise
        can be kept if and only if n floor <= k. With ``max_wait`` as well, the floor must leave
        enough places for deadlines (:func:`softfair.policies.deadlines.places_for_deadlines`).
    shares : mapping of str to (float, float), optional
        A promise: the arms helped at every decision contain at least and at most these parts of k
        from each named group of the cohort, for certain, such as ``{"north": (0.3, 1)}``. If a
        bound is not a whole number of arms, the least is rounded up and the largest down; if no
        whole number is left between them, the whole numbers on either side are the bounds. With
        ``max_wait`` and ``floor``, :meth:`fit` refuses what cannot be kept together, and says what
        can.

    Notes
    -----
    The gain of arm i in state s at decision t is lambda_t(s) = Q_t(s, 1) - Q_t(s, 0) (Eq. 4 of the
    paper). Soft fairness is meant with respect to these gains: if lambda_i >= lambda_j, the chance
    of arm i is at least that of arm j. Gains depend on c, because later draws are soft as well. By
    the gains of the most effective plan, some pairs of arms are in the opposite order; the column
    ``unfair`` of :func:`softfair.compare` counts such pairs.

    If the arms have costs (``Cohort(cost=)``), scores are the gains for the cost of an average arm,
    lambda_i mean(cost) / cost_i, and fairness is meant with respect to these scores. It is exact
    among arms of the same cost, and approximate otherwise, because whole arms must fill the budget
    (:mod:`softfair.costs`). c = 0 gives all arms nearly the same chance; c = inf goes from the
    highest score down and takes each arm that still fits. Costs need design "joint", solver
    "priced" or "meanfield", and no promise.

    A promise needs solver "priced" and design "joint". The gains are then those of an arm that is
    helped as the promise demands (:mod:`softfair.solvers.promised`). The module
    :mod:`softfair.policies.promised` describes how arms are drawn and in which sense that is fair.

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
    max_wait: int | None = None
    floor: float = 0.0
    shares: Any = None

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
        self._check_promise()

    def _check_promise(self) -> None:
        """Refuse a promise with a wrong value, or that the solver or the design cannot keep."""
        if self.shares is not None:
            object.__setattr__(self, "shares", parts_of(self.shares))
        if self.max_wait is not None:
            object.__setattr__(self, "max_wait", whole("max_wait", self.max_wait, 1))
        if not isinstance(self.floor, numbers.Real) or not 0 <= self.floor <= 1:
            raise InvalidInput(f"floor is {self.floor!r}; give a chance between 0 and 1")
        if self._promises and (self.solver != "priced" or self.design != "joint"):
            raise InvalidInput(
                f"a promise with solver={self.solver!r} and design={self.design!r}; "
                "max_wait, floor and shares need solver='priced' and design='joint'"
            )

    @property
    def _promises(self) -> bool:
        return self.max_wait is not None or self.floor > 0 or self.shares is not None

    @property
    def takes_costs(self) -> bool:
        """True if the design is joint, the solver is not "paper", and there is no promise."""
        return self.design == "joint" and self.solver != "paper" and not self._promises

    @property
    def label(self) -> str:
        learnt = "" if self.c_value is None else f", c_value={plain_number(self.c_value)}"
        solver = "" if self.solver == "priced" else f", {self.solver}"
        design = "" if self.design == "joint" else f", {self.design}"
        episodes = "" if self.episodes is None else f", episodes={self.episodes}"
        wait = "" if self.max_wait is None else f", max_wait={self.max_wait}"
        floor = "" if self.floor == 0 else f", floor={plain_number(self.floor)}"
        parts = (f"{name}: {100 * a:.4g}-{100 * b:.4g} %" for name, a, b in self.shares or ())
        shares = "" if self.shares is None else f", shares={', '.join(parts)}"
        settings = f"{learnt}{solver}{design}{episodes}{wait}{floor}{shares}"
        return f"SoftFair(c={plain_number(self.c)}{settings})"

    def fit(
        self,
        cohort: Cohort,
        k: Budget,
        horizon: int,
        gamma: float = 1.0,
        seed: int = 0,
        on: Any = None,
    ) -> FittedSoftFair:
        """Learn the gains, see :meth:`Policy.fit`.

        Parameters
        ----------
        cohort, k, horizon, gamma
            See :meth:`Policy.fit`. A cohort of :func:`softfair.open_cohort` is read in shards; if
            its fit is interrupted, the same call continues after the last finished pass.
        seed : int
            Used by solver "paper" only, which samples.
        on : Executor, dask.distributed.Client or str, optional
            The workers for the shards of the cohort, also when the fitted policy acts: any
            ``concurrent.futures.Executor``, a Dask client, or the address of a Dask scheduler.
            Results are the same to the last bit. Not for solver "paper", and not with a promise.

        Returns
        -------
        FittedSoftFair
            The policy ready to act.

        Raises
        ------
        InvalidInput
            The setting does not fit the cohort, or a file of the cohort is broken.
        ClusterError
            No worker is left, or workers have other software.
        """
        k = check_setting(cohort, k, horizon, gamma)
        if on is not None or not self.takes_costs:
            refuse_costs(cohort, f"{self.label}{'' if on is None else ' on a cluster'}")
        c_value, crew = self._learning_multiplier(), crew_of(on)
        if crew is not None and (self._promises or self.solver == "paper"):
            one_process = "a promise is kept" if self._promises else "solver='paper' runs"
            raise InvalidInput(
                f"on is given, but {one_process} in one process; "
                "leave on out, or take solver='priced' or 'meanfield' without a promise"
            )
        if self._promises:
            W = self.max_wait or 0
            check_promise(cohort.n, k, W, self.floor)
            if self.shares is not None:
                return self._fit_shares(cohort, k, horizon, gamma)
            promised = solve_promised(cohort, k, horizon, gamma, c_value, W, self.floor)
            return FittedPromise(self, cohort, k, horizon, gamma, self.c, promised)
        values: Values
        if self.solver == "priced":
            values = solve_priced(cohort, k, horizon, gamma, c_value, crew=crew)
        elif self.solver == "meanfield":
            values = solve_meanfield(cohort, k, horizon, gamma, c_value, self.design, crew=crew)
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

    def _fit_shares(self, cohort: Cohort, k: Budget, horizon: int, gamma: float) -> FittedShares:
        """As `fit`, with shares of groups."""
        groups, W = Groups.of(self.shares, cohort, k), self.max_wait or 0
        assert isinstance(k, int)  # `Groups.of` refuses any other k
        groups.check(k, W, self.floor)
        bounds = groups.inside, groups.least.astype(float), groups.most.astype(float)
        c_value, setting = self._learning_multiplier(), (cohort, k, horizon, gamma)
        values = solve_shared(*setting, c_value, *bounds, self.floor, W)
        return FittedShares(self, *setting, self.c, values)

    def _learning_multiplier(self) -> float:
        """The multiplier with which the gains are learnt: c_value, or c if that is None."""
        if self.c_value is None:
            return multiplier(self.c)
        return multiplier(self.c_value, "c_value", ", or None for c itself")
