"""The programme with real files: dates, spreadsheets, retractions, and the status."""

import io
import json
import re
from datetime import date, timedelta

import numpy as np
import openpyxl
import pytest
import shell
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from softfair.errors import BadRows, Infeasible, InvalidInput, Unsure
from softfair.programme import sample, schema
from softfair.programme.aims import Target
from softfair.programme.audit import audit
from softfair.programme.backup import backup, restore
from softfair.programme.biography import biography
from softfair.programme.bulk import UNKNOWN
from softfair.programme.changes import since_plan
from softfair.programme.columns import ReadAs
from softfair.programme.commands.giving_out import _tell_which
from softfair.programme.dates import DAY_FIRST, MONTH_FIRST, Calendar, day_said, days_of
from softfair.programme.eligibility import Status
from softfair.programme.imports import import_history, import_people
from softfair.programme.journal import journal, settings_history
from softfair.programme.models import fit
from softfair.programme.ordering import ordering_of
from softfair.programme.plans import PlanWish, make_plan, plan_of, verify
from softfair.programme.records import close_round, record
from softfair.programme.retractions import retract
from softfair.programme.settings import current_settings, initialise
from softfair.programme.snapshot import load_details, load_people, take_snapshot
from softfair.programme.standing import standing
from softfair.programme.store import Store
from softfair.programme.tables import plan_table, write_table
from softfair.programme.thresholds import change_threshold
from softfair.programme.tracks import History, load_history
from softfair.programme.words import percent
from softfair.programme.worksheets import write_worksheets

NAME = "softfair test"
MONDAY = date(2027, 1, 4)


@pytest.fixture
def light(light):
    """A programme of six people on SQLite."""
    initialise(light, NAME, seed=0, capacity=2)
    import_people(light, b"id\na\nb\nc\nd\ne\nf\n", NAME)
    return light


@pytest.fixture
def programme(database):
    """The sample programme, on both databases."""
    initialise(database, NAME, seed=0, capacity=30)
    import_people(database, sample.people_file(), NAME)
    import_history(database, sample.history_file(), NAME)
    return database


def known(database):
    """The entries that are in force."""
    with database.reading() as connection:
        people, history = load_people(connection), load_history(connection)
        facts = (people.enrolled, people.departed, people.opted_out, people.reserved)
        here = [i for i in range(people.n) if i not in people.unnamed]
        return (
            [people.names[i] for i in here],
            [people.groups[i] for i in here],
            [[int(column[i]) for i in here] for column in facts],
            [column.tolist() for column in history.rows()],
        )


def workbook(*rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


# Dates.


@pytest.mark.parametrize(
    ("text", "order", "day"),
    [
        ("2027-01-04", DAY_FIRST, MONDAY),
        ("2027-01-04 00:00:00", DAY_FIRST, MONDAY),
        ("2027/1/4", MONTH_FIRST, MONDAY),
        ("4/1/2027", DAY_FIRST, MONDAY),
        ("1/4/2027", MONTH_FIRST, MONDAY),
        ("04.01.27", MONTH_FIRST, MONDAY),  # with points the day is first
        ("4 Jan 2027", DAY_FIRST, MONDAY),
        ("Mon, 4-January-2027", DAY_FIRST, MONDAY),
        ("January 4, 2027", DAY_FIRST, MONDAY),
        ("2027-W01", DAY_FIRST, MONDAY),
        ("20270104", DAY_FIRST, MONDAY),
        ("46391", DAY_FIRST, MONDAY),  # as Excel counts days
        ("13/13/2027", DAY_FIRST, None),
        ("21", DAY_FIRST, None),
        ("1.5", DAY_FIRST, None),
        ("", DAY_FIRST, None),
        ("2000000000", DAY_FIRST, None),
    ],
)
def test_days(text, order, day):
    assert day_said(text, order) == day


@given(
    st.dates(date(2000, 1, 1), date(2090, 1, 1)),
    st.sampled_from([(1, 0), (7, 0), (10, 0), (0, 1), (0, 3)]),
    st.integers(0, 4000),
)
def test_every_day_is_in_one_round(first, length, later):
    calendar, day = Calendar(first, *length), first + timedelta(days=later)
    at = calendar.round_of(day)
    assert calendar.start(at) <= day <= calendar.end(at)
    assert calendar.end(at) + timedelta(days=1) == calendar.start(at + 1)


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["13/01/2027", "3/2/2027"], DAY_FIRST),
        (["01/13/2027", "3/2/2027"], MONTH_FIRST),
        # The 1st, 8th and 15th of February 2027 are Mondays; as months they are scattered.
        (["1/2/2027", "8/2/2027", "3/1/2027"], None),
        (["4/1/2027", "11/1/2027", "1/2/2027"], DAY_FIRST),
    ],
)
def test_day_and_month_are_told_apart_by_the_column(texts, order):
    if order is None:
        with pytest.raises(InvalidInput, match="--dates day-first or --dates month-first"):
            days_of(texts, None, "round", "x.csv")
    else:
        assert days_of(texts, None, "round", "x.csv")[1] == order
    assert days_of(texts, MONTH_FIRST, "round", "x.csv")[1] == MONTH_FIRST


def test_a_history_with_dates(light):
    text = b"id,round,state,contacted\na,4/1/2027,1,0\na,11/1/2027,0,1\na,25/1/2027,1,0\n"
    import_history(light, text, NAME)
    with light.reading() as connection:
        _, settings = current_settings(connection)
        assert load_history(connection).rounds.tolist() == [1, 2, 4]
    assert settings.first_day == "2027-01-04"
    assert settings.called(2) == "round 2 (2027-01-11 to 2027-01-17)"
    import_history(light, b"id,round,state\na,2027-02-01,1\n", NAME)
    assert known(light)[3][1] == [1, 2, 4, 5]
    with pytest.raises(InvalidInput, match="dates of 2 files"):
        initialise(light, NAME, first_day="2027-01-05")
    with pytest.raises(BadRows) as caught:
        import_history(light, b"id,round,state\na,2026-02-01,1\n", NAME)
    assert "before the programme's first day" in caught.value.faults[0].problem


@pytest.mark.parametrize("text", ["20270104", "46391", "46391.0"])
def test_numbers_of_days_are_days_and_not_rounds(light, text):
    import_history(light, f"id,round,state\na,{text},1\n".encode(), NAME)
    assert known(light)[3][1] == [1]


def test_dates_where_rounds_have_been_numbers(light):
    import_history(light, b"id,round,state\na,1,1\n", NAME)
    with pytest.raises(InvalidInput, match="softfair init --first-day"):
        import_history(light, b"id,round,state\na,2027-01-11,1\n", NAME)
    initialise(light, NAME, first_day="2027-01-04")
    import_history(light, b"id,round,state\na,2027-01-11,1\n", NAME)
    assert known(light)[3][1] == [1, 2]


def test_an_error_of_all_rows_is_reported_once(light):
    rows = "".join(f"{name},soon,1\n" for name in "abcdef")
    with pytest.raises(BadRows) as caught:
        import_history(light, f"id,round,state\n{rows}".encode(), NAME)
    (fault,) = caught.value.faults
    assert "so in all 6 rows" in fault.problem


# Slips.


def test_a_round_that_is_far_is_asked_about(light):
    rows = "".join(f"a,{r},1,0\n" for r in range(1, 21))
    import_history(light, f"id,round,state,contacted\n{rows}".encode(), NAME)
    before = known(light)
    slip = b"id,round,state,contacted\na,21,1,\nb,210,1,\n"
    with pytest.raises(Unsure, match="1 of 2 rows are of round 210 or later, 189 rounds after"):
        import_history(light, slip, NAME)
    three = b"id,round,state,contacted\na,21,1,\na,22,1,\nb,40,1,\nb,41,1,\n"
    with pytest.raises(
        Unsure, match="2 of 4 rows are of round 40 or later, 18 rounds after round 22"
    ):
        import_history(light, three, NAME)
    assert known(light) == before
    for far in (2_000_000_000, 20210104 * 100):
        with pytest.raises(BadRows):
            import_history(light, f"id,round,state\na,{far},1\n".encode(), NAME, sure=True)
    done = import_history(light, slip, NAME, sure=True)
    retract(light, NAME, done.batch, "21 was meant")
    assert known(light) == before


def test_a_record_of_a_round_that_nobody_planned_is_asked_about(programme):
    make_plan(programme, NAME)
    for round in (35, 15):
        with pytest.raises(Unsure, match=f"nobody planned round {round}; the one .* round 21"):
            record(programme, b"id\nP001\n", NAME, round=round)
    with pytest.raises(InvalidInput, match="mend the round"):
        record(programme, b"id\nP001\n", NAME, round=2_000_000_000, sure=True)
    with pytest.raises(Unsure, match="up to round 22, and the next round to plan is 21"):
        import_history(programme, b"id,round,contacted\nP001,22,1\n", NAME)
    with programme.reading() as connection:
        assert take_snapshot(connection).next_round() == 21


def test_the_same_record_again_when_two_rounds_are_planned(programme):
    for round in (21, 22):
        make_plan(programme, NAME, PlanWish(round=round, sure=True))
    text = sample.outcome_file(programme, 21)
    first = record(programme, text, NAME)
    before = known(programme)
    again = record(programme, text, NAME)
    assert (again.before, again.batch, again.round) == (True, first.batch, 21)
    with pytest.raises(Unsure, match="recorded as round 21"):
        record(programme, text, NAME, round=22)
    assert known(programme) == before


def test_a_file_that_is_not_of_contacts(programme):
    """A file without a known column of contacts does not make everybody contacted."""
    make_plan(programme, NAME)
    with pytest.raises(Unsure, match="no column contacted, state or value"):
        record(programme, b"id,minutes\nP001,3\nP002,4\n", NAME)
    everybody = "".join(f"P{i:03d}\n" for i in range(1, 301))
    with pytest.raises(Unsure, match="270 people contacted who were not on the list of 30"):
        record(programme, f"id\n{everybody}".encode(), NAME)


def test_a_lottery_is_asked_about_and_a_history_that_says_nothing_stops(light):
    with pytest.raises(Unsure, match="there is no history yet"):
        make_plan(light, NAME)
    with pytest.raises(InvalidInput, match="nothing can be learnt"):
        fit(light, NAME)
    rows = "".join(f"a,{r},1,0\n" for r in (1, 3, 5))
    import_history(light, f"id,round,state,contacted\n{rows}".encode(), NAME)
    for do in (lambda: fit(light, NAME), lambda: make_plan(light, NAME)):
        with pytest.raises(InvalidInput, match="all its rounds are 2 apart"):
            do()
    import_history(light, b"id,round,state\na,2,1\n", NAME)
    assert (
        fit(light, NAME)[0].summary.transitions == 1
    )  # from 1 to 2; the contact of 2 is not known
    assert make_plan(light, NAME)[1]


# Retractions.


def test_a_retraction_is_as_if_the_file_had_never_come(programme):
    states = [known(programme)]
    files = [
        (import_people, b"id,region,opted_out\nP001,east,1\nnew,north,0\n"),
        (import_history, b"id,round,state,contacted\nP001,20,0,1\nP002,20,1,1\n"),
        (import_people, b"id,region\nnew,south\nP003,south\n"),
    ]
    batches = []
    for take, text in files:
        batches.append(take(programme, text, NAME).batch)
        states.append(known(programme))
    for number, before in zip(reversed(batches), reversed(states[:-1]), strict=True):
        done = retract(programme, NAME, number, "wrong file")
        assert known(programme) == before
        with pytest.raises(InvalidInput, match="retracted already"):
            retract(programme, NAME, number, "again")
    retract(programme, NAME, done.batch, "it was right")  # the first file is in force again
    assert known(programme) == states[1]
    assert import_people(programme, files[2][1], NAME).corrected == 2  # taken as new


def test_people_whom_only_a_retracted_file_named(light):
    done = import_people(light, b"id,region\nx,north\n", NAME)
    retract(light, NAME, done.batch, "a test")
    plan, _ = make_plan(light, NAME, PlanWish(sure=True))
    assert plan.status[6] == Status.UNNAMED
    with pytest.raises(BadRows):
        import_history(light, b"id,round,state\nx,1,1\n", NAME)
    import_history(light, b"id,round,state\nx,1,1\n", NAME, add_people=True)
    with light.reading() as connection:
        people = load_people(connection)
    assert (people.names[6], people.n, people.unnamed.size) == ("x", 7, 0)


def test_what_cannot_be_retracted(light):
    for number in (99, 10**20):  # the second is too large for a database
        with pytest.raises(InvalidInput, match=f"there is no batch {number};"):
            retract(light, NAME, number, "why")
    with pytest.raises(InvalidInput, match="for a reason"):
        retract(light, NAME, 1, " ")


def test_a_retracted_record_opens_its_round(programme):
    plan, _ = make_plan(programme, NAME)
    done = record(programme, sample.outcome_file(programme), NAME)
    assert done.recorded.closed
    retract(programme, NAME, done.batch, "wrong week")
    again, new = make_plan(programme, NAME)
    assert (again.round, again.digest, new) == (21, plan.digest, False)
    assert not record(programme, sample.outcome_file(programme), NAME).before


def test_the_log_names_who_did_what(programme):
    other = Store(programme.url.render_as_string(hide_password=False), who="asha")
    make_plan(other, NAME)
    done = record(other, sample.outcome_file(other), NAME)
    retract(other, NAME, done.batch, "wrong week")
    initialise(other, NAME, capacity=40)
    acts = journal(programme)
    done_by_asha = [act.what for act in acts if act.who == "asha"]
    assert sorted(done_by_asha) == ["fit", "plan", "record", "retraction", "settings"]
    notes = {(act.what, act.number): act.note for act in acts}
    assert notes["record", done.batch] == "retracted"
    assert "wrong week" in notes["retraction", done.batch + 1]
    last = settings_history(programme)[-1]
    assert (last.who, last.changes) == ("asha", {"capacity": (30, 40)})


# After the plan.


def test_an_opt_out_after_the_plan_strikes_the_name(programme):
    plan, _ = make_plan(programme, NAME)
    assert not since_plan(programme, plan)
    out, gone = plan.list[:2]
    import_people(programme, f"id,opted_out,left\n{out},1,\n{gone},,21\n".encode(), NAME)
    initialise(programme, NAME, capacity=20)
    since = since_plan(programme, plan)
    assert str(since) == "1 opted out, 1 left, capacity went from 30 to 20"
    columns = plan_table(plan, everyone=False, since=since).whole()
    assert set(columns["id"]) == set(plan.list) - {out, gone}
    # Nothing need be told of them for the round to be over.
    rows = "".join(f"{name},1\n" for name in plan.list[2:])
    assert record(programme, f"id,contacted\n{rows}".encode(), NAME).recorded.closed
    assert not since_plan(programme, plan)  # over: what came later does not matter


def test_one_early_contact_does_not_hide_that_nobody_on_the_list_was_reached(programme):
    plan, _ = make_plan(programme, NAME)
    other = next(n for i, n in enumerate(plan.names) if not plan.listed[i] and not plan.status[i])
    done = record(programme, f"id,contacted\n{other},1\n".encode(), NAME)
    assert (done.recorded.closed, done.recorded.untold) == (False, 30)
    assert make_plan(programme, NAME)[0].round == 21
    told = [finding for finding in audit(programme).findings if "nothing is told" in finding]
    assert told == ["Round 21 is open: nothing is told yet of 30 of the 30 people on its list."]
    close_round(programme, NAME)
    assert not [line for line in audit(programme).findings if "nothing is told" in line]
    with pytest.raises(InvalidInput, match="no planned round is open"):
        close_round(programme, NAME)


def test_holidays_and_absences(programme):
    initialise(programme, NAME, exceptions={21: "0", 22: "10", 23: "50%"})
    with programme.reading() as connection:
        here = np.flatnonzero(load_people(connection).opted_out == 0)[:3]
    spans = zip(here, ("22-23", "22", "23..24"), strict=True)
    rows = "".join(f"P{i + 1:03d},{span}\n" for i, span in spans)
    import_people(programme, f"id,absent\n{rows}".encode(), NAME)
    plan, _ = make_plan(programme, NAME)
    assert (plan.round, plan.listed.sum()) == (22, 10)  # round 21 is a holiday
    assert [Status(code).name for code in plan.status[here]] == ["ABSENT", "ABSENT", "IN_DRAW"]
    record(programme, sample.outcome_file(programme), NAME)
    plan, _ = make_plan(programme, NAME)
    assert (plan.round, plan.listed.sum()) == (23, 15)
    assert [Status(code).name for code in plan.status[here]] == ["ABSENT", "IN_DRAW", "ABSENT"]
    with pytest.raises(InvalidInput, match="give 0 or a share"):
        initialise(programme, NAME, capacity={"north": 5}, by="region")


# Files.


def test_a_workbook_with_a_title_and_other_names(light):
    rows = [
        ["Calls, January"],
        [],
        ["Week", "Beneficiary ID", "Doing well", "Called?", "Notes"],
        [MONDAY, "a", True, 0.0, "was away"],
        [MONDAY, "B ", False, None, None],
        [],
        [MONDAY + timedelta(days=7), "a", 0, 1, None],
    ]
    done = import_history(light, workbook(*rows), NAME)
    assert known(light)[3] == [[0, 0, 1], [1, 2, 1], [1, 0, 0], [0, 1, UNKNOWN]]
    assert done.read_as.columns == {
        "id": "Beneficiary ID",
        "round": "Week",
        "state": "Doing well",
        "contacted": "Called?",
    }
    assert any("Not read: Notes" in note for note in done.notes)
    with pytest.raises(BadRows) as caught:
        import_history(light, workbook(*rows, ["soon", "a", 1, 1, None]), NAME)
    assert [(fault.line, fault.column) for fault in caught.value.faults] == [(8, "round")]


def test_damaged_workbooks_are_refused_in_one_line(light):
    good, rng = (
        workbook(["id", "round", "state"], ["a", 1, 1], ["b", 1, 0]),
        np.random.default_rng(0),
    )
    refused = []
    for _ in range(300):
        data = bytearray(good)
        for at in rng.integers(0, len(data), rng.integers(1, 30)):
            data[at] = rng.integers(256)
        try:
            import_history(light, bytes(data[: rng.integers(4, len(data) + 1)]), NAME)
        except InvalidInput as error:
            refused.append(str(error))
    assert len(refused) > 200
    assert not any("\n" in text for text in refused)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings(light, encoding):
    text = "id;région;opted_out\nzoë;Orléans;n/a\n"
    import_people(light, text.encode(encoding), NAME)
    names, groups, *_ = known(light)
    assert names[-1] == "zoë"
    assert json.loads(groups[-1]) == {"région": "Orléans"}


def test_a_map_is_remembered_and_forgotten_with_its_file(light):
    text = "Wann,Wer,Wie\n1,a,1\n"
    with pytest.raises(InvalidInput, match="--map id=NAME"):
        import_history(light, text.encode(), NAME)
    how = ReadAs(ReadAs.parse_columns("round=Wann,id=Wer,state=Wie"))
    done = import_history(light, text.encode(), NAME, how=how)
    import_history(light, b"Wann,Wer,Wie\n2,a,0\n", NAME)
    assert known(light)[3][2] == [1, 0]
    for number in (done.batch, done.batch + 1):
        retract(light, NAME, number, "a test")
    with pytest.raises(InvalidInput, match="no column 'id'"):
        import_history(light, b"Wann,Wer,Wie\n3,a,0\n", NAME)
    wrong = ReadAs({"round": "Wenn"})
    with pytest.raises(InvalidInput, match="no column 'Wenn'"):
        import_history(light, b"id,round,state\na,3,0\n", NAME, how=wrong)


def test_identifiers_that_lost_their_zeros(tmp_path):
    database = Store(str(tmp_path / "zeros.db"))
    initialise(database, NAME)
    import_people(database, b"id\n007\n0012\n12\nP1\n", NAME)
    import_history(database, b"id,round,state\n7,1,1\n007,2,0\np1,1,1\n12,1,0\n", NAME)
    assert known(database)[3][0] == [0, 0, 2, 3]
    with pytest.raises(BadRows) as caught:
        import_history(database, b"id,round,state\n00012,1,1\n8,1,1\n", NAME)
    assert [fault.problem.partition(";")[0] for fault in caught.value.faults] == [
        "may be any of 2 persons",
        "is not a person of this programme",
    ]
    done = import_people(database, b"id,region\n7,n\n8,n\n", NAME)
    assert (done.added, done.corrected) == (1, 1)
    with pytest.raises(BadRows, match="line 3"):
        import_people(database, b"id,region\n7,n\n007,s\n", NAME)


def test_spellings_of_a_group(light):
    text = "id,place\na,Pune\nb,pune\nc,Pun\u00e9\nd,Nashik\ne,Pune\n".encode()
    with pytest.raises(InvalidInput, match=r"Pune \(2\), pune \(1\), Puné \(1\); take them as one"):
        import_people(light, text, NAME)
    apart = ReadAs(twins="apart")
    done = import_people(light, text, NAME, how=apart)
    assert len({*known(light)[1]}) == 5  # f has none
    retract(light, NAME, done.batch, "a test")
    import_people(light, text, NAME, how=ReadAs(twins="together"))
    places = [json.loads(text).get("place") for text in known(light)[1]]
    assert places == ["Pune", "Pune", "Pune", "Nashik", "Pune", None]
    import_people(light, b"id,place\nf,PUNE\n", NAME)  # remembered
    assert json.loads(known(light)[1][5])["place"] == "Pune"


def test_a_group_called_state(light):
    assert import_people(light, b"id,State\na,Kerala\n", NAME).groups == ("State",)


def test_a_threshold_is_a_setting_and_values_are_kept(programme):
    """On both databases; by hand: 5 and 7 minutes become bad when good begins at 8."""
    rows = b"id,round,value\nP001,22,3\nP002,22,5\nP003,22,7\nP004,22,9\nP005,22,n/a\n"
    import_history(programme, rows, NAME, threshold="4")
    import_history(programme, b"id,round,state\nP003,22,good\n", NAME)
    with pytest.raises(Unsure, match="8 instead of 4, 2 of 4 states"):
        change_threshold(programme, NAME, "8")
    done = change_threshold(programme, NAME, "8", sure=True)
    with programme.reading() as connection:
        state, _ = load_history(connection).of(22, 300)
        assert current_settings(connection)[1].threshold == "8"
    assert state[:5].tolist() == [0, 0, 0, 1, UNKNOWN]
    retract(programme, NAME, done.batch, "too strict")
    with programme.reading() as connection:
        assert load_history(connection).of(22, 300)[0][:4].tolist() == [0, 1, 1, 1]


# States before or after contacts.


def observed(seed, effect, after=False, aims_at_bad=False):
    """A history of 300 people and 20 weeks; ``after``: states are noted at the end of a week."""
    rng = np.random.default_rng(seed)
    rows, state = [], (rng.random(300) < 0.5).astype(int)
    for week in range(1, 21):
        chance = np.where(state == 0, 0.3, 0.1) if aims_at_bad else 0.2
        called = (rng.random(300) < chance).astype(int)
        reached = (rng.random(300) < 0.3 + 0.3 * state + effect * called).astype(int)
        noted = reached if after else state
        rows += [(i, week, noted[i], called[i]) for i in range(300)]
        state = reached
    return History.of_rows(*np.array(sorted(rows)).T)


@pytest.mark.parametrize(
    ("world", "doubtful"),
    [
        ({"effect": 0.2}, False),
        ({"effect": 0.2, "after": True}, True),
        ({"effect": 0.0}, False),
        ({"effect": 0.0, "after": True}, False),
        ({"effect": 0.2, "aims_at_bad": True}, False),
    ],
)
def test_states_that_seem_to_come_after_contacts(world, doubtful):
    """5,700 moves, a fifth of them contacted: a standard error of about .015."""
    found = ordering_of(observed(3, **world), 2, [])
    assert found.doubtful == doubtful
    shown = found.after if world.get("after") else found.before
    assert abs(shown.difference - world["effect"]) < 4 * shown.error
    assert 0.01 < shown.error < 0.02


def test_states_after_contacts_are_moved_to_the_next_round(light):
    text = b"id,round,state,contacted\na,1,1,0\na,2,0,1\n"
    import_history(light, text, NAME, after=True)
    assert known(light)[3] == [[0, 0, 0], [1, 2, 3], [UNKNOWN, 1, 0], [0, 1, UNKNOWN]]


# Statements.


def test_a_target_is_refused_while_people_have_no_site(programme):
    initialise(
        programme, NAME, capacity={"north": 10, "south": 5}, by="region", target=Target("wait", 60)
    )
    with programme.reading() as connection:
        people = load_people(connection)
    regions = [json.loads(text)["region"] for text in people.groups]
    here = people.opted_out != 1
    without = sum(r in ("east", "west") and here[i] for i, r in enumerate(regions))
    for target in (Target("wait", 60), Target("group", 0.1, "region")):
        with pytest.raises(Infeasible, match=f"; {without} people have no chance"):
            make_plan(programme, NAME, PlanWish(target=target))
    initialise(programme, NAME, target=None)
    plan, _ = make_plan(programme, NAME)
    assert 0 <= plan.outlook.sites_cost < 1
    findings = audit(programme).findings
    assert f"Look: {without} people had no chance in round 21: " in " ".join(findings)
    assert [line for line in findings if "than someone of the same site who would" in line]
    # Pairs across sites, counted one by one.
    who = np.flatnonzero(plan.status == Status.IN_DRAW)
    score, p, site = plan.score[who], plan.probability[who], plan.site[who]
    gains_less, has_more = score[:, None] < score, p[:, None] > p + 1e-12
    across = int((gains_less & has_more & (site[:, None] != site)).sum())
    assert across > 0
    assert f"in {across:,} pairs" in " ".join(findings)


def test_small_chances_are_not_nothing():
    assert [percent(p) for p in (0.0, 4e-5, 0.0004, 0.25, 0.9996, 1.0, 1e-30)] == [
        "0%",
        "0.004%",
        "0.04%",
        "25.0%",
        "99.96%",
        "100%",
        "less than 0.0000001%",
    ]


# Where things stand.


def test_with_two_planned_rounds_an_export_names_its_round(programme, capsys):
    make_plan(programme, NAME)
    _tell_which(programme, 21)
    assert capsys.readouterr().err == ""
    make_plan(programme, NAME, PlanWish(round=22, sure=True))
    _tell_which(programme, 22)
    assert "Rounds 21, 22 are planned; this is round 22" in capsys.readouterr().err


def test_people_are_due_where_their_file_was_retracted(light):
    retract(light, NAME, 1, "the file of another programme")
    found = standing(light)
    assert (found.people, found.due) == (
        0,
        ("softfair import people FILE: nobody is in the programme",),
    )


def test_where_a_programme_stands(programme):
    found = standing(programme)
    assert (found.people, found.next_round, found.planned, found.last) == (300, 21, False, None)
    assert found.due == ("softfair plan: round 21 has no list yet",)
    plan, _ = make_plan(programme, NAME)
    (due,) = standing(programme).due
    assert due.startswith("softfair record FILE --round 21: 30 of 30")
    record(programme, sample.outcome_file(programme), NAME)
    found = standing(programme)
    assert found.next_round == 22
    with programme.reading() as connection:
        history = load_history(connection)
        _, contacted = history.of(21, 300)
        after, _ = history.of(22, 300)
    assert found.last.reached == int((contacted[plan.listed == 1] == 1).sum())
    assert (found.last.listed, found.last.seen) == (30, int((after >= 0).sum()))
    # Who waits longest, by a loop over everything that is known.
    last = dict.fromkeys(range(300), 0)
    for i, at, _, told in zip(*history.rows(), strict=True):
        if told == 1:
            last[int(i)] = max(last[int(i)], int(at))
    (name, rounds), *_ = found.waiting
    assert (rounds is None) == (min(last.values()) == 0)
    assert last[int(name[1:]) - 1] == min(last.values())


def test_everything_about_one_person(programme):
    plan, _ = make_plan(programme, NAME)
    found = biography(programme, plan.list[0].lower())
    assert found.name == plan.list[0]
    assert len(found.history) == 21
    assert [one.round for one in found.plans] == [21]
    assert found.plans[0].listed
    assert len(found.estimates) == 4
    assert all(one.low <= one.chance <= one.high for one in found.estimates)
    with pytest.raises(InvalidInput, match="there is no person"):
        biography(programme, "nobody")


def rows_of(database):
    with database.reading() as connection:
        return {
            table.name: sorted(tuple(row) for row in connection.execute(sa.select(table)).all())
            for table in schema.whole_tables()
        }


def test_a_copy_has_every_row(programme, tmp_path):
    backup(programme, tmp_path / "copy.db")
    again = Store(str(tmp_path / "again.db"))
    copied = restore(tmp_path / "copy.db", again)
    rows = rows_of(programme)
    assert rows_of(again) == rows
    assert (
        copied == sum(len(some) for name, some in rows.items() if name != schema.meta.name) > 6000
    )


@pytest.mark.slow
def test_a_backup_is_the_whole_programme(programme, server, tmp_path):
    plan, _ = make_plan(programme, NAME)
    with programme.writing() as writing:  # another one is writing, and is not waited for
        writing.execute(schema.setting.insert().values(created="x", software="x", content="{}"))
        backup(programme, tmp_path / "copy.db")
        writing.rollback()
    assert rows_of(Store(str(tmp_path / "copy.db"))) == rows_of(programme)
    with pytest.raises(InvalidInput, match="there already"):
        backup(programme, tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == ["copy.db"]
    for target in (Store(server()), Store(str(tmp_path / "again.db"))):
        restore(tmp_path / "copy.db", target)
        assert rows_of(target) == rows_of(programme)
        assert verify(target) == [(21, 1, [])]
        record(target, sample.outcome_file(target), NAME)  # numbers go on
        assert make_plan(target, NAME)[0].round == 22
        with pytest.raises(InvalidInput, match="a programme in"):
            restore(tmp_path / "copy.db", target)
    assert plan_of(programme).digest == plan.digest
    with pytest.raises(InvalidInput, match="no file"):
        restore(tmp_path / "none.db", Store(str(tmp_path / "other.db")))


def test_worksheets(programme, tmp_path):
    import_people(
        programme,
        (
            "id,phone,worker\n" + "".join(f"P{i:03d},=+{i},w {i % 2}\n" for i in range(1, 301))
        ).encode(),
        NAME,
    )
    with programme.reading() as connection:
        assert load_details(connection)[0] == {"phone": "=+1"}
    plan, _ = make_plan(programme, NAME)
    made = write_worksheets(programme, plan, tmp_path, "worker", ("phone",), "xlsx")
    names = sorted(path.name for path in made.files)
    assert names == ["round-21-w-0.xlsx", "round-21-w-1.xlsx"]
    rows = []
    for path in made.files:
        sheet = openpyxl.load_workbook(path).active
        assert [cell.value for cell in sheet[1]] == [
            "id",
            "round",
            "phone",
            "probability",
            "contacted",
            "state",
            "comment",
        ]
        rows += [[cell.value for cell in row] for row in sheet.iter_rows(min_row=2)]
        for row in sheet.iter_rows(min_row=2):
            row[4].value = "x"
        sheet.parent.save(path)
    assert sorted(row[0] for row in rows) == sorted(plan.list)
    assert not any(str(row[2]).startswith("=") for row in rows)  # no formula
    with pytest.raises(InvalidInput, match="has been filled in"):
        write_worksheets(programme, plan, tmp_path, "worker", ("phone",), "xlsx")
    told = [record(programme, path, NAME).recorded for path in made.files]
    assert [one.closed for one in told] == [False, True]
    (page,) = write_worksheets(programme, plan, tmp_path, None, ("phone",), "html").files
    assert page.read_text().count("<tr>") == 31
    with pytest.raises(InvalidInput, match="nothing called 'mobile'"):
        write_worksheets(programme, plan, tmp_path, None, ("mobile",), "html")
    # Telephone numbers are in no other output.
    write_table(plan_table(plan, everyone=True), tmp_path / "plan.csv")
    assert "=+" not in (tmp_path / "plan.csv").read_text()
    assert "=+" not in json.dumps(audit(programme).to_dict())
    assert "phone" not in json.dumps([str(act) for act in journal(programme)])


# Help.


@pytest.mark.slow
def test_help_has_defaults_and_examples():
    """Every command ends with examples that are commands; every option has its default."""
    listed = re.findall(r"^│ (\w+) ", shell.run("--help", COLUMNS="120").stdout, re.M)
    assert {"status", "person", "log", "retract", "backup", "restore", "history"} <= set(listed)
    for command in listed:
        text = shell.run(command, "--help", COLUMNS="250").stdout
        assert "Examples:" in text, command
        assert re.search(rf"softfair {command}", text), command
    text = shell.run("init", "--help", COLUMNS="250").stdout
    options = {
        line.split("--")[1].split()[0]: line
        for line in text.splitlines()
        if line.startswith("│") and "--" in line and "Options" not in line
    }
    for name in ("round", "capacity", "horizon", "states", "c", "cooldown", "level", "seed"):
        assert "[default: " in options[name], name


# What is known of people.


def test_numbers_reach_the_model_and_names_do_not(tmp_path):
    """Ages and distances are used even if most values are unique; telephones and names are kept."""
    database, rng = Store(str(tmp_path / "p.db")), np.random.default_rng(1)
    initialise(database, NAME, seed=0, capacity=4)
    n = 40
    ages, distances = rng.integers(18, 70, n), rng.random(n) * 20
    rows = [
        f"p{i};Person {i};98{i:06d};{ages[i]};{distances[i]:.2f};{'ab'[i % 2]};{1000 + i}".replace(
            ".", ","
        )
        for i in range(n)
    ]
    rows[3] = rows[3].replace(f";{ages[3]};", ";n/a;")
    head = "id;Full name;Phone;age;distance;caste;card"
    done = import_people(database, "\n".join([head, *rows, ""]).encode(), NAME)
    assert set(done.kept) == {"Full name", "Phone", "card"}
    assert set(done.groups) == {"age", "distance", "caste"}
    lines = [f"p{i},{t},{rng.integers(2)},{rng.integers(2)}" for i in range(n) for t in range(6)]
    content = "id,round,state,contacted\n" + "\n".join(lines) + "\n"
    import_history(database, content.encode(), NAME)
    with database.reading() as connection:
        people = load_people(connection)
    np.testing.assert_allclose(people.numbers("distance"), distances.round(2))
    assert np.flatnonzero(np.isnan(people.numbers("age"))).tolist() == [3]
    assert people.numbers("caste") is None
    model, _ = fit(database, NAME)
    assert set(model.summary.columns) <= {"age", "distance", "caste"}
    assert {"age", "distance"} <= set(model.summary.columns)
    # A protected column stays out of the model, and is reported on.
    initialise(database, NAME, protected=("caste",))
    model, new = fit(database, NAME)
    assert new
    assert "caste" not in {*model.summary.columns, *(one[0] for one in model.summary.told)}
    plan, _ = make_plan(database, NAME)
    assert plan.outlook.lowest.column == "caste"  # the first that is no number
    found = audit(database)
    assert any(line.startswith("Kept out of the estimates: caste.") for line in found.findings)
    shown = {row.column for row in found.groups}
    assert shown == {"", "age", "distance", "caste"}
    bands = [row for row in found.groups if row.column == "age"]
    assert len(bands) == 5  # four bands, and one of whom it is not known
    assert sum(row.people for row in bands) == n
    with pytest.raises(InvalidInput, match="protected"):
        initialise(database, NAME, shrink="caste")


def test_a_target_that_binds_nobody_says_so(tmp_path):
    """The target is met at any c: the programme keeps its own c, which is not infinite."""

    def said(*words):
        done = shell.run(*words, folder=tmp_path, COLUMNS="200")
        assert done.returncode == 0, done.stderr
        return done.stdout

    said("init", "--sample")
    told = said("plan", "--target", "region=0.01")
    assert "Target met: no region below 1 % of the average rate. It does not bind: even the" in told
    assert "the programme's own c = 10 stays." in told
    told = said("plan", "--target", "region=0.9", "--replan", "more even")
    assert "Target met: no region below 90 % of the average rate.\n" in told
    told = said("plan", "--target", "benefit=1%", "--replan", "less")
    assert "It does not bind: a lottery meets it, so c = 0." in told
