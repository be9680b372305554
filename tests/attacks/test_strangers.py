"""What neighbours may send to a node without harm, and the counters that show it was caught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scapy.packet import Packet

from innet.observe.packets.layers import (
    ApplicationParameters,
    Content,
    Data,
    Fragment,
    Hold,
    Interest,
    LpPacket,
    Name,
    Nonce,
    PitToken,
    Unknown,
    data,
    interest,
    link,
)
from tests.attacks.outsider import Neighbour, NodeAmongStrangers

_CACHE_BYTES = 300_000
_CONTENT = bytes(1000)


def small_cache(settings: Any) -> None:
    settings.cache_bytes = _CACHE_BYTES


@pytest.fixture
def node() -> Iterator[NodeAmongStrangers]:
    """A node with an attacker, a client and a producer of ``/videos`` as its neighbours."""
    with NodeAmongStrangers(3, small_cache) as made:
        made.node.add_route("/videos", 2)
        yield made


def test_malformed_packets_are_counted_and_harm_nobody(node: NodeAmongStrangers) -> None:
    attacker, client, producer = node.neighbours
    whole = bytes(interest("/videos/a"))
    lies: list[Packet | bytes] = [
        Interest(length=200, elements=[Name(value="/a"), Nonce(value=b"1234")]),
        Interest(elements=[Name(value="/a"), Nonce(value=b"12345")]),
        Interest(elements=[Name(value=b""), Nonce(value=b"1234")]),
        Interest(elements=[Name(value=b"\x08\xff"), Nonce(value=b"1234")]),
        Interest(elements=[Nonce(value=b"1234"), Name(value="/a")]),
        Interest(elements=[Name(value="/a"), ApplicationParameters(value=b"without digest")]),
        Interest(elements=[Name(value="/a"), Unknown(type=0x1B, value=b"critical")]),
        Data(elements=[Name(value="/a"), Content(value=b"unsigned")]),
        LpPacket(elements=[PitToken(value=bytes(33)), Fragment(elements=[interest("/a")])]),
        LpPacket(elements=[Fragment(elements=[interest("/a")]), PitToken(value=b"late")]),
        LpPacket(elements=[Hold(value=b"3"), Fragment(elements=[data("/a")])]),
        link(whole[:9], fragment=(1, 2, 2)),
        whole[:-1],
        whole + b"\0",
        b"\x64",
        b"\x05\xff" + b"\xff" * 8,
    ]
    attacker.send(*lies)
    assert node.counted("malformed", attacker) == len(lies)
    answer_one(client, producer, "/videos/after")
    assert attacker.heard() == []


def test_names_below_localhost_are_refused_from_other_machines(node: NodeAmongStrangers) -> None:
    attacker, client, producer = node.neighbours
    node.node.add_route("/localhost", 2)
    attacker.send(
        interest("/localhost/nfd/status/general", can_be_prefix=True, must_be_fresh=True),
        interest("/localhost/anything", nonce=2),
        data("/localhost/nfd/status/general/v=1/seg=0", b"forged"),
    )
    assert node.counted("scope_violations", attacker) == 3
    answer_one(client, producer, "/videos/after")
    assert attacker.heard() == []
    assert producer.heard() == []


def test_unsolicited_data_enter_no_cache(node: NodeAmongStrangers) -> None:
    attacker, client, producer = node.neighbours
    attacker.send(*(data(f"/videos/seg={n}", b"poison") for n in range(30)))
    assert node.counted("unsolicited_data", attacker) == 30
    assert node.counter("cache_entries") == 0
    for n in range(30):
        assert answer_one(client, producer, f"/videos/seg={n}") == _CONTENT


def test_content_requested_once_displaces_little_popular_content(
    node: NodeAmongStrangers,
) -> None:
    attacker, client, producer = node.neighbours
    popular = {f"/videos/popular/seg={n}": _CONTENT for n in range(60)}
    for _ in range(3):
        node.answer_all(client, producer, popular)
    unpopular = {f"/videos/unpopular/seg={n}": _CONTENT for n in range(600)}
    node.answer_all(attacker, producer, unpopular)
    assert node.counter("cache_evictions") > 300
    assert node.counter("cache_bytes") <= _CACHE_BYTES
    hits = node.counter("cache_hits")
    node.answer_all(client, producer, popular)
    assert node.counter("cache_hits") - hits >= 0.8 * len(popular)


def test_an_answer_from_another_face_is_not_cached(node: NodeAmongStrangers) -> None:
    """Who is not asked may be quicker than the producer, but what he says is no one's truth."""
    attacker, client, producer = node.neighbours
    node.node.install_job("/videos", 1, None, [])
    client.send(interest("/videos/film/seg=0"))
    producer.receive("interest")
    attacker.send(data("/videos/film/seg=0", b"poison"))
    assert node.counted("unknown_key", attacker) == 1
    assert node.counter("cache_entries") == 0
    assert client.heard() == []


def answer_one(client: Neighbour, producer: Neighbour, name: str) -> bytes:
    """What ``client`` gets for ``name`` when the producer is asked."""
    client.send(interest(name))
    producer.receive("interest")
    producer.send(data(name, _CONTENT))
    outline, packet = client.receive("data")
    assert outline.uri == name
    return Data(packet).content
