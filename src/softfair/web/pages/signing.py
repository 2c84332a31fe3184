"""Signing in and out."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from ..access import COOKIE, SEES, Anybody, Attempts, Form, Lists
from ..accounts import VISIT, begin_visit, check_password, end_visit, use_link, visitor_of
from .shared import render, see, text

__all__ = ["router"]

router = APIRouter()
anybody = Depends(Anybody())


@router.get("/sign-in", dependencies=[anybody])
def sign_in_page(request: Request, next: str = "/") -> Response:
    """Ask for name and password."""
    return render(request, None, "sign_in.html", next=next, wrong="")


@router.post("/sign-in", dependencies=[anybody])
def sign_in(request: Request, form: Form) -> Response:
    """Check name and password, and begin a visit."""
    attempts: Attempts = request.app.state.attempts
    database = request.app.state.database
    name, password, onward = text(form, "name"), str(form.get("password", "")), text(form, "next")
    address = request.client.host if request.client else ""
    if not _from_here(request):
        return _again(request, 403, onward, "That form came from another site.")
    if attempts.refused(address, name):
        return _again(request, 429, onward, "Too many attempts; wait some minutes and try again.")
    account = check_password(database, name, password)
    if account is None:
        attempts.fail(address, name)
        return _again(request, 403, onward, "Name or password is wrong.")
    home = "/" if account.role in SEES else "/round"
    wanted = onward if onward.startswith("/") and not onward.startswith(("//", "/\\")) else home
    return _entered(request, begin_visit(database, account), home if wanted == "/" else wanted)


@router.get("/enter", dependencies=[anybody])
def enter(request: Request, key: str) -> Response:
    """Sign in with a link that `softfair serve --sign-in-as` printed; it works once."""
    database = request.app.state.database
    visit = use_link(database, key)
    if visit is None:
        return _again(request, 403, "/", "That link is old or was used; sign in by password.")
    account = visitor_of(database, visit)
    return _entered(request, visit, "/" if account and account.role in SEES else "/round")


@router.post("/sign-out")
def sign_out(request: Request, visitor: Lists) -> Response:
    """End the visit."""
    end_visit(request.app.state.database, visitor.account, visitor.key)
    answer = see("/sign-in")
    answer.delete_cookie(COOKIE)
    return answer


def _from_here(request: Request) -> bool:
    """Whether a form was sent by a page of this server, as far as the browser says."""
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def _again(request: Request, status: int, onward: str, wrong: str) -> Response:
    return render(request, None, "sign_in.html", status, next=onward or "/", wrong=wrong)


def _entered(request: Request, key: str, to: str) -> Response:
    answer = see(to)
    answer.set_cookie(
        COOKIE,
        key,
        max_age=int(VISIT.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer
