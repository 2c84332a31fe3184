"""The stored tracks of past rounds equal tracks derived again from all entries."""

import csv
import io
import itertools
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from softfair import terminal
from softfair.errors import InvalidInput, StoreError, Unsure
from softfair.estimate import Histories, read_histories
from softfair.programme import formats, schema, store, tables, tracks
from softfair.programme.audit import logged
from softfair.programme.audit.logged import log_table
from softfair.programme.checks import check
from softfair.programme.commands.giving_out import with_head
from softfair.programme.imports import import_history, import_people
from softfair.programme.models import fit, latest_model
from softfair.programme.plans import PlanWish, explaining, make_plan, plan_of
from softfair.programme.reading import read_table
from softfair.programme.records import close_round, record
from softfair.programme.retractions import retract
from softfair.programme.settings import initialise
from softfair.programme.snapshot import several_open, take_snapshot
from softfair.programme.store import Store
from softfair.programme.thresholds import change_threshold
from softfair.programme.tracks import (
    ABSENT,
    History,
    counted_anew,
    load_history,
    retracted_batches,
)

NAME = "softfair test"
PEOPLE = [f"p{i}" for i in range(5)]
ROUNDS = 6


def in_force(connection):
    """(person, round) -> (state, contact), by a loop over everything that was ever entered."""
    retracts = dict(
        connection.execute(
            sa.select(schema.batch.c.id, schema.batch.c.retracts).where(
                schema.batch.c.retracts.is_not(None)
            )
        ).all()
    )
    gone = set()
    for number in sorted(retracts, reverse=True):
        if number not in gone:
            gone.add(retracts[number])
    o = schema.observation
    known = {}
    for row in connection.execute(sa.select(o).order_by(o.c.batch)):
        if row.batch not in gone:
            state, contacted = known.get((row.person, row.round), (-1, -1))
            known[row.person, row.round] = (
                state if row.state is None else row.state,
                contacted if row.contacted is None else row.contacted,
            )
    return known


def as_entries(history):
    rows = zip(*(column.tolist() for column in history.rows()), strict=True)
    return {(person, at): (state, contacted) for person, at, state, contacted in rows}


def same_counts(one, other):
    for name, values in vars(one).items():
        if isinstance(values, np.ndarray):
            np.testing.assert_array_equal(values, getattr(other, name), err_msg=name)


ENTRY = st.tuples(
    st.sampled_from(PEOPLE),
    st.integers(1, ROUNDS),
    st.sampled_from(["", "0", "1"]),
    st.sampled_from(["", "0", "1"]),
)


class Programme(RuleBasedStateMachine):
    """Imports, records, corrections, second thoughts: in any order."""

    new_url = None  # how to get an empty database

    @initialize()
    def begin(self):
        self.database = Store(self.new_url())
        initialise(self.database, NAME, seed=0, capacity=1)
        import_people(self.database, "\n".join(["id", *PEOPLE[:3]]).encode(), NAME)
        self.numbers = itertools.count()

    @rule(entries=st.lists(ENTRY, min_size=1, max_size=8, unique_by=lambda one: one[:2]))
    def history(self, entries):
        # A file is taken once: each has a column of its own.
        text = [f"id,round,state,contacted,file{next(self.numbers)}"]
        text += [",".join([name, str(at), state, told, "-"]) for name, at, state, told in entries]
        import_history(
            self.database, "\n".join(text).encode(), NAME, add_people=True, sure=True, again=True
        )

    @rule(
        entries=st.lists(
            st.tuples(st.sampled_from(PEOPLE), st.integers(1, ROUNDS), st.integers(0, 9)),
            min_size=1,
            max_size=6,
            unique_by=lambda one: one[:2],
        )
    )
    def values(self, entries):
        text = [f"id,round,value,file{next(self.numbers)}"]
        text += [f"{name},{at},{value},-" for name, at, value in entries]
        how = {"add_people": True, "sure": True, "again": True}
        try:
            import_history(self.database, "\n".join(text).encode(), NAME, threshold="4", **how)
        except InvalidInput:  # another threshold by now
            import_history(self.database, "\n".join(text).encode(), NAME, **how)

    @rule(limit=st.integers(1, 8))
    def threshold(self, limit):
        change_threshold(self.database, NAME, str(limit), sure=True)

    @rule(
        entries=st.lists(
            st.tuples(st.sampled_from(PEOPLE[:3]), *[st.sampled_from(["", "0", "1"])] * 2),
            min_size=1,
            max_size=3,
            unique_by=lambda one: one[0],
        ),
        at=st.integers(1, ROUNDS),
        close=st.booleans(),
    )
    def round(self, entries, at, close):
        text = [f"id,contacted,state,file{next(self.numbers)}"]
        text += [f"{name},{told},{state},-" for name, told, state in entries]
        data = "\n".join(text).encode()
        record(self.database, data, NAME, round=at, sure=True, close=close, again=True)

    @rule(data=st.data())
    def second_thoughts(self, data):
        with self.database.reading() as connection:
            batches = set(connection.execute(sa.select(schema.batch.c.id)).scalars())
            free = sorted(batches - retracted_batches(connection) - {1})  # the people stay
        if free:
            retract(self.database, NAME, data.draw(st.sampled_from(free)), "a slip")

    @rule()
    def rehearsed(self):
        """An import that is rolled back changes no track."""
        with pytest.raises(InvalidInput):
            import_history(self.database, b"id,round,state\np0,1,9\n", NAME)
        text = b"id,round,state,contacted\np0,2,1,1\np1,3,0,0\n"
        import_history(self.database.rehearsal(), text, NAME, sure=True, again=True)

    @invariant()
    def kept_is_counted(self):
        with self.database.reading() as connection:
            known, kept, anew = (
                in_force(connection),
                load_history(connection),
                counted_anew(connection),
            )
            n = kept.n
        assert as_entries(kept) == as_entries(anew) == known
        rows = [[*key, *value] for key, value in sorted(known.items())]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        same_counts(read_histories(*kept.rows(), n, 2), read_histories(*table.T, n, 2))
        np.testing.assert_array_equal(kept.moves(n, 2), read_histories(*table.T, n, 2).moves)

    def teardown(self):
        if hasattr(self, "database"):
            assert check(self.database).faults == ()
            self.database.engine.dispose()


@pytest.mark.slow
def test_after_any_sequence_of_imports_records_and_corrections(url, request, tmp_path):
    numbers = itertools.count()
    embedded = "://" not in url

    class Machine(Programme):
        def new_url(self):
            if embedded:
                return str(tmp_path / f"{next(numbers)}.db")
            return request.getfixturevalue("server")()

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=25 if embedded else 6,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def filled(database):
    initialise(database, NAME, seed=0, capacity=1)
    import_people(database, b"id\na\nb\nc\n", NAME)
    text = "id,round,state,contacted\n" + "".join(
        f"{name},{at},{(at + i) % 2},{i % 2}\n" for i, name in enumerate("abc") for at in (1, 2, 3)
    )
    import_history(database, text.encode(), NAME)
    return database


def history_of(database):
    with database.reading() as connection:
        return as_entries(load_history(connection))


def test_changes_by_an_insider_are_found(filled):
    """Also where the whole log is left as it was."""
    honest = history_of(filled)
    assert check(filled).wrong == ()
    t = schema.track
    with filled.engine.begin() as connection:
        row = connection.execute(sa.select(t).where(t.c.round == 2)).one()
        bent = bytes([1 - row.state[0]]) + bytes(row.state[1:])
        connection.execute(t.update().where(t.c.round == 2).values(state=bent))
    assert history_of(filled) != honest
    (fault,) = check(filled).wrong
    assert "track" in fault
    assert "(2)" in fault
    # The remedy that is named.
    with filled.engine.begin() as connection:
        connection.execute(t.delete())
    assert (history_of(filled), check(filled).wrong) == (honest, ())
    import_history(filled, b"id,round,state\na,4,1\n", NAME)
    assert history_of(filled) == {**honest, (0, 4): (1, -1)}
    assert check(filled).wrong == ()


@pytest.mark.parametrize(
    "change",
    [
        {"state": b"\1"},
        {"state": b"", "contacted": b""},
        {"contacted": b"\1\1\1"},
        {"round": 7},
    ],
)
def test_a_garbled_track_is_told(filled, change):
    with filled.engine.begin() as connection:
        t = schema.track
        connection.execute(t.update().where(t.c.round == 2).values(**change))
    assert any(fault.startswith("track: ") for fault in check(filled).wrong)


def test_a_programme_from_before_there_were_tracks(filled):
    known = history_of(filled)
    with filled.engine.begin() as connection:
        for later in (schema.track, schema.listed_rows, schema.model_part):
            later.drop(connection)
        connection.execute(schema.meta.update().values(version=6))
    assert history_of(filled) == known
    assert check(filled).wrong == ()
    import_history(filled, b"id,round,state\nb,3,0\nc,5,1\n", NAME)
    with filled.reading() as connection:
        kept = connection.execute(sa.select(schema.track.c.round)).scalars()
        assert sorted(kept) == [1, 2, 3, 5]
        assert as_entries(load_history(connection)) == in_force(connection)


def test_a_killed_import_leaves_tracks_as_they_were(filled, monkeypatch):
    known = history_of(filled)

    def fails(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store.chain, "seal", fails)
    with pytest.raises(KeyboardInterrupt):
        import_history(filled, b"id,round,state\na,2,1\nb,9,1\n", NAME, sure=True)
    monkeypatch.undo()
    assert history_of(filled) == known
    assert check(filled).wrong == ()


def test_many_states_take_two_bytes(database):
    names = [f"s{i}" for i in range(200)]
    initialise(database, NAME, seed=0, capacity=1, states=tuple(names))
    import_people(database, b"id\na\nb\n", NAME)
    import_history(database, b"id,round,state\na,1,s5\n", NAME)
    import_history(database, b"id,round,state\nb,1,s199\na,2,s130\n", NAME)
    assert history_of(database) == {(0, 1): (5, -1), (1, 1): (199, -1), (0, 2): (130, -1)}
    import_history(database, b"id,round,state\nb,1,s3\n", NAME)
    assert history_of(database)[1, 1] == (3, -1)
    assert check(database).wrong == ()


def test_histories_are_read_in_blocks(monkeypatch):
    """People in any order, some at a time: the same counts, gaps and first states."""
    rng = np.random.default_rng(0)
    there = rng.random((12, 40)) < 0.8
    state = np.where(there, rng.integers(-1, 3, there.shape), ABSENT)
    contacted = np.where(there, rng.integers(-1, 2, there.shape), -1)
    rounds = np.sort(rng.choice(30, 12, replace=False))
    history = History(rounds, state, contacted)
    order = rng.permutation(40)
    whole = read_histories(*history.rows(order), 40, 3)
    parts = np.split(order, [7, 8, 30])
    joined = Histories.joined([read_histories(*history.rows(who), len(who), 3) for who in parts])
    same_counts(joined, whole)
    assert whole.acts.size > 50
    monkeypatch.setattr(tracks, "PEOPLE_AT_ONCE", 7)
    entries = [zip(*rows, strict=True) for rows in history.blocks()]
    found = {
        (int(i) + 7 * block, int(at)): (int(s), int(a))
        for block, rows in enumerate(entries)
        for i, at, s, a in rows
    }
    assert found == as_entries(history)


def test_an_estimate_does_not_depend_on_the_size_of_blocks(filled, monkeypatch):
    import_people(filled, "\n".join(["id", *(f"x{i}" for i in range(40))]).encode(), NAME)
    rng = np.random.default_rng(1)
    rows = [
        f"x{i},{at},{rng.integers(2)},{rng.integers(2)}"
        for i in range(40)
        for at in range(1, 9)
        if rng.random() < 0.9
    ]
    import_history(filled, "\n".join(["id,round,state,contacted", *rows]).encode(), NAME)
    model, _ = fit(filled, NAME)
    monkeypatch.setattr("softfair.programme.models.PEOPLE_AT_ONCE", 5)
    again, new = fit(filled, NAME + " again")
    assert new
    np.testing.assert_array_equal(model.P, again.P)
    np.testing.assert_array_equal(model.draws, again.draws)


def test_rounds_are_told_and_closed_by_what_is_kept(filled):
    plan, _ = make_plan(filled, NAME, PlanWish(sure=True))
    listed = plan.list[0].encode()
    record(filled, b"id,contacted\n" + listed + b",1\n", NAME)
    with pytest.raises(InvalidInput, match="open"):
        close_round(filled, NAME, plan.round)
    with pytest.raises(Unsure):
        record(filled, b"id,contacted\na,1\n", NAME, round=plan.round + 3)
    with pytest.raises(StoreError):
        Store("nowhere/at/all.db").reading().__enter__()


# Files that are read in pieces.


def piecemeal(tmp_path, monkeypatch, data, block=64):
    """A table from a file, in pieces of few bytes, and the same from memory in one piece."""
    file = tmp_path / "file.csv"
    file.write_bytes(data)
    whole = read_table(data, ("id",), None)
    monkeypatch.setattr(formats, "LONGEST_LINE", block)
    monkeypatch.setattr(formats, "BATCHES", 2)
    part = read_table(file, ("id",), None)
    monkeypatch.undo()
    return part, whole


def entries_of(table):
    return {
        name: [distinct[code] for code in codes]
        for name, (distinct, codes) in table.columns.items()
    }


@pytest.mark.parametrize(
    "data",
    [
        b"id,round\n" + b"".join(b"p%d,%d\n" % (i % 7, i) for i in range(90)),
        b"id,round\np1,1\nonly one\n,\n\np2,2,3\np3, 3 \n" + b"p4,4\n" * 40,
        b"\xef\xbb\xbfid,round\np1,1\n" + b"p2,2\n" * 30,
        "id,round\nZoë,1\n".encode() + "Zoé,2\n".encode() * 30,
        "id,round\nZoë,1\n".encode("latin-1") + b"p,2\n" * 30,
        "id,round\nZoë,1\n".encode("utf-16"),
        b'id,round\n"a\nb",1\n' + b"p,2\n" * 30,
        b"id,round\r\na,1\r\nb,2\r\n",
        b"id;round\na;1,5\n",
    ],
)
def test_a_file_in_pieces_is_the_file(tmp_path, monkeypatch, data):
    part, whole = piecemeal(tmp_path, monkeypatch, data)
    assert entries_of(part) == entries_of(whole)
    assert part.lines.tolist() == whole.lines.tolist()
    assert (part.digest, part.faults, part.comma) == (whole.digest, whole.faults, whole.comma)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"id,round\n" + b"p,1\n" * 30 + b"q\0,1\n", "zero byte"),
        (b"id,round\n" + b"p,1\n" * 30 + b"q" * 200 + b",1\n", "is no list of entries"),
        (b"id,round\n", "no rows"),
        (b"", "does not begin"),
    ],
)
def test_what_is_no_table_is_refused_in_pieces(tmp_path, monkeypatch, data, said):
    file = tmp_path / "file.csv"
    file.write_bytes(data)
    monkeypatch.setattr(formats, "LONGEST_LINE", 64)
    with pytest.raises(InvalidInput, match=said):
        read_table(file, ("id",), None)


# Lists that are written in pieces.


class Pieces(io.StringIO):
    """Text, with the length of the longest piece that was written at once."""

    longest = 0

    def write(self, text):
        self.longest = max(self.longest, len(text))
        return super().write(text)


MANY = {
    "id": [f"p{i}" for i in range(10_000)],
    "chance": [i / 7 for i in range(10_000)],
    "why": ["=1+1", 'with "quotes",\nand a line', None, "é"] * 2500,
}


def test_a_list_of_ten_thousand_is_written_row_by_row(tmp_path, monkeypatch):
    out = Pieces()
    monkeypatch.setattr("sys.stdout", out)
    tables.write_table(MANY, Path("-"))
    rows = list(csv.reader(io.StringIO(out.getvalue())))
    assert len(rows) == 10_001
    assert rows[2][2] == MANY["why"][1]
    assert out.longest < 100
    records = [dict(zip(MANY, row, strict=True)) for row in zip(*MANY.values(), strict=True)]
    out = Pieces()
    out.writelines(tables.json_object({"round": 3}, "people", tables.Pieces.of(MANY)))
    assert out.getvalue() == json.dumps({"round": 3, "people": records}, indent=1)
    assert out.longest < 2 * max(len(json.dumps(one)) for one in records)
    out = Pieces()
    terminal.show(terminal.Table(list(MANY), list(zip(*MANY.values(), strict=True))), out)
    assert out.getvalue().count("\n") == 10_002
    assert out.longest < 100
    tables.write_table(MANY, tmp_path / "list.json")
    assert (tmp_path / "list.json").read_text() == json.dumps(records, indent=1)
    tables.write_table({"id": []}, tmp_path / "nobody.json")
    assert (tmp_path / "nobody.json").read_text() == "[]"
    for name in ("list.csv", "list.xlsx", "list.parquet"):
        tables.write_table(MANY, tmp_path / name)
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        read = read_table(tmp_path / name, ("id",), None)
        assert entries_of(read)["id"] == MANY["id"]


@pytest.fixture
def planned(filled):
    """Two planned rounds; of the first it is told what happened."""
    make_plan(filled, NAME)
    record(filled, b"id,contacted,state\na,1,1\nb,0,0\nc,0,1\n", NAME, round=4, close=True)
    make_plan(filled, NAME)
    return filled


def read_again(table, path):
    """Columns of a table that was written as Parquet."""
    tables.write_table(table, path)
    return pyarrow.parquet.read_table(path).to_pydict()


def test_exports_in_pieces_equal_exports_as_a_whole(planned, tmp_path, monkeypatch):
    """Also if a column of the first piece has no known value, such as contacts."""
    plan = plan_of(planned)
    made = {
        "list": lambda: tables.plan_table(plan, False),
        "everybody": lambda: tables.plan_table(plan, True),
        "model": lambda: tables.model_table(*latest_model(planned)),
        "log": lambda: log_table(planned),
        "head": lambda: with_head(tables.plan_table(plan, True), "softfair/x\n1\ny\n"),
    }
    for name, make in made.items():
        whole = make().whole()
        assert list(make().kinds) == list(whole)
        again = read_again(make(), tmp_path / f"{name}.parquet")
        assert again == whole, name
        monkeypatch.setattr(tables, "PIECE", 1)
        monkeypatch.setattr(logged, "PIECE", 2)
        pieces = list(make().each)
        assert len(pieces) > 1 or name == "list"
        assert max(len(piece["id"]) for piece in pieces) <= 2
        assert make().whole() == whole, name
        assert read_again(make(), tmp_path / f"{name}.parquet") == whole, name
        monkeypatch.undo()
    assert made["head"]().whole()["checkpoint"] == ["softfair/x 1 y"] * 3
    assert list(made["head"]().kinds)[-3:] == ["checkpoint", "contacted", "state"]


def test_sentences_are_made_for_those_who_are_shown(planned, monkeypatch):
    plan, asked = plan_of(planned), []
    says = explaining._sentence
    monkeypatch.setattr(
        explaining, "_sentence", lambda plan, i, below: asked.append(i) or says(plan, i, below)
    )
    table = tables.plan_table(plan, everyone=False)
    assert asked == []
    assert table.whole()["id"] == plan.list
    assert asked == np.flatnonzero(plan.listed).tolist()


def test_an_empty_list_has_headings_in_every_format(tmp_path):
    nobody = tables.Pieces({"id": str, "chance": float}, [])
    assert read_again(nobody, tmp_path / "nobody.parquet") == {"id": [], "chance": []}
    text = "".join(tables.json_object({"round": 3}, "people", nobody))
    assert json.loads(text) == {"round": 3, "people": []}
    tables.write_table(nobody, tmp_path / "nobody.csv")
    assert (tmp_path / "nobody.csv").read_text() == "id,chance\n"


def test_several_open_rounds_are_those_of_a_snapshot(planned):
    def both():
        with planned.reading() as connection:
            return several_open(connection), take_snapshot(connection).open_rounds()

    assert both() == ([], [5])
    make_plan(planned, NAME, PlanWish(round=6, sure=True))
    assert both() == ([5, 6], [5, 6])
    listed = plan_of(planned, 5).list
    # All on the list are told of: the round is over, though nobody closed it.
    record(planned, f"id,contacted\n{listed[0]},1\n".encode(), NAME, round=5, sure=True)
    assert both() == ([], [6])
    (listed,) = plan_of(planned, 6).list
    import_people(planned, f"id,opted_out\n{listed},1\n".encode(), NAME)
    assert both() == ([], [])
