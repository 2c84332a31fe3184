"""The commands that take something back or keep a copy: retract, backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...terminal import say
from .shared import Database, commands, examples, open_store, settings_of, software


@commands.command(
    epilog=examples("softfair log", "softfair retract 7 --reason 'wrong week'", "softfair plan")
)
def retract(
    batch: Annotated[int, typer.Argument(min=1, help="Number of the batch, as in softfair log.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept.")],
    db: Database = "softfair.db",
) -> None:
    """Put an import or a record out of force, as if it had never come; both are kept."""
    from ..retractions import retract as put_out

    database = open_store(db)
    done = put_out(database, software(), batch, reason)
    of = "" if done.round is None else f" of {settings_of(database).called(done.round)}"
    file = f" from {done.file}" if done.file else ""
    say(
        f"Batch {done.retracts} ({done.kind}{of}{file}, {done.rows:,} rows) is no longer in force. "
        f"To undo: softfair retract {done.batch} --reason '...'"
    )


@commands.command(
    epilog=examples(
        "softfair backup copies/2027-01-04.db", "softfair status --db copies/2027-01-04.db"
    )
)
def backup(
    file: Annotated[Path, typer.Argument(help="A file that is not there yet.")],
    db: Database = "softfair.db",
) -> None:
    """Copy the whole programme to a SQLite file, as of one moment, while others may be writing."""
    from ..backup import backup as copy

    rows = copy(open_store(db), file)
    print(f"{file}: {rows:,} rows. Bring it back with: softfair restore {file} --db NEW")


@commands.command(
    epilog=examples(
        "softfair restore copies/2027-01-04.db --db softfair.db",
        "softfair restore copies/2027-01-04.db --db postgresql+psycopg://user:password@host/name",
    )
)
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `softfair backup` made.")],
    db: Database = "softfair.db",
) -> None:
    """Copy a programme from a backup into a database that has none yet."""
    from ..backup import restore as copy

    database = open_store(db)
    rows = copy(file, database)
    print(f"{database.name}: {rows:,} rows, as of the backup.")
