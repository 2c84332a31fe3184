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
from ..solvers import PromisedValues, promised_bound
from .acting import FittedSoftFair
from .base import Floats, Ints, Policy
from .rules import Rule
from .setting import Budget

__all__ = [
    "STANDING_BACK",
    "FittedPromise",
    "check_promise",
    "deadline_quotas",
    "kept_chances",
    "moved_forward",
    "places_for_deadlines",
    "promised_weights",
    "raised",
]

LOOSE, ROUNDS = 1e-6, 2000  # with quotas: how near raised chances come to the floor; most steps
MARGIN = 1e-9  # by which the floor is exceeded, as a part of it, so that rounding cannot break it
STANDING_BACK = "standing back"  # the set of those who do for another of their household
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


def places_for_deadlines(n: int, k: Budget, floor: float) -> Budget:
    """Places that deadlines may take so that all other arms can have a chance of the floor.

    Parameters
    ----------
    n : int
        Arms.
    k : int or ndarray
        Arms helped at every decision, or at each.
    floor : float
        The least chance; 0 if none is promised.

    Returns
    -------
    int or ndarray
        The largest m with k - m >= floor (n - m); k without a floor.

    Examples
    --------
    Ten of 100 with a floor of 5 %: if 5 are due, the 95 others share 5 places, which is enough.

    >>> from softfair.policies.promised import places_for_deadlines
    >>> places_for_deadlines(100, 10, 0.05)
    5
    """
    if floor == 1:
        return k
    free = np.floor((np.asarray(k) - floor * n) / (1 - floor) + 1e-9).astype(np.int64)
    free = np.clip(free, 0, k)
    return int(free) if free.ndim == 0 else free


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


def moved_forward(left: Ints, house: Ints, lists: int) -> tuple[Ints, Ints]:
    """Deadlines when at most one arm of each household is helped at a decision.

    Parameters
    ----------
    left : ndarray [n]
        Decisions that each arm has left, this one included.
    house : ndarray of int [n]
        The household of each arm; -1: none.
    lists : int
        Decisions to come. Deadlines after the last bind nobody.

    Returns
    -------
    due : ndarray [n]
        e_j = min(d_j, e_{j+1} - 1) in each household, in order of d: of two with the same deadline
        one comes a decision earlier. Below 1 if somebody must come too late.
    freed : ndarray [n]
        Which deadline of the household is met if the arm is helped now: those who had to come
        earlier because of it take the later places.

    Examples
    --------
    Two of a household have 5 decisions left, a third has 2.

    >>> import numpy as np
    >>> from softfair.policies.promised import moved_forward
    >>> moved_forward(np.array([5, 2, 5, 5]), np.array([0, 0, 0, -1]), 9)
    (array([4, 2, 5, 5]), array([4, 2, 4, 5]))
    """
    n = len(left)
    d = np.where(left > lists, lists + n + 1, left)
    home = np.where(house < 0, n + np.arange(n) + house.max(initial=0), house)
    order = np.lexsort((d, home))
    first = np.r_[True, np.diff(home[order]) > 0][:n]
    place = np.arange(n)
    # e_j - j is the smallest d_i - i of the household from j on; households are kept apart by steps
    # larger than any difference.
    step = int(np.ptp(d - place)) + 2 * n + 2 if n else 0
    number = np.cumsum(first)
    slack = (d[order] - place + step * number)[::-1]
    e = np.minimum.accumulate(slack)[::-1] + place - step * number
    # An arm frees the earliest deadline of those that were moved forward, one by one, for its own.
    alone = first | np.r_[True, (e == d[order])[:-1]][:n]
    start = np.maximum.accumulate(np.where(alone, place, 0))
    due, freed = np.empty(n, np.int64), np.empty(n, np.int64)
    due[order], freed[order] = e, e[start]
    return due, freed


def deadline_quotas(
    left: Ints, k: Budget, away: Ints | None = None, house: Ints | None = None
) -> tuple[NDArray[np.bool_], list[Quota]]:
    """Who must be helped now, and what else keeps the promise possible.

    Parameters
    ----------
    left : ndarray [n]
        Decisions that each arm has left, this one included; below 1 counts as 1.
    k : int or ndarray
        Arms helped at each decision; or at this one, the next and so on to the last.
    away : ndarray, optional
        Decisions left for arms that cannot be helped now, and whose time stands still until they
        can. They may come back at any decision, so that places for them are kept.
    house : ndarray of int, optional
        The household of each arm, those away last; -1: none. At most one arm of a household is
        helped at a decision.

    Returns
    -------
    now : ndarray [n] of bool
        Arms that are helped whatever the others do, at most k.
    quotas : list of Quota
        Bounds on the numbers of other arms, numbered as they stand.

    Notes
    -----
    If the promise is already broken, by a memory that this policy did not write, as many of those
    who are late are helped as there are places.

    With households deadlines are those of :func:`moved_forward`, and a decision counts with no more
    places than any after it. A list then keeps the promise possible if and only if, for every d, at
    least need(d) of its arms free a deadline of at most d. Households whose arms free deadlines on
    both sides of a d that binds would make the law of the draw that of a count for every d. So the
    others of such a household stand back: only those take part who free the most pressing of its
    deadlines, as far as they bind. The list with the earliest deadlines keeps this.

    Examples
    --------
    Arms 0 and 1 have one and two decisions left. With one place a decision nothing is left open.

    >>> import numpy as np
    >>> from softfair.policies.promised import deadline_quotas
    >>> now, more = deadline_quotas(np.array([1, 2, 9]), 1)
    >>> now.tolist(), more
    ([True, False, False], [])

    If both have two decisions left, one of them must be helped now, because the next decision has
    one place:

    >>> deadline_quotas(np.array([2, 2, 9]), 1)[1][0].arms.tolist()
    [0, 1]

    Two of one household with two decisions left: one of them must be helped now.

    >>> together = deadline_quotas(np.array([2, 2, 9]), 2, house=np.array([0, 0, -1]))[1]
    >>> [(one.name, one.least, one.most) for one in together]
    [('due within 1', 1, None), ('', 0, 1)]
    """
    absent = np.empty(0, np.int64) if away is None else away
    m, n = len(left), len(left) + len(absent)
    if isinstance(k, int):
        places, coming = k, np.full(-(-n // k) if k else 1, k)
    else:
        places, coming = int(k[0]), np.asarray(k)
        if house is not None:
            coming = np.minimum.accumulate(coming[::-1])[::-1]
    # Of those away, a person who has d left now will have d left at the next decision too.
    due = freed = np.concatenate([np.maximum(left, 1), np.maximum(absent, 1) + 1])
    if house is not None:
        last = int(due.max(initial=0)) if isinstance(k, int) else len(coming)
        due, freed = moved_forward(due, house, last)
    later = np.cumsum(coming) - coming[0]  # places after this decision
    reach = max(1, int(np.searchsorted(later, n)))  # beyond it, all can be helped later
    later = later[:reach]
    due = np.clip(due, 1, reach + 1)
    freed = np.clip(freed[:m], 1, reach + 1)
    size = _within(_earliest(freed, house), reach)
    need = np.minimum(_within(due, reach) - later, np.minimum(places, size))
    return _asked(need, freed, house, int(size[0]) if size[0] <= places else 0)


def _within(deadlines: Ints, reach: int) -> Ints:
    """How many deadlines are within 1, 2, ..., reach."""
    counts = np.bincount(deadlines, minlength=reach + 2)
    return np.asarray(np.cumsum(counts)[1 : reach + 1], np.int64)


def _earliest(freed: Ints, house: Ints | None) -> Ints:
    """The deadlines [n], of each household the earliest alone."""
    if house is None:
        return freed
    home = house[: len(freed)]
    order = np.lexsort((freed, home))
    repeated = (np.diff(home[order], prepend=-2) == 0) & (home[order] >= 0)
    earliest: Ints = freed[order][~repeated]
    return earliest


def _asked(
    need: Ints, freed: Ints, house: Ints | None, sure: int
) -> tuple[NDArray[np.bool_], list[Quota]]:
    """What `deadline_quotas` returns.

    At least need[d - 1] arms free a deadline of at most d. ``sure`` of them free one of this
    decision, each of another household, and all of these households are helped.
    """
    m = len(freed)
    home = np.full(m, -1) if house is None else house[:m]
    first, wanted = freed == 1, need > sure
    wanted[0] = sure > 0 or wanted[0]
    # What binds most of what each arm frees, counted from 0; of a household the most pressing takes
    # part.
    rank = np.searchsorted(np.flatnonzero(wanted) + 1, freed)
    press = np.full(int(home.max(initial=-1)) + 2, m)
    np.minimum.at(press, home, rank)
    out = (home >= 0) & (rank > press[home])
    many = np.bincount(home[~out] + 1, minlength=len(press))  # of each household who take part
    now = first & bool(sure) & ((home < 0) | (many[home + 1] == 1))
    others, held = np.flatnonzero(~now), int(now.sum())
    more = [
        Quota(
            np.flatnonzero((freed <= d + 1)[others] & ~out[others]),
            least,
            name=f"due within {d + 1}",
        )
        for d in np.flatnonzero(wanted)
        if (least := max(int(need[d]), sure if d == 0 else 0) - held) > 0
    ]
    if out.any():
        more.append(Quota(np.flatnonzero(out[others]), most=0, name=STANDING_BACK))
    shared = np.flatnonzero((many[home + 1] > 1)[others] & (home >= 0)[others] & ~out[others])
    shared = shared[np.argsort(home[others][shared], kind="stable")]
    parts = np.split(shared, np.flatnonzero(np.diff(home[others][shared])) + 1)
    return now, more + [Quota(part, most=1) for part in parts if len(part)]


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
    >>> from softfair.policies.promised import deadline_quotas, kept_chances
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
    values : PromisedValues
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
        values: PromisedValues,
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
        now, more = deadline_quotas(self._left(memory), self._coming(t))
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

    def _coming(self, t: int) -> Budget:
        """The arms that deadlines may take at every decision, or at t and each after it."""
        k = self.k if isinstance(self.k, int) else self.k[t:]
        return places_for_deadlines(self.cohort.n, k, self._promise.floor)

    def _draw(self, t: int, scores: Floats, left: Ints, rng: np.random.Generator) -> Ints:
        now, more = deadline_quotas(left, self._coming(t))
        others, sure = np.flatnonzero(~now), np.flatnonzero(now)
        if not len(others):
            return sure
        places = self.places(t) - len(sure)
        z = promised_weights(scores[others], self.rule.c, places, self._promise.floor, more)
        arms = quotas.draw(z, places, more, rng)
        return np.sort(np.concatenate([sure, others[arms]]))
