"""A wait, shares of groups and at most one of each household: all three kept, or refused.

Order: by hand, all states of little worlds, the law of a draw, long courses of larger worlds, whole
programmes; and the same with the guard taken away.
"""

import itertools
from collections import Counter
from functools import cache

import numpy as np
import pytest
import shell
import test_share_programme as share_programme
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from test_wait_and_households import allowed, can_be_kept, keeps_what_it_promised

from softfair.errors import Infeasible, InvalidInput
from softfair.policies.deadlines import Cell
from softfair.programme import store
from softfair.programme.imports import import_history, import_people
from softfair.programme.plans import PlanWish, drawing, make_plan, verify
from softfair.programme.plans.drawing import Terms, chances, drawn_by_luck
from softfair.programme.plans.sharing import Sharing
from softfair.programme.promises import Promise, Share
from softfair.programme.settings import initialise
from softfair.quotas import Quota

NAME = share_programme.NAME


class Broken(AssertionError):
    """A promise that was not kept."""


class World:
    """People in two groups with households within each, the same places on every list."""

    def __init__(self, cell, house, k, W, share, guard="all"):
        self.cell, self.house, self.k, self.W = np.array(cell), np.array(house), k, W
        self.promise = Promise(W, shares=(share,), one="house")
        self.guard, self.n = guard, len(cell)

    def sharing(self, off, drawn):
        inside = np.array([[False], [True]])
        given = (inside, self.cell, np.array(off), np.array(drawn))
        return Sharing("", self.promise, *given, lambda W: np.full(1 + W, self.k), True, self.house)

    def places(self, drawn):
        """Places on a list of which some are in the draw."""
        home = [self.house[i] if self.house[i] >= 0 else -1 - i for i in np.flatnonzero(drawn)]
        return min(self.k, len(set(home)))

    def shared(self, some):
        """Whether a list keeps the shares and the households."""
        least, most = self.promise.shares[0].bounds(len(some))
        home = [self.house[i] for i in some if self.house[i] >= 0]
        return least <= sum(self.cell[i] for i in some) <= most and len(home) == len(set(home))

    def terms(self, off, drawn):
        """What the draw keeps; None: it is refused."""
        off, drawn = np.array(off), np.array(drawn)
        division = self.sharing(off, drawn).division(self.W)
        if division is None:
            return None
        draw, away = np.flatnonzero(drawn), np.flatnonzero(~drawn)
        cells, left = [], self.W - off
        for x in range(2):
            who, gone = np.flatnonzero(self.cell[draw] == x), away[self.cell[away] == x]
            house = self.house[np.concatenate([draw[who], gone])]
            if len(who):
                # Taken away: no deadline is moved forward, or none is there at all.
                apart = None if self.guard == "unmoved" else house
                due = left[gone] if self.guard != "late" else left[gone] + self.W
                cells.append(Cell(who, due, division[x], apart))
        least_and_most = self.promise.shares[0].bounds(self.places(drawn))
        groups = [Quota(np.flatnonzero(self.cell[draw]), *least_and_most)]
        if self.guard in ("unmoved", "shares alone"):
            home = self.house[draw]
            groups += [Quota(np.flatnonzero(home == h), most=1) for h in set(home[home >= 0])]
        if self.guard == "shares alone":
            return Terms(groups=tuple(groups))
        return Terms(0.0, left[draw], left[away], np.full(self.W + 1, self.k), "",
                     tuple(groups), tuple(cells))  # fmt: skip


# ---- by hand ----


def test_whether_households_across_groups_are_kept_is_no_matter_of_places():
    """The example of `sharing`: A is in x, B and C are in y, D in z; A with B, C with D.

    One place a list for each group, A and D must be on this list, B and C on the next at the
    latest. Every group and every household has places enough; a list of all three groups has not.
    """
    cell, house, due = [0, 1, 1, 2], np.array([0, 0, 1, 1]), np.array([1, 2, 2, 1])
    for x in range(3):
        own = due[np.array(cell) == x]
        assert all((own <= t).sum() <= t for t in (1, 2))
    assert can_be_kept(due[:2], house[:2], [1, 1])
    assert can_be_kept(due[2:], house[2:], [1, 1])

    def kept(lists):
        return all(
            len({cell[i] for i in one}) == len(one) == len({house[i] for i in one}) for one in lists
        )

    split = itertools.product((0, 1), repeat=4)  # on which of two lists each is
    in_time = [one for one in split if all(np.array(one) < due)]
    assert in_time
    assert not any(kept([[i for i in range(4) if one[i] == t] for t in (0, 1)]) for one in in_time)


def test_two_of_a_household_who_each_have_a_chance_can_be_left_off_for_ever():
    """With a floor f and both in every draw, either is left off W lists with at least f^W."""
    for text in ("wait=9; one house; chance=1%", "wait=9; one house; chance=1%; share sex=f<=2"):
        with pytest.raises(InvalidInput, match="luck may leave either of them off any number"):
            Promise.parse(text)


# ---- all states of little worlds ----


WORLDS = {
    "two pairs": ([0, 0, 1, 1], [0, 0, 1, 1], 2, 3, Share("g", "x", "==", 0.5)),
    "a pair and two": ([0, 0, 1, 1], [0, 0, -1, -1], 2, 3, Share("g", "x", ">=", 1, True)),
    "one of three": ([0, 0, 0, 1], [0, 0, 0, -1], 2, 5, Share("g", "x", "<=", 1, True)),
    "two and three": ([0, 0, 1, 1, 1], [0, 0, 1, 1, -1], 2, 4, Share("g", "x", "<=", 1, True)),
    "a pair with time": ([0] * 5 + [1], [0, 0] + [-1] * 4, 3, 4, Share("g", "x", "==", 1, True)),
    "three pairs": ([0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2], 3, 3, Share("g", "x", ">=", 1, True)),
}


def explored(world, absent, most=4000):
    """Follow every list that the draw allows, whoever is away next; states, and how many bind.

    A state is how many lists each was left off and who is away now, any people of ``absent`` at
    most. A list is refused only if none has the shares.
    """

    @cache
    def lists(off, drawn):
        people = np.flatnonzero(drawn)
        k = world.places(drawn)
        possible = any(world.shared(some) for some in itertools.combinations(people, k))
        terms = world.terms(off, drawn)
        if terms is None:
            if possible:
                raise Broken(f"refused: {off}, {drawn}")
            return (), False
        now, more = terms.must(len(people))
        found = [tuple(people[list(one)]) for one in allowed(now, more, len(people), k)]
        if not found or not all(world.shared(one) for one in found):
            raise Broken(f"no list, or one without its shares: {off}, {drawn}")
        return found, bool(now.any() or any(one.least for one in more[:-1]))

    away = [
        tuple(bool(i not in some) for i in range(world.n))
        for many in range(absent + 1)
        for some in itertools.combinations(range(world.n), many)
    ]
    start, binding = (0,) * world.n, 0
    seen, open_ = {start}, [start]
    while open_ and len(seen) < most:
        off = open_.pop()
        if max(off) >= world.W:
            raise Broken(f"left off {max(off)} lists")
        for drawn in away:
            found, binds = lists(off, drawn)
            binding += binds
            for some in found:
                then = tuple(
                    0 if i in some else one + there
                    for i, (one, there) in enumerate(zip(off, drawn, strict=True))
                )
                if then not in seen:
                    seen.add(then)
                    open_.append(then)
    return len(seen), binding


@pytest.mark.parametrize("world", ["two pairs", "a pair and two", "one of three", "three pairs"])
def test_all_is_kept_in_every_state_that_can_come(world):
    """Everybody there, or anybody away at any list: no list breaks it, and none is refused."""
    seen, binding = explored(World(*WORLDS[world]), 1)
    assert seen > 20
    assert binding > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "absent"),
    [("two pairs", 3), ("a pair and two", 3), ("two and three", 2), ("a pair with time", 1)],
)
def test_all_is_kept_whoever_is_away(world, absent):
    explored(World(*WORLDS[world]), absent)


@pytest.mark.parametrize(
    ("guard", "world", "absent"),
    [
        ("unmoved", "a pair with time", 0),  # both of a household come to their last list
        ("shares alone", "two pairs", 0),
        ("late", "one of three", 1),  # places for people who are away are not kept
    ],
)
def test_without_the_guard_some_state_breaks_it(guard, world, absent):
    with pytest.raises(Broken):
        explored(World(*WORLDS[world], guard), absent)


# ---- the law of a draw ----


def test_a_draw_keeps_all_with_the_chances_that_are_stated():
    """Four of nine: by enumeration of what is written down here, and chi-square of 600 draws.

    The first five are of one group and have two places a list, the others are of another and have
    one; two or three places go to the first. 0 and 1 live together and have two lists left: one of
    them is on this list. 2 has one list left, so that 3 of the same household is not on it. 5 and
    6 live together and have time.
    """
    left, house = np.array([2, 2, 1, 7, 9, 9, 9, 9, 9]), np.array([0, 0, 1, 1, -1, 2, 2, -1, -1])
    none = np.empty(0, np.int64)
    cells = (
        Cell(np.arange(5), none, np.full(9, 2), house[:5]),
        Cell(np.arange(5, 9), none, np.full(9, 1), house[5:]),
    )
    groups = (Quota(np.arange(5), 2, 3, "first"),)
    terms = Terms(0.0, left, none, np.full(9, 4), "", groups, cells)
    sets = [
        H
        for H in itertools.combinations(range(9), 4)
        if 2 in H
        and 3 not in H
        and len({0, 1} & set(H)) == 1
        and not {5, 6} <= set(H)
        and 2 <= sum(i < 5 for i in H) <= 3
    ]
    score = np.array([0.3, -0.4, 0.9, 5.0, -1.0, 0.5, 0.2, -0.2, 0.4])
    weight = np.array([np.exp(2 * score[list(H)].sum()) for H in sets])
    wanted = [weight[[i in H for H in sets]].sum() / weight.sum() for i in range(9)]
    np.testing.assert_allclose(chances(score, 2.0, 4, terms), wanted, atol=1e-10)
    names, many = [f"p{i}" for i in range(9)], 600
    seen = Counter(
        tuple(drawn_by_luck(score, 2.0, 4, f"{at:064x}", names, terms).tolist())
        for at in range(many)
    )
    assert set(seen) <= set(sets)
    expected = many * weight / weight.sum()
    found = np.array([seen[H] for H in sets])
    assert ((found - expected) ** 2 / expected).sum() < chi2.isf(1e-4, len(sets) - 1)


# ---- larger worlds ----


def wander(seed, rounds=25):
    """Many lists of a larger world: the longest that anybody was left off, W, and lists made.

    Two columns of two values, so that groups cross, households within what they have in common.
    In some worlds who was listed rests. Some people are absent, and a list may be refused because
    groups have not enough people there: the world ends then.
    """
    rng = np.random.default_rng(seed)
    n, W, rest = int(rng.integers(8, 24)), int(rng.integers(5, 9)), int(rng.integers(0, 2))
    k = -(-n // (W - 2)) + int(rng.integers(0, 3))
    inside = rng.random((2, n)) < 0.5
    kinds, cell = np.unique(inside.T, axis=0, return_inverse=True)
    cell = cell.ravel()
    house = np.where(rng.random(n) < 0.7, cell * n + rng.integers(0, max(2, n // 8), n), -1)
    home = np.where(house < 0, -1 - np.arange(n), house)
    k = min(k, len(set(home)))
    fair = k * inside.mean(axis=1)
    shares = [
        Share("a", "x", ">=", float(np.floor(0.8 * fair[0])), True),
        Share("b", "x", "<=", float(np.ceil(1.2 * fair[1])), True),
    ]
    promise = Promise(W, shares=tuple(shares), one="house")
    off, back, longest = np.zeros(n, np.int64), np.zeros(n), 0
    for at in range(rounds):
        gone = rng.random(n) < 0.03
        back = np.where(gone, np.maximum(back, at + rng.integers(1, 4, n)), back)
        drawn = back <= at
        draw, away = np.flatnonzero(drawn), np.flatnonzero(~drawn)
        places = min(k, len(set(home[draw])))
        given = (kinds, cell, off, drawn, lambda W: np.full(1 + W, k), True, house)
        division = Sharing("", promise, *given).division(W)
        if division is None:
            if at and drawn.all():
                raise Broken("a list was refused though everybody was there")
            return longest, W, at
        cells = []
        for x in range(len(kinds)):
            who, absent = np.flatnonzero(cell[draw] == x), away[cell[away] == x]
            together = house[np.concatenate([draw[who], absent])]
            if len(who):
                cells.append(Cell(who, W - off[absent], division[x], together))
        groups = tuple(
            Quota(np.flatnonzero(inside[g, draw]), *share.bounds(places))
            for g, share in enumerate(promise.shares)
        )
        left = W - off[draw], W - off[away]
        terms = Terms(0.0, *left, np.full(W + 1, k), "", groups, tuple(cells))
        key, names = f"{seed:060x}{at:04x}", [f"p{i}" for i in draw]
        score = rng.normal(size=n)[draw]
        chance = chances(score, 3.0, places, terms)
        listed = draw[drawn_by_luck(score, 3.0, places, key, names, terms)]
        assert chance.sum() == pytest.approx(places)
        assert (chance[np.isin(draw, listed)] > 0).all()
        for g, share in enumerate(promise.shares):
            least, most = share.bounds(places)
            if not least <= inside[g, listed].sum() <= most:
                raise Broken(f"{share}: {inside[g, listed].sum()}")
        if len(set(home[listed])) != len(listed) or len(listed) != places:
            raise Broken("two of one household")
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
def test_none_of_the_three_ever_breaks(seed):
    wander(seed)


def test_many_worlds_go_on_to_their_end_and_deadlines_bind():
    ends = [wander(seed) for seed in range(10)]
    assert sum(made == 25 for _, _, made in ends) >= 3
    assert sum(longest == W - 1 for longest, W, made in ends if made == 25) >= 1


# ---- programmes ----


ALL = "wait=5; share region=n<=1; one house"


def founded(database, **changes):
    """Twelve people, two in each house, two houses of the north and four of the south."""
    initialise(database, NAME, **{"seed": 0, "capacity": 5, "horizon": 3, "c": 200.0, **changes})
    rows = [f"p{i},{'ns'[i // 2 % 3 > 0]},{'fm'[i % 2]},h{i // 2}" for i in range(12)]
    import_people(database, "\n".join(["id,region,sex,house", *rows, ""]).encode(), NAME)
    seen = [f"p{i},{at},{(i * at) % 2},{i % 2}" for i in range(12) for at in range(1, 5)]
    import_history(database, "\n".join(["id,round,state,contacted", *seen, ""]).encode(), NAME)
    return database


def one_of_each_house_and_one_of_the_north(names):
    """Hold a list of five to at most one of each house, and to the share of the north."""
    who = [int(name[1:]) for name in names]
    assert (len(who), len({i // 2 for i in who})) == (5, 5)
    assert sum(i // 2 % 3 == 0 for i in who) <= 1


@pytest.mark.slow
def test_a_programme_keeps_all_three(url):
    """Four of the north with one place a list: nobody is left off five."""
    database = founded(store.Store(url), promise=Promise.parse(ALL))
    longest = keeps_what_it_promised(database, url, one_of_each_house_and_one_of_the_north)
    assert longest >= 3 or "://" in url


def test_without_the_guard_a_programme_breaks_it_and_the_check_tells(light, monkeypatch):
    founded(light, promise=Promise.parse(ALL))
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


@pytest.mark.parametrize(
    ("promise", "fault"),
    [
        (
            "wait=3; share region=n<=1; one house",
            "4 people of region n must be on any 3 lists in a row, with at most 3 places for them: "
            "4 > 3; the shortest that can be kept is wait=5",
        ),
        (
            "wait=4; share region=n<=1; one house",
            "no division of the places of 4 lists and 1 fewer among the groups has enough for "
            "everybody in time, no two of one house on the same; the shortest that can be kept is "
            "wait=5",
        ),
        (
            "wait=1; share region=n<=1; one house",
            "2 people of one house cannot be on 1 lists one by one: 2 > 1; the shortest that can "
            "be kept is wait=5",
        ),
        (
            "wait=9; share sex=f<=3; one house",
            "people of one house are in different promised groups (in 6 cases), so that counting "
            "places does not tell whether all can be on lists in time; promise shares of columns "
            "that people of one house have in common, or two of the three",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_line(light, promise, fault):
    founded(light)
    with pytest.raises(Infeasible) as caught:
        make_plan(light, NAME, PlanWish(promise=Promise.parse(promise)))
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_named_as_the_shortest_wait_is_kept(light):
    founded(light)
    plan, _ = make_plan(light, NAME, PlanWish(promise=Promise.parse(ALL)))
    assert plan.outlook.promise.wait == 5
    assert plan.outlook.promise.said == ALL


def test_the_command_promises_all_three(tmp_path):
    founded(store.Store(str(tmp_path / "softfair.db")))
    done = shell.run("plan", "--promise", ALL, folder=tmp_path, COLUMNS="200")
    assert "at most one of each house on every list" in done.stdout
    assert "at most 1 places of every list for region n" in done.stdout
    assert "everybody is on one of any 5 lists in a row" in done.stdout
    refused = shell.run("plan", "--replan", "x", "--promise", f"{ALL}; chance=1%", folder=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
