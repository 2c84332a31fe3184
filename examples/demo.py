"""The main job: which policy at what price?

Every policy on the synthetic and the CPAP cohort as a table, and what fairness costs as a picture;
then the paper's figures and tables, the small version, as a report.

Run with ``make demo``; everything goes to out/, or to the folder that is named.
"""

import sys
import warnings
from pathlib import Path

from rich.console import Console
from rich.table import Table

import softfair as sf
from softfair.cli import reproduce
from softfair.figures import draw_frontier, draw_histograms, new_figure

N, K, HORIZON, RUNS = 100, 10, 50, 50
POLICIES = [
    sf.NoIntervention(),
    sf.Random(),
    sf.RoundRobin(),
    sf.Myopic(),
    sf.FairMyopic(),
    sf.Oracle(),
    sf.Whittle("infinite"),
    sf.Whittle("finite"),
    sf.ThresholdWhittle(),
    sf.FaWT(window=20),
    sf.ProbFair(low=0.02),
    sf.SoftFair(c=5, solver="paper", design="successive", episodes=6 * HORIZON),
    sf.SoftFair(c=5, solver="meanfield", design="successive"),
    sf.SoftFair(c=10, c_value=1, solver="meanfield", design="successive"),
    sf.SoftFair(c=5),
    sf.SoftFair(c=10),
    sf.SoftFair(c=20),
]
COLUMNS = {  # narrow enough for a terminal of 80 columns
    "benefit": ("benefit %", "{:.0f}±{:.0f}"),
    "of_bound": ("bound %", "{:.0f}"),
    "entropy": ("entropy", "{:.2f}"),
    "never_selected": ("never", "{:.0%}"),
    "longest_wait": ("wait", "{:.0f}"),
}
SETTING = {"k": K, "horizon": HORIZON}


def show(console, name, cohort):
    """Print a table of all policies on one cohort; return it."""
    figures = sf.compare(POLICIES, cohort, **SETTING, runs=RUNS)
    title = f"{name}: n = {N}, k = {K}, {HORIZON} decisions, {RUNS} runs (± sd over runs)"
    table = Table(title=title)
    table.add_column("policy", overflow="fold")
    for heading, _ in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for _, row in figures.iterrows():
        cells = [
            text.format(row[column], row[f"{column}_sd"] if "±" in text else 0)
            for column, (_, text) in COLUMNS.items()
        ]
        table.add_row(row["policy"] if row["converged"] else f"{row['policy']}*", *cells)
    console.print(table)
    console.print(
        "benefit: % of what the Oracle adds; bound: % of the most that any policy can add; "
        "never: share of people never helped; wait: longest of anybody, in decisions"
        + ("" if figures["converged"].all() else "\n* values had not settled")
        + "\n",
        style="dim",
    )
    return figures


def trace(cohort, policy, cs=None):
    """The curve over c."""
    return sf.frontier(cohort, **SETTING, cs=cs, policy=policy, runs=RUNS)


def draw_cost(out, console):
    """What fairness costs on two cohorts."""
    figure, axes = new_figure(columns=2)
    cohorts = {
        "synthetic": sf.datasets.synthetic(N, seed=0),
        "CPAP": sf.datasets.cpap(N, seed=0),
    }
    for ax, (name, cohort) in zip(axes, cohorts.items(), strict=True):
        figures = show(console, name, cohort)
        one_c = sf.SoftFair(solver="meanfield", design="successive")
        curves = {
            "values by prices": trace(cohort, sf.SoftFair()),
            "one c for values and draws (mean field)": trace(cohort, one_c, (0, 1, 2, 3, 5, 7, 9)),
        }
        marked = figures["policy"].isin(["Random", "Myopic", "FairMyopic", "Oracle"])
        ax.set_title(f"{name} cohort: SoftFair over its multiplier c")
        draw_frontier(ax, curves, figures[marked])
    figure.savefig(out / "frontier.png", dpi=150)


def draw_starved(out):
    """Figure 1 of the paper (n = 100, k = 10, T = 100): who is ever helped in one run."""
    cohort = sf.datasets.synthetic(N, seed=0)
    policies = {
        "Threshold Whittle": sf.ThresholdWhittle(),
        "SoftFair, c = 2": sf.SoftFair(c=2),
    }
    counts = {
        label: sf.simulate(policy.fit(cohort, k=K, horizon=100), runs=1).counts[0]
        for label, policy in policies.items()
    }
    figure, axes = new_figure(columns=2, height=3.2)
    draw_histograms(axes, counts)
    figure.savefig(out / "selections.png", dpi=150)


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.NotConverged)  # the table and the picture say where
        draw_cost(out, console)
        draw_starved(out)
    console.print(
        f"Pictures: {out / 'frontier.png'} (what fairness costs), "
        f"{out / 'selections.png'} (who is ever helped)"
    )
    console.print(
        "The paper's figures and tables with few cohorts and episodes; `softfair reproduce` makes "
        "them in full. Report:"
    )
    reproduce(quick=True, out=out)


if __name__ == "__main__":
    main()
