"""What the rows of a file say: states, rounds and contacts, and rows that repeat earlier ones."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from .bulk import UNKNOWN
from .dates import Calendar, calendar_from, days_of
from .entries import (
    CLEARED,
    STRIDE,
    flag,
    optional_round,
    round_number,
    says_nothing,
    state_reader,
    threshold_rule,
)
from .reading import Table
from .settings import Settings
from .tracks import ROWS_AT_ONCE

__all__ = ["FAR", "contact_column", "refuse_repeats", "round_column", "state_column"]

Floats = NDArray[np.float64]
Ints = NDArray[Any]  # whole numbers

FAR = 1000  # a round after so many without any observation is taken for a mistake or a date
MARKS = 64  # bytes a row that `_once_each` may take


def state_column(
    table: Table, settings: Settings, threshold: str | None
) -> tuple[Ints, Floats | None, str | None]:
    """The states of a file.

    Parameters
    ----------
    table
        With a column ``state``, or ``value``, or neither.
    settings
        With the names of the states, and a threshold for values if there is one.
    threshold
        The threshold for values, if the programme has none yet.

    Returns
    -------
    tuple
        States [rows], UNKNOWN where there is none; the values that they were made of [rows], None
        if the file has states; and the threshold that was used.

    Raises
    ------
    InvalidInput
        If both columns are filled, if there is a threshold without ``value`` or ``value`` without a
        threshold, or if the threshold is not the programme's.
    """
    if "value" in table.columns and "state" in table.columns:
        states = {text for text in table.columns["state"][0] if not says_nothing(text)}
        if states:
            raise InvalidInput(f"{table.where} has both a state and a value; leave one out")
    if "value" in table.columns:
        if threshold is not None and settings.threshold not in (None, threshold):
            raise InvalidInput(
                f"the programme's threshold is {settings.threshold}, not {threshold}; leave "
                f"--threshold out, or change it for all with: softfair init --threshold {threshold}"
            )
        used = threshold or settings.threshold
        if used is None:
            raise InvalidInput(
                f"{table.where} has a column value; "
                "say from where on it is good, such as --threshold 4 or '<=3'"
            )
        values = table.parse_numbers("value")
        return threshold_rule(used, settings.states)(values), values, used
    if threshold is not None:
        raise InvalidInput(
            f"a threshold was given, but {table.where} has no column value; "
            "say which column has the numbers, such as --map value=Minutes"
        )
    if "state" in table.columns:
        return table.parse("state", state_reader(settings.states), np.int16), None, None
    return np.full(len(table), UNKNOWN, np.int16), None, None


def round_column(
    table: Table, column: str, settings: Settings, order: str | None, optional: bool = False
) -> tuple[Ints, Calendar | None, str | None]:
    """The rounds in a column, which may hold numbers or dates.

    Parameters
    ----------
    table
        With the column.
    column
        Its name.
    settings
        With the calendar, if there is one.
    order
        Whether the day or the month stands first, if the user said so.
    optional
        Whether an entry may be empty (UNKNOWN) or ``none`` (CLEARED). A day before round 0 counts
        as round 0 then: people may have come before the programme.

    Returns
    -------
    tuple
        Rounds [rows]; the calendar, made from the days if the programme has none (not if the
        column is optional); and the order in which day and month stand, None if rounds are numbers.

    Raises
    ------
    InvalidInput
        If day and month cannot be told apart, or if an optional column has dates and the programme
        does not know its first day.
    """
    distinct = table.columns[column][0]
    reading = days_of(
        [text for text in distinct if not says_nothing(text) and text.lower() != "none"],
        order,
        column,
        table.where,
    )
    if reading is None:
        return (
            table.parse(column, optional_round if optional else round_number, np.int32),
            None,
            None,
        )
    day_of, order = reading
    days = [day for text in distinct if (day := day_of(text)) is not None]
    calendar = settings.calendar
    if calendar is None and optional:
        raise InvalidInput(
            f"{table.where} has dates in column {column}, and the programme does not know its "
            f"first day; say it, such as: softfair init --first-day {min(days)}"
        )
    made = calendar or calendar_from(days, settings.length)

    def read(text: str) -> int:
        if optional and text.lower() == "none":
            return CLEARED
        if optional and says_nothing(text):
            return UNKNOWN
        return _round_of_day(made, day_of(text), optional)

    return table.parse(column, read, np.int32), made, order


def _round_of_day(calendar: Calendar, day: date | None, early: bool) -> int:
    if day is None:
        raise ValueError("is no date, as most of this column are; give a date such as 2027-01-04")
    at = calendar.round_of(day)
    if at < 0 and not early:
        raise ValueError(
            f"is before the programme's first day, {calendar.first}; "
            "begin earlier with: softfair init --first-day DATE"
        )
    return max(at, 0)


def contact_column(table: Table, otherwise: int) -> Ints:
    """The contacts in the column ``contacted`` [rows]; without it, ``otherwise`` for all."""
    if "contacted" in table.columns:
        return table.parse("contacted", flag, np.int8)
    return np.full(len(table), otherwise, np.int8)


def refuse_repeats(table: Table, person: Ints, rounds: Ints | None = None) -> None:
    """Make a fault of each row that names a person (and round) that an earlier row names.

    Parameters
    ----------
    table
        With a column ``id``, and ``round`` if rounds are given.
    person, rounds
        Numbers [rows]; rows with a number below 0, which have a fault, are left out.
    """
    column = "id" if rounds is None else "round"
    when = np.broadcast_to(np.int32(0), len(person)) if rounds is None else rounds
    if _once_each(person, when):  # the usual case
        return
    rows = np.flatnonzero((person >= 0) & (when >= 0))
    key = person[rows].astype(np.int64) * STRIDE + when[rows]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    for i in np.flatnonzero(first[inverse] != np.arange(len(key))):
        line = table.lines[rows[first[inverse[i]]]]
        problem = f"is there already, for the same person, on line {line}; keep one"
        table.fault(int(rows[i]), column, problem)


def _once_each(person: Ints, rounds: Ints) -> bool:
    """Whether no person and round occurs twice; False also if that takes too much memory to tell.

    Rows below 0 in either are left out.
    """
    n, last = int(person.max(initial=-1)) + 1, int(rounds.max(initial=-1))
    first = max(int(rounds.min(initial=0 if last < 0 else last)), 0)
    width = last - first + 1
    if n * width > MARKS * len(person):
        return False
    marked, rows_known = np.zeros(n * width, bool), 0
    for begin in range(0, len(person), ROWS_AT_ONCE):
        some = slice(begin, begin + ROWS_AT_ONCE)
        known = (person[some] >= 0) & (rounds[some] >= 0)
        marked[person[some][known].astype(np.int64) * width + (rounds[some][known] - first)] = True
        rows_known += int(np.count_nonzero(known))
    return rows_known == int(np.count_nonzero(marked))
