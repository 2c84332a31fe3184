"""Fairness: what each choice of c brings and costs, before it is made."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...errors import InvalidInput
from ...programme.settings import Target
from ..access import Sees, Visitor
from ..tradeoff import POSITIONS, Tradeoff
from .shared import memory_of, render, see

__all__ = ["figures_of", "router", "tradeoff_of"]

router = APIRouter()


def tradeoff_of(request: Request, visitor: Visitor) -> Tradeoff:
    """What fairness costs at this moment."""
    database = visitor.database
    return memory_of(request).of(database, "tradeoff", lambda: Tradeoff(database))


def figures_of(found: Tradeoff, position: int, by: str) -> dict[str, Any]:
    """All figures at a position of the slider.

    Parameters
    ----------
    found
        What fairness costs.
    position
        Of the slider.
    by
        The group column whose rates are told; empty: the first.

    Raises
    ------
    InvalidInput
        If there is no such column or position.
    """
    if not 0 <= position <= POSITIONS:
        raise InvalidInput(f"the position is {position}; give one from 0 to {POSITIONS}")
    point, contacts = found.at(position)
    column = by or next(iter(found.columns), "")
    rates = found.rates(contacts, column) if column else []
    return {
        "now": point.to_json(),
        "curve": [one.to_json() for one in found.curve],
        "bound": found.bound,
        "histogram": found.histograms(contacts),
        "column": column,
        "rates": [{"name": name, "people": size, "rate": rate} for name, size, rate in rates],
        "sentences": list(found.sentences(point)),
    }


@router.get("/fairness")
def fairness(
    request: Request,
    visitor: Sees,
    position: int | None = None,
    by: str = "",
    goal: str = "",
    value: str = "",
) -> Response:
    """The slider, with pictures and tables."""
    try:
        found = tradeoff_of(request, visitor)
    except InvalidInput as none:
        return render(request, visitor, "no_round.html", why=str(none))
    if goal and value.strip():
        target = Target.parse(f"{goal}={value.strip()}")
        at = found.position_of(found.c_for(target))
        return see(f"/fairness?position={at}", f"The nearest c for the target: {target}.")
    at = found.position_of(found.settings.c) if position is None else position
    figures = figures_of(found, at, by)
    return render(request, visitor, "fairness.html", found=found, figures=figures, position=at)


@router.get("/fairness/part")
def part(request: Request, visitor: Sees, position: int, by: str = "") -> Response:
    """What changes when the slider moves."""
    figures = figures_of(tradeoff_of(request, visitor), position, by)
    return render(request, visitor, "fairness_part.html", figures=figures)
