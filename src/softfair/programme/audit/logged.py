"""What was stated and what happened, a row a person and planned round, for other tools.

With the exact chance of every person in every round, whatever else is to be estimated from the log
can be estimated elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from ..eligibility import Site, Status
from ..settings import current_settings
from ..snapshot import load_people
from ..store import Store
from ..tracks import load_history
from .evidence import Planned, plans_in_force

__all__ = ["log_columns"]


def log_columns(database: Store) -> dict[str, list[Any]]:
    """The columns of the log.

    Parameters
    ----------
    database : Store
        The programme.

    Returns
    -------
    dict
        Name -> values, a row for each person of each plan in force, in the order of rounds:
        ``probability`` of being ``listed``, ``score`` (the gain that was computed) and ``bonus``
        (what evenness added), ``arm`` of a trial, ``state`` before the round, ``contacted`` during
        it and ``state_after``; None where that is not known. ``called`` is 1 for who was called
        from the reserve, 2 for who was by an officer's decision.

    Raises
    ------
    InvalidInput
        If no round is planned yet.
    """
    with database.reading() as connection:
        _, settings = current_settings(connection)
        people = load_people(connection)
        planned = plans_in_force(connection, people, load_history(connection))
    calendar = settings.calendar
    columns: dict[str, list[Any]] = {}
    for one in planned:
        rows = {"id": [people.names[i] for i in one.person], **_columns(one)}
        if calendar is not None:
            rows["date"] = [str(calendar.start(one.round))] * len(one.person)
        for name, values in rows.items():
            columns.setdefault(name, []).extend(values)
    if not columns:
        raise InvalidInput("no round is planned yet, so there is nothing to write; softfair plan")
    return columns


def _columns(one: Planned) -> dict[str, list[Any]]:
    """The rows of one round."""
    count = len(one.person)
    nowhere = Site("", 0)
    sites = [one.sites[j] if j >= 0 else nowhere for j in one.site.tolist()]
    return {
        "round": [one.round] * count,
        "version": [one.version] * count,
        "model": [one.model] * count,
        "c": [one.c] * count,
        "status": [Status(status).name.lower() for status in one.status.tolist()],
        "site": [site.name for site in sites],
        "arm": [site.arm for site in sites],
        "probability": one.probability.tolist(),
        "listed": one.listed.tolist(),
        "score": one.score.tolist(),
        "bonus": one.bonus.tolist(),
        "called": one.called.tolist(),
        "state": _known(one.state),
        "contacted": _known(one.contacted),
        "state_after": _known(one.after),
    }


def _known(values: NDArray[np.int64]) -> list[int | None]:
    return [value if value >= 0 else None for value in values.tolist()]
