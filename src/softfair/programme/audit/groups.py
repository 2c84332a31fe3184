"""Groups: how often the people of each were listed and contacted, and their outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..snapshot import People
from .design import Tally
from .planned import Planned, by_person
from .statistics import Rates

__all__ = ["GroupRow", "Groups", "Rate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_VALUES = 30  # of a group column with a row of their own; their codes must fit into a byte
OTHERS = "(others)"
BANDS = 4  # into which a column of numbers is cut, such as age


@dataclass(frozen=True)
class Rate:
    """A rate a person and round, with its interval."""

    rate: float
    low: float
    high: float
    relative: float  # ratio to everybody's rate


@dataclass(frozen=True)
class GroupRow:
    """A value of a group column; everybody has the column ""."""

    column: str
    value: str
    people: int
    in_draw: int  # people in the draw, summed over rounds
    selection: Rate  # listed
    contact: Rate
    outcome: Rate  # mean reward in the round after
    stated_rate: float  # mean stated probability of being listed
    z: float
    p: float
    flagged: bool = False


@dataclass(frozen=True, eq=False)
class _Column:
    """The values of a group column."""

    name: str
    values: list[str]
    code: NDArray[np.int8]  # [n] the value of each person
    tally: Tally


class Groups:
    """Lists, contacts and outcomes of the people of each value of each group column.

    Parameters
    ----------
    people : People
        Everybody, with their groups.
    S : int
        Number of states.
    """

    def __init__(self, people: People, S: int) -> None:
        self._S = S
        # Denominators and numerators of each person's three rates: rounds in the draw, and listed;
        # rounds whose contact is known, and contacts; rounds after which the state is known, and
        # the rewards then.
        self._drawn, self._listed, self._asked, self._contacted, self._followed, self._reward = (
            np.zeros((6, people.n))
        )
        self._columns = [_column("", ["everybody"], np.zeros(people.n, np.int64))]
        for name in people.columns():
            numbers = people.numbers(name)
            values = _pooled(*people.group(name)) if numbers is None else _bands(numbers)
            self._columns.append(_column(name, *values))

    def add(self, one: Planned) -> None:
        """Count a round."""
        asked, followed = (one.in_programme & (known >= 0) for known in (one.contacted, one.after))
        for total, counted, value in (
            (self._drawn, one.in_draw, one.in_draw),
            (self._listed, one.in_draw, one.listed),
            (self._asked, asked, asked),
            (self._contacted, asked, one.contacted),
            (self._followed, followed, followed),
            (self._reward, followed, one.after / (self._S - 1)),
        ):
            total += by_person(len(total), one, counted, value)
        for column in self._columns:
            for draw in one.draws(np.where(one.in_draw, column.code[one.person], -1)):
                column.tally.add(draw)

    def rows(self, z: float) -> tuple[GroupRow, ...]:
        """The rates of every value of each group column.

        Parameters
        ----------
        z : float
            Standard deviations that an interval reaches to either side.

        Returns
        -------
        tuple of GroupRow
            Everybody, then a row a value; none if nobody was in a draw.
        """
        if not self._drawn.any():
            return ()
        rows: list[GroupRow] = []
        for column in self._columns:
            rows += self._rows_of(column, rows[0] if rows else None, z)
        return tuple(rows)

    def _rows_of(self, column: _Column, everybody: GroupRow | None, z: float) -> list[GroupRow]:
        """A row for each value that anybody in the draw has."""
        J, code, tally = len(column.values), column.code, column.tally
        selection = Rates.of(self._listed, self._drawn, code, J, z)
        contact = Rates.of(self._contacted, self._asked, code, J, z)
        outcome = Rates.of(self._reward, self._followed, code, J, z)
        size = np.bincount(code, self._drawn > 0, J)
        return [
            GroupRow(
                column=column.name,
                value=column.values[j],
                people=int(size[j]),
                in_draw=int(tally.rounds[j]),
                selection=_rate(selection, j, everybody.selection if everybody else None),
                contact=_rate(contact, j, everybody.contact if everybody else None),
                outcome=_rate(outcome, j, everybody.outcome if everybody else None),
                stated_rate=float(tally.expected[j] / tally.rounds[j]),
                z=tally.z(j),
                p=tally.p(j),
            )
            for j in range(J)
            if size[j]
        ]


def _column(name: str, values: list[str], code: Ints) -> _Column:
    """A column, before any round is counted."""
    return _Column(name, values, code.astype(np.int8), Tally(len(values)))


def _rate(rates: Rates, j: int, everybody: Rate | None) -> Rate:
    """One group's rate, relative to everybody's (or to itself)."""
    rate = float(rates.rate[j])
    whole = rate if everybody is None else everybody.rate
    relative = rate / whole if whole > 0 else math.nan
    return Rate(rate, float(rates.low[j]), float(rates.high[j]), relative)


def _bands(numbers: Floats) -> tuple[list[str], Ints]:
    """Numbers [n] in up to BANDS bands of about equally many people, and a band without number."""
    known = np.isfinite(numbers)
    cuts = np.unique(np.quantile(numbers[known], np.arange(1, BANDS) / BANDS))
    band = np.searchsorted(cuts, numbers, side="left")
    names: list[str] = []
    code = np.zeros(len(numbers), np.int64)
    for j in range(len(cuts) + 1):
        here = known & (band == j)
        if here.any():
            code[here] = len(names)
            names.append(f"{numbers[here].min():g} to {numbers[here].max():g}")
    if not known.all():
        code[~known] = len(names)
        names.append("(none)")
    return names, code


def _pooled(values: list[str], code: Ints) -> tuple[list[str], Ints]:
    """A group column in which the last entry pools the values that have no row of their own.

    These are values that only one person has (the value may identify the person) and those beyond
    the ``MOST_VALUES`` most frequent.
    """
    size = np.bincount(code, minlength=len(values))
    apart = np.sort(np.argsort(-size, kind="stable")[:MOST_VALUES])
    apart = apart[size[apart] > 1]
    place = np.full(len(values), len(apart))
    place[apart] = np.arange(len(apart))
    names = [values[j] or "(none)" for j in apart]
    return (names if len(apart) == len(values) else [*names, OTHERS]), place[code]
