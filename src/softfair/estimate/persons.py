"""What the averaged population and their own history say of each person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels.chains import posterior_sums
from ..kernels.threads import map_parts
from .border import Floats, Ints
from .fitting import Population
from .histories import Histories
from .population import law_at, normal_points

__all__ = ["Persons", "persons_of"]

PART = 1024  # people that a thread takes at a time
BINS = 128  # of a chance, on a scale on which chances have about equal noise
# Atoms a class at which a person's likelihood is taken, for each draw of the population: more for
# long histories, which single out few of them, and fewer for many people, where it takes time.
FEWEST_ATOMS, MOST_ATOMS, ROUNDS_AN_ATOM = 32, 256, 0.5
MANY = 20_000


@dataclass(frozen=True, eq=False)
class Persons:
    """The posterior of each person's rows."""

    P: Floats  # [n, 2, S, S]
    low: Floats  # [n, 2, S, S]
    high: Floats  # [n, 2, S, S]
    draws: np.ndarray  # float32 [L, n, 2, S, S - 1]: joint, one for each draw of the population


def persons_of(
    histories: Histories, kind: Ints, X: Floats, population: Population, level: float
) -> Persons:
    """Means, intervals and draws of people; ``kind`` [n] says which history is whose."""
    m, S = histories.n, histories.S
    M = _atoms(histories)
    laws = [
        law_at(form, phi, normal_points(form.D, M, 1 + number))
        for number, (form, phi) in enumerate(population.draws)
    ]
    L, data, longest = len(laws), histories.kernel_data(), histories.longest
    P, low, high = np.empty((m, 2, S, S)), np.empty((m, 2, S, S)), np.empty((m, 2, S, S))
    drawn = np.empty((L, m, 2, S, S - 1), np.float32)
    uniform = np.random.default_rng(0).random((L, m))

    def part(begin: int, end: int) -> None:
        mean = np.zeros((end - begin, 2, S, S))
        # Of two states one says all.
        histogram = np.zeros((end - begin, 2, S, 1 if S == 2 else S, BINS))
        one = np.empty((end - begin, 2, S, S - 1))
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
                one,
            )
            drawn[number, begin:end] = one
        P[begin:end] = mean / mean.sum(axis=3, keepdims=True)
        low[begin:end], high[begin:end] = _ends(histogram / L, P[begin:end], level)

    map_parts(part, m, PART)
    # Draws are by far the largest: one at a time, in the same place where nobody is alike.
    everybody = drawn if len(kind) == m else np.empty((L, len(kind), 2, S, S - 1), np.float32)
    for number in range(L):
        everybody[number] = drawn[number][kind]
    return Persons(P[kind], low[kind], high[kind], everybody)


def _atoms(histories: Histories) -> int:
    """Atoms a class, a power of two."""
    rounds = float(np.median(histories.seen.sum(axis=1))) or float(
        np.median(histories.moves.sum(axis=(1, 2, 3)))
    )
    wanted = np.clip(rounds / ROUNDS_AN_ATOM, 2 * FEWEST_ATOMS, MOST_ATOMS)
    if histories.n > MANY:
        wanted = FEWEST_ATOMS
    return 1 << int(np.ceil(np.log2(wanted)))


def _ends(histogram: Floats, P: Floats, level: float) -> tuple[Floats, Floats]:
    """Ends [m, 2, S, S] of the central intervals, widened to contain P where they do not."""
    below = np.cumsum(histogram, axis=-1)  # [m, 2, S, H, B]
    low, high = _quantile(below, (1 - level) / 2), _quantile(below, (1 + level) / 2)
    if P.shape[3] == 2:
        low, high = (
            np.concatenate([1 - high, low], axis=-1),
            np.concatenate([1 - low, high], axis=-1),
        )
    return np.minimum(low, P), np.maximum(high, P)


def _quantile(below: Floats, tail: float) -> Floats:
    """Where the cumulated histogram [..., B] reaches ``tail``, as a chance [...]."""
    B = below.shape[-1]
    j = np.minimum((below < tail).sum(axis=-1), B - 1)[..., None]
    after = np.take_along_axis(below, j, axis=-1)[..., 0]
    before = np.where(j[..., 0] > 0, np.take_along_axis(below, np.maximum(j - 1, 0), -1)[..., 0], 0)
    inside = np.where(after > before, (tail - before) / np.maximum(after - before, 1e-300), 0.5)
    up = (j[..., 0] + np.clip(inside, 0, 1)) / B
    return np.asarray(up**2 / (up**2 + (1 - up) ** 2))
