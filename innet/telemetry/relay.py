"""Relays bytes between the broker socket and an external broker.

Nodes in network namespaces have no other path to an external broker. The relay adds TLS; the login
is part of MQTT and passes through.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.mqtt_broker import BrokerLimits
from innet.telemetry.mqtt_packets import ConnectCode, connack
from innet.telemetry.mqtt_session import Listener

_CONNECT_TIMEOUT_S = 5.0
_PARTING_TIMEOUT_S = 1.0
_CHUNK_BYTES = 65536

_log = logging.getLogger(__name__)


class _Places:
    """The connections of one socket."""

    def __init__(self, clients: int, silent: int) -> None:
        """``silent``: connections that have sent nothing; one more closes the oldest."""
        self._most = clients + silent
        self._most_silent = silent
        self.connections: set[asyncio.Task[None]] = set()
        self.silent: dict[asyncio.Task[None], None] = {}

    @property
    def are_taken(self) -> bool:
        """Whether no further connection is accepted."""
        return len(self.connections) >= self._most

    def add(self, connection: asyncio.Task[None]) -> None:
        """Give a connection its place, until it ends."""
        if len(self.silent) >= self._most_silent:
            next(iter(self.silent)).cancel()
        self.connections.add(connection)
        self.silent[connection] = None
        connection.add_done_callback(self._forget)

    def _forget(self, connection: asyncio.Task[None]) -> None:
        self.connections.discard(connection)
        self.silent.pop(connection, None)


class Relay:
    """Serves as an async context manager."""

    def __init__(
        self,
        broker_socket: Path,
        url: BrokerUrl,
        limits: BrokerLimits | None = None,
        machines: Mapping[Path, Listener] = MappingProxyType({}),
    ) -> None:
        """
        Args:
            limits: of the connections. One that is silent is closed after the same time as by the
                embedded broker, and reaches the broker with its first bytes only.
            machines: a socket for each other machine, whose connections have places of their own.
        """
        self._limits = limits or BrokerLimits()
        self._places = {broker_socket: _Places(self._limits.clients, self._limits.silent)}
        for path, listener in machines.items():
            self._places[path] = _Places(listener.clients, self._limits.silent)
        self._url = url
        self._tls = url.tls_context()
        self._servers: list[asyncio.Server] = []
        self._reachable = True

    @property
    def url(self) -> BrokerUrl:
        """The URL by which programs reach the broker."""
        return self._url

    async def __aenter__(self) -> Self:
        for path in self._places:
            self._servers.append(await asyncio.start_unix_server(self._accept, path))
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        connections = self._connections
        if connections:
            # A client that just disconnected here may still have a packet on its way to the broker.
            await asyncio.wait(connections, timeout=_PARTING_TIMEOUT_S)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        for path in self._places:
            path.unlink(missing_ok=True)

    @property
    def _connections(self) -> set[asyncio.Task[None]]:
        return {each for places in self._places.values() for each in places.connections}

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        places = self._places[Path(writer.get_extra_info("sockname"))]
        if places.are_taken:
            writer.close()
            return
        places.add(asyncio.ensure_future(self._connect(places, reader, writer)))

    async def _connect(
        self, places: _Places, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with _hanging_up(writer):
            begin = await self._first_bytes(places, reader)
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

    async def _first_bytes(self, places: _Places, reader: asyncio.StreamReader) -> bytes:
        """The first bytes of a client; empty if it closes or stays silent."""
        try:
            async with asyncio.timeout(self._limits.session.connect_timeout_s):
                return await reader.read(_CHUNK_BYTES)
        except OSError:  # a timeout is one as well
            return b""
        finally:
            connection = asyncio.current_task()
            if connection is not None:
                places.silent.pop(connection, None)

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
