"""A sample programme: 300 people in four regions, twenty weeks of history, from the CPAP cohort.

Their true transition probabilities are known here, so that the outcome of a planned round can be
simulated as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..cohort import Cohort
from ..datasets import cpap
from ..errors import InvalidInput
from . import schema
from .plans import load_plan
from .rounds import load_rounds
from .snapshot import load_people
from .store import Store

__all__ = ["PEOPLE", "RESPONSES", "ROUNDS", "history_file", "outcome_file", "people_file"]

PEOPLE, ROUNDS = 300, 20
#: Parameters of :func:`softfair.datasets.cpap` under which people respond differently to contacts.
RESPONSES: dict[str, Any] = {
    "mix": {"adherent": 0.5, "non-adherent": 0.5},
    "effect_kind": "relative",
    "effect_by": "patient",
    "noise": 0.02,
    "noise_on": "passive",
}
REGIONS = {"north": 0.4, "east": 0.3, "south": 0.2, "west": 0.1}
CONTACTED = 0.1  # share of the people contacted each week
MISSED = 0.05  # share of the states not observed
REACHED = 0.85  # share of the listed people who answer


def _truth() -> Cohort:
    return cpap(n=PEOPLE, seed=0, **RESPONSES)


def _names() -> list[str]:
    return [f"P{i:03d}" for i in range(1, PEOPLE + 1)]


def people_file() -> bytes:
    """A CSV file of ``id, region, language, opted_out``; two in a hundred have opted out."""
    rng = np.random.default_rng(0)
    region = rng.choice(list(REGIONS), PEOPLE, p=list(REGIONS.values()))
    language = rng.choice(["English", "Spanish"], PEOPLE, p=[0.7, 0.3])
    opted_out = (rng.random(PEOPLE) < 0.02).astype(int)
    rows = zip(_names(), region, language, opted_out, strict=True)
    return "\n".join(
        ["id,region,language,opted_out", *(",".join(map(str, row)) for row in rows), ""]
    ).encode()


def history_file() -> bytes:
    """A CSV file of ``id, round, state, contacted``: weeks 1 to 20, and the states of week 21."""
    rng = np.random.default_rng(1)
    p = _truth().p  # [n, 2, 2]
    state = (rng.random(PEOPLE) < 0.5).astype(int)
    lines = ["id,round,state,contacted"]
    for week in range(1, ROUNDS + 2):
        contacted = (rng.random(PEOPLE) < CONTACTED).astype(int)
        seen = rng.random(PEOPLE) >= MISSED
        for i, name in enumerate(_names()):
            shown = state[i] if seen[i] else ""
            lines.append(f"{name},{week},{shown},{contacted[i] if week <= ROUNDS else ''}")
        state = _step(p, state, contacted, rng)
    return "\n".join([*lines, ""]).encode()


def outcome_file(database: Store, round: int | None = None) -> bytes:
    """A CSV file of what happens in a planned round: who is reached, and the states after it.

    Parameters
    ----------
    database
        The sample programme.
    round
        Which round. Default: the last one that has a plan.

    Raises
    ------
    InvalidInput
        If this is another programme, or the round has no plan.
    """
    with database.reading() as connection:
        people = load_people(connection)
        if people.names[:PEOPLE] != _names():
            raise InvalidInput(
                "this is not the sample programme, so nothing can be made up for it; "
                "give a file of what happened"
            )
        query = sa.select(schema.plan.c.id).order_by(
            schema.plan.c.round.desc(), schema.plan.c.version.desc()
        )
        if round is not None:
            query = query.where(schema.plan.c.round == round)
        number = connection.execute(query.limit(1)).scalar()
        if number is None:
            raise InvalidInput("no such round has been planned; make a list with: softfair plan")
        plan = load_plan(connection, number)
        called = load_rounds(connection).lists[plan.round]
    rng = np.random.default_rng([2, plan.round])
    state = np.where(plan.state >= 0, plan.state, 0)[:PEOPLE]
    contacted = np.isin(plan.person[:PEOPLE], called) * (rng.random(PEOPLE) < REACHED).astype(int)
    after = _step(_truth().p, state, contacted, rng)
    seen = rng.random(PEOPLE) >= MISSED
    rows = (
        f"{name},{contacted[i]},{after[i] if seen[i] else ''}" for i, name in enumerate(_names())
    )
    return "\n".join(["id,contacted,state", *rows, ""]).encode()


def _step(
    p: NDArray[np.float64],
    state: NDArray[np.int64],
    contacted: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The states after a week."""
    good: NDArray[np.int64] = (
        rng.random(len(state)) < p[np.arange(len(state)), contacted, state]
    ).astype(np.int64)
    return good
