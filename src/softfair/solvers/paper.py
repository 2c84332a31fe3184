r"""The `paper` solver: Algorithm 1 to the letter, and whether its gains have settled.

Episodes ep = 1..K run forward, t = 0..T-1 (the paper prints 0..T, one decision more than its
horizon holds), from a random start. Only values of the states visited are overwritten (Eq. 5), by
pi Q(s, 1) + (1 - pi) Q(s, 0), with V_{t+1} as the previous episode left it. A reward needs an
episode for each step that it travels back. A state not visited yet holds 0: the gain of leaving or
avoiding it is far too large, its arm is therefore helped at every decision, and so the state is
hardly ever visited. Such arms need thousands of episodes, while the sum of all values at t = 0,
in which they are few, looks settled long before.

When have the gains settled?
    The gains on which the policy acted over the last third of the episodes are compared with those
    of a table without this history. That table is made by evaluating, in one sweep backward over
    all states, the policy of these same episodes: with the mean inclusion probability pi of each
    (t, arm, state) over its visits, and the mean gain g that was acted on there,

        V~_t(s) = Q~_t(s, 0) + pi lambda~_t(s) + cov(pi, g),    lambda~ the gains by V~_{t+1}.

    The sweep needs no visits, because the transition probabilities are known; for a state that was
    not visited, pi follows from the step's mean shift (kernels.episodes). The gap at
    (t, arm, state) is \|g - lambda~\|, or the change of g since the episodes that were looked at
    before if that is larger, less half the noise of g: values are what one visit left, pi depends
    on who else was in which state, so g scatters forever. Its noise is the standard deviation by
    differences between one visit and the next, which a slow drift does not enter.
    ``Info.residual`` is the mean gap over the policy's selections, divided by the mean lambda~ over
    them: each (t, arm, state) counts as often as it was visited, times pi or the probability that
    lambda~ would give it, whichever is larger.

What the tolerance means.
    A residual of .02: arms that are selected, or should be, have gains that are wrong by 2 % of the
    mean gain of a selection, beyond half their noise. Selecting by gains g instead of lambda~ costs
    at most sum \|pi - pi~\| \|g - lambda~\|: twice the residual times the share of selections that
    go to other arms. That share was .1 at most (synthetic and CPAP cohorts, c up to 9), which makes
    .004 of the benefit: less than 1 point. But a policy that changes changes its own gains, and a
    mean over all selections can hide one arm that is wrong altogether: at a residual of .03 to .07
    the mean gain still moved by 3 to 27 % over four times the episodes, at less than .02 within the
    noise (synthetic, n = 20 and 40, T = 15 and 30, c = 5 and 9).

What remains between Algorithm 1 and the mean field after that.
    pi is computed in the joint state that was visited, so a value scatters with the states of all
    other arms, and the more the steeper c and the fewer the arms. Gains that came out high by
    chance raise pi, which raises values (the covariance above); and a value that came out low keeps
    its state from being visited and stays longer than one that came out high. The mean field has
    one expected joint state and neither effect. Measured with k = 10 of 100 arms and c = 9, benefit
    and entropy: 88 / 3.53 after 3200 episodes against 85 / 3.23 (synthetic, T = 50), 95 / 2.88
    after 8000 against 97 / 2.72 (CPAP, half of them adherent, T = 80).
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

# Inclusion probabilities are within INCLUSION_TOLERANCE, relative: far below the noise of a visit.
# The kernel takes its fast way where its own estimate of the error is within ESTIMATED_TOLERANCE;
# it overestimates: asked for 1e-3, 3e-3 and 1e-2 at n = 100, k = 10, c = 9 it was off by 2e-4,
# 3e-4 and 1.1e-3 at most. The exact way takes three times as long, and is needed for 1 step in 7
# instead of 13 in 14.
INCLUSION_TOLERANCE = 1e-3
ESTIMATED_TOLERANCE = 8e-3
GAP_TOLERANCE = 0.02  # of the mean gain of a selection
GROWTH = 1.5  # factor between two looks at the gap; each looks at the episodes since the one before
NOISE_ALLOWED = 0.5  # part of a gain's own noise that does not count as a gap
FIRST_LOOK = 2  # times T: a reward has travelled through all steps, and the policy has followed
MOST_EPISODES = 100  # times T, unless the caller says how many
STANDSTILL = 0.9  # a gap above this part of what it was two looks ago does not fall any more
PART = 2e6  # arm-steps between two moves of the progress bar


@dataclass(eq=False)
class _Window:
    """What happened in the episodes since the last look."""

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
    """How far the gains acted on are from those of a swept table, over all selections."""

    residual: float  # mean gap, as a part of the mean gain
    distance: float  # the same with nothing taken off for noise
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

    With the default, the gap is looked at after 2 T episodes and then at every 1.5 times as many.
    Episodes end when it is within GAP_TOLERANCE; when it has stopped falling and is no more than
    twice the noise, so that further episodes would not help; or after 100 T of them.
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
    """After how many episodes the gap is looked at, rising."""
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
    """The mean gain at the visits of each (t, arm, state) [T, n, S]; its present gain if none."""
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
    """Sweep backward over all states and compare; the module says why."""
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
    """About how likely an arm of this gain is to be selected, at the step's mean shift."""
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
    """Whether further episodes would bring next to nothing, because noise is what is left."""
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
    """Say how far the gains are from settled, and what helps."""
    remedy = f"give more episodes (such as {4 * info.passes})"
    if gap.distance <= 2 * gap.noise:
        remedy = (
            "a value is what the last visit left, and depends on who else was there; "
            "choose a smaller c_value or solver='priced'"
        )
    what = f"paper: the gains have not settled after {info.passes} episodes"
    warn(NotConverged(what, info.residual, info.tolerance, remedy))
