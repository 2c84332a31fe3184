"""What pages have in common: templates, messages, kept results and redirects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...errors import InvalidInput
from ..access import CHANGES, LISTS, MANAGES, MARKS, SEES, Visitor
from ..memory import Memory
from ..work import Finished, StillWorking

__all__ = [
    "begin",
    "number",
    "plain_page",
    "remembered",
    "render",
    "see",
    "still_working",
    "text",
]

Result = TypeVar("Result")

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


def remembered(
    request: Request,
    visitor: Visitor,
    what: str,
    make: Callable[[], Result],
    *about: Any,
    late: bool = False,
    small: bool = False,
    whole: bool = False,
) -> Result:
    """A result for this moment of the programme, kept from before or computed now.

    Parameters
    ----------
    request, visitor
        The request, and who sends it. A page waits for at most `PATIENCE`; a form and a request of
        the API wait until the result is there.
    what, make, *about
        As in `Memory.of`.
    late
        As in `Memory.of`; for results that take long and need not be of this very moment.
    small
        Whether the result is small, so that many of its kind are kept.
    whole
        Whether to wait however long it takes: a file that is downloaded cannot report progress.

    Raises
    ------
    StillWorking
        If it takes longer than a page waits.
    """
    memory: Memory = request.app.state.figures if small else request.app.state.memory
    looks = request.method == "GET" and not whole and not request.url.path.startswith("/api/")
    patience = request.app.state.patience if looks else None
    return memory.of(
        *(visitor.database, what, make),
        *about,
        patience=patience,
        late=late,
        moment=visitor.moment,
    )


def still_working(request: Request, working: StillWorking) -> Response:
    """A page, or a part of one, that says how far its work is and asks again."""
    part = "hx-request" in request.headers
    query = f"?{request.url.query}" if request.url.query else ""
    answer = render(
        request,
        request.state.visitor,
        "working_part.html" if part else "working.html",
        working=working,
        address=request.url.path + query,
    )
    answer.headers["X-Working"] = "1"
    return answer


def begin(request: Request, visitor: Visitor, back: str, make: Callable[[], Finished]) -> Response:
    """Begin work that writes; answer with its result, or with the page that reports on it.

    Parameters
    ----------
    request, visitor
        The request, and who sends it.
    back
        The address of the page to show next if it fails.
    make
        The work.
    """
    who, patience = visitor.account.name, request.app.state.patience
    key, finished = request.app.state.jobs.begin(who, back, make, patience)
    return see(f"/work/{key}") if finished is None else outcome(request, visitor, finished)


def outcome(request: Request, visitor: Visitor, finished: Finished) -> Response:
    """The result of work: a page of its own, or a redirect to the page that shows it."""
    if finished.address and not finished.wrong:
        return see(finished.address, finished.title, *finished.lines)
    return render(request, visitor, "finished.html", finished=finished)


def render(
    request: Request, visitor: Visitor | None, template: str, code: int = 200, **values: Any
) -> Response:
    """A page, or a part of one, for a visitor; None: nobody is signed in."""
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
    """A page with one sentence."""
    return render(request, None, "plain.html", status, status=status, sentence=said)


def see(address: str, *said: str) -> Response:
    """Redirect to a page, which then shows the sentences ``said``."""
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
    """A field of a form as a whole number.

    Raises
    ------
    InvalidInput
        If it is not a number of at most 9 digits.
    """
    told = text(form, name)
    if not told.isdecimal() or len(told) > 9:
        raise InvalidInput(f"the {name} is {told!r}; give a number")
    return int(told)
