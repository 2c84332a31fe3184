"""The commands that report or export what is stored: audit, export."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...errors import InvalidInput
from .planning import plan_json
from .shared import (
    ROUND_HELP,
    Csv,
    Database,
    Json,
    commands,
    examples,
    open_store,
    settings_of,
    software,
    which_round,
)

if TYPE_CHECKING:
    from ..plans import Plan
    from ..store import Store
    from ..tables import Pieces

TO_FILL_IN = ("contacted", "state", "value", "comment")  # columns of an exported list

# Options of worksheets.
By = Annotated[
    str | None,
    typer.Option(
        help="For worksheets: the column that has the worker or site.",
        show_default="one worksheet for all",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="For worksheets: what else to show, such as name,phone.", show_default="nothing"
    ),
]
Kind = Annotated[
    Literal["csv", "xlsx", "html"],
    typer.Option("--format", help="Of worksheets; html is a page to print."),
]


@commands.command(
    epilog=examples(
        "softfair audit", "softfair audit --html audit.html", "softfair audit --horizon 4"
    )
)
def audit(
    db: Database = "softfair.db",
    names: Annotated[
        int,
        typer.Option(
            min=0,
            help="How many to name of those who wait longest, and of those who are on a list or "
            "not by changes shortly before it.",
        ),
    ] = 0,
    horizon: Annotated[
        int,
        typer.Option(
            min=1,
            help="Estimate what other policies would have brought over so many rounds, too.",
        ),
    ] = 1,
    as_json: Json = False,
    as_csv: Csv = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write a self-contained page with histograms.", show_default="none"
        ),
    ] = None,
) -> None:
    """Check what was done against what was stated: fairness, calibration, groups, and what another
    policy would have brought."""
    from ..audit import audit as examine
    from ..audit import show, write_page

    result = examine(open_store(db), names=names, horizon=horizon)
    if html is not None:
        write_page(result, html)
        print(html, file=sys.stderr)
    if as_json:
        print(json.dumps(result.to_dict(), indent=1))
    elif as_csv:
        from ..tables import audit_columns, write_table

        write_table(audit_columns(result.to_dict()), Path("-"))
    else:
        show(result)


@commands.command(
    epilog=examples(
        "softfair export plan --out list.xlsx",
        "softfair export worksheets --out sheets --by worker --columns name,phone --format html",
        "softfair export model --out model.csv",
        "softfair export log --out log.parquet",
    )
)
def export(
    what: Annotated[
        Literal["plan", "worksheets", "audit", "model", "log"],
        typer.Argument(help="plan, worksheets, audit, model or log."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="File ending in .csv, .xlsx, .parquet or .json; - for CSV on standard output; "
            "for worksheets a folder.",
        ),
    ] = Path("-"),
    db: Database = "softfair.db",
    round: Annotated[
        str | None, typer.Option("--round", help=ROUND_HELP, show_default="the last planned")
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Everybody, not only those on the list.")
    ] = False,
    by: By = None,
    columns: Columns = None,
    kind: Kind = "xlsx",
) -> None:
    """Write a plan (a worksheet that `record` reads back once filled in), a worksheet for each
    worker, the audit's figures, everybody's estimates, or the log of what was stated and what
    happened, a row a person and round."""
    from ..checks import head
    from ..plans import plan_of
    from ..tables import audit_columns, model_table, write_table

    database = open_store(db)
    checkpoint = head(database)
    if what in ("plan", "worksheets"):
        plan = plan_of(database, which_round(settings_of(database), round))
        if round is None:
            _tell_which(database, plan.round)
        if what == "plan":
            _export_plan(database, plan, out, everyone, checkpoint)
            return
        if str(out) == "-":
            raise InvalidInput("worksheets go to a folder; say which, such as --out sheets")
        _export_worksheets(database, plan, out, by, columns, kind)
        return
    if what == "model":
        from ..models import latest_model

        write_table(with_head(model_table(*latest_model(database)), checkpoint), out)
    elif what == "log":
        from ..audit.logged import log_table

        write_table(log_table(database), out)
    else:
        from ..audit import audit as examine

        write_table(audit_columns(examine(database).to_dict()), out)
    if str(out) != "-":
        print(out, file=sys.stderr)


def _tell_which(database: Store, at: int) -> None:
    """Say which round is exported, if several planned rounds are open."""
    from ..snapshot import several_open

    with database.reading() as connection:
        opened = several_open(connection)
    if opened:
        rounds = ", ".join(map(str, opened))
        print(
            f"Rounds {rounds} are planned; this is round {at} (--round says which).",
            file=sys.stderr,
        )


def _export_plan(database: Store, plan: Plan, out: Path, everyone: bool, checkpoint: str) -> None:
    """Write a plan without the people who are struck off, and say how many there are."""
    from ..changes import hand_out
    from ..commitments import code_before
    from ..tables import json_object, plan_table, write_table

    since = hand_out(database, plan, software())
    if out.suffix.lower() == ".json":
        from ...files import whole_file

        header = plan_json(plan, checkpoint, since, code_before(database, plan.luck))
        with (
            whole_file(out, private=True) as unfinished,
            unfinished.open("w", encoding="utf-8") as file,
        ):
            file.writelines(json_object(header, "people", plan_table(plan, everyone, since)))
    else:
        calendar = settings_of(database).calendar
        write_table(with_head(plan_table(plan, everyone, since, calendar), checkpoint), out)
    if since.called:
        print(f"{len(since.called)} were called from the reserve.", file=sys.stderr)
    if str(since):
        print(
            f"Since round {plan.round} was planned: {since}. "
            "Those who are struck off are left out; "
            f"to draw anew: softfair plan --round {plan.round} --replan '{since}'",
            file=sys.stderr,
        )
    if str(out) != "-":
        print(out, file=sys.stderr)


def _export_worksheets(
    database: Store,
    plan: Plan,
    out: Path,
    by: str | None,
    columns: str | None,
    kind: Literal["csv", "xlsx", "html"],
) -> None:
    from ..changes import hand_out
    from ..worksheets import write_worksheets

    hand_out(database, plan, software())
    shown = tuple(name.strip() for name in columns.split(",")) if columns else ()
    made = write_worksheets(database, plan, out, by, shown, kind)
    for path in made.files:
        print(path)
    if made.struck:
        print(f"Left out, since the plan was made: {made.struck}.", file=sys.stderr)


def with_head(table: Pieces, checkpoint: str) -> Pieces:
    """An export with the head of the log, on one line, in every row.

    Its column comes before the columns to fill in.
    """
    from ..tables import Pieces

    text = " ".join(checkpoint.split())

    def between(columns: Mapping[str, Any], head: Any) -> dict[str, Any]:
        before = {name: values for name, values in columns.items() if name not in TO_FILL_IN}
        return {**before, "checkpoint": head, **{n: columns[n] for n in TO_FILL_IN if n in columns}}

    pieces = (between(one, [text] * len(next(iter(one.values())))) for one in table.each)
    return Pieces(between(table.kinds, str), pieces)
