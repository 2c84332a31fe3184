"""From counts, rewards and probabilities to figures: how much good was done, and how evenly.

``counts [..., n]`` is the number of times that each arm was selected. The last axis is always the
arms: a single run [n] gives one number, many runs [runs, n] give an array [runs].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, real_numbers, refuse

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "action_entropy",
    "gini",
    "group_rates",
    "intervention_benefit",
    "longest_wait",
    "never_selected",
    "unfair_pairs",
    "unfair_share",
]

Floats = NDArray[np.float64]
# A number for an input [n], an array [...] for an input [..., n]. Types cannot tell the two apart.
Figure = Any


def action_entropy(counts: ArrayLike) -> Figure:
    """Entropy of the shares of selections: the larger, the more evenly help is spread.

    Parameters
    ----------
    counts : array_like, [..., n]
        Selections of each arm.

    Returns
    -------
    float or ndarray, [...]
        log n if all arms are selected equally often; 0 if one arm gets all selections, or if no arm
        is selected.

    Raises
    ------
    InvalidInput
        If a count is negative or not finite, or there is no arm.

    Notes
    -----
    The entropy is -sum_i P(i) log P(i), where P(i) is the arm's share of all selections. The paper
    divides counts by ``k n``. This is a slip for ``k T``, the number of selections: only with
    ``k T`` do the shares sum to 1, and only then is Table 2 of the paper possible (Random has 4.56
    at n = 100, where log n = 4.605).

    Examples
    --------
    >>> import softfair as sf
    >>> float(sf.metrics.action_entropy([2, 2, 0, 0]).round(6))
    0.693147
    """
    share = _shares(_per_arm("counts", counts))
    entropy = -(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=-1)
    return entropy + 0.0  # turns -0 into 0


def intervention_benefit(reward: ArrayLike, none: ArrayLike, oracle: ArrayLike) -> Figure:
    """Benefit of a policy in percent: 0 is doing nothing, 100 is the Oracle.

    Parameters
    ----------
    reward : array_like
        Reward of the policy. The three arrays are broadcast against each other.
    none : array_like
        Reward without intervention.
    oracle : array_like
        Reward of the Oracle.

    Returns
    -------
    float or ndarray
        100 (reward - none) / (oracle - none), or nan where oracle equals none.

    Raises
    ------
    InvalidInput
        If an argument is not an array of numbers.

    Examples
    --------
    >>> import softfair as sf
    >>> float(sf.metrics.intervention_benefit(reward=75.0, none=50.0, oracle=100.0))
    50.0
    """
    of_policy, of_none, of_oracle = (
        _numbers(*pair) for pair in (("reward", reward), ("none", none), ("oracle", oracle))
    )
    oracle_gain = np.asarray(of_oracle - of_none)
    return 100 * (of_policy - of_none) / np.where(oracle_gain == 0, np.nan, oracle_gain)


def never_selected(counts: ArrayLike) -> Figure:
    """Share of arms that were never selected.

    Parameters
    ----------
    counts : array_like, [..., n]
        Selections of each arm.

    Returns
    -------
    float or ndarray, [...]
        Between 0 and 1.

    Raises
    ------
    InvalidInput
        If a count is negative or not finite, or there is no arm.

    Examples
    --------
    >>> import softfair as sf
    >>> float(sf.metrics.never_selected([0, 3, 1, 0]))
    0.5
    """
    return (_per_arm("counts", counts) == 0).mean(axis=-1)


def gini(counts: ArrayLike) -> Figure:
    """Gini coefficient of the selections: 0 if all arms are selected equally often.

    Parameters
    ----------
    counts : array_like, [..., n]
        Selections of each arm.

    Returns
    -------
    float or ndarray, [...]
        At least 0 and below 1; 0 also if no arm is selected.

    Raises
    ------
    InvalidInput
        If a count is negative or not finite, or there is no arm.

    Notes
    -----
    The coefficient is ``sum_ij |x_i - x_j| / (2 n sum_i x_i)``. In the double sum x_i has twice the
    weight (number of counts below it) - (number of counts above it), so that sorting is enough.

    Examples
    --------
    >>> import softfair as sf
    >>> float(sf.metrics.gini([0, 0, 0, 8]))
    0.75
    """
    ordered = np.sort(_per_arm("counts", counts), axis=-1)
    n = ordered.shape[-1]
    rank_weight = 2.0 * np.arange(1, n + 1) - n - 1  # [n]: number of counts below, less those above
    coefficient = (rank_weight * _shares(ordered)).sum(axis=-1) / n
    return np.maximum(coefficient, 0.0)  # because rounding can make it negative


def longest_wait(waits: ArrayLike) -> Figure:
    """The longest wait of any arm.

    Parameters
    ----------
    waits : array_like, [..., n]
        Longest wait of each arm.

    Returns
    -------
    float or ndarray, [...]
        The largest wait.

    Raises
    ------
    InvalidInput
        If a wait is negative or not finite, or there is no arm.

    Examples
    --------
    >>> import softfair as sf
    >>> float(sf.metrics.longest_wait([3, 9, 1]))
    9.0
    """
    return _per_arm("waits", waits).max(axis=-1)


def group_rates(
    counts: ArrayLike, groups: Sequence[Any] | NDArray[Any] | None, rounds: int
) -> pd.DataFrame:
    """Selections of each group of arms.

    Parameters
    ----------
    counts : array_like, [n] or [runs, n]
        Selections of each arm.
    groups : sequence, [n]
        Label of each arm, such as ``cohort.groups``. Arms without a label form a group, too.
    rounds : int
        Number of decisions that the counts are about.

    Returns
    -------
    pandas.DataFrame
        One row for each group, in order of label. ``arms`` is the size of the group, ``rate`` its
        selections per arm and round, ``share`` its part of all selections, ``never_selected`` the
        share of its arms without a selection, and ``relative_rate`` its rate over the rate of all
        arms. Each is a mean over runs; ``..._sd`` is the standard deviation over runs (of a sample;
        nan for a single run). If no arm is selected, ``share`` and ``relative_rate`` are nan.

    Raises
    ------
    InvalidInput
        If counts, groups or rounds have the wrong shape or range.

    Examples
    --------
    >>> import softfair as sf
    >>> table = sf.metrics.group_rates([6, 1, 1], groups=["a", "b", "b"], rounds=10)
    >>> table["rate"].to_dict()
    {'a': 0.6, 'b': 0.1}
    """
    import pandas as pd  # here, because no other function of this module needs it

    runs, labels = _runs_and_labels(counts, groups)  # [runs, n], [n]
    if not rounds > 0:
        raise InvalidInput(f"rounds is {rounds}; give the number of decisions, at least 1")
    code, names = pd.factorize(labels, sort=True, use_na_sentinel=False)
    order = np.argsort(code, kind="stable")
    arms = np.bincount(code)  # [groups]
    begin = np.concatenate([[0], np.cumsum(arms)[:-1]])  # the first arm of each group in that order

    def per_group(values: NDArray[Any]) -> Floats:  # [runs, n] -> [runs, groups]
        return np.add.reduceat(values[:, order], begin, axis=1)

    selections = per_group(runs)
    total = selections.sum(axis=1, keepdims=True)  # [runs, 1]
    total = np.where(total == 0, np.nan, total)
    figures = {
        "rate": selections / (arms * rounds),
        "share": selections / total,
        "never_selected": per_group((runs == 0).astype(np.float64)) / arms,
        "relative_rate": (selections / arms) / (total / runs.shape[1]),
    }
    columns: dict[str, NDArray[Any]] = {"arms": arms}
    for name, values in figures.items():
        columns[name] = values.mean(axis=0)
        columns[f"{name}_sd"] = (
            values.std(axis=0, ddof=1) if len(values) > 1 else np.full(len(arms), np.nan)
        )
    return pd.DataFrame(columns, index=pd.Index(names, name="group"))


def unfair_pairs(inclusion: ArrayLike, gains: ArrayLike, tolerance: float = 1e-12) -> Figure:
    """Number of pairs in which an arm is favoured over an arm that would gain more.

    These are the violations of soft fairness, arm by arm.

    Parameters
    ----------
    inclusion : array_like, [..., n]
        Probability that each arm is selected.
    gains : array_like, [..., n]
        The gain of each arm from being selected. Runs are broadcast.
    tolerance : float
        Differences up to this share of the largest magnitude, of inclusion or of gains, count as
        rounding.

    Returns
    -------
    int or ndarray of int64, [...]
        Number of pairs (i, j) with ``gains_i < gains_j`` and ``inclusion_i > inclusion_j``, each by
        more than the tolerance. Ties are fair.

    Raises
    ------
    InvalidInput
        ``inclusion`` and ``gains`` are about different arms or runs, an entry is not finite, or the
        tolerance is negative.

    Notes
    -----
    The time is O(n log n) a run.

    Examples
    --------
    Arm 0 is favoured over arm 1 and over arm 2:

    >>> import softfair as sf
    >>> int(sf.metrics.unfair_pairs(inclusion=[0.9, 0.1, 0.5], gains=[1.0, 2.0, 3.0]))
    2
    """
    chance, gain = _pairs_of("inclusion", inclusion, "gains", gains, tolerance)
    pairs = np.empty(chance.shape[:-1], dtype=np.int64)
    for run in np.ndindex(pairs.shape):
        pairs[run] = _count_unfair(chance[run], gain[run], tolerance)
    return pairs[()]  # a number if there is a single run


def unfair_share(inclusion: ArrayLike, gains: ArrayLike, tolerance: float = 1e-12) -> Figure:
    """:func:`unfair_pairs` as a share of all n (n - 1) / 2 pairs.

    Parameters
    ----------
    inclusion, gains, tolerance
        As for :func:`unfair_pairs`.

    Returns
    -------
    float or ndarray, [...]
        Between 0 and 1; 0 for a single arm.

    Raises
    ------
    InvalidInput
        As :func:`unfair_pairs` raises it.

    Examples
    --------
    >>> import softfair as sf
    >>> float(sf.metrics.unfair_share(inclusion=[0.9, 0.1], gains=[1.0, 2.0]))
    1.0
    """
    pairs = unfair_pairs(inclusion, gains, tolerance)
    n = np.broadcast_shapes(np.shape(inclusion), np.shape(gains))[-1]
    return pairs / max(n * (n - 1) // 2, 1)


def _count_unfair(chance: Floats, gain: Floats, tolerance: float) -> int:
    """Number of pairs with gain_i < gain_j - slack and chance_i > chance_j + slack.

    For each j, the arms i with a smaller gain are a prefix of the arms in order of gain, of length
    ``upto``. The arms i with a larger chance are the arms whose rank by chance is at least
    ``bound``. So for each j we count the ranks >= bound among the first ``upto``. A wavelet matrix
    does this for all j together: ranks are split by their highest bit in a stable way, then by the
    next bit, and so on; the prefix of each j is followed along the bits of its bound.
    """
    n = len(gain)
    by_gain = np.argsort(gain, kind="stable")
    by_chance = np.argsort(chance, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[by_chance] = np.arange(n)
    values = rank[by_gain]  # [n] ranks of chance in order of gain
    slack = tolerance * np.abs(gain).max()
    upto = np.searchsorted(gain[by_gain], gain - slack, side="left")  # [n]
    slack = tolerance * np.abs(chance).max()
    bound = np.searchsorted(chance[by_chance], chance + slack, side="right")  # [n], up to n
    pairs = 0
    begin = np.zeros(n, dtype=np.int64)  # the prefix of each j now stands in [begin, end)
    end = upto
    for bit in reversed(range(n.bit_length())):
        ones = (values >> bit & 1).astype(bool)
        ones_before = np.concatenate([[0], np.cumsum(ones)])  # [n + 1]
        zeros = n - int(ones_before[-1])
        begin_ones, end_ones = ones_before[begin], ones_before[end]
        bound_has_bit = (bound >> bit & 1).astype(bool)
        # If the bound lacks this bit, every value with the bit is larger and counts, and the search
        # continues among the other values. If the bound has the bit, it continues among the values
        # with the bit.
        pairs += int((end_ones - begin_ones)[~bound_has_bit].sum())
        begin = np.where(bound_has_bit, zeros + begin_ones, begin - begin_ones)
        end = np.where(bound_has_bit, zeros + end_ones, end - end_ones)
        values = np.concatenate([values[~ones], values[ones]])
    return pairs + int((end - begin).sum())  # the values left are equal to the bound


def _runs_and_labels(
    counts: ArrayLike, groups: Sequence[Any] | NDArray[Any] | None
) -> tuple[Floats, NDArray[Any]]:
    """Counts [runs, n] and the label of each arm [n]."""
    runs = _per_arm("counts", counts)
    if runs.ndim > 2:
        raise InvalidInput(f"counts has shape {runs.shape}, expected (n,) or (runs, n)")
    n = runs.shape[-1]
    if groups is None:
        raise InvalidInput("groups is None; give one label an arm, to the cohort or here")
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InvalidInput(
            f"groups has shape {labels.shape}, counts is about {n} arms; give one label an arm"
        )
    return np.atleast_2d(runs), labels


def _numbers(name: str, values: ArrayLike) -> Floats:
    """The values as an array of floats."""
    try:
        return real_numbers(values)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{name} is not an array of numbers; give numbers in one rectangular shape"
        ) from None


def _finite_per_arm(name: str, values: ArrayLike) -> Floats:
    """The values as an array [..., n], n >= 1, of finite numbers."""
    checked = _numbers(name, values)
    if checked.ndim < 1 or checked.shape[-1] < 1:
        raise InvalidInput(
            f"{name} has shape {checked.shape}, expected (..., n) with n >= 1: one number an arm"
        )
    refuse(~np.isfinite(checked), checked, name, "give finite numbers")
    return checked


def _per_arm(name: str, values: ArrayLike) -> Floats:
    """The values as an array [..., n], n >= 1, of finite numbers of at least 0."""
    checked = _finite_per_arm(name, values)
    refuse(checked < 0, checked, name, "give numbers of at least 0")
    return checked


def _pairs_of(
    first: str, a: ArrayLike, second: str, b: ArrayLike, tolerance: float
) -> tuple[Floats, Floats]:
    """The two arrays [..., n], broadcast against each other over runs."""
    x, y = _finite_per_arm(first, a), _finite_per_arm(second, b)
    if x.shape[-1] != y.shape[-1]:
        raise InvalidInput(
            f"{first} is about {x.shape[-1]} arms, {second} about {y.shape[-1]}; give the same arms"
        )
    if not tolerance >= 0:
        raise InvalidInput(f"tolerance is {tolerance}; give a number of at least 0")
    try:
        x, y = np.broadcast_arrays(x, y)
    except ValueError:
        raise InvalidInput(
            f"{first} has shape {x.shape}, {second} {y.shape}; give as many runs of each"
        ) from None
    return x, y


def _shares(counts: Floats) -> Floats:
    """Each arm's share of the total [..., n]; zeros where the total is zero."""
    total = counts.sum(axis=-1, keepdims=True)
    share: Floats = counts / np.where(total > 0, total, 1.0)
    return share
