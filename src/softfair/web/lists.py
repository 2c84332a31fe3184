"""The list of a round as rows that can be sorted, filtered, searched and grouped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..for_json import read_json
from ..programme.bulk import UNKNOWN
from ..programme.changes import Since, since_plan
from ..programme.plans import Plan, explain, plan_of
from ..programme.settings import Settings
from ..programme.snapshot import Snapshot, load_details, take_snapshot
from ..programme.store import Store

__all__ = ["Choice", "Listed", "RoundList", "Row", "round_list"]

TOLD = {"all": "everybody", "open": "not marked", "reached": "reached", "missed": "not reached"}
MOST_VALUES = 100  # of a group column that can be filtered by its values


@dataclass(frozen=True)
class Row:
    """One person of a round's list."""

    name: str
    facts: Mapping[str, str]  # groups, and details such as a telephone number
    probability: float
    score: float
    reason: str
    waited: int | None  # rounds since the last contact; None: never contacted
    reached: bool | None  # None: not marked
    state: str | None  # reached after the round
    struck: str  # why the person should not be called any more; empty: not struck off
    listed: bool

    @property
    def told(self) -> str:
        """The category of `TOLD` that the row belongs to: open, reached or missed."""
        return "open" if self.reached is None else "reached" if self.reached else "missed"


@dataclass(frozen=True, eq=False)
class RoundList:
    """The plan of a round, with what has been recorded of it."""

    plan: Plan
    settings: Settings
    since: Since
    rows: tuple[Row, ...]  # of the people on the list, or of everybody
    groups: tuple[str, ...]  # group columns
    details: tuple[str, ...]  # other columns, such as a telephone number
    over: bool  # whether the round is over
    most: float  # the highest score

    def of(self, scope: tuple[str, str] | None) -> tuple[Row, ...]:
        """The rows of the people in a worker's scope; without a scope, all rows."""
        if scope is None:
            return self.rows
        column, value = scope
        return tuple(row for row in self.rows if row.facts.get(column) == value)


@dataclass(frozen=True)
class Choice:
    """How a list is sorted, filtered, searched and grouped for a visitor."""

    sort: str = "name"
    down: bool = False
    told: str = "all"
    where: str = ""  # such as region=north
    search: str = ""
    group: str = ""
    everyone: bool = False


@dataclass(frozen=True)
class Listed:
    """The chosen rows, group by group."""

    groups: tuple[tuple[str, tuple[Row, ...]], ...]
    shown: int  # number of chosen rows
    of: int  # number of all rows
    told: int  # how many of all rows are marked


SORTS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: row.name.casefold(),
    "probability": lambda row: row.probability,
    "score": lambda row: row.score,
    "waited": lambda row: float("inf") if row.waited is None else row.waited,
    "told": lambda row: row.told,
}


def round_list(database: Store, round: int | None, everyone: bool = False) -> RoundList:
    """The list of a round.

    Parameters
    ----------
    database
        The programme.
    round
        Its number; None: the first planned round that is open, else the last planned.
    everyone
        Whether to include people who are not on the list.

    Raises
    ------
    InvalidInput
        If the round has no plan.
    """
    with database.reading() as connection:
        now, details = take_snapshot(connection), load_details(connection)
    at = next(iter(now.open_rounds()), None) if round is None else round
    plan = plan_of(database, at)
    since = since_plan(database, plan)
    called = np.isin(plan.person, list(since.called))
    wanted = np.flatnonzero(plan.listed | called | everyone).tolist()
    rows = _rows(plan, now, since, details, wanted)
    others = {name for i in plan.person[wanted].tolist() for name in details.get(i, ())}
    return RoundList(
        plan,
        now.settings,
        since,
        rows,
        tuple(now.people.columns()),
        tuple(sorted(others)),
        plan.round in now.over(),
        max((row.score for row in rows), default=0.0),
    )


def _rows(
    plan: Plan,
    now: Snapshot,
    since: Since,
    details: Mapping[int, Mapping[str, str]],
    wanted: list[int],
) -> tuple[Row, ...]:
    n, states = now.people.n, now.settings.states
    _, contacted = now.history.of(plan.round, n)
    after, _ = now.history.of(plan.round + 1, n)
    waited, sentences = _waited(now, plan.round), explain(plan)
    rows = []
    for place in wanted:
        i = int(plan.person[place])
        call = f"Called from the reserve: {since.called[i]}. " if i in since.called else ""
        rows.append(
            Row(
                name=plan.names[i],
                facts={**read_json(now.people.groups[i]), **details.get(i, {})},
                probability=float(plan.probability[place]),
                score=float(plan.score[place]),
                reason=f"{call}{sentences[place]}",
                waited=None if waited[i] == UNKNOWN else int(waited[i]),
                reached=None if contacted[i] < 0 else bool(contacted[i]),
                state=None if after[i] < 0 else states[after[i]],
                struck=since.struck.get(i, ""),
                listed=bool(plan.listed[place]) or i in since.called,
            )
        )
    return tuple(rows)


def _waited(now: Snapshot, at: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Rounds from each person's last contact before a round to it [n]; UNKNOWN: no contact."""
    last = now.history.last_contact(at - 1, now.people.n)
    return np.where(last == UNKNOWN, UNKNOWN, at - last)


def chosen(rows: tuple[Row, ...], choice: Choice) -> Listed:
    """Sort, filter, search and group rows.

    Parameters
    ----------
    rows
        Of a `RoundList`.
    choice
        How they are sorted, filtered, searched and grouped.

    Raises
    ------
    InvalidInput
        If ``choice.told`` is not one of `TOLD`.
    """
    columns = {name for row in rows for name in row.facts}
    if choice.told not in TOLD:
        raise InvalidInput(f"there is no list of {choice.told!r}; choose {', '.join(TOLD)}")
    key = SORTS.get(choice.sort)
    if key is None:
        key = lambda row: row.facts.get(choice.sort, "").casefold()  # noqa: E731
    kept = [row for row in rows if choice.told in ("all", row.told)]
    column, equals, value = choice.where.partition("=")
    if equals:
        kept = [row for row in kept if row.facts.get(column, "") == value]
    if text := choice.search.casefold().strip():
        kept = [row for row in kept if text in _text(row)]
    kept.sort(key=SORTS["name"])
    kept.sort(key=key, reverse=choice.down)
    groups: dict[str, list[Row]] = {}
    for row in kept:
        name = row.facts.get(choice.group, "") if choice.group in columns else ""
        groups.setdefault(name, []).append(row)
    parts = tuple((name, tuple(groups[name])) for name in sorted(groups))
    told = sum(row.reached is not None for row in rows)
    return Listed(parts, len(kept), len(rows), told)


def _text(row: Row) -> str:
    return "\n".join((row.name, *row.facts.values())).casefold()


def values_of(rows: tuple[Row, ...], columns: tuple[str, ...]) -> dict[str, list[str]]:
    """The values of each group column, of columns with at most MOST_VALUES of them."""
    choices = {name: sorted({row.facts.get(name, "") for row in rows} - {""}) for name in columns}
    return {name: values for name, values in choices.items() if 1 <= len(values) <= MOST_VALUES}
