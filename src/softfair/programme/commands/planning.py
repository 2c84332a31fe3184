"""The command that draws the list of a round: plan."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
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
    from ..plans import Commitment, Plan, PlanWish
    from ..settings import Settings
    from ..store import Store

Replan = Annotated[
    str | None,
    typer.Option(
        "--replan",
        help="Why the plan of this round must be made anew; the old one is kept.",
        show_default="it is not",
    ),
]
TargetOfPlan = Annotated[
    str | None,
    typer.Option(
        help="For this plan: benefit=95%, wait=8, or region=0.5.", show_default="the programme's"
    ),
]
PromiseOfPlan = Annotated[
    str | None,
    typer.Option(
        "--promise",
        help="For this plan, for certain: wait=8 (lists; on one of any 8 in a row), chance=0.5% "
        "(nobody's below), 'share region=north>=30%' (or <=, ==), 'one household' (at most one of "
        "each), several with ; between them, or none.",
        show_default="the programme's",
    ),
]
# Options for committing a plan, and for drawing it later.
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


@commands.command(
    epilog=examples(
        "softfair plan",
        "softfair plan --target wait=8",
        "softfair plan --promise wait=12",
        "softfair plan --promise 'share region=north>=30%; one household'",
        "softfair plan --replan 'two opted out'",
        "softfair plan --commit",
        "softfair plan --luck 'dice: 4 2 6 1 3'",
    )
)
def plan(
    db: Database = "softfair.db",
    round: Annotated[
        str | None, typer.Option("--round", help=ROUND_HELP, show_default="the next")
    ] = None,
    replan: Replan = None,
    target: TargetOfPlan = None,
    policy: Annotated[
        str | None,
        typer.Option(help="For this plan: SoftFair, EvenHanded:100 (mu), EvenHanded:entropy=4."),
    ] = None,
    promise: PromiseOfPlan = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Show everybody, not only those on the list.")
    ] = False,
    commit: Commit = False,
    luck: LuckText = None,
    beacon: BeaconFile = None,
    yes: Yes = False,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Draw the list for the next round; the same round again gives the same list."""
    from ..changes import hand_out
    from ..checks import head
    from ..commitments import code_before
    from ..plans import PlanWish
    from ..tables import json_object, plan_table, write_table

    _refuse_together(commit, luck, beacon)
    database = open_store(db)
    settings = settings_of(database)
    at = which_round(settings, round)
    wish = PlanWish.parse(target, policy, promise, at, replan, yes)
    if commit:
        _commit(database, wish, as_json)
        return
    drawn = None
    if replan is target is policy is promise is None:
        drawn = _drawn_with_luck(database, wish.round, luck, beacon)
    elif luck is not None or beacon is not None:
        raise InvalidInput(
            "a committed plan is drawn as it is; give --replan, --target, --policy and --promise "
            "with --commit"
        )
    planned, new = (drawn, True) if drawn else _planned(database, wish)
    since = None if new else hand_out(database, planned, software())
    code = code_before(database, planned.luck)
    if as_json:
        header = plan_json(planned, head(database), since, code)
        sys.stdout.writelines(json_object(header, "people", plan_table(planned, everyone, since)))
        print()
    elif as_csv:
        write_table(plan_table(planned, everyone, since, settings.calendar), Path("-"))
    else:
        _show_plan(planned, since, everyone, settings, code)
        print(f"\n{head(database)}", end="")


def _refuse_together(commit: bool, luck: str | None, beacon: Path | None) -> None:
    if commit + (luck is not None) + (beacon is not None) > 1:
        raise InvalidInput(
            "--commit comes first, --luck or --beacon later, in another command; give one of them"
        )


def _planned(database: Store, wish: PlanWish) -> tuple[Plan, bool]:
    from ..plans import make_plan

    return ask(lambda sure: make_plan(database, software(), replace(wish, sure=sure)), wish.sure)


def _commit(database: Store, wish: PlanWish, as_json: bool) -> None:
    from ..plans import commit_plan

    committed, new = ask(
        lambda sure: commit_plan(database, software(), replace(wish, sure=sure)), wish.sure
    )
    _show_commitment(committed, new, as_json)


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
        return None  # a committed round is then refused; the message says what to give
    word = typer.prompt(
        f"Round {committed.round} is committed ({committed.code}). "
        "A second person's word, that nobody could foresee",
        err=True,
    )
    return draw_plan(database, word, Source.WORD, committed.round)


def _show_commitment(committed: Commitment, new: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps(commitment_json(committed), indent=1))
        return
    again = "" if new else " (as committed before)"
    print(f"Round {committed.round} is committed{again}. Code: {committed.code}")
    for line in how_to_draw(committed, "the plan", "draw: softfair plan"):
        print(f"  {line}")


def how_to_draw(committed: Commitment, what: str, command: str) -> list[str]:
    """Instructions after a commitment: what to give away, and how ``command`` draws it."""
    from datetime import UTC, datetime

    from ..luck import QUICKNET

    moment = datetime.fromtimestamp(QUICKNET.time_of(committed.beacon), UTC)
    return [
        f"Give the code away now; nothing of {what} can change without changing it.",
        "Say with it what will be seen, and in which words and order it will be written; spaces,",
        "signs, capitals and zeros before a number will not count.",
        f"Then {command} --luck TEXT (what witnesses saw), or --beacon FILE "
        f"({QUICKNET.name}, round {committed.beacon}, of {moment:%Y-%m-%d %H:%M:%S} UTC)",
    ]


def commitment_json(committed: Commitment) -> dict[str, Any]:
    """A commitment as it is printed in JSON."""
    from datetime import UTC, datetime

    from ..luck import QUICKNET

    moment = datetime.fromtimestamp(QUICKNET.time_of(committed.beacon), UTC)
    return {
        "round": committed.round,
        "code": committed.code,
        "created": committed.created,
        "beacon": committed.beacon,
        "beacon_time": moment.isoformat(),
    }


def plan_json(
    plan: Plan, checkpoint: str, since: Since | None = None, code: str | None = None
) -> dict[str, Any]:
    """A plan in JSON, as printed and exported: all but its people, with the head of the log.

    ``code`` is that of the commitment before it.
    """
    from ...for_json import for_json

    return {
        "round": plan.round,
        "version": plan.version,
        "created": plan.created,
        "software": plan.software,
        "model": plan.model,
        "c": for_json(plan.c),
        "horizon": plan.horizon,
        "seed": plan.seed,
        "luck": luck_sentence(plan),
        "code": code,
        "sites": [{"name": one.name, "capacity": one.capacity} for one in plan.sites],
        "outlook": plan.outlook.to_json(),
        "reason": plan.reason,
        "digest": plan.digest,
        "since": "" if since is None else str(since),
        "checkpoint": checkpoint,
    }


def _show_plan(
    plan: Plan, since: Since | None, everyone: bool, settings: Settings, code: str | None
) -> None:
    """Print a plan; ``since`` None: it was made now."""
    from ...terminal import Table, say, show
    from ..plans import explain
    from ..words import percent

    again = "" if since is None else " (as planned before)"
    version_ = f", version {plan.version}" if plan.version > 1 else ""
    say(
        f"{settings.called(plan.round).capitalize()}{version_}{again}: "
        f"{int(plan.listed.sum())} of {int((plan.status == 0).sum())} people in the draw, "
        f"c = {plan.c:.3g}, model {plan.model}, seed {plan.seed[:16]}",
        "bold",
    )
    say(luck_sentence(plan))
    if code is not None:
        say(f"It was committed before, with the code {code}.")
    struck, called = (since.struck, since.called) if since else ({}, {})
    if since and str(since):
        say(
            f"Planned before; since then {since}. Do not call those who are struck off. "
            f"Make the list anew with: softfair plan --replan '{since}'",
            "bold red",
        )
    if called:
        say(f"{len(called)} called from the reserve, in the order that was drawn with the list.")
    for line in outlook_lines(plan, settings):
        say(line)
    sentences = explain(plan)
    rows, styles = [], []
    for i, number in enumerate(plan.person.tolist()):
        if everyone or plan.listed[i] or number in called:
            why = called.get(number, sentences[i])
            if number in struck:
                why = f"Struck off: {struck[number]} since the plan was made."
            rows.append([plan.names[number], percent(plan.probability[i]), why])
            styles.append("red" if number in struck else "")
    title = "" if everyone else "On the list"
    show(Table(["id", "chance", "why"], rows, title, words={"why"}, styles=styles))


def luck_sentence(plan: Plan) -> str:
    """Where the luck of a plan came from."""
    if plan.luck is None:
        return "Drawn with the programme's own luck, by position in the draw."
    return str(plan.luck)


def outlook_lines(plan: Plan, settings: Settings) -> list[str]:
    """What is expected of a plan, in sentences."""
    from ..eligibility import Status

    outlook = plan.outlook
    lines = []
    if outlook.target is not None:
        free = "" if outlook.binds else f" It does not bind: {_unbound(plan)}."
        lines.append(f"Target met: {outlook.target}.{free}")
    if not outlook.promise.is_none:
        lines.append(_promise_line(plan))
    lines.append(_gain(plan))
    if not outlook.promise.wait:  # a promised wait makes the expected one unnecessary
        lines.append(_wait(plan))
    if outlook.gain is None or outlook.gain.told:
        lines.append(
            f"Of what the most effective plan is expected to gain it has {outlook.benefit:.1%} "
            f"(fairness costs {1 - outlook.benefit:.1%})."
        )
    if not outlook.evenness.is_softfair:
        weights = ", ".join(f"{mu:.3g}" for mu in outlook.mu)
        lines.append(
            f"Drawn by {outlook.evenness}, weight of evenness mu = {weights}: the chance follows "
            "what a contact brings plus what evenness is worth. Nobody has a lower chance than "
            "someone with a smaller sum; someone who would gain less can have the better chance."
        )
    if (lowest := outlook.lowest) is not None:
        among = " of those in the draw" * bool((plan.status == Status.NO_SITE).any())
        lines.append(
            f"Lowest {lowest.column}{among}: {lowest.value or '(none given)'} "
            f"at {lowest.share:.0%} of the average rate."
        )
    ahead = range(plan.round, plan.round + plan.horizon)
    if special := [at for at in settings.exceptions if at in ahead]:
        lines.append(
            f"That takes the usual capacity in all rounds; {len(special)} of them have another."
        )
    return [*lines, *_site_lines(plan, settings)]


def _promise_line(plan: Plan) -> str:
    """What a plan promises, how many are listed by that, and what it costs."""
    promise, cost = plan.outlook.promise, plan.outlook.promise_cost
    by_it = ""
    if promise.wait:
        many = int(((plan.due == 1) & (plan.listed == 1)).sum())
        by_it = f" {many} are on this list because it is the last that their time allows."
    if cost is None:
        costs = " What it costs cannot be told."
    elif cost < 0.0005:
        costs = " It costs less than 0.1% of what the plan would gain without it."
    else:
        costs = f" It costs {cost:.1%} of what the plan would gain without it."
    return f"Promise kept: {promise}.{by_it}{costs}"


def _unbound(plan: Plan) -> str:
    """Why a target did not decide c."""
    target = plan.outlook.target
    if target is not None and target.goal == "benefit":
        return "a lottery meets it, so c = 0"
    return f"even the most effective plan meets it, so the programme's own c = {plan.c:.3g} stays"


def _site_lines(plan: Plan, settings: Settings) -> list[str]:
    """Within which sites or arms a plan is fair, and how many people have no chance."""
    from ..eligibility import Status

    lines = []
    if any(one.arm for one in plan.sites):
        usual = int((plan.status == Status.USUAL).sum())
        lines.append(
            "In a trial: places are "
            + ", ".join(f"{one.name} {one.capacity}" for one in plan.sites)
            + f"; {usual} people of the usual arm are on no list" * bool(usual)
            + "."
        )
        lines.append(
            "What is expected, also of the most effective plan, takes these arms to stay for all "
            f"{plan.horizon} rounds."
        )
    elif len(plan.sites) > 1:
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


def _wait(plan: Plan) -> str:
    """How long people are expected to wait between contacts."""
    if plan.outlook.wait <= plan.horizon:
        return (
            f"The longest expected wait is {plan.outlook.wait:.1f} rounds, an average over what "
            "may come."
        )
    return (
        f"Some people are expected to wait longer than these {plan.horizon} rounds; a target on "
        "the wait (--target wait=ROUNDS) shortens what is expected, a promise (--promise "
        "wait=ROUNDS) holds for certain."
    )


def _gain(plan: Plan) -> str:
    """What a plan is expected to gain, as far as the history can tell."""
    outlook, gain = plan.outlook, plan.outlook.gain
    left = f"over the {plan.horizon} rounds left"
    more = "good rounds more than without contacts"
    if gain is None:
        return f"Expected {left}: {outlook.gained:z.1f} {more}."
    reached = (
        "" if outlook.reached is None else f", if {outlook.reached:.0%} of the listed are reached"
    )
    interval = f"{plan.level:.0%} interval"
    if not gain.told:
        return (
            f"No effect of contacts can be told from this history yet: {left} they may bring from "
            f"{gain.low:z.1f} to {gain.high:z.1f} {more} ({interval}){reached}."
        )
    return (
        f"Expected {left}: {gain.value:z.1f} {more} "
        f"({interval} {gain.low:z.1f} to {gain.high:z.1f}){reached}."
    )
