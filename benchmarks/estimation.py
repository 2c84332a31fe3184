"""How good a plan made from a history is.

Three things are measured: how many true probabilities the intervals contain, how often the stated
interval of a plan's gain contains what it truly gains, and how much benefit is lost against a plan
made from the true probabilities.

Intervals and gains are measured in worlds written down here (`World`): CPAP patients or sorted
uniforms, with effects of contacts or without; first states tossed, or those after thirty weeks in
which nobody was contacted; a share of the weeks not recorded. A true value counts as inside an
interval if it is within .001 of it: the CPAP chances are clipped at .999, the last digit published.

The loss is measured on n patients of the CPAP cohort, a tenth of them contacted each week, drawn
at random. The plan is SoftFair(c=10) by `priced`, with gains from the estimates, simulated on the
true patients with the same random numbers as the plan made from the truth.

The loss is given in good rounds, and in the gain over contacting nobody, which is a small part of
them. Two parts of the loss are not due to the estimator:

- At the same c a plan from estimates is the more even one, since shrunk gains differ less. So the
  loss is also given at the c for which this plan is as even as the plan from the truth (equal
  entropy of who was contacted).
- The truth includes how well each patient responds to a contact (5-50 %, drawn for each), of which
  a few contacts a person say little. So the loss is also given, equally even, of the exact
  posterior mean, computed from the law that the cohort is drawn from, which no programme knows.
  Nobody who has seen only this history can do better on average, apart from what planning with
  means costs.

The coverage alone, of some cells of the grid with several cohorts in each, is printed by

    python -m benchmarks.estimation [cells] [cohorts]
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import softfair as sf
from softfair.estimate import Estimate, count_transitions, estimate, read_histories
from softfair.kernels.worth import plan_worth
from softfair.policies.base import Fitted
from softfair.programme.models import UNIT, Model
from softfair.programme.outlook import Reach, SiteCohort, weigh
from softfair.programme.sample import RESPONSES

SMALL = bool(os.environ.get("BENCH_SMALL"))
WEEKS = (10, 30, 100)
LEVEL = 0.9  # of the intervals
# The c at which the plan from estimates is tried, from more even to less.
STEEPER = (10.0, 14.0, 20.0, 30.0, 50.0, 80.0)
Row = tuple[str, float, str, float | None]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Loss:
    """What one cohort's history of some weeks gave, each as a share."""

    covered: float  # probabilities inside their intervals
    rounds: float  # good rounds lost at the same c
    benefit: float  # benefit beyond no contact lost at the same c
    as_even: float  # the same at the c of equal entropy
    unavoidable: float  # the same by the exact posterior mean


def estimation() -> list[Row]:
    """Coverage and losses after each number of weeks, and the time of an estimate."""
    n, cohorts, runs = (200, 1, 20) if SMALL else (1000, 4, 100)
    rows: list[Row] = []
    for weeks in WEEKS:
        losses = [astuple(loss(n, weeks, runs, seed)) for seed in range(cohorts)]
        percent = Loss(*(100 * np.mean(losses, axis=0)).tolist())
        rows += [
            (
                f"coverage of {LEVEL:.0%} intervals, CPAP, {weeks} weeks",
                percent.covered,
                "% of probabilities",
                None,
            ),
            (
                f"good rounds lost to not knowing, same c, {weeks} weeks",
                percent.rounds,
                "% of the plan from the truth",
                5,
            ),
            (
                f"   benefit beyond no contact, same c, {weeks} weeks",
                percent.benefit,
                "% of the plan from the truth",
                None,
            ),
            ("   the same, equally even", percent.as_even, "%", None),
            ("   by the exact posterior, equally even", percent.unavoidable, "%", None),
            (
                "   by this estimator beyond that",
                percent.as_even - percent.unavoidable,
                "points",
                None,
            ),
        ]
    return [*rows, *coverage(12 if SMALL else 72, 1), *stated_gains(6 if SMALL else 60), speed()]


@dataclass(frozen=True)
class World:
    """How people are and how their history was recorded."""

    kind: str
    n: int
    weeks: int
    settled: bool
    missing: float
    contacts: float
    effect: float  # share of the data set's effects: 0 where contacts do nothing

    def __str__(self) -> str:
        """The cell of the grid in words, without its kind."""
        return (
            f"{self.n} people, {self.weeks} weeks, {'settled' if self.settled else 'tossed'}, "
            f"{self.missing:.0%} missing, {self.contacts:.0%} contacted, "
            f"{'effects' if self.effect else 'no effects'}"
        )

    def people(self, rng: np.random.Generator) -> Floats:
        """True chances p [n, 2, 2]."""
        seed = int(rng.integers(2**30))
        if self.kind == "cpap":
            p = sf.datasets.cpap(self.n, seed=seed, **RESPONSES).p.copy()
        else:
            p = sf.datasets.synthetic(self.n, seed=seed).p.copy()
        p[:, 1] = p[:, 0] + self.effect * (p[:, 1] - p[:, 0])
        return p

    def record(self, p: Floats, rng: np.random.Generator) -> tuple[tuple[Ints, ...], Ints]:
        """person, round, state, contacted [n weeks], and the states after the last week [n]."""
        n, everybody = self.n, np.arange(self.n)
        s = rng.integers(0, 2, n)
        for _ in range(30 if self.settled else 0):
            s = (rng.random(n) < p[everybody, 0, s]).astype(np.int64)
        state, contacted = np.empty((2, n, self.weeks), np.int64)
        for week in range(self.weeks):
            state[:, week], contacted[:, week] = s, rng.random(n) < self.contacts
            s = (rng.random(n) < p[everybody, contacted[:, week], s]).astype(np.int64)
        state[rng.random(state.shape) < self.missing] = -1
        rounds = np.tile(np.arange(self.weeks), n)
        return (np.repeat(everybody, self.weeks), rounds, state.ravel(), contacted.ravel()), s


def covered_shares(world: World, seed: tuple[int, ...]) -> Floats:
    """Share [2, 2] of one cohort's true chances p, by action and state, inside their intervals."""
    rng = np.random.default_rng(seed)
    p = world.people(rng)
    fitted = estimate(read_histories(*world.record(p, rng)[0], n=world.n, S=2), level=LEVEL)
    low, high = fitted.low[..., 1] - 0.001, fitted.high[..., 1] + 0.001
    return np.asarray(((low <= p) & (p <= high)).mean(axis=0))


def coverage(cells: int, cohorts: int) -> list[Row]:
    """Coverage of each chance in each kind of world, over cells of the grid drawn at random."""
    sizes = (100, 300) if SMALL else (100, 300, 1000, 3000)
    grid = list(
        itertools.product(
            ("cpap", "synthetic"), sizes, (4, 10, 30), (True, False), (0.0, 0.2, 0.4),
            (0.02, 0.1), (1.0, 0.0),
        )
    )  # fmt: skip
    by_kind: dict[str, dict[World, Floats]] = {}
    for number in np.random.default_rng(7).permutation(len(grid))[:cells].tolist():
        world = World(*grid[number])
        shares = [covered_shares(world, (7, number, cohort)) for cohort in range(cohorts)]
        by_kind.setdefault(world.kind, {})[world] = np.stack(shares)
    rows: list[Row] = []
    for kind, of_cells in sorted(by_kind.items()):
        for a, s in itertools.product((0, 1), (0, 1)):
            shares_of = {world: shares[:, a, s] for world, shares in of_cells.items()}
            rows += coverage_rows(f"p{a}{s}, {kind}", shares_of)
    return rows


def coverage_rows(what: str, shares_of: dict[World, Floats]) -> list[Row]:
    """What cells have in common and how far single ones are off, from shares [cohorts] of each.

    People of a cohort are no independent trials: those of a class share what is not known of it.
    So the standard error of a cell is that of a mean over cohorts, if there are several.
    """
    mean = {world: 100 * float(shares.mean()) for world, shares in shares_of.items()}
    least = min(mean, key=lambda world: mean[world])
    shares, values = 100 * shares_of[least], np.array(list(mean.values()))
    error = ""
    if len(shares) > 1:
        error = f" +- {shares.std(ddof=1) / np.sqrt(len(shares)):.1f}"
    return [
        (
            f"coverage of {what}, {len(values)} cells of {len(shares)} cohorts",
            float(values.mean()),
            "% of people",
            None,
        ),
        (f"   the least cell: {least}", mean[least], f"%{error}", None),
        ("   cells below 85 %", 100 * float((values < 85).mean()), "%", None),
        ("   cells above 95 %", 100 * float((values > 95).mean()), "%", None),
    ]


def stated_gains(programmes: int) -> list[Row]:
    """How often the true gain of a plan lies in the stated interval, and what is stated.

    Half of the programmes know a column of people that has no meaning.
    """
    rng = np.random.default_rng(8)
    rows: list[Row] = []
    worlds = {"contacts help": 1.0, "contacts help a little": 0.2, "contacts do nothing": 0.0}
    for named, effect in worlds.items():
        inside, stated, true = [], [], []
        for number in range(programmes // len(worlds)):
            kind = ("cpap", "synthetic")[number % 2]
            world = World(kind, 300, (4, 10, 20)[number % 3], bool(number % 2), 0.05, 0.1, effect)
            p = world.people(rng)
            recorded, now = world.record(p, rng)
            worker = np.array([f"w{i % 6}" for i in range(world.n)])
            columns = {"worker": worker} if number % 4 < 2 else None
            read = read_histories(*recorded, n=world.n, S=2)
            model = _model(estimate(read, columns=columns, level=LEVEL))
            cohort = SiteCohort(sf.Cohort(model.P, start=now), 30, 26, np.arange(world.n))
            gain, _ = weigh([cohort], 10.0, model, LEVEL, Reach(0, 0))
            assert gain is not None
            true.append(_true_gain(cohort, p))
            stated.append(gain.value)
            inside.append(gain.low <= true[-1] <= gain.high)
        rows += [
            (
                f"true gain inside the stated {LEVEL:.0%} interval, {named}",
                100 * float(np.mean(inside)),
                f"% of {len(inside)} programmes",
                None,
            ),
            (f"   stated gain, {named}", float(np.mean(stated)), "good rounds", None),
            (f"   true gain, {named}", float(np.mean(true)), "good rounds", None),
        ]
    return rows


def _model(fitted: Estimate) -> Model:
    """The estimate as a programme stores it."""
    draws = np.rint(fitted.draws * UNIT).astype(np.uint16)
    low, high = fitted.low.astype(np.float32), fitted.high.astype(np.float32)
    seen = fitted.seen.astype(np.int32)
    summary: Any = None  # that nobody reads here
    return Model(0, "", 0, summary, fitted.P, low, high, seen, fitted.bound, draws)


def _true_gain(cohort: SiteCohort, p: Floats) -> float:
    """What the plan at c = 10 gains over no contact, if p [n, 2, 2] is the truth."""
    P, some = np.stack([1 - p, p], axis=-1), cohort.cohort
    gained, now = np.empty((2, some.n))
    for part, by_layer in cohort.chances(10.0):
        assert len(part) == some.n
        chance, left = by_layer[:, :, None], np.ones(some.n, np.int64)  # one layer: no promise
        plan_worth(0, some.n, P, chance, left, 1.0, some.start, some.reward, gained, now)
    return float(gained.sum())


def loss(n: int, weeks: int, runs: int, seed: int) -> Loss:
    """The losses on one cohort, with a plan for T = 20 decisions and k = n / 10."""
    k, T = n // 10, 20
    truth = sf.datasets.cpap(n, seed=seed, **RESPONSES)
    counts = count_transitions(*history(truth, weeks, k, seed), n=n, S=2)
    fitted = estimate(read_histories(*history(truth, weeks, k, seed), n=n, S=2), level=LEVEL)
    none = float(sf.simulate(sf.NoIntervention().fit(truth, k, T), runs, seed).totals.mean())
    best, evenness = outcome(truth, truth, k, T, STEEPER[0], runs, seed)

    def tried(P: Floats) -> list[tuple[float, float]]:  # (reward, entropy) at each c
        return [outcome(truth, sf.Cohort(P), k, T, c, runs, seed) for c in STEEPER]

    def lost_as_even(outcomes: list[tuple[float, float]]) -> float:
        reward, entropy = np.array(outcomes[::-1]).T
        return float(1 - (np.interp(evenness, entropy, reward) - none) / (best - none))

    by_estimate = tried(fitted.P)
    by_posterior = tried(posterior_mean(counts, 2_000 if SMALL else 20_000))
    return Loss(
        covered=float(((fitted.low <= truth.P) & (fitted.high >= truth.P)).mean()),
        rounds=1 - by_estimate[0][0] / best,
        benefit=1 - (by_estimate[0][0] - none) / (best - none),
        as_even=lost_as_even(by_estimate),
        unavoidable=lost_as_even(by_posterior),
    )


def speed() -> Row:
    """Seconds to read a history and to estimate from it and from twenty columns."""
    n, weeks = (10_000 if SMALL else 100_000), 52
    recorded = history(sf.datasets.cpap(n, seed=0, **RESPONSES), weeks, n // 10, 0)
    numbers = np.random.default_rng(0).normal(size=(20, n))
    columns = {f"x{j}": column for j, column in enumerate(numbers)}
    estimate(read_histories([0], [0], [0], [0], n=1, S=2))  # compiles
    begun = time.perf_counter()
    estimate(read_histories(*recorded, n=n, S=2), columns=columns)
    return (
        f"read and estimate, n = {n:,}, {weeks} weeks, 20 columns",
        time.perf_counter() - begun,
        "seconds",
        30,
    )


def history(truth: sf.Cohort, weeks: int, k: int, seed: int) -> tuple[Ints, Ints, Ints, Ints]:
    """person, round, state, contacted [n weeks], sorted: k contacts a week at random."""
    rng = np.random.default_rng([seed, weeks])
    n = truth.n
    state, contacted = np.empty((n, weeks), np.int64), np.zeros((n, weeks), np.int64)
    state[:, 0] = rng.integers(0, 2, n)
    for week in range(weeks):
        contacted[rng.choice(n, k, replace=False), week] = 1
        if week + 1 < weeks:
            state[:, week + 1] = (
                rng.random(n) < truth.p[np.arange(n), contacted[:, week], state[:, week]]
            )
    return (
        np.repeat(np.arange(n), weeks),
        np.tile(np.arange(weeks), n),
        state.ravel(),
        contacted.ravel(),
    )


def outcome(
    truth: sf.Cohort, believed: sf.Cohort, k: int, T: int, c: float, runs: int, seed: int
) -> tuple[float, float]:
    """Mean total reward and mean entropy of who was contacted.

    The plan is made for the cohort believed in and simulated on the true one.
    """
    plan = sf.SoftFair(c=c).fit(believed, k, T)
    acting = Fitted(plan.policy, truth, k, T, 1.0, plan.rule, plan._scorer)
    result = sf.simulate(acting, runs, seed)
    return float(result.totals.mean()), float(np.mean(sf.metrics.action_entropy(result.counts)))


def posterior_mean(counts: Ints, draws: int) -> Floats:
    """Posterior mean of P [n, 2, 2, 2] under the law that the CPAP cohort is drawn from.

    Many patients drawn from that law are weighted by their likelihood.
    """
    p = sf.datasets.cpap(draws, seed=10_000, **RESPONSES).p.reshape(draws, 4)
    bad, good = counts[..., 0].reshape(-1, 4), counts[..., 1].reshape(-1, 4)  # [n, 4]
    log_weight = good @ np.log(p).T + bad @ np.log1p(-p).T  # [n, draws]
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    mean = (weight @ p / weight.sum(axis=1, keepdims=True)).reshape(-1, 2, 2)
    return np.stack([1 - mean, mean], axis=-1)


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:]]
    for what, value, unit, _ in coverage(*asked, *(72, 1)[len(asked) :]):
        print(f"{what}: {value:.1f} {unit}")
