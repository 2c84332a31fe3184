"""Making a plan: in one step, or in two, a commitment and then the draw.

A commitment freezes who is in the draw, their states, the model, c, the capacities, the scores and
so everybody's chance. Its code is given away before the luck of the draw is known to anyone:
whoever has the code can tell that nothing was changed afterwards to suit the luck.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...cohort import Cohort
from ...errors import Infeasible, InvalidInput, Unsure
from .. import store
from ..eligibility import (
    Eligibility,
    Status,
    beliefs,
    eligibility_of,
    sites_of,
    sites_to_json,
)
from ..luck import QUICKNET, Beacon, Chain, Luck, Source
from ..luck import numbers as numbers_of
from ..models import Model, fit_in, load_model
from ..outlook import (
    NOTHING,
    Keeping,
    Outlook,
    Reach,
    Shares,
    SiteCohort,
    choose_c,
    weigh,
)
from ..promises import Promise
from ..settings import SOFTFAIR, Evenness, Settings, Target, current_settings
from ..snapshot import Snapshot, take_snapshot
from ..store import Connection, Store, names_of, plan_in_force
from .drawing import chances, drawn_by_luck, in_order
from .keeping import Kept, kept_by, left_off, terms_of
from .stored import NO_RESERVE, Header, Plan, Reserve, Rows, load_plan, store_plan
from .weighing import packed, reach_of

__all__ = [
    "Commitment",
    "Draft",
    "cohorts_of",
    "commit_plan",
    "draw_plan",
    "frozen_rows",
    "load_commitment",
    "make_plan",
    "open_commitment",
    "promising",
    "reserve_of",
    "to_be_planned",
    "undrawn",
]

Ints = NDArray[np.int64]

# What a commitment leaves open.
OPEN_HEADER = ("version", "created", "seed", "luck")
OPEN_ROWS = ("listed",)
UNKNOWN_LUCK = Luck(Source.PROGRAMME)


@dataclass(frozen=True)
class Wish:
    """What is asked of the plan of a round.

    Attributes
    ----------
    round : int, optional
        Which round. Default: the first whose contacts are not known yet.
    replan : str, optional
        The reason to make another version of a plan; the earlier ones are kept.
    target : Target, optional
        What c is chosen for, instead of the target or c in the settings.
    evenness : Evenness, optional
        The policy of this plan, instead of that in the settings.
    sure : bool
        Plan though nothing can be learnt from the history, or a round after the next one.
    promise : Promise, optional
        What the draws of this plan keep, instead of the promise in the settings.
    """

    round: int | None = None
    replan: str | None = None
    target: Target | None = None
    evenness: Evenness | None = None
    sure: bool = False
    promise: Promise | None = None


@dataclass(frozen=True, eq=False)
class Commitment:
    """A plan whose luck is still open."""

    id: int
    created: str
    round: int
    beacon: int  # the round of the beacon that may be its luck
    header: str  # JSON: what `Header` has, except what is open
    content: bytes  # the columns of `Rows`, except what is open, NumPy's npz
    digest: str

    @property
    def code(self) -> str:
        """What is given away: the first half of the digest, in groups of four."""
        return "-".join(self.digest[i : i + 4] for i in range(0, 32, 4))

    def fresh_digest(self) -> str:
        """The digest of what is stored."""
        digest = hashlib.sha256(
            json.dumps([self.created, self.round, self.beacon, self.header]).encode()
        )
        digest.update(self.content)
        return digest.hexdigest()

    def parts(self) -> dict[str, Any]:
        """The fields of a `Header` that are fixed."""
        fixed: dict[str, Any] = json.loads(self.header)
        return {**fixed, "c": store.c_from_json(fixed["c"])}


def frozen_rows(commitment: Commitment) -> Rows:
    """The rows that are fixed, with nobody on the list."""
    with np.load(io.BytesIO(commitment.content)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return Rows(**arrays, listed=np.zeros(len(arrays["person"]), np.int64))


def make_plan(
    database: Store,
    software: str,
    round: int | None = None,
    replan: str | None = None,
    target: Target | None = None,
    evenness: Evenness | None = None,
    sure: bool = False,
    promise: Promise | None = None,
) -> tuple[Plan, bool]:
    """The plan of a round, made if there is none yet.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the plan is stamped with.
    round
        Which round. Default: the first whose contacts are not known yet.
    replan
        The reason to make another version of a plan; the earlier ones are kept.
    target
        What c is chosen for, instead of the target or c in the settings.
    evenness
        The policy of this plan, instead of that in the settings.
    sure
        Plan though nothing can be learnt from the history, or a round after the next one.
    promise
        What its draws keep, instead of the promise in the settings.

    Returns
    -------
    tuple of Plan and bool
        The plan, and whether it was made now.

    Raises
    ------
    InvalidInput
        If the round is over, if nobody is in the programme, if there is no plan to replace, or if
        the plan there is was not made for the target.
    Infeasible
        If no plan meets the target, or the promise cannot be kept.
    Unsure
        If nothing can be learnt from the history, or the round is not the next one.
    """
    wish = Wish(round, replan, target, evenness, sure, promise)
    with database.writing() as connection:
        before = _planned_before(connection, wish)
        if before is not None:
            return before, False
        now, at = _to_be_planned(connection, wish)
        if isinstance(now, Plan):
            return now, False
        committed = open_commitment_in(connection, at)
        if committed is not None and replan is None:
            raise InvalidInput(
                f"round {at} is committed, with the code {committed.code}; "
                "draw it with --luck TEXT or --beacon FILE"
            )
        header, rows, model = _prepared(connection, now, at, software, replan)
        return _drawn(connection, header, rows, now.settings, model, UNKNOWN_LUCK), True


class Draft(NamedTuple):
    """What the plan of the next round will be made of."""

    now: Snapshot
    model: Model
    cohorts: list[SiteCohort]  # those whom it is about, site by site, without a promise
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
        The programme, for the lists that each was left off.
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


def commit_plan(
    database: Store,
    software: str,
    round: int | None = None,
    replan: str | None = None,
    target: Target | None = None,
    evenness: Evenness | None = None,
    sure: bool = False,
    chain: Chain = QUICKNET,
    promise: Promise | None = None,
) -> tuple[Commitment, bool]:
    """Freeze the plan of a round, all but its luck.

    Parameters
    ----------
    database
        The programme.
    software
        Name and version that the commitment is stamped with.
    round
        Which round. Default: the first whose contacts are not known yet.
    replan
        The reason to commit a round anew that is planned or committed already.
    target
        What c is chosen for, instead of the target or c in the settings.
    evenness
        The policy of this plan, instead of that in the settings.
    sure
        Commit though nothing can be learnt from the history, or a round after the next one.
    chain
        The chain of beacons of which one round may be the luck.
    promise
        What its draws keep, instead of the promise in the settings.

    Returns
    -------
    tuple of Commitment and bool
        The commitment, and whether it was made now.

    Raises
    ------
    InvalidInput
        As `make_plan`, and if the round is planned already.
    Infeasible
        If no plan meets the target.
    Unsure
        As `make_plan`.
    """
    with database.writing() as connection:
        wish = Wish(round, replan, target, evenness, sure, promise)
        now, at = _to_be_planned(connection, wish)
        if isinstance(now, Plan):
            raise InvalidInput(
                f"round {at} is planned already; commit it anew with --replan REASON"
            )
        earlier = open_commitment_in(connection, at)
        if earlier is not None and replan is None:
            return earlier, False
        header, rows, _ = _prepared(connection, now, at, software, replan)
        fixed = {name: value for name, value in header.items() if name not in OPEN_HEADER}
        content = io.BytesIO()
        columns = {name: value for name, value in vars(rows).items() if name not in OPEN_ROWS}
        np.savez_compressed(content, **columns)
        commitment = Commitment(
            id=0,
            created=header["created"],
            round=at,
            beacon=chain.round_after(header["created"]),
            header=json.dumps({**fixed, "c": store.c_to_json(fixed["c"])}, sort_keys=True),
            content=content.getvalue(),
            digest="",
        )
        commitment = replace(commitment, digest=commitment.fresh_digest())
        values = {name: value for name, value in vars(commitment).items() if name != "id"}
        key = connection.execute(store.commitment.insert().values(**values)).inserted_primary_key
        assert key is not None
        store.sign(connection, store.commitment, int(key[0]))
        return replace(commitment, id=int(key[0])), True


def draw_plan(
    database: Store,
    luck: str | Beacon,
    source: Source = Source.TEXT,
    round: int | None = None,
    chain: Chain = QUICKNET,
) -> Plan:
    """Draw the list of a committed plan with luck from outside.

    Parameters
    ----------
    database
        The programme.
    luck
        What was seen or said after the commitment, or a round of the chain of beacons.
    source
        Whether a text was seen in public or is a second person's word.
    round
        Which round. Default: that of the last commitment.
    chain
        The chain of beacons that is trusted.

    Raises
    ------
    InvalidInput
        If nothing is committed, if the round is over, or if the luck cannot be used: a beacon that
        is forged or of another round than the commitment's, or luck that was used before.
    """
    with database.writing() as connection:
        commitment = _to_be_drawn(connection, round)
        if isinstance(luck, Beacon):
            _refuse_beacon(luck, commitment, chain)
            used_luck = Luck(Source.BEACON, beacon=luck, commitment=commitment.id)
        else:
            used_luck = Luck.said(luck, source, commitment.id)
        _refuse_used(connection, used_luck)
        fields = commitment.parts()
        _refuse_other_lists(connection, commitment, fields)
        fields |= {"version": _last_version(connection, commitment.round) + 1}
        fields |= {"created": store.now()}
        _, settings = current_settings(connection)
        model = load_model(connection, fields["model"])
        return _drawn(connection, fields, frozen_rows(commitment), settings, model, used_luck)


def open_commitment(database: Store, round: int | None = None) -> Commitment | None:
    """The commitment of a round (default: the last one) that waits for its luck, if any."""
    with database.reading() as connection:
        at = _last_committed(connection) if round is None else round
        return open_commitment_in(connection, at)


def open_commitment_in(connection: Connection, at: int | None) -> Commitment | None:
    """As `open_commitment`, of a round and within a transaction."""
    t = store.commitment
    latest = sa.select(t.c.id).where(t.c.round == at).order_by(t.c.id.desc()).limit(1)
    number = connection.execute(latest).scalar()
    if number is None:
        return None
    p = store.plan
    plans = sa.select(p.c.luck).where(p.c.round == at, p.c.luck.is_not(None))
    drawn = {Luck.from_json(text).commitment for text in connection.execute(plans).scalars()}
    return None if number in drawn else load_commitment(connection, number)


def load_commitment(connection: Connection, number: int) -> Commitment:
    """The commitment with a number."""
    t = store.commitment
    row = connection.execute(sa.select(t).where(t.c.id == number)).one()
    return Commitment(**{column.name: getattr(row, column.name) for column in fields(Commitment)})


def _last_committed(connection: Connection) -> int | None:
    t = store.commitment
    last = sa.select(t.c.round).order_by(t.c.id.desc()).limit(1)
    at: int | None = connection.execute(last).scalar()
    return at


def _to_be_drawn(connection: Connection, round: int | None) -> Commitment:
    """The open commitment of a round (default: the last one)."""
    at = _last_committed(connection) if round is None else round
    commitment = open_commitment_in(connection, at)
    if commitment is None:
        raise InvalidInput(
            f"{'no round' if at is None else f'round {at} does not wait for luck: no plan of it'} "
            "is committed and still to be drawn; "
            "luck comes after a commitment: softfair plan --commit"
        )
    now = take_snapshot(connection)
    if commitment.round in now.over():
        raise InvalidInput(
            f"round {commitment.round} is over, its contacts are recorded; "
            f"commit round {now.next_round()}"
        )
    if plan_in_force(connection, commitment.round) is not None and not commitment.parts()["reason"]:
        raise InvalidInput(
            f"round {commitment.round} was planned after it was committed; "
            "commit it anew with --commit --replan REASON"
        )
    return commitment


def _refuse_beacon(beacon: Beacon, commitment: Commitment, chain: Chain) -> None:
    """Raise unless a beacon is genuine and the one that the commitment announced."""
    if beacon.round != commitment.beacon:
        early = beacon.round < commitment.beacon
        raise InvalidInput(
            f"the beacon is of round {beacon.round}, too {'early' if early else 'late'}: the "
            f"commitment announced round {commitment.beacon} of {chain.name}; give that one"
        )
    if not beacon.is_genuine(chain):
        raise InvalidInput(
            f"the signature of round {beacon.round} is not of {chain.name}; the beacon is forged "
            "or damaged: fetch it again"
        )


def _refuse_other_lists(
    connection: Connection, commitment: Commitment, parts: dict[str, Any]
) -> None:
    """Raise if a promised wait was counted from other lists than those that are in force now."""
    kept, status = Kept.from_json(json.loads(parts["outlook"])), frozen_rows(commitment).status
    if kept is None or not kept.promise.wait:
        return
    drawn = status == Status.IN_DRAW
    off = left_off(connection, kept.promise, commitment.round, len(status))
    if not np.array_equal(kept.due[drawn], kept.promise.wait - off[drawn]):
        raise InvalidInput(
            f"an earlier list was made anew since round {commitment.round} was committed, and its "
            "promise counts lists; commit it anew with --commit --replan REASON"
        )


def _refuse_used(connection: Connection, given: Luck) -> None:
    """Raise if the same luck was used before."""
    p = store.plan
    rows = connection.execute(sa.select(p.c.round, p.c.luck).where(p.c.luck.is_not(None))).all()
    for row in rows:
        if Luck.from_json(row.luck).outside == given.outside:
            raise InvalidInput(
                f"the same luck was used for round {row.round}; "
                "give what came after this commitment, with its date"
            )


def _planned_before(connection: Connection, wish: Wish) -> Plan | None:
    """The plan of a round that is asked for by number, read without the history."""
    if wish.round is None or wish.replan is not None:
        return None
    number = plan_in_force(connection, wish.round)
    return None if number is None else _as_planned(load_plan(connection, number), wish)


def _to_be_planned(connection: Connection, wish: Wish) -> tuple[Snapshot | Plan, int]:
    """What is known for a round that is to be planned, or its plan if there is one; the round."""
    now = take_snapshot(connection)
    at = now.next_round() if wish.round is None else wish.round
    number = plan_in_force(connection, at)
    if number is not None and wish.replan is None:
        return _as_planned(load_plan(connection, number), wish), at
    committed = open_commitment_in(connection, at) is not None
    _check_replan(wish.replan, at, exists=number is not None or committed)
    _check_round(now, at, wish.sure)
    if wish.target is not None or wish.evenness is not None:
        # What is asked for takes the place of the programme's own target and policy.
        even = SOFTFAIR if wish.evenness is None else wish.evenness
        now = replace(now, settings=replace(now.settings, target=wish.target, evenness=even))
    if wish.promise is not None:
        now = replace(now, settings=replace(now.settings, promise=wish.promise))
    return now, at


def _check_round(now: Snapshot, at: int, sure: bool) -> None:
    """Whether a round can be planned now, and from a history that says something."""
    following, settings = now.next_round(), now.settings
    if at in now.over():
        raise InvalidInput(
            f"{settings.called(at)} is over, its contacts are recorded; "
            f"plan {settings.called(following)}"
        )
    if at < following and at not in now.rounds.lists:
        raise InvalidInput(
            f"{settings.called(at)} is past: the next round is {settings.called(following)}"
        )
    if sure:
        return
    if at > following:
        raise Unsure(
            f"{settings.called(at)} is {at - following} rounds after round {following}, the next"
        )
    if (reason := now.nothing_learnt()) is not None:
        raise Unsure(
            f"nothing can be learnt yet ({reason}), so the list would be drawn by lottery; "
            "import a history first (softfair import history FILE)"
        )


def _as_planned(plan: Plan, wish: Wish) -> Plan:
    """The plan, unless another target or policy than its own is asked for."""
    if wish.evenness is not None and plan.outlook.evenness != wish.evenness:
        raise InvalidInput(
            f"round {plan.round} is planned already, by {plan.outlook.evenness}; "
            "make it anew with --replan REASON"
        )
    if wish.target is not None and plan.outlook.target != wish.target:
        raise InvalidInput(
            f"round {plan.round} is planned already, not for that target; "
            "make it anew with --replan REASON"
        )
    if wish.promise is not None and plan.outlook.promise != wish.promise:
        raise InvalidInput(
            f"round {plan.round} is planned already, with the promise: {plan.outlook.promise}; "
            "make it anew with --replan REASON"
        )
    return plan


def _check_replan(reason: str | None, at: int, exists: bool) -> None:
    if reason is None:
        return
    if not exists:
        raise InvalidInput(f"round {at} has no plan to replace; leave --replan out")
    if not reason.strip():
        raise InvalidInput(
            "a plan is replaced for a reason; say it, such as --replan 'capacity fell to 8'"
        )


def _prepared(
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
        "version": _last_version(connection, at) + 1,
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


def _drawn(
    connection: Connection,
    parts: dict[str, Any],
    rows: Rows,
    settings: Settings,
    model: Model,
    luck: Luck,
) -> Plan:
    """Draw the lists of all sites, and store the plan."""
    key, names = luck.key(settings.seed, parts["round"]), names_of(connection)
    kept = Kept.from_json(json.loads(parts["outlook"]))
    listed, numbers = np.zeros(len(rows.person), np.int64), luck_of_rows(key, rows, names)
    for j, one in enumerate(sites_of(parts["sites"])):
        who = rows.in_draw(j)
        c, terms = one.c(parts["c"]), terms_of(kept, one, j, rows.status, rows.site)
        theirs = numbers[who]
        listed[who[drawn_by_luck(rows.drawn_by[who], c, one.capacity, key, theirs, terms)]] = 1
    header = Header(**parts, seed=key, luck=luck.to_json())
    drawn = replace(rows, listed=listed)
    return store_plan(connection, header, drawn, reserve_of(header, drawn, numbers), names, model)


def luck_of_rows(key: str, rows: Rows, names: list[str]) -> NDArray[np.uint64]:
    """The luck of everybody in a plan's draws [m, 2], 0 for the others."""
    who = np.flatnonzero(rows.status == Status.IN_DRAW)
    numbers = np.zeros((len(rows.person), 2), np.uint64)
    numbers[who] = numbers_of(key, [names[i] for i in rows.person[who].tolist()])
    return numbers


def reserve_of(header: Header, rows: Rows, numbers: NDArray[np.uint64]) -> Reserve:
    """The order in which people are called, as it follows from a plan's scores, lists and luck."""
    parts, kept = [NO_RESERVE], Kept.from_json(json.loads(header.outlook))
    for j, one in enumerate(sites_of(header.sites)):
        who = rows.in_draw(j)
        listed, cell = np.flatnonzero(rows.listed[who]), None
        if kept is not None and kept.promise.grouped:
            cell = kept.belonging.cell[who]
        theirs = numbers[who]
        order = in_order(rows.drawn_by[who], one.c(header.c), listed, header.seed, theirs, cell)
        place = np.arange(1, len(order.who) + 1)
        parts.append(Reserve(rows.person[who[order.who]], place, order.chance))
    person, place, chance = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("person", "place", "chance")
    )
    by_person = np.argsort(person, kind="stable")
    return Reserve(person[by_person], place[by_person], chance[by_person])


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


def cohorts_of(
    now: Snapshot,
    model: Model,
    at: int,
    horizon: int,
    eligibility: Eligibility,
    kept: Kept | None = None,
) -> list[SiteCohort]:
    """Those who are waiting, site by site; a site without any is left out."""
    belief = beliefs(now, model, at)
    cohorts = []
    for j, capacity in enumerate(eligibility.usual):
        who = eligibility.waiting(j)
        if not len(who):
            continue
        # Who was contacted rests for r rounds, so in the long run no more than a share of
        # 1 / (r + 1) of the people can be contacted a round.
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
    # Who was on a list and contacted rests before lists count again.
    W = kept.promise.wait + settings.cooldown * bool(kept.promise.wait)
    keeping = Keeping(W, kept.promise.chance, kept.due[who] if W else NOTHING.left)
    if kept.promise.shares:
        bounds = np.array([share.bounds(k) for share in kept.promise.shares], float)
        keeping = keeping._replace(shares=Shares(kept.belonging.inside[:, who], *bounds.T))
    return keeping


def _last_version(connection: Connection, at: int) -> int:
    p = store.plan
    query = sa.select(sa.func.coalesce(sa.func.max(p.c.version), 0)).where(p.c.round == at)
    return int(connection.execute(query).scalar_one())
