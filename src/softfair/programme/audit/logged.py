"""What was stated and what happened: a row for each person and planned round, for other tools.

The log has the exact chance of every person in every round, so that other tools can estimate from
it whatever the audit does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...errors import InvalidInput
from .. import schema
from ..dates import Calendar
from ..eligibility import Site, Status
from ..settings import current_settings
from ..snapshot import load_people
from ..store import Store
from ..tables import PIECE, Pieces
from ..tracks import load_history
from .evidence import PlansInForce
from .planned import Planned

__all__ = ["log_table"]

KINDS: dict[str, type] = {"id": str, "round": int, "version": int, "model": int, "c": float}
KINDS |= {"status": str, "site": str, "arm": str, "probability": float, "listed": int}
KINDS |= {"score": float, "bonus": float, "called": int, "state": int, "contacted": int}
KINDS |= {"state_after": int}


def log_table(database: Store) -> Pieces:
    """The log, a plan at a time.

    Parameters
    ----------
    database : Store
        The programme.

    Returns
    -------
    Pieces
        A row for each person of each plan in force, in the order of rounds:
        ``probability`` of being ``listed``, ``score`` (the gain that was computed) and ``bonus``
        (what evenness added), ``arm`` of a trial, ``state`` before the round, ``contacted`` during
        it and ``state_after``; None where that is not known. ``called`` is 1 for people called from
        the reserve in order, 2 for people called by an officer's decision.

    Raises
    ------
    InvalidInput
        If no round is planned yet.
    """
    with database.reading() as connection:
        _, settings = current_settings(connection)
        if connection.execute(sa.select(schema.plan.c.id).limit(1)).first() is None:
            raise InvalidInput(
                "no round is planned yet, so there is nothing to write; softfair plan"
            )
    calendar = settings.calendar
    kinds = KINDS if calendar is None else {**KINDS, "date": str}
    return Pieces(kinds, _pieces(database, calendar))


def _pieces(database: Store, calendar: Calendar | None) -> Iterator[dict[str, list[Any]]]:
    """The rows of all plans, one plan after the other, as of one moment of the database."""
    with database.reading() as connection:
        people = load_people(connection)
        for one in PlansInForce.of(connection, people, load_history(connection)):
            for first in range(0, len(one.person), PIECE):
                rows = slice(first, first + PIECE)
                names = [people.names[i] for i in one.person[rows]]
                columns = {"id": names, **_columns(one, rows)}
                if calendar is not None:
                    columns["date"] = [str(calendar.start(one.round))] * len(names)
                yield columns


def _columns(one: Planned, rows: slice) -> dict[str, list[Any]]:
    """Some rows of one round."""
    site_of = one.site[rows].tolist()
    nowhere, count = Site("", 0), len(site_of)
    sites = [one.sites[j] if j >= 0 else nowhere for j in site_of]
    return {
        "round": [one.round] * count,
        "version": [one.version] * count,
        "model": [one.model] * count,
        "c": [one.c] * count,
        "status": [Status(status).name.lower() for status in one.status[rows].tolist()],
        "site": [site.name for site in sites],
        "arm": [site.arm for site in sites],
        "probability": one.probability[rows].tolist(),
        "listed": one.listed[rows].tolist(),
        "score": one.score[rows].tolist(),
        "bonus": one.bonus[rows].tolist(),
        "called": one.called[rows].tolist(),
        "state": _known(one.state[rows]),
        "contacted": _known(one.contacted[rows]),
        "state_after": _known(one.after[rows]),
    }


def _known(values: NDArray[np.int64]) -> list[int | None]:
    return [value if value >= 0 else None for value in values.tolist()]
