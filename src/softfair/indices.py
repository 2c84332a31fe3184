"""Whittle indices: the subsidy m for a passive step at which helping an arm and leaving it are worth the same.

    Q_h(s, a) = sum_s2 P[a](s, s2) (r(s2) + gamma V_{h-1}(s2)) + m (1 - a),     V_h = max_a Q_h(., a),     V_0 = 0,
    W_h(s) = inf { m : Q_h(s, 0) >= Q_h(s, 1) }     with h decisions left.

The index means something if the arm is indexable: passive at m, passive at every larger m. Two-state arms always are.
With x_h = rho + gamma (V_h(1) - V_h(0)), rho = r(1) - r(0), acting in s gains Delta_s x_{h-1} - m. Take rho = 1 (for
rho < 0 swap the states), m > 0, w = 1/m and z = x/m: then z_0 = w and z_h = w + gamma phi(z_{h-1}), where phi(0) = 0
and phi is piecewise linear. Its slopes are l_0, l_1 (neither or both states active) and p[1,1] - p[0,0] or p[0,1] -
p[1,0] (one active); those in use differ by a Delta, or by Delta_1 - Delta_0 with both positive: by at most 1. So for
slopes a < 0 < b, gamma (b - a) <= 1 and dz_h/dw = 1 + gamma phi' dz_{h-1}/dw never leaves [0, 1 / (1 - gamma b)]. Hence
z >= 0 falls as m grows, and the sign of Delta_s z - 1 changes once at most. For m < 0 exchange the two actions.

Arms of more states are tested, and refused with :class:`~softfair.errors.NotIndexable`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .cohort import Cohort, Floats
from .errors import InvalidInput, NotIndexable, refuse, whole
from .kernels import subsidy
from .kernels.threads import map_parts

__all__ = ["ThresholdTable", "sigmoid", "sigmoid_row", "threshold", "threshold_at", "whittle"]

Bools = NDArray[np.bool_]

PART = 32 * subsidy.LANES  # arms a thread takes at a time
WRONG_SIGN = 1e-9  # advantages of the wrong sign up to this share of the rewards' span are rounding, not a broken index
NEVER = 1e-12  # a transition less likely than this does not connect two classes of states in double precision


def whittle(cohort: Cohort, gamma: float = 1.0, horizon: int | None = None) -> Floats:
    """W [n, S] for ever, or exact W [horizon + 1, n, S], whose row h is the index with h decisions left.

    For ever, two states: with D_s = Delta_s (r(1) - r(0)), l_a = p[a,1] - p[a,0] and s* the state of the larger D,

        W(s*) = D(s*) / (1 - gamma l_0),     W(other) = D(other) / (1 - gamma l_1),

    for every arm, helpful or not; gamma = 1 is the average-reward index. If gamma = 1 and l_a = 1 (action a keeps the
    arm where it is for ever) the index is its limit: +inf where no subsidy outweighs acting once, -inf where none makes
    acting worth while, 0 where acting changes nothing.

    For ever, more states: raise m from -inf with every state active; the value of a policy is linear in m; the next
    state to become indifferent turns passive. gamma = 1 solves for gain and bias, which needs one recurrent class under
    every policy met on the way.

    Finite (the subsidy is constant): row 0 is 0, row 1 the immediate gain. Two states:
    D_s (1 - (gamma l)^h) / (1 - gamma l) with l = l_0 for s* if l_0 >= 0 and D >= 0, with l = l_1 for the other if
    l_1 >= 0 and D <= 0; else the root of the piecewise linear advantage, to about 1e-13. Only at gamma = 1 with a
    certain effect (some |Delta| = 1) can it be zero on an interval; the index is its lower end. Rows need not rise with
    h: the paper's Theorem 1 fails for the state of the smaller D.

    >>> import softfair as sf
    >>> arm = sf.Cohort.two_state([[[0.05, 0.35], [0.99, 0.995]]])
    >>> sf.indices.whittle(arm, gamma=0.9, horizon=3)[:, 0, 1].round(4)
    array([0.    , 0.645 , 0.6519, 0.6479])
    """
    gamma = _discount(gamma)
    if horizon is None:
        return _two_state_forever(cohort, gamma) if cohort.S == 2 else _forever(cohort, gamma)
    table = np.empty((whole("horizon", horizon, 1) + 1, cohort.n, cohort.S))
    table[0] = 0.0
    if cohort.S == 2:
        _fill_two_state(cohort, gamma, table)
    else:
        _fill(cohort, gamma, table)
    return table


def sigmoid(cohort: Cohort, gamma: float, horizon: int) -> Floats:
    """The Oracle's approximate finite-horizon index (Mate et al. 2021), [horizon + 1, n, S], by :func:`sigmoid_row`."""
    limit, gain = whittle(cohort, gamma), cohort.immediate_gain
    return np.stack([sigmoid_row(gain, limit, h) for h in range(whole("horizon", horizon, 1) + 1)])


def sigmoid_row(gain: Floats, limit: Floats, h: int) -> Floats:
    """One row [n, S] of W(h) = C1 / (1 + exp(-C2 h)) + C3 through W(0) = 0, W(1) = gain [n, S], W(inf) = limit [n, S].

    C1 = 2 limit, C3 = -limit and C2 = 2 artanh(gain / limit), so W(h) = limit tanh(h artanh(gain / limit)). It needs
    0 < gain < limit and is the gain elsewhere. An infinite limit leaves the straight line h gain. ``gain`` is
    ``cohort.immediate_gain`` and ``limit`` is ``whittle(cohort, gamma)``: kept, they give any row without the table.
    """
    gain, limit = np.asarray(gain, dtype=np.float64), np.asarray(limit, dtype=np.float64)
    if h == 0:
        return np.zeros(gain.shape)
    curved = (gain > 0) & (gain < limit) & np.isfinite(limit)
    row = np.where((gain > 0) & (limit == np.inf), h * gain, gain)
    # 1/2 log((limit + gain) / (limit - gain)), not artanh of a quotient that may round to 1
    rate = 0.5 * np.log((limit[curved] + gain[curved]) / (limit[curved] - gain[curved]))
    row[curved] = limit[curved] * np.tanh(h * rate)
    return row


@dataclass(frozen=True, eq=False)
class ThresholdTable:
    """Indices of partly observed two-state arms, by what the last pull saw and how long ago it was."""

    index: Floats  # [2, horizon, n]: (state seen, steps since - 1, arm)
    belief: Floats  # [2, horizon, n]: the chance that the arm is in state 1 then
    forward: Bools  # [n]: the path's subsidies never fall, so the indices are Whittle's


def threshold(cohort: Cohort, horizon: int) -> ThresholdTable:
    """Threshold Whittle (Mate et al. 2020) of two-state arms that show their state only when helped; average reward.

    A pull that sees state w leaves the belief b_w(1) = p[1, w] one step later; a passive step maps b to
    b p[0,1] + (1 - b) p[0,0]. The policy (X0, X1) pulls X_w steps after a pull that saw w. Its pulls see state 1 with
    frequency f_1 = b_0(X0) / (b_0(X0) + 1 - b_1(X1)), state 0 with f_0 = 1 - f_1, and it earns

        J_m = (R + m (D - 1)) / D,   R = sum_w f_w sum_{u <= X_w} rho b_w(u),   D = sum_w f_w X_w,   rho = r(1) - r(0).

    Policies A and B are indifferent at m = (R_A D_B - R_B D_A) / (D_B - D_A). From (1, 1), the smaller of the subsidies
    of (X0 + 1, X1) and (X0, X1 + 1) is the index of the belief it passes, (w, u = X_w); go on until both exceed the
    horizon.

    This assumes that forward threshold policies are optimal: once an arm is worth a pull it stays so while it goes
    unseen. Then the subsidies on the path never fall, ``forward`` is True and the entries are the Whittle indices of
    the belief chain (checked by brute force). Where they fall (57 % of the synthetic arms), or pulls see one state for
    ever, the entries are indifferences of neighbouring policies, an index in name only; a step that brings no more
    passive time has none and repeats the subsidy before it.
    """
    steps = whole("horizon", horizon, 1)
    if cohort.S != 2:
        raise InvalidInput(
            f"threshold needs arms with two states, the cohort has {cohort.S}; whittle takes any number"
        )
    shape = (2, steps, cohort.n)
    table = ThresholdTable(np.empty(shape), np.empty(shape), np.empty(cohort.n, dtype=np.bool_))
    fill = (table.index, table.belief, table.forward)
    map_parts(
        subsidy.forward_threshold, cohort.n, PART, cohort.P, cohort.reward_rows, WRONG_SIGN, *fill
    )
    return table


def threshold_at(beliefs: ArrayLike, table: ThresholdTable) -> Floats:
    """Index [n] at any belief [n] (an arm never seen has its start's): linear between the arm's own tabled beliefs.

    The table knows the beliefs that follow a pull; beyond the least and the greatest of them the index is theirs.
    """
    at = np.ascontiguousarray(beliefs, dtype=np.float64)
    n = table.index.shape[2]
    if at.shape != (n,):
        raise InvalidInput(
            f"beliefs has shape {at.shape}, the table has {n} arms; give one belief an arm"
        )
    refuse(~((at >= 0) & (at <= 1)), at, "beliefs", "give chances of state 1, 0 to 1")
    out = np.empty(n)
    map_parts(subsidy.interpolate, n, PART, at, table.belief, table.index, out)
    return out


def _discount(gamma: float) -> float:
    if not 0 <= gamma <= 1:  # a nan fails too
        raise InvalidInput(f"gamma is {gamma}; give a discount between 0 and 1")
    return float(gamma)


def _shorthand(cohort: Cohort) -> tuple[Floats, Floats, Floats, Floats]:
    """Delta [n, 2], l_0 [n], l_1 [n] and r(1) - r(0) [n] of two-state arms."""
    p = cohort.p  # [n, 2, 2]
    l0, l1 = p[:, 0, 1] - p[:, 0, 0], p[:, 1, 1] - p[:, 1, 0]
    return p[:, 1] - p[:, 0], l0, l1, cohort.reward[:, 1] - cohort.reward[:, 0]


def _two_state_forever(cohort: Cohort, gamma: float) -> Floats:
    """The closed form, [n, 2]. Both states passive is best from m = max D / (1 - gamma l_0) up, both active up to
    m = min D / (1 - gamma l_1), which is never above, because gamma (p[1,1] - p[0,0]) <= 1 (s* = 1; likewise for 0)."""
    delta, l0, l1, rho = _shorthand(cohort)
    gain = delta * rho[:, None]  # [n, 2]
    leads = gain >= gain[:, ::-1]  # equal gains mean l_0 = l_1: either form will do
    room = 1 - gamma * np.where(leads, l0[:, None], l1[:, None])  # [n, 2]
    limit = np.where(gain == 0, 0.0, np.copysign(np.inf, gain))  # room = 0: see whittle
    return np.divide(gain, room, out=limit, where=room > 0)


def _fill_two_state(cohort: Cohort, gamma: float, table: Floats) -> None:
    """Rows 1.. of table [horizon + 1, n, 2]: each (arm, state) goes to the geometric sum or to the search."""
    delta, l0, l1, rho = _shorthand(cohort)
    unit = np.where(rho[:, None] < 0, -delta, delta)  # gains per |r(1) - r(0)|, [n, 2]
    bad, good = np.where(rho < 0, unit[:, 1], unit[:, 0]), np.where(rho < 0, unit[:, 0], unit[:, 1])
    gain = unit * np.abs(rho)[:, None]
    rest_first = (
        (unit >= unit[:, ::-1]) & (unit >= 0) & (l0 >= 0)[:, None]
    )  # passive throughout, up to the index
    act_first = (
        (unit <= unit[:, ::-1]) & (unit <= 0) & (l1 >= 0)[:, None]
    )  # active throughout, down to the index
    ratio = gamma * np.where(rest_first, l0[:, None], l1[:, None])
    # gamma |Delta| = 1 can leave an arm indifferent over an interval of subsidies; only bisection finds its lower end.
    sharp = np.broadcast_to(gamma * np.abs(unit).max(axis=1, keepdims=True) < 1, unit.shape)
    closed = (rest_first | act_first) & sharp
    arm, state = np.nonzero(closed)
    map_parts(
        subsidy.geometric_rows, len(arm), PART, arm, state, gain[closed], ratio[closed], table
    )
    for newton in (True, False):
        pick = ~closed & (sharp == newton)
        arm, state = np.nonzero(pick)
        lists = (gain[pick], unit[pick], bad[arm], good[arm], l0[arm])
        map_parts(subsidy.two_state_rows, len(arm), PART, arm, state, *lists, gamma, newton, table)


def _fill(cohort: Cohort, gamma: float, table: Floats) -> None:
    """Rows 1.. of table [horizon + 1, n, S], and the test that each advantage changes sign once."""
    fault = np.empty(cohort.n)
    arms = (cohort.n, subsidy.LANES, cohort.P, cohort.reward_rows)
    map_parts(subsidy.many_state_rows, *arms, gamma, table)
    map_parts(subsidy.many_state_faults, *arms, gamma, table, WRONG_SIGN, fault)
    _refuse_faulty(fault > 0, f"at gamma = {gamma:g} over {len(table) - 1} decisions")


def _forever(cohort: Cohort, gamma: float) -> Floats:
    """W [n, S] by parametric search, for any S (two-state arms come here for a cross-check only)."""
    index = np.empty((cohort.n, cohort.S))
    fault, split = np.zeros(cohort.n, dtype=np.bool_), np.zeros(cohort.n, dtype=np.bool_)
    part = max(1, 2**16 // cohort.S**2)  # a few matrices of half a megabyte at a time
    map_parts(_raise_subsidy, cohort.n, part, cohort.P, cohort.reward, gamma, index, fault, split)
    if split.any():
        raise InvalidInput(
            f"{_arms(split)} more than one recurrent class of states under some policy, hence no average-reward index "
            "(gamma = 1); use gamma < 1, for example gamma=0.999"
        )
    _refuse_faulty(fault, f"at gamma = {gamma:g}")
    return index


def _raise_subsidy(
    low: int,
    high: int,
    P: Floats,
    reward: Floats,
    gamma: float,
    index: Floats,
    fault: Bools,
    split: Bools,
) -> None:
    """Fill index, fault and split of arms low..high: turn states passive one by one as the subsidy m rises from -inf.

    Values relative to state 0 solve v + g = P_policy (r + gamma v) + m 1{passive}, v(0) = 0: one system for the
    discounted arm, g = (1 - gamma) V(0), and for gain and bias at gamma = 1.
    """
    P, r = P[low:high], reward[low:high]  # [c, 2, S, S], [c, S]
    c, S = r.shape
    every = np.arange(c)
    change = P[:, 1] - P[:, 0]  # [c, S, S]
    span = np.ptp(r, axis=1)  # [c]
    passive = np.zeros((c, S), dtype=np.bool_)
    m = np.full(c, -np.inf)
    for turned in range(S + 1):
        P_policy = np.where(passive[:, :, None], P[:, 0], P[:, 1])  # [c, S, S]
        system = np.eye(S) - gamma * P_policy
        system[:, :, 0] = 1.0  # the place of v(0) = 0 serves g
        if gamma == 1:
            split[low:high] |= ~_unichain(P_policy)
            system[split[low:high]] = np.eye(S)
        values = np.linalg.solve(
            system, np.stack([np.einsum("ist,it->is", P_policy, r), passive], axis=2)
        )  # [c, S, 2]
        values[:, 0] = 0.0
        # The advantage of acting is level + tilt m in each state, [c, S].
        level = np.einsum("ist,it->is", change, r + gamma * values[:, :, 0])
        tilt = gamma * np.einsum("ist,it->is", change, values[:, :, 1]) - 1.0
        room = WRONG_SIGN * span
        if turned:
            fault[low:high] |= _any_active(level, tilt, m, passive, room)
        if turned == S:
            return
        crossing = np.full((c, S), np.inf)
        np.divide(-level, tilt, out=crossing, where=~passive & (tilt < 0))
        crossing = np.where(
            passive, np.inf, np.maximum(crossing, m[:, None])
        )  # ties come out a rounding below m
        state = np.argmin(crossing, axis=1)
        upper = crossing[every, state]
        # No subsidy turns the rest passive under this policy, yet a large one must: some passive state will turn back.
        fault[low:high] |= ~np.isfinite(upper)
        upper = np.where(np.isfinite(upper), upper, m)
        if turned:
            fault[low:high] |= _any_active(level, tilt, upper, passive, room)
        m = upper
        index[low + every, state] = m
        passive[every, state] = True


def _any_active(level: Floats, tilt: Floats, m: Floats, passive: Bools, room: Floats) -> Bools:
    """[c]: does a state held passive want to act at subsidy m?"""
    advantage = level + tilt * m[:, None]
    wanted: Bools = np.any(passive & (advantage > (room + WRONG_SIGN * np.abs(m))[:, None]), axis=1)
    return wanted


def _unichain(P: Floats) -> Bools:
    """[c]: does P [c, S, S] have one recurrent class, that is, a state that every state can reach?"""
    S = P.shape[1]
    reach = np.eye(S) + (P > NEVER)  # in one step or none
    for _ in range((S - 1).bit_length()):  # then in two, four, ... steps
        reach = np.where(reach @ reach > 0, 1.0, 0.0)
    one: Bools = np.any(np.all(reach > 0, axis=1), axis=1)
    return one


def _arms(bad: Bools) -> str:
    places = np.flatnonzero(bad)
    first = ", ".join(map(str, places[:5])) + (", ..." if len(places) > 5 else "")
    return f"{len(places)} of {len(bad)} arms ({first}) {'has' if len(places) == 1 else 'have'}"


def _refuse_faulty(bad: Bools, where: str) -> None:
    if bad.any():
        raise NotIndexable(
            f"{_arms(bad)} no Whittle index {where}: a state passive at one subsidy turns active at a larger one; "
            "leave those arms out (cohort.subset) or use a policy that needs no index, such as SoftFair or Myopic"
        )
