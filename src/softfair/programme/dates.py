"""Rounds as dates: which day an entry of a file means, and which round a day is in.

A programme whose first day is known has a calendar: round 1 begins on that day, and each round
lasts some days or some months. Files may then have dates where they have rounds: ISO (2027-01-04),
with the month or the day first (told apart by the whole column), with a month's name, as a week
(2027-W01), as eight digits, or as the number of a day in Excel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from ..errors import InvalidInput

__all__ = [
    "DAY_FIRST",
    "MONTH_FIRST",
    "ORDERS",
    "PLAIN",
    "Calendar",
    "calendar_from",
    "day_said",
    "days_of",
]

DAY_FIRST, MONTH_FIRST = "day-first", "month-first"
ORDERS = (DAY_FIRST, MONTH_FIRST)
PLAIN = "plain"  # dates that are the same in either order, such as ISO's
EXCEL = date(1899, 12, 30)  # the day 0 of Excel, for its days from March 1900 on
SERIALS = (36_526, 73_050)  # the days of Excel from 2000 to 2099; no programme has so many rounds
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
YEARS = (1950, 2150)  # an entry with another year is no date
LENGTHS = {"day": (1, 0), "week": (7, 0), "fortnight": (14, 0), "month": (0, 1), "quarter": (0, 3)}
REGULAR = 3  # so many days that share a weekday tell which number is the month

TIME = r"(?:[T ].*)?"
ISO = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){TIME}")
MONTH = re.compile(r"(\d{4})[-/](\d{1,2})")
WEEK = re.compile(r"(\d{4})-?[Ww](\d{1,2})")
NUMBERS = re.compile(rf"(\d{{1,2}})[-/. ](\d{{1,2}})[-/. ](\d{{4}}|\d{{2}}){TIME}")
NAMED = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[-/. ]*([A-Za-z]{3,9})[-/., ]*(\d{4}|\d{2})")
NAME_FIRST = re.compile(r"([A-Za-z]{3,9})\.? +(\d{1,2})(?:st|nd|rd|th)?,? +(\d{4})")
WEEKDAY = re.compile(r"^(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?\.?,? +", re.I)


@dataclass(frozen=True)
class Calendar:
    """The days of rounds.

    Parameters
    ----------
    first
        The first day of round 1.
    days, months
        How long a round is; one of the two is 0.

    Examples
    --------
    >>> weeks = Calendar(date(2027, 1, 4), days=7)
    >>> weeks.round_of(date(2027, 1, 17)), str(weeks.start(3))
    (2, '2027-01-18')
    """

    first: date
    days: int = 7
    months: int = 0

    def start(self, round: int) -> date:
        """The first day of a round."""
        if not self.months:
            return self.first + timedelta(days=self.days * (round - 1))
        month = self.first.month - 1 + self.months * (round - 1)
        year = self.first.year + month // 12
        # A round that begins on the 31st begins on the last day of a shorter month.
        for day in (self.first.day, 30, 29, 28):
            if day <= self.first.day and (made := _day(year, month % 12 + 1, day)):
                return made
        raise OverflowError(f"round {round} is beyond the calendar")

    def end(self, round: int) -> date:
        """The last day of a round."""
        return self.start(round + 1) - timedelta(days=1)

    def round_of(self, day: date) -> int:
        """The round that a day is in; below 1 before the first day."""
        if not self.months:
            return 1 + (day - self.first).days // self.days
        apart = 12 * (day.year - self.first.year) + day.month - self.first.month
        guess = 1 + apart // self.months
        return guess if self.start(guess) <= day else guess - 1

    def said(self, round: int) -> str:
        """The days of a round, such as ``2027-01-04 to 2027-01-10``."""
        try:
            first, last = self.start(round), self.end(round)
        except OverflowError:
            return "beyond the calendar"
        return f"{first}" if first == last else f"{first} to {last}"


def length_of(round: str, every: int | None) -> tuple[int, int]:
    """Days and months of a round: as given, else by its name, else a week."""
    return (every, 0) if every is not None else LENGTHS.get(round.lower(), (7, 0))


def calendar_from(days: Iterable[date], length: tuple[int, int]) -> Calendar:
    """The calendar of a programme whose first history has these days.

    Its first day is the earliest of these days; for rounds of whole weeks, if several weekdays are
    seen, the Monday of that week; for rounds of months, the first of that month.
    """
    seen = set(days)
    first = min(seen)
    if length[1]:
        first = first.replace(day=1)
    elif length[0] % 7 == 0 and len({day.weekday() for day in seen}) > 1:
        first -= timedelta(days=first.weekday())
    return Calendar(first, *length)


def _day(year: int, month: int, day: int) -> date | None:
    if year < 100:
        year += 2000
    try:
        made = date(year, month, day)
    except ValueError:
        return None
    return made if YEARS[0] <= made.year <= YEARS[1] else None


def _named(name: str) -> int:
    """The number of a month; 0: it is none."""
    short = name[:3].lower()
    return MONTHS.index(short) + 1 if short in MONTHS else 0


def day_said(text: str, order: str = DAY_FIRST) -> date | None:
    """The day that an entry stands for; None: it is no date.

    Examples
    --------
    >>> str(day_said("4 Jan 2027")), str(day_said("3/4/27")), str(day_said("20270104"))
    ('2027-01-04', '2027-04-03', '2027-01-04')
    """
    text = WEEKDAY.sub("", text.strip())
    if match := ISO.fullmatch(text):
        return _day(*map(int, match.groups()))
    if match := MONTH.fullmatch(text):
        return _day(int(match[1]), int(match[2]), 1)
    if match := WEEK.fullmatch(text):
        try:
            return date.fromisocalendar(int(match[1]), int(match[2]), 1)
        except ValueError:
            return None
    if match := NUMBERS.fullmatch(text):
        one, two, year = map(int, match.groups())
        # Countries that separate the numbers by points put the day first.
        first_is_day = order == DAY_FIRST or "." in text
        return _day(year, two, one) if first_is_day else _day(year, one, two)
    if match := NAMED.fullmatch(text):
        return _day(int(match[3]), _named(match[2]), int(match[1]))
    if match := NAME_FIRST.fullmatch(text):
        return _day(int(match[3]), _named(match[1]), int(match[2]))
    if re.fullmatch(r"\d{8}", text):
        return _day(int(text[:4]), int(text[4:6]), int(text[6:]))
    if (match := re.fullmatch(r"(\d{5})(\.\d+)?", text)) and (
        SERIALS[0] <= int(match[1]) <= SERIALS[1]
    ):
        return EXCEL + timedelta(days=int(match[1]))
    return None


def days_of(
    entries: Iterable[str], order: str | None, column: str, where: str
) -> tuple[Callable[[str], date | None], str] | None:
    """How the entries of a column are read as days; None: they are not dates.

    Parameters
    ----------
    entries
        The distinct entries; empty ones say nothing.
    order
        Which number of 3/4/2027 is the day, if the user said so.
    column, where
        The names of the column and of the file, for messages.

    Returns
    -------
    tuple or None
        The reader of one entry, and the order in which day and month stand, or PLAIN.

    Raises
    ------
    InvalidInput
        If day and month cannot be told apart.
    """
    texts = [text for text in entries if text]
    dated = [text for text in texts if _is_date(text)]
    # If at least half of the entries are dates, the others are mistakes and are refused one by one.
    if not dated or len(dated) * 2 < len(texts):
        return None
    if not any(day_said(text, DAY_FIRST) != day_said(text, MONTH_FIRST) for text in dated):
        return day_said, PLAIN
    chosen = order if order in ORDERS else _order_of(dated, column, where)
    return (lambda text: day_said(text, chosen)), chosen


def _is_date(text: str) -> bool:
    return any(day_said(text, order) is not None for order in ORDERS)


def _order_of(texts: list[str], column: str, where: str) -> str:
    """Whether the day or the month stands first in a column."""
    read = {order: [day_said(text, order) for text in texts] for order in ORDERS}
    possible = [order for order in ORDERS if None not in read[order]]
    if not possible:  # each order fails for some entries: take the one that fails for fewer
        return min(ORDERS, key=lambda order: read[order].count(None))
    if len(possible) == 1 or read[DAY_FIRST] == read[MONTH_FIRST]:
        return possible[0]
    weekdays = {order: {day.weekday() for day in read[order] if day} for order in ORDERS}
    regular = [order for order in ORDERS if len(weekdays[order]) == 1]
    if len(regular) == 1 and len(set(read[regular[0]])) >= REGULAR:
        return regular[0]  # one entry a week: in the other order they would fall on all weekdays
    text = next(text for text, one, two in zip(texts, *read.values(), strict=True) if one != two)
    raise InvalidInput(
        f"{where}: {text!r} in column {column} is {day_said(text, DAY_FIRST)} or "
        f"{day_said(text, MONTH_FIRST)}, and no entry tells which; "
        "say --dates day-first or --dates month-first; nothing was imported"
    )
