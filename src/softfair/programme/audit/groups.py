"""Groups: how often the people of each were listed and contacted, and how they fared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .evidence import People, Planned, draws, per_person
from .statistics import Rates, Tally

__all__ = ["GroupRow", "Rate", "groups_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_VALUES = 30  # of a group column that have a row of their own
OTHERS = "(others)"
BANDS = 4  # of a column of numbers, such as age


@dataclass(frozen=True)
class Rate:
    """A rate a person and round, with its interval."""

    rate: float
    low: float
    high: float
    relative: float  # to everybody's


@dataclass(frozen=True)
class GroupRow:
    """A value of a group column; everybody has the column ""."""

    column: str
    value: str
    people: int
    in_draw: int  # people in the draw, round by round
    selection: Rate  # listed
    contact: Rate
    outcome: Rate  # mean reward in the round after
    stated_rate: float  # at which the probabilities say they are listed
    z: float
    p: float
    flagged: bool = False


@dataclass(frozen=True, eq=False)
class _Totals:
    """Numerators and denominators of the three rates, of each person [n]."""

    drawn: Floats
    listed: Floats
    asked: Floats  # rounds whose contact is known
    contacted: Floats
    followed: Floats  # rounds after which the state is known
    reward: Floats

    @classmethod
    def of(cls, planned: Sequence[Planned], n: int, S: int) -> _Totals:
        total = partial(per_person, n, planned)
        return cls(
            drawn=total(lambda one: (one.in_draw, one.in_draw)),
            listed=total(lambda one: (one.in_draw, one.listed)),
            asked=total(lambda one: (known := one.in_programme & (one.contacted >= 0), known)),
            contacted=total(lambda one: (one.in_programme & (one.contacted >= 0), one.contacted)),
            followed=total(lambda one: (known := one.in_programme & (one.after >= 0), known)),
            reward=total(lambda one: (one.in_programme & (one.after >= 0), one.after / (S - 1))),
        )


def groups_of(planned: Sequence[Planned], people: People, S: int, z: float) -> tuple[GroupRow, ...]:
    """How the values of each group column fared.

    Parameters
    ----------
    planned : sequence of Planned
        The rounds, with what was recorded of them.
    people : People
        Everybody, with their groups.
    S : int
        Number of states.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    tuple of GroupRow
        Everybody, then a row a value; none if nobody was in a draw.
    """
    totals = _Totals.of(planned, people.n, S)
    if not totals.drawn.any():
        return ()
    alone = np.zeros(people.n, np.int64)
    rows = _column(planned, totals, "", ["everybody"], alone, None, z)
    for column in people.columns():
        numbers = people.numbers(column)
        values, code = _pooled(*people.group(column)) if numbers is None else _bands(numbers)
        rows += _column(planned, totals, column, values, code, rows[0], z)
    return tuple(rows)


def _column(
    planned: Sequence[Planned],
    totals: _Totals,
    column: str,
    values: list[str],
    code: Ints,
    everybody: GroupRow | None,
    z: float,
) -> list[GroupRow]:
    """A row a value that anybody in the draw has; code [n] is the value of each person."""
    J = len(values)
    tally = Tally.of(
        draws(planned, [np.where(one.in_draw, code[one.person], -1) for one in planned]), J
    )
    selection = Rates.of(totals.listed, totals.drawn, code, J, z)
    contact = Rates.of(totals.contacted, totals.asked, code, J, z)
    outcome = Rates.of(totals.reward, totals.followed, code, J, z)
    size = np.bincount(code, totals.drawn > 0, J)
    return [
        GroupRow(
            column=column,
            value=values[j],
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


def _rate(rates: Rates, j: int, everybody: Rate | None) -> Rate:
    """One group's rate, relative to everybody's (or to itself)."""
    rate = float(rates.rate[j])
    whole = rate if everybody is None else everybody.rate
    relative = rate / whole if whole > 0 else math.nan
    return Rate(rate, float(rates.low[j]), float(rates.high[j]), relative)


def _bands(numbers: Floats) -> tuple[list[str], Ints]:
    """Numbers [n] in up to BANDS bands of about equally many people, and those without a number."""
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
    """A group column with one entry, the last, for values that are not shown apart.

    These are values that a single person has (they may identify them) and those beyond the
    ``MOST_VALUES`` most frequent.
    """
    size = np.bincount(code, minlength=len(values))
    apart = np.sort(np.argsort(-size, kind="stable")[:MOST_VALUES])
    apart = apart[size[apart] > 1]
    place = np.full(len(values), len(apart))
    place[apart] = np.arange(len(apart))
    names = [values[j] or "(none)" for j in apart]
    return (names if len(apart) == len(values) else [*names, OTHERS]), place[code]
