"""The page in a real Chromium: a week with and without scripts, a phone, paper, hostile files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
import uvicorn
import village

from softfair.programme.checks import check
from softfair.programme.plans import plan_of
from softfair.programme.records import close_round
from softfair.web import accounts
from softfair.web.access import COOKIE
from softfair.web.app import application
from softfair.web.lists import round_list

pytestmark = pytest.mark.slow
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
AT = village.ROUNDS + 1
LONG = 600.0  # seconds that work is waited for: a busy machine changes no answer
PHONE = {"width": 320, "height": 640}


def chromium_path():
    """The path of a Chromium, or None."""
    return os.environ.get("SOFTFAIR_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def chromium():
    """A real browser. Without a Chromium the tests are skipped with a message; in CI they fail."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    if path is None:
        said = "no Chromium: install Debian's package chromium, or name one by SOFTFAIR_CHROMIUM"
        pytest.fail(said) if os.environ.get("CI") else pytest.skip(said)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def serving(database, spool, patience=LONG):
    """The address of a server of its own, in a thread."""
    app = application(database, spool, patience=patience)
    config = uvicorn.Config(app, port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def village_url(tmp_path_factory):
    """A programme with a list, served to all tests that do not disturb each other."""
    folder = tmp_path_factory.mktemp("village")
    database = village.founded(str(folder / "village.db"))
    with serving(database, folder) as address:
        yield database, address


@contextlib.contextmanager
def visiting(chromium, address, database=None, name=None, **options):
    """A page of a person who is signed in; a complaint on the console is a failure."""
    context = chromium.new_context(base_url=address, **options)
    if name is not None:
        key = accounts.begin_visit(
            database, next(one for one in accounts.accounts(database) if one.name == name)
        )
        context.add_cookies([{"name": COOKIE, "value": key, "url": address}])
    page, complaints = context.new_page(), []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: r.url.startswith(address) or complaints.append(r.url))
    page.set_default_timeout(240_000)  # of a machine that is busy
    try:
        yield page
    finally:
        context.close()
    assert [said for said in complaints if "status of 4" not in said] == []


def sign_in(page, name, password):
    page.goto("/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def upload(page, kind, name, data):
    page.goto(f"/import?kind={kind}")
    page.get_by_label("Choose a file").set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": data}
    )
    page.get_by_role("button", name="Look at it").click()
    page.get_by_role("button", name="Import", exact=True).click()
    assert "is imported" in page.inner_text("h1")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_whole_week(chromium, tmp_path, scripts):
    """Sign in, import, plan, mark, audit, sign out."""
    database = village.empty(str(tmp_path / "new.db"))
    with (
        serving(database, tmp_path) as address,
        visiting(chromium, address, java_script_enabled=scripts) as page,
    ):
        sign_in(page, "officer", "wrong password")
        assert "Name or password is wrong" in page.inner_text("main")
        sign_in(page, "officer", village.PASSWORD)
        page.get_by_role("button", name="Sign out").wait_for()
        upload(page, "people", "people.csv", village.people_file())
        upload(page, "history", "history.csv", village.history_file())
        page.goto("/")
        page.get_by_role("link", name="Draw the list").click()
        assert "8 of 40 people in the draw" in page.inner_text("main")
        page.get_by_role("button", name="Draw the list of round 13").click()
        page.wait_for_url("**/round/13")
        names = plan_of(database).list
        for i, name in enumerate(names):
            deed = "reached" if i else "not reached"
            page.get_by_role("button", name=f"{name} {deed}", exact=True).click()
            page.locator(f'button[aria-pressed=true][aria-label="{name} {deed}"]').wait_for()
            if scripts:  # the row alone was answered, and the count beside it
                page.get_by_text(f"{i + 1} of 8 marked").wait_for()
        page.get_by_role("button", name=f"{names[0]} is good").click()
        page.locator(f'button[aria-pressed=true][aria-label="{names[0]} is good"]').wait_for()
        rows = {row.name: row for row in round_list(database, 13).rows}
        assert [rows[name].reached for name in names] == [False] + [True] * 7
        assert rows[names[0]].state == "good"
        page.goto("/audit")
        assert "every draw replays" in page.inner_text("main")
        assert page.locator("img.picture").count() >= 1
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        page.goto("/audit")
        assert "Sign in" in page.inner_text("h1")
    assert check(database).wrong == ()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_long_work_goes_on_by_itself(chromium, tmp_path, scripts):
    """If the server waits for nothing, every page first shows its progress, then its result."""
    database = village.founded(str(tmp_path / "village.db"))
    close_round(database, village.NAME, AT)
    with (
        serving(database, tmp_path, patience=0.0) as address,
        visiting(chromium, address, database, "officer", java_script_enabled=scripts) as page,
    ):
        page.goto("/plan")
        assert page.inner_text("h1") == "At work"
        page.get_by_role("button", name=f"Draw the list of round {AT + 1}").click()
        page.wait_for_url(f"**/round/{AT + 1}")
        page.get_by_text("0 of 8 marked").wait_for()
        if scripts:
            page.goto("/fairness")
            page.locator("[data-chart=rates][data-drawn] canvas").wait_for()
            page.get_by_label("c: from a lottery").focus()
            page.keyboard.press("End")
            page.get_by_text("keep 100.0% of what").wait_for()
            page.get_by_label("Evenness").focus()
            page.keyboard.press("End")
            page.get_by_text("and mu = ").wait_for()


def test_a_role_is_forbidden(chromium, village_url):
    database, address = village_url
    with visiting(chromium, address, database, "worker") as page:
        page.goto("/round")
        assert page.get_by_role("link", name="Audit").count() == 0
        page.goto("/audit")
        assert "not for your account" in page.inner_text("main")


def test_the_slider_redraws(chromium, village_url):
    """Pictures and the sentence follow the slider, one answer for each place."""
    database, address = village_url
    with visiting(chromium, address, database, "viewer") as page:
        page.goto("/fairness")
        page.locator("[data-chart=rates][data-drawn] canvas").wait_for()
        before, drawn = page.inner_text("#part"), page.locator("[data-chart=entropy]")
        assert drawn.get_attribute("data-drawn") == "1"
        shown = drawn.evaluate("e => echarts.getInstanceByDom(e).getOption().series")
        limit = next(one for one in shown if one["name"] == "no policy can keep more")
        keeps = [benefit for _, benefit in shown[0]["data"]]
        assert {height for _, height in limit["data"]} == {limit["data"][0][1]}
        assert limit["data"][0][1] >= max(keeps)
        slider = page.get_by_label("c: from a lottery")
        slider.focus()
        page.keyboard.press("End")  # by keyboard too
        page.get_by_text("keep 100.0% of what").wait_for()
        page.keyboard.press("Home")
        page.get_by_text("With c = 0 the plan").wait_for()
        assert page.inner_text("#part") != before
        assert int(drawn.get_attribute("data-drawn")) >= 3


def test_targets_and_promises_have_sliders(chromium, village_url):
    """A target, a guarantee and a promise move the sliders or say why not, by keyboard."""
    database, address = village_url
    with visiting(chromium, address, database, "officer") as page:
        page.goto("/fairness")
        page.locator("[data-chart=rates][data-drawn] canvas").wait_for()
        page.get_by_text("Choose by what you want").click()
        what, slide = page.locator("select[name=goal]"), page.get_by_label("Slide")
        over_c, even = page.get_by_label("c: from a lottery"), page.get_by_label("Evenness: from")
        what.select_option("benefit")
        slide.focus()
        page.keyboard.press("End")
        page.get_by_text("keep at least 100 % of the benefit").wait_for()
        assert int(over_c.input_value()) >= 99
        what.select_option("never")
        slide.focus()
        page.keyboard.press("Home")
        page.get_by_text("cannot be reached at c =").wait_for()
        page.get_by_label("How much").fill("5%")
        page.get_by_text("The first step of evenness at this c").wait_for()
        assert int(even.input_value()) > 0
        what.select_option("promised-wait")
        slide.focus()
        page.keyboard.press("Home")
        page.get_by_role("alert").get_by_text("40 > 8").wait_for()  # in one list there are 8 places
        assert even.is_enabled()
        page.get_by_label("How much").fill("8")
        page.get_by_text("That promise costs").wait_for()
        assert even.is_disabled()
        over_c.focus()
        page.keyboard.press("Home")  # c moves, and the promise stays
        page.get_by_text("With c = 0 the plan").wait_for()
        page.get_by_text("That promise costs").wait_for()
        page.get_by_label("with the promise").uncheck()
        page.get_by_text("That promise costs").wait_for(state="detached")
        assert even.is_enabled()


def test_wishes_without_scripts(chromium, village_url):
    database, address = village_url
    with visiting(chromium, address, database, "officer", java_script_enabled=False) as page:
        page.goto("/fairness?position=70")
        page.get_by_text("Choose by what you want").click()
        assert not page.locator("[data-for=value]").is_visible()  # it would do nothing
        page.locator("select[name=goal]").select_option("promised-wait")
        page.get_by_label("How much").fill("3")
        page.get_by_role("button", name="Find it").click()
        assert "40 > 24" in page.get_by_role("alert").inner_text()
        page.get_by_label("How much").fill("8")
        page.get_by_role("button", name="Find it").click()
        assert "That promise costs" in page.inner_text("#part")
        page.get_by_label("with the promise").uncheck()
        page.get_by_role("button", name="Show").click()
        assert "That promise costs" not in page.inner_text("#part")


def test_the_list_fits_a_phone(chromium, village_url):
    """No page is wider than 320 pixels, and the marks are as high as a finger."""
    database, address = village_url
    with visiting(chromium, address, database, "officer", viewport=PHONE) as page:
        for place in ("/", f"/round/{AT}", "/people", "/fairness", "/audit", "/import", "/plan"):
            page.goto(place)
            page.wait_for_load_state("networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= PHONE["width"], (place, wide)
        page.goto(f"/round/{AT}")
        assert page.locator(".marks button").first.bounding_box()["height"] >= 44


def pages_of(pdf):
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_paper(chromium, village_url):
    """A page a worker, and the heading on each when there are many people."""
    database, address = village_url
    with visiting(chromium, address, database, "officer") as page:
        page.goto(f"/round/{AT}/worksheets")
        assert pages_of(page.pdf(prefer_css_page_size=True)) == 1
        page.goto(f"/round/{AT}/worksheets?by=worker")
        workers = {row.facts["worker"] for row in round_list(database, AT).rows}
        assert pages_of(page.pdf(prefer_css_page_size=True)) == len(workers) == 2
        page.emulate_media(media="print")
        assert not page.get_by_role("button", name="Sign out").is_visible()
        assert page.locator("thead").first.evaluate("e => getComputedStyle(e).display") == (
            "table-header-group"
        )
        page.goto("/audit")
        assert pages_of(page.pdf(prefer_css_page_size=True)) >= 1


@pytest.mark.parametrize(
    "place",
    [
        "/",
        f"/round/{AT}",
        f"/round/{AT}?group=worker&everyone=true",
        f"/round/{AT}/worksheets?by=worker",
        "/people",
        "/person?id=v01",
        "/fairness",
        "/fairness?position=70&promise=wait%3D8",
        "/plan",
        "/audit",
        "/import",
        "/log",
        "/accounts",
        "/sign-in",
    ],
)
def test_axe_finds_nothing(chromium, village_url, place):
    """WCAG 2 A and AA: contrast, labels, names, landmarks."""
    database, address = village_url
    with visiting(chromium, address, database, "admin", bypass_csp=True) as page:
        if place == "/sign-in":
            page.context.clear_cookies()
        assert page.goto(place).ok
        page.wait_for_load_state("networkidle")
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
        assert [
            (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in found["violations"]
        ] == []


HOSTILE = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'


def test_a_hostile_file_runs_nothing(chromium, tmp_path):
    """Names, groups, headings and bad entries that are scripts are shown as text, everywhere."""
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    database = village.empty(str(tmp_path / "new.db"))
    people = [f"{quoted},{quoted}", *(f"p{i},{quoted}" for i in range(7))]
    with (
        serving(database, tmp_path) as address,
        visiting(chromium, address, database, "officer") as page,
    ):
        page.on("dialog", lambda dialog: pytest.fail("a dialog"))
        upload(page, "people", f"{HOSTILE}.csv", "\n".join([f"id,{quoted}", *people]).encode())
        bad = f"id,round,state\n{quoted},{quoted},{quoted}\n".encode()
        page.goto("/import?kind=history")
        page.get_by_label("Choose a file").set_input_files(
            {"name": "h.csv", "mimeType": "text/csv", "buffer": bad}
        )
        page.get_by_role("button", name="Look at it").click()
        assert HOSTILE in page.inner_text("main")
        page.goto("/plan?sure=true")
        page.get_by_role("button", name="Draw the list of").click()
        page.wait_for_url("**/round/*")
        page.get_by_role("button", name=f"{HOSTILE} reached", exact=True).click()
        page.locator("tr.reached").wait_for()
        for place in ("/", "/round", "/round?group=x", "/people", "/fairness", "/audit", "/log"):
            page.goto(place)
            page.wait_for_load_state("networkidle")
            assert page.evaluate("window.hacked") is None, place
        page.goto("/people")
        page.get_by_role("link", name=HOSTILE).click()
        assert HOSTILE in page.inner_text("h1")
        assert page.evaluate("window.hacked") is None
