"""What fairness costs for the people of a programme, for any multiplier c and weight of evenness.

Everything is expected over the rounds that are left, if the estimates were the truth: the people
are followed through the horizon with the chances of the plan (see `programme.outlook`). With y_t(s)
the chance to be in state s and not to have been contacted before round t,

    y_{t+1}(s') = sum_s y_t(s) (1 - pi_t(s)) P[0](s, s'),

and sum_s y_T(s) is the chance never to be contacted.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import NotConverged, SoftFairError
from ..metrics import action_entropy
from ..policies import Whittle
from ..programme.commands.shared import software
from ..programme.outlook import Prospects, SiteCohort, choose_c, weigh
from ..programme.plans import to_be_planned
from ..programme.settings import Evenness, Settings, Target
from ..programme.store import Store, c_to_json
from ..simulation import simulate
from ..solvers import upper_bound

__all__ = ["EVENEST", "POSITIONS", "Point", "Tradeoff"]

Floats = NDArray[np.float64]

POSITIONS = 100  # of the slider: 0 is a lottery, the last those who gain most
DECADES = 4  # of c in between, up to the hardest multiplier
CURVE = (0, *range(2, 100, 7), POSITIONS)
EVENEST = 24  # the last position of the slider of evenness; 0 is none
OCTAVES = 6  # of its weight mu below and above the number of contacts
FEW = 100  # values of a group column that a picture has room for
RUNS = 20  # of the Whittle index, whose selections are averaged
BARS = 20


@dataclass(frozen=True)
class Point:
    """What a plan with multiplier c is expected to bring."""

    position: int
    even: int  # position of the slider of evenness
    c: float
    mu: float  # weight of evenness
    benefit: float  # share of what the most effective plan gains
    gained: float  # good rounds more than without contacts
    entropy: float  # of the expected contacts
    never: float  # share of the people expected never to be contacted
    wait: float  # rounds between two contacts of who waits longest

    def to_json(self) -> dict[str, Any]:
        """As it is sent to a browser."""
        endless = None if math.isinf(self.wait) else self.wait
        return {**vars(self), "c": c_to_json(self.c), "wait": endless}


class Tradeoff:
    """What fairness costs from the next round on.

    Parameters
    ----------
    database
        The programme; nothing is written.

    Notes
    -----
    What does not depend on the choice is worked out once, here.

    Raises
    ------
    InvalidInput
        If nobody is in the programme, or it has ended.
    """

    def __init__(self, database: Store) -> None:
        draft = to_be_planned(database.rehearsal(), software())
        self.settings: Settings = draft.now.settings
        self.round = draft.now.next_round()
        self.nothing_learnt = draft.now.nothing_learnt()
        self.people = draft.now.people
        self._cohorts = draft.cohorts
        self._lock = threading.Lock()  # a cohort remembers its last solution
        self._prospects = Prospects(self._cohorts, self.people)
        self._who = np.concatenate([cohort.who for cohort in self._cohorts])
        self.columns = [name for name in self.people.columns() if self._has_few(name)]
        self.gain = weigh(self._cohorts, math.inf, draft.model, self.settings.level, draft.reach)[
            0
        ]  # of the most effective plan, by the posterior
        self.whittle = self._whittle()  # [n] None: there is none
        self.bound = self._bound()  # as a share of what the most effective plan gains
        self.curve = [self.at(position)[0] for position in CURVE]  # over c, without evenness

    def _has_few(self, column: str) -> bool:
        values, codes = self.people.group(column)
        return len(np.unique(codes[self._who])) <= FEW and len(values) > 0

    @property
    def horizon(self) -> int:
        """Rounds that are left."""
        return self._cohorts[0].horizon

    def c_at(self, position: int) -> float:
        """The multiplier at a position of the slider."""
        if position <= 0:
            return 0.0
        if position >= POSITIONS:
            return math.inf
        exponent = DECADES * ((position - 1) / (POSITIONS - 2) - 1)
        return float(self._prospects.hardest * 10**exponent)

    def position_of(self, c: float) -> int:
        """The position of the slider nearest to a multiplier."""
        if c <= 0 or math.isinf(c):
            return 0 if c <= 0 else POSITIONS
        share = 1 + math.log10(c / self._prospects.hardest) / DECADES
        return min(max(1 + round(share * (POSITIONS - 2)), 1), POSITIONS - 1)

    def c_for(self, target: Target) -> float:
        """The multiplier that meets a target.

        Raises
        ------
        Infeasible
            If none does.
        """
        with self._lock:
            wanted = replace(self.settings, target=target)
            return choose_c(self._cohorts, wanted, self.people).c

    def mu_at(self, even: int) -> float:
        """The weight of evenness at a position of its slider."""
        if even <= 0:
            return 0.0
        octaves = OCTAVES * (2 * (even - 1) / (EVENEST - 1) - 1)
        return float(self._contacts * 2**octaves)

    def mu_for(self, position: int, wanted: Evenness) -> int:
        """The first position of the slider of evenness that reaches a goal, at a position of c.

        Raises
        ------
        Infeasible
            If none does.
        """
        with self._lock:
            c = self.c_at(position)
            mu = max(cohort.solved(c, wanted).mu for cohort in self._cohorts)
        return next((even for even in range(EVENEST) if self.mu_at(even) >= mu), EVENEST)

    @property
    def _contacts(self) -> int:
        """Of everybody, over the rounds that are left."""
        return self.horizon * sum(cohort.k for cohort in self._cohorts)

    def at(self, position: int, even: int = 0) -> tuple[Point, Floats]:
        """What is expected at positions of the sliders, and everybody's contacts [n]."""
        c, mu = self.c_at(position), self.mu_at(even)
        evenness = Evenness("mu", mu)
        with self._lock:
            followed = [cohort.follow(c, evenness) for cohort in self._cohorts]
            outlook = self._prospects.judge(c, followed)
            contacts = np.concatenate([one.contacts for one in followed])
            never = np.concatenate([_never(cohort, c, evenness) for cohort in self._cohorts])
        return (
            Point(
                position,
                even,
                c,
                mu,
                outlook.benefit,
                outlook.gained,
                float(action_entropy(np.maximum(contacts, 0))),
                float(never.mean()),
                outlook.wait,
            ),
            contacts,
        )

    def _bound(self) -> float:
        best = without = 0.0
        for cohort in self._cohorts:
            best += upper_bound(cohort.cohort, cohort.k, cohort.horizon, 1.0)
            without += cohort.follow(None).reward
        most = self._prospects.most_effective_gained
        return (best - without) / most if most > 0 else 1.0

    def _whittle(self) -> Floats | None:
        """Everybody's mean number of contacts by the Whittle index [n]; None: there is none."""
        parts = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConverged)
                for one in self._cohorts:
                    fitted = Whittle("finite").fit(one.cohort, one.k, one.horizon)
                    parts.append(simulate(fitted, runs=RUNS).counts.mean(axis=0))
        except SoftFairError:  # people of more than two states may have none
            return None
        return np.concatenate(parts)

    def histograms(self, contacts: Floats) -> dict[str, Any]:
        """People by expected contacts, with this plan and by the Whittle index."""
        others = self.whittle
        most = max(float(contacts.max()), 0.0 if others is None else float(others.max()), 1.0)
        edges = np.linspace(0, most, BARS + 1)
        return {
            "from": edges[:-1].round(2).tolist(),
            "plan": np.histogram(contacts, edges)[0].tolist(),
            "whittle": None if others is None else np.histogram(others, edges)[0].tolist(),
        }

    def rates(self, contacts: Floats, column: str) -> list[tuple[str, int, float]]:
        """By value of a group column: people, and expected contacts of each a round."""
        values, codes = self.people.group(column)
        theirs = codes[self._who]
        sizes = np.bincount(theirs, minlength=len(values))
        sums = np.bincount(theirs, contacts, len(values)) / self.horizon
        return [
            (value or "(none given)", int(size), float(total / size))
            for value, size, total in zip(values, sizes, sums, strict=True)
            if size
        ]

    def sentences(self, point: Point) -> Iterator[str]:
        """What the choice costs."""
        if self.nothing_learnt is not None:
            yield f"Nothing can be learnt yet: {self.nothing_learnt}. What follows means nothing."
        elif self.gain is not None and not self.gain.told:
            yield (
                "No effect of contacts can be told from this history yet, so neither can what "
                "fairness costs; what follows would hold if the estimates were the truth."
            )
        most = self._prospects.most_effective_gained
        cost = most - point.gained
        by = f" and mu = {point.mu:.3g}" if point.mu else ""
        yield (
            f"With c = {point.c:.3g}{by} the plan is expected to keep {point.benefit:.1%} of what "
            f"the most effective plan gains: fairness costs {1 - point.benefit:.1%}, or {cost:.1f} "
            f"good rounds over the {self.horizon} rounds left; {point.never:.1%} of the people "
            f"are expected never to be contacted, against {self.curve[-1].never:.1%}."
        )


def _never(cohort: SiteCohort, c: float, evenness: Evenness) -> Floats:
    """Everybody's chance never to be contacted [n]."""
    never = np.empty(cohort.cohort.n)
    for part, chance in cohort.chances(c, evenness):
        some = cohort.cohort.subset(part)
        y = some.start.copy()  # [m, S]
        for pi in chance:  # [m, S]
            y = np.einsum("is,ist->it", y * (1 - pi), some.P[:, 0])
        never[part] = y.sum(axis=1)
    return never
