"""From a history of states and contacts to transition probabilities with intervals: history -> cohort.

For each action a and state s, person i of group g has an unknown row theta of S chances (P[i, a, s]), seen through y, the counts of
their own moves out of s under a. Persons are of a few classes z that nobody told us of (such as those who adhere and those who do
not), in shares that differ between groups:

    y_i     | theta_i   ~  Multinomial(N_i, theta_i)        N_i moves seen (``seen``)
    theta_i | z, m_zg   ~  Dirichlet(alpha_z m_zg)          a person resembles class and group:  alpha pseudo-counts (``strength``)
    m_zg    | m_z       ~  Dirichlet(kappa_z m_z)           a group resembles the cohort:        kappa pseudo-counts (``group_strength``)
    m_z                 ~  Dirichlet(1, ..., 1)
    z_i     | g         ~  share_g                          shares of the groups about those of the cohort, in the same way

With two states these are Beta laws. Given z, alpha and m, theta_i is Dirichlet(alpha m + y_i): its mean is the person's own frequency
with weight N / (alpha + N) and the group's mean with the rest. So nobody's few weeks are taken for certain, and who has no history
gets the group's estimate (or the cohort's, if nobody of the group was ever seen there), and is marked. A class ties the rows of a
person together: how somebody does when left alone tells much about how they would do when called, before they ever were.

alpha and kappa are learnt from all persons by marginal likelihood, for each class, a and s, under Lomax's prior, with density
proportional to (u + strength)^-3 and so with mean u: proper, and without effect once there are data. It matters for what is seldom
seen, such as contacts in a short history. There u is the mean strength that the other rows of the class say they have in common
(itself learnt so, with u = 1): persons are supposed to differ as much as elsewhere until they are seen to do otherwise. Integrating
theta out leaves the Dirichlet-multinomial

    log p(y | alpha, m) = sum_i [ sum_s2 R(alpha m_s2, y_s2) - R(alpha, N) ],    R(x, y) = log Gamma(x + y) - log Gamma(x).

The mean of a group has no closed posterior. A person's frequencies have variance m (1 - m) (alpha + N) / (N (alpha + 1)) about it,
so N moves of one person are worth N (alpha + 1) / (alpha + N) independent ones; with counts discounted so, m_g is Dirichlet again,
and groups are to the cohort as persons to the group. What m_g costs in freedom enters log p(alpha) by Laplace's term
-(S - 1)/2 sum_g log(1 + worth_g / kappa). Classes are found by expectation-maximisation; their number is the one that Schwarz's
criterion (BIC) prefers, one if nothing speaks for more.

Intervals carry what is not known of z, alpha (a grid over its posterior), kappa and m: they are quantiles of a mixture of Beta laws,
each with the mean and variance that the law of total variance gives for one class and one stretch of alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput
from .kernels.elementary import COMPILE
from .kernels.threads import map_parts

__all__ = [
    "COHORT",
    "CONSTRAINTS",
    "GROUP",
    "OWN",
    "PRIOR",
    "Estimate",
    "count_transitions",
    "estimate",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_Law = tuple[Any, Floats, Floats]  # weight (a number or [n, 1]), mean and variance [n, S]

#: Where a row comes from, in `Estimate.source`: the person's own moves (shrunk towards the group's), those of the group, those of the
#: cohort, or nobody's at all (then every next state is equally likely until somebody has been seen there).
OWN, GROUP, COHORT, PRIOR = 0, 1, 2, 3

#: The paper's constraints on p[a, s], the chance of the good state: ((a, s), (a, s)), the first at most the second. Contact does not
#: harm, in either state; the good state persists, under either action.
CONSTRAINTS = (((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 0), (0, 1)), ((1, 0), (1, 1)))

MISSING = -1
# Strengths are sought between these. Below the least, people are all but deterministic; beyond the most, years of a person's own
# history would not be told from the group's mean, so that "identical" is stated as this many pseudo-counts.
LEAST_STRENGTH, MOST_STRENGTH = 0.05, 1e4
GRID = 17  # points over the posterior of a log strength: more than two a standard deviation once zoomed in
ZOOMS = 5  # each narrows the grid up to 8 times, from 12.2 to 4e-4: the posterior width at a hundred million moves
FAINT = 1e-4  # relative weight below which a point of the grid is left out
PART = 20_000  # persons a task
FEW = 52  # counts up to which a product is faster than two log Gamma; MOST_STRENGTH**FEW is far from overflow
STRETCH = 1.0  # of log alpha that one Beta law of the mixture stands for; within it alpha varies by a factor of e^+-.5
UNLIKELY = 1e-6  # a law of the mixture with less weight is left out of the quantiles
# Classes: sought among so many persons, at most so many, each of at least so many; then fitted to all.
SOUGHT_AMONG, MOST_CLASSES, LEAST_PERSONS = 3000, 4, 30
STEPS, SETTLED = (
    60,
    0.1,
)  # of expectation-maximisation: at most, and when the log likelihood rises by less
TOLD_APART = (
    2.0  # log likelihood by which persons who differ must beat identical ones, a usual 95 % limit
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """What was learnt of n persons with S states, in G groups.

    ``Cohort(estimate.P)`` is the cohort to plan with.
    """

    P: Floats  # [n, 2, S, S] posterior means; rows sum to one
    low: Floats  # [n, 2, S, S] central credible interval of each probability, widened to hold P where the law is so skew that it would not
    high: Floats  # [n, 2, S, S]
    level: float  # of the intervals
    seen: Ints  # [n, 2, S] moves observed out of that state under that action
    source: NDArray[np.int8]  # [n, 2, S] OWN, GROUP, COHORT or PRIOR
    no_history: NDArray[np.bool_]  # [n] not one move of their own
    binding: NDArray[
        np.bool_
    ]  # [n, 4] which of CONSTRAINTS hold with equality and moved the estimate; none unless monotone
    membership: Floats  # [n, K] chance that the person is of each class
    class_share: Floats  # [G, K] share of each class in each group
    class_mean: Floats  # [K, 2, S, S] mean of each class in the cohort
    strength: Floats  # [K, 2, S] alpha: pseudo-counts of the group in a person's estimate
    alike: NDArray[
        np.bool_
    ]  # [K, 2, S] the history does not show that persons of the class differ: a strength without end would do
    group_strength: Floats  # [K, 2, S] kappa: pseudo-counts of the cohort in a group's estimate; nan where there is one group
    group_mean: Floats  # [G, 2, S, S]
    cohort_mean: Floats  # [2, S, S]

    @property
    def bound(self) -> NDArray[np.bool_]:
        """Whose estimate a constraint moved [n]."""
        return np.asarray(self.binding.any(axis=1))

    def __repr__(self) -> str:
        n, _, S, _ = self.P.shape
        marked = int(np.count_nonzero(self.no_history))
        G, K = self.class_share.shape
        return f"<Estimate: n={n}, S={S}, groups={G}, classes={K}, without history {marked}, bound {int(self.bound.sum())}>"


# Counting


def count_transitions(
    person: ArrayLike, rounds: ArrayLike, state: ArrayLike, contacted: ArrayLike, n: int, S: int
) -> Ints:
    """Moves [n, 2, S, S] of each person: ``counts[i, a, s, s2]`` from s to s2 in the round after action a.

    The arrays [m] have one row a person and round, sorted by (person, round); -1 is a missing state or contact. A move counts where
    both rounds r and r + 1 are there, both states are known and so is the contact at r: what is missing is left out, not taken for bad.

    >>> import softfair.estimate
    >>> softfair.estimate.count_transitions([0, 0, 0, 0], [1, 2, 3, 5], [0, 1, 1, 0], [1, 0, 0, 0], n=1, S=2)[0].tolist()
    [[[0, 0], [0, 1]], [[0, 1], [0, 0]]]
    """
    for name, size, least in (("n", n, 1), ("S", S, 2)):
        if not isinstance(size, (int, np.integer)) or size < least:
            raise InvalidInput(f"{name} is {size!r}; give a whole number of at least {least}")
    who, when = _whole("person", person), _whole("rounds", rounds)
    where, action = _whole("state", state), _whole("contacted", contacted)
    for name, column in (("rounds", when), ("state", where), ("contacted", action)):
        if column.shape != who.shape:
            raise InvalidInput(
                f"{name} has shape {column.shape}, person has {who.shape}; give one entry a person and round"
            )
    _refuse(
        (who < 0) | (who >= n),
        who,
        "person",
        f"there are {n} persons: give indices from 0 to {n - 1}",
    )
    _refuse(
        (where < MISSING) | (where >= S),
        where,
        "state",
        f"give states from 0 to {S - 1}, or -1 where it is missing",
    )
    _refuse(
        (action < MISSING) | (action > 1),
        action,
        "contacted",
        "give 0 or 1, or -1 where it is missing",
    )
    same = who[1:] == who[:-1]
    disorder = np.zeros(len(who), np.bool_)
    disorder[1:] = (who[1:] < who[:-1]) | (same & (when[1:] <= when[:-1]))
    _refuse(disorder, when, "rounds", "sort rows by (person, round) and keep one row a pair")
    counted = (
        same
        & (when[1:] == when[:-1] + 1)
        & (where[:-1] >= 0)
        & (where[1:] >= 0)
        & (action[:-1] >= 0)
    )
    first = np.flatnonzero(counted)
    cell = ((who[first] * 2 + action[first]) * S + where[first]) * S + where[first + 1]
    return np.bincount(cell, minlength=n * 2 * S * S).reshape(n, 2, S, S)


# Estimating


def estimate(
    counts: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.9,
    monotone: bool = False,
    classes: int | None = None,
) -> Estimate:
    """Transition probabilities of each person, shrunk towards the group and the group towards the cohort, with intervals.

    Parameters
    ----------
    counts : [n, 2, S, S], as :func:`count_transitions` gives them.
    groups : group of each person [n] as codes 0, 1, ...; None: all are one group.
    level : of the credible intervals, between 0 and 1.
    monotone : hold every person to :data:`CONSTRAINTS` (two states): posterior means are projected by weighted least squares, weights
        the posterior precisions, and so are both ends of the intervals. The projection keeps order, so the estimate stays between
        them, and a truth that meets the constraints and lies between the ends before lies between them after.
    classes : K, how many classes of persons; None: as many as the history speaks for.

    >>> import softfair.estimate
    >>> fitted = softfair.estimate.estimate([[[[3, 1], [0, 0]], [[0, 0], [0, 0]]]])
    >>> fitted.P.shape, fitted.source[0].tolist()
    ((1, 2, 2, 2), [[0, 3], [3, 3]])
    """
    y = _counts(counts)
    n, _, S, _ = y.shape
    group, G = _groups(groups, n)
    if not (isinstance(level, (int, float, np.floating)) and 0 < level < 1):
        raise InvalidInput(
            f"level is {level!r}; give the share that intervals should cover, between 0 and 1, such as 0.9"
        )
    if monotone and S != 2:
        raise InvalidInput(
            f"monotone is about a bad and a good state, the history has {S} states; leave it out, or reduce the history to two states"
        )
    if classes is not None and (
        not isinstance(classes, (int, np.integer)) or not 1 <= classes <= n
    ):
        raise InvalidInput(
            f"classes is {classes!r}; give a whole number from 1 to {n} (the number of persons), or None to have it learnt"
        )
    found = _find_classes(y, group, G, classes)
    seen = y.sum(axis=3)  # [n, 2, S]
    P, variance, low, high = (np.empty(y.shape) for _ in range(4))
    for a in range(2):
        for s in range(S):
            one, where = _alike(
                y[:, a, s], group, found.membership
            )  # who has the same row, and so the same estimate
            laws = _laws(
                y[one, a, s],
                group[one],
                [fits[a * S + s] for fits in found.fits],
                found.membership[one],
            )
            mean, spread = _mixed(laws)
            mean /= mean.sum(axis=1, keepdims=True)  # rounding only
            least, most = _intervals(mean, laws, float(level))
            for whole, part in ((P, mean), (variance, spread), (low, least), (high, most)):
                whole[:, a, s] = part[where]
    binding = np.zeros((n, len(CONSTRAINTS)), np.bool_)
    if monotone:
        weight = 1 / variance[..., 1]
        good, binding = project(P[..., 1], weight)
        least = np.minimum(project(low[..., 1], weight)[0], good)  # so it is, but for rounding
        most = np.maximum(project(high[..., 1], weight)[0], good)
        P, low, high = _both(1 - good, good), _both(1 - most, least), _both(1 - least, most)
    by_group = np.zeros((G, 2, S), np.int64)
    np.add.at(by_group, group, seen)
    anybody = np.where(seen.any(axis=0), COHORT, PRIOR)  # [2, S]

    def learnt(what: Callable[[_Fit], Any], *shape: int) -> NDArray[Any]:  # [K, 2, S, *shape]
        return np.array([[what(fit) for fit in fits] for fits in found.fits]).reshape(
            len(found.fits), 2, S, *shape
        )

    class_mean = learnt(lambda fit: fit.above.cohort_mean, S)
    return Estimate(
        P=P,
        low=low,
        high=high,
        level=float(level),
        seen=seen,
        source=np.where(seen > 0, OWN, np.where(by_group[group] > 0, GROUP, anybody)).astype(
            np.int8
        ),
        no_history=~seen.any(axis=(1, 2)),
        binding=binding,
        membership=found.membership,
        class_share=found.share,
        class_mean=class_mean,
        strength=learnt(lambda fit: fit.strength),
        alike=learnt(lambda fit: fit.alike),
        group_strength=learnt(lambda fit: fit.above.strength if G > 1 else math.nan),
        group_mean=np.einsum("gk,kasgt->gast", found.share, learnt(lambda fit: fit.overall, G, S)),
        cohort_mean=np.einsum(
            "k,kast->ast", found.membership.mean(axis=0) if G > 1 else found.share[0], class_mean
        ),
    )


# Classes


@dataclass(frozen=True, eq=False)
class _Classes:
    fits: list[list[_Fit]]  # [K][2 S]
    share: Floats  # [G, K]
    membership: Floats  # [n, K]
    log_likelihood: float = math.nan

    @property
    def score(self) -> float:
        """Log marginal likelihood by Schwarz's criterion, the freedom of the group means taken off as everywhere."""
        n, K = self.membership.shape
        rows, S = len(self.fits[0]), self.fits[0][0].mean.shape[2]
        freedom = sum(fit.freedom for fits in self.fits for fit in fits)
        return float(self.log_likelihood - freedom - (K * rows * S + K - 1) / 2 * math.log(n))


def _find_classes(y: Ints, group: Ints, G: int, wanted: int | None) -> _Classes:
    n = len(y)
    told = np.flatnonzero(y.any(axis=(1, 2, 3)))  # who has a history
    rows = _rows_of(y, group, G)
    if wanted == 1 or (wanted is None and len(told) < 2 * LEAST_PERSONS):
        return _Classes(_fit_all(rows, np.ones((n, 1))), np.ones((G, 1)), np.ones((n, 1)))
    if len(told) > SOUGHT_AMONG:
        told = np.sort(np.random.default_rng(0).choice(told, SOUGHT_AMONG, replace=False))
    some = _rows_of(y[told], group[told], G)
    one = _settle(some, group[told], np.ones((len(told), 1)))
    best = one
    for K in [wanted] if wanted else range(2, 1 + min(MOST_CLASSES, len(told) // LEAST_PERSONS)):
        more = _settle(some, group[told], _split(y[told], group[told], one.fits[0], K))
        if wanted is None and (
            more.score <= best.score or more.membership.sum(axis=0).min() < LEAST_PERSONS
        ):
            break
        best = more
    for near in (best.fits, None):  # to all persons: a step from what some of them said, then anew
        membership, _ = _members(rows, group, best)
        best = _Classes(_fit_all(rows, membership, near), _shares(membership, group, G), membership)
    membership, log_likelihood = _members(rows, group, best)
    return _Classes(best.fits, best.share, membership, log_likelihood)


def _rows_of(y: Ints, group: Ints, G: int) -> list[_Cells]:
    S = y.shape[2]
    return [_Cells(y[:, row // S, row % S], group, G) for row in range(2 * S)]


def _fit_all(
    rows: list[_Cells], membership: Floats, near: list[list[_Fit]] | None = None
) -> list[list[_Fit]]:
    """Every class and row anew [K][2 S], given who belongs where; a step from ``near`` if that is given."""

    def some(first: int, last: int) -> list[list[_Fit]]:
        fits = []
        for k in range(first, last):
            tallies = [_Tally(cells, membership[:, k]) for cells in rows]
            fits.append(
                [_step(*pair) for pair in zip(tallies, near[k], strict=True)]
                if near
                else _fit_class(tallies)
            )
        return fits

    return [fits for part in map_parts(some, membership.shape[1], 1) for fits in part]


def _settle(rows: list[_Cells], group: Ints, membership: Floats) -> _Classes:
    """Expectation-maximisation from the given membership [n, K]."""
    G = rows[0].G
    fits = _fit_all(rows, membership)
    before = -math.inf
    for _ in range(STEPS):
        now = _Classes(fits, _shares(membership, group, G), membership)
        membership, log_likelihood = _members(rows, group, now)
        now = _Classes(fits, now.share, membership, log_likelihood)
        if membership.shape[1] == 1 or log_likelihood - before < SETTLED:
            break
        before = log_likelihood
        fits = _fit_all(rows, membership, fits)
    return now


def _members(rows: list[_Cells], group: Ints, classes: _Classes) -> tuple[Floats, float]:
    """How likely each person is of each class [n, K], and the log likelihood of all persons."""
    joint = np.log(classes.share)[group]  # [n, K]
    for k, fits in enumerate(classes.fits):
        for cells, fit in zip(rows, fits, strict=True):
            joint[:, k] += cells.log_likelihood(fit)
    most = joint.max(axis=1, keepdims=True)
    weight = np.exp(joint - most)
    total = weight.sum(axis=1, keepdims=True)
    return weight / total, float((most + np.log(total)).sum())


def _shares(membership: Floats, group: Ints, G: int) -> Floats:
    """Share of each class in each group [G, K], groups shrunk towards the cohort as far as they resemble it."""
    members = np.stack([np.bincount(group, column, G) for column in membership.T], axis=1).astype(
        np.float64
    )  # [G, K]
    if members.shape[1] == 1:
        return np.ones((G, 1))
    share: Floats = _Above(members).means(members[None])[0][0]
    share /= share.sum(axis=1, keepdims=True)
    return share


def _split(y: Ints, group: Ints, fits: list[_Fit], K: int) -> Floats:
    """A first membership [n, K]: K equal parts along the direction in which estimates of a single class differ most from the groups'."""
    n, _, S, _ = y.shape
    apart = [
        _mixed(_laws(y[:, row // S, row % S], group, [fit], np.ones((n, 1))))[0]
        - fit.overall[group]
        for row, fit in enumerate(fits)
    ]
    by_person = np.concatenate(apart, axis=1)  # [n, 2 S S]
    direction = np.linalg.eigh(by_person.T @ by_person)[1][:, -1]
    place = np.argsort(np.argsort(by_person @ direction, kind="stable"), kind="stable")
    membership = np.full((n, K), 0.2 / K)  # soft, so that nobody is stuck where this puts them
    membership[np.arange(n), place * K // n] += 0.8
    return membership


# One action and state


@dataclass(frozen=True, eq=False)
class _Fit:
    """What was learnt for one class, action and state: J points over the posterior of alpha, and the group means at each."""

    alpha: Floats  # [J]
    weight: Floats  # [J]
    mean: Floats  # [J, G, S] of m_g
    variance: Floats  # [J, G, S] of m_g
    above: _Above
    usual: float  # about what alpha was expected: the strength of the other rows of the class
    freedom: float  # what the group means cost in log likelihood
    alike: bool

    @property
    def strength(self) -> float:
        return _centre(self.alpha, self.weight)

    @property
    def overall(self) -> Floats:
        """Mean of m_g over the posterior of alpha [G, S]."""
        mean: Floats = np.tensordot(self.weight, self.mean, axes=1)
        return mean


class _Cells:
    """The history out of one state under one action, as far as the likelihood needs it: which persons have the same count.

    There are no more different cells than persons, and far fewer where many persons share a history's length.
    """

    def __init__(self, y: Ints, group: Ints, G: int) -> None:
        self.y, self.G, self.S = y, G, y.shape[1]
        self.group, self.N, self.where = _distinct(
            group, y.sum(axis=1)
        )  # [c], [c], [n]: cells of (group, N), sorted by group
        self.lengths, length = np.unique(
            self.N, return_inverse=True
        )  # [l] distinct N, whatever the group
        self.length = length[self.where]  # [n]
        self.by_next = [
            _distinct(group, y[:, s2]) for s2 in range(self.S)
        ]  # for each next state the cells of (group, y)
        self.first = np.flatnonzero(
            np.diff(self.group, prepend=-1)
        )  # where each group that has anybody begins

    def log_likelihood(self, fit: _Fit) -> Floats:
        """log p(y_i | alpha, m_g) [n] of each person, at the likeliest alpha."""
        top = int(np.argmax(fit.weight))
        alpha, mean = fit.alpha[top], fit.mean[top]
        total: Floats = -_rising(np.full((1, len(self.lengths)), alpha), self.lengths)[0][
            self.length
        ]
        for s2, (of, times, where) in enumerate(self.by_next):
            total += _rising(alpha * mean[None, of, s2], times)[0][where]
        return total


class _Tally:
    """How many persons of one class are in each cell: the history as that class has it."""

    def __init__(self, cells: _Cells, membership: Floats) -> None:
        self.cells = cells
        self.persons = np.bincount(cells.length, membership, len(cells.lengths))  # [l]
        self.moves = np.stack(
            [
                np.bincount(cells.where, membership * cells.y[:, s2], len(cells.N))
                for s2 in range(cells.S)
            ],
            axis=1,
        )
        self.by_next = [np.bincount(where, membership, len(of)) for of, _, where in cells.by_next]

    def worth(self, alpha: Floats) -> Floats:
        """Moves of each group by next state [J, G, S], discounted to what they are worth for its mean."""
        cells = self.cells
        discount = (alpha[:, None] + 1) / (alpha[:, None] + cells.N)  # [J, c]
        worth = np.zeros((len(alpha), cells.G, cells.S))
        for s2 in range(cells.S):
            worth[:, cells.group[cells.first], s2] = np.add.reduceat(
                discount * self.moves[:, s2], cells.first, axis=1
            )
        return worth

    def log_likelihood(self, alpha: Floats, mean: Floats) -> Floats:
        """log p(y | alpha, m_g) [J] of all persons, at alpha [J] and mean [J, G, S]."""
        cells = self.cells
        total: Floats = -(
            _rising(np.outer(alpha, np.ones(len(cells.lengths))), cells.lengths) @ self.persons
        )
        for s2, ((of, times, _), persons) in enumerate(
            zip(cells.by_next, self.by_next, strict=True)
        ):
            total += _rising(alpha[:, None] * mean[:, of, s2], times) @ persons
        return total


def _distinct(group: Ints, count: Ints) -> tuple[Ints, Floats, Ints]:
    """The distinct pairs, sorted: group [c], count [c]; and which of them each person has [n]."""
    base = int(count.max(initial=0)) + 1
    pairs, where = np.unique(group * base + count, return_inverse=True)
    return pairs // base, (pairs % base).astype(np.float64), where


def _fit_class(tallies: list[_Tally]) -> list[_Fit]:
    """All rows of one class, the strengths of each expected about those of the others."""
    alpha = kappa = np.geomspace(LEAST_STRENGTH, MOST_STRENGTH, 2 * GRID)
    usual, usual_group = np.ones(len(tallies)), np.ones(len(tallies))  # [2 S]
    for _ in range(2):
        worths = [
            tally.worth(np.array([middle]))[0] for tally, middle in zip(tallies, usual, strict=True)
        ]
        if tallies[0].cells.G > 1:
            usual_group = _by_others(
                kappa, np.stack([_log_groups(kappa, worth) for worth in worths])
            )
        aboves = list(
            map(_Above, worths, usual_group)
        )  # what groups say of the cohort, at a likely alpha
        usual = _by_others(
            alpha,
            np.stack(
                [
                    _log_fit(alpha, tally, above)
                    for tally, above in zip(tallies, aboves, strict=True)
                ]
            ),
        )
    return list(map(_fit, tallies, aboves, usual, usual_group))


def _by_others(strength: Floats, log_likelihood: Floats) -> Floats:
    """For each row the mean strength that all other rows have in common [2 S], from log_likelihood [2 S, J] at strength [J].

    Its own part is left out, for that comes in when its posterior is formed, and must not count twice.
    """
    log_weight = log_likelihood.sum(axis=0) - log_likelihood + _log_prior(strength, 1.0)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.asarray(weight @ strength / weight.sum(axis=1))


def _fit(tally: _Tally, above: _Above, usual: float, usual_group: float) -> _Fit:
    """alpha, kappa and the means of one row. The two strengths are learnt in turn: each hardly depends on the other."""
    alpha, weight = _posterior(lambda alpha: _log_fit(alpha, tally, above), usual)
    above = _Above(tally.worth(np.array([_centre(alpha, weight)]))[0], usual_group)
    top = alpha[[np.argmax(weight)]]
    without_end, best = _log_fit(np.array([MOST_STRENGTH, top[0]]), tally, above)
    freedom = float(_freedom(tally.worth(top), above)[0])
    return _Fit(
        alpha,
        weight,
        *above.means(tally.worth(alpha)),
        above,
        usual,
        freedom,
        bool(without_end > best - TOLD_APART),
    )


def _step(tally: _Tally, near: _Fit) -> _Fit:
    """A step of expectation-maximisation: kappa stays, alpha moves to the best of a few points around."""
    top = near.alpha[[np.argmax(near.weight)]]
    above = near.above.moved(tally.worth(top)[0])
    alpha = np.clip(top * np.exp(np.linspace(-0.6, 0.6, 5)), LEAST_STRENGTH, MOST_STRENGTH)
    alpha = alpha[[np.argmax(_log_fit(alpha, tally, above) + _log_prior(alpha, near.usual))]]
    worth = tally.worth(alpha)
    return _Fit(
        alpha,
        np.ones(1),
        *above.means(worth),
        above,
        near.usual,
        float(_freedom(worth, above)[0]),
        near.alike,
    )


def _log_fit(alpha: Floats, tally: _Tally, above: _Above) -> Floats:
    """log p(y | alpha) [J] of all persons, up to a constant."""
    worth = tally.worth(alpha)
    return tally.log_likelihood(alpha, above.centre(worth)) - _freedom(worth, above)


def _freedom(worth: Floats, above: _Above) -> Floats:
    """What the group means cost in log likelihood [J], given worth [J, G, S]."""
    cost: Floats = (
        (worth.shape[2] - 1) / 2 * np.log1p(worth.sum(axis=2) / above.strength).sum(axis=1)
    )
    return cost


class _Above:
    """The cohort above its groups: what the groups' moves (in worth, [G, S]) say of kappa and m.

    With one group the two are the same, and m_g has the flat Dirichlet(1, ..., 1) of m.
    """

    def __init__(self, worth: Floats, usual: float = 1.0) -> None:
        G, S = worth.shape
        if G == 1:
            self.kappa, self.weight = np.array([float(S)]), np.ones(1)
        else:
            self.kappa, self.weight = _posterior(lambda kappa: _log_groups(kappa, worth), usual)
        self._place(worth)

    def _place(self, worth: Floats) -> None:
        G, S = worth.shape
        if G == 1:
            self.mean, self.variance = np.full((1, S), 1 / S), np.zeros((1, S))
            self.cohort_mean = (1 + worth[0]) / (S + worth.sum())
        else:
            self.mean, self.variance, _ = _cohort(self.kappa, worth)
            self.cohort_mean = self.weight @ self.mean

    def moved(self, worth: Floats) -> _Above:
        """The same kappa with the mean that these moves give."""
        other = copy(self)
        other._place(worth)
        return other

    @property
    def strength(self) -> float:
        return _centre(self.kappa, self.weight)

    def centre(self, worth: Floats) -> Floats:
        """Mean of each m_g [J, G, S] given worth [J, G, S], at the middle kappa: enough for a likelihood."""
        kappa = self.strength
        middle: Floats = (kappa * (self.weight @ self.mean) + worth) / (
            kappa + worth.sum(axis=2, keepdims=True)
        )
        return middle

    def means(self, worth: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each m_g [J, G, S] given worth [J, G, S], over the posterior of kappa."""
        total = worth.sum(axis=2, keepdims=True)  # [J, G, 1]
        return _mixed(
            (weight, *_dirichlet(kappa * m + worth, kappa + total, kappa**2 * v))
            for kappa, weight, m, v in zip(
                self.kappa, self.weight, self.mean, self.variance, strict=True
            )
        )


def _cohort(kappa: Floats, worth: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean and variance of m [L, S], and the moves it rests on [L], for each kappa [L]: groups discounted as persons are."""
    S = worth.shape[1]
    discount = (kappa[:, None] + 1) / (kappa[:, None] + worth.sum(axis=1))  # [L, G]
    moves = discount @ worth  # [L, S]
    A = S + moves.sum(axis=1, keepdims=True)
    mean = (1 + moves) / A
    return mean, mean * (1 - mean) / (A + 1), A[:, 0] - S


def _log_groups(kappa: Floats, worth: Floats) -> Floats:
    """log p(the groups' moves | kappa) [L], up to a constant."""
    G, S = worth.shape
    mean, _, moves = _cohort(kappa, worth)
    fit = -_rising(np.outer(kappa, np.ones(G)), worth.sum(axis=1)).sum(axis=1)
    for s2 in range(S):
        fit += _rising(np.outer(kappa * mean[:, s2], np.ones(G)), worth[:, s2]).sum(axis=1)
    return np.asarray(fit - (S - 1) / 2 * np.log1p(moves / S))


def _log_prior(strength: Floats, usual: float) -> Floats:
    """Log density of the log of a strength with mean ``usual``, up to a constant: Lomax's law with shape 2."""
    return np.asarray(np.log(strength) - 3 * np.log(usual + strength))


def _centre(strength: Floats, weight: Floats) -> float:
    return float(np.exp(weight @ np.log(strength)))


def _posterior(log_likelihood: Callable[[Floats], Floats], usual: float) -> tuple[Floats, Floats]:
    """Points [J] and weights [J] over the posterior of a strength, the grid narrowed to where the weight is."""
    low, high = math.log(LEAST_STRENGTH), math.log(MOST_STRENGTH)
    for zoom in range(ZOOMS):
        points = np.linspace(low, high, GRID)
        strength = np.clip(np.exp(points), LEAST_STRENGTH, MOST_STRENGTH)
        value = log_likelihood(strength) + _log_prior(strength, usual)
        weight = np.exp(value - value.max())
        kept = np.flatnonzero(weight > FAINT)
        if len(kept) > GRID // 2 or zoom == ZOOMS - 1:
            break
        low, high = points[max(kept[0] - 1, 0)], points[min(kept[-1] + 1, GRID - 1)]
    return strength[kept], weight[kept] / weight[kept].sum()


def _alike(y: Ints, group: Ints, membership: Floats) -> tuple[Ints, Ints]:
    """One person of each kind, and the kind of each [n]: the same group and counts, membership the same to 1e-4."""
    kind = np.zeros(len(y), np.int64)
    for column in (group, *y.T, *np.rint(membership[:, 1:] * 1e4).astype(np.int64).T):
        _, one, kind = np.unique(
            kind * (int(column.max()) + 1) + column, return_index=True, return_inverse=True
        )
    return one, kind


def _laws(y: Ints, group: Ints, fits: list[_Fit], membership: Floats) -> list[_Law]:
    """The mixture of laws of each person's row: one for each class and stretch of log alpha."""
    N = y.sum(axis=1, keepdims=True)
    laws = []
    for fit, member in zip(fits, membership.T, strict=True):
        span = np.log(fit.alpha / fit.alpha[0])
        stretch = np.minimum(
            span // STRETCH, max(span[-1] // STRETCH - 1, 0)
        )  # the last takes what is left over
        for one in np.unique(stretch):
            within = np.flatnonzero(stretch == one)
            share = fit.weight[within].sum()
            mean, variance = _mixed(
                (
                    fit.weight[j] / share,
                    *_dirichlet(
                        fit.alpha[j] * fit.mean[j][group] + y,
                        fit.alpha[j] + N,
                        fit.alpha[j] ** 2 * fit.variance[j][group],
                    ),
                )
                for j in within
            )
            laws.append(((share * member)[:, None], mean, variance))
    return laws


def _dirichlet(pseudo: Floats, total: Any, doubt: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of Dirichlet(pseudo) with sum ``total``, where the pseudo-counts are themselves known up to a variance."""
    mean = pseudo / total
    doubt = doubt / total**2
    return mean, (mean * (1 - mean) - doubt) / (total + 1) + doubt


def _mixed(laws: Iterable[_Law]) -> tuple[Floats, Floats]:
    """Mean and variance of a mixture of laws (weight, mean, variance); squares are taken about the first mean, so digits last."""
    about: Any = None
    shift, square, within = (np.zeros(()) for _ in range(3))
    for weight, mean, variance in laws:
        about = mean if about is None else about
        apart = mean - about
        shift = shift + weight * apart
        square = square + weight * apart**2
        within = within + weight * variance
    return about + shift, within + np.maximum(square - shift**2, 0.0)


# Intervals


def _intervals(P: Floats, laws: list[_Law], level: float) -> tuple[Floats, Floats]:
    """Central intervals [n, S] of mixtures of Beta laws that have the means and variances of ``laws``."""
    n, S = P.shape
    low, high = np.empty(P.shape), np.empty(P.shape)
    weight = np.stack([np.broadcast_to(w, (n, 1))[:, 0] for w, _, _ in laws], axis=1)  # [n, C]
    for s2 in range(1 if S == 2 else 0, S):
        mean = np.stack([m[:, s2] for _, m, _ in laws], axis=1)  # [n, C]
        pseudo = (
            mean * (1 - mean) / np.stack([v[:, s2] for _, _, v in laws], axis=1) - 1
        )  # positive: only a coin has mean (1 - mean)
        ends = np.empty((2, n))
        map_parts(
            _quantiles, n, PART, weight, mean * pseudo, (1 - mean) * pseudo, (1 - level) / 2, ends
        )
        low[:, s2], high[:, s2] = ends
    if S == 2:
        low[:, 0], high[:, 0] = 1 - high[:, 1], 1 - low[:, 1]
    return np.minimum(low, P), np.maximum(high, P)


@njit(**COMPILE)
def _quantiles(low, high, weight, a, b, tail, ends):  # type: ignore[no-untyped-def]
    """Fill ends [2, n] for persons [low, high): each one's mixture has ``tail`` below the first and above the second."""
    for i in range(low, high):
        ends[0, i] = beta_quantile(weight[i], a[i], b[i], tail)
        ends[1, i] = 1.0 - beta_quantile(weight[i], b[i], a[i], tail)


@njit(**COMPILE)
def beta_quantile(weight, a, b, tail):  # type: ignore[no-untyped-def]
    """x with sum_c weight[c] Pr(Beta(a[c], b[c]) <= x) = tail, for tails up to a half.

    Newton's steps on log F as a function of u = logit x. A single F is log-concave in u: a tangent lies above it, so after the first
    step the way leads up to the root from the left and cannot miss it. A mixture need not be; there the interval known to hold the
    root is halved where a step would leave it.
    """
    log_beta = np.empty(len(weight))
    mean, square = 0.0, 0.0
    for c in range(len(weight)):
        log_beta[c] = math.lgamma(a[c]) + math.lgamma(b[c]) - math.lgamma(a[c] + b[c])
        centre = a[c] / (a[c] + b[c])
        mean += weight[c] * centre
        square += weight[c] * (centre**2 + centre * (1.0 - centre) / (a[c] + b[c] + 1.0))
    left, right = -700.0, 700.0
    # Where a normal law of u would have the 5 % point: a start, no more.
    u = math.log(mean / (1.0 - mean)) - 1.6 * math.sqrt(max(square - mean**2, 0.0)) / (
        mean * (1.0 - mean)
    )
    for _ in range(200):
        below, slope = 0.0, 0.0
        for c in range(len(weight)):
            if weight[c] >= UNLIKELY:
                one, steep = beta_below(a[c], b[c], log_beta[c], u)
                below += weight[c] * one
                slope += weight[c] * steep
        if below > tail:
            right = u
        else:
            left = u
        before = u
        u = u - math.log(below / tail) * below / slope if below > 0.0 and slope > 0.0 else right
        if not left < u < right:
            u = 0.5 * (left + right)
        if abs(u - before) < 1e-8 * max(
            1.0, abs(u)
        ):  # steps square the error: it is 1e-15 or so now
            break
    return 1.0 / (1.0 + math.exp(-u))


@njit(**COMPILE)
def beta_below(a, b, log_beta, u):  # type: ignore[no-untyped-def]
    """F = Pr(Beta(a, b) <= x) at x = 1 / (1 + e^-u), and dF/du; log_beta is log B(a, b).

    By the continued fraction of the incomplete beta function (DLMF 8.17.22).
    """
    e = math.exp(-abs(u))
    large, small = 1.0 / (1.0 + e), e / (1.0 + e)
    x, y = (large, small) if u >= 0.0 else (small, large)
    log_x, log_y = (
        (-math.log1p(e), -abs(u) - math.log1p(e))
        if u >= 0.0
        else (-abs(u) - math.log1p(e), -math.log1p(e))
    )
    slope = math.exp(a * log_x + b * log_y - log_beta)
    if x * (a + b + 2.0) < a + 1.0:  # where the fraction converges fast; else by symmetry
        return slope * _fraction(a, b, x) / a, slope
    return 1.0 - slope * _fraction(b, a, y) / b, slope


@njit(**COMPILE)
def _fraction(a, b, x):  # type: ignore[no-untyped-def]
    """The continued fraction of I_x(a, b) a B(a, b) x^-a (1 - x)^-b, by Lentz's method."""
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for j in range(1, 1000):  # about 5 sqrt(max(a, b)) terms suffice
        even = j * (b - j) * x / ((a + 2 * j - 1.0) * (a + 2 * j))
        d = 1.0 / (1.0 + even * d)
        c = 1.0 + even / c
        value *= c * d
        odd = -(a + j) * (a + b + j) * x / ((a + 2 * j) * (a + 2 * j + 1.0))
        d = 1.0 / (1.0 + odd * d)
        c = 1.0 + odd / c
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


@njit(**COMPILE)
def _rising(x, times):  # type: ignore[no-untyped-def]
    """R(x[j, c], times[c]) = log Gamma(x + times) - log Gamma(x) [J, c]."""
    value = np.empty(x.shape)
    for j in range(x.shape[0]):
        for c in range(x.shape[1]):
            if times[c] <= FEW and times[c] == int(times[c]):
                product = 1.0
                for i in range(int(times[c])):
                    product *= x[j, c] + i
                value[j, c] = math.log(product)
            else:
                value[j, c] = math.lgamma(x[j, c] + times[c]) - math.lgamma(x[j, c])
    return value


# Constraints


def project(p: Floats, weight: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The nearest p [n, 2, 2] that meets CONSTRAINTS, by least squares with these weights, and which of them bind [n, 4].

    Exact: at the optimum some constraints hold with equality, and what they tie together shares its weighted mean. Each way to tie
    is tried; of those that meet all constraints, the optimum is the nearest.
    """
    nearest, binding = p.copy(), np.zeros((len(p), len(CONSTRAINTS)), np.bool_)
    broken = np.flatnonzero(~_meets(p))
    flat, w = p[broken].reshape(-1, 4), weight[broken].reshape(-1, 4)  # [m, 4], place 2 a + s
    best, distance = np.empty(flat.shape), np.full(len(flat), np.inf)
    for blocks in _WAYS_TO_TIE:
        tied = flat.copy()
        for block in blocks:
            tied[:, block] = np.average(flat[:, block], axis=1, weights=w[:, block])[:, None]
        far = (w * (tied - flat) ** 2).sum(axis=1)
        better = (far < distance) & _meets(tied.reshape(-1, 2, 2))
        best[better], distance[better] = tied[better], far[better]
    nearest[broken] = best.reshape(-1, 2, 2)
    for c, ((a, s), (a2, s2)) in enumerate(CONSTRAINTS):
        binding[broken, c] = nearest[broken, a, s] == nearest[broken, a2, s2]
    return nearest, binding


def _meets(p: Floats) -> NDArray[np.bool_]:
    """Whether each p [n, 2, 2] meets CONSTRAINTS [n]."""
    met: NDArray[np.bool_] = np.logical_and.reduce(
        [p[:, a, s] <= p[:, a2, s2] for (a, s), (a2, s2) in CONSTRAINTS]
    )
    return met


def _ways_to_tie() -> list[tuple[list[int], ...]]:
    """The partitions of the places 2 a + s into blocks that constraints connect, other than all apart: 11 of them."""
    edges = [(2 * a + s, 2 * a2 + s2) for (a, s), (a2, s2) in CONSTRAINTS]
    ways = set()
    for chosen in product((False, True), repeat=len(edges)):
        block = list(range(4))
        for (i, j), tied in zip(edges, chosen, strict=True):
            if tied:
                block = [block[i] if other == block[j] else other for other in block]
        members = (
            tuple(place for place in range(4) if block[place] == name) for name in set(block)
        )
        ways.add(tuple(sorted(member for member in members if len(member) > 1)))
    return [tuple(list(member) for member in way) for way in sorted(ways) if way]


_WAYS_TO_TIE = _ways_to_tie()


def _both(bad: Floats, good: Floats) -> Floats:
    """[n, 2, 2, 2] from what is said of moving to the bad and to the good state, each [n, 2, 2]."""
    return np.stack([bad, good], axis=-1)


# Checks


def _whole(name: str, values: ArrayLike) -> Ints:
    """A column [m] of whole numbers."""
    column = np.asarray(values)
    if column.ndim != 1 or (column.dtype.kind not in "biu" and column.size):
        raise InvalidInput(
            f"{name} has shape {column.shape} and type {column.dtype}; give a column of whole numbers, -1 where missing"
        )
    return column.astype(np.int64, copy=False)


def _counts(counts: ArrayLike) -> Ints:
    given = np.asarray(counts)
    shape = given.shape
    if given.ndim != 4 or shape[1] != 2 or shape[2] != shape[3] or shape[2] < 2 or not shape[0]:
        raise InvalidInput(
            f"counts has shape {shape}, expected (n, 2, S, S) with n >= 1 and S >= 2: what count_transitions gives"
        )
    if given.dtype.kind not in "iu":
        raise InvalidInput(
            f"counts has type {given.dtype}; give whole numbers of moves: what count_transitions gives"
        )
    _refuse(given < 0, given, "counts", "give numbers of moves, at least 0")
    return given.astype(np.int64, copy=False)


def _groups(groups: ArrayLike | None, n: int) -> tuple[Ints, int]:
    if groups is None:
        return np.zeros(n, np.int64), 1
    codes = _whole("groups", groups)
    if codes.shape != (n,):
        raise InvalidInput(
            f"groups has shape {codes.shape}, counts is about {n} persons; give one code a person"
        )
    _refuse(
        codes < 0,
        codes,
        "groups",
        "give codes 0, 1, ...; let those without a group be a group of their own",
    )
    return codes, int(codes.max()) + 1


def _refuse(bad: NDArray[np.bool_], values: NDArray[Any], name: str, remedy: str) -> None:
    """Raise if any entry is bad: name the first place, count the offenders, say what to do."""
    count = int(np.count_nonzero(bad))
    if count:
        place = tuple(int(j) for j in np.unravel_index(int(np.argmax(bad)), bad.shape))
        at = ", ".join(map(str, place))
        raise InvalidInput(
            f"{name}[{at}] is {values[place]} ({count} of {bad.size} entries are wrong); {remedy}"
        )
