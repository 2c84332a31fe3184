"""Two other notions of fairness to stand beside SoftFair: a promise within every window, and bounds on every arm's chance.

FaWT       every arm is helped at least eta times in any L consecutive decisions     (feasible iff eta <= L and eta n <= k L)
ProbFair   every arm is helped with a fixed chance between low and high              (feasible iff n low <= k <= n high)
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from ..errors import Infeasible, whole
from ..indices import whittle
from .base import Fitted, Floats, Ints, Policy, Remembering, Rule, SameRow, check_setting

__all__ = ["FaWT", "FittedProbFair", "ProbFair"]

Bools = NDArray[np.bool_]

ROUNDING = (
    1e-12  # by which a bound such as low = k / n, computed by the caller, may miss what it means
)
NEVER = 1e-12  # a move less likely than this counts as none: nobody lives to see it, and near p = 0 or 1 doubles run out of digits
WORTH_ANOTHER_LOOK = 1e-6  # relative gap above which ProbFair tries to close it


# FaWT: at least eta times in any window of L decisions.


@dataclass(frozen=True)
class FaWT(Policy):
    """Fairness-aware Whittle (Li and Varakantham 2022): everybody ``least`` times in any ``window`` decisions, else by index.

    At each decision, of all sets of k arms that leave the promise keepable for ever after, the one with the greatest sum of
    infinite-horizon Whittle indices is helped: the promise overrules the index in no more places than it must. It holds from the
    first window on, decisions 0 to window - 1; the horizon plays no part.

    The original works with partially observed arms and the indices of their beliefs; here states are seen, and the index is that of
    the state (:func:`softfair.indices.whittle`).

    Parameters
    ----------
    window : L, a number of consecutive decisions.
    least : eta, how often each arm is helped in any of them; least n <= k window.
    """

    name: ClassVar[str] = "FaWT"

    window: int
    least: int = 1

    def __post_init__(self) -> None:
        window, least = whole("window", self.window, 0), whole("least", self.least, 0)
        if least < 1:
            raise Infeasible(
                f"least is {least}, but 1 <= least; without a promise to keep, use Whittle()"
            )
        if least > window:
            raise Infeasible(
                f"help comes once a decision, so least <= window, but {least} > {window}; take window={least} or more"
            )
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "least", least)

    @property
    def label(self) -> str:
        least = "" if self.least == 1 else f", least={self.least}"
        return f"FaWT(window={self.window}{least})"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> Fitted:
        check_setting(cohort, k, horizon, gamma)
        wanted = self.least * cohort.n
        if wanted > k * self.window:
            longer = f", or window={-(-wanted // int(k))} or more" if k else ""
            raise Infeasible(
                f"{self.least} for each of {cohort.n} arms in any {self.window} decisions needs least n <= k window, "
                f"but {wanted} > {k * self.window}; take k={-(-wanted // self.window)} or more{longer}"
            )
        return _FittedFaWT(self, cohort, k, horizon, gamma)


class _FittedFaWT(Remembering):
    """Memory [runs, n, eta]: how many decisions ago each arm was helped, the last eta times, latest first.

    Scores are the indices; those of arms that must be helped now are lifted above all others.
    """

    def __init__(self, policy: FaWT, cohort: Cohort, k: int, horizon: int, gamma: float) -> None:
        super().__init__(policy, cohort, k, horizon, gamma, Rule.top())
        self._promise = policy
        index = whittle(cohort, gamma)  # [n, S], infinite where one action keeps an arm where it is
        finite = index[np.isfinite(index)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        beyond = (high - low) + max(
            1.0, abs(low), abs(high)
        )  # large enough not to be lost in rounding
        self._index = np.clip(index, low - beyond, high + beyond)
        self._lift = (
            4 * beyond
        )  # more than from the lowest, low - beyond, to the highest, high + beyond

    def memory(self, runs: int = 1) -> Ints:
        # As if everybody had been helped at each of the eta decisions before the first: then eta helps are due by decision L - 1.
        ages = np.arange(1, self._promise.least + 1)
        return np.tile(ages, (runs, self.cohort.n, 1))

    def _scores(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        index: Floats = self._index[np.arange(self.cohort.n), states]  # [runs, n]
        return np.where(
            _must_help(index, memory, self.k, self._promise.window), index + self._lift, index
        )

    def _remember(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Ints:
        now = np.zeros_like(memory[:, :, :1])
        with_now = np.concatenate([now, memory[:, :, :-1]], axis=2)  # the oldest drops out
        later: Ints = np.where(helped[:, :, None] != 0, with_now, memory) + 1
        return later


def _must_help(index: Floats, ages: Ints, k: int, window: int) -> Bools:
    """Which arms must be among the k helped now [runs, n], given index [runs, n] (finite) and ages [runs, n, eta], latest first.

    Jobs. The eta-th help after one of age x must come within L + 1 - x decisions (1: now), or the window after that one holds too
    few. So an arm always has eta jobs with distinct deadlines, all within L, done in order, at most one a decision. Let J(d) count
    the jobs due within d decisions, and A(d) be the arms that have one. The promise can be kept for ever iff J(d) <= k d for all d:

    - Only if: k d is all the help there is. At the start J(d) = n (d - L + eta)+, which is <= k d because eta n <= k L.
    - If: helping the set H leaves J(d) - |H & A(d)| jobs due within the d - 1 decisions after this one. (New jobs are due L later,
      where J(L) = eta n <= k L always.) So the condition lives on iff |H & A(d)| >= need(d) = J(d) - k (d - 1) for every d.
      The k arms with the earliest deadlines do that: either they hold k of A(d), and need(d) <= k by the condition; or A(d) has
      fewer, they hold all, and need(d) <= |A(d)|, because beside its first job each arm of A(d) has at most d - 1 due within d.

    Choice. The sets A(d) are nested. Hence (by exchange) the greatest sum of indices that meets every need comes from going up
    through d, adding to what is taken already the best arms left in A(d) until need(d) are, and then the best of all for the places
    left. What is taken on the way up is returned. Ties go to the earlier deadline, then to the lower number.

    Where k d >= eta n any k arms will do: at most eta n - J(d) arms are outside A(d), so k - eta n + J(d) >= need(d) are in it. So
    the work does not grow with L. If the promise is broken already (a memory that this policy did not write), overdue jobs count as
    due now, and k remains the limit.
    """
    runs, n, eta = ages.shape
    reach = (eta * n - 1) // k  # the largest d that matters
    due = np.clip(
        window + 1 - ages, 1, reach + 1
    )  # [runs, n, eta], an arm's earliest last; reach + 1 is "later than matters"
    bins = due + ((reach + 1) * np.arange(runs) - 1)[:, None, None]
    count = np.bincount(bins.ravel(), minlength=runs * (reach + 1)).reshape(runs, reach + 1)
    jobs = count[:, :reach].cumsum(axis=1)  # [runs, reach]: J(1), J(2), ...
    need = np.maximum.accumulate(
        np.clip(jobs - k * np.arange(reach), 0, k), axis=1
    )  # [runs, reach]: to take by then
    more = np.diff(need, axis=1, prepend=0)  # [runs, reach]
    forced = np.zeros((runs, n), np.bool_)
    steps = np.flatnonzero(more.any(axis=0))
    if not len(steps):
        return forced
    first = due[:, :, -1]  # [runs, n]
    last = np.where(more > 0, np.arange(1, reach + 1), 0).max(
        axis=1
    )  # [runs]: the largest d that takes any
    run, arm = np.nonzero(first <= last[:, None])  # candidates, in one list for all runs [c]
    order = np.lexsort(
        (first[run, arm], -index[run, arm], run)
    )  # best first within a run; stable, so by number in the end
    run, arm = run[order], arm[order]
    deadline = first[run, arm]
    begin = np.searchsorted(run, run)  # [c]: where the candidates of the same run begin
    taken = np.zeros(len(run), np.bool_)
    for step in steps:
        left = (deadline <= step + 1) & ~taken
        counted: Ints = np.cumsum(left)
        place: Ints = counted - (counted - left)[begin]  # 1 for the best of its run that is left
        taken |= left & (place <= more[run, step])
    forced[run[taken], arm[taken]] = True
    return forced


# ProbFair: a chance between low and high for everybody.


@dataclass(frozen=True)
class ProbFair(Policy):
    """Probabilistic fairness (Herlihy, Prins, Srinivasan and Dickerson 2023): arm i is helped with chance p_i in [low, high].

    The chances sum to k and maximise the long-run reward; k arms are drawn by dependent rounding, so arm i has chance p_i exactly,
    whatever the states. An arm helped with chance p moves from s to the good state 1 with chance p[0,s] + p Delta_s. Its share of
    time there (the stationary law of the mixed chain) is

        f(p) = (a0 + a1 p) / (b0 + b1 p),   a0 = p[0,0],  a1 = Delta_0,  b0 = 1 - p[0,1] + p[0,0],  b1 = Delta_0 - Delta_1,

    and it earns r(0) + (r(1) - r(0)) f(p) a step. Two-state arms only; gamma and the horizon play no part. Each f is concave or
    convex. With every convex one replaced by its chord over [low, high], the problem is solved exactly, by a price for help. At
    most one convex arm ends up off both bounds; ``gap`` bounds what that costs.

    An arm that one action keeps where it is for ever has no unique law at that end of [0, 1]. It counts with the limit, its share
    at every other p: 0 < low and high < 1 make that true. An arm that neither action moves stays where it started. To move with a
    chance below 1e-12 is not to move.

    Parameters
    ----------
    low, high : bounds on every arm's chance; n low <= k <= n high.
    """

    name: ClassVar[str] = "ProbFair"

    low: float
    high: float = 1.0

    def __post_init__(self) -> None:
        given = isinstance(self.low, numbers.Real) and isinstance(self.high, numbers.Real)
        if not given or not 0 <= self.low <= self.high <= 1:  # a nan fails too
            raise Infeasible(
                f"low is {self.low} and high {self.high}, but 0 <= low <= high <= 1; give bounds on a chance"
            )

    @property
    def label(self) -> str:
        high = "" if self.high == 1 else f", high={self.high:g}"
        return f"ProbFair(low={self.low:g}{high})"

    def fit(
        self, cohort: Cohort, k: int, horizon: int, gamma: float = 1.0, seed: int = 0
    ) -> FittedProbFair:
        check_setting(cohort, k, horizon, gamma)
        n, low, high, even = cohort.n, float(self.low), float(self.high), k / cohort.n
        if n * low > k * (1 + ROUNDING):
            remedy = f"take low={even:g} or less, or k={math.ceil(n * low)} or more"
            raise Infeasible(f"n low <= k, but {n} * {low:g} > {k}; {remedy}")
        if n * high < k * (1 - ROUNDING):
            remedy = f"take high={even:g} or more, or k={math.floor(n * high)} or less"
            raise Infeasible(f"k <= n high, but {k} > {n} * {high:g}; {remedy}")
        return FittedProbFair(self, cohort, k, horizon, gamma, min(low, even), max(high, even))


class FittedProbFair(Fitted):
    """ProbFair ready to act; ``scores`` are the chances themselves."""

    chances: Floats  # [n], sum to k
    price: float  # of help: what one more place a decision would bring in the long run
    value: float  # long-run reward a step of all arms together
    gap: float  # >= 0: no chances within the bounds earn more than value + gap

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
        super().__init__(
            policy,
            cohort,
            k,
            horizon,
            gamma,
            Rule.rounding(),
            SameRow(np.repeat(self.chances[:, None], 2, axis=1)),
        )


@dataclass(frozen=True, eq=False)
class _LongRun:
    """Two-state arms helped with chance p: f(p) = A(p) / B(p), both linear in p and written by their ends, so that little cancels.

    With g = span f and gain = span (A(1) B(0) - A(0) B(1)):  g(p) - g(q) = gain (p - q) / (B(p) B(q)).
    """

    A: Floats  # [2, n] at p = 0 and p = 1: chance of 0 -> 1
    B: Floats  # [2, n]: that and the chance of 1 -> 0
    span: Floats  # [n]: r(1) - r(0)
    gain: Floats  # [n]
    stuck: Floats  # [n]: share of the good state where nothing ever moves

    @classmethod
    def of(cls, cohort: Cohort) -> _LongRun:
        up, down = (
            cohort.p[:, :, 0].T,
            cohort.P[:, :, 1, 0].T,
        )  # [2, n] each: 0 -> 1 and 1 -> 0, passive and active
        up, down = (
            np.ascontiguousarray(np.where(chance < NEVER, 0.0, chance)) for chance in (up, down)
        )
        span = cohort.reward[:, 1] - cohort.reward[:, 0]
        # A(1) B(0) - A(0) B(1) = Delta_0 (1 - p[0,1]) + Delta_1 p[0,0]; exactly 0 if an action keeps the arm where it is.
        gain = span * ((up[1] - up[0]) * down[0] + (down[0] - down[1]) * up[0])
        return cls(up, up + down, span, gain, cohort.start[:, 1])

    @cached_property
    def bend(self) -> Floats:
        """Of g [n]: 1 concave, 0 straight, -1 convex."""
        sign: Floats = np.sign(self.gain) * np.sign(self.B[1] - self.B[0])
        return sign

    def share(self, p: Floats) -> Floats:
        """f(p) [n]; the limit where B(p) = 0."""
        A, B = _between(self.A, p), _between(self.B, p)
        resting = B == 0  # at one end of [0, 1] alone, with f constant elsewhere; or everywhere
        A, B = (
            np.where(resting, _between(self.A, 0.5), A),
            np.where(resting, _between(self.B, 0.5), B),
        )
        return np.divide(A, B, out=self.stuck.copy(), where=B > 0)

    def slope(self, p: Floats | float, q: Floats | float) -> Floats:
        """(g(p) - g(q)) / (p - q) [n]; the derivative where p = q."""
        varies = self.gain != 0  # else g is constant, and B may be 0
        once = np.divide(self.gain, _between(self.B, p), out=np.zeros(len(self.gain)), where=varies)
        return np.divide(once, _between(self.B, q), out=once, where=varies)


def _between(ends: Floats, p: Floats | float) -> Floats:
    """The linear function with values ends [2, n] at 0 and 1, at p."""
    value: Floats = (1 - p) * ends[0] + p * ends[1]
    return value


def _best_chances(arms: _LongRun, k: int, low: float, high: float) -> tuple[Floats, float, float]:
    """Chances [n] in [low, high] that sum to k, the price, and the gap to the optimum of the concave envelope.

    Weak duality at the envelope's price m: an arm whose best answer is q but that gets p falls (g(q) - m q) - (g(p) - m p) >= 0
    short, and chances that sum to k are below the bound by the sum of these. So the smaller gap is the better choice.
    """
    n = len(arms.gain)
    lows, highs = np.full(n, low), np.full(n, high)
    p, answer, price, between = _share_out(arms, k, lows, highs)

    def gap(p: Floats) -> float:
        return max(0.0, math.fsum((answer - p) * (arms.slope(answer, p) - price)))

    best, least = p, gap(p)
    if between is not None and least > WORTH_ANOTHER_LOOK * float(np.abs(arms.span).sum()):
        for bound in (
            low,
            high,
        ):  # the convex arm that fell between the bounds goes to one of them, and the others make room
            lows[between] = highs[between] = bound
            if math.fsum(lows) <= k <= math.fsum(highs):
                p = _share_out(arms, k, lows, highs)[0]
                best, least = min((best, least), (p, gap(p)), key=lambda pair: pair[1])
    return best, price, least


def _share_out(
    arms: _LongRun, k: int, low: Floats, high: Floats
) -> tuple[Floats, Floats, float, int | None]:
    """The envelope's optimum: chances [n] between low and high [n] that sum to k; what the arms answer to the price [n]; the price;
    and the convex arm between its bounds, if there is one.

    At price m an arm answers with the p that maximises envelope(p) - m p. Every answer falls as m rises, to the last bit, so
    bisection over the floats finds the two neighbouring prices between which the sum passes k; the answers to both are mixed.
    """
    chord = arms.slope(low, high)  # [n]
    (curved,) = np.nonzero(arms.bend > 0)
    gain, (B0, B1), bottom, top = arms.gain[curved], arms.B[:, curved], low[curved], high[curved]
    steep, flat = (
        arms.slope(low, low)[curved],
        arms.slope(high, high)[curved],
    )  # the derivative falls from the one to the other

    def answer(price: float) -> Floats:
        p = np.where(chord > price, high, low)
        with np.errstate(divide="ignore", over="ignore"):
            B = np.sqrt(np.abs(gain / price))  # where the derivative, gain / B^2, is the price
            inner = np.clip((B - B0) / (B1 - B0), bottom, top)
        p[curved] = np.where(price <= flat, top, np.where(price >= steep, bottom, inner))
        return p

    ends = np.concatenate([chord, steep, flat])
    cheap, dear = _neighbours(
        lambda price: bool(answer(price).sum() >= k), float(ends.min()), float(ends.max())
    )
    most, least = answer(cheap), answer(dear)  # [n] each
    # Convex arms at the margin go to the upper bound one by one; what is left over is shared among the other arms at the margin,
    # which costs nothing. Only if these cannot take it does one convex arm, and falls short of its chord.
    p = least.copy()
    places = max(0.0, k - math.fsum(least))
    (jumps,) = np.nonzero((arms.bend < 0) & (most > least))
    filled = np.cumsum(most[jumps] - least[jumps])
    whole = int(np.searchsorted(filled, places + ROUNDING, side="right"))
    p[jumps[:whole]] = most[jumps[:whole]]
    places = max(0.0, places - (filled[whole - 1] if whole else 0.0))
    margin = np.where(arms.bend < 0, 0.0, most - least)  # [n]
    room = math.fsum(margin)
    if room > 0:
        p += margin * min(1.0, places / room)
        places = max(0.0, places - room)
    between = int(jumps[whole]) if whole < len(jumps) and places > ROUNDING else None
    if between is not None:
        p[between] = min(most[between], least[between] + places)
    _settle(p, k, low, high)
    return p, least, dear, between


def _settle(p: Floats, k: int, low: Floats, high: Floats) -> None:
    """Make p sum to k: what rounding left over goes to the arm with most room for it, off the bounds if there is one."""
    for _ in range(2):  # once more for the rounding of the change itself
        off = k - math.fsum(p)
        up, down = high - p, p - low
        room = np.minimum(up, down)
        if room.max() < abs(off):
            room = up if off > 0 else down
        arm = int(np.argmax(room))
        p[arm] = min(1.0, max(0.0, p[arm] + off))


def _neighbours(enough: Callable[[float], bool], least: float, most: float) -> tuple[float, float]:
    """Neighbouring floats x < y, between just below least and just above most, with enough(x) and not enough(y).

    ``enough`` is true up to some x and false from there on. The range is halved by the order of the floats: 64 times do.
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
    size = float(np.int64(abs(place)).view(np.float64))
    return size if place >= 0 else -size
