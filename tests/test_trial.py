"""A trial in the programme: the assignment, the plans within its arms, the effect and its power."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa
import village
from fed import fed
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tried import ARMS, ROUNDS, World, history_of, no_list, people_of, tried

from softfair.errors import InvalidInput
from softfair.programme import imports, store, trials
from softfair.programme.assignment import (
    Arm,
    assigned,
    imbalance,
    load_trial,
    spread_out,
    tries_of,
    units_of_arms,
)
from softfair.programme.audit import audit
from softfair.programme.audit.findings import trial as findings
from softfair.programme.audit.planned import Planned
from softfair.programme.audit.trial import Listed, trial_result
from softfair.programme.checks import check
from softfair.programme.effects import A_NUMBER, Means
from softfair.programme.eligibility import TURN, Site, Status, _Cells, eligibility_of
from softfair.programme.journal import journal
from softfair.programme.luck import numbered, numbers
from softfair.programme.plans import commit_plan, draw_plan, explain, make_plan
from softfair.programme.power import Units, outcomes, pairs_of, power_of
from softfair.programme.records import record
from softfair.programme.settings import Settings, initialise
from softfair.programme.snapshot import Snapshot, take_snapshot
from softfair.programme.standing import standing
from softfair.programme.tracks import ABSENT
from softfair.programme.trials import Wish

NAME = village.NAME
THREE = ("softfair", "lottery", "usual")
THIRDS = (1 / 3, 1 / 3, 1 / 3)
KEY = f"{7:064x}"
SMALL = tried(3, World(n=60, effect=False))


# The estimate.


def test_two_means_are_welchs_test():
    rng = np.random.default_rng(1)
    y, arm = rng.normal(size=30), np.repeat([0, 1], [9, 21])
    found = Means.of(y, np.zeros((30, 0)), arm, 2).contrast(0, 1)
    known = stats.ttest_ind(y[:9], y[9:], equal_var=False)
    ends = known.confidence_interval(0.95)
    assert found.p == pytest.approx(known.pvalue, rel=1e-12)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), rel=1e-12)


def by_hand(y, X, arm, w, a):
    """Mean of an arm, its HC2 variance and degrees of freedom, by whole matrices."""
    x = X - np.average(X, axis=0, weights=w)
    here = arm == a
    D = np.column_stack([np.ones(here.sum()), x[here]])
    W = np.diag(w[here])
    bread = np.linalg.inv(D.T @ W @ D)
    coefficients = bread @ D.T @ W @ y[here]
    H = D @ bread @ D.T @ W
    e, h = y[here] - H @ y[here], np.diag(H)
    meat = D.T @ W @ np.diag(e**2 / (1 - h)) @ W @ D
    variance = (bread @ meat @ bread)[0, 0]
    # Of errors with the covariance 1 / w: the form e' G e, e = (1 - H) error.
    c = (bread @ D.T @ W)[0]
    G = np.diag(c**2 / (1 - h))
    root = np.diag(w[here] ** -0.5)
    V = root @ (np.eye(len(h)) - H).T @ G @ (np.eye(len(h)) - H) @ root
    return coefficients[0], variance, np.trace(V) ** 2 / np.trace(V @ V)


def test_the_adjusted_mean_of_every_arm_by_whole_matrices():
    rng = np.random.default_rng(2)
    m = 45
    X, arm, w = rng.normal(size=(m, 2)), np.arange(m) % 3, rng.integers(1, 9, m).astype(float)
    y = X @ [1.0, -0.5] + arm + rng.normal(size=m)
    means = Means.of(y, X, arm, 3, w)
    assert means.numbers == 2
    for a in range(3):
        found = means.mean[a], means.variance[a], means.freedom[a]
        assert found == pytest.approx(by_hand(y, X, arm, w, a), rel=1e-9)


@pytest.mark.parametrize("many", [0, 1])
def test_an_arm_with_too_few_units_has_a_mean_at_most(many):
    y, arm = np.r_[np.arange(5.0), np.full(many, 7.0)], np.r_[np.zeros(5, int), np.ones(many, int)]
    means = Means.of(y, np.zeros((5 + many, 0)), arm, 2)
    assert means.mean[0] == pytest.approx(2.0)
    assert np.array_equal(means.mean[1:], [7.0 if many else np.nan], equal_nan=True)
    assert np.isnan([means.variance[1], means.freedom[1]]).all()


def test_what_is_explained_leaves_the_interval():
    """y = 2 x + arm without any error: the effect is exact, the difference of means is not."""
    x, arm = np.arange(20.0)[:, None], np.arange(20) % 2
    y = 2 * x[:, 0] + 3 * arm
    adjusted = Means.of(y, x, arm, 2).contrast(1, 0)
    assert adjusted.value == pytest.approx(3.0)
    assert adjusted.half == pytest.approx(0.0, abs=1e-9)
    plain = Means.of(y, x[:, :0], arm, 2).contrast(1, 0)
    assert plain.value == pytest.approx(5.0)
    assert plain.half > 5


def test_numbers_that_an_arm_cannot_carry_are_left_out():
    rng = np.random.default_rng(3)
    arm = np.arange(24) % 2
    X = rng.normal(size=(24, 4))
    X[:, 1] = 3 * X[:, 0] + 1  # follows from the one before
    X[:, 2] = np.where(arm == 0, 1.0, X[:, 2])  # does not vary in one arm
    y = rng.normal(size=24)
    assert 12 // A_NUMBER == 2
    assert Means.of(y, X, arm, 2).numbers == 2
    kept = Means.of(y, X[:, [0, 3]], arm, 2)
    assert Means.of(y, X, arm, 2).mean == pytest.approx(kept.mean)
    assert Means.of(y[:8], X[:8], arm[:8], 2).numbers == 0
    alone = Means.of(y[:3], X[:3], arm[:3], 2).contrast(0, 1)  # one unit has no variance
    assert np.isnan(alone.p)


# The assignment.


@settings(deadline=None)
@given(st.integers(4, 300), st.lists(st.integers(1, 9), min_size=2, max_size=3))
def test_every_arm_has_its_share(m, parts):
    shares = np.array(parts) / sum(parts)
    counts = units_of_arms(m, shares)
    assert counts.sum() == m
    assert (np.abs(counts - m * shares) <= 1 + 1e-9).all()


def test_the_most_balanced_of_the_tries_is_taken():
    rng = np.random.default_rng(4)
    m = 20
    names, X = [f"u{i}" for i in range(m)], rng.normal(size=(m, 2))
    counts = np.array([10, 6, 4])
    arm, chosen = assigned(KEY, names, X, counts)
    assert np.bincount(arm).tolist() == counts.tolist()
    inverse = np.linalg.inv(np.cov(X.T, bias=True))
    apart = []
    for number in range(tries_of(counts)):
        order = np.argsort(numbered(numbers(KEY, names), number))
        one = np.empty(m, int)
        one[order] = np.repeat([0, 1, 2], counts)
        means = [X[one == a].mean(axis=0) - X.mean(axis=0) for a in range(3)]
        apart.append(sum(n * d @ inverse @ d for n, d in zip(counts, means, strict=True)))
        assert imbalance(spread_out(X), order, counts) == pytest.approx(apart[-1], rel=1e-9)
        if number == chosen:
            assert np.array_equal(one, arm)
    assert chosen == np.argmin(apart)
    assert apart[chosen] < np.median(apart) / 20  # balance was worth the while


def test_the_order_of_a_file_has_no_effect():
    rng = np.random.default_rng(5)
    names, X = [f"u{i}" for i in range(40)], rng.normal(size=(40, 3))
    arm, _ = assigned(KEY, names, X, np.array([20, 20]))
    mixed = rng.permutation(40)
    again, _ = assigned(KEY, [names[i] for i in mixed], X[mixed], np.array([20, 20]))
    assert np.array_equal(arm[mixed], again)


def test_few_units_leave_chance_its_room():
    assert tries_of(np.array([3, 3])) == 1  # 20 assignments
    assert tries_of(np.array([5, 5])) == 12  # 252
    assert tries_of(np.array([40, 40])) == 1000
    assert tries_of(np.array([500_000, 500_000])) == 20


def test_everybody_has_the_same_chance_of_each_arm():
    """Also one who is like nobody else. Within 5 standard deviations of a half, over 4,000 keys:
    8 units stray farther once in 200,000 times."""
    X = np.array([[9.0], [0], [1], [2], [3], [4], [5], [6]])
    names = [f"u{i}" for i in range(8)]
    first = np.zeros(8)
    assert tries_of(np.array([4, 4])) == 3
    for key in range(4000):
        arm, _ = assigned(f"{key:064x}", names, X, np.array([4, 4]))
        first += arm == 0
    assert (np.abs(first / 4000 - 0.5) < 5 * 0.5 / 4000**0.5).all()


# Programmes.


@pytest.fixture
def programme(url):
    database = store.Store(url)
    initialise(database, NAME, capacity=8, seed=2**90)
    imports.import_people(database, village.people_file(), NAME)
    imports.import_history(database, village.history_file(), NAME)
    return database


def after(plan, contacted=True):
    """A record of a plan's round: who was listed was reached, all are seen, and good if listed."""
    rows = [
        f"{plan.names[i]},{int(on and contacted)},{int(on or i % 3 == 0)}"
        for i, on in zip(plan.person.tolist(), plan.listed.tolist(), strict=True)
    ]
    return "\n".join(["id,contacted,state", *rows, ""]).encode()


@pytest.mark.slow
def test_a_trial_from_its_assignment_to_its_effect(programme):
    made = trials.assign(
        programme, NAME, Wish(THREE, (0.5, 0.25, 0.25), balance=["village"], rounds=2)
    )
    assert np.bincount(made.arm).tolist() == [20, 10, 10]
    assert (made.first, made.last) == (13, 14)
    assert standing(programme).trial == (
        "Trial: rounds 13 to 14; people: softfair 20, lottery 10, usual 10. "
        "Assigned with the programme's own luck: whoever holds the database could have known it."
    )
    assert [act.what for act in journal(programme)].count("trial") == 1
    arm = dict(zip(made.person.tolist(), made.arm.tolist(), strict=True))
    for number in range(2):
        plan, _ = make_plan(programme, NAME)
        assert {(one.name, one.arm) for one in plan.sites} == {(a, a) for a in THREE[:2]}
        assert sum(one.capacity for one in plan.sites) == 6  # the usual arm's part is not listed
        for i, site, status in zip(plan.person, plan.site, plan.status, strict=True):
            if arm[i] == 2:
                assert (site, status) == (-1, Status.USUAL)
            else:
                assert (plan.sites[site].arm, status) == (THREE[arm[i]], Status.IN_DRAW)
        lottery = plan.in_draw(1)
        assert plan.probability[lottery] == pytest.approx(plan.sites[1].capacity / 10)
        assert np.ptp(plan.probability[plan.in_draw(0)]) > 0.05
        said = explain(plan)
        assert "by lottery, as all in this arm" in said[lottery[0]]
        assert "usual arm" in said[list(arm.values()).index(2)]
        assert check(programme).wrong == ()
        found = audit(programme)
        assert found.trial.effects[0].told is None
        assert not found.trial.over
        assert any("no verdict is given yet" in line for line in found.findings)
        record(programme, after(plan), NAME, close=True)
        assert standing(programme).next_round == 14 + number
    found = audit(programme).trial
    assert found.over
    assert [row.told is None for row in found.effects] == [False] * 3
    assert [(row.people, row.seen) for row in found.arms] == [(20, 20), (10, 10), (10, 10)]
    assert found.arms[2].listed == 0
    assert [row.listed for row in found.arms[:2]] == pytest.approx([0.2, 0.2])
    plan, _ = make_plan(programme, NAME)  # the trial is over: one list for all
    assert [tuple(one) for one in plan.sites] == [("", 8, "")]
    assert (plan.status == Status.IN_DRAW).all()
    assert check(programme).wrong == ()


def test_the_same_arms_on_every_database(programme):
    """Arms follow from the seed, the round, the names, and what was known before."""
    made = trials.assign(programme, NAME, Wish(THREE, THIRDS))
    assert (made.design.tries, made.chosen) == (1000, 14)
    with programme.reading() as connection:
        again = load_trial(connection)
    for part in ("person", "unit", "arm", "X"):
        assert np.array_equal(getattr(made, part), getattr(again, part)), part
    assert (again.design, again.key, again.power) == (
        made.design,
        made.key,
        json.loads(json.dumps(made.power)),
    )


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE assignment SET arm = (arm + 1) % 3 WHERE person = 5", "arms are not what"),
        ("UPDATE trial SET seed = '00'", "the seed does not follow"),
        ("UPDATE trial SET content = 'x'", "cannot be read"),
        ("UPDATE trial SET design = '{}'", "cannot be read"),
    ],
)
def test_an_arm_that_was_altered_is_found(tmp_path, statement, said):
    database = store.Store(str(tmp_path / "a.db"))
    initialise(database, NAME, capacity=8, seed=2**90)
    imports.import_people(database, village.people_file(), NAME)
    imports.import_history(database, village.history_file(), NAME)
    trials.assign(database, NAME, Wish(THREE, THIRDS))
    with database.engine.begin() as connection:
        connection.execute(sa.text(statement))
    found = check(database)
    assert any(said in line for line in found.trial)
    assert any(line.startswith(("assignment:", "trial:")) for line in found.faults)


def test_a_plan_that_puts_somebody_into_another_arm_is_found(programme):
    trials.assign(programme, NAME, Wish(THREE[:2], (0.5, 0.5)))
    plan, _ = make_plan(programme, NAME)
    other = int(1 - plan.site[3])
    with programme.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE plan_row SET site = {other} WHERE person = 3"))
    wrong = [line for one in check(programme).verdicts for line in one.wrong]
    assert "somebody is in another arm than the trial's" in wrong


def test_a_committed_plan_within_a_trial(programme):
    trials.assign(programme, NAME, Wish(THREE, THIRDS))
    commit_plan(programme, NAME)
    plan = draw_plan(programme, "dice 3 1 4")
    assert {one.arm for one in plan.sites} == {"softfair", "lottery"}
    assert check(programme).wrong == ()


def test_whole_sites_with_capacities_of_their_own(programme):
    """Each village is in one arm; it keeps the capacity of its own, or leaves it unused."""
    more = "id,village\n" + "".join(f"v{i:02d},town{i // 4}\n" for i in range(40))
    imports.import_people(programme, more.encode(), NAME)
    capacity = {f"town{j}": 1 + j % 2 for j in range(10)}
    initialise(programme, NAME, capacity=capacity, by="village")
    made = trials.assign(programme, NAME, Wish(THREE[::2], (0.5, 0.5), sites="village"))
    assert np.bincount(made.unit_arms).tolist() == [5, 5]
    plan, _ = make_plan(programme, NAME)
    served = {made.design.values[g] for g in np.flatnonzero(made.unit_arms == 0)}
    places = {one.name.split(" / ")[0]: one.capacity for one in plan.sites}
    assert {name for name, k in places.items() if k} == served
    assert all(places[name] == capacity[name] for name in served)
    assert check(programme).wrong == ()
    # Who comes later is in the arm of the site; who moves keeps the arm.
    other = next(name for name in made.design.values if name not in served)
    moves, home = f"v{int(made.person[made.arm == 0][0]):02d}", sorted(served)[0]
    text = f"id,village\nnew1,{home}\nnew2,{other}\nnew3,elsewhere\n{moves},{other}\n"
    imports.import_people(programme, text.encode(), NAME)
    with programme.reading() as connection:
        now = take_snapshot(connection)
    arms = dict(zip(now.people.names, now.arms().tolist(), strict=True))
    assert [arms[name] for name in ("new1", "new2", moves)] == [0, 1, 0]
    share = float(numbers(made.key, ["elsewhere"])[0, 0]) / 2**64
    assert arms["new3"] == int(share >= 0.5)


def test_newcomers_are_shared_out_by_luck():
    """2,000 names: shares within 5 standard deviations, each of them once in a million."""
    made = replace(SMALL.trial, design=replace(SMALL.trial.design, shares=(0.5, 0.3, 0.2)))
    arms = made.arms_of([f"P{i}" for i in range(2060)], [""] * 2060)
    assert np.array_equal(arms[:60], made.arm)
    share = np.bincount(arms[60:], minlength=3) / 2000
    expected = np.array(made.design.shares)
    assert (np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 2000)).all()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 40), st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(any))
def test_arms_have_their_part_of_the_capacity(capacity, people):
    """Over 200 rounds each arm is within a place of its part, and never above the capacity."""
    nobody = np.empty(0, int)
    cells = _Cells(ARMS, np.array([people]), THIRDS, nobody, nobody.astype(bool))
    part = capacity * np.array(people[:2]) / sum(people)
    total = np.zeros(2)
    for at in range(1, 201):
        places = [one.capacity for one in cells.sites([Site("", capacity)], TURN * at % 1)]
        assert sum(places) <= capacity
        assert (np.abs(places - part) < 1 + 1e-9).all()
        total += places
    assert (np.abs(total / 200 - part) < 0.02).all()


def test_people_without_a_site_have_no_place_in_any_arm(shared):
    """Two sites with two arms that are drawn each: places 0 to 3; the usual arm has none."""
    rehearsed = trials.assign(shared.rehearsal(), NAME, Wish(THREE, THIRDS))
    with shared.reading() as connection:
        now = replace(take_snapshot(connection), trial=rehearsed)
    site = np.arange(now.people.n) % 3 - 1
    cells = _Cells.of(now, rehearsed, site, 2)
    arm = now.arms()
    assert cells.place.tolist() == [
        -1 if here < 0 or THREE[a] == "usual" else here * 2 + THREE[:2].index(THREE[a])
        for here, a in zip(site.tolist(), arm.tolist(), strict=True)
    ]
    assert set(cells.place.tolist()) == {-1, 0, 1, 2, 3}
    assert cells.left_alone.tolist() == [THREE[a] == "usual" for a in arm]


def test_a_holiday_and_half_a_week(shared):
    """Capacities of single rounds are divided as the others are."""
    initialise(shared, NAME, exceptions={14: "50%", 15: "0"})
    rehearsed = trials.assign(shared.rehearsal(), NAME, Wish(THREE[::2], (0.5, 0.5)))
    with shared.reading() as connection:
        now = replace(take_snapshot(connection), trial=rehearsed)
    places = {at: eligibility_of(now, at).sites for at in (13, 14, 15)}
    assert {at: [tuple(one) for one in sites] for at, sites in places.items()} == {
        13: [("softfair", 4, "softfair")],
        14: [("softfair", 2, "softfair")],
        15: [("softfair", 0, "softfair")],
    }
    initialise(shared, NAME, exceptions={})


# The audit.


def here(n, people):
    """Which people [n] are among these."""
    return np.isin(np.arange(n), people)


def altered(history, where, state):
    """Entries at these places [R, n] with another state."""
    return replace(history, state=np.where(where & (history.state > ABSENT), state, history.state))


def test_the_effect_is_of_all_who_were_assigned():
    """People who left, came later or were never seen count as the documentation says."""
    made = tried(5, World(n=90, effect=False))
    trial, history = made.trial, made.history
    never = trial.person[:4]
    history = altered(history, (history.rounds > trial.first)[:, None] & here(90, never), -1)
    people = people_of(92, np.full(92, -1))  # two came later
    departed = people.departed.copy()
    departed[10:13] = trial.first + 2
    people = replace(people, departed=departed)
    found = trial_result(trial, people, history, no_list(trial), 2)
    seen = [np.isnan(outcomes(history, trial.first, trial.last, 92, 2)[i]) for i in range(90)]
    assert sum(row.people - row.seen for row in found.arms) == sum(seen) >= 4
    assert sum(row.left for row in found.arms) == 3
    assert found.later == 2
    for a, row in enumerate(found.arms):
        theirs = [i for i in trial.person[trial.arm == a] if not seen[i]]
        mine = [
            np.mean([s for s in history.state[history.rounds > trial.first, i] if s >= 0])
            for i in theirs
        ]
        assert row.outcome == pytest.approx(np.mean(mine))


def test_outcomes_that_are_missing_in_one_arm_are_said():
    made = tried(6, World(n=150, effect=False))
    trial = made.trial
    honest = made.result()
    assert all(np.isnan(row.p) or row.p > 0.01 for row in honest.missing)
    hidden = trial.person[trial.arm == 0][:25]
    during = (made.history.rounds > trial.first)[:, None]
    history = altered(made.history, during & here(150, hidden), -1)
    found = trial_result(trial, made.people, history, no_list(trial), 2)
    assert found.missing[0].p < 1e-4
    table = [[row.people - row.seen, row.seen] for row in found.arms[:2]]
    assert found.missing[0].p == pytest.approx(stats.fisher_exact(table)[1])


def test_how_many_of_an_arm_were_listed_and_contacted_is_counted_by_hand():
    """Of each arm: a third listed in the first round, all in the second, none after the trial.

    All who are listed are contacted in the first round, and what happened in the second is not
    recorded. Who opted out is counted nowhere.
    """
    made = tried(8, World(n=90, effect=False))
    trial = made.trial
    numbers = np.arange(90)
    out = here(90, trial.person[trial.arm == 0][:3])
    status = np.where(out, int(Status.OPTED_OUT), int(Status.IN_DRAW))
    third = np.zeros(90, np.int64)
    for a in range(3):
        theirs = trial.person[(trial.arm == a) & ~out[trial.person]]
        third[theirs[: len(theirs) // 3]] = 1
    zero, none = np.zeros(90, np.int64), np.full(90, -1)

    def week(at, listed, contacted):
        site = [Site("", 30)]
        values = (zero * 0.0, zero * 0.0, zero + 0.5, listed, none, contacted, none)
        return Planned(at, 1, 1, 1.0, site, numbers, status, zero, *values)

    rounds = [
        week(trial.first, third, third),
        week(trial.last, zero + 1, none),
        week(trial.last + 1, zero, zero),
    ]
    listed = fed(Listed(trial, 90), rounds)
    found = trial_result(trial, made.people, made.history, listed, 2)
    for a, row in enumerate(found.arms):
        many = np.count_nonzero((trial.arm == a) & ~out[trial.person])
        assert row.listed == pytest.approx((many // 3 + many) / (2 * many))
        assert row.contacted == pytest.approx((many // 3) / many)
    nothing = trial_result(trial, made.people, made.history, no_list(trial), 2)
    assert all(np.isnan([row.listed, row.contacted]).all() for row in nothing.arms)


def test_a_verdict_is_given_once_and_can_be_either(audit_of):
    """All of one arm stay good, all of another bad: an effect, once the trial is over."""
    made = tried(7, World(n=90, effect=False))
    trial, history = made.trial, made.history
    assert [row.told for row in made.result().effects] == [False] * 3
    during = (history.rounds > trial.first)[:, None]
    best, worst = (here(90, trial.person[trial.arm == a]) for a in (0, 2))
    history = altered(altered(history, during & best, 1), during & worst, 0)
    told = trial_result(trial, made.people, history, no_list(trial), 2)
    assert [row.told for row in told.effects] == [True] * 3
    assert told.effects[1].effect == pytest.approx(1.0)
    early = altered(history, (history.rounds > trial.last)[:, None] & here(90, trial.person), -1)
    part = trial_result(trial, made.people, early, no_list(trial), 2)
    assert (part.over, part.seen_until) == (False, trial.last - 1)
    assert [row.told for row in part.effects] == [None] * 3
    said = list(findings(audit_of(told)))
    assert "differs from that with usual by +100.0 points" in said[2]
    assert said[2].endswith("beyond chance.")
    said = list(findings(audit_of(made.result())))
    assert all(line.endswith("which chance may explain.") for line in said[1:4])
    said = list(findings(audit_of(part)))
    assert len(said) == 2
    assert f"({ROUNDS - 1} of {ROUNDS} rounds are known), so no verdict" in said[1]


@pytest.fixture
def audit_of():
    from honest import page

    measured = page(0, n=30, k=4, weeks=4, rounds=1)
    return lambda found: replace(measured, trial=found)


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(n=75), World(n=150, sites=18)], ids=["people", "sites"])
def test_intervals_hold_the_truth_and_are_narrower(world):
    """`python -m benchmarks.trials` does the same with 1,000 programmes.

    Of 40 programmes the share that holds one true effect is within 4.5 standard deviations of
    95 %, the share in which an effect is made up within as many above 5 %.
    """
    repeats, covered, widths, made_up = 40, np.zeros(3), np.zeros(2), 0
    for seed in range(repeats):
        made = tried(seed, world)
        for j, row in enumerate(made.result().effects):
            covered[j] += row.low <= made.truth[j] <= row.high
            widths += row.high - row.low, row.plain_high - row.plain_low
        none = tried(seed, world._replace(effect=False)).result()
        made_up += any(row.told for row in none.effects)
    spread = 4.5 * (0.95 * 0.05 / repeats) ** 0.5
    assert (covered / repeats > 0.95 - spread).all()
    assert made_up / repeats < 0.05 + spread
    assert widths[0] < 0.85 * widths[1]


# The power.


def test_the_least_effect_is_detected_with_the_stated_power():
    """Half of a history tells the least effect; in other weeks of other people, to whom it is
    added, it is told with 80 %: 400 trials, within 4.5 standard deviations and what is not known of
    the standard error (5 %: 4 points of power)."""
    rng = np.random.default_rng(8)
    n, weeks = 200, 20
    p = rng.beta(2, 2, n)

    def weeks_of(chance):
        return [
            (np.arange(n), np.full(n, week), (rng.random(n) < chance).astype(int))
            for week in range(1, weeks + 2)
        ]

    people = people_of(n, np.full(n, -1))
    now = Snapshot(1, Settings(), 1, people, history_of(weeks_of(p)))
    units = Units(np.arange(n), np.arange(n), people.names, None)
    arms, counts = (Arm.SOFTFAIR, Arm.USUAL), np.array([100, 100])
    power = power_of(now, weeks + 1, weeks + 10, units, arms, counts, ())
    assert (power.rounds, power.people) == (10, n)
    least = power.least[0].effect
    told = 0
    for _ in range(400):
        chance = rng.beta(2, 2, n)
        seen = np.stack([state for *_, state in weeks_of(chance)])
        arm = rng.permutation(np.repeat([0, 1], 100))
        before, y = seen[:11].mean(axis=0), seen[11:].mean(axis=0) + least * (arm == 0)
        X = np.column_stack([before, seen[10]])
        told += Means.of(y, X, arm, 2).contrast(0, 1).low > 0
    assert abs(told / 400 - 0.8) < 4.5 * (0.8 * 0.2 / 400) ** 0.5 + 0.04


# What is refused.


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"arms": ["softfair", "magic"]}, "there is no arm 'magic'; known: softfair, lottery"),
        ({"arms": []}, "the arms are none; give at least two of softfair"),
        ({"arms": ["softfair"]}, "at least two of"),
        ({"arms": ["usual", "usual"]}, "at least two of softfair, lottery, usual, each once"),
        ({"shares": (0.5, 0.6)}, "that sum to 1"),
        ({"shares": (1.0, 0.0)}, "above 0"),
        ({"shares": (0.5, 0.25, 0.25)}, "each of the 2 arms"),
        ({"shares": (0.99, 0.01)}, "the arm usual would have 0"),
        ({"sites": "worker"}, "of 2 values of worker the arm softfair would have 1"),
        ({"sites": "badge"}, "badge names each person, it is kept for worksheets"),
        ({"sites": "house"}, "house has 30 values for 40 people, it names nearly each of them"),
        ({"sites": "church"}, "20 of 40 people have no church"),
        ({"sites": "planet"}, "no group column 'planet'; known: worker, village"),
        ({"balance": ["planet"]}, "no group column 'planet'"),
        ({"balance": ["badge"]}, "badge names each person, it is kept for worksheets"),
        ({"balance": ["house"]}, "balanced by house: nearly everybody has a value of their own"),
        ({"balance": ["land"]}, "balanced by land: it is the same for everybody"),
        ({"rounds": 0}, "0 rounds; give at least 1"),
    ],
)
def test_what_cannot_be_a_trial(shared, asked, said):
    wish = Wish(**{"arms": ["softfair", "usual"], "shares": (0.5, 0.5), **asked})
    with pytest.raises(InvalidInput, match=said):
        trials.assign(shared, NAME, wish)
    assert trials.trial_of(shared) is None


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    database = store.Store(str(tmp_path_factory.mktemp("trial") / "a.db"))
    initialise(database, NAME, capacity=8, seed=1)
    badges = "".join(f"v{i:02d},{1000 + i},{'AB'[i % 2]},{'hlm'[i % 3]}\n" for i in range(40))
    imports.import_people(database, f"id,badge,worker,village\n{badges}".encode(), NAME)
    # In small files a column of names is not known as such.
    for first in range(0, 40, 5):
        rows = [
            f"v{i:02d},{f'house {i % 30}'},{'east' if i % 2 else ''},here\n"
            for i in range(first, first + 5)
        ]
        text = "id,house,church,land\n" + "".join(rows)
        imports.import_people(database, text.encode(), NAME)
    imports.import_history(database, village.history_file(), NAME)
    return database


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.5,0.4", "sum to 90%; make it 100%, such as 60%,40%"),
        ("50,50", "above 0"),
        ("-1,2", "above 0"),
        ("half,half", "above 0"),
        ("1", "each of the 2 arms"),
        ("nan,nan", "above 0"),
    ],
)
def test_shares_that_are_none(text, said):
    with pytest.raises(InvalidInput, match=said):
        trials.shares_said(text, 2)


def test_shares_in_both_ways():
    assert trials.shares_said("40%, 30%,30%", 3) == (0.4, 0.3, 0.3)
    assert trials.shares_said("0.25,0.75", 2) == (0.25, 0.75)
    assert trials.shares_said(None, 2) == (0.5, 0.5)


def test_a_trial_without_a_history(database):
    initialise(database, NAME, capacity=8, seed=1)
    imports.import_people(database, village.people_file(), NAME)
    with pytest.raises(InvalidInput, match="known of 0 rounds, so the power"):
        trials.assign(database, NAME, Wish(THREE, THIRDS))


def test_a_trial_is_assigned_once_and_before_the_list(programme):
    before = programme.rehearsal()
    tried_out = trials.assign(before, NAME, Wish(THREE, THIRDS))
    assert trials.trial_of(programme) is None  # the power is told, nobody is assigned
    made = trials.assign(programme, NAME, Wish(THREE, THIRDS))
    assert np.array_equal(made.arm, tried_out.arm)
    with pytest.raises(InvalidInput, match=r"has a trial already.*assigned once"):
        trials.assign(programme, NAME, Wish(THREE, THIRDS))


def test_a_round_that_is_planned_is_no_round_of_a_trial(programme):
    make_plan(programme, NAME)
    with pytest.raises(InvalidInput, match="round 13 is planned or committed already"):
        trials.assign(programme, NAME, Wish(THREE, THIRDS))


def test_a_programme_that_ends(shared):
    initialise(shared, NAME, ends=15)
    with pytest.raises(InvalidInput, match="would end with round 17, the programme ends with"):
        trials.assign(shared, NAME, Wish(THREE, THIRDS, rounds=5))
    assert trials.assign(shared.rehearsal(), NAME, Wish(THREE, THIRDS)).last == 15
    initialise(shared, NAME, ends=None)


def test_pairs_put_what_does_more_first():
    pairs = pairs_of((Arm.USUAL, Arm.SOFTFAIR, Arm.LOTTERY))
    assert pairs == [(1, 2), (1, 0), (2, 0)]
    assert len(list(itertools.combinations(THREE, 2))) == len(pairs)
