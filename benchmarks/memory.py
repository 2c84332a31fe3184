"""How often `softfair fit --memory` takes the memory: in worlds where it matters, and in others.

This file states the laws of the people. People have lived thirty weeks without contacts before the
first week on record; then each person is contacted with chance .3 in each week, at random.

    first order   chances of the good state next by action and state, each from Beta(.8, .8)
    second order  chance .2 after a bad week and .8 after a good one, give or take .1 from person to
                  person; a contact after two bad weeks lifts the chance to .75, and any other
                  contact does nothing

A memory is taken if it predicts held-out rounds better (`softfair.estimate.foresight_of`). It
should be taken in at most 5 % of the cohorts of the first order, and in all cohorts of the second
order.

    python -m benchmarks.memory [cohorts]
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from softfair.estimate import foresight_of

from .learning import as_rows

ALONE, CONTACTED = 30, 0.3
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Chances = Callable[[Ints, Ints, Ints], Floats]  # of state before, state now and contact


def first_order(n: int, rng: np.random.Generator) -> Chances:
    """People whose chances depend only on the state now."""
    p, everybody = rng.beta(0.8, 0.8, (n, 2, 2)), np.arange(n)
    return lambda before, now, contact: p[everybody, contact, now]


def second_order(n: int, rng: np.random.Generator) -> Chances:
    """People whom a contact helps only after two bad weeks."""
    own = rng.uniform(-0.1, 0.1, n)

    def chances(before: Ints, now: Ints, contact: Ints) -> Floats:
        left = np.where(now == 1, 0.8, 0.2) + own
        return np.where((contact == 1) & (before + now == 0), 0.75, left)

    return chances


def taken(law: Callable[..., Chances], n: int, weeks: int, memory: str, cohorts: int) -> int:
    """The number of cohorts in which the memory is taken."""
    count = 0
    for seed in range(cohorts):
        rng = np.random.default_rng([41, seed])
        good = law(n, rng)
        before, now = rng.integers(0, 2, (2, n))
        state, contacted = np.empty((2, n, weeks), np.int64)
        for week in range(-ALONE, weeks):
            contact = ((rng.random(n) < CONTACTED) & (week >= 0)).astype(np.int64)
            if week >= 0:
                state[:, week], contacted[:, week] = now, contact
            before, now = now, (rng.random(n) < good(before, now, contact)).astype(np.int64)
        count += foresight_of(*as_rows(state, contacted[:, :-1]), n=n, S=2, memory=memory).better
    return count


def main(cohorts: int = 40) -> None:
    """Print the table."""
    for law, n, weeks, memory in (
        (first_order, 200, 15, "2"),
        (first_order, 200, 15, "contact"),
        (second_order, 500, 20, "2"),
    ):
        count = taken(law, n, weeks, memory, cohorts)
        print(
            f"{law.__name__:13} {n} people, {weeks} weeks, memory {memory:8} {count} of {cohorts}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
