"""Reading a file: from its bytes to a checked table, in columns with the names of this package.

The whole file is checked: each bad entry becomes a `Fault` with its line, column, value and what to
do, and then `Table.refuse` stops the import.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..errors import BadRows, Fault, InvalidInput
from ..files import refuse_address, refuse_device
from ..progress import say
from .bulk import MANY, taken
from .columns import ReadAs, among, folded, match_columns
from .entries import UNPRINTABLE, number_reader
from .formats import read_format

__all__ = ["FACTS", "WRONG", "Source", "Table", "Upload", "read_table"]

Ints = NDArray[Any]  # whole numbers


@dataclass(frozen=True)
class Upload:
    """A file that came over the network."""

    name: str
    data: bytes
    reason: str | None = None  # why, if somebody said so; it is kept with the batch


# A path, ``-`` for standard input, the content of a file, or an upload.
Source = str | Path | bytes | Upload

WRONG = -2  # an entry that was refused
FACTS = ("enrolled", "left", "opted_out", "reserved", "absent_from", "absent_to")
MOST_FAULTS = 100_000  # after so many the rest of a file is not checked
SHARED = 3  # in a file of at least so many rows, a fault of all rows is reported once
ROW_BYTES = 20  # bytes of a row of history, roughly


@dataclass(frozen=True)
class Table:
    """A file as text: for each column the distinct entries, and which of them each row has."""

    where: str  # the name of the file, for messages
    digest: str  # SHA-256 of its bytes
    # name -> (distinct entries, codes [rows] in as few bytes as will do)
    columns: Mapping[str, tuple[list[str], Ints]]
    lines: Ints  # [rows]
    faults: list[Fault]  # grows while the columns are parsed
    read_as: ReadAs  # how the file was read, where that differs from the default
    ignored: tuple[str, ...] = ()  # headings of columns that are not read
    notes: tuple[str, ...] = ()  # what the user should know about how it was read
    comma: bool = False  # whether semicolons separate the entries, so that a comma may be decimal
    reason: str | None = None  # why it came, if somebody said so

    def __len__(self) -> int:
        return len(self.lines)

    def parse(self, column: str, read: Callable[[str], int], kind: Any = np.int64) -> Ints:
        """The numbers that a function makes of the entries of a column.

        Parameters
        ----------
        column
            Its name.
        read
            One of `softfair.programme.entries`: it is called once for each distinct entry.
        kind
            Type of the numbers: a small one where there may be many millions.

        Returns
        -------
        numpy.ndarray
            [rows]. An entry for which ``read`` raised ValueError is WRONG, and each row that has it
            is added to ``faults``.
        """
        distinct, codes = self.columns[column]
        values = np.empty(len(distinct), kind)
        problems: dict[int, str] = {}
        for i, text in enumerate(distinct):
            try:
                values[i] = read(text)
            except ValueError as problem:
                values[i], problems[i] = WRONG, str(problem)
        parsed: Ints = taken(values, codes)
        for row in np.flatnonzero(parsed == WRONG):
            self.fault(int(row), column, problems[int(codes[row])])
        return parsed

    def parse_numbers(self, column: str) -> NDArray[np.float64]:
        """The numbers in a column [rows]; nan where an entry says nothing or is a fault."""
        distinct, codes = self.columns[column]
        read = number_reader(distinct, self.comma)
        values, problems = np.full(len(distinct), np.nan), {}
        for i, text in enumerate(distinct):
            try:
                values[i] = read(text)
            except ValueError as problem:
                problems[i] = str(problem)
        for row in np.flatnonzero(np.isin(codes, list(problems))):
            self.fault(int(row), column, problems[int(codes[row])])
        parsed: NDArray[np.float64] = values[codes]
        return parsed

    def fault(self, row: int, column: str, problem: str) -> None:
        """Note what is wrong with the entry of a column in a row."""
        distinct, codes = self.columns[column]
        self.faults.append(Fault(int(self.lines[row]), column, distinct[codes[row]], problem))
        if len(self.faults) >= MOST_FAULTS:
            self.refuse(more=True)

    def refuse(self, more: bool = False) -> None:
        """Raise BadRows, with the faults in the order of lines, if there are any.

        A fault that all rows share is reported once, for the whole column.

        Parameters
        ----------
        more
            Whether there may be more faults than were noted.
        """
        if not self.faults:
            return
        rows_of: dict[tuple[str, str], set[int]] = {}
        for fault in self.faults:
            rows_of.setdefault((fault.column, fault.problem), set()).add(fault.line)
        shared = {
            kind for kind, rows in rows_of.items() if len(rows) == len(self) >= SHARED and kind[0]
        }
        faults, seen = [], set()
        for fault in sorted(self.faults, key=lambda fault: fault.line):
            kind = (fault.column, fault.problem)
            if kind not in shared:
                faults.append(fault)
            elif kind not in seen:
                seen.add(kind)
                problem = f"{fault.problem} (so in all {len(self):,} rows)"
                faults.append(Fault(fault.line, fault.column, fault.value, problem))
        raise BadRows(self.where, faults, more)


def read_table(
    source: Source,
    required: tuple[str, ...],
    known: tuple[str, ...] | None = None,
    optional: tuple[str, ...] = (),
    asked: ReadAs | None = None,
    before: ReadAs | None = None,
) -> Table:
    """Read a file.

    Parameters
    ----------
    source
        A path, ``-`` for standard input, or the content of a file.
    required
        Columns that must be there.
    known
        The only other columns that are read; None: all are read, under their own headings.
    optional
        If all columns are read, those that are looked for under other names as well.
    asked
        How to read it.
    before
        How the last file of this kind was read; used for what ``asked`` leaves open.

    Returns
    -------
    Table
        The file as a table. Its faults are the rows with too few or too many entries.

    Raises
    ------
    InvalidInput
        If the file cannot be read, is no table or has no rows, or if its columns are not right.
    """
    asked = asked or ReadAs()
    how = asked.over(before or ReadAs())
    where, file = _opened(source)
    with file:
        if (size := file.seek(0, io.SEEK_END)) > ROW_BYTES * MANY:
            say(f"checking {where}, {size / 2**20:.0f} MiB ...")
        file.seek(0)
        raw = read_format(file, where, how.sheet)
    _check_headings(raw.names, where)
    wanted = (*required, *(optional if known is None else known))
    name_of, read_as = match_columns(raw.names, wanted, how, asked, where)
    names = [name_of.get(heading, heading) for heading in raw.names]
    _refuse_twice(names, where)
    if missing := [name for name in required if name not in names]:
        raise InvalidInput(
            f"{where} has no column {missing[0]!r} {among(raw.names, wanted)}; "
            f"say which one it is, such as --map {missing[0]}=NAME, with the names of the columns "
            "in the first line; nothing was imported"
        )
    _refuse_unknown(asked, name_of, raw.names, wanted, where)
    left_out = {folded(name) for name in how.ignore}
    ignored = [
        name
        for name in names
        if folded(name) in left_out or (known is not None and name not in wanted)
    ]
    if needed := [name for name in required if name in ignored]:
        raise InvalidInput(
            f"{where} is of no use without its column {needed[0]!r}; leave it out of --ignore; "
            "nothing was imported"
        )
    columns = {
        name: _encoded(column, name, where)
        for name, column in zip(names, raw.table.columns, strict=True)
        if name not in ignored
    }
    if len(raw.lines) > MANY:
        raw.release()
    if not len(raw.lines) and not raw.faults:
        raise InvalidInput(f"{where} has no rows; nothing was imported")
    return Table(
        where,
        raw.digest,
        columns,
        raw.lines,
        raw.faults,
        read_as,
        tuple(ignored),
        raw.notes,
        raw.delimiter == ";",
        source.reason if isinstance(source, Upload) else None,
    )


def _check_headings(names: list[str], where: str) -> None:
    if not all(names):
        raise InvalidInput(f"{where} has a column without a name; name it or remove it")
    for name in names:
        if UNPRINTABLE.search(name):
            raise InvalidInput(
                f"{where} has a column {name!r} with a control character; "
                "rename it; nothing was imported"
            )
    _refuse_twice(names, where)


def _opened(source: Source) -> tuple[str, BinaryIO]:
    """The name of a file for messages, and its content, which can be read more than once."""
    if isinstance(source, bytes):
        return "the data", io.BytesIO(source)
    if isinstance(source, Upload):
        return source.name, io.BytesIO(source.data)
    refuse_address(source)
    refuse_device(source)
    if str(source) == "-":
        return "standard input", io.BytesIO(sys.stdin.buffer.read())
    try:
        path = Path(source)
        return path.name, path.open("rb") if path.is_file() else io.BytesIO(path.read_bytes())
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no file {source}; give a CSV, Excel or Parquet file, or - for standard input"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(
            f"cannot read {source}: {reason}; give a CSV, Excel or Parquet file"
        ) from None


def _refuse_unknown(
    asked: ReadAs, name_of: dict[str, str], headings: list[str], wanted: Sequence[str], where: str
) -> None:
    """Raise if --keep or --ignore names a column that is not there, or that has another use."""
    for option, given in (("keep", asked.keep), ("ignore", asked.ignore)):
        for name in given:
            heading = next((one for one in headings if folded(one) == folded(name)), None)
            if heading is None:
                raise InvalidInput(
                    f"{where} has no column {name!r} {among(headings, wanted)}; "
                    f"mend --{option}; nothing was imported"
                )
            if option == "keep" and heading in name_of:
                raise InvalidInput(
                    f"{where}: column {heading!r} is read as {name_of[heading]!r}, which is "
                    f"in use and not kept for worksheets; mend --keep; nothing was imported"
                )


def _refuse_twice(names: list[str], where: str) -> None:
    if len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        first = names.index(again)
        second = names.index(again, first + 1)
        raise InvalidInput(
            f"{where} has one name twice, for columns {first + 1} and {second + 1}; rename one, "
            "or put the names of the columns into the first line"
        )


def _encoded(column: Any, name: str, where: str) -> tuple[list[str], Ints]:
    """The distinct entries of a column as trimmed text, and which of them each row has [rows]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if pa.types.is_dictionary(column.type):
            return _recoded(column.unify_dictionaries().combine_chunks())
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
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), codes


def _recoded(column: Any) -> tuple[list[str], Ints]:
    """As `_encoded`, of a column that is stored as codes, without writing out its entries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ChunkedArray):
        column = (
            column.chunk(0) if column.num_chunks else pa.array([], pa.string()).dictionary_encode()
        )
    entries = pc.utf8_trim_whitespace(pc.fill_null(pc.cast(column.dictionary, pa.string()), ""))
    names, indices = entries.to_pylist(), column.indices
    if indices.null_count:
        indices = indices.fill_null(len(names))
        names.append("")
    place: dict[str, int] = {}
    new = np.array([place.setdefault(name, len(place)) for name in names], dtype=np.int64)
    new = new.astype(np.min_scalar_type(max(len(place) - 1, 0)))
    return list(place), taken(new, indices.to_numpy(zero_copy_only=False))
