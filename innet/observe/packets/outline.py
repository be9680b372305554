"""Describes a packet in one line, from its bytes, and filters packets by name and kind.

It accepts any bytes, and describes as much of a damaged packet as can be read. An outline takes a
few microseconds; a dissection takes a millisecond.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Self

from innet import tlv_numbers as numbers
from innet.observe.packets.names import meaning_of, name_value, uri_of
from innet.observe.packets.tlv import Bytes, read_header, read_number, whole_elements
from innet.tlv_numbers import TlvType

Kind = Literal["interest", "data", "nack", "hold", "hello", "idle", "fragment", "malformed"]
KINDS: tuple[Kind, ...] = (
    "interest",
    "data",
    "nack",
    "hold",
    "hello",
    "idle",
    "fragment",
    "malformed",
)


@dataclass(frozen=True)
class Outline:
    """The fields of a packet that its line shows."""

    kind: Kind
    size_bytes: int
    name: bytes = b""
    """The value of its Name element; empty without one."""
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, packet: Bytes) -> Self:
        """Outline one packet, which may be malformed."""
        link: list[str] = []
        kind: Kind | None = None
        inner = packet
        header = read_header(packet)
        if header is not None and header.type == TlvType.LP_PACKET:
            kind, inner, link = _read_link(packet[header.value_at :])
            header = read_header(inner)
        if kind in ("hello", "idle", "fragment"):
            return cls(kind, len(packet), _name(inner), tuple(link))
        if header is None or header.type not in numbers.NETWORK_PACKETS:
            return cls("malformed", len(packet), b"", tuple(link))
        value = inner[header.value_at : header.value_at + header.length]
        details = _data_details(value) if header.type == TlvType.DATA else _interest_details(value)
        if header.length != len(inner) - header.value_at:
            return cls("malformed", len(packet), _name(inner), (*link, "cut off"))
        shown: Kind = kind or ("data" if header.type == TlvType.DATA else "interest")
        return cls(shown, len(packet), _name(inner), (*link, *details))

    @property
    def uri(self) -> str:
        """The name as text; empty without a name."""
        return uri_of(self.name) if self.name else ""

    def __str__(self) -> str:
        uri = self.uri
        meaning = meaning_of(uri)
        details = (*(() if meaning is None else (meaning,)), *self.details)
        shown = f"  [{'; '.join(details)}]" if details else ""
        return f"{self.kind:<9} {self.size_bytes:>5} B  {uri}{shown}".rstrip()


def _read_link(value: Bytes) -> tuple[Kind | None, Bytes, list[str]]:
    """The kind that a link packet gives its fragment, the fragment, and other details."""
    kind: Kind | None = None
    fragment: Bytes = b""
    details = []
    index, count = 0, 1
    for number, field in whole_elements(value):
        if number == TlvType.FRAGMENT:
            fragment = field
        elif number == TlvType.NACK:
            kind = "nack"
            details.append(_nack_reason(field))
        elif number == TlvType.HOLD:
            kind = "hold"
            details.append(f"waits for {bytes(field).decode(errors='backslashreplace')}")
        elif number == TlvType.HELLO:
            kind = "hello"
            details.append("receives the peer" if read_number(field) else "receives nothing")
        elif number == TlvType.CONGESTION_MARK:
            details.append("marked")
        elif number == TlvType.PIT_TOKEN:
            details.append(f"token {bytes(field).hex()}")
        elif number == TlvType.FRAG_INDEX:
            index = read_number(field) or 0
        elif number == TlvType.FRAG_COUNT:
            count = read_number(field) or 1
    if count > 1:
        return "fragment", fragment, [f"piece {index + 1} of {count}", *details]
    if not fragment and kind != "hello":
        kind = "idle"
    return kind, fragment, details


def _nack_reason(value: Bytes) -> str:
    reason = next((read_number(v) for t, v in whole_elements(value) if t == TlvType.NACK_REASON), 0)
    return numbers.NACK_REASONS.get(reason or 0, f"reason {reason}")


def _name(packet: Bytes) -> bytes:
    header = read_header(packet)
    if header is None or header.type not in numbers.NETWORK_PACKETS:
        return b""
    first = next(whole_elements(packet[header.value_at :]), None)
    return bytes(first[1]) if first is not None and first[0] == TlvType.NAME else b""


def _interest_details(value: Bytes) -> list[str]:
    details = []
    for number, field in whole_elements(value):
        if number == TlvType.CAN_BE_PREFIX:
            details.append("can be prefix")
        elif number == TlvType.MUST_BE_FRESH:
            details.append("must be fresh")
        elif number == TlvType.FORWARDING_HINT:
            hints = [uri_of(name) for kind, name in whole_elements(field) if kind == TlvType.NAME]
            details.append(f"hint {' '.join(hints)}")
        elif number == TlvType.INTEREST_LIFETIME:
            details.append(f"lifetime {read_number(field)} ms")
        elif number == TlvType.HOP_LIMIT:
            details.append(f"hop limit {read_number(field)}")
        elif number == TlvType.APPLICATION_PARAMETERS:
            details.append(f"{len(field)} bytes of parameters")
        elif number == TlvType.INTEREST_SIGNATURE_INFO:
            details.append(_signature(field))
    return details


def _data_details(value: Bytes) -> list[str]:
    details = []
    for number, field in whole_elements(value):
        if number == TlvType.META_INFO:
            details += _meta_details(field)
        elif number == TlvType.CONTENT:
            details.append(f"{len(field)} bytes")
        elif number == TlvType.SIGNATURE_INFO:
            details.append(_signature(field))
    return details


def _meta_details(value: Bytes) -> list[str]:
    details = []
    for number, field in whole_elements(value):
        shown = read_number(field)
        if number == TlvType.CONTENT_TYPE and shown:
            details.append(numbers.CONTENT_TYPES.get(shown, f"content type {shown}"))
        elif number == TlvType.FRESHNESS_PERIOD:
            details.append(f"fresh {shown} ms")
        elif number == TlvType.FINAL_BLOCK_ID:
            details.append(f"last {uri_of(field)[1:]}")
        elif number == TlvType.TENSOR_ELEMENTS:
            details.append(f"{shown} elements")
        elif number == TlvType.TENSOR_ERROR:
            details.append(f"error {numbers.TENSOR_ERRORS.get(shown or 0, shown)}")
        elif number == TlvType.SEGMENTS_RECEIVED:
            details.append(f"{shown} received")
    return details


def _signature(value: Bytes) -> str:
    number = next(
        (read_number(v) for t, v in whole_elements(value) if t == TlvType.SIGNATURE_TYPE), None
    )
    name = numbers.SIGNATURE_TYPES.get(-1 if number is None else number, f"signature {number}")
    for kind, field in whole_elements(value):
        if kind == TlvType.KEY_LOCATOR:
            names = [uri_of(key) for t, key in whole_elements(field) if t == TlvType.NAME]
            return f"{name} by {' '.join(names)}" if names else name
    return name


@dataclass(frozen=True)
class PacketChoice:
    """A filter of packets by their names and kinds; by default all pass.

    Attributes:
        prefixes: values of Name elements; a packet's name begins with one of them.
        kinds: of :data:`innet.observe.packets.outline.KINDS`.
    """

    prefixes: tuple[bytes, ...] = ()
    kinds: frozenset[str] = frozenset()

    @classmethod
    def of(cls, prefixes: Collection[str] = (), kinds: Collection[str] = ()) -> PacketChoice:
        """Parse prefixes and names of kinds.

        Raises:
            ValueError: a name is malformed, or a kind is unknown.
        """
        unknown = sorted(set(kinds).difference(KINDS))
        if unknown:
            raise ValueError(f"unknown kind {unknown[0]!r}; kinds are {', '.join(KINDS)}")
        return cls(tuple(map(name_value, prefixes)), frozenset(kinds))

    @property
    def is_everything(self) -> bool:
        """Whether all packets pass."""
        return not (self.prefixes or self.kinds)

    def wants(self, outline: Outline) -> bool:
        """Whether the packet passes."""
        return (not self.kinds or outline.kind in self.kinds) and (
            # Elements delimit themselves, so a prefix in bytes ends where a component ends.
            not self.prefixes or any(outline.name.startswith(prefix) for prefix in self.prefixes)
        )
