"""From a cohort to what each arm would gain from help, lambda_t(s).

Solvers: the priced dual; the same dual with a bonus for evenness, with promises, and with shares of
groups; the mean field of Algorithm 1; and Algorithm 1 itself.
"""

from .evenhanded import EvenHandedValues, solve_evenhanded
from .meanfield import solve_meanfield
from .paper import solve_paper
from .priced import solve_priced, upper_bound
from .promised import PromisedValues, promised_bound, solve_promised
from .realised import solve_for
from .shared import SharedValues, solve_shared
from .tradeoff import TradeoffBound, tradeoff_bound
from .values import Info, Values

__all__ = [
    "EvenHandedValues",
    "Info",
    "PromisedValues",
    "SharedValues",
    "TradeoffBound",
    "Values",
    "promised_bound",
    "solve_evenhanded",
    "solve_for",
    "solve_meanfield",
    "solve_paper",
    "solve_priced",
    "solve_promised",
    "solve_shared",
    "tradeoff_bound",
    "upper_bound",
]
