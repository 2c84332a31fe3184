"""Import by choosing or dropping a file: look at it, correct what was guessed, then confirm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from ...errors import BadRows, Fault, InvalidInput, Unsure
from ...programme.commands.shared import settings_of
from ...programme.commands.taking_in import told
from ...programme.reading import Upload
from ...programme.store import Store
from ..access import Changes, Form
from ..uploads import KINDS, Looked, Options, keep, kept, look, take
from ..uploads import choose as choose_options
from ..work import Finished
from .shared import begin, number, remembered, render, see, text

__all__ = ["router"]

router = APIRouter()
MOST_FAULTS = 1000  # bad entries on a page
FLAGS = ("add_people", "states_after", "again", "sure", "close")


@router.get("/import")
def choose(request: Request, visitor: Changes, kind: str = "record") -> Response:
    """The page on which a file is chosen."""
    return render(request, visitor, "import.html", kinds=KINDS, kind=kind)


@router.post("/import")
async def upload(request: Request, visitor: Changes, form: Form) -> Response:
    """Keep an uploaded file, and show what it is."""
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise InvalidInput("choose a file")
    data = await file.read()
    who, spool = visitor.account.name, request.app.state.spool
    key = await run_in_threadpool(keep, spool, who, file.filename, data, text(form, "kind"))
    return see(f"/import/{key}")


@dataclass(frozen=True)
class Rehearsed:
    """What an import would do."""

    looked: Looked | None = None  # None: the file cannot be read
    lines: tuple[str, ...] = ()
    wrong: str = ""
    doubt: str = ""
    faults: tuple[Fault, ...] = ()


@router.get("/import/{key}")
def look_at(request: Request, visitor: Changes, key: str) -> Response:
    """What the file's columns mean, and what its import would do."""
    file, options = kept(request.app.state.spool, visitor.account.name, key)
    database = visitor.database
    preview = remembered(
        request, visitor, "the file", lambda: _rehearsed(database, file, options), key, options
    )
    return render(
        request,
        visitor,
        "import_look.html",
        key=key,
        name=file.name,
        options=options,
        found=preview,
        faults=preview.faults[:MOST_FAULTS],
        more=max(len(preview.faults) - MOST_FAULTS, 0),
    )


@router.post("/import/{key}")
def look_or_import(request: Request, visitor: Changes, form: Form, key: str) -> Response:
    """Look again with other choices, or import."""
    spool, who, here = request.app.state.spool, visitor.account.name, f"/import/{key}"
    file, before = kept(spool, who, key)
    options = _options(form, before.kind)
    choose_options(spool, who, key, options)
    if text(form, "do") != "import":
        return see(here)
    database = visitor.database

    def imported() -> Finished:
        done = take(database, file, options)
        lines = told(done, options.kind, settings_of(database))
        return Finished(f"{file.name} is imported", tuple(lines))

    try:
        return begin(request, visitor, here, imported)
    except InvalidInput:  # the page of choices shows it
        return see(here)


def _options(form: Any, kind: str) -> Options:
    headings = [str(value) for value in form.getlist("heading")]
    meanings = [str(value) for value in form.getlist("meaning")]
    given: dict[str, Any] = {name: text(form, name) == "1" for name in FLAGS}
    given |= {name: text(form, name) for name in ("dates", "twins", "sheet", "threshold")}
    given |= {"round": number(form, "round") if text(form, "round") else None}
    return Options(kind, tuple(zip(headings, meanings, strict=False)), **given)


def _rehearsed(database: Store, file: Upload, options: Options) -> Rehearsed:
    """What an import would do; nothing is written."""
    looked = None
    try:
        looked = look(database, file, options)
        done = take(database.rehearsal(), file, options)
        return Rehearsed(looked, tuple(told(done, options.kind, settings_of(database))))
    except Unsure as unsure:
        return Rehearsed(looked, doubt=unsure.doubt)
    except BadRows as bad:
        return Rehearsed(looked, wrong=str(bad), faults=tuple(bad.faults))
    except InvalidInput as error:
        return Rehearsed(looked, wrong=str(error))
