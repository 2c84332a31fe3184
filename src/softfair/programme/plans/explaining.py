"""Why each person is on the list of a plan or not, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from ...policies.deadlines import STANDING_BACK
from ..assignment import Arm
from ..eligibility import Status
from ..words import percent
from .kept import terms_of
from .stored import Plan

__all__ = ["explain", "place_in_reserve"]

WHY_NOT = {
    Status.NOT_YET: "Not in the draw: not enrolled yet.",
    Status.LEFT: "Not in the draw: has left the programme.",
    Status.OPTED_OUT: "Not in the draw: opted out.",
    Status.COOLING: "Not in the draw: was contacted too recently.",
    Status.RESERVED: "Not in the draw: a contact is already arranged for this round.",
    Status.NO_SITE: "Not in the draw: no capacity is set for their group.",
    Status.ABSENT: "Not in the draw: absent in this round.",
    Status.UNNAMED: "Not in the draw: the file that named them was retracted.",
    Status.USUAL: "Not in the draw: in the trial's usual arm, which no list names.",
}

COUNTS_TOO = {
    "2": "; the state before the last counts too",
    "contact": "; whether they were contacted in the round before counts too",
}


class _Sentences(Sequence[str]):
    """One sentence for each person of a plan, made when it is asked for: there may be a million."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._below = np.zeros(len(plan.person))  # share of the others in the draw who gain less
        for j in range(len(plan.sites)):
            who = plan.in_draw(j)
            score = plan.drawn_by[who]
            if plan.due.any() and plan.worth is not None:
                score = plan.worth[0, who]  # `drawn_by` also counts the lists left
            ranks = np.searchsorted(np.sort(score), score)
            self._below[who] = ranks / max(len(who) - 1, 1)
        self._back = np.zeros(len(plan.person), bool)  # who stands back for their household
        for j, site in enumerate(plan.sites if plan.due.any() else ()):
            who = plan.in_draw(j)
            if not site.capacity or not plan.outlook.promise.one:
                continue
            now, more = terms_of(plan.kept, site, j, plan.status, plan.site).must(len(who))
            others = who[~now]
            for one in more:
                if one.name == STANDING_BACK:
                    self._back[others[np.asarray(one.arms, np.int64)]] = True

    def __len__(self) -> int:
        return len(self._plan.person)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        code = int(self._plan.status[place])
        if code in WHY_NOT:
            return WHY_NOT[Status(code)]
        if self._back[place]:
            one, more = self._plan.outlook.promise.one, int(self._plan.due[place]) - 1
            return (
                "Not drawn this time: stands back in this draw for somebody of the same "
                f"{one} with fewer lists left; by the promise on the list within {more} more."
            )
        return _sentence(self._plan, place, float(self._below[place]))


def explain(plan: Plan) -> Sequence[str]:
    """One plain sentence for each person of the plan, in its order."""
    return _Sentences(plan)


def place_in_reserve(plan: Plan, person: int) -> str:
    """Where somebody is in the reserve, with the stated chance; empty: they are not in it."""
    place = np.flatnonzero(plan.reserve.person == person)
    row = np.flatnonzero(plan.person == person)
    if not len(place) or plan.listed[row[0]]:
        return ""
    number = int(plan.reserve.place[place[0]] - plan.listed[plan.site == plan.site[row[0]]].sum())
    chance = percent(float(plan.reserve.chance[place[0]]))
    return f"number {number} in order (chance to be in reserve, given the list: {chance})"


def _sentence(plan: Plan, i: int, below: float) -> str:
    """Why the person in row i, who is in the draw, has the probability they have."""
    drawn = "Drawn" if plan.listed[i] else "Not drawn this time"
    if below == 1:
        more = "more than for anyone else in the draw"
    elif below > 0:
        share = f"{below:.0%}" if 0.005 <= below < 0.995 else percent(below)
        more = f"more than for {share} of those in the draw"
    else:
        more = "the least of those in the draw"
    seen = "" if plan.state[i] >= 0 else "; the state now was not seen and is estimated"
    own = (
        "; without a history of their own they have their group's estimate"
        if plan.unseen[i]
        else ""
    )
    chance, due = percent(plan.probability[i]), int(plan.due[i])
    if due == 1 and plan.listed[i]:
        W = plan.outlook.promise.wait
        return (
            f"On the list by the promise: left off {W - 1} lists in a row, and of any {W} "
            "everybody is on at least one."
            if W > 1
            else "On the list by the promise: everybody in the draw is on every list."
        )
    if plan.sites[plan.site[i]].arm == Arm.LOTTERY:
        return f"{drawn}, with a chance of {chance}: by lottery, as all in this arm of the trial."
    left = ""
    if due and not plan.listed[i]:
        left = f"; by the promise on the list within {due - 1} more that they can be on"
    own += COUNTS_TOO.get(plan.memory, "")
    return f"{drawn}, with a chance of {chance}: {_worth(plan, i, more)}{seen}{own}{left}."


def _worth(plan: Plan, i: int, more: str) -> str:
    """What a contact now brings to the person in row i, as far as the history can tell."""
    left = f"good rounds over the {plan.horizon} left"
    counted, rank = f"the draw counts {plan.score[i]:.3g} for it", f", {more}"
    if not plan.outlook.evenness.is_softfair:
        adds = "adds" if plan.bonus[i] >= 0 else "takes off"
        rank = f" and evenness {adds} {abs(plan.bonus[i]):.3g}; the sum is {more}"
    if plan.worth is None or not np.isfinite(plan.worth[:, i]).all():
        return f"{counted} in {left}{rank}"
    # The draw follows the gain at the posterior mean, which is not the mean of the gain. The
    # sentence has both; otherwise, of two people, the one with the better rank could seem to gain
    # less.
    mean, low, high = plan.worth[:, i]
    level = f"{plan.level:.0%} interval"
    if low <= 0 <= high:
        said = (
            "whether a contact now helps them cannot be told from this history yet "
            f"({low:.2g} to {high:.2g} {left}, {level})"
        )
    else:
        said = f"a contact now is worth {mean:.2g} {left} ({level} {low:.2g} to {high:.2g})"
    return f"{said}; {counted}{rank}"
