"""What plans are worth by their multiplier c, and the c that meets a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...arrays import as_given
from ...cohort import Cohort
from ...errors import Infeasible
from ...progress import say, track
from ...solvers.priced import hard_multiplier
from ..aims import SOFTFAIR, Evenness, Target
from ..settings import Settings
from ..snapshot import People
from .site import SLICE, Followed, SiteCohort
from .statement import LowestGroup, Outlook

__all__ = ["Prospects", "choose_c"]

Floats = NDArray[np.float64]

CLOSE = 1.02  # a target's c is found to within this factor
SPAN = 1e6  # ... between this fraction of the hardest multiplier and the hardest multiplier
SCAN = 13  # multipliers that are tried for a group target that neither end meets
SCANNED = 1e4  # ... between this fraction of the hardest multiplier and the hardest multiplier
NEVER = 1e-9  # contacts a round, below which a person counts as never contacted


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
        """The prospects of the same people with another promise."""
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
        What the plan with the multiplier ``Outlook.c`` is expected to bring.

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
    promise, cost = settings.promise, None
    if promise.is_none:
        return chosen
    if not promise.one:  # "at most one" has no price, so no gain shows what it costs
        free = Prospects([cohort.freely for cohort in cohorts], people).at(chosen.c).gained
        cost = max(0.0, 1 - chosen.gained / free) if free > 0 else None
    return replace(chosen, promise=promise, promise_cost=cost)


def _cost_of_sites(cohorts: Sequence[SiteCohort], people: People, gained: float) -> float | None:
    """The share of the gain that is lost because capacity goes by site.

    It compares the most effective plans, by site and with the same capacity for all people
    together. None: there are no sites, or they are arms of a trial, or there is no gain.
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

    When c grows, benefit grows and evenness falls. So a target of benefit asks for the least c that
    meets it. Other targets ask for the largest c, or for the programme's own c if any c would do.
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
        # If capacity goes by site, the lottery need not be the most even between groups.
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
