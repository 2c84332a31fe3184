r"""The `paper` solver: Algorithm 1 to the letter, and whether its gains have settled.

Episodes ep = 1..K run forward, t = 0..T-1, from a random start. (The paper prints 0..T, one
decision more than its horizon has.) Only values of visited states are overwritten (Eq. 5), by
pi Q(s, 1) + (1 - pi) Q(s, 0), where V_{t+1} is that of the previous episode. A reward needs an
episode for each step that it travels back. The value of a state that was not visited yet is 0. So
the gain of leaving or avoiding the state is far too large; its arm is therefore helped at every
decision, and the state is hardly ever visited. Such arms need thousands of episodes. They are few,
so that the sum of all values at t = 0 looks settled long before.

When have the gains settled?
    The gains on which the policy acted over the last third of the episodes are compared with those
    of a swept table, which does not depend on the order of visits. The table evaluates the policy
    of the same episodes in one sweep backward over all states. With the mean inclusion probability
    pi of each (t, arm, state) over its visits, and the mean gain g on which the policy acted there,

        V~_t(s) = Q~_t(s, 0) + pi lambda~_t(s) + cov(pi, g),    lambda~ the gains by V~_{t+1}.

    The sweep needs no visits, because the transition probabilities are known; for a state that was
    not visited, pi follows from the step's mean shift (kernels.episodes). The gap at
    (t, arm, state) is \|g - lambda~\|, or the change of g since the previous look if that is
    larger, less half the noise of g. There is noise because a value is that of the last visit, and
    pi depends on the states of all other arms; so g never stops varying. The noise is a standard
    deviation, from differences between one visit and the next, so that a slow drift does not count
    as noise. ``Info.residual`` is the mean gap over the policy's selections, divided by the mean
    lambda~ over the selections. The weight of a (t, arm, state) is its number of visits, times the
    larger of pi and the probability that lambda~ would give.

What the tolerance means.
    A residual of .02 means: arms that are selected, or should be, have gains that are wrong by 2 %
    of the mean gain of a selection, beyond half the noise. Selecting by gains g instead of lambda~
    costs at most sum \|pi - pi~\| \|g - lambda~\|: twice the residual times the share of selections
    that go to other arms. That share was .1 at most (synthetic and CPAP cohorts, c up to 9), which
    makes .004 of the benefit: less than 1 point. But when the policy changes, its gains change, and
    a mean over all selections can hide one arm that is completely wrong. At a residual of .03 to
    .07 the mean gain still moved by 3 to 27 % over four times the episodes; at a residual below .02
    it moved within the noise (synthetic, n = 20 and 40, T = 15 and 30, c = 5 and 9).

Why Algorithm 1 and the mean field still differ after that.
    pi is computed in the joint state that was visited, so a value varies with the states of all
    other arms. It varies more if c is larger and if there are fewer arms. Gains that are high by
    chance raise pi, which raises values (the covariance above). A value that is low by chance makes
    visits to its state rarer, and so lasts longer than a value that is high by chance. The mean
    field has one expected joint state, and neither effect. Measured with k = 10 of 100 arms and
    c = 9, benefit and entropy: 88 / 3.53 after 3200 episodes against 85 / 3.23 (synthetic, T = 50),
    95 / 2.88 after 8000 against 97 / 2.72 (CPAP, half of them adherent, T = 80).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort, refuse_costs
from ..errors import NotConverged, warn, whole
from ..kernels import episodes as kernels
from ..kernels.expansion import SERIES
from ..kernels.rules import RuleCode
from ..progress import track
from ..sampling import DESIGNS, Design
from .budget import Budget
from .values import Info, TableValues

__all__ = ["solve_paper"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The relative error of inclusion probabilities is at most INCLUSION_TOLERANCE, far below the noise
# of a visit. The kernel uses its fast evaluation if its estimate of the error is within
# ESTIMATED_TOLERANCE. The estimate is too large: if at most 1e-3, 3e-3 and 1e-2 are accepted
# (n = 100, k = 10, c = 9), the true error is at most 2e-4, 3e-4 and 1.1e-3. The exact evaluation
# takes three times as long; it is needed for 1 step in 7, instead of 13 in 14 with 1e-3.
INCLUSION_TOLERANCE = 1e-3
ESTIMATED_TOLERANCE = 8e-3
GAP_TOLERANCE = 0.02  # of the mean gain of a selection
GROWTH = 1.5  # ratio of the episodes at one look at the gap to those at the look before
NOISE_ALLOWED = 0.5  # part of a gain's noise that does not count as a gap
FIRST_LOOK = 2  # times T: by then a reward has travelled through all steps and changed the policy
MOST_EPISODES = 100  # times T, unless the caller gives a number of episodes
STANDSTILL = 0.9  # the gap has stopped falling if it is above this part of the gap two looks ago
PART = 2e6  # arm-steps between two moves of the progress bar


@dataclass(eq=False)
class _Window:
    """Visits, sums of gains and chances, and shifts of the episodes since the last look."""

    episodes: int
    visits: NDArray[np.int32]  # [T, n, S]
    sums: Floats  # [T, n, S, 5], columns of kernels.episodes
    clocks: Floats  # [T]

    @classmethod
    def empty(cls, horizon: int, cohort: Cohort) -> _Window:
        shape = (horizon, cohort.n, cohort.S)
        return cls(0, np.zeros(shape, np.int32), np.zeros((*shape, 5)), np.zeros(horizon))


@dataclass(frozen=True)
class _Gap:
    """The distance between the gains acted on and those of a swept table, over all selections."""

    residual: float  # mean gap, as a part of the mean gain
    distance: float  # the same without subtracting noise
    noise: float  # mean noise, as a part of the mean gain
    mean_gain: float
    unvisited: float  # chance that a selected arm gets to a state that was never visited


def solve_paper(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float,
    c: float,
    design: Design,
    episodes: int | None,
    seed: int,
) -> TableValues:
    """Values after ``episodes`` episodes; by default after as many as the gains need to settle.

    With the default, the gap is computed after 2 T episodes and then whenever their number has
    grown by a factor of 1.5. Episodes end when the gap is within GAP_TOLERANCE; when it has stopped
    falling and is at most twice the noise, so that further episodes would not help; or after 100 T
    episodes.
    """
    refuse_costs(cohort, "Algorithm 1 (solver='paper')")
    rule = int(RuleCode.TOP if math.isinf(c) else DESIGNS[design])
    key = np.random.SeedSequence(whole("seed", seed, 0)).generate_state(1, np.uint64)[0]
    multiplier = 0.0 if rule == RuleCode.TOP else float(c)
    budget = np.broadcast_to(np.asarray(k, np.int64), (horizon,)).copy()
    V, shifts = np.zeros((horizon + 1, cohort.n, cohort.S)), np.full(horizon, np.nan)
    visited = np.zeros((horizon, cohort.n, cohort.S), bool)
    window = _Window.empty(horizon, cohort)
    looks = _looks(horizon, episodes)
    gaps: list[_Gap] = []
    earlier: Floats | None = None  # [T, n, S]
    parts = list(_parts(looks, max(1, int(PART // (horizon * cohort.n)))))
    for first, last in track(parts, "episodes of Algorithm 1"):
        kernels.episodes(
            first,
            last,
            cohort.P,
            cohort.reward_rows,
            cohort.start_rows,
            budget,
            multiplier,
            gamma,
            rule,
            ESTIMATED_TOLERANCE,
            key,
            SERIES,
            V,
            shifts,
            window.visits,
            window.sums,
            window.clocks,
        )
        window.episodes += last - first
        if last not in looks:
            continue
        visited |= window.visits > 0
        acted_on = _acted_on(cohort, gamma, V, window)
        gaps.append(
            _gap(cohort, budget, gamma, multiplier, rule, acted_on, earlier, window, visited)
        )
        earlier = acted_on
        if episodes is None and (gaps[-1].residual <= GAP_TOLERANCE or _stands_still(gaps)):
            break
        window = _Window.empty(horizon, cohort)
    info = _info(c, last, gaps[-1], visited)
    if not info.converged:
        _warn(info, gaps[-1])
    return TableValues(cohort, gamma, V, info)


def _looks(horizon: int, episodes: int | None) -> list[int]:
    """The numbers of episodes after which the gap is computed, in rising order."""
    if episodes is not None:
        return sorted({math.ceil(episodes / GROWTH**power) for power in (2, 1, 0)})
    looks = [FIRST_LOOK * horizon]
    while (following := math.ceil(GROWTH * looks[-1])) <= MOST_EPISODES * horizon:
        looks.append(following)
    return looks


def _parts(looks: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Episodes [first, last), at most ``most`` of them, none across a look."""
    for begin, end in pairwise([0, *looks]):
        yield from pairwise([*range(begin, end, most), end])


def _acted_on(cohort: Cohort, gamma: float, V: Floats, window: _Window) -> Floats:
    """The mean gain at the visits of each (t, arm, state) [T, n, S].

    If there were no visits, it is the gain by the present values.
    """
    difference = cohort.P[:, 1] - cohort.P[:, 0]
    present = np.einsum("ist,cit->cis", difference, cohort.reward + gamma * V[1:]) + cohort.at_once
    mean = window.sums[..., kernels.GAIN] / np.maximum(window.visits, 1)
    acted_on: Floats = np.where(window.visits > 0, mean, present)
    return acted_on


def _gap(
    cohort: Cohort,
    budget: Ints,
    gamma: float,
    c: float,
    rule: int,
    acted_on: Floats,
    earlier: Floats | None,
    window: _Window,
    visited: NDArray[np.bool_],
) -> _Gap:
    """Sweep backward over all states and compare gains; see the module's docstring."""
    difference = cohort.P[:, 1] - cohort.P[:, 0]  # [n, S, S]
    reach = np.maximum(cohort.P[:, 0], cohort.P[:, 1])  # [n, S, S]
    at_once = cohort.at_once
    swept = np.zeros((cohort.n, cohort.S))  # V~_{t+1}
    known = np.ones((cohort.n, cohort.S), bool)  # whether V_{t+1}(s) was ever written
    gap = distance = noise = gain = weight = unvisited = 0.0
    for t in reversed(range(len(window.clocks))):
        worth = cohort.reward + gamma * swept
        swept_gain = np.einsum("ist,it->is", difference, worth) + at_once  # lambda~_t
        visits, sums = window.visits[t], window.sums[t]  # [n, S], [n, S, 5]
        share, often = visits / window.episodes, np.maximum(visits, 1)
        clock = window.clocks[t] / window.episodes
        k = int(budget[t])
        unseen_pi = _chance(acted_on[t], k, c, rule, clock, cohort.n)
        pi = np.where(visits > 0, sums[..., kernels.CHANCE] / often, unseen_pi)
        product = np.where(visits > 0, sums[..., kernels.PRODUCT] / often, pi * acted_on[t])
        scatter = np.sqrt(sums[..., kernels.JUMP] / (2 * np.maximum(visits - 1, 1)))
        error = np.abs(acted_on[t] - swept_gain)
        if earlier is not None:
            error = np.maximum(error, np.abs(acted_on[t] - earlier[t]))
        selected = share * np.maximum(pi, _chance(swept_gain, k, c, rule, clock, cohort.n))
        gap += float(np.sum(selected * np.maximum(error - NOISE_ALLOWED * scatter, 0.0)))
        distance += float(np.sum(selected * error))
        noise += float(np.sum(selected * scatter))
        gain += float(np.sum(share * pi * np.abs(swept_gain)))
        weight += float(np.sum(selected))
        unvisited += float(np.sum(selected * np.einsum("ist,it->is", reach, 1.0 - known)))
        passive = np.einsum("ist,it->is", cohort.P[:, 0], worth)
        swept = passive + pi * swept_gain + (product - pi * acted_on[t])
        known = visited[t]
    scale, selections = max(gain, 1e-300), max(weight, 1e-300)
    return _Gap(
        residual=gap / scale,
        distance=distance / scale,
        noise=noise / scale,
        mean_gain=gain / selections,
        unvisited=unvisited / selections,
    )


def _chance(gain: Floats, k: int, c: float, rule: int, clock: float, n: int) -> Floats:
    """The approximate chance that an arm of this gain is selected, by the step's mean shift."""
    if k in (0, n):
        return np.full(gain.shape, float(k > 0))
    if rule == RuleCode.TOP:
        return (gain + clock >= 0).astype(np.float64)
    x = np.clip(c * gain + clock, -700.0, 700.0)
    if rule == RuleCode.SUCCESSIVE:
        successive: Floats = -np.expm1(-np.exp(np.minimum(x, 6.0)))  # beyond 6 it is 1
        return successive
    joint: Floats = 1 / (1 + np.exp(-x))
    return joint


def _stands_still(gaps: list[_Gap]) -> bool:
    """Whether further episodes would hardly help, because the gap is mostly noise."""
    if len(gaps) < 3:
        return False
    latest, earlier = gaps[-1], gaps[-3]
    return latest.distance <= 2 * latest.noise and latest.residual >= STANDSTILL * earlier.residual


def _info(c: float, episodes: int, gap: _Gap, visited: NDArray[np.bool_]) -> Info:
    return Info(
        "paper",
        c,
        gap.residual,
        GAP_TOLERANCE,
        episodes,
        {
            "never visited (t, arm, state)": float(np.mean(~visited)),
            "chance of a selected arm to reach a state never visited": gap.unvisited,
            "mean gain of a selection": gap.mean_gain,
            "noise of the gains": gap.noise,
        },
    )


def _warn(info: Info, gap: _Gap) -> None:
    """Warn that the gains have not settled, with the gap and the remedy."""
    remedy = f"give more episodes (such as {4 * info.passes})"
    if gap.distance <= 2 * gap.noise:
        remedy = (
            "a value is what the last visit left, and depends on who else was there; "
            "choose a smaller c_value or solver='priced'"
        )
    what = f"paper: the gains have not settled after {info.passes} episodes"
    warn(NotConverged(what, info.residual, info.tolerance, remedy))
