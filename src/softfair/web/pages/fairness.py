"""Fairness: what a choice of c, evenness and promise is expected to bring and to cost."""

from __future__ import annotations

import math
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from ...errors import InvalidInput, SoftFairError
from ...programme.aims import Evenness, Target
from ...programme.promises import NO_PROMISE, Promise
from ..access import CHANGES, Sees, Visitor
from ..tradeoff import EVENEST, POSITIONS, Place, Tradeoff
from ..words import capitalised, on_page
from .shared import remembered, render, see

__all__ = ["figures_of", "router"]

router = APIRouter()


class Wanted(NamedTuple):
    """A goal that can be asked for, with the range of its slider."""

    says: str
    most: float
    step: float
    unit: str = ""  # written after the number
    least: float = 0.0


# Goals for c (as a target), for evenness at the chosen c, and for every draw (as a promise).
TARGETS = {
    "benefit": "keep at least this share of the benefit",
    "wait": "nobody's expected wait longer than this many rounds",
}
GUARANTEES = {
    "never": "at most this share of people never contacted",
    "longest": "no wait longer than this many rounds, on average over runs",
    "entropy": "contacts spread to this entropy",
}
PROMISES = {
    "promised-wait": "everybody is on one of any so many lists in a row",
    "promised-chance": "nobody in a draw has a chance below this",
}
NAMES = {"longest": "wait"}  # the programme's name of the goal


def _wanted(tradeoff: Tradeoff) -> dict[str, dict[str, Wanted]]:
    """All goals that can be asked for, by what is chosen to meet them."""
    rounds, share = max(2, 2 * tradeoff.horizon), Wanted("", 100, 1, "%", 1)
    people = tradeoff.waiting
    least = -(
        -people // max(tradeoff.contacted, 1)
    )  # lists that together have a place for everybody
    ranges = {
        "benefit": share,
        "wait": Wanted("", rounds, 1, "", 1),
        "never": Wanted("", 100, 1, "%"),
        "longest": Wanted("", tradeoff.horizon, 1, "", 1),
        "entropy": Wanted("", math.log(max(people, 2)), 0.01),
        "promised-wait": Wanted("", max(2 * least, tradeoff.horizon), 1, "", 1),
        "promised-chance": Wanted("", 100 * tradeoff.contacted / people, 0.01, "%", 0.01),
    }
    columns = {name: f"no {name} below this share of the average rate" for name in tradeoff.columns}
    by = {
        "by c": {**TARGETS, **columns},
        "by evenness, at this c": GUARANTEES,
        "by a promise that every draw keeps, at this c": PROMISES,
    }
    return {
        label: {key: ranges.get(key, share)._replace(says=says) for key, says in some.items()}
        for label, some in by.items()
    }


def _tradeoff(request: Request, visitor: Visitor) -> Tradeoff:
    """What fairness costs at this moment."""
    database = visitor.database
    return remembered(
        request, visitor, "what fairness costs", lambda: Tradeoff(database), late=True
    )


def _place(tradeoff: Tradeoff, position: int | None, even: int, promise: str) -> Place:
    """The place of the sliders; with a promise, the weight of evenness is 0."""
    at = tradeoff.position_of(tradeoff.settings.c) if position is None else position
    if not (0 <= at <= POSITIONS and 0 <= even <= EVENEST):
        raise InvalidInput(f"give positions from 0 to {POSITIONS} and from 0 to {EVENEST}")
    promised = (
        Promise.parse(promise) if promise else NO_PROMISE if even else tradeoff.settings.promise
    )
    return Place(at, even if promised.is_none else 0, promised)


def figures_of(
    request: Request,
    visitor: Visitor,
    position: int | None,
    even: int = 0,
    promise: str = "",
    by: str = "",
) -> dict[str, Any]:
    """All figures at positions of the sliders.

    Parameters
    ----------
    request, visitor
        The request, and who sends it.
    position
        Of the slider over c; None: that of the programme's own c.
    even
        Of the slider of evenness.
    promise
        Such as ``wait=8`` or none; empty: that of the programme, unless there is evenness.
    by
        The group column whose rates are shown; empty: the first.

    Raises
    ------
    InvalidInput
        If there is no such column or position.
    Infeasible
        If the promise cannot be kept.
    """
    tradeoff = _tradeoff(request, visitor)
    return _figures_at(request, visitor, tradeoff, _place(tradeoff, position, even, promise), by)


def _figures_at(
    request: Request, visitor: Visitor, tradeoff: Tradeoff, place: Place, by: str
) -> dict[str, Any]:
    column = by or next(iter(tradeoff.columns), "")
    if column and column not in tradeoff.columns:
        raise InvalidInput(f"rates by {column!r} cannot be shown; choose another column")
    return remembered(
        *(request, visitor, "the figures", lambda: _figures(tradeoff, place, column)),
        *(place, column),
        late=True,
        small=True,
    )


def _figures(tradeoff: Tradeoff, place: Place, column: str) -> dict[str, Any]:
    point, contacts = tradeoff.at(place)
    rates = tradeoff.rates(contacts, column) if column else []
    return {
        "now": point.to_json(),
        "promise": place.promise.said,
        "curve": [one.to_json() for one in tradeoff.curve],
        "bound": tradeoff.bound,
        "histogram": tradeoff.histograms(contacts),
        "column": column,
        "rates": [{"name": name, "people": size, "rate": rate} for name, size, rate in rates],
        "sentences": list(tradeoff.sentences(point, place.promise)),
        "plan": urlencode(_plan_of(point.benefit, point.mu, place.promise)),
    }


def _plan_of(benefit: float, mu: float, promise: Promise) -> dict[str, str]:
    """A choice as options of a plan: the weight of evenness, else a target for c and a promise."""
    if mu:
        return {"policy": f"EvenHanded:{mu:.6g}"}
    keeps = math.floor(1000 * benefit) / 10
    asked = {"target": f"benefit={keeps:g}%"} if 0 < keeps <= 100 else {}
    return asked if promise.is_none else {**asked, "promise": promise.said}


@router.get("/fairness")
def fairness(
    request: Request,
    visitor: Sees,
    position: int | None = None,
    even: int = 0,
    promise: str = "",
    by: str = "",
    goal: str = "",
    value: str = "",
) -> Response:
    """The sliders, with pictures and tables."""
    try:
        tradeoff = _tradeoff(request, visitor)
    except InvalidInput as none:
        return render(request, visitor, "no_round.html", why=str(none))
    refused = ""
    place = _place(tradeoff, position, even, promise)
    if goal and value.strip():
        try:
            place, said = _asked(request, visitor, tradeoff, goal, value.strip(), place)
            at = {"position": place.position, "even": place.even, "promise": place.promise.said}
            return see(f"/fairness?{urlencode(at)}", said)
        except SoftFairError as why:
            refused = _refusal(why)
    try:
        figures = _figures_at(request, visitor, tradeoff, place, by)
    except SoftFairError as why:
        if place.promise.is_none:
            raise
        refused, place = _refusal(why), place._replace(promise=NO_PROMISE)
        figures = _figures_at(request, visitor, tradeoff, place, by)
    return render(
        request,
        visitor,
        "fairness.html",
        400 if refused else 200,
        found=tradeoff,
        figures=figures,
        evenest=EVENEST,
        wanted=_wanted(tradeoff),
        goal=goal,
        value=value,
        refused=refused,
        answer="",
    )


def _refusal(why: SoftFairError) -> str:
    return f"{capitalised(on_page(str(why)))}."


def _asked(
    request: Request, visitor: Visitor, tradeoff: Tradeoff, goal: str, value: str, place: Place
) -> tuple[Place, str]:
    """The place of the sliders that meets a goal, and a sentence on it."""
    return remembered(
        *(request, visitor, "the goal", lambda: _met(tradeoff, goal, value, place)),
        *(goal, value, place),
        late=True,
        small=True,
    )


def _met(tradeoff: Tradeoff, goal: str, value: str, place: Place) -> tuple[Place, str]:
    at = place.position
    if goal in PROMISES:
        promise = Promise.parse(f"{goal.removeprefix('promised-')}={value}")
        place = Place(at, 0, promise)
        tradeoff.at(place)  # raises if the promise cannot be kept
        return place, f"Every draw keeps: {promise}."
    if goal in GUARANTEES:
        wanted = Evenness.parse(f"EvenHanded:{NAMES.get(goal, goal)}={value}")
        return Place(at, tradeoff.for_guarantee(at, wanted)), (
            f"The first step of evenness at this c with: {GUARANTEES[goal]} ({value}). "
            f"To draw with exactly that, ask for EvenHanded:{wanted.goal}={wanted.value:g}."
        )
    target = Target.parse(f"{goal}={value}")
    return Place(tradeoff.for_target(target)), f"The nearest step of c for the target: {target}."


@router.get("/fairness/part")
def part(
    request: Request,
    visitor: Sees,
    position: int,
    even: int = 0,
    promise: str = "",
    by: str = "",
    goal: str = "",
    value: str = "",
) -> Response:
    """The part of the page that changes when a slider moves."""
    tradeoff = _tradeoff(request, visitor)
    place, said, refused = _place(tradeoff, position, even, promise), "", ""
    try:
        if goal and value.strip():
            place, said = _asked(request, visitor, tradeoff, goal, value.strip(), place)
        figures = _figures_at(request, visitor, tradeoff, place, by)
    except SoftFairError as why:
        if not goal and place.promise.is_none:
            raise
        place, refused = Place(position, even), _refusal(why)
        figures = _figures_at(request, visitor, tradeoff, place, by)
    shown = {"answer": said, "refused": refused, "may_change": visitor.may(CHANGES)}
    template = request.app.state.templates.get_template("fairness_part.html")
    return HTMLResponse(
        remembered(
            *(request, visitor, "the figures", lambda: template.render(figures=figures, **shown)),
            *("as a part of the page", place, figures["column"], *shown.values()),
            late=True,
            small=True,
        )
    )
