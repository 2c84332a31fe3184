"""From scores and a key to everybody's chance and the list."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import quotas
from ...policies.deadlines import Cell, deadline_quotas, places_for_deadlines, quotas_by_cell
from ...policies.promised import kept_chances, promised_weights
from ...policies.rules import Rule
from ...quotas import Quota
from ...sampling import Design, draw_by_luck, inclusion, inclusion_of_top, race_by_luck, top_by_luck
from .. import luck
from ..settings import Settings

__all__ = [
    "FREE",
    "InOrder",
    "Terms",
    "chances",
    "drawn_by_luck",
    "drawn_by_position",
    "in_order",
    "seed_by_position",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

DESIGN: Design = "joint"
LEAST_RESERVES = 10  # people in reserve; if there are more places, as many as places


class Terms(NamedTuple):
    """What a site's draw keeps of a promise (`kept`)."""

    floor: float = 0.0  # the least chance
    left: Ints | None = None  # [m] lists within which each must be on one, this one included
    away: Ints | None = None  # the same of the people at the site who are not in the draw
    coming: Ints | None = None  # places on this list, the next, and so on
    site: str = ""  # its name, from which its coins follow
    groups: tuple[Quota, ...] = ()  # bounds on places in the draw
    cells: tuple[Cell, ...] = ()  # deadlines beside such bounds
    house: Ints | None = (
        None  # [m + away] households beside deadlines, at most one of each; -1: none
    )

    @property
    def free(self) -> bool:
        """Whether nothing is promised."""
        return self.left is None and self.floor == 0 and not self.groups

    def must(self, m: int) -> tuple[NDArray[np.bool_], list[Quota]]:
        """Who must be on the list [m], and the quotas of the others that keep the promise."""
        if self.left is not None and self.cells:
            return quotas_by_cell(self.left, self.cells, self.groups)
        if self.left is None or self.coming is None:
            return np.zeros(m, bool), list(self.groups)
        people = m + (0 if self.away is None else len(self.away))
        places = places_for_deadlines(people, self.coming, self.floor)
        return deadline_quotas(self.left, places, self.away, self.house)


FREE = Terms()


class InOrder(NamedTuple):
    """The people of a site's draw in the order in which they are called: the list, the reserves."""

    who: Ints  # [called] places in the draw
    chance: Floats  # [called] of being among the reserves, given the list; 0 for those on it


def chances(score: Floats, c: float, k: int, terms: Terms = FREE) -> Floats:
    """Probability of everybody in a site's draw [m] of being on the list of k."""
    k, m = min(k, len(score)), len(score)
    if k == 0:
        return np.zeros(m)
    if terms.free or k == m:
        return Rule.softmax(c, DESIGN).inclusion(score, k)
    return kept_chances(score, c, k, terms.floor, *terms.must(m))


def _luck_of(key: str, names: list[str] | Words) -> Words:
    """Everybody's luck [m, 2]: it follows from their names, unless it is at hand already."""
    return names if isinstance(names, np.ndarray) else luck.numbers(key, names)


def drawn_by_luck(
    score: Floats, c: float, k: int, key: str, names: list[str] | Words, terms: Terms = FREE
) -> Ints:
    """The places of the people drawn, sorted; each person's luck follows from their name [m].

    ``names`` may also be everybody's luck itself [m, 2], as `luck.numbers` gives it.
    """
    k, m = min(k, len(score)), len(score)
    if k == 0:
        return np.empty(0, np.int64)
    rule, numbers = Rule.softmax(c, DESIGN), _luck_of(key, names)
    if not terms.free and k < m:
        now, more = terms.must(m)
        sure, others = np.flatnonzero(now), np.flatnonzero(~now)
        z = promised_weights(score[others], c, k - len(sure), terms.floor, more)
        coins = luck.coins(key, terms.site)
        drawn = quotas.draw_by_luck(z, k - len(sure), more, numbers[others], coins)
        return np.sort(np.concatenate([sure, others[drawn]]))
    if rule == Rule.top():
        return top_by_luck(score, k, numbers)
    return draw_by_luck(rule.c * score, k, numbers, DESIGN)


def in_order(
    score: Floats,
    c: float,
    listed: Ints,
    key: str,
    names: list[str] | Words,
    cell: Ints | None = None,
) -> InOrder:
    """The order in which people are called: a race, first of the list, then of all others.

    Parameters
    ----------
    score
        The score that the chance of everybody in the draw follows [m].
    c
        The multiplier.
    listed
        The places of the people on the list.
    key, names
        The key and the names from which luck follows, as for `drawn_by_luck`.
    cell
        A number for each person [m], the same for people in the same promised groups; each such
        cell has reserves of its own. Default: one cell.

    Notes
    -----
    The race uses luck of its own, independent of the list. People of one cell compete only with
    each other, so the chance to be among the reserves of a cell depends on that cell alone.
    """
    m = len(score)
    on, chance = np.zeros(m, bool), np.zeros(m)
    on[listed] = True
    if not m:
        return InOrder(np.empty(0, np.int64), np.empty(0))
    rule, numbers = Rule.softmax(c, DESIGN), luck.further(_luck_of(key, names))
    top = rule == Rule.top()
    if top:
        order = np.lexsort((numbers[:, 1], numbers[:, 0], -score))
    else:
        order = race_by_luck(rule.c * score, numbers)
    reserve = np.zeros(m, bool)
    for x in np.unique(cell) if cell is not None else [None]:
        some = np.ones(m, bool) if x is None else cell == x
        rest = some & ~on
        many = int((some & on).sum())
        count = min(int(rest.sum()), max(many, LEAST_RESERVES))
        if count and top:
            chance[rest] = inclusion_of_top(score[rest], count)
        elif count:
            chance[rest] = inclusion(rule.c * score[rest], count, "successive")
        reserve[order[rest[order]][:count]] = True
    called = np.concatenate([order[on[order]], order[reserve[order]]])
    return InOrder(called, chance[called])


def drawn_by_position(score: Floats, c: float, k: int, seed: str, site: int) -> Ints:
    """The places of the people drawn, by the rule before each person had luck of their own."""
    k = min(k, len(score))
    if k == 0:
        return np.empty(0, np.int64)
    rng = np.random.default_rng([int(seed, 16), site])
    return Rule.softmax(c, DESIGN).draw(score, k, rng)


def seed_by_position(settings: Settings, at: int) -> str:
    """The seed of a round's draw for `drawn_by_position`."""
    return hashlib.sha256(f"{settings.seed} {at}".encode()).hexdigest()[:16]
