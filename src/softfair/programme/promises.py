"""Promises of a programme: what holds in every draw for certain, and not on average."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InvalidInput
from .schema import BEYOND
from .words import percent

__all__ = ["NO_PROMISE", "Promise", "Share"]

LONGEST = 10_000  # lists: as far as a plan may look ahead
MOST = 1_000_000_000  # places on a list
SAY = (
    "say wait=8, wait=8,from=21 (count from round 21 on), chance=0.5%, "
    "share region=north>=30% (or <=30%, ==30%, ==6 places), one household (at most one of each), "
    "or several with a semicolon between them"
)
SHARE = re.compile(r"share\s+(?P<column>[^=<>]+)=(?P<value>.+?)(?P<sign>>=|<=|==)(?P<number>.+)")
BOUNDS = {">=": "at least", "<=": "at most", "==": "exactly"}


@dataclass(frozen=True)
class Share:
    """A bound on the places of every list that go to people with a value of a group column.

    Parameters
    ----------
    column, value
        The group column and its value; an empty value stands for people without one.
    sign
        ``>=``, ``<=`` or ``==``.
    number
        A share of the places of a list, or, if ``whole``, a number of places.
    whole
        Whether the number counts places.

    Raises
    ------
    InvalidInput
        If the sign is not known, or the number is out of its range.
    """

    column: str
    value: str
    sign: str
    number: float
    whole: bool = False

    def __post_init__(self) -> None:
        top = MOST if self.whole else 1
        integral = not self.whole or float(self.number).is_integer()
        if self.sign not in BOUNDS or not 0 <= self.number <= top or not integral:
            raise InvalidInput(
                f"the promised share is {self.sign}{self.number:g}; give a share from 0% to 100%, "
                "or a whole number of places"
            )

    @classmethod
    def parse(cls, text: str) -> Share:
        """The bound in a text such as ``share region=north>=30%``.

        Examples
        --------
        >>> Share.parse("share region=north>=30%")
        Share(column='region', value='north', sign='>=', number=0.3, whole=False)
        """
        given = SHARE.fullmatch(text)
        if given is None:
            raise ValueError
        number = given["number"].strip()
        share = number.endswith("%")
        value = float(number.removesuffix("%")) / (100 if share else 1)
        return cls(given["column"].strip(), given["value"].strip(), given["sign"], value, not share)

    def bounds(self, k: int) -> tuple[int, int]:
        """The least and the greatest number of places that the bound allows, of k.

        A share that is no whole number of places is rounded so that the bound is kept; for ``==``
        both whole numbers next to it are allowed.

        Examples
        --------
        >>> Share("region", "north", ">=", 0.3).bounds(31), Share("sex", "f", "==", 0.5).bounds(31)
        ((10, 31), (15, 16))
        """
        exact = self.number if self.whole else self.number * k
        up, down = math.ceil(exact - 1e-9), math.floor(exact + 1e-9)
        if self.sign == ">=":
            return up, max(k, up)
        return (0, down) if self.sign == "<=" else (down, up)

    def with_places(self, places: int) -> Share:
        """The bound of the same sign on a number of places."""
        return replace(self, number=float(places), whole=True)

    @property
    def said(self) -> str:
        """The bound as a text that `parse` reads."""
        number = f"{self.number:g}" if self.whole else f"{100 * self.number:.6g}%"
        return f"share {self.column}={self.value}{self.sign}{number}"

    def __str__(self) -> str:
        number = f"{self.number:g} places" if self.whole else f"{100 * self.number:.6g}% of places"
        value = self.value or "(none given)"
        return f"{BOUNDS[self.sign]} {number} of every list for {self.column} {value}"


@dataclass(frozen=True)
class Promise:
    """What everybody in the draw is promised; all of it holds at once.

    Parameters
    ----------
    wait
        A number w of lists: of any w lists in a row that a person could be on, the person is on at
        least one. 0: no wait is promised.
    since
        The first round whose list counts, for ``wait``.
    chance
        The least chance that anybody has in any draw; 0: none is promised.
    shares
        Bounds on the places of groups.
    one
        A group column, such as household: a list has at most one person of each of its values.
        Empty: that is not promised.

    Raises
    ------
    InvalidInput
        If a number is out of its range, or the promises cannot all be kept together.
    """

    wait: int = 0
    since: int = 0
    chance: float = 0.0
    shares: tuple[Share, ...] = ()
    one: str = ""

    def __post_init__(self) -> None:
        if not (0 <= self.wait <= LONGEST and float(self.wait).is_integer()):
            raise InvalidInput(
                f"the promised wait is {self.wait:g}; give a whole number of lists from 1 to "
                f"{LONGEST}"
            )
        if not 0 <= self.chance <= 1:
            raise InvalidInput(
                f"the promised chance is {self.chance:g}; give one between 0 and 1, such as 0.5%"
            )
        if self.since and not (self.wait and 0 < self.since < BEYOND):
            raise InvalidInput(f"the promise counts from round {self.since}; {SAY}")
        if self.wait and self.one and self.chance:
            raise InvalidInput(
                f"beside a wait and at most one of each {self.one} no chance can be promised: if "
                f"two of one {self.one} have a chance on every list, luck may leave either of them "
                "off any number of lists; promise two of the three"
            )

    @classmethod
    def parse(cls, text: str) -> Promise:
        """The promise in a text such as ``wait=8``, ``chance=0.5%; share region=north>=30%``.

        Examples
        --------
        >>> Promise.parse("wait=8; chance=0.5%")
        Promise(wait=8, since=0, chance=0.005, shares=(), one='')
        """
        if text.strip() == "none":
            return NO_PROMISE
        fields: dict[str, Any] = {}
        shares: list[Share] = []
        for part in (part.strip() for part in text.split(";")):
            try:
                if part.startswith("share "):
                    shares.append(Share.parse(part))
                    continue
                given = _part(part)
                if fields.keys() & given.keys():
                    raise ValueError
                fields |= given
            except InvalidInput:
                raise
            except (ValueError, OverflowError):
                raise InvalidInput(f"the promise is {text!r}; {SAY}") from None
        return cls(**fields, shares=tuple(shares))

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Promise:
        """From what `dataclasses.asdict` gives, or gave in versions before there were shares."""
        if "goal" in fields:
            value, since = fields["value"], fields.get("since", 0)
            return cls(int(value), since) if fields["goal"] == "wait" else cls(chance=value)
        shares = tuple(Share(**one) for one in fields.get("shares", ()))
        return cls(**{**fields, "shares": shares})

    @property
    def is_none(self) -> bool:
        """Whether nothing is promised."""
        return self == NO_PROMISE

    @property
    def grouped(self) -> bool:
        """Whether anything is promised of groups."""
        return bool(self.shares or self.one)

    @property
    def columns(self) -> tuple[str, ...]:
        """The group columns that the promise is about, each once."""
        named = [share.column for share in self.shares] + [self.one] * bool(self.one)
        return tuple(dict.fromkeys(named))

    @property
    def said(self) -> str:
        """The promise as a text that `parse` reads.

        Examples
        --------
        >>> Promise.parse("chance=0.5%; wait=8,from=21").said
        'wait=8,from=21; chance=0.5%'
        """
        since = f",from={self.since}" if self.since else ""
        parts = [f"wait={self.wait}{since}"] * bool(self.wait)
        parts += [f"chance={100 * self.chance:.10g}%"] * bool(self.chance)
        parts += [share.said for share in self.shares]
        parts += [f"one {self.one}"] * bool(self.one)
        return "; ".join(parts) or "none"

    def __str__(self) -> str:
        parts = [str(share) for share in self.shares]
        if self.one:
            parts.append(f"at most one of each {self.one} on every list")
        if self.chance:
            parts.append(f"nobody in a draw has a chance below {percent(self.chance)}")
        if self.wait:
            since = f", from round {self.since} on" if self.since else ""
            lists = f"any {self.wait} lists in a row that they could be on"
            parts.append(f"everybody is on one of {lists}{since}")
        return "; ".join(parts) or "none"


NO_PROMISE = Promise()


def _part(text: str) -> dict[str, Any]:
    """One part of the text of a promise, as fields of `Promise`; ValueError: it is no promise."""
    if text.startswith("one "):
        return {"one": text.removeprefix("one ").strip()}
    first, *others = [part.partition("=") for part in text.split(",")]
    goal, number = first[0].strip(), first[2].strip()
    value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    since = [int(many) for name, _, many in others if name.strip() == "from"]
    if len(since) != len(others) or len(since) > 1:
        raise ValueError
    if goal == "chance" and not since:
        if value == 0:
            raise InvalidInput("a promised chance of 0 promises nothing; say none")
        return {"chance": value}
    if goal != "wait" or number.endswith("%"):
        raise ValueError
    if not value >= 1 or not float(value).is_integer():
        raise InvalidInput(
            f"the promised wait is {value:g}; give a whole number of lists from 1 to {LONGEST}"
        )
    return {"wait": int(value), **({"since": since[0]} if since else {})}


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
