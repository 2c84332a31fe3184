"""Single entries, rows of files, and records of a round: the limits of each rule."""

import numpy as np
import pytest

from softfair.errors import BadRows, InvalidInput
from softfair.programme import entries, tracks
from softfair.programme.batches import Recorded
from softfair.programme.bulk import UNKNOWN, append, fetch
from softfair.programme.imports import import_history, import_people
from softfair.programme.plans import PlanWish, make_plan
from softfair.programme.reading import read_table
from softfair.programme.records import record
from softfair.programme.schema import observation
from softfair.programme.settings import initialise
from softfair.programme.snapshot import load_people
from softfair.programme.store import Store
from softfair.programme.tracks import counted_anew, load_history

NAME = "softfair test"


@pytest.fixture
def database(tmp_path):
    """Six people, two places a round."""
    database = Store(str(tmp_path / "programme.db"))
    initialise(database, NAME, seed=0, capacity=2)
    import_people(database, b"id\na\nb\nc\nd\ne\nf\n", NAME)
    return database


def history_of(database, *rounds):
    with database.reading() as connection:
        rows = load_history(connection, *rounds).rows()
    return list(zip(*(column.tolist() for column in rows), strict=True))


# Entries.


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (entries.round_number, "0", 0),
        (entries.round_number, "7.00", 7),
        (entries.round_number, "2147483647", 2**31 - 1),
        (entries.optional_round, "", UNKNOWN),
        (entries.optional_round, "None", entries.CLEARED),
        (entries.optional_round, "3", 3),
        (entries.flag, "", UNKNOWN),
        *((entries.flag, text, 1) for text in ("1", "yes", "TRUE", "y", "t")),
        *((entries.flag, text, 0) for text in ("0", "no", "False", "n", "f")),
        (entries.group, "", 0),
        *((entries.state_reader(("low", "Mid", "high")), t, 1) for t in ("1", "mid", "MID")),
        (entries.state_reader(("low", "high")), "", UNKNOWN),
        (entries.state_reader(("low", "high")), "1.0", 1),
        (entries.state_reader(("low", "na")), "NA", 1),
        *((entries.flag, text, UNKNOWN) for text in ("n/a", "-", "?", "N/A", "nan")),
        *((entries.flag, text, 1) for text in ("1.0", "x", "\u2713")),
        (entries.flag, "0,0", 0),
    ],
)
def test_entries(read, text, value):
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (entries.round_number, ""),
        (entries.round_number, "-1"),
        (entries.round_number, "7.5"),
        (entries.round_number, "2147483648"),
        (entries.flag, "2"),
        (entries.identifier, ""),
        (entries.identifier, "a\u202eb"),
        (entries.group, "a\nb"),
        (entries.state_reader(("low", "high")), "2"),
        (entries.state_reader(("1", "2")), "0"),
    ],
)
def test_bad_entries(read, text):
    with pytest.raises(ValueError, match=";"):  # the problem; what to do
        read(text)


@pytest.mark.parametrize(
    ("threshold", "states"),
    [("4", [0, 1, UNKNOWN]), (">= 3.999", [1, 1, UNKNOWN]), ("<=3.999", [1, 0, UNKNOWN])],
)
def test_thresholds(threshold, states):
    rule = entries.threshold_rule(threshold, ("bad", "good"))
    assert rule(np.array([3.999, 4.0, np.nan])).tolist() == states


def test_a_threshold_needs_two_states():
    with pytest.raises(InvalidInput, match="the programme has 3"):
        entries.threshold_rule("4", ("low", "mid", "high"))


@pytest.mark.parametrize(
    ("texts", "comma", "values"),
    [
        (["3.5", "1e3", "-2"], False, [3.5, 1000, -2]),
        (["3,5", "12"], False, [3.5, 12]),
        (["1,234", "2,000"], False, [1234, 2000]),
        (["1,234"], True, [1.234]),  # of a file with semicolons
        (["1,234.5", "7"], False, [1234.5, 7]),
        (["1.234,5", "2.000"], False, [1234.5, 2.0]),
        (["1 234", "5"], False, [1234, 5]),
        (["", "n/a", "-"], False, [np.nan] * 3),
    ],
)
def test_numbers(texts, comma, values):
    read = entries.number_reader(texts, comma)
    np.testing.assert_array_equal([read(text) for text in texts], values)


@pytest.mark.parametrize("texts", [["many"], ["3,5", "3.5"], ["1e999"], ["1,2,3"]])
def test_invalid_numbers_are_refused(texts):
    read = entries.number_reader(texts, False)
    with pytest.raises(ValueError, match=";"):
        read(texts[0])


def test_lines_are_counted_as_an_editor_does():
    """Blank lines and rows that are refused count; the heading is line 1."""
    table = read_table(b"id,round\na,1\n\nb,2,3\nc,4\n", ("id", "round"))
    assert table.lines.tolist() == [2, 5]
    assert [(fault.line, fault.value) for fault in table.faults] == [(4, "b,2,3")]


# Imports.


def test_how_far_a_round_may_be_from_the_one_before(database):
    import_history(database, b"id,round,state\na,1,1\na,1001,1\n", NAME, sure=True)
    with pytest.raises(BadRows) as caught:
        import_history(database, b"id,round,state\na,2002,1\n", NAME, sure=True)
    assert [(fault.line, fault.column) for fault in caught.value.faults] == [(2, "round")]
    import_history(database, b"id,round,state\na,2001,1\n", NAME, sure=True)


def test_the_same_round_of_another_person_is_no_repeat(database):
    text = b"id,round,state\na,1,1\nb,1,1\na,2,0\nb,2,0\na,1,0\n"
    with pytest.raises(BadRows) as caught:
        import_history(database, text, NAME)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column, fault.value) == (6, "round", "1")
    assert "on line 2;" in fault.problem


@pytest.mark.parametrize(
    ("row", "added", "corrected"),
    [
        ("a,1,1,0", 0, 0),  # as known
        ("a,1,,0", 0, 0),  # says less
        ("a,1,0,0", 0, 1),  # another state
        ("a,1,1,1", 0, 1),  # another contact
        ("a,1,0,1", 0, 1),  # one entry, though both differ
        ("b,1,1,1", 1, 0),  # says more
        ("c,1,,", 1, 0),  # a round that nobody knew of, even if it says nothing
    ],
)
def test_what_counts_as_new_and_as_corrected(database, row, added, corrected):
    import_history(database, b"id,round,state,contacted\na,1,1,0\nb,1,1,\n", NAME)
    done = import_history(database, f"id,round,state,contacted\n{row}\n".encode(), NAME)
    assert (done.rows, done.added, done.corrected) == (1, added, corrected)
    assert done.unchanged == 1 - added - corrected


def test_facts_are_changed_one_by_one(database):
    """Each fact alone makes a correction, and a fact that is repeated makes none."""
    import_people(database, b"id,enrolled,left,opted_out,reserved,region\na,1,9,0,5,n\n", NAME)
    for column, value in (
        ("enrolled", "2"),
        ("left", "8"),
        ("opted_out", "1"),
        ("reserved", "none"),
        ("region", "s"),
    ):
        same = import_people(database, f"id,{column}\na,\n".encode(), NAME)
        done = import_people(database, f"id,{column}\na,{value}\nnew-{column},\n".encode(), NAME)
        assert (same.corrected, done.added, done.corrected) == (0, 1, 1)
    with database.reading() as connection:
        people = load_people(connection)
    assert people.names[6:] == [
        f"new-{name}" for name in ("enrolled", "left", "opted_out", "reserved", "region")
    ]
    facts = (people.enrolled, people.departed, people.opted_out, people.reserved)
    assert [int(column[0]) for column in facts] == [2, 8, 1, UNKNOWN]
    assert [int(column[6]) for column in facts] == [UNKNOWN, UNKNOWN, 0, UNKNOWN]
    assert (people.groups[0], people.groups[6]) == ('{"region": "s"}', "{}")


# Records.


def test_people_without_a_record_when_a_round_is_closed_were_not_contacted(database):
    """Only people in the programme in round 5: d has just enrolled, e comes later, f has left."""
    import_people(database, b"id,enrolled,left\nc,,6\nd,5,\ne,6,\nf,,5\n", NAME)
    done = record(database, b"id\na\n", NAME, round=5, sure=True, close=True)
    assert done.recorded == Recorded(
        round=5,
        contacted=1,
        listed=0,
        not_reached=0,
        off_list=1,
        untold=0,
        absent=3,
        closed=True,
    )
    contacts = [(person, contacted) for person, _, _, contacted in history_of(database, 5, 5)]
    assert contacts == [(0, 1), (1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("id\na\n", [(0, 5, -1, 1)]),  # identifiers alone: they were contacted
        ("id,state\na,1\n", [(0, 6, 1, -1)]),  # with a state: nothing told of the contact
        ("id,contacted,state\na,,0\n", [(0, 6, 0, -1)]),
        ("id,contacted,state\na,1,\n", [(0, 5, -1, 1)]),
    ],
)
def test_what_a_first_record_says(database, text, rows):
    done = record(database, text.encode(), NAME, round=5, sure=True)
    assert history_of(database) == rows
    assert done.recorded.told == (rows[0][3] >= 0)


def test_a_later_record_says_nothing_of_the_others(database):
    record(database, b"id\na\nb\n", NAME, round=5, sure=True, close=True)
    done = record(database, b"id,contacted,state\nb,0,1\nc,,1\n", NAME, round=5, sure=True)
    assert done.recorded.absent == 0
    assert (done.added, done.corrected) == (2, 1)  # two states, and b's contact
    contacts = [contacted for *_, contacted in history_of(database, 5, 5)]
    assert contacts == [1, 0, 0, 0, 0, 0]


def test_a_record_beside_its_plan(database):
    plan, _ = make_plan(database, NAME, PlanWish(round=1, sure=True))
    first, second = plan.list
    other = next(name for name in "abcdef" if name not in plan.list)
    done = record(database, f"id\n{first}\n{other}\n".encode(), NAME)
    assert done.recorded == Recorded(1, 2, 2, 0, 1, untold=1)
    later = record(database, f"id,contacted\n{second},1\n".encode(), NAME)
    assert later.recorded == Recorded(1, 1, 2, 0, 0, untold=0, absent=3, closed=True)
    last = record(database, f"id,contacted\n{first},0\n".encode(), NAME)
    assert last.recorded == Recorded(1, 0, 2, 1, 0, untold=0, closed=True)


def test_which_round_a_record_is_of(database):
    with pytest.raises(InvalidInput, match="no round has been planned"):
        record(database, b"id\na\n", NAME)
    for round in (3, 4):
        make_plan(database, NAME, PlanWish(round=round, sure=True))
    taken = [
        record(database, f"id\n{name}\n".encode(), NAME, close=True).recorded.round
        for name in "abc"
    ]
    assert taken == [3, 4, 4]  # the first that is open; once none is, a correction of the last
    assert record(database, b"id,round\nd,3\n", NAME).recorded.round == 3
    with pytest.raises(InvalidInput, match="rounds 3 to 4; record one"):
        record(database, b"id,round\nd,3\ne,4\n", NAME)
    with pytest.raises(InvalidInput, match="of round 3, not of round 4"):
        record(database, b"id,round\ne,3\n", NAME, round=4)


def test_unknown_is_null_and_comes_back(database):
    with database.writing() as connection:
        columns = {"person": [0, 1, 2], "round": [1, 1, 1], "batch": [1, 1, 1]}
        state, contacted = np.array([UNKNOWN, 0, 1]), np.array([1, UNKNOWN, 0])
        append(connection, observation, {**columns, "state": state, "contacted": contacted})
    assert history_of(database) == [(0, 1, -1, 1), (1, 1, 0, -1), (2, 1, 1, 0)]


def test_the_order_in_which_the_database_answers_does_not_matter(database, monkeypatch):
    """Rows of a query come in any order: here shuffled, with three batches about one person."""
    for state in (1, 0, 1):
        text = f"id,round,state\nb,1,{state}\na,1,{1 - state}\na,2,{state}\n"
        import_history(database, text.encode(), NAME, again=True)
    known = history_of(database)
    assert known == [(0, 1, 0, -1), (0, 2, 1, -1), (1, 1, 1, -1)]
    rng = np.random.default_rng(0)
    monkeypatch.setattr(tracks, "fetch", lambda *query: rng.permutation(fetch(*query)))
    with database.reading() as connection:
        for _ in range(20):
            rows = counted_anew(connection).rows()
            assert list(zip(*(column.tolist() for column in rows), strict=True)) == known
