"""Packets in a stream of bytes: elements one after the other, as NDN has it over Unix and TCP."""

from __future__ import annotations

from innet._native import _core
from innet.errors import MalformedPacket
from innet.ndn.wire import parsed
from innet.tlv_numbers import TlvType

MAX_ELEMENT_BYTES = 66_000
"""The largest packets of innet's own nodes, and their link header."""
_HEADER_BYTES = 18
"""More than a type and a length ever take."""
_PACKET_TYPES = bytes((TlvType.INTEREST, TlvType.DATA, TlvType.LP_PACKET))
"""Outer types of NDN packets; each has one byte."""


class StreamFramer:
    """Cuts a stream into packets.

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
            MalformedPacket: what follows is no packet, so that nobody knows where the next begins.
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
