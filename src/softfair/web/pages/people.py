"""People: who is in the programme, one person's timeline, and changes of their data."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...errors import InvalidInput
from ...for_json import read_json
from ...programme.batches import Imported
from ...programme.biography import Biography, biography, sources
from ...programme.commands.taking_in import told
from ...programme.snapshot import load_details, load_people
from ...programme.store import Store
from ...programme.tables import PIECE, Columns, Pieces
from ..access import MARKS, Changes, Form, Sees, Visitor
from ..deeds import correct, leave, opt
from ..words import on_page
from .shared import number, remembered, render, see, text

__all__ = ["change", "known_of", "people_table", "router"]

router = APIRouter()
A_PAGE = 100  # people at a time

DEEDS = {
    "opt-out": "opt out",
    "opt-in": "opt back in",
    "left": "left the programme",
    "back": "is back",
    "correct": "correct a state",
}


def _named(database: Store) -> list[tuple[str, dict[str, str], bool]]:
    """Everybody whom a file in force names: identifier, groups, whether they have opted out."""
    with database.reading() as connection:
        people = load_people(connection)
    unnamed = set(people.unnamed.tolist())
    # People of the same groups share a dict: there are far fewer combinations than people.
    groups = {text: read_json(text) for text in set(people.groups)}
    return [
        (name, groups[people.groups[i]], people.opted_out[i] == 1)
        for i, name in enumerate(people.names)
        if i not in unnamed
    ]


def people_table(database: Store) -> Pieces:
    """Everybody whom a file in force names, as `GET /api/people` answers."""
    everybody = _named(database)

    def piece(first: int) -> Columns:
        names, groups, out = zip(*everybody[first : first + PIECE], strict=True)
        return {"id": names, "groups": groups, "opted_out": [bool(one) for one in out]}

    kinds = {"id": str, "groups": dict, "opted_out": bool}
    return Pieces(kinds, (piece(first) for first in range(0, len(everybody), PIECE)))


@router.get("/people")
def people_page(request: Request, visitor: Sees, search: str = "", page: int = 1) -> Response:
    """Everybody, or the people whose identifier or a group contains a text."""
    everybody = remembered(request, visitor, "the people", lambda: _named(visitor.database))
    wanted = search.casefold().strip()
    matching = [
        one
        for one in everybody
        if not wanted or wanted in "\n".join((one[0], *one[1].values())).casefold()
    ]
    columns = sorted({name for _, groups, _ in everybody for name in groups})
    pages = max(1, -(-len(matching) // A_PAGE))
    part = matching[max(page - 1, 0) * A_PAGE : max(page, 0) * A_PAGE]
    return render(
        request,
        visitor,
        "people.html",
        people=part,
        many=len(matching),
        columns=columns,
        search=search,
        page=page,
        pages=pages,
    )


def known_of(visitor: Visitor, name: str) -> Biography:
    """One person; details such as a telephone number only for visitors who may mark."""
    life = biography(visitor.database, name)
    if visitor.may(MARKS):
        return life
    with visitor.database.reading() as connection:
        details = {key for one in load_details(connection).values() for key in one}
    facts = {key: value for key, value in life.facts.items() if key not in details}
    return replace(life, facts=facts)


@router.get("/person")
def person_page(request: Request, visitor: Sees, id: str) -> Response:
    """One person."""
    life = known_of(visitor, id)
    spoke = sources(visitor.database, life.name)
    return render(request, visitor, "person.html", found=life, spoke=spoke, deeds=DEEDS)


def change(
    database: Store, name: str, deed: str, reason: str, round: int | None, state: str
) -> Imported:
    """Change what is known of somebody.

    Parameters
    ----------
    database
        The programme.
    name
        The person's identifier.
    deed
        One of `DEEDS`.
    reason
        Why; it is kept.
    round
        For ``left`` the first round without them, for ``correct`` the round of the state.
    state
        For ``correct``, its name.

    Raises
    ------
    InvalidInput
        If there is no such person or deed, or no reason.
    """
    name = biography(database, name).name
    if deed in ("opt-out", "opt-in"):
        return opt(database, name, deed == "opt-out", reason)
    if deed == "back":
        return leave(database, name, None, reason)
    if deed in ("left", "correct") and round is None:
        raise InvalidInput("say which round")
    if deed == "left":
        return leave(database, name, round, reason)
    if deed == "correct":
        assert round is not None
        return correct(database, name, round, state, reason)
    raise InvalidInput(f"there is nothing called {deed!r} to do; choose {', '.join(DEEDS)}")


@router.post("/person")
def change_person(request: Request, visitor: Changes, form: Form) -> Response:
    """Opt out or back in, left or back, or a mistyped state; nothing is overwritten."""
    name, deed = text(form, "id"), text(form, "deed")
    round = number(form, "round") if deed in ("left", "correct") else None
    done = change(visitor.database, name, deed, text(form, "reason"), round, text(form, "state"))
    life = biography(visitor.database, name)
    kind = "history" if deed == "correct" else "people"
    return see(f"/person?id={quote(life.name)}", on_page(told(done, kind, life.settings)[0]))
