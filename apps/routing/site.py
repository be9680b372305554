"""The router's listening socket: bounds what clients hold that send no whole request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from aiohttp import web

from innet.http_requests import CLIENT_S, MOST_CONNECTIONS

_TICK_S = 1.0


class Connections:
    """The open connections, each with the time since which its client has to send something.

    A connection beyond the limit takes the place of the one that has waited longest for its client.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, client_s: float = CLIENT_S) -> None:
        """
        Args:
            most: connections without a request that is served.
            client_s: after which a connection without a whole request is closed.
        """
        self.most = most
        self.client_s = client_s
        self._waiting: dict[asyncio.BaseTransport, float] = {}

    def begin(self, transport: asyncio.BaseTransport) -> None:
        """A connection waits for its client."""
        if len(self._waiting) >= self.most:
            self._cut(next(iter(self._waiting)))
        self._waiting[transport] = asyncio.get_running_loop().time()

    def serve(self, transport: asyncio.BaseTransport | None) -> None:
        """A whole request has come: the connection is not closed until it is answered."""
        if transport is not None:
            self._waiting.pop(transport, None)

    def end(self, transport: asyncio.BaseTransport) -> None:
        """A connection is closed."""
        self._waiting.pop(transport, None)

    async def watch(self) -> None:
        """Close connections whose clients are late."""
        while True:
            await asyncio.sleep(_TICK_S)
            late_s = asyncio.get_running_loop().time() - self.client_s
            for transport in [each for each, since in self._waiting.items() if since < late_s]:
                self._cut(transport)

    def _cut(self, transport: asyncio.BaseTransport) -> None:
        self._waiting.pop(transport, None)
        cast(asyncio.Transport, transport).abort()


class _Watched(asyncio.Protocol):
    """Passes a connection's events on to aiohttp's protocol, and counts the connection."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.begin(transport)
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._connections.end(self._transport)
        self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class BoundedSite(web.SockSite):
    """A site whose connections are bounded."""

    connections: Connections

    async def start(self) -> None:
        """Listen, and close late connections until :meth:`stop`."""
        await web.BaseSite.start(self)
        make = cast(Callable[[], asyncio.Protocol], self._runner.server)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Watched(make(), self.connections), sock=self._sock, backlog=self._backlog
        )
        self._watcher = asyncio.ensure_future(self.connections.watch())

    async def stop(self) -> None:
        """Accept no more."""
        self._watcher.cancel()
        await super().stop()
