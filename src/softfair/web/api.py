"""The same verbs in JSON, for programs that show a token: `softfair user token NAME`.

The description is at /api/openapi.json. What a role may not do on a page it may not do here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Path, Query, Request, Security, UploadFile
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from ..programme.batches import Imported
from ..programme.checks import head
from ..programme.commands.looking import to_json
from ..programme.commands.planning import commitment_json, plan_json
from ..programme.commands.shared import LATEST, settings_of, software
from ..programme.commands.taking_in import told
from ..programme.commitments import code_before
from ..programme.entries import UNPRINTABLE
from ..programme.journal import journal
from ..programme.plans import commit_plan, make_plan
from ..programme.reading import Upload
from ..programme.records import close_round
from ..programme.standing import standing
from ..programme.tables import json_list, json_object, plan_table
from .access import CHANGES, LISTS, MARKS, SEES, NeedsToken, Visitor
from .lists import RoundList
from .pages.fairness import figures_of
from .pages.looking import audit_of
from .pages.people import DEEDS, change, known_of, people_table
from .pages.planning import Asked, drawn_with
from .pages.round import list_for, marked
from .tradeoff import EVENEST, POSITIONS
from .uploads import Options, take

__all__ = ["api"]


# Control characters, and marks that change the direction of text, are not taken.
PRINTABLE = f"^[^{UNPRINTABLE.pattern[1:-1]}]*$"
Text = Annotated[str, Field(max_length=1000, pattern=PRINTABLE)]
Round = Annotated[int, Path(ge=0, le=LATEST)]
Sees = Annotated[Visitor, Depends(NeedsToken(*SEES))]
Lists = Annotated[Visitor, Depends(NeedsToken(*LISTS))]
Marks = Annotated[Visitor, Depends(NeedsToken(*MARKS))]
Changes = Annotated[Visitor, Depends(NeedsToken(*CHANGES))]
JSON = "application/json"
AT_ONCE = 1000  # rows of an answer that are sent together
# For answers that are sent in parts: no type describes them.
ANY_JSON: dict[int | str, dict[str, Any]] = {200: {"content": {JSON: {}}}}


class Told(BaseModel):
    """What was done, in sentences."""

    said: list[str]
    batch: int | None = None


class Refusal(BaseModel):
    """Why nothing was done."""

    detail: Any


class Mark(BaseModel):
    """Somebody on the list, reached or not, or the state that they reached."""

    model_config = ConfigDict(extra="forbid")
    id: Text
    deed: Text = Field(description="reached, missed, or state: and the name of a state")


class Wish(BaseModel):
    """What is asked of a plan, in the words of `softfair plan`."""

    model_config = ConfigDict(extra="forbid")
    target: Text = ""
    policy: Text = ""
    promise: Text = ""
    replan: Text = ""
    sure: bool = False
    preview: bool = Field(False, description="Nothing is written, and nobody is listed.")
    commit: bool = Field(False, description="All but the luck is fixed; the code is given away.")
    luck: Text = Field("", description="Draw what is committed with this.")
    source: Literal["text", "word", "beacon"] = Field("text", description="Of the luck.")


class Change(BaseModel):
    """What is to be changed about somebody, and why."""

    model_config = ConfigDict(extra="forbid")
    id: Text
    deed: Literal["opt-out", "opt-in", "left", "back", "correct"] = Field(
        description="; ".join(f"{deed}: {said}" for deed, said in DEEDS.items())
    )
    reason: Text
    round: int | None = Field(None, ge=0, le=LATEST)
    state: Text = ""


api = APIRouter(
    prefix="/api",
    # Only for the description of the API: `NeedsToken` checks the token.
    dependencies=[Security(HTTPBearer(auto_error=False))],
    responses={
        code: {"model": Refusal, "description": said}
        for code, said in (
            (401, "No token, or one that is not known."),
            (403, "Not for this token's role."),
            (409, "It cannot be done; the detail says why, and what to do."),
            (413, "The request is too large."),
        )
    },
)


@api.get("/openapi.json")
def description(request: Request, visitor: Lists) -> dict[str, Any]:
    """This description."""
    described: dict[str, Any] = request.app.openapi()
    return described


@api.get("/status")
def status(visitor: Sees) -> dict[str, Any]:
    """Where the programme stands."""
    return _plain(standing(visitor.database))


def _plain(result: Any) -> dict[str, Any]:
    """A result as JSON, without the seed, from which the luck of every draw follows."""
    shown: dict[str, Any] = json.loads(to_json(asdict(result)))
    del shown["settings"]["seed"]
    return shown


@api.get("/round")
def current_list(request: Request, visitor: Lists) -> dict[str, Any]:
    """The list of the first planned round that is open, else of the last."""
    return _listed(list_for(request, visitor, None), visitor)


@api.get("/rounds/{at}")
def list_of_round(request: Request, visitor: Lists, at: Round) -> dict[str, Any]:
    """The list of a round."""
    return _listed(list_for(request, visitor, at), visitor)


def _listed(listed: RoundList, visitor: Visitor) -> dict[str, Any]:
    shown = (*listed.groups, *(listed.details if visitor.may(MARKS) else ()))
    rows = []
    for row in listed.of(visitor.account.scope):
        facts = {name: row.facts[name] for name in shown if name in row.facts}
        rows.append({**asdict(row), "facts": facts})
    return {"round": listed.plan.round, "over": listed.over, "people": rows}


@api.post("/rounds/{at}/marks")
def mark(request: Request, visitor: Marks, at: Round, body: Mark) -> Told:
    """Mark somebody on the list."""
    return Told(said=marked(request, visitor, at, body.id, body.deed))


@api.post("/rounds/{at}/close")
def close(visitor: Changes, at: Round) -> Told:
    """Close a round: those who were not marked were not contacted."""
    return _told(visitor, close_round(visitor.database, software(), at), "record")


@api.post("/plan", responses=ANY_JSON)
def plan(request: Request, visitor: Changes, body: Wish) -> Response:
    """Draw the list of the next round, preview or commit it, or draw what is committed."""
    database = visitor.database.rehearsal() if body.preview else visitor.database
    chain = request.app.state.chain
    asked = Asked(body.target, body.policy, body.replan, body.sure, body.promise)
    if body.commit:
        committed, new = commit_plan(database, software(), asked.wish, chain)
        return JSONResponse({**commitment_json(committed), "new": new})
    if body.luck:
        made, new = drawn_with(database, body.luck, body.source, chain), True
    else:
        made, new = make_plan(database, software(), asked.wish)
    people = plan_table(made, body.preview)
    code = code_before(visitor.database, made.luck)
    header = {**plan_json(made, head(visitor.database), code=code), "new": new}
    if body.preview and new:
        del header["seed"], header["digest"]
        people = people.without("listed", "reason")
    return _in_parts(json_object(header, "people", people))


@api.get("/people", responses=ANY_JSON)
def people(visitor: Sees) -> Response:
    """Everybody, with their groups."""
    return _in_parts(json_list(people_table(visitor.database)))


def _in_parts(rows: Iterator[str]) -> Response:
    """An answer that is made and sent some rows at a time: each part is handed between threads."""
    parts = iter(lambda: "".join(islice(rows, AT_ONCE)), "")
    return StreamingResponse(parts, media_type=JSON)


@api.get("/person")
def person(visitor: Sees, id: Annotated[Text, Query()]) -> dict[str, Any]:
    """Everything about one person."""
    return _plain(known_of(visitor, id))


@api.post("/person")
def change_person(visitor: Changes, body: Change) -> Told:
    """Opt out or back in, left or back, or a mistyped state; nothing is overwritten."""
    done = change(visitor.database, body.id, body.deed, body.reason, body.round, body.state)
    return _told(visitor, done, "history" if body.deed == "correct" else "people")


@api.get("/fairness")
def fairness(
    request: Request,
    visitor: Sees,
    position: Annotated[int, Query(ge=0, le=POSITIONS)] = 50,
    even: Annotated[int, Query(ge=0, le=EVENEST)] = 0,
    promise: Annotated[Text, Query(description="wait=8, chance=0.5% or none")] = "",
    by: Annotated[Text, Query()] = "",
) -> dict[str, Any]:
    """What fairness costs, at positions of the sliders over c and of evenness, with a promise."""
    return figures_of(request, visitor, position, even, promise, by)


@api.get("/audit")
def audit(request: Request, visitor: Sees) -> dict[str, Any]:
    """What `softfair audit --json` prints."""
    return audit_of(request, visitor).to_dict()


@api.get("/log")
def log(visitor: Sees) -> list[dict[str, Any]]:
    """Who did what, when."""
    return [asdict(act) for act in journal(visitor.database)]


@api.post("/import/{kind}")
def import_file(
    visitor: Changes,
    kind: Literal["people", "history", "record"],
    file: Annotated[UploadFile, File()],
    round: Annotated[int | None, Query(ge=0, le=LATEST)] = None,
    threshold: Annotated[Text, Query()] = "",
    add_people: bool = False,
    sure: bool = False,
    close: bool = False,
    preview: bool = False,
) -> Told:
    """Import a file, as `softfair import` and `softfair record` do."""
    options = Options(
        kind,
        threshold=threshold,
        add_people=add_people,
        sure=sure,
        close=close,
        round=round,
    )
    database = visitor.database.rehearsal() if preview else visitor.database
    done = take(database, Upload(file.filename or "the data", file.file.read()), options)
    return _told(visitor, done, kind)


def _told(visitor: Visitor, done: Imported, kind: str) -> Told:
    return Told(said=told(done, kind, settings_of(visitor.database)), batch=done.batch)
