"""What the address of a database may be: a SQLite file, or a database in PostgreSQL.

No message repeats a password. A text that looks like the address of a server, but is not one, does
not become a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from ..errors import StoreError

__all__ = ["DEFAULT", "first_line", "public_name", "readable", "url_of", "without_password"]

DEFAULT = "softfair.db"
SUFFIXES = (".db", ".sqlite", ".sqlite3")
ADDRESS = "give a file, or postgresql+psycopg://user@host/name (the password from PGPASSWORD)"


@contextmanager
def readable(address: str) -> Iterator[None]:
    """Raise errors from an address as a StoreError of one line, without a password."""
    try:
        yield
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ValueError) as error:
        # The parser of addresses repeats what stands at the place of the port: without an @ that
        # may be the password.
        plain = isinstance(error, sa.exc.ArgumentError)
        reason = first_line(error) if plain else "what stands for the port is no number"
        raise StoreError(
            f"--db {_hidden(address)} cannot be read ({reason}); "
            "give a file or postgresql+psycopg://user@host/name"
        ) from None
    except ModuleNotFoundError:
        raise StoreError(
            "PostgreSQL needs the package psycopg; install softfair[postgresql]"
        ) from None


def url_of(address: str) -> sa.URL:
    """The URL of an address.

    Parameters
    ----------
    address
        Path of a SQLite file, or an address such as ``postgresql+psycopg://user@host/name``.

    Raises
    ------
    StoreError, ArgumentError
        If it is no such address, or nothing would be kept there.
    """
    _refuse_odd_address(address)
    is_url = "://" in address
    url = sa.make_url(address) if is_url else sa.URL.create("sqlite", database=address)
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise sa.exc.ArgumentError(f"{backend} is not known here")
    if url.database in (None, "", ":memory:"):
        raise sa.exc.ArgumentError("nothing would be kept")
    return url


def public_name(url: sa.URL) -> str:
    """An address without a password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    public = {key: value for key, value in url.query.items() if "pass" not in key.lower()}
    return url.set(query=public).render_as_string(hide_password=True)


def without_password(url: sa.URL, text: str) -> str:
    """A text in which the password of an address is replaced by stars."""
    for secret in (url.password, url.query.get("password")):
        if isinstance(secret, str) and secret:
            text = text.replace(secret, "***")
    return text


def first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _hidden(url: str) -> str:
    """An address that could not be read, without what may be a password."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    shown = rest.rpartition("@")[2].partition("?")[0]
    return scheme + separator + re.sub(r":(?![0-9]+(/|$))[^/]*", ":***", shown)


def _refuse_odd_address(url: str) -> None:
    """Raise if a text looks like the address of a server and is none, without repeating it."""
    url = url.removeprefix("sqlite:///")  # before the name of a file, which is checked as any other
    if "://" in url:
        if url.partition("://")[2].partition("?")[0].count("@") > 1:
            raise StoreError(
                f"--db has more than one @; write %40 for an @ in a password, or {ADDRESS}"
            )
        return
    path = Path(url)
    try:
        if path.exists() or (path.suffix in SUFFIXES and not re.match("[^/]*:[^/]*@", url)):
            return
    except (OSError, ValueError):  # too long, or with a zero byte
        pass
    if re.search(r"@|\w\s*=|^[a-z+]+:", url) or not url.isprintable():
        raise StoreError(f"--db is neither a file nor an address that can be read; {ADDRESS}")
