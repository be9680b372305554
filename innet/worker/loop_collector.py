"""The ends of a node's operations in an event loop, without a thread in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from innet._native import _core

_log = logging.getLogger(__name__)


class LoopCollector:
    """Calls back in an event loop, in which all its methods are called."""

    def __init__(self, node: _core.Node) -> None:
        """The loop is the running one.

        Raises:
            RuntimeError: no loop runs, or no file descriptor is left.
        """
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._queue = _core.CompletionQueue(node)
        self._callbacks: dict[int, Callable[[int, str], None]] = {}
        self._loop.add_reader(self._queue.fd, self._deliver_ended)

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback(status, detail)`` when ``operation`` ends."""
        self._callbacks[operation] = callback
        self._queue.add(operation)

    def deliver_quietly(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback(status, detail)`` with that of an operation that ends at the same time
        or later."""
        self._callbacks[operation] = callback
        self._queue.add_quietly(operation)

    def hasten(self, operation: int) -> None:
        """From now on, tell of an operation that was to be delivered quietly as of all others; one
        that waits for others to begin does so now."""
        self._queue.hasten(operation)

    def cancel(self, operation: int) -> None:
        """Give the operation up."""
        self._node.cancel(operation)

    def close(self) -> None:
        """Call nobody back any more."""
        self._loop.remove_reader(self._queue.fd)
        self._callbacks.clear()

    def _deliver_ended(self) -> None:
        for operation, status, detail in self._queue.take():
            callback = self._callbacks.pop(operation, None)
            if callback is None:
                continue
            try:
                callback(status, detail)
            except Exception:  # the ends that were taken with it must not be lost
                _log.exception("a callback of an operation failed")
