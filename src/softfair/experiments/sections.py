"""The parts of a section of the report, and the sentences that every section needs."""

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
    """A statement of the paper beside our result.

    Parameters
    ----------
    paper : str
        What the paper says.
    ours : str
        What was found here, with intervals.
    verdict : str
        How they compare, as the intervals decide.
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
        A line below.
    text : bool
        Whether every column is words, and not figures.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    text: bool = False


def no_tables(results: Results) -> list[Table]:
    """For sections without a table."""
    return []


@dataclass(frozen=True)
class Section:
    """A section of the report; its functions get the results of all experiments that were run.

    Parameters
    ----------
    key : str
        Name of the picture's files.
    title : str
        Heading, and the picture's text for those who cannot see it.
    needs : tuple of str
        The figures of the catalogue; the section is written if a part of any of them was run.
    caption : callable
        Says what is drawn, with n, k, T, c, cohorts and runs as they were.
    draw : callable
        Makes the picture.
    judge : callable
        Sets our results beside the paper's statements.
    tables : callable
        Makes tables that stand below the picture.
    """

    key: str
    title: str
    needs: tuple[str, ...]
    caption: Callable[[Results], str]
    draw: Callable[[Results], Figure]
    judge: Callable[[Results], list[Judgement]]
    tables: Callable[[Results], list[Table]] = no_tables


def parts(results: Results, figure: str) -> list[Outcome]:
    """Give the outcomes that a figure of the catalogue is made of.

    Parameters
    ----------
    results : mapping of str to Outcome
    figure : str
        Such as fig2a.

    Returns
    -------
    list of Outcome
        In the order of the results; empty if none of its parts was run.
    """
    return [outcome for outcome in results.values() if outcome.experiment.figure == figure]


def solvers_of(outcomes: Iterable[Outcome]) -> list[str]:
    """Give the solvers of SoftFair that were run in all of some outcomes.

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
    """Write a number as the reader of a figure would.

    Parameters
    ----------
    value : float

    Returns
    -------
    str
    """
    return "\u221e" if value == float("inf") else f"{value:g}"


def figures_of_policies(outcome: Outcome, column: str) -> dict[str, Summary]:
    """Give each policy's figure with its interval.

    Parameters
    ----------
    outcome : Outcome
    column : str
        The figure.

    Returns
    -------
    dict of str to Summary
        By policy, in the order in which they ran.
    """
    policies = outcome.rows["policy"].unique()
    return {str(policy): summarise(outcome.rows, str(policy), column) for policy in policies}


def describe(outcomes: Iterable[Outcome]) -> str:
    """Describe how some outcomes were run: sizes, multipliers, cohorts and runs.

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
    said = [
        _values("n", [e.n for e in experiments]),
        _values("k", [e.k for e in experiments]),
        _values("T", [e.horizon for e in experiments]),
    ]
    multipliers = {p.c for e in experiments for p in e.policies.values() if isinstance(p, SoftFair)}
    if multipliers:
        said.append(_values("c", sorted(multipliers)))
    cohorts = _values("", sorted({outcome.cohorts for outcome in chosen}))
    runs = _values("", sorted({outcome.runs_a_cohort for outcome in chosen}))
    return f"{'; '.join(said)}; {cohorts} cohorts, {runs} runs on each"


def _values(name: str, values: Iterable[float]) -> str:
    """ "n = 10, 100, 1000", each value once."""
    once = ", ".join(number(value) for value in dict.fromkeys(values))
    return f"{name} = {once}" if name else once


def unsettled_note(outcomes: Iterable[Outcome]) -> str:
    """Say whose values had not settled, and after how many passes.

    Parameters
    ----------
    outcomes : iterable of Outcome

    Returns
    -------
    str
        For the end of a caption; "" if all had settled.
    """
    stopped: dict[str, set[int]] = {}
    for outcome in outcomes:
        rough = outcome.rows[~outcome.rows["converged"].astype(bool)]
        for policy, passes in zip(rough["policy"], rough["passes"], strict=True):
            stopped.setdefault(str(policy), set()).add(int(passes))
    if not stopped:
        return ""
    said = []
    for policy, passes in stopped.items():
        unit = "episodes" if policy == SOLVERS[0] else "passes"
        least, most = min(passes), max(passes)
        count = f"{least}" if least == most else f"{least} to {most}"
        said.append(f"{policy} ({count} {unit})")
    return f" * Values had not settled: {', '.join(said)}."
