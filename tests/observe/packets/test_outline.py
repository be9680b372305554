"""One line about a packet, and filters by name and kind."""

from __future__ import annotations

import pytest
from hypothesis import given

from innet.observe.packets.layers import Data, Interest, LpPacket, data, interest, link
from innet.observe.packets.outline import KINDS, Outline, PacketChoice

from .strategies import packets


@given(packets)
def test_any_bytes_have_an_outline(packet: bytes) -> None:
    outline = Outline.of(packet)
    assert outline.kind in KINDS
    assert "\n" not in str(outline)


_SIGNED = "DigestSha256"


@pytest.mark.parametrize(
    ("packet", "kind", "details"),
    [
        (interest("/a", hints=["/n/s0"]), "interest", ["hint /n/s0"]),
        (interest("/a", must_be_fresh=True), "interest", ["must be fresh"]),
        (interest("/a", lifetime_ms=9), "interest", ["lifetime 9 ms"]),
        (data("/a", b"xyz", final_block="seg=9"), "data", ["last seg=9", "3 bytes", _SIGNED]),
        (data("/a", key_name="/k", signature_type=5), "data", ["0 bytes", "Ed25519 by /k"]),
        (data("/a", content_type=1024), "data", ["Manifest", "0 bytes", _SIGNED]),
        (link(interest("/a"), nack=150), "nack", ["NoRoute"]),
        (link(interest("/a"), nack=0), "nack", ["None"]),
        (link(interest("/a"), hold="3"), "hold", ["waits for 3"]),
        (link(None, hello=True), "hello", ["receives the peer"]),
        (link(None), "idle", []),
        (link(data("/a"), mark=1), "data", ["marked", "0 bytes", _SIGNED]),
        (link(data("/a"), pit_token=b"z"), "data", ["token 7a", "0 bytes", _SIGNED]),
        (link(bytes(data("/a"))[:20], fragment=(1, 0, 3)), "fragment", ["piece 1 of 3"]),
    ],
)
def test_an_outline_describes_the_packet(
    packet: Interest | Data | LpPacket, kind: str, details: list[str]
) -> None:
    outline = Outline.of(bytes(packet))
    assert (outline.kind, list(outline.details)) == (kind, details)
    assert outline.uri == ("" if kind in ("hello", "idle") else "/a")
    assert outline.size_bytes == len(packet)


def test_truncated_elements_are_named() -> None:
    outline = Outline.of(bytes(interest("/a/b"))[:-1])
    assert (outline.kind, outline.uri, outline.details) == ("malformed", "/a/b", ("cut off",))


def outlines() -> list[Outline]:
    packets = (interest("/a/b"), data("/a/bc"), link(interest("/a/b/c"), nack=150), link(None))
    return [Outline.of(bytes(packet)) for packet in packets]


def wanted(choice: PacketChoice) -> list[str]:
    return [f"{o.kind} {o.uri}".strip() for o in outlines() if choice.wants(o)]


def test_packets_are_chosen_by_name_and_kind() -> None:
    assert len(wanted(PacketChoice())) == 4
    assert wanted(PacketChoice.of(["/a/b"])) == ["interest /a/b", "nack /a/b/c"]
    assert wanted(PacketChoice.of(["/a/bc", "/x"])) == ["data /a/bc"]
    assert wanted(PacketChoice.of(kinds=["nack", "idle"])) == ["nack /a/b/c", "idle"]
    assert wanted(PacketChoice.of(["/a/b"], ["data"])) == []


def test_invalid_names_and_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="not an NDN name"):
        PacketChoice.of(["a"])
    with pytest.raises(ValueError, match="unknown kind 'answer'; kinds are interest, data"):
        PacketChoice.of(kinds=["answer"])
