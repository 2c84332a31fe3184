"""Checking a programme: tables against the log, draws anew, the log against a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from . import chain, schema, tracks
from .chain import Checkpoint
from .luck import QUICKNET, Chain, seed_hash
from .models import Contents
from .notes import signed
from .plans.replaying import Replays, Stored, Verdict, readable_reserve, trial_faults
from .plans.stored import Reserve, reserve_among, rows_among
from .settings import Settings
from .store import Connection, Store

__all__ = ["Check", "check", "check_in", "head"]


@dataclass(frozen=True)
class Check:
    """What a check found.

    Parameters
    ----------
    entries
        The number of entries of the log.
    checkpoint
        The log's head now, signed if there is a key.
    began
        When the log began, if there were rows before it, else None.
    faults
        Where the tables are not what the log says.
    verdicts
        The replay of each plan.
    since
        How the log differs from the log at an earlier checkpoint.
    trial
        What is wrong with the assignment of a trial; None: there is none.
    """

    entries: int
    checkpoint: str
    began: str | None
    faults: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    since: tuple[str, ...] = ()
    trial: tuple[str, ...] | None = None

    @property
    def wrong(self) -> tuple[str, ...]:
        """Everything that is wrong, in sentences."""
        plans = (
            f"plan of round {one.round}, version {one.version}: {'; '.join(one.wrong)}"
            for one in self.verdicts
            if one.wrong
        )
        return (*self.since, *self.faults, *(self.trial or ()), *plans)


def check(database: Store, against: Checkpoint | None = None, beacons: Chain = QUICKNET) -> Check:
    """Check every table against the log, replay every draw, and compare with an earlier head.

    Parameters
    ----------
    database
        The programme; nothing is written.
    against
        A checkpoint from an earlier time.
    beacons
        The chain of beacons that is trusted.

    Returns
    -------
    Check
        What was found.
    """
    with database.reading() as connection:
        return check_in(connection, against, beacons)


def check_in(
    connection: Connection, against: Checkpoint | None = None, beacons: Chain = QUICKNET
) -> Check:
    """As `check`, within a transaction."""
    entries, origin = chain.entries_of(connection, schema.tables), origin_of(connection)
    looks = _Looks(connection, beacons)
    faults = tuple(chain.faults_of(connection, schema.tables, entries, looks))
    faults += tuple(looks.counted.faults(connection))
    since = () if against is None else tuple(chain.compare(entries, against, origin))
    return Check(
        entries=len(entries),
        checkpoint=signed(str(chain.checkpoint_of(entries, origin))),
        began=_began(entries),
        faults=faults,
        verdicts=tuple(looks.replays.verdicts(connection, looks.contents)),
        since=since,
        trial=trial_faults(connection, beacons),
    )


class _Looks:
    """Looks at rows while they are compared with the log, so that millions are read once."""

    def __init__(self, connection: Connection, beacons: Chain) -> None:
        self._connection = connection
        self.counted = tracks.Recount(connection)
        self.contents = Contents()
        self.replays = Replays(connection, beacons)

    def glance(self, table: sa.Table, row: Sequence[Any]) -> None:
        """As `chain.Watch` has it."""
        self.contents.glance(table, row)

    def follow(self, texts: chain.Columns) -> Callable[[chain.Columns], None]:
        """As `chain.Watch` has it."""
        plans: list[tuple[Stored, Reserve | None]] = []
        numbers = texts["plan"]["id"] if {"plan", "plan_row"} <= set(texts) else ()
        for number in numbers:
            plan = self.replays.stored(self._connection, number)
            if plan is not None:
                with_it = "reserve" in texts  # plans from before there were reserves have none
                reserve = None if with_it else readable_reserve(self._connection, number)
                plans.append((plan, reserve))

        def followed(columns: chain.Columns) -> None:
            if "observation" in columns:
                self.counted.lay(columns["observation"])
            for plan, reserve in plans:
                if "reserve" in columns:
                    reserve = reserve_among(columns["reserve"], plan.number)
                self.replays.replay(plan, rows_among(columns["plan_row"], plan.number), reserve)

        return followed


def head(database: Store) -> str:
    """The checkpoint of a programme's log now, signed if there is a key."""
    with database.reading() as connection:
        entries = chain.entries_of(connection, schema.tables)
        return signed(str(chain.checkpoint_of(entries, origin_of(connection))))


def origin_of(connection: Connection) -> str:
    """Whose log it is: the hash of the programme's seed."""
    s = schema.setting
    content = connection.execute(sa.select(s.c.content).order_by(s.c.id).limit(1)).scalar()
    try:
        return f"softfair/{seed_hash(Settings.from_json(content or '').seed)}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "softfair/settings-are-missing"


def _began(entries: list[chain.Entry]) -> str | None:
    """When the log began, if its first entry has plans or people: the programme is older."""
    try:
        added = entries[0].parts()[2] if entries else {}
    except ValueError:
        return None
    return entries[0].created if "person" in added or "plan" in added else None
