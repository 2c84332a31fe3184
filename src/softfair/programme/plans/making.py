"""Making a plan: its lists are drawn, and it is stored with the order of its reserve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...for_json import read_json
from ..eligibility import Status, sites_of
from ..luck import Identifiers, Luck, Source
from ..models import Model
from ..settings import Settings
from ..store import Connection, Store, names_of
from .asking import NOTHING_ASKED, PlanWish, asked_for, planned_before
from .commitments import open_commitment_in
from .drawing import drawn_by_luck, in_order
from .kept import Kept, terms_of
from .preparing import prepared
from .stored import NO_RESERVE, Header, Plan, Reserve, Rows, store_plan

__all__ = ["draw_and_store", "luck_of_rows", "make_plan", "reserve_of"]

UNKNOWN_LUCK = Luck(Source.PROGRAMME)


def make_plan(
    database: Store,
    software: str,
    wish: PlanWish = NOTHING_ASKED,
) -> tuple[Plan, bool]:
    """The plan of a round, made if there is none yet.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the plan is stamped with.
    wish
        What is asked of the plan.

    Returns
    -------
    tuple of Plan and bool
        The plan, and whether it was made now.

    Raises
    ------
    InvalidInput
        If the round is over or committed, if nobody is in the programme, if there is no plan to
        replace, or if the existing plan has another target, policy or promise than those given.
    Infeasible
        If no plan meets the target, or the promise cannot be kept.
    Unsure
        If nothing can be learnt from the history, if the round is not the next one, or if a
        committed trial waits for its luck.
    """
    with database.writing() as connection:
        before = planned_before(connection, wish)
        if before is not None:
            return before, False
        now, at = asked_for(connection, wish)
        if isinstance(now, Plan):
            return now, False
        committed = open_commitment_in(connection, at)
        if committed is not None and wish.replan is None:
            raise InvalidInput(
                f"round {at} is committed, with the code {committed.code}; "
                "draw it with --luck TEXT or --beacon FILE"
            )
        header, rows, model = prepared(connection, now, at, software, wish.replan)
        return draw_and_store(connection, header, rows, now.settings, model, UNKNOWN_LUCK), True


def draw_and_store(
    connection: Connection,
    parts: dict[str, Any],
    rows: Rows,
    settings: Settings,
    model: Model,
    luck: Luck,
) -> Plan:
    """Draw the lists of all sites, and store the plan."""
    key, names = luck.key(settings.seed, parts["round"]), names_of(connection)
    kept = Kept.from_json(read_json(parts["outlook"]))
    listed, numbers = (
        np.zeros(len(rows.person), np.int64),
        luck_of_rows(key, rows, Identifiers(names)),
    )
    for j, one in enumerate(sites_of(parts["sites"])):
        who = rows.in_draw(j)
        c, terms = one.c(parts["c"]), terms_of(kept, one, j, rows.status, rows.site)
        luck_here = numbers[who]
        listed[who[drawn_by_luck(rows.drawn_by[who], c, one.capacity, key, luck_here, terms)]] = 1
    header = Header(**parts, seed=key, luck=luck.to_json())
    drawn = replace(rows, listed=listed)
    return store_plan(connection, header, drawn, reserve_of(header, drawn, numbers), names, model)


def luck_of_rows(key: str, rows: Rows, names: Identifiers) -> NDArray[np.uint64]:
    """The luck of everybody in a plan's draws [m, 2], 0 for the others."""
    who = np.flatnonzero(rows.status == Status.IN_DRAW)
    numbers = np.zeros((len(rows.person), 2), np.uint64)
    numbers[who] = names.numbers(key, rows.person[who])
    return numbers


def reserve_of(header: Header, rows: Rows, numbers: NDArray[np.uint64]) -> Reserve:
    """The order in which people are called, as it follows from a plan's scores, lists and luck."""
    parts, kept = [NO_RESERVE], Kept.from_json(read_json(header.outlook))
    for j, one in enumerate(sites_of(header.sites)):
        who = rows.in_draw(j)
        listed, cell = np.flatnonzero(rows.listed[who]), None
        if kept is not None and kept.promise.grouped:
            cell = kept.belonging.cell[who]
        luck_here = numbers[who]
        order = in_order(rows.drawn_by[who], one.c(header.c), listed, header.seed, luck_here, cell)
        place = np.arange(1, len(order.who) + 1)
        parts.append(Reserve(rows.person[who[order.who]], place, order.chance))
    person, place, chance = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("person", "place", "chance")
    )
    by_person = np.argsort(person, kind="stable")
    return Reserve(person[by_person], place[by_person], chance[by_person])
