"""The commands that give out what is stored: audit, export."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from .planning import plan_json
from .shared import LATEST, Database, Json, commands, open_store


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
    from ..audit import audit as examine
    from ..audit import show, write_page

    result = examine(open_store(db))
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
    from ..tables import audit_columns, model_columns, plan_columns, write_table

    database = open_store(db)
    if what == "plan":
        from ..plans import plan_of

        made = plan_of(database, round)
        if out.suffix.lower() == ".json":
            from ...files import write_whole

            write_whole(out, json.dumps(plan_json(made, everyone), indent=1).encode())
        else:
            write_table(plan_columns(made, everyone), out)
    elif what == "model":
        from ..models import latest_model

        write_table(model_columns(*latest_model(database)), out)
    else:
        from ..audit import audit as examine

        write_table(audit_columns(examine(database).to_dict()), out)
    if str(out) != "-":
        print(out, file=sys.stderr)
