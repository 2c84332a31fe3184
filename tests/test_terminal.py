"""Tables at any width: laid out by hand, properties over all widths, and real terminals."""

from __future__ import annotations

import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softfair import datasets
from softfair.files import write_cohort
from softfair.terminal import NARROWEST, Table, as_csv, as_html, lines, say, show

WHY = "Drawn by lot: this person would gain more than most, and had waited for nine rounds."
TABLE = Table(
    ["id", "chance", "rank", "why", "note"],
    [["Ada", "12.5%", "1", WHY, "moved"], ["Ben", "3.0%", "10", "Drawn by lot.", ""]],
    words={"why", "note"},
)


def test_without_a_limit_every_row_is_a_line():
    said = lines(TABLE, None)
    assert len(said) == 4
    assert said[0].split() == ["id", "chance", "rank", "why", "note"]
    assert said[2] == f"Ada   12.5%     1  {WHY}  moved"
    assert said[3] == f"Ben    3.0%    10  {'Drawn by lot.'.ljust(len(WHY))}".rstrip()


def test_words_are_broken_between_words():
    table = Table(["id", "why"], [["Ada", "one two three four five six seven"]], words={"why"})
    assert lines(table, 27) == [
        "id   why",
        "---  ----------------------",
        "Ada  one two three four",
        "     five six seven",
    ]


def test_columns_without_room_are_left_out_and_named():
    said = lines(TABLE, 40)
    assert said[0].split() == ["id", "chance", "rank", "why"]
    assert " ".join(said[-2:]) == (
        "Left out for want of room: note; --json and --csv have them all."
    )
    assert lines(Table(["id", "extra"], [["a", "x" * 50]], optional=1), 20) == ["id", "--", "a"]


@settings(max_examples=200, deadline=None)
@given(
    st.integers(20, 220),
    st.lists(
        st.tuples(
            st.text("abcdef ", max_size=60), st.integers(0, 10**9), st.text("ab c", max_size=90)
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_no_line_is_wider_than_the_screen_and_no_cell_is_cut(width, rows):
    table = Table(
        ["name", "figure", "words"], [[a, f"{b:,}", c] for a, b, c in rows], words={"words"}
    )
    said = lines(table, width)
    assert max(map(len, said)) <= width
    shown = [part for part in said[1].split("  ") if part]
    assert all(set(part) == {"-"} for part in shown)  # no column of width zero
    text = "".join(said).replace(" ", "")
    for name, figure, words in rows:
        if len(shown) > 1:
            assert f"{figure:,}" in "".join(said)  # a figure is never broken
        if len(shown) == 3:
            natural = max(len("words"), *(len(" ".join(row[2].split())) for row in rows))
            assert len(shown[2]) >= min(NARROWEST, natural)
            # Broken over lines the letters of a cell are in order, other columns in between.
            letters = iter(text)
            assert all(letter in letters for letter in words.replace(" ", ""))
        assert all(letter in text for letter in name.replace(" ", ""))


def test_piped_there_are_no_colours_and_one_line_a_sentence():
    out = io.StringIO()
    show(Table(["id"], [["a"]], "title " * 40, ["note " * 40], styles=["bold red"]), out)
    say("words " * 40, "bold", out)
    assert "\x1b" not in out.getvalue()
    assert len(out.getvalue().splitlines()) == 6


def test_csv_and_html():
    rows = [{"policy": 'a, "b"', "benefit": 1.5}, {"policy": "c", "benefit": None}]
    assert list(csv.reader(io.StringIO(as_csv(rows)))) == [
        ["policy", "benefit"], ['a, "b"', "1.5"], ["c", ""],
    ]  # fmt: skip
    assert as_csv([]) == ""
    assert "<script>" not in as_html("<script>", {"<b>": "<i>"})


# ---- real terminals ----


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("cohort") / "people.csv"
    write_cohort(datasets.synthetic(n=20, seed=0), file)
    return file


def on_a_terminal(columns, *words, folder, **environment):
    """What a person sees on a terminal of so many columns."""
    parent, child = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-c", "from softfair.cli import main; main()", *map(str, words)],
        stdin=child, stdout=child, stderr=subprocess.PIPE, cwd=folder, env={**clean, **environment},
    ) as running:  # fmt: skip
        os.close(child)
        seen = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        errors = running.stderr.read().decode()
    os.close(parent)
    assert running.returncode == 0, errors
    return seen.decode().replace("\r\n", "\n")


SIMULATE = ["simulate", "people.csv", "--k", "2", "--horizon", "4", "--runs", "2",
            "--policy", "Random", "--policy", "SoftFair:c=5,design=successive"]  # fmt: skip


@pytest.mark.slow
def test_simulate_at_60_and_at_200_columns(people):
    plain = {"NO_COLOR": "1", "folder": people.parent}
    narrow = on_a_terminal(60, *SIMULATE, **plain)
    assert max(map(len, narrow.splitlines())) <= 60
    assert "SoftFair(c=5, successive)" in narrow
    assert "benefit %" in narrow
    wide = on_a_terminal(200, *SIMULATE, **plain)
    assert "gini" in wide
    assert "gini" not in narrow
    coloured = on_a_terminal(60, *SIMULATE, folder=people.parent, TERM="xterm")
    assert "\x1b[1m" in coloured


@pytest.mark.slow
def test_a_plan_and_an_audit_at_60_columns(tmp_path):
    plain = {"NO_COLOR": "1", "folder": tmp_path}
    on_a_terminal(60, "init", "--sample", **plain)
    for words in (["plan"], ["audit"]):
        seen = on_a_terminal(60, *words, **plain)
        assert max(map(len, seen.splitlines())) <= 60
        assert not any(set(line) & set("│┃━─┏╇") for line in seen.splitlines())
    assert "Left out for want of room" in seen  # the audit's widest tables
    assert "--html FILE and --json have them all" in " ".join(seen.split())


@pytest.mark.slow
def test_an_ascii_only_terminal_is_survived(people):
    done = subprocess.run(
        [sys.executable, "-c", "from softfair.cli import main; main()", *SIMULATE],
        capture_output=True, cwd=people.parent,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"+-" in done.stdout
    done.stdout.decode("ascii")


def test_names_that_ascii_cannot_show_are_spelt(tmp_path):
    code = (
        "import sys; from softfair.terminal import survive_any_encoding as s; s(sys.stdout); "
        "print('Zo\\u00eb \\u2265 \\u674e')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.stdout.strip() == b"Zoe >= ?"
