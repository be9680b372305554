"""A small MQTT 3.1.1 broker for asyncio.

It supports QoS 0 and 1 in both directions, accepts QoS 2 from publishers, and supports retained
messages, wills, keepalive and wildcards. A session ends with its connection, even if the client
requests a persistent one; a subscription with QoS 2 is granted QoS 1. All memory that a client can
make the broker use is bounded (:class:`BrokerLimits`).

:class:`Broker` has the sessions, their :class:`Subscriptions` and the :class:`RetainedMessages`;
``mqtt_session`` has one client's connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from innet.telemetry.mqtt_packets import Message
from innet.telemetry.mqtt_session import ClientSession, Listener, SessionLimits

Subscriber = TypeVar("Subscriber")

_STEP = 1 << 16
"""Work between two pauses, in compared characters: about 1 ms."""
_PER_TOPIC = 64
"""Work per topic, in addition to its characters."""
_PAYLOAD_PER_CHARACTER = 64
"""Bytes of payload that are sent in the time of comparing one character."""


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter includes a topic (MQTT 3.1.1, section 4.7).

    >>> matches("innet/lab/#", "innet/lab/nodes/s0/event"), matches("innet/+", "innet/lab/nodes")
    (True, False)
    """
    return _includes(topic_filter.split("/"), topic.split("/"))


def has_wildcards(topic_filter: str) -> bool:
    """Whether a filter can include several topics.

    >>> has_wildcards("innet/+"), has_wildcards("innet/lab")
    (True, False)
    """
    return "+" in topic_filter or "#" in topic_filter


def _includes(levels: list[str], topic: list[str]) -> bool:
    if topic[0].startswith("$") and levels[0] in ("+", "#"):
        return False
    for position, level in enumerate(levels):
        if level == "#":
            return True  # `a/#` includes `a`, too
        if position == len(topic) or level not in ("+", topic[position]):
            return False
    return len(levels) == len(topic)


class Subscriptions(Generic[Subscriber]):
    """The filters of all subscribers, with the granted QoS.

    Filters without wildcards are looked up by topic; those with wildcards are matched one by one.
    """

    def __init__(self) -> None:
        self._exact: dict[str, dict[Subscriber, int]] = {}
        self._wild: dict[str, dict[Subscriber, int]] = {}
        self._filters: dict[Subscriber, set[str]] = {}

    def add(self, subscriber: Subscriber, topic_filter: str, qos: int) -> None:
        """Subscribe; a filter that the subscriber has already gets the new QoS."""
        self._table(topic_filter).setdefault(topic_filter, {})[subscriber] = qos
        self._filters.setdefault(subscriber, set()).add(topic_filter)

    def remove(self, subscriber: Subscriber, topic_filter: str) -> None:
        """Unsubscribe, if the subscriber has that filter."""
        filters = self._filters.get(subscriber, set())
        if topic_filter not in filters:
            return
        filters.remove(topic_filter)
        table = self._table(topic_filter)
        del table[topic_filter][subscriber]
        if not table[topic_filter]:
            del table[topic_filter]

    def forget(self, subscriber: Subscriber) -> None:
        """Remove a subscriber with all filters."""
        for topic_filter in list(self._filters.get(subscriber, ())):
            self.remove(subscriber, topic_filter)
        self._filters.pop(subscriber, None)

    def count(self, subscriber: Subscriber) -> int:
        """The number of a subscriber's filters."""
        return len(self._filters.get(subscriber, ()))

    def of(self, topic: str) -> Iterable[tuple[Subscriber, int]]:
        """Each subscriber to a topic once, with the highest QoS of its matching filters."""
        found: dict[Subscriber, int] = {}
        for granted in self._granted(topic):
            for subscriber, qos in granted.items():
                found[subscriber] = max(qos, found.get(subscriber, 0))
        return found.items()

    def _granted(self, topic: str) -> Iterator[dict[Subscriber, int]]:
        exact = self._exact.get(topic)
        if exact is not None:
            yield exact
        levels = topic.split("/")
        for topic_filter, granted in self._wild.items():
            if _includes(topic_filter.split("/"), levels):
                yield granted

    def _table(self, topic_filter: str) -> dict[str, dict[Subscriber, int]]:
        return self._wild if has_wildcards(topic_filter) else self._exact


class RetainedMessages:
    """The last message of each topic, bounded in memory.

    Attributes:
        size_bytes: memory of all messages.
    """

    def __init__(self, max_bytes: int) -> None:
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._messages: dict[str, Message] = {}

    def set(self, message: Message) -> bool:
        """Keep the last message of a topic; an empty one deletes it (MQTT 3.1.1, 3.3.1.3).

        Returns:
            whether there was room; if not, the topic has no retained message any more.
        """
        former = self._messages.pop(message.topic, None)
        if former is not None:
            self.size_bytes -= former.size_bytes
        if not message.payload:
            return True
        if self.size_bytes + message.size_bytes > self._max_bytes:
            return False
        self._messages[message.topic] = message
        self.size_bytes += message.size_bytes
        return True

    def below(self, topic_filter: str) -> Iterator[Message | None]:
        """The messages of the topics that a filter includes, current when yielded.

        Yields ``None`` after about each millisecond of work. Messages may be set in between.
        """
        if not has_wildcards(topic_filter):
            message = self._messages.get(topic_filter)
            if message is not None:
                yield message
            yield None  # a packet can have many thousand filters
            return
        work = 0
        for topic in list(self._messages):
            work += _PER_TOPIC + len(topic_filter) + len(topic)
            message = self._messages.get(topic)
            if message is not None and matches(topic_filter, topic):
                work += len(message.payload) // _PAYLOAD_PER_CHARACTER
                yield message
            if work >= _STEP:
                work = 0
                yield None
        yield None


_log = logging.getLogger(__name__)

_MAX_REPORTED = 64
"""Warnings that a broker logs in its life."""


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Upper bounds of what a broker holds.

    Attributes:
        clients: clients of this machine that have logged in.
        clients_of_process: those of one process, known only for Unix sockets.
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
    """Counters of a broker since its start.

    Attributes:
        delivered: messages handed to subscribers.
        dropped: messages that a subscriber's full queue had no room for.
        silent_closed: connections that ended before they sent CONNECT, by time or for others.
        refused: clients with a wrong login, or beyond a limit.
        not_retained: messages that were not retained, because the retained ones fill their memory.
        foreign_topics: messages of clients on other machines to topics that are not theirs.
    """

    delivered: int = 0
    dropped: int = 0
    silent_closed: int = 0
    refused: int = 0
    not_retained: int = 0
    foreign_topics: int = 0


class Broker:
    """Sessions, subscriptions and retained messages; belongs to one event loop."""

    def __init__(self, limits: BrokerLimits | None = None) -> None:
        self.limits = limits or BrokerLimits()
        self.counters = BrokerCounters()
        self._sessions: dict[str, ClientSession] = {}
        """By their keys."""
        self._of_source: Counter[str] = Counter()
        """Clients of each process of this machine, and of each other machine."""
        self._of_machine: Counter[str] = Counter()
        self._silent: dict[Listener, dict[ClientSession, None]] = {}
        self._subscriptions: Subscriptions[ClientSession] = Subscriptions()
        self._retained = RetainedMessages(self.limits.retained_bytes)
        self._reported: set[str] = set()
        """Processes and clients that were in a warning: they can repeat it without end."""

    @property
    def connections(self) -> int:
        """Open connections, whether they have logged in or not."""
        return len(self._sessions) + sum(len(silent) for silent in self._silent.values())

    def protocol_for(self, listener: Listener) -> Callable[[], asyncio.Protocol]:
        """Makes the protocol of each connection that a listener accepts."""
        return lambda: ClientSession(self, listener, self.limits.session)

    def close(self) -> None:
        """End all connections; wills reach no subscriber any more."""
        self._subscriptions = Subscriptions()
        silent = [session for group in self._silent.values() for session in group]
        for session in [*self._sessions.values(), *silent]:
            session.abort()

    # Calls of the sessions.

    def accepted(self, session: ClientSession) -> None:
        """Register a connection; at the limit, the oldest that sent no CONNECT is closed."""
        silent = self._silent.setdefault(session.listener, {})
        if len(silent) >= self.limits.silent:
            self.counters.silent_closed += 1
            next(iter(silent)).abort()
        silent[session] = None

    def admit(self, session: ClientSession) -> bool:
        """Whether a client with a correct login is accepted.

        It replaces one of the same name, on the same machine.
        """
        earlier = self._sessions.get(session.key)
        if earlier is not None:  # its will comes before anything that the new one says
            earlier.abort()
        machine, source = session.listener.machine, session.source
        clients = session.listener.clients if machine else self.limits.clients
        is_full = self._of_machine[machine] >= clients or (
            session.process
            and not machine
            and self._of_source[source] >= self.limits.clients_of_process
        )
        if is_full:
            self._warn_once(
                source,
                f"the run's MQTT broker refuses client {session.client_id!r} of {source}: "
                f"{len(self._sessions)} clients are connected, {self._of_source[source]} of them "
                "from there. Close some of them",
            )
            return False
        del self._silent[session.listener][session]
        self._sessions[session.key] = session
        self._of_source[source] += 1
        self._of_machine[machine] += 1
        return True

    def disconnected(self, session: ClientSession) -> None:
        """Remove a connection that has ended."""
        self._silent.get(session.listener, {}).pop(session, None)
        self._subscriptions.forget(session)
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]
            self._of_machine[session.listener.machine] -= 1
            self._of_source[session.source] -= 1
            if not self._of_source[session.source]:
                del self._of_source[session.source]

    def publish(self, message: Message, publisher: str) -> None:
        """Deliver a client's message to all subscribers of its topic; retain it if requested."""
        if message.retain and not self._retained.set(message):
            self._report_not_retained(message.topic, publisher)
        for session, granted_qos in self._subscriptions.of(message.topic):
            qos = min(message.qos, granted_qos)
            session.deliver(Message(message.topic, message.payload, qos))

    def subscribe(self, session: ClientSession, topic_filter: str, qos: int) -> Iterator[bool]:
        """Subscribe a session at once; what is retained below the filter is delivered step by step.

        Returns:
            what delivers the next message; true when it did work enough for one round of the loop.
        """
        self._subscriptions.add(session, topic_filter, qos)
        return self._deliver_retained(session, topic_filter, qos)

    def _deliver_retained(
        self, session: ClientSession, topic_filter: str, qos: int
    ) -> Iterator[bool]:
        for message in self._retained.below(topic_filter):
            if message is not None:
                kept = Message(message.topic, message.payload, min(message.qos, qos), retain=True)
                session.deliver(kept)
            yield message is None

    def subscriptions_of(self, session: ClientSession) -> int:
        """How many filters a session has."""
        return self._subscriptions.count(session)

    def unsubscribe(self, session: ClientSession, topic_filter: str) -> None:
        """Unsubscribe a session."""
        self._subscriptions.remove(session, topic_filter)

    def refuse_topic(self, session: ClientSession, topic: str) -> None:
        """Drop a message of a client on another machine to a topic that is not its machine's."""
        self.counters.foreign_topics += 1
        self._warn_once(
            f"topics of {session.source}",
            f"the run's MQTT broker drops a message to {topic!r} from {session.source}: it may "
            "publish to the topics of its own nodes",
        )

    def _report_not_retained(self, topic: str, publisher: str) -> None:
        self.counters.not_retained += 1
        self._warn_once(
            f"client {publisher}",
            f"the run's MQTT broker does not retain {topic!r} of client {publisher!r}: it retains "
            f"{self._retained.size_bytes} bytes, of at most {self.limits.retained_bytes}. "
            "Clear unused topics: publish an empty retained message to each",
        )

    def _warn_once(self, source: str, warning: str) -> None:
        """Log the first warning about a process or client; counters have the others."""
        if source in self._reported or len(self._reported) == _MAX_REPORTED:
            return
        self._reported.add(source)
        _log.warning("%s. More of this kind are counted and not logged", warning)
