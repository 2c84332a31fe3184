"""The `meanfield` solver: the fixed point of Algorithm 1 without sampling.

Each arm's state distribution is carried forward, all states' values backward, and one number theta_t a step makes k the expected count:

    V_t(s) = pi Q_t(s, 1) + (1 - pi) Q_t(s, 0),    pi = 1 - exp(-exp(c lambda - theta_t))    (successive)
                                                   pi = sigmoid(c lambda - theta_t)         (joint)

Two or three passes reach what 300 episodes reach. Values of a steep policy are steep in theta: from c of about 10 on a fixed point may
not be found, and the gap is reported. Learning with c_value = 1 and drawing with c (Figure 3a's trick) has no such trouble.
"""

from __future__ import annotations

from ..cohort import Cohort
from ..kernels import recursion
from ..sampling import Design
from .priced import learning_multiplier, settled
from .values import PriceValues

__all__ = ["solve_meanfield"]


def solve_meanfield(
    cohort: Cohort,
    k: int,
    horizon: int,
    gamma: float,
    c: float,
    design: Design,
    tolerance: float = 1e-8,
) -> PriceValues:
    """The mean-field fixed point of the design; values are learnt at `learning_multiplier`."""
    rule = recursion.SUCCESSIVE if design == "successive" else recursion.JOINT
    return settled(
        cohort, k, horizon, gamma, learning_multiplier(cohort, c), rule, tolerance, "meanfield"
    )
