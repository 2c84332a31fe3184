"""Many runs of one policy, side by side.

Random numbers are a function of (seed, run, step, arm): every policy meets the same start and the
same random numbers, which makes differences between policies precise, and results do not depend on
the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInput, whole
from .kernels.episodes import run_window, start_runs
from .kernels.threads import map_parts
from .policies.base import Fitted
from .progress import track

__all__ = ["Look", "Result", "simulate", "simulate_and_look"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TASK = 200_000  # arm-steps a task: long enough to hide the hand-over to a thread
STRETCH = 20_000_000  # arm-steps between two updates of a progress bar, a fraction of a second


@dataclass(frozen=True, eq=False)
class Result:
    """What happened in each run of a simulation.

    Parameters
    ----------
    fitted : Fitted
        The policy.
    rewards : ndarray [runs, T]
        Sum over arms of the reward of the state reached, not discounted.
    counts : ndarray [runs, n]
        How often each arm was helped.
    waits : ndarray [runs, n]
        The longest time that each arm waited, in decisions, including the time before its first
        help and after its last.

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

    @property
    def totals(self) -> Floats:
        """Discounted reward of each run [runs]."""
        total: Floats = self.rewards @ self.fitted.gamma ** np.arange(self.rewards.shape[1])
        return total

    def __repr__(self) -> str:
        totals = self.totals
        runs, deviation = len(totals), totals.std(ddof=len(totals) > 1)
        label = self.fitted.policy.label
        return f"<{runs} runs of {label}: reward {totals.mean():.6g} +- {deviation:.2g}>"


@dataclass(frozen=True, eq=False)
class Look:
    """The chances of all arms at one decision of one run, given all that the policy remembered.

    Parameters
    ----------
    t : int
        The decision.
    states : ndarray [n]
        States at that decision.
    inclusion : ndarray [n]
        Pr(a_i = 1 | states, memory).
    """

    t: int
    states: Ints
    inclusion: Floats


def simulate(fitted: Fitted, runs: int = 50, seed: int = 0) -> Result:
    """Let a fitted policy act for its whole horizon, many times.

    Parameters
    ----------
    fitted : Fitted
        A policy fitted to a cohort.
    runs : int
        Number of independent runs, at least 1.
    seed : int
        Seed >= 0. With the same seed every policy meets the same start and random numbers.

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
    return simulate_and_look(fitted, runs, seed, ())[0]


def simulate_and_look(
    fitted: Fitted, runs: int, seed: int, decisions: Sequence[int]
) -> tuple[Result, list[Look]]:
    """:func:`simulate`, with a record of the chances at some decisions.

    Parameters
    ----------
    fitted, runs, seed
        See :func:`simulate`.
    decisions : sequence of int
        Where to look, rising; the j-th look is at run j modulo ``runs``.

    Returns
    -------
    Result
    list of Look
        One for each of the decisions.

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
    state = _Runs(fitted, whole("runs", runs, 1), whole("seed", seed, 0))
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

    def __init__(self, fitted: Fitted, runs: int, seed: int) -> None:
        cohort, n = fitted.cohort, fitted.cohort.n
        self.fitted, self.runs = fitted, runs
        self.keys = np.random.SeedSequence(seed).generate_state(runs, np.uint64)
        self.states = np.empty((runs, n), np.int32)
        self.chosen = np.empty((runs, n), np.uint8)  # the last selection
        self.rewards = np.empty((runs, fitted.horizon))
        self.counts = np.zeros((runs, n), np.int32)
        self.waits = np.zeros((runs, n), np.int32)  # decisions since the last help
        self.longest = np.zeros((runs, n), np.int32)
        self.memory = fitted.memory(runs)
        part = max(1, TASK // n)
        map_parts(start_runs, runs, part, cohort.start_rows, self.keys, self.states)

    def look(self, t: int, run: int) -> Look:
        """The chances of all arms at decision t of one run."""
        memory = None if self.memory is None else self.memory[run : run + 1]
        states = self.states[run].astype(np.int64)
        return Look(t, states, self.fitted.inclusion(t, states, memory))

    def advance(self, t: int, until: int) -> int:
        """Simulate decision t and as many after it as the scores cover, not beyond ``until``.

        Returns how many decisions were simulated.
        """
        fitted, cohort, n = self.fitted, self.fitted.cohort, self.fitted.cohort.n
        scores, covered = fitted.window(t, self.states, self.memory)
        steps = min(covered, until - t, max(1, STRETCH // (n * self.runs)))
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
            fitted.rule.c,
            int(fitted.rule.code),
            fitted.k,
            self.keys,
            self.states,
            self.chosen,
            self.rewards,
            self.counts,
            self.waits,
            self.longest,
        )
        if self.memory is not None:
            self.memory = fitted.remember_by_run(self.memory, t, before, self.chosen)
        return steps

    def result(self) -> Result:
        """What happened in each run."""
        return Result(self.fitted, self.rewards, self.counts, self.longest)
