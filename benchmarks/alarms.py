"""How often an audit raises an alarm in an honest programme, which does what it states.

The programmes follow the law in tests/honest.py. Run with

    python -m benchmarks.alarms [PROGRAMMES]

It prints the share of programmes with any alarm at all (goal: at most 5 %), and for each table the
share of p-values below .05. 200 programmes take a quarter of an hour on one core.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import honest
import numpy as np

from softfair.progress import track

TABLES = ("groups", "engagement", "calibration", "cells", "drift", "memory")


def main(programmes: int = 200) -> None:
    """Print the shares."""
    raised, lists = 0, 0
    small: dict[str, list[bool]] = {name: [] for name in TABLES}
    for seed in track(range(programmes), "honest programmes"):
        page = honest.page(seed)
        raised += bool(honest.alarms(page))
        lists += page.lists_test.p < 0.05
        for name, values in small.items():
            values += [row.p < 0.05 for row in getattr(page, name) if not np.isnan(row.p)]
    half = 1.96 * (max(raised, 1) * (programmes - raised)) ** 0.5 / programmes**1.5
    share = raised / programmes
    print(
        f"any alarm: {raised} of {programmes} programmes, {share:.1%} +- {half:.1%} (goal: <= 5 %)"
    )
    print(f"p < .05: all lists {lists / programmes:.1%} of programmes")
    for name, values in small.items():
        print(f"p < .05: {name} {np.mean(values):.1%} of {len(values)} comparisons")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
