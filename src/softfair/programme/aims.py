"""What a plan is made for: the target that c is chosen for, and what makes help more even."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidInput
from ..policies.evenhanded import EvenHanded, check_aim
from ..solvers.realised import GOALS

__all__ = ["SOFTFAIR", "Evenness", "Target"]

TARGETS = {  # what a target may ask for, as a sentence
    "benefit": "keep at least {:.3g} % of the benefit of the most effective plan",
    "wait": "everybody's wait at most {:g} rounds on average over what may come "
    "(now and then somebody will wait longer)",
    "group": "no {} below {:.3g} % of the average rate",
}


@dataclass(frozen=True)
class Target:
    """What c is chosen for.

    Parameters
    ----------
    goal
        ``benefit``, ``wait`` or ``group``.
    value
        For ``benefit`` a share of the most effective plan's benefit, for ``wait`` a number of
        rounds, for ``group`` a share of the average rate of contacts.
    column
        For ``group``, the group column.

    Raises
    ------
    InvalidInput
        If the goal is not known, or the value is out of its range.
    """

    goal: str
    value: float
    column: str | None = None

    def __post_init__(self) -> None:
        if self.goal not in TARGETS:
            raise InvalidInput(
                f"the target is {self.goal!r}; "
                "choose benefit, wait or a group column, such as region"
            )
        if (
            not math.isfinite(self.value)
            or self.value <= 0
            or (self.goal != "wait" and self.value > 1)
        ):
            wanted = (
                "a number of rounds above 0"
                if self.goal == "wait"
                else "a share above 0 and at most 1 (95% or 0.95)"
            )
            raise InvalidInput(f"the target {self.goal} is {self.value:g}; give {wanted}")

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target that a text such as ``benefit=95%``, ``wait=8`` or ``region=0.5`` asks for.

        Examples
        --------
        >>> Target.parse("region=50%")
        Target(goal='group', value=0.5, column='region')
        """
        name, separator, number = (part.strip() for part in text.partition("="))
        try:
            value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            separator = ""
        if not separator or not name:
            raise InvalidInput(
                f"the target is {text!r}; "
                "say benefit=95%, wait=8 or, for a group column, region=0.5"
            )
        return cls(name, value) if name in ("benefit", "wait") else cls("group", value, name)

    def __str__(self) -> str:
        if self.goal == "group":
            return TARGETS["group"].format(self.column, 100 * self.value)
        return TARGETS[self.goal].format(self.value if self.goal == "wait" else 100 * self.value)


@dataclass(frozen=True)
class Evenness:
    """The policy of the draws: what makes help more even than gain alone would.

    Parameters
    ----------
    goal
        ``mu``, ``entropy``, ``never`` or ``wait``, as in `softfair.EvenHanded`.
    value
        The value of the goal; mu = 0 is SoftFair.

    Raises
    ------
    InvalidInput
        If the goal is not known, or the value is out of its range.
    """

    goal: str = "mu"
    value: float = 0.0

    def __post_init__(self) -> None:
        if self.goal not in ("mu", *GOALS):
            raise InvalidInput(
                f"EvenHanded has no {self.goal!r}; say EvenHanded:100 (mu), "
                "EvenHanded:entropy=4, EvenHanded:never=10% or EvenHanded:wait=20"
            )
        check_aim(self.goal, self.value)

    def policy(self, c: float) -> EvenHanded:
        """The policy with a multiplier c."""
        given: dict[str, Any] = {self.goal: self.value}
        return EvenHanded(c=c, **given)

    @property
    def is_softfair(self) -> bool:
        """Whether chances follow the gain alone."""
        return self.goal == "mu" and self.value == 0

    @classmethod
    def parse(cls, text: str) -> Evenness:
        """What ``SoftFair``, ``EvenHanded:100`` or ``EvenHanded:entropy=4`` asks for.

        Examples
        --------
        >>> Evenness.parse("EvenHanded:never=10%")
        Evenness(goal='never', value=0.1)
        """
        name, _, rest = (part.strip() for part in text.partition(":"))
        if name == "SoftFair" and not rest:
            return cls()
        goal, equals, number = (part.strip() for part in rest.rpartition("="))
        try:
            value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            name = ""
        if name != "EvenHanded":
            raise InvalidInput(
                f"the policy is {text!r}; say SoftFair, EvenHanded:100 (mu), "
                "EvenHanded:entropy=4, EvenHanded:never=10% or EvenHanded:wait=20"
            )
        return cls(goal if equals else "mu", value)

    def __str__(self) -> str:
        if self.is_softfair:
            return "SoftFair"
        return f"EvenHanded ({self.goal} = {self.value:g})"


SOFTFAIR = Evenness()
