"""A programme from a shell: real processes, their output and exit codes, on both databases."""

import json
import re
import subprocess
import sys
from datetime import date
from types import SimpleNamespace

import numpy as np
import pytest
import shell

from softfair.programme import sample
from softfair.programme.commands.fitting import _said, _said_of_columns
from softfair.programme.commands.looking import to_json
from softfair.programme.models import Model, Summary
from softfair.programme.settings import Settings


def run(*words, **options):
    return shell.run(*words, **{"COLUMNS": "120", **options})


def well(*words, **options):
    done = run(*words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words, **options):
    """Check that the command exits with 2 and one line, without a traceback."""
    done = run(*words, **options)
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("softfair: ")
    return done.stderr


@pytest.mark.slow
def test_the_whole_loop(url, tmp_path):
    """Init, import, fit, plan, record, audit and export over two rounds, as an officer would."""
    here = {"folder": tmp_path, "SOFTFAIR_DB": url}
    (tmp_path / "people.csv").write_bytes(sample.people_file())
    assert "Made the programme" in well("init", "--capacity", 20, "--seed", 5, **here)
    assert "300 new entries" in well("import", "people", "people.csv", **here)
    assert "6,300 new entries" in well(
        "import", "history", "-", text=sample.history_file().decode(), **here
    )
    assert "nothing changed" in well("import", "people", "people.csv", **here)
    assert "Model 1: 5,374 transitions of 300 people" in well("fit", **here)
    plan = json.loads(well("plan", "--json", **here))
    assert (plan["round"], len(plan["people"])) == (21, 20)
    assert all(
        0 < person["probability"] <= 1 and person["reason"].startswith("Drawn")
        for person in plan["people"]
    )
    assert json.loads(well("plan", "--json", "--round", 21, **here)) == plan
    assert "Round 21" in (shown := well("plan", **here))
    assert all(person["id"] in shown for person in plan["people"])
    well("export", "plan", "--out", "list.csv", **here)
    lines = (tmp_path / "list.csv").read_text().splitlines()
    assert len(lines) == 21
    filled = [lines[0], *(re.sub(",,$", ",1,good", line) for line in lines[1:])]
    told = well("record", "-", text="\n".join(filled), **here)
    assert "Round 21: 20 contacted; of 20 on the list 0 told as not reached" in told
    assert "Round 21 is over." in told
    second = json.loads(well("plan", "--json", "--all", **here))
    assert second["round"] == 22
    assert len(second["people"]) == 300
    told = well("check", **here)
    assert "Every row of every table is what" in told
    assert "2 of 2 plans: the same list" in told
    for export in ("list.csv", "audit.html"):  # the head of the log stands in everything given out
        if (tmp_path / export).exists():
            assert "still stands" in well("check", "--against", export, **here)
    audit = json.loads(well("audit", "--json", "--html", "audit.html", **here))
    assert audit
    page = (tmp_path / "audit.html").read_text()
    assert not re.search(r'(src|href)="https?://', page)
    assert "P001" not in json.dumps(audit) + page  # nobody is named
    assert "21" in well("audit", **here)
    for name in ("audit.csv", "audit.parquet", "audit.json", "plan.parquet", "plan.json"):
        well("export", name.partition(".")[0], "--out", name, **here)
        assert (tmp_path / name).stat().st_size > 100


def test_the_sample_loop(tmp_path):
    assert "300 people in 4 regions" in well("init", "--sample", folder=tmp_path)
    assert "Round 21" in well("plan", "--target", "benefit=90%", folder=tmp_path)
    assert "Round 21:" in well("record", "--sample", folder=tmp_path)
    assert "Round 22" in well("plan", folder=tmp_path)


def test_capacities_from_a_file(tmp_path):
    (tmp_path / "k.csv").write_text("region,capacity\nnorth,4\nsouth,3\n")
    well("init", "--sample", "--by", "region", "--capacity", "k.csv", folder=tmp_path)
    plan = json.loads(well("plan", "--json", folder=tmp_path))
    assert [person["site"] for person in plan["people"]].count("north") == 4
    assert len(plan["people"]) == 7


@pytest.fixture(scope="module")
def sample_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    well("init", "--sample", folder=folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "--db", "none.db"], "there is no programme"),
        (["plan", "--db", "mysql://x"], "--db"),
        (["plan", "--target", "wait=2"], "nearest"),
        (["plan", "--target", "benefit"], "target"),
        (["plan", "--replan", "x"], "no plan to replace"),
        (["init", "--c", "-1"], "c is -1"),
        (["init", "--capacity", "many"], "capacity"),
        (["init", "--capacity", "none.csv"], "none.csv"),
        (["init", "--by", "region"], "capacities"),
        (["init", "--states", "one"], "states"),
        (["init", "--seed", "9"], "seed"),
        (["import", "people", "none.csv"], "none.csv"),
        (["import", "friends", "none.csv"], "people"),
        (["init", "--capacity", "north=1,north=5", "--by", "region"], "twice"),
        (["init", "--capacity", "north=1,south", "--by", "region"], "south"),
        (["init", "--capacity", "9" * 5000], "capacity"),
        (["init", "--horizon", "99999999999"], "horizon"),
        (["plan", "--round", "99999999999999999999"], "round"),
        (["plan", "--round", "5"], "round 5 is over"),
        (["record"], "give a file"),
        (["record", "--sample"], "planned"),
        (["record", "none.csv", "--sample"], "not both"),
        (["export", "plan"], "no plan yet"),
        (["trial"], "there is no trial; to make one give its arms"),
        (["trial", "--arms", "softfair,magic"], "no arm 'magic'"),
        (["trial", "--arms", "softfair,usual", "--share", "0.5,0.6"], "sum to 110%; make it 100%"),
        (["trial", "--arms", "softfair,usual", "--share", "1,0"], "above 0"),
        (["trial", "--arms", "softfair,usual", "--sites", "planet"], "no group column"),
        (["trial", "--arms", "softfair,lottery,usual", "--sites", "language"], "at least 2"),
        (["export", "audit", "--out", "x.pdf"], "csv"),
    ],
)
def test_bad_words_are_one_line(sample_folder, words, said):
    assert said in refused(*words, folder=sample_folder)


def test_bad_rows_are_listed_and_no_name_goes_to_the_log(sample_folder, tmp_path):
    rows = "P001,1,1\n" + "".join(f"stranger-{i},1,1\n" for i in range(30))
    done = run(
        "import",
        "history",
        "-",
        "--errors",
        tmp_path / "all.csv",
        folder=sample_folder,
        text=f"id,round,state\n{rows}",
    )
    assert done.returncode == 2
    assert done.stdout.count("stranger-") == 20
    assert "and 10 more" in done.stdout
    assert "stranger" not in done.stderr
    assert "30 bad entries in 30 rows, the first in line 3, column id" in done.stderr
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 31


def test_names_that_look_like_markup(tmp_path):
    names = ["12[a]", "[/x]", "[bold]b", "$\\frac$"]
    rows = "".join(f"{name},{name}\n" for name in names)
    well("init", "--capacity", 4, "--seed", 0, folder=tmp_path)
    told = well("import", "people", "-", text=f"id,region\n{rows}", folder=tmp_path)
    assert "Taken as groups: region." in told
    assert "drawn by lottery" in refused("plan", folder=tmp_path)
    shown = well("plan", "--yes", folder=tmp_path)
    assert all(name in shown for name in names)
    well("record", "-", "--close", text="id\n12[a]\n", folder=tmp_path)
    well("audit", "--html", "audit.html", folder=tmp_path)
    assert "12[a]" not in well("export", "audit", folder=tmp_path).replace(
        "region", ""
    )  # a group of one is not told


@pytest.mark.slow
def test_a_worksheet_goes_to_its_own_round(tmp_path):
    well("init", "--sample", folder=tmp_path)
    well("plan", folder=tmp_path)
    well("export", "plan", "--out", "first.csv", folder=tmp_path)
    assert "round 21, not of round 22" in refused(
        "record", "first.csv", "--round", 22, folder=tmp_path
    )
    untouched = well("record", "first.csv", folder=tmp_path)
    assert "Round 21: nothing told of contacts." in untouched
    assert "stays open" in untouched
    assert "Round 21 is over" in well("record", "--close", folder=tmp_path)
    well("plan", folder=tmp_path)
    assert "Round 22:" in well("record", "--sample", folder=tmp_path)


def test_the_sample_is_not_put_among_real_people(tmp_path):
    well("init", folder=tmp_path)
    well("import", "people", "-", text="id\na\n", folder=tmp_path)
    assert "1 people of its own" in refused("init", "--sample", folder=tmp_path)


@pytest.mark.slow
def test_exports_follow_the_mask(sample_folder):
    command = "import os; os.umask(0o077); from softfair.cli import main; main()"
    words = ["export", "audit", "--out", "secret.csv"]
    subprocess.run(
        [sys.executable, "-c", command, *words], cwd=sample_folder, check=True, capture_output=True
    )
    assert (sample_folder / "secret.csv").stat().st_mode & 0o777 == 0o600


def test_a_damaged_plan_is_reported(tmp_path):
    import sqlite3

    well("init", "--sample", folder=tmp_path)
    well("plan", folder=tmp_path)
    with sqlite3.connect(tmp_path / "softfair.db") as connection:
        connection.execute("UPDATE plan_row SET probability = 0.5 WHERE person = 1")
    said = refused("check", folder=tmp_path)
    assert "2 things are not as they were committed" in said
    assert "plan_row: entry" in said
    told = json.loads(well("audit", "--json", folder=tmp_path))["findings"]
    assert told[0].startswith("Look: 2 things not as committed, the first: plan_row: entry")


@pytest.mark.slow
def test_a_closed_pipe_ends_a_command_without_complaint(tmp_path):
    """`softfair ... | head -1` ends without a complaint, though more output would follow."""
    many = "".join(f"q{i}\n" for i in range(20_000))
    well("init", "--sample", folder=tmp_path)
    well("import", "people", "-", folder=tmp_path, text=f"id\n{many}")
    well("plan", "--json", folder=tmp_path)
    command = [
        sys.executable,
        "-c",
        "from softfair.cli import main; main()",
        "export",
        "plan",
        "--all",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as running:
        assert running.stdout.readline().startswith("id,")
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 0


def test_the_direction_of_a_column_follows_the_sign_of_its_interval():
    above, below, around = [0.5, 0.2, 0.8], [-0.5, -0.8, -0.2], [0.1, -0.2, 0.4]
    told = [["age", "", above, below], ["site", "n", below, around], ["sex", "f", around, around]]
    known = {"columns": ["age", "site", "sex"], "told": told, "left_out": ["id is not used"]}
    model = SimpleNamespace(summary=Summary.from_json(json.dumps(known)))
    assert _said_of_columns(model, "90%", "good") == [
        "id is not used",
        "a higher age goes with more chance of good next without a contact (90% interval)",
        "a higher age goes with less chance that a contact helps (90% interval)",
        "site n goes with less chance of good next without a contact (90% interval)",
        "nothing can be told by sex",
    ]


@pytest.mark.parametrize(
    ("interval", "told"),
    [
        ([0.12, 0.04, 0.2], "a contact changes the chance of good next by +0.12 on average"),
        ([-0.12, -0.2, -0.04], "a contact changes the chance of good next by -0.12 on average"),
        ([0.04, -0.04, 0.12], "no effect of a contact on the chance of good next can be told yet"),
        ([0.04, 0.0, 0.12], "no effect of a contact on the chance of good next can be told yet"),
    ],
)
def test_an_effect_is_reported_if_its_interval_excludes_zero(interval, told):
    summary = Summary.from_json(json.dumps({"monotone_bound": 0, "effect": [interval, interval]}))
    P = np.full((3, 2, 2, 2), 0.5)
    nothing = np.zeros((3, 2, 2), int)
    model = Model(1, "", 0, summary, P, P, P, nothing, np.zeros(3, bool))
    lines = [line for line in _said(model, Settings()) if "effect" in line or "changes" in line]
    _, low, high = interval
    assert lines == [
        f"{s}: {told} (90% interval {low:+.2f} to {high:+.2f})" for s in ("bad", "good")
    ]


def test_only_infinite_numbers_become_inf_in_json():
    value = {"name": "Infinity", "since": [{"c": float("inf"), "day": date(2026, 1, 5)}, 0.5]}
    told = {"name": "Infinity", "since": [{"c": "inf", "day": "2026-01-05"}, 0.5]}
    assert json.loads(to_json(value)) == told
