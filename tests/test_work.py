"""Long work on the page: it shows progress, delays no other page, and is whole or not at all."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest
import village
from fastapi.testclient import TestClient
from test_web import AT, Browser, free_port

import softfair
from softfair.errors import InvalidInput
from softfair.programme.checks import check
from softfair.programme.imports import import_people
from softfair.programme.plans import plan_of
from softfair.programme.records import close_round
from softfair.programme.store import Store
from softfair.web import work
from softfair.web.app import application
from softfair.web.memory import Memory
from softfair.web.words import on_page

NEXT = AT + 1


@pytest.fixture(scope="module")
def founded(tmp_path_factory):
    """A programme whose next list is to be drawn."""
    database = village.founded(str(tmp_path_factory.mktemp("village") / "village.db"))
    close_round(database, village.NAME, AT)
    return database


@pytest.fixture
def programme(founded, tmp_path):
    for file in Path(founded.name).parent.glob("village.db*"):
        shutil.copy(file, tmp_path)
    return Store(str(tmp_path / "village.db"))


@contextlib.contextmanager
def writer(database):
    """Somebody else who writes, in the block: whatever writes too has to wait."""
    with database.writing():
        yield


def until(look, wanted):
    """Ask again and again, as the page does, until the answer is as wanted."""
    while not wanted(answer := look()):
        time.sleep(0.05)
    return answer


def test_a_list_is_drawn_while_other_pages_are_read(programme, tmp_path):
    """The work waits for a writer and says so; any process of the server tells of it."""
    app, other = (application(programme, tmp_path, patience=0.0) for _ in range(2))
    officer = Browser(app, programme, "officer")
    elsewhere = TestClient(other, follow_redirects=False, cookies=officer.client.cookies)
    nobody_else = Browser(app, programme, "admin")
    with writer(programme):
        job = officer.post("/plan", do="draw").headers["location"]
        assert job.startswith("/work/")
        page = until(lambda: officer.get(job), lambda page: "Waiting for another" in page.text)
        assert page.status_code == 200
        assert '<noscript><meta http-equiv="refresh"' in page.text
        assert elsewhere.get(job).headers["x-working"] == "1"
        assert nobody_else.get(job).status_code == 400
        assert "v01" in until(lambda: officer.get("/people"), lambda page: "v01" in page.text).text
        with pytest.raises(InvalidInput, match="no plan"):
            plan_of(programme, NEXT)
    done = until(lambda: elsewhere.get(job), lambda page: page.status_code == 303)
    assert done.headers["location"] == f"/round/{NEXT}"
    assert plan_of(programme).round == NEXT
    assert check(programme).wrong == ()


def test_a_preview_that_takes_long_is_asked_for_again(programme, tmp_path):
    officer = Browser(application(programme, tmp_path, patience=0.0), programme, "officer")
    first = officer.get("/plan")
    assert "At work" in first.text
    part = officer.get("/fairness/part?position=3", headers={"HX-Request": "true"}).text
    assert 'hx-get="/fairness/part?position=3" hx-trigger="load' in part
    assert officer.get(f"/round/{AT}/list.csv").text.startswith("id,")  # no page, but the file
    page = until(lambda: officer.get("/plan"), lambda page: "x-working" not in page.headers)
    assert f"Draw the list of round {NEXT}" in page.text
    part = until(
        lambda: officer.get("/fairness/part?position=3"),
        lambda page: "x-working" not in page.headers,
    )
    assert "the plan is expected to keep" in part.text


def test_work_that_fails_late_says_why_and_leads_back(programme, tmp_path):
    officer = Browser(application(programme, tmp_path, patience=0.0), programme, "officer")
    with writer(programme):
        job = officer.post("/plan", do="draw", target="wait=1").headers["location"]
    page = until(lambda: officer.get(job), lambda page: "x-working" not in page.headers).text
    assert "target cannot be met" in page
    assert '<a href="/plan">Back</a>' in page


def test_an_import_that_takes_long(programme, tmp_path):
    app = application(programme, tmp_path, patience=0.0)
    officer = Browser(app, programme, "officer")
    file = {"file": ("new.csv", b"id,worker,village,phone\nw1,Asha,hill,1\n")}
    look = officer.post("/import", file, kind="people").headers["location"]
    with writer(programme):
        job = officer.post(look, do="import").headers["location"]
        assert job.startswith("/work/")
        assert officer.get(job).headers["x-working"] == "1"
    page = until(lambda: officer.get(job), lambda page: "x-working" not in page.headers).text
    assert "new.csv is imported" in page
    assert "1 rows of people" in page


def test_a_job_whose_process_is_gone_is_told_so(programme, tmp_path):
    app = application(programme, tmp_path, patience=0.0)
    officer = Browser(app, programme, "officer")
    with writer(programme):
        job = officer.post("/plan", do="draw").headers["location"]
        file = tmp_path / f"{job.removeprefix('/work/')}.job"
        assert file.stat().st_mode & 0o077 == 0
        dead = tmp_path / f"{'0' * 32}.job"
        shutil.copy(file, dead)
        long_ago = time.time() - work.SILENCE - 1
        os.utime(dead, (long_ago, long_ago))
        for key in ("0" * 32, "1" * 32, "x"):
            answer = officer.get(f"/work/{key}")
            assert answer.status_code == 400
            assert "whole or not at all" in answer.text


def test_what_is_remembered(programme):
    """A result is computed once for all visitors, again after a change, and waited for if begun."""
    memory, calls, go = Memory(2), [], threading.Event()

    def make():
        calls.append(None)
        go.wait()
        return len(calls)

    def asked(**options):
        return memory.of(programme, "x", make, 7, **options)

    with pytest.raises(work.StillWorking):
        asked(patience=0.0)
    import_people(programme, b"id\nnew\n", village.NAME)
    with pytest.raises(work.StillWorking):
        asked(patience=0.0, late=True)
    assert len(calls) == 1
    go.set()
    assert asked(late=True) == 1
    assert asked(late=True) == 2  # it was told once, and is of the moment before
    assert [asked(), asked(late=True)] == [2, 2]
    import_people(programme, b"id\nnewer\n", village.NAME)
    assert asked() == 3

    def fail():
        calls.append(None)
        raise InvalidInput("no")

    for many in (4, 5):  # an error is not kept
        with pytest.raises(InvalidInput):
            memory.of(programme, "y", fail)
        assert len(calls) == many


def test_how_far_a_loop_is():
    assert work.StillWorking("looking for c: 3 of 12", 1.5).share == 0.25
    assert work.StillWorking("reading ...", 1.5).share is None


@pytest.mark.slow
def test_a_killed_server_leaves_no_half_job(programme, tmp_path):
    """Two processes, killed while one of them works: nothing of it is there, and all is whole."""
    port = free_port()
    options = ["--db", programme.name, "--port", str(port), "--workers", "2"]
    options += ["--sign-in-as", "officer"]
    command = [sys.executable, "-c", "from softfair.cli import main; main()", "serve", *options]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        printed = running.stdout.readline() + running.stdout.readline()
        link = re.search(r"http://localhost:\d+(/enter\?key=\S+)", printed)[1]
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                httpx2.get(f"{address}/sign-in")
                break
            assert running.poll() is None
            time.sleep(0.2)
        entered = httpx2.get(address + link)
        cookies = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
        people = httpx2.get(f"{address}/people", headers=cookies, timeout=60).text
        word = re.search('name="word" value="([0-9a-f]+)"', people)[1]
        with writer(programme):
            form = {"word": word, "do": "draw"}
            begun = httpx2.post(f"{address}/plan", data=form, headers=cookies, timeout=60)
            for _ in range(6):  # each connection may be answered by another process
                answer = httpx2.get(
                    address + begun.headers["location"], headers=cookies, timeout=60
                )
                assert (answer.status_code, answer.headers["x-working"]) == (200, "1")
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    with pytest.raises(InvalidInput, match="no plan"):
        plan_of(programme, NEXT)
    assert check(programme).wrong == ()


TYPED = re.compile(r"(?<![\w-])--[a-z]|softfair [a-z]+ ?[A-Z-]|: softfair ")


def messages():
    """Every text of the rooms whose functions pages call, with a word for what is filled in."""
    rooms = Path(softfair.__file__).parent / "programme"
    for path in sorted(rooms.rglob("*.py")):
        if path.parent.name == "commands" and path.name != "taking_in.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(getattr(part, "value", "")) if isinstance(part, ast.Constant)
                              else "x" for part in node.values)  # fmt: skip
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_no_message_tells_what_to_type():
    typed = [one for one in messages() if TYPED.search(one) and len(one) < 500]
    assert len(typed) > 60  # the commands say so
    for one in typed:
        assert not TYPED.search(on_page(one)), (one, on_page(one))


@pytest.mark.parametrize(
    ("typed", "clicked"),
    [
        (
            "round 7 is planned already, not for that target; make it anew with --replan REASON",
            "round 7 is planned already, not for that target; give a reason to make it anew",
        ),
        (
            "the programme has no people yet; import them with: softfair import people FILE",
            "the programme has no people yet; import them under Import",
        ),
        (
            "a.csv has dates in column 'day', and the programme does not know its first day; "
            "say it, such as: softfair init --first-day 2027-01-04",
            "a.csv has dates in column 'day', and the programme does not know its first day; "
            "ask who set the programme up",
        ),
        (
            "Round 7 stays open: 3 on the list are not told of. Record them, or close it with: "
            "softfair record --close --round 7",
            "Round 7 stays open: 3 on the list are not told of. Mark them, or close",
        ),
    ],
)
def test_messages_say_what_to_click(typed, clicked):
    assert on_page(typed) == clicked
