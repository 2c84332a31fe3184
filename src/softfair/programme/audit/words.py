"""How figures are written, in findings and in tables."""

from __future__ import annotations

import math
from collections.abc import Callable

NONE = "–"  # in place of a figure that is not known
LEAST_P = 0.001  # a smaller p is written as less than this


def count(number: int, noun: str, nouns: str | None = None) -> str:
    """A number and its noun: 1 place, 2 places."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def chance(p: float) -> str:
    """The result of a test in a sentence."""
    return f"p < {LEAST_P}" if p < LEAST_P else f"p = {p:.2g}"


def p_value(p: float, flagged: bool = False) -> str:
    """The result of a test in a table; (!) marks what chance does not explain."""
    shown = NONE if math.isnan(p) else f"<{LEAST_P}" if p < LEAST_P else f"{p:.3f}"
    return f"{shown} (!)" if flagged else shown


def points(share: float) -> str:
    """A difference of shares, in percentage points, with its sign."""
    return f"{100 * share:+.1f}"


def percent(share: float, digits: int = 1) -> str:
    """A share, in per cent."""
    return NONE if math.isnan(share) else f"{100 * share:.{digits}f} %"


def number(value: float | None, digits: int = 1) -> str:
    """A number with ``digits`` digits after the point; a final .0 is left out."""
    if value is None or math.isnan(value):
        return NONE
    return f"{value:.{digits}f}".removesuffix(".0")


def floored(value: float) -> str:
    """A number rounded down to a tenth, so that it does not look as large as a bound above it."""
    return f"{math.floor(10 * value) / 10:g}"


def interval(low: float, high: float, form: Callable[[float], str]) -> str:
    """The ends of an interval in brackets, to follow its estimate; empty if they are not known."""
    return "" if math.isnan(low) else f" ({form(low)} to {form(high)})"
