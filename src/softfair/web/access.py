"""What a request must prove before it is answered.

Every route states by a dependency who may use it: `Needs` for pages (somebody signed in, with one
of these roles) or `NeedsToken` for the API. A form carries a word that only the pages of the same
visit know, so that no other site can send it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from ..programme import schema, store
from ..programme.settings import current_settings
from ..programme.store import Connection, Store
from .accounts import ADMIN, OFFICER, VIEWER, WORKER, Account, account_of_token, visitor_in
from .memory import moment_of

__all__ = [
    "COOKIE",
    "Anybody",
    "Attempts",
    "Changes",
    "Forbidden",
    "Form",
    "Guard",
    "Lists",
    "Manages",
    "Marks",
    "Needs",
    "NeedsToken",
    "NotSignedIn",
    "Sees",
    "Visitor",
]

COOKIE = "softfair"
HARMLESS = ("GET", "HEAD", "OPTIONS")
FIELDS = 2000  # most fields of a form: an import says what each column means


class NotSignedIn(Exception):
    """Nobody is signed in, or the visit has ended."""


class Forbidden(Exception):
    """A visitor asked for something that their account may not have."""


@dataclass(frozen=True)
class Visitor:
    """The account that sends a request, and the programme's database for it."""

    account: Account
    database: Store  # what the visitor writes there is signed with their name
    key: str = ""  # of the visit
    moment: tuple[Any, ...] | None = None  # of the programme; None: not known, or it may change

    @property
    def word(self) -> str:
        """The word that forms of this visit carry, which other sites cannot know."""
        return hmac.new(self.key.encode(), b"form", hashlib.sha256).hexdigest()

    def may(self, roles: tuple[str, ...]) -> bool:
        """Whether the visitor has one of these roles."""
        return self.account.role in roles


async def form_of(request: Request) -> FormData:
    """The fields and files of a request."""
    return await request.form(max_files=1, max_fields=FIELDS)


class Guard:
    """What a route needs; ``roles`` None: anybody may use it."""

    roles: tuple[str, ...] | None = None


class Anybody(Guard):
    """The guard of a route that anybody may use without signing in."""

    async def __call__(self) -> None:
        """Let everybody in."""


class Needs(Guard):
    """The guard of a route for visitors who are signed in with one of these roles.

    Parameters
    ----------
    *roles
        The visitor must have one of them.
    """

    def __init__(self, *roles: str) -> None:
        self.roles = roles

    async def __call__(self, request: Request) -> Visitor:
        """The visitor who sends a request.

        Raises
        ------
        NotSignedIn
            If nobody is signed in.
        Forbidden
            If their role is another, or a form does not come from a page of this visit.
        """
        database: Store = request.app.state.database
        key = request.cookies.get(COOKIE, "")
        account, moment = await run_in_threadpool(_met, database, key) if key else (None, ())
        if account is None:
            raise NotSignedIn
        now = moment if request.method in HARMLESS else None
        visitor = Visitor(account, database.signed(account.name), key, now)
        if account.role not in (self.roles or ()):
            raise Forbidden
        if request.method not in HARMLESS:
            form = await form_of(request)
            if not hmac.compare_digest(str(form.get("word", "")).encode(), visitor.word.encode()):
                raise Forbidden
        request.state.visitor = visitor
        return visitor


def _met(database: Store, key: str) -> tuple[Account | None, tuple[Any, ...]]:
    """The account of the visit with a key, and the moment of the programme that it sees."""
    with database.reading() as connection:
        return visitor_in(connection, key), moment_of(connection)


class NeedsToken(Needs):
    """The guard of a route for programs that show a token of an account with one of these roles."""

    async def __call__(self, request: Request) -> Visitor:
        """The program that sends a request.

        Raises
        ------
        NotSignedIn
            If there is no token, or it is not known.
        Forbidden
            If its role is another.
        """
        database: Store = request.app.state.database
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        account = None
        if kind.lower() == "bearer" and token.strip():
            account = await run_in_threadpool(account_of_token, database, token.strip())
        if account is None:
            raise NotSignedIn
        if account.role not in (self.roles or ()):
            raise Forbidden
        return Visitor(account, database.signed(account.name))


SEES = (VIEWER, OFFICER, ADMIN)
LISTS = (VIEWER, WORKER, OFFICER, ADMIN)
MARKS = (WORKER, OFFICER, ADMIN)
CHANGES = (OFFICER, ADMIN)
MANAGES = (ADMIN,)

Form = Annotated[FormData, Depends(form_of)]
Sees = Annotated[Visitor, Depends(Needs(*SEES))]
Lists = Annotated[Visitor, Depends(Needs(*LISTS))]
Marks = Annotated[Visitor, Depends(Needs(*MARKS))]
Changes = Annotated[Visitor, Depends(Needs(*CHANGES))]
Manages = Annotated[Visitor, Depends(Needs(*MANAGES))]


class Attempts:
    """Failed attempts to sign in, in the last minutes, at all processes that serve a programme.

    Parameters
    ----------
    database
        The programme. Neither addresses nor names are stored, only keyed hashes of them.
    most
        How many failed attempts one address may make; a quarter of that with one name.
    seconds
        How long an attempt counts.
    """

    def __init__(self, database: Store, most: int = 20, seconds: float = 300.0) -> None:
        self.database, self.most, self.seconds = database, most, seconds

    def refused(self, address: str, name: str) -> bool:
        """Whether there were too many failed attempts."""
        a, since = schema.attempt, datetime.now(UTC) - timedelta(seconds=self.seconds)
        with self.database.reading() as connection:
            told = self._told(connection, address, name)
            late = sa.select(a).where(a.c.created >= since.isoformat(timespec="seconds"))
            rows = connection.execute(late.where(a.c.place == told["place"])).all()
        alone = sum(row.whose == told["whose"] for row in rows)
        return alone >= self.most // 4 or len(rows) >= self.most

    def fail(self, address: str, name: str) -> None:
        """Note a failed attempt."""
        with self.database.writing() as connection:
            told = self._told(connection, address, name)
            connection.execute(schema.attempt.insert().values(created=store.now(), **told))

    def _told(self, connection: Connection, address: str, name: str) -> dict[str, str]:
        """Keyed hashes of an address and a name; without the seed nobody can compute them."""
        key = str(current_settings(connection)[1].seed).encode()
        return {
            column: hmac.new(key, json.dumps(text).encode(), hashlib.sha256).hexdigest()
            for column, text in (("place", [address]), ("whose", [address, name]))
        }
