"""Which packets somebody wants to see."""

from __future__ import annotations

import pytest

from innet.observe.packets.layers import data, interest, link
from innet.observe.packets.outline import Outline, PacketChoice


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
