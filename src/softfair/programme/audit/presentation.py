"""An audit to read: on a terminal, and as one HTML page."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TextIO

from ...errors import InvalidInput
from ...files import write_private
from ...page import bullets, heading, image, page, section, table
from ...terminal import Table, say
from ...terminal import show as show_table
from .findings import LOOK
from .pictures import pictures
from .result import Audit
from .tables import Section, sections
from .words import count

__all__ = ["show", "write_page"]


def show(audit: Audit, file: TextIO | None = None) -> None:
    """Print the findings and every table on a terminal.

    Parameters
    ----------
    audit : Audit
        What was found.
    file : file, optional
        Where it is written; default standard output.
    """
    for sentence in audit.findings:
        say(f"\u00b7 {sentence}", "bold" if sentence.startswith(LOOK) else "", file)
    elsewhere = "--html FILE and --json have them all"
    for part in sections(audit):
        say("", file=file)
        table = Table(part.headings, part.rows, part.title, [part.lead], elsewhere=elsewhere)
        show_table(table, file)
    say(audit.checkpoint, file=file)


def write_page(audit: Audit, path: str | Path) -> Path:
    """Write the audit as one HTML file that needs no other files.

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
    planned = f", rounds {audit.at(rounds[0])} to {audit.at(rounds[-1])} planned" if rounds else ""
    people = count(audit.people, "person", "people")
    body = [
        heading("Audit of the programme", f"{people}{planned}; a round is a {audit.round_name}."),
        bullets(audit.findings, [sentence.startswith(LOOK) for sentence in audit.findings]),
        *(_section(audit, part) for part in sections(audit)),
    ]
    nobody = "" if audit.spread.waiting_people is not None else "Nobody is named here. "
    marks = (
        "(!) marks what chance does not explain, all comparisons of this page taken together: "
        "in 5 % of honest programmes, or fewer, anything at all is marked."
    )
    marks += f"<pre>{escape(audit.checkpoint)}</pre>"
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"{target.name} is to be a page; end it in .html")
    write_private(target, page("softfair: audit", "\n".join(body), nobody + marks))
    return target


def _section(audit: Audit, part: Section) -> str:
    shown = "".join(image(one.figure, one.name) for one in pictures(audit, part.key))
    return section(part.title, shown + table(part.headings, part.rows), part.lead)
