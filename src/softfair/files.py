"""Cohorts from and to files, and files that are written completely or not at all.

A cohort file is CSV or Parquet with one row for each person and the columns of `softfair.frames`:
``p00, p01, p10, p11`` for two states, where ``pAS`` is the probability of the good state next under
action A (0 left alone, 1 helped) in state S (0 bad, 1 good); optional ``id``, ``group``, ``start``
(the state now), ``cost`` and ``reward_S``, or ``reward_A_S`` by action. Any other column is
refused, so that no misspelt column is silently ignored.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cohort import Cohort
from .errors import InvalidInput
from .frames import columns_of, read_columns

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = [
    "read_cohort",
    "refuse_address",
    "refuse_device",
    "whole_file",
    "write_cohort",
    "write_own",
    "write_private",
    "write_whole",
]

PARQUET = (".parquet", ".pq")
# Addresses such as postgresql://user:password@host/name. In a Path, only one slash is left.
ADDRESS = re.compile(r"(?i)^(postgres[\w+]*:|[a-z][a-z0-9+.-]+:/)|\b(password|passwd|pwd)\s*=")
BEGINNING = 65536  # bytes that are read to recognise an earlier output


def read_cohort(path: str | Path) -> Cohort:
    """Read a cohort from a CSV or Parquet file.

    Parameters
    ----------
    path : str or Path
        The file; the docstring of this module lists the columns.

    Returns
    -------
    Cohort
        In a CSV file, ids and groups are text.

    Raises
    ------
    InvalidInput
        The file cannot be read, or a column or an entry is missing or wrong. The message names the
        file, the row (as a spreadsheet counts rows) and the column.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from softfair.files import read_cohort
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "people.csv")
    ...     _ = file.write_text("id,p00,p01,p10,p11\\nAda,.1,.5,.4,.9\\nBen,.2,.6,.5,.8\\n")
    ...     read_cohort(file)
    Cohort(n=2, S=2)
    """
    where = Path(path).name
    columns = read_columns(columns_of(_read(Path(path))), where, first_row=2)
    if extra := [*columns["extra"]]:
        raise InvalidInput(
            f"{where} has a column {extra[0]!r} that is not known ({len(extra)} such); leave it "
            "out, or read the table yourself: Cohort.from_frame keeps such columns"
        )
    return Cohort(**columns)


def write_cohort(cohort: Cohort, path: str | Path) -> None:
    """Write a cohort as a file that :func:`read_cohort` reads.

    Parameters
    ----------
    cohort : Cohort
        The cohort, which is written without loss of digits. CSV holds ids and groups as text.
    path : str or Path
        The file. The format is Parquet if the name ends in ``.parquet`` or ``.pq``, otherwise CSV.

    Raises
    ------
    InvalidInput
        The file cannot be written; or it would not hold the whole cohort, because there are extra
        columns, or ids or groups that are neither text nor whole numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import softfair as sf
    >>> from softfair.files import read_cohort, write_cohort
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_cohort(sf.datasets.synthetic(n=3, seed=0), pathlib.Path(folder, "people.csv"))
    ...     read_cohort(pathlib.Path(folder, "people.csv"))
    Cohort(n=3, S=2)
    """
    import pandas as pd

    if cohort.extra:
        raise InvalidInput(
            f"the cohort has {len(cohort.extra)} extra columns ({next(iter(cohort.extra))} ...), "
            "which a cohort file does not hold; write cohort.to_frame() to a file of your own"
        )
    for name, labels in (("ids", cohort.ids), ("groups", cohort.groups)):
        if labels is not None and not _plain(labels):
            raise InvalidInput(
                f"{name} are neither text nor whole numbers and would not come back as they are; "
                f"give the cohort other {name}"
            )
    table, path = pd.DataFrame(cohort.columns()), Path(path)
    if path.suffix.lower() in PARQUET:
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False)
        write_whole(path, buffer.getvalue())
    else:
        write_whole(path, table.to_csv(index=False).encode())


def _plain(labels: NDArray[Any]) -> bool:
    """Whether all labels are text that is not empty, or all are whole numbers."""
    if labels.dtype.kind in "iu":
        return True
    listed = labels.tolist()
    return all(isinstance(label, str) and label for label in listed) or all(
        type(label) is int for label in listed
    )


def write_whole(path: Path, content: bytes, private: bool = False) -> None:
    """Write a file completely or not at all.

    Parameters
    ----------
    path : Path
        The file. Missing folders are made. An earlier output of the same kind is replaced, and the
        new file keeps its permissions; any other file is refused.
    content : bytes
        The content.
    private : bool
        Whether only the owner may read a new file, because it holds data of persons.

    Raises
    ------
    InvalidInput
        The file cannot be written; or the path is something else, such as a database, a device or a
        table with other columns, which is left as it is.

    Notes
    -----
    The content goes to a file of another name in the same folder, which is then renamed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from softfair.files import write_whole
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(pathlib.Path(folder, "new", "note.txt"), b"done")
    ...     pathlib.Path(folder, "new", "note.txt").read_text()
    'done'
    """
    with whole_file(path, private) as unfinished:
        unfinished.write_bytes(content)


@contextmanager
def whole_file(path: Path, private: bool = False) -> Iterator[Path]:
    """Give a temporary file to write to, which is renamed to the path at the end.

    Parameters
    ----------
    path : Path
        The file. Missing folders are made. An earlier output of the same kind is replaced, and the
        new file keeps its permissions; any other file is refused.
    private : bool
        Whether only the owner may read a new file, because it holds data of persons.

    Yields
    ------
    Path
        An empty file of another name in the same folder. If writing fails, this file is removed,
        and an earlier file at the path is left as it is.

    Raises
    ------
    InvalidInput
        The file cannot be written, or the path is something else than an output of that kind.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from softfair.files import whole_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(pathlib.Path(folder, "note.txt")) as unfinished:
    ...         _ = unfinished.write_text("done")
    ...     pathlib.Path(folder, "note.txt").read_text()
    'done'
    """
    with _swapped(path, private) as unfinished:
        yield unfinished
        if path.exists():
            _refuse_other_things(path, unfinished)


def write_own(path: Path, content: bytes) -> None:
    """Write a file with a name that only softfair uses, completely or not at all.

    Parameters
    ----------
    path : Path
        The file, as for :func:`write_whole`. Any earlier file is replaced, also a damaged one,
        because only softfair writes files of such a name.
    content : bytes
        The content.

    Raises
    ------
    InvalidInput
        The file cannot be written; an earlier file is left as it is.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from softfair.files import write_own
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "part.json").write_text("half of a pa")
    ...     write_own(pathlib.Path(folder, "part.json"), b"{}")
    ...     pathlib.Path(folder, "part.json").read_text()
    '{}'
    """
    with _swapped(path, private=False) as unfinished:
        unfinished.write_bytes(content)


def write_private(path: Path, content: bytes) -> None:
    """Write a file with data of persons, which only the owner may read.

    Parameters
    ----------
    path : Path
        The file, as for :func:`write_whole`.
    content : bytes
        The content.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from softfair.files import write_private
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_private(pathlib.Path(folder, "names.txt"), b"Ada")
    ...     oct(pathlib.Path(folder, "names.txt").stat().st_mode & 0o777)
    '0o600'
    """
    write_whole(path, content, private=True)


def refuse_address(path: str | Path) -> None:
    """Raise if the name of a file is the address of a database, without repeating it.

    Parameters
    ----------
    path : str or Path
        The name that the caller gave for a file. An address may contain a password, which the name
        of a new file, or a message, would show.

    Raises
    ------
    InvalidInput
        The name looks like an address.

    Examples
    --------
    >>> from softfair.files import refuse_address
    >>> refuse_address("copies/2027-01-04.db")
    """
    if ADDRESS.search(str(path)):
        raise InvalidInput(
            "the name of a file is the address of a database, which belongs to --db; "
            "choose another name"
        )


def refuse_device(path: str | Path) -> None:
    """Raise if a file that is to be read is a device, which may have no end.

    Parameters
    ----------
    path : str or Path
        What is to be read. A pipe passes, and so does what does not exist: its reader says so.

    Raises
    ------
    InvalidInput
        If it is a device.

    Examples
    --------
    >>> from softfair.files import refuse_device
    >>> refuse_device("people.csv")
    """
    mode = stat.S_IFREG
    with suppress(OSError, ValueError):  # ValueError: a zero byte in the name
        mode = os.stat(path).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise InvalidInput(f"{path} is a device; give a file")


@contextmanager
def _swapped(path: Path, private: bool) -> Iterator[Path]:
    """Give a file of another name in the same folder, and rename it to the path at the end."""
    refuse_address(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = _mode_of_file(path)
        name = path.parent / f".{path.name}.{secrets.token_hex(8)}"
        # The user's umask restricts these permissions further. A file that replaces an earlier one
        # gets the permissions of the earlier file at the end; until then only the owner may read
        # the new file.
        first = 0o600 if private or mode is not None else 0o666
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, first))
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}; choose another place") from None
    try:
        yield name
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(name, mode)
        os.replace(name, path)
    except OSError as error:
        name.unlink(missing_ok=True)
        raise InvalidInput(f"cannot write {path}: {error.strerror}; choose another place") from None
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _mode_of_file(path: Path) -> int | None:
    """The permissions of the file that an output replaces; None if there is no such file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path} is no file but something else; choose another name")
    return stat.S_IMODE(status.st_mode)


def _refuse_other_things(path: Path, new_file: Path) -> None:
    """Raise unless the file at the path is an earlier output of the same kind as the new file."""
    before, content = _first_bytes(path), _first_bytes(new_file)
    if before.startswith(b"SQLite format 3\0"):
        raise InvalidInput(f"{path} is a database, which no output replaces; choose another name")
    ending = path.suffix.lower()
    if before and _beginning(before, ending) != _beginning(content, ending):
        raise InvalidInput(
            f"{path} is there and is no such output of softfair; choose another name, "
            "or move it away first"
        )


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(BEGINNING)


def _beginning(content: bytes, ending: str) -> bytes:
    """The part that outputs of one kind share, such as the headings of a table."""
    if ending in (".html", ".htm"):
        title = re.search(rb"<title>.*?</title>", content, re.DOTALL)
        return title[0] if title else b"no title"
    if ending == ".csv":
        return content.partition(b"\n")[0].strip()
    if ending == ".json":
        return content.partition(b":")[0]
    if ending == ".txt":
        return content.partition(b"/")[0]
    return content[:4]  # Parquet, PNG and PDF files begin with the name of the format


def _read(path: Path) -> pd.DataFrame:
    """The table in a CSV or Parquet file."""
    import pandas as pd

    refuse_device(path)
    try:
        if path.suffix.lower() in PARQUET:
            return pd.read_parquet(path)
        # Read every digit. pandas 3 does so by default, and the option is deprecated there.
        exact: Any = {}
        if int(pd.__version__.split(".")[0]) < 3:
            exact["float_precision"] = "round_trip"
        table: pd.DataFrame = pd.read_csv(
            path,
            dtype={"id": str, "group": str},
            keep_default_na=False,  # somebody may be called NA
            na_values=[""],
            **exact,
        )
        return table
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no file {path}; give a CSV or Parquet file of transition probabilities"
        ) from None
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path}: {error.strerror or error}; give a CSV or Parquet file"
        ) from None
    except Exception as error:  # a file that is no table makes parsers raise errors of any type
        reason = " ".join(str(error).split())[:120]
        raise InvalidInput(
            f"{path.name} is not a CSV or Parquet table ({reason}); save it as one of these"
        ) from None
