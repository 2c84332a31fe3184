"""The command that draws the list of a round: plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidInput
from .shared import (
    ROUND_HELP,
    Csv,
    Database,
    Json,
    Yes,
    ask,
    commands,
    examples,
    open_store,
    settings_of,
    software,
    which_round,
)

if TYPE_CHECKING:
    from ..changes import Since
    from ..plans import Plan
    from ..settings import Settings
    from ..store import Store


@commands.command(
    epilog=examples(
        "softfair plan",
        "softfair plan --target wait=8",
        "softfair plan --replan 'two opted out'",
        "softfair plan --verify",
    )
)
def plan(
    db: Database = "softfair.db",
    round: Annotated[
        str | None, typer.Option("--round", help=ROUND_HELP, show_default="the next")
    ] = None,
    replan: Annotated[
        str | None,
        typer.Option(
            "--replan",
            help="Why the plan of this round must be made anew; the old one is kept.",
            show_default="it is not",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="For this plan: benefit=95%, wait=8, or region=0.5.",
            show_default="the programme's",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="For this plan: SoftFair, EvenHanded:100 (mu), EvenHanded:entropy=4."),
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Show everybody, not only those on the list.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--verify", help="Replay all draws from what is stored, and plan nothing."),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Draw the list for the next round; the same round again gives the same list."""
    from ..changes import since_plan
    from ..plans import make_plan
    from ..settings import Evenness, Target

    database = open_store(db)
    if check:
        _verify(database, as_json)
        return
    asked = None if target is None else Target.parse(target)
    evenness = None if policy is None else Evenness.parse(policy)
    settings = settings_of(database)
    at = which_round(settings, round)
    made, new = ask(
        lambda sure: make_plan(database, software(), at, replan, asked, evenness, sure), yes
    )
    since = None if new else since_plan(database, made)
    if as_json:
        print(json.dumps(plan_json(made, everyone, since), indent=1))
    elif as_csv:
        from ..tables import plan_columns, write_table

        write_table(plan_columns(made, everyone, since, settings.calendar), Path("-"))
    else:
        _show_plan(made, since, everyone, settings)


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


def plan_json(plan: Plan, everyone: bool, since: Since | None = None) -> dict[str, Any]:
    """A plan as it is printed and exported in JSON."""
    from ..store import c_to_json
    from ..tables import plan_columns

    columns = plan_columns(plan, everyone, since)
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
        "since": "" if since is None else str(since),
    }
    return {**header, "people": people}


def _show_plan(plan: Plan, since: Since | None, everyone: bool, settings: Settings) -> None:
    """Print a plan; ``since`` None: it was made now."""
    from ...terminal import Table, say, show
    from ..plans import explain
    from ..words import percent

    again = "" if since is None else " (as planned before)"
    version_ = f", version {plan.version}" if plan.version > 1 else ""
    say(
        f"{settings.called(plan.round).capitalize()}{version_}{again}: "
        f"{int(plan.listed.sum())} of {int((plan.status == 0).sum())} people in the draw, "
        f"c = {plan.c:.3g}, model {plan.model}, seed {plan.seed}",
        "bold",
    )
    struck = since.struck if since else {}
    if since:
        say(
            f"Planned before; since then {since}. Do not call who is struck off. "
            f"Make the list anew with: softfair plan --replan '{since}'",
            "bold red",
        )
    for line in _outlook_lines(plan, settings):
        say(line)
    sentences = explain(plan)
    rows, styles = [], []
    for i, number in enumerate(plan.person.tolist()):
        if everyone or plan.listed[i]:
            why = sentences[i]
            if number in struck:
                why = f"Struck off: {struck[number]} since the plan was made."
            rows.append([plan.names[number], percent(plan.probability[i]), why])
            styles.append("red" if number in struck else "")
    title = "" if everyone else "On the list"
    show(Table(["id", "chance", "why"], rows, title, words={"why"}, styles=styles))


def _outlook_lines(plan: Plan, settings: Settings) -> list[str]:
    """What is expected of a plan, in sentences."""
    outlook = plan.outlook
    lines = [] if outlook.target is None else [f"Target met: {outlook.target}."]
    wait = f"the longest expected wait is {outlook.wait:.1f} rounds, an average over what may come"
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
    if not outlook.evenness.is_softfair:
        weights = ", ".join(f"{mu:.3g}" for mu in outlook.mu)
        lines.append(
            f"Drawn by {outlook.evenness}, weight of evenness mu = {weights}: the chance follows "
            "what a contact brings plus what evenness is worth. Nobody has a lower chance than "
            "someone with a smaller sum; someone who would gain less can have the better chance."
        )
    if (lowest := outlook.lowest) is not None:
        lines.append(
            f"Lowest {lowest.column}: {lowest.value or '(none given)'} "
            f"at {lowest.share:.0%} of the average rate."
        )
    ahead = range(plan.round, plan.round + plan.horizon)
    if special := [at for at in settings.exceptions if at in ahead]:
        lines.append(
            f"That takes the usual capacity in all rounds; {len(special)} of them have another."
        )
    return [*lines, *_site_lines(plan, settings)]


def _site_lines(plan: Plan, settings: Settings) -> list[str]:
    """Within what a plan with several sites is fair, and who has no chance at all."""
    from ..eligibility import Status

    lines = []
    if len(plan.sites) > 1:
        lines.append(
            f"Chances follow gains within each {settings.by}, not across: "
            "each has a capacity of its own."
            + (
                ""
                if plan.outlook.sites_cost is None
                else f" That costs {plan.outlook.sites_cost:.1%} of what the most effective plan "
                "with the same capacity for all would gain."
            )
        )
    if without := int((plan.status == Status.NO_SITE).sum()):
        lines.append(
            f"Look: {without} people have no chance: no capacity is set for their {settings.by}."
        )
    return lines
