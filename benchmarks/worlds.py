"""Worlds in which estimates are judged: laws of people, and of how their history is recorded.

Kinds of people:

- ``cpap``: adherent and non-adherent patients, the same two groups in every cohort;
- ``synthetic``: sorted uniforms, the same law in every cohort;
- ``clusters``: a law drawn anew for each cohort: one to three clusters of people with uniform
  noise; a contact takes away a share of the failures;
- ``beta``: a law drawn anew for each cohort: chances are correlated beta variables, and a contact
  takes away a beta share of the failures, which is correlated with the chances, with either sign.

Choices in the estimator were made on the first three kinds, with other seeds than those of the
benchmark. ``beta`` was not used for these choices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

import softfair as sf
from softfair.programme.sample import RESPONSES

__all__ = ["ALONE", "LAWS", "Floats", "Ints", "Record", "World"]

ALONE = 30  # weeks without a contact before the first week, in worlds that have settled
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Record:
    """A history: states and contacts of n people in some weeks, and the states after."""

    state: Ints  # [n, weeks], -1 where not recorded
    contacted: Ints  # [n, weeks]
    now: Ints  # [n]

    def of(self, m: int) -> Record:
        """The history of the first m people."""
        return Record(self.state[:m], self.contacted[:m], self.now[:m])

    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """person, round, state, contacted [n weeks]."""
        n, weeks = self.state.shape
        person, rounds = np.repeat(np.arange(n), weeks), np.tile(np.arange(weeks), n)
        return person, rounds, self.state.ravel(), self.contacted.ravel()


@dataclass(frozen=True)
class World:
    """The law of people and how their history is recorded."""

    kind: str
    n: int
    weeks: int
    settled: bool
    missing: float
    contacts: float
    effect: float  # factor of the law's effects; 0: contacts do nothing
    law: int = 0  # seed of the law of people, for kinds that have many

    def __str__(self) -> str:
        """The cell of the grid in words, without its kind."""
        return (
            f"{self.n} people, {self.weeks} weeks, {'settled' if self.settled else 'tossed'}, "
            f"{self.missing:.0%} missing, {self.contacts:.0%} contacted, "
            f"{'effects' if self.effect else 'no effects'}"
        )

    def people(self, rng: np.random.Generator) -> Floats:
        """True chances p [n, 2, 2] of a cohort."""
        return self.drawn(self.n, int(rng.integers(2**30)))

    def drawn(self, n: int, seed: int) -> Floats:
        """Chances p [n, 2, 2] of n people."""
        if self.kind == "cpap":
            p = sf.datasets.cpap(n, seed=seed, **RESPONSES).p.copy()
        elif self.kind == "synthetic":
            p = sf.datasets.synthetic(n, seed=seed).p.copy()
        else:
            p = LAWS[self.kind](n, np.random.default_rng(seed), np.random.default_rng(self.law))
        p[:, 1] = p[:, 0] + self.effect * (p[:, 1] - p[:, 0])
        return p

    def record(self, p: Floats, rng: np.random.Generator) -> Record:
        """The history of people p [n, 2, 2]."""
        n, everybody = self.n, np.arange(self.n)
        s = rng.integers(0, 2, n)
        for _ in range(ALONE if self.settled else 0):
            s = (rng.random(n) < p[everybody, 0, s]).astype(np.int64)
        state, contacted = np.empty((2, n, self.weeks), np.int64)
        for week in range(self.weeks):
            state[:, week], contacted[:, week] = s, rng.random(n) < self.contacts
            s = (rng.random(n) < p[everybody, contacted[:, week], s]).astype(np.int64)
        state[rng.random(state.shape) < self.missing] = -1
        return Record(state, contacted, s)


def _beta(n: int, rng: np.random.Generator, law: np.random.Generator) -> Floats:
    """Beta chances p [n, 2, 2] with correlated logits of rows and effects, of a law drawn anew."""
    mean = np.array([law.uniform(0.15, 0.6), law.uniform(0.5, 0.9), *law.uniform(0.05, 0.5, 2)])
    size = np.exp(law.uniform(np.log(3), np.log(30), 4))
    together, effects, across = law.uniform(0, 0.9), law.uniform(0, 0.9), law.uniform(-0.5, 0.5)
    common = rng.normal(size=(2, n))
    common[1] = across * common[0] + np.sqrt(1 - across**2) * common[1]
    own, share = rng.normal(size=(4, n)), np.array([together, together, effects, effects])[:, None]
    z = np.sqrt(share) * common[[0, 0, 1, 1]] + np.sqrt(1 - share) * own
    value = betaincinv((mean * size)[:, None], ((1 - mean) * size)[:, None], ndtr(z))  # [4, n]
    without = np.clip(value[:2], 1e-6, 1 - 1e-6)
    return np.moveaxis(np.stack([without, without + value[2:] * (1 - without)]), -1, 0).copy()


def _clusters(n: int, rng: np.random.Generator, law: np.random.Generator) -> Floats:
    """Chances p [n, 2, 2] of one to three clusters with uniform noise, of a law drawn anew."""
    clusters = int(law.integers(1, 4))
    centre = law.beta(1.2, 1.2, (clusters, 2)) * 0.9 + 0.05
    removed = law.uniform(0, 0.6) * law.uniform(0.3, 1.0, (clusters, 2))
    width, apart = law.choice([0.02, 0.05, 0.1, 0.2]), law.choice([0.0, 0.1, 0.3])
    member = rng.choice(clusters, n, p=law.dirichlet(np.full(clusters, 4.0)))
    without = np.clip(centre[member] + rng.uniform(-width, width, (n, 2)), 0.002, 0.998)
    share = np.clip(removed[member] + rng.uniform(-apart, apart, (n, 2)), 0.0, 0.95)
    return np.stack([without, without + share * (1 - without)], axis=1)


#: Kinds whose law is drawn anew for each cohort.
LAWS = {"beta": _beta, "clusters": _clusters}
