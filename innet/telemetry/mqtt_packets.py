"""Parses and builds the control packets of MQTT 3.1.1 for a broker.

The format is that of the OASIS standard "MQTT Version 3.1.1" (2014); section numbers below are its
own. This module uses no sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

_MAX_LENGTH_BYTES = 4
"""Bytes of the remaining length field (2.2.3)."""
_OBJECT_BYTES = 256
"""Memory of a message beside its contents: three objects, and its place in a table."""
_PROTOCOL_NAME = "MQTT"
_PROTOCOL_LEVEL = 4


class MalformedMqttPacket(ValueError):
    """Bytes that violate the standard; the broker closes the connection (4.8)."""


class UnacceptableProtocol(MalformedMqttPacket):
    """A CONNECT of another version of MQTT: the broker replies, then closes the connection."""


class Kind(IntEnum):
    """Packet types (2.2.1)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14


class ConnectCode(IntEnum):
    """Return codes of CONNACK (3.2.2.3)."""

    ACCEPTED = 0
    UNACCEPTABLE_PROTOCOL = 1
    IDENTIFIER_REJECTED = 2
    SERVER_UNAVAILABLE = 3
    NOT_AUTHORIZED = 5


@dataclass(frozen=True, slots=True)
class Message:
    """An application message.

    Attributes:
        retain: to the broker: retain it; from the broker: it was retained.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False

    @property
    def size_bytes(self) -> int:
        """Memory that the message is charged for."""
        return _OBJECT_BYTES + len(self.topic.encode()) + len(self.payload)


@dataclass(frozen=True, slots=True)
class Connect:
    """The first packet of a client (3.1). Its password is not part of its representation."""

    client_id: str
    clean_session: bool
    keepalive_s: int
    will: Message | None
    username: str | None
    password: bytes | None

    def __repr__(self) -> str:
        return f"Connect(client_id={self.client_id!r}, username={self.username!r})"


@dataclass(frozen=True, slots=True)
class Publish:
    """PUBLISH (3.3); ``packet_id`` is 0 with QoS 0."""

    message: Message
    packet_id: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SUBSCRIBE (3.8): topic filters with the requested QoS."""

    packet_id: int
    filters: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """UNSUBSCRIBE (3.10)."""

    packet_id: int
    filters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """PUBACK, PUBREC, PUBREL or PUBCOMP (3.4 to 3.7)."""

    kind: Kind
    packet_id: int


@dataclass(frozen=True, slots=True)
class Signal:
    """A packet without content: PINGREQ or DISCONNECT."""

    kind: Kind


Packet = Connect | Publish | Subscribe | Unsubscribe | Acknowledgement | Signal


class PacketParser:
    """Cuts a stream of bytes into packets.

    Attributes:
        max_packet_bytes: a larger packet is malformed; may change between packets.
    """

    def __init__(self, max_packet_bytes: int) -> None:
        self.max_packet_bytes = max_packet_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Packet]:
        """The packets that are complete with ``data``.

        Raises:
            MalformedMqttPacket: the bytes are not MQTT 3.1.1; feed no more of them.
        """
        self._buffer += data
        while (header := self._header()) is not None:
            first, start, end = header
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[start:end])
            del self._buffer[:end]
            yield _decoded(first, body)

    def _header(self) -> tuple[int, int, int] | None:
        """The first byte, and where the body starts and ends; ``None``: more bytes are needed."""
        if self._buffer:
            _require_flags(self._buffer[0])
        length = 0
        for position in range(_MAX_LENGTH_BYTES):
            if len(self._buffer) < position + 2:
                return None
            byte = self._buffer[position + 1]
            length |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                start = position + 2
                if length > self.max_packet_bytes:
                    _refuse(f"packet of {length} bytes, at most {self.max_packet_bytes} are taken")
                return self._buffer[0], start, start + length
        raise MalformedMqttPacket(f"remaining length of more than {_MAX_LENGTH_BYTES} bytes")


def is_topic(text: str) -> bool:
    """Whether ``text`` can be published to (4.7.3)."""
    return bool(text) and not any(character in text for character in "+#\0")


def is_filter(text: str) -> bool:
    """Whether ``text`` can be subscribed to (4.7.1)."""
    if not text or "\0" in text:
        return False
    *before, last = text.split("/")
    return all(_is_level(level) for level in before) and (last == "#" or _is_level(last))


def _is_level(level: str) -> bool:
    return level == "+" or not ("+" in level or "#" in level)


def connack(code: ConnectCode) -> bytes:
    """CONNACK; "session present" is never set, because a session ends with its connection."""
    return bytes((Kind.CONNACK << 4, 2, 0, code))


def publish(message: Message, packet_id: int) -> bytes:
    """PUBLISH; ``packet_id`` counts with QoS above 0 only."""
    topic = message.topic.encode()
    identifier = packet_id.to_bytes(2) if message.qos else b""
    first = Kind.PUBLISH << 4 | message.qos << 1 | message.retain
    length = 2 + len(topic) + len(identifier) + len(message.payload)
    return b"".join(
        (
            bytes((first,)),
            _encoded_length(length),
            len(topic).to_bytes(2),
            topic,
            identifier,
            message.payload,
        )
    )


def acknowledgement(kind: Kind, packet_id: int) -> bytes:
    """PUBACK, PUBREC, PUBREL, PUBCOMP or UNSUBACK."""
    flags = 2 if kind == Kind.PUBREL else 0
    return bytes((kind << 4 | flags, 2)) + packet_id.to_bytes(2)


def suback(packet_id: int, codes: list[int]) -> bytes:
    """SUBACK: the QoS granted for each filter, or 0x80 for one that is refused (3.9.3)."""
    return (
        bytes((Kind.SUBACK << 4,))
        + _encoded_length(2 + len(codes))
        + packet_id.to_bytes(2)
        + bytes(codes)
    )


def pingresp() -> bytes:
    """PINGRESP."""
    return bytes((Kind.PINGRESP << 4, 0))


def _encoded_length(length: int) -> bytes:
    encoded = bytearray()
    while True:
        length, digit = length >> 7, length & 0x7F
        encoded.append(digit | 0x80 if length else digit)
        if not length:
            return bytes(encoded)


def _require_flags(first: int) -> None:
    """Reject reserved flags (2.2.2) before the rest of the packet arrives."""
    kind, flags = first >> 4, first & 0x0F
    expected = 2 if kind in (Kind.PUBREL, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE) else 0
    if kind != Kind.PUBLISH and flags != expected:
        _refuse(f"reserved flags {flags:#x} in a packet of type {kind}")


def _decoded(first: int, body: bytes) -> Packet:
    kind, flags = first >> 4, first & 0x0F
    if kind == Kind.PUBLISH:
        return _decoded_publish(flags, _Fields(body))
    fields = _Fields(body)
    packet: Packet
    match kind:
        case Kind.CONNECT:
            packet = _decoded_connect(fields)
        case Kind.SUBSCRIBE:
            packet = Subscribe(fields.identifier(), tuple(_filters_with_qos(fields)))
        case Kind.UNSUBSCRIBE:
            packet = Unsubscribe(fields.identifier(), tuple(_filters(fields)))
        case Kind.PUBACK | Kind.PUBREC | Kind.PUBREL | Kind.PUBCOMP:
            packet = Acknowledgement(Kind(kind), fields.identifier())
        case Kind.PINGREQ | Kind.DISCONNECT:
            packet = Signal(Kind(kind))
        case _:
            _refuse(f"packet of type {kind}, which no client sends")
    if not fields.are_read:
        _refuse(f"bytes after the end of a packet of type {kind}")
    if isinstance(packet, Subscribe | Unsubscribe) and not packet.filters:
        _refuse("subscription without a topic filter")
    return packet


def _decoded_connect(fields: _Fields) -> Connect:
    name, level = fields.text(), fields.number(1)
    if (name, level) != (_PROTOCOL_NAME, _PROTOCOL_LEVEL):
        raise UnacceptableProtocol(
            f"protocol {name!r} level {level}, expected MQTT level 4 (3.1.1)"
        )
    flags = fields.number(1)
    has_will, will_qos, will_retain = bool(flags & 4), flags >> 3 & 3, bool(flags & 0x20)
    if flags & 1 or will_qos == 3 or (not has_will and flags & 0x38):
        _refuse(f"flags {flags:#x} of CONNECT")
    keepalive_s = fields.number(2)
    client_id = fields.text()
    will = None
    if has_will:
        topic, payload = fields.text(), fields.binary()
        if not is_topic(topic):
            _refuse("will with a topic that cannot be published to")
        will = Message(topic, payload, will_qos, will_retain)
    username = fields.text() if flags & 0x80 else None
    password = fields.binary() if flags & 0x40 else None
    return Connect(client_id, bool(flags & 2), keepalive_s, will, username, password)


def _decoded_publish(flags: int, fields: _Fields) -> Publish:
    qos = flags >> 1 & 3
    if qos == 3:
        _refuse("PUBLISH with QoS 3")
    topic = fields.text()
    if not is_topic(topic):
        _refuse("PUBLISH to a topic that is empty or has a wildcard")
    packet_id = fields.identifier() if qos else 0
    return Publish(Message(topic, fields.rest(), qos, bool(flags & 1)), packet_id)


def _filters_with_qos(fields: _Fields) -> Iterator[tuple[str, int]]:
    while not fields.are_read:
        text, qos = fields.text(), fields.number(1)
        if qos > 2:
            _refuse(f"subscription with QoS {qos}")
        yield text, qos


def _filters(fields: _Fields) -> Iterator[str]:
    while not fields.are_read:
        yield fields.text()


class _Fields:
    """Reads the fields of one packet's body, one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def are_read(self) -> bool:
        return self._at == len(self._body)

    def number(self, size_bytes: int) -> int:
        return int.from_bytes(self._take(size_bytes))

    def identifier(self) -> int:
        """A packet identifier, which is never 0 (2.3.1)."""
        found = self.number(2)
        if not found:
            _refuse("packet identifier 0")
        return found

    def binary(self) -> bytes:
        return self._take(self.number(2))

    def text(self) -> str:
        try:
            return self.binary().decode()
        except UnicodeDecodeError:
            _refuse("text that is not UTF-8")

    def rest(self) -> bytes:
        return self._take(len(self._body) - self._at)

    def _take(self, size_bytes: int) -> bytes:
        found = self._body[self._at : self._at + size_bytes]
        if len(found) < size_bytes:
            _refuse("packet that ends within a field")
        self._at += size_bytes
        return found


def _refuse(what: str) -> NoReturn:
    raise MalformedMqttPacket(what)
