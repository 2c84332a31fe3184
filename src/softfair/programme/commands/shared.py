"""What the commands of a programme have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ...errors import InvalidInput, Unsure

if TYPE_CHECKING:
    from ..settings import Settings
    from ..store import Store

commands = typer.Typer()

Answer = TypeVar("Answer")
LATEST = 2**31 - 2  # the last round that a database can hold, less one for the state after it

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
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it, though it may look like a slip.")]
ROUND_HELP = "Which round: its number, or a date in it."


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\n\n".join(["Examples:", *lines])


def software() -> str:
    """Name and version of this software, stored with everything that it writes."""
    return f"softfair {version('softfair')}"


opened: list[Store] = []  # the databases that this command has opened


def open_store(db: str) -> Store:
    """The programme in a database."""
    from ..store import Store

    opened.append(Store(db))
    return opened[-1]


def altered() -> str | None:
    """A line on what was altered in a database, so that a command failed; None: nothing was."""
    from ..checks import check

    for database in opened:
        if wrong := check(database).wrong:
            return (
                f"the database was altered so that it cannot be read: {wrong[0]}; "
                "see: softfair check"
            )
    return None


def settings_of(database: Store) -> Settings:
    """The settings in force."""
    from ..settings import current_settings

    with database.reading() as connection:
        return current_settings(connection)[1]


def ask(do: Callable[[bool], Answer], sure: bool) -> Answer:
    """Do something that may be a mistake: ask a person at a terminal, refuse a script."""
    try:
        return do(sure)
    except Unsure as unsure:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        if not typer.confirm(f"{unsure.doubt[:1].upper()}{unsure.doubt[1:]}. Go on?"):
            raise
        return do(True)


def which_round(settings: Settings, text: str | None) -> int | None:
    """The round that a number or a date stands for."""
    from ..dates import day_said

    if text is None:
        return None
    if text.isdecimal():
        if len(text) <= 10 and int(text) <= LATEST:
            return int(text)
    elif (day := day_said(text)) is not None:
        if settings.calendar is None:
            raise InvalidInput(
                f"the round is {text!r}, and this programme does not know its first day; give a "
                "number, or say the day: softfair init --first-day DATE"
            )
        if (at := settings.calendar.round_of(day)) >= 0:
            return at
    raise InvalidInput(
        f"the round is {text!r}; give a number from 0 to {LATEST}, or a date such as 2027-01-04"
    )
