"""How good estimates from a history are, and plans made from them.

Three things are measured: the share of true probabilities that the intervals contain, how often the
stated interval of a plan's gain contains the true gain, and how much benefit a plan loses compared
with a plan from the true probabilities.

Intervals and gains are measured in the worlds of `benchmarks.worlds`: CPAP patients or sorted
uniforms, with effects of contacts or without; first states tossed, or those after thirty weeks in
which nobody was contacted; a share of the weeks not recorded. A true value counts as inside an
interval if it is within .001 of it: the CPAP chances are clipped at .999, the last digit published.
The output compares the coverage of the estimate with that of the exact posterior, which knows the
law of the people, and, if every week of CPAP patients was recorded, with that of a learner, which
knows all of the law but five numbers (`benchmarks.exact`).

The loss is measured on n patients of the CPAP cohort, a tenth of them contacted each week, drawn
at random. The plan is SoftFair(c=10) by `priced`, with gains from the estimates, simulated on the
true patients with the same random numbers as the plan made from the truth.

The loss is given in % of the good rounds, and in % of the gain over contacting nobody, which is a
small part of the good rounds. Two parts of the loss are not due to the estimator:

- At the same c a plan from estimates is more even than a plan from the truth, since shrunk gains
  differ less. So the loss is also given at the c for which the plan from estimates is as even as
  the plan from the truth (equal entropy of the contacts).
- The truth includes how well each patient responds to a contact (5-50 %, drawn for each patient). A
  few contacts with each person tell little about this. So the output also has the loss, equally
  even, of the exact posterior mean, computed from the law that the cohort is drawn from, which no
  programme knows. No estimate from this history can do better on average, apart from the cost of
  planning with means.

This command prints only the coverage, cell by cell, for some cells of the grid with several cohorts
in each:

    python -m benchmarks.estimation [cells] [cohorts] [kind,kind] [words of a cell]
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

import softfair as sf
from softfair.estimate import Estimate, count_transitions, estimate, read_histories
from softfair.kernels.worth import plan_worth
from softfair.policies.base import Fitted
from softfair.programme.models import UNIT, Model
from softfair.programme.outlook import Reach, SiteCohort, weigh
from softfair.programme.sample import RESPONSES

from .exact import BANK, LEVEL, exact_posterior, inside, learner
from .worlds import Floats, Ints, World

SMALL = bool(os.environ.get("BENCH_SMALL"))
WEEKS = (10, 30, 100)
KINDS = ("cpap", "synthetic")
LEARNT = 1000  # the largest cohort for the learner, which takes seconds for every 100 people
PEOPLE = 100  # of a cohort, for the exact posterior and the learner
# The c at which the plan from estimates is tried, from more even to less.
STEEPER = (10.0, 14.0, 20.0, 30.0, 50.0, 80.0)
Row = tuple[str, float, str, float | None]


@dataclass(frozen=True)
class Loss:
    """Coverage and losses on one cohort with a history of some weeks, each as a share."""

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
class Judged:
    """Coverage and width of the intervals of one cohort, by action and state."""

    inside: Floats  # [2, 2] share of true chances inside
    width: Floats  # [2, 2] mean width


def judged(world: World, seed: tuple[int, ...]) -> dict[str, Judged]:
    """Intervals of one cohort by estimate, exact posterior and, where it can, the learner."""
    rng = np.random.default_rng(seed)
    p = world.people(rng)
    record = world.record(p, rng)
    fitted = estimate(read_histories(*record.columns(), n=world.n, S=2), level=LEVEL)
    m = min(world.n, PEOPLE)
    bank = world.drawn(2_000 if SMALL else BANK, 10_000_000)
    ends = {
        "estimate": (fitted.low[..., 1], fitted.high[..., 1]),
        "exact": exact_posterior(world, bank, record.of(m))[1:],
    }
    if world.kind == "cpap" and not world.missing and world.n <= LEARNT and not SMALL:
        ends["learner"] = learner(world, record, seed[-1], m)[1:]
    return {
        who: Judged(inside(low, high, p[: len(low)]).mean(axis=0), (high - low)[:m].mean(axis=0))
        for who, (low, high) in ends.items()
    }


def worlds(kinds: Sequence[str], cells: int) -> Iterator[tuple[int, World]]:
    """Cells of the grid drawn at random, with their numbers."""
    sizes = (100, 300) if SMALL else (100, 300, 1000, 3000)
    grid = list(
        itertools.product(
            kinds, sizes, (4, 10, 30), (True, False), (0.0, 0.2, 0.4), (0.02, 0.1), (1.0, 0.0)
        )
    )
    for number in np.random.default_rng(7).permutation(len(grid))[:cells].tolist():
        yield number, World(*grid[number])


def coverage(
    cells: int,
    cohorts: int,
    kinds: Sequence[str] = KINDS,
    named: str = "",
    show: bool = False,
) -> list[Row]:
    """Coverage of each chance in each kind of world, over cells of the grid drawn at random.

    Only cells whose description contains ``named`` are taken. With ``show``, each cell is printed.
    """
    by_kind: dict[str, dict[World, list[dict[str, Judged]]]] = {}
    for number, world in worlds(kinds, cells):
        if named not in f"{world.kind}, {world}":
            continue
        all_of = [
            judged(replace(world, law=1000 * number + cohort), (7, number, cohort))
            for cohort in range(cohorts)
        ]
        by_kind.setdefault(world.kind, {})[world] = all_of
        if show:
            print(cell_line(world, all_of), flush=True)
    rows: list[Row] = []
    for kind, of_cells in sorted(by_kind.items()):
        for a, s in itertools.product((0, 1), (0, 1)):
            rows += coverage_rows(f"p{a}{s}, {kind}", of_cells, (a, s))
    return rows


def cell_line(world: World, cohorts: list[dict[str, Judged]]) -> str:
    """The coverage of p00, p01, p10, p11 in one cell, in %, with standard errors over cohorts."""
    parts = [f"{world.kind}, {world}"]
    for who in cohorts[0]:
        shares = 100 * np.stack([one[who].inside.ravel() for one in cohorts])
        width = np.sum([one[who].width.ravel() for one in cohorts], axis=0)
        exact = np.sum([one["exact"].width.ravel() for one in cohorts], axis=0)
        text = " ".join(f"{one.mean():3.0f}{error(one)}" for one in shares.T)
        if who != "exact":
            text += ", width " + " ".join(f"{ratio:.1f}" for ratio in width / exact)
        parts.append(f"{who} {text}")
    return " | ".join(parts)


def error(shares: Floats) -> str:
    """The standard error of a mean over cohorts, if there are several.

    People of a cohort are not independent trials: an error about a class affects all its people.
    """
    if len(shares) < 2:
        return ""
    return f"±{shares.std(ddof=1) / np.sqrt(len(shares)):.0f}"


def coverage_rows(
    what: str, of_cells: Mapping[World, list[dict[str, Judged]]], at: tuple[int, int]
) -> list[Row]:
    """Rows for one chance: the mean coverage of all cells, the least cell, and cells far off."""

    def means(who: str) -> dict[World, float]:
        return {
            world: 100 * float(np.mean([one[who].inside[at] for one in cohorts]))
            for world, cohorts in of_cells.items()
            if who in cohorts[0]
        }

    def width(who: str) -> float:
        cohorts = [one for all_of in of_cells.values() if who in all_of[0] for one in all_of]
        ratios = [one[who].width[at] / one["exact"].width[at] for one in cohorts]
        return float(np.median(ratios))

    ours, exact, told = means("estimate"), means("exact"), means("learner")
    least = min(ours, key=lambda world: ours[world])
    values, of_exact = np.array(list(ours.values())), np.array(list(exact.values()))
    shares = np.array([100 * one["estimate"].inside[at] for one in of_cells[least]])
    rows: list[Row] = [
        (
            f"coverage of {what}, {len(values)} cells of {len(shares)} cohorts",
            float(values.mean()),
            f"% of people; by the exact posterior {of_exact.mean():.1f}",
            None,
        ),
        (
            f"   the least cell: {least}",
            ours[least],
            f"%{error(shares)}; by the exact posterior {exact[least]:.1f}",
            None,
        ),
    ]
    for named, off in (("below 85", values < 85), ("above 95", values > 95)):
        by_exact = of_exact < 85 if named == "below 85" else of_exact > 95
        rows.append(
            (
                f"   cells {named} %",
                100 * float(off.mean()),
                f"%; by the exact posterior {100 * by_exact.mean():.0f}",
                None,
            )
        )
    rows.append(("   width, median of cohorts", width("estimate"), "times the exact one's", None))
    if told:
        mine = np.mean([ours[world] for world in told])
        rows.append(
            (
                f"   where the learner can ({len(told)} cells)",
                float(mine),
                f"%; by the learner {np.mean(list(told.values())):.1f}, its least cell "
                f"{min(told.values()):.1f}, its width {width('learner'):.1f} times the exact one's",
                None,
            )
        )
    return rows


def stated_gains(programmes: int) -> list[Row]:
    """How often the true gain of a plan lies in the stated interval, and the mean stated gain.

    Half of the programmes have a column that has no meaning.
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
            record = world.record(p, rng)
            worker = np.array([f"w{i % 6}" for i in range(world.n)])
            columns = {"worker": worker} if number % 4 < 2 else None
            read = read_histories(*record.columns(), n=world.n, S=2)
            model = _model(estimate(read, columns=columns, level=LEVEL))
            cohort = SiteCohort(sf.Cohort(model.P, start=record.now), 30, 26, np.arange(world.n))
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
    summary: Any = None  # nothing reads it here
    return Model(0, "", 0, summary, fitted.P, low, high, seen, fitted.bound, draws)


def _true_gain(cohort: SiteCohort, p: Floats) -> float:
    """The gain of the plan at c = 10 over contacting nobody, if p [n, 2, 2] is the truth."""
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
    """Seconds to read a history and to estimate from the history and twenty columns."""
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
    """person, round, state, contacted [n weeks], sorted; each week has k random contacts."""
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
    """Mean total reward and mean entropy of the contacts.

    The plan is made for the believed cohort and simulated on the true cohort.
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
    arguments = [*sys.argv[1:], *("72", "1", ",".join(KINDS), "")[len(sys.argv) - 1 :]]
    asked = int(arguments[0]), int(arguments[1]), arguments[2].split(","), arguments[3]
    for what, value, unit, _ in coverage(*asked, show=True):
        print(f"{what}: {value:.1f} {unit}")
