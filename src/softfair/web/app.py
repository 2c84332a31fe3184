"""The application: its routes, its error pages, and what is added to every answer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from ..errors import SoftFairError
from ..programme.luck import QUICKNET, Chain
from ..programme.store import Store
from ..programme.words import percent
from . import pages
from .access import Attempts, Forbidden, NotSignedIn
from .api import api
from .memory import Memory
from .pages.shared import plain_page, still_working
from .words import capitalised, on_page
from .work import PATIENCE, Jobs, StillWorking

__all__ = ["application", "from_environment"]

LARGEST = 64 * 2**20  # bytes of a request: 100,000 people with a year of history are some 40 MiB
LARGE, SMALL = 16, 512  # numbers of results that are kept: large ones, and figures or rows
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Around:
    """Adds headers to every answer, and refuses requests that are too large.

    Parameters
    ----------
    app
        The application that answers.
    largest
        Most bytes of a request.
    """

    def __init__(self, app: Any, largest: int = LARGEST) -> None:
        self.app, self.largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        told = dict(scope["headers"]).get(b"content-length", b"0")
        if not told.isdigit() or int(told) > self.largest:
            await self._refuse(scope, receive, send_with_headers)
            return
        received = 0

        async def counted() -> dict[str, Any]:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.largest:
                raise HTTPException(413, "the request is too large")
            return message

        await self.app(scope, counted, send_with_headers)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = f"The file is too large; at most {self.largest // 2**20} MiB are taken.\n"
        refusal = Response(text, 413, media_type="text/plain")
        await refusal(scope, receive, send)  # type: ignore[arg-type]


def application(
    database: Store,
    spool: Path | None = None,
    largest: int = LARGEST,
    patience: float = PATIENCE,
    chain: Chain = QUICKNET,
) -> FastAPI:
    """The pages and the API of a programme.

    Parameters
    ----------
    database
        The programme.
    spool
        Folder for files between upload and import; several processes share it.
    largest
        Most bytes of a request.
    patience
        Seconds that a request waits for its work, before a page says how far it is.
    chain
        The chain of beacons that may be the luck of a draw.

    Returns
    -------
    FastAPI
        An ASGI application.
    """
    # The description of the API is a route of its own, which needs a token like the others.
    app = FastAPI(title="softfair", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.database = database
    app.state.memory = Memory(LARGE)
    app.state.figures = Memory(SMALL)
    app.state.attempts = Attempts(database)
    app.state.spool = spool or Path(tempfile.mkdtemp(prefix="softfair-"))
    app.state.patience = patience
    app.state.chain = chain
    app.state.jobs = Jobs(app.state.spool)
    app.state.templates = _templates()
    app.include_router(pages.router)
    app.include_router(api)
    static = str(files("softfair.web") / "static")
    app.mount("/static", StaticFiles(directory=static), name="static")
    app.add_middleware(Around, largest=largest)
    _answer_errors(app)
    return app


def from_environment() -> FastAPI:
    """The application of a worker process, configured by the environment of `softfair serve`."""
    spool = os.environ.get("SOFTFAIR_SPOOL")
    return application(Store(os.environ["SOFTFAIR_DB"]), None if spool is None else Path(spool))


def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("softfair.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = percent
    made.filters["when"] = _when
    made.filters["on_page"] = on_page
    made.filters["capitalise"] = capitalised
    return made


def _when(text: str) -> str:
    """A stored time as text, in UTC, to the minute."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _is_api(request: Request) -> bool:
    return request.url.path.startswith("/api/")


def _refused(request: Request, status: int, said: str) -> Response:
    """An answer that says why a request is refused."""
    if _is_api(request):
        return JSONResponse({"detail": said}, status)
    return plain_page(request, status, on_page(said))


def _answer_errors(app: FastAPI) -> None:
    """Register the answers to requests that raise an exception."""
    app.exception_handler(StillWorking)(still_working)

    @app.exception_handler(NotSignedIn)
    def not_signed_in(request: Request, error: Exception) -> Response:
        if _is_api(request):
            return JSONResponse(
                {"detail": "show a token: Authorization: Bearer TOKEN"},
                401,
                {"WWW-Authenticate": "Bearer"},
            )
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        to = "/sign-in" + (f"?next={quote(asked)}" if request.method == "GET" else "")
        if "hx-request" in request.headers:
            return Response(status_code=401, headers={"HX-Redirect": to})
        return RedirectResponse(to, 303)

    @app.exception_handler(Forbidden)
    def forbidden(request: Request, error: Exception) -> Response:
        return _refused(request, 403, "This is not for your account, or the page was too old.")

    @app.exception_handler(SoftFairError)
    def wrong(request: Request, error: Exception) -> Response:
        # 409 tells a program: the request is well formed, but in conflict with what is stored.
        status = 409 if _is_api(request) else 400
        return _refused(request, status, f"{capitalised(str(error))}.")

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        if _is_api(request):
            parts = ("loc", "msg", "type")  # not what was sent, which may name people
            places = [{part: one[part] for part in parts} for one in error.errors()]
            return JSONResponse({"detail": places}, 422)
        return _refused(request, 422, "Something that was asked for is missing or no number.")

    @app.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> Response:
        said = {404: "There is no such page."}.get(error.status_code, str(error.detail))
        answer = _refused(request, error.status_code, said)
        answer.headers.update(error.headers or {})
        return answer
