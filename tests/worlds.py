"""Made-up results of experiments and made-up people, for which the truth is known."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from softfair.datasets import cpap
from softfair.experiments import EXPERIMENTS, Outcome
from softfair.programme.sample import RESPONSES

COLUMNS = ("benefit", "entropy", "never_selected", "of_bound")


@dataclass(frozen=True)
class World:
    """How cohorts and policies vary.

    The mean of every figure over cohorts is exactly the given value. ``common`` is the standard
    deviation of the part that all policies share on a cohort, ``own`` that of the part of each
    policy. Only ``own`` adds noise to a paired difference.
    """

    own: float = 0.01
    common: float = 0.0
    cohorts: int = 8
    runs: int = 2
    rough: tuple[str, ...] = ()  # policies whose values had not settled


USUAL = World()


def standard(name: str, count: int) -> np.ndarray:
    """Numbers of mean 0 and standard deviation 1 that depend only on the name."""
    numbers = np.random.default_rng(zlib.crc32(name.encode())).normal(size=count)
    return (numbers - numbers.mean()) / numbers.std(ddof=1)


def rows(
    policies: dict[str, dict[str, float]], world: World = USUAL, name: str = ""
) -> pd.DataFrame:
    """Rows of one experiment; ``policies`` has the figures that are not 0, by policy."""
    shared = world.common * standard("cohorts", world.cohorts)
    lines = []
    for policy, figures in policies.items():
        for cohort in range(world.cohorts):
            for run in range(world.runs):
                line: dict[str, object] = {"policy": policy, "instance": cohort, "run": run}
                for column in COLUMNS:
                    own = standard(f"{name}{policy}{column}", world.cohorts)[cohort]
                    scale = 0.01 if column == "never_selected" else 1.0
                    line[column] = figures.get(column, 0.0) + scale * (
                        shared[cohort] + world.own * own
                    )
                settled = policy not in world.rough
                line |= {"converged": settled, "residual": 0.0, "passes": 40, "counts": "0 1 2"}
                lines.append(line)
    return pd.DataFrame(lines)


def outcome(name: str, policies: dict[str, dict[str, float]], world: World = USUAL) -> Outcome:
    """A made-up outcome of an experiment of the catalogue."""
    return Outcome(EXPERIMENTS[name], rows(policies, world, name))


def cpap_people(n: int, effect: bool, seed: int) -> np.ndarray:
    """p [n, 2, 2] of CPAP patients; without ``effect`` a contact changes nothing."""
    p = cpap(n, seed=seed, **RESPONSES).p.copy()
    if not effect:
        p[:, 1] = p[:, 0]
    return p


def recorded(
    p: np.ndarray,
    weeks: int,
    seed: int,
    *,
    settled: int = 30,
    contacted: float = 0.1,
    seen: tuple[float, float] = (1.0, 1.0),
) -> tuple[np.ndarray, ...]:
    """person, round, state, contacted [n weeks] of people with chances p [n, 2, 2].

    People are left alone for ``settled`` weeks before the first week. Then each person is contacted
    with chance ``contacted`` in each week, and a state s is recorded with chance ``seen[s]``.
    """
    rng, n = np.random.default_rng([7, seed]), len(p)
    everybody, s = np.arange(n), np.random.default_rng([8, seed]).integers(0, 2, n)
    state, contact = np.empty((n, weeks), np.int64), np.zeros((n, weeks), np.int64)
    for week in range(-settled, weeks):
        a = (rng.random(n) < (contacted if week >= 0 else 0.0)).astype(np.int64)
        if week >= 0:
            shown = rng.random(n) < np.array(seen)[s]
            state[:, week], contact[:, week] = np.where(shown, s, -1), a
        s = (rng.random(n) < p[everybody, a, s]).astype(np.int64)
    rounds = np.tile(np.arange(weeks), n)
    return np.repeat(everybody, weeks), rounds, state.ravel(), contact.ravel()
