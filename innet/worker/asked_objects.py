"""Who is told of the objects that others ask a node for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from innet._native import _core
from innet.worker.collector import Delivery

AskedObject = tuple[str, _core.KeptObject | list[int | None] | None]
"""The name of an object that was asked for, and what the node has done about it by itself: nothing,
or it keeps the object, or has tried to do a request, whose fetches ended with these statuses."""

OnAsked = Callable[[Sequence[AskedObject]], None]
"""Told of objects that were asked for, in that order; it is not to wait for anybody."""


@dataclass(frozen=True, slots=True)
class _Listener:
    on_asked: OnAsked
    delivery: Delivery


class AskedObjects:
    """Tells each listener of a node of the objects under its prefix that the node is asked for.

    A node has one, for what it was asked is told but once.
    """

    def __init__(self, node: _core.NodeHandle) -> None:
        """Nobody listens yet."""
        self._node = node
        self._lock = threading.RLock()  # a simulated operation may end as soon as it begins
        self._listeners: dict[str, _Listener] = {}
        self._watch: int | None = None

    def listen(self, prefix: str, on_asked: OnAsked, delivery: Delivery) -> None:
        """Tell ``on_asked`` of objects under ``prefix`` from now on, in place of who was before.

        Where several listen, it may be called wherever the ``delivery`` of any of them calls back.
        """
        with self._lock:
            self._listeners[prefix] = _Listener(on_asked, delivery)
            if self._watch is None:
                self._begin()

    def ignore(self, prefix: str) -> None:
        """Tell nobody of objects under ``prefix`` any more.

        Raises:
            RuntimeError: the node does not run any more.
        """
        with self._lock:
            self._listeners.pop(prefix, None)
            if self._watch is not None:
                # It may be the delivery of who goes that would have told of its end.
                self._node.cancel(self._watch)
                self._watch = None
                if self._listeners:
                    self._begin()

    def tell(self) -> None:
        """Tell now of what the node was asked for until now.

        Raises:
            RuntimeError: the node does not run any more.
        """
        with self._lock:  # what another thread has taken, it has told of when this returns
            self._tell(self._node.take_objects_asked())

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
            asked = self._node.take_objects_asked()
            self._begin()
            self._tell(asked)

    def _tell(self, asked: Sequence[AskedObject]) -> None:
        if not asked:
            return
        for prefix, listener in tuple(self._listeners.items()):
            below = f"{prefix}/"
            if theirs := [one for one in asked if one[0].startswith(below)]:
                listener.on_asked(theirs)
