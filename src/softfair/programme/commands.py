"""The commands of a programme: init, import, fit, plan, record, audit, export.

They read their arguments, call the other modules of this folder and print what comes of it.
"""

from __future__ import annotations

import json
import secrets
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import BadRows, InvalidInput

if TYPE_CHECKING:
    from .batches import Imported
    from .models import Model
    from .plans import Plan
    from .settings import Settings
    from .store import Store

__all__ = ["commands"]

commands = typer.Typer()

LATEST = 2**31 - 2  # the last round that a database can hold, less one for the state after it
SHOWN = 20  # bad entries that are printed

# Options of several commands.
Database = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="SOFTFAIR_DB",
        help="SQLite file, or postgresql+psycopg://user:password@host/name.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Threshold = Annotated[
    str | None,
    typer.Option(
        help="For a column `value` of numbers: good from here up (4), or up to here ('<=3')."
    ),
]
Again = Annotated[
    bool,
    typer.Option(
        "--again", help="Take a file that was taken before, though it has been corrected since."
    ),
]
Errors = Annotated[
    Path | None, typer.Option("--errors", help="Write all bad entries to this CSV file.")
]

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


def _software() -> str:
    return f"softfair {version('softfair')}"


def _open(db: str) -> Store:
    from .store import Store

    return Store(db)


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
    from .settings import Target, initialise

    database = _open(db)
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
    settings, new = initialise(database, _software(), **changes)
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
    from .sample import PEOPLE
    from .snapshot import how_many

    if database.exists() and (number := how_many(database)) not in (0, PEOPLE):
        raise InvalidInput(
            f"the programme has {number} people of its own; make the sample in another --db"
        )


def _fill(database: Store) -> None:
    """Import the sample's people and history."""
    from .imports import import_history, import_people
    from .sample import history_file, people_file

    import_people(database, people_file(), _software())
    import_history(database, history_file(), _software())


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


@commands.command("import")
def import_(
    kind: Annotated[
        Literal["people", "history"], typer.Argument(help="What the file holds: people or history.")
    ],
    file: Annotated[str, typer.Argument(help="CSV or Parquet; - for standard input.")],
    db: Database = "softfair.db",
    threshold: Threshold = None,
    add_people: Annotated[
        bool,
        typer.Option("--add-people", help="Enrol people whom the history names and nobody knows."),
    ] = False,
    again: Again = False,
    errors: Errors = None,
) -> None:
    """Import people (id, groups, enrolled, left, opted_out, reserved) or history (id, round, state
    or value, contacted)."""
    from .imports import import_history, import_people

    database = _open(db)
    try:
        if kind == "people":
            done = import_people(database, file, _software(), again)
        else:
            done = import_history(database, file, _software(), threshold, add_people, again)
    except BadRows as bad:
        _list(bad, errors)
        raise
    _say(done, kind)


@commands.command()
def record(
    file: Annotated[
        str | None,
        typer.Argument(
            help="CSV or Parquet: id, contacted, state (or value) reached; - for standard input."
        ),
    ] = None,
    round: Annotated[
        int | None,
        typer.Option(
            "--round", min=0, max=LATEST, help="Which round.  [default: the last one planned]"
        ),
    ] = None,
    db: Database = "softfair.db",
    threshold: Threshold = None,
    again: Again = False,
    errors: Errors = None,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Make up what happened to the sample programme's people."),
    ] = False,
) -> None:
    """Record who was in fact contacted in a round, and the states reached."""
    from .records import record as take
    from .sample import outcome_file

    database = _open(db)
    if (file is None) != sample:
        raise InvalidInput(
            "give a file of what happened" if file is None else "give a file or --sample, not both"
        )
    try:
        done = take(
            database,
            outcome_file(database, round) if file is None else file,
            _software(),
            round,
            threshold,
            again,
        )
    except BadRows as bad:
        _list(bad, errors)
        raise
    _say(done, "record")


def _list(bad: BadRows, errors: Path | None) -> None:
    """Print bad entries to standard output; not to the log, for they may name people."""
    for fault in bad.faults[:SHOWN]:
        print(fault)
    if len(bad.faults) > SHOWN:
        print(
            f"... and {len(bad.faults) - SHOWN} more"
            + ("" if errors else "; all of them with --errors FILE")
        )
    if errors is not None:
        from .tables import write_table

        columns = {
            name: [getattr(fault, name) for fault in bad.faults]
            for name in ("line", "column", "value", "problem")
        }
        write_table(columns, errors)


def _say(done: Imported, kind: str) -> None:
    if done.before:
        print(
            f"The same {kind} was taken before ({done.rows:,} rows, batch {done.batch}); "
            "nothing changed."
        )
        if done.superseded:
            print(
                f"Look: {done.superseded:,} of its entries have been corrected since; "
                "to go back to what it says, add --again."
            )
        return
    print(
        f"{done.rows:,} rows of {kind} (batch {done.batch}): "
        f"{done.added:,} new entries, {done.corrected:,} corrected."
    )
    if done.groups:
        print(f"Taken as groups: {', '.join(done.groups)}.")
    if many := done.recorded:
        print(
            f"Round {many.round}: {many.contacted} contacted; "
            f"of {many.listed} on the list {many.not_reached} not reached; "
            f"{many.off_list} contacted who were not on it; "
            f"{many.absent} not in the file, taken as not contacted."
        )


@commands.command()
def fit(db: Database = "softfair.db", as_json: Json = False) -> None:
    """Estimate each person's transition probabilities from the history."""
    from dataclasses import asdict

    from .models import fit as estimate
    from .settings import current_settings

    database = _open(db)
    model, new = estimate(database, _software())
    if as_json:
        print(json.dumps({"model": model.id, "new": new, **asdict(model.summary)}, indent=1))
        return
    with database.reading() as connection:
        _, settings = current_settings(connection)
    _show_model(model, new, settings)


def _show_model(model: Model, new: bool, settings: Settings) -> None:
    summary = model.summary
    again = "" if new else " (nothing has changed since)"
    print(
        f"Model {model.id}{again}: {summary.transitions:,} transitions of {summary.people:,} people"
    )
    print(
        f"  {summary.without_history:,} without any transition of their own "
        "have the estimate of their group"
    )
    if summary.monotone_bound:
        print(
            f"  for {summary.monotone_bound:,} people the estimate was moved "
            "so that contact does not harm and the good state persists"
        )
    width = (model.high - model.low)[..., -1].mean(axis=0)  # [2, S]
    for a, contact in enumerate(("not contacted", "contacted")):
        for s, state in enumerate(settings.states):
            chance = model.P[:, a, s, -1]
            print(
                f"  {state}, {contact}: next {settings.states[-1]} "
                f"with chance {chance.mean():.2f} on average "
                f"(people differ from {chance.min():.2f} to {chance.max():.2f}; "
                f"{settings.level:.0%} interval of one person {width[a, s]:.2f} wide)"
            )


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
    from .plans import make_plan
    from .settings import Target

    database = _open(db)
    if check:
        _verify(database, as_json)
        return
    asked = None if target is None else Target.parse(target)
    made, new = make_plan(database, _software(), round, replan, asked)
    if as_json:
        print(json.dumps(_plan_json(made, everyone), indent=1))
        return
    _show_plan(made, new, everyone)


def _verify(database: Store, as_json: bool) -> None:
    from .plans import verify

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


def _plan_json(plan: Plan, everyone: bool) -> dict[str, Any]:
    from .store import c_to_json
    from .tables import plan_columns

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

    from .plans import explain

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


@commands.command()
def audit(
    db: Database = "softfair.db",
    as_json: Json = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a self-contained page with histograms.")
    ] = None,
) -> None:
    """Check what was done against what was stated: fairness, calibration, groups, and what another
    policy would have brought."""
    from .audit import audit as examine
    from .audit import show, write_page

    result = examine(_open(db))
    if html is not None:
        write_page(result, html)
        print(html, file=sys.stderr)
    if as_json:
        print(json.dumps(result.to_dict(), indent=1))
        return
    from rich.console import Console

    show(result, Console())


@commands.command()
def export(
    what: Annotated[
        Literal["plan", "audit", "model"], typer.Argument(help="plan, audit or model.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="File ending in .csv, .parquet or .json; - for CSV on standard output."
        ),
    ] = Path("-"),
    db: Database = "softfair.db",
    round: Annotated[
        int | None,
        typer.Option("--round", min=0, max=LATEST, help="Which plan.  [default: the last]"),
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Everybody, not only those on the list.")
    ] = False,
) -> None:
    """Write a plan (a worksheet that `record` reads back once filled in), the audit's figures or
    everybody's estimates to a file."""
    from .tables import audit_columns, model_columns, plan_columns, write_table

    database = _open(db)
    if what == "plan":
        from .plans import plan_of

        made = plan_of(database, round)
        if out.suffix.lower() == ".json":
            from ..files import write_whole

            write_whole(out, json.dumps(_plan_json(made, everyone), indent=1).encode())
        else:
            write_table(plan_columns(made, everyone), out)
    elif what == "model":
        from .models import latest_model

        write_table(model_columns(*latest_model(database)), out)
    else:
        from .audit import audit as examine

        write_table(audit_columns(examine(database).to_dict()), out)
    if str(out) != "-":
        print(out, file=sys.stderr)
