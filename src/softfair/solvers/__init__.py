"""From a cohort to what each arm would gain from help, lambda_t(s): Algorithm 1 of the paper, its mean field, and the priced dual."""

from .meanfield import solve_meanfield
from .paper import solve_paper
from .priced import solve_priced, upper_bound
from .values import Info, Values

__all__ = ["Info", "Values", "solve_meanfield", "solve_paper", "solve_priced", "upper_bound"]
