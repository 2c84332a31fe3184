"""The setting in which a policy acts: which k, horizon and discount fit a cohort."""

from __future__ import annotations

import numbers

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from ..errors import InvalidInput, whole
from ..solvers.budget import Budget

__all__ = ["Budget", "check_setting", "one_budget", "plain_budget", "refuse_by_action"]

Ints = NDArray[np.int64]
LONGEST = 1_000_000  # decisions of a horizon; a week has 10,080 minutes


def plain_budget(k: Budget) -> str:
    """k as tables and messages show it.

    Parameters
    ----------
    k : int or ndarray [T]
        As :func:`check_setting` returns it.

    Returns
    -------
    str

    Examples
    --------
    >>> from softfair.policies.setting import plain_budget
    >>> plain_budget(3), plain_budget([2, 0, 3])
    ('3', '0 to 3')
    """
    return str(k) if isinstance(k, int) else f"{np.min(k)} to {np.max(k)}"


def one_budget(k: Budget, who: str, instead: str) -> int:
    """k, if it is the same at every decision.

    Parameters
    ----------
    k : int or ndarray [T]
        As :func:`check_setting` returns it.
    who : str
        The policy that needs the same k at every decision.
    instead : str
        The remedy, for the message.

    Returns
    -------
    int

    Raises
    ------
    InvalidInput
        k changes with time.

    Examples
    --------
    >>> from softfair.policies.setting import one_budget
    >>> one_budget(3, "FaWT", "give one k")
    3
    """
    if isinstance(k, int):
        return k
    raise InvalidInput(
        f"k is {plain_budget(k)}, but {who} needs the same k at every decision; {instead}"
    )


def refuse_by_action(cohort: Cohort, who: str) -> None:
    """Refuse rewards that depend on the action, for a policy whose equations have none.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    who : str
        The policy.

    Raises
    ------
    InvalidInput
        The rewards are R(s, a).

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.policies.setting import refuse_by_action
    >>> refuse_by_action(sf.datasets.synthetic(n=5, seed=0), "ProbFair")
    """
    if cohort.by_action:
        raise InvalidInput(
            f"the rewards depend on the action, which {who} has no equation for; "
            "take SoftFair, EvenHanded, Whittle, Oracle or Myopic, or rewards of states alone"
        )


def check_setting(cohort: Cohort, k: Budget, horizon: int, gamma: float) -> int | Ints:
    """Refuse a budget, horizon or discount that means nothing for this cohort.

    Parameters
    ----------
    cohort, k, horizon, gamma
        See :meth:`Policy.fit`.

    Returns
    -------
    int or ndarray [horizon]
        k: a number if it is the same at every decision, otherwise one for each.

    Raises
    ------
    InvalidInput
        ``cohort`` is not a Cohort; k is not between 0 and n (with costs, the sum of all costs) or
        does not have one entry for each decision; the horizon is below 1 or
        above a million; or gamma is not between 0
        and 1.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.policies.setting import check_setting
    >>> cohort = sf.datasets.synthetic(n=5, seed=0)
    >>> check_setting(cohort, k=[2, 2, 2], horizon=3, gamma=1.0)
    2
    >>> check_setting(cohort, k=[2, 0, 3], horizon=3, gamma=1.0)
    array([2, 0, 3])
    """
    if not isinstance(cohort, Cohort):
        raise InvalidInput(
            f"cohort is a {type(cohort).__name__}; "
            "give a Cohort, such as sf.Cohort(P) or sf.datasets.synthetic()"
        )
    whole("horizon", horizon, 1, LONGEST)
    if not isinstance(gamma, numbers.Real) or not 0 <= gamma <= 1:
        raise InvalidInput(
            f"gamma is {gamma!r}; give a discount between 0 and 1 (1: later rewards count in full)"
        )
    most, beside = cohort.n, f", the cohort has {cohort.n} arms"
    if cohort.with_costs:
        most = int(cohort.cost.sum())
        beside = f", all arms of the cohort cost {most} together"
    return _each_decision(k, int(horizon), most, beside)


def _each_decision(k: Budget, horizon: int, n: int, beside: str) -> int | Ints:
    """k as :func:`check_setting` gives it."""
    if isinstance(k, (str, bytes)) or not np.iterable(k):
        return whole("k", k, 0, n, beside)
    entries = list(k)
    if len(entries) != horizon:
        raise InvalidInput(
            f"k has {len(entries)} entries and the horizon is {horizon}; "
            "give one number, or one for each decision"
        )
    budgets = np.array(
        [whole(f"k[{t}]", entry, 0, n, beside) for t, entry in enumerate(entries)], np.int64
    )
    if (budgets == budgets[0]).all():
        return int(budgets[0])
    budgets.flags.writeable = False
    return budgets
