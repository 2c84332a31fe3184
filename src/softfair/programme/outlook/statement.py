"""What is stated of a plan: what it is expected to bring, and how even it is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ...estimate import Interval
from ...for_json import for_json
from ..aims import SOFTFAIR, Evenness, Target
from ..promises import NO_PROMISE, Promise

__all__ = ["ROUNDING", "LowestGroup", "Outlook"]

ROUNDING = 1e-9  # relative error within which a target counts as met


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
    gained: float  # good rounds more than without any contact, if the estimates were true
    benefit: float  # ``gained`` as a share of what the most effective plan gains
    wait: float  # rounds between two contacts of the person who waits longest; inf: for ever
    residual: float  # largest relative gap between expected and allowed contacts of a round
    lowest: LowestGroup | None = None  # None: there is no group column
    target: Target | None = None  # that c was chosen for
    most_effective_gained: float | None = None  # with a target
    gain: Interval | None = None  # good rounds more than without any contact, by the posterior
    reached: float | None = None  # share of listed people who are reached; None: not seen yet
    evenness: Evenness = SOFTFAIR
    mu: tuple[float, ...] = ()  # weight of evenness at each site; empty for SoftFair
    binds: bool = True  # whether a target decided c; False: any c, or the programme's, meets it
    # Share of the most effective plan's gain that is lost because capacity goes by site; None:
    # capacity does not go by site, or there is nothing to gain.
    sites_cost: float | None = None
    promise: Promise = NO_PROMISE  # what every draw keeps
    # Share of the gain at the same c that the promise costs; None: no gain, or no price.
    promise_cost: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed: infinite c is "inf", an infinite wait None."""
        fields: dict[str, Any] = {
            "c": for_json(self.c),
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
            c=float(fields["c"]),
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
        """Whether the outlook meets a target, up to rounding."""
        if target.goal == "wait":
            return self.wait <= target.value * (1 + ROUNDING)
        return self.figure(target) >= target.value * (1 - ROUNDING)

    def figure(self, target: Target) -> float:
        """The figure that the target is about."""
        if target.goal == "group":
            assert self.lowest is not None  # the outlook was made for the target's column
            return self.lowest.share
        return self.wait if target.goal == "wait" else self.benefit
