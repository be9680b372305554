"""Packets of a link of netns mode, from a packet socket at one of its ends.

Nodes pass many datagrams to the kernel at once (UDP_SEGMENT). Between namespaces they stay
together, and a packet socket reads them as one, with their size in a header (PACKET_VNET_HDR, whose
layout is virtio's ``struct virtio_net_hdr``). This module splits them, as a real link does.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Sequence

from innet.cluster.emulation.runs import RunRecord
from innet.observe.packets.capture.headers import ETHERNET_BYTES, UDP_BYTES, with_ip_checksum
from innet.observe.packets.capture.links import DirectedPort
from innet.observe.packets.capture.namespace_sockets import open_packet_sockets
from innet.observe.packets.capture.source import CapturedFrame

# <linux/if_packet.h>, <linux/socket.h>; Python's socket module lacks them.
_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_PACKET_VNET_HDR = 15
_PACKET_OUTGOING = 4
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_STATISTICS = struct.Struct("=II")
_TIMESPEC = struct.Struct("=qq")
_BUFFER_BYTES = 64 << 20
_MOST_BYTES = 1 << 17
_MOST_AT_ONCE = 256


class KernelSource:
    """One link, both directions: what the node there sends, once it is shaped, and what arrives."""

    def __init__(self, opened: socket.socket, port: DirectedPort) -> None:
        """Takes a packet socket over that is bound to the interface."""
        self.directions = (port.sent, port.received)
        self._socket = opened
        self._lost = 0
        opened.setblocking(False)
        for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
            with contextlib.suppress(PermissionError):  # then the system's limit holds
                opened.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
                break
        opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        opened.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)

    def fileno(self) -> int:
        """A descriptor to wait for."""
        return self._socket.fileno()

    def read(self) -> Iterator[CapturedFrame] | None:
        """What is there, without waiting; ``None`` when the interface has gone."""
        frames: list[CapturedFrame] = []
        for _ in range(_MOST_AT_ONCE):
            try:
                message, ancillary, _, sender = self._socket.recvmsg(_MOST_BYTES, 256)
            except BlockingIOError:
                break
            except OSError:
                return iter(frames) if frames else None
            when_ns = _time_ns(ancillary)
            direction = self.directions[0 if sender[2] == _PACKET_OUTGOING else 1]
            frames += (CapturedFrame(when_ns, direction, frame) for frame in datagrams(message))
        return iter(frames)

    def lost_packets(self) -> int:
        """What the kernel had no room for; it counts anew with each question."""
        seen = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        self._lost += _STATISTICS.unpack(seen)[1]
        return self._lost

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def open_kernel_sources(record: RunRecord, ports: Sequence[DirectedPort]) -> list[KernelSource]:
    """A source for each link of a run in netns mode.

    Raises:
        EmulationError: the namespaces cannot be entered.
    """
    sockets = open_packet_sockets([(record.namespaces[port.node], port.port) for port in ports])
    return [KernelSource(opened, port) for opened, port in zip(sockets, ports, strict=True)]


def _time_ns(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack_from(value)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return time.time_ns()


VNET_HEADER = struct.Struct("=BBHHHH")
"""Flags, kind, size of the headers, size of each datagram, and where the check sum is."""
_GSO_UDP_L4 = 5


def datagrams(message: bytes) -> Iterator[bytes]:
    """The frames in what a packet socket with PACKET_VNET_HDR has read."""
    _, kind, _, segment_bytes, _, _ = VNET_HEADER.unpack_from(message)
    frame = message[VNET_HEADER.size :]
    if kind != _GSO_UDP_L4 or segment_bytes == 0:
        yield frame
        return
    ip_bytes = 4 * (frame[ETHERNET_BYTES] & 15)
    headers = ETHERNET_BYTES + ip_bytes + UDP_BYTES
    for at in range(headers, len(frame), segment_bytes):
        yield _one(frame[:headers], ip_bytes, frame[at : at + segment_bytes])


def _one(headers: bytes, ip_bytes: int, payload: bytes) -> bytes:
    udp_bytes = UDP_BYTES + len(payload)
    ip = headers[ETHERNET_BYTES : ETHERNET_BYTES + ip_bytes]
    ip = with_ip_checksum(ip[:2] + struct.pack("!H", ip_bytes + udp_bytes) + ip[4:])
    ports = headers[ETHERNET_BYTES + ip_bytes :][:4]
    return headers[:ETHERNET_BYTES] + ip + ports + struct.pack("!HH", udp_bytes, 0) + payload
