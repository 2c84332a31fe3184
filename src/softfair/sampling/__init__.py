"""The two sampling designs: how k of n arms are drawn from log-weights, and each arm's chance.

``successive`` (the paper)
    Draw one arm with probability w_i / sum w, remove it, repeat k times. Equivalently the first k
    of independent exponential clocks of rate w_i.
``joint`` (beyond the paper)
    Pr(set) proportional to the product of the weights of its members, over all sets of size k
    (conditional Poisson sampling). With w = exp(c lambda) this is the softmax over joint actions,
    so that Definition 1 of the paper holds for sets and not only for arms.

Accuracy of :func:`inclusion`. Below 1000 arms it is exact to 1e-10. From 1000 arms on, an O(n)
evaluation is used if its estimate of its relative error is below 5e-7 (`successive`; `joint` is
exact to 5e-12 throughout). The estimate exceeds that only if little is left to chance,
V = sum q (1 - q) of about 5 or less, because k or n - k is tiny or because a few arms outweigh all
others. Then the exact evaluation is used, which costs n times the width of the distribution of the
count at each of some fifty nodes (seconds at a million arms). It drops terms that sum to less than
1e-12, so that chances of that size keep few digits. Weights are rounded to a relative grid of
3.6e-12, so that the inclusion probabilities have exactly the order of the weights.

    asked      checks of arguments: design, multiplier, weights, generator
    in_parts   chances by sums over all arms, shard by shard
    chances    the chance of every arm to be drawn
    drawing    draws from arrays and from shards
    by_luck    draws where each arm brings its own random numbers
"""

from .asked import DESIGNS, Design, design_code, multiplier, new_key
from .by_luck import draw_by_luck, race_by_luck, top_by_luck
from .chances import inclusion, inclusion_of_top, inclusion_spread
from .drawing import draw, draw_spread

__all__ = [
    "DESIGNS",
    "Design",
    "design_code",
    "draw",
    "draw_by_luck",
    "draw_spread",
    "inclusion",
    "inclusion_of_top",
    "inclusion_spread",
    "multiplier",
    "new_key",
    "race_by_luck",
    "top_by_luck",
]
