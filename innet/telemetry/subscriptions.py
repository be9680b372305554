"""Subscriptions of a broker's clients, by MQTT topic filters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Subscriber = TypeVar("Subscriber")


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
