"""The command that estimates transition probabilities: fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .shared import Database, Json, commands, open_store, software

if TYPE_CHECKING:
    from ..models import Model
    from ..settings import Settings


@commands.command()
def fit(db: Database = "softfair.db", as_json: Json = False) -> None:
    """Estimate each person's transition probabilities from the history."""
    from dataclasses import asdict

    from ..models import fit as estimate
    from ..settings import current_settings

    database = open_store(db)
    model, new = estimate(database, software())
    if as_json:
        print(json.dumps({"model": model.id, "new": new, **asdict(model.summary)}, indent=1))
        return
    with database.reading() as connection:
        _, settings = current_settings(connection)
    _show_model(model, new, settings)


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
    if summary.monotone_bound:
        print(
            f"  for {summary.monotone_bound:,} people the estimate was moved "
            "so that contact does not harm and the good state persists"
        )
    width = (model.high - model.low)[..., -1].mean(axis=0)  # [2, S]
    for a, contact in enumerate(("not contacted", "contacted")):
        for s, state in enumerate(settings.states):
            chance = model.P[:, a, s, -1]
            print(
                f"  {state}, {contact}: next {settings.states[-1]} "
                f"with chance {chance.mean():.2f} on average "
                f"(people differ from {chance.min():.2f} to {chance.max():.2f}; "
                f"{settings.level:.0%} interval of one person {width[a, s]:.2f} wide)"
            )
