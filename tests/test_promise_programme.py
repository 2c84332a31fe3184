"""Promises in the weekly programme: kept in every draw for certain, or refused in one line.

Order: closed form, brute force, properties, then whole programmes on both databases. Each promise
has a test in which it breaks once its guard is taken away.
"""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
import shell
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from softfair import Cohort, quotas
from softfair.errors import Infeasible, InvalidInput
from softfair.kernels.worth import plan_worth
from softfair.programme import schema, store, trials
from softfair.programme.aims import Evenness, Target
from softfair.programme.audit import audit
from softfair.programme.checks import check
from softfair.programme.eligibility import Site, Status
from softfair.programme.imports import import_history, import_people
from softfair.programme.luck import Source, coins, numbers
from softfair.programme.outlook import Keeping, Prospects, SiteCohort
from softfair.programme.plans import (
    PlanWish,
    commit_plan,
    draw_plan,
    drawing,
    explain,
    make_plan,
    plan_of,
    verify,
)
from softfair.programme.plans.counting import clock_of, left_off_lists
from softfair.programme.plans.drawing import Terms, chances, drawn_by_luck
from softfair.programme.plans.keeping import _Case
from softfair.programme.promises import NO_PROMISE, Promise, rounded_down
from softfair.programme.records import record
from softfair.programme.settings import Settings, initialise
from softfair.quotas import Quota
from softfair.solvers import solve_promised

NAME = "softfair test"


# ---- what can be promised, in words ----


def test_promises_are_written_and_read():
    assert Promise.parse("wait=8") == Promise(wait=8)
    assert Promise.parse("wait=8,from=21") == Promise(wait=8, since=21)
    assert Promise.parse("chance=0.5%") == Promise(chance=0.005)
    assert Promise.parse("none").is_none
    assert (
        str(Promise(wait=8)) == "everybody is on one of any 8 lists in a row that they could be on"
    )
    assert str(Promise(chance=0.005)) == "nobody in a draw has a chance below 0.5%"


@pytest.mark.parametrize(
    "text",
    ["", "wait", "wait=0", "wait=2.5", "wait=x", "wait=8,from=x", "wait=8,by=2", "wait=99999",
     "chance=0", "chance=101%", "chance=-1%", "chance=nan", "chance=1%,from=3", "hope=3",
     "wait=8,from=-1", "wait=inf", "wait=8,from=1,from=2"],
)  # fmt: skip
def test_invalid_promises_are_refused(text):
    with pytest.raises(InvalidInput):
        Promise.parse(text)


def test_the_largest_chance_is_rounded_down():
    """What is offered can be promised: k / n for many k and n."""
    for n in range(1, 60):
        for k in range(1, n + 1):
            offered = Promise.parse(f"chance={rounded_down(k / n)}").chance
            assert k / n * 0.99 <= offered <= k / n * (1 + 1e-9)


def test_settings_keep_a_promise():
    stored = Settings(promise=Promise(wait=8, since=3))
    assert Settings.from_json(stored.to_json()) == stored
    before = json.loads(stored.to_json())
    del before["promise"]  # of a programme from before there were promises
    assert Settings.from_json(json.dumps(before)).promise == NO_PROMISE
    with pytest.raises(InvalidInput, match="a promise is for SoftFair"):
        Settings(promise=Promise(wait=8), evenness=Evenness("mu", 3.0))


# ---- who was left off how many lists ----


def test_counts_of_lists_left_off_by_status():
    """One person a status; a site with places, then one without."""
    status = np.array([int(one) for one in Status])
    none = np.zeros(len(status), np.int64)
    clock = dict(zip(Status, clock_of(status, none, none, [Site("", 3)]).tolist(), strict=True))
    anew = {Status.NOT_YET, Status.LEFT, Status.OPTED_OUT, Status.UNNAMED}
    assert clock == {one: -1 if one in anew else int(one is Status.IN_DRAW) for one in Status}
    assert clock_of(status[:1], none[:1], none[:1], [Site("", 0)]).tolist() == [0]
    assert clock_of(status[:1], none[:1] - 1, none[:1], [Site("", 3)]).tolist() == [0]
    assert clock_of(status[:1], none[:1], none[:1] + 1, [Site("", 3)]).tolist() == [-1]


@given(st.lists(st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4), max_size=7))
def test_lists_left_off_are_counted_from_the_last_beginning(rounds):
    """Against a count that goes forward in time."""
    forward = [0] * 5
    for clock in rounds:
        for i in range(4):
            forward[i] = 0 if clock[i] == -1 else forward[i] + clock[i]
    got = left_off_lists([np.array(one, np.int8) for one in rounds[::-1]], 5)
    assert got.tolist() == forward  # the fifth was in none


# ---- whether a wait can be kept ----


def earliest_first_succeeds(left, places):
    """Whether everybody is served in time if who has least left comes first, list by list."""
    left = sorted(left)
    for k in places:
        due = [d for d in left if d <= 1]
        if len(due) > k:
            return False
        left = [d - 1 for d in left[k:]]
    return True


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=9),
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.integers(1, 9),
)
def test_a_wait_is_refused_if_and_only_if_deadlines_cannot_be_met(off, places, W):
    """Those in the draw against the earliest deadline first, which is best possible."""
    case = _Case(np.array(off), 0, np.array(places), 0, ends=True)
    left = [W - many for many in off]
    possible = min(left) >= 1 and earliest_first_succeeds(left, places)
    assert (case.fault(W) is None) == possible
    shortest = case.shortest(W)
    assert shortest is not None
    assert case.fault(shortest) is None
    assert shortest == W or case.fault(shortest - 1) is not None


def test_all_people_need_places_on_any_lists_in_a_row():
    """Seven people: a list of one place among lists of two leaves 7 places on 4 lists, not on 3."""
    case = _Case(np.zeros(7, np.int64), 7, np.array([2, 1, 2]), 2, ends=False)
    assert case.fault(4) is None
    assert case.fault(3) == "7 people, and 5 places on 3 lists: 7 > 5"
    assert case.shortest(1) == 4
    assert _Case(np.zeros(7, np.int64), 7, np.empty(0, np.int64), 0, ends=False).shortest(3) is None


# ---- the draw ----


def law_of_sets(z, k, allowed):
    """Chance of every allowed set of k by enumeration."""
    sets = [one for one in itertools.combinations(range(len(z)), k) if allowed(one)]
    weights = np.array([np.exp(z[list(one)].sum()) for one in sets])
    return dict(zip(sets, weights / weights.sum(), strict=True))


@pytest.mark.slow
def test_lists_have_the_law_that_is_stated():
    """Six people, two places; by deadlines at least one of {0, 1, 2}, as 3 have 2 lists of 2 left.

    Person 5 is away with one list left, which takes one place of the next list: two of {0, 1, 2}
    must then be on this one. Over keys, against enumeration: the statistic is chi-square with one
    degree of freedom less than there are sets.
    """
    score, names, c, many = np.array([0.1, 0.4, 0.2, 0.9, 0.0, 0.5]), list("abcdef"), 2.0, 1000
    left, coming = np.array([2, 2, 2, 9, 9, 9]), np.array([2, 2, 2, 2])
    for away, least in ((None, 1), (np.array([1]), 2)):
        terms = Terms(0.0, left, away, coming)
        law = law_of_sets(c * score, 2, lambda one, m=least: len({0, 1, 2} & set(one)) >= m)
        chance = [sum(p for one, p in law.items() if i in one) for i in range(6)]
        np.testing.assert_allclose(chances(score, c, 2, terms), chance, atol=1e-10)
        seen = Counter(
            tuple(drawn_by_luck(score, c, 2, f"{key:064x}", names, terms).tolist())
            for key in range(many)
        )
        assert set(seen) <= set(law)
        expected = many * np.array(list(law.values()))
        assert expected.min() > 5
        statistic = sum((seen[one] - e) ** 2 / e for one, e in zip(law, expected, strict=True))
        assert statistic < chi2.isf(1e-6, len(law) - 1)


def test_the_order_of_people_does_not_matter_and_sites_have_coins_of_their_own():
    rng = np.random.default_rng(2)
    score, left = rng.normal(size=30), rng.integers(1, 9, 30)
    left[left == 1] = 2
    names, coming = [f"p{i}" for i in range(30)], np.full(12, 5)
    order = rng.permutation(30)
    changed = 0
    for number in range(20):
        key = f"{number:064x}"
        terms = Terms(0.0, left, None, coming, "north")
        shuffled = Terms(0.0, left[order], None, coming, "north")
        drawn = {names[i] for i in drawn_by_luck(score, 3.0, 5, key, names, terms)}
        mixed = [names[i] for i in order]
        again = drawn_by_luck(score[order], 3.0, 5, key, mixed, shuffled)
        assert {mixed[i] for i in again} == drawn
        changed += next(coins(key, "north")) != next(coins(key, "south"))
    assert changed == 20


def test_the_luck_of_others_stays_when_somebody_leaves():
    """Without one who was not drawn, the list of 8 of 60 changes by well less than a name."""
    rng = np.random.default_rng(4)
    n, exchanged, tries = 60, 0, 60
    score, left = rng.normal(size=n), rng.integers(2, 9, n)
    names, coming = [f"p{i}" for i in range(n)], np.full(12, 8)
    for number in range(tries):
        key = f"{number:064x}"
        drawn = drawn_by_luck(score, 1.0, 8, key, names, Terms(0.0, left, None, coming))
        gone = next(i for i in rng.permutation(n) if i not in drawn)
        kept = np.delete(np.arange(n), gone)
        terms = Terms(0.0, left[kept], None, coming)
        again = drawn_by_luck(score[kept], 1.0, 8, key, [names[i] for i in kept], terms)
        exchanged += len({names[i] for i in drawn} - {names[kept[i]] for i in again})
    assert exchanged / tries < 1


@pytest.mark.slow
def test_a_draw_by_luck_keeps_quotas_with_exact_chances():
    """Four arms in two sets, each with a quota: against `quotas.inclusion`, by 5 deviations."""
    z, sets, many = np.array([0.5, 0.0, 1.0, 0.2]), [Quota([0, 1], least=1, most=1)], 1500
    got = np.zeros(4)
    for key in range(many):
        text = f"{key:064x}"
        luck = numbers(text, list("abcd"))
        got[quotas.draw_by_luck(z, 2, sets, luck, coins(text, ""))] += 1
    wanted = quotas.inclusion(z, 2, sets)
    assert np.abs(got / many - wanted).max() < 5 * np.sqrt(0.25 / many)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_no_chance_is_below_the_floor(data):
    m = data.draw(st.integers(2, 12))
    k = data.draw(st.integers(1, m))
    score = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=m, max_size=m)))
    c = data.draw(st.sampled_from([0.0, 1.0, 30.0, np.inf]))
    floor = data.draw(st.floats(1e-4, 1.0)) * k / m
    chance = chances(score, c, k, Terms(floor))
    assert chance.min() >= floor * (1 - 1e-9)
    assert chance.sum() == pytest.approx(k)
    order = np.argsort(score, kind="stable")
    assert (np.diff(chance[order]) >= -1e-9).all()  # soft fairness stays


def wander(seed, guarded=True, rounds=40):
    """The longest that anybody was left off, over many lists of a little world; and W.

    People come, opt out for good, are absent for a while, rest after being listed, and come back;
    what happens is drawn here, and never depends on the list otherwise. n <= k W holds throughout.
    """
    rng = np.random.default_rng(seed)
    k, W, rest = int(rng.integers(1, 4)), int(rng.integers(2, 7)), int(rng.integers(0, 3))
    here = list(range(int(rng.integers(1, k * W + 1))))
    fresh = itertools.count(len(here))
    off, back, longest = Counter(), dict.fromkeys(here, 0), 0
    score = Counter()
    for at in range(rounds):
        if len(here) < k * W and rng.random() < 0.3:
            new = next(fresh)
            here.append(new)
            back[new] = 0
        if len(here) > 1 and rng.random() < 0.1:
            here.remove(here[int(rng.integers(len(here)))])
        for i in here:
            if rng.random() < 0.15:
                back[i] = max(back[i], at + int(rng.integers(1, 6)))
            score[i] = float(rng.normal())
        draw = [i for i in here if back[i] <= at]
        if not draw:
            continue
        left = np.array([W - off[i] for i in draw])
        away = np.array([W - off[i] for i in here if back[i] > at], np.int64)
        # The promise is never refused: constant places, n <= k W.
        assert not guarded or _Case(W - left, len(here), np.array([k]), k, False).fault(W) is None
        terms = Terms(0.0, left, away, np.full(W + 1, k)) if guarded else drawing.FREE
        drawn = drawn_by_luck(
            np.array([score[i] for i in draw]), 5.0, k, f"{seed:060x}{at:04x}",
            [f"p{i}" for i in draw], terms,
        )  # fmt: skip
        for place, i in enumerate(draw):
            if place in drawn:
                off[i] = 0
                back[i] = at + 1 + rest  # listed, and contacted
            else:
                off[i] += 1
                longest = max(longest, off[i])
    return longest, W


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32))
def test_nobody_is_left_off_so_many_lists_whatever_happens(seed):
    longest, W = wander(seed)
    assert longest < W


def test_without_the_guard_the_wait_would_be_longer():
    """The same worlds without deadlines: that the property holds is the guard's doing."""
    late = [longest >= W for longest, W in (wander(seed, guarded=False) for seed in range(40))]
    assert sum(late) > 10


# ---- what is expected ----


def test_deadlines_may_differ_at_the_start():
    """Two lists left, then one: a pass follows both, state by state, from its own words."""
    rng = np.random.default_rng(0)
    cohort = Cohort(rng.dirichlet(np.ones(2), (6, 2, 2)), start=rng.dirichlet(np.ones(2), 6))
    site = SiteCohort(
        cohort, 2, 5, np.arange(6), keeping=Keeping(4, 0.0, np.array([1, 2, 3, 4, 4, 3]))
    )
    pi = np.concatenate([chance for _, chance in site.chances(3.0)], axis=1).reshape(5, 6, 4, 2)
    assert (pi[:, :, 0] == 1).all()
    reward, contacts = 0.0, np.zeros(6)
    for i in range(6):
        mass = {(int(site.left[i]), s): cohort.start[i, s] for s in (0, 1)}
        for t in range(5):
            later = Counter()
            for ((d, s), m), s2 in itertools.product(mass.items(), (0, 1)):
                listed = m * pi[t, i, d - 1, s]
                contacts[i] += listed / 2  # once for each s2
                later[4, s2] += listed * cohort.P[i, 1, s, s2]
                later[d - 1, s2] += (m - listed) * cohort.P[i, 0, s, s2]
            mass = {place: m for place, m in later.items() if m}
            reward += sum(m * s for (_, s), m in mass.items())
    followed = site.follow(3.0)
    np.testing.assert_allclose(followed.contacts, contacts, rtol=1e-9)
    assert followed.reward == pytest.approx(reward, rel=1e-9)
    assert followed.contacts.sum() == pytest.approx(2 * 5, rel=1e-3)  # the prices balance


def test_a_lottery_with_deadlines_has_so_many_places():
    """c = 0: who is due, and the others alike; places sum to k in each round."""
    rng = np.random.default_rng(1)
    cohort = Cohort(rng.dirichlet(np.ones(2), (12, 2, 2)))
    left = np.array([1, 1, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5])
    values = solve_promised(cohort, 3, 8, 1.0, 0.0, W=5, floor=0.0, left=left)
    mass = np.bincount(left, minlength=7).astype(float)
    for theta in values.theta:
        p = 1 / (1 + np.exp(theta))
        assert mass[1] + p * (12 - mass[1]) == pytest.approx(3)
        rest = (1 - p) * mass[2:6]
        mass = np.array([0, *rest, 3.0, 0])
    site = SiteCohort(cohort, 3, 8, np.arange(12), keeping=Keeping(5, 0.0, left))
    assert site.follow(0.0).contacts.sum() == pytest.approx(24)


def test_the_worth_of_a_plan_with_deadlines():
    """One person, two rounds, two lists left of two: by hand.

    The contact always helps and lasts; half of the contacts reach. On the list in round 1 with
    chance p in the bad state; who was not is on that of round 2.
    """
    P = np.array([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    p, reached = 0.3, 0.5
    chance = np.array([[[[1.0, 1.0], [p, p]]], [[[1.0, 1.0], [p, p]]]])  # [T, n, D, S]
    gained, now = np.empty(1), np.empty(1)
    start, reward = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    plan_worth(0, 1, P, chance, np.array([2]), reached, start, reward, gained, now)
    # Reached in round 1: two good rounds. Listed then and not reached: two lists left again, so p
    # in round 2. Not listed: listed for certain in round 2.
    wanted = p * (reached * 2 + (1 - reached) * p * reached) + (1 - p) * reached
    assert gained[0] == pytest.approx(wanted, rel=1e-12)
    # On the list, reached or not: two good rounds against p reached.
    assert now[0] == pytest.approx(2 - p * reached, rel=1e-12)


def test_a_promise_costs_and_a_longer_one_costs_less():
    rng = np.random.default_rng(5)
    cohort = Cohort(rng.dirichlet(np.ones(2), (20, 2, 2)))

    def gained(keeping):
        from softfair.programme.snapshot import People

        nobody = np.full(20, -1)
        people = People([f"p{i}" for i in range(20)], ["{}"] * 20, nobody, nobody, nobody, nobody)
        site = SiteCohort(cohort, 4, 10, np.arange(20), keeping=keeping)
        return Prospects([site], people).at(50.0).gained

    waits = [gained(Keeping(W, 0.0, np.full(20, W))) for W in (5, 7, 11)]
    floors = [gained(Keeping(0, floor)) for floor in (0.15, 0.05, 0.0)]
    assert waits[0] < waits[1] < waits[2]
    assert waits[2] == pytest.approx(floors[2], rel=2e-3)  # 11 > 10: no deadline before the end
    assert floors[0] < floors[1] < floors[2]


# ---- whole programmes ----


def people_of(names, **columns):
    heading = ",".join(["id", *columns])
    rows = [",".join([name, *(str(values[i]) for values in columns.values())])
            for i, name in enumerate(names)]  # fmt: skip
    return "\n".join([heading, *rows, ""]).encode()


def founded(database, n=9, **changes):
    """n people with four rounds of history that say nothing."""
    initialise(database, NAME, **{"seed": 0, "capacity": 2, "horizon": 3, "c": 30.0, **changes})
    names = [f"p{i}" for i in range(n)]
    import_people(database, people_of(names, region=["ns"[i % 2] for i in range(n)]), NAME)
    rng = np.random.default_rng(n)
    rows = [
        f"{name},{at},{rng.integers(2)},{rng.integers(2) * (at < 4)}"  # nobody rests at first
        for name in names
        for at in range(1, 5)
    ]
    import_history(database, "\n".join(["id,round,state,contacted", *rows, ""]).encode(), NAME)
    return database


def told(database, plan, rng, reached=1.0):
    """Record a round: of those on the list some are reached; everybody has a state."""
    rows = [
        f"{name},{plan.round},{rng.integers(2)},{int(name in plan.list and rng.random() < reached)}"
        for name in plan.names
    ]
    record(database, "\n".join(["id,round,state,contacted", *rows, ""]).encode(), NAME)
    return {row.split(",")[0] for row in rows if row.endswith(",1")}


class Village:
    """A programme whose people come and go, and what is known of them apart from the database."""

    W, rest, usual = 5, 1, 2

    def __init__(self, database, seed):
        self.database, self.rng = database, np.random.default_rng(seed)
        self.other = {8: 1, 10: 3, 12: 0}  # places in some rounds
        self.off, self.out, self.away, self.contacted = Counter(), set(), {}, {}
        told_of = {at: str(k) for at, k in self.other.items()}
        promise = Promise(wait=self.W)
        founded(database, n=7, promise=promise, cooldown=self.rest, exceptions=told_of, horizon=2)

    def places(self, at):
        return self.other.get(at, self.usual)

    def in_draw(self, names, at):
        return [
            name
            for name in names
            if name not in self.out
            and not self.away.get(name, (0, -1))[0] <= at <= self.away.get(name, (0, -1))[1]
            and not at - self.rest <= self.contacted.get(name, -9) < at
        ]

    def possible(self, names, at):
        """Whether the promise can be kept, by the earliest deadline first and by counting."""
        lists = [self.places(one) for one in range(at, at + 30) if self.places(one)]
        left = [self.W - self.off[name] for name in self.in_draw(names, at)]
        windows = [sum(lists[i : i + self.W]) for i in range(20)]
        here = [name for name in names if name not in self.out]
        return earliest_first_succeeds(left, lists) and len(here) <= min(windows)

    def goes_on(self, at, names):
        """What happens after a list, whatever was on it."""
        draw = self.rng.random()
        here = [name for name in names if name not in self.out]
        who = here[int(self.rng.integers(len(here)))]
        if draw < 0.25:
            import_people(self.database, f"id,region\nnew{at},n\n".encode(), NAME)
            return [*names, f"new{at}"]
        if draw < 0.45:
            import_people(self.database, f"id,opted_out\n{who},1\n".encode(), NAME)
            self.out.add(who)
        elif draw < 0.7:
            last = at + int(self.rng.integers(1, 4))
            import_people(self.database, f"id,absent\n{who},{at + 1} to {last}\n".encode(), NAME)
            self.away[who] = (at + 1, last)
        return names

    def lives(self, rounds):
        """Make lists until the promise cannot be kept; returns the number of lists."""
        names = [f"p{i}" for i in range(7)]
        for made in range(rounds):
            at = 5 + made + (made >= 7)  # round 12 has no list
            try:
                plan, _ = make_plan(self.database, NAME)
            except Infeasible:
                assert not self.possible(names, at)
                return made
            assert self.possible(names, at)
            assert plan.round == at
            draw = self.in_draw(names, at)
            assert set(draw) == {plan.names[i] for i in plan.person[plan.status == Status.IN_DRAW]}
            for name in draw:
                self.off[name] = 0 if name in plan.list else self.off[name] + 1
            assert max(self.off.values()) < self.W
            reached = told(self.database, plan, self.rng, reached=0.5)
            self.contacted |= dict.fromkeys(reached, at)
            names = self.goes_on(at, names)
        return rounds


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_programme_keeps_its_promise(kind, tmp_path_factory, request):
    """With newcomers, opting out, absence, rest, half reached, other capacities; both databases.

    Nobody is ever left off too many lists, and a refusal comes if and only if it must.
    """
    made = []

    @settings(deadline=None, max_examples=2, derandomize=True)
    @given(st.integers(0, 2**16))
    def lives(seed):
        folder = tmp_path_factory.mktemp("village")
        url = str(folder / "a.db") if kind == "sqlite" else request.getfixturevalue("server")()
        database = store.Store(url)
        made.append(Village(database, seed).lives(9))
        assert not [wrong for one in verify(database) for wrong in one.wrong]
        assert not check(database).faults

    lives()
    assert max(made) >= 5


def test_without_the_guard_a_programme_breaks_its_promise_and_the_check_tells(light, monkeypatch):
    founded(light, n=8, c=np.inf, promise=Promise(wait=4))
    rng = np.random.default_rng(1)

    def go_on():
        for _ in range(8):
            told(light, make_plan(light, NAME)[0], rng)

    def unguarded(left, *_):
        return np.zeros(len(left), bool), []

    with monkeypatch.context() as patched:
        patched.setattr(drawing, "deadline_quotas", unguarded)
        with pytest.raises(Infeasible, match=r"already|must be on"):
            go_on()
    assert any(one.wrong for one in verify(light))
    assert "Look: round" in findings(light)
    assert "4 lists in a row, and somebody has been left off 4." in findings(light)


def test_an_altered_count_is_found(light):
    """The lists that everybody has left are part of the plan, and follow from earlier lists."""
    founded(light, promise=Promise(wait=5))
    plan, _ = make_plan(light, NAME)
    told(light, plan, np.random.default_rng(0))
    make_plan(light, NAME)
    assert not any(one.wrong for one in verify(light))
    with light.writing() as connection:  # the list of the first round, its digest recomputed or not
        r = schema.plan_row
        connection.execute(r.update().where(r.c.plan == 1, r.c.listed == 1).values(listed=0))
    wrong = verify(light)[1].wrong
    assert "the lists that people had left do not follow from the lists before" in wrong


@pytest.mark.parametrize("change", ["due", "coming", "promise"])
def test_an_altered_promise_is_found(light, change):
    """The check finds any altered promise, and nothing ends in a traceback."""
    founded(light, promise=Promise(wait=5))
    make_plan(light, NAME)
    p = schema.plan
    with light.reading() as connection:
        fields = json.loads(connection.execute(sa.select(p.c.outlook)).scalar_one())
    other = {
        "due": ["AAAA", fields["due"][:12], 3],
        "coming": [[], [[1, 2, 2, 2, 2, 2]], None],
        "promise": [{"goal": "wait", "value": 4.0}, {"goal": "hope"}, 3],
    }
    for value in other[change]:
        with light.writing() as connection:
            connection.execute(p.update().values(outlook=json.dumps({**fields, change: value})))
        wrong = verify(light)[0].wrong
        assert "what is stored is not what was committed" in wrong
        assert len(wrong) > 1


def test_a_chance_is_promised(database):
    """People with the largest gains are listed, and everybody has a chance of 1/11, replayed."""
    founded(database, c=np.inf, promise=Promise(chance=1 / 11))
    plan, _ = make_plan(database, NAME)
    drawn = plan.probability[plan.status == Status.IN_DRAW]
    assert drawn.min() >= 1 / 11 - 1e-9
    assert drawn.min() < 0.1
    assert drawn.sum() == pytest.approx(2)
    assert 0 <= plan.outlook.promise_cost < 1
    assert not any(one.wrong for one in verify(database))
    free, _ = make_plan(database, NAME, PlanWish(replan="without", promise=NO_PROMISE))
    assert free.probability[free.status == Status.IN_DRAW].min() == 0  # the guard is gone


def test_infeasible_promises_are_refused_with_the_nearest(light):
    founded(light)
    with pytest.raises(Infeasible, match=r"9 people, and 8 places on 4 lists: 9 > 8; .*wait=5"):
        make_plan(light, NAME, PlanWish(promise=Promise(wait=4)))
    make_plan(light.rehearsal(), NAME, PlanWish(promise=Promise(wait=5)))
    with pytest.raises(Infeasible, match=r"9 \* 0.3 > 2; .*chance=22.2%"):
        make_plan(light, NAME, PlanWish(promise=Promise(chance=0.3)))
    make_plan(light.rehearsal(), NAME, PlanWish(promise=Promise.parse("chance=22.2%")))
    rng = np.random.default_rng(0)
    for _ in range(6):  # without a promise somebody waits
        told(light, make_plan(light, NAME)[0], rng)
    with pytest.raises(Infeasible, match=r"already; .*wait=(\d+); .*wait=5,from=11") as refused:
        make_plan(light, NAME, PlanWish(promise=Promise(wait=5)))
    assert "\n" not in str(refused.value)
    shortest = int(str(refused.value).split("kept is wait=")[1].split(";")[0])
    make_plan(light.rehearsal(), NAME, PlanWish(promise=Promise(wait=shortest)))
    with pytest.raises(Infeasible):
        make_plan(light, NAME, PlanWish(promise=Promise(wait=shortest - 1)))
    anew, _ = make_plan(light, NAME, PlanWish(promise=Promise(wait=5, since=11)))
    assert set(anew.due.tolist()) == {5}
    with pytest.raises(InvalidInput, match="planned already, with the promise"):
        make_plan(light, NAME, PlanWish(promise=Promise(wait=6)))


def test_more_people_than_places_are_refused_when_they_come(light):
    founded(light, n=8, promise=Promise(wait=4))
    told(light, make_plan(light, NAME)[0], np.random.default_rng(0))
    import_people(light, b"id,region\nnew,n\n", NAME)
    with pytest.raises(Infeasible, match=r"9 people, and 8 places on 4 lists: 9 > 8; .*wait=5"):
        make_plan(light, NAME)
    initialise(light, NAME, promise=Promise(wait=5))
    make_plan(light, NAME)


@pytest.mark.slow
def test_sites_keep_the_promise_each_for_itself(light):
    founded(light, n=9, by="region", capacity={"n": 1, "s": 2}, promise=Promise(wait=4))
    with pytest.raises(Infeasible, match=r"at n: .*5 people, and 4 places on 4 lists: 5 > 4"):
        make_plan(light, NAME)
    initialise(light, NAME, promise=Promise(wait=5))
    rng, off, forced = np.random.default_rng(3), Counter(), 0
    for _ in range(7):
        plan, _ = make_plan(light, NAME)
        for name, said in zip(plan.names, explain(plan), strict=True):
            # By the promise is on the list who was left off four times before, and nobody else.
            by_it = said.startswith("On the list by the promise: left off 4 lists in a row, and of")
            assert by_it == (off[name] == 4)
            forced += by_it
            off[name] = 0 if name in plan.list else off[name] + 1
        assert max(off.values()) < 5
        told(light, plan, rng)
    assert forced
    assert not any(one.wrong for one in verify(light))
    initialise(light, NAME, by="region", capacity={"n": 3})
    with pytest.raises(Infeasible, match=r"promise cannot be kept: .*no chance"):
        make_plan(light, NAME)


def test_what_does_not_go_with_a_promise_is_refused_by_name(light):
    founded(light, n=12, promise=Promise(wait=9))
    with pytest.raises(InvalidInput, match="a promise is for SoftFair"):
        make_plan(light, NAME, PlanWish(evenness=Evenness("mu", 5.0)))
    plan, _ = make_plan(light, NAME)
    make_plan(light, NAME, PlanWish(round=plan.round + 1, sure=True))
    with pytest.raises(InvalidInput, match="counts on the list of round 5"):
        make_plan(light, NAME, PlanWish(round=plan.round, replan="again"))
    make_plan(light, NAME, PlanWish(round=plan.round, replan="again", promise=NO_PROMISE))


def test_a_trial_has_no_promise(light):
    founded(light, n=12, promise=Promise(chance=0.01))
    trials.assign(light, NAME, trials.Wish(["softfair", "lottery"], (0.5, 0.5)))
    with pytest.raises(InvalidInput, match="cannot be kept in a trial"):
        make_plan(light, NAME)
    make_plan(light, NAME, PlanWish(promise=NO_PROMISE))


def test_a_committed_promise_is_drawn_as_it_was_counted(light):
    founded(light, promise=Promise(wait=5))
    first, _ = make_plan(light, NAME)
    commit_plan(light, NAME, PlanWish(round=first.round + 1, sure=True))
    make_plan(light, NAME, PlanWish(round=first.round, replan="other people", promise=NO_PROMISE))
    if plan_of(light, first.round).list != first.list:
        with pytest.raises(InvalidInput, match="commit it anew"):
            draw_plan(light, "dice 1 2 3", Source.TEXT)
    commit_plan(light, NAME, PlanWish(round=first.round + 1, sure=True, replan="lists changed"))
    drawn = draw_plan(light, "dice 1 2 3", Source.TEXT)
    assert drawn.outlook.promise == Promise(wait=5)
    assert not any(one.wrong for one in verify(light))


def test_a_target_and_a_promise_together(light):
    """c is chosen for the target among plans that keep the promise."""
    founded(light, n=12, c=3.0, horizon=12)
    both, _ = make_plan(
        light, NAME, PlanWish(target=Target("benefit", 0.3), promise=Promise(wait=8))
    )
    assert both.outlook.meets(Target("benefit", 0.3))
    assert both.outlook.promise == Promise(wait=8)
    # Every person is on every sixth list, and contacts do harm to some: all of it is undone.
    with pytest.raises(Infeasible, match=r"cannot be met: .* is none: such plans gain nothing"):
        make_plan(
            light,
            NAME,
            PlanWish(replan="more", target=Target("benefit", 0.999), promise=Promise(wait=6)),
        )


def test_the_command_promises(tmp_path):
    founded(store.Store(str(tmp_path / "softfair.db")))

    def run(*words):
        return shell.run(*words, folder=tmp_path, COLUMNS="160")

    refused = run("plan", "--promise", "wait=3")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "9 > 6; the shortest that can be kept is wait=5" in refused.stderr
    assert (
        "promise: everybody is on one of any 6 lists" in run("init", "--promise", "wait=6").stdout
    )
    said = run("plan").stdout
    assert "Promise kept: everybody is on one of any 6 lists in a row" in said
    shown = json.loads(run("plan", "--json", "--all").stdout)
    assert shown["outlook"]["promise"]["wait"] == 6
    reasons = " ".join(one["reason"] for one in shown["people"])
    assert "by the promise on the list within 5 more" in reasons
    said = run("plan", "--replan", "no", "--promise", "chance=1%").stdout
    assert "Promise kept: nobody in a draw has a chance below 1.0%. It costs" in said


# ---- what the audit tells ----


def findings(database, **named):
    return " ".join(audit(database, **named).findings)


@pytest.mark.slow
def test_the_audit_measures_whether_promises_were_kept(light):
    founded(light, promise=Promise(wait=5))
    rng = np.random.default_rng(2)
    for _ in range(6):
        told(light, make_plan(light, NAME)[0], rng)
    initialise(light, NAME, promise=Promise(chance=0.05))
    make_plan(light, NAME)
    said = findings(light)
    assert (
        "The promised wait was kept in all 6 of 7 rounds that had one: nobody in the draw was "
        in said
    )
    assert "left off more than 4 lists in a row where one of any 5 was promised" in said
    assert "The promised least chance was kept in all 1 rounds" in said
    assert "who would gain less and had as many lists left" in said
    assert "Look: in" not in said  # soft fairness


def test_the_audit_names_who_is_on_the_list_by_changes(light):
    """A person who would be listed opts out after the record; nothing else changes."""
    founded(light, n=12, capacity=3)
    told(light, make_plan(light, NAME)[0], np.random.default_rng(0))
    foreseen, _ = make_plan(light.rehearsal(), NAME)
    struck = foreseen.list[:1]
    import_people(light, people_of(struck, opted_out=[1]), NAME)
    plan, _ = make_plan(light, NAME)
    row = audit(light, names=12).deeds[-1]
    assert row.eligibility == 1
    assert set(row.changed.left_people) == set(foreseen.list) - set(plan.list) >= set(struck)
    assert set(row.changed.entered_people) == set(plan.list) - set(foreseen.list)
    counts = len(row.changed.entered_people), len(row.changed.left_people)
    assert (row.changed.entered, row.changed.left) == counts
    assert f"off: {', '.join(row.changed.left_people)}" in findings(light, names=12)
    unnamed = findings(light)  # nobody is named unless it is asked for
    assert f"came onto the list and {row.changed.left} went off it." in unnamed
    assert not any(name in unnamed for name in plan.names)
    # Nobody's place changes by a fact that decides nothing.
    told(light, plan, np.random.default_rng(1))
    import_people(light, people_of([plan.names[0]], region=["s"]), NAME)
    make_plan(light, NAME)
    row = audit(light).deeds[-1]
    assert (row.eligibility, row.changed.entered, row.changed.left) == (1, 0, 0)
    assert "the list would have been the same without" in findings(light)


def test_the_list_without_corrections(light):
    """A contact that is recorded afterwards makes a person rest; without it they would be drawn."""
    founded(light, n=6, capacity=2, cooldown=2, c=0.0)
    first, _ = make_plan(light, NAME)
    told(light, first, np.random.default_rng(0))
    foreseen, _ = make_plan(light.rehearsal(), NAME)
    who, at = foreseen.list[0], first.round
    import_history(light, f"id,round,contacted\n{who},{at},1\n".encode(), NAME)
    plan, _ = make_plan(light, NAME)
    assert who not in plan.list
    row = audit(light, names=6).deeds[-1]
    assert row.corrected == 1
    assert who in row.changed.left_people
    assert set(row.changed.entered_people) == set(plan.list) - set(foreseen.list)


def test_a_plan_made_anew_names_who_was_exchanged(light, tmp_path):
    founded(light, n=12, capacity=3)
    first, _ = make_plan(light, NAME)
    import_people(light, people_of(first.list[:1], opted_out=[1]), NAME)
    second, _ = make_plan(light, NAME, PlanWish(replan="opted out"))
    row = audit(light, names=12).deeds[0]
    assert set(row.replanned.left_people) == set(first.list) - set(second.list)
    assert set(row.replanned.entered_people) == set(second.list) - set(first.list)
    assert f"off: {', '.join(row.replanned.left_people)}" in findings(light, names=12)
    done = shell.run(
        "audit", "--names", 3, "--db", tmp_path / "light.db", folder=tmp_path, COLUMNS="200"
    )
    assert f"off: {', '.join(row.replanned.left_people)}" in done.stdout
    done = shell.run("audit", "--csv", "--db", tmp_path / "light.db", folder=tmp_path)
    assert done.returncode == 0
    assert not any(name in done.stdout for name in first.list)
