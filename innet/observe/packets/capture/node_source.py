"""Packets of links of local mode: the nodes there copy them to us. Nobody needs rights for that."""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from innet.cluster.emulation.runs import RunRecord
from innet.errors import ControlError, EmulationError
from innet.node.requests import ControlClient
from innet.observe.packets.capture.headers import udp_frame
from innet.observe.packets.capture.links import DirectedPort
from innet.observe.packets.capture.source import CapturedFrame

_RECORD = struct.Struct("=QQII")
"""``TapRecord`` in switch_emulator/driver/packet_tap.hpp."""
_BUFFER_BYTES = 8 << 20
_MOST_BYTES = 1 << 17
_MOST_AT_ONCE = 256
_TIMEOUT_S = 10.0


class NodeSource:
    """The watched links of one node."""

    def __init__(self, opened: socket.socket, ports: Sequence[DirectedPort]) -> None:
        """Takes the connection over that the node has made."""
        self.directions = tuple(d for port in ports for d in (port.sent, port.received))
        self._socket = opened
        self._ports = {port.face: port for port in ports}
        self._lost = 0
        opened.setblocking(False)

    def fileno(self) -> int:
        """A descriptor to wait for."""
        return self._socket.fileno()

    def read(self) -> Iterator[CapturedFrame] | None:
        """What is there, without waiting; ``None`` when the node has ended."""
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
        """What the node had no room for."""
        return self._lost

    def close(self) -> None:
        """Close the connection, which ends the copying."""
        self._socket.close()


def open_node_sources(record: RunRecord, ports: Sequence[DirectedPort]) -> list[NodeSource]:
    """A source for each node that watches links.

    Raises:
        EmulationError: such a node does not run, or does not answer.
    """
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


def _connected(record: RunRecord, node: str, ports: Sequence[DirectedPort]) -> NodeSource:
    with (
        tempfile.TemporaryDirectory(prefix=".tap-", dir=record.run_dir) as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        ControlClient(record.control_socket(node), who=node) as client,
    ):
        path = str(Path(directory) / "s")
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
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
    return NodeSource(connection, ports)
