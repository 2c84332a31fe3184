"""The pictures of the report, in the paper's layout; every label says what was run.

Hatched bars, hollow markers and an asterisk show figures made with values that had not settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..figures import (
    AXIS_LABELS,
    BENEFIT_LABEL,
    COLOURS,
    FAINT,
    INK,
    MARKERS,
    NEVER,
    PointLabel,
    draw_histograms,
    label_points,
    new_figure,
)
from .catalogue import Experiment
from .intervals import Summary, summarise
from .outcomes import Outcome
from .paper import PAPER_TABLE_2
from .sections import Results, figures_of_policies, number, parts, solvers_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DECOUPLED = "SoftFair (c_value = 1)"
STYLE: dict[str, tuple[str, str]] = {  # colour and marker of each policy, the same in every figure
    "Random": ("#999999", "v"),
    "Myopic": ("#7570b3", "D"),
    "FairMyopic": ("#b3a2d8", "P"),
    "Oracle": (INK, "x"),
    "SoftFair (paper)": (COLOURS[1], MARKERS[1]),
    "SoftFair (mean field)": ("#f2a35e", "<"),
    "SoftFair (priced)": (COLOURS[0], MARKERS[0]),
    DECOUPLED: (COLOURS[2], MARKERS[2]),
}
PANEL: dict[str, Callable[[Sequence[Experiment]], str]] = {  # label of the horizontal axis
    "fig2a": lambda es: f"arms n; k is {_range([100 * e.k / e.n for e in es])} % of n",
    "fig2b": lambda es: f"k of n = {_range([e.n for e in es])} arms",
    "fig2c": lambda es: "decisions T",
}
PLACE: dict[str, Callable[[Experiment], float]] = {  # the place of an experiment on that axis
    "fig2a": lambda e: e.n,
    "fig2b": lambda e: e.k,
    "fig2c": lambda e: e.horizon,
    "fig3a": lambda e: float(e.x),
    "fig3b": lambda e: float(e.parameters["recovery"]),
}


def _range(values: Sequence[float]) -> str:
    """The range of the values; the value itself if all are equal."""
    least, most = min(values), max(values)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _name(policy: str, summaries: Sequence[Summary]) -> str:
    """The name for a legend, with an asterisk if values of any of the figures had not settled."""
    return policy if all(summary.settled for summary in summaries) else f"{policy}*"


def draw_figure_1(results: Results) -> Figure:
    """How often arms were helped in the first run on the first cohort."""
    rows = results["fig1"].rows
    first = rows[(rows["instance"] == 0) & (rows["run"] == 0)].set_index("policy")
    solvers, counts = solvers_of([results["fig1"]]), {}
    for policy in ("Threshold Whittle", "Whittle", *solvers):
        label = policy if first.loc[policy, "converged"] else f"{policy}*"
        counts[label] = np.array(str(first.loc[policy, "counts"]).split(), dtype=int)
    figure, axes = new_figure(columns=len(counts), width=2.3, height=2.6)
    colours = [FAINT, FAINT, *(STYLE[solver][0] for solver in solvers)]
    draw_histograms(axes, counts, colours)
    for ax in axes[1:]:
        ax.set_ylabel("")
    return figure


def draw_figure_2(results: Results) -> Figure:
    """Benefit as bars by number of arms, budget and horizon."""
    panels = [name for name in ("fig2a", "fig2b", "fig2c") if parts(results, name)]
    figure, axes = new_figure(columns=len(panels), width=3.6, height=3.6)
    handles: dict[str, Artist] = {}
    rough: set[str] = set()  # policies with an asterisk in any panel, because one legend serves all
    for ax, name in zip(axes, panels, strict=True):
        outcomes = parts(results, name)
        bars = _bars(ax, outcomes, [PLACE[name](outcome.experiment) for outcome in outcomes])
        for policy, (handle, settled) in bars.items():
            if settled:
                handles.setdefault(policy, handle)
            else:
                handles[policy] = handle
                rough.add(policy)
        ax.set_xlabel(PANEL[name]([outcome.experiment for outcome in outcomes]))
        ax.set_title(f"({name[-1]})", fontsize=10, loc="left")
    axes[0].set_ylabel(BENEFIT_LABEL)
    figure.legend(
        list(handles.values()),
        [f"{policy}*" if policy in rough else policy for policy in handles],
        loc="outside upper center",
        ncols=len(handles) if len(panels) > 1 else 2,
        frameon=False,
        fontsize=8,
    )
    return figure


def _bars(
    ax: Axes, outcomes: Sequence[Outcome], places: Sequence[float]
) -> dict[str, tuple[Artist, bool]]:
    """Draw a group of bars for each outcome: one for each policy except the Oracle, which is 100.

    Returns, for each policy, a bar for the legend and whether values had settled in all outcomes.
    """
    policies = [p for p in STYLE if p in set(outcomes[0].rows["policy"]) and p != "Oracle"]
    width = 0.8 / len(policies)
    drawn: dict[str, tuple[Artist, bool]] = {}
    for j, policy in enumerate(policies):
        summaries = [summarise(outcome.rows, policy, "benefit") for outcome in outcomes]
        bars = ax.bar(
            np.arange(len(outcomes)) + (j - (len(policies) - 1) / 2) * width,
            [summary.mean for summary in summaries],
            width,
            yerr=np.transpose([summary.whiskers for summary in summaries]),
            color=STYLE[policy][0],
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 0.8},
        )
        for bar, summary in zip(bars, summaries, strict=True):
            if not summary.settled:
                bar.set_hatch("////")
        rough = [bar for bar, summary in zip(bars, summaries, strict=True) if not summary.settled]
        drawn[policy] = (rough[0], False) if rough else (bars[0], True)
    ax.set_xticks(range(len(outcomes)), [number(place) for place in places])
    ax.axhline(100, color=INK, linewidth=0.8, linestyle=":")
    return drawn


def _curve(
    ax: Axes, xs: Sequence[float], summaries: Sequence[Summary], policy: str, label: str
) -> None:
    """Draw the points of one policy, joined by a line; hollow if values had not settled.

    :func:`_whiskers` draws the intervals.
    """
    colour, marker = STYLE[policy]
    means = [summary.mean for summary in summaries]
    rough = not all(summary.settled for summary in summaries)
    ax.plot(
        xs,
        means,
        color=colour,
        marker=marker,
        markersize=5,
        markerfacecolor="white" if rough else colour,
        label=label,
    )
    if rough:
        settled = [i for i, summary in enumerate(summaries) if summary.settled]
        ax.plot(
            [xs[i] for i in settled],
            [means[i] for i in settled],
            color=colour,
            marker=marker,
            markersize=5,
            linestyle="",
        )


def _whiskers(ax: Axes, xs: Sequence[float], summaries: Sequence[Summary], policy: str) -> None:
    """Draw the intervals of the points of one policy."""
    ax.errorbar(
        xs,
        [summary.mean for summary in summaries],
        yerr=np.transpose([summary.whiskers for summary in summaries]),
        color=STYLE[policy][0],
        elinewidth=0.8,
        linestyle="",
    )


def _lines(ax: Axes, outcomes: Sequence[Outcome], column: str, policies: Sequence[str]) -> None:
    """Draw a line for each policy; points at infinity are on the right, at twice the largest x."""
    figure = outcomes[0].experiment.figure
    places = [PLACE[figure](outcome.experiment) for outcome in outcomes]
    finite = [place for place in places if math.isfinite(place)]
    xs = [place if math.isfinite(place) else 2 * max(finite, default=1.0) for place in places]
    for policy in policies:
        summaries = [summarise(outcome.rows, policy, column) for outcome in outcomes]
        label = _name(policy, summaries)
        for recipe in _recipes(policy, places):
            chosen = [summaries[i] for i in recipe]
            _whiskers(ax, [xs[i] for i in recipe], chosen, policy)
            _curve(ax, [xs[i] for i in recipe], chosen, policy, label)
            label = "_" + label  # the second recipe has no line of its own in the legend
    ax.set_xticks(xs, [number(place) for place in places])
    ax.minorticks_off()


def _recipes(policy: str, places: Sequence[float]) -> list[list[int]]:
    """The points of a curve over c, grouped by recipe; a line may join points of one recipe.

    At c = inf the experiment draws the top k by values learnt with c_value = 1 (caption of Figure
    3). For the policy with c_value = 1 this is the recipe of all other c; for all other policies it
    is a different one.
    """
    points = list(range(len(places)))
    if policy == DECOUPLED:
        return [points]
    finite = [i for i in points if math.isfinite(places[i])]
    return [part for part in (finite, [i for i in points if i not in finite]) if part]


def draw_figure_3a(results: Results) -> Figure:
    """Benefit by the multiplier c."""
    figure, axes = new_figure(columns=1, width=4.6, height=4.0)
    ax = axes[0]
    ax.set_xscale("log")
    outcomes = parts(results, "fig3a")
    _lines(ax, outcomes, "benefit", [*solvers_of(outcomes), DECOUPLED])
    ax.axhline(100, color=INK, linewidth=0.8, linestyle=":")
    ax.set_xlabel("multiplier c")
    ax.set_ylabel(BENEFIT_LABEL)
    ax.set_title("(a)", fontsize=10, loc="left")
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return figure


def draw_figure_3b(results: Results) -> Figure:
    """Action entropy by the chance that help in the bad state leads to the good state."""
    figure, axes = new_figure(columns=1, width=4.6, height=4.0)
    outcomes = parts(results, "fig3b")
    policies = ["Random", "FairMyopic", *solvers_of(outcomes), "Myopic", "Oracle"]
    _lines(axes[0], outcomes, "entropy", policies)
    axes[0].set_xlabel("chance p[1, 0] of recovery when helped")
    axes[0].set_ylabel("action entropy")
    axes[0].set_title("(b)", fontsize=10, loc="left")
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return figure


def draw_table_2(results: Results) -> Figure:
    """Table 2 as a picture: benefit against entropy, in our runs and in the paper."""
    figure, axes = new_figure(columns=1, width=4.6, height=4.2)
    ax = axes[0]
    outcome = results["table2"]
    benefit = figures_of_policies(outcome, "benefit")
    entropy = figures_of_policies(outcome, "entropy")
    for policy, (colour, marker) in STYLE.items():
        if policy in benefit:
            settled = benefit[policy].settled
            ax.errorbar(
                entropy[policy].mean,
                benefit[policy].mean,
                xerr=np.reshape(entropy[policy].whiskers, (2, 1)),
                yerr=np.reshape(benefit[policy].whiskers, (2, 1)),
                color=colour,
                marker=marker,
                markerfacecolor=colour if settled else "white",
                linestyle="",
                label=_name(policy, [benefit[policy]]),
            )
    stars = [(e, b) for (b, _), (e, _) in PAPER_TABLE_2.values()]
    ax.plot(*zip(*stars, strict=True), "*", color=NEVER, markersize=8, label="the paper")
    ax.set_xlabel(AXIS_LABELS["entropy"])
    ax.set_ylabel(BENEFIT_LABEL)
    ax.margins(0.08)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    label_points(
        ax,
        [
            PointLabel(f"{policy}, paper", e, b, NEVER)
            for policy, ((b, _), (e, _)) in PAPER_TABLE_2.items()
        ],
    )
    return figure


def draw_frontiers(results: Results) -> Figure:
    """Benefit against two measures of fairness, a curve over c for each way to learn the values."""
    figure, axes = new_figure(columns=2, width=4.6, height=4.2)
    outcomes = parts(results, "fig3a")
    places = [PLACE["fig3a"](outcome.experiment) for outcome in outcomes]
    columns = ("entropy", "never_selected")
    for letter, ax, column in zip("ab", axes, columns, strict=True):
        for policy in (*solvers_of(outcomes), DECOUPLED):
            _frontier(ax, outcomes, places, policy, column)
        for policy in ("Random", "Myopic", "FairMyopic", "Oracle"):
            colour, marker = STYLE[policy]
            x = summarise(outcomes[0].rows, policy, column).mean
            y = summarise(outcomes[0].rows, policy, "benefit").mean
            ax.plot(x, y, marker, color=colour, label=policy)
        ax.set_xlabel(AXIS_LABELS[column])
        ax.set_title(f"({letter})", fontsize=10, loc="left")
    axes[0].set_ylabel(BENEFIT_LABEL)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return figure


def _frontier(
    ax: Axes, outcomes: Sequence[Outcome], places: Sequence[float], policy: str, column: str
) -> None:
    """Draw the points of one policy; a line joins points of one recipe."""
    across = [summarise(outcome.rows, policy, column).mean for outcome in outcomes]
    upwards = [summarise(outcome.rows, policy, "benefit") for outcome in outcomes]
    label = _name(policy, upwards)
    for recipe in _recipes(policy, places):
        chosen = [upwards[i] for i in recipe]
        _curve(ax, [across[i] for i in recipe], chosen, policy, label)
        label = "_" + label
