"""Lists of arms within a budget: the law of complete lists, its chances and draws, and the best.

Help for arm i costs b_i, a whole number. A list is complete if it costs at most B and no other arm
would still fit. Pr(list) is proportional to the product of e^{x_i} over its arms. Sort the arms by
cost. Let f be the first arm that is left out, v its cost, and A the cost of the arms before f, all
of which are in. The list is complete if and only if it costs more than B - v and at most B. So,
given f, a set of the arms after f is possible if it brings the total into that range, and

    R_i(z) = log sum over sets of arms i, i + 1, ... of e^{sum of x} [B - v < z + cost <= B]
    R_i(z) = log(e^{R_{i+1}(z)} + e^{x_i + R_{i+1}(z + b_i)})

is the log-weight of all completions by arms i, i + 1, ... if z is already spent. The weight of f is
the product of the weights of the arms before f, times e^{R_{f+1}(A)}. Logarithms are used so that
no weight underflows. The work is of the order of n B for each cost that f can have. Rows R_i are
kept for every block of sqrt(n) arms and computed again within a block: memory O(sqrt(n) B).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .elementary import COMPILE, INSIDE, exp_upto_, log1p_, mix, uniform

__all__ = ["chances", "choose_best", "choose_runs", "choose_within"]

NOTHING = -1e300  # stands for the logarithm of 0
SETTLED = 1e-14  # relative width of the bracket of the shift
MOST_STEPS = 200  # of the search for the shift


@njit(**INSIDE)
def _add(a, b):
    """log(e^a + e^b)."""
    return max(a, b) + log1p_(exp_upto_(-abs(a - b)))


@njit(**COMPILE)
def _shift(log_weights, cost, budget):
    """theta with sum of cost sigmoid(log_weight - theta) = budget, between 0 and all costs."""
    total, low, high = 0.0, np.inf, -np.inf
    for i in range(len(cost)):
        total += cost[i]
        low, high = min(low, log_weights[i]), max(high, log_weights[i])
    base = np.log((total - budget) / budget)
    low, high = low + base, high + base
    theta = 0.5 * (low + high)
    for _ in range(MOST_STEPS):
        spent, slope = 0.0, 0.0
        for i in range(len(cost)):
            u = exp_upto_(-abs(log_weights[i] - theta))
            w = 1.0 / (1.0 + u)
            chance = w if log_weights[i] >= theta else u * w
            spent += cost[i] * chance
            slope += cost[i] * chance * (1.0 - chance)
        if spent > budget:
            low = theta
        else:
            high = theta
        if high - low <= SETTLED * max(1.0, abs(low), abs(high)):
            break
        guess = theta + (spent - budget) / slope if slope > 0.0 else low
        step = abs(guess - theta)
        theta = guess if low < guess < high else 0.5 * (low + high)
        if low < guess < high and step <= SETTLED * max(1.0, abs(theta)):
            break
    return theta


@njit(**COMPILE)
def _sorted_arms(log_weights, cost, budget):
    """Arms that fit alone, by cost; their costs; log-weights less the shift; whether all fit."""
    order = np.argsort(cost, kind="mergesort")
    fit = 0
    total = 0
    for i in order:
        if cost[i] > budget:
            break
        fit += 1
        total += cost[i]
    order = order[:fit]
    b, x = cost[order], log_weights[order]
    all_fit = total <= budget
    if not all_fit:
        x = x - _shift(x, b, budget)
    return order, b, x, all_fit


@njit(**INSIDE)
def _back(row, x, cost, out):
    """R_i from R_{i+1} = row, both [B + 1]."""
    spent_more = row[cost:]
    for z in range(len(spent_more)):
        out[z] = _add(row[z], x + spent_more[z])
    out[len(spent_more) :] = row[len(spent_more) :]


@njit(**INSIDE)
def _end(row, window):
    """R after the last arm: 0 if less than ``window`` of the budget is left, else NOTHING."""
    row[:] = NOTHING
    row[max(0, len(row) - window) :] = 0.0


@njit(**COMPILE)
def _first_left_out(b, x, budget):
    """For each arm f that may be the first left out: log-weight of these lists, cost before f.

    Also the sum of the log-weights of the arms before f. All three are [n].
    """
    n = len(b)
    log, before = np.full(n, NOTHING), np.empty(n, np.int64)
    weight = np.empty(n)
    spent, sum_x = 0, 0.0
    for f in range(n):
        before[f], weight[f] = spent, sum_x
        spent += b[f]
        sum_x += x[f]
    row, other = np.empty(budget + 1), np.empty(budget + 1)
    low = 0
    while low < n and before[low] <= budget:
        high = np.searchsorted(b, b[low], side="right")
        _end(row, b[low])
        for f in range(n - 1, low - 1, -1):
            if f < high and before[f] <= budget:
                log[f] = weight[f] + row[before[f]]
            _back(row, x[f], b[f], other)
            row, other = other, row
        low = high
    return log, before, weight


@njit(**COMPILE)
def _keep(b, x, budget, window, low, block):
    """R_i at i = block, 2 block, ... above ``low``, for one window: [n // block + 2, B + 1]."""
    n = len(b)
    kept = np.empty((n // block + 2, budget + 1))
    row, other = np.empty(budget + 1), np.empty(budget + 1)
    _end(row, window)
    kept[n // block + 1] = row  # R_n
    for i in range(n, low, -1):
        if i % block == 0:
            kept[i // block] = row
        _back(row, x[i - 1], b[i - 1], other)
        row, other = other, row
    return kept


@njit(**COMPILE)
def _fill_block(b, x, kept, j, block, rows):
    """Fill rows [block, B + 1] with R_{j block + 1}, ..., R_{(j + 1) block}, at most to R_n."""
    n = len(b)
    last = min((j + 1) * block, n)
    rows[last - j * block - 1] = kept[j + 1] if last % block == 0 else kept[n // block + 1]
    for i in range(last - 1, j * block, -1):
        _back(rows[i - j * block], x[i], b[i], rows[i - j * block - 1])


@njit(**INSIDE)
def _block_size(n):
    """Arms between two rows that are kept."""
    return max(1, int(np.sqrt(n)))


@njit(**COMPILE)
def _log_sum(log):
    """log of the sum of e^log."""
    top = log.max()
    total = 0.0
    for value in log:
        total += exp_upto_(value - top)
    return top + np.log(total)


@njit(**COMPILE)
def chances(log_weights, cost, budget, out):
    """Fill out [n] with Pr(arm i is on the list)."""
    order, b, x, all_fit = _sorted_arms(log_weights, cost, budget)
    out[:] = 0.0
    for i in order:
        out[i] = 1.0
    if all_fit:
        return
    n, block = len(b), _block_size(len(b))
    log, before, weight = _first_left_out(b, x, budget)
    all_lists = _log_sum(log)
    chance = np.zeros(n)
    later = 0.0  # chance that the first arm left out comes after i
    for i in range(n - 1, -1, -1):
        chance[i] = later
        later += np.exp(log[i] - all_lists)
    rows = np.empty((block, budget + 1))
    forward, other = np.empty(budget + 1), np.empty(budget + 1)
    low = 0
    while low < n and before[low] <= budget:
        kept = _keep(b, x, budget, b[low], low, block)
        # Log-weight of the choices so far that have spent z and left out a first arm.
        forward[:] = NOTHING
        for i in range(low, n):
            if i == low or i % block == 0:
                _fill_block(b, x, kept, i // block, block, rows)
            after, offset = rows[i % block][b[i] :], x[i] - all_lists
            for z in range(len(after)):
                chance[i] += exp_upto_(forward[z] + after[z] + offset)
            other[: b[i]] = forward[: b[i]]
            reached, longer = other[b[i] :], forward[b[i] :]
            for z in range(len(reached)):
                reached[z] = _add(longer[z], x[i] + forward[z])
            forward, other = other, forward
            if b[i] == b[low] and before[i] <= budget:
                forward[before[i]] = _add(forward[before[i]], weight[i])
        low = np.searchsorted(b, b[low], side="right")
    for i in range(n):
        out[order[i]] = min(1.0, chance[i])


@njit(**COMPILE)
def choose_within(log_weights, cost, budget, key, chosen):
    """Draw a complete list: chosen [n] is 1 for the arms on it, else 0."""
    order, b, x, all_fit = _sorted_arms(log_weights, cost, budget)
    chosen[:] = 0
    if all_fit:
        for i in order:
            chosen[i] = 1
        return
    n, block = len(b), _block_size(len(b))
    log, before, _ = _first_left_out(b, x, budget)
    first, luck = 0, uniform(key, len(cost)) * np.exp(_log_sum(log) - log.max())
    for f in range(n):
        luck -= np.exp(log[f] - log.max())
        if log[f] > NOTHING / 2:
            first = f
        if luck < 0.0:
            break
    for i in range(first):
        chosen[order[i]] = 1
    spent = before[first]
    kept = _keep(b, x, budget, b[first], first, block)
    rows = np.empty((block, budget + 1))
    for i in range(first + 1, n):
        if i == first + 1 or i % block == 0:
            _fill_block(b, x, kept, i // block, block, rows)
        if spent + b[i] > budget:
            break
        after = rows[i % block]
        log_odds = x[i] + after[spent + b[i]] - after[spent]  # that arm i is on the list
        u = exp_upto_(-abs(log_odds))
        chance = (1.0 if log_odds >= 0.0 else u) / (1.0 + u)
        if uniform(key, order[i]) < chance:
            chosen[order[i]] = 1
            spent += b[i]


@njit(**COMPILE)
def choose_best(scores, cost, budget, key, chosen):
    """Go from the highest score down and choose each arm that still fits.

    Of equal scores, the lower cost comes first; between equal costs a random number decides.
    """
    n = len(scores)
    luck = np.empty(n)
    for i in range(n):
        luck[i] = uniform(key, i)
    order = np.argsort(luck)
    order = order[np.argsort(cost[order], kind="mergesort")]
    order = order[np.argsort(-scores[order], kind="mergesort")]
    chosen[:] = 0
    left = budget
    for i in order:
        if cost[i] <= left:
            chosen[i] = 1
            left -= cost[i]


@njit(**COMPILE)
def choose_runs(low, high, scores, c, best, cost, budget, step, keys, chosen):
    """Fill chosen [runs, n] with the lists of runs [low, high) at one decision, from scores."""
    for run in range(low, high):
        key = mix(keys[run], 2 * step + 1)
        if best:
            choose_best(scores[run], cost, budget, key, chosen[run])
        else:
            choose_within(c * scores[run], cost, budget, key, chosen[run])
