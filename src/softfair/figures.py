"""Pictures: what fairness costs, and who is ever helped. Matplotlib is loaded when a picture is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_frontier", "draw_histograms", "new_figure"]

INK, FAINT = "#222222", "#999999"
COLOURS = (
    "#1f6fb4",
    "#d95f02",
    "#1b9e77",
    "#7570b3",
)  # told apart by colour-blind readers, and in print by their markers
MARKERS = ("o", "s", "^", "D")


def new_figure(
    columns: int = 1, width: float = 6.4, height: float = 4.4
) -> tuple[Figure, list[Axes]]:
    """A figure with ``columns`` axes side by side, bare of boxes; it belongs to no window, so none is needed to draw it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    axes = [figure.add_subplot(1, columns, column + 1) for column in range(columns)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(colors=INK)
    return figure, axes


def draw_frontier(
    ax: Axes,
    curves: Mapping[str, pd.DataFrame],
    marks: pd.DataFrame | None = None,
    against: str = "entropy",
) -> None:
    """Benefit against a measure of fairness: a line for each curve of `frontier`, a cross for each policy of a `compare` table."""
    for (label, curve), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
        ax.plot(
            curve[against],
            curve["benefit"],
            color=colour,
            marker=marker,
            markersize=5,
            label=label,
            zorder=3,
        )
    if marks is not None:
        ax.scatter(marks[against], marks["benefit"], marker="x", color=INK, s=30, zorder=4)
        named: dict[
            tuple[float, float], list[str]
        ] = {}  # policies that stand in one place share a label
        for _, point in marks.iterrows():
            here = (point[against], point["benefit"])
            near = [place for place in named if _distance(ax, place, here) < 0.03]
            named.setdefault(near[0] if near else here, []).append(point["policy"])
        for place, policies in named.items():
            right = ax.transData.transform(place)[0] < ax.bbox.x0 + 0.5 * ax.bbox.width
            shift, side = ((7, -11), "left") if right else ((-7, -11), "right")
            ax.annotate(
                ", ".join(policies),
                place,
                shift,
                textcoords="offset points",
                ha=side,
                color=INK,
                fontsize=8,
            )
    sides = (
        ((5, 5), "left"),
        ((-6, -11), "right"),
    )  # labels of neighbouring curves keep out of each other's way
    for number, (curve, colour) in enumerate(zip(curves.values(), COLOURS, strict=False)):
        shift, side = sides[number % 2]
        written: list[tuple[float, float]] = []
        for _, point in curve.iterrows():
            here = (point[against], point["benefit"])
            if all(_distance(ax, place, here) > 0.09 for place in written):  # no room for every c
                written.append(here)
                text = "c = \u221e" if np.isinf(point["c"]) else f"c = {point['c']:g}"
                ax.annotate(
                    text, here, shift, textcoords="offset points", ha=side, color=colour, fontsize=8
                )
    names = {
        "entropy": "action entropy (higher: spread more evenly)",
        "never_selected": "share of arms never helped",
    }
    ax.set_xlabel(names.get(against, against))
    ax.set_ylabel("intervention benefit, % of the Oracle's")
    ax.grid(color=FAINT, alpha=0.25)
    if len(curves) > 1:
        ax.legend(frameon=False)


def _distance(ax: Axes, a: tuple[float, float], b: tuple[float, float]) -> float:
    """Between two points of the data, as a share of the picture."""
    shares = (ax.transData.transform(a) - ax.transData.transform(b)) / (
        ax.bbox.width,
        ax.bbox.height,
    )
    return float(np.hypot(*shares))


def draw_histograms(axes: list[Axes], counts: Mapping[str, ArrayLike]) -> None:
    """How often arms were helped (Figure 1 of the paper): a panel for each policy, counts [n] of one run; the bar of nobody in red."""
    most = max(int(np.max(values)) for values in counts.values())
    bins = (
        np.arange(most + 2) - 0.5
        if most <= 40
        else np.concatenate([[-0.5, 0.5], np.linspace(0.5, most + 0.5, 41)[1:]])
    )
    tallest = 0.0
    for ax, (label, values), colour in zip(axes, counts.items(), cycle(COLOURS), strict=False):
        times = np.asarray(values)
        heights, _, bars = ax.hist(times, bins=bins.tolist(), color=colour)
        bars[0].set_facecolor("#c0392b")  # type: ignore[index, union-attr]
        never = 100 * np.mean(times == 0)
        ax.set_title(f"{label}: {never:.0f} % never helped", fontsize=10, color=INK)
        ax.set_xlabel("times helped")
        ax.set_ylabel("arms")
        tallest = max(tallest, float(np.max(heights)))
    for ax in axes:
        ax.set_ylim(0, 1.05 * tallest)
