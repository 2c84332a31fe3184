"""A comparison as a table for a person."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..terminal import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["table_of"]

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


def table_of(figures: pd.DataFrame, title: str) -> Table:
    """The figures of policies, with what they mean below them.

    Parameters
    ----------
    figures : DataFrame
        What :func:`compare` or :func:`frontier` gives, or some of its columns.
    title : str
        A line above.

    Returns
    -------
    Table
        A policy whose values had not settled has an asterisk; what could not be compared has its
        reason below.
    """
    columns = {name: of for name, of in FIGURES.items() if name in figures}
    rows, problems = [], []
    for _, row in figures.iterrows():
        if problem := row.get("problem", ""):
            problems.append(f"{row['policy']}: {problem}")
            rows.append([row["policy"], *("-" for _ in columns)])
            continue
        cells = (
            "-"
            if math.isnan(row[name])
            else text.format(row[name], row.get(f"{name}_sd", 0)).replace("\u00b1nan", "")
            for name, (_, text) in columns.items()
        )
        rows.append([row["policy"] + "*" * (not row["converged"]), *cells])
    rough = any(row[0].endswith("*") for row in rows)
    explained = [text for name, text in EXPLAINED.items() if name in columns]
    explained += ["*: values had not settled"] * rough
    notes = ["; ".join(explained) + ".", *problems]
    headings = ["policy", *(heading for heading, _ in columns.values())]
    return Table(headings, rows, title, notes, optional=OPTIONAL * ("reward" in columns))
