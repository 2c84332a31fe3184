"""Who takes part in the draw of a round, at which site, and in which state they are.

If capacity goes by a group column, each value of the column that has a capacity is a site, with a
cohort and a draw of its own; otherwise there is one site without a name. During a trial every site
is divided into one site for each arm, with the arm's part of its capacity. The usual arm gets no
site: its part of the capacity is left for what is done without a list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..for_json import read_json
from .assignment import Arm, Trial
from .bulk import UNKNOWN
from .models import Model
from .snapshot import Snapshot

__all__ = [
    "WAITING",
    "Eligibility",
    "Site",
    "Status",
    "beliefs",
    "eligibility_of",
    "sites_of",
    "sites_to_json",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TURN = (5**0.5 - 1) / 2  # the golden ratio: its multiples fill the unit interval evenly
FORGOTTEN = 500  # rounds after which the last state seen says nothing about the state now


class Status(IntEnum):
    """Whether a person takes part in the draw, else why not."""

    IN_DRAW = 0
    NOT_YET = 1
    LEFT = 2
    OPTED_OUT = 3
    COOLING = 4
    RESERVED = 5
    NO_SITE = 6
    ABSENT = 7
    UNNAMED = 8
    USUAL = 9


# The statuses of people in the programme, who are the cohort that is planned for.
WAITING = (Status.IN_DRAW, Status.COOLING, Status.RESERVED, Status.ABSENT, Status.USUAL)


class Site(NamedTuple):
    """A value of the column that capacity goes by, and how many people a round it can help."""

    name: str  # "" if capacity does not go by group; in a trial the arm is part of the name
    capacity: int
    arm: str = ""  # the arm of a trial; "": there is no trial

    def c(self, c: float) -> float:
        """The multiplier of the site's draw, given the multiplier c of the plan."""
        return 0.0 if self.arm == Arm.LOTTERY else c


def sites_to_json(sites: Sequence[Site]) -> str:
    """Sites as they are stored with a plan: [[name, capacity], ...], with the arm in a trial."""
    return json.dumps([one if one.arm else one[:2] for one in sites])


def sites_of(text: str) -> list[Site]:
    """The inverse of `sites_to_json`."""
    return [Site(*one) for one in read_json(text)]


@dataclass(frozen=True, eq=False)
class Eligibility:
    """Who takes part in the draws of a round."""

    sites: list[Site]  # sorted by name
    site: Ints  # [n] place in the sites; -1: none
    status: Ints  # [n] see `Status`
    usual: list[int] = field(default_factory=list)  # capacities of the sites in most rounds

    def waiting(self, j: int) -> Ints:
        """Numbers of the people who are in the programme at site j."""
        return np.flatnonzero(np.isin(self.status, WAITING) & (self.site == j))

    def in_draw(self, j: int) -> Ints:
        """Numbers of the people in the draw of site j."""
        return np.flatnonzero((self.status == Status.IN_DRAW) & (self.site == j))


def eligibility_of(now: Snapshot, at: int) -> Eligibility:
    """Who takes part in the draws of a round.

    Parameters
    ----------
    now
        What is known.
    at
        The round.

    Raises
    ------
    InvalidInput
        If a site with a capacity has no people, or if nobody is in the programme.
    """
    sites, site = _sites(now)
    special = [Site(one.name, now.settings.capacity_in(at, one.capacity)) for one in sites]
    usual = [one.capacity for one in sites]
    left_alone = np.zeros(now.people.n, bool)
    if now.trial is not None and now.trial.runs_in(at):
        cells = _Cells.of(now, now.trial, site, len(sites))
        usual = [one.capacity for one in cells.sites(sites, 0.5)]
        turns = np.array([TURN * (at + j) % 1 for j in range(len(sites))])
        special, left_alone, site = cells.sites(special, turns), cells.left_alone, cells.place
    eligibility = Eligibility(special, site, _statuses(now, at, site, left_alone), usual)
    if not any(len(eligibility.waiting(j)) for j in range(len(eligibility.sites))):
        raise InvalidInput(
            f"nobody is in the programme in round {at}; import people, or see who left or opted out"
        )
    return eligibility


def _sites(now: Snapshot) -> tuple[list[Site], Ints]:
    """The sites, and the place of each person's site among them [n], -1 for none."""
    settings, people = now.settings, now.people
    if settings.by is None or isinstance(settings.capacity, int) or settings.capacity is None:
        one_in_ten = max(1, round((people.n - len(people.unnamed)) / 10))
        capacity = settings.capacity if isinstance(settings.capacity, int) else one_in_ten
        return [Site("", capacity)], np.zeros(people.n, np.int64)
    values, codes = people.group(settings.by)
    sites = [Site(name, settings.capacity[name]) for name in sorted(settings.capacity)]
    if unknown := [site.name for site in sites if site.name not in values]:
        raise InvalidInput(
            f"nobody has {settings.by} {unknown[0]!r}, which has a capacity; "
            f"known: {', '.join(filter(None, values))}"
        )
    place = {site.name: j for j, site in enumerate(sites)}
    return sites, np.array([place.get(value, -1) for value in values])[codes]


@dataclass(frozen=True, eq=False)
class _Cells:
    """The sites of a programme, each divided among the arms of a trial."""

    arms: tuple[Arm, ...]
    people: Ints  # [sites, arms] how many were assigned
    shares: tuple[float, ...]  # of the arms, for a site at which nobody was assigned
    place: Ints  # [n] place of everybody's site and arm among the divided sites; -1: none
    left_alone: NDArray[np.bool_]  # [n] whether each is in the usual arm

    @classmethod
    def of(cls, now: Snapshot, trial: Trial, site: Ints, sites: int) -> _Cells:
        """From the site of everybody [n], below 0 for none."""
        arms, arm = trial.design.arms, now.arms()
        A = len(arms)
        there = trial.person[site[trial.person] >= 0]
        people = np.bincount(site[there] * A + arm[there], minlength=sites * A).reshape(sites, A)
        drawn = [a for a in range(A) if arms[a] is not Arm.USUAL]
        rank = np.full(A, -1)
        rank[drawn] = np.arange(len(drawn))
        left_alone = rank[arm] < 0
        place = np.where(left_alone | (site < 0), -1, site * len(drawn) + rank[arm])
        return cls(arms, people, trial.design.shares, place, left_alone)

    def sites(self, sites: list[Site], turns: Floats | float) -> list[Site]:
        """The divided sites; an arm's part of a capacity is its share of the people there.

        A part need not be a whole number. It is rounded by turns between 0 and 1 [sites] that
        differ from round to round, so that every arm has its part on average, and the arms of a
        site never have more than its capacity.
        """
        places = []
        for one, people, turn in zip(
            sites, self.people, np.broadcast_to(turns, len(sites)), strict=True
        ):
            weights = people if people.sum() else np.array(self.shares)
            ends = np.cumsum([0, *weights]) * one.capacity / weights.sum()
            parts = np.diff(np.floor(ends + turn)).astype(np.int64).tolist()
            places += [
                Site(f"{one.name} / {arm}" if one.name else str(arm), part, str(arm))
                for arm, part in zip(self.arms, parts, strict=True)
                if arm is not Arm.USUAL
            ]
        return places


def _statuses(now: Snapshot, at: int, site: Ints, left_alone: NDArray[np.bool_]) -> Ints:
    """Each person's status in a round [n]: in the draw, or the first reason why not."""
    settings, people, history = now.settings, now.people, now.history
    recently = history.between(at - settings.cooldown, at - 1)
    cooling = np.zeros(people.n, bool)
    cooling[: history.n] = (recently.contacted == 1).any(axis=0)
    reasons = [  # in the order in which they apply
        (np.isin(np.arange(people.n), people.unnamed), Status.UNNAMED),
        (people.opted_out == 1, Status.OPTED_OUT),
        ((people.departed != UNKNOWN) & (people.departed <= at), Status.LEFT),
        (people.enrolled > at, Status.NOT_YET),
        ((site < 0) & ~left_alone, Status.NO_SITE),
        (people.reserved == at, Status.RESERVED),
        (left_alone, Status.USUAL),
        (people.absent(at), Status.ABSENT),
        (cooling, Status.COOLING),
    ]
    return np.select(
        [mask for mask, _ in reasons], [int(code) for _, code in reasons], int(Status.IN_DRAW)
    )


def beliefs(now: Snapshot, model: Model, at: int) -> Floats:
    """Distribution of everybody's context (their state, if without memory) at a round's start.

    A person seen at the start of the round is in that state. For a person seen earlier, the model
    moves the last state seen forward round by round, with the contacts that are known (an unknown
    one counts as none); if that was more than FORGOTTEN rounds ago, only the last FORGOTTEN moves
    are made. A person never seen has the average of the people who were seen. `Model.before` gives
    the distribution of what came before the last state seen.

    Parameters
    ----------
    now
        What is known.
    model
        Everybody's transition probabilities.
    at
        The round.

    Returns
    -------
    numpy.ndarray
        [n, C], rows that sum to 1.
    """
    history, n, contexts = now.history, now.people.n, model.contexts
    last, state = history.latest_state(at, n)
    never = last == UNKNOWN
    last[never], state[never] = at + 1, 0
    everybody = np.arange(n)
    belief = np.zeros((n, contexts.C))
    before = model.before(everybody, state, history.just_before(last))
    belief[everybody[:, None], np.arange(contexts.B) * contexts.S + state[:, None]] = before
    for r in range(max(int(last.min()), at - FORGOTTEN), at):
        who = np.flatnonzero(last <= r)
        contacted = (history.row(r, n)[1][who] == 1).astype(np.int64)
        belief[who] = contexts.step(belief[who], model.P[who, contacted], contacted)
    belief[never] = belief[~never].mean(axis=0) if not never.all() else 1.0
    belief /= belief.sum(axis=1, keepdims=True)
    return belief
