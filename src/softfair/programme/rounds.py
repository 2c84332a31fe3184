"""The list of a round: who is in the draw, with which probability, who is on the list, and why.

The people still in the programme are a cohort: transition probabilities from the model, the state observed now (or, where it was not seen,
the distribution that follows from the last one), the rounds that are left. `SoftFair` by prices gives each person's gain lambda from a
contact now. Among those in the draw the list is a set of k with probability proportional to the product of exp(c lambda) (design `joint`),
so nobody has a lower chance than someone who would gain less. Where capacity goes by site, each site is a cohort and a draw of its own.

The seed of a draw follows from the programme's seed and the round, so that a command repeated gives the same list and nobody can draw until
a list pleases: a plan made anew has the same luck. Scores are stored as they were used: the draw can be replayed from the database alone.
What is expected of a plan (the outlook) holds k on average in each round, which flatters sites of a few people by some per cent.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ..cohort import Cohort
from ..errors import Infeasible, InvalidInput, NotConverged
from ..policies.base import Rule
from ..progress import say, track
from ..solvers import solve_priced
from ..solvers.priced import hard_multiplier
from ..solvers.values import PriceValues
from . import store
from .ingest import STRIDE, UNKNOWN
from .models import Model, Round, fit_in, load_model, look
from .settings import Settings, Target
from .store import Connection, Store, append, fetch, names_of, plan_in_force

__all__ = [
    "Plan",
    "Status",
    "explain",
    "load_plan",
    "make_plan",
    "next_round",
    "plan_of",
    "plan_rows",
    "verify",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FORGOTTEN = 500  # rounds after which the last state seen no longer tells
SLICE = 65_536  # people that are followed through the horizon at a time
CLOSE = 1.02  # a target's c is found to within this factor


class Status(IntEnum):
    """Whether a person takes part in the draw, else why not."""

    IN_DRAW = 0
    NOT_YET = 1
    LEFT = 2
    OPTED_OUT = 3
    COOLING = 4
    RESERVED = 5
    NO_SITE = 6


WAITING = (
    Status.IN_DRAW,
    Status.COOLING,
    Status.RESERVED,
)  # in the programme, and so in the cohort that is planned for


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan as it is stored, with the names of its people."""

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
    sites: list[
        tuple[str, int]
    ]  # name and capacity; one without a name if capacity does not go by group
    outlook: dict[str, Any]
    reason: str | None
    digest: str
    names: list[str]
    person: Ints  # [m]
    status: Ints
    site: Ints
    state: Ints
    score: Floats
    probability: Floats
    listed: Ints
    unseen: NDArray[np.bool_]  # no transition of their own: they have their group's estimate

    @property
    def list(self) -> list[str]:
        """Identifiers of those on it, in the order of their number."""
        return [self.names[i] for i in self.person[self.listed == 1]]


def next_round(now: Round) -> int:
    """The first round whose contacts are not known yet."""
    history = now.history
    if (known := history.round[history.contacted >= 0]).size:
        return int(known.max()) + 1
    return int(history.round.max()) if len(history.round) else 1


def make_plan(
    database: Store,
    software: str,
    round: int | None = None,
    replan: str | None = None,
    target: Target | None = None,
) -> tuple[Plan, bool]:
    """The plan of a round, made if there is none yet (second: whether it was made now).

    ``replan`` is the reason to make another version; the earlier ones are kept. ``target`` overrides the one in the settings.
    """
    with database.writing() as connection:
        existing = plan_in_force(connection, round) if replan is None else None
        if existing is not None and round is not None:
            return _as_planned(load_plan(connection, existing), target), False
        now = look(connection)
        at = next_round(now) if round is None else round
        existing = plan_in_force(connection, at)
        if existing is not None and replan is None:
            return _as_planned(load_plan(connection, existing), target), False
        if replan is not None and (existing is None or not replan.strip()):
            raise InvalidInput(
                f"round {at} has no plan to replace; leave --replan out"
                if existing is None
                else "a plan is replaced for a reason; say it, such as --replan 'capacity fell to 8'"
            )
        if next_round(now) > at:
            raise InvalidInput(
                f"round {at} is over, its contacts are recorded; plan round {next_round(now)}"
            )
        if target is not None:
            now = replace(now, settings=replace(now.settings, target=target))
        model, _ = fit_in(connection, now, software)
        return _draw(connection, now, model, at, software, replan), True


def _as_planned(plan: Plan, target: Target | None) -> Plan:
    if target is not None and plan.outlook.get("target") != asdict(target):
        raise InvalidInput(
            f"round {plan.round} is planned already, not for that target; make it anew with --replan REASON"
        )
    return plan


def _draw(
    connection: Connection, now: Round, model: Model, at: int, software: str, reason: str | None
) -> Plan:
    settings, people = now.settings, now.people
    horizon = _rounds_left(connection, settings, at)
    sites, site = _sites(now)
    state, _ = now.history.of(at, people.n)
    status = _status(now, at, site)
    waiting = np.isin(status, WAITING)
    if not waiting.any():
        raise InvalidInput(
            f"nobody is in the programme in round {at}; import people, or see who left or opted out"
        )
    belief = _belief(now, model, at)
    # Nobody is drawn again for r rounds, so no more than a share of 1 / (r + 1) of the people can be contacted a round for long.
    draws = [
        _Site(
            Cohort(model.P[who], start=belief[who]),
            min(k, max(1, len(who) // (settings.cooldown + 1))),
            horizon,
            who,
        )
        for j, (_, k) in enumerate(sites)
        if len(who := np.flatnonzero(waiting & (site == j)))
    ]
    c, outlook = _choose(draws, settings, people)
    score, probability = np.zeros(people.n), np.zeros(people.n)
    listed = np.zeros(people.n, np.int64)
    for drawn in draws:
        score[drawn.who] = drawn.scores(c)
    version = (
        connection.execute(
            sa.select(sa.func.coalesce(sa.func.max(store.plan.c.version), 0)).where(
                store.plan.c.round == at
            )
        ).scalar_one()
        + 1
    )
    seed = _seed(settings, at)
    for j, (_, k) in enumerate(sites):
        who = np.flatnonzero((status == Status.IN_DRAW) & (site == j))
        probability[who], chosen = _select(score[who], c, k, seed, j)
        listed[who[chosen]] = 1
    rows: dict[str, Any] = {
        "status": status,
        "site": site,
        "state": state,
        "score": score,
        "probability": probability,
        "listed": listed,
    }
    header: dict[str, Any] = {
        "round": at,
        "version": version,
        "created": store.now(),
        "software": software,
        "model": model.id,
        "batch": now.batch,
        "setting": now.setting,
        "c": -1.0 if math.isinf(c) else c,
        "horizon": horizon,
        "seed": seed,
        "sites": json.dumps(sites),
        "outlook": json.dumps(outlook),
        "reason": reason,
    }
    person = np.arange(people.n)
    before = connection.execute(
        sa.select(store.plan.c.digest).order_by(store.plan.c.id.desc()).limit(1)
    ).scalar()
    header["digest"] = _digest(before or "", header, {"person": person, **rows}, people.names)
    number = connection.execute(store.plan.insert().values(**header)).inserted_primary_key
    assert number is not None
    append(
        connection,
        store.plan_row,
        {"plan": np.full(people.n, number[0]), "person": person, **rows},
        "plan",
    )
    return load_plan(connection, int(number[0]))


def _seed(settings: Settings, at: int) -> str:
    """The same for every version of a round's plan: who plans again does not get new luck."""
    return hashlib.sha256(f"{settings.seed} {at}".encode()).hexdigest()[:16]


def _rounds_left(connection: Connection, settings: Settings, at: int) -> int:
    first = connection.execute(sa.select(sa.func.min(store.plan.c.round))).scalar()
    left = settings.horizon - (0 if first is None else max(0, at - first))
    if left < 1:
        raise InvalidInput(
            f"the programme's {settings.horizon} rounds ended with round {at + left - 1}; "
            f"go on with: softfair init --horizon {settings.horizon + 26}"
        )
    return left


def _sites(now: Round) -> tuple[list[tuple[str, int]], Ints]:
    """The sites with their capacities, and the site of each person [n], -1 for none."""
    settings, people = now.settings, now.people
    if isinstance(settings.capacity, int):
        return [("", settings.capacity)], np.zeros(people.n, np.int64)
    if settings.capacity is None or settings.by is None:
        return [("", max(1, round(people.n / 10)))], np.zeros(people.n, np.int64)
    values, codes = people.group(settings.by)
    sites = [(name, settings.capacity[name]) for name in sorted(settings.capacity)]
    unknown = [name for name, _ in sites if name not in values]
    if unknown:
        raise InvalidInput(
            f"nobody has {settings.by} {unknown[0]!r}, which has a capacity; known: {', '.join(filter(None, values))}"
        )
    place = {name: j for j, (name, _) in enumerate(sites)}
    return sites, np.array([place.get(value, -1) for value in values])[codes]


def _status(now: Round, at: int, site: Ints) -> Ints:
    """Why each person is in the draw or not [n]; the first reason that applies."""
    settings, people, history = now.settings, now.people, now.history
    recent = history.person[
        (history.contacted == 1) & (history.round < at) & (history.round >= at - settings.cooldown)
    ]
    cooling = np.zeros(people.n, bool)
    cooling[recent] = True
    left = (people.departed != UNKNOWN) & (people.departed <= at)
    reasons = [
        (people.opted_out == 1, Status.OPTED_OUT),
        (left, Status.LEFT),
        (people.enrolled > at, Status.NOT_YET),
        (site < 0, Status.NO_SITE),
        (people.reserved == at, Status.RESERVED),
        (cooling, Status.COOLING),
    ]
    return np.select(
        [mask for mask, _ in reasons], [int(code) for _, code in reasons], int(Status.IN_DRAW)
    )


def _belief(now: Round, model: Model, at: int) -> Floats:
    """Distribution of everybody's state at the start of the round [n, S].

    Who was seen is in that state. Who was seen earlier is followed from there by the model, with the contacts that are known (an unknown
    one counts as none); after FORGOTTEN rounds nothing is left of the state. Who was never seen is taken to be like those who were.
    """
    history, n, S = now.history, now.people.n, model.P.shape[-1]
    past = np.flatnonzero((history.state >= 0) & (history.round <= at))
    last, seen_in = np.full(n, at + 1), np.zeros(n, np.int64)
    last[history.person[past]] = history.round[
        past
    ]  # rows are in the order of rounds: the last one stays
    seen_in[history.person[past]] = history.state[past]
    belief = np.eye(S)[seen_in]
    key = history.key
    for r in range(max(int(last.min()), at - FORGOTTEN), at):
        who = np.flatnonzero(last <= r)
        place = np.minimum(np.searchsorted(key, who * STRIDE + r), len(key) - 1)
        contacted = (key[place] == who * STRIDE + r) & (history.contacted[place] == 1)
        belief[who] = np.einsum("is,ist->it", belief[who], model.P[who, contacted.astype(np.int64)])
    never = last > at
    belief[never] = belief[~never].mean(axis=0) if not never.all() else 1 / S
    belief /= belief.sum(axis=1, keepdims=True)
    return belief


class _Site:
    """One cohort with a capacity of its own; what it is worth at any c."""

    def __init__(self, cohort: Cohort, k: int, horizon: int, who: Ints) -> None:
        self.cohort, self.k, self.horizon, self.who = cohort, k, horizon, who
        self._solved: tuple[float, PriceValues] | None = None

    def values(self, c: float) -> PriceValues:
        if self._solved is None or self._solved[0] != c:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConverged)  # the residual goes into the outlook
                self._solved = c, solve_priced(self.cohort, self.k, self.horizon, 1.0, c)
        return self._solved[1]

    def scores(self, c: float) -> Floats:
        """Gain from a contact now [n], expected over the states a person may be in."""
        gains: Floats = np.sum(self.values(c).rows(0, 1)[0] * self.cohort.start, axis=1)
        return gains

    def follow(self, c: float | None) -> tuple[float, Floats]:
        """Expected total reward and contacts of each person [n] over the horizon; None: nobody is contacted."""
        total, contacts = 0.0, np.zeros(self.cohort.n)
        values = None if c is None else self.values(c)
        for first in range(0, self.cohort.n, SLICE):
            part = self.cohort.subset(np.arange(first, min(first + SLICE, self.cohort.n)))
            state = part.start.copy()  # [n, S]
            rows = None if values is None else replace(values, cohort=part).rows(0, self.horizon)
            for t in range(self.horizon):
                active = np.zeros_like(state)
                if values is not None and rows is not None:
                    with np.errstate(over="ignore"):
                        active = state / (1 + np.exp(values.theta[t] - values.c * rows[t]))
                contacts[first : first + part.n] += active.sum(axis=1)
                state = np.einsum("is,ist->it", state - active, part.P[:, 0]) + np.einsum(
                    "is,ist->it", active, part.P[:, 1]
                )
                total += float(np.sum(state * part.reward))
        return total, contacts


def _choose(draws: list[_Site], settings: Settings, people: Any) -> tuple[float, dict[str, Any]]:
    """c, given or found for the target, and what is expected of the plan."""
    if sum(drawn.cohort.n for drawn in draws) > SLICE:
        say("weighing what a contact brings to each ...")
    hardest = max(hard_multiplier(drawn.cohort) for drawn in draws)
    none = sum(drawn.follow(None)[0] for drawn in draws)
    best = sum(drawn.follow(math.inf)[0] for drawn in draws)
    who = np.concatenate([drawn.who for drawn in draws])
    horizon = draws[0].horizon
    grouping: dict[str, tuple[list[str], Ints]] = {}
    if settings.target is not None and settings.target.column is not None:
        grouping = {settings.target.column: people.group(settings.target.column)}
    elif columns := people.columns():
        grouping = {columns[0]: people.group(columns[0])}

    def measure(c: float) -> dict[str, Any]:
        followed = [drawn.follow(c) for drawn in draws]
        contacts = np.concatenate([one[1] for one in followed])
        gained = sum(one[0] for one in followed) - none
        rates = contacts / horizon
        found: dict[str, Any] = {
            "c": "inf" if math.isinf(c) else c,
            "gained": gained,  # good rounds more than without any contact
            "benefit": gained / (best - none) if best > none else 1.0,
            "wait": float(1 / rates.min()) if rates.min() > 1e-9 else None,  # None: for ever
            "residual": max(drawn.values(c).info.residual for drawn in draws),
        }
        for column, (names, codes) in grouping.items():
            sizes = np.bincount(codes[who], minlength=len(names))
            means = np.bincount(codes[who], rates, len(names))[sizes > 0] / sizes[sizes > 0]
            there = [name for name, size in zip(names, sizes, strict=True) if size]
            found["group"] = float(means.min() / rates.mean()) if rates.mean() > 0 else 1.0
            found["group_column"], found["lowest_group"] = column, there[int(means.argmin())]
        return found

    target = settings.target
    if target is None:
        return settings.c, measure(settings.c)

    def met(found: dict[str, Any]) -> bool:
        value = found[target.goal]
        if target.goal == "wait":
            return value is not None and value <= target.value * (1 + 1e-9)
        return bool(value >= target.value * (1 - 1e-9))

    # More c, more benefit and less evenness: a benefit asks for the least c that gives it, the others for the most that keeps them.
    fair_end, hard_end = measure(0.0), measure(math.inf)
    kept, lost = (hard_end, fair_end) if target.goal == "benefit" else (fair_end, hard_end)
    if met(lost):
        found = lost
    elif met(kept):
        low, high = math.log(hardest) - math.log(1e6), math.log(hardest)
        found = kept
        for _ in track(
            range(math.ceil(math.log2((high - low) / math.log(CLOSE)))), "looking for c"
        ):
            middle = (low + high) / 2
            tried = measure(math.exp(middle))
            if met(tried):
                found = tried
            if met(tried) == (target.goal == "benefit"):
                high = middle
            else:
                low = middle
    else:
        # With capacities by site the lottery need not be the most even between groups: look at some c on the way.
        between = (
            [measure(float(c)) for c in np.geomspace(hardest / 1e4, hardest, 13)]
            if target.goal == "group"
            else []
        )
        serving = [tried for tried in between if met(tried)]
        if not serving:
            nearest = max([kept, *between], key=lambda tried: tried["group"]) if between else kept
            raise Infeasible(
                f"the target cannot be met: {target}; the nearest that can is {_said(target, nearest)}, at c = {float(nearest['c']):.3g}; "
                "ask for that, or raise the capacity"
            )
        found = serving[-1]
    c = float(found["c"])
    return c, {
        **found,
        "target": asdict(target),
        "target_said": str(target),
        "most_effective_gained": best - none,
    }


def _said(target: Target, found: dict[str, Any]) -> str:
    value = found[target.goal]
    if value is None:
        return "none: somebody would never be contacted"
    return str(
        replace(
            target,
            value=math.ceil(value * 100) / 100
            if target.goal == "wait"
            else math.floor(value * 1000) / 1000,
        )
    )


def _select(score: Floats, c: float, k: int, seed: str, site: int) -> tuple[Floats, Ints]:
    """Probability of everybody in a site's draw [m], and who was drawn."""
    k = min(k, len(score))
    if k == 0:
        return np.zeros(len(score)), np.empty(0, np.int64)
    rule = Rule.softmax(c, "joint")
    return rule.inclusion(score, k), rule.draw(
        score, k, np.random.default_rng([int(seed, 16), site])
    )


def _digest(before: str, header: dict[str, Any], rows: dict[str, Any], names: list[str]) -> str:
    """Of a plan and whom it is about, chained to the plan before it: nothing in either can change without a trace."""
    told = {name: header[name] for name in sorted(header) if name not in ("id", "digest")}
    digest = hashlib.sha256(f"{before} {json.dumps(told, sort_keys=True)}".encode())
    for name in ("person", "status", "site", "state", "score", "probability", "listed"):
        kind = "<f8" if name in ("score", "probability") else "<i8"
        digest.update(np.ascontiguousarray(rows[name], dtype=kind).tobytes())
    digest.update("\n".join(names[i] for i in rows["person"]).encode())
    return digest.hexdigest()


def plan_of(database: Store, round: int | None = None) -> Plan:
    """The plan in force of a round; None: of the last one planned."""
    with database.reading() as connection:
        at = (
            connection.execute(sa.select(sa.func.max(store.plan.c.round))).scalar()
            if round is None
            else round
        )
        number = plan_in_force(connection, at)
        if number is None:
            raise InvalidInput(
                "there is no plan yet; make one with: softfair plan"
                if round is None
                else f"round {at} has no plan"
            )
        return load_plan(connection, number)


def load_plan(connection: Connection, number: int) -> Plan:
    header = dict(
        connection.execute(sa.select(store.plan).where(store.plan.c.id == number)).one()._mapping
    )
    header |= {
        "c": math.inf if header["c"] < 0 else header["c"],
        "sites": [(name, k) for name, k in json.loads(header["sites"])],
        "outlook": json.loads(header["outlook"]),
    }
    names = names_of(connection)
    rows = plan_rows(connection, number)
    return Plan(
        **header,
        names=names,
        **rows,
        unseen=load_model(connection, header["model"]).unseen[rows["person"]],
    )


def plan_rows(connection: Connection, number: int) -> dict[str, Any]:
    """The rows of a plan, a column each [m], in the order of people."""
    r = store.plan_row
    columns = [r.c.person, r.c.status, r.c.site, r.c.state, r.c.score, r.c.probability, r.c.listed]
    rows = fetch(connection, sa.select(*columns).where(r.c.plan == number), np.float64)
    rows = rows[np.argsort(rows[:, 0])]
    real = ("score", "probability")
    return {
        column.name: rows[:, j].astype(np.float64 if column.name in real else np.int64)
        for j, column in enumerate(columns)
    }


def verify(database: Store) -> list[tuple[int, int, list[str]]]:
    """Replay every draw from what is stored: (round, version, what is wrong) of each plan, in the order they were made."""
    verdicts = []
    with database.reading() as connection:
        before = ""
        names = names_of(connection)
        numbers = (
            connection.execute(sa.select(store.plan.c.id).order_by(store.plan.c.id)).scalars().all()
        )
        for number in track(numbers, "replaying draws"):
            header = dict(
                connection.execute(sa.select(store.plan).where(store.plan.c.id == number))
                .one()
                ._mapping
            )
            rows = plan_rows(connection, number)
            wrong = []
            settings = connection.execute(
                sa.select(store.setting.c.content).where(store.setting.c.id == header["setting"])
            ).scalar_one()
            if header["seed"] != _seed(Settings.from_json(settings), header["round"]):
                wrong.append("the seed does not follow from the programme's")
            if _digest(before, header, rows, names) != header["digest"]:
                wrong.append("what is stored is not what was committed")
            before = header["digest"]
            c = math.inf if header["c"] < 0 else header["c"]
            for j, (name, k) in enumerate(json.loads(header["sites"])):
                who = np.flatnonzero((rows["status"] == Status.IN_DRAW) & (rows["site"] == j))
                probability, chosen = _select(rows["score"][who], c, k, header["seed"], j)
                site = f" of {name}" if name else ""
                if np.abs(probability - rows["probability"][who]).max(initial=0.0) > 1e-9:
                    wrong.append(f"the probabilities{site} do not follow from the scores")
                if not np.array_equal(np.flatnonzero(rows["listed"][who]), chosen):
                    wrong.append(f"the list{site} is not what the seed draws")
            if (rows["listed"][rows["status"] != Status.IN_DRAW] == 1).any():
                wrong.append("somebody is on the list who was not in the draw")
            verdicts.append((header["round"], header["version"], wrong))
    return verdicts


def explain(plan: Plan) -> list[str]:
    """One plain sentence for each person of the plan, in its order."""
    why_not = {
        Status.NOT_YET: "Not in the draw: not enrolled yet.",
        Status.LEFT: "Not in the draw: has left the programme.",
        Status.OPTED_OUT: "Not in the draw: opted out.",
        Status.COOLING: "Not in the draw: was contacted too recently.",
        Status.RESERVED: "Not in the draw: a contact is already arranged for this round.",
        Status.NO_SITE: "Not in the draw: no capacity is set for their group.",
    }
    inside = plan.status == Status.IN_DRAW
    below = np.zeros(len(plan.person))
    for j in range(len(plan.sites)):
        who = np.flatnonzero(inside & (plan.site == j))
        ranks = np.searchsorted(np.sort(plan.score[who]), plan.score[who])
        below[who] = ranks / max(len(who) - 1, 1)
    sentences = []
    for i, status in enumerate(plan.status.tolist()):
        if status != Status.IN_DRAW:
            sentences.append(why_not[Status(status)])
            continue
        drawn = "Drawn" if plan.listed[i] else "Not drawn this time"
        gain = (
            f"a contact now is worth {plan.score[i]:.2g} good rounds over the {plan.horizon} left"
        )
        seen = "" if plan.state[i] >= 0 else "; the state now was not seen and is estimated"
        more = (
            f"more than for {below[i]:.0%} of those in the draw"
            if below[i] > 0
            else "as little as for anyone in the draw"
        )
        own = (
            "; without a history of their own they have their group's estimate"
            if plan.unseen[i]
            else ""
        )
        sentences.append(
            f"{drawn}, with a chance of {plan.probability[i]:.1%}: {gain}, {more}{seen}{own}."
        )
    return sentences
