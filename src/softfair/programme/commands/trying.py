"""The command that assigns people to the arms of a trial: trial."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidInput
from .shared import Database, Json, commands, examples, open_store, software

if TYPE_CHECKING:
    from ..assignment import Trial

MEANING = {
    "softfair": "the programme's plan",
    "lottery": "everybody in the draw has the same chance",
    "usual": "the list names nobody; what they get otherwise they go on getting",
}


@commands.command(
    epilog=examples(
        "softfair trial --arms softfair,lottery,usual --power",
        "softfair trial --arms softfair,lottery,usual --share 40%,30%,30% --balance region,age",
        "softfair trial --arms softfair,usual --sites village --rounds 20",
        "softfair trial",
    )
)
def trial(
    db: Database = "softfair.db",
    arms: Annotated[
        str | None,
        typer.Option(
            help="Two or three of softfair (the plan), lottery (equal chances), usual (no list).",
            show_default="show the trial there is",
        ),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(help="Of each arm: 0.4,0.3,0.3 or 40%,30%,30%.", show_default="all alike"),
    ] = None,
    sites: Annotated[
        str | None,
        typer.Option(
            help="Assign whole values of this column, such as village.", show_default="people"
        ),
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option(
            help="Columns in which arms are to be alike, such as region,age.",
            show_default="what was seen before, in any case",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(help="How many rounds it lasts.", show_default="the programme's horizon"),
    ] = None,
    power: Annotated[
        bool, typer.Option("--power", help="Tell what it could tell, and assign nobody.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Assign people, or whole sites, to the arms of a trial: at random, balanced, once. The plans
    of its rounds then draw within the arms, and the audit tells the effect."""
    from ..trials import assign, shares_said, trial_of

    database = open_store(db)
    if arms is None:
        assigned = trial_of(database)
        if assigned is None or any((share, sites, balance, rounds, power)):
            raise InvalidInput(
                "which arms? give at least two, such as --arms softfair,lottery,usual"
            )
        _show(assigned, as_json, "Assigned")
        return
    names = _listed(arms)
    new_trial = assign(
        database.rehearsal() if power else database,
        software(),
        names,
        shares_said(share, len(names)),
        sites,
        _listed(balance or ""),
        rounds,
    )
    _show(new_trial, as_json, "Nobody is assigned yet: this would be" if power else "Assigned now")


def _listed(text: str) -> list[str]:
    """The names between commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def _show(made: Trial, as_json: bool, how: str) -> None:
    from ..trials import Power

    rows = _rows(made)
    if as_json:
        about = {
            "first": made.first,
            "last": made.last,
            "sites": made.design.sites,
            "balanced": list(made.design.columns),
            "arms": rows,
            "power": made.power,
        }
        print(json.dumps(about, indent=1))
        return
    by = "people" if made.design.sites is None else f"whole values of {made.design.sites}"
    print(f"{how}: a trial of rounds {made.first} to {made.last}, {by} at random.")
    for row in rows:
        units = "" if made.design.sites is None else f"{row['assigned']} sites, "
        print(f"  {row['arm']}: {units}{row['people']} people; {MEANING[row['arm']]}.")
    print(f"  Balanced in {', '.join(made.design.columns)} (best of {made.design.tries} draws).")
    for sentence in Power.from_json(made.power).sentences(made):
        print(f"  {sentence}")


def _rows(made: Trial) -> list[dict[str, Any]]:
    """What is told of each arm."""
    return [
        {
            "arm": str(arm),
            "share": made.design.shares[a],
            "assigned": int((made.unit_arms == a).sum()),
            "people": int((made.arm == a).sum()),
        }
        for a, arm in enumerate(made.design.arms)
    ]
