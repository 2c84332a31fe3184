"""What pages have in common: templates, messages, and where a form leads."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...errors import InvalidInput
from ..access import CHANGES, LISTS, MANAGES, MARKS, SEES, Visitor
from ..memory import Memory

__all__ = ["memory_of", "number", "plain_page", "render", "see", "text"]

SAID = "softfair-said"  # the cookie that carries a message over to the next page
LONGEST = 1500  # characters of a message
MENU = (
    ("/", "Home", SEES),
    ("/round", "This round", LISTS),
    ("/people", "People", SEES),
    ("/fairness", "Fairness", SEES),
    ("/audit", "Audit", SEES),
    ("/import", "Import", CHANGES),
    ("/log", "Log", SEES),
    ("/accounts", "Accounts", MANAGES),
)


def memory_of(request: Request) -> Memory:
    """What this process remembers."""
    memory: Memory = request.app.state.memory
    return memory


def render(
    request: Request, visitor: Visitor | None, template: str, code: int = 200, **values: Any
) -> Response:
    """A page, or a part of one, for somebody."""
    said = unquote(request.cookies.get(SAID, ""))
    menu = [] if visitor is None else [one for one in MENU if visitor.may(one[2])]
    shown = request.app.state.templates.get_template(template).render(
        visitor=visitor,
        menu=menu,
        path=request.url.path,
        said=said.splitlines(),
        may_mark=visitor is not None and visitor.may(MARKS),
        may_change=visitor is not None and visitor.may(CHANGES),
        may_see=visitor is not None and visitor.may(SEES),
        **values,
    )
    answer = HTMLResponse(shown, code)
    if said:
        answer.delete_cookie(SAID)
    return answer


def plain_page(request: Request, status: int, said: str) -> Response:
    """A page that says one thing."""
    return render(request, None, "plain.html", status, status=status, sentence=said)


def see(address: str, *said: str) -> Response:
    """Lead on to a page, which then shows what was said."""
    answer = RedirectResponse(address, 303)
    if said:
        told = quote("\n".join(said)[:LONGEST])
        answer.set_cookie(SAID, told, max_age=60, httponly=True, samesite="lax")
    return answer


def text(form: Any, name: str) -> str:
    """A field of a form, trimmed; empty if it is not there, or is a file."""
    value = form.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def number(form: Any, name: str) -> int:
    """A field that has a round in it.

    Raises
    ------
    InvalidInput
        If it has not.
    """
    told = text(form, name)
    if not told.isdecimal() or len(told) > 9:
        raise InvalidInput(f"the {name} is {told!r}; give a number")
    return int(told)
