"""A program that floods a real node: what it costs the others."""

from __future__ import annotations

import itertools
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from innet.ndn.face import StreamFramer
from innet.ndn.wire import encode_data, encode_interest
from innet.node.forwarder import Forwarder, ForwarderOptions
from innet.settings import Settings

_EXCHANGES = 300
_WINDOW = 20
_FLOOD_PER_WRITE = 500
_INTEREST, _DATA = 0x05, 0x06


@pytest.fixture
def path() -> Iterator[Path]:
    """Short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="innet-fl-") as directory:
        yield Path(directory) / "f.sock"


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(path))
    return connection


def _flood(connection: socket.socket, stop: threading.Event) -> None:
    for first in itertools.count(step=_FLOOD_PER_WRITE):
        numbers = range(first, first + _FLOOD_PER_WRITE)
        packets = b"".join(encode_interest(f"/deaf/{n}", lifetime_s=60) for n in numbers)
        try:
            connection.sendall(packets)  # blocks while the node does not read
        except OSError:
            return
        if stop.is_set():
            return


class _Peer:
    def __init__(self, path: Path) -> None:
        self.socket = _connect(path)
        self._framer = StreamFramer()
        self._packets: list[bytes] = []

    def next_packet(self) -> bytes:
        while not self._packets:
            received = self.socket.recv(65536)
            assert received, "the node hung up"
            self._packets = self._framer.feed(received)
        return self._packets.pop(0)


def _face_of_newest(forwarder: Forwarder, expected: int) -> int:
    """The number of the face opened last, once there are so many."""
    while len(faces := forwarder.node.status()["foreign_faces"]) < expected:
        pass
    face: int = faces[-1]["face"]
    return face


def test_a_flood_on_one_face_does_not_disturb_others(path: Path) -> None:
    settings = Settings().with_assignments(["transport.pit_capacity=4096"])
    with Forwarder(ForwarderOptions([f"unix://{path}"]), settings) as forwarder:
        deaf, producer = _Peer(path), _Peer(path)
        forwarder.node.add_route("/served", _face_of_newest(forwarder, 2))
        forwarder.node.add_route("/deaf", 0)
        consumer, flooder = _Peer(path), _connect(path)
        stop = threading.Event()
        flood = threading.Thread(target=_flood, args=(flooder, stop))
        flood.start()
        try:
            while forwarder.node.status()["node"]["over_share"] == 0:
                pass
            for first in range(0, _EXCHANGES, _WINDOW):
                names = [f"/served/{n}" for n in range(first, first + _WINDOW)]
                consumer.socket.sendall(b"".join(encode_interest(name) for name in names))
                for name in names:
                    assert producer.next_packet()[0] == _INTEREST
                    producer.socket.sendall(encode_data(name))
                for _ in names:
                    assert consumer.next_packet()[0] == _DATA
        finally:
            stop.set()
            status = forwarder.node.status()
            flooder.close()
            flood.join()
            deaf.socket.close()
    faces = {face["face"]: face for face in status["foreign_faces"]}
    assert faces[2]["data_out"] == _EXCHANGES
    assert faces[2]["nacks_out"] == 0
    assert faces[3]["over_share_in"] > 0
    assert status["node"]["pit_entries"] <= 512 + _WINDOW
