"""Cohorts from and to files, and files that are written completely or not at all.

A cohort file is CSV or Parquet with one row a person. Two states: columns ``p00, p01, p10, p11``,
where ``pAS`` is the probability of the good state next under action A (0 left alone, 1 helped) in
state S (0 bad, 1 good). More states: columns ``p_A_S_T`` for every action A, state S and next state
T. Optional columns: ``id``, ``group``, ``start`` (the state now). Any other column is refused, so
that a misspelt one is not silently lost.
"""

from __future__ import annotations

import io
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .cohort import ROW_SUM_TOLERANCE, Cohort, Floats
from .errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_cohort", "write_cohort", "write_whole"]

TWO_STATE = ("p00", "p01", "p10", "p11")
LABELS = ("id", "group", "start")


def read_cohort(path: str | Path) -> Cohort:
    """Read a cohort from a CSV or Parquet file.

    Parameters
    ----------
    path : str or Path
        The file; its columns are those that head this module.

    Returns
    -------
    Cohort
        With default rewards.

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
    table = _read(Path(path))
    where = Path(path).name
    if not len(table):
        raise InvalidInput(f"{where} has no rows; give one person a row")
    P = _transitions(table, where)
    start = None
    if "start" in table:
        start = _numbers(table, ["start"], where, highest=P.shape[2] - 1, whole=True)[:, 0]
    for label in ("id", "group"):
        if label in table and (empty := table[label].isna().to_numpy()).any():
            raise InvalidInput(
                f"{where}: row {int(np.argmax(empty)) + 2}, column {label} is empty "
                f"({empty.sum()} rows are); fill it in"
            )
    ids = table["id"].to_numpy() if "id" in table else None
    groups = table["group"].to_numpy() if "group" in table else None
    return Cohort(P, ids=ids, groups=groups, start=start)


def write_cohort(cohort: Cohort, path: str | Path) -> None:
    """Write a cohort as a file that :func:`read_cohort` reads.

    Parameters
    ----------
    cohort : Cohort
        Rewards and starts are not written; the file has no columns for distributions.
    path : str or Path
        The file. It is Parquet if the name ends in ``.parquet``, otherwise CSV.

    Raises
    ------
    InvalidInput
        If the file cannot be written.

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

    columns = {"id": cohort.ids}
    if cohort.groups is not None:
        columns["group"] = cohort.groups
    if cohort.S == 2:
        columns |= {f"p{a}{s}": cohort.p[:, a, s] for a in (0, 1) for s in (0, 1)}
    else:
        S = range(cohort.S)
        columns |= {f"p_{a}_{s}_{t}": cohort.P[:, a, s, t] for a in (0, 1) for s in S for t in S}
    table, path = pd.DataFrame(columns), Path(path)
    if path.suffix == ".parquet":
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False)
        write_whole(path, buffer.getvalue())
    else:
        write_whole(path, table.to_csv(index=False).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there completely or not at all.

    Parameters
    ----------
    path : Path
        The file. Folders that are missing are made. A file that is there is replaced.
    content : bytes
        What to write.

    Raises
    ------
    InvalidInput
        If the file cannot be written; what was there before stays.

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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.parent / f".{path.name}.{secrets.token_hex(8)}"
        # The user's mask takes its part off these permissions.
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}; choose another place") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        name.unlink(missing_ok=True)
        raise InvalidInput(f"cannot write {path}: {error.strerror}; choose another place") from None
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _transitions(table: pd.DataFrame, where: str) -> Floats:
    """P [n, 2, S, S] from the columns of probabilities."""
    columns = [column for column in table.columns if column not in LABELS]
    wide = [re.fullmatch(r"p_([01])_(\d+)_(\d+)", str(column)) for column in columns]
    if not columns or not all(wide):
        _refuse_columns(columns, list(TWO_STATE), where)
        p = _numbers(table, list(TWO_STATE), where).reshape(-1, 2, 2)
        return np.stack([1 - p, p], axis=-1)
    S = 1 + max(max(int(match[2]), int(match[3])) for match in wide if match)
    needed = [f"p_{a}_{s}_{t}" for a in (0, 1) for s in range(S) for t in range(S)]
    _refuse_columns(columns, needed, where)
    P = _numbers(table, needed, where).reshape(-1, 2, S, S)
    sums = P.sum(axis=-1)
    if (bad := np.abs(sums - 1) > ROW_SUM_TOLERANCE).any():
        i, a, s = np.argwhere(bad)[0]
        raise InvalidInput(
            f"{where}: row {i + 2}, columns p_{a}_{s}_0 to p_{a}_{s}_{S - 1} sum to "
            f"{sums[i, a, s]:.9g}, not 1 ({np.count_nonzero(bad)} of {bad.size} sums are wrong); "
            "give probabilities of all next states"
        )
    return P


def _read(path: Path) -> pd.DataFrame:
    """The table in a CSV or Parquet file."""
    import pandas as pd

    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pd.read_parquet(path)
        return pd.read_csv(path, dtype={"id": str, "group": str})
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


def _refuse_columns(columns: list[str], needed: list[str], where: str) -> None:
    """Raise unless the columns are those needed, in any order."""
    missing = [column for column in needed if column not in columns]
    extra = [column for column in columns if column not in needed]
    known = ", ".join([*needed[:4], *(["..."] if len(needed) > 4 else []), *LABELS])
    if missing:
        raise InvalidInput(
            f"{where} has no column {missing[0]} ({len(missing)} of {len(needed)} are missing); "
            f"expected {known}"
        )
    if extra:
        raise InvalidInput(
            f"{where} has a column {str(extra[0])!r} that is not known ({len(extra)} such); "
            f"expected {known}"
        )


def _numbers(
    table: pd.DataFrame, columns: list[str], where: str, highest: float = 1.0, whole: bool = False
) -> Floats:
    """Columns as numbers in [0, highest], [rows, columns]."""
    import pandas as pd

    values = np.column_stack(
        [pd.to_numeric(table[column], errors="coerce").to_numpy(np.float64) for column in columns]
    )
    bad = ~((values >= 0) & (values <= highest))
    if whole:
        bad |= values != np.floor(values)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        kind = f"a {'whole ' if whole else ''}number between 0 and {highest:g}"
        raise InvalidInput(
            f"{where}: row {i + 2}, column {columns[j]} is {str(table[columns[j]].iloc[i])[:40]!r} "
            f"({np.count_nonzero(bad)} of {bad.size} entries are wrong); give {kind}"
        )
    return values
