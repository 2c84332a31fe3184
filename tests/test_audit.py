"""The audit: figures by hand and by brute force; honest draws pass its tests and others do not."""

from __future__ import annotations

import io
import itertools
import json
import math
import re
import sys

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from softfair import metrics, sampling
from softfair.errors import InvalidInput
from softfair.estimate import count_transitions, estimate
from softfair.programme.audit import audit, sections, show, write_page
from softfair.programme.audit.evidence import Planned, draws, predictions
from softfair.programme.audit.groups import _pooled, groups_of
from softfair.programme.audit.lists import fairness_of, lists_of
from softfair.programme.audit.off_policy import LOTTERY, NOBODY, off_policy_of, policies_for
from softfair.programme.audit.outcomes import drift_of, engagement_of
from softfair.programme.audit.spread import Span, Waits, spread_of
from softfair.programme.audit.statistics import (
    Rates,
    Tally,
    design_variance,
    wilson,
)
from softfair.programme.ingest import History, People, import_history, import_people, record
from softfair.programme.models import Model
from softfair.programme.rounds import Status, load_plan, make_plan, plan_of
from softfair.programme.settings import initialise
from softfair.programme.store import Store

SOFTWARE = "softfair test"
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
    """A round by hand; nothing recorded unless said."""
    m = len(probability)

    def whole(values, default):
        return np.full(m, default) if values is None else np.asarray(values, dtype=np.int64)

    p = np.asarray(probability, dtype=np.float64)
    return Planned(
        round=more.get("round", 1),
        version=1,
        model=more.get("model", 1),
        c=more.get("c", 1.0),
        sites=sites or [("", int(np.sum(listed)) if k is None else k)],
        person=np.arange(m),
        status=whole(status, 0),
        site=whole(site, 0),
        score=p.copy() if score is None else np.asarray(score, dtype=np.float64),
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
    return History(*table.T)


def fill(database, tmp_path, people, history, **settings):
    initialise(database, SOFTWARE, **settings)
    (tmp_path / "people.csv").write_text(people)
    import_people(database, tmp_path / "people.csv", SOFTWARE)
    (tmp_path / "history.csv").write_text(history)
    import_history(database, tmp_path / "history.csv", SOFTWARE)


def tell(database, tmp_path, text, round=None):
    (tmp_path / "record.csv").write_text(text)
    record(database, tmp_path / "record.csv", SOFTWARE, round)


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
    halves = draws([planned([0.5] * 4, [1, 0, 1, 0])], [np.array([0, 0, 1, 1])])
    tally = Tally.of(halves, 2)
    np.testing.assert_allclose(tally.covariance, [[1 / 3, -1 / 3], [-1 / 3, 1 / 3]], atol=1e-12)
    assert tally.z(0) == 0.0


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
    assert waits.here.tolist() == [True, True, True, False, True, False]
    assert waits.span == Span(1, 6)


def test_never_listed_counts_first_listings():
    """One of two places, then one again: .75 first listings are expected of the second round.

    The product of 1 - p would say otherwise.
    """
    rounds = [planned([0.5, 0.5], [1, 0], round=1), planned([0.25, 0.75], [1, 0], round=2)]
    figures, histograms = spread_of(rounds, people_of(2), history_of([]), Z, 0)
    assert figures.never_listed == 1
    assert figures.never_listed_expected == pytest.approx(2 - 1 - 0.75)
    assert figures.z == pytest.approx((1 - 0.25) / math.sqrt(0.75 * 0.25))
    assert histograms.listed == (1, 0, 1)


def test_off_policy_by_hand(monkeypatch):
    monkeypatch.setattr(sys.modules[off_policy_of.__module__], "LEAST_EFFECTIVE", 0.0)
    p, listed, Y = np.array([0.8, 0.2, 0.6, 0.4]), [1, 0, 0, 1], np.array([1, 1, 0, 1])
    one = planned(p, listed, after=Y, c=math.nan)
    nobody, lottery = off_policy_of([one], (NOBODY, LOTTERY), 4, 2, Z)
    assert nobody.unnormalised == pytest.approx(1 / 0.8 / 4)
    assert nobody.estimate == pytest.approx(1.25 / 3.75)
    w = np.array([0.625, 0.625, 1.25, 1.25])
    assert lottery.estimate == pytest.approx(2 / 3)
    assert lottery.difference == pytest.approx(2 / 3 - 3 / 4)
    gap = w * (Y - 2 / 3) / 3.75 - (Y - 0.75) / 4
    half = Z * math.sqrt(np.sum(gap**2) * 4 / 3)
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
        row.policy: row for row in off_policy_of([hard], policies_for([hard], (2.0,)), 200, 2, Z)
    }
    assert rows["as drawn"].estimate == pytest.approx(after.mean())
    assert rows["most effective"].estimate == pytest.approx(after.mean())
    for name in ("nobody listed", "Random", "c = 2"):
        assert not rows[name].estimable
        assert rows[name].unsupported > 0.9
        assert math.isnan(rows[name].estimate)
        assert "never drawn" in rows[name].why_not
    few = drawn(rng, score[:6], 2, after=after[:6])
    assert "rounds of people" in off_policy_of([few], policies_for([few], ()), 6, 2, Z)[2].why_not


def test_engagement_by_hand():
    """Two people, chances .25 and .5 of the good state.

    Predicted .375, sd sqrt(.1875 + .25) / 2, Brier (.75^2 + .5^2) / 2.
    """
    P = np.zeros((2, 2, 2, 2))
    P[..., 1] = 0.9
    P[0, 0, 1, 1], P[1, 1, 0, 1] = 0.25, 0.5
    P[..., 0] = 1 - P[..., 1]
    nothing = np.zeros((2, 2, 2))
    model = Model(1, "", 0, {}, P, P, P, nothing.astype(int), np.zeros(2, bool))
    one = planned([0.5, 0.5], [0, 1], state=[1, 0], contacted=[0, 1], after=[1, 1])
    found = predictions([one], lambda number: model, 2)
    (row,) = engagement_of(found, Z)
    assert (row.predicted, row.realised) == (0.375, 1.0)
    assert row.z == pytest.approx(0.625 / (math.sqrt(0.1875 + 0.25) / 2))
    assert row.brier == pytest.approx((0.75**2 + 0.5**2) / 2)
    assert row.brier_of_share == 0.0
    assert found.law[:, 1].tolist() == [0.25, 0.5]


def test_group_values_of_one_person_are_put_together():
    names, code = _pooled(["", "a", "b", "c"], np.array([1, 1, 2, 3, 0, 0]))
    assert names == ["(none)", "a", "(others)"]
    assert code.tolist() == [1, 1, 2, 2, 0, 0]


# By brute force.


def test_the_design_variance_against_all_lists():
    """Conditional Poisson sampling by enumeration: every set's variance is within 6 %, 3 of 10."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        score, n, k = rng.normal(size=10), 10, 3
        lists = np.array(
            [[i in chosen for i in range(n)] for chosen in itertools.combinations(range(n), k)],
            dtype=float,
        )
        chance = np.exp(lists @ score)
        chance /= chance.sum()
        p = chance @ lists
        exact = (lists * chance[:, None]).T @ lists - np.outer(p, p)
        b = design_variance(p)
        ours = np.diag(b) - np.outer(b, b) / b.sum()
        np.testing.assert_allclose(np.diag(ours), p * (1 - p), rtol=1e-9)
        for members in itertools.product([0, 1], repeat=n):
            B = np.array(members)
            if 0 < B.sum() < n:
                assert B @ ours @ B == pytest.approx(B @ exact @ B, rel=0.06)


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
    (row,) = fairness_of(
        [
            planned(
                p, np.zeros(30), score=score, site=site, sites=[("a", 3), ("b", 3)], status=status
            )
        ]
    )
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(30), 2)
        if site[i] == site[j] and status[i] == status[j] == 0
    ]
    gaps = [p[i] - p[j] for i, j in pairs if score[i] < score[j] and p[i] > p[j]]
    assert row.pairs == len(pairs) // 2
    assert row.unfair_pairs == len(gaps) > 0
    assert row.largest_difference == pytest.approx(max(gaps))
    (fair,) = fairness_of([drawn(rng, score, 5)])
    assert fair.unfair_pairs == 0


def test_off_policy_against_loops():
    rng = np.random.default_rng(5)
    rounds = [
        drawn(rng, rng.normal(size=50), 15, c=0.7, after=rng.integers(-1, 3, 50)) for _ in range(3)
    ]
    rows = {
        row.policy: row for row in off_policy_of(rounds, policies_for(rounds, (0.2,)), 50, 3, Z)
    }
    w, Y, who = [], [], []
    for one in rounds:
        q = sampling.inclusion(0.2 * one.score, 15, "joint")
        for i in range(50):
            if one.after[i] >= 0:
                w.append(
                    q[i] / one.probability[i]
                    if one.listed[i]
                    else (1 - q[i]) / (1 - one.probability[i])
                )
                Y.append(one.after[i] / 2)
                who.append(i)
    w, Y = np.array(w), np.array(Y)
    V = w @ Y / w.sum()
    assert rows["c = 0.2"].estimate == pytest.approx(V)
    assert rows["c = 0.2"].unnormalised == pytest.approx(w @ Y / len(Y))
    pull = np.bincount(who, w * (Y - V), 50) / w.sum()
    assert rows["c = 0.2"].high == pytest.approx(
        V + Z * math.sqrt(pull @ pull * (m := len(set(who))) / (m - 1))
    )
    assert rows["as drawn"].estimate == pytest.approx(Y.mean())
    assert abs(rows["as drawn"].difference_high) < 1e-9


# Statistics.


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
        groups.append(Tally.of(draws(rounds, [label] * 5), 4).z(0))
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
    assert [row.value for row in rows if row.flagged and row.z > 0] == ["0"]
    impossible = planned([1.0, 0.0, 0.5, 0.5], [0, 1, 1, 0])
    assert lists_of([impossible], Z)[1].impossible == 2


def test_the_off_policy_estimate_is_right_on_average_and_its_interval_covers():
    """Potential outcomes are known, so the truth is too.

    400 programmes: the mean error is within 4 standard errors of zero, the coverage of the 90 %
    interval of the difference at least .9 - 4 sqrt(.9 * .1 / 400) = .84 (it may cover more, for
    people are taken as drawn too).
    """
    rng = np.random.default_rng(7)
    n, k, T = 120, 30, 4
    errors = {"Random": [], "most effective": [], "nobody listed": [], "c = 2": []}
    covered = {name: 0 for name in errors}
    for _ in range(400):
        rounds, truth = [], {name: [] for name in errors}
        own = []
        for t in range(T):
            score = rng.normal(size=n)
            without = rng.random(n) < 0.4
            within = without | (rng.random(n) < stats.norm.cdf(score))
            one = drawn(rng, score, k, c=0.8, round=t)
            after = np.where(one.listed == 1, within, without).astype(int)
            rounds.append(planned(one.probability, one.listed, score=score, after=after, c=0.8))
            own.append(np.mean(one.probability * within + (1 - one.probability) * without))
            chances = {
                "Random": np.full(n, k / n),
                "most effective": sampling.inclusion_of_top(score, k),
                "nobody listed": np.zeros(n),
                "c = 2": sampling.inclusion(2 * score, k, "joint"),
            }
            for name, q in chances.items():
                truth[name].append(np.mean(q * within + (1 - q) * without))
        for row in off_policy_of(rounds, policies_for(rounds, (2.0,)), n, 2, Z):
            if (name := row.policy) in errors:
                true = np.mean(truth[name])
                errors[name].append((row.unnormalised - true, row.estimate - true))
                covered[name] += row.difference_low <= true - np.mean(own) <= row.difference_high
    for name, found in errors.items():
        plain, normalised = np.array(found).T
        assert abs(plain.mean()) < 4 * plain.std() / 20, name
        assert abs(normalised.mean()) < 4 * normalised.std() / 20 + 0.002, (
            name
        )  # a ratio's bias is of the order 1 / 480
        assert covered[name] / 400 > 0.84, name


def simulated(rng, n, T, drift=0.0):
    """A history of T rounds; later contacts go to those for whom they were seen to help.

    That misleads a plain comparison of early and late frequencies.
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
        before = history.round <= t
        columns = (history.person, history.round, history.state, history.contacted)
        seen = estimate(count_transitions(*(column[before] for column in columns), n, 2))
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
    return drift_of(predictions(rounds, model_of, 2), history, n, ["bad", "good"], Z)


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
    make_plan(database, SOFTWARE, replan="a worker is ill")
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
    assert told[0] == told[1]


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
    console = Console(record=True, width=100, file=io.StringIO())
    show(found, console)
    page = write_page(found, tmp_path / "page.html").read_text(encoding="utf-8")
    return text, console.export_text(), page


def test_no_people_no_plan_no_record(tmp_path):
    database = Store(str(tmp_path / "a.db"))
    initialise(database, SOFTWARE)
    for expected, step in (
        ("has no people yet", lambda: small(database, tmp_path)),
        ("No round has been planned yet", lambda: make_plan(database, SOFTWARE)),
        ("Nothing has been recorded", lambda: tell(database, tmp_path, "id,contacted\nname-1,1\n")),
        ("No states after a planned round are known yet", lambda: None),
    ):
        found = audit(database)
        for text in read(found, tmp_path):
            assert expected in " ".join(text.split())
            assert "nan" not in re.sub('base64,[^"]*', "", text).lower()
        step()


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


def test_the_page_stands_alone_names_nobody_and_escapes(tmp_path):
    database = Store(str(tmp_path / "a.db"))
    people = "id,region\n" + "".join(
        f"secret-{i},{'<b>[red]a</b>' if i % 2 else 'b'}\n" for i in range(40)
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


def test_other_multipliers_on_request(tmp_path):
    database = Store(str(tmp_path / "a.db"))
    small(database, tmp_path)
    make_plan(database, SOFTWARE)
    tell(database, tmp_path, "id,contacted,state\n" + "".join(f"name-{i},0,1\n" for i in range(12)))
    names = [row.policy for row in audit(database, cs=(0.5, math.inf)).off_policy]
    assert names == ["as drawn", "nobody listed", "Random", "most effective", "c = 0.5", "c = inf"]
    assert [row.policy for row in audit(database).off_policy][-2:] == ["half of c", "twice c"]


def test_plans_made_anew_are_told(tmp_path):
    database = Store(str(tmp_path / "anew.db"))
    initialise(database, SOFTWARE)
    small(database, tmp_path)
    make_plan(database, SOFTWARE)
    assert not any("more than once" in sentence for sentence in audit(database).findings)
    make_plan(database, SOFTWARE, replan="somebody fell ill")
    told = [sentence for sentence in audit(database).findings if "more than once" in sentence]
    assert len(told) == 1
    assert told[0].startswith("Look:")
    assert "(2 versions)" in told[0]
    assert "ill" not in told[0]  # a reason may name people
