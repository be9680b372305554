"""Prints a packet as a tree: one line for each element."""

from __future__ import annotations

from collections.abc import Iterator

from scapy.packet import Packet

from innet.observe.packets.layers import Data, Element, Ndn, NestedElement, manifest_elements

_INDENT = "  "


def tree_lines(packet: bytes) -> Iterator[str]:
    """The elements of an NDN packet, each below its parent.

    >>> print(*tree_lines(bytes.fromhex("05070703080161" "0a00")), sep="\\n")
    Interest
      Name /a
      Nonce
    """
    dissected = Ndn(packet)
    for layer in dissected.layers():
        yield from _lines(dissected[layer], 0)


def _lines(packet: Packet, depth: int) -> Iterator[str]:
    if not isinstance(packet, Element):
        yield f"{_INDENT * depth}{bytes(packet).hex()} (cannot be read)"
        return
    length = packet.fields.get("length")
    lie = "" if length is None else f" (length says {int(length)})"
    yield f"{_INDENT * depth}{packet.show_line()}{lie}".rstrip()
    if isinstance(packet, NestedElement):
        for inner in packet.elements:
            yield from _lines(inner, depth + 1)
    if isinstance(packet, Data):
        for inner in manifest_elements(packet):
            yield from _lines(inner, depth + 1)
