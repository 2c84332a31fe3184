"""A plan without its luck: the people of each site, c, and everybody's score and chance."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...cohort import Cohort
from ...errors import Infeasible, InvalidInput
from .. import schema, store
from ..eligibility import Eligibility, Status, beliefs, eligibility_of, sites_to_json
from ..models import Model, fit_in
from ..outlook import NOTHING, Keeping, Outlook, Reach, Shares, SiteCohort, choose_c, weigh
from ..promises import Promise
from ..settings import Settings
from ..snapshot import Snapshot, take_snapshot
from ..store import Connection, Store
from .drawing import chances
from .keeping import kept_by
from .kept import Kept, terms_of
from .stored import Rows
from .weighing import packed, reach_of

__all__ = [
    "Draft",
    "cohorts_of",
    "last_version",
    "prepared",
    "promising",
    "to_be_planned",
    "undrawn",
]

Ints = NDArray[np.int64]


class Draft(NamedTuple):
    """What the plan of the next round will be made of."""

    now: Snapshot
    model: Model
    cohorts: list[SiteCohort]  # the people whom it is about, site by site, without a promise
    reach: Reach
    eligibility: Eligibility


def promising(
    database: Store,
    now: Snapshot,
    eligibility: Eligibility,
    cohorts: list[SiteCohort],
    promise: Promise,
) -> list[SiteCohort]:
    """The people of the next round's plan, site by site, where every draw keeps a promise.

    Parameters
    ----------
    database
        The programme, from which the lists are read that each person was left off.
    now, eligibility, cohorts
        Of a `Draft`.
    promise
        What is promised.

    Raises
    ------
    InvalidInput
        In a trial, or with evenness.
    Infeasible
        If the promise cannot be kept.
    """
    now = replace(now, settings=replace(now.settings, promise=promise, target=None))
    _refuse_unserved(now, eligibility)
    with database.reading() as connection:
        kept = kept_by(connection, now, now.next_round(), eligibility)
    return [
        SiteCohort(
            *(one.cohort, one.k, one.horizon, one.who, one.arm),
            _keeping_of(kept, now.settings, one.who, one.k),
        )
        for one in cohorts
    ]


def to_be_planned(database: Store, software: str) -> Draft:
    """What the plan of the next round will be made of.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that a model is stamped with, if one has to be made.

    Raises
    ------
    InvalidInput
        If nobody is in the programme, or it has ended.
    """
    with database.writing() as connection:
        now = take_snapshot(connection)
        at = now.next_round()
        model, _ = fit_in(connection, now, software)
        eligibility = eligibility_of(now, at)
        cohorts = cohorts_of(now, model, at, _rounds_left(now.settings, at), eligibility)
        return Draft(now, model, cohorts, reach_of(connection, now, at), eligibility)


def prepared(
    connection: Connection, now: Snapshot, at: int, software: str, reason: str | None
) -> tuple[dict[str, Any], Rows, Model]:
    """A plan without its luck: fields of its header, its rows with nobody listed, its model."""
    model, _ = fit_in(connection, now, software)
    settings = now.settings
    horizon = _rounds_left(settings, at)
    eligibility = eligibility_of(now, at)
    _refuse_unserved(now, eligibility)
    kept = kept_by(connection, now, at, eligibility)
    cohorts = cohorts_of(now, model, at, horizon, eligibility, kept)
    outlook = choose_c(cohorts, settings, now.people)
    reach = reach_of(connection, now, at)
    gain, worth = weigh(cohorts, outlook.c, model, settings.level, reach, outlook.evenness)
    outlook = replace(outlook, gain=gain, reached=reach.share)
    state, _ = now.history.of(at, now.people.n)
    header = {
        "round": at,
        "version": last_version(connection, at) + 1,
        "created": store.now(),
        "software": software,
        "model": model.id,
        "batch": now.batch,
        "setting": now.setting,
        "c": outlook.c,
        "horizon": horizon,
        "sites": sites_to_json(eligibility.sites),
        "outlook": json.dumps(
            {
                **outlook.to_json(),
                **packed(worth, settings.level),
                **({} if kept is None else kept.to_json()),
            }
        ),
        "reason": reason,
    }
    return header, undrawn(eligibility, state, cohorts, outlook, kept), model


def undrawn(
    eligibility: Eligibility,
    state: Ints,
    cohorts: list[SiteCohort],
    outlook: Outlook,
    kept: Kept | None,
) -> Rows:
    """Everybody's score, bonus and probability; nobody is on the list."""
    n, c = len(state), outlook.c
    score, bonus, probability = np.zeros((3, n))
    for cohort in cohorts:
        score[cohort.who] = cohort.scores(c, outlook.evenness)
        bonus[cohort.who] = cohort.solved(c, outlook.evenness).bonus
    for j, one in enumerate(eligibility.sites):
        who = eligibility.in_draw(j)
        terms = terms_of(kept, one, j, eligibility.status, eligibility.site)
        probability[who] = chances(score[who] + bonus[who], one.c(c), one.capacity, terms)
    site, status, nobody = eligibility.site, eligibility.status, np.zeros(n, np.int64)
    return Rows(np.arange(n), status, site, state, score, bonus, probability, nobody)


def cohorts_of(
    now: Snapshot,
    model: Model,
    at: int,
    horizon: int,
    eligibility: Eligibility,
    kept: Kept | None = None,
) -> list[SiteCohort]:
    """The people who are waiting, site by site; a site without people is left out."""
    belief = beliefs(now, model, at)
    cohorts = []
    for j, capacity in enumerate(eligibility.usual):
        who = eligibility.waiting(j)
        if not len(who):
            continue
        # A person who was contacted rests for r rounds, so in the long run at most a share of
        # 1 / (r + 1) of the people can be contacted in a round.
        k = min(capacity, max(1, len(who) // (now.settings.cooldown + 1)))
        arm, reward = eligibility.sites[j].arm, model.contexts.reward
        cohort = Cohort(model.chain(who), reward=reward, start=belief[who])
        keeping = _keeping_of(kept, now.settings, who, k)
        cohorts.append(SiteCohort(cohort, k, horizon, who, arm, keeping))
    return cohorts


def _keeping_of(kept: Kept | None, settings: Settings, who: Ints, k: int) -> Keeping:
    """What is promised to some people, of whom k are on a list."""
    if kept is None:
        return NOTHING
    # A person who was on a list and contacted rests before lists count again.
    W = kept.promise.wait + settings.cooldown * bool(kept.promise.wait)
    keeping = Keeping(W, kept.promise.chance, kept.due[who] if W else NOTHING.left)
    if kept.promise.shares:
        bounds = np.array([share.bounds(k) for share in kept.promise.shares], float)
        keeping = keeping._replace(shares=Shares(kept.belonging.inside[:, who], *bounds.T))
    return keeping


def _refuse_unserved(now: Snapshot, eligibility: Eligibility) -> None:
    """Refuse a target or a promise about everybody while some have no chance at all."""
    target, promise = now.settings.target, now.settings.promise
    many = int(np.sum(eligibility.status == Status.NO_SITE))
    if not many:
        return
    asked = ""
    if target is not None and target.goal != "benefit":
        asked = f"the target cannot be met: {target}"
    elif not promise.is_none:
        asked = f"the promise cannot be kept: {promise}"
    if asked:
        raise Infeasible(
            f"{asked}; {many} people have no chance, because no "
            f"capacity is set for their {now.settings.by}; set one for each of them"
        )


def _rounds_left(settings: Settings, at: int) -> int:
    """Rounds that a plan looks ahead, itself included."""
    if settings.ends is None:
        return settings.horizon
    if at > settings.ends:
        raise InvalidInput(
            f"the programme ended with {settings.called(settings.ends)}; "
            f"go on with: softfair init --ends {settings.ends + 26}, or --ends none"
        )
    return min(settings.horizon, settings.ends - at + 1)


def last_version(connection: Connection, at: int) -> int:
    """The version of the latest plan of a round; 0 if it has none."""
    p = schema.plan
    query = sa.select(sa.func.coalesce(sa.func.max(p.c.version), 0)).where(p.c.round == at)
    return int(connection.execute(query).scalar_one())
