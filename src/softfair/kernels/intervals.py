"""The shortest interval that holds a share of a histogram, for :mod:`softfair.estimate`."""

from __future__ import annotations

from numba import njit

from .elementary import COMPILE

__all__ = ["shortest_intervals"]


@njit(**COMPILE)
def _chance(up):
    """The chance at a place of the histogram's scale, both from 0 to 1."""
    return up * up / (up * up + (1.0 - up) * (1.0 - up))


@njit(**COMPILE)
def shortest_intervals(histogram, level, low, high):
    """Fill ``low`` and ``high`` [m] with the ends of the shortest intervals of chances.

    Each interval holds at least the share ``level`` of a row of ``histogram`` [m, B]. Bins have
    equal widths on a scale u with the chance u^2 / (u^2 + (1 - u)^2), and the mass of a bin is
    spread evenly over it. One end of the interval is the border of a bin, the other lies within a
    bin. The error is less than the width of a bin. It is 0 if the density is largest at 0 or at 1,
    because then the interval ends there.
    """
    m, B = histogram.shape
    for i in range(m):
        row = histogram[i]
        total = 0.0
        for j in range(B):
            total += row[j]
        need = level * total
        low[i], high[i] = 0.0, 1.0
        # From the lower border of bin a on; ``inside`` is the mass of bins a .. b - 1.
        b, inside = 0, 0.0
        for a in range(B):
            while b < B and inside < need:
                inside += row[b]
                b += 1
            if inside < need:
                break
            end = b / B if row[b - 1] <= 0.0 else (b - (inside - need) / row[b - 1]) / B
            left, right = _chance(a / B), _chance(min(end, 1.0))
            if right - left < high[i] - low[i]:
                low[i], high[i] = left, right
            inside -= row[a]
        # Down from the upper border of bin b - 1; ``inside`` is the mass of bins a .. b - 1.
        a, inside = B, 0.0
        for b in range(B, 0, -1):
            while a > 0 and inside < need:
                a -= 1
                inside += row[a]
            if inside < need:
                break
            end = a / B if row[a] <= 0.0 else (a + (inside - need) / row[a]) / B
            left, right = _chance(max(end, 0.0)), _chance(b / B)
            if right - left < high[i] - low[i]:
                low[i], high[i] = left, right
            inside -= row[b - 1]
