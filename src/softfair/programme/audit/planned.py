"""One planned round: its plan in force, and what was recorded of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..eligibility import WAITING, Site, Status
from ..plans.kept import Kept
from .design import DesignLaw, Draw

__all__ = ["Planned", "Rounds", "by_person", "windows_of"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Planned:
    """One planned round: its plan in force and what was recorded of it.

    Arrays [m], a row for each person of the plan; below 0: not known.
    """

    round: int
    version: int
    model: int
    c: float
    sites: list[Site]
    person: Ints
    status: Ints
    site: Ints
    score: Floats  # gain
    bonus: Floats  # what evenness adds to it
    probability: Floats
    listed: Ints
    state: Ints  # at the start of the round
    contacted: Ints  # during it
    after: Ints  # state at the start of the next
    # 1: called from the reserve, 2: by an officer's decision; empty: nobody was
    called: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    kept: Kept | None = None  # of a promise; None: there was none, or it cannot be read
    # [m] of the round before; empty: not known of anybody
    state_before: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    contacted_before: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        for name, nothing in (("called", 0), ("state_before", -1), ("contacted_before", -1)):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.full(len(self.person), nothing, np.int64))

    @cached_property
    def drawn_by(self) -> Floats:
        """What the chances follow: gain, and what evenness adds to it."""
        return self.score + self.bonus

    @property
    def due(self) -> Ints:
        """Of how many lists, this one first, each person had to be on one; 0: not promised."""
        promised = self.kept is not None and len(self.kept.due) == len(self.person)
        return self.kept.due if self.kept and promised else np.zeros(len(self.person), np.int64)

    @cached_property
    def in_draw(self) -> Bools:
        """Whether each person took part in the draw."""
        return np.equal(self.status, int(Status.IN_DRAW))

    @cached_property
    def in_programme(self) -> Bools:
        """Whether each person was in the programme, in the draw or not."""
        return np.isin(self.status, WAITING)

    @property
    def reserved(self) -> Bools:
        """Whether each person's contact was arranged beforehand."""
        return np.equal(self.status, int(Status.RESERVED))

    @property
    def opted_out(self) -> Bools:
        """Whether each person had asked not to be contacted."""
        return np.equal(self.status, int(Status.OPTED_OUT))

    @property
    def capacity(self) -> int:
        """Places on the lists of all sites."""
        return sum(one.capacity for one in self.sites)

    def site_draws(self) -> Iterator[tuple[Ints, int, float]]:
        """Rows of each site's draw, how many of them are listed, and c there."""
        for j, one in enumerate(self.sites):
            rows = np.flatnonzero(self.in_draw & (self.site == j))
            if len(rows):
                yield rows, min(one.capacity, len(rows)), one.c(self.c)

    @cached_property
    def laws(self) -> list[DesignLaw]:
        """The law of each site's draw, in the order of `site_draws`."""
        return [DesignLaw(self.probability[rows]) for rows, *_ in self.site_draws()]

    @cached_property
    def complete(self) -> Ints:
        """Rows whose state before, contact and state after are all known."""
        return np.flatnonzero((self.state >= 0) & (self.contacted >= 0) & (self.after >= 0))

    def draws(self, label: Ints) -> Iterator[Draw]:
        """The draws of all sites.

        Parameters
        ----------
        label : ndarray, shape (m,)
            The set that each person is counted in; below 0: none.

        Yields
        ------
        Draw
            One site.
        """
        for (rows, *_), law in zip(self.site_draws(), self.laws, strict=True):
            yield Draw(law, self.listed[rows], label[rows])


def by_person(n: int, one: Planned, counted: Bools, value: Any) -> Floats:
    """For each of n people, a value [m] of the rows of a round; 0 for people not counted."""
    return np.bincount(one.person[counted], value[counted], n).astype(np.float64, copy=False)


class Rounds:
    """Which rounds were planned, and what is known of each."""

    def __init__(self) -> None:
        self.all: list[int] = []
        self.followed: list[int] = []  # rounds after which the state of somebody is known
        self.told: list[int] = []  # rounds with a known state, contact and state after of somebody
        self.between = False  # whether c of some plan is neither 0 nor infinite
        self.since: int | None = None  # first round whose list counts for a promised wait

    def add(self, one: Planned) -> None:
        """Count a round; rounds are added in their order."""
        self.all.append(one.round)
        if (one.after >= 0).any():
            self.followed.append(one.round)
        if len(one.complete):
            self.told.append(one.round)
        self.between |= 0 < one.c < np.inf
        if one.kept is not None and one.kept.promise.wait:
            since = one.kept.promise.since
            self.since = since if self.since is None else min(self.since, since)


def windows_of(
    rounds: Sequence[int], followed: Collection[int], horizon: int
) -> list[tuple[int, ...]]:
    """Windows of several planned rounds, one after the other, that do not overlap.

    Parameters
    ----------
    rounds : sequence of int
        The planned rounds, ascending.
    followed : collection of int
        The rounds with a known outcome; every round of a window must be one of them.
    horizon : int
        Rounds of a window.

    Returns
    -------
    list of tuple of int
        The windows in their order; as many as fit, from the first round on.
    """
    windows, first = [], 0
    while first + horizon <= len(rounds):
        window = tuple(rounds[first : first + horizon])
        if window[-1] - window[0] == horizon - 1 and all(at in followed for at in window):
            windows.append(window)
            first += horizon
        else:
            first += 1
    return windows
