"""Many runs of one policy, side by side.

Luck is a function of (seed, run, step, arm): every policy meets the same start and the same coins (common random numbers), so that
differences between policies are not drowned in chance, and results are the same on any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInput, whole
from .kernels.episodes import run_window, start_runs
from .kernels.threads import map_parts
from .policies.base import Fitted, Remembering
from .progress import track

__all__ = ["Look", "Result", "simulate", "simulate_and_look"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TASK = 200_000  # arm-steps a task: long enough to hide the hand-over to a thread
STRETCH = 20_000_000  # arm-steps between two looks at the clock: a progress bar moves several times a second


@dataclass(frozen=True, eq=False)
class Result:
    """What happened in each run."""

    fitted: Fitted
    rewards: Floats  # [runs, T]: sum over arms of the reward of the state reached
    counts: NDArray[np.int32]  # [runs, n]: how often each arm was helped
    waits: NDArray[
        np.int32
    ]  # [runs, n]: the longest each arm waited, in decisions, from the start and to the end too

    @property
    def totals(self) -> Floats:
        """Discounted reward of each run [runs]."""
        total: Floats = self.rewards @ self.fitted.gamma ** np.arange(self.rewards.shape[1])
        return total

    def __repr__(self) -> str:
        runs = len(self.totals)
        return f"<{runs} runs of {self.fitted.policy.label}: reward {self.totals.mean():.6g} +- {self.totals.std(ddof=runs > 1):.2g}>"


@dataclass(frozen=True, eq=False)
class Look:
    """What a policy was about to do at one decision of one run, with all that it remembered."""

    t: int
    states: Ints  # [n]
    inclusion: Floats  # [n]


def simulate(fitted: Fitted, runs: int = 50, seed: int = 0) -> Result:
    """Let the policy act for its whole horizon, ``runs`` times."""
    return simulate_and_look(fitted, runs, seed, ())[0]


def simulate_and_look(
    fitted: Fitted, runs: int, seed: int, decisions: Sequence[int]
) -> tuple[Result, list[Look]]:
    """:func:`simulate`, with a look at each of the ``decisions``, rising, in one run after another."""
    if not isinstance(fitted, Fitted):
        raise InvalidInput(f"{fitted!r} is not fitted; give policy.fit(cohort, k=..., horizon=...)")
    runs = whole("runs", runs, 1)
    cohort, T = fitted.cohort, fitted.horizon
    n = cohort.n
    keys = np.random.SeedSequence(whole("seed", seed, 0)).generate_state(runs, np.uint64)
    states = np.empty((runs, n), np.int32)
    chosen = np.empty((runs, n), np.uint8)
    rewards, counts = np.empty((runs, T)), np.zeros((runs, n), np.int32)
    waits, longest = np.zeros((runs, n), np.int32), np.zeros((runs, n), np.int32)
    map_parts(start_runs, runs, max(1, TASK // n), cohort.start_rows, keys, states)
    memory = fitted.memory(runs)
    looks: list[Look] = []
    done = 0
    for t in track(range(T), f"simulating {fitted.policy.label}"):
        if t < done:  # with the stretch before
            continue
        if len(looks) < len(decisions) and t == decisions[len(looks)]:
            run = len(looks) % runs
            known = None if memory is None else memory[run : run + 1]
            looks.append(
                Look(t, states[run].astype(np.int64), fitted.inclusion(t, states[run], known))
            )
        if isinstance(fitted, Remembering):
            scores, steps = fitted._scores(t, states, memory)[:, None, :, None], 1
        else:
            table, steps = fitted.table(t)
            scores = table[None]
            next_look = decisions[len(looks)] if len(looks) < len(decisions) else T
            steps = min(steps, next_look - t, max(1, STRETCH // (n * runs)))
        before = states.copy() if memory is not None else states
        map_parts(
            run_window,
            runs,
            max(1, TASK // (n * steps)),
            cohort.P,
            cohort.reward_rows,
            scores,
            t,
            steps,
            fitted.rule.c,
            fitted.rule.code,
            fitted.k,
            keys,
            states,
            chosen,
            rewards,
            counts,
            waits,
            longest,
        )
        if memory is not None:
            memory = fitted._remember(memory, t, before, chosen)
        done = t + steps
    return Result(fitted, rewards, counts, longest), looks
