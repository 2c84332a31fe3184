"""Drawing the list of the next round: a preview of what will be committed, then a button.

If the list is drawn in two steps, nobody can have known the luck of the draw: the plan is
committed, its code is given away, and later it is drawn with luck from outside.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...errors import InvalidInput, Unsure
from ...programme.commands.planning import commitment_json, outlook_lines
from ...programme.commands.shared import settings_of, software
from ...programme.luck import Chain, Source, read_beacon
from ...programme.plans import (
    Commitment,
    Plan,
    PlanWish,
    commit_plan,
    draw_plan,
    make_plan,
    open_commitment,
)
from ...programme.store import Store
from ..access import Changes, Form
from ..work import Finished
from .shared import begin, remembered, render, text

__all__ = ["Asked", "drawn_with", "router"]

router = APIRouter()
LUCK = {
    Source.TEXT.value: "what witnesses saw: dice, tonight's lottery numbers",
    Source.WORD.value: "a second person's word",
    Source.BEACON.value: "the public beacon, as it is served",
}


@dataclass(frozen=True)
class Asked:
    """The options of the next round's plan, as texts in the form that `softfair plan` takes."""

    target: str = ""
    policy: str = ""
    replan: str = ""
    sure: bool = False
    promise: str = ""

    @property
    def wish(self) -> PlanWish:
        """What these texts ask of the plan.

        Raises
        ------
        InvalidInput
            If one of them cannot be read.
        """
        return PlanWish.parse(
            self.target or None,
            self.policy or None,
            self.promise or None,
            replan=self.replan or None,
            sure=self.sure,
        )


def drawn_with(database: Store, luck: str, source: str, chain: Chain) -> Plan:
    """The committed plan, drawn with luck from outside.

    Parameters
    ----------
    database
        The programme.
    luck
        What was seen or said, or a round of the beacon as it is served.
    source
        Where the luck came from: one of `LUCK`.
    chain
        The chain of beacons that is trusted.

    Raises
    ------
    InvalidInput
        If nothing is committed, or the luck cannot be used.
    """
    if source not in LUCK:
        raise InvalidInput(f"there is no luck from {source!r}; choose {', '.join(LUCK)}")
    if Source(source) is not Source.BEACON:
        return draw_plan(database, luck, Source(source))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "beacon.json"
        file.write_text(luck)
        return draw_plan(database, read_beacon(file, chain), chain=chain)


@dataclass(frozen=True, eq=False)
class Preview:
    """What would be committed; the page does not show who would be listed."""

    plan: Plan | None = None
    new: bool = False
    called: str = ""
    in_draw: int = 0
    places: int = 0
    quartiles: tuple[float, ...] = ()
    lines: tuple[str, ...] = ()
    doubt: str = ""
    wrong: str = ""


def _preview(database: Store, asked: Asked) -> Preview:
    try:
        plan, new = make_plan(database.rehearsal(), software(), asked.wish)
    except Unsure as unsure:
        return Preview(doubt=unsure.doubt)
    except InvalidInput as wrong:
        return Preview(wrong=str(wrong))
    settings = settings_of(database)
    chances = np.sort(plan.probability[plan.status == 0])
    quartiles = np.quantile(chances, [0, 0.25, 0.5, 0.75, 1]) if len(chances) else []
    return Preview(
        plan,
        new,
        settings.called(plan.round),
        len(chances),
        int(plan.listed.sum()),
        tuple(float(q) for q in quartiles),
        tuple(outlook_lines(plan, settings)),
    )


@router.get("/plan")
def plan_page(
    request: Request,
    visitor: Changes,
    target: str = "",
    policy: str = "",
    replan: str = "",
    sure: bool = False,
    promise: str = "",
) -> Response:
    """What will be committed: who is in the draw, the chances, what is expected."""
    database, asked = visitor.database, Asked(target, policy, replan, sure, promise)
    waits = open_commitment(database)
    preview = None
    if waits is None or replan:
        preview = remembered(
            request, visitor, "the plan", lambda: _preview(database, asked), asked, late=True
        )
    return render(
        request,
        visitor,
        "plan.html",
        asked=asdict(asked),
        preview=preview,
        waits=None if waits is None or replan else commitment_json(waits),
        beacon=request.app.state.chain.name,
        luck=LUCK,
    )


@router.post("/plan")
def draw(request: Request, visitor: Changes, form: Form) -> Response:
    """Draw the list, or commit it, or draw what is committed."""
    database, do, chain = visitor.database, text(form, "do"), request.app.state.chain
    words = (text(form, "target"), text(form, "policy"), text(form, "replan"))
    asked = Asked(*words, text(form, "sure") == "True", text(form, "promise"))
    if do == "commit":
        return begin(
            request,
            visitor,
            "/plan",
            lambda: _committed(*commit_plan(database, software(), asked.wish, chain)),
        )
    if do == "luck":
        luck, source = text(form, "luck"), text(form, "source")
        return begin(
            request,
            visitor,
            "/plan",
            lambda: _drawn(drawn_with(database, luck, source, chain), True),
        )
    return begin(
        request, visitor, "/plan", lambda: _drawn(*make_plan(database, software(), asked.wish))
    )


def _drawn(plan: Plan, new: bool) -> Finished:
    said = "The list is drawn." if new else "The list was drawn before; nothing changed."
    return Finished(said, address=f"/round/{plan.round}")


def _committed(made: Commitment, new: bool) -> Finished:
    said = "The plan is committed." if new else "The plan was committed before; nothing changed."
    return Finished(said, (f"Its code is {made.code}.",), address="/plan")
