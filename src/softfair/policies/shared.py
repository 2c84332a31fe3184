"""SoftFair with shares of groups, and possibly a longest wait or a least chance as well.

At every decision the number of arms helped in each group of the cohort is within bounds. Each bound
has a price (:mod:`softfair.solvers.shared`), and arms are drawn by the softmax over all sets of k
arms that keep every promise, with exact chances (:mod:`softfair.quotas`).

With a longest wait, the places of the coming decisions are divided among cells of arms in the same
groups, and each cell meets its deadlines with the places that it got
(:mod:`softfair.quotas.dividing`). If there is such a division at one decision, there is one at the
next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cohort import Cohort
from ..errors import Infeasible, InvalidInput, real_numbers
from ..quotas import Quota, relaxed
from ..quotas.dividing import Cells, divided
from .base import Ints
from .deadlines import Cell, quotas_by_cell, shortest_wait
from .promised import FittedPromise, kept_chances
from .setting import Budget

__all__ = ["FittedShares", "Groups", "Parts", "parts_of"]

Parts = tuple[tuple[str, float, float], ...]  # label, least and largest part of each group


def parts_of(shares: Any) -> Parts:
    """The parts of k that groups are promised, in the form in which policies store them.

    Parameters
    ----------
    shares : mapping of label to (least, most)
        Parts of k from 0 to 1; or what this function returned.

    Returns
    -------
    tuple of (label, least, most)
        In the order given.

    Raises
    ------
    InvalidInput
        ``shares`` is no such mapping, or a part is out of its range.

    Examples
    --------
    >>> from softfair.policies.shared import parts_of
    >>> parts_of({"north": (0.3, 1)})
    (('north', 0.3, 1.0),)
    """
    try:
        rows = [
            (str(label), float(real_numbers(least)), float(real_numbers(most)))
            for label, (least, most) in (
                shares.items()
                if isinstance(shares, Mapping)
                else [(label, ends) for label, *ends in shares]
            )
        ]
    except (TypeError, ValueError):
        rows = []
    if not rows or not all(0 <= least <= most <= 1 for _, least, most in rows):
        raise InvalidInput(
            f"shares is {shares!r}; give the least and the largest part of k for each group, such "
            "as {'north': (0.3, 1)}"
        )
    return tuple(rows)


class Groups(NamedTuple):
    """Groups with bounds on how many of their arms are helped at a decision."""

    names: tuple[str, ...]
    inside: NDArray[np.bool_]  # [groups, n]
    least: Ints  # [groups]
    most: Ints

    @classmethod
    def of(cls, parts: Parts, cohort: Cohort, k: Budget) -> Groups:
        """The groups of a cohort.

        If a bound is not a whole number of arms, the least is rounded up and the largest down. If
        no whole number is left between them, the whole numbers on either side are the bounds.

        Raises
        ------
        InvalidInput
            If k differs between decisions, or the cohort has no such groups.
        Infeasible
            If no k arms keep all bounds; the message has the smallest relaxation.
        """
        if not isinstance(k, int) or not 0 < k < cohort.n:
            raise InvalidInput(
                "shares need the same k at every decision, between 1 and one less than the arms"
            )
        labels = [] if cohort.groups is None else [str(label) for label in cohort.groups]
        if missing := [name for name, *_ in parts if name not in labels]:
            known = ", ".join(sorted(set(labels))[:20]) or "none"
            raise InvalidInput(
                f"shares are of {missing[0]!r}, but groups of the cohort are: {known}"
            )
        inside = np.array([np.array(labels) == name for name, *_ in parts])
        ends = [(math.ceil(a * k - 1e-9), math.floor(b * k + 1e-9)) for _, a, b in parts]
        least, most = np.sort(ends, axis=1).T  # ceil > floor if no whole number lies between
        groups = cls(tuple(name for name, *_ in parts), inside, least, most)
        if nearest := relaxed(cohort.n, k, groups.quotas()):
            raise Infeasible(
                f"no {k} of {cohort.n} arms keep all shares; the smallest relaxation: "
                + ", ".join(str(quota) for quota in nearest)
            )
        return groups

    def quotas(self) -> list[Quota]:
        """The bounds of each group as a quota."""
        rows = zip(self.names, self.inside, self.least, self.most, strict=True)
        return [
            Quota(np.flatnonzero(inside), int(least), int(most), name)
            for name, inside, least, most in rows
        ]

    @property
    def kinds(self) -> tuple[NDArray[np.bool_], Ints]:
        """The groups that each cell belongs to [cells, groups], and the cell of each arm [n]."""
        kinds, cell = np.unique(self.inside.T, axis=0, return_inverse=True)
        return kinds, np.asarray(cell, np.int64).ravel()

    def division(self, left: Ints, k: int, W: int, floor: float) -> Ints | None:
        """Places of each cell for deadlines at W + 1 decisions; None if no division exists."""
        kinds, cell = self.kinds
        due = np.zeros((len(kinds), W), np.int64)
        np.add.at(due, (cell, np.clip(left, 1, W) - 1), 1)
        due = np.cumsum(due, axis=1)
        draws = np.ones((W + 1, 1), np.int64)
        cells = Cells(kinds, due[:, -1], due[:, -1], due, 0 * due)
        return divided(np.full(W + 1, k), draws * self.least, draws * self.most, cells, floor)

    def check(self, k: int, W: int, floor: float) -> None:
        """Refuse shares, a wait and a floor that cannot be kept together.

        Raises
        ------
        Infeasible
            The message has the shortest wait that can be kept.
        """
        n = self.inside.shape[1]
        if floor:
            kept_chances(np.zeros(n), 0.0, k, floor, np.zeros(n, bool), self.quotas())
        if not W or self.division(np.full(n, W), k, W, floor) is not None:
            return
        longer = shortest_wait(
            W, lambda wait: self.division(np.full(n, wait), k, wait, floor) is not None
        )
        raise Infeasible(
            f"a wait of at most {W} for each of {n} arms beside these shares leaves some group "
            "without places for everybody in time; "
            + (f"take max_wait={longer} or more" if longer else "take other shares")
            + ", or a larger k"
        )


class FittedShares(FittedPromise):
    """SoftFair with shares of groups, ready to act; parameters as for :class:`FittedPromise`."""

    @cached_property
    def _groups(self) -> Groups:
        parts: Parts = vars(self.policy)["shares"]
        return Groups.of(parts, self.cohort, self.k)

    def _must(self, t: int, left: Ints) -> tuple[NDArray[np.bool_], list[Quota]]:
        groups, k, W = self._groups, self.places(t), self._promise.W
        if not W:
            return np.zeros(self.cohort.n, bool), groups.quotas()
        places = groups.division(left, k, W, self._promise.floor)
        if places is None:
            raise Infeasible(
                f"at decision {t} no draw keeps the promised wait and shares: the memory is not "
                "one that this policy wrote"
            )
        _, cell = groups.kinds
        nobody = np.empty(0, np.int64)
        cells = [Cell(np.flatnonzero(cell == x), nobody, row) for x, row in enumerate(places)]
        return quotas_by_cell(left, cells, groups.quotas())
