"""MQTT 3.1.1 by hand: what well-behaved clients would not send, or not so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from innet.telemetry.embedded_broker import EmbeddedBroker
from innet.telemetry.mqtt_broker import BrokerLimits

_PATIENCE_S = 60.0
DISCONNECT = bytes((0xE0, 0))
PINGREQ = bytes((0xC0, 0))


def text(value: str) -> bytes:
    return len(value.encode()).to_bytes(2) + value.encode()


def packet(first: int, body: bytes) -> bytes:
    length, encoded = len(body), bytearray()
    while True:
        length, digit = divmod(length, 128)
        encoded.append(digit | 128 if length else digit)
        if not length:
            return bytes((first,)) + bytes(encoded) + body


def connect(
    client_id: str = "",
    *,
    login: tuple[str, str] | None = None,
    will: tuple[str, bytes] | None = None,
    keepalive_s: int = 0,
) -> bytes:
    flags = 2 | (0x04 if will else 0) | (0xC0 if login else 0)
    body = text("MQTT") + bytes((4, flags)) + keepalive_s.to_bytes(2) + text(client_id)
    if will is not None:
        body += text(will[0]) + len(will[1]).to_bytes(2) + will[1]
    return packet(0x10, body + b"".join(text(part) for part in login or ()))


def publish(topic: str, payload: bytes, *, retain: bool = False) -> bytes:
    return packet(0x30 | retain, text(topic) + payload)


def subscribe(topic_filter: str, qos: int = 0) -> bytes:
    return packet(0x82, b"\0\1" + text(topic_filter) + bytes((qos,)))


class RawClient:
    """A connection to a broker; sends what it is told, and reads packets."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *packets: bytes) -> None:
        self.writer.write(b"".join(packets))

    async def read(self) -> tuple[int, bytes]:
        """The first byte and the body of the next packet."""
        async with asyncio.timeout(_PATIENCE_S):
            first = (await self.reader.readexactly(1))[0]
            length = shift = 0
            while True:
                byte = (await self.reader.readexactly(1))[0]
                length |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return first, await self.reader.readexactly(length)

    async def messages(self, count: int) -> list[tuple[str, bytes]]:
        """The next so many messages, of QoS 0."""
        found: list[tuple[str, bytes]] = []
        while len(found) < count:
            first, body = await self.read()
            if first & 0xF0 == 0x30:
                end = 2 + int.from_bytes(body[:2])
                found.append((body[2:end].decode(), body[end:]))
        return found

    async def until_closed(self) -> bytes:
        """All bytes until the broker closes the connection."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(_PATIENCE_S):
                return await self.reader.read()
        return b""


@contextlib.asynccontextmanager
async def raw_client(where: Path | int, *packets: bytes) -> AsyncIterator[RawClient]:
    """A client of a socket, or of a port of loopback, that sends ``packets`` at once."""
    reader, writer = await (
        asyncio.open_connection("127.0.0.1", where)
        if isinstance(where, int)
        else asyncio.open_unix_connection(where)
    )
    try:
        client = RawClient(reader, writer)
        client.send(*packets)
        yield client
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def embedded(
    tmp_path: Path, limits: BrokerLimits | None = None
) -> AsyncIterator[tuple[EmbeddedBroker, Path]]:
    """The embedded broker, on a socket and on a port."""
    broker_socket = tmp_path / "broker.sock"
    async with EmbeddedBroker(broker_socket, 0, limits) as broker:
        yield broker, broker_socket
