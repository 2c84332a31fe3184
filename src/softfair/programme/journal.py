"""Who did what, when, from which file; and how the settings came to be what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ..for_json import for_json
from . import schema
from .aims import Target
from .commitments import IS_OF_TRIAL, code_of, luck_of_trial
from .settings import Settings, Tried
from .store import Connection, Store
from .tracks import retracted_batches

__all__ = ["Act", "SettingsChange", "journal", "settings_history"]


@dataclass(frozen=True)
class Act:
    """One thing that somebody did."""

    created: str
    who: str
    what: str  # such as "record" or "plan"
    number: int  # of the batch, plan, model or setting
    file: str | None
    rows: int | None  # in the file
    stored: int | None  # of these, new or changed
    round: int | None
    note: str  # its reason, or what became of it


def _signatures(connection: Connection) -> dict[tuple[str, int], str]:
    s = schema.signature
    return {(row.kind, row.number): row.who for row in connection.execute(sa.select(s))}


def journal(database: Store) -> list[Act]:
    """Everything that was done, from the first to the last.

    The people who are helped are not named in it.
    """
    b, p, m, s = schema.batch, schema.plan, schema.model, schema.setting
    with database.reading() as connection:
        who, gone = _signatures(connection), retracted_batches(connection)
        acts = []
        for row in connection.execute(sa.select(b).order_by(b.c.id)):
            reason = f": {row.reason}" if row.reason else ""
            notes = [f"retracts batch {row.retracts}{reason}"] if row.retracts else [reason[2:]]
            notes += ["closes the round"] * bool(row.closes)
            notes += ["retracted"] * (row.id in gone)
            sizes = (row.file, row.rows, row.stored, row.round, "; ".join(filter(None, notes)))
            name = who.get(("batch", row.id), "")
            acts.append(Act(row.created, name, row.kind, row.id, *sizes))
        settings = sa.select(s.c.id, s.c.created).order_by(s.c.id)
        for row in connection.execute(settings):
            name = who.get(("setting", row.id), "")
            acts.append(Act(row.created, name, "settings", row.id, None, None, None, None, ""))
        models = sa.select(m.c.id, m.c.created).order_by(m.c.id)
        for row in connection.execute(models):
            name = who.get(("model", row.id), "")
            acts.append(Act(row.created, name, "fit", row.id, None, None, None, None, ""))
        plans = sa.select(p.c.id, p.c.created, p.c.round, p.c.version, p.c.reason).order_by(p.c.id)
        for row in connection.execute(plans):
            note = f"version {row.version}: {row.reason}" if row.version > 1 else ""
            name = who.get(("plan", row.id), "")
            acts.append(Act(row.created, name, "plan", row.id, None, None, None, row.round, note))
        t = schema.trial
        trials = sa.select(t.c.id, t.c.created, t.c.first, t.c.last, t.c.design)
        for row in connection.execute(trials.order_by(t.c.id)):
            luck = luck_of_trial(row.design).sentence("assigned").removesuffix(".")
            note = f"rounds {row.first} to {row.last}, arms {luck}"
            name = who.get(("trial", row.id), "")
            acts.append(Act(row.created, name, "trial", row.id, None, None, None, row.first, note))
        acts += [*_commitments(connection, who), *_calls(connection, who)]
        a = schema.account
        for row in connection.execute(sa.select(a).order_by(a.c.id)):
            note = f"{row.name}: {row.role or 'closed'}"
            sizes = (None, None, None, None, note)
            acts.append(Act(row.created, row.made_by, "account", row.id, *sizes))
    return sorted(acts, key=lambda act: act.created)


def _commitments(connection: Connection, who: dict[tuple[str, int], str]) -> list[Act]:
    """The commitments, made before the luck of a draw was known."""
    t = schema.commitment
    columns = (t.c.id, t.c.created, t.c.round, t.c.digest, IS_OF_TRIAL.label("of_trial"))
    acts = []
    for row in connection.execute(sa.select(*columns).order_by(t.c.id)):
        of = "a trial" if row.of_trial else "the plan"
        note = f"{of}, all but its luck: code {code_of(row.digest)}"
        name = who.get(("commitment", row.id), "")
        acts.append(Act(row.created, name, "commit", row.id, None, None, None, row.round, note))
    return acts


def _calls(connection: Connection, who: dict[tuple[str, int], str]) -> list[Act]:
    """Calls from the reserve."""
    t, p = schema.call, schema.plan
    query = sa.select(t, p.c.round).join(p, p.c.id == t.c.plan).order_by(t.c.id)
    acts = []
    for row in connection.execute(query):
        note = f"{'called' if row.calls else 'taken off'} ({row.why})"
        note += f": {row.reason}" if row.reason else ""
        name = who.get(("call", row.id), "")
        acts.append(Act(row.created, name, "reserve", row.id, None, None, None, row.round, note))
    return acts


@dataclass(frozen=True)
class SettingsChange:
    """One change of the settings."""

    number: int
    created: str
    who: str
    changes: dict[str, tuple[Any, Any]]  # setting -> (before, after); the first: from the defaults


def settings_history(database: Store) -> list[SettingsChange]:
    """Every change of the settings, from the first to the last."""
    s = schema.setting
    with database.reading() as connection:
        who, before, told = _signatures(connection), Settings(), []
        for row in connection.execute(sa.select(s).order_by(s.c.id)):
            after = Settings.from_json(row.content)
            changes = {
                name: (_shown(then), _shown(now))
                for name, (then, now) in after.differences(before).items()
            }
            name = who.get(("setting", row.id), "")
            told.append(SettingsChange(row.id, row.created, name, changes))
            before = after
    return told


def _shown(value: Any) -> Any:
    """The value of a setting, for JSON."""
    if isinstance(value, (Target, Tried)):
        return str(value)
    return for_json(value) if isinstance(value, float) else value
