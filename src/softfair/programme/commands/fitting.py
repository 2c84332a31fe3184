"""The command that estimates transition probabilities: fit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .shared import Database, Json, commands, examples, open_store, software

if TYPE_CHECKING:
    from ..models import Model
    from ..settings import Settings


@commands.command(
    epilog=examples("softfair fit", "softfair fit --png columns.png", "softfair fit --memory 2")
)
def fit(
    db: Database = "softfair.db",
    as_json: Json = False,
    png: Annotated[
        Path | None, typer.Option(help="Draw to this file which columns matter for what.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="2|contact|none",
            help="Let chances go by more than the state from now on, if that helps to foretell "
            "rounds that are held out. 2: the state before it; contact: a contact in the round "
            "before.",
            show_default="as decided before",
        ),
    ] = None,
) -> None:
    """Estimate each person's transition probabilities from the history."""
    from dataclasses import asdict

    from ...files import write_whole
    from ...page import picture
    from ..models import fit as estimate
    from ..ordering import ordering
    from ..settings import current_settings
    from ..telling import draw_columns

    database = open_store(db)
    model, new = estimate(database, software(), memory)
    with database.reading() as connection:
        _, settings = current_settings(connection)
    if png is not None:
        figure = draw_columns(model.summary.told, settings.states[-1], settings.level)
        write_whole(png, picture(figure, dpi=150))
        print(png, file=sys.stderr)
    if as_json:
        content = {**asdict(model.summary), "memory": asdict(settings.memory)}
        print(json.dumps({"model": model.id, "new": new, **content}, indent=1))
        return
    _show_model(model, new, settings)
    order = ordering(database)
    if order.doubtful:
        print(
            "Look: states seem to be those after the contacts of their round, not before. "
            f"As imported, a contact changes the share of {settings.states[-1]} by "
            f"{order.before.difference:+.3f} (standard error {order.before.error:.3f}); "
            f"if states came after the contacts, by {order.after.difference:+.3f} "
            f"({order.after.error:.3f}). If so: softfair retract the history, and import it with "
            "--states-after."
        )


def _show_model(model: Model, new: bool, settings: Settings) -> None:
    summary = model.summary
    again = "" if new else " (nothing has changed since)"
    print(
        f"Model {model.id}{again}: {summary.transitions:,} transitions of {summary.people:,} people"
    )
    print(
        f"  {summary.without_history:,} without any transition of their own "
        "have the estimate of their group"
    )
    for line in _said(model, settings):
        print(f"  {line}")


def _said(model: Model, settings: Settings) -> list[str]:
    """What a model estimates for all people together, in sentences."""
    summary, level, best = model.summary, f"{settings.level:.0%}", settings.states[-1]
    lines = []
    if summary.monotone_bound:
        lines.append(
            f"for {summary.monotone_bound:,} people the estimate was moved "
            "so that contact does not harm and the good state persists"
        )
    if settings.memory.asked != "none":
        lines.append(str(settings.memory))
    width = (model.high - model.low)[..., -1].mean(axis=0)  # [2, C]
    for a, contact in enumerate(("not contacted", "contacted")):
        for s, state in enumerate(model.contexts.names(settings.states)):
            chance = model.P[:, a, s, -1]
            lines.append(
                f"{state}, {contact}: next {best} with chance {chance.mean():.2f} on average "
                f"(people differ from {chance.min():.2f} to {chance.max():.2f}; "
                f"{level} interval of one person {width[a, s]:.2f} wide)"
            )
    names = model.contexts.names(settings.states)
    for state, (value, low, high) in zip(names, summary.effect, strict=False):
        told = (
            f"a contact changes the chance of {best} next by {value:+.2f} on average"
            if low > 0 or high < 0
            else f"no effect of a contact on the chance of {best} next can be told yet"
        )
        lines.append(f"{state}: {told} ({level} interval {low:+.2f} to {high:+.2f})")
    lines += _said_of_gaps(model, settings)
    lines += _said_of_columns(model, level, best)
    if summary.classes:
        kinds = ", ".join(
            f"{K} ({chance:.0%})" for K, chance in enumerate(summary.classes, 1) if chance > 0.005
        )
        lines.append(f"kinds of people, averaged over by their probability: {kinds}")
    return lines


def _said_of_gaps(model: Model, settings: Settings) -> list[str]:
    """A sentence, if the chance that a state is recorded depends on the state."""
    summary = model.summary
    if not summary.hides or summary.hides[1] <= 0 <= summary.hides[2]:
        return []
    chances = ", ".join(
        f"{state} {value:.0%}"
        for state, (value, _, _) in zip(settings.states, summary.seen_chance, strict=True)
    )
    return [
        "whether a state is recorded depends on it: it is recorded with chance "
        f"{chances}; the estimates allow for that"
    ]


def _said_of_columns(model: Model, level: str, best: str) -> list[str]:
    """Sentences on the columns that change a chance or the effect of a contact."""
    from ..telling import name_of

    lines = list(model.summary.left_out)
    silent = dict.fromkeys(model.summary.columns)
    for column, value, without, effect in model.summary.told:
        name = name_of(column, value)
        for what, (_, low, high) in (
            (f"{best} next without a contact", without),
            ("that a contact helps", effect),
        ):
            if low > 0 or high < 0:
                more = "more" if low > 0 else "less"
                lines.append(f"{name} goes with {more} chance {_of(what)} ({level} interval)")
                silent.pop(column, None)
    if silent:
        lines.append(f"nothing can be told by {', '.join(silent)}")
    return lines


def _of(what: str) -> str:
    return what if what.startswith("that") else f"of {what}"
