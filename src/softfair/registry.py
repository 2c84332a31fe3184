"""The names of all policies, in one place.

``softfair/__init__.py``, the command line and the tests read the names from here. This module
imports nothing heavy, so that ``import softfair`` stays fast; the classes are in
`softfair.policies`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["POLICIES", "Entry"]


@dataclass(frozen=True)
class Entry:
    """A policy on the command line.

    Parameters
    ----------
    name : str
        Name of the class in `softfair.policies`.
    parameter : str, optional
        The main parameter, whose value may follow the name after a colon, as c in SoftFair:10; None
        if there is none.
    usual : float or str, optional
        The value of the main parameter if no parameters are given. If it is a float, the parameter
        is a number.

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
