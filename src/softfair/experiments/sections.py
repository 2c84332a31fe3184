"""The parts of a section of the report, and sentences that several sections use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..policies import SoftFair
from .intervals import Summary, summarise
from .outcomes import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "SOLVERS",
    "Judgement",
    "Results",
    "Section",
    "Table",
    "describe",
    "figures_of_policies",
    "number",
    "parts",
    "solvers_of",
    "unsettled_note",
]

Results = Mapping[str, Outcome]  # by id of the experiment

SOLVERS = ("SoftFair (paper)", "SoftFair (mean field)", "SoftFair (priced)")


@dataclass(frozen=True)
class Judgement:
    """A statement of the paper, our result, and the verdict.

    Parameters
    ----------
    paper : str
        The statement of the paper.
    ours : str
        Our result, with intervals.
    verdict : str
        The comparison of the two, which intervals decide.
    """

    paper: str
    ours: str
    verdict: str


@dataclass(frozen=True)
class Table:
    """A table of the report.

    Parameters
    ----------
    headings : tuple of str
        One for each column.
    rows : tuple of tuple of str
        The cells, as they are shown.
    note : str
        A line below the table.
    text : bool
        Whether all columns are words instead of figures.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    text: bool = False


def no_tables(results: Results) -> list[Table]:
    """The tables of a section without tables."""
    return []


@dataclass(frozen=True)
class Section:
    """A section of the report; its functions get the results of all experiments that were run.

    Parameters
    ----------
    key : str
        Name of the files of the picture.
    title : str
        The heading, and the text for readers who cannot see the picture.
    needs : tuple of str
        Figures of the catalogue; the section is written if a part of any of them was run.
    caption : callable
        Returns the caption, with the n, k, T, c, cohorts and runs that were used.
    draw : callable
        Returns the picture.
    judge : callable
        Returns the judgements of the paper's statements.
    tables : callable
        Returns the tables below the picture.
    """

    key: str
    title: str
    needs: tuple[str, ...]
    caption: Callable[[Results], str]
    draw: Callable[[Results], Figure]
    judge: Callable[[Results], list[Judgement]]
    tables: Callable[[Results], list[Table]] = no_tables


def parts(results: Results, figure: str) -> list[Outcome]:
    """Give the outcomes of the experiments of a figure.

    Parameters
    ----------
    results : mapping of str to Outcome
    figure : str
        A figure of the catalogue, such as fig2a.

    Returns
    -------
    list of Outcome
        The outcomes in the order of the results; empty if no part of the figure was run.
    """
    return [outcome for outcome in results.values() if outcome.experiment.figure == figure]


def solvers_of(outcomes: Iterable[Outcome]) -> list[str]:
    """Give the solvers of SoftFair that were run in all of the outcomes.

    Parameters
    ----------
    outcomes : iterable of Outcome

    Returns
    -------
    list of str
        In the order of `SOLVERS`.
    """
    run = [set(outcome.experiment.policies) for outcome in outcomes]
    return [solver for solver in SOLVERS if all(solver in policies for policies in run)]


def number(value: float) -> str:
    """Write a number for a reader of the report.

    Parameters
    ----------
    value : float

    Returns
    -------
    str
    """
    return "\u221e" if value == float("inf") else f"{value:g}"


def figures_of_policies(outcome: Outcome, column: str) -> dict[str, Summary]:
    """Give a figure of each policy with its interval.

    Parameters
    ----------
    outcome : Outcome
    column : str
        The figure.

    Returns
    -------
    dict of str to Summary
        The figures by policy, in the order in which the policies ran.
    """
    policies = outcome.rows["policy"].unique()
    return {str(policy): summarise(outcome.rows, str(policy), column) for policy in policies}


def describe(outcomes: Iterable[Outcome]) -> str:
    """Describe the setting of outcomes: sizes, multipliers, cohorts and runs.

    Parameters
    ----------
    outcomes : iterable of Outcome

    Returns
    -------
    str
        For a caption.
    """
    chosen = list(outcomes)
    experiments = [outcome.experiment for outcome in chosen]
    settings = [
        _values("n", [e.n for e in experiments]),
        _values("k", [e.k for e in experiments]),
        _values("T", [e.horizon for e in experiments]),
    ]
    multipliers = {p.c for e in experiments for p in e.policies.values() if isinstance(p, SoftFair)}
    if multipliers:
        settings.append(_values("c", sorted(multipliers)))
    cohorts = _values("", sorted({outcome.cohorts for outcome in chosen}))
    runs = _values("", sorted({outcome.runs_a_cohort for outcome in chosen}))
    return f"{'; '.join(settings)}; {cohorts} cohorts, {runs} runs on each"


def _values(name: str, values: Iterable[float]) -> str:
    """ "n = 10, 100, 1000", each value once."""
    distinct = ", ".join(number(value) for value in dict.fromkeys(values))
    return f"{name} = {distinct}" if name else distinct


def unsettled_note(outcomes: Iterable[Outcome]) -> str:
    """Name the policies whose values had not settled, with the numbers of passes.

    Parameters
    ----------
    outcomes : iterable of Outcome

    Returns
    -------
    str
        A sentence for the end of a caption; "" if all values had settled.
    """
    stopped: dict[str, set[int]] = {}
    for outcome in outcomes:
        rough = outcome.rows[~outcome.rows["converged"].astype(bool)]
        for policy, passes in zip(rough["policy"], rough["passes"], strict=True):
            stopped.setdefault(str(policy), set()).add(int(passes))
    if not stopped:
        return ""
    names = []
    for policy, passes in stopped.items():
        unit = "episodes" if policy == SOLVERS[0] else "passes"
        least, most = min(passes), max(passes)
        count = f"{least}" if least == most else f"{least} to {most}"
        names.append(f"{policy} ({count} {unit})")
    return f" * Values had not settled: {', '.join(names)}."
