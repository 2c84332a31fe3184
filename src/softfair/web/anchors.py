"""Solutions at some places of the sliders, from which any other is found in a few passes.

Where c is large, the even-handed problem is hard to solve without a starting point: some places
take a thousand passes over all people. From prices and bonuses of a place nearby it takes some ten.
So, for some multipliers c, the problem is solved for each weight mu of evenness, from 0 on, each
time from the solution for the weight before. For a place between two of these multipliers, prices
and bonuses are interpolated in log c. No figure depends on the starting point by more than
`outlook.ROUGH` allows.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..errors import NotConverged
from ..programme.outlook import ROUGH, SiteCohort
from ..solvers import solve_evenhanded, solve_priced
from ..solvers.evenhanded import BonusValues, Near
from ..solvers.priced import learning_multiplier

__all__ = ["Anchors"]

PLACES = (50, 60, 70, 80, 90, 99)  # of the slider over c; below the first no problem is hard
SOON = 4096  # with at most so many people all anchors are made in advance, in some seconds


class _Row:
    """Solutions at one site and multiplier, for weights from 0 to the largest asked for so far."""

    def __init__(self, site: SiteCohort, c: float, weights: Sequence[float]) -> None:
        self._site, self._c, self._weights = site, c, weights
        self._lock = threading.Lock()
        self._chain: list[Near] = []

    def at(self, even: int) -> Near:
        """Prices and bonuses at a position of the slider of evenness."""
        with self._lock:
            while len(self._chain) <= even:
                self._chain.append(self._next())
            return self._chain[even]

    def _next(self) -> Near:
        site, c, even = self._site, self._c, len(self._chain)
        given = (site.cohort, site.k, site.horizon, 1.0, c)
        multiplier = learning_multiplier(site.cohort, c)
        if not even:
            return Near(solve_priced(*given, ROUGH).theta / multiplier)
        mu = self._weights[even]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # an anchor is only a starting point
            solution = solve_evenhanded(*given, mu, tolerance=ROUGH, near=self._chain[-1])
        # u = K b / mu, with K the contacts over the horizon
        u = solution.bonus * (site.k * site.horizon / mu)
        assert isinstance(solution.values, BonusValues)
        return Near(solution.values.theta / multiplier, u)


class Anchors:
    """Starting points for the solutions at all places of the sliders.

    Parameters
    ----------
    sites
        The people, site by site.
    c_at
        The multiplier at a position of its slider.
    weights
        The weight of evenness at each position of its slider.
    """

    def __init__(
        self,
        sites: Sequence[SiteCohort],
        c_at: Callable[[int], float],
        weights: Sequence[float],
    ) -> None:
        self._sites, self._c_at, self._weights = sites, c_at, weights
        self._lock = threading.Lock()
        self._rows: dict[tuple[int, int], _Row] = {}

    def near(self, site: int, position: int, even: int) -> Near:
        """Prices and bonuses near a place of the sliders, of one site."""
        if position <= PLACES[0]:
            return self._row(site, position).at(0)
        position = min(position, PLACES[-1])  # values beyond the last place are learnt as at it
        high = next(place for place in PLACES if place >= position)
        if high == position:
            return self._row(site, high).at(even)
        low = PLACES[PLACES.index(high) - 1]
        below, above = self._row(site, low).at(even), self._row(site, high).at(even)
        share = math.log(self._c_at(position) / self._c_at(low))
        share /= math.log(self._c_at(high) / self._c_at(low))
        assert below.u is not None  # even > 0
        assert above.u is not None
        price = (1 - share) * below.price + share * above.price
        return Near(price, (1 - share) * below.u + share * above.u)

    def _row(self, site: int, position: int) -> _Row:
        with self._lock:
            key = (site, position)
            if key not in self._rows:
                made = _Row(self._sites[site], self._c_at(position), self._weights)
                self._rows[key] = made
            return self._rows[key]

    def fill_soon(self, position: int) -> None:
        """Make all anchors in a thread, the nearest first, if there are at most SOON people."""
        if sum(site.cohort.n for site in self._sites) > SOON:
            return
        order = sorted(PLACES, key=lambda place: abs(place - position))

        def fill() -> None:
            with suppress(RuntimeError):  # a server that has ended starts no more work
                for place in order:
                    for number, site in enumerate(self._sites):
                        if site.leaves_a_choice:
                            self._row(number, place).at(len(self._weights) - 1)

        threading.Thread(target=fill, daemon=True).start()
