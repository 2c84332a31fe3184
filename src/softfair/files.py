"""Cohorts from and to files, and writes that are whole or not at all.

A cohort file is CSV or Parquet with a row a person. Two states: columns ``p00, p01, p10, p11``, where ``pAS`` is the chance of the good
state next under action A (0 left alone, 1 helped) in state S (0 bad, 1 good). More states: columns ``p_A_S_T`` for every action A, state
S and next state T. Optional: ``id``, ``group``, ``start`` (the state now). Any other column is refused, so that a misspelt one is not
silently lost.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .cohort import Cohort
from .errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_cohort", "write_cohort", "write_whole"]

TWO_STATE = ("p00", "p01", "p10", "p11")
LABELS = ("id", "group", "start")


def read_cohort(path: str | Path) -> Cohort:
    """The cohort in a CSV or Parquet file; the error names file, row and column."""
    table = _read(Path(path))
    where = Path(path).name
    if not len(table):
        raise InvalidInput(f"{where} has no rows; give one person a row")
    chances = [column for column in table.columns if column not in LABELS]
    wide = [re.fullmatch(r"p_([01])_(\d+)_(\d+)", str(column)) for column in chances]
    if set(chances) == set(TWO_STATE):
        p = _numbers(table, list(TWO_STATE), where).reshape(-1, 2, 2)
        P = np.stack([1 - p, p], axis=-1)
        S = 2
    elif chances and all(wide):
        S = 1 + max(max(int(match[2]), int(match[3])) for match in wide if match)
        needed = [f"p_{a}_{s}_{t}" for a in (0, 1) for s in range(S) for t in range(S)]
        _refuse_columns(chances, needed, where)
        P = _numbers(table, needed, where).reshape(-1, 2, S, S)
        sums = P.sum(axis=-1)
        if (bad := np.abs(sums - 1) > 1e-8).any():
            i, a, s = np.argwhere(bad)[0]
            raise InvalidInput(
                f"{where}: row {i + 2}, columns p_{a}_{s}_0 to p_{a}_{s}_{S - 1} sum to {sums[i, a, s]:.9g}, not 1 "
                f"({np.count_nonzero(bad)} of {bad.size} sums are wrong); give probabilities of all next states"
            )
    else:
        _refuse_columns(chances, list(TWO_STATE), where)
        raise AssertionError("unreachable")
    start = None
    if "start" in table:
        start = _numbers(table, ["start"], where, highest=S - 1, whole=True)[:, 0]
    for label in ("id", "group"):
        if label in table and (gone := table[label].isna().to_numpy()).any():
            raise InvalidInput(
                f"{where}: row {int(np.argmax(gone)) + 2}, column {label} is empty ({gone.sum()} rows are); fill it in"
            )
    ids = table["id"].to_numpy() if "id" in table else None
    groups = table["group"].to_numpy() if "group" in table else None
    return Cohort(P, ids=ids, groups=groups, start=start)


def write_cohort(cohort: Cohort, path: str | Path) -> None:
    """The cohort as a file that :func:`read_cohort` reads (rewards and random starts have no columns and are left out)."""
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
        import io

        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False)
        write_whole(path, buffer.getvalue())
    else:
        write_whole(path, table.to_csv(index=False).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, whatever happens on the way."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.parent / f".{path.name}.{secrets.token_hex(8)}"
        handle = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666
        )  # less what the user's mask takes away
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


def _read(path: Path) -> pd.DataFrame:
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
    except Exception as error:  # whatever a parser says of a file that is no table
        reason = " ".join(str(error).split())[:120]
        raise InvalidInput(
            f"{path.name} is not a CSV or Parquet table ({reason}); save it as one of these"
        ) from None


def _refuse_columns(found: list[str], needed: list[str], where: str) -> None:
    missing, extra = [c for c in needed if c not in found], [c for c in found if c not in needed]
    known = ", ".join((*needed[:4], "..." if len(needed) > 4 else "", *LABELS)).replace(
        ", , ", ", "
    )
    if missing:
        raise InvalidInput(
            f"{where} has no column {missing[0]} ({len(missing)} of {len(needed)} are missing); expected {known}"
        )
    if extra:
        raise InvalidInput(
            f"{where} has a column {str(extra[0])!r} that is not known ({len(extra)} such); expected {known}"
        )


def _numbers(
    table: pd.DataFrame, columns: list[str], where: str, highest: float = 1.0, whole: bool = False
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Columns as numbers in [0, highest]; the error names row (as a spreadsheet counts them) and column."""
    import pandas as pd

    values = np.column_stack(
        [pd.to_numeric(table[column], errors="coerce").to_numpy(np.float64) for column in columns]
    )
    bad = ~((values >= 0) & (values <= highest))
    if whole:
        bad |= values != np.floor(values)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        kind = (
            f"a whole number between 0 and {highest:g}"
            if whole
            else f"a number between 0 and {highest:g}"
        )
        raise InvalidInput(
            f"{where}: row {i + 2}, column {columns[j]} is {str(table[columns[j]].iloc[i])[:40]!r} "
            f"({np.count_nonzero(bad)} of {bad.size} entries are wrong); give {kind}"
        )
    return values
