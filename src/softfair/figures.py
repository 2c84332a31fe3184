"""Pictures of benefit against fairness, and of how often arms are helped.

Matplotlib is loaded when a picture is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "PointLabel",
    "axes_for",
    "draw_frontier",
    "draw_histograms",
    "draw_limit",
    "label_points",
    "new_figure",
]

LONGEST_NAME = 32  # characters beside an axis
INK, FAINT, NEVER = "#222222", "#999999", "#c0392b"
SHADE, SHADE_EDGE, SHADE_INK = "#e4e4e8", "#8a8a99", "#5d5d6b"  # for points that no policy reaches
# Colour-blind readers can tell these colours apart; in print the markers differ.
COLOURS = (
    "#1f6fb4",
    "#d95f02",
    "#1b9e77",
    "#7570b3",
    "#e6ab02",
    "#66a61e",
    "#a6761d",
    "#e7298a",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "<", "X")

AXIS_LABELS = {
    "entropy": "action entropy (higher: spread more evenly)",
    "never_selected": "share of arms never helped",
}
BENEFIT_LABEL = "intervention benefit, % of the Oracle's"
SAME_PLACE = 0.03  # share of the picture: policies nearer to each other than this share one label
LABEL_SIZE = 8  # points
CLEARANCE = 3.0  # pixels between a label and other parts of the picture
DISTANCES = (4.0, 8.0, 14.0, 22.0, 32.0, 46.0, 64.0)  # points between a label and its point
LEADER = 14.0  # points; a label at least this far from its point gets a line to it


@dataclass(frozen=True)
class PointLabel:
    """A text beside a point of the data.

    Parameters
    ----------
    text : str
        The text.
    x, y : float
        The point, in the units of the axes.
    colour : str
        The colour of the text.
    needed : bool
        Whether the text must be written even if there is no free room for it.
    """

    text: str
    x: float
    y: float
    colour: str = INK
    needed: bool = True


def new_figure(
    columns: int = 1, width: float = 6.4, height: float = 4.4, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Make a figure with rows and columns of axes, without boxes around them.

    Parameters
    ----------
    columns : int
        Number of axes in a row.
    width, height : float
        Size of each, in inches.
    rows : int
        Number of rows.

    Returns
    -------
    tuple of Figure and list of Axes
        The figure belongs to no window, so that it can be drawn without a screen.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, place + 1) for place in range(rows * columns)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(colors=INK)
    return figure, axes


def axes_for(ax: Axes | None) -> Axes:
    """The axes on which a ``plot`` method draws: ``ax``, or new axes that a notebook shows.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    if ax is not None:
        return ax
    from matplotlib import pyplot

    new_axes: Axes = pyplot.subplots(layout="constrained")[1]
    new_axes.spines[["top", "right"]].set_visible(False)
    return new_axes


def draw_frontier(
    ax: Axes,
    curves: Mapping[str, pd.DataFrame],
    marks: pd.DataFrame | None = None,
    against: str = "entropy",
    bound: pd.DataFrame | None = None,
) -> None:
    """Draw benefit against a measure of fairness.

    Parameters
    ----------
    ax : Axes
        Where to draw. Set the title before, so that labels are placed in the final layout.
    curves : mapping of str to DataFrame
        The tables that :func:`softfair.frontier` returned, by the name of the curve; one line for
        each. Points are labelled by the column ``c``, or by ``mu`` if there is no ``c``.
    marks : DataFrame, optional
        A table of :func:`softfair.compare`; one cross for each policy.
    against : str
        The column of the horizontal axis.
    bound : DataFrame, optional
        A table of :func:`softfair.comparison.limit`; the points above it are shaded.

    Raises
    ------
    InvalidInput
        There are more curves than colours and markers that can be told apart.

    Notes
    -----
    If a table has a column ``converged``, hollow markers and an asterisk show points whose values
    had not settled.
    """
    if len(curves) > len(COLOURS):
        extra = ", ".join(repr(label) for label in list(curves)[len(COLOURS) :])
        raise InvalidInput(
            f"{len(curves)} curves cannot be told apart in one picture; "
            f"draw at most {len(COLOURS)}, and leave out {extra} or others"
        )
    handles = [
        _draw_curve(ax, label, curve, against, colour, marker)
        for (label, curve), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False)
    ]
    if marks is not None:
        ax.scatter(marks[against], marks["benefit"], marker="x", color=INK, s=30, zorder=4)
    ax.set_xlabel(AXIS_LABELS.get(against, against))
    ax.set_ylabel(BENEFIT_LABEL)
    ax.grid(color=FAINT, alpha=0.25)
    if bound is not None:
        draw_limit(ax, bound["entropy"].to_numpy(), bound["bound"].to_numpy())
    rough = any(str(handle.get_label()).endswith("*") for handle in handles)
    if len(curves) > 1 or rough:
        note = "* values had not settled" if rough else None
        ax.legend(handles=handles, frameon=False, title=note, title_fontsize=LABEL_SIZE)
    labels = [*_policy_labels(ax, marks, against), *_multiplier_labels(curves, against)]
    label_points(ax, labels)


def draw_limit(
    ax: Axes, entropy: NDArray[np.float64], benefit: NDArray[np.float64], room: float = 0.12
) -> None:
    """Shade the points that no policy can reach: above the limit on benefit at each entropy.

    Parameters
    ----------
    ax : Axes
        The axes on which the policies have been drawn. Some room is added above the limit.
    entropy, benefit : ndarray [m]
        Points of the limit, in order of rising entropy.
    room : float
        The share of the height that is added.
    """
    (left, right), (low, _) = ax.get_xlim(), ax.get_ylim()
    even = float(entropy[-1])  # the largest possible entropy
    right = max(right, even + 0.02 * (even - left))
    inside = entropy >= left
    across = np.append(left, entropy[inside])
    limit = np.append(np.interp(left, entropy, benefit), benefit[inside])
    low, top = min(low, float(limit[-1])), float(limit.max())
    top += room * (top - low)
    ax.plot([*across, even], [*limit, low], color=SHADE_EDGE, linewidth=1.2, zorder=2)
    ax.fill_between(across, limit, top, color=SHADE, linewidth=0, zorder=1)
    ax.fill_between([even, right], low, top, color=SHADE, linewidth=0, zorder=1)
    ax.set_xlim(left, right)
    ax.set_ylim(low, top)
    ax.annotate(
        "no policy can be here",
        (0.03, 0.985),
        xycoords="axes fraction",
        va="top",
        color=SHADE_INK,
        fontsize=LABEL_SIZE,
        fontstyle="italic",
    )


def _draw_curve(
    ax: Axes, label: str, curve: pd.DataFrame, against: str, colour: str, marker: str
) -> Line2D:
    """Draw one curve, with hollow markers if values had not settled; return its legend entry."""
    from matplotlib.lines import Line2D

    x, y = curve[against].to_numpy(), curve["benefit"].to_numpy()
    settled = np.ones(len(x), bool)
    if "converged" in curve:
        settled = curve["converged"].to_numpy(bool)
    ax.plot(x, y, color=colour, zorder=3)
    for chosen, face in ((settled, colour), (~settled, "white")):
        ax.plot(x[chosen], y[chosen], marker, color=colour, mfc=face, markersize=5, zorder=3)
    whole = bool(settled.all())
    return Line2D(
        [],
        [],
        color=colour,
        marker=marker,
        markersize=5,
        markerfacecolor=colour if whole else "white",
        label=label if whole else f"{label}*",
    )


def _policy_labels(ax: Axes, marks: pd.DataFrame | None, against: str) -> list[PointLabel]:
    """Labels with the names of policies; policies in the same place share a label."""
    if marks is None:
        return []
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    named: dict[tuple[float, float], list[str]] = {}
    for policy, x, y in zip(marks["policy"], marks[against], marks["benefit"], strict=True):
        near = [place for place in named if _distance(ax, place, (x, y)) < SAME_PLACE]
        named.setdefault(near[0] if near else (x, y), []).append(policy)
    return [PointLabel(", ".join(policies), *place) for place, policies in named.items()]


def _multiplier_labels(curves: Mapping[str, pd.DataFrame], against: str) -> list[PointLabel]:
    """Labels with c or mu for each curve: first for its ends, then for the points between."""
    labels = []
    for curve, colour in zip(curves.values(), COLOURS, strict=False):
        order = [0, len(curve) - 1, *range(1, len(curve) - 1)][: len(curve)]
        for row in order:
            name = "c" if "c" in curve else "mu"
            value = float(curve[name].iloc[row])
            sign = "\u03bc" if name == "mu" else name
            text = f"{sign} = \u221e" if math.isinf(value) else f"{sign} = {value:g}"
            x, y = float(curve[against].iloc[row]), float(curve["benefit"].iloc[row])
            labels.append(PointLabel(text, x, y, colour, needed=False))
    return labels


def _distance(ax: Axes, a: tuple[float, float], b: tuple[float, float]) -> float:
    """The distance between two points of the data, as a share of the picture."""
    shares = (ax.transData.transform(a) - ax.transData.transform(b)) / (
        ax.bbox.width,
        ax.bbox.height,
    )
    return float(np.hypot(*shares))


def label_points(ax: Axes, labels: Iterable[PointLabel]) -> None:
    """Write labels beside their points so that none covers another, a marker, a line or the legend.

    Parameters
    ----------
    ax : Axes
        Axes on which everything else has been drawn.
    labels : iterable of PointLabel
        The labels, in order of importance. A label without a free place is left out, unless it is
        needed. Then it is put where it hides least, if possible not over another label, with a line
        to its point.
    """
    figure = ax.figure
    figure.draw_without_rendering()  # type: ignore[union-attr]
    scale = figure.dpi / 72
    dots = _drawn_pixels(ax)
    # x0, y0, x1, y1 of the texts that no label may cover
    boxes = [np.ravel(text.get_window_extent().get_points()) for text in ax.texts]
    legend = ax.get_legend()
    if legend is not None:
        boxes.append(np.ravel(legend.get_window_extent().get_points()))
    for label in labels:
        text = ax.annotate(
            label.text,
            (label.x, label.y),
            (0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            color=label.colour,
            fontsize=LABEL_SIZE,
            zorder=5,
        )
        text.set_in_layout(False)
        extent = text.get_window_extent()
        point = ax.transData.transform((label.x, label.y))
        # Only a label that is needed gets a line across the picture.
        reach = [d for d in DISTANCES if label.needed or d < LEADER]
        size = (extent.width, extent.height)
        place = _free_place(ax, point, size, [scale * d for d in reach], boxes, dots)
        if place.hides and not label.needed:
            text.remove()
            continue
        boxes.append(place.box)
        middle = np.array([place.box[[0, 2]].mean(), place.box[[1, 3]].mean()])
        text.set_position(tuple((middle - point) / scale))
        if place.distance >= scale * LEADER:
            ax.annotate(
                "",
                (label.x, label.y),
                tuple((np.clip(point, place.box[:2], place.box[2:]) - point) / scale),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": label.colour, "linewidth": 0.5},
            ).set_in_layout(False)


@dataclass(frozen=True, eq=False)
class _Place:
    """A possible place for a label."""

    box: NDArray[np.float64]  # x0, y0, x1, y1 in pixels
    distance: float  # pixels from its point
    hides: float  # how much it would cover; 0 is a free place


def _free_place(
    ax: Axes,
    point: NDArray[np.float64],
    size: tuple[float, float],
    distances: Sequence[float],
    boxes: Sequence[NDArray[np.float64]],
    dots: NDArray[np.float64],
) -> _Place:
    """The nearest free place for a label, or the place that hides least; all lengths in pixels."""
    half = np.array(size) / 2
    frame = np.array([ax.bbox.x0, ax.bbox.y0, ax.bbox.x1, ax.bbox.y1])
    best: _Place | None = None
    for distance in distances:
        for dx, dy in DIRECTIONS:
            middle = point + (half + distance) * (dx, dy)
            box = np.concatenate([middle - half, middle + half])
            wide = box + CLEARANCE * np.array([-1, -1, 1, 1])
            covers = sum(
                wide[0] < b[2] and b[0] < wide[2] and wide[1] < b[3] and b[1] < wide[3]
                for b in boxes
            )
            outside = np.sum(box[:2] < frame[:2]) + np.sum(box[2:] > frame[2:])
            inside = np.all((dots > wide[:2]) & (dots < wide[2:]), axis=1)
            hides = 1000.0 * covers + 1000.0 * outside + float(np.count_nonzero(inside))
            if best is None or hides < best.hides:
                best = _Place(box, distance, hides)
            if not hides:
                return best
    assert best is not None
    return best


# Right and left come first, because a reader then sees at once to which point a label belongs.
DIRECTIONS = (
    (1, 0.6),
    (1, -0.6),
    (-1, -0.6),
    (-1, 0.6),
    (1, 0),
    (-1, 0),
    (0, 1),
    (0, -1),
    (0.6, 1),
    (0.6, -1),
    (-0.6, 1),
    (-0.6, -1),
)


def _drawn_pixels(ax: Axes) -> NDArray[np.float64]:
    """Points in pixels [m, 2] along every line and at every marker of the axes."""
    from matplotlib.collections import LineCollection, PolyCollection

    drawn = [np.empty((0, 2))]
    for line in ax.lines:
        corners = line.get_transform().transform(np.column_stack(line.get_data()).astype(float))
        joined = line.get_linestyle() not in ("None", "")
        drawn.append(_along(corners) if joined else corners)
    for collection in ax.collections:
        if isinstance(collection, PolyCollection):
            continue  # labels may stand on a shade
        if isinstance(collection, LineCollection):
            drawn += [_along(ax.transData.transform(part)) for part in collection.get_segments()]
        else:
            drawn.append(ax.transData.transform(np.asarray(collection.get_offsets())))
    dots: NDArray[np.float64] = np.concatenate(drawn)
    return dots[np.isfinite(dots).all(axis=1)]


def _along(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points at most 4 pixels apart on the line through some corners."""
    dots = [corners]
    for a, b in pairwise(corners):
        if np.isfinite(b - a).all():
            steps = max(1, math.ceil(float(np.hypot(*(b - a))) / 4))
            dots.append(a + (b - a) * np.linspace(0, 1, steps + 1)[:, None])
    return np.concatenate(dots)


def draw_histograms(
    axes: Sequence[Axes], counts: Mapping[str, ArrayLike], colours: Sequence[str] = COLOURS
) -> None:
    """Draw how often arms were helped (Figure 1 of the paper).

    Parameters
    ----------
    axes : sequence of Axes
        The axes, one for each policy.
    counts : mapping of str to array [n]
        The number of times that each arm was helped in one run, by policy. The bar of the arms that
        were never helped is red.
    colours : sequence of str
        The colours of the other bars, by policy; repeated if there are fewer colours.

    Raises
    ------
    InvalidInput
        There are not as many axes as policies.
    """
    if len(axes) != len(counts):
        raise InvalidInput(
            f"there are {len(axes)} axes for {len(counts)} histograms; give one for each"
        )
    most = max(int(np.max(values)) for values in counts.values())
    bins = (
        np.arange(most + 2) - 0.5
        if most <= 40
        else np.concatenate([[-0.5, 0.5], np.linspace(0.5, most + 0.5, 41)[1:]])
    )
    tallest = 0.0
    for ax, (label, values), colour in zip(axes, counts.items(), cycle(colours), strict=False):
        times = np.asarray(values)
        heights, _, bars = ax.hist(times, bins=bins.tolist(), color=colour)
        bars[0].set_facecolor(NEVER)  # type: ignore[index, union-attr]
        never = 100 * np.mean(times == 0)
        ax.set_title(f"{label}:\n{never:.0f} % never helped", fontsize=9, color=INK)
        ax.set_xlabel("times helped")
        ax.set_ylabel("arms")
        tallest = max(tallest, float(np.max(heights)))
    for ax in axes:
        ax.set_ylim(0, 1.05 * tallest)
