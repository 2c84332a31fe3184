"""Drawing the list of the next round: a preview of what will be committed, then a button."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...errors import InvalidInput, Unsure
from ...programme.commands.planning import outlook_lines
from ...programme.commands.shared import settings_of, software
from ...programme.plans import Plan, make_plan
from ...programme.settings import Evenness, Target
from ...programme.store import Store
from ..access import Changes, Form, Visitor
from .shared import memory_of, render, see, text

__all__ = ["drawn", "router"]

router = APIRouter()


def drawn(
    database: Store, target: str, policy: str, replan: str, sure: bool, round: int | None = None
) -> tuple[Plan, bool]:
    """The plan of a round (default: the next), as `softfair plan` makes it from the same words."""
    return make_plan(
        database,
        software(),
        round,
        replan or None,
        Target.parse(target) if target else None,
        Evenness.parse(policy) if policy else None,
        sure,
    )


def _preview(
    request: Request, visitor: Visitor, target: str, policy: str, replan: str, sure: bool
) -> tuple[Plan, bool]:
    """The plan as it would be made now; nothing is written."""
    database = visitor.database

    def make() -> tuple[Plan, bool]:
        return drawn(database.rehearsal(), target, policy, replan, sure)

    return memory_of(request).of(database, "plan", make, target, policy, replan, sure)


@router.get("/plan")
def plan_page(
    request: Request,
    visitor: Changes,
    target: str = "",
    policy: str = "",
    replan: str = "",
    sure: bool = False,
) -> Response:
    """What will be committed: who is in the draw, the chances, what is expected."""
    asked = {"target": target, "policy": policy, "replan": replan, "sure": sure}
    shown: dict[str, Any] = {"asked": asked, "plan": None, "doubt": "", "wrong": "", "lines": []}
    try:
        plan, new = _preview(request, visitor, target, policy, replan, sure)
    except Unsure as unsure:
        return render(request, visitor, "plan.html", **{**shown, "doubt": unsure.doubt})
    except InvalidInput as wrong:
        return render(request, visitor, "plan.html", **{**shown, "wrong": str(wrong)})
    settings = settings_of(visitor.database)
    chances = np.sort(plan.probability[plan.status == 0])
    quartiles = [float(q) for q in np.quantile(chances, [0, 0.25, 0.5, 0.75, 1])]
    shown |= {
        "plan": plan,
        "new": new,
        "called": settings.called(plan.round),
        "in_draw": len(chances),
        "places": int(plan.listed.sum()),
        "quartiles": quartiles if len(chances) else [],
        "lines": outlook_lines(plan, settings),
    }
    return render(request, visitor, "plan.html", **shown)


@router.post("/plan")
def draw(request: Request, visitor: Changes, form: Form) -> Response:
    """Draw the list."""
    words = (text(form, "target"), text(form, "policy"), text(form, "replan"))
    plan, new = drawn(visitor.database, *words, text(form, "sure") == "True")
    said = "The list is drawn." if new else "The list was drawn before; nothing changed."
    return see(f"/round/{plan.round}", said)
