"""The lists: who was drawn and reached in each round, and whether draws were honest and fair."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ... import metrics
from ..eligibility import Status
from ..plans.counting import clock_of, left_off_lists
from ..promises import NO_PROMISE, Promise
from .design import Tally
from .planned import Planned
from .statistics import JointTest, joint_test, wilson

__all__ = [
    "Bins",
    "FairnessRow",
    "Lists",
    "ListsRow",
    "ListsTest",
    "RoundRow",
    "RoundRows",
    "fairness_of",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_BINS = 10
PIECE = 2**20  # probabilities whose variances are added up at a time
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
    off_list: int  # contacted, but neither listed nor called nor arranged
    arranged: int
    opted_out_contacted: int
    no_site: int = 0  # without a chance: no capacity is set for their group
    called: int = 0  # from the reserve
    called_reached: int = 0  # called and contacted
    overrides: int = 0  # called by an officer's decision
    wait: int = 0  # w, if everybody was promised a place on one of any w lists in a row; else 0
    least: float = 0.0  # chance that everybody in the draw was promised; 0: not promised
    by_promise: int = 0  # listed people for whom it was the last list that the wait allowed
    longest_off: int = 0  # most lists in a row that anybody in the draw was left off; 0 if no wait
    lowest: float = 1.0  # lowest chance of anybody in the draw
    shares: int = 0  # promised bounds on the places of groups, over all sites
    shares_broken: int = 0  # bounds that the lists break


class RoundRows:
    """The numbers of people listed, reached and otherwise contacted in each round.

    Parameters
    ----------
    since : int, optional
        The first round whose list counts for a promised wait; None: no wait was ever promised.

    Attributes
    ----------
    rows : list of RoundRow
        A row a round.
    """

    def __init__(self, since: int | None) -> None:
        self.rows: list[RoundRow] = []
        self._since = since
        # A byte for each person and round: lists that left a person off are counted backwards from
        # each list to the first that counts for its promise.
        self._clocks: dict[int, NDArray[np.int8]] = {}

    def add(self, one: Planned) -> None:
        """Count a round; rounds are added in their order."""
        promise = NO_PROMISE if one.kept is None else one.kept.promise
        off = self._left_off(one, promise)
        listed, known, contacted = one.listed == 1, one.contacted >= 0, one.contacted == 1
        called = (one.called > 0) & ~listed
        shares, broken = _shares_of(one)
        self.rows.append(
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

    def _left_off(self, one: Planned, promise: Promise) -> Ints:
        """Lists in a row that left each person [m] off; 0 if no wait was promised."""
        if self._since is not None and one.round >= self._since:
            self._clocks[one.round] = clock_of(one.status, one.site, one.listed, one.sites)
        if not promise.wait:
            return np.zeros(len(one.person), np.int64)
        counted = [self._clocks[at] for at in reversed(self._clocks) if at >= promise.since]
        return left_off_lists(counted, len(one.person))


def _shares_of(one: Planned) -> tuple[int, int]:
    """How many bounds on the places of groups a plan promised, and how many its lists break."""
    if one.kept is None or not one.kept.promise.grouped:
        return 0, 0
    bounds = broken = 0
    for draw, k, _ in one.site_draws():
        for quota in one.kept.belonging.quotas(one.kept.promise, draw, k):
            many = int(one.listed[draw[np.asarray(quota.arms, np.int64)]].sum())
            bounds += 1
            broken += not quota.least <= many <= (k if quota.most is None else quota.most)
    return bounds, broken


@dataclass(frozen=True)
class ListsRow:
    """A bin of people and rounds with close stated probabilities: how many were listed, reached."""

    from_: float  # lowest and highest stated probability
    to: float
    in_draw: int
    expected: float
    low: float  # ends of the range in which the number listed should be
    high: float
    listed: int
    z: float
    p: float
    reached_share: float  # of the listed whose contact is known
    reached_low: float
    reached_high: float
    off_list: int  # contacted without being listed


@dataclass(frozen=True)
class ListsTest(JointTest):
    """The test of all bins together, and the number of results that no draw can give."""

    impossible: int  # listed at probability 0, or not listed at 1


class Bins:
    """Bins of stated probability, in which the numbers listed have about equal variances.

    Everybody's probability in every round is kept until the bins are known, eight bytes each,
    because the ends of the bins depend on all of them.
    """

    def __init__(self) -> None:
        self._p = np.empty(0)

    def add(self, one: Planned) -> None:
        """Count a round."""
        own, before = one.probability[one.in_draw], len(self._p)
        self._p.resize(before + len(own), refcheck=False)
        self._p[before:] = own

    def cuts(self) -> Floats | None:
        """The lowest probability of each bin but the first; None if nobody was in a draw.

        Cuts are values, so that equal probabilities are in the same bin. The probabilities that
        were kept are freed.
        """
        p, self._p = self._p, np.empty(0)
        if not len(p):
            return None
        p.sort()
        *_, variance = (float(total[-1]) for _, total in _running(p))
        bins = int(np.clip(variance / LEAST_VARIANCE, 1, MOST_BINS))
        goals, cuts = variance * np.arange(1, bins) / bins, [np.empty(0)]
        for first, total in _running(p):
            here = goals[goals <= total[-1]]
            cuts.append(p[first + np.searchsorted(total, here)])
            goals = goals[len(here) :]
        distinct = np.unique(np.concatenate(cuts))
        later: Floats = distinct[distinct > p[0]]
        return later


def _running(p: Floats) -> Iterator[tuple[int, Floats]]:
    """Running sums of p (1 - p) in pieces, each with the place in p where it begins."""
    last = 0.0
    for first in range(0, len(p), PIECE):
        total = p[first : first + PIECE] * (1 - p[first : first + PIECE])
        total[0] += last
        np.cumsum(total, out=total)
        last = float(total[-1])
        yield first, total


class Lists:
    """Listed against expected, in bins of stated probability.

    Parameters
    ----------
    cuts : ndarray, optional
        See `Bins`.
    """

    def __init__(self, cuts: Floats | None) -> None:
        self._cuts, J = cuts, 0 if cuts is None else len(cuts) + 1
        self._tally = Tally(J)
        self._from, self._to = np.full(J, np.inf), np.full(J, -np.inf)
        self._known, self._reached, self._off_list = np.zeros((3, J))  # by contact
        self._impossible = 0

    def add(self, one: Planned) -> None:
        """Count a round."""
        if self._cuts is None or not one.in_draw.any():
            return
        J, p, listed = len(self._from), one.probability[one.in_draw], one.listed[one.in_draw]
        bins = np.searchsorted(self._cuts, p, side="right")
        label = np.full(len(one.person), -1)
        label[one.in_draw] = bins
        for draw in one.draws(label):
            self._tally.add(draw)
        np.minimum.at(self._from, bins, p)
        np.maximum.at(self._to, bins, p)
        contacted = one.contacted[one.in_draw]
        for total, counted in (
            (self._known, (listed == 1) & (contacted >= 0)),
            (self._reached, (listed == 1) & (contacted == 1)),
            (self._off_list, (listed == 0) & (contacted == 1)),
        ):
            total += np.bincount(bins[counted], minlength=J)
        impossible = (p <= 0) & (listed == 1) | (p >= 1) & (listed == 0)
        self._impossible += int(np.count_nonzero(impossible))

    def result(self, z: float) -> tuple[tuple[ListsRow, ...], ListsTest]:
        """What was found.

        Parameters
        ----------
        z : float
            Standard deviations that an interval reaches to either side.

        Returns
        -------
        tuple of ListsRow
            A row a bin.
        ListsTest
            All bins together.
        """
        tally = self._tally
        test = joint_test(tally.listed - tally.expected, tally.covariance)
        rows = tuple(self._row(j, z) for j in range(len(self._from)))
        return rows, ListsTest(test.chi_square, test.freedom, test.p, self._impossible)

    def _row(self, j: int, z: float) -> ListsRow:
        """One bin."""
        tally, known = self._tally, self._known[j]
        low, high = tally.ends(j, z)
        share = float(self._reached[j] / known) if known else math.nan
        reached_low, reached_high = wilson(share, known, z)
        return ListsRow(
            from_=float(self._from[j]),
            to=float(self._to[j]),
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
            off_list=int(self._off_list[j]),
        )


@dataclass(frozen=True)
class FairnessRow:
    """Soft fairness in one round."""

    round: int
    pairs: int  # of people in the same draw
    unfair_pairs: int  # in which the person who counts less had the higher probability
    largest_difference: float  # between their probabilities
    # Pairs in which the person who would gain less had the higher probability, as evenness counts
    # too; None where it does not count.
    for_evenness: int | None = None
    sites: int = 1  # with a draw of their own
    unfair_across: int = 0  # unfair pairs of people of different sites
    # Pairs in which the person who would gain less had the higher probability and a promise treats
    # the two differently (lists left, promised groups, household); None without such a promise.
    # Pairs whom the promise treats alike are among the unfair pairs instead.
    for_promise: int | None = None


def fairness_of(one: Planned) -> FairnessRow:
    """Whether anybody was favoured over someone who would gain more.

    Parameters
    ----------
    one : Planned
        A round.

    Returns
    -------
    FairnessRow
        What was found.
    """
    pairs, unfair, largest, less_gain = 0, 0, 0.0, 0
    for draw, *_ in one.site_draws():
        score, p = one.drawn_by[draw], one.probability[draw]
        less_gain += int(metrics.unfair_pairs(p, one.score[draw]))
        pairs += len(draw) * (len(draw) - 1) // 2
        for alike in _alike(one, draw):
            unfair_here = int(metrics.unfair_pairs(p[alike], score[alike]))
            unfair += unfair_here
            if unfair_here:
                # Among equal scores the lowest probability comes first, so that the running
                # maximum compares nobody with another person of the same score.
                ordered = p[alike][np.lexsort((p[alike], score[alike]))]
                largest = max(largest, float(np.max(np.maximum.accumulate(ordered) - ordered)))
    for_evenness = less_gain if one.bonus.any() else None
    grouped = one.kept is not None and one.kept.promise.grouped
    for_promise = less_gain - unfair if grouped or one.due.any() else None
    sites = sum(1 for _ in one.site_draws())
    across = 0
    if sites > 1 and for_promise is None:
        drawn = one.in_draw
        across = int(metrics.unfair_pairs(one.probability[drawn], one.drawn_by[drawn])) - unfair
    return FairnessRow(one.round, pairs, unfair, largest, for_evenness, sites, across, for_promise)


def _alike(one: Planned, draw: Ints) -> list[Ints]:
    """Places in a draw of the people whom a promise treats alike, class by class.

    People of one class have as many lists left, belong to the same promised groups, and to the same
    household if others of it are in the draw.
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
