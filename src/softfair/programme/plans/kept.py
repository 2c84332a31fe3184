"""What a plan keeps of a promise, as it is stored with the plan, and what each draw keeps of it.

Shares of groups, and at most one of each household, are kept by the law of the draw
(:mod:`softfair.quotas`). Who belonged to which group is stored with the plan.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...policies.deadlines import Cell
from ...quotas import Quota
from ..eligibility import WAITING, Site, Status
from ..promises import Promise
from ..snapshot import People
from .drawing import FREE, Terms

__all__ = ["Belonging", "Kept", "belonging_of", "terms_of"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Division = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Belonging:
    """Who belongs to the groups that a promise is about."""

    inside: Bools  # [shares, n] whether each person has the value of each promised share
    house: Ints  # [n] the household of each, of which at most one is listed; -1: none

    def quotas(self, promise: Promise, who: Ints, k: int) -> tuple[Quota, ...]:
        """Bounds on the k places of a draw of some people, numbered by their place in ``who``."""
        all_quotas = []
        for share, inside in zip(promise.shares, self.inside, strict=True):
            least, most = share.bounds(k)
            all_quotas.append(Quota(np.flatnonzero(inside[who]), least, most, share.said))
        house = self.house[who]
        order = np.argsort(house, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(house[order])) + 1)
        all_quotas += [
            Quota(part, most=1) for part in parts if len(part) > 1 and house[part[0]] >= 0
        ]
        return tuple(all_quotas)

    @property
    def cell(self) -> Ints:
        """A number for each person [n], the same for people in the same promised groups."""
        return self.kinds[1]

    @property
    def kinds(self) -> tuple[Bools, Ints]:
        """In which groups each cell is [cells, shares], and the cell of each person [n]."""
        kinds, cell = np.unique(self.inside.T, axis=0, return_inverse=True)
        return kinds, np.asarray(cell, np.int64).ravel()

    def alike(self) -> Ints:
        """A number for each person [n], the same for people whom the promise treats alike."""
        kinds = np.vstack([self.inside.astype(np.int64), self.house])
        kind: Ints = np.unique(kinds.T, axis=0, return_inverse=True)[1].ravel()
        return kind

    def to_json(self) -> dict[str, str]:
        """As it is stored: ``inside`` packed into bits, households as numbers."""
        return {"inside": _packed(np.packbits(self.inside)), "house": _packed(self.house, "<i4")}

    @classmethod
    def from_json(cls, fields: dict[str, Any], shares: int) -> Belonging:
        """The inverse of `to_json`."""
        house = np.frombuffer(_unpacked(fields["house"]), "<i4").astype(np.int64)
        bits = np.unpackbits(np.frombuffer(_unpacked(fields["inside"]), np.uint8))
        inside = bits[: shares * len(house)].astype(bool).reshape(shares, len(house))
        return cls(inside, house)


NOBODY = Belonging(np.empty((0, 0), bool), np.empty(0, np.int64))


def belonging_of(promise: Promise, people: People) -> Belonging:
    """Who belongs to the groups that a promise is about.

    Raises
    ------
    InvalidInput
        If there is no such column, or nobody has such a value.
    """
    if not promise.grouped:
        return NOBODY
    inside = np.zeros((len(promise.shares), people.n), bool)
    for row, share in zip(inside, promise.shares, strict=True):
        values, codes = people.group(share.column)
        if share.value not in values:
            raise InvalidInput(
                f"the promise is about {share.column} {share.value!r}, which nobody has; "
                f"known: {', '.join(filter(None, values[:20]))}"
            )
        row[:] = codes == values.index(share.value)
    house = np.full(people.n, -1)
    if promise.one:
        values, codes = people.group(promise.one)
        house = np.where(codes == values.index(""), -1, codes) if "" in values else codes
    return Belonging(inside, house)


def _packed(array: NDArray[Any], kind: str = "|u1") -> str:
    return base64.b64encode(zlib.compress(array.astype(kind).tobytes())).decode()


def _unpacked(text: str) -> bytes:
    try:
        return zlib.decompress(base64.b64decode(text))
    except zlib.error as error:
        raise ValueError(f"what a promise kept cannot be read: {error}") from None


@dataclass(frozen=True, eq=False)
class Kept:
    """What a plan keeps of a promise."""

    promise: Promise
    due: Ints  # [n] lists within which each must be on one, this one included; 0: not promised
    coming: tuple[tuple[int, ...], ...]  # places of each site: this list, the next, ...
    belonging: Belonging = NOBODY
    # Beside shares: by site and cell, places that deadlines may take on this list, the next, ...
    divided: tuple[Division, ...] = ()

    def terms(self, site: Site, j: int, in_draw: Ints, waiting: Ints) -> Terms:
        """What the draw of site j keeps.

        Parameters
        ----------
        site, j
            The site and its place.
        in_draw, waiting
            Numbers of the people in its draw, and of all people in the programme there.
        """
        groups: tuple[Quota, ...] = ()
        k = min(site.capacity, len(in_draw))
        if self.promise.grouped and k:
            groups = self.belonging.quotas(self.promise, in_draw, k)
        if not self.promise.wait:
            return Terms(floor=self.promise.chance, site=site.name, groups=groups)
        away = np.setdiff1d(waiting, in_draw)
        left = self.due[in_draw], self.due[away], np.array(self.coming[j], np.int64)
        if self.promise.one:
            house = self.belonging.house[np.concatenate([in_draw, away])]
            return Terms(0.0, *left, site=site.name, house=house)
        cells = self._cells(j, in_draw, away) if self.promise.grouped else ()
        return Terms(self.promise.chance, *left, site=site.name, groups=groups, cells=cells)

    def _cells(self, j: int, in_draw: Ints, away: Ints) -> tuple[Cell, ...]:
        """The cells of site j that have people in the draw."""
        cell = self.belonging.cell
        return tuple(
            Cell(who, self.due[away[cell[away] == x]], np.array(coming, np.int64))
            for x, coming in enumerate(self.divided[j])
            if len(who := np.flatnonzero(cell[in_draw] == x))
        )

    def to_json(self) -> dict[str, Any]:
        """As it is stored beside the outlook; the promise itself is part of the outlook."""
        fields: dict[str, Any] = {}
        if self.promise.grouped:
            fields["belonging"] = self.belonging.to_json()
        if self.promise.wait:
            fields |= {"due": _packed(self.due, "<i4"), "coming": self.coming}
        return {**fields, "divided": self.divided} if self.divided else fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Kept | None:
        """From the outlook of a plan as it is stored; None: nothing was promised."""
        if "promise" not in fields:
            return None
        due, belonging = np.empty(0, np.int64), NOBODY
        promise = Promise.from_json(fields["promise"])
        if "due" in fields:
            due = np.frombuffer(_unpacked(fields["due"]), "<i4").astype(np.int64)
        if promise.grouped:
            belonging = Belonging.from_json(fields["belonging"], len(promise.shares))
        coming = tuple(tuple(places) for places in fields.get("coming", ()))
        divided = tuple(
            tuple(tuple(places) for places in cells) for cells in fields.get("divided", ())
        )
        return cls(promise, due, coming, belonging, divided)


def terms_of(kept: Kept | None, site: Site, j: int, status: Ints, sites: Ints) -> Terms:
    """What the draw of site j keeps, from everybody's status and site in the plan [n]."""
    if kept is None:
        return FREE
    here = sites == j
    in_draw = np.flatnonzero(here & (status == Status.IN_DRAW))
    return kept.terms(site, j, in_draw, np.flatnonzero(here & np.isin(status, WAITING)))
