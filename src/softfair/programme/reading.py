"""Reading a file: from its bytes to a table of text with the line of each row.

A file is CSV (comma, semicolon or tab; UTF-8) or Parquet. It is checked whole: each bad entry
becomes a `Fault` with its line, column, value and what to do, and `Table.refuse` then stops the
import.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadRows, Fault, InvalidInput
from ..progress import say
from .entries import UNPRINTABLE
from .store import MANY

__all__ = ["COLUMNS", "FACTS", "WRONG", "Source", "Table", "read_table"]

Ints = NDArray[np.int64]
Source = str | Path | bytes  # a path, ``-`` for standard input, or the content of a file

WRONG = -2  # an entry that was refused
FACTS = ("enrolled", "left", "opted_out", "reserved")
COLUMNS = ("id", "round", "state", "value", "contacted", *FACTS)
ROW_BYTES = 20  # of a row of history, roughly


@dataclass(frozen=True)
class Table:
    """A file as text: for each column the distinct entries, and which of them each row has."""

    where: str  # the name of the file, for messages
    digest: str  # SHA-256 of its bytes
    columns: Mapping[str, tuple[list[str], Ints]]  # name -> (distinct entries, codes [rows])
    lines: Ints  # [rows]
    faults: list[Fault]  # grows while the columns are parsed

    def __len__(self) -> int:
        return len(self.lines)

    def parse(self, column: str, read: Callable[[str], int]) -> Ints:
        """The numbers that a function makes of the entries of a column.

        Parameters
        ----------
        column
            Its name.
        read
            One of `softfair.programme.entries`: it is called once for each distinct entry.

        Returns
        -------
        numpy.ndarray
            [rows]. An entry for which ``read`` raised ValueError is WRONG, and each row that has it
            is added to ``faults``.
        """
        distinct, codes = self.columns[column]
        values = np.empty(len(distinct), np.int64)
        problems: dict[int, str] = {}
        for i, text in enumerate(distinct):
            try:
                values[i] = read(text)
            except ValueError as problem:
                values[i], problems[i] = WRONG, str(problem)
        parsed: Ints = values[codes]
        for row in np.flatnonzero(parsed == WRONG):
            self.fault(int(row), column, problems[int(codes[row])])
        return parsed

    def fault(self, row: int, column: str, problem: str) -> None:
        """Note what is wrong with the entry of a column in a row."""
        distinct, codes = self.columns[column]
        self.faults.append(Fault(int(self.lines[row]), column, distinct[codes[row]], problem))

    def refuse(self) -> None:
        """Raise BadRows, with the faults in the order of lines, if there are any."""
        if self.faults:
            raise BadRows(self.where, sorted(self.faults, key=lambda fault: fault.line))


def read_table(
    source: Source, required: tuple[str, ...], known: tuple[str, ...] | None = None
) -> Table:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    source
        A path, ``-`` for standard input, or the content of a file.
    required
        Columns that must be there.
    known
        The only columns allowed besides; None: any.

    Returns
    -------
    Table
        Its faults are the rows with too few or too many entries.

    Raises
    ------
    InvalidInput
        If the file cannot be read, is no table or has no rows, or if its columns are not right.
    """
    where, data = _bytes(source)
    if len(data) > ROW_BYTES * MANY:
        say(f"checking {where}, {len(data) / 2**20:.0f} MiB ...")
    import pyarrow as pa

    faults: list[Fault] = []
    try:
        table, lines = _parquet(data) if data[:4] == b"PAR1" else _csv(data, where, faults)
        names = table.column_names
    except (pa.ArrowException, OSError, csv.Error, UnicodeDecodeError) as error:
        # A damaged Parquet file raises any of these.
        reason = " ".join(str(error).split())[:120]
        raise InvalidInput(
            f"{where} is not a CSV or Parquet table ({reason}); nothing was imported"
        ) from None
    names = [_heading(name, where) for name in names]
    _check_columns(names, required, known, where)
    columns = {
        name: _encoded(column, name, where)
        for name, column in zip(names, table.columns, strict=True)
    }
    if not len(lines) and not faults:
        raise InvalidInput(f"{where} has no rows; nothing was imported")
    return Table(where, hashlib.sha256(data).hexdigest(), columns, lines, faults)


def _bytes(source: Source) -> tuple[str, bytes]:
    """The name of a file for messages, and its content."""
    if isinstance(source, bytes):
        return "the data", source
    if str(source) == "-":
        return "standard input", sys.stdin.buffer.read()
    try:
        return Path(source).name, Path(source).read_bytes()
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no file {source}; give a CSV or Parquet file, or - for standard input"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot read {source}: {reason}; give a CSV or Parquet file") from None


def _parquet(data: bytes) -> tuple[Any, Ints]:
    """The table and the number of each row, from 1."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(data))
    return table, np.arange(1, len(table) + 1)


def _csv(data: bytes, where: str, faults: list[Fault]) -> tuple[Any, Ints]:
    """The table as text and the line of each row.

    Blank lines are left out; rows with too few or too many entries go to the faults.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    text = _decoded(data, where)
    names, delimiter = _heading_line(text, where)
    skipped = []

    def note(row: Any) -> str:
        skipped.append(row.number)
        problem = (
            f"has {row.actual_columns} entries, the heading has {row.expected_columns}; "
            f"quote entries that contain a {delimiter!r}"
        )
        faults.append(Fault(row.number, "", row.text[:60], problem))
        return "skip"

    table = pyarrow.csv.read_csv(
        io.BytesIO(text.encode()),
        # With several threads, rows that are skipped would have no number.
        pyarrow.csv.ReadOptions(use_threads=False, column_names=names, skip_rows=1),
        pyarrow.csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=note,
        ),
        pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=[],
            strings_can_be_null=False,
        ),
    )
    count = len(table) + len(skipped)
    # The heading is line 1.
    lines = np.delete(np.arange(2, count + 2), np.array(skipped, dtype=np.int64) - 2)
    blank = np.ones(len(table), bool)
    for name in names:
        blank &= np.asarray(pc.equal(table[name], ""))
    if blank.any():
        table, lines = table.filter(pa.array(~blank)), lines[~blank]
    return table, lines


def _decoded(data: bytes, where: str) -> str:
    """The text of a CSV file."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidInput(
            f"{where}: line {line} is not UTF-8 text; save the file as UTF-8; nothing was imported"
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InvalidInput(
            f"{where}: line {line} has a zero byte, so it is no text; "
            "save it as CSV; nothing was imported"
        )
    return text


def _heading_line(text: str, where: str) -> tuple[list[str], str]:
    """The names of the columns of a CSV file, and what stands between them."""
    heading = text.partition("\n")[0].strip("\r")
    if not heading.strip():
        raise InvalidInput(
            f"{where} does not begin with the names of its columns; nothing was imported"
        )
    delimiter = max(",;\t", key=heading.count)
    names = [name.strip() for name in next(csv.reader([heading], delimiter=delimiter))]
    if not all(names):
        raise InvalidInput(
            f"{where}: column {names.index('') + 1} of the heading has no name; "
            f"name it, or remove it and a {delimiter!r}"
        )
    _refuse_twice(names, where)
    return names, delimiter


def _heading(name: str, where: str) -> str:
    """A column's name.

    A known column is recognised whatever its case, spaces and hyphens. A name that is close to that
    of a fact about people is refused: as a group column the fact would be lost.
    """
    folded = re.sub(r"[\s_-]+", "_", name.strip().lower())
    if folded in COLUMNS:
        return folded
    fact_of = {fact.replace("_", ""): fact for fact in FACTS}
    if near := difflib.get_close_matches(folded.replace("_", ""), fact_of, 1, 0.8):
        raise InvalidInput(
            f"{where} has a column {name!r}; is that {fact_of[near[0]]}? "
            "rename it to that, or to something else; nothing was imported"
        )
    if UNPRINTABLE.search(name):
        raise InvalidInput(
            f"{where} has a column {name!r} with a control character; "
            "rename it; nothing was imported"
        )
    return name.strip()


def _check_columns(
    names: list[str], required: tuple[str, ...], known: tuple[str, ...] | None, where: str
) -> None:
    if not all(names):
        raise InvalidInput(f"{where} has a column without a name; name it or remove it")
    _refuse_twice(names, where)
    if missing := [name for name in required if name not in names]:
        raise InvalidInput(
            f"{where} has no column {missing[0]!r} "
            f"(it has {', '.join(map(repr, names[:8]))}); nothing was imported"
        )
    if known is None:
        return
    if extra := [name for name in names if name not in (*required, *known)]:
        raise InvalidInput(
            f"{where} has a column {extra[0]!r} that is not known here; "
            f"expected {', '.join((*required, *known))}; nothing was imported"
        )


def _refuse_twice(names: list[str], where: str) -> None:
    if len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{where} has the column {again!r} twice; rename one")


def _encoded(column: Any, name: str, where: str) -> tuple[list[str], Ints]:
    """The distinct entries of a column as trimmed text, and which of them each row has [rows]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        text = pc.utf8_trim_whitespace(pc.fill_null(pc.cast(column, pa.string()), ""))
    except pa.ArrowException:
        raise InvalidInput(
            f"{where}: column {name} is a {column.type}; give text or numbers"
        ) from None
    encoded = pc.dictionary_encode(text).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # an empty column may not combine to one chunk
        encoded = (
            encoded.chunk(0)
            if encoded.num_chunks
            else pa.array([], pa.string()).dictionary_encode()
        )
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded.dictionary.to_pylist(), codes
