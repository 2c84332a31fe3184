"""Honest programmes: their lists are drawn with the stated chances. This file states their law.

Each person has chances that no model of this package knows. Most people on a list are reached. The
predictions of a round come from all rounds before it.
"""

from __future__ import annotations

import json

import numpy as np
from worlds import cpap_people, recorded

from softfair import estimate, sampling
from softfair.datasets import synthetic
from softfair.programme.audit import Audit, measure
from softfair.programme.audit.evidence import Evidence
from softfair.programme.audit.planned import Planned
from softfair.programme.checks import Check
from softfair.programme.eligibility import Site
from softfair.programme.models import UNIT, Model
from softfair.programme.settings import Settings
from softfair.programme.snapshot import People
from softfair.programme.tracks import History

REACHED = 0.85  # of the listed
SEEN = 0.95  # of the states
SHARPNESS = 8.0  # how strongly a list follows the estimated effects of contacts


def people_of(n: int, rng: np.random.Generator) -> People:
    """People with a region and a language."""
    regions, languages = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]), rng.integers(0, 2, n)
    unknown = np.full(n, -1)
    return People(
        names=[f"P{i}" for i in range(n)],
        groups=[
            json.dumps({"region": str(r), "language": str(s)})
            for r, s in zip(regions, languages, strict=True)
        ],
        enrolled=unknown,
        departed=unknown,
        opted_out=np.zeros(n, np.int64),
        reserved=unknown,
    )


def fitted(columns: list[np.ndarray], n: int, number: int) -> Model:
    """The model made from the history [4, rows] so far."""
    person, rounds, state, contacted = columns
    order = np.lexsort((rounds, person))
    read = estimate.read_histories(
        person[order], rounds[order], state[order], contacted[order], n=n, S=2
    )
    made = estimate.estimate(read, columns={}, level=0.9, monotone=False)
    return Model(
        number,
        "",
        0,
        {},  # type: ignore[arg-type]
        made.P,
        made.low,
        made.high,
        made.seen,
        made.bound,
        np.rint(made.draws * UNIT).astype(np.uint16),
    )


def programme(seed: int, n: int = 100, k: int = 12, weeks: int = 10, rounds: int = 6) -> Evidence:
    """An honest programme: of CPAP patients for odd seeds, without effects for every fourth."""
    rng = np.random.default_rng([11, seed])
    p = cpap_people(n, seed % 4 != 3, seed) if seed % 2 else synthetic(n, seed=seed).p
    columns = list(recorded(p, weeks, seed))
    everybody = np.arange(n)
    state = rng.integers(0, 2, n)
    for _ in range(5):
        state = (rng.random(n) < p[everybody, 0, state]).astype(np.int64)
    seen = np.where(rng.random(n) < SEEN, state, -1)
    models, planned = {}, []
    for at in range(weeks + 1, weeks + 1 + rounds):
        models[at] = fitted(columns, n, at)
        good = models[at].P[..., 1]
        score = (good[everybody, 1, state] - good[everybody, 0, state]) * SHARPNESS
        listed = np.zeros(n, np.int64)
        listed[sampling.draw(score, k, rng, "joint")] = 1
        contacted = listed * (rng.random(n) < REACHED)
        after = (rng.random(n) < p[everybody, contacted, state]).astype(np.int64)
        noted = np.where(rng.random(n) < SEEN, after, -1)
        planned.append(
            Planned(
                round=at,
                version=1,
                model=at,
                c=1.0,
                sites=[Site("", k)],
                person=everybody,
                status=np.zeros(n, np.int64),
                site=np.zeros(n, np.int64),
                score=score,
                bonus=np.zeros(n),
                probability=sampling.inclusion(score, k, "joint"),
                listed=listed,
                state=seen,
                contacted=contacted,
                after=noted,
            )
        )
        new = (everybody, np.full(n, at), seen, contacted)
        columns = [np.concatenate(pair) for pair in zip(columns, new, strict=True)]
        state, seen = after, noted
    last = (everybody, np.full(n, weeks + 1 + rounds), seen, np.full(n, -1))
    columns = [np.concatenate(pair) for pair in zip(columns, last, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return Evidence(
        settings=Settings(),
        people=people_of(n, rng),
        history=History.of_rows(*(column[order] for column in columns)),
        planned=planned,
        model_of=models.get,
        check=Check(0, "", None, (), ()),
        deeds=(),
    )


def page(seed: int, **size: int) -> Audit:
    """The audit of an honest programme."""
    return measure(programme(seed, **size))


def p_values(found: Audit) -> list[float]:
    """The p-values of all comparisons of an audit that can flag a row."""
    tables = (found.groups, found.engagement, found.calibration, found.cells, found.drift)
    tables += (found.memory,)
    return [row.p for table in tables for row in table if not np.isnan(row.p)]


def alarms(found: Audit) -> list[str]:
    """The alarms of an audit: tables with a flagged row, and findings that begin with Look."""
    marks = [
        name
        for name in ("groups", "engagement", "calibration", "cells", "drift", "memory")
        if any(row.flagged for row in getattr(found, name))
    ]
    return marks + [line for line in found.findings if line.startswith("Look")]
