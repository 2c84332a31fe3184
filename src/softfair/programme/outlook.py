"""What a plan is expected to bring, and the multiplier c that meets a target.

The people who are waiting at a site are a cohort of n arms, of which k can be helped a round for
the T rounds that are left. `solve_priced` gives each person's gain lambda_t(s) from a contact and
the prices at which k contacts are expected in each round; under these a person in state s is
contacted with probability

    pi_t(s) = sigmoid(c lambda_t(s) - theta_t),

independently of the others. Where evenness has a weight (`softfair.EvenHanded`), everybody's bonus
b is added to lambda. Where something is promised (`promises`), gains and prices are those of
`solve_promised`: the lists that a person has left are part of the state, who has one left is on it
for certain, and no chance is below the floor. Following everybody's distribution over states
through the horizon then gives the expected reward (of the states reached) and the expected contacts
of each person. The list that is drawn has exactly k people and not k on average; for a site of a
few people the expected reward is therefore some per cent too high.

What is stated of a plan, and of a contact with a person, is weighed by the joint draws of the
model's posterior: the plan made from the means is followed through each draw as if that were the
truth. What is not known of the population is the same for everybody within a draw, so it does not
average out; and the figures are not biased by having chosen the plan that looked best.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, as_given
from ..errors import Infeasible, NotConverged
from ..estimate import Interval
from ..kernels.threads import map_parts
from ..kernels.worth import plan_worth
from ..progress import say, track
from ..solvers import (
    PromisedValues,
    SharedValues,
    solve_evenhanded,
    solve_priced,
    solve_promised,
    solve_shared,
)
from ..solvers.evenhanded import BonusValues, Near
from ..solvers.priced import hard_multiplier
from ..solvers.values import PriceValues
from .assignment import Arm
from .models import Model
from .promises import NO_PROMISE, Promise
from .settings import SOFTFAIR, Evenness, Settings, Target
from .snapshot import People
from .store import c_from_json, c_to_json

__all__ = [
    "Followed",
    "LowestGroup",
    "Outlook",
    "Prospects",
    "Reach",
    "Shares",
    "SiteCohort",
    "Worth",
    "choose_c",
    "weigh",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLICE = 65_536  # people that are followed through the horizon at a time
PEOPLE_A_THREAD = 4096
CLOSE = 1.02  # a target's c is found to within this factor
SPAN = 1e6  # ... between this fraction of the hardest multiplier and the hardest multiplier
SCAN = 13  # multipliers that are tried for a group target that neither end meets
SCANNED = 1e4  # ... between this fraction of the hardest multiplier and the hardest multiplier
ROUNDING = 1e-9  # relative error within which a target counts as met
ROUGH = 1e-4  # relative gap of a budget or a rate where a figure is looked at, not drawn with
NEVER = 1e-9  # contacts a round, below which a person counts as never contacted


@dataclass(frozen=True)
class LowestGroup:
    """The value of a group column whose people are expected to be contacted least often."""

    column: str
    value: str
    share: float  # their rate of contacts over that of everybody


@dataclass(frozen=True)
class Outlook:
    """What a plan with multiplier c is expected to bring over the rounds that are left."""

    c: float
    gained: float  # good rounds more than without any contact, if estimates were the truth
    benefit: float  # that, as a share of what the most effective plan gains
    wait: float  # rounds between two contacts of who waits longest; inf: for ever
    residual: float  # largest relative gap between expected and allowed contacts of a round
    lowest: LowestGroup | None = None  # None: there is no group column
    target: Target | None = None  # that c was chosen for
    most_effective_gained: float | None = None  # with a target
    gain: Interval | None = None  # good rounds more than without any contact, by the posterior
    reached: float | None = None  # share of the listed who are reached; None: not seen yet
    evenness: Evenness = SOFTFAIR
    mu: tuple[float, ...] = ()  # weight of evenness at each site; empty for SoftFair
    binds: bool = True  # whether the target, if any, decided c: else any c, or the own, meets it
    # Share of the most effective plan's gain that is lost because capacity goes by site; None: it
    # does not, or there is nothing to gain.
    sites_cost: float | None = None
    promise: Promise = NO_PROMISE  # that every draw keeps
    promise_cost: float | None = None  # share of the gain at the same c without it; None: no gain

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed: infinite c is "inf", an infinite wait None."""
        fields: dict[str, Any] = {
            "c": c_to_json(self.c),
            "gained": self.gained,
            "benefit": self.benefit,
            "wait": None if math.isinf(self.wait) else self.wait,
            "residual": self.residual,
        }
        if self.lowest is not None:
            fields["group"] = self.lowest.share
            fields["group_column"], fields["lowest_group"] = self.lowest.column, self.lowest.value
        if not self.evenness.is_softfair:
            fields["evenness"], fields["mu"] = asdict(self.evenness), self.mu
        if self.target is not None:
            fields["target"], fields["target_said"] = asdict(self.target), str(self.target)
            fields["most_effective_gained"] = self.most_effective_gained
            fields["binds"] = self.binds
        if self.gain is not None:
            fields["gain"] = asdict(self.gain)
        if self.reached is not None:
            fields["reached"] = self.reached
        if self.sites_cost is not None:
            fields["sites_cost"] = self.sites_cost
        if not self.promise.is_none:
            fields["promise"], fields["promise_said"] = asdict(self.promise), str(self.promise)
            fields["promise_cost"] = self.promise_cost
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Outlook:
        """The inverse of `to_json`."""
        lowest = target = None
        if "group" in fields:
            lowest = LowestGroup(fields["group_column"], fields["lowest_group"], fields["group"])
        if "target" in fields:
            target = Target(**fields["target"])
        return cls(
            c=c_from_json(fields["c"]),
            gained=fields["gained"],
            benefit=fields["benefit"],
            wait=math.inf if fields["wait"] is None else fields["wait"],
            residual=fields["residual"],
            lowest=lowest,
            target=target,
            most_effective_gained=fields.get("most_effective_gained"),
            gain=Interval(**fields["gain"]) if "gain" in fields else None,
            reached=fields.get("reached"),
            evenness=Evenness(**fields.get("evenness", {})),
            mu=tuple(fields.get("mu", ())),
            binds=fields.get("binds", True),
            sites_cost=fields.get("sites_cost"),
            promise=Promise.from_json(fields.get("promise", {})),
            promise_cost=fields.get("promise_cost"),
        )

    def meets(self, target: Target) -> bool:
        """Whether this is what the target asks for, up to rounding."""
        if target.goal == "wait":
            return self.wait <= target.value * (1 + ROUNDING)
        return self.figure(target) >= target.value * (1 - ROUNDING)

    def figure(self, target: Target) -> float:
        """The figure that the target is about."""
        if target.goal == "group":
            assert self.lowest is not None  # the outlook was made for the target's column
            return self.lowest.share
        return self.wait if target.goal == "wait" else self.benefit


class Followed(NamedTuple):
    """What is expected over the horizon."""

    reward: float  # of everybody together, summed over the states reached
    contacts: Floats  # [n] of each person


class Shares(NamedTuple):
    """Between which numbers of contacts a round some groups of a site have."""

    inside: NDArray[np.bool_]  # [groups, n] who belongs to each
    least: Floats  # [groups]
    most: Floats


class Keeping(NamedTuple):
    """What is promised to the people of a site."""

    W: int = 0  # lists within which they are on the next, after one they are on; 0: not promised
    floor: float = 0.0  # the least chance; 0: none is promised
    left: Ints = np.ones(1, np.int64)  # [n] lists within which each must be on one now
    shares: Shares | None = None


NOTHING = Keeping()


class Solved(NamedTuple):
    """Gains and prices of a site at one multiplier."""

    # Whose rows are gains plus bonuses.
    values: PriceValues | BonusValues | PromisedValues | SharedValues
    bonus: Floats  # [n] what evenness adds to each person's gain
    mu: float  # the weight of evenness

    def part(
        self, cohort: Cohort, which: Ints
    ) -> PriceValues | BonusValues | PromisedValues | SharedValues:
        """The values of some of the people."""
        if isinstance(self.values, SharedValues):
            return replace(self.values, cohort=cohort, cell=self.values.cell[which])
        if isinstance(self.values, BonusValues):
            return replace(self.values, cohort=cohort, bonus=self.bonus[which])
        return replace(self.values, cohort=cohort)


class SiteCohort:
    """The people who are waiting at one site.

    Parameters
    ----------
    cohort
        Their transition probabilities, rewards and distributions over states now.
    k
        How many of them can be contacted a round.
    horizon
        Rounds that are left, this one included.
    who
        Their numbers in the programme [n].
    arm
        Of a trial; in that of the lottery any c counts as 0.
    keeping
        What is promised to them.
    """

    def __init__(
        self,
        cohort: Cohort,
        k: int,
        horizon: int,
        who: Ints,
        arm: str = "",
        keeping: Keeping = NOTHING,
    ) -> None:
        self.cohort, self.k, self.horizon, self.who, self.arm = cohort, k, horizon, who, arm
        # A deadline after the last round binds nobody.
        W, left = min(keeping.W, horizon + 1), np.minimum(keeping.left, horizon + 1)
        self.keeping = Keeping(W, min(keeping.floor, k / cohort.n), left, keeping.shares)
        self._solved: tuple[tuple[float, Evenness], Solved] | None = None  # the last solution

    @property
    def layers(self) -> int:
        """How many numbers of lists left there are; 1 without a promised wait."""
        return max(1, self.keeping.W)

    @property
    def leaves_a_choice(self) -> bool:
        """Whether some are contacted in a round and others are not, and not by lottery alone."""
        return self.k not in (0, self.cohort.n) and self.arm != Arm.LOTTERY

    @property
    def promised(self) -> bool:
        """Whether anything is promised."""
        return self.keeping.W > 0 or self.keeping.floor > 0 or self.keeping.shares is not None

    @cached_property
    def freely(self) -> SiteCohort:
        """The same without a promise."""
        if not self.promised:
            return self
        return SiteCohort(self.cohort, self.k, self.horizon, self.who, self.arm)

    @property
    def left(self) -> Ints:
        """Lists that each person has left [n]; 1 without a promised wait."""
        return np.broadcast_to(self.keeping.left, self.cohort.n) if self.keeping.W else self._one

    @cached_property
    def _one(self) -> Ints:
        return np.ones(self.cohort.n, np.int64)

    def solved(self, c: float, evenness: Evenness = SOFTFAIR) -> Solved:
        """Gains, bonuses and prices at multiplier c; the last solution is remembered."""
        if self.arm == Arm.LOTTERY:
            c, evenness = 0.0, SOFTFAIR
        if self._solved is None or self._solved[0] != (c, evenness):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConverged)  # the outlook has the residual
                self._solved = (c, evenness), self._solve(c, evenness)
        return self._solved[1]

    def _solve(self, c: float, evenness: Evenness) -> Solved:
        given = (self.cohort, self.k, self.horizon, 1.0)
        W, floor, _, shares = self.keeping
        if shares is not None and 0 < self.k < self.cohort.n:
            shared = solve_shared(*given, c, *shares, floor, W, self.left)
            return Solved(shared, np.zeros(self.cohort.n), 0.0)
        if self.promised:
            solution = solve_promised(*given, c, W, floor, self.left if W else None)
            return Solved(solution, np.zeros(self.cohort.n), 0.0)
        if evenness.is_softfair or not self.leaves_a_choice or c == 0:  # or chances are equal
            return Solved(solve_priced(*given, c), np.zeros(self.cohort.n), 0.0)
        fitted = evenness.policy(c).fit(*given)
        assert isinstance(fitted.values, PriceValues | BonusValues)
        return Solved(fitted.values, fitted.bonus, fitted.mu)

    def approach(self, c: float, mu: float, near: Near) -> Solved:
        """As `solved` with a weight of evenness, from prices nearby and up to ROUGH.

        It is remembered too: what is asked for next with this weight is of this solution.
        """
        given = (self.cohort, self.k, self.horizon, 1.0, c, mu)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # the outlook has the residual
            solution = solve_evenhanded(*given, tolerance=ROUGH, near=near)
        assert isinstance(solution.values, PriceValues | BonusValues)
        solved = Solved(solution.values, solution.bonus, mu)
        self._solved = (c, Evenness("mu", mu)), solved
        return solved

    def values(self, c: float) -> PriceValues | BonusValues | PromisedValues | SharedValues:
        """Gains and prices at multiplier c, without evenness."""
        return self.solved(c).values

    def scores(self, c: float, evenness: Evenness = SOFTFAIR) -> Floats:
        """Expected gain lambda_0 from a contact now [n], over the states a person may be in.

        Who must be on this list has the gain of being on it rather than on the next.
        """
        solved, n = self.solved(c, evenness), self.cohort.n
        rows = solved.values.rows(0, 1)[0].reshape(n, self.layers, -1)
        layer = np.minimum(np.maximum(self.left, 2), self.layers) - 1
        sums: Floats = np.sum(rows[np.arange(n), layer] * self.cohort.start, axis=1)
        return sums - solved.bonus

    def follow(self, c: float | None, evenness: Evenness = SOFTFAIR) -> Followed:
        """Expected reward and contacts over the horizon; c None: nobody is contacted.

        Notes
        -----
        With the distribution x_t over states, x_{t+1} = (x_t (1 - pi_t)) P[0] + (x_t pi_t) P[1];
        the reward of decision t is that of the state reached, sum_s x_{t+1}(s) r(s).
        """
        reward, contacts = 0.0, np.zeros(self.cohort.n)
        for which in self._parts():
            part = self.cohort.subset(which)
            x = np.zeros((part.n, self.layers, part.S))
            x[np.arange(part.n), self.left[which] - 1] = part.start
            for inverse in self._inverse_chances(c, evenness, part, which):
                active = x / inverse.reshape(x.shape)
                listed = active.sum(axis=1)  # [n, S]
                contacts[which] += listed.sum(axis=1)
                x = np.matmul(x - active, part.P[:, 0])
                if self.layers > 1:  # one list less is left; nobody remains who had one
                    x = np.concatenate([x[:, 1:], np.zeros_like(x[:, :1])], axis=1)
                x[:, -1] += np.matmul(listed[:, None], part.P[:, 1])[:, 0]
                reward += float(np.sum(x * part.reward[:, None]))
        return Followed(reward, contacts)

    def _parts(self) -> Iterator[Ints]:
        """Places of some of the people at a time."""
        size = max(1, SLICE // self.layers)
        for first in range(0, self.cohort.n, size):
            yield np.arange(first, min(first + size, self.cohort.n))

    def chances(self, c: float, evenness: Evenness = SOFTFAIR) -> Iterator[tuple[Ints, Floats]]:
        """Some of the people at a time: their places, and pi_t(d, s) [T, m, layers S] of each."""
        for part in self._parts():
            inverse = self._inverse_chances(c, evenness, self.cohort.subset(part), part)
            yield part, 1 / np.stack(list(inverse))

    def _inverse_chances(
        self, c: float | None, evenness: Evenness, part: Cohort, which: Ints
    ) -> Iterator[Floats]:
        """1 / pi_t(d, s) [n, layers S] of some of the people for t = 0, ..., T - 1; inf: never."""
        if c is None:
            never = np.full((part.n, self.layers * part.S), np.inf)
            yield from (never for _ in range(self.horizon))
            return
        W, floor, *_ = self.keeping
        values = self.solved(c, evenness).part(part, which)
        gains = values.rows(0, self.horizon)  # lambda_t(s), with the bonus [T, n, layers S]
        for theta, gain in zip(values.theta, gains, strict=True):
            with np.errstate(over="ignore"):
                inverse = 1 + np.exp(theta - values.c * gain)
            if floor > 0:
                inverse = np.minimum(inverse, 1 / floor)
            if W:
                inverse[:, : part.S] = 1.0  # who has one list left is on it
            yield inverse


class Reach(NamedTuple):
    """How many of those who were listed in past rounds were reached."""

    reached: int
    missed: int

    @property
    def share(self) -> float | None:
        """The share that is expected; None: nobody has been listed and recorded yet."""
        total = self.reached + self.missed
        return (self.reached + 0.5) / (total + 1) if total else None

    def draws(self, L: int) -> Floats:
        """Quantiles [L] of the share's posterior (Jeffreys' prior), in mixed order."""
        if self.share is None:
            return np.ones(L)
        from scipy.stats import beta

        points = beta.ppf((np.arange(L) + 0.5) / L, self.reached + 0.5, self.missed + 0.5)
        return np.asarray(np.random.default_rng(0).permutation(points))


class Worth(NamedTuple):
    """What a contact now is worth to each person, in good rounds: mean and ends [n]."""

    mean: Floats
    low: Floats
    high: Floats


def weigh(
    cohorts: Sequence[SiteCohort],
    c: float,
    model: Model,
    level: float,
    reach: Reach,
    evenness: Evenness = SOFTFAIR,
) -> tuple[Interval | None, Worth | None]:
    """What a plan brings, and a contact now brings to each person, by the posterior.

    Parameters
    ----------
    cohorts
        One for each site with people.
    c
        The plan's multiplier.
    model
        With the draws of the posterior; without any, nothing is stated.
    level
        Of the intervals.
    reach
        How many of those who were listed were reached.
    evenness
        The plan's policy.

    Returns
    -------
    tuple of Interval and Worth
        Good rounds more than without contacts, and the worth of a contact now by the person's
        number in the programme; nan for who is not in a cohort.
    """
    L, n = model.draws.shape[:2]
    if not L:
        return None, None
    reached, totals = reach.draws(L), np.zeros(L)
    worth = Worth(*np.full((3, n), np.nan))
    tail = (1 - level) / 2
    for cohort in cohorts:
        for part, by_layer in cohort.chances(c, evenness):
            who = cohort.who[part]
            some, left = cohort.cohort.subset(part), cohort.left[part]
            chance = by_layer.reshape(len(by_layer), len(part), cohort.layers, -1)
            gained, now = np.empty(len(who)), np.empty((L, len(who)))
            for number in track(range(L), "weighing the plan by what may be true"):
                P = model.drawn(number, who)
                map_parts(
                    plan_worth,
                    len(who),
                    PEOPLE_A_THREAD,
                    P,
                    chance,
                    left,
                    reached[number],
                    some.start,
                    some.reward,
                    gained,
                    now[number],
                )
                totals[number] += gained.sum()
            worth.mean[who] = now.mean(axis=0)
            worth.low[who], worth.high[who] = np.quantile(
                now, [tail, 1 - tail], axis=0, method="weibull"
            )
    return Interval.of(totals, level), worth


class Prospects:
    """What plans are worth, by their multiplier c.

    Parameters
    ----------
    cohorts
        One for each site with people.
    people
        Everybody.
    column
        The group column whose rates are compared; None: none.
    evenness
        What is added to the gain.
    """

    def __init__(
        self,
        cohorts: Sequence[SiteCohort],
        people: People,
        column: str | None = None,
        evenness: Evenness = SOFTFAIR,
    ) -> None:
        self._cohorts, self._column, self._evenness = cohorts, column, evenness
        self._values, codes = ([], None) if column is None else people.group(column)
        who = np.concatenate([cohort.who for cohort in cohorts])
        self._codes = None if codes is None else codes[who]
        self._horizon = cohorts[0].horizon
        freely = [cohort.freely for cohort in cohorts]
        self._without = sum(cohort.follow(None).reward for cohort in freely)
        self.hardest = max(hard_multiplier(cohort.cohort) for cohort in cohorts)
        most = sum(cohort.follow(math.inf).reward for cohort in freely)
        self.most_effective_gained = most - self._without

    def of(self, cohorts: Sequence[SiteCohort]) -> Prospects:
        """The same for the same people, to whom something else is promised."""
        other = copy(self)
        other._cohorts = cohorts
        return other

    def at(self, c: float) -> Outlook:
        """What the plan with multiplier c is expected to bring."""
        return self.judge(c, [cohort.follow(c, self._evenness) for cohort in self._cohorts])

    def judge(
        self, c: float, followed: Sequence[Followed], evenness: Evenness | None = None
    ) -> Outlook:
        """As `at`, from the expected course of every site, with another evenness."""
        evenness = self._evenness if evenness is None else evenness
        solved = [cohort.solved(c, evenness) for cohort in self._cohorts]
        gained = sum(one.reward for one in followed) - self._without
        rates = np.concatenate([one.contacts for one in followed]) / self._horizon
        most, slowest = self.most_effective_gained, rates.min()
        return Outlook(
            c=c,
            gained=gained,
            benefit=gained / most if most > 0 else 1.0,
            wait=float(1 / slowest) if slowest > NEVER else math.inf,
            residual=max(one.values.info.residual for one in solved),
            lowest=self._lowest(rates),
            evenness=evenness,
            mu=() if evenness.is_softfair else tuple(one.mu for one in solved),
        )

    def _lowest(self, rates: Floats) -> LowestGroup | None:
        if self._codes is None or self._column is None:
            return None
        sizes = np.bincount(self._codes, minlength=len(self._values))
        present = np.flatnonzero(sizes)
        means = np.bincount(self._codes, rates, len(self._values))[present] / sizes[present]
        share = float(means.min() / rates.mean()) if rates.mean() > 0 else 1.0
        return LowestGroup(self._column, self._values[present[means.argmin()]], share)


def choose_c(cohorts: Sequence[SiteCohort], settings: Settings, people: People) -> Outlook:
    """The multiplier c, given or found for the target, and what is expected of its plan.

    Parameters
    ----------
    cohorts
        One for each site with people.
    settings
        With c or a target.
    people
        Everybody.

    Returns
    -------
    Outlook
        Of the multiplier ``Outlook.c``.

    Raises
    ------
    Infeasible
        If no multiplier meets the target; the message has the nearest target that can be met.
    """
    if sum(cohort.cohort.n for cohort in cohorts) > SLICE:
        say("weighing what a contact brings to each ...")
    target = settings.target
    column = next((name for name in people.columns() if people.numbers(name) is None), None)
    if target is not None and target.column is not None:
        column = target.column
    prospects = Prospects(cohorts, people, column, settings.evenness)
    cost = _cost_of_sites(cohorts, people, prospects.most_effective_gained)
    if target is None:
        chosen = replace(prospects.at(settings.c), sites_cost=cost)
    else:
        chosen = replace(
            _found(prospects, target, settings.c),
            target=target,
            most_effective_gained=prospects.most_effective_gained,
            sites_cost=cost,
        )
    if not any(cohort.promised for cohort in cohorts):
        return chosen
    free = Prospects([cohort.freely for cohort in cohorts], people).at(chosen.c).gained
    cost = max(0.0, 1 - chosen.gained / free) if free > 0 else None
    return replace(chosen, promise=settings.promise, promise_cost=cost)


def _cost_of_sites(cohorts: Sequence[SiteCohort], people: People, gained: float) -> float | None:
    """What capacity by site loses against the same capacity for all, both at their most effective.

    It is a share of what the latter gains. Arms of a trial are no such sites.
    """
    if len(cohorts) < 2 or any(one.arm for one in cohorts):
        return None
    everybody = Cohort(
        np.concatenate([one.cohort.P for one in cohorts]),
        reward=as_given(cohorts[0].cohort.reward_rows),
        start=np.concatenate([one.cohort.start for one in cohorts]),
    )
    who = np.concatenate([one.who for one in cohorts])
    together = SiteCohort(everybody, sum(one.k for one in cohorts), cohorts[0].horizon, who)
    most = Prospects([together], people).most_effective_gained
    return max(0.0, 1 - gained / most) if most > 0 else None


def _found(prospects: Prospects, target: Target, own: float) -> Outlook:
    """What is expected at the c that serves a target best.

    With c benefit grows and evenness falls: a target of benefit asks for the least c that meets it,
    the others for the largest, or for the programme's own if any would do.
    """
    lottery, hardest = prospects.at(0.0), prospects.at(math.inf)
    safest, boldest = (hardest, lottery) if target.goal == "benefit" else (lottery, hardest)
    if boldest.meets(target):
        # If even the largest c meets a target of evenness, the target does not decide c, and the
        # programme's own c is kept.
        usual = boldest if target.goal == "benefit" else prospects.at(own)
        if usual.meets(target):
            return replace(usual, binds=False)
        return _above(prospects, target, own) or boldest
    if safest.meets(target):
        return _bisected(prospects, target, safest)
    between = []
    if target.goal == "group":
        # Where capacity goes by site, the lottery need not be the most even between groups.
        tries = np.geomspace(prospects.hardest / SCANNED, prospects.hardest, SCAN)
        between = [prospects.at(float(c)) for c in tries]
    if serving := [tried for tried in between if tried.meets(target)]:
        return serving[-1]
    nearest = safest
    if between:
        nearest = max([safest, *between], key=lambda tried: tried.figure(target))
    raise Infeasible(
        f"the target cannot be met: {target}; "
        f"the nearest that can is {_nearest(target, nearest)}, at c = {nearest.c:.3g}; "
        "ask for that, or raise the capacity"
    )


def _above(prospects: Prospects, target: Target, own: float) -> Outlook | None:
    """The first of several multipliers above the programme's own that meets a target."""
    for c in np.geomspace(max(own, prospects.hardest / SCANNED), prospects.hardest, SCAN)[1:]:
        if (tried := prospects.at(float(c))).meets(target):
            return tried
    return None


def _bisected(prospects: Prospects, target: Target, met: Outlook) -> Outlook:
    """The last outlook that meets a target, by bisection over c up to the factor CLOSE."""
    high = math.log(prospects.hardest)
    low = high - math.log(SPAN)
    steps = math.ceil(math.log2((high - low) / math.log(CLOSE)))
    for _ in track(range(steps), "looking for c"):
        middle = (low + high) / 2
        tried = prospects.at(math.exp(middle))
        if tried.meets(target):
            met = tried
        if tried.meets(target) == (target.goal == "benefit"):
            high = middle
        else:
            low = middle
    return met


def _nearest(target: Target, outlook: Outlook) -> str:
    """The target of the same goal that an outlook meets, rounded to the safe side, in words."""
    figure = outlook.figure(target)
    if math.isinf(figure):
        return "none: somebody would never be contacted"
    if target.goal == "wait":
        return str(replace(target, value=math.ceil(figure * 100) / 100))
    value = math.floor(figure * 1000) / 1000
    if value <= 0 and target.goal == "benefit":
        return "none: such plans gain nothing"
    if value <= 0:
        return f"none: some {target.column} would hardly ever be contacted"
    return str(replace(target, value=value))
