"""How a programme was run: what its lists, contacts and outcomes say, against what was stated and predicted.

Over every planned round t (the latest version of its plan) and person i in the draw of a site:

    p    stated probability of the list          L    1 if on the list              A    1 if contacted
    Y    reward of the state reached in round t + 1: s / (S - 1), so the share in the good state where there are two

**Lists against probabilities.** A list has a fixed number of people, so two people are on it together less often than by chance. With b
the solution of b_i - b_i^2 / sum(b) = p_i (1 - p_i) over the draw of a site (Deville and Tillé, 2005),

    Cov(L_i, L_j) = -b_i b_j / sum(b),      and for any set B:   E = sum_B p,   Var = b_B - b_B^2 / sum(b),   b_B = sum_B b.

That is exact for a lottery, for a list of one and, always, for each person alone; for other sets it is within 5 % from ten people in the
draw on. Given all that came before it, what a draw deviates by has mean zero, so variances of rounds add up, whatever earlier lists
led to.

**Never listed.** prod(1 - p) would be wrong where a probability depends on earlier lists (a cooldown). Counted instead are first
listings: those of people not listed before, D = 1. Expected of them is sum D p, with the variance above for the set B = {D = 1}.

**Rates of a group** are ratios sum x / sum m over its people, each person's rounds taken together (people are independent, rounds of one
are not): Var = sum_i (x_i - rate m_i)^2 / (sum m)^2. Intervals are Wilson's at the number of rounds with that variance.

**Predicted against realised.** The model of the round's plan gives P(s' | state now, contacted or not) of each person; the sum of
independent outcomes has the variance sum P (1 - P). Brier's score is sum_s' (1{s'} - P)^2 / 2, averaged: 0 is perfect.

**Another policy**, by which i would be listed with probability q. The action is the list, whose probability is known, not the contact
(intention to treat). Estimand: the mean Y in the round after, had each planned round's list been drawn by the other policy from the
same people in the same states; one round ahead, a person's outcome depending on their own listing alone.

    w = L q / p + (1 - L)(1 - q) / (1 - p),      V = sum w Y / sum w,      difference V - mean Y,

with variances from each person's sum of w (Y - V), or of w (Y - V) - (Y - mean Y): the difference is from what the programme's own way of
drawing brings on average. Where the lists drawn hold (almost) nobody of those whom the other policy would move, that is said instead.

**Drift.** The people contacted, or in a state, now may differ from those of earlier, so frequencies of then and now do not compare.
Instead each recent move is set against what the model of its round, made from all before, expected of that person: an error that has
mean zero unless something changed (an older model would not do: who stays in a state longer than it thought is seen there more often).
The variance is that of these errors plus, because models had to learn from them, that of the earlier frequency, each with the rounds of
a person taken together. Flagged below 5 % over the number of comparisons (Bonferroni).
"""

from __future__ import annotations

import base64
import html
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from .. import metrics
from ..estimate import count_transitions
from ..figures import COLOURS, FAINT, INK, new_figure
from ..files import write_whole
from ..policies.base import Rule
from ..progress import track
from . import store
from .eligibility import WAITING, Status
from .models import Model, load_model
from .plans import plan_rows
from .settings import current_settings
from .snapshot import History, People, load_history, load_people
from .store import UNKNOWN, Connection, Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

__all__ = ["Audit", "Section", "audit", "sections", "show", "write_page"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Row = dict[str, Any]

MOST_BINS = 10
LEAST_VARIANCE = 5.0  # of the number listed in a bin: enough for the normal law
LEAST_MOVES = 20  # in a bin or cell, for the same reason
MOST_VALUES = 30  # of a group column that have a row of their own
OTHERS = "(others)"
SIGNIFICANT = 0.05  # shared among the comparisons of a table
HEAVIEST = 50.0  # a weight beyond this rests on lists that were hardly ever drawn
UNSUPPORTED = 0.05  # share of what another policy moves that may rest on such weights
LEAST_EFFECTIVE = 10.0  # people's rounds, listed and not listed, that an estimate rests on


# What is read.


@dataclass(frozen=True, eq=False)
class Planned:
    """One planned round: its plan in force and what was recorded of it. Arrays [m], a row a person of the plan."""

    round: int
    version: int
    model: int
    c: float
    sites: list[tuple[str, int]]  # name and capacity
    person: Ints
    status: Ints
    site: Ints
    score: Floats
    probability: Floats
    listed: Ints
    state: Ints  # at the start of the round; UNKNOWN: not seen
    contacted: Ints  # during it
    after: Ints  # state at the start of the next

    def draws(self) -> Iterator[tuple[Ints, int]]:
        """Rows of each site's draw, and how many of them are listed."""
        for j, (_, k) in enumerate(self.sites):
            who = np.flatnonzero(self.inside & (self.site == j))
            if len(who):
                yield who, min(k, len(who))

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        return np.equal(self.status, int(Status.IN_DRAW))

    @cached_property
    def here(self) -> NDArray[np.bool_]:
        """Who is in the programme, in the draw or not."""
        return np.isin(self.status, WAITING)

    @cached_property
    def b(self) -> Floats:
        """The design's variance, split among people; 0 outside the draw."""
        b = np.zeros(len(self.person))
        for who, _ in self.draws():
            b[who] = design_variance(self.probability[who])
        return b

    @cached_property
    def complete(self) -> Ints:
        """Rows whose state before, contact and state after are all known."""
        return np.flatnonzero((self.state >= 0) & (self.contacted >= 0) & (self.after >= 0))


def design_variance(p: Floats) -> Floats:
    """b [m] with b - b^2 / sum(b) = p (1 - p), for probabilities of one draw of a fixed number of people.

    Given C = sum(b) each b is a root of a quadratic, the lower one but for, perhaps, the person with the largest variance; C is then
    found by bisection, for what is left over changes sign once.

    >>> design_variance(np.array([0.5, 0.3, 0.2])).round(6)  # a list of one: Var = p (1 - p), Cov = -p p'
    array([0.5, 0.3, 0.2])
    """
    own = np.clip(p * (1 - p), 0.0, None)
    top = int(own.argmax())
    if own[top] <= 0:
        return own

    def lower(C: float) -> Floats:
        root: Floats = 2 * own / (1 + np.sqrt(np.maximum(1 - 4 * own / C, 0.0)))
        return root

    low, high = (
        4 * float(own[top]),
        max(2 * float(own.sum()), 4 * float(own[top])),
    )  # b is between its own variance and twice that
    upper = lower(low).sum() < low * (
        1 - 1e-12
    )  # so small a C is still too large: the largest takes the other root

    def beyond(C: float) -> bool:
        b = lower(C)
        return bool(b.sum() >= 2 * b[top]) if upper else bool(b.sum() <= C)

    while upper and not beyond(high) and high < 1e6 * low:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if beyond(middle) else (middle, high)
    b = lower(high)
    if upper:
        b[top] = high - b[top]
    return b


def _read(connection: Connection, people: People, history: History) -> list[Planned]:
    p = store.plan
    latest = (
        sa.select(p.c.round, sa.func.max(p.c.version).label("version"))
        .group_by(p.c.round)
        .subquery()
    )
    query = (
        sa.select(p)
        .join(latest, (p.c.round == latest.c.round) & (p.c.version == latest.c.version))
        .order_by(p.c.round)
    )
    found = []
    for row in track(connection.execute(query).all(), "reading plans"):
        rows = plan_rows(connection, row.id)
        who = rows.person
        state, contacted = history.of(row.round, people.n)
        after, _ = history.of(row.round + 1, people.n)
        found.append(
            Planned(
                round=row.round,
                version=row.version,
                model=row.model,
                c=row.c,
                sites=[(name, k) for name, k in json.loads(row.sites)],
                person=who,
                status=rows.status,
                site=rows.site,
                score=rows.score,
                probability=rows.probability,
                listed=rows.listed,
                state=state[who],
                contacted=contacted[who],
                after=after[who],
            )
        )
    return found


# Figures with their doubt.


def _two_sided(z: float) -> float:
    """Chance of a normal deviation of at least |z|; nan for nan."""
    return math.erfc(abs(z) / math.sqrt(2))


def _chi_square_tail(x: float, freedom: int) -> float:
    """Chance that chi-square with a whole number of degrees of freedom is at least x: the closed forms of Q(freedom / 2, x / 2)."""
    half = x / 2
    if freedom % 2:
        tail, term = math.erfc(math.sqrt(half)), math.sqrt(half / math.pi) * 2 * math.exp(-half)
        for j in range((freedom - 1) // 2):
            tail += term
            term *= half / (j + 1.5)
        return min(tail, 1.0)
    tail, term = 0.0, math.exp(-half)
    for j in range(freedom // 2):
        tail += term
        term *= half / (j + 1)
    return min(tail, 1.0)


def _joint_test(deviation: Floats, covariance: Floats) -> Row:
    """Chi-square of deviations [J] with covariance [J, J], which may be singular: a fixed total takes a degree of freedom."""
    size, direction = (
        np.linalg.eigh(covariance) if len(deviation) else (np.empty(0), np.empty((0, 0)))
    )
    free = size > 1e-9 * size.max(initial=1e-12)
    if not free.any():
        return {"chi_square": math.nan, "freedom": 0, "p": math.nan}
    x = float(np.sum((deviation @ direction[:, free]) ** 2 / size[free]))
    return {"chi_square": x, "freedom": int(free.sum()), "p": _chi_square_tail(x, int(free.sum()))}


def _z(deviation: float, variance: float) -> float:
    return deviation / math.sqrt(variance) if variance > 1e-12 else math.nan


def _wilson(rate: float, rounds: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share that rests on so many independent rounds."""
    if not rounds > 0:
        return math.nan, math.nan
    shrink = 1 + z * z / rounds
    centre = (rate + z * z / (2 * rounds)) / shrink
    half = z / shrink * math.sqrt(max(rate * (1 - rate), 0.0) / rounds + (z / (2 * rounds)) ** 2)
    return max(centre - half, 0.0), min(centre + half, 1.0)


@dataclass(frozen=True, eq=False)
class _Rates:
    """Ratios sum x / sum m by label [J], with intervals that take the rounds of a person together."""

    rate: Floats
    low: Floats
    high: Floats
    rounds: Floats  # sum m

    @classmethod
    def of(cls, x: Floats, m: Floats, label: Ints, J: int, z: float) -> _Rates:
        """x, m, label [n], a person each."""

        def total(values: Floats) -> Floats:
            return np.bincount(label, values, J).astype(np.float64)

        rounds, persons = total(m), total((m > 0).astype(np.float64))
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = total(x) / rounds
            squares = np.maximum(
                total(x * x) - 2 * rate * total(x * m) + rate**2 * total(m * m), 0.0
            )
            variance = squares / rounds**2 * persons / (persons - 1)
            worth = np.minimum(
                rate * (1 - rate) / variance, rounds
            )  # rounds of people all different that would say as much
        worth = np.where(
            np.isfinite(worth) & (rate > 0) & (rate < 1), worth, persons
        )  # all alike: count people, not their rounds
        ends = np.array([_wilson(r, w, z) for r, w in zip(rate, worth, strict=True)]).reshape(J, 2)
        return cls(rate, ends[:, 0], ends[:, 1], rounds)


@dataclass(frozen=True, eq=False)
class _Tally:
    """Listed and expected by label [J], summed over rounds, with the covariance [J, J] of their difference."""

    rounds: Floats  # people in the draw, round by round
    expected: Floats
    listed: Floats
    covariance: Floats

    @classmethod
    def of(cls, planned: Sequence[Planned], labels: Sequence[Ints], J: int) -> _Tally:
        """``labels`` [m] for each round; below 0: not counted."""
        count, expected, listed, covariance = (
            np.zeros(J),
            np.zeros(J),
            np.zeros(J),
            np.zeros((J, J)),
        )
        for one, label in zip(planned, labels, strict=True):
            for who, _ in one.draws():
                kept = who[label[who] >= 0]
                count += np.bincount(label[kept], minlength=J)
                expected += np.bincount(label[kept], one.probability[kept], J)
                listed += np.bincount(label[kept], one.listed[kept], J)
                part, total = np.bincount(label[kept], one.b[kept], J), one.b[who].sum()
                if total > 0:
                    covariance += np.diag(part) - np.outer(part, part) / total
        return cls(count, expected, listed, covariance)

    def z(self, j: int) -> float:
        return _z(float(self.listed[j] - self.expected[j]), float(self.covariance[j, j]))

    def ends(self, j: int, z: float) -> tuple[float, float]:
        """Between which the number listed should be."""
        half = z * math.sqrt(max(float(self.covariance[j, j]), 0.0))
        return max(float(self.expected[j]) - half, 0.0), float(self.expected[j]) + half


def _flag(rows: list[Row]) -> None:
    """Mark what chance does not explain, the table's comparisons taken together."""
    tests = [row for row in rows if not math.isnan(row["p"])]
    for row in rows:
        row["flagged"] = bool(row["p"] < SIGNIFICANT / max(len(tests), 1))


def _sum(
    n: int, planned: Sequence[Planned], of: Callable[[Planned], tuple[NDArray[np.bool_], Any]]
) -> Floats:
    """Each person's sum over rounds [n] of a value, where a condition holds."""
    total = np.zeros(n)
    for one in planned:
        kept, value = of(one)
        total += np.bincount(one.person[kept], value[kept], n)
    return total


# The parts of an audit.


def _rounds(planned: Sequence[Planned]) -> list[Row]:
    """A row a round: the list, who of it was reached, who else was contacted."""
    rows = []
    for one in planned:
        on, known, called = one.listed == 1, one.contacted >= 0, one.contacted == 1
        off = called & ~on & (one.status != Status.RESERVED)
        rows.append(
            {
                "round": one.round,
                "version": one.version,
                "c": one.c,
                "in_draw": int(one.inside.sum()),
                "capacity": sum(k for _, k in one.sites),
                "listed": int(on.sum()),
                "recorded": bool(known.any()),
                "contacted": int(called.sum()),
                "reached": int((on & called).sum()),
                "not_reached": int((on & known & ~called).sum()),
                "not_recorded": int((on & ~known).sum()),
                "off_list": int(off.sum()),
                "arranged": int((called & (one.status == Status.RESERVED)).sum()),
                "opted_out_contacted": int((called & (one.status == Status.OPTED_OUT)).sum()),
            }
        )
    return rows


def _lists(planned: Sequence[Planned], z: float) -> tuple[list[Row], Row]:
    """Listed against expected by stated probability, in bins of about equal variance; and the test of all bins together."""
    p = np.concatenate([one.probability[one.inside] for one in planned]) if planned else np.empty(0)
    listed = np.concatenate([one.listed[one.inside] for one in planned]) if planned else np.empty(0)
    order = np.argsort(p)
    p, listed = p[order], listed[order]
    reach = np.cumsum(p * (1 - p))
    wrong = int(
        np.count_nonzero(((p <= 0) & (listed == 1)) | ((p >= 1) & (listed == 0)))
    )  # what no draw can give
    if not len(p):
        return [], {**_joint_test(np.empty(0), np.empty((0, 0))), "impossible": wrong}
    bins = int(np.clip(reach[-1] / LEAST_VARIANCE, 1, MOST_BINS))
    cuts = np.unique(
        p[np.searchsorted(reach, reach[-1] * np.arange(1, bins) / bins)]
    )  # by value: equal chances stay together
    cuts = cuts[cuts > p[0]]
    first = np.concatenate([[0], np.searchsorted(p, cuts)])
    last = np.concatenate([first[1:], [len(p)]]) - 1
    labels = [
        np.where(one.inside, np.searchsorted(cuts, one.probability, side="right"), -1)
        for one in planned
    ]
    J = len(cuts) + 1
    tally = _Tally.of(planned, labels, J)

    def count(of: Callable[[Planned], NDArray[np.bool_]]) -> Floats:
        total = np.zeros(J)
        for one, label in zip(planned, labels, strict=True):
            total += np.bincount(label[one.inside & of(one)], minlength=J)
        return total

    known = count(lambda one: (one.listed == 1) & (one.contacted >= 0))
    reached = count(lambda one: (one.listed == 1) & (one.contacted == 1))
    off = count(lambda one: (one.listed == 0) & (one.contacted == 1))
    rows = []
    for j in range(J):
        low, high = tally.ends(j, z)
        share = float(reached[j] / known[j]) if known[j] else math.nan
        ends = _wilson(share, known[j], z)
        rows.append(
            {
                "from": float(p[first[j]]),
                "to": float(p[last[j]]),
                "in_draw": int(tally.rounds[j]),
                "expected": float(tally.expected[j]),
                "low": low,
                "high": high,
                "listed": int(tally.listed[j]),
                "z": tally.z(j),
                "p": _two_sided(tally.z(j)),
                "reached_share": share,
                "reached_low": ends[0],
                "reached_high": ends[1],
                "off_list": int(off[j]),
            }
        )
    return rows, {
        **_joint_test(tally.listed - tally.expected, tally.covariance),
        "impossible": wrong,
    }


def _waits(people: People, history: History) -> tuple[Ints, Ints, NDArray[np.bool_], Row]:
    """Consecutive rounds without a contact: the longest of each person and the one still going on [n], whose count, and of which rounds.

    All recorded rounds count, also those before the first plan. A contact that is not known counts as none.
    """
    known = history.round[history.contacted >= 0]
    n = people.n
    if not len(known):
        nothing = np.zeros(n, np.int64)
        return nothing, nothing, np.zeros(n, bool), {"first": None, "last": None}
    first, last = int(known.min()), int(known.max())
    start = np.maximum(people.enrolled, first)
    end = np.where(people.departed == UNKNOWN, last, np.minimum(people.departed - 1, last))
    called = np.flatnonzero(history.contacted == 1)
    person, when = history.person[called], history.round[called]
    before = (
        np.concatenate([[UNKNOWN], person[:-1]]) == person
    )  # whether the contact before is the same person's
    gap = when - np.where(before, np.concatenate([[0], when[:-1]]) + 1, start[person])
    longest, latest = np.zeros(n, np.int64), start - 1
    np.maximum.at(longest, person, gap)
    latest[person] = when  # rows are in the order of rounds: the last one stays
    now = np.maximum(end - latest, 0)
    here = (people.opted_out != 1) & (end == last) & (start <= last)
    return np.maximum(longest, now), now, here, {"first": first, "last": last}


def _spread(
    planned: Sequence[Planned], people: People, history: History, z: float, names: int
) -> tuple[Row, dict[str, list[int]]]:
    """How evenly lists and contacts fell, who never had one, how long people wait; and the counts behind the histograms."""
    n = people.n
    drawn = _sum(n, planned, lambda one: (one.inside, one.inside.astype(np.float64))) > 0
    listed = _sum(n, planned, lambda one: (one.inside, one.listed))
    recorded = [one for one in planned if (one.contacted >= 0).any()]
    could = _sum(n, recorded, lambda one: (one.inside, one.inside.astype(np.float64))) > 0
    contacts = _sum(n, recorded, lambda one: (one.contacted >= 0, one.contacted))
    seen = np.zeros(n, bool)
    labels = []
    for one in planned:
        labels.append(np.where(one.inside & ~seen[one.person], 0, -1))
        seen[one.person[one.listed == 1]] = True
    first = _Tally.of(planned, labels, 1)
    low, high = first.ends(0, z)
    size = int(drawn.sum())
    longest, now, here, span = _waits(people, history)
    ever = np.zeros(n, bool)
    ever[history.person[history.contacted == 1]] = True
    waiting = now[here]
    figures = {
        "people": n,
        "in_draw": size,
        "never_listed": int((drawn & (listed == 0)).sum()),
        "never_listed_expected": size - float(first.expected[0]),
        "never_listed_low": max(size - high, 0.0),
        "never_listed_high": min(size - low, float(size)),
        "z": -first.z(0),
        "p": _two_sided(first.z(0)),
        "in_recorded_draw": int(could.sum()),
        "never_contacted": int((could & (contacts == 0)).sum()),
        "never_contacted_ever": int(
            (here & ~ever).sum()
        ),  # of those here now, in all recorded rounds
        "here_now": int(here.sum()),
        "lists": int(listed.sum()),
        "contacts": int(contacts.sum()),
        **{
            f"entropy_{name}": float(metrics.action_entropy(times[who])) if who.any() else math.nan
            for name, times, who in (("listed", listed, drawn), ("contacted", contacts, could))
        },
        "entropy_most": math.log(max(min(size, listed.sum()), 1)),
        **{
            f"gini_{name}": float(metrics.gini(times[who])) if who.any() else math.nan
            for name, times, who in (("listed", listed, drawn), ("contacted", contacts, could))
        },
        "longest_wait": int(longest.max(initial=0)) if span["last"] is not None else None,
        "waiting_median": float(np.median(waiting)) if len(waiting) else math.nan,
        "waiting_longest": int(waiting.max()) if len(waiting) else None,
        "first_round": span["first"],
        "last_round": span["last"],
    }
    if names:
        order = np.flatnonzero(here)[np.argsort(-waiting, kind="stable")[:names]]
        figures["waiting_people"] = [{"id": people.names[i], "rounds": int(now[i])} for i in order]
    histograms = {
        "listed": np.bincount(
            listed[drawn].astype(np.int64)
        ).tolist(),  # people by times listed: 0, 1, 2, ...
        "contacted": np.bincount(contacts[could].astype(np.int64)).tolist(),
        "waiting": np.bincount(waiting).tolist(),  # people here now by rounds without a contact
    }
    return figures, histograms


def _groups(planned: Sequence[Planned], people: People, S: int, z: float) -> list[Row]:
    """Rates and outcomes of each value of each group column, and of all together (the column "")."""
    n = people.n
    drawn = _sum(n, planned, lambda one: (one.inside, one.inside.astype(np.float64)))
    listed = _sum(n, planned, lambda one: (one.inside, one.listed))
    asked = _sum(
        n, planned, lambda one: (one.here & (one.contacted >= 0), np.ones(len(one.person)))
    )
    called = _sum(n, planned, lambda one: (one.here & (one.contacted >= 0), one.contacted))
    followed = _sum(n, planned, lambda one: (one.here & (one.after >= 0), np.ones(len(one.person))))
    reward = _sum(n, planned, lambda one: (one.here & (one.after >= 0), one.after / (S - 1)))
    if not drawn.any():
        return []
    rows: list[Row] = []
    for column in ["", *people.columns()]:
        values, code = (
            _pooled(*people.group(column)) if column else (["everybody"], np.zeros(n, np.int64))
        )
        J = len(values)
        tally = _Tally.of(
            planned, [np.where(one.inside, code[one.person], -1) for one in planned], J
        )
        rates = {
            "selection": _Rates.of(listed, drawn, code, J, z),
            "contact": _Rates.of(called, asked, code, J, z),
            "outcome": _Rates.of(reward, followed, code, J, z),
        }
        sizes = np.bincount(code, drawn > 0, J)
        for j, value in enumerate(values):
            if not sizes[j]:
                continue
            row: Row = {
                "column": column,
                "value": value,
                "people": int(sizes[j]),
                "in_draw": int(tally.rounds[j]),
            }
            for name, found in rates.items():
                row[f"{name}_rate"] = float(found.rate[j])
                row[f"{name}_low"], row[f"{name}_high"] = float(found.low[j]), float(found.high[j])
                whole = float(found.rate[j]) if not rows else rows[0][f"{name}_rate"]
                row[f"{name}_relative"] = float(found.rate[j]) / whole if whole > 0 else math.nan
            row["stated_rate"] = float(tally.expected[j] / tally.rounds[j])
            row["z"] = tally.z(j)
            row["p"] = _two_sided(row["z"])
            rows.append(row)
    _flag(rows)
    return rows


def _pooled(values: list[str], code: Ints) -> tuple[list[str], Ints]:
    """A group column with one entry, last, for all values that a single person has (it may identify them) and those beyond the largest."""
    sizes = np.bincount(code, minlength=len(values))
    kept = np.sort(np.argsort(-sizes, kind="stable")[:MOST_VALUES])
    kept = kept[sizes[kept] > 1]
    place = np.full(len(values), len(kept))
    place[kept] = np.arange(len(kept))
    names = [values[j] or "(none)" for j in kept]
    return (names if len(kept) == len(values) else [*names, OTHERS]), place[code]


def _fairness(planned: Sequence[Planned]) -> list[Row]:
    """A row a round: pairs of a draw in which who would gain less had the higher probability, and by how much at most."""
    rows = []
    for one in planned:
        broken, pairs, worst = 0, 0, 0.0
        for who, _ in one.draws():
            score, p = one.score[who], one.probability[who]
            pairs += len(who) * (len(who) - 1) // 2
            found = int(metrics.unfair_pairs(p, score))
            broken += found
            if found:
                order = np.lexsort(
                    (p, score)
                )  # of equal scores the lowest probability first, so that none is set against another
                worst = max(worst, float(np.max(np.maximum.accumulate(p[order]) - p[order])))
        rows.append(
            {
                "round": one.round,
                "pairs": pairs,
                "unfair_pairs": broken,
                "largest_difference": worst,
            }
        )
    return rows


@dataclass(frozen=True, eq=False)
class _Predictions:
    """Every complete round of everybody, [q] over all rounds: what the model of its plan said, and what came."""

    person: Ints
    round: Ints
    action: Ints
    state: Ints
    after: Ints
    law: Floats  # [q, S] chance of each next state


def _predictions(
    planned: Sequence[Planned], model_of: Callable[[int], Model], S: int
) -> _Predictions:
    columns: list[tuple[Ints, ...]] = []
    laws = [np.empty((0, S))]
    for one in planned:
        if len(one.complete):
            P = model_of(one.model).P
            who = one.complete[one.person[one.complete] < len(P)]
            person, action, state = one.person[who], one.contacted[who], one.state[who]
            columns.append((person, np.full(len(who), one.round), action, state, one.after[who]))
            laws.append(P[person, action, state])
    person, when, action, state, after = (
        (np.concatenate(parts) for parts in zip(*columns, strict=True))
        if columns
        else [np.empty(0, np.int64)] * 5
    )
    return _Predictions(person, when, action, state, after, np.concatenate(laws))


def _engagement(found: _Predictions, z: float) -> list[Row]:
    """A row a round with outcomes: predicted and realised mean reward. The prediction knows who was contacted, not who would be."""
    rows = []
    S = found.law.shape[1]
    value = np.arange(S) / (S - 1)
    for number in np.unique(found.round):
        who = np.flatnonzero(found.round == number)
        law, after = found.law[who], found.after[who]
        mean = law @ value
        predicted, realised = float(mean.mean()), float(value[after].mean())
        sd = math.sqrt(max(float(np.sum(law @ value**2 - mean**2)), 0.0)) / len(who)
        score = _z(realised - predicted, sd * sd)
        rows.append(
            {
                "round": int(number),
                "people": len(who),
                "predicted": predicted,
                "low": max(predicted - z * sd, 0.0),
                "high": min(predicted + z * sd, 1.0),
                "realised": realised,
                "z": score,
                "p": _two_sided(score),
                "brier": _brier(law, after),
                "brier_of_share": _brier(np.bincount(after, minlength=S)[None] / len(who), after),
            }
        )
    _flag(rows)
    return rows


def _brier(law: Floats, after: Ints) -> float:
    """Mean of sum_s' (1{s'} - P)^2 / 2; law [q, S] or [1, S]."""
    hit = np.take_along_axis(
        np.broadcast_to(law, (len(after), law.shape[1])), after[:, None], axis=1
    )[:, 0]
    return float(np.mean((np.sum(law**2, axis=1) - 2 * hit + 1) / 2))


def _calibration(
    found: _Predictions, states: Sequence[str], z: float
) -> tuple[list[Row], list[Row]]:
    """The best state, predicted against observed: in bins of predicted chance, and by state and action."""

    chance, came = found.law[:, -1], found.after == len(states) - 1

    def compared(rows: Ints) -> Row:
        predicted = float(chance[rows].mean())
        sd = math.sqrt(float(np.sum(chance[rows] * (1 - chance[rows])))) / len(rows)
        observed = float(came[rows].mean())
        score = _z(observed - predicted, sd * sd) if len(rows) >= LEAST_MOVES else math.nan
        ends = {"low": max(predicted - z * sd, 0.0), "high": min(predicted + z * sd, 1.0)}
        return {
            "moves": len(rows),
            "predicted": predicted,
            **ends,
            "observed": observed,
            "z": score,
            "p": _two_sided(score),
        }

    bins = []
    order = np.argsort(chance, kind="stable")
    for rows in np.array_split(order, int(np.clip(len(order) // LEAST_MOVES, 1, MOST_BINS))):
        if len(rows):
            ends = {"from": float(chance[rows[0]]), "to": float(chance[rows[-1]])}
            bins.append({**ends, **compared(rows)})
    cells = []
    for a in (0, 1):
        for s, name in enumerate(states):
            rows = np.flatnonzero((found.action == a) & (found.state == s))
            if len(rows):
                cells.append({"contacted": bool(a), "state": name, **compared(rows)})
    _flag(bins)
    _flag(cells)
    return bins, cells


def _drift(
    found: _Predictions, history: History, n: int, states: Sequence[str], z: float
) -> tuple[list[Row], Row]:
    """Moves of the recent rounds (the later half of those with outcomes) against what was expected of them."""
    rounds = np.unique(found.round)
    if not len(rounds):
        return [], {"first": None, "last": None}
    span, S = {"first": int(rounds[len(rounds) // 2]), "last": int(rounds[-1])}, len(states)
    old = history.round <= span["first"]
    earlier = count_transitions(
        history.person[old], history.round[old], history.state[old], history.contacted[old], n, S
    )
    recent = found.round >= span["first"]
    rows: list[Row] = []
    for a in (0, 1):
        for s in range(S):
            who = np.flatnonzero(recent & (found.action == a) & (found.state == s))
            if not len(who):
                continue
            N = earlier[:, a, s].sum(axis=1)  # [n]
            before = int(N.sum())
            for s2 in range(1, S) if S == 2 else range(S):
                chance, came = found.law[who, s2], found.after[who] == s2
                error = np.bincount(found.person[who], came - chance, n)
                share = float(earlier[:, a, s, s2].sum()) / before if before else math.nan
                scatter = earlier[:, a, s, s2] - share * N
                mean, size = float(chance.mean()), len(who)
                variance = float(np.sum(error**2)) / size**2 + (
                    float(np.sum(scatter**2)) / before**2 if before else math.nan
                )
                observed = float(came.mean())
                score = (
                    _z(observed - mean, variance) if min(size, before) >= LEAST_MOVES else math.nan
                )
                half = z * math.sqrt(variance)
                rows.append(
                    {
                        "contacted": bool(a),
                        "state": states[s],
                        "next": states[s2],
                        "earlier_moves": before,
                        "earlier": share,
                        "moves": size,
                        "expected": mean,
                        "low": max(mean - half, 0.0),
                        "high": min(mean + half, 1.0),
                        "observed": observed,
                        "z": score,
                        "p": _two_sided(score),
                    }
                )
    _flag(rows)
    return rows, span


# What another policy would have brought.

Chances = Callable[
    [Floats, int, float], Floats
]  # (scores [m], k, the plan's c) -> probability of the list [m]


def _softmax(c: float, score: Floats, k: int) -> Floats:
    return Rule.softmax(c, "joint").inclusion(score, k) if k else np.zeros(len(score))


def _policies(planned: Sequence[Planned], cs: Sequence[float]) -> dict[str, Chances]:
    """The policies that lists are compared with; the programme's own is a check, for it must give what was realised."""
    found: dict[str, Chances] = {
        "as drawn": lambda score, k, c: _softmax(c, score, k),
        "nobody listed": lambda score, k, c: np.zeros(len(score)),
        "Random": lambda score, k, c: np.full(len(score), k / len(score)),
        "most effective": lambda score, k, c: _softmax(math.inf, score, k),
    }
    if not cs and any(0 < one.c < math.inf for one in planned):
        found["half of c"] = lambda score, k, c: _softmax(c / 2, score, k)
        found["twice c"] = lambda score, k, c: _softmax(2 * c, score, k)
    for other in cs:
        found[f"c = {other:g}"] = lambda score, k, c, other=other: _softmax(other, score, k)  # type: ignore[misc]
    return found


def off_policy(
    planned: Sequence[Planned], policies: Mapping[str, Chances], n: int, S: int, z: float
) -> list[Row]:
    """A row a policy: mean reward in the round after, had it drawn the lists; see the top of this file."""
    rounds = np.zeros(n)  # of each person, in the draw and with a known outcome
    reward = np.zeros(n)
    weight, weighted = (
        {name: np.zeros(n) for name in policies},
        {name: np.zeros(n) for name in policies},
    )  # sums of w and w Y
    parts = {
        name: np.zeros((2, 3)) for name in policies
    }  # not listed, listed: sums of w, w^2, and the other policy's own share
    moved, unsupported = dict.fromkeys(policies, 0.0), dict.fromkeys(policies, 0.0)
    for one in planned:
        for who, k in one.draws():
            kept = np.flatnonzero(one.after[who] >= 0)
            rows = who[kept]
            person, p, listed, Y = (
                one.person[rows],
                one.probability[rows],
                one.listed[rows],
                one.after[rows] / (S - 1),
            )
            rounds += np.bincount(person, minlength=n)
            reward += np.bincount(person, Y, n)
            for name, chances in policies.items():
                q = chances(one.score[who], k, one.c)[kept]
                top, bottom = np.where(listed == 1, q, 1 - q), np.where(listed == 1, p, 1 - p)
                w = np.divide(
                    top, bottom, out=np.zeros(len(p)), where=bottom > 0
                )  # 0: a list that could not be drawn says nothing
                weight[name] += np.bincount(person, w, n)
                weighted[name] += np.bincount(person, w * Y, n)
                for a in (0, 1):
                    mine = w[listed == a]
                    parts[name][a] += mine.sum(), mine @ mine, np.sum(q if a else 1 - q)
                shift = np.abs(q - p)
                moved[name] += float(shift.sum())
                unsupported[name] += float(
                    shift[np.where(q > p, q > HEAVIEST * p, 1 - q > HEAVIEST * (1 - p))].sum()
                )
    total = float(rounds.sum())
    if not total:
        return []
    realised = float(reward.sum()) / total
    found = []
    for name in policies:
        share = unsupported[name] / moved[name] if moved[name] > 1e-9 * total else 0.0
        sums, squares, wanted = parts[name].T  # each [2]
        effective = np.divide(sums**2, squares, out=np.zeros(2), where=squares > 0)
        thin = (effective < LEAST_EFFECTIVE) & (wanted > 1e-9 * total)
        row: Row = {
            "policy": name,
            "estimable": name == "as drawn" or not (share > UNSUPPORTED or thin.any()),
            "why_not": "",
            "rounds": int(total),
            "effective_listed": float(effective[1]),
            "effective_not_listed": float(effective[0]),
            "unsupported": share,
        }
        numbers = (
            "estimate",
            "low",
            "high",
            "difference",
            "difference_low",
            "difference_high",
            "unnormalised",
        )
        row |= dict.fromkeys(numbers, math.nan)
        if share > UNSUPPORTED:
            row["why_not"] = f"{share:.0%} of what it would change was (almost) never drawn"
        elif not row["estimable"]:
            row["why_not"] = (
                f"rests on the worth of {effective[thin].min():.0f} rounds of people; {LEAST_EFFECTIVE:.0f} are needed"
            )
        else:
            size = float(weight[name].sum())
            V = float(weighted[name].sum()) / size
            pull = (weighted[name] - V * weight[name]) / size  # [n] each person's pull on V
            gap = (
                pull - (reward - realised * rounds) / total
            )  # and on its difference from what was realised
            persons = max(int(np.count_nonzero(rounds)), 2)
            half, wide = (
                z * math.sqrt(float(e @ e) * persons / (persons - 1)) for e in (pull, gap)
            )
            values = (
                max(V - half, 0.0),
                min(V + half, 1.0),
                V - realised,
                V - realised - wide,
                V - realised + wide,
            )
            row |= dict(
                zip(numbers, (V, *values, float(weighted[name].sum()) / total), strict=True)
            )
        found.append(row)
    return found


# The whole.


@dataclass(frozen=True)
class Audit:
    """Everything that was found, as numbers and tables; nobody's identifier is in it unless asked for."""

    people: int
    round_name: str
    states: list[str]
    level: float  # of intervals
    findings: list[str]  # in plain words
    rounds: list[Row]
    lists: list[Row]
    lists_test: Row
    spread: Row
    groups: list[Row]
    fairness: list[Row]
    engagement: list[Row]
    off_policy: list[Row]
    calibration: list[Row]
    cells: list[Row]
    drift: list[Row]
    recent: Row  # the rounds that drift is about
    histograms: dict[str, list[int]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what is not known is None, infinity is "inf"."""
        return {part.name: _plain(getattr(self, part.name)) for part in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def audit(database: Store, cs: Sequence[float] = (), names: int = 0) -> Audit:
    """What the programme's record says, as of one moment; nothing is written.

    ``cs``: multipliers c of other policies to estimate, instead of half and twice the programme's own. ``names``: how many of those who
    wait longest to name.
    """
    with database.reading() as connection:
        _, settings = current_settings(connection)
        people, history = load_people(connection), load_history(connection)
        planned = _read(connection, people, history)
        loaded: dict[int, Model] = {}

        def model_of(number: int) -> Model:
            if number not in loaded:
                loaded.clear()  # plans mostly have models of their own: one at a time is enough, and little to hold
                loaded[number] = load_model(connection, number)
            return loaded[number]

        z = NormalDist().inv_cdf((1 + settings.level) / 2)
        S, states = settings.S, list(settings.states)
        lists, test = _lists(planned, z)
        spread, histograms = _spread(planned, people, history, z, names)
        predictions = _predictions(planned, model_of, S)
        calibration, cells = _calibration(predictions, states, z)
        drift, recent = _drift(predictions, history, people.n, states, z)
    found = Audit(
        people=people.n,
        round_name=settings.round,
        states=states,
        level=settings.level,
        findings=[],
        rounds=_rounds(planned),
        lists=lists,
        lists_test=test,
        spread=spread,
        groups=_groups(planned, people, S, z),
        fairness=_fairness(planned),
        engagement=_engagement(predictions, z),
        off_policy=off_policy(planned, _policies(planned, cs), people.n, S, z),
        calibration=calibration,
        cells=cells,
        drift=drift,
        recent=recent,
        histograms=histograms,
    )
    found.findings.extend(_findings(found))
    return found


REPLAY = "replay the draws with: softfair plan --verify"


def _findings(found: Audit) -> Iterator[str]:
    """What to take away, a sentence each; what calls for action begins with "Look:"."""
    if not found.people:
        yield "The programme has no people yet; import them with: softfair import people FILE."
        return
    if not found.rounds:
        yield "No round has been planned yet; make a list with: softfair plan."
        return
    test, spread = found.lists_test, found.spread
    size = f"{_count(sum(row['listed'] for row in found.rounds), 'place')} on {_count(len(found.rounds), 'list')}"
    if test["impossible"]:
        yield f"Look: {_count(test['impossible'], 'place')} on lists that a probability of 0 or 1 rules out; {REPLAY}."
    if math.isnan(test["p"]):
        yield f"{size}: nothing was left to chance that could be checked."
    elif test["p"] < SIGNIFICANT / 5:
        yield f"Look: the lists do not agree with the stated probabilities ({_chance(test['p'])}); {REPLAY}."
    else:
        yield f"The lists agree with the stated probabilities ({size}, {_chance(test['p'])})."
    if anew := [row for row in found.rounds if row["version"] > 1]:
        which = ", ".join(f"{row['round']} ({row['version']} versions)" for row in anew[:5]) + (
            ", ..." if len(anew) > 5 else ""
        )
        yield f"Look: planned more than once, each time for a reason that is kept: round {which}."
    if not any(row["recorded"] for row in found.rounds):
        yield "Nothing has been recorded of the planned rounds yet; tell what happened with: softfair record FILE."
    else:
        total = {
            name: sum(row[name] for row in found.rounds)
            for name in ("reached", "not_reached", "off_list", "opted_out_contacted")
        }
        asked = total["reached"] + total["not_reached"]
        share = f" ({total['reached'] / asked:.0%})" if asked else ""
        off = _count(total["off_list"], "contact")
        yield f"Of {asked} listed and recorded, {total['reached']} were reached{share}; {off} off the list."
        if total["opted_out_contacted"]:
            yield f"Look: {_count(total['opted_out_contacted'], 'contact')} with people who had opted out."
    if spread["in_draw"]:
        expected = f"{spread['never_listed_expected']:.1f} ({spread['never_listed_low']:.1f} to {spread['never_listed_high']:.1f})"
        yield f"{spread['never_listed']} of {spread['in_draw']} people in the draw were never listed; the probabilities say {expected}."
    else:
        yield "Nobody was in the draw."
    if spread["waiting_longest"] is not None:
        yield (
            f"{spread['never_contacted_ever']} of {spread['here_now']} people here now were never contacted since round "
            f"{spread['first_round']}; the longest has waited {_count(spread['waiting_longest'], 'round')}."
        )
    unfair = sum(row["unfair_pairs"] for row in found.fairness)
    if unfair:
        worst = max(row["largest_difference"] for row in found.fairness)
        yield f"Look: in {unfair} pairs who would gain less had the higher probability, by up to {worst:.2g}."
    elif any(row["pairs"] for row in found.fairness):
        yield "Soft fairness holds: nobody had a lower probability than someone who would gain less."
    for row in found.groups:
        if row["flagged"]:
            name = f"{row['column']} {row['value']}"
            yield f"Look: {name} was listed at {row['selection_rate']:.1%} a round, the probabilities say {row['stated_rate']:.1%}."
    if found.engagement:
        weight = [row["people"] for row in found.engagement]
        predicted, realised = (
            np.average([row[name] for row in found.engagement], weights=weight)
            for name in ("predicted", "realised")
        )
        beyond = sum(row["flagged"] for row in found.engagement)
        word = f"beyond chance in {_count(beyond, 'round')}" if beyond else "within chance"
        yield f"{'Look: ' if beyond else ''}Predicted engagement {predicted:.1%}, realised {realised:.1%}: {word}."
    elif any(row["recorded"] for row in found.rounds):
        yield "No states after a planned round are known yet, so nothing can be said about outcomes."
    for row in found.off_policy:
        if row["policy"] == "Random":
            if row["estimable"]:
                ends = f"{_points(row['difference_low'])} to {_points(row['difference_high'])}"
                yield f"By lottery, the next round's engagement would have differed by {_points(row['difference'])} points ({ends})."
            else:
                yield f"What a lottery would have brought cannot be told: {row['why_not']}."
    if found.drift:
        moved = [row for row in found.drift if row["flagged"]]
        for row in moved:
            action = "after a contact" if row["contacted"] else "without a contact"
            yield (
                f"Look: drift. From {row['state']} {action}, {row['observed']:.0%} went to {row['next']} since round "
                f"{found.recent['first']}; {row['expected']:.0%} were expected."
            )
        if not moved:
            yield f"No drift since round {found.recent['first']}: people move between states as they did before."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _chance(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


# For reading: the same sections on a terminal and on a page.


@dataclass(frozen=True)
class Section:
    """A table with what it says in a sentence or two."""

    key: str
    title: str
    lead: str
    headings: list[str]
    rows: list[list[str]]


def _percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None or math.isnan(share) else f"{100 * share:.{digits}f} %"


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}".removesuffix(".0")


def _ends(low: float, high: float, form: Callable[[float], str]) -> str:
    return "" if math.isnan(low) else f" ({form(low)} to {form(high)})"


def _p(row: Row) -> str:
    shown = "–" if math.isnan(row["p"]) else "<0.001" if row["p"] < 0.001 else f"{row['p']:.3f}"
    return f"{shown} (!)" if row.get("flagged") else shown


def sections(found: Audit) -> list[Section]:
    """Every table that has something in it."""
    level = f"{found.level:.0%}"
    parts = [
        Section(
            "lists",
            "Lists against stated probabilities",
            f"How many should be listed, with the range that {level} of honest draws keep to (a list has a fixed number of places, which "
            "narrows it), and how many were. Reached: of those listed whose contact is recorded.",
            [
                "stated chance",
                "in the draw",
                "expected",
                "listed",
                "p",
                "reached",
                "contacted off the list",
            ],
            [
                [
                    f"{_percent(row['from'])} to {_percent(row['to'])}",
                    str(row["in_draw"]),
                    _number(row["expected"]) + _ends(row["low"], row["high"], _number),
                    str(row["listed"]),
                    _p(row),
                    _percent(row["reached_share"], 0)
                    + _ends(
                        row["reached_low"], row["reached_high"], lambda share: _percent(share, 0)
                    ),
                    str(row["off_list"]),
                ]
                for row in found.lists
            ],
        ),
        Section("rounds", "Round by round", _rounds_lead(found), *_rounds_table(found)),
        Section(
            "spread",
            "Who is reached, and who waits",
            "Entropy and Gini's coefficient say how evenly lists and contacts fell on those in the draw: entropy is highest, Gini's 0, "
            "if all had as many. A wait is a run of rounds without a contact; all recorded rounds count, also those before the first plan.",
            ["", "lists", "contacts"],
            _spread_table(found),
        ),
        Section(
            "groups",
            "Groups",
            f"Rates a person and round, with {level} intervals that take the rounds of a person together; in brackets the ratio to "
            "everybody's. Stated: what the probabilities say, p whether the lists agree with it. Values that only one person has are "
            "put together.",
            [
                "group",
                "people",
                "listed",
                "stated",
                "p",
                "contacted",
                f"outcome: {_outcome(found)}",
            ],
            [
                [
                    f"{row['column']} {row['value']}".strip(),
                    str(row["people"]),
                    _rate(row, "selection"),
                    _percent(row["stated_rate"]),
                    _p(row),
                    _rate(row, "contact"),
                    _rate(row, "outcome"),
                ]
                for row in found.groups
            ],
        ),
        Section(
            "off_policy",
            "What another policy would have brought",
            f"{_outcome(found).capitalize()} in the round after, had each planned round's list been drawn by the other policy from the "
            "same people in the same states: one round ahead, by being listed (whose chance is known), not by being contacted. Inverse "
            f"probability weights, made to average 1; {level} intervals take the rounds of a person together. The last columns are how "
            "many rounds of people, listed and not, the estimate is worth.",
            ["policy", "estimate", "difference, points", "worth: listed", "not listed"],
            [
                [
                    row["policy"],
                    _percent(row["estimate"]) + _ends(row["low"], row["high"], _percent)
                    if row["estimable"]
                    else f"cannot be told: {row['why_not']}",
                    _points(row["difference"])
                    + _ends(row["difference_low"], row["difference_high"], _points)
                    if row["estimable"]
                    else "–",
                    _number(row["effective_listed"], 0),
                    _number(row["effective_not_listed"], 0),
                ]
                for row in found.off_policy
            ],
        ),
        Section(
            "calibration",
            "Predicted and observed",
            f"The chance of the best state next ({found.states[-1]}), as the model of each plan gave it, against what came. In brackets: "
            f"where {level} of observed shares should lie if the model is right.",
            ["predicted chance", "moves", "predicted", "observed", "p"],
            [
                [
                    f"{_percent(row['from'], 0)} to {_percent(row['to'], 0)}"
                    if "from" in row
                    else f"from {row['state']}, {'contacted' if row['contacted'] else 'not contacted'}",
                    str(row["moves"]),
                    _percent(row["predicted"]) + _ends(row["low"], row["high"], _percent),
                    _percent(row["observed"]),
                    _p(row),
                ]
                for row in [*found.calibration, *found.cells]
            ],
        ),
        Section(
            "drift",
            "Drift",
            f"Moves in rounds {found.recent['first']} to {found.recent['last']}, each against what the history before it led to expect "
            "of the same person; earlier: the plain share before, of whoever was in that state then. (!) is beyond chance, all rows taken "
            "together.",
            ["move", "earlier", "expected", "observed", "moves", "p"],
            [
                [
                    f"{row['state']} to {row['next']}, {'contacted' if row['contacted'] else 'not contacted'}",
                    _percent(row["earlier"]),
                    _percent(row["expected"]) + _ends(row["low"], row["high"], _percent),
                    _percent(row["observed"]),
                    str(row["moves"]),
                    _p(row),
                ]
                for row in found.drift
            ],
        ),
    ]
    return [part for part in parts if part.rows]


def _outcome(found: Audit) -> str:
    return (
        f"share in state {found.states[-1]}"
        if len(found.states) == 2
        else "mean reward (0 worst state, 100 % best)"
    )


def _rate(row: Row, name: str) -> str:
    rate = _percent(row[f"{name}_rate"]) + _ends(row[f"{name}_low"], row[f"{name}_high"], _percent)
    ratio = row[f"{name}_relative"]
    return rate if math.isnan(ratio) or not row["column"] else f"{rate} [{ratio:.2f}]"


def _rounds_lead(found: Audit) -> str:
    return (
        f"Predicted and realised: {_outcome(found)} after the round, of everybody whose contact and states before and after are known; "
        f"in brackets where {found.level:.0%} of outcomes should lie if the model is right. Brier's score is 0 for perfect predictions; "
        "beside it that of giving everybody the same, realised share. Unfair pairs: who would gain less had the higher probability."
    )


def _rounds_table(found: Audit) -> tuple[list[str], list[list[str]]]:
    outcome = {row["round"]: row for row in found.engagement}
    fair = {row["round"]: row for row in found.fairness}
    headings = [
        "round",
        "c",
        "in the draw",
        "listed",
        "reached",
        "off the list",
        "predicted",
        "realised",
        "Brier",
        "unfair pairs",
    ]
    rows = []
    for row in found.rounds:
        after = outcome.get(row["round"])
        rows.append(
            [
                str(row["round"]),
                f"{row['c']:.3g}",
                str(row["in_draw"]),
                str(row["listed"]),
                str(row["reached"]) if row["recorded"] else "–",
                str(row["off_list"]) if row["recorded"] else "–",
                _percent(after["predicted"]) + _ends(after["low"], after["high"], _percent)
                if after
                else "–",
                _percent(after["realised"]) + (" (!)" if after["flagged"] else "")
                if after
                else "–",
                f"{after['brier']:.3f} / {after['brier_of_share']:.3f}" if after else "–",
                str(fair[row["round"]]["unfair_pairs"]),
            ]
        )
    return headings, rows


def _spread_table(found: Audit) -> list[list[str]]:
    spread = found.spread
    if not found.rounds:
        return []
    expected = _number(spread["never_listed_expected"]) + _ends(
        spread["never_listed_low"], spread["never_listed_high"], _number
    )
    rows = [
        ["in all", str(spread["lists"]), str(spread["contacts"])],
        ["people in the draw", str(spread["in_draw"]), str(spread["in_recorded_draw"])],
        ["of these never", str(spread["never_listed"]), str(spread["never_contacted"])],
        ["never, by the stated probabilities", expected, "–"],
        [
            f"entropy (at most {spread['entropy_most']:.2f})",
            *(_number(spread[f"entropy_{name}"], 2) for name in ("listed", "contacted")),
        ],
        ["Gini", *(_number(spread[f"gini_{name}"], 2) for name in ("listed", "contacted"))],
        ["longest wait of anybody, rounds", "–", _number(spread["longest_wait"], 0)],
        [
            "waiting now: median, longest",
            "–",
            f"{_number(spread['waiting_median'])}, {_number(spread['waiting_longest'], 0)}",
        ],
        [
            f"never since round {spread['first_round']}, of {spread['here_now']} here now",
            "–",
            str(spread["never_contacted_ever"]),
        ],
    ]
    return [
        *rows,
        *(
            [person["id"], "–", f"waiting {person['rounds']}"]
            for person in spread.get("waiting_people", [])
        ),
    ]


def show(found: Audit, console: Console) -> None:
    """What stands out and every table, on a terminal."""
    from rich.table import Table
    from rich.text import Text

    for sentence in found.findings:
        console.print(Text(f"· {sentence}", style="bold" if sentence.startswith("Look:") else ""))
    for part in sections(found):
        shown = Table(
            *part.headings,
            title=part.title,
            caption=part.lead,
            title_justify="left",
            caption_justify="left",
        )
        for column in shown.columns[1:]:
            column.justify = "right"
        for row in part.rows:
            shown.add_row(*map(Text, row))  # as it is: a group's name may look like markup
        console.print(shown)


NEVER = "#c0392b"  # the colour of those who had nothing
LOOK = ' class="look"'
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>softfair: audit</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 60rem; padding: 1rem; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.2rem; margin-top: 2.5rem; }}
img {{ max-width: 100%; height: auto; }} .wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; }} caption {{ text-align: left; }}
th, td {{ padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }} th:first-child, td:first-child {{ text-align: left; }}
ul {{ padding-left: 1.2rem; }} li.look {{ font-weight: 600; color: #a02318; }}
p.lead, footer {{ color: #555; font-size: .9rem; }}
</style></head><body>
<h1>Audit of the programme</h1>
<p>{intro}</p>
<ul>{findings}</ul>
{sections}
<footer>{footer}</footer>
</body></html>
"""


def write_page(found: Audit, path: str | Path) -> Path:
    """One HTML file that needs nothing else; its path."""
    drawings: dict[str, Callable[[Audit], list[tuple[str, bytes]]]] = {
        "lists": _draw_lists,
        "spread": _draw_spread,
        "groups": _draw_groups,
        "off_policy": _draw_policies,
        "calibration": _draw_calibration,
    }
    from matplotlib import rc_context

    parts = []
    for part in sections(found):
        with rc_context({"text.parse_math": False}):  # a group may be called $x
            drawn = drawings[part.key](found) if part.key in drawings else []
        pictures = "".join(
            f'<img alt="{html.escape(name)}" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
            for name, picture in drawn
        )
        heads = "".join(f"<th>{html.escape(heading)}</th>" for heading in part.headings)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in part.rows
        )
        parts.append(
            f'<section><h2>{html.escape(part.title)}</h2><p class="lead">{html.escape(part.lead)}</p>{pictures}'
            f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>'
        )
    findings = "".join(
        f"<li{LOOK if sentence.startswith('Look:') else ''}>{html.escape(sentence)}</li>"
        for sentence in found.findings
    )
    rounds = [row["round"] for row in found.rounds]
    span = f", rounds {rounds[0]} to {rounds[-1]} planned" if rounds else ""
    page = PAGE.format(
        intro=f"{_count(found.people, 'person').replace('persons', 'people')}{span}; a round is a {html.escape(found.round_name)}.",
        findings=findings,
        sections="\n".join(parts),
        footer="Nobody is named here. (!) marks what chance does not explain, the rows of its table taken together."
        if "waiting_people" not in found.spread
        else "(!) marks what chance does not explain, the rows of its table taken together.",
    )
    target = Path(path)
    write_whole(target, page.encode())
    return target


def _picture(name: str, draw: Callable[[Axes], None], height: float = 3.4) -> tuple[str, bytes]:
    figure, axes = new_figure(height=height)
    draw(axes[0])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return name, buffer.getvalue()


def _draw_lists(found: Audit) -> list[tuple[str, bytes]]:
    rows = found.lists

    def draw(ax: Axes) -> None:
        size = np.array([row["in_draw"] for row in rows], dtype=np.float64)
        stated, listed, low, high = (
            100 * np.array([row[name] for row in rows]) / size
            for name in ("expected", "listed", "low", "high")
        )
        ax.plot([0, stated.max() * 1.05], [0, stated.max() * 1.05], color=FAINT, linewidth=1)
        ax.errorbar(
            stated,
            stated,
            yerr=np.array([stated - low, high - stated]),
            fmt="none",
            color=FAINT,
            capsize=3,
            label="range expected",
        )
        ax.plot(stated, listed, "o", color=COLOURS[0], label="listed")
        ax.set_xlabel("stated chance, %")
        ax.set_ylabel("listed, %")
        ax.legend(frameon=False)

    return [_picture("stated chance against share listed", draw)]


def _bars(ax: Axes, counts: Sequence[int], label: str, colour: str, none: str) -> None:
    """A histogram of whole numbers 0, 1, 2, ... in at most 40 bars, the one of 0 alone in the colour ``none``."""
    width = -(-len(counts) // 40)
    starts = np.arange(0, len(counts), width)
    bars = ax.bar(
        starts + (width - 1) / 2,
        np.add.reduceat(np.asarray(counts), starts),
        width=0.9 * width,
        color=colour,
    )
    if width == 1:
        bars[0].set_facecolor(none)
    ax.set_xlabel(label)
    ax.set_ylabel("people")


def _draw_spread(found: Audit) -> list[tuple[str, bytes]]:
    looks = {
        "listed": ("times listed", COLOURS[0], NEVER),
        "contacted": ("times contacted in planned rounds", COLOURS[1], NEVER),
        "waiting": ("rounds waited by now without a contact", COLOURS[3], COLOURS[3]),
    }
    return [
        _picture(
            f"histogram: {label}",
            partial(_bars, counts=counts, label=label, colour=colour, none=none),
            2.8,
        )
        for key, (label, colour, none) in looks.items()
        if (counts := found.histograms[key])
    ]


def _dots(ax: Axes, rows: Sequence[tuple[str, float, float, float]], centre: float) -> None:
    """A row each: name, value with its interval."""
    for place, (_, value, low, high) in enumerate(rows):
        ax.plot([low, high], [place, place], color=COLOURS[0], linewidth=2)
        ax.plot([value], [place], "o", color=COLOURS[0])
    ax.axvline(centre, color=FAINT, linewidth=1)
    ax.set_yticks(range(len(rows)), [name[:32] for name, *_ in rows], color=INK)
    ax.set_ylim(len(rows) - 0.5, -0.5)  # the first on top


def _draw_groups(found: Audit) -> list[tuple[str, bytes]]:
    made = []
    for name, label in (
        ("selection", "listed, % of rounds"),
        ("outcome", f"{_outcome(found)} after, %"),
    ):
        rows = [
            (
                f"{row['column']} {row['value']}",
                *(100 * row[f"{name}_{part}"] for part in ("rate", "low", "high")),
            )
            for row in found.groups[1:]
            if not math.isnan(row[f"{name}_rate"])
        ]
        if rows:

            def draw(
                ax: Axes, rows: list[Any] = rows, name: str = name, label: str = label
            ) -> None:
                _dots(ax, rows, 100 * found.groups[0][f"{name}_rate"])
                ax.set_xlabel(f"{label} (line: everybody)")

            made.append(_picture(f"by group: {label}", draw, 1.2 + 0.28 * len(rows)))
    return made


def _draw_policies(found: Audit) -> list[tuple[str, bytes]]:
    rows = [
        (
            row["policy"],
            *(100 * row[part] for part in ("difference", "difference_low", "difference_high")),
        )
        for row in found.off_policy[1:]
        if row["estimable"]
    ]

    def draw(ax: Axes) -> None:
        _dots(ax, rows, 0.0)
        ax.set_xlabel(f"{_outcome(found)}: difference from what was drawn, points")

    return (
        [_picture("other policies against the lists drawn", draw, 1.2 + 0.3 * len(rows))]
        if rows
        else []
    )


def _draw_calibration(found: Audit) -> list[tuple[str, bytes]]:
    rows = found.calibration

    def draw(ax: Axes) -> None:
        predicted, observed, low, high = (
            100 * np.array([row[name] for row in rows])
            for name in ("predicted", "observed", "low", "high")
        )
        ax.plot([0, 100], [0, 100], color=FAINT, linewidth=1)
        bars = np.array([predicted - low, high - predicted])
        ax.errorbar(
            predicted,
            predicted,
            yerr=bars,
            fmt="none",
            color=FAINT,
            capsize=3,
            label="range if the model is right",
        )
        ax.plot(predicted, observed, "o", color=COLOURS[0], label="observed")
        ax.set_xlabel(f"predicted chance of {found.states[-1]}, %")
        ax.set_ylabel("observed, %")
        ax.legend(frameon=False)

    return [_picture("predicted chance against observed share", draw)]
