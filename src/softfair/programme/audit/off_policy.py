"""What another policy would have brought, estimated from the lists that were drawn.

Over every planned round and person in the draw of a site: p is the stated probability of the list,
L is 1 for those on it, Y the reward of the state reached in the next round, s / (S - 1) (so the
share in the good state where there are two), and q the probability by which the other policy would
list the person.

The action is the list, whose probability is known, not the contact (intention to treat). The
estimand is the mean Y in the round after, had each planned round's list been drawn by the other
policy from the same people in the same states. It looks one round ahead, and assumes that a
person's outcome depends on their own listing alone.

    w = L q / p + (1 - L)(1 - q) / (1 - p),    V = sum w Y / sum w,    difference V - mean Y.

The people and their states are taken as given; the draw and the outcomes vary. With m1 and m0 the
mean outcomes of a person, listed and not (by the model of the plan and the shares of the listed and
of the others who are contacted; plain means where the model has no prediction), W = sum w and N the
number of rounds of people, the sum of w (Y - V) has the variance of

    sum L (A - V B),   A = m1 q / p - m0 (1 - q) / (1 - p),   B = q / p - (1 - q) / (1 - p),

under the draw, plus sum w^2 (Y - m)^2. The difference has the variance of
sum L ((A - V B) / W - (m1 - m0) / N), plus sum (w / W - 1 / N)^2 (Y - m)^2. Given everything before
it, a round's errors have mean zero, so that variances of rounds add up. The difference is from what
the programme's own way of drawing brings on average. If what the other policy would change was
(almost) never drawn, the result says so instead of an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...policies.rules import Rule
from .design import DesignLaw
from .planned import Planned
from .words import floored

__all__ = [
    "AS_DRAWN",
    "LOTTERY",
    "ByList",
    "OffPolicy",
    "OffPolicyRow",
    "Policy",
    "is_heavy",
    "policies_for",
    "weights_of",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HEAVIEST = 50.0  # a weight beyond this rests on lists that were hardly ever drawn
UNSUPPORTED = 0.05  # largest share of what another policy moves that may rest on such weights
LEAST_EFFECTIVE = 10.0  # independent rounds, listed and not listed, that weights must be worth
NOTHING = 1e-9  # a sum of probabilities below this share of the rounds is rounding


@dataclass(frozen=True)
class Policy:
    """A way to draw lists.

    ``inclusion`` takes scores [m] of a draw, its places k and the plan's c, and gives q [m].
    ``scores`` gives the scores of a plan: those that its own draw followed, or gains alone.
    """

    name: str
    inclusion: Callable[[Floats, int, float], Floats]
    scores: Callable[[Planned], Floats] = lambda one: one.drawn_by


def _softmax(c: float, score: Floats, k: int) -> Floats:
    return Rule.softmax(c, "joint").inclusion(score, k) if k else np.zeros(len(score))


def _softmax_of(c: float) -> Policy:
    return Policy(f"c = {c:g}", lambda score, k, _: _softmax(c, score, k))


AS_DRAWN = Policy("as drawn", lambda score, k, c: _softmax(c, score, k))
LOTTERY = Policy("Random", lambda score, k, c: np.full(len(score), k / len(score)))
NOBODY = Policy("nobody listed", lambda score, k, c: np.zeros(len(score)))
MOST_EFFECTIVE = Policy(
    "most effective", lambda score, k, c: _softmax(math.inf, score, k), lambda one: one.score
)
HALF = Policy("half of c", lambda score, k, c: _softmax(c / 2, score, k))
TWICE = Policy("twice c", lambda score, k, c: _softmax(2 * c, score, k))


def policies_for(between: bool, cs: Sequence[float]) -> tuple[Policy, ...]:
    """The policies that the lists are compared with.

    Parameters
    ----------
    between : bool
        Whether c of some plan is neither 0 nor infinite.
    cs : sequence of float
        Multipliers c to compare with, instead of half and twice the programme's own.

    Returns
    -------
    tuple of Policy
        The programme's own policy first, as a check: its estimate must be what was realised.
    """
    others = tuple(_softmax_of(c) for c in cs)
    if not cs and between:
        others = (HALF, TWICE)
    return (AS_DRAWN, NOBODY, LOTTERY, MOST_EFFECTIVE, *others)


@dataclass(frozen=True)
class OffPolicyRow:
    """The mean reward that a policy would have brought; nan where there is no estimate."""

    policy: str
    estimable: bool
    why_not: str
    rounds: int  # of people in the draw, with a known outcome
    effective_listed: float  # how many independent rounds of listed people the weights are worth
    effective_not_listed: float
    unsupported: float  # share of what the policy would change that was (almost) never drawn
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    difference: float = math.nan  # from what was realised
    difference_low: float = math.nan
    difference_high: float = math.nan
    unnormalised: float = math.nan  # sum w Y over the number of rounds


@dataclass(frozen=True, eq=False)
class _Observed:
    """People of one draw whose outcome is known, [m]."""

    law: DesignLaw  # of the whole draw
    known: Ints  # places of these people in the whole draw
    p: Floats
    listed: Ints
    Y: Floats
    mean: Floats  # [m, 2] of Y, not listed and listed

    @classmethod
    def of(cls, one: Planned, draw: Ints, law: DesignLaw, mean: Floats, S: int) -> _Observed:
        known = np.flatnonzero(one.after[draw] >= 0)
        rows = draw[known]
        return cls(
            law,
            known,
            one.probability[rows],
            one.listed[rows],
            one.after[rows] / (S - 1),
            mean[rows],
        )

    @cached_property
    def squared(self) -> Floats:
        """The square of Y less the mean outcome expected as each was listed or not."""
        return (self.Y - np.where(self.listed == 1, self.mean[:, 1], self.mean[:, 0])) ** 2

    def covariance(self, *numbers: Floats) -> Floats:
        """Covariance of the sums of several ``numbers`` [m] over the people listed."""
        X = np.zeros((len(self.law.p), len(numbers)))
        X[self.known] = np.stack(numbers, axis=1)
        return self.law.covariance(X)


def weights_of(listed: Bools, p: Floats, q: Floats) -> Floats:
    """w of the equations above: how much more likely another policy makes what was drawn.

    Parameters
    ----------
    listed : ndarray of bool
        Whether each person was listed.
    p, q : ndarray
        The stated probability of being listed, and that of the other policy.
    """
    wanted, stated = np.where(listed, q, 1 - q), np.where(listed, p, 1 - p)
    # A result of probability 0 has the weight 0.
    return np.divide(wanted, stated, out=np.zeros(p.shape), where=stated > 0)


def is_heavy(p: Floats, q: Floats) -> Bools:
    """Where the change from p to q would rest on weights beyond HEAVIEST.

    Parameters
    ----------
    p, q : ndarray
        The stated probability of being listed, and that of the other policy.
    """
    return np.asarray(np.where(q > p, q > HEAVIEST * p, 1 - q > HEAVIEST * (1 - p)))


class _Sums:
    """Sums over draws for one policy."""

    def __init__(self) -> None:
        self.w = self.wY = self.Y = self.rounds = 0.0
        self.by_list = np.zeros((2, 3))  # not listed and listed: sums of w, of w^2, of 1 - q or q
        self.moved = 0.0  # sum |q - p|
        self.unsupported = 0.0  # the part of this sum with weights beyond HEAVIEST
        self.errors = np.zeros(3)  # sums of w^2, w and 1 times the squared error
        self.covariance = np.zeros((3, 3))  # of sums of A, B and m1 - m0 over the listed

    def add(self, seen: _Observed, q: Floats) -> None:
        """Count one draw."""
        p, listed = seen.p, seen.listed == 1
        w = weights_of(listed, p, q)
        self.rounds += len(p)
        self.Y += float(seen.Y.sum())
        self.w += float(w.sum())
        self.wY += float(np.sum(w * seen.Y))  # not by BLAS: its sums depend on its threads
        for a, own, chance in ((0, w[~listed], 1 - q), (1, w[listed], q)):
            self.by_list[a] += own.sum(), np.sum(own * own), chance.sum()
        shift = np.abs(q - p)
        self.moved += float(shift.sum())
        self.unsupported += float(shift[is_heavy(p, q)].sum())
        weighted = w * seen.squared
        self.errors += np.sum(w * weighted), weighted.sum(), seen.squared.sum()
        on = np.divide(q, p, out=np.zeros(len(p)), where=p > 0)
        off = np.divide(1 - q, 1 - p, out=np.zeros(len(p)), where=p < 1)
        m0, m1 = seen.mean.T
        self.covariance += seen.covariance(on * m1 - off * m0, on - off, m1 - m0)


class ByList:
    """Contacts and outcomes of the people in draws, not listed and listed.

    Parameters
    ----------
    S : int
        Number of states.
    """

    def __init__(self, S: int) -> None:
        self._S = S
        self._contacts, self._known, self._outcome, self._followed = np.zeros((4, 2))

    def add(self, one: Planned) -> None:
        """Count a round."""
        for a in (0, 1):
            here = one.in_draw & (one.listed == a)
            contacted, after = one.contacted[here], one.after[here]
            self._contacts[a] += np.count_nonzero(contacted == 1)
            self._known[a] += np.count_nonzero(contacted >= 0)
            self._outcome[a] += after[after >= 0].sum() / (self._S - 1)
            self._followed[a] += np.count_nonzero(after >= 0)

    @property
    def reached(self) -> Floats:
        """The share of people who were contacted, not listed and listed [2]."""
        return np.asarray(self._contacts / np.maximum(self._known, 1))

    @property
    def outcome(self) -> Floats:
        """Mean reward in the round after, not listed and listed [2]."""
        return np.asarray(self._outcome / np.maximum(self._followed, 1))

    def expected(self, means: Floats) -> Floats:
        """Mean outcome of everybody, not listed and listed [m, 2].

        Parameters
        ----------
        means : ndarray, shape (m, 2)
            Mean outcome left alone and contacted, by a model; nan where it has no prediction.
        """
        listed = means[:, :1] + self.reached * (means[:, 1:] - means[:, :1])
        return np.where(np.isnan(listed), self.outcome, listed)


class OffPolicy:
    """The mean reward in the round after, had another policy drawn the lists.

    Parameters
    ----------
    policies : sequence of Policy
        Those to estimate.
    by_list : ByList
        Of all planned rounds.
    S : int
        Number of states.

    Notes
    -----
    The equations stand at the top of this file.
    """

    def __init__(self, policies: Sequence[Policy], by_list: ByList, S: int) -> None:
        self._sums = [(policy, _Sums()) for policy in policies]
        self._by_list, self._S = by_list, S

    def add(self, one: Planned, means: Floats) -> None:
        """Count a round; ``means`` as in `ByList.expected`."""
        expected = self._by_list.expected(means)
        for (draw, k, c), law in zip(one.site_draws(), one.laws, strict=True):
            seen = _Observed.of(one, draw, law, expected, self._S)
            for policy, total in self._sums:
                q = policy.inclusion(policy.scores(one)[draw], k, c)
                total.add(seen, q[seen.known])

    def rows(self, z: float) -> tuple[OffPolicyRow, ...]:
        """What was found.

        Parameters
        ----------
        z : float
            Standard deviations that an interval reaches to either side.

        Returns
        -------
        tuple of OffPolicyRow
            A row a policy; none if no outcome is known.
        """
        if not any(total.rounds for _, total in self._sums):
            return ()
        return tuple(_estimate(policy, total, z) for policy, total in self._sums)


def _estimate(policy: Policy, sums: _Sums, z: float) -> OffPolicyRow:
    """One policy's row, from sums over draws."""
    total = sums.rounds
    unsupported = sums.unsupported / sums.moved if sums.moved > NOTHING * total else 0.0
    w, squares, chances = sums.by_list.T  # each [2]
    effective = np.divide(w**2, squares, out=np.zeros(2), where=squares > 0)
    thin = (effective < LEAST_EFFECTIVE) & (chances > NOTHING * total)
    why_not = ""
    if unsupported > UNSUPPORTED:
        why_not = f"{unsupported:.0%} of what it would change was (almost) never drawn"
    elif thin.any() and policy is not AS_DRAWN:
        why_not = (
            f"rests on the worth of {floored(effective[thin].min())} rounds of people; "
            f"{LEAST_EFFECTIVE:.0f} are needed"
        )
    row = OffPolicyRow(
        policy=policy.name,
        estimable=not why_not,
        why_not=why_not,
        rounds=int(total),
        effective_listed=float(effective[1]),
        effective_not_listed=float(effective[0]),
        unsupported=unsupported,
    )
    return row if why_not else _with_estimate(row, sums, z)


def _with_estimate(row: OffPolicyRow, sums: _Sums, z: float) -> OffPolicyRow:
    """The row with V and its difference from the realised mean, each with its interval."""
    N, W = sums.rounds, sums.w
    V, realised = sums.wY / W, sums.Y / N
    difference = V - realised

    def half(linear: Floats, errors: Floats) -> float:
        """Half of an interval, by the factors of A, B and m1 - m0, and of the squared errors."""
        variance = linear @ sums.covariance @ linear + errors @ sums.errors
        return z * math.sqrt(max(float(variance), 0.0))

    own = half(np.array([1, -V, 0]) / W, np.array([1 / W**2, 0, 0]))
    of_difference = half(
        np.array([1 / W, -V / W, -1 / N]), np.array([1 / W**2, -2 / (W * N), 1 / N**2])
    )
    return replace(
        row,
        estimate=V,
        low=max(V - own, 0.0),
        high=min(V + own, 1.0),
        difference=difference,
        difference_low=difference - of_difference,
        difference_high=difference + of_difference,
        unnormalised=sums.wY / N,
    )
