"""The `meanfield` solver: the fixed point of Algorithm 1 without sampling.

The state distribution of each arm is carried forward, the values of all states are carried
backward, and at each step one number theta_t makes the expected count of active arms equal to k:

    V_t(s) = pi Q_t(s, 1) + (1 - pi) Q_t(s, 0)                                          (Eq. 5)
    pi = 1 - exp(-exp(c lambda - theta_t))    (successive)
    pi = sigmoid(c lambda - theta_t)          (joint)

Two or three passes do the work of 300 episodes. The larger c, the more sharply values depend on
theta: from c of about 10 on, a fixed point may not be found, and a warning gives the gap. Learning
with c_value = 1 and drawing with c, as in Figure 3a of the paper, does not have this difficulty.
"""

from __future__ import annotations

from ..cluster import Crew
from ..cohort import Cohort, refuse_costs
from ..sampling import Design, design_code
from .budget import Budget
from .priced import balanced_values, learning_multiplier
from .values import PriceValues

__all__ = ["solve_meanfield"]


def solve_meanfield(
    cohort: Cohort,
    k: Budget,
    horizon: int,
    gamma: float,
    c: float,
    design: Design,
    tolerance: float = 1e-8,
    crew: Crew | None = None,
) -> PriceValues:
    """The mean-field fixed point of the design.

    Parameters
    ----------
    cohort : Cohort
        The arms.
    k : int or array_like [T]
        Arms helped at every decision, or one number for each decision.
    horizon : int
        Number of decisions T.
    gamma : float
        Discount.
    c : float
        Multiplier; values are learnt at :func:`softfair.solvers.priced.learning_multiplier`.
    design : {"successive", "joint"}
        Sampling design.
    tolerance : float
        Relative gap between expected and allowed active arms that is accepted at every step.
    crew : Crew, optional
        The workers that compute on the shards of the cohort; None means this process.

    Returns
    -------
    PriceValues
        The gains. If the tolerance was not reached, there is a NotConverged warning.

    Examples
    --------
    >>> import softfair as sf
    >>> from softfair.solvers import solve_meanfield
    >>> cohort = sf.datasets.synthetic(n=20, seed=0)
    >>> solve_meanfield(cohort, 2, 10, 1.0, 3.0, "successive").info.converged
    True
    """
    if design != "joint":
        refuse_costs(cohort, f"design={design!r}")
    multiplier, rule = learning_multiplier(cohort, c), design_code(design)
    return balanced_values(
        cohort, k, horizon, gamma, multiplier, rule, tolerance, "meanfield", crew
    )
