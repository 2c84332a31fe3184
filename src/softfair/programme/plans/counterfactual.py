"""What the list of a plan would have been without some changes shortly before it.

Each person has luck of their own, so the same draw can be made from other people: with the plan's
own estimates, c, capacities and key, and with what was known before the changes. Nothing else is
drawn anew, so people enter or leave the list only because of the changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...for_json import read_json
from .. import schema
from ..assignment import load_trial
from ..eligibility import eligibility_of
from ..models import load_model
from ..outlook import Outlook
from ..settings import Settings
from ..snapshot import Snapshot, load_people
from ..store import Connection, names_of
from ..tracks import AsOf, counted_anew
from .counting import left_off
from .drawing import drawn_by_luck
from .kept import Kept, belonging_of, terms_of
from .preparing import cohorts_of, undrawn
from .stored import Header, load_header, plan_rows

__all__ = ["list_without"]

Ints = NDArray[np.int64]


def list_without(connection: Connection, number: int, before: int) -> Ints | None:
    """Whom the plan with a number would have listed without the changes after a batch.

    Parameters
    ----------
    connection
        Of a reading transaction.
    number
        The number of the plan.
    before
        The last batch whose changes count. Later entries about what was not known before count too.

    Returns
    -------
    numpy.ndarray or None
        Numbers of the people; None: it cannot be told, because the plan's own list does not follow
        from what is stored by this version of the software.
    """
    header, _ = load_header(connection, number)
    rows = plan_rows(connection, number)
    if header.luck is None:
        return None
    own = _drawn(connection, header, AsOf(header.batch, header.batch))
    if not np.array_equal(own, rows.person[rows.listed == 1]):
        return None
    return _drawn(connection, header, AsOf(before, header.batch))


def _drawn(connection: Connection, header: Header, at: AsOf) -> Ints:
    """The people whom a plan's draws put on the list, given what was known at a moment."""
    query = sa.select(schema.setting.c.content).where(schema.setting.c.id == header.setting)
    content = connection.execute(query).scalar_one()
    now = Snapshot(
        header.setting,
        Settings.from_json(content),
        at.upto,
        load_people(connection, at),
        counted_anew(connection, at=at),
        trial=load_trial(connection),
    )
    model, fields = load_model(connection, header.model), read_json(header.outlook)
    outlook, kept = Outlook.from_json(fields), Kept.from_json(fields)
    if kept is not None and kept.promise.wait:
        off = left_off(connection, kept.promise, header.round, now.people.n)
        kept = replace(kept, due=np.maximum(kept.promise.wait - off, 1))
    if kept is not None and kept.promise.grouped:
        kept = replace(kept, belonging=belonging_of(kept.promise, now.people))
    eligibility = eligibility_of(now, header.round)
    cohorts = cohorts_of(now, model, header.round, header.horizon, eligibility, kept)
    state, _ = now.history.of(header.round, now.people.n)
    undecided, names = undrawn(eligibility, state, cohorts, outlook, kept), names_of(connection)
    listed = []
    for j, one in enumerate(eligibility.sites):
        who, terms = undecided.in_draw(j), terms_of(kept, one, j, undecided.status, undecided.site)
        score, identifiers = undecided.drawn_by[who], [names[i] for i in who]
        key, c = header.seed, one.c(header.c)
        listed.append(who[drawn_by_luck(score, c, one.capacity, key, identifiers, terms)])
    return np.sort(np.concatenate(listed))
