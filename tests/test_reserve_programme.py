"""Reserves of a programme: the order is drawn with the list, calls are kept, chances stay."""

import itertools
from collections import Counter

import numpy as np
import pytest
import shell
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from softfair.errors import InvalidInput
from softfair.programme import sample, store
from softfair.programme.audit import audit
from softfair.programme.changes import call_reserves, hand_out, override, since_plan
from softfair.programme.checks import check
from softfair.programme.imports import import_history, import_people
from softfair.programme.journal import journal
from softfair.programme.plans import PlanWish, make_plan, plan_of, verify
from softfair.programme.plans.drawing import drawn_by_luck, in_order
from softfair.programme.plans.kept import NOBODY, Belonging
from softfair.programme.promises import NO_PROMISE, Promise, Share
from softfair.programme.records import record
from softfair.programme.replacing import Replacing
from softfair.programme.settings import initialise
from softfair.programme.standing import standing
from softfair.programme.tables import plan_table
from softfair.sampling import inclusion

NAME = "softfair test"
KEYS = 5_000


@pytest.mark.slow
def test_list_and_reserves_have_the_law_that_is_stated():
    """Over keys, the list and the first two in reserve, against enumeration.

    A set of two has a chance proportional to the product of its weights; then the reserves are
    drawn one by one from the rest, by weight. With 60 cells, all expected above 5, the statistic
    is chi-square with 59 degrees of freedom: it exceeds the 1 - 1e-6 quantile once in a million.
    """
    score, names = np.array([0.3, 1.0, 0.0, 0.6, 1.2]), list("abcde")
    w = np.exp(score)
    law = {}
    sets = list(itertools.combinations(range(5), 2))
    total = sum(w[list(one)].prod() for one in sets)
    for one in sets:
        rest = [i for i in range(5) if i not in one]
        for i, j in itertools.permutations(rest, 2):
            first = w[i] / w[rest].sum()
            second = w[j] / (w[rest].sum() - w[i])
            law[one, i, j] = w[list(one)].prod() / total * first * second
    seen = Counter()
    for number in range(KEYS):
        key = f"{number:064x}"
        listed = drawn_by_luck(score, 1.0, 2, key, names)
        order = in_order(score, 1.0, listed, key, names).who
        assert set(order[:2]) == set(listed)
        seen[tuple(listed.tolist()), int(order[2]), int(order[3])] += 1
    expected = KEYS * np.array(list(law.values()))
    assert expected.min() > 5
    statistic = sum((seen[cell] - e) ** 2 / e for cell, e in zip(law, expected, strict=True))
    assert statistic < chi2.isf(1e-6, len(law) - 1)


def test_chances_of_the_reserve_by_enumeration():
    """Fourteen people, one on the list: ten of the other thirteen are in reserve."""
    rng = np.random.default_rng(3)
    score = rng.normal(size=14)
    order = in_order(score, 1.0, np.array([4]), "ab" * 32, [f"p{i}" for i in range(14)])
    assert len(order.who) == 11
    assert order.chance[0] == 0
    # Chance of being among three left over of thirteen: sum over the last three in the race,
    # which is every set B of three times the chance that all others ring before them.
    rest = [i for i in range(14) if i != 4]
    w = {i: np.exp(score[i]) for i in rest}
    out = dict.fromkeys(rest, 0.0)
    for last in itertools.combinations(rest, 3):
        # Inclusion and exclusion over those who ring before all of B: the chance that B are last.
        others, sum_last = [i for i in rest if i not in last], sum(w[i] for i in last)
        chance = 0.0
        for size in range(len(others) + 1):
            for some in itertools.combinations(others, size):
                chance += (-1) ** size * sum_last / (sum_last + sum(w[i] for i in some))
        for i in last:
            out[i] += chance
    for i, chance in zip(order.who[1:], order.chance[1:], strict=True):
        assert chance == pytest.approx(1 - out[i], abs=1e-9)


def test_the_most_effective_plan_has_its_reserves_by_rank():
    score = np.array([3.0, 1.0, 2.0, 1.0])
    order = in_order(score, np.inf, np.array([0]), "cd" * 32, list("abcd"))
    assert order.who[:2].tolist() == [0, 2]
    assert order.chance.tolist() == [0, 1, 1, 1]


@pytest.fixture
def programme(database):
    initialise(database, NAME, seed=0, capacity=30)
    import_people(database, sample.people_file(), NAME)
    import_history(database, sample.history_file(), NAME)
    return database


def in_reserve(plan):
    """Identifiers in the order in which they are called."""
    return [plan.names[i] for i in plan.reserve.person[np.argsort(plan.reserve.place)]]


def on_list(database, plan):
    listed = plan_table(plan, everyone=False, since=since_plan(database, plan))
    return set(listed.whole()["id"])


def opt_out(database, *names):
    rows = "".join(f"{name},yes\n" for name in names)
    import_people(database, f"id,opted_out\n{rows}".encode(), NAME)


def test_who_opts_out_is_replaced_by_the_next_in_order(programme):
    plan, _ = make_plan(programme, NAME)
    order = in_reserve(plan)
    assert set(order[:30]) == set(plan.list)
    assert len(order) == 60
    out = plan.list[:2]
    opt_out(programme, *out, order[31])  # and the second of the reserve
    since = hand_out(programme, plan, NAME)
    assert str(since) == "2 opted out"
    assert {plan.names[i] for i in since.called} == {order[30], order[32]}
    assert "number 1 in order" in since.called[plan.names.index(order[30])]
    assert on_list(programme, plan) == {*plan.list, order[30], order[32]} - set(out)
    assert hand_out(programme, plan, NAME) == since  # nothing more is due
    # One who was called opts out in turn.
    opt_out(programme, order[30])
    assert {plan.names[i] for i in hand_out(programme, plan, NAME).called} == {order[32], order[33]}
    # Nothing that was stated has changed, and all of it replays.
    again = plan_of(programme)
    np.testing.assert_array_equal(again.probability, plan.probability)
    np.testing.assert_array_equal(again.listed, plan.listed)
    assert not check(programme).wrong
    # The round waits for the reserves too, and their contacts are not off the list.
    rows = "".join(f"{name},1\n" for name in set(plan.list) - set(out))
    done = record(programme, f"id,contacted\n{rows}".encode(), NAME).recorded
    assert (done.closed, done.untold) == (False, 2)
    assert standing(programme).due[0].startswith("softfair record FILE --round 21: 2 of 30")
    rows = f"id,contacted\n{order[32]},1\n{order[33]},0\n"
    done = record(programme, rows.encode(), NAME).recorded
    assert (done.closed, done.off_list) == (True, 0)
    found = audit(programme)
    row = found.rounds[0]
    assert (row.called, row.called_reached, row.off_list, row.overrides) == (3, 1, 0, 0)
    assert "3 people called from the reserve, 1 of them reached" in " ".join(found.findings)


def test_capacity_that_falls_takes_the_last_off_and_comes_back(programme):
    plan, _ = make_plan(programme, NAME)
    order = in_reserve(plan)
    record(programme, f"id,contacted\n{order[29]},1\n".encode(), NAME)  # the last, called already
    initialise(programme, NAME, capacity=25)
    since = hand_out(programme, plan, NAME)
    assert str(since) == "5 without a place, capacity went from 30 to 25"
    assert on_list(programme, plan) == {*order[:24], order[29]}
    initialise(programme, NAME, capacity=33)
    hand_out(programme, plan, NAME)
    assert on_list(programme, plan) == set(order[:33])
    initialise(programme, NAME, capacity=30)
    hand_out(programme, plan, NAME)
    assert on_list(programme, plan) == set(plan.list)


def test_who_is_not_reached_has_a_reserve_called_on_request(programme):
    plan, _ = make_plan(programme, NAME)
    order = in_reserve(plan)
    assert not call_reserves(programme, plan, NAME).called
    record(programme, f"id,contacted\n{order[0]},0\n{order[1]},0\n".encode(), NAME)
    assert not hand_out(programme, plan, NAME).called  # not unasked
    since = call_reserves(programme, plan, NAME)
    assert {plan.names[i] for i in since.called} == set(order[30:32])
    assert all("was not reached" in why for why in since.called.values())
    assert call_reserves(programme, plan, NAME) == since
    with pytest.raises(InvalidInput, match=r"0 on the list were told as not reached.*say why"):
        call_reserves(programme, plan, NAME, 1)
    since = call_reserves(programme, plan, NAME, 1, "one helper more")
    assert "an officer's decision: one helper more" in since.called[plan.names.index(order[32])]
    with pytest.raises(InvalidInput, match="has 27 who can be"):
        call_reserves(programme, plan, NAME, 28, "many helpers")


def test_an_officers_decision_needs_a_reason_and_shows(programme):
    plan, _ = make_plan(programme, NAME)
    order = in_reserve(plan)
    other = next(
        name
        for name, status in zip(plan.names, plan.status, strict=True)
        if not status and name not in order
    )
    with pytest.raises(InvalidInput, match="for a reason"):
        override(programme, plan, NAME, other, True, " ")
    with pytest.raises(InvalidInput, match="nobody is called"):
        override(programme, plan, NAME, "nobody", True, "why")
    with pytest.raises(InvalidInput, match="on the list already"):
        override(programme, plan, NAME, plan.list[0], True, "why")
    out = plan.names[int(np.flatnonzero(plan.status)[0])]
    with pytest.raises(InvalidInput, match="cannot be called"):
        override(programme, plan, NAME, out, True, "why")
    override(programme, plan, NAME, other, True, "asked for it")
    override(programme, plan, NAME, plan.list[0], False, "in hospital")
    since = hand_out(programme, plan, NAME)  # the place in hospital goes to the next in order
    assert {plan.names[i] for i in since.called} == {other, order[30]}
    assert str(since) == "1 taken off by an officer"
    notes = [act.note for act in journal(programme) if act.what == "reserve"]
    assert "called (override): asked for it" in notes
    assert "taken off (override): in hospital" in notes
    told = [line for line in audit(programme).findings if "officer's decision" in line]
    assert told == [
        "Look: 1 person called by an officer's decision, each for a reason that is kept "
        "(softfair log): round 21 (1)."
    ]
    record(programme, sample.outcome_file(programme), NAME)
    with pytest.raises(InvalidInput, match="is over"):
        call_reserves(programme, plan, NAME)


def test_sites_have_reserves_of_their_own(programme):
    sites = {"north": 6, "south": 2}
    initialise(programme, NAME, capacity=sites, by="region")
    plan, _ = make_plan(programme, NAME)
    at = dict(zip(plan.names, plan.site.tolist(), strict=True))
    first = next(name for name in plan.list if plan.sites[at[name]].name == "south")
    opt_out(programme, first)
    (called,) = hand_out(programme, plan, NAME).called
    assert at[plan.names[called]] == at[first]
    assert in_reserve(plan).count(plan.names[called]) == 1


def test_people_with_a_contact_are_not_called(programme):
    """The first in reserve has a contact arranged, the second was contacted off the list."""
    plan, _ = make_plan(programme, NAME)
    order = in_reserve(plan)
    import_people(programme, f"id,reserved\n{order[30]},21\n".encode(), NAME)
    record(programme, f"id,contacted\n{order[31]},1\n".encode(), NAME)
    opt_out(programme, order[0])
    assert {plan.names[i] for i in hand_out(programme, plan, NAME).called} == {order[32]}
    # Sites come in after the plan: nobody is taken off, the list must be made anew.
    initialise(programme, NAME, capacity={"north": 6}, by="region")
    since = hand_out(programme, plan, NAME)
    assert "capacity went from 30 to 6" in str(since)
    assert "without a place" not in str(since)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE reserve SET place = place + 1 WHERE person = 5", "order of the reserve"),
        ("UPDATE reserve SET chance = chance + 0.01", "chances of the reserve"),
    ],
)
def test_an_altered_reserve_does_not_replay(tmp_path, change, said):
    database = store.Store(str(tmp_path / "p.db"))
    initialise(database, NAME, seed=0, capacity=3)
    import_people(database, b"id\n" + b"\n".join(b"p%d" % i for i in range(12)) + b"\n", NAME)
    plan, _ = make_plan(database, NAME, PlanWish(sure=True))
    opt_out(database, plan.list[0])
    hand_out(database, plan, NAME)
    assert not check(database).wrong
    with database.engine.connect() as connection, connection.begin():
        connection.execute(sa.text(change))
    (verdict,) = verify(database)
    assert any(said in wrong for wrong in verdict.wrong)
    assert any(wrong.startswith("reserve: entry") for wrong in check(database).wrong)
    with database.engine.connect() as connection, connection.begin():
        connection.execute(sa.text("DELETE FROM call"))
    assert any(wrong.startswith("call: entry") for wrong in check(database).wrong)


def test_the_command(tmp_path):
    def said(*words, code=0):
        done = shell.run(*words, folder=tmp_path, COLUMNS="160")
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    said("init", "--sample")
    said("plan")
    assert "0 called now" in said("reserve")
    assert "say why" in said("reserve", "--call", "1", code=2)
    assert "1 called now" in said("reserve", "--call", "1", "--reason", "a day more")
    assert "called from the reserve" in said("plan")
    assert "give one of them" in said("reserve", "--call", "1", "--person", "P001", code=2)


# ---- a promise about groups ----


def test_each_cell_has_reserves_of_its_own_with_the_chances_of_its_own_race():
    """The law of the next of a cell, over keys, depends only on the weights of the cell.

    The chance of being among the first ten of twelve that are not listed is the design's.
    """
    rng = np.random.default_rng(5)
    score, cell = rng.normal(size=24), np.repeat([0, 1], [13, 11])
    names, listed = [f"p{i}" for i in range(24)], np.array([3, 20])
    order = in_order(score, 1.0, listed, "ab" * 32, names, cell)
    assert [sum(cell[order.who] == x) for x in (0, 1)] == [11, 11]  # one listed, ten in reserve
    rest = np.array([i for i in range(13) if i != 3])
    wanted = inclusion(score[rest], 10, "successive")
    stated = dict(zip(order.who.tolist(), order.chance.tolist(), strict=True))
    for i, chance in zip(rest, wanted, strict=True):
        assert stated.get(i, chance) == pytest.approx(chance, abs=1e-12)
    first = Counter(
        next(i for i in in_order(score, 1.0, listed, f"{at:064x}", names, cell).who if i in rest)
        for at in range(400)
    )
    expected = 400 * np.exp(score[rest]) / np.exp(score[rest]).sum()
    statistic = sum((first[i] - e) ** 2 / e for i, e in zip(rest, expected, strict=True))
    assert statistic < chi2.isf(1e-5, len(rest) - 1)


@st.composite
def lists(draw):
    """Up to ten people in two crossing groups and households, in an order; some are on a list."""
    n = draw(st.integers(2, 10))
    inside = np.array(draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=2,
                                    max_size=2)))  # fmt: skip
    house = np.array(draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n)))
    order = draw(st.permutations(range(n)))
    many = draw(st.integers(0, n - 1))
    signs = draw(st.tuples(*[st.sampled_from([">=", "<=", "=="])] * 2))
    numbers = draw(st.tuples(*[st.integers(0, 4)] * 2))
    shares = tuple(Share("ab"[g], "x", signs[g], float(numbers[g]), True) for g in range(2))
    kept = Replacing(Promise(shares=shares, one="house"), Belonging(inside, house))
    return kept, list(order[:many]), list(order[many:]), draw(st.integers(1, 3))


@settings(max_examples=200, deadline=None)
@given(lists())
def test_a_call_breaks_no_promise_and_mends_as_much_as_one_call_can(problem):
    """A call breaks no bound, and no other person who may be called would mend more."""
    kept, on, waiting, many = problem
    called = kept.called(on, waiting, many)
    assert len(set(called)) == len(called) <= many
    places, listed = len(on) + many, list(on)
    bounds = [share.bounds(places) for share in kept.promise.shares]
    house, inside = kept.belonging.house, kept.belonging.inside

    def allowed(i):
        own = [h for h in house[listed] if h >= 0]
        counts = [inside[g, listed].sum() for g in range(2)]
        return house[i] not in own and all(
            not inside[g, i] or counts[g] < bounds[g][1] for g in range(2)
        )

    def mended(i):
        return sum(inside[g, i] and inside[g, listed].sum() < bounds[g][0] for g in range(2))

    for one in called:
        free = [i for i in waiting if i not in listed and allowed(i)]
        best = max(map(mended, free))
        assert one == next(i for i in free if mended(i) == best)
        listed.append(one)
    if len(called) < many:
        assert not any(allowed(i) for i in waiting if i not in listed)


def test_without_a_promise_the_order_is_all():
    plain = Replacing(NO_PROMISE, NOBODY)
    assert plain.called([1], [5, 3, 4], 2) == [5, 3]
    assert plain.taken_off([1, 2, 3], [1, 2, 3], 2) == [3, 2]
    assert plain.called([1], [5], -1) == plain.taken_off([1], [1], -1) == []


@pytest.mark.parametrize("guarded", [True, False])
def test_a_list_that_changes_keeps_its_shares(tmp_path, monkeypatch, guarded):
    """Exactly two of the north and at most one of each house, while six people opt out in turn.

    Without the guard, the next in order would be called whoever it is, and it breaks.
    """
    database = store.Store(str(tmp_path / "p.db"))
    promise = Promise.parse("share region=n==2; one house")
    initialise(database, NAME, seed=0, capacity=5, promise=promise)
    rows = [f"p{i},{'ns'[i % 3 > 0]},h{i // 2}" for i in range(30)]
    import_people(database, "\n".join(["id,region,house", *rows, ""]).encode(), NAME)
    plan, _ = make_plan(database, NAME, PlanWish(sure=True))
    if not guarded:
        monkeypatch.setattr(Replacing, "called", lambda self, on, waiting, many: waiting[:many])
    kept = []
    for _ in range(6):
        opt_out(database, sorted(on_list(database, plan))[0])
        hand_out(database, plan, NAME)
        who = [int(name[1:]) for name in on_list(database, plan)]
        kept.append((len(who), sum(i % 3 == 0 for i in who), len({i // 2 for i in who})))
    assert (kept == [(5, 2, 5)] * 6) == guarded
    assert not check(database).wrong
    if guarded:
        # The capacity falls: exactly two of four, then of three.
        for places in (4, 3):
            initialise(database, NAME, capacity=places)
            hand_out(database, plan, NAME)
            who = [int(name[1:]) for name in on_list(database, plan)]
            assert (len(who), sum(i % 3 == 0 for i in who)) == (places, 2)


def test_a_place_stays_free_rather_than_break_a_promise(tmp_path):
    """All three places belong to three people of the north: nobody replaces one who opts out."""
    database = store.Store(str(tmp_path / "p.db"))
    initialise(database, NAME, seed=0, capacity=3, promise=Promise.parse("share region=s<=0"))
    rows = "".join(f"p{i},{'n' if i < 3 else 's'}\n" for i in range(9))
    import_people(database, f"id,region\n{rows}".encode(), NAME)
    plan, _ = make_plan(database, NAME, PlanWish(sure=True))
    opt_out(database, "p1")
    since = hand_out(database, plan, NAME)
    assert not since.called
    assert str(since) == (
        "1 opted out, 1 without a replacement, because whoever is left in reserve would break what "
        "is promised of groups"
    )
    with pytest.raises(InvalidInput, match="has 0 who can be, the promise about groups kept"):
        call_reserves(database, plan, NAME, 1, "a helper more")
    override(database, plan, NAME, "p5", True, "the board said so")  # with a reason it can be
    assert on_list(database, plan) == {"p0", "p2", "p5"}
