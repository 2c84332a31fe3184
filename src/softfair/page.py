"""The parts of an HTML page that needs no other file: style, embedded pictures, scrolling tables.

The report of the experiments and the audit of a programme are made of these parts. All texts that
are passed are escaped here; only arguments whose names end in ``_html`` are markup.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bullets", "heading", "image", "link", "page", "picture", "section", "table"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto;
  max-width: 60rem; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
.wide { overflow-x: auto; } img { max-width: 100%; height: auto; }
.wide img { max-width: none; width: 100%; }
table { border-spacing: 0; font-size: .85rem; overflow-wrap: normal; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }
th { vertical-align: bottom; } td { vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child, table.text th, table.text td { text-align: left; }
td:first-child, td.long, table.text td { white-space: normal; } td.long { min-width: 12rem; }
th:first-child, td:first-child { position: sticky; left: 0; background: #fff; min-width: 6rem; }
ul { padding-left: 1.2rem; } li.look { font-weight: 600; color: #a02318; }
dl { border-left: 3px solid #1f6fb4; padding-left: .8rem; margin: 1rem 0; }
dt { font-size: .8rem; color: #666; } dd { margin: 0 0 .4rem 0; } dd.verdict { font-weight: 600; }
p.lead, footer { color: #555; font-size: .9rem; } footer { margin-top: 3rem; }
@media print { body { max-width: none; } section { break-inside: avoid; } }
"""

LONGEST_FIGURE = 28  # characters of a cell that stay on one line: a share with its interval


def page(title: str, body_html: str, footer_html: str = "") -> bytes:
    """A whole page, as it is written to a file.

    Parameters
    ----------
    title : str
        The title that a browser shows above the page.
    body_html, footer_html : str
        Markup of the page and of its footer.

    Returns
    -------
    bytes
        The content of the file.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style></head><body>\n"
        f"{body_html}\n<footer>{footer_html}</footer>\n</body></html>\n"
    ).encode()


def heading(title: str, lead: str = "") -> str:
    """The title at the top of a page.

    Parameters
    ----------
    title : str
        The title.
    lead : str, optional
        A paragraph that says what the page is about.

    Returns
    -------
    str
        Markup.
    """
    lead_html = f"<p>{html.escape(lead)}</p>" if lead else ""
    return f"<h1>{html.escape(title)}</h1>{lead_html}"


def bullets(sentences: Sequence[str], stressed: Sequence[bool]) -> str:
    """A list of sentences.

    Parameters
    ----------
    sentences : sequence of str
        The sentences, one for each point.
    stressed : sequence of bool
        Whether each sentence is stressed.

    Returns
    -------
    str
        Markup.
    """
    look = ' class="look"'
    items = (
        f"<li{look if stress else ''}>{html.escape(sentence)}</li>"
        for sentence, stress in zip(sentences, stressed, strict=True)
    )
    return f"<ul>{''.join(items)}</ul>"


def section(title: str, body_html: str, lead: str = "") -> str:
    """A part of a page under a heading.

    Parameters
    ----------
    title : str
        The heading.
    body_html : str
        Markup of the part.
    lead : str, optional
        A paragraph that introduces the part.

    Returns
    -------
    str
        Markup.
    """
    lead_html = f'<p class="lead">{html.escape(lead)}</p>' if lead else ""
    return f"<section><h2>{html.escape(title)}</h2>{lead_html}{body_html}</section>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], text: bool = False) -> str:
    """A table that scrolls by itself on a narrow screen.

    The first column stays in sight. Figures are not broken over lines, but longer cells are.

    Parameters
    ----------
    headings : sequence of str
        The headings of the columns.
    rows : iterable of sequence of str
        The cells.
    text : bool, optional
        Whether the columns are text, which is aligned left, instead of figures.

    Returns
    -------
    str
        Markup.
    """
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    kind = ' class="text"' if text else ""
    return (
        f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    kind = ' class="long"' if len(text) > LONGEST_FIGURE else ""
    return f"<td{kind}>{html.escape(text)}</td>"


def link(address: str, text: str) -> str:
    """Make a link; nothing is fetched unless the reader follows it.

    Parameters
    ----------
    address : str
        The address.
    text : str
        The text that is shown.

    Returns
    -------
    str
        Markup.
    """
    return f'<a href="{html.escape(address)}">{html.escape(text)}</a>'


def picture(figure: Figure, kind: str = "png", dpi: int = 130) -> bytes:
    """A figure as the content of a file; the same figure gives the same bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    kind : str, optional
        The format of the file, such as png or svg.
    dpi : int, optional
        Dots per inch.

    Returns
    -------
    bytes
        The content of the file.
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "softfair"}):  # otherwise names inside an SVG are random
        figure.savefig(
            buffer, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else None
        )
    return buffer.getvalue()


def image(figure: Figure, alt: str, dpi: int = 130, png: bytes | None = None) -> str:
    """A figure inside the page. A single panel fits a phone; several panels scroll.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    alt : str
        The content of the figure in words.
    dpi : int, optional
        Dots per inch.
    png : bytes, optional
        The picture of the figure, if it has been made already.

    Returns
    -------
    str
        Markup.
    """
    data = base64.b64encode(picture(figure, "png", dpi) if png is None else png).decode()
    inches = figure.get_figwidth()
    if len(figure.axes) > 1:
        width, frame = f"min-width:{5 * inches:g}rem", "wide"
    else:
        width, frame = f"width:{6 * inches:g}rem", "one"
    return (
        f'<div class="{frame}"><img style="{width}" alt="{html.escape(alt)}" '
        f'src="data:image/png;base64,{data}"></div>'
    )
