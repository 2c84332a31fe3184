"""Replaying every draw from what is stored."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...for_json import read_json
from ...progress import track
from .. import schema
from ..assignment import Trial, is_frozen_in, load_trial, replays
from ..commitments import Commitment, load_commitment, used_after
from ..eligibility import Status, sites_of
from ..luck import QUICKNET, TRIAL, Chain, Identifiers, Luck, Source
from ..models import Contents
from ..settings import Settings
from ..snapshot import People, load_people
from ..store import Connection, Store, names_of
from ..tracks import AsOf
from .commitments import OPEN_HEADER, OPEN_ROWS, are_frozen_names, fixed_header, frozen_rows
from .counting import clock_of, left_off_lists
from .drawing import chances, drawn_by_luck, drawn_by_position, seed_by_position
from .kept import Kept, belonging_of, terms_of
from .making import luck_of_rows, reserve_of
from .stored import Header, Reserve, Rows, digest_of, load_header, plan_reserve, plan_rows

__all__ = ["Replays", "Stored", "Verdict", "readable_reserve", "trial_faults", "verify"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError),
    *(OSError, BadZipFile),
)
GARBLED = "what is stored of it cannot be read"
REPLAYED = 1e-9  # absolute error of a probability within which a replay agrees


class Verdict(NamedTuple):
    """What a replay of one plan found."""

    round: int
    version: int
    wrong: list[str]  # empty: it follows from what is stored


def verify(database: Store, chain: Chain = QUICKNET) -> list[Verdict]:
    """Replay every draw from what is stored, and check every digest.

    Parameters
    ----------
    database
        The programme; nothing is written.
    chain
        The chain of beacons that is trusted.

    Returns
    -------
    list of Verdict
        One for each plan, in the order they were made.
    """
    with database.reading() as connection:
        return Replays(connection, chain).verdicts(connection, Contents())


class Stored(NamedTuple):
    """What a replay needs of a plan, besides its rows and its reserve."""

    number: int
    header: Header
    digest: str
    settings: Settings | None  # None: somebody removed or garbled them
    commitment: Commitment | None  # what was drawn; None: there is none, or it cannot be read
    people: People | None  # what was known then of everybody, if groups are promised


class Replays:
    """The replay of every plan, one after another.

    It holds a byte for each person and round (`clock_of`), and never more than one plan.

    Parameters
    ----------
    connection
        Of a reading transaction.
    chain
        The chain of beacons that is trusted.
    """

    def __init__(self, connection: Connection, chain: Chain = QUICKNET) -> None:
        p = schema.plan
        query = sa.select(p.c.id, p.c.round, p.c.version).order_by(p.c.id)
        self._plans = connection.execute(query).all()
        self._chain, self._trial = chain, _readable_trial(connection)
        self._settings = _settings(connection)
        try:
            self._names = Identifiers(names_of(connection))
        except UNREADABLE:  # then no plan is known to be of anybody
            self._names = Identifiers([])
        last = connection.execute(sa.select(sa.func.max(schema.person.c.id))).scalar()
        self._numbered = last == len(self._names) - 1  # people are numbered from 0 on
        self._before = ""  # the digest of the plan before
        self._clocks: dict[int, NDArray[np.int8]] = {}  # by round, of the lists in force so far
        self._done: list[tuple[Verdict, int]] = []  # with the number of the model
        self._heard: list[int] = []  # place in each verdict at which a fault of the model belongs

    def stored(self, connection: Connection, number: int) -> Stored | None:
        """What is stored of a plan; None: it cannot be read."""
        try:
            header, digest = load_header(connection, number)
        except UNREADABLE:
            return None
        settings, commitment, people = self._settings.get(header.setting), None, None
        with suppress(sa.exc.NoResultFound, *UNREADABLE):
            luck = None if header.luck is None else Luck.from_json(header.luck)
            if luck is not None and luck.commitment is not None:
                commitment = load_commitment(connection, luck.commitment)
        with suppress(*UNREADABLE):
            kept = Kept.from_json(read_json(header.outlook))
            if kept is not None and kept.promise.grouped:
                people = load_people(connection, AsOf(header.batch, header.batch))
        return Stored(number, header, digest, settings, commitment, people)

    def replay(self, plan: Stored, rows: Rows, reserve: Reserve | None) -> None:
        """Replay the next plan; a plan out of turn is left to `verdicts`, which reads it again.

        Parameters
        ----------
        plan
            What `stored` returned.
        rows
            Its rows.
        reserve
            The order in which its people are called; None: it cannot be read.
        """
        done = len(self._done)
        if done == len(self._plans) or self._plans[done].id != plan.number:
            return
        header, names = plan.header, self._names
        low, high = rows.person.min(initial=0), rows.person.max(initial=-1)
        known = self._numbered and low >= 0 and high < len(names)
        wrong = _luck_faults(plan, rows, names, self._chain)
        if not known or digest_of(self._before, header, rows, names) != plan.digest:
            wrong.append("what is stored is not what was committed")
        self._heard.append(len(wrong))
        try:
            if known:
                numbers = None if header.luck is None else luck_of_rows(header.seed, rows, names)
                wrong += _replayed(header, rows, numbers)
                wrong += _reserve_faults(reserve, header, rows, numbers)
                wrong += _arm_faults(self._trial, header, rows)
                wrong += _wait_faults(header, rows, self._clocks)
                wrong += _group_faults(plan, rows)
        except UNREADABLE:
            wrong.append(GARBLED)
        self._done.append((Verdict(header.round, header.version, wrong), header.model))
        self._before = plan.digest

    def verdicts(self, connection: Connection, contents: Contents) -> list[Verdict]:
        """The verdicts on all plans; those that were not replayed yet are read and replayed.

        Parameters
        ----------
        connection
            Of the same transaction.
        contents
            The models that were read.
        """
        for number, at, version in track(self._plans[len(self._done) :], "replaying draws"):
            plan = self.stored(connection, number)
            try:
                rows = plan_rows(connection, number)
            except UNREADABLE:
                plan = None
            if plan is None:
                self._done.append((Verdict(at, version, [GARBLED]), -1))
                self._heard.append(-1)
                self._before = ""
            else:
                self.replay(plan, rows, readable_reserve(connection, number))
        intact: dict[int, bool] = {-1: True}
        for (verdict, model), place in zip(self._done, self._heard, strict=True):
            if model not in intact:
                intact[model] = contents.is_intact(connection, model)
            if not intact[model]:
                verdict.wrong.insert(place, "its model is not what was estimated")
        return [verdict for verdict, _ in self._done]


def readable_reserve(connection: Connection, number: int) -> Reserve | None:
    """The order in which a plan's people are called; None: it cannot be read."""
    try:
        return plan_reserve(connection, number)
    except UNREADABLE:
        return None


def _settings(connection: Connection) -> dict[int, Settings]:
    """All settings by number, without those that are garbled."""
    s, readable = schema.setting, {}
    for number, content in connection.execute(sa.select(s.c.id, s.c.content)):
        with suppress(*UNREADABLE):
            readable[number] = Settings.from_json(content)
    return readable


def _luck_faults(plan: Stored, rows: Rows, names: Identifiers, chain: Chain) -> list[str]:
    """What is wrong with a plan's key and with the commitment before it."""
    header, settings, luck = plan.header, plan.settings, None
    try:
        luck = None if header.luck is None else Luck.from_json(header.luck)
    except (ValueError, KeyError, TypeError):
        return ["where its luck came from cannot be read"]
    if settings is None or header.seed != (
        seed_by_position(settings, header.round)
        if luck is None
        else luck.key(settings.seed, header.round)
    ):
        return ["the seed does not follow from the programme's"]
    if luck is None or luck.commitment is None:
        return []
    return _commitment_faults(plan, rows, names, luck, chain)


def _commitment_faults(
    plan: Stored, rows: Rows, names: Identifiers, luck: Luck, chain: Chain
) -> list[str]:
    """Where a plan differs from its commitment, or its luck is not what was announced."""
    header, commitment = plan.header, plan.commitment
    gone = ["the commitment before it is gone or cannot be read"]
    if commitment is None:
        return gone
    try:
        parts, frozen = fixed_header(commitment), frozen_rows(commitment)
        same_names = are_frozen_names(commitment, names.of(rows.person))
        wrong = used_after(commitment, luck, chain)
    except UNREADABLE:
        return gone
    fixed = {
        field.name: getattr(header, field.name)
        for field in fields(Header)
        if field.name not in OPEN_HEADER
    }
    same_rows = all(
        np.array_equal(getattr(rows, field.name), getattr(frozen, field.name))
        for field in fields(Rows)
        if field.name not in OPEN_ROWS
    )
    if fixed != parts or not (same_rows and same_names):
        wrong.append(f"it is not what was committed with the code {commitment.code}")
    return wrong


def _reserve_faults(
    stored: Reserve | None, header: Header, rows: Rows, numbers: Words | None
) -> list[str]:
    """Where the order in which people are called does not follow from a plan's scores and key.

    Plans from before there were reserves have none.
    """
    if stored is None:
        raise ValueError("the reserve cannot be read")
    if numbers is None or not len(stored.person):
        return []
    drawn = reserve_of(header, rows, numbers)
    same = np.array_equal(stored.person, drawn.person) and np.array_equal(stored.place, drawn.place)
    if not same:
        return ["the order of the reserve is not what the seed draws"]
    if np.abs(stored.chance - drawn.chance).max(initial=0.0) > REPLAYED:
        return ["the chances of the reserve do not follow from the scores"]
    return []


def _readable_trial(connection: Connection) -> Trial | None:
    """The trial; None: there is none, or it cannot be read (then `trial_faults` says so)."""
    try:
        return load_trial(connection)
    except UNREADABLE:
        return None


def trial_faults(connection: Connection, chain: Chain = QUICKNET) -> tuple[str, ...] | None:
    """Where the assignment of a trial does not follow from its luck; None: there is no trial."""
    if connection.execute(sa.select(schema.trial.c.id).limit(1)).scalar() is None:
        return None
    trial = _readable_trial(connection)
    if trial is None:
        return ("the trial: what is stored of it cannot be read",)
    settings, names, wrong = _settings(connection).get(trial.setting), names_of(connection), []
    if settings is None or trial.key != trial.luck.key(settings.seed, trial.first, TRIAL):
        wrong.append("the seed does not follow from the programme's")
    try:
        if not replays(trial, names):
            wrong.append("the arms are not what the seed draws")
    except UNREADABLE:
        wrong.append("what is stored of it cannot be read")
    wrong += _draft_faults(connection, trial, names, chain)
    return tuple(f"the trial: {one}" for one in wrong)


def _draft_faults(
    connection: Connection, trial: Trial, names: list[str], chain: Chain
) -> list[str]:
    """Where a trial differs from its commitment, or its luck is not what was announced."""
    if trial.luck.commitment is None:
        own = trial.luck.source is Source.PROGRAMME
        return [] if own else ["its luck is said to be from outside, and nothing was committed"]
    try:
        commitment = load_commitment(connection, trial.luck.commitment)
        same = is_frozen_in(commitment, trial, names)
    except (sa.exc.NoResultFound, *UNREADABLE):
        return ["the commitment before it is gone or cannot be read"]
    wrong = used_after(commitment, trial.luck, chain)
    if not same:
        wrong.append(f"it is not what was committed with the code {commitment.code}")
    return wrong


def _arm_faults(trial: Trial | None, header: Header, rows: Rows) -> list[str]:
    """A sentence if a plan has somebody in another arm than they were assigned to."""
    if trial is None or not trial.runs_in(header.round) or header.created < trial.created:
        return []
    sites = [one.arm for one in sites_of(header.sites)]
    arms = np.array([str(arm) for arm in trial.design.arms])
    of = dict(zip(trial.person.tolist(), arms[trial.arm].tolist(), strict=True))
    for person, site in zip(rows.person.tolist(), rows.site.tolist(), strict=True):
        if site >= 0 and of.get(person, sites[site]) != sites[site]:
            return ["somebody is in another arm than the trial's"]
    return []


def _wait_faults(header: Header, rows: Rows, clocks: dict[int, NDArray[np.int8]]) -> list[str]:
    """Where the lists that people had left do not follow from the lists that were in force then.

    What this list does to everybody's count is added to the clocks.
    """
    kept, wrong = Kept.from_json(read_json(header.outlook)), []
    if kept is not None and kept.promise.wait:
        earlier = sorted(
            (at for at in clocks if kept.promise.since <= at < header.round), reverse=True
        )
        off = left_off_lists((clocks[at] for at in earlier), len(rows.person))
        drawn = rows.status == Status.IN_DRAW
        places = [site.capacity for site in sites_of(header.sites)]
        if any(k and coming[:1] != (k,) for k, coming in zip(places, kept.coming, strict=True)):
            wrong.append("the places that the promise counted on are not those of the lists")
        given = zip(places, kept.divided, strict=True) if kept.divided else ()
        if any(k and sum(cell[0] for cell in cells) > k for k, cells in given):
            wrong.append("the places that groups were to have are more than those of the lists")
        if not np.array_equal(kept.due[drawn], kept.promise.wait - off[drawn]):
            wrong.append("the lists that people had left do not follow from the lists before")
    clock = clock_of(rows.status, rows.site, rows.listed, sites_of(header.sites))
    clocks[header.round] = clock
    if kept is not None and kept.promise.wait and ((clock == 1) & (kept.due == 1)).any():
        wrong.append("somebody is not on the list whom the promise puts there")
    return wrong


def _group_faults(plan: Stored, rows: Rows) -> list[str]:
    """Where promised groups are not as they were known, or lists do not keep their promise."""
    header, known = plan.header, plan.people
    kept = Kept.from_json(read_json(header.outlook))
    if kept is None or not kept.promise.grouped:
        return []
    if known is None:
        raise ValueError("what was known of people cannot be read")
    drawn, wrong = rows.status == Status.IN_DRAW, []
    there, held = belonging_of(kept.promise, known), kept.belonging
    n = len(rows.person)
    same = np.array_equal(there.inside[:, :n][:, drawn], held.inside[:, drawn])
    # The numbers of households depend on the values that exist; only who is together counts.
    same_house = _together(there.house[:n][drawn]) == _together(held.house[drawn])
    if not same or not same_house:
        wrong.append("the groups that the promise counted are not those that were known")
    for j, site in enumerate(sites_of(header.sites)):
        who = rows.in_draw(j)
        k = min(site.capacity, len(who))
        for quota in held.quotas(kept.promise, who, k) if k else ():
            many = int(rows.listed[who[np.asarray(quota.arms, np.int64)]].sum())
            if not quota.least <= many <= (k if quota.most is None else quota.most):
                wrong.append("a group has another number of places than was promised")
    return wrong


def _together(house: Ints) -> list[int]:
    """Households renumbered in the order in which they come; -1: none."""
    first: dict[int, int] = {-1: -1}
    return [first.setdefault(one, len(first)) for one in house.tolist()]


def _replayed(header: Header, rows: Rows, numbers: Words | None) -> list[str]:
    """Where a plan does not follow from scores and luck; ``numbers`` None: luck by position."""
    wrong, kept = [], Kept.from_json(read_json(header.outlook))
    for j, site in enumerate(sites_of(header.sites)):
        who, terms = rows.in_draw(j), terms_of(kept, site, j, rows.status, rows.site)
        score, c, capacity = rows.drawn_by[who], site.c(header.c), site.capacity
        if numbers is None:
            chosen = drawn_by_position(score, c, capacity, header.seed, j)
        else:
            chosen = drawn_by_luck(score, c, capacity, header.seed, numbers[who], terms)
        of_site = f" of {site.name}" if site.name else ""
        off = np.abs(chances(score, c, capacity, terms) - rows.probability[who])
        if off.max(initial=0.0) > REPLAYED:
            wrong.append(f"the probabilities{of_site} do not follow from the scores")
        if not np.array_equal(np.flatnonzero(rows.listed[who]), chosen):
            wrong.append(f"the list{of_site} is not what the seed draws")
    if (rows.listed[rows.status != Status.IN_DRAW] == 1).any():
        wrong.append("somebody is on the list who was not in the draw")
    return wrong
