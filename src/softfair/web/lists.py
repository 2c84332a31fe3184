"""The list of a round as rows that can be sorted, filtered, searched and grouped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..programme.bulk import UNKNOWN
from ..programme.changes import Since, since_plan
from ..programme.plans import Plan, explain, plan_of
from ..programme.settings import Settings
from ..programme.snapshot import Snapshot, load_details, take_snapshot
from ..programme.store import Store

__all__ = ["Choice", "Listed", "RoundList", "Row", "round_list"]

TOLD = {"all": "everybody", "open": "not marked", "reached": "reached", "missed": "not reached"}
MOST_VALUES = 100  # of a group column that are offered to choose from


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
    struck: str  # why they should not be called any more; empty: they should
    listed: bool

    @property
    def told(self) -> str:
        """Which of the categories `TOLD` they belong to."""
        return "open" if self.reached is None else "reached" if self.reached else "missed"


@dataclass(frozen=True, eq=False)
class RoundList:
    """The plan of a round with what has been told of it."""

    plan: Plan
    settings: Settings
    since: Since
    rows: tuple[Row, ...]  # of those on the list, or of everybody
    groups: tuple[str, ...]  # group columns
    details: tuple[str, ...]  # other columns
    over: bool  # whether the round is over
    most: float  # the highest score

    def of(self, scope: tuple[str, str] | None) -> tuple[Row, ...]:
        """The rows that a worker sees: theirs; without a scope all."""
        if scope is None:
            return self.rows
        column, value = scope
        return tuple(row for row in self.rows if row.facts.get(column) == value)


@dataclass(frozen=True)
class Choice:
    """What a visitor wants to see of a list.

    Raises
    ------
    InvalidInput
        If something is asked for that is not there.
    """

    sort: str = "name"
    down: bool = False
    told: str = "all"
    where: str = ""  # such as region=north
    search: str = ""
    group: str = ""
    everyone: bool = False


@dataclass(frozen=True)
class Listed:
    """The rows that were chosen, group by group."""

    groups: tuple[tuple[str, tuple[Row, ...]], ...]
    shown: int
    of: int
    told: int  # of all on the list, how many are marked


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
        Which one. Default: the first planned that is open, else the last planned.
    everyone
        Whether to take those too who are not on the list.

    Raises
    ------
    InvalidInput
        If it has no plan.
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
                facts={**json.loads(now.people.groups[i]), **details.get(i, {})},
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
    """Rounds from everybody's last contact before a round to that round [n]; UNKNOWN: never."""
    last = now.history.last_contact(at - 1, now.people.n)
    return np.where(last == UNKNOWN, UNKNOWN, at - last)


def chosen(rows: tuple[Row, ...], choice: Choice) -> Listed:
    """Sort, filter, search and group rows.

    Parameters
    ----------
    rows
        Of a `RoundList`.
    choice
        What is wanted.

    Raises
    ------
    InvalidInput
        If something is asked for that is not there.
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
    """The values of each group column that may be chosen, where they are few."""
    choices = {name: sorted({row.facts.get(name, "") for row in rows} - {""}) for name in columns}
    return {name: values for name, values in choices.items() if 1 <= len(values) <= MOST_VALUES}
