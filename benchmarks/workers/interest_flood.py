"""Who takes part in a flood of Interests: a forwarder, who produces, who fetches, who floods.

Each is a process of its own in its node's namespace (``benchmarks/interest_flood.py`` starts
them). Turns without and with the flood alternate; they begin at the same moments of the machine's
clock for all.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from innet._native import _core
from innet.ndn import Name
from innet.ndn.face import StreamFramer
from innet.ndn.wire import encode_data, encode_interest, parse_interest
from innet.node.native_settings import NodeSizes, native_settings
from innet.settings import Settings
from innet.tlv_numbers import TlvType

PORT = 6363
LISTENING, ROUTED = "listening", "routed"
"""What the forwarder says when others may connect, and when its routes lead somewhere."""

_SETTLE_S = 0.3
_POLL_S = 0.02
_WINDOW = 128
_CONTENT_BYTES = 8000
_PRODUCER_FACE, _DEAF_FACE, _CLIENT_FACE = 0, 1, 2
"""In the order in which they connect; whoever floods comes last."""
_FLOOD_BATCH = 400
_UDP_SEGMENT = 103
_SEGMENTS = 60
_DIGITS = 9


@dataclass(frozen=True)
class Turns:
    """When each turn begins: the odd ones are flooded."""

    begin_s: float
    each_s: float
    count: int

    def wait(self) -> Iterator[tuple[int, float]]:
        """Each turn's number and its end, at its begin."""
        for turn in range(self.count):
            start_s = self.begin_s + turn * self.each_s
            time.sleep(max(0.0, start_s - time.monotonic()))
            yield turn, start_s + self.each_s

    @staticmethod
    def is_flooded(turn: int) -> bool:
        return turn % 2 == 1


def forward(address: str) -> dict[str, object]:
    """The node: names of ``/served`` lead to who produces, those of ``/deaf`` to who never answers.

    What it counts, at short intervals from when the client has come until it has gone.
    """
    settings = native_settings("s0", Settings(), NodeSizes())
    node = _core.Node(settings, _core.SigningKey("digest"), [])
    node.start()
    for scheme in ("tcp4", "udp4"):
        node.listen(f"{scheme}://{address}:{PORT}")
    print(LISTENING, flush=True)
    while len(node.status()["foreign_faces"]) <= _DEAF_FACE:
        time.sleep(_POLL_S)
    node.add_route("/served", _PRODUCER_FACE)
    node.add_route("/deaf", _DEAF_FACE)
    print(ROUTED, flush=True)
    samples: list[dict[str, float]] = []
    while True:
        status = node.status()
        faces = {face["face"]: face["interests_in"] for face in status["foreign_faces"]}
        if _CLIENT_FACE in faces:
            samples.append(
                {
                    "time_s": time.monotonic(),
                    "cpu_s": time.process_time(),
                    "flood_interests": sum(faces.values()) - faces[_CLIENT_FACE],
                    "pit_entries": status["node"]["pit_entries"],
                    "over_share": status["node"]["over_share"],
                }
            )
        elif samples:
            break
        time.sleep(_POLL_S)
    node.stop("the turns are over")
    return {"samples": samples}


def produce(address: str) -> None:
    """Answers whatever is asked, until the node is gone; a second connection never answers."""
    connection, deaf = _connect(address), _connect(address)
    content = bytes(_CONTENT_BYTES)
    framer = StreamFramer()
    with connection, deaf, suppress(ConnectionError):
        while received := connection.recv(1 << 16):
            answers = [
                encode_data(parse_interest(packet).name, content)
                for packet in framer.feed(received)
            ]
            connection.sendall(b"".join(answers))


def fetch(address: str, turns: Turns) -> dict[str, object]:
    """Keeps a window of Interests; how fast content came in each turn, once it had settled."""
    connection = _connect(address)
    framer = StreamFramer()
    numbers = iter(range(1 << 40))
    fetched: list[int] = []
    refused = 0

    def ask(count: int) -> None:
        names = [Name(f"/served/{next(numbers)}") for _ in range(count)]
        connection.sendall(b"".join(encode_interest(name) for name in names))

    with connection:
        ask(_WINDOW)
        for _, end_s in turns.wait():
            packets = 0
            settled_s = end_s - turns.each_s + _SETTLE_S
            while (now_s := time.monotonic()) < end_s:
                came = framer.feed(connection.recv(1 << 16))
                ask(len(came))
                data = sum(packet[0] == TlvType.DATA for packet in came)
                refused += len(came) - data
                packets += data if now_s >= settled_s else 0
            fetched.append(packets * _CONTENT_BYTES)
    return {
        "throughput_bps": [8 * count / (turns.each_s - _SETTLE_S) for count in fetched],
        "refused": refused,
    }


def flood(address: str, over: str, turns: Turns) -> dict[str, object]:
    """Fills its link with Interests in the odd turns, each for another name; reads no answers."""
    send: Callable[[int], int] | None = None
    sent = 0
    for turn, end_s in turns.wait():
        if not turns.is_flooded(turn):
            continue
        send = send or (_stream_sender(address) if over == "tcp" else _datagram_sender(address))
        with suppress(ConnectionError):  # in the last turn, the node may be gone first
            while time.monotonic() < end_s:
                sent += send(sent)
    return {"sent": sent}


def flood_packets(first: int, count: int) -> np.ndarray:
    """Interests for ``/deaf/<number>`` that wait a minute, one in each row."""
    template = encode_interest(f"/deaf/{'0' * _DIGITS}", lifetime_s=60.0, nonce=0)
    rows = np.tile(np.frombuffer(template, np.uint8), (count, 1))
    numbers = np.arange(first, first + count)
    digits = template.index(b"0" * _DIGITS)
    for place in range(_DIGITS):
        rows[:, digits + place] = ord("0") + numbers // 10 ** (_DIGITS - 1 - place) % 10
    nonce = template.index(b"\x0a\x04") + 2
    rows[:, nonce : nonce + 4] = numbers.astype(">u4").view(np.uint8).reshape(count, 4)
    return rows


def _stream_sender(address: str) -> Callable[[int], int]:
    connection = _connect(address)
    connection.settimeout(1.0)

    def send(first: int) -> int:
        rest = memoryview(flood_packets(first, _FLOOD_BATCH).tobytes())
        while rest:
            try:
                rest = rest[connection.send(rest) :]
            except TimeoutError:  # the node does not read
                continue
        return _FLOOD_BATCH

    return send


def _datagram_sender(address: str) -> Callable[[int], int]:
    """The kernel cuts a batch into datagrams; it waits while the link's queue is full."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    connection.connect((address, PORT))
    size = flood_packets(0, 1).shape[1]
    connection.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, size)

    def send(first: int) -> int:
        connection.send(flood_packets(first, _SEGMENTS).tobytes())
        return _SEGMENTS

    return send


def _connect(address: str) -> socket.socket:
    connection = socket.create_connection((address, PORT))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def main() -> None:
    """Play one role."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("forward", "produce", "fetch", "flood"))
    parser.add_argument("--address", required=True, help="of the node")
    parser.add_argument("--over", choices=("tcp", "udp"), default="tcp")
    parser.add_argument("--turns", type=json.loads, help="[begin, length, count], in s")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.role == "produce":
        return produce(arguments.address)
    if arguments.role == "forward":
        result = forward(arguments.address)
    elif arguments.role == "fetch":
        result = fetch(arguments.address, Turns(*arguments.turns))
    else:
        result = flood(arguments.address, arguments.over, Turns(*arguments.turns))
    arguments.output.write_text(json.dumps(result))
    return None


if __name__ == "__main__":
    main()
