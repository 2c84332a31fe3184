"""The code of every rule by which kernels, samplers, policies and solvers treat scores.

Each rule has one number throughout the package, so that a number cannot mean different rules in
different kernels. Python code passes members of the enumeration; compiled functions are called
with ``int(member)``. numba accepts a member, too, but looking up its type takes 70 microseconds a
call.
"""

from __future__ import annotations

from enum import IntEnum, unique

__all__ = ["RuleCode"]


@unique
class RuleCode(IntEnum):
    """How scores become a selection, or a chance.

    A selection of k arms is made by SUCCESSIVE, JOINT, TOP or ROUNDED
    (:func:`softfair.kernels.draws.select`). The chance of one arm given a number theta a step is
    PRICED, JOINT, SUCCESSIVE or HARD (:mod:`softfair.kernels.recursion`).
    """

    SUCCESSIVE = 0  # one arm after another, by softmax over those left (the paper's design)
    JOINT = 1  # softmax over sets of k arms (conditional Poisson sampling)
    TOP = 2  # the k highest scores, ties at random
    ROUNDED = 3  # scores are chances that sum to k; dependent rounding
    PRICED = 4  # soft Bellman equation at a price
    HARD = 5  # maximum in place of the soft maximum: the dual bound
