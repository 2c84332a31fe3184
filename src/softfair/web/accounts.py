"""Who may use the pages and the API, and with what rights.

An account is a row of the table `account`; of several rows of one name the last is in force, and an
account without a role is closed. People have a password, stored as an Argon2 hash; programs have a
token of 256 random bits, stored as its SHA-256. A visit begins when somebody signs in and ends when
they sign out, or after `VISIT`. The browser holds the visit's key; the table `visit` stores the
key's SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from ..errors import InvalidInput
from ..for_json import read_json
from ..programme import schema, store
from ..programme.entries import UNPRINTABLE
from ..programme.store import Connection, Store

__all__ = [
    "ADMIN",
    "OFFICER",
    "ROLES",
    "VIEWER",
    "WORKER",
    "Account",
    "account_of_token",
    "accounts",
    "begin_visit",
    "check_password",
    "close_account",
    "end_visit",
    "link_for",
    "new_account",
    "new_token",
    "use_link",
    "visitor_in",
    "visitor_of",
]

VIEWER, WORKER, OFFICER, ADMIN = "viewer", "worker", "officer", "admin"
ROLES = {
    VIEWER: "sees everything except how to reach people, and changes nothing",
    WORKER: "sees and marks only their own list",
    OFFICER: "imports, plans, marks, corrects",
    ADMIN: "all that, and sees the accounts",
}
CLOSED = ""  # the role of a closed account
SHORTEST = 8  # characters of a password
LONGEST = 1024  # most characters that are hashed, so that a password cannot keep the server busy
VISIT = timedelta(hours=12)
LINK = timedelta(minutes=10)
TOKEN = "sha256:"  # what the secret of a program begins with
NO_SECRET = "none"  # the secret of an account that is entered only by a link


@dataclass(frozen=True)
class Account:
    """An account: a person or a program, with a role."""

    id: int
    name: str
    role: str
    scope: tuple[str, str] | None  # column and value of the people whom a worker sees
    secret: str

    @property
    def is_program(self) -> bool:
        """Whether the account has a token instead of a password."""
        return self.secret.startswith(TOKEN)


@cache
def _hasher() -> Any:
    try:
        from argon2 import PasswordHasher
    except ModuleNotFoundError:
        raise InvalidInput('accounts need more packages; pip install "softfair[web]"') from None
    return PasswordHasher()


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _from_row(row: Any) -> Account:
    scope = None if row.scope is None else tuple(read_json(row.scope))
    return Account(row.id, row.name, row.role, scope, row.secret)


def accounts(database: Store) -> list[Account]:
    """The open accounts, in the order of their names."""
    with database.reading() as connection:
        return sorted(_open(connection).values(), key=lambda account: account.name)


def _open(connection: Connection) -> dict[str, Account]:
    """The open accounts, by name."""
    rows = connection.execute(sa.select(schema.account).order_by(schema.account.c.id))
    last = {row.name: _from_row(row) for row in rows}
    return {name: account for name, account in last.items() if account.role != CLOSED}


def new_account(
    database: Store,
    name: str,
    role: str,
    password: str | None,
    scope: tuple[str, str] | None = None,
) -> Account:
    """Make an account, or give the one of that name another password, role or scope.

    Parameters
    ----------
    database
        The programme.
    name
        What the person signs in with.
    role
        One of `ROLES`.
    password
        None: the account is entered only by a link, see `link_for`.
    scope
        For a worker, column and value of their people, such as ``("worker", "Asha")``.

    Raises
    ------
    InvalidInput
        If the name, role, password or scope cannot be used.
    """
    if password is not None and not SHORTEST <= len(password) <= LONGEST:
        raise InvalidInput(
            f"the password has {len(password)} characters; give {SHORTEST} to {LONGEST}"
        )
    secret = NO_SECRET if password is None else _hasher().hash(password)
    return _add(database, name, role, scope, secret)


def new_token(
    database: Store, name: str, role: str, scope: tuple[str, str] | None = None
) -> tuple[Account, str]:
    """Make an account of a program; its token is returned once and not stored.

    Parameters
    ----------
    database
        The programme.
    name, role, scope
        As in `new_account`.
    """
    token = secrets.token_urlsafe(32)
    return _add(database, name, role, scope, TOKEN + _digest(token)), token


def _add(
    database: Store, name: str, role: str, scope: tuple[str, str] | None, secret: str
) -> Account:
    if not name.strip() or name != name.strip() or len(name) > 100 or UNPRINTABLE.search(name):
        raise InvalidInput(f"the name is {name!r}; give up to 100 letters, without spaces around")
    if role not in ROLES:
        raise InvalidInput(f"the role is {role!r}; choose {', '.join(ROLES)}")
    if (role == WORKER) != (scope is not None):
        raise InvalidInput(
            "a worker has a list of their own and nobody else has; say whose it is, such as "
            "--role worker --of worker=Asha (a column of the people's file and its value)"
        )
    with database.writing() as connection:
        return _append(connection, database.who, name, role, scope, secret)


def _append(
    connection: Connection,
    who: str,
    name: str,
    role: str,
    scope: tuple[str, str] | None,
    secret: str,
) -> Account:
    values = {
        "created": store.now(),
        "made_by": who,
        "name": name,
        "role": role,
        "scope": None if scope is None else json.dumps(scope, ensure_ascii=False),
        "secret": secret,
    }
    key = connection.execute(schema.account.insert().values(**values)).inserted_primary_key
    assert key is not None
    return Account(int(key[0]), name, role, scope, secret)


def close_account(database: Store, name: str) -> None:
    """Close an account: whoever is signed in with it is signed out.

    Parameters
    ----------
    database
        The programme.
    name
        Of the account.

    Raises
    ------
    InvalidInput
        If there is no such account.
    """
    with database.writing() as connection:
        if name not in _open(connection):
            raise InvalidInput(f"there is no account {name!r}; see: softfair user list")
        _append(connection, database.who, name, CLOSED, None, NO_SECRET)


def check_password(database: Store, name: str, password: str) -> Account | None:
    """The account of a name, if the password is right.

    A name that does not exist takes as long as a wrong password.

    Parameters
    ----------
    database
        The programme.
    name, password
        What was typed.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    with database.reading() as connection:
        account = _open(connection).get(name)
    secret = account.secret if account is not None else NO_SECRET
    known = secret.startswith("$argon2")
    try:
        right = _hasher().verify(secret if known else _nobodys(), password[:LONGEST])
    except (VerificationError, InvalidHashError):
        right = False
    return account if right and known else None


@cache
def _nobodys() -> str:
    """The hash of a password that nobody has."""
    return str(_hasher().hash(secrets.token_hex(16)))


def account_of_token(database: Store, token: str) -> Account | None:
    """The program that a token belongs to, if any."""
    secret = TOKEN + _digest(token)
    with database.reading() as connection:
        return next((one for one in _open(connection).values() if one.secret == secret), None)


def begin_visit(database: Store, account: Account) -> str:
    """Note that somebody has signed in; returns the key of the visit, for their browser."""
    with database.signed(account.name).writing() as connection:
        return _note(connection, account, "begin", secrets.token_urlsafe(32))


def end_visit(database: Store, account: Account, key: str) -> None:
    """Note that somebody has signed out; the key of the visit is then not valid any more."""
    with database.signed(account.name).writing() as connection:
        _note(connection, account, "end", key)


def link_for(database: Store, name: str) -> str:
    """A key that signs somebody in once, within the time `LINK`.

    Parameters
    ----------
    database
        The programme.
    name
        Of the account.

    Raises
    ------
    InvalidInput
        If there is no such account.
    """
    with database.writing() as connection:
        account = _open(connection).get(name)
        if account is None:
            raise InvalidInput(
                f"there is no account {name!r}; make one with: softfair user add {name}"
            )
        return _note(connection, account, "link", secrets.token_urlsafe(32))


def use_link(database: Store, key: str) -> str | None:
    """Sign in with a link; returns the key of the visit, None if the link is old, used or wrong."""
    with database.writing() as connection:
        account = _found(connection, key, "link", LINK)
        if account is None:
            return None
        _note(connection, account, "end", key)
        return _note(connection, account, "begin", secrets.token_urlsafe(32))


def visitor_of(database: Store, key: str) -> Account | None:
    """The account of the visit with a key; None: there is no such visit, or it has ended."""
    with database.reading() as connection:
        return visitor_in(connection, key)


def visitor_in(connection: Connection, key: str) -> Account | None:
    """As `visitor_of`, within a transaction."""
    return _found(connection, key, "begin", VISIT)


def _note(connection: Connection, account: Account, kind: str, key: str) -> str:
    values = {"created": store.now(), "account": account.id, "kind": kind, "digest": _digest(key)}
    connection.execute(schema.visit.insert().values(**values))
    return key


def _found(connection: Connection, key: str, kind: str, lasts: timedelta) -> Account | None:
    """The account of a key of this kind, if the key has not ended and the account is in force."""
    v = schema.visit
    rows = connection.execute(sa.select(v).where(v.c.digest == _digest(key))).all()
    if len(rows) != 1 or rows[0].kind != kind:
        return None
    begun = datetime.fromisoformat(rows[0].created)
    if datetime.now(UTC) - begun > lasts:
        return None
    a = schema.account
    name = connection.execute(sa.select(a.c.name).where(a.c.id == rows[0].account)).scalar_one()
    account = _open(connection).get(name)
    # A new password, role or scope makes a new row, which ends earlier visits.
    return account if account is not None and account.id == rows[0].account else None
