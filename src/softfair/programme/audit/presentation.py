"""An audit to read: on a terminal, and as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...files import write_whole
from ...page import bullets, heading, image, page, section, table
from .findings import LOOK
from .pictures import pictures
from .result import Audit
from .tables import Section, sections
from .words import count

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show", "write_page"]


def show(audit: Audit, console: Console) -> None:
    """What stands out and every table, on a terminal.

    Parameters
    ----------
    audit : Audit
        What was found.
    console : rich.console.Console
        Where it is written.
    """
    from rich.table import Table
    from rich.text import Text

    for sentence in audit.findings:
        console.print(Text(f"· {sentence}", style="bold" if sentence.startswith(LOOK) else ""))
    for part in sections(audit):
        shown = Table(
            *part.headings,
            title=part.title,
            caption=part.lead,
            title_justify="left",
            caption_justify="left",
        )
        for column in shown.columns[1:]:
            column.justify = "right"
        for row in part.rows:
            shown.add_row(*map(Text, row))  # as it is: a group's name may look like markup
        console.print(shown)


def write_page(audit: Audit, path: str | Path) -> Path:
    """One HTML file that needs nothing else.

    Parameters
    ----------
    audit : Audit
        What was found.
    path : str or Path
        Where the file is written, whole or not at all.

    Returns
    -------
    Path
        Of the file.
    """
    rounds = [row.round for row in audit.rounds]
    planned = f", rounds {rounds[0]} to {rounds[-1]} planned" if rounds else ""
    people = count(audit.people, "person", "people")
    body = [
        heading("Audit of the programme", f"{people}{planned}; a round is a {audit.round_name}."),
        bullets(audit.findings, [sentence.startswith(LOOK) for sentence in audit.findings]),
        *(_section(audit, part) for part in sections(audit)),
    ]
    nobody = "" if audit.spread.waiting_people is not None else "Nobody is named here. "
    marks = "(!) marks what chance does not explain, the rows of its table taken together."
    target = Path(path)
    write_whole(target, page("softfair: audit", "\n".join(body), nobody + marks))
    return target


def _section(audit: Audit, part: Section) -> str:
    shown = "".join(image(one.figure, one.name) for one in pictures(audit, part.key))
    return section(part.title, shown + table(part.headings, part.rows), part.lead)
