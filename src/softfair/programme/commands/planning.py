"""The command that draws the list of a round: plan."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidInput
from .shared import LATEST, Database, Json, commands, open_store, software

if TYPE_CHECKING:
    from ..plans import Commitment, Plan
    from ..store import Store

# Options of commit, then draw.
Commit = Annotated[
    bool,
    typer.Option(
        "--commit", help="Freeze the plan all but its luck, and print a code to give away."
    ),
]
LuckText = Annotated[
    str | None,
    typer.Option(
        "--luck", help="Draw what is committed with this: dice, tonight's lottery numbers."
    ),
]
BeaconFile = Annotated[
    Path | None,
    typer.Option("--beacon", help="Draw what is committed with the drand round in this file."),
]


@commands.command()
def plan(
    db: Database = "softfair.db",
    round: Annotated[
        int | None,
        typer.Option("--round", min=0, max=LATEST, help="Which round.  [default: the next]"),
    ] = None,
    replan: Annotated[
        str | None,
        typer.Option(
            "--replan", help="Why the plan of this round must be made anew; the old one is kept."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="For this plan: benefit=95%, wait=8, or region=0.5.")
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Show everybody, not only those on the list.")
    ] = False,
    commit: Commit = False,
    luck: LuckText = None,
    beacon: BeaconFile = None,
    as_json: Json = False,
) -> None:
    """Draw the list for the next round; the same round again gives the same list."""
    from ..checks import head
    from ..plans import commit_plan, make_plan
    from ..settings import Target

    database = open_store(db)
    asked = None if target is None else Target.parse(target)
    if commit + (luck is not None) + (beacon is not None) > 1:
        raise InvalidInput(
            "--commit comes first, --luck or --beacon later, in another command; give one of them"
        )
    if commit:
        committed, new = commit_plan(database, software(), round, replan, asked)
        _show_commitment(committed, new, as_json)
        return
    drawn = None
    if replan is None and asked is None:
        drawn = _drawn_with_luck(database, round, luck, beacon)
    elif luck is not None or beacon is not None:
        raise InvalidInput(
            "a committed plan is drawn as it is; give --replan and --target with --commit"
        )
    made, new = (drawn, True) if drawn else make_plan(database, software(), round, replan, asked)
    if as_json:
        print(json.dumps(plan_json(made, everyone, head(database)), indent=1))
        return
    _show_plan(made, new, everyone)
    print(f"\n{head(database)}", end="")


def _drawn_with_luck(
    database: Store, round: int | None, text: str | None, beacon: Path | None
) -> Plan | None:
    """The plan drawn from an open commitment; None if there is none and no luck was given."""
    from ..luck import QUICKNET, Source, read_beacon
    from ..plans import draw_plan, open_commitment

    if text is not None:
        return draw_plan(database, text, Source.TEXT, round)
    if beacon is not None:
        return draw_plan(database, read_beacon(beacon, QUICKNET), round=round)
    committed = open_commitment(database, round)
    if committed is None or not sys.stdin.isatty():
        return None  # a committed round is then refused, with what to give
    word = typer.prompt(
        f"Round {committed.round} is committed ({committed.code}). "
        "A second person's word, that nobody could foresee",
        err=True,
    )
    return draw_plan(database, word, Source.WORD, committed.round)


def _show_commitment(committed: Commitment, new: bool, as_json: bool) -> None:
    from datetime import UTC, datetime

    from ..luck import QUICKNET

    moment = datetime.fromtimestamp(QUICKNET.time_of(committed.beacon), UTC)
    if as_json:
        shown = {
            "round": committed.round,
            "code": committed.code,
            "created": committed.created,
            "beacon": committed.beacon,
            "beacon_time": moment.isoformat(),
        }
        print(json.dumps(shown, indent=1))
        return
    again = "" if new else " (as committed before)"
    print(f"Round {committed.round} is committed{again}. Code: {committed.code}")
    print("  Give the code away now; nothing of the plan can change without changing it.")
    print(
        f"  Then draw: softfair plan --luck TEXT (what witnesses saw), or --beacon FILE "
        f"({QUICKNET.name}, round {committed.beacon}, of {moment:%Y-%m-%d %H:%M:%S} UTC)"
    )


def plan_json(plan: Plan, everyone: bool, checkpoint: str) -> dict[str, Any]:
    """A plan as it is printed and exported in JSON, with the head of the log."""
    from ..store import c_to_json
    from ..tables import plan_columns

    columns = plan_columns(plan, everyone)
    people = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    header = {
        "round": plan.round,
        "version": plan.version,
        "created": plan.created,
        "software": plan.software,
        "model": plan.model,
        "c": c_to_json(plan.c),
        "horizon": plan.horizon,
        "seed": plan.seed,
        "luck": luck_sentence(plan),
        "sites": [{"name": name, "capacity": k} for name, k in plan.sites],
        "outlook": plan.outlook.to_json(),
        "reason": plan.reason,
        "digest": plan.digest,
        "checkpoint": checkpoint,
    }
    return {**header, "people": people}


def _show_plan(plan: Plan, new: bool, everyone: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ..plans import explain

    # An identifier or a group may look like markup.
    console = Console(markup=False, highlight=False)
    again = "" if new else " (as planned before)"
    version_ = f", version {plan.version}" if plan.version > 1 else ""
    console.print(
        f"Round {plan.round}{version_}{again}: "
        f"{int(plan.listed.sum())} of {int((plan.status == 0).sum())} people in the draw, "
        f"c = {plan.c:.3g}, model {plan.model}, seed {plan.seed[:16]}",
        style="bold",
    )
    console.print(luck_sentence(plan))
    for line in _outlook_lines(plan):
        console.print(line)
    sentences = explain(plan)
    shown = Table("id", "chance", "why", title=None if everyone else "On the list")
    shown.columns[1].justify = "right"
    for i, number in enumerate(plan.person.tolist()):
        if everyone or plan.listed[i]:
            shown.add_row(
                Text(plan.names[number]), f"{plan.probability[i]:.1%}", Text(sentences[i])
            )
    console.print(shown)


def luck_sentence(plan: Plan) -> str:
    """Where the luck of a plan came from."""
    if plan.luck is None:
        return "Drawn with the programme's own luck, by position in the draw."
    return str(plan.luck)


def _outlook_lines(plan: Plan) -> list[str]:
    """What is expected of a plan, in sentences."""
    outlook = plan.outlook
    lines = [] if outlook.target is None else [f"Target met: {outlook.target}."]
    wait = f"the longest expected wait is {outlook.wait:.1f} rounds"
    if outlook.wait > plan.horizon:
        wait = (
            "somebody is expected to wait longer than that "
            "(a target such as wait=20 says how long at most)"
        )
    lines.append(
        f"Expected over the {plan.horizon} rounds left: "
        f"{outlook.gained:.1f} good rounds more than without contacts, "
        f"{outlook.benefit:.1%} of the most effective plan "
        f"(fairness costs {1 - outlook.benefit:.1%}); {wait}."
    )
    if (lowest := outlook.lowest) is not None:
        lines.append(
            f"Lowest {lowest.column}: {lowest.value or '(none given)'} "
            f"at {lowest.share:.0%} of the average rate."
        )
    return lines
