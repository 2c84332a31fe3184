"""Promises of a programme: what holds in every draw for certain, and not on average."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InvalidInput
from .words import percent

__all__ = ["NO_PROMISE", "Promise"]

LONGEST = 10_000  # lists: as far as a plan may look ahead
SAY = "say wait=8, wait=8,from=21 (count from round 21 on) or chance=0.5%"


@dataclass(frozen=True)
class Promise:
    """What everybody in the draw is promised.

    Parameters
    ----------
    goal
        ``wait`` or ``chance``.
    value
        For ``wait`` a number of lists: of any so many lists in a row that a person could be on,
        they are on at least one. For ``chance`` the least chance that anybody has in any draw; 0
        promises nothing.
    since
        The first round whose list counts, for ``wait``.

    Raises
    ------
    InvalidInput
        If the goal is not known, or the value is out of its range.
    """

    goal: str = "chance"
    value: float = 0.0
    since: int = 0

    def __post_init__(self) -> None:
        if self.goal not in ("wait", "chance"):
            raise InvalidInput(f"the promise is {self.goal!r}; {SAY}")
        if self.goal == "wait" and not (
            1 <= self.value <= LONGEST and float(self.value).is_integer()
        ):
            raise InvalidInput(
                f"the promised wait is {self.value:g}; give a whole number of lists from 1 to "
                f"{LONGEST}"
            )
        if self.goal == "chance" and not 0 <= self.value <= 1:
            raise InvalidInput(
                f"the promised chance is {self.value:g}; give one between 0 and 1, such as 0.5%"
            )
        if self.since and (self.goal != "wait" or self.since < 0):
            raise InvalidInput(f"the promise counts from round {self.since}; {SAY}")

    @classmethod
    def parse(cls, text: str) -> Promise:
        """The promise in a text such as ``wait=8``, ``wait=8,from=21``, ``chance=0.5%`` or none.

        Examples
        --------
        >>> Promise.parse("chance=0.5%")
        Promise(goal='chance', value=0.005, since=0)
        """
        if text.strip() == "none":
            return NO_PROMISE
        first, *others = [part.partition("=") for part in text.split(",")]
        goal, number = first[0].strip(), first[2].strip()
        try:
            value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
            since = [int(many) for name, _, many in others if name.strip() == "from"]
            if len(since) != len(others) or len(since) > 1:
                raise ValueError
        except ValueError:
            raise InvalidInput(f"the promise is {text!r}; {SAY}") from None
        if goal == "chance" and not value > 0:
            raise InvalidInput(f"the promise is {text!r}, which promises nothing; say none")
        return cls(goal, value, *since)

    @property
    def is_none(self) -> bool:
        """Whether nothing is promised."""
        return self.goal == "chance" and self.value == 0

    @property
    def W(self) -> int:
        """Of how many lists in a row everybody is on one; 0: that is not promised."""
        return int(self.value) if self.goal == "wait" else 0

    @property
    def floor(self) -> float:
        """The least chance; 0: none is promised."""
        return self.value if self.goal == "chance" else 0.0

    def __str__(self) -> str:
        if self.is_none:
            return "none"
        if self.goal == "chance":
            return f"nobody in a draw has a chance below {percent(self.value)}"
        since = f", from round {self.since} on" if self.since else ""
        return f"everybody is on one of any {self.W} lists in a row that they could be on{since}"


NO_PROMISE = Promise()


def rounded_down(chance: float) -> str:
    """A chance that can be promised, in per cent with three digits.

    Examples
    --------
    >>> rounded_down(30 / 290)
    '10.3%'
    """
    if chance <= 0:
        return "0%"
    digits = 2 - math.floor(math.log10(100 * chance))
    step = 10.0**digits
    return f"{math.floor(100 * chance * step * (1 + 1e-12)) / step:.{max(digits, 0)}f}%"
