"""From counts, rewards and probabilities to figures: how much good was done, and how evenly help was spread.

``counts [..., n]`` says how often each arm was selected. The last axis is always the arms: a single run [n] gives one
number, many runs [runs, n] give an array [runs].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, refuse

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
Figure = Any  # a number for [n], an array [...] for [..., n]: the type depends on the shape, which typing cannot see


def action_entropy(counts: ArrayLike) -> Figure:
    """-sum_i P(i) log P(i), P(i) the arm's share of all selections; log n if all are equal, 0 if nobody is selected.

    The paper divides by ``k n``. That is a slip for ``k T``, the number of selections: only then do shares sum to 1,
    and only then is its own Table 2 possible (Random 4.56 at n = 100, where log n = 4.605).

    >>> import softfair as sf
    >>> float(sf.metrics.action_entropy([2, 2, 0, 0]).round(6))
    0.693147
    """
    share = _shares(_per_arm("counts", counts))
    return (
        -(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=-1) + 0.0
    )  # + 0.0: no entropy is 0, not -0


def intervention_benefit(reward: ArrayLike, none: ArrayLike, oracle: ArrayLike) -> Figure:
    """100 (reward - none) / (oracle - none): 0 is doing nothing, 100 the Oracle; arrays broadcast.

    Where the Oracle gains nothing (oracle == none) there is nothing to compare with: nan, without a warning.

    >>> import softfair as sf
    >>> float(sf.metrics.intervention_benefit(reward=75.0, none=50.0, oracle=100.0))
    50.0
    """
    got, base, best = (
        _numbers(*pair) for pair in (("reward", reward), ("none", none), ("oracle", oracle))
    )
    room = np.asarray(best - base)
    return 100 * (got - base) / np.where(room == 0, np.nan, room)


def never_selected(counts: ArrayLike) -> Figure:
    """Share of arms that were not selected once."""
    return (_per_arm("counts", counts) == 0).mean(axis=-1)


def gini(counts: ArrayLike) -> Figure:
    """Gini coefficient, sum_ij |x_i - x_j| / (2 n sum_i x_i): 0 if all are equal (or all zero), below 1 always."""
    ordered = np.sort(_per_arm("counts", counts), axis=-1)
    n = ordered.shape[-1]
    rank_weight = (
        2.0 * np.arange(1, n + 1) - n - 1
    )  # [n]: arm by arm, how many lie below minus how many above
    return np.maximum(
        (rank_weight * _shares(ordered)).sum(axis=-1) / n, 0.0
    )  # rounding alone can go below 0


def longest_wait(waits: ArrayLike) -> Figure:
    """The longest wait of any arm, from each arm's longest wait [..., n]."""
    return _per_arm("waits", waits).max(axis=-1)


def group_rates(
    counts: ArrayLike, groups: Sequence[Any] | NDArray[Any] | None, rounds: int
) -> pd.DataFrame:
    """How each group of arms fared: a data frame with one row a group, in order of label.

    ``arms`` is the size of the group, ``rate`` its selections per arm and round, ``share`` its part of all selections,
    ``never_selected`` the share of its arms without one, ``relative_rate`` its rate over that of all arms together.
    Each is a mean over runs; ``..._sd`` is the standard deviation over runs (of a sample; nan for a single run). Where
    nobody is selected, ``share`` and ``relative_rate`` are nan.

    Parameters
    ----------
    counts : [n] or [runs, n], selections of each arm.
    groups : [n], the label of each arm, such as ``cohort.groups``.
    rounds : number of decisions that the counts are about.
    """
    import pandas as pd  # here: everything else in this module does without

    runs = _per_arm("counts", counts)
    if runs.ndim > 2:
        raise InvalidInput(f"counts has shape {runs.shape}, expected (n,) or (runs, n)")
    runs = np.atleast_2d(runs)  # [runs, n]
    n = runs.shape[1]
    if groups is None:
        raise InvalidInput("groups is None; give one label an arm, to the cohort or here")
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InvalidInput(
            f"groups has shape {labels.shape}, counts is about {n} arms; give one label an arm"
        )
    if not rounds > 0:
        raise InvalidInput(f"rounds is {rounds}; give the number of decisions, at least 1")
    code, names = pd.factorize(
        labels, sort=True, use_na_sentinel=False
    )  # an arm without a label is a group too
    order = np.argsort(code, kind="stable")
    arms = np.bincount(code)  # [groups]
    first = np.concatenate([[0], np.cumsum(arms)[:-1]])  # where each group begins in that order

    def per_group(values: NDArray[Any]) -> Floats:  # [runs, n] -> [runs, groups]
        return np.add.reduceat(values[:, order], first, axis=1)

    selections = per_group(runs)
    total = selections.sum(axis=1, keepdims=True)  # [runs, 1]
    total = np.where(total == 0, np.nan, total)
    figures = {
        "rate": selections / (arms * rounds),
        "share": selections / total,
        "never_selected": per_group((runs == 0).astype(np.float64)) / arms,
        "relative_rate": (selections / arms) / (total / n),
    }
    columns: dict[str, NDArray[Any]] = {"arms": arms}
    for name, values in figures.items():
        columns[name] = values.mean(axis=0)
        columns[f"{name}_sd"] = (
            values.std(axis=0, ddof=1) if len(values) > 1 else np.full(len(arms), np.nan)
        )
    return pd.DataFrame(columns, index=pd.Index(names, name="group"))


def unfair_pairs(inclusion: ArrayLike, gains: ArrayLike, tolerance: float = 1e-12) -> Figure:
    """Number of pairs in which an arm is favoured over one that would gain more: soft-fairness violations, arm by arm.

    A pair (i, j) counts if ``gains_i < gains_j`` and ``inclusion_i > inclusion_j``, each by more than ``tolerance``
    times the largest magnitude of its kind, so that rounding is not taken for unfairness; ties are fair. O(n log n).

    >>> import softfair as sf
    >>> int(sf.metrics.unfair_pairs(inclusion=[0.9, 0.1, 0.5], gains=[1.0, 2.0, 3.0]))  # arm 0 over 1, and over 2
    2
    """
    chance, gain = _pairs_of("inclusion", inclusion, "gains", gains, tolerance)
    found = np.empty(chance.shape[:-1], dtype=np.int64)
    for run in np.ndindex(found.shape):
        found[run] = _count_unfair(chance[run], gain[run], tolerance)
    return found[()]  # a number if there is a single run


def unfair_share(inclusion: ArrayLike, gains: ArrayLike, tolerance: float = 1e-12) -> Figure:
    """:func:`unfair_pairs` as a share of all n (n - 1) / 2 pairs; 0 for a single arm."""
    found = unfair_pairs(inclusion, gains, tolerance)
    n = np.broadcast_shapes(np.shape(inclusion), np.shape(gains))[-1]
    return found / max(n * (n - 1) // 2, 1)


def _count_unfair(chance: Floats, gain: Floats, tolerance: float) -> int:
    """Pairs with gain_i < gain_j - slack and chance_i > chance_j + slack, by counting for each j.

    In order of gain the candidates i are a prefix, and "higher chance" is a rank from some bound on; so each j asks how
    many of the first ``upto`` ranks are at least ``bound``. A wavelet matrix answers every j at once: the ranks are
    split by their highest bit, stably, then by the next, and every question follows the bits of its bound down.
    """
    n = len(gain)
    by_gain = np.argsort(gain, kind="stable")
    by_chance = np.argsort(chance, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[by_chance] = np.arange(n)
    values = rank[by_gain]  # [n] ranks of chance in order of gain
    upto = np.searchsorted(gain[by_gain], gain - tolerance * np.abs(gain).max(), side="left")  # [n]
    bound = np.searchsorted(
        chance[by_chance], chance + tolerance * np.abs(chance).max(), side="right"
    )  # [n], up to n

    found = 0
    begin = np.zeros(n, dtype=np.int64)  # where the first `upto` values now stand: [begin, end)
    end = upto
    for bit in reversed(range(n.bit_length())):
        ones = (values >> bit & 1).astype(bool)
        ones_before = np.concatenate([[0], np.cumsum(ones)])  # [n + 1]
        zeros = n - int(ones_before[-1])
        begin_ones, end_ones = ones_before[begin], ones_before[end]
        bound_has_bit = (bound >> bit & 1).astype(bool)
        # Where the bound lacks this bit, every value that has it is above and counts; the search goes on in the rest.
        found += int((end_ones - begin_ones)[~bound_has_bit].sum())
        begin = np.where(bound_has_bit, zeros + begin_ones, begin - begin_ones)
        end = np.where(bound_has_bit, zeros + end_ones, end - end_ones)
        values = np.concatenate([values[~ones], values[ones]])
    return found + int((end - begin).sum())  # values equal to the bound


def _numbers(name: str, values: ArrayLike) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{name} is not an array of numbers; give numbers in one rectangular shape"
        ) from None


def _finite_per_arm(name: str, values: ArrayLike) -> Floats:
    """[..., n] with n >= 1 and every entry finite."""
    checked = _numbers(name, values)
    if checked.ndim < 1 or checked.shape[-1] < 1:
        raise InvalidInput(
            f"{name} has shape {checked.shape}, expected (..., n) with n >= 1: one number an arm"
        )
    refuse(~np.isfinite(checked), checked, name, "give finite numbers")
    return checked


def _per_arm(name: str, values: ArrayLike) -> Floats:
    """[..., n] of finite numbers, none below 0."""
    checked = _finite_per_arm(name, values)
    refuse(checked < 0, checked, name, "give numbers of at least 0")
    return checked


def _pairs_of(
    first: str, a: ArrayLike, second: str, b: ArrayLike, tolerance: float
) -> tuple[Floats, Floats]:
    """Both as [..., n], broadcast against each other over runs."""
    one, other = _finite_per_arm(first, a), _finite_per_arm(second, b)
    if one.shape[-1] != other.shape[-1]:
        raise InvalidInput(
            f"{first} is about {one.shape[-1]} arms, {second} about {other.shape[-1]}; give the same arms"
        )
    if not tolerance >= 0:
        raise InvalidInput(f"tolerance is {tolerance}; give a number of at least 0")
    try:
        one, other = np.broadcast_arrays(one, other)
    except ValueError:
        raise InvalidInput(
            f"{first} has shape {one.shape}, {second} {other.shape}; give as many runs of each"
        ) from None
    return one, other


def _shares(counts: Floats) -> Floats:
    """Each arm's share of the total [..., n]; zeros where the total is zero."""
    total = counts.sum(axis=-1, keepdims=True)
    share: Floats = counts / np.where(total > 0, total, 1.0)
    return share
