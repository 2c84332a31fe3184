"""References for an estimate, which know the law of people, or all of the law but five numbers.

`exact_posterior` knows the law that people were drawn from. Its posterior of a person consists of
the chances of many people drawn from the law (a bank), weighted by the likelihood of the person's
history. Given the law, people are independent. So, up to chance, 90 % intervals hold 90 % of the
people of every cohort, and more if many people have the same chance (all CPAP patients who adhere
have .999 after a contact: an interval of no width holds it).

`learner` is for CPAP patients. It knows that there are two clusters of equal size, with uniform
noise about their chances, and how effects are distributed. It learns the four chances of the
clusters and the width of the noise (flat priors, the width on a log scale), by a random walk
(Metropolis). Its error in these five numbers is the same for all people of a cluster. Over cohorts
whose numbers are drawn from its prior, its intervals hold 90 %. Under the one law of CPAP they can
hold more or less, and hold many people of a cohort at once or none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import qmc

from softfair.datasets import CPAP_MARGIN
from softfair.estimate import count_transitions

from .worlds import ALONE, Floats, Ints, Record, World

__all__ = ["BANK", "LEVEL", "Ends", "exact_posterior", "inside", "learner"]

LEVEL = 0.9  # of the intervals
BANK = 20_000  # people drawn from the law
TAILS = 101  # positions of an interval that are tried
NEAR = 0.001  # a true value this close counts as inside; it is the last digit of published chances
POINTS = 128  # points of the noise and the effect for each cluster
TRIES, STEPS, KEPT = 300, 3000, 60  # of the random walk: starts tried, steps, and draws used
NARROW, WIDE = np.log(0.002), np.log(0.2)  # bounds of the log width of the noise
Ends = tuple[Floats, Floats, Floats]  # mean, low, high [m, 2, 2]


def inside(low: Floats, high: Floats, p: Floats) -> NDArray[np.bool_]:
    """Whether true chances are inside their intervals, or within NEAR of them."""
    return np.asarray((low - NEAR <= p) & (p <= high + NEAR))


def exact_posterior(world: World, bank: Floats, record: Record) -> Ends:
    """Means and ends for people drawn from the law of the bank, p [B, 2, 2]."""
    p = np.ascontiguousarray(bank.reshape(-1, 4).T)  # [4, B]
    begin = _beginning(p, world.settled)
    histories = zip(record.state, record.contacted, strict=True)
    return _ends((_likelihood(state, contacted, p, begin) for state, contacted in histories), p)


def _ends(weights, p: Floats) -> Ends:  # type: ignore[no-untyped-def]
    """Means and ends of people, from the weights [B] of each person on the chances p [4, B].

    An interval has the quantiles t and t + LEVEL as ends, with the t of TAILS values that makes it
    the shortest.
    """
    order = np.argsort(p, axis=1)
    ordered = np.take_along_axis(p, order, axis=1)
    tails = np.linspace(0, 1 - LEVEL, TAILS)
    ends = []
    for weight in weights:
        mean_and_ends = np.empty((3, 4))
        for j in range(4):
            below = np.cumsum(weight[order[j]])
            at = np.searchsorted(below, np.concatenate([tails, tails + LEVEL]) * below[-1])
            low, high = ordered[j][np.minimum(at, p.shape[1] - 1)].reshape(2, TAILS)
            best = np.argmin(high - low)
            mean_and_ends[:, j] = weight @ p[j] / below[-1], low[best], high[best]
        ends.append(mean_and_ends)
    mean, low, high = np.stack(ends, axis=1).reshape(3, -1, 2, 2)
    return mean, low, high


def _beginning(p: Floats, settled: bool) -> Floats:
    """Chance [B] that people with chances p [4, B] are in the good state in the first week."""
    good = np.full(p.shape[1], 0.5)
    for _ in range(ALONE if settled else 0):
        good = good * p[1] + (1 - good) * p[0]
    return good


def _likelihood(state: Ints, contacted: Ints, p: Floats, begin: Floats) -> Floats:
    """Likelihood [B] of a history, up to a factor."""
    bad, good = 1 - begin, begin
    nobody = np.zeros(len(begin))
    for week, s in enumerate(state):
        if week:
            before = contacted[week - 1]
            up = bad * p[2 * before] + good * p[2 * before + 1]
            bad, good = bad + good - up, up
        bad, good = nobody if s == 1 else bad, nobody if s == 0 else good
    return np.asarray(bad + good)


def learner(world: World, record: Record, seed: int, people: int) -> Ends:
    """Means and ends of the first ``people`` CPAP patients; every week must be recorded."""
    if world.kind != "cpap" or world.missing:
        raise ValueError("the learner is for CPAP patients with complete histories")
    rng = np.random.default_rng(seed)
    n = world.n
    moves = count_transitions(*record.columns(), n=n, S=2).reshape(n, 8)
    table = np.concatenate([moves, record.state[:, :1]], axis=1)
    kinds, number = np.unique(table, axis=0, return_counts=True)
    points = qmc.Sobol(3, seed=0).random(POINTS).T

    def chances(theta: Floats) -> Floats:
        """p [4, 2 POINTS] of clusters with the chances theta[:4] and the log width theta[4]."""
        noise = np.exp(theta[4]) * (2 * points[:2] - 1)
        without = np.clip(
            np.concatenate([theta[0:2, None] + noise, theta[2:4, None] + noise], axis=1),
            CPAP_MARGIN, 1 - CPAP_MARGIN,
        )  # fmt: skip
        by = 1 + world.effect * np.tile(0.05 + 0.45 * points[2], 2)
        return np.concatenate([without, np.minimum(without * by, 1 - CPAP_MARGIN)])

    def log_joint(table: Ints, p: Floats) -> Floats:
        """Log likelihood [m, 2 POINTS] of kinds of people."""
        logs = np.stack([np.log1p(-p), np.log(p)], axis=1).reshape(8, -1)
        begin = _beginning(p, world.settled)
        first = np.where(table[:, 8:] == 1, np.log(begin), np.log1p(-begin))
        return np.asarray(table[:, :8] @ logs + first)

    def density(theta: Floats) -> float:
        if (theta[:4] <= 0).any() or (theta[:4] >= 1).any() or not NARROW < theta[4] < WIDE:
            return -np.inf
        return float(number @ logsumexp(log_joint(kinds, chances(theta)), axis=1))

    walk = _walk(density, rng)
    laws = [chances(theta) for theta in walk]

    def weights():  # type: ignore[no-untyped-def]
        for row in table[:people]:
            of_laws = [np.exp(log_joint(row[None], p)[0]) for p in laws]
            yield np.concatenate([one / one.sum() for one in of_laws])

    return _ends(weights(), np.concatenate(laws, axis=1))


def _walk(density, rng: np.random.Generator) -> list[Floats]:  # type: ignore[no-untyped-def]
    """KEPT draws from a density of the five numbers, from the second half of the steps."""
    tries = np.concatenate([rng.random((TRIES, 4)), rng.uniform(NARROW, WIDE, (TRIES, 1))], axis=1)
    theta = max(tries, key=density)
    value, scale, path = density(theta), 0.3, [theta]
    root = np.diag([0.1, 0.1, 0.1, 0.1, 0.5])
    for step in range(STEPS):
        if step and step % 200 == 0 and step <= STEPS // 2:
            recent = np.array(path[len(path) // 2 :])
            root = np.linalg.cholesky(np.cov(recent.T) + 1e-8 * np.eye(5))
            scale = max(scale, 0.3)
        tried = theta + scale * root @ rng.normal(size=5)
        tried_value = density(tried)
        accepted = np.log(rng.random()) < tried_value - value
        if accepted:
            theta, value = tried, tried_value
        if step < STEPS // 2:  # towards a quarter of the tries accepted
            scale *= np.exp((0.75 if accepted else -0.25) * 0.1)
        path.append(theta)
    return path[STEPS // 2 :: (STEPS // 2) // KEPT][:KEPT]
