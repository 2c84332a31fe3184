"""Exported tables: CSV, Excel, Parquet or JSON, written whole or not at all.

A table may have a row for each of a million people in each of many rounds. It is made and written
some rows at a time (`Pieces`).

In CSV and Excel a text that a spreadsheet would run as a formula (it begins with =, +, -, @, a tab
or a return) gets an apostrophe in front; `record` takes that off again.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
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
    "PIECE",
    "Columns",
    "Pieces",
    "audit_columns",
    "json_list",
    "json_object",
    "model_table",
    "plan_table",
    "table_bytes",
    "write_table",
]

FORMULA = ("=", "+", "-", "@", "\t", "\r")
PIECE = 10_000  # rows that are made and written at a time

Columns = Mapping[str, Sequence[Any]]  # name -> values, all of one length


@dataclass(frozen=True)
class Pieces:
    """A table that is made and written some rows at a time.

    Parameters
    ----------
    kinds
        Name of a column -> the type of its values, of which any may be None.
    each
        Pieces of the table in order, each by column. It can be iterated over once.
    """

    kinds: Mapping[str, type]
    each: Iterable[Columns]

    @classmethod
    def of(cls, columns: Columns) -> Pieces:
        """A table that is given as a whole; a column that mixes numbers and text is of text."""
        kinds: dict[str, type] = {}
        for name, values in columns.items():
            types = {type(value) for value in values if value is not None} or {type(None)}
            mixed = float if types == {int, float} else str
            kinds[name] = types.pop() if len(types) == 1 else mixed
        return cls(kinds, [columns])

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows of the table, in their order."""
        for columns in self.each:
            yield from zip(*columns.values(), strict=True)

    def without(self, *names: str) -> Pieces:
        """The table without some of its columns."""
        kept = {name: kind for name, kind in self.kinds.items() if name not in names}
        return Pieces(kept, ({name: each[name] for name in kept} for each in self.each))

    def whole(self) -> dict[str, list[Any]]:
        """Name -> all values; only for a table that is known to be small."""
        gathered: dict[str, list[Any]] = {name: [] for name in self.kinds}
        for columns in self.each:
            for name, values in columns.items():
                gathered[name].extend(values)
        return gathered


def plan_table(
    plan: Plan,
    everyone: bool,
    since: Since | None = None,
    calendar: Calendar | None = None,
) -> Pieces:
    """A plan as a table, with a row for each person.

    Parameters
    ----------
    plan
        The plan.
    everyone
        Whether to include people who are not on the list.
    since
        What has changed since the plan was made: people who are struck off count as not listed, and
        their reason says so.
    calendar
        The days of rounds, if they are known: ``date`` is then the first day of the round.

    Returns
    -------
    Pieces
        ``contacted`` and ``state`` are empty, to be filled in and given to `record`.
    """
    struck = {} if since is None else since.struck
    called = {} if since is None else since.called
    listed = (plan.listed == 1) & ~np.isin(plan.person, list(struck))
    listed |= np.isin(plan.person, list(called))
    places = np.arange(len(plan.person)) if everyone else np.flatnonzero(listed)
    kinds: dict[str, type] = {"id": str, "round": int, "date": str, "listed": int}
    kinds |= {"probability": float, "score": float, "bonus": float, "state_now": int}
    kinds |= {"status": str, "site": str, "reason": str, "contacted": int, "state": int}
    if calendar is None:
        del kinds["date"]
    if not plan.bonus.any():
        del kinds["bonus"]
    sentences = explain(plan)

    def why(i: int) -> str:
        number = int(plan.person[i])
        if number in struck:
            return f"Struck off the list: {struck[number]} since the plan was made."
        return called[number] if number in called else sentences[i]

    def piece(rows: NDArray[np.int64]) -> Columns:
        each, nothing = rows.tolist(), [None] * len(rows)
        columns = {
            "id": [plan.names[number] for number in plan.person[rows]],
            "round": [plan.round] * len(rows),
            "date": [] if calendar is None else [str(calendar.start(plan.round))] * len(rows),
            "listed": listed[rows].astype(int).tolist(),
            "probability": plan.probability[rows].tolist(),
            "score": plan.score[rows].tolist(),
            "bonus": plan.bonus[rows].tolist(),
            "state_now": [state if state >= 0 else None for state in plan.state[rows].tolist()],
            "status": [Status(code).name.lower() for code in plan.status[rows].tolist()],
            "site": [plan.sites[j][0] if j >= 0 else "" for j in plan.site[rows].tolist()],
            "reason": [why(i) for i in each],
            "contacted": nothing,
            "state": nothing,
        }
        return {name: columns[name] for name in kinds}

    return Pieces(kinds, (piece(some) for some in _cut(places)))


def _cut(places: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Rows of a table, PIECE at a time."""
    for first in range(0, len(places), PIECE):
        yield places[first : first + PIECE]


def model_table(model: Model, names: list[str]) -> Pieces:
    """A model as a table, with a row for each person.

    Parameters
    ----------
    model
        The model.
    names
        Everybody's identifier, by number.

    Returns
    -------
    Pieces
        With two states, ``p10`` is the chance of the good state next for a person who is contacted
        (1) in state 0, and ``p10_low`` and ``p10_high`` are the ends of its interval. With more
        states, ``p_1_0_2`` is the chance of state 2 next. With memory, ``p10_before1`` is the
        chance if state 1, or a contact, came in the round before.
    """
    people, _, C, S = model.P.shape
    kinds: dict[str, type] = {"id": str, "source": str, "moved_to_be_monotone": bool}
    parts: dict[str, NDArray[Any]] = {"": model.P, "_low": model.low, "_high": model.high}
    numbers: dict[str, NDArray[Any]] = {}  # name of a column -> [n]
    for a in (0, 1):
        for c in range(C):
            b, s = divmod(c, S)
            after = f"_before{b}" if C > S else ""
            seen = f"seen{a}{s}{after}"
            numbers[seen], kinds[seen] = model.seen[:, a, c], int
            for t in range(1, S):
                name = (f"p{a}{s}" if S == 2 else f"p_{a}_{s}_{t}") + after
                for part, values in parts.items():
                    numbers[name + part], kinds[name + part] = values[:, a, c, t], float
    unseen = model.unseen

    def piece(rows: NDArray[np.int64]) -> Columns:
        return {
            "id": [names[i] for i in rows],
            "source": ["group's estimate" if none else "own history" for none in unseen[rows]],
            "moved_to_be_monotone": model.bound[rows].tolist(),
            **{name: values[rows].tolist() for name, values in numbers.items()},
        }

    return Pieces(kinds, (piece(some) for some in _cut(np.arange(people))))


def audit_columns(figures: Mapping[str, Any]) -> dict[str, list[Any]]:
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

    walk("", figures)
    return {"figure": [path for path, _ in rows], "value": [value for _, value in rows]}


def write_table(table: Pieces | Columns, out: Path) -> None:
    """Write a table to a file, some rows at a time.

    Parameters
    ----------
    table
        In pieces, or as a whole: name -> values, all of one length.
    out
        A path that ends in .csv, .xlsx, .json, .parquet or .pq; ``-`` is CSV on standard output.

    Raises
    ------
    InvalidInput
        If the path ends in something else.
    """
    pieces = table if isinstance(table, Pieces) else Pieces.of(table)
    if str(out) == "-":
        _csv(pieces, sys.stdout)
        return
    write = _writer(out.name)
    with whole_file(out, private=True) as unfinished, unfinished.open("wb") as file:
        write(pieces, file)


def table_bytes(columns: Columns, name: str) -> bytes:
    """The content of the file that `write_table` writes under a name."""
    buffer = io.BytesIO()
    _writer(name)(Pieces.of(columns), buffer)
    return buffer.getvalue()


def json_object(header: Mapping[str, Any], name: str, table: Pieces) -> Iterator[str]:
    """An object in JSON whose last member is a table, in parts to be written one after another.

    Parameters
    ----------
    header
        All other members; at least one.
    name
        Of the table.
    table
        Its rows are objects with the names of its columns.

    Yields
    ------
    str
        A part, of one row at most.
    """
    yield json.dumps(header, indent=1).removesuffix("\n}")
    yield f",\n {json.dumps(name)}: "
    yield from json_list(table, "\n ")
    yield "\n}"


def json_list(table: Pieces, end: str = "\n") -> Iterator[str]:
    """A list of rows as `json.dumps` with indent=1 writes it, but with ``end`` as its line end.

    Parameters
    ----------
    table
        Its rows are objects with the names of its columns.
    end
        The line end.

    Yields
    ------
    str
        A part, of one row at most.
    """
    before = "["
    for row in table.rows():
        text = json.dumps(dict(zip(table.kinds, row, strict=True)), indent=1)
        yield before + f"\n{text}".replace("\n", f"{end} ")  # texts have no line ends inside
        before = ","
    yield "[]" if before == "[" else f"{end}]"


def _writer(name: str) -> Callable[[Pieces, BinaryIO], None]:
    """How a table is written to a file of this name."""
    kind = Path(name).suffix.lower()
    writers = {".csv": _as_text(_csv), ".json": _as_text(_json), ".xlsx": _workbook}
    writers |= {".parquet": _parquet, ".pq": _parquet}
    if kind not in writers:
        raise InvalidInput(
            f"cannot tell what {name} should be; end it in .csv, .xlsx, .parquet or .json"
        )
    return writers[kind]


def _as_text(write: Callable[[Pieces, TextIO], None]) -> Callable[[Pieces, BinaryIO], None]:
    def written(table: Pieces, file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        write(table, text)
        text.detach()  # flushes the text, and leaves the file open

    return written


def _csv(table: Pieces, file: TextIO) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_harmless, table.kinds))
    for row in table.rows():
        writer.writerow([_harmless(value) for value in row])


def _json(table: Pieces, file: TextIO) -> None:
    file.writelines(json_list(table))


def _workbook(table: Pieces, file: BinaryIO) -> None:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("softfair")
    sheet.freeze_panes = "A2"
    sheet.append([_harmless(name) for name in table.kinds])
    for row in table.rows():
        sheet.append([_harmless(value) for value in row])
    book.save(file)


def _parquet(table: Pieces, file: BinaryIO) -> None:
    """Write a table as Parquet, where a column has one type; in a text column all becomes text."""
    import pyarrow as pa
    import pyarrow.parquet

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types.get(kind, pa.null())) for name, kind in table.kinds.items()])
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for columns in table.each:
            values = (
                [value if value is None else str(value) for value in values]
                if table.kinds[name] is str
                else values
                for name, values in columns.items()
            )
            arrays = [pa.array(one, kind) for one, kind in zip(values, schema.types, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
