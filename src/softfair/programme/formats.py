"""The formats of files: from bytes to a table of text with the line of each row.

CSV (comma, semicolon or tab; UTF-8, UTF-16 or Windows' own letters), Parquet, and workbooks of
Excel or LibreOffice. Workbooks are read by python-calamine: 100,000 rows of five columns took it
3 s where openpyxl took 40 s, in the same run.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import re
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..errors import Fault, InvalidInput
from ..shards import available_memory

__all__ = ["Raw", "is_workbook", "read_format"]

Ints = NDArray[Any]

ZIP, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
FORMATS = "CSV, Excel or Parquet"
ENTRY_BYTES = 40  # memory for an entry of a Parquet file, and for checking it
SHEET_MEMORY = 4  # bytes in memory for a byte of an unpacked workbook, where a cell takes some 20
LONGEST_LINE = 2**24  # bytes; a longer line is no list of entries
BATCHES = 8  # batches of LONGEST_LINE bytes whose distinct entries are put together at a time
ENCODED = (b"\xff\xfe", b"\xfe\xff")  # how UTF-16 begins
TITLES = 20  # rows at the top of a sheet among which the heading is looked for


@dataclass(frozen=True)
class Raw:
    """A file as columns of text."""

    names: list[str]  # headings, trimmed
    table: Any  # pyarrow.Table
    lines: Ints  # [rows]
    faults: list[Fault] = field(default_factory=list)  # rows of another width
    notes: tuple[str, ...] = ()  # what the user should know about how it was read
    delimiter: str = ","
    digest: str = ""  # SHA-256 of the file

    def release(self) -> None:
        """Give the memory of the table back to the system, once its columns are copied."""
        import pyarrow as pa

        object.__setattr__(self, "table", None)
        pa.default_memory_pool().release_unused()


def is_workbook(data: bytes) -> bool:
    """Whether bytes are those of a workbook."""
    return data.startswith((ZIP, OLD_EXCEL))


def read_format(file: BinaryIO, where: str, sheet: str | None) -> Raw:
    """The table in a file.

    Parameters
    ----------
    file
        Its content, from the beginning; it can be read again.
    where
        Its name, for messages.
    sheet
        Which sheet of a workbook. Default: the first that is not empty.

    Raises
    ------
    InvalidInput
        If it is no table.
    """
    import pyarrow as pa

    try:
        begin = file.read(4)
        file.seek(0)
        if begin != b"PAR1" and not is_workbook(begin):
            return _csv(file, where)
        data = file.read()
        raw = _parquet(data, where) if begin == b"PAR1" else _workbook(data, where, sheet)
        return replace(raw, digest=hashlib.sha256(data).hexdigest())
    except (pa.ArrowException, OSError, csv.Error, UnicodeDecodeError) as error:
        # A damaged Parquet file raises any of these.
        reason = " ".join(str(error).split())[:120]
        raise InvalidInput(
            f"{where} is not a {FORMATS} table ({reason}); nothing was imported"
        ) from None


def _parquet(data: bytes, where: str) -> Raw:
    """Rows are numbered from 1. Text stays encoded: a few bytes may stand for very long columns."""
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(io.BytesIO(data))
    about = file.metadata
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    content = sum(group.total_byte_size for group in groups)
    _refuse_too_large(ENTRY_BYTES * about.num_rows * (about.num_columns + 1) + 2 * content, where)
    texts = [column.name for column in file.schema if column.physical_type == "BYTE_ARRAY"]
    table = pyarrow.parquet.read_table(io.BytesIO(data), read_dictionary=texts)
    names = [name.strip() for name in table.column_names]
    return Raw(names, table, np.arange(1, len(table) + 1))


def _refuse_too_large(need: int, where: str) -> None:
    free = available_memory()
    if free is not None and need > free:
        raise InvalidInput(
            f"{where} would take about {need / 2**30:.1f} GiB in memory, and {free / 2**30:.1f} "
            "GiB are free; split it into smaller files; nothing was imported"
        )


def _workbook(data: bytes, where: str, sheet: str | None) -> Raw:
    """One sheet; titles above the heading and empty rows are left out."""
    import pyarrow as pa

    chosen, others, rows = _sheet(data, where, sheet)
    text = [[_cell(cell) for cell in row] for row in rows]
    filled = [sum(map(bool, row)) for row in text]
    if not any(filled):
        raise InvalidInput(f"{where} is empty; nothing was imported")
    widest = max(filled[:TITLES])
    top = next(i for i, many in enumerate(filled) if many * 2 > widest)
    heading = text[top]
    used = [j for j, name in enumerate(heading) if name or any(row[j] for row in text[top:])]
    body = [i for i in range(top + 1, len(text)) if filled[i]]
    columns = {str(j): pa.array([text[i][j] for i in body], pa.string()) for j in used}
    notes = (f"Read the sheet {chosen!r}; not {', '.join(map(repr, others))}.",) if others else ()
    lines = np.array(body, dtype=np.int64) + 1
    return Raw([heading[j] for j in used], pa.table(columns), lines, [], notes)


def _sheet(
    data: bytes, where: str, sheet: str | None
) -> tuple[str | None, list[str], list[list[Any]]]:
    """The sheet that is read, by default the first with any entry; other such sheets; its cells."""
    import python_calamine as calamine

    try:
        if data.startswith(ZIP):
            with zipfile.ZipFile(io.BytesIO(data)) as parts:
                content = sum(part.file_size for part in parts.infolist())
            _refuse_too_large(SHEET_MEMORY * content, where)
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        names = book.sheet_names
        if sheet is not None and sheet not in names:
            raise InvalidInput(
                f"{where} has no sheet {sheet!r} (it has {', '.join(map(repr, names))}); "
                "mend --sheet"
            )
        rows: list[list[Any]] = []
        chosen, others = sheet, []
        for name in names if sheet is None else [sheet]:
            cells = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
            if not rows and any(cell not in ("", None) for row in cells for cell in row):
                chosen, rows = name, cells
            elif sheet is None and cells:
                others.append(name)
    except (InvalidInput, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        # A damaged or locked workbook raises errors of many types, also the reader's own panic,
        # which is no Exception.
        reason = " ".join(str(error).split())[:120]
        raise InvalidInput(
            f"{where} is not a workbook that can be read ({reason}); "
            "save it anew, without a password; nothing was imported"
        ) from None
    return chosen, others, rows


def _cell(value: Any) -> str:
    """A cell as it would stand in a CSV file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ") if value.time() != time() else value.date().isoformat()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return str(value).strip()


class _Checked(io.RawIOBase):
    """A file that is read in pieces: its digest, and whether it is plain UTF-8 so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._line = 0  # bytes since the last line end
        self.odd = False  # not UTF-8, or a line that is too long

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = b"" if self.odd else self._file.read(size)
        self._digest.update(piece)
        end = piece.find(b"\n")
        self._line += len(piece) if end < 0 else end
        self.odd = self.odd or b"\0" in piece or self._line >= LONGEST_LINE
        if end >= 0:
            self._line = len(piece) - piece.rfind(b"\n")
        try:
            self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError:
            self.odd = True
        return b"" if self.odd else piece

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _csv(file: BinaryIO, where: str) -> Raw:
    """The rows of a CSV file. Plain UTF-8 is read in pieces, so that it may be of any size."""
    import pyarrow as pa

    checked = _Checked(file)
    heading = file.readline(LONGEST_LINE)
    file.seek(0)
    with suppress(pa.ArrowException, UnicodeDecodeError):
        if not heading.startswith((*ENCODED, b"\xef\xbb\xbf")):
            raw = _parsed(checked, heading.decode(), where)
            if not checked.odd:
                return replace(raw, digest=checked.hexdigest())
    file.seek(0)
    data = file.read()
    text, notes = _decoded(data, where)
    _refuse_long_lines(data, where)
    raw = _parsed(io.BytesIO(text.encode()), text, where)
    return replace(raw, notes=notes, digest=hashlib.sha256(data).hexdigest())


def _parsed(file: Any, text: str, where: str) -> Raw:
    """The rows of a CSV file, of which ``text`` has the first line; entries stay as codes.

    Blank lines are left out; rows with too few or too many entries go to the faults.
    """
    import pyarrow as pa
    import pyarrow.csv

    names, delimiter = _heading_line(text, where)
    skipped, faults = [], []

    def note(row: Any) -> str:
        skipped.append(row.number)
        problem = (
            f"has {row.actual_columns} entries, the heading has {row.expected_columns}; "
            f"quote entries that contain a {delimiter!r}"
        )
        faults.append(Fault(row.number, "", row.text[:60], problem))
        return "skip"

    places = [str(j) for j in range(len(names))]
    reader = pyarrow.csv.open_csv(
        file,
        # With several threads, rows that are skipped would have no number.
        pyarrow.csv.ReadOptions(
            use_threads=False, column_names=places, skip_rows=1, block_size=LONGEST_LINE
        ),
        pyarrow.csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=note,
        ),
        pyarrow.csv.ConvertOptions(
            column_types={place: pa.dictionary(pa.int32(), pa.string()) for place in places},
            null_values=[],
            strings_can_be_null=False,
        ),
    )
    columns = _united(reader, len(places))
    count = len(columns[0]) + len(skipped)
    # The heading is line 1.
    lines = np.arange(2, count + 2, dtype=np.int32)
    if skipped:
        lines = np.delete(lines, np.array(skipped, dtype=np.int64) - 2)
    table = pa.table(columns, places)
    if (blank := _blank(columns)).any():
        table, lines = table.filter(pa.array(~blank)), lines[~blank]
    return Raw(names, table, lines, faults, (), delimiter)


class _Codes:
    """A column of text that comes in batches of codes, each with the distinct entries of its own.

    The batches are put together some at a time: before their entries take more memory than their
    codes, and each batch only once, because every batch may have as many entries as people.
    """

    def __init__(self) -> None:
        import pyarrow as pa

        self._kind = pa.dictionary(pa.int32(), pa.string())
        self._entries = pa.array([], pa.string())  # of all that was united
        self._codes = [pa.array([], pa.int32())]  # of these entries
        self._waiting: list[Any] = []  # batches that were not united yet

    def add(self, batch: Any) -> None:
        self._waiting.append(batch)
        if len(self._waiting) == BATCHES:
            self._unite()

    def _unite(self) -> None:
        import pyarrow as pa

        known = pa.DictionaryArray.from_arrays(self._codes[0][:0], self._entries)
        united = pa.chunked_array([known, *self._waiting], self._kind).unify_dictionaries()
        # New entries come behind those that are known, whose codes stay as they are.
        self._entries = united.chunk(united.num_chunks - 1).dictionary
        self._codes += [chunk.indices for chunk in united.chunks]
        self._waiting = []

    def column(self) -> Any:
        """All of it, with one list of its distinct entries."""
        import pyarrow as pa

        self._unite()
        codes, self._codes = pa.concat_arrays(self._codes), self._codes[:1]
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, self._entries)])


def _united(reader: Any, width: int) -> list[Any]:
    """The columns of some batches of codes, each with one list of its distinct entries."""
    columns = [_Codes() for _ in range(width)]
    for batch in reader:
        for column, part in zip(columns, batch.columns, strict=True):
            column.add(part)
    return [column.column() for column in columns]


def _blank(columns: list[Any]) -> NDArray[np.bool_]:
    """Which rows have no entry at all."""
    blank = np.ones(len(columns[0]), bool)
    for column in columns:
        entries = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
        if "" not in entries:
            return np.zeros(len(blank), bool)
        code = entries.index("")
        blank &= np.concatenate([chunk.indices.to_numpy() == code for chunk in column.chunks])
    return blank


def _refuse_long_lines(data: bytes, where: str) -> None:
    begin = 0  # of a line
    while len(data) - begin > LONGEST_LINE:
        end = data.rfind(b"\n", begin, begin + LONGEST_LINE)
        if end < 0:
            raise InvalidInput(
                f"{where}: line {data.count(10, 0, begin) + 1} has more than "
                f"{LONGEST_LINE / 2**20:.0f} MiB, which is no list of entries; see what got into "
                "it; nothing was imported"
            )
        begin = end + 1


def _decoded(data: bytes, where: str) -> tuple[str, tuple[str, ...]]:
    """The text of a CSV file, and a note where its encoding had to be guessed."""
    notes: tuple[str, ...] = ()
    if data[:2] in ENCODED:
        try:
            text = data.decode("utf-16")
        except UnicodeDecodeError:
            raise InvalidInput(
                f"{where} begins as UTF-16 text and is not; save it as CSV UTF-8; "
                "nothing was imported"
            ) from None
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            # Bytes that Windows has no letter for become question marks.
            text = re.sub(b"[\x81\x8d\x8f\x90\x9d]", b"?", data).decode("cp1252")
            notes = (
                f"{where} is not UTF-8 (line {line}); it was read as Windows text (latin-1). "
                "See whether its accents are right.",
            )
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InvalidInput(
            f"{where}: line {line} has a zero byte, so it is no text; "
            "save it as CSV; nothing was imported"
        )
    return text, notes


def _heading_line(text: str, where: str) -> tuple[list[str], str]:
    """The names of the columns of a CSV file, and the character that separates them."""
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
    return names, delimiter
