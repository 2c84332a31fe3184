"""The audit: figures by hand and by brute force; honest draws pass its tests, others fail."""

from __future__ import annotations

import io
import itertools
import json
import math
import re
import sqlite3
import sys
import tracemalloc
from dataclasses import dataclass, fields, replace

import honest
import numpy as np
import pytest
from fed import (
    calibration_of,
    cells_of,
    drift_of,
    engagement_of,
    fed,
    groups_of,
    lists_of,
    off_policy_of,
    policies_for,
    predictions,
    rounds_of,
    spread_of,
    sure_model,
    tally_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize, stats

from softfair import metrics, sampling
from softfair.errors import InvalidInput
from softfair.estimate import count_transitions, estimate
from softfair.programme.audit import audit, lists, off_policy, sections, show, write_page
from softfair.programme.audit.design import EXACT_BELOW, WITHIN, DesignLaw, design_variance
from softfair.programme.audit.findings import findings_of
from softfair.programme.audit.groups import _pooled
from softfair.programme.audit.lists import FairnessRow, ListsTest, RoundRow, fairness_of
from softfair.programme.audit.logged import log_table
from softfair.programme.audit.off_policy import LOTTERY, NOBODY, OffPolicyRow, Policy
from softfair.programme.audit.outcomes import Cell, ChanceBin, DriftRow, EngagementRow
from softfair.programme.audit.planned import Planned
from softfair.programme.audit.predicted import CELLS, Doubt, Predicted
from softfair.programme.audit.result import Audit
from softfair.programme.audit.spread import Histograms, Span, Waits
from softfair.programme.audit.statistics import (
    Rates,
    alarm_level,
    count_p,
    flag,
    joint_test,
    quantile,
    wilson,
    z_score,
)
from softfair.programme.audit.words import chance, floored, interval, number, p_value, percent
from softfair.programme.checks import Check
from softfair.programme.eligibility import Site, Status
from softfair.programme.imports import import_history, import_people
from softfair.programme.models import UNIT, Model
from softfair.programme.plans import PlanWish, load_plan, make_plan, plan_of
from softfair.programme.records import record
from softfair.programme.settings import initialise
from softfair.programme.snapshot import People
from softfair.programme.store import Store
from softfair.programme.tracks import History

SOFTWARE = "softfair test"
NO_CHECK = Check(0, "", None, (), ())
Z = stats.norm.ppf(0.95)  # of a 90 % interval


def planned(
    probability,
    listed,
    *,
    k=None,
    score=None,
    contacted=None,
    after=None,
    state=None,
    status=None,
    site=None,
    sites=None,
    **more,
):
    """A planned round from given columns; a column that is not given has no records."""
    m = len(probability)

    def whole(values, default):
        return np.full(m, default) if values is None else np.asarray(values, dtype=np.int64)

    p = np.asarray(probability, dtype=np.float64)
    return Planned(
        round=more.get("round", 1),
        version=1,
        model=more.get("model", 1),
        c=more.get("c", 1.0),
        sites=sites or [Site("", int(np.sum(listed)) if k is None else k)],
        person=np.arange(m),
        status=whole(status, 0),
        site=whole(site, 0),
        score=p.copy() if score is None else np.asarray(score, dtype=np.float64),
        bonus=np.zeros(m),
        probability=p,
        listed=whole(listed, 0),
        state=whole(state, -1),
        contacted=whole(contacted, -1),
        after=whole(after, -1),
    )


def drawn(rng, score, k, c=1.0, **more):
    """An honest draw of the design."""
    listed = np.zeros(len(score), np.int64)
    listed[sampling.draw(c * score, k, rng, "joint")] = 1
    return planned(sampling.inclusion(c * score, k, "joint"), listed, score=score, c=c, **more)


def people_of(n, **facts):
    columns = {
        name: np.asarray(facts.get(name, np.full(n, -1)))
        for name in ("enrolled", "departed", "opted_out", "reserved")
    }
    return People(
        names=[f"P{i}" for i in range(n)], groups=facts.get("groups", ["{}"] * n), **columns
    )


def history_of(rows):
    """From (person, round, state, contacted)."""
    table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 4)
    return History.of_rows(*table.T)


def foretold(chance, after, **more):
    """Moves between two states, from the predicted chance of the good state and the state reached.

    Each row is a round, in order.
    """
    q = len(after)

    def whole(name):
        return np.asarray(more.get(name, np.zeros(q)), dtype=np.int64)

    good, rounds = np.asarray(chance, dtype=np.float64), whole("round")
    person = np.asarray(more.get("person", np.arange(q)))
    columns = person, whole("action"), whole("state"), np.asarray(after, dtype=np.int64)
    law, nobody = np.stack([1 - good, good], axis=1), np.empty((0, 2))
    return [
        Predicted(at, *(column[rounds == at] for column in columns), law[rounds == at], nobody)
        for at in np.unique(rounds).tolist()
    ]


def first(count, of):
    """``of`` entries: the first ``count`` are 1, the others 0."""
    return (np.arange(of) < count).astype(np.int64)


def fill(database, tmp_path, people, history, **settings):
    initialise(database, SOFTWARE, **{"seed": 0, **settings})
    (tmp_path / "people.csv").write_text(people)
    import_people(database, tmp_path / "people.csv", SOFTWARE)
    (tmp_path / "history.csv").write_text(history)
    import_history(database, tmp_path / "history.csv", SOFTWARE)


def tell(database, tmp_path, text, round=None):
    (tmp_path / "record.csv").write_text(text)
    record(database, tmp_path / "record.csv", SOFTWARE, round, sure=True, close=True)


def small(database, tmp_path, n=12, weeks=6, **settings):
    """n people, half of them in each of two regions, with made-up weeks."""
    rng = np.random.default_rng(3)
    people = "id,region\n" + "".join(
        f"name-{i},{'north' if i % 2 else 'south'}\n" for i in range(n)
    )
    history = "id,round,state,contacted\n" + "".join(
        f"name-{i},{t},{rng.integers(2)},{'' if t == weeks else int(rng.random() < 0.2)}\n"
        for i in range(n)
        for t in range(1, weeks + 1)
    )
    fill(database, tmp_path, people, history, **{"capacity": 4, **settings})


# Figures that can be written down.


def test_a_lottery_and_a_list_of_one_have_their_textbook_variance():
    np.testing.assert_allclose(design_variance(np.full(5, 2 / 5)), 0.4 * 0.6 * 5 / 4, rtol=1e-10)
    for p in ([0.7, 0.2, 0.1], [0.98, 0.019, 0.001], [0.4, 0.3, 0.3], [0.25] * 4):
        np.testing.assert_allclose(design_variance(np.array(p)), p, rtol=1e-8)
    np.testing.assert_allclose(
        design_variance(np.array([0.6, 0.4])), 0.48
    )  # for two, any b that gives them Cov = -.24
    np.testing.assert_allclose(design_variance(np.array([1.0, 1.0, 0.0])), 0.0)
    # Two of four by lottery, two in the set: hypergeometric, 2 * 1/2 * 1/2 * 2/3.
    tally = tally_of([planned([0.5] * 4, [1, 0, 1, 0])], [np.array([0, 0, 1, 1])], 2)
    np.testing.assert_allclose(tally.covariance, [[1 / 3, -1 / 3], [-1 / 3, 1 / 3]], atol=1e-12)
    assert tally.z(0) == 0.0


# Laws of chance: every constant and every variance has a case that changes with it.


@dataclass(frozen=True)
class Compared:
    p: float
    flagged: bool = False


def test_a_page_shares_four_per_cent_among_its_comparisons():
    """Holm: the least of three p against a third of .04, the next against a half, and so on.

    A comparison that cannot be tested does not count. The test of all lists has the remaining .01.
    """
    third, half = 0.04 / 3, 0.04 / 2
    for p, level in (
        ([0.999 * third, 0.9, 0.8, math.nan], 0.999 * third),
        ([1.001 * third, 0.014, 0.9], -1.0),
        ([0.001, 0.999 * half, 0.9], 0.999 * half),
        ([0.001, 1.001 * half, 0.039], 0.001),
        ([0.001, 0.002, 0.0399], 0.0399),
        ([math.nan], -1.0),
        ([], -1.0),
    ):
        assert alarm_level(p) == level
    rows = flag([Compared(0.01), Compared(0.02), Compared(math.nan)], 0.01)
    assert [row.flagged for row in rows] == [True, False, False]
    assert not any(row.flagged for row in flag([Compared(0.0)], -1.0))


@given(
    chances=arrays(np.float64, st.integers(1, 12), elements=st.floats(0.001, 0.999)),
    place=st.integers(0, 12),
)
@settings(deadline=None)
def test_a_count_is_never_rarer_than_its_p(chances, place):
    """Sums of 0 and 1 by convolution: one tail beyond the count has at most half of p."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    count, mean, variance = min(place, len(chances)), chances.sum(), chances @ (1 - chances)
    tail = law[count:].sum() if count >= mean else law[: count + 1].sum()
    assert count_p(count - mean, variance) >= min(tail, 0.5) * (1 - 1e-9)
    assert count_p(count - mean, variance) == count_p(mean - count, variance)


def test_the_p_of_a_large_count_is_normal():
    assert count_p(2.5e3, 1e6) == pytest.approx(2 * stats.norm.sf(2.5), rel=0.02)
    assert math.isnan(count_p(0.0, 0.0))


def test_quantile_and_z_are_the_normal_law():
    for level in (0.5, 0.8, 0.9, 0.99):
        assert quantile(level) == pytest.approx(stats.norm.ppf(0.5 + level / 2))
    assert z_score(0.3, 0.0225) == pytest.approx(2.0)
    assert z_score(-1e-6, 1e-11) == pytest.approx(-math.sqrt(0.1))
    assert math.isnan(z_score(0.3, 5e-13))


@pytest.mark.parametrize("small", [1.0, 1e-2, 1e-7])
def test_the_joint_test_adds_squares_over_variances(small):
    """Independent deviations d with variances v: sum d^2 / v, one degree of freedom each."""
    d, v = np.array([1.0, -2.0, 0.5]), np.array([2.0, 3.0, small])
    found = joint_test(d, np.diag(v))
    x = 0.5 + 4 / 3 + 0.25 / small
    assert (found.chi_square, found.freedom) == (pytest.approx(x), 3)
    assert found.p == pytest.approx(stats.chi2.sf(x, 3), rel=1e-10)


def test_the_joint_test_counts_only_what_can_vary():
    """A fixed total removes a degree of freedom: two parts of a total are one comparison."""
    found = joint_test(np.array([1.5, -1.5]), np.array([[0.75, -0.75], [-0.75, 0.75]]))
    assert (found.chi_square, found.freedom) == (pytest.approx(1.5**2 / 0.75), 1)
    assert found.p == pytest.approx(2 * stats.norm.sf(1.5 / math.sqrt(0.75)))
    assert joint_test(np.array([1.0, 1.0]), np.diag([1.0, 1e-12])).freedom == 1
    for nothing in (
        joint_test(np.empty(0), np.empty((0, 0))),
        joint_test(np.ones(2), np.zeros((2, 2))),
    ):
        assert nothing.freedom == 0
        assert math.isnan(nothing.p)


def test_a_tally_of_a_lottery_is_hypergeometric():
    """3 of 8 by lottery, 4 of the 8 in the set, one of them listed: mean 1.5, variance .5357."""
    law = stats.hypergeom(8, 4, 3)
    label = np.array([0, 0, 0, 0, -1, -1, -1, -1])
    tally = tally_of([planned([3 / 8] * 8, [1, 0, 0, 0, 1, 1, 0, 0])] * 2, [label] * 2, 1)
    assert (tally.rounds[0], tally.expected[0], tally.listed[0]) == (8, pytest.approx(3.0), 2)
    sd = math.sqrt(2 * law.var())
    assert tally.z(0) == pytest.approx(-1 / sd)
    assert tally.ends(0, Z) == pytest.approx((3 - Z * sd, 3 + Z * sd))
    assert tally.ends(0, 10.0) == pytest.approx((0.0, 3 + 10 * sd))


def test_a_rate_is_never_worth_more_than_its_rounds():
    """Eight people listed in 1 of 2 rounds, one in 2, one in none: less scatter than by lottery.

    sum (x - m / 2)^2 = 2, so .25 / (2 / 400 * 10 / 9) = 45 rounds; but there are only 20.
    """
    x = np.array([1.0] * 8 + [2.0, 0.0])
    found = Rates.of(x, np.full(10, 2.0), np.zeros(10, np.int64), 1, Z)
    assert (found.low[0], found.high[0]) == pytest.approx(wilson(0.5, 20, Z))


def test_wilson():
    # 0 of 10: (0, z^2 / (10 + z^2)); 5 of 10: by R's prop.test without correction, .2366 to .7634.
    z = stats.norm.ppf(0.975)
    assert wilson(0.0, 10, z) == pytest.approx((0.0, z * z / (10 + z * z)))
    assert wilson(0.5, 10, z) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert all(map(math.isnan, wilson(math.nan, 0, z)))


def test_waits():
    calls = {0: (2, 5), 1: (), 2: (), 3: (1,), 4: (6,), 5: ()}
    rows = [(i, t, 0, int(t in calls[i])) for i in range(6) for t in range(1, 7)]
    people = people_of(
        6,
        enrolled=[-1, -1, 4, -1, -1, -1],
        departed=[-1, -1, -1, 4, -1, -1],
        opted_out=[0, 0, 0, 0, 0, 1],
    )
    waits = Waits.of(people, history_of(rows))
    # 0: rounds 3, 4 then 6; 1: all six; 2: 4 to 6; 3: 2 and 3, then left; 4: five before the
    # call; 5 opted out.
    assert waits.longest.tolist() == [2, 6, 3, 2, 5, 6]
    assert waits.now.tolist() == [1, 6, 3, 2, 0, 6]
    assert waits.present.tolist() == [True, True, True, False, True, False]
    assert waits.span == Span(1, 6)


def test_never_listed_counts_first_listings():
    """One of two people is drawn, twice: .75 first listings are expected in the second round.

    The product of 1 - p would give another number.
    """
    rounds = [planned([0.5, 0.5], [1, 0], round=1), planned([0.25, 0.75], [1, 0], round=2)]
    figures, histograms = spread_of(rounds, people_of(2), history_of([]), Z, 0)
    assert figures.never_listed == 1
    assert figures.never_listed_expected == pytest.approx(2 - 1 - 0.75)
    assert figures.z == pytest.approx((1 - 0.25) / math.sqrt(0.75 * 0.25))
    assert histograms.listed == (1, 0, 1)


def test_off_policy_by_hand(monkeypatch):
    monkeypatch.setattr(off_policy, "LEAST_EFFECTIVE", 0.0)
    p, listed, Y = np.array([0.8, 0.2, 0.6, 0.4]), [1, 0, 0, 1], np.array([1, 1, 0, 1])
    one = planned(p, listed, after=Y, c=math.nan)
    nobody, lottery = off_policy_of([one], (NOBODY, LOTTERY), (), 2, Z)
    assert nobody.unnormalised == pytest.approx(1 / 0.8 / 4)
    assert nobody.estimate == pytest.approx(1.25 / 3.75)
    w = np.array([0.625, 0.625, 1.25, 1.25])
    assert lottery.estimate == pytest.approx(2 / 3)
    assert lottery.difference == pytest.approx(2 / 3 - 3 / 4)
    # All listed did well, of the others one of two: means 1 and .5, errors 0, .5, -.5 and 0.
    on, off = 0.5 / p, 0.5 / (1 - p)
    A, B = on - 0.5 * off, on - off
    pull = (A - 2 / 3 * B) / 3.75 - 0.5 / 4
    drawn_ = exact_of_set(p, 2, pull)
    errors = np.array([0, 0.25, 0.25, 0])
    half = Z * math.sqrt(drawn_ + np.sum((w / 3.75 - 1 / 4) ** 2 * errors))
    assert (lottery.difference_low, lottery.difference_high) == pytest.approx(
        (2 / 3 - 3 / 4 - half, 2 / 3 - 3 / 4 + half)
    )
    assert lottery.effective_listed == pytest.approx(1.875**2 / (0.625**2 + 1.25**2))


def test_a_policy_beyond_what_was_drawn_is_not_estimated():
    rng = np.random.default_rng(0)
    score, after = rng.normal(size=200), rng.integers(2, size=200)
    hard = planned(
        sampling.inclusion_of_top(score, 40),
        sampling.inclusion_of_top(score, 40).astype(int),
        score=score,
        c=math.inf,
        after=after,
    )
    rows = {
        row.policy: row for row in off_policy_of([hard], policies_for([hard], (2.0,)), (), 2, Z)
    }
    assert rows["as drawn"].estimate == pytest.approx(after.mean())
    assert rows["most effective"].estimate == pytest.approx(after.mean())
    for name in ("nobody listed", "Random", "c = 2"):
        assert not rows[name].estimable
        assert rows[name].unsupported > 0.9
        assert math.isnan(rows[name].estimate)
        assert "never drawn" in rows[name].why_not
    few = drawn(rng, score[:6], 2, after=after[:6])
    assert "rounds of people" in off_policy_of([few], policies_for([few], ()), (), 2, Z)[2].why_not


def test_engagement_by_hand():
    """Two people, chances .25 and .5 of the good state.

    Predicted .375, sd sqrt(.1875 + .25) / 2, Brier (.75^2 + .5^2) / 2.
    """
    P = np.zeros((2, 2, 2, 2))
    P[..., 1] = 0.9
    P[0, 0, 1, 1], P[1, 1, 0, 1] = 0.25, 0.5
    P[..., 0] = 1 - P[..., 1]
    model = sure_model(P)
    one = planned([0.5, 0.5], [0, 1], state=[1, 0], contacted=[0, 1], after=[1, 1])
    (said,) = found = predictions([one], lambda number: model, 2)
    (row,) = engagement_of(found, Z)
    assert (row.predicted, row.realised) == (0.375, 1.0)
    assert row.z == pytest.approx(0.625 / (math.sqrt(0.1875 + 0.25) / 2))
    assert row.brier == pytest.approx((0.75**2 + 0.5**2) / 2)
    assert row.brier_of_share == 0.0
    assert said.law[:, 1].tolist() == [0.25, 0.5]


# Measures by hand.


def test_a_round_in_numbers():
    """Rows: listed (reached, missed, unknown), off the list, arranged, opted out, left alone."""
    one = planned(
        [0.5] * 7,
        [1, 1, 1, 0, 0, 0, 0],
        contacted=[1, 0, -1, 1, 1, 1, 0],
        status=[0, 0, 0, 0, Status.RESERVED, Status.OPTED_OUT, 0],
        sites=[Site("a", 3), Site("b", 4)],
        round=5,
        c=2.0,
    )
    assert rounds_of([one]) == (
        RoundRow(
            round=5,
            version=1,
            c=2.0,
            in_draw=5,
            capacity=7,
            listed=3,
            recorded=True,
            contacted=4,
            reached=1,
            not_reached=1,
            not_recorded=1,
            off_list=2,
            arranged=1,
            opted_out_contacted=1,
            lowest=0.5,
        ),
    )


@pytest.mark.parametrize(("m", "bins"), [(18, 1), (50, 2), (130, 6), (400, 10)])
def test_lists_are_compared_in_bins_of_equal_variance(m, bins):
    """Chances near 1/2 have a variance of 1/4 each: one bin for a variance of 5, at most ten."""
    p = 0.5 + np.linspace(-0.01, 0.01, m)
    rows, _ = lists_of([planned(p, first(m // 2, m))], Z)
    assert len(rows) == bins
    assert sum(row.in_draw for row in rows) == m
    assert max(row.in_draw for row in rows) - min(row.in_draw for row in rows) <= 2
    assert [row.to < later.from_ for row, later in itertools.pairwise(rows)] == [True] * (bins - 1)
    equal, _ = lists_of([planned([0.5] * m, first(m // 2, m))], Z)
    assert len(equal) == 1  # equal chances stay together


def test_reached_share_of_listed_people():
    one = planned([0.5] * 8, [1, 1, 1, 1, 0, 0, 0, 0], contacted=[1, 1, 0, -1, 1, 0, 0, -1])
    ((row,), test) = lists_of([one], Z)
    assert row.reached_share == pytest.approx(2 / 3)
    assert (row.reached_low, row.reached_high) == pytest.approx(wilson(2 / 3, 3, Z))
    assert row.off_list == 1
    assert (row.from_, row.to, row.expected, row.listed) == (0.5, 0.5, 4.0, 4)
    assert test.freedom == 0  # the list is as long as it has to be


def test_spread_by_hand():
    """Ten people, two lotteries of 5: on average 2.5 of those off the first list are off both.

    The number of those five on the second list is hypergeometric, with variance 5/2 * 1/2 * 5/9.
    """
    rounds = [
        planned([0.5] * 10, first(5, 10), round=1, contacted=[1, 1, 0, 0, 0] + [0] * 4 + [-1]),
        planned([0.5] * 10, [1, 1, 1, 1, 0, 0, 0, 0, 0, 1], round=2),
    ]
    spread, histograms = spread_of(rounds, people_of(10), history_of([]), Z, 0)
    half = Z * math.sqrt(5 / 4 * 5 / 9)
    assert (spread.in_draw, spread.never_listed) == (10, 4)
    assert spread.never_listed_expected == pytest.approx(2.5)
    assert (spread.never_listed_low, spread.never_listed_high) == pytest.approx(
        (2.5 - half, 2.5 + half)
    )
    assert spread.z == pytest.approx(1.5 / math.sqrt(25 / 36))
    assert spread.p == pytest.approx(count_p(1.5, 25 / 36))
    assert (spread.lists, spread.contacts) == (10, 2)
    assert (spread.in_recorded_draw, spread.never_contacted) == (10, 8)
    assert spread.entropy_most == pytest.approx(math.log(10))
    assert histograms == Histograms((4, 2, 4), (8, 2), ())
    assert spread.waiting_people is None
    one, _ = spread_of(rounds[:1], people_of(10), history_of([]), Z, 0)
    assert one.entropy_most == pytest.approx(math.log(5))  # five lists cannot spread on ten
    assert one.entropy_listed == pytest.approx(math.log(5))
    assert one.never_listed_low == one.never_listed_high == 5


def test_waiting_now_by_hand():
    """Four people in rounds 1 to 6, last contacted in 5, never, in 3 (and opted out), and in 6."""
    calls = {0: 5, 1: 0, 2: 3, 3: 6}
    history = history_of([(i, t, 0, int(t == calls[i])) for i in range(4) for t in range(1, 7)])
    people = people_of(4, opted_out=[0, 0, 1, 0])
    spread, histograms = spread_of([], people, history, Z, 2)
    assert (spread.here_now, spread.never_contacted_ever) == (3, 1)
    assert (spread.waiting_median, spread.waiting_longest, spread.longest_wait) == (1.0, 6, 6)
    assert (spread.first_round, spread.last_round) == (1, 6)
    assert [(person.id, person.rounds) for person in spread.waiting_people] == [
        ("P1", 6),
        ("P0", 1),
    ]
    assert histograms.waiting == (1, 1, 0, 0, 0, 0, 1)


def test_groups_by_hand():
    """Two rounds of two groups; in the first round three contacts and three outcomes are known."""
    p = [0.6, 0.2, 0.8, 0.4]
    rounds = [
        planned(p, [1, 0, 1, 0], contacted=[1, 0, 0, -1], after=[1, 0, 1, -1], round=1),
        planned(p, [0, 1, 1, 0], round=2),
    ]
    regions = [json.dumps({"region": region}) for region in "aabb"]
    everybody, a, b = groups_of(rounds, people_of(4, groups=regions), 2, Z)
    assert [(row.column, row.value) for row in (everybody, a, b)] == [
        ("", "everybody"),
        ("region", "a"),
        ("region", "b"),
    ]
    assert [(row.people, row.in_draw) for row in (everybody, a, b)] == [(4, 8), (2, 4), (2, 4)]
    assert [row.stated_rate for row in (everybody, a, b)] == pytest.approx([0.5, 0.4, 0.6])
    for rates, relatives, of in (
        ([0.5, 0.5, 0.5], [1, 1, 1], "selection"),
        ([1 / 3, 1 / 2, 0], [1, 1.5, 0], "contact"),
        ([2 / 3, 1 / 2, 1], [1, 0.75, 1.5], "outcome"),
    ):
        shown = [getattr(row, of) for row in (everybody, a, b)]
        assert [rate.rate for rate in shown] == pytest.approx(rates)
        assert [rate.relative for rate in shown] == pytest.approx(relatives)
    variance = 2 * exact_variance(np.array(p), 2, [0, 1])
    assert a.z == pytest.approx((2 - 1.6) / math.sqrt(variance), rel=1e-5)
    assert b.z == pytest.approx(-a.z)
    assert a.p == pytest.approx(count_p(0.4, variance), rel=1e-5)


def test_the_thirty_largest_groups_have_rows_of_their_own():
    values = [f"v{j:02d}" for j in range(36)]
    size = [2 + (j % 2) for j in range(36)]  # odd ones are larger
    names, code = _pooled(values, np.repeat(np.arange(36), size))
    assert len(names) == 31
    assert names[-1] == "(others)"
    assert set(values[1::2]) <= set(names)
    assert np.count_nonzero(code == 30) == 2 * 6
    names, _ = _pooled(values[:30], np.repeat(np.arange(30), 2))
    assert names == values[:30]


def test_engagement_of_three_states_by_enumeration():
    """Two people and nine outcomes: the variance of the mean reward, and Brier's scores."""
    law = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    outcomes = np.array(list(itertools.product(range(3), repeat=2)))
    weight = law[0, outcomes[:, 0]] * law[1, outcomes[:, 1]]
    reward = outcomes.mean(axis=1) / 2
    mean = weight @ reward
    sd = math.sqrt(weight @ (reward - mean) ** 2)
    zero = np.zeros(2, np.int64)
    found = [Predicted(4, np.arange(2), zero, zero, np.array([2, 1]), law, np.empty((0, 2)))]
    (row,) = engagement_of(found, 0.5)
    assert (row.round, row.people) == (4, 2)
    assert (row.predicted, row.realised) == pytest.approx((mean, 0.75))
    assert (row.low, row.high) == pytest.approx((mean - 0.5 * sd, mean + 0.5 * sd))
    assert row.z == pytest.approx((0.75 - mean) / sd)
    assert row.p == pytest.approx(count_p(2 * (0.75 - mean), 4 * sd**2))
    hit = np.eye(3)[[2, 1]]
    assert row.brier == pytest.approx(np.mean(np.sum((hit - law) ** 2, axis=1)) / 2)
    assert row.brier_of_share == pytest.approx(
        np.mean(np.sum((hit - [0, 0.5, 0.5]) ** 2, axis=1)) / 2
    )
    (wide,) = engagement_of(found, 50.0)
    assert (wide.low, wide.high) == (0.0, 1.0)


def test_who_joined_after_the_model_was_made_has_no_prediction():
    P = np.full((2, 2, 2, 2), 0.5)
    model = sure_model(P)
    one = planned([0.5] * 3, [0, 0, 1], state=[1, 0, 1], contacted=[0, 1, 0], after=[1, -1, 1])
    (said,) = predictions([one], lambda number: model, 2)
    assert said.person.tolist() == [0]
    all_known = replace(one, after=np.array([1, 0, 1]))
    (said,) = predictions([all_known], lambda number: model, 2)
    assert said.person.tolist() == [0, 1]


def test_calibration_is_binomial():
    """20 moves with a chance of 1/2, 14 to the good state: sd sqrt(.25 / 20)."""
    sd = math.sqrt(0.25 / 20)
    found = foretold([0.5] * 20, first(14, 20), action=[1] * 20)
    (in_bin,), (cell,) = calibration_of(found, Z), cells_of(found, ["bad", "good"], Z)
    assert in_bin.moves_of == ChanceBin(0.5, 0.5)
    assert cell.moves_of == Cell(True, "bad")
    for row in (in_bin, cell):
        assert (row.moves, row.predicted, row.observed) == (20, 0.5, pytest.approx(0.7))
        assert (row.low, row.high) == pytest.approx((0.5 - Z * sd, 0.5 + Z * sd))
        assert row.z == pytest.approx(0.2 / sd)
        assert row.p == pytest.approx(count_p(4.0, 5.0))
    (few,) = cells_of(foretold([0.5] * 19, first(14, 19)), ["bad", "good"], Z)
    assert math.isnan(few.z)  # too few for the normal law


def test_the_variance_of_a_calibration_by_enumeration():
    """With different chances, the sum of 20 has the variance of the exact law of the count.

    The law is computed by convolution, one move after the other.
    """
    chances = np.linspace(0.1, 0.8, 20)
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    count = np.arange(21)
    variance = law @ count**2 - (law @ count) ** 2
    (row,) = calibration_of(foretold(chances, first(12, 20)), Z)
    assert row.z == pytest.approx((12 - law @ count) / math.sqrt(variance))


@pytest.mark.parametrize(("moves", "bins"), [(19, 1), (39, 1), (40, 2), (130, 6), (1000, 10)])
def test_calibration_has_a_bin_for_every_twenty_moves(moves, bins):
    chances = np.linspace(0.1, 0.9, moves)
    rows = calibration_of(foretold(chances[::-1], first(moves // 2, moves)), Z)
    assert len(rows) == bins
    assert sum(row.moves for row in rows) == moves
    assert (rows[0].moves_of.from_, rows[-1].moves_of.to) == pytest.approx((0.1, 0.9))
    assert calibration_of(foretold([], []), Z) == ()


def test_drift_has_the_variance_of_then_and_of_now():
    """25 earlier moves of 25 people, 15 to good; 20 recent moves of 10 people, chance 1/2 each.

    Recent: 4 people to good twice (error 1 each), 3 never (-1), 3 once (0): 7 / 20^2. Earlier:
    25 * .6 * .4 / 25^2. The rounds of a person are summed first.
    """
    earlier = history_of([(i, t, s, 0) for i in range(25) for t, s in ((1, 0), (2, int(i < 15)))])
    after = [1, 1] * 4 + [0, 0] * 3 + [1, 0] * 3
    found = foretold([0.5] * 20, after, person=np.repeat(np.arange(10), 2), round=[2] * 20)
    rows, span = drift_of(found, earlier, 25, ["bad", "good"], Z)
    (row,) = rows
    variance = 7 / 400 + 0.24 / 25
    assert span == Span(2, 2)
    assert (row.contacted, row.state, row.next) == (False, "bad", "good")
    assert (row.earlier_moves, row.earlier, row.moves) == (25, pytest.approx(0.6), 20)
    assert (row.expected, row.observed) == (0.5, pytest.approx(0.55))
    assert row.z == pytest.approx(0.05 / math.sqrt(variance))
    assert row.p == pytest.approx(count_p(1.0, 400 * variance))
    half = Z * math.sqrt(variance)
    assert (row.low, row.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_drift_of_people_who_happen_to_differ_little_has_the_variance_of_their_chances():
    """Five people, four moves each with a chance of 1/4, one of them to good: no error at all.

    So the variance of the chances is the larger one: 20 * 1/4 * 3/4 over 20^2. Earlier as above.
    """
    earlier = history_of([(i, t, s, 0) for i in range(25) for t, s in ((1, 0), (2, int(i < 15)))])
    person = np.repeat(np.arange(5), 4)
    found = foretold([0.25] * 20, [1, 0, 0, 0] * 5, person=person, round=[2] * 20)
    ((row,), _) = drift_of(found, earlier, 25, ["bad", "good"], Z)
    half = Z * math.sqrt(20 * 0.25 * 0.75 / 400 + 0.24 / 25)
    assert (row.expected, row.observed, row.z) == (0.25, 0.25, 0)
    assert row.high == pytest.approx(0.25 + half)


def test_earlier_rounds_of_one_person_are_taken_together():
    """20 people with two earlier moves from bad: 12 twice to good, 8 never; 20 recent moves.

    The scatter of a person is 2 - 2 * .6 or -2 * .6: 12 * .64 + 8 * 1.44 = 19.2, over 40^2.
    """
    rows = []
    for i in range(20):
        good = int(i < 12)
        rows += [(i, 1, 0, 0), (i, 2, good, 0), (i, 4, 0, 0), (i, 5, good, 0)]
    found = foretold([0.5] * 20, first(11, 20), round=[5] * 20)
    ((row,), _) = drift_of(found, history_of(rows), 20, ["bad", "good"], Z)
    assert (row.earlier_moves, row.earlier) == (40, pytest.approx(0.6))
    assert row.z == pytest.approx(0.05 / math.sqrt(20 * 0.25 / 400 + 19.2 / 1600))


@pytest.mark.parametrize(
    ("then", "now", "tested"), [(20, 20, True), (19, 20, False), (20, 19, False)]
)
def test_drift_needs_twenty_moves_then_and_now(then, now, tested):
    history = history_of([(i, t, s, 0) for i in range(then) for t, s in ((1, 0), (2, i % 2))])
    found = foretold([0.5] * now, first(now // 2 + 1, now), round=[2] * now)
    ((row,), _) = drift_of(found, history, 20, ["bad", "good"], Z)
    assert math.isnan(row.z) != tested
    assert row.low < row.expected < row.high


def test_the_later_half_of_the_rounds_is_recent():
    """Rounds 2 to 6 have outcomes: 4 to 6 are recent, and moves that end in round 4 are earlier."""
    history = history_of([(i, t, 0, 0) for i in range(3) for t in range(1, 8)])
    found = foretold(
        [0.5] * 15, [0] * 15, person=np.tile(np.arange(3), 5), round=np.repeat(np.arange(2, 7), 3)
    )
    ((row,), span) = drift_of(found, history, 3, ["bad", "good"], Z)
    assert span == Span(4, 6)
    assert (row.moves, row.earlier_moves) == (9, 9)
    assert drift_of(foretold([], []), history, 3, ["bad", "good"], Z) == ((), Span(None, None))


def test_three_states_drift_by_every_next_state():
    law = np.full((2, 3), 1 / 3)
    zero = np.zeros(2, np.int64)
    found = [Predicted(0, np.arange(2), zero, zero, np.array([0, 2]), law, np.empty((0, 2)))]
    rows, _ = drift_of(found, history_of([]), 2, ["bad", "fair", "good"], Z)
    assert [(row.next, row.observed) for row in rows] == [
        ("bad", 0.5),
        ("fair", 0.0),
        ("good", 0.5),
    ]
    assert all(math.isnan(row.earlier) and math.isnan(row.z) for row in rows)


# What another policy would have brought, by hand.


def other(q):
    """A policy with these probabilities."""
    return Policy("other", lambda score, k, c: np.asarray(q, dtype=np.float64))


def against(p, q, listed=None, **more):
    """The estimate for a policy with probabilities q, from one round drawn with probabilities p."""
    m = len(p)
    listed = first(m // 2, m) if listed is None else listed
    one = planned(p, listed, after=more.get("after", np.arange(m) % 2))
    (row,) = off_policy_of([one], [other(q)], (), 2, Z)
    return row


def test_a_weight_of_more_than_fifty_is_no_support():
    """Weights of 60 and 20 for listed people, of 60 and 20 for others, and of 1.2."""
    p = np.array([0.01, 0.01, 0.99, 0.99, 0.5, 0.5])
    q = np.array([0.60, 0.20, 0.40, 0.80, 0.6, 0.4])
    shift = np.abs(q - p)
    assert against(p, q).unsupported == pytest.approx((shift[0] + shift[2]) / shift.sum())
    assert against([0.01, 0.5], [0.499, 0.5]).unsupported == 0.0
    assert against([0.01, 0.5], [0.501, 0.5]).unsupported == 1.0
    assert against([0.99, 0.5], [0.501, 0.5]).unsupported == 0.0
    assert against([0.99, 0.5], [0.499, 0.5]).unsupported == 1.0


def test_a_twentieth_of_the_change_may_be_unsupported():
    """200 people change by .1 each, some almost never listed by .6 in all: .6 / 20.6 = 3 %."""
    moved = np.tile([0.6, 0.4], 100)
    listed = np.tile([1, 1, 0, 0], 50)

    def with_rare(count):
        p, q = [0.5] * 200 + [0.01] * count, [*moved, *[0.61] * count]
        return against(p, q, listed=[*listed, *[0] * count])

    assert with_rare(1).estimable
    assert with_rare(1).unsupported == pytest.approx(0.6 / 20.6)
    assert not with_rare(2).estimable
    assert with_rare(2).why_not == "6% of what it would change was (almost) never drawn"


def test_a_change_by_rounding_needs_no_support_and_a_small_one_does():
    p = np.repeat([1.0, 0.0], 20)
    tiny = np.where(p == 0, 1e-13, p)
    assert against(p, tiny, listed=p.astype(int)).estimable
    one = p.copy()
    one[[0, 39]] = 0.0, 1.0  # one place of twenty goes to somebody else
    row = against(p, one, listed=p.astype(int))
    assert (row.estimable, row.unsupported) == (False, 1.0)


def test_an_estimate_needs_ten_rounds_of_people_listed_and_not():
    """A policy with the stated probabilities has weights of 1, so that k listed people count k."""
    for k, enough in ((9, False), (10, True)):
        for listed in (first(k, 60), 1 - first(k, 60)):
            p = np.full(60, listed.mean())
            row = against(p, p, listed=listed)
            assert row.estimable == enough
            worth = sorted([row.effective_listed, row.effective_not_listed])
            assert worth == pytest.approx([k, 60 - k])
            if not enough:
                assert row.why_not == "rests on the worth of 9 rounds of people; 10 are needed"
    # Weights 2 and 1, of 8 people each: (2 * 8 + 8)^2 / (4 * 8 + 8) = 14.4 rounds.
    p, q = np.full(40, 0.4), np.tile([0.8, 0.4, 0.2, 0.2, 0.4], 8)
    row = against(p, q, listed=np.tile([1, 1, 0, 0, 0], 8))
    assert row.effective_listed == pytest.approx(14.4)


def test_half_and_twice_c():
    score = np.array([0.0, 0.5, 1.0, -1.0])
    one = planned([0.5] * 4, [1, 1, 0, 0], score=score, c=0.8, after=[0, 1, 0, 1])
    policies = {policy.name: policy for policy in policies_for([one], ())}
    for name, c in (("as drawn", 0.8), ("half of c", 0.4), ("twice c", 1.6)):
        np.testing.assert_allclose(
            policies[name].inclusion(score, 2, 0.8), sampling.inclusion(c * score, 2, "joint")
        )
    np.testing.assert_allclose(policies["Random"].inclusion(score, 2, 0.8), 0.5)
    np.testing.assert_allclose(policies["most effective"].inclusion(score, 2, 0.8), [0, 1, 1, 0])
    assert not policies["nobody listed"].inclusion(score, 2, 0.8).any()
    assert not policies["half of c"].inclusion(score, 0, 0.8).any()


def test_group_values_of_one_person_are_put_together():
    names, code = _pooled(["", "a", "b", "c"], np.array([1, 1, 2, 3, 0, 0]))
    assert names == ["(none)", "a", "(others)"]
    assert code.tolist() == [1, 1, 2, 2, 0, 0]


# In words.


def bare(**changes):
    """An audit of one planned round of two people, without any records."""
    one = planned([0.5, 0.5], [1, 0], round=4)
    spread, histograms = spread_of([one], people_of(2), history_of([]), Z, 0)
    parts = {
        "people": 2,
        "round_name": "week",
        "states": ("bad", "good"),
        "level": 0.9,
        "rounds": rounds_of([one]),
        "lists_test": ListsTest(math.nan, 0, math.nan, 0),
        "spread": spread,
        "recent": Span(None, None),
        "histograms": histograms,
        "days": {},
        "trial": None,
    }
    return Audit(**{part.name: () for part in fields(Audit)} | parts | changes)


NOTHING_KNOWN = [
    "1 place on 1 list: nothing was left to chance that could be checked.",
    "Nothing has been recorded of the planned rounds yet; tell what happened with: softfair record "
    "FILE.",
    "1 of 2 people in the draw were never listed; the probabilities say 1.0 (1.0 to 1.0).",
]


def told_of(**changes):
    """The findings of the bare audit with some parts changed that it does not have unchanged."""
    return [finding for finding in findings_of(bare(**changes)) if finding not in NOTHING_KNOWN]


def test_findings_about_lists():
    """The lists are doubted below one in a hundred."""
    assert list(findings_of(bare())) == NOTHING_KNOWN
    size = "1 place on 1 list"
    for p, finding in (
        (0.0101, f"The lists agree with the stated probabilities ({size}, p = 0.01)."),
        (0.2, f"The lists agree with the stated probabilities ({size}, p = 0.2)."),
        (0.0099, "Look: the lists do not agree with the stated probabilities (p = 0.0099); "),
        (0.0011, "Look: the lists do not agree with the stated probabilities (p = 0.0011); "),
        (0.0009, "Look: the lists do not agree with the stated probabilities (p < 0.001); "),
    ):
        (sentence,) = told_of(lists_test=ListsTest(1.0, 1, p, 0))
        assert sentence.startswith(finding)
    (sentence,) = told_of(lists_test=ListsTest(math.nan, 0, math.nan, 3))
    assert sentence.startswith("Look: 3 places on lists that a probability of 0 or 1 rules out; ")


def test_people_without_capacity_are_reported_for_the_last_round_only():
    (known,) = bare().rounds
    first, last = replace(known, round=7, no_site=3), replace(known, round=9, no_site=0)
    assert not any("no capacity" in line for line in told_of(rounds=(first, last)))
    last = replace(last, no_site=2)
    (line,) = (line for line in told_of(rounds=(first, last)) if "no capacity" in line)
    assert "2 people had no chance in round 9:" in line


def test_findings_about_rounds():
    (row,) = bare().rounds
    anew = tuple(replace(row, round=t, version=t) for t in range(1, 8))
    (sentence,) = (told for told in told_of(rounds=anew) if "more than once" in told)
    assert "round 2 (2 versions), 3 (3 versions), 4 (4 versions), 5 (5 versions)," in sentence
    assert sentence.endswith(", 6 (6 versions), ....")
    (sentence,) = (told for told in told_of(rounds=anew[:6]) if "more than once" in told)
    assert sentence.endswith("5 (5 versions), 6 (6 versions).")
    known = replace(row, recorded=True, reached=3, not_reached=1, off_list=1, opted_out_contacted=2)
    later = replace(row, round=row.round + 1, not_recorded=0)
    assert told_of(rounds=(known, later))[1:] == [
        "Of 4 listed and recorded, 3 were reached (75%); 1 contact off the list.",
        "Look: nothing is told of 1 person on the lists of recorded rounds (4).",
        "Look: 2 contacts with people who had opted out.",
        "No states after a planned round are known yet, so nothing can be said about outcomes.",
    ]
    assert told_of(rounds=(known,)) == [
        "Of 4 listed and recorded, 3 were reached (75%); 1 contact off the list.",
        "Round 4 is open: nothing is told yet of 1 of the 1 person on its list.",
        "Look: 2 contacts with people who had opted out.",
        "No states after a planned round are known yet, so nothing can be said about outcomes.",
    ]


def test_findings_about_people():
    spread = bare().spread
    assert told_of(spread=replace(spread, in_draw=0)) == ["Nobody was in the draw."]
    waiting = replace(spread, never_contacted_ever=3, here_now=5, first_round=2, waiting_longest=1)
    assert told_of(spread=waiting) == [
        "3 of 5 people here now were never contacted since round 2; the longest has waited 1 round."
    ]
    assert told_of(fairness=(FairnessRow(4, 1, 0, 0.0),)) == [
        "Soft fairness holds: nobody had a lower probability than someone who would gain less."
    ]
    assert told_of(fairness=(FairnessRow(4, 9, 2, 0.125), FairnessRow(5, 9, 1, 0.25))) == [
        "Look: in 3 pairs the person who would gain less had the higher probability, by up to 0.25."
    ]


def test_findings_about_outcomes():
    """Engagement is averaged over people: (.2 * 30 + .6 * 10) / 40 = .3."""
    row = EngagementRow(4, 30, 0.2, 0.1, 0.3, 0.4, 1.0, 0.3, 0.2, 0.2)
    rows = (row, replace(row, round=5, people=10, predicted=0.6, realised=0.8))
    assert told_of(engagement=rows) == [
        "Predicted engagement 30.0%, realised 50.0%: within chance."
    ]
    assert told_of(engagement=(rows[0], replace(rows[1], flagged=True))) == [
        "Look: Predicted engagement 30.0%, realised 50.0%: beyond chance in 1 round."
    ]
    drift = DriftRow(True, "bad", "good", 30, 0.5, 40, 0.5, 0.4, 0.6, 0.75, 3.0, 0.002)
    assert told_of(drift=(drift,), recent=Span(7, 9)) == [
        "No drift since round 7: people move between states as they did before."
    ]
    assert told_of(drift=(replace(drift, flagged=True), drift), recent=Span(7, 9)) == [
        "Look: drift. From bad after a contact, 75% went to good since round 7; 50% were expected."
    ]
    lottery = OffPolicyRow("Random", True, "", 9, 9.0, 9.0, 0.0, 0.5, 0.4, 0.6, 0.012, -0.03, 0.056)
    assert told_of(off_policy=(lottery, replace(lottery, policy="as drawn"))) == [
        "By lottery, the next round's engagement would have differed by +1.2 points (-3.0 to +5.6)."
    ]
    assert told_of(off_policy=(replace(lottery, estimable=False, why_not="too little"),)) == [
        "What a lottery would have brought cannot be told: too little."
    ]


def test_rounds_have_their_days():
    """In findings, tables and on the page, if the programme has dates."""
    (row,) = bare().rounds
    days = {4: "2027-01-25", 7: "2027-02-15"}
    known = replace(row, recorded=True, reached=1, not_recorded=1, version=2)
    spread = replace(bare().spread, waiting_longest=1, first_round=4)
    drift = DriftRow(True, "bad", "good", 30, 0.5, 40, 0.5, 0.4, 0.6, 0.75, 3.0, 0.002)
    changes = {"rounds": (known,), "spread": spread, "drift": (drift,), "recent": Span(7, 7)}
    changes["fairness"] = (FairnessRow(4, 1, 0, 0.0),)
    told = " ".join(told_of(**changes, days=days))
    assert "Round 4 (2027-01-25) is open: nothing is told yet of" in told
    assert "since round 4 (2027-01-25); the longest" in told
    assert "No drift since round 7 (2027-02-15)" in told
    assert "round 4 (2027-01-25) (2 versions)" in told
    (table,) = (one for one in sections(bare(**changes, days=days)) if one.key == "rounds")
    assert table.headings[:2] == ["round", "from"]
    assert table.rows[0][:2] == ["4", "2027-01-25"]
    (table,) = (one for one in sections(bare(**changes)) if one.key == "rounds")
    assert table.headings[:2] == ["round", "c"]
    assert len(table.rows[0]) == len(table.headings)


def test_figures_as_they_are_written():
    assert [chance(p) for p in (0.00099, 0.00101, 0.2)] == ["p < 0.001", "p = 0.001", "p = 0.2"]
    shown = [p_value(p) for p in (0.00099, 0.00101, 0.25, math.nan)]
    assert shown == ["<0.001", "0.001", "0.250", "–"]
    assert p_value(0.01, True) == "0.010 (!)"
    assert (percent(0.1234), percent(0.1234, 0), percent(math.nan)) == ("12.3 %", "12 %", "–")
    assert (number(2.0), number(2.04), number(2.26, 2), number(None)) == ("2", "2", "2.26", "–")
    assert (floored(9.99), floored(9.0), floored(0.05)) == ("9.9", "9", "0")
    assert interval(0.1, 0.2, percent) == " (10.0 % to 20.0 %)"
    assert interval(math.nan, math.nan, percent) == ""


# By brute force.


def exact_covariance(score, k):
    """The covariance of the draw that is proportional to the product of weights, over all lists."""
    n = len(score)
    lists = np.array(
        [[i in chosen for i in range(n)] for chosen in itertools.combinations(range(n), k)],
        dtype=float,
    )
    chance = np.exp(lists @ score)
    chance /= chance.sum()
    p = chance @ lists
    return p, (lists * chance[:, None]).T @ lists - np.outer(p, p)


def exact_variance(p, k, members):
    """The variance of the number of listed people of a set, from chances."""
    return exact_of_set(p, k, np.isin(np.arange(len(p)), members).astype(float))


def exact_of_set(p, k, numbers):
    """The variance of a sum of numbers over a list; a general solver finds the weights."""
    found = optimize.least_squares(
        lambda score: exact_covariance(np.append(score, 0.0), k)[0] - p, np.zeros(len(p) - 1)
    )
    return numbers @ exact_covariance(np.append(found.x, 0.0), k)[1] @ numbers


def test_the_law_of_a_draw_against_all_lists():
    """Every set's variance, 3 of 10; and a set whose variance Deville and Tillé's formula misses.

    Log-weights 2.3, 1.5, ...: the true variance is .0964, the formula gives .0620.
    """
    rng = np.random.default_rng(1)
    for spread in (0.1, 1.0, 4.0):
        p, exact = exact_covariance(spread * rng.normal(size=10), 3)
        X = np.array(list(itertools.product([0.0, 1.0], repeat=10)))[1:-1:7].T
        np.testing.assert_allclose(DesignLaw(p).covariance(X), X.T @ exact @ X, atol=2e-6)
    score = np.array([2.3, 1.5, 2.3, -5.4, -2.6, 2.1, 4.1, -2.4, 2.2, -7.5])
    p, exact = exact_covariance(score, 6)
    X = np.zeros((10, 1))
    X[[9, 3, 4, 7]] = 1
    assert float(X[:, 0] @ exact @ X[:, 0]) == pytest.approx(0.0964, abs=5e-5)
    assert DesignLaw(p).covariance(X).item() == pytest.approx(0.0964, abs=5e-5)
    b = design_variance(p)
    assert b @ X[:, 0] - (b @ X[:, 0]) ** 2 / b.sum() == pytest.approx(0.0620, abs=5e-5)
    # Certain and impossible places do not vary.
    sure = DesignLaw(np.concatenate([p, [1.0, 0.0]])).covariance(np.eye(12))
    np.testing.assert_allclose(sure[10:], 0)
    np.testing.assert_allclose(sure[:10, :10], exact, atol=2e-6)


@pytest.mark.parametrize("spread", [0.5, 1.5, 2.5])
def test_the_formula_for_large_draws_is_within_its_stated_error(spread, monkeypatch):
    """Sixty people and enough chance for the formula, against the exact law."""
    rng = np.random.default_rng(2)
    score = spread * rng.normal(size=160)
    p = sampling.inclusion(score, 60, "joint")
    X = (rng.random((160, 12)) < rng.random(12)).astype(float)
    assert DesignLaw(p).variance > EXACT_BELOW
    rough = np.diag(DesignLaw(p).covariance(X))
    monkeypatch.setattr(sys.modules[DesignLaw.__module__], "EXACT_BELOW", math.inf)
    ratio = rough / np.diag(DesignLaw(p).covariance(X))
    assert abs(ratio - 1).max() < WITHIN
    assert abs(ratio - 1).max() > 0  # two ways to compute it


@given(
    weights=arrays(np.float64, st.integers(2, 9), elements=st.floats(-6, 6)), share=st.floats(0, 1)
)
@settings(deadline=None)
def test_the_design_variance_solves_its_equation(weights, share):
    """b - b^2 / sum(b) = p (1 - p) for the chances of any draw."""
    k = 1 + int(share * (len(weights) - 2))
    p = sampling.inclusion(weights, k, "joint")
    b = design_variance(p)
    assert (b >= 0).all()
    np.testing.assert_allclose(b - b**2 / max(b.sum(), 1e-300), p * (1 - p), atol=1e-8)


def test_waits_and_rates_against_loops():
    rng = np.random.default_rng(2)
    n, T = 40, 9
    called = (rng.random((n, T)) < 0.25).astype(int)
    known = rng.random((n, T)) < 0.9
    rows = [(i, t, 0, called[i, t] if known[i, t] else -1) for i in range(n) for t in range(T)]
    waits = Waits.of(people_of(n), history_of(rows))
    for i in range(n):
        runs, run = [0], 0
        for t in range(T):
            run = 0 if called[i, t] and known[i, t] else run + 1
            runs.append(run)
        assert (waits.longest[i], waits.now[i]) == (max(runs), run)
    x, m, label = rng.integers(0, 5, n).astype(float), np.full(n, 6.0), rng.integers(0, 2, n)
    found = Rates.of(x, m, label, 2, Z)
    for j in (0, 1):
        mine = label == j
        rate = x[mine].sum() / m[mine].sum()
        variance = (
            sum((x[i] - rate * m[i]) ** 2 for i in np.flatnonzero(mine))
            / m[mine].sum() ** 2
            * mine.sum()
            / (mine.sum() - 1)
        )
        assert (found.low[j], found.high[j]) == pytest.approx(
            wilson(rate, min(rate * (1 - rate) / variance, m[mine].sum()), Z)
        )
    alike = Rates.of(np.zeros(5), np.full(5, 4.0), np.zeros(5, np.int64), 1, Z)
    assert alike.high[0] == pytest.approx(Z * Z / (5 + Z * Z))  # five people, not twenty rounds


def test_unfair_pairs_by_site_against_a_double_loop():
    rng = np.random.default_rng(4)
    score, p, site = rng.integers(0, 4, 30) / 4, rng.random(30), rng.integers(0, 2, 30)
    status = np.where(rng.random(30) < 0.2, Status.COOLING, Status.IN_DRAW)
    sites = [Site("a", 3), Site("b", 3)]
    row = fairness_of(planned(p, [0] * 30, score=score, site=site, sites=sites, status=status))
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(30), 2)
        if site[i] == site[j] and status[i] == status[j] == 0
    ]
    gaps = [p[i] - p[j] for i, j in pairs if score[i] < score[j] and p[i] > p[j]]
    assert row.pairs == len(pairs) // 2
    assert row.unfair_pairs == len(gaps) > 0
    assert row.largest_difference == pytest.approx(max(gaps))
    assert fairness_of(drawn(rng, score, 5)).unfair_pairs == 0


def pairwise(score, p):
    """Covariances of the draw, from the chances of pairs: (w_j p_i - w_i p_j) / (w_j - w_i)."""
    w = np.exp(score)
    both = np.diag(p)
    for i, j in itertools.permutations(range(len(p)), 2):
        both[i, j] = (w[j] * p[i] - w[i] * p[j]) / (w[j] - w[i])
    return both - np.outer(p, p)


def test_off_policy_against_loops():
    rng = np.random.default_rng(5)
    rounds = [
        drawn(
            rng,
            rng.normal(size=50),
            15,
            c=0.7,
            after=rng.integers(-1, 3, 50),
            contacted=rng.integers(0, 2, 50),
        )
        for _ in range(3)
    ]
    means = [rng.random((50, 2)) for _ in range(3)]
    means[0][:5] = np.nan
    found = off_policy_of(rounds, policies_for(rounds, (0.2,)), means, 3, Z)
    rows = {row.policy: row for row in found}
    reached, plain = [], []
    for a in (0, 1):
        of = [(one, one.listed == a) for one in rounds]
        reached.append(np.mean(np.concatenate([one.contacted[here] for one, here in of])))
        after = np.concatenate([one.after[here] for one, here in of])
        plain.append(np.mean(after[after >= 0]) / 2)
    w, Y, error = [], [], []
    A, B, C = [], [], []  # of each round [50], 0 where the outcome is not known
    for one, mean in zip(rounds, means, strict=True):
        q, p = sampling.inclusion(0.2 * one.score, 15, "joint"), one.probability
        for column in (A, B, C):
            column.append(np.zeros(50))
        for i in range(50):
            if one.after[i] < 0:
                continue
            m = [mean[i, 0] + share * (mean[i, 1] - mean[i, 0]) for share in reached]
            m = plain if np.isnan(m).any() else m
            on, off = q[i] / p[i], (1 - q[i]) / (1 - p[i])
            w.append(on if one.listed[i] else off)
            Y.append(one.after[i] / 2)
            error.append(Y[-1] - m[one.listed[i]])
            A[-1][i], B[-1][i], C[-1][i] = on * m[1] - off * m[0], on - off, m[1] - m[0]
    w, Y, error = np.array(w), np.array(Y), np.array(error)
    V, W, N = w @ Y / w.sum(), w.sum(), len(Y)
    row = rows["c = 0.2"]
    assert row.estimate == pytest.approx(V)
    assert row.unnormalised == pytest.approx(w @ Y / N)
    own, gap = np.sum(w**2 * error**2) / W**2, np.sum((w / W - 1 / N) ** 2 * error**2)
    for one, a, b, c in zip(rounds, A, B, C, strict=True):
        law = pairwise(0.7 * one.score, one.probability)
        pull = (a - V * b) / W
        own += pull @ law @ pull
        gap += (pull - c / N) @ law @ (pull - c / N)
    assert row.high == pytest.approx(V + Z * math.sqrt(own), rel=1e-4)
    assert row.low + row.high == pytest.approx(2 * V)
    assert row.difference_high - row.difference == pytest.approx(Z * math.sqrt(gap), rel=1e-3)
    assert rows["as drawn"].estimate == pytest.approx(Y.mean())
    assert abs(rows["as drawn"].difference_high) < 1e-9


# Statistics.


@pytest.mark.slow
def test_honest_lists_pass_and_others_do_not():
    """Over 400 programmes of 5 rounds the test's p-values are uniform.

    Kolmogorov and Smirnov's distance beyond 2.2 / sqrt(400) has a chance of 2 exp(-2 * 2.2^2) =
    1e-4; the design's variance is within a few per cent, which moves a p-value by less.
    """
    rng = np.random.default_rng(6)
    chances, firsts, groups = [], [], []
    label = np.arange(80) % 4
    for _ in range(400):
        rounds = [drawn(rng, rng.normal(size=80), 24, round=t) for t in range(5)]
        chances.append(lists_of(rounds, Z)[1].p)
        firsts.append(spread_of(rounds, people_of(80), history_of([]), Z, 0)[0].z)
        groups.append(tally_of(rounds, [label] * 5, 4).z(0))
    assert stats.kstest(chances, "uniform").statistic < 2.2 / 20 + 0.02
    for z in (firsts, groups):  # mean 0, variance 1: 4 standard errors, 1/20 and sqrt(2)/20
        assert abs(np.mean(z)) < 4 / 20
        assert abs(np.var(z) - 1) < 4 * math.sqrt(2) / 20
    # Somebody lists those most likely and leaves nothing to chance; or favours a group.
    cheating = [
        planned(one.probability, sampling.inclusion_of_top(one.score, 24).astype(int))
        for one in rounds
    ]
    assert lists_of(cheating, Z)[1].p < 1e-6
    favoured = []
    for one in rounds:
        listed = one.listed.copy()
        off, on = (
            np.flatnonzero((label == 0) & (listed == 0)),
            np.flatnonzero((label != 0) & (listed == 1)),
        )
        listed[off[:5]], listed[on[:5]] = 1, 0
        favoured.append(planned(one.probability, listed))
    rows = groups_of(
        favoured, people_of(80, groups=[json.dumps({"region": str(j)}) for j in label]), 2, Z
    )
    rows = flag(rows, alarm_level(row.p for row in rows))
    assert [row.value for row in rows if row.flagged and row.z > 0] == ["0"]
    impossible = planned([1.0, 0.0, 0.5, 0.5], [0, 1, 1, 0])
    assert lists_of([impossible], Z)[1].impossible == 2


@pytest.mark.slow
def test_an_honest_programme_raises_no_alarm():
    """Six honest programmes: the number of alarms, and of small p-values.

    Alarms come in at most 5 % of such programmes (5 of 200 were seen); two or
    more of six have a chance of 1 - .95^6 - 6 * .05 * .95^5 = 3 %, three or more of .2 %. Of 130 or
    more p-values, some of which go together, 5 % are below .05 if the laws are right: as many as a
    fifth would be 4 standard errors off if every five of them were one.
    """
    pages = [honest.page(seed, n=60, k=8, weeks=8, rounds=4) for seed in range(6)]
    assert sum(bool(honest.alarms(page)) for page in pages) <= 2
    p = [one for page in pages for one in honest.p_values(page)]
    assert len(p) > 100
    assert np.mean(np.array(p) < 0.05) < 0.2


def test_an_uncertain_model_is_not_flagged_for_its_uncertainty():
    """Forty people whose chances are .3 all or .7 all, nobody knows which: forty of forty is odd
    for a model that is sure of .5, and not for one that knows that it does not know.

    Var sum = 40 * .25 + 40 * 39 * .04 (the covariance of two chances that are +-.2 together), and
    the draws have exactly that variance.
    """
    n = 40
    good = np.full((n, 2, 2), 0.5)
    P = np.stack([1 - good, good], axis=-1)
    sides = np.array([0.3, 0.7] * 20) - 0.5
    sides *= math.sqrt(0.04 / np.var(sides, ddof=1))
    shape = (40, n, 2, 2, 1)
    draws_ = np.broadcast_to(np.rint((0.5 + sides) * UNIT)[:, None, None, None, None], shape)
    nothing = np.zeros((n, 2, 2))
    sure = Model(1, "", 0, {}, P, P, P, nothing.astype(int), np.zeros(n, bool))
    unsure = replace(sure, draws=draws_.astype(np.uint16))
    one = planned([0.2] * n, first(8, n), state=[0] * n, contacted=first(0, n), after=first(32, n))
    for model, variance in ((sure, 10.0), (unsure, 10.0 + 40 * 39 * 0.04)):
        found = predictions([one], lambda number, model=model: model, 2)
        rows = (
            *engagement_of(found, Z),
            *calibration_of(found, Z),
            *cells_of(found, ["bad", "good"], Z),
        )
        assert len(rows) == 3
        for row in rows:
            assert row.z == pytest.approx(12 / math.sqrt(variance), rel=1e-3)
            assert row.p == pytest.approx(count_p(12.0, variance), rel=1e-2)
    assert count_p(12.0, 10.0) < 0.002 < 0.1 < count_p(12.0, 10.0 + 40 * 39 * 0.04)


@pytest.mark.slow
def test_the_off_policy_estimate_is_right_on_average_and_its_interval_covers():
    """The same people each time, some of whom mostly do well; their random numbers differ.

    400 programmes: the mean error is within 4 standard errors of zero (20 is the root of 400); the
    interval of 90 % covers .9 within 4 sqrt(.9 * .1 / 400) = .06; and the standard error is the
    true standard deviation within a tenth (4 of its standard errors, 4 / sqrt(800), are .14). The
    model's means are off by a random .05, and .85 of the listed are reached.
    """
    rng = np.random.default_rng(7)
    n, k, T, reach = 120, 30, 4, 0.85
    without = rng.choice([0.1, 0.9], n)
    within = np.clip(without + rng.choice([0.0, 0.5], n), 0, 0.95)
    scores = [rng.normal(size=n) + within - without for _ in range(T)]
    listed_mean = reach * within + (1 - reach) * without
    names = ("Random", "nobody listed", "c = 2")
    chances = {
        "Random": lambda score: np.full(n, k / n),
        "nobody listed": lambda score: np.zeros(n),
        "c = 2": lambda score: sampling.inclusion(2 * score, k, "joint"),
    }
    truth = {
        name: np.mean(
            [np.mean(without + chances[name](score) * (listed_mean - without)) for score in scores]
        )
        for name in names
    }
    own = np.mean(
        [
            np.mean(without + sampling.inclusion(0.8 * score, k, "joint") * (listed_mean - without))
            for score in scores
        ]
    )
    means = [
        np.clip(np.stack([without, within], axis=1) + 0.05 * rng.normal(size=(n, 2)), 0, 1)
        for _ in range(T)
    ]
    found = {name: [] for name in names}
    for _ in range(400):
        rounds = []
        for t, score in enumerate(scores):
            one = drawn(rng, score, k, c=0.8, round=t)
            contacted = one.listed * (rng.random(n) < reach)
            after = rng.random(n) < np.where(contacted == 1, within, without)
            rounds.append(replace(one, contacted=contacted, after=after.astype(np.int64)))
        for row in off_policy_of(rounds, policies_for(rounds, (2.0,)), means, 2, Z):
            if row.policy in names:
                half = (row.difference_high - row.difference_low) / 2
                wide = (row.high - row.low) / 2
                found[row.policy].append((row.estimate, wide, row.difference, half))
    for name in names:
        estimate_, wide, difference, half = np.array(found[name]).T
        for value, width, true in (
            (estimate_, wide, truth[name]),
            (difference, half, truth[name] - own),
        ):
            # A ratio's bias is of the order 1 / 480.
            assert abs(value.mean() - true) < 4 * value.std() / 20 + 0.002, name
            assert abs(np.mean(abs(value - true) <= width) - 0.9) < 0.06, name
            assert np.mean(width) / Z == pytest.approx(value.std(), rel=0.14), name


def simulated(rng, n, T, drift=0.0):
    """A history of T rounds, with later contacts for people whom contacts were seen to help.

    A plain comparison of early and late frequencies is misleading there.
    """
    p = rng.beta(2, 2, size=(n, 2, 2))
    state = rng.integers(0, 2, n)
    rows = []
    helped = np.zeros(n)
    for t in range(1, T + 1):
        late = t > T // 2
        chosen = (
            (rng.random(n) < 0.3).astype(int)
            if not late
            else (helped + rng.normal(size=n) > 0.5).astype(int)
        )
        after = (
            rng.random(n) < np.clip(p[np.arange(n), chosen, state] - late * drift, 0, 1)
        ).astype(int)
        rows += zip(range(n), [t] * n, state, chosen, strict=True)
        helped += chosen * (2 * after - 1)
        state = after
    rows += zip(range(n), [T + 1] * n, state, [-1] * n, strict=True)
    return history_of(rows)


def drift_after(history, n, T):
    """Each round of the later half is predicted from all before it."""

    def model_of(t):
        counts = count_transitions(*history.between(0, t).rows(), n, 2)
        seen = estimate(counts, classes=1)
        return Model(t, "", 0, {}, seen.P, seen.low, seen.high, seen.seen, seen.bound)

    rounds = []
    for t in range(T // 2 + 1, T + 1):
        state, contacted = history.of(t, n)
        after, _ = history.of(t + 1, n)
        rounds.append(
            planned(
                np.full(n, 0.5),
                np.zeros(n),
                state=state,
                contacted=contacted,
                after=after,
                round=t,
                model=t,
            )
        )
    rows, span = drift_of(predictions(rounds, model_of, 2), history, n, ["bad", "good"], Z)
    return flag(rows, alarm_level(row.p for row in rows)), span


@pytest.mark.slow
def test_drift_is_seen_and_a_change_of_whom_is_contacted_is_not_taken_for_it():
    """20 programmes without drift: few are flagged, and z has unit variance at most.

    At 5 % a programme, more than 6 of 20 has a chance of 3e-5; the variance of 80 z is below
    1 + 4 sqrt(2 / 80).
    """
    rng = np.random.default_rng(8)
    T, scores, flagged = 8, [], 0
    for _ in range(20):
        rows, span = drift_after(simulated(rng, 200, T), 200, T)
        assert span == Span(7, 8)
        assert sum(row.earlier_moves for row in rows) == 6 * 200
        scores += [row.z for row in rows]
        flagged += any(row.flagged for row in rows)
    assert flagged <= 6
    assert np.var(scores) < 1 + 4 * math.sqrt(2 / 80)
    rows, _ = drift_after(simulated(rng, 1000, T, drift=0.2), 1000, T)
    assert all(row.flagged and row.observed < row.expected for row in rows if not row.contacted)
    # Many people: plain frequencies differ by far more than chance allows, and yet nothing has
    # changed but who is contacted.
    rows, _ = drift_after(simulated(rng, 4000, T), 4000, T)
    assert (
        max(
            abs(row.observed - row.earlier) / (0.5 / math.sqrt(min(row.moves, row.earlier_moves)))
            for row in rows
        )
        > 4
    )
    assert all(abs(row.z) < 4 for row in rows)


# A programme in a database.


def test_lists_contacts_and_outcomes_are_counted(database, tmp_path):
    people = "id,region,reserved,opted_out\n" + "".join(
        f"p{i},r{i % 2},{3 if i == 8 else ''},{int(i == 9)}\n" for i in range(10)
    )
    history = "id,round,state,contacted\n" + "".join(
        f"p{i},{t},{(i + t) % 2},{'' if t == 3 else 0}\n" for i in range(10) for t in (1, 2, 3)
    )
    fill(database, tmp_path, people, history, capacity=3)
    plan, _ = make_plan(database, SOFTWARE)
    on = [int(i) for i in plan.person[plan.listed == 1]]
    off = next(i for i in range(8) if i not in on)
    called = [on[0], on[1], off, 8, 9]  # the last two: arranged, and opted out
    lines = [f"p{i},{int(i in called)},{int(i < 5)}" for i in range(10)]
    tell(database, tmp_path, "id,contacted,state\n" + "\n".join(lines) + "\n")
    found = audit(database)
    (row,) = found.rounds
    assert (row.round, row.in_draw, row.listed) == (3, 8, 3)
    assert (row.contacted, row.reached, row.not_reached, row.arranged) == (5, 2, 1, 1)
    assert (row.off_list, row.opted_out_contacted) == (2, 1)
    assert any(
        sentence.startswith("Look: 1 contact with people who had opted out")
        for sentence in found.findings
    )
    everybody, r0, r1 = found.groups
    assert everybody.stated_rate == pytest.approx(3 / 8)
    assert everybody.contact.rate == pytest.approx(
        4 / 9
    )  # nine in the programme, without the one opted out
    assert everybody.outcome.rate == pytest.approx(5 / 9)
    assert r0.people + r1.people == 8
    expected = plan.probability[[i for i in range(8) if i % 2 == 0]].sum() / 4
    assert r0.stated_rate == pytest.approx(expected)
    assert r0.outcome.relative == pytest.approx((3 / 5) / (5 / 9))  # 0, 2, 4 of 0, 2, 4, 6, 8
    assert found.off_policy[0].estimate == pytest.approx(5 / 8)
    assert found.spread.never_contacted_ever == 5  # of nine still here
    assert found.spread.longest_wait == 3
    assert found.fairness[0].unfair_pairs == 0


def test_the_version_in_force_counts_and_sites_are_draws_of_their_own(database, tmp_path):
    small(database, tmp_path, by="region", capacity={"north": 2, "south": 1})
    make_plan(database, SOFTWARE)
    make_plan(database, SOFTWARE, PlanWish(replan="a worker is ill"))
    plan = plan_of(database)
    found = audit(database)
    (row,) = found.rounds
    assert (row.version, row.listed, row.capacity) == (2, 3, 3)
    assert row.listed == plan.listed.sum()
    assert found.fairness[0].pairs == 2 * 15
    for group in found.groups[1:]:
        assert math.isnan(group.z)  # a site's list has a fixed size
        assert group.selection.rate == pytest.approx((2 if group.value == "north" else 1) / 6)


def test_both_databases_say_the_same(server, tmp_path):
    told = []
    for database in (Store(str(tmp_path / "a.db")), Store(server())):
        small(database, tmp_path)
        for t in (6, 7):
            plan, _ = make_plan(database, SOFTWARE)
            assert plan.round == t
            lines = [f"name-{i},{plan.listed[i]},{(i * t) % 2}" for i in range(12)]
            tell(database, tmp_path, "id,contacted,state\n" + "\n".join(lines) + "\n")
        told.append(audit(database).to_dict())
    heads = [one.pop("checkpoint") for one in told]
    assert told[0] == told[1]
    assert heads[0] != heads[1]  # entries of a log are salted


def test_one_round_for_itself(database, tmp_path):
    """The audit of one round has its figures, and none that need several rounds."""
    small(database, tmp_path)
    for t in (6, 7, 8):
        plan, _ = make_plan(database, SOFTWARE)
        lines = [f"name-{i},{plan.listed[i]},{(i * t) % 2}" for i in range(12)]
        tell(database, tmp_path, "id,contacted,state\n" + "\n".join(lines) + "\n")
    whole = audit(database)
    for i, t in enumerate((6, 7, 8)):
        one = audit(database, round=t)
        assert one.rounds == whole.rounds[i : i + 1]
        assert one.fairness == whole.fairness[i : i + 1]
        assert [row.realised for row in one.engagement] == [whole.engagement[i].realised]
        assert [row.predicted for row in one.engagement] == [whole.engagement[i].predicted]
        assert [row.round for row in one.deeds] == [t]
        assert sum(row.listed for row in one.lists) == whole.rounds[i].listed
        said = " ".join(one.findings)
        assert "every draw replays" in said
        assert "never" not in said  # one list names few: that is no finding
        assert "drift" not in said
        told = {part.key for part in sections(one, across=False)}
        assert told == {part.key for part in sections(whole)} - {"spread", "drift", "memory"}
    with pytest.raises(InvalidInput, match="rounds with one: 6, 7, 8"):
        audit(database, round=9)


def test_corrections_count(database, tmp_path):
    small(database, tmp_path)
    plan, _ = make_plan(database, SOFTWARE)
    first = plan.list[0]
    tell(database, tmp_path, "id,contacted\n" + "".join(f"{name},1\n" for name in plan.list))
    assert audit(database).rounds[0].reached == 4
    tell(database, tmp_path, f"id,contacted\n{first},0\n", round=6)
    assert audit(database).rounds[0].reached == 3


# Nothing, or little, to tell.


def read(found, tmp_path):
    """The audit as JSON, on a terminal and as a page."""
    text = json.dumps(found.to_dict(), allow_nan=False)
    shown = io.StringIO()
    show(found, shown)
    page = write_page(found, tmp_path / "page.html").read_text(encoding="utf-8")
    return text, shown.getvalue(), page


def test_no_people_no_plan_no_record(tmp_path):
    database = Store(str(tmp_path / "a.db"))
    initialise(database, SOFTWARE, seed=0)
    for expected, step in (
        ("has no people yet", lambda: small(database, tmp_path)),
        ("No round has been planned yet", lambda: make_plan(database, SOFTWARE)),
        ("Nothing has been recorded", lambda: tell(database, tmp_path, "id,contacted\nname-1,1\n")),
        ("No states after a planned round are known yet", lambda: None),
    ):
        found = audit(database)
        for text in read(found, tmp_path):
            assert expected in " ".join(text.split())
            plain = text.replace(found.checkpoint.splitlines()[2], "")  # may have any letters
            assert "nan" not in re.sub('base64,[^"]*', "", plain).lower()
        step()


@pytest.mark.slow
def test_nobody_left_in_the_draw(tmp_path):
    database = Store(str(tmp_path / "a.db"))
    small(database, tmp_path, capacity=12, cooldown=3)
    make_plan(database, SOFTWARE)
    tell(database, tmp_path, "id,contacted,state\n" + "".join(f"name-{i},1,1\n" for i in range(12)))
    plan, _ = make_plan(database, SOFTWARE)  # everybody was contacted just now
    assert not plan.listed.any()
    found = audit(database)
    assert found.rounds[1].in_draw == 0
    assert found.spread.never_listed == 0
    assert any("nothing was left to chance" in sentence for sentence in found.findings)
    read(found, tmp_path)
    (tmp_path / "people.csv").write_text(
        "id,opted_out\n" + "".join(f"name-{i},1\n" for i in range(12))
    )
    import_people(database, tmp_path / "people.csv", SOFTWARE)
    tell(database, tmp_path, "id,contacted\nname-0,0\n")
    with pytest.raises(InvalidInput):
        make_plan(database, SOFTWARE)
    found = audit(database)
    assert found.spread.here_now == 0
    assert found.spread.waiting_longest is None
    read(found, tmp_path)


FRACTION = "$\\frac$"  # a group whose name would be a broken formula in a picture


@pytest.mark.slow
def test_the_page_stands_alone_names_nobody_and_escapes(tmp_path):
    database = Store(str(tmp_path / "a.db"))
    people = "id,region\n" + "".join(
        f"secret-{i},{'<b>[red]a</b>' if i % 2 else FRACTION}\n" for i in range(40)
    )
    rng = np.random.default_rng(9)
    history = "id,round,state,contacted\n" + "".join(
        f"secret-{i},{t},{rng.integers(2)},{'' if t == 5 else int(rng.random() < 0.2)}\n"
        for i in range(40)
        for t in range(1, 6)
    )
    fill(database, tmp_path, people, history, capacity=10, c=2.0)
    for _ in range(3):
        plan, _ = make_plan(database, SOFTWARE)
        tell(
            database,
            tmp_path,
            "id,contacted,state\n"
            + "".join(f"secret-{i},{plan.listed[i]},{rng.integers(2)}\n" for i in range(40)),
        )
    found = audit(database)
    text, terminal, page = read(found, tmp_path)
    assert {part.key for part in sections(found)} == {
        "lists",
        "rounds",
        "spread",
        "groups",
        "off_policy",
        "calibration",
        "drift",
    }
    for told in (text, terminal, page):
        assert "secret-" not in told
    assert not re.search(r"(src|href)=\"(?!data:)|https?://|<script|@import|url\(", page)
    assert 'name="viewport"' in page
    assert "<b>" not in page
    assert "&lt;b&gt;[red]a&lt;/b&gt;" in page
    assert "[red]a" in terminal
    assert page.count("data:image/png;base64,") == 8
    assert len(page) < 400_000
    named = audit(database, names=3)
    assert [person.id[:7] for person in named.spread.waiting_people] == ["secret-"] * 3
    assert "secret-" in read(named, tmp_path)[2]
    with (
        database.reading() as connection
    ):  # and the entropy is the library's, of the lists as stored
        counts = sum(load_plan(connection, number).listed for number in (1, 2, 3))
    assert found.spread.entropy_listed == pytest.approx(metrics.action_entropy(counts))
    assert found.spread.gini_listed == pytest.approx(metrics.gini(counts))


KEYS = {
    "rounds": "round version c in_draw capacity listed recorded contacted reached not_reached "
    "not_recorded off_list arranged opted_out_contacted no_site called called_reached overrides "
    "wait least by_promise longest_off lowest shares shares_broken",
    "lists": "from to in_draw expected low high listed z p reached_share reached_low reached_high "
    "off_list",
    "lists_test": "chi_square freedom p impossible",
    "spread": "people in_draw never_listed never_listed_expected never_listed_low "
    "never_listed_high z p in_recorded_draw never_contacted never_contacted_ever here_now lists "
    "contacts entropy_listed entropy_contacted entropy_most gini_listed gini_contacted "
    "longest_wait waiting_median waiting_longest first_round last_round",
    "groups": "column value people in_draw selection_rate selection_low selection_high "
    "selection_relative contact_rate contact_low contact_high contact_relative outcome_rate "
    "outcome_low outcome_high outcome_relative stated_rate z p flagged",
    "fairness": "round pairs unfair_pairs largest_difference for_evenness sites unfair_across "
    "for_promise",
    "engagement": "round people predicted low high realised z p brier brier_of_share flagged",
    "off_policy": "policy estimable why_not rounds effective_listed effective_not_listed "
    "unsupported estimate low high difference difference_low difference_high unnormalised",
    "calibration": "from to moves predicted low high observed z p flagged",
    "cells": "contacted state moves predicted low high observed z p flagged",
    "memory": "after state moves expected observed z p flagged",
    "drift": "contacted state next earlier_moves earlier moves expected low high observed z p "
    "flagged",
    "recent": "first last",
    "histograms": "listed contacted waiting",
    "several": "policy horizon windows people estimable why_not effective guessed estimate low "
    "high difference difference_low difference_high",
    "deeds": "round luck versions exchanged commitments eligibility corrected by replanned changed "
    "back",
}
PLAIN = (
    "people round_name states level findings entries wrong checkpoint days protected trial goes_by"
)


def test_json_keeps_its_keys_and_tables_their_level(tmp_path):
    """Other programs read the JSON; the figures of a row satisfy their identities."""
    database = Store(str(tmp_path / "a.db"))
    small(database, tmp_path, n=60, capacity=20, c=1.0, level=0.8)
    rng = np.random.default_rng(10)
    for _ in range(2):
        plan, _ = make_plan(database, SOFTWARE)
        lines = [f"name-{i},{plan.listed[i]},{rng.integers(2)}" for i in range(60)]
        tell(database, tmp_path, "id,contacted,state\n" + "\n".join(lines) + "\n")
    found = audit(database)
    told = found.to_dict()
    assert list(told) == [part.name for part in fields(Audit)]
    assert set(told) == {*KEYS, *PLAIN.split()}
    for name, keys in KEYS.items():
        for row in told[name] if isinstance(told[name], list) else [told[name]]:
            assert list(row) == keys.split()
    assert told["states"] == ["bad", "good"]
    assert told["groups"][0]["z"] is None
    (named,) = audit(database, names=1).to_dict()["spread"]["waiting_people"]
    assert list(named) == ["id", "rounds"]
    # Ends lie the quantile of the level away from the middle, in the unit that z is in.
    for row in found.engagement:
        sd = (row.realised - row.predicted) / row.z
        assert row.high - row.predicted == pytest.approx(stats.norm.ppf(0.9) * sd)
    tables = (found.groups, found.engagement, found.calibration, found.cells, found.drift)
    level = alarm_level(row.p for rows in (*tables, found.memory) for row in rows)
    for rows in tables:
        assert any(not math.isnan(row.p) for row in rows)
        assert [row.flagged for row in rows] == [row.p <= level for row in rows]


def test_other_multipliers_on_request(tmp_path):
    database = Store(str(tmp_path / "a.db"))
    small(database, tmp_path)
    make_plan(database, SOFTWARE)
    tell(database, tmp_path, "id,contacted,state\n" + "".join(f"name-{i},0,1\n" for i in range(12)))
    names = [row.policy for row in audit(database, cs=(0.5, math.inf)).off_policy]
    assert names == ["as drawn", "nobody listed", "Random", "most effective", "c = 0.5", "c = inf"]
    assert [row.policy for row in audit(database).off_policy][-2:] == ["half of c", "twice c"]


def test_findings_name_plans_made_again(tmp_path):
    database = Store(str(tmp_path / "anew.db"))
    initialise(database, SOFTWARE, seed=0)
    small(database, tmp_path)
    make_plan(database, SOFTWARE)
    assert not any("more than once" in sentence for sentence in audit(database).findings)
    make_plan(database, SOFTWARE, PlanWish(replan="somebody fell ill"))
    told = [sentence for sentence in audit(database).findings if "more than once" in sentence]
    assert len(told) == 1
    assert told[0].startswith("Look:")
    assert "(2 versions)" in told[0]
    assert "ill" not in told[0]  # a reason may name people


def test_the_exported_log_agrees_with_the_database(tmp_path):
    """A row for each person and round of the plans in force, compared with an own query."""
    database = Store(str(tmp_path / "log.db"))
    initialise(database, SOFTWARE, seed=7, capacity=2, first_day="2027-01-04")
    with pytest.raises(InvalidInput, match="no round is planned yet"):
        log_table(database)
    import_people(database, b"id\n" + b"".join(b"p%d\n" % i for i in range(6)), SOFTWARE)
    seen = "".join(f"p{i},{r},{(i * r) % 2},{i % 2}\n" for i in range(6) for r in range(1, 5))
    import_history(database, f"id,round,state,contacted\n{seen}".encode(), SOFTWARE)
    first, _ = make_plan(database, SOFTWARE)
    import_people(database, f"id,opted_out\n{first.list[0]},1\n".encode(), SOFTWARE)
    make_plan(database, SOFTWARE, PlanWish(replan="one opted out"))
    record(database, b"id,contacted,state\np1,1,1\np2,0,0\n", SOFTWARE, round=5, close=True)
    make_plan(database, SOFTWARE)
    columns = log_table(database).whole()
    with sqlite3.connect(tmp_path / "log.db") as raw:
        stored = raw.execute(
            "select name, round, version, probability, listed from plan_row "
            "join plan on plan.id = plan_row.plan join person on person.id = plan_row.person "
            "where (round, version) in (select round, max(version) from plan group by round) "
            "order by round, person.id"
        ).fetchall()
    shown = ("id", "round", "version", "probability", "listed")
    assert list(zip(*(columns[name] for name in shown), strict=True)) == stored
    assert {(r, v) for _, r, v, _, _ in stored} == {(5, 2), (6, 1)}
    rows = {
        (name, at): (contacted, after)
        for name, at, contacted, after in zip(
            *(columns[name] for name in ("id", "round", "contacted", "state_after")), strict=True
        )
    }
    assert rows["p1", 5] == (1, 1)
    assert rows["p2", 5] == (0, 0)
    assert rows["p1", 6] == (None, None)
    assert columns["date"][0] == "2027-02-01"
    assert columns["status"][columns["id"].index(first.list[0])] == "opted_out"


# Round by round: what is added up is what all rounds together say, and no round is held.


def moves_of(rng, rounds, n, S):
    """Predictions of some rounds and their outcomes, with uncertain models, people in any order."""
    told = []
    for at in rounds:
        person = rng.permutation(n)[: rng.integers(n // 2, n)]
        q = len(person)
        action, state, after = rng.integers(2, size=q), *rng.integers(S, size=(2, q))
        doubt = Doubt(rng.random((5, 2, S, CELLS)), rng.random((2, S, CELLS)) / 99, 0.0)
        law = rng.dirichlet(np.ones(S), q)
        told.append(Predicted(at, person, action, state, after, law, np.empty((0, 2)), doubt))
    return told


def test_calibration_is_that_of_all_moves_together():
    """Three states, five rounds: every figure agrees with one from all moves at once."""
    told = moves_of(np.random.default_rng(12), range(5), 300, 3)
    P = np.concatenate([said.law[:, 2] for said in told])
    good = np.concatenate([said.after == 2 for said in told])
    action, state = (np.concatenate([getattr(x, y) for x in told]) for y in ("action", "state"))
    cell = np.minimum((P * CELLS).astype(int), CELLS - 1)
    size = np.bincount(cell, minlength=CELLS)
    bin_of = np.minimum(10 * (np.cumsum(size) - size / 2) // len(P), 9)
    parts = [
        (row, bin_of[cell] == j, np.broadcast_to(bin_of == j, (2, 3, CELLS)))
        for j, row in enumerate(calibration_of(told, Z, 3))
    ]
    assert len(parts) == 10
    for row, here, _ in parts:
        assert (row.moves_of.from_, row.moves_of.to) == (P[here].min(), P[here].max())
    for row in cells_of(told, ["a", "b", "c"], Z):
        a, s = int(row.moves_of.contacted), "abc".index(row.moves_of.state)
        counted = np.zeros((2, 3, CELLS), bool)
        counted[a, s] = True
        parts.append((row, (action == a) & (state == s), counted))
    assert len(parts) == 16
    for row, here, counted in parts:
        doubted = [
            max(d.best[:, counted].sum(axis=1).var(ddof=1) - d.own[counted].sum(), 0)
            for d in (said.doubt for said in told)
        ]
        variance = (np.sum(P[here] * (1 - P[here])) + sum(doubted)) / here.sum() ** 2
        assert row.moves == here.sum()
        assert row.predicted == pytest.approx(P[here].mean(), rel=1e-12)
        assert row.observed == pytest.approx(good[here].mean(), rel=1e-12)
        z = (good[here].mean() - P[here].mean()) / math.sqrt(variance)
        assert row.z == pytest.approx(z, rel=1e-9)


def test_drift_is_that_of_all_recent_moves_together():
    """Three states, rounds 3 to 7 of which 5 to 7 are recent, person by person."""
    rng = np.random.default_rng(13)
    n, S = 400, 3
    told = moves_of(rng, range(3, 8), n, S)
    history = history_of(
        [(i, t, rng.integers(S), rng.integers(2)) for i in range(n) for t in range(8)]
    )
    earlier = history.between(0, 5).moves(n, S)
    rows, span = drift_of(told, history, n, ["a", "b", "c"], Z)
    assert span == Span(5, 7)
    assert len(rows) == 2 * S * S
    for row in rows:
        a, s, s2 = int(row.contacted), "abc".index(row.state), "abc".index(row.next)
        error, chances, reached = np.zeros(n), [], []
        for said in told[2:]:
            for i in np.flatnonzero((said.action == a) & (said.state == s)):
                chances.append(said.law[i, s2])
                reached.append(said.after[i] == s2)
                error[said.person[i]] += reached[-1] - chances[-1]
        P, before = np.array(chances), earlier[:, a, s].sum()
        share = earlier[:, a, s, s2].sum() / before
        scatter = earlier[:, a, s, s2] - share * earlier[:, a, s].sum(axis=1)
        variance = max(np.sum(error**2), np.sum(P * (1 - P))) / len(P) ** 2
        variance += np.sum(scatter**2) / before**2
        assert (row.moves, row.earlier_moves) == (len(P), before)
        assert (row.expected, row.observed) == pytest.approx(
            (P.mean(), np.mean(reached)), rel=1e-12
        )
        assert row.z == pytest.approx((row.observed - row.expected) / math.sqrt(variance), rel=1e-9)


@given(chances=arrays(np.float64, st.integers(1, 400), elements=st.floats(0, 1)))
@settings(deadline=None)
def test_bins_of_equal_variance_are_found_a_piece_at_a_time(chances):
    """The same cuts, to the last bit, as from all chances at once."""
    rounds = [planned(part, np.zeros(len(part))) for part in np.array_split(chances, 3)]
    p = np.sort(chances)
    variance = np.cumsum(p * (1 - p))
    bins = int(np.clip(variance[-1] / 5, 1, 10))
    cuts = np.unique(p[np.searchsorted(variance, variance[-1] * np.arange(1, bins) / bins)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lists, "PIECE", 7)
        assert fed(lists.Bins(), rounds).cuts().tolist() == cuts[cuts > p[0]].tolist()


@pytest.mark.parametrize("n", [12, 200])
def test_sets_that_do_not_overlap_have_the_covariance_of_their_columns(n):
    """By the exact law of a small draw, and by the formula of a large one."""
    rng = np.random.default_rng(14)
    law = DesignLaw(sampling.inclusion(rng.normal(size=n), n // 3, "joint"))
    assert (law.variance < EXACT_BELOW) == (n == 12)
    label = rng.integers(-1, 3, n)
    X = np.eye(4)[label][:, :3]
    np.testing.assert_allclose(law.of_sets(label, 3), law.covariance(X), atol=1e-12)


def test_a_whole_draw_has_no_variance_however_large_it_is():
    """A list of everybody has variance 0, in spite of rounding in 100,000 variances."""
    p = np.random.default_rng(17).random(100_000)
    law = DesignLaw(p * 10_000 / p.sum())
    assert law.of_sets(np.zeros(100_000, int), 1).tolist() == [[0.0]]
    assert law.of_sets(np.zeros(100_000, int), 2)[0, 0] == 0.0


def test_model_uncertainty_does_not_depend_on_the_size_of_blocks(monkeypatch):
    rng = np.random.default_rng(15)
    P = rng.dirichlet(np.ones(2), (50, 2, 2))
    draws = (np.clip(P[..., 1:] + rng.normal(0, 0.1, (9, 50, 2, 2, 1)), 0, 1) * UNIT).astype(int)
    model = replace(sure_model(P), draws=draws.astype(np.uint16))
    state, contacted, after = rng.integers(2, size=(3, 50))
    one = planned([0.2] * 50, first(10, 50), state=state, contacted=contacted, after=after)
    (whole,) = predictions([one], lambda number: model, 2)
    monkeypatch.setattr(sys.modules[Predicted.__module__], "PEOPLE_AT_ONCE", 7)
    (pieces,) = predictions([one], lambda number: model, 2)
    assert pieces.doubt.reward == pytest.approx(whole.doubt.reward, rel=1e-9)
    np.testing.assert_allclose(pieces.doubt.best, whole.doubt.best, rtol=1e-12)
    np.testing.assert_allclose(pieces.doubt.own, whole.doubt.own, rtol=1e-12)


def again(path, first_round, rounds, n):
    """Add rounds to a programme that repeat the plan and the records of one round."""
    with sqlite3.connect(path) as raw:
        (number,) = raw.execute("select max(id) from plan").fetchone()
        columns = [row[1] for row in raw.execute("pragma table_info(plan)")]
        for t in range(first_round + 1, first_round + rounds + 1):
            new = {"id": number + t, "round": t}
            values = ", ".join(str(new.get(name, name)) for name in columns)
            raw.execute(f"insert into plan select {values} from plan where id = {number}")
            shown = "person, status, site, state, score, bonus, probability, listed"
            raw.execute(
                f"insert into plan_row (plan, {shown}) "
                f"select {number + t}, {shown} from plan_row where plan = {number}"
            )
        rng = np.random.default_rng(16)
        for t in range(first_round, first_round + rounds + 2):
            state, contacted = rng.integers(2, size=(2, n), dtype=np.int8)
            raw.execute("delete from track where round = ?", [t])
            raw.execute(
                "insert into track values (?, ?, ?)", [t, state.tobytes(), contacted.tobytes()]
            )


@pytest.mark.slow
def test_memory_does_not_grow_with_planned_rounds(tmp_path, monkeypatch):
    """Audits after three and after eighteen planned rounds of the same 6,000 people, without check.

    A round may take eight bytes a person during the search for bins and two of history, as the
    docstring of `softfair.programme.audit` states. For any number of people it may also take
    [39, 2, 2, 200] numbers and a fortieth more for the uncertainty of the model, and 30,000 bytes
    for rows of tables and the rest. Another column of eight bytes a person would exceed this.
    """
    monkeypatch.setattr(sys.modules[audit.__module__], "check_in", lambda connection: NO_CHECK)
    n, peaks = 6000, {}
    for rounds in (3, 18):
        path = tmp_path / f"{rounds}.db"
        database = Store(str(path))
        small(database, tmp_path, n=n, weeks=3, capacity=600)
        plan, _ = make_plan(database, SOFTWARE)
        again(path, plan.round, rounds - 1, n)
        assert len(audit(database).engagement) == rounds  # and all is compiled
        tracemalloc.start()
        audit(database)
        peaks[rounds] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    fixed = 1.025 * 39 * 2 * 2 * CELLS * 8 + 30_000
    assert peaks[18] - peaks[3] < 15 * (10 * n + fixed)
