"""The chance of every arm to be drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cluster import Spread
from ..errors import whole
from ..kernels import expansion
from ..kernels.inclusion import joint_inclusion, successive_inclusion
from ..kernels.order import clip_decided
from ..kernels.rules import RuleCode
from ..kernels.shift import guess_shift
from .asked import Design, design_code, refuse_nan, vector
from .in_parts import COARSE, LARGE, inclusion_in_parts

__all__ = ["inclusion", "inclusion_of_top", "inclusion_spread"]

EXACT_BELOW = 1000  # arms
# Relative error of the evaluation in time O(n) that is accepted below EXACT_BELOW arms.
FINE = 1e-10

Floats = NDArray[np.float64]


def inclusion(log_weights: ArrayLike, k: int, design: Design = "successive") -> Floats:
    """Probability that each arm is among the k drawn.

    Parameters
    ----------
    log_weights : array_like [n]
        Logarithms of the weights; infinite entries are allowed.
    k : int
        Number of arms drawn, 0 <= k <= n.
    design : {"successive", "joint"}
        Sampling design, see :mod:`softfair.sampling`.

    Returns
    -------
    ndarray [n]
        Pr(a_i = 1); it sums to k and has the order of the weights.

    Raises
    ------
    InvalidInput
        A log-weight is not a number, k is not between 0 and n, or the design is unknown.

    Examples
    --------
    With k = 1 the chances are the softmax; with k = 2 they are less uneven.

    >>> import numpy as np
    >>> import softfair as sf
    >>> sf.sampling.inclusion(np.log([0.5, 0.3, 0.2]), 1).round(6)
    array([0.5, 0.3, 0.2])
    >>> sf.sampling.inclusion(np.log([0.5, 0.3, 0.2]), 2, "joint").round(6)
    array([0.806452, 0.677419, 0.516129])
    """
    z, code = vector(log_weights), design_code(design)
    n = len(z)
    k = whole("k", k, 0, n, f", the arms are {n}")
    if k in (0, n):
        refuse_nan(z)
    return inclusion_spread(Spread.of(z), k, code)


def inclusion_spread(weights: Spread, k: int, code: RuleCode) -> Floats:
    """:func:`inclusion` of log-weights in shards.

    Parameters
    ----------
    weights : Spread
        Log-weights in shards; with TOP, scores.
    k : int
        Number of arms drawn, 0 <= k <= n.
    code : RuleCode
        SUCCESSIVE, JOINT or TOP.

    Returns
    -------
    ndarray [n]
        Pr(a_i = 1).

    Raises
    ------
    InvalidInput
        A log-weight is not a number.

    Notes
    -----
    The log-weights of all arms are gathered in one array only with TOP, below 32,768 arms, and if
    the O(n) evaluation is not accurate enough (see :mod:`softfair.sampling`).
    """
    n = weights.n
    if k in (0, n):
        return np.full(n, 1.0 if k else 0.0)
    if code is RuleCode.TOP:
        return inclusion_of_top(weights.gather(), k)
    out = np.empty(n)
    if n >= LARGE and inclusion_in_parts(weights, k, code, out):
        return out
    z = weights.gather()
    refuse_nan(z)
    clip_decided(z, k, out)
    top, tolerance = z.max(), FINE if n < EXACT_BELOW else COARSE
    guess = guess_shift(z, top, float(k))
    if code is RuleCode.SUCCESSIVE:
        _, exact = successive_inclusion(z, top, k, tolerance, guess, expansion.SERIES, out)
    else:
        _, exact = joint_inclusion(z, top, k, guess, out)
    if exact:
        # Rounding may have put chances of nearly equal weights out of order: raise each chance to
        # the largest chance of an arm whose weight is no larger.
        order = np.argsort(z)
        out[order] = np.maximum.accumulate(out[order])
    return out


def inclusion_of_top(scores: ArrayLike, k: int) -> Floats:
    """Inclusion of the rule "the k highest scores", ties broken at random.

    Parameters
    ----------
    scores : array_like [n]
        The numbers that rank the arms.
    k : int
        Number of arms chosen, 0 <= k <= n.

    Returns
    -------
    ndarray [n]
        1 above the k-th highest score, and 0 below it. Arms with exactly that score share the
        places that are left.

    Raises
    ------
    InvalidInput
        A score is not a number, or k is not between 0 and n.

    Examples
    --------
    >>> import softfair as sf
    >>> sf.sampling.inclusion_of_top([3, 1, 1, 0], 2)
    array([1. , 0.5, 0.5, 0. ])
    """
    values = vector(scores)
    refuse_nan(values)
    k = whole("k", k, 0, len(values), f", the arms are {len(values)}")
    if k == 0:
        return np.zeros(len(values))
    cut = np.partition(values, -k)[-k]
    above, tied = values > cut, values == cut
    share: Floats = above + tied * ((k - above.sum()) / tied.sum())
    return share
