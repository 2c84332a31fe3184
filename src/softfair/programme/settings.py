"""What a programme is: the length of its rounds, how many can be helped in each, for how long, and how the list is drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa

from ..errors import InvalidInput
from . import store
from .store import Connection, Store

__all__ = ["Settings", "Target", "current_settings", "initialise"]

MOST = 2**31  # what a whole number in a database may reach

GOALS = {  # what a target may ask for, and how it is said
    "benefit": "keep at least {:.3g} % of the benefit of the most effective plan",
    "wait": "nobody expected to wait more than {:g} rounds",
    "group": "no {} below {:.3g} % of the average rate",
}


@dataclass(frozen=True)
class Target:
    """What c is chosen for. ``benefit``: a share of the most effective plan's; ``wait``: rounds; ``group``: a share of the average rate."""

    goal: str
    value: float
    column: str | None = None  # of ``group``

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise InvalidInput(
                f"the target is {self.goal!r}; choose benefit, wait or a group column, such as region"
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
        """From ``benefit=95%``, ``wait=8`` or ``region=0.5``."""
        name, separator, number = (part.strip() for part in text.partition("="))
        try:
            value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            separator = ""
        if not separator or not name:
            raise InvalidInput(
                f"the target is {text!r}; say benefit=95%, wait=8 or, for a group column, region=0.5"
            )
        return cls(name, value) if name in ("benefit", "wait") else cls("group", value, name)

    def __str__(self) -> str:
        if self.goal == "group":
            return GOALS["group"].format(self.column, 100 * self.value)
        return GOALS[self.goal].format(self.value if self.goal == "wait" else 100 * self.value)


@dataclass(frozen=True)
class Settings:
    """Everything that can be set, with defaults that work."""

    round: str = "week"  # what a round is called
    capacity: int | Mapping[str, int] | None = (
        None  # people a round, or by value of the column ``by``; None: one in ten
    )
    by: str | None = None  # group column that capacity goes by: site, language, worker
    horizon: int = 26  # rounds, from the first that is planned
    states: tuple[str, ...] = ("bad", "good")  # from worst to best
    c: float = 10.0  # how strongly gain counts; inf: the k who gain most
    target: Target | None = None  # instead of c
    cooldown: int = 0  # rounds after a contact in which a person is not drawn again
    shrink: str | None = (
        None  # group column towards whose mean estimates are drawn; None: the first that has few values
    )
    monotone: bool = False  # contact does not harm, the good state persists
    level: float = 0.9  # of intervals
    seed: int = 0  # from which the seed of every draw follows

    def __post_init__(self) -> None:
        capacities = (
            self.capacity if isinstance(self.capacity, Mapping) else {"capacity": self.capacity}
        )
        for name, k in capacities.items():
            if k is not None and (not isinstance(k, int) or not 0 <= k < MOST):
                raise InvalidInput(
                    f"the capacity {name!r} is {k!r}; give a whole number of people a round, at least 0"
                )
        if (self.by is None) == isinstance(self.capacity, Mapping):
            raise InvalidInput(
                "capacities by group need both a column and a table, such as --by region --capacity north=5,south=3"
            )
        if not 1 <= self.horizon < MOST:
            raise InvalidInput(
                f"the horizon is {self.horizon}; give a number of rounds from 1 to {MOST - 1}"
            )
        if (
            len(self.states) < 2
            or len({name.lower() for name in self.states}) < len(self.states)
            or not all(self.states)
        ):
            raise InvalidInput(
                f"the states are {', '.join(self.states)}; give at least two different names, from worst to best"
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
                f"the level of intervals is {self.level}; give a number between 0 and 1, such as 0.9"
            )
        if self.monotone and len(self.states) != 2:
            raise InvalidInput(
                f"monotone is for two states, the programme has {len(self.states)}; leave it out"
            )

    @property
    def S(self) -> int:
        return len(self.states)

    def to_json(self) -> str:
        return json.dumps(
            {**asdict(self), "c": "inf" if math.isinf(self.c) else self.c}, sort_keys=True
        )

    @classmethod
    def from_json(cls, text: str) -> Settings:
        fields: dict[str, Any] = json.loads(text)
        target = fields["target"] and Target(**fields["target"])
        return cls(
            **{
                **fields,
                "c": float(fields["c"]),
                "states": tuple(fields["states"]),
                "target": target,
            }
        )


def initialise(database: Store, software: str, **changes: Any) -> tuple[Settings, bool]:
    """Make the programme, or change the settings of the one there is: (settings in force, whether it is new).

    The states of a programme cannot change once it has people, for they are what its history is told in; nor its seed.
    """
    if not database.exists():
        Settings(**changes)  # what is wrong is refused before there is a file
    with database.creating() as connection:
        row = connection.execute(
            sa.select(store.setting).order_by(store.setting.c.id.desc()).limit(1)
        ).first()
        before = Settings.from_json(row.content) if row else None
        if before is not None and changes.get("seed", before.seed) != before.seed:
            raise InvalidInput(
                "the seed of a programme is set once, so that no list can be drawn until it pleases; leave --seed out"
            )
        if before is not None and tuple(changes.get("states", before.states)) != before.states:
            used = connection.execute(
                sa.select(sa.func.count()).select_from(store.batch)
            ).scalar_one()
            if used:
                raise InvalidInput(
                    f"the states are {', '.join(before.states)} in what was imported ({used} files); leave --states out"
                )
        after = replace(before, **changes) if before else Settings(**changes)
        if after != before:
            connection.execute(
                store.setting.insert().values(
                    created=store.now(), software=software, content=after.to_json()
                )
            )
        return after, before is None


def current_settings(connection: Connection) -> tuple[int, Settings]:
    """The settings in force and their number."""
    row = connection.execute(
        sa.select(store.setting).order_by(store.setting.c.id.desc()).limit(1)
    ).one()
    return row.id, Settings.from_json(row.content)
