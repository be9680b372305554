"""The retained messages of a broker: the last one of each topic."""

from __future__ import annotations

from collections.abc import Iterator

from innet.telemetry.mqtt_packets import Message
from innet.telemetry.subscriptions import has_wildcards, matches

_STEP = 1 << 16
"""Work between two pauses, in characters that are compared: 1 ms or so."""
_PER_TOPIC = 64
"""Work of looking at a topic, beside the characters."""
_PAYLOAD_PER_CHARACTER = 64
"""Bytes of payload that are sent in the time in which a character is compared."""


class RetainedMessages:
    """Bounded in memory.

    Attributes:
        size_bytes: memory of all messages.
    """

    def __init__(self, max_bytes: int) -> None:
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._messages: dict[str, Message] = {}

    def set(self, message: Message) -> bool:
        """Keep the last message of a topic; an empty one takes it back (MQTT 3.1.1, 3.3.1.3).

        Returns:
            whether there was room; without, the topic has none any more.
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
        """The messages that a filter includes, as they are when their turn comes.

        ``None`` comes after each millisecond of work or so. Messages may be set in between.
        """
        if not has_wildcards(topic_filter):
            message = self._messages.get(topic_filter)
            if message is not None:
                yield message
            yield None  # a packet has many thousand filters
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
