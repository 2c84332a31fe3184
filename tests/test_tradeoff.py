"""The figures of the fairness page, against plans and brute force; promises; the cache."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import village
from fastapi.testclient import TestClient
from test_luck import SECRET, chain, depth, signature  # noqa: F401
from test_web import AT, Browser

import softfair as sf
from softfair.errors import Infeasible
from softfair.programme.aims import Evenness, Target
from softfair.programme.checks import check
from softfair.programme.outlook import ROUGH, SiteCohort
from softfair.programme.plans import PlanWish, make_plan, open_commitment, plan_of, verify
from softfair.programme.promises import Promise
from softfair.programme.records import close_round
from softfair.programme.settings import initialise
from softfair.programme.store import Store
from softfair.progress import heard_by
from softfair.web.anchors import Anchors
from softfair.web.app import application
from softfair.web.pages.round import WORD
from softfair.web.tradeoff import EVENEST, POSITIONS, Place, Tradeoff
from softfair.web.work import StillWorking

LONG = 600.0  # seconds that work is waited for


@pytest.fixture(scope="module")
def founded(tmp_path_factory):
    """A programme with the list of round 13, and a token for a viewer."""
    database = village.founded(str(tmp_path_factory.mktemp("village") / "village.db"))
    return database, village.tokens(database)


@pytest.fixture(scope="module")
def found(founded):
    return Tradeoff(founded[0])


@pytest.fixture
def programme(founded, tmp_path):
    for file in Path(founded[0].name).parent.glob("village.db*"):
        shutil.copy(file, tmp_path)
    return Store(str(tmp_path / "village.db"))


# Evenness.


@pytest.mark.parametrize("position", [20, 55, 85, 99, POSITIONS])
@pytest.mark.parametrize("even", [1, 13, EVENEST])
def test_figures_of_evenness_are_those_of_a_plan(found, position, even):
    """A plan meets its budgets to 1e-8, the page to 1e-4: no figure differs by more than 1e-3.

    A rate that is off by a share ROUGH moves the benefit, the chance never to be contacted and the
    entropy by a few times ROUGH; ten times is allowed.
    """
    point, contacts = found.at(Place(position, even))
    [site] = found._cohorts
    exact = SiteCohort(site.cohort, site.k, site.horizon, site.who)
    followed = exact.follow(found.c_at(position), Evenness("mu", found.mu_at(even)))
    gained = followed.reward - exact.follow(None).reward
    assert point.gained == pytest.approx(gained, rel=10 * ROUGH)
    shares = followed.contacts / followed.contacts.sum()
    assert point.entropy == pytest.approx(-np.sum(shares * np.log(shares)), abs=10 * ROUGH)
    assert contacts == pytest.approx(followed.contacts, rel=20 * ROUGH, abs=10 * ROUGH)


def test_a_place_is_found_in_a_few_passes():
    """From nothing some places take hundreds of passes; from the anchors none takes many."""
    cohort = sf.datasets.synthetic(n=200, seed=4)
    site = SiteCohort(cohort, 20, 26, np.arange(200))
    weights = [0.0, *(520 * 2.0**octave for octave in np.linspace(-6, 6, 24))]
    anchors = Anchors([site], lambda at: 200.0 * 10 ** (4 * ((at - 1) / 98 - 1)), weights)
    passes = []
    for position in (57, 75, 88, 97):
        for even in (1, 12, 20, 24):
            c = 200.0 * 10 ** (4 * ((position - 1) / 98 - 1))
            near = anchors.near(0, position, even)
            solved = site.approach(c, weights[even], near)
            assert solved.values.info.residual <= ROUGH, (position, even)
            passes.append(solved.values.info.passes)
    assert max(passes) <= 60
    alone = site._solve(200.0 * 10 ** (4 * (96 / 98 - 1)), Evenness("mu", weights[20]))
    assert alone.values.info.passes > 2 * max(passes)


# What is asked for.


@pytest.fixture(scope="module")
def curve(found):
    """All positions of c, one by one."""
    return [found.at(Place(position))[0] for position in range(POSITIONS + 1)]


@pytest.mark.parametrize("share", [0.35, 0.9, 0.97, 1.0])
def test_the_first_place_with_a_benefit(found, curve, share):
    first = next(i for i, point in enumerate(curve) if point.benefit >= share * (1 - 1e-9))
    assert found.for_target(Target("benefit", share)) == first


@pytest.mark.parametrize("rounds", [5.2, 8, 12, 40])
def test_the_last_place_with_a_wait(found, curve, rounds):
    last = max(i for i, point in enumerate(curve) if point.wait <= rounds)
    wanted = found.position_of(found.settings.c) if last == POSITIONS else last
    assert found.for_target(Target("wait", rounds)) == wanted


def test_a_place_for_groups_and_one_for_nobody(found):
    at = found.for_target(Target("group", 0.9, "village"))
    assert found._lowest(found.at(Place(at))[1], "village") >= 0.9
    assert found._lowest(found.at(Place(at + 1))[1], "village") < 0.9
    with pytest.raises(Infeasible, match="the nearest that can is"):
        found.for_target(Target("wait", 2))


@pytest.mark.parametrize("wanted", ["never=8%", "entropy=3.5", "wait=25.4"])
def test_the_first_step_of_evenness_with_a_guarantee(found, wanted):
    """Compared with all steps in turn, in other runs than those by which it was found."""
    goal = Evenness.parse(f"EvenHanded:{wanted}")
    even = found.for_guarantee(99, goal)
    met = [
        (one[goal.goal] >= goal.value if goal.goal == "entropy" else one[goal.goal] <= goal.value)
        for step in range(EVENEST + 1)
        for one in found._runs(99, step)
    ]
    assert met.index(True) == even > 0
    [site] = found._cohorts
    fitted = sf.EvenHanded(mu=found.mu_at(even), c=found.c_at(99)).fit(
        site.cohort, site.k, site.horizon
    )
    runs = sf.simulate(fitted, runs=400, seed=9)
    counts = runs.counts
    never = np.mean(counts == 0, axis=1)
    # Four standard errors of the difference between 200 runs, in which it was found, and these.
    error = 4 * never.std() * np.sqrt(1 / 200 + 1 / 400)
    if goal.goal == "never":
        assert never.mean() <= goal.value + error
    with pytest.raises(Infeasible, match="cannot be reached at c = 200"):
        found.for_guarantee(99, Evenness.parse("EvenHanded:never=0.1%"))


# Promises.


@pytest.mark.parametrize("said", ["wait=6", "wait=12", "chance=15%"])
def test_a_promise_costs_on_the_page_what_it_costs_in_a_plan(programme, said):
    first = Tradeoff(programme)
    initialise(programme, village.NAME, c=first.c_at(70))
    promise, found = Promise.parse(said), Tradeoff(programme)
    assert found.position_of(found.settings.c) == 70
    point, _ = found.at(Place(70, 0, promise))
    plan, _ = make_plan(
        programme.rehearsal(), village.NAME, PlanWish(replan="try", promise=promise)
    )
    assert point.benefit == pytest.approx(plan.outlook.benefit, rel=1e-9)
    assert point.promise_cost == pytest.approx(plan.outlook.promise_cost, abs=1e-9)
    assert point.promise_cost > 0
    free = found.at(Place(70))[0]
    assert point.never < free.never
    if promise.wait:  # within the horizon everybody is on a list for certain
        assert point.never == pytest.approx(0, abs=1e-12)
    told = list(found.sentences(point, promise))[-1]
    assert f"costs {point.promise_cost:.1%} of what the same c gains without it" in told
    assert str(promise) in told


def test_a_promise_on_the_page(programme, founded, tmp_path):
    app = application(programme, tmp_path, patience=LONG)
    officer = Browser(app, programme, "officer")
    asked = officer.get("/fairness?goal=promised-wait&value=8&position=70")
    assert "promise=wait%3D8" in asked.headers["location"]
    page = officer.get(asked.headers["location"]).text
    assert "everybody is on one of any 8 lists in a row" in page
    assert "That promise costs" in page
    link = re.search(r'href="(/plan\?[^"]*promise=wait%3D8)"', page)[1].replace("&amp;", "&")
    # What cannot be kept is refused with its inequality, and the page stays as it was.
    for query in ("goal=promised-wait&value=3", "promise=wait%3D3"):
        refused = officer.get(f"/fairness?position=70&{query}")
        assert refused.status_code == 400
        assert "40 &gt; 24" in refused.text
        assert "the shortest that can be kept is wait=5" in refused.text
        assert "That promise costs" not in refused.text
        part = officer.get(f"/fairness/part?position=70&{query}")
        assert part.status_code == 200
        assert "40 &gt; 24" in part.text
    api = TestClient(app, headers={"Authorization": f"Bearer {founded[1]['viewer']}"})
    assert "40 > 24" in api.get("/api/fairness?promise=wait%3D3").json()["detail"]
    now = api.get("/api/fairness?position=70&promise=chance%3D15%25").json()
    assert (now["promise"], now["now"]["promise_cost"] > 0) == ("chance=15%", True)
    # It is drawn with.
    close_round(programme, village.NAME, AT)
    preview = officer.get(link).text
    assert "Promise kept: everybody is on one of any 8 lists" in preview
    target = re.search(r'name="target" value="([^"]+)"', preview)[1]
    officer.post("/plan", do="draw", target=target, promise="wait=8")
    assert plan_of(programme).outlook.promise == Promise(wait=8)
    assert check(programme).wrong == ()


def test_the_programmes_own_promise_is_on_the_page(programme, tmp_path):
    initialise(programme, village.NAME, promise=Promise(wait=9))
    officer = Browser(application(programme, tmp_path, patience=LONG), programme, "officer")
    assert "everybody is on one of any 9 lists" in officer.get("/fairness").text
    assert "That promise costs" not in officer.get("/fairness?promise=none").text
    assert "and mu =" in officer.get("/fairness?even=9").text  # evenness takes its place


def test_a_preview_names_no_option(programme, tmp_path):
    """If some people wait longer than the horizon, a plan says what to do."""
    close_round(programme, village.NAME, AT)
    officer = Browser(application(programme, tmp_path, patience=LONG), programme, "officer")
    page = officer.get("/plan?target=benefit%3D100%25").text
    assert "expected to wait longer than these" in page
    assert "--" not in re.sub("<!--|-->", "", page)


@pytest.mark.usefixtures("estimates_are_made_anew")
def test_a_plan_tells_how_far_it_is(programme):
    """Its two longest parts, the estimate and the weighing, as a share that a bar can show."""
    close_round(programme, village.NAME, AT)
    heard = []
    with heard_by(heard.append):
        make_plan(programme.rehearsal(), village.NAME)
    for what in ("comparing populations", "weighing the plan by what may be true"):
        shares = [StillWorking(line, 0).share for line in heard if line.startswith(what)]
        assert shares
        assert shares == sorted(shares)
        assert shares[-1] <= 1


# What is kept for all.


def counted(database, monkeypatch):
    """The transactions that are begun, in order."""
    begun = []
    for kind in ("reading", "writing"):
        own = getattr(Store, kind)
        monkeypatch.setattr(
            Store, kind, lambda self, own=own, kind=kind: begun.append(kind) or own(self)
        )
    return begun


@pytest.mark.parametrize("place", [f"/round/{AT}", "/fairness/part?position=30"])
def test_a_page_that_was_seen_takes_one_look_at_the_database(
    programme, tmp_path, monkeypatch, place
):
    viewer = Browser(application(programme, tmp_path, patience=LONG), programme, "viewer")
    first = viewer.get(place)
    begun = counted(programme, monkeypatch)
    assert viewer.get(place).text == first.text
    assert begun == ["reading"]


def test_rows_that_are_kept_are_everybodys_own(programme, tmp_path):
    """Words of visits, roles and workers' lists do not mix, though tables are drawn once."""
    app = application(programme, tmp_path, patience=LONG)
    people = [Browser(app, programme, role) for role in ("officer", "officer", "viewer", "worker")]
    pages = [one.get(f"/round/{AT}").text for one in people]
    words = [set(re.findall('name="word" value="([0-9a-f]+)"', page)) for page in pages]
    assert all(len(some) == 1 for some in words)  # one word on a page: that of the visit
    assert len(set.union(*words)) == 4
    assert not any(WORD in page for page in pages)
    names = [set(re.findall(r'<tr id="p-([0-9a-f]+)"', page)) for page in pages]
    assert names[0] == names[1] == names[2] > names[3] > set()
    assert ["/mark" in page for page in pages] == [True, True, False, True]
    mine = plan_of(programme).list[0]
    people[0].post(f"/round/{AT}/mark", name=mine, deed="reached")
    assert all("1 of 8 marked" in one.get(f"/round/{AT}").text for one in people[:3])


# The public beacon.


@pytest.mark.slow
def test_a_beacon_draws_the_list_on_the_page(programme, tmp_path, chain):  # noqa: F811
    close_round(programme, village.NAME, AT)
    officer = Browser(
        application(programme, tmp_path, patience=LONG, chain=chain), programme, "officer"
    )
    officer.post("/plan", do="commit")
    waits = open_commitment(programme)
    page = officer.get("/plan").text
    assert f"our own chain, round {waits.beacon}" in page

    def drawn(round, secret):
        served = {"round": round, "randomness": "00", "signature": signature(secret, round)}
        return officer.post("/plan", do="luck", luck=json.dumps(served), source="beacon")

    for wrong, said in (
        ((waits.beacon - 1, SECRET), "too early"),
        ((waits.beacon + 1, SECRET), "too late"),
        ((waits.beacon, SECRET + 1), "forged"),
    ):
        answer = drawn(*wrong)
        assert answer.status_code == 400
        assert said in answer.text
    assert plan_of(programme).round == AT
    assert drawn(waits.beacon, SECRET).headers["location"] == f"/round/{AT + 1}"
    assert f"our own chain, round {waits.beacon}" in str(plan_of(programme).luck)
    assert verify(programme, chain)[-1].wrong == []
