"""The two sampling designs: how k of n arms are drawn from log-weights, and each arm's chance.

``successive`` (the paper)
    Draw one arm with probability w_i / sum w, remove it, repeat k times. Equivalently the first k
    of independent exponential clocks of rate w_i.
``joint`` (beyond the paper)
    Pr(set) proportional to the product of the weights of its members, over all sets of size k
    (conditional Poisson sampling). With w = exp(c lambda) this is the softmax over joint actions,
    so that Definition 1 of the paper holds for sets and not only for arms.

Accuracy of :func:`inclusion`. Below 1000 arms it is exact to 1e-10. From 1000 arms on an O(n)
evaluation is used where its own estimate of its relative error is below 5e-7 (`successive`; `joint`
is exact to 5e-12 throughout). The estimate exceeds that only where little is left to chance,
V = sum q (1 - q) of about 5 or less, because k or n - k is tiny or because a few arms outweigh all
others. There the exact evaluation is used, which costs n times the width of the distribution of the
count at each of some fifty nodes (seconds at a million arms). It drops what is below 1e-12 in all,
so that chances of that size keep few digits. Weights are rounded to a relative grid of 3.6e-12,
which makes the order of the inclusion probabilities equal to the order of the weights to the bit.

    asked      what callers ask for, checked
    in_parts   chances by sums over all arms, shard by shard
    chances    everybody's chance to be drawn
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
