"""A promised wait beside shares of groups: both kept on every list, or refused in one line.

Order: closed form, brute force, the law of a draw, little worlds in which nothing may ever break,
prices, whole programmes; and the same with the guard taken away.
"""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
import shell
import test_share_programme as share_programme
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from softfair import Cohort
from softfair.errors import Infeasible, InvalidInput
from softfair.policies.deadlines import Cell, quotas_by_cell
from softfair.programme import schema, store
from softfair.programme.audit import audit
from softfair.programme.checks import check
from softfair.programme.outlook import Keeping, Shares, SiteCohort
from softfair.programme.plans import PlanWish, drawing, make_plan, verify
from softfair.programme.plans.drawing import Terms, chances, drawn_by_luck
from softfair.programme.plans.sharing import Sharing
from softfair.programme.promises import Promise, Share
from softfair.quotas import Quota
from softfair.quotas.dividing import Cells, divided

NAME = share_programme.NAME


# ---- closed form ----


def test_a_set_has_the_bounds_that_are_left_after_those_who_must_be_helped():
    """Arm 0 is due now and one of three of whom 1 to 2 are helped: of the others 0 to 1."""
    cell = Cell(np.arange(4), np.empty(0, np.int64), np.full(9, 2))
    now, more = quotas_by_cell(np.array([1, 9, 9, 9]), [cell], [Quota([0, 1, 2], 1, 2, "north")])
    assert now.tolist() == [True, False, False, False]
    assert [(one.arms.tolist(), one.least, one.most) for one in more] == [([0, 1], 0, 1)]


# ---- divisions, by brute force ----


def kept_by(split, k, least, most, cells):
    """Whether a division [cells, T] of places keeps every promise, from the definition."""
    T, W = len(k), cells.due.shape[1]
    for t in range(T):
        if sum(split[:, t]) != k[t]:
            return False
        for g in range(cells.inside.shape[1]):
            if not least[t, g] <= sum(split[cells.inside[:, g], t]) <= most[t, g]:
                return False
    for x, row in enumerate(split):
        if row[0] > cells.drawn[x] or max(row) > cells.size[x]:
            return False
        if any(sum(row[t : t + W]) < cells.size[x] for t in range(T - W + 1)):
            return False
        if any(sum(row[:d]) < cells.due[x, d - 1] for d in range(1, min(W, T) + 1)):
            return False
    return True


def needed(split, cells):
    """The number that must be drawn now: in each cell, those due within d without a later place."""
    T, W = split.shape[1], cells.due.shape[1]
    reach = range(1, min(W, T) + 1)
    return sum(
        max(0, *(cells.due[x, d - 1] - sum(row[1:d]) for d in reach)) for x, row in enumerate(split)
    )


@st.composite
def little(draw):
    """Two cells with up to three people each, up to three lists of up to three places."""
    size = draw(st.lists(st.integers(1, 3), min_size=2, max_size=2))
    W, T = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    k = np.array(draw(st.lists(st.integers(1, min(3, sum(size))), min_size=T, max_size=T)))
    left = [draw(st.lists(st.integers(1, W), min_size=m, max_size=m)) for m in size]
    due = np.array([[sum(d <= most for d in some) for most in range(1, W + 1)] for some in left])
    low, high = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    least, most = np.full((T, 1), min(low, high)), np.full((T, 1), high)
    inside = np.array([[True], [False]])
    return k, least, most, Cells(inside, np.array(size), np.array(size), due, np.zeros_like(due))


@settings(max_examples=60, deadline=None)
@given(little())
def test_a_division_is_found_if_and_only_if_there_is_one(problem):
    """Against all divisions; of those that keep everything, one with which the fewest must come."""
    k, least, most, cells = problem
    every = itertools.product(*([(a, places - a) for a in range(places + 1)] for places in k))
    splits = [split for one in every if kept_by(split := np.array(one).T, k, least, most, cells)]
    found = divided(k, least, most, cells)
    assert (found is None) == (not splits)
    if found is not None:
        assert needed(found, cells) == min(needed(split, cells) for split in splits)
        assert (found.sum(axis=0) <= k).all()


def test_a_least_chance_leaves_fewer_places_for_deadlines():
    """Ten of each of two groups, 4 places, half each, a wait of 10: 2 places for 10 people.

    With a chance of 10 % for everybody, one place of the two may go by deadlines, as
    2 - 1 >= 0.1 (10 - 1): ten in ten lists. With 12 % none may: 2 - 1 < 0.12 * 9.
    """
    ten, due = np.array([10, 10]), np.zeros((2, 10), np.int64)
    due[:, -1] = 10
    cells = Cells(np.eye(2, dtype=bool), ten, ten, due, 0 * due)
    k, two = np.full(11, 4), np.full((11, 2), 2)
    assert (divided(k, two, two, cells, 0.10)[:, 1:].sum(axis=1) == 10).all()
    assert divided(k, two, two, cells, 0.12) is None


# ---- the law of a draw ----


def test_a_draw_keeps_both_with_the_chances_that_are_stated():
    """All sets of 4 of 8 with two or three of the north, and who is due: chi-square of 600 draws.

    The north (0-3) may take one place a list by deadlines, the south (4-7) two. 4 has one list
    left; 1, 2, 5, 6 and 7 have two. The sets are written down here from that.
    """
    left = np.array([9, 2, 2, 9, 1, 2, 2, 2])
    cells = (
        Cell(np.arange(4), np.empty(0, np.int64), np.array([1, 1, 1, 1, 1])),
        Cell(np.arange(4, 8), np.empty(0, np.int64), np.array([2, 2, 2, 2, 2])),
    )
    groups = (Quota(np.arange(4), 2, 3, "north"),)
    terms = Terms(0.0, left, np.empty(0, np.int64), np.full(5, 4), "", groups, cells)
    sets = [
        H
        for H in itertools.combinations(range(8), 4)
        if 2 <= sum(i < 4 for i in H) <= 3
        and 4 in H
        and {1, 2} & set(H)  # both are due within two lists, and the next has one place
        and {5, 6, 7} & set(H)  # three are due within two lists, and the next has two places
    ]
    score = np.array([0.3, -0.4, 0.9, 0.1, -1.0, 0.5, 0.2, -0.2])
    weight = np.array([np.exp(2 * score[list(H)].sum()) for H in sets])
    wanted = [weight[[i in H for H in sets]].sum() / weight.sum() for i in range(8)]
    np.testing.assert_allclose(chances(score, 2.0, 4, terms), wanted, atol=1e-10)
    names, many = [f"p{i}" for i in range(8)], 600
    seen = Counter(
        tuple(drawn_by_luck(score, 2.0, 4, f"{at:064x}", names, terms).tolist())
        for at in range(many)
    )
    assert set(seen) <= set(sets)
    expected = many * weight / weight.sum()
    found = np.array([seen[H] for H in sets])
    statistic = float(((found - expected) ** 2 / expected).sum())
    assert statistic < chi2.isf(1e-4, len(sets) - 1)


# ---- little worlds ----


class Broken(AssertionError):
    """A promise that was not kept."""


def wander(seed, guard="both", rounds=25):
    """Many lists of a little world; the longest that anybody was left off, W, and lists made.

    Two columns of two values each, so that groups cross. Shares follow from what is possible with a
    division of the first list that is drawn here. People rest after being listed, are absent now
    and then in some worlds, and in these a list may be refused: the world ends then.
    """
    rng = np.random.default_rng(seed)
    n, W, rest = int(rng.integers(4, 16)), int(rng.integers(3, 7)), int(rng.integers(0, 2))
    leaves = rng.random() < 0.5  # whether anybody is absent
    k = min(n, -(-n // W) + int(rng.integers(1, 4)))
    inside = rng.random((2, n)) < 0.5
    usual = rng.permutation(n)[:k]
    promise = Promise(W, shares=tuple(
        Share("ab"[g], "x", str(rng.choice([">=", "<="])), float(inside[g, usual].sum()), True)
        for g in range(2)
    ))  # fmt: skip
    kinds, cell = np.unique(inside.T, axis=0, return_inverse=True)
    cell = cell.ravel()
    off, back, longest = np.zeros(n, np.int64), np.zeros(n), 0
    for at in range(rounds):
        if leaves:
            gone = rng.random(n) < 0.05
            back = np.where(gone, np.maximum(back, at + rng.integers(1, 4, n)), back)
        score, drawn = rng.normal(size=n), back <= at
        draw, away = np.flatnonzero(drawn), np.flatnonzero(~drawn)
        places = min(k, len(draw))
        now = Sharing("", promise, kinds, cell, off, drawn, lambda W: np.full(1 + W, k), True)
        division = now.division(W)
        if division is None:
            if at and not leaves and not rest:
                raise Broken("a list was refused though nothing had changed")
            return longest, W, at
        cells = tuple(
            Cell(who, W - off[away[cell[away] == x]], division[x])
            for x in range(len(kinds))
            if len(who := np.flatnonzero(cell[draw] == x))
        )
        groups = tuple(
            Quota(np.flatnonzero(inside[g, draw]), *share.bounds(places))
            for g, share in enumerate(promise.shares)
        )
        coming = np.full(W + 1, k)
        terms = {
            "both": Terms(0.0, W - off[draw], W - off[away], coming, "", groups, cells),
            "shares alone": Terms(groups=groups),
            "deadlines alone": Terms(0.0, W - off[draw], W - off[away], coming),
        }[guard]
        key, names = f"{seed:060x}{at:04x}", [f"p{i}" for i in draw]
        listed = draw[drawn_by_luck(score[draw], 3.0, places, key, names, terms)]
        for g, share in enumerate(promise.shares):
            least, most = share.bounds(places)
            if not least <= inside[g, listed].sum() <= most:
                raise Broken(f"{share}: {inside[g, listed].sum()}")
        off[draw] += 1
        off[listed] = 0
        back[listed] = at + 1 + rest
        longest = max(longest, off.max())
        if longest >= W:
            raise Broken(f"left off {longest} lists")
    return longest, W, rounds


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32))
def test_neither_promise_ever_breaks(seed):
    wander(seed)


@pytest.mark.slow
def test_most_worlds_go_on_to_their_end_and_deadlines_bind():
    ends = [wander(seed) for seed in range(12)]
    assert sum(made == 25 for _, _, made in ends) >= 4
    assert sum(longest == W - 1 for longest, W, made in ends if made == 25) >= 2


@pytest.mark.parametrize("guard", ["shares alone", "deadlines alone"])
def test_without_the_guard_one_of_them_breaks(guard):
    def breaks(seed):
        try:
            wander(seed, guard)
        except Broken:
            return True
        return False

    assert sum(breaks(seed) for seed in range(12)) >= 4


# ---- prices ----


@pytest.mark.parametrize(("c", "W"), [(0.0, 12), (8.0, 6)])
def test_prices_know_of_shares_and_deadlines(c, W):
    """State by state: k contacts in each round, the share of the north, and no wait above W."""
    rng = np.random.default_rng(0)
    cohort = Cohort(rng.dirichlet(np.ones(2), (30, 2, 2)), start=rng.dirichlet(np.ones(2), 30))
    north, T = np.arange(30) < 10, 8
    shares = Shares(north[None], np.array([4.0]), np.array([4.0]))
    left = np.where(np.arange(30) % 5 == 0, 3, W)
    keeping = Keeping(W, 0.0, left, shares)
    site = SiteCohort(cohort, 8, T, np.arange(30), keeping=keeping)
    followed = site.follow(c)
    assert followed.contacts.sum() == pytest.approx(8 * T, rel=2e-3)
    assert followed.contacts[north].sum() == pytest.approx(4 * T, rel=5e-3)
    # Who is due before the end is contacted once for certain.
    assert followed.contacts[left <= T].min() >= 1 - 1e-9
    assert site.values(c).info.residual < 2e-3
    assert np.isfinite(site.scores(c)).all()


# ---- programmes ----


BOTH = "wait=5; share region=n>=2; share sex=f<=60%"


@pytest.mark.slow
def test_a_programme_keeps_a_wait_and_shares(url):
    """Twelve people, five places: nobody is left off five, and every list has both."""
    database = share_programme.founded(store.Store(url), promise=Promise.parse(BOTH))
    off = Counter()
    for _ in range(2 if "://" in url else 6):
        plan, _ = make_plan(database, NAME)
        north, women, _ = share_programme.numbers_of(plan.list)
        assert (len(plan.list), north >= 2, women <= 3) == (5, True, True)
        assert plan.probability.sum() == pytest.approx(5)
        for name in plan.names:
            off[name] = 0 if name in plan.list else off[name] + 1
        assert max(off.values()) < 5
        share_programme.told(database, plan)
    assert not [wrong for one in verify(database) for wrong in one.wrong]
    assert not check(database).faults
    said = " ".join(audit(database).findings)
    assert "promised of the places of groups was kept on every list" in said
    assert "lists in a row where one of any 5 was promised" in " ".join(said.split())


@pytest.mark.parametrize("promised", ["wait=3; share region=n>=2", "wait=4; one house"])
def test_without_the_guard_a_programme_breaks_it_and_the_check_tells(light, monkeypatch, promised):
    share_programme.founded(light, promise=Promise.parse(promised), c=200.0)
    with monkeypatch.context() as patched:
        patched.setattr(drawing.Terms, "must", lambda self, m: (np.zeros(m, bool), []))
        for _ in range(6):
            try:
                plan, _ = make_plan(light, NAME)
            except Infeasible:  # somebody is left off already
                break
            share_programme.told(light, plan)
    assert {
        "a group has another number of places than was promised",
        "somebody is not on the list whom the promise puts there",
    } & {wrong for one in verify(light) for wrong in one.wrong}


def test_an_altered_division_is_found(light):
    share_programme.founded(light, promise=Promise.parse(BOTH))
    make_plan(light, NAME)
    p = schema.plan
    with light.writing() as connection:
        outlook = json.loads(connection.execute(p.select()).one().outlook)
        outlook["divided"][0][0][0] += 9
        connection.execute(p.update().values(outlook=json.dumps(outlook)))
    assert (
        "the places that groups were to have are more than those of the lists"
        in verify(light)[0].wrong
    )


def test_what_cannot_be_kept_is_refused_with_the_inequality_and_the_shortest_wait(light):
    """Eight of the south with at most two of five places: four lists, and not three."""
    share_programme.founded(light)
    with pytest.raises(Infeasible) as caught:
        make_plan(light, NAME, PlanWish(promise=Promise.parse("wait=3; share region=s<=2")))
    assert (
        "8 people of region s must be on any 3 lists in a row, with at most 6 places for them: "
        "8 > 6; the shortest that can be kept is wait=4"
    ) in str(caught.value)
    plan, _ = make_plan(light, NAME, PlanWish(promise=Promise.parse("wait=4; share region=s<=2")))
    assert plan.outlook.promise.wait == 4
    with pytest.raises(Infeasible, match="no wait can be promised beside these shares"):
        make_plan(
            light, NAME, PlanWish(replan="x", promise=Promise.parse("wait=9; share sex=f<=0"))
        )
    with pytest.raises(InvalidInput, match="neither shares nor a chance"):
        Promise.parse("wait=9; one house; share sex=f<=2")


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ([2, 2, 3], []),  # two within two lists of one place each: there is room
        ([2, 2, 2], [(3, 2, "the next 2 lists")]),
        ([1, 1, 3], [(2, 1, "this list")]),
        ([3, 3, 3, 3], [(4, 3, "any 3 lists in a row"), (4, 3, "the next 3 lists")]),
    ],
)
def test_deadlines_beyond_the_places_are_counted_by_hand(left, told):
    n, W = len(left), 3
    everybody = np.ones(n, bool)
    group = np.zeros((1, 0), bool)
    off = W - np.array(left)
    one = Sharing(
        "", Promise(W), group, np.zeros(n, int), off, everybody, lambda W: np.ones(W, int), True
    )
    assert list(one._short(everybody, np.ones(3, int), W)) == told


def test_the_command_promises_both(tmp_path):
    share_programme.founded(store.Store(str(tmp_path / "softfair.db")))
    done = shell.run("plan", "--promise", BOTH, folder=tmp_path, COLUMNS="200")
    assert "Promise kept: at least 2 places of every list for region n" in done.stdout
    assert "everybody is on one of any 5 lists in a row" in done.stdout
    short = "wait=3; share region=s<=2"
    refused = shell.run("plan", "--replan", "x", "--promise", short, folder=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "wait=4" in refused.stderr
