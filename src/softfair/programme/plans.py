"""The plan of a round: who is in the draw, with which probability, who is on the list, and why.

The people still in the programme are a cohort: transition probabilities from the model, the state
observed now (or, where it was not seen, the distribution that follows from the last one), the
rounds that are left. `SoftFair` by prices gives each person's gain lambda from a contact now. Among
those in the draw the list is a set of k with probability proportional to the product of exp(c
lambda) (design `joint`), so nobody has a lower chance than someone who would gain less. Where
capacity goes by site, each site is a cohort and a draw of its own.

The seed of a draw follows from the programme's seed and the round. So a command that is repeated
gives the same list, a plan that is made anew draws with the same random numbers, and nobody can
draw until a list pleases. Scores are stored as they were used, so that every draw can be replayed
from the database alone (`verify`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..cohort import Cohort
from ..errors import InvalidInput
from ..policies.base import Rule
from ..progress import track
from . import store
from .eligibility import Eligibility, Site, Status, beliefs, eligibility_of
from .models import Model, fit_in, is_intact, load_model
from .outlook import Outlook, SiteCohort, choose_c
from .settings import Settings, Target
from .snapshot import Snapshot, take_snapshot
from .store import Connection, Multiplier, Store, append, fetch, names_of, plan_in_force

__all__ = [
    "Header",
    "Plan",
    "Rows",
    "Verdict",
    "explain",
    "load_plan",
    "make_plan",
    "plan_of",
    "plan_rows",
    "verify",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REPLAYED = 1e-9  # absolute error of a probability within which a replay agrees


@dataclass(frozen=True)
class Header:
    """What is stored of a plan as a whole, besides its number and digest."""

    round: int
    version: int
    created: str
    software: str
    model: int
    batch: int  # the last one that it has seen
    setting: int
    c: float
    horizon: int  # rounds that are left, this one included
    seed: str
    sites: str  # JSON: [[name, capacity], ...]
    outlook: str  # JSON: see `Outlook.to_json`
    reason: str | None  # why it replaces the version before


@dataclass(frozen=True, eq=False)
class Rows:
    """What is stored of each person in a plan, in the order of their number; arrays [m]."""

    person: Ints
    status: Ints  # see `Status`
    site: Ints  # place in the sites; -1: none
    state: Ints  # observed now; -1: not seen
    score: Floats  # lambda, in good rounds
    probability: Floats  # of being on the list
    listed: Ints  # 1: on the list

    def in_draw(self, j: int) -> Ints:
        """Rows of the people in the draw of site j."""
        return np.flatnonzero((self.status == Status.IN_DRAW) & (self.site == j))


@dataclass(frozen=True, eq=False)
class Plan(Rows):
    """A plan with the names of its people."""

    id: int
    round: int
    version: int
    created: str
    software: str
    model: int
    batch: int
    setting: int
    c: float
    horizon: int
    seed: str
    sites: list[Site]
    outlook: Outlook
    reason: str | None
    digest: str
    names: list[str]  # of everybody in the programme, by number
    unseen: NDArray[np.bool_]  # [m] no transition of their own: they have their group's estimate

    @property
    def list(self) -> list[str]:
        """Identifiers of those on the list, in the order of their number."""
        return [self.names[i] for i in self.person[self.listed == 1]]


def make_plan(
    database: Store,
    software: str,
    round: int | None = None,
    replan: str | None = None,
    target: Target | None = None,
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
        If no plan meets the target.
    """
    with database.writing() as connection:
        if round is not None and replan is None:
            number = plan_in_force(connection, round)
            if number is not None:
                return _as_planned(load_plan(connection, number), target), False
        now = take_snapshot(connection)
        at = now.next_round() if round is None else round
        number = plan_in_force(connection, at)
        if number is not None and replan is None:
            return _as_planned(load_plan(connection, number), target), False
        _check_replan(replan, at, exists=number is not None)
        if now.next_round() > at:
            raise InvalidInput(
                f"round {at} is over, its contacts are recorded; plan round {now.next_round()}"
            )
        if target is not None:
            now = replace(now, settings=replace(now.settings, target=target))
        model, _ = fit_in(connection, now, software)
        return _new_plan(connection, now, model, at, software, replan), True


def _as_planned(plan: Plan, target: Target | None) -> Plan:
    """The plan, unless another target than its own is asked for."""
    if target is not None and plan.outlook.target != target:
        raise InvalidInput(
            f"round {plan.round} is planned already, not for that target; "
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


def _new_plan(
    connection: Connection, now: Snapshot, model: Model, at: int, software: str, reason: str | None
) -> Plan:
    """Make a plan and store it."""
    settings, names = now.settings, now.people.names
    horizon = _rounds_left(connection, settings, at)
    eligibility = eligibility_of(now, at)
    cohorts = _cohorts(now, model, at, horizon, eligibility)
    outlook = choose_c(cohorts, settings, now.people)
    seed = _seed(settings, at)
    state, _ = now.history.of(at, now.people.n)
    rows = _drawn(eligibility, state, cohorts, outlook.c, seed)
    header = Header(
        round=at,
        version=_last_version(connection, at) + 1,
        created=store.now(),
        software=software,
        model=model.id,
        batch=now.batch,
        setting=now.setting,
        c=outlook.c,
        horizon=horizon,
        seed=seed,
        sites=json.dumps(eligibility.sites),
        outlook=json.dumps(outlook.to_json()),
        reason=reason,
    )
    p = store.plan
    before = connection.execute(sa.select(p.c.digest).order_by(p.c.id.desc()).limit(1)).scalar()
    digest = _digest(before or "", header, rows, names)
    key = connection.execute(p.insert().values(**asdict(header), digest=digest))
    assert key.inserted_primary_key is not None
    number = int(key.inserted_primary_key[0])
    columns = {"plan": np.full(len(rows.person), number), **vars(rows)}
    append(connection, store.plan_row, columns, "plan")
    return _assembled(number, digest, header, rows, names, model)


def _rounds_left(connection: Connection, settings: Settings, at: int) -> int:
    """Rounds of the horizon, which begins with the first planned round, from a round on."""
    first = connection.execute(sa.select(sa.func.min(store.plan.c.round))).scalar()
    left = settings.horizon - (0 if first is None else max(0, at - first))
    if left < 1:
        raise InvalidInput(
            f"the programme's {settings.horizon} rounds ended with round {at + left - 1}; "
            f"go on with: softfair init --horizon {settings.horizon + 26}"
        )
    return left


def _cohorts(
    now: Snapshot, model: Model, at: int, horizon: int, eligibility: Eligibility
) -> list[SiteCohort]:
    """Those who are waiting, site by site; a site without any is left out."""
    belief = beliefs(now, model, at)
    cohorts = []
    for j, (_, capacity) in enumerate(eligibility.sites):
        who = eligibility.waiting(j)
        if not len(who):
            continue
        # Who was contacted rests for r rounds, so in the long run no more than a share of
        # 1 / (r + 1) of the people can be contacted a round.
        k = min(capacity, max(1, len(who) // (now.settings.cooldown + 1)))
        cohorts.append(SiteCohort(Cohort(model.P[who], start=belief[who]), k, horizon, who))
    return cohorts


def _drawn(
    eligibility: Eligibility, state: Ints, cohorts: list[SiteCohort], c: float, seed: str
) -> Rows:
    """Everybody's score, probability and whether they are on the list."""
    n = len(state)
    score, probability, listed = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    for cohort in cohorts:
        score[cohort.who] = cohort.scores(c)
    for j, (_, capacity) in enumerate(eligibility.sites):
        who = eligibility.in_draw(j)
        probability[who], chosen = _select(score[who], c, capacity, seed, j)
        listed[who[chosen]] = 1
    site, status = eligibility.site, eligibility.status
    return Rows(np.arange(n), status, site, state, score, probability, listed)


def _select(score: Floats, c: float, k: int, seed: str, site: int) -> tuple[Floats, Ints]:
    """Probability of everybody in a site's draw [m], and the places of those drawn."""
    k = min(k, len(score))
    if k == 0:
        return np.zeros(len(score)), np.empty(0, np.int64)
    rule = Rule.softmax(c, "joint")
    rng = np.random.default_rng([int(seed, 16), site])
    return rule.inclusion(score, k), rule.draw(score, k, rng)


def _seed(settings: Settings, at: int) -> str:
    """The seed of a round's draw, the same for every version of its plan."""
    return hashlib.sha256(f"{settings.seed} {at}".encode()).hexdigest()[:16]


def _last_version(connection: Connection, at: int) -> int:
    p = store.plan
    query = sa.select(sa.func.coalesce(sa.func.max(p.c.version), 0)).where(p.c.round == at)
    return int(connection.execute(query).scalar_one())


def _digest(before: str, header: Header, rows: Rows, names: list[str]) -> str:
    """SHA-256 of a plan, of the names of its people and of the digest of the plan before.

    It covers every column, so that none can be altered, and no earlier plan removed, without
    notice.
    """
    content = {**asdict(header), "c": Multiplier.encode(header.c)}
    digest = hashlib.sha256(f"{before} {json.dumps(content, sort_keys=True)}".encode())
    for column in fields(Rows):
        values = getattr(rows, column.name)
        kind = "<f8" if values.dtype.kind == "f" else "<i8"
        digest.update(np.ascontiguousarray(values, dtype=kind).tobytes())
    digest.update("\n".join(names[i] for i in rows.person).encode())
    return digest.hexdigest()


def _assembled(
    number: int, digest: str, header: Header, rows: Rows, names: list[str], model: Model
) -> Plan:
    parts = {
        **vars(header),
        "sites": [Site(name, k) for name, k in json.loads(header.sites)],
        "outlook": Outlook.from_json(json.loads(header.outlook)),
        **vars(rows),
    }
    return Plan(id=number, digest=digest, names=names, unseen=model.unseen[rows.person], **parts)


def plan_of(database: Store, round: int | None = None) -> Plan:
    """The plan in force of a round.

    Parameters
    ----------
    database
        The programme.
    round
        Which round. Default: the last one that has a plan.

    Raises
    ------
    InvalidInput
        If there is no such plan.
    """
    with database.reading() as connection:
        last = sa.select(sa.func.max(store.plan.c.round))
        at = connection.execute(last).scalar() if round is None else round
        number = plan_in_force(connection, at)
        if number is None:
            raise InvalidInput(
                "there is no plan yet; make one with: softfair plan"
                if round is None
                else f"round {at} has no plan"
            )
        return load_plan(connection, number)


def load_plan(connection: Connection, number: int) -> Plan:
    """The plan with a number."""
    header, digest = _load_header(connection, number)
    rows, names = plan_rows(connection, number), names_of(connection)
    model = load_model(connection, header.model)
    return _assembled(number, digest, header, rows, names, model)


def _load_header(connection: Connection, number: int) -> tuple[Header, str]:
    """The header of a plan, and its digest."""
    row = connection.execute(sa.select(store.plan).where(store.plan.c.id == number)).one()
    columns = {column.name: getattr(row, column.name) for column in fields(Header)}
    return Header(**columns), row.digest


def plan_rows(connection: Connection, number: int) -> Rows:
    """The rows of the plan with a number."""
    r = store.plan_row
    columns = [r.c[column.name] for column in fields(Rows)]
    table = fetch(connection, sa.select(*columns).where(r.c.plan == number), np.float64)
    table = table[np.argsort(table[:, 0])]  # by person, the first column
    typed: dict[str, NDArray[Any]] = {
        column.name: table[:, j].astype(
            np.float64 if column.type.python_type is float else np.int64
        )
        for j, column in enumerate(columns)
    }
    return Rows(**typed)


class Verdict(NamedTuple):
    """What a replay of one plan found."""

    round: int
    version: int
    wrong: list[str]  # empty: it follows from what is stored


def verify(database: Store) -> list[Verdict]:
    """Replay every draw from what is stored, and check every digest.

    Parameters
    ----------
    database
        The programme; nothing is written.

    Returns
    -------
    list of Verdict
        One for each plan, in the order they were made.
    """
    verdicts, intact = [], {}
    with database.reading() as connection:
        before, names = "", names_of(connection)
        last = connection.execute(sa.select(sa.func.max(store.person.c.id))).scalar()
        p = store.plan
        numbers = connection.execute(sa.select(p.c.id).order_by(p.c.id)).scalars().all()
        for number in track(numbers, "replaying draws"):
            header, digest = _load_header(connection, number)
            rows = plan_rows(connection, number)
            wrong = []
            settings = _settings(connection, header.setting)
            if settings is None or header.seed != _seed(settings, header.round):
                wrong.append("the seed does not follow from the programme's")
            # People are numbered from 0 on, and the plan's are among them.
            known = last == len(names) - 1 and rows.person.max(initial=-1) < len(names)
            if not known or _digest(before, header, rows, names) != digest:
                wrong.append("what is stored is not what was committed")
            if header.model not in intact:
                intact[header.model] = is_intact(connection, header.model)
            if not intact[header.model]:
                wrong.append("its model is not what was estimated")
            verdicts.append(Verdict(header.round, header.version, wrong + _replayed(header, rows)))
            before = digest
    return verdicts


def _settings(connection: Connection, number: int) -> Settings | None:
    """The settings with a number; None: somebody removed them."""
    s = store.setting
    content = connection.execute(sa.select(s.c.content).where(s.c.id == number)).scalar()
    return None if content is None else Settings.from_json(content)


def _replayed(header: Header, rows: Rows) -> list[str]:
    """What in a plan does not follow from its scores and its seed."""
    wrong = []
    for j, (name, capacity) in enumerate(json.loads(header.sites)):
        who = rows.in_draw(j)
        probability, chosen = _select(rows.score[who], header.c, capacity, header.seed, j)
        of_site = f" of {name}" if name else ""
        if np.abs(probability - rows.probability[who]).max(initial=0.0) > REPLAYED:
            wrong.append(f"the probabilities{of_site} do not follow from the scores")
        if not np.array_equal(np.flatnonzero(rows.listed[who]), chosen):
            wrong.append(f"the list{of_site} is not what the seed draws")
    if (rows.listed[rows.status != Status.IN_DRAW] == 1).any():
        wrong.append("somebody is on the list who was not in the draw")
    return wrong


WHY_NOT = {
    Status.NOT_YET: "Not in the draw: not enrolled yet.",
    Status.LEFT: "Not in the draw: has left the programme.",
    Status.OPTED_OUT: "Not in the draw: opted out.",
    Status.COOLING: "Not in the draw: was contacted too recently.",
    Status.RESERVED: "Not in the draw: a contact is already arranged for this round.",
    Status.NO_SITE: "Not in the draw: no capacity is set for their group.",
}


def explain(plan: Plan) -> list[str]:
    """One plain sentence for each person of the plan, in its order."""
    below = np.zeros(len(plan.person))  # share of the others in the draw who would gain less
    for j in range(len(plan.sites)):
        who = plan.in_draw(j)
        ranks = np.searchsorted(np.sort(plan.score[who]), plan.score[who])
        below[who] = ranks / max(len(who) - 1, 1)
    return [
        WHY_NOT[Status(code)] if code in WHY_NOT else _sentence(plan, i, float(below[i]))
        for i, code in enumerate(plan.status.tolist())
    ]


def _sentence(plan: Plan, i: int, below: float) -> str:
    """Why the person in row i, who is in the draw, has the probability they have."""
    drawn = "Drawn" if plan.listed[i] else "Not drawn this time"
    more = (
        f"more than for {below:.0%} of those in the draw"
        if below > 0
        else "as little as for anyone in the draw"
    )
    seen = "" if plan.state[i] >= 0 else "; the state now was not seen and is estimated"
    own = (
        "; without a history of their own they have their group's estimate"
        if plan.unseen[i]
        else ""
    )
    return (
        f"{drawn}, with a chance of {plan.probability[i]:.1%}: a contact now is worth "
        f"{plan.score[i]:.2g} good rounds over the {plan.horizon} left, {more}{seen}{own}."
    )
