"""One client's connection to the embedded broker."""

from __future__ import annotations

import asyncio
import secrets
import socket
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, cast

from innet.telemetry.mqtt_packets import (
    Acknowledgement,
    Connect,
    ConnectCode,
    Kind,
    MalformedMqttPacket,
    Message,
    Packet,
    PacketParser,
    Publish,
    Signal,
    Subscribe,
    UnacceptableProtocol,
    Unsubscribe,
    acknowledgement,
    connack,
    is_filter,
    pingresp,
    publish,
    suback,
)

if TYPE_CHECKING:
    from innet.telemetry.mqtt_broker import Broker

_MAX_QOS = 1
_SUBSCRIPTION_REFUSED = 0x80
_MAX_PACKET_ID = 0xFFFF


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Upper bounds of what the broker does for one client.

    Attributes:
        connect_timeout_s: from the connection to its CONNECT.
        connect_bytes: size of CONNECT, the only packet accepted before the login.
        packet_bytes: size of any other packet.
        queued_bytes: messages that wait for a client to read; more are dropped.
        in_flight: messages with QoS 1 that the client has not acknowledged; more wait.
        filters: subscriptions.
    """

    connect_timeout_s: float = 10.0
    connect_bytes: int = 64 << 10
    packet_bytes: int = 4 << 20
    queued_bytes: int = 8 << 20
    in_flight: int = 256
    filters: int = 256


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """One socket of the broker, and the login that it requires.

    Attributes:
        login: user and password; ``None`` where the socket's permissions decide.
        machine: another machine whose clients alone have this socket; empty: this one's have.
        clients: clients of that machine at most; they take no places of others.
        topics: to which they may publish; ``None``: to all.
    """

    login: tuple[str, str] | None = None
    machine: str = ""
    clients: int = 0
    topics: frozenset[str] | None = None

    def lets_in(self, connect: Connect) -> bool:
        """Whether a client has the login."""
        if self.login is None:
            return True
        user, password = (text.encode() for text in self.login)
        is_user = secrets.compare_digest((connect.username or "").encode(), user)
        return secrets.compare_digest(connect.password or b"", password) and is_user

    def admits(self, message: Message) -> bool:
        """Whether a client may publish a message."""
        return self.topics is None or message.topic in self.topics

    def __repr__(self) -> str:
        return f"Listener(login={'none' if self.login is None else 'required'})"


class ClientSession(asyncio.Protocol):
    """The connection of one client.

    Attributes:
        listener: the socket that accepted the client.
        client_id: its name, once it has sent CONNECT.
        process: its process ID if the socket has it, else 0.
    """

    def __init__(self, broker: Broker, listener: Listener, limits: SessionLimits) -> None:
        self.listener = listener
        self.client_id = ""
        self.process = 0
        self._broker = broker
        self._limits = limits
        self._parser = PacketParser(limits.connect_bytes)
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._silence_s = limits.connect_timeout_s
        self._has_connected = False
        self._is_over = False
        self._will: Message | None = None
        self._queue: deque[Message] = deque()
        self._queued_bytes = 0
        self._is_writable = True
        self._written_bytes = 0
        self._taken_bytes = 0
        """Written bytes that the client had read when the timer of its silence was started."""
        self._retained: Iterator[bool] | None = None
        """Delivers retained messages, step by step; the client's next packets wait for its end."""
        self._in_flight: set[int] = set()
        self._last_packet_id = 0
        self._exactly_once: set[int] = set()
        """Identifiers of received messages with QoS 2 that are not released yet (4.3.3)."""

    @property
    def key(self) -> str:
        """The client's name, and its machine if that is another one."""
        machine = self.listener.machine
        return f"{self.client_id}@{machine}" if machine else self.client_id

    @property
    def source(self) -> str:
        """Where the client is, whose share of the broker it takes."""
        if self.listener.machine:
            return f"machine {self.listener.machine}"
        return f"process {self.process}" if self.process else "the port"

    # Events of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timeout for CONNECT."""
        self._transport = cast(asyncio.Transport, transport)
        self.process = _process_of(transport.get_extra_info("socket"))
        self._broker.accepted(self)
        self._expect_packet()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes; only whole packets restart the keepalive (3.1.2.10)."""
        try:
            for packet in self._parser.feed(data):
                self._take(packet)
                if self._is_over or self._retained is not None:
                    return
        except UnacceptableProtocol:
            self._refuse(ConnectCode.UNACCEPTABLE_PROTOCOL)
        except MalformedMqttPacket:
            self.abort()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read; its messages are queued."""
        self._is_writable = False
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_writable = True
        self._send_queued()
        self._deliver_retained()
        self._listen()

    def connection_lost(self, _: Exception | None) -> None:
        """Publish the will, and unregister the client."""
        self._end()

    # Calls of the broker.

    def deliver(self, message: Message) -> None:
        """Send a message, or queue it until the client reads; a full queue drops it."""
        if self._queued_bytes + message.size_bytes > self._limits.queued_bytes:
            self._broker.counters.dropped += 1
            return
        self._queue.append(message)
        self._queued_bytes += message.size_bytes
        self._send_queued()

    def abort(self) -> None:
        """End the connection at once, and publish the client's will if it has one."""
        self._transport.abort()
        self._end()

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._queue.clear()
        self._retained = None
        self._broker.disconnected(self)
        if self._will is not None:
            self._broker.publish(self._will, self.client_id)

    def _part(self) -> None:
        """Handle DISCONNECT: the will is discarded (3.14).

        Unread messages are dropped: otherwise a client that disconnects and does not read would
        keep its connection, which no limit counts any more.
        """
        self._will = None
        self.abort()

    def _expect_packet(self) -> None:
        """Close the connection unless a packet arrives in time."""
        if self._timer is not None:
            self._timer.cancel()
        if self._silence_s:
            self._taken_bytes = self._read_by_client()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._silence_s, self._on_silence)

    def _on_silence(self) -> None:
        # While the broker does not read from a slow client, the client's reads are its keepalive.
        if not self._is_listened_to() and self._read_by_client() > self._taken_bytes:
            self._expect_packet()
            return
        if not self._has_connected:
            self._broker.counters.silent_closed += 1
        self.abort()

    def _is_listened_to(self) -> bool:
        return self._is_writable and self._retained is None

    def _read_by_client(self) -> int:
        return self._written_bytes - self._transport.get_write_buffer_size()

    def _listen(self) -> None:
        """Read from the client again, first the packets that were received before."""
        if self._is_listened_to() and not self._is_over and not self._transport.is_reading():
            self._transport.resume_reading()
            self._expect_packet()
            self.data_received(b"")

    # Packets.

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, Connect) == self._has_connected:
            raise MalformedMqttPacket("CONNECT comes first, and once (3.1)")
        match packet:
            case Connect():
                self._connect(packet)
            case Publish():
                self._published(packet)
            case Subscribe():
                self._subscribe(packet)
            case Unsubscribe():
                for topic_filter in packet.filters:
                    self._broker.unsubscribe(self, topic_filter)
                self._write(acknowledgement(Kind.UNSUBACK, packet.packet_id))
            case Acknowledgement():
                self._acknowledged(packet)
            case Signal(Kind.PINGREQ):
                self._write(pingresp())
            case Signal():
                self._part()
        if not self._is_over:
            self._expect_packet()

    def _connect(self, packet: Connect) -> None:
        if not packet.client_id and not packet.clean_session:
            return self._refuse(ConnectCode.IDENTIFIER_REJECTED)
        if not self.listener.lets_in(packet):
            return self._refuse(ConnectCode.NOT_AUTHORIZED)
        self.client_id = packet.client_id or f"innet-{secrets.token_hex(8)}"
        if not self._broker.admit(self):
            return self._refuse(ConnectCode.SERVER_UNAVAILABLE)
        self._has_connected = True
        self._will = packet.will if packet.will and self.listener.admits(packet.will) else None
        self._parser.max_packet_bytes = self._limits.packet_bytes
        self._silence_s = 1.5 * packet.keepalive_s
        self._write(connack(ConnectCode.ACCEPTED))
        return None

    def _refuse(self, code: ConnectCode) -> None:
        self._broker.counters.refused += 1
        self._write(connack(code))
        self._transport.close()
        self._end()

    def _published(self, packet: Publish) -> None:
        message, packet_id = packet.message, packet.packet_id
        if message.qos == 2:
            is_new = packet_id not in self._exactly_once
            self._exactly_once.add(packet_id)
            self._write(acknowledgement(Kind.PUBREC, packet_id))
            if not is_new:
                return
        elif message.qos == 1:
            self._write(acknowledgement(Kind.PUBACK, packet_id))
        if self.listener.admits(message):
            self._broker.publish(message, self.client_id)
        else:
            self._broker.refuse_topic(self, message.topic)

    def _subscribe(self, packet: Subscribe) -> None:
        codes: list[int] = []
        granted: list[tuple[str, int]] = []
        room = self._limits.filters - self._broker.subscriptions_of(self)
        for topic_filter, qos in packet.filters:
            if len(granted) < room and is_filter(topic_filter):
                granted.append((topic_filter, min(qos, _MAX_QOS)))
                codes.append(granted[-1][1])
            else:
                codes.append(_SUBSCRIPTION_REFUSED)
        self._write(suback(packet.packet_id, codes))
        # Subscribed to all filters before anything retained is sent: no message falls in between.
        deliveries = [self._broker.subscribe(self, *each) for each in granted]
        self._retained = chain.from_iterable(deliveries)
        self._transport.pause_reading()
        asyncio.get_running_loop().call_soon(self._deliver_retained)

    def _deliver_retained(self) -> None:
        """Deliver some retained messages, and continue in the next iteration of the event loop.

        A client that reads slowly gets the others as it reads: they do not fill its queue.
        """
        if self._retained is None or not self._is_writable:
            return
        for ends_step in self._retained:
            if not self._is_writable:
                return
            if ends_step:
                asyncio.get_running_loop().call_soon(self._deliver_retained)
                return
        self._retained = None
        self._listen()

    def _acknowledged(self, packet: Acknowledgement) -> None:
        if packet.kind == Kind.PUBREL:
            self._exactly_once.discard(packet.packet_id)
            self._write(acknowledgement(Kind.PUBCOMP, packet.packet_id))
        elif packet.kind == Kind.PUBACK:
            self._in_flight.discard(packet.packet_id)
            self._send_queued()

    def _send_queued(self) -> None:
        while self._queue and self._is_writable:
            message = self._queue[0]
            if message.qos and len(self._in_flight) >= self._limits.in_flight:
                return
            self._queue.popleft()
            self._queued_bytes -= message.size_bytes
            self._broker.counters.delivered += 1
            self._write(publish(message, self._next_packet_id() if message.qos else 0))

    def _next_packet_id(self) -> int:
        """An identifier that no unacknowledged message has."""
        while True:
            self._last_packet_id = self._last_packet_id % _MAX_PACKET_ID + 1
            if self._last_packet_id not in self._in_flight:
                self._in_flight.add(self._last_packet_id)
                return self._last_packet_id

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._written_bytes += len(data)
            self._transport.write(data)


def _process_of(connection: socket.socket) -> int:
    """The process ID of the peer of a Unix socket; 0 if unknown."""
    if connection.family != socket.AF_UNIX:
        return 0
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[0])
