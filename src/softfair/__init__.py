"""softfair: which k of n people get help this week, fairly, at the least cost in outcomes.

Examples
--------
>>> import numpy as np
>>> import softfair as sf
>>> cohort = sf.datasets.synthetic(n=100, seed=0)
>>> fitted = sf.SoftFair(c=10).fit(cohort, k=10, horizon=50)
>>> len(fitted.draw(0, np.zeros(100, int), np.random.default_rng(0)))
10

Every name is loaded when it is first used, so that ``import softfair`` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import POLICIES as _POLICIES

if TYPE_CHECKING:
    from . import datasets, estimate, indices, metrics, sampling, theory
    from .cohort import Cohort
    from .comparison import compare, frontier
    from .errors import Infeasible, InvalidInput, NotConverged, NotIndexable, SoftFairError
    from .kernels.threads import get_threads, set_threads
    from .policies import (
        EvenHanded,
        FairMyopic,
        FaWT,
        Fitted,
        Myopic,
        NoIntervention,
        Oracle,
        Policy,
        ProbFair,
        Random,
        RoundRobin,
        SoftFair,
        ThresholdWhittle,
        Whittle,
    )
    from .simulation import Result, simulate

__version__ = "0.1.0"

# The public names and the module that defines each; None means that the name is a module.
_HOME: dict[str, str | None] = {
    "datasets": None,
    "estimate": None,
    "indices": None,
    "metrics": None,
    "sampling": None,
    "theory": None,
    "Cohort": "cohort",
    "Infeasible": "errors",
    "InvalidInput": "errors",
    "NotConverged": "errors",
    "NotIndexable": "errors",
    "SoftFairError": "errors",
    "get_threads": "kernels.threads",
    "set_threads": "kernels.threads",
    "Fitted": "policies",
    "Policy": "policies",
    **dict.fromkeys(_POLICIES, "policies"),
    "Result": "simulation",
    "simulate": "simulation",
    "compare": "comparison",
    "frontier": "comparison",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'softfair' has no attribute {name!r}")
    home = _HOME[name]
    module = import_module(f".{home or name}", __name__)
    value = module if home is None else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])
