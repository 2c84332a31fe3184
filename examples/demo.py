"""The main job: which policy for which price? Every policy on the synthetic and the CPAP cohort, as a table, and the frontier as a picture;
then the paper's figures and tables in little, as a report.

Run with ``make demo``; everything goes to out/, or to the folder that is named.
"""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import softfair as sf
from softfair.cli import reproduce
from softfair.figures import draw_frontier, draw_histograms, new_figure

N, K, HORIZON = 100, 10, 50
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
    sf.SoftFair(c=5, solver="paper", design="successive"),
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


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    frontier, axes = new_figure(columns=2)
    for ax, (name, cohort) in zip(
        axes,
        {
            "synthetic": sf.datasets.synthetic(N, seed=0),
            "CPAP": sf.datasets.cpap(N, seed=0),
        }.items(),
        strict=True,
    ):
        figures = sf.compare(POLICIES, cohort, k=K, horizon=HORIZON)
        table = Table(title=f"{name}: n = {N}, k = {K}, {HORIZON} decisions, 50 runs (± sd)")
        table.add_column("policy", overflow="fold")
        for heading, _ in COLUMNS.values():
            table.add_column(heading, justify="right", no_wrap=True)
        for _, row in figures.iterrows():
            cells = [
                text.format(row[column], row[f"{column}_sd"] if "±" in text else 0)
                for column, (_, text) in COLUMNS.items()
            ]
            table.add_row(row["policy"], *cells)
        console.print(table)
        console.print(
            "benefit: % of the Oracle's; bound: % of what no policy can exceed; never: share of people never helped\n",
            style="dim",
        )
        curves = {
            "SoftFair, priced": sf.frontier(cohort, k=K, horizon=HORIZON),
            "SoftFair, the paper's coupled c": sf.frontier(
                cohort,
                k=K,
                horizon=HORIZON,
                cs=(0, 1, 2, 3, 5, 7, 9),
                policy=sf.SoftFair(solver="meanfield", design="successive"),
            ),
        }
        draw_frontier(
            ax,
            curves,
            figures[figures["policy"].isin(["Random", "Myopic", "FairMyopic", "Oracle"])],
        )
        ax.set_title(f"{name} cohort")
    frontier.savefig(out / "frontier.png", dpi=150)

    # Figure 1 of the paper: n = 100, k = 10, T = 100; one run each.
    cohort = sf.datasets.synthetic(N, seed=0)
    starved, axes = new_figure(columns=2, height=3.2)
    counts = {}
    for label, policy in {
        "Threshold Whittle": sf.ThresholdWhittle(),
        "SoftFair, c = 2": sf.SoftFair(c=2),
    }.items():
        counts[label] = sf.simulate(policy.fit(cohort, k=K, horizon=100), runs=1).counts[0]
    draw_histograms(axes, counts)
    starved.savefig(out / "selections.png", dpi=150)
    console.print(
        f"Pictures: {out / 'frontier.png'} (benefit against fairness), {out / 'selections.png'} (who is ever helped)"
    )
    console.print(
        "The paper's figures and tables in little; `softfair reproduce` makes them in full. Report:"
    )
    reproduce(quick=True, out=out)


if __name__ == "__main__":
    main()
