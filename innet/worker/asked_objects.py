"""Who is told of the objects that others ask a node for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from innet._native import _core

if TYPE_CHECKING:  # collectives import workers
    from innet.collectives.work import Completion

OnAsked = Callable[[Sequence[str]], None]
"""Told the names of objects that were asked for, in that order."""


class AskedObjects:
    """Tells each listener of a node of the objects under its prefix that the node is asked for.

    A node has one, for what it was asked is told but once. Listeners hear of it on the thread that
    delivers the ends of operations.
    """

    def __init__(self, node: _core.NodeHandle, collector: Completion) -> None:
        """``collector`` delivers the ends of the node's operations."""
        self._node = node
        self._collector = collector
        self._lock = threading.RLock()  # a simulated operation may end as soon as it begins
        self._listeners: dict[str, OnAsked] = {}
        self._watch: int | None = None

    def listen(self, prefix: str, on_asked: OnAsked) -> None:
        """Tell ``on_asked`` of objects under ``prefix`` from now on, in place of who was before."""
        with self._lock:
            self._listeners[prefix] = on_asked
            if self._watch is None:
                self._begin()

    def ignore(self, prefix: str) -> None:
        """Tell nobody of objects under ``prefix`` any more."""
        with self._lock:
            self._listeners.pop(prefix, None)
            if not self._listeners and self._watch is not None:
                self._collector.cancel(self._watch)

    def _begin(self) -> None:
        self._watch = watch = self._node.watch_objects()
        self._collector.deliver(watch, self._on_end)

    def _on_end(self, status: int, _detail: str) -> None:
        with self._lock:
            self._watch = None
            if status != _core.STATUS_DONE:  # the node is gone, or nobody listens
                return
            names = [str(name) for name in self._node.take_objects_asked()]
            listeners = dict(self._listeners)
            if listeners:
                self._begin()
        for prefix, on_asked in listeners.items():
            if theirs := [name for name in names if name.startswith(f"{prefix}/")]:
                on_asked(theirs)
