"""The arrays that a cohort is made from: each is checked and frozen, and none is repaired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput, real_numbers, refuse
from .frames import ROW_SUM_TOLERANCE

__all__ = [
    "as_given",
    "read_cost",
    "read_labels",
    "read_reward",
    "read_start",
    "read_transitions",
    "read_two_state",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _numbers(name: str, values: ArrayLike) -> Floats:
    """The values as an array of floats."""
    try:
        return real_numbers(values)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} is not an array of numbers ({error}); give floats of one rectangular shape"
        ) from None


def _frozen(values: Floats) -> Floats:
    """The values as a C-contiguous array that nobody can change.

    They are copied unless the array and every array that it is a view of are read-only already.
    """
    owner: Any = values
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if isinstance(owner, np.ndarray) or not values.flags.c_contiguous:
        values = np.array(values, order="C")
        values.flags.writeable = False
    return values


def read_transitions(P: ArrayLike) -> Floats:
    """P [n, 2, S, S], checked and frozen."""
    checked = _numbers("P", P)
    if (
        checked.ndim != 4
        or checked.shape[1] != 2
        or checked.shape[2] != checked.shape[3]
        or checked.shape[2] < 2
        or not len(checked)
    ):
        raise InvalidInput(
            f"P has shape {checked.shape}, expected (n, 2, S, S) with n >= 1 and S >= 2: "
            "P[i, action, state, next state]"
        )
    refuse(
        np.isnan(checked),
        checked,
        "P",
        "fill the missing transition probabilities or leave those arms out",
    )
    refuse(~((checked >= 0) & (checked <= 1)), checked, "P", "give probabilities between 0 and 1")
    sums = checked.sum(axis=-1)
    bad = np.abs(sums - 1) > ROW_SUM_TOLERANCE
    if bad.any():
        i, a, s = (int(j) for j in np.unravel_index(int(np.argmax(bad)), bad.shape))
        raise InvalidInput(
            f"P[{i}, {a}, {s}] sums to {sums[i, a, s]:.12g}, not 1 "
            f"({np.count_nonzero(bad)} of {bad.size} rows are wrong); "
            "if this is rounding, pass P / P.sum(axis=-1, keepdims=True, dtype=float)"
        )
    return _frozen(checked)


def read_two_state(p: ArrayLike) -> Floats:
    """p [n, 2, 2] of two-state arms, checked and frozen, as [n, 2, 2, 1]."""
    good = _numbers("p", p)
    if good.ndim != 3 or good.shape[1:] != (2, 2) or not len(good):
        raise InvalidInput(
            f"p has shape {good.shape}, expected (n, 2, 2) with n >= 1: "
            "p[i, action, state] = chance of state 1 next"
        )
    refuse(~((good >= 0) & (good <= 1)), good, "p", "give probabilities between 0 and 1")
    return _frozen(good)[..., None]


def read_reward(reward: ArrayLike | None, n: int, S: int) -> Floats:
    """Rewards [1 or n, 1 or 2, S], checked and frozen."""
    values = np.arange(S) / (S - 1) if reward is None else _numbers("reward", reward)
    if values.shape not in {(S,), (n, S), (1, S, 2), (n, S, 2)}:
        raise InvalidInput(
            f"reward has shape {values.shape}, expected ({S},) or ({n}, {S}): "
            f"the worth of each state reached; or (1, {S}, 2) or ({n}, {S}, 2): R(s, a)"
        )
    refuse(~np.isfinite(values), values, "reward", "give finite numbers")
    if values.ndim < 3:
        return _frozen(values.reshape(-1, 1, S))
    same = bool((values[..., 0] == values[..., 1]).all())
    return _frozen(np.moveaxis(values, 2, 1)[:, : 1 if same else 2])


def as_given(reward_rows: Floats) -> Floats:
    """Rewards as a Cohort takes them: [S], [n, S] or [1 or n, S, 2].

    Parameters
    ----------
    reward_rows : ndarray, [1 or n, 1 or 2, S]
        As a Cohort holds them.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.arrays import as_given
    >>> as_given(np.zeros((1, 1, 3))).shape, as_given(np.zeros((4, 2, 3))).shape
    ((3,), (4, 3, 2))
    """
    if reward_rows.shape[1] == 2:
        return np.moveaxis(reward_rows, 1, 2)
    return reward_rows[0, 0] if len(reward_rows) == 1 else reward_rows[:, 0]


def read_cost(cost: ArrayLike | None, n: int) -> Ints:
    """Costs [n], or a single 1 if all are 1, checked and frozen."""
    values = np.ones(1) if cost is None else _numbers("cost", cost)
    if cost is not None and values.shape != (n,):
        raise InvalidInput(
            f"cost has shape {values.shape}, the cohort has {n} arms; give one cost an arm"
        )
    fine = (values >= 1) & (values < 2**31) & (values == np.floor(values))
    refuse(~fine, values, "cost", "give whole numbers of at least 1, in any unit, such as minutes")
    costs = np.ones(1, np.int64) if (values == 1).all() else values.astype(np.int64)
    costs.flags.writeable = False
    return costs


def read_start(start: ArrayLike | None, n: int, S: int) -> Floats:
    """Start distributions [1, S] or [n, S], checked and frozen."""
    if start is None:
        return _frozen(np.full((1, S), 1 / S))
    values = _numbers("start", start)
    if values.shape == (n,):
        refuse(
            ~np.isin(values, np.arange(S)), values, "start", f"give states between 0 and {S - 1}"
        )
        values = np.eye(S)[values.astype(np.int64)]
        values.flags.writeable = False
        return values
    if values.shape != (n, S):
        raise InvalidInput(
            f"start has shape {values.shape}, expected ({n},) states or ({n}, {S}) distributions"
        )
    refuse(~((values >= 0) & (values <= 1)), values, "start", "give probabilities between 0 and 1")
    sums = values.sum(axis=1)
    refuse(np.abs(sums - 1) > ROW_SUM_TOLERANCE, sums, "the sum of start", "each row must sum to 1")
    if (values == values[0]).all():
        values = values[:1]
    return _frozen(values)


def read_labels(
    name: str, labels: Sequence[Any] | NDArray[Any], n: int, *, distinct: bool
) -> NDArray[Any]:
    """Labels [n], checked and frozen."""
    try:
        values = np.array(labels)
    except ValueError:
        raise InvalidInput(
            f"{name} is ragged, the cohort has {n} arms; give one label an arm"
        ) from None
    if values.shape != (n,):
        raise InvalidInput(
            f"{name} has shape {values.shape}, the cohort has {n} arms; give one label an arm"
        )
    if distinct:
        first_place = _first_seen(values)  # [n]
        repeated = np.flatnonzero(first_place != np.arange(n))
        if len(repeated):
            raise InvalidInput(
                f"{name}[{repeated[0]}] repeats {name}[{first_place[repeated[0]]}] "
                f"({len(repeated)} of {n} {name} are duplicates); "
                "give each arm an id of its own"
            )
    values.flags.writeable = False
    return values


def _first_seen(values: NDArray[Any]) -> Ints:
    """The first place [n] at which each label stands; missing labels are refused.

    Labels that are objects must be hashable. They need not have an order.
    """
    if values.dtype == object:
        listed = values.tolist()
        missing = np.array([label is None or label != label for label in listed])
    else:
        missing = values != values
    refuse(missing, values, "ids", "give each arm an id of its own")
    if values.dtype == object:
        place_of: dict[Any, int] = {}
        return np.array([place_of.setdefault(label, i) for i, label in enumerate(listed)])
    _, first_index, inverse = np.unique(values, return_index=True, return_inverse=True)
    places: Ints = first_index[inverse]
    return places
