"""The commands of the page: user, serve."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import Annotated, Literal

import typer

from ..errors import InvalidInput
from ..programme.commands.shared import Database, Json, examples, open_store

__all__ = ["commands"]

commands = typer.Typer()
user = typer.Typer(
    no_args_is_help=True,
    help="Who may use the page and the API, and how far.",
    epilog=examples("softfair user add mira --role officer", "softfair user list"),
)
commands.add_typer(user, name="user")

Role = Annotated[
    Literal["viewer", "worker", "officer", "admin"],
    typer.Option(
        help="viewer: sees; worker: marks their own list; officer: imports, plans; admin: accounts."
    ),
]
Of = Annotated[
    str | None,
    typer.Option(
        "--of",
        help="Whose list a worker sees, by a column of the people: worker=Asha.",
        show_default="nobody's",
    ),
]
Name = Annotated[str, typer.Argument(help="The name to sign in with.")]


def _scope(of: str | None) -> tuple[str, str] | None:
    if of is None:
        return None
    column, _, value = (part.strip() for part in of.partition("="))
    if not column or not value:
        raise InvalidInput(f"--of is {of!r}; give a column and its value, such as worker=Asha")
    return column, value


@user.command(
    epilog=examples(
        "softfair user add mira --role officer",
        "softfair user add asha --role worker --of worker=Asha",
    )
)
def add(
    name: Name,
    role: Role = "viewer",
    of: Of = None,
    db: Database = "softfair.db",
    no_password: Annotated[
        bool,
        typer.Option("--no-password", help="Enter by `softfair serve --sign-in-as NAME` alone."),
    ] = False,
) -> None:
    """Add an account, or give one a new password and role. The password is asked for, or read from
    standard input."""
    from .accounts import new_account

    password = None if no_password else _password(name)
    made = new_account(open_store(db), name, role, password, _scope(of))
    print(f"{made.name} may sign in as {made.role}. Open the page with: softfair serve")


def _password(name: str) -> str:
    if sys.stdin.isatty():
        asked: str = typer.prompt(
            f"Password for {name}", hide_input=True, confirmation_prompt=True, err=True
        )
        return asked
    return sys.stdin.readline().rstrip("\r\n")


@user.command(epilog=examples("softfair user token call-centre --role officer"))
def token(name: Name, role: Role = "viewer", of: Of = None, db: Database = "softfair.db") -> None:
    """Make a token for a program that uses the API; it is shown once."""
    from .accounts import new_token

    made, key = new_token(open_store(db), name, role, _scope(of))
    print(f"{made.name} is a program with the role {made.role}; its token:", file=sys.stderr)
    print(key)


@user.command("list", epilog=examples("softfair user list"))
def list_(db: Database = "softfair.db", as_json: Json = False) -> None:
    """Tell who has an account."""
    from ..terminal import Table, show
    from .accounts import accounts

    rows = [
        [
            one.name,
            one.role,
            "token" if one.is_program else "person",
            "" if one.scope is None else "=".join(one.scope),
        ]
        for one in accounts(open_store(db))
    ]
    headings = ["name", "role", "kind", "list"]
    if as_json:
        import json

        print(json.dumps([dict(zip(headings, row, strict=True)) for row in rows], indent=1))
    else:
        show(Table(headings, rows, words=set(headings)))


@user.command(epilog=examples("softfair user remove mira"))
def remove(name: Name, db: Database = "softfair.db") -> None:
    """Close an account; whoever is signed in with it is signed out."""
    from .accounts import close_account

    close_account(open_store(db), name)
    print(f"{name} may not sign in any more.")


@commands.command(
    epilog=examples(
        "softfair user add mira --role officer",
        "softfair serve",
        "softfair serve --sign-in-as mira",
    )
)
def serve(
    db: Database = "softfair.db",
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 opens it to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8350,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer.")] = 1,
    sign_in_as: Annotated[
        str | None,
        typer.Option(
            help="Print a link that signs this account in, once.", show_default="by password"
        ),
    ] = None,
) -> None:
    """Open the programme in a browser: this week's list, what fairness costs, the audit."""
    from .accounts import accounts, link_for

    print("loading ...", file=sys.stderr, flush=True)
    try:
        import uvicorn

        from . import app
    except ModuleNotFoundError as missing:
        raise InvalidInput(
            f'the page needs more packages ({missing.name}); pip install "softfair[web]"'
        ) from None
    database = open_store(db)
    if not accounts(database):
        raise InvalidInput(
            "nobody has an account yet; make one with: softfair user add NAME --role admin"
        )
    shown = f"http://{'localhost' if host in ('127.0.0.1', '0.0.0.0') else host}:{port}"
    print(f"softfair is open at {shown} (Ctrl-C ends it)", flush=True)
    if sign_in_as is not None:
        key = link_for(database, sign_in_as)
        print(f"Signed in as {sign_in_as}, once: {shown}/enter?key={key}", flush=True)
    spool = tempfile.mkdtemp(prefix="softfair-")
    os.environ |= {"SOFTFAIR_DB": db, "SOFTFAIR_SPOOL": spool}
    # Addresses of pages may have identifiers of people in them: they are not logged.
    options = {"log_level": "warning", "access_log": False, "server_header": False}
    # A busy machine answers late; a connection that is closed meanwhile would lose a request.
    options["timeout_keep_alive"] = 75
    try:
        uvicorn.run(
            f"{app.__name__}:from_environment",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            **options,  # type: ignore[arg-type]
        )
    finally:
        shutil.rmtree(spool, ignore_errors=True)
