"""What somebody with access could have done to bend a list, and what was done.

Three things are examined in each planned round: where the luck of the draw came from; how often
the plan was made, and how many names differ between the first and the last list; and what was
changed between the last record and the plan (who may be drawn, and what was recorded before), by
whom and when. Each person has luck of their own, so the list can be drawn again without these
changes. That is done for the last MOST_DRAWN_AGAIN rounds with changes, and shows who entered and
who left the list because of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from .. import schema
from ..bulk import fetch
from ..chain import Entry
from ..commitments import IS_OF_TRIAL
from ..luck import Luck, Source
from ..plans.counterfactual import list_without
from ..plans.replaying import UNREADABLE
from ..store import Connection, names_of

__all__ = ["DeedRow", "Exchange", "deeds_of"]


Ints = NDArray[np.int64]

NEVER = 2**31 - 1  # above every round and batch number
MOST_DRAWN_AGAIN = 5  # rounds; each takes as long as two plans


@dataclass(frozen=True)
class Exchange:
    """The people who entered a list, and who left it, because of something that was done.

    Attributes
    ----------
    entered, left : int
        How many are on the list in force because of it, and how many would be on it otherwise.
    entered_people, left_people : tuple of str
        Identifiers of these people, at most as many as are to be named.
    """

    entered: int
    left: int
    entered_people: tuple[str, ...] = ()
    left_people: tuple[str, ...] = ()

    def named(self, names: int) -> Exchange:
        """The same exchange, with at most ``names`` identifiers of either kind."""
        first = self.entered_people[:names], self.left_people[:names]
        return Exchange(self.entered, self.left, *first)


@dataclass(frozen=True)
class DeedRow:
    """What was done around the plan of one round.

    Attributes
    ----------
    round : int
        Which round.
    luck : str
        Where the luck of the plan in force came from: programme, text, word, beacon, or position.
    versions : int
        How many plans were made.
    exchanged : int
        Names of the first version that are not on the list in force.
    commitments : int
        Commitments that were never drawn.
    eligibility : int
        People whose facts were changed between the last record and the plan.
    corrected : int
        States and contacts that had been recorded before, and were changed in that time.
    by : tuple of str
        Who made these changes, and when.
    replanned : Exchange, optional
        The list in force against the first version's; None: there is one version.
    changed : Exchange, optional
        The list in force against the list without the changes between the last record and the plan,
        with the same luck, estimates and c. None if there were no such changes, or if the list was
        not drawn again or cannot be.
    back : int
        People who were taken out of the programme between the plan of the round before and this
        one, and put back between this one and the next.
    """

    round: int
    luck: str
    versions: int
    exchanged: int
    commitments: int
    eligibility: int
    corrected: int
    by: tuple[str, ...]
    replanned: Exchange | None = None
    changed: Exchange | None = None
    back: int = 0

    def named(self, names: int) -> DeedRow:
        """The same row, with at most ``names`` identifiers of either kind in each exchange."""
        return replace(
            self,
            replanned=self.replanned and self.replanned.named(names),
            changed=self.changed and self.changed.named(names),
        )


def deeds_of(connection: Connection, entries: Sequence[Entry]) -> tuple[DeedRow, ...]:
    """What was done around each plan in force, in the order of rounds.

    Parameters
    ----------
    connection : Connection
        A reading transaction.
    entries : sequence of Entry
        The log, which says who wrote each batch.
    """
    p = schema.plan
    columns = (p.c.id, p.c.round, p.c.version, p.c.batch, p.c.luck)
    plans: dict[int, list[Any]] = {}
    for row in connection.execute(sa.select(*columns).order_by(p.c.round, p.c.version)).all():
        plans.setdefault(row.round, []).append(row)
    rows, again, later = [], MOST_DRAWN_AGAIN, None
    names, facts = names_of(connection), _leaving(connection)
    in_order = sorted(plans.items())
    for number, (_, versions) in reversed(list(enumerate(in_order))):
        deed, before = _deed(connection, versions, entries, names)
        earlier = in_order[number - 1][1][-1].batch if number else -1
        back = _out_and_back(facts, deed.round, earlier, versions[-1].batch, later)
        deed, later = replace(deed, back=back), versions[-1].batch
        if deed.by and before is not None and again:
            again -= 1
            deed = replace(deed, changed=_changed(connection, versions[-1].id, before, names))
        rows.append(deed)
    return tuple(reversed(rows))


def _leaving(connection: Connection) -> Ints:
    """Facts [rows, 4] of people who ever left or opted out: person, batch, opted out, departed."""
    f = schema.person_fact
    never = sa.literal(NEVER)
    gone = sa.select(f.c.person).where((f.c.opted_out == 1) | f.c.departed.is_not(None))
    columns = (f.c.person, f.c.batch, f.c.opted_out, sa.func.coalesce(f.c.departed, never))
    return fetch(connection, sa.select(*columns).where(f.c.person.in_(gone)), np.int64)


def _out_and_back(facts: Ints, at: int, earlier: int, batch: int, later: int | None) -> int:
    """How many people were taken out between the plan before and this one, and put back after it.

    Batch numbers of three plans: ``earlier`` of the one before, ``batch`` of this one, made for
    round ``at``, and ``later`` of the next; None: there is none.
    """
    facts = facts[np.argsort(facts[:, 1], kind="stable")]
    out = (facts[:, 2] == 1) | (facts[:, 3] <= at)
    before = (facts[:, 1] > earlier) & (facts[:, 1] <= batch)
    after = (facts[:, 1] > batch) & (facts[:, 1] <= (NEVER if later is None else later))
    # The last fact of a person holds.
    gone = dict(zip(facts[before, 0].tolist(), out[before].tolist(), strict=True))
    here = dict(zip(facts[after, 0].tolist(), out[after].tolist(), strict=True))
    return sum(is_out and not here.get(person, True) for person, is_out in gone.items())


def _changed(connection: Connection, plan: int, before: int, names: list[str]) -> Exchange | None:
    """Who entered or left a list by changes after batch ``before``; None: that is not known."""
    try:
        without = list_without(connection, plan, before)
    except UNREADABLE:  # the check of the database reports it
        return None
    if without is None:
        return None
    return _exchange(_listed(connection, plan), set(without.tolist()), names)


def _exchange(now: set[int], otherwise: set[int], names: list[str]) -> Exchange:
    entered, left = sorted(now - otherwise), sorted(otherwise - now)
    people = tuple(names[i] for i in entered), tuple(names[i] for i in left)
    return Exchange(len(entered), len(left), *people)


def _deed(
    connection: Connection,
    versions: Sequence[Any],  # rows of the table of plans
    entries: Sequence[Entry],
    names: list[str],
) -> tuple[DeedRow, int | None]:
    """What was done around a plan, and the last batch before."""
    first, last = versions[0], versions[-1]
    lucks = [_luck(row.luck) for row in versions]
    drawn = {luck.commitment for luck in lucks if luck is not None}
    t, b = schema.commitment, schema.batch
    of_plans = sa.select(t.c.id).where(t.c.round == last.round, ~IS_OF_TRIAL)
    committed = connection.execute(of_plans).scalars()
    before = connection.execute(
        sa.select(sa.func.max(b.c.id)).where(b.c.kind == "record", b.c.round < last.round)
    ).scalar()
    eligibility, corrected, batches = _changes(connection, before, last.batch)
    source = lucks[-1].source if lucks[-1] is not None else "position"
    new = _listed(connection, last.id)
    old = new if len(versions) == 1 else _listed(connection, first.id)
    row = DeedRow(
        round=last.round,
        luck=str(source),
        versions=len(versions),
        exchanged=len(old - new),
        commitments=len(set(committed) - drawn),
        eligibility=eligibility,
        corrected=corrected,
        by=tuple(dict.fromkeys(_writer(entries, number) for number in batches)),
        replanned=_exchange(new, old, names) if len(versions) > 1 else None,
    )
    return row, before


def _luck(text: str | None) -> Luck | None:
    try:
        return None if text is None else Luck.from_json(text)
    except (ValueError, KeyError, TypeError):  # the check of the database reports it
        return Luck(Source.PROGRAMME)


def _listed(connection: Connection, plan: int) -> set[int]:
    r = schema.plan_row
    rows = sa.select(r.c.person).where(r.c.plan == plan, r.c.listed == 1)
    return set(fetch(connection, rows, np.int64)[:, 0].tolist())


def _changes(connection: Connection, before: int | None, upto: int) -> tuple[int, int, list[int]]:
    """Numbers of people and observations that batches in (before, upto] changed; these batches."""
    if before is None or before >= upto:  # nothing was recorded before: this is the set-up
        return 0, 0, []
    f, o = schema.person_fact, schema.observation
    earlier = f.alias()
    facts = sa.select(f.c.person, f.c.batch).where(
        f.c.batch > before,
        f.c.batch <= upto,
        sa.exists().where(earlier.c.person == f.c.person, earlier.c.batch <= before),
    )
    people = connection.execute(facts).all()
    known = o.alias()
    seen = sa.select(o.c.batch).where(
        o.c.batch > before,
        o.c.batch <= upto,
        sa.exists().where(
            known.c.person == o.c.person,
            known.c.round == o.c.round,
            known.c.batch <= before,
        ),
    )
    corrections = list(connection.execute(seen).scalars())
    batches = sorted({row.batch for row in people} | set(corrections))
    return len({row.person for row in people}), len(corrections), batches


def _writer(entries: Sequence[Entry], batch: int) -> str:
    """Who wrote a batch, and when, as the log says."""
    for entry in entries:
        try:
            if entry.parts()[1].get("batch", -1) >= batch:
                return f"{entry.who()} on {entry.created}"
        except ValueError:
            break
    return "somebody whom the log does not tell of"
