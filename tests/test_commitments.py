"""A trial in two steps: the commitment, the luck that comes later, and the reports of both."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import village
from scipy import stats
from test_luck import SECRET, chain  # noqa: F401
from test_luck import signature as signed_by
from typer.testing import CliRunner

from softfair.cli import app
from softfair.errors import InvalidInput, Unsure
from softfair.programme import chain as log
from softfair.programme import imports, schema, trials
from softfair.programme.assignment import assigned, draft_of, is_frozen_in, load_trial
from softfair.programme.audit import audit
from softfair.programme.checks import check
from softfair.programme.commitments import OF_TRIAL, last_trial_committed, luck_of_trial
from softfair.programme.journal import journal
from softfair.programme.luck import QUICKNET, TRIAL, Beacon, Luck, Source
from softfair.programme.plans import PlanWish, commit_plan, draw_plan, make_plan, open_commitment
from softfair.programme.records import record
from softfair.programme.settings import current_settings, initialise
from softfair.programme.standing import standing
from softfair.programme.store import Store, names_of
from softfair.programme.trials import Wish, assign, commit_trial, draw_trial, waiting_trial

NAME = village.NAME
HALVES = Wish(("softfair", "usual"), (0.5, 0.5), balance=("village",), rounds=2)


def filled(database):
    initialise(database, NAME, capacity=8, seed=2**90)
    imports.import_people(database, village.people_file(), NAME)
    imports.import_history(database, village.history_file(), NAME)
    return database


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A programme with a trial that is committed for round 13."""
    database = filled(Store(str(tmp_path_factory.mktemp("committed") / "a.db")))
    commit_trial(database, NAME, HALVES)
    return database


@pytest.fixture
def committed(original, tmp_path):
    shutil.copy(original.name, tmp_path / "a.db")
    return Store(str(tmp_path / "a.db"))


def test_commit_then_assign(url):
    database = filled(Store(url))
    made, new = commit_trial(database, NAME, HALVES)
    assert (new, made.round, made.fresh_digest()) == (True, 13, made.digest)
    assert waiting_trial(database).code == made.code
    assert open_commitment(database) is None  # of a plan
    again, new = commit_trial(database, f"{NAME} later", HALVES)
    assert (new, again.code) == (False, made.code)
    # What happens between the commitment and the draw changes nothing of the trial.
    more = "id,village,opted_out\nnew1,a,0\nv03,,1\nv04,c,0\n"
    imports.import_people(database, more.encode(), NAME)
    trial = draw_trial(database, " dice  3 5\t6 ")
    assert (trial.luck.text, trial.luck.commitment) == ("dice 3 5 6", made.id)
    assert trial.person.tolist() == list(range(40))
    assert np.bincount(trial.arm).tolist() == [20, 20]
    assert check(database).wrong == ()
    with database.reading() as connection:
        again, names = load_trial(connection), names_of(connection)
        _, settings = current_settings(connection)
    assert (again.luck, again.key, again.chosen) == (trial.luck, trial.key, trial.chosen)
    key = Luck(Source.TEXT, "dice356").key(settings.seed, 13, TRIAL)  # what counts of it
    assert np.array_equal(assigned(key, names[:40], trial.X, trial.counts)[0], trial.arm)
    assert waiting_trial(database) is None
    with pytest.raises(InvalidInput, match=r"has a trial already.*assigned once"):
        draw_trial(database, "dice 1 1 1")
    plan, _ = make_plan(database, NAME)  # within the arms
    assert {one.arm for one in plan.sites} == {"softfair"}


def test_luck_from_outside_has_the_law_of_the_programmes_own():
    """8 units, 4 of them in each arm, of 3 tries the most balanced: how often each of the 70
    assignments comes up in 3,000 draws by texts and in as many by seeds, a chi-square at 1e-6."""
    X = np.random.default_rng(6).normal(size=(8, 2))
    names, counts = [f"u{i}" for i in range(8)], np.array([4, 4])
    found = np.zeros((2, 256))
    for number in range(3000):
        keys = (
            Luck(Source.TEXT, f"dice {number}", commitment=1).key(7, 13, TRIAL),
            Luck(Source.PROGRAMME).key(number, 13, TRIAL),
        )
        for row, key in enumerate(keys):
            arm, _ = assigned(key, names, X, counts)
            found[row, int(arm @ 2 ** np.arange(8))] += 1
    seen = found[:, found.sum(axis=0) > 0]
    assert 20 < seen.shape[1] <= 70
    assert stats.chi2_contingency(seen[:, seen.sum(axis=0) >= 10]).pvalue > 1e-6
    chance = np.array([found[:, np.arange(256) >> i & 1 == 1].sum() for i in range(8)]) / 6000
    assert (np.abs(chance - 0.5) < 5 * 0.5 / 6000**0.5).all()


def test_luck_before_a_commitment(tmp_path):
    database = filled(Store(str(tmp_path / "a.db")))
    with pytest.raises(InvalidInput, match=r"no trial is committed; luck comes after .* --commit"):
        draw_trial(database, "dice 1 2 3")
    commit_plan(database, NAME)  # of a plan, which is no trial's
    with pytest.raises(InvalidInput, match="no trial is committed"):
        draw_trial(database, "dice 1 2 3")
    with pytest.raises(InvalidInput, match="round 13 is planned or committed already"):
        commit_trial(database, NAME, HALVES)


def test_luck_is_used_once_for_plans_and_trials(committed):
    trial = draw_trial(committed, "dice 1 2 3", Source.WORD)
    assert "Assigned with a second person's word" in trial.luck.sentence("Assigned")
    commit_plan(committed, NAME)
    with pytest.raises(InvalidInput, match="the same luck was used for the trial"):
        draw_plan(committed, "dice  1 2 3")
    draw_plan(committed, "dice 3 2 1")
    assert check(committed).wrong == ()


def test_luck_of_a_plan_is_none_of_a_trial(tmp_path):
    database = filled(Store(str(tmp_path / "a.db")))
    commit_plan(database, NAME)
    plan = draw_plan(database, "dice 1 2 3")
    rows = "".join(f"{plan.names[i]},0,1\n" for i in plan.person)
    record(database, f"id,contacted,state\n{rows}".encode(), NAME, close=True)
    commit_trial(database, NAME, HALVES)
    with pytest.raises(InvalidInput, match="the same luck was used for round 13"):
        draw_trial(database, "dice 1 2 3")
    for nothing in ("", "  ", "x" * 2000, "a\x00b"):
        with pytest.raises(InvalidInput, match="write down what everybody saw"):
            draw_trial(database, nothing)
    assert draw_trial(database, "dice 4 5 6").first == 14


@pytest.mark.slow
def test_a_beacon_assigns_what_is_committed(tmp_path, chain):  # noqa: F811
    database = filled(Store(str(tmp_path / "a.db")))
    at = commit_trial(database, NAME, HALVES, chain=chain)[0].beacon
    refused = {
        "too early": Beacon(chain.name, at - 1, signed_by(SECRET, at - 1)),
        "too late": Beacon(chain.name, at + 1, signed_by(SECRET, at + 1)),
        "forged": Beacon(chain.name, at, signed_by(SECRET + 1, at)),
    }
    for said, beacon in refused.items():
        with pytest.raises(InvalidInput, match=said):
            draw_trial(database, beacon, chain=chain)
    trial = draw_trial(database, Beacon(chain.name, at, signed_by(SECRET, at)), chain=chain)
    assert trial.luck.beacon.round == at
    assert check(database, beacons=chain).wrong == ()
    assert any("not the one that was announced" in one for one in check(database).trial)
    assert QUICKNET.public_key != chain.public_key


def test_a_trial_is_committed_anew_for_a_reason(committed):
    first, other = waiting_trial(committed), replace(HALVES, shares=(0.6, 0.4))
    with pytest.raises(InvalidInput, match=f"another trial is committed, .*{first.code}"):
        commit_trial(committed, NAME, other)
    with pytest.raises(InvalidInput, match="for a reason; say it"):
        commit_trial(committed, NAME, other, anew=" ")
    with pytest.raises(InvalidInput, match=f"a trial is committed, with the code {first.code}"):
        assign(committed, NAME, HALVES)
    second, new = commit_trial(committed, NAME, other, anew="mistyped")
    assert new
    assert second.parts()[OF_TRIAL]["anew"] == "mistyped"
    trial = draw_trial(committed, "dice 1 2 3")
    assert np.bincount(trial.arm).tolist() == [24, 16]
    assert check(committed).wrong == ()
    make_plan(committed, NAME)
    found = audit(committed)
    assert found.trial.undrawn == 1
    assert any("1 commitment of a trial never drawn" in line for line in found.findings)
    assert not any(row.commitments for row in found.deeds)  # of plans none was
    assert any("Assigned with public luck: dice 1 2 3." in line for line in found.findings)
    with pytest.raises(InvalidInput, match="has a trial already"):
        commit_trial(committed, NAME, other, anew="once more")


def test_without_a_commitment_there_is_nothing_to_commit_anew(tmp_path):
    database = filled(Store(str(tmp_path / "a.db")))
    with pytest.raises(InvalidInput, match="leave --anew out"):
        commit_trial(database, NAME, HALVES, anew="why not")
    made = assign(database, NAME, HALVES)
    make_plan(database, NAME)
    assert (made.luck, audit(database).trial.undrawn) == (Luck(Source.PROGRAMME), 0)
    said = standing(database).trial
    assert said.endswith("programme's own luck: whoever holds the database could have known it.")


def test_a_list_before_the_luck_ends_the_trial(committed):
    code = waiting_trial(committed).code
    assert code in standing(committed).waits
    assert standing(committed).trial is None
    assert standing(committed).due == (
        "softfair trial --luck TEXT: the trial that is committed waits for its luck",
    )
    for make in (make_plan, commit_plan):
        with pytest.raises(Unsure, match=f"a trial of this round is committed, .*{code}"):
            make(committed, NAME)
    make_plan(committed, NAME, PlanWish(sure=True))
    assert standing(committed).waits is None
    with pytest.raises(InvalidInput, match=f"with the code {code} can begin no more"):
        draw_trial(committed, "dice 1 2 3")


def test_a_round_that_is_over_ends_the_trial_too(committed):
    rows = "".join(f"v{i:02d},0,1\n" for i in range(40))
    text = f"id,contacted,state\n{rows}".encode()
    record(committed, text, NAME, round=13, sure=True, close=True)
    assert waiting_trial(committed) is None
    with pytest.raises(InvalidInput, match="its first round, 13, is over, planned or committed"):
        draw_trial(committed, "dice 1 2 3")
    second, new = commit_trial(committed, NAME, HALVES)
    assert (second.round, new) == (14, True)


def test_a_draw_that_is_killed_leaves_the_commitment_as_it_was(committed):
    """At its end, when every row is written."""
    code = f"""
import os
from softfair.programme import chain, store, trials
chain.seal = lambda *_: os.kill(os.getpid(), 9)
trials.draw_trial(store.Store({committed.name!r}), "dice 1 2 3")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert trials.trial_of(committed) is None
    assert waiting_trial(committed) is not None
    assert check(committed).wrong == ()
    draw_trial(committed, "dice 1 2 3")  # luck that nothing was drawn with
    assert check(committed).wrong == ()


def test_the_journal_names_the_account(committed):
    code = waiting_trial(committed).code
    draw_trial(committed, "dice 1 2 3")
    told = {act.what: (act.round, act.note) for act in journal(committed)}
    assert told["commit"] == (13, f"a trial, all but its luck: code {code}")
    assert told["trial"] == (13, "rounds 13 to 14, arms assigned with public luck: dice 1 2 3")


# What is frozen cannot change unseen.


def rewritten(database, *statements):
    """Somebody with write access alters rows, and writes the log anew so that it agrees."""
    with sqlite3.connect(database.name) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("DELETE FROM link")
    with (
        database.engine.connect().execution_options(softfair="write") as connection,
        connection.begin(),
    ):
        log.seal(connection, schema.tables, "2027-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE commitment SET created = 'later'", "commitment before it is not what"),
        ("UPDATE commitment SET round = 14", "commitment before it is not what"),
        ("UPDATE commitment SET beacon = 1", "commitment before it is not what"),
        ("UPDATE commitment SET header = replace(header, '13', '14')", "not what was committed"),
        ("UPDATE commitment SET header = '{}'", "gone or cannot be read"),
        ("UPDATE commitment SET content = x'00'", "gone or cannot be read"),
        ("UPDATE commitment SET digest = 'aa'", "commitment before it is not what"),
        ("UPDATE commitment SET id = 7", "gone or cannot be read"),
        ("DELETE FROM commitment", "gone or cannot be read"),
        ("UPDATE trial SET design = replace(design, 'dice', 'cubes')", "seed does not follow"),
        ("UPDATE trial SET seed = '00'", "seed does not follow"),
        ("UPDATE trial SET software = 'another'", "committed with the code"),
        ("UPDATE trial SET last = 15", "committed with the code"),
        ("UPDATE trial SET power = '{}'", "committed with the code"),
        ("UPDATE trial SET design = replace(design, 'usual', 'lottery')", "with the code"),
        ("UPDATE trial SET design = replace(design, '0.5, 0.5', '0.4, 0.6')", "with the code"),
        ("DELETE FROM assignment WHERE person = 39", "committed with the code"),
        ("UPDATE assignment SET arm = 1 - arm WHERE person = 5", "arms are not what"),
        ("UPDATE assignment SET unit = 39 - unit", "committed with the code"),
        ("UPDATE person SET name = 'x' || name WHERE id < 2", "committed with the code"),
    ],
)
def test_every_column_is_held_to_the_code(committed, statement, said):
    """Also if the log was rewritten so that it agrees with every row."""
    draw_trial(committed, "dice 1 2 3")
    rewritten(committed, statement)
    found = check(committed)
    assert not any(line.startswith(("commitment:", "trial:")) for line in found.faults)
    assert any(said in line for line in found.trial)


def test_luck_from_outside_needs_a_commitment(committed):
    trial = draw_trial(committed, "dice 1 2 3")
    number = f'"commitment": {trial.luck.commitment}'
    old, new = (json.dumps(part)[1:-1] for part in (number, '"commitment": null'))
    rewritten(committed, f"UPDATE trial SET design = replace(design, '{old}', '{new}')")
    assert check(committed).trial == (
        "the trial: its luck is said to be from outside, and nothing was committed",
    )


def test_names_of_people_are_part_of_a_plans_code(tmp_path):
    """Luck depends on names: who renames people after it is known could choose the list."""
    database = filled(Store(str(tmp_path / "a.db")))
    commit_plan(database, NAME)
    draw_plan(database, "dice 1 2 3")
    assert check(database).wrong == ()
    rewritten(database, "UPDATE person SET name = 'x' || name WHERE id < 2")
    assert any("committed with the code" in line for line in check(database).verdicts[0].wrong)


def test_a_draft_is_frozen_as_it_is(committed):
    draft = draft_of(waiting_trial(committed))
    with committed.reading() as connection:
        names, last = names_of(connection), last_trial_committed(connection)
    assert is_frozen_in(last, draft, names)
    for part in ({"first": 14}, {"X": draft.X + 1}, {"person": draft.person[::-1]}):
        assert not is_frozen_in(last, replace(draft, **part), names)
    assert not is_frozen_in(last, draft, names[::-1])


def test_older_trials_have_the_programmes_own_luck():
    assert luck_of_trial('{"chosen": 3}') == Luck(Source.PROGRAMME)


# The command.


def run(database, *words):
    return CliRunner().invoke(app, ["trial", "--db", database.name, *words])


def test_the_command_from_power_to_luck(tmp_path):
    database = filled(Store(str(tmp_path / "a.db")))
    arms = ("--arms", "softfair,usual", "--rounds", "2")
    assert "Nobody is assigned yet. It would be a trial of rounds 13 to 14" in (
        run(database, *arms, "--power").output
    )
    assert trials.trial_of(database) is None
    said = run(database, *arms, "--commit").output
    code = waiting_trial(database).code
    assert said.startswith("Committed: a trial of rounds 13 to 14, people at random.")
    assert f"Code: {code}" in said
    assert "softfair      20  the programme's plan" in said
    assert "Then assign: softfair trial --luck TEXT" in said
    assert run(database, *arms, "--commit").output.startswith("Committed before: a trial")
    assert code in run(database).output
    assert json.loads(run(database, "--json").output)["commitment"]["code"] == code
    said = run(database, "--luck", "dice 4 2").output
    assert "Assigned with public luck: dice 4 2." in said
    assert f"It was committed before, with the code {code}." in said
    shown = json.loads(run(database, "--json").output)
    assert (shown["luck"], shown["code"]) == ("Assigned with public luck: dice 4 2.", code)
    assert [row["people"] for row in shown["arms"]] == [20, 20]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "there is no trial; to make one give its arms"),
        (("--rounds", "3"), "which arms? give at least two"),
        (("--commit",), "which arms? give at least two"),
        (("--commit", "--luck", "dice"), "give one of them"),
        (("--power", "--commit"), "give one of them"),
        (("--luck", "dice", "--beacon", "x.json"), "give one of them"),
        (("--arms", "softfair,usual", "--luck", "dice"), "assigned as it is"),
        (("--arms", "softfair,usual", "--anew", "why"), "give it with --commit"),
        (("--arms", ","), "the arms are none; give at least two"),
        (("--arms", "Softfair,USUAL,magic"), "no arm 'magic'"),
        (("--luck", "dice"), "no trial is committed; luck comes after a commitment"),
        (("--beacon", "missing.json"), "cannot read missing.json"),
    ],
)
def test_what_the_command_refuses(tmp_path, words, said):
    database = Store(str(tmp_path / "a.db"))
    initialise(database, NAME, capacity=8, seed=1)
    imports.import_people(database, village.people_file(), NAME)
    with pytest.raises(InvalidInput, match=said.replace("?", r"\?")):
        raise run(database, *words).exception
