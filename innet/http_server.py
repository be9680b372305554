"""Serves an application over HTTP on a socket, in the event loop of a program (extra ``web``)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from innet.http_requests import CLIENT_S as _CLIENT_S
from innet.http_requests import MOST_CONNECTIONS as _MOST_CONNECTIONS

_TICK_S: Final = 1.0
_MOST_ACCEPTED: Final = 64
"""Connections accepted at once: some times this and the open ones need fewer than 1024 files."""
_MOST_QUEUED: Final = 1024
"""Connections that wait to be accepted."""
_GRACE_S: Final = 5
"""For responses when the server ends."""
_REQUEST_GRACE_S: Final = 1.0
"""For requests that are arriving then."""
_MOST_HEAD_BYTES: Final = 64 << 10
"""Of a head, and of what follows a body."""
_MOST_PIPELINED: Final = 64
_HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _Connection(HttpToolsProtocol):
    """Bounds what a client can hold that sends slowly or without end, or reads nothing.

    A connection beyond the limit takes the place of the one that has waited longest for its client,
    so that clients which do not send requests never keep others out.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._is_blocked = self._is_in_message = False
        self._head_bytes = 0
        if len(self.connections) > _MOST_CONNECTIONS:
            others = (each for each in self.connections if each is not self)
            waiting = [each for each in others if isinstance(each, _Connection) and each._awaits()]
            if waiting:
                min(waiting, key=lambda each: each._since_s)._cut()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)  # none of it if a head begins here, or bytes of a body come
        super().data_received(data)
        if self._is_in_message and self._head_bytes > _MOST_HEAD_BYTES:
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()
        if len(self.pipeline) > _MOST_PIPELINED:
            self._cut()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_message, self._head_bytes = True, 0

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_message = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._since_s = self.loop.time()
        super().on_response_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that has closed its side after its last request."""
        if self.scheme == "https" or self._awaits() or self.cycle.response_started:
            return False
        self.cycle.keep_alive = False
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_blocked, self._since_s = True, self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_blocked = False

    def cut_if_late(self) -> None:
        """End the connection if its client neither sends nor reads."""
        is_late = self.loop.time() - self._since_s > _CLIENT_S
        if is_late and (self._is_blocked or self._awaits()):
            self._cut()

    def cut_if_incomplete(self) -> None:
        """End the connection if a part of its request is missing."""
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self._cut()

    def _awaits(self) -> bool:
        """Whether there is nothing to do until the client has sent a whole request."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _cut(self) -> None:
        self.connections.discard(self)
        self.transport.abort()


class _Server(uvicorn.Server):
    """Leaves signals to the program that it is part of."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept; asyncio accepts as many at once as it lets wait."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_MOST_QUEUED)

    async def main_loop(self) -> None:
        """Renew the date of responses each second; uvicorn's own loop wakes up ten times."""
        while not self._ending.is_set():
            await self.on_tick(0)
            self._cut(_Connection.cut_if_late)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_S)

    def end(self, *, cuts_responses: bool) -> None:
        self.should_exit = True
        self.force_exit = cuts_responses
        self._ending.set()
        asyncio.get_running_loop().call_later(
            _REQUEST_GRACE_S, self._cut, _Connection.cut_if_incomplete
        )

    def _cut(self, check: Callable[[_Connection], None]) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, _Connection):
                check(connection)


@asynccontextmanager
async def serving_http(
    app: ASGIApp,
    listener: socket.socket,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    cuts_responses: bool = False,
) -> AsyncIterator[None]:
    """Serve until the block ends, and close the listener.

    Args:
        app: what answers.
        listener: bound.
        certificate: of TLS, PEM; ``None``: without TLS.
        key: of the certificate.
        cuts_responses: end at once, also in the midst of responses, such as streams, which would
            never end by themselves; otherwise they have 5 s.
    """
    server = _Server(
        uvicorn.Config(
            app,
            http=_Connection,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            backlog=_MOST_ACCEPTED,
            # 503 while all connections are being answered; otherwise one that waits is cut
            limit_concurrency=_MOST_CONNECTIONS + 1,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    if listener.family != socket.AF_UNIX:
        # Connections inherit it. asyncio sets it on sockets that name their protocol alone, and
        # without it a response's body waits for the acknowledgement of its head: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.end(cuts_responses=cuts_responses)
            await asyncio.gather(task, return_exceptions=True)
