"""Reports the objects that other nodes request from a node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from innet._native import _core
from innet.worker.collector import Delivery

AskedObject = tuple[str, _core.KeptObject | list[int | None] | None]
"""The name of a requested object, and what the node has done about it on its own: nothing; it keeps
the object; or it has carried out a request, whose fetches ended with these statuses."""

OnAsked = Callable[[Sequence[AskedObject]], None]
"""Receives requested objects in the order of the requests; it must not block."""


@dataclass(frozen=True, slots=True)
class _Listener:
    on_asked: OnAsked
    delivery: Delivery


class AskedObjects:
    """Reports to each listener the requested objects under its prefix.

    A node has one, because it reports each request once.
    """

    def __init__(self, node: _core.NodeHandle) -> None:
        """Nobody listens yet."""
        self._node = node
        self._lock = threading.RLock()  # a simulated operation may end as soon as it begins
        self._listeners: dict[str, _Listener] = {}
        self._watch: int | None = None

    def listen(self, prefix: str, on_asked: OnAsked, delivery: Delivery) -> None:
        """Report objects under ``prefix`` to ``on_asked``, in place of the listener before.

        Where several listen, it may be called wherever the ``delivery`` of any of them calls back.
        """
        with self._lock:
            self._listeners[prefix] = _Listener(on_asked, delivery)
            if self._watch is None:
                self._begin()

    def ignore(self, prefix: str) -> None:
        """Stop reporting objects under ``prefix``.

        Raises:
            RuntimeError: the node has stopped.
        """
        with self._lock:
            self._listeners.pop(prefix, None)
            if self._watch is not None:
                # The watch may use the delivery of the listener that leaves.
                self._node.cancel(self._watch)
                self._watch = None
                if self._listeners:
                    self._begin()

    def tell(self) -> None:
        """Report now what the node was asked for until now.

        Raises:
            RuntimeError: the node has stopped.
        """
        with self._lock:  # waits for another thread that is reporting
            self._tell(self._node.take_requested_objects())

    def _begin(self) -> None:
        self._watch = watch = self._node.watch_objects()
        delivery = next(iter(self._listeners.values())).delivery
        delivery.deliver(watch, partial(self._on_end, watch))

    def _on_end(self, watch: int, status: int, _detail: str) -> None:
        with self._lock:
            if watch != self._watch:
                return
            self._watch = None
            if status != _core.STATUS_DONE:  # the node is gone
                return
            asked = self._node.take_requested_objects()
            self._begin()
            self._tell(asked)

    def _tell(self, asked: Sequence[AskedObject]) -> None:
        if not asked:
            return
        for prefix, listener in tuple(self._listeners.items()):
            below = f"{prefix}/"
            if theirs := [one for one in asked if one[0].startswith(below)]:
                listener.on_asked(theirs)
