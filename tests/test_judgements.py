"""Every verdict of the report in worlds where it holds, where it fails, and where it is open."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from worlds import World, outcome, rows

from softfair.experiments import judgements
from softfair.experiments.intervals import (
    FEWEST_COHORTS,
    Difference,
    all_above,
    cohort_means,
    difference,
    difference_of,
    summarise,
)
from softfair.experiments.outcomes import Outcome
from softfair.experiments.sections import SOLVERS

CLEAR = World(own=0.1, common=5.0)  # cohorts differ far more than policies on one cohort
BLURRED = World(own=200.0)
FEW = World(own=0.1, cohorts=FEWEST_COHORTS - 1)
PAPER, MEAN_FIELD, PRICED = SOLVERS
DECOUPLED = "SoftFair (c_value = 1)"


def of(column, **figures):
    """Figures of policies in one column; underscores stand for blanks."""
    return {name.replace("_", " "): {column: value} for name, value in figures.items()}


def solvers(column, value):
    return {solver: {column: value} for solver in SOLVERS}


# -- intervals


def test_the_interval_is_that_of_cohorts():
    table = rows({"x": {"benefit": 5.0}}, World(own=2.0, runs=3))
    table.loc[table["run"] == 1, "benefit"] += 7.0  # runs differ, and average out on each cohort
    found = summarise(table, "x", "benefit")
    means = table.groupby("instance")["benefit"].mean().to_numpy()
    half = stats.t.ppf(0.975, 7) * means.std(ddof=1) / math.sqrt(8)
    assert found.mean == pytest.approx(means.mean())
    assert (found.low, found.high) == pytest.approx((means.mean() - half, means.mean() + half))
    assert found.sd == pytest.approx(table["benefit"].std())
    assert found.cohorts == 8


def test_cohorts_count_alike_though_the_last_has_fewer_runs():
    table = rows({"x": {"benefit": 5.0}}, World(own=2.0, runs=3))
    short = table[~((table["instance"] == 7) & (table["run"] > 0))]
    assert cohort_means(short, "x", "benefit") == pytest.approx(cohort_means(table, "x", "benefit"))


def test_intervals_stay_within_what_a_figure_can_be():
    table = rows({"x": {"entropy": 0.01, "never_selected": 0.001}}, World(own=3.0))
    entropy, never = (summarise(table, "x", column) for column in ("entropy", "never_selected"))
    assert entropy.low == 0
    assert entropy.whiskers[0] == pytest.approx(entropy.mean)
    assert never.low == 0
    assert summarise(table, "x", "benefit").low < 0  # helping the wrong people can do harm


def test_too_few_cohorts_have_no_interval():
    table = rows({"x": {"benefit": 5.0}}, FEW)
    found = summarise(table, "x", "benefit")
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert found.text() == "5"
    assert found.whiskers == (0, 0)
    assert math.isnan(difference(table, "x", "x", "benefit").low)


def test_a_difference_is_paired_by_cohort():
    policies = of("benefit", a=51.0, b=50.0)
    table = rows(policies, World(own=0.1, common=20.0))
    a, b = (summarise(table, policy, "benefit") for policy in "ab")
    assert a.low < b.high  # apart, the two cannot be told from each other
    gap = difference(table, "a", "b", "benefit")
    values = cohort_means(table, "a", "benefit") - cohort_means(table, "b", "benefit")
    test = stats.ttest_rel(cohort_means(table, "a", "benefit"), cohort_means(table, "b", "benefit"))
    interval = test.confidence_interval(0.95)
    assert (gap.mean, gap.low, gap.high) == pytest.approx((values.mean(), *interval))
    assert gap.low > 0


def test_differences_across_experiments_of_the_same_cohorts():
    world = World(own=0.1, common=20.0)
    first, last = (rows(of("benefit", a=mean), world, str(mean)) for mean in (50.0, 52.0))
    assert difference(last, "a", "a", "benefit", first).mean == pytest.approx(2.0)
    assert all_above([difference(last, "a", "a", "benefit", first)]) == "yes"


def test_intervals_cover_at_the_level_they_state():
    # 2000 samples of 8: the share covered has a standard error of sqrt(.95 * .05 / 2000) = .0049.
    samples = np.random.default_rng(0).normal(3.0, 2.0, (2000, 8))
    covered = [d.low <= 3.0 <= d.high for d in map(difference_of, samples)]
    assert np.mean(covered) == pytest.approx(0.95, abs=4 * 0.0049)


def test_all_above():
    def gap(low, high):
        return Difference((low + high) / 2, low, high, 8)

    assert all_above([gap(1, 2), gap(0.1, 5)]) == "yes"
    assert all_above([gap(1, 2), gap(-0.1, 5)]) == "open"
    assert all_above([gap(-0.5, 2)], margin=-1) == "yes"
    assert all_above([gap(-3, -2), gap(1, 2)]) == "no"
    assert all_above([gap(-3, -2)], margin=-1) == "no"
    assert all_above([gap(1, 2), Difference(1.0, math.nan, math.nan, 3)]) == "few"
    assert all_above([]) == "few"


def test_one_of_many_comparisons_must_be_clearer_to_say_no():
    just = Difference(-1.0, -1.9, -0.1, 8)
    assert all_above([just]) == "no"
    assert all_above([just] + [Difference(1.0, 0.5, 1.5, 8)] * 20) == "open"
    # Bonferroni by hand: the half-width grows as the quantile of Student's t with 7 degrees.
    wider = 0.9 * stats.t.ppf(1 - 0.025 / 21, 7) / stats.t.ppf(0.975, 7)
    assert just.high_of(21) == pytest.approx(-1 + wider)


# -- judgements: (world, figures) -> how the verdict begins


def verdicts(judge, results):
    return [judgement.verdict for judgement in judge(results)]


def figure_1(half, fair, world):
    policies = of("never_selected", Threshold_Whittle=half, Whittle=half)
    return {"fig1": outcome("fig1", policies | solvers("never_selected", fair), world)}


@pytest.mark.parametrize(
    ("half", "fair", "world", "said"),
    [
        (0.5, 0.02, CLEAR, ("Reproduced: between 40 and 60 %", "Reproduced: fewer")),
        (0.8, 0.02, CLEAR, ("Not reproduced: the interval lies outside", "Reproduced: fewer")),
        (0.1, 0.02, CLEAR, ("Not reproduced: the interval lies outside", "Reproduced: fewer")),
        (0.5, 0.3, CLEAR, ("Reproduced: between", "Not reproduced: 10 % or more")),
        (0.2, 0.4, World(own=0.1), ("Not reproduced", "Not reproduced: 10 % or more")),
        # Under 10 %, but more than under the index policies.
        (0.02, 0.05, World(own=0.1), ("Not reproduced", "Not reproduced: 10 % or more, or no")),
        (0.5, 0.02, BLURRED, ("These runs cannot tell", "These runs cannot tell")),
        (0.61, 0.099, World(own=5.0), ("These runs cannot tell", "These runs cannot tell")),
        (0.5, 0.02, FEW, ("Too few runs to say", "Too few runs to say")),
    ],
)
def test_figure_1(half, fair, world, said):
    found = verdicts(judgements.judge_figure_1, figure_1(half, fair, world))
    for verdict, beginning in zip(found, said, strict=True):
        assert verdict.startswith(beginning), verdict


def figure_2(benefits, world, panel="fig2b", names=(5, 10, 20), myopic=80.0):
    rivals = of("benefit", Random=40.0, Myopic=myopic, FairMyopic=45.0)
    return {
        f"{panel}/{name}": outcome(f"{panel}/{name}", rivals | solvers("benefit", value), world)
        for name, value in zip(names, benefits, strict=True)
    }


@pytest.mark.parametrize(
    ("benefits", "world", "said"),
    [
        ((85.0, 90.0, 95.0), CLEAR, "Reproduced: leads in every setting"),
        ((85.0, 75.0, 95.0), CLEAR, "Not reproduced: trails in some setting"),
        ((85.0, 80.0, 95.0), CLEAR, "These runs cannot tell"),
        ((85.0, 90.0, 95.0), BLURRED, "These runs cannot tell"),
        ((85.0, 90.0, 95.0), FEW, "Too few runs to say"),
    ],
)
def test_who_leads_in_figure_2(benefits, world, said):
    assert verdicts(judgements.judge_figure_2, figure_2(benefits, world))[0].startswith(said)


def test_settings_are_counted_in_figure_2():
    found = judgements.judge_figure_2(figure_2((85.0, 75.0, 80.0), CLEAR))[0].ours
    assert f"{PRICED} leads in 1 of 3 settings, trails in 1" in found


@pytest.mark.parametrize(
    ("benefits", "world", "rise", "fall"),
    [
        ((85, 87, 90), CLEAR, "Reproduced: a rise", "Not reproduced: a rise"),
        ((90, 87, 85), CLEAR, "Not reproduced: a fall", "Reproduced: a fall"),
        ((90, 80, 90), CLEAR, "These runs cannot tell", "These runs cannot tell"),
        ((85, 87, 90), BLURRED, "These runs cannot tell", "These runs cannot tell"),
        ((85, 87, 90), FEW, "Too few runs to say", "Too few runs to say"),
    ],
)
def test_trends_of_figure_2(benefits, world, rise, fall):
    by_k = verdicts(judgements.judge_figure_2, figure_2(benefits, world))
    by_T = verdicts(judgements.judge_figure_2, figure_2(benefits, world, "fig2c", (20, 50, 100)))
    assert by_k[1].startswith(rise)
    assert by_T[1].startswith(fall)


def test_a_trend_is_told_though_cohorts_vary_more():
    world = World(own=0.1, common=30.0)
    assert verdicts(judgements.judge_figure_2, figure_2((85, 85.5, 86), world))[1].startswith(
        "Reproduced: a rise"
    )


def figure_3a(benefits, world, top=99.5, entropy=(4.5, 4.0, 3.5), decoupled=None):
    """At c = 1, 5, 20 and infinity; the policy with c_value = 1 as the others unless told."""
    results = {}
    for name, value, even, other in zip(
        ("1", "5", "20"), benefits, entropy, decoupled or benefits, strict=True
    ):
        policies = {
            policy: {"benefit": value, "entropy": even, "of_bound": value}
            for policy in (PAPER, MEAN_FIELD)
        } | {
            policy: {"benefit": other, "entropy": even, "of_bound": other}
            for policy in (PRICED, DECOUPLED)
        }
        results[f"fig3a/{name}"] = outcome(f"fig3a/{name}", policies, world)
    last = {policy: {"benefit": top} for policy in (*SOLVERS, DECOUPLED)}
    results["fig3a/inf"] = outcome("fig3a/inf", last, world)
    return results


@pytest.mark.parametrize(
    ("benefits", "world", "said"),
    [
        ((50, 80, 90), CLEAR, "Reproduced: growth"),
        ((50, 90, 89.5), CLEAR, "Reproduced: growth"),  # a fall by less than a point
        ((50, 90, 80), CLEAR, "Not reproduced: a fall by more than a point"),
        ((90, 89.5, 89), CLEAR, "Not reproduced"),  # no step of a point, but down in all
        ((50, 80, 80), World(own=3.0), "These runs cannot tell"),
        ((50, 80, 90), BLURRED, "These runs cannot tell"),
        ((50, 80, 90), FEW, "Too few runs to say"),
    ],
)
def test_growth_in_figure_3a(benefits, world, said):
    assert verdicts(judgements.judge_figure_3a, figure_3a(benefits, world))[0].startswith(said)


@pytest.mark.parametrize(
    ("top", "world", "said"),
    [
        (99.5, World(own=0.1), "Reproduced: within two points"),
        (95.0, World(own=0.1), "Not reproduced: more than two points below"),
        (98.0, World(own=0.1), "These runs cannot tell"),
        (99.5, BLURRED, "These runs cannot tell"),
        (99.5, FEW, "Too few runs to say"),
    ],
)
def test_the_top_k_of_figure_3a(top, world, said):
    found = verdicts(judgements.judge_figure_3a, figure_3a((50, 80, 90), world, top))
    assert found[1].startswith(said)


def figure_3b(lottery, soft, world):
    entropy = of("entropy", Random=lottery, FairMyopic=4.5, Myopic=2.8, Oracle=3.0)
    return {
        f"fig3b/{chance}": outcome(f"fig3b/{chance}", entropy | solvers("entropy", soft), world)
        for chance in ("0.4", "0.9")
    }


@pytest.mark.parametrize(
    ("lottery", "soft", "world", "said"),
    [
        (4.6, 4.0, World(own=0.01, common=0.5), ("Reproduced: above", "Reproduced: above")),
        (4.4, 2.9, World(own=0.01), ("Not reproduced: below", "Not reproduced: below")),
        (4.5, 3.0, World(own=0.01), ("These runs cannot tell", "These runs cannot tell")),
        (4.6, 4.0, World(own=9.0), ("These runs cannot tell", "These runs cannot tell")),
        (4.6, 4.0, FEW, ("Too few runs to say", "Too few runs to say")),
    ],
)
def test_figure_3b(lottery, soft, world, said):
    found = verdicts(judgements.judge_figure_3b, figure_3b(lottery, soft, world))
    for verdict, beginning in zip(found, said, strict=True):
        assert verdict.startswith(beginning), verdict


LIKE_THE_PAPER = {
    "Random": (79.0, 4.56),
    "Myopic": (98.0, 2.67),
    "FairMyopic": (83.0, 4.5),
    "Oracle": (100.0, 2.6),
} | dict.fromkeys(SOLVERS, (93.0, 4.27))


def table_2(changes, world):
    figures = {
        policy: {"benefit": benefit, "entropy": entropy, "of_bound": benefit}
        for policy, (benefit, entropy) in (LIKE_THE_PAPER | changes).items()
    }
    return {"table2": outcome("table2", figures, world)}


SHARP = World(own=0.001)


@pytest.mark.parametrize(
    ("changes", "world", "said"),
    [
        ({}, SHARP, ("Reproduced", "Reproduced", "Reproduced", "Reproduced")),
        (
            dict.fromkeys(LIKE_THE_PAPER, (30.0, 1.0)),
            SHARP,
            ("Not reproduced", "Not reproduced", "These runs", "These runs"),
        ),
        (
            {"Random": (99.0, 2.0), "FairMyopic": (50.0, 3.0)},
            SHARP,
            ("Reproduced", "Reproduced", "Not reproduced", "Not reproduced"),
        ),
        ({}, BLURRED, ("These runs", "These runs", "These runs", "These runs")),
        ({}, FEW, ("Too few", "Too few", "Too few", "Too few")),
    ],
)
def test_table_2(changes, world, said):
    found = verdicts(judgements.judge_table_2, table_2(changes, world))
    for verdict, beginning in zip(found, said, strict=True):
        assert verdict.startswith(beginning), verdict


def test_all_of_table_2_is_reproduced_where_it_is():
    # Also the entropy of Myopic, 2.67 with an sd of 0: it is printed to two digits.
    for verdict in verdicts(judgements.judge_table_2, table_2({"Myopic": (98.0, 2.673)}, SHARP)):
        assert verdict.startswith("Reproduced")
        assert ";" not in verdict


def test_table_2_tells_policies_apart():
    changes = {PRICED: (20.0, 4.27), "Random": (40.0, 4.56)}
    found = verdicts(judgements.judge_table_2, table_2(changes, SHARP))
    assert f"outside the paper's mean \u00b1 sd (Random, {PRICED})" in found[0]
    assert f"a step is reversed ({PRICED})" in found[2]
    assert f"the whole order ({PAPER}, {MEAN_FIELD})" in found[2]


def test_the_first_episodes_of_algorithm_1_are_not_judged():
    """With figures like the paper's, and with others."""
    world = World(own=0.001, rough=(PAPER,))
    for figures in ((93.0, 4.27), (20.0, 1.0)):
        results = table_2({PAPER: figures}, world)
        early = results["table2"].experiment.small()
        results["table2"] = Outcome(early, results["table2"].rows)
        for verdict in verdicts(judgements.judge_table_2, results):
            assert f"not judged, after so few episodes ({PAPER}*)" in verdict
            assert verdict.count(PAPER) == 1
    settled = table_2({}, SHARP)
    settled["table2"] = Outcome(early, settled["table2"].rows)  # few, and yet enough
    for verdict in verdicts(judgements.judge_table_2, settled):
        assert "not judged" not in verdict


def test_the_table_sets_ours_beside_the_papers():
    world = World(own=2.0, rough=(PAPER,))
    [table] = judgements.table_2(table_2({}, world))
    cells = {row[0]: [cell.replace("\u00a0", " ") for cell in row[1:]] for row in table.rows}
    assert all(len(row) == len(table.headings) for row in table.rows)
    assert list(cells) == ["Random", "Myopic", "FairMyopic", "Oracle", PAPER + "*", *SOLVERS[1:]]
    half = stats.t.ppf(0.975, 7) * 2 / math.sqrt(8)
    sd = 2 * math.sqrt(14 / 15)  # each of 8 cohorts counts twice
    assert cells["Random"][:3] == [
        f"79 \u00b1 {sd:.1f}",
        f"{79 - half:.1f} to {79 + half:.1f}",
        "79 \u00b1 13",
    ]
    assert cells["Random"][5] == "4.56 \u00b1 0.0056"
    assert cells[PAPER + "*"][2] == cells[PRICED][2] == "93 \u00b1 7.6"
    assert cells["Oracle"][2] == "100"
    [short] = judgements.table_2(table_2({}, FEW))
    assert short.rows[0][2] == "too few runs to say"


@pytest.mark.parametrize(
    ("decoupled", "world", "said"),
    [
        ((60.0, 90.0, 98.0), CLEAR, "Dominates"),
        ((40.0, 70.0, 80.0), CLEAR, "Does not dominate: less"),
        ((60.0, 60.0, 98.0), CLEAR, "Does not dominate: less"),  # more at one c, less at another
        ((60.0, 90.0, 98.0), BLURRED, "These runs cannot tell"),
        ((60.0, 90.0, 98.0), FEW, "Too few runs to say"),
    ],
)
def test_the_frontier(decoupled, world, said):
    benefits = (50.0, 80.0, 90.0)
    results = figure_3a(benefits, world, decoupled=decoupled)
    # The same entropy on every cohort, so that the curves can be compared at each c.
    for one in results.values():
        one.rows["entropy"] = one.rows.groupby("policy")["entropy"].transform("mean").round(3)
    found = verdicts(judgements.judge_frontiers, results)
    assert all(verdict.startswith(said) for verdict in found[:4]), found


def test_a_policy_is_not_compared_with_itself():
    results = figure_3a((50.0, 80.0, 90.0), CLEAR, decoupled=(50.0, 90.0, 98.0))
    for one in results.values():
        one.rows["entropy"] = one.rows.groupby("policy")["entropy"].transform("mean").round(3)
    against_algorithm_1, against_mean_field = judgements.judge_frontiers(results)[2:4]
    assert "at c = 1," in against_algorithm_1.ours
    assert "at c = 1," not in against_mean_field.ours  # c_value = 1 is the coupled one there
    assert against_mean_field.verdict.startswith("Dominates")


def test_beyond_its_own_evenness_a_curve_is_not_compared():
    results = figure_3a((50.0, 80.0, 90.0), CLEAR)
    for one in results.values():
        even = one.rows["policy"].isin([PAPER, MEAN_FIELD])
        one.rows["entropy"] = np.where(even, 5.0, 4.0)
    for judgement in judgements.judge_frontiers(results)[:4]:
        assert judgement.verdict == "Nothing to compare."


@pytest.mark.parametrize(
    ("share", "world", "said"),
    [
        (98.0, World(own=0.1), "Held: every policy's interval lies below"),
        (100.0, World(own=0.1), "Held: no policy's interval lies above"),
        (103.0, World(own=0.1), "Broken"),
        (98.0, BLURRED, "Held: no policy's interval lies above"),
        (98.0, FEW, "Too few runs to say"),
    ],
)
def test_the_bound(share, world, said):
    results = {"table2": outcome("table2", of("of_bound", Random=30.0, Oracle=share), world)}
    judgement = judgements.judge_bound(results)
    assert judgement.verdict.startswith(said)
    assert "Oracle in table2" in judgement.ours


def test_what_has_not_settled_is_marked_wherever_it_is_judged():
    rough = World(own=0.1, rough=(PAPER,))
    worlds = [
        (judgements.judge_figure_1, figure_1(0.5, 0.02, rough)),
        (judgements.judge_figure_2, figure_2((85.0, 90.0, 95.0), rough)),
        (judgements.judge_figure_3a, figure_3a((50, 80, 90), rough)),
        (judgements.judge_figure_3b, figure_3b(4.6, 4.0, rough)),
        (judgements.judge_table_2, table_2({}, rough)),
    ]
    for judge, results in worlds:
        said = " ".join(f"{j.ours} {j.verdict}" for j in judge(results))
        assert f"{PAPER}*" in said or "Algorithm 1*" in said
        assert f"{PAPER}," not in said.replace(f"{PAPER}*", "")
        assert f"{PRICED}*" not in said
