"""The people who are waiting at one site: their gains, chances and course over the horizon.

The people who are waiting at a site are a cohort of n arms, of which k can be helped a round for
the T rounds that are left. `solve_priced` gives each person's gain lambda_t(s) from a contact and
the prices at which k contacts are expected in each round; under these a person in state s is
contacted with probability

    pi_t(s) = sigmoid(c lambda_t(s) - theta_t),

independently of the others. If evenness has a weight (`softfair.EvenHanded`), everybody's bonus b
is added to lambda. If something is promised (`promises`), gains and prices are those of
`solve_promised` (with shares of groups, of `solve_shared`): the lists that a person has left are
part of the state, a person with one list left is on it for certain, and no chance is below the
floor. Following everybody's distribution over states through the horizon then gives the expected
reward (of the states reached) and the expected contacts of each person. The list that is drawn has
exactly k people and not k on average; therefore, for a site of a few people the expected reward is
some per cent too high.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...cohort import Cohort
from ...errors import NotConverged
from ...solvers import (
    PromisedValues,
    SharedValues,
    solve_evenhanded,
    solve_priced,
    solve_promised,
    solve_shared,
)
from ...solvers.evenhanded import BonusValues, Near
from ...solvers.values import PriceValues
from ..aims import SOFTFAIR, Evenness
from ..assignment import Arm

__all__ = ["NOTHING", "ROUGH", "SLICE", "Followed", "Keeping", "Shares", "SiteCohort"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLICE = 65_536  # people that are followed through the horizon at a time
ROUGH = 1e-4  # relative gap of a budget or a rate for a figure that is shown, not drawn with


class Followed(NamedTuple):
    """What is expected over the horizon."""

    reward: float  # of everybody together, summed over the states reached
    contacts: Floats  # [n] of each person


class Shares(NamedTuple):
    """Bounds on the contacts a round of some groups of a site."""

    inside: NDArray[np.bool_]  # [groups, n] who belongs to each
    least: Floats  # [groups]
    most: Floats


class Keeping(NamedTuple):
    """What is promised to the people of a site."""

    W: int = 0  # of any W lists in a row each is on at least one; 0: no wait is promised
    floor: float = 0.0  # the least chance; 0: none is promised
    left: Ints = np.ones(1, np.int64)  # [n] lists within which each must be on one now
    shares: Shares | None = None


NOTHING = Keeping()


class Solved(NamedTuple):
    """Gains and prices of a site at one multiplier."""

    # The rows of the values are gains plus bonuses.
    values: PriceValues | BonusValues | PromisedValues | SharedValues
    bonus: Floats  # [n] what evenness adds to each person's gain
    mu: float  # the weight of evenness

    def part(
        self, cohort: Cohort, which: Ints
    ) -> PriceValues | BonusValues | PromisedValues | SharedValues:
        """The values of some of the people."""
        if isinstance(self.values, SharedValues):
            return replace(self.values, cohort=cohort, cell=self.values.cell[which])
        if isinstance(self.values, BonusValues):
            return replace(self.values, cohort=cohort, bonus=self.bonus[which])
        return replace(self.values, cohort=cohort)


class SiteCohort:
    """The people who are waiting at one site.

    Parameters
    ----------
    cohort
        Their transition probabilities, rewards and distributions over states now.
    k
        How many of them can be contacted a round.
    horizon
        Rounds that are left, this one included.
    who
        Their numbers in the programme [n].
    arm
        The arm of a trial, if there is one; in the lottery's arm any c counts as 0.
    keeping
        What is promised to them.
    """

    def __init__(
        self,
        cohort: Cohort,
        k: int,
        horizon: int,
        who: Ints,
        arm: str = "",
        keeping: Keeping = NOTHING,
    ) -> None:
        self.cohort, self.k, self.horizon, self.who, self.arm = cohort, k, horizon, who, arm
        # A deadline after the last round binds nobody.
        W, left = min(keeping.W, horizon + 1), np.minimum(keeping.left, horizon + 1)
        self.keeping = Keeping(W, min(keeping.floor, k / cohort.n), left, keeping.shares)
        self._solved: tuple[tuple[float, Evenness], Solved] | None = None  # the last solution

    @property
    def layers(self) -> int:
        """How many numbers of lists left there are; 1 without a promised wait."""
        return max(1, self.keeping.W)

    @property
    def leaves_a_choice(self) -> bool:
        """Whether some are contacted in a round and others are not, and not by lottery alone."""
        return self.k not in (0, self.cohort.n) and self.arm != Arm.LOTTERY

    @property
    def promised(self) -> bool:
        """Whether anything is promised."""
        return self.keeping.W > 0 or self.keeping.floor > 0 or self.keeping.shares is not None

    @cached_property
    def freely(self) -> SiteCohort:
        """The same people without a promise."""
        if not self.promised:
            return self
        return SiteCohort(self.cohort, self.k, self.horizon, self.who, self.arm)

    @property
    def left(self) -> Ints:
        """Lists that each person has left [n]; 1 without a promised wait."""
        return np.broadcast_to(self.keeping.left, self.cohort.n) if self.keeping.W else self._one

    @cached_property
    def _one(self) -> Ints:
        return np.ones(self.cohort.n, np.int64)

    def solved(self, c: float, evenness: Evenness = SOFTFAIR) -> Solved:
        """Gains, bonuses and prices at multiplier c; the last solution is remembered."""
        if self.arm == Arm.LOTTERY:
            c, evenness = 0.0, SOFTFAIR
        if self._solved is None or self._solved[0] != (c, evenness):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConverged)  # the outlook has the residual
                self._solved = (c, evenness), self._solve(c, evenness)
        return self._solved[1]

    def _solve(self, c: float, evenness: Evenness) -> Solved:
        given = (self.cohort, self.k, self.horizon, 1.0)
        W, floor, _, shares = self.keeping
        if shares is not None and 0 < self.k < self.cohort.n:
            shared = solve_shared(*given, c, *shares, floor, W, self.left)
            return Solved(shared, np.zeros(self.cohort.n), 0.0)
        if self.promised:
            solution = solve_promised(*given, c, W, floor, self.left if W else None)
            return Solved(solution, np.zeros(self.cohort.n), 0.0)
        if evenness.is_softfair or not self.leaves_a_choice or c == 0:  # chances are equal
            return Solved(solve_priced(*given, c), np.zeros(self.cohort.n), 0.0)
        fitted = evenness.policy(c).fit(*given)
        assert isinstance(fitted.values, PriceValues | BonusValues)
        return Solved(fitted.values, fitted.bonus, fitted.mu)

    def approach(self, c: float, mu: float, near: Near) -> Solved:
        """As `solved` with a weight of evenness, from nearby prices and up to a gap of ROUGH.

        The solution is remembered too: the next calls with this c and weight use it.
        """
        given = (self.cohort, self.k, self.horizon, 1.0, c, mu)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # the outlook has the residual
            solution = solve_evenhanded(*given, tolerance=ROUGH, near=near)
        assert isinstance(solution.values, PriceValues | BonusValues)
        solved = Solved(solution.values, solution.bonus, mu)
        self._solved = (c, Evenness("mu", mu)), solved
        return solved

    def values(self, c: float) -> PriceValues | BonusValues | PromisedValues | SharedValues:
        """Gains and prices at multiplier c, without evenness."""
        return self.solved(c).values

    def scores(self, c: float, evenness: Evenness = SOFTFAIR) -> Floats:
        """Expected gain lambda_0 from a contact now [n], over the states a person may be in.

        People who must be on this list have the gain of being on it rather than on the next.
        """
        solved, n = self.solved(c, evenness), self.cohort.n
        rows = solved.values.rows(0, 1)[0].reshape(n, self.layers, -1)
        layer = np.minimum(np.maximum(self.left, 2), self.layers) - 1
        sums: Floats = np.sum(rows[np.arange(n), layer] * self.cohort.start, axis=1)
        return sums - solved.bonus

    def follow(self, c: float | None, evenness: Evenness = SOFTFAIR) -> Followed:
        """Expected reward and contacts over the horizon; c None: nobody is contacted.

        Notes
        -----
        With the distribution x_t over states, x_{t+1} = (x_t (1 - pi_t)) P[0] + (x_t pi_t) P[1];
        the reward of decision t is that of the state reached, sum_s x_{t+1}(s) r(s).
        """
        reward, contacts = 0.0, np.zeros(self.cohort.n)
        for which in self._parts():
            part = self.cohort.subset(which)
            x = np.zeros((part.n, self.layers, part.S))
            x[np.arange(part.n), self.left[which] - 1] = part.start
            for inverse in self._inverse_chances(c, evenness, part, which):
                active = x / inverse.reshape(x.shape)
                listed = active.sum(axis=1)  # [n, S]
                contacts[which] += listed.sum(axis=1)
                x = np.matmul(x - active, part.P[:, 0])
                if self.layers > 1:  # one list less is left; people with one left were on it
                    x = np.concatenate([x[:, 1:], np.zeros_like(x[:, :1])], axis=1)
                x[:, -1] += np.matmul(listed[:, None], part.P[:, 1])[:, 0]
                reward += float(np.sum(x * part.reward[:, None]))
        return Followed(reward, contacts)

    def _parts(self) -> Iterator[Ints]:
        """Places of some of the people at a time."""
        size = max(1, SLICE // self.layers)
        for first in range(0, self.cohort.n, size):
            yield np.arange(first, min(first + size, self.cohort.n))

    def chances(self, c: float, evenness: Evenness = SOFTFAIR) -> Iterator[tuple[Ints, Floats]]:
        """Some of the people at a time: their places, and pi_t(d, s) [T, m, layers S] of each."""
        for part in self._parts():
            inverse = self._inverse_chances(c, evenness, self.cohort.subset(part), part)
            yield part, 1 / np.stack(list(inverse))

    def _inverse_chances(
        self, c: float | None, evenness: Evenness, part: Cohort, which: Ints
    ) -> Iterator[Floats]:
        """1 / pi_t(d, s) [n, layers S] of some of the people for t = 0, ..., T - 1; inf: never."""
        if c is None:
            never = np.full((part.n, self.layers * part.S), np.inf)
            yield from (never for _ in range(self.horizon))
            return
        W, floor, *_ = self.keeping
        values = self.solved(c, evenness).part(part, which)
        gains = values.rows(0, self.horizon)  # lambda_t(s), with the bonus [T, n, layers S]
        for theta, gain in zip(values.theta, gains, strict=True):
            with np.errstate(over="ignore"):
                inverse = 1 + np.exp(theta - values.c * gain)
            if floor > 0:
                inverse = np.minimum(inverse, 1 / floor)
            if W:
                inverse[:, : part.S] = 1.0  # people with one list left are on it
            yield inverse
