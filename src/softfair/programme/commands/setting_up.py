"""The command that makes a programme or changes its settings: init."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidInput
from .shared import Database, commands, open_store, software

if TYPE_CHECKING:
    from ..settings import Settings
    from ..store import Store

# Options of `init`.
RoundName = Annotated[
    str | None, typer.Option("--round", help="What a round is called.  [default: week]")
]
Capacity = Annotated[
    str | None,
    typer.Option(
        help="People a round: 30, or by group: north=10,south=5, or a CSV file of the two.  "
        "[default: one in ten]"
    ),
]
By = Annotated[
    str | None,
    typer.Option(help="Group column that capacities go by, such as region or language."),
]
Horizon = Annotated[
    int | None, typer.Option(help="Rounds, from the first that is planned.  [default: 26]")
]
States = Annotated[
    str | None,
    typer.Option(help="Names of the states, from worst to best.  [default: bad,good]"),
]
C = Annotated[
    float | None,
    typer.Option(
        help="How strongly gain counts: 0 a lottery, inf those who gain most.  [default: 10]"
    ),
]
TargetOfAll = Annotated[
    str | None,
    typer.Option(
        help="Instead of c: benefit=95%, wait=8, or region=0.5 (share of the average rate); "
        "none to undo."
    ),
]
Cooldown = Annotated[
    int | None, typer.Option(help="Rounds after a contact without another.  [default: 0]")
]
Shrink = Annotated[
    str | None,
    typer.Option(
        help="Group column towards which estimates are drawn.  [default: the first with few values]"
    ),
]
Monotone = Annotated[
    bool | None,
    typer.Option(
        "--monotone/--free", help="Whether contact cannot harm and the good state persists."
    ),
]
Level = Annotated[float | None, typer.Option(help="Of intervals.  [default: 0.9]")]
Seed = Annotated[
    int | None,
    typer.Option(min=0, help="From which all draws follow; set once.  [default: random]"),
]
Sample = Annotated[
    bool,
    typer.Option("--sample", help="Fill it with 300 people in 4 regions and 20 weeks of history."),
]


@commands.command()
def init(
    db: Database = "softfair.db",
    round: RoundName = None,
    capacity: Capacity = None,
    by: By = None,
    horizon: Horizon = None,
    states: States = None,
    c: C = None,
    target: TargetOfAll = None,
    cooldown: Cooldown = None,
    shrink: Shrink = None,
    monotone: Monotone = None,
    level: Level = None,
    seed: Seed = None,
    sample: Sample = False,
) -> None:
    """Make a programme, or change the settings of one. Everything has a default."""
    from ..settings import Target, initialise

    database = open_store(db)
    changes: dict[str, Any] = {
        "round": round,
        "horizon": horizon,
        "c": c,
        "cooldown": cooldown,
        "shrink": shrink,
        "monotone": monotone,
        "level": level,
        "states": tuple(name.strip() for name in states.split(",")) if states is not None else None,
        "seed": seed,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if target is not None:
        changes["target"] = None if target == "none" else Target.parse(target)
    if capacity is not None:
        changes |= {"capacity": _capacity(capacity), "by": by}
    elif by is not None:
        raise InvalidInput(
            "--by needs the capacities too, such as --by region --capacity north=5,south=3"
        )
    if "seed" not in changes and not database.exists():
        changes["seed"] = 0 if sample else secrets.randbits(48)
    if sample:
        _refuse_other_people(database)
    settings, new = initialise(database, software(), **changes)
    if sample:
        _fill(database)
    print(f"{'Made' if new else 'Settings of'} the programme in {database.name}")
    print(f"  {_described(settings)}")
    if sample:
        print("  300 people in 4 regions, 20 weeks of history. Next: softfair plan")
    elif new:
        print("  Next: softfair import people FILE")


def _refuse_other_people(database: Store) -> None:
    """The sample's people are not mixed with others."""
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
    how = f"target: {settings.target}" if settings.target else f"c = {settings.c:g}"
    return (
        f"rounds: {settings.round}, {settings.horizon} to plan; capacity: {k}; "
        f"states: {', '.join(settings.states)}; {how}"
    )


def _capacity(text: str) -> int | dict[str, int]:
    """What ``30``, ``north=10,south=5`` or the path of a CSV file says."""
    if text.strip().isdecimal():
        return int(text[:12])  # a longer one is refused all the same
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
