"""Many runs of one policy, side by side.

Luck is a function of (seed, run, step, arm): every policy meets the same start and the same coins (common random numbers), so that
differences between policies are not drowned in chance, and results are the same on any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInput
from .kernels.episodes import run_window, start_runs
from .kernels.threads import map_parts
from .policies.base import Fitted, Remembering
from .progress import track

__all__ = ["Result", "simulate"]

Floats = NDArray[np.float64]

TASK = 200_000  # arm-steps a task: long enough to hide the hand-over to a thread


@dataclass(frozen=True, eq=False)
class Result:
    """What happened in each run."""

    fitted: Fitted
    rewards: Floats  # [runs, T]: sum over arms of the reward of the state reached
    counts: NDArray[np.int32]  # [runs, n]: how often each arm was helped
    waits: NDArray[np.int32]  # [runs, n]: the longest each arm waited, in decisions, from the start and to the end too

    @property
    def totals(self) -> Floats:
        """Discounted reward of each run [runs]."""
        total: Floats = self.rewards @ self.fitted.gamma ** np.arange(self.rewards.shape[1])
        return total

    def __repr__(self) -> str:
        runs = len(self.totals)
        return (
            f"<{runs} runs of {self.fitted.policy.label}: reward {self.totals.mean():.6g} +- {self.totals.std(ddof=runs > 1):.2g}>"
        )


def simulate(fitted: Fitted, runs: int = 50, seed: int = 0) -> Result:
    """Let the policy act for its whole horizon, ``runs`` times."""
    if not 1 <= runs < float("inf") or runs != int(runs):
        raise InvalidInput(f"runs is {runs}; give a whole number of at least 1")
    cohort, T = fitted.cohort, fitted.horizon
    n = cohort.n
    keys = np.random.SeedSequence(seed).generate_state(runs, np.uint64)
    states = np.empty((runs, n), np.int32)
    chosen = np.empty((runs, n), np.uint8)
    rewards, counts = np.empty((runs, T)), np.zeros((runs, n), np.int32)
    waits, longest = np.zeros((runs, n), np.int32), np.zeros((runs, n), np.int32)
    map_parts(start_runs, runs, max(1, TASK // n), cohort.start_rows, keys, states)
    memory = fitted.memory(runs)
    t = 0
    for _ in track(range(T), f"simulating {fitted.policy.label}"):
        if t == T:
            break
        if isinstance(fitted, Remembering):
            scores, steps = fitted._scores(t, states, memory)[:, None, :, None], 1
        else:
            table, steps = fitted.table(t)
            scores = table[None]
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
        t += steps
    return Result(fitted, rewards, counts, longest)
