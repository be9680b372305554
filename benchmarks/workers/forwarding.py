"""Fetches Data through a forwarder over UDP, as consumer and as producer, and counts what came.

The names are known, so that whole bursts of packets are ready: a burst leaves and arrives in one
system call (UDP_SEGMENT, UDP_GRO). The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import select
import socket
import struct
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from innet.names import with_segment
from innet.ndn import Client, Name, encode_data
from innet.ndn.control import ControlParameters
from innet.ndn.wire import encode_interest

PREFIX = "/bench/forwarding"
_UDP_SEGMENT, _UDP_GRO = 103, 104  # linux/udp.h
_LARGEST_BURST_BYTES = 65_000
_MOST_SEGMENTS = 64
_BUFFER_BYTES = 8 << 20
_FIRST_SEGMENT = 1 << 24  # from here on, a segment number takes four bytes
_NONCE = 0x5EED5EED
_SILENCE_S = 2.0

_Packets = NDArray[np.uint8]


class Flow:
    """One connected UDP socket whose packets are all of one length in each direction."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        self.socket.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
        self.socket.connect(address)
        self._into = bytearray(1 << 16)

    def send(self, packets: _Packets) -> None:
        """Send rows of equal length, as many in a system call as it takes."""
        size_bytes = packets.shape[1]
        at_once = min(_MOST_SEGMENTS, _LARGEST_BURST_BYTES // size_bytes)
        segment = [(socket.IPPROTO_UDP, _UDP_SEGMENT, struct.pack("=H", size_bytes))]
        for first in range(0, len(packets), at_once):
            self.socket.sendmsg([packets[first : first + at_once].data], segment)

    def receive(self) -> tuple[memoryview, int]:
        """Packets that arrived together, and the length of each; raises BlockingIOError."""
        length, ancillary, _, _ = self.socket.recvmsg_into(
            [self._into], socket.CMSG_SPACE(4), socket.MSG_DONTWAIT
        )
        size_bytes = length
        for _, kind, value in ancillary:
            if kind == _UDP_GRO:
                (size_bytes,) = struct.unpack("=i", value[:4])
        return memoryview(self._into)[:length], size_bytes


class Packets:
    """The Interests and Data of ``count`` names, one row each."""

    def __init__(self, count: int, content_bytes: int) -> None:
        content = bytes(content_bytes)
        names = [
            with_segment(Name(PREFIX + "/object/v1"), _FIRST_SEGMENT + n) for n in range(count)
        ]
        self.data = _rows([encode_data(name, content) for name in names])
        self.cached = _rows([encode_interest(name, nonce=_NONCE) for name in names])
        self.fresh = _rows(
            [encode_interest(name, nonce=_NONCE, must_be_fresh=True) for name in names]
        )

    def numbers(self, interests: memoryview, size_bytes: int) -> NDArray[np.int64]:
        """Which names the received ``interests`` of ``size_bytes`` each have."""
        rows = np.frombuffer(interests, np.uint8).reshape(-1, size_bytes)
        name_end = _end_of_name(rows[0])
        number = rows[:, name_end - 4 : name_end].astype(np.int64)
        digits = np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)
        numbers: NDArray[np.int64] = number @ digits - _FIRST_SEGMENT
        return numbers


def _rows(packets: list[bytes]) -> _Packets:
    return np.frombuffer(b"".join(packets), np.uint8).reshape(len(packets), -1).copy()


def _end_of_name(packet: _Packets) -> int:
    """Where the name, which ends in the segment's number, ends; an LpPacket may be around it."""
    mark = struct.pack(">I", _FIRST_SEGMENT)[:1]
    wire = packet.tobytes()
    return wire.index(b"\x32\x04" + mark) + 6


class Run:
    """One turn: ``total`` Data by ``interests``, at most ``window`` outstanding."""

    def __init__(self, consumer: Flow, producer: Flow, packets: Packets, window: int) -> None:
        self._data_bytes = packets.data.shape[1]
        self._consumer = consumer
        self._producer = producer
        self._packets = packets
        self._window = window
        self._random = np.random.default_rng()  # a repeated nonce would be taken for a loop
        self.lost = 0
        self._poll = select.poll()
        for flow in (consumer, producer):
            self._poll.register(flow.socket, select.POLLIN)

    def fetch(self, interests: _Packets, total: int) -> float:
        """The time that it took, in seconds."""
        nonce_at = interests[0].tobytes().index(struct.pack(">I", _NONCE))
        began_s = time.perf_counter()
        asked = answered = 0
        while answered + self.lost < total:
            room = min(self._window - (asked - answered - self.lost), total - asked)
            if room >= min(_MOST_SEGMENTS, total - asked) and room > 0:
                rows = (asked + np.arange(min(room, _MOST_SEGMENTS))) % len(interests)
                burst = interests[rows]
                burst[:, nonce_at : nonce_at + 4] = self._random.integers(
                    0, 256, (len(rows), 4), np.uint8
                )
                self._consumer.send(burst)
                asked += len(rows)
                self._answer()
                answered += self._count(0)
                continue
            before = answered
            answered += self._count(_SILENCE_S)
            if self._answer() == 0 and answered == before:
                self.lost = asked - answered
        return time.perf_counter() - began_s

    def _count(self, timeout_s: float) -> int:
        """Data that arrived; waits for some packet first."""
        self._poll.poll(timeout_s * 1000)
        count = 0
        while True:
            try:
                received, size_bytes = self._consumer.receive()
            except BlockingIOError:
                return count
            if size_bytes < self._data_bytes:
                raise SystemExit("the forwarder answered with something else than the Data")
            count += len(received) // size_bytes

    def _answer(self) -> int:
        """Answer the Interests that came to the producer."""
        count = 0
        while True:
            try:
                received, size_bytes = self._producer.receive()
            except BlockingIOError:
                return count
            numbers = self._packets.numbers(received, size_bytes)
            self._producer.send(self._packets.data[numbers])
            count += len(numbers)


async def _route_to(producer: Flow, unix_socket: Path) -> None:
    host, port = producer.socket.getsockname()
    async with Client(f"unix://{unix_socket}") as client:
        face = await client.management.command(
            "faces", "create", ControlParameters(uri=f"udp4://{host}:{port}")
        )
        assert face is not None
        await client.management.command(
            "rib", "register", ControlParameters(name=Name(PREFIX), face_id=face.face_id)
        )


def _processor_s(pid: int) -> float:
    """Processor time of all threads of a process so far."""
    spent_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        spent_ns += int((thread / "schedstat").read_text().split()[0])
    return spent_ns / 1e9


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("unix_socket", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("pid", type=int)
    parser.add_argument("content_bytes", type=int)
    parser.add_argument("total", type=int)
    parser.add_argument("window", type=int)
    arguments = parser.parse_args()
    packets = Packets(4096, arguments.content_bytes)
    consumer, producer = (Flow(("127.0.0.1", arguments.port)) for _ in range(2))
    asyncio.run(_route_to(producer, arguments.unix_socket))
    figures: dict[str, float] = {}
    # The misses come first: they fill the content store for the hits.
    for kind, interests in (("miss", packets.fresh), ("hit", packets.cached)):
        run = Run(consumer, producer, packets, arguments.window)
        before_s = _processor_s(arguments.pid)
        took_s = run.fetch(interests, arguments.total)
        node_s = _processor_s(arguments.pid) - before_s
        came = arguments.total - run.lost
        figures[f"{kind}_data_per_s"] = came / took_s
        figures[f"{kind}_data_per_node_core_s"] = came / node_s
        figures[f"{kind}_lost"] = run.lost
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
