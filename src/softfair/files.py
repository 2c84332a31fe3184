"""Cohorts from and to files, and files that are written completely or not at all.

A cohort file is CSV or Parquet with one row a person and the columns of `softfair.frames`:
``p00, p01, p10, p11`` for two states, where ``pAS`` is the probability of the good state next under
action A (0 left alone, 1 helped) in state S (0 bad, 1 good); optional ``id``, ``group``, ``start``
(the state now), ``cost`` and ``reward_S``, or ``reward_A_S`` by action. Any other column is
refused, so that a misspelt one is not silently lost.
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
# Such as postgresql://user:password@host/name, of which a Path leaves one slash.
ADDRESS = re.compile(r"(?i)^(postgres[\w+]*:|[a-z][a-z0-9+.-]+:/)|\b(password|passwd|pwd)\s*=")
BEGINNING = 65536  # bytes by which an earlier output is recognised


def read_cohort(path: str | Path) -> Cohort:
    """Read a cohort from a CSV or Parquet file.

    Parameters
    ----------
    path : str or Path
        The file; its columns are those that head this module.

    Returns
    -------
    Cohort
        In a CSV file, ids and groups are text.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or a column or an entry is missing or wrong. The message names
        the file, the row (as a spreadsheet counts them) and the column.

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
        All of it is written, to the last digit. CSV holds ids and groups as text.
    path : str or Path
        The file. It is Parquet if the name ends in ``.parquet`` or ``.pq``, otherwise CSV.

    Raises
    ------
    InvalidInput
        If the file cannot be written, or would not hold all of the cohort: extra columns, or ids
        and groups that are neither text nor whole numbers.

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
    """Write a file so that it is there completely or not at all.

    Parameters
    ----------
    path : Path
        The file. Folders that are missing are made. An earlier output of the same kind is replaced
        and keeps its permissions; anything else that is there stays.
    content : bytes
        What to write.
    private : bool
        Whether nobody but the owner may read a new file: it holds data of persons.

    Raises
    ------
    InvalidInput
        If the file cannot be written, or if what is there is no such output: a database, a device,
        a table with other columns; what was there before stays.

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
    """Give a place to write to; what is written there takes the place of the file at the end.

    Parameters
    ----------
    path : Path
        The file. Folders that are missing are made. An earlier output of the same kind is replaced
        and keeps its permissions; anything else that is there stays.
    private : bool
        Whether nobody but the owner may read a new file: it holds data of persons.

    Yields
    ------
    Path
        An empty file of another name in the same folder. If writing it fails, it is removed, and
        what was there before stays.

    Raises
    ------
    InvalidInput
        If the file cannot be written, or if what is there is no such output.

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
    """Write a file whose name is softfair's own, completely or not at all.

    Parameters
    ----------
    path : Path
        The file, as for :func:`write_whole`. Whatever file is there is replaced, also a damaged
        one: nobody but softfair writes under such a name.
    content : bytes
        What to write.

    Raises
    ------
    InvalidInput
        If the file cannot be written; what was there before stays.

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
    """Write a file with data of persons, which nobody but the owner may read.

    Parameters
    ----------
    path : Path
        The file, as for :func:`write_whole`.
    content : bytes
        What to write.

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
        What was given where a file belongs. Such an address may hold a password, which the name of
        a new file and a message would show.

    Raises
    ------
    InvalidInput
        If it looks like an address.

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
        # The user's umask restricts these permissions further. A file that replaces another one
        # gets the permissions of the earlier file at the end; until then only the owner may read
        # it.
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
    """The permissions of the file that an output replaces; None: nothing is there."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(there.st_mode):
        raise InvalidInput(f"{path} is no file but something else; choose another name")
    return stat.S_IMODE(there.st_mode)


def _refuse_other_things(path: Path, made: Path) -> None:
    """Raise unless a file is an earlier output of the same kind as one that was made."""
    before, content = _first_bytes(path), _first_bytes(made)
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
    """What outputs of one kind have in common: the heading of a table, the title of a page."""
    if ending in (".html", ".htm"):
        title = re.search(rb"<title>.*?</title>", content, re.DOTALL)
        return title[0] if title else b"no title"
    if ending == ".csv":
        return content.partition(b"\n")[0].strip()
    if ending == ".json":
        return content.partition(b":")[0]
    if ending == ".txt":
        return content.partition(b"/")[0]
    return content[:4]  # Parquet, PNG and PDF begin with their names; of other files, their text


def _read(path: Path) -> pd.DataFrame:
    """The table in a CSV or Parquet file."""
    import pandas as pd

    refuse_device(path)
    try:
        if path.suffix.lower() in PARQUET:
            return pd.read_parquet(path)
        # Every digit counts. From pandas 3 on that is so by default, and saying so is deprecated.
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
