"""One connection to a forwarder: Unix or TCP stream, or UDP. Nothing but bytes in and out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from innet.errors import MalformedPacket, NoForwarder
from innet.ndn.address import FaceAddress
from innet.ndn.framing import StreamFramer

OnPacket = Callable[[bytes], None]
OnLost = Callable[[str], None]
"""Told why once, when the connection ends without our having closed it."""

_CONNECT_TIMEOUT_S = 5.0


class _Connection:
    """What both kinds have: who is told, and that a loss is told once."""

    def __init__(self, on_packet: OnPacket, on_lost: OnLost) -> None:
        self._on_packet = on_packet
        self._on_lost = on_lost
        self._ended = False

    def end(self, why: str | None = None) -> None:
        if self._ended:
            return
        self._ended = True
        if why is not None:
            self._on_lost(why)


class _StreamProtocol(_Connection, asyncio.Protocol):
    def __init__(self, on_packet: OnPacket, on_lost: OnLost) -> None:
        super().__init__(on_packet, on_lost)
        self._framer = StreamFramer()

    def data_received(self, data: bytes) -> None:
        try:
            packets = self._framer.feed(data)
        except MalformedPacket as error:
            self.end(str(error))
            return
        for packet in packets:
            self._on_packet(packet)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(str(exc) if exc else "the forwarder closed the connection")


class _DatagramProtocol(_Connection, asyncio.DatagramProtocol):
    def datagram_received(self, data: bytes, addr: object) -> None:
        self._on_packet(data)

    def error_received(self, exc: Exception) -> None:
        self.end(str(exc))

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(str(exc) if exc else "the socket was closed")


class Face:
    """An open connection; made by :func:`connect`."""

    def __init__(
        self,
        transport: asyncio.BaseTransport,
        send: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._send = send
        self._end = end

    def send(self, packet: bytes) -> None:
        """Send one packet; on a connection that has ended, nothing happens."""
        if not self._transport.is_closing():
            self._send(packet)

    def close(self) -> None:
        """End the connection, after what was sent has left."""
        self._end()
        self._transport.close()


async def connect(address: FaceAddress, on_packet: OnPacket, on_lost: OnLost) -> Face:
    """Open a connection to the forwarder at ``address``.

    Raises:
        NoForwarder: nothing listens there, as far as one can tell: over UDP the first packet shows.
    """
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            return await _open(address, on_packet, on_lost)
    except TimeoutError as error:
        raise NoForwarder(
            f"{address} did not answer within {_CONNECT_TIMEOUT_S:g} s; {_what_next(address)}"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise NoForwarder(
            f"no NDN forwarder listens at {address} ({reason}); {_what_next(address)}"
        ) from error


async def _open(address: FaceAddress, on_packet: OnPacket, on_lost: OnLost) -> Face:
    loop = asyncio.get_running_loop()
    if address.scheme == "udp":
        datagrams, datagram_protocol = await loop.create_datagram_endpoint(
            lambda: _DatagramProtocol(on_packet, on_lost), remote_addr=(address.host, address.port)
        )
        return Face(datagrams, datagrams.sendto, datagram_protocol.end)

    def protocol() -> _StreamProtocol:
        return _StreamProtocol(on_packet, on_lost)

    if address.scheme == "unix":
        stream, stream_protocol = await loop.create_unix_connection(protocol, address.path)
    else:
        stream, stream_protocol = await loop.create_connection(protocol, address.host, address.port)
    return Face(stream, stream.write, stream_protocol.end)


def _what_next(address: FaceAddress) -> str:
    return (
        "start one with `innet forwarder`, or set NDN_CLIENT_TRANSPORT to the address of one "
        "that runs"
        if address.scheme == "unix"
        else "check the address, and that `innet forwarder` (or NFD) runs there"
    )
