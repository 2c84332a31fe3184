"""A bar on a real terminal, and nothing anywhere else."""

import errno
import os
import re
import subprocess
import sys
import textwrap

import pytest

from softfair.progress import heard_by, say, track

pty = pytest.importorskip("pty")  # not on Windows

ERASE_LINE = "\x1b[2K"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]")

# The clock stands still unless the child moves it, so nothing here depends on how fast the machine
# is.
CLOCK = """
import sys
from softfair import progress
now = 0.0
progress.monotonic = lambda: now
def shown():
    return "rich.progress" in sys.modules
"""


def child(source, *, terminal):
    """(stdout, stderr) of a Python child whose stderr is a terminal or a pipe."""
    arguments = [sys.executable, "-c", CLOCK + textwrap.dedent(source)]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    if not terminal:
        done = subprocess.run(
            arguments, env=env, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout, done.stderr
    here, there = pty.openpty()
    with subprocess.Popen(
        arguments, env=env, stdout=subprocess.PIPE, stderr=there, text=True
    ) as process:
        os.close(there)
        seen = b""
        while chunk := _read(here):
            seen += chunk
        stdout = process.stdout.read()
    os.close(here)
    assert process.returncode == 0, seen.decode()
    return stdout, seen.decode()


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError as error:  # how Linux says that the other end is closed
        if error.errno != errno.EIO:
            raise
        return b""


SECOND_AN_ITEM = """
    for item in progress.track({items}, "counting sheep", total={total}):
        print(item, shown())
        now += 1.0
    print("done")
"""


def test_items_come_through_in_this_process():
    assert list(track([3, 1, 2], "x")) == [3, 1, 2]
    assert list(track((j for j in range(3)), "x", total=3)) == [0, 1, 2]
    assert list(track([], "x")) == []


@pytest.mark.parametrize("items", ["range(1000)", "(j for j in range(1000))"])
def test_quick_work_shows_nothing(items):
    source = f"""
        for item in progress.track({items}, "counting sheep"):
            now = 2.0  # not over two seconds
        print(item, shown())
    """
    assert child(source, terminal=True) == ("999 False\n", "")


@pytest.mark.parametrize("items", ["range(6)", "(j for j in range(6))"])
def test_nobody_watches(items):
    stdout, stderr = child(SECOND_AN_ITEM.format(items=items, total=None), terminal=False)
    assert stdout == "".join(f"{j} False\n" for j in range(6)) + "done\n"
    assert stderr == ""


@pytest.mark.parametrize(
    ("items", "total", "known"),
    [
        ("range(9)", None, "9"),
        ("iter(list(range(9)))", None, "9"),
        ("(j for j in range(9))", 9, "9"),
        ("(j for j in range(9))", None, "?"),
    ],
)
def test_bar_after_two_seconds(items, total, known):
    # stdout is a pipe here: what the loop prints must get there, although the bar has the terminal.
    stdout, stderr = child(SECOND_AN_ITEM.format(items=items, total=total), terminal=True)
    # After items 0, 1, 2 the clock says 3 > 2: the bar is there from item 3 on, having counted
    # three.
    assert stdout == "".join(f"{j} {j > 2}\n" for j in range(9)) + "done\n"
    assert "counting sheep" in stderr
    assert f"3/{known}" in stderr
    assert f"9/{known}" in stderr
    if known != "?":
        assert re.search(r"\d:\d\d:\d\d|-:--:--", stderr)  # time left, or that it is not yet known


def test_bar_is_gone_afterwards():
    _, stderr = child(SECOND_AN_ITEM.format(items="range(6)", total=None), terminal=True)
    bar, _, rest = stderr.rpartition(ERASE_LINE)
    assert "counting sheep" in bar
    assert CONTROL.sub("", rest) == ""


def test_no_bar_for_work_that_is_over():
    source = """
        for item in progress.track(range(3), "counting sheep"):
            now += 1.0
        print(item, shown())
    """
    assert child(source, terminal=True) == ("2 False\n", "")


def test_of_nested_loops_one_has_the_bar():
    source = """
        for outer in progress.track(range(5), "outer"):
            for inner in progress.track(range(5), f"inner {outer}"):
                now += 1.0
        print(outer, inner)
    """
    stdout, stderr = child(source, terminal=True)
    assert stdout == "4 4\n"
    assert "inner 0" in stderr  # the first to last over two seconds
    assert "outer" in stderr  # then the outer loop, which keeps it
    assert "inner 2" not in stderr


def test_the_bar_goes_when_the_loop_is_left():
    source = """
        for round in range(2):
            now = 0.0
            for item in progress.track(range(9), f"round {round}"):
                now += 1.0
                if item == 5:
                    break
        print("left")
    """
    stdout, stderr = child(source, terminal=True)
    assert stdout == "left\n"
    assert "round 1" in stderr  # the screen was free again
    assert CONTROL.sub("", stderr.rpartition(ERASE_LINE)[2]) == ""


def test_say():
    source = 'progress.say("compiling kernels, first use only ...")'
    assert child(source, terminal=True) == ("", "compiling kernels, first use only ...\r\n")
    assert child(source, terminal=False) == ("", "")


def test_no_stderr_at_all(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)  # a program without a console
    say("nobody hears this")
    assert list(track(range(3), "x")) == [0, 1, 2]


def test_a_listener_hears_the_progress_of_loops_with_several_items():
    """A loop over one item would say that all is done, and go on for a minute."""
    heard = []
    with heard_by(heard.append):
        assert list(track([5], "a pass")) == [5]
        assert heard == []
        assert list(track([5, 6], "adding")) == [5, 6]
    assert heard == ["adding: 1 of 2", "adding: 2 of 2"]
