"""The pictures of an audit. Matplotlib is loaded when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...figures import COLOURS, FAINT, INK, LONGEST_NAME, NEVER, new_figure
from .groups import GroupRow, Rate
from .result import Audit
from .tables import outcome_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Picture", "pictures"]

WIDTH = 4.8  # inches: the letters stay legible on a telephone
MOST_BARS = 40


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, and what it shows in words."""

    name: str
    figure: Figure


def pictures(audit: Audit, key: str) -> list[Picture]:
    """The pictures that belong to one table.

    Parameters
    ----------
    audit : Audit
        What was found.
    key : str
        Of the table's section.

    Returns
    -------
    list of Picture
        Empty where a table has no picture.
    """
    if key not in DRAWN:
        return []
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # a group may be called $x
        return list(DRAWN[key](audit))


@dataclass(frozen=True)
class _Share:
    """A share with the interval around it, or around what was expected."""

    value: float
    low: float
    high: float


def _against(
    ax: Axes, expected: Sequence[_Share], seen: Sequence[float], top: float, words: tuple[str, str]
) -> None:
    """Shares seen against shares expected, in per cent, with the range where they should be."""
    centre, low, high = (
        100 * np.array([getattr(share, part) for share in expected])
        for part in ("value", "low", "high")
    )
    ax.plot([0, 100 * top], [0, 100 * top], color=FAINT, linewidth=1)
    ax.errorbar(
        centre,
        centre,
        yerr=np.array([centre - low, high - centre]),
        fmt="none",
        color=FAINT,
        capsize=3,
        label=words[0],
    )
    ax.plot(centre, 100 * np.array(seen), "o", color=COLOURS[0], label=words[1])
    ax.legend(frameon=False)


def _draw_lists(audit: Audit) -> Iterator[Picture]:
    figure, (ax,) = new_figure(width=WIDTH, height=3.2)
    stated = [
        _Share(row.expected / row.in_draw, row.low / row.in_draw, row.high / row.in_draw)
        for row in audit.lists
    ]
    listed = [row.listed / row.in_draw for row in audit.lists]
    top = 1.05 * max(share.value for share in stated)
    _against(ax, stated, listed, top, ("range expected", "listed"))
    ax.set_xlabel("stated chance, %")
    ax.set_ylabel("listed, %")
    yield Picture("stated chance against share listed", figure)


def _draw_calibration(audit: Audit) -> Iterator[Picture]:
    figure, (ax,) = new_figure(width=WIDTH, height=3.2)
    predicted = [_Share(row.predicted, row.low, row.high) for row in audit.calibration]
    observed = [row.observed for row in audit.calibration]
    _against(ax, predicted, observed, 1.0, ("range if the model is right", "observed"))
    ax.set_xlabel(f"predicted chance of {audit.states[-1]}, %")
    ax.set_ylabel("observed, %")
    yield Picture("predicted chance against observed share", figure)


def _draw_spread(audit: Audit) -> Iterator[Picture]:
    histograms = audit.histograms
    for counts, label, colour, first in (
        (histograms.listed, "times listed", COLOURS[0], NEVER),
        (histograms.contacted, "times contacted in planned rounds", COLOURS[1], NEVER),
        (histograms.waiting, "rounds waited by now without a contact", COLOURS[3], COLOURS[3]),
    ):
        if counts:
            figure, (ax,) = new_figure(width=WIDTH, height=2.4)
            _bars(ax, counts, colour, first)
            ax.locator_params(axis="x", integer=True)
            ax.set_xlabel(label)
            ax.set_ylabel("people")
            yield Picture(f"histogram: {label}", figure)


def _bars(ax: Axes, counts: Sequence[int], colour: str, first: str) -> None:
    """A histogram of 0, 1, 2, ...; the bar of 0, if it stands alone, in the colour ``first``."""
    width = -(-len(counts) // MOST_BARS)
    starts = np.arange(0, len(counts), width)
    heights = np.add.reduceat(np.asarray(counts), starts)
    bars = ax.bar(starts + (width - 1) / 2, heights, width=0.9 * width, color=colour)
    if width == 1:
        bars[0].set_facecolor(first)


def _dots(ax: Axes, rows: Sequence[tuple[str, _Share]], centre: float) -> None:
    """A line for each row, in per cent: a name, a dot for the value, a bar for the interval."""
    for place, (_, share) in enumerate(rows):
        ends = [100 * share.low, 100 * share.high]
        ax.plot(ends, [place, place], color=COLOURS[0], linewidth=2)
        ax.plot([100 * share.value], [place], "o", color=COLOURS[0])
    ax.axvline(100 * centre, color=FAINT, linewidth=1)
    names = [name[:LONGEST_NAME] for name, _ in rows]
    ax.set_yticks(range(len(rows)), names, color=INK)
    ax.set_ylim(len(rows) - 0.5, -0.5)  # the first on top


def _draw_groups(audit: Audit) -> Iterator[Picture]:
    outcome = f"{outcome_name(audit)} after, %"
    yield from _draw_rates(audit.groups, lambda row: row.selection, "listed, % of rounds")
    yield from _draw_rates(audit.groups, lambda row: row.outcome, outcome)


def _draw_rates(
    groups: Sequence[GroupRow], rate_of: Callable[[GroupRow], Rate], label: str
) -> Iterator[Picture]:
    """One rate of every group that has it; the first row is everybody's."""
    rows = [
        (f"{row.column} {row.value}", _Share(rate.rate, rate.low, rate.high))
        for row in groups[1:]
        if not math.isnan((rate := rate_of(row)).rate)
    ]
    if rows:
        figure, (ax,) = new_figure(width=WIDTH, height=1.2 + 0.28 * len(rows))
        _dots(ax, rows, rate_of(groups[0]).rate)
        ax.set_xlabel(f"{label}\n(line: everybody)")
        yield Picture(f"by group: {label}", figure)


def _draw_policies(audit: Audit) -> Iterator[Picture]:
    """Differences from the programme's own policy, which is the first row."""
    rows = [
        (row.policy, _Share(row.difference, row.difference_low, row.difference_high))
        for row in audit.off_policy[1:]
        if row.estimable
    ]
    if rows:
        figure, (ax,) = new_figure(width=WIDTH, height=1.2 + 0.3 * len(rows))
        _dots(ax, rows, 0.0)
        label = f"{outcome_name(audit)}:\ndifference from what was drawn, points"
        ax.set_xlabel(label)
        yield Picture("other policies against the lists drawn", figure)


DRAWN: dict[str, Callable[[Audit], Iterator[Picture]]] = {
    "lists": _draw_lists,
    "spread": _draw_spread,
    "groups": _draw_groups,
    "off_policy": _draw_policies,
    "calibration": _draw_calibration,
}
