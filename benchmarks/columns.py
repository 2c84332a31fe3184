"""The gain of a plan made from columns and a short history, relative to a plan from the truth.

The law of the people: with x the standardised columns of a person (three numbers, and one of four
villages), z independent normal noise, and r the share of the variance that columns explain,

    logit of the good state next, not contacted, from state s:  u_s = U_s + .9 (sqrt(r) b_s . x
                                                                     + sqrt(1 - r) z_s)
    what a contact adds to it:                                  d_s = .8 + .8 (sqrt(r) e_s . x
                                                                     + sqrt(1 - r) z_{2 + s})

with U = (-1.2, 1.0) and directions b_s, e_s of length one, drawn once. People have lived thirty
weeks without contacts before the first week on record; a tenth of them is contacted each week, at
random. Of eight columns that the programme knows, four have no meaning.

A plan for T = 20 rounds and k = n / 10 is made from estimated chances, at the c at which it is as
even as SoftFair(c=10) from the true chances, and simulated on the true people. Its gain over
contacting nobody is printed in % of the gain of the plan from the true chances. The chances are
estimated with columns, without columns, and by two references that no programme has:

- the exact posterior mean, computed from the law above, its first states and the columns, by
  weighting ATOMS draws of z for each person. It knows every slope, which a programme has to learn
  from contacts;
- the learner. It knows which columns have a meaning, r, how large slopes are and the law of z; that
  is, its model is right. It learns U, the mean effects and the slopes from the same history. Their
  posterior is taken as a normal law about its mode (LEARNER_ATOMS draws of z for each person).

    python -m benchmarks.columns [cohorts]
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import softfair as sf
from softfair.estimate import count_transitions, estimate, read_histories

from .estimation import STEEPER, outcome
from .learning import as_rows, full

N, T, RUNS, ATOMS, LEARNER_ATOMS = 1000, 20, 100, 4000, 256
DRAWS = 20  # of the learner's slopes
STEP = 1e-4  # for the second derivatives of its posterior
BASE, EFFECT, SPREAD, EFFECT_SPREAD = np.array([-1.2, 1.0]), 0.8, 0.9, 0.8
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class People:
    """People of the law above."""

    def __init__(self, share: float, seed: int) -> None:
        rng = np.random.default_rng([21, seed])
        directions = np.random.default_rng(20).normal(size=(4, 6))
        village = rng.integers(0, 4, N)
        numbers = rng.normal(size=(3, N))
        dummies = (village == np.arange(1, 4)[:, None]) - 0.25
        x = np.vstack([numbers, dummies / np.sqrt(0.25 * 0.75)])  # [6, N]
        self.known = np.concatenate([np.ones((1, N)), x])  # [7, N], for the learner
        self.told = directions @ x
        self.told /= self.told.std(axis=1, keepdims=True)  # [4, N]: u_0, u_1, d_0, d_1
        self.share = share
        self.columns = {
            **{f"x{j}": one for j, one in enumerate(numbers)},
            "village": np.array(["abcd"[v] for v in village]),
            **{f"noise{j}": rng.normal(size=N) for j in range(3)},
            "worker": np.array([f"w{v}" for v in rng.integers(0, 5, N)]),
        }
        self.p = self.chances(self.told, rng.normal(size=(4, N)))  # [N, 2, 2]

    def chances(self, told: Floats, z: Floats) -> Floats:
        """p [..., 2, 2] by action and state, from the parts of columns and noise z, [4, ...]."""
        mixed = np.sqrt(self.share) * told + np.sqrt(1 - self.share) * z
        u = BASE.reshape(2, *[1] * (mixed.ndim - 1)) + SPREAD * mixed[:2]
        logit = np.stack([u, u + EFFECT + EFFECT_SPREAD * mixed[2:]])  # [2, 2, ...]
        return np.moveaxis(1 / (1 + np.exp(-logit)), (0, 1), (-2, -1))


def settled(p: Floats) -> Floats:
    """Chance of the good state after thirty weeks without a contact; p [..., 2, 2]."""
    good = np.full(p.shape[:-2], 0.5)
    for _ in range(30):
        good = good * p[..., 0, 1] + (1 - good) * p[..., 0, 0]
    return good


def history(p: Floats, weeks: int, seed: int) -> tuple[Ints, Ints]:
    """States [N, weeks + 1] and contacts [N, weeks]."""
    rng = np.random.default_rng([22, seed, weeks])
    state = np.empty((N, weeks + 1), np.int64)
    contacted = (rng.random((N, weeks)) < 0.1).astype(np.int64)
    state[:, 0] = rng.random(N) < settled(p)
    for week in range(weeks):
        chance = p[np.arange(N), contacted[:, week], state[:, week]]
        state[:, week + 1] = rng.random(N) < chance
    return state, contacted


def exact_posterior(people: People, state: Ints, contacted: Ints) -> Floats:
    """Posterior means p [N, 2, 2] under the law."""
    z = np.random.default_rng(23).normal(size=(4, ATOMS))
    moves = count_transitions(*as_rows(state, contacted), n=N, S=2)
    means = np.empty((N, 2, 2))

    for i in range(N):
        p = people.chances(people.told[:, i, None], z)  # [ATOMS, 2, 2]
        good = settled(p)
        log_weight = np.log(good if state[i, 0] else 1 - good)
        log_weight += np.sum(moves[i, ..., 1] * np.log(p), axis=(1, 2))
        log_weight += np.sum(moves[i, ..., 0] * np.log1p(-p), axis=(1, 2))
        weight = np.exp(log_weight - log_weight.max())
        means[i] = np.einsum("l,las->as", weight, p) / weight.sum()
    return means


class Learner:
    """The posterior of the slopes W [4, 7] of columns, and people's chances given W."""

    def __init__(self, people: People, state: Ints, contacted: Ints) -> None:
        self.known, share = people.known, people.share
        moves = count_transitions(*as_rows(state, contacted), n=N, S=2).reshape(N, 4, 2)
        self.good, self.all = moves[..., 1].T[..., None], moves.sum(axis=2).T[..., None]
        self.first = state[:, 0, None] == 1
        L = LEARNER_ATOMS if share < 1 else 1  # if columns explain all, there is no noise
        size = np.repeat([SPREAD, EFFECT_SPREAD], 2)[:, None]
        self.z = np.sqrt(1 - share) * size * np.random.default_rng(24).normal(size=(4, L))
        sd = np.maximum(size * np.sqrt(share / 6), 1e-6) * np.ones((4, 7))
        sd[:, 0] = 2.0, 2.0, 1.0, 1.0
        self.sd = sd

    def slopes(self, w: Floats) -> tuple[float, Floats, Floats]:
        """Minus log density of w = W / sd, its gradient, and posterior mean chances [N, 2, 2]."""
        logit = (self.sd * w.reshape(4, 7) @ self.known)[..., None] + self.z[:, None]  # [4, N, L]
        logit[2:] += logit[:2]
        p = 1 / (1 + np.exp(-logit))
        leaves = 1 - p[1] + p[0]  # the chance to be well in the long run is p[0] / leaves
        log_joint = (self.good * np.log(p) + (self.all - self.good) * np.log1p(-p)).sum(axis=0)
        log_joint += np.where(self.first, np.log(p[0]), np.log1p(-p[1])) - np.log(leaves)
        top = log_joint.max(axis=1, keepdims=True)
        weight = np.exp(log_joint - top)
        total = weight.sum(axis=1, keepdims=True)
        weight /= total
        by_logit = self.good - self.all * p
        by_logit[0] += np.where(self.first, 1 - p[0], 0.0) - p[0] * (1 - p[0]) / leaves
        by_logit[1] += np.where(self.first, 0.0, -p[1]) + p[1] * (1 - p[1]) / leaves
        by_logit[:2] += by_logit[2:]
        gradient = (by_logit * weight).sum(axis=2) @ self.known.T * self.sd
        value = float((top + np.log(total / weight.shape[1])).sum() - w @ w / 2)
        mean = np.moveaxis((p * weight).sum(axis=2).reshape(2, 2, N), 2, 0)
        return -value, w - gradient.ravel(), mean

    def means(self) -> Floats:
        """Posterior means p [N, 2, 2], averaged over slopes."""
        top = minimize(lambda w: self.slopes(w)[:2], np.zeros(28), jac=True, method="BFGS").x
        steps = STEP * np.eye(28)
        second = np.stack([self.slopes(top + one)[1] - self.slopes(top - one)[1] for one in steps])
        covariance = np.linalg.inv((second + second.T) / (4 * STEP))
        draws = np.random.default_rng(25).multivariate_normal(top, covariance, DRAWS)
        return np.asarray(np.mean([self.slopes(w)[2] for w in draws], axis=0))


def kept(people: People, weeks: int, seed: int) -> tuple[float, float, float, float]:
    """Gains, with the plan from the truth as 1: with columns, without, learner, exact posterior."""
    state, contacted = history(people.p, weeks, seed)
    read = read_histories(*as_rows(state, contacted), n=N, S=2)
    truth = sf.Cohort(full(people.p), start=state[:, -1])
    k = N // 10
    none = float(sf.simulate(sf.NoIntervention().fit(truth, k, T), RUNS, seed).totals.mean())
    best, evenness = outcome(truth, truth, k, T, STEEPER[0], RUNS, seed)

    def share(P: Floats) -> float:
        believed = sf.Cohort(P, start=state[:, -1])
        tried = [outcome(truth, believed, k, T, c, RUNS, seed) for c in STEEPER]
        reward, entropy = np.array(tried[::-1]).T
        return float((np.interp(evenness, entropy, reward) - none) / (best - none))

    return (
        share(estimate(read, columns=people.columns).P),
        share(estimate(read).P),
        share(full(Learner(people, state, contacted).means())),
        share(full(exact_posterior(people, state, contacted))),
    )


def compare(cohorts: int, told: Sequence[float], weeks: Sequence[int]) -> None:
    """Print relative gains for some shares of the variance that columns explain, and some weeks."""
    print(
        "share of the gain kept, %: with columns, without; learner, exact posterior; short of both"
    )
    for share, known in itertools.product(told, weeks):
        shares = 100 * np.array([kept(People(share, seed), known, seed) for seed in range(cohorts)])
        ours, without, learnt, exact = shares.mean(axis=0)
        short = shares[:, 2:] - shares[:, :1]  # [cohorts, 2]
        error = 2 * short.std(axis=0, ddof=1) / np.sqrt(cohorts)
        print(
            f"columns tell {share:4.0%}, {known:2d} weeks: {ours:5.1f} {without:5.1f}; "
            f"{learnt:5.1f} {exact:5.1f}; "
            f"{learnt - ours:4.1f} +- {error[0]:.1f} and {exact - ours:4.1f} +- {error[1]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    compare(int(sys.argv[1]) if len(sys.argv) > 1 else 4, (0.0, 0.5, 1.0), (4, 10, 30))
