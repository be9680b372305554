"""The server of the live view: Starlette's routes on one socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from innet.errors import InnetError, TelemetryError
from innet.http_server import serving_http
from innet.observe.web.access import HEADERS, Access, Refused
from innet.observe.web.live import View
from innet.telemetry.commands import Command
from innet.validation_messages import first_message

_LINES_AT_ONCE: Final = 40
_MOST_STREAMS: Final = 32
_MOST_BODY_BYTES: Final = 64 * 2**10
_ALIVE_S: Final = 15.0
"""A comment after so much silence shows that the stream lives."""
_SCRIPTS: Final = [
    "app",
    "charts",
    "history",
    "labels",
    "marks",
    "network",
    "panels",
    "session",
    "states",
    "texts",
]
_STATIC: Final = {
    "/": ("index.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript") for name in _SCRIPTS},
    "/vendor/libraries.js": ("vendor/libraries.js", "text/javascript"),
    "/vendor/uplot.css": ("vendor/uplot.css", "text/css"),
    "/vendor/LICENSES.txt": ("vendor/LICENSES.txt", "text/plain"),
}


class _Token(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: str = Field(max_length=256)


class _Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    node: str = Field(max_length=256)
    command: Command


def make_app(view: View, access: Access) -> Starlette:
    """The application that shows ``view`` to those whom ``access`` lets in."""
    pages = _Pages(view, access)
    return Starlette(
        routes=[
            *(Route(path, pages.static, methods=["GET"]) for path in _STATIC),
            Route("/session", pages.session, methods=["POST"]),
            Route("/picture", pages.picture, methods=["GET"]),
            Route("/lines", pages.lines, methods=["GET"]),
            Route("/tell", pages.tell, methods=["POST"]),
        ],
        middleware=[Middleware(_Guard, access=access)],
        exception_handlers={Refused: _refusal},
    )


def _refusal(_: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Refused) else 500
    return JSONResponse({"error": str(error)}, status)


class _Guard:
    """Refuses requests for other names and from other pages, and sets headers of all responses."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        request = Request(scope)
        try:
            check = self._access.check if request.method == "GET" else self._access.check_own_page
            check(request.headers)
        except Refused as refused:
            await _refusal(request, refused)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


class _Pages:
    """The answers to requests that the guard has let through."""

    def __init__(self, view: View, access: Access) -> None:
        self._view = view
        self._access = access
        self._streams = 0
        self._boot = secrets.token_hex(4)
        """Marks numbers of lines, which another server does not share."""

    async def static(self, request: Request) -> Response:
        """A file of the page; it has no data of the run."""
        name, media_type = _STATIC[request.url.path]
        return Response(_static_file(name), media_type=media_type)

    async def session(self, request: Request) -> Response:
        """Exchange the token for the secret of a session, which later requests have in a header."""
        session = self._access.open_session((await _body(request, _Token)).token)
        return JSONResponse({"session": session})

    async def picture(self, request: Request) -> Response:
        """The unchanging part of the network."""
        self._check_session(request)
        return Response(self._view.picture.model_dump_json(), media_type="application/json")

    async def lines(self, request: Request) -> Response:
        """Frames and events as server-sent events, from the oldest that is kept on."""
        self._check_session(request)
        if self._streams >= _MOST_STREAMS:
            raise Refused(503, f"{_MOST_STREAMS} pages are open. Close one of them.")
        boot, _, number = request.headers.get("last-event-id", "").partition("-")
        known = boot == self._boot and number.isascii() and number.isdigit() and len(number) < 16
        return StreamingResponse(
            self._stream(int(number) if known else 0),
            media_type="text/event-stream",
        )

    async def tell(self, request: Request) -> Response:
        """Pass on a command to a node, as ``innet tell`` does."""
        self._check_session(request)
        if self._view.give_command is None:
            raise Refused(403, "this page is read-only. Use `innet tell` where the run is.")
        order = await _body(request, _Order)
        if order.node not in {node.name for node in self._view.picture.nodes}:
            raise Refused(404, f"there is no node {order.node!r}. Choose one of the picture.")
        try:
            reply = await self._view.give_command(order.node, order.command)
        except InnetError as error:
            return JSONResponse({"error": str(error)}, 502)
        return Response(reply.model_dump_json(), media_type="application/json")

    def _check_session(self, request: Request) -> None:
        scheme, _, session = request.headers.get("authorization", "").partition(" ")
        self._access.check_session(session if scheme == "Bearer" else None)

    async def _stream(self, number: int) -> AsyncIterator[str]:
        self._streams += 1
        try:
            while True:
                number, texts = self._view.history.since(number, _LINES_AT_ONCE)
                if texts:
                    data = "".join(f"data: {text}\n" for text in texts)
                    yield f"id: {self._boot}-{number}\n{data}\n"
                    continue
                try:
                    async with asyncio.timeout(_ALIVE_S):
                        await self._view.changed()
                except TimeoutError:
                    yield ": alive\n\n"
        finally:
            self._streams -= 1


def _static_file(name: str) -> bytes:
    return files("innet.observe.web").joinpath("static", name).read_bytes()


async def _body(request: Request, model: type[Any]) -> Any:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BODY_BYTES:
            raise Refused(413, f"the request is larger than {_MOST_BODY_BYTES} bytes.")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise Refused(400, f"the request is not understood: {first_message(error)}") from None


@dataclass(frozen=True)
class WebOptions:
    """Where to serve.

    Attributes:
        host: an address of this machine, or a name of one.
        port: 0: a free one.
        certificate: PEM file of the server's TLS certificate.
        key: PEM file of its key.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        with contextlib.suppress(ValueError):
            return ip_address(self.host).is_loopback
        return self.host == "localhost"

    @property
    def name(self) -> str:
        """The host as the page's address has it: IPv6 in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def _is_every_address(self) -> bool:
        with contextlib.suppress(ValueError):
            return ip_address(self.host).is_unspecified
        return False

    def check(self) -> None:
        """Check that what others can reach is encrypted.

        Raises:
            TelemetryError: it is not, or the files of TLS cannot be used.
        """
        has_tls = self.certificate is not None and self.key is not None
        if not self.is_loopback and not has_tls:
            raise TelemetryError(
                f"the page would be served unencrypted on {self.host}, where others can reach it. "
                "Give --web-cert and --web-key, or leave out --web-listen and forward a port over "
                "SSH."
            )
        if self._is_every_address:
            raise TelemetryError(
                f"{self.host} is every address of this machine, and the page answers to one name. "
                "Give --web-listen NAME:PORT with the name that browsers use."
            )
        if (self.certificate is None) != (self.key is None):
            raise TelemetryError("TLS needs both: give --web-cert FILE and --web-key FILE.")
        if self.certificate is not None and self.key is not None:
            try:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                    self.certificate, self.key, password=lambda: b""
                )
            except (OSError, ssl.SSLError) as error:
                raise TelemetryError(
                    f"{self.certificate} and {self.key} cannot be used for TLS: {error}. Give PEM "
                    "files of a certificate and of its key, without a password."
                ) from error


@contextlib.asynccontextmanager
async def serving(view: View, options: WebOptions) -> AsyncIterator[str]:
    """Serve a view, and yield the link to open.

    Raises:
        TelemetryError: the address cannot be served on.
    """
    options.check()
    listener = _listener(options)
    access = Access(
        scheme="https" if options.certificate else "http",
        port=listener.getsockname()[1],
        host=options.name,
    )
    async with serving_http(
        make_app(view, access),
        listener,
        certificate=options.certificate,
        key=options.key,
        cuts_responses=True,
    ):
        yield access.link


def _reason(error: OSError) -> str:
    """Without the address, which Python adds to the text of some errors."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return str(error.strerror)
    return os.strerror(error.errno)


def _listener(options: WebOptions) -> socket.socket:
    try:
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        raise TelemetryError(
            f"the page cannot be served on {options.host}:{options.port}: {_reason(error)}. Choose "
            "another port with --web-listen HOST:PORT; port 0 is a free one."
        ) from error
