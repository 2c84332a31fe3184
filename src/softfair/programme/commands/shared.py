"""What the commands of a programme have in common."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..store import Store

commands = typer.Typer()

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


def software() -> str:
    """Name and version that everything written is stamped with."""
    return f"softfair {version('softfair')}"


def open_store(db: str) -> Store:
    """The programme in a database."""
    from ..store import Store

    return Store(db)
