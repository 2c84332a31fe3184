"""Kernels of :mod:`softfair.indices`: one arm under a subsidy m for passive steps.

Two states, in units of r(good) - r(bad). Let x_h = 1 + gamma (V_h(good) - V_h(bad)) be the worth of
reaching the good state with h decisions left, and d_s the immediate gain of acting in state s. The
advantage of acting in s is d_s x_{h-1} - m, and the recursion has a single number as its state:

    x_0 = 1,   x_h = 1 + gamma [ l_0 x + (d_good x - m)^+ - (d_bad x - m)^+ ],   x = x_{h-1}.

S states: A_h(s) = G(s) + gamma sum_s2 (P[1] - P[0])(s, s2) V_{h-1}(s2) - m is the advantage of
acting, where G counts what help is worth at once (`recursion`), and V_h(s) = Q_h(s, 0) + A_h(s)^+.
Values are kept relative to state 0, because a constant cancels in A.

In both cases advantages are piecewise linear in m, so that a Newton step that starts on the right
piece finds the root exactly.

The first arguments of every kernel are a range low..high - 1, for
:func:`softfair.kernels.threads.map_parts`. Kernels fill arrays that the caller passes. Arms are
processed in blocks of LANES side by side. An arm whose search has ended is not changed any more, so
that no result depends on the other arms of its block.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE
from .lanes import LANES
from .recursion import at_once

__all__ = [
    "LANES",
    "forward_threshold",
    "geometric_rows",
    "interpolate",
    "many_state_faults",
    "many_state_rows",
    "two_state_rows",
]

SETTLED = 1e-14  # a relative step this small ends a search: the step was exact on one linear piece
BISECT_EVERY = 4  # every fourth try halves the bracket instead, so that a search always ends
MOST_TRIES = 220  # BISECT_EVERY times the 54 halvings that exhaust a double; two or three are usual
# A wait may grow this many steps beyond the horizon while the other wait is still within it. Fewer
# steps are enough if the weight of the state last seen in the belief has fallen to FADED.
FARTHEST = 500
FADED = 1e-9
# Least probability that a pull sees the other state. With a smaller probability, the earnings of
# its cycles would be rounding error.
RARE = 1e-8


@njit(**COMPILE)
def geometric_rows(low, high, arm, state, gain, ratio, out):
    """out[h, arm, state] = gain (1 + ratio + ... + ratio^(h-1)) for problems low..high - 1."""
    horizon = out.shape[0] - 1
    total = np.empty(LANES)
    for first in range(low, high, LANES):
        lanes = min(LANES, high - first)
        total[:] = 0.0
        for h in range(1, horizon + 1):
            for j in range(lanes):
                total[j] = 1.0 + ratio[first + j] * total[j]
                out[h, arm[first + j], state[first + j]] = gain[first + j] * total[j]


@njit(**COMPILE)
def _follow_two(steps, a, bad, good, acting, t, x, slope):
    """Fill x with x_steps at the subsidy m = d t, and slope with its derivative by t.

    a, bad, good and acting are gamma times l_0, d_bad, d_good and d, the gain of the problem's
    state.
    """
    for j in range(LANES):
        x[j] = 1.0
        slope[j] = 0.0
    for _ in range(steps):
        for j in range(LANES):
            act_bad = bad[j] * x[j] - acting[j] * t[j]
            act_good = good[j] * x[j] - acting[j] * t[j]
            turn = a[j] * slope[j]
            turn += (good[j] * slope[j] - acting[j]) if act_good > 0.0 else 0.0
            turn -= (bad[j] * slope[j] - acting[j]) if act_bad > 0.0 else 0.0
            slope[j] = turn
            x[j] = 1.0 + a[j] * x[j] + max(act_good, 0.0) - max(act_bad, 0.0)


@njit(**COMPILE)
def two_state_rows(
    low, high, arm, state, gain, own_unit, bad_unit, good_unit, l0, gamma, sharp, out
):
    """out[h, arm, state] = gain * t_h for problems low..high - 1, where x_{h-1}(m = d t_h) = t_h.

    t = index / immediate gain lies in [0, 1 + gamma + ... + gamma^(h-1)], and x_{h-1}(d t) / t
    never rises in t (the docstring of softfair.indices has the proof). So the sign of x - t tells
    on which side of t the root is. If gamma |d| = 1 in either state, x may equal t on an interval.
    Then ``sharp`` must be False, and the search only bisects, towards the end of that interval with
    the smallest m.
    """
    horizon = out.shape[0] - 1
    a, bad, good, acting = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    t, x, slope = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    root_slope, left, right = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    open_lane = np.empty(LANES, np.bool_)
    for first in range(low, high, LANES):
        lanes = min(LANES, high - first)
        for j in range(LANES):
            i = first + min(j, lanes - 1)  # spare lanes repeat the last arm
            a[j], acting[j] = gamma * l0[i], gamma * own_unit[i]
            bad[j], good[j] = gamma * bad_unit[i], gamma * good_unit[i]
            t[j] = 1.0  # h = 1: the immediate gain itself
            root_slope[j] = 0.0
        for j in range(lanes):
            out[1, arm[first + j], state[first + j]] = gain[first + j]
        most = 1.0
        for h in range(2, horizon + 1):
            most = 1.0 + gamma * most
            for j in range(LANES):
                # x_{h-2}(t) = t at the last root, so one more step gives x_{h-1}(t) there, and
                # with it the first step of Newton's method.
                act_bad = bad[j] * t[j] - acting[j] * t[j]
                act_good = good[j] * t[j] - acting[j] * t[j]
                turn = a[j] * root_slope[j]
                turn += (good[j] * root_slope[j] - acting[j]) if act_good > 0.0 else 0.0
                turn -= (bad[j] * root_slope[j] - acting[j]) if act_bad > 0.0 else 0.0
                ahead = 1.0 + a[j] * t[j] + max(act_good, 0.0) - max(act_bad, 0.0)
                left[j] = t[j] if (ahead > t[j]) & sharp else 0.0
                right[j] = t[j] if (ahead <= t[j]) & sharp else most
                step = (ahead - turn * t[j]) / (1.0 - turn)
                t[j] = (
                    step
                    if sharp & (step >= left[j]) & (step <= right[j])
                    else 0.5 * (left[j] + right[j])
                )
                open_lane[j] = True
            for attempt in range(MOST_TRIES):
                _follow_two(h - 1, a, bad, good, acting, t, x, slope)
                halve = attempt % BISECT_EVERY == BISECT_EVERY - 1
                unsettled = 0
                for j in range(LANES):
                    # If x = t, search towards the smaller m: the smaller t, or the larger t if the
                    # gain is negative.
                    below = (x[j] > t[j]) | ((x[j] == t[j]) & (acting[j] < 0.0))
                    left[j] = t[j] if below else left[j]
                    right[j] = right[j] if below else t[j]
                    step = (x[j] - slope[j] * t[j]) / (1.0 - slope[j])
                    inside = sharp & (step >= left[j]) & (step <= right[j])
                    close = SETTLED * (1.0 + t[j])
                    # A small step settles the search even if it is not inside: rounding may put
                    # it just outside the bracket.
                    settled = (sharp & (abs(step - t[j]) <= close)) | (right[j] - left[j] <= close)
                    other = t[j] if settled else 0.5 * (left[j] + right[j])
                    step = step if inside & (settled | (not halve)) else other
                    t[j] = step if open_lane[j] else t[j]
                    root_slope[j] = slope[j] if open_lane[j] else root_slope[j]
                    open_lane[j] = open_lane[j] & (not settled)
                    unsettled += open_lane[j]
                if unsettled == 0:
                    break
            for j in range(lanes):
                out[h, arm[first + j], state[first + j]] = gain[first + j] * t[j]


@njit(**COMPILE)
def _load(first, lanes, P, reward, gamma, rest, gain, stay, change, span):
    """Copy a block of arms to lanes.

    stay = gamma P[0] and change = gamma (P[1] - P[0]). rest is the immediate reward of a passive
    step, counted from the arm's least reward, and gain is what acting adds to it. span bounds what
    acting can add, see `many_state_rows`.
    """
    S = P.shape[2]
    for j in range(LANES):
        i = first + min(j, lanes - 1)
        row = min(i, reward.shape[0] - 1)  # one row of rewards may serve every arm
        least, most = reward[row, 0, 0], reward[row, 0, 0]
        low, high = at_once(reward, row, 0), at_once(reward, row, 0)
        for s in range(S):
            least, most = min(least, reward[row, 0, s]), max(most, reward[row, 0, s])
            now = at_once(reward, row, s)
            low, high = min(low, now), max(high, now)
        span[j] = (most - least) + (high - low) + max(abs(low), abs(high))
        for s in range(S):
            passive, extra = 0.0, 0.0
            for s2 in range(S):
                worth = reward[row, 0, s2] - least
                passive += P[i, 0, s, s2] * worth
                extra += (P[i, 1, s, s2] - P[i, 0, s, s2]) * worth
                stay[s, s2, j] = gamma * P[i, 0, s, s2]
                change[s, s2, j] = gamma * (P[i, 1, s, s2] - P[i, 0, s, s2])
            rest[s, j] = passive
            gain[s, j] = extra + at_once(reward, row, s)


@njit(**COMPILE)
def _advantages(m, gain, change, value, slope, advantage, turn):
    """advantage(s) = G + gamma (P[1] - P[0]) V - m, and turn(s) its slope in m."""
    S = gain.shape[0]
    for s in range(S):
        for j in range(LANES):
            advantage[s, j] = gain[s, j] - m[j]
            turn[s, j] = -1.0
        for s2 in range(1, S):  # the value of state 0 is 0
            for j in range(LANES):
                advantage[s, j] += change[s, s2, j] * value[s2, j]
                turn[s, j] += change[s, s2, j] * slope[s2, j]


@njit(**COMPILE)
def _back_up(rest, stay, advantage, turn, value, slope, old_value, old_slope):
    """V_h - V_h(0) from V_{h-1} and the advantages at h; the subsidy of a passive step cancels."""
    S = rest.shape[0]
    for s in range(S):
        for j in range(LANES):
            old_value[s, j] = value[s, j]
            old_slope[s, j] = slope[s, j]
    for s in range(S):
        for j in range(LANES):
            value[s, j] = rest[s, j] + max(advantage[s, j], 0.0)
            slope[s, j] = turn[s, j] if advantage[s, j] > 0.0 else 0.0
        for s2 in range(1, S):
            for j in range(LANES):
                value[s, j] += stay[s, s2, j] * old_value[s2, j]
                slope[s, j] += stay[s, s2, j] * old_slope[s2, j]
    for s in range(S - 1, -1, -1):
        for j in range(LANES):
            value[s, j] -= value[0, j]
            slope[s, j] -= slope[0, j]


@njit(**COMPILE)
def many_state_rows(low, high, P, reward, gamma, out):
    """out[h, arm, s] = the m at which acting in s has no advantage, for arms low..high - 1.

    The root lies within +- span (1 + gamma + ... + gamma^(h-1)), because for larger |m| one action
    is best in every state at every step. span is the range of r, plus the range of e, plus the
    largest |e|.
    """
    horizon = out.shape[0] - 1
    S = P.shape[2]
    rest, gain = np.empty((S, LANES)), np.empty((S, LANES))
    stay, change = np.empty((S, S, LANES)), np.empty((S, S, LANES))
    value, slope = np.empty((S, LANES)), np.empty((S, LANES))
    old_value, old_slope = np.empty((S, LANES)), np.empty((S, LANES))
    advantage, turn = np.empty((S, LANES)), np.empty((S, LANES))
    span, m, last, left, right = (
        np.empty(LANES),
        np.empty(LANES),
        np.empty(LANES),
        np.empty(LANES),
        np.empty(LANES),
    )
    open_lane = np.empty(LANES, np.bool_)
    for first in range(low, high, LANES):
        lanes = min(LANES, high - first)
        _load(first, lanes, P, reward, gamma, rest, gain, stay, change, span)
        for target in range(S):
            m[:] = 0.0
            last[:] = 0.0
            most = 0.0
            for h in range(1, horizon + 1):
                most = 1.0 + gamma * most
                for j in range(LANES):
                    left[j] = -most * span[j]
                    right[j] = most * span[j]
                    # The search starts on the straight line through the last two rows.
                    guess = min(max(2.0 * m[j] - last[j], left[j]), right[j])
                    last[j] = m[j]
                    m[j] = guess
                    open_lane[j] = True
                for attempt in range(MOST_TRIES):
                    value[:] = 0.0
                    slope[:] = 0.0
                    for _ in range(h - 1):
                        _advantages(m, gain, change, value, slope, advantage, turn)
                        _back_up(rest, stay, advantage, turn, value, slope, old_value, old_slope)
                    _advantages(m, gain, change, value, slope, advantage, turn)
                    halve = attempt % BISECT_EVERY == BISECT_EVERY - 1
                    unsettled = 0
                    for j in range(LANES):
                        below = advantage[target, j] > 0.0
                        left[j] = m[j] if below else left[j]
                        right[j] = right[j] if below else m[j]
                        step = m[j] - advantage[target, j] / turn[target, j]
                        inside = (turn[target, j] < 0.0) & (step >= left[j]) & (step <= right[j])
                        close = SETTLED * (span[j] + abs(m[j]))
                        settled = (abs(step - m[j]) <= close) | (right[j] - left[j] <= close)
                        other = m[j] if settled else 0.5 * (left[j] + right[j])
                        step = step if inside & (settled | (not halve)) else other
                        m[j] = step if open_lane[j] else m[j]
                        open_lane[j] = open_lane[j] & (not settled)
                        unsettled += open_lane[j]
                    if unsettled == 0:
                        break
                for j in range(lanes):
                    out[h, first + j, target] = m[j]


@njit(**COMPILE)
def many_state_faults(low, high, P, reward, gamma, index, tolerance, fault):
    """fault[arm] = the largest advantage of the wrong sign at any of the arm's indices.

    It is 0 if all advantages are within the tolerance. If the indices are right for fewer than h
    decisions, the policy changes only at these indices, and the advantage at h is linear between
    them. So the signs of the advantage at the indices tell whether it crosses zero exactly once.
    """
    horizon = index.shape[0] - 1
    S = P.shape[2]
    rest, gain = np.empty((S, LANES)), np.empty((S, LANES))
    stay, change = np.empty((S, S, LANES)), np.empty((S, S, LANES))
    value, slope = np.empty((S, LANES)), np.empty((S, LANES))
    old_value, old_slope = np.empty((S, LANES)), np.empty((S, LANES))
    advantage, turn = np.empty((S, LANES)), np.empty((S, LANES))
    span, m, worst = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for first in range(low, high, LANES):
        lanes = min(LANES, high - first)
        _load(first, lanes, P, reward, gamma, rest, gain, stay, change, span)
        worst[:] = 0.0
        for probe_h in range(1, horizon + 1):
            for probe_s in range(S):
                for j in range(LANES):
                    m[j] = index[probe_h, first + min(j, lanes - 1), probe_s]
                value[:] = 0.0
                slope[:] = 0.0
                for h in range(1, horizon + 1):
                    _advantages(m, gain, change, value, slope, advantage, turn)
                    for s in range(S):
                        for j in range(lanes):
                            room = tolerance * (span[j] + abs(m[j]))
                            gap = index[h, first + j, s] - m[j]
                            wrong = (
                                -advantage[s, j]
                                if gap > room
                                else (advantage[s, j] if gap < -room else 0.0)
                            )
                            worst[j] = max(worst[j], wrong if wrong > room else 0.0)
                    _back_up(rest, stay, advantage, turn, value, slope, old_value, old_slope)
        for j in range(lanes):
            fault[first + j] = worst[j]


@njit(**COMPILE)
def forward_threshold(low, high, P, reward, tolerance, index, belief_out, forward):
    """Fill index and belief [2, horizon, n] and forward [n] for arms low..high - 1.

    Axes are (state seen, steps since - 1, arm). Pulls see the bad and the good state in proportion
    to_bad : to_good, and Z = to_bad + to_good. A cycle of waits (X0, X1) earns N / Z and lasts
    L / Z. If one wait grows by a step, N, L and Z grow by dN, dL and dZ; the policies with and
    without that step earn the same at m = (N dL - L dN) / (Z dL - L dZ).
    """
    horizon = index.shape[1]
    belief, worth = np.empty((2, horizon + FARTHEST + 1)), np.empty((2, horizon + FARTHEST + 1))
    for i in range(low, high):
        row = min(i, reward.shape[0] - 1)
        rho = reward[row, 0, 1] - reward[row, 0, 0]
        fade = abs(P[i, 0, 1, 1] - P[i, 0, 0, 1])
        reach, left = horizon, 1.0
        while left > FADED and reach < horizon + FARTHEST:
            left *= fade
            reach += 1
        for seen in range(2):
            b, total = P[i, 1, seen, 1], 0.0
            for u in range(reach + 1):
                total += rho * b
                belief[seen, u], worth[seen, u] = b, total
                if u < horizon:
                    belief_out[seen, u, i] = b
                b = b * P[i, 0, 1, 1] + (1.0 - b) * P[i, 0, 0, 1]
        wait0, wait1 = 1, 1  # one may exceed the horizon, up to reach, while the other does not
        m, fell = -np.inf, 0.0
        while wait0 <= horizon or wait1 <= horizon:
            to_good, to_bad = belief[0, wait0 - 1], 1.0 - belief[1, wait1 - 1]
            # Pulls see one state for ever, so the average reward does not depend on the other.
            if min(to_good, to_bad) < RARE:
                to_good, to_bad, fell = max(to_good, RARE), max(to_bad, RARE), np.inf
            N = to_bad * worth[0, wait0 - 1] + to_good * worth[1, wait1 - 1]
            L = to_bad * wait0 + to_good * wait1
            Z = to_bad + to_good
            m0, m1 = np.inf, np.inf
            if wait0 <= reach:
                dZ = belief[0, wait0] - belief[0, wait0 - 1]
                dN = to_bad * rho * belief[0, wait0] + dZ * worth[1, wait1 - 1]
                dL = to_bad + dZ * wait1
                m0 = (N * dL - L * dN) / (Z * dL - L * dZ) if Z * dL > L * dZ else np.inf
            if wait1 <= reach:
                dZ = belief[1, wait1 - 1] - belief[1, wait1]
                dN = to_good * rho * belief[1, wait1] + dZ * worth[0, wait0 - 1]
                dL = to_good + dZ * wait0
                m1 = (N * dL - L * dN) / (Z * dL - L * dZ) if Z * dL > L * dZ else np.inf
            smaller = min(m0, m1)
            # A longer wait adds no passive time, so that no subsidy decides: repeat the last m.
            if smaller == np.inf:
                smaller, fell = (m if m > -np.inf else 0.0), np.inf
            fell = max(fell, m - smaller)
            m = smaller
            if wait1 > reach or (wait0 <= reach and m0 <= m1):
                if wait0 <= horizon:
                    index[0, wait0 - 1, i] = m
                wait0 += 1
            else:
                if wait1 <= horizon:
                    index[1, wait1 - 1, i] = m
                wait1 += 1
        forward[i] = fell <= tolerance * abs(rho)


@njit(**COMPILE)
def interpolate(low, high, at, belief, index, out):
    """out[i] = index at belief at[i], linear between the nearest beliefs of the arm's table.

    Beyond the least and the greatest belief of the table the index is constant.
    """
    below, above = np.full(high - low, -np.inf), np.full(high - low, np.inf)
    index_below, index_above = np.zeros(high - low), np.zeros(high - low)
    for seen in range(belief.shape[0]):
        for u in range(belief.shape[1]):
            for i in range(low, high):
                b, j = belief[seen, u, i], i - low
                if at[i] >= b > below[j]:
                    below[j], index_below[j] = b, index[seen, u, i]
                if at[i] <= b < above[j]:
                    above[j], index_above[j] = b, index[seen, u, i]
    for i in range(low, high):
        j = i - low
        if below[j] == -np.inf:
            out[i] = index_above[j]
        elif above[j] == np.inf or above[j] <= below[j]:
            out[i] = index_below[j]
        else:
            share = (at[i] - below[j]) / (above[j] - below[j])
            out[i] = index_below[j] + share * (index_above[j] - index_below[j])
