"""Import by choosing or dropping a file: look at it, mend what was guessed, then confirm."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from ...errors import BadRows, Fault, InvalidInput, Unsure
from ...programme.commands.shared import settings_of
from ...programme.commands.taking_in import told
from ..access import Changes, Form, Visitor
from ..uploads import KINDS, Options, keep, kept, look, take
from .shared import number, render, see, text

__all__ = ["router"]

router = APIRouter()
MOST_FAULTS = 1000  # bad entries on a page
FLAGS = ("add_people", "states_after", "again", "sure", "close")


@router.get("/import")
def choose(request: Request, visitor: Changes, kind: str = "record") -> Response:
    """Choose a file."""
    return render(request, visitor, "import.html", kinds=KINDS, kind=kind)


@router.post("/import")
async def upload(request: Request, visitor: Changes, form: Form) -> Response:
    """Take a file in, and look at it."""
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise InvalidInput("choose a file")
    data = await file.read()
    who, spool = visitor.account.name, request.app.state.spool
    key = await run_in_threadpool(keep, spool, who, file.filename, data, text(form, "kind"))
    return see(f"/import/{key}")


@router.get("/import/{key}")
def first_look(request: Request, visitor: Changes, key: str) -> Response:
    """What the file is taken for, and what would come of it."""
    _, kind = kept(request.app.state.spool, visitor.account.name, key)
    return _looked(request, visitor, key, Options(kind))


@router.post("/import/{key}")
def look_or_import(request: Request, visitor: Changes, form: Form, key: str) -> Response:
    """Look again with other choices, or import."""
    file, kind = kept(request.app.state.spool, visitor.account.name, key)
    options = _options(form, kind)
    if text(form, "do") != "import":
        return _looked(request, visitor, key, options)
    try:
        done = take(visitor.database, file, options)
    except InvalidInput:  # it is shown with the choices
        return _looked(request, visitor, key, options)
    lines = told(done, kind, settings_of(visitor.database))
    return render(request, visitor, "imported.html", lines=lines, name=file.name)


def _options(form: Any, kind: str) -> Options:
    headings = [str(value) for value in form.getlist("heading")]
    meanings = [str(value) for value in form.getlist("meaning")]
    given: dict[str, Any] = {name: text(form, name) == "1" for name in FLAGS}
    given |= {name: text(form, name) for name in ("dates", "twins", "sheet", "threshold")}
    given |= {"round": number(form, "round") if text(form, "round") else None}
    return Options(kind, tuple(zip(headings, meanings, strict=False)), **given)


def _looked(request: Request, visitor: Visitor, key: str, options: Options) -> Response:
    file, _ = kept(request.app.state.spool, visitor.account.name, key)
    looked, lines, wrong, doubt = None, [], "", ""
    faults: list[Fault] = []
    try:
        looked = look(visitor.database, file, options)
        done = take(visitor.database.rehearsal(), file, options)
        lines = told(done, options.kind, settings_of(visitor.database))
    except Unsure as unsure:
        doubt = unsure.doubt
    except BadRows as bad:
        faults, wrong = bad.faults, str(bad)
    except InvalidInput as error:
        wrong = str(error)
    return render(
        request,
        visitor,
        "import_look.html",
        key=key,
        name=file.name,
        options=options,
        looked=looked,
        lines=lines,
        wrong=wrong,
        doubt=doubt,
        faults=faults[:MOST_FAULTS],
        more=max(len(faults) - MOST_FAULTS, 0),
    )
