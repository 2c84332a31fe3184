"""From a cohort to what each arm would gain from help, lambda_t(s).

Four solvers: the priced dual, the same with a bonus for evenness, the mean field of Algorithm 1,
and Algorithm 1 itself.
"""

from .evenhanded import EvenHandedValues, solve_evenhanded, solve_for_entropy
from .meanfield import solve_meanfield
from .paper import solve_paper
from .priced import solve_priced, upper_bound
from .tradeoff import TradeoffBound, tradeoff_bound
from .values import Info, Values

__all__ = [
    "EvenHandedValues",
    "Info",
    "TradeoffBound",
    "Values",
    "solve_evenhanded",
    "solve_for_entropy",
    "solve_meanfield",
    "solve_paper",
    "solve_priced",
    "tradeoff_bound",
    "upper_bound",
]
