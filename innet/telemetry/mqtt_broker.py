"""A small MQTT 3.1.1 broker for asyncio.

It has QoS 0 and 1 in both directions and takes QoS 2, retained messages, wills, keepalive and
wildcards. A session ends with its connection, whatever the client asks for; a subscription with
QoS 2 is granted QoS 1. Everything that a client can make the broker hold has a bound
(:class:`BrokerLimits`).

:class:`Broker` has the sessions and what is retained; ``mqtt_session`` has one client's connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from innet.telemetry.mqtt_packets import Message
from innet.telemetry.mqtt_session import ClientSession, Listener, SessionLimits
from innet.telemetry.subscriptions import Subscriptions, matches

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What a broker holds at most.

    Attributes:
        clients: clients that have logged in.
        clients_of_process: those of one process, which only a Unix socket tells.
        silent: connections of each listener that have not sent CONNECT; one more closes the oldest.
        retained_bytes: memory of retained messages.
        session: of each client.
    """

    clients: int = 256
    clients_of_process: int = 32
    silent: int = 64
    retained_bytes: int = 64 << 20
    session: SessionLimits = field(default_factory=SessionLimits)


@dataclass(slots=True)
class BrokerCounters:
    """What a broker has done since it was made.

    Attributes:
        delivered: messages handed to subscribers.
        dropped: messages that a subscriber's full queue had no room for.
        silent_closed: connections that ended before they sent CONNECT, by time or for others.
        refused: clients with a wrong login, or beyond a limit.
    """

    delivered: int = 0
    dropped: int = 0
    silent_closed: int = 0
    refused: int = 0


class Broker:
    """Sessions, subscriptions and retained messages; belongs to one event loop."""

    def __init__(self, limits: BrokerLimits | None = None) -> None:
        self.limits = limits or BrokerLimits()
        self.counters = BrokerCounters()
        self._sessions: dict[str, ClientSession] = {}
        self._of_process: Counter[int] = Counter()
        self._silent: dict[Listener, dict[ClientSession, None]] = {}
        self._subscriptions: Subscriptions[ClientSession] = Subscriptions()
        self._retained: dict[str, Message] = {}
        self._retained_bytes = 0

    @property
    def connections(self) -> int:
        """Open connections, whether they have logged in or not."""
        return len(self._sessions) + sum(len(silent) for silent in self._silent.values())

    def protocol_for(self, listener: Listener) -> Callable[[], asyncio.Protocol]:
        """Makes the protocol of each connection that a listener accepts."""
        return lambda: ClientSession(self, listener, self.limits.session)

    def close(self) -> None:
        """End all connections; nobody is left to tell of it."""
        self._subscriptions = Subscriptions()
        silent = [session for group in self._silent.values() for session in group]
        for session in [*self._sessions.values(), *silent]:
            session.abort()

    # What sessions tell the broker.

    def accepted(self, session: ClientSession) -> None:
        """A connection is open. The oldest silent one makes room for it where there is none."""
        silent = self._silent.setdefault(session.listener, {})
        if len(silent) >= self.limits.silent:
            self.counters.silent_closed += 1
            next(iter(silent)).abort()
        silent[session] = None

    def admit(self, session: ClientSession) -> bool:
        """Whether a client that knows the login may stay, instead of one with the same name."""
        earlier = self._sessions.get(session.client_id)
        if earlier is not None:  # its will comes before anything that the new one says
            earlier.abort()
        process = session.process
        if len(self._sessions) >= self.limits.clients or (
            process and self._of_process[process] >= self.limits.clients_of_process
        ):
            _log.warning(
                "the run's MQTT broker refuses client %r: %d clients are connected, %d of them of "
                "process %s. Close some of them",
                session.client_id,
                len(self._sessions),
                self._of_process[process],
                process or "unknown",
            )
            return False
        del self._silent[session.listener][session]
        self._sessions[session.client_id] = session
        self._of_process[process] += 1
        return True

    def parted(self, session: ClientSession) -> None:
        """A connection is over."""
        self._silent.get(session.listener, {}).pop(session, None)
        self._subscriptions.forget(session)
        if self._sessions.get(session.client_id) is session:
            del self._sessions[session.client_id]
            self._of_process[session.process] -= 1
            if not self._of_process[session.process]:
                del self._of_process[session.process]

    def publish(self, message: Message) -> None:
        """Hand a message to all who have subscribed to its topic, and keep it if it says so."""
        if message.retain:
            self._retain(message)
        for session, granted_qos in self._subscriptions.of(message.topic):
            qos = min(message.qos, granted_qos)
            session.deliver(Message(message.topic, message.payload, qos))

    def subscribe(self, session: ClientSession, topic_filter: str, qos: int) -> None:
        """Subscribe a session, and deliver what is retained below the filter."""
        self._subscriptions.add(session, topic_filter, qos)
        for message in list(self._retained.values()):
            if matches(topic_filter, message.topic):
                kept = Message(message.topic, message.payload, min(message.qos, qos), retain=True)
                session.deliver(kept)

    def subscriptions_of(self, session: ClientSession) -> int:
        """How many filters a session has."""
        return self._subscriptions.count(session)

    def unsubscribe(self, session: ClientSession, topic_filter: str) -> None:
        """Unsubscribe a session."""
        self._subscriptions.remove(session, topic_filter)

    def _retain(self, message: Message) -> None:
        """Keep the last message of a topic; an empty one takes it back (3.3.1.3)."""
        former = self._retained.pop(message.topic, None)
        if former is not None:
            self._retained_bytes -= former.size_bytes
        if not message.payload:
            return
        if self._retained_bytes + message.size_bytes > self.limits.retained_bytes:
            _log.warning(
                "the run's MQTT broker does not retain %r: it keeps %d bytes, of at most %d",
                message.topic,
                self._retained_bytes,
                self.limits.retained_bytes,
            )
            return
        self._retained[message.topic] = message
        self._retained_bytes += message.size_bytes
