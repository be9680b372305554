"""The scapy layers: whatever is dissected is built again to the bit, and nothing raises."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from innet.observe.packets import layers
from innet.observe.packets.layers import (
    Content,
    Data,
    Fragment,
    Interest,
    LpPacket,
    ManifestDigests,
    ManifestSegments,
    MetaInfo,
    Name,
    Nonce,
    SignatureInfo,
    SignatureValue,
    Undissected,
    bind,
    data,
    interest,
    link,
    manifest_content,
    manifest_elements,
)

from .strategies import names, packets


def rebuilt(packet: Packet) -> bytes:
    """The bytes that its fields make, without any that scapy has kept."""
    copy = packet.copy()
    copy.clear_cache()
    return bytes(copy)


@given(packets, st.sampled_from([Interest, Data, LpPacket, layers.Ndn, layers.Element]))
def test_any_bytes_are_dissected_and_built_again_to_the_bit(
    packet: bytes, asked_for: type[Packet]
) -> None:
    assert rebuilt(asked_for(packet)) == packet


@given(packets)
def test_any_datagram_is_dissected_and_built_again_to_the_bit(packet: bytes) -> None:
    frame = bytes(Ether() / IP() / UDP(sport=6363, dport=6363) / Raw(packet))
    dissected = Ether(frame)
    assert rebuilt(dissected) == frame
    dissected.show(dump=True)
    dissected.summary()


@given(names(), st.binary(max_size=300), st.integers(0, (1 << 64) - 1), st.integers(0, 1 << 20))
def test_a_crafted_data_has_the_given_fields(
    name: bytes, content: bytes, elements: int, freshness_ms: int
) -> None:
    crafted = data(name, content, freshness_ms=freshness_ms, tensor_elements=elements)
    again = Data(bytes(crafted))
    assert again == crafted
    assert again.element(Name).value_bytes() == name
    assert again.content == content
    numbers = [element.value for element in again.element(MetaInfo).elements]
    assert numbers == [freshness_ms, elements]


def test_a_digest_covers_the_fields_from_name_to_signature() -> None:
    packet = data("/a/b", b"hello")
    signed = b"".join(bytes(packet.element(kind)) for kind in (Name, Content, SignatureInfo))
    assert packet.element(SignatureValue).value == hashlib.sha256(signed).digest()


def test_lengths_are_updated_after_changes() -> None:
    packet = link(interest("/a"), pit_token=b"12")
    changed = LpPacket(bytes(packet))
    changed[Name].value = "/a/much/longer/name"
    assert bytes(changed) == bytes(link(interest("/a/much/longer/name"), pit_token=b"12"))


def test_a_crafted_packet_can_be_inconsistent() -> None:
    lying = Interest(length=200, elements=[Name(value="/a"), Nonce(value=b"12345")])
    assert bytes(lying) == bytes.fromhex("05c807030801610a053132333435")
    assert Interest(bytes(lying)).length == 200


def test_frames_with_ndn_are_found_by_port_and_by_ethertype() -> None:
    packet = interest("/a/b")
    for frame in (
        Ether() / IP() / UDP() / packet,
        Ether() / packet,
        Ether() / IP() / UDP(sport=9, dport=6363) / packet,
        Ether() / IP() / TCP(sport=6363, dport=9) / packet,
    ):
        assert Ether(bytes(frame))[Interest].uri == "/a/b"
    assert Interest not in Ether(bytes(Ether() / IP() / UDP(sport=9, dport=9) / packet))


def test_another_port_can_be_bound() -> None:
    frame = bytes(Ether() / IP() / UDP(sport=9, dport=16363) / Raw(bytes(interest("/a"))))
    assert Interest not in Ether(frame)
    bind(16363)
    assert Ether(frame)[Interest].uri == "/a"


def test_a_stream_has_several_packets() -> None:
    stream = bytes(interest("/a")) + bytes(data("/a", b"x")) + bytes(link(None))
    dissected = layers.Ndn(stream)
    assert dissected.layers() == [Interest, Data, LpPacket]
    assert bytes(dissected) == stream


def test_a_fragment_of_a_packet_stays_bytes() -> None:
    whole = bytes(data("/a", bytes(100)))
    first = LpPacket(bytes(link(whole[:60], fragment=(7, 0, 2))))
    assert first.packet is None
    assert [type(element) for element in first.element(Fragment).elements] == [Undissected]


def test_a_manifest_shows_its_contents() -> None:
    digests = [hashlib.sha256(bytes([i])).digest() for i in range(3)]
    content = manifest_content(digests, segments=3)
    found = {type(e): e for e in manifest_elements(data("/o", content, content_type=1024))}
    assert found[ManifestSegments].value == 3
    assert found[ManifestDigests].digests == digests
    assert manifest_elements(data("/o", content)) == []


def test_many_tiny_elements_cost_no_more_than_their_bytes() -> None:
    flood = b"\x21\x00" * 30_000
    packet = Interest(b"\x05\xfe" + len(flood).to_bytes(4, "big") + flood)
    assert len(packet.elements) < 100
    assert rebuilt(packet)[6:] == flood


def test_an_invalid_crafted_name_is_refused() -> None:
    with pytest.raises(ValueError, match="not an NDN name"):
        interest("a/b")
