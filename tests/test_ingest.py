"""Files of people and history: what is read, what is refused and with which message."""

import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softfair.errors import BadRows, InvalidInput, SoftFairError
from softfair.programme import sample, schema
from softfair.programme.bulk import UNKNOWN
from softfair.programme.columns import ReadAs
from softfair.programme.imports import import_history, import_people
from softfair.programme.reading import Upload
from softfair.programme.settings import initialise
from softfair.programme.snapshot import load_people
from softfair.programme.store import Store
from softfair.programme.tracks import load_history

NAME = "softfair test"


@pytest.fixture
def programme(database):
    initialise(database, NAME, seed=0)
    return database


@pytest.fixture
def light(light):
    """A programme on SQLite only, for behaviour that does not depend on the database."""
    initialise(light, NAME, seed=0)
    return light


def stored(database):
    """Everything in the log, as one value."""
    with database.reading() as connection:
        return [
            [
                tuple(row)
                for row in connection.execute(sa.select(table).order_by(*table.primary_key.columns))
            ]
            for table in (schema.batch, schema.person, schema.person_fact, schema.observation)
        ]


def people_of(database):
    with database.reading() as connection:
        return load_people(connection)


def history_of(database):
    with database.reading() as connection:
        rows = load_history(connection).rows()
    return list(zip(*(column.tolist() for column in rows), strict=True))


def parquet(**columns):
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


# What is read.


def test_a_file_from_the_network_has_its_name_and_why_it_came(light):
    import_people(light, Upload("calls.csv", b"id\na\n", "asked by phone"), NAME)
    with light.reading() as connection:
        kept = connection.execute(sa.select(schema.batch.c.file, schema.batch.c.reason)).all()
    assert kept[-1] == ("calls.csv", "asked by phone")
    with pytest.raises(BadRows, match=r"^calls\.csv"):
        import_people(light, Upload("calls.csv", b"id,left\nb,never\n"), NAME)


def test_people(programme):
    text = "id,region,enrolled,left,opted_out,reserved\na,north,,,,\nb,,3,9,yes,4\n"
    done = import_people(programme, text.encode(), NAME)
    assert (done.rows, done.added, done.corrected, done.before) == (2, 2, 0, False)
    people = people_of(programme)
    assert people.names == ["a", "b"]
    assert people.groups == ['{"region": "north"}', "{}"]
    assert people.group("region") == (["", "north"], pytest.approx([1, 0]))
    facts = np.array([people.enrolled, people.departed, people.opted_out, people.reserved])
    np.testing.assert_array_equal(facts.T, [[UNKNOWN, UNKNOWN, 0, UNKNOWN], [3, 9, 1, 4]])


def test_history(programme):
    import_people(programme, b"id\na\nb\n", NAME)
    text = "id,round,state,contacted\nb,2,good,no\na,1,0,1\na,2,,\nb,7.0,BAD,True\n"
    import_history(programme, text.encode(), NAME)
    assert history_of(programme) == [(0, 1, 0, 1), (0, 2, -1, -1), (1, 2, 1, 0), (1, 7, 0, 1)]


@pytest.mark.parametrize(
    "content",
    [
        "id;round;state;contacted\r\na;1;1;0\r\n\r\n",
        "\ufeffid\tround\tstate\tcontacted\na\t1\t1\t0",
        'contacted, round ,"state",id\n0,1,"1"," a "\n,,,\n',
    ],
)
def test_dialects_of_csv(light, content):
    import_people(light, b"id\na\n", NAME)
    import_history(light, content.encode(), NAME)
    assert history_of(light) == [(0, 1, 1, 0)]


def test_parquet_of_any_type(light):
    import_people(
        light, parquet(id=[7, 8], region=pa.array(["n", None]), opted_out=[True, False]), NAME
    )
    assert people_of(light).names == ["7", "8"]
    assert people_of(light).opted_out.tolist() == [1, 0]
    import_history(
        light,
        parquet(id=[7, 8], round=[1.0, 2.0], state=pa.array([1, None]), contacted=[False, True]),
        NAME,
    )
    assert history_of(light) == [(0, 1, 1, 0), (1, 2, -1, 1)]


def test_a_number_with_a_threshold(light):
    import_people(light, b"id\na\n", NAME)
    text = b"id,round,value\na,1,3.9\na,2,4\na,3,\na,4,-1e3\n"
    import_history(light, text, NAME, threshold="4")
    assert [row[2] for row in history_of(light)] == [0, 1, -1, 0]
    with pytest.raises(InvalidInput, match=r"threshold is 4, not <=3\.9"):
        import_history(light, text, NAME, threshold="<=3.9")


def test_from_standard_input(light, monkeypatch):
    import sys
    from types import SimpleNamespace

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"id\na\n")))
    assert import_people(light, "-", NAME).added == 1


def test_people_whom_history_alone_knows(programme):
    text = b"id,round,state\nx,1,0\ny,1,1\nx,2,1\n"
    with pytest.raises(BadRows) as caught:
        import_history(programme, text, NAME)
    assert [fault.line for fault in caught.value.faults] == [2]  # all rows share it
    assert "so in all 3 rows" in caught.value.faults[0].problem
    assert stored(programme) == [[], [], [], []]
    import_history(programme, text, NAME, add_people=True)
    assert people_of(programme).names == ["x", "y"]
    assert len(history_of(programme)) == 3


# Again, and corrected.


def test_the_same_file_twice_changes_nothing(programme):
    for take, content in (
        (import_people, sample.people_file()),
        (import_history, sample.history_file()),
    ):
        first = take(programme, content, NAME)
        before = stored(programme)
        again = take(programme, content, NAME)
        assert again.before
        assert again.batch == first.batch
        assert stored(programme) == before


def test_repeated_entries_are_not_stored_again(programme):
    import_people(programme, b"id\na\nb\n", NAME)
    import_history(programme, b"id,round,state,contacted\na,1,1,0\nb,1,0,\n", NAME)
    done = import_history(
        programme, b"id,round,state,contacted\na,1,1,\nb,1,0,\nb,2,1,0\n", NAME
    )  # a week later, the whole file
    assert (done.added, done.corrected, done.unchanged) == (1, 0, 2)
    assert history_of(programme) == [(0, 1, 1, 0), (1, 1, 0, -1), (1, 2, 1, 0)]


def test_a_correction_supersedes_and_both_are_kept(programme):
    import_people(programme, b"id,region,opted_out\na,north,0\n", NAME)
    done = import_people(programme, b"id,opted_out\na,1\n", NAME)
    assert (done.added, done.corrected) == (0, 1)
    assert people_of(programme).opted_out.tolist() == [1]
    assert people_of(programme).groups == [
        '{"region": "north"}'
    ]  # a column that the file lacks stays as it was
    import_history(programme, b"id,round,state,contacted\na,1,1,0\n", NAME)
    done = import_history(programme, b"id,round,state\na,1,0\n", NAME)
    assert (done.added, done.corrected) == (0, 1)
    assert history_of(programme) == [(0, 1, 0, 0)]
    with programme.reading() as connection:
        assert (
            connection.execute(
                sa.select(sa.func.count()).select_from(schema.observation)
            ).scalar_one()
            == 2
        )
        assert (
            connection.execute(
                sa.select(sa.func.count()).select_from(schema.person_fact)
            ).scalar_one()
            == 2
        )


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.dictionaries(
            st.tuples(st.integers(0, 3), st.integers(0, 3)),
            st.tuples(st.integers(-1, 1), st.integers(-1, 1)),
            min_size=1,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_latest_word_counts(tmp_path_factory, files):
    """Against a dictionary that is overwritten, for any sequence of files; empty says nothing."""
    database = Store(str(tmp_path_factory.mktemp("latest") / "x.db"))
    initialise(database, NAME, seed=0)
    import_people(database, b"id\n0\n1\n2\n3\n", NAME)
    known, taken = {}, set()
    for file in files:
        rows = "".join(
            f"{i},{r},{'' if s < 0 else s},{'' if c < 0 else c}\n"
            for (i, r), (s, c) in file.items()
        )
        import_history(database, f"id,round,state,contacted\n{rows}".encode(), NAME)
        if rows in taken:
            continue  # the same file twice changes nothing
        taken.add(rows)
        for place, (s, c) in file.items():
            before = known.get(place, (-1, -1))
            known[place] = (s if s >= 0 else before[0], c if c >= 0 else before[1])
    assert history_of(database) == [(i, r, s, c) for (i, r), (s, c) in sorted(known.items())]


def test_a_file_that_was_corrected_since_is_not_taken_in_silence(programme):
    out, back = b"id,opted_out\na,1\n", b"id,opted_out\na,0\n"
    import_people(programme, out, NAME)
    import_people(programme, back, NAME)
    done = import_people(programme, out, NAME)
    assert (done.before, done.superseded) == (True, 1)
    assert people_of(programme).opted_out.tolist() == [0]
    done = import_people(programme, out, NAME, again=True)
    assert (done.before, done.corrected) == (False, 1)
    assert people_of(programme).opted_out.tolist() == [1]
    then, now = b"id,round,state\na,1,1\n", b"id,round,state\na,1,0\n"
    import_history(programme, then, NAME)
    import_history(programme, now, NAME)
    assert import_history(programme, then, NAME).superseded == 1
    assert history_of(programme) == [(0, 1, 0, -1)]
    for content, state in ((then, 1), (now, 0), (then, 1)):
        import_history(programme, content, NAME, again=True)
        assert history_of(programme) == [(0, 1, state, -1)]


def test_an_empty_entry_leaves_what_was_known(programme):
    import_people(programme, b"id,region,opted_out,left,enrolled\na,north,1,9,3\n", NAME)
    done = import_people(programme, b"id,region,opted_out,left,enrolled\na,,,,\n", NAME)
    assert done.corrected == 0
    people = people_of(programme)
    assert (people.opted_out[0], people.departed[0], people.enrolled[0], people.groups[0]) == (
        1,
        9,
        3,
        '{"region": "north"}',
    )
    import_people(programme, b"id,left,enrolled\na,none,4\n", NAME)
    assert (people_of(programme).departed[0], people_of(programme).enrolled[0]) == (UNKNOWN, 4)


@pytest.mark.parametrize("heading", ["Opted Out", "OPTED-OUT", "opted_out", " Opted_out "])
def test_headings_are_read_kindly(light, heading):
    done = import_people(light, f"ID,{heading},Region\na,1,n\n".encode(), NAME)
    assert people_of(light).opted_out.tolist() == [1]
    assert done.groups == ("Region",)


@pytest.mark.parametrize(
    ("heading", "meant"),
    [
        ("optedout", "opted_out"),
        ("opt_out", "opted_out"),
        ("enroled", "enrolled"),
        ("leftt", "left"),
        ("reserve", "reserved"),
    ],
)
def test_a_similar_heading_is_accepted_and_reported(light, heading, meant):
    done = import_people(light, f"id,{heading}\na,1\n".encode(), NAME)
    assert done.read_as.columns == {meant: heading}
    assert done.groups == ()


def test_states_called_by_numbers(tmp_path):
    database = Store(str(tmp_path / "numbers.db"))
    initialise(database, NAME, states=("1", "2", "3"))
    import_people(database, b"id\na\n", NAME)
    import_history(database, b"id,round,state\na,1,1\na,2,2\na,3,3\n", NAME)
    assert [row[2] for row in history_of(database)] == [0, 1, 2]
    assert faults(database, import_history, "id,round,state\na,4,0\n") == [(2, "state", "0")]


def test_a_round_far_off_is_a_slip(light):
    import_people(light, b"id\na\n", NAME)
    assert faults(light, import_history, "id,round,state\na,1,1\na,2,0\na,20240101,1\n") == [
        (4, "round", "20240101")
    ]
    import_history(light, b"id,round,state\na,1,1\na,2,0\n", NAME)
    assert faults(light, import_history, "id,round,state\na,2000,1\n") == [(2, "round", "2000")]


def test_one_person_in_two_spellings(programme):
    import_people(programme, b"id\n=E\n", NAME)
    assert faults(programme, import_history, "id,round,state\n=E,1,1\n'=E,1,0\n") == [
        (3, "round", "1")
    ]


# What is refused.


def faults(database, take, content, **options):
    before = stored(database)
    with pytest.raises(BadRows) as caught:
        take(database, content.encode() if isinstance(content, str) else content, NAME, **options)
    assert stored(database) == before
    assert "nothing was imported" in str(caught.value)
    assert "\n" not in str(caught.value)
    return [(fault.line, fault.column, fault.value) for fault in caught.value.faults]


def test_every_bad_row_is_listed(programme):
    import_people(programme, b"id\na\nb\n", NAME)
    good, bad = (
        "id,round,state,contacted\na,1,1,0\n",
        "z,1,1,0\na,x,1,0\n\na,-1,1,0\na,2.5,1,0\nb,1,awful,0\nb,2,1,maybe\n",
    )
    text = good + bad + "b,3,1\nb,4,1,0,9\n,5,1,0\na,1,0,0\n"
    assert faults(programme, import_history, text) == [
        (3, "id", "z"),
        (4, "round", "x"),
        (6, "round", "-1"),
        (7, "round", "2.5"),
        (8, "state", "awful"),
        (9, "contacted", "maybe"),
        (10, "", "b,3,1"),
        (11, "", "b,4,1,0,9"),
        (12, "id", ""),
        (13, "round", "1"),
    ]


def test_bad_people_are_listed(programme):
    text = 'id,enrolled,opted_out\na,1,0\na,2,0\n,3,1\nb,soon,0\nc,1,perhaps\n"d\ne",1,0\n'
    assert faults(programme, import_people, text) == [
        (3, "id", "a"),
        (4, "id", ""),
        (5, "enrolled", "soon"),
        (6, "opted_out", "perhaps"),
        (7, "id", "d\ne"),
    ]


def test_a_fault_says_what_to_do(light):
    import_people(light, b"id\na\n", NAME)
    with pytest.raises(BadRows) as caught:
        import_history(light, b"id,round,state\na,1,3\n", NAME)
    assert str(caught.value.faults[0]) == (
        "line 2, column state: '3' is no state; "
        "give 0 or bad, 1 or good, or nothing if it is not known"
    )


@pytest.mark.parametrize(
    ("take", "content", "words"),
    [
        (import_people, b"", "names of its columns"),
        (import_people, b"id\n", "no rows"),
        (import_people, b"name\na\n", "no column 'id'"),
        (import_people, b"id,id\na,b\n", "twice"),
        (import_people, b"id,\na,b\n", "has no name"),
        (import_people, b"id;region;\na;b;\n", "column 3 of the heading has no name"),
        (import_people, b"id,round\na,1\n", "which is of history"),
        (import_people, "id,x\u202ey\na,b\n".encode(), "control character"),
        (import_people, b"\xff\xfei\0d", "begins as UTF-16"),
        (import_people, b"id\na\0b\n", "zero byte"),
        (import_people, b"PAR1 but not really", "not a CSV, Excel or Parquet table"),
        (import_people, parquet(id=[[1], [2]]), "column id is a list"),
        (import_history, b"id,round\n", "no rows"),
        (import_history, b"id,state\na,1\n", "no column 'round'"),
        (import_history, b"id,round,value\na,1,1\n", "--threshold"),
        (import_history, b"id,round,value,state\na,1,1,1\n", "both a state and a value"),
    ],
)
def test_a_file_that_cannot_be_used(light, take, content, words):
    before = stored(light)
    with pytest.raises(InvalidInput, match=words) as caught:
        take(light, content, NAME)
    assert "\n" not in str(caught.value)
    assert stored(light) == before


@pytest.mark.parametrize("threshold", ["", "high", ">4", "4 5", "nan"])
def test_a_threshold_that_cannot_be_read(light, threshold):
    import_people(light, b"id\na\n", NAME)
    with pytest.raises(InvalidInput, match="threshold"):
        import_history(light, b"id,round,value\na,1,1\n", NAME, threshold=threshold)


def test_a_threshold_without_numbers(light):
    import_people(light, b"id\na\n", NAME)
    with pytest.raises(InvalidInput, match="no column value"):
        import_history(light, b"id,round,state\na,1,1\n", NAME, threshold="4")


def test_a_file_that_is_not_there(light, tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(InvalidInput, match=str(tmp_path)):
            import_people(light, path, NAME)


def test_names_are_bound_not_pasted(programme):
    names = [
        "'; DROP TABLE person; --",
        '"quoted", with comma',
        "ünï😀",
        "%s {} :x ?",
        "\\N",
        "NULL",
    ]
    text = io.StringIO()
    import csv

    csv.writer(text).writerows([["id", "region"], *([name, name] for name in names)])
    import_people(programme, text.getvalue().encode(), NAME)
    people = people_of(programme)
    assert people.names == names
    assert sorted(people.group("region")[0]) == sorted(names)
    rows = io.StringIO()
    csv.writer(rows).writerows([["id", "round", "state"], *([name, 1, 1] for name in names)])
    import_history(programme, rows.getvalue().encode(), NAME)
    assert len(history_of(programme)) == len(names)


# Fuzz: 10,000 files, mutated from good ones.


def mutated(content, chance):
    """A good file with some bytes, cells or lines changed."""
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        at, kind = chance.randrange(len(data)), chance.randrange(9)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            del data[at : at + chance.randrange(1, 40)]
        elif kind == 2:
            data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 20)))
        elif kind == 3:
            data[at:at] = chance.choice(
                [
                    b",",
                    b"\n",
                    b'"',
                    b"\r",
                    b";",
                    b"\t",
                    b"\0",
                    b"\xef\xbb\xbf",
                    b"=1+1",
                    b"'",
                    b"\\",
                    b"-",
                    b"1e999",
                    b"nan",
                ]
            )
        elif kind == 4:
            lines = data.split(b"\n")
            chance.shuffle(lines)
            data = bytearray(b"\n".join(lines))
        elif kind == 5:
            other = chance.randrange(len(data))
            data[at:at] = data[min(at, other) : max(at, other)][:200]
        elif kind == 6:
            del data[at:]
        elif kind == 7:
            word = chance.choice(
                [b"id", b"round", b"state", b"contacted", b"value", b"opted_out", b"enrolled", b""]
            )
            data = bytearray(
                bytes(data).replace(
                    word or b"a", chance.choice([b"id", b"round", b"x", b"", b"value"]), 1
                )
            )
        else:
            data = data.replace(
                b"1", str(chance.choice([-1, 2**31, 2**63, 10**40, "٣", "1_0", " 1 "])).encode(), 1
            )
    return bytes(data)


@pytest.mark.slow
def test_no_mutated_file_breaks_in(light):
    import_people(
        light, b"id,region\n" + b"".join(b"p%d,r%d\n" % (i, i % 3) for i in range(8)), NAME
    )
    good = [
        (
            import_people,
            b"id,region,enrolled,left,opted_out\n"
            + b"".join(b"p%d,r%d,1,%d,0\n" % (i, i % 2, 9 + i) for i in range(10)),
        ),
        (
            import_people,
            parquet(
                id=[f"p{i}" for i in range(10)],
                region=["n"] * 10,
                opted_out=[i % 2 for i in range(10)],
            ),
        ),
        (
            import_history,
            b"id,round,state,contacted\n"
            + b"".join(b"p%d,%d,%d,%d\n" % (i % 8, i, i % 2, i % 3 == 0) for i in range(12)),
        ),
        (
            import_history,
            parquet(
                id=[f"p{i}" for i in range(8)],
                round=list(range(8)),
                state=[1] * 8,
                contacted=[0] * 8,
            ),
        ),
        (
            import_history,
            b"id;round;value\n" + b"".join(b"p%d;%d;%d.5\n" % (i % 8, i, i) for i in range(12)),
        ),
    ]
    chance = random.Random(0)
    before, taken, said = stored(light), 0, []
    for number in range(10_000):
        take, content = chance.choice(good)
        options = {"threshold": "4"} if b"value" in content else {}
        try:
            done = take(light, mutated(content, chance), f"{NAME} {number}", **options)
        except SoftFairError as error:
            said.append(str(error))
            if (
                number % 50 == 0
            ):  # what a refused file left behind would still be there at the next look
                assert stored(light) == before
        else:
            taken += 1
            after = stored(light)
            if done.before:
                assert after == before
            else:  # one batch more, and just the rows that it says
                assert len(after[0]) == len(before[0]) + 1
                assert after[0][-1][0] == done.batch
                facts, seen = len(after[2]) - len(before[2]), len(after[3]) - len(before[3])
                assert facts + seen == done.added + done.corrected
            before = after
    assert stored(light) == before
    assert not [text for text in said if "\n" in text]
    assert 200 < taken < 9800  # some mutations are harmless, most are not


@pytest.mark.parametrize("option", ["keep", "ignore"])
def test_a_column_that_is_asked_for_and_not_there_is_refused_by_its_name(light, option):
    people = b"id,region,Opt out\np1,west,no\np2,east,no\n"
    with pytest.raises(InvalidInput, match=r"has no column 'nosuch' \(it has 'id', 'region'") as at:
        import_people(light, people, NAME, how=ReadAs(**{option: ("region", "nosuch")}))
    assert f"mend --{option}; nothing was imported" in str(at.value)
    done = import_people(light, people, NAME, how=ReadAs(**{option: ("REGION",)}))
    assert done.groups == ()
    # What was asked for once is remembered, and a later file need not have it.
    import_people(light, b"id,village\np1,hill\np2,mill\n", NAME)


def test_a_column_of_use_cannot_be_kept_for_worksheets(light):
    for name, heading in (("id", "id"), ("opted_out", "opted_out")):
        with pytest.raises(InvalidInput, match=f"column '{heading}' is read as '{name}'"):
            import_people(light, b"id,opted_out\np1,no\n", NAME, how=ReadAs(keep=(name,)))


def test_a_mapping_of_a_file_without_heading_does_not_print_its_first_row(light):
    with pytest.raises(InvalidInput, match="no column 'Name' among the 2 names") as caught:
        import_people(light, b"Ada,north\nBen,south\n", NAME, how=ReadAs({"id": "Name"}))
    assert "Ada" not in str(caught.value)
