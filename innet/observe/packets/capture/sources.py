"""Sources of a capture's packets: the kernel in netns mode, the nodes in local mode."""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from innet.cluster.emulation.runs import RunRecord
from innet.errors import ControlError, EmulationError
from innet.node.requests import ControlClient
from innet.observe.packets.capture.links import (
    ETHERNET_BYTES,
    UDP_BYTES,
    DirectedPort,
    udp_frame,
    with_ip_checksum,
)
from innet.observe.packets.capture.namespace_sockets import open_packet_sockets

_MOST_BYTES = 1 << 17
_MOST_AT_ONCE = 256


class CapturedFrame(NamedTuple):
    """A packet of a link, with Ethernet and IP headers."""

    time_ns: int
    """Since 1970."""
    direction: str
    """Such as ``h0->s0``."""
    frame: bytes


class PacketSource(Protocol):
    """Captured packets of some links; :meth:`fileno` is readable when packets are waiting."""

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions that its packets can have."""
        ...

    def fileno(self) -> int:
        """A descriptor to wait for."""
        ...

    def read(self) -> Iterator[CapturedFrame] | None:
        """The captured packets, without waiting; ``None`` at the end of the source."""
        ...

    def lost_packets(self) -> int:
        """Packets that were not captured because a buffer was full."""
        ...

    def close(self) -> None:
        """Release its descriptors."""
        ...


# <linux/if_packet.h>, <linux/socket.h>; Python's socket module lacks them.
_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_PACKET_VNET_HDR = 15
_PACKET_OUTGOING = 4
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_STATISTICS = struct.Struct("=II")
_TIMESPEC = struct.Struct("=qq")
_KERNEL_BUFFER_BYTES = 64 << 20


class KernelCapture:
    """One link in netns mode, both directions, from a packet socket at one of its ends.

    Nodes pass many datagrams to the kernel at once (UDP_SEGMENT). Between namespaces they stay
    together, and a packet socket reads them as one, with their size in a header (PACKET_VNET_HDR,
    whose layout is virtio's ``struct virtio_net_hdr``). :func:`datagrams` splits them, as a real
    link does.
    """

    def __init__(self, opened: socket.socket, port: DirectedPort) -> None:
        """Takes ownership of a packet socket that is bound to the interface."""
        self.directions = (port.sent, port.received)
        self._socket = opened
        self._lost = 0
        opened.setblocking(False)
        for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
            with contextlib.suppress(PermissionError):  # then the system's limit holds
                opened.setsockopt(socket.SOL_SOCKET, option, _KERNEL_BUFFER_BYTES)
                break
        opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        opened.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)

    def fileno(self) -> int:
        """A descriptor to wait for."""
        return self._socket.fileno()

    def read(self) -> Iterator[CapturedFrame] | None:
        """The captured packets, without waiting; ``None`` when the interface was removed."""
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
        """Packets that the kernel dropped; reading its counter resets it."""
        seen = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        self._lost += _STATISTICS.unpack(seen)[1]
        return self._lost

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def open_kernel_sources(record: RunRecord, ports: Sequence[DirectedPort]) -> list[KernelCapture]:
    """A source for each link of a run in netns mode."""
    sockets = open_packet_sockets([(record.namespaces[port.node], port.port) for port in ports])
    return [KernelCapture(opened, port) for opened, port in zip(sockets, ports, strict=True)]


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
    """Split a message of a packet socket with PACKET_VNET_HDR into frames."""
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


_RECORD = struct.Struct("=QQII")
"""``TapRecord`` in switch_emulator/driver/packet_tap.hpp."""
_NODE_BUFFER_BYTES = 8 << 20
_TIMEOUT_S = 10.0


class NodeCapture:
    """The watched links of one node in local mode, which copies their packets; needs no rights."""

    def __init__(self, opened: socket.socket, ports: Sequence[DirectedPort]) -> None:
        """Takes ownership of the connection that the node opened."""
        self.directions = tuple(d for port in ports for d in (port.sent, port.received))
        self._socket = opened
        self._ports = {port.face: port for port in ports}
        self._lost = 0
        opened.setblocking(False)

    def fileno(self) -> int:
        """A descriptor to wait for."""
        return self._socket.fileno()

    def read(self) -> Iterator[CapturedFrame] | None:
        """The captured packets, without waiting; ``None`` when the node has ended."""
        frames: list[CapturedFrame] = []
        for _ in range(_MOST_AT_ONCE):
            try:
                message = self._socket.recv(_MOST_BYTES)
            except BlockingIOError:
                break
            except OSError:
                message = b""
            if not message:
                return iter(frames) if frames else None
            frames.append(self._frame(message))
        return iter(frames)

    def _frame(self, message: bytes) -> CapturedFrame:
        time_ns, self._lost, face, sent = _RECORD.unpack_from(message)
        port, packet = self._ports[face], message[_RECORD.size :]
        if sent:
            frame = udp_frame(port.address, port.peer_address, packet)
            return CapturedFrame(time_ns, port.sent, frame)
        frame = udp_frame(port.peer_address, port.address, packet)
        return CapturedFrame(time_ns, port.received, frame)

    def lost_packets(self) -> int:
        """Packets that the node dropped because its buffer was full."""
        return self._lost

    def close(self) -> None:
        """Close the connection; the node then stops copying packets."""
        self._socket.close()


def open_node_sources(record: RunRecord, ports: Sequence[DirectedPort]) -> list[NodeCapture]:
    """Open a source for each node whose links are captured."""
    by_node: dict[str, list[DirectedPort]] = {}
    for port in ports:
        by_node.setdefault(port.node, []).append(port)
    with contextlib.ExitStack() as opened:
        sources = []
        for node, watched in by_node.items():
            source = _connected(record, node, watched)
            opened.callback(source.close)
            sources.append(source)
        opened.pop_all()
        return sources


def _connected(record: RunRecord, node: str, ports: Sequence[DirectedPort]) -> NodeCapture:
    with (
        tempfile.TemporaryDirectory(prefix=".tap-", dir=record.run_dir) as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        ControlClient(record.control_socket(node), who=node) as client,
    ):
        path = str(Path(directory) / "s")
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _NODE_BUFFER_BYTES)
        listener.settimeout(_TIMEOUT_S)
        listener.bind(path)
        listener.listen(1)
        faces = [port.face for port in ports]
        try:
            client.request("tap_packets", timeout_s=_TIMEOUT_S, path=path, faces=faces)
            connection, _ = listener.accept()
        except (ControlError, TimeoutError) as error:
            raise EmulationError(
                f"{node} does not copy its packets: {error}. `innet status {record.run_id}` shows "
                "whether it runs."
            ) from error
    return NodeCapture(connection, ports)
