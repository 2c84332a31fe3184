"""Figures in the paper's layout, and one page that sets each beside the paper's word and says in words how they compare."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..figures import COLOURS, INK, MARKERS, draw_histograms, new_figure
from ..files import write_whole
from .catalogue import EXPERIMENTS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PAPER_TABLE_2", "Judgement", "summary", "write_report"]

Rows = Mapping[str, "pd.DataFrame"]  # by id of the experiment

#: Table 2 of the paper: (benefit, its sd), (entropy, its sd).
PAPER_TABLE_2 = {
    "Random": ((79.0, 13.0), (4.56, 0.0056)),
    "Myopic": ((98.0, 3.3), (2.67, 0.0)),
    "FairMyopic": ((83.0, 11.0), (4.5, 0.0089)),
    "SoftFair": ((93.0, 7.6), (4.27, 0.019)),
}

STYLE: dict[str, tuple[str, str]] = {  # colour and marker of each policy, the same in every figure
    "Random": ("#999999", "v"),
    "Myopic": ("#7570b3", "D"),
    "FairMyopic": ("#b3a2d8", "P"),
    "Oracle": (INK, "x"),
    "SoftFair (paper)": (COLOURS[1], MARKERS[1]),
    "SoftFair (mean field)": ("#f2a35e", "<"),
    "SoftFair (priced)": (COLOURS[0], MARKERS[0]),
    "SoftFair (c_value = 1)": (COLOURS[2], MARKERS[2]),
}
SOLVERS = ("SoftFair (paper)", "SoftFair (mean field)", "SoftFair (priced)")


@dataclass(frozen=True)
class Line:
    """A figure of one policy: mean, sd over all simulations, half-width of the 95 % interval of the mean over instances."""

    mean: float
    sd: float
    half: float


def summary(rows: pd.DataFrame, column: str) -> dict[str, Line]:
    """By policy."""
    return {str(policy): _line(rows, str(policy), column) for policy in rows["policy"].unique()}


def _line(rows: pd.DataFrame, policy: str, column: str) -> Line:
    """Runs on one instance are alike, so the interval is made from the means of instances (Student's t); with one instance it is that
    of its runs."""
    chosen = (rows["policy"] == policy).to_numpy()
    values = rows[column].to_numpy(np.float64)[chosen]
    instances = rows["instance"].to_numpy()[chosen]
    means = np.array([values[instances == instance].mean() for instance in np.unique(instances)])
    means = means if len(means) > 1 else values
    half = (
        _student(len(means) - 1) * float(means.std(ddof=1)) / math.sqrt(len(means))
        if len(means) > 1
        else math.nan
    )
    return Line(
        float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan, half
    )


def _student(freedom: int) -> float:
    """97.5 % point of Student's t (Cornish and Fisher's expansion from the normal's 1.96; within .01 from 4 degrees on)."""
    exact = {1: 12.706, 2: 4.303, 3: 3.182}
    z, v = 1.959963984540054, freedom
    if v in exact:
        return exact[v]
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


@dataclass(frozen=True)
class Judgement:
    """The paper's word, ours with its interval, and how they compare."""

    paper: str
    ours: str
    verdict: str


@dataclass(frozen=True)
class _Section:
    key: str
    title: str
    draw: Callable[[Rows], Figure]
    judge: Callable[[Rows], list[Judgement]]
    needs: tuple[str, ...]  # the figures of the catalogue that it is made of


def _value(rows: pd.DataFrame, policy: str, column: str) -> tuple[float, float]:
    line = _line(rows, policy, column)
    return line.mean, line.half


def _text(value: tuple[float, float], digits: int = 0) -> str:
    return f"{value[0]:.{digits}f} \u00b1 {value[1]:.{digits}f}"


def _parts(rows: Rows, figure: str) -> list[str]:
    return [name for name in rows if EXPERIMENTS[name].figure == figure]


# -- Figure 1


def _draw_figure_1(rows: Rows) -> Figure:
    table = rows["fig1"]
    labels = ["Threshold Whittle", "Whittle", *SOLVERS]
    figure, axes = new_figure(columns=len(labels), width=2.3, height=2.4)
    first = table[(table["instance"] == 0) & (table["run"] == 0)].set_index("policy")
    counts = {
        label: np.array(str(first.loc[label, "counts"]).split(), dtype=int) for label in labels
    }
    draw_histograms(axes, counts)
    for ax in axes:
        ax.set_title(ax.get_title().replace(": ", "\n"), fontsize=9)
    return figure


def _judge_figure_1(rows: Rows) -> list[Judgement]:
    never = {
        policy: _value(
            rows["fig1"].assign(never_selected=100 * rows["fig1"]["never_selected"]),
            policy,
            "never_selected",
        )
        for policy in ("Threshold Whittle", "Whittle", *SOLVERS)
    }
    starved = min(never["Threshold Whittle"][0], never["Whittle"][0])
    fair = max(never[solver][0] for solver in SOLVERS)
    ours = ", ".join(f"{policy} {_text(value)} %" for policy, value in never.items())
    if starved > 35 and fair < 10:
        verdict = (
            "Reproduced: index policies leave around half of the arms or more without any help, SoftFair with c = 2 next to none. "
            "The exact histogram depends on an instance that the paper does not give."
        )
    else:
        verdict = "Not reproduced at this size: see the shares."
    return [
        Judgement(
            '"almost 50% of the arms never get activated" by Threshold Whittle; SoftFair (c = 2) spreads help.',
            ours,
            verdict,
        )
    ]


# -- Figure 2


def _bars(ax: Axes, rows: Rows, figure: str, column: str, label: str) -> None:
    names = _parts(rows, figure)
    policies = [p for p in STYLE if p in set(rows[names[0]]["policy"]) and p != "Oracle"]
    width = 0.8 / len(policies)
    for j, policy in enumerate(policies):
        values = [_value(rows[name], policy, column) for name in names]
        places = np.arange(len(names)) + (j - (len(policies) - 1) / 2) * width
        heights, halves = (
            [v[0] for v in values],
            [0.0 if math.isnan(v[1]) else v[1] for v in values],
        )
        ax.bar(
            places,
            heights,
            width,
            yerr=halves,
            color=STYLE[policy][0],
            label=policy,
            error_kw={"elinewidth": 0.8},
        )
    ax.set_xticks(range(len(names)), [f"{EXPERIMENTS[name].x:g}" for name in names])
    ax.set_xlabel(label)
    ax.axhline(100, color=INK, linewidth=0.8, linestyle=":")


def _draw_figure_2(rows: Rows) -> Figure:
    wanted = [
        (f, label)
        for f, label in (
            ("fig2a", "arms n, k = 10 %"),
            ("fig2b", "k of 100 arms"),
            ("fig2c", "decisions T"),
        )
        if _parts(rows, f)
    ]
    figure, axes = new_figure(columns=len(wanted), width=3.6, height=3.4)
    for ax, (name, label) in zip(axes, wanted, strict=True):
        _bars(ax, rows, name, "benefit", label)
    axes[0].set_ylabel("intervention benefit, % of the Oracle's")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=min(len(labels), 3 * len(wanted)),
        frameon=False,
        fontsize=8,
    )
    return figure


def _trend(values: list[tuple[float, float]]) -> str:
    first, last = values[0], values[-1]
    noise = math.hypot(first[1], last[1])
    if abs(last[0] - first[0]) <= noise or math.isnan(noise):
        return "no change beyond the noise"
    return "a rise" if last[0] > first[0] else "a fall"


def _judge_figure_2(rows: Rows) -> list[Judgement]:
    judgements = []
    names = [name for figure in ("fig2a", "fig2b", "fig2c") for name in _parts(rows, figure)]
    wins: dict[str, int] = dict.fromkeys(SOLVERS, 0)
    for name in names:
        best = max(
            _value(rows[name], rival, "benefit")[0] for rival in ("Random", "Myopic", "FairMyopic")
        )
        for solver in SOLVERS:
            wins[solver] += _value(rows[name], solver, "benefit")[0] > best
    ours = ", ".join(
        f"{solver} leads in {won} of {len(names)} settings" for solver, won in wins.items()
    )
    everywhere = [solver for solver, won in wins.items() if won == len(names)]
    verdict = (
        f"Order reproduced by {', '.join(everywhere)}." if everywhere else "Not in every setting."
    )
    if len(everywhere) < len(SOLVERS):
        verdict += " The paper does not state its c; ours is recorded with the results."
    judgements.append(
        Judgement("SoftFair consistently outperforms Random, Myopic and FairMyopic.", ours, verdict)
    )
    claims = (
        ("fig2b", "A gradual increase of the benefit as k grows.", "a rise"),
        ("fig2c", "A smaller T leads to better performance (slightly).", "a fall"),
    )
    for figure, claim, wanted in claims:
        names = _parts(rows, figure)
        if len(names) < 2:
            continue
        trends = {}
        texts = []
        for solver in SOLVERS:
            values = [_value(rows[name], solver, "benefit") for name in names]
            trends[solver] = _trend(values)
            texts.append(
                f"{solver}: "
                + ", ".join(
                    f"{_text(v)} at {EXPERIMENTS[n].x:g}"
                    for v, n in zip(values, names, strict=True)
                )
            )
        same = [solver for solver, trend in trends.items() if trend == wanted]
        if len(same) == len(SOLVERS):
            verdict = "Reproduced by all three solvers."
        elif same:
            others = "; ".join(
                f"{solver} shows {trend}" for solver, trend in trends.items() if solver not in same
            )
            verdict = f"Reproduced by {', '.join(same)}; {others}."
        else:
            verdict = (
                "Not reproduced: "
                + "; ".join(f"{solver} shows {trend}" for solver, trend in trends.items())
                + "."
            )
        judgements.append(Judgement(claim, "; ".join(texts), verdict))
    return judgements


# -- Figure 3


def _lines(ax: Axes, rows: Rows, figure: str, column: str, policies: list[str]) -> list[float]:
    names = _parts(rows, figure)
    places = [EXPERIMENTS[name].x for name in names]
    finite = [float(x) for x in places if math.isfinite(float(x))]
    xs = [float(x) if math.isfinite(float(x)) else 2 * max(finite) for x in places]
    for policy in policies:
        colour, marker = STYLE[policy]
        values = [_value(rows[name], policy, column) for name in names]
        halves = [0.0 if math.isnan(v[1]) else v[1] for v in values]
        ax.errorbar(
            xs,
            [v[0] for v in values],
            yerr=halves,
            color=colour,
            marker=marker,
            markersize=5,
            elinewidth=0.8,
            label=policy,
        )
    ax.set_xticks(xs, ["\u221e" if math.isinf(float(x)) else f"{x:g}" for x in places])
    return xs


def _draw_figure_3a(rows: Rows) -> Figure:
    figure, axes = new_figure(columns=1, width=5.2, height=3.8)
    ax = axes[0]
    ax.set_xscale("log")
    _lines(ax, rows, "fig3a", "benefit", [*SOLVERS, "SoftFair (c_value = 1)"])
    ax.minorticks_off()
    ax.axhline(100, color=INK, linewidth=0.8, linestyle=":")
    ax.set_xlabel("multiplier c")
    ax.set_ylabel("intervention benefit, % of the Oracle's")
    ax.legend(frameon=False, fontsize=8)
    return figure


def _judge_figure_3a(rows: Rows) -> list[Judgement]:
    names = _parts(rows, "fig3a")
    rises = []
    for policy in (*SOLVERS, "SoftFair (c_value = 1)"):
        rises.append((policy, [_value(rows[name], policy, "benefit") for name in names]))
    ours = "; ".join(
        f"{policy}: " + ", ".join(_text(v) for v in values) for policy, values in rises
    )
    steady = [
        policy for policy, values in rises if all(b > a - 1 for (a, _), (b, _) in pairwise(values))
    ]
    judgements = [
        Judgement(
            "Benefit grows with c.",
            f"at c = {', '.join(f'{EXPERIMENTS[n].x:g}' for n in names)}: {ours}",
            f"Steady growth (to within a point) with {', '.join(steady) or 'none'}.",
        )
    ]
    if "fig3a/inf" in rows:
        top = _value(rows["fig3a/inf"], "SoftFair (c_value = 1)", "benefit")
        verdict = (
            "Reproduced to within two points of the Oracle."
            if top[0] > 98
            else "Near, but below the Oracle by more than two points."
        )
        judgements.append(
            Judgement(
                "Choosing the top k by \u03bb (c = \u221e, values learnt with c = 1) achieves the optimal result.",
                _text(top, 1) + " %",
                verdict,
            )
        )
    return judgements


def _draw_figure_3b(rows: Rows) -> Figure:
    figure, axes = new_figure(columns=1, width=5.2, height=3.8)
    _lines(
        axes[0], rows, "fig3b", "entropy", ["Random", "FairMyopic", *SOLVERS, "Myopic", "Oracle"]
    )
    axes[0].set_xlabel("chance p[1, 0] that help in the bad state brings the good one")
    axes[0].set_ylabel("action entropy")
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    return figure


def _judge_figure_3b(rows: Rows) -> list[Judgement]:
    names = _parts(rows, "fig3b")
    highest, above = 0, dict.fromkeys(SOLVERS, 0)
    for name in names:
        entropy = {policy: line.mean for policy, line in summary(rows[name], "entropy").items()}
        highest += max(entropy, key=lambda policy: entropy[policy]) == "Random"
        for solver in SOLVERS:
            above[solver] += entropy[solver] > entropy["Oracle"]
    ours = f"Random highest in {highest} of {len(names)}; above the Oracle: " + ", ".join(
        f"{s} {n} of {len(names)}" for s, n in above.items()
    )
    good = highest == len(names) and above["SoftFair (priced)"] == len(names)
    verdict = (
        "Order reproduced."
        if good and min(above.values()) == len(names)
        else "Order reproduced in part, see the counts."
    )
    return [
        Judgement(
            "Random has the highest entropy, SoftFair always a higher one than the Oracle.",
            ours,
            verdict,
        )
    ]


# -- Table 2


def _draw_table_2(rows: Rows) -> Figure:
    figure, axes = new_figure(columns=1, width=5.2, height=3.8)
    ax = axes[0]
    table = rows["table2"]
    benefit, entropy = summary(table, "benefit"), summary(table, "entropy")
    for policy, (colour, marker) in STYLE.items():
        if policy in benefit:
            ax.errorbar(
                entropy[policy].mean,
                benefit[policy].mean,
                xerr=entropy[policy].half,
                yerr=benefit[policy].half,
                color=colour,
                marker=marker,
                linestyle="",
                label=policy,
            )
    for policy, ((mean, _), (spread, _)) in PAPER_TABLE_2.items():
        ax.annotate(
            f"{policy}, paper",
            (spread, mean),
            (4, 4),
            textcoords="offset points",
            fontsize=7,
            color="#c0392b",
        )
        ax.plot(spread, mean, marker="*", color="#c0392b", markersize=8, linestyle="")
    ax.set_xlabel("action entropy")
    ax.set_ylabel("intervention benefit, % of the Oracle's")
    ax.legend(frameon=False, fontsize=7, loc="lower left")
    return figure


def _judge_table_2(rows: Rows) -> list[Judgement]:
    table = rows["table2"]
    benefit, entropy = summary(table, "benefit"), summary(table, "entropy")
    judgements = []
    for policy, (paper_benefit, paper_entropy) in PAPER_TABLE_2.items():
        for name in SOLVERS if policy == "SoftFair" else (policy,):
            b, e = benefit[name], entropy[name]
            near = [
                what
                for what, ours, (theirs, sd) in (
                    ("benefit", b, paper_benefit),
                    ("entropy", e, paper_entropy),
                )
                if abs(ours.mean - theirs) <= max(sd, ours.sd)
            ]
            judgements.append(
                Judgement(
                    f"{policy}: benefit {paper_benefit[0]:g} \u00b1 {paper_benefit[1]:g}, "
                    f"entropy {paper_entropy[0]:g} \u00b1 {paper_entropy[1]:g}",
                    f"{name}: benefit {b.mean:.0f} \u00b1 {b.sd:.0f} (mean to \u00b1 {b.half:.0f}), "
                    f"entropy {e.mean:.2f} \u00b1 {e.sd:.2f} (mean to \u00b1 {e.half:.2f})",
                    f"{' and '.join(near).capitalize() or 'Neither'} within a standard deviation.",
                )
            )
    judgements.append(
        Judgement(
            "The absolute figures",
            "every choice is recorded, and a parameter of the cohort or of SoftFair",
            "Not recoverable from the text, because the mix of patients, the meaning of 5-50 %, the noise, c and the number of episodes "
            "are not stated.",
        )
    )
    for column, order in (
        ("benefit", ("Myopic", "SoftFair", "FairMyopic", "Random")),
        ("entropy", ("Random", "FairMyopic", "SoftFair", "Myopic")),
    ):
        means = summary(table, column)
        held = []
        for solver in SOLVERS:
            line = [means[solver if policy == "SoftFair" else policy].mean for policy in order]
            held.append((solver, all(a > b for a, b in pairwise(line))))
        yes = [solver for solver, ok in held if ok]
        verdict = (
            "Order reproduced."
            if len(yes) == len(SOLVERS)
            else f"Order reproduced with {', '.join(yes) or 'no solver'}."
        )
        a, b = means["Random"], means["FairMyopic"]
        if abs(a.mean - b.mean) <= math.hypot(a.half, b.half):
            verdict += (
                " Random and FairMyopic are nearer to each other than their intervals tell apart."
            )
        judgements.append(
            Judgement(
                f"Order of {column}: {' > '.join(order)}",
                ", ".join(f"{solver}: {'the same' if ok else 'different'}" for solver, ok in held),
                verdict,
            )
        )
    return judgements


# -- Beyond the paper


def _draw_beyond(rows: Rows) -> Figure:
    figure, axes = new_figure(columns=2, width=4.6, height=4.0)
    names = _parts(rows, "fig3a")
    for ax, (column, label) in zip(
        axes,
        (("entropy", "action entropy"), ("never_selected", "share of arms never helped")),
        strict=True,
    ):
        for policy in (*SOLVERS, "SoftFair (c_value = 1)"):
            colour, marker = STYLE[policy]
            points = [
                (_value(rows[n], policy, column)[0], _value(rows[n], policy, "benefit")[0])
                for n in names
            ]
            ax.plot(
                *zip(*points, strict=True), color=colour, marker=marker, markersize=5, label=policy
            )
        for policy in ("Random", "Myopic", "FairMyopic", "Oracle"):
            colour, marker = STYLE[policy]
            ax.plot(
                _value(rows[names[0]], policy, column)[0],
                _value(rows[names[0]], policy, "benefit")[0],
                color=colour,
                marker=marker,
                linestyle="",
                label=policy,
            )
        ax.set_xlabel(label)
    axes[0].set_ylabel("intervention benefit, % of the Oracle's")
    axes[0].legend(frameon=False, fontsize=7, loc="lower left")
    return figure


def _judge_beyond(rows: Rows) -> list[Judgement]:
    names = _parts(rows, "fig3a")
    coupled = [
        (
            _value(rows[n], "SoftFair (paper)", "entropy")[0],
            _value(rows[n], "SoftFair (paper)", "benefit")[0],
        )
        for n in names
    ]
    priced = [
        (
            _value(rows[n], "SoftFair (priced)", "entropy")[0],
            _value(rows[n], "SoftFair (priced)", "benefit")[0],
        )
        for n in names
    ]
    priced.sort()
    gains = []
    for entropy, benefit in coupled:
        if priced[0][0] <= entropy <= priced[-1][0]:
            gains.append(
                float(np.interp(entropy, [e for e, _ in priced], [b for _, b in priced])) - benefit
            )
    bound = _value(rows[names[-1]], "SoftFair (priced)", "of_bound")
    ours = (
        f"at the same entropy, prices bring {min(gains):.0f} to {max(gains):.0f} points more"
        if gains
        else "no common entropy"
    )
    if gains and max(gains) > 1:
        verdict = "The paper's recipe is beaten: prices, or values learnt with c = 1, dominate the coupled c on the frontier."
    else:
        verdict = "No clear gain at this size."
    return [
        Judgement(
            "(beyond the paper) One c for learning and drawing against prices, and against c_value = 1.",
            ours,
            verdict,
        ),
        Judgement(
            "(beyond the paper) A certificate.",
            f"priced, largest c: {_text(bound, 1)} % of what no policy can exceed",
            "True for every policy that helps at most k.",
        ),
    ]


SECTIONS = (
    _Section("fig1", "Figure 1: who is ever helped", _draw_figure_1, _judge_figure_1, ("fig1",)),
    _Section(
        "fig2",
        "Figure 2: benefit by size, budget and horizon",
        _draw_figure_2,
        _judge_figure_2,
        ("fig2a", "fig2b", "fig2c"),
    ),
    _Section(
        "fig3a",
        "Figure 3a: benefit by the multiplier c",
        _draw_figure_3a,
        _judge_figure_3a,
        ("fig3a",),
    ),
    _Section("fig3b", "Figure 3b: action entropy", _draw_figure_3b, _judge_figure_3b, ("fig3b",)),
    _Section("table2", "Table 2: the CPAP cohort", _draw_table_2, _judge_table_2, ("table2",)),
    _Section("frontier", "Beyond the paper: the frontier", _draw_beyond, _judge_beyond, ("fig3a",)),
)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>softfair: the paper, reproduced</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 60rem; padding: 1rem; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.2rem; margin-top: 2.5rem; }}
.figure {{ overflow-x: auto; }} img {{ width: 100%; height: auto; }}
dl {{ border-left: 3px solid #1f6fb4; padding-left: .8rem; margin: 1rem 0; }}
dt {{ font-size: .8rem; color: #666; }} dd {{ margin: 0 0 .4rem 0; overflow-wrap: anywhere; }} dd.verdict {{ font-weight: 600; }}
footer {{ margin-top: 3rem; font-size: .85rem; color: #666; overflow-wrap: anywhere; }}
</style></head><body>
<h1>Towards Soft Fairness in Restless Multi-Armed Bandits, reproduced</h1>
<p>{intro}</p>
{sections}
<footer>{footer}</footer>
</body></html>
"""


def write_report(rows: Rows, out: Path, runs: int, seed: int, quick: bool = False) -> Path:
    """Figures as PNG and SVG under ``out/figures`` and ``out/report.html``, of the sections whose experiments are there; its path."""
    parts = []
    for section in SECTIONS:
        if not any(_parts(rows, figure) for figure in section.needs):
            continue
        figure = section.draw(rows)
        images = {}
        for kind in ("png", "svg"):
            buffer = io.BytesIO()
            figure.savefig(
                buffer, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None
            )
            images[kind] = buffer.getvalue()
            write_whole(out / "figures" / f"{section.key}.{kind}", images[kind])
        picture = base64.b64encode(images["png"]).decode()
        body = "".join(
            f"<dl><dt>the paper</dt><dd>{html.escape(j.paper)}</dd><dt>here</dt><dd>{html.escape(j.ours)}</dd>"
            f'<dt>verdict</dt><dd class="verdict">{html.escape(j.verdict)}</dd></dl>'
            for j in section.judge(rows)
        )
        title = html.escape(section.title)
        inches = figure.get_figwidth()
        # Panels side by side stay legible on a phone and are pushed along; a single one fits.
        width = (
            f"min-width:{5 * inches:g}rem"
            if len(figure.axes) > 1
            else f"max-width:{8 * inches:g}rem"
        )
        image = f'<img style="{width}" alt="{title}" src="data:image/png;base64,{picture}">'
        parts.append(f'<section><h2>{title}</h2><div class="figure">{image}</div>{body}</section>')
    rough = sorted({name for name, table in rows.items() if not table["converged"].all()})
    notes = (
        f" A solver stopped short of its tolerance in {', '.join(rough)}: the column <code>residual</code> there says by how much."
        if rough
        else ""
    )
    intro = (
        f"{runs} simulations of each policy in each setting, seed {seed}. Not only the runs but the instances vary: five runs on each "
        "cohort. After \u00b1 stands the 95 % interval of the mean over instances; in Table 2 the standard deviation over all "
        "simulations comes first, as in the paper."
    )
    if quick:
        intro = (
            "A small version with fewer arms, decisions, episodes and runs than the paper's: for a first look, not for its numbers. "
            + intro
        )
    footer = (
        "Every setting, seed and version is recorded beside the rows in <code>results/</code>. gamma = 1; SoftFair's c is 9 unless said "
        "otherwise (2 in Figure 1); Algorithm 1 runs 6 T episodes, at least 300." + notes
    )
    path = out / "report.html"
    write_whole(path, PAGE.format(intro=intro, sections="\n".join(parts), footer=footer).encode())
    return path
