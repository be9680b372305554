"""A TCP proxy on loopback whose connections a test cuts or stops."""

from __future__ import annotations

import asyncio
from typing import Self

from innet.cluster.machines.addresses import Address


class TcpProxy:
    """Forwards connections to an address, as an async context manager.

    Attributes:
        accepted: how many connections there were.
        source: local address of connections to the target; ``None``: any.
    """

    def __init__(self, target: Address, port: int = 0) -> None:
        self._target = target
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self.source: tuple[str, int] | None = None
        self.accepted = 0
        self.has_accepted = asyncio.Event()

    @property
    def address(self) -> Address:
        assert self._server is not None
        return Address("127.0.0.1", self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Reset all connections; new ones are accepted."""
        for writer in self._writers:
            writer.transport.abort()

    def stop(self) -> None:
        """Forward nothing, and keep connections open."""
        self._passing.clear()

    def go_on(self) -> None:
        """Forward again."""
        self._passing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.has_accepted.set()
        connection = asyncio.ensure_future(self._forward(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_connection(
                self._target.host, self._target.port, local_addr=self.source
            )
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far[1]}
        pumps = [self._pump(reader, far[1]), self._pump(far[0], writer)]
        try:
            await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            for each in (writer, far[1]):
                each.transport.abort()
                self._writers.discard(each)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await self._passing.wait()
            writer.write(data)
            await writer.drain()
        writer.transport.abort()
