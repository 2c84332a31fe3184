"""The command that calls from the reserve of a round: reserve."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import InvalidInput
from .shared import (
    ROUND_HELP,
    Database,
    commands,
    examples,
    open_store,
    settings_of,
    software,
    which_round,
)


@commands.command(
    epilog=examples(
        "softfair reserve",
        "softfair reserve --call 2 --reason 'a helper more this week'",
        "softfair reserve --person P017 --reason 'asked for a call'",
        "softfair reserve --withdraw P017 --reason 'a slip'",
    )
)
def reserve(
    db: Database = "softfair.db",
    round: Annotated[
        str | None, typer.Option("--round", help=ROUND_HELP, show_default="the last planned")
    ] = None,
    call: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Call so many, the next in order.",
            show_default="as many as were told as not reached",
        ),
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="Call this person, out of order.", show_default="nobody")
    ] = None,
    withdraw: Annotated[
        str | None, typer.Option(help="Take this person off.", show_default="nobody")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Why the order is left, or more are called; it is kept.")
    ] = None,
) -> None:
    """Call the next in order for those on the list who were not reached. The order was drawn with
    the list; nobody's stated chance changes."""
    from ..changes import call_reserves, hand_out, override
    from ..plans import plan_of

    if (person is not None) + (withdraw is not None) + (call is not None) > 1:
        raise InvalidInput("--call, --person and --withdraw are different things; give one of them")
    database = open_store(db)
    plan = plan_of(database, which_round(settings_of(database), round))
    before = hand_out(database, plan, software()).called
    named = person if person is not None else withdraw
    if named is None:
        since = call_reserves(database, plan, software(), call, reason or "")
    else:
        since = override(database, plan, software(), named, person is not None, reason or "")
    new = [i for i in since.called if i not in before]
    print(
        f"Round {plan.round}: {len(new)} called now, {len(since.called)} from the reserve in all."
    )
    for i in new:
        print(f"  {plan.names[i]}: {since.called[i]}")
    if withdraw is not None:
        print(f"  {withdraw} is off the list.")
