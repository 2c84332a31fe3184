"""Changes of the database or its log are found: in a column, a row, the tail, or the whole log."""

import base64
import hashlib
import io
import json
import re
import shutil
import sqlite3
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

from softfair.errors import InvalidInput
from softfair.kernels import threads
from softfair.programme import chain, models, notes, schema, store
from softfair.programme.bulk import UNKNOWN, append, fetch_columns
from softfair.programme.chain import Checkpoint
from softfair.programme.changes import call_reserves
from softfair.programme.checks import check, head
from softfair.programme.imports import import_history, import_people
from softfair.programme.plans import PlanWish, commit_plan, draw_plan, make_plan
from softfair.programme.records import record
from softfair.programme.settings import initialise
from softfair.programme.store import Store
from softfair.programme.trials import Wish, assign
from softfair.web.access import Attempts
from softfair.web.accounts import begin_visit, new_account

NAME = "softfair test"
LOGGED = [table for name, table in sorted(schema.tables.tables.items()) if name != "meta"]


def filled(url):
    """A programme with rows in every table: settings changed, a correction, two plans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "PART", 1000)  # of bytes, so that models have several parts
        return _filled(Store(url))


def _filled(database):
    initialise(database, NAME, seed=2**100, capacity=2, horizon=10)
    initialise(database, NAME, c=3.0)
    begin_visit(database, new_account(database, "mira", "officer", None))
    regions = "".join(f"p{i},{'ns'[i % 2]},1,20,0,9\n" for i in range(6))
    header = "id,region,enrolled,left,opted_out,reserved"
    import_people(database, f"{header}\n{regions}".encode(), NAME)
    seen = "".join(f"p{i},{r},{(i + r) % 2},{i % 2}\n" for i in range(6) for r in range(1, 6))
    import_history(database, f"id,round,state,contacted\n{seen}p0,6,,1\n".encode(), NAME)
    Attempts(database).fail("192.0.2.7", "mira")
    assign(database, NAME, Wish(("softfair", "lottery"), (0.5, 0.5), rounds=1))
    commit_plan(database, NAME, PlanWish(round=7))
    call_reserves(database, draw_plan(database, "dice 1 2 3"), NAME, 1, "a helper more")
    record(database, b"id,contacted,state\np1,1,1\n", NAME, round=7, close=True)
    make_plan(database, NAME)
    make_plan(database, NAME, PlanWish(replan="to have a reason"))
    return database


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("chain") / "original.db"
    filled(str(path))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def copy(original, tmp_path):
    path = tmp_path / "copy.db"
    shutil.copy(original, path)
    return str(path)


def test_every_table_has_rows_and_a_column_to_grow_by(original):
    with sqlite3.connect(original) as connection:
        for table in LOGGED:
            assert connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0], (
                table.name
            )
            assert chain.grows_by(table) is not None


def test_the_parts_of_a_model_are_its_content(original, copy):
    """A model with one part more, one fewer, or parts in another order has another content."""
    with sqlite3.connect(copy) as connection:
        parts = connection.execute("SELECT count(*) FROM model_part WHERE model = 1").fetchone()[0]
        assert parts > 1
    with Store(copy).reading() as connection:
        assert models.is_intact(connection, 1)
        with np.load(io.BytesIO(b"".join(models._parts(connection, 1)))) as stored:
            np.testing.assert_array_equal(stored["P"], models.load_model(connection, 1).P)
    for statement in (
        "DELETE FROM model_part WHERE model = 1 AND number = 1",
        "UPDATE model_part SET number = 99 WHERE model = 1 AND number = 1",
        "INSERT INTO model_part VALUES (1, 100, x'00')",
    ):
        shutil.copy(original, copy)
        with sqlite3.connect(copy) as connection:
            connection.execute(statement)
        with Store(copy).reading() as connection:
            assert not models.is_intact(connection, 1)


def test_a_table_that_does_not_say_how_it_grows():
    tables = sa.MetaData()
    key = [sa.Column(name, sa.Integer, primary_key=True) for name in ("person", "round")]
    with pytest.raises(TypeError, match="say by which column it grows"):
        chain.grows_by(sa.Table("odd", tables, *key))
    key = [sa.Column(name, sa.Integer, primary_key=True) for name in ("person", "round")]
    told = sa.Table("told", tables, *key, info={"grows_by": "round"})
    assert chain.grows_by(told).name == "round"


def test_nothing_is_wrong_with_what_nobody_touched(original):
    found = check(Store(str(original)))
    assert found.wrong == ()
    assert found.began is None
    assert [verdict.round for verdict in found.verdicts] == [7, 8, 8]


# Every column of every table, altered behind the software's back: with another value of its type
# and, in SQLite, which holds any type in any column, with a value that differs in type alone.
COLUMNS = [(table.name, column.name) for table in LOGGED for column in table.c]


def other(column):
    if isinstance(column.type, sa.LargeBinary):
        return "CAST(x'00' AS BLOB)"
    if isinstance(column.type, sa.Text):
        return f"coalesce({column.name}, '') || 'x'"
    return f"coalesce({column.name}, 0) + 50"


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_column_of_any_table_can_be_altered_unseen(copy, table, column):
    one = schema.tables.tables[table].c[column]
    key = [part.name for part in schema.tables.tables[table].primary_key.columns]
    with sqlite3.connect(copy) as connection:  # without foreign keys
        order = ", ".join(f"{part} DESC" for part in key)
        last = connection.execute(f"SELECT {', '.join(key)} FROM {table} ORDER BY {order}")
        values = last.fetchone()
        where = " AND ".join(f"{part} = ?" for part in key)
        done = connection.execute(
            f"UPDATE {table} SET {column} = {other(one)} WHERE {where}", values
        )
        assert done.rowcount == 1
    assert check(Store(copy)).wrong


@pytest.mark.slow
@pytest.mark.parametrize("table", [table.name for table in LOGGED])
def test_bytes_and_null_in_any_column_are_findings(original, copy, table):
    """SQLite holds any type in any column, and NULL once somebody takes the constraint away."""
    loose = f"{copy}.loose"
    shutil.copy(original, loose)
    with sqlite3.connect(loose) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
    one = schema.tables.tables[table]
    key = ", ".join(part.name for part in one.primary_key.columns)
    last = f"SELECT {key} FROM {table} ORDER BY {key.replace(',', ' DESC,')} DESC LIMIT 1"
    for column in one.c:
        for value in ("x'ff'", "NULL"):
            shutil.copy(loose, copy)
            with sqlite3.connect(copy) as connection:
                query = f"UPDATE {table} SET {column.name} = {value} WHERE ({key}) = ({last})"
                try:
                    connection.execute(f"{query} AND {column.name} IS NOT {value}")
                except sqlite3.IntegrityError:  # of a key
                    continue
                if not connection.total_changes:
                    continue
            assert check(Store(copy)).wrong, (column.name, value)


def one_more(table, row):
    """A row that differs from one that is there in all that must differ."""
    unique = {column for column in table.c if column.primary_key or column.unique}
    for constraint in table.constraints:
        if isinstance(constraint, sa.UniqueConstraint):
            unique |= set(constraint.columns)
    values = dict(zip(table.c.keys(), row, strict=True))
    for column in unique:
        is_text = isinstance(column.type, sa.Text)
        values[column.name] = f"{values[column.name]}x" if is_text else values[column.name] + 1000
    return values


@pytest.mark.parametrize("table", [table.name for table in LOGGED])
def test_no_row_of_any_table_can_be_removed_or_added_unseen(copy, original, table):
    one = schema.tables.tables[table]
    key = [part.name for part in one.primary_key.columns]
    order, where = ", ".join(f"{part} DESC" for part in key), " AND ".join(f"{k} = ?" for k in key)
    with sqlite3.connect(copy) as connection:
        row = connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchone()
        values = one_more(one, row)
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", list(values.values()))
    assert check(Store(copy)).wrong
    shutil.copy(original, copy)
    with sqlite3.connect(copy) as connection:
        of_last = [dict(zip(one.c.keys(), row, strict=True))[part] for part in key]
        assert connection.execute(f"DELETE FROM {table} WHERE {where}", of_last).rowcount == 1
    found = check(Store(copy), Checkpoint.find(head(Store(str(original)))))
    assert found.wrong
    assert bool(found.since) == (table == "link")  # of the last entry only a checkpoint tells
    with sqlite3.connect(copy) as connection:
        connection.execute(f"DROP TABLE {table}")
    with pytest.raises(store.StoreError, match=f"(no such table: {table}|something else)"):
        check(Store(copy))


def sealed_again(path):
    """What an insider can do: every entry of the log as it was, with the digests of rows now."""
    database = Store(path)
    with database.engine.connect() as connection, connection.begin():
        before = {}
        for entry in chain.entries_of(connection, schema.tables):
            salt, marks, added = entry.parts()
            for name in added:
                table, low = schema.tables.tables[name], before.get(name, -1)
                part = chain.rows.read_part(connection, table, low, marks[name])
                added[name] = chain.rows.digest_of(part)
            content = json.dumps({"salt": salt, "marks": marks, "added": added, "who": "x"})
            anew = replace(entry, content=content)
            values = {"content": content, "leaf": anew.leaf.hex()}
            chosen = schema.link.c.id == entry.number
            connection.execute(schema.link.update().where(chosen).values(**values))
            before = marks
        return chain.entries_of(connection, schema.tables)


@pytest.mark.parametrize(
    "table", chain.entries.logged_tables(schema.tables), ids=lambda table: table.name
)
def test_an_old_checkpoint_names_the_table_that_an_insider_has_altered(original, copy, table):
    """The log is consistent again, and by itself says nothing of the table."""
    was = head(Store(str(original)))
    column = [one for one in table.c if not one.primary_key and not one.foreign_keys][-1]
    with sqlite3.connect(copy) as connection:
        connection.execute(f"UPDATE {table.name} SET {column.name} = {other(column)}")
    assert any(said.startswith(f"{table.name}: ") for said in check(Store(copy)).faults)
    entries = sealed_again(copy)
    found = check(Store(copy), Checkpoint.find(was))
    assert not any(said.startswith(f"{table.name}: ") for said in found.faults)
    (said,) = found.since
    if table.name == "setting":  # the seed stands in it
        assert "another programme" in said
    else:
        assert said.endswith(
            f"its first {len(entries)} entries are not those of the checkpoint: {table.name}"
        )


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (
            "UPDATE observation SET state = state + 0.5 WHERE person = 2 AND round = 3",
            "observation",
        ),
        ("UPDATE observation SET state = NULL WHERE person = 2 AND round = 3", "observation"),
        (
            "UPDATE observation SET contacted = 'x' WHERE person = 2 AND round = 3",
            "not of the type",
        ),
        ("UPDATE person_fact SET opted_out = '1' WHERE person = 2", "person_fact"),
        ("DELETE FROM observation WHERE person = 2 AND round = 3", "1 of its 31 rows are gone"),
        ("INSERT INTO observation VALUES (5, 20, 2, 1, 1, NULL)", "1 rows were put among its 31"),
        ("INSERT INTO observation VALUES (5, 20, 99, 1, 1, NULL)", "no entry of the log tells of"),
        ("DELETE FROM batch WHERE kind = 'record'", "batch"),
        ("DELETE FROM plan WHERE id = 3", "plan: entry"),
        ("DELETE FROM setting WHERE id = 1", "setting"),
        ("DELETE FROM link WHERE id = 3", "the log: entry 3 is missing"),
        ("UPDATE link SET content = '{}' WHERE id = 3", "entry 3, of"),
    ],
)
def test_a_finding_names_what_was_altered(copy, statement, named):
    with sqlite3.connect(copy) as connection:
        assert connection.execute(statement).rowcount == 1
    found = check(Store(copy))
    assert any(named in sentence for sentence in found.wrong), found.wrong


ODD = ("1.0000000000000002", "'x'", "x'31'", "'null'", "-9223372036854775808")


@pytest.mark.parametrize("value", ODD)
def test_values_that_only_look_like_whole_numbers_are_found(copy, value):
    """SQLite's own text of the first is 1.0; the last stands for NULL where numbers are read."""
    with sqlite3.connect(copy) as connection:
        where = "(plan, person) = (SELECT max(plan), max(person) FROM plan_row)"
        connection.execute(f"UPDATE plan_row SET status = {value} WHERE {where}")
    assert "plan_row: a value is not of the type of its column" in check(Store(copy)).wrong


def test_rows_of_persons_far_apart_do_not_make_a_check_endless(copy):
    """Pieces begin with persons who have rows; by number alone there were 250,000 of them."""
    with sqlite3.connect(copy) as connection:
        for person in (20_000, 2**31 - 2, 2**40):
            connection.execute(f"INSERT INTO observation VALUES ({person}, 20, 2, 1, 1, NULL)")
    with Store(copy).reading() as connection:
        pieces = chain.rows.in_pieces(connection, schema.observation, sa.true())
        rows = sum(
            connection.execute(
                sa.select(sa.func.count()).select_from(schema.observation).where(piece)
            ).scalar_one()
            for piece in pieces
        )
        total = sa.select(sa.func.count()).select_from(schema.observation)
        assert rows == connection.execute(total).scalar_one()
    assert len(pieces) == 3
    assert any("3 rows were put among its" in said for said in check(Store(copy)).wrong)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("column", ["status", "bonus"])
def test_null_is_no_0_where_nothing_may_be_null(copy, column):
    with sqlite3.connect(copy) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
    with sqlite3.connect(copy) as connection:
        first = "(SELECT min(person) FROM plan_row WHERE status = 0 AND bonus = 0)"
        done = connection.execute(f"UPDATE plan_row SET {column} = NULL WHERE person = {first}")
        assert done.rowcount
    assert "plan_row: a value is not of the type of its column" in check(Store(copy)).wrong


def test_the_last_bit_of_a_chance_is_read(copy):
    with sqlite3.connect(copy) as connection:
        query = "SELECT plan, person, probability FROM plan_row WHERE probability > 0 LIMIT 1"
        plan, person, chance = connection.execute(query).fetchone()
        connection.execute(
            "UPDATE plan_row SET probability = ? WHERE plan = ? AND person = ?",
            (np.nextafter(chance, 1), plan, person),
        )
    assert any("plan_row: entry" in said for said in check(Store(copy)).wrong)


def test_columns_are_read_as_they_are_stored(copy):
    """Compared with the driver, row by row; NULL is read as 0 with its bit set."""
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE observation SET value = 0.1 + 0.2 WHERE person = 3")
        connection.execute("UPDATE observation SET value = -0.0 WHERE person = 4")
        query = "SELECT person, round, batch, state, contacted, value FROM observation"
        rows = connection.execute(query).fetchall()
    expected = sorted(
        (*(x or 0 for x in row), sum(2**j for j in range(3) if row[3 + j] is None)) for row in rows
    )
    names = ["person", "round", "batch", "state", "contacted", "value"]
    with Store(copy).reading() as connection:
        columns, absent = fetch_columns(connection, schema.observation, names, sa.true())()
        nobody, none = fetch_columns(
            connection, schema.observation, names, schema.observation.c.person < 0
        )()
    assert sorted(zip(*columns, absent, strict=True)) == expected
    assert {row[-1] for row in expected} >= {0, 4}
    assert [len(one) for one in (*nobody, none)] == [0] * 7


def test_rows_are_read_in_the_order_of_a_key(original):
    """SQLite would copy megabytes of a model to sort rows that its index has in order."""
    database, asked = Store(str(original)), []

    def note(connection, cursor, statement, parameters, context, executemany):
        if re.search(r"FROM (model|model_part|commitment|trial)\s+WHERE", statement):
            asked.append((statement, parameters))

    sa.event.listen(database.engine, "before_cursor_execute", note)
    assert check(database).wrong == ()
    large = [one for one in asked if "content" in one[0] and "ORDER BY" in one[0]]
    assert len(large) > 4
    with sqlite3.connect(original) as connection:
        for statement, parameters in large:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            assert not any("TEMP B-TREE" in step[-1] for step in plan), (statement, plan)


def test_memory_of_a_check_does_not_grow_with_plans(tmp_path, monkeypatch):
    """A plan has 9 numbers for each person; the check keeps much less of every plan.

    For each round it keeps a byte a person. For each plan it keeps the verdict and two entries of
    the log, of some 2 KB of text each, as text and parsed: 20 KB in all. Rows of all plans at once
    took 64 bytes a person and plan. With one thread the peak does not depend on the overlap of
    threads; with more threads it is one plan higher.
    """
    monkeypatch.setattr(threads, "_threads", 1)
    n, more, path = 4000, 12, tmp_path / "many.db"
    database = Store(str(path))
    initialise(database, NAME, seed=0, capacity=40)
    people = "\n".join(f"p{i}" for i in range(n))
    import_people(database, f"id\n{people}\n".encode(), NAME)
    rng = np.random.default_rng(0)
    states, contacted = rng.random((n, 4)) < 0.5, rng.random((n, 4)) < 0.2
    rows = (
        f"p{i},{r + 1},{states[i, r]:d},{contacted[i, r]:d}" for i in range(n) for r in range(4)
    )
    import_history(database, ("id,round,state,contacted\n" + "\n".join(rows)).encode(), NAME)
    make_plan(database, NAME)
    for i in range(3):
        make_plan(database, NAME, PlanWish(replan=f"reason {i}"))

    def peak():
        assert check(database).wrong == ()  # what is loaded and compiled once
        tracemalloc.start()
        try:
            assert check(database).wrong == ()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = peak()
    for i in range(more):
        make_plan(database, NAME, PlanWish(replan=f"another {i}"))
    grown = peak() - few
    assert grown < more * (n + 20_000), grown / more / n


def test_a_database_of_another_version_is_refused(copy):
    for version in (schema.VERSION + 1, 1, 0, -1, "'[]'", schema.VERSION + 0.0001):
        with sqlite3.connect(copy) as connection:
            connection.execute(f"UPDATE meta SET version = {version}")
        with pytest.raises(store.StoreError):
            check(Store(copy))
    with sqlite3.connect(copy) as connection:
        connection.execute("DELETE FROM meta")
    with pytest.raises(store.StoreError, match="does not say its version"):
        check(Store(copy))


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("model", "content = '0'"),
        ("model", "content = 7"),
        ("model", "settings = x'31'"),
        ("model_part", "content = 7"),
        ("commitment", "header = '0'"),
        ("commitment", "header = '[]'"),
        ("commitment", "created = x'31'"),
        ("batch", "retracts = '[]'"),
        ("setting", f"content = '{'[' * 5000}'"),  # deeper than Python's recursion may go
        ("plan", f"luck = '{'[' * 5000}'"),
        ("trial", f"design = '{'[' * 5000}'"),
        ("link", f"content = '{'[' * 5000}'"),
    ],
)
def test_a_value_of_another_type_is_a_finding(copy, table, change):
    """SQLite holds values of any type in any column, and no check ends on one."""
    with sqlite3.connect(copy) as connection:
        connection.execute(f"UPDATE {table} SET {change}")
    named = "the log" if table == "link" else table
    assert any(sentence.startswith(f"{named}: ") for sentence in check(Store(copy)).wrong)


def test_the_tail_is_cut(copy):
    """Somebody removes the last plans and their entries in the log."""
    earlier = Checkpoint.find(head(Store(copy)))
    with sqlite3.connect(copy) as connection:
        for statement in (
            "DELETE FROM plan_row WHERE plan > 1",
            "DELETE FROM reserve WHERE plan > 1",
            "DELETE FROM plan WHERE id > 1",
            "DELETE FROM model_part WHERE model > 1",
            "DELETE FROM model WHERE id > 1",
            "DELETE FROM signature WHERE kind IN ('plan', 'model') AND number > 1",
            f"DELETE FROM link WHERE id >= {earlier.size - 2}",
        ):
            connection.execute(statement)
    assert check(Store(copy)).wrong == ()  # by itself the log cannot tell
    (said,) = check(Store(copy), earlier).since
    assert "the last 2 are gone" in said


def rewritten(database):
    """An insider with write access writes all entries of the log again."""
    with database.engine.connect() as connection, connection.begin():
        connection.execute(sa.text("DELETE FROM link"))
        chain.seal(connection, schema.tables, store.now())
        rest = connection.execute(sa.text("SELECT content FROM link")).scalar_one()
        for number in range(1, 20):  # as many entries as there were, and more
            content = json.dumps({**json.loads(rest), "added": {}})
            entry = chain.Entry(number, store.now(), content, "")
            values = {"id": number, "created": entry.created, "content": content}
            connection.execute(schema.link.insert().values(**values, leaf=entry.leaf.hex()))


def test_rows_at_hand_are_digested_as_they_are_read_back(url, monkeypatch):
    """Rows that are appended in bulk are not read back; here this holds for any number of rows."""
    monkeypatch.setattr(chain.sealing, "MANY", 1)
    assert check(filled(url)).wrong == ()


def appended_rows(connection, batch):
    """Rows of a batch in calls of `append`, out of order: NULL of every kind, letters of others."""
    columns = {"created": "", "software": NAME, "kind": "people", "rows": 4, "stored": 4}
    connection.execute(schema.batch.insert().values(id=batch, digest=f"{batch}", **columns))
    people = {"id": [9, 7], "name": ['Zoë\n"quoted", 9', "\u200bp7"], "batch": [batch] * 2}
    append(connection, schema.person, people)
    append(connection, schema.person, {"id": [8], "name": ["'=8"], "batch": np.array([batch])})
    facts = {"groups": ['{"region": "n\u00f6rd"}', "{}"], "opted_out": np.array([1, 0], np.int8)}
    rounds = {"enrolled": np.array([UNKNOWN, 3]), "details": [None, ""], "reserved": [2, None]}
    some = {"person": np.array([9, 7]), "batch": [batch] * 2, **facts, **rounds}
    append(connection, schema.person_fact, some)
    rest = {"person": [8], "batch": [batch], "groups": ["{}"], "opted_out": [0]}
    append(connection, schema.person_fact, rest)
    seen = {"person": [9, 7], "round": np.array([2, 2], np.int32), "batch": [batch] * 2}
    values = {"state": np.array([UNKNOWN, 0]), "value": np.array([np.nan, -0.0])}
    append(connection, schema.observation, {**seen, **values})
    other = {"round": [1, 1], "contacted": [None, 1], "value": [0.1, None]}
    append(connection, schema.observation, {**seen, **other})


def test_rows_at_hand_have_the_digest_of_what_is_read_back(url, monkeypatch):
    monkeypatch.setattr(chain.sealing, "MANY", 1)
    database, read_back = Store(url), chain.sealing.read_part
    initialise(database, NAME)
    with database.writing() as connection:
        appended_rows(connection, 1)
        for table in (schema.person, schema.person_fact, schema.observation):
            high = 9 if table is schema.person else 1
            kept = chain.rows.digest_of(read_back(connection, table, 0, high))
            with monkeypatch.context() as patch:
                patch.setattr(chain.sealing, "read_part", pytest.fail)
                at_hand = chain.sealing._new_rows(connection, table, 0, high)
            assert chain.rows.digest_of(at_hand) == kept
            assert kept[0] == len(at_hand.columns[0]) > 2
        connection.rollback()


def test_rows_that_were_put_under_a_coming_number_do_not_join_the_log(copy, monkeypatch):
    """Whoever knows the next batch's number; and a batch that is not in the log."""
    monkeypatch.setattr(chain.sealing, "MANY", 1)
    with sqlite3.connect(copy) as connection:
        coming = connection.execute("SELECT max(id) + 1 FROM batch").fetchone()[0]
        connection.execute(f"INSERT INTO observation VALUES (1, 3, {coming}, 1, 1, NULL)")
    database = Store(copy)
    import_history(database, b"id,round,state,contacted\np0,9,1,0\np1,9,0,0\n", NAME, sure=True)
    wrong = check(database).wrong
    assert any("observation" in said and "1 rows were put among its 2" in said for said in wrong)


def test_rows_of_several_numbers_are_counted_before_they_are_taken_from_memory(copy, monkeypatch):
    """A batch without an entry of its own, and a log that was removed: all of it is read."""
    monkeypatch.setattr(chain.sealing, "MANY", 1)
    with sqlite3.connect(copy) as connection:
        connection.execute("DELETE FROM link")
    database = Store(copy)
    import_history(database, b"id,round,state,contacted\np0,9,1,0\np1,9,0,0\n", NAME, sure=True)
    found = check(database)
    assert found.wrong == ()  # by itself the log cannot tell
    assert found.began is not None


@pytest.mark.slow
def test_everything_recomputed_by_an_insider(url):
    """On both databases: contacts are altered and the log rewritten; an old checkpoint shows it."""
    database = filled(url)
    earlier = Checkpoint.find(head(database))
    assert check(database, earlier).wrong == ()
    initialise(database, NAME, horizon=11)
    assert check(database, earlier).wrong == ()  # it grew, and what stood then still stands
    with database.engine.connect() as connection, connection.begin():
        connection.execute(
            sa.text("UPDATE observation SET contacted = 1 - contacted WHERE round = 3")
        )
    assert any("observation: entry 5" in said for said in check(database).wrong)
    rewritten(database)
    (said,) = check(database).wrong  # what is kept of the round is still as it was
    assert said.startswith("track: what is kept of 1 rounds (3)")
    with database.engine.connect() as connection, connection.begin():
        connection.execute(sa.text("DELETE FROM track"))
    assert check(database).wrong == ()  # by itself the log cannot tell
    (said,) = check(database, earlier).wrong
    assert "the log was written anew" in said
    assert "observation" in said


def test_a_log_written_anew_over_the_same_rows_is_found_too(copy):
    database = Store(copy)
    earlier = Checkpoint.find(head(database))
    rewritten(database)
    assert "written anew" in check(database, earlier).since[0]


def test_the_checkpoint_of_another_programme(copy, tmp_path):
    other_one = Store(str(tmp_path / "other.db"))
    initialise(other_one, NAME)
    (said,) = check(Store(copy), Checkpoint.find(head(other_one))).since
    assert "another programme" in said


# Trees and checkpoints.


def by_definition(leaves):
    """RFC 6962, section 2.1, word by word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + by_definition(leaves[:k]) + by_definition(leaves[k:])).digest()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 9, 100])
def test_the_tree_is_that_of_the_standard(size):
    leaves = [hashlib.sha256(bytes([i])).digest() for i in range(size)]
    assert chain.checkpoints.root_of(leaves) == by_definition(leaves)


def test_a_checkpoint_is_found_wherever_it_stands():
    root = base64.b64encode(bytes(32)).decode()
    one = Checkpoint("softfair/ab12", 7, root, (("batch", "0123abcd"), ("plan_row", "89abcdef")))
    text = str(one)
    lines = f"softfair/ab12\n7\n{root}\ntables batch:0123abcd plan_row:89abcdef\n"
    assert text == lines
    for written in (text, json.dumps({"checkpoint": text, "z": 1}), " ".join(text.split())):
        assert Checkpoint.find(f"before {written} after") == one
    older = Checkpoint("softfair/ab12", 3, root)
    assert Checkpoint.find(f"{older}\n\n{text}") == one  # the last
    for nothing in ("", "softfair/x\n7\nabc=", f"somebody/x\n7\n{root}"):
        with pytest.raises(InvalidInput, match="there is no checkpoint"):
            Checkpoint.find(nothing)


def test_a_signed_checkpoint(copy, tmp_path, monkeypatch):
    key = tmp_path / "our key.pem"
    verifier = notes.new_key(key)
    assert key.stat().st_mode & 0o777 == 0o600
    assert verifier.startswith("our-key+")
    with pytest.raises(InvalidInput, match="there already"):
        notes.new_key(key)
    monkeypatch.setenv("SOFTFAIR_KEY", str(key))
    note = head(Store(copy))
    assert notes.is_signed_by(note, verifier)
    assert not notes.is_signed_by(note.replace("\n", "0\n", 1), verifier)
    assert not notes.is_signed_by(note.partition("\n\n")[0] + "\n", verifier)
    assert not notes.is_signed_by(note, notes.new_key(tmp_path / "our-key.pem"))
    with pytest.raises(InvalidInput, match="cannot be read"):
        notes.is_signed_by(note, "nonsense")
    assert check(Store(copy), Checkpoint.find(note)).wrong == ()
    monkeypatch.setenv("SOFTFAIR_KEY", str(tmp_path / "nothing.pem"))
    with pytest.raises(InvalidInput, match="which is no key"):
        head(Store(copy))


def test_a_verifier_of_the_standard():
    """The example of the signed-note specification (C2SP), as Go's package note has it."""
    verifier = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    text = (
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n"
    )
    line = (
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdng"
        "otpRZb6KE6RyyBwJnAM=\n"
    )
    assert notes.is_signed_by(f"{text}\n{line}", verifier)
    assert not notes.is_signed_by(f"{text.upper()}\n{line}", verifier)


def test_an_altered_log_stops_further_writing(copy):
    """Otherwise the next entry would cover what was altered."""
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE link SET content = 'x' WHERE id = (SELECT max(id) FROM link)")
    with pytest.raises(InvalidInput, match=r"garbled.*softfair check"):
        import_people(Store(copy), b"id\nsomebody\n", NAME)
