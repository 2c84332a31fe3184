"""Simulation of a user's own policy, which acts one run at a time, over many runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from .base import Fitted, Floats, Ints
from .labels import brief
from .rules import Rule

__all__ = ["OneByOne"]


class OneByOne:
    """Many runs of a fitted policy whose class defines its calls for a single run.

    Parameters
    ----------
    fitted : Fitted
        A policy whose ``one_by_one`` is true.
    keys : ndarray of uint64 [runs]
        The key of each run's random numbers. The generator of a draw is a function of the run's key
        and the decision alone.
    """

    def __init__(self, fitted: Fitted, keys: NDArray[Any]) -> None:
        self.fitted, self.keys, self.rule = fitted, keys, fitted.rule
        if fitted.defines("draw"):
            self.rule = Rule.top()  # arms that are drawn score 1, all others 0
        elif fitted.defines("inclusion"):
            self.rule = Rule.rounding()

    def memory(self, runs: int) -> list[Any]:
        """The memory of each run at the start."""
        return [self.fitted.memory() for _ in range(runs)]

    def window(self, t: int, states: NDArray[Any], memory: Any) -> tuple[Floats, int]:
        """The weights from which the rule chooses [runs, 1, n, 1], for one decision."""
        own_draw = self.fitted.defines("draw")
        weights = np.empty(states.shape)
        for run, states_now in enumerate(states.astype(np.int64)):
            if own_draw:
                weights[run] = 0.0
                weights[run, self._drawn(run, t, states_now, memory[run])] = 1.0
            else:
                weights[run] = self.fitted.weights(t, states_now, memory[run])
        return weights[:, None, :, None], 1

    def choose_by_run(self, t: int, states: NDArray[Any], memory: Any, keys: NDArray[Any]) -> None:
        """None: the rule chooses from the scores of :meth:`window`."""

    def _drawn(self, run: int, t: int, states: Ints, memory: Any) -> Ints:
        """The arms that the policy draws in one run, checked."""
        fitted, n, k = self.fitted, self.fitted.cohort.n, self.fitted.places(t)
        rng = np.random.Generator(np.random.Philox(key=[self.keys[run], np.uint64(t)]))
        answer = fitted.draw(t, states, rng, memory)
        arms = np.asarray(answer)
        sound = arms.shape == (k,) and (arms.dtype.kind in "iu" or not k)
        if not sound or not ((arms >= 0) & (arms < n)).all() or len(set(arms.tolist())) < k:
            raise InvalidInput(
                f"{fitted.policy.label}: draw gave {brief(answer)}; "
                f"return {k} different arms between 0 and {n - 1}"
            )
        return arms.astype(np.int64)

    def remember_by_run(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> list[Any]:
        """The memory of each run after ``helped`` [runs, n] at decision t in states [runs, n]."""
        return [
            self.fitted.remember(memory[run], t, states_now, np.flatnonzero(helped[run]))
            for run, states_now in enumerate(states.astype(np.int64))
        ]

    def inclusion(self, t: int, states: Ints, memory: Any) -> Floats:
        """Chances in one run [n]; ``memory`` is a list of one; nan if the policy states none."""
        fitted = self.fitted
        if fitted.defines("draw") and not fitted.defines("inclusion"):
            return np.full(len(states), np.nan)
        return fitted.vector(fitted.inclusion(t, states, memory[0]), "inclusion")
