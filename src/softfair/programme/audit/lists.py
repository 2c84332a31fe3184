"""The lists: what each round drew, whom it reached, and whether draws were honest and fair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ... import metrics
from ..eligibility import Status
from ..plans.keeping import clock_of, left_off_lists
from ..promises import NO_PROMISE
from .evidence import Planned, draws
from .statistics import JointTest, Tally, joint_test, wilson

__all__ = [
    "FairnessRow",
    "ListsRow",
    "ListsTest",
    "RoundRow",
    "fairness_of",
    "lists_of",
    "rounds_of",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_BINS = 10
LEAST_VARIANCE = 5.0  # of the number listed in a bin: enough for the normal law


@dataclass(frozen=True)
class RoundRow:
    """One planned round in numbers of people."""

    round: int
    version: int
    c: float
    in_draw: int
    capacity: int
    listed: int
    recorded: bool  # whether any contact of the round is known
    contacted: int
    reached: int  # listed and contacted
    not_reached: int
    not_recorded: int
    off_list: int  # contacted, neither listed nor called nor arranged
    arranged: int
    opted_out_contacted: int
    no_site: int = 0  # without a chance: no capacity is set for their group
    called: int = 0  # from the reserve
    called_reached: int = 0  # of these
    overrides: int = 0  # of these, by an officer's decision
    wait: int = 0  # promised: of so many lists in a row everybody is on one; 0: not promised
    least: float = 0.0  # chance that was promised
    by_promise: int = 0  # listed because it was the last list that their time allowed
    longest_off: int = 0  # lists in a row that somebody in the draw has been left off, if promised
    lowest: float = 1.0  # chance of anybody in the draw
    shares: int = 0  # bounds on the places of groups that were promised, over all sites
    shares_broken: int = 0  # of these


def rounds_of(planned: Sequence[Planned]) -> tuple[RoundRow, ...]:
    """The list of each round, who of it was reached, who else was contacted.

    Parameters
    ----------
    planned : sequence of Planned
        The rounds, with what was recorded of them.

    Returns
    -------
    tuple of RoundRow
        A row a round.
    """
    rows = []
    clocks: dict[int, NDArray[np.int8]] = {}
    for one in planned:
        clock = clock_of(one.status, one.site, one.listed, one.sites)
        clocks[one.round] = clock
        promise = NO_PROMISE if one.kept is None else one.kept.promise
        off = np.zeros(len(one.person), np.int64)
        if promise.wait:
            counted = [clocks[at] for at in reversed(clocks) if at >= promise.since]
            off = left_off_lists(counted, len(one.person))
        listed, known, contacted = one.listed == 1, one.contacted >= 0, one.contacted == 1
        called = (one.called > 0) & ~listed
        shares, broken = _shares_of(one)
        rows.append(
            RoundRow(
                round=one.round,
                version=one.version,
                c=one.c,
                in_draw=int(one.in_draw.sum()),
                capacity=one.capacity,
                listed=int(listed.sum()),
                recorded=bool(known.any()),
                contacted=int(contacted.sum()),
                reached=int((listed & contacted).sum()),
                not_reached=int((listed & known & ~contacted).sum()),
                not_recorded=int((listed & ~known).sum()),
                off_list=int((contacted & ~listed & ~called & ~one.reserved).sum()),
                no_site=int((one.status == Status.NO_SITE).sum()),
                arranged=int((contacted & one.reserved).sum()),
                opted_out_contacted=int((contacted & one.opted_out).sum()),
                called=int(called.sum()),
                called_reached=int((called & contacted).sum()),
                overrides=int((called & (one.called == 2)).sum()),
                wait=promise.wait,
                least=promise.chance,
                by_promise=int((listed & (one.due == 1)).sum()),
                longest_off=int(off[one.in_draw].max(initial=0)),
                lowest=float(one.probability[one.in_draw].min(initial=1.0)),
                shares=shares,
                shares_broken=broken,
            )
        )
    return tuple(rows)


def _shares_of(one: Planned) -> tuple[int, int]:
    """How many bounds on the places of groups a plan promised, and how many its lists break."""
    if one.kept is None or not one.kept.promise.grouped:
        return 0, 0
    lists = broken = 0
    for draw, k, _ in one.site_draws():
        for quota in one.kept.belonging.quotas(one.kept.promise, draw, k):
            many = int(one.listed[draw[np.asarray(quota.arms, np.int64)]].sum())
            lists += 1
            broken += not quota.least <= many <= (k if quota.most is None else quota.most)
    return lists, broken


@dataclass(frozen=True)
class ListsRow:
    """People and rounds whose stated probabilities are close: how many were listed and reached."""

    from_: float  # lowest and highest stated probability
    to: float
    in_draw: int
    expected: float
    low: float  # between which the number listed should be
    high: float
    listed: int
    z: float
    p: float
    reached_share: float  # of those listed whose contact is known
    reached_low: float
    reached_high: float
    off_list: int  # contacted without being listed


@dataclass(frozen=True)
class ListsTest(JointTest):
    """All bins together; and what no draw can give."""

    impossible: int  # listed at probability 0, or not listed at 1


def lists_of(planned: Sequence[Planned], z: float) -> tuple[tuple[ListsRow, ...], ListsTest]:
    """Listed against expected, in bins of stated probability.

    Parameters
    ----------
    planned : sequence of Planned
        The rounds, with what was recorded of them.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    tuple of ListsRow
        A row a bin.
    ListsTest
        All bins together.
    """
    p = np.concatenate([np.empty(0), *(one.probability[one.in_draw] for one in planned)])
    listed = np.concatenate([np.empty(0), *(one.listed[one.in_draw] for one in planned)])
    impossible = int(np.count_nonzero((p <= 0) & (listed == 1) | (p >= 1) & (listed == 0)))
    if not len(p):
        return (), ListsTest(math.nan, 0, math.nan, impossible)
    p = np.sort(p)
    cuts = _cuts(p)
    first = np.concatenate([[0], np.searchsorted(p, cuts)])
    last = np.concatenate([first[1:], [len(p)]]) - 1
    labels = [
        np.where(one.in_draw, np.searchsorted(cuts, one.probability, side="right"), -1)
        for one in planned
    ]
    J = len(cuts) + 1
    tally = Tally.of(draws(planned, labels), J)

    def count(condition: Callable[[Planned], Bools]) -> Floats:
        total = np.zeros(J)
        for one, label in zip(planned, labels, strict=True):
            total += np.bincount(label[one.in_draw & condition(one)], minlength=J)
        return total

    known = count(lambda one: (one.listed == 1) & (one.contacted >= 0))
    reached = count(lambda one: (one.listed == 1) & (one.contacted == 1))
    off_list = count(lambda one: (one.listed == 0) & (one.contacted == 1))
    rows = []
    for j in range(J):
        low, high = tally.ends(j, z)
        share = float(reached[j] / known[j]) if known[j] else math.nan
        reached_low, reached_high = wilson(share, known[j], z)
        rows.append(
            ListsRow(
                from_=float(p[first[j]]),
                to=float(p[last[j]]),
                in_draw=int(tally.rounds[j]),
                expected=float(tally.expected[j]),
                low=low,
                high=high,
                listed=int(tally.listed[j]),
                z=tally.z(j),
                p=tally.p(j),
                reached_share=share,
                reached_low=reached_low,
                reached_high=reached_high,
                off_list=int(off_list[j]),
            )
        )
    test = joint_test(tally.listed - tally.expected, tally.covariance)
    return tuple(rows), ListsTest(test.chi_square, test.freedom, test.p, impossible)


def _cuts(p: Floats) -> Floats:
    """Where bins of about equal variance begin, after the first; p [m] is sorted.

    Cuts are made by value, so that equal probabilities stay together.
    """
    variance = np.cumsum(p * (1 - p))
    bins = int(np.clip(variance[-1] / LEAST_VARIANCE, 1, MOST_BINS))
    cuts = np.unique(p[np.searchsorted(variance, variance[-1] * np.arange(1, bins) / bins)])
    later: Floats = cuts[cuts > p[0]]
    return later


@dataclass(frozen=True)
class FairnessRow:
    """Soft fairness in one round."""

    round: int
    pairs: int  # of people in the same draw
    unfair_pairs: int  # in which the person who counts less had the higher probability
    largest_difference: float  # between their probabilities
    # Pairs in which the person who would gain less had the higher probability because evenness
    # counts too; None where it does not.
    for_evenness: int | None = None
    sites: int = 1  # with a draw of their own
    unfair_across: int = 0  # pairs of people of different sites of whom the same is so
    # Pairs in which the person who would gain less had the higher probability, and another number
    # of lists left; None where no wait was promised. Those with as many left are among the unfair
    # pairs.
    for_promise: int | None = None


def fairness_of(planned: Sequence[Planned]) -> tuple[FairnessRow, ...]:
    """Whether anybody was favoured over someone who would gain more.

    Parameters
    ----------
    planned : sequence of Planned
        The rounds, with what was recorded of them.

    Returns
    -------
    tuple of FairnessRow
        A row a round.
    """
    rows = []
    for one in planned:
        pairs, unfair, largest, less_gain = 0, 0, 0.0, 0
        for draw, *_ in one.site_draws():
            score, p = one.drawn_by[draw], one.probability[draw]
            less_gain += int(metrics.unfair_pairs(p, one.score[draw]))
            pairs += len(draw) * (len(draw) - 1) // 2
            for alike in _alike(one, draw):
                unfair_here = int(metrics.unfair_pairs(p[alike], score[alike]))
                unfair += unfair_here
                if unfair_here:
                    # Of equal scores the lowest probability comes first, so that a running maximum
                    # sets nobody against another with the same score.
                    ordered = p[alike][np.lexsort((p[alike], score[alike]))]
                    largest = max(largest, float(np.max(np.maximum.accumulate(ordered) - ordered)))
        for_evenness = less_gain if one.bonus.any() else None
        grouped = one.kept is not None and one.kept.promise.grouped
        for_promise = less_gain - unfair if grouped or one.due.any() else None
        sites = sum(1 for _ in one.site_draws())
        across = 0
        if sites > 1 and for_promise is None:
            all_ = one.in_draw
            across = int(metrics.unfair_pairs(one.probability[all_], one.drawn_by[all_])) - unfair
        rows.append(
            FairnessRow(one.round, pairs, unfair, largest, for_evenness, sites, across, for_promise)
        )
    return tuple(rows)


def _alike(one: Planned, draw: Ints) -> list[Ints]:
    """Places in a draw of those whom a promise treats alike, class by class.

    They have as many lists left, belong to the same promised groups, and to the same household if
    others of it are in the draw.
    """
    kind = one.due[draw]
    if one.kept is not None and one.kept.promise.grouped:
        house = one.kept.belonging.house[draw]
        _, place, many = np.unique(house, return_inverse=True, return_counts=True)
        alone = (many[place.ravel()] == 1) | (house < 0)
        groups = replace(one.kept.belonging, inside=one.kept.belonging.inside[:, draw])
        groups = replace(groups, house=np.where(alone, -1, house))
        kind = np.unique([kind, groups.alike()], axis=1, return_inverse=True)[1].ravel()
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kind[order])) + 1)
