"""Carries bytes between the door and a broker elsewhere.

Nodes in network namespaces of their own have no way to a real broker but this one. TLS begins here;
the login is that of MQTT, which passes through.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Self

from innet.telemetry.broker_url import BrokerUrl

_CONNECT_TIMEOUT_S = 5.0
_PARTING_TIMEOUT_S = 1.0
_CHUNK_BYTES = 65536

_log = logging.getLogger(__name__)


class Relay:
    """Serves as an async context manager."""

    def __init__(self, door: Path, url: BrokerUrl) -> None:
        """
        Args:
            door: the socket of this side.
            url: the broker.
        """
        self._door = door
        self._url = url
        self._tls = url.tls_context()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._reachable = True

    @property
    def url(self) -> BrokerUrl:
        """Where programs find the broker."""
        return self._url

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, self._door)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        if self._connections:
            # Who has just parted has hung up here; its last packet may still be on the way.
            await asyncio.wait(self._connections, timeout=_PARTING_TIMEOUT_S)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._door.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(self._connect(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    far_reader, far_writer = await asyncio.open_connection(
                        self._url.host, self._url.port, ssl=self._tls
                    )
            except OSError as error:
                self._tell_unreachable(error)
                return
            self._tell_reachable()
            with contextlib.closing(far_writer):
                await _carry_both_ways(reader, writer, far_reader, far_writer)

    def _tell_unreachable(self, error: OSError) -> None:
        if self._reachable:
            _log.warning(
                "the broker %s cannot be reached (%s): the run goes on without telemetry, and goes "
                "on trying",
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
    """Until either side hangs up; the broker then publishes the will of a client that died."""
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


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
