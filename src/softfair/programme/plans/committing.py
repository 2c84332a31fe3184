"""A plan in two steps: a commitment, and later the draw, with luck that nobody knew before."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InvalidInput
from ...for_json import read_json
from .. import store
from ..commitments import Commitment, luck_after
from ..eligibility import Status
from ..luck import QUICKNET, Beacon, Chain, Source
from ..models import load_model
from ..settings import current_settings
from ..snapshot import take_snapshot
from ..store import Connection, Store, plan_in_force
from .asking import NOTHING_ASKED, PlanWish, asked_for
from .commitments import (
    fixed_header,
    frozen_rows,
    last_committed,
    open_commitment_in,
    store_prepared,
)
from .counting import left_off
from .kept import Kept
from .making import draw_and_store
from .preparing import last_version, prepared
from .stored import Plan

__all__ = ["commit_plan", "draw_plan"]


def commit_plan(
    database: Store,
    software: str,
    wish: PlanWish = NOTHING_ASKED,
    chain: Chain = QUICKNET,
) -> tuple[Commitment, bool]:
    """Freeze the plan of a round, all but its luck.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the commitment is stamped with.
    wish
        What is asked of the plan. A round that is planned or committed already is committed anew
        for a reason alone.
    chain
        The chain of beacons of which one round may be the luck.

    Returns
    -------
    tuple of Commitment and bool
        The commitment, and whether it was made now.

    Raises
    ------
    InvalidInput
        As `make_plan`, and if the round is planned already.
    Infeasible
        If no plan meets the target, or the promise cannot be kept.
    Unsure
        As `make_plan`.
    """
    with database.writing() as connection:
        now, at = asked_for(connection, wish)
        if isinstance(now, Plan):
            raise InvalidInput(
                f"round {at} is planned already; commit it anew with --replan REASON"
            )
        earlier = open_commitment_in(connection, at)
        if earlier is not None and wish.replan is None:
            return earlier, False
        header, rows, _ = prepared(connection, now, at, software, wish.replan)
        return store_prepared(connection, header, rows, chain), True


def draw_plan(
    database: Store,
    luck: str | Beacon,
    source: Source = Source.TEXT,
    round: int | None = None,
    chain: Chain = QUICKNET,
) -> Plan:
    """Draw the list of a committed plan with luck from outside.

    Parameters
    ----------
    database
        The programme.
    luck
        What was seen or said after the commitment, or a round of the chain of beacons.
    source
        Whether a text was seen in public or is a second person's word.
    round
        Which round. Default: that of the last commitment.
    chain
        The chain of beacons that is trusted.

    Raises
    ------
    InvalidInput
        If nothing is committed, if the round is over or was planned since, if a promised wait
        counts an earlier list that was made anew since, or if the luck cannot be used: a beacon
        that is forged or of another round than the commitment's, or luck that was used before.
    """
    with database.writing() as connection:
        commitment = _to_be_drawn(connection, round)
        given = luck_after(connection, commitment, luck, source, chain)
        fields = fixed_header(commitment)
        _refuse_other_lists(connection, commitment, fields)
        fields |= {"version": last_version(connection, commitment.round) + 1}
        fields |= {"created": store.now()}
        _, settings = current_settings(connection)
        model = load_model(connection, fields["model"])
        return draw_and_store(connection, fields, frozen_rows(commitment), settings, model, given)


def _to_be_drawn(connection: Connection, round: int | None) -> Commitment:
    """The open commitment of a round (default: the last one)."""
    at = last_committed(connection) if round is None else round
    commitment = open_commitment_in(connection, at)
    if commitment is None:
        raise InvalidInput(
            f"{'no round' if at is None else f'round {at} does not wait for luck: no plan of it'} "
            "is committed and still to be drawn; "
            "luck comes after a commitment: softfair plan --commit"
        )
    now = take_snapshot(connection)
    if commitment.round in now.over():
        raise InvalidInput(
            f"round {commitment.round} is over, its contacts are recorded; "
            f"commit round {now.next_round()}"
        )
    planned = plan_in_force(connection, commitment.round) is not None
    if planned and not fixed_header(commitment)["reason"]:
        raise InvalidInput(
            f"round {commitment.round} was planned after it was committed; "
            "commit it anew with --commit --replan REASON"
        )
    return commitment


def _refuse_other_lists(
    connection: Connection, commitment: Commitment, parts: dict[str, Any]
) -> None:
    """Raise if a promised wait was counted from other lists than those that are in force now."""
    kept, status = Kept.from_json(read_json(parts["outlook"])), frozen_rows(commitment).status
    if kept is None or not kept.promise.wait:
        return
    drawn = status == Status.IN_DRAW
    off = left_off(connection, kept.promise, commitment.round, len(status))
    if not np.array_equal(kept.due[drawn], kept.promise.wait - off[drawn]):
        raise InvalidInput(
            f"an earlier list was made anew since round {commitment.round} was committed, and its "
            "promise counts lists; commit it anew with --commit --replan REASON"
        )
