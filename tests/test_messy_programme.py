"""Ten weeks of a programme with the files of `messy`, from the first import to the audit.

The contents of the database at the end are compared with what happened in the made-up world, which
uses no code of the package.
"""

import json

import numpy as np
import pytest
import shell
from messy import World, fill, minutes_file

from softfair.errors import InvalidInput, Unsure
from softfair.programme.audit import audit
from softfair.programme.columns import ReadAs
from softfair.programme.imports import import_history, import_people
from softfair.programme.plans import make_plan, verify
from softfair.programme.records import record
from softfair.programme.retractions import retract
from softfair.programme.settings import initialise
from softfair.programme.snapshot import load_people
from softfair.programme.standing import standing
from softfair.programme.store import Store
from softfair.programme.tracks import load_history
from softfair.programme.worksheets import write_worksheets

NAME = "softfair test"
WEEKS = 12  # of history
MAPPED = ReadAs({"value": "Minutes"})


def one_week(database, world, folder, week):
    """Worksheets go out; one comes back twice, another late; another system sends the minutes.

    Returns
    -------
    dict
        Who of the list was reached.
    """
    plan, new = make_plan(database, NAME)
    assert (plan.round, new) == (week, True)
    sheets = write_worksheets(database, plan, folder, "Worker", ("Full name", "Phone"), "xlsx")
    told, minutes = world.live(plan.list)
    record(database, minutes_file(world, minutes), NAME, how=MAPPED)
    for path in sheets.files:
        assert make_plan(database, NAME)[0].round == week  # open until the last sheet is in
        filled = fill(path.read_bytes(), told)
        done = record(database, filled, NAME)
        assert record(database, filled, NAME).before
    assert done.recorded.closed
    return told


def incident(database, week):
    """A slip now and then, each undone or refused."""
    if week == 14:
        with pytest.raises(Unsure):
            record(database, b"id\n00007\n", NAME, round=35)
    elif week == 15:
        done = record(database, b"id\n8\n", NAME, round=35, sure=True)
        assert standing(database).next_round == 36
        retract(database, NAME, done.batch, "25 was meant")
        assert standing(database).next_round == 15
    elif week == 16:
        with pytest.raises(InvalidInput):
            import_history(database, b"Person,Week of,Minutes\n7,210,4\n", NAME)
    elif week == 17:
        import_people(database, b"Beneficiary ID,Opt-out\n9,yes\n", NAME)
    elif week == 18:
        initialise(database, NAME, exceptions={18: "50%"})


@pytest.mark.slow
def test_ten_weeks(url, tmp_path):
    world, database = World(n=90, weeks=WEEKS, seed=4), Store(url)
    initialise(database, NAME, seed=1, capacity=12, first_day="2027-01-04")
    done = import_people(database, world.people_file(), NAME, how=ReadAs(twins="together"))
    assert set(done.kept) == {"Full name", "Phone"}
    assert done.groups == ("Region", "Worker")
    history = world.history_file()
    with pytest.raises(InvalidInput, match="threshold"):
        import_history(database, history, NAME, how=MAPPED)
    done = import_history(database, history, NAME, threshold="3", how=MAPPED)
    assert done.rows == 90 * (WEEKS + 1)
    happened = {}
    for week in range(WEEKS + 1, WEEKS + 11):
        incident(database, week)
        before = world.state.copy()
        happened[week] = one_week(database, world, tmp_path / f"{week}", week), before
    with database.reading() as connection:
        people, known = load_people(connection), load_history(connection)
    assert people.names == world.ids  # 90 people, whatever their zeros looked like
    assert sorted({json.loads(text)["Region"] for text in people.groups}) == [
        "Nagpur",
        "Nashik",
        "Pune",
    ]
    for week, (told, before) in happened.items():
        seen, contacted = known.of(week, 90)
        noted = seen >= 0
        np.testing.assert_array_equal(seen[noted], before[noted])
        assert noted.mean() > 0.8
        listed = np.array([world.ids.index(name) for name in told])
        np.testing.assert_array_equal(contacted[listed], list(told.values()))
        assert contacted.sum() == sum(told.values())
        assert len(told) == (6 if week == 18 else 12)
        assert "00009" not in told or week < 17
    np.testing.assert_array_equal(known.of(WEEKS + 11, 90)[0], world.state)
    assert all(not verdict.wrong for verdict in verify(database))
    found = audit(database)
    assert [row.reached for row in found.rounds] == [
        sum(told.values()) for told, _ in happened.values()
    ]
    assert "+91" not in json.dumps(found.to_dict())
    _look_around(url, tmp_path, world)


def _look_around(url, folder, world):
    """Check the output of the commands at the end."""

    def said(*words):
        done = shell.run(*words, folder=folder, SOFTFAIR_DB=url, COLUMNS="160")
        assert done.returncode == 0, done.stderr
        return done.stdout

    status = said("status")
    assert "Next: round 23 (2027-06-07 to 2027-06-13), not planned yet." in status
    assert "Last: round 22 (2027-05-31 to 2027-06-06):" in status
    log = said("log", "--last", "100")
    assert "25 was meant" in log
    assert "+91" not in status + log
    person = said("person", "7")
    assert "00007" in person
    assert "round 1 (2027-01-04 to 2027-01-10)" in person
    assert "threshold: None -> 3" in said("history")
    said("backup", "copy.db")
    assert said("status", "--db", "copy.db") == status
    done = shell.run(
        "record", "--round", "2000000000", "-", folder=folder, SOFTFAIR_DB=url, text="id\n00007\n"
    )
    assert done.returncode == 2
