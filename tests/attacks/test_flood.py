"""One program floods a node with Interests that nobody answers; the others hardly notice."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

from innet.ndn import Client, encode_data
from innet.node.forwarder import Forwarder, ForwarderOptions
from innet.observe.packets.layers import interest
from tests.attacks.outsider import NodeAmongStrangers

_PIT_CAPACITY = 512
_WINDOW = 20
"""Less than a face may have pending beside another that takes all it gets: 1/12 of the table."""
_WINDOWS = 12
_FLOOD = 30
"""Interests of the attacker for each window of the client."""
_SILENT = 300
"""Connections, more than a forwarder has room for."""


def small_pit(settings: Any) -> None:
    settings.pit_capacity = _PIT_CAPACITY


def test_a_flood_on_one_face_does_not_reduce_the_throughput_of_others() -> None:
    with NodeAmongStrangers(1, small_pit) as node:
        (producer,) = node.neighbours
        node.node.add_route("/flood", 0)
        node.node.add_route("/film", 0)
        attacker, client = node.add_programs(2)
        served = 0
        for window in range(_WINDOWS):
            flood = range(window * _FLOOD, (window + 1) * _FLOOD)
            attacker.send(
                *(interest(f"/flood/{n}", nonce=n + 1, lifetime_ms=60_000) for n in flood)
            )
            segments = range(window * _WINDOW, (window + 1) * _WINDOW)
            served += len(
                node.answer_all(client, producer, {f"/film/seg={n}": bytes(800) for n in segments})
            )
        # Of a face that sends so much in vain, the node leaves some unread.
        assert node.counter("over_share") >= 0.25 * _WINDOWS * _FLOOD
        assert node.counter("pit_entries") <= _PIT_CAPACITY / 4  # what foreign faces have together
    assert served >= 0.8 * _WINDOWS * _WINDOW


def test_a_neighbour_with_many_pending_interests_leaves_room_for_others() -> None:
    with NodeAmongStrangers(2, small_pit) as node:
        greedy, modest = node.neighbours
        node.node.register_producer("/j/g0/0", "0")
        for first in range(0, _PIT_CAPACITY, 64):
            names = (f"/j/g0/0/sum.f32/seq={n}/seg=0" for n in range(first, first + 64))
            greedy.send(*(interest(name, nonce=n + 1) for n, name in enumerate(names)))
            node.counted("over_share", greedy)
        assert node.counter("over_share") >= _PIT_CAPACITY / 2
        assert node.counter("pit_full") == 0
        modest.send(interest("/j/g0/0/sum.f32/seq=9999/seg=0"))
        assert modest.receive("hold")[0].uri.endswith("/seq=9999/seg=0")


def test_silent_connections_block_no_program_of_a_forwarder(tmp_path: Path) -> None:
    async def fetched(producer_uri: str, consumer_uri: str) -> bytes:
        async with Client(producer_uri) as producer, Client(consumer_uri) as consumer:
            await producer.register("/hello", lambda asked: encode_data(asked.name, b"world"))
            return (await consumer.express("/hello/1", deadline_s=30)).content

    options = ForwarderOptions([f"unix://{tmp_path}/f.sock", "tcp4://127.0.0.1:0"])
    with contextlib.ExitStack() as connections, Forwarder(options) as forwarder:
        unix, tcp = forwarder.listeners
        port = int(tcp.rsplit(":", 1)[1])
        for _ in range(_SILENT):
            connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        assert asyncio.run(fetched(unix, tcp)) == b"world"
        assert forwarder.node.status()["node"]["faces_evicted"] > 0
