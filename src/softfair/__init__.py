"""softfair: which k of n people get help this week, fairly, at the least cost in outcomes, with proof.

    import softfair as sf
    cohort = sf.datasets.synthetic(n=100, seed=0)
    fitted = sf.SoftFair(c=10).fit(cohort, k=10, horizon=50)
    fitted.draw(0, states, rng)

Everything is loaded when it is first asked for: ``import softfair`` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

# The contract: where each public name lives. None: the name is a module.
_HOME = {
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
    "EvenHanded": "policies",
    "FaWT": "policies",
    "FairMyopic": "policies",
    "Fitted": "policies",
    "Myopic": "policies",
    "NoIntervention": "policies",
    "Oracle": "policies",
    "Policy": "policies",
    "ProbFair": "policies",
    "Random": "policies",
    "RoundRobin": "policies",
    "SoftFair": "policies",
    "ThresholdWhittle": "policies",
    "Whittle": "policies",
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
    value = (
        import_module(f".{name}", __name__)
        if home is None
        else getattr(import_module(f".{home}", __name__), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])
