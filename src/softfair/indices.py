"""Whittle indices of restless arms.

The Whittle index of an arm in a state is the subsidy m for a passive step at which helping the arm
and leaving it alone have the same value. With h decisions left,

    Q_h(s, a) = a e(s) + sum_s2 P[a](s, s2) (r(s2) + gamma V_{h-1}(s2)) + m (1 - a),
    V_h(s) = max_a Q_h(s, a),     V_0 = 0,
    W_h(s) = inf { m : Q_h(s, 0) >= Q_h(s, 1) }.

where e(s) is what help is worth at once (``cohort.at_once``, usually 0).

The index is meaningful if the arm is indexable: a state that is passive at m is passive at every
larger m. Arms of two states with e = 0 are always indexable. Other arms are tested, and arms that
are not indexable are refused with :class:`~softfair.errors.NotIndexable`.

Notes
-----
Proof that every two-state arm with e = 0 is indexable at every horizon. Let rho = r(1) - r(0) and
x_h = rho + gamma (V_h(1) - V_h(0)), the worth of reaching state 1 rather than state 0. Acting in s
gains Delta_s x_{h-1} - m.

1. Take rho = 1 (for rho < 0 swap the states) and m > 0, and let w = 1/m and z = x/m. Then z_0 = w
   and z_h = w + gamma phi(z_{h-1}), where phi is piecewise linear with phi(0) = 0.
2. The slopes of phi are l_0 and l_1 (neither or both states active), p[1,1] - p[0,0] (state 1
   active) and p[0,1] - p[1,0] (state 0 active). Two slopes that one arm uses differ by a Delta, or
   by Delta_1 - Delta_0 with both positive, hence by at most 1.
3. So gamma (b - a) <= 1 for slopes a < 0 < b, and dz_h/dw = 1 + gamma phi' dz_{h-1}/dw stays in
   [0, 1 / (1 - gamma b)].
4. Hence z >= 0 falls as m grows. Acting is better where Delta_s z - 1 > 0, and this expression
   changes sign at most once. For m < 0 exchange the two actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .cohort import Cohort, Floats, refuse_costs
from .errors import InvalidInput, NotIndexable, is_real, refuse, whole
from .kernels import subsidy
from .kernels.threads import map_parts

__all__ = ["ThresholdTable", "sigmoid", "sigmoid_row", "threshold", "threshold_at", "whittle"]

Bools = NDArray[np.bool_]

PART = 32 * subsidy.LANES  # arms that a thread takes at a time
# An advantage of the wrong sign counts as rounding up to this share of the span of the rewards. A
# larger one means that the arm is not indexable.
WRONG_SIGN = 1e-9
NEVER = 1e-12  # a less likely transition does not connect states in double precision


def whittle(cohort: Cohort, gamma: float = 1.0, horizon: int | None = None) -> Floats:
    """Whittle indices for an infinite horizon, or for every number of decisions left.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    gamma : float
        Discount, 0 to 1. With an infinite horizon gamma = 1 means average reward.
    horizon : int, optional
        Number of decisions, at least 1. By default the horizon is infinite.

    Returns
    -------
    ndarray
        [n, S] for an infinite horizon; [horizon + 1, n, S] for a finite one, where row h is the
        index with h decisions left. Row 0 is 0 and row 1 is the immediate gain.

    Raises
    ------
    InvalidInput
        gamma or the horizon is out of range; or gamma = 1, the horizon is infinite and some policy
        splits the states of an arm (S > 2) into several recurrent classes.
    NotIndexable
        An arm of more than two states, or with rewards by action, has no Whittle index.

    Notes
    -----
    The closed forms for two states hold for rewards of states alone. With rewards by action, arms
    of two states are treated like arms of more states.

    Infinite horizon, two states. With D_s = Delta_s (r(1) - r(0)), l_a = p[a,1] - p[a,0] and s* the
    state of the larger D,

        W(s*) = D(s*) / (1 - gamma l_0),     W(other) = D(other) / (1 - gamma l_1),

    whether help is good or bad for the arm. If gamma = 1 and l_a = 1, action a keeps the arm in its
    state for ever, and the index is a limit: +inf if no subsidy outweighs acting once, -inf if no
    subsidy makes acting worthwhile, 0 if acting changes nothing.

    Infinite horizon, more states. The subsidy rises from -inf, where every state is active. The
    value of a policy is linear in m, and the next state to become indifferent turns passive.
    gamma = 1 solves for gain and bias, which needs one recurrent class under each of these
    policies.

    Finite horizon, two states (the subsidy is constant over time). The index is

        D_s (1 - (gamma l)^h) / (1 - gamma l)

    with l = l_0 for s* if l_0 >= 0 and D >= 0, and with l = l_1 for the other state if l_1 >= 0 and
    D <= 0. Otherwise it is the root of the advantage of acting, which is piecewise linear in m; the
    root is found to about 1e-13. Only if gamma = 1 and some ``|Delta|`` = 1 can the advantage be
    zero on an interval; then the index is the lower end. Rows need not rise with h: Theorem 1 of
    the paper fails for the state of the smaller D, as the example shows.

    References
    ----------
    P. Whittle, "Restless bandits: activity allocation in a changing world", Journal of Applied
    Probability 25A (1988).

    Examples
    --------
    >>> import softfair as sf
    >>> arm = sf.Cohort.two_state([[[0.05, 0.35], [0.99, 0.995]]])
    >>> sf.indices.whittle(arm, gamma=0.9, horizon=3)[:, 0, 1].round(4)
    array([0.    , 0.645 , 0.6519, 0.6479])
    """
    refuse_costs(cohort, "an index (cohort.per_cost has one for its cost)")
    gamma = _discount(gamma)
    closed = cohort.S == 2 and not cohort.by_action
    if horizon is None:
        return _two_state_forever(cohort, gamma) if closed else _forever(cohort, gamma)
    table = np.empty((whole("horizon", horizon, 1) + 1, cohort.n, cohort.S))
    table[0] = 0.0
    if closed:
        _fill_two_state(cohort, gamma, table)
    else:
        _fill(cohort, gamma, table)
    return table


def sigmoid(cohort: Cohort, gamma: float, horizon: int) -> Floats:
    """Approximate finite-horizon indices, which the Oracle uses.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    gamma : float
        Discount, 0 to 1.
    horizon : int
        Number of decisions, at least 1.

    Returns
    -------
    ndarray, [horizon + 1, n, S]
        Row h is :func:`sigmoid_row` with h decisions left.

    Raises
    ------
    InvalidInput
        gamma or the horizon is out of range.
    NotIndexable
        An arm of more than two states, or with rewards by action, has no Whittle index.

    References
    ----------
    A. Mate, A. Biswas, C. Siebenbrunner, S. Ghosh, M. Tambe, "Efficient algorithms for finite
    horizon and streaming restless multi-armed bandit problems" (2021).

    Examples
    --------
    >>> import softfair as sf
    >>> arm = sf.Cohort.two_state([[[0.2, 0.6], [0.5, 0.8]]])
    >>> sf.indices.sigmoid(arm, gamma=0.9, horizon=3)[:, 0, 0].round(4)
    array([0.    , 0.3   , 0.4257, 0.4589])
    """
    refuse_costs(cohort, "an index (cohort.per_cost has one for its cost)")
    limit, gain = whittle(cohort, gamma), cohort.immediate_gain
    return np.stack([sigmoid_row(gain, limit, h) for h in range(whole("horizon", horizon, 1) + 1)])


def sigmoid_row(gain: Floats, limit: Floats, h: int) -> Floats:
    """One row of :func:`sigmoid`, without the rest of the table.

    Parameters
    ----------
    gain : ndarray, [n, S]
        Index with one decision left: ``cohort.immediate_gain``.
    limit : ndarray, [n, S]
        Index for an infinite horizon: ``whittle(cohort, gamma)``.
    h : int
        Number of decisions left.

    Returns
    -------
    ndarray, [n, S]
        The approximate index.

    Notes
    -----
    The curve is W(h) = C1 / (1 + exp(-C2 h)) + C3 through W(0) = 0, W(1) = gain and
    W(inf) = limit. Hence C1 = 2 limit, C3 = -limit, C2 = 2 artanh(gain / limit), and

        W(h) = limit tanh(h artanh(gain / limit)).

    The curve needs 0 < gain < limit. Otherwise the index is the gain, except that with an infinite
    limit and a positive gain it is the straight line h gain.
    """
    gain, limit = np.asarray(gain, dtype=np.float64), np.asarray(limit, dtype=np.float64)
    if h == 0:
        return np.zeros(gain.shape)
    curved = (gain > 0) & (gain < limit) & np.isfinite(limit)
    row = np.where((gain > 0) & (limit == np.inf), h * gain, gain)
    # artanh(gain / limit), written so that the quotient cannot round to 1.
    rate = 0.5 * np.log((limit[curved] + gain[curved]) / (limit[curved] - gain[curved]))
    row[curved] = limit[curved] * np.tanh(h * rate)
    return row


@dataclass(frozen=True, eq=False)
class ThresholdTable:
    """Indices of partly observed two-state arms, by the state last seen and how long ago.

    Parameters
    ----------
    index : ndarray, [2, horizon, n]
        Index by (state seen, steps since then - 1, arm).
    belief : ndarray, [2, horizon, n]
        Probability that the arm is then in state 1.
    forward : ndarray of bool, [n]
        True if the subsidies of the search never fall, so that the entries are Whittle indices.
    """

    index: Floats  # [2, horizon, n]
    belief: Floats  # [2, horizon, n]
    forward: Bools  # [n]


def threshold(cohort: Cohort, horizon: int) -> ThresholdTable:
    """Threshold Whittle indices of arms that show their state only when they are helped.

    Parameters
    ----------
    cohort : Cohort
        Arms with two states.
    horizon : int
        Longest time since an arm was seen, at least 1.

    Returns
    -------
    ThresholdTable
        Index and belief for each state seen and each time since then.

    Raises
    ------
    InvalidInput
        The arms have more than two states, or rewards by action, or the horizon is less than 1.

    Notes
    -----
    The criterion is average reward. A pull that sees state w leaves the belief b_w(1) = p[1, w] one
    step later. A passive step maps b to b p[0,1] + (1 - b) p[0,0]. The policy (X0, X1) pulls X_w
    steps after a pull that saw w. Its pulls see state 1 with frequency
    f_1 = b_0(X0) / (b_0(X0) + 1 - b_1(X1)) and state 0 with f_0 = 1 - f_1. With
    rho = r(1) - r(0) it earns on average

        J_m = (R + m (D - 1)) / D,   R = sum_w f_w sum_{u <= X_w} rho b_w(u),   D = sum_w f_w X_w.

    Policies A and B earn the same at m = (R_A D_B - R_B D_A) / (D_B - D_A). The search starts from
    (1, 1). At each step it compares the subsidies at which (X0 + 1, X1) and (X0, X1 + 1) earn the
    same as (X0, X1). The smaller is the index of the belief that is passed, (w, u = X_w). The
    search ends when both waits exceed the horizon.

    This assumes that forward threshold policies are optimal: if an arm is worth a pull, it stays
    worth a pull while it is not seen. Then the subsidies of the search never fall, ``forward`` is
    True and the entries are the Whittle indices of the belief chain (tests check this by brute
    force). ``forward`` is False if subsidies fall (57 % of the synthetic arms) or if pulls see one
    state for ever. Then an entry is only the subsidy at which two neighbouring policies earn the
    same; a step that adds no passive time has no such subsidy and repeats the entry before.

    References
    ----------
    A. Mate, J. A. Killian, H. Xu, A. Perrault, M. Tambe, "Collapsing bandits and their application
    to public health intervention" (2020).

    Examples
    --------
    >>> import softfair as sf
    >>> arm = sf.Cohort.two_state([[[0.3, 0.5], [0.85, 0.9]]])
    >>> table = sf.indices.threshold(arm, horizon=2)
    >>> table.forward.tolist(), table.belief[:, :, 0].round(3).tolist()
    ([True], [[0.85, 0.47], [0.9, 0.48]])
    """
    refuse_costs(cohort, "threshold")
    steps = whole("horizon", horizon, 1)
    if cohort.S != 2:
        raise InvalidInput(
            f"threshold needs arms with two states, the cohort has {cohort.S}; "
            "whittle takes any number"
        )
    if cohort.by_action:
        raise InvalidInput(
            "threshold needs rewards of states alone, not R(s, a); whittle takes both"
        )
    shape = (2, steps, cohort.n)
    table = ThresholdTable(np.empty(shape), np.empty(shape), np.empty(cohort.n, dtype=np.bool_))
    fill = (table.index, table.belief, table.forward)
    map_parts(
        subsidy.forward_threshold, cohort.n, PART, cohort.P, cohort.reward_rows, WRONG_SIGN, *fill
    )
    return table


def threshold_at(beliefs: ArrayLike, table: ThresholdTable) -> Floats:
    """Threshold Whittle index of each arm at any belief.

    Parameters
    ----------
    beliefs : array_like, [n]
        Probability that the arm is in state 1, for example at the start of an arm never seen.
    table : ThresholdTable
        The result of :func:`threshold`.

    Returns
    -------
    ndarray, [n]
        The index, linear between the beliefs of the arm in the table, and constant below the least
        and above the greatest of these beliefs.

    Raises
    ------
    InvalidInput
        There is not one belief for each arm, or a belief is not between 0 and 1.

    Examples
    --------
    >>> import softfair as sf
    >>> table = sf.indices.threshold(sf.Cohort.two_state([[[0.3, 0.5], [0.85, 0.9]]]), horizon=2)
    >>> bool(sf.indices.threshold_at([0.85], table)[0] == table.index[0, 0, 0])
    True
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
    """The discount, checked."""
    if not (is_real(gamma) and 0 <= gamma <= 1):  # refuses nan, too
        raise InvalidInput(f"gamma is {gamma}; give a discount between 0 and 1")
    return float(gamma)


def _shorthand(cohort: Cohort) -> tuple[Floats, Floats, Floats, Floats]:
    """Delta [n, 2], l_0 [n], l_1 [n] and r(1) - r(0) [n] of two-state arms."""
    p = cohort.p  # [n, 2, 2]
    l0, l1 = p[:, 0, 1] - p[:, 0, 0], p[:, 1, 1] - p[:, 1, 0]
    return p[:, 1] - p[:, 0], l0, l1, cohort.reward[:, 1] - cohort.reward[:, 0]


def _two_state_forever(cohort: Cohort, gamma: float) -> Floats:
    """The closed form [n, 2] for an infinite horizon.

    From m = max D / (1 - gamma l_0) up, it is best to be passive in both states; up to
    m = min D / (1 - gamma l_1), it is best to be active in both. The second bound is never above
    the first, because gamma (p[1,1] - p[0,0]) <= 1 (for s* = 1, and likewise for s* = 0).
    """
    delta, l0, l1, rho = _shorthand(cohort)
    D = delta * rho[:, None]  # [n, 2]
    # s* is the state of the larger D. If both D are equal, l_0 = l_1 and both formulas agree.
    larger = np.greater_equal(D, D[:, ::-1])
    divisor = 1 - gamma * np.where(larger, l0[:, None], l1[:, None])  # [n, 2]
    limit = np.where(D == 0, 0.0, np.copysign(np.inf, D))  # for divisor = 0: see whittle
    return np.divide(D, divisor, out=limit, where=divisor > 0)


def _fill_two_state(cohort: Cohort, gamma: float, table: Floats) -> None:
    """Fill rows 1 to horizon of table [horizon + 1, n, 2].

    The index of an (arm, state) is the geometric sum if that formula applies; otherwise it is
    searched for.
    """
    delta, l0, l1, rho = _shorthand(cohort)
    unit = np.where(rho[:, None] < 0, -delta, delta)  # D per |r(1) - r(0)|, [n, 2]
    bad, good = np.where(rho < 0, unit[:, 1], unit[:, 0]), np.where(rho < 0, unit[:, 0], unit[:, 1])
    D = unit * np.abs(rho)[:, None]
    # s* with l_0 >= 0, D >= 0: if the subsidy is the index, passive is best at every later step.
    passive_after = (unit >= unit[:, ::-1]) & (unit >= 0) & (l0 >= 0)[:, None]
    # The other state with l_1 >= 0, D <= 0: then active is best at every later step.
    active_after = (unit <= unit[:, ::-1]) & (unit <= 0) & (l1 >= 0)[:, None]
    ratio = gamma * np.where(passive_after, l0[:, None], l1[:, None])
    # If gamma |Delta| = 1, the advantage may be 0 on an interval of subsidies, whose lower end only
    # bisection finds.
    one_root = np.broadcast_to(gamma * np.abs(unit).max(axis=1, keepdims=True) < 1, unit.shape)
    closed = (passive_after | active_after) & one_root
    arm, state = np.nonzero(closed)
    map_parts(subsidy.geometric_rows, len(arm), PART, arm, state, D[closed], ratio[closed], table)
    for newton in (True, False):
        searched = ~closed & (one_root == newton)
        arm, state = np.nonzero(searched)
        lists = (D[searched], unit[searched], bad[arm], good[arm], l0[arm])
        map_parts(subsidy.two_state_rows, len(arm), PART, arm, state, *lists, gamma, newton, table)


def _fill(cohort: Cohort, gamma: float, table: Floats) -> None:
    """Fill rows 1 to horizon of table [horizon + 1, n, S]; refuse arms that are not indexable."""
    fault = np.empty(cohort.n)
    arms = (cohort.n, subsidy.LANES, cohort.P, cohort.reward_rows)
    map_parts(subsidy.many_state_rows, *arms, gamma, table)
    map_parts(subsidy.many_state_faults, *arms, gamma, table, WRONG_SIGN, fault)
    _refuse_faulty(fault > 0, f"at gamma = {gamma:g} over {len(table) - 1} decisions")


def _forever(cohort: Cohort, gamma: float) -> Floats:
    """W [n, S] for an infinite horizon by parametric search, for any S.

    Two-state arms have a closed form; tests compare it with this search.
    """
    index = np.empty((cohort.n, cohort.S))
    fault, split = np.zeros(cohort.n, dtype=np.bool_), np.zeros(cohort.n, dtype=np.bool_)
    part = max(1, 2**16 // cohort.S**2)  # arms whose matrices take half a megabyte each
    rewards = (cohort.reward, cohort.at_once)
    map_parts(_raise_subsidy, cohort.n, part, cohort.P, *rewards, gamma, index, fault, split)
    if split.any():
        raise InvalidInput(
            f"{_arms(split)} more than one recurrent class of states under some policy, hence no "
            "average-reward index (gamma = 1); use gamma < 1, for example gamma=0.999"
        )
    _refuse_faulty(fault, f"at gamma = {gamma:g}")
    return index


def _raise_subsidy(
    low: int,
    high: int,
    P: Floats,
    reward: Floats,
    at_once: Floats,
    gamma: float,
    index: Floats,
    fault: Bools,
    split: Bools,
) -> None:
    """Fill index, fault and split of arms low..high - 1.

    As the subsidy m rises from -inf, states become passive one by one.
    """
    P, r, e = P[low:high], reward[low:high], at_once[low:high]  # [c, 2, S, S], [c, S], [c, S]
    c, S = r.shape
    arms = np.arange(c)
    room = WRONG_SIGN * (np.ptp(r, axis=1) + np.abs(e).max(axis=1))  # [c]
    passive = np.zeros((c, S), dtype=np.bool_)
    m = np.full(c, -np.inf)
    for turned in range(S + 1):
        P_policy = np.where(passive[:, :, None], P[:, 0], P[:, 1])  # [c, S, S]
        if gamma == 1:
            split[low:high] |= ~_unichain(P_policy)
        level, tilt = _advantage(P, r, e, gamma, P_policy, passive, split[low:high])
        if turned:
            fault[low:high] |= _any_active(level, tilt, m, passive, room)
        if turned == S:
            return
        crossing = np.full((c, S), np.inf)
        np.divide(-level, tilt, out=crossing, where=~passive & (tilt < 0))
        # If two states become passive at the same m, rounding may put the second crossing below it.
        crossing = np.where(passive, np.inf, np.maximum(crossing, m[:, None]))
        state = np.argmin(crossing, axis=1)
        upper = crossing[arms, state]
        # A large subsidy must make all states passive. If none does under this policy, some passive
        # state will become active again.
        fault[low:high] |= ~np.isfinite(upper)
        upper = np.where(np.isfinite(upper), upper, m)
        if turned:
            fault[low:high] |= _any_active(level, tilt, upper, passive, room)
        m = upper
        index[low + arms, state] = m
        passive[arms, state] = True


def _advantage(
    P: Floats, r: Floats, e: Floats, gamma: float, P_policy: Floats, passive: Bools, split: Bools
) -> tuple[Floats, Floats]:
    """level and tilt [c, S]: the advantage of acting under the policy is level + tilt m.

    Values relative to state 0 solve v + g = e 1{active} + P_policy (r + gamma v) + m 1{passive},
    v(0) = 0. This system holds for gamma < 1, with g = (1 - gamma) V(0), and at gamma = 1, where g
    is the gain and v the bias. For arms in ``split`` it has no solution; it is replaced by another,
    whose solution is not used.
    """
    S = r.shape[1]
    system = np.eye(S) - gamma * P_policy
    system[:, :, 0] = 1.0  # v(0) is 0, so its column is used for g
    system[split] = np.eye(S)
    earned = np.einsum("ist,it->is", P_policy, r) + np.where(passive, 0.0, e)
    right = np.stack([earned, passive], axis=2)
    values = np.linalg.solve(system, right)  # [c, S, 2]: constant and linear in m
    values[:, 0] = 0.0
    change = P[:, 1] - P[:, 0]  # [c, S, S]
    level = e + np.einsum("ist,it->is", change, r + gamma * values[:, :, 0])
    tilt = gamma * np.einsum("ist,it->is", change, values[:, :, 1]) - 1.0
    return level, tilt


def _any_active(level: Floats, tilt: Floats, m: Floats, passive: Bools, room: Floats) -> Bools:
    """Whether acting is better at subsidy m in some passive state, by more than rounding [c]."""
    advantage = level + tilt * m[:, None]
    active: Bools = np.any(passive & (advantage > (room + WRONG_SIGN * np.abs(m))[:, None]), axis=1)
    return active


def _unichain(P: Floats) -> Bools:
    """Whether P [c, S, S] has one recurrent class: a state that every state can reach [c]."""
    S = P.shape[1]
    reach = np.eye(S) + (P > NEVER)  # in at most one step
    for _ in range((S - 1).bit_length()):  # then in at most two, four, ... steps
        reach = np.where(reach @ reach > 0, 1.0, 0.0)
    single: Bools = np.any(np.all(reach > 0, axis=1), axis=1)
    return single


def _arms(bad: Bools) -> str:
    """The beginning of a message: how many arms are bad, which arms, and the verb."""
    places = np.flatnonzero(bad)
    first = ", ".join(map(str, places[:5])) + (", ..." if len(places) > 5 else "")
    return f"{len(places)} of {len(bad)} arms ({first}) {'has' if len(places) == 1 else 'have'}"


def _refuse_faulty(bad: Bools, where: str) -> None:
    """Raise if any arm is not indexable."""
    if bad.any():
        raise NotIndexable(
            f"{_arms(bad)} no Whittle index {where}: a state passive at one subsidy turns active "
            "at a larger one; leave those arms out (cohort.subset) or use a policy that needs no "
            "index, such as SoftFair or Myopic"
        )
