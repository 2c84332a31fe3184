"""Shares of groups and households in the weekly programme: kept on every list, or refused.

Order: closed form, brute force, whole programmes on both databases, and what the check and the
audit tell where the guard is taken away.
"""

import itertools
import json

import numpy as np
import pytest
import shell

from softfair import Cohort
from softfair.errors import Infeasible, InvalidInput
from softfair.programme import schema, store
from softfair.programme.aims import Target
from softfair.programme.audit import audit
from softfair.programme.checks import check
from softfair.programme.imports import import_history, import_people
from softfair.programme.luck import Source
from softfair.programme.outlook import Keeping, Shares, SiteCohort
from softfair.programme.plans import PlanWish, commit_plan, draw_plan, drawing, make_plan, verify
from softfair.programme.plans.drawing import Terms, chances
from softfair.programme.promises import Promise, Share
from softfair.programme.records import record
from softfair.programme.settings import Settings, initialise
from softfair.quotas import Quota
from softfair.solvers import solve_priced, solve_shared
from softfair.web.tradeoff import Place, Tradeoff

NAME = "softfair test"
TOGETHER = "share region=n>=60%; share sex=f==2; one house"


# ---- what can be promised, in words ----


def test_shares_are_said_and_read():
    """In per cent or places; what is said can be read again."""
    promise = Promise.parse("share region=north>=30%; share sex=f<=2; one house; chance=1%")
    assert promise.shares == (
        Share("region", "north", ">=", 0.3),
        Share("sex", "f", "<=", 2.0, whole=True),
    )
    assert (promise.one, promise.chance, promise.columns) == (
        "house",
        0.01,
        ("region", "sex", "house"),
    )
    assert [Share.parse(one.said) for one in promise.shares] == list(promise.shares)
    assert Promise.from_json(json.loads(Settings(promise=promise).to_json())["promise"]) == promise
    assert Promise.from_json({"goal": "wait", "value": 8.0, "since": 3}) == Promise(8, 3)
    assert Promise.from_json({"goal": "chance", "value": 0.05, "since": 0}) == Promise(chance=0.05)
    assert str(promise) == (
        "at least 30% of places of every list for region north; at most 2 places of every list for "
        "sex f; at most one of each house on every list; nobody in a draw has a chance below 1.0%"
    )


@pytest.mark.parametrize(
    ("sign", "number", "k", "bounds"),
    [(">=", 0.3, 10, (3, 10)), (">=", 0.31, 10, (4, 10)), ("<=", 0.39, 10, (0, 3)),
     ("==", 0.5, 4, (2, 2)), ("==", 0.5, 5, (2, 3)), (">=", 0.1 + 0.2, 10, (3, 10))],
)  # fmt: skip
def test_a_share_is_rounded_so_that_it_is_kept(sign, number, k, bounds):
    assert Share("region", "n", sign, number).bounds(k) == bounds


@pytest.mark.parametrize(
    "text",
    ["share", "share region", "share region=n", "share region=n>=x", "share region=n>=101%",
     "share region=n>=-1", "share region=n==2.5", "share region=n>30%", "share =n>=3;;",
     "share region=n>=nan%", "chance=1%; chance=2%",
     "wait=3; one house; chance=1%", "wait=3; one house; share region=n>=2"],
)  # fmt: skip
def test_what_is_no_share_is_refused(text):
    with pytest.raises(InvalidInput):
        Promise.parse(text)


# ---- the draw, by enumeration ----


@pytest.mark.slow
def test_chances_with_shares_and_a_floor_by_enumeration():
    """Over sets with two of {0, 1, 2} and at most one of {2, 3}; then with a floor that binds."""
    z = np.array([0.4, -1.0, 2.0, 0.1, -3.0, 0.8])
    groups = (Quota([0, 1, 2], 2, 2), Quota([2, 3], most=1))
    sets = [
        H
        for H in itertools.combinations(range(6), 3)
        if len({0, 1, 2} & set(H)) == 2 and not {2, 3} <= set(H)
    ]
    weights = np.array([np.exp(z[list(H)].sum()) for H in sets])
    wanted = [weights[[i in H for H in sets]].sum() / weights.sum() for i in range(6)]
    np.testing.assert_allclose(chances(z, 1.0, 3, Terms(groups=groups)), wanted, atol=1e-10)
    assert min(wanted) < 0.1
    held = chances(z, 1.0, 3, Terms(0.1, groups=groups))
    assert held.min() >= 0.1
    assert held.sum() == pytest.approx(3)
    assert held[:3].sum() == pytest.approx(2)
    with pytest.raises(Infeasible, match="beside the other promises"):
        chances(z, 1.0, 3, Terms(0.45, groups=groups))  # one place for three is less


# ---- prices ----


def test_prices_give_a_group_its_share_in_expectation():
    """Followed state by state: k contacts a round, and of the group what it is promised.

    A group whose share is slack pays nothing: the prices are those without it.
    """
    rng = np.random.default_rng(0)
    cohort = Cohort(rng.dirichlet(np.ones(2), (30, 2, 2)), start=rng.dirichlet(np.ones(2), 30))
    north = np.arange(30) < 10
    free = SiteCohort(cohort, 6, 5, np.arange(30)).follow(8.0).contacts
    least = free[north].sum() / 5 + 1
    shares = Shares(north[None], np.array([least]), np.array([6.0]))
    held = SiteCohort(cohort, 6, 5, np.arange(30), keeping=Keeping(shares=shares)).follow(8.0)
    assert held.contacts.sum() == pytest.approx(30, rel=2e-3)
    assert held.contacts[north].sum() == pytest.approx(5 * least, rel=5e-3)
    slack = solve_shared(cohort, 6, 5, 1.0, 8.0, north[None], np.array([0.0]), np.array([6.0]))
    assert slack.info.converged
    plain = solve_priced(cohort, 6, 5, 1.0, 8.0)
    np.testing.assert_allclose(slack.rows(0, 5), plain.rows(0, 5), atol=2e-3)


def test_a_lottery_has_the_shares_too():
    """c = 0: within a cell all alike, 4 of 6 places for 10 of 30."""
    cohort = Cohort(np.random.default_rng(1).dirichlet(np.ones(2), (30, 2, 2)))
    north = np.arange(30) < 10
    shares = Shares(north[None], np.array([4.0]), np.array([6.0]))
    contacts = SiteCohort(cohort, 6, 3, np.arange(30), keeping=Keeping(shares=shares)).follow(0.0)
    np.testing.assert_allclose(contacts.contacts[north], 3 * 0.4, rtol=2e-3)
    np.testing.assert_allclose(contacts.contacts[~north], 3 * 0.1, rtol=2e-3)


# ---- programmes ----


def people(n=12):
    rows = [f"p{i},{'ns'[i % 3 > 0]},{'fm'[i % 2]},h{i // 2}" for i in range(n)]
    return "\n".join(["id,region,sex,house", *rows, ""]).encode()


def founded(database, n=12, **changes):
    """People of two regions and sexes, two in each house; a history that says nothing."""
    initialise(database, NAME, **{"seed": 0, "capacity": 5, "horizon": 3, "c": 20.0, **changes})
    import_people(database, people(n), NAME)
    rng = np.random.default_rng(n)
    rows = [
        f"p{i},{at},{rng.integers(2)},{rng.integers(2)}" for i in range(n) for at in range(1, 5)
    ]
    import_history(database, "\n".join(["id,round,state,contacted", *rows, ""]).encode(), NAME)
    return database


def told(database, plan):
    rows = [f"{name},{plan.round},{len(name) % 2},{int(name in plan.list)}" for name in plan.names]
    record(database, "\n".join(["id,round,state,contacted", *rows, ""]).encode(), NAME)


def numbers_of(names):
    """The numbers of a list of the north and of women, and the largest number from one house."""
    who = [int(name[1:]) for name in names]
    houses = [i // 2 for i in who]
    return (
        sum(i % 3 == 0 for i in who),
        sum(i % 2 == 0 for i in who),
        max(houses.count(h) for h in houses),
    )


@pytest.mark.slow
def test_a_programme_keeps_shares_of_several_columns_and_houses(url):
    """Every list has 3 of 5 of the north, 2 women, and nobody's housemate; it is replayed."""
    database = founded(store.Store(url), promise=Promise.parse(TOGETHER))
    for _ in range(3):
        plan, _ = make_plan(database, NAME)
        north, women, together = numbers_of(plan.list)
        assert len(plan.list) == 5
        assert (north >= 3, women, together) == (True, 2, 1)
        assert plan.probability.sum() == pytest.approx(5)
        women_of = np.arange(12) % 2 == 0
        assert plan.probability[women_of].sum() == pytest.approx(2)
        told(database, plan)
    commit_plan(database, NAME)
    drawn = draw_plan(database, "dice: 1 2 3", Source.TEXT)
    assert numbers_of(drawn.list)[1] == 2
    # Who moves house afterwards moves nothing of what was drawn.
    import_people(database, b"id,region,sex,house\np0,s,m,h5\n", NAME)
    assert not [wrong for one in verify(database) for wrong in one.wrong]
    assert not check(database).faults
    said = " ".join(audit(database).findings)
    assert "promised of the places of groups was kept on every list of all 4 rounds" in said
    assert "who would gain less and had as many lists left and the same promised groups" in said


@pytest.mark.parametrize("promise", ["one house", "chance=1%; one house"])
def test_a_promise_about_houses_alone_is_stored_and_replayed(light, promise):
    """Households have no price: no cost is stated, and every draw follows from the promise."""
    founded(light, promise=Promise.parse(promise))
    plan, _ = make_plan(light, NAME)
    assert plan.outlook.promise == Promise.parse(promise)
    assert plan.outlook.promise_cost is None
    assert numbers_of(plan.list)[2] == 1
    assert (
        make_plan(light, NAME, PlanWish(promise=Promise.parse(promise)))[1] is False
    )  # asked for again
    assert not check(light).wrong
    found = Tradeoff(light)
    point, _ = found.at(Place(70, 0, Promise.parse(promise)))
    assert point.promise_cost is None
    told = list(found.sentences(point, Promise.parse(promise)))[-1]
    assert told.endswith(f"{Promise.parse(promise)}. What that promise costs cannot be told.")


def test_without_the_guard_shares_break_and_are_told(light, monkeypatch):
    founded(light, promise=Promise.parse(TOGETHER))
    with monkeypatch.context() as patched:
        patched.setattr(drawing.Terms, "must", lambda self, m: (np.zeros(m, bool), []))
        lists = []
        for _ in range(4):
            plan, _ = make_plan(light, NAME)
            lists.append(numbers_of(plan.list))
            told(light, plan)
    assert any(north < 3 or women != 2 or together > 1 for north, women, together in lists)
    assert any(
        "a group has another number of places than was promised" in one.wrong
        for one in verify(light)
    )
    assert "bounds on the places of groups that were promised are broken" in " ".join(
        audit(light).findings
    )


@pytest.mark.parametrize("name", ["house", "inside"])
def test_altered_belonging_is_found(light, name):
    """Everybody's group is stored with the plan; no altered value ends the audit in an error."""
    founded(light, promise=Promise.parse(TOGETHER))
    make_plan(light, NAME)
    p = schema.plan
    with light.writing() as connection:
        outlook = json.loads(connection.execute(p.select()).one().outlook)
        outlook["belonging"][name] = outlook["belonging"]["inside" if name == "house" else "house"]
        connection.execute(p.update().values(outlook=json.dumps(outlook)))
    assert verify(light)[0].wrong
    assert "Look" in " ".join(audit(light).findings)


@pytest.mark.parametrize(
    ("promise", "says"),
    [
        ("share region=n>=5", r"5 places on the list, and 4 people of region n in the draw; the "
         r"smallest relaxation that can be kept is: share region=n>=4"),
        ("share region=n<=0; share sex=m<=0", "the smallest relaxation that can be kept is: share"),
        ("share colour=red>=1", "there is no group column 'colour'"),
        ("share region=west>=1", "region 'west', which nobody has; known: n, s"),
        ("chance=50%", "the largest that can be kept is chance=41.6%"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_the_nearest_that_can(light, promise, says):
    founded(light)
    with pytest.raises((Infeasible, InvalidInput), match=says):
        make_plan(light, NAME, PlanWish(promise=Promise.parse(promise)))


def test_what_is_offered_instead_can_be_kept(light):
    founded(light, n=9)
    with pytest.raises(Infeasible) as caught:
        make_plan(light, NAME, PlanWish(promise=Promise.parse("share region=n==5; share sex=f<=0")))
    offered = str(caught.value).split("can be kept is: ")[1].split("; promise that")[0]
    kept = {Share.parse(one.strip()).column: one for one in offered.split(";")}
    parts = {"region": "share region=n==5", "sex": "share sex=f<=0", **kept}
    plan, _ = make_plan(light, NAME, PlanWish(promise=Promise.parse("; ".join(parts.values()))))
    assert len(plan.list) == 5


def test_too_few_houses_for_the_places(light):
    founded(light, capacity=7)
    with pytest.raises(Infeasible, match="6 in the draw who are not of the same house; lower the"):
        make_plan(light, NAME, PlanWish(promise=Promise(one="house")))


def test_a_target_and_several_promises_together(light):
    founded(light)
    promise = Promise.parse("share region=n>=2; chance=5%")
    plan, _ = make_plan(light, NAME, PlanWish(target=Target("benefit", 0.2), promise=promise))
    assert plan.outlook.promise == promise
    assert numbers_of(plan.list)[0] >= 2
    assert plan.probability.min() >= 0.05
    both, _ = make_plan(
        light, NAME, PlanWish(replan="both", promise=Promise.parse("wait=6; chance=5%"))
    )
    assert both.probability.min() >= 0.05
    assert not [wrong for one in verify(light) for wrong in one.wrong]


def test_the_command_promises_shares(tmp_path):
    founded(store.Store(str(tmp_path / "softfair.db")))
    done = shell.run("plan", "--promise", TOGETHER, folder=tmp_path, COLUMNS="200")
    assert (
        "Promise kept: at least 60% of places of every list for region n; exactly 2" in done.stdout
    )
    refused = shell.run(
        "plan", "--replan", "x", "--promise", "share region=n>=90%", folder=tmp_path
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "share region=n>=4" in refused.stderr
