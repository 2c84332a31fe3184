"""Two agents in the Gymnasium environment, a random one and SoftFair, on the same episodes."""

import gymnasium
import numpy as np

import softfair as sf
from softfair.env import Agent

cohort = sf.datasets.synthetic(n=20, seed=0)
setting = {"k": 2, "horizon": 20}
env = gymnasium.make("softfair/RMAB-v0", cohort=cohort, **setting)
softfair = Agent(sf.SoftFair(c=20).fit(cohort, **setting))
env.action_space.seed(0)
agents = {"random": lambda seen: env.action_space.sample(), "SoftFair": softfair.act}
for name, act in agents.items():
    totals = []
    for episode in range(30):
        seen, info = env.reset(seed=episode)
        total, ended = 0.0, False
        while not ended:
            seen, reward, ended, cut, info = env.step(act(seen))
            total += reward
        totals.append(total)
    print(f"{name}: {np.mean(totals):.1f} +- {np.std(totals):.1f}")

envs = gymnasium.make_vec("softfair/RMAB-v0", num_envs=1000, cohort=cohort, **setting)
seen, info = envs.reset(seed=0)
seen, reward, ended, cut, info = envs.step(envs.action_space.sample())
print(f"a thousand runs at once: {info['helped'].sum(axis=1).max()} are helped at most in each")
