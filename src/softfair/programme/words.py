"""How figures are written in sentences."""

from __future__ import annotations

import math

__all__ = ["percent"]

ROUNDING = 1e-9  # a probability so close to 1 is 100 %, one so close to 0 is less than 0.0000001 %


def percent(p: float) -> str:
    """A probability in per cent; 0 % only if it is 0, 100 % only within ROUNDING of 1.

    Examples
    --------
    >>> percent(0.123), percent(0.00004), percent(0.0), percent(0.99999), percent(1.0)
    ('12.3%', '0.004%', '0%', '99.999%', '100%')
    """
    if p == 0 or p > 1 - ROUNDING:
        return "0%" if p == 0 else "100%"
    if p < ROUNDING:
        return "less than 0.0000001%"
    # Enough digits to tell it from 0 and from 100 %, at least one after the point.
    digits = max(1, math.ceil(-math.log10(min(p, 1 - p)) - 2 - 1e-6))
    return f"{100 * p:.{digits}f}%"
