"""What another policy would have brought, estimated from the lists that were drawn.

Over every planned round and person in the draw of a site: p is the stated probability of the list,
L is 1 for who is on it, Y the reward of the state reached in the next round, s / (S - 1) (so the
share in the good state where there are two), and q the probability by which the other policy would
list the person.

The action is the list, whose probability is known, not the contact (intention to treat). The
estimand is the mean Y in the round after, had each planned round's list been drawn by the other
policy from the same people in the same states: one round ahead, a person's outcome depending on
their own listing alone.

    w = L q / p + (1 - L)(1 - q) / (1 - p),    V = sum w Y / sum w,    difference V - mean Y.

Variances sum w (Y - V), or w (Y - V) - (Y - mean Y) for the difference, over each person's rounds
first. The difference is from what the programme's own way of drawing brings on average. Where the
lists drawn have (almost) nobody of those whom the other policy would move, that is said instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...policies.base import Rule
from .evidence import Planned
from .words import floored

__all__ = ["AS_DRAWN", "LOTTERY", "OffPolicyRow", "Policy", "off_policy_of", "policies_for"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HEAVIEST = 50.0  # a weight beyond this rests on lists that were hardly ever drawn
UNSUPPORTED = 0.05  # share of what another policy moves that may rest on such weights
LEAST_EFFECTIVE = 10.0  # people's rounds, listed and not listed, that an estimate rests on
NOTHING = 1e-9  # a sum of probabilities below this share of the rounds is rounding


@dataclass(frozen=True)
class Policy:
    """A way to draw lists: scores [m] of a draw, its places k and the plan's c to q [m].

    ``scores`` of a plan are those that its own draw followed, or gains alone.
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


def policies_for(planned: Sequence[Planned], cs: Sequence[float]) -> tuple[Policy, ...]:
    """The policies that the lists are compared with.

    Parameters
    ----------
    planned : sequence of Planned
        The rounds, with what was recorded of them.
    cs : sequence of float
        Multipliers c to compare with, instead of half and twice the programme's own.

    Returns
    -------
    tuple of Policy
        The programme's own first, as a check: it must give what was realised.
    """
    others = tuple(_softmax_of(c) for c in cs)
    if not cs and any(0 < one.c < math.inf for one in planned):
        others = (HALF, TWICE)
    return (AS_DRAWN, NOBODY, LOTTERY, MOST_EFFECTIVE, *others)


@dataclass(frozen=True)
class OffPolicyRow:
    """The mean reward that a policy would have brought, nan where it cannot be told."""

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

    person: Ints
    p: Floats
    listed: Ints
    Y: Floats

    @classmethod
    def of(cls, one: Planned, rows: Ints, S: int) -> _Observed:
        return cls(
            one.person[rows], one.probability[rows], one.listed[rows], one.after[rows] / (S - 1)
        )


class _Sums:
    """Sums over draws for one policy."""

    def __init__(self, n: int) -> None:
        self.w, self.wY = np.zeros(n), np.zeros(n)  # of each person
        self.by_list = np.zeros((2, 3))  # not listed and listed: sums of w, of w^2, of 1 - q or q
        self.moved = 0.0  # sum |q - p|
        self.unsupported = 0.0  # the part of it that would rest on weights beyond HEAVIEST

    def add(self, seen: _Observed, q: Floats) -> None:
        """Count one draw."""
        n, p, listed = len(self.w), seen.p, seen.listed == 1
        wanted, stated = np.where(listed, q, 1 - q), np.where(listed, p, 1 - p)
        # A list that could not be drawn says nothing: its weight is 0.
        w = np.divide(wanted, stated, out=np.zeros(len(p)), where=stated > 0)
        self.w += np.bincount(seen.person, w, n)
        self.wY += np.bincount(seen.person, w * seen.Y, n)
        for a, own, chance in ((0, w[~listed], 1 - q), (1, w[listed], q)):
            self.by_list[a] += own.sum(), own @ own, chance.sum()
        shift = np.abs(q - p)
        heavy = np.where(q > p, q > HEAVIEST * p, 1 - q > HEAVIEST * (1 - p))
        self.moved += float(shift.sum())
        self.unsupported += float(shift[heavy].sum())


def off_policy_of(
    planned: Sequence[Planned], policies: Sequence[Policy], n: int, S: int, z: float
) -> tuple[OffPolicyRow, ...]:
    """The mean reward in the round after, had another policy drawn the lists.

    Parameters
    ----------
    planned : sequence of Planned
        The rounds, with what was recorded of them.
    policies : sequence of Policy
        Those to estimate.
    n, S : int
        Numbers of people and of states.
    z : float
        Standard deviations that an interval reaches to either side.

    Returns
    -------
    tuple of OffPolicyRow
        A row a policy; none if no outcome is known.

    Notes
    -----
    The equations stand at the top of this file.
    """
    rounds, reward = np.zeros(n), np.zeros(n)  # of each person: rounds with an outcome, sum of Y
    sums = [_Sums(n) for _ in policies]
    for one in planned:
        for draw, k in one.site_draws():
            known = np.flatnonzero(one.after[draw] >= 0)
            seen = _Observed.of(one, draw[known], S)
            rounds += np.bincount(seen.person, minlength=n)
            reward += np.bincount(seen.person, seen.Y, n)
            for policy, total in zip(policies, sums, strict=True):
                total.add(seen, policy.inclusion(policy.scores(one)[draw], k, one.c)[known])
    if not rounds.any():
        return ()
    return tuple(
        _estimate(policy, total, rounds, reward, z)
        for policy, total in zip(policies, sums, strict=True)
    )


def _estimate(
    policy: Policy, sums: _Sums, rounds: Floats, reward: Floats, z: float
) -> OffPolicyRow:
    """One policy's row, from sums over draws and from rounds and reward [n] of each person."""
    total = float(rounds.sum())
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
    return row if why_not else _with_estimate(row, sums, rounds, reward, z)


def _with_estimate(
    row: OffPolicyRow, sums: _Sums, rounds: Floats, reward: Floats, z: float
) -> OffPolicyRow:
    """The row with V and its difference from the realised mean, each with its interval."""
    total, w = float(rounds.sum()), float(sums.w.sum())
    V, realised = float(sums.wY.sum()) / w, float(reward.sum()) / total
    influence = (sums.wY - V * sums.w) / w  # [n] of each person on V
    on_difference = influence - (reward - realised * rounds) / total  # [n]
    persons = max(int(np.count_nonzero(rounds)), 2)

    def half(influences: Floats) -> float:
        return z * math.sqrt(float(influences @ influences) * persons / (persons - 1))

    difference, half_difference = V - realised, half(on_difference)
    return replace(
        row,
        estimate=V,
        low=max(V - half(influence), 0.0),
        high=min(V + half(influence), 1.0),
        difference=difference,
        difference_low=difference - half_difference,
        difference_high=difference + half_difference,
        unnormalised=float(sums.wY.sum()) / total,
    )
