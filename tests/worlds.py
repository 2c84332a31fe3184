"""Made-up results of experiments, in which it is known what is so."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from softfair.experiments import EXPERIMENTS, Outcome

COLUMNS = ("benefit", "entropy", "never_selected", "of_bound")


@dataclass(frozen=True)
class World:
    """How cohorts and policies vary.

    The mean over cohorts of every figure is exactly what is given for it. ``common`` is the
    standard deviation of what all policies share on a cohort, ``own`` that of what each has for
    itself; ``own`` alone blurs a paired difference.
    """

    own: float = 0.01
    common: float = 0.0
    cohorts: int = 8
    runs: int = 2
    rough: tuple[str, ...] = ()  # policies whose values had not settled


USUAL = World()


def standard(name: str, count: int) -> np.ndarray:
    """Numbers of mean 0 and standard deviation 1 that depend on the name alone."""
    numbers = np.random.default_rng(zlib.crc32(name.encode())).normal(size=count)
    return (numbers - numbers.mean()) / numbers.std(ddof=1)


def rows(
    policies: dict[str, dict[str, float]], world: World = USUAL, name: str = ""
) -> pd.DataFrame:
    """Rows of one experiment: by policy, the figures that are not 0."""
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
