"""Checks of the numbers of a witness, which may come from a file, before it is computed again.

A witness is evaluated by plain recursion over all joint states, so that the evaluation of a witness
with a wrong size could run for days.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InvalidInput

__all__ = ["LARGEST", "refuse_unusable"]

LARGEST = 6  # arms of an exact joint programme, which grows as 4^n times the number of sets
LONGEST = 1000  # decisions
MOST_LISTED = 500  # entries of a list of gaps, gains or chances
MOST_STEPS = 20_000_000  # arm-steps of Algorithm 1 in plain Python


def _number(x: Any) -> bool:
    """Whether x is a number that a float can hold."""
    if not isinstance(x, int | float) or isinstance(x, bool):
        return False
    return -1e300 < x < 1e300  # neither infinite nor, if whole, too large for a float


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    """The test for a whole number in a range."""
    return lambda x: _number(x) and x == int(x) and least <= x <= most


def _within(least: float, most: float) -> Callable[[Any], bool]:
    """The test for a number in a range."""
    return lambda x: _number(x) and least <= x <= most


def _each(entry: Callable[[Any], bool], most: int = MOST_LISTED) -> Callable[[Any], bool]:
    """The test for a list of entries that pass a test."""
    return lambda x: isinstance(x, list) and 0 < len(x) <= most and all(map(entry, x))


def _any_depth(entry: Callable[[Any], bool], most: int) -> Callable[[Any], bool]:
    """The test for lists of lists ... of entries, with at most ``most`` members at each level."""

    def fits(x: Any) -> bool:
        return (0 < len(x) <= most and all(map(fits, x))) if isinstance(x, list) else entry(x)

    return fits


_CHANCE, _STATE = _within(0.0, 1.0), _whole(0, 1)
_ONE_ARM = _each(_each(_CHANCE, 2), 2)
_REAL = _within(-1e6, 1e6)

# Name of an entry -> (test, words for what is allowed). Other entries are counts of the search.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "p": (
        lambda x: _ONE_ARM(x) or _each(_ONE_ARM, LARGEST)(x),
        f"chances p[a][s] of one arm, or p[i][a][s] of at most {LARGEST} arms, between 0 and 1",
    ),
    "n": (_whole(1, 1000), "a whole number between 1 and 1000"),
    "k": (_whole(1, 1000), "a whole number between 1 and 1000"),
    "T": (_whole(1, LONGEST), f"a whole number between 1 and {LONGEST}"),
    "t": (_whole(0, LONGEST), f"a whole number between 0 and {LONGEST}"),
    "episodes": (_whole(1, 100_000), "a whole number between 1 and 100000"),
    "runs": (_whole(2, 1000), "a whole number between 2 and 1000"),
    "gamma": (_CHANCE, "a number between 0 and 1"),
    "c": (lambda x: x == "inf" or _within(0.0, 1e4)(x), 'a number between 0 and 10000, or "inf"'),
    "cs": (_each(_within(0.0, 1e4), 2), "two numbers between 0 and 10000"),
    "m": (_REAL, "a number"),
    "reward": (_REAL, "a number"),
    "delta": (_within(0.0, 1e6), "a number of at least 0"),
    "gaps": (_each(_within(0.0, 1e6)), "numbers of at least 0"),
    "log_weights": (_each(_within(-700.0, 700.0), 8), "at most 8 numbers between -700 and 700"),
    "gains": (_any_depth(_REAL, LONGEST), "numbers"),
    "law": (_each(_CHANCE), "chances between 0 and 1"),
    "inclusion": (_each(_CHANCE), "chances between 0 and 1"),
    "prices": (_each(_REAL, LONGEST), "numbers"),
    "limits": (_each(_REAL, 2), "two numbers"),
    "few": (_whole(1, 100_000), "a whole number between 1 and 100000"),
    "shorter": (_whole(1, LONGEST), f"a whole number between 1 and {LONGEST}"),
    **dict.fromkeys(
        ("mean", "standard_error", "optimum", "sum", "sum_of_P", "lottery", "printed", "m_T"),
        (_REAL, "a number"),
    ),
    **dict.fromkeys(("xs", "ys", "active", "passive"), (_each(_REAL), "a list of numbers")),
    **dict.fromkeys(("endless", "soft"), (lambda x: isinstance(x, bool), "true or false")),
    "design": (lambda x: x in ("joint", "successive"), '"joint" or "successive"'),
    "V": (_each(_REAL, LONGEST + 1), "numbers"),
    "left": (_REAL, "a number"),
    "right": (_REAL, "a number"),
    "s": (lambda x: _STATE(x) or _each(_STATE, LARGEST)(x), "states 0 and 1"),
    "states": (_each(_each(_STATE, LARGEST), 2), "two lists of states 0 and 1"),
    "decisions_left": (
        lambda x: _whole(1, 50)(x) or _each(_whole(1, 50), 2)(x),
        "whole numbers between 1 and 50",
    ),
    **dict.fromkeys(
        ("a", "high", "low"), (_each(_whole(0, LARGEST + 2), LARGEST), "a list of arms")
    ),
    **dict.fromkeys(("i", "j", "x", "y"), (_whole(0, LARGEST + 2), "an arm")),
}


def refuse_unusable(claim: str, witness: Mapping[str, Any]) -> None:
    """Raise InvalidInput if an entry of the witness is missing or absurd."""
    missing = [name for name in ("left", "right") if name not in witness]
    if missing:
        raise InvalidInput(
            f"{claim}: the witness has no {missing[0]!r}; "
            "give one that softfair verify --json wrote"
        )
    for name, value in witness.items():
        if name in _RULES and not _RULES[name][0](value):
            raise InvalidInput(
                f"{claim}: {name} of the witness is {_short(value)}; give {_RULES[name][1]}"
            )
    arms = len(witness["p"]) if "p" in witness else LARGEST
    if witness.get("k", 0) > max(arms, witness.get("n", arms)) and "inclusion" not in witness:
        raise InvalidInput(f"{claim}: k of the witness is {witness['k']}, above the number of arms")
    steps = math.prod(witness.get(name, 1) for name in ("episodes", "runs", "T")) * arms
    if "episodes" in witness and steps > MOST_STEPS:
        raise InvalidInput(
            f"{claim}: the witness asks for {steps:.3g} steps of Algorithm 1; "
            f"give fewer than {MOST_STEPS:.0e}"
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
