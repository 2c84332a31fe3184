"""What can be wrong with an input or a result, said with place, count and remedy.

Every message is one line: what is wrong, where, how many, what to do. Doubt is typed and carries its number.
"""

from __future__ import annotations

__all__ = ["Infeasible", "InvalidInput", "NotConverged", "NotIndexable", "SoftFairError"]


class SoftFairError(Exception):
    """The root of every error and warning that softfair raises on purpose."""


class InvalidInput(SoftFairError, ValueError):
    """An input that cannot be used; the message names the place, counts the offenders and says what to do."""


class Infeasible(InvalidInput):
    """A request that no plan can meet; the message carries the inequality that fails."""


class NotIndexable(InvalidInput):
    """Arms without a Whittle index: their passive set does not grow with the subsidy."""


class NotConverged(SoftFairError, UserWarning):
    """A solver stopped short of its tolerance. It is issued as a warning; turn it into an error with
    ``warnings.simplefilter("error", softfair.NotConverged)``."""

    def __init__(self, what: str, gap: float, tolerance: float, remedy: str) -> None:
        super().__init__(f"{what}: the gap is {gap:.3g}, the tolerance {tolerance:.3g}; {remedy}")
        self.gap = gap
        self.tolerance = tolerance
        self._args = (what, gap, tolerance, remedy)

    def __reduce__(self) -> tuple[type[NotConverged], tuple[str, float, float, str]]:
        return type(self), self._args  # a warning raised in a worker process must survive the trip home
