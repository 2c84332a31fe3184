"""Policies side by side: benefit, fairness and what fairness costs, as data frames.

Let R be the total reward of a policy in a run, and R_none and R_oracle the total rewards without
intervention and with the Oracle, with the same random numbers. Benefit is
100 mean(R - R_none) / mean(R_oracle - R_none). The denominator of ``of_bound`` is the certificate
(`softfair.solvers.upper_bound`) less the exact value of helping nobody: no policy can expect more
than 100.

Every figure is a mean over runs, with the 95 % interval of that mean by Student's t. Runs of
different policies meet the same random numbers, so that differences between policies are paired by
run.

    figures    the figures of runs, each a mean with its interval
    referee    the runs and bounds against which all policies of a comparison are measured
    comparing  the tables
    table      a table for a person
"""

from .comparing import CURVE, compare, frontier, limit
from .figures import CONFIDENCE, Figures, Interval, Yardsticks, figures_of, mean_interval
from .table import table_of

__all__ = [
    "CONFIDENCE",
    "CURVE",
    "Figures",
    "Interval",
    "Yardsticks",
    "compare",
    "figures_of",
    "frontier",
    "limit",
    "mean_interval",
    "table_of",
]
