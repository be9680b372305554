"""Connections to a forwarder: stream (Unix, TCP) and UDP faces, and one that reconnects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from innet._native import _core
from innet.backoff import Backoff
from innet.errors import MalformedPacket, NoForwarder
from innet.ndn.address import FaceAddress
from innet.ndn.wire import parsed
from innet.tlv_numbers import TlvType

MAX_ELEMENT_BYTES = 66_000
"""The largest packets of innet's own nodes, and their link header."""
_HEADER_BYTES = 18
"""More than a type and a length ever take."""
_PACKET_TYPES = bytes((TlvType.INTEREST, TlvType.DATA, TlvType.LP_PACKET))
"""Outer types of NDN packets; each has one byte."""


class StreamFramer:
    """Cuts a stream of bytes into packets: TLV elements one after the other.

    >>> framer = StreamFramer()
    >>> framer.feed(bytes.fromhex("0502"))
    []
    >>> [packet.hex() for packet in framer.feed(bytes.fromhex("07000600"))]
    ['05020700', '0600']
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, received: bytes) -> list[bytes]:
        """The packets that these bytes complete.

        Raises:
            MalformedPacket: the bytes are not a packet; the start of the next one is unknown.
        """
        self._bytes += received
        packets: list[bytes] = []
        start = 0
        while (size := self._size_at(start)) is not None and start + size <= len(self._bytes):
            packets.append(bytes(self._bytes[start : start + size]))
            start += size
        del self._bytes[:start]
        return packets

    def _size_at(self, start: int) -> int | None:
        if self._bytes[start : start + 1].strip(_PACKET_TYPES):
            raise MalformedPacket(
                f"invalid packet type {self._bytes[start]}: expected 5 (Interest), 6 (Data) or 100 "
                "(LpPacket); the peer does not speak NDN"
            )
        size = parsed(_core.first_element_size, bytes(self._bytes[start : start + _HEADER_BYTES]))
        if size is not None and size > MAX_ELEMENT_BYTES:
            raise MalformedPacket(
                f"a packet of {size} bytes: this is no NDN stream, or a corrupt one"
            )
        return size


OnPacket = Callable[[bytes], None]
OnLost = Callable[[str], None]
"""Called once with the cause when the connection ends before it was closed here."""

_CONNECT_TIMEOUT_S = 5.0


class _Connection:
    """Callbacks of both kinds of face; a loss is reported once."""

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
        """End the connection after all sent packets have left."""
        self._end()
        self._transport.close()


async def connect(address: FaceAddress, on_packet: OnPacket, on_lost: OnLost) -> Face:
    """Open a connection to the forwarder at ``address``.

    Raises:
        NoForwarder: nothing listens there; over UDP, only the first packet may find that out.
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


_log = logging.getLogger(__name__)


class LastingConnection:
    """Sends while it is up, drops while it is down, and reports when it is up again.

    Args:
        address: of the forwarder.
        on_packet: gets each packet.
        on_restored: called after each loss, once the forwarder is back.
    """

    def __init__(
        self, address: FaceAddress, on_packet: OnPacket, on_restored: Callable[[], None]
    ) -> None:
        self.address = address
        self.trouble: str | None = None
        """Why it is down, or was last; ``None`` when it never was."""
        self._on_packet = on_packet
        self._backoff = Backoff(0.1, 5.0, variation=0)
        self._on_restored = on_restored
        self._face: Face | None = None
        self._restoring: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Connect.

        Raises:
            NoForwarder: nothing listens there.
        """
        self._face = await connect(self.address, self._received, self._lost)

    def send(self, packet: bytes) -> None:
        """Send one packet, if the forwarder is there."""
        if self._face is not None:
            self._face.send(packet)

    async def close(self) -> None:
        """End it for good."""
        self._closed = True
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.gather(self._restoring, return_exceptions=True)
        if self._face is not None:
            self._face.close()
            self._face = None

    def _received(self, packet: bytes) -> None:
        self._backoff.reset()
        self._on_packet(packet)

    def _lost(self, why: str) -> None:
        self.trouble = why
        if self._face is not None:
            self._face.close()
            self._face = None
        if self._closed or (self._restoring is not None and not self._restoring.done()):
            return
        _log.warning("the connection to %s is lost (%s); trying again", self.address, why)
        self._restoring = asyncio.get_running_loop().create_task(self._restore())

    async def _restore(self) -> None:
        while self._face is None:
            await self._open_again()
            _log.info("connected to %s again", self.address)
            # Opening UDP always succeeds; the first packet may show that no forwarder listens.
            self._on_restored()

    async def _open_again(self) -> None:
        while self._face is None:
            await asyncio.sleep(self._backoff.next_s())
            try:
                await self.open()
            except NoForwarder as error:
                self.trouble = str(error)
