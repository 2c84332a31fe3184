"""The cost of learning during a programme that starts without a history and fits every round.

n people are drawn from a law of `benchmarks.worlds.World`. In the first round only their states are
known. In each of T rounds, each way of planning sees all states and contacts so far, scores people
for the rounds that remain (at most HORIZON), and lists k of them by the joint design. The lists of
all ways are equally even: c is set in each round so that the law of one place of the list has the
entropy of equal chances for the share SPREAD of the people. So two ways differ in whom they prefer,
not in how strongly.

Ways of planning:

- **random**: the same score for everybody;
- **means**: gains of people whose probabilities are the posterior means;
- **averaged**: gains averaged over joint draws from the posterior, at prices common to all draws;
- **Thompson**: gains of one joint draw from the posterior, drawn anew in each round;
- **optimistic**: gains if a contact works as well as the interval of each person allows: the upper
  ends with a contact, the lower ends without (as in UCWhittle, with credible intervals);
- **exact posterior**: posterior means under the law that the people are drawn from, which no
  programme knows;
- **truth**: gains from the true probabilities.

The gain of a way is its number of good rounds beyond those with nobody contacted. The output has
it in % of the gain of `truth` over the same people, first states and random numbers of moves, with
the 95 % interval of the difference from `truth` over cohorts (Student), and for each quarter of the
rounds. The last line compares the ways with `means`, in the same points.

    python -m benchmarks.learning [cohorts]
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import t as student

import softfair as sf
from softfair.estimate import Estimate, count_transitions, estimate, read_histories
from softfair.sampling import draw, inclusion

from .worlds import World

T, HORIZON, C = 48, 20, 10.0
SPREAD = 0.5  # of the people: lists are as even as if this share of them had equal chances
LIBRARY = 20_000  # people drawn from the law, whose weighted mean is the exact posterior mean
QUARTERS = 4
WORLDS = (
    World("cpap", 300, T, True, 0.0, 0.0, 1.0),
    World("synthetic", 300, T, True, 0.0, 0.0, 1.0),
)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Seen:
    """The history so far: states [n, t + 1] and contacts [n, t]."""

    def __init__(self, start: Ints) -> None:
        self.state, self.contacted = start[:, None], np.empty((len(start), 0), np.int64)

    def add(self, contacted: Ints, after: Ints) -> None:
        self.contacted = np.column_stack([self.contacted, contacted])
        self.state = np.column_stack([self.state, after])

    @property
    def now(self) -> Ints:
        return self.state[:, -1]

    @property
    def rounds(self) -> int:
        return self.contacted.shape[1]

    def fit(self) -> Estimate:
        rows = as_rows(self.state, self.contacted)
        return estimate(read_histories(*rows, n=len(self.state), S=2))

    def moves(self) -> Ints:
        """Counts [n, 2, 2, 2] of moves by action, state and next state."""
        rows = as_rows(self.state, self.contacted)
        return count_transitions(*rows, n=len(self.state), S=2)


def as_rows(state: Ints, contacted: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """person, round, state, contacted, from states [n, t + 1] and contacts [n, t]."""
    n, rounds = state.shape
    person, round_ = np.divmod(np.arange(n * rounds), rounds)
    return person, round_, state.ravel(), np.hstack([contacted, np.full((n, 1), -1)]).ravel()


class Posterior:
    """Posterior means under the law that people are drawn from, their first states included."""

    def __init__(self, world: World) -> None:
        many = World(world.kind, LIBRARY, T, world.settled, 0.0, 0.0, world.effect)
        p = many.people(np.random.default_rng(10_000))
        good = np.full(LIBRARY, 0.5)
        for _ in range(30 if world.settled else 0):
            good = good * p[:, 0, 1] + (1 - good) * p[:, 0, 0]
        self.p, self.first = p.reshape(LIBRARY, 4), np.stack([1 - good, good])  # [2, LIBRARY]

    def means(self, seen: Seen) -> Floats:
        """P [n, 2, 2, 2]."""
        counts = seen.moves()
        bad, good = counts[..., 0].reshape(-1, 4), counts[..., 1].reshape(-1, 4)
        log_weight = good @ np.log(self.p).T + bad @ np.log1p(-self.p).T
        log_weight += np.log(self.first)[seen.state[:, 0]]
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        return full((weight @ self.p / weight.sum(axis=1, keepdims=True)).reshape(-1, 2, 2))


def full(p: Floats) -> Floats:
    """P [..., 2, 2, 2] from chances p [..., 2, 2] of the good state."""
    return np.stack([1 - p, p], axis=-1)


def gains(P: Floats, now: Ints, k: int, rounds_left: int) -> Floats:
    """Gains [n] of people with probabilities P [n, 2, 2, 2] in states now."""
    fitted = sf.SoftFair(c=C).fit(sf.Cohort(P, start=now), k, min(HORIZON, rounds_left))
    return np.asarray(fitted.scores(0, now))


def averaged(fitted: Estimate, now: Ints, k: int, rounds_left: int) -> Floats:
    """Gains [n] averaged over the draws, each draw of a person being an arm of one cohort."""
    L = len(fitted.draws)
    P = full(fitted.draws[..., 0].astype(np.float64)).reshape(-1, 2, 2, 2)
    return gains(P, np.tile(now, L), k * L, rounds_left).reshape(L, -1).mean(axis=0)


def optimistic(fitted: Estimate, now: Ints, k: int, rounds_left: int) -> Floats:
    """Gains [n] if contacts work as well as the intervals allow."""
    p = np.stack([fitted.low[:, 0, :, 1], fitted.high[:, 1, :, 1]], axis=1)
    return gains(full(p), now, k, rounds_left)


def as_even(score: Floats, k: int) -> Floats:
    """Log-weights [n], scores times a c, such that the joint design is as even as SPREAD asks."""
    n = len(score)
    wanted = math.log(max(SPREAD * n, k))

    def excess(log_c: float) -> float:
        q = inclusion(math.exp(log_c) * score, k, "joint") / k
        return float(-np.sum(q * np.log(np.maximum(q, 1e-300)))) - wanted

    # Equal scores are perfectly even at any c: then the greatest c is taken.
    low, high = -5.0, 25.0 - math.log(max(float(np.ptp(score)), 1e-9))
    return math.exp(brentq(excess, low, high) if excess(high) < 0 else high) * score


WAYS = ("random", "means", "averaged", "Thompson", "optimistic", "exact posterior", "truth")


def scores(
    way: str, seen: Seen, p: Floats, posterior: Posterior, k: int, rng: np.random.Generator
) -> Floats:
    """Scores [n] by which a way lists people."""
    now, left = seen.now, T - seen.rounds
    if way == "random":
        return np.zeros(len(p))
    if way == "truth":
        return gains(full(p), now, k, left)
    if way == "exact posterior":
        return gains(posterior.means(seen), now, k, left)
    fitted = seen.fit()
    if way == "means":
        return gains(fitted.P, now, k, left)
    if way == "averaged":
        return averaged(fitted, now, k, left)
    if way == "optimistic":
        return optimistic(fitted, now, k, left)
    drawn = fitted.draws[rng.integers(len(fitted.draws)), ..., 0].astype(np.float64)
    return gains(full(drawn), now, k, left)


def good_rounds(way: str, p: Floats, start: Ints, luck: Floats, posterior: Posterior) -> Floats:
    """The number of people in the good state after each round [T]; luck [T, n] decides moves."""
    n, k = len(p), len(p) // 10
    rng = np.random.default_rng([len(way), *start[:30].tolist()])
    seen, good = Seen(start), np.empty(T)
    for t in range(T):
        contacted = np.zeros(n, np.int64)
        if way != "nobody":
            score = scores(way, seen, p, posterior, k, rng)
            weights = as_even(score, k) if np.ptp(score) else np.zeros(n)
            contacted[draw(weights, k, rng, "joint")] = 1
        after = (luck[t] < p[np.arange(n), contacted, seen.now]).astype(np.int64)
        seen.add(contacted, after)
        good[t] = after.sum()
    return good


def learning(world: World, cohorts: int) -> None:
    """Print the gain of each way."""
    posterior = Posterior(world)
    curves = np.empty((cohorts, len(WAYS), T))  # gains over nobody contacted
    for number in range(cohorts):
        rng = np.random.default_rng([11, number])
        p = world.people(rng)
        start = World(world.kind, world.n, 1, world.settled, 0.0, 0.0, 1.0).record(p, rng).now
        luck = rng.random((T, world.n))
        nothing = good_rounds("nobody", p, start, luck, posterior)
        for w, way in enumerate(WAYS):
            curves[number, w] = good_rounds(way, p, start, luck, posterior) - nothing
        print(f"{world.kind}: {number + 1} of {cohorts}", file=sys.stderr, flush=True)
    totals = curves.sum(axis=2)  # [cohorts, ways]
    truth = totals[:, -1].mean()
    by_quarter = curves.reshape(cohorts, len(WAYS), QUARTERS, T // QUARTERS)
    print(f"{world.kind}, n = {world.n}, k = {world.n // 10}, {T} rounds, {cohorts} cohorts:")
    for w, way in enumerate(WAYS):
        lost = 100 * (totals[:, -1] - totals[:, w]) / truth
        half = student.ppf(0.975, cohorts - 1) * lost.std(ddof=1) / math.sqrt(cohorts)
        quarters = 100 * by_quarter[:, w].sum(axis=(0, 2)) / by_quarter[:, -1].sum(axis=(0, 2))
        shares = " ".join(f"{share:6.1f}" for share in quarters)
        print(f"  {way:16s} {100 - lost.mean():6.1f} +- {half:4.1f} % of truth; quarters {shares}")
    rest = [f"{way} {_paired(totals, way, truth)}" for way in WAYS[2:6]]
    print(f"  beyond means: {'; '.join(rest)}", flush=True)


def _paired(totals: Floats, way: str, truth: float) -> str:
    """The gain of a way beyond that of `means`, in points, with its interval."""
    more = 100 * (totals[:, WAYS.index(way)] - totals[:, WAYS.index("means")]) / truth
    half = student.ppf(0.975, len(more) - 1) * more.std(ddof=1) / math.sqrt(len(more))
    return f"{more.mean():+.1f} +- {half:.1f}"


if __name__ == "__main__":
    for one in WORLDS:
        learning(one, int(sys.argv[1]) if len(sys.argv) > 1 else 20)
