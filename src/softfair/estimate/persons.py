"""The posterior of each person, given the averaged population and the person's history."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels.intervals import shortest_intervals
from ..kernels.posterior import posterior_sums
from ..kernels.threads import map_parts
from .border import Floats, Ints
from .fitting import Population
from .histories import Histories
from .population import law_at, normal_points

__all__ = ["Persons", "persons_of"]

PART = 1024  # people that a thread takes at a time
BINS = 128  # of a chance, on a scale on which chances have about equal noise
# Atoms a class at which the likelihood of a person is computed, for each draw of the population:
# more for long histories, which leave few atoms likely, and fewer for many people, to save time.
FEWEST_ATOMS, MOST_ATOMS, ROUNDS_AN_ATOM = 32, 256, 0.5
MANY = 20_000  # histories above which the fewest atoms are used


@dataclass(frozen=True, eq=False)
class Persons:
    """The posterior of each person's rows."""

    P: Floats  # [n, 2, C, S]
    low: Floats  # [n, 2, C, S]
    high: Floats  # [n, 2, C, S]
    draws: np.ndarray  # float32 [L, n, 2, C, S - 1]: joint, one for each draw of the population


def persons_of(
    histories: Histories, kind: Ints, X: Floats, population: Population, level: float
) -> Persons:
    """Means, intervals and draws of people; ``kind`` [n] is the number of each person's history."""
    m, C, S = histories.n, histories.contexts.C, histories.S
    M = _atoms(histories) * histories.contexts.B
    laws = [
        law_at(form, phi, normal_points(form.D, M, 1 + number))
        for number, (form, phi) in enumerate(population.draws)
    ]
    L, data, longest = len(laws), histories.kernel_data(), histories.longest
    P, low, high = np.empty((m, 2, C, S)), np.empty((m, 2, C, S)), np.empty((m, 2, C, S))
    drawn = np.empty((L, m, 2, C, S - 1), np.float32)
    uniform = np.random.default_rng(0).random((L, m))

    def part(begin: int, end: int) -> None:
        mean = np.zeros((end - begin, 2, C, S))
        # With two states, the chance of one gives the other.
        histogram = np.zeros((end - begin, 2, C, 1 if S == 2 else S, BINS))
        draw = np.empty((end - begin, 2, C, S - 1))
        for number, law in enumerate(laws):
            posterior_sums(
                begin,
                end,
                data,
                longest,
                law.atoms,
                law.log_weight,
                X[begin:end] @ law.by_column.T,
                law.settled,
                law.coin,
                law.unseen,
                population.share,
                uniform[number],
                mean,
                histogram,
                draw,
            )
            drawn[number, begin:end] = draw
        P[begin:end] = mean / mean.sum(axis=3, keepdims=True)
        low[begin:end], high[begin:end] = _ends(histogram, P[begin:end], level)

    map_parts(part, m, PART)
    # Draws take by far the most memory. They are copied one at a time, and within the same array if
    # no two people share a history.
    everybody = drawn if len(kind) == m else np.empty((L, len(kind), 2, C, S - 1), np.float32)
    for number in range(L):
        everybody[number] = drawn[number][kind]
    return Persons(P[kind], low[kind], high[kind], everybody)


def _atoms(histories: Histories) -> int:
    """Atoms a class, a power of two."""
    rounds = float(np.median(histories.seen.sum(axis=1))) or float(
        np.median(histories.moves.sum(axis=(1, 2, 3)))
    )
    atoms = np.clip(rounds / ROUNDS_AN_ATOM, 2 * FEWEST_ATOMS, MOST_ATOMS)
    if histories.n > MANY:
        atoms = FEWEST_ATOMS
    return 1 << int(np.ceil(np.log2(atoms)))


def _ends(histogram: Floats, P: Floats, level: float) -> tuple[Floats, Floats]:
    """Ends [m, 2, C, S] of the shortest intervals, widened if necessary to contain P.

    If a chance may well be 1, its shortest interval ends at 1. A central interval would leave out
    the highest twentieth, and with it all people whom a contact makes certain to be well.
    """
    flat = histogram.reshape(-1, histogram.shape[-1])
    low, high = np.empty(histogram.shape[:-1]), np.empty(histogram.shape[:-1])
    shortest_intervals(flat, level, low.reshape(-1), high.reshape(-1))  # fills low and high
    if P.shape[3] == 2:
        low, high = (
            np.concatenate([1 - high, low], axis=-1),
            np.concatenate([1 - low, high], axis=-1),
        )
    return np.minimum(low, P), np.maximum(high, P)
