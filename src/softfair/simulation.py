"""Many runs of one policy, side by side.

Random numbers are a function of (seed, run, step, arm). So every policy meets the same start and
the same random numbers, which makes differences between policies precise, and results do not depend
on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .cohort import Cohort
from .errors import InvalidInput, whole
from .figures import axes_for
from .frames import make_frame
from .kernels.episodes import luck_of_runs, run_window, start_runs
from .kernels.threads import map_parts
from .policies.base import Fitted
from .policies.own import OneByOne
from .policies.rules import Rule
from .progress import track
from .terminal import as_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Look", "Result", "Trajectories", "simulate", "simulate_and_look"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TASK = 200_000  # arm-steps a task: long enough to hide the hand-over to a thread
STRETCH = 20_000_000  # arm-steps between two updates of a progress bar: a fraction of a second


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Every state and every action of simulated runs, and the keys of their random numbers.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    states : ndarray [runs, T + 1, n]
        States at each decision, and after the last.
    actions : ndarray [runs, T, n]
        1 for the arms that were helped at each decision, otherwise 0.
    keys : ndarray [runs]
        The key of each run's random numbers.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.Random().fit(sf.datasets.synthetic(n=4, seed=0), k=1, horizon=3)
    >>> paths = sf.simulate(fitted, runs=2, trajectories=True).trajectories
    >>> paths.states.shape, paths.actions.sum(axis=2).tolist()
    ((2, 4, 4), [[1, 1, 1], [1, 1, 1]])
    >>> paths.to_frame().columns.tolist()
    ['run', 't', 'id', 'state', 'action', 'next_state', 'reward']
    """

    cohort: Cohort
    states: NDArray[np.int32]
    actions: NDArray[np.uint8]
    keys: NDArray[Any]

    def luck(self) -> Floats:
        """The random numbers that decided the states, for a replay by other means.

        Returns
        -------
        ndarray [runs, T + 1, n]
            Uniform on (0, 1). The state of arm i at decision 0 is the first state s for which the
            start distribution, summed over states 0 to s, exceeds luck[run, 0, i]. The state after
            decision t follows in the same way from the row of P for the state and the action, and
            luck[run, t + 1, i].
        """
        out = np.empty(self.states.shape)
        map_parts(luck_of_runs, len(out), 1, self.keys, out)
        return out

    def to_frame(self, backend: str = "pandas") -> Any:
        """One row for each run, decision and arm.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
            The library whose data frame is made.

        Returns
        -------
        data frame
            ``run``, ``t``, ``id``, ``state``, ``action``, ``next_state`` and ``reward``, which is
            that of the state reached plus what help is worth at once.
        """
        runs, T, n = self.actions.shape
        run, t, arm = np.indices((runs, T, n)).reshape(3, -1)
        reached = self.states[:, 1:].reshape(-1).astype(np.int64)
        state = self.states[:, :-1].reshape(-1).astype(np.int64)
        action = self.actions.reshape(-1).astype(np.int64)
        columns = {
            "run": run,
            "t": t,
            "id": self.cohort.ids[arm],
            "state": state,
            "action": action,
            "next_state": reached,
            "reward": self.cohort.reward[arm, reached] + action * self.cohort.at_once[arm, state],
        }
        return make_frame(columns, backend)


@dataclass(frozen=True, eq=False)
class Result:
    """Rewards, counts and waits of each run of a simulation.

    Parameters
    ----------
    fitted : Fitted
        The policy.
    rewards : ndarray [runs, T]
        Sum over arms of the reward of the state reached and of what help is worth at once, without
        discount.
    counts : ndarray [runs, n]
        Number of times that each arm was helped.
    waits : ndarray [runs, n]
        The longest time that each arm waited, in decisions, including the time before its first
        help and after its last.
    trajectories : Trajectories, optional
        Every state and action, if `simulate` was called with ``trajectories=True``.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.Random().fit(sf.datasets.synthetic(n=10, seed=0), k=2, horizon=5)
    >>> result = sf.simulate(fitted, runs=3)
    >>> result.rewards.shape, result.counts.sum(axis=1)
    ((3, 5), array([10, 10, 10]))
    """

    fitted: Fitted
    rewards: Floats
    counts: NDArray[np.int32]
    waits: NDArray[np.int32]
    trajectories: Trajectories | None = None

    @property
    def totals(self) -> Floats:
        """Discounted reward of each run [runs]."""
        total: Floats = self.rewards @ self.fitted.gamma ** np.arange(self.rewards.shape[1])
        return total

    def _repr_html_(self) -> str:
        counts, totals = self.counts, self.totals
        facts = {
            "runs": len(totals),
            "reward": f"{totals.mean():.6g} \u00b1 {totals.std(ddof=len(totals) > 1):.2g} (sd)",
            "arms never helped": f"{(counts == 0).mean():.1%}",
            "longest wait": f"{self.waits.max(axis=1).mean():.1f} decisions on average",
        }
        return as_html(self.fitted.policy.label, facts)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the number of arms by how often they were helped, on average over runs.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on new axes.

        Returns
        -------
        matplotlib.axes.Axes
        """
        axes = axes_for(ax)
        arms = np.bincount(self.counts.reshape(-1)) / len(self.counts)
        axes.step(np.arange(len(arms)), arms, where="mid", label=self.fitted.policy.label)
        axes.set_xlabel(f"times helped in {self.fitted.horizon} decisions")
        axes.set_ylabel("arms")
        axes.legend(frameon=False)
        return axes

    def to_frame(self, by: Literal["arm", "decision"] = "arm", backend: str = "pandas") -> Any:
        """The result in long form.

        Parameters
        ----------
        by : {"arm", "decision"}
            One row for each run and arm, or for each run and decision.
        backend : {"pandas", "polars", "pyarrow"}
            The library whose data frame is made.

        Returns
        -------
        data frame
            By arm: ``policy``, ``run``, ``id``, ``group`` if there are groups, ``helps``,
            ``longest_wait``. By decision: ``policy``, ``run``, ``t``, ``reward``.

        Raises
        ------
        InvalidInput
            ``by`` or ``backend`` is not one of the names above.
        """
        if by not in ("arm", "decision"):
            raise InvalidInput(f"by is {by!r}; choose 'arm' or 'decision'")
        table = self.counts if by == "arm" else self.rewards
        run, place = np.indices(table.shape).reshape(2, -1)
        columns: dict[str, NDArray[Any]] = {
            "policy": np.full(len(run), self.fitted.policy.label),
            "run": run,
        }
        if by == "decision":
            columns |= {"t": place, "reward": self.rewards.reshape(-1)}
            return make_frame(columns, backend)
        cohort = self.fitted.cohort
        columns["id"] = cohort.ids[place]
        if cohort.groups is not None:
            columns["group"] = cohort.groups[place]
        columns |= {"helps": self.counts.reshape(-1), "longest_wait": self.waits.reshape(-1)}
        return make_frame(columns, backend)

    def __repr__(self) -> str:
        totals = self.totals
        runs, deviation = len(totals), totals.std(ddof=len(totals) > 1)
        label = self.fitted.policy.label
        return f"<{runs} runs of {label}: reward {totals.mean():.6g} +- {deviation:.2g}>"


@dataclass(frozen=True, eq=False)
class Look:
    """The chances of all arms at one decision of one run, given the policy's memory.

    Parameters
    ----------
    t : int
        The decision.
    states : ndarray [n]
        States at that decision.
    inclusion : ndarray [n]
        Pr(a_i = 1 | states, memory); nan if the policy only draws and states no chances.
    """

    t: int
    states: Ints
    inclusion: Floats


def simulate(fitted: Fitted, runs: int = 50, seed: int = 0, trajectories: bool = False) -> Result:
    """Simulate a fitted policy over its whole horizon, many times.

    Parameters
    ----------
    fitted : Fitted
        A policy fitted to a cohort.
    runs : int
        Number of independent runs, at least 1.
    seed : int
        Seed >= 0. With the same seed every policy meets the same start and random numbers.
    trajectories : bool
        Whether to keep every state and action, five bytes for each arm, decision and run.

    Returns
    -------
    Result

    Raises
    ------
    InvalidInput
        The policy is not fitted, or ``runs`` or ``seed`` is out of range.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.SoftFair(c=10).fit(sf.datasets.synthetic(n=100, seed=0), k=10, horizon=50)
    >>> sf.simulate(fitted, runs=20).counts.sum(axis=1).tolist() == [500] * 20
    True
    """
    return simulate_and_look(fitted, runs, seed, (), trajectories)[0]


def simulate_and_look(
    fitted: Fitted, runs: int, seed: int, decisions: Sequence[int], trajectories: bool = False
) -> tuple[Result, list[Look]]:
    """:func:`simulate`, with a record of the chances at some decisions.

    Parameters
    ----------
    fitted, runs, seed
        See :func:`simulate`.
    decisions : sequence of int
        The decisions to record, in rising order; the j-th record is of run j modulo ``runs``.
    trajectories : bool
        See :func:`simulate`.

    Returns
    -------
    Result
    list of Look
        One record for each of the decisions.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.simulation import simulate_and_look
    >>> fitted = sf.Random().fit(sf.datasets.synthetic(n=4, seed=0), k=1, horizon=5)
    >>> [look.inclusion.tolist() for look in simulate_and_look(fitted, 2, 0, [3])[1]]
    [[0.25, 0.25, 0.25, 0.25]]
    """
    if not isinstance(fitted, Fitted):
        raise InvalidInput(f"{fitted!r} is not fitted; give policy.fit(cohort, k=..., horizon=...)")
    state = _Runs(fitted, whole("runs", runs, 1), whole("seed", seed, 0), trajectories)
    looks: list[Look] = []
    done = 0  # decisions simulated so far
    for t in track(range(fitted.horizon), f"simulating {fitted.policy.label}"):
        if t < done:
            continue
        if len(looks) < len(decisions) and t == decisions[len(looks)]:
            looks.append(state.look(t, len(looks) % state.runs))
        until = decisions[len(looks)] if len(looks) < len(decisions) else fitted.horizon
        done = t + state.advance(t, until)
    return state.result(), looks


class _Runs:
    """The state of all runs between two decisions."""

    def __init__(self, fitted: Fitted, runs: int, seed: int, trajectories: bool) -> None:
        cohort, n = fitted.cohort, fitted.cohort.n
        self.fitted, self.runs, self.budget = fitted, runs, fitted.budget
        self.keys = np.random.SeedSequence(seed).generate_state(runs, np.uint64)
        self.states = np.empty((runs, n), np.int32)
        self.chosen = np.empty((runs, n), np.uint8)  # the last selection
        self.rewards = np.empty((runs, fitted.horizon))
        self.counts = np.zeros((runs, n), np.int32)
        self.waits = np.zeros((runs, n), np.int32)  # decisions since the last help
        self.longest = np.zeros((runs, n), np.int32)
        self.acting = OneByOne(fitted, self.keys) if fitted.one_by_one else fitted
        self.memory: Any = self.acting.memory(runs)
        part = max(1, TASK // n)
        map_parts(start_runs, runs, part, cohort.start_rows, self.keys, self.states)
        self.paths: Trajectories | None = None
        if trajectories:
            states = np.empty((runs, fitted.horizon + 1, n), np.int32)
            states[:, 0] = self.states
            actions = np.empty((runs, fitted.horizon, n), np.uint8)
            self.paths = Trajectories(cohort, states, actions, self.keys)

    def look(self, t: int, run: int) -> Look:
        """The chances of all arms at decision t of one run."""
        memory = None if self.memory is None else self.memory[run : run + 1]
        states = self.states[run].astype(np.int64)
        return Look(t, states, self.acting.inclusion(t, states, memory))

    def advance(self, t: int, until: int) -> int:
        """Simulate decision t and as many after it as the scores cover, not beyond ``until``.

        Returns how many decisions were simulated.
        """
        cohort, n = self.fitted.cohort, self.fitted.cohort.n
        rule = self.acting.rule
        chosen = self.acting.choose_by_run(t, self.states, self.memory, self.keys)
        if chosen is None:
            scores, covered = self.acting.window(t, self.states, self.memory)
        else:  # arms that are chosen score 1, all others 0; with costs their number is not k
            rule = Rule.rounding() if cohort.with_costs else Rule.top()
            scores, covered = chosen[:, None, :, None].astype(np.float64), 1
        steps = min(covered, until - t, max(1, STRETCH // (n * self.runs)))
        if self.paths is not None:
            steps = 1  # so that the states after every decision can be recorded
        before = self.states if self.memory is None else self.states.copy()
        map_parts(
            run_window,
            self.runs,
            max(1, TASK // (n * steps)),
            cohort.P,
            cohort.reward_rows,
            scores,
            t,
            steps,
            rule.c,
            int(rule.code),
            self.budget,
            self.keys,
            self.states,
            self.chosen,
            self.rewards,
            self.counts,
            self.waits,
            self.longest,
        )
        if self.memory is not None:
            self.memory = self.acting.remember_by_run(self.memory, t, before, self.chosen)
        if self.paths is not None:
            self.paths.states[:, t + 1], self.paths.actions[:, t] = self.states, self.chosen
        return steps

    def result(self) -> Result:
        """The result of all runs."""
        return Result(self.fitted, self.rewards, self.counts, self.longest, self.paths)
