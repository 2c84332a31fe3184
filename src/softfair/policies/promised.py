"""SoftFair with a promise: a longest wait, a least chance, or both, kept for certain.

The longest wait W
    Every arm has d decisions left, this one included, in which it must be helped. Let A(d) be the
    arms with at most d left. The promise can be kept for ever if and only if |A(d)| <= k d for
    every d, because d decisions bring k d helps and the earliest deadline first uses them all
    (:mod:`softfair.policies.fawt` has the proof). That holds after this decision if and only if at
    least need(d) = |A(d)| - k (d - 1) arms of A(d) are helped now. Where k changes with time, d
    decisions bring the sum of their k, it takes n helps in any W consecutive decisions, and
    deadlines after the last decision bind nobody. The sets A(d) are nested, so
    :mod:`softfair.quotas` draws by the softmax over all sets of k arms with which the promise can
    still be kept, with exact chances. Whoever has one decision left is helped with chance 1.

    In which sense it is fair: of two sets of arms after which the promise can be kept, none is
    favoured over one with a larger sum of gains. An arm with at least the gain of another and no
    more time left has at least its chance (in a set that keeps the promise the one can take the
    place of the other).

The least chance f
    Gains below a level are raised to it, and arms are drawn by the joint design from the gains so
    raised. The level is the one at which the least chance is f. Of all laws of a draw of k arms in
    which every arm has a chance of at least f, this is the one with the greatest expected gain plus
    entropy over c: its weights are exp(c (gain + nu_i)) with nu_i > 0 for arms at the floor alone,
    and arms with the same chance have the same weight.

    In which sense it is fair: no arm has a lower chance than an arm with a smaller gain.

Both
    If m arms are helped because of deadlines, the k - m other places leave each of the n - m other
    arms a chance of at least f if and only if k - m >= f (n - m), so if m <= k', the whole part of
    (k - f n) / (1 - f). The promise of W is therefore kept with k' places a decision, as if there
    were no more: both can be kept for ever if n <= k' W. Draws are of k arms all the same, within
    the same nested sets, and the weight of each arm whose chance would be below f is raised until
    it is f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import quotas
from ..cohort import Cohort
from ..errors import Infeasible, InvalidInput
from ..quotas import Quota
from ..sampling import inclusion, multiplier
from ..solvers import PromisedValues, SharedValues, promised_bound
from .acting import FittedSoftFair
from .base import Floats, Ints, Policy
from .deadlines import deadline_quotas, places_for_deadlines
from .rules import Rule
from .setting import Budget

__all__ = [
    "FittedPromise",
    "check_promise",
    "kept_chances",
    "promised_weights",
    "raised",
]

LOOSE, ROUNDS = 1e-6, 2000  # with quotas: how near raised chances come to the floor; most steps
MARGIN = 1e-9  # by which the floor is exceeded, as a part of it, so that rounding cannot break it
DECIDED = 1e3  # log-weights that differ by as much leave nothing to chance
PRECISE = 1e5  # a range of log-weights whose rounding is below 1e-10


def check_promise(n: int, k: Budget, W: int, floor: float) -> None:
    """Refuse a promise that cannot be kept.

    Parameters
    ----------
    n : int
        Arms.
    k : int or ndarray [T]
        Arms helped at every decision, or at each.
    W : int
        The longest wait; 0 if none is promised.
    floor : float
        The least chance; 0 if none is promised.

    Raises
    ------
    Infeasible
        n > k W, or W consecutive decisions have fewer than n helps, or n floor > k. If both are
        promised, k is that of :func:`places_for_deadlines` in the first two.
    InvalidInput
        A wait is promised, and there are decisions without help.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.policies.promised import check_promise
    >>> try:
    ...     check_promise(100, 10, 9, 0.0)
    ... except sf.Infeasible as error:
    ...     print(str(error).split(";")[0])
    a wait of at most 9 for each of 100 arms needs n <= k max_wait, but 100 > 90
    """
    fewest = int(np.min(k))  # the floor holds at every decision
    if n * floor > fewest * (1 + 1e-12):  # 1e-12: floor=k/n is not refused for its rounding
        raise Infeasible(
            f"chances sum to k, so n floor <= k, but {n} * {floor:g} > {fewest}; "
            f"take floor={fewest / n:g} or less, or k={math.ceil(n * floor)} or more"
        )
    k = places_for_deadlines(n, k, floor)
    besides = f" beside a floor of {floor:g}" * bool(floor)
    if not isinstance(k, int):
        _check_promise_by_decision(n, np.asarray(k), W, besides)
    elif W and n > k * W:
        longer = f", or max_wait={-(-n // k)} or more" if k else ""
        raise Infeasible(
            f"a wait of at most {W} for each of {n} arms{besides} needs n <= k max_wait, "
            f"but {n} > {k * W}; take k={-(-n // W)} or more{longer}"
            if not floor
            else f"a wait of at most {W} for each of {n} arms{besides} leaves {k} places a "
            f"decision for deadlines, but {n} > {k * W}; take a smaller floor, a larger k{longer}"
        )


def _check_promise_by_decision(n: int, k: Ints, W: int, besides: str) -> None:
    """Refuse a longest wait that cannot be kept with k [T] arms helped."""
    if not W:
        return
    if (k == 0).any():
        raise InvalidInput(
            f"max_wait is {W}, but nobody is helped at {np.count_nonzero(k == 0)} of {len(k)} "
            "decisions, the first at decision "
            f"{int(np.argmin(k))}; give k >= 1 throughout, or take EvenHanded with wait"
        )
    helps = np.convolve(k, np.ones(W, np.int64), "valid") if len(k) >= W else np.array([n])
    if helps.min() < n:
        raise Infeasible(
            f"a wait of at most {W} for each of {n} arms{besides} needs {n} helps in any {W} "
            "consecutive "
            f"decisions, but there are {helps.min()} from decision {int(np.argmin(helps))} on; "
            "take a larger max_wait, or a larger k there"
        )


def raised(log_weights: Floats, k: int, floor: float, more: Sequence[Quota] = ()) -> Floats:
    """Log-weights with which nobody's chance in the joint design is below the floor.

    Parameters
    ----------
    log_weights : ndarray [n]
        Finite log-weights.
    k : int
        Arms drawn, n floor <= k.
    floor : float
        The least chance.
    more : sequence of Quota
        What else the draw keeps.

    Returns
    -------
    ndarray [n]
        max(log-weight, level); the level is the lowest at which the floor holds. Beside quotas
        every arm has a level of its own, at which its chance is the floor.

    Raises
    ------
    Infeasible
        No law that keeps the quotas gives everybody that chance.

    Examples
    --------
    >>> import numpy as np
    >>> import softfair as sf
    >>> from softfair.policies.promised import raised
    >>> z = raised(np.array([0.0, 1.0, 5.0]), 1, 0.1)
    >>> sf.sampling.inclusion(z, 1, "joint").round(6)
    array([0.1, 0.1, 0.8])
    """
    from scipy.optimize import brentq

    aim = floor * (1 + MARGIN)

    def excess(level: float) -> float:
        up = np.maximum(log_weights, level)
        return float(inclusion(up, k, "joint")[np.argmin(up)]) - aim

    low, high = float(log_weights.min()), float(log_weights.max())
    level = low
    if excess(low) < 0:  # at the highest level all are alike: k / n is the most
        level = high if excess(high) <= 0 else brentq(excess, low, high, xtol=1e-12)
    up = np.maximum(log_weights, level)
    return _raised_within(log_weights, up, k, floor, more) if more else up


def _raised_within(
    log_weights: Floats, up: Floats, k: int, floor: float, more: Sequence[Quota]
) -> Floats:
    """As `raised` beside quotas, from log-weights ``up`` that are nearly high enough.

    Each step moves all arms that are raised, or whose chance is too low, at once: the log-weight of
    each changes by what its log-odds lack. The dual of the best law that keeps everything is
    concave, and each arm's chance depends most on its own log-weight.
    """
    aim = floor * (1 + LOOSE)
    for _ in range(ROUNDS):
        chance = np.clip(quotas.inclusion(up, k, more), 1e-300, 1 - 1e-16)
        low, lifted = chance < aim, up > log_weights
        if chance.min() >= floor * (1 + MARGIN) and chance[lifted].max(initial=0) <= aim * (
            1 + LOOSE
        ):
            return up
        move = np.log(aim / (1 - aim)) - np.log(chance) + np.log1p(-chance)
        up = np.where(low | lifted, np.maximum(log_weights, up + move), up)
    if chance.min() >= floor * (1 + MARGIN):
        return up
    raise Infeasible(
        f"nobody's chance can be {floor:g} or more beside the other promises: somebody's would be "
        f"{chance.min():.3g}; promise a smaller chance, or less of the others"
    )


def promised_weights(
    scores: Floats, c: float, k: int, floor: float, more: Sequence[Quota] = ()
) -> Floats:
    """Log-weights of the joint design: by rank for c = inf, raised to the floor.

    Parameters
    ----------
    scores : ndarray [n]
        The gains.
    c : float
        Their multiplier.
    k : int
        Arms drawn.
    floor : float
        The least chance; 0 if none is promised.
    more : sequence of Quota
        What else the draw keeps.

    Returns
    -------
    ndarray [n]
        Finite log-weights.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.policies.promised import promised_weights
    >>> promised_weights(np.array([0.5, 0.25, 0.5]), np.inf, 1, 0.0)
    array([1000.,    0., 1000.])
    """
    c = multiplier(c)
    if math.isinf(c) or c * float(np.ptp(scores)) > PRECISE:
        # Log-weights in the order of the scores. Neighbours are at most DECIDED apart.
        ordered, place = np.unique(scores, return_inverse=True)
        steps = np.minimum(c * np.diff(ordered, prepend=ordered[:1] - 1.0), DECIDED)
        z: Floats = (np.cumsum(steps) - steps[0])[place]
    else:
        z = c * scores
    return raised(z, k, floor, more) if floor > 0 else z


def kept_chances(
    scores: Floats,
    c: float,
    k: int,
    floor: float,
    now: NDArray[np.bool_],
    more: Sequence[Quota],
) -> Floats:
    """Everybody's chance of being among the k drawn, the promise kept.

    Parameters
    ----------
    scores, c, k, floor
        See :func:`promised_weights`.
    now, more
        See :func:`deadline_quotas`.

    Returns
    -------
    ndarray [n]
        Chances that sum to k; 1 for those helped now whatever the others do.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.policies.deadlines import deadline_quotas
    >>> from softfair.policies.promised import kept_chances
    >>> must = deadline_quotas(np.array([1, 9, 9]), 2)
    >>> kept_chances(np.zeros(3), 5.0, 2, 0.0, *must)
    array([1. , 0.5, 0.5])
    """
    chance = np.ones(len(scores))
    if not now.all():
        places = k - int(now.sum())
        z = promised_weights(scores[~now], c, places, floor, more)
        chance[~now] = quotas.inclusion(z, places, more)
    if math.isinf(multiplier(c)):  # chances below e^-1000 count as 0
        chance[chance < 1e-200] = 0.0
    return chance


class FittedPromise(FittedSoftFair):
    """SoftFair with a promise, ready to act.

    With a longest wait it remembers how many decisions each arm has left, memory [runs, n]. Scores
    are the gains lambda_t(d, s); that of an arm that must be helped now is 0, and plays no part.

    Parameters
    ----------
    policy : Policy
        What was fitted.
    cohort, k, horizon, gamma
        The setting, see :meth:`softfair.Policy.fit`.
    c : float
        Multiplier of the gains when arms are drawn.
    values : PromisedValues or SharedValues
        The gains.
    """

    def __init__(
        self,
        policy: Policy,
        cohort: Cohort,
        k: Budget,
        horizon: int,
        gamma: float,
        c: float,
        values: PromisedValues | SharedValues,
    ) -> None:
        rule = Rule.softmax(c, "joint")
        super().__init__(policy, cohort, k, horizon, gamma, rule, values, values.info)
        self._promise = values
        self._columns = cohort.S * max(1, values.W)

    @cached_property
    def promised_bound(self) -> float:
        """The total reward that no policy which keeps the same promise can expect to exceed."""
        promise = self._promise
        return promised_bound(
            self.cohort, self.k, self.horizon, self.gamma, promise.W, promise.floor
        )

    def inclusion(self, t: int, states: ArrayLike, memory: Any = None) -> Floats:
        scores = self.scores(t, states, memory)
        now, more = self._must(t, self._left(memory))
        return kept_chances(scores, self.rule.c, self.places(t), self._promise.floor, now, more)

    def draw(self, t: int, states: ArrayLike, rng: np.random.Generator, memory: Any = None) -> Ints:
        return self._draw(t, self.scores(t, states, memory), self._left(memory), rng)

    def memory(self, runs: int = 1) -> Any:
        W = self._promise.W
        return np.full((runs, self.cohort.n), W) if W else None

    def scores_by_run(self, t: int, states: NDArray[Any], memory: Any) -> Floats:
        layer = 0 if memory is None else (np.clip(memory, 1, self._promise.W) - 1) * self.cohort.S
        return super().scores_by_run(t, states + layer, memory)

    def window(self, t: int, states: NDArray[Any], memory: Any) -> tuple[Floats, int]:
        return self.scores_by_run(t, states, memory)[:, None, :, None], 1

    def choose_by_run(
        self, t: int, states: NDArray[Any], memory: Any, keys: NDArray[Any]
    ) -> NDArray[np.uint8]:
        chosen = np.zeros(states.shape, np.uint8)
        scores = self.scores_by_run(t, states, memory)
        for run, key in enumerate(keys.tolist()):
            left = self._left(None if memory is None else memory[run : run + 1])
            chosen[run, self._draw(t, scores[run], left, np.random.default_rng([key, t]))] = 1
        return chosen

    def remember_by_run(
        self, memory: Any, t: int, states: NDArray[Any], helped: NDArray[np.uint8]
    ) -> Any:
        if memory is None:
            return None
        return np.where(helped != 0, self._promise.W, memory - 1)

    def _left(self, memory: Any) -> Ints:
        """Decisions left for each arm [n]; more than any deadline reaches if none is promised."""
        if self._promise.W == 0:
            return np.full(self.cohort.n, self.cohort.n + 1)
        known = self.memory() if memory is None else memory
        left: Ints = known[0]
        return left

    def _must(self, t: int, left: Ints) -> tuple[NDArray[np.bool_], list[Quota]]:
        """Who is helped at decision t whatever the others do, and what else a draw keeps."""
        k = self.k if isinstance(self.k, int) else self.k[t:]
        return deadline_quotas(left, places_for_deadlines(self.cohort.n, k, self._promise.floor))

    def _draw(self, t: int, scores: Floats, left: Ints, rng: np.random.Generator) -> Ints:
        now, more = self._must(t, left)
        others, sure = np.flatnonzero(~now), np.flatnonzero(now)
        if not len(others):
            return sure
        places = self.places(t) - len(sure)
        z = promised_weights(scores[others], self.rule.c, places, self._promise.floor, more)
        arms = quotas.draw(z, places, more, rng)
        return np.sort(np.concatenate([sure, others[arms]]))
