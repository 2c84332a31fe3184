"""FaWT: every arm is helped at least ``least`` times in any ``window`` consecutive decisions.

Notation: L = window, eta = least. The promise can be kept if and only if eta <= L and eta n <= k L.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import Infeasible, whole
from ..indices import whittle
from .base import Fitted, Floats, Ints, Policy, Remembering
from .rules import Rule
from .setting import Budget, check_setting, one_budget

__all__ = ["FaWT"]

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class FaWT(Policy):
    """Whittle index policy with a promise: everybody ``least`` times in any ``window`` decisions.

    Parameters
    ----------
    window : int
        L, a number of consecutive decisions.
    least : int
        eta, how often each arm is helped in any L consecutive decisions.

    Raises
    ------
    Infeasible
        ``least`` is below 1 or above ``window``; or, from :meth:`fit`, least n > k window.

    Notes
    -----
    Some sets of k arms leave the promise possible for ever after. Of these sets, each decision
    helps the one with the greatest sum of infinite-horizon Whittle indices. The promise holds from
    the first window on, decisions 0 to L - 1; the horizon has no effect.

    The original policy is for partially observed arms and uses the index of the belief. Here states
    are observed, and the index is that of the state (:func:`softfair.indices.whittle`).

    References
    ----------
    Li and Varakantham (2022), Efficient resource allocation with fairness constraints in restless
    multi-armed bandits, UAI.

    Examples
    --------
    Four decisions have places for exactly one turn of each of four arms, so the arms take turns.

    >>> import numpy as np
    >>> import softfair as sf
    >>> fitted = sf.FaWT(window=4).fit(sf.datasets.synthetic(n=4, seed=0), k=1, horizon=4)
    >>> sf.simulate(fitted, runs=1).counts
    array([[1, 1, 1, 1]], dtype=int32)
    """

    name: ClassVar[str] = "FaWT"

    window: int
    least: int = 1

    def __post_init__(self) -> None:
        window, least = whole("window", self.window, 0), whole("least", self.least, 0)
        if least < 1:
            raise Infeasible(
                f"least is {least}, but 1 <= least; without a promise to keep, use Whittle()"
            )
        if least > window:
            raise Infeasible(
                f"help comes once a decision, so least <= window, but {least} > {window}; "
                f"take window={least} or more"
            )
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "least", least)

    @property
    def label(self) -> str:
        """The name with its window, and ``least`` unless it is 1."""
        least = "" if self.least == 1 else f", least={self.least}"
        return f"FaWT(window={self.window}{least})"

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        """See :meth:`Policy.fit`. Raises InvalidInput if k changes with time."""
        budget = check_setting(cohort, k, horizon, gamma)
        refuse_costs(cohort, "FaWT")
        k = one_budget(budget, "FaWT", "give one k, or take SoftFair with max_wait")
        helps = self.least * cohort.n  # that a window needs
        if helps > k * self.window:
            longer = f", or window={-(-helps // int(k))} or more" if k else ""
            raise Infeasible(
                f"{self.least} for each of {cohort.n} arms in any {self.window} decisions needs "
                f"least n <= k window, but {helps} > {k * self.window}; "
                f"take k={-(-helps // self.window)} or more{longer}"
            )
        return _FittedFaWT(self, cohort, k, horizon, gamma)


class _FittedFaWT(Remembering):
    """FaWT ready to act; its memory [runs, n, eta] holds the ages of each arm's last eta helps.

    The age of a help is the number of decisions since it; the latest help comes first.

    Scores are the indices. Those of arms that must be helped now are raised above all others.
    """

    def __init__(self, policy: FaWT, cohort: Cohort, k: int, horizon: int, gamma: float) -> None:
        super().__init__(policy, cohort, k, horizon, gamma, Rule.top())
        self._promise = policy
        # [n, S]; infinite where one action leaves an arm in its state for ever.
        index = whittle(cohort, gamma)
        finite = index[np.isfinite(index)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        # Infinite indices become finite ones outside [low, high], by a margin that rounding keeps.
        margin = (high - low) + max(1.0, abs(low), abs(high))
        self._index = np.clip(index, low - margin, high + margin)
        self._lift = 4 * margin  # above the whole range, high - low + 2 margin

    def memory(self, runs: int = 1) -> Ints:
        # The memory after help for every arm at each of the eta decisions before the first. With
        # it, eta helps of every arm are due by decision L - 1.
        ages = np.arange(1, self._promise.least + 1)
        return np.tile(ages, (runs, self.cohort.n, 1))

    def scores_by_run(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        index: Floats = self._index[np.arange(self.cohort.n), states]  # [runs, n]
        forced = _must_help(index, memory, self.places(t), self._promise.window)
        return np.where(forced, index + self._lift, index)

    def remember_by_run(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Ints:
        now = np.zeros_like(memory[:, :, :1])
        with_now = np.concatenate([now, memory[:, :, :-1]], axis=2)  # without the oldest
        later: Ints = np.where(helped[:, :, None] != 0, with_now, memory) + 1
        return later


def _must_help(index: Floats, ages: Ints, k: int, window: int) -> Bools:
    """Which arms must be among the k helped now [runs, n].

    index [runs, n] is finite; ages [runs, n, eta] is the memory, latest first.

    Jobs. Let x be the age of a help. The eta-th help after this help must come within L + 1 - x
    decisions (1 means now); otherwise the window that begins just after this help would hold fewer
    than eta helps. So an arm always has eta jobs with distinct deadlines, all within L decisions.
    An arm's jobs are done in order, at most one a decision. Let J(d) be the number of jobs due
    within d decisions, and A(d) the set of arms that have such a job.

    Claim. The promise can be kept for ever if and only if J(d) <= k d for all d.

    - Only if: d decisions bring k d helps.
    - If: helping a set H leaves J(d) - |H & A(d)| jobs due within the d - 1 decisions after this
      one. New jobs are due after L decisions, where J(L) = eta n <= k L always holds. So the
      condition holds at the next decision if and only if |H & A(d)| >= need(d) = J(d) - k (d - 1)
      for every d. The k arms with the earliest deadlines meet every need(d). If A(d) has at least k
      arms, all k belong to A(d), and need(d) <= k by the condition. If A(d) has fewer arms, the k
      arms include all of A(d), and need(d) <= |A(d)|: the deadlines of an arm are distinct, so
      J(d) <= d |A(d)|, and d |A(d)| - k (d - 1) <= |A(d)| if |A(d)| < k.

    At the start J(d) = max(0, n (d - L + eta)), which is at most k d because eta n <= k L.

    Choice. The sets A(d) are nested. So, by an exchange argument, this greedy choice has the
    greatest sum of indices subject to all needs: for d = 1, 2, ... take the best arms of A(d) that
    are not yet taken, until need(d) arms are taken. Then give the places that are left to the best
    of all other arms. This function returns the arms that are taken for the needs. Ties go to the
    earlier deadline, then to the lower number.

    If k d >= eta n, any k arms meet need(d): at most eta n - J(d) arms are outside A(d), so at
    least k - eta n + J(d) >= need(d) of the k are inside. So the work does not grow with L. If the
    promise is already broken, by a memory that this policy did not write, overdue jobs count as due
    now, and at most k arms are taken.
    """
    runs, n, eta = ages.shape
    reach = (eta * n - 1) // k  # the largest d with k d < eta n
    # [runs, n, eta]: deadlines, each arm's earliest deadline last; reach + 1 stands for all later.
    due = np.clip(window + 1 - ages, 1, reach + 1)
    bins = due + ((reach + 1) * np.arange(runs) - 1)[:, None, None]
    count = np.bincount(bins.ravel(), minlength=runs * (reach + 1)).reshape(runs, reach + 1)
    jobs = count[:, :reach].cumsum(axis=1)  # [runs, reach]: J(1), J(2), ...
    need = np.clip(jobs - k * np.arange(reach), 0, k)  # [runs, reach]
    taken_by = np.maximum.accumulate(need, axis=1)  # how many are taken once d has been treated
    added = np.diff(taken_by, axis=1, prepend=0)  # [runs, reach]: how many are added at d
    forced = np.zeros((runs, n), np.bool_)
    if added.any():
        run, arm = _best_by_deadline(index, due[:, :, -1], added)
        forced[run, arm] = True
    return forced


def _best_by_deadline(index: Floats, earliest: Ints, added: Ints) -> tuple[Ints, Ints]:
    """For d = 1, 2, ... the added[:, d - 1] best arms with deadline <= d that are not yet taken.

    index and earliest [runs, n] are the indices and earliest deadlines; added is [runs, reach].
    Returns the runs and the arms that are taken.
    """
    reach = added.shape[1]
    last = np.where(added > 0, np.arange(1, reach + 1), 0).max(axis=1)  # [runs]: last d that adds
    run, arm = np.nonzero(earliest <= last[:, None])  # candidates of all runs in one list [c]
    # Best first within a run; the sort is stable, so that ties end up in the order of numbers.
    order = np.lexsort((earliest[run, arm], -index[run, arm], run))
    run, arm = run[order], arm[order]
    deadline = earliest[run, arm]
    begin = np.searchsorted(run, run)  # [c]: place of the first candidate of the same run
    taken = np.zeros(len(run), np.bool_)
    for step in np.flatnonzero(added.any(axis=0)):
        left = (deadline <= step + 1) & ~taken
        counted: Ints = np.cumsum(left)
        rank: Ints = counted - (counted - left)[begin]  # 1 for the best of its run that is left
        taken |= left & (rank <= added[run, step])
    return run[taken], arm[taken]
