"""A policy of your own in fifteen lines: test its contract, compare it, follow a run."""

from dataclasses import dataclass

import numpy as np

import softfair as sf


class FittedNeediest(sf.Fitted):
    """The worst states first; in equal states, arms that have waited longer have better odds."""

    def memory(self, runs=1):
        return np.zeros(self.cohort.n)  # decisions since the last help

    def scores(self, t, states, memory=None):
        waited = self.memory() if memory is None else memory
        return -np.asarray(states) + 0.1 * waited

    def remember(self, memory, t, states, arms):
        waited = (self.memory() if memory is None else memory) + 1
        waited[arms] = 0
        return waited


@dataclass(frozen=True)
class Neediest(sf.Policy):
    c: float = 5.0

    def fit(self, cohort, k, horizon, gamma=1.0, seed=0):
        return FittedNeediest(self, cohort, k, horizon, gamma, sf.Rule.softmax(self.c, "joint"))


sf.testing.check_policy(Neediest())
cohort = sf.datasets.synthetic(n=50, seed=0)
table = sf.compare([Neediest(), sf.SoftFair(c=10), sf.Random()], cohort, k=5, horizon=20, runs=20)
print(table[["policy", "benefit", "entropy", "longest_wait", "problem"]].round(2))
curve = sf.frontier(cohort, k=5, horizon=20, cs=[0, 5, 50], runs=20, policy=Neediest())
print(curve[["c", "benefit", "entropy"]].round(2))
