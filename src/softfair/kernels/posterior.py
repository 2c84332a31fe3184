"""Each person's posterior given draws of the population: sums over the weights of the atoms.

Arrays are laid out as in `chains`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .chains import SUMS, bridge, log_joint, normalise, places_of_gaps
from .elementary import COMPILE
from .logits import fill_rows, fill_starts

__all__ = ["posterior_sums"]


@njit(**SUMS)
def _dot(r, row):
    """sum r row."""
    total = 0.0
    for q in range(len(r)):
        total += r[q] * row[q]
    return total


@njit(**COMPILE)
def _fill_bins(P, B, bins):
    """Fill bins [2, C, H, Q] with the bin, of B on the scale u / (u + v), of each row's entries.

    Of each row only the last H entries have bins.
    """
    _, C, S, _ = P.shape
    H = bins.shape[2]
    for a in range(2):
        for c in range(C):
            for j in range(H):
                chance, row = P[a, c, S - H + j], bins[a, c, j]
                for q in range(len(chance)):
                    up, down = math.sqrt(chance[q]), math.sqrt(1.0 - chance[q])
                    row[q] = np.int32(min(up / (up + down) * B, B - 1.0))


@njit(**COMPILE)
def posterior_sums(
    low,
    high,
    data,
    longest,
    atoms,
    log_weight,
    shift,
    settled,
    coin,
    unseen,
    share,
    uniform,
    mean,
    histogram,
    drawn,
):
    """Add the posterior of persons low..high - 1 given one draw of the population.

    ``uniform`` [n] is indexed by person; ``shift`` [m, D] and the arrays that are filled are
    indexed by i - low. With r the posterior weights of the atoms, sum r P is added to ``mean``
    [m, 2, C, S]. To ``histogram`` [m, 2, C, H, B], r is added in the bins of the last H entries of
    each row, on the scale u / (u + v) with u^2 = P, v^2 = 1 - P. ``drawn`` [m, 2, C, S - 1] is
    filled with the P of one atom, which the uniform number of the person chooses.
    """
    Q, C, S = atoms.shape[1], len(coin), len(unseen)
    P, logP = np.empty((3, C, S, Q)), np.empty((2, C, S, Q))
    Z, start, log_start = np.empty((C, C, Q)), np.empty((C, Q)), np.empty((C, Q))
    f, factor, r = np.empty((longest + 1, C, Q)), np.empty(Q), np.empty(Q)
    B, H = histogram.shape[-1], histogram.shape[3]
    bins = np.empty((2, C, H, Q), np.int32)
    place, kind_at = places_of_gaps(low, high, data[2], data[3], len(data[5]))
    log_gap, filled_for = np.empty((len(kind_at), Q)), np.full(len(kind_at), -1)
    tables = P, start, unseen, share, f, factor, log_gap
    block = low
    for i in range(low, high):
        if i == low or (shift[i - low] != shift[block - low]).any():
            block = i
            fill_rows(atoms, shift[i - low], share, P, logP)
            fill_starts(P, data[9], settled, coin, Z, start, log_start)
            _fill_bins(P, B, bins)
        bridge(i, data, place, tables, block, filled_for)
        log_joint(i, data, place, logP, log_start, log_gap, log_weight, r)
        normalise(r)
        left, chosen = uniform[i], Q - 1
        for q in range(Q):
            left -= r[q]
            if left < 0.0:
                chosen = q
                break
        for a in range(2):
            for c in range(C):
                for s2 in range(S):
                    mean[i - low, a, c, s2] += _dot(r, P[a, c, s2])
                for j in range(S - 1):
                    drawn[i - low, a, c, j] = P[a, c, j + 1, chosen]
                for j in range(H):
                    bin_of, weights = bins[a, c, j], histogram[i - low, a, c, j]
                    for q in range(Q):
                        weights[bin_of[q]] += r[q]
