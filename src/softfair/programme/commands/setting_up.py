"""The command that makes a programme or changes its settings: init."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidInput
from .shared import (
    Database,
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
    from ..settings import Settings
    from ..store import Store

# Options of `init`.
RoundName = Annotated[
    str | None, typer.Option("--round", help="What a round is called.", show_default="week")
]
FirstDay = Annotated[
    str | None,
    typer.Option(
        "--first-day",
        help="Date on which round 1 began; rounds then have dates.",
        show_default="the first date of the history, if it has dates",
    ),
]
Every = Annotated[
    int | None,
    typer.Option(
        help="Days that a round lasts.", show_default="by its name: day, week, month; else 7"
    ),
]
Capacity = Annotated[
    str | None,
    typer.Option(
        help="People a round: 30, or by group: north=10,south=5, or a CSV file of the two.",
        show_default="one in ten",
    ),
]
Except = Annotated[
    str | None,
    typer.Option(
        "--except",
        help="Capacity of single rounds, by number or date: 2027-01-04=0,2027-01-11=50%; "
        "none to undo all.",
        show_default="no exceptions",
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        help="Group column that capacities go by, such as region or language.",
        show_default="none",
    ),
]
Horizon = Annotated[
    int | None, typer.Option(help="Rounds that each plan looks ahead.", show_default="26")
]
Ends = Annotated[
    str | None,
    typer.Option(
        help="Last round of the programme, by number or date; none: it goes on.",
        show_default="it goes on",
    ),
]
States = Annotated[
    str | None,
    typer.Option(help="Names of the states, from worst to best.", show_default="bad,good"),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        help="For values: good from here up (4), or up to here ('<=3').", show_default="none"
    ),
]
C = Annotated[
    float | None,
    typer.Option(
        help="How strongly gain counts: 0 a lottery, inf those who gain most. Estimated gains "
        "differ less than true ones, so that a plan is more even at the same c; targets are not "
        "affected.",
        show_default="10",
    ),
]
TargetOfAll = Annotated[
    str | None,
    typer.Option(
        help="Instead of c: benefit=95%, wait=8 (on average), or region=0.5 (share of the average "
        "rate); none to undo.",
        show_default="none",
    ),
]
PolicyOfAll = Annotated[
    str | None,
    typer.Option(
        help="How lists are drawn: SoftFair, by gain; EvenHanded:100, by gain and evenness with "
        "weight mu = 100; or EvenHanded:entropy=4, never=10% or wait=20.  [default: SoftFair]"
    ),
]
PromiseOfAll = Annotated[
    str | None,
    typer.Option(
        "--promise",
        help="What every draw keeps for certain: wait=8 (everybody is on one of any 8 lists in a "
        "row that they could be on; wait=8,from=21 counts from round 21 on), chance=0.5% "
        "(nobody's is below), 'share region=north>=30%' (of the places; or <=, ==), "
        "'one household' (at most one of each), several with ; between them; none to undo.",
        show_default="none",
    ),
]
Cooldown = Annotated[
    int | None, typer.Option(help="Rounds after a contact without another.", show_default="0")
]
Shrink = Annotated[
    str | None,
    typer.Option(
        help="The only column of people that estimates go by.", show_default="all that tell"
    ),
]
Protected = Annotated[
    str | None,
    typer.Option(
        help="Columns of people that estimates do not go by, and that the audit reports on: "
        "caste,religion; none to undo.",
        show_default="none",
    ),
]
Monotone = Annotated[
    bool | None,
    typer.Option(
        "--monotone/--free",
        help="Whether contact cannot harm and the good state persists.",
        show_default="free",
    ),
]
Level = Annotated[float | None, typer.Option(help="Of intervals.", show_default="0.9")]
Seed = Annotated[
    int | None,
    typer.Option(min=0, help="From which all draws follow; set once.", show_default="random"),
]
Sample = Annotated[
    bool,
    typer.Option("--sample", help="Fill it with 300 people in 4 regions and 20 weeks of history."),
]


@commands.command(
    epilog=examples(
        "softfair init --sample",
        "softfair init --capacity 30 --target benefit=95% --first-day 2027-01-04",
        "softfair init --by region --capacity north=10,south=5",
        "softfair init --except 2027-12-27=0,2028-01-03=50%",
    )
)
def init(
    db: Database = "softfair.db",
    round: RoundName = None,
    first_day: FirstDay = None,
    every: Every = None,
    capacity: Capacity = None,
    exceptions: Except = None,
    by: By = None,
    horizon: Horizon = None,
    ends: Ends = None,
    states: States = None,
    threshold: Threshold = None,
    c: C = None,
    target: TargetOfAll = None,
    policy: PolicyOfAll = None,
    promise: PromiseOfAll = None,
    cooldown: Cooldown = None,
    shrink: Shrink = None,
    protected: Protected = None,
    monotone: Monotone = None,
    level: Level = None,
    seed: Seed = None,
    sample: Sample = False,
    yes: Yes = False,
) -> None:
    """Make a programme, or change the settings of one. Everything has a default."""
    from ..settings import initialise

    database = open_store(db)
    plain: dict[str, Any] = {
        "round": round,
        "first_day": _iso(first_day),
        "every": every,
        "horizon": horizon,
        "c": c,
        "cooldown": cooldown,
        "shrink": shrink,
        "monotone": monotone,
        "level": level,
        "states": tuple(name.strip() for name in states.split(",")) if states is not None else None,
        "seed": seed,
    }
    changes = {name: value for name, value in plain.items() if value is not None}
    changes |= _how_lists_are_drawn(target, policy, promise) | _capacities(capacity, by)
    if protected is not None:
        names = tuple(name.strip() for name in protected.split(",") if name.strip())
        changes["protected"] = () if names == ("none",) else names
    changes |= _of_single_rounds(database, changes, exceptions, ends)
    if sample and "seed" not in changes and not database.exists():
        changes["seed"] = 0  # so that the sample is the same for everybody
    if sample:
        _refuse_other_people(database)
    settings, new = initialise(database, software(), **changes)
    if threshold is not None:
        _rethreshold(database, threshold, yes)
        settings = settings_of(database)
    if sample:
        _fill(database)
    _tell(database.name, settings, new, sample)


def _how_lists_are_drawn(
    target: str | None, policy: str | None, promise: str | None
) -> dict[str, Any]:
    """The target, the policy and the promise that are asked for, as settings."""
    from ..aims import Evenness, Target
    from ..promises import Promise

    changes: dict[str, Any] = {}
    if target is not None:
        changes["target"] = None if target == "none" else Target.parse(target)
    if policy is not None:
        changes["evenness"] = Evenness.parse(policy)
    if promise is not None:
        changes["promise"] = Promise.parse(promise)
    return changes


def _capacities(capacity: str | None, by: str | None) -> dict[str, Any]:
    """The capacities that are asked for, as settings."""
    if capacity is not None:
        return {"capacity": _capacity(capacity), "by": by}
    if by is not None:
        raise InvalidInput(
            "--by needs the capacities too, such as --by region --capacity north=5,south=3"
        )
    return {}


def _tell(name: str, settings: Settings, new: bool, sample: bool) -> None:
    from ...terminal import say
    from ..luck import seed_hash

    say(f"{'Made' if new else 'Settings of'} the programme in {name}")
    say(f"  {_described(settings)}")
    say(f"  hash of the seed: {seed_hash(settings.seed)}")
    if sample:
        say("  300 people in 4 regions, 20 weeks of history. Next: softfair plan")
    elif new:
        say("  Next: softfair import people FILE")


def _iso(text: str | None) -> str | None:
    """A date in the form that the settings store, such as 2027-01-04."""
    from ..dates import DAY_FIRST, MONTH_FIRST, day_said

    if text is None:
        return None
    days = {day_said(text, DAY_FIRST), day_said(text, MONTH_FIRST)} - {None}
    if len(days) != 1:
        raise InvalidInput(f"the first day is {text!r}; give a date such as 2027-01-04")
    return str(days.pop())


def _of_single_rounds(
    database: Store, changes: dict[str, Any], exceptions: str | None, ends: str | None
) -> dict[str, Any]:
    """The settings that name rounds, by number or date: exceptions and the last round."""
    from ..settings import Settings

    if exceptions is None and ends is None:
        return {}
    before = settings_of(database) if database.exists() else Settings()
    days = {name: changes[name] for name in ("round", "first_day", "every") if name in changes}
    after = replace(before, **days)
    single: dict[str, Any] = {}
    if ends is not None:
        single["ends"] = None if ends == "none" else which_round(after, ends)
    if exceptions == "none":
        single["exceptions"] = {}
    elif exceptions is not None:
        parts = [part.partition("=") for part in exceptions.split(",")]
        told = {which_round(after, day.strip()): k.strip() for day, _, k in parts}
        single["exceptions"] = {**before.exceptions, **told}
    return single


def _rethreshold(database: Store, threshold: str, yes: bool) -> None:
    from ..thresholds import change_threshold

    done = ask(lambda sure: change_threshold(database, software(), threshold, sure), yes)
    if done.changed:
        print(
            f"The threshold is {done.after}: {done.changed:,} of {done.values:,} states were "
            f"changed (batch {done.batch})."
        )


def _refuse_other_people(database: Store) -> None:
    """Refuse the sample if the programme has people of its own."""
    from ..sample import PEOPLE
    from ..snapshot import how_many

    if database.exists() and (number := how_many(database)) not in (0, PEOPLE):
        raise InvalidInput(
            f"the programme has {number} people of its own; make the sample in another --db"
        )


def _fill(database: Store) -> None:
    """Import the sample's people and history."""
    from ..imports import import_history, import_people
    from ..sample import history_file, people_file

    import_people(database, people_file(), software())
    import_history(database, history_file(), software())


def _described(settings: Settings) -> str:
    """The settings in a line."""
    if settings.capacity is None:
        k = "one in ten"
    elif isinstance(settings.capacity, int):
        k = str(settings.capacity)
    else:
        k = ", ".join(f"{name} {number}" for name, number in settings.capacity.items())
    if settings.exceptions:
        k += (
            " ("
            + ", ".join(
                f"{settings.called(at)} {told}" for at, told in sorted(settings.exceptions.items())
            )
            + ")"
        )
    how = f"target: {settings.target}" if settings.target else f"c = {settings.c:g}"
    if not settings.evenness.is_softfair:
        how += f"; {settings.evenness}"
    if not settings.promise.is_none:
        how += f"; promise: {settings.promise}"
    from_ = "" if settings.first_day is None else f" from {settings.first_day}"
    ends = "" if settings.ends is None else f", to {settings.called(settings.ends)}"
    good = "" if settings.threshold is None else f"; threshold: {settings.threshold}"
    return (
        f"rounds: {settings.round}{from_}{ends}, looking {settings.horizon} ahead; capacity: {k}; "
        f"states: {', '.join(settings.states)}{good}; {how}"
    )


def _capacity(text: str) -> int | dict[str, int]:
    """What ``30``, ``north=10,south=5`` or the path of a CSV file says."""
    if text.strip().isdecimal():
        return int(text[:12])  # a longer number is refused anyway
    if Path(text).suffix.lower() == ".csv":
        rows = _capacity_file(text)
    else:
        rows = [[cell.strip() for cell in part.split("=")] for part in text.split(",")]
    wrong = [
        row
        for row in rows
        if len(row) != 2 or not row[0] or not row[1].isdecimal() or len(row[1]) > 10
    ]
    if wrong or not rows:
        what = f"{'='.join(wrong[0])!r} in {text!r}" if wrong else repr(text)
        raise InvalidInput(
            f"the capacity is {what}; "
            "give a whole number such as 30, or each group's: north=10,south=5"
        )
    if len({name for name, _ in rows}) < len(rows):
        raise InvalidInput(f"the capacities {text!r} name a group twice; give each one once")
    return {name: int(number) for name, number in rows}


def _capacity_file(path: str) -> list[list[str]]:
    """The rows of a CSV file without its heading, if it has one."""
    import csv

    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot read {path} ({error}); "
            "give a CSV file with a group and its capacity on each line"
        ) from None
    delimiter = max(",;\t", key="".join(lines).count)
    rows = [
        [cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter) if any(row)
    ]
    has_heading = rows and len(rows[0]) == 2 and not rows[0][1].isdecimal()
    return rows[1:] if has_heading else rows
