"""Exported tables: CSV, Excel, Parquet or JSON, written whole or not at all.

In CSV and Excel a text that a spreadsheet would run as a formula (it begins with =, +, -, @, a tab
or a return) gets an apostrophe in front; `record` takes that off again.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from numpy.typing import NDArray

from ..errors import InvalidInput
from ..files import whole_file
from .changes import Since
from .dates import Calendar
from .eligibility import Status
from .models import Model
from .plans import Plan, explain

__all__ = [
    "FORMULA",
    "audit_columns",
    "model_columns",
    "plan_columns",
    "table_bytes",
    "write_json",
    "write_table",
]

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plan_columns(
    plan: Plan,
    everyone: bool,
    since: Since | None = None,
    calendar: Calendar | None = None,
) -> dict[str, list[Any]]:
    """The columns of a plan, a row a person.

    Parameters
    ----------
    plan
        The plan.
    everyone
        Whether to include those who are not on the list.
    since
        What has changed since: who is struck off the list is not on it, and the reason says so.
    calendar
        The days of rounds, if they are known: ``date`` is then the first day of the round.

    Returns
    -------
    dict
        Name -> values. ``contacted`` and ``state`` are empty, to be filled in and given to
        `record`.
    """
    struck = {} if since is None else since.struck
    called = {} if since is None else since.called
    listed = [
        (bool(on) and i not in struck) or i in called
        for i, on in zip(plan.person.tolist(), plan.listed, strict=True)
    ]
    rows = [i for i in range(len(plan.person)) if everyone or listed[i]]
    sentences = explain(plan)
    evenness = {"bonus": [float(plan.bonus[i]) for i in rows]} if plan.bonus.any() else {}
    for i, number in enumerate(plan.person.tolist()):
        if number in struck:
            sentences[i] = f"Struck off the list: {struck[number]} since the plan was made."
        elif number in called:
            sentences[i] = called[number]
    days = {} if calendar is None else {"date": [str(calendar.start(plan.round))] * len(rows)}
    return {
        "id": [plan.names[plan.person[i]] for i in rows],
        "round": [plan.round] * len(rows),
        **days,
        "listed": [int(listed[i]) for i in rows],
        "probability": [float(plan.probability[i]) for i in rows],
        "score": [float(plan.score[i]) for i in rows],
        **evenness,
        "state_now": [int(plan.state[i]) if plan.state[i] >= 0 else None for i in rows],
        "status": [Status(int(plan.status[i])).name.lower() for i in rows],
        "site": [plan.sites[plan.site[i]][0] if plan.site[i] >= 0 else "" for i in rows],
        "reason": [sentences[i] for i in rows],
        "contacted": [None] * len(rows),
        "state": [None] * len(rows),
    }


def model_columns(model: Model, names: list[str]) -> dict[str, list[Any]]:
    """The columns of a model, a row a person.

    Parameters
    ----------
    model
        The model.
    names
        Everybody's identifier, by number.

    Returns
    -------
    dict
        Name -> values. With two states ``p10`` is the chance of the good state next when contacted
        (1) in state 0, with the ends of its interval; with more, ``p_1_0_2`` is that of state 2.
    """
    people, _, S, _ = model.P.shape
    source = ["own history" if seen else "group's estimate" for seen in ~model.unseen]
    columns: dict[str, list[Any]] = {
        "id": names[:people],
        "source": source,
        "moved_to_be_monotone": model.bound.tolist(),
    }
    parts: dict[str, NDArray[Any]] = {"": model.P, "_low": model.low, "_high": model.high}
    for a in (0, 1):
        for s in range(S):
            columns[f"seen{a}{s}"] = model.seen[:, a, s].tolist()
            for t in range(1, S):
                name = f"p{a}{s}" if S == 2 else f"p_{a}_{s}_{t}"
                columns |= {
                    name + part: values[:, a, s, t].astype(float).tolist()
                    for part, values in parts.items()
                }
    return columns


def audit_columns(found: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The figures of an audit as two columns: the path to each, and its value."""
    rows: list[tuple[str, Any]] = []

    def walk(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                walk(f"{path}.{name}" if path else str(name), inner)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for i, inner in enumerate(value):
                walk(f"{path}[{i}]", inner)
        else:
            rows.append((path, value))

    walk("", found)
    return {"figure": [path for path, _ in rows], "value": [value for _, value in rows]}


def write_table(columns: Mapping[str, list[Any]], out: Path) -> None:
    """Write columns to a file.

    Parameters
    ----------
    columns
        Name -> values, all of one length.
    out
        A path that ends in .csv, .xlsx, .json, .parquet or .pq; ``-`` is CSV on standard output.

    Raises
    ------
    InvalidInput
        If the path ends in something else.
    """
    if str(out) == "-":
        _csv(columns, sys.stdout)
        return
    write = _writer(out.name)
    with whole_file(out, private=True) as unfinished, unfinished.open("wb") as file:
        write(columns, file)


def table_bytes(columns: Mapping[str, list[Any]], name: str) -> bytes:
    """The content of the file that `write_table` writes under a name."""
    buffer = io.BytesIO()
    _writer(name)(columns, buffer)
    return buffer.getvalue()


def write_json(content: Any, file: TextIO) -> None:
    """Write JSON piece by piece: there may be a million rows in it.

    Parameters
    ----------
    content
        What `json.dumps` takes.
    file
        Where.
    """
    for piece in json.JSONEncoder(indent=1).iterencode(content):
        file.write(piece)


def _writer(name: str) -> Callable[[Mapping[str, list[Any]], BinaryIO], None]:
    """How columns are written to a file of this name, row by row where its format allows."""
    kind = Path(name).suffix.lower()
    writers = {".csv": _as_text(_csv), ".json": _as_text(_json), ".xlsx": _workbook}
    writers |= {".parquet": _parquet, ".pq": _parquet}
    if kind not in writers:
        raise InvalidInput(
            f"cannot tell what {name} should be; end it in .csv, .xlsx, .parquet or .json"
        )
    return writers[kind]


def _as_text(
    write: Callable[[Mapping[str, list[Any]], TextIO], None],
) -> Callable[[Mapping[str, list[Any]], BinaryIO], None]:
    def written(columns: Mapping[str, list[Any]], file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        write(columns, text)
        text.detach()  # which flushes, and leaves the file open

    return written


def _csv(columns: Mapping[str, list[Any]], file: TextIO) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_harmless, columns))
    for row in zip(*columns.values(), strict=True):
        writer.writerow([_harmless(value) for value in row])


def _json(columns: Mapping[str, list[Any]], file: TextIO) -> None:
    """As `json.dumps` with indent=1 writes a list of rows."""
    before = "["
    for row in zip(*columns.values(), strict=True):
        text = json.dumps(dict(zip(columns, row, strict=True)), indent=1)
        file.write(before + f"\n{text}".replace("\n", "\n "))  # texts have no line ends inside
        before = ","
    file.write("[]" if before == "[" else "\n]")


def _workbook(columns: Mapping[str, list[Any]], file: BinaryIO) -> None:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("softfair")
    sheet.freeze_panes = "A2"
    sheet.append([_harmless(name) for name in columns])
    for row in zip(*columns.values(), strict=True):
        sheet.append([_harmless(value) for value in row])
    book.save(file)


def _parquet(columns: Mapping[str, list[Any]], file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    def column(values: list[Any]) -> Any:
        """Parquet has one type a column: where numbers and text are mixed, all become text."""
        kinds = {type(value) for value in values if value is not None}
        mixed = len(kinds) > 1 and not kinds <= {int, float}
        return pa.array([value if value is None or not mixed else str(value) for value in values])

    table = pa.table({name: column(values) for name, values in columns.items()})
    pyarrow.parquet.write_table(table, file)


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
