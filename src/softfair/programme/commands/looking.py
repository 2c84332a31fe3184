"""The commands that show where things stand: status, person, log, history."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...for_json import for_json
from ...terminal import Table, say, show
from .shared import Database, Json, commands, examples, open_store

if TYPE_CHECKING:
    from ..standing import Standing


def _print(*lines: str) -> None:
    for line in lines:
        say(line)


def to_json(value: Any) -> str:
    """A value as JSON text; infinite numbers are "inf"."""
    return json.dumps(for_json(value), indent=1, default=str)


@commands.command(epilog=examples("softfair status", "softfair status --json"))
def status(db: Database = "softfair.db", as_json: Json = False) -> None:
    """Where things stand: the round, what is due, who waits longest, how the last round went."""
    from ..standing import standing

    standing_now = standing(open_store(db))
    today = date.today()
    if as_json:
        print(to_json({**asdict(standing_now), "today": standing_now.today(today)}))
        return
    _print(*_status_lines(standing_now, today))


def _status_lines(standing: Standing, today: date) -> list[str]:
    settings, last = standing.settings, standing.last
    history = "no history yet"
    if standing.rounds:
        history = f"history of rounds {standing.rounds[0]} to {standing.rounds[1]}"
    planned = "planned" if standing.planned else "not planned yet"
    lines = [
        f"{standing.people} people, {standing.here} of them here now; {history}.",
        f"Next: {settings.called(standing.next_round)}, {planned}.",
    ]
    if (at := standing.today(today)) is not None and at != standing.next_round:
        where = f"Today is in {settings.called(at)}"
        lines[1] += f" {where if at > 0 else f'Round 1 begins on {settings.first_day}'}."
    lines += [said for said in (standing.trial, standing.waits) if said]
    lines += [f"Memory: {settings.memory}."] if settings.memory.asked != "none" else []
    lines += [f"Due: {what}" for what in standing.due] or ["Due: nothing."]
    if standing.waiting:
        named = ", ".join(
            f"{name} ({'never contacted' if rounds is None else f'{rounds} rounds'})"
            for name, rounds in standing.waiting
        )
        lines.append(f"Waiting longest: {named}.")
    if last is not None:
        share = f", {last.good / last.seen:.0%} of them {settings.states[-1]}" if last.seen else ""
        lines.append(
            f"Last: {settings.called(last.round)}: {last.reached} of {last.listed} on the list "
            f"reached, {last.off_list} others contacted; {last.seen} seen after it{share}."
        )
    return lines


@commands.command(epilog=examples("softfair person P017", "softfair person P017 --json"))
def person(
    name: Annotated[str, typer.Argument(metavar="ID", help="The person's identifier.")],
    db: Database = "softfair.db",
    as_json: Json = False,
) -> None:
    """Everything about one person: history, estimates, chances and the reasons for them."""
    from ..biography import biography
    from ..words import percent

    life = biography(open_store(db), name)
    if as_json:
        print(to_json(asdict(life)))
        return
    settings = life.settings
    facts = "; ".join(f"{label}: {value}" for label, value in life.facts.items())
    lines = [f"{life.name}{f' ({facts})' if facts else ''}"]
    known = {None: "not known", True: "contacted", False: "not contacted"}
    for seen in life.history:
        state = seen.state or "not seen"
        lines.append(f"  {settings.called(seen.round)}: {state}, {known[seen.contacted]}")
    for one in life.estimates:
        how = "contacted" if one.contacted else "not contacted"
        lines.append(
            f"  {one.state}, {how}: {settings.states[-1]} next with chance {one.chance:.2f} "
            f"({settings.level:.0%} interval {one.low:.2f} to {one.high:.2f}, "
            f"{one.moves} moves of their own)"
        )
    for plan in life.plans:
        listed = "listed" if plan.listed else "not listed"
        lines.append(
            f"  {settings.called(plan.round)}: {listed}, chance {percent(plan.probability)}. "
            f"{plan.reason}"
        )
    _print(*lines)


@commands.command(epilog=examples("softfair log", "softfair log --last 10"))
def log(
    db: Database = "softfair.db",
    last: Annotated[int, typer.Option(min=1, help="How many of the last entries.")] = 50,
    as_json: Json = False,
) -> None:
    """Who did what, when, from which file. A batch's number is what `retract` asks for."""
    from ..journal import journal

    acts = journal(open_store(db))[-last:]
    if as_json:
        print(to_json([asdict(act) for act in acts]))
        return
    rows = []
    for act in acts:
        when = act.created.replace("T", " ").removesuffix("+00:00")
        cells = (act.number, act.round, act.who, act.file, act.rows, act.stored, act.note)
        rows.append([when, act.what, *("" if cell is None else str(cell) for cell in cells)])
    headings = ["when", "what", "no.", "round", "who", "file", "rows", "stored", "note"]
    words = {"what", "who", "file", "note"}
    show(Table(headings, rows, words=words, elsewhere="--json has them all"))


@commands.command(epilog=examples("softfair history", "softfair history --json"))
def history(db: Database = "softfair.db", as_json: Json = False) -> None:
    """How the settings came to be what they are: every change, by whom and when."""
    from ..journal import settings_history

    changes = settings_history(open_store(db))
    if as_json:
        print(to_json([asdict(change) for change in changes]))
        return
    for change in changes:
        who = f" by {change.who}" if change.who else ""
        said = "; ".join(
            f"{name}: {before} -> {after}"
            for name, (before, after) in change.changes.items()
            if name != "seed"
        )
        _print(f"{change.created}{who}: {said or 'all at their defaults'}")
