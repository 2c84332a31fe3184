"""The arms of a trial, and who is in which: drawn once, stored, and replayed.

A unit is a person, or a site with all of its people. X are the numbers that are known of the units
before the trial begins, and Z are linear combinations of X that are uncorrelated and have mean 0
and variance 1. The imbalance of an assignment with n_a units in arm a is

    sum_a n_a |mean of Z in arm a|^2

(Lawley and Hotelling's trace; for two arms Mahalanobis' distance between them, up to a factor).
Many assignments are drawn, each with random numbers that follow from the name of each unit
(`luck`), and the most balanced of them is taken (rerandomisation, Morgan and Rubin, Annals of
Statistics 2012). If there are few units there are fewer tries: at least one, and at most one for
every LEAST_LEFT possible assignments. If arms have the same number of units, everybody has exactly
the same chance of each: renaming the arms changes neither the law of the tries nor their balance.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..for_json import read_json
from . import schema, store
from .bulk import append, fetch
from .commitments import OF_TRIAL, Commitment, luck_of_trial, names_digest
from .luck import Luck, numbered, numbers
from .store import Connection

__all__ = [
    "Arm",
    "Design",
    "Draft",
    "Trial",
    "assigned",
    "draft_of",
    "frozen",
    "is_frozen_in",
    "load_trial",
    "replays",
    "store_trial",
    "tries_of",
    "units_of_arms",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_TRIES = 1000
MOST_SORTED = 20_000_000  # units in all tries together: a few seconds
LEAST_LEFT = 20  # possible assignments for every try: a test at 5 % can still reject
ALIKE = 1e-9  # relative: below it a direction of X is constant, or two imbalances are equal
NEWCOMERS = 2.0**-64  # times a unit's luck of 64 bits: a number from 0 to 1


class Arm(StrEnum):
    """What an arm of a trial does with its people."""

    SOFTFAIR = "softfair"  # the programme's plan
    LOTTERY = "lottery"  # everybody in the draw has the same chance
    USUAL = "usual"  # nobody is on a list; people go on getting what they get without one


@dataclass(frozen=True)
class Design:
    """The design of a trial."""

    arms: tuple[Arm, ...]
    shares: tuple[float, ...]  # of the units; they sum to 1
    sites: str | None  # the column whose values are the units; None: people are the units
    values: tuple[str, ...]  # of that column, a unit each; empty: people are assigned
    columns: tuple[str, ...]  # a name for each column of X
    tries: int  # assignments that are drawn, of which the most balanced is taken

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> Design:
        """As it was stored in JSON."""
        values = {field.name: parts[field.name] for field in fields(cls)}
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists, "arms": tuple(Arm(name) for name in parts["arms"])})


@dataclass(frozen=True, eq=False, kw_only=True)
class Draft:
    """A trial without its luck."""

    software: str
    setting: int  # number of the settings with the seed from which its luck follows
    first: int  # its first and last round
    last: int
    design: Design
    power: dict[str, Any]  # what the trial can tell: see `power.Power`
    X: Floats  # [m, q] of the units, before the trial
    person: Ints  # [p] who is assigned, in the order of their number
    unit: Ints  # [p]

    @property
    def counts(self) -> Ints:
        """How many units each arm has [A]."""
        return units_of_arms(len(self.X), self.design.shares)

    def unit_names(self, names: Sequence[str]) -> list[str]:
        """The names from which the units' luck follows [m]; ``names`` are those of all people."""
        if self.design.sites is not None:
            return list(self.design.values)
        return [names[i] for i in self.person]


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial(Draft):
    """A trial, and who is in which arm."""

    id: int
    created: str
    luck: Luck
    key: str  # that follows from its luck, hexadecimal
    chosen: int  # the try that was taken
    arm: Ints  # [p] place in the design's arms

    def runs_in(self, round: int) -> bool:
        """Whether a round is one of the trial's."""
        return self.first <= round <= self.last

    def name_of(self, arm: int) -> Arm:
        """The arm at a place."""
        return self.design.arms[arm]

    @cached_property
    def unit_arms(self) -> Ints:
        """[m] the arm of every unit."""
        arms = np.zeros(len(self.X), np.int64)
        arms[self.unit] = self.arm
        return arms

    def arms_of(self, names: Sequence[str], sites: Sequence[str]) -> Ints:
        """The arm of everybody [n], also of people who came later.

        People who were assigned keep their arm, whichever site they move to. People who came later
        are in the arm of their site. If people are the units, or if the site was not assigned, the
        arm follows from the luck of the person's or the site's name.

        Parameters
        ----------
        names
            Names of all people [n].
        sites
            Each person's value of the column whose values are the units [n]; "": none.
        """
        arms = np.full(len(names), -1)
        arms[self.person] = self.arm
        later = np.flatnonzero(arms < 0)
        if not len(later):
            return arms
        luck_names = [sites[i] or names[i] for i in later.tolist()]
        known = dict(zip(self.design.values, self.unit_arms.tolist(), strict=False))
        share = numbers(self.key, luck_names)[:, 0] * NEWCOMERS
        ends = np.cumsum(self.design.shares)[:-1]
        by_luck = np.searchsorted(ends, share, side="right")
        arms[later] = [
            known.get(name, drawn) for name, drawn in zip(luck_names, by_luck, strict=True)
        ]
        return arms


def units_of_arms(m: int, shares: Sequence[float]) -> Ints:
    """How many of m units are in each arm: within 1 of the arm's share, and m in total."""
    ends = np.floor(m * np.cumsum([0.0, *shares]) + 0.5).astype(np.int64)
    ends[-1] = m
    return np.diff(ends)


def tries_of(counts: Ints) -> int:
    """How many assignments are drawn to choose from."""
    m = int(counts.sum())
    # log of m! / prod n_a!, the number of different assignments
    ways = math.lgamma(m + 1) - sum(math.lgamma(n + 1) for n in counts)
    few = math.exp(ways - math.log(LEAST_LEFT)) if ways < math.log(1e9) else math.inf
    return int(max(1, min(MOST_TRIES, MOST_SORTED // m, few)))


def spread_out(X: Floats) -> Floats:
    """Combinations of the columns of X [m, q] that are uncorrelated, of mean 0 and variance 1."""
    if not X.size:
        return np.zeros((len(X), 0))
    U, size, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    varies = size > ALIKE * max(size.max(), ALIKE) * len(X)
    return U[:, varies] * math.sqrt(len(X))


def imbalance(Z: Floats, order: Ints, counts: Ints) -> float:
    """The imbalance of the arms if units are put into them in an order."""
    if not Z.shape[1]:
        return 0.0
    sums = np.add.reduceat(Z[order], np.cumsum(counts) - counts, axis=0)
    return float(np.sum(sums**2 / counts[:, None]))


def assigned(key: str, units: Sequence[str], X: Floats, counts: Ints) -> tuple[Ints, int]:
    """The most balanced of many assignments that follow from a key.

    Parameters
    ----------
    key
        The key of the luck, hexadecimal.
    units
        Names [m] from which each unit's luck follows.
    X
        What is known of the units [m, q].
    counts
        How many units each arm has [A], at least one.

    Returns
    -------
    tuple of numpy.ndarray and int
        The arm of each unit [m], and the number of this assignment among those that were drawn.
    """
    luck = numbers(key, list(units))
    apart = _apart(luck, X, counts)
    chosen = int(np.argmin(apart))
    return _arms(luck, counts, chosen), chosen


def _apart(luck: NDArray[np.uint64], X: Floats, counts: Ints) -> Floats:
    """The imbalance of each of the tries."""
    Z = spread_out(X)
    orders = (np.argsort(numbered(luck, number)) for number in range(tries_of(counts)))
    return np.array([imbalance(Z, order, counts) for order in orders])


def _arms(luck: NDArray[np.uint64], counts: Ints, number: int) -> Ints:
    """The arm of each unit by one of the tries."""
    arms = np.empty(len(luck), np.int64)
    arms[np.argsort(numbered(luck, number))] = np.repeat(np.arange(len(counts)), counts)
    return arms


def replays(trial: Trial, names: Sequence[str]) -> bool:
    """Whether the key and the stored numbers X of the units give the stored arms.

    If two tries are equally balanced up to rounding, either may have been taken.
    """
    luck = numbers(trial.key, trial.unit_names(names))
    apart = _apart(luck, trial.X, trial.counts)
    if trial.design.tries != len(apart) or not 0 <= trial.chosen < len(apart):
        return False
    arms = _arms(luck, trial.counts, trial.chosen)
    balanced = apart[trial.chosen] <= apart.min() * (1 + ALIKE)
    return bool(balanced) and np.array_equal(arms[trial.unit], trial.arm)


def frozen(draft: Draft, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The parts of a draft that are committed: for JSON, and arrays; ``names`` of all people."""
    values = {field.name: getattr(draft, field.name) for field in fields(Draft)}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    parts = {name: value for name, value in values.items() if name not in arrays}
    people = names_digest(names[i] for i in draft.person.tolist())
    parts |= {"design": asdict(draft.design), "people": people}
    return parts, {**arrays, "X": draft.X.astype(np.float32)}


def draft_of(commitment: Commitment) -> Draft:
    """The trial that is frozen in a commitment."""
    parts, arrays = commitment.parts()[OF_TRIAL], commitment.arrays()
    whole = {**parts, **arrays, "X": arrays["X"].astype(np.float64)}
    whole["design"] = Design.from_parts(parts["design"])
    return Draft(**{field.name: whole[field.name] for field in fields(Draft)})


def is_frozen_in(commitment: Commitment, draft: Draft, names: Sequence[str]) -> bool:
    """Whether a commitment is of this trial; ``names`` are of all people."""
    now, arrays = frozen(draft, names)
    before, stored = commitment.parts()[OF_TRIAL], commitment.arrays()
    return all(before[name] == value for name, value in read_json(json.dumps(now)).items()) and all(
        np.array_equal(stored[name], values) for name, values in arrays.items()
    )


def store_trial(connection: Connection, trial: Trial) -> int:
    """Write a trial and its assignment, and return its number."""
    content = io.BytesIO()
    np.savez_compressed(content, X=trial.X.astype(np.float32))
    design = {**asdict(trial.design), "chosen": trial.chosen, "luck": trial.luck.to_json()}
    row = schema.trial.insert().values(
        created=trial.created,
        software=trial.software,
        setting=trial.setting,
        first=trial.first,
        last=trial.last,
        seed=trial.key,
        design=json.dumps(design, sort_keys=True),
        power=json.dumps(trial.power, sort_keys=True),
        content=content.getvalue(),
    )
    key = connection.execute(row).inserted_primary_key
    assert key is not None
    number = int(key[0])
    columns = {"person": trial.person, "unit": trial.unit, "arm": trial.arm}
    whole = {"trial": np.full(len(trial.person), number), **columns}
    append(connection, schema.assignment, whole, "trial")
    store.sign(connection, schema.trial, number)
    return number


def load_trial(connection: Connection) -> Trial | None:
    """The trial of a programme, if it has one."""
    row = connection.execute(sa.select(schema.trial).order_by(schema.trial.c.id).limit(1)).first()
    if row is None:
        return None
    schema.refuse_types(schema.trial, row)
    with np.load(io.BytesIO(row.content)) as stored:
        X = stored["X"].astype(np.float64)
    a = schema.assignment
    query = sa.select(a.c.person, a.c.unit, a.c.arm).where(a.c.trial == row.id)
    table = fetch(connection, query, np.int64)
    person, unit, arm = table[np.argsort(table[:, 0])].T
    luck, design = luck_of_trial(row.design), read_json(row.design)
    return Trial(
        id=row.id,
        created=row.created,
        software=row.software,
        setting=row.setting,
        first=row.first,
        last=row.last,
        luck=luck,
        key=row.seed,
        chosen=design["chosen"],
        design=Design.from_parts(design),
        power=read_json(row.power),
        X=X,
        person=person,
        unit=unit,
        arm=arm,
    )
