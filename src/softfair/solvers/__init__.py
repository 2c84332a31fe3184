"""From a cohort to what each arm would gain from help, lambda_t(s).

Three solvers: the priced dual, the mean field of Algorithm 1, and Algorithm 1 itself.
"""

from .meanfield import solve_meanfield
from .paper import solve_paper
from .priced import solve_priced, upper_bound
from .values import Info, Values

__all__ = ["Info", "Values", "solve_meanfield", "solve_paper", "solve_priced", "upper_bound"]
