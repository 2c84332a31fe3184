"""What has changed since a plan was made: who of its list should not be called any more."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .eligibility import Status, eligibility_of
from .plans import Plan
from .snapshot import take_snapshot
from .store import Store

__all__ = ["Since", "since_plan"]

WHY = {
    Status.OPTED_OUT: "opted out",
    Status.LEFT: "left",
    Status.UNNAMED: "no longer in any file",
    Status.NOT_YET: "not enrolled yet",
    Status.NO_SITE: "without a site",
    Status.ABSENT: "absent",
    Status.COOLING: "contacted shortly before",
}


@dataclass(frozen=True)
class Since:
    """What has changed since a plan was made."""

    struck: dict[int, str]  # number of a listed person who is not in the draw any more -> why
    places_before: int
    places_now: int

    def __bool__(self) -> bool:
        return bool(self.struck) or self.places_before != self.places_now

    def __str__(self) -> str:
        """The changes as part of a sentence; empty if there are none."""
        parts = [f"{many} {why}" for why, many in Counter(self.struck.values()).items()]
        if self.places_before != self.places_now:
            parts.append(f"capacity went from {self.places_before} to {self.places_now}")
        return ", ".join(parts)


def since_plan(database: Store, plan: Plan) -> Since:
    """What has changed since a plan was made.

    Parameters
    ----------
    database
        The programme.
    plan
        The plan; once its round is over, nothing changes it.
    """
    with database.reading() as connection:
        now = take_snapshot(connection)
    before = sum(site.capacity for site in plan.sites)
    if plan.round in now.over():  # what came after does not matter any more
        return Since({}, before, before)
    eligibility = eligibility_of(now, plan.round)
    struck = {
        int(i): WHY[Status(code)]
        for i in plan.person[plan.listed == 1]
        if (code := int(eligibility.status[i])) in WHY
    }
    places = sum(site.capacity for site in eligibility.sites)
    return Since(struck, before, places)
