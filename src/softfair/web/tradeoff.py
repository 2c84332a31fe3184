"""What fairness costs for the people of a programme: for any c, weight of evenness and promise.

Figures are expectations over the rounds that are left, as if the estimates were the truth: the
people are followed through the horizon with the chances of the plan (see `programme.outlook`). With
y_t(s) the chance of being in state s without a contact before round t,

    y_{t+1}(s') = sum_s y_t(s) (1 - pi_t(s)) P[0](s, s'),

and sum_s y_T(s) is the chance of never being contacted. With a promised wait, s is a state and a
number of lists left.

Where evenness has a weight, budgets and rates are met up to one part in 10,000 (`outlook.ROUGH`).
"""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import Infeasible, NotConverged, SoftFairError
from ..for_json import for_json
from ..metrics import action_entropy
from ..policies import Whittle
from ..programme.aims import Evenness, Target
from ..programme.commands.shared import software
from ..programme.outlook import ROUNDING, Prospects, SiteCohort, choose_c, weigh
from ..programme.plans import promising, to_be_planned
from ..programme.promises import NO_PROMISE, Promise
from ..programme.settings import Settings
from ..programme.store import Store
from ..progress import track
from ..simulation import simulate
from ..solvers import upper_bound
from ..solvers.evenhanded import BonusValues
from ..solvers.realised import Goal, run_figures
from ..solvers.values import PriceValues
from .anchors import Anchors

__all__ = ["EVENEST", "POSITIONS", "Place", "Point", "Tradeoff"]

Floats = NDArray[np.float64]

POSITIONS = 100  # last position of the slider over c: the people who gain most; 0 is a lottery
DECADES = 4  # range of c in between, up to the hardest multiplier
CURVE: tuple[int, ...] = (0, *range(2, 100, 7), POSITIONS)
EVENEST = 24  # the last position of the slider of evenness; 0 is none
OCTAVES = 6  # range of its weight mu below, and above, the number of contacts over the horizon
FEW = 100  # most values of a group column that a picture has room for
RUNS = 20  # simulated runs of the Whittle index that are averaged
BARS = 20
KEPT = 64  # places whose figures are kept
ARM_STEPS = 300_000  # of the simulated runs by which one step of evenness is judged


class Place(NamedTuple):
    """Positions of the two sliders, and a promise."""

    position: int  # of the slider over c
    even: int = 0  # of the slider of evenness
    promise: Promise = NO_PROMISE


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
    wait: float  # rounds between two contacts of the person who waits longest
    # Share of the gain at this c without the promise; None: no promise, or the cost is not known.
    promise_cost: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As it is sent to a browser."""
        endless = None if math.isinf(self.wait) else self.wait
        return {**vars(self), "c": for_json(self.c), "wait": endless}


class Tradeoff:
    """What fairness costs from the next round on.

    Parameters
    ----------
    database
        The programme; nothing is written.

    Notes
    -----
    Everything that does not depend on the choice is computed once, when this object is made.

    Raises
    ------
    InvalidInput
        If nobody is in the programme, or it has ended.
    """

    def __init__(self, database: Store) -> None:
        self._database = database
        draft = to_be_planned(database.rehearsal(), software())
        self._now, self._eligibility = draft.now, draft.eligibility
        self.settings: Settings = draft.now.settings
        self.round = draft.now.next_round()
        self.nothing_learnt = draft.now.nothing_learnt()
        self.people = draft.now.people
        self._cohorts = draft.cohorts
        self._lock = threading.RLock()  # a cohort keeps its last solution
        self._promising: OrderedDict[Promise, list[SiteCohort]] = OrderedDict()
        self._seen: OrderedDict[Place, tuple[Point, Floats]] = OrderedDict()
        self._shown: dict[tuple[int, int], list[dict[str, float]]] = {}  # by runs
        self._prospects = Prospects(self._cohorts, self.people)
        self._who = np.concatenate([cohort.who for cohort in self._cohorts])
        self.columns = [name for name in self.people.columns() if self._has_few(name)]
        self.gain = weigh(self._cohorts, math.inf, draft.model, self.settings.level, draft.reach)[
            0
        ]  # of the most effective plan, by the posterior
        self.whittle = self._whittle()  # [n] None: there is none
        self.bound = self._bound()  # as a share of what the most effective plan gains
        places = track(CURVE, "following the people along the range of c")
        along = [self.at(Place(position)) for position in places]
        self.curve = [point for point, _ in along]  # over c, without evenness
        self._shares = {
            column: [self._lowest(contacts, column) for _, contacts in along]
            for column in self.columns
        }
        self._anchors = Anchors(
            self._cohorts, self.c_at, [self.mu_at(even) for even in range(EVENEST + 1)]
        )
        self._anchors.fill_soon(self.position_of(self.settings.c))

    def _has_few(self, column: str) -> bool:
        values, codes = self.people.group(column)
        return len(np.unique(codes[self._who])) <= FEW and len(values) > 0

    @property
    def horizon(self) -> int:
        """Rounds that are left."""
        return self._cohorts[0].horizon

    @property
    def waiting(self) -> int:
        """Number of people in the cohorts."""
        return len(self._who)

    @property
    def contacted(self) -> int:
        """People who can be contacted a round."""
        return sum(cohort.k for cohort in self._cohorts)

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

    def mu_at(self, even: int) -> float:
        """The weight of evenness at a position of its slider."""
        if even <= 0:
            return 0.0
        octaves = OCTAVES * (2 * (even - 1) / (EVENEST - 1) - 1)
        return float(self.horizon * self.contacted * 2**octaves)

    # ---- what is asked for ----

    def for_target(self, target: Target) -> int:
        """The position of c for a target: the first that meets a benefit, the last for any other.

        Raises
        ------
        Infeasible
            If none meets it.
        """
        first = target.goal == "benefit"
        meets = [self._meets(target, i) for i in range(len(CURVE))]
        own = self.position_of(self.settings.c)
        if all(meets):  # every c meets the target
            return 0 if first else own
        if not any(meets):
            # Finds c between the places, or raises with a target that can be met.
            with self._lock:
                wanted = replace(self.settings, target=target)
                return self.position_of(choose_c(self._cohorts, wanted, self.people).c)
        i = meets.index(True) if first else len(meets) - 1 - meets[::-1].index(True)
        beyond = i - 1 if first else i + 1
        if not 0 <= beyond < len(CURVE):
            return CURVE[i]
        return _between(CURVE[beyond], CURVE[i], lambda at: self._meets_at(target, at))

    def _meets(self, target: Target, i: int) -> bool:
        """Whether the i-th place of the curve meets a target."""
        shares = self._shares.get(target.column or "", [math.nan] * len(CURVE))
        return _met(target, self.curve[i], shares[i])

    def _meets_at(self, target: Target, position: int) -> bool:
        point, contacts = self.at(Place(position))
        lowest = math.nan if target.column is None else self._lowest(contacts, target.column)
        return _met(target, point, lowest)

    def _lowest(self, contacts: Floats, column: str) -> float:
        """The lowest rate of contacts of any group, divided by that of everybody."""
        rates = [rate for _, _, rate in self.rates(contacts, column)]
        mean = float(contacts.mean()) / self.horizon
        return min(rates) / mean if mean > 0 else 1.0

    def for_guarantee(self, position: int, wanted: Evenness) -> int:
        """The first position of the slider of evenness whose runs reach a goal, at one of c.

        Raises
        ------
        Infeasible
            If none reaches it.
        """
        goal = Goal(wanted.goal, wanted.value)

        def figures(even: int) -> list[float]:
            return [one[goal.name] for one in self._runs(position, even)]

        def met(even: int) -> bool:
            return all(goal.excess(figure) >= 0 for figure in figures(even))

        even = _between(-1, EVENEST + 1, met)
        if even > EVENEST:
            furthest = min(figures(EVENEST), key=goal.excess)
            raise Infeasible(
                f"{wanted} cannot be reached at c = {self.c_at(position):.3g}: with all evenness "
                f"that the slider has it is {furthest:.3g}; ask for that, or choose a smaller c"
            )
        return even

    def _runs(self, position: int, even: int) -> list[dict[str, float]]:
        """Figures of simulated runs at a place, for each site that leaves a choice."""
        c, mu = self.c_at(position), self.mu_at(even)
        with self._lock:
            if (position, even) not in self._shown:
                self._approach(position, even)
                solved = [
                    (cohort.solved(c, Evenness("mu", mu)).values, cohort.k)
                    for cohort in self._cohorts
                    if cohort.leaves_a_choice
                ]
                self._shown[position, even] = [
                    run_figures(values, k, c, ARM_STEPS)
                    for values, k in solved
                    if isinstance(values, PriceValues | BonusValues)
                ]
            return self._shown[position, even]

    # ---- what is expected ----

    def at(self, place: Place) -> tuple[Point, Floats]:
        """What is expected at a place of the sliders, and everybody's expected contacts [n].

        Raises
        ------
        Infeasible
            If the promise cannot be kept.
        """
        with self._lock:
            if place not in self._seen:
                self._seen[place] = self._follow(place)
                if len(self._seen) > KEPT:
                    self._seen.popitem(last=False)
            self._seen.move_to_end(place)
            return self._seen[place]

    def _follow(self, place: Place) -> tuple[Point, Floats]:
        position, even, promise = place
        c, mu = self.c_at(position), self.mu_at(even)
        evenness, cohorts, prospects = Evenness("mu", mu), self._cohorts, self._prospects
        cost = None
        if not promise.is_none:
            cohorts = self._keeping(promise)
            prospects = prospects.of(cohorts)
        elif even:
            self._approach(position, even)
        followed = [cohort.follow(c, evenness) for cohort in cohorts]
        never = np.concatenate([_never(cohort, c, evenness) for cohort in cohorts])
        outlook = prospects.judge(c, followed, evenness)
        contacts = np.concatenate([one.contacts for one in followed])
        if not promise.is_none and not promise.one:  # else the cost is not known
            freely = self.at(Place(position))[0].gained
            cost = max(0.0, 1 - outlook.gained / freely) if freely > 0 else 0.0
        point = Point(
            position,
            even,
            c,
            mu,
            outlook.benefit,
            outlook.gained,
            float(action_entropy(np.maximum(contacts, 0))),
            float(never.mean()),
            outlook.wait,
            cost,
        )
        return point, contacts

    def _approach(self, position: int, even: int) -> None:
        """Solve a place, from the solution at an anchor nearby."""
        c, mu = self.c_at(position), self.mu_at(even)
        for site, cohort in enumerate(self._cohorts):
            if c > 0 and mu > 0 and cohort.leaves_a_choice:
                cohort.approach(c, mu, self._anchors.near(site, position, even))

    def _keeping(self, promise: Promise) -> list[SiteCohort]:
        """The cohorts whose draws keep a promise; raises Infeasible if it cannot be kept."""
        if promise not in self._promising:
            given = (self._now, self._eligibility, self._cohorts)
            self._promising[promise] = promising(self._database, *given, promise)
            if len(self._promising) > KEPT:
                self._promising.popitem(last=False)
        return self._promising[promise]

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
        except SoftFairError:  # with more than two states there may be no index
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
        """Values of a group column, each with its people and their expected contacts a round."""
        values, codes = self.people.group(column)
        code = codes[self._who]
        sizes = np.bincount(code, minlength=len(values))
        sums = np.bincount(code, contacts, len(values)) / self.horizon
        return [
            (value or "(none given)", int(size), float(total / size))
            for value, size, total in zip(values, sizes, sums, strict=True)
            if size
        ]

    def sentences(self, point: Point, promise: Promise = NO_PROMISE) -> Iterator[str]:
        """What the choice costs, in sentences."""
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
        if not promise.is_none:
            told = "What that promise costs cannot be told."
            if (lost := point.promise_cost) is not None:
                costs = f"{lost:.1%}" if lost >= 0.0005 else "less than 0.1%"
                told = f"That promise costs {costs} of what the same c gains without it."
            yield f"In every draw, for certain and not on average: {promise}. {told}"


def _met(target: Target, point: Point, lowest: float) -> bool:
    """Whether a place meets a target; ``lowest`` is the lowest share of a group."""
    if target.goal == "wait":
        return point.wait <= target.value * (1 + ROUNDING)
    return (lowest if target.goal == "group" else point.benefit) >= target.value * (1 - ROUNDING)


def _between(off: int, met: int, meets: Callable[[int], bool]) -> int:
    """The position nearest to ``off`` that meets a goal; ``met`` meets it, ``off`` does not."""
    while abs(met - off) > 1:
        middle = (met + off) // 2
        if meets(middle):
            met = middle
        else:
            off = middle
    return met


def _never(cohort: SiteCohort, c: float, evenness: Evenness) -> Floats:
    """Everybody's chance of never being contacted [n]."""
    never = np.zeros(cohort.cohort.n)
    if cohort.keeping.W and cohort.left.max() <= cohort.horizon:
        return never  # everybody's deadline is before the end
    for part, chance in cohort.chances(c, evenness):
        people = cohort.cohort.subset(part)
        y = np.zeros((people.n, cohort.layers, people.S))
        y[np.arange(people.n), cohort.left[part] - 1] = people.start
        for pi in chance:  # [m, layers S]
            y = np.matmul(y * (1 - pi.reshape(y.shape)), people.P[:, 0])
            if cohort.layers > 1:  # one list less is left; people with one left were listed
                y = np.concatenate([y[:, 1:], np.zeros_like(y[:, :1])], axis=1)
        never[part] = y.sum(axis=(1, 2))
    return never
