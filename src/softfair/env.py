"""A cohort as a Gymnasium environment, ``softfair/RMAB-v0``; importing this module registers it.

    import gymnasium, softfair.env
    env = gymnasium.make("softfair/RMAB-v0", cohort=cohort, k=10, horizon=50)
    envs = gymnasium.make_vec("softfair/RMAB-v0", num_envs=8, cohort=cohort, k=10, horizon=50)

An observation is the state of every arm and the number of the decision, because the best arms
depend on how many decisions are left. An action says for each arm whether it is helped. At most k
arms may be helped: if an action has more, k of them are chosen at random, and ``info`` says so. The
reward is the sum over arms of the reward of the state reached, plus what help is worth at once. An
episode has ``horizon`` decisions.

The module needs ``pip install "softfair[gym]"``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cohort import Cohort, refuse_costs
from .datasets import synthetic
from .errors import InvalidInput
from .policies.base import Fitted
from .policies.setting import Budget, check_setting

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError:
    raise InvalidInput(
        'softfair.env needs Gymnasium, which is not installed; pip install "softfair[gym]"'
    ) from None

__all__ = ["ID", "RMAB", "Agent", "VectorRMAB"]

ID = "softfair/RMAB-v0"
Observation = dict[str, Any]
Ints = NDArray[np.int64]


class _World:
    """Arms that move, in any number of runs side by side."""

    def __init__(self, cohort: Cohort, k: Budget, horizon: int, runs: int) -> None:
        self.budget = np.broadcast_to(check_setting(cohort, k, horizon, 1.0), (int(horizon),))
        refuse_costs(cohort, "the environment")
        self.cohort, self.horizon = cohort, int(horizon)
        self.states = np.zeros((runs, cohort.n), np.int64)
        self._arms = np.arange(cohort.n)
        self._start = cohort.start.cumsum(axis=1)  # [n, S]
        self._moves = cohort.P.cumsum(axis=3)  # [n, 2, S, S]

    def start(self, runs: NDArray[np.bool_], rng: np.random.Generator) -> None:
        """Draw the first states of the marked runs."""
        uniform = rng.random((int(runs.sum()), self.cohort.n, 1))
        self.states[runs] = self._reached(self._start[None], uniform)

    def move(self, helped: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.float64]:
        """Move all arms of all runs [runs, n]; return the rewards [runs]."""
        rows = self._moves[self._arms, helped.astype(np.int64), self.states]  # [runs, n, S]
        at_once = np.where(helped, self.cohort.at_once[self._arms, self.states], 0.0).sum(axis=1)
        self.states = self._reached(rows, rng.random((*self.states.shape, 1)))
        reward: NDArray[np.float64] = self.cohort.reward[self._arms, self.states].sum(axis=1)
        total: NDArray[np.float64] = reward + at_once
        return total

    def _reached(self, sums: NDArray[np.float64], uniform: NDArray[np.float64]) -> Ints:
        """The first state whose cumulative chance exceeds the uniform number."""
        reached: Ints = np.minimum((uniform >= sums).sum(axis=-1), self.cohort.S - 1)
        return reached

    def within_budget(
        self, action: Any, t: Ints, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The arms that are helped [runs, n], and whether the action of each run had too many arms.

        t [runs] is the decision of each run; a run that has ended counts as at its last decision.
        """
        helped = np.asarray(action).reshape(self.states.shape) != 0
        k = self.budget[np.minimum(t, self.horizon - 1)]
        over = helped.sum(axis=1) > k
        if over.any():
            keys = np.where(helped[over], rng.random((int(over.sum()), helped.shape[1])), 2.0)
            place = np.argsort(np.argsort(keys, axis=1), axis=1)  # in the order of the keys
            helped = helped.copy()
            helped[over] = place < k[over, None]
        return helped, over

    def spaces(self) -> tuple[spaces.Dict, spaces.MultiBinary]:
        """The spaces of the observations and the actions of one run."""
        n, S = self.cohort.n, self.cohort.S
        observed = {
            "states": spaces.MultiDiscrete(np.full(n, S)),
            "decision": spaces.Discrete(self.horizon + 1),
        }
        return spaces.Dict(observed), spaces.MultiBinary(n)


class RMAB(gymnasium.Env[Observation, NDArray[np.int8]]):
    """One run of a cohort, decision by decision.

    Parameters
    ----------
    cohort : Cohort, optional
        The arms; by default twenty synthetic arms.
    k : int or array_like [horizon]
        Arms that may be helped at every decision, or one number for each decision.
    horizon : int
        Decisions of an episode.
    render_mode : None
        There is nothing to render.

    Examples
    --------
    >>> import gymnasium
    >>> import softfair.env
    >>> env = gymnasium.make("softfair/RMAB-v0", k=2, horizon=5)
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, ended, cut, info = env.step([1] * 20)
    >>> int(info["helped"].sum()), info["over_budget"]
    (2, True)
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium requires a dict)

    def __init__(
        self,
        cohort: Cohort | None = None,
        k: Budget = 2,
        horizon: int = 20,
        render_mode: None = None,
    ) -> None:
        self._world = _World(synthetic(n=20) if cohort is None else cohort, k, horizon, 1)
        self.observation_space, self.action_space = self._world.spaces()
        self.render_mode = render_mode
        self._t = 0

    @property
    def cohort(self) -> Cohort:
        """The arms."""
        return self._world.cohort

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a run from the cohort's start."""
        super().reset(seed=seed)
        self._world.start(np.ones(1, np.bool_), self.np_random)
        self._t = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Help the arms of an action, at most k of them, and let all arms move."""
        if self._t >= self._world.horizon:
            raise InvalidInput(f"the {self._t} decisions of the episode are over; call reset()")
        helped, over = self._world.within_budget(action, np.array([self._t]), self.np_random)
        reward = self._world.move(helped, self.np_random)
        self._t += 1
        info = {"helped": helped[0], "over_budget": bool(over[0])}
        return self._observation(), float(reward[0]), self._t == self._world.horizon, False, info

    def _observation(self) -> Observation:
        return {"states": self._world.states[0].copy(), "decision": np.int64(self._t)}


class VectorRMAB(VectorEnv[Observation, NDArray[np.int8], NDArray[Any]]):
    """Many runs of a cohort side by side; a run that has ended starts again at the next step.

    Parameters
    ----------
    num_envs : int
        Number of runs.
    cohort, k, horizon, render_mode
        See :class:`RMAB`.

    Examples
    --------
    >>> import gymnasium
    >>> import softfair.env
    >>> envs = gymnasium.make_vec("softfair/RMAB-v0", num_envs=3, k=2, horizon=5)
    >>> observation, info = envs.reset(seed=0)
    >>> observation["states"].shape
    (3, 20)
    """

    metadata = {  # noqa: RUF012 (Gymnasium requires a dict)
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        cohort: Cohort | None = None,
        k: Budget = 2,
        horizon: int = 20,
        render_mode: None = None,
    ) -> None:
        self._world = _World(synthetic(n=20) if cohort is None else cohort, k, horizon, num_envs)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space, self.single_action_space = self._world.spaces()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._t = np.zeros(num_envs, np.int64)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all runs from the cohort's start, with random numbers that follow one seed."""
        if isinstance(seed, list):
            raise InvalidInput("seed is a list; give one whole number, from which all runs follow")
        super().reset(seed=seed)
        self._world.start(np.ones(self.num_envs, np.bool_), self.np_random)
        self._t[:] = 0
        return self._observation(), {}

    def step(
        self, actions: Any
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Help the arms of each run's action; runs that had ended start again instead."""
        restarted = self._t >= self._world.horizon
        helped, over = self._world.within_budget(actions, self._t, self.np_random)
        helped[restarted], over[restarted] = False, False
        reward = np.where(restarted, 0.0, self._world.move(helped, self.np_random))
        if restarted.any():
            self._world.start(restarted, self.np_random)
        self._t = np.where(restarted, 0, self._t + 1)
        ended = self._t == self._world.horizon
        info = {"helped": helped, "over_budget": over}
        return self._observation(), reward, ended, np.zeros_like(ended), info

    def _observation(self) -> Observation:
        return {"states": self._world.states.copy(), "decision": self._t.copy()}


class Agent:
    """A fitted policy that acts in :class:`RMAB`: from an observation to an action.

    Parameters
    ----------
    fitted : Fitted
        A policy fitted to the cohort, k and horizon of the environment.
    seed : int
        Seed of the draws.

    Examples
    --------
    >>> import gymnasium
    >>> import softfair as sf
    >>> from softfair.env import Agent
    >>> cohort = sf.datasets.synthetic(n=10, seed=0)
    >>> env = gymnasium.make("softfair/RMAB-v0", cohort=cohort, k=2, horizon=5)
    >>> agent = Agent(sf.SoftFair(c=10).fit(cohort, k=2, horizon=5))
    >>> observation, info = env.reset(seed=0)
    >>> int(agent.act(observation).sum())
    2
    """

    def __init__(self, fitted: Fitted, seed: int = 0) -> None:
        self.fitted = fitted
        self._rng = np.random.default_rng(seed)
        self._memory: Any = None

    def act(self, observation: Observation) -> NDArray[np.int8]:
        """The arms that the policy draws at this decision; decision 0 resets its memory."""
        t, states = int(observation["decision"]), observation["states"]
        memory = self.fitted.memory() if t == 0 else self._memory
        arms = self.fitted.draw(t, states, self._rng, memory)
        self._memory = self.fitted.remember(memory, t, states, arms)
        action = np.zeros(self.fitted.cohort.n, np.int8)
        action[arms] = 1
        return action


if ID not in gymnasium.registry:
    gymnasium.register(
        ID, entry_point=f"{__name__}:RMAB", vector_entry_point=f"{__name__}:VectorRMAB"
    )
