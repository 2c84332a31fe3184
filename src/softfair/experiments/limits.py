"""The distance of policies from the limit that no policy can exceed, on both data sets.

Each cohort j has a concave limit l_j(h): an upper bound on what any policy with the expected
entropy h can add, in % of the most that help can add. Take one line of the same slope above each
l_j. The means over cohorts of the entropies h_j and figures f_j of a policy lie below the mean of
these lines. So the minimum over slopes is a limit for the means. The mean of the l_j is not a limit
for the means.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..comparison import mean_interval
from ..figures import AXIS_LABELS, COLOURS, INK, MARKERS, draw_limit, new_figure
from .intervals import FEWEST_COHORTS, cohort_means, summarise
from .outcomes import Outcome
from .sections import Judgement, Results, Section, describe, parts, unsettled_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LIMIT_SECTION"]

Floats = NDArray[np.float64]

FIGURE = "limit"
SLOPES = np.append(0.0, np.geomspace(0.1, 1e5, 240))  # % for each unit of entropy
NAMES = {"synthetic": "synthetic cohorts", "cpap": "CPAP cohorts"}
MARKS = {"Random": "v", "Oracle": "x", "FaWT": "P", "ProbFair": "X"}  # single points


def limits(outcome: Outcome, entropies: Floats) -> Floats:
    """l_j at the entropies of cohort j, for entropies [cohorts, ...]."""
    return np.array(
        [
            100 * (limit.bound(at) - limit.none) / limit.headroom
            for limit, at in zip(outcome.limits, entropies, strict=True)
        ]
    )


def mean_limit(outcome: Outcome, at: Floats) -> Floats:
    """The limit of means over cohorts, at entropies [m]."""
    heights = []  # heights of each cohort's lines at log n, by slope
    for limit in outcome.limits:
        order, scale = np.argsort(limit.bound.slope), 100 / limit.headroom
        slope = scale * limit.bound.slope[order]
        height = scale * (limit.bound.intercept[order] - limit.none)
        # A line between two lines that are limits is also a limit.
        heights.append(np.interp(SLOPES, slope, height))
    lack = math.log(outcome.experiment.n) - at
    lines = np.mean(heights, axis=0)[:, None] + SLOPES[:, None] * lack
    least: Floats = lines.min(axis=0)
    return least


def _families(outcome: Outcome) -> dict[str, list[str]]:
    """The policies grouped by the part of the label before the comma; each group is a curve."""
    families: dict[str, list[str]] = {}
    for label in outcome.experiment.policies:
        families.setdefault(label.partition(",")[0], []).append(label)
    return families


def draw_limits(results: Results) -> Figure:
    """Benefit against entropy, in one panel for each data set, with the limit shaded."""
    outcomes = parts(results, FIGURE)
    figure, axes = new_figure(rows=len(outcomes), width=4.6, height=4.0)
    for ax, outcome in zip(axes, outcomes, strict=True):
        _draw_families(ax, outcome)
        at = np.linspace(0, math.log(outcome.experiment.n), 400)
        draw_limit(ax, at, mean_limit(outcome, at))
        ax.set_title(NAMES[outcome.experiment.dataset], fontsize=10, loc="left")
        ax.set_ylabel("% of the most that help can add")
    axes[-1].set_xlabel(AXIS_LABELS["entropy"])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return figure


def _draw_families(ax: Axes, outcome: Outcome) -> None:
    """Draw a curve, or a point, for each family of policies."""
    styles = iter(zip(COLOURS, MARKERS, strict=True))
    for family, labels in _families(outcome).items():
        x = [summarise(outcome.rows, label, "entropy").mean for label in labels]
        summaries = [summarise(outcome.rows, label, "of_bound") for label in labels]
        y = [summary.mean for summary in summaries]
        if family in MARKS:
            ax.plot(x, y, MARKS[family], color=INK, linestyle="", label=family)
            continue
        colour, marker = next(styles)
        name = family if all(summary.settled for summary in summaries) else f"{family}*"
        ax.plot(x, y, color=colour, marker=marker, markersize=5, label=name)
        rough = [i for i, summary in enumerate(summaries) if not summary.settled]
        hollow: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "markerfacecolor": "white",
            "markersize": 5,
        }
        ax.plot([x[i] for i in rough], [y[i] for i in rough], linestyle="", **hollow)


def caption(results: Results) -> str:
    """The caption: what is drawn, and what the shade means."""
    outcomes = parts(results, FIGURE)
    runs = " ".join(
        f"{NAMES[outcome.experiment.dataset]}: {describe([outcome])}." for outcome in outcomes
    )
    return (
        f"{runs} Means. Shaded: where the means of no policy can be, whatever it remembers "
        "(docs/evenness.md has the proof). Points are means of a few runs: one in the shade is "
        "there by chance. SoftFair over c, EvenHanded over mu." + unsettled_note(outcomes)
    )


def judge_limits(results: Results) -> list[Judgement]:
    """The distance of each kind of policy from the limit, and whether any policy is above it."""
    judgements = []
    for outcome in parts(results, FIGURE):
        gaps = {label: _gaps(outcome, label) for label in outcome.experiment.policies}
        nearest_gaps, above = [], []
        for labels in _families(outcome).values():
            nearest = min(labels, key=lambda label: float(gaps[label].mean()))
            gap = mean_interval(gaps[nearest])
            nearest_gaps.append(f"{nearest} {gap.mean:.1f} [{gap.low:.1f}, {gap.high:.1f}]")
            above += [label for label in labels if mean_interval(gaps[label]).high < 0]
        verdict = (
            "no policy is above the limit beyond chance"
            if not above
            else f"above it: {', '.join(above)}"
        )
        if outcome.cohorts < FEWEST_COHORTS:
            verdict = "too few cohorts to say"
        judgements.append(
            Judgement(
                "says nothing of the best possible trade-off",
                f"{NAMES[outcome.experiment.dataset]}, points below the limit at a policy's own "
                f"entropy, the nearest of each kind: {'; '.join(nearest_gaps)}",
                f"{verdict[0].upper()}{verdict[1:]}.",
            )
        )
    return judgements


def _gaps(outcome: Outcome, label: str) -> Floats:
    """By how much a policy is below the limit of each cohort, at its mean entropy on the cohort."""
    entropy = cohort_means(outcome.rows, label, "entropy")
    return limits(outcome, entropy) - cohort_means(outcome.rows, label, "of_bound")


LIMIT_SECTION = Section(
    "limit",
    "Beyond the paper: the limit that no policy can exceed",
    (FIGURE,),
    caption,
    draw_limits,
    judge_limits,
)
