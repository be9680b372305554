"""A job whose rank 0 shares its host with a program that answers for it before it has published."""

from __future__ import annotations

import os
import socket

import numpy as np

import innet
from innet.ndn.address import default_address
from innet.ndn.face import StreamFramer
from innet.observe.packets.layers import data, interest
from innet.observe.packets.outline import Outline

_RANK = 0


class Program:
    """An NDN program at the node of its host, without any key."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(default_address().path)
        self._framer = StreamFramer()
        self._nonce = os.getpid()

    def send(self, packet: bytes) -> None:
        """Send a packet; the node has processed it when this returns."""
        self._nonce += 1
        question = bytes(interest("/nobody/has/this", nonce=self._nonce))
        self._socket.sendall(packet + question)
        while not any(Outline.of(came).kind == "nack" for came in self._receive()):
            pass

    def _receive(self) -> list[bytes]:
        return self._framer.feed(self._socket.recv(1 << 16))


def contribution(group: str, number: int) -> str:
    """What rank 0 will publish in that operation of the group."""
    return f"{group}/{_RANK}/sum.f32/seq={number}/seg=0"


def main() -> None:
    with innet.init(algorithm="inc") as comm:
        if comm.rank == _RANK:
            (group,) = comm._membership.plans
            consumer, producer = Program(), Program()
            for number in range(3):
                name = contribution(group, number)
                consumer.send(bytes(interest(name, nonce=1 + number, lifetime_ms=60_000)))
                producer.send(bytes(data(name, bytes(64 * 4))))
        comm.barrier()
        for _ in range(2):  # the barrier was the first operation of three
            total = comm.allreduce(np.full(64, comm.rank + 1, np.float32))
            assert (total == sum(range(1, comm.size + 1))).all(), total
        if comm.rank == _RANK:
            counters = comm._services.node.status()["node"]
            assert counters["cache_unverified_bytes"] == 0, counters
            print("dropped", counters["forbidden_answers"])


if __name__ == "__main__":
    main()
