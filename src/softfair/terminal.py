"""Tables and sentences for a person: on a terminal of any width, piped, as HTML and as CSV.

A table is headings and rows of text. On a terminal, a table fits the width of the screen: columns
of figures are never broken, columns of words are broken between words, and columns for which there
is no room are left out from the right, with a line that says so. Piped, every row is one line and
nothing is left out. There are no boxes. Characters that the output cannot show are replaced by
others, and so are characters that would move the cursor or change the direction of a text.
"""

from __future__ import annotations

import codecs
import csv
import html
import io
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

__all__ = [
    "UNPRINTABLE",
    "Table",
    "as_csv",
    "as_html",
    "lines",
    "say",
    "show",
    "survive_any_encoding",
    "visible",
]

GAP = 2  # columns between two columns
NARROWEST = 20  # least width of a column of words
NARROWEST_FIRST = 32  # least width of the first column, which says what a row is about
# Control characters, and marks that change the direction of text.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Replacements for the characters that softfair prints, for output that can show only ASCII.
SPELT = {
    "\u00b1": "+-",
    "\u00b7": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u2019": "'",
    "\u2026": "...",
    "\u2265": ">=",
    "\u2264": "<=",
    "\u221e": "inf",
    "\u2212": "-",
    "\u00d7": "x",
    "\u03bb": "lambda",
    "\u03b3": "gamma",
    "\u03bc": "mu",
    "\u2500": "-",
    "\u2502": "|",
}


@dataclass(frozen=True)
class Table:
    """A table of text.

    Parameters
    ----------
    headings : sequence of str
        The headings of the columns. The first columns are the most important: if there is too
        little room, the last columns are left out.
    rows : sequence of sequence of str
        The cells.
    title : str
        A line above the table; "" for none.
    notes : sequence of str
        Lines below the table.
    words : collection of str
        Headings of the columns of words, which are aligned left and broken over lines. All other
        columns have figures, which are aligned right and not broken; the first column is aligned
        left.
    styles : sequence of str
        The style of each row, such as "bold red"; empty for none.
    optional : int
        The number of last columns that may be left out without a note.
    elsewhere : str
        Where columns that are left out can be seen.

    Examples
    --------
    >>> from softfair.terminal import Table, lines
    >>> table = Table(["id", "chance", "why"], [["a", "9 %", "drawn by lot"]], words={"why"})
    >>> print("\\n".join(lines(table, None)))
    id  chance  why
    --  ------  ------------
    a      9 %  drawn by lot
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()
    words: frozenset[str] | set[str] = field(default_factory=frozenset)
    styles: Sequence[str] = ()
    optional: int = 0
    elsewhere: str = "--json and --csv have them all"


def lines(table: Table, width: int | None) -> list[str]:
    """Lay a table out.

    Parameters
    ----------
    table : Table
        The table.
    width : int, optional
        Columns of the screen; None for no limit.

    Returns
    -------
    list of str
        Lines of at most that width, without title and notes.
    """
    return [line for line, _ in _laid_out(table, width)]


def _laid_out(table: Table, width: int | None) -> Iterator[tuple[str, int]]:
    """The lines, each with the number of its row, or -1 for the headings."""
    rows = [[_one_line(cell) for cell in row] for row in table.rows]
    widths = _widths(table, rows, width)
    shown = len(widths)
    headings = (_fitted(table, j, table.headings[j], widths) for j in range(shown))
    yield "  ".join(headings).rstrip(), -1
    yield "  ".join("-" * w for w in widths), -1
    for number, row in enumerate(rows):
        cells = [_broken(cell, w) for cell, w in zip(row, widths, strict=False)]
        for at in range(max(map(len, cells))):
            parts = [
                _fitted(table, j, cell[at] if at < len(cell) else "", widths)
                for j, cell in enumerate(cells)
            ]
            yield "  ".join(parts).rstrip(), number
    left_out = [str(name) for name in table.headings[shown : len(table.headings) - table.optional]]
    if left_out:
        note = f"Left out for want of room: {', '.join(left_out)}; {table.elsewhere}."
        yield from ((line, -1) for line in textwrap.wrap(note, width or 10**9))


def _widths(table: Table, rows: list[list[str]], width: int | None) -> list[int]:
    """The width of each column that is shown."""
    natural = [
        max([len(heading), *(len(row[j]) for row in rows)])
        for j, heading in enumerate(table.headings)
    ]
    if width is None:
        return natural
    least = [
        min(wish, max(NARROWEST, len(heading))) if heading in table.words else wish
        for wish, heading in zip(natural, table.headings, strict=True)
    ]
    least[0] = min(natural[0], max(NARROWEST_FIRST, len(table.headings[0])))
    shown = len(natural)
    while shown > 1 and sum(least[:shown]) + GAP * (shown - 1) > width:
        shown -= 1
    widths = least[:shown]
    widths[0] = min(widths[0], width)
    room = width - sum(widths) - GAP * (shown - 1)
    for j in range(shown):  # the room that is left goes to the columns that need more
        added = min(room, natural[j] - widths[j])
        if added > 0:
            widths[j] += added
            room -= added
    return widths


def _fitted(table: Table, j: int, cell: str, widths: list[int]) -> str:
    to_the_left = j == 0 or table.headings[j] in table.words
    return cell.ljust(widths[j]) if to_the_left else cell.rjust(widths[j])


def _broken(cell: str, width: int) -> list[str]:
    return textwrap.wrap(cell, width) or [""] if len(cell) > width else [cell]


def _one_line(cell: object) -> str:
    return visible(" ".join(str(cell).split()))


def visible(text: str) -> str:
    """The text with control characters spelt out, except line ends and tabs.

    Parameters
    ----------
    text : str
        Any text, such as the name of a file, which may contain commands to a terminal.

    Examples
    --------
    >>> from softfair.terminal import visible
    >>> print(visible("list\x1b[2J.csv"))
    list\\x1b[2J.csv
    """
    return UNPRINTABLE.sub(
        lambda match: (
            match[0] if match[0] in "\n\t" else match[0].encode("unicode_escape").decode()
        ),
        text,
    )


def show(table: Table, file: TextIO | None = None) -> None:
    """Print a table with its title and notes.

    Parameters
    ----------
    table : Table
        The table.
    file : file, optional
        Where to print; by default standard output.
    """
    out = sys.stdout if file is None else file
    width = _width(out)
    if table.title:
        say(table.title, "bold", out)
    painted = _painter(out)
    for line, number in _laid_out(table, width):
        style = table.styles[number] if 0 <= number < len(table.styles) else ""
        print(painted(line, style), file=out)
    for note in table.notes:
        say(note, "dim", out)


def say(sentence: str, style: str = "", file: TextIO | None = None) -> None:
    """Print a sentence, broken between words on a terminal and in one line when piped.

    Parameters
    ----------
    sentence : str
        The sentence.
    style : {"", "bold", "dim", "red", "green", "yellow", "bold red"}
        The style on a terminal with colours.
    file : file, optional
        Where to print; by default standard output.
    """
    out = sys.stdout if file is None else file
    sentence = visible(sentence)
    width, painted = _width(out), _painter(out)
    for line in (textwrap.wrap(sentence, width) if width else []) or [sentence]:
        print(painted(line, style), file=out)


def _width(out: TextIO) -> int | None:
    """Columns of the screen; None if the output is not a terminal."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def _painter(out: TextIO) -> Any:
    """The function that adds a style to a line; it changes nothing if colours are not wanted."""
    codes = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
    plain = not out.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"

    def painted(line: str, style: str) -> str:
        if plain or not style:
            return line
        code = ";".join(codes[word] for word in style.split())
        return f"\x1b[{code}m{line}\x1b[0m"

    return painted


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV, with the names of the first row as headings.

    Parameters
    ----------
    rows : iterable of mapping
        The rows, all with the same names.

    Returns
    -------
    str

    Examples
    --------
    >>> from softfair.terminal import as_csv
    >>> print(as_csv([{"policy": "Random", "benefit": 0.5}]), end="")
    policy,benefit
    Random,0.5
    """
    listed = list(rows)
    out = io.StringIO()
    if listed:
        writer = csv.DictWriter(out, list(listed[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(listed)
    return out.getvalue()


def as_html(title: str, facts: Mapping[str, object]) -> str:
    """A title and a table of facts, as a notebook shows an object.

    Parameters
    ----------
    title : str
        The title.
    facts : mapping
        The value of each fact by its name.

    Returns
    -------
    str
        Markup; every text is escaped.

    Examples
    --------
    >>> from softfair.terminal import as_html
    >>> as_html("Cohort", {"arms": 3})
    '<table><caption>Cohort</caption><tr><th>arms</th><td>3</td></tr></table>'
    """
    rows = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"


def survive_any_encoding(*files: TextIO) -> None:
    """Make text files replace characters that their encoding does not have, instead of failing.

    Parameters
    ----------
    files : file
        Files such as sys.stdout. A file that cannot be changed is left alone.
    """
    codecs.register_error("softfair.spelt", _spelt)
    for file in files:
        if isinstance(file, io.TextIOWrapper) and file.errors == "strict":
            file.reconfigure(errors="softfair.spelt")


def _spelt(error: UnicodeError) -> tuple[str, int]:
    """Replacements for characters that cannot be encoded: from SPELT, plain letters, or "?"."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    parts = []
    for character in error.object[error.start : error.end]:
        plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
        parts.append(SPELT.get(character) or plain or "?")
    return "".join(parts), error.end
