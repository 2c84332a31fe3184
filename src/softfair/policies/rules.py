"""How scores become a selection of k arms, and where scores come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..costs import draw as draw_within
from ..costs import draw_top
from ..costs import inclusion as inclusion_within
from ..costs import inclusion_of_top as inclusion_of_top_within
from ..errors import InvalidInput
from ..kernels import draws
from ..kernels.rules import RuleCode
from ..sampling import Design, design_code, inclusion, inclusion_of_top, multiplier, new_key

__all__ = ["Rows", "Rule", "SameRow"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rule:
    """How scores become a selection of k arms.

    Make one with :meth:`top`, :meth:`rounding` or :meth:`softmax`.

    Parameters
    ----------
    code : RuleCode
        TOP, ROUNDED, SUCCESSIVE or JOINT.
    c : float
        Multiplier of the scores in the two designs; ``math.inf`` with TOP.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.policies.rules import Rule
    >>> Rule.softmax(0.0, "joint").inclusion(np.array([3.0, 1.0]), 1)
    array([0.5, 0.5])
    >>> Rule.softmax(float("inf"), "joint") == Rule.top()
    True
    """

    code: RuleCode
    c: float

    @classmethod
    def top(cls) -> Rule:
        """The k highest scores, ties at random."""
        return cls(RuleCode.TOP, math.inf)

    @classmethod
    def rounding(cls) -> Rule:
        """Scores are chances that sum to k; dependent rounding keeps them exactly."""
        return cls(RuleCode.ROUNDED, 1.0)

    @classmethod
    def softmax(cls, c: float, design: Design) -> Rule:
        """A sampling design with log-weights c times the scores.

        A c that counts as infinite (:func:`softfair.sampling.multiplier`) gives :meth:`top`.
        """
        code, c = design_code(design), multiplier(c)
        return cls.top() if math.isinf(c) else cls(code, c)

    def inclusion(self, scores: Floats, k: int, cost: Ints | None = None) -> Floats:
        """Pr(arm i is chosen) [n]; sums to k, or with costs the expected cost is at most k."""
        if cost is not None:
            if math.isinf(c := self.c_of_lists):
                return inclusion_of_top_within(scores, cost, k)
            return inclusion_within(c * scores, cost, k)
        if self.code is RuleCode.TOP:
            return inclusion_of_top(scores, k)
        if self.code is RuleCode.ROUNDED:
            return scores.copy()
        design: Design = "successive" if self.code is RuleCode.SUCCESSIVE else "joint"
        return inclusion(self.c * scores, k, design)

    @property
    def c_of_lists(self) -> float:
        """c for lists of arms that have costs; ``math.inf`` for the list of the best arms.

        Raises InvalidInput if the rule has no law of such lists.
        """
        if self.code not in (RuleCode.TOP, RuleCode.JOINT):
            raise InvalidInput(
                f"arms have costs, and the rule {self.code.name} has no law of lists for them; "
                "take Rule.top() or Rule.softmax(c, 'joint')"
            )
        return self.c

    def draw(
        self, scores: Floats, k: int, rng: np.random.Generator, cost: Ints | None = None
    ) -> Ints:
        """k arms, sorted; with costs, arms that cost at most k."""
        if cost is not None:
            if math.isinf(c := self.c_of_lists):
                return draw_top(scores, cost, k, rng)
            return draw_within(c * scores, cost, k, rng)
        scores = np.ascontiguousarray(scores)
        chosen, scratch = np.empty(len(scores), np.uint8), np.empty(3 * len(scores))
        draws.select(scores, self.c, int(self.code), k, new_key(rng), scratch, chosen)
        return np.flatnonzero(chosen)


class Rows(Protocol):
    """Scores of every arm in every state, a few decisions at a time."""

    def rows(self, first: int, count: int) -> Floats:
        """Scores at decisions first, ..., first + count - 1.

        The shape is [count, n, S], or [1, n, S] if one row serves all decisions.
        """
        ...


@dataclass(frozen=True, eq=False)
class SameRow:
    """Scores that do not change with time.

    Parameters
    ----------
    row : ndarray [n, S]
        The score of each arm in each state.

    Examples
    --------
    >>> import numpy as np
    >>> from softfair.policies.rules import SameRow
    >>> SameRow(np.zeros((3, 2))).rows(5, 10).shape
    (1, 3, 2)
    """

    row: Floats

    def rows(self, first: int, count: int) -> Floats:
        """The same row whatever the decisions: [1, n, S]."""
        return self.row[None]
