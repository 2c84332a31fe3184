"""How figures are written in sentences."""

from __future__ import annotations

import math

__all__ = ["percent"]

ROUNDING = 1e-9  # within which of 0 or 1 a probability is not told from it


def percent(p: float) -> str:
    """A probability in per cent, never 0 or 100 % unless it is just that.

    Examples
    --------
    >>> percent(0.123), percent(0.00004), percent(0.0), percent(0.99999), percent(1.0)
    ('12.3%', '0.004%', '0%', '99.999%', '100%')
    """
    if p == 0 or p > 1 - ROUNDING:
        return "0%" if p == 0 else "100%"
    if p < ROUNDING:
        return "less than 0.0000001%"
    # As many digits as tell it from 0 and from 100 %, at least one after the point.
    digits = max(1, math.ceil(-math.log10(min(p, 1 - p)) - 2 - 1e-6))
    return f"{100 * p:.{digits}f}%"
