"""The part of the evidence that is about one round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...errors import InvalidInput
from .evidence import Evidence, Predictions

__all__ = ["of_round"]


def of_round(evidence: Evidence, round: int) -> Evidence:
    """What is known of one planned round.

    Parameters
    ----------
    evidence : Evidence
        Of the whole programme.
    round : int
        Which round.

    Returns
    -------
    Evidence
        Its plan, contacts, outcomes and predictions. The trial, whose effects are those of all its
        rounds together, is left out; the check of the database is of all that is stored.

    Raises
    ------
    InvalidInput
        If the round has no plan.
    """
    place = [one.round for one in evidence.planned]
    if round not in place:
        planned = ", ".join(map(str, place)) or "none"
        raise InvalidInput(f"round {round} has no plan; rounds with one: {planned}")
    at = place.index(round)
    return replace(
        evidence,
        planned=[evidence.planned[at]],
        history=evidence.history.between(round, round + 1),
        predictions=_predictions_of(evidence.predictions, round, at),
        deeds=tuple(row for row in evidence.deeds if row.round == round),
        trial=None,
        horizon=1,
        models={},
    )


def _predictions_of(all_: Predictions, round: int, at: int) -> Predictions:
    rows = np.flatnonzero(all_.round == round)
    moves = {
        name: getattr(all_, name)[rows]
        for name in ("person", "round", "action", "state", "after", "law")
    }
    doubt = {round: all_.doubt[round]} if round in all_.doubt else {}
    return Predictions(**moves, doubt=doubt, means=all_.means[at : at + 1])
