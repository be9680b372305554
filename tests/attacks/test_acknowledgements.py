"""A neighbour that lies about which packets of a link arrived."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scapy.packet import Packet

from innet.observe.packets.layers import Ack, LpPacket, TxSequence
from tests.attacks.outsider import Neighbour, NodeAmongStrangers

_NUMBERED = 800
_PER_ACKNOWLEDGEMENT = 16


def repeats_on_all_links(settings: Any) -> None:
    settings.link_repetition = "all"


@pytest.fixture
def node() -> Iterator[NodeAmongStrangers]:
    """A node with an attacker, a client and a producer of ``/videos`` as its neighbours."""
    with NodeAmongStrangers(3, repeats_on_all_links) as made:
        made.node.add_route("/videos", 2)
        yield made


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def answered(node: NodeAmongStrangers, client: Neighbour, producer: Neighbour) -> bool:
    name = "/videos/after"
    return node.answer_all(client, producer, {name: b"content"}) == {name}


def test_false_acknowledgements_harm_nobody_else(node: NodeAmongStrangers) -> None:
    attacker, client, producer = node.neighbours
    lies: list[Packet] = [
        LpPacket(elements=[Ack(value=number(value)) for value in range(first, first + 100)])
        for first in (0, 2**32, 2**64 - 100)
    ]
    attacker.send(*lies)
    assert node.counted("malformed", attacker) == 0
    assert answered(node, client, producer)


def test_malformed_numbers_are_dropped(node: NodeAmongStrangers) -> None:
    attacker, client, producer = node.neighbours
    lies: list[Packet] = [
        LpPacket(elements=[Ack(value=b"1234")]),
        LpPacket(elements=[Ack(value=b"")]),
        LpPacket(elements=[TxSequence(value=b"123456789")]),
        LpPacket(elements=[TxSequence(value=number(1)), TxSequence(value=number(2))]),
    ]
    attacker.send(*lies)
    assert node.counted("malformed", attacker) == len(lies)
    assert answered(node, client, producer)


def test_numbered_packets_get_fewer_acknowledgements_than_they_are(
    node: NodeAmongStrangers,
) -> None:
    attacker, client, producer = node.neighbours
    for first in range(0, _NUMBERED, _PER_ACKNOWLEDGEMENT):
        values = range(first, first + _PER_ACKNOWLEDGEMENT)
        attacker.send(*(LpPacket(elements=[TxSequence(value=number(v))]) for v in values))
    assert answered(node, client, producer)
    assert 0 < node.node.status()["links"][0]["acknowledgements_out"] < _NUMBERED
