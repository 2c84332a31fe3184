"""The commands that take files in: import, record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...errors import BadRows, InvalidInput
from .shared import (
    ROUND_HELP,
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
    from ..batches import Imported, Recorded
    from ..columns import ReadAs
    from ..settings import Settings

SHOWN = 20  # bad entries that are printed
NAMED = 40  # columns that are named

# Options of both, and of import alone.
Threshold = Annotated[
    str | None,
    typer.Option(
        help="For a column `value` of numbers: good from here up (4), or up to here ('<=3').",
        show_default="the programme's",
    ),
]
Map = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="What columns are called in the file: round=Week,id='Person no'.",
        show_default="as in the last file, else guessed and told",
    ),
]
Dates = Annotated[
    str | None,
    typer.Option(
        help="How 3/4/2027 is meant: day-first or month-first.", show_default="by the column"
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(help="Which sheet of a workbook.", show_default="the first that is not empty"),
]
Keep = Annotated[
    str | None,
    typer.Option(
        help="Columns of people for worksheets, no groups: name,phone.",
        show_default="those with a value of their own for most people",
    ),
]
Ignore = Annotated[str | None, typer.Option(help="Columns not to read.", show_default="none")]
Twins = Annotated[
    str | None,
    typer.Option(
        help="Whether Pune, pune and Puné are one group: together or apart.",
        show_default="asked",
    ),
]
Again = Annotated[
    bool,
    typer.Option(
        "--again", help="Take a file that was taken before, though it has been corrected since."
    ),
]
Errors = Annotated[
    Path | None,
    typer.Option("--errors", help="Write all bad entries to this CSV file.", show_default="none"),
]


@commands.command(
    "import",
    epilog=examples(
        "softfair import people people.xlsx --keep name,phone",
        "softfair import history history.csv --map round=Week,id='Beneficiary ID'",
        "softfair import history minutes.csv --threshold 4 --dates day-first",
    ),
)
def import_(
    kind: Annotated[
        Literal["people", "history"], typer.Argument(help="What the file holds: people or history.")
    ],
    file: Annotated[str, typer.Argument(help="CSV, Excel or Parquet; - for standard input.")],
    db: Database = "softfair.db",
    map_: Map = None,
    dates: Dates = None,
    sheet: Sheet = None,
    keep: Keep = None,
    ignore: Ignore = None,
    twins: Twins = None,
    threshold: Threshold = None,
    states_after: Annotated[
        bool,
        typer.Option("--states-after", help="States are those after the contacts of the round."),
    ] = False,
    add_people: Annotated[
        bool,
        typer.Option("--add-people", help="Enrol people whom the history names and nobody knows."),
    ] = False,
    again: Again = False,
    yes: Yes = False,
    errors: Errors = None,
) -> None:
    """Import people (id, groups, enrolled, left, absent, opted_out, reserved) or history (id, round
    or date, state or value, contacted)."""
    from ..imports import import_history, import_people

    database = open_store(db)
    how = _how(map_, dates, sheet, keep, ignore, twins)
    try:
        if kind == "people":
            done = import_people(database, file, software(), again, how)
        else:
            done = ask(
                lambda sure: import_history(
                    database,
                    file,
                    software(),
                    threshold,
                    add_people,
                    again,
                    how,
                    sure,
                    states_after,
                ),
                yes,
            )
    except BadRows as bad:
        _list(bad, errors)
        raise
    _say(done, kind, settings_of(database))


def _how(
    map_: str | None,
    dates: str | None,
    sheet: str | None,
    keep: str | None = None,
    ignore: str | None = None,
    twins: str | None = None,
) -> ReadAs:
    from ..columns import ReadAs

    def names(text: str | None) -> tuple[str, ...]:
        return tuple(name.strip() for name in text.split(",")) if text else ()

    columns = ReadAs.parse_columns(map_) if map_ else {}
    return ReadAs(columns, names(keep), names(ignore), dates, twins, sheet)


@commands.command(
    epilog=examples(
        "softfair record list.xlsx",
        "softfair record called-on-monday.csv --round 2027-01-04",
        "softfair record --close",
    )
)
def record(
    file: Annotated[
        str | None,
        typer.Argument(
            help="CSV, Excel or Parquet: id, contacted, state (or value) reached; "
            "- for standard input."
        ),
    ] = None,
    round: Annotated[
        str | None,
        typer.Option(
            "--round", help=ROUND_HELP, show_default="the first planned that is still open"
        ),
    ] = None,
    db: Database = "softfair.db",
    close: Annotated[
        bool,
        typer.Option("--close", help="This is all: those who were not told of were not contacted."),
    ] = False,
    map_: Map = None,
    dates: Dates = None,
    sheet: Sheet = None,
    threshold: Threshold = None,
    again: Again = False,
    yes: Yes = False,
    errors: Errors = None,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Make up what happened to the sample programme's people."),
    ] = False,
) -> None:
    """Record who was in fact contacted in a round, and the states reached. The round stays open
    until everybody on the list is told of, or it is closed."""
    from ..records import close_round
    from ..records import record as take
    from ..sample import outcome_file

    database = open_store(db)
    if file is None and not sample and not close:
        raise InvalidInput("give a file of what happened")
    if file is not None and sample:
        raise InvalidInput("give a file or --sample, not both")
    settings = settings_of(database)
    at = which_round(settings, round)
    if file is None and not sample:
        _say(close_round(database, software(), at), "record", settings)
        return
    source = outcome_file(database, at) if file is None else file
    how = _how(map_, dates, sheet)
    try:
        done = ask(
            lambda sure: take(database, source, software(), at, threshold, again, how, sure, close),
            yes,
        )
    except BadRows as bad:
        _list(bad, errors)
        raise
    _say(done, "record", settings)


def _list(bad: BadRows, errors: Path | None) -> None:
    """Print bad entries to standard output, not to the log, because they may name people."""
    for fault in bad.faults[:SHOWN]:
        print(fault)
    if len(bad.faults) > SHOWN:
        print(
            f"... and {'at least ' * bad.more}{len(bad.faults) - SHOWN} more"
            + ("" if errors else "; they are listed with --errors FILE")
        )
    if errors is not None:
        from ..tables import write_table

        columns = {
            name: [getattr(fault, name) for fault in bad.faults]
            for name in ("line", "column", "value", "problem")
        }
        write_table(columns, errors)


def _say(done: Imported, kind: str, settings: Settings) -> None:
    print(*told(done, kind, settings), sep="\n")


def told(done: Imported, kind: str, settings: Settings) -> list[str]:
    """What an import or a record did, in sentences."""
    from ..dates import ORDERS

    if done.before:
        return _told_before(done, kind, settings)
    lines = []
    if done.rows or not done.recorded:
        lines.append(
            f"{done.rows:,} rows of {kind} (batch {done.batch}): "
            f"{done.added:,} new entries, {done.corrected:,} corrected."
        )
    read_as = done.read_as
    if read_as.columns:
        said = ", ".join(f"{ours} from {theirs!r}" for ours, theirs in read_as.columns.items())
        lines.append(f"Columns: {said}; the next file is read alike (--map tells otherwise).")
    if read_as.dates in ORDERS:
        lines.append(f"Dates were read {read_as.dates}.")
    if done.groups:
        lines.append(f"Taken as groups: {_named(done.groups)}.")
    if done.kept:
        lines.append(f"Kept for worksheets, no groups: {_named(done.kept)}.")
    lines += done.notes
    if done.recorded:
        lines += _recorded_lines(done.recorded, settings)
    return lines


def _named(columns: Sequence[str]) -> str:
    """The names of columns; if there are very many, only the first."""
    named = ", ".join(columns[:NAMED])
    return named if len(columns) <= NAMED else f"{named} and {len(columns) - NAMED:,} more"


def _told_before(done: Imported, kind: str, settings: Settings) -> list[str]:
    of = "" if done.round is None else f" of {settings.called(done.round)}"
    lines = [
        f"The same {kind}{of} was taken before ({done.rows:,} rows, batch {done.batch}); "
        "nothing changed."
    ]
    if done.superseded:
        lines.append(
            f"Look: {done.superseded:,} of its entries have been corrected since; "
            "to go back to what it says, add --again."
        )
    return lines


def _recorded_lines(many: Recorded, settings: Settings) -> list[str]:
    """What a record says about its round, in sentences."""
    called = settings.called(many.round).capitalize()
    parts = []
    if many.told:
        parts.append(f"{many.contacted} contacted")
        if many.listed:
            parts.append(f"of {many.listed} on the list {many.not_reached} told as not reached")
            parts.append(f"{many.off_list} contacted who were not on it")
    if many.states:
        parts.append(f"{many.states} states reached")
    if not many.told:
        parts.append("nothing told of contacts")
    lines = [f"{called}: {'; '.join(parts)}."]
    if many.absent:
        lines.append(f"{many.absent} not told of are taken as not contacted.")
    if many.closed:
        lines.append(f"Round {many.round} is over.")
    elif many.listed:
        lines.append(
            f"Round {many.round} stays open: {many.untold} on the list are not told of. Record "
            f"them, or close it with: softfair record --close --round {many.round}"
        )
    return lines
