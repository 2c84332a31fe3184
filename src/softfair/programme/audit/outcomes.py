"""Outcomes against what the models of the plans predicted.

**Predicted and realised.** A plan's model gives P(s' | state now, contacted or not) of each person;
outcomes that are independent have a sum of the variance sum P (1 - P). The model's P is not exact,
and what it does not know of the population is the same for many people: the covariances of their P
within the joint draws of its posterior are added. Each round is predicted from all before it, so
that variances of rounds add up. Brier's score is the mean of
sum_s' (1{s'} - P)^2 / 2: 0 is perfect.

**Drift.** The people who are contacted, or in a state, now may differ from those of earlier rounds,
so the frequencies of then and now do not compare. Instead each recent move is compared with what
the model of its own round, made from everything before, expected of that person: the error has mean
zero unless something changed. (A model from before all recent rounds would be biased: a person who
stays in a state longer than it expects is observed in that state more often.) The variance is that
of these errors plus, because the models had to learn from them, that of the earlier frequency; both
sum each person's rounds first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...for_json import WITHOUT_PREFIX
from .evidence import CELLS, History, Predictions
from .spread import Span
from .statistics import count_p, z_score

__all__ = [
    "CalibrationRow",
    "Cell",
    "ChanceBin",
    "DriftRow",
    "EngagementRow",
    "calibration_of",
    "cells_of",
    "drift_of",
    "engagement_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_BINS = 10
LEAST_MOVES = 20  # in a bin or cell: enough for the normal law


@dataclass(frozen=True)
class EngagementRow:
    """Mean reward after one round, predicted and realised."""

    round: int
    people: int
    predicted: float  # knowing who was contacted
    low: float  # between which the realised mean should be
    high: float
    realised: float
    z: float
    p: float
    brier: float
    brier_of_share: float  # of giving everybody the realised shares
    flagged: bool = False


def engagement_of(predictions: Predictions, z: float) -> tuple[EngagementRow, ...]:
    """Mean reward after each round, predicted and realised.

    Parameters
    ----------
    predictions : Predictions
        The predictions of the models, and the outcomes.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    tuple of EngagementRow
        A row a round with outcomes.
    """
    S = predictions.law.shape[1]
    reward = np.arange(S) / (S - 1)
    rows = []
    for number in np.unique(predictions.round):
        moves = np.flatnonzero(predictions.round == number)
        law, after = predictions.law[moves], predictions.after[moves]
        mean = law @ reward  # [q]
        predicted, realised = float(mean.mean()), float(reward[after].mean())
        known = predictions.doubt.get(int(number))
        spread = max(float(np.sum(law @ reward**2 - mean**2)), 0.0)
        variance = (spread + (known.reward if known else 0.0)) / len(moves) ** 2
        score, half = z_score(realised - predicted, variance), z * math.sqrt(variance)
        p = count_p((realised - predicted) * len(moves), variance * len(moves) ** 2)
        share = np.bincount(after, minlength=S) / len(moves)
        rows.append(
            EngagementRow(
                round=int(number),
                people=len(moves),
                predicted=predicted,
                low=max(predicted - half, 0.0),
                high=min(predicted + half, 1.0),
                realised=realised,
                z=score,
                p=p,
                brier=_brier(law, after),
                brier_of_share=_brier(np.broadcast_to(share, law.shape), after),
            )
        )
    return tuple(rows)


def _brier(law: Floats, after: Ints) -> float:
    """Mean of sum_s' (1{s'} - P)^2 / 2; law [q, S], after [q]."""
    hit = law[np.arange(len(after)), after]
    return float(np.mean((np.sum(law**2, axis=1) - 2 * hit + 1) / 2))


@dataclass(frozen=True)
class ChanceBin:
    """Moves whose predicted probabilities of the best state are close."""

    from_: float
    to: float


@dataclass(frozen=True)
class Cell:
    """Moves from one state under one action."""

    contacted: bool
    state: str


@dataclass(frozen=True)
class CalibrationRow:
    """The share that reached the best state, predicted and observed."""

    moves_of: ChanceBin | Cell = field(metadata=WITHOUT_PREFIX)
    moves: int
    predicted: float
    low: float  # between which the observed share should be
    high: float
    observed: float
    z: float
    p: float
    flagged: bool = False


def calibration_of(predictions: Predictions, z: float) -> tuple[CalibrationRow, ...]:
    """Predicted against observed, in bins of predicted probability.

    Parameters
    ----------
    predictions : Predictions
        The predictions of the models, and the outcomes.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    tuple of CalibrationRow
        A row a bin; the bins have about equally many moves.
    """
    q, S = predictions.law.shape
    if not q:
        return ()
    bins = int(np.clip(q // LEAST_MOVES, 1, MOST_BINS))
    size = np.bincount(predictions.cell, minlength=CELLS)
    bin_of = np.minimum(bins * (np.cumsum(size) - size / 2) // q, bins - 1)  # [CELLS]
    rows = []
    for j in range(bins):
        moves = np.flatnonzero(bin_of[predictions.cell] == j)
        if len(moves):
            best = predictions.best[moves]
            ends = ChanceBin(float(best.min()), float(best.max()))
            counted = np.broadcast_to(bin_of == j, (2, S, CELLS))
            rows.append(_calibrated(predictions, ends, moves, counted, z))
    return tuple(rows)


def cells_of(
    predictions: Predictions, states: Sequence[str], z: float
) -> tuple[CalibrationRow, ...]:
    """Predicted against observed, by state and action.

    Parameters
    ----------
    predictions : Predictions
        The predictions of the models, and the outcomes.
    states : sequence of str
        Their names, from worst to best.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    tuple of CalibrationRow
        A row a state and action that have moves.
    """
    rows = []
    for a in (0, 1):
        for s, state in enumerate(states):
            moves = np.flatnonzero((predictions.action == a) & (predictions.state == s))
            if len(moves):
                counted = np.zeros((2, len(states), CELLS), bool)
                counted[a, s] = True
                rows.append(_calibrated(predictions, Cell(bool(a), state), moves, counted, z))
    return tuple(rows)


def _calibrated(
    predictions: Predictions,
    moves_of: ChanceBin | Cell,
    moves: Ints,
    counted: NDArray[np.bool_],
    z: float,
) -> CalibrationRow:
    """Predicted and observed shares of some moves; too few of them are not tested.

    ``counted`` [2, S, CELLS] says where they are.
    """
    P = predictions.best[moves]
    predicted = float(P.mean())
    observed = float(np.mean(predictions.after[moves] == predictions.law.shape[1] - 1))
    spread = float(np.sum(P * (1 - P))) + predictions.doubted(counted)
    variance = spread / len(moves) ** 2
    enough = len(moves) >= LEAST_MOVES
    score = z_score(observed - predicted, variance) if enough else math.nan
    half = z * math.sqrt(variance)
    return CalibrationRow(
        moves_of=moves_of,
        moves=len(moves),
        predicted=predicted,
        low=max(predicted - half, 0.0),
        high=min(predicted + half, 1.0),
        observed=observed,
        z=score,
        p=count_p((observed - predicted) * len(moves), spread) if enough else math.nan,
    )


@dataclass(frozen=True)
class DriftRow:
    """Recent moves between two states under one action, against what was expected of them."""

    contacted: bool
    state: str
    next: str
    earlier_moves: int
    earlier: float  # their share that went to the next state
    moves: int
    expected: float
    low: float  # between which the observed share should be
    high: float
    observed: float
    z: float
    p: float
    flagged: bool = False


def drift_of(
    predictions: Predictions, history: History, n: int, states: Sequence[str], z: float
) -> tuple[tuple[DriftRow, ...], Span]:
    """Recent moves against what was expected of them.

    Parameters
    ----------
    predictions : Predictions
        The predictions of the models, and the outcomes.
    history : History
        All that was recorded, also before the first plan.
    n : int
        Number of people.
    states : sequence of str
        Their names, from worst to best.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    tuple of DriftRow
        A row a state, action and next state (of two states the better one).
    Span
        The recent rounds: the later half of those with outcomes.
    """
    rounds, S = np.unique(predictions.round), len(states)
    if not len(rounds):
        return (), Span(None, None)
    first, last = int(rounds[len(rounds) // 2]), int(rounds[-1])
    # The state in the first recent round ends the last earlier move.
    earlier = history.between(0, first).moves(n, S)
    # Of two states the share of one says all.
    next_states = range(1, S) if S == 2 else range(S)
    rows = []
    for a in (0, 1):
        for s in range(S):
            moves = np.flatnonzero(
                (predictions.round >= first) & (predictions.action == a) & (predictions.state == s)
            )
            if len(moves):
                for s2 in next_states:
                    rows.append(_drifted(predictions, moves, earlier, (a, s, s2), states, z))
    return tuple(rows), Span(first, last)


def _drifted(
    predictions: Predictions,
    moves: Ints,
    earlier: Ints,
    move: tuple[int, int, int],
    states: Sequence[str],
    z: float,
) -> DriftRow:
    """Recent moves from s under a, and how many went to s2; earlier [n, 2, S, S] of each person."""
    a, s, s2 = move
    n, recent = len(earlier), len(moves)
    P, reached = predictions.law[moves, s2], predictions.after[moves] == s2
    error = np.bincount(predictions.person[moves], reached - P, n)  # [n]
    from_s, to_s2 = earlier[:, a, s].sum(axis=1), earlier[:, a, s, s2]  # [n]
    before = int(from_s.sum())
    share = float(to_s2.sum()) / before if before else math.nan
    scatter = to_s2 - share * from_s  # [n]
    # A few people may differ little by chance; the variance by their chances is then larger.
    spread = max(float(np.sum(error**2)), float(np.sum(P * (1 - P))))
    variance = spread / recent**2 + (float(np.sum(scatter**2)) / before**2 if before else math.nan)
    expected, observed = float(P.mean()), float(reached.mean())
    enough = min(recent, before) >= LEAST_MOVES
    score = z_score(observed - expected, variance) if enough else math.nan
    half = z * math.sqrt(variance)
    return DriftRow(
        contacted=bool(a),
        state=states[s],
        next=states[s2],
        earlier_moves=before,
        earlier=share,
        moves=recent,
        expected=expected,
        low=max(expected - half, 0.0),
        high=min(expected + half, 1.0),
        observed=observed,
        z=score,
        p=count_p((observed - expected) * recent, variance * recent**2) if enough else math.nan,
    )
