"""ProbFair: every arm is helped with a fixed chance between low and high.

Such chances exist if and only if n low <= k <= n high.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..cohort import Cohort, refuse_costs
from ..errors import Infeasible
from .base import Fitted, Floats, Policy
from .labels import plain_number
from .rules import Rule, SameRow
from .setting import Budget, check_setting, one_budget, refuse_by_action

__all__ = ["FittedProbFair", "ProbFair"]

ROUNDING = 1e-12  # rounding error allowed in a bound that the caller computed, such as low = k / n
NEVER = 1e-12  # a smaller chance to move counts as 0: near p = 0 or 1 doubles run out of digits
WORTH_CLOSING = 1e-6  # relative gap above which other chances are tried


@dataclass(frozen=True)
class ProbFair(Policy):
    """Probabilistic fairness: arm i is helped with a fixed chance p_i between low and high.

    Parameters
    ----------
    low, high : float
        Bounds on every arm's chance, 0 <= low <= high <= 1.

    Raises
    ------
    Infeasible
        The bounds are not chances with low <= high; or, from :meth:`fit`, n low > k or n high < k.

    Notes
    -----
    The chances sum to k and maximise the long-run reward. k arms are drawn by dependent rounding,
    so that arm i is helped with chance p_i exactly, whatever the states. gamma and the horizon have
    no effect. Arms must have two states. An arm helped with chance p moves from s to the good state
    1 with chance p[0,s] + p Delta_s, so that its share of time in the good state is

        f(p) = (a0 + a1 p) / (b0 + b1 p),
        a0 = p[0,0],  a1 = Delta_0,  b0 = 1 - p[0,1] + p[0,0],  b1 = Delta_0 - Delta_1,

    and its reward a step is r(0) + (r(1) - r(0)) f(p). Each f is concave or convex. If every convex
    f is replaced by its chord over [low, high], one price for help solves the problem exactly. At
    most one convex arm then has a chance strictly between the bounds; ``FittedProbFair.gap`` bounds
    the loss of reward by that arm.

    If an action leaves an arm in its state for ever, f has no unique value at p = 0 or p = 1. The
    limit is taken, which is right for 0 < low and high < 1. An arm that neither action moves stays
    in its first state. Chances to move below 1e-12 count as 0.

    References
    ----------
    Herlihy, Prins, Srinivasan and Dickerson (2023), Planning to fairly allocate: probabilistic
    fairness in the restless bandit setting, KDD.

    Examples
    --------
    >>> import softfair as sf
    >>> cohort = sf.datasets.synthetic(n=4, seed=0)
    >>> fitted = sf.ProbFair(low=0.25).fit(cohort, k=2, horizon=5)
    >>> bool(fitted.chances.min() >= 0.25), round(float(fitted.chances.sum()), 9)
    (True, 2.0)
    """

    name: ClassVar[str] = "ProbFair"

    low: float
    high: float = 1.0

    def __post_init__(self) -> None:
        real = isinstance(self.low, numbers.Real) and isinstance(self.high, numbers.Real)
        if not real or not 0 <= self.low <= self.high <= 1:  # refuses nan, too
            raise Infeasible(
                f"low is {self.low} and high {self.high}, but 0 <= low <= high <= 1; "
                "give bounds on a chance"
            )

    @property
    def label(self) -> str:
        """The name with its lower bound, and the upper one unless it is 1."""
        high = "" if self.high == 1 else f", high={plain_number(self.high)}"
        return f"ProbFair(low={plain_number(self.low)}{high})"

    def fit(
        self, cohort: Cohort, k: Budget, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> FittedProbFair:
        """See :meth:`Policy.fit`. Raises InvalidInput if k changes with time."""
        budget = check_setting(cohort, k, horizon, gamma)
        refuse_costs(cohort, "ProbFair")
        refuse_by_action(cohort, "ProbFair")
        k = one_budget(budget, "ProbFair", "its chances are fixed, so give one k, or take SoftFair")
        n, low, high, even = cohort.n, float(self.low), float(self.high), k / cohort.n
        if n * low > k * (1 + ROUNDING):
            remedy = f"take low={even:g} or less, or k={math.ceil(n * low)} or more"
            raise Infeasible(f"n low <= k, but {n} * {low:g} > {k}; {remedy}")
        if n * high < k * (1 - ROUNDING):
            remedy = f"take high={even:g} or more, or k={math.floor(n * high)} or less"
            raise Infeasible(f"k <= n high, but {k} > {n} * {high:g}; {remedy}")
        return FittedProbFair(self, cohort, k, horizon, gamma, min(low, even), max(high, even))


class FittedProbFair(Fitted):
    """ProbFair ready to act; ``scores`` are the chances themselves.

    Attributes
    ----------
    chances : ndarray [n]
        The chance of each arm; they sum to k.
    price : float
        What one more place a decision would bring in the long run.
    value : float
        Long-run reward a step of all arms together.
    gap : float
        At least 0: no chances within the bounds have a value above ``value + gap``.

    Examples
    --------
    >>> import softfair as sf
    >>> fitted = sf.ProbFair(low=0.5).fit(sf.datasets.synthetic(n=4, seed=0), k=2, horizon=5)
    >>> fitted.chances
    array([0.5, 0.5, 0.5, 0.5])
    """

    chances: Floats
    price: float
    value: float
    gap: float

    def __init__(
        self,
        policy: ProbFair,
        cohort: Cohort,
        k: int,
        horizon: int,
        gamma: float,
        low: float,
        high: float,
    ) -> None:
        arms = _LongRun.of(cohort)
        self.chances, self.price, self.gap = _best_chances(arms, k, low, high)
        self.value = float(np.sum(cohort.reward[:, 0] + arms.span * arms.share(self.chances)))
        self.chances.flags.writeable = False
        rows = SameRow(np.repeat(self.chances[:, None], 2, axis=1))
        super().__init__(policy, cohort, k, horizon, gamma, Rule.rounding(), rows)


@dataclass(frozen=True, eq=False)
class _LongRun:
    """Two-state arms helped with chance p: f(p) = A(p) / B(p), both linear in p.

    A and B are given by their values at p = 0 and p = 1, which avoids cancellation. With
    g = span f and gain = span (A(1) B(0) - A(0) B(1)),

        g(p) - g(q) = gain (p - q) / (B(p) B(q)).
    """

    A: Floats  # [2, n] at p = 0 and p = 1: the chance of 0 -> 1
    B: Floats  # [2, n]: the chance of 0 -> 1 plus that of 1 -> 0
    span: Floats  # [n]: r(1) - r(0)
    gain: Floats  # [n]
    stuck: Floats  # [n]: share of the good state for an arm that never moves

    @classmethod
    def of(cls, cohort: Cohort) -> _LongRun:
        """The arms of a cohort; chances to move below NEVER become 0."""
        up = _moves(cohort.p[:, :, 0].T)  # [2, n], passive and active: 0 -> 1
        down = _moves(cohort.P[:, :, 1, 0].T)  # [2, n]: 1 -> 0
        span = cohort.reward[:, 1] - cohort.reward[:, 0]
        # A(1) B(0) - A(0) B(1) = Delta_0 (1 - p[0,1]) + Delta_1 p[0,0], which is exactly 0 if an
        # action leaves the arm in its state.
        gain = span * ((up[1] - up[0]) * down[0] + (down[0] - down[1]) * up[0])
        return cls(up, up + down, span, gain, cohort.start[:, 1])

    @cached_property
    def bend(self) -> Floats:
        """The shape of g [n]: 1 concave, 0 straight, -1 convex."""
        sign: Floats = np.sign(self.gain) * np.sign(self.B[1] - self.B[0])
        return sign

    def share(self, p: Floats) -> Floats:
        """f(p) [n]; the limit where B(p) = 0."""
        A, B = _between(self.A, p), _between(self.B, p)
        # B(p) = 0 for all p, or at one end (p = 0 or 1) alone; then f is constant elsewhere.
        resting = B == 0
        A = np.where(resting, _between(self.A, 0.5), A)
        B = np.where(resting, _between(self.B, 0.5), B)
        return np.divide(A, B, out=self.stuck.copy(), where=B > 0)

    def slope(self, p: Floats | float, q: Floats | float) -> Floats:
        """(g(p) - g(q)) / (p - q) [n]; the derivative where p = q."""
        varies = self.gain != 0  # where gain is 0, g is constant and B may be 0
        slope = np.zeros(len(self.gain))
        np.divide(self.gain, _between(self.B, p), out=slope, where=varies)
        return np.divide(slope, _between(self.B, q), out=slope, where=varies)


def _moves(chance: Floats) -> Floats:
    """The chances with those below NEVER set to 0."""
    return np.ascontiguousarray(np.where(chance < NEVER, 0.0, chance))


def _between(ends: Floats, p: Floats | float) -> Floats:
    """The linear function with values ends [2, n] at 0 and 1, evaluated at p."""
    value: Floats = (1 - p) * ends[0] + p * ends[1]
    return value


def _best_chances(arms: _LongRun, k: int, low: float, high: float) -> tuple[Floats, float, float]:
    """Chances [n] in [low, high] that sum to k, the price, and the gap to the envelope's optimum.

    Weak duality at the envelope's price m: an arm with best chance q that gets the chance p loses
    (g(q) - m q) - (g(p) - m p) >= 0. The value of chances that sum to k is below the bound by the
    sum of these losses, which is the gap. So a smaller gap means better chances.
    """
    n = len(arms.gain)
    lows, highs = np.full(n, low), np.full(n, high)
    shared = _share_out(arms, k, lows, highs)

    def gap(p: Floats) -> float:
        slope = arms.slope(shared.answer, p)
        return max(0.0, math.fsum((shared.answer - p) * (slope - shared.price)))

    best, least = shared.p, gap(shared.p)
    middle = shared.between
    if middle is not None and least > WORTH_CLOSING * float(np.abs(arms.span).sum()):
        for bound in (low, high):  # fix the convex arm at a bound, then find the other chances
            lows[middle] = highs[middle] = bound
            if math.fsum(lows) <= k <= math.fsum(highs):
                p = _share_out(arms, k, lows, highs).p
                best, least = min((best, least), (p, gap(p)), key=lambda pair: pair[1])
    return best, shared.price, least


@dataclass(frozen=True, eq=False)
class _Shared:
    """The optimum of the concave envelope."""

    p: Floats  # [n]: chances that sum to k
    answer: Floats  # [n]: the best chance of each arm at the price
    price: float
    between: int | None  # the convex arm strictly between its bounds, if there is one


def _share_out(arms: _LongRun, k: int, low: Floats, high: Floats) -> _Shared:
    """The envelope's optimum, with chances between low and high [n].

    At price m the best chance of an arm maximises envelope(p) - m p. It falls as m rises, also in
    floating point, so bisection over the floats finds the two neighbouring prices between which
    the sum of the best chances passes k. The best chances at both prices are then mixed.
    """
    best = _answers(arms, low, high)
    curved = arms.bend > 0
    steep, flat = arms.slope(low, low)[curved], arms.slope(high, high)[curved]
    slopes = np.concatenate([arms.slope(low, high), steep, flat])  # where best chances change
    cheap, dear = _neighbours(
        lambda price: bool(best(price).sum() >= k), float(slopes.min()), float(slopes.max())
    )
    most, least = best(cheap), best(dear)  # [n] each
    # Convex arms whose best chance jumps between the two prices go to the upper bound one by one.
    # The places that are left are shared among the other arms whose best chance differs between the
    # prices, which loses nothing. If places are still left, one more convex arm takes them; its
    # value is then below its chord.
    p = least.copy()
    places = max(0.0, k - math.fsum(least))
    (jumps,) = np.nonzero((arms.bend < 0) & (most > least))
    filled = np.cumsum(most[jumps] - least[jumps])
    full = int(np.searchsorted(filled, places + ROUNDING, side="right"))
    p[jumps[:full]] = most[jumps[:full]]
    places = max(0.0, places - (filled[full - 1] if full else 0.0))
    margin = np.where(arms.bend < 0, 0.0, most - least)  # [n]
    room = math.fsum(margin)
    if room > 0:
        p += margin * min(1.0, places / room)
        places = max(0.0, places - room)
    between = int(jumps[full]) if full < len(jumps) and places > ROUNDING else None
    if between is not None:
        p[between] = min(most[between], least[between] + places)
    _correct_sum(p, k, low, high)
    return _Shared(p, least, dear, between)


def _answers(arms: _LongRun, low: Floats, high: Floats) -> Callable[[float], Floats]:
    """The function from a price to the best chance of each arm [n] on its envelope."""
    chord = arms.slope(low, high)  # [n]
    (curved,) = np.nonzero(arms.bend > 0)  # the concave arms
    gain, (B0, B1), bottom, top = arms.gain[curved], arms.B[:, curved], low[curved], high[curved]
    # The derivative of a concave arm falls from steep at low to flat at high.
    steep, flat = arms.slope(low, low)[curved], arms.slope(high, high)[curved]

    def best(price: float) -> Floats:
        p = np.where(chord > price, high, low)
        with np.errstate(divide="ignore", over="ignore"):
            B = np.sqrt(np.abs(gain / price))  # where the derivative, gain / B^2, is the price
            inner = np.clip((B - B0) / (B1 - B0), bottom, top)
        p[curved] = np.where(price <= flat, top, np.where(price >= steep, bottom, inner))
        return p

    return best


def _correct_sum(p: Floats, k: int, low: Floats, high: Floats) -> None:
    """Make p sum to k by changing the arm with most room; keep off the bounds where possible."""
    for _ in range(2):  # twice, because the change itself is rounded
        missing = k - math.fsum(p)
        up, down = high - p, p - low
        room = np.minimum(up, down)
        if room.max() < abs(missing):
            room = up if missing > 0 else down
        arm = int(np.argmax(room))
        p[arm] = min(1.0, max(0.0, p[arm] + missing))


def _neighbours(enough: Callable[[float], bool], least: float, most: float) -> tuple[float, float]:
    """Neighbouring floats x < y with enough(x) and not enough(y).

    ``enough`` is true up to some price and false above it; the search is between the floats just
    below ``least`` and just above ``most``. Bisection goes by the order of the floats, so that 64
    evaluations suffice at any scale. SciPy's root finders bisect real numbers and stop before two
    neighbouring floats are reached.
    """
    low, high = _place(least) - 1, _place(most) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if enough(_float_at(middle)):
            low = middle
        else:
            high = middle
    return _float_at(low), _float_at(high)


def _place(x: float) -> int:
    """The place of x among all floats, 0 for zero."""
    bits = int(np.float64(abs(x)).view(np.int64))
    return bits if x >= 0 else -bits


def _float_at(place: int) -> float:
    """The float at a place among all floats."""
    size = float(np.int64(abs(place)).view(np.float64))
    return size if place >= 0 else -size
