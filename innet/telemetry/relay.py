"""Relays bytes between the broker socket and an external broker.

Nodes in network namespaces have no other path to an external broker. The relay adds TLS; the login
is part of MQTT and passes through.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.mqtt_broker import BrokerLimits
from innet.telemetry.mqtt_packets import ConnectCode, connack

_CONNECT_TIMEOUT_S = 5.0
_PARTING_TIMEOUT_S = 1.0
_CHUNK_BYTES = 65536

_log = logging.getLogger(__name__)


class Relay:
    """Serves as an async context manager."""

    def __init__(
        self, broker_socket: Path, url: BrokerUrl, limits: BrokerLimits | None = None
    ) -> None:
        """
        Args:
            limits: of the connections. One that is silent is closed after the same time as by the
                embedded broker, and reaches the broker with its first bytes only.
        """
        self._limits = limits or BrokerLimits()
        self._broker_socket = broker_socket
        self._url = url
        self._tls = url.tls_context()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        self._reachable = True

    @property
    def url(self) -> BrokerUrl:
        """The URL by which programs reach the broker."""
        return self._url

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, self._broker_socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        if self._connections:
            # A client that just disconnected here may still have a packet on its way to the broker.
            await asyncio.wait(self._connections, timeout=_PARTING_TIMEOUT_S)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._broker_socket.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._limits.clients + self._limits.silent:
            writer.close()
            return
        if len(self._silent) >= self._limits.silent:
            next(iter(self._silent)).cancel()
        connection = asyncio.ensure_future(self._connect(reader, writer))
        self._connections.add(connection)
        self._silent[connection] = None
        connection.add_done_callback(self._forget)

    def _forget(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        self._silent.pop(connection, None)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _hanging_up(writer):
            begin = await self._first_bytes(reader)
            if not begin:
                return
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    far_reader, far_writer = await asyncio.open_connection(
                        self._url.host, self._url.port, ssl=self._tls
                    )
            except OSError as error:
                self._tell_unreachable(error)
                # Without this answer a client waits for it until its timeout: aiomqtt for 10 s,
                # also when the connection is closed.
                writer.write(connack(ConnectCode.SERVER_UNAVAILABLE))
                return
            self._tell_reachable()
            async with _hanging_up(far_writer):
                far_writer.write(begin)
                await _carry_both_ways(reader, writer, far_reader, far_writer)

    async def _first_bytes(self, reader: asyncio.StreamReader) -> bytes:
        """The first bytes of a client; empty if it closes or stays silent."""
        try:
            async with asyncio.timeout(self._limits.session.connect_timeout_s):
                return await reader.read(_CHUNK_BYTES)
        except OSError:  # a timeout is one as well
            return b""
        finally:
            connection = asyncio.current_task()
            if connection is not None:
                self._silent.pop(connection, None)

    def _tell_unreachable(self, error: OSError) -> None:
        if self._reachable:
            _log.warning(
                "the broker %s cannot be reached (%s): the run continues without telemetry, and "
                "retries",
                self._url,
                error or "no answer",
            )
        self._reachable = False

    def _tell_reachable(self) -> None:
        if not self._reachable:
            _log.warning("the broker %s is reached now", self._url)
        self._reachable = True


async def _carry_both_ways(
    near_reader: asyncio.StreamReader,
    near_writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Relay until either side closes; the broker then publishes the will of a dead client."""
    ways = [
        asyncio.ensure_future(_carry(near_reader, far_writer)),
        asyncio.ensure_future(_carry(far_reader, near_writer)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


@contextlib.asynccontextmanager
async def _hanging_up(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection, and drop bytes that the peer does not read soon.

    A plain close would wait for the reader without limit, and keep an uncounted descriptor.
    """
    try:
        yield
    finally:
        writer.close()
        try:
            async with asyncio.timeout(_PARTING_TIMEOUT_S):
                await writer.wait_closed()
        except OSError:  # a timeout is one as well
            pass
        finally:
            writer.transport.abort()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
