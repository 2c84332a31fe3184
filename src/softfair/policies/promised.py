"""SoftFair with a promise: a longest wait, a least chance, or both, kept for certain.

The longest wait W
    Every arm must be helped within its next d decisions, this one included. Let A(d) be the arms
    with at most d decisions left. The promise can be kept for ever if and only if |A(d)| <= k d for
    every d, because d decisions bring k d helps and helping the earliest deadlines first uses them
    all (:mod:`softfair.policies.fawt` has the proof). The condition holds after this decision if
    and only if at least need(d) = |A(d)| - k (d - 1) arms of A(d) are helped now. If k changes with
    time, d decisions bring the sum of their k, any W consecutive decisions must bring n helps, and
    deadlines after the last decision bind nobody. The sets A(d) are nested, so
    :mod:`softfair.quotas` draws by the softmax over all sets of k arms with which the promise can
    still be kept, with exact chances. An arm with one decision left is helped with chance 1.

    In which sense the draw is fair: of two sets of arms that both leave the promise possible, none
    is favoured over one with a larger sum of gains. Let arm i have at least the gain of arm j, and
    no more time left. Then the chance of i is at least that of j, because i can replace j in any
    set that keeps the promise.

The least chance f
    Gains below a level are raised to the level, and arms are drawn by the joint design from the
    raised gains. The level is chosen so that the least chance is f. Of all laws of a draw of k arms
    in which every arm has a chance of at least f, this one has the greatest expected gain plus
    entropy over c: its weights are exp(c (gain + nu_i)), where nu_i > 0 only for arms at the floor,
    and arms with the same chance have the same weight.

    In which sense the draw is fair: no arm has a lower chance than an arm with a smaller gain.

Both
    Suppose m arms are helped because of deadlines. The k - m other places can give each of the
    n - m other arms a chance of at least f if and only if k - m >= f (n - m), that is, if m <= k',
    the whole part of (k - f n) / (1 - f). The promise of W is therefore kept with only k' places a
    decision: both promises can be kept for ever if n <= k' W. The draw is still of k arms, within
    the same nested sets, and the weight of each arm whose chance would be below f is raised until
    its chance is f.
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

LOOSE = 1e-6  # with quotas: relative distance between raised chances and the floor
ROUNDS = 2000  # with quotas: most steps that raise chances
MARGIN = 1e-9  # relative excess of chances over the floor, so that rounding cannot break the floor
DECIDED = 1e3  # a difference of log-weights at which the chance of the lower arm is nil
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
        n > k W, or W consecutive decisions have fewer than n helps, or n floor > k. If a wait and a
        least chance are promised, the first two conditions are about the places of
        :func:`places_for_deadlines` instead of k.
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
    if n * floor > fewest * (1 + 1e-12):  # 1e-12: the rounding of floor=k/n is allowed
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
    """Log-weights with which no chance in the joint design is below the floor.

    Parameters
    ----------
    log_weights : ndarray [n]
        Finite log-weights.
    k : int
        Arms drawn, n floor <= k.
    floor : float
        The least chance.
    more : sequence of Quota
        Further bounds that the draw keeps.

    Returns
    -------
    ndarray [n]
        max(log-weight, level), where the level is the lowest at which the floor holds. With quotas
        there is a level for each arm, at which the arm's chance is the floor.

    Raises
    ------
    Infeasible
        No law that keeps the quotas gives every arm that chance.

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
    if excess(low) < 0:  # at the highest level all chances are k / n, the largest possible floor
        level = high if excess(high) <= 0 else brentq(excess, low, high, xtol=1e-12)
    up = np.maximum(log_weights, level)
    return _raised_within(log_weights, up, k, floor, more) if more else up


def _raised_within(
    log_weights: Floats, up: Floats, k: int, floor: float, more: Sequence[Quota]
) -> Floats:
    """As `raised` with quotas, from log-weights ``up`` that are nearly high enough.

    Each step changes the log-weights of all arms that are raised or whose chance is too low. Each
    of them changes by the difference between the log-odds of the floor and of the arm's chance. The
    dual of the best law that keeps the quotas and the floor is concave, and an arm's chance depends
    mostly on its own log-weight.
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
    """The chance of every arm to be among the k drawn, in the law that keeps the promise.

    Parameters
    ----------
    scores, c, k, floor
        See :func:`promised_weights`.
    now, more
        See :func:`deadline_quotas`.

    Returns
    -------
    ndarray [n]
        Chances that sum to k; 1 for the arms in ``now``.

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
    if math.isinf(multiplier(c)):  # tiny chances are 0; they arise because DECIDED is finite
        chance[chance < 1e-200] = 0.0
    return chance


class FittedPromise(FittedSoftFair):
    """SoftFair with a promise, ready to act.

    With a longest wait, the memory [runs, n] holds the number of decisions that each arm has left.
    Scores are the gains lambda_t(d, s). The score of an arm that must be helped now is 0 and has no
    effect.

    Parameters
    ----------
    policy : Policy
        The policy that was fitted.
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
        """No policy that keeps the same promise can expect more reward than this."""
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
        """Decisions left for each arm [n]; n + 1 everywhere if no wait is promised."""
        if self._promise.W == 0:
            return np.full(self.cohort.n, self.cohort.n + 1)
        known = self.memory() if memory is None else memory
        left: Ints = known[0]
        return left

    def _must(self, t: int, left: Ints) -> tuple[NDArray[np.bool_], list[Quota]]:
        """The arms that must be helped at decision t, and the quotas of the draw of the others."""
        k = self.k if isinstance(self.k, int) else self.k[t:]
        return deadline_quotas(left, places_for_deadlines(self.cohort.n, k, self._promise.floor))

    def _draw(self, t: int, scores: Floats, left: Ints, rng: np.random.Generator) -> Ints:
        """The arms that must be helped, and a draw of the others."""
        now, more = self._must(t, left)
        others, sure = np.flatnonzero(~now), np.flatnonzero(now)
        if not len(others):
            return sure
        places = self.places(t) - len(sure)
        z = promised_weights(scores[others], self.rule.c, places, self._promise.floor, more)
        arms = quotas.draw(z, places, more, rng)
        return np.sort(np.concatenate([sure, others[arms]]))
