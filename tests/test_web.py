"""The page and the API without a browser: permissions of roles, effects of forms, stored rows."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import openpyxl
import pytest
import shell
import village
from fastapi.routing import APIRoute, iter_route_contexts
from fastapi.testclient import TestClient
from starlette.routing import Mount

from softfair.errors import InvalidInput
from softfair.programme.biography import biography
from softfair.programme.checks import check
from softfair.programme.journal import journal
from softfair.programme.plans import open_commitment, plan_of
from softfair.programme.store import Store
from softfair.programme.trials import Wish, commit_trial, draw_trial
from softfair.web import accounts, deeds
from softfair.web import api as api_pages
from softfair.web.access import COOKIE, Attempts, Guard, Visitor
from softfair.web.app import application
from softfair.web.lists import round_list

AT = village.ROUNDS + 1  # the round that has a list
EVERYBODY = frozenset(village.ROLES)
SEES = EVERYBODY - {"worker"}
MARKS = EVERYBODY - {"viewer"}
CHANGES = frozenset({"officer", "admin"})
# Written down apart from the routes: what each role may ask for. None: nobody need be signed in.
MAY = {
    ("GET", "/sign-in"): None,
    ("POST", "/sign-in"): None,
    ("GET", "/enter"): None,
    ("POST", "/sign-out"): EVERYBODY,
    ("GET", "/"): SEES,
    ("GET", "/home/audit"): SEES,
    ("GET", "/audit"): SEES,
    ("GET", "/log"): SEES,
    ("GET", "/accounts"): {"admin"},
    ("GET", "/round"): EVERYBODY,
    ("GET", "/round/{at:int}"): EVERYBODY,
    ("POST", "/round/{at:int}/mark"): MARKS,
    ("POST", "/round/{at:int}/close"): CHANGES,
    ("GET", "/round/{at:int}/worksheets"): EVERYBODY,
    ("GET", "/round/{at:int}/list.{kind}"): EVERYBODY,
    ("GET", "/plan"): CHANGES,
    ("POST", "/plan"): CHANGES,
    ("GET", "/people"): SEES,
    ("GET", "/person"): SEES,
    ("POST", "/person"): CHANGES,
    ("GET", "/import"): CHANGES,
    ("POST", "/import"): CHANGES,
    ("GET", "/import/{key}"): CHANGES,
    ("POST", "/import/{key}"): CHANGES,
    ("GET", "/fairness"): SEES,
    ("GET", "/fairness/part"): SEES,
    ("GET", "/work/{key}"): CHANGES,
    ("GET", "/api/openapi.json"): EVERYBODY,
    ("GET", "/api/status"): SEES,
    ("GET", "/api/round"): EVERYBODY,
    ("GET", "/api/rounds/{at}"): EVERYBODY,
    ("POST", "/api/rounds/{at}/marks"): MARKS,
    ("POST", "/api/rounds/{at}/close"): CHANGES,
    ("POST", "/api/plan"): CHANGES,
    ("GET", "/api/people"): SEES,
    ("GET", "/api/person"): SEES,
    ("POST", "/api/person"): CHANGES,
    ("GET", "/api/fairness"): SEES,
    ("GET", "/api/audit"): SEES,
    ("GET", "/api/log"): SEES,
    ("POST", "/api/import/{kind}"): CHANGES,
}
LONG = 600.0  # seconds: a busy machine changes no answer
PAGES = ("/", "/people", "/fairness", "/audit", "/import", "/plan")


@pytest.fixture(scope="module")
def founded(tmp_path_factory):
    """The file of a programme that every test copies."""
    folder = tmp_path_factory.mktemp("village")
    database = village.founded(str(folder / "village.db"))
    return database, village.tokens(database)


@pytest.fixture
def programme(founded, tmp_path):
    """A programme of the test's own."""
    for file in Path(founded[0].name).parent.glob("village.db*"):  # nobody writes meanwhile
        shutil.copy(file, tmp_path)
    return Store(str(tmp_path / "village.db"))


class Browser:
    """Somebody who is signed in, with the word of their visit in every form."""

    def __init__(self, app, database, role):
        self.client = TestClient(app, follow_redirects=False)
        self.account = next(one for one in accounts.accounts(database) if one.name == role)
        key = accounts.begin_visit(database, self.account)
        self.client.cookies.set(COOKIE, key)
        self.word = Visitor(self.account, database, key).word

    def get(self, address, **options):
        return self.client.get(address, **options)

    def post(self, address, files=None, **fields):
        return self.client.post(address, data={"word": self.word, **fields}, files=files)


@pytest.fixture
def app(programme, tmp_path):
    (tmp_path / "spool").mkdir()
    return application(programme, tmp_path / "spool", patience=LONG)


@pytest.fixture
def officer(app, programme):
    return Browser(app, programme, "officer")


def routes(app):
    """Path, methods and the guards of each route; the route of files that all may see is none."""
    for one in iter_route_contexts(app.routes):
        if isinstance(one.original_route, APIRoute):
            yield one.path, one.methods, guards(one.original_route.dependant)
        else:
            assert (one.path, type(one.original_route)) == ("/static", Mount)


def guards(dependant):
    found = [dependant.call] if isinstance(dependant.call, Guard) else []
    for inner in dependant.dependencies:
        found += guards(inner)
    return found


def test_every_route_says_whose_it_is(app):
    """A route without a guard fails here, and so does one that the table above does not have."""
    said = {}
    for path, methods, (guard,) in routes(app):  # exactly one
        for method in methods:
            said[method, path] = None if guard.roles is None else set(guard.roles)
    assert said == {key: None if roles is None else set(roles) for key, roles in MAY.items()}


def test_a_route_without_a_guard_is_noticed(app):
    @app.get("/open")
    def anything():
        return "secret"

    with pytest.raises(ValueError, match="unpack"):
        test_every_route_says_whose_it_is(app)


def filled(path):
    return (
        path.replace("{at:int}", str(AT)).replace("{at}", str(AT)).replace("{kind}", "csv")
        .replace("{key}", "0" * 32)
    )  # fmt: skip


QUERY = {"/person": "?id=v01", "/api/person": "?id=v01", "/fairness/part": "?position=3"}


def asked(app, programme, tokens, method, path, role):
    """The answer to one request of one role, with a form that its pages could have sent."""
    address = filled(path) + QUERY.get(path, "")
    if path.startswith("/api/"):
        headers = {} if role is None else {"Authorization": f"Bearer {tokens[role]}"}
        return TestClient(app).request(method, address, headers=headers)
    if role is None:
        return TestClient(app, follow_redirects=False).request(method, address)
    browser = Browser(app, programme, role)
    mine = next(row.name for row in round_list(programme, AT).rows if "Asha" in row.facts.values())
    data = {"word": browser.word, "name": mine} if method == "POST" else None
    return browser.client.request(method, address, data=data)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nobody_does_what_they_may_not(app, programme, founded, method):
    """Every route by every role: refused where the table says so, and only there."""
    for role in (None, *village.ROLES):
        for (by, path), roles in MAY.items():
            if roles is None or by != method:
                continue
            answer = asked(app, programme, founded[1], method, path, role)
            place, code = (role, method, path), answer.status_code
            if role is None and not path.startswith("/api/"):
                assert code == 303, place
                assert answer.headers["location"].startswith("/sign-in"), place
                continue
            assert (code in (401, 403)) == (role not in roles), (place, code)
            assert (code == 401) == (role is None), (place, code)
            assert code < 500, (place, answer.text)


def test_a_form_of_another_site_is_refused(app, programme, officer):
    before = len(journal(programme))
    for word in ("", "0" * 64, officer.word[:-1]):
        answer = officer.client.post(f"/round/{AT}/close", data={"word": word})
        assert answer.status_code == 403
    another = Browser(app, programme, "admin")
    assert officer.client.post("/plan", data={"word": another.word}).status_code == 403
    answer = TestClient(app).post(
        "/sign-in",
        data={"name": "officer", "password": village.PASSWORD},
        headers={"Origin": "https://elsewhere.example"},
    )
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert len(journal(programme)) == before


def test_signing_in_and_out(app, programme):
    client = TestClient(app, follow_redirects=False)
    right = {"name": "officer", "password": village.PASSWORD}
    for name, password in (("officer", "wrong"), ("nobody", "x"), ("viewer", "none"), ("", "")):
        answer = client.post("/sign-in", data={"name": name, "password": password})
        assert answer.status_code == 403
        assert "wrong" in answer.text
        assert COOKIE not in answer.cookies
    answer = client.post("/sign-in", data={**right, "next": "/audit"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/audit")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example"):
        answer = TestClient(app, follow_redirects=False).post(
            "/sign-in", data={**right, "next": elsewhere}
        )
        assert answer.headers["location"] == "/"
    assert client.get("/people").status_code == 200
    key = client.cookies[COOKIE]
    word = re.search('name="word" value="([0-9a-f]+)"', client.get("/people").text)[1]
    assert client.post("/sign-out", data={"word": word}).headers["location"] == "/sign-in"
    stolen = TestClient(app, follow_redirects=False, cookies={COOKIE: key})
    assert stolen.get("/people").status_code == 303  # the visit is over, not only the cookie gone


def test_accounts_stand_in_the_log(programme):
    accounts.new_account(programme.signed("mira"), "new", "viewer", None)
    accounts.close_account(programme.signed("mira"), "new")
    acts = [(act.who, act.note) for act in journal(programme) if act.what == "account"]
    assert acts[-2:] == [("mira", "new: viewer"), ("mira", "new: closed")]


def test_visits_end(app, programme, monkeypatch):
    """With time, with a new password, and with the account."""
    officer = Browser(app, programme, "officer")
    assert officer.get("/log").status_code == 200
    monkeypatch.setattr(accounts, "VISIT", -accounts.LINK)
    assert officer.get("/log").status_code == 303
    monkeypatch.undo()
    accounts.new_account(programme, "officer", "officer", None)
    assert officer.get("/log").status_code == 303
    viewer = Browser(app, programme, "viewer")
    assert viewer.get("/log").status_code == 200
    accounts.close_account(programme, "viewer")
    assert viewer.get("/log").status_code == 303
    with pytest.raises(InvalidInput, match="no account"):
        accounts.close_account(programme, "viewer")


def test_a_link_signs_in_once(app, programme, monkeypatch):
    key = accounts.link_for(programme, "viewer")
    client = TestClient(app, follow_redirects=False)
    client.cookies.set(COOKIE, key)  # a link is no visit
    assert client.get("/log").status_code == 303
    assert client.get(f"/enter?key={key}").headers["location"] == "/"
    assert TestClient(app).get(f"/enter?key={key}").status_code == 403
    late = accounts.link_for(programme, "viewer")
    monkeypatch.setattr(accounts, "LINK", -accounts.LINK)
    assert TestClient(app).get(f"/enter?key={late}").status_code == 403


def test_too_many_attempts(app, programme, tmp_path):
    """Attempts count for all processes: here for two applications on the same database."""
    client = TestClient(app)
    app.state.attempts = Attempts(programme, most=8, seconds=300.0)
    codes = [
        client.post("/sign-in", data={"name": "officer", "password": "x"}).status_code
        for _ in range(3)
    ]
    assert codes == [403, 403, 429]  # two for one name
    other = application(Store(programme.name), tmp_path)
    other.state.attempts = Attempts(Store(programme.name), most=8, seconds=300.0)
    right = {"name": "officer", "password": village.PASSWORD}
    assert TestClient(other).post("/sign-in", data=right).status_code == 429
    for name in "abcdef":  # eight for one address
        app.state.attempts.fail("testclient", name)
    other = client.post("/sign-in", data={"name": "new", "password": "x"})
    assert other.status_code == 429
    Attempts(programme).fail("192.0.2.7", "mira")
    assert Attempts(programme, most=4).refused("192.0.2.7", "mira")
    assert not Attempts(programme, most=4).refused("192.0.2.8", "mira")
    assert not Attempts(programme, most=4, seconds=-60.0).refused("192.0.2.7", "mira")
    told = b"".join(file.read_bytes() for file in Path(programme.name).parent.glob("village.db*"))
    assert b"192.0.2.7" not in told
    assert b"mira" not in told
    assert check(programme).wrong == ()


def test_accounts_are_refused_that_cannot_be(programme):
    for name, role, password, scope, said in (
        ("", "viewer", None, None, "name"),
        ("x\n", "viewer", None, None, "name"),
        ("x", "king", None, None, "role"),
        ("x", "worker", None, None, "list of their own"),
        ("x", "viewer", None, ("worker", "Asha"), "list of their own"),
        ("x", "viewer", "short", None, "password"),
    ):
        with pytest.raises(InvalidInput, match=said):
            accounts.new_account(programme, name, role, password, scope)


def test_a_worker_has_only_their_own(app, programme, founded):
    worker = Browser(app, programme, "worker")
    rows = round_list(programme, AT).rows
    mine = {row.name for row in rows if row.facts["worker"] == "Asha"}
    others = {row.name for row in rows} - mine
    assert mine
    assert others
    for address in ("", "/worksheets", "/list.csv", "?everyone=true"):
        page = worker.get(f"/round/{AT}{address}").text
        assert all(name in page for name in mine)
        assert not any(name in page for name in others)
    other = min(others)
    assert worker.post(f"/round/{AT}/mark", name=other, deed="reached").status_code == 403
    api = TestClient(app, headers={"Authorization": f"Bearer {founded[1]['worker']}"})
    assert {row["name"] for row in api.get("/api/round").json()["people"]} == mine
    marks = f"/api/rounds/{AT}/marks"
    assert api.post(marks, json={"id": other, "deed": "reached"}).status_code == 403
    assert api.post(marks, json={"id": min(mine), "deed": "reached"}).status_code == 200
    assert "0170-" in worker.get(f"/round/{AT}").text  # to call them
    viewer = Browser(app, programme, "viewer")
    for address in (f"/round/{AT}", f"/round/{AT}/worksheets", "/person?id=v01"):
        assert "0170-" not in viewer.get(address).text
    assert "0170-" in Browser(app, programme, "officer").get("/person?id=v01").text


def last(programme, what):
    return [act for act in journal(programme) if act.what == what][-1]


def told(programme, name):
    return next(row for row in round_list(programme, AT).rows if row.name == name)


def test_marks(app, programme, officer):
    """A tap is a record: signed, correctable, kept."""
    name = plan_of(programme).list[0]
    post = f"/round/{AT}/mark"
    answer = officer.post(post, name=name, deed="reached", back="sort=score")
    assert answer.headers["location"].startswith(f"/round/{AT}?sort=score#p-")
    assert told(programme, name).reached is True
    officer.post(post, name=name, deed="missed")
    officer.post(post, name=name, deed="state:good")
    row = told(programme, name)
    assert (row.reached, row.state, row.told) == (False, "good", "missed")
    officer.post(post, name=name, deed="reached")  # the same mark as the first, once more
    assert told(programme, name).reached is True
    acts = [act for act in journal(programme) if act.what == "record"]
    assert [(act.who, act.file, act.round) for act in acts] == [("officer", "the page", AT)] * 4
    for deed, code in (("", 400), ("state:", 400), ("state:odd", 400), ("gone", 400)):
        assert officer.post(post, name=name, deed=deed).status_code == code
    assert officer.post(post, name="v99", deed="reached").status_code == 403
    part = officer.client.post(
        post,
        data={"word": officer.word, "name": name, "deed": "missed"},
        headers={"HX-Request": "true"},
    )
    assert part.text.startswith("<tr")
    assert "1 of 8 marked" in part.text
    assert check(programme).wrong == ()


def test_the_last_mark_ends_the_round(programme, officer):
    for name in plan_of(programme).list:
        officer.post(f"/round/{AT}/mark", name=name, deed="reached")
    assert "the round is over" in officer.get(f"/round/{AT}").text
    preview = officer.get("/plan").text
    assert f"Draw the list of round {AT + 1}" in preview
    assert "What will be committed" in preview
    assert plan_of(programme).round == AT  # a preview writes nothing
    before = [act for act in journal(programme) if act.what in ("plan", "fit")]
    assert len(before) == 2
    answer = officer.post("/plan", target="", policy="", replan="", sure="False")
    assert answer.headers["location"] == f"/round/{AT + 1}"
    assert plan_of(programme).round == AT + 1
    assert last(programme, "plan").who == "officer"
    assert check(programme).wrong == ()


def test_a_plan_is_committed_then_drawn_with_luck_from_outside(app, programme, officer, founded):
    officer.post(f"/round/{AT}/close")
    assert officer.post("/plan", do="commit").headers["location"] == "/plan"
    page = officer.get("/plan").text
    waits = open_commitment(programme)
    assert waits.code in page
    assert "waits for its luck" in page
    assert plan_of(programme).round == AT
    for luck, source in (("", "text"), ("dice 3", "stars"), ("{}", "beacon")):
        assert officer.post("/plan", do="luck", luck=luck, source=source).status_code == 400
    answer = officer.post("/plan", do="draw")
    assert answer.status_code == 400
    assert "draw it with luck from outside" in answer.text
    drawn = officer.post("/plan", do="luck", luck="dice 3 5 6 1", source="text")
    assert drawn.headers["location"] == f"/round/{AT + 1}"
    luck = plan_of(programme).luck
    assert (luck.text, luck.commitment) == ("dice 3 5 6 1", waits.id)
    assert last(programme, "plan").who == "officer"
    api = TestClient(app, headers={"Authorization": f"Bearer {founded[1]['officer']}"})
    told = api.post("/api/plan", json={"commit": True, "replan": "two have moved"}).json()
    assert told["code"] == open_commitment(programme).code != waits.code
    made = api.post("/api/plan", json={"luck": "a river", "source": "word"}).json()
    assert (made["round"], made["version"]) == (AT + 1, 2)
    assert check(programme).wrong == ()


def test_evenness_has_a_slider(officer, app, founded):
    """At those who gain most, evenness spreads contacts and leaves fewer out, at a cost."""
    api = TestClient(app, headers={"Authorization": f"Bearer {founded[1]['viewer']}"})
    none, most = (
        api.get(f"/api/fairness?position=99&even={even}").json()["now"] for even in (0, 24)
    )
    assert (none["mu"], most["mu"] > 0) == (0, True)
    assert most["entropy"] > none["entropy"]
    assert most["never"] < none["never"]
    assert most["benefit"] < none["benefit"]
    found = officer.get("/fairness?goal=never&value=5%25&position=99")
    even = int(re.search(r"even=(\d+)", found.headers["location"])[1])
    assert 0 < even <= 24
    page = officer.get(found.headers["location"]).text
    assert "/plan?policy=EvenHanded%3A" in page
    assert "/plan?target=benefit%3D" in officer.get("/fairness?position=50").text
    assert officer.get("/fairness?goal=entropy&value=99").status_code == 400
    assert officer.get("/fairness/part?position=3&even=25").status_code == 400


def test_the_audit_of_one_round(officer):
    page = officer.get(f"/audit?round={AT}").text
    assert f"Audit of round {AT}" in page
    assert f'<option value="{AT}" selected>' in page
    assert "Who is reached, and who waits" not in page
    assert "Who is reached, and who waits" in officer.get("/audit").text
    assert officer.get("/audit?round=99").status_code == 400


@pytest.mark.slow
def test_arms_of_a_trial_are_shown(officer, programme):
    assert "Trial:" not in officer.get("/").text
    officer.post(f"/round/{AT}/close")
    committed, _ = commit_trial(programme, village.NAME, Wish(("softfair", "lottery"), (0.5, 0.5)))
    page = officer.get("/").text
    assert f"with the code {committed.code}, and waits for its luck" in page
    assert "Assign people to the arms" in page
    assert "What it found so far" not in page
    assert "a list now would end it before it begins" in officer.get("/plan").text
    trial = draw_trial(programme, "dice 1 2 3")
    page = officer.get("/").text
    assert f"Trial: rounds {AT + 1} to" in page
    assert "Assigned with public luck: dice 1 2 3." in page
    assert "waits for its luck" not in page
    for arm, name in ((0, "softfair"), (1, "lottery")):
        who = trial.person[trial.arm == arm][0]
        page = officer.get(f"/person?id=v{who:02d}").text
        assert f"<dt>arm of the trial</dt><dd>{name}</dd>" in page
    assert "In a trial: places are" in officer.get("/plan").text
    officer.post("/plan", do="draw")
    officer.post(f"/round/{AT + 1}/close")
    page = officer.get("/audit").text
    assert "Arms of the trial" in page
    assert "Assigned with public luck: dice 1 2 3." in page
    assert "Arms of the trial" not in officer.get(f"/audit?round={AT + 1}").text


def test_two_at_once_lose_no_mark(app, programme):
    names = plan_of(programme).list
    browsers = [Browser(app, programme, role) for role in ("officer", "admin")]

    def mark(browser, mine):
        for name in mine:
            assert browser.post(f"/round/{AT}/mark", name=name, deed="reached").status_code == 303

    threads = [
        threading.Thread(target=mark, args=(browser, names[i::2]))
        for i, browser in enumerate(browsers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [told(programme, name).reached for name in names] == [True] * len(names)
    assert check(programme).wrong == ()


def test_the_list_is_sorted_filtered_searched_and_grouped(officer, programme):
    def ids(query):
        page = officer.get(f"/round/{AT}?{query}").text
        return re.findall(r'<a href="/person\?id=(\w+)"', page)

    rows = round_list(programme, AT).rows
    assert ids("") == sorted(row.name for row in rows)
    by_chance = sorted(rows, key=lambda row: (-row.probability, row.name))
    assert ids("sort=probability&down=true") == [row.name for row in by_chance]
    hill = sorted(row.name for row in rows if row.facts["village"] == "hill")
    assert ids("where=village%3Dhill") == hill
    assert ids("search=HILL") == hill
    grouped = sorted(rows, key=lambda row: (row.facts["village"], row.name))
    assert ids("group=village") == [row.name for row in grouped]
    officer.post(f"/round/{AT}/mark", name=rows[0].name, deed="reached")
    assert ids("show=reached") == [rows[0].name]
    assert rows[0].name not in ids("show=open")
    assert len(ids("everyone=true")) == village.PEOPLE
    for odd in ("sort=x", "group=x", "where=x%3D1", "show=x"):
        assert officer.get(f"/round/{AT}?{odd}").status_code == 400


def test_files_to_take_along_can_be_recorded(officer, programme):
    page = officer.get(f"/round/{AT}/list.csv")
    assert page.headers["content-disposition"] == f'attachment; filename="round-{AT}.csv"'
    assert page.text.count("\n") == 9
    book = openpyxl.load_workbook(io.BytesIO(officer.get(f"/round/{AT}/list.xlsx").content))
    rows = list(book.active.values)
    names = [row[0] for row in rows[1:]]
    assert sorted(names) == sorted(plan_of(programme).list)
    filled_in = page.text.replace(",,\n", ",1,good\n")
    answer = officer.post("/import", {"file": ("back.csv", filled_in.encode())}, kind="record")
    look = answer.headers["location"]
    assert "Round 13 is over" in officer.get(look).text
    assert not told(programme, names[0]).reached  # so far nothing is written
    done = officer.post(look, do="import").text
    assert "is imported" in done
    assert [told(programme, name).reached for name in names] == [True] * 8


def test_people_are_changed_for_a_reason(officer, programme):
    name = plan_of(programme).list[0]

    def change(**fields):
        return officer.post("/person", id=name, **fields)

    assert change(deed="opt-out", reason=" ").status_code == 400
    assert change(deed="opt-out", reason="asked on the phone").status_code == 303
    assert biography(programme, name).facts["opted out"] == "yes"
    page = officer.get(f"/round/{AT}").text
    assert "Struck off: opted out" in page
    assert "Draw the list anew" in page
    change(deed="opt-in", reason="a mistake")
    assert "opted out" not in biography(programme, name).facts
    change(deed="opt-out", reason="once more")
    assert biography(programme, name).facts["opted out"] == "yes"
    change(deed="opt-in", reason="and back")
    change(deed="left", round=AT, reason="moved away")
    assert biography(programme, name).facts["left"] == f"round {AT}"
    change(deed="back", reason="came home")
    assert "left" not in biography(programme, name).facts
    first = biography(programme, name).history[0]
    other = {"good": "bad", "bad": "good"}[first.state]
    change(deed="correct", round=first.round, state=other, reason="typed wrongly")
    after = biography(programme, name).history[0]
    assert (after.state, after.contacted) == (other, first.contacted)
    page = officer.get(f"/person?id={name}").text
    for reason in ("asked on the phone", "moved away", "came home", "typed wrongly"):
        assert reason in page  # who, when and why stand in the timeline
    assert change(deed="left", reason="x").status_code == 400
    assert change(deed="fly", reason="x").status_code == 400
    assert officer.get("/person?id=nobody").status_code == 400
    assert check(programme).wrong == ()


def test_who_opts_out_is_replaced_by_the_next_in_order(programme):
    before = round_list(programme, None)
    name = before.rows[0].name
    deeds.opt(programme, name, True, "asked on the telephone")
    after = round_list(programme, None)
    [struck] = [row.name for row in after.rows if row.struck]
    assert struck == name
    [called] = {row.name for row in after.rows} - {row.name for row in before.rows}
    [row] = [row for row in after.rows if row.name == called]
    assert row.reason.startswith("Called from the reserve: ")
    assert row.listed
    assert row.probability == before.plan.probability[before.plan.names.index(called)]


def test_bad_rows_are_listed_with_their_remedy(officer, programme):
    bad = b"Beneficiary ID,Week,state,contacted\nv01,1,good,1\nv99,1,fine,1\nv02,soon,bad,0\n"
    look = officer.post("/import", {"file": ("h.csv", bad)}, kind="history").headers["location"]
    page = officer.get(look).text
    assert "is not a person of this programme" in page
    assert "soon" in page
    assert 'value="import"' not in page
    before = len(journal(programme))
    assert officer.post(look, do="import").headers["location"] == look
    assert 'value="import"' not in officer.get(look).text
    assert len(journal(programme)) == before
    assert re.search(r'aria-label="Week means">.*?<option selected>round<', page, re.S)


def test_what_a_column_means_can_be_changed(officer, programme):
    file = b"id,a,b\nv01,13,good\n"
    look = officer.post("/import", {"file": ("h.csv", file)}, kind="history").headers["location"]
    assert "has no column" in officer.get(look).text
    chosen = {"heading": ["id", "a", "b"], "meaning": ["id", "round", "state"]}
    assert officer.post(look, do="look", **chosen).headers["location"] == look
    assert "1 rows of history" in officer.get(look).text
    assert officer.post(look, do="import", **chosen).status_code == 200
    assert last(programme, "history").file == "h.csv"


def test_an_upload_is_its_owners(app, programme, officer):
    look = officer.post("/import", {"file": ("p.csv", b"id\nx\n")}, kind="people").headers[
        "location"
    ]
    assert officer.get(look).status_code == 200
    assert Browser(app, programme, "admin").get(look).status_code == 400
    assert officer.get("/import/../../etc/passwd").status_code in (400, 404)
    assert officer.get("/import/%2e%2e").status_code in (400, 404)


def test_large_uploads_are_refused(programme, tmp_path):
    app = application(programme, tmp_path, largest=20_000)
    officer = Browser(app, programme, "officer")
    file = {"file": ("p.csv", b"id\n" + b"x\n" * 20_000)}
    assert officer.post("/import", file, kind="people").status_code == 413

    def parts():
        for _ in range(30):
            yield b"x" * 1000

    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = officer.client.post("/import", content=parts(), headers=form)  # of untold length
    assert answer.status_code == 413
    assert list(tmp_path.glob("*.data")) == []


def test_every_answer_has_its_headers(app, officer):
    for answer in (officer.get("/"), officer.get("/none"), officer.get("/static/page.js")):
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert officer.get("/").headers["cache-control"] == "no-store"
    assert officer.get("/none").status_code == 404


def test_nothing_comes_from_elsewhere(officer):
    for address in ("/home/audit", f"/round/{AT}", *PAGES):
        page = officer.get(address).text
        assert not re.search(r'(src|href|action)="(https?:)?//', page), address
        assert not re.search(r"<script(?![^>]*(src=|application/json))", page), address
        assert not re.search(r'\son\w+="', page), address
        assert not re.search(r'\sstyle="', page), address


def test_a_programme_without_people(tmp_path):
    database = village.empty(str(tmp_path / "new.db"))
    officer = Browser(application(database, tmp_path, patience=LONG), database, "officer")
    for address in ("/round", "/log", "/home/audit", *PAGES):
        answer = officer.get(address)
        assert answer.status_code == 200, (address, answer.text)
    assert "Import people" in officer.get("/").text


def test_the_seed_is_told_to_nobody(app, founded):
    api = TestClient(app, headers={"Authorization": f"Bearer {founded[1]['admin']}"})
    assert "seed" not in api.get("/api/status").json()["settings"]
    assert "seed" not in api.get("/api/person?id=v01").json()["settings"]


def test_the_api_tells_what_the_pages_tell(app, programme, founded):
    api = TestClient(app, headers={"Authorization": f"Bearer {founded[1]['officer']}"})
    assert api.get("/api/status").json()["next_round"] == AT
    people = api.get("/api/round").json()["people"]
    assert {one["name"] for one in people} == set(plan_of(programme).list)
    assert api.post(f"/api/rounds/{AT}/close").json()["said"][-1] == f"Round {AT} is over."
    preview = api.post("/api/plan", json={"preview": True}).json()
    assert preview["round"] == AT + 1
    assert {"listed", "reason"}.isdisjoint(preview["people"][0])
    assert {"seed", "digest"}.isdisjoint(preview)
    assert plan_of(programme).round == AT
    drawn = api.post("/api/plan", json={}).json()
    assert (drawn["round"], drawn["new"]) == (AT + 1, True)
    rows = {"file": ("r.csv", b"id,contacted\nv01,1\n")}
    said = api.post(f"/api/import/record?round={AT + 1}&preview=true", files=rows).json()
    assert "1 contacted" in " ".join(said["said"])
    assert last(programme, "plan").who == "officer program"
    assert api.get("/api/fairness?position=40").json()["now"]["position"] == 40
    assert api.get("/api/audit").json()["people"] == village.PEOPLE
    assert api.post("/api/person", json={"id": "v01"}).status_code == 422


def test_long_answers_are_sent_in_parts(app, founded, monkeypatch):
    """Nothing holds the text of everybody at once: the API answers some people after others."""
    few = 3
    monkeypatch.setattr(api_pages, "AT_ONCE", few)
    api = TestClient(app, headers={"Authorization": f"Bearer {founded[1]['officer']}"})
    for method, address, body in (
        ("GET", "/api/people", None),
        ("POST", "/api/plan", {"preview": True}),
    ):
        with api.stream(method, address, json=body) as answer:
            parts = list(answer.iter_raw())
        answered = json.loads(b"".join(parts))
        people = answered if method == "GET" else answered["people"]
        assert sum(one["id"].startswith("v") for one in people) == village.PEOPLE
        assert max(part.count(b'"id":') for part in parts) == few
    assert set(people[0]) >= {"probability", "score"}


def test_user_commands(tmp_path):
    def run(*words, text=None):
        return shell.run(*words, folder=tmp_path, text=text)

    assert run("init").returncode == 0
    assert "nobody has an account" in run("serve").stderr
    made = run("user", "add", "mira", "--role", "officer", text=f"{village.PASSWORD}\n")
    assert "mira may sign in as officer" in made.stdout
    assert "list of their own" in run("user", "add", "x", "--role", "worker", text="x" * 9).stderr
    token = run("user", "token", "centre", "--role", "worker", "--of", "worker=Asha").stdout.strip()
    listed = json.loads(run("user", "list", "--json").stdout)
    assert [(one["name"], one["kind"], one["list"]) for one in listed] == [
        ("centre", "token", "worker=Asha"),
        ("mira", "person", ""),
    ]
    database = Store(str(tmp_path / "softfair.db"))
    assert accounts.check_password(database, "mira", village.PASSWORD).role == "officer"
    assert accounts.account_of_token(database, token).scope == ("worker", "Asha")
    run("user", "remove", "mira")
    assert accounts.check_password(database, "mira", village.PASSWORD) is None
    assert village.PASSWORD.encode() not in (tmp_path / "softfair.db").read_bytes()


@pytest.mark.slow
def test_schemathesis_finds_nothing(app, founded):
    """Requests that the description of the API allows, and others, get the answers it states."""
    import schemathesis
    from hypothesis import HealthCheck, given, settings

    headers = {"Authorization": f"Bearer {founded[1]['officer']}"}
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = app
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == sum(path.startswith("/api/") for _, path in MAY)
    for operation in operations:

        @settings(max_examples=5, deadline=None, derandomize=True, database=None,
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(case=operation.as_strategy())
        def tried(case):
            case.call_and_validate(headers=headers)

        tried()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def marking(address, key, word, names, kept):
    """Mark each of the names in turn, until the server is gone; what was sent and answered."""
    client = httpx2.Client(base_url=address, cookies={COOKIE: key}, timeout=60)
    with contextlib.suppress(httpx2.HTTPError):
        for turn in range(1000):
            name, deed = names[turn % len(names)], ("reached", "missed")[turn // len(names) % 2]
            kept[name] = (kept.get(name, (None, None))[0], deed)
            data = {"word": word, "name": name, "deed": deed}
            answer = client.post(f"/round/{AT}/mark", data=data)
            assert answer.status_code == 303, answer.text
            kept[name] = (deed, deed)


@pytest.mark.slow
def test_a_killed_server_loses_nothing(server):
    """Two processes on PostgreSQL, killed amid the marks of two people: what was answered stays."""
    url, port = server(), free_port()
    database = village.founded(url)
    key = accounts.begin_visit(database, accounts.accounts(database)[1])
    word = Visitor(accounts.accounts(database)[1], database, key).word
    options = ["--db", url, "--port", str(port), "--workers", "2"]
    command = [sys.executable, "-c", "from softfair.cli import main; main()", "serve", *options]
    names, kept = plan_of(database).list[:-1], [{}, {}]  # one is left, so that the round stays open
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as running:
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                httpx2.get(f"{address}/sign-in")
                break
            assert running.poll() is None
            time.sleep(0.2)
        people = [
            threading.Thread(target=marking, args=(address, key, word, names[i::2], kept[i]))
            for i in (0, 1)
        ]
        for person in people:
            person.start()
        while not all(len(mine) >= 3 for mine in kept):
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGKILL)
        for person in people:
            person.join()
    said = {True: "reached", False: "missed", None: None}
    rows = {row.name: said[row.reached] for row in round_list(database, AT).rows}
    answered = {name: words for mine in kept for name, words in mine.items()}
    assert sum(first is not None for first, _ in answered.values()) >= 4
    for name, words in answered.items():
        assert rows[name] in words, name  # the last that was answered, or the one on its way
    assert check(database).wrong == ()
