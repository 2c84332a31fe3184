"""Worksheets: the list of a round, a file or a printable page for each worker.

They hold what a worker needs: who to call, and empty columns to fill in. Details such as names and
telephone numbers are in no other output.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import InvalidInput
from ..files import write_private
from ..for_json import read_json
from .changes import since_plan
from .entries import says_nothing
from .formats import read_format
from .plans import Plan
from .settings import Settings, current_settings
from .snapshot import load_details, load_people
from .store import Store
from .tables import write_table

__all__ = ["Sheets", "write_worksheets"]

Kind = Literal["csv", "xlsx", "html"]
FILLED = ("contacted", "state", "value", "comment")  # columns for the worker
STYLE = (
    "body{font:11pt sans-serif}table{border-collapse:collapse;width:100%}"
    "td,th{border:1px solid #888;padding:.4em;text-align:left}@page{margin:1.5cm}"
)


@dataclass(frozen=True)
class Sheets:
    """What was written."""

    files: tuple[Path, ...]
    people: int
    struck: str  # which people on the list are left out, in words; empty: nobody


def write_worksheets(
    database: Store, plan: Plan, folder: Path, by: str | None, columns: tuple[str, ...], kind: Kind
) -> Sheets:
    """Write the list of a plan as a worksheet for each value of a column.

    Parameters
    ----------
    database
        The programme.
    plan
        The plan. People who have opted out or left since are left out.
    folder
        Where the files go.
    by
        A group or detail that holds the worker's name or the site; None: one worksheet for all.
    columns
        Details and groups to show, such as ``name`` and ``phone``.
    kind
        ``csv`` or ``xlsx``, which `record` reads once filled in, or ``html`` to print.

    Returns
    -------
    Sheets
        The files.

    Raises
    ------
    InvalidInput
        If there is no such column, or a worksheet that would be replaced has been filled in.
    """
    since = since_plan(database, plan)
    with database.reading() as connection:
        _, settings = current_settings(connection)
        people, details = load_people(connection), load_details(connection)
    known = {
        i: {**read_json(people.groups[i]), **details.get(i, {})}
        for i in [*plan.person[plan.listed == 1].tolist(), *since.called]
        if i not in since.struck
    }
    names = {name for one in known.values() for name in one}
    if unknown := [name for name in (*columns, *([by] if by else [])) if name not in names]:
        raise InvalidInput(
            f"nothing called {unknown[0]!r} is known of those on the list; "
            f"known: {', '.join(sorted(names)) or 'nothing'}"
        )
    chance = dict(zip(plan.person.tolist(), plan.probability.tolist(), strict=True))
    sheets: dict[str, list[dict[str, Any]]] = {}
    for i, one in known.items():
        row = {"id": people.names[i], "round": plan.round}
        row |= {name: one.get(name, "") for name in columns}
        row |= {"probability": round(chance[i], 2), "contacted": "", _reached(settings): ""}
        sheets.setdefault(one.get(by, "") if by else "", []).append({**row, "comment": ""})
    paths = {
        name: folder / f"round-{plan.round}{_slug(name, j) if by else ''}.{kind}"
        for j, name in enumerate(sheets)
    }
    if kind != "html":
        _refuse_filled(list(paths.values()))
    for name, rows in sheets.items():
        if kind == "html":
            write_private(paths[name], _page(settings.called(plan.round), name, rows).encode())
        else:
            write_table({key: [row[key] for row in rows] for key in rows[0]}, paths[name])
    return Sheets(tuple(paths.values()), len(known), str(since) if since.struck else "")


def _reached(settings: Settings) -> str:
    """The column for the state that was reached: ``value`` if the programme has a threshold."""
    return "state" if settings.threshold is None else "value"


def _slug(name: str, j: int) -> str:
    """A part of a file name that is valid on every system."""
    plain = re.sub(r"[^\w]+", "-", name).strip("-")
    return f"-{plain}" if plain and plain == name.replace(" ", "-") else f"-{plain}-{j + 1}"


def _refuse_filled(paths: list[Path]) -> None:
    """Refuse to write over what a worker has filled in."""
    filled = []
    for path in paths:
        if not path.exists():
            continue
        with path.open("rb") as file:
            raw = read_format(file, path.name, None)
        entries = [
            text
            for name, column in zip(raw.names, raw.table.columns, strict=True)
            if name.lower() in FILLED
            for text in column.to_pylist()
        ]
        if not all(says_nothing(text or "") for text in entries):
            filled.append(path)
    if filled:
        raise InvalidInput(
            f"{filled[0]} has been filled in ({len(filled)} such); record it, or choose another "
            "--out; nothing was written"
        )


def _page(round: str, name: str, rows: list[dict[str, Any]]) -> str:
    """A page to print."""
    title = html.escape(f"{round.capitalize()}{f': {name}' if name else ''}")
    heading = "".join(f"<th>{html.escape(key)}</th>" for key in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row.values()) + "</tr>"
        for row in rows
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><h1>{title}</h1>"
        f"<table><tr>{heading}</tr>{body}</table></html>"
    )
