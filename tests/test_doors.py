"""Weaknesses that were found by attacks, each with a test that it is gone."""

import io
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import sqlalchemy as sa
from shell import run

import softfair as sf
from softfair.errors import BadRows, InvalidInput, NotConverged, StoreError
from softfair.estimate.columns import design_of
from softfair.files import write_private, write_whole
from softfair.programme import formats, reading
from softfair.programme.audit import audit, write_page
from softfair.programme.checks import check
from softfair.programme.commands.taking_in import told
from softfair.programme.imports import import_history, import_people
from softfair.programme.models import fit
from softfair.programme.plans import PlanWish, make_plan, plan_of
from softfair.programme.records import record
from softfair.programme.settings import Settings, initialise
from softfair.programme.snapshot import People
from softfair.programme.store import Store
from softfair.programme.trials import Wish, assign

NAME = "softfair test"


def well(*words, folder):
    done = run(*words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words, folder):
    done = run(*words, folder=folder)
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture(scope="session")
def small_file(tmp_path_factory):
    """The file of a programme of 8 people with two planned rounds, one of them recorded."""
    database = Store(str(tmp_path_factory.mktemp("small") / "small.db"))
    initialise(database, NAME, seed=2**100, capacity=2)
    people = "".join(f"p{i},{'ns'[i % 2]}\n" for i in range(8))
    import_people(database, f"id,region\n{people}".encode(), NAME)
    seen = "".join(f"p{i},{r},{(i * r) % 2},{i % 2}\n" for i in range(8) for r in range(1, 5))
    import_history(database, f"id,round,state,contacted\n{seen}".encode(), NAME)
    make_plan(database, NAME)
    record(database, b"id,contacted,state\np1,1,1\np2,0,0\n", NAME, round=5, close=True)
    make_plan(database, NAME)
    return Path(database.name)


@pytest.fixture
def small(small_file, tmp_path):
    """A programme of its own, from that file."""
    return Store(shutil.copy(small_file, tmp_path))


# Outputs.


@pytest.mark.parametrize("name", ["copy.db", "copy.html", "copy.csv"])
def test_no_output_replaces_a_database(small, tmp_path, name):
    place = tmp_path / name
    place.write_bytes(Path(small.name).read_bytes())
    before = place.read_bytes()
    with pytest.raises(InvalidInput, match="a database, which no output replaces"):
        write_whole(place, b"<title>softfair: audit</title>")
    if name.endswith(".html"):
        with pytest.raises(InvalidInput, match="a database"):
            write_page(audit(small), place)
    assert place.read_bytes() == before


def test_a_page_has_its_ending(small, tmp_path):
    with pytest.raises(InvalidInput, match=r"end it in \.html"):
        write_page(audit(small), tmp_path / "audit.txt")


@pytest.mark.parametrize(
    ("name", "there", "new"),
    [
        ("people.csv", b"id,region\nAda,north\n", b"id,round\nAda,1\n"),
        ("page.html", b"<title>My page</title>", b"<title>softfair: audit</title>"),
        ("x.json", b'{"mine": 1}', b'{"round": 1}'),
        ("x.parquet", b"not a table", b"PAR1..."),
        ("note.txt", b"Dear Ada", b"softfair/ab\n"),
        ("small.db-wal", b"\x37\x7f\x06\x82", b"id,round\n"),
    ],
)
def test_files_of_another_kind_are_not_replaced(tmp_path, name, there, new):
    place = tmp_path / name
    place.write_bytes(there)
    with pytest.raises(InvalidInput, match="no such output of softfair"):
        write_whole(place, new)
    assert place.read_bytes() == there
    place.unlink()
    write_whole(place, new)
    write_whole(place, new + b"!")  # an earlier output is replaced
    assert place.read_bytes() == new + b"!"


def test_devices_and_pipes_stay_what_they_are(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for place in (pipe, Path("/dev/null"), tmp_path):
        with pytest.raises(InvalidInput, match=r"something else|cannot write"):
            write_whole(place, b"id\n")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# Permissions.


def test_personal_data_are_for_their_owner(small, tmp_path):
    os.umask(0o022)
    assert mode(small.name) == 0o600
    with small.writing() as connection:
        connection.execute(sa.text("SELECT 1"))
        for ending in ("-wal", "-shm"):
            assert mode(small.name + ending) == 0o600
    write_page(audit(small), tmp_path / "audit.html")
    write_private(tmp_path / "list.csv", b"id\nAda\n")
    assert [mode(tmp_path / name) for name in ("audit.html", "list.csv")] == [0o600] * 2
    os.chmod(tmp_path / "list.csv", 0o640)
    write_private(tmp_path / "list.csv", b"id\nBen\n")
    assert mode(tmp_path / "list.csv") == 0o640  # as its owner wanted it


def test_a_killed_export_leaves_nothing_readable(tmp_path):
    """A process dies between writing and renaming; the file to be replaced was readable for all."""
    code = (
        "import os, pathlib, softfair.files as files\n"
        "os.umask(0o022)\n"
        "place = pathlib.Path('out.csv')\n"
        "place.write_bytes(b'id\\n')\n"
        "os.chmod(place, 0o644)\n"
        "os.fsync = lambda _: os.kill(os.getpid(), 9)\n"
        "files.write_private(place, b'id\\nAda\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = [file for file in tmp_path.iterdir() if file.name != "out.csv"]
    assert [mode(file) for file in left] == [0o600]


# Addresses and passwords.


@pytest.mark.parametrize(
    "address",
    [
        "user:s3cret@host/name",
        "user:s3cret@host/name.db",
        "host=h dbname=n password=s3cret",
        "password=s3cret",
        "postgresql:/user:s3cret@host/name",
        "postgresql:user:s3cret@host/name",
        "postgresql://user:s3cret@part@host/name",
        "postgresql+psycopg://u:s3@cret@host/n?password=s3cret",
        "sqlite:///user:s3cret@host/name.db",
        "sqlite:///user:s3cret@host",
        "mysql://u:s3cret@host/n",
        "user@host",
        "postgresql://user:s3cret/name",
        "postgresql://user:s3cret",
        "postgresql://user:s3cret?sslmode=require",
        "postgresql://host:5432s3cret/name",
    ],
)
def test_no_password_in_a_message_and_no_file_of_that_name(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError) as caught:
        Store(address)
    assert "s3" not in str(caught.value)
    assert "cret" not in str(caught.value)
    assert "postgresql+psycopg://user@host/name" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_no_password_in_a_complaint_about_arguments(tmp_path):
    """An address that the shell has split, or that is given in place of another argument."""
    for words in (
        ("check", "--db", "host=h", "password=s3cret"),
        ("check", "postgresql://user:s3cret@host/name"),
        ("export", "user:s3cret@host/name"),
        ("postgresql://user:s3@cret@host/name",),
    ):
        done = run(*words, folder=tmp_path)
        assert done.returncode == 2
        assert "s3" not in done.stderr + done.stdout
        assert "cret" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "address",
    ["postgresql://u:s3cret@host/name", "postgresql:u:s3cret@h/n", "host=h password=s3cret"],
)
@pytest.mark.parametrize(
    "words",
    [("backup",), ("restore",), ("check", "--out"), ("check", "--against"), ("import", "people")],
)
def test_an_address_where_a_file_belongs_is_neither_made_nor_repeated(
    small, tmp_path, address, words
):
    before = sorted(tmp_path.iterdir())
    said = refused(*words, address, "--db", "small.db", folder=tmp_path)
    assert "the address of a database, which belongs to --db" in said
    assert "s3cret" not in said
    assert sorted(tmp_path.iterdir()) == before


SECRETS = [
    "postgresql://u:s3cret@host/name",
    "postgresql+psycopg://u:s3@cret@h:5432/n?sslmode=require",
    "postgres:/u:s3cret@h/n",
    "u:s3cret@h/n",
    "dbname=n host=h user=u password=s3cret",
    "password = 's3cret'",
    "postgresql://h/n?user=u&password=s3cret",
    "postgresql://u:s3cret/n",
]


@pytest.mark.parametrize("address", SECRETS)
def test_an_address_is_refused_wherever_it_stands_but_behind_db(address):
    from softfair.ending import _refuse_passwords

    for words in (["plan", "--round", address], ["plan", f"--luck={address}"], [address]):
        with pytest.raises(InvalidInput, match="the address of a database, which") as caught:
            _refuse_passwords(words)
        assert "s3" not in str(caught.value)
    _refuse_passwords(["plan", "--db", address, "--round", "5"])
    _refuse_passwords(["plan", f"--db={address}"])


def test_words_that_are_no_addresses_are_taken():
    from softfair.ending import _refuse_passwords

    for word in (
        "two opted out: ada@x.org told us",
        "12:30 @ hall/room 2",
        "id=Person no,round=Week",
        "share region=north>=30%; one household",
        "https://drand.love/public/5",
        "C:/people/list.csv",
        "softfair+1a2b3c4d+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    ):
        _refuse_passwords(["plan", "--replan", word])


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--round"),
        ("plan", "--beacon"),
        ("plan", "--luck"),
        ("plan", "--target"),
        ("init", "--round"),
        ("init", "--capacity"),
        ("export", "plan", "--out"),
        ("export", "worksheets", "--by"),
        ("audit", "--html"),
        ("check", "--signed-by"),
        ("import", "people", "--errors"),
        ("retract", "1", "--reason"),
        ("trial", "--luck"),
        ("person",),
    ],
)
def test_an_address_as_a_value_is_neither_repeated_nor_stored(small, tmp_path, words):
    before = check(small).entries
    for address in SECRETS[:5]:
        said = refused(*words, address, "--db", "small.db", folder=tmp_path)
        assert "s3" not in said
        assert "cret" not in said
    assert check(small).entries == before


@pytest.mark.parametrize("name", ["x" * 250 + ".db", "x" * 300, "small.db/copy.db", "loop.db"])
def test_a_backup_under_a_name_that_no_file_can_have(small, tmp_path, name):
    (tmp_path / "loop.db").symlink_to("loop.db")
    said = refused("backup", name, "--db", "small.db", folder=tmp_path)
    assert "choose another" in said
    assert (tmp_path / "loop.db").is_symlink()


def test_paths_that_look_a_little_like_addresses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("me@work.db", "a=b.sqlite", "plain", "north:south.db"):
        initialise(Store(name), NAME)
        assert Path(name).exists()


def test_a_password_from_the_environment(server, monkeypatch):
    """PGPASSWORD and a password file serve; no password stands on the command line."""
    import psycopg

    url = server()
    with psycopg.connect(
        url.replace("postgresql+psycopg://", "postgresql://"), autocommit=True
    ) as connection:
        settings = connection.execute("SHOW hba_file").fetchone()[0]
        connection.execute("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 'right'")
        with open(settings, encoding="utf-8") as file:
            before = file.read()
        with open(settings, "w", encoding="utf-8") as file:
            file.write("local all keeper scram-sha-256\nhost all keeper all scram-sha-256\n")
            file.write(before)
        connection.execute("SELECT pg_reload_conf()")
    asked = url.replace("postgres:@", "keeper@")
    deadline, said = time.monotonic() + 20, ""
    while not said and time.monotonic() < deadline:  # the server reads the file in its own time
        try:
            Store(asked).exists()
        except StoreError as error:
            said = str(error)
    assert "password" in said
    monkeypatch.setenv("PGPASSWORD", "right")
    assert not Store(asked).exists()


def test_a_file_without_a_heading_does_not_print_its_first_row(small):
    for content in (b"Ada Lovelace,north\nBen,south\n", b"Ada,Ada\nBen,south\n"):
        with pytest.raises(InvalidInput) as caught:
            import_people(small, content, NAME)
        assert "Ada" not in str(caught.value)
        assert "first line" in str(caught.value)


# Auditors.


def test_an_auditor_who_may_only_read(small):
    """As another user: neither the file nor its folder can be written to."""
    folder = Path(small.name).parent
    found = check(small).entries
    for parent in (folder, *folder.parents[:3]):
        os.chmod(parent, 0o755)
    os.chmod(small.name, 0o444)
    for ending in ("-wal", "-shm"):
        Path(small.name + ending).unlink(missing_ok=True)
    os.chmod(folder, 0o555)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.seteuid(65534)  # root may write anything; nobody may not
            result = audit(Store(small.name))
            told = [check(Store(small.name)).entries, len(result.rounds), result.findings[0]]
            os.write(writer, json.dumps(told).encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode()
    os.waitpid(child, 0)
    os.chmod(folder, 0o755)
    assert told.startswith("["), told
    assert json.loads(told)[:2] == [found, 2]
    assert json.loads(told)[2].startswith("Checked with this audit")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM setting",
        "UPDATE setting SET content = 'x'",
        "UPDATE model SET content = x'00'",
        "UPDATE model SET content = CAST('' AS BLOB)",
        "UPDATE model SET summary = 'x'",
        "DELETE FROM model",
        "UPDATE plan SET luck = 'x'",
        "DELETE FROM plan",
    ],
)
def test_what_is_missing_or_garbled_is_a_finding(small, statement):
    with sqlite3.connect(small.name) as connection:
        connection.execute(statement)
    result = audit(small)
    assert result.findings[0].startswith("Look: ")
    assert "not as committed" in result.findings[0]


@pytest.mark.parametrize(
    ("statement", "command"),
    [
        ("DELETE FROM setting", "status"),
        ("UPDATE setting SET content = '{'", "plan"),
        ("UPDATE model SET content = x'00'", "plan"),
        ("DELETE FROM model", "plan"),
        ("UPDATE plan SET outlook = '[]'", "plan"),
        ("UPDATE plan SET sites = '[[1]]'", "plan"),
        ("UPDATE plan_row SET probability = 'abc'", "plan"),
    ],
)
def test_a_command_that_fails_on_an_altered_database_says_so(small, tmp_path, statement, command):
    with sqlite3.connect(small.name) as connection:
        connection.execute(statement)
    said = refused(command, "--db", small.name, folder=tmp_path)
    assert "softfair: the database was altered so that it cannot be read: " in said
    assert "see: softfair check" in said


def test_the_first_lines_report_what_could_have_manipulated_a_list(small):
    """Somebody strikes two people before the plan is made anew, and corrects a record."""
    import_people(small, b"id,opted_out\np6,1\np7,1\n", NAME)
    import_history(small, b"id,round,state,contacted\np3,2,1,0\n", NAME)
    first = set(make_plan(small, NAME)[0].list)
    second = set(make_plan(small, NAME, PlanWish(replan="two opted out"))[0].list)
    told = audit(small).findings[:6]
    assert "programme's own luck" in told[1]
    changed = next(line for line in told if "between the last record and the plan" in line)
    assert "Look: round 6" in changed
    assert "2 people with changed facts" in changed
    assert "1 correction of what was recorded" in changed
    assert f"by {__import__('getpass').getuser()} on 2" in changed
    if first - second:
        assert any(f"{len(first - second)} name" in line for line in told)
    assert not any("round 5:" in line for line in told)  # nothing was done there


@pytest.mark.parametrize("when", ["before the first plan", "before a record"])
def test_people_taken_out_and_put_back_are_reported(tmp_path, when):
    """The audit names the plan between leaving and coming back, and nobody who left for good."""
    database = Store(str(tmp_path / "bent.db"))
    initialise(database, NAME, capacity=2, seed=0)
    people = [f"p{i}" for i in range(12)]
    import_people(database, "\n".join(["id", *people, ""]).encode(), NAME)

    def opted_out(said, who):
        import_people(database, f"id,opted_out\n{said.join([*who, ''])}".encode(), NAME)

    round_ = 1
    if when == "before a record":
        make_plan(database, NAME, PlanWish(sure=True))
        opted_out(",yes\n", [*people[:5], "p11"])
        rows = "".join(f"{name},1,0\n" for name in people)
        record(database, f"id,state,contacted\n{rows}".encode(), NAME)
        round_ = 2
    else:
        opted_out(",yes\n", [*people[:5], "p11"])
    make_plan(database, NAME, PlanWish(sure=True))
    assert not any("put back" in line for line in audit(database).findings)
    opted_out(",no\n", people[:5])
    told = audit(database).findings[:5]
    said = f"round {round_}: 5 people taken out of the programme before the plan and put back"
    assert any(said in line for line in told), told


@pytest.mark.parametrize("seed", [7, None])
def test_a_given_seed_is_reported(tmp_path, seed):
    """Whoever gives a seed may have tried several; a seed of 128 random bits was not given."""
    database = Store(str(tmp_path / "seed.db"))
    initialise(database, NAME, capacity=2, **({} if seed is None else {"seed": seed}))
    import_people(database, b"id\np0\np1\np2\np3\n", NAME)
    make_plan(database, NAME, PlanWish(sure=True))
    told = " ".join(audit(database).findings[:3])
    assert "programme's own luck" in told
    assert ("the seed was given by hand, and others may have been tried" in told) == (seed == 7)


# Numbers and sizes.


def test_a_column_of_telephone_numbers_costs_no_more_than_its_rows():
    """The time of 8 times as many people is not 64 times as long: it was quadratic."""

    def seconds(n):
        groups = [json.dumps({"phone": str(i)}) for i in range(n)]
        nothing = np.full(n, -1)
        people = People([str(i) for i in range(n)], groups, nothing, nothing, nothing, nothing)
        begun = time.process_time()
        values, codes = people.group("phone")
        assert [values[code] for code in codes[:5]] == ["0", "1", "2", "3", "4"]
        return time.process_time() - begun

    assert min(seconds(16_000) for _ in range(3)) < 32 * min(seconds(2_000) for _ in range(3))


@pytest.mark.parametrize(
    "changes", [{"horizon": 1_000_000}, {"level": 0.9999999999999999}, {"level": 1.0}]
)
def test_settings_that_no_plan_could_bear(changes):
    with pytest.raises(InvalidInput, match="give a number"):
        Settings(**changes)


def test_a_number_of_four_hundred_digits():
    huge = 10**400
    assert sf.sampling.multiplier(huge) == float("inf")
    with pytest.raises(InvalidInput):
        sf.sampling.inclusion([0.0, 1.0], huge)
    assert Settings(c=float("1e400")).c == float("inf")


def test_rounds_and_thresholds_beyond_what_a_database_holds(small, tmp_path):
    """Each is refused by its name, and not by the driver."""
    digits = "9" * 400
    said = refused(
        "init", "--promise", f"wait=8,from={digits}", "--db", "small.db", folder=tmp_path
    )
    assert "the promise counts from round 999" in said
    for threshold in ("1e400", "<=1e400", "-1e400"):
        with pytest.raises(InvalidInput, match="give a number such as 4"):
            import_history(small, b"id,round,value\np1,1,3\n", NAME, threshold)
    with pytest.raises(InvalidInput, match="round 999999999999 has no plan"):
        plan_of(small, 999_999_999_999)


@pytest.mark.parametrize("horizon", [10**6 + 1, 10**20, 10**400])
@pytest.mark.parametrize("policy", [sf.Random(), sf.SoftFair(c=1.0)], ids=["Random", "SoftFair"])
def test_a_horizon_without_end(policy, horizon):
    with pytest.raises(InvalidInput, match="give a whole number between 1 and 1000000"):
        policy.fit(sf.datasets.synthetic(n=5, seed=0), k=1, horizon=horizon)


def test_a_trial_beyond_the_last_round(small):
    """PostgreSQL would refuse the number of its last round."""
    record(small, b"id,contacted,state\np1,1,1\n", NAME, round=6, close=True)
    for rounds in (2**31 - 2, 10**400):
        with pytest.raises(InvalidInput, match="give fewer --rounds"):
            assign(small, NAME, Wish(("softfair", "lottery"), (0.5, 0.5), rounds=rounds))


@pytest.mark.parametrize("round", [-1, 1.5, 10**400])
def test_a_record_of_a_round_that_cannot_be(small, round):
    with pytest.raises(InvalidInput, match="round"):
        record(small, b"id\np1\n", NAME, round=round, sure=True)


def test_a_tiny_multiplier():
    cohort = sf.datasets.synthetic(n=20, seed=0)
    for c in (1e-320, 5e-324, 1e-300):
        chance = sf.SoftFair(c=c).fit(cohort, k=2, horizon=5).inclusion(0, np.zeros(20, int))
        np.testing.assert_allclose(chance, 0.1, atol=1e-9)


@pytest.mark.parametrize("c", [1e-8, 1e-9, 1e-12, 1e-16, 1e-50, 1e-320])
def test_gains_of_a_tiny_multiplier_are_those_of_the_lottery(c):
    """They differ from the lottery's by the order of c; rounding errors were larger before."""
    cohort = sf.datasets.synthetic(n=20, seed=0)
    tiny = sf.SoftFair(c=5.0, c_value=c).fit(cohort, k=2, horizon=50)
    lottery = sf.SoftFair(c=5.0, c_value=0.0).fit(cohort, k=2, horizon=50)
    states = np.zeros(20, int)
    np.testing.assert_allclose(tiny.scores(0, states), lottery.scores(0, states), atol=2e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("welfare", ["entropy", "log", "min"])
def test_weights_and_multipliers_at_the_ends_of_their_range(welfare):
    """A weight of 1e308 acts like 1e100, and a c of 1e-320 is a lottery; no number overflows."""
    cohort, states = sf.datasets.synthetic(n=20, seed=0), np.zeros(20, int)

    def chances(**given):
        fitted = sf.EvenHanded(welfare=welfare, **given).fit(cohort, k=2, horizon=5)
        return fitted.inclusion(0, states)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        np.testing.assert_array_equal(chances(mu=1.7e308), chances(mu=1e100))
    np.testing.assert_allclose(chances(mu=1e308, c=1e-320), 0.1, atol=1e-9)


def test_a_floor_under_chances_that_gain_alone_decides():
    """c = 1e20 acts like c = inf: two arms are certain, 17 at the floor, one has the rest."""
    cohort = sf.datasets.synthetic(n=20, seed=0)
    for c in (1e8, 1e20, 1e99, np.inf):
        fitted = sf.SoftFair(c=c, c_value=5.0, floor=0.05).fit(cohort, k=3, horizon=5)
        chance = np.sort(fitted.inclusion(0, np.zeros(20, int)))
        wanted = [*[0.05] * 17, 3 - 2 - 17 * 0.05, 1.0, 1.0]
        np.testing.assert_allclose(chance, wanted, atol=1e-6)


def test_a_programme_with_a_tiny_multiplier(tmp_path):
    """The list is a lottery of 30 of 290, whatever is said in c = 1e-320 of who gains."""
    well("init", "--sample", "--c", "1e-320", folder=tmp_path)
    table = well("plan", "--all", "--json", folder=tmp_path)
    drawn = [
        row["probability"] for row in json.loads(table)["people"] if row["status"] == "in_draw"
    ]
    np.testing.assert_allclose(drawn, 30 / 290, atol=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        np.ma.masked_array([0.0, 1.0], mask=[False, True]),
        np.array([1 + 1j, 0]),
        np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
        np.array([1, 2], dtype="timedelta64[s]"),
    ],
)
def test_arrays_that_are_no_numbers(values):
    for work in (
        lambda: sf.sampling.inclusion(values, 1),
        lambda: sf.sampling.draw(values, 1, np.random.default_rng(0)),
        lambda: sf.Cohort.two_state(
            np.array([[values] * 2] * 3, values.dtype)
            if not np.ma.isMA(values)
            else np.ma.stack([np.ma.stack([values] * 2)] * 3)
        ),
    ):
        with pytest.raises(InvalidInput):
            work()


ODD = {
    "masked": lambda a: np.ma.masked_array(a, mask=np.arange(a.size).reshape(a.shape) == 0),
    "complex": lambda a: a + 0j,
    "date": lambda a: np.zeros(a.shape, "datetime64[D]"),
    "duration": lambda a: np.zeros(a.shape, "timedelta64[s]"),
    "bytes": lambda a: np.full(a.shape, b"1"),
    "record": lambda a: np.zeros(a.shape, [("x", float)]),
    "400 digits": lambda a: np.full(a.shape, 10**400, object),
    "nothing": lambda a: np.full(a.shape, None, object),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ODD)
def test_states_metrics_and_columns_that_are_no_numbers(kind):
    """A mask, an imaginary part or a unit is not dropped on the way, and no other error comes."""
    cohort, odd = sf.datasets.synthetic(n=5, seed=0), ODD[kind]
    fitted = sf.SoftFair(c=1.0).fit(cohort, k=2, horizon=3)
    frame = {name: [0.5] * 5 for name in ("p00", "p01", "p10", "p11")}
    works = [
        lambda: fitted.scores(0, odd(np.zeros(5))),
        lambda: fitted.inclusion(0, odd(np.zeros(5))),
        lambda: fitted.draw(0, odd(np.zeros(5)), np.random.default_rng(0)),
        lambda: sf.metrics.action_entropy(odd(np.ones((3, 5)))),
        lambda: sf.Cohort(cohort.P, reward=odd(np.ones(2))),
        lambda: sf.Cohort(cohort.P, start=odd(np.zeros(5))),
    ]
    if kind not in ("bytes", "masked", "record"):  # which a frame holds as text or not at all
        works.append(lambda: sf.Cohort.from_frame(pd.DataFrame({**frame, "p11": odd(np.ones(5))})))
    for work in works:
        with pytest.raises(InvalidInput) as caught:
            work()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("odd", [np.timedelta64(1, "s"), np.datetime64("2020-01-01"), None, "x"])
def test_a_decision_and_a_discount_that_are_no_numbers(odd):
    cohort = sf.datasets.synthetic(n=5, seed=0)
    fitted = sf.SoftFair(c=1.0).fit(cohort, k=2, horizon=3)
    works = (
        lambda: fitted.scores(odd, np.zeros(5, int)),
        lambda: sf.indices.whittle(cohort, gamma=odd),
        lambda: sf.SoftFair(c=odd),
        lambda: sf.SoftFair(c=1.0).fit(cohort, k=[odd] * 3, horizon=3),
        lambda: sf.SoftFair(c=1.0, shares={"a": (odd, 1)}),
    )
    for work in works:
        with pytest.raises(InvalidInput):
            work()


def test_a_message_is_one_line_whatever_was_given():
    with pytest.raises(InvalidInput) as caught:
        sf.sampling.inclusion(np.zeros(6), np.ma.masked_array(2.0, mask=True))
    assert "masked_array(data=--, mask=True" in str(caught.value)


# Processes.


def test_ctrl_c_while_waiting_for_another_writer(small):
    """Ctrl-C ends the waiting; the message at a terminal is tested with `progress.say`."""
    code = (
        "import signal\n"
        "from softfair.programme.store import Store\n"
        # Who runs the tests in the background may have told them to ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"database = Store({small.name!r})\n"
        "print('ready', flush=True)\n"
        "with database.writing():\n"
        "    print('it has the lock', flush=True)\n"
    )
    with small.writing():
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "ready\n"
        time.sleep(1)
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=30)
        assert time.monotonic() - begun < 20
    assert out == ""
    assert "KeyboardInterrupt" in errors


@pytest.mark.slow
def test_an_output_that_is_full_or_knows_ascii_alone(tmp_path):
    well("init", "--sample", folder=tmp_path)
    command = [sys.executable, "-c", "from softfair.cli import main; main()", "check"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "softfair: the output cannot be written: No space left on device"
    ]
    done = subprocess.run(
        [*command[:-1], "plan"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_library_that_finds_no_memory_is_no_traceback(monkeypatch, capsys):
    from softfair import cli
    from softfair.ending import NO_MEMORY

    def app(**_):
        try:
            raise OSError("libllvmlite.so: failed to map segment from shared object")
        except OSError:
            raise ImportError("the library cannot be found") from None

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(sys, "argv", ["softfair", "check"])
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == f"softfair: {NO_MEMORY}\n"

    def other(**_):
        raise ImportError("another reason")

    monkeypatch.setattr(cli, "app", other)
    with pytest.raises(ImportError, match="another reason"):
        cli.main()


def test_a_process_without_input_and_output(small, tmp_path):
    """What `>&-` of a shell and some schedulers leave: no descriptor at all."""
    code = "from softfair.cli import main; main()"
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        command = f"{sys.executable} -c '{code}' plan --db small.db {closed}"
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert check(small).wrong == ()


@pytest.mark.slow
def test_commit_and_draw_at_the_command_line(tmp_path):
    told = well("init", "--sample", "--seed", 2**100, folder=tmp_path)
    assert "hash of the seed: " in told
    told = well("plan", "--commit", folder=tmp_path)
    code = told.split("Code: ")[1].split()[0]
    assert json.loads(well("plan", "--commit", "--json", folder=tmp_path))["code"] == code
    assert f"is committed, with the code {code}" in refused("plan", folder=tmp_path)
    assert "give one of them" in refused("plan", "--commit", "--luck", "x", folder=tmp_path)
    assert "--commit" in refused("plan", "--replan", "x", "--luck", "y", folder=tmp_path)
    (tmp_path / "beacon.json").write_text(json.dumps({"round": 1000, "signature": "00" * 48}))
    assert "too early" in refused("plan", "--beacon", "beacon.json", folder=tmp_path)
    told = well("plan", "--luck", "dice 1 2 3", folder=tmp_path)
    assert "Drawn with public luck: dice 1 2 3." in told
    assert f"It was committed before, with the code {code}." in told
    assert json.loads(well("plan", "--json", folder=tmp_path))["code"] == code
    well("check", "--out", "head.txt", folder=tmp_path)
    assert (tmp_path / "head.txt").read_text() in told
    assert "still stands" in well("check", "--against", "head.txt", folder=tmp_path)
    again = refused("plan", "--luck", "dice 4 5 6", folder=tmp_path)
    assert "round 21 does not wait for luck" in again
    verifier = well("check", "--new-key", "key.pem", folder=tmp_path).strip()
    said = refused("check", "--against", "head.txt", "--signed-by", verifier, folder=tmp_path)
    assert "not signed by that key" in said
    assert "cannot read" in refused("check", "--against", "nothing.txt", folder=tmp_path)
    with sqlite3.connect(tmp_path / "softfair.db") as connection:
        connection.execute("UPDATE plan_row SET score = score + 1 WHERE person = 5")
    done = run("check", "--against", "head.txt", folder=tmp_path)
    assert done.returncode == 2
    assert "still stands" not in done.stdout


# Compiled kernels.


def test_a_changed_kernel_is_never_served_from_an_old_cache(tmp_path, monkeypatch):
    """The cache depends on the content of all kernels, not only on the file of the function."""
    from softfair.kernels import cache, joint

    before = cache._content()
    assert joint.draw_joint._cache._impl.locator.get_source_stamp() == before
    for file in cache.HERE.glob("*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(cache, "HERE", tmp_path)
    assert cache._content() == before
    for file in sorted(tmp_path.glob("*.py")):
        content = file.read_bytes()
        file.write_bytes(content + b"\n# changed\n")
        assert cache._content() != before, file.name
        file.write_bytes(content)


KERNEL = """
import hashlib, os, sys
import numpy as np
if len(sys.argv) > 1:  # no folder can be written to, which is how numba tries it
    import tempfile

    def refuse(**_):
        raise PermissionError("read-only")

    tempfile.TemporaryFile = refuse
from softfair.kernels.order import kth_smallest
from softfair.kernels.shift import expected_count
from softfair.sampling import inclusion
values = np.random.default_rng(0).normal(size=999)
total = expected_count(0, 999, values, values.max(), 0.3, np.int64(1))
# Kernels that call others: where these shared code, the compiling run differed in the last digits.
chances = [inclusion(4 * values[i : i + 6], 1 + i % 5, "joint") for i in range(50)]
parts = [kth_smallest(values, 7), *total, *np.concatenate(chances)]
print(hashlib.sha256(np.array(parts).tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_without_a_place_to_keep_kernels_everything_runs(tmp_path):
    """A compiling run, a run from the cache and a run without a cache give the same bits."""

    def runs(*words, **environment):
        given = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        return subprocess.run(
            [sys.executable, "-c", KERNEL, *words],
            env={**given, **environment},
            capture_output=True,
            text=True,
            check=True,
        )

    first, second = (runs(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert list(tmp_path.rglob("*.nbc"))
    assert (first.stderr, second.stderr, first.stdout) == ("", "", second.stdout)
    without = runs("read-only")
    assert without.stdout == first.stdout
    warned = [line for line in without.stderr.splitlines() if "Warning" in line]
    assert len(warned) == 1, without.stderr
    assert "compiled kernels cannot be kept" in warned[0]


# Files that are far from what they seem.


def parquet(**columns):
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def workbook(cells):
    book = openpyxl.Workbook()
    for row in cells:
        book.active.append(row)
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        parquet(id=pa.array([str(i % 7) for i in range(10**5)]).dictionary_encode()),
        parquet(id=["a", "b"], note=["x" * 2**21, "y"]),
        workbook([["id", "note"], *[[f"p{i}", "x" * 1000] for i in range(500)]]),
    ],
    ids=["many rows in few bytes", "a long entry in few bytes", "a workbook"],
)
def test_what_would_not_fit_in_memory_is_refused_before_it_is_unpacked(data, monkeypatch):
    monkeypatch.setattr(formats, "available_memory", lambda: 2**20)
    assert len(data) < 2**17
    with pytest.raises(InvalidInput, match=r"in memory, and 0\.0 GiB are free; split it into"):
        formats.read_format(io.BytesIO(data), "people", None)
    monkeypatch.setattr(formats, "available_memory", lambda: 2**30)
    assert len(formats.read_format(io.BytesIO(data), "people", None).lines)


def test_codes_of_a_parquet_file_are_its_entries():
    texts = [" a", "a", None, "", "b ", "a"]
    coded = pa.chunked_array(
        [pa.array(texts[:4]).dictionary_encode(), pa.array(texts[4:]).dictionary_encode()]
    )
    for column in (coded, pa.chunked_array([pa.array(texts)])):
        distinct, codes = reading._encoded(column, "x", "here")
        assert [distinct[code] for code in codes] == ["a", "a", "", "", "b", "a"]
        assert len(set(distinct)) == len(distinct)


@pytest.mark.parametrize("words", [("import", "people"), ("record",), ("check", "--against")])
def test_a_device_is_no_file_and_is_not_read_to_its_end(small, tmp_path, words):
    """It has none; a pipe has one and is read."""
    said = refused(*words, "/dev/zero", "--db", "small.db", folder=tmp_path)
    assert "/dev/zero is a device; give a file" in said


def test_other_files_are_no_devices_either(tmp_path):
    from softfair.files import read_cohort
    from softfair.theory.output import recheck_file

    for read in (lambda: read_cohort("/dev/zero"), lambda: recheck_file(Path("/dev/zero"))):
        with pytest.raises(InvalidInput, match="is a device"):
            read()
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", "printf 'id\\np1\\n' > pipe"], cwd=tmp_path):
        database = Store(str(tmp_path / "piped.db"))
        initialise(database, NAME)
        assert import_people(database, str(tmp_path / "pipe"), NAME).rows == 1


@pytest.mark.parametrize("workers", ["99999999", "9" * 5000, str(4 * (os.cpu_count() or 1) + 1)])
def test_processes_without_number_are_not_started(workers):
    from softfair.cluster import crew_of

    with pytest.raises(InvalidInput, match="processes, on a machine with"):
        crew_of(workers)


def test_a_line_of_many_mebibytes(monkeypatch):
    monkeypatch.setattr(formats, "LONGEST_LINE", 2**20)
    text = b"id,note\np1,x\np2," + b"y" * 2**20 + b"\np3,z\n"
    with pytest.raises(InvalidInput, match=r"people: line 3 has more than 1 MiB"):
        formats.read_format(io.BytesIO(text), "people", None)
    rows = b"id,note\n" + b"p,x\n" * 2**19  # long as a whole, and no line is
    assert len(formats.read_format(io.BytesIO(rows), "people", None).lines) == 2**19


def test_faults_without_end_are_not_all_kept(small, monkeypatch):
    monkeypatch.setattr(reading, "MOST_FAULTS", 10)
    with pytest.raises(BadRows, match="at least 10 bad entries in 10 rows") as caught:
        import_people(small, b"id\n" + b"p1\n" * 100, NAME)
    assert len(caught.value.faults) == 10


@pytest.mark.parametrize(
    "twin",
    ["A\u200b1", "\uff21\uff11", "A1\u2060", "A\ufe0f1", "A\u034f1", "A1\u3164", "A1\u2800"],
)
def test_identifiers_that_look_the_same_are_not_two_people(small, twin):
    with pytest.raises(BadRows) as caught:
        import_people(small, f"id\nA1\nA2\n{twin}\n".encode(), NAME)
    [fault] = caught.value.faults
    assert fault.line == 4
    assert "looks the same as another identifier" in fault.problem
    import_people(small, b"id\nA1\nA2\n", NAME)
    imported = import_people(small, f"id,region\n{twin},n\n".encode(), NAME)
    assert "1 identifiers were spelt otherwise" in " ".join(imported.notes)


@pytest.mark.parametrize("name", ["\u200b", "\u2800\u2800", "\u3164"])
def test_an_identifier_that_nobody_can_see_is_a_fault(small, name):
    with pytest.raises(BadRows) as caught:
        import_people(small, f"id\n{name}\n".encode(), NAME)
    assert "cannot be seen" in str(caught.value.faults[0])


def test_control_characters_are_spelt_out(small, tmp_path):
    """The name of a file and a reason are stored as they are, and shown as letters."""
    odd = "\x1b]0;owned\x07\x1b[2J\u202e"
    (tmp_path / f"{odd}.csv").write_text("id,region\np1,west\n", encoding="utf-8")
    well("import", "people", f"{odd}.csv", "--db", "small.db", folder=tmp_path)
    last = json.loads(well("log", "--last", "1", "--json", "--db", "small.db", folder=tmp_path))[0]
    assert last["file"] == f"{odd}.csv"
    shown = well(
        "retract", str(last["number"]), "--reason", odd, "--db", "small.db", folder=tmp_path
    )
    shown += well("log", "--db", "small.db", folder=tmp_path)
    assert shown.count(r"\x1b[2J\u202e") == 3
    assert not any(letter in shown for letter in odd if not letter.isprintable())


def test_a_column_that_is_needed_cannot_be_ignored(small, tmp_path):
    (tmp_path / "people.csv").write_text("id,region\np1,west\n", encoding="utf-8")
    said = refused(
        "import", "people", "people.csv", "--ignore", "id", "--db", "small.db", folder=tmp_path
    )
    assert "is of no use without its column 'id'; leave it out of --ignore" in said


def test_a_formula_and_its_quoted_form_are_one_person(small):
    with pytest.raises(BadRows, match="1 bad entry in 1 row, the first in line 3"):
        import_people(small, b"id\n=A\n'=A\n", NAME)


def test_very_many_columns(small):
    names = [f"c{j}" for j in range(600)]
    rows = "".join(
        f"p{i}," + ",".join(str((i * j) % 2) for j in range(600)) + "\n" for i in range(8)
    )
    done = import_people(small, f"id,{','.join(names)}\n{rows}".encode(), NAME)
    settings = Settings(capacity=2)
    [said] = [line for line in told(done, "people", settings) if line.startswith("Taken as groups")]
    assert said.endswith("c39 and 560 more.")
    people = {f"c{j}": np.arange(40) % (2 + j % 3) == 0 for j in range(501)}
    design = design_of(people, 40)
    assert design.X.shape == (40, 0)
    assert design.left_out[0].startswith("no column is used: they make 501 numbers a person")


@pytest.mark.parametrize(("with_value", "said"), [(2, "600 columns are not"), (9, "no column")])
def test_more_columns_than_can_be_weighed_are_not_read(small, monkeypatch, with_value, said):
    """One column has a value for everybody; each of 600 other columns has few values, or many."""
    names = [f"c{j}" for j in range(600)]
    rows = "".join(
        f"p{i},{'ns'[i % 2]}," + ",".join("x" if i < with_value else "" for _ in names) + "\n"
        for i in range(20)
    )
    import_people(small, f"id,region,{','.join(names)}\n{rows}".encode(), NAME)
    seen = "".join(f"p{i},{r},{(i + r) % 2},{i % 2}\n" for i in range(20) for r in range(1, 6))
    import_history(small, f"id,round,state,contacted\n{seen}".encode(), NAME)
    read, group = [], People.group
    monkeypatch.setattr(People, "group", lambda self, name: read.append(name) or group(self, name))
    model, _ = fit(small, NAME)
    assert model.summary.left_out[0].startswith(said)
    assert set(read) <= {"region"}
