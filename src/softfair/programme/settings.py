"""The settings of a programme: its rounds, how many people can be helped, how lists are drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa

from ..errors import InvalidInput
from . import store
from .store import Connection, Store, c_from_json, c_to_json

__all__ = ["Settings", "Target", "current_settings", "initialise"]

MOST = 2**31  # whole numbers in the database are smaller than this

GOALS = {  # what a target may ask for, as a sentence
    "benefit": "keep at least {:.3g} % of the benefit of the most effective plan",
    "wait": "nobody expected to wait more than {:g} rounds",
    "group": "no {} below {:.3g} % of the average rate",
}


@dataclass(frozen=True)
class Target:
    """What c is chosen for.

    Parameters
    ----------
    goal
        ``benefit``, ``wait`` or ``group``.
    value
        For ``benefit`` a share of the most effective plan's benefit, for ``wait`` a number of
        rounds, for ``group`` a share of the average rate of contacts.
    column
        For ``group``, the group column.

    Raises
    ------
    InvalidInput
        If the goal is not known, or the value is out of its range.
    """

    goal: str
    value: float
    column: str | None = None

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise InvalidInput(
                f"the target is {self.goal!r}; "
                "choose benefit, wait or a group column, such as region"
            )
        if (
            not math.isfinite(self.value)
            or self.value <= 0
            or (self.goal != "wait" and self.value > 1)
        ):
            wanted = (
                "a number of rounds above 0"
                if self.goal == "wait"
                else "a share above 0 and at most 1 (95% or 0.95)"
            )
            raise InvalidInput(f"the target {self.goal} is {self.value:g}; give {wanted}")

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target that a text such as ``benefit=95%``, ``wait=8`` or ``region=0.5`` asks for.

        Examples
        --------
        >>> Target.parse("region=50%")
        Target(goal='group', value=0.5, column='region')
        """
        name, separator, number = (part.strip() for part in text.partition("="))
        try:
            value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            separator = ""
        if not separator or not name:
            raise InvalidInput(
                f"the target is {text!r}; "
                "say benefit=95%, wait=8 or, for a group column, region=0.5"
            )
        return cls(name, value) if name in ("benefit", "wait") else cls("group", value, name)

    def __str__(self) -> str:
        if self.goal == "group":
            return GOALS["group"].format(self.column, 100 * self.value)
        return GOALS[self.goal].format(self.value if self.goal == "wait" else 100 * self.value)


@dataclass(frozen=True)
class Settings:
    """All settings of a programme; every one has a default.

    Raises
    ------
    InvalidInput
        If a value is out of its range.
    """

    round: str = "week"  # what a round is called
    # People a round, or that by value of the column ``by``; None: one in ten.
    capacity: int | Mapping[str, int] | None = None
    by: str | None = None  # group column that capacity goes by: site, language, worker
    horizon: int = 26  # rounds, from the first that is planned
    states: tuple[str, ...] = ("bad", "good")  # from worst to best
    c: float = 10.0  # how strongly gain counts; inf: the k who gain most
    target: Target | None = None  # instead of c
    cooldown: int = 0  # rounds after a contact in which a person is not drawn again
    # Group column towards whose mean estimates are drawn; None: the first that has few values.
    shrink: str | None = None
    monotone: bool = False  # contact does not harm, the good state persists
    level: float = 0.9  # of intervals
    seed: int = 0  # from which the seed of every draw follows

    def __post_init__(self) -> None:
        self._check_capacity()
        self._check_states()
        if not 1 <= self.horizon < MOST:
            raise InvalidInput(
                f"the horizon is {self.horizon}; give a number of rounds from 1 to {MOST - 1}"
            )
        if not self.c >= 0:
            raise InvalidInput(
                f"c is {self.c}; give a number >= 0 (0: a lottery, inf: those who gain most)"
            )
        if self.cooldown < 0:
            raise InvalidInput(
                f"the cooldown is {self.cooldown}; give a number of rounds of at least 0"
            )
        if not 0 < self.level < 1:
            raise InvalidInput(
                f"the level of intervals is {self.level}; "
                "give a number between 0 and 1, such as 0.9"
            )

    def _check_capacity(self) -> None:
        by_group = isinstance(self.capacity, Mapping)
        capacities = (
            self.capacity if isinstance(self.capacity, Mapping) else {"capacity": self.capacity}
        )
        for name, k in capacities.items():
            if k is not None and (not isinstance(k, int) or not 0 <= k < MOST):
                raise InvalidInput(
                    f"the capacity {name!r} is {k!r}; "
                    "give a whole number of people a round, at least 0"
                )
        if (self.by is None) == by_group:
            raise InvalidInput(
                "capacities by group need both a column and a table, "
                "such as --by region --capacity north=5,south=3"
            )

    def _check_states(self) -> None:
        different = len({name.lower() for name in self.states}) == len(self.states)
        if len(self.states) < 2 or not different or not all(self.states):
            raise InvalidInput(
                f"the states are {', '.join(self.states)}; "
                "give at least two different names, from worst to best"
            )
        if self.monotone and len(self.states) != 2:
            raise InvalidInput(
                f"monotone is for two states, the programme has {len(self.states)}; leave it out"
            )

    @property
    def S(self) -> int:
        """How many states there are."""
        return len(self.states)

    def to_json(self) -> str:
        """As they are stored; infinite c is the text "inf"."""
        return json.dumps({**asdict(self), "c": c_to_json(self.c)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The inverse of `to_json`."""
        fields: dict[str, Any] = json.loads(text)
        fields["c"] = c_from_json(fields["c"])
        fields["states"] = tuple(fields["states"])
        fields["target"] = fields["target"] and Target(**fields["target"])
        return cls(**fields)


def initialise(database: Store, software: str, **changes: Any) -> tuple[Settings, bool]:
    """Make a programme, or change the settings of the one there is.

    Parameters
    ----------
    database
        Where it is, or will be.
    software
        Name and version that the settings are stamped with.
    **changes
        Fields of `Settings`; the others keep their value, or have their default if the programme
        is new.

    Returns
    -------
    tuple of Settings and bool
        The settings in force, and whether the programme is new.

    Raises
    ------
    InvalidInput
        If a setting is wrong, if the seed would change, or if the states would change after
        something was imported (the stored states are numbers that refer to them).
    """
    # Wrong settings are refused before a file is made for them.
    first = None if database.exists() else Settings(**changes)
    with database.creating() as connection:
        row = connection.execute(
            sa.select(store.setting).order_by(store.setting.c.id.desc()).limit(1)
        ).first()
        before = None if row is None else Settings.from_json(row.content)
        if before is None:
            after = first or Settings(**changes)
        else:
            after = replace(before, **changes)
            _refuse_what_is_set_once(connection, before, after)
        if after != before:
            connection.execute(
                store.setting.insert().values(
                    created=store.now(), software=software, content=after.to_json()
                )
            )
        return after, before is None


def _refuse_what_is_set_once(connection: Connection, before: Settings, after: Settings) -> None:
    if after.seed != before.seed:
        raise InvalidInput(
            "the seed of a programme is set once, so that no list can be drawn until it pleases; "
            "leave --seed out"
        )
    if after.states != before.states:
        files = connection.execute(sa.select(sa.func.count()).select_from(store.batch)).scalar_one()
        if files:
            raise InvalidInput(
                f"the states are {', '.join(before.states)} in what was imported ({files} files); "
                "leave --states out"
            )


def current_settings(connection: Connection) -> tuple[int, Settings]:
    """The number of the settings in force, and the settings."""
    row = connection.execute(
        sa.select(store.setting).order_by(store.setting.c.id.desc()).limit(1)
    ).one()
    return row.id, Settings.from_json(row.content)
