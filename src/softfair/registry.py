"""The names of all policies, in one place.

The front door ``softfair``, the command line and the tests read them here. The module imports
nothing heavy, so that ``import softfair`` stays light; the classes are in `softfair.policies`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["POLICIES", "Entry"]


@dataclass(frozen=True)
class Entry:
    """A policy as the command line names it.

    Parameters
    ----------
    name : str
        Name of the class in `softfair.policies`.
    parameter : str, optional
        Keyword that may follow the name after a colon, as c in SoftFair:10; None if nothing may.
    usual : float or str, optional
        Its value if there is no colon. A float says that the parameter is a number.

    Examples
    --------
    >>> from softfair.registry import POLICIES
    >>> POLICIES["SoftFair"]
    Entry(name='SoftFair', parameter='c', usual=10.0)
    """

    name: str
    parameter: str | None = None
    usual: float | str | None = None


POLICIES = {
    entry.name: entry
    for entry in (
        Entry("NoIntervention"),
        Entry("Random"),
        Entry("RoundRobin"),
        Entry("Myopic"),
        Entry("Oracle"),
        Entry("ThresholdWhittle"),
        Entry("FairMyopic", "c", 1.0),
        Entry("Whittle", "horizon", "infinite"),
        Entry("FaWT", "window", 20.0),
        Entry("ProbFair", "low", 0.0),
        Entry("SoftFair", "c", 10.0),
        Entry("EvenHanded", "mu", 100.0),
    )
}
