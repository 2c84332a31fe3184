"""This round: the list, the marks on it, worksheets to print, and files to download."""

from __future__ import annotations

import secrets
from dataclasses import asdict, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...errors import InvalidInput
from ...programme.checks import head
from ...programme.commands.giving_out import with_head
from ...programme.commands.shared import software
from ...programme.commands.taking_in import told
from ...programme.records import close_round
from ...programme.tables import plan_table, table_bytes
from ..access import MARKS, SEES, Changes, Forbidden, Form, Lists, Marks, Visitor
from ..deeds import mark
from ..lists import TOLD, Choice, Listed, RoundList, Row, chosen, round_list, values_of
from ..words import on_page
from .shared import remembered, render, see, text

__all__ = ["list_for", "marked", "router"]

router = APIRouter()
A_PAGE = 100  # rows of the list at a time
WORD = secrets.token_hex(32)  # placeholder for the word of a visit; no file can contain it
KINDS = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def list_for(
    request: Request,
    visitor: Visitor,
    at: int | None,
    everyone: bool = False,
    whole: bool = False,
) -> RoundList:
    """The list of a round at this moment."""
    database = visitor.database
    return remembered(
        *(request, visitor, "the list", lambda: round_list(database, at, everyone)),
        *(at, everyone),
        whole=whole,
    )


def _columns(listed: RoundList, visitor: Visitor) -> tuple[str, ...]:
    """The columns that are shown; details such as telephone numbers only to those who may mark."""
    return listed.groups + (listed.details if visitor.may(MARKS) else ())


@router.get("/round")
def this_round(request: Request, visitor: Lists) -> Response:
    """Redirect to the first planned round that is open, else to the last."""
    try:
        listed = list_for(request, visitor, None)
    except InvalidInput as none:
        return render(request, visitor, "no_round.html", why=str(none))
    return see(f"/round/{listed.plan.round}")


@router.get("/round/{at:int}")
def list_page(
    request: Request,
    visitor: Lists,
    at: int,
    sort: str = "name",
    down: bool = False,
    show: str = "all",
    where: str = "",
    search: str = "",
    group: str = "",
    everyone: bool = False,
    page: int = 1,
) -> Response:
    """The list of a round."""
    everyone = everyone and visitor.may(SEES)
    listed = list_for(request, visitor, at, everyone)
    columns = _columns(listed, visitor)
    known = (*columns, "name", "probability", "score", "waited", "told")
    if sort not in known or (group and group not in columns):
        raise InvalidInput("the list has no such column; go back and choose another")
    if where and where.partition("=")[0] not in columns:
        raise InvalidInput("the list has no such column; go back and choose another")
    choice = Choice(sort, down, show, where, search, group, everyone)
    seen_by = (visitor.account.role, visitor.account.scope)
    shown = remembered(
        *(request, visitor, "the list", lambda: _shown(request, visitor, listed, choice, page)),
        *(at, choice, page, seen_by),
        small=True,
    )
    return render(
        request,
        visitor,
        "round.html",
        found=listed,
        listed=shown.listed,
        rows=shown.rows.replace(WORD, visitor.word),
        choice=asdict(choice),
        columns=columns,
        values=shown.values,
        told_names=TOLD,
        at=at,
    )


class Shown(NamedTuple):
    """The parts of a list's page that are the same for visitors of the same role and scope."""

    listed: Listed
    rows: str  # the tables, with `WORD` in place of the word of a visit
    values: dict[str, list[str]]  # by which each column may be filtered


def _shown(
    request: Request, visitor: Visitor, round_list: RoundList, choice: Choice, page: int
) -> Shown:
    rows, at = round_list.of(visitor.account.scope), round_list.plan.round
    listed = chosen(rows, choice)
    asked = {
        **{"sort": choice.sort, "down": choice.down, "show": choice.told, "where": choice.where},
        **{"search": choice.search, "group": choice.group, "everyone": choice.everyone},
    }
    groups, pages = _part(listed.groups, page)
    tables = request.app.state.templates.get_template("rows.html").render(
        found=round_list,
        groups=groups,
        pages=pages,
        page=page,
        choice=asdict(choice),
        columns=_columns(round_list, visitor),
        link=lambda **changes: "?" + urlencode({**asked, **changes}),
        back=urlencode({**asked, "page": page}),
        at=at,
        word=WORD,
        may_mark=visitor.may(MARKS),
        may_see=visitor.may(SEES),
    )
    return Shown(replace(listed, groups=()), tables, values_of(rows, round_list.groups))


def _part(
    groups: tuple[tuple[str, tuple[Row, ...]], ...], page: int
) -> tuple[list[tuple[str, tuple[Row, ...]]], int]:
    """The groups and rows of one page, and the number of pages."""
    total = sum(len(rows) for _, rows in groups)
    first, last, seen, part = (page - 1) * A_PAGE, page * A_PAGE, 0, []
    for name, rows in groups:
        on_this_page = rows[max(first - seen, 0) : max(last - seen, 0)]
        if on_this_page:
            part.append((name, on_this_page))
        seen += len(rows)
    return part, max(1, -(-total // A_PAGE))


def marked(request: Request, visitor: Visitor, at: int, name: str, deed: str) -> list[str]:
    """Mark somebody on the list of a round; returns what that did, in sentences.

    Parameters
    ----------
    request, visitor
        The request, and who sends it.
    at
        The round.
    name
        The identifier of a person on the list; for a worker, on their own list.
    deed
        ``reached``, ``missed``, or ``state:`` and the name of a state.

    Raises
    ------
    Forbidden
        If the person is not on the visitor's list.
    InvalidInput
        If there is no such deed.
    """
    listed = list_for(request, visitor, at)
    row = next((one for one in listed.of(visitor.account.scope) if one.name == name), None)
    if row is None:
        raise Forbidden
    kind, _, state = deed.partition(":")
    if kind not in ("reached", "missed", "state") or (kind == "state") != bool(state):
        raise InvalidInput("mark somebody as reached, missed or with a state")
    contacted = None if kind == "state" else kind == "reached"
    done = mark(visitor.database, at, name, contacted, state or None)
    return told(done, "record", listed.settings)


@router.post("/round/{at:int}/mark")
def mark_row(request: Request, visitor: Marks, form: Form, at: int) -> Response:
    """Mark one person; the answer is the row with scripts, and the whole list without."""
    name = text(form, "name")
    said = marked(request, visitor, at, name, text(form, "deed"))
    if "hx-request" not in request.headers:
        where = f"/round/{at}?{text(form, 'back')}#{anchor(name)}"
        return see(where, f"Marked {name}.", on_page(said[-1]))
    listed = list_for(request, visitor, at)
    rows = listed.of(visitor.account.scope)
    return render(
        request,
        visitor,
        "row.html",
        row=next(row for row in rows if row.name == name),
        found=listed,
        columns=_columns(listed, visitor),
        at=at,
        back=text(form, "back"),
        listed=chosen(rows, Choice()),
        over=listed.over,
        word=visitor.word,
        now=True,
    )


def anchor(name: str) -> str:
    """The name of the place on the page where a person's row is."""
    return "p-" + name.encode().hex()


@router.post("/round/{at:int}/close")
def close(request: Request, visitor: Changes, at: int) -> Response:
    """Close a round: people who were not marked count as not contacted."""
    listed = list_for(request, visitor, at)
    done = close_round(visitor.database, software(), at)
    return see(f"/round/{at}", *map(on_page, told(done, "record", listed.settings)))


@router.get("/round/{at:int}/worksheets")
def worksheets(request: Request, visitor: Lists, at: int, by: str = "") -> Response:
    """The list on paper: a page for each value of a column, with room to write."""
    listed = list_for(request, visitor, at)
    columns = _columns(listed, visitor)
    if by and by not in columns:
        raise InvalidInput("the list has no such column; go back and choose another")
    rows = tuple(row for row in listed.of(visitor.account.scope) if not row.struck)
    groups = chosen(rows, Choice(group=by)).groups
    shown = tuple(name for name in columns if name != by)
    return render(
        request, visitor, "worksheets.html", found=listed, groups=groups, by=by, columns=shown
    )


@router.get("/round/{at:int}/list.{kind}")
def download(request: Request, visitor: Lists, at: int, kind: str) -> Response:
    """The list as a file, which can be filled in and imported as a record."""
    if kind not in KINDS:
        raise InvalidInput(f"there is no list in {kind}; take csv or xlsx")
    listed = list_for(request, visitor, at, whole=True)
    calendar = listed.settings.calendar
    table = plan_table(listed.plan, False, listed.since, calendar)
    columns = with_head(table, head(visitor.database)).whole()
    mine = {row.name for row in listed.of(visitor.account.scope)}
    keep = [i for i, name in enumerate(columns["id"]) if name in mine]
    picked: dict[str, list[Any]] = {
        name: [values[i] for i in keep] for name, values in columns.items()
    }
    return Response(
        table_bytes(picked, f"list.{kind}"),
        media_type=KINDS[kind],
        headers={"Content-Disposition": f'attachment; filename="round-{at}.{kind}"'},
    )
