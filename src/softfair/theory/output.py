"""Verdicts on the screen and in a file: the table and the JSON of ``softfair verify``."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

from ..errors import InvalidInput
from ..files import refuse_device
from ..for_json import read_json
from ..terminal import Table, say
from ..terminal import as_csv as rows_as_csv
from ..terminal import show as show_table
from .catalogue import claim_of, recheck, table
from .claim import Outcome, Verdict

__all__ = [
    "as_csv",
    "as_json",
    "read_verdicts",
    "recheck_file",
    "show",
    "show_rechecked",
    "summary",
]

_COLOURS = {"holds": "green", "fails": "red", "holds under": "yellow"}
_REMEDY = "give a file that softfair verify --json wrote"


def summary(verdicts: Sequence[Verdict]) -> str:
    """State the numbers of verdicts in one sentence.

    Parameters
    ----------
    verdicts : sequence of Verdict

    Returns
    -------
    str

    Examples
    --------
    >>> from softfair import theory
    >>> from softfair.theory import output
    >>> output.summary(theory.verdicts(claims=["entropy-kn", "entropy-kT"]))
    '2 claims tried: 1 holds, 1 fails, 0 hold under a condition.'
    """
    counts = Counter(verdict.verdict for verdict in verdicts)

    def say(outcome: Outcome, one: str, many: str) -> str:
        return f"{counts[outcome]} {one if counts[outcome] == 1 else many}"

    return (
        f"{len(verdicts)} claim{'' if len(verdicts) == 1 else 's'} tried: "
        f"{say('holds', 'holds', 'hold')}, {say('fails', 'fails', 'fail')}, "
        f"{say('holds under', 'holds', 'hold')} under a condition."
    )


def as_json(verdicts: Sequence[Verdict]) -> str:
    """Write verdicts as JSON, a list of objects with the fields of :class:`Verdict`.

    Parameters
    ----------
    verdicts : sequence of Verdict

    Returns
    -------
    str
    """
    return json.dumps([asdict(verdict) for verdict in verdicts], indent=1)


def as_csv(verdicts: Sequence[Verdict]) -> str:
    """Write verdicts as CSV, one row for each claim; the cell of a witness is JSON.

    Parameters
    ----------
    verdicts : sequence of Verdict

    Returns
    -------
    str
    """
    rows = [{**asdict(verdict), "witness": json.dumps(verdict.witness)} for verdict in verdicts]
    return rows_as_csv(rows)


def show(verdicts: Sequence[Verdict], witnesses: bool = False) -> None:
    """Print the summary and the table.

    Parameters
    ----------
    verdicts : sequence of Verdict
    witnesses : bool
        Whether to print each witness below the table.
    """
    say(summary(verdicts), "bold")
    rows, styles = [], []
    for verdict, row in zip(verdicts, table(verdicts), strict=True):
        sentences = [row.statement]
        if verdict.condition:
            sentences.append(f"Condition: {verdict.condition}.")
        if row.corrected:
            sentences.append(f"Instead: {row.corrected}")
        sentences.append(f"[{row.margin}; {row.instances:,} tried]")
        rows.append([row.claim, verdict.verdict, " ".join(sentences)])
        styles.append(_COLOURS[verdict.verdict])
    headings = ["claim", "verdict", "what it says, what holds instead, and by how much"]
    show_table(Table(headings, rows, words=set(headings), styles=styles))
    for verdict in verdicts if witnesses else ():
        print(f"{verdict.claim}: {json.dumps(verdict.witness)}")
    say(
        "Witnesses: softfair verify --json > FILE; re-check them: softfair verify --recheck FILE",
        "dim",
    )


def read_verdicts(path: Path) -> list[Verdict]:
    """Read the verdicts that ``softfair verify --json`` wrote.

    Parameters
    ----------
    path : Path
        JSON of one verdict or of a list of verdicts.

    Returns
    -------
    list of Verdict

    Raises
    ------
    InvalidInput
        The file cannot be read or is not JSON, or an entry is not a verdict on a known claim.
    """
    refuse_device(path)
    try:
        content = read_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror}); {_REMEDY}") from None
    except ValueError as error:
        raise InvalidInput(f"{path}: is not JSON ({_first_line(error)}); {_REMEDY}") from None
    entries = content if isinstance(content, list) else [content]
    if not entries:
        raise InvalidInput(f"{path}: holds no verdict; {_REMEDY}")
    return [_verdict(f"{path}: entry {at}", entry) for at, entry in enumerate(entries, start=1)]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _verdict(where: str, entry: Any) -> Verdict:
    """One entry of a file as a verdict; refused with the reason if it is none."""
    if not isinstance(entry, dict):
        raise InvalidInput(f"{where} is no verdict; {_REMEDY}")
    field_values = {"corrected": "", **entry}  # files written before verdicts had a correction
    types: dict[str, type] = {"margin": float, "instances": int, "witness": dict}
    for name in (known.name for known in fields(Verdict)):
        if name not in field_values:
            raise InvalidInput(f"{where} has no {name!r}; {_REMEDY}")
        expected = types.get(name, str)
        if expected is float and isinstance(field_values[name], int):
            field_values[name] = _as_float(field_values[name])
        if not isinstance(field_values[name], expected):
            raise InvalidInput(f"{where}: {name!r} is not of the kind that it should be; {_REMEDY}")
    if not math.isfinite(field_values["margin"]):
        raise InvalidInput(f"{where}: margin is {field_values['margin']}; give a finite number")
    if field_values["verdict"] not in get_args(Outcome):
        raise InvalidInput(
            f"{where}: verdict is {field_values['verdict']!r}; give one of {', '.join(_COLOURS)}"
        )
    claim_of(field_values["claim"])
    return Verdict(**{known.name: field_values[known.name] for known in fields(Verdict)})


def _as_float(number: int) -> float:
    """The whole number as a float; infinity if it is too large for a float."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def recheck_file(path: Path, claims: Sequence[str] | None = None) -> list[tuple[Verdict, bool]]:
    """Compute the witnesses of a file again.

    Parameters
    ----------
    path : Path
        A file for :func:`read_verdicts`.
    claims : sequence of str, optional
        The claims whose verdicts to check; by default all.

    Returns
    -------
    list of (Verdict, bool)
        Each verdict, and whether its witness confirms it.

    Raises
    ------
    InvalidInput
        The file cannot be used, a witness lacks a number or has an absurd one, or there is no
        verdict on one of ``claims``.
    """
    verdicts = read_verdicts(path)
    for name in claims or ():
        claim_of(name)
        if name not in {verdict.claim for verdict in verdicts}:
            raise InvalidInput(f"{path}: holds no verdict on {name}; leave out --claim {name}")
    chosen = [verdict for verdict in verdicts if not claims or verdict.claim in claims]
    return [(verdict, recheck(verdict)) for verdict in chosen]


def show_rechecked(rechecked: Sequence[tuple[Verdict, bool]]) -> None:
    """Print which witnesses are confirmed.

    Parameters
    ----------
    rechecked : sequence of (Verdict, bool)
        The result of :func:`recheck_file`.
    """
    confirmed = sum(ok for _, ok in rechecked)
    print(f"{confirmed} of {len(rechecked)} witnesses confirmed.")
    for verdict, ok in rechecked:
        print(f"{'confirmed' if ok else 'NOT CONFIRMED':13}  {verdict.verdict:11}  {verdict.claim}")
