"""The names and the picture of columns about people: which column matters for what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..figures import COLOURS, FAINT, INK, LONGEST_NAME, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_columns", "name_of"]

MOST_ROWS = 40  # columns that matter most; more would not be legible


def draw_columns(told: Sequence[Sequence[Any]], best: str, level: float) -> Figure:
    """Draw how each column goes with the odds of the best state and with the effect of a contact.

    Parameters
    ----------
    told : sequence of [column, value, interval, interval]
        As in :class:`softfair.programme.models.Summary`: the difference in logits that goes with a
        value of a column, or with a number that is higher by one standard deviation.
    best : str
        Name of the best state.
    level : float
        The level of the intervals.

    Returns
    -------
    Figure
        Factors on the odds; a factor of 1 means that a column tells nothing.

    Raises
    ------
    InvalidInput
        If no column is used.
    """
    from matplotlib import rc_context

    if not told:
        raise InvalidInput(
            "the model uses no columns, so there is nothing to draw; import people with columns"
        )
    rows = sorted(told, key=lambda row: -max(abs(row[2][0]), abs(row[3][0])))[:MOST_ROWS][::-1]
    names = [name_of(column, value)[:LONGEST_NAME] for column, value, *_ in rows]
    titles = (f"odds of {best} next, without a contact", "odds that a contact adds to them")
    with rc_context({"text.parse_math": False}):  # a column may be called $x
        figure, axes = new_figure(2, width=4.8, height=1.2 + 0.28 * len(rows))
        for ax, title, part in zip(axes, titles, (2, 3), strict=True):
            ax.axvline(1.0, color=FAINT, linewidth=1)
            for y, row in enumerate(rows):
                value, low, high = (math.exp(one) for one in row[part])
                colour = COLOURS[0] if low > 1 or high < 1 else INK
                ax.plot([low, high], [y, y], color=colour, linewidth=1.5)
                ax.plot([value], [y], "o", color=colour, markersize=5)
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter("{x:g}")
            ax.set_yticks(range(len(rows)), names if part == 2 else [""] * len(rows))
            ax.set_title(f"Factor on the {title}", fontsize=10)
            ax.set_xlabel(f"{level:.0%} intervals; in colour: 1 is outside")
    return figure


def name_of(column: str, value: str) -> str:
    """A value of a column, or a column of numbers, as sentences and pictures name it."""
    return f"{column} {value}" if value else f"a higher {column}"
