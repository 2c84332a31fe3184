"""The commands that take files in: import, record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...errors import BadRows, InvalidInput
from .shared import LATEST, Database, commands, open_store, software

if TYPE_CHECKING:
    from ..batches import Imported

SHOWN = 20  # bad entries that are printed

# Options of both.
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
    from ..imports import import_history, import_people

    database = open_store(db)
    try:
        if kind == "people":
            done = import_people(database, file, software(), again)
        else:
            done = import_history(database, file, software(), threshold, add_people, again)
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
    from ..records import record as take
    from ..sample import outcome_file

    database = open_store(db)
    if (file is None) != sample:
        raise InvalidInput(
            "give a file of what happened" if file is None else "give a file or --sample, not both"
        )
    try:
        done = take(
            database,
            outcome_file(database, round) if file is None else file,
            software(),
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
        from ..tables import write_table

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
