"""The command that draws the list of a round: plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidInput
from .shared import LATEST, Database, Json, commands, open_store, software

if TYPE_CHECKING:
    from ..plans import Plan
    from ..store import Store


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
    check: Annotated[
        bool,
        typer.Option("--verify", help="Replay all draws from what is stored, and plan nothing."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Draw the list for the next round; the same round again gives the same list."""
    from ..plans import make_plan
    from ..settings import Target

    database = open_store(db)
    if check:
        _verify(database, as_json)
        return
    asked = None if target is None else Target.parse(target)
    made, new = make_plan(database, software(), round, replan, asked)
    if as_json:
        print(json.dumps(plan_json(made, everyone), indent=1))
        return
    _show_plan(made, new, everyone)


def _verify(database: Store, as_json: bool) -> None:
    from ..plans import verify

    verdicts = verify(database)
    if as_json:
        print(json.dumps([verdict._asdict() for verdict in verdicts], indent=1))
    else:
        same = "the same list and probabilities from the stored seed and scores"
        for verdict in verdicts:
            answer = "; ".join(verdict.wrong) or same
            print(f"round {verdict.round}, version {verdict.version}: {answer}")
        if not verdicts:
            print("There is no plan yet.")
    if bad := [verdict for verdict in verdicts if verdict.wrong]:
        raise InvalidInput(
            f"{len(bad)} of {len(verdicts)} plans do not follow from what is stored; "
            f"the first is of round {bad[0].round}"
        )


def plan_json(plan: Plan, everyone: bool) -> dict[str, Any]:
    """A plan as it is printed and exported in JSON."""
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
        "sites": [{"name": name, "capacity": k} for name, k in plan.sites],
        "outlook": plan.outlook.to_json(),
        "reason": plan.reason,
        "digest": plan.digest,
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
        f"c = {plan.c:.3g}, model {plan.model}, seed {plan.seed}",
        style="bold",
    )
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
