"""How often intervals of a trial's effect hold the truth, and how often a false effect is reported.

The programmes follow the law in tests/tried.py. Run with

    python -m benchmarks.trials [PROGRAMMES]

It prints, for people and for sites, the share of intervals that hold the true effect (goal: 95 %),
and the share of programmes without any effect in which an effect is reported (goal: at most 5 %),
each with the error of the simulation (one standard deviation). It also prints the mean width of the
intervals, beside the width of intervals of the difference of means. 1,000 programmes of each kind
take some minutes on one core.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from tried import World, tried

from softfair.progress import track

WORLDS = {
    "people": World(),
    "people, shares 50 30 20": World(shares=(0.5, 0.3, 0.2)),
    "sites": World(n=300, sites=24),
    "few sites": World(n=200, sites=15),
}


def share(hits: list[float]) -> str:
    """A mean over programmes with the error of the simulation."""
    return f"{np.mean(hits):.1%} +- {np.std(hits) / len(hits) ** 0.5:.1%}"


def main(programmes: int = 1000) -> None:
    """Print the shares."""
    for name, world in WORLDS.items():
        covered: list[float] = []
        widths: list[tuple[float, float]] = []
        made_up: list[float] = []
        for seed in track(range(programmes), name):
            programme = tried(seed, world)
            pairs = list(zip(programme.result().effects, programme.truth, strict=True))
            covered.append(float(np.mean([row.low <= truth <= row.high for row, truth in pairs])))
            widths += [(row.high - row.low, row.plain_high - row.plain_low) for row, _ in pairs]
            without_effect = tried(seed, world._replace(effect=False)).result()
            made_up.append(float(any(row.told for row in without_effect.effects)))
        adjusted, plain = np.mean(widths, axis=0)
        print(
            f"{name}: intervals that hold the truth {share(covered)}; effects made up "
            f"{share(made_up)}; width {adjusted:.3f}, of the difference of means {plain:.3f} "
            f"({adjusted / plain:.0%})"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
