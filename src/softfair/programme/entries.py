"""One entry of a file: from its text to a whole number, or a ValueError that says what is wrong.

The message of a ValueError continues the sentence "line 3, column round: 'x' ...": the problem,
then what to do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from ..errors import InvalidInput
from .store import UNKNOWN

__all__ = [
    "CLEARED",
    "STRIDE",
    "UNPRINTABLE",
    "flag",
    "group",
    "identifier",
    "optional_round",
    "round_number",
    "state_reader",
    "threshold_reader",
]

CLEARED = -3  # an entry that removes a round that was set before
STRIDE = 2**31  # rounds are below this, so that person * STRIDE + round is one number for both
# Control characters, and marks that change the direction of text.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
FLAGS = {"1": 1, "yes": 1, "true": 1, "y": 1, "t": 1, "0": 0, "no": 0, "false": 0, "n": 0, "f": 0}

Reader = Callable[[str], int]


def identifier(text: str) -> int:
    """Check a person's identifier; the number returned means nothing."""
    if not text:
        raise ValueError("is empty; give each person an identifier")
    if UNPRINTABLE.search(text):
        raise ValueError("has a line break or control character; give plain text")
    return 0


def group(text: str) -> int:
    """Check a value of a group column, which may be empty; the number returned means nothing."""
    return identifier(text) if text else 0


def round_number(text: str) -> int:
    """A round: 7 or 7.0."""
    match = re.fullmatch(r"([0-9]{1,10})(\.0+)?", text)
    if not match or int(match[1]) >= STRIDE:
        raise ValueError("is no round; give a whole number of at least 0")
    return int(match[1])


def optional_round(text: str) -> int:
    """A round, UNKNOWN for an empty entry, CLEARED for ``none``."""
    if text.lower() == "none":
        return CLEARED
    return round_number(text) if text else UNKNOWN


def flag(text: str) -> int:
    """1 for yes, 0 for no, UNKNOWN for an empty entry."""
    if not text:
        return UNKNOWN
    if text.lower() not in FLAGS:
        raise ValueError("is neither yes nor no; give 1 or 0, or nothing if it is not known")
    return FLAGS[text.lower()]


def state_reader(states: tuple[str, ...]) -> Reader:
    """The reader of states by their name or, unless names look like numbers, by their number."""
    number_of = {name.lower(): s for s, name in enumerate(states)}
    # A name such as "1" could be mistaken for the number of another state.
    if not any(re.fullmatch(r"[-+]?[0-9.]+", name) for name in states):
        number_of |= {str(s): s for s in range(len(states))}

    def read(text: str) -> int:
        if not text:
            return UNKNOWN
        if text.lower() not in number_of:
            choices = ", ".join(
                f"{s} or {name}" if str(s) in number_of and str(s) != name else name
                for s, name in enumerate(states)
            )
            raise ValueError(f"is no state; give {choices}, or nothing if it is not known")
        return number_of[text.lower()]

    return read


def threshold_reader(threshold: str, states: tuple[str, ...]) -> Reader:
    """The reader of numbers that are good from a threshold up (``4``), or up to it (``<=3``)."""
    match = re.fullmatch(r"\s*(>=|<=)?\s*([-+0-9.eE]+)\s*", threshold)
    limit = _number(match[2]) if match else math.nan
    if match is None or math.isnan(limit):
        raise InvalidInput(
            f"the threshold is {threshold!r}; "
            "give a number such as 4 (good from 4 up) or '<=3' (good up to 3)"
        )
    if len(states) != 2:
        raise InvalidInput(
            f"a threshold tells two states apart, the programme has {len(states)}; "
            "give states by name"
        )
    sign = -1 if match[1] == "<=" else 1

    def read(text: str) -> int:
        if not text:
            return UNKNOWN
        value = _number(text)
        if math.isnan(value):
            raise ValueError("is no number; give a number, or nothing if it is not known")
        return int(sign * value >= sign * limit)

    return read


def _number(text: str) -> float:
    """The number that a text stands for, nan for none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
