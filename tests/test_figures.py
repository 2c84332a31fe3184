"""Pictures: everything that is given is drawn, and no label covers another."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from softfair.errors import InvalidInput
from softfair.figures import (
    COLOURS,
    MARKERS,
    PointLabel,
    draw_frontier,
    draw_histograms,
    label_points,
    new_figure,
)
from softfair.programme.audit.pictures import pictures
from softfair.programme.telling import draw_columns


def boxes(ax):
    """Where the texts of the axes stand, after everything is laid out: text -> box in pixels."""
    ax.figure.draw_without_rendering()
    return [
        (text.get_text(), text.get_window_extent())
        for text in ax.texts
        if text.get_text()  # a line to a point is an annotation without text
    ]


def collisions(ax):
    """Pairs of labels that overlap, and labels that leave the axes."""
    placed = boxes(ax)
    found = [(a, b) for (a, A), (b, B) in itertools.combinations(placed, 2) if A.overlaps(B)]
    if (legend := ax.get_legend()) is not None:
        key = legend.get_window_extent()
        found += [(text, "legend") for text, box in placed if box.overlaps(key)]
    frame = ax.bbox.expanded(1.01, 1.01)
    found += [
        (text, "outside")
        for text, box in placed
        if not (frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1))
    ]
    return found


def curve(shift=0.0, count=14):
    """Like a table of sf.frontier: benefit rises with c while entropy falls."""
    c = np.concatenate([[0], np.geomspace(0.5, 100, count - 2), [np.inf]])
    part = np.linspace(0, 1, count)
    return pd.DataFrame(
        {"c": c, "entropy": 4.5 - 1.2 * part**2, "benefit": 45 + 55 * part - shift * part}
    )


def policies():
    return pd.DataFrame(
        {
            "policy": ["Random", "Myopic", "FairMyopic", "Oracle"],
            "entropy": [4.52, 3.3, 4.5, 3.3],
            "benefit": [45.0, 99.0, 46.0, 100.0],
        }
    )


def test_a_new_figure_has_its_axes_side_by_side():
    figure, axes = new_figure(columns=3, width=2.0, height=1.5)
    assert len(axes) == 3
    assert figure.get_size_inches() == pytest.approx([6.0, 1.5])
    assert not any(ax.spines["top"].get_visible() for ax in axes)


@pytest.mark.parametrize("count", [1, 2, 5, len(COLOURS)])
def test_every_curve_is_drawn_and_told_apart(count):
    _, (ax,) = new_figure()
    draw_frontier(ax, {f"curve {i}": curve(5.0 * i) for i in range(count)})
    lines = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert len(lines) == count
    assert len({line.get_color() for line in lines}) == count
    for i, line in enumerate(lines):
        assert line.get_ydata() == pytest.approx(curve(5.0 * i)["benefit"])
    if count > 1:
        legend = ax.get_legend()
        assert [text.get_text() for text in legend.get_texts()] == [
            f"curve {i}" for i in range(count)
        ]
        assert [line.get_marker() for line in legend.get_lines()] == list(MARKERS[:count])


def test_more_curves_than_can_be_told_apart_are_refused_by_name():
    _, (ax,) = new_figure()
    curves = {f"curve {i}": curve(i) for i in range(len(COLOURS) + 2)}
    with pytest.raises(InvalidInput, match=r"10 curves .* leave out 'curve 8', 'curve 9' or"):
        draw_frontier(ax, curves)
    assert not ax.lines


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 2.0, 15.0])
def test_labels_of_a_frontier_do_not_collide(shift):
    figure, axes = new_figure(columns=2)
    for ax in axes:
        ax.set_title("a cohort")
        draw_frontier(ax, {"one": curve(), "two": curve(shift, 7)}, policies())
    for ax in axes:
        assert not collisions(ax)
        said = [text for text, _ in boxes(ax)]
        named = {name for text in said for name in text.split(", ")}
        assert {"Random", "Myopic", "FairMyopic", "Oracle"} <= named
        assert {"c = 0", "c = \u221e"} <= set(said)
    assert figure.axes == axes


@pytest.mark.parametrize("seed", range(5))
def test_labels_near_one_point_do_not_collide(seed):
    _, (ax,) = new_figure(width=4.0, height=3.0)
    places = 0.5 + 0.02 * np.random.default_rng(seed).normal(size=(6, 2))
    ax.plot(*places.T, "o")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    label_points(ax, [PointLabel(f"policy {i}", *place) for i, place in enumerate(places)])
    assert not collisions(ax)
    assert len(boxes(ax)) == 6  # needed: none is left out
    dots = ax.transData.transform(places)
    for text, box in boxes(ax):
        assert not [dot for dot in dots if box.contains(*dot)], text


def test_a_label_that_is_not_needed_is_left_out_where_there_is_no_room():
    _, (ax,) = new_figure(width=1.2, height=1.0)
    x, y = (grid.ravel() for grid in np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 60)))
    ax.plot(x, y, "o")
    label_points(ax, [PointLabel("c = 1", 0.5, 0.5, needed=False), PointLabel("Oracle", 0.5, 0.5)])
    assert [text for text, _ in boxes(ax)] == ["Oracle"]


def test_labels_keep_off_the_legend():
    _, (ax,) = new_figure(width=3.0, height=2.5)
    ax.plot([0, 1], [0, 1], label="a line with a long name")
    legend = ax.legend(loc="upper left")
    label_points(ax, [PointLabel("in the corner", 0.05, 0.9)])
    [(_, box)] = boxes(ax)
    assert not box.overlaps(legend.get_window_extent())


def test_values_that_had_not_settled_are_hollow():
    table = curve(count=6).assign(converged=[True, True, True, False, False, True])
    _, (ax,) = new_figure()
    draw_frontier(ax, {"one": table, "two": curve(9.0)})
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["one*", "two"]
    hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    shown = [tuple(line.get_ydata()) for line in hollow if len(line.get_ydata())]
    assert shown == [tuple(table["benefit"][3:5])]


def test_the_limit_is_shaded_above_every_policy():
    """The shade begins at the limit, goes on beyond log n, and hides neither curve nor label."""
    entropy = np.linspace(0, 4.6, 93)
    bound = pd.DataFrame({"entropy": entropy, "bound": 108 - 60 * (entropy / 4.6) ** 8})
    even = curve(-4.0, 6).drop(columns="c").assign(mu=[5, 10, 20, 50, 100, 400])
    _, (ax,) = new_figure()
    draw_frontier(ax, {"SoftFair": curve(), "EvenHanded": even}, policies(), bound=bound)
    assert not collisions(ax)
    said = [text for text, _ in boxes(ax)]
    assert "no policy can be here" in said
    assert {"\u03bc = 5", "\u03bc = 400"} & set(said)
    (left, right), (low, top) = ax.get_xlim(), ax.get_ylim()
    assert right > 4.6
    above, beyond = (
        shade.get_paths()[0]
        for shade in ax.collections
        if shade.get_paths() and len(shade.get_paths()[0].vertices) > 3 and shade.get_zorder() == 1
    )
    for x in np.linspace(max(left, 3.3), 4.59, 20):
        limit = float(np.interp(x, bound["entropy"], bound["bound"]))
        assert above.contains_point((x, min(limit + 0.5, top - 1e-6)))
        assert not above.contains_point((x, limit - 0.5))
    assert beyond.contains_point((4.61, (low + top) / 2))
    assert not beyond.contains_point((4.59, (low + top) / 2))
    for x, y in zip(curve()["entropy"], curve()["benefit"], strict=True):
        assert not above.contains_point((x, y))


def test_histograms_show_every_arm_and_who_is_never_helped():
    counts = {"a": [0, 0, 3, 90], "b": [1, 2, 2, 5]}
    _, axes = new_figure(columns=2)
    draw_histograms(axes, counts, ["#123456"])
    for ax, (label, times) in zip(axes, counts.items(), strict=True):
        assert sum(bar.get_height() for bar in ax.patches) == len(times)
        assert ax.patches[0].get_height() == times.count(0)
        never = 100 * times.count(0) / len(times)
        assert re.match(rf"{label}:\s{never:.0f} % never helped", ax.get_title())
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_histograms_need_axes_of_their_own():
    _, axes = new_figure(columns=1)
    with pytest.raises(InvalidInput, match="1 axes for 2 histograms; give one for each"):
        draw_histograms(axes, {"a": [1], "b": [2]})


def test_columns_with_clear_intervals_are_drawn_in_colour():
    """Intervals in logits become factors, the largest first; an interval with 1 has no colour."""
    told = [
        ["age", "", [0.0, -0.1, 0.1], [0.0, -0.2, 0.2]],
        ["region", "$north$", [0.7, 0.4, 1.0], [-0.3, -0.6, 0.1]],
    ]
    left, right = draw_columns(told, "good", 0.9).axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names == ["a higher age", "region $north$"]  # from below
    lines = [line for line in left.lines if len(line.get_xdata()) == 2][1:]  # after that at 1
    ends = [(np.log(line.get_xdata()).round(9).tolist(), line.get_color()) for line in lines]
    assert [colour == COLOURS[0] for _, colour in ends] == [False, True]
    assert ends[1][0] == [0.4, 1.0]
    assert not [line for line in right.lines if line.get_color() == COLOURS[0]]
    assert "90%" in left.get_xlabel()


def test_no_columns_to_draw():
    with pytest.raises(InvalidInput, match="uses no columns"):
        draw_columns([], "good", 0.9)


def test_lists_are_drawn_against_what_was_stated():
    """Two groups of people: on the line is what was stated, and the line covers all of it."""
    rows = [
        SimpleNamespace(expected=10.0, in_draw=100, low=5.0, high=16.0, listed=12),
        SimpleNamespace(expected=40.0, in_draw=50, low=34.0, high=45.0, listed=37),
    ]
    (made,) = pictures(SimpleNamespace(lists=rows), "lists")
    (ax,) = made.figure.axes
    line = ax.lines[0]
    (points,) = (one for one in ax.lines if one.get_label() == "listed")
    np.testing.assert_allclose(line.get_xdata(), [0, 84])  # a twentieth beyond 40 of 50
    np.testing.assert_allclose(line.get_ydata(), [0, 84])
    np.testing.assert_allclose(points.get_xdata(), [10, 80])
    np.testing.assert_allclose(points.get_ydata(), [12, 74])
    (ranges,) = ax.collections
    ends = [segment[:, 1].tolist() for segment in ranges.get_segments()]
    np.testing.assert_allclose(ends, [[5, 16], [68, 90]])
