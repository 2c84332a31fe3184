"""softfair: which k of n people get help this week, fairly, at the least cost in outcomes.

Examples
--------
>>> import numpy as np
>>> import softfair as sf
>>> cohort = sf.datasets.synthetic(n=100, seed=0)
>>> fitted = sf.SoftFair(c=10).fit(cohort, k=10, horizon=50)
>>> len(fitted.draw(0, np.zeros(100, int), np.random.default_rng(0)))
10

Every name is loaded on first use, so that ``import softfair`` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import POLICIES as _POLICIES

if TYPE_CHECKING:
    from . import (
        costs,
        datasets,
        estimate,
        indices,
        metrics,
        quotas,
        reserves,
        sampling,
        testing,
        theory,
    )
    from .cohort import Cohort
    from .comparison import compare, frontier
    from .errors import (
        ClusterError,
        Infeasible,
        InvalidInput,
        NotConverged,
        NotIndexable,
        SoftFairError,
    )
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
        Rule,
        SoftFair,
        ThresholdWhittle,
        Whittle,
        load,
    )
    from .shards import open_cohort
    from .simulation import Result, simulate

__version__ = "0.1.0"

# The public names and the module that defines each; None means that the name is a module.
_HOME: dict[str, str | None] = {
    "costs": None,
    "datasets": None,
    "estimate": None,
    "indices": None,
    "metrics": None,
    "quotas": None,
    "reserves": None,
    "sampling": None,
    "testing": None,
    "theory": None,
    "Cohort": "cohort",
    "ClusterError": "errors",
    "Infeasible": "errors",
    "InvalidInput": "errors",
    "NotConverged": "errors",
    "NotIndexable": "errors",
    "SoftFairError": "errors",
    "get_threads": "kernels.threads",
    "set_threads": "kernels.threads",
    "Fitted": "policies",
    "Policy": "policies",
    "Rule": "policies",
    **dict.fromkeys(_POLICIES, "policies"),
    "load": "policies",
    "Result": "simulation",
    "simulate": "simulation",
    "open_cohort": "shards",
    "compare": "comparison",
    "frontier": "comparison",
}

# The list is written out, because type checkers cannot follow a computed list; a test compares it
# with _HOME.
__all__ = [
    "ClusterError",
    "Cohort",
    "EvenHanded",
    "FaWT",
    "FairMyopic",
    "Fitted",
    "Infeasible",
    "InvalidInput",
    "Myopic",
    "NoIntervention",
    "NotConverged",
    "NotIndexable",
    "Oracle",
    "Policy",
    "ProbFair",
    "Random",
    "Result",
    "RoundRobin",
    "Rule",
    "SoftFair",
    "SoftFairError",
    "ThresholdWhittle",
    "Whittle",
    "compare",
    "costs",
    "datasets",
    "estimate",
    "frontier",
    "get_threads",
    "indices",
    "load",
    "metrics",
    "open_cohort",
    "quotas",
    "reserves",
    "sampling",
    "set_threads",
    "simulate",
    "testing",
    "theory",
]


if not TYPE_CHECKING:  # because with this function, a type checker would accept any name

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
