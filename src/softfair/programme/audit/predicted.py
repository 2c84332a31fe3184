"""What the model of a plan predicted for its round, and the outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models import UNIT, Model, averaged
from ..tracks import PEOPLE_AT_ONCE
from .planned import Planned

__all__ = ["CELLS", "Doubt", "Predicted", "cell_of", "predicted"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CELLS = 200  # cells of predicted chance, into which moves are grouped


@dataclass(frozen=True, eq=False)
class Doubt:
    """How uncertain a round's model was, by joint draws of its posterior.

    Moves are grouped by action, state and predicted chance of the best state, in CELLS cells of
    equal width. What is not known of the population is the same for all moves within a draw.
    """

    best: Floats  # [L, 2, S, CELLS] sum of the drawn chances of the best state
    own: Floats  # [2, S, CELLS] sum of the variances of the single chances
    reward: float  # variance of the sum of mean rewards, less the sum of their variances

    def variance(self, counted: Bools) -> float:
        """Variance of the sum of chances in the cells counted, less the sum of their variances.

        ``counted`` has shape (2, S, CELLS). One outcome has the variance P (1 - P), however
        uncertain P is. The sum of several outcomes has in addition the covariances of their P.
        """
        sums = self.best[:, counted].sum(axis=1)
        return max(float(sums.var(ddof=1) - self.own[counted].sum()), 0.0)


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a model predicted for the moves of a round, and the outcomes.

    Arrays [q] over people whose state before, contact and state after are known.
    """

    round: int
    person: Ints
    action: Ints
    state: Ints
    after: Ints
    law: Floats  # [q, S] probability of each next state
    # [m, 2] of everybody in the plan: mean next reward if left alone, if contacted; nan: not known
    means: Floats
    doubt: Doubt | None = None  # None: not stored with the model

    @property
    def best(self) -> Floats:
        """Predicted probability of the best state, [q]."""
        best: Floats = self.law[:, -1]
        return best

    @property
    def place(self) -> Ints:
        """The cell of each move [q], of 2 * S * CELLS, by action, state and chance."""
        S = self.law.shape[1]
        place: Ints = (self.action * S + self.state) * CELLS + cell_of(self.best)
        return place


def cell_of(best: Floats) -> Ints:
    """The number of the cell of each chance, of CELLS cells of equal width."""
    return np.minimum((best * CELLS).astype(np.int64), CELLS - 1)


def predicted(one: Planned, model: Model | None, S: int) -> Predicted:
    """The law of everybody's next state by the model of a plan.

    Parameters
    ----------
    one : Planned
        The round, with what was recorded of it.
    model : Model, optional
        Of its plan; None: it cannot be read, or is not needed as there is no outcome yet.
    S : int
        Number of states.

    Returns
    -------
    Predicted
        People who joined after the model was made have no prediction.
    """
    means = np.full((len(one.person), 2), np.nan)
    if model is None:
        nobody = np.empty(0, np.int64)
        return Predicted(
            one.round, nobody, nobody, nobody, nobody, law=np.empty((0, S)), means=means
        )
    known, before = _standing(one, model)
    there = _rows_of(model, one.person[known], one.state[known], before)  # [known, 2, S]
    means[known] = there @ (np.arange(S) / (S - 1))
    whole = np.flatnonzero((one.contacted[known] >= 0) & (one.after[known] >= 0))
    rows, before = known[whole], before[whole]
    action = one.contacted[rows]
    columns = one.person[rows], action, one.state[rows], one.after[rows]
    said = Predicted(one.round, *columns, there[whole, action], means)
    if len(model.draws) < 2 or not len(rows):
        return said
    return replace(said, doubt=_doubt(model, said, before))


def _standing(one: Planned, model: Model) -> tuple[Ints, Floats]:
    """Rows [m] of a plan whose state is known, and the law [m, B] of what was before the state."""
    known = np.flatnonzero((one.state >= 0) & (one.person < len(model.P)))
    earlier = one.state_before[known], one.contacted_before[known]
    return known, model.before(one.person[known], one.state[known], earlier)


def _rows_of(model: Model, person: Ints, state: Ints, before: Floats) -> Floats:
    """The law [m, 2, S] of the next state of people in a state, by action."""
    rows: Floats = averaged(before, state, model.P.shape[-1], lambda c: model.P[person, :, c])
    return rows


def _doubt(model: Model, said: Predicted, before: Floats) -> Doubt:
    """How uncertain a model is about some moves; ``before`` [q, B] as from `_standing`."""
    L, S, place = len(model.draws), said.law.shape[1], said.place
    best, own = np.zeros((L, 2 * S * CELLS)), np.zeros(2 * S * CELLS)
    reward, each = np.zeros(L), 0.0  # sums of mean rewards, and of the variance of each
    for first in range(0, len(place), PEOPLE_AT_ONCE):
        some = slice(first, first + PEOPLE_AT_ONCE)
        drawn = _drawn(model, said, before, some)  # [L, some, S]
        for total, chance in zip(best, drawn[..., -1], strict=True):
            total += np.bincount(place[some], chance, len(own))
        own += np.bincount(place[some], drawn[..., -1].var(axis=0, ddof=1), len(own))
        mean = drawn @ (np.arange(S) / (S - 1))
        reward += mean.sum(axis=1)
        each += mean.var(axis=0, ddof=1).sum()
    beyond = max(float(reward.var(ddof=1) - each), 0.0)
    return Doubt(best.reshape(L, 2, S, CELLS), own.reshape(2, S, CELLS), beyond)


def _drawn(model: Model, said: Predicted, before: Floats, some: slice) -> NDArray[np.float32]:
    """Joint draws [L, some, S] of the law of some moves."""
    person, action, S = said.person[some], said.action[some], said.law.shape[1]

    def drawn_of(context: Ints) -> Any:  # [some, L, S - 1]
        rest = model.draws[:, person, action, context].astype(np.float32) / UNIT
        return rest.swapaxes(0, 1)

    rest = averaged(before[some], said.state[some], S, drawn_of).swapaxes(0, 1)
    drawn: NDArray[np.float32] = np.concatenate(
        [1 - rest.sum(axis=-1, keepdims=True), rest], axis=-1
    )
    return drawn
