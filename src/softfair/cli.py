"""The verbs as commands, nothing else.

Heavy libraries are loaded inside the commands, so that --help is instant.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from .errors import InvalidInput, NotConverged, SoftFairError
from .programme.commands import commands
from .programme.commands.shared import altered, examples
from .web.commands import commands as web_commands

if TYPE_CHECKING:
    import pandas as pd

    from .cohort import Cohort
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
app.add_typer(web_commands)


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"softfair {version('softfair')}")
        raise typer.Exit


@app.callback()
def _softfair(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Tell the version."),
    ] = False,
) -> None:
    """Which k of n people get help, fairly, at the least cost in outcomes, with proof."""


def _names_of_policies(incomplete: str) -> list[str]:
    """The names that a shell completes after --policy."""
    from .registry import POLICIES

    return [name for name in POLICIES if name.lower().startswith(incomplete.lower())]


Runs = Annotated[int, typer.Option(min=1, help="Simulations of each policy.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed: the same seed gives the same answer.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        autocompletion=_names_of_policies,
        help="Such as Oracle, SoftFair:10, SoftFair:c=5,solver=paper,design=successive, a label "
        "that was printed, or FILE.py:Class for one of your own (repeat for more).",
    ),
]
CohortFile = Annotated[
    Path,
    typer.Argument(
        help="CSV, Parquet or a folder of Parquet: p00,p01,p10,p11 (chance of the good state, "
        "by action and state); optional id, group, start (state now), cost of help."
    ),
]
Budget = Annotated[
    int,
    typer.Option(
        "--k", min=0, help="People that can be helped at each decision; or what they may cost."
    ),
]
Budgets = Annotated[
    str,
    typer.Option(
        "--k",
        metavar="INTEGER[,INTEGER...]",
        help="People that can be helped at each decision, or what they may cost; or one number for "
        "each decision, such as 10,10,0,10 with --horizon 4.",
    ),
]
Horizon = Annotated[int, typer.Option(min=1, help="Decisions to plan for.")]
Gamma = Annotated[
    float, typer.Option(min=0, max=1, help="Discount: 1 counts later rewards in full.")
]
On = Annotated[
    str | None,
    typer.Option(
        "--on", help="Workers: the address of a Dask scheduler, or a number of processes."
    ),
]
Picture = Annotated[Path | None, typer.Option("--png", help="Draw the result to this file.")]


QUICK_RUNS = 40  # of each policy in the small version: 8 cohorts, 5 runs on each


class _ListsIds(TyperCommand):
    """Adds the ids of all experiments to the help, when it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from .experiments.catalogue import names_of_experiments

        ids = f"Ids: {', '.join(names_of_experiments())}."
        self.epilog = (
            f"{examples('softfair reproduce table2', 'softfair reproduce --quick')}\n\n{ids}"
        )
        super().format_help(ctx, formatter)


@app.command(epilog=examples("softfair demo", "softfair demo --out demonstration"))
def demo(
    out: Annotated[Path, typer.Option(help="Folder for pictures, report and audit.")] = Path("out"),
) -> None:
    """The demonstration: every policy on two cohorts, the paper in little, four weeks of a
    programme. It takes some minutes."""
    from .demo import run_a_programme, show_policies

    show_policies(out)
    print("The paper's figures and tables, with few cohorts and episodes. Report:")
    reproduce(quick=True, out=out)
    run_a_programme(out / "programme")


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
            help="Some 30 s: 8 cohorts, Algorithm 1 in Table 2 alone, into OUT/quick.",
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Run again what is already there.")
    ] = False,
    policy: Policies = None,
    on: On = None,
) -> None:
    """Run the paper's figures and tables, and write report.html beside the paper's own numbers."""
    from .experiments import Drawings, find, run, write_report
    from .kernels.threads import get_threads
    from .theory import verdicts

    experiments = find(ids or [])
    if quick:
        runs, out = min(runs, QUICK_RUNS), out / "quick"
        # The grids of readings are many experiments. They are left out unless they are named.
        wanted = [
            e
            for e in experiments
            if not e.figure.endswith("-readings") or {e.id, e.figure} & {*(ids or [])}
        ]
        experiments = [experiment.small() for experiment in wanted]
    if policy:
        added = [_policy(name) for name in policy]
        experiments = [experiment.beside(added) for experiment in experiments]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the report says where
        claims: list[Verdict] = []

        def judge_claims() -> None:
            if not ids:  # the paper's claims belong to the whole
                claims.extend(verdicts(quick, seed))

        # Small problems spend more time in Python than in kernels, so several processes share them.
        # Other processes might not find the file of a user's own policy.
        if on is None and not ids and not policy and (workers := jobs or get_threads()) > 1:
            on = str(workers - 1)
        drawings = Drawings(experiments, out)
        results = run(
            experiments, out, runs, seed, jobs, again, judge_claims, on, each=drawings.add
        )
    print(write_report(results, out, seed, quick, claims, drawings))


@app.command(epilog=examples("softfair verify", "softfair verify --claim theorem-1"))
def verify(
    claim: Annotated[
        list[str] | None, typer.Option(help="A claim by name (repeat for more); default all.")
    ] = None,
    recheck: Annotated[
        Path | None,
        typer.Option(help="Compute the witnesses of this file anew, which --json wrote."),
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer instances.")] = False,
    seed: Seed = 0,
) -> None:
    """Tell which of the paper's claims are so, each with its margin and a witness to re-check."""
    from .theory import output, verdicts

    if recheck is None:
        answers = verdicts(quick, seed, claim or None)
        if as_json:
            print(output.as_json(answers))
        elif as_csv:
            print(output.as_csv(answers), end="")
        else:
            output.show(answers, witnesses=bool(claim))
        return
    rechecked = output.recheck_file(recheck, claim)
    rows = [{"claim": verdict.claim, "confirmed": ok} for verdict, ok in rechecked]
    if as_json or as_csv:
        _print_rows(rows, as_csv)
    else:
        output.show_rechecked(rechecked)
    if not all(ok for _, ok in rechecked):
        raise typer.Exit(1)


@app.command(epilog=examples("softfair frontier people.csv --k 10 --png curve.png"))
def frontier(
    cohort: CohortFile,
    k: Budgets,
    horizon: Horizon = 50,
    gamma: Gamma = 1.0,
    c: Annotated[
        list[str] | None,
        typer.Option(help="A multiplier (repeat for more); default from 0 to inf."),
    ] = None,
    runs: Runs = 50,
    seed: Seed = 0,
    as_json: Json = False,
    as_csv: Csv = False,
    png: Picture = None,
) -> None:
    """What fairness costs for your own people: benefit against even spread of help, by c."""
    from .comparison import frontier as trace

    people = _people(cohort)
    cs = [_number("c", text) for text in c] if c else None
    each = _each_decision(k)
    curve = trace(people, each, horizon, cs, gamma, runs, seed, bound=True)
    _show(curve, as_json, as_csv, f"{cohort.name}: k = {k}, {horizon} decisions, {runs} runs")
    if png is not None:
        from .comparison import limit
        from .demo import tradeoff

        curves, others = tradeoff(people, each, horizon, gamma, runs, seed, curve)
        _draw(png, curves, others, bound=limit(people, each, horizon, gamma, runs, seed))


@app.command(
    epilog=examples("softfair simulate people.csv --k 10 --policy Oracle --policy SoftFair:10")
)
def simulate(
    cohort: CohortFile,
    k: Budgets,
    horizon: Horizon = 50,
    gamma: Gamma = 1.0,
    policy: Policies = None,
    runs: Runs = 50,
    seed: Seed = 0,
    as_json: Json = False,
    as_csv: Csv = False,
    png: Picture = None,
) -> None:
    """How policies would fare with your own people, side by side."""
    from .comparison import compare

    names = policy or [
        "Random",
        "Myopic",
        "FairMyopic",
        "Oracle",
        "SoftFair:5",
        "SoftFair:10",
        "SoftFair:20",
    ]
    policies = [_policy(name) for name in names]
    with warnings.catch_warnings():
        # What cannot be compared is told below the table, or in the error if nothing can.
        warnings.filterwarnings("ignore", message=".* cannot be compared: ")
        table = compare(policies, _people(cohort), _each_decision(k), horizon, gamma, runs, seed)
    _show(table, as_json, as_csv, f"{cohort.name}: k = {k}, {horizon} decisions, {runs} runs")
    if png is not None:
        _draw(png, {}, table)


@app.command(
    epilog=examples(
        "softfair allocate people.parquet --k 100 --out list.csv",
        "softfair allocate people --k 100 --c 20 --seed 7 --out list.parquet",
    )
)
def allocate(
    cohort: CohortFile,
    k: Budget,
    out: Annotated[
        Path, typer.Option(help="The list: Parquet if the name ends in .parquet, otherwise CSV.")
    ],
    c: Annotated[
        str, typer.Option(help="How strongly gain counts: 0 a lottery, inf those who gain most.")
    ] = "10",
    design: Annotated[str, typer.Option(help="joint or successive.")] = "joint",
    horizon: Horizon = 50,
    gamma: Gamma = 1.0,
    seed: Seed = 0,
    on: On = None,
) -> None:
    """This round's list from a cohort file: everybody's probability and score, who is listed."""
    from .allocation import allocate as write_list
    from .allocation import states_now
    from .cluster import crew_of
    from .files import PARQUET, read_cohort
    from .policies import SoftFair
    from .shards import open_cohort

    policy = SoftFair(c=_number("c", c), design=design)  # type: ignore[arg-type]
    parquet = cohort.is_dir() or cohort.suffix.lower() in PARQUET
    people = open_cohort(cohort) if parquet else read_cohort(cohort)
    crew = crew_of(on)
    states = states_now(people, crew)
    fitted = policy.fit(people, k, horizon, gamma, on=crew)
    arms = write_list(fitted, states, seed, out)
    print(f"{out}: {len(arms):,} of {people.n:,} people are listed, by {policy.label}, seed {seed}")


@app.command(epilog=examples("softfair bench", "softfair bench pass --quick"))
def bench(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="pass, even, memory, inclusion, start, reproduce; nothing: all."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the sizes, to see that everything runs.")
    ] = False,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """How fast it is here: ratios of times taken in one run, each beside its goal."""
    from .bench import PARTS, measure, show

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        measured = measure(PARTS, parts or [], quick)
        if as_json or as_csv:
            rows = [
                dict(zip(("what", "measured", "unit", "goal"), row, strict=True))
                for _, rows_of_part in measured
                for row in rows_of_part
            ]
            _print_rows(rows, as_csv)
        else:
            show(measured)


@app.command(epilog=examples("softfair doctor", "softfair doctor --json"))
def doctor(
    db: Annotated[
        str | None,
        typer.Option("--db", envvar="SOFTFAIR_DB", help="A database to reach as well."),
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Tell whether everything is in its place: versions, threads, compiled code, database."""
    from .doctor import examine
    from .terminal import Table, show

    if db is None and Path("softfair.db").exists():
        db = "softfair.db"
    facts = examine(db)
    if as_json or as_csv:
        _print_rows([finding._asdict() for finding in facts], as_csv)
    else:
        rows = [
            ["ok" if finding.well else "WRONG", finding.what, finding.found] for finding in facts
        ]
        styles = ["" if finding.well else "bold red" for finding in facts]
        show(Table(["", "what", "found"], rows, words={"what", "found"}, styles=styles))
    if not all(finding.well for finding in facts):
        raise typer.Exit(1)


def _print_rows(rows: list[dict[str, Any]], as_csv: bool) -> None:
    """Rows as CSV or as JSON."""
    from .terminal import as_csv as to_csv

    if as_csv:
        print(to_csv(rows), end="")
    else:
        print(json.dumps(rows, indent=1))


def _people(path: Path) -> Cohort:
    """The cohort of a file or folder, in memory."""
    from .files import read_cohort
    from .shards import open_cohort

    return open_cohort(path).loaded if path.is_dir() else read_cohort(path)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{name} is {text!r}; give a number") from None


def _each_decision(text: str) -> int | list[int]:
    """k: one number, or one for each decision."""
    try:
        given = [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"k is {text!r}; give a whole number, or one for each decision, such as 10,10,0,10"
        ) from None
    return given if len(given) > 1 else given[0]


def _policy(text: str) -> Policy:
    """A policy by name, see `softfair.policies.naming`."""
    from .policies.naming import parse_policy

    return parse_policy(text)


# Heading and form of each figure of a comparison; the last ones where there is room.
FIGURES = {
    "benefit": ("benefit %", "{:.0f}\u00b1{:.0f}"),
    "of_bound": ("bound %", "{:.0f}"),
    "entropy": ("entropy", "{:.2f}"),
    "bound": ("limit %", "{:.0f}"),
    "never_selected": ("never", "{:.0%}"),
    "longest_wait": ("wait", "{:.0f}"),
    "unfair": ("unfair %", "{:.1f}"),
    "gini": ("gini", "{:.2f}"),
    "reward": ("reward", "{:.6g}\u00b1{:.2g}"),
}
OPTIONAL = 2
EXPLAINED = {  # by what is shown
    "benefit": "benefit: % of the Oracle's \u00b1 sd",
    "of_bound": "bound: % of the most that any policy can add",
    "bound": "limit: the most benefit of any policy as even",
    "never_selected": "never: share of people never helped",
    "longest_wait": "wait: longest in decisions",
    "unfair": "unfair: % of pairs where the one who would gain less has the better chance",
}


def _show(table: pd.DataFrame, as_json: bool, as_csv: bool, title: str) -> None:
    if as_csv:
        print(table.to_csv(index=False), end="")
        return
    if as_json:
        from .for_json import for_json

        if "c" in table:
            table = table.assign(c=table["c"].map(for_json))
        text = table.to_json(orient="records", double_precision=10)
        records = json.loads(text) if text else []
        print(json.dumps(records, indent=1))
        return
    from .terminal import Table, show

    columns = {name: of for name, of in FIGURES.items() if name in table}
    rows, problems = [], []
    for _, row in table.iterrows():
        if problem := row.get("problem", ""):
            problems.append(f"{row['policy']}: {problem}")
            rows.append([row["policy"], *("-" for _ in columns)])
            continue
        figures = (
            "-"
            if math.isnan(row[name])
            else text.format(row[name], row.get(f"{name}_sd", 0)).replace("\u00b1nan", "")
            for name, (_, text) in columns.items()
        )
        rows.append([row["policy"] + "*" * (not row["converged"]), *figures])
    rough = any(row[0].endswith("*") for row in rows)
    explained = [text for name, text in EXPLAINED.items() if name in columns]
    explained += ["*: values had not settled"] * rough
    notes = ["; ".join(explained) + ".", *problems]
    headings = ["policy", *(heading for heading, _ in columns.values())]
    show(Table(headings, rows, title, notes, optional=OPTIONAL * ("reward" in columns)))


def _draw(
    path: Path,
    curves: dict[str, pd.DataFrame],
    policies: pd.DataFrame | None = None,
    bound: pd.DataFrame | None = None,
) -> None:
    """Benefit against fairness, as a picture in a file."""
    from .figures import draw_frontier, new_figure
    from .files import write_whole
    from .page import picture

    figure, axes = new_figure()
    draw_frontier(axes[0], curves, policies, bound=bound)
    write_whole(path, picture(figure, dpi=150))
    print(path, file=sys.stderr)


# Such as postgresql://user:password@host/name, with any number of slashes or without an @, and
# password=...
SECRET = re.compile(
    r"(?i)\bpostgres[a-z0-9+]*:|\b[a-z][a-z0-9+.-]*:/\S*:\S*@|\S:\S*@\S*/"
    r"|\bpass(word|wd)?\s*=\s*\S"
)
NO_MEMORY = "there is not enough memory for that; nothing was changed"
TAKE_ADDRESSES = ("--db", "--on")  # options whose value is an address


def _refuse_passwords(words: list[str]) -> None:
    """Raise if an address with a password stands where none belongs, without repeating it.

    A message would repeat it, and the log keeps reasons, lucks and the names of rounds for good.
    """
    for before, word in zip(["", *words], words, strict=False):
        takes = before in TAKE_ADDRESSES or word.partition("=")[0] in TAKE_ADDRESSES
        if not takes and SECRET.search(word):
            raise InvalidInput(
                "an argument is the address of a database, which belongs to --db, between quotes "
                "if it has spaces; the password is better left to PGPASSWORD; nothing was done"
            )


def _without_passwords(text: str) -> str:
    """An error message about arguments without passwords: one may be a database address."""
    text = re.sub(r"(?i)(pass\w*|pw)\s*=\s*[^\s()]+", r"\1=...", text)
    return re.sub(r"[^\s()'\"]*@", "...@", text)


def _open_what_is_closed() -> None:
    """Give a process without input or output one that holds nothing, as `>/dev/null` does.

    Otherwise the next file that is opened, such as the database, would take the output's place.
    """
    for name, how in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, how, encoding="utf-8"))  # noqa: SIM115


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is a library that found no memory to be loaded."""
    signs = ("failed to map segment", "cannot allocate memory")
    while error is not None:
        if isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in signs):
            return True
        error = error.__cause__ or error.__context__
    return False


def _fail(error: Exception) -> NoReturn:
    """End on an unforeseen error: print one line if the reason is known, else raise it."""
    said = NO_MEMORY if _lacks_memory(error) else altered()
    if said is None:
        raise
    print(f"softfair: {said}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    """Run; bad input is one line on stderr and exit code 2."""
    from .terminal import survive_any_encoding, visible

    _open_what_is_closed()
    survive_any_encoding(sys.stdout, sys.stderr)
    try:
        _refuse_passwords(sys.argv[1:])
        code = app(standalone_mode=False)
        if code == 130:  # click returns this code after Ctrl-C inside a command
            raise KeyboardInterrupt
        sys.stdout.flush()
        sys.exit(code)
    except SoftFairError as error:
        print(f"softfair: {visible(str(error))}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("softfair: interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)
    except SystemExit:
        # Where a pipe closes while a command prints, click has wrapped the output and exits with 1.
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            sys.exit(0)
        raise
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # so that the interpreter's last flush does not complain
        sys.exit(0)
    except MemoryError:
        print(f"softfair: {NO_MEMORY}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            _fail(error)
        print(f"softfair: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except Exception as error:
        # Errors of click about arguments carry a message and an exit code.
        if hasattr(error, "format_message"):
            print(f"softfair: {_without_passwords(error.format_message())}", file=sys.stderr)
            sys.exit(getattr(error, "exit_code", 2))
        _fail(error)
