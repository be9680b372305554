"""Packets in fragments, from a program at a node's UDP port."""

from __future__ import annotations

import itertools
import random

from innet.observe.packets.layers import (
    FragCount,
    FragIndex,
    Fragment,
    LpPacket,
    PitToken,
    data,
    interest,
)
from innet.observe.packets.layers.elements import Undissected
from innet.observe.packets.layers.ndnlp import Sequence
from tests.attacks.outsider import Neighbour, NodeAmongStrangers

_TOKEN = b"\x07\x08\x09"


def fragments(packet: bytes, size: int, sequence: int, token: bytes = b"") -> list[LpPacket]:
    """``packet`` cut into pieces of ``size`` bytes, with the token on the first."""
    pieces = [packet[at : at + size] for at in range(0, len(packet), size)]
    return [
        LpPacket(
            elements=[
                Sequence(value=(sequence + index).to_bytes(8, "big")),
                FragIndex(value=index),
                FragCount(value=len(pieces)),
                *([PitToken(value=token)] if token and index == 0 else []),
                Fragment(elements=[Undissected(load=piece)]),
            ]
        )
        for index, piece in enumerate(pieces)
    ]


def face_counter(node: NodeAmongStrangers, name: str) -> int:
    return sum(face[name] for face in node.node.status()["foreign_faces"])


def exchange(node: NodeAmongStrangers, program: Neighbour, producer: Neighbour) -> None:
    name = "/film/" + "/".join("abcdefgh")
    content = random.Random(3).randbytes(6000)
    asked = fragments(bytes(interest(name, nonce=9)), 16, 70, _TOKEN)
    program.send(*reversed(asked))
    outline, _ = producer.receive("interest")
    assert outline.uri == name
    producer.send(bytes(data(name, content)))
    _, packet = program.receive("data")
    link = LpPacket(packet)
    assert link.element(PitToken).value == _TOKEN
    assert content in packet


def test_an_interest_in_fragments_is_answered_with_its_token() -> None:
    with NodeAmongStrangers(1) as node:
        node.node.add_route("/film", 0)
        (program,) = node.add_programs(1)
        exchange(node, program, node.neighbours[0])
        assert face_counter(node, "reassembled_in") == 1


def test_hostile_fragments_are_counted_and_block_no_service() -> None:
    with NodeAmongStrangers(1) as node:
        node.node.add_route("/film", 0)
        program, hostile = node.add_programs(2)
        chance = random.Random(5)
        numbers = (0, 1, 2, 63, 64, 65, 255, 1 << 32, (1 << 64) - 1)
        for index, count in itertools.product(numbers, numbers):
            piece = LpPacket(
                elements=[
                    Sequence(value=chance.randbytes(8)),
                    FragIndex(value=index),
                    FragCount(value=count),
                    Fragment(elements=[Undissected(load=chance.randbytes(40))]),
                ]
            )
            hostile.send(piece, piece)
        assert node.counted("malformed", hostile) > len(numbers)
        exchange(node, program, node.neighbours[0])
        assert face_counter(node, "reassembled_in") == 1
