"""The pages that show how things are: home, audit, log, accounts."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import date

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...errors import InvalidInput
from ...page import picture
from ...programme.audit import Audit, Section, audit, sections
from ...programme.audit.findings import LOOK
from ...programme.audit.pictures import pictures
from ...programme.journal import journal
from ...programme.standing import standing
from ..access import Manages, Sees, Visitor
from ..accounts import ROLES, accounts
from ..words import on_page
from .shared import remembered, render

__all__ = ["audit_of", "router"]

router = APIRouter()
ENTRIES = 200  # of the log on a page


@router.get("/")
def home(request: Request, visitor: Sees) -> Response:
    """Where the programme stands."""
    try:
        standing_now = remembered(
            request, visitor, "where the programme stands", lambda: standing(visitor.database)
        )
    except InvalidInput as nobody:  # the programme has no people yet
        return render(request, visitor, "home.html", found=None, nobody=str(nobody))
    today = standing_now.today(date.today())
    learn = next((due for due in standing_now.due if due.startswith("softfair import")), "")
    return render(
        request,
        visitor,
        "home.html",
        found=standing_now,
        nobody="",
        today=None if today == standing_now.next_round else today,
        nothing_learnt=learn.partition(": ")[2],
    )


@router.get("/home/audit")
def home_audit(request: Request, visitor: Sees) -> Response:
    """Engagement over time and the findings that call for action, for the home page."""
    result = audit_of(request, visitor)
    look = [on_page(sentence) for sentence in result.findings if sentence.startswith(LOOK)]
    return render(request, visitor, "home_audit.html", found=result, look=look)


@dataclass(frozen=True)
class Shown:
    """A section of the audit, and its pictures: what each shows, and its data as an address."""

    section: Section
    pictures: tuple[tuple[str, str], ...]


def audit_of(request: Request, visitor: Visitor, round: int | None = None) -> Audit:
    """The audit of the whole programme, or of one round, as of this moment."""
    database = visitor.database
    return remembered(
        request, visitor, "the audit", lambda: audit(database, round=round), round, late=True
    )


def _shown(result: Audit, part: Section) -> Shown:
    drawn = tuple(
        (one.name, f"data:image/png;base64,{base64.b64encode(picture(one.figure)).decode()}")
        for one in pictures(result, part.key)
    )
    return Shown(part, drawn)


@router.get("/audit")
def audit_page(request: Request, visitor: Sees, round: str = "") -> Response:
    """What `softfair audit` prints, with pictures, for all rounds or for one."""
    whole = audit_of(request, visitor)
    at = next((row.round for row in whole.rounds if str(row.round) == round), None)
    if round and at is None:
        raise InvalidInput(f"round {round!r} has no plan; choose another")
    result = whole if at is None else audit_of(request, visitor, at)
    shown = remembered(
        *(request, visitor, "the pictures"),
        *(lambda: [_shown(result, part) for part in sections(result, at is None)], at),
        late=True,
    )
    return render(
        request,
        visitor,
        "audit.html",
        found=result,
        findings=[(on_page(one), one.startswith(LOOK)) for one in result.findings],
        shown=shown,
        rounds=[(row.round, whole.at(row.round)) for row in whole.rounds],
        at=at,
    )


@router.get("/log")
def log(request: Request, visitor: Sees) -> Response:
    """Who did what, when."""
    acts = journal(visitor.database)[-ENTRIES:][::-1]
    return render(request, visitor, "log.html", acts=acts)


@router.get("/accounts")
def accounts_page(request: Request, visitor: Manages) -> Response:
    """Who may use the pages and the API."""
    everybody = accounts(visitor.database)
    return render(request, visitor, "accounts.html", accounts=everybody, roles=ROLES)
