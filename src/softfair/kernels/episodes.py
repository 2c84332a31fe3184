"""Simulation of many arms over many steps: runs of a policy, and the episodes of Algorithm 1.

The random number of (run, step, arm) is a pure function of the run's key. So every policy meets the
same random numbers (common random numbers), on any number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .draws import select
from .elementary import COMPILE, mix, uniform
from .inclusion import joint_inclusion, successive_inclusion
from .order import clip_decided, kth_smallest
from .recursion import at_once
from .rules import RuleCode
from .shift import guess_shift

__all__ = [
    "CHANCE",
    "GAIN",
    "JUMP",
    "LATEST",
    "PRODUCT",
    "episodes",
    "luck_of_runs",
    "run_window",
    "start_runs",
]

# Columns of what `episodes` sums over visits: the inclusion probability, the gain, their product,
# and the square of the change of the gain since the visit before. LATEST holds the last gain.
CHANCE, GAIN, PRODUCT, JUMP, LATEST = 0, 1, 2, 3, 4


@njit(inline="always")
def _next_state(P, i, action, state, luck):
    """The next state of arm i, chosen by the number ``luck`` in (0, 1)."""
    S = P.shape[3]
    reached, below = 0, P[i, action, state, 0]
    while luck >= below and reached < S - 1:
        reached += 1
        below += P[i, action, state, reached]
    return reached


@njit(inline="always")
def _start_state(start, i, luck):
    """The first state of arm i, chosen by the number ``luck`` in (0, 1)."""
    row = i if len(start) > 1 else 0
    state, below = 0, start[row, 0]
    while luck >= below and state < start.shape[1] - 1:
        state += 1
        below += start[row, state]
    return state


@njit(**COMPILE)
def start_runs(low, high, start, keys, states):
    """Fill states [runs, n] with the states at decision 0 of runs [low, high)."""
    for run in range(low, high):
        luck = mix(keys[run], 0)
        for i in range(states.shape[1]):
            states[run, i] = _start_state(start, i, uniform(luck, i))


@njit(**COMPILE)
def luck_of_runs(low, high, keys, out):
    """Fill out [runs, T + 1, n] with the numbers that choose states at the start and at each step.

    Only runs [low, high) are filled.
    """
    for run in range(low, high):
        for step in range(out.shape[1]):
            luck = mix(keys[run], 2 * step)
            for i in range(out.shape[2]):
                out[run, step, i] = uniform(luck, i)


@njit(**COMPILE)
def run_window(
    low,
    high,
    P,
    reward,
    scores,
    first_step,
    steps,
    c,
    rule,
    budget,
    keys,
    states,
    chosen,
    rewards,
    counts,
    waits,
    longest,
):
    """Decisions first_step, ..., first_step + steps - 1 of runs [low, high).

    scores [1 or runs, 1 or steps, n, S or 1] are the scores of each arm in each state; an axis of
    length 1 serves all. A policy without memory has one table for all runs; a policy with memory
    has one for each run. reward [1 or n, 1 or 2, S] is as in `recursion`, and budget [T] is the
    number of arms helped at each decision.
    states, counts, waits and longest [runs, n] are updated; rewards [runs, T] and chosen [runs, n]
    (the last selection) are filled.
    """
    n, S = P.shape[0], P.shape[3]
    values, scratch = np.empty(n), np.empty(3 * n)
    for run in range(low, high):
        table = scores[run if len(scores) > 1 else 0]
        by_state = table.shape[2] > 1
        state, picked, count, wait, most = (
            states[run],
            chosen[run],
            counts[run],
            waits[run],
            longest[run],
        )
        for step in range(steps):
            t = first_step + step
            row = table[step if len(table) > 1 else 0]
            for i in range(n):
                values[i] = row[i, state[i] if by_state else 0]
            select(values, c, rule, budget[t], mix(keys[run], 2 * t + 1), scratch, picked)
            luck = mix(keys[run], 2 * t + 2)
            for i in range(n):
                values[i] = uniform(luck, i)
            total = 0.0
            if reward.shape[1] > 1:  # what help is worth at once
                for i in range(n):
                    bonus = at_once(reward, i if len(reward) > 1 else 0, state[i])
                    total += bonus if picked[i] else 0.0
            if S == 2:  # without a branch, because a processor cannot predict random numbers
                for i in range(n):
                    state[i] = values[i] >= P[i, picked[i], state[i], 0]
            else:
                for i in range(n):
                    state[i] = _next_state(P, i, picked[i], state[i], values[i])
            for i in range(n):
                total += reward[i if len(reward) > 1 else 0, 0, state[i]]
            for i in range(n):
                active = np.int32(picked[i])
                count[i] += active
                wait[i] = (wait[i] + np.int32(1)) * (np.int32(1) - active)
                most[i] = wait[i] if wait[i] > most[i] else most[i]
            rewards[run, t] = total


@njit(**COMPILE)
def _inclusion_of_top(scores, k, out):
    """Fill out with the chances of the rule "the k largest"; return the k-th largest score."""
    cut = kth_smallest(scores.copy(), len(scores) - k + 1)
    above, tied = 0, 0
    for i in range(len(scores)):
        above += scores[i] > cut
        tied += scores[i] == cut
    for i in range(len(scores)):
        out[i] = 1.0 if scores[i] > cut else (k - above) / tied if scores[i] == cut else 0.0
    return cut


@njit(**COMPILE)
def episodes(
    first,
    last,
    P,
    reward,
    start,
    budget,
    c,
    gamma,
    rule,
    tolerance,
    key,
    series,
    V,
    shifts,
    visits,
    sums,
    clocks,
):
    """Episodes first .. last - 1 of Algorithm 1, forward in t.

    V [T + 1, n, S] and shifts [T] are updated. Only values of visited states are overwritten
    (Eq. 5), by V_{t+1} of the previous episode. budget [T] is the number of arms helped at each
    decision. Inclusion probabilities are those of the design, to the relative error ``tolerance``.
    The kernel adds to visits [T, n, S], to sums [T, n, S, 5] (columns CHANCE, GAIN, PRODUCT, JUMP
    and LATEST) and to clocks [T], the sums of the shifts. An arm of gain g has a chance of about
    1 - exp(-exp(c g + shift)) in the successive design, sigmoid(c g + shift) in the joint design,
    and [g + shift >= 0] if the best k are chosen.
    """
    T, n, S = visits.shape
    state, picked = np.empty(n, np.int32), np.empty(n, np.uint8)
    passive, gain, chance, log_weights, scratch = (
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(3 * n),
    )
    for episode in range(first, last):
        luck = mix(key, 3 * episode * T)
        for i in range(n):
            state[i] = _start_state(start, i, uniform(luck, i))
        for t in range(T):
            later, k = V[t + 1], budget[t]
            for i in range(n):  # Q and lambda of the state each arm is in (Eq. 3)
                s, row = state[i], i if len(reward) > 1 else 0
                worth = reward[row, 0, 0] + gamma * later[i, 0]
                q0, q1 = P[i, 0, s, 0] * worth, P[i, 1, s, 0] * worth
                for s2 in range(1, S):
                    worth = reward[row, 0, s2] + gamma * later[i, s2]
                    q0 += P[i, 0, s, s2] * worth
                    q1 += P[i, 1, s, s2] * worth
                passive[i], gain[i] = q0, q1 - q0
            if reward.shape[1] > 1:
                for i in range(n):
                    gain[i] += at_once(reward, i if len(reward) > 1 else 0, state[i])
            if k == 0 or k == n:
                chance[:] = 1.0 if k else 0.0
            elif rule == RuleCode.TOP:
                shifts[t] = -_inclusion_of_top(gain, k, chance)
            else:
                for i in range(n):
                    log_weights[i] = c * gain[i]
                clip_decided(log_weights, k, scratch[:n])
                top = log_weights[0]
                for i in range(n):
                    top = max(top, log_weights[i])
                guess = (
                    guess_shift(log_weights, top, float(k))
                    if np.isnan(shifts[t])
                    else shifts[t] + top
                )
                if rule == RuleCode.SUCCESSIVE:
                    u, _ = successive_inclusion(
                        log_weights, top, k, tolerance, guess, series, chance
                    )
                else:
                    u, _ = joint_inclusion(log_weights, top, k, guess, chance)
                shifts[t] = u - top
            stamp = 3 * (episode * T + t)
            select(gain, c, rule, k, mix(key, stamp + 1), scratch, picked)
            luck = mix(key, stamp + 2)
            for i in range(n):
                V[t, i, state[i]] = passive[i] + chance[i] * gain[i]  # Eq. 5
                visits[t, i, state[i]] += 1
                record = sums[t, i, state[i]]
                record[CHANCE] += chance[i]
                record[GAIN] += gain[i]
                record[PRODUCT] += chance[i] * gain[i]
                if visits[t, i, state[i]] > 1:
                    record[JUMP] += (gain[i] - record[LATEST]) ** 2
                record[LATEST] = gain[i]
            clocks[t] += shifts[t]
            if S == 2:
                for i in range(n):
                    state[i] = uniform(luck, i) >= P[i, picked[i], state[i], 0]
            else:
                for i in range(n):
                    state[i] = _next_state(P, i, picked[i], state[i], uniform(luck, i))
