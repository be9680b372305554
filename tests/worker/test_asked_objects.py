"""Objects that a node is asked for: every listener hears of its own, whoever comes and goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from innet._native import _core
from innet.worker.collector import AskedObject, AskedObjects


class Node:
    """Stands in for the native node: a watch ends as soon as something was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.watches: list[int] = []
        self._begun = 0

    def watch_objects(self) -> int:
        self._begun += 1
        self.watches.append(self._begun)
        return self._begun

    def take_requested_objects(self) -> list[AskedObject]:
        asked, self.asked = self.asked, []
        return [(name, None) for name in asked]

    def cancel(self, watch: int) -> None:
        self.watches.remove(watch)


class Delivery:
    """Calls back when it is told to."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._callbacks: dict[int, Callable[[int, str], None]] = {}

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        self._callbacks[operation] = callback

    def cancel(self, operation: int) -> None:
        self._node.cancel(operation)

    def end(self, status: int) -> None:
        """End the watches that this one is to tell of."""
        for watch in [w for w in self._node.watches if w in self._callbacks]:
            self._node.watches.remove(watch)
            self._callbacks.pop(watch)(status, "")


class Heard:
    """What a listener was told."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, asked: Sequence[AskedObject]) -> None:
        self.names += [name for name, _ in asked]


def ask(node: Node, *names: str, deliveries: Sequence[Delivery]) -> None:
    node.asked += names
    for delivery in deliveries:
        delivery.end(_core.STATUS_DONE)


def listening(node: Any) -> tuple[AskedObjects, list[Delivery], list[Heard]]:
    asked, deliveries, heard = AskedObjects(node), [Delivery(node), Delivery(node)], []
    for prefix, delivery in zip(("/kv/a", "/kv/b"), deliveries, strict=True):
        heard.append(Heard())
        asked.listen(prefix, heard[-1], delivery)
    return asked, deliveries, heard


def test_each_listener_receives_requests_for_its_own_objects_repeatedly() -> None:
    node = Node()
    _, deliveries, (first, second) = listening(node)
    for number in range(3):
        names = (f"/kv/a/{number}", f"/kv/b/{number}", "/kv/ab/0", "/j1/g0/obj/0/x")
        ask(node, *names, deliveries=deliveries)
    assert first.names == ["/kv/a/0", "/kv/a/1", "/kv/a/2"]
    assert second.names == ["/kv/b/0", "/kv/b/1", "/kv/b/2"]


def test_remaining_listeners_still_receive_when_others_leave() -> None:
    node = Node()
    asked, (_, staying), (first, second) = listening(node)
    asked.ignore("/kv/a")  # whose delivery would have told of the next, and is gone
    ask(node, "/kv/a/0", "/kv/b/0", deliveries=[staying])
    assert (first.names, second.names) == ([], ["/kv/b/0"])
    asked.ignore("/kv/b")
    assert node.watches == []


def test_a_listener_on_a_restarted_node_receives() -> None:
    node = Node()
    asked, deliveries, (first, _) = listening(node)
    deliveries[0].end(_core.STATUS_ABORTED)
    assert node.watches == []
    asked.listen("/kv/a", first, deliveries[0])
    ask(node, "/kv/a/0", deliveries=deliveries)
    assert first.names == ["/kv/a/0"]
