"""The settings of a programme: its rounds, how many people can be helped, how lists are drawn."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from typing import Any

import sqlalchemy as sa

from ..errors import InvalidInput
from ..for_json import for_json, read_json
from . import schema, store
from .aims import SOFTFAIR, Evenness, Target
from .dates import Calendar, length_of
from .luck import SEED_BITS
from .promises import NO_PROMISE, Promise
from .store import Connection, Store, sign
from .tracks import retracted_batches

__all__ = [
    "Settings",
    "change_settings",
    "current_settings",
    "initialise",
]

FARTHEST = 10_000  # rounds: a plan holds prices and values for each
SUREST = 1 - 1e-9  # the level of the widest intervals: beyond, quantiles lose their digits


@dataclass(frozen=True)
class Tried:
    """A longer memory that was asked for, and how well it foretold rounds that were held out."""

    asked: str = "none"  # see `estimate.Memory`
    used: bool = False  # whether chances go by it
    # The mean log of the chance given to what came, less that without memory; its 95 % interval.
    gain: tuple[float, float, float] = (0.0, 0.0, 0.0)
    moves: int = 0  # how many were held out
    rounds: tuple[int, int] = (0, 0)  # the first and the last round held out

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Tried:
        """The inverse of how it is stored, as a dictionary."""
        pairs = {name: tuple(stored[name]) for name in ("gain", "rounds") if name in stored}
        return cls(**{**stored, **pairs})

    @property
    def goes_by(self) -> str:
        """What chances go by beside the state."""
        return self.asked if self.used else "none"

    def __str__(self) -> str:
        if self.asked == "none":
            return "plans go by the state alone"
        what = REMEMBERED[self.asked]
        value, low, high = (f"{100 * math.expm1(one):+.2g} %" for one in self.gain)
        shown = (
            f"in {self.moves:,} moves of rounds {self.rounds[0]} to {self.rounds[1]}, held out, "
            f"it changes the chance given to what came by {value} on average (95 % interval {low} "
            f"to {high})"
        )
        if self.used:
            return f"plans go by {what} too, which helps to foretell: {shown}"
        return f"plans go by the state alone; that {what} helps to foretell cannot be told: {shown}"


NOT_TRIED = Tried()
REMEMBERED = {"2": "the state before the last", "contact": "a contact in the round before"}


@dataclass(frozen=True)
class Settings:
    """All settings of a programme; every one has a default.

    Raises
    ------
    InvalidInput
        If a value is out of its range.
    """

    round: str = "week"  # what a round is called
    # People a round, or people a round for each value of the column ``by``; None: one in ten.
    capacity: int | Mapping[str, int] | None = None
    by: str | None = None  # group column that capacity goes by: site, language, worker
    horizon: int = 26  # rounds that a plan looks ahead, itself included
    ends: int | None = None  # the last round of the programme; None: it goes on
    # Capacities of single rounds: "30", "0", or a share of the usual ones such as "50%".
    exceptions: Mapping[int, str] = field(default_factory=dict)
    first_day: str | None = None  # ISO date on which round 1 began; None: rounds have no dates
    every: int | None = None  # days of a round; None: by the round's name, else 7
    threshold: str | None = None  # of values: good from it up ("4") or up to it ("<=3")
    states: tuple[str, ...] = ("bad", "good")  # from worst to best
    c: float = 10.0  # how strongly gain counts; inf: the k people who gain most are on the list
    target: Target | None = None  # instead of c
    evenness: Evenness = SOFTFAIR  # what is added to the gain, so that help is more even
    promise: Promise = NO_PROMISE  # what every draw keeps
    cooldown: int = 0  # rounds after a contact in which a person is not drawn again
    # Group column towards whose mean estimates are drawn; None: the first that has few values.
    shrink: str | None = None
    protected: tuple[str, ...] = ()  # columns that estimates do not go by
    monotone: bool = False  # contact does not harm, the good state persists
    memory: Tried = NOT_TRIED  # what chances may go by beside the state
    level: float = 0.9  # of intervals
    seed: int = 0  # from which the luck of every draw follows; random in a new programme

    def __post_init__(self) -> None:
        self._check_capacity()
        self._check_states()
        self._check_calendar()
        if not 1 <= self.horizon <= FARTHEST:
            raise InvalidInput(
                f"the horizon is {self.horizon}; give a number of rounds from 1 to {FARTHEST}"
            )
        if not self.c >= 0:
            raise InvalidInput(
                f"c is {self.c}; give a number >= 0 (0: a lottery, inf: those who gain most)"
            )
        if self.target is not None and not self.evenness.is_softfair:
            raise InvalidInput(
                f"a target is for SoftFair, and the policy is {self.evenness}; "
                "say --target none, or --policy SoftFair"
            )
        if not self.promise.is_none and not self.evenness.is_softfair:
            raise InvalidInput(
                f"a promise is for SoftFair, and the policy is {self.evenness}; "
                "say --promise none, or --policy SoftFair"
            )
        if self.shrink is not None and self.shrink in self.protected:
            raise InvalidInput(
                f"{self.shrink} is protected, and estimates are drawn towards its means; "
                "leave one of --protected and --shrink out"
            )
        if self.cooldown < 0:
            raise InvalidInput(
                f"the cooldown is {self.cooldown}; give a number of rounds of at least 0"
            )
        if not 0 < self.level <= SUREST:
            raise InvalidInput(
                f"the level of intervals is {self.level}; "
                f"give a number above 0 and up to {SUREST}, such as 0.9"
            )

    def _check_capacity(self) -> None:
        by_group = isinstance(self.capacity, Mapping)
        capacities = (
            self.capacity if isinstance(self.capacity, Mapping) else {"capacity": self.capacity}
        )
        for name, k in capacities.items():
            if k is not None and (not isinstance(k, int) or not 0 <= k < schema.BEYOND):
                raise InvalidInput(
                    f"the capacity {name!r} is {k!r}; "
                    "give a whole number of people a round, at least 0"
                )
        if (self.by is None) == by_group:
            raise InvalidInput(
                "capacities by group need both a column and a table, "
                "such as --by region --capacity north=5,south=3"
            )

    def _check_calendar(self) -> None:
        if self.first_day is not None:
            try:
                date.fromisoformat(self.first_day)
            except ValueError:
                raise InvalidInput(
                    f"the first day is {self.first_day!r}; give a date such as 2027-01-04"
                ) from None
        if self.every is not None and not 1 <= self.every < 10_000:
            raise InvalidInput(f"a round lasts {self.every} days; give a number of days from 1")
        if self.ends is not None and not 0 <= self.ends < schema.BEYOND:
            raise InvalidInput(f"the last round is {self.ends}; give a round or its date")
        for at, k in self.exceptions.items():
            if not re.fullmatch(r"\d{1,9}|(100|\d{1,2})%", k):
                raise InvalidInput(
                    f"the capacity of round {at} is {k!r}; "
                    "give a number of people such as 30, or a share such as 50%"
                )
            if self.by is not None and not k.endswith("%") and int(k):
                raise InvalidInput(
                    f"the capacity of round {at} is {k}, but capacities go by {self.by}; "
                    "give 0 or a share of them, such as 50%"
                )

    def _check_states(self) -> None:
        different = len({name.lower() for name in self.states}) == len(self.states)
        if len(self.states) < 2 or not different or not all(self.states):
            raise InvalidInput(
                f"the states are {', '.join(self.states)}; "
                "give at least two different names, from worst to best"
            )
        if self.monotone and self.memory.used:
            raise InvalidInput(
                f"monotone is about chances that go by the state alone, and the memory is "
                f"{self.memory.asked}; say softfair init --free, or softfair fit --memory none"
            )
        if self.monotone and len(self.states) != 2:
            raise InvalidInput(
                f"monotone is for two states, the programme has {len(self.states)}; leave it out"
            )

    @property
    def S(self) -> int:
        """How many states there are."""
        return len(self.states)

    @property
    def length(self) -> tuple[int, int]:
        """Days and months of a round."""
        return length_of(self.round, self.every)

    @property
    def calendar(self) -> Calendar | None:
        """The days of rounds; None: they are not known."""
        if self.first_day is None:
            return None
        return Calendar(date.fromisoformat(self.first_day), *self.length)

    def called(self, round: int) -> str:
        """A round as sentences name it: ``round 21``, with its days if they are known."""
        days = "" if self.calendar is None else f" ({self.calendar.said(round)})"
        return f"round {round}{days}"

    def capacity_in(self, round: int, usual: int) -> int:
        """The capacity in a round, where ``usual`` is that in a round without an exception."""
        told = self.exceptions.get(round)
        if told is None:
            return usual
        return usual * int(told[:-1]) // 100 if told.endswith("%") else int(told)

    def no_capacity(self, round: int) -> bool:
        """Whether the capacity of a round is set to 0, as in a holiday."""
        return self.exceptions.get(round, "").rstrip("%") in ("0", "00")

    def to_json(self) -> str:
        """The settings as they are stored; infinite c is the text "inf"."""
        told = {**asdict(self), "c": for_json(self.c)}
        if self.memory == NOT_TRIED:
            del told["memory"]
        return json.dumps(told, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The inverse of `to_json`."""
        stored: dict[str, Any] = read_json(text)
        stored["c"] = float(stored["c"])
        stored["states"] = tuple(stored["states"])
        stored["protected"] = tuple(stored.get("protected", ()))
        stored["target"] = stored["target"] and Target(**stored["target"])
        stored["evenness"] = Evenness(**stored.get("evenness", {}))
        stored["promise"] = Promise.from_json(stored.get("promise", {}))
        stored["memory"] = Tried.from_json(stored.get("memory", {}))
        exceptions = stored.get("exceptions", {})
        stored["exceptions"] = {int(at): k for at, k in exceptions.items()}
        return cls(**stored)

    def differences(self, before: Settings) -> dict[str, tuple[Any, Any]]:
        """Name -> (before, now) of each setting that is not as it was."""
        pairs = {
            one.name: (getattr(before, one.name), getattr(self, one.name)) for one in fields(self)
        }
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def initialise(database: Store, software: str, **changes: Any) -> tuple[Settings, bool]:
    """Make a programme, or change the settings of an existing one.

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
        If a setting is wrong, if the seed would change, if the states would change after
        something was imported (the stored states are numbers that refer to them), or if the days
        of rounds would change after dates were imported.
    """
    # Wrong settings are refused before a file is made for them.
    first = None if database.exists() else _first_settings(changes)
    with database.creating() as connection:
        row = connection.execute(
            sa.select(schema.setting).order_by(schema.setting.c.id.desc()).limit(1)
        ).first()
        before = None if row is None else Settings.from_json(row.content)
        if before is None:
            after = first or _first_settings(changes)
        else:
            after = replace(before, **changes)
            _refuse_what_is_set_once(connection, before, after)
        if after != before:
            change_settings(connection, after, software)
        return after, before is None


def change_settings(connection: Connection, settings: Settings, software: str) -> None:
    """Put settings in force, within a writing transaction."""
    key = connection.execute(
        schema.setting.insert().values(
            created=store.now(), software=software, content=settings.to_json()
        )
    ).inserted_primary_key
    assert key is not None
    sign(connection, schema.setting, int(key[0]))


def _first_settings(changes: Mapping[str, Any]) -> Settings:
    """The settings of a new programme; its seed is random unless it is given."""
    return Settings(**{"seed": secrets.randbits(SEED_BITS), **changes})


def _refuse_what_is_set_once(connection: Connection, before: Settings, after: Settings) -> None:
    if after.seed != before.seed:
        raise InvalidInput(
            "the seed of a programme is set once, so that no list can be drawn until it pleases; "
            "leave --seed out"
        )
    days_before, days = before.calendar, after.calendar
    if days_before is not None and days != days_before:
        b = schema.batch
        dated = sa.select(b.c.id).where(b.c.read_as.contains('"dates"'))
        used = set(connection.execute(dated).scalars()) - retracted_batches(connection)
        if used:
            raise InvalidInput(
                f"dates of {len(used)} files were taken with round 1 beginning on "
                f"{days_before.first}; retract those first (softfair log shows them)"
            )
    if after.states != before.states:
        files = connection.execute(
            sa.select(sa.func.count()).select_from(schema.batch)
        ).scalar_one()
        if files:
            raise InvalidInput(
                f"the states are {', '.join(before.states)} in what was imported ({files} files); "
                "leave --states out"
            )


def current_settings(connection: Connection) -> tuple[int, Settings]:
    """The number of the settings in force, and the settings."""
    row = connection.execute(
        sa.select(schema.setting).order_by(schema.setting.c.id.desc()).limit(1)
    ).one()
    return row.id, Settings.from_json(row.content)
