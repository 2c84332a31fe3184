"""The smallest change to bounds that no draw can keep, so that a draw can keep them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import Infeasible
from .tree import Quota

__all__ = ["Relaxed", "relaxed"]


class Relaxed(NamedTuple):
    """A bound that must be relaxed."""

    quota: int  # the number of the quota
    name: str
    asked: int  # the bound as given
    possible: int  # the bound after the change
    least: bool  # whether this is the lower bound

    def __str__(self) -> str:
        bound = "at least" if self.least else "at most"
        return f"{self.name} {bound} {self.possible} instead of {self.asked}"


def relaxed(n: int, k: int, quotas: Sequence[Quota]) -> list[Relaxed]:
    """The smallest total change to bounds so that some k of n arms keep all of them.

    Parameters
    ----------
    n, k : int
        Number of arms, and of arms drawn.
    quotas : sequence of Quota
        Bounds on sets of arms. Sets of which at most one arm may be drawn are not relaxed.

    Returns
    -------
    list of Relaxed
        The bounds to change; empty if all bounds can be kept.

    Raises
    ------
    Infeasible
        There are no k arms with at most one from each of the sets that are not relaxed.

    Notes
    -----
    Arms in the same sets are of one kind, and only the number drawn of each kind matters. An
    integer programme has a variable for each kind of arm, and for each kind of household.

    Examples
    --------
    >>> from softfair.quotas import Quota, relaxed
    >>> quotas = [Quota([0, 1], 2, name="a"), Quota([2], 1, name="b")]
    >>> [str(change) for change in relaxed(4, 2, quotas)]
    ['b at least 0 instead of 1']
    """
    small = _households(n, quotas)
    single = list(itertools.compress(quotas, small))
    wide = [(j, quota) for j, quota in enumerate(quotas) if not small[j]]
    kinds = _Kinds.of(n, [quota for _, quota in wide], single)
    short = _fewest_changes(n, k, kinds, [quota for _, quota in wide])
    if short is None:
        raise Infeasible(
            f"{k} arms cannot be drawn with at most one of each of {len(single)} sets: "
            f"draw {kinds.alone + len(single)} or fewer"
        )
    out = []
    for (j, quota), too_few, too_many in zip(wide, *short.tolist(), strict=True):
        name = quota.name or f"set {j}"
        if too_few:
            out.append(Relaxed(j, name, quota.least, quota.least - too_few, True))
        if too_many:
            most_asked = int(quota.most or 0)
            out.append(Relaxed(j, name, most_asked, most_asked + too_many, False))
    return out


class _Kinds(NamedTuple):
    """The variables of the integer programme, called columns.

    A column is the number drawn of a kind of arm that is in no household, or, for a kind of
    household and a kind of arm in it, the number of households from which such an arm is drawn.
    """

    inside: NDArray[np.bool_]  # [columns, sets]: the sets that contain the arms of a column
    most: list[int]  # the largest value of each column
    house: list[int]  # the kind of household of each column; -1: none
    houses: list[int]  # the number of households of each kind
    alone: int  # the number of arms in no household

    @classmethod
    def of(cls, n: int, wide: Sequence[Quota], single: Sequence[Quota]) -> _Kinds:
        """The columns for sets with bounds (``wide``) and households (``single``)."""
        member = np.zeros((len(wide), n), bool)
        for row, quota in zip(member, wide, strict=True):
            row[np.asarray(quota.arms, np.int64)] = True
        kinds, kind = np.unique(member.T, axis=0, return_inverse=True)
        kind = kind.ravel()
        free = np.ones(n, bool)
        houses: Counter[tuple[int, ...]] = Counter()
        for quota in single:
            arms = np.asarray(quota.arms, np.int64)
            free[arms] = False
            houses[tuple(np.unique(kind[arms]).tolist())] += 1
        columns = [(j, -1) for j in range(len(kinds))]
        columns += [(j, h) for h, of in enumerate(houses) for j in of]
        most = [int(np.count_nonzero(free & (kind == j))) for j in range(len(kinds))]
        most += [houses[of] for of in houses for _ in of]
        inside, house = kinds[[j for j, _ in columns]], [h for _, h in columns]
        return cls(inside, most, house, list(houses.values()), int(np.count_nonzero(free)))


def _fewest_changes(
    n: int, k: int, kinds: _Kinds, wide: Sequence[Quota]
) -> NDArray[np.int64] | None:
    """The smallest changes of the lower and upper bounds of sets [2, sets]; None: no draw."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    G, many = len(wide), len(kinds.most)
    inside, give = kinds.inside.T.astype(float), np.eye(G)
    rows = [np.concatenate([np.ones(many), np.zeros(2 * G)])[None]]
    low, high = [float(k)], [float(k)]
    rows += [np.hstack([inside, give, 0 * give]), np.hstack([inside, 0 * give, -give])]
    low += [*(float(quota.least) for quota in wide), *[-np.inf] * G]
    high += [*[np.inf] * G, *(float(n if quota.most is None else quota.most) for quota in wide)]
    for h, households in enumerate(kinds.houses):
        of_household = [float(house == h) for house in kinds.house]
        rows.append(np.concatenate([of_household, np.zeros(2 * G)])[None])
        low.append(-np.inf)
        high.append(float(households))
    optimum = milp(
        np.concatenate([np.zeros(many), np.ones(2 * G)]),
        integrality=np.ones(many + 2 * G),
        bounds=Bounds(0, np.concatenate([kinds.most, np.full(2 * G, n + k)])),
        constraints=LinearConstraint(np.vstack(rows), low, high),
    )
    if optimum.x is None:
        return None
    changes: NDArray[np.int64] = np.rint(optimum.x[many:]).astype(np.int64).reshape(2, G)
    return changes


def _households(n: int, quotas: Sequence[Quota]) -> list[bool]:
    """Whether each quota is a set of at most one arm; all False if two such sets share an arm."""
    small = [quota.most == 1 and quota.least == 0 for quota in quotas]
    times = np.zeros(n, np.int64)
    for quota in itertools.compress(quotas, small):
        times[np.asarray(quota.arms, np.int64)] += 1
    return [False] * len(quotas) if (times > 1).any() else small
