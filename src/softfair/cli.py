"""The verbs as commands, nothing else.

Heavy libraries are loaded inside the commands, so that --help is instant.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from .errors import NotConverged, SoftFairError
from .programme.commands import commands

if TYPE_CHECKING:
    import pandas as pd

    from .policies import Policy
    from .theory import Verdict

__all__ = ["app", "main"]

app = typer.Typer(
    name="softfair",
    help="Which k of n people get help, fairly, at the least cost in outcomes, with proof.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.add_typer(commands)

Runs = Annotated[int, typer.Option(min=1, help="Simulations of each policy.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed: the same seed gives the same answer.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
CohortFile = Annotated[
    Path,
    typer.Argument(
        help="CSV or Parquet: p00,p01,p10,p11 (chance of the good state, by action and state); "
        "optional id, group, start (state now)."
    ),
]
Budget = Annotated[
    int, typer.Option("--k", min=0, help="People that can be helped at each decision.")
]
Horizon = Annotated[int, typer.Option(min=1, help="Decisions to plan for.")]
Gamma = Annotated[
    float, typer.Option(min=0, max=1, help="Discount: 1 counts later rewards in full.")
]
Picture = Annotated[Path | None, typer.Option("--png", help="Draw the result to this file.")]


QUICK_RUNS = 40  # of each policy in the small version: 8 cohorts, 5 runs on each


class _ListsIds(TyperCommand):
    """Adds the ids of all experiments to the help, when it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from .experiments.catalogue import names_of_experiments

        self.epilog = f"Ids: {', '.join(names_of_experiments())}."
        super().format_help(ctx, formatter)


@app.command(cls=_ListsIds)
def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Ids as below, or a whole figure (fig2, fig2a); nothing: everything."),
    ] = None,
    runs: Runs = 50,
    seed: Seed = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Experiments at a time; default all cores.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results, figures and the report.")] = Path(
        "out"
    ),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Under a minute: 8 cohorts and a few episodes of Algorithm 1, into OUT/quick.",
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Run again what is already there.")
    ] = False,
) -> None:
    """Run the paper's figures and tables, and write report.html beside the paper's own numbers."""
    from .experiments import find, run, write_report
    from .theory import verdicts

    experiments = find(ids or [])
    if quick:
        runs, out = min(runs, QUICK_RUNS), out / "quick"
        # The grids of readings are many experiments: left out, unless they are named as such.
        wanted = [
            e
            for e in experiments
            if not e.figure.endswith("-readings") or {e.id, e.figure} & {*(ids or [])}
        ]
        experiments = [experiment.small() for experiment in wanted]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the report says where
        claims: list[Verdict] = []

        def judge_claims() -> None:
            if not ids:  # the paper's claims belong to the whole
                claims.extend(verdicts(quick, seed))

        results = run(experiments, out, runs, seed, jobs, again, judge_claims)
    print(write_report(results, out, seed, quick, claims))


@app.command()
def verify(
    claim: Annotated[
        list[str] | None, typer.Option(help="A claim by name (repeat for more); default all.")
    ] = None,
    recheck: Annotated[
        Path | None,
        typer.Option(help="Compute the witnesses of this file anew, which --json wrote."),
    ] = None,
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer instances.")] = False,
    seed: Seed = 0,
) -> None:
    """Tell which of the paper's claims are so, each with its margin and a witness to re-check."""
    from .theory import output, verdicts

    if recheck is None:
        answers = verdicts(quick, seed, claim or None)
        if as_json:
            print(output.as_json(answers))
        else:
            output.show(answers, witnesses=bool(claim))
        return
    rechecked = output.recheck_file(recheck, claim)
    if as_json:
        rows = [{"claim": verdict.claim, "confirmed": ok} for verdict, ok in rechecked]
        print(json.dumps(rows, indent=1))
    else:
        output.show_rechecked(rechecked)
    if not all(ok for _, ok in rechecked):
        raise typer.Exit(1)


@app.command()
def frontier(
    cohort: CohortFile,
    k: Budget,
    horizon: Horizon = 50,
    gamma: Gamma = 1.0,
    c: Annotated[
        list[str] | None,
        typer.Option(help="A multiplier (repeat for more); default from 0 to inf."),
    ] = None,
    runs: Runs = 50,
    seed: Seed = 0,
    as_json: Json = False,
    png: Picture = None,
) -> None:
    """What fairness costs for your own people: benefit against even spread of help, by c."""
    from .comparison import frontier as trace
    from .files import read_cohort

    curve = trace(
        read_cohort(cohort),
        k,
        horizon,
        [_number("c", text) for text in c] if c else None,
        gamma,
        runs,
        seed,
    )
    _show(curve, as_json, f"{cohort.name}: k = {k}, {horizon} decisions, {runs} runs")
    if png is not None:
        _draw(png, {"SoftFair": curve})


@app.command()
def simulate(
    cohort: CohortFile,
    k: Budget,
    horizon: Horizon = 50,
    gamma: Gamma = 1.0,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Such as SoftFair:10 (c), FaWT:20 (window), ProbFair:.05 (low), Whittle:finite, "
            "Oracle (repeat for more)."
        ),
    ] = None,
    runs: Runs = 50,
    seed: Seed = 0,
    as_json: Json = False,
    png: Picture = None,
) -> None:
    """How policies would fare with your own people, side by side."""
    from .comparison import compare
    from .files import read_cohort

    names = policy or [
        "Random",
        "Myopic",
        "FairMyopic",
        "Oracle",
        "SoftFair:5",
        "SoftFair:10",
        "SoftFair:20",
    ]
    table = compare(
        [_policy(name) for name in names], read_cohort(cohort), k, horizon, gamma, runs, seed
    )
    _show(table, as_json, f"{cohort.name}: k = {k}, {horizon} decisions, {runs} runs")
    if png is not None:
        _draw(png, {}, table)


@app.command()
def bench(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="pass, memory, inclusion, start, reproduce; nothing: all."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the sizes, to see that everything runs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """How fast it is here: ratios of times taken in one run, each beside its goal."""
    from .bench import PARTS, measure, show

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        measured = measure(PARTS, parts or [], quick)
        if as_json:
            rows = [
                dict(zip(("what", "measured", "unit", "goal"), row, strict=True))
                for _, rows_of_part in measured
                for row in rows_of_part
            ]
            print(json.dumps(rows, indent=1))
        else:
            show(measured)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{name} is {text!r}; give a number") from None


def _policy(text: str) -> Policy:
    """A policy by name, some with one number or word after a colon."""
    from . import policies
    from .registry import POLICIES

    name, colon, detail = text.partition(":")
    if name not in POLICIES:
        raise typer.BadParameter(f"there is no policy {name!r}; choose from {', '.join(POLICIES)}")
    make: Any = getattr(policies, name)
    parameter, usual = POLICIES[name].parameter, POLICIES[name].usual
    if parameter is None:
        if colon:
            raise typer.BadParameter(
                f"{name} takes nothing after its name, and {detail!r} was given; say {name}"
            )
        made: Policy = make()
        return made
    value: float | str | None = usual
    if colon:
        value = _number(f"{parameter} of {name}", detail) if isinstance(usual, float) else detail
    made = make(**{parameter: value})
    return made


def _show(table: pd.DataFrame, as_json: bool, title: str) -> None:
    if as_json:
        text = table.to_json(orient="records", double_precision=10)
        records = json.loads(text) if text else []
        for record, c in zip(records, table.get("c", [0.0] * len(table)), strict=True):
            if math.isinf(c):
                record["c"] = "inf"  # JSON has no infinity
        print(json.dumps(records, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=title)
    shown.add_column("policy", overflow="fold")
    columns = {
        "benefit": ("benefit %", "{:.0f}\u00b1{:.0f}"),
        "of_bound": ("bound %", "{:.0f}"),
        "entropy": ("entropy", "{:.2f}"),
        "never_selected": ("never", "{:.0%}"),
        "longest_wait": ("wait", "{:.0f}"),
        "unfair": ("unfair %", "{:.1f}"),
    }
    for heading, _ in columns.values():
        shown.add_column(heading, justify="right", no_wrap=True)
    rough = ~table["converged"].to_numpy(bool)
    for (_, row), unsettled in zip(table.iterrows(), rough, strict=True):
        shown.add_row(
            row["policy"] + "*" * int(unsettled),
            *(
                text.format(row[name], row.get(f"{name}_sd", 0))
                for name, (_, text) in columns.items()
            ),
        )
    console = Console()
    console.print(shown)
    console.print(
        "benefit: % of the Oracle's \u00b1 sd; bound: % of the most that any policy can add; "
        "never: share of people never helped;",
        style="dim",
    )
    console.print(
        "wait: longest in decisions; unfair: % of pairs where who would gain less has the better "
        "chance" + ("; *: values had not settled" if rough.any() else ""),
        style="dim",
    )


def _draw(
    path: Path, curves: dict[str, pd.DataFrame], policies: pd.DataFrame | None = None
) -> None:
    """Benefit against fairness, as a picture in a file."""
    from .figures import draw_frontier, new_figure
    from .files import write_whole
    from .page import picture

    figure, axes = new_figure()
    draw_frontier(axes[0], curves, policies)
    write_whole(path, picture(figure, dpi=150))
    print(path, file=sys.stderr)


def main() -> None:
    """Run; bad input is one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
        if code == 130:  # what becomes of Ctrl-C inside a command
            raise KeyboardInterrupt
        sys.exit(code)
    except SoftFairError as error:
        print(f"softfair: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("softfair: interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read the output has seen enough, as `head` does
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # so that the interpreter's last flush does not complain
        sys.exit(0)
    except Exception as error:
        # click's own complaints about arguments carry a message and an exit code
        if hasattr(error, "format_message"):
            print(f"softfair: {error.format_message()}", file=sys.stderr)
            sys.exit(getattr(error, "exit_code", 2))
        raise
