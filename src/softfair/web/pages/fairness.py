"""Fairness: what each choice of c and of evenness brings and costs, before it is made."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...errors import InvalidInput
from ...programme.settings import Evenness, Target
from ..access import Sees, Visitor
from ..tradeoff import EVENEST, POSITIONS, Tradeoff
from .shared import remembered, render, see

__all__ = ["figures_of", "router"]

router = APIRouter()
# What can be asked for: of c as a target, or of evenness at the c that is chosen.
TARGETS = {
    "benefit": "keep at least this share of the benefit",
    "wait": "nobody's expected wait longer than this many rounds",
}
GUARANTEES = {
    "never": "at most this share of people never contacted",
    "longest": "no wait longer than this many rounds, on average over runs",
    "entropy": "contacts spread to this entropy",
}
NAMES = {"longest": "wait"}  # the programme calls both waits so


def _tradeoff(request: Request, visitor: Visitor) -> Tradeoff:
    """What fairness costs at this moment."""
    database = visitor.database
    return remembered(
        request, visitor, "what fairness costs", lambda: Tradeoff(database), late=True
    )


def figures_of(
    request: Request, visitor: Visitor, position: int | None, even: int = 0, by: str = ""
) -> dict[str, Any]:
    """All figures at positions of the sliders.

    Parameters
    ----------
    request, visitor
        Who asks.
    position
        Of the slider over c; None: that of the programme's own.
    even
        Of the slider of evenness.
    by
        The group column whose rates are told; empty: the first.

    Raises
    ------
    InvalidInput
        If there is no such column or position.
    """
    found = _tradeoff(request, visitor)
    at = found.position_of(found.settings.c) if position is None else position
    if not (0 <= at <= POSITIONS and 0 <= even <= EVENEST):
        raise InvalidInput(f"give positions from 0 to {POSITIONS} and from 0 to {EVENEST}")
    column = by or next(iter(found.columns), "")
    if column and column not in found.columns:
        raise InvalidInput(f"rates by {column!r} cannot be shown; choose another column")
    return remembered(
        *(request, visitor, "the figures", lambda: _figures(found, at, even, column)),
        *(at, even, column),
        late=True,
        small=True,
    )


def _figures(found: Tradeoff, position: int, even: int, column: str) -> dict[str, Any]:
    point, contacts = found.at(position, even)
    rates = found.rates(contacts, column) if column else []
    # The same choice in the words of a plan: c comes from a target, evenness from its weight.
    keeps = math.floor(1000 * point.benefit) / 10
    asked = {"target": f"benefit={keeps:g}%"} if 0 < keeps <= 100 else {}
    if point.mu:
        asked = {"policy": f"EvenHanded:{point.mu:.6g}"}
    return {
        "now": point.to_json(),
        "curve": [one.to_json() for one in found.curve],
        "bound": found.bound,
        "histogram": found.histograms(contacts),
        "column": column,
        "rates": [{"name": name, "people": size, "rate": rate} for name, size, rate in rates],
        "sentences": list(found.sentences(point)),
        "plan": urlencode(asked),
    }


@router.get("/fairness")
def fairness(
    request: Request,
    visitor: Sees,
    position: int | None = None,
    even: int = 0,
    by: str = "",
    goal: str = "",
    value: str = "",
) -> Response:
    """The sliders, with pictures and tables."""
    try:
        found = _tradeoff(request, visitor)
    except InvalidInput as none:
        return render(request, visitor, "no_round.html", why=str(none))
    if goal and value.strip():
        asked = (goal, value.strip(), position)
        to, said = remembered(
            request, visitor, "the goal", lambda: _met(found, *asked), *asked, late=True, small=True
        )
        return see(f"/fairness?{urlencode(to)}", said)
    figures = figures_of(request, visitor, position, even, by)
    return render(
        request,
        visitor,
        "fairness.html",
        found=found,
        figures=figures,
        evenest=EVENEST,
        targets=TARGETS,
        guarantees=GUARANTEES,
    )


def _met(found: Tradeoff, goal: str, value: str, position: int | None) -> tuple[Any, str]:
    """Positions of the sliders that meet what is asked for, and a word on it."""
    at = found.position_of(found.settings.c) if position is None else position
    if goal in GUARANTEES:
        wanted = Evenness.parse(f"EvenHanded:{NAMES.get(goal, goal)}={value}")
        even = found.mu_for(at, wanted)
        return (
            {"position": at, "even": even},
            f"The first step of evenness at this c with: {GUARANTEES[goal]} ({value}). "
            f"To draw with exactly that, ask for EvenHanded:{wanted.goal}={wanted.value:g}.",
        )
    target = Target.parse(f"{goal}={value}")
    at = found.position_of(found.c_for(target))
    return {"position": at}, f"The nearest c for the target: {target}."


@router.get("/fairness/part")
def part(request: Request, visitor: Sees, position: int, even: int = 0, by: str = "") -> Response:
    """What changes when a slider moves."""
    figures = figures_of(request, visitor, position, even, by)
    return render(request, visitor, "fairness_part.html", figures=figures)
