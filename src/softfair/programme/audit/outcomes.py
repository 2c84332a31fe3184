"""Outcomes against what the models of the plans predicted.

**Predicted and realised.** A plan's model gives P(s' | state now, contacted or not) of each person;
the sum of independent outcomes has the variance sum P (1 - P). The model's P is not exact, and what
it does not know of the population is the same for many people: the covariances of their P over the
joint draws of its posterior are added. Each round is predicted from all before it, so that
variances of rounds add up. Brier's score is the mean of sum_s' (1{s'} - P)^2 / 2: 0 is perfect.

**Drift.** The people who are contacted, or in a state, now may differ from those of earlier rounds,
so earlier and recent frequencies cannot be compared. Instead each recent move is compared with what
the model of its own round, made from everything before, expected of that person: the error has mean
zero unless something changed. (A model from before all recent rounds would be biased: a person who
stays in a state longer than it expects is observed in that state more often.) The variance is that
of these errors plus that of the earlier frequency, because the models learned from earlier rounds;
both sum each person's rounds first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...for_json import WITHOUT_PREFIX
from ..tracks import History
from .predicted import CELLS, Doubt, Predicted
from .spread import Span
from .statistics import count_p, z_score

__all__ = [
    "Calibration",
    "CalibrationRow",
    "Cell",
    "ChanceBin",
    "Drift",
    "DriftRow",
    "EngagementRow",
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
    predicted: float  # given who was contacted
    low: float  # ends of the range in which the realised mean should be
    high: float
    realised: float
    z: float
    p: float
    brier: float
    brier_of_share: float  # Brier's score of predicting the realised shares for everybody
    flagged: bool = False


def engagement_of(said: Predicted, z: float) -> EngagementRow:
    """Mean reward after a round, predicted and realised.

    Parameters
    ----------
    said : Predicted
        The predictions of its model, and at least one outcome.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    EngagementRow
        What was found.
    """
    law, after = said.law, said.after
    moves, S = law.shape
    reward = np.arange(S) / (S - 1)
    mean = law @ reward  # [q]
    predicted, realised = float(mean.mean()), float(reward[after].mean())
    spread = max(float(np.sum(law @ reward**2 - mean**2)), 0.0)
    variance = (spread + (said.doubt.reward if said.doubt else 0.0)) / moves**2
    score, half = z_score(realised - predicted, variance), z * math.sqrt(variance)
    share = np.bincount(after, minlength=S) / moves
    return EngagementRow(
        round=said.round,
        people=moves,
        predicted=predicted,
        low=max(predicted - half, 0.0),
        high=min(predicted + half, 1.0),
        realised=realised,
        z=score,
        p=count_p((realised - predicted) * moves, variance * moves**2),
        brier=_brier(law, after),
        brier_of_share=_brier(np.broadcast_to(share, law.shape), after),
    )


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
    low: float  # ends of the range in which the observed share should be
    high: float
    observed: float
    z: float
    p: float
    flagged: bool = False


class Calibration:
    """Predicted and observed moves, summed in the cells of `Doubt`.

    Parameters
    ----------
    S : int
        Number of states.
    """

    def __init__(self, S: int) -> None:
        shape = (2, S, CELLS)
        self._moves = np.zeros(shape, np.int64)
        self._reached = np.zeros(shape, np.int64)  # moves to the best state
        self._predicted, self._variance = np.zeros((2, *shape))  # sums of P and of P (1 - P)
        self._least, self._most = np.full(shape, np.inf), np.full(shape, -np.inf)  # P
        self._doubts: list[Doubt] = []

    def add(self, said: Predicted) -> None:
        """Count the moves of a round."""
        place, P, S = said.place, said.best, said.law.shape[1]

        def of(some: Ints | slice = slice(None), weight: Floats | None = None) -> Any:
            return np.bincount(place[some], weight, self._moves.size).reshape(self._moves.shape)

        self._moves += of()
        self._reached += of(np.flatnonzero(said.after == S - 1))
        self._predicted += of(weight=P)
        self._variance += of(weight=P * (1 - P))
        np.minimum.at(self._least.reshape(-1), place, P)
        np.maximum.at(self._most.reshape(-1), place, P)
        if said.doubt is not None:
            self._doubts.append(said.doubt)

    def bins(self, z: float) -> tuple[CalibrationRow, ...]:
        """Predicted against observed, in bins of predicted probability.

        Parameters
        ----------
        z : float
            Standard deviations that an interval reaches to either side.

        Returns
        -------
        tuple of CalibrationRow
            A row a bin; the bins have about equally many moves.
        """
        size = self._moves.sum(axis=(0, 1))
        q = int(size.sum())
        if not q:
            return ()
        bins = int(np.clip(q // LEAST_MOVES, 1, MOST_BINS))
        bin_of = np.minimum(bins * (np.cumsum(size) - size / 2) // q, bins - 1)  # [CELLS]
        rows = []
        for j in range(bins):
            counted = np.broadcast_to(bin_of == j, self._moves.shape)
            if self._moves[counted].any():
                ends = float(self._least[counted].min()), float(self._most[counted].max())
                rows.append(self._row(ChanceBin(*ends), counted, z))
        return tuple(rows)

    def cells(self, states: Sequence[str], z: float) -> tuple[CalibrationRow, ...]:
        """Predicted against observed, by state and action.

        Parameters
        ----------
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
                counted = np.zeros(self._moves.shape, bool)
                counted[a, s] = True
                if self._moves[counted].any():
                    rows.append(self._row(Cell(bool(a), state), counted, z))
        return tuple(rows)

    def _row(
        self, moves_of: ChanceBin | Cell, counted: NDArray[np.bool_], z: float
    ) -> CalibrationRow:
        """Predicted and observed share of the moves in some cells; too few moves are not tested."""
        moves = int(self._moves[counted].sum())
        predicted = float(self._predicted[counted].sum()) / moves
        observed = float(self._reached[counted].sum() / moves)
        # Each round is predicted from all before it, so the errors of rounds have no covariance.
        doubted = sum(doubt.variance(counted) for doubt in self._doubts)
        spread = float(self._variance[counted].sum()) + doubted
        variance = spread / moves**2
        enough = moves >= LEAST_MOVES
        score = z_score(observed - predicted, variance) if enough else math.nan
        half = z * math.sqrt(variance)
        return CalibrationRow(
            moves_of=moves_of,
            moves=moves,
            predicted=predicted,
            low=max(predicted - half, 0.0),
            high=min(predicted + half, 1.0),
            observed=observed,
            z=score,
            p=count_p((observed - predicted) * moves, spread) if enough else math.nan,
        )


@dataclass(frozen=True)
class DriftRow:
    """Recent moves between two states under one action, against what was expected of them."""

    contacted: bool
    state: str
    next: str
    earlier_moves: int
    earlier: float  # share of the earlier moves that went to the next state
    moves: int
    expected: float
    low: float  # ends of the range in which the observed share should be
    high: float
    observed: float
    z: float
    p: float
    flagged: bool = False


class Drift:
    """Recent moves against what was expected of them.

    Parameters
    ----------
    told : sequence of int
        The rounds with a move of which everything is known, ascending; the later half are recent.
    history : History
        All that was recorded, also before the first plan.
    n : int
        Number of people.
    states : sequence of str
        Their names, from worst to best.
    """

    def __init__(
        self, told: Sequence[int], history: History, n: int, states: Sequence[str]
    ) -> None:
        self._recent = Span(told[len(told) // 2], told[-1]) if told else Span(None, None)
        self._states, S = states, len(states)
        # With two states, the share of one gives that of the other.
        self._next_states = list(range(1, S) if S == 2 else range(S))
        self._history, J = history, len(self._next_states)
        self._moves = np.zeros((2, S), np.int64)
        # Of the recent moves from a state under an action, by next state: each person's sum of
        # errors, the number of moves to that state, and the sums of P and of P (1 - P).
        self._error = np.zeros((J, 2 * S, n if told else 0))
        self._reached, self._expected, self._variance = np.zeros((3, J, 2, S))

    def add(self, said: Predicted) -> None:
        """Count the moves of a round."""
        if self._recent.first is None or said.round < self._recent.first:
            return
        S = len(self._states)
        place = said.action * S + said.state

        def of(weight: Any = None) -> Any:
            return np.bincount(place, weight, 2 * S).reshape(2, S)

        self._moves += of()
        for j, s2 in enumerate(self._next_states):
            P, reached = said.law[:, s2], said.after == s2
            np.add.at(self._error[j], (place, said.person), reached - P)
            self._reached[j] += of(reached)
            self._expected[j] += of(P)
            self._variance[j] += of(P * (1 - P))

    @property
    def recent(self) -> Span:
        """The first and the last recent round, if a model predicted any of their moves."""
        return self._recent if self._moves.any() else Span(None, None)

    def rows(self, z: float) -> tuple[DriftRow, ...]:
        """What was found.

        Parameters
        ----------
        z : float
            Standard deviations that an interval reaches to either side.

        Returns
        -------
        tuple of DriftRow
            A row for each state, action and next state (with two states, only the better one).
        """
        S, first = len(self._states), self._recent.first
        if first is None:
            return ()
        # The state in the first recent round ends the last earlier move.
        earlier = self._history.between(0, first).moves(self._error.shape[-1], S)
        return tuple(
            self._row(earlier[:, a, s], (a, s, j), z)
            for a in (0, 1)
            for s in range(S)
            if self._moves[a, s]
            for j in range(len(self._next_states))
        )

    def _row(self, earlier: Ints, move: tuple[int, int, int], z: float) -> DriftRow:
        """Moves from s under a to the j-th next state; ``earlier`` [n, S]: each person's from s."""
        a, s, j = move
        S, s2, recent = len(self._states), self._next_states[j], int(self._moves[a, s])
        from_s, to_s2 = earlier.sum(axis=1), earlier[:, s2]  # [n]
        before = int(from_s.sum())
        share = float(to_s2.sum()) / before if before else math.nan
        scatter = to_s2 - share * from_s  # [n]
        # The errors of a few people may be small by chance; the sum of P (1 - P) is then larger.
        error = self._error[j, a * S + s]
        spread = max(float(np.sum(error**2)), float(self._variance[j, a, s]))
        variance = spread / recent**2
        variance += float(np.sum(scatter**2)) / before**2 if before else math.nan
        expected = float(self._expected[j, a, s]) / recent
        observed = float(self._reached[j, a, s]) / recent
        enough = min(recent, before) >= LEAST_MOVES
        score = z_score(observed - expected, variance) if enough else math.nan
        half = z * math.sqrt(variance)
        return DriftRow(
            contacted=bool(a),
            state=self._states[s],
            next=self._states[s2],
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
