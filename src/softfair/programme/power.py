"""What is known of the units of a trial before it, and what the trial can tell: its power.

The outcome of a person is the mean reward, s / (S - 1), of the states seen after the rounds of the
trial (with two states the share of good rounds); people who are never seen again have none.

The power is computed from the programme's own history: its last rounds are taken as if they had
been the trial, with what was known before them. Arms are drawn many times, and each time the effect
is estimated as the audit will (`effects`). Nothing was done differently between these arms, so the
standard error is that of a trial in which people vary as they did then, are seen as often, and an
effect is the same for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..estimate.columns import design_of
from ..progress import track
from .assignment import Arm, Draft
from .effects import LEVEL, Means
from .snapshot import History, People, Snapshot

__all__ = ["Least", "Power", "Units", "known_of", "outcomes", "pairs_of", "power_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LIKELY = 0.8  # the probability with which the least effect is detected
REPEATS = 100  # random assignments from which the power is computed


class Units(NamedTuple):
    """The people and the units that are assigned."""

    person: Ints  # [p] numbers of the people
    unit: Ints  # [p]
    names: list[str]  # [m] of the units
    sites: str | None  # the column whose values they are; None: people

    def mean(self, values: Floats) -> tuple[Floats, Floats]:
        """Mean over each unit's people with a value [m], and how many people have one [m]."""
        known = ~np.isnan(values)
        many = np.bincount(self.unit[known], minlength=len(self.names)).astype(np.float64)
        sums = np.bincount(self.unit[known], values[known], len(self.names))
        return np.divide(sums, many, out=np.full(len(many), np.nan), where=many > 0), many


@dataclass(frozen=True)
class Least:
    """The least effect of one arm against another that is detected with a probability of LIKELY."""

    arm: str
    against: str
    effect: float


@dataclass(frozen=True)
class Power:
    """What a trial can tell, by the history."""

    rounds: int  # of the history that were taken as a trial
    people: int  # whose outcome in them is known
    numbers: int  # how many numbers known before the effect is adjusted for
    least: tuple[Least, ...]

    @classmethod
    def from_json(cls, parts: dict[str, Any]) -> Power:
        """As it is stored with a trial."""
        return cls(**{**parts, "least": tuple(Least(**one) for one in parts["least"])})

    def sentences(self, trial: Draft) -> list[str]:
        """The power in words, as it was told before the trial."""
        least = ", ".join(
            f"{one.arm} against {one.against} {100 * one.effect:.1f}" for one in self.least
        )
        length = trial.last - trial.first + 1
        other = f" The trial has {length} rounds." * (length != self.rounds)
        return [
            f"Power: an effect of so many points of a hundred in the mean outcome is told with a "
            f"chance of {LIKELY:.0%}: {least}. Where there is none at all, one is told with a "
            f"chance of {1 - LEVEL:.0%}.",
            f"That is by simulation: the last {self.rounds} rounds of the history, taken as a "
            f"trial of {self.people} people, arms drawn {REPEATS} times, effects adjusted for "
            f"{self.numbers} numbers known before. It assumes that people vary as they did then, "
            f"are seen as often, and that an effect is alike for all.{other}",
        ]


def pairs_of(arms: Sequence[Arm]) -> list[tuple[int, int]]:
    """The comparisons of a trial: places of two arms, the one that does more first."""
    order = list(Arm)
    ranked = sorted(range(len(arms)), key=lambda a: order.index(arms[a]))
    return list(combinations(ranked, 2))


def outcomes(history: History, first: int, last: int, n: int, S: int) -> Floats:
    """Mean reward of the states seen after the rounds from first to last [n]; nan: none seen."""
    return _mean_reward(history, first + 1, last + 1, n, S)


def _mean_reward(history: History, first: int, last: int, n: int, S: int) -> Floats:
    many, sums = np.zeros(n, np.int64), np.zeros(n)
    for state in history.between(first, last).state:
        seen = np.flatnonzero(state >= 0)
        many[seen] += 1
        sums[seen] += state[seen] / (S - 1)
    mean: Floats = np.divide(sums, many, out=np.full(n, np.nan), where=many > 0)
    return mean


def known_of(
    now: Snapshot, at: int, units: Units, balance: Sequence[str]
) -> tuple[Floats, tuple[str, ...]]:
    """What is known of units at the start of a round [m, q], and what each number is about.

    The numbers are the mean reward so far, the last state seen, the columns asked for and, if the
    units are sites, how many people each has; in single precision, as they are stored.
    """
    people, history, S = now.people, now.history, now.settings.S
    asked = _asked(people, units.person, balance)
    _, state = history.latest_state(at, people.n)
    latest = np.where(state >= 0, state / (S - 1), np.nan)
    so_far = _mean_reward(history, 0, at, people.n, S)
    seen = {"mean outcome before": so_far[units.person], "last state": latest[units.person]}
    made = design_of({**seen, **asked}, len(units.person))
    columns = [
        f"{name} {value}".strip() for name, value in zip(made.column, made.value, strict=True)
    ]
    if units.sites is None:
        return made.X.astype(np.float32).astype(np.float64), tuple(columns)
    size = np.bincount(units.unit).astype(np.float64)
    means = [units.mean(x)[0] for x in made.X.T]
    X = np.column_stack([*means, (size - size.mean()) / max(size.std(), 1.0)])
    return X.astype(np.float32).astype(np.float64), (*columns, "people")


def _asked(people: People, person: Ints, balance: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The columns to be balanced, with the values of the people who are assigned.

    Raises
    ------
    InvalidInput
        If there is no such column, or it is of no use: it names each person, or is the same for
        all.
    """
    columns: dict[str, NDArray[Any]] = {}
    for name in balance:
        values, code = people.group(name)
        numbers = people.numbers(name)
        whole = np.array(values, dtype=object)[code] if numbers is None else numbers
        columns[name] = whole[person]
    if left_out := design_of(columns, len(person)).left_out:
        name, _, reason = left_out[0].partition(" is not used: ")
        raise InvalidInput(f"arms cannot be balanced by {name}: {reason}; leave it out")
    return columns


def power_of(
    now: Snapshot,
    first: int,
    last: int,
    units: Units,
    arms: Sequence[Arm],
    counts: Ints,
    balance: Sequence[str],
) -> Power:
    """What a trial of such arms can tell, by the history."""
    history = now.history
    past = history.between(0, first)
    rounds = past.rounds[(past.state >= 0).any(axis=1)]
    if len(rounds) < 2:
        raise InvalidInput(
            f"states are known of {len(rounds)} rounds, so the power of a trial cannot be told; "
            "import a history of at least 2 rounds first (softfair import history FILE)"
        )
    length = min(last - first + 1, (len(rounds) + 1) // 2)
    start = int(rounds[-length - 1])  # what came after this round is taken as the outcome
    whole = _mean_reward(history, start + 1, first, now.people.n, now.settings.S)
    y, weight = units.mean(whole[units.person])
    X, _ = known_of(now, start, units, balance)
    seen = np.flatnonzero(weight > 0)
    rng, pairs = np.random.default_rng(0), pairs_of(arms)
    level, smallest, numbers = 1 - (1 - LEVEL) / len(pairs), [], []
    labels = np.repeat(np.arange(len(arms)), counts)
    for _ in track(range(REPEATS), "power"):
        arm = rng.permutation(labels)[seen]
        means = Means.of(y[seen], X[seen], arm, len(arms), weight[seen])
        numbers.append(means.numbers)
        smallest.append([means.contrast(*pair).detectable(LIKELY, level) for pair in pairs])
    effects = (
        np.nanmean(smallest, axis=0) if np.isfinite(smallest).any() else np.full(len(pairs), np.nan)
    )
    if not np.isfinite(effects).all():
        raise InvalidInput(
            f"{int(weight.sum())} people were seen in the last rounds of the history, too few to "
            "tell the power of a trial with these arms; give fewer arms, or wait for more history"
        )
    return Power(
        rounds=length,
        people=int(weight.sum()),
        numbers=int(np.median(numbers)),
        least=tuple(
            Least(str(arms[a]), str(arms[b]), float(effect))
            for (a, b), effect in zip(pairs, effects, strict=True)
        ),
    )
