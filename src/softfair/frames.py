"""A cohort as the columns of a data frame (pandas, Polars or Arrow) or of a cohort file.

One row is a person. With two states there are columns ``p00, p01, p10, p11``, where ``pAS`` is the
probability of the good state next under action A (0 left alone, 1 helped) in state S (0 bad, 1
good). With any number of states there are columns ``p_A_S_T`` for every action A, state S and next
state T. Optional columns are:

    id, group        labels
    cost             what help costs, a whole number of at least 1
    start            the state now; or start_S for every state S, a distribution
    reward_S         the worth of reaching state S, for every S; or reward_A_S for every action A
                     and state S, the rewards R(s, a) of :class:`softfair.Cohort`

Any other column is an extra column and is kept, unless its name looks like a misspelling of one of
the names above.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInput, real_numbers

__all__ = [
    "LABELS",
    "ROW_SUM_TOLERANCE",
    "cohort_columns",
    "columns_needed",
    "columns_of",
    "make_frame",
    "read_columns",
]

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]

TWO_STATE = ("p00", "p01", "p10", "p11")
WIDE = re.compile(r"p_([01])_(\d+)_(\d+)")
PER_STATE = re.compile(r"(reward|start)_(\d+)")
BY_ACTION = re.compile(r"reward_([01])_(\d+)")
LABELS = ("id", "group", "start")
MISSPELT = re.compile(r"(?i)(p|reward|start)[_ ]?\d[\d_]*|ids?|groups?|starts?|rewards?|costs?")
COST = "cost"
HIGHEST_COST = 2**31 - 1
# The sum of a row of probabilities may differ from 1 by so much. This allows for rounding in a row
# that was computed, but not for a row that was typed with three digits.
ROW_SUM_TOLERANCE = 1e-8


def columns_of(frame: Any) -> dict[str, NDArray[Any]]:
    """The columns of any data frame as arrays.

    Parameters
    ----------
    frame : data frame
        A data frame of pandas, Polars, PyArrow or another library that narwhals knows; or a mapping
        from names to columns.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    InvalidInput
        ``frame`` is not a data frame, or has two columns of one name.

    Examples
    --------
    >>> import pandas as pd
    >>> from softfair.frames import columns_of
    >>> columns_of(pd.DataFrame({"p00": [0.5]}))
    {'p00': array([0.5])}
    """
    import narwhals as nw

    if isinstance(frame, Mapping):
        return {str(name): _one_column(name, column) for name, column in frame.items()}
    try:
        table = nw.from_native(frame, eager_only=True)
    except (TypeError, ValueError) as error:
        reason = "; a lazy frame needs collect() first" if "lazy" in str(error).lower() else ""
        raise InvalidInput(
            f"frame is a {type(frame).__name__}; give a data frame of pandas, Polars or Arrow, "
            f"or a mapping from names to columns{reason}"
        ) from None
    return {str(name): table[name].to_numpy() for name in table.columns}


def _one_column(name: object, column: Any) -> NDArray[Any]:
    """A column as an array with one axis."""
    values = np.asarray(column)
    if values.ndim != 1:
        raise InvalidInput(
            f"column {name} has shape {values.shape}; give one entry a person, a list or an array"
        )
    return values


def make_frame(columns: Columns, backend: str = "pandas") -> Any:
    """A data frame of the columns.

    Parameters
    ----------
    columns : mapping of str to ndarray
        The columns, all of the same length.
    backend : str
        The library: "pandas", "polars" or "pyarrow".

    Returns
    -------
    data frame
        A data frame of that library.

    Raises
    ------
    InvalidInput
        The library is not one of the three, or it is not installed.
    """
    import narwhals as nw

    if backend not in ("pandas", "polars", "pyarrow"):
        raise InvalidInput(f"backend is {backend!r}; choose 'pandas', 'polars' or 'pyarrow'")
    try:
        if backend == "pandas":  # without narwhals, which refuses columns of mixed objects
            import pandas as pd

            return pd.DataFrame(dict(columns))
        plain = {
            name: values.tolist() if values.dtype == object else values
            for name, values in columns.items()
        }
        return nw.from_dict(
            plain, backend="polars" if backend == "polars" else "pyarrow"
        ).to_native()
    except ModuleNotFoundError:
        raise InvalidInput(
            f"backend is {backend!r}, which is not installed; pip install {backend}"
        ) from None


def read_columns(columns: Columns, where: str = "frame", first_row: int = 0) -> dict[str, Any]:
    """The arguments of a Cohort from the columns of a table.

    Parameters
    ----------
    columns : mapping of str to ndarray
        The columns, with the names that the docstring of this module lists.
    where : str
        The name of the table in messages.
    first_row : int
        The number of the first row in messages: 0 for a frame; 2 for a file, whose headings a
        spreadsheet counts as row 1.

    Returns
    -------
    dict
        ``P``, ``reward``, ``ids``, ``groups``, ``start``, ``extra`` and ``cost``.

    Raises
    ------
    InvalidInput
        A column or an entry is missing or wrong. The message names the row and the column.
    """
    table = _Table(columns, where, first_row)
    if not columns or not table.rows:
        raise InvalidInput(f"{where} has no rows; give one person a row")
    P, used = table.transitions()
    S = P.shape[2]
    reward, of_reward = table.rewards(S)
    start, of_start = table.per_state("start", S)
    if start is None and "start" in columns:
        start = table.numbers(["start"], highest=S - 1, whole=True)[:, 0]
    elif "start" in columns:
        raise InvalidInput(f"{where} has a column start and columns start_0 ...; give one of them")
    known = {*used, *of_reward, *of_start, *LABELS, COST}
    of_cost = (1, HIGHEST_COST, True)
    return {
        "P": P,
        "reward": reward,
        "ids": table.labels("id"),
        "groups": table.labels("group"),
        "start": start,
        "extra": {name: columns[name] for name in columns if name not in known},
        "cost": table.numbers([COST], *of_cost)[:, 0] if COST in columns else None,
    }


class _Table:
    """The columns of a table, and its name and the number of its first row for messages."""

    def __init__(self, columns: Columns, where: str, first_row: int) -> None:
        self.columns, self.where, self.first_row = columns, where, first_row
        self.rows = len(next(iter(columns.values()), []))
        for name, values in columns.items():
            if len(values) != self.rows:
                raise InvalidInput(
                    f"{where}: column {name} has {len(values)} rows, others {self.rows}; "
                    "give one entry a person"
                )

    def transitions(self) -> tuple[Floats, list[str]]:
        """P [n, 2, S, S] and the columns that hold it."""
        S, needed = columns_needed(self.columns.keys(), self.where)
        if needed == list(TWO_STATE):
            p = self.numbers(needed).reshape(-1, 2, 2)
            return np.stack([1 - p, p], axis=-1), needed
        P = self.numbers(needed).reshape(-1, 2, S, S)
        sums = P.sum(axis=-1)
        if (bad := np.abs(sums - 1) > ROW_SUM_TOLERANCE).any():
            i, a, s = (int(place) for place in np.argwhere(bad)[0])
            raise InvalidInput(
                f"{self.where}: row {i + self.first_row}, columns p_{a}_{s}_0 to p_{a}_{s}_{S - 1} "
                f"sum to {sums[i, a, s]:.9g}, not 1 ({np.count_nonzero(bad)} of {bad.size} sums "
                "are wrong); give probabilities of all next states"
            )
        return P, needed

    def rewards(self, S: int) -> tuple[Floats | None, list[str]]:
        """Rewards [n, S], or [n, S, 2] if they are by action, and their columns."""
        by_state, names = self.per_state("reward", S)
        present = [name for name in self.columns if BY_ACTION.fullmatch(name)]
        needed = [f"reward_{a}_{s}" for a in (0, 1) for s in range(S)]
        if not present:
            return by_state, names
        if by_state is not None:
            raise InvalidInput(
                f"{self.where} has columns {names[0]} ... and {present[0]} ...; "
                "give rewards of states, or of actions and states"
            )
        self._refuse_odd(present, needed, S)
        R = self.numbers(needed, -np.inf, np.inf).reshape(-1, 2, S)
        return np.moveaxis(R, 1, 2), needed

    def per_state(self, what: str, S: int) -> tuple[Floats | None, list[str]]:
        """Columns what_0, ..., what_{S-1} as [n, S], or None if there are none; and their names."""
        present = [
            name for name in self.columns if (m := PER_STATE.fullmatch(name)) and m[1] == what
        ]
        needed = [f"{what}_{s}" for s in range(S)]
        if not present:
            return None, []
        self._refuse_odd(present, needed, S)
        bounds = (-np.inf, np.inf) if what == "reward" else (0.0, 1.0)
        return self.numbers(needed, bounds[0], bounds[1]), needed

    def _refuse_odd(self, present: list[str], needed: list[str], S: int) -> None:
        """Refuse columns of one kind if some are missing or some are not needed."""
        if {*present} != {*needed}:
            odd = min({*present} ^ {*needed})
            raise InvalidInput(
                f"{self.where}: column {odd} is {'missing' if odd in needed else 'not known'}; "
                f"the arms have {S} states, give {needed[0]} to {needed[-1]}"
            )

    def labels(self, name: str) -> NDArray[Any] | None:
        """A column of labels without gaps, or None if there is none."""
        if name not in self.columns:
            return None
        values = self.columns[name]
        listed = values.tolist()
        empty = np.array([label is None or label != label for label in listed], dtype=np.bool_)
        if empty.any():
            raise InvalidInput(
                f"{self.where}: row {int(np.argmax(empty)) + self.first_row}, column {name} is "
                f"empty ({empty.sum()} rows are); fill it in"
            )
        return values

    def numbers(
        self, names: list[str], lowest: float = 0.0, highest: float = 1.0, whole: bool = False
    ) -> Floats:
        """Columns as numbers between two bounds [rows, columns]."""
        values = np.column_stack([_numbers(self.columns[name]) for name in names])
        bad = ~((values >= lowest) & (values <= highest) & np.isfinite(values))
        if whole:
            bad |= values != np.floor(values)
        if bad.any():
            i, j = (int(place) for place in np.argwhere(bad)[0])
            kind = f"a {'whole ' if whole else ''}number between {lowest:g} and {highest:g}"
            entry = str(self.columns[names[j]][i])[:40]
            raise InvalidInput(
                f"{self.where}: row {i + self.first_row}, column {names[j]} is {entry!r} "
                f"({np.count_nonzero(bad)} of {bad.size} entries are wrong); "
                f"give {kind if np.isfinite(highest) else 'a finite number'}"
            )
        return values


def columns_needed(names: Collection[str], where: str) -> tuple[int, list[str]]:
    """The number of states and the columns of probabilities, in the order of P or p.

    Parameters
    ----------
    names : collection of str
        The columns of a table.
    where : str
        The name of the table in messages.

    Returns
    -------
    (int, list of str)
        S, and the columns in the order of p [2, 2] or P [2, S, S].

    Raises
    ------
    InvalidInput
        A column is missing, or its name looks like a misspelling of a known one.

    Examples
    --------
    >>> from softfair.frames import columns_needed
    >>> columns_needed(["id", "p11", "p10", "p01", "p00"], "people.csv")
    (2, ['p00', 'p01', 'p10', 'p11'])
    """
    matches = [match for name in names if (match := WIDE.fullmatch(name))]
    if not matches or any(name in names for name in TWO_STATE):
        S, needed = 2, list(TWO_STATE)
    else:
        S = 1 + max(max(int(match[2]), int(match[3])) for match in matches)
        needed = [f"p_{a}_{s}_{t}" for a in (0, 1) for s in range(S) for t in range(S)]
    known = ", ".join([*needed[:4], *(["..."] if len(needed) > 4 else []), *LABELS])
    missing = [name for name in needed if name not in names]
    if missing:
        raise InvalidInput(
            f"{where} has no column {missing[0]} ({len(missing)} of {len(needed)} are "
            f"missing); expected {known}"
        )
    fine = {*needed, *LABELS, COST}
    odd = [
        name
        for name in names
        if name not in fine
        and not PER_STATE.fullmatch(name)
        and not BY_ACTION.fullmatch(name)
        and MISSPELT.fullmatch(name)
    ]
    if odd:
        raise InvalidInput(
            f"{where} has a column {odd[0]!r} that is not known and looks like one that "
            f"is ({len(odd)} such); expected {known}"
        )
    return S, needed


def _numbers(values: NDArray[Any]) -> Floats:
    """A column as floats; entries that are not numbers become nan."""
    try:
        return real_numbers(values)
    except (TypeError, ValueError):
        return np.array([_number(value) for value in values.tolist()])


def _number(value: Any) -> float:
    """The value as a float; nan if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def cohort_columns(
    P: Floats,
    reward_rows: Floats,
    ids: NDArray[Any],
    groups: NDArray[Any] | None,
    start: Floats,
    extra: Columns,
) -> dict[str, NDArray[Any]]:
    """The columns of a cohort, from which :func:`read_columns` returns the same cohort.

    Parameters
    ----------
    P, reward_rows, ids, groups, start, extra
        The arrays of a Cohort. Rewards and starts that are the default have no columns. Costs are a
        column of ``extra``.

    Returns
    -------
    dict of str to ndarray [n]
    """
    n, S = P.shape[0], P.shape[2]
    columns: dict[str, NDArray[Any]] = {"id": ids}
    if groups is not None:
        columns["group"] = groups
    if S == 2 and (P[..., 0] == 1 - P[..., 1]).all():  # otherwise p would lose a last digit of P
        columns |= {f"p{a}{s}": P[:, a, s, 1] for a in (0, 1) for s in (0, 1)}
    else:
        states = range(S)
        columns |= {f"p_{a}_{s}_{t}": P[:, a, s, t] for a in (0, 1) for s in states for t in states}
    actions = reward_rows.shape[1]
    reward = np.broadcast_to(reward_rows, (n, actions, S))
    if actions == 2:
        columns |= {f"reward_{a}_{s}": reward[:, a, s] for a in (0, 1) for s in range(S)}
    elif not np.array_equal(reward_rows, (np.arange(S) / (S - 1))[None, None]):
        columns |= {f"reward_{s}": reward[:, 0, s] for s in range(S)}
    if not (start == 1 / S).all():
        if ((start == 0) | (start == 1)).all():
            columns["start"] = start.argmax(axis=1)
        else:
            columns |= {f"start_{s}": start[:, s] for s in range(S)}
    return {**columns, **extra}
